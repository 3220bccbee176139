"""Rules of firing, to and from JSON (docs/reference/trigger-packs.md). Fields of SillyTavern's world info keep their
names. Pure.

A value that this program would not write is not read: it stays among the unknown fields of its record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from memory_server.lore.rules import (
    LATER_PRECEDENCE,
    MOST_GROUPS,
    MOST_RULE_CHARS,
    PLAIN,
    USUAL_PRECEDENCE,
    CharacterRule,
    FiringRules,
)

Json = dict[str, Any]
Change = Callable[[FiringRules, Any], FiringRules]
"""Returns rules with a value of a field in place of the old value. Raises RuleFault."""
MOST_MESSAGES = 1_000_000
"""Messages that a rule may count: no chat has so many."""
MOST_NUMBER = 1e9
"""An order, and a weight in a group, at most."""


def rules_json(rules: FiringRules, counted_keys: Json | None = None) -> Json:
    """Return the fields of a record that say rules; usual rules are left out. `counted_keys` are the keys of its group,
    for a fingerprint."""
    group = rules.group
    recursion = rules.recursion

    group_names: str | list[str] = list(group.names)
    if len(group.names) == 1:
        group_names = group.names[0]

    fields: Json = {
        "order": rules.order,
        "precedence": rules.precedence,
        "group": group_names,
        "groupWeight": group.weight,
        "groupOverride": group.overrides,
        "useGroupScoring": group.is_scored,
        "groupKeys": counted_keys,
        "probability": rules.probability,
        "sticky": rules.sticky,
        "cooldown": rules.cooldown,
        "delay": rules.delay,
        "once": rules.once,
        "ignoreBudget": rules.ignores_budget,
        "recursive": recursion.is_on,
        "excludeRecursion": recursion.is_excluded,
        "preventRecursion": recursion.is_prevented,
        "delayUntilRecursion": recursion.level,
        "maxRecursionSteps": recursion.most_rounds,
        "characterFilter": _characters_json(rules.characters),
        "byWords": rules.by_words,
        "otherWords": list(rules.other_words),
        "off": rules.is_off,
    }

    # A whole number is written without a fraction, as other programs write it.
    for name in ("order", "groupWeight", "probability"):
        if float(fields[name]).is_integer():
            fields[name] = int(fields[name])

    return {name: value for name, value in fields.items() if value != _USUAL.get(name)}


def _characters_json(rule: CharacterRule) -> Json | None:
    if not rule.names:
        return None
    return {"names": list(rule.names), "isExclude": rule.is_exclude}


_USUAL: Mapping[str, Any] = {
    "order": 100,
    "precedence": USUAL_PRECEDENCE,
    "group": [],
    "groupWeight": 100,
    "groupOverride": False,
    "useGroupScoring": False,
    "probability": 100,
    "sticky": 0,
    "cooldown": 0,
    "delay": 0,
    "once": False,
    "ignoreBudget": False,
    "recursive": False,
    "excludeRecursion": False,
    "preventRecursion": False,
    "delayUntilRecursion": 0,
    "maxRecursionSteps": 0,
    "characterFilter": None,
    "byWords": False,
    "otherWords": [],
    "off": False,
}
"""Each field with the value that a record leaves out."""
RULE_FIELDS = tuple(_USUAL)


class RuleFault(ValueError):
    """A field of a rule has a value that it cannot have."""


def taken_rules(record: Json) -> FiringRules:
    """Take the rules out of the fields of a record. A field with a value that it cannot have stays."""
    if record.keys().isdisjoint(_USUAL):  # as most records
        return PLAIN
    rules = PLAIN
    for name, change in _READERS.items():
        if name not in record:
            continue
        try:
            rules = change(rules, record[name])
        except RuleFault:
            continue
        del record[name]
    return rules


def checked_rules(fields: Mapping[str, Any], rules: FiringRules = PLAIN) -> FiringRules:
    """Return the `rules` with what these fields say. Raise RuleFault if a field has a value that it cannot have; its
    message is the name of the field."""
    for name, value in fields.items():
        try:
            rules = _READERS[name](rules, value)
        except RuleFault as fault:
            raise RuleFault(name) from fault
    return rules


def group_names(text: str) -> list[str]:
    """Return the names of groups that a text has with commas between them, as in SillyTavern."""
    return [name.strip() for name in text.split(",")]


def _rule(name: str, read: Callable[[Any], Any]) -> Change:
    """Return the change of a rule."""

    def change(rules: FiringRules, value: Any) -> FiringRules:
        return replace(rules, **{name: read(value)})

    return change


def _group_rule(name: str, read: Callable[[Any], Any]) -> Change:
    """Return the change of a rule of groups."""

    def change(rules: FiringRules, value: Any) -> FiringRules:
        return replace(rules, group=replace(rules.group, **{name: read(value)}))

    return change


def _recursion_rule(name: str, read: Callable[[Any], Any]) -> Change:
    """Return the change of a rule of recursion."""

    def change(rules: FiringRules, value: Any) -> FiringRules:
        return replace(rules, recursion=replace(rules.recursion, **{name: read(value)}))

    return change


# The readers of values raise RuleFault.


def _order(value: Any) -> float:
    return _number(value, -MOST_NUMBER, MOST_NUMBER)


def _weight(value: Any) -> float:
    return _number(value, 0, MOST_NUMBER)


def _probability(value: Any) -> float:
    return _number(value, 0, 100)


def _precedence(value: Any) -> int:
    return _whole(value, LATER_PRECEDENCE)


def _messages(value: Any) -> int:
    return _whole(value, MOST_MESSAGES)


def _level(value: Any) -> int:
    """Return the round of recursion for which the memory waits; SillyTavern also writes true, for the first round."""
    return int(value) if isinstance(value, bool) else _messages(value)


def _groups(value: Any) -> tuple[str, ...]:
    listed_names = group_names(value) if isinstance(value, str) else _texts(value)
    names = tuple(dict.fromkeys(filter(None, listed_names)))
    is_too_long = any(len(name) > MOST_RULE_CHARS for name in names)
    if len(names) > MOST_GROUPS or is_too_long:
        raise RuleFault
    return names


def _characters(value: Any) -> CharacterRule:
    if value is None:
        return CharacterRule()
    if not isinstance(value, dict) or value.get("tags"):
        raise RuleFault
    names = _texts(value.get("names", []))
    return CharacterRule(names, _switch(value.get("isExclude", False)))


def _number(value: Any, least: float, most: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        raise RuleFault
    return float(value)


def _whole(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise RuleFault
    return value


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise RuleFault
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise RuleFault
    return tuple(value)


_READERS: Mapping[str, Change] = {
    "order": _rule("order", _order),
    "precedence": _rule("precedence", _precedence),
    "group": _group_rule("names", _groups),
    "groupWeight": _group_rule("weight", _weight),
    "groupOverride": _group_rule("overrides", _switch),
    "useGroupScoring": _group_rule("is_scored", _switch),
    "probability": _rule("probability", _probability),
    "sticky": _rule("sticky", _messages),
    "cooldown": _rule("cooldown", _messages),
    "delay": _rule("delay", _messages),
    "once": _rule("once", _switch),
    "ignoreBudget": _rule("ignores_budget", _switch),
    "recursive": _recursion_rule("is_on", _switch),
    "excludeRecursion": _recursion_rule("is_excluded", _switch),
    "preventRecursion": _recursion_rule("is_prevented", _switch),
    "delayUntilRecursion": _recursion_rule("level", _level),
    "maxRecursionSteps": _recursion_rule("most_rounds", _messages),
    "characterFilter": _rule("characters", _characters),
    "byWords": _rule("by_words", _switch),
    "otherWords": _rule("other_words", _texts),
    "off": _rule("is_off", _switch),
}
