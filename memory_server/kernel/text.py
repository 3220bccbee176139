"""Texts that people and models read: their beginnings and lengths, quoted names, lists of conversations, findings of
examinations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Literal
from unicodedata import category

from languages import _
from memory_server.kernel.values import frozen

Language = Literal["zh", "en"]

ELLIPSIS = "…"

MOST_NAME_CHARS = 200
"""Characters of a quoted name at most: a sentence about an error must not be longer than the error."""

BEGINNING_CHARS = 100
"""Characters of the beginning of a text, by which a person recognizes it."""

_IDEOGRAPHS = ("\u3400", "\u9fff")
"""The first and the last character by which a text is taken for Chinese. Compiling a pattern of so many characters
takes 2 ms."""


def has_ideograph(text: str) -> bool:
    """Tell whether a text has a character by which it is taken for Chinese."""
    first, last = _IDEOGRAPHS
    return not text.isascii() and any(first <= character <= last for character in text)


def language_of(texts: Iterable[str]) -> Language:
    """Return Chinese if any of the texts holds an ideograph, else English."""
    return "zh" if any(map(has_ideograph, texts)) else "en"


def ideograph_count(text: str) -> int:
    """Count the characters by which a text is taken for Chinese."""
    first, last = _IDEOGRAPHS
    return sum(first <= character <= last for character in text)


def shown(text: str, most: int = MOST_NAME_CHARS) -> str:
    """Return a text from outside, or a sentence that quotes one, as UTF-8 can write it (the path of a file may hold
    other bytes). If it is longer than `most`, its middle is left out."""
    text = text.encode(errors="backslashreplace").decode()
    if len(text) <= most:
        return text
    head = text[: most // 2]
    tail = text[-((most - 1) // 2) :]
    return f"{head}…{tail}"


def visible(text: str) -> str:
    """Return a text with escapes for control characters, which a terminal would obey, and for bytes that are not UTF-8."""
    return "".join(map(_escaped_character, text))


def _escaped_character(char: str) -> str:
    if category(char) in ("Cc", "Cs", "Zl", "Zp"):
        return char.encode("unicode_escape").decode()
    return char


def beginning(text: str, most: int = BEGINNING_CHARS) -> str:
    """Return a text on one line, cut after `most` characters, where an ellipsis follows."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    return line[:most] + ELLIPSIS


@frozen
class Measure:
    """The length of a text, and the beginning of a text of a given length: in bytes of UTF-8, or in characters."""

    length: Callable[[str], int]
    beginning: Callable[[str, int], str]
    least: int
    """A shorter extract of a memory would say too little."""


BYTES = Measure(
    lambda text: len(text.encode()),
    lambda text, n: text[:n].encode()[:n].decode(errors="ignore"),
    90,
)
"""At least thirty Chinese characters of three bytes."""
CHARS = Measure(len, lambda text, n: text[:n], 45)


def clipped(text: str, most: int, measure: Measure) -> str:
    """Return `text`, or as much of it as fits with an ellipsis; characters and joined emoji stay
    whole."""
    if measure.length(text) <= most:
        return text
    beginning = measure.beginning(text, max(0, most - measure.length(ELLIPSIS)))
    while beginning and (beginning[-1].isspace() or category(beginning[-1]) == "Cf"):
        beginning = beginning[:-1]
    return beginning + ELLIPSIS


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: four characters of ASCII are one token, and so is each other character."""
    ascii_count = sum(map(str.isascii, text))
    other_count = len(text) - ascii_count
    return ceil(ascii_count / 4) + other_count


def unreadable(conversations: Mapping[str, object]) -> str:
    """Return the sentence about conversations that could not be read while others were, each with its broken file."""
    names: list[str] = []
    for name, file in conversations.items():
        if file:
            names.append(f"{name} ({file})")
        else:
            names.append(name)
    return _(
        "These conversations could not be read: {named}; `memory-server doctor` says why.",
        ", ".join(names),
    )


Grade = Literal["ok", "note", "warning", "error"]
"""`note`: good to know. `warning`: worth a change, nothing is lost. `error`: something cannot be used as it is."""


@frozen
class Finding:
    """The finding of an examination. `about`: a conversation, `folder`, `disk`, … `what`: the sentence, with advice
    unless the grade is `ok`."""

    grade: Grade
    about: str
    what: str


_COMMAS = str.maketrans(dict.fromkeys("，、;；\n", ","))


def words_between_commas(typed: str) -> list[str]:
    """Split words or short texts, as people and some models write them: `pills, 安眠药`."""
    texts = (part.strip() for part in typed.translate(_COMMAS).split(","))
    return [text for text in texts if text]
