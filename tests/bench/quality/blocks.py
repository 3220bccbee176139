"""What comes as a block of memories: how many of them are right, and whether nothing comes where nothing fits. Chance is
a seed.

The other tables rank ten memories, so that R@5 is known. Here each search gives what the server gives, and every memory
of the block counts, also an answer that is shown beside the question before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from random import Random

import numpy as np
from bench.quality.evaluation import Question, Unit, grouped, query_of
from bench.quality.metrics import Estimate, Resampled, clusters
from bench.quality.rankers import Floats, Remember

from memory_server.conversations.recall.columns import IndexedMemories
from memory_server.conversations.recall.index import Index
from memory_server.conversations.recall.indexed_selection import decide
from memory_server.conversations.recall.parameters import Parameters, RecallParameters
from memory_server.conversations.recall.request import RecallContext

OWN = "own"
"""The kind of a question that the memories answer; every other kind has no answer there."""


@dataclass(frozen=True, slots=True)
class Home:
    """The memories that are searched, and the questions that are asked of them."""

    units: Sequence[Unit]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class Block:
    """What came for one question: for each memory, best first, whether it is right."""

    question: Question
    kind: str
    right: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Precision:
    """How good the blocks of one search are. Shares from 0 to 1.

    questions: number of questions with an answer. recall_at_1, recall_at_3: a right memory is among the first so many.
    precision: the right ones of all memories that came for questions with an answer. came: how many came for each.
    silent: by kind, the share of questions without an answer for which nothing came.
    """

    questions: int
    recall_at_1: Estimate | None
    recall_at_3: Estimate | None
    precision: Estimate | None
    came: Estimate | None
    silent: Mapping[str, Estimate | None]


def homes_of(
    questions: Sequence[Question], units: Sequence[Unit], size: int | None, seed: int
) -> Iterator[Home]:
    """Yield the homes of the conversations, each of `size` memories; None: each has the memories of its conversation.

    A home that needs more gets memories of other conversations, the same for all of its questions. Where it has to hold
    fewer, each question has a home of its own, with the memories that answer it and others of its conversation.
    """
    units_by_conversation = grouped(units, lambda unit: unit.conversation_id)
    for name, of_conversation in grouped(questions, lambda asked: asked.conversation_id).items():
        own = units_by_conversation[name]
        if size is None:
            yield Home(own, of_conversation)
        elif size >= len(own):
            others = [unit for unit in units if unit.conversation_id != name]
            count = min(size - len(own), len(others))
            rng = Random(f"{seed} {name} home")
            yield Home([*own, *rng.sample(others, count)], of_conversation)
        else:
            for question in of_conversation:
                yield Home(_some_of(own, question, size, seed), [question])


def _some_of(own: Sequence[Unit], question: Question, size: int, seed: int) -> list[Unit]:
    """Return `size` memories: those that answer the question, and others drawn by the seed; in their order."""
    needed = question.gold | {turn.id for turn in question.before}
    chosen = [unit for unit in own if unit.holds(needed)]
    others = [unit for unit in own if not unit.holds(needed)]
    rng = Random(f"{seed} {question.id} home")
    chosen += rng.sample(others, max(0, size - len(chosen)))
    return sorted(chosen, key=own.index)


def faces(parameters: Parameters) -> dict[str, RecallParameters]:
    """Return the parameters of a search by the way in which it is made; nothing comes by chance unless it is asked."""
    unasked = parameters.recall.with_flashbacks(0)
    return {
        "unasked": unasked,
        "asked for": replace(unasked, weak_too=True),
        "hook": parameters.at_every_prompt.with_flashbacks(0),
    }


def blocks_of(
    home: Home,
    strangers: Mapping[str, Mapping[str, Question]],
    parameters: Parameters,
    remember: Remember,
) -> dict[str, list[Block]]:
    """Return what comes from a home for its questions, and for the strangers of each by kind, in every way in which a
    search is made."""
    memories = {unit.id: remember(unit) for unit in home.units}
    searched = [IndexedMemories(memories, Index(memories.values(), parameters.wording))]
    unit_of = {unit.id: unit for unit in home.units}
    blocks: dict[str, list[Block]] = {face: [] for face in faces(parameters)}
    for question in home.questions:
        in_context = {turn.id for turn in question.before}
        without = frozenset(unit.id for unit in home.units if unit.holds(in_context))
        for kind, asked in {OWN: question, **strangers[question.id]}.items():
            query = query_of(asked, parameters.wording, searched[0].index)
            for face, parameters_of_face in faces(parameters).items():
                recall = decide(
                    searched,
                    query,
                    RecallContext(
                        conversation_id=asked.conversation_id,
                        now_ms=asked.asked_ms,
                        rng=Random(0),
                        parameters=parameters_of_face,
                        without=without,
                    ),
                ).recall
                came = [item.memory for item in chain(recall.top, recall.next)]
                came += recall.answers.values()
                right = tuple(unit_of[memory.id].holds(asked.gold) for memory in came)
                blocks[face].append(Block(asked, kind, right))
    return blocks


def precision_of(blocks: Sequence[Block], seed: int) -> Precision:
    """Return how good these blocks of one search are."""
    own = [block for block in blocks if block.kind == OWN]
    draws = Resampled(clusters([block.question for block in own]), seed)
    right = np.array([sum(block.right) for block in own], dtype=float)
    came = np.array([len(block.right) for block in own], dtype=float)

    def share_of_right(drawn: Floats) -> float:
        if not drawn @ came:
            return np.nan
        return float(drawn @ right / (drawn @ came))

    silent: dict[str, Estimate | None] = {}
    for kind, of_kind in grouped(blocks, lambda block: block.kind).items():
        if kind != OWN:
            of_strangers = Resampled(clusters([block.question for block in of_kind]), seed)
            silent[kind] = of_strangers.mean([float(not block.right) for block in of_kind])
    return Precision(
        questions=len(own),
        recall_at_1=draws.mean([float(any(block.right[:1])) for block in own]),
        recall_at_3=draws.mean([float(any(block.right[:3])) for block in own]),
        precision=draws.figure(share_of_right),
        came=draws.mean(list(came)),
        silent=silent,
    )
