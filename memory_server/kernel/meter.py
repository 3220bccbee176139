"""What this process did since it began: calls with their times, and counters by family. Only numbers, never texts.

It costs a few integers per name, so it is always on. All counting is done in the event loop.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from math import inf
from typing import Any, Final, NamedTuple

from memory_server.kernel.values import dataclass

BOUNDS_MS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
"""Upper bounds of the buckets in milliseconds: what a person feels lies between 50 and 1,000."""


@dataclass(slots=True)
class Calls:
    """The calls of a tool, as a histogram of fixed buckets. `errors` counts the calls that were refused or failed."""

    errors: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_MS) + 1))
    longest_ms: float = 0.0
    sum_ms: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def note(self, milliseconds: float) -> None:
        self.counts[bisect_left(BOUNDS_MS, milliseconds)] += 1
        self.longest_ms = max(self.longest_ms, milliseconds)
        self.sum_ms += milliseconds

    def quantile(self, share: float) -> float:
        """Return the milliseconds that this share took at most, as if each bucket were evenly filled. 0 if nothing was
        measured."""
        calls_within = share * self.count
        calls_below = 0
        lower_ms = 0.0
        for upper_ms, count in zip((*BOUNDS_MS, inf), self.counts, strict=True):
            if count and calls_below + count >= calls_within:
                width_ms = max(0.0, min(upper_ms, self.longest_ms) - lower_ms)
                return lower_ms + width_ms * (calls_within - calls_below) / count
            calls_below += count
            lower_ms = upper_ms
        return 0.0


class Meter:
    """Counters, gauges and calls by name. A meter may be a part of a total, which then counts the same."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()
        self.calls: dict[str, Calls] = defaultdict(Calls)
        self._counters: dict[str, Counter[str]] = defaultdict(Counter)
        self._gauges: dict[str, dict[str, Callable[[], int]]] = defaultdict(dict)
        self._of_all: set[tuple[str, str]] = set()
        """Gauges of what all parts of a total share, so that their numbers are not added up."""
        self._total: Meter | None = None
        self._parts: set[Meter] = set()

    @property
    def seconds(self) -> float:
        """The seconds since this process began to count."""
        return self._now() - self._began

    def join(self, total: Meter) -> None:
        """Count everything in `total` too, until `leave`; a gauge of `total` is then the sum of its parts."""
        self._total = total
        total._parts.add(self)

    def leave(self) -> None:
        """Count for this meter alone. What was counted stays in the total; the gauges are no longer part of it."""
        if self._total is not None:
            self._total._parts.discard(self)
            self._total = None

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Measure a call; an exception out of it is an error."""
        began = self._now()
        failed = False
        try:
            yield
        except BaseException:
            failed = True
            raise
        finally:
            self.called(name, self._now() - began, failed=failed)

    def called(self, name: str, seconds: float, *, failed: bool) -> None:
        """Note a call that has ended, here and in the total."""
        calls = self.calls[name]
        calls.errors += failed
        calls.note(seconds * 1000)
        if self._total is not None:
            self._total.called(name, seconds, failed=failed)

    def count(self, family: str, name: str, number: int = 1) -> None:
        self._counters[family][name] += number
        if self._total is not None:
            self._total.count(family, name, number)

    def expect(self, family: str, *names: str) -> None:
        """Show these counters from the start, as 0: a person who watches them must not take "never" for "not measured"."""
        for name in names:
            self._counters[family][name] += 0

    def gauge(
        self, family: str, name: str, look: Callable[[], int], *, of_all: bool = False
    ) -> None:
        """Show a number that `look` returns when the figures are read. `of_all` means that the parts of a total share
        what it counts."""
        self._gauges[family][name] = look
        if of_all:
            self._of_all.add((family, name))

    def number(self, family: str, name: str) -> int:
        """Return a counter or gauge, with the gauges of the parts; 0 if nothing was counted. Safe in any thread."""
        look = self._gauges[family].get(name)
        if look is None:
            return self._counters[family][name]
        if (family, name) in self._of_all:
            return look()
        return look() + sum(part.number(family, name) for part in tuple(self._parts))

    def family(self, family: str) -> Mapping[str, int]:
        """Return the counters of a family as they are now. Safe in any thread."""
        return dict(self._counters[family])

    def figures(self) -> Mapping[str, Mapping[str, int]]:
        """Return every counter and gauge, by family and name, sorted."""
        families = sorted({*self._counters, *self._gauges})
        return {family: self._numbers(family) for family in families}

    def _numbers(self, family: str) -> Mapping[str, int]:
        names = sorted({*self._counters[family], *self._gauges[family]})
        return {name: self.number(family, name) for name in names}


# --- figures of this process ----------------------------------------------------------------------

AGAIN_SECONDS: Final = 60.0
"""How long measured sizes of files count: a folder may have 100,000 files, which take some 0.4 s."""
LOOK_SHARE: Final = 0.01
"""The share of the time that looking at files may take."""


class FolderSize(NamedTuple):
    """How many files there are, and their bytes."""

    files: int
    size_bytes: int


def gauge(
    meter: Meter,
    look: Callable[[], FolderSize],
    *,
    of_process: bool,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Let the meter show the number and the bytes of files, as `look` counts them now and then and, with `of_process`,
    what this process uses."""
    sizes = _Sizes(look, now)
    # The folder of the owner includes the folders of the tenants.
    meter.gauge("files", "count", lambda: sizes.current().files, of_all=True)
    meter.gauge("files", "bytes", lambda: sizes.current().size_bytes, of_all=True)
    if of_process:
        meter.gauge("process", "memory_bytes", _memory_bytes)
        meter.gauge("process", "cpu_ms", lambda: round(time.process_time() * 1000))
        meter.gauge("process", "threads", threading.active_count)


def _memory_bytes() -> int:
    import psutil  # type: ignore[import-untyped]  # 20 ms, and only figures need it

    process: Any = psutil.Process()
    return int(process.memory_info().rss)


@dataclass(eq=False)
class _Sizes:
    """The size of a folder, which is measured again when the last figure is too old."""

    look: Callable[[], FolderSize]
    now: Callable[[], float]
    size: FolderSize | None = None
    due: float = 0.0

    def current(self) -> FolderSize:
        """Return the size, which is looked up again only when it is due: the longer a look takes, the later."""
        began = self.now()
        if self.size is None or began >= self.due:
            self.size = self.look()
            seconds = self.now() - began
            self.due = began + max(AGAIN_SECONDS, seconds / LOOK_SHARE)
        return self.size
