"""docs/reference/lint-rules.md: each lint rule with an example that breaks it and one that does not, both tested."""

from __future__ import annotations

from typing import NamedTuple

OPENING = """\
# Lint rules

A trigger can compile and run, and yet not be meant so: a condition that never comes true, a key that matches nothing.
These rules find such mistakes. They run wherever a trigger is stored or checked:

- `add_long_term_memory` and `update_long_term_memory` store the trigger and give what was found as `warnings`;
- `memory-server import` and `memory-server convert` print it;
- `trigger-sandbox check` and `pack check` print it, with the name of the rule in parentheses:

```console
$ trigger-sandbox check -e "new Date().getMonth() === 12"
-e: warning: never true: getMonth() gives 0 to 11; January is 0 (date-never-comes) at line 1, column 1
    new Date().getMonth() === 12
    ^
…
```

A finding is a warning; the exit status of `check` is 1 all the same. Errors are what the server refuses: text that does
not compile, names that do not exist, triggers that take too long.

Rules for JavaScript in general, such as code that is never reached, are left to the linters made for it. A trigger of
more than 20,000 characters, or nested more than 200 deep, is not looked at.

Both `check --json` and `pack check --json` print one object per trigger: `file`, `name`, `errors`, `warnings`. Each of
these has `rule`, `message`, `line`, `column` and `caret`, the line with a mark under the place.

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
        "A condition or an operand that is true whatever is said: a text, a list, a function that is not called, a "
        "comparison that holds for every value. A trigger that is nothing but `true` is meant so: its memory always "
        "comes.",
        "match_keys(context.messages, ['生日']) >= 0",
        "match_keys(context.messages, ['生日']) > 0",
    ),
    Rule(
        "never-true",
        "A condition or an operand that can never be true: bounds that exclude each other, a comparison with a value "
        "of another type, more matches than keys and messages can give, a trigger without a condition.",
        "const hour = new Date().getHours()\nhour >= 23 && hour < 5",
        "const hour = new Date().getHours()\nhour >= 23 || hour < 5",
    ),
    Rule(
        "date-never-comes",
        "A date that is in no calendar, or in the past: months count from 0 to 11, days of the week from 0 (Sunday) "
        "to 6, days of the month from 1 to 28, 29, 30 or 31. So is a text that JavaScript does not take for a date, "
        "as `new Date('2026年7月17日')`.",
        "new Date().getMonth() === 12 && new Date().getDate() === 25",
        "new Date().getMonth() === 11 && new Date().getDate() === 25",
    ),
    Rule(
        "unknown-role",
        "A message is compared with a role that no message has: the roles are `user`, `assistant` and `system`.",
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
        "The third argument of `match_keys` names no scope, so no message counts.",
        "match_keys(context.messages, ['生日'], 'User') > 0",
        "match_keys(context.messages, ['生日'], 'user') > 0",
    ),
    Rule(
        "day-rounding",
        "Days between a date and now. A date is a midnight, now has a time of day: `Math.round` turns to the next day "
        "at noon, and `Math.floor` of the time until a date is -1 on the date itself.",
        "const day = new Date(2027, 6, 17)\nMath.round((day - Date.now()) / 864e5) >= 0",
        "const day = new Date(2027, 6, 17)\nMath.ceil((day - Date.now()) / 864e5) >= 0",
    ),
    Rule(
        "not-a-number",
        "Arithmetic with `undefined` gives NaN, and no comparison with NaN is ever true.",
        "const last = undefined\nDate.now() - last > 864e5",
        "const last = Date.parse('2026-07-17')\nDate.now() - last > 864e5",
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
        "A key must be a text or a regular expression; anything else fails when it runs.",
        "match_keys(context.messages, [2026]) > 0",
        "match_keys(context.messages, ['2026']) > 0",
    ),
    Rule(
        "keys-not-a-list",
        "The keys must be a list, also when it is one.",
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
    """The whole page."""
    return OPENING + "".join(map(_section, RULES))


def _section(rule: Rule) -> str:
    examples = f"Found:\n\n```js\n{rule.bad}\n```\n\nFine:\n\n```js\n{rule.good}\n```\n"
    return f"\n### {rule.name}\n\n{rule.about}\n\n{examples}"
