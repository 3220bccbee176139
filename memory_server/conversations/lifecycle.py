"""The lifecycle of conversations: what all of them together can do with their past."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from languages import N_, Sentence, _, counted
from memory_server.conversations.archive import ArchivedMemory, archived_ids
from memory_server.conversations.changes import (
    Change,
    ChatMoved,
    CleanedUp,
    Commit,
    Edited,
    Forgotten,
    Muted,
    Pinned,
    Reinforced,
    Unpinned,
    change_id,
    memories_in,
    removing,
    version_in,
)
from memory_server.conversations.codec import long_term_json
from memory_server.conversations.contents import (
    Contents,
    contents_of,
    restore_changes,
    without_erased,
)
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
from memory_server.kernel.erasure import Erasure, said_in, strings_in
from memory_server.kernel.errors import (
    InvalidInput,
    MemoryServerError,
    StorageError,
    StorageUnwritable,
)
from memory_server.kernel.items import Item, ItemFilter
from memory_server.kernel.lifecycle import (
    HISTORY_PAGE,
    BlockingExamine,
    CleanupItem,
    CopyResult,
    Examine,
    HistoryStep,
    PastChange,
    PlaceCleanup,
    RestoredPlace,
    Undone,
    newest_first,
)
from memory_server.kernel.messages import Message, said_beginning
from memory_server.kernel.text import beginning
from memory_server.kernel.values import frozen
from memory_server.lore import TriggerRemoved, TriggerSet

log = logging.getLogger(__name__)


def outdated_text(count: int) -> str:
    """Tell what to do about memories whose words were found with other settings."""
    were = _("memory was") if count == 1 else _("memories were")
    return _(
        "{number} {were} indexed with other words settings; run `memory-server doctor --reindex`, first "
        "with --dry-run.",
        count,
        were,
    )


class ConversationLifecycle:
    """The past of all `conversations`. `examinations` lists a blocking call for each of them, which examines its
    files and returns the findings; by default it is empty."""

    keeps: Literal["conversations"] = "conversations"

    def __init__(
        self,
        conversations: Conversations,
        services: Services,
        examinations: Callable[[], Sequence[BlockingExamine]] = list,
    ) -> None:
        self._conversations = conversations
        self._services = services
        self._examinations = examinations

    def made(self, change: str) -> bool:
        return version_in(change) > 0

    async def places(self) -> list[str]:
        return await self._conversations.ids()

    async def find(self, sought: ItemFilter) -> list[Item]:
        """Return the memories and triggers that are sought, live and archived, the newest first; none if a user is
        sought. A conversation that cannot be read is left out with a warning in the log, or raises StorageError if it
        alone is searched."""
        items: list[Item] = []
        if sought.user is not None:
            return items
        for conversation_id in await self.places():
            if not sought.looks_in(conversation_id, "memories", "triggers"):
                continue

            try:
                state = await self._services.store.read(conversation_id)
            except StorageError as error:
                if sought.place is not None:
                    raise
                log.warning("%s", _("{name} was passed over: {reason}", conversation_id, error))
                continue

            archive: Sequence[ArchivedMemory] = []
            if sought.archived is not False:
                archive = await self._services.store.archive(conversation_id)
            items += await asyncio.to_thread(_sought_in, sought, conversation_id, state, archive)
        return sorted(items, key=lambda item: -item.at_ms)

    async def forget(self, items: Collection[Item], *, by: str) -> int:
        count = 0
        for conversation_id, keys in sorted(_keys_by_place(items).items()):
            removed = await self._services.commit(conversation_id, partial(_removal, keys), by=by)
            count += removed.count
        return count

    async def texts_of(self, items: Collection[Item]) -> set[str]:
        """Return all texts that these items have or ever had, by the state and the history of their
        conversations. Raises StorageError if one cannot be read."""
        texts: set[str] = set()
        for conversation_id, keys in _keys_by_place(items).items():
            names = {name for _family, name in keys}
            state = await self._services.store.read(conversation_id)
            memories: list[Memory] = [*state.short_term.values(), *state.long_term.values()]
            for commit in await self._services.store.history(conversation_id, limit=_ALL):
                memories += memories_in(commit.changes)
            for memory in memories:
                if memory.key in names:
                    texts.update(texts_of(memory))
        return texts

    async def past_texts(self, words: Sequence[str]) -> set[str]:
        """Return all texts that memories of the past had which have all these words."""
        erasure = Erasure((), (), words=tuple(words))
        texts: set[str] = set()
        for conversation_id in await self.places():
            for commit in await self._services.store.history(conversation_id, limit=_ALL):
                for memory in memories_in(commit.changes):
                    if erasure.means(_item(conversation_id, memory)):
                        texts.update(texts_of(memory))
        return texts

    async def erase(self, erasure: Erasure) -> None:
        """Erase from the past and the unusable records of all conversations. A conversation that
        cannot be written is left as it is, with a warning in the log."""
        for conversation_id in await self.places():
            try:
                await self._services.store.compact(
                    conversation_id, erased=partial(erasure.held_in, place=conversation_id)
                )
            except StorageError as error:
                log.warning(
                    "%s",
                    _(
                        "{place} was not searched, and nothing of it is erased: {reason}",
                        conversation_id,
                        error,
                    ),
                )

    async def erase_in(self, backups: BackupStore, name: str, erasure: Erasure) -> None:
        """Write the backup `name` again without the memories and unusable records that are erased.
        Raises as `BackupStore.rewrite` does."""

        def without_erased_memories(contents: Contents) -> Contents:
            """Return a conversation without the memories that are erased by name, text or meaning,
            and without the unusable records that hold something erased."""

            def stays(memory: Memory) -> bool:
                item = _item(contents.conversation_id, memory)
                has_erased_text = erasure.held_in(texts_of(memory), said=False)
                return not (item.key in erasure.keys or has_erased_text or erasure.means(item))

            conversation_id = contents.conversation_id
            return replace(
                contents,
                unusable=tuple(
                    row
                    for row in contents.unusable
                    if not erasure.held_in(row.record, place=conversation_id)
                ),
                short_term=tuple(filter(stays, contents.short_term)),
                long_term=tuple(filter(stays, contents.long_term)),
            )

        await asyncio.to_thread(backups.rewrite, name, without_erased_memories)

    async def history(
        self,
        place: str | None = None,
        *,
        before: str | None = None,
        limit: int = HISTORY_PAGE,
        most_steps: int | None = None,
    ) -> list[PastChange]:
        """Return at most `limit` changes of a conversation, or of all, the newest first, before the
        change `before`. Raises InvalidInput if that change does not exist in them, StorageError if
        a conversation cannot be read."""
        if before is None:
            places = await self._among(place)
        else:
            place_of_change = await self._place_of(before, place)
            if version_in(before) > await self._conversations.version(place_of_change):
                raise InvalidInput(
                    "There is no change {before}; `memory-server history` lists the changes.",
                    before,
                )
            places = [place_of_change]

        # A page of each conversation has enough changes for the page of all.
        pages = [
            await self._history(each_place, before, limit, most_steps) for each_place in places
        ]
        return newest_first(pages, self._services.clock())[:limit]

    async def _history(
        self, place: str, before: str | None, limit: int, most_steps: int | None
    ) -> list[PastChange]:
        archive = self._conversations.get(place).archive
        commits = await archive.history(before=before, limit=limit, most_changes=most_steps)
        return await asyncio.to_thread(lambda: [past_change(place, commit) for commit in commits])

    async def undo(self, change: str, place: str | None = None, *, by: str = "api") -> Undone:
        conversation = self._conversations.get(await self._place_of(change, place))
        undone = await conversation.archive.undo(change, by=by)
        return Undone(undone.change_id, tuple(map(step_of, undone.changes)))

    async def clean_up(
        self, place: str | None = None, *, dry_run: bool = False, by: str = "cleanup"
    ) -> AsyncIterator[PlaceCleanup]:
        """Move the due memories of a conversation, or of all, into the archive, and yield what left
        each; with `dry_run` only yield it. Raises InvalidInput if the conversation does not exist,
        StorageError if a named one fails; of all, a failure is yielded as `problem`."""
        if place is not None and conversation_id_of(place) not in await self.places():
            raise InvalidInput(
                "There is no conversation {place}; `memory-server list` shows all.", place
            )

        for name in await self._among(place):
            try:
                removed = await self._conversations.get(name).short_term.clean_up(
                    dry_run=dry_run, by=by
                )
            except StorageError as error:
                # A clean-up of all conversations goes on after a failure; a named conversation fails.
                if place is not None:
                    raise
                yield PlaceCleanup(name, problem=str(error))
            else:
                leaving = tuple(map(_leaving, removed.forgotten))
                yield PlaceCleanup(name, leaving, removed.remaining, removed.due)

    async def keep_up(self, seen_from_ms: int) -> int:
        """Clean up and compact the conversations with more memories than are always kept, and
        delete old history of all. Return how many memories were forgotten. A conversation that
        fails is left out, with a warning in the log. Raises StorageError if a database cannot be asked."""
        forgotten = 0
        outdated = 0

        # Nothing of the others can be forgotten, so they are not opened.
        for name in await self._services.store.larger(
            self._services.parameters.retention.always_kept
        ):
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
        blocking_examinations = await asyncio.to_thread(self._examinations)
        return [partial(asyncio.to_thread, examine) for examine in blocking_examinations]

    async def copy_to(
        self, backup: BackupWriter, only: str | None, advance: Callable[[], None]
    ) -> CopyResult:
        """Add each conversation, or only that called `only`, to `backup`, and call `advance` after
        each. Return why each conversation that cannot be read was left out."""
        left_out: list[str] = []
        for name in await self.places():
            if only not in (None, name):
                continue
            try:
                contents = contents_of(await self._services.store.read(name))
            except StorageError as error:
                # A broken conversation must not prevent a backup of the others, and the user must hear of it.
                log.warning("left out of the backup: %s", error)
                left_out.append(str(error))
            else:
                await asyncio.to_thread(backup.add, contents)
            advance()
        return CopyResult(left_out=tuple(left_out))

    async def _among(self, conversation_id: str | None) -> list[str]:
        """List the ids of all conversations, or only the named one."""
        if conversation_id is None:
            return await self.places()
        return [conversation_id_of(conversation_id)]

    async def _place_of(self, change: str, conversation_id: str | None) -> str:
        """Return this conversation, or else the one in which a change was made. Raises InvalidInput if no
        conversation, or more than one, can have it."""
        if conversation_id is not None:
            return conversation_id_of(conversation_id)
        version = version_in(change)
        candidates = [name for name in await self.places() if change_id(name, version) == change]
        if not candidates:
            raise InvalidInput(
                "There is no change {before}; `memory-server history` lists the changes.", change
            )
        if len(candidates) > 1:
            raise InvalidInput(
                "The change {change} can be one of {made}; say which with -c.",
                change,
                " or ".join(candidates),
            )
        return candidates[0]

    async def check_backup(self, backups: BackupStore, name: str, only: str | None) -> None:
        """Raise as `BackupStore.open`, which checks all of the backup, whatever `only` says."""

        def check() -> None:
            with backups.open(name):
                pass

        await asyncio.to_thread(check)

    async def restore(
        self,
        backups: BackupStore,
        name: str,
        mode: Mode,
        *,
        dry_run: bool,
        only: str | None,
        by: str,
    ) -> AsyncIterator[RestoredPlace]:
        """Restore each conversation of the backup `name`, or only that called `only`, and yield
        what was done to it; with `dry_run` only yield it. Raises as `BackupStore.open` does, and
        InvalidInput if the backup does not have `only`."""
        only_id = None if only is None else conversation_id_of(only)
        done = 0

        # Opened by hand, because a `with` block would read the file on the event loop.
        backup = backups.open(name)
        _manifest, conversations = await asyncio.to_thread(backup.__enter__)
        try:
            while True:
                contents = await asyncio.to_thread(next, conversations, None)
                if contents is None:
                    break
                if only_id in (None, contents.conversation_id):
                    yield await self._restore(contents, mode, dry_run=dry_run, by=by, done=done)
                    done += 1
        finally:
            await asyncio.to_thread(backup.__exit__, None, None, None)

        if only_id is not None and not done:
            raise InvalidInput(
                "The backup {name} does not hold the conversation {wanted}; leave conversation_id out to see all.",
                name,
                only_id,
            )

    async def _restore(
        self, contents: Contents, mode: Mode, *, dry_run: bool, by: str, done: int
    ) -> RestoredPlace:
        """Restore one conversation without what was erased, and return what changed.

        Raises:
            StorageUnwritable: it cannot be committed; the message says that `done` conversations
                were restored before it.
            StorageError: its archive cannot be read, or the dry run failed."""
        contents = without_erased(contents, self._services.erased)
        name = contents.conversation_id
        archived = archived_ids(await self._services.store.archive(name))

        def decide(state: ConversationState) -> tuple[Sequence[Change], _MergeResult]:
            changes, counts = restore_changes(state, contents, mode, archived)
            return changes, _MergeResult(counts)

        try:
            restored = await self._services.commit(name, decide, by=by, dry_run=dry_run)
        except StorageError as error:
            if dry_run:
                raise

            # The count tells the user how far the restore came.
            raise StorageUnwritable(
                Sentence(
                    "{reason} {done} conversations were brought back before it; run the restore again to go on.",
                    error,
                    done,
                ),
                error.path,
            ) from error

        return RestoredPlace(
            self.keeps,
            name,
            counts=restored.counts,
            left_out=contents.left_out,
            change_id=restored.change_id,
        )


@frozen
class _MergeResult(Done):
    counts: MergeCounts


@frozen
class _RemovedCount(Done):
    count: int


def _keys_by_place(items: Collection[Item]) -> dict[str, set[tuple[str, str]]]:
    """Return the families and ids of the items that are memories of conversations, by conversation."""
    keys: dict[str, set[tuple[str, str]]] = {}
    for item in items:
        if item.family in ("memories", "triggers"):
            keys.setdefault(item.place, set()).add((item.family, item.id))
    return keys


def _removal(
    keys: Collection[tuple[str, str]], state: ConversationState
) -> tuple[Sequence[Change], _RemovedCount]:
    """Decide to remove the memories with these families and ids."""
    memories: list[Memory] = [
        memory for id_, memory in state.short_term.items() if ("memories", id_) in keys
    ]
    memories += [memory for name, memory in state.long_term.items() if ("triggers", name) in keys]
    return [removing(memory, "deleted") for memory in memories], _RemovedCount(len(memories))


_ALL = 2**62
"""Commits of a conversation: all."""


def _sought_in(
    sought: ItemFilter,
    conversation_id: str,
    state: ConversationState,
    archive: Sequence[ArchivedMemory],
) -> list[Item]:
    """Find what is sought in a conversation and in the given part of its archive; of an archived memory, the last
    removal counts."""
    live: list[Memory] = [*state.short_term.values(), *state.long_term.values()]
    removed = {(type(entry.memory), entry.memory.key): entry.memory for entry in archive}
    for memory in live:
        removed.pop((type(memory), memory.key), None)
    items = [_item(conversation_id, memory) for memory in live]
    items += [_item(conversation_id, memory, archived=True) for memory in removed.values()]
    return sought.among(items)


def _item(conversation_id: str, memory: Memory, *, archived: bool = False) -> Item:
    """Return a short-term memory or a trigger of the conversation as an item, as both engines have them."""
    if isinstance(memory, ShortTermMemory):
        return Item(
            "memories",
            conversation_id,
            memory.id,
            at_ms=memory.time_ms,
            text=memory.text,
            archived=archived,
            also=tuple(_beside(memory)),
            said=tuple(map(_named_content, memory.messages)),
            mark=mark_of(memory, conversation_id),
            aliases=() if memory.turn is None else (memory.turn,),
            session=memory.session or "",
            turn=memory.turn,
            other_words=memory.other_words,
        )
    return Item(
        "triggers",
        conversation_id,
        memory.name,
        at_ms=memory.updated_ms or memory.created_ms,
        text=memory.prompt,
        title=memory.name,
        archived=archived,
        also=(said_in(long_term_json(memory)),),
        mark=mark_of(memory, conversation_id),
    )


def _beside(memory: ShortTermMemory) -> Iterator[str]:
    """Yield what was done in a turn, and the strings in unknown fields of a memory and its messages, which another
    program has written."""
    yield from memory.work.texts
    for fields in (memory.extra, *(message.extra for message in memory.messages)):
        if fields:
            yield from strings_in(fields)


def _named_content(message: Message) -> str:
    """Return what a message says, after the name of its speaker if it has one."""
    if message.name:
        return f"{message.name}: {message.content}"
    return message.content


def _leaving(forgotten: Forgotten) -> CleanupItem:
    memory = forgotten.memory
    return CleanupItem(memory.id, memory.time_ms, forgotten.reason, memory.text)


# --- changes as steps -----------------------------------------------------------------------------

ASKED_FOR_WORDS = N_("asked for other words")
"""What was done to a memory that was sent to a model and got no words."""
_CLASS_WORDS = (
    N_("added"),
    N_("edited"),
    N_("forgotten"),
    N_("restored"),
    N_("pinned"),
    N_("unpinned"),
)
"""The lower-case class names of changes, which `step_of` uses as words. No code reads this tuple: it puts the words into
the catalogue."""


def past_change(place: str, commit: Commit) -> PastChange:
    """Describe a commit as a change of the history. An erased commit gets the single step `erased`."""
    steps = (
        _book_switch_steps(commit.changes)
        or tuple(map(step_of, commit.changes))
        or (HistoryStep(N_("erased")),)
    )
    return PastChange(
        change_id(place, commit.version), place, commit.at_ms, commit.by, steps, commit.more
    )


def _book_switch_steps(changes: Sequence[Change]) -> tuple[HistoryStep, ...]:
    """Return a single step for changes that switch entries of the same book, all of them on or all off; empty for
    other changes."""
    switched: set[tuple[str, bool]] = set()
    book_name = ""
    for change in changes:
        if (
            not isinstance(change, TriggerSet)
            or change.before is None
            or change.memory.book is None
        ):
            return ()

        before = change.before
        is_off = change.memory.rules.is_off
        if (
            change.memory != replace(before, rules=replace(before.rules, is_off=is_off))
            or before.rules.is_off == is_off
        ):
            return ()

        switched.add((change.memory.book.book_id, is_off))
        book_name = change.memory.book.book_name

    # Entries of two books, or on and off together: each change is told by itself.
    if len(switched) != 1:
        return ()
    [(_book_id, is_off)] = switched
    action = N_("switched off") if is_off else N_("switched on")
    return (HistoryStep(action, book_name, counted(len(changes), "entry")),)


def step_of(change: Change) -> HistoryStep:
    """Return what a change did to one memory, as a verb, the id or name of the memory, and a detail
    or the beginning of its text."""
    match change:
        # Before the other edits: only the count of tries has changed.
        case Edited(memory, before) if memory == replace(before, word_tries=memory.word_tries):
            return HistoryStep(ASKED_FOR_WORDS, memory.id)
        case Reinforced(id=memory_id, before=before, after=after):
            return HistoryStep(
                N_("reinforced"), memory_id, _("{before:g} to {after:g}", before, after)
            )
        # These changes and the last case are named by their class: see `_CLASS_WORDS`.
        case Pinned(id=memory_id) | Unpinned(id=memory_id):
            return HistoryStep(type(change).__name__.lower(), memory_id)
        case Muted(id=memory_id, after=places):
            return HistoryStep(
                N_("muted") if places else N_("no longer muted"),
                memory_id,
                ", ".join(places) or None,
            )
        case TriggerSet(memory, before):
            return HistoryStep(
                N_("stored") if before is None else N_("replaced"),
                memory.name,
                beginning(memory.prompt),
            )
        case TriggerRemoved(memory):
            return HistoryStep(N_("removed"), memory.name, beginning(memory.prompt))
        case CleanedUp():
            return HistoryStep(N_("cleaned up"))
        case ChatMoved(session, after=after):
            count = 0 if after is None else after.messages
            return HistoryStep(N_("counted"), session or None, counted(count, "message"))

        case _:
            return HistoryStep(
                type(change).__name__.lower(), change.memory.id, said_beginning(change.memory.text)
            )
