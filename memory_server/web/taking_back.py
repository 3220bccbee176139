"""Forgetting, erasing and taking back from the page, in one place: what `memory-server forget` and `undo` do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from languages import _
from memory_server.conversations.ports import RepairPlan
from memory_server.kernel.errors import MemoryNotFound, StorageError
from memory_server.kernel.items import Family, Item, ItemFilter
from memory_server.kernel.values import frozen
from memory_server.memories import forgetting
from memory_server.operations.erasing import backups_with
from memory_server.operations.repairing import RepairRequest, repair
from memory_server.web.pages import recorded

if TYPE_CHECKING:
    from memory_server.web.view import View

_CHANGES = 2_000
"""The newest changes of each engine, in which the texts that an erasing takes out are counted."""


@frozen
class Place:
    """The place of a text, how often it is there, and the backup if the place is a backup; the text always goes from
    other places."""

    name: str
    count: int
    backup: str = ""


async def item_of(view: View, family: Family, place: str, name: str) -> Item:
    """Find the item with this name. Raises MemoryNotFound: it is not there any more."""
    for engine in view.call.memories.engines:
        for item in await engine.find(
            ItemFilter(ids=(name,), family=family, place=place, archived=None)
        ):
            if name in (item.id, *item.aliases):
                return item
    raise _gone()


def _gone() -> MemoryNotFound:
    return MemoryNotFound(
        "That memory or entry is no longer here; it was forgotten or erased in the meantime."
    )


async def forget(view: View, item: Item) -> str:
    """Put an item on the shelf, and return the change that takes it back. Raises MemoryNotFound if
    it is not there any more."""
    change = await forgetting.forget(view.call.memories.engines, [item])
    if change is None:
        raise _gone()
    return change


async def mended(view: View, *, dry_run: bool) -> list[RepairPlan]:
    """Mend each broken conversation, or with `dry_run` only look, and return what was or would be mended; nothing for a
    reader who is not at the server. Raises StorageError if a conversation cannot be mended."""
    if view.site.owner is None:
        return []
    report = await repair(view.site.owner.home, RepairRequest(dry_run=dry_run))
    for reason in report.failures:
        raise StorageError(reason)
    return report.mended


async def places_of(view: View, family: Family, place: str, name: str) -> list[Place]:
    """Find the places of a text that is about to be erased; empty before the reader asks. Raises
    MemoryNotFound if it is not there any more."""
    if not view["erase"]:
        return []

    item = await item_of(view, family, place, name)
    erasure = await forgetting.erasure_of(view.call.memories.engines, [item])
    # Counted before anything is erased, so that the reader knows what "for good" means.
    ids = {item.id for item in erasure.items}
    changes = 0
    for engine in view.call.memories.engines:
        past_changes = await engine.history(limit=_CHANGES)
        changes += sum(any(step.id in ids for step in change.steps) for change in past_changes)

    lines = sum(erasure.in_recall(recall.line) for recall in await recorded(view))
    backups: Sequence[str] = ()
    if view.site.owner is not None:
        backups = await backups_with(view.site.owner, erasure)

    return [
        Place(_("This text, and its index"), len(erasure.items)),
        Place(_("Its text in the history"), changes),
        Place(_("Its sentences in the record of recalls"), lines),
        *(Place(_("The backup {name}", name), 1, name) for name in backups),
    ]
