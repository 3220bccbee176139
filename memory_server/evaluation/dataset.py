"""What is measured on: turns of conversations, and questions with the turns that answer them. Pure values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memory_server.errors import InvalidInput
from memory_server.model import Role


@dataclass(frozen=True, slots=True)
class Turn:
    """What one person said at one moment. `id` is unique in the data set."""

    id: str
    conversation_id: str
    role: Role
    content: str
    time_ms: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Something asked later. `gold` names the turns each of which answers it; none: nothing ever said does."""

    id: str
    conversation_id: str
    text: str
    gold: frozenset[str]
    asked_ms: int
    language: str
    kind: str = ""

    @property
    def answerable(self) -> bool:
        return bool(self.gold)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Turns in the order of time within each conversation. `skipped`: questions of the source without usable gold."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    skipped: int = 0

    def of_user(self, conversation_id: str) -> Dataset:
        """The same turns, and the questions of one conversation only.

        Raises:
            InvalidInput: it has none.
        """
        asked = tuple(question for question in self.questions if question.conversation_id == conversation_id)
        if not asked:
            known = ", ".join(dict.fromkeys(question.conversation_id for question in self.questions))
            raise InvalidInput(f"{self.name} has no questions of `{conversation_id}`; give one of {known}.")
        return Dataset(self.name, self.turns, asked, self.skipped)

    def later(self, ms: int) -> Dataset:
        """The same questions, asked so many milliseconds later."""
        asked = tuple(replace(question, asked_ms=question.asked_ms + ms) for question in self.questions)
        return replace(self, questions=asked)


def joined(name: str, parts: Iterable[Dataset]) -> Dataset:
    """Several files as one data set, checked as a whole: questions may be in another file than their turns.

    Raises:
        InvalidInput: an id stands twice, a question names a turn or conversation that is not there or is asked
            before its answer was said, or there is nothing to ask.
    """
    parts = tuple(parts)
    turns = _in_turn([turn for part in parts for turn in part.turns])
    questions = tuple(question for part in parts for question in part.questions)
    _unique(name, "turn", (turn.id for turn in turns))
    _unique(name, "question", (question.id for question in questions))
    known = {turn.id: turn.time_ms for turn in turns}
    conversations = {turn.conversation_id for turn in turns}
    for question in questions:
        if missing := sorted(question.gold - known.keys()):
            raise InvalidInput(f"{name}: question `{question.id}` names the turn `{missing[0]}`, which is not there.")
        if question.conversation_id not in conversations:
            raise InvalidInput(
                f"{name}: question `{question.id}` is of `{question.conversation_id}`, which has no turns."
            )
        if any(known[turn_id] > question.asked_ms for turn_id in question.gold):
            raise InvalidInput(
                f"{name}: question `{question.id}` is asked before its answer was said; correct `asked`."
            )
    if not questions:
        raise InvalidInput(f"{name} holds no questions; docs/how-to/evaluate-recall.md shows the form.")
    return Dataset(name, turns, questions, sum(part.skipped for part in parts))


def _in_turn(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Conversation by conversation, each by time: chats that went on side by side are not cut to pieces."""
    first = {turn.conversation_id: place for place, turn in reversed(list(enumerate(turns)))}
    return tuple(sorted(turns, key=lambda turn: (first[turn.conversation_id], turn.time_ms)))


def _unique(name: str, what: str, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in ids:
        if value in seen:
            raise InvalidInput(f"{name}: the {what} id `{value}` stands there twice; every id names one {what}.")
        seen.add(value)
