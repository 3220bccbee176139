"""Reads data sets from files. Their form is JSON lines, each a turn or a question (docs/how-to/evaluate-recall.md).

{"turn": "a1", "conversation": "小明", "role": "user", "content": "…", "time": "2026-03-01T20:15:00+08:00"}
{"question": "q1", "conversation": "小明", "text": "…", "gold": ["a1"], "asked": "2026-05-01T…", "language": "zh"}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from memory_server.core.errors import InvalidInput
from memory_server.core.model import Role
from memory_server.core.times import milliseconds
from memory_server.evaluation.dataset import Dataset, Question, Turn, joined
from memory_server.storage.json_store import codec


def load_dataset(paths: Sequence[Path]) -> Dataset:
    """The data set of these files together; a folder means its `*.jsonl` files, by name. Raises InvalidInput if a file
    cannot be read, a line is not of the form, or the whole does not fit together."""
    files = [file for path in paths for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    if not files:
        raise InvalidInput(f"{paths[0]} holds no *.jsonl files; name a file or a folder with some.")
    values = [line.value() for file in files for line in _lines(file.name, _text(file))]
    turns = [value for value in values if isinstance(value, Turn)]
    questions = [value for value in values if isinstance(value, Question)]
    return joined(", ".join(path.name for path in paths), turns, questions)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8 and try again.") from error


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


def _lines(name: str, text: str) -> Iterator[_TurnLine | _QuestionLine]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value: Any = codec.loads(line.encode("utf-8", "surrogatepass"))
        except ValueError as error:
            raise InvalidInput(f"{name}, line {number} is not JSON; every line is a turn or a question.") from error
        form = _QuestionLine if isinstance(value, dict) and "question" in value else _TurnLine
        try:
            yield form.model_validate(value)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in problem["loc"]) or "the line"
            raise InvalidInput(f"{name}, line {number}: `{place}`: {problem['msg']}.") from error
