"""`history.jsonl`: the lines of commits that are folded into the snapshots, oldest first.

A crash between writing lines here and the next journal leaves them twice; a version counts once. The file is read from
its end, because people ask for new commits. Knows nothing of memories.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from memory_server.storage.partition import folders, journal

Line = Mapping[str, Any]
_BLOCK_BYTES = 65_536


def newest_first(paths: Iterable[Path], wanted: Callable[[bytes], object] | None = None) -> Iterator[Line]:
    """The lines of the files at `paths` that count, each version once; the first file has the newest, and one may be
    missing. `wanted`: whether to parse a line."""
    last: int | None = None
    for raw in filter(wanted, chain.from_iterable(map(backwards, paths))):
        line = journal.parse_line(raw)
        if not isinstance(line, str) and isinstance(line.get("seq"), int) and (last is None or line["seq"] < last):
            last = line["seq"]
            yield line


def keep(path: Path, lines: Sequence[tuple[int, bytes]]) -> None:
    """Append those of `lines`, given with their versions, that are not there yet."""
    known = next((line["seq"] for line in newest_first([path])), 0)
    new = [data for version, data in lines if version > known]
    if new:
        folders.append_durably(path, b"".join(new))


def drop_first(path: Path, count: Callable[[Iterator[Line | None]], int]) -> None:
    """Remove as many of the first lines as `count` returns. It is given the lines, oldest first; None stands for a line
    that cannot be read."""
    try:
        with folders.open_file(path, "rb") as file:
            number = count(_parsed(raw) for raw in file)
            if number == 0:
                return
            file.seek(0)
            for _ in islice(file, number):
                pass
            rest = file.read()
    except FileNotFoundError:
        return
    folders.replace_file(path, rest)


def _parsed(raw: bytes) -> Line | None:
    line = journal.parse_line(raw.rstrip(b"\n"))
    return None if isinstance(line, str) else line


def backwards(path: Path) -> Iterator[bytes]:
    """The lines of a file without their newlines, the last first; text after the last newline is left out."""
    try:
        file = folders.open_file(path, "rb")
    except FileNotFoundError:
        return
    with file:
        place = file.seek(0, os.SEEK_END)
        pieces: list[bytes] = []  # of the line that is not whole yet, last piece first
        first = True
        while place > 0:
            size = min(_BLOCK_BYTES, place)
            place -= size
            file.seek(place)
            head, *whole = file.read(size).split(b"\n")
            if whole:
                last = b"".join([whole[-1], *reversed(pieces)])
                if not first:
                    yield last
                first = False
                yield from reversed(whole[:-1])
                pieces = [head]
            else:
                pieces.append(head)
        if not first:
            yield b"".join(reversed(pieces))
