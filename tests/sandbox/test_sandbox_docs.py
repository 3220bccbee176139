"""docs/reference/trigger-api.md and its Chinese page say what is so: every example comes out as its mark says."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from attacks.driver import Driver, outcome

from sandbox import FailureKind, SandboxLimits

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGE, CHINESE = (
    (REFERENCE / name).read_text(encoding="utf-8")
    for name in ("trigger-api.md", "trigger-api.zh-CN.md")
)


def _examples(page: str) -> list[tuple[str, dict[str, object]]]:
    """Each trigger of a page, and the chat of the page."""
    chat = json.loads(re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0])
    blocks = re.findall(r"```js\n(.*?)\n *```", page, re.DOTALL)
    return [(re.sub(r"^ +", "", block, flags=re.MULTILINE), chat) for block in blocks]


EXAMPLES = [*_examples(PAGE), *_examples(CHINESE)]
MARK = re.compile(r" *// (fired|quiet|failed: (?P<kind>\w+))$")


@pytest.mark.parametrize(("example", "context"), EXAMPLES)
def test_an_example_of_the_reference_comes_out_as_it_says(
    driver: Driver, example: str, context: dict[str, object]
) -> None:
    """The hours of the examples are those of UTC."""
    mark = MARK.search(example)
    assert mark is not None, "every example has a mark at its end"
    source = example[: mark.start()]
    now = datetime(2026, 7, 17, 9, 30, tzinfo=UTC)
    zone = None
    if "getHours" in source:
        zone = "UTC"
    (verdict,) = driver.run(
        driver.sandbox.evaluate([source], context, now=now, seed=1, timezone=zone)
    )
    assert outcome(verdict) == (mark["kind"] or mark[1]), verdict


def test_the_reference_has_its_examples() -> None:
    assert len(EXAMPLES) >= 2 * 25


def test_the_limits_and_kinds_of_the_reference_are_those_of_the_code() -> None:
    limits = SandboxLimits()
    for row in (
        f"| time of one trigger | {limits.trigger_seconds:g} s |",
        f"once one has timed out | {limits.after_timeout_seconds:g} s |",
        f"| time of all triggers of a search | {limits.search_seconds:g} s |",
        f"| time of one trigger before the others are decided | {limits.sprint_seconds:g} s |",
        f"| {limits.heap_mb} MB of JavaScript objects |",
        f"| {limits.data_mb} MB for the process |",
        f"| {limits.max_source_chars:,} characters |",
        f"| triggers of a search | {limits.max_triggers:,} |",
    ):
        assert row in PAGE, row
    for row in (
        f"| 一个触发器的时间 | {limits.trigger_seconds:g} 秒 |",
        f"| 已有一个超时以后，其余每个触发器的时间 | {limits.after_timeout_seconds:g} 秒 |",
        f"| 一次搜索里所有触发器的时间 | {limits.search_seconds:g} 秒 |",
        f"| 其他触发器有结果之前，一个触发器的时间 | {limits.sprint_seconds:g} 秒 |",
        f"| {limits.heap_mb} MB 的 JavaScript 对象 |",
        f"| 整个进程 {limits.data_mb} MB |",
        f"| {limits.max_source_chars:,} 个字符 |",
        f"| {limits.max_triggers:,} 个 |",
    ):
        assert row in CHINESE, row
    for kind in get_args(FailureKind):
        assert f"| `{kind}` |" in PAGE
        assert f"| `{kind}` |" in CHINESE
