"""What results are made of: their fields, where the values come from, and parts of their texts."""

from __future__ import annotations

import shlex
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from functools import cache, partial
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.alias_generators import to_snake
from pydantic_core import CoreSchema

from languages import _, counted
from memory_server.kernel.recalled_block import FOOT, FRAME_CHARS, HEADS, language_of_block, marked
from memory_server.kernel.times import local, milliseconds
from memory_server.kernel.values import frozen

T = TypeVar("T")


@frozen
class From:
    """The place where `Result.of` finds the value of a field: the attribute `path`, such as `memory.id`, by default the
    field's name in snake_case. `form` makes the value of it, unless it is None. `words` describe the field to clients.
    """

    path: str = ""
    form: Callable[[Any], Any] | None = None
    words: str | None = None

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core)
        if self.words:
            schema |= {"description": self.words}
        return schema


class Result(BaseModel):
    """Base of all results. `None` fields are left out on the wire; `str()` of it is the text for people."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    whole_field: ClassVar[str | None] = None
    """The field whose text is never cut, because the caller said how long it may be."""

    def fields(self) -> dict[str, Any]:
        """Return the fields as JSON has them, without fields that are `None`."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def of(cls, source: object, **values: Any) -> Self:
        """Make a result with the fields `values`. All others are attributes of `source`, where `From` says: a field
        that the source lacks must be among `values`, also if it has a default."""
        for field in _sources(cls):
            if field.name in values:
                continue
            value = field.attribute(source)
            if value is not None and field.form is not None:
                value = field.form(value)
            values[field.name] = value
        return cls(**values)

    @classmethod
    def each(cls, sources: Iterable[object]) -> list[Self]:
        return [cls.of(source) for source in sources]

    def query_words(self) -> Sequence[str]:
        """Return the words of the search, the heaviest first: a text that is too long is cut around them."""
        return ()


@frozen
class _FieldSource:
    """How `Result.of` finds the value of a field."""

    name: str
    attribute: Callable[[object], Any]
    form: Callable[[Any], Any] | None


@cache
def _sources(result: type[Result]) -> list[_FieldSource]:
    """Return, for each field of a kind of result, the attribute that it is read from: the one that `From` names, or
    the one with its name in snake case."""
    sources: list[_FieldSource] = []
    for name, field in result.model_fields.items():
        rules = [rule for rule in field.metadata if isinstance(rule, From)]
        rule = rules[0] if rules else From()
        path = rule.path or to_snake(name)
        sources.append(_FieldSource(name, attrgetter(path), rule.form))
    return sources


ChangeId = Annotated[
    str | None,
    Field(description="Names this change for undo_change; left out where nothing changed"),
]
hundredths = partial(round, ndigits=2)


def or_none(value: T) -> T | None:
    """Return the value, or None if it is empty: the field is left out."""
    return value or None


SHOWN_ZONE: ContextVar[tzinfo | None] = ContextVar("SHOWN_ZONE", default=UTC)
"""The zone of times in texts for people (None: the system's): UTC for clients, which may be elsewhere; a shell sets its
own."""


def when(moment: str) -> str:
    """Return a time of a result, to the minute, for a text: `2026-05-03 12:00 UTC`, or without a zone if it is local."""
    zone = SHOWN_ZONE.get()
    time_ms = milliseconds(datetime.fromisoformat(moment))
    text = f"{local(time_ms, zone):%Y-%m-%d %H:%M}"
    if zone is UTC:
        text += " UTC"
    return text


def listed(rows: Iterable[object], end: str, between: str = "\n") -> str:
    """Return the text of each row, and at the end a sentence about all of them."""
    return between.join([*map(str, rows), end])


def sentences(*texts: str | None) -> str:
    """Return these sentences one after the other, without those that are empty."""
    return " ".join(filter(None, texts))


def shell_command(conversation_id: str, *words: str) -> str:
    """Return a command of memory-server for this conversation, as a user types it."""
    return shlex.join(["memory-server", "--conversation", conversation_id, *words])


def undo_hint(change_id: str | None) -> str:
    """Return the change id for a result text; empty if nothing was changed."""
    if not change_id:
        return ""
    return _(" Change {change}.", change_id)


LEAST_CHARS = 256
"""Texts up to this length, such as ids and names, are never cut."""


def _number_itself(_last_item: Any, number: int) -> int:
    return number


@frozen
class Pagination:
    """How the list `items` of a result continues: with the argument `by`, whose value `following` makes from the last
    shown item and its number. If the argument is `offset`, `truncated` skips the items, unless the tool `skips`
    itself."""

    items: str
    by: str = "offset"
    following: Callable[[Any, int], Any] = _number_itself
    skips: bool = False


def truncated(
    fields: dict[str, Any],
    max_bytes: int,
    paging: Pagination | None = None,
    *,
    offset: int = 0,
    query_words: Sequence[str] = (),
    whole: str | None = None,
) -> tuple[dict[str, Any], str]:
    """Return `fields`, shortened to `max_bytes` of JSON if they are longer, then with `truncated`; and a sentence about
    what was left out, if anything was. `offset` is the number of items to skip at the beginning of the list of
    `paging`. `query_words` are the words of the search, the heaviest first; a long text is cut around them, and a text
    without them keeps its beginning. `whole` is a field that is never cut, because its caller said how long it may be;
    all other fields share the rest, and at least a quarter."""
    if whole is None or not fields.get(whole):
        return _truncated(fields, max_bytes, paging=paging, offset=offset, query_words=query_words)
    whole_text = fields[whole]
    remaining_bytes = max(max_bytes - size(whole_text), max_bytes // 4)
    other_fields = {**fields, whole: ""}
    shorter, note = _truncated(
        other_fields, remaining_bytes, paging=paging, offset=offset, query_words=query_words
    )
    if not note:
        return fields, ""
    return {**shorter, whole: whole_text}, note


def _truncated(
    fields: dict[str, Any],
    max_bytes: int,
    *,
    paging: Pagination | None,
    offset: int,
    query_words: Sequence[str],
) -> tuple[dict[str, Any], str]:
    """Return `fields` cut to `max_bytes` of JSON, and a sentence on what is missing, or '' if all
    fits. First the list of `paging`, from `offset` on, loses its last items; then long texts and
    lists are cut."""
    all_fields = fields

    if paging is not None and offset and not paging.skips:
        fields = fields | {paging.items: fields[paging.items][offset:]}
    if size(fields) <= max_bytes:
        return fields, ""

    fields = fields | {"truncated": True}
    notes: list[str] = []
    if paging is not None:
        items = fields[paging.items]
        count = _page_length(fields, paging.items, max_bytes)
        if count < len(items):
            following = paging.following(items[count - 1], offset + count)
            fields |= {paging.items: items[:count], "next": following}
            shown = f"{count}"
            if offset:
                shown = _("{before} to {after}", offset + 1, offset + count)
            total = len(all_fields[paging.items])
            # A tool that skips by itself has only the rest in its list.
            if paging.skips:
                total += offset
            notes.append(
                _(
                    "{shown} of {total} are shown; go on with {by}={following!s}.",
                    shown,
                    total,
                    paging.by,
                    following,
                )
            )

    # A single item may be longer than the whole page.
    if size(fields) > max_bytes:
        fields, note = _shorter(fields, max_bytes, query_words)
        notes.append(note)

    return fields, " ".join(notes)


_BYTES_OF_NEXT = 64
"""Bytes that a page leaves free for the field `next`."""


def _page_length(fields: dict[str, Any], name: str, max_bytes: int) -> int:
    """Return how many items of the list `name` fit into `max_bytes` with all other fields; at least one."""
    items = fields[name]

    def fits(count: int) -> bool:
        return size(fields | {name: items[:count]}) <= max_bytes - _BYTES_OF_NEXT

    return max(1, _most(len(items), fits))


def size(fields: Any) -> int:
    """Return the bytes of the JSON of `fields`."""
    return len(orjson.dumps(fields))


def _shorter(
    fields: dict[str, Any], max_bytes: int, query_words: Sequence[str]
) -> tuple[dict[str, Any], str]:
    """Cut all long texts to the same length, and if that is not enough, leave out the ends of long lists. Return the
    fields, and sentences on what was cut or left out."""
    long_texts = {
        text for text in _within(fields) if isinstance(text, str) and len(text) > LEAST_CHARS
    }
    centers = {text: _first_match(text, query_words) for text in long_texts}

    def cut_to(chars: int) -> dict[str, Any]:
        cut_fields: dict[str, Any] = _cut(fields, max(chars, LEAST_CHARS), centers)
        return cut_fields

    def fits(chars: int) -> bool:
        return size(cut_to(chars)) <= max_bytes

    longest = max(map(len, long_texts), default=0)
    shorter = cut_to(_most(longest, fits))
    # Cut texts may still be too many: long lists lose their ends.
    left_off = 0
    while size(shorter) > max_bytes:
        items = _list_to_shorten(shorter)
        if items is None:
            break
        remaining = len(items) // 2
        left_off += len(items) - remaining
        del items[remaining:]

    notes: list[str] = []
    if longest > LEAST_CHARS:
        notes.append(_("Long texts are cut."))
    if left_off:
        notes.append(_("{items} left out at the end of long lists.", counted(left_off, "item")))
    return shorter, " ".join(notes)


def _list_to_shorten(fields: dict[str, Any]) -> list[Any] | None:
    """Return the largest list, or None without any. A list of several items comes before a list with a single item,
    which is shortened inside before it is left out: a change of 700 memories is still a change."""
    lists = [value for value in _within(fields) if isinstance(value, list) and value]
    long_lists = [items for items in lists if len(items) > 1]
    return max(long_lists or lists, key=size, default=None)


def _cut(value: Any, chars: int, centers: Mapping[str, int]) -> Any:
    """Return a copy of `value` with only `chars` characters of every longer text, around its center, and how many are
    cut."""
    if isinstance(value, str):
        return _cut_text(value, chars, centers)
    if isinstance(value, list):
        return [_cut(inner, chars, centers) for inner in value]
    if isinstance(value, dict):
        return {name: _cut(inner, chars, centers) for name, inner in value.items()}
    return value


def _cut_text(value: str, chars: int, centers: Mapping[str, int]) -> str:
    """Cut a text to some `chars` characters around its center in `centers`, or from its beginning,
    and say how many are missing. A marked block keeps its tags. A text that is not longer stays as
    it is."""
    over = len(value) - chars
    if over <= 0:
        return value
    language = language_of_block(value)
    if language is not None:
        # Its tags stay: without them the rest would no longer be marked.
        lines = value[len(HEADS[language]) : -len(FOOT)]
        return marked(_cut_text(lines, chars - FRAME_CHARS, {}), language)
    # A third of the characters is before the center; so a longer cut contains a shorter one, and the size grows.
    start = max(0, min(centers.get(value, 0) - chars // 3, over))
    return _(
        "{start}{value}… ({over:,} more characters)",
        "…" * (start > 0),
        value[start : start + chars],
        over,
    )


def _first_match(text: str, query_words: Sequence[str]) -> int:
    """Return where the first of the words that `text` holds begins, in upper or lower case; 0 if it holds none."""
    lowered = text.lower()
    for word in query_words:
        start = lowered.find(word.lower())
        if start >= 0:
            return start
    return 0


def _within(value: Any) -> Iterator[Any]:
    """Yield a value, and all values in it."""
    yield value
    members: Iterable[Any] = ()
    if isinstance(value, dict):
        members = value.values()
    elif isinstance(value, list):
        members = value
    for member in members:
        yield from _within(member)


def _most(highest: int, fits: Callable[[int], bool]) -> int:
    """Return the greatest number from 0 to `highest` that fits, or 0. If a number fits, all smaller numbers must fit
    too."""

    def does_not_fit(number: int) -> bool:
        return not fits(number)

    first_too_great = bisect_right(range(highest + 1), False, key=does_not_fit)
    return max(0, first_too_great - 1)
