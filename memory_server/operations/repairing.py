"""Mend now what the next use of a conversation would mend (`repair`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from languages import _
from memory_server.conversations.ports import RepairPlan
from memory_server.kernel.errors import StorageError
from memory_server.kernel.values import frozen
from memory_server.operations.ports import HomeOfMemories, Progress, no_progress


@frozen
class RepairRequest:
    """A request to mend one conversation, or all if `conversation_id` is None."""

    conversation_id: str | None = None
    dry_run: bool = False


@frozen
class RepairReport:
    """The repairs, what was set aside before, and why conversations could not be mended."""

    plans: Sequence[RepairPlan]
    failures: Sequence[str]

    @property
    def mended(self) -> list[RepairPlan]:
        """The conversations that were broken."""
        return [plan for plan in self.plans if plan.steps]


async def repair(
    home: HomeOfMemories, request: RepairRequest, progress: Progress = no_progress
) -> RepairReport:
    """Mend conversations, or with `dry_run` only plan it. One that cannot be mended is reported as
    a failure."""
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
                # One conversation that cannot be mended must not stop the others.
                failures.append(str(error))
            else:
                if plan is not None:
                    plans.append(plan)
            advance()
    return RepairReport(plans, failures)
