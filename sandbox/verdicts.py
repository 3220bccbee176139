"""What comes out of the sandbox: a verdict per trigger, problems of a stored trigger, the report of an author's run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

FailureKind: TypeAlias = Literal[
    "syntax",  # does not compile
    "reference",  # used a name that does not exist
    "thrown",  # threw anything else
    "timeout",  # ran longer than allowed
    "out_of_memory",  # used more heap than allowed
    "killed",  # the worker process died under it
    "not_evaluated",  # the search had no time left for it, or it was over a limit; the message says which
]


@dataclass(frozen=True, slots=True)
class Fired:
    """The value was true. `elapsed_us`: microseconds, measured to 1 ms, shared within a millisecond."""

    elapsed_us: int


@dataclass(frozen=True, slots=True)
class Quiet:
    """The value was false."""

    elapsed_us: int


@dataclass(frozen=True, slots=True)
class Failed:
    """No value. Counts as false for recall. `line` and `column` start at 1 (UTF-16 columns); None where unknown."""

    kind: FailureKind
    message: str
    line: int | None
    column: int | None
    elapsed_us: int


Verdict: TypeAlias = Fired | Quiet | Failed


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding about a trigger. `caret` is the source line with a `^` under the column, ready to print, or ''."""

    kind: str
    message: str
    line: int | None
    column: int | None
    caret: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What is known about a trigger before it is stored. Errors: refuse it. Warnings: say so and store it."""

    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class RunReport:
    """An author's single run: the verdict and what the trigger wrote with console.log (clipped, at most 200 lines)."""

    verdict: Verdict
    console: tuple[str, ...]
