"""A search for authors: one run with its console, a traced copy, or several scenes in one request.

A search of several scenes is for long chats: the same triggers on one context after the other. When one of them has to
be stopped, the search ends: it is `disturbed`, and its verdicts do not count. The caller then makes a search for each
scene. So the verdicts of such a search are always those of a search per scene.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox import reply_validation
from sandbox.host.search import AGAIN, STOPPED, Scene, Search
from sandbox.limits import Limits
from sandbox.verdicts import Failed, TracedCopy

MOST_NOTES = 21
"""Notes of a traced copy: 20 of calls and one of values (realm/trace.js)."""


class AuthorSearch(Search):
    """`copy`: what `triggers`, a single one, is a traced copy of."""

    def __init__(
        self, limits: Limits, triggers: Sequence[str], scenes: Sequence[Scene], *, copy: TracedCopy | None = None
    ) -> None:
        super().__init__(limits, triggers, scenes, range(len(triggers) * len(scenes)))
        self._several = len(scenes) > 1
        self._copy = copy
        self.console: list[str] = []
        self.trace: list[Mapping[str, Any]] = []

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
            "scenes": self._scenes,
            "triggers": [self._sources[number] for number in places],
            "turns": turns,
            "console": not self._several,
            **({"original": self._copy.original, "probe": self._copy.probe} if self._copy else {}),
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
        room = 0 if self._several else reply_validation.MOST_CONSOLE_LINES - len(self.console)
        self.console += map(reply_validation.text, reply_validation.sequence(body.get("console", []), room))
        room = MOST_NOTES - len(self.trace) if self._copy else 0
        self.trace += map(dict, reply_validation.sequence(body.get("trace", []), room))
