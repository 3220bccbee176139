"""The past of a conversation: its history, undo, and bringing back removed memories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace
from random import Random

from languages import _
from memory_server.conversations.archive import ArchivedMemory
from memory_server.conversations.changes import (
    Change,
    Commit,
    Restored,
    change_id,
    putting,
    taking_back,
    version_of,
)
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.selection import NOTHING_RECALLED, Recall, select
from memory_server.conversations.recall.words import RecallQuery
from memory_server.conversations.services import Done, Services
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.lifecycle import HISTORY_PAGE, asked_to_forget
from memory_server.kernel.values import frozen

RECALLED = 500
"""Removed memories that a search without results also looks at, as many as one clean-up forgets: some 50 ms."""


@frozen
class UndoneCommit(Done):
    """A commit was taken back by `changes`, which are one commit too."""

    commit: Commit
    changes: tuple[Change, ...]
    change_id: str = field(default="", kw_only=True)


@frozen
class BroughtBack(Done):
    """What came back from the archive, or would come back. `in_the_way`: memories whose id or name is in use again."""

    entries: tuple[ArchivedMemory, ...]
    in_the_way: tuple[ArchivedMemory, ...]


def _recallable(
    archived: Iterable[ArchivedMemory], *, live_ids: Collection[str]
) -> Collection[ShortTermMemory]:
    """Return the short-term memories of the archive, each as its last removal left it, except memories that are live
    again or that a person asked to forget. `archived` starts with the oldest removal."""
    memories_by_id: dict[str, ShortTermMemory] = {}
    for entry in archived:
        memory = entry.memory
        if not isinstance(memory, ShortTermMemory):
            continue
        # Only the last removal of a memory counts: it takes the place of an earlier one, or cancels it.
        memories_by_id.pop(memory.id, None)
        if not asked_to_forget(entry.by) and memory.id not in live_ids:
            memories_by_id[memory.id] = memory
    return memories_by_id.values()


class ArchiveManager:
    """History, archive and undo of `conversation_id`."""

    def __init__(self, conversation_id: str, services: Services) -> None:
        self.conversation_id = conversation_id
        self._services = services

    async def history(
        self,
        *,
        before: str | None = None,
        limit: int = HISTORY_PAGE,
        most_changes: int | None = None,
    ) -> tuple[Commit, ...]:
        """Return a page of the history, newest first. `before` is the last change id of the previous page,
        `most_changes` limits how many changes of a commit are read. Raises InvalidInput if `before` is not a change
        id of this conversation."""
        version = None if before is None else version_of(self.conversation_id, before)
        store = self._services.store
        return await store.history(
            self.conversation_id, before=version, limit=limit, most_changes=most_changes
        )

    async def entries(self) -> tuple[ArchivedMemory, ...]:
        """List what was removed and can come back, oldest removal first."""
        return await self._services.store.archive(self.conversation_id)

    async def recall(self, query: RecallQuery) -> Recall:
        """Search by `query` among the short-term memories that were removed last, at most `RECALLED`, except memories
        that a person asked to forget. Nothing is reinforced."""
        archived = await self._services.store.archive(self.conversation_id, newest=RECALLED)
        if not archived:
            return NOTHING_RECALLED
        state = await self._services.store.read(self.conversation_id)

        # No session has a removed memory in its context any more, and the search draws no flashbacks.
        parameters = replace(
            self._services.parameters.recall, own_conversation_ms=0, flashback_count=0
        )

        return select(
            _recallable(archived, live_ids=state.short_term.keys()),
            query,
            RecallContext(
                conversation_id=self.conversation_id,
                now_ms=self._services.clock(),
                rng=Random(0),
                parameters=parameters,
                wording=self._services.parameters.wording.within(self.conversation_id),
            ),
        )

    async def undo(self, change: str, *, by: str = "api") -> UndoneCommit:
        """Take back the change with the id `change`; later changes of other memories stay. Raises InvalidInput: it is
        not a change of this conversation, is too old, was taken back already, or a long-term memory of it was changed
        since; nothing was changed."""
        version = version_of(self.conversation_id, change)
        page = await self._services.store.history(self.conversation_id, before=version + 1, limit=1)
        if page and page[0].version < version:
            # The oldest changes are deleted first: an older change is there, so this one never existed.
            newest = change_id(self.conversation_id, page[0].version)
            raise InvalidInput(
                "There is no change {change} yet; the newest is {newest}.", change, newest
            )
        if not page or page[0].version != version:
            raise InvalidInput(
                "The change {change} is not in the history any more; it cannot be undone.", change
            )
        [commit] = page

        def decide(state: ConversationState) -> tuple[Sequence[Change], UndoneCommit]:
            changes = taking_back(state, commit)
            return changes, UndoneCommit(commit, changes)

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def bring_back(
        self,
        ids: Collection[str] = (),
        *,
        pattern: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        dry_run: bool = False,
        by: str = "api",
    ) -> BroughtBack:
        """Bring memories back from the archive, with score and pin. They must meet every condition that is given: an id
        or name in `ids`, a text that matches `pattern`, a removal from `since_ms` to `until_ms` (milliseconds since
        1970). If a memory was removed several times, its last version comes back. Raises InvalidInput: no condition was
        given, or an id is not in the archive; InvalidPattern. Then nothing was changed."""
        if not ids and pattern is None and since_ms is None and until_ms is None:
            raise InvalidInput(
                "Nothing says which memories to bring back; give ids, a pattern, or a time of removal."
            )

        chosen: list[ArchivedMemory] = []
        for entry in await self.entries():
            is_named = not ids or name_of(entry) in ids
            is_early = since_ms is not None and entry.at_ms < since_ms
            is_late = until_ms is not None and entry.at_ms > until_ms
            if is_named and not is_early and not is_late:
                chosen.append(entry)

        missing = set(ids) - set(map(name_of, chosen))
        if missing:
            raise InvalidInput(
                "The archive of {conversation} has no `{memory}` that was removed in that time; a dry run "
                "with a pattern such as `/./` lists what it holds.",
                self.conversation_id,
                min(missing),
            )

        if pattern is not None:
            matches = await self._services.matching(
                pattern, [entry.memory.text for entry in chosen], _("brought back")
            )
            chosen = [entry for entry, is_match in zip(chosen, matches, strict=True) if is_match]

        # Later removals come later in the list, so each name keeps its last removal.
        last = {(type(entry.memory), name_of(entry)): entry for entry in chosen}

        def decide(state: ConversationState) -> tuple[Sequence[Change], BroughtBack]:
            brought_back: list[ArchivedMemory] = []
            in_the_way: list[ArchivedMemory] = []

            for entry in last.values():
                if name_of(entry) in state.like(entry.memory):
                    in_the_way.append(entry)
                else:
                    brought_back.append(entry)
            changes = [_bringing_back(entry) for entry in brought_back]
            return changes, BroughtBack(tuple(brought_back), tuple(in_the_way))

        return await self._services.commit(self.conversation_id, decide, by=by, dry_run=dry_run)


def _bringing_back(entry: ArchivedMemory) -> Change:
    """Make the change that brings a removed memory back."""
    if isinstance(entry.memory, ShortTermMemory):
        return Restored(entry.memory, entry.reason)
    return putting(entry.memory, None)


def name_of(entry: ArchivedMemory) -> str:
    """Return the id of an archived short-term memory, or the name of a long-term one."""
    return entry.memory.key
