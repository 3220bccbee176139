"""The `ConversationStore` for several nodes: conversations as a log of commits in PostgreSQL (log.py).

A node keeps the conversations that it used in memory, and asks the database at each use what others have committed
since: nothing is answered from memory that was not asked about. The state is read and changed in the event loop only;
the database is waited for in other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import field
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from languages import Sentence
from memory_server.conversations import codec
from memory_server.conversations.archive import ArchivedMemory, archived
from memory_server.conversations.change_forms import change_json, changes_of, is_of_newer_type
from memory_server.conversations.changes import (
    Added,
    Change,
    Commit,
    Forgotten,
    Restored,
    change_id,
    replay,
)
from memory_server.conversations.model import ConversationState, UnusableRecord
from memory_server.conversations.ports import Decide, Result
from memory_server.conversations.services import seen_in_call
from memory_server.kernel import json_text
from memory_server.kernel.errors import LockTimeout, StorageError
from memory_server.kernel.lifecycle import HISTORY_PAGE
from memory_server.kernel.meter import Meter
from memory_server.kernel.values import dataclass
from memory_server.lore import TriggerRemoved, TriggerSet, chats_json, chats_of
from memory_server.storage.open_ones import OpenOnes
from memory_server.storage.options import StoreParameters
from memory_server.storage.postgres.connection import Attempt, Connection, Database
from memory_server.storage.postgres.log import PAGE, CommitPlan, CommitResult, Line, Log, News

# --- commits and snapshots ---------------------------------------------------------------------------------------

# Commits and snapshots of conversations as PostgreSQL keeps them.

_LEVEL = 6
"""The level of zlib: higher ones take longer and save some percent."""


def line_of(commit: Commit) -> Line:
    changes = json_text.dumps([change_json(change) for change in commit.changes])
    return Line(commit.version, commit.at_ms, by=commit.by, changes=changes.decode())


def commit_of(
    line: Line, most_changes: int | None = None, unusable: list[UnusableRecord] | None = None
) -> Commit:
    """Read a commit, its changes as in `change_forms.changes_of`."""
    records = json_text.loads(line.changes.encode())
    changes, more = changes_of(records, most_changes, unusable)
    return Commit(line.version, line.at_ms, by=line.by, changes=changes, more=more)


def follow(state: ConversationState, lines: Iterable[Line]) -> None:
    """Apply these commits to a state; their changes that cannot be used are kept in it."""
    replay(state, (commit_of(line, unusable=state.unusable) for line in lines))


def copied(state: ConversationState) -> ConversationState:
    """Copy what a snapshot holds, for another thread."""
    return ConversationState(
        state.conversation_id,
        state.version,
        short_term=dict(state.short_term),
        long_term=dict(state.long_term),
        last_cleanup_ms=state.last_cleanup_ms,
        chats=dict(state.chats),
        unusable=list(state.unusable),
    )


def packed(state: ConversationState) -> bytes:
    """Return a packed snapshot (format 1), with the records that cannot be used. Raises
    StorageError if a record is nested too deeply, or a newer program made a change, which would be
    lost."""
    fields: dict[str, Any] = {
        "shortTerm": list(map(codec.short_term_json, state.short_term.values())),
        "longTerm": list(map(codec.long_term_json, state.long_term.values())),
        "lastCleanup": state.last_cleanup_ms,
    }
    if state.unusable:
        fields["unusable"] = [{row.kind: row.record} for row in state.unusable]
    if state.chats:
        fields["chats"] = chats_json(state.chats)

    # A snapshot replaces the commits, so it must not leave out a change that only a newer program understands.
    try:
        if any(map(is_of_newer_type, state.unusable)):
            raise TypeError("a change is of a newer program")
        return zlib.compress(json_text.dumps(fields), _LEVEL)
    except (RecursionError, TypeError) as error:
        raise StorageError(
            Sentence(
                "No snapshot of {conversation} was made, because a record in it is nested too deeply, or of a newer "
                "memory-server: update this one; the commits stay.",
                state.conversation_id,
            )
        ) from error


def state_of(name: str, news: News | None) -> ConversationState:
    """Return the state of a conversation that was read whole: an empty state without news."""
    if news is None:
        return ConversationState(name)

    state = ConversationState(name, news.base)
    if news.snapshot is not None:
        fields = _unpacked(name, news.snapshot)
        unusable = state.unusable
        short_term = codec.short_terms(
            _records(fields, "shortTerm"), name, ours=True, unusable=unusable
        )
        long_term = codec.long_terms(_records(fields, "longTerm"), ours=True, unusable=unusable)
        state.short_term = {memory.id: memory for memory in short_term}
        state.long_term = {memory.name: memory for memory in long_term}
        state.last_cleanup_ms = codec.cleanup_time(fields.get("lastCleanup"))
        state.chats = chats_of(fields.get("chats"))
        for row in _records(fields, "unusable"):
            _try_again(state, row)

    follow(state, news.lines)
    return state


def _unpacked(name: str, snapshot: bytes) -> json_text.Json:
    """Return the fields of a packed snapshot. Raises StorageError if it is damaged."""
    try:
        return json_text.load_object(zlib.decompress(snapshot))
    except (zlib.error, json_text.NotARecord) as error:
        raise StorageError(
            Sentence(
                "The snapshot of {conversation} in the database cannot be read ({reason}); restore a dump.",
                name,
                str(error),
            )
        ) from error


def _try_again(state: ConversationState, row: Any) -> None:
    """Use a record that could not be used when it was folded, if this version can; else keep it. A change is only kept:
    what was made after it builds on a state without it."""
    match row:
        case {"short": record}:
            for memory in codec.short_terms(
                [record], state.conversation_id, unusable=state.unusable
            ):
                state.short_term.setdefault(memory.id, memory)
        case {"long": record}:
            for trigger in codec.long_terms([record], unusable=state.unusable):
                state.long_term.setdefault(trigger.name, trigger)
        case {"change": record} | record:
            reason = json_text.NotARecord("it could not be read when it was folded")
            state.unusable.append(UnusableRecord("change", record, reason))


def _records(fields: json_text.Json, key: str) -> list[Any]:
    """Return the records under a key. A value that is not a list counts as a single record, which cannot be used."""
    records = fields.get(key, [])
    return records if isinstance(records, list) else [records]


log = logging.getLogger(__name__)
T = TypeVar("T")

# --- the store ---------------------------------------------------------------------------------------------------

_OF_THE_ARCHIVE = (Forgotten, Restored, TriggerSet, TriggerRemoved)


@dataclass(slots=True)
class _OpenConversation:
    """A conversation that this node has in memory. `state` None: it must be read whole."""

    name: str
    state: ConversationState | None = None
    writers: asyncio.Lock = field(default_factory=asyncio.Lock)
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)
    folding: bool = False
    used: float = 0.0

    @property
    def busy(self) -> bool:
        return self.writers.locked() or self.loading.locked() or self.folding

    @property
    def version(self) -> int | None:
        if self.state is None:
            return None
        return self.state.version

    def take(self, news: News | None) -> ConversationState | None:
        """Bring the known state up to `news` and return it; an empty state if the conversation is missing (None). If
        they do not go on from what is known, forget it and return None: then it must be read whole. A reader and a
        writer may bring the same commits."""
        if news is None:
            self.state = None
            return ConversationState(self.name)
        state = self.state
        if state is not None:
            for line in news.lines:
                if line.version == state.version + 1:
                    follow(state, [line])
            if state.version >= news.version:
                return state
        self.state = None
        return None

    def keep(self, loaded: ConversationState) -> ConversationState:
        """Return the state after `state` was read: this state, or the kept state if that is newer by now."""
        if self.state is None or self.state.version < loaded.version:
            self.state = loaded
        return self.state


class PostgresStore:
    """The conversations of `tenant` in `database`. See `ports.ConversationStore`."""

    def __init__(
        self,
        database: Database,
        tenant: str,
        clock: Callable[[], int],
        parameters: StoreParameters | None = None,
        meter: Meter | None = None,
    ) -> None:
        """Keep what is given, and begin the figures of the meter. The database is not asked yet."""
        self._database = database
        self._clock = clock
        self._log = Log(tenant)
        self._parameters = parameters or StoreParameters()
        self._meter = meter or Meter()
        self._open = OpenOnes(_OpenConversation, self._parameters)
        self._meter.expect("storage", "commits", "compactions", "failed_reads", "failed_writes")
        self._meter.gauge("storage", "open_conversations", lambda: len(self._open))

    async def update(
        self,
        conversation_id: str,
        decide: Decide[Result],
        *,
        by: str,
        wait_seconds: float | None = None,
    ) -> tuple[Result, str | None]:
        """Decide and commit under the lock of the conversation. Raises LockTimeout after
        `wait_seconds` (by default of the parameters), OutcomeUnknown, StorageUnwritable if it
        cannot be written or the store is read-only."""
        seen_in_call().pop((self, conversation_id), None)
        conversation = self._open.use(conversation_id)
        if wait_seconds is None:
            wait_seconds = self._parameters.wait_seconds
        timeout_seconds = wait_seconds

        def commit(decide: Decide[Result]) -> Coroutine[Any, Any, tuple[Result, str | None]]:
            return self._update(conversation, decide, by=by, wait_seconds=timeout_seconds)

        return await self._open.decided(decide, lambda: self.read(conversation_id), commit)

    async def _update(
        self, conversation: _OpenConversation, decide: Decide[Result], by: str, wait_seconds: float
    ) -> tuple[Result, str | None]:
        """Commit what `decide` decides by the newest state, and return its result with the id of
        the change (None without changes). `decide` may be called several times. Raises
        StorageError; then the state in memory is forgotten, because the commit may have
        happened."""
        loop = asyncio.get_running_loop()
        commits: list[Commit] = []
        """The commit that was decided last."""

        def decided(state: ConversationState | None) -> CommitPlan[Result] | None:
            """Return the decision by a state, or None if the conversation must be read whole first."""
            if state is None:
                return None
            changes, result = decide(state)
            if not changes:
                return CommitPlan(result)

            commit = Commit(state.version + 1, self._clock(), by=by, changes=tuple(changes))
            commits[:] = [commit]
            coming = sum(isinstance(change, Added | Restored) for change in changes)
            return CommitPlan(
                result,
                line_of(commit),
                archival=_can_change_archive(changes),
                records=len(state.short_term) + coming,
            )

        def decide_by(news: News | None, is_all: bool) -> CommitPlan[Result] | None:
            # In a thread of the database: only the event loop may look at the state.
            if is_all:
                loaded = state_of(conversation.name, news)
                return _in_loop(loop, lambda: decided(conversation.keep(loaded)))
            return _in_loop(loop, lambda: decided(conversation.take(news)))

        # The work runs in a thread of the database and may run twice, so the commit is kept in `commits`.
        async with _writing(conversation, wait_seconds) as seconds_left:
            work = self._log.committing(conversation.name, lambda: conversation.version, decide_by)
            try:
                committed: CommitResult[Result] = await self._database.run(
                    work, seconds=seconds_left
                )
            except (StorageError, asyncio.CancelledError):
                # Whether it was committed is not known: the next use reads the conversation again.
                conversation.state = None
                raise

            if committed.version is None:
                return committed.result, None

            if committed.settled:
                conversation.state = None  # what was committed may not be what was decided last
            elif conversation.state is not None and conversation.version == committed.version - 1:
                replay(conversation.state, commits)

            self._meter.count("storage", "commits")
            if committed.due and not conversation.folding:
                conversation.folding = True
                self._open.begin(self._fold_quietly(conversation))

            return committed.result, change_id(conversation.name, committed.version)

    async def read(self, conversation_id: str) -> ConversationState:
        """Return the newest state. What a call has read before is not asked of the database again: it is returned with
        the commits that this process has seen since. Raises StorageError."""
        seen = seen_in_call()
        conversation = self._open.use(conversation_id)
        state = seen.get((self, conversation_id))
        if state is not None:
            return state if conversation.state is None else conversation.state
        state = await self._read(conversation)
        seen[self, conversation_id] = state
        return state

    async def _read(self, conversation: _OpenConversation) -> ConversationState:
        """Return the newest state: the state in memory with the commits after it, or the whole
        conversation from the database if that is not enough. Raises StorageError."""
        name = conversation.name
        version = conversation.version
        if version is not None:
            news = await self._look(lambda connection: self._log.since(connection, name, version))
            state = conversation.take(news)
            if state is not None:
                return state
        async with conversation.loading:
            # In a thread, because a large one takes long to unpack.
            loaded = await self._look(
                lambda connection: state_of(name, self._log.whole(connection, name))
            )
            if loaded.version == 0:
                return loaded
            return conversation.keep(loaded)

    async def conversations(self) -> list[str]:
        return await self._look(self._log.names)

    async def larger(self, than: int) -> list[str]:
        return await self._look(lambda connection: self._log.names(connection, than))

    async def history(
        self,
        conversation_id: str,
        *,
        before: int | None = None,
        limit: int = HISTORY_PAGE,
        most_changes: int | None = None,
    ) -> tuple[Commit, ...]:
        """Return at most `limit` commits with a version below `before`, the newest first, each with
        at most `most_changes` changes. Raises StorageError."""

        def look(connection: Connection) -> tuple[Commit, ...]:
            lines = self._log.newest_first(
                connection, conversation_id, before, page=min(limit, PAGE)
            )
            return tuple(commit_of(line, most_changes) for line in islice(lines, limit))

        return await self._look(look)

    async def archive(
        self, conversation_id: str, *, newest: int | None = None
    ) -> tuple[ArchivedMemory, ...]:
        """Return the archived memories, or only the `newest` of them, by the commits that are kept. Raises StorageError."""

        def look(connection: Connection) -> tuple[ArchivedMemory, ...]:
            lines = self._log.newest_first(connection, conversation_id, archival=True)
            return archived(map(commit_of, lines), newest)

        return await self._look(look)

    async def damaged(self, conversation_id: str) -> int:
        return 0  # what cannot be used is kept in the state

    async def compact(
        self,
        conversation_id: str,
        *,
        now_ms: int | None = None,
        erased: Callable[[Any], bool] | None = None,
    ) -> None:
        """Fold the commits of a conversation into a snapshot, and delete what is no longer kept at
        `now_ms` (by default now) or is `erased`. Do nothing if the store is read-only. Raises
        StorageError."""
        if self._parameters.read_only:
            return
        if now_ms is None:
            now_ms = self._clock()
        compaction = self._compact(self._open.use(conversation_id), now_ms, erased)
        await asyncio.shield(self._open.begin(compaction))

    async def _compact(
        self,
        conversation: _OpenConversation,
        now_ms: int,
        erased: Callable[[Any], bool] | None = None,
    ) -> None:
        """Store a snapshot of the newest state, and delete the commits that are no longer kept and,
        in the ones that stay, what is `erased`. Do nothing for an unknown conversation. Raises
        StorageError."""
        name = conversation.name
        state = await self.read(name)
        if not state.version:
            return
        # A copy: the state goes on changing while this is packed in another thread.
        version = state.version
        copy = copied(state)
        if erased is not None:
            copy.unusable = [row for row in copy.unusable if not erased(row.record)]
        since_ms = now_ms - self._parameters.keep_ms

        def fold(connection: Connection) -> None:
            self._log.fold(connection, name, version=version, snapshot=packed(copy))
            self._log.expire(connection, since_ms, now_ms, name)
            if erased is not None:
                self._log.rewrite(connection, name, partial(_without_erased, erased))

        await self._look(fold)
        self._meter.count("storage", "compactions")

    async def expire(self, now_ms: int) -> None:
        """Delete the past of all conversations that is older than it is kept, counted back from `now_ms`."""
        since_ms = now_ms - self._parameters.keep_ms
        for name in await self._look(lambda connection: self._log.unfolded(connection, since_ms)):
            try:
                await self.compact(name, now_ms=now_ms)
            except StorageError as error:  # the past of the others ends all the same
                log.warning("a snapshot was put off: %s", error)
        await self._look(lambda connection: self._log.expire(connection, since_ms, now_ms))

    async def _fold_quietly(self, conversation: _OpenConversation) -> None:
        """Write a snapshot; an error is only logged. Afterwards it may begin again."""
        try:
            await self._compact(conversation, self._clock())
        except StorageError as error:
            log.warning("a snapshot was put off: %s", error)
        finally:
            conversation.folding = False

    async def adopt(
        self, conversation_id: str, state: ConversationState, commits: Sequence[Commit]
    ) -> bool:
        """Store a conversation of another store with its past. Return False, and store nothing, if it exists. Raises
        StorageError."""
        lines = list(map(line_of, commits))
        archival = {commit.version: _can_change_archive(commit.changes) for commit in commits}
        news = News(state.version, lines, base=state.version, snapshot=packed(state))
        records = len(state.short_term)
        return await self._look(
            lambda connection: self._log.adopt(connection, conversation_id, news, records, archival)
        )

    async def aclose(self) -> None:
        await self._open.finish()
        self._open.clear()

    async def _look(self, look: Callable[[Connection], T]) -> T:
        """Return the result of `look`, which may be called again."""

        def work(attempt: Attempt) -> T:
            return look(attempt.connection)

        return await self._database.run(work, seconds=self._parameters.wait_seconds)


def unusable_records(
    connection: Connection, tenant: str
) -> Iterator[tuple[str, Sequence[UnusableRecord]]]:
    """Yield each conversation of a tenant that has records that cannot be used, with them. Blocking."""
    partitions = Log(tenant)
    for name in partitions.names(connection):
        unusable = state_of(name, partitions.whole(connection, name)).unusable
        if unusable:
            yield name, unusable


def _can_change_archive(changes: Sequence[Change]) -> bool:
    return any(isinstance(change, _OF_THE_ARCHIVE) for change in changes)


def _without_erased(erased: Callable[[Any], bool], changes: str) -> str:
    """Return the changes of a commit without erased changes."""
    records = json_text.loads(changes.encode())
    if not isinstance(records, list):
        records = [records]
    return json_text.dumps([record for record in records if not erased(record)]).decode()


@contextlib.asynccontextmanager
async def _writing(conversation: _OpenConversation, wait_seconds: float) -> AsyncIterator[float]:
    """Lock a conversation against other writers of this process, and yield the seconds that are
    left of `wait_seconds`. Raises LockTimeout if others hold it for longer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_seconds
    try:
        async with asyncio.timeout(wait_seconds):
            await conversation.writers.acquire()
    except TimeoutError as error:
        raise LockTimeout(
            Sentence(
                "The conversation {conversation} has been written for more than {wait_seconds:g} s; try again, "
                "nothing was changed.",
                conversation.name,
                wait_seconds,
            )
        ) from error

    try:
        yield deadline - loop.time()
    finally:
        conversation.writers.release()


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], T]) -> T:
    """Run `call` in the event loop from another thread, wait for it, and return its result or raise
    its error."""

    async def called() -> T:
        return call()

    return asyncio.run_coroutine_threadsafe(called(), loop).result()
