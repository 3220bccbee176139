"""How much a packed file may become: a small file can hold gigabytes, and a megabyte of JSON becomes twenty megabytes of
values. Each door that unpacks asks here before it unpacks more, and before it parses what it has."""

from __future__ import annotations

import zlib

LEAST_BYTES = 48 * 1024 * 1024
"""The bytes to which any file may unpack: the largest known card has 5 MB, and 40,000 memories have 60 MB."""
MOST_RATIO = 60
"""The most bytes to which one packed byte of a larger file may unpack: chats and memories have 4 to 30, and the maximum
of deflate is 1,030."""
_LEAST_MEMORY = 200 * 1024 * 1024
"""The bytes of memory that the values of any file may take."""
_MEMORY_RATIO = 200
"""The most of them for one packed byte of a larger file. The export of a chat takes about 100."""
_VALUE_BYTES = 90
"""Bytes of memory of a value of JSON, beside its text: an empty object has 64 and its place in a list 8."""
_MARKS = (b"{", b"[", b",", b":")
"""What stands before a value of JSON, or inside of texts, where it counts too."""


class UnpackingRoom:
    """The room of what is unpacked from so many bytes. `free_bytes`: what may still be unpacked."""

    def __init__(
        self, packed_bytes: int, *, least_bytes: int = LEAST_BYTES, most_ratio: int = MOST_RATIO
    ) -> None:
        self.free_bytes = max(least_bytes, packed_bytes * most_ratio)
        self._free_memory = max(_LEAST_MEMORY, packed_bytes * _MEMORY_RATIO)

    def fits(self, data: bytes) -> bool:
        """Whether these unpacked bytes, and the values that JSON in them becomes, still have room; they take it."""
        values = sum(map(data.count, _MARKS))
        self.free_bytes -= len(data)
        self._free_memory -= 2 * len(data) + values * _VALUE_BYTES
        return self.free_bytes >= 0 and self._free_memory >= 0


def unpacked(data: bytes, *, wbits: int, most_bytes: int) -> bytes:
    """The bytes that `zlib` packed, of several members one after the other. Raises zlib.error: they are damaged, cut
    off, or more than `most_bytes`."""
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
