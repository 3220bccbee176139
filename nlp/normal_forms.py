"""The characters of a text: one form of them for keys, and words that the segmentation would cut. Pure.

A key has what a person sees: full-width as plain (NFKC), Traditional as Simplified. Stored text is never touched.
Traditional to Simplified is OpenCC's `t2s`: character by character, with a table of exceptions. Its phrase tables
are not used, because they also change words of Mainland users (影片 to 视频). Case is folded elsewhere, after the
segmentation, whose dictionary has words with capitals (T恤, B超).

The segmentation cuts words of other scripts (kana, Hangul, Cyrillic and other alphabets, Latin with accents, emoji)
into single characters and so loses them; `script_spans` finds them. `split_by` splits a text by finders of such words,
of days and of names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Final, NamedTuple, TypeAlias

from nlp.once import Once

_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that no font shows: Default_Ignorable_Code_Point of Unicode 15.0, DerivedCoreProperties.txt."""
_NOT_OF_AN_EMOJI: Final = Once(
    lambda: re.compile(rf"(?!\u200d[{EMOJI_CHARACTERS}])(?:{_UNSEEN.pattern})")
)
"""A zero-width joiner before an emoji stays: people see one emoji instead of two."""


def without_unseen(text: str) -> str:
    """Return `text` without invisible characters, such as a soft hyphen or a zero-width space."""
    if text.isascii() or _UNSEEN.search(text) is None:
        return text
    return _NOT_OF_AN_EMOJI().sub("", text)


def plain(text: str) -> str:
    """Return `text` in NFKC, without invisible characters: ＧＰＴ４ is GPT4, ｶﾀｶﾅ is カタカナ, ① is 1."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", without_unseen(text))


def can_simplify() -> bool:
    """Return whether OpenCC is installed; does not load it."""
    return find_spec("opencc") is not None


def _open_converter() -> Callable[[str], str]:
    from opencc import OpenCC

    convert: Callable[[str], str] = OpenCC("t2s").convert
    return convert


_converter: Final = Once(_open_converter)


def load_simplified() -> None:
    """Load OpenCC and its table (13 ms, 7 MB), so that no extraction waits for it. Raises ImportError without it."""
    _converter()


def simplified(text: str) -> str:
    """Return `text` with Simplified characters in place of Traditional ones. Raises ImportError
    without OpenCC."""
    if text.isascii():
        return text
    return _converter()(text)


class Span(NamedTuple):
    """A stretch of a text that is one word: `text[start:end]` is read as `word`. `relative` says that it names a day
    by its distance from the day of writing (昨天, last Friday); `adverb` that the name is a word found in any sentence
    (昨天)."""

    start: int
    end: int
    word: str
    relative: bool = False
    adverb: bool = False


# Words of other scripts

_ACCENTED: Final = "À-ÖØ-öø-ɏ\u1e00-\u1eff"
_LETTERS: Final = "\u0370-\u1dff\u1f00-\u1fff\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\uac00-\ud7a3"
EMOJI_CHARACTERS: Final = "\u2600-\u27bf\u2b50\u2b55\U0001f300-\U0001faff"
"""The characters of emoji except flags, as a part of a set of a regular expression."""
_FLAG: Final = "\U0001f1e6-\U0001f1ff"
EMOJI: Final = rf"[{_FLAG}]{{2}}|[{EMOJI_CHARACTERS}](?:[\ufe0f\U0001f3fb-\U0001f3ff]|\u200d[{EMOJI_CHARACTERS}])*"
"""The pattern of an emoji, as people see it."""
LOOKS: Final = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff]")
"""Characters that only change how an emoji looks: colour or skin."""
_ANY: Final = Once(lambda: re.compile(f"[{_ACCENTED}{_LETTERS}{EMOJI_CHARACTERS}{_FLAG}]"))
# One set finds a stretch quickly; its words are then separated.
_STRETCH: Final = Once(
    lambda: re.compile(f"[A-Za-z{_ACCENTED}{_LETTERS}{EMOJI_CHARACTERS}{_FLAG}\ufe0f\u200d]+")
)
# Hiragana and katakana are separated: ケーキが is a word and a particle.
_RUNS: Final = Once(
    lambda: re.compile(
        rf"""
    (?P<word>[A-Za-z{_ACCENTED}]+
      | [\u3041-\u309f]+ | [\u30a1-\u30fa\u30fc-\u30ff]+ | [\uac00-\ud7a3\u1100-\u11ff]+
      | [\u0370-\u052f]+ | [\u0530-\u10ff\u1200-\u1dff\u1f00-\u1fff]+)
  | (?P<emoji>{EMOJI})
    """,
        re.VERBOSE,
    )
)


def script_spans(text: str) -> Iterator[Span]:
    """Yield the words of other scripts in `text`, in order. A word has two letters or more; an emoji is one word in
    any colour."""
    if _ANY().search(text) is None:
        return
    for stretch in _STRETCH().finditer(text):
        if stretch[0].isascii():
            continue
        for run in _RUNS().finditer(text, *stretch.span()):
            start, end = run.span()
            word = run[0]
            if run.lastgroup == "emoji":
                plain_emoji = LOOKS.sub("", word)
                if plain_emoji:
                    yield Span(start, end, plain_emoji)
            elif end - start >= 2 and not word.isascii():
                yield Span(start, end, word)


# Words that a finder finds in a text

Finder: TypeAlias = Callable[[str], Iterable[Span]]
"""A function that finds words in a text, in order, none over another."""


def split_by(text: str, finders: Sequence[Finder]) -> Iterator[str | Span]:
    """Yield the words that the finders find in `text`, and the text between them. An earlier finder wins over a later
    one."""
    if not finders:
        yield text
        return
    find, *later_finders = finders
    end = 0
    for span in find(text):
        if span.start > end:
            yield from split_by(text[end : span.start], later_finders)
        yield span
        end = span.end
    if end < len(text):
        yield from split_by(text[end:], later_finders)


def finder_of(names: Collection[str], *, any_case: bool) -> Finder:
    """Return a finder of these names, the longest first."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    if not longest_first:
        return lambda _: []
    flags = re.IGNORECASE if any_case else re.NOFLAG
    pattern = re.compile("|".join(map(_bounded, longest_first)), flags)
    return lambda text: [Span(*match.span(), match[0]) for match in pattern.finditer(text)]


def _bounded(name: str) -> str:
    """Return the pattern of a name. An ASCII letter or digit at its edge needs a word boundary: Ann is not in Annual."""
    pattern = re.escape(name)
    if name[0].isascii() and name[0].isalnum():
        pattern = rf"(?<![A-Za-z0-9_]){pattern}"
    if name[-1].isascii() and name[-1].isalnum():
        pattern = rf"{pattern}(?![A-Za-z0-9_])"
    return pattern
