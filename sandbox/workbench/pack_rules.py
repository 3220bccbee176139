"""The rules of the memories of a pack: which each has, and what is wrong with them, in one sentence each."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from languages import _
from sandbox.workbench.files import PackMemory
from sandbox.workbench.rule_fields import RULE_FIELDS, groups_of, rule_of

_OF_RECURSION = (
    "excludeRecursion",
    "preventRecursion",
    "delayUntilRecursion",
    "maxRecursionSteps",
)
_OTHER_FIELDS = (
    "book",
    "uid",
    "entryKeys",
    "groupKeys",
    "imported",
    "placement",
    "notes",
    "conversation_id",
    "createdAt",
    "updatedAt",
)
"""Fields that are no rules, and near to one or not."""
_NEAR = 0.8
"""How near an unknown field must be to a rule to be taken for its misspelling."""


def rule_warnings(memories: Sequence[PackMemory]) -> list[list[str]]:
    """For each memory of a pack a sentence about each of its rules that cannot be or changes nothing."""
    members = Counter(chain.from_iterable(groups_of(memory.extra) for memory in memories))
    return [list(_warnings_of(memory, members)) for memory in memories]


def _warnings_of(memory: PackMemory, members: Mapping[str, int]) -> Iterator[str]:
    fields = {name: memory.extra[name] for name in RULE_FIELDS if name in memory.extra}
    for name, value in fields.items():
        if not RULE_FIELDS[name].admits(value):
            yield _(
                "`{field}` must be {what}, not {value}; it has no effect",
                name,
                _(RULE_FIELDS[name].may_be),
                _shown(value),
            )

    for name in memory.extra:
        near = _rule_near(name)
        if near is not None:
            yield _("`{field}` is no rule; did you mean `{near}`?", name, near)

    for group in groups_of(memory.extra):
        if members[group] == 1:
            yield _(
                "no other memory of this pack is in the group `{group}`, so the group changes nothing",
                group,
            )

    has_cooldown = rule_of(memory.extra, "cooldown") > 0
    if rule_of(memory.extra, "once") and (has_cooldown or rule_of(memory.extra, "sticky")):
        field = "cooldown" if has_cooldown else "sticky"
        yield _(
            "`{field}` has no effect beside `once`: the memory comes in one message of a chat",
            field,
        )

    is_recursive = rule_of(memory.extra, "recursive")
    if not is_recursive:
        for name in _OF_RECURSION:
            if fields.get(name):
                yield _("`{field}` has no effect without `recursive: true`", name)

    if is_recursive and not _book_of(memory):
        yield _(
            "`recursive` has no effect without `book`: only texts of the same book are searched"
        )


def _rule_near(name: str) -> str | None:
    """Return the rule of which this field is a misspelling, or None if it is a rule, or another field."""
    if name in RULE_FIELDS or name in _OTHER_FIELDS:
        return None
    rules = {_plain(rule): rule for rule in RULE_FIELDS}
    near = difflib.get_close_matches(_plain(name), rules, n=1, cutoff=_NEAR)
    if not near:
        return None
    return rules[near[0]]


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _book_of(memory: PackMemory) -> str:
    """Return the id of the book of a memory, as an export writes it, or ""."""
    book = memory.extra.get("book")
    book_id = book.get("id") if isinstance(book, dict) else None
    if not isinstance(book_id, str):
        return ""
    return book_id


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
