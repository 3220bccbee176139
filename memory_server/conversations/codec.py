"""Memories to and from JSON. Only this module and change_forms.py know the names of fields on disk.

The record forms come from the Node original, so that each program can open the other's folder: arrays of objects in
`short-term-memory.json` and `long-term-memory.json`, times as ISO 8601 in UTC with milliseconds. Reading accepts
`time_stamp` and `timeStamp`, numbers for times and missing ids, and keeps unknown fields. Knows no file and no lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, TypeVar

from languages import Sentence
from memory_server.conversations.model import (
    MOST_CORRECTED,
    MOST_MUTED,
    MOST_WORD_TRIES,
    Correction,
    RecordKind,
    ShortTermMemory,
    UnusableRecord,
    excess,
)
from memory_server.kernel import times
from memory_server.kernel.json_text import (
    DEEPEST,
    TOO_DEEP,
    Json,
    NotARecord,
    deeper,
    dumps,
    milliseconds,
)
from memory_server.kernel.messages import NOTHING, ROLES, Message, Role
from memory_server.kernel.times import FIRST_MS, LAST_MS
from memory_server.kernel.work import taken_work, work_json
from memory_server.lore import (
    LongTermMemory,
    book_json,
    keys_json,
    rules_json,
    taken_book,
    taken_keys,
    taken_rules,
)
from nlp import MOST_TEXT_CHARS, MOST_TEXTS, bare, is_kept, kept
from sandbox import WRONG_VALUES

M = TypeVar("M", ShortTermMemory, LongTermMemory)
_TIME_KEYS = ("timestamp", "time_stamp", "timeStamp")
_USUAL_FIELDS = frozenset(
    ("id", "text", "keywords", "score", "conversation_id", "messages", *_TIME_KEYS)
)
_USUAL_MESSAGE_FIELDS = {"role", "content", "timestamp"}
_WORD = itemgetter("word")
_WEIGHT = itemgetter("weight")
_FLOATS = {float}
_ROLE: dict[str, Role] = {role: role for role in ROLES}
"""One string for each role: a parsed one takes 60 bytes in each message."""

# --- messages ----------------------------------------------------------------------------------------------


def _unshared(text: str) -> str:
    """Copy a text for orjson. orjson keeps the UTF-8 of a text that is not ASCII inside the string for as long as the
    string lives, which would add half to the size of each memory."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")


def message_json(message: Message) -> Json:
    """Write a message as JSON, its timestamp in milliseconds as clients send it."""
    record: Json = {"role": message.role, "content": _unshared(message.content)}
    if message.time_ms is not None:
        record["timestamp"] = message.time_ms
    if message.name is not None:
        record["name"] = message.name
    return record | dict(message.extra)


def _message(record: Any) -> Message:
    """Return the message in a record. A value of a wrong type is replaced by one that can be used,
    and kept in `extra` as it came. Raises NotARecord if the record is not an object."""
    if not isinstance(record, dict):
        raise NotARecord("a message is not an object")
    if record.keys() <= _USUAL_MESSAGE_FIELDS:
        # The usual case, and 10,000 memories have many messages.
        role = record.get("role")
        content = record.get("content")
        timestamp = record.get("timestamp")
        is_time = timestamp is None or (type(timestamp) is int and FIRST_MS <= timestamp <= LAST_MS)
        if role in ROLES and isinstance(content, str) and is_time:
            return Message(_ROLE[role], content, timestamp)

    rest = dict(record)
    role = rest.pop("role", "user")
    content = rest.pop("content", "")
    timestamp = rest.pop("timestamp", None)
    name = rest.pop("name", None)
    # A value that is read as a different value is written back as it came: `extra` wins in message_json.
    if role not in ROLES:
        rest["role"] = role
        role = "system"
    if not isinstance(content, str):
        rest["content"] = content
        content = dumps(content).decode()
    if name is not None and not isinstance(name, str):
        rest["name"] = name
        name = None

    time_ms = None
    if timestamp is not None:
        with contextlib.suppress(NotARecord):
            time_ms = milliseconds(timestamp)
        if time_ms != timestamp:
            rest["timestamp"] = timestamp
    return Message(
        role=_ROLE[role], content=content, time_ms=time_ms, name=name, extra=_extra(rest)
    )


def _extra(rest: Json) -> Mapping[str, Any]:
    """Return the unknown fields of a record, which are written back unchanged. Raises NotARecord if they are nested
    too deeply."""
    if not rest:
        return NOTHING
    if deeper(rest):
        raise NotARecord(TOO_DEEP, DEEPEST)
    return rest


# --- short-term memories -----------------------------------------------------------------------------------


def short_term_json(memory: ShortTermMemory) -> Json:
    """Write a short-term memory as JSON (docs/reference/data-folder.md)."""
    record: Json = {
        "id": memory.id,
        "timestamp": times.iso(memory.time_ms),
        "text": _unshared(memory.text),
        "keywords": _keywords_json(memory),
        "score": memory.score,
        "conversation_id": memory.conversation_id,
        "messages": [message_json(message) for message in memory.messages],
    }

    # Empty values are left out: most memories have none of these fields.
    optional: Json = {
        "pinned": memory.pinned,
        "indexedWith": memory.indexed_with,
        "roleWeights": dict(memory.role_weights),
        "session": memory.session,
        "folder": memory.folder,
        "turn": memory.turn,
        "muted": list(memory.muted),
        "wordTries": memory.word_tries,
        "corrects": [{"id": older.id, "by": older.by} for older in memory.corrects],
        **work_json(memory.work),
    }
    if memory.other_words:
        optional["otherWords"] = list(memory.other_words)
        optional["otherKeywords"] = _other_keywords_json(memory)
    record |= {name: value for name, value in optional.items() if value}
    # What could not be read stays as it came, until this program has something to say in its place.
    record |= {name: value for name, value in memory.extra.items() if not optional.get(name)}
    return record


def short_term(record: Json, conversation_id: str = "") -> ShortTermMemory:
    """Read a short-term memory from its JSON form. `conversation_id` is for a record that does not name its own.
    Raises NotARecord if it has no time or a part has the wrong type, and NotARecord or RecursionError if it is nested
    too deeply."""
    time = _time_of(record)
    if time is None:
        raise NotARecord("it has no timestamp")
    words, weights = _keywords(record.get("keywords") or [])
    messages = record.get("messages") or []
    if not isinstance(messages, list):
        raise NotARecord("its messages are not a list")

    # Most memories have no further field but one, and a conversation has thousands of them.
    rest = {name: value for name, value in record.items() if name not in _USUAL_FIELDS}
    indexed_with = _taken_text(rest, "indexedWith") or ""
    further: Json = {}
    if rest:
        further = _taken_fields(rest)
        kept_words, kept_weights = further.pop("other_keywords")
        words += kept_words
        weights += kept_weights

    # Ids that many memories share are interned, so that each is in the process once.
    return ShortTermMemory(
        id=_text(record.get("id")),
        time_ms=milliseconds(time),
        text=_text(record.get("text")),
        words=words,
        weights=weights,
        score=_number(record.get("score")) or 0.0,
        conversation_id=sys.intern(_text(record.get("conversation_id")) or conversation_id),
        messages=tuple(map(_message, messages)),
        indexed_with=sys.intern(indexed_with),
        extra=_extra(rest),
        **further,
    )


def _taken_fields(rest: Json) -> Json:
    """Take the fields that few memories have out of the record, and return them by their names in ShortTermMemory,
    and as `other_keywords` the marked words of the other words, with their weights. A value that this program would
    not write stays among the unknown fields, but `pinned` is taken as true or false whatever it is. Raises NotARecord
    if there are other words and `otherKeywords` is not a list."""
    session = _taken_text(rest, "session")
    folder = _taken_text(rest, "folder")
    taken: Json = {
        "session": None if session is None else sys.intern(session),
        "folder": None if folder is None else sys.intern(folder),
        "turn": _taken_text(rest, "turn"),
        "pinned": bool(rest.pop("pinned", False)),
        "word_tries": rest.pop("wordTries") if _is_tries(rest.get("wordTries")) else 0,
        "work": taken_work(rest),
    }

    readers: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "muted": ("muted", places_of),
        "corrects": ("corrects", _corrections),
        "roleWeights": ("role_weights", _role_weights),
        "otherWords": ("other_words", _other_words),
    }
    for field, (name, read) in readers.items():
        value = read(rest.get(field))
        if value:
            del rest[field]
            taken[name] = value

    taken["other_keywords"] = (), ()
    if "other_words" in taken:
        kept_words, kept_weights = _keywords(rest.pop("otherKeywords", None) or [])
        marked = tuple(sys.intern(kept(word)) for word in kept_words)
        taken["other_keywords"] = marked, kept_weights
    return taken


def _keywords_json(memory: ShortTermMemory) -> list[Json]:
    """Write the words of the memory's text with their weights."""
    pairs = zip(memory.words, memory.weights, strict=True)
    if not memory.other_words:  # Most memories have none, and are written in less time.
        return [{"word": word, "weight": weight} for word, weight in pairs]
    return [{"word": word, "weight": weight} for word, weight in pairs if not is_kept(word)]


def _other_keywords_json(memory: ShortTermMemory) -> list[Json]:
    """Write the marked words, which come from the memory's other words, with their weights."""
    pairs = zip(memory.words, memory.weights, strict=True)
    return [{"word": bare(word), "weight": weight} for word, weight in pairs if is_kept(word)]


def _other_words(value: Any) -> tuple[str, ...]:
    """Read the other words of a memory; empty if this program would not write them."""
    if not isinstance(value, list) or len(value) > MOST_TEXTS:
        return ()
    if not all(_is_text(text) and len(text) <= MOST_TEXT_CHARS for text in value):
        return ()
    return tuple(map(sys.intern, value))


def _taken_text(rest: Json, key: str) -> str | None:
    """Take the text of a key out of the record. Return None, and leave the key, if it has no text."""
    value = rest.get(key)
    if not _is_text(value):
        return None
    text: str = rest.pop(key)
    return text


def short_terms(
    records: Iterable[Json],
    conversation_id: str,
    *,
    ours: bool = False,
    unusable: list[UnusableRecord] | None = None,
) -> list[ShortTermMemory]:
    """Return the short-term memories of a whole file. A memory without an id, or with the id of an
    earlier one, gets the hash of its time, its text and its number among equals: the same in every
    process that reads the file. `ours`: this program wrote the file, so every memory in it may be
    stored. A record that cannot be read, or is more than may be stored, is added to `unusable`;
    without such a list, NotARecord is raised with the number of the first one."""
    equals: Counter[bytes] = Counter()
    memories: dict[str, ShortTermMemory] = {}

    def read(record: Json) -> ShortTermMemory:
        memory_id = str(record.get("id") or "")
        if not memory_id or memory_id in memories:
            key = [_time_of(record), record.get("text")]
            ordinal = equals[dumps(key)]
            equals[dumps(key)] += 1
            record = record | {"id": hashlib.sha256(dumps([*key, ordinal])).hexdigest()[:16]}
        return short_term(record, conversation_id)

    for memory in _whole_file(records, read, ours, unusable, kind="short"):
        memories[memory.id] = memory
    return list(memories.values())


def _whole_file(
    records: Iterable[Json],
    read: Callable[[Json], M],
    ours: bool,
    unusable: list[UnusableRecord] | None,
    *,
    kind: RecordKind,
) -> Iterator[M]:
    """Yield the memory that `read` makes of each record. A record that cannot be read, or that is
    too large and not `ours`, is added to `unusable`; if that is None, it raises NotARecord."""
    for number, record in enumerate(records, 1):
        try:
            memory = read(record)
            reason = None if ours else excess(memory)
            if reason is not None:
                raise NotARecord(reason)
        except WRONG_VALUES as error:
            fault = NotARecord("record {number} cannot be read: {reason}", number, reason_of(error))

            if unusable is None:
                raise fault from error
            unusable.append(UnusableRecord(kind, record, fault))
            continue
        yield memory


def reason_of(error: Exception) -> Sentence:
    """Why a record cannot be read."""
    if isinstance(error, NotARecord):
        return error.sentence
    if isinstance(error, RecursionError):
        return Sentence(TOO_DEEP, DEEPEST)
    return Sentence("it has a value of a type or size that it cannot have")


def _time_of(record: Json) -> Any:
    """Return the time of a record under any of its names, or None if it has no time."""
    for key in _TIME_KEYS:
        value = record.get(key)
        if value is not None:
            return value
    return None


def cleanup_time(value: Any) -> int | None:
    """Read the time of the last clean-up, in milliseconds since 1970. Return None for any other value."""
    if type(value) is not int:
        return None
    with contextlib.suppress(NotARecord):
        return milliseconds(value)
    return None


def _is_tries(value: Any) -> bool:
    return type(value) is int and 0 < value <= MOST_WORD_TRIES


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def places_of(value: Any) -> tuple[str, ...]:
    """Places in which a memory is muted; empty if this program would not write them."""
    if not isinstance(value, list) or len(value) > MOST_MUTED or not all(map(_is_text, value)):
        return ()
    return tuple(map(sys.intern, value))


def _corrections(value: Any) -> tuple[Correction, ...]:
    """Read what a memory corrects; empty if this program would not write it."""
    if not isinstance(value, list) or len(value) > MOST_CORRECTED:
        return ()
    corrections: list[Correction] = []
    for row in value:
        if not isinstance(row, dict) or row.keys() != {"id", "by"}:
            return ()
        if not _is_text(row["id"]) or row["by"] not in ("rule", "caller", "person"):
            return ()
        corrections.append(Correction(row["id"], row["by"]))
    return tuple(corrections)


def _role_weights(value: Any) -> dict[str, float]:
    """Read the weights by role; empty if any weight is not a number."""
    weights: dict[str, float] = {}
    if not isinstance(value, dict):
        return weights
    for role, number in value.items():
        weight = _number(number)
        if weight is None:
            return {}
        weights[role] = weight
    return weights


def _text(value: Any) -> str:
    """Read a text of a record; other programs may write null."""
    return "" if value is None else str(value)


def _number(value: Any) -> float | None:
    """Read a number of a record. Return None for other values: the Node original writes NaN as null."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _keywords(items: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the words of a record and their weights; an item without a text or a number is left
    out. Raises NotARecord if they are not a list."""
    if not isinstance(items, list):
        raise NotARecord("its keywords are not a list")

    # First the fast way, for the form that this program writes.
    try:
        weights = tuple(map(_WEIGHT, items))
        if set(map(type, weights)) <= _FLOATS:
            return tuple(map(sys.intern, map(_WORD, items))), weights
    except (TypeError, KeyError):
        pass  # not as this program writes them: each is checked

    checked_words: list[str] = []
    checked_weights: list[float] = []
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("word"), str):
            continue
        weight = _number(item.get("weight"))
        if weight is not None:
            checked_words.append(sys.intern(item["word"]))
            checked_weights.append(weight)
    return tuple(checked_words), tuple(checked_weights)


# --- long-term memories ------------------------------------------------------------------------------------


def long_term_json(memory: LongTermMemory) -> Json:
    """Write a long-term memory as JSON (docs/reference/data-folder.md)."""
    record: Json = {
        "name": memory.name,
        "prompt": memory.prompt,
        "trigger": memory.trigger,
        "createdAt": times.iso(memory.created_ms),
        "createdContext": memory.created_context,
    }
    if memory.updated_ms is not None:
        record["updatedAt"] = times.iso(memory.updated_ms)
    if memory.updated_context is not None:
        record["updatedContext"] = memory.updated_context
    record |= rules_json(memory.rules) | book_json(memory.book) | keys_json(memory.keys)
    return record | dict(memory.extra)


def long_term(record: Json) -> LongTermMemory:
    """Read a long-term memory from its JSON form. Raises NotARecord if it has no name or no trigger, and NotARecord
    or RecursionError if it is nested too deeply."""
    rest = dict(record)
    name = rest.pop("name", None)
    trigger = rest.pop("trigger", None)
    if not isinstance(name, str) or not name or not isinstance(trigger, str):
        raise NotARecord("it has no name or no trigger")

    created = rest.pop("createdAt", None)
    updated = rest.pop("updatedAt", None)
    updated_context = rest.pop("updatedContext", None)
    rules = taken_rules(rest)
    book = taken_book(rest)
    keys = taken_keys(rest, trigger)

    # Every `pop` comes before `extra`, which keeps the fields that are left.
    return LongTermMemory(
        name=name,
        prompt=_text(rest.pop("prompt", None)),
        trigger=trigger,
        created_ms=0 if created is None else milliseconds(created),
        created_context=_text(rest.pop("createdContext", None)),
        updated_ms=None if updated is None else milliseconds(updated),
        updated_context=None if updated_context is None else str(updated_context),
        rules=rules,
        book=book,
        keys=keys,
        extra=_extra(rest),
    )


def long_terms(
    records: Iterable[Json], *, ours: bool = False, unusable: list[UnusableRecord] | None = None
) -> list[LongTermMemory]:
    """Return the long-term memories of a whole file. A memory with the name of an earlier one
    becomes `name (2)`. `ours`, `unusable`, and what is raised: as in `short_terms`."""
    memories: dict[str, LongTermMemory] = {}
    for memory in _whole_file(records, long_term, ours, unusable, kind="long"):
        name = memory.name
        ordinal = 1
        while name in memories:
            ordinal += 1
            name = f"{memory.name} ({ordinal})"
        memories[name] = memory if name == memory.name else replace(memory, name=name)
    return list(memories.values())
