"""Whose something is: what is kept for one scope is never shown in another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Space = Literal["notes", "sessions", "layers", "refs", "conversations"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Entries that are searched together; no query of another scope sees them. `owner`: a user, a namespace, or ""."""

    space: Space
    owner: str = ""
