"""What a worker reads in a trigger for people: key words, operands and traced copy; and answers of another form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attacks.driver import CONTEXT, NOW, Driver

from sandbox import Failed, Fired, Quiet, Reading, SandboxLimits
from sandbox.errors import ProtocolError
from sandbox.javascript import tracing
from sandbox.protocol import MOST_WORDS, reading, words

SOURCES = (
    "match_keys(context.messages, ['芒果', \"mum's\", /下雨|大雨/, /a[b]c/]) > 0 || match_keys(x, ['芒果'])",
    "new Date().getMonth() === 5 && context.messages.length > 0",
    "const hit = match_keys_all(context.messages, ['tea', 'milk']);\nif (hit) { return true }\nfalse",
    "if (",
    "",
    "match_keys(context.messages, ['\\ud800'])",
)


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    driver = Driver(SandboxLimits(), workers=1)
    yield driver
    driver.close()


def test_the_key_words_of_triggers_are_read_from_their_code(driver: Driver) -> None:
    first, second, third, *others = driver.run(driver.sandbox.words_of(SOURCES))
    assert first == ("芒果", "mum's", "下雨", "大雨")
    assert (second, third) == ((), ("tea", "milk"))
    assert len(others) == 3


def test_many_triggers_are_read_in_parts_and_in_their_order(driver: Driver) -> None:
    sources = [f"match_keys(context.messages, ['w{number}'])" for number in range(450)]
    assert driver.run(driver.sandbox.words_of(sources)) == tuple(
        (f"w{number}",) for number in range(450)
    )


@pytest.mark.parametrize("source", SOURCES)
def test_a_worker_reads_what_the_workbench_reads(driver: Driver, source: str) -> None:
    read = driver.run(driver.sandbox.read(source))
    operands = [(operand.number, operand.depth, operand.text) for operand in read.operands]
    of_workbench = tracing.operands(tracing.syntax.parse(source))
    assert operands == [(operand.number, operand.depth, operand.text) for operand in of_workbench]
    own = tracing.copy_of(source)
    assert (read.copy is None) == (own is None)
    if read.copy is not None and own is not None:
        assert read.copy.source.replace(read.copy.probe, own.probe) == own.source


def test_a_copy_that_a_worker_made_gives_a_trace(driver: Driver) -> None:
    source = "1 > 2 || context.messages.length > 0"
    read = driver.run(driver.sandbox.read(source))
    report = driver.run(driver.sandbox.run(source, CONTEXT, now=NOW, seed=1, copy=read.copy))
    assert isinstance(report.verdict, Fired)
    assert "operands" in report.trace[-1]


def test_what_is_too_long_or_kills_its_reader_is_not_read(driver: Driver) -> None:
    long = "a" * (driver.sandbox.limits.max_source_chars + 1)
    assert driver.run(driver.sandbox.read(long)) == Reading()
    assert driver.run(driver.sandbox.words_of(["(" * 3_000_000, "match_keys(x, ['tea'])"])) in (
        ((), ("tea",)),
        ((), ()),
    )


def test_a_trigger_that_was_tried_is_checked_without_another_run(driver: Driver) -> None:
    report = driver.run(driver.sandbox.check_after("nowhere.x", Quiet(1), now=NOW))
    assert [problem.kind for problem in report.errors] == ["reference"]
    timeout = Failed("timeout", "stopped after 1.00 s", None, None, 1_000_000)
    report = driver.run(driver.sandbox.check_after("while (true);", timeout, now=NOW))
    assert [problem.kind for problem in report.errors] == ["timeout"]


OPERAND = [0, 0, "", "a", 0, 1, False]
COPY = ["probe_0123456789abcdef(0,(a))", "probe_0123456789abcdef"]


def test_an_answer_of_the_right_form_is_believed() -> None:
    read = reading({"reading": [[[OPERAND], COPY]]}, "a")
    assert (read.operands[0].text, read.copy is not None and read.copy.original) == ("a", "a")
    assert words({"words": [["a\x1b"], []]}, 2) == [("a\ufffd",), ()]


@pytest.mark.parametrize(
    ("check", "body"),
    [
        *(
            (lambda body: words(body, 1), body)
            for body in (
                {},
                {"words": []},
                {"words": [[], []]},
                {"words": ["a"]},
                {"words": [[1]]},
                {"words": [["a"] * (MOST_WORDS + 1)]},
            )
        ),
        *(
            (lambda body: reading(body, "a"), {"reading": answer})
            for answer in (
                [],
                [[[OPERAND], COPY]] * 2,
                [[[OPERAND], COPY[:1]]],
                [[[OPERAND], ["a" * 1_000_001, COPY[1]]]],
                [[[OPERAND], [COPY[0], "process.exit"]]],
                [[[OPERAND], [1, COPY[1]]]],
                [[[OPERAND[:5]], None]],
                [[[OPERAND[:6]], None]],
                [[[[-1, *OPERAND[1:]]], None]],
                [[[OPERAND] * 251, None]],
                [[[[0, 0, "", 7, 0, 1, False]], None]],
            )
        ),
    ],
)
def test_an_answer_of_another_form_is_refused(
    check: Callable[[dict[str, Any]], object], body: dict[str, Any]
) -> None:
    with pytest.raises(ProtocolError):
        check(body)
