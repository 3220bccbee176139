"""The journal of one partition: a header line, then one line per commit, appended and made durable; and the history
of the commits before it.

    {"format":1,"generation":3,"base":41,"snapshots":{"a.json":"sha256:…","b.json":null},"crc":"…"}
    {"v":1,"seq":42,"at":"…","by":"…","changes":[…],"crc":"…"}
    {"v":1,"compacted":{"a.json":"sha256:…","b.json":"sha256:…"},"crc":"…"}

A line counts only with its newline and its checksum (CRC-32 of the bytes before `,"crc"`). Text after the last newline
is a torn tail: it was never acknowledged and is cut off before the next append. A bad line in the middle is passed over
with its reason, and later lines still count. `generation` grows with every new journal file, because inode, size and
time cannot tell one file from the next. Knows nothing of memories: `changes` are opaque here.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from memory_server.kernel import files as folders
from memory_server.kernel import strict_json
from memory_server.kernel.errors import StorageUnwritable
from memory_server.kernel.files import locks_fail, open_file, read_file, sync_file
from memory_server.kernel.nesting import deeper
from sandbox.locale import _

FORMAT = 1
"""The newest journal format this code writes and fully understands."""

DEEPEST = 250
"""Levels of lists and objects in a line: what orjson writes, so that what was read can be kept elsewhere."""
_LONG_BYTES = 2_000_000
"""From so many bytes on, such as those of a large import, a line is read in steps, which takes longer: read at once,
this one keeps all other threads waiting for some 40 ms."""
_CRC_TAIL = len(b',"crc":"00000000"}')
_ENDING = _CRC_TAIL + 1
_BLOCK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Header:
    """The first line: the base of the commits below it."""

    generation: int
    base: int
    """Version of the conversation in the snapshots."""
    snapshots: Mapping[str, str | None]
    """Hash of each snapshot file; None where there was none."""
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that does not count: where it starts, its bytes and why."""

    offset: int
    data: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Tail:
    """What a journal holds from an offset on."""

    lines: tuple[Mapping[str, Any], ...]
    bad: tuple[BadLine, ...]
    end: int
    """Offset after the last newline: where the next line belongs."""
    torn: bytes
    """What follows it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where somebody has read a journal up to. `head` is its first line: it tells one journal file from the next.
    `ending` is the end of the last line that was read, with its checksum: it tells it from another of its length."""

    head: bytes
    offset: int
    ending: bytes


def frame(fields: Mapping[str, Any], body: bytes | None = None) -> bytes:
    """A line of the journal with checksum and newline. `body` spares a second encoding of `fields`."""
    inner = orjson.dumps(fields) if body is None else body
    return b'%s,"crc":"%08x"}\n' % (inner[:-1], zlib.crc32(inner[:-1]))


def header_line(header: Header) -> bytes:
    return frame({"format": header.format} | asdict(header))


def parse_line(line: bytes) -> Mapping[str, Any] | str:
    """The fields of one line without its newline, or the reason why it does not count."""
    inner, crc = line[:-_CRC_TAIL], line[-_CRC_TAIL:]
    if not inner or not crc.startswith(b',"crc":"'):
        return _("it has no checksum")
    if crc != b',"crc":"%08x"}' % zlib.crc32(inner):
        return _("its checksum does not match")
    try:
        read = strict_json.loads_of_long_object if len(inner) > _LONG_BYTES else strict_json.loads
        fields = read(inner + b"}")
    except ValueError as error:
        return _("it is not JSON: {reason}", error)
    if inner.count(b"[") + inner.count(b"{") > DEEPEST and deeper(fields, DEEPEST):
        return _("it is nested deeper than {deepest} levels", DEEPEST)
    return fields if isinstance(fields, dict) else _("it is not a JSON object")


def read_header(path: Path) -> Header | None:
    """The header of the journal at `path`; None where there is no journal or its header does not count."""
    try:
        with open_file(path, "rb") as file:
            return _header(file.readline())
    except FileNotFoundError:
        return None


def refuse_newer(folder: Path, header: Header | None) -> None:
    """Raises StorageUnwritable: a newer memory-server wrote the journal in `folder`, so this one must not write."""
    if header is not None and header.format > FORMAT:
        raise StorageUnwritable(
            _("{folder} is of format {format}, of a newer memory-server; update this one.", folder, header.format),
            folder,
        )


def _header(line: bytes) -> Header | None:
    fields = parse_line(line[:-1]) if line.endswith(b"\n") else _("it is torn")
    if isinstance(fields, str) or "generation" not in fields:
        return None
    return Header(fields["generation"], fields["base"], fields["snapshots"], fields["format"])


def lines_in(data: bytes, offset: int) -> Iterator[tuple[bytes, Mapping[str, Any] | BadLine]]:
    """Each whole line of `data`, which was read from `offset` on, without its newline, and its fields."""
    start = 0
    for raw in data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]:
        fields = parse_line(raw)
        yield raw, BadLine(offset + start, raw, fields) if isinstance(fields, str) else fields
        start += len(raw) + 1


def parse_tail(data: bytes, offset: int) -> Tail:
    """Sort `data`, read from `offset` on, into lines that count, lines that do not, and a torn tail."""
    end = data.rfind(b"\n") + 1
    found = [line for _, line in lines_in(data, offset)]
    bad = tuple(line for line in found if isinstance(line, BadLine))
    lines = tuple(line for line in found if not isinstance(line, BadLine))
    return Tail(lines, bad, offset + end, data[end:])


def read(path: Path) -> tuple[Header | None, Tail, Place | None]:
    """The header, what the journal holds after it, and the place after that. All come from one open file, so they fit
    together even if it is renamed over meanwhile. If the first line does not count, it is a bad line of the tail, and
    there is neither a header nor a place. Raises FileNotFoundError if there is no journal."""
    data = read_file(path)
    start = data.find(b"\n") + 1 or len(data)
    header = _header(data[:start])
    if header is None:
        # Its first line is broken, or a commit, because the first line is gone.
        tail = parse_tail(data, 0)
        return None, replace(tail, bad=tail.bad or (BadLine(0, b"", _("the first line is missing")),)), None
    tail = parse_tail(data[start:], start)
    return header, tail, Place(data[:start], tail.end, data[max(0, tail.end - _ENDING) : tail.end])


def follow(path: Path, place: Place) -> tuple[Tail, Place] | None:
    """What was appended after `place`, and the place after it; None if it is another file, or if what was read was cut
    off since. Raises FileNotFoundError if there is no journal."""
    # Without a buffer, and only the bytes before `place` that identify it: this runs before each commit and each read.
    with open_file(path, "rb", buffering=0) as file:
        if file.read(len(place.head)) != place.head:
            return None
        file.seek(place.offset - len(place.ending))
        data = file.read()
    if not data.startswith(place.ending):
        return None
    tail = parse_tail(data[len(place.ending) :], place.offset)
    if tail.end == place.offset:
        return tail, place
    end = len(data) - len(tail.torn)
    return tail, Place(place.head, tail.end, data[max(0, end - _ENDING) : end])


def append(path: Path, place: Place, lines: Sequence[bytes]) -> Place:
    """Append whole lines at `place`, the end of the last line, and make them durable; the place after them. Call it
    under the lock. Text that a crashed writer left after `place` is overwritten. After an OSError nothing was appended:
    the file is as long as it was."""
    data = b"".join(lines)
    with open_file(path, "r+b", buffering=0) as file:
        file.seek(place.offset)
        if b"\n" in file.read():
            # Under the lock there cannot be a line after the last one that was read: somebody writes without the lock.
            raise locks_fail(path)
        try:
            if file.seek(0, os.SEEK_END) != place.offset:
                file.truncate(place.offset)
                file.seek(place.offset)
            written = 0
            while written < len(data):
                written += file.write(data[written:]) or 0
            sync_file(file.fileno())
        except OSError:
            # After a failed sync the kernel may have dropped the pages: only cutting the line off ensures that an
            # unacknowledged line never counts.
            os.ftruncate(file.fileno(), place.offset)
            os.fsync(file.fileno())
            raise
    return Place(place.head, place.offset + len(data), data[-_ENDING:])


# --- history.jsonl: the lines of commits that are folded into the snapshots, oldest first -------------------
#
# A crash between writing lines there and the next journal leaves them twice; a version counts once. The file is read
# from its end, because people ask for new commits.


def newest_first(paths: Iterable[Path], wanted: Callable[[bytes], object] | None = None) -> Iterator[Mapping[str, Any]]:
    """The lines of the files at `paths` that count, each version once; the first file has the newest, and one may be
    missing. `wanted`: whether to parse a line."""
    last: int | None = None
    for raw in filter(wanted, chain.from_iterable(map(_backwards, paths))):
        line = parse_line(raw)
        if not isinstance(line, str) and isinstance(line.get("seq"), int) and (last is None or line["seq"] < last):
            last = line["seq"]
            yield line


def newest_version(path: Path) -> int:
    """The version of the last line of a history; 0 if it is empty."""
    return next((line["seq"] for line in newest_first([path])), 0)


def keep(path: Path, lines: Sequence[tuple[int, bytes]]) -> None:
    """Append those of `lines`, given with their versions, that are not there yet."""
    known = newest_version(path)
    if new := [data for version, data in lines if version > known]:
        folders.append_durably(path, b"".join(new))


def drop_first(path: Path, count: Callable[[Iterator[Mapping[str, Any] | None]], int]) -> None:
    """Remove as many of the first lines as `count` returns. It is given the lines, oldest first; None stands for a line
    that cannot be read."""
    rest = None
    with contextlib.suppress(FileNotFoundError), folders.open_file(path, "rb") as file:
        lines = (parse_line(raw.rstrip(b"\n")) for raw in file)
        number = count(None if isinstance(line, str) else line for line in lines)
        file.seek(0)
        for _ in islice(file, number):
            pass
        rest = file.read() if number else None
    if rest is not None:
        folders.replace_file(path, rest)


def _backwards(path: Path) -> Iterator[bytes]:
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
