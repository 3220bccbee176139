"""Whose something is: what is kept for one scope is never shown in another; and the names of vectors."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

from memory_server.kernel.values import dataclass

Space = Literal["notes", "sessions", "layers", "refs", "conversations"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Entries that are searched together; no query of another scope sees them. `owner`: a user, a namespace, or ""."""

    space: Space
    owner: str = ""


KEY_BYTES = {"sessions": 16, "conversations": 20}
"""Bytes of the name of a vector. Memories of conversations are stored elsewhere, so their vectors are deleted by a rule
of their own; the length tells them apart."""


def vector_key(model: str, scope: Scope | None = None, text: str = "") -> bytes:
    """Return the name of the vector that a model gives a text of a user: 4 bytes for the model, and 12 for user and
    text, so that a user cannot learn from a vector what another user has said. The name for a text of a conversation is
    longer. Without a scope, return the bytes of the model."""
    model_bytes = sha256(model.encode()).digest()[:4]
    if scope is None:
        return model_bytes
    size = KEY_BYTES["sessions"]
    if scope.space == "conversations":
        size = KEY_BYTES["conversations"]
    text_bytes = sha256(f"{scope.owner}\0{text}".encode()).digest()
    return model_bytes + text_bytes[: size - len(model_bytes)]
