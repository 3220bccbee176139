"""`archive.jsonl`: removed memories, one a line with a checksum, in the order of their removal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from memory_server.core import times
from memory_server.core.archive import Archived
from memory_server.core.model import ShortTermMemory
from memory_server.storage.json_store import codec
from memory_server.storage.json_store.change_codec import reason_of
from memory_server.storage.partition import folders, history, journal

FORMAT = 1
LAST_BYTES = 8_000_000
"""Of the file that are read for its last entries: some 0.1 s."""


def read(path: Path) -> tuple[list[Archived], list[journal.BadLine]]:
    """The entries of the file at `path`, and the lines that do not count. Empty where there is no file."""
    try:
        tail = journal.parse_tail(folders.read_file(path), 0)
    except FileNotFoundError:
        return [], []
    bad = list(tail.bad)
    entries: list[Archived] = []
    for line in tail.lines:
        try:
            entries.append(_entry(line))
        except (codec.NotARecord, KeyError, TypeError) as error:
            bad.append(journal.BadLine(0, codec.dumps(dict(line)), f"it is no entry of the archive: {error!r}"))
    if tail.torn:
        bad.append(journal.BadLine(tail.end, tail.torn, "the last line was not finished"))
    return entries, bad


def last(path: Path, count: int) -> list[Archived]:
    """The last `count` entries that can be read, or fewer where they are very large, in their order."""
    entries: list[Archived] = []
    left = LAST_BYTES
    for raw in history.backwards(path):
        line = journal.parse_line(raw)
        left -= len(raw)
        if left < 0 or len(entries) == count:
            break
        if not isinstance(line, str):
            with suppress(codec.NotARecord, KeyError, TypeError):
                entries.append(_entry(line))
    return entries[::-1]


def dump(entries: Iterable[Archived]) -> bytes:
    """The lines of `entries`."""
    return b"".join(map(_line, entries))


def _line(entry: Archived) -> bytes:
    memory = entry.memory
    short = isinstance(memory, ShortTermMemory)
    fields = {
        "v": FORMAT,
        "seq": entry.version,
        "at": times.iso(entry.at_ms),
        "by": entry.by,
        "reason": entry.reason,
        "kind": "short_term" if short else "long_term",
        "memory": codec.short_term_json(memory)
        if isinstance(memory, ShortTermMemory)
        else codec.long_term_json(memory),
    }
    return journal.frame(fields, codec.dumps(fields))


def _entry(line: Mapping[str, Any]) -> Archived:
    record = line["memory"]
    return Archived(
        memory=codec.short_term(record, "") if line["kind"] == "short_term" else codec.long_term(record),
        reason=reason_of(line),
        version=int(line["seq"]),
        at_ms=codec.milliseconds(line["at"]),
        by=str(line["by"]),
    )
