"""Rules of firing, to and from JSON (docs/reference/trigger-packs.md). The names of fields are those of SillyTavern's
world info where it has the field. Pure.

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
    ScoredKeys,
)

Json = dict[str, Any]
MOST_MESSAGES = 1_000_000
"""Messages that a rule may count: no chat has so many."""
MOST_NUMBER = 1e9
"""An order, and a weight in a group, at most."""


def rules_json(rules: FiringRules) -> Json:
    """The fields of a record that say rules; those that are as usual are left out."""
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
        "groupKeys": _scored_json(group.scored_keys),
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
    for name in ("order", "groupWeight", "probability"):
        if float(fields[name]).is_integer():
            fields[name] = int(fields[name])
    return {name: value for name, value in fields.items() if value != _USUAL[name]}


def _scored_json(keys: ScoredKeys | None) -> Json | None:
    if keys is None:
        return None
    return {
        "primary": list(keys.primary),
        "secondary": list(keys.secondary),
        "logic": keys.logic,
        "call": keys.call,
    }


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
    "groupKeys": None,
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
    """The rules that the fields of a record say; these are taken out of it. A field with a value that it cannot have
    stays."""
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
    """The `rules` with what these fields say. Raises RuleFault: one has a value that it cannot have; its message is the
    name of the field."""
    for name, value in fields.items():
        try:
            rules = _READERS[name](rules, value)
        except RuleFault as fault:
            raise RuleFault(name) from fault
    return rules


def _order(rules: FiringRules, value: Any) -> FiringRules:
    return replace(rules, order=_number(value, -MOST_NUMBER, MOST_NUMBER))


def _precedence(rules: FiringRules, value: Any) -> FiringRules:
    if type(value) is not int or not 0 <= value <= LATER_PRECEDENCE:
        raise RuleFault
    return replace(rules, precedence=value)


def group_names(text: str) -> list[str]:
    """The names of groups that a text has with commas between them, as in SillyTavern."""
    return [name.strip() for name in text.split(",")]


def _group(rules: FiringRules, value: Any) -> FiringRules:
    if isinstance(value, str):
        listed_names = group_names(value)
    else:
        listed_names = _texts(value)
    names = tuple(dict.fromkeys(filter(None, listed_names)))
    is_too_long = any(len(name) > MOST_RULE_CHARS for name in names)
    if len(names) > MOST_GROUPS or is_too_long:
        raise RuleFault
    return replace(rules, group=replace(rules.group, names=names))


def _group_weight(rules: FiringRules, value: Any) -> FiringRules:
    return replace(rules, group=replace(rules.group, weight=_number(value, 0, MOST_NUMBER)))


def _group_override(rules: FiringRules, value: Any) -> FiringRules:
    return replace(rules, group=replace(rules.group, overrides=_switch(value)))


def _group_scoring(rules: FiringRules, value: Any) -> FiringRules:
    return replace(rules, group=replace(rules.group, is_scored=_switch(value)))


def _group_keys(rules: FiringRules, value: Any) -> FiringRules:
    if value is None:
        return rules
    if not isinstance(value, dict):
        raise RuleFault
    keys = ScoredKeys(
        primary=tuple(_texts(value.get("primary"))),
        secondary=tuple(_texts(value.get("secondary"))),
        logic=_text(value.get("logic")),
        call=_text(value.get("call")),
    )
    return replace(rules, group=replace(rules.group, scored_keys=keys))


def _probability(rules: FiringRules, value: Any) -> FiringRules:
    return replace(rules, probability=_number(value, 0, 100))


def _characters(rules: FiringRules, value: Any) -> FiringRules:
    if value is None:
        return rules
    if not isinstance(value, dict) or value.get("tags"):
        raise RuleFault
    names = tuple(_texts(value.get("names", [])))
    is_exclude = _switch(value.get("isExclude", False))
    return replace(rules, characters=CharacterRule(names, is_exclude))


def _level(rules: FiringRules, value: Any) -> FiringRules:
    """The round of recursion for which the memory waits; SillyTavern also writes true, for the first one."""
    level = int(value) if isinstance(value, bool) else _messages(value)
    return replace(rules, recursion=replace(rules.recursion, level=level))


def _most_rounds(rules: FiringRules, value: Any) -> FiringRules:
    return replace(rules, recursion=replace(rules.recursion, most_rounds=_messages(value)))


def _other_words(rules: FiringRules, value: Any) -> FiringRules:
    return replace(rules, other_words=tuple(_texts(value)))


def _recursion_switch(name: str) -> Callable[[FiringRules, Any], FiringRules]:
    def change(rules: FiringRules, value: Any) -> FiringRules:
        fields = {name: _switch(value)}
        return replace(rules, recursion=replace(rules.recursion, **fields))

    return change


def _rule_switch(name: str) -> Callable[[FiringRules, Any], FiringRules]:
    def change(rules: FiringRules, value: Any) -> FiringRules:
        fields: dict[str, Any] = {name: _switch(value)}
        return replace(rules, **fields)

    return change


def _count_of_messages(name: str) -> Callable[[FiringRules, Any], FiringRules]:
    def change(rules: FiringRules, value: Any) -> FiringRules:
        fields: dict[str, Any] = {name: _messages(value)}
        return replace(rules, **fields)

    return change


_READERS: Mapping[str, Callable[[FiringRules, Any], FiringRules]] = {
    "order": _order,
    "precedence": _precedence,
    "group": _group,
    "groupWeight": _group_weight,
    "groupOverride": _group_override,
    "useGroupScoring": _group_scoring,
    "groupKeys": _group_keys,
    "probability": _probability,
    "sticky": _count_of_messages("sticky"),
    "cooldown": _count_of_messages("cooldown"),
    "delay": _count_of_messages("delay"),
    "once": _rule_switch("once"),
    "ignoreBudget": _rule_switch("ignores_budget"),
    "recursive": _recursion_switch("is_on"),
    "excludeRecursion": _recursion_switch("is_excluded"),
    "preventRecursion": _recursion_switch("is_prevented"),
    "delayUntilRecursion": _level,
    "maxRecursionSteps": _most_rounds,
    "characterFilter": _characters,
    "byWords": _rule_switch("by_words"),
    "otherWords": _other_words,
    "off": _rule_switch("is_off"),
}


def _number(value: Any, least: float, most: float) -> float:
    """A number within its bounds. Raises RuleFault."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        raise RuleFault
    return float(value)


def _messages(value: Any) -> int:
    """A count of messages. Raises RuleFault."""
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


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise RuleFault
    return list(map(_text, value))
