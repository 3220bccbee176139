"""A trigger that does not run would have been quiet: what needs.py says against what V8 does, on random triggers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from random_triggers import Chance

from sandbox import Failed, Quiet, SandboxLimits, TriggerSandbox
from sandbox.host import candidates
from sandbox.host.candidates import Candidates
from sandbox.javascript import needs, sought

TOGETHER = 400
LIMITS = SandboxLimits(search_seconds=60, trigger_seconds=10, sprint_seconds=10)


async def differences(
    count: int, seed: int, enough: int = 10**9, zone: str = "Pacific/Kiritimati"
) -> tuple[list[str], Counter[str]]:
    """Triggers that would not run and were not quiet, each with its chat, and how many were what. Stops at `enough`."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    async with TriggerSandbox(LIMITS, timezone=zone, workers=1, spare=False) as sandbox:  # always asks V8
        for number in range(count // TOGETHER):
            chance = Chance(seed * 1_000_003 + number)
            sources = [chance.trigger() for _ in range(TOGETHER)]
            read = Candidates()
            for source in sources:
                read.read(source)
            run = set(read.among(sources, chance.context, chance.now))
            verdicts = await sandbox.evaluate(sources, chance.context, now=chance.now, seed=number)
            if any(isinstance(verdict, Failed) and verdict.kind == "not_evaluated" for verdict in verdicts):
                continue  # the machine was asleep
            for index, verdict in enumerate(verdicts):
                quiet = isinstance(verdict, Quiet)
                counts["run" if index in run else "not run", "quiet" if quiet else "not quiet"] += 1
                if index not in run and not quiet:
                    wrong.append(f"{sources[index]!r} {verdict} {chance.context} {chance.now}")
            if len(wrong) >= enough:
                break
    return wrong, counts


def shown(wrong: list[str]) -> str:
    return "\n".join(wrong[:5])


def test_no_trigger_that_is_true_or_fails_is_left_out() -> None:
    wrong, counts = asyncio.run(differences(4_000, seed=1))
    assert not wrong, shown(wrong)
    assert counts["not run", "quiet"] > 400, "too few to mean anything"


@pytest.mark.full
def test_no_trigger_that_is_true_or_fails_is_left_out_of_a_hundred_thousand() -> None:
    wrong, counts = asyncio.run(differences(100_000, seed=2, zone="America/Los_Angeles"))
    assert not wrong, shown(wrong)
    assert counts["not run", "quiet"] > 20_000


def glue(change: pytest.MonkeyPatch) -> None:
    """Words reach from one message over to the next."""
    real = sought.word_need
    change.setattr(sought, "word_need", lambda text, window, glue: real(text, window, None))


def depth(change: pytest.MonkeyPatch) -> None:
    """Depths become smaller instead of greater."""
    real = sought.nearer
    less = {2: 1, 4: 2, 8: 4, 16: 8}
    change.setattr(needs, "nearer", lambda one, other: less.get(real(one, other), real(one, other)))


def cut(change: pytest.MonkeyPatch) -> None:
    """The last of a part of the messages count as the last of all."""
    real = needs._Reader._of_messages
    change.setattr(needs._Reader, "_of_messages", lambda self, messages, name: _exact(real(self, messages, name)))


def _exact(value: needs.Value) -> needs.Value:
    return replace(value, exact=True)


def case(change: pytest.MonkeyPatch) -> None:
    """Capitals are other letters."""
    for module in (sought, candidates):
        change.setattr(module, "normal", str)


def spelled(change: pytest.MonkeyPatch) -> None:
    """Traditional characters and full-width letters are other letters."""
    change.setattr(sought, "folded", lambda text: text)


def disguised(change: pytest.MonkeyPatch) -> None:
    """A sign that nobody sees is a letter."""
    change.setattr(candidates, "forms_of", lambda text: [text])


def null(change: pytest.MonkeyPatch) -> None:
    """What is not there is 0, which is smaller than 1 and equal to false."""
    real = needs._compared

    def compared(left: needs.Value, sign: str, right: needs.Value) -> needs.Value:
        if left.kind == right.kind == "known" and type(left.usual) is not type(right.usual):
            return needs.known(sign[0] == "!", needs.either(left.unless, right.unless))
        return real(left, sign, right)

    change.setattr(needs, "_compared", compared)


def thing(change: pytest.MonkeyPatch) -> None:
    """Objects can be compared with numbers."""
    change.setattr(needs.Value, "safe", True)


def every(change: pytest.MonkeyPatch) -> None:
    """No list is empty."""
    real = needs._Reader._of_messages

    def of_messages(self: Any, messages: needs.Value, name: str) -> needs.Value:
        return real(self, _exact(messages) if name == "every" else messages, name)

    change.setattr(needs._Reader, "_of_messages", of_messages)


def either(change: pytest.MonkeyPatch) -> None:
    """`A || B` needs both."""
    change.setattr(needs._Reader, "_or", lambda self: self._joined("||", self._and, needs.both, needs.either))


def today(change: pytest.MonkeyPatch) -> None:
    """The date is that of UTC."""

    def facts(context: Any, now: Any) -> Iterator[sought.Atom]:
        yield "conversation_id", context["conversation_id"]
        yield from (("getMonth", float(now.month - 1)), ("getDate", float(now.day)))
        yield from (("getDay", float(now.isoweekday() % 7)), ("getFullYear", float(now.year)))

    change.setattr(candidates, "_facts", facts)


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    *(glue, depth, cut, case, spelled, disguised, null, thing, every, either, today),
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_rule_is_noticed(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    wrong, _ = asyncio.run(differences(40_000, seed=3, enough=1))
    assert wrong, mutant.__doc__
