"""Regular expressions that take too long, shown: each witness is timed in the sandbox, under its limits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sandbox.host.supervisor import TriggerSandbox
from sandbox.limits import Limits
from sandbox.verdicts import Failed
from sandbox.workbench.javascript import syntax
from sandbox.workbench.javascript.syntax import Source
from sandbox.workbench.lint.finding import Finding, at
from sandbox.workbench.lint.witnesses import Witness, witnesses

if TYPE_CHECKING:
    from tree_sitter import Node

SLOW_SECONDS = 0.2
"""A fifth of what a trigger may take, for one expression on one message."""
_LIMITS = Limits(trigger_seconds=SLOW_SECONDS, after_timeout_seconds=SLOW_SECONDS, search_seconds=20)
_MOST_TRIALS = 1_500
Trial = tuple[tuple[str, str], Witness]
"""Body and flags of an expression, and what it is tried on."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """An expression of source number `source`, where it stands, and what may make it slow."""

    source: int
    node: Node
    body: str
    flags: str
    trials: tuple[Witness, ...]


def suspects(number: int, source: Source) -> list[Suspect]:
    """The literals of a source that have witnesses; `new RegExp('...')` with a text too."""
    found: list[Suspect] = []
    for node in syntax.walk(source.root):
        body, flags = _expression(source, node)
        if body and (trials := witnesses(body)):
            found.append(Suspect(number, node, body, flags, tuple(trials)))
    return found


def _expression(source: Source, node: Node) -> tuple[str, str]:
    if node.type == "regex":
        pattern, flags = node.child_by_field_name("pattern"), node.child_by_field_name("flags")
        return source.of(pattern) if pattern else "", source.of(flags) if flags else ""
    constructor = node.child_by_field_name("constructor")
    if node.type == "new_expression" and constructor is not None and source.of(constructor) == "RegExp":
        given = syntax.arguments(node)
        if given and given[0].type == "string":
            try:
                return str(json.loads(f'"{source.of(given[0])[1:-1]}"')), ""
            except ValueError:
                return "", ""
    return "", ""


async def slow_expressions(found: Sequence[Suspect], now: datetime) -> list[tuple[int, Finding]]:
    """Those that took too long on a witness, with the number of their source. Raises SandboxError."""
    trials: dict[tuple[str, str], tuple[Witness, ...]] = {(one.body, one.flags): one.trials for one in found}
    asked = [(key, witness) for key, all_of_it in trials.items() for witness in all_of_it][:_MOST_TRIALS]
    if not asked:
        return []
    async with TriggerSandbox(_LIMITS, workers=1) as sandbox:
        late = await _late(sandbox, asked, now)
        # Once more: a machine that was busy with other things must not make an honest expression look slow.
        slow = dict(await _late(sandbox, list(dict(late[::-1]).items()), now))
    return [
        (
            one.source,
            at("slow-expression", one.node, f"took more than {SLOW_SECONDS:g} s on {slow[one.body, one.flags].said()}"),
        )
        for one in found
        if (one.body, one.flags) in slow
    ]


async def _late(sandbox: TriggerSandbox, asked: Sequence[Trial], now: datetime) -> list[Trial]:
    """The trials that timed out."""
    sources = [_source(key, witness) for key, witness in asked]
    verdicts = await sandbox.evaluate(sources, {"messages": []}, now=now, seed=0)
    return [
        trial
        for trial, verdict in zip(asked, verdicts, strict=True)
        if isinstance(verdict, Failed) and verdict.kind == "timeout"
    ]


def _source(key: tuple[str, str], witness: Witness) -> str:
    body, flags = (json.dumps(part) for part in key)
    parts = ", ".join(json.dumps(part) for part in (witness.before, witness.pump, witness.after))
    return (
        f"const [before, pump, after] = [{parts}]\n"
        f"new RegExp({body}, {flags}).test(before + pump.repeat({witness.times}) + after)"
    )
