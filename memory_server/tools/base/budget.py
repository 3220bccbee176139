"""A result within a number of bytes, the same way for every tool: a page of its list, then shorter texts, then shorter
lists.

A client gives what a tool says to its model as it is, so a result without a bound costs the model its context. (Claude
Code refuses more than 25,000 tokens; a Chinese character of three bytes is about one.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from memory_server.recall.recalled_block import FOOT, FRAME_CHARS, HEAD, marked
from memory_server.tools.base.shapes import counted

LEAST_BYTES = 2_000
"""A budget smaller than this could not hold a result with one item of anything."""
LEAST_CHARS = 256
"""Texts up to this length are never cut: ids and names are among them."""


@dataclass(frozen=True, slots=True)
class Paging:
    """How the list `items` of a result goes on: by the argument `by`, which gets what `following` makes of the last
    item shown and of its number. A tool whose argument is `offset` leaves the skipping to `fitted`, unless it `skips`
    itself."""

    items: str
    by: str = "offset"
    following: Callable[[Any, int], Any] = lambda _, number: number
    skips: bool = False


@dataclass(frozen=True, slots=True)
class Fitted:
    """A result as it goes out: its fields, and one line about what was left off, where something was."""

    fields: dict[str, Any]
    said: str | None


def fitted(
    fields: dict[str, Any],
    max_bytes: int,
    paging: Paging | None = None,
    offset: int = 0,
    sought: Sequence[str] = (),
) -> Fitted:
    """`fields`, JSON, shortened to `max_bytes` of JSON where they are longer; then they say `truncated`.

    `offset`: how many items of the list of `paging` are left out at its beginning. `sought`: words, the weightiest
    first, around which long texts are cut; a text without any of them keeps its beginning.
    """
    whole = fields
    if paging is not None and offset and not paging.skips:
        fields = fields | {paging.items: fields[paging.items][offset:]}
    if size(fields) <= max_bytes:
        return Fitted(fields, None)
    fields = fields | {"truncated": True}
    said = []
    if paging is not None:
        items = fields[paging.items]
        count = max(1, _most(len(items), lambda n: size(fields | {paging.items: items[:n]}) <= max_bytes - 64))
        if count < len(items):
            following = paging.following(items[count - 1], offset + count)
            fields |= {paging.items: items[:count], "next": following}
            shown = f"{offset + 1} to {offset + count}" if offset else f"{count}"
            total = len(whole[paging.items]) + (offset if paging.skips else 0)
            said.append(f"{shown} of {total} are shown; go on with {paging.by}={following!s}.")
    if size(fields) > max_bytes:
        fields, note = _shorter(fields, max_bytes, sought)
        said.append(note)
    return Fitted(fields, " ".join(said))


def size(fields: Any) -> int:
    """Bytes of it as JSON."""
    return len(orjson.dumps(fields))


def _shorter(fields: dict[str, Any], max_bytes: int, sought: Sequence[str]) -> tuple[dict[str, Any], str]:
    """With long texts cut all to one length, and where that is not enough with the ends of long lists left off."""
    long = {text for text in _texts(fields) if len(text) > LEAST_CHARS}
    places = {text: _place(text, sought) for text in long}
    longest = max(map(len, long), default=0)
    limit = _most(longest, lambda chars: size(_cut(fields, max(chars, LEAST_CHARS), places)) <= max_bytes)
    fields = _cut(fields, max(limit, LEAST_CHARS), places)
    left_off = 0
    while size(fields) > max_bytes:
        lists = _lists(fields)
        # The only item of a list is shortened inside before it goes: a change of 700 memories is still a change.
        place = max([found for found in lists if len(found) > 1] or lists, key=size, default=None)
        if not place:
            break
        keep = len(place) // 2
        left_off += len(place) - keep
        del place[keep:]
    note = "Long texts are cut." if longest > LEAST_CHARS else ""
    if left_off:
        note += f" {counted(left_off, 'item')} left out at the end of long lists."
    return fields, note.strip()


def _cut(value: Any, chars: int, places: Mapping[str, int]) -> Any:
    """A copy of it with only so many `chars` of every longer text, around its place, and how many are left out."""
    if isinstance(value, str):
        over = len(value) - chars
        if over <= 0:
            return value
        if value.startswith(HEAD):
            # Not its tags: what would follow stood in the block.
            return marked(_cut(value[len(HEAD) : -len(FOOT)], chars - FRAME_CHARS, {}))
        # A third of it stands before the place; what is longer holds what is shorter, so that its size grows.
        start = max(0, min(places.get(value, 0) - chars // 3, over))
        return f"{'…' * (start > 0)}{value[start : start + chars]}… ({over:,} more characters)"
    if isinstance(value, list):
        return [_cut(inner, chars, places) for inner in value]
    return {name: _cut(inner, chars, places) for name, inner in value.items()} if isinstance(value, dict) else value


def _place(text: str, sought: Sequence[str]) -> int:
    """Where the first of the words that it holds stands in it, in any case; 0 where it holds none."""
    lowered = text.lower()
    return next((place for word in sought if (place := lowered.find(word.lower())) >= 0), 0)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _texts(each)]


def _lists(value: Any) -> list[Any]:
    """Every list in it that is not empty."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    here = [value] if isinstance(value, list) and value else []
    return here + [found for each in inner for found in _lists(each)]


def _most(highest: int, fits: Callable[[int], bool]) -> int:
    """The greatest number from 0 to `highest` that fits, 0 where none does; what is below one that fits, fits."""
    return max(0, bisect_right(range(highest + 1), False, key=lambda number: not fits(number)) - 1)
