"""Arguments of tools: made from the schema, with the names and ids that the home has, and mostly realistic ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random
from typing import Any

from lived_in import texts
from lived_in.house import House

from memory_server.tools.base.tool import Tool


def arguments_for(house: House, tool: Tool, rng: Random) -> dict[str, Any]:
    """Arguments for one call: what is required, and about a third of the rest."""
    schema = tool.input_schema()
    required = set(schema.get("required", ()))
    arguments: dict[str, Any] = {}
    for name, inner in schema["properties"].items():
        share = 0.3
        if name in ("conversation_id", "user_id", "id", "memory_id"):
            share = 0.6
        if name in required or rng.random() < share:
            arguments[name] = _value(house, tool.name, name, inner, rng)
    return arguments


def some_time(house: House, rng: Random) -> int | None:
    """A time of a message: mostly lately, at times years ago, and often not there."""
    if rng.random() < 0.4:
        return None
    days = rng.choice((0.01, 0.5, 1, 3, 10, 40, 400, 4_000))
    return _days_ago_ms(house, days)


def _days_ago_ms(house: House, days: float) -> int:
    return round((house.now - timedelta(days=days)).timestamp() * 1_000)


def _value(house: House, tool: str, name: str, schema: Mapping[str, Any], rng: Random) -> Any:
    make = NAMED.get((tool, name)) or NAMED.get(("", name))
    if make is not None:
        return make(house, rng)
    return _by_schema(schema, rng)


def _by_schema(schema: Mapping[str, Any], rng: Random) -> Any:
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return _by_schema(rng.choice(schema["anyOf"]), rng)
    match schema.get("type"):
        case "string":
            return texts.sentence(rng)[: schema.get("maxLength", 200)]
        case "integer":
            return rng.choice((1, 2, 20, schema.get("minimum", 0), schema.get("maximum", 60)))
        case "number":
            return rng.choice((0, 0.5, 1, 20.25))
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [_by_schema(schema.get("items", {}), rng) for _number in range(rng.randrange(3))]
        case "object":
            return {rng.choice(texts.TAGS): rng.choice((1, 0.5, True, None, "x", [1, {"a": None}]))}
    return texts.sentence(rng)


def _messages(house: House, rng: Random) -> Any:
    days = rng.choice((None, 0.1, 2, 30, 500))
    if days is None:
        return texts.exchange(rng)
    return texts.exchange(rng, _days_ago_ms(house, days))


def _session_messages(house: House, rng: Random) -> Any:
    return rng.choice((texts.sentence(rng), texts.exchange(rng)))


def _conversation(house: House, rng: Random) -> str:
    return rng.choice((*texts.ROOMS, *house.conversations()))


def _memory_id(house: House, rng: Random) -> str:
    ids = [memory.id for memory in house.all_memories()]
    ids += [getattr(entry.memory, "id", "") for entry in house.all_shelved()]
    return rng.choice([*ids, "zz"])


def _trigger_name(house: House, rng: Random) -> str:
    names: list[str] = []
    for room in house.conversations():
        names.extend(memory.name for memory in house.triggers(room))
    return rng.choice([*names, "生日", "cat", "⟦{name}⟧", "a/b", "x" * 100])


def _entry(space: str, attribute: str) -> Callable[[House, Random], Any]:
    def chosen(house: House, rng: Random) -> Any:
        values = [
            getattr(entry, attribute)
            for location, entry in house.entries()
            if location.startswith(space)
        ]
        fallback: Any = "zz"
        if attribute == "id":
            fallback = 1
        return rng.choice([*values, fallback]) or fallback

    return chosen


def _change(house: House, rng: Random) -> str:
    return rng.choice([*(change.id for change in house.changes()), "12-37a8"])


def _backup(house: House, rng: Random) -> str:
    return rng.choice([*house.backups(), "kept", "a"])


def _piece_of_a_note(house: House, rng: Random) -> str:
    notes = [entry for location, entry in house.entries() if location.startswith("notes")]
    bodies = [note.body for note in notes if note.body]
    if not bodies:
        return "x"
    return rng.choice(bodies)[:20]


def _when(house: House, rng: Random) -> str:
    return rng.choice(("2026-03-01", "2026-05-02T10:00", house.now.isoformat(), "yesterday"))


def _user(house: House, rng: Random) -> str:
    return rng.choice(texts.USERS)


def _choice(*values: Any) -> Callable[[House, Random], Any]:
    return lambda _house, rng: rng.choice(values)


def _sentence(_house: House, rng: Random) -> str:
    return texts.sentence(rng)


def _question(_house: House, rng: Random) -> str:
    return rng.choice((*texts.QUESTIONS, texts.sentence(rng)))


def _tags(_house: House, rng: Random) -> list[str]:
    return rng.sample(texts.TAGS, rng.randrange(3))


def _other_words(_house: House, rng: Random) -> Any:
    return texts.other_words(rng)


NAMED: Mapping[tuple[str, str], Callable[[House, Random], Any]] = {
    ("", "messages"): _messages,
    ("memory_add", "messages"): _session_messages,
    ("", "recentMessages"): _messages,
    ("", "conversation_id"): _conversation,
    ("", "otherWords"): _other_words,
    ("", "trigger"): _choice(*texts.TRIGGERS),
    ("", "prompt"): _sentence,
    ("", "createdContext"): _sentence,
    ("", "updatedContext"): _sentence,
    ("add_long_term_memory", "name"): _trigger_name,
    ("update_long_term_memory", "name"): _trigger_name,
    ("delete_long_term_memory", "name"): _trigger_name,
    ("get_memory_context", "name"): _trigger_name,
    ("backup_memories", "name"): _choice("a", "kept", "备份", "⟦{x}⟧"),
    ("restore_memories", "name"): _backup,
    ("delete_backup", "name"): _backup,
    ("pin_memory", "id"): _memory_id,
    ("unpin_memory", "id"): _memory_id,
    ("mute_memory", "id"): _memory_id,
    ("edit_memory", "id"): _memory_id,
    ("edit_memory", "find"): _choice("cat", "披萨", "ferry", "zzz"),
    ("edit_memory", "replace"): _choice("dog", "面条", ""),
    ("explain_recall", "memory_id"): _memory_id,
    ("forget", "ids"): lambda house, rng: [_memory_id(house, rng)],
    ("forget", "words"): _choice("Halloran", "米酱", "ferry", "披萨", "zzz"),
    ("forget", "said_in"): _choice("s1", "s2"),
    ("forget", "confirm"): _choice(True, True, False),
    ("restore_memories_from_archive", "ids"): lambda house, rng: [_memory_id(house, rng)],
    ("", "pattern"): _choice("披萨", "/cat|猫/i", "/./", "zzz", "/(/"),
    ("", "changeId"): _change,
    ("", "removedSince"): _when,
    ("", "removedUntil"): _when,
    ("", "date_from"): _when,
    ("", "date_to"): _when,
    ("", "scope"): _choice("conversation", "all", "nothing"),
    ("", "query"): _question,
    ("", "keywords"): _choice(["披萨"], ["cat", "ferry"], []),
    ("", "tags"): _tags,
    ("", "user_id"): _user,
    ("", "agent_id"): _choice("a", "阿澈"),
    ("", "run_id"): _choice("r1", "r2"),
    ("", "mode"): _choice("direct", "direct", "direct", "merge", "overwrite"),
    ("edit_note", "memory_id"): _entry("notes", "ref"),
    ("delete_note", "memory_id"): _entry("notes", "ref"),
    ("edit_note", "find"): _piece_of_a_note,
    ("", "replace"): _sentence,
    ("", "append"): _sentence,
    ("memory_update", "memory_id"): _entry("sessions", "id"),
    ("memory_delete", "memory_id"): _entry("sessions", "id"),
    ("", "data"): _sentence,
    ("", "topic"): _choice("deploy", "塔", "cat food", "⟦{topic}⟧", "x" * 150),
    ("", "content"): _sentence,
    ("", "examples"): _choice(["fly deploy"], []),
    ("", "key"): _choice(*texts.KEYS),
    ("", "caller_agent_id"): _choice("main", "a"),
    ("memoryDelete", "id"): _entry("refs", "ref"),
    ("memoryGetContent", "id"): _entry("refs", "ref"),
    ("", "importance"): _choice(0, 0.5, 1),
    ("", "session"): _choice("s1", "s2"),
    ("memory_delete_all", "confirm"): _choice(True, False),
    ("", "turn_id"): _choice("t1", "t2", "t3"),
    ("", "alsoTurns"): _choice({"default": ["t1", "t3"]}, {}),
    ("", "roleWeights"): _choice({"user": 2, "assistant": 0.5}, {}),
    ("", "participants"): _choice({"阿澈": {"age": 3}}, {}),
}
"""How an argument is made: that of one tool, or of all tools that have one of this name."""
