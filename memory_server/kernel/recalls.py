"""The record of recalls: the port of its stores. A line is an object of JSON, described in
docs/reference/data-folder.md; it has `at` and `conversation`, and no text of a memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Line = dict[str, Any]
Change = Callable[[Line], Line | None]
MOST_LINES, LINES_AFTER_A_CUT = 2_000, 1_800
"""Lines of a conversation at most, and how many of the newest stay when there are more: so a cut is rare."""


class RecallLog(Protocol):
    """Keeps lines, at most `MOST_LINES` for each conversation. Blocking calls; they raise OSError."""

    def append(self, *lines: Line) -> None:
        """Add lines. They are not synced: a crash may take the last ones."""

    def lines(self, conversation_id: str | None = None) -> list[Line]:
        """Those of a conversation, the oldest first, or of one conversation after the other."""

    def rewrite(self, change: Change) -> None:
        """Put in place of each line what `change` makes of it; None removes it."""
