"""What of a text may be kept. Pure."""

from __future__ import annotations

from memory_server.core.errors import NothingToKeep
from memory_server.core.private import without_private
from memory_server.recall.recalled_block import without_recalled


def to_keep(content: str) -> str:
    """`content` without private parts and recalled memories, as with messages. Raises NothingToKeep: nothing else is in
    it."""
    kept = without_recalled(without_private(content))
    if content.strip() and not kept.strip():
        raise NothingToKeep("All of the content is private or recalled, so nothing was stored.")
    return kept
