"""Asks every question of every ranker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from memory_server.evaluation.dataset import Question, Unit
from memory_server.evaluation.metrics import Cluster, Outcome, Scores, evidence, hit, ndcg, score
from memory_server.evaluation.rankers import Maker, Ranker, Ranking

Scope = Literal["own", "all"]
"""Whether a question is asked of the memories of its own conversation, or of those of all together."""

Grouping = Literal["language", "kind"]

EVERYTHING = "all"
"""The group of all questions."""


Asked = tuple[Question, Mapping[str, Outcome]]
"""One question, and how each ranker did, by the ranker's name."""


def shelves(
    questions: Sequence[Question], units: Sequence[Unit], scope: Scope, rankers: Mapping[str, Maker]
) -> Iterator[tuple[Sequence[Question], Sequence[Unit], Mapping[str, Ranker]]]:
    """The questions that are asked of the same memories, with these memories and the rankers made of them."""
    asked: dict[str, list[Question]] = {}
    for question in questions:
        asked.setdefault(question.conversation_id if scope == "own" else "", []).append(question)
    searched: dict[str, list[Unit]] = {}
    for unit in units:
        searched.setdefault(unit.conversation_id if scope == "own" else "", []).append(unit)
    for name, members in asked.items():
        yield members, searched[name], {ranker: make(searched[name]) for ranker, make in rankers.items()}


def ask_all(
    questions: Sequence[Question], units: Sequence[Unit], *, scope: Scope, rankers: Mapping[str, Maker]
) -> Iterator[Asked]:
    """Ask the questions, conversation by conversation."""
    for asked, searched, made in shelves(questions, units, scope, rankers):
        holder = {turn.id: unit.id for unit in searched for turn in unit.turns}
        for question in asked:
            yield question, {name: _outcome(ranker, question, holder) for name, ranker in made.items()}


def _outcome(ranker: Ranker, question: Question, holder: Mapping[str, str]) -> Outcome:
    given = ranker.given(question)
    if not question.answerable:
        return {"silent": float(not given)}
    right = Counter(holder[turn_id] for turn_id in question.gold & holder.keys())

    def tiers(ranking: Ranking) -> list[list[int]]:
        return [[right[unit.id] for unit in tier] for tier in ranking]

    found = tiers(given)
    alone = tiers(ranker.given(replace(question, before=()))) if question.before else found
    return {
        **{f"recallAt{places}": hit(found, places) for places in (1, 3, 5)},
        "recallAt3Alone": hit(alone, 3),
        "evidenceAt5": evidence(found, len(question.gold)),
        "ndcgAt5": ndcg(found, len(right)),
        "speaking": float(bool(given)),
    }


def scores_by(asked: Sequence[Asked], grouping: Grouping, seed: int) -> dict[str, dict[str, Scores]]:
    """Group -> ranker -> figures. The first group is that of all questions; it stands alone where no other differs."""
    groups: dict[str, list[Asked]] = {EVERYTHING: list(asked)}
    for one in asked:
        label: str = getattr(one[0], grouping)
        if label and label != EVERYTHING:
            groups.setdefault(label, []).append(one)
    if len(groups) == 2:
        groups = {EVERYTHING: groups[EVERYTHING]}
    return {
        group: score(
            {name: [outcomes[name] for _, outcomes in members] for name in members[0][1]},
            clusters([question for question, _ in members]),
            seed,
        )
        for group, members in groups.items()
    }


def clusters(questions: Sequence[Question]) -> list[Cluster]:
    """What each question is drawn with when intervals are made. Those with the same answer are one base question."""
    return [(question.conversation_id, question.gold or question.id) for question in questions]
