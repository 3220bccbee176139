"""What tests ask of the lifecycle of knowledge, in a line each."""

from __future__ import annotations

from pathlib import Path

from memory_server.kernel.lifecycle import CleanupItem
from memory_server.knowledge.incoming import IncomingEntries
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.knowledge.service import Knowledge


async def cleaned(
    knowledge: Knowledge, *, dry_run: bool = False, by: str = "cleanup"
) -> list[CleanupItem]:
    """What a clean-up takes out of all places, or would."""
    leaving: list[CleanupItem] = []
    async for cleaned_place in KnowledgeLifecycle(knowledge).clean_up(dry_run=dry_run, by=by):
        leaving += cleaned_place.left
    return leaving


async def restored(
    knowledge: Knowledge, copy: Path, *, overwrite: bool = False, dry_run: bool = False
) -> int:
    """How many entries come from a copy of the store, or would."""
    mode = "overwrite" if overwrite else "merge"
    added = 0
    async for restored_place in IncomingEntries(knowledge).bring(copy, mode, dry_run=dry_run):
        added += restored_place.counts.added
    return added
