"""The triggers that a command was given: of files that hold one, and of packs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sandbox.workbench.sources.files import read_text
from sandbox.workbench.sources.packs import read_usable
from sandbox.workbench.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Subject:
    """One trigger. `file`: that holds it; `path`: the same where it holds nothing else."""

    name: str
    source: str
    file: str
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Subjects:
    """`unusable`: the pack and a sentence with the place for each of its memories that has no trigger to try."""

    found: tuple[Subject, ...]
    unusable: tuple[tuple[str, str], ...] = ()


def subjects_of(names: Iterable[str], encoding: str | None = None, *, packs: bool = False) -> Subjects:
    """The triggers of packs (`.json`, or all with `packs`), and those of files; `-` is standard input.

    Raises UsageError.
    """
    found: list[Subject] = []
    unusable: list[tuple[str, str]] = []
    for name in names:
        if packs or name.endswith(".json"):
            memories, wrong = read_usable(name, encoding)
            found += [Subject(memory.name, memory.trigger, name) for memory in memories]
            unusable += [(name, sentence) for sentence in wrong]
        elif name == "-":
            found.append(Subject(name, read_text(name, encoding), name))
        else:
            found.append(Subject(name, read_text(name, encoding), name, Path(name)))
    return Subjects(tuple(found), tuple(unusable))


def say_unusable(terminal: Terminal, unusable: Iterable[tuple[str, str]]) -> None:
    """A line for each memory that is left out."""
    for name, sentence in unusable:
        terminal.say(f"{name}: error: {sentence}", "red")
