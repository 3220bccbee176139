"""Words of other scripts: kana, Hangul, Cyrillic and other alphabets, Latin with accents, emoji. Pure.

The segmentation loses them, because it cuts them into single characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from nlp.date_words import Span
from nlp.once import Once

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
    """The words of other scripts in `text`, in order. A word has two letters or more; an emoji is one word in any
    colour."""
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
