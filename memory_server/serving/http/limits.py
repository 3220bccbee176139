"""How much one tenant may ask for at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memory_server.serving.http.refusals import Refused


class Limits:
    """The limits of one tenant: `per_minute` requests, a tenth of them at once, and `concurrent` of each kind at the
    same time. `now` gives seconds."""

    def __init__(self, per_minute: int, concurrent: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_minute / 60
        self._bucket = self._left = max(1.0, per_minute / 10)
        self._concurrent = concurrent
        self._now = now
        self._filled = now()
        self._running: Counter[str] = Counter()

    @contextmanager
    def request(self, kind: str) -> Iterator[None]:
        """One request of this kind. Raises Refused: there are too many, in this minute or now."""
        now = self._now()
        self._left = min(self._bucket, self._left + (now - self._filled) * self._per_second)
        self._filled = now
        if self._left < 1:
            wait = (1 - self._left) / self._per_second
            raise Refused(429, "busy", "Too many requests; wait a little.", {"retry-after": str(int(wait) + 1)})
        if self._running[kind] >= self._concurrent:
            raise Refused(429, "busy", f"Too many {kind} at the same time; wait for one to end.", {"retry-after": "1"})
        self._left -= 1
        self._running[kind] += 1
        try:
            yield
        finally:
            self._running[kind] -= 1
