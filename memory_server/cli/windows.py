"""The shared process, as the entrance starts it (process/entrance.py): it parses command lines as this room does."""

from __future__ import annotations

from typing import NoReturn

from memory_server.cli.parser import parsed
from memory_server.process import windows


def main() -> NoReturn:
    """Serve all windows of a user, and end when no window has used the process for a while."""
    windows.main(parsed)
