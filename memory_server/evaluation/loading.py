"""Reads data sets from files: which form a file has, and one sentence where it cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from memory_server.core.errors import InvalidInput
from memory_server.evaluation.dataset import Dataset, joined
from memory_server.evaluation.locomo import read_locomo
from memory_server.evaluation.memdaily import read_memdaily
from memory_server.evaluation.memorybank import read_memorybank
from memory_server.evaluation.plain_form import read_plain
from memory_server.storage.json_store import codec

Format = Literal["auto", "jsonl", "memorybank", "locomo", "memdaily"]
FORMATS: tuple[Format, ...] = get_args(Format)
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
        return read_plain(path.name, text)
    try:
        value: Any = codec.loads(text.encode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise InvalidInput(f"{path} is no JSON; for JSON lines name it *.jsonl or give --format jsonl.") from error
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
