"""What every command of the workbench shares: one error for what cannot be done as it was asked, one way to run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from sandbox.errors import SandboxError

Result = TypeVar("Result")


class UsageError(Exception):
    """The command cannot be carried out as it was given; one sentence that says what to do."""


def settled(work: Coroutine[Any, Any, Result]) -> Result:
    """What the work with a sandbox gives. Raises UsageError when no trigger can be run here."""
    try:
        return asyncio.run(work)
    except* SandboxError as group:
        raise UsageError(str(group.exceptions[0])) from group
