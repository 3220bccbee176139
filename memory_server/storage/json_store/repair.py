"""Repairing the files of a conversation: what would be done, and doing it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from memory_server.kernel import files as folders
from memory_server.kernel.errors import LockTimeout, StorageError, StorageUnwritable
from memory_server.kernel.files import try_lock
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store.conversation_files import ConversationFiles, conversation_id_in
from memory_server.storage.json_store.examination import damage, snapshots_set_aside
from sandbox.locale import _

WAIT_SECONDS = 10.0
"""How long a repair waits for a writer, as any writer does."""


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What is damaged and will be mended, in sentences. `kept_in`: where a repair keeps the files as they were.
    `set_aside`: sentences about each snapshot that was set aside, also at an earlier use, and how to put it back."""

    conversation_id: str
    steps: tuple[str, ...]
    kept_in: Path
    set_aside: tuple[str, ...]


def repair(folder: Path, now_ms: int, *, wanted: str | None = None, dry_run: bool = False) -> RepairPlan | None:
    """Mend what is damaged in `folder`, and say what that was; None where `plan` says so, or another conversation is
    `wanted`. After a StorageError nothing was mended."""
    path = folder / folders.PRIVATE / "lock"
    try:
        if wanted not in (None, conversation_id_in(folder)):
            return None
        # Looked at first without the lock: whole conversations are neither waited for nor touched.
        found = plan(folder)
        if found is None or not found.steps or dry_run:
            return found
        folders.make_folder(path.parent)
        deadline = time.monotonic() + WAIT_SECONDS
        while (lock := try_lock(path)) is None:
            if time.monotonic() > deadline:
                raise LockTimeout(
                    _("another process has been writing for more than {wait:g} s; try again.", WAIT_SECONDS), path
                )
            time.sleep(0.02)
        try:
            if (found := plan(folder)) is not None:
                files = ConversationFiles(folder, found.conversation_id, at_once=True)
                files.absorb(*files.load(), at_ms=now_ms)
                found = replace(found, set_aside=_set_aside(folder))
            return found
        finally:
            lock.release()
    except (OSError, StorageError) as error:
        raise StorageError(_("{name} was left as it is: {reason}", folder.name, error), folder) from error


def plan(folder: Path) -> RepairPlan | None:
    """What a repair would mend in `folder`; changes nothing. None: nothing is damaged and no snapshot was set aside, or
    it is not a conversation. Raises StorageUnwritable if a newer memory-server wrote here, so that this one must not
    touch it."""
    name = conversation_id_in(folder)
    if name is None:
        return None
    opened = ConversationFiles(folder, name, at_once=True).open()
    if opened.position.newer:
        raise StorageUnwritable(_("It is of a newer memory-server; update this one."), folder)
    steps = tuple(_("{what}.", what) for _grade, what in damage(opened, folder))
    set_aside = _set_aside(folder)
    if not steps and not set_aside:
        return None
    return RepairPlan(name, steps, folder / folders.PRIVATE / past.BROKEN, set_aside)


def _set_aside(folder: Path) -> tuple[str, ...]:
    return tuple(what for _grade, what in snapshots_set_aside(folder))
