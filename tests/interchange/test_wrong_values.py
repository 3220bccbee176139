"""A value of a wrong type in a file of another program costs its record or its file; all else comes."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import re
import shutil
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from interchange.foreign_samples import EACH, SAMPLES, Sample, as_file, as_yaml

from memory_server.interchange.forms import format_of
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.kernel.errors import InvalidInput
from memory_server.operations import incoming_files
from memory_server.operations.ports import ReadOptions, Source
from memory_server.runtime.homes import ThisMachine

_DEEP: Any = []
for _level in range(90):
    _DEEP = [_DEEP]
WRONG_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 10**30, 1e308, -0.5, float("nan"), float("inf")),
    *(
        "",
        " ",
        "text",
        "0",
        "-1",
        "true",
        "[]",
        "{}",
        "null",
        "\ud800",
        "\0",
        "a\u2028b",
        "x" * 300_000,
    ),
    *([], {}, [[]], [{}], {"a": {}}, {"type": "text"}, _DEEP, [None, 1, "a", {}]),
)
"""What stands in the place of each value: each type, the ends of numbers, and texts that programs take for others."""
Path_ = tuple[Any, ...]
_MARK = re.compile(r"kiwi\d+")


class _Runner:
    """Compiles nothing: which expressions V8 takes is not the question here."""

    async def check_all(self, triggers: list[str], **_options: object) -> list[Any]:
        return [Namespace(errors=(), warnings=()) for _trigger in triggers]


def _app() -> Any:
    async def conversations() -> list[str]:
        return []

    return Namespace(
        store=Namespace(conversations=conversations),
        clock=lambda: 1_770_000_000_000,
        zone=None,
        machine=ThisMachine(on_several_machines=False),
        memories=Namespace(services=Namespace(runner=_Runner())),
    )


def _paths(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The paths of all values in a value, without the value itself."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, item in items:
        yield (*path, key)
        yield from _paths(item, (*path, key))


def _changed(value: Any, path: Path_, new: Any, *, removed: bool = False) -> Any:
    """A copy of `value` in which another value stands at this path, or none."""
    changed = copy.copy(value)
    key = path[0]
    if len(path) > 1:
        changed[key] = _changed(changed[key], path[1:], new, removed=removed)
    elif removed:
        del changed[key]
    else:
        changed[key] = new
    return changed


def _record_of(sample: Sample, path: Path_) -> Path_ | None:
    """The path of the record that a path leads into; None: it leads to what all records share."""
    for pattern in sorted(sample.records, key=len, reverse=True):
        beginning = path[: len(pattern)]
        if len(beginning) == len(pattern) and all(
            step in (EACH, key) for step, key in zip(pattern, beginning, strict=True)
        ):
            return beginning
    return None


def _marks_in(value: Any) -> set[str]:
    text = value if isinstance(value, str) else json.dumps(value)
    return set(_MARK.findall(text))


class _Written:
    """A sample as files."""

    def __init__(self, sample: Sample, folder: Path) -> None:
        self._sample = sample
        self._folder = folder

    def read(self, value: Any, form: str | None = "") -> Incoming:
        """What `import` reads of this value in the place of the sample's."""
        form = self._sample.form if form == "" else form
        if self._sample.kind == "database":
            return incoming_files.DATABASES[form].read(value, "usual")  # type: ignore[index]
        path = self._write(value)
        reading = incoming_files.read(_app(), Source(str(path)), ReadOptions(form), "usual")  # type: ignore[arg-type]
        incoming, _form = asyncio.run(reading)
        return incoming

    def _write(self, value: Any) -> Path:
        sample = self._sample
        if sample.kind == "file":
            path = self._folder / "file.json"
            path.write_bytes(sample.encode(value))
            return path
        root = self._folder / "files"
        shutil.rmtree(root, ignore_errors=True)
        for name, content in value.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                sample.encode(content) if name.endswith(".md") else as_file(name, content)
            )
        return root


def _texts_in(value: Any) -> Iterator[str]:
    """All texts in what was read."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts_in(key)
            yield from _texts_in(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from _texts_in(item)
    elif is_dataclass(value):
        for field in fields(value):
            if field.name != "skipped":
                yield from _texts_in(getattr(value, field.name))


def _marks_of(incoming: Incoming) -> set[str]:
    came = [incoming.conversations, incoming.entries, incoming.books]
    texts = list(_texts_in(came))
    for text in texts:
        text.encode()  # what cannot be encoded cannot be stored
    return set().union(*map(_marks_in, texts))


def _came(written: _Written, value: Any) -> set[str]:
    """The marks of what an import of this value brings; none if it is refused in a sentence."""
    try:
        return _marks_of(written.read(value))
    except InvalidInput:
        return set()


def _expected(sample: Sample, written: _Written, path: Path_) -> set[str]:
    """The marks that come whatever stands at this path."""
    if any(path[: len(deciding)] == deciding for deciding in sample.deciding):
        return set()
    record = _record_of(sample, path)
    if record is None:
        return _came(written, _changed(sample.value, path, None, removed=True))
    lost: Any = sample.value
    for key in record:
        lost = lost[key]
    return _came(written, sample.value) - _marks_in(lost)


def _check(name: str, path: Path_, values: tuple[Any, ...], folder: Path) -> None:
    sample = SAMPLES[name]
    written = _Written(sample, folder)
    if sample.kind == "database" and len(path) < 3:
        return  # a table always has rows with columns
    expected = _expected(sample, written, path)
    for value in values:
        if sample.kind == "database" and (
            isinstance(value, bool | list | dict) or value == "\ud800"
        ):
            continue  # SQLite has no such values
        if sample.encode is as_yaml and value in (_DEEP, "\ud800", "\0"):
            continue  # what YAML does not have, or what is nested so that it is not parsed
        came = _came(written, _changed(sample.value, path, value))
        assert expected <= came, (name, path, repr(value)[:60], expected - came)


@pytest.mark.parametrize("name", SAMPLES)
def test_each_record_of_a_sample_comes(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    assert _came(_Written(sample, tmp_path), sample.value) == _marks_in(sample.value)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_wrong_value_costs_only_its_record(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    paths = list(_paths(SAMPLES[name].value))
    for path in rng.sample(paths, min(len(paths), 12)):
        _check(name, path, tuple(rng.sample(WRONG_VALUES, 3)), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", SAMPLES)
def test_each_wrong_value_costs_only_its_record(name: str, tmp_path: Path) -> None:
    for path in _paths(SAMPLES[name].value):
        _check(name, path, WRONG_VALUES, tmp_path)


@pytest.mark.parametrize(
    "name", [name for name, sample in SAMPLES.items() if sample.kind == "file"]
)
def test_the_form_of_a_file_with_a_wrong_value_is_told_or_refused(
    name: str, tmp_path: Path
) -> None:
    sample = SAMPLES[name]
    for path in _paths(sample.value):
        for value in (None, [], {}, [[]], "text", 1e308):
            with suppress(NotThisFormat):
                format_of(sample.encode(_changed(sample.value, path, value)))
