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
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from memory_server.conversations import codec
from memory_server.conversations.archive import Archived, Horizon, archived
from memory_server.conversations.change_forms import change, change_json
from memory_server.conversations.changes import (
    Added,
    Commit,
    Forgotten,
    Restored,
    TriggerRemoved,
    TriggerSet,
    change_id,
    replay,
)
from memory_server.conversations.model import ConversationState
from memory_server.conversations.ports import Decide, Result, seen_in_call
from memory_server.kernel import json_text
from memory_server.kernel.errors import LockTimeout, StorageError
from memory_server.kernel.lifecycle import HISTORY_PAGE
from memory_server.kernel.meter import Meter
from memory_server.storage.open_ones import OpenOnes
from memory_server.storage.options import StoreParameters
from memory_server.storage.postgres.connection import Attempt, Connection, Database
from memory_server.storage.postgres.log import PAGE, Committed, Decided, Line, Log, News
from sandbox.locale import _

log = logging.getLogger(__name__)
T = TypeVar("T")

KIND = "conversation"
_LEVEL = 6
"""Of zlib: higher ones take longer and save some percent."""
_OF_THE_ARCHIVE = (Forgotten, Restored, TriggerSet, TriggerRemoved)


@dataclass(slots=True)
class _Open:
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
        return None if self.state is None else self.state.version

    def take(self, news: News | None) -> ConversationState | None:
        """The state after `news`; None: they do not go on from what is known, so it must be read whole. A reader and a
        writer may bring the same commits."""
        if news is None:
            self.state = None
            return ConversationState(self.name)
        state = self.state
        if state is not None:
            for line in news.lines:
                if line.version == state.version + 1:
                    replay(state, [commit_of(line)])
            if state.version >= news.version:
                return state
        self.state = None
        return None

    def keep(self, state: ConversationState) -> ConversationState:
        """`state` was read whole; or the known one, which may be newer by now."""
        if self.state is None or self.state.version < state.version:
            self.state = state
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
        self._database, self._clock, self._log = database, clock, Log(tenant, KIND)
        self._parameters, self._meter = parameters or StoreParameters(), meter or Meter()
        self._open = OpenOnes(_Open, self._parameters)
        self._meter.expect("storage", "commits", "compactions", "failed_reads", "failed_writes")
        self._meter.gauge("storage", "open_conversations", lambda: len(self._open))

    async def update(
        self, conversation_id: str, decide: Decide[Result], *, by: str, wait_seconds: float | None = None
    ) -> tuple[Result, str | None]:
        seen_in_call().pop((self, conversation_id), None)
        one = self._open.use(conversation_id)
        wait = self._parameters.wait_seconds if wait_seconds is None else wait_seconds

        def commit(decide: Decide[Result]) -> Coroutine[Any, Any, tuple[Result, str | None]]:
            return self._update(one, decide, by, wait)

        return await self._open.decided(decide, lambda: self.read(conversation_id), commit)

    async def _update(
        self, one: _Open, decide: Decide[Result], by: str, wait_seconds: float
    ) -> tuple[Result, str | None]:
        loop = asyncio.get_running_loop()
        made: list[Commit] = []

        def decided(news: News | None, loaded: ConversationState | None) -> Decided[Result] | None:
            state = one.take(news) if loaded is None else one.keep(loaded)
            if state is None:
                return None
            changes, result = decide(state)
            if not changes:
                return Decided(result)
            commit = Commit(state.version + 1, self._clock(), by, tuple(changes))
            made[:] = [commit]
            more = sum(isinstance(each, Added | Restored) for each in changes)
            archival = any(isinstance(each, _OF_THE_ARCHIVE) for each in changes)
            return Decided(result, line_of(commit), archival, len(state.short_term) + more)

        def decide_by(news: News | None, whole: bool) -> Decided[Result] | None:
            # In a thread of the database: only the event loop may look at the state.
            loaded = state_of(one.name, news) if whole else None
            return _on(loop, lambda: decided(news, loaded))

        async with _held(one, wait_seconds) as left:
            work = self._log.committing(one.name, lambda: one.version, decide_by)
            try:
                done: Committed[Result] = await self._database.run(work, seconds=left)
            except (StorageError, asyncio.CancelledError):
                one.state = None
                raise
            if done.version is None:
                return done.result, None
            if done.settled:
                one.state = None  # what was committed may not be what was decided last
            elif one.version == done.version - 1 and one.state is not None:
                replay(one.state, made)
            self._meter.count("storage", "commits")
            if done.due and not one.folding:
                one.folding = True
                self._open.begin(self._fold_quietly(one))
            return done.result, change_id(one.name, done.version)

    async def read(self, conversation_id: str) -> ConversationState:
        seen = seen_in_call()
        one = self._open.use(conversation_id)
        if (found := seen.get((self, conversation_id))) is not None:
            return found if one.state is None else one.state
        seen[self, conversation_id] = found = await self._read(one)
        return found

    async def _read(self, one: _Open) -> ConversationState:
        if (known := one.version) is not None:
            news = await self._look(lambda connection: self._log.since(connection, one.name, known))
            if (state := one.take(news)) is not None:
                return state
        async with one.loading:
            # In a thread, because a large one takes long to unpack.
            loaded = await self._look(lambda c: state_of(one.name, self._log.whole(c, one.name)))
            return loaded if loaded.version == 0 else one.keep(loaded)

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
            lines = self._log.newest_first(connection, conversation_id, before, page=min(limit, PAGE))
            return tuple(commit_of(line, most_changes) for line in islice(lines, limit))

        return await self._look(look)

    async def archive(self, conversation_id: str, *, newest: int | None = None) -> tuple[Archived, ...]:
        def look(connection: Connection) -> tuple[Archived, ...]:
            lines = self._log.newest_first(connection, conversation_id, archival=True)
            return archived(map(commit_of, lines), newest)

        return await self._look(look)

    async def damaged(self, conversation_id: str) -> int:
        return 0

    async def compact(
        self, conversation_id: str, *, now_ms: int | None = None, erased: Callable[[Any], bool] | None = None
    ) -> None:
        if self._parameters.read_only:
            return
        now = self._clock() if now_ms is None else now_ms
        await asyncio.shield(self._open.begin(self._compact(self._open.use(conversation_id), now, erased)))

    async def _compact(self, one: _Open, now_ms: int, erased: Callable[[Any], bool] | None = None) -> None:
        state = await self.read(one.name)
        if not state.version:
            return
        # A copy: the state goes on changing while this is packed in another thread.
        version, cleanup_ms = state.version, state.last_cleanup_ms
        short, long = list(state.short_term.values()), list(state.long_term.values())
        horizon = Horizon(now_ms - self._parameters.keep_ms, now_ms)

        def mended(changes: str) -> str:
            kept = json_text.loads(changes.encode())
            return json_text.dumps([each for each in kept if erased is None or not erased(each)]).decode()

        def fold(connection: Connection) -> None:
            self._log.fold(connection, one.name, version, packed(short, long, cleanup_ms))
            self._log.expire(connection, horizon.since_ms, now_ms, one.name)
            if erased is not None:
                self._log.rewrite(connection, one.name, mended)

        await self._look(fold)
        self._meter.count("storage", "compactions")

    async def expire(self, now_ms: int) -> None:
        """Delete the past of all conversations that is older than it is kept, counted back from `now_ms`."""
        horizon = Horizon(now_ms - self._parameters.keep_ms, now_ms)
        for name in await self._look(lambda connection: self._log.unfolded(connection, horizon.since_ms)):
            await self.compact(name, now_ms=now_ms)
        await self._look(lambda connection: self._log.expire(connection, horizon.since_ms, now_ms))

    async def _fold_quietly(self, one: _Open) -> None:
        try:
            await self._compact(one, self._clock())
        except StorageError as error:
            log.warning("a snapshot was put off: %s", error)
        finally:
            one.folding = False

    async def adopt(self, conversation_id: str, state: ConversationState, commits: Sequence[Commit]) -> bool:
        short, long = state.short_term.values(), state.long_term.values()
        snapshot, lines = packed(short, long, state.last_cleanup_ms), list(map(line_of, commits))
        archival = {c.version: any(isinstance(each, _OF_THE_ARCHIVE) for each in c.changes) for c in commits}
        news = News(state.version, lines, state.version, snapshot)
        return await self._look(lambda c: self._log.adopt(c, conversation_id, news, len(short), archival))

    async def aclose(self) -> None:
        await self._open.finish()
        self._open.clear()

    async def _look(self, look: Callable[[Connection], T]) -> T:
        """What `look` finds, which may be called again."""

        def work(attempt: Attempt) -> T:
            return look(attempt.connection)

        return await self._database.run(work, seconds=self._parameters.wait_seconds)


@contextlib.asynccontextmanager
async def _held(one: _Open, wait_seconds: float) -> AsyncIterator[float]:
    """The right of this process to write a conversation; gives the seconds that are left."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_seconds
    try:
        async with asyncio.timeout(wait_seconds):
            await one.writers.acquire()
    except TimeoutError as error:
        raise LockTimeout(
            _(
                "The conversation {conversation} has been written for more than {wait_seconds:g} s; try again, "
                "nothing was changed.",
                one.name,
                wait_seconds,
            )
        ) from error
    try:
        yield deadline - loop.time()
    finally:
        one.writers.release()


def _on(loop: asyncio.AbstractEventLoop, call: Callable[[], T]) -> T:
    """What `call` gives in the event loop, for another thread."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    loop.call_soon_threadsafe(run)
    return done.result()


# --- forms ---------------------------------------------------------------------------------------------------


def line_of(commit: Commit) -> Line:
    changes = json_text.dumps([change_json(change) for change in commit.changes])
    return Line(commit.version, commit.at_ms, commit.by, changes.decode())


def commit_of(line: Line, most_changes: int | None = None) -> Commit:
    """A commit with at most so many changes. Raises StorageError: it is of a newer memory-server."""
    try:
        records = json_text.loads(line.changes.encode())
        changes = tuple(map(change, records[:most_changes]))
    except json_text.NotARecord as error:
        raise StorageError(
            _("The commit {version} cannot be read ({reason}); update this memory-server.", line.version, error)
        ) from error
    return Commit(line.version, line.at_ms, line.by, changes, len(records) - len(changes))


def packed(short: Iterable[Any], long: Iterable[Any], last_cleanup_ms: int | None) -> bytes:
    """A snapshot (format 1)."""
    fields = {
        "shortTerm": list(map(codec.short_term_json, short)),
        "longTerm": list(map(codec.long_term_json, long)),
        "lastCleanup": last_cleanup_ms,
    }
    return zlib.compress(json_text.dumps(fields), _LEVEL)


def state_of(name: str, news: News | None) -> ConversationState:
    """The state of a conversation that was read whole; an empty one, if there is none."""
    if news is None:
        return ConversationState(name)
    state = ConversationState(name, news.base)
    if news.snapshot is not None:
        fields = json_text.load_object(zlib.decompress(news.snapshot))
        state.short_term = {each.id: each for each in codec.short_terms(fields["shortTerm"], name, ours=True)}
        state.long_term = {each.name: each for each in codec.long_terms(fields["longTerm"], ours=True)}
        state.last_cleanup_ms = fields["lastCleanup"]
    replay(state, map(commit_of, news.lines))
    return state
