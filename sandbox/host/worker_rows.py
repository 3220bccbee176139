"""What a worker reported, as verdicts; and why it died."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

from languages import _
from sandbox import protocol
from sandbox.errors import ProtocolError
from sandbox.limits import SandboxLimits
from sandbox.verdicts import Failed, Fired, Quiet, Verdict
from sandbox.worker import board


def place_of_failure(value: object) -> int | None:
    """Return a line or column, or None for a wrong number, which a trigger can cause by names and line numbers of its
    own."""
    if type(value) is int and 1 <= value < 2**31:
        return value
    return None


def verdict_of(row: Sequence[Any], limits: SandboxLimits) -> Verdict:
    """Read a row of worker/main.py as a value. Raises ProtocolError."""
    if not row or type(row[0]) is not int:
        raise ProtocolError(_("a row that is not a verdict"))

    if len(row) == 2:  # a search has thousands of these, and `match` is slow
        if row[0] == board.FIRED:
            return Fired(protocol.elapsed(row[1]))
        if row[0] == board.QUIET:
            return Quiet(protocol.elapsed(row[1]))

    match row:
        case [board.FAILED, elapsed_us, str(wire_kind), text, line, column]:
            return _failure(
                kind=wire_kind,
                text=protocol.text(text),
                line=place_of_failure(line),
                column=place_of_failure(column),
                elapsed_us=protocol.elapsed(elapsed_us),
                limits=limits,
            )
        case _:
            raise ProtocolError(_("a row that is not a verdict"))


def _failure(
    *,
    kind: str,
    text: str,
    line: int | None,
    column: int | None,
    elapsed_us: int,
    limits: SandboxLimits,
) -> Failed:
    """Return the failure that a worker reported. `text`: the words of V8 about it."""
    # A line is of no use without a column, nor a column without a line.
    if line is None or column is None:
        line = None
        column = None
    match kind:
        case "timeout":
            message = _("stopped after {elapsed:.2f} s", elapsed_us / 1e6)
            return Failed("timeout", message, line, column, elapsed_us)
        case "out_of_memory":
            message = _("used more than {heap_mb} MB of heap", limits.heap_mb)
            return Failed("out_of_memory", message, line, column, elapsed_us)
        case "syntax" | "reference" | "thrown":
            return Failed(kind, text or _("failed without a message"), line, column, elapsed_us)
        case _:
            return Failed(
                "killed", text or _("V8 gave up while this trigger ran"), line, column, elapsed_us
            )


def last_words(code: int | None) -> str:
    """Return the message about a trigger of which its worker died. `code`: the exit code, negative for a signal."""
    how = _("was stopped")
    if code is not None and code < 0:
        try:
            how = _("died of {name}", signal.Signals(-code).name)
        except ValueError:
            how = _("died of signal {code}", -code)
    elif code is not None:
        how = _("ended with code {code}", code)
    return _(
        "the worker process {how} while this trigger ran; it probably asked for too much memory at once",
        how,
    )
