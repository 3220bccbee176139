"""Runs untrusted JavaScript triggers in a worker process. Imports nothing of ours; cheap to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.errors import PatternError, SandboxBusy, SandboxClosed, SandboxError, SandboxUnavailable
from sandbox.limits import Limits
from sandbox.verdicts import CheckReport, Failed, FailureKind, Fired, Problem, Quiet, RunReport, Verdict

if TYPE_CHECKING:
    from sandbox.host.records import TriggerRecord
    from sandbox.host.supervisor import TriggerSandbox

__all__ = [
    "CheckReport",
    "Failed",
    "FailureKind",
    "Fired",
    "Limits",
    "PatternError",
    "Problem",
    "Quiet",
    "RunReport",
    "SandboxBusy",
    "SandboxClosed",
    "SandboxError",
    "SandboxUnavailable",
    "TriggerRecord",
    "TriggerSandbox",
    "Verdict",
]


def __getattr__(name: str) -> object:
    # Imported late: asyncio and hashlib take 60 ms, and `trigger-sandbox --help` does not need them.
    if name == "TriggerSandbox":
        from sandbox.host.supervisor import TriggerSandbox

        return TriggerSandbox
    if name == "TriggerRecord":
        from sandbox.host.records import TriggerRecord

        return TriggerRecord
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
