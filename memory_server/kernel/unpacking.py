"""How much a packed file may become: a small file can hold gigabytes, and a megabyte of JSON becomes twenty megabytes of
values. Each door that unpacks asks here before it unpacks more, and before it parses what it has."""

from __future__ import annotations

import zlib

LEAST_BYTES = 48 * 1024 * 1024
"""The bytes to which any file may unpack: the largest known card has 5 MB, and 40,000 memories have 60 MB."""
MOST_RATIO = 60
"""The most bytes to which one packed byte of a larger file may unpack: chats and memories have 4 to 30, and the maximum
of deflate is 1,030."""
_LEAST_MEMORY = 290 * 1024 * 1024
"""The bytes of memory that the values of any file may take by this estimate: 60,000 short memories have 268 MB."""
_MEMORY_RATIO = 4
"""The most bytes of memory per unpacked byte of a larger file. Memories of one template take up to 6."""
_VALUE_BYTES = 100
_OBJECT_BYTES = 190
"""Bytes of memory of a value of JSON and of an object, beside their texts."""


class UnpackingRoom:
    """The room for what is unpacked from so many bytes. `free_bytes` may still be unpacked."""

    def __init__(
        self, packed_bytes: int, *, least_bytes: int = LEAST_BYTES, most_ratio: int = MOST_RATIO
    ) -> None:
        self.free_bytes = max(least_bytes, packed_bytes * most_ratio)
        self._memory = max(_LEAST_MEMORY, packed_bytes * most_ratio * _MEMORY_RATIO)
        self._free_memory = self._memory

    def let_go(self) -> None:
        """Give back the memory of the values so far, which are no longer held."""
        self._free_memory = self._memory

    def fits(self, data: bytes) -> bool:
        """Return whether these unpacked bytes, and the values that JSON in them becomes, still have room; they take it."""
        values = data.count(b",") + data.count(b"[")
        self.free_bytes -= len(data)
        self._free_memory -= len(data) + values * _VALUE_BYTES + data.count(b"{") * _OBJECT_BYTES
        return self.free_bytes >= 0 and self._free_memory >= 0


def unpacked(data: bytes, *, wbits: int, most_bytes: int) -> bytes:
    """Return the bytes that `zlib` packed, of several members one after the other. Raise zlib.error if they are
    damaged, cut off, or more than `most_bytes`."""
    parts: list[bytes] = []
    while data:
        unpacking = zlib.decompressobj(wbits)
        part = unpacking.decompress(data, most_bytes + 1)
        most_bytes -= len(part)
        if most_bytes < 0:
            raise zlib.error("it unpacks to too much")
        if not unpacking.eof:
            raise zlib.error("it is cut off")
        parts.append(part)
        data = unpacking.unused_data
    return b"".join(parts)
