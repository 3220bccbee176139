"""What every command of the workbench shares: one error for a wrong command, and one way to run a sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from sandbox.errors import SandboxError

Result = TypeVar("Result")


class UsageError(Exception):
    """The command cannot be carried out; the message says in one sentence what to do."""


def settled(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`. Raises UsageError when no trigger can be run here."""
    try:
        return asyncio.run(work)
    except* SandboxError as group:
        raise UsageError(str(group.exceptions[0])) from group
