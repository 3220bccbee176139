"""A trigger that does not run would have been quiet: what needs.py says against what V8 does, on random triggers."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from attacks.driver import Driver
from random_triggers import Chance

from sandbox import Failed, Fired, Quiet, SandboxLimits, TriggerSandbox, Verdict
from sandbox.host import candidates
from sandbox.host.candidates import Candidates
from sandbox.javascript import need_values, needs, sought
from sandbox.javascript.need_values import Usual, Value, usually
from sandbox.prospects import Atom

TOGETHER = 400
LIMITS = SandboxLimits(search_seconds=60, trigger_seconds=10, sprint_seconds=10)


async def differences(
    count: int, seed: int, enough: int = 10**9, zone: str = "Pacific/Kiritimati"
) -> tuple[list[str], Counter[type[Verdict]]]:
    """Triggers that would not run and got another verdict than they would have without running, each with its chat; and
    how many had the same verdict, by its kind. Stops at `enough`."""
    wrong: list[str] = []
    right: Counter[type[Verdict]] = Counter()
    async with TriggerSandbox(
        LIMITS, timezone=zone, workers=1, spare=False
    ) as sandbox:  # always asks V8
        for number in range(count // TOGETHER):
            chance = Chance(seed * 1_000_003 + number)
            sources = [chance.trigger() for _ in range(TOGETHER)]
            read = Candidates()
            for source in sources:
                read.learn(source, needs.prospect_of(source))
            selection = read.select(sources, chance.context, chance.now)
            running = set(selection.running)
            firing = set(selection.firing)
            firings = {}
            if chance.last_fired is not None:
                firings = dict.fromkeys(range(len(sources)), chance.last_fired)
            ran = await sandbox.judge(
                sources, chance.context, now=chance.now, seed=number, last_fired=firings
            )
            verdicts = [ran[index] for index in range(len(sources))]
            if any(
                isinstance(verdict, Failed) and verdict.kind == "not_evaluated"
                for verdict in verdicts
            ):
                continue  # the machine was asleep
            for index, verdict in enumerate(verdicts):
                if index in running:
                    continue
                expected: type[Verdict] = Quiet
                if index in firing:
                    expected = Fired
                if isinstance(verdict, expected):
                    right[expected] += 1
                else:
                    wrong.append(f"{sources[index]!r} {verdict} {chance.context} {chance.now}")
            if len(wrong) >= enough:
                break
    return wrong, right


def shown(wrong: list[str]) -> str:
    return "\n".join(wrong[:5])


def test_no_trigger_that_is_true_or_fails_is_left_out() -> None:
    wrong, right = asyncio.run(differences(2_000, seed=1))
    assert not wrong, shown(wrong)
    assert right[Quiet] > 200, "too few to mean anything"
    assert right[Fired] > 10, "too few to mean anything"


@pytest.mark.full
def test_no_trigger_that_is_true_or_fails_is_left_out_of_a_hundred_thousand() -> None:
    wrong, right = asyncio.run(differences(100_000, seed=2, zone="America/Los_Angeles"))
    assert not wrong, shown(wrong)
    assert right[Quiet] > 20_000


def glue(change: pytest.MonkeyPatch) -> None:
    """Words reach from one message over to the next."""
    real = sought.word_need
    change.setattr(sought, "word_need", lambda text, window, glue: real(text, window, None))


def depth(change: pytest.MonkeyPatch) -> None:
    """Depths become smaller instead of greater."""
    real = sought.nearer
    less = {2: 1, 4: 2, 8: 4, 16: 8}
    change.setattr(
        needs, "nearer", lambda first, second: less.get(real(first, second), real(first, second))
    )


def cut(change: pytest.MonkeyPatch) -> None:
    """The last of a part of the messages count as the last of all."""
    real = needs.sliced
    change.setattr(needs, "sliced", lambda messages, start: _exact(real(messages, start)))


def _exact(messages: need_values.Messages) -> need_values.Messages:
    return replace(messages, is_exact=True)


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
    real = needs.compared

    def compared(first: Value, sign: str, second: Value) -> Value:
        if not (isinstance(first, Usual) and isinstance(second, Usual)) or type(
            first.usual
        ) is type(second.usual):
            return real(first, sign, second)
        return usually(sign[0] == "!", sought.either(first.unless, second.unless))

    change.setattr(needs, "compared", compared)


def thing(change: pytest.MonkeyPatch) -> None:
    """Objects can be compared with numbers."""
    change.setattr(Value, "is_primitive", True)


def every(change: pytest.MonkeyPatch) -> None:
    """No list is empty."""
    real = needs._Reader._method_of_messages

    def method(
        self: Any, messages: need_values.Messages, name: str, arguments: Any, around: Any
    ) -> Value:
        if name == "every":
            messages = _exact(messages)
        return real(self, messages, name, arguments, around)

    change.setattr(needs._Reader, "_method_of_messages", method)


def either(change: pytest.MonkeyPatch) -> None:
    """`A || B` needs both."""
    real = needs._Reader._joined

    def joined(
        self: Any, node: Any, operator: str, around: Any, *, true: needs.Join, false: needs.Join
    ) -> Value:
        if operator == "||":
            return real(self, node, operator, around, true=sought.both, false=sought.either)
        return real(self, node, operator, around, true=true, false=false)

    change.setattr(needs._Reader, "_joined", joined)


def today(change: pytest.MonkeyPatch) -> None:
    """The date is that of UTC."""

    def facts(context: Any, now: Any) -> Iterator[Atom]:
        yield "conversation_id", context["conversation_id"]
        yield from (("getMonth", float(now.month - 1)), ("getDate", float(now.day)))
        yield from (("getDay", float(now.isoweekday() % 7)), ("getFullYear", float(now.year)))

    change.setattr(candidates, "_facts", facts)


def always(change: pytest.MonkeyPatch) -> None:
    """What is usually true is always true."""
    change.setattr(Usual, "is_constant", True)


def classes(change: pytest.MonkeyPatch) -> None:
    """A class of characters is a text."""
    real = sought.pattern_need
    change.setattr(
        needs,
        "pattern_need",
        lambda literal, window, glue: real(re.sub(r"[][]", "", literal), window, glue),
    )


def never_fails(change: pytest.MonkeyPatch) -> None:
    """A month and a day that do not exist are a day that never comes."""
    change.setattr(needs, "most_days", lambda function, month: 99)


def leap_day(change: pytest.MonkeyPatch) -> None:
    """29 February is no day of other years."""
    real = needs._Reader._day_test

    def day_test(self: Any, function: str, arguments: Any) -> Value:
        value = real(self, function, arguments)
        if isinstance(value, Usual) and value.unless == frozenset([("getMonth", 1.0)]):
            return usually(False, frozenset([("getDate", 29.0)]))
        return value

    change.setattr(needs._Reader, "_day_test", day_test)


def unguarded(change: pytest.MonkeyPatch) -> None:
    """After any operand `context.last_fired` is not null."""
    change.setattr(needs._Reader, "_is_null_test", lambda self, operand, operator: True)


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    *(
        glue,
        depth,
        cut,
        case,
        spelled,
        disguised,
        null,
        thing,
        every,
        either,
        today,
        always,
        classes,
    ),
    *(never_fails, leap_day, unguarded),
]


SEEDS = {leap_day: 1079}
"""The seeds of mutants that the first triggers of seed 3 do not show. Few triggers ask for 29 February; the first chat
of seed 1079 is of 28 February, and one of its triggers does."""
IN_SHORT = (depth, null, always, leap_day)
"""Each of the others takes as long, 1 s of processor time."""
ONLY_IN_FULL = [mutant for mutant in MUTANTS if mutant not in IN_SHORT]


@pytest.mark.parametrize(
    "mutant",
    [*IN_SHORT, *(pytest.param(mutant, marks=pytest.mark.full) for mutant in ONLY_IN_FULL)],
)
def test_a_wrong_rule_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    wrong, _ = asyncio.run(differences(40_000, seed=SEEDS.get(mutant, 3), enough=1))
    assert wrong, mutant.__doc__


@pytest.mark.parametrize(
    ("key", "content"),
    [
        (r"e\u0301", "caf\u00e9"),
        (r"e\u00ad\u0301", "caf\u00e9"),
        (r"\u0065\u0301 au", "\u00e9 au"),
        (r"\u0065́ au", "\u00e9 au"),
        (r"ạ\u0302", "\u1ead"),
        (r"ㄱ\u314f", "\uac00"),
        (r"\u0041̊ x", "\u00c5 x"),
    ],
)
def test_an_escape_in_a_key_is_joined_with_what_is_beside_it(
    driver: Driver, key: str, content: str
) -> None:
    source = f"match_keys(context.messages, ['{key}']) > 0"
    context = {
        "messages": [{"role": "user", "content": content}],
        "conversation_id": "a",
        "participants": {},
    }
    now = datetime(2026, 7, 1, tzinfo=UTC)
    (verdict,) = driver.run(driver.sandbox.evaluate([source], context, now=now, seed=1))
    assert isinstance(verdict, Fired)
    read = Candidates()
    read.learn(source, needs.prospect_of(source))
    assert 0 in read.select([source], context, now).running
