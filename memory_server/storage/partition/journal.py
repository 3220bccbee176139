"""The journal of a partition: a header line, then one line per commit, appended and made durable; and the history of
the commits before it.

    {"format":1,"generation":3,"base":41,"snapshots":{"a.json":"sha256:…","b.json":null},"crc":"…"}
    {"v":1,"seq":42,"at":"…","by":"…","changes":[…],"crc":"…"}
    {"v":1,"compacted":{"a.json":"sha256:…","b.json":"sha256:…"},"crc":"…"}

A line counts only with its newline and its checksum (CRC-32 of the bytes before `,"crc"`). Text after the last
newline is a torn tail: it was never acknowledged and is cut off before the next append. A bad line in the middle is
passed over with its reason, and later lines still count. `generation` grows with every new journal file, because
inode, size and time cannot tell one file from the next. Knows nothing of memories: `changes` are opaque here."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from languages import Sentence
from memory_server.kernel import files as folders
from memory_server.kernel import json_text
from memory_server.kernel.errors import StorageUnwritable
from memory_server.kernel.files import locks_fail, open_file, read_file, sync_file
from memory_server.kernel.json_text import Fields, deeper
from memory_server.kernel.values import frozen

FORMAT = 1
"""The newest journal format this code writes and fully understands."""

DEEPEST = 250
"""The most levels of lists and objects in a line: what orjson writes, so that what was read can be kept elsewhere."""
_LONG_BYTES = 2_000_000
"""The size from which a line is read in steps, such as a large import. This takes longer; read at once, the line
keeps all other threads waiting for some 40 ms."""
_CRC_TAIL = len(b',"crc":"00000000"}')
_ENDING = _CRC_TAIL + 1
_BLOCK_BYTES = 65_536
_MOST_COMMITS = 2**53
"""No version is as large: it is what JSON numbers hold exactly."""


@frozen
class Header:
    """The first line: the base of the commits below it."""

    generation: int
    base: int
    """The version of the conversation in the snapshots."""
    snapshots: Mapping[str, str | None]
    """The hash of each snapshot file, or None for a missing file."""
    format: int = FORMAT


@frozen
class BadLine:
    """A line that does not count: where it starts, its bytes and why."""

    offset: int
    data: bytes
    reason: Sentence


@frozen
class Tail:
    """The lines of a journal from an offset on."""

    lines: tuple[Fields, ...]
    bad: tuple[BadLine, ...]
    end: int
    """The offset after the last newline: where the next line belongs."""
    torn: bytes
    """The bytes that follow it."""


@frozen
class Place:
    """The place up to which a journal was read. `head` is its first line: it tells one journal file from the next.
    `ending` is the end of the last line that was read, with its checksum: it tells the line from another line of the
    same length."""

    head: bytes
    offset: int
    ending: bytes


def frame(fields: Fields, body: bytes | None = None) -> bytes:
    """Write a line of the journal with checksum and newline. `body` spares a second encoding of `fields`."""
    content = orjson.dumps(fields) if body is None else body
    unclosed = content[:-1]
    return b'%s,"crc":"%08x"}\n' % (unclosed, zlib.crc32(unclosed))


def header_line(header: Header) -> bytes:
    return frame({"format": header.format} | asdict(header))


def parse_line(line: bytes) -> Fields | Sentence:
    """Parse a line without its newline. Return its fields, or the reason why it does not count."""
    unclosed = line[:-_CRC_TAIL]
    crc = line[-_CRC_TAIL:]
    if not unclosed or not crc.startswith(b',"crc":"'):
        return Sentence("it has no checksum")
    if crc != b',"crc":"%08x"}' % zlib.crc32(unclosed):
        return Sentence("its checksum does not match")

    try:
        # Reading a long line at once would keep all other threads waiting.
        if len(unclosed) > _LONG_BYTES:
            fields = json_text.loads_of_long_object(unclosed + b"}")
        else:
            fields = json_text.strict_loads(unclosed + b"}")
    except ValueError as error:
        return Sentence("it is not JSON: {reason}", str(error))

    if unclosed.count(b"[") + unclosed.count(b"{") > DEEPEST and deeper(fields, DEEPEST):
        return Sentence("it is nested deeper than {deepest} levels", DEEPEST)
    if not isinstance(fields, dict):
        return Sentence("it is not a JSON object")
    if "changes" in fields and not _is_number(fields.get("seq")):
        return Sentence("it has no version")

    return fields


def _is_number(value: Any) -> bool:
    """Tell whether a value can be a version or a generation."""
    return type(value) is int and 0 <= value < _MOST_COMMITS


def read_header(path: Path) -> Header | None:
    """Read the header of the journal at `path`. Return None without a journal or if its header does not count."""
    try:
        with open_file(path, "rb") as file:
            return _header(file.readline())
    except FileNotFoundError:
        return None


def refuse_newer(folder: Path, header: Header | None) -> None:
    """Raise StorageUnwritable if a newer memory-server wrote the journal in `folder`, so that this program must not
    write."""
    if header is not None and header.format > FORMAT:
        raise StorageUnwritable(
            Sentence(
                "{folder} is of format {format}, of a newer memory-server; update this one.",
                folder,
                header.format,
            ),
            folder,
        )


def _header(line: bytes) -> Header | None:
    """Parse the first line of a journal, with its newline. Return None if it is not a whole header."""
    if not line.endswith(b"\n"):
        return None
    fields = parse_line(line[:-1])
    if isinstance(fields, Sentence) or not isinstance(fields.get("snapshots"), dict):
        return None
    if not all(_is_number(fields.get(name)) for name in ("generation", "base", "format")):
        return None
    return Header(
        fields["generation"], fields["base"], snapshots=fields["snapshots"], format=fields["format"]
    )


def lines_in(data: bytes, offset: int) -> Iterator[tuple[bytes, Fields | BadLine]]:
    """Yield each whole line of `data`, which was read from `offset` on, without its newline, and its fields."""
    start = 0
    end = data.rfind(b"\n") + 1
    for raw in data[:end].split(b"\n")[:-1]:
        fields = parse_line(raw)
        if isinstance(fields, Sentence):
            yield raw, BadLine(offset + start, raw, fields)
        else:
            yield raw, fields
        start += len(raw) + 1


def parse_tail(data: bytes, offset: int) -> Tail:
    """Sort `data`, read from `offset` on, into lines that count, lines that do not, and a torn tail."""
    end = data.rfind(b"\n") + 1
    lines: list[Fields] = []
    bad_lines: list[BadLine] = []
    for _raw, line in lines_in(data, offset):
        if isinstance(line, BadLine):
            bad_lines.append(line)
        else:
            lines.append(line)
    return Tail(tuple(lines), tuple(bad_lines), end=offset + end, torn=data[end:])


def read(path: Path) -> tuple[Header | None, Tail, Place | None]:
    """Read the header, what the journal holds after it, and the place after that. All come from a single open file,
    so they fit together even if it is renamed over meanwhile. If the first line does not count, it is a bad line of
    the tail, and header and place are None. Raises FileNotFoundError without a journal."""
    data = read_file(path)
    start = data.find(b"\n") + 1 or len(data)
    header = _header(data[:start])
    if header is None:
        # Its first line is broken, or a commit, because the first line is gone.
        tail = parse_tail(data, 0)
        bad_lines = tail.bad or (BadLine(0, b"", Sentence("the first line is missing")),)
        return None, replace(tail, bad=bad_lines), None
    tail = parse_tail(data[start:], start)
    return header, tail, Place(data[:start], tail.end, _ending(data, tail.end))


def _ending(data: bytes, end: int) -> bytes:
    """Return the end of the last line before `end`, by which a place knows it."""
    return data[max(0, end - _ENDING) : end]


def follow(path: Path, place: Place) -> tuple[Tail, Place] | None:
    """Read what was appended after `place`, and the place after it. Return None if it is another file, or if what was
    read was cut off since. Raises FileNotFoundError without a journal."""
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
    return tail, Place(place.head, tail.end, _ending(data, end))


def append(path: Path, place: Place, lines: Sequence[bytes]) -> Place:
    """Append whole lines at `place`, the end of the last line, and make them durable. Return the place after
    them. Call it under the lock. Text that a crashed writer left after `place` is overwritten. Raises OSError, also if
    another process wrote without the lock; then nothing was appended, and the file is as long as it was."""
    data = b"".join(lines)
    with open_file(path, "r+b", buffering=0) as file:
        file.seek(place.offset)
        if b"\n" in file.read():
            # Under the lock a new line cannot follow the last known line: another process writes without the lock.
            raise locks_fail(path)

        try:
            # An unfinished write that is longer than these lines must not leave its end behind them.
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


def newest_first(
    paths: Iterable[Path], is_needed: Callable[[bytes], object] | None = None
) -> Iterator[Fields]:
    """Yield the lines of the files at `paths` that count, each version once. The first file has the newest, and a
    file may be missing. `is_needed` tells whether to parse a line."""
    return each_version_once(lines_of(paths, is_needed))


def each_version_once(raw_lines: Iterable[bytes]) -> Iterator[Fields]:
    """Yield the lines that count, of lines that come newest first."""
    last_version: int | None = None
    for raw in raw_lines:
        line = parse_line(raw)
        if isinstance(line, Sentence):
            continue
        version = line.get("seq")
        if isinstance(version, int) and (last_version is None or version < last_version):
            last_version = version
            yield line


def lines_of(
    paths: Iterable[Path], is_needed: Callable[[bytes], object] | None = None
) -> Iterator[bytes]:
    """Yield the needed lines of the files at `paths` unparsed, the last line of each file first."""
    raw_lines = chain.from_iterable(map(_backwards, paths))
    return filter(is_needed, raw_lines)


def newest_version(path: Path) -> int:
    """Return the version of the last line of a history, or 0 if it is empty."""
    return next((line["seq"] for line in newest_first([path])), 0)


def keep(path: Path, lines: Sequence[tuple[int, bytes]]) -> None:
    """Append the `lines`, given with their versions, that the file lacks."""
    kept_version = newest_version(path)
    new_lines = [data for version, data in lines if version > kept_version]
    if new_lines:
        folders.append_durably(path, b"".join(new_lines))


def drop_first(
    path: Path,
    count: Callable[[Iterator[Fields | None]], int],
    remaining: Callable[[Fields], bytes],
) -> None:
    """Remove as many of the first lines as `count` returns, and keep what is `remaining` of each. `count` gets the
    lines, oldest first, with None for a line that cannot be read."""
    try:
        file = folders.open_file(path, "rb")
    except FileNotFoundError:
        return

    with file:
        number = count(map(_fields_or_none, file))
        if not number:
            return
        file.seek(0)
        due_lines = list(islice(file, number))
        lines = map(_fields_or_none, due_lines)
        staying_lines = [remaining(line) for line in lines if line is not None]
        # Nothing is removed, so the file is not written again.
        if staying_lines == due_lines:
            return
        rest = file.read()

    folders.replace_file(path, b"".join([*staying_lines, rest]))


def _fields_or_none(raw: bytes) -> Fields | None:
    line = parse_line(raw.rstrip(b"\n"))
    if isinstance(line, Sentence):
        return None
    return line


def _backwards(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file without their newlines, the last first; text after the last newline is left out."""
    try:
        file = folders.open_file(path, "rb")
    except FileNotFoundError:
        return

    with file:
        offset = file.seek(0, os.SEEK_END)
        pieces: list[bytes] = []  # of the line that is not complete yet, last piece first
        is_after_last_newline = True
        while offset > 0:
            size = min(_BLOCK_BYTES, offset)
            offset -= size
            file.seek(offset)
            head, *lines = file.read(size).split(b"\n")
            # The block is in the middle of a long line.
            if not lines:
                pieces.append(head)
                continue
            last_line = b"".join([lines[-1], *reversed(pieces)])
            if not is_after_last_newline:
                yield last_line
            is_after_last_newline = False
            yield from reversed(lines[:-1])
            pieces = [head]

        if not is_after_last_newline:
            yield b"".join(reversed(pieces))
