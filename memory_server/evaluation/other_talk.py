"""Other talk before a question: a search is made with the last few messages, and not all of them are about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from memory_server.evaluation.dataset import Dataset, Question, Turn

APART_MS = 30_000
"""From one message to the next, and from the last one to the question."""

_FAR = 4
"""Of a single chat, the part that may be talked about: the quarter that lies farthest from the answer."""


def with_other_talk(dataset: Dataset, count: int, seed: int) -> Dataset:
    """The same questions, each asked after `count` messages of another chat of the data set that followed each other.

    Drawn evenly, first the chat and then the place in it, by `seed` and the question's id: whichever other questions
    are asked, it stays the same. Of the chats those count whose questions have the same language; where there is no
    other chat, the messages are of the same one, far from what answers the question. Nobody's name comes with them.
    """
    chats: dict[str, list[Turn]] = {}
    for turn in dataset.turns:
        chats.setdefault(turn.conversation_id, []).append(turn)
    by_language: dict[str, set[str]] = {}
    for question in dataset.questions:
        by_language.setdefault(question.language, set()).add(question.conversation_id)

    def asked(question: Question) -> Question:
        rng = Random(f"{seed} {question.id}")
        others = [name for name in chats if name != question.conversation_id]
        alike = [name for name in others if name in by_language[question.language]]
        if others:
            run = run_of(chats[rng.choice(alike or others)], count, rng)
        else:
            run = _far(question, chats.get(question.conversation_id, ()), count, rng)
        return replace(question, before=just_said(run, question.asked_ms))

    return replace(dataset, questions=tuple(map(asked, dataset.questions))) if count else dataset


def run_of(chat: Sequence[Turn], count: int, rng: Random) -> Sequence[Turn]:
    """So many turns of `chat` that followed each other, drawn evenly; all of them where it has no more."""
    first = rng.randrange(max(1, len(chat) - count + 1))
    return chat[first : first + count]


def just_said(run: Sequence[Turn], now_ms: int) -> tuple[Turn, ...]:
    """The same turns as if the last of them had been said just before `now_ms`, by nobody in particular."""
    return tuple(
        replace(turn, time_ms=now_ms - (len(run) - number) * APART_MS, name=None) for number, turn in enumerate(run)
    )


def _far(question: Question, own: Sequence[Turn], count: int, rng: Random) -> Sequence[Turn]:
    """A run of the question's own chat; none where every run is as near to its answer as it is long."""
    gold = [place for place, turn in enumerate(own) if turn.id in question.gold]

    def distance(first: int) -> int:
        return min((max(first - place, place - (first + count - 1)) for place in gold), default=count + 1)

    runs = [first for first in range(len(own) - count + 1) if distance(first) > count]
    runs.sort(key=distance, reverse=True)
    if not runs:
        return ()
    first = rng.choice(runs[: max(1, len(runs) // _FAR)] if gold else runs)
    return own[first : first + count]
