"""Comments that switch rules off. Pure.

    // trigger-lint-disable-line RULE ...        findings of this line
    // trigger-lint-disable-next-line RULE ...   findings of the line after it
    // trigger-lint-disable RULE ...             findings of the whole trigger

Several rules are separated by commas or blanks; without a rule all are meant. What follows `--` is a remark.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sandbox.workbench.javascript import syntax
from sandbox.workbench.javascript.syntax import Source
from sandbox.workbench.lint.finding import NAMES, Finding, at

if TYPE_CHECKING:
    from tree_sitter import Node

_SWITCH = re.compile(r"trigger-lint-disable(?P<where>-next-line|-line)?(?![\w-])(?P<rules>.*)", re.DOTALL)


def switched(source: Source, findings: Sequence[Finding]) -> list[Finding]:
    """The findings that no comment switches off, and one for each rule named there that does not exist."""
    everywhere: set[str] = set()
    lines: set[tuple[int, str]] = set()
    wrong: list[Finding] = []
    for node, where, rules in _switches(source):
        for name in rules:
            if name not in NAMES:
                near = difflib.get_close_matches(name, sorted(NAMES), n=1)
                hint = f"; did you mean {near[0]}?" if near else "; docs/reference/lint-rules.md lists them"
                wrong.append(at("unknown-rule", node, f"there is no rule {name}{hint}"))
        names = set(rules) & NAMES if rules else NAMES
        line = source.place(node.start_byte)[0]
        if where is None:
            everywhere |= names
        else:
            last = source.place(node.end_byte)[0]
            lines |= {(last + 1 if where == "-next-line" else line, name) for name in names}
    kept = [
        one
        for one in (*findings, *wrong)
        if one.rule not in everywhere and (source.place(one.start)[0], one.rule) not in lines
    ]
    return sorted(kept, key=lambda one: one.start)


def _switches(source: Source) -> Iterator[tuple[Node, str | None, list[str]]]:
    if "trigger-lint-disable" not in source.text:
        return
    for node in syntax.walk(source.root):
        if node.type == "comment" and (found := _SWITCH.search(source.of(node))):
            rules = found["rules"].partition("--")[0].removesuffix("*/")
            yield node, found["where"], re.findall(r"[\w-]+", rules)
