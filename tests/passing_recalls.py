"""The record of recalls in memory: a second implementation of its port, for tests."""

from __future__ import annotations

from collections import defaultdict

from memory_server.conversations.ports import LINES_AFTER_A_CUT, MOST_LINES, Line, LineChange


class PassingRecalls:
    """Lines that are forgotten when this process ends."""

    def __init__(self) -> None:
        self._kept: defaultdict[str, list[Line]] = defaultdict(list)

    def append(self, *lines: Line) -> None:
        for line in lines:
            lines = self._kept[line["conversation"]]
            lines.append(line)
            if len(lines) > MOST_LINES:
                del lines[:-LINES_AFTER_A_CUT]

    def lines(self, conversation_id: str | None = None) -> list[Line]:
        if conversation_id is not None:
            return list(self._kept.get(conversation_id, ()))
        return [line for lines in self._kept.values() for line in lines]

    def rewrite(self, change: LineChange) -> None:
        for lines in self._kept.values():
            lines[:] = filter(None, map(change, lines))
