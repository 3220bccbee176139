"""The commands of this project as tests run them: in their process, with captured streams."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from command_outcome import Outcome

from memory_server.cli.parser import main

_ANY_TIME = repeat("")
Program = Callable[[list[str]], Any]


@dataclass(frozen=True)
class CommandLine:
    """Runs a program, `memory-server` unless another one is named. `flags` stand before each of its commands, and each
    has the next time of `clock` if it has none of its own."""

    streams: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch
    flags: tuple[str, ...] = ()
    program: Program = main
    clock: Iterator[str] = _ANY_TIME

    def with_flags(self, *flags: str) -> CommandLine:
        return replace(self, flags=flags)

    def of(self, program: Program) -> CommandLine:
        return replace(self, program=program)

    def at(self, clock: Iterator[str]) -> CommandLine:
        return replace(self, clock=clock)

    def __call__(self, *arguments: str, stdin: Any = b"", now: str = "") -> Outcome:
        """Run a command. `stdin` is its standard input, as a file, as bytes or as a value of JSON; `now` is its time."""
        if not isinstance(stdin, io.TextIOBase):
            data = stdin if isinstance(stdin, bytes) else json.dumps(stdin).encode()
            stdin = io.TextIOWrapper(io.BytesIO(data))
        self.patch.setattr(sys, "stdin", stdin)
        now = now or next(self.clock)
        time = ("--now", now) if now else ()
        try:
            status = self.program([*self.flags, *time, *arguments])
        except SystemExit as end:
            status = end.code
        return Outcome(status or 0, *self.streams.readouterr())

    def text(self, *arguments: str, status: int = 0, **options: Any) -> str:
        """Return what a command prints that ends with this status: its error message unless the status is 0."""
        outcome = self(*arguments, **options)
        assert outcome.status == status, outcome.err
        return outcome.err if status else outcome.out


def in_process(*arguments: str) -> Outcome:
    """Run a command where no fixture is at hand, and where nothing else writes to its streams."""
    out = io.StringIO()
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(list(arguments))
    return Outcome(status, out.getvalue(), err.getvalue())


def run_on(data_dir: Path, *arguments: str) -> Outcome:
    """Run a command on this folder, where there is no fixture."""
    return in_process("--data-dir", str(data_dir), *arguments)
