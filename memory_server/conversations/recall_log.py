"""The record of recalls: the port of its stores. A line is an object of JSON, described in
docs/reference/data-folder.md; it has `at` and `conversation`, and no text of a memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Line = dict[str, Any]
Change = Callable[[Line], Line | None]
MOST_LINES = 2_000
"""Lines of a conversation at most."""
LINES_AFTER_A_CUT = 1_800
"""How many of the newest lines stay when there are more than `MOST_LINES`: so a cut is rare."""


class RecallLog(Protocol):
    """The record of recalls: it keeps at most `MOST_LINES` for each conversation. Blocking calls; they raise
    OSError."""

    def append(self, *lines: Line) -> None:
        """Add lines. They are not synced: a crash may take the last ones."""

    def lines(self, conversation_id: str | None = None) -> list[Line]:
        """Return the lines of a conversation, the oldest first, or of all conversations, one conversation after the
        other."""

    def rewrite(self, change: Change) -> None:
        """Replace each line by what `change` makes of it, or remove the line if that is None."""
