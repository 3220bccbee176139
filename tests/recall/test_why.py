"""Every rule that holds a memory back, and everything that a near miss may lack, has a sentence of its own."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from memory_server.conversations.recall import why
from memory_server.conversations.recall.order import NearMiss
from memory_server.conversations.recall.selection import HeldBack
from memory_server.kernel.recorded_recall import recorded_recall

LACKED = get_args(get_type_hints(NearMiss)["lacked"])
WORDS: list[dict[str, float]] = [{}, {"mango": 2.0}]


RULES = ("too_recent", "same_moment", "in_context", "muted")
"""As the record of recalls names the fields of `HeldBack`."""
assert len(RULES) == len(fields(HeldBack))


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_says_one_and_many(rule: str) -> None:
    single = why.held_back(rule, 1)
    many = why.held_back(rule, 3)
    assert single.startswith("1 ")
    assert many.startswith("3 ")
    assert f"({rule})" not in single, "a rule of ours has words of its own"


def test_a_rule_of_another_version_is_counted_by_its_name() -> None:
    assert why.held_back("too_loud", 2) == "2 were held back (too_loud)."


@pytest.mark.parametrize("words", WORDS)
def test_each_near_miss_says_something_else(words: dict[str, float]) -> None:
    near = [
        {"id": lacked, "tier": "near", "lacked": lacked, "points": 0.7, "words": words}
        for lacked in LACKED
    ]
    items = recorded_recall({"near": near}).near
    sentences = [why.near_miss_text(item, zh=False) for item in items]
    assert len(sentences) == len(set(sentences)) == len(LACKED)
    assert any("0.7 points too few" in sentence for sentence in sentences)


@pytest.mark.parametrize("points", [0.0, 1e-9, 0.04, 0.0499])
def test_what_lacks_something_does_not_lack_nothing(points: float) -> None:
    assert "0.0 of" not in why.lacks_points(points, 19.8, shares_words=True)
    item = {"id": "a", "lacked": "points", "points": points, "words": {"mango": 2.0}}
    [near] = recorded_recall({"id": "x", "at": "2026-01-01T00:00:00Z", "near": [item]}).near
    assert "less than 0.1" in why.near_miss_text(near, "mango?", zh=False)


@pytest.mark.parametrize(
    ("counted", "needed"), [(19.75, 19.8), (20.4, 20.2), (20.0, 20.0), (19.4, 19.6), (-1.0, 0.5)]
)
def test_whole_points_stand_to_each_other_as_the_points_do(counted: float, needed: float) -> None:
    whole = why.WholePoints.of(counted, needed)
    assert (whole.counted < whole.needed) == (counted < needed)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "a mango and a cake",
            "only “mango” and “cake” are in both, too little for this home: 0.7 points too few",
        ),
        ("commit this", "only “mango” and “cake” of the messages before are the same"),
    ],
)
def test_words_of_the_messages_before_are_not_said_to_be_in_the_last_one(
    said: str, sentence: str
) -> None:
    item = {"id": "a", "lacked": "points", "points": 0.7, "words": {"mango": 2.0, "cake": 1.0}}
    [near] = recorded_recall({"id": "x", "at": "2026-01-01T00:00:00Z", "near": [item]}).near
    assert why.near_miss_text(near, said, zh=False) == sentence
