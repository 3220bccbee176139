"""The book that a memory is from, and names for versions of it. Values only; firing_forms.py has their JSON."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from memory_server.kernel.messages import NOTHING
from memory_server.kernel.values import dataclass

_COMMENT_LINE = re.compile(r"^[ \t]*//[^\n]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BookEntry:
    """The book that a memory is from. `source`: the file that the book came from. `uid`: the name of the memory in the
    book. `imported`: the fingerprint of the memory as the book had it. `placement`: where the client of the book would
    put its text. `imported_off`: whether the last import brought it switched off; if it is otherwise now, its owner
    switched it here."""

    book_id: str
    book_name: str
    source: str = ""
    uid: str = ""
    imported: str = ""
    imported_off: bool = False
    placement: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


def is_constant(trigger: str) -> bool:
    """Whether the trigger is `true` in every search."""
    return _COMMENT_LINE.sub("", trigger).strip() == "true"


def fingerprint(prompt: str, trigger: str, rules: str) -> str:
    """A name for what an entry says and when it fires: it is another one once somebody changed any of these."""
    content = "\0".join((prompt, trigger, rules)).encode(errors="replace")
    return hashlib.blake2b(content, digest_size=8).hexdigest()
