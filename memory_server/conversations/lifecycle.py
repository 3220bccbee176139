"""The lifecycle of conversations: what all of them together can do with their past."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any, Literal

from memory_server.conversations.archive import Archived, archived_ids
from memory_server.conversations.changes import (
    Change,
    CleanedUp,
    Commit,
    Edited,
    Forgotten,
    Muted,
    Pinned,
    Reinforced,
    TriggerRemoved,
    TriggerSet,
    Unpinned,
    change_id,
    memories_in,
    removing,
)
from memory_server.conversations.contents import Contents, contents_of, restore_changes, without_erased
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.model import (
    ConversationState,
    Memory,
    ShortTermMemory,
    conversation_id_of,
    mark_of,
    texts_of,
)
from memory_server.conversations.services import Done, Services
from memory_server.kernel.backups import BackupStore, BackupWriter, MergeCounts, Mode
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import InvalidInput, MemoryServerError, StorageError, StorageUnwritable
from memory_server.kernel.items import Item, Sought
from memory_server.kernel.lifecycle import (
    HISTORY_PAGE,
    Cleaned,
    Copied,
    Examine,
    HistoryStep,
    Leaving,
    PastChange,
    RestoredPlace,
    Undone,
)
from memory_server.kernel.messages import said_beginning
from memory_server.kernel.text import Finding, beginning
from sandbox.locale import N_, _

log = logging.getLogger(__name__)


def _past_change(place: str, commit: Commit) -> PastChange:
    """A commit as a change of the history; what was erased has no steps."""
    steps = tuple(map(step_of, commit.changes)) or (HistoryStep(_("erased")),)
    return PastChange(change_id(place, commit.version), place, commit.at_ms, commit.by, steps, commit.more)


def outdated_text(count: int) -> str:
    """A sentence on what to do about memories whose words were found with other settings."""
    were = _("memory was") if count == 1 else _("memories were")
    return _(
        "{number} {were} indexed with other words settings; run `memory-server doctor --reindex`, first "
        "with --dry-run.",
        count,
        were,
    )


class ConversationLifecycle:
    """The past of all `conversations`. `examinations` gives a blocking call for the findings about each of them."""

    keeps: Literal["conversations"] = "conversations"

    def __init__(
        self,
        conversations: Conversations,
        services: Services,
        examinations: Callable[[], Sequence[Callable[[], list[Finding]]]] = list,
    ) -> None:
        self._conversations, self._services, self._examinations = conversations, services, examinations

    def made(self, change: str) -> bool:
        return _version_in(change) > 0

    async def places(self) -> list[str]:
        return await self._conversations.ids()

    async def find(self, sought: Sought) -> list[Item]:
        found: list[Item] = []
        for name in await self.places() if sought.user is None else ():
            if sought.looks_in(name, "memories", "triggers"):
                try:
                    state = await self._services.store.read(name)
                except StorageError as error:
                    if sought.place is not None:
                        raise
                    log.warning("%s", _("{name} was passed over: {reason}", name, error))
                    continue
                gone = [] if sought.archived is False else await self._services.store.archive(name)
                found += await asyncio.to_thread(_sought_in, sought, name, state, gone)
        return sorted(found, key=lambda item: -item.at_ms)

    async def forget(self, items: Collection[Item], *, by: str) -> int:
        count = 0
        for place in sorted({item.place for item in items if item.family in ("memories", "triggers")}):
            short, long = (
                {i.id for i in items if i.place == place and i.family == f} for f in ("memories", "triggers")
            )

            def decide(state: ConversationState) -> tuple[Sequence[Change], _Gone]:
                gone: list[Memory] = [each for key, each in state.short_term.items() if key in short]  # noqa: B023
                gone += [each for key, each in state.long_term.items() if key in long]  # noqa: B023
                return [removing(each, "deleted") for each in gone], _Gone(len(gone))

            count += (await self._services.commit(place, decide, by=by)).count
        return count

    async def texts_of(self, items: Collection[Item]) -> set[str]:
        found: set[str] = set()
        for place in {item.place for item in items if item.family in ("memories", "triggers")}:
            names = {item.id for item in items if item.place == place}
            state = await self._services.store.read(place)
            for known in (state.short_term, state.long_term):
                found.update(text for key, memory in known.items() if key in names for text in texts_of(memory))
            for commit in await self._services.store.history(place, limit=_ALL):
                for memory in memories_in(commit.changes):
                    found.update(texts_of(memory) if memory.key in names else ())
        return found

    async def past_texts(self, words: Sequence[str]) -> set[str]:
        meant = Erasure((), (), words=tuple(words)).means
        texts: set[str] = set()
        for place in await self.places():
            for commit in await self._services.store.history(place, limit=_ALL):
                former = [memory for memory in memories_in(commit.changes) if meant(_item(place, memory))]
                texts.update(text for memory in former for text in texts_of(memory))
        return texts

    async def erase(self, erasure: Erasure) -> None:
        for place in await self.places():
            try:
                await self._services.store.compact(place, erased=partial(erasure.held_in, place=place))
            except StorageError as error:
                log.warning("%s", _("{place} was not searched, and nothing of it is erased: {reason}", place, error))

    async def erase_in(self, backups: BackupStore, name: str, erasure: Erasure) -> None:
        def kept(contents: Contents) -> Contents:
            def stays(memory: Memory) -> bool:
                item = _item(contents.conversation_id, memory)
                texts_held = erasure.held_in(texts_of(memory), said=False)
                return not (item.key in erasure.keys or texts_held or erasure.means(item))

            short = tuple(each for each in contents.short_term if stays(each))
            return replace(contents, short_term=short, long_term=tuple(e for e in contents.long_term if stays(e)))

        await asyncio.to_thread(backups.rewrite, name, kept)

    async def history(
        self,
        place: str | None = None,
        *,
        before: str | None = None,
        limit: int = HISTORY_PAGE,
        most_steps: int | None = None,
    ) -> list[PastChange]:
        names = await self._among(place) if before is None else [await self._place_of(before, place)]
        if before is not None and _version_in(before) > await self._conversations.version(names[0]):
            raise InvalidInput("There is no change {before}; `memory-server history` lists the changes.", before)
        pages = [await self._history(name, before, limit, most_steps) for name in names]
        return list(islice(merge(*pages, key=lambda change: -change.at_ms), limit))

    async def _history(self, name: str, before: str | None, limit: int, most_steps: int | None) -> list[PastChange]:
        archive = self._conversations.get(name).archive
        commits = await archive.history(before=before, limit=limit, most_changes=most_steps)
        return await asyncio.to_thread(lambda: [_past_change(name, commit) for commit in commits])

    async def undo(self, change: str, place: str | None = None, *, by: str = "api") -> Undone:
        conversation = self._conversations.get(await self._place_of(change, place))
        done = await conversation.archive.undo(change, by=by)
        return Undone(done.change_id, tuple(map(step_of, done.changes)))

    async def clean_up(
        self, place: str | None = None, *, dry_run: bool = False, by: str = "cleanup"
    ) -> AsyncIterator[Cleaned]:
        if place is not None and conversation_id_of(place) not in await self.places():
            raise InvalidInput("There is no conversation {place}; `memory-server list` shows all.", place)
        for name in await self._among(place):
            try:
                removed = await self._conversations.get(name).short_term.clean_up(dry_run=dry_run, by=by)
            except StorageError as error:
                if place is not None:
                    raise
                yield Cleaned(name, problem=str(error))
            else:
                left = tuple(map(_leaving, removed.forgotten))
                yield Cleaned(name, left, removed.remaining, removed.due)

    async def keep_up(self, seen_from_ms: int) -> int:
        forgotten = outdated = 0
        # Nothing of the others can be forgotten, so they are not opened.
        for name in await self._services.store.larger(self._services.parameters.retention.always_kept):
            try:
                conversation = self._conversations.get(name)
                removed = await conversation.short_term.clean_up(by="upkeep")
                outdated += await conversation.short_term.outdated()
                await self._services.store.compact(name, now_ms=seen_from_ms)
            except MemoryServerError as error:
                log.warning("upkeep skipped a conversation: %s", error)
            else:
                forgotten += len(removed.forgotten)
        await self._services.store.expire(seen_from_ms)
        if outdated:
            log.warning("%s", outdated_text(outdated))
        return forgotten

    async def examinations(self) -> list[Examine]:
        return [partial(asyncio.to_thread, examine) for examine in await asyncio.to_thread(self._examinations)]

    async def copy_to(self, backup: BackupWriter, only: str | None, advance: Callable[[], None]) -> Copied:
        left_out: list[str] = []
        for name in await self.places():
            if only in (None, name):
                try:
                    contents = contents_of(await self._services.store.read(name))
                except StorageError as error:
                    # A broken conversation must not prevent a backup of the others, and the user must hear of it.
                    log.warning("left out of the backup: %s", error)
                    left_out.append(str(error))
                else:
                    await asyncio.to_thread(backup.add, contents)
                advance()
        return Copied(left_out=tuple(left_out))

    async def _among(self, place: str | None) -> list[str]:
        return await self.places() if place is None else [conversation_id_of(place)]

    async def _place_of(self, change: str, place: str | None) -> str:
        """The conversation in which a change was made."""
        if place is not None:
            return conversation_id_of(place)
        version = _version_in(change)
        made = [name for name in await self.places() if change_id(name, version) == change]
        if not made:
            raise InvalidInput("There is no change {before}; `memory-server history` lists the changes.", change)
        if len(made) > 1:
            raise InvalidInput(
                "The change {change} can be one of {made}; say which with -c.", change, " or ".join(made)
            )
        return made[0]

    async def check_backup(self, backups: BackupStore, name: str, only: str | None) -> None:
        def check() -> None:
            with backups.open(name):
                pass

        await asyncio.to_thread(check)

    async def restore(
        self, backups: BackupStore, name: str, mode: Mode, *, dry_run: bool, only: str | None, by: str
    ) -> AsyncIterator[RestoredPlace]:
        wanted, done = None if only is None else conversation_id_of(only), 0
        opened = backups.open(name)
        _, conversations = await asyncio.to_thread(opened.__enter__)
        try:
            while (contents := await asyncio.to_thread(next, conversations, None)) is not None:
                if wanted in (None, contents.conversation_id):
                    yield await self._restore(contents, mode, dry_run, by, done)
                    done += 1
        finally:
            await asyncio.to_thread(opened.__exit__, None, None, None)
        if wanted is not None and not done:
            raise InvalidInput(
                "The backup {name} does not hold the conversation {wanted}; leave conversation_id out to see all.",
                name,
                wanted,
            )

    async def _restore(self, contents: Contents, mode: Mode, dry_run: bool, by: str, done: int) -> RestoredPlace:
        contents = without_erased(contents, self._services.erased)
        name = contents.conversation_id
        archived = archived_ids(await self._services.store.archive(name))

        def decide(state: ConversationState) -> tuple[Sequence[Change], _Counted]:
            changes, counts = restore_changes(state, contents, mode, archived)
            return changes, _Counted(counts)

        try:
            made = await self._services.commit(name, decide, by=by, dry_run=dry_run)
        except StorageError as error:
            if dry_run:
                raise
            raise StorageUnwritable(
                _(
                    "{reason} {done} conversations were brought back before it; run the restore again to go on.",
                    error,
                    done,
                ),
                error.path,
            ) from error
        return RestoredPlace(self.keeps, name, made.counts, contents.left_out, made.change_id)


@dataclass(frozen=True, slots=True)
class _Counted(Done):
    counts: MergeCounts


@dataclass(frozen=True, slots=True)
class _Gone(Done):
    count: int


_ALL = 2**62
ASKED_FOR_WORDS = _("asked for other words")
"""What was done to a memory that was sent to a model and got no words."""
_DONE = N_("added"), N_("edited"), N_("forgotten"), N_("restored"), N_("pinned"), N_("unpinned")
"""Changes that are named by their class."""


def step_of(change: Change) -> HistoryStep:
    """What a change did to one memory."""
    match change:
        case Edited(memory, before) if memory == replace(before, word_tries=memory.word_tries):
            return HistoryStep(ASKED_FOR_WORDS, memory.id)
        case Reinforced(id=memory_id, before=before, after=after):
            return HistoryStep(_("reinforced"), memory_id, _("{before:g} to {after:g}", before, after))
        case Pinned(id=memory_id) | Unpinned(id=memory_id):
            return HistoryStep(_(type(change).__name__.lower()), memory_id)
        case Muted(id=memory_id, after=places):
            return HistoryStep(_("muted") if places else _("no longer muted"), memory_id, ", ".join(places) or None)
        case TriggerSet(kept, before):
            return HistoryStep(_("stored") if before is None else _("replaced"), kept.name, beginning(kept.prompt))
        case TriggerRemoved(kept):
            return HistoryStep(_("removed"), kept.name, beginning(kept.prompt))
        case CleanedUp():
            return HistoryStep(_("cleaned up"))
        case _:
            return HistoryStep(_(type(change).__name__.lower()), change.memory.id, said_beginning(change.memory.text))


def _sought_in(sought: Sought, name: str, state: ConversationState, gone: Sequence[Archived]) -> list[Item]:
    """What is sought in a conversation and, where `gone` has it, in its archive; of an archived memory, the last
    removal counts."""
    live: list[Memory] = [*state.short_term.values(), *state.long_term.values()]
    keys = {(type(memory), memory.key) for memory in live}
    removed = {(type(entry.memory), entry.memory.key): entry.memory for entry in gone}
    items = [_item(name, memory) for memory in live]
    items += [_item(name, memory, archived=True) for key, memory in removed.items() if key not in keys]
    return sought.among(items)


def _item(place: str, memory: Memory, *, archived: bool = False) -> Item:
    if isinstance(memory, ShortTermMemory):
        said = tuple(f"{one.name}: {one.content}" if one.name else one.content for one in memory.messages)
        kept: dict[str, Any] = {"archived": archived, "said": said, "mark": mark_of(memory, place)}
        kept |= {"aliases": () if memory.turn is None else (memory.turn,), "session": memory.session or ""}
        kept |= {"turn": memory.turn, "other_words": memory.other_words}
        return Item("memories", place, memory.id, memory.time_ms, memory.text, **kept)
    at_ms = memory.updated_ms or memory.created_ms
    also = memory.trigger, memory.created_context, memory.updated_context or ""
    mark = mark_of(memory, place)
    return Item("triggers", place, memory.name, at_ms, memory.prompt, memory.name, archived, also=also, mark=mark)


def _leaving(gone: Forgotten) -> Leaving:
    memory = gone.memory
    return Leaving(memory.id, memory.time_ms, gone.reason, memory.text)


def _version_in(change: str) -> int:
    """The version that a change id names; 0: it has another form."""
    number, dash, mark = change.partition("-")
    return int(number) if dash and mark and number.isascii() and number.isdecimal() and len(number) < 16 else 0
