"""The shared process, as the entrance starts it (process/entrance.py): it reads command lines as this room does."""

from __future__ import annotations

from typing import NoReturn

from memory_server.cli.parser import parsed
from memory_server.process import windows


def main() -> NoReturn:
    """Serve all windows of a user until nobody needs the process."""
    windows.main(parsed)
