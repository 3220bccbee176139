"""Memories to and from JSON. Only this module and change_forms.py know the names of fields on disk.

The record forms are those of the Node original, so that each program can open the other's folder: arrays of objects in
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
from itertools import count
from operator import itemgetter
from typing import Any, TypeVar

from memory_server.conversations.model import MOST_MUTED, MOST_WORD_TRIES, LongTermMemory, ShortTermMemory, excess
from memory_server.kernel import times
from memory_server.kernel.json_text import TOO_DEEP, Json, NotARecord, dumps, milliseconds
from memory_server.kernel.messages import NOTHING, ROLES, Message, Role
from memory_server.kernel.nesting import deeper
from nlp import MOST_TEXT_CHARS, MOST_TEXTS, bare, is_kept, kept

M = TypeVar("M", ShortTermMemory, LongTermMemory)
_TIME_KEYS = ("timestamp", "time_stamp", "timeStamp")
_WORD, _WEIGHT = itemgetter("word"), itemgetter("weight")
_FLOATS = {float}
_ROLE: dict[str, Role] = {role: role for role in ROLES}
"""One string for each role: a parsed one takes 60 bytes in each message."""

# --- messages ----------------------------------------------------------------------------------------------


def _unshared(text: str) -> str:
    # orjson stores the UTF-8 of a text that is not ASCII in the string itself, for as long as the string lives: each
    # memory would take half as much again.
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")


def message_json(message: Message) -> Json:
    """The JSON form of a message, its timestamp in milliseconds as clients send it."""
    record: Json = {"role": message.role, "content": _unshared(message.content)}
    if message.time_ms is not None:
        record["timestamp"] = message.time_ms
    if message.name is not None:
        record["name"] = message.name
    return record | dict(message.extra)


def _message(record: Any) -> Message:
    if not isinstance(record, dict):
        raise NotARecord("a message is not an object")
    if len(record) == 2:
        # The usual case, and 10,000 memories have many messages.
        known, text = record.get("role"), record.get("content")
        if known in ROLES and isinstance(text, str):
            return Message(_ROLE[known], text)
    rest = dict(record)
    role, content = rest.pop("role", "user"), rest.pop("content", "")
    timestamp, name = rest.pop("timestamp", None), rest.pop("name", None)
    # A value that is read as another one is written back as it came: `extra` wins in message_json.
    if role not in ROLES:
        role, rest["role"] = "system", role
    if not isinstance(content, str):
        content, rest["content"] = dumps(content).decode(), content
    if name is not None and not isinstance(name, str):
        name, rest["name"] = None, name
    time_ms = None
    if timestamp is not None:
        with contextlib.suppress(NotARecord):
            time_ms = milliseconds(timestamp)
        if time_ms != timestamp:
            rest["timestamp"] = timestamp
    return Message(role=_ROLE[role], content=content, time_ms=time_ms, name=name, extra=_kept(rest))


def _kept(rest: Json) -> Mapping[str, Any]:
    """The unknown fields of a record, to be written back as they came."""
    if not rest:
        return NOTHING
    if deeper(rest):
        raise NotARecord(TOO_DEEP)
    return rest


# --- short-term memories -----------------------------------------------------------------------------------


def short_term_json(memory: ShortTermMemory) -> Json:
    """The JSON form of a short-term memory (docs/reference/data-folder.md)."""
    record: Json = {
        "id": memory.id,
        "timestamp": times.iso(memory.time_ms),
        "text": _unshared(memory.text),
        "keywords": _keywords_json(memory, beside=False),
        "score": memory.score,
        "conversation_id": memory.conversation_id,
        "messages": [message_json(message) for message in memory.messages],
    }
    more: Json = {"pinned": memory.pinned, "indexedWith": memory.indexed_with, "roleWeights": dict(memory.role_weights)}
    more |= {"session": memory.session, "folder": memory.folder, "turn": memory.turn, "muted": list(memory.muted)}
    more["wordTries"] = memory.word_tries
    if memory.other_words:
        more |= {"otherWords": list(memory.other_words), "otherKeywords": _keywords_json(memory, beside=True)}
    record |= {name: value for name, value in more.items() if value}
    # What could not be read stays as it came, until this program has something to say in its place.
    return record | {name: value for name, value in memory.extra.items() if name not in more or not more[name]}


def short_term(record: Json, conversation_id: str = "") -> ShortTermMemory:
    """A short-term memory from its JSON form. `conversation_id` is for a record that does not name its own. Raises
    NotARecord if it has no time or its parts are of the wrong type; that or RecursionError if it is nested too
    deeply."""
    rest = dict(record)
    time = _time_of(rest)
    if time is None:
        raise NotARecord("it has no timestamp")
    for key in _TIME_KEYS:
        rest.pop(key, None)
    words, weights = _keywords(rest.pop("keywords", None) or [])
    messages = rest.pop("messages", None) or []
    if not isinstance(messages, list):
        raise NotARecord("its messages are not a list")
    # A value that this program would not write stays as it came, among the unknown fields.
    indexed_with = rest.pop("indexedWith") if _is_text(rest.get("indexedWith")) else ""
    session = sys.intern(rest.pop("session")) if _is_text(rest.get("session")) else None
    folder = sys.intern(rest.pop("folder")) if _is_text(rest.get("folder")) else None
    turn = rest.pop("turn") if _is_text(rest.get("turn")) else None
    muted, weights_given = places_of(rest.get("muted")), _role_weights(rest.get("roleWeights"))
    other_words = _other_words(rest.get("otherWords"))
    word_tries = rest.pop("wordTries") if _is_tries(rest.get("wordTries")) else 0
    if other_words:
        kept_words, kept_weights = _keywords(rest.pop("otherKeywords", None) or [])
        words += tuple(sys.intern(kept(word)) for word in kept_words)
        weights += kept_weights
    for key, known in (("muted", muted), ("roleWeights", weights_given), ("otherWords", other_words)):
        if known:
            del rest[key]
    return ShortTermMemory(
        id=_text(rest.pop("id", None)),
        time_ms=milliseconds(time),
        text=_text(rest.pop("text", None)),
        words=words,
        weights=weights,
        score=_number(rest.pop("score", None)) or 0.0,
        conversation_id=sys.intern(_text(rest.pop("conversation_id", None)) or conversation_id),
        messages=tuple(_message(message) for message in messages),
        pinned=bool(rest.pop("pinned", False)),
        indexed_with=sys.intern(indexed_with),
        role_weights=weights_given or NOTHING,
        session=session,
        folder=folder,
        turn=turn,
        muted=muted,
        other_words=other_words,
        word_tries=word_tries,
        extra=_kept(rest),
    )


def _keywords_json(memory: ShortTermMemory, *, beside: bool) -> list[Json]:
    """The words of its text with their weights, or those that are kept with it."""
    pairs = zip(memory.words, memory.weights, strict=True)
    if not memory.other_words:  # as most memories
        return [] if beside else [{"word": word, "weight": weight} for word, weight in pairs]
    return [{"word": bare(word), "weight": weight} for word, weight in pairs if is_kept(word) == beside]


def _other_words(value: Any) -> tuple[str, ...]:
    """The other words of a memory; empty if this program would not write them."""
    if not isinstance(value, list) or len(value) > MOST_TEXTS:
        return ()
    known = all(_is_text(text) and len(text) <= MOST_TEXT_CHARS for text in value)
    return tuple(map(sys.intern, value)) if known else ()


def short_terms(records: Iterable[Json], conversation_id: str, *, ours: bool = False) -> list[ShortTermMemory]:
    """Short-term memories of a whole file. A memory without an id, or with the id of an earlier one, gets the hash of
    its time, its text and its number among equals: the same in every process that reads the file. `ours`: this program
    wrote the file, so every memory in it may be stored. Raises NotARecord with the number of the first record that
    cannot be read, or is more than may be stored."""
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

    for memory in _whole_file(records, read, ours):
        memories[memory.id] = memory
    return list(memories.values())


def _whole_file(records: Iterable[Json], read: Callable[[Json], M], ours: bool) -> Iterator[M]:
    for number, record in enumerate(records, 1):
        try:
            memory = read(record)
            if not ours and (reason := excess(memory)) is not None:
                raise NotARecord(reason)
        except (NotARecord, RecursionError) as error:
            raise NotARecord("record {number} cannot be read: {reason}", number, reason_of(error)) from error
        yield memory


def reason_of(error: NotARecord | RecursionError) -> str:
    return str(error) if isinstance(error, NotARecord) else TOO_DEEP


def _time_of(record: Json) -> Any:
    return next((record[key] for key in _TIME_KEYS if record.get(key) is not None), None)


def _is_tries(value: Any) -> bool:
    return type(value) is int and 0 < value <= MOST_WORD_TRIES


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def places_of(value: Any) -> tuple[str, ...]:
    """Places in which a memory is muted; empty if this program would not write them."""
    known = isinstance(value, list) and len(value) <= MOST_MUTED and all(map(_is_text, value))
    return tuple(map(sys.intern, value)) if known else ()


def _role_weights(value: Any) -> dict[str, float]:
    """Weights by role; empty if one of them is not a number."""
    numbers = {role: _number(weight) for role, weight in value.items()} if isinstance(value, dict) else {}
    known = {role: weight for role, weight in numbers.items() if weight is not None}
    return known if len(known) == len(numbers) else {}


def _text(value: Any) -> str:
    """A text of a record; other programs may write null."""
    return "" if value is None else str(value)


def _number(value: Any) -> float | None:
    """A number of a record, or None: the Node original writes NaN as null."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _keywords(items: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    if not isinstance(items, list):
        raise NotARecord("its keywords are not a list")
    try:
        weights = tuple(map(_WEIGHT, items))
        if set(map(type, weights)) <= _FLOATS:
            return tuple(map(sys.intern, map(_WORD, items))), weights
    except (TypeError, KeyError):
        pass  # not as this program writes them: each is checked
    pairs = [
        (sys.intern(item["word"]), weight)
        for item in items
        if isinstance(item, dict)
        and isinstance(item.get("word"), str)
        and (weight := _number(item.get("weight"))) is not None
    ]
    return tuple(word for word, _ in pairs), tuple(weight for _, weight in pairs)


# --- long-term memories ------------------------------------------------------------------------------------


def long_term_json(memory: LongTermMemory) -> Json:
    """The JSON form of a long-term memory (docs/reference/data-folder.md)."""
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
    return record | dict(memory.extra)


def long_term(record: Json) -> LongTermMemory:
    """A long-term memory from its JSON form. Raises NotARecord if it has no name or no trigger; that or RecursionError
    if it is nested too deeply."""
    rest = dict(record)
    name, trigger = rest.pop("name", None), rest.pop("trigger", None)
    if not isinstance(name, str) or not name or not isinstance(trigger, str):
        raise NotARecord("it has no name or no trigger")
    created, updated = rest.pop("createdAt", None), rest.pop("updatedAt", None)
    updated_context = rest.pop("updatedContext", None)
    return LongTermMemory(
        name=name,
        prompt=_text(rest.pop("prompt", None)),
        trigger=trigger,
        created_ms=0 if created is None else milliseconds(created),
        created_context=_text(rest.pop("createdContext", None)),
        updated_ms=None if updated is None else milliseconds(updated),
        updated_context=None if updated_context is None else str(updated_context),
        extra=_kept(rest),
    )


def long_terms(records: Iterable[Json], *, ours: bool = False) -> list[LongTermMemory]:
    """Long-term memories of a whole file. A memory with the name of an earlier one becomes `name (2)`. `ours`, and what
    is raised: as in `short_terms`."""
    memories: dict[str, LongTermMemory] = {}
    for memory in _whole_file(records, long_term, ours):
        if memory.name in memories:
            names = (f"{memory.name} ({ordinal})" for ordinal in count(2))
            memory = replace(memory, name=next(name for name in names if name not in memories))
        memories[memory.name] = memory
    return list(memories.values())
