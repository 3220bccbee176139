"""How good recall is: questions whose answers are known, asked of the server's own search, each after other talk, and
how often the right memory came. Chance is a seed.

It reads files and computes figures, and stores nothing. tests/bench/eval.py prints them; tests/bench/recall_quality.py
measures the same data sets in more ways.

The form of a data set is JSON lines, each a turn or a question (docs/project/evaluate-recall.md):

{"turn": "a1", "conversation": "小明", "role": "user", "content": "…", "time": "2026-03-01T20:15:00+08:00"}
{"question": "q1", "conversation": "小明", "text": "…", "gold": ["a1"], "asked": "2026-05-01T…", "language": "zh"}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, TypeVar

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.columns import IndexedMemories
from memory_server.conversations.recall.index import Index
from memory_server.conversations.recall.indexed_selection import Decision, decide
from memory_server.conversations.recall.parameters import Parameters
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.words import KeywordOptions, QueryContext, RecallQuery
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message, Role, context_text
from memory_server.kernel.times import MINUTE_MS, milliseconds

SAMPLE = Path(__file__).parents[3] / "data" / "samples" / "recall"
"""The questions written for this project."""
PAUSE_MS = 60 * MINUTE_MS
"""A pause after which something new begins: longer than any answer takes."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one person said at one moment. `id` is unique in the data set."""

    id: str
    conversation_id: str
    role: Role
    content: str
    time_ms: int
    name: str | None = None

    @property
    def message(self) -> Message:
        return Message(self.role, self.content, self.time_ms, self.name)


@dataclass(frozen=True, slots=True)
class Question:
    """Something asked later. `gold`: the turns each of which answers it; empty if no turn does."""

    id: str
    conversation_id: str
    text: str
    gold: frozenset[str]
    asked_ms: int
    language: str
    kind: str = ""
    about: frozenset[str] = frozenset()
    """The turns that it is about, also if they do not answer it; empty if the data set does not name them."""
    before: tuple[Turn, ...] = ()
    """The messages just before it: those of the data set, or other talk."""
    other_words: tuple[str, ...] = ()
    """Words that a language model gave that saw only these messages."""

    @property
    def answerable(self) -> bool:
        return bool(self.gold)

    @property
    def messages(self) -> list[Message]:
        """What a search is given: what was said before, then the question."""
        return [turn.message for turn in self.before] + [Message("user", self.text)]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Turns by time within each conversation."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """Part of one conversation that becomes one memory; its id is that of its first turn. `turns` is never empty."""

    turns: tuple[Turn, ...]
    other_words: tuple[str, ...] = ()
    """Words that a language model gave that saw only these turns."""

    @property
    def id(self) -> str:
        return self.turns[0].id

    @property
    def conversation_id(self) -> str:
        return self.turns[0].conversation_id

    @property
    def time_ms(self) -> int:
        """The time of its last turn, as for a memory of the server."""
        return self.turns[-1].time_ms

    def holds(self, turn_ids: Collection[str]) -> bool:
        return any(turn.id in turn_ids for turn in self.turns)


def units_of(turns: Iterable[Turn]) -> tuple[Unit, ...]:
    """The memories that these turns make: one for each exchange. As `memory-server import` cuts a chat, an exchange
    begins with a user's turn after an answer; also after a pause."""
    units: list[Unit] = []
    taken: list[Turn] = []
    for turn in turns:
        if taken and (
            turn.conversation_id != taken[-1].conversation_id
            or turn.time_ms - taken[-1].time_ms > PAUSE_MS
            or (turn.role == "user" and any(earlier.role == "assistant" for earlier in taken))
        ):
            units.append(Unit(tuple(taken)))
            taken = []
        taken.append(turn)
    if taken:
        units.append(Unit(tuple(taken)))
    return tuple(units)


def load_dataset(paths: Sequence[Path]) -> Dataset:
    """The data set of these files together; a folder means its `*.jsonl` files, by name. Raises InvalidInput if a file
    cannot be read, a line is not of the form, an id is used twice, a question names a missing turn or conversation or
    is asked before its answer was said, or there are no questions."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files.extend(sorted(path.glob("*.jsonl")))
        else:
            files.append(path)
    if not files:
        raise InvalidInput(f"{paths[0]} holds no *.jsonl files; name a file or a folder with some.")
    name = ", ".join(path.name for path in paths)
    values = list(chain.from_iterable(map(_values, files)))
    turns = _by_id(name, "turn", (value for value in values if isinstance(value, Turn)))
    questions = _by_id(name, "question", (value for value in values if isinstance(value, Question)))
    conversations = {
        turn.conversation_id: number for number, turn in reversed(list(enumerate(turns.values())))
    }
    for question in questions.values():
        missing = sorted(question.gold - turns.keys())
        if missing:
            fault = f"names the turn `{missing[0]}`, which is not there"
        elif question.conversation_id not in conversations:
            fault = f"is of `{question.conversation_id}`, which has no turns"
        elif any(turns[turn_id].time_ms > question.asked_ms for turn_id in question.gold):
            fault = "is asked before its answer was said; correct `asked`"
        else:
            continue
        raise InvalidInput(f"{name}: question `{question.id}` {fault}.")
    if not questions:
        raise InvalidInput(
            f"{name} holds no questions; docs/project/evaluate-recall.md shows the form."
        )
    # Chats that went on at the same time stay whole.
    in_turn = sorted(
        turns.values(), key=lambda turn: (conversations[turn.conversation_id], turn.time_ms)
    )
    return Dataset(name, tuple(in_turn), tuple(questions.values()))


def _by_id(name: str, kind: str, values: Iterable[V]) -> dict[str, V]:
    by_id: dict[str, V] = {}
    for value in values:
        if by_id.setdefault(value.id, value) is not value:
            raise InvalidInput(
                f"{name}: the {kind} id `{value.id}` is there twice; each {kind} needs an id of its own."
            )
    return by_id


class _TurnLine(BaseModel, extra="forbid"):
    turn: str = Field(min_length=1)
    conversation: str = Field(min_length=1)
    role: Role
    content: str
    time: AwareDatetime
    name: str | None = None

    def value(self) -> Turn:
        return Turn(
            self.turn,
            self.conversation,
            self.role,
            self.content,
            milliseconds(self.time),
            self.name,
        )


class _EarlierLine(BaseModel, extra="forbid"):
    role: Role
    content: str


class _QuestionLine(
    BaseModel, extra="forbid"
):  # a misspelt `gold` must not make it unanswerable without a word
    question: str = Field(min_length=1)
    conversation: str = Field(min_length=1)
    text: str
    gold: frozenset[str]
    asked: AwareDatetime
    language: str = "?"
    kind: str = ""
    about: frozenset[str] = frozenset()
    before: tuple[_EarlierLine, ...] = ()

    def value(self) -> Question:
        asked_ms = milliseconds(self.asked)
        earlier_turns = [
            Turn(
                f"{self.question} before {number}",
                self.conversation,
                line.role,
                line.content,
                asked_ms,
            )
            for number, line in enumerate(self.before)
        ]
        return Question(
            self.question,
            self.conversation,
            self.text,
            self.gold,
            asked_ms,
            self.language,
            self.kind,
            self.about,
            just_said(earlier_turns, asked_ms),
        )


def _values(path: Path) -> Iterator[Turn | Question]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8 and try again."
        ) from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value: Any = json_text.loads(line.encode("utf-8", "surrogatepass"))
        except ValueError as error:
            raise InvalidInput(
                f"{path.name}, line {number} is not JSON; every line is a turn or a question."
            ) from error
        form: type[_QuestionLine | _TurnLine] = _TurnLine
        if isinstance(value, dict) and "question" in value:
            form = _QuestionLine
        try:
            yield form.model_validate(value).value()
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            field_name = ".".join(str(part) for part in problem["loc"]) or "the line"
            raise InvalidInput(
                f"{path.name}, line {number}: `{field_name}`: {problem['msg']}."
            ) from error


# --- asking --------------------------------------------------------------------------------------------------

T = TypeVar("T")
V = TypeVar("V", Turn, Question)
APART_MS = 30_000
"""From one message of other talk to the next, and from the last one to the question."""
DEPTH = 10
"""Memories that a search gives here, for R@5 and MRR; the first three are what the server gives."""
_FAR = 4
"""The part of a single chat that may be talked about: the quarter that lies farthest from the answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`rank`: the place of the first right memory, from 1; None if it did not come. `spoke`: whether anything came."""

    question: Question
    rank: int | None
    spoke: bool

    @property
    def reciprocal_rank(self) -> float:
        """1 ÷ the place of the first right memory; 0 if it did not come."""
        if self.rank is None:
            return 0.0
        return 1 / self.rank

    def within(self, places: int) -> bool:
        return self.rank is not None and self.rank <= places


def answers(dataset: Dataset, units: Sequence[Unit], parameters: Parameters) -> Iterator[Answer]:
    """Ask each question of the memories of its own conversation, conversation by conversation."""
    of_conversation = grouped(units, lambda unit: unit.conversation_id)
    for name, questions in grouped(
        dataset.questions, lambda question: question.conversation_id
    ).items():
        of_id = {unit.id: unit for unit in of_conversation[name]}
        decided = deciding(
            parameters, {unit.id: remembered(parameters.wording, unit) for unit in of_id.values()}
        )
        for question in questions:
            decision = decided(question)
            # What was just said is in the context already: if it is a memory too, it does not take a place.
            just_said_ids = {turn.id for turn in question.before}
            chosen = [of_id[decision.columns.memory(row).id] for row in decision.order.chosen]
            recalled = [unit for unit in chosen if not unit.holds(just_said_ids)]
            rank = next(
                (number for number, unit in enumerate(recalled, 1) if unit.holds(question.gold)),
                None,
            )
            yield Answer(question, rank, bool(recalled))


def figures(answers: Sequence[Answer]) -> dict[str, float]:
    """Numbers of questions, and shares from 0 to 1; a share of no questions is left out. recallAt1, recallAt3,
    recallAt5: a right memory is among the first so many. mrr: mean of 1 ÷ the place of the first right memory, 0 if it
    did not come. speaking: something came, where there is an answer; silent: nothing came, where there is none. Source:
    Manning, Raghavan, Schütze, Introduction to Information Retrieval, chapter 8."""
    answerable = [answer for answer in answers if answer.question.answerable]
    unanswerable = [answer for answer in answers if not answer.question.answerable]
    figures: dict[str, float] = {"questions": len(answers), "answerable": len(answerable)}
    if answerable:
        for places in (1, 3, 5):
            figures[f"recallAt{places}"] = fmean(answer.within(places) for answer in answerable)
        figures["mrr"] = fmean(answer.reciprocal_rank for answer in answerable)
        figures["speaking"] = fmean(answer.spoke for answer in answerable)
    if unanswerable:
        figures["silent"] = fmean(not answer.spoke for answer in unanswerable)
    return figures


def remembered(wording: KeywordOptions, unit: Unit) -> ShortTermMemory:
    """The memory that the server makes of a unit, with a score of 0."""
    messages = tuple(turn.message for turn in unit.turns)
    name = unit.conversation_id
    text = context_text(messages)
    memory = ShortTermMemory(
        unit.id, unit.time_ms, text, (), (), 0.0, name, messages, other_words=unit.other_words
    )
    return wording.within(name).of_text(memory)


def query_of(
    question: Question, wording: KeywordOptions, index: Index | None = None
) -> RecallQuery:
    """What the server searches with when the question is asked; `index`: that of the memories."""
    wording = wording.within(question.conversation_id)
    known = QueryContext()
    if index is not None:
        known = QueryContext(speakers=tuple(index.speakers), keeps_words=index.keeps_words)
    return wording.of_query(
        question.messages, question.asked_ms, other_words=question.other_words, known=known
    )


def deciding(
    parameters: Parameters, memories: Mapping[str, ShortTermMemory]
) -> Callable[[Question], Decision]:
    """A search with more places and without flashbacks: the first places are what comes unasked, or with `weak_too`
    what `search_short_term_memories` gives."""
    recall = parameters.recall
    searched = [IndexedMemories(memories, Index(memories.values(), parameters.wording))]
    deep = replace(recall, next_count=max(0, DEPTH - recall.top_count), flashback_count=0)

    def decided(question: Question) -> Decision:
        return decide(
            searched,
            query_of(question, parameters.wording, searched[0].index),
            RecallContext(
                conversation_id=question.conversation_id,
                now_ms=question.asked_ms,
                rng=Random(0),
                parameters=deep,
            ),
        )

    return decided


def with_other_talk(dataset: Dataset, count: int, seed: int) -> Dataset:
    """The same questions, each asked after `count` neighbouring messages of another chat of the data set, because a
    search is made with the last few messages, and not all are about the question. First the chat is drawn and then the
    place in it, evenly, by `seed` and the question's id: other questions do not change it. The chat is one whose
    questions are in the same language; a question that has its own earlier messages keeps them; if there is only one
    chat, the messages are of that, far from what answers the question. They come without names."""
    if not count:
        return dataset
    chats = grouped(dataset.turns, lambda turn: turn.conversation_id)
    chats_in: dict[str, set[str]] = {}
    for question in dataset.questions:
        chats_in.setdefault(question.language, set()).add(question.conversation_id)

    def asked(question: Question) -> Question:
        if question.before:
            return question
        rng = Random(f"{seed} {question.id}")
        others = [name for name in chats if name != question.conversation_id]
        alike = [name for name in others if name in chats_in[question.language]]
        if others:
            run = run_of(chats[rng.choice(alike or others)], count, rng)
        else:
            run = _far(question, chats.get(question.conversation_id, ()), count, rng)
        return replace(question, before=just_said(run, question.asked_ms))

    return replace(dataset, questions=tuple(map(asked, dataset.questions)))


def grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def run_of(chat: Sequence[Turn], count: int, rng: Random) -> Sequence[Turn]:
    """`count` neighbouring turns of `chat`, drawn evenly; all of them where it has no more."""
    first = rng.randrange(max(1, len(chat) - count + 1))
    return chat[first : first + count]


def just_said(run: Sequence[Turn], now_ms: int) -> tuple[Turn, ...]:
    """The same turns without names, as if the last of them had been said just before `now_ms`."""
    return tuple(
        replace(turn, time_ms=now_ms - (len(run) - number) * APART_MS, name=None)
        for number, turn in enumerate(run)
    )


def _far(question: Question, own: Sequence[Turn], count: int, rng: Random) -> Sequence[Turn]:
    """A run of the question's own chat; empty where every run is as near to the answer as it is long."""
    gold = [number for number, turn in enumerate(own) if turn.id in question.gold]

    def distance(first: int) -> int:
        last = first + count - 1
        return min((max(first - number, number - last) for number in gold), default=count + 1)

    runs = [first for first in range(len(own) - count + 1) if distance(first) > count]
    runs.sort(key=distance, reverse=True)
    if not runs:
        return ()
    if gold:
        runs = runs[: max(1, len(runs) // _FAR)]
    first = rng.choice(runs)
    return own[first : first + count]
