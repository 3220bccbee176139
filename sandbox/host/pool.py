"""The worker processes of a sandbox: started when first needed, lent to searches, replaced when dead.

A search waits here for a worker, first come first served. Nothing of it is prepared before that. When
`SandboxLimits.max_waiting` searches wait, the next one is refused."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from sandbox.errors import ProtocolError, SandboxBusy, SandboxClosed
from sandbox.host.process import WorkerDied, WorkerProcess
from sandbox.protocol import Frame

READY_SECONDS = 1.0
"""How long a worker may make a new isolate after a search (10 ms usually) before it is replaced."""


class Pool:
    """At most `size` busy workers, and one idle `spare` so that a death costs milliseconds and not a start. `start`
    gives a worker that is ready. `most_waiting`: searches that may wait for one."""

    def __init__(
        self,
        start: Callable[[], Awaitable[WorkerProcess]],
        size: int,
        most_waiting: int,
        *,
        spare: bool = True,
    ) -> None:
        """Prepare a pool of `size` workers, which start when needed. With `spare` a worker starts
        ahead, so that the next search finds one."""
        self._start_worker = start
        self._size = size
        self._most_waiting = most_waiting
        self._spare = spare
        self._free = asyncio.Semaphore(size)
        self._idle: deque[WorkerProcess] = deque()
        self._busy: set[WorkerProcess] = set()
        self._starting: set[asyncio.Task[WorkerProcess]] = set()
        self._claimed: set[asyncio.Task[WorkerProcess]] = set()
        self._watches: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self.started = 0
        """Processes started so far, also processes that replaced a dead one."""
        self.replaced = 0
        """Processes that were found dead, or were killed in the middle of a request."""
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(worker.pid for worker in (*self._idle, *self._busy))

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Lease]:
        """Give a place among the busy ones, for which at most `most_waiting` wait; the lease gives the process, and a
        new process after each death. Raises SandboxClosed, SandboxBusy if too many wait, and SandboxUnavailable."""
        if self.closed:
            raise SandboxClosed("the sandbox is closed")

        if self._free.locked() and self._waiting >= self._most_waiting:
            raise SandboxBusy(
                "{waiting} searches are already waiting for a trigger worker; try again later",
                self._waiting,
            )

        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1

        try:
            async with Lease(self) as lease:
                yield lease
        finally:
            self._free.release()

    def brace(self) -> None:
        """Keep a spare from now on: there are triggers that may kill a process."""
        self._spare = True
        self._want_spare()

    async def take(self) -> WorkerProcess:
        """Return an idle worker, else the spare that is being started, else a new one. Raises
        SandboxClosed if the pool is closed before a worker is ready."""
        if self._closed:
            raise SandboxClosed("the sandbox is closed")
        while self._idle:
            worker = self._idle.popleft()
            if worker.alive:
                break
            self.replaced += 1
            await worker.kill()
        else:
            worker = await self._started()
        if self.closed:
            await worker.kill()
            raise SandboxClosed("the sandbox was closed")
        self._busy.add(worker)
        self._want_spare()
        return worker

    async def give_back(self, worker: WorkerProcess, *, healthy: bool) -> None:
        """End the use of a worker. A healthy worker becomes idle; any other is killed, counted as replaced, and perhaps
        followed by a spare."""
        self._busy.discard(worker)
        if healthy and worker.alive and not self.closed:
            self._idle.append(worker)  # the longest idle worker is used next: it is fully prepared
            return
        if not self.closed:
            self.replaced += 1
        await worker.kill()
        self._want_spare()

    async def aclose(self) -> None:
        """Kill every worker, also a busy one. Return when all have ended."""
        self._closed = True
        starting = (*self._starting, *self._claimed)
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        workers = [*self._idle, *self._busy]
        self._idle.clear()
        await asyncio.gather(*(worker.kill() for worker in workers))
        await asyncio.gather(*self._watches)

    async def _started(self) -> WorkerProcess:
        """Return the worker that is being started as a spare, or else a new one, once it is ready.
        Raises SandboxClosed if the pool is closed meanwhile."""
        task = next(iter(self._starting), None) or self._start()
        # Claimed: no other search may wait for it, and it does not become a spare.
        self._starting.discard(task)
        self._claimed.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if task.done() and _has_worker(task):
                await task.result().kill()
            if self.closed:
                raise SandboxClosed("the sandbox was closed") from None
            raise
        finally:
            self._claimed.discard(task)

    def _start(self) -> asyncio.Task[WorkerProcess]:
        """Begin to start a worker, which becomes idle unless a search claims it before."""
        task = asyncio.ensure_future(self._new_worker())
        self._starting.add(task)
        self.started += 1
        task.add_done_callback(self._became_ready)
        return task

    async def _new_worker(self) -> WorkerProcess:
        """Make a new worker, which is replaced when it ends while it is idle."""
        worker = await self._start_worker()
        watch = asyncio.ensure_future(self._replace_at_its_end(worker))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)
        return worker

    async def _replace_at_its_end(self, worker: WorkerProcess) -> None:
        """Replace an idle worker as soon as it ends itself, so that no search finds it dead."""
        await worker.ended()
        if worker in self._idle:
            self._idle.remove(worker)
            self.replaced += 1
            await worker.kill()
            self._want_spare()

    def _want_spare(self) -> None:
        """Start a worker if the pool keeps a spare and no worker is idle or is being started."""
        has_spare = self._idle or self._starting or self._claimed
        if self._spare and not self.closed and not has_spare:
            self._start()

    def _became_ready(self, task: asyncio.Task[WorkerProcess]) -> None:
        if task not in self._starting:  # claimed by a search
            return
        self._starting.discard(task)
        if _has_worker(task):
            self._idle.append(task.result())


def _has_worker(task: asyncio.Task[WorkerProcess]) -> bool:
    """Tell whether a start that has ended gave a worker."""
    return not task.cancelled() and task.exception() is None


class Lease:
    """One search's worker, from its first request to its last; another process after a death."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._worker: WorkerProcess | None = None
        self.open = False  # whether a request has no whole answer yet

    async def __aenter__(self) -> Lease:
        return self

    async def __aexit__(
        self, _type: object, error: BaseException | None, _traceback: object
    ) -> None:
        # After an exception between two requests, such as a PatternError, the worker is still healthy.
        await self.end(healthy=error is None or not self.open)

    async def ask(self, frame: Frame, seconds: float) -> Frame:
        """Ask a request and return its answer. Raises WorkerDied, also when the answer does not come in time."""
        answers: list[Frame] = []

        def take(answer: Frame) -> bool:
            answers.append(answer)
            return True

        await self.converse(frame, take, seconds)
        return answers[0]

    async def converse(self, frame: Frame, take: Callable[[Frame], bool], seconds: float) -> None:
        """Send a request and hand each answer to `take` until that returns True. Raises WorkerDied (the next request
        gets a fresh process), also when it takes longer than `seconds`, without the wait for a worker. After a death,
        but not after a timeout, the pool keeps a spare process from then on. Raises SandboxClosed, also when the pool
        was closed meanwhile, and what `ready` raises."""
        worker = await self.ready()
        self.open = True
        try:
            async with worker.bounded(), asyncio.timeout(seconds):
                await worker.send(frame)
                while not take(await worker.receive()):
                    pass
            self.open = False
        except (TimeoutError, ProtocolError) as error:
            await self.end(healthy=False)
            raise WorkerDied(None) from error
        except WorkerDied:
            self._pool.brace()
            await self.end(healthy=False)
            if self._pool.closed:
                raise SandboxClosed("the sandbox was closed during the search") from None
            raise

    async def ready(self) -> WorkerProcess:
        """Return the process in use, or a fresh one, once it can be asked. Raises SandboxClosed, SandboxUnavailable."""
        while True:
            if self._worker is None:
                self._worker = await self._pool.take()
            try:
                async with asyncio.timeout(READY_SECONDS):
                    await self._worker.ready()
                return self._worker
            except (TimeoutError, WorkerDied):
                await self.end(healthy=False)

    async def change(self) -> None:
        """Give the process back, which must first make a new isolate, so that the next request gets one that is ready;
        from now on the pool keeps a spare."""
        self._pool.brace()
        await self.end(healthy=True)

    async def end(self, *, healthy: bool) -> None:
        """Give the process back, or kill it when a request may still be running in it."""
        worker, self._worker = self._worker, None
        self.open = False
        if worker is not None:
            await self._pool.give_back(worker, healthy=healthy)


MOST_ZONES = 4
"""Time zones beside the sandbox's own that have a worker: each takes some 60 MB, and its first search 0.3 s more."""


class ZonePools:
    """Pools by time zone. `make` makes the pool of a zone; `usual` is the pool of the sandbox's own zone, `timezone`."""

    def __init__(self, usual: Pool, timezone: str | None, make: Callable[[str], Pool]) -> None:
        self._usual = usual
        self._timezone = timezone
        self._make = make
        self._others: OrderedDict[str, Pool] = OrderedDict()
        """The least recently used one first."""
        self._users: dict[str, int] = {}
        self._changed = asyncio.Condition()
        self._ended_started = 0
        self._ended_replaced = 0

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(pid for pool in self._all() for pid in pool.pids)

    @property
    def started(self) -> int:
        """Processes started so far in all zones."""
        return self._ended_started + sum(pool.started for pool in self._all())

    @property
    def replaced(self) -> int:
        """Processes so far that died, or were killed in the middle of a request."""
        return self._ended_replaced + sum(pool.replaced for pool in self._all())

    @asynccontextmanager
    async def worker(self, timezone: str | None) -> AsyncIterator[Lease]:
        """Give a place in the pool of this zone, or for None of the sandbox's own zone. Raises as `Pool.worker`."""
        if timezone is None or timezone == self._timezone:
            async with self._usual.worker() as lease:
                yield lease
            return
        pool = await self._enter(timezone)
        try:
            async with pool.worker() as lease:
                yield lease
        finally:
            async with self._changed:
                self._users[timezone] -= 1
                self._changed.notify_all()

    async def aclose(self) -> None:
        """Kill the workers of all zones."""
        await asyncio.gather(*(pool.aclose() for pool in self._all()))

    def _all(self) -> tuple[Pool, ...]:
        return (self._usual, *self._others.values())

    async def _enter(self, timezone: str) -> Pool:
        """Return the pool of this zone, which stays as long as a search uses it. If there are MOST_ZONES of them, end the
        least recently used one that no search uses, or wait for one."""
        async with self._changed:
            while timezone not in self._others and len(self._others) >= MOST_ZONES:
                unused_zone = next((zone for zone in self._others if not self._users[zone]), None)
                if unused_zone is None:
                    await self._changed.wait()
                else:
                    await self._end(unused_zone)
            if timezone not in self._others:
                self._others[timezone] = self._make(timezone)
                self._users[timezone] = 0
            self._others.move_to_end(timezone)
            self._users[timezone] += 1
            return self._others[timezone]

    async def _end(self, timezone: str) -> None:
        """Kill the workers of a zone; what they counted stays in the sums."""
        pool = self._others.pop(timezone)
        del self._users[timezone]
        await pool.aclose()
        self._ended_started += pool.started
        self._ended_replaced += pool.replaced
