"""docs/reference/trigger-api.md says what is so: every example on it comes out as its mark says."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from attacks.driver import Driver, outcome

from sandbox import FailureKind, Limits

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "trigger-api.md").read_text(encoding="utf-8")
CONTEXT = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
EXAMPLES = [
    re.sub(r"^ +", "", block, flags=re.MULTILINE) for block in re.findall(r"```js\n(.*?)\n *```", PAGE, re.DOTALL)
]
MARK = re.compile(r" *// (fired|quiet|failed: (?P<kind>\w+))$")


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_reference_comes_out_as_it_says(driver: Driver, example: str) -> None:
    mark = MARK.search(example)
    assert mark is not None, "every example has a mark at its end"
    source = example[: mark.start()]
    now = datetime(2026, 7, 17, 9, 30, tzinfo=UTC)
    there = Driver(Limits(), timezone="UTC", workers=1) if "getHours" in source else driver
    try:
        (verdict,) = there.run(there.sandbox.evaluate([source], CONTEXT, now=now, seed=1))
    finally:
        if there is not driver:
            there.close()
    assert outcome(verdict) == (mark["kind"] or mark[1]), verdict


def test_the_reference_has_its_examples() -> None:
    assert len(EXAMPLES) >= 25


def test_the_limits_and_kinds_of_the_reference_are_those_of_the_code() -> None:
    limits = Limits()
    for said in (
        f"| time of one trigger | {limits.trigger_seconds:g} s |",
        f"once one has timed out | {limits.after_timeout_seconds:g} s |",
        f"| time of all triggers of a search | {limits.search_seconds:g} s |",
        f"| time of one trigger before the others are decided | {limits.sprint_seconds:g} s |",
        f"| {limits.heap_mb} MB of JavaScript objects |",
        f"| {limits.data_mb} MB for the process |",
        f"| {limits.max_source_chars:,} characters |",
        f"| triggers of a search | {limits.max_triggers:,} |",
    ):
        assert said in PAGE, said
    for kind in get_args(FailureKind):
        assert f"| `{kind}` |" in PAGE
