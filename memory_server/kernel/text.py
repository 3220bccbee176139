"""The sentences that people and models read: counts, quoted text, lists of conversations, findings of examinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from unicodedata import category

from sandbox.locale import LocalizedText, _, changed

MOST_NAME_CHARS = 200
"""Characters of a quoted name at most: a sentence about an error must not be longer than the error."""

BEGINNING_CHARS = 100
"""Characters of the beginning of a text, by which a person recognizes it."""


def shown(text: str, most: int = MOST_NAME_CHARS) -> str:
    """A text from outside, or a sentence that quotes one, as UTF-8 can write it (the path of a file may hold other
    bytes). If it is longer than `most`, its middle is left out."""
    if isinstance(text, LocalizedText) and len(text) <= most:
        return text
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-((most - 1) // 2) :]}"


def visible(text: str) -> str:
    """A text with escapes for control characters, which a terminal would obey, and for bytes that are not UTF-8. A
    message stays one."""
    return changed(text, _escaped)


def _escaped(text: str) -> str:
    return "".join(
        char.encode("unicode_escape").decode() if category(char) in ("Cc", "Cs", "Zl", "Zp") else char for char in text
    )


def beginning(text: str, most: int = BEGINNING_CHARS) -> str:
    """The first words of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}…"


def estimated_tokens(text: str) -> int:
    """About how many tokens a text takes: four characters of ASCII are one, and so is each other character."""
    return -(-sum(1 if char.isascii() else 4 for char in text) // 4)


def unreadable(conversations: Mapping[str, object]) -> str:
    """What to do about conversations that could not be read while others were, given with the broken file of each."""
    named = ", ".join(f"{name} ({file})" if file else name for name, file in conversations.items())
    return _("These conversations could not be read: {named}; `memory-server doctor` says why.", named)


Grade = Literal["ok", "note", "warning", "error"]
"""`note`: good to know. `warning`: worth a change, nothing is lost. `error`: something cannot be used as it is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`about`: a conversation, `folder`, `disk`, … `what`: the sentence, with what to do unless it is `ok`."""

    grade: Grade
    about: str
    what: str


_COMMAS = str.maketrans(dict.fromkeys("，、;；\n", ","))


def words_between_commas(typed: str) -> list[str]:
    """Words or short texts, as people and some models write them: `pills, 安眠药`."""
    texts = (part.strip() for part in typed.translate(_COMMAS).split(","))
    return [text for text in texts if text]
