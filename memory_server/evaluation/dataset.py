"""A data set: turns of conversations, questions with the turns that answer them, and the memories that the turns make:
one for each exchange. Pure values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from memory_server.core.errors import InvalidInput
from memory_server.core.model import Message, Role
from memory_server.recall.parameters import MINUTE_MS

T = TypeVar("T")
HALVES = ("even", "odd")

PAUSE_MS = 60 * MINUTE_MS
"""A pause after which something new begins: longer than any answer takes."""

APART_MS = 30_000
"""From one message of other talk to the next, and from the last one to the question."""

_FAR = 4
"""Of a single chat, the part that may be talked about: the quarter that lies farthest from the answer."""

_NAMED = 10
"""Most conversations that an error names."""


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
    """Other talk just before it."""

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

    def of_users(self, conversation_ids: Collection[str]) -> Dataset:
        """The same turns, and the questions of some conversations only. Raises InvalidInput if one of the conversations
        has no questions."""
        known = dict.fromkeys(question.conversation_id for question in self.questions)
        if missing := [name for name in conversation_ids if name not in known]:
            some = ", ".join([*known][:_NAMED]) + (", …" if len(known) > _NAMED else "")
            raise InvalidInput(f"{self.name} has no questions of `{missing[0]}`; give one of {some}.")
        asked = tuple(question for question in self.questions if question.conversation_id in conversation_ids)
        return replace(self, questions=asked)

    def half(self, half: str) -> Dataset:
        """The same turns, and every second question: number 0, 2, 4 … of the whole, or 1, 3, 5 … Raises InvalidInput if
        there is only one question, and it is not of that half."""
        asked = self.questions[HALVES.index(half) :: 2]
        if not asked:
            raise InvalidInput(f"{self.name} has one question only, which is even: it is number 0.")
        return replace(self, questions=asked)

    def by_evidence(self) -> Dataset:
        """The same turns, and the questions that are about some of them: these turns are right, also where they do not
        answer."""
        asked = (replace(question, gold=question.gold or question.about) for question in self.questions)
        return replace(self, questions=tuple(question for question in asked if question.answerable))


def joined(name: str, turns: Sequence[Turn], questions: Sequence[Question]) -> Dataset:
    """The turns and questions of several files as one data set, checked as a whole. Raises InvalidInput if an id is
    used twice, a question names a missing turn or conversation or is asked before its answer was said, or there are no
    questions."""
    _unique(name, "turn", (turn.id for turn in turns))
    _unique(name, "question", (question.id for question in questions))
    known = {turn.id: turn.time_ms for turn in turns}
    conversations = {turn.conversation_id for turn in turns}
    for question in questions:
        if missing := sorted(question.gold - known.keys()):
            what = f"names the turn `{missing[0]}`, which is not there"
        elif question.conversation_id not in conversations:
            what = f"is of `{question.conversation_id}`, which has no turns"
        elif any(known[turn_id] > question.asked_ms for turn_id in question.gold):
            what = "is asked before its answer was said; correct `asked`"
        else:
            continue
        raise InvalidInput(f"{name}: question `{question.id}` {what}.")
    if not questions:
        raise InvalidInput(f"{name} holds no questions; docs/how-to/evaluate-recall.md shows the form.")
    return Dataset(name, _in_turn(turns), tuple(questions))


def _in_turn(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Conversation by conversation, each by time: chats that went on at the same time stay whole."""
    first = {turn.conversation_id: place for place, turn in reversed(list(enumerate(turns)))}
    return tuple(sorted(turns, key=lambda turn: (first[turn.conversation_id], turn.time_ms)))


def grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    """The items by their key, in the order in which the keys come."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _unique(name: str, what: str, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in ids:
        if value in seen:
            raise InvalidInput(f"{name}: the {what} id `{value}` is there twice; each {what} needs an id of its own.")
        seen.add(value)


@dataclass(frozen=True, slots=True)
class Unit:
    """Part of one conversation that becomes one memory; its id is that of its first turn. `turns` is never empty."""

    turns: tuple[Turn, ...]

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

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(turn.message for turn in self.turns)

    @property
    def text(self) -> str:
        """What was said, without who said it."""
        return "\n".join(turn.content for turn in self.turns)

    def holds(self, turn_ids: Collection[str]) -> bool:
        """Whether one of its turns is among these."""
        return any(turn.id in turn_ids for turn in self.turns)


def units_of(turns: Iterable[Turn]) -> tuple[Unit, ...]:
    """The memories that these turns make: one for each exchange."""
    return tuple(_cut(turns, _answered))


def sessions_of(turns: Iterable[Turn]) -> tuple[Unit, ...]:
    """What was said from one pause to the next."""
    return tuple(_cut(turns, lambda _taken, _turn: False))


def _answered(taken: Sequence[Turn], turn: Turn) -> bool:
    """As `memory-server replay` cuts a chat: a new exchange begins with a user's turn after an answer."""
    return turn.role == "user" and any(earlier.role == "assistant" for earlier in taken)


def _cut(turns: Iterable[Turn], begins: Callable[[Sequence[Turn], Turn], bool]) -> Iterator[Unit]:
    """Cut at another conversation, after a pause, and where `begins` says so."""
    taken: list[Turn] = []
    for turn in turns:
        if taken:
            elsewhere = turn.conversation_id != taken[-1].conversation_id
            if elsewhere or turn.time_ms - taken[-1].time_ms > PAUSE_MS or begins(taken, turn):
                yield Unit(tuple(taken))
                taken = []
        taken.append(turn)
    if taken:
        yield Unit(tuple(taken))


# --- other talk before a question: a search is made with the last few messages, and not all are about it ------


def with_other_talk(dataset: Dataset, count: int, seed: int) -> Dataset:
    """The same questions, each asked after `count` neighbouring messages of another chat of the data set.

    First the chat is drawn and then the place in it, evenly, by `seed` and the question's id: other questions do not
    change it. The chat is one whose questions are in the same language; if there is only one chat, the messages are of
    that, far from what answers the question. They come without names.
    """
    chats = grouped(dataset.turns, lambda turn: turn.conversation_id)
    languages = grouped(dataset.questions, lambda question: question.language)
    chats_in = {language: {one.conversation_id for one in asked} for language, asked in languages.items()}

    def asked(question: Question) -> Question:
        rng = Random(f"{seed} {question.id}")
        others = [name for name in chats if name != question.conversation_id]
        alike = [name for name in others if name in chats_in[question.language]]
        if others:
            run = run_of(chats[rng.choice(alike or others)], count, rng)
        else:
            run = _far(question, chats.get(question.conversation_id, ()), count, rng)
        return replace(question, before=just_said(run, question.asked_ms))

    return replace(dataset, questions=tuple(map(asked, dataset.questions))) if count else dataset


def run_of(chat: Sequence[Turn], count: int, rng: Random) -> Sequence[Turn]:
    """`count` neighbouring turns of `chat`, drawn evenly; all of them where it has no more."""
    first = rng.randrange(max(1, len(chat) - count + 1))
    return chat[first : first + count]


def just_said(run: Sequence[Turn], now_ms: int) -> tuple[Turn, ...]:
    """The same turns without names, as if the last of them had been said just before `now_ms`."""
    return tuple(
        replace(turn, time_ms=now_ms - (len(run) - number) * APART_MS, name=None) for number, turn in enumerate(run)
    )


def _far(question: Question, own: Sequence[Turn], count: int, rng: Random) -> Sequence[Turn]:
    """A run of the question's own chat; empty where every run is as near to the answer as it is long."""
    gold = [place for place, turn in enumerate(own) if turn.id in question.gold]

    def distance(first: int) -> int:
        return min((max(first - place, place - (first + count - 1)) for place in gold), default=count + 1)

    runs = [first for first in range(len(own) - count + 1) if distance(first) > count]
    runs.sort(key=distance, reverse=True)
    if not runs:
        return ()
    first = rng.choice(runs[: max(1, len(runs) // _FAR)] if gold else runs)
    return own[first : first + count]
