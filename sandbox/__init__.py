"""Runs untrusted JavaScript triggers in a worker process. Imports nothing of ours; cheap to import."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.errors import PatternError, SandboxBusy, SandboxClosed, SandboxError, SandboxUnavailable
    from sandbox.host.records import TriggerRecord
    from sandbox.host.supervisor import TriggerSandbox
    from sandbox.limits import Limits
    from sandbox.verdicts import CheckReport, Failed, FailureKind, Fired, Problem, Quiet, RunReport, Verdict

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


_MODULES = {"TriggerRecord": "host.records", "TriggerSandbox": "host.supervisor", "Limits": "limits"}
_VERDICTS = {"CheckReport", "Failed", "FailureKind", "Fired", "Problem", "Quiet", "RunReport", "Verdict"}


def __getattr__(name: str) -> object:
    # Imported late: asyncio and hashlib take 60 ms, dataclasses 10, and `--help` does not need them.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"sandbox.{_MODULES.get(name, 'verdicts' if name in _VERDICTS else 'errors')}")
    return getattr(module, name)
