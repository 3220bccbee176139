"""Reads data sets from files: which form a file has, and one sentence where it cannot be used.

The plain form is JSON lines, each a turn or a question. docs/how-to/evaluate-recall.md shows it.

{"turn": "a1", "conversation": "小明", "role": "user", "content": "…", "time": "2026-03-01T20:15:00+08:00"}
{"question": "q1", "conversation": "小明", "text": "…", "gold": ["a1"], "asked": "2026-05-01T…", "language": "zh"}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from memory_server.core.errors import InvalidInput
from memory_server.core.model import Role
from memory_server.core.times import milliseconds
from memory_server.evaluation.dataset import Dataset, Question, Turn, joined
from memory_server.evaluation.published import read_locomo, read_memdaily, read_memorybank
from memory_server.storage.json_store import codec

Format = Literal["auto", "jsonl", "memorybank", "locomo", "memdaily"]
_READERS = {"memorybank": read_memorybank, "locomo": read_locomo, "memdaily": read_memdaily}


def load_dataset(paths: Sequence[Path], form: Format = "auto") -> Dataset:
    """The data set of these files together; a folder means its `*.jsonl` files, by name.

    Raises:
        InvalidInput: a file cannot be read or is not of the form, or the whole does not fit together.
    """
    files = [file for path in paths for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    if not files:
        raise InvalidInput(f"{paths[0]} holds no *.jsonl files; name a file or a folder with some.")
    return joined(", ".join(path.name for path in paths), [_read(file, form) for file in files])


def load_sentences(paths: Sequence[Path]) -> list[str]:
    """The lines of these files that are not empty.

    Raises:
        InvalidInput: a file cannot be read, or none holds any.
    """
    lines = [line.strip() for path in paths for line in _text(path).split("\n")]
    if not any(lines):
        raise InvalidInput(f"{paths[0]} holds no sentences; write one a line.")
    return [line for line in lines if line]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8 and try again.") from error


def _read(path: Path, form: Format) -> Dataset:
    text = _text(path)
    if form == "jsonl" or (form == "auto" and path.suffix == ".jsonl"):
        return _read_plain(path.name, text)
    try:
        value: Any = codec.loads(text.encode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise InvalidInput(f"{path} is not JSON; for JSON lines name it *.jsonl or give --format jsonl.") from error
    if form == "auto":
        form = _form_of(value)
    try:
        return _READERS[form](path.name, value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"{path} is not of the form {form} ({type(error).__name__}: {error}).") from error


def _form_of(value: Any) -> Format:
    """LoCoMo is an array of dialogues, or one of them; MemDaily an array of trajectories; MemoryBank an object."""
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, dict) and "message_list" in first:
        return "memdaily"
    return "locomo" if isinstance(value, list) or "qa" in value else "memorybank"


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


def _read_plain(name: str, text: str) -> Dataset:
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
            raise InvalidInput(f"{name}, line {number} is not JSON; every line is a turn or a question.") from error
        form = _QuestionLine if isinstance(value, dict) and "question" in value else _TurnLine
        try:
            yield form.model_validate(value)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in problem["loc"]) or "the line"
            raise InvalidInput(f"{name}, line {number}: `{place}`: {problem['msg']}.") from error
