"""The record of recalls as files of JSON lines, one for each conversation, in `{data_dir}/.memory-server/recalls/`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memory_server.conversations.recall_log import LINES_AFTER_A_CUT, MOST_LINES, Change, Line
from memory_server.kernel import files as folders
from memory_server.kernel import json_text
from memory_server.kernel.folder_names import folder_name
from memory_server.storage.small_files import locked

_LEAST_LINE_BYTES = 50
"""The bytes that every line has: so the lines of a short file need not be counted."""


class RecallFiles:
    """As `RecallLog`. Lines are appended without a lock: a line that comes while a file is rewritten may be lost."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._folder = data_dir / folders.PRIVATE / "recalls"

    def append(self, *lines: Line) -> None:
        if not self._data_dir.is_dir():
            return  # nothing was ever stored: a question makes no folder
        folders.make_folder(self._folder)
        for line in lines:
            path = self._path(line["conversation"])
            size = folders.append(path, json_text.dumps(line) + b"\n")
            if (
                size > MOST_LINES * _LEAST_LINE_BYTES
                and folders.read_file(path).count(b"\n") > MOST_LINES
            ):
                self._rewrite(path, lambda present: present[-LINES_AFTER_A_CUT:])

    def lines(self, conversation_id: str | None = None) -> list[Line]:
        paths = (
            [self._path(conversation_id)]
            if conversation_id is not None
            else sorted(self._folder.glob("*.jsonl"))
        )
        lines = []
        for path in paths:
            lines += _read(path)
        return lines

    def rewrite(self, change: Change) -> None:
        for path in list(self._folder.glob("*.jsonl")):
            self._rewrite(path, lambda lines: list(filter(None, map(change, lines))))

    def _rewrite(self, path: Path, make: Callable[[list[Line]], list[Line]]) -> None:
        with locked(self._folder / "lock"):
            after = make(_read(path))
            data = b"".join(json_text.dumps(line) + b"\n" for line in after)
            if data and data != folders.read_file(path):  # a line that was torn goes too
                folders.replace_file(path, data)
            elif not after:
                folders.remove_file(path)

    def _path(self, conversation_id: str) -> Path:
        return self._folder / f"{folder_name(conversation_id)}.jsonl"


def _read(path: Path) -> list[Line]:
    """Read the lines of a file, without torn and broken lines."""
    lines = map(line_in, (folders.read_if_there(path) or b"").splitlines())
    return [line for line in lines if line is not None]


def line_in(data: bytes) -> Line | None:
    """Parse a line as it was written. Return None if it cannot be used."""
    try:
        line = json_text.load_object(data)
        json_text.milliseconds(line["at"])
        return {**line, "at": str(line["at"]), "conversation": str(line["conversation"])}
    except (json_text.NotARecord, KeyError):
        return None
