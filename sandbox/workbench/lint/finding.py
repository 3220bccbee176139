"""What a rule has to say, and the rules by name with what the documentation shows of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sandbox.workbench.javascript.syntax import Source

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces the bytes from `start` to `end` of the source."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """`start`: byte offset in the source. `edits`: a fix that is certain, else empty."""

    rule: str
    message: str
    start: int
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What rules look at. `now`: aware; years before it have gone by. `named`: the values of names that keep theirs."""

    source: Source
    now: datetime
    named: Mapping[str, Node]


@dataclass(frozen=True, slots=True)
class Rule:
    """`bad` breaks it and `good` does not: both are tested, and shown in docs/reference/lint-rules.md."""

    name: str
    about: str
    bad: str
    good: str
    fixes: bool = False


def at(rule: str, node: Node, message: str, *edits: Edit) -> Finding:
    """A finding that points at a node."""
    return Finding(rule, message, node.start_byte, edits)


RULES = (
    Rule(
        "always-true",
        "A condition or an operand that is true whatever is said: a text, a list, a function that is not called, a "
        "comparison that holds for every value, an `async` function given to `some` or `filter`.",
        "match_keys(context.messages, ['生日']) >= 0",
        "match_keys(context.messages, ['生日']) > 0",
    ),
    Rule(
        "never-true",
        "A condition or an operand that can never be true: bounds that exclude each other, a comparison with a value "
        "of another type, more matches than keys and messages can give, a function for `some` that returns nothing.",
        "const hour = new Date().getHours()\nhour >= 23 && hour < 5",
        "const hour = new Date().getHours()\nhour >= 23 || hour < 5",
    ),
    Rule(
        "unreachable",
        "An operand or a statement that is never evaluated, because what stands before it decides already.",
        "true || match_keys(context.messages, ['生日']) > 0",
        "match_keys(context.messages, ['生日']) > 0",
    ),
    Rule(
        "without-effect",
        "A condition whose value nobody uses: only the last statement, or `return`, decides.",
        "match_keys(context.messages, ['生日']) > 0\nnew Date().getHours() < 5",
        "match_keys(context.messages, ['生日']) > 0 || new Date().getHours() < 5",
    ),
    Rule(
        "assignment-in-condition",
        "`=` gives a value, `===` compares. Fixed where a literal is assigned in the condition of an `if`: such a "
        "condition is always the same.",
        "let day = new Date().getDay()\nif (day = 6) return true\nreturn false",
        "let day = new Date().getDay()\nif (day === 6) return true\nreturn false",
        fixes=True,
    ),
    Rule(
        "date-never-comes",
        "A date that is in no calendar, or in the past: months count from 0 to 11, days of the week from 0 (Sunday) "
        "to 6, days of the month from 1 to 28, 29, 30 or 31. So does a text that JavaScript takes for no date, as "
        "`new Date('2026年7月17日')`, and a part of `toISOString()` compared with a text of another form.",
        "new Date().getMonth() === 12 && new Date().getDate() === 25",
        "new Date().getMonth() === 11 && new Date().getDate() === 25",
    ),
    Rule(
        "unknown-role",
        "A message is compared with a role that none has: the roles are `user`, `assistant` and `system`.",
        "context.messages.at(-1)?.role === 'human'",
        "context.messages.at(-1)?.role === 'user'",
    ),
    Rule(
        "unknown-field",
        "A field that `context` (`messages`, `conversation_id`, `participants`) or a message (`role`, `content`, "
        "`timestamp`, `name`) does not have: it is always undefined.",
        "context.messages.some((m) => m.text?.includes('生日'))",
        "context.messages.some((m) => m.content.includes('生日'))",
    ),
    Rule(
        "unknown-scope",
        "The third argument of `match_keys` names no scope, so no message counts. Fixed where only blanks or capital "
        "letters are wrong.",
        "match_keys(context.messages, ['生日'], 'User') > 0",
        "match_keys(context.messages, ['生日'], 'user') > 0",
        fixes=True,
    ),
    Rule(
        "strange-depth",
        "The fourth argument of `match_keys` is how many of the last messages count, 0 for all. A negative depth "
        "leaves out the *first* messages, and with a few messages all of them.",
        "match_keys(context.messages, ['生日'], 'any', -4) > 0",
        "match_keys(context.messages, ['生日'], 'any', 4) > 0",
    ),
    Rule(
        "empty-key",
        "An empty key matches nothing, and makes `match_keys_all` always false. So does an empty list. An empty key of "
        "`match_keys` is taken out by --fix.",
        "match_keys(context.messages, ['生日', '']) > 0",
        "match_keys(context.messages, ['生日']) > 0",
        fixes=True,
    ),
    Rule(
        "key-twice",
        "The same key a second time changes nothing. --fix takes it out.",
        "match_keys(context.messages, ['生日', '蛋糕', '生日']) > 0",
        "match_keys(context.messages, ['生日', '蛋糕']) > 0",
        fixes=True,
    ),
    Rule(
        "key-not-text",
        "A key must be a text or a regular expression; anything else fails when it runs. --fix puts quotes around a "
        "number.",
        "match_keys(context.messages, [2026]) > 0",
        "match_keys(context.messages, ['2026']) > 0",
        fixes=True,
    ),
    Rule(
        "keys-not-a-list",
        "The keys must be a list, also when it is one. --fix puts brackets around a single word or a regular "
        "expression; a text with blanks or commas may be several keys, and its author decides.",
        "match_keys(context.messages, '生日') > 0",
        "match_keys(context.messages, ['生日']) > 0",
        fixes=True,
    ),
    Rule(
        "messages-missing",
        "The first argument of `match_keys` is where to look: `context.messages`. --fix puts it in, or in its place.",
        "match_keys(['生日']) > 0",
        "match_keys(context.messages, ['生日']) > 0",
        fixes=True,
    ),
    Rule(
        "slow-expression",
        "A regular expression that takes far too long on some text. Reported only after it was seen: the text that is "
        "named was tried in the sandbox.",
        "/^(\\s*哈+)+$/.test(context.messages[0]?.content)",
        "/^[\\s哈]*哈$/.test(context.messages[0]?.content)",
    ),
    Rule(
        "unknown-rule",
        "A `trigger-lint-disable` comment names a rule that does not exist.",
        "match_keys(context.messages, ['生日']) > 0 // trigger-lint-disable-line allways-true",
        "match_keys(context.messages, ['生日']) > 0",
    ),
)
NAMES = frozenset(rule.name for rule in RULES)
