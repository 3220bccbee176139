"""Text to terms of a search index, and a query to the terms that it looks for. Pure; needs no dictionary.

Scripts without spaces give each pair of neighbouring characters and the last character; all other words give their
stem. So 数据库 is found by 数据, エラー処理 by 処理, and `errors` by `error`, in any mixture of languages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from nlp.normal_forms import can_simplify, plain, simplified
from nlp.once import Once
from nlp.scripts import EMOJI, LOOKS
from nlp.stems import stem

MOST_QUERY_TERMS: Final = 64
"""Terms of a query: those of some 60 Chinese characters; more only cost time."""
MOST_TERM_CHARS: Final = 64
"""Characters of a term: longer ones are keys and checksums, which nobody types whole."""
_UNSPACED: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17d3"  # Thai, Lao, Burmese, Jamo, Khmer
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"  # kana, Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"  # Han, Hangul
)
_MARKS: Final = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0dff"
_PIECES: Final = Once(
    lambda: re.compile(
        rf"(?P<run>[{_UNSPACED}]+)"
        rf"|(?P<emoji>{EMOJI})"
        rf"|(?P<word>[^\W_{_UNSPACED}]+(?:[{_MARKS}]+[^\W_{_UNSPACED}]*)*(?:\+\+|\#(?!\w))?)"
    )
)
_ACCENTED: Final = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_simplifies: Final = Once(can_simplify)
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that no font shows: Default_Ignorable_Code_Point of Unicode 15.0, DerivedCoreProperties.txt."""


@dataclass(frozen=True, slots=True)
class IndexTerm:
    """A term of a query. `word`: what a person reads; `prefix`: a single character, which begins longer terms."""

    term: str
    word: str
    prefix: bool = False


def signature() -> str:
    """Names the normal form of this process: an index of another signature must be made anew."""
    return "1 t2s" if _simplifies() else "1"


def index_form(text: str) -> str:
    """`text` as it is compared: NFKC, Traditional as Simplified where OpenCC is installed, without case and Latin
    accents."""
    if text.isascii():
        return text.lower()
    return _ACCENTED.sub(lambda letter: unicodedata.normalize("NFD", letter[0])[0], cased_form(text).casefold())


def cased_form(text: str) -> str:
    """`text` in NFKC, Traditional as Simplified where OpenCC is installed; its case and its accents stay."""
    text = plain(text)
    return simplified(text) if _simplifies() else text


def seen_form(text: str) -> str:
    """`index_form` without the characters that nobody sees, such as U+200B: two texts that look the same are equal."""
    if text.isascii():
        return text.lower()
    return _UNSEEN.sub("", index_form(_UNSEEN.sub("", text)))


def terms_of(text: str) -> list[str]:
    """The terms of `text`, in order, with repetitions. About 0.1 ms for 300 characters."""
    terms: list[str] = []
    for kind, piece in _pieces(text):
        if kind == "run":
            terms.extend(map("".join, pairwise(piece)))
            terms.append(piece[-1])
        else:
            terms.append(stem(piece) if kind == "word" else piece)
    return terms


def sought_in(query: str) -> tuple[IndexTerm, ...]:
    """The distinct terms of a query, in order; none where it holds only punctuation."""
    found: dict[str, IndexTerm] = {}
    for kind, piece in _pieces(query):
        if kind == "run" and len(piece) > 1:
            for pair in map("".join, pairwise(piece)):
                found.setdefault(pair, IndexTerm(pair, pair))
        elif kind == "run":
            found.setdefault(piece, IndexTerm(piece, piece, prefix=True))
        else:
            term = stem(piece) if kind == "word" else piece
            found.setdefault(term, IndexTerm(term, piece))
        if len(found) >= MOST_QUERY_TERMS:
            break
    return tuple(found.values())[:MOST_QUERY_TERMS]


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    for found in _PIECES().finditer(index_form(text)):
        kind = found.lastgroup or ""
        if kind == "emoji":
            if piece := LOOKS.sub("", found[0]):
                yield kind, piece
        else:
            yield kind, found[0] if kind == "run" else found[0][:MOST_TERM_CHARS]
