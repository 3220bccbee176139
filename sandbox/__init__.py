"""Runs untrusted JavaScript triggers in a worker process. Imports nothing of ours; cheap to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import PatternError, SandboxBusy, SandboxClosed, SandboxError, SandboxUnavailable
from .limits import Limits
from .verdicts import CheckReport, Failed, FailureKind, Fired, Problem, Quiet, RunReport, Verdict

if TYPE_CHECKING:
    from .offences import Offences
    from .supervisor import TriggerSandbox

__all__ = [
    "CheckReport",
    "Failed",
    "FailureKind",
    "Fired",
    "Limits",
    "Offences",
    "PatternError",
    "Problem",
    "Quiet",
    "RunReport",
    "SandboxBusy",
    "SandboxClosed",
    "SandboxError",
    "SandboxUnavailable",
    "TriggerSandbox",
    "Verdict",
]


def __getattr__(name: str) -> object:
    # asyncio and hashlib cost 60 ms that `trigger-sandbox --help` does not need.
    if name == "TriggerSandbox":
        from .supervisor import TriggerSandbox

        return TriggerSandbox
    if name == "Offences":
        from .offences import Offences

        return Offences
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
