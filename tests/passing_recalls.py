"""The record of recalls in memory: a second implementation of its port, for tests."""

from __future__ import annotations

from collections import defaultdict

from memory_server.kernel.recalls import LINES_AFTER_A_CUT, MOST_LINES, Change, Line


class PassingRecalls:
    """Lines that are forgotten when this process ends."""

    def __init__(self) -> None:
        self._kept: defaultdict[str, list[Line]] = defaultdict(list)

    def append(self, *lines: Line) -> None:
        for line in lines:
            kept = self._kept[line["conversation"]]
            kept.append(line)
            if len(kept) > MOST_LINES:
                del kept[:-LINES_AFTER_A_CUT]

    def lines(self, conversation_id: str | None = None) -> list[Line]:
        return [line for name, kept in self._kept.items() if conversation_id in (None, name) for line in kept]

    def rewrite(self, change: Change) -> None:
        for kept in self._kept.values():
            kept[:] = filter(None, map(change, kept))
