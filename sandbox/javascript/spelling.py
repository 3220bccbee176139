"""One spelling of a text for match_keys: Traditional characters as Simplified ones, full-width ones as plain ones.

A spelling is as long as its text, so places in one are places in the other. realm/keys.js has the same table.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

HALF = re.compile("[\ud800-\udfff]")
"""Half of a character beyond U+FFFF."""
FIRST_IDEOGRAPH, LAST_IDEOGRAPH = 0x4E00, 0x9FFF


@cache
def _table() -> dict[int, str]:
    pairs = Path(__file__).with_name("spellings.txt").read_text("utf-8").splitlines()[1]
    full = {0xFF00 + code: chr(0x20 + code) for code in range(1, 0x5F)} | {0x3000: " "}
    return full | dict(zip(map(ord, pairs[::2]), pairs[1::2], strict=True))


@cache
def _simple() -> frozenset[str]:
    return frozenset(_table().values())


def ideographs() -> str:
    """The spelling of each character from FIRST_IDEOGRAPH to LAST_IDEOGRAPH."""
    return "".join(map(chr, range(FIRST_IDEOGRAPH, LAST_IDEOGRAPH + 1))).translate(_table())


def folded(text: str) -> str:
    return text if text.isascii() else text.translate(_table())


def spelled_in_two_ways(text: str) -> bool:
    return any(ord(one) in _table() or one in _simple() for one in text if not one.isascii())


def normal(text: str) -> str:
    """The same for all texts that match_keys, `includes` or an expression could take for one: also without case. Not as
    long as `text`; the normal form of a part is a part of the normal form."""
    return folded(text).casefold().replace("ı", "i")
