"""What the commands of `trigger-sandbox` do: read files, call the sandbox, make text of the answer."""

from __future__ import annotations

import argparse
import asyncio
import sys
import zoneinfo
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TextIO, assert_never

from sandbox.errors import SandboxError
from sandbox.host.code_frame import caret
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import Failed, Fired, Quiet, RunReport

EXIT_FIRED, EXIT_QUIET, EXIT_FAILED = 0, 1, 3


class UsageError(Exception):
    """The command cannot be carried out as it was given; one sentence that says what to do."""


def show(source: str, report: RunReport, out: TextIO) -> int:
    """Prints a run for a person. Returns the exit code."""
    for line in report.console:
        _say(out, f"console  {line}")
    match report.verdict:
        case Fired(elapsed_us):
            _say(out, f"fired    {elapsed_us / 1000:.1f} ms")
            return EXIT_FIRED
        case Quiet(elapsed_us):
            _say(out, f"quiet    {elapsed_us / 1000:.1f} ms")
            return EXIT_QUIET
        case Failed() as failed:
            place = f" at line {failed.line}, column {failed.column}" if failed.line is not None else ""
            _say(out, f"failed   {failed.kind}: {failed.message}{place}")
            if pointer := caret(source, failed.line, failed.column):
                _say(out, pointer)
            return EXIT_FAILED
        case _:
            assert_never(report.verdict)


def _say(out: TextIO, text: str) -> None:
    """A character that the terminal cannot show must not end the program."""
    encoding = out.encoding or "utf-8"
    out.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def moment(text: str | None, timezone: str | None) -> datetime:
    """The aware instant a person means: ISO, without an offset in `timezone` (IANA; default the system's)."""
    try:
        zone = zoneinfo.ZoneInfo(timezone) if timezone else None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"--tz: no time zone {timezone!r}; give an IANA name such as Asia/Shanghai") from error
    if text is None:
        return datetime.now().astimezone(zone)
    try:
        given = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--now: {text!r} is no ISO time; give one such as 2026-07-17T09:00") from error
    if given.tzinfo is not None:
        return given
    return given.replace(tzinfo=zone) if zone else given.astimezone()


def doctor(options: argparse.Namespace) -> int:
    """`trigger-sandbox doctor`. Says what protects this machine from triggers."""

    async def ask() -> Mapping[str, Any]:
        async with TriggerSandbox(workers=1) as sandbox:
            return await sandbox.describe()

    try:
        hello = asyncio.run(ask())
    except SandboxError as error:
        _say(sys.stdout, f"triggers cannot run here: {error}")
        return EXIT_FAILED
    _say(sys.stdout, f"V8 {hello['v8']}, worker process {hello['pid']} started and ended")
    missing = 0
    for name, state in hello["layers"].items():
        missing += not state["holds"]
        _say(sys.stdout, f"{'holds  ' if state['holds'] else 'MISSING'}  {name:<12} {state['detail']}")
    return EXIT_FAILED if missing and options.all else EXIT_FIRED
