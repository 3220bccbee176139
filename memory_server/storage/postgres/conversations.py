"""The `ConversationStore` for several nodes: conversations as a log of commits in PostgreSQL (log.py).

A node keeps the conversations that it used in memory, and asks the database at each use what others have committed
since: nothing is answered from memory that was not asked about. The state is read and changed in the event loop only;
the database is waited for in other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import field
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from languages import Sentence
from memory_server.conversations.archive import Archived, Horizon, archived
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
from memory_server.lore import TriggerRemoved, TriggerSet
from memory_server.storage.open_ones import OpenOnes
from memory_server.storage.options import StoreParameters
from memory_server.storage.postgres.connection import Attempt, Connection, Database
from memory_server.storage.postgres.forms import (
    commit_of,
    copied,
    follow,
    line_of,
    packed,
    state_of,
)
from memory_server.storage.postgres.log import PAGE, Committed, Decided, Log, News

log = logging.getLogger(__name__)
T = TypeVar("T")

KIND = "conversation"
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
        """Return the state after `news`, or None if they do not go on from what is known, so that it must be read
        whole. A reader and a writer may bring the same commits."""
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
        self._database = database
        self._clock = clock
        self._log = Log(tenant, KIND)
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
        loop = asyncio.get_running_loop()
        deciding = _Deciding(conversation, decide, by=by, clock=self._clock)

        def decide_by(news: News | None, is_all: bool) -> Decided[Result] | None:
            # In a thread of the database: only the event loop may look at the state.
            if is_all:
                loaded = state_of(conversation.name, news)
                return _in_loop(loop, lambda: deciding.decided(conversation.keep(loaded)))
            return _in_loop(loop, lambda: deciding.decided(conversation.take(news)))

        # The work runs in a thread of the database and may run twice, so the decision is kept in `deciding`.
        async with _writing(conversation, wait_seconds) as seconds_left:
            work = self._log.committing(conversation.name, lambda: conversation.version, decide_by)
            try:
                committed: Committed[Result] = await self._database.run(work, seconds=seconds_left)
            except (StorageError, asyncio.CancelledError):
                # Whether it was committed is not known: the next use reads the conversation again.
                conversation.state = None
                raise

            if committed.version is None:
                return committed.result, None

            if committed.settled:
                conversation.state = None  # what was committed may not be what was decided last
            elif conversation.state is not None and conversation.version == committed.version - 1:
                replay(conversation.state, deciding.commits)

            self._meter.count("storage", "commits")
            if committed.due and not conversation.folding:
                conversation.folding = True
                self._open.begin(self._fold_quietly(conversation))

            return committed.result, change_id(conversation.name, committed.version)

    async def read(self, conversation_id: str) -> ConversationState:
        seen = seen_in_call()
        conversation = self._open.use(conversation_id)
        state = seen.get((self, conversation_id))
        if state is not None:
            return state if conversation.state is None else conversation.state
        state = await self._read(conversation)
        seen[self, conversation_id] = state
        return state

    async def _read(self, conversation: _OpenConversation) -> ConversationState:
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
        def look(connection: Connection) -> tuple[Commit, ...]:
            lines = self._log.newest_first(
                connection, conversation_id, before, page=min(limit, PAGE)
            )
            return tuple(commit_of(line, most_changes) for line in islice(lines, limit))

        return await self._look(look)

    async def archive(
        self, conversation_id: str, *, newest: int | None = None
    ) -> tuple[Archived, ...]:
        def look(connection: Connection) -> tuple[Archived, ...]:
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
        name = conversation.name
        state = await self.read(name)
        if not state.version:
            return
        # A copy: the state goes on changing while this is packed in another thread.
        version = state.version
        copy = copied(state)
        if erased is not None:
            copy.unusable = [kept for kept in copy.unusable if not erased(kept.record)]
        horizon = Horizon(now_ms - self._parameters.keep_ms, now_ms)

        def fold(connection: Connection) -> None:
            self._log.fold(connection, name, version=version, snapshot=packed(copy))
            self._log.expire(connection, horizon.since_ms, now_ms, name)
            if erased is not None:
                self._log.rewrite(connection, name, partial(_without_erased, erased))

        await self._look(fold)
        self._meter.count("storage", "compactions")

    async def expire(self, now_ms: int) -> None:
        """Delete the past of all conversations that is older than it is kept, counted back from `now_ms`."""
        horizon = Horizon(now_ms - self._parameters.keep_ms, now_ms)
        for name in await self._look(
            lambda connection: self._log.unfolded(connection, horizon.since_ms)
        ):
            try:
                await self.compact(name, now_ms=now_ms)
            except StorageError as error:  # the past of the others ends all the same
                log.warning("a snapshot was put off: %s", error)
        await self._look(lambda connection: self._log.expire(connection, horizon.since_ms, now_ms))

    async def _fold_quietly(self, conversation: _OpenConversation) -> None:
        try:
            await self._compact(conversation, self._clock())
        except StorageError as error:
            log.warning("a snapshot was put off: %s", error)
        finally:
            conversation.folding = False

    async def adopt(
        self, conversation_id: str, state: ConversationState, commits: Sequence[Commit]
    ) -> bool:
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


class _Deciding(Generic[T]):
    """A decision that may be called again, by another state of the conversation. It runs in the event loop."""

    def __init__(
        self, conversation: _OpenConversation, decide: Decide[T], by: str, clock: Callable[[], int]
    ) -> None:
        self._conversation = conversation
        self._decide = decide
        self._by = by
        self._clock = clock
        self.commits: list[Commit] = []
        """The commit that was decided last."""

    def decided(self, state: ConversationState | None) -> Decided[T] | None:
        """Return the decision by a state, or None if the conversation must be read whole first."""
        if state is None:
            return None
        changes, result = self._decide(state)
        if not changes:
            return Decided(result)
        commit = Commit(state.version + 1, self._clock(), by=self._by, changes=tuple(changes))
        self.commits = [commit]
        coming = sum(isinstance(change, Added | Restored) for change in changes)
        records = len(state.short_term) + coming
        return Decided(
            result, line_of(commit), archival=_can_change_archive(changes), records=records
        )


def unusable_records(
    connection: Connection, tenant: str
) -> Iterator[tuple[str, Sequence[UnusableRecord]]]:
    """Yield each conversation of a tenant that has records that cannot be used, with them. Blocking."""
    partitions = Log(tenant, KIND)
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
    """Lock a conversation against other writers of this process. Yields the seconds that are left."""
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
    """Return the result of `call` in the event loop, for another thread."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    loop.call_soon_threadsafe(run)
    return result.result()
