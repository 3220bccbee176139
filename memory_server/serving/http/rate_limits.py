"""How much a tenant may ask at once, in a minute, and at the same time. What is too much for now waits its turn; only
what would wait too long, or in too long a queue, is refused."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from memory_server.serving.http.refusals import HttpError

AT_ONCE: Final = 4
"""The number of parts of a minute's requests, a single part of which may come at once: of the usual 3,000, 750. A
hundred clients can begin at once, each with three requests, right after a hundred others have asked four times."""
MOST_WAIT_SECONDS: Final = 10.0
"""How long a request waits for its share of the minute; a request that would wait longer is refused at once."""
MOST_WAITING: Final = 400
"""Calls of a tenant that wait for running calls: a gateway asks for all its users at once. Each has a body of at most
`LARGE_BYTES`, so they take some 6 MB."""
TURN_SECONDS: Final = 60.0
"""How long a call waits for those before it."""
LARGE_BYTES: Final = 16 * 1024
LARGE_BYTES_PER_SECOND: Final = 8 * 1024 * 1024
"""Requests of a tenant with more than `LARGE_BYTES` are carried out one after the other, and so many bytes of them in a
second: to read them takes a tenth of the event loop."""
LARGE_AT_ONCE: Final = 4
"""Large requests of a tenant that are in memory at the same time; others wait unread. A request that comes slowly
leaves room for others."""


class Bucket:
    """Requests of a minute as tokens that come evenly; `most` of them may be saved. A request may take a token that
    is not there yet, and waits for it. Pure but for its own state."""

    def __init__(self, per_minute: int, began: float) -> None:
        self._per_second = per_minute / 60
        self._most = max(1.0, per_minute / AT_ONCE)
        self._left = self._most
        self._filled = began

    def seconds_to_wait(self, now: float) -> float:
        """Fill the bucket up to now, and return how long a request of now would wait for its token, which is not
        taken."""
        self._left = min(self._most, self._left + (now - self._filled) * self._per_second)
        self._filled = now
        return max(0.0, 1 - self._left) / self._per_second

    def take(self) -> None:
        """Take the token of the next request; those after it wait longer."""
        self._left -= 1


class RateLimiter:
    """The limits of a tenant: `per_minute` requests, `concurrent` requests of each kind at the same time, and
    `MOST_WAITING` calls that wait for a running call."""

    def __init__(
        self,
        per_minute: int,
        concurrent: int,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Set the limits. `now` and `sleep` are the clock, which tests replace."""
        self._now = now
        self._sleep = sleep
        self._bucket = Bucket(per_minute, now())
        self._concurrent = concurrent
        self._admitted: Counter[str] = Counter()
        self._turns = asyncio.Semaphore(concurrent)
        self.large = asyncio.Semaphore(LARGE_AT_ONCE)
        """The place of a request that may be large, from its body to its answer."""
        self._large_turn = asyncio.Lock()
        self._next_large = 0.0

    @asynccontextmanager
    async def request(self, kind: str) -> AsyncIterator[None]:
        """Hold the place of a request of this kind, from its head to its answer; it may wait for its share of the
        minute. Raises HttpError: there are too many in this minute, or too many at the same time."""
        most = self._concurrent + (MOST_WAITING if kind == "calls" else 0)
        if self._admitted[kind] >= most:
            raise _busy(f"Too many {kind} at the same time; wait for one to end.")
        seconds = self._bucket.seconds_to_wait(self._now())
        if seconds > MOST_WAIT_SECONDS:
            raise _busy("Too many requests; wait a little.", seconds)
        self._bucket.take()
        self._admitted[kind] += 1
        try:
            if seconds:
                await self._sleep(seconds)
            yield
        finally:
            self._admitted[kind] -= 1

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Carry out one call with a body of `size` bytes, which was read: a slow client takes no turn. Calls beyond
        `concurrent` wait, and large ones for the one before and its time. Raises HttpError: those before it take too
        long."""
        async with AsyncExitStack() as turns:
            try:
                async with asyncio.timeout(TURN_SECONDS):
                    if size > LARGE_BYTES:
                        await turns.enter_async_context(self._large_turn)
                        await self._sleep(self._next_large - self._now())
                        self._next_large = self._now() + size / LARGE_BYTES_PER_SECOND
                    await turns.enter_async_context(self._turns)
            except TimeoutError:
                raise _busy("The calls before this one take too long; ask again.") from None
            yield


def _busy(sentence: str, seconds: float = 0.0) -> HttpError:
    return HttpError(429, "busy", sentence, {"retry-after": str(int(seconds) + 1)})
