"""The rules, the keys and the book of a memory, and the state of chats, to and from JSON
(docs/reference/data-folder.md). Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from languages import N_, _
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import Fields, Json, dumps
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.values import frozen
from memory_server.lore.chat_state import ChatState, Effect, Firing
from memory_server.lore.entry_keys import (
    LOGIC_FORMS,
    SCOPES,
    CountedKeys,
    EntryKeys,
    KeyCondition,
    counted_json,
    trigger_of,
)
from memory_server.lore.memory import (
    PLAIN,
    BookEntry,
    CharacterRule,
    FiringRules,
    LongTermMemory,
)
from sandbox import MOST_MESSAGES, RULE_FIELDS, group_names

_FIRST_COMMENT = re.compile(r"\A//[^\n]*\n")


def book_json(entry: BookEntry | None) -> Json:
    """Return the fields of a record that name its book, without empty ones; none without a book."""
    if entry is None:
        return {}
    book = {"id": entry.book_id, "name": entry.book_name, "source": entry.source}
    fields: Json = {
        "book": book,
        "uid": entry.uid,
        "imported": entry.imported,
        "importedOff": entry.imported_off,
        "placement": dict(entry.placement),
    }
    return {name: value for name, value in fields.items() if value}


def taken_book(record: Json) -> BookEntry | None:
    """Take the fields of a book out of a record. Return the book, or None if the record names none that this program
    would write."""
    fields: Any = record.get("book")
    placement = record.get("placement", {})
    try:
        book = BookEntry(
            _text(fields["id"]),
            _text(fields["name"]),
            _text(fields.get("source", "")),
            uid=_text(record.get("uid", "")),
            imported=_text(record.get("imported", "")),
            imported_off=_switch(record.get("importedOff", False)),
            placement=placement or NOTHING,
        )
    except (AttributeError, KeyError, TypeError, RuleFault):
        return None
    is_known = not set(fields) - {"id", "name", "source"}
    if not is_known or not book.book_id or not isinstance(placement, dict):
        return None

    # Only fields that are understood leave the record; all others stay as they are.
    for name in ("book", "uid", "imported", "importedOff", "placement"):
        record.pop(name, None)
    return book


def imported_fingerprint(memory: LongTermMemory) -> str:
    """Return the fingerprint of a memory. It does not depend on whether the memory is switched off, nor on the comment
    at the beginning of its trigger, which has the number of its entry."""
    counted_keys = memory.extra.get("groupKeys")  # of an import from before keys were data
    if memory.keys is not None:
        counted_keys = counted_json(memory.keys)
    rules = dumps(rules_json(replace(memory.rules, is_off=False), counted_keys)).decode()
    trigger = _FIRST_COMMENT.sub("", memory.trigger)
    content = "\0".join((memory.prompt, trigger, rules)).encode(errors="replace")
    return hashlib.blake2b(content, digest_size=8).hexdigest()


# --- the state of a chat -----------------------------------------------------------------------------------


def chat_state_json(state: ChatState | None) -> Json | None:
    """Write the state of a chat as JSON; None stays None."""
    if state is None:
        return None
    return {
        "messages": state.messages,
        "at": state.at_ms,
        "firings": {name: _firing_json(firing) for name, firing in state.firings.items()},
    }


def _firing_json(firing: Firing) -> Json:
    fields: Json = {
        "message": firing.message,
        "at": firing.at_ms,
        "before": None if firing.before is None else list(firing.before),
        "sticky": None if firing.sticky is None else _effect_json(firing.sticky),
        "cooldown": None if firing.cooldown is None else _effect_json(firing.cooldown),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _effect_json(effect: Effect) -> list[Any]:
    return [effect.start, effect.end, effect.is_protected]


def chat_state_of(record: Any) -> ChatState | None:
    """Read the state of a chat from its JSON form, or None for none. Raise KeyError, TypeError, ValueError or
    AttributeError."""
    if record is None:
        return None
    firings = {str(name): _firing(value) for name, value in record["firings"].items()}
    return ChatState(int(record["messages"]), int(record["at"]), firings)


def _firing(record: Fields) -> Firing:
    """Return a firing from its JSON form. Raises KeyError, TypeError or ValueError if a field is
    missing or wrong."""
    before = record.get("before")
    if before is not None:
        message, at_ms = before
        before = (int(message), int(at_ms))
    return Firing(
        message=int(record["message"]),
        at_ms=int(record["at"]),
        before=before,
        sticky=_effect(record.get("sticky")),
        cooldown=_effect(record.get("cooldown")),
    )


def _effect(record: Any) -> Effect | None:
    if record is None:
        return None
    start, end, is_protected = record
    return Effect(int(start), int(end), bool(is_protected))


def chats_json(chats: Mapping[str, ChatState]) -> Json:
    return {session: chat_state_json(state) for session, state in chats.items()}


def chats_of(record: Any) -> dict[str, ChatState]:
    """Return the chats of a conversation by their sessions; what cannot be read is left out."""
    states: dict[str, ChatState] = {}
    if not isinstance(record, dict):
        return states
    for session, value in record.items():
        try:
            state = chat_state_of(value)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            continue
        if state is not None:
            states[session] = state
    return states


# --- the rules of a memory ---


class RuleFault(ValueError):
    """A field has a value that it cannot have."""


def _unchanged(value: Any) -> Any:
    return value


@frozen
class _Field:
    """A rule: its attribute of FiringRules, or of the `part` of them for groups or recursion. `read` takes a value of
    JSON that the rule can have."""

    attribute: str
    part: str = ""
    read: Callable[[Any], Any] = _unchanged

    def value(self, rules: FiringRules) -> Any:
        holder = getattr(rules, self.part) if self.part else rules
        return getattr(holder, self.attribute)

    def changed(self, rules: FiringRules, value: Any) -> FiringRules:
        """Return the rules with a value of JSON, which the rule can have, in place of the old one."""
        change = {self.attribute: self.read(value)}
        if self.part:
            change = {self.part: replace(getattr(rules, self.part), **change)}
        return replace(rules, **change)


def rules_json(rules: FiringRules, counted_keys: Json | None = None) -> Json:
    """Return the fields of a record that say rules; usual rules are left out. `counted_keys`: the keys that count in a
    group, as a record from before keys were data has them."""
    if counted_keys is None and rules is PLAIN:  # as most are
        return {}

    fields: Json = {}
    for name, rule in _FIELDS.items():
        # The fingerprints of books that were imported depend on this place.
        if name == "probability" and counted_keys is not None:
            fields["groupKeys"] = counted_keys

        value = _written(name, rule.value(rules))
        if value != _USUAL[name]:
            fields[name] = value
    return fields


def _written(name: str, value: Any) -> Any:
    """Return a value of a rule as JSON has it, in the form in which other programs write it: a
    whole number without a fraction, a single group as text, None for no characters."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case CharacterRule(names=()):
            return None
        case CharacterRule():
            return {"names": list(value.names), "isExclude": value.is_exclude}
        case [group] if name == "group":
            return group
        case tuple():
            return list(value)
    return value


def taken_rules(record: Json) -> FiringRules:
    """Remove the rules from the fields of a record, and return them. A field with a value that it
    cannot have stays in the record."""
    if record.keys().isdisjoint(_FIELDS):  # as most records
        return PLAIN
    rules = PLAIN
    for name, rule in _FIELDS.items():
        if name in record and RULE_FIELDS[name].admits(record[name]):
            rules = rule.changed(rules, record.pop(name))
    return rules


def checked_rules(fields: Mapping[str, Any], rules: FiringRules = PLAIN) -> FiringRules:
    """Return the `rules` with what these fields say. Raise RuleFault if a field has a value that it cannot have; its
    message is the name of the field."""
    for name, value in fields.items():
        if not RULE_FIELDS[name].admits(value):
            raise RuleFault(name)
        rules = _FIELDS[name].changed(rules, value)
    return rules


def _groups(value: Any) -> tuple[str, ...]:
    return tuple(group_names(value))


def _characters(value: Any) -> CharacterRule:
    if value is None:
        return CharacterRule()
    return CharacterRule(tuple(value.get("names", ())), value.get("isExclude", False))


_FIELDS: Mapping[str, _Field] = {
    "order": _Field("order", read=float),
    "precedence": _Field("precedence"),
    "group": _Field("names", "group", _groups),
    "groupWeight": _Field("weight", "group", float),
    "groupOverride": _Field("overrides", "group"),
    "useGroupScoring": _Field("is_scored", "group"),
    "probability": _Field("probability", read=float),
    "sticky": _Field("sticky"),
    "cooldown": _Field("cooldown"),
    "delay": _Field("delay"),
    "once": _Field("once"),
    "ignoreBudget": _Field("ignores_budget"),
    "recursive": _Field("is_on", "recursion"),
    "excludeRecursion": _Field("is_excluded", "recursion"),
    "preventRecursion": _Field("is_prevented", "recursion"),
    # SillyTavern also writes true, for the first round.
    "delayUntilRecursion": _Field("level", "recursion", int),
    "maxRecursionSteps": _Field("most_rounds", "recursion"),
    "characterFilter": _Field("characters", read=_characters),
    "byWords": _Field("by_words"),
    "otherWords": _Field("other_words", read=tuple),
    "off": _Field("is_off"),
}
"""The rules by the names of their fields in JSON, in the order in which a record has them."""
_USUAL = {name: _written(name, rule.value(PLAIN)) for name, rule in _FIELDS.items()}
"""Each field with the value that a record leaves out."""


_ACCEPTED = {
    "order": N_("a number; the highest comes first, and the usual one is 100"),
    "group": N_("a name, or several with commas between; '' takes the memory out of its groups"),
    "probability": N_("a number from 0 to 100"),
    "sticky": N_("a whole number of messages, from 0 on"),
    "cooldown": N_("a whole number of messages, from 0 on"),
    "once": N_("true or false"),
}
"""What each rule takes, for people."""


@frozen
class GivenRules:
    """The rules that a caller gave, with the meanings of FiringRules. A rule of None stays as it is. `group` has one
    name or several."""

    order: float | None = None
    group: str | list[str] | None = None
    probability: float | None = None
    sticky: int | None = None
    cooldown: int | None = None
    once: bool | None = None

    def applied_to(self, rules: FiringRules) -> FiringRules:
        """Return the rules with the given ones in place of the old. Raise InvalidInput if a given rule has a value that
        it cannot have."""
        try:
            return checked_rules(self._values(), rules)
        except RuleFault as fault:
            name = str(fault)
            raise InvalidInput(
                "The rule `{name}` takes {wanted}.", name, _(_ACCEPTED[name])
            ) from fault

    def _values(self) -> Mapping[str, Any]:
        """Return the rules that are given, by their names."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


NO_RULES = GivenRules()
"""The rules of a caller that gives none."""


# --- the keys of an entry ---


def keys_json(keys: EntryKeys | None) -> Json:
    """Return the field of a record that has the keys of its entry, without values that are as usual; none without
    keys."""
    if keys is None:
        return {}
    fields: Json = {
        "heading": keys.heading,
        "conditions": [_condition_json(condition) for condition in keys.conditions],
        "scope": keys.scope,
        "depth": keys.depth,
        "expressions": list(keys.expressions),
        "caseSensitive": keys.is_exact,
        "substrings": not keys.is_whole,
        "every": keys.every,
        "byWords": keys.is_by_words,
        "counted": _counted_json(keys.counted),
    }
    return {"entryKeys": {name: value for name, value in fields.items() if value}}


def _condition_json(condition: KeyCondition) -> Json:
    return {"keys": list(condition.keys), "logic": condition.logic}


def _counted_json(counted: CountedKeys | None) -> Json | None:
    """Write counted keys as JSON; None stays None."""
    if counted is None:
        return None
    return {
        "primary": list(counted.primary),
        "secondary": list(counted.secondary),
        "logic": counted.logic,
    }


def taken_keys(record: Json, trigger: str) -> EntryKeys | None:
    """Take the keys out of a record. Return None if it has no keys, or if a person changed the trigger that was written
    from them. Keys that this program would not write stay in the record."""
    if "entryKeys" not in record:
        return None
    try:
        keys = _keys(record["entryKeys"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    del record["entryKeys"]
    return keys if trigger_of(keys) == trigger else None


def _keys(fields: Json) -> EntryKeys:
    """Read keys from JSON. Raise AttributeError, KeyError, TypeError or ValueError if the fields are not as this
    program writes them."""
    counted = fields.get("counted")

    keys = EntryKeys(
        heading=_text(fields["heading"]),
        conditions=tuple(map(_read_condition, fields.get("conditions", ()))),
        scope=fields["scope"],
        depth=_whole_number(fields["depth"]),
        expressions=_texts(fields.get("expressions", [])),
        is_exact=_switch(fields.get("caseSensitive", False)),
        is_whole=not _switch(fields.get("substrings", False)),
        every=_whole_number(fields.get("every", 0)),
        is_by_words=_switch(fields.get("byWords", False)),
        counted=None if counted is None else _read_counted(counted),
    )

    if keys.scope not in SCOPES or keys.depth < 1:
        raise ValueError
    return keys


def _read_condition(fields: Json) -> KeyCondition:
    return KeyCondition(_texts(fields["keys"]), _logic(fields["logic"]))


def _read_counted(fields: Json) -> CountedKeys:
    secondary = _texts(fields["secondary"])
    return CountedKeys(_texts(fields["primary"]), secondary, _logic(fields["logic"]))


def _logic(value: Any) -> str:
    if value not in LOGIC_FORMS:
        raise RuleFault
    return _text(value)


# What the values of JSON are. Each raises RuleFault for any other value.


def _whole_number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_MESSAGES:
        raise RuleFault
    return value


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise RuleFault
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise RuleFault
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise RuleFault
    return tuple(map(_text, value))
