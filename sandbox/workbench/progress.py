"""A bar on standard error while something takes its time; nothing where nobody looks."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_EVERY = 0.1
"""Seconds between two pictures of the bar."""
_MARKS = 30


class Bar:
    """`total`: of what is counted. Shown on a terminal only."""

    def __init__(self, total: int, noun: str, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._total = total
        self._noun = noun
        self._shown = 0.0
        self._wanted = self._out.isatty() and total > 0

    def __call__(self, done: int) -> None:
        """So many are done."""
        now = time.monotonic()
        if self._wanted and (now - self._shown >= _EVERY or done == self._total):
            self._shown = now
            full = done * _MARKS // self._total
            self._out.write(f"\r[{'#' * full}{'.' * (_MARKS - full)}] {done}/{self._total} {self._noun}")
            self._out.flush()

    def end(self) -> None:
        """Takes the bar away."""
        if self._wanted and self._shown:
            self._out.write("\r" + " " * (_MARKS + 12 + len(str(self._total)) * 2 + len(self._noun)) + "\r")
            self._out.flush()
