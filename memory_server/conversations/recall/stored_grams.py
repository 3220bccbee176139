"""The pairs of characters of an index in a file, so that the next process need not find them again.

The file is only used for memories whose digest it names, so a changed memory costs time and never a wrong answer. It
knows neither where the file is nor when it is written. Imports numpy.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from hashlib import sha256
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.version import __version__

_HEADER = Struct("<8s32s3I4x")
"""The form, the digest of the memories, and how many rows, keys and entries there are. The columns follow."""
_CHECKSUM_BYTES = 4
"""The file ends with the CRC-32 of all before it."""
_FORM = b"grams 1\n"
_AT_ONCE = 500
"""Memories whose texts are copied in one step: some hundred kilobytes."""
_MARSHAL_FORM = 0
"""The form of `marshal` in which equal values have equal bytes."""


class Run(NamedTuple):
    """The rows of each key, ascending: the rows of `keys[n]` are from `starts[n]` to `starts[n + 1]`. A key is a pair
    as the two UTF-16 units of its characters, or the unit of a single character; all are below U+10000. `row_count`
    counts the rows up to the last of the run, also those without a pair."""

    row_count: int
    keys: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float16]


def stored(run: Run, memories: Sequence[ShortTermMemory], wording: KeywordOptions) -> bytes:
    """Return the content of the file for the run of these memories, which are its rows."""
    counts = run.row_count, len(run.keys), len(run.rows)
    header = _HEADER.pack(_FORM, digest_of(memories, wording), *counts)
    columns = run.keys, run.starts, run.rows, run.weights
    content = header + b"".join(column.tobytes() for column in columns)
    return content + _checksum(content)


def usable_run(
    content: bytes, memories: Sequence[ShortTermMemory], wording: KeywordOptions
) -> Run | None:
    """Return the run in the file, whose rows are the first of these memories. Return None if it is of other memories,
    of other options or another version, or damaged."""
    if len(content) < _HEADER.size + _CHECKSUM_BYTES:
        return None
    checked = memoryview(content)[:-_CHECKSUM_BYTES]
    form, digest, row_count, key_count, entry_count = _HEADER.unpack_from(checked)
    if form != _FORM or _checksum(checked) != content[-_CHECKSUM_BYTES:]:
        return None
    if row_count > len(memories) or digest_of(memories[:row_count], wording) != digest:
        return None

    columns: list[npt.NDArray[Any]] = []
    end = _HEADER.size
    kinds = np.uint32, np.int32, np.int32, np.float16
    lengths = key_count, key_count + 1, entry_count, entry_count
    for kind, length in zip(kinds, lengths, strict=True):
        columns.append(np.frombuffer(checked, kind, length, end))
        end += columns[-1].nbytes
    return Run(row_count, *columns)


def _checksum(content: bytes | memoryview) -> bytes:
    return crc32(content).to_bytes(_CHECKSUM_BYTES, "little")


def digest_of(memories: Sequence[ShortTermMemory], wording: KeywordOptions) -> bytes:
    """Return a digest of all that decides about the pairs of these memories."""
    hasher = sha256(f"{__version__}\n{wording.enrichment.signature}".encode())
    for start in range(0, len(memories), _AT_ONCE):
        parts = list(map(_parts_of, memories[start : start + _AT_ONCE]))
        hasher.update(marshal.dumps(parts, _MARSHAL_FORM))
    return hasher.digest()


def _parts_of(memory: ShortTermMemory) -> tuple[object, ...]:
    messages = [(message.role, message.content) for message in memory.messages]
    return memory.words, messages or memory.text, dict(memory.role_weights)
