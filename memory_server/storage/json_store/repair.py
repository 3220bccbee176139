"""Repairing the files of a conversation: what would be done, and doing it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from languages import Sentence, _
from memory_server.conversations.ports import RepairPlan
from memory_server.kernel import files as folders
from memory_server.kernel.errors import StorageError, StorageUnwritable
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store.conversation_files import (
    ConversationFiles,
    conversation_id_in,
)
from memory_server.storage.json_store.examination import damage, snapshots_set_aside

WAIT_SECONDS = 10.0
"""The timeout of a repair that waits for a writer, as of any writer."""


def repair(
    folder: Path, now_ms: int, *, conversation_id: str | None = None, dry_run: bool = False
) -> RepairPlan | None:
    """Mend what is damaged in `folder`, or with `dry_run` only look, and say what that is. Return None if `plan` does, or
    if this is not the conversation `conversation_id`. Raises StorageError, with nothing mended, if it cannot be read
    or written."""
    try:
        if conversation_id not in (None, conversation_id_in(folder)):
            return None
        # Looked at first without the lock: conversations without damage are neither waited for nor touched.
        repair_plan = plan(folder)
        if repair_plan is None or not repair_plan.steps or dry_run:
            return repair_plan
        lock_path = folder / folders.PRIVATE / "lock"
        folders.make_folder(lock_path.parent)
        lock = folders.lock_within(lock_path, WAIT_SECONDS, folder)
        try:
            return _repair_now(folder, now_ms)
        finally:
            lock.release()
    except (OSError, StorageError) as error:
        raise StorageError(
            Sentence("{name} was left as it is: {reason}", folder.name, error), folder
        ) from error


def _repair_now(folder: Path, now_ms: int) -> RepairPlan | None:
    """Mend a conversation whose lock the caller holds. Return what was mended, or None if nothing is damaged any more."""
    repair_plan = plan(folder)
    if repair_plan is None:
        return None
    files = ConversationFiles(folder, repair_plan.conversation_id, at_once=True)
    state, position = files.load()
    files.absorb(state, position, at_ms=now_ms)
    return replace(repair_plan, set_aside=_set_aside(folder))


def plan(folder: Path) -> RepairPlan | None:
    """Say what a repair would mend in `folder`; changes nothing. Return None if nothing is damaged and no snapshot
    was set aside, or if it is not a conversation. Raises StorageUnwritable if a newer memory-server wrote here, so
    that this program must not touch it."""
    name = conversation_id_in(folder)
    if name is None:
        return None

    opened = ConversationFiles(folder, name, at_once=True).open()
    if opened.position.newer:
        raise StorageUnwritable(
            Sentence("It is of a newer memory-server; update this one."), folder
        )

    steps = tuple(_("{what}.", sentence) for _grade, sentence in damage(opened, folder))
    set_aside = _set_aside(folder)
    if not steps and not set_aside:
        return None

    return RepairPlan(
        name, steps, kept_in=folder / folders.PRIVATE / past.BROKEN, set_aside=set_aside
    )


def _set_aside(folder: Path) -> tuple[str, ...]:
    return tuple(sentence for _grade, sentence in snapshots_set_aside(folder))
