"""Fitting a result into a number of bytes, in the same way for every tool: first a page of its list, then shorter
texts, then shorter lists.

A client gives a result to its model unchanged, so an unlimited result would fill the context of the model. (Claude Code
refuses more than 25,000 tokens; a Chinese character of three bytes is about one token.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from memory_server.kernel.recalled_block import FOOT, FRAME_CHARS, HEADS, language_of_block, marked
from sandbox.locale import _, counted, joined

LEAST_CHARS = 256
"""Texts up to this length, such as ids and names, are never cut."""


@dataclass(frozen=True, slots=True)
class Paging:
    """How the list `items` of a result continues: with the argument `by`, whose value `following` makes from the last
    shown item and its number. If the argument is `offset`, `truncated` skips the items, unless the tool `skips`
    itself."""

    items: str
    by: str = "offset"
    following: Callable[[Any, int], Any] = lambda _, number: number
    skips: bool = False


def truncated(
    fields: dict[str, Any],
    max_bytes: int,
    paging: Paging | None = None,
    offset: int = 0,
    query_words: Sequence[str] = (),
) -> tuple[dict[str, Any], str]:
    """`fields`, shortened to `max_bytes` of JSON if they are longer, then with `truncated`; and a sentence about what
    was left out, if anything was. `offset`: items to skip at the beginning of the list of `paging`. `query_words`: the
    words of the search, the heaviest first; a long text is cut around them, and one without them keeps its
    beginning."""
    whole = fields
    if paging is not None and offset and not paging.skips:
        fields = fields | {paging.items: fields[paging.items][offset:]}
    if size(fields) <= max_bytes:
        return fields, ""
    fields = fields | {"truncated": True}
    said = []
    if paging is not None:
        items = fields[paging.items]
        count = max(1, _most(len(items), lambda n: size(fields | {paging.items: items[:n]}) <= max_bytes - 64))
        if count < len(items):
            following = paging.following(items[count - 1], offset + count)
            fields |= {paging.items: items[:count], "next": following}
            shown = _("{before} to {after}", offset + 1, offset + count) if offset else f"{count}"
            total = len(whole[paging.items]) + (offset if paging.skips else 0)
            said.append(
                _("{shown} of {total} are shown; go on with {by}={following!s}.", shown, total, paging.by, following)
            )
    if size(fields) > max_bytes:
        fields, note = _shorter(fields, max_bytes, query_words)
        said.append(note)
    return fields, joined(" ", said)


def size(fields: Any) -> int:
    return len(orjson.dumps(fields))


def _shorter(fields: dict[str, Any], max_bytes: int, query_words: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Cut all long texts to one length, and if that is not enough, leave out the ends of long lists."""
    long = {text for text in _within(fields) if isinstance(text, str) and len(text) > LEAST_CHARS}
    places = {text: _place(text, query_words) for text in long}
    longest = max(map(len, long), default=0)
    limit = _most(longest, lambda chars: size(_cut(fields, max(chars, LEAST_CHARS), places)) <= max_bytes)
    fields = _cut(fields, max(limit, LEAST_CHARS), places)
    left_off = 0
    while size(fields) > max_bytes:
        lists = [found for found in _within(fields) if isinstance(found, list) and found]
        # The only item of a list is shortened inside before it is left out: a change of 700 memories is still a change.
        place = max([found for found in lists if len(found) > 1] or lists, key=size, default=None)
        if not place:
            break
        keep = len(place) // 2
        left_off += len(place) - keep
        del place[keep:]
    cut = _("Long texts are cut.") if longest > LEAST_CHARS else ""
    off = _("{items} left out at the end of long lists.", counted(left_off, "item")) if left_off else ""
    return fields, joined(" ", filter(None, (cut, off)))


def _cut(value: Any, chars: int, places: Mapping[str, int]) -> Any:
    """A copy of `value` with only `chars` characters of every longer text, around its place, and how many are cut."""
    if isinstance(value, str):
        over = len(value) - chars
        if over <= 0:
            return value
        language = language_of_block(value)
        if language is not None:
            # Its tags stay: without them the rest would no longer be marked.
            lines = value[len(HEADS[language]) : -len(FOOT)]
            return marked(_cut(lines, chars - FRAME_CHARS, {}), language)
        # A third of the characters is before the place; so a longer cut contains a shorter one, and the size grows.
        start = max(0, min(places.get(value, 0) - chars // 3, over))
        return _("{start}{value}… ({over:,} more characters)", "…" * (start > 0), value[start : start + chars], over)
    if isinstance(value, list):
        return [_cut(inner, chars, places) for inner in value]
    return {name: _cut(inner, chars, places) for name, inner in value.items()} if isinstance(value, dict) else value


def _place(text: str, query_words: Sequence[str]) -> int:
    """The place of the first of the words that `text` holds, in upper or lower case; 0 if it holds none."""
    lowered = text.lower()
    return next((place for word in query_words if (place := lowered.find(word.lower())) >= 0), 0)


def _within(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _within(inner)


def _most(highest: int, fits: Callable[[int], bool]) -> int:
    """The greatest number from 0 to `highest` that fits, or 0. If a number fits, all smaller ones must fit too."""
    return max(0, bisect_right(range(highest + 1), False, key=lambda number: not fits(number)) - 1)
