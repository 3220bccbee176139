"""A data set: turns of conversations, questions with the turns that answer them, and the memories that the turns make:
one for each exchange. Its form is JSON lines, each a turn or a question (docs/how-to/evaluate-recall.md).

{"turn": "a1", "conversation": "小明", "role": "user", "content": "…", "time": "2026-03-01T20:15:00+08:00"}
{"question": "q1", "conversation": "小明", "text": "…", "gold": ["a1"], "asked": "2026-05-01T…", "language": "zh"}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from memory_server.core.errors import InvalidInput
from memory_server.core.model import Message, Role
from memory_server.core.times import milliseconds
from memory_server.recall.parameters import MINUTE_MS
from memory_server.storage.json_store import codec

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
    """Other talk just before it."""

    @property
    def answerable(self) -> bool:
        return bool(self.gold)

    @property
    def messages(self) -> list[Message]:
        """What a search is given: what was said before, then the question."""
        return [turn.message for turn in self.before] + [Message("user", self.text)]


V = TypeVar("V", Turn, Question)


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
        """Whether one of its turns is among these."""
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
    return (*units, Unit(tuple(taken))) if taken else ()


def load_dataset(paths: Sequence[Path]) -> Dataset:
    """The data set of these files together; a folder means its `*.jsonl` files, by name. Raises InvalidInput if a file
    cannot be read, a line is not of the form, an id is used twice, a question names a missing turn or conversation or
    is asked before its answer was said, or there are no questions."""
    files = [file for path in paths for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    if not files:
        raise InvalidInput(f"{paths[0]} holds no *.jsonl files; name a file or a folder with some.")
    name = ", ".join(path.name for path in paths)
    values = [value for file in files for value in _values(file)]
    turns = _by_id(name, "turn", (value for value in values if isinstance(value, Turn)))
    questions = _by_id(name, "question", (value for value in values if isinstance(value, Question)))
    conversations = {turn.conversation_id: number for number, turn in reversed(list(enumerate(turns.values())))}
    for question in questions.values():
        if missing := sorted(question.gold - turns.keys()):
            what = f"names the turn `{missing[0]}`, which is not there"
        elif question.conversation_id not in conversations:
            what = f"is of `{question.conversation_id}`, which has no turns"
        elif any(turns[turn_id].time_ms > question.asked_ms for turn_id in question.gold):
            what = "is asked before its answer was said; correct `asked`"
        else:
            continue
        raise InvalidInput(f"{name}: question `{question.id}` {what}.")
    if not questions:
        raise InvalidInput(f"{name} holds no questions; docs/how-to/evaluate-recall.md shows the form.")
    # Chats that went on at the same time stay whole.
    in_turn = sorted(turns.values(), key=lambda turn: (conversations[turn.conversation_id], turn.time_ms))
    return Dataset(name, tuple(in_turn), tuple(questions.values()))


def _by_id(name: str, what: str, values: Iterable[V]) -> dict[str, V]:
    found: dict[str, V] = {}
    for value in values:
        if found.setdefault(value.id, value) is not value:
            raise InvalidInput(
                f"{name}: the {what} id `{value.id}` is there twice; each {what} needs an id of its own."
            )
    return found


class _Line(BaseModel):
    # A misspelt `gold` must not make a question unanswerable without a word.
    model_config = ConfigDict(extra="forbid")


class _TurnLine(_Line):
    turn: str = Field(min_length=1)
    conversation: str = Field(min_length=1)
    role: Role
    content: str
    time: AwareDatetime
    name: str | None = None

    def value(self) -> Turn:
        return Turn(self.turn, self.conversation, self.role, self.content, milliseconds(self.time), self.name)


class _QuestionLine(_Line):
    question: str = Field(min_length=1)
    conversation: str = Field(min_length=1)
    text: str
    gold: frozenset[str]
    asked: AwareDatetime
    language: str = "?"
    kind: str = ""
    about: frozenset[str] = frozenset()

    def value(self) -> Question:
        asked_ms, groups = milliseconds(self.asked), (self.language, self.kind)
        return Question(self.question, self.conversation, self.text, self.gold, asked_ms, *groups, self.about)


def _values(path: Path) -> Iterator[Turn | Question]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8 and try again.") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value: Any = codec.loads(line.encode("utf-8", "surrogatepass"))
        except ValueError as error:
            raise InvalidInput(
                f"{path.name}, line {number} is not JSON; every line is a turn or a question."
            ) from error
        form = _QuestionLine if isinstance(value, dict) and "question" in value else _TurnLine
        try:
            yield form.model_validate(value).value()
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in problem["loc"]) or "the line"
            raise InvalidInput(f"{path.name}, line {number}: `{place}`: {problem['msg']}.") from error
