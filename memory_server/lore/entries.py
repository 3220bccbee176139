"""What the decisions about firing need to know of a memory. Pure."""

from __future__ import annotations

from typing import Protocol

from memory_server.lore.rules import FiringRules


class Entry(Protocol):
    """A memory as these decisions need it. `conversation_id`: where it is kept. `book_id`: its book; "": none."""

    @property
    def name(self) -> str: ...

    @property
    def conversation_id(self) -> str: ...

    @property
    def book_id(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def rules(self) -> FiringRules: ...
