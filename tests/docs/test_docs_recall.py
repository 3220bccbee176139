"""The numbers in the tables of the recall page are those of the code."""

from __future__ import annotations

import math
import re

import pytest
from docs.markdown_pages import page

from memory_server.conversations.archive import KEEP_MS
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.flashbacks import flashback_weight
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
    found = re.findall(r"^\| ([\d.]+) \| ([\d.]+)(?: \| ([\d.]+))? \|$", part, re.MULTILINE)
    return [tuple(float(cell) for cell in row if cell) for row in found]


@pytest.mark.parametrize(("days", "lost"), rows("Decay and half-life"))
def test_the_table_of_decay(days: float, lost: float) -> None:
    assert f"{decay(round(days * DAY_MS), USUAL):.2f}" == f"{lost:.2f}"


@pytest.mark.parametrize(("days", "score", "weight"), rows("Flashbacks"))
def test_the_table_of_flashbacks(days: float, score: float, weight: float) -> None:
    memory = ShortTermMemory("m", 0, "", (), (), score, "c")
    assert f"{flashback_weight(memory, round(days * DAY_MS), USUAL):.2f}" == f"{weight:.2f}"


@pytest.mark.parametrize(("a_day", "days"), rows("Forgetting"))
def test_the_table_of_how_long_everything_is_kept(a_day: float, days: float) -> None:
    assert a_day * days == RetentionParameters().always_kept


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
        one = ShortTermMemory("m", 0, "", (), (), score, "c")
        found = plan_cleanup([one], round(age * DAY_MS), Parameters(retention=keep)).forgotten
        assert len(found) == goes


@pytest.mark.parametrize(("score", "goes"), [(9.9, "faded"), (10.0, None)])
def test_what_was_recalled_to_a_score_of_10_only_goes_by_its_age(score: float, goes: str | None) -> None:
    assert re.search(r"^\| recalled to a score of 10 or more \| 365 days", TEXT, re.MULTILINE)
    keep, one = (
        Parameters(retention=RetentionParameters(always_kept=0)),
        ShortTermMemory("m", 0, "", (), (), score, "c"),
    )
    assert [f.reason for f in plan_cleanup([one], 365 * DAY_MS, keep).forgotten] == ([goes] if goes else [])
    assert [f.reason for f in plan_cleanup([one], 365 * DAY_MS + 1, keep).forgotten] == ["too_old"]


def test_the_tables_are_found() -> None:
    assert len(rows("Forgetting")) == 4
    assert len(rows("Decay and half-life")) == 8
    assert len(rows("Flashbacks")) == 5


def test_the_constants_in_the_prose() -> None:
    half_life, constant = math.log(2) / USUAL.decay_per_ms / DAY_MS, 1 / USUAL.decay_per_ms / DAY_MS
    kept = RetentionParameters()
    said = (
        f"{half_life:.2f} days; this is the half-life",
        f"is {constant:.2f} days",
        f"never more than {USUAL.decay_ceiling:g}",
        f"enough points: {USUAL.least_match:g} among 300 memories",
        f"comes from **{RecallParameters().threshold:g}** points of relevance",
        f"top gains {USUAL.top_reinforcement:g} score points, as next {USUAL.next_reinforcement:g}, up to",
        f"up to {USUAL.score_ceiling:g}. A flashback",
        f"older than {kept.max_age_ms // DAY_MS:g} days",
        f"up to **{kept.always_kept}** memories",
        f"lies below −{-kept.min_relevance:g}",
        f"at most {kept.most_at_once} in one run",
        f"original's: {NODE_RETENTION.always_kept} in place of {kept.always_kept}",
        f"What goes lies {KEEP_MS // DAY_MS:g} days",
        f"user {ROLE_WEIGHTS['user']}, assistant {ROLE_WEIGHTS['assistant']}, system {ROLE_WEIGHTS['system']}",
        f"first {USUAL.top_count} are **top**, the following {USUAL.next_count} is **next**",
    )
    plain = " ".join(TEXT.split())
    assert not [sentence for sentence in said if sentence not in plain]


def test_the_worked_example_adds_up() -> None:
    numbers = [float(n) for n in re.findall(r"\*\*(\d+\.\d+)\*\*", TEXT.split("## A worked example")[1])[:4]]
    kept, asked, together, lost = numbers
    assert f"{kept + asked:.1f}" == f"{together:.1f}"
    assert f"{together - lost + 5:.2f}" == "77.93"
