"""The rules of a memory: when it may come, beside its trigger, as the fields of a pack have them
(docs/reference/trigger-packs.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from languages import N_
from sandbox.values import JsonObject, frozen

MOST_MESSAGES = 1_000_000
MOST_NUMBER = 1e9
MOST_GROUPS = 20
MOST_GROUP_CHARS = 1_000


@frozen
class RuleField:
    """A field of a rule. `usual`: its value in a memory without it. `may_be` says for people what it takes."""

    usual: Any
    may_be: str
    admits: Callable[[Any], bool]


def _between(least: float, most: float) -> Callable[[Any], bool]:
    def admits(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and least <= value <= most

    return admits


def _whole(most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 0 <= value <= most


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_level(value: Any) -> bool:
    return _is_switch(value) or _whole(MOST_MESSAGES)(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _are_groups(value: Any) -> bool:
    if not isinstance(value, str) and not _are_texts(value):
        return False
    names = group_names(value)
    return len(names) <= MOST_GROUPS and all(len(name) <= MOST_GROUP_CHARS for name in names)


def _is_character_filter(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, dict) or value.get("tags"):
        return False
    return _are_texts(value.get("names", [])) and _is_switch(value.get("isExclude", False))


_SWITCH = RuleField(False, N_("true or false"), _is_switch)
_COUNT = RuleField(0, N_("a whole number of messages from 0"), _whole(MOST_MESSAGES))

RULE_FIELDS: Mapping[str, RuleField] = {
    "order": RuleField(100, N_("a number"), _between(-MOST_NUMBER, MOST_NUMBER)),
    "precedence": RuleField(2, N_("a whole number from 0 to 3"), _whole(3)),
    "group": RuleField((), N_("a name, or a list of names"), _are_groups),
    "groupWeight": RuleField(100, N_("a number from 0"), _between(0, MOST_NUMBER)),
    "groupOverride": _SWITCH,
    "useGroupScoring": _SWITCH,
    "probability": RuleField(100, N_("a number from 0 to 100"), _between(0, 100)),
    "sticky": _COUNT,
    "cooldown": _COUNT,
    "delay": _COUNT,
    "once": _SWITCH,
    "ignoreBudget": _SWITCH,
    "recursive": _SWITCH,
    "excludeRecursion": _SWITCH,
    "preventRecursion": _SWITCH,
    "delayUntilRecursion": RuleField(0, N_("true, false or a level from 0"), _is_level),
    "maxRecursionSteps": _COUNT,
    "characterFilter": RuleField(
        None,
        N_('an object such as {"names": ["Ann"], "isExclude": false}'),
        _is_character_filter,
    ),
    "byWords": _SWITCH,
    "otherWords": RuleField((), N_("a list of texts"), _are_texts),
    "off": _SWITCH,
}
"""The fields in the order in which they are shown."""


def rule_of(fields: JsonObject, name: str) -> Any:
    """Return the value of the rule `name` of a memory with these fields; the usual one if it has none that can be."""
    rule_field = RULE_FIELDS[name]
    if name in fields and rule_field.admits(fields[name]):
        return fields[name]
    return rule_field.usual


def groups_of(fields: JsonObject) -> list[str]:
    """Return the names of the groups of a memory with these fields, each once."""
    return group_names(rule_of(fields, "group"))


def group_names(groups: Any) -> list[str]:
    """Return the names in a list, or in a text with commas between them."""
    listed_names = groups
    if isinstance(groups, str):
        listed_names = [name.strip() for name in groups.split(",")]
    return list(dict.fromkeys(filter(None, listed_names)))
