"""Parts of a data set, and its sessions as units: what the tables of "How good recall is" ask of what."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from bench.quality.evaluation import PAUSE_MS, Dataset, Turn, Unit

from memory_server.kernel.errors import InvalidInput

HALVES = ("even", "odd")
_NAMED = 10
"""Most conversations that an error names."""


def of_users(dataset: Dataset, conversation_ids: Collection[str]) -> Dataset:
    """The same turns, and the questions of some conversations only. Raises InvalidInput if one of the conversations
    has no questions."""
    conversations = dict.fromkeys(question.conversation_id for question in dataset.questions)
    missing = [name for name in conversation_ids if name not in conversations]
    if missing:
        names = list(conversations)[:_NAMED]
        if len(conversations) > _NAMED:
            names.append("…")
        some = ", ".join(names)
        raise InvalidInput(
            f"{dataset.name} has no questions of `{missing[0]}`; give one of {some}."
        )
    questions = tuple(
        question for question in dataset.questions if question.conversation_id in conversation_ids
    )
    return replace(dataset, questions=questions)


def half_of(dataset: Dataset, half: str) -> Dataset:
    """The same turns, and every second question: number 0, 2, 4 … of the whole, or 1, 3, 5 … Raises InvalidInput if
    there is only one question, and it is not of that half."""
    questions = dataset.questions[HALVES.index(half) :: 2]
    if not questions:
        raise InvalidInput(f"{dataset.name} has one question only, which is even: it is number 0.")
    return replace(dataset, questions=questions)


def by_evidence(dataset: Dataset) -> Dataset:
    """The same turns, and the questions that are about some of them: these turns are right, also where they do not
    answer."""
    questions = (
        replace(question, gold=question.gold or question.about) for question in dataset.questions
    )
    return replace(
        dataset, questions=tuple(question for question in questions if question.answerable)
    )


def sessions_of(turns: Iterable[Turn]) -> tuple[Unit, ...]:
    """What was said from one pause to the next."""
    sessions: list[list[Turn]] = []
    for turn in turns:
        last = None
        if sessions:
            last = sessions[-1][-1]
        if (
            last is not None
            and last.conversation_id == turn.conversation_id
            and turn.time_ms - last.time_ms <= PAUSE_MS
        ):
            sessions[-1].append(turn)
        else:
            sessions.append([turn])
    return tuple(Unit(tuple(session)) for session in sessions)
