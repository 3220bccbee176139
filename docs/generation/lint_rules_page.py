"""docs/reference/lint-rules.md: each lint rule with an example that breaks it and one that does not, both tested."""

from __future__ import annotations

from textwrap import indent
from typing import NamedTuple

OPENING = """\
# Lint rules

These rules find triggers that run, but do not do what their author meant. `add_long_term_memory`,
`update_long_term_memory`, `memory-server import`, `convert` and `trigger-sandbox check` report them as warnings:

```console
$ trigger-sandbox check -e "new Date().getMonth() === 12"
-e: warning: never true: getMonth() gives 0 to 11; January is 0 (date-never-comes) at line 1, column 1
    new Date().getMonth() === 12
    ^
…
```

A trigger of more than 20,000 characters, or nested more than 200 deep, is not checked. `check --json` and
`pack check --json` print an object for each trigger: `file`, `name`, `errors`, `warnings`, each with `rule`, `message`,
`line`, `column` and `caret`.

## Rules
"""


class Rule(NamedTuple):
    """`bad` breaks it and `good` does not."""

    name: str
    about: str
    bad: str
    good: str


RULES = (
    Rule(
        "always-true",
        "A condition or operand that is always true: a text, a list, a function that is not called. `true` alone is fine.",
        "match_keys(context.messages, ['生日']) >= 0",
        "match_keys(context.messages, ['生日']) > 0",
    ),
    Rule(
        "never-true",
        "Bounds that exclude each other, a comparison with another type, more matches than there can be, `===` with a date, "
        "which is an object and equals only itself.",
        "const hour = new Date().getHours()\nhour >= 23 && hour < 5",
        "const hour = new Date().getHours()\nhour >= 23 || hour < 5",
    ),
    Rule(
        "assignment",
        "`=` in a condition gives a value, which is then the condition; `===` compares.",
        "context.messages.some((m) => m.role = 'user')",
        "context.messages.some((m) => m.role === 'user')",
    ),
    Rule(
        "date-never-comes",
        "A date that does not exist or is past. In `Date`, months count from 0 and days of the week from 0 (Sunday); in "
        "`on_day`, `days_until` and `on_lunar_day` months count from 1. `new Date('2026年7月17日')` is not a date.",
        "new Date().getMonth() === 12 && new Date().getDate() === 25",
        "new Date().getMonth() === 11 && new Date().getDate() === 25",
    ),
    Rule(
        "unknown-role",
        "The roles are `user`, `assistant` and `system`.",
        "context.messages.at(-1)?.role === 'human'",
        "context.messages.at(-1)?.role === 'user'",
    ),
    Rule(
        "unknown-field",
        "A field that `context` or a message [does not have](trigger-api.md#names-in-a-trigger) is always undefined.",
        "context.messages.some((m) => m.text?.includes('生日'))",
        "context.messages.some((m) => m.content.includes('生日'))",
    ),
    Rule(
        "unknown-scope",
        "The third argument of `match_keys` names no scope, so no message counts.",
        "match_keys(context.messages, ['生日'], 'User') > 0",
        "match_keys(context.messages, ['生日'], 'user') > 0",
    ),
    Rule(
        "day-rounding",
        "Between a date, which is a midnight, and now, `Math.round` turns to the next day at noon, and `Math.floor` of the "
        "time until a date is -1 on the date itself. Between two midnights only `Math.round` is right. `days_until` counts "
        "whole days.",
        "const day = new Date(2027, 6, 17)\nMath.round((day - Date.now()) / 864e5) >= 0",
        "const day = new Date(2027, 6, 17)\nMath.ceil((day - Date.now()) / 864e5) >= 0",
    ),
    Rule(
        "date-without-time",
        "`new Date('2001-05-01')` is midnight in UTC, in America 30 April; `new Date('2001-05-01T00:00')` is midnight in "
        "the time zone of the search.",
        "const born = new Date('2001-05-01')\nnew Date().getDate() === born.getDate()",
        "on_day(5, 1)",
    ),
    Rule(
        "leap-day",
        "29 February comes in leap years only; `on_day(2, 29)` knows the other years.",
        "const now = new Date()\nnow.getMonth() === 1 && now.getDate() === 29",
        "on_day(2, 29)",
    ),
    Rule(
        "timestamp-missing",
        "If a message has no `timestamp`, arithmetic with it gives NaN, and no comparison with NaN is true.",
        "Date.now() - context.messages.at(-1).timestamp > 36e5",
        "const last = context.messages.at(-1).timestamp\nlast !== undefined && Date.now() - last > 36e5",
    ),
    Rule(
        "last-fired-null",
        "`context.last_fired` is null until the memory has come in this chat. A field of null fails; with `?.` the memory "
        "never comes.",
        "context.last_fired.messages >= 10",
        "context.last_fired === null || context.last_fired.messages >= 10",
    ),
    Rule(
        "not-a-number",
        "Arithmetic with `undefined` gives NaN.",
        "const last = undefined\nDate.now() - last > 864e5",
        "const last = Date.parse('2026-07-17')\nDate.now() - last > 864e5",
    ),
    Rule(
        "strange-depth",
        "The fourth argument of `match_keys` is the number of last messages that count, 0 for all. A negative one leaves "
        "out the *first* messages.",
        "match_keys(context.messages, ['生日'], 'any', -4) > 0",
        "match_keys(context.messages, ['生日'], 'any', 4) > 0",
    ),
    Rule(
        "beyond-hooks",
        "The trigger looks further back than a [hook](hooks.md) gives, which is 50 messages at most.",
        "match_keys(context.messages, ['生日'], 'user', 80) >= 3",
        "match_keys(context.messages, ['生日'], 'user', 40) >= 3",
    ),
    Rule(
        "empty-key",
        "An empty key matches nothing, and makes `match_keys_all` always false. So does an empty list.",
        "match_keys(context.messages, ['生日', '']) > 0",
        "match_keys(context.messages, ['生日']) > 0",
    ),
    Rule(
        "key-twice",
        "The same key a second time changes nothing.",
        "match_keys(context.messages, ['生日', '蛋糕', '生日']) > 0",
        "match_keys(context.messages, ['生日', '蛋糕']) > 0",
    ),
    Rule(
        "key-not-text",
        "A key must be a text or a regular expression, without quotes; anything else fails when it runs.",
        "match_keys(context.messages, [2026]) > 0",
        "match_keys(context.messages, ['2026']) > 0",
    ),
    Rule(
        "keys-not-a-list",
        "The keys must be a list, also a single one.",
        "match_keys(context.messages, '生日') > 0",
        "match_keys(context.messages, ['生日']) > 0",
    ),
    Rule(
        "messages-missing",
        "The first argument of `match_keys` is where to look: `context.messages`.",
        "match_keys(['生日']) > 0",
        "match_keys(context.messages, ['生日']) > 0",
    ),
)


def lint_rules_page() -> str:
    """Return the whole page."""
    return OPENING + "".join(map(_section, RULES))


def _section(rule: Rule) -> str:
    between = "\n" if "\n" in rule.bad else ""
    return f"\n### {rule.name}\n\n{rule.about}\n\n{_example('Found', rule.bad)}{between}{_example('Fine', rule.good)}"


def _example(title: str, code: str) -> str:
    """Write an example: a line of code in the list, several in a block."""
    if "\n" in code:
        block = indent(f"```js\n{code}\n```", "  ")
        return f"- {title}:\n\n{block}\n"
    return f"- {title}: `{code}`\n"
