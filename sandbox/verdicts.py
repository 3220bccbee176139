"""Results of the sandbox: verdicts on triggers, problems, the report of a run for an author, layers of protection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from languages import N_, Sentence, _
from sandbox.values import frozen

FailureKind: TypeAlias = Literal[
    "syntax",  # does not compile
    "reference",  # used a name that does not exist
    "thrown",  # threw anything else
    "timeout",  # ran longer than allowed
    "out_of_memory",  # used more heap than allowed
    "killed",  # the worker process died while it ran
    "not_evaluated",  # the search had no time left, or a limit was passed; the message says which
]


@frozen
class Fired:
    """The value was true. `elapsed_us`: microseconds, measured to 1 ms, shared within a millisecond."""

    elapsed_us: int


@frozen
class Quiet:
    """The value was false."""

    elapsed_us: int


@frozen
class Failed:
    """The trigger gave no value, which counts as false. `line` and `column` start at 1 (UTF-16 columns). `elapsed_us`:
    microseconds; 0 if it did not run."""

    kind: FailureKind
    message: str
    line: int | None = None
    column: int | None = None
    elapsed_us: int = 0


Verdict: TypeAlias = Fired | Quiet | Failed


@frozen
class Problem:
    """One finding about a trigger. `caret`: the source line with a `^` under the column. `sentence`: the message for a
    reader of another language, if there is one."""

    kind: str
    message: str
    line: int | None
    column: int | None
    caret: str
    sentence: Sentence | None = field(default=None, compare=False, repr=False)


@frozen
class CheckReport:
    """What is known about a trigger before it is stored. With errors it is refused; with warnings it is stored."""

    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


_LAYER_TITLES = N_(
    {
        "parent": "process",
        "files": "files",
        "memory": "memory",
        "privileges": "privileges",
        "landlock": "file system and network",
        "seccomp": "system calls",
    }
)
_ATTEMPT_TITLES = N_(
    {
        "no open": "opening a file",
        "no write": "writing a file",
        "no list a folder": "listing a folder",
        "no socket": "making a socket",
        "no connect": "connecting",
        "no exec": "starting a program",
        "no kill": "signalling the server",
        "no fork": "making a process",
        "no limits of the parent": "changing the limits of the server",
    }
)


@frozen
class ProtectionLayer:
    """A layer of protection of a worker, or an escape that it tried. `detail` says how it protects, or why it is
    missing."""

    name: str
    holds: bool
    detail: str

    @property
    def is_attempt(self) -> bool:
        return self.name.startswith("no ")

    @property
    def title(self) -> str:
        """What it is about, in words for people."""
        return _((_LAYER_TITLES | _ATTEMPT_TITLES).get(self.name, self.name))


@frozen
class RunReport:
    """An author's single run: the verdict and what the trigger wrote with console.log (clipped, at most 200 lines).
    `trace`: the notes of the run of a traced copy (realm/trace.js), empty without a copy. `traced`: its verdict."""

    verdict: Verdict
    console: tuple[str, ...]
    trace: tuple[Mapping[str, Any], ...] = ()
    traced: Verdict | None = None


MOST_OPERANDS = 250
"""Operands of a trigger; realm/trace.js has room for as many."""


@frozen
class Operand:
    """An operand of a decision. `number`: the number of its probe. `depth`: how deep in its decision, 0 for the
    decision itself. Offsets in bytes. `role`: the role of a decision that is not the verdict. `is_compared`: it is a
    side of a comparison, which has a value and is not true or false by itself."""

    number: int
    depth: int
    role: str
    text: str
    start: int
    end: int
    is_compared: bool


@frozen
class TracedCopy:
    """A trigger rewritten to call `probe(number, value)` with the value of each operand. `original`: the source whose
    random numbers the copy gets. `probe`: a name that the original does not contain."""

    source: str
    original: str
    probe: str


@frozen
class Reading:
    """A trigger that was read for its author: its operands, and its traced copy (None: there is nothing to trace)."""

    operands: tuple[Operand, ...] = ()
    copy: TracedCopy | None = None
