"""A search for authors: one run with its console and heap, traced copies, or several scenes in one request.

A search of several scenes is for long chats: the same triggers on one context after the other. When one of them has to
be stopped, the search ends: it is `disturbed`, and its verdicts do not count. The caller then makes a search for each
scene. So the verdicts of such a search are always those of a search per scene.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sandbox import reply_validation
from sandbox.host.search import AGAIN, STOPPED, Scene, Search
from sandbox.limits import Limits
from sandbox.verdicts import Failed, TracedCopy

MOST_TRACED = 401
"""Notes of one traced copy: 400 of its values and calls (realm/trace.js), and one of counts or bits."""


class AuthorSearch(Search):
    """`copies` are run as further triggers, after the others; in each scene their verdicts come after the others'."""

    def __init__(
        self,
        limits: Limits,
        triggers: Sequence[str],
        scenes: Sequence[Scene],
        *,
        console: bool = False,
        copies: Sequence[TracedCopy] = (),
        trace: Literal["values", "bits"] = "values",
    ) -> None:
        width = len(triggers) + len(copies)
        super().__init__(limits, [*triggers, *(one.source for one in copies)], scenes, range(width * len(scenes)))
        self._several = len(scenes) > 1
        self._originals = [*(None for _ in triggers), *(one.original for one in copies)] if copies else []
        self._most_traces = MOST_TRACED * len(copies) * len(scenes)
        self._wanted: dict[str, Any] = {"console": console, "heap": console}
        if copies:
            self._wanted |= {"trace": trace, "probe": copies[0].probe}
        self.console: list[str] = []
        self.heap_bytes: int | None = None
        self.traces: list[tuple[int, Mapping[str, Any]]] = []
        """Notes of traced copies, each with the index of the verdict of its copy."""

    @property
    def disturbed(self) -> bool:
        """Whether one of several scenes had a trigger that was stopped: then no verdict of theirs counts."""
        return self._several and any(isinstance(one, Failed) and one.kind in STOPPED for one in self._verdicts)

    def died(self, code: int | None, *, clean: bool = True) -> bool:
        if self._several:
            self.end()  # each scene will be tried alone
            return False
        return super().died(code, clean=clean)

    def _batch(self) -> dict[str, Any]:
        """Sends each trigger once for all its scenes."""
        places: dict[int, int] = {}
        turns = [
            [places.setdefault(number, len(places)), scene]
            for scene, number in (divmod(index, self._width) for index in self._asked)
        ]
        return {
            **self._wanted,
            "scenes": self._scenes,
            "triggers": [self._sources[number] for number in places],
            "originals": [self._originals[number] for number in places] if self._originals else [],
            "turns": turns,
        }

    def _allowance(self) -> float:
        if not self._several:
            return super()._allowance()
        self._next_round = None  # each scene will be tried alone
        return self._limits.trigger_seconds

    def _finish(self, body: Mapping[str, Any]) -> None:
        super()._finish(body)
        if self.disturbed or (self._several and self._rounds[AGAIN]):
            self.end()

    def _take_notes(self, body: Mapping[str, Any]) -> None:
        """Console, traces and heap: only where they were asked for, and only of runs that count."""
        room = reply_validation.MOST_CONSOLE_LINES - len(self.console) if self._wanted["console"] else 0
        self.console += map(reply_validation.text, reply_validation.sequence(body.get("console", []), room))
        room = self._most_traces - len(self.traces)
        for asked, note in reply_validation.sequence(body.get("traces", []), room):
            index = self._asked[reply_validation.whole(asked, 0, len(self._asked))]
            if self._verdicts[index] is not None:
                self.traces.append((index, dict(note)))
        if self._wanted["heap"] and body.get("heap") is not None:
            self.heap_bytes = reply_validation.whole(body["heap"], 0, 2**40)
