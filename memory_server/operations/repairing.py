"""`repair`: mend now what the next use of a conversation would mend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from languages import _
from memory_server.kernel.errors import StorageError
from memory_server.kernel.values import dataclass
from memory_server.operations.ports import Progress, no_progress


class RepairPlan(Protocol):
    """What is damaged in a conversation and will be mended, in sentences. `kept_in`: where a repair keeps the files as
    they were. `set_aside`: sentences about snapshots that were set aside."""

    @property
    def conversation_id(self) -> str: ...

    @property
    def steps(self) -> Sequence[str]: ...

    @property
    def kept_in(self) -> Path: ...

    @property
    def set_aside(self) -> Sequence[str]: ...


class RepairedHome(Protocol):
    """The home of the memories, as far as a repair asks it."""

    def repairs(
        self, conversation_id: str | None = None, *, dry_run: bool = False
    ) -> Sequence[Callable[[], RepairPlan | None]]:
        """Return a blocking call for each conversation, or for the one that is named: it mends the conversation, and
        gives None if nothing is broken. It raises StorageError if it mended nothing."""


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """Which conversation is mended; None: all of them."""

    conversation_id: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was mended, or set aside before, and why conversations could not be mended."""

    plans: Sequence[RepairPlan]
    failures: Sequence[str]

    @property
    def mended(self) -> list[RepairPlan]:
        """The conversations of which something was broken."""
        return [plan for plan in self.plans if plan.steps]


async def repair(
    home: RepairedHome, request: RepairRequest, progress: Progress = no_progress
) -> RepairReport:
    """Mend conversations, or say what would be mended."""
    repairs = await asyncio.to_thread(
        home.repairs, request.conversation_id, dry_run=request.dry_run
    )
    plans: list[RepairPlan] = []
    failures: list[str] = []
    with progress(_("repairing"), len(repairs)) as advance:
        for mend in repairs:
            try:
                plan = await asyncio.to_thread(mend)
            except StorageError as error:
                failures.append(str(error))
            else:
                if plan is not None:
                    plans.append(plan)
            advance()
    return RepairReport(plans, failures)
