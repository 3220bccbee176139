"""Whether two texts say the same: texts that say the same differ only in words and signs without a meaning of their
own.

An article or a copula in running text says nothing. A letter that is a name (plan A), a word in another case (IT, it),
a sign, a number, a negation and another order of the words are differences. A whole sentence in only one text adds a
fact and is not a contradiction. Pure; knows no notes.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from enum import IntEnum
from typing import Final

from languages import _
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.values import frozen
from nlp.index_terms import cased_form, index_form

_NUMBERS: Final = re.compile(r"\d+(?:[.:]\d+)*")
_NEGATIONS: Final = re.compile(
    r"[不没別别勿无無禁未]|\b(?:not|never|no|without|none|cannot)\b|n['’]t\b|ない|なし|なく|ません"
)
_HAN: Final = r"\u3400-\u9fff"
_HIRAGANA: Final = r"\u3041-\u309f"
_KATAKANA: Final = r"\u30a1-\u30ff"
_LETTER: Final = rf"[^\W\d_{_HAN}\u3041-\u30ff]"
_CLOSING: Final = r"[\s)\]}*`'\"\u2018-\u201f\u300d\u300f\u3001\u3002]|$"
_MARKS: Final = (
    rf"[.,;:!]{{1,64}}+(?={_CLOSING})"
    r"|(?<=[\u3041-\u9fff])[.,;:!]+(?!=)"
    r"|(?<=\S)[.,;:!](?=[\u3041-\u9fff])"
    r"|(?<=\w),(?=\w)"
)
"""Signs that end a sentence or a part of it. Signs at the beginning of a word, as in `.env` or `../a`, within a word,
or before `=` are excluded. At most 64 at once: without a bound, each place in a long row of dots before a word is tried
to the end of the row."""
_PIECES: Final = re.compile(
    rf"(?P<quote>[`'\"\u2018-\u201f\u300c-\u300f\ufe0e\ufe0f])"
    rf"|(?P<mark>[\u2014\u3001\u3002]|(?<=[^\s.,;:!])(?:{_MARKS}))"
    rf"|(?P<word>{_LETTER}{{2,}}(?:-{_LETTER}{{2,}})*|{_LETTER}+|[{_HAN}]|[{_HIRAGANA}]+|[{_KATAKANA}]+|\d+)"
    rf"|(?P<sign>[^\w\s]|_)"
)
_SENTENCE_ENDS: Final = frozenset(".;!?\u3002")
_RUNNING_BEFORE: Final = re.compile(r"[\s(\"\u201c\u300c]")
_RUNNING_AFTER: Final = re.compile(r"[.,;:!?)\"\u201d\u300d]{0,3}(?:\s|$)|[\u3001\u3002]")
_WORD_FOLLOWS: Final = re.compile(
    rf"\s+[`'\"\u2018-\u201f]?(?P<word>\d|{_LETTER}+|[{_HAN}\u3041-\u30ff])"
)

_ARTICLES: Final = frozenset(words_between_commas("a, an, the"))
_COPULAS: Final = frozenset(("is", "are", "am"))
_EMPTY_CHINESE: Final = frozenset("的了是呢啊呀来")
_NO_NOUNS: Final = frozenset(
    words_between_commas(
        "is, are, was, were, am, be, has, have, had, will, would, can, may, must, and, or, but, of, in, on, at, by, for, from, "
        "with, to, as, than, if, when, then, few, little, lot"
    )
)
"""Words before which `a` is not an article, but a name as in "plan a is", or part of a quantity as in "a few"."""
_PREPOSITIONS: Final = frozenset(
    words_between_commas(
        "of, by, in, on, at, for, with, from, to, as, per, via, through, because, since, during, within, into"
    )
)
_LIMITS: Final = frozenset(
    words_between_commas(
        "only, except, unless, if, until, till, but, before, after, when, while, instead, unlike, almost, nearly, formerly, 仅, "
        "只, 除, 若, 如, 但, 才, 前, 后, 时"
    )
)
"""Words with which a part of a sentence takes something back from the rest of it."""
_MOST_COMPARED: Final = 4_000_000
"""Pairs of words of two texts above which no picture of all their differences is made, only of the first."""


class _Bound(IntEnum):
    """The boundary between two words."""

    NOTHING = 0
    CLAUSE = 1
    """A comma, a colon or a dash."""
    LINE = 2
    """The end of a line, and nothing else."""
    SENTENCE = 3


@frozen
class _Words:
    """The meaningful words and signs of a text. `bounds[n]` is the boundary before word n; the last bound ends the
    text."""

    words: tuple[str, ...]
    bounds: tuple[_Bound, ...]

    def sentence_end(self, start: int) -> int:
        """Return the index after the last word of the sentence or line that contains word `start`."""
        end = start + 1
        while end < len(self.words) and self.bounds[end] < _Bound.LINE:
            end += 1
        return end

    def begins_sentence(self, index: int) -> bool:
        return self.bounds[index] >= _Bound.LINE


def difference(left_text: str, right_text: str) -> str:
    """Describe the first fact in which two texts differ, for people. Return an empty text if they do not contradict
    each other; one text may still say more."""
    first = _words_of(left_text)
    second = _words_of(right_text)
    if first.words == second.words:
        return _other_numbers(left_text, right_text)
    facts = _other_numbers(left_text, right_text) or _other_negations(left_text, right_text)
    if facts:
        return facts
    shorter, longer = sorted((first, second), key=lambda text: len(text.words))
    if len(shorter.words) < len(longer.words) and _only_adds(shorter, longer):
        return ""
    return _first_difference(first.words, second.words)


def meaningful_words(text: str) -> tuple[str, ...]:
    """Return the words and signs by which a text is compared: texts agree only if one text has all words of the other."""
    return _words_of(text).words


def same_words(left_text: str, right_text: str) -> bool:
    """Return whether two texts say the same and neither says more."""
    return _words_of(left_text).words == _words_of(right_text).words and not _other_numbers(
        left_text, right_text
    )


def _other_numbers(left_text: str, right_text: str) -> str:
    """Describe the numbers that each text has and the other lacks; empty if only one text has more numbers."""
    left_numbers = Counter(_NUMBERS.findall(_normal(left_text)))
    right_numbers = Counter(_NUMBERS.findall(_normal(right_text)))
    only_left = left_numbers - right_numbers
    only_right = right_numbers - left_numbers
    if only_left and only_right:
        return _("{left} against {right}", ", ".join(only_left), ", ".join(only_right))
    return ""


def _other_negations(left_text: str, right_text: str) -> str:
    left_count = len(_NEGATIONS.findall(index_form(left_text)))
    right_count = len(_NEGATIONS.findall(index_form(right_text)))
    if left_count == right_count:
        return ""
    return _("{negations} against {negations2} negations", left_count, right_count)


def _only_adds(shorter: _Words, longer: _Words) -> bool:
    """Return whether the longer text has all words of the shorter text in order, and otherwise only
    whole sentences and lines, or a part at the end of a sentence that does not limit the sentence,
    as `_is_part_more` decides."""
    short_index = 0
    long_index = 0
    sentence_start: int | None = None
    while long_index < len(longer.words):
        if longer.begins_sentence(long_index):
            sentence_start = short_index if shorter.begins_sentence(short_index) else None
        # The next words agree: go on in both texts.
        if (
            short_index < len(shorter.words)
            and shorter.words[short_index] == longer.words[long_index]
        ):
            short_index += 1
            long_index += 1
            continue

        # The longer text goes on differently: what follows must be a part or a sentence more.
        end = longer.sentence_end(long_index)
        if _is_part_more(shorter, short_index, longer=longer, start=long_index, end=end):
            long_index = end
        elif sentence_start is not None:
            # The whole sentence is more: compare the shorter text again from the point where this sentence began.
            short_index = sentence_start
            long_index = end
        else:
            return False
    return short_index == len(shorter.words)


def _is_part_more(shorter: _Words, short_end: int, longer: _Words, start: int, end: int) -> bool:
    """Return whether the words from `start` to `end` add a part to a sentence that ends in the shorter text at
    `short_end`: "in Redis", and "in Redis, by key"."""
    part = longer.words[start:end]
    begins = longer.bounds[start] == _Bound.CLAUSE or part[0] in _PREPOSITIONS
    ends = longer.bounds[end] == _Bound.SENTENCE and shorter.bounds[short_end] == _Bound.SENTENCE
    return begins and ends and len(part) > 1 and _LIMITS.isdisjoint(part)


def _first_difference(first: Sequence[str], second: Sequence[str]) -> str:
    """Return the first difference of two lists of words that are not equal, for people: "A against
    B", or that the order differs. If the parts that differ are long, only their first words are
    compared."""
    if sorted(first) == sorted(second):
        return _("another order of the words")
    start = _common_length(first, second)
    first_rest = first[start:]
    second_rest = second[start:]
    end = _common_length(first_rest[::-1], second_rest[::-1])
    first_rest = first_rest[: len(first_rest) - end]
    second_rest = second_rest[: len(second_rest) - end]
    if len(first_rest) * len(second_rest) > _MOST_COMPARED:
        return _against(first_rest[:1], second_rest[:1])
    steps = SequenceMatcher(None, first_rest, second_rest, autojunk=False).get_opcodes()
    _step, left_start, left_end, right_start, right_end = next(
        step for step in steps if step[0] != "equal"
    )
    return _against(first_rest[left_start:left_end], second_rest[right_start:right_end])


def _common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Count the words that two lists have in common at their beginning."""
    length = 0
    for first_word, second_word in zip(first, second, strict=False):
        if first_word != second_word:
            break
        length += 1
    return length


def _against(first: Sequence[str], second: Sequence[str]) -> str:
    no_words = _("(no words)")
    return _("{left} against {right}", " ".join(first) or no_words, " ".join(second) or no_words)


def _normal(text: str) -> str:
    """Return `text` as its words are compared: full-width as plain and Traditional as Simplified,
    but with its case, its accents, and raised digits as such: `m²` is not `m2`."""
    if text.isascii():
        return text
    return cased_form("".join(map(_raised, text)))


def _raised(char: str) -> str:
    """Return a raised character behind `^`, and a fraction behind a blank, because in NFKC they become plain digits;
    any other character as it is."""
    if char.isascii():
        return char
    kind = unicodedata.decomposition(char).partition(" ")[0]
    if kind == "<super>":
        return f"^{char}"
    if kind == "<fraction>":
        return f" {char}"
    return char


def _words_of(text: str) -> _Words:
    """Return the words of a text as they are compared, with the strongest boundary before each one
    and at the end."""
    words: list[str] = []
    bounds: list[_Bound] = []
    bound = _Bound.SENTENCE
    for piece in _pieces(_normal(text)):
        bound = max(bound, piece.bound)
        if not piece.word:
            continue
        words.append(piece.word)
        bounds.append(bound)
        bound = _Bound.NOTHING
    return _Words(tuple(words), (*bounds, max(bound, _Bound.LINE)))


@frozen
class _Piece:
    """A word in its compared form, and the boundary before it; an empty word says nothing."""

    word: str
    bound: _Bound


def _pieces(text: str) -> Iterator[_Piece]:
    """Yield the words of a text as they are compared, each with the boundary before it; the last
    piece has an empty word and the boundary at the end."""
    bound = _Bound.SENTENCE
    end = 0
    for match in _PIECES.finditer(text):
        # A line break in the gap ends a line, whatever sign comes next.
        if "\n" in text[end : match.start()]:
            bound = max(bound, _Bound.LINE)
        end = match.end()
        if match.lastgroup == "quote":
            continue
        if match.lastgroup == "mark":
            bound = max(bound, _bound_of_mark(match[0]))
            continue
        yield _Piece(_compared_form(text, match, begins=bound >= _Bound.LINE), bound)
        bound = _Bound.SENTENCE if match[0] == "?" else _Bound.NOTHING
    if "\n" in text[end:]:
        bound = max(bound, _Bound.LINE)

    # The last piece has no word: it carries the bound at the end of the text.
    yield _Piece("", bound)


def _bound_of_mark(mark: str) -> _Bound:
    if _SENTENCE_ENDS.isdisjoint(mark):
        return _Bound.CLAUSE
    return _Bound.SENTENCE


def _compared_form(text: str, match: re.Match[str], *, begins: bool) -> str:
    """Return the word or sign of a match in its compared form; empty if it says nothing. `begins` is True at the
    beginning of a sentence, where a capital letter says nothing."""
    word = match[0]
    if len(word) > 1:
        word = word.replace("-", "")

    if word in _EMPTY_CHINESE:
        return ""
    before = text[match.start() - 1 : match.start()]
    if not word.isalpha() or (before and not _RUNNING_BEFORE.fullmatch(before)):
        return word

    # A capital is ignored only at the beginning of a sentence, because elsewhere it may mark a name.
    is_capitalized = word[0].isupper() and (word[1:].islower() or word == "A")
    lowered = word
    if begins and is_capitalized:
        lowered = word.lower()

    if _is_empty(lowered, text, match.end()):
        return ""
    if word == "A" or not _RUNNING_AFTER.match(text, match.end()):
        return word
    return _singular(lowered)


def _is_empty(word: str, text: str, end: int) -> bool:
    """Return whether a word in running text is an article or a copula. A copula must precede a word, an article a noun."""
    if word not in _ARTICLES and word not in _COPULAS:
        return False
    following = _WORD_FOLLOWS.match(text, end)
    if following is None:
        return False
    return word in _COPULAS or following["word"] not in _NO_NOUNS


def _singular(word: str) -> str:
    """Return a word without the ending by which an English noun or verb agrees in number: `worker`, `retry`, `match`
    for workers, retries, matches. Words of at most three letters, names in capitals and words that have no vowel before
    their `s`, such as `https`, stay as they are."""
    if len(word) < 4 or not word.isascii() or not word.islower():
        return word
    if not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    has_vowel = re.search("[aeiouy]", word[:-1]) is not None
    if not has_vowel:
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    return word[:-1]
