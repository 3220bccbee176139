"""Has a worker read what triggers need, in the pauses between searches, and keeps it for later searches in memory.

Only a process that has run no trigger is asked: a trigger that has taken over its process could else say of others
that they cannot be true. What is not known, because a text cannot be read or its reader died, is never left out of a
search; so reading may fail at any time, and no search waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice

from sandbox.errors import ProtocolError, SandboxError
from sandbox.host.candidates import Candidates
from sandbox.host.pool import Pool
from sandbox.host.process import WorkerDied
from sandbox.prospects import MOST_CHARACTERS, UNKNOWN, Prospect
from sandbox.protocol import Frame, Kind, Wanted, prospects

READ_AT_ONCE = 100
"""Triggers in one request: some 20 ms of the worker. Where one of them kills its reader, nothing is known of them."""
PAUSE_SECONDS = 0.008
"""Between two requests, for the searches that wait: 5,000 triggers take some 2 s."""


class NeedReading:
    """Reads for `candidates`. `pool`: where the worker comes from. `seconds`: how long it may take for one request."""

    def __init__(self, pool: Pool, candidates: Candidates, seconds: float) -> None:
        self._pool = pool
        self._candidates = candidates
        self._seconds = seconds
        self._unread: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, sources: Iterable[str]) -> None:
        """Has those of the triggers read that were not read yet. V8 has compiled and run them, and they did not fail:
        the parser takes some texts for JavaScript that V8 refuses."""
        unread = (source for source in sources if source not in self._candidates)
        self._unread.update(dict.fromkeys(unread))
        if self._unread and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._read())

    async def finished(self) -> None:
        """Waits until all triggers were read."""
        if self._task is not None:
            await self._task

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while self._unread:
                await asyncio.sleep(PAUSE_SECONDS)
                sources = list(islice(self._unread, READ_AT_ONCE))
                short = [source for source in sources if len(source) <= MOST_CHARACTERS]
                prospects = dict(zip(short, await self._prospects(short), strict=True))
                for source in sources:
                    del self._unread[source]
                    self._candidates.learn(source, prospects.get(source, UNKNOWN))
        except SandboxError:
            self._unread.clear()  # no worker can be had; the next search has them read again

    async def _prospects(self, sources: Sequence[str]) -> Sequence[Prospect]:
        """What a worker reads in the sources; nothing is known where it died, took too long or gave a wrong answer.
        Raises SandboxError."""
        if not sources:
            return []
        question = Frame(Kind.READ, {"sources": list(sources), "wanted": Wanted.NEEDS.value})
        async with self._pool.unused_worker() as lease:
            try:
                answer = await lease.ask(question, self._seconds)
                return prospects(answer.body, len(sources))
            except WorkerDied:
                pass
            except ProtocolError:
                await lease.end(healthy=False)
        return [UNKNOWN] * len(sources)
