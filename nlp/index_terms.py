"""Text to terms of a search index, and a query to the terms that it looks for. Pure; needs no dictionary.

Scripts without spaces give each pair of neighbouring characters and the last character; all other words give their
stem. So 数据库 is found by 数据, エラー処理 by 処理, and `errors` by `error`, in any mixture of languages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from nlp.normal_forms import EMOJI, LOOKS, can_simplify, plain, simplified, without_unseen
from nlp.once import Once
from nlp.stems import FUNCTION_CHARACTERS, other_writings, says_little, stem

MOST_QUERY_TERMS: Final = 64
"""Terms of a query: as many as some 60 Chinese characters have; more only cost time."""
MOST_OTHER_TERMS: Final = 160
"""Terms of other words: as many as 40 texts of five Chinese characters have."""
MOST_TERM_CHARS: Final = 64
"""Characters of a term: longer ones are keys and checksums, which are not typed whole."""
_UNSPACED: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17d3"  # Thai, Lao, Burmese, Jamo, Khmer
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"  # kana, Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"  # Han, Hangul
)
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0dff"
)
_PIECES: Final = Once(
    lambda: re.compile(
        rf"(?P<run>[{_UNSPACED}]+)"
        rf"|(?P<emoji>{EMOJI})"
        rf"|(?P<word>[^\W_{_UNSPACED}]+(?:[{_MARKS}]+[^\W_{_UNSPACED}]*)*(?:\+\+|\#(?!\w))?)"
    )
)
_ACCENTED: Final = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_simplifies: Final = Once(can_simplify)
_JOINER: Final = "\u200d"


@dataclass(frozen=True, slots=True)
class IndexTerm:
    """A term of a query. `word` is what a person reads. `prefix` marks a single character, which begins longer terms."""

    term: str
    word: str
    prefix: bool = False


def signature() -> str:
    """Return the name of the normal form of this process: an index of another signature must be made again."""
    if _simplifies():
        return "2 t2s"
    return "2"


def index_form(text: str) -> str:
    """Return `text` as it is compared: what a person sees, in NFKC, Traditional as Simplified where
    OpenCC is installed, without case and Latin accents."""
    return form_with_unseen(without_unseen(text))


def form_with_unseen(text: str) -> str:
    """Return the `index_form` of earlier versions, which kept invisible characters."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text)
    if _simplifies():
        text = simplified(text)
    return _without_case(text)


def cased_form(text: str) -> str:
    """Return the `index_form` of a text with its case and its accents."""
    text = plain(text)
    if _simplifies():
        text = simplified(text)
    return text


def seen_form(text: str) -> str:
    """Return the `index_form` of a text in which also an emoji of several parts is its parts: for
    texts that must not be missed."""
    return index_form(text).replace(_JOINER, "")


def _without_case(text: str) -> str:
    return _ACCENTED.sub(lambda letter: unicodedata.normalize("NFD", letter[0])[0], text.casefold())


def terms_of(text: str) -> list[str]:
    """Return the terms of `text`, in order, with repetitions. About 0.1 ms for 300 characters."""
    terms: list[str] = []
    for kind, piece in _pieces(text):
        if kind == "run":
            terms.extend(map("".join, pairwise(piece)))
            terms.append(piece[-1])
        elif kind == "word":
            terms.append(stem(piece))
        else:
            terms.append(piece)
    return terms


def sought_in(query: str) -> tuple[IndexTerm, ...]:
    """Return the distinct terms of a query, in order, at most `MOST_QUERY_TERMS`; none if it holds only
    punctuation."""
    index_terms: dict[str, IndexTerm] = {}
    for kind, piece in _pieces(query):
        if kind == "run" and len(piece) > 1:
            for pair in map("".join, pairwise(piece)):
                index_terms.setdefault(pair, IndexTerm(pair, pair))
        elif kind == "run":
            index_terms.setdefault(piece, IndexTerm(piece, piece, prefix=True))
        elif kind == "word":
            term = stem(piece)
            index_terms.setdefault(term, IndexTerm(term, piece))
        else:
            index_terms.setdefault(piece, IndexTerm(piece, piece))
        if len(index_terms) >= MOST_QUERY_TERMS:
            break
    return tuple(index_terms.values())[:MOST_QUERY_TERMS]


def other_terms(texts: Sequence[str], sought: Sequence[IndexTerm]) -> tuple[IndexTerm, ...]:
    """Return the distinct terms of other words, which a caller gives beside a query, in order: without the terms
    `sought` by the query, and without terms that say little by themselves."""
    query_terms = {index_term.term for index_term in sought}
    further_terms: dict[str, IndexTerm] = {}
    for text in texts:
        for index_term in sought_in(text):
            if index_term.term not in query_terms and not _says_little(index_term.word):
                further_terms.setdefault(index_term.term, index_term)
    return tuple(further_terms.values())[:MOST_OTHER_TERMS]


def _says_little(word: str) -> bool:
    is_letter = len(word) == 1 and word.isascii()
    return is_letter or says_little(word) or FUNCTION_CHARACTERS.issuperset(word)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield the runs, words and emoji of `text`, each with its kind; then the words of other ways to write its
    compounds."""
    form = index_form(text)
    for match in _PIECES().finditer(form):
        kind = match.lastgroup or ""
        piece = match[0]
        if kind == "emoji":
            piece = LOOKS.sub("", piece)
        elif kind == "word":
            piece = piece[:MOST_TERM_CHARS]
        if piece:
            yield kind, piece
    for word in other_writings(form):
        yield "word", word
