"""Whose something is: what is kept for one scope is never shown in another; and the names of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

Space = Literal["notes", "sessions", "layers", "refs", "conversations"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Entries that are searched together; no query of another scope sees them. `owner`: a user, a namespace, or ""."""

    space: Space
    owner: str = ""


KEY_BYTES = {"sessions": 16, "conversations": 20}
"""Bytes of the name of a vector: memories of conversations are kept elsewhere, so they are told apart by it."""


def vector_key(model: str, scope: Scope | None = None, text: str = "") -> bytes:
    """The name of the vector that a model gives a text of a user: 4 bytes for the model, and 12 for user and text, so
    that nobody learns from a known vector what somebody else has said. That of a text of a conversation is longer.
    Without a scope: the bytes of the model."""
    mark = sha256(model.encode()).digest()[:4]
    if scope is None:
        return mark
    size = KEY_BYTES["conversations" if scope.space == "conversations" else "sessions"]
    return mark + sha256(f"{scope.owner}\0{text}".encode()).digest()[: size - len(mark)]
