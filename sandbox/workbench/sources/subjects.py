"""The triggers of a command: from files with one trigger each, and from packs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sandbox.workbench.sources.files import read_text
from sandbox.workbench.sources.packs import read_usable
from sandbox.workbench.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Subject:
    """One trigger. `file`: where it is; `path`: the same if the file has nothing else."""

    name: str
    source: str
    file: str
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Subjects:
    """`unusable`: for each memory without a usable trigger, its pack and a sentence with the place."""

    found: tuple[Subject, ...]
    unusable: tuple[tuple[str, str], ...] = ()


def subjects_of(names: Iterable[str], encoding: str | None = None, *, packs: bool = False) -> Subjects:
    """The triggers of packs (`.json`, or all with `packs`) and of other files; `-` is standard input.

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
    """Prints a line for each memory that is left out."""
    for name, sentence in unusable:
        terminal.say(f"{name}: error: {sentence}", "red")
