"""A character card in a PNG: the JSON of its text chunk `ccv3` (version 3 of the specification) or `chara` (version 2).

Sources: facts of the PNG specification (chunks tEXt, zTXt, iTXt) and of the character card specifications V2 and V3,
which write the JSON as Base64. A compressed text is unpacked only so far, because a small file can hold gigabytes.
"""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Iterator
from typing import Any, NoReturn

from languages import _
from memory_server.interchange.incoming import NotThisFormat
from memory_server.kernel import json_text
from memory_server.kernel.unpacking import UnpackingRoom

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of a card as Base64 at most. The largest known books have 5 MB."""
_KEYWORDS = (b"ccv3", b"chara")
"""The newer keyword first: programs write both, and only the newer card is whole."""


def card_in(picture: bytes) -> bytes:
    """Read the JSON of the card. Raises NotThisFormat: the picture has no card, or the card is damaged or too large."""
    cards: dict[bytes, tuple[bytes, bytes]] = {}
    for kind, data in _chunks(picture):
        keyword, _nul, rest = data.partition(b"\0")
        cards.setdefault(keyword.lower(), (kind, rest))

    fault = NotThisFormat(
        "is a picture without a character card; export the character as PNG or JSON."
    )
    for keyword in _KEYWORDS:
        if keyword not in cards:
            continue

        kind, rest = cards[keyword]
        try:
            card = binascii.a2b_base64(_text(kind, rest))
            if not UnpackingRoom(len(rest)).fits(card):
                refuse_large_card()
            if not _is_card(json_text.loads(card)):
                raise ValueError(_("it is not a character card"))
        except (ValueError, zlib.error) as error:
            fault = NotThisFormat(
                "has a damaged card ({reason}); export the character again.", error
            )
            continue  # the card of the other version may be whole

        return card

    raise fault


def _is_card(value: Any) -> bool:
    """Tell whether a value is a card: version 1 has its fields in the object itself, the others in `data`."""
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("data"), dict) or "name" in value or "character_book" in value


_CHUNK_HEAD = 8
"""Bytes before the data of a chunk: their length, and its kind."""


_CHECKSUM = 4


def _chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and data of each chunk with text, up to the first that is cut off."""
    start = len(SIGNATURE)
    while start + _CHUNK_HEAD <= len(picture):
        length = int.from_bytes(picture[start : start + 4])
        kind = picture[start + 4 : start + _CHUNK_HEAD]
        end = start + _CHUNK_HEAD + length
        if end > len(picture):
            return
        if kind in (b"tEXt", b"zTXt", b"iTXt"):
            yield kind, picture[start + _CHUNK_HEAD : end]
        start = end + _CHECKSUM


def _text(kind: bytes, rest: bytes) -> bytes:
    """Return the text of a chunk, unpacked and without its head. Raises zlib.error if it is damaged, or NotThisFormat
    if it is too large."""
    is_packed = kind == b"zTXt" or (kind == b"iTXt" and rest[:1] == b"\x01")
    if kind == b"iTXt":
        _language, _nul, rest = rest[2:].partition(b"\0")
        _translated_keyword, _nul, rest = rest.partition(b"\0")
    elif is_packed:
        rest = rest[1:]  # after the method of compression
    if is_packed:
        unpacking = zlib.decompressobj()
        rest = unpacking.decompress(rest, MOST_BYTES + 1)
        if not unpacking.eof and len(rest) <= MOST_BYTES:
            raise zlib.error("it is cut off")
    if len(rest) > MOST_BYTES:
        refuse_large_card()
    return rest


def refuse_large_card() -> NoReturn:
    """Raise NotThisFormat: a card has more than MOST_BYTES, or far more than texts."""
    raise NotThisFormat(
        "has a card of more than {bytes:,} bytes; make its book smaller.", MOST_BYTES
    )
