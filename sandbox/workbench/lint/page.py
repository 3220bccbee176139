"""docs/reference/lint-rules.md, made from the rules; its first line says how."""

from __future__ import annotations

import sys

from sandbox.workbench.lint.finding import RULES, Rule

OPENING = """\
<!-- Generated: python -m sandbox.workbench.lint.page > docs/reference/lint-rules.md -->

# Lint rules

`trigger-sandbox check` looks for triggers that compile and run and yet cannot be meant: conditions that never come
true, operands that never count. `pack check` says the same of every trigger of a pack. Each rule has a name and stands
behind its finding in parentheses:

```console
$ trigger-sandbox check -e "new Date().getMonth() === 12"
-e: warning: never true: getMonth() gives 0 to 11; January is 0 (date-never-comes) at line 1, column 1
    new Date().getMonth() === 12
    ^
…
```

A lint finding is a warning; the exit status is 1 all the same. Errors are what the server refuses: text that does not
compile, names that do not exist, triggers that take too long.

## Switching a rule off

A comment in the trigger does it, with a remark after `--` if you like:

| comment | switches off |
| --- | --- |
| `// trigger-lint-disable-line RULE` | findings of its own line |
| `// trigger-lint-disable-next-line RULE` | findings of the line after it |
| `// trigger-lint-disable RULE` | findings of the whole trigger |

Several rules are separated by commas. Without a rule, all are switched off. Block comments work too.

```js
// trigger-lint-disable-next-line always-true -- this memory is always there
true
```

## Fixes

`check --fix FILE` changes a file only where the fix is certain: rules marked *(fixed)* below, in the cases they name.
It writes nothing else, and no file that has nothing to fix: encoding (`--encoding gbk`), byte order mark, line ends and
permissions stay. One run fixes all there is. A pack (`.json`) is not changed; `check` says how many it needs.

Both `check --json` and `pack check --json` print one object per trigger: `file`, `name`, `errors`, `warnings`. Each
of these has `rule`, `message`, `line`, `column` and `caret`, the line with a mark under the place.
"""


def page() -> str:
    """The whole page."""
    return OPENING + "\n## Rules\n" + "".join(map(_section, RULES))


def _section(rule: Rule) -> str:
    mark = " *(fixed)*" if rule.fixes else ""
    examples = f"Found:\n\n```js\n{rule.bad}\n```\n\nFine:\n\n```js\n{rule.good}\n```\n"
    return f"\n### {rule.name}\n\n{rule.about}{mark}\n\n{examples}"


if __name__ == "__main__":
    sys.stdout.write(page())
