"""Back up the memories of a caller (`back_up`), or of the owner and of every tenant (`back_up_all`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from languages import _
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.values import frozen
from memory_server.memories.backups import BackupResult
from memory_server.operations.ports import OpenMemory, Progress, no_progress
from memory_server.operations.whereabouts import shown_names

Tenants = Mapping[str, Callable[[], AbstractAsyncContextManager[OpenMemory]]]
"""The tenants besides the owner, by name, each with a function that opens the tenant's memories."""


@frozen
class BackupRequest:
    """A request to back up everything, or one conversation. The backup is named after the time if `name` is None."""

    name: str | None = None
    conversation_id: str | None = None


@frozen
class BackupPart:
    """The backup of the owner (`tenant` is None) or of a tenant. `backup` is None if nothing is stored there, or if
    it failed for a `reason`."""

    tenant: str | None
    backup: BackupResult | None = None
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        if self.backup is None:
            return not self.reason
        return not self.backup.left_out


async def back_up(
    view: OpenMemory, request: BackupRequest, progress: Progress = no_progress
) -> BackupResult:
    """Back up what a caller sees. Raises InvalidInput if nothing is stored, or if only tenants have memories."""
    conversation_ids = await view.memories.conversations.ids()

    if request.conversation_id is not None:
        conversation_ids = [request.conversation_id]
    elif not await _has_memories(view):
        tenants = view.home.tenant_names()
        if tenants:
            raise InvalidInput(
                "Only tenants have memories here ({names}); `memory-server backup --all-tenants` backs up all of them.",
                shown_names(tenants),
            )

    with progress(_("backing up"), len(conversation_ids)) as advance:
        return await view.memories.backups.make(
            request.name, only=request.conversation_id, advance=advance
        )


async def back_up_all(
    view: OpenMemory, tenants: Tenants, name: str | None, progress: Progress
) -> Sequence[BackupPart]:
    """Back up the memories of the owner, if there are any, and of every tenant, all under one name, each next to its
    memories. Raises InvalidInput if nothing is stored at all."""
    parts: list[BackupPart] = []

    if await _has_memories(view) or not tenants:
        backup = await back_up(view, BackupRequest(name), progress)
        parts.append(BackupPart(None, backup))

        # The first backup chooses the name, which may be the time.
        name = backup.backup.name

    for tenant, opened in tenants.items():
        async with opened() as memories:
            if not await _has_memories(memories):
                parts.append(BackupPart(tenant))
                continue

            # A tenant that cannot be read must not keep the others from being backed up.
            try:
                backup = await back_up(memories, BackupRequest(name), progress)
            except (StorageError, InvalidInput) as error:
                parts.append(BackupPart(tenant, reason=str(error)))
                continue
        parts.append(BackupPart(tenant, backup))
        name = backup.backup.name
    return parts


async def _has_memories(view: OpenMemory) -> bool:
    return bool(await view.memories.conversations.ids() or await view.knowledge.overview())
