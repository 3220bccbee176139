"""Spellings of earlier releases. They work for one more release, with a hint, and are not in the help."""

from __future__ import annotations

from collections.abc import Sequence

from memory_server.cli.terminal import complain

OLD_FLAGS = ("--in", "--of", "--into")
"""What `-c` was called."""
_COMMANDS = {
    "backups": "backup list",
    "restore": "backup restore",
    "unpin": "pin --off",
    "unforget": "undo --memory",
    "repair": "doctor --repair",
    "reindex": "doctor --reindex",
    "stats": "list",
    "replay": "import",
}


def renewed(given: Sequence[str], place: int | None) -> list[str]:
    """The same arguments in the present spelling; `place` is that of the command. Prints a hint if it is an old one."""
    words = list(given)
    if place is None or (new := _COMMANDS.get(words[place])) is None:
        return words
    if words[place] == "backups" and "--delete" in words[place:]:
        words.remove("--delete")
        new = "backup delete"
    complain(f"`memory-server {words[place]}` is now `memory-server {new}`; the old name ends with the next release")
    return [*words[:place], *new.split(), *words[place + 1 :]]
