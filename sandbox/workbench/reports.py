"""What a test run prints: a mark per case, then each failure with its reason, then one line that sums up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .cases import Case, Unusable
from .outcomes import Outcome
from .terminal import Terminal, cells, counted


class Progress:
    """Marks behind the name of each file, with the share that is done at the end of a line.

    `.` held, `F` did not, `E` cannot be run.
    """

    def __init__(self, terminal: Terminal, found: Sequence[Case | Unusable]) -> None:
        self._terminal = terminal
        self._left = {case.file: 0 for case in found}
        for case in found:
            self._left[case.file] += 1
        self._total = len(found)
        self._done = 0
        self._column = 0
        self._file: str | None = None

    def begin(self) -> None:
        self._terminal.say(f"collected {counted(self._total, 'case')} in {counted(len(self._left), 'file')}\n")

    def mark(self, outcome: Outcome) -> None:
        """One mark more."""
        if outcome.case.file != self._file:
            self._file = outcome.case.file
            # Behind a name that fills the line there is no room for marks.
            alone = cells(self._file) > self._terminal.width - 30
            self._terminal.say(self._file, end="\n" if alone else " ")
            self._column = 0 if alone else cells(self._file) + 1
        self._done += 1
        self._left[self._file] -= 1
        sign = "." if outcome.passed else "E" if outcome.error else "F"
        self._terminal.say(sign, "green" if outcome.passed else "red", end="")
        self._column += 1
        if self._left[self._file] == 0 or self._column >= self._terminal.width - 8:
            share = f"[{self._done * 100 // self._total:3}%]"
            room = max(1, min(self._terminal.width, 100) - self._column - len(share))
            self._terminal.say(f"{' ' * room}{share}", "faint")
            self._column = 0

    def end(self) -> None:
        """The run is over, perhaps before its end."""
        if self._column:
            self._terminal.say()


def failures(terminal: Terminal, outcomes: Sequence[Outcome]) -> None:
    """Every failure with the place of its case and the reason first."""
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if failed:
        terminal.say()
        terminal.rule("errors" if all(outcome.error for outcome in failed) else "failures", "red")
    for outcome in failed:
        terminal.rule(outcome.case.name, "bold", "-")
        terminal.say(place(outcome.case), "faint")
        first, *rest = outcome.reasons
        terminal.say(first, "red")
        for line in rest:
            terminal.say(f"    {line}")


def place(case: Case | Unusable) -> str:
    """`file:line` for editors that open it with a click."""
    return f"{case.file}:{case.line}" if case.line else case.file


def summary(terminal: Terminal, outcomes: Sequence[Outcome], seconds: float, left_out: int, stopped: bool) -> None:
    """`left_out`: cases that -k did not choose."""
    errors = sum(outcome.error for outcome in outcomes)
    passed = sum(outcome.passed for outcome in outcomes)
    failed = len(outcomes) - passed - errors
    plural = "error" if errors == 1 else "errors"
    parts: Mapping[str, int] = {"failed": failed, "passed": passed, plural: errors, "not chosen": left_out}
    text = ", ".join(f"{count} {name}" for name, count in parts.items() if count) or "nothing run"
    if stopped:
        terminal.say("stopped at the first failure (-x)")
    terminal.rule(f"{text} in {seconds:.2f} s", "red" if failed or errors else "green")
