"""`doctor --repair`: mends the files of a conversation as its next use would, even one that somebody may be saving."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memory_server.core.errors import LockTimeout, StorageError, StorageUnwritable
from memory_server.storage.json_store import quarantine
from memory_server.storage.json_store.conversation_files import ConversationFiles, conversation_id_in
from memory_server.storage.json_store.examination import damage
from memory_server.storage.partition import folders
from memory_server.storage.partition.locking import try_lock

WAIT_SECONDS = 10.0
"""How long a repair waits for a writer, as any writer does."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is damaged and will be mended, in sentences. `kept_in`: where a repair keeps the files as they were."""

    conversation_id: str
    steps: tuple[str, ...]
    kept_in: Path


def repair(folder: Path, now_ms: int, *, wanted: str | None = None, dry_run: bool = False) -> Plan | None:
    """Mend what is damaged in `folder`, and say what that was; None: nothing is, or another conversation is `wanted`.
    After a StorageError nothing was mended."""
    try:
        if wanted not in (None, conversation_id_in(folder)):
            return None
        # Looked at first without the lock: whole conversations are neither waited for nor touched.
        found = plan(folder)
        if found is None or dry_run:
            return found
        with _locked(folder):
            if (found := plan(folder)) is not None:
                carry_out(found, folder, now_ms)
            return found
    except (OSError, StorageError) as error:
        raise StorageError(f"{folder.name} was left as it is: {error}", folder) from error


def plan(folder: Path) -> Plan | None:
    """What a repair would mend in `folder`; changes nothing. None: nothing is damaged, or it is not a conversation.
    Raises StorageUnwritable if a newer memory-server wrote here, so that this one must not touch it."""
    name = conversation_id_in(folder)
    if name is None:
        return None
    opened = ConversationFiles(folder, name, at_once=True).open()
    if opened.position.newer:
        raise StorageUnwritable("It is of a newer memory-server; update this one.", folder)
    steps = tuple(f"{what}." for _, what in damage(opened, folder))
    return Plan(name, steps, folder / folders.PRIVATE / quarantine.BROKEN) if steps else None


def carry_out(found: Plan, folder: Path, now_ms: int) -> None:
    """Mend what `plan` found. Call it under the lock of the conversation."""
    files = ConversationFiles(folder, found.conversation_id, at_once=True)
    files.absorb(*files.load(), at_ms=now_ms)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    path = folder / folders.PRIVATE / "lock"
    folders.make_folder(path.parent)
    deadline = time.monotonic() + WAIT_SECONDS
    while (lock := try_lock(path)) is None:
        if time.monotonic() > deadline:
            raise LockTimeout(f"another process has been writing for more than {WAIT_SECONDS:g} s; try again.", path)
        time.sleep(0.02)
    try:
        yield
    finally:
        lock.release()
