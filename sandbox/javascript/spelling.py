"""One spelling of a text for match_keys: what a person sees, Traditional characters as Simplified ones, full-width ones
as plain ones. realm/keys.js has the same rules.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

FIRST_IDEOGRAPH, LAST_IDEOGRAPH = 0x4E00, 0x9FFF
UNSEEN = (
    "[\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u3164"
    "\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufff8]"
)
"""A pattern, of Python and of JavaScript, of the characters that no font shows: Default_Ignorable_Code_Point of
Unicode 15.0 (DerivedCoreProperties.txt), only characters of a single UTF-16 unit."""
_UNSEEN = re.compile(UNSEEN)


@cache
def _table() -> dict[int, str]:
    pairs = Path(__file__).with_name("spellings.txt").read_text("utf-8").splitlines()[1]
    full = {0xFF00 + code: chr(0x20 + code) for code in range(1, 0x5F)} | {0x3000: " "}
    return full | dict(zip(map(ord, pairs[::2]), pairs[1::2], strict=True))


@cache
def _simple() -> frozenset[str]:
    return frozenset(_table().values())


def ideographs() -> str:
    """Return the spelling of each character from FIRST_IDEOGRAPH to LAST_IDEOGRAPH."""
    return "".join(map(chr, range(FIRST_IDEOGRAPH, LAST_IDEOGRAPH + 1))).translate(_table())


def seen(text: str) -> str:
    """Return `text` without invisible characters, and with letters and their marks in one (NFC)."""
    return text if text.isascii() else unicodedata.normalize("NFC", _UNSEEN.sub("", text))


def folded(text: str) -> str:
    """Return the spelling of `text` in which match_keys compares words."""
    return text if text.isascii() else unicodedata.normalize("NFKC", seen(text)).translate(_table())


def spelled_in_two_ways(text: str) -> bool:
    return any(ord(char) in _table() or char in _simple() for char in text if not char.isascii())


def normal(text: str) -> str:
    """Return the text without case: the normal form of a part is a part of the normal form."""
    return text.casefold().replace("ı", "i")
