"""The records: entries, what is looked for among them, and what was done to them. Pure.

Times are milliseconds since 1970, UTC. docs/reference/knowledge-store.md says which toolset uses which field.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, fields, replace
from typing import Any, Literal, NamedTuple

import orjson

from languages import N_, _
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Scope
from memory_server.kernel.json_text import DEEPEST, deeper, size, without_surrogates
from memory_server.kernel.messages import MAX_CONTENT_CHARS, MAX_NAME_CHARS, NOTHING
from memory_server.kernel.values import JsonObject, frozen

Reason = Literal["deleted", "expired", "over_limit", "merged", "undone"]
Order = Literal["newest", "made", "oldest", "best", "title", "removed"]
"""`newest` is last changed first; `made` is last stored first; `best` is by confidence, then uses, then time; `removed`
is last archived first."""
MAX_KEY_CHARS = MAX_NAME_CHARS
"""Characters of a topic or key: it is a title."""
MAX_SUMMARY_CHARS = 20_000
"""Characters of the summary of a ref, which is its title; the setting `refs.summary_chars` has the same bound."""
MAX_BODY_CHARS = MAX_CONTENT_CHARS
"""Characters of a note, as of a message. Refs have their own limits."""
MAX_TAGS = 50
MAX_TAG_CHARS = 100
MAX_EXAMPLES = 50
MAX_METADATA_CHARS = 16_384


@frozen
class Entry:
    """One piece of knowledge. `id` 0: not stored yet. `key`: unique among the live entries of its kind and project."""

    body: str
    id: int = 0
    ref: str = ""
    kind: str = ""
    project: str = ""
    agent_id: str | None = None
    run_id: str | None = None
    key: str | None = None
    title: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=lambda: NOTHING)
    source: str | None = None
    origin: Literal["stated", "inferred"] = "stated"
    confidence: float = 1.0
    importance: float | None = None
    uses: int = 0
    accessed_ms: int | None = None
    created_ms: int = 0
    updated_ms: int = 0
    expires_ms: int | None = None
    version: int = 0
    """Counts the commits that changed it; the store sets it."""
    archived_ms: int | None = None
    reason: Reason | None = None


FIELDS = tuple(entry_field.name for entry_field in fields(Entry))
LISTS = ("tags", "examples")
_PORTABLE = tuple(name for name in FIELDS if name not in ("id", "version", "archived_ms", "reason"))
_TYPES: dict[str, tuple[type, ...]] = {
    "metadata": (dict,),
    "confidence": (int, float),
    "importance": (int, float),
    "uses": (int,),
    "accessed_ms": (int,),
    "created_ms": (int,),
    "updated_ms": (int,),
    "expires_ms": (int,),
    "archived_ms": (int,),
    "id": (int,),
    "version": (int,),
}
"""The types of the fields that are neither texts nor lists of texts."""


def json_of(entry: Entry, names: Collection[str] = FIELDS) -> dict[str, Any]:
    """Return the fields of an entry as JSON values; `changed_by_json` is the inverse."""
    values = {name: getattr(entry, name) for name in names}
    for name in LISTS:
        if name in values:
            values[name] = list(values[name])
    if "metadata" in values:
        values["metadata"] = dict(values["metadata"])
    return values


def wrong_field(values: JsonObject) -> str | None:
    """Return the first field whose JSON value has a wrong type, or None if all types are right."""
    return next((name for name in values if not _has_type_of(name, values[name])), None)


def usable_fields(values: Any) -> dict[str, Any]:
    """Return the fields of an entry that a JSON object has with values of the right types."""
    if not isinstance(values, dict):
        return {}
    return {
        name: values[name] for name in FIELDS if name in values and _has_type_of(name, values[name])
    }


def changed_by_json(entry: Entry, values: JsonObject) -> Entry:
    """Return `entry` with the fields that `values`, which `json_of` or `difference` made, name."""
    lists = {name: tuple(values[name]) for name in LISTS if name in values}
    return replace(entry, **{**values, **lists})


def entry_of(values: JsonObject) -> Entry:
    """Read an entry back from its `difference` to an empty entry; it has no id and is not archived. Raise InvalidInput
    if a value has the wrong type."""
    portable = {name: values[name] for name in _PORTABLE if name in values}
    for name, value in portable.items():
        if not _has_type_of(name, value):
            raise InvalidInput("its `{name}` is of the wrong kind", name)
    return changed_by_json(_EMPTY, portable)


_EMPTY = Entry("")


def _has_type_of(name: str, value: Any) -> bool:
    """Return whether a value of JSON can be the field of this name."""
    if value is None:
        return getattr(_EMPTY, name) is None
    if name in LISTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, _TYPES.get(name, (str,))) and not isinstance(value, bool)


def difference(before: Entry, after: Entry) -> dict[str, Any]:
    """Return the fields of `before`, as JSON, whose values differ in `after`; without id and version."""
    changed = [name for name in FIELDS if getattr(before, name) != getattr(after, name)]
    return json_of(before, [name for name in changed if name not in ("id", "version")])


def archived(entry: Entry, reason: Reason, now_ms: int) -> Entry:
    """Return `entry` in the archive: no search finds it, and its key is free."""
    return replace(entry, archived_ms=now_ms, reason=reason)


def live(entry: Entry) -> Entry:
    """Return `entry` out of the archive."""
    return replace(entry, archived_ms=None, reason=None)


class Archive(NamedTuple):
    """The entry of this id goes into the archive, without being read."""

    id: int
    reason: Reason
    at_ms: int


class Purge(NamedTuple):
    """The entry of this id is removed for good, with its texts in the history."""

    id: int


Change = Entry | Archive | Purge
"""A change. An entry with id 0 is stored as a new entry, any other over the entry with its id."""


@frozen
class Filter:
    """The conditions for entries; an entry must meet all of them. `tags`: the entry has at least one of them, in any
    case. `text`: the entry holds it literally, in any case of ASCII letters."""

    kinds: tuple[str, ...] = ()
    projects: tuple[str, ...] | None = None
    tags: tuple[str, ...] = ()
    agent_id: str | None = None
    run_id: str | None = None
    archived: bool | None = False
    unexpired_at_ms: int | None = None
    expired_by_ms: int | None = None
    archived_by_ms: int | None = None
    reasons: tuple[Reason, ...] = ()
    ref_prefix: str = ""
    text: str = ""


LIVE = Filter()
EVERYTHING = Filter(archived=None)


@frozen
class Query:
    """A search by words. Hits with less than `least_share` of the best score are left off and counted. `other_words`:
    texts for the same, which the caller gives and which count less (ranking.py)."""

    text: str
    where: Filter = Filter()
    limit: int = 10
    least_share: float = 0.0
    other_words: tuple[str, ...] = ()


@frozen
class Hit:
    """An entry that a search brings. `relevance`: its share of the best score, or 1 where it holds the text as it is.
    `matched`: the terms of the query that each of `title`, `tags` and `body` holds, in the order of the query. `score`
    and `why`, in words for a reader, are set by the toolset (ranking.py). `other_matched`: the same of the other words.
    `by_other_words`: the query alone does not find it."""

    entry: Entry
    relevance: float
    matched: Mapping[str, tuple[str, ...]]
    scope: Scope
    score: float = 0.0
    why: str = ""
    other_matched: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NOTHING)
    by_other_words: bool = False


@frozen
class Hits:
    """Hits, best first. `left_off`: how many more matched, by reason: `weaker`, `other project`, `expired`."""

    hits: tuple[Hit, ...] = ()
    total: int = 0
    left_off: Mapping[str, int] = field(default_factory=lambda: NOTHING)


class Share(NamedTuple):
    """Which terms of a query (`nlp.index_terms.sought_in`, then `other_terms`) an entry holds in each field: bit n is
    the term n."""

    id: int
    created_ms: int
    importance: float | None
    title: int = 0
    tags: int = 0
    body: int = 0


OPERATIONS = N_(
    (
        "add",
        "save",
        "update",
        "delete",
        "restore",
        "merge",
        "cleanup",
        "undo",
        "overwrite",
        "promote",
        "clear",
        "reindex",
        "remember",
        "keep",
        "forget",
        "assign",
    )
)
"""The words of `Operation.op`."""
REASONS = N_(("deleted", "expired", "over_limit", "merged", "undone"))
"""The words of `Reason`."""


@frozen
class Operation:
    """Something that was done. `by`: the tool or command; `caller`: who asked, as JSON; `seq` is the store's number."""

    op: str
    by: str = "api"
    at_ms: int = 0
    caller: JsonObject = field(default_factory=lambda: NOTHING)
    entries: tuple[int, ...] = ()
    error: str | None = None
    took_ms: float | None = None
    detail: JsonObject = field(default_factory=lambda: NOTHING)
    seq: int = 0


class Former(NamedTuple):
    """What one operation did to one entry. `before`: the fields as they were; It is None for a new entry, and {} if the
    former fields are no longer known."""

    entry_id: int
    before: JsonObject | None
    after_version: int


@frozen
class Figures:
    """Counts of a scope: live entries and archived ones, characters of the live ones, and the times of the oldest and
    newest of them."""

    count: int
    archived: int
    characters: int
    oldest_ms: int | None
    newest_ms: int | None


def change_id(seq: int) -> str:
    """Return the name of an operation for people and tools, such as `k42`."""
    return f"k{seq}"


def is_change_id(text: str) -> bool:
    """Return whether a text has the form of a change id of knowledge."""
    digits = text[1:]
    return text[:1] == "k" and digits.isascii() and digits.isdecimal() and len(digits) <= 15


def seq_of(text: str) -> int:
    """Return the number in a change id.

    Raises:
        InvalidInput: the text is not a change id.
    """
    if not is_change_id(text):
        raise InvalidInput(
            "`{text}` is not a change of knowledge; give a changeId such as k42 that a tool returned.",
            text,
        )
    return int(text[1:])


def most_title_chars(place: str) -> int:
    """Return the limit of characters for the title of an entry in this place. The title of a ref is its summary."""
    if place.partition("/")[0] == "refs":
        return MAX_SUMMARY_CHARS
    return MAX_KEY_CHARS


def usable(entry: Entry, place: str = "", *, most_chars: int = MAX_BODY_CHARS) -> Entry:
    """Return `entry` as it will be read back from this place: without lone surrogates and blank tags.

    Raises:
        InvalidInput: a text is empty where one is needed, or something is too long.
    """
    tags = [without_surrogates(tag).strip() for tag in entry.tags]
    entry = replace(
        entry,
        title=without_surrogates(entry.title).strip(),
        body=without_surrogates(entry.body),
        tags=tuple(dict.fromkeys(filter(None, tags))),
        examples=tuple(
            without_surrogates(example) for example in entry.examples if example.strip()
        ),
        source=None if entry.source is None else without_surrogates(entry.source),
    )

    for length in _lengths(entry, place, most_chars):
        if length.number > length.most:
            raise InvalidInput(
                "The {what} is too long: {number:,}, and at most {most:,} {unit} are kept; shorten it.",
                length.part,
                length.number,
                length.most,
                length.unit,
            )

    _check_metadata(dict(entry.metadata))
    if not entry.body.strip():
        raise InvalidInput("The content is empty; write what should be kept.")
    return entry


class _Length(NamedTuple):
    """How long a part of an entry is, and how long it may be."""

    part: str
    number: int
    most: int
    unit: str


def _lengths(entry: Entry, place: str, most_chars: int) -> list[_Length]:
    """Return how long each part of an entry is, and how long it may be in `place`. `most_chars`:
    the most characters of the content with its examples."""
    content_chars = len(entry.body) + sum(map(len, entry.examples))
    longest_tag = max(map(len, entry.tags), default=0)
    return [
        _Length("title", len(entry.title), most_title_chars(place), "characters"),
        _Length("content", content_chars, most_chars, _("characters, with its examples")),
        _Length(_("list of tags"), len(entry.tags), MAX_TAGS, "tags"),
        _Length(_("longest tag"), longest_tag, MAX_TAG_CHARS, "characters"),
        _Length(_("list of examples"), len(entry.examples), MAX_EXAMPLES, "examples"),
        _Length("source", len(entry.source or ""), MAX_KEY_CHARS, "characters"),
        _Length("metadata", size(dict(entry.metadata)), MAX_METADATA_CHARS, "characters"),
    ]


def _check_metadata(metadata: dict[str, Any]) -> None:
    """Raise InvalidInput if the metadata is nested too deep or cannot be stored as JSON."""
    if deeper(metadata):
        raise InvalidInput(
            "The metadata may be nested {deepest} levels deep; remove levels.", DEEPEST
        )
    try:
        orjson.dumps(metadata)
    except TypeError as error:  # such as an integer of more than 64 bits, or a lone surrogate
        raise InvalidInput(
            "The metadata cannot be stored as JSON ({reason}); write that value as text.", error
        ) from error
