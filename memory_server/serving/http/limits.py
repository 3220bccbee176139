"""How much one tenant may ask for at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memory_server.serving.http.refusals import Refused

_MOST_KNOWN = 10_000
"""Tenants whose figures are kept; of further ones, those that ask for nothing are forgotten."""


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

    def _fill(self) -> None:
        now = self._now()
        self._left = min(self._bucket, self._left + (now - self._filled) * self._per_second)
        self._filled = now

    @contextmanager
    def request(self, kind: str) -> Iterator[None]:
        """One request of this kind. Raises Refused: there are too many, in this minute or now."""
        self._fill()
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

    @property
    def unused(self) -> bool:
        """Whether this tenant asks for nothing, and has not lately."""
        self._fill()
        return self._left == self._bucket and not +self._running


class AllLimits:
    """The limits of each tenant."""

    def __init__(self, per_minute: int, concurrent: int) -> None:
        self._given = per_minute, concurrent
        self._known: dict[str | None, Limits] = {}

    def of(self, tenant: str | None) -> Limits:
        if tenant not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known = {name: limits for name, limits in self._known.items() if not limits.unused}
            self._known[tenant] = Limits(*self._given)
        return self._known[tenant]
