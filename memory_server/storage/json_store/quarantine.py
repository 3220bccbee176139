"""What damage and repairs leave in a conversation's folder: pieces set aside, and files as they were before a repair.

They may hold text that was forgotten later, so they expire with the history. Blocking calls; writing needs the lock.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_server.core import times
from memory_server.core.archive import Horizon
from memory_server.core.nesting import deeper
from memory_server.storage.json_store import codec
from memory_server.storage.partition import folders

SET_ASIDE = "set-aside.jsonl"
BROKEN = "broken"
_STAMP = "%Y%m%d-%H%M%S"
UNFINISHED = "the last line was not finished"
UNREADABLE = "a line that cannot be read"


@dataclass(frozen=True, slots=True)
class Piece:
    """One line of `set-aside.jsonl`. `since_ms`: when upkeep first found it, None before that."""

    fields: Mapping[str, Any]
    reason: str
    since_ms: int | None


def set_aside(private: Path, reason: str, data: bytes | str, offset: int, **more: str) -> None:
    """Keep what does not count, which stood at `offset`. A second call with the same does nothing."""
    text = data if isinstance(data, str) else data.decode("utf-8", "backslashreplace")
    fields = {"offset": offset, "reason": reason, **more, "data": text}
    if not any(fields.items() <= piece.fields.items() for piece in pieces(private)):
        folders.append_durably(private / SET_ASIDE, codec.dumps(fields) + b"\n")


def pieces(private: Path) -> list[Piece]:
    """What was set aside, oldest first."""
    return list(map(_piece, (folders.read_if_there(private / SET_ASIDE) or b"").splitlines()))


def broken_name(file_name: str, now_ms: int) -> str:
    """The name under which a repair keeps `file_name` as it was: it begins with the time."""
    return f"{times.moment_of(now_ms):{_STAMP}}-{file_name}"


def keep_broken(private: Path, file_name: str, data: bytes, now_ms: int) -> Path:
    """Keep a file as it was, durably, and return its path. A file that is kept already, as after a crash, is not kept
    twice."""
    folder = private / BROKEN
    folders.make_folder(folder)
    for path, _ in broken_files(private):
        whole = not path.name.endswith(".next")  # one that a crash left will be written over
        if whole and file_name in path.name and path.stat().st_size == len(data) and folders.read_file(path) == data:
            return path
    name, number = broken_name(file_name, now_ms), 1
    while os.path.lexists(path := folder / (name if number == 1 else f"{name}.{number}")):
        number += 1
    folders.replace_file(path, data)
    return path


def broken_files(private: Path) -> Iterator[tuple[Path, int]]:
    """The files that repairs kept, each with its time in milliseconds since 1970, oldest first."""
    folder = private / BROKEN
    if folder.is_dir():
        yield from sorted(((path, _time_of(path)) for path in folder.iterdir()), key=lambda item: (item[1], item[0]))


def expire_leavings(private: Path, horizon: Horizon) -> None:
    """Remove what is there since before `horizon`."""
    there = pieces(private)
    # A piece has no time of its own: it counts from the first upkeep that finds it.
    now = {"since": times.iso(horizon.now_ms)}
    dated = [
        piece if piece.since_ms is not None else Piece({**piece.fields, **now}, piece.reason, horizon.now_ms)
        for piece in there
    ]
    kept = dated[horizon.passed(piece.since_ms for piece in dated) :]
    if kept != there:
        folders.replace_file(private / SET_ASIDE, b"".join(codec.dumps(dict(piece.fields)) + b"\n" for piece in kept))
    files = list(broken_files(private))
    gone = files[: horizon.passed(time_ms for _, time_ms in files)]
    for path, _ in gone:
        folders.remove_file(path)
    if gone:
        folders.sync_folder(private / BROKEN)


def _piece(line: bytes) -> Piece:
    try:
        fields = codec.load_object(line)
        if "reason" not in fields or deeper(fields):
            raise codec.NotARecord(UNREADABLE)
    except codec.NotARecord:
        fields = {"reason": UNREADABLE, "data": line.decode("utf-8", "backslashreplace")}
    since_ms = None
    with contextlib.suppress(codec.NotARecord, KeyError):
        since_ms = codec.milliseconds(fields["since"])
    return Piece(fields, str(fields["reason"]), since_ms)


def _time_of(path: Path) -> int:
    try:
        return times.milliseconds(datetime.strptime(path.name[:15], _STAMP).replace(tzinfo=UTC))
    except ValueError:
        return path.stat().st_mtime_ns // 1_000_000
