"""A character card in a PNG: the JSON of its text chunk `ccv3` (version 3 of the specification) or `chara` (version 2).

Sources: facts of the PNG specification (chunks tEXt, zTXt, iTXt) and of the character card specifications V2 and V3,
which write the JSON as Base64. A compressed text is unpacked only so far, because a small file can hold gigabytes.
"""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Iterator

from memory_server.interchange.incoming import NotThisFormat

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_BYTES = 32 * 1024 * 1024
"""Of a card as Base64. The largest known books have 5 MB."""
_KEYWORDS = (b"ccv3", b"chara")
"""The newer one first: programs write both, and only the newer one is whole."""


def card_in(picture: bytes) -> bytes:
    """The JSON of the card. Raises NotThisFormat: there is none, or it is damaged or too large."""
    found: dict[bytes, bytes] = {}
    for kind, data in _chunks(picture):
        keyword, _nul, rest = data.partition(b"\0")
        if keyword.lower() in _KEYWORDS:
            found.setdefault(keyword.lower(), kind + rest)
    for keyword in filter(found.__contains__, _KEYWORDS):
        try:
            return binascii.a2b_base64(_text(found[keyword][:4], found[keyword][4:]))
        except (ValueError, zlib.error) as error:
            raise NotThisFormat("has a damaged card ({reason}); export the character again.", error) from error
    raise NotThisFormat("is a picture without a character card; export the character as PNG or JSON.")


def _chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and data of each chunk with text, up to the first that is cut off."""
    place = len(SIGNATURE)
    while place + 8 <= len(picture):
        end = place + 8 + int.from_bytes(picture[place : place + 4])
        kind = picture[place + 4 : place + 8]
        if end > len(picture):
            return
        if kind in (b"tEXt", b"zTXt", b"iTXt"):
            yield kind, picture[place + 8 : end]
        place = end + 4  # its checksum


def _text(kind: bytes, rest: bytes) -> bytes:
    """Raises zlib.error, or NotThisFormat if it is too large."""
    packed = kind == b"zTXt" or (kind == b"iTXt" and rest[:1] == b"\x01")
    if kind == b"iTXt":
        rest = rest[2:].partition(b"\0")[2].partition(b"\0")[2]  # after the language and the translated keyword
    elif packed:
        rest = rest[1:]
    if packed:
        unpacking = zlib.decompressobj()
        rest = unpacking.decompress(rest, MOST_BYTES + 1)
        if not unpacking.eof and len(rest) <= MOST_BYTES:
            raise zlib.error("it is cut off")
    if len(rest) > MOST_BYTES:
        raise NotThisFormat("has a card of more than {bytes:,} bytes; make its book smaller.", MOST_BYTES)
    return rest
