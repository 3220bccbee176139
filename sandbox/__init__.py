"""Runs untrusted JavaScript triggers in a worker process. Imports nothing of ours; cheap to import."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.errors import PatternError, SandboxBusy, SandboxClosed, SandboxError, SandboxUnavailable
    from sandbox.host.records import TriggerRecord
    from sandbox.host.supervisor import TriggerSandbox
    from sandbox.limits import SandboxLimits
    from sandbox.verdicts import (
        CheckReport,
        Failed,
        FailureKind,
        Fired,
        Operand,
        Problem,
        Quiet,
        Reading,
        RunReport,
        Verdict,
    )

__all__ = ["CheckReport", "Failed", "FailureKind", "Fired", "Operand"]
__all__ += ["Problem", "Quiet", "Reading", "RunReport", "Verdict"]
_MODULES = dict.fromkeys(__all__, "verdicts")
__all__ += ["SandboxLimits", "TriggerRecord", "TriggerSandbox"]
_MODULES |= {"SandboxLimits": "limits", "TriggerRecord": "host.records", "TriggerSandbox": "host.supervisor"}
__all__ += ["PatternError", "SandboxBusy", "SandboxClosed", "SandboxError", "SandboxUnavailable"]


def __getattr__(name: str) -> object:
    # Imported late: asyncio and hashlib take 60 ms, dataclasses 10, and `--help` does not need them.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"sandbox.{_MODULES.get(name, 'errors')}"), name)
