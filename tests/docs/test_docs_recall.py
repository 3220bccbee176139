"""The numbers in the tables of the recall page are those of the code."""

from __future__ import annotations

import math
import re

import pytest
from docs.markdown_pages import page

from memory_server.conversations.archive import KEEP_MS
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import (
    NODE_RETENTION,
    USUAL,
    Parameters,
    RecallParameters,
    RetentionParameters,
)
from memory_server.conversations.recall.relevance import decay
from memory_server.conversations.recall.retention import plan_cleanup
from memory_server.kernel.times import DAY_MS
from nlp import ROLE_WEIGHTS

TEXT = page("docs/explanation/recall.md").text


def rows(section: str) -> list[tuple[float, ...]]:
    part = TEXT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    table = re.findall(r"^\| ([\d.]+) \| ([\d.]+)(?: \| ([\d.]+))? \|$", part, re.MULTILINE)
    return [_numbers(row) for row in table]


def _numbers(row: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(float(cell) for cell in row if cell)


@pytest.mark.parametrize(("days", "lost"), rows("Decay and half-life"))
def test_the_table_of_decay(days: float, lost: float) -> None:
    assert f"{decay(round(days * DAY_MS), USUAL):.2f}" == f"{lost:.2f}"


@pytest.mark.parametrize(("a_day", "days"), [(10, 2000), (200, 100)])
def test_how_long_everything_is_kept(a_day: float, days: float) -> None:
    assert a_day * days == RetentionParameters().always_kept
    said = (
        "At 10 exchanges a day it takes 2000 days to reach that number; at 200 exchanges, 100 days."
    )
    assert said in " ".join(TEXT.split())


@pytest.mark.parametrize(
    ("memory", "score", "days"),
    [
        ("never recalled", 0, 2.35),
        ("score 2", USUAL.next_reinforcement, 3.64),
        ("score 5", USUAL.top_reinforcement, 6.36),
    ],
)
def test_the_table_of_what_may_go_when(memory: str, score: float, days: float) -> None:
    assert re.search(rf"^\| [^|]*{memory}[^|]* \| {days} days", TEXT, re.MULTILINE)
    keep = RetentionParameters(always_kept=0)
    for age, goes in ((days - 0.01, 0), (days + 0.01, 1)):
        memory_record = ShortTermMemory("m", 0, "", (), (), score, "c")
        forgotten = plan_cleanup(
            [memory_record], round(age * DAY_MS), Parameters(retention=keep)
        ).forgotten
        assert len(forgotten) == goes


@pytest.mark.parametrize(("score", "reasons"), [(9.9, ["faded"]), (10.0, [])])
def test_what_was_recalled_to_a_score_of_10_only_goes_by_its_age(
    score: float, reasons: list[str]
) -> None:
    assert re.search(r"^\| recalled to a score of 10 or more \| 365 days", TEXT, re.MULTILINE)
    assert _reasons_to_forget(score, 365 * DAY_MS) == reasons
    assert _reasons_to_forget(score, 365 * DAY_MS + 1) == ["too_old"]


def _reasons_to_forget(score: float, age_ms: int) -> list[str]:
    """Why a memory goes that was recalled to `score`, where no memory is kept for being one of few."""
    memory = ShortTermMemory("m", 0, "", (), (), score, "c")
    keep_none = Parameters(retention=RetentionParameters(always_kept=0))
    return [forgotten.reason for forgotten in plan_cleanup([memory], age_ms, keep_none).forgotten]


def test_the_table_is_found() -> None:
    assert len(rows("Decay and half-life")) == 6


def test_the_constants_in_the_prose() -> None:
    half_life = math.log(2) / USUAL.decay_per_ms / DAY_MS
    constant = 1 / USUAL.decay_per_ms / DAY_MS
    retention = RetentionParameters()
    full_score = USUAL.flashback_score_full
    sentences = (
        f"{half_life:.2f} days; this is the half-life",
        f"is {constant:.2f} days",
        f"never more than {USUAL.decay_ceiling:g}",
        f"enough points: {USUAL.least_match:g} among 300 memories",
        f"comes from **{RecallParameters().threshold:g}** points of relevance",
        f"top gains {USUAL.top_reinforcement:g} score points, as next {USUAL.next_reinforcement:g}, up to",
        f"up to {USUAL.score_ceiling:g}. A flashback",
        f"older than {retention.max_age_ms // DAY_MS:g} days",
        f"up to **{retention.always_kept}** memories",
        f"lies below −{-retention.min_relevance:g}",
        f"at most {retention.most_at_once} in one run",
        f"1 + {USUAL.flashback_recency_weight:g} · max(0, 1 − age ÷ {USUAL.flashback_horizon_ms // DAY_MS} days)",
        f"+ {USUAL.flashback_score_weight:g} · min(max(score, 0), {full_score:g}) ÷ {full_score:g}",
        f"original's: {NODE_RETENTION.always_kept} in place of {retention.always_kept}",
        f"forgotten memory stays {KEEP_MS // DAY_MS:g} days in the",
        f"user {ROLE_WEIGHTS['user']}, assistant {ROLE_WEIGHTS['assistant']}, system {ROLE_WEIGHTS['system']}",
        f"first {USUAL.top_count} are **top**, the following {USUAL.next_count} is **next**",
    )
    plain = " ".join(TEXT.split())
    assert not [sentence for sentence in sentences if sentence not in plain]
