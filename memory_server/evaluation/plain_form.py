"""The plain form of a data set: JSON lines, each a turn or a question. docs/how-to/evaluate-recall.md shows it.

{"turn": "a1", "conversation": "小明", "role": "user", "content": "…", "time": "2026-03-01T20:15:00+08:00"}
{"question": "q1", "conversation": "小明", "text": "…", "gold": ["a1"], "asked": "2026-05-01T…", "language": "zh"}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from memory_server.core.errors import InvalidInput
from memory_server.core.model import Role
from memory_server.core.times import milliseconds
from memory_server.evaluation.dataset import Dataset, Question, Turn
from memory_server.storage.json_store import codec


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

    def value(self) -> Question:
        asked_ms = milliseconds(self.asked)
        return Question(self.question, self.conversation, self.text, self.gold, asked_ms, self.language, self.kind)


def read_plain(name: str, text: str) -> Dataset:
    """The turns and questions of `text`, in its order; not yet checked against each other.

    Raises:
        InvalidInput: a line is neither; the sentence names the line and the field.
    """
    values = [line.value() for line in _lines(name, text)]
    turns = tuple(value for value in values if isinstance(value, Turn))
    return Dataset(name, turns, tuple(value for value in values if isinstance(value, Question)))


def _lines(name: str, text: str) -> Iterator[_TurnLine | _QuestionLine]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value: Any = codec.loads(line.encode("utf-8", "surrogatepass"))
        except ValueError as error:
            raise InvalidInput(f"{name}, line {number} is no JSON; every line is a turn or a question.") from error
        form = _QuestionLine if isinstance(value, dict) and "question" in value else _TurnLine
        try:
            yield form.model_validate(value)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in problem["loc"]) or "the line"
            raise InvalidInput(f"{name}, line {number}: `{place}`: {problem['msg']}.") from error
