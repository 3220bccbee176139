"""Memories with triggers as they stand in a prompt. sandbox/firing/room.py decides which of them fit. Pure."""

from __future__ import annotations

from memory_server.conversations.recall.activation import Shelved
from memory_server.conversations.recall.passages import CHARS, clipped
from memory_server.kernel.recalled_block import one_line
from sandbox.firing.room import LoreText, head_of, text_key

_NAME_CHARS = 60


def lore_text(shelved: Shelved, body: str, *, is_chinese: bool) -> LoreText[Shelved]:
    """The memory with the text `body`, in which macros are filled."""
    memory = shelved.memory
    name = clipped(one_line(memory.name), _NAME_CHARS, CHARS)
    head = head_of(name, is_chinese=is_chinese)
    return LoreText(shelved, head, one_line(body), version_key(shelved), is_chinese)


def version_key(shelved: Shelved) -> str:
    """The key of this version of the memory, by which the program knows what a session was given."""
    memory = shelved.memory
    return text_key(memory.name, shelved.conversation_id, memory.created_ms, memory.updated_ms)
