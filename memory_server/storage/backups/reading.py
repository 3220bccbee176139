"""The two parts of a backup file, as they are read: its facts, and its conversations."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from languages import _
from memory_server.conversations import record_lines
from memory_server.conversations.contents import Contents
from memory_server.kernel import json_text
from memory_server.kernel.backups import Backup
from memory_server.kernel.unpacking import UnpackingRoom

FORMAT = "memory-server backup"
VERSION = 1
MAX_FACTS_BYTES = 64 * 1024
"""The most bytes of the line of facts; it has about 250."""
MOST_UNPACKED = 100
"""The most bytes to which one byte of a backup may unpack: memories have 4 to 30, and gzip's maximum is 1,030."""
LEAST_UNPACKED_BYTES = 64 * 1024 * 1024
"""The bytes to which any backup may unpack, some 40,000 memories: too few to need another bound."""


def facts_in(file: BufferedReader, path: Path, name: str) -> tuple[Backup, dict[str, Any]]:
    """Read the facts of a backup, and leave `file` at the end of them. Raises NotARecord, zlib.error."""
    unpacked = zlib.decompressobj(wbits=31)
    packed = file.read(MAX_FACTS_BYTES)
    try:
        line = unpacked.decompress(packed, MAX_FACTS_BYTES)
    except zlib.error as error:
        raise json_text.NotARecord(
            "it is not a backup of memory-server, or its first part is damaged"
        ) from error

    if not unpacked.eof:
        raise json_text.NotARecord("its first part is damaged")

    # The facts are a gzip member of their own; `conversations_in` reads on after it.
    file.seek(len(packed) - len(unpacked.unused_data))
    try:
        fields = json_text.loads(line)
        if not isinstance(fields, dict) or fields.get("format") != FORMAT:
            raise json_text.NotARecord("it is not a backup of memory-server")
        if fields["version"] > VERSION:
            raise json_text.NotARecord("it is of a newer memory-server; update this one to use it")
        created = json_text.milliseconds(fields["created"])
        counts = (int(fields["conversations"]), int(fields["shortTerm"]), int(fields["longTerm"]))
    except json_text.NotARecord:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise json_text.NotARecord("its first part is damaged") from error

    return Backup(name, created, path.stat().st_size, *counts), fields


def conversations_in(file: BufferedReader, start: int) -> Iterator[Contents]:
    """Read the conversations of a backup, whose first member ends at `start`. Raises NotARecord, zlib.error."""
    packed = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    with gzip.GzipFile(fileobj=file, mode="rb") as body:
        room = UnpackingRoom(packed, least_bytes=LEAST_UNPACKED_BYTES, most_ratio=MOST_UNPACKED)
        yield from record_lines.parse(_lines(body, room))


def _lines(body: gzip.GzipFile, room: UnpackingRoom) -> Iterator[bytes]:
    """Read the lines of a file, as far as `room` goes. Raises zlib.error before more is unpacked."""
    line = body.readline(record_lines.LONGEST_LINE + 1)
    while line:
        if line.startswith(record_lines.HEAD_START):
            room.let_go()  # one conversation is held at a time
        if not room.fits(line) or len(line) > record_lines.LONGEST_LINE:
            raise zlib.error(_("it unpacks to far more than memories do"))
        yield line
        line = body.readline(record_lines.LONGEST_LINE + 1)
