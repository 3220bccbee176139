"""Numbers of things, and what others wrote, in the sentences that people and models read."""

from __future__ import annotations

from collections.abc import Iterable

MOST_NAME_CHARS = 200
"""Characters of a name that somebody else wrote: a sentence about a mistake must not cost more than the mistake."""


def counted(count: int, noun: str) -> str:
    """`1 memory`, `3 memories`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count} {noun if count == 1 else plural}"


def shown(text: str, most: int = MOST_NAME_CHARS) -> str:
    """What somebody else wrote, or a sentence that holds it, as UTF-8 can write it (the path of a file may be other
    bytes); the middle is left out where it is longer than `most`."""
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-((most - 1) // 2) :]}"


def unreadable(conversation_ids: Iterable[str]) -> str:
    """What to do about conversations that could not be read while others were."""
    return f"These conversations could not be read: {', '.join(conversation_ids)}; `memory-server doctor` says why."
