"""Findings about a data folder and about each conversation in it, as opening finds them; that changes nothing. And
`doctor --repair`: it mends the files of a conversation as its next use would, even one that somebody may be saving.

docs/how-to/mend-a-data-folder.md explains each finding and changes with this file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memory_server.kernel import files as folders
from memory_server.kernel import times
from memory_server.kernel.backups import BackupNotFound
from memory_server.kernel.errors import LockTimeout, StorageError, StorageUnwritable
from memory_server.kernel.files import locks_fail, try_lock
from memory_server.kernel.folder_names import find_folder, folder_name, hash_in, hashed_name, subfolders
from memory_server.kernel.private import Pause
from memory_server.kernel.text import Finding, Grade, counted, visible
from memory_server.storage.backups.files import BackupFolder
from memory_server.storage.json_store import codec, past
from memory_server.storage.json_store.conversation_files import ConversationFiles, Opened, conversation_id_in
from memory_server.storage.json_store.snapshots import SNAPSHOTS
from memory_server.storage.partition import journal

Said = tuple[Grade, str]
"""A grade and a sentence: a `Finding` without `about`."""
FUTURE_MS = 86_400_000
"""A time further ahead than this is a finding: a day, because clocks and time zones differ."""
LOW_BYTES, FULL_BYTES = 200 * 1024 * 1024, 5 * 1024 * 1024
"""Free space below which a disk is low, and below which a compaction of some thousand memories no longer fits."""
CLOCK_MS = 60_000
"""How far behind the newest file the clock may be: file systems round, and other machines may write here."""
FILES = (
    *SNAPSHOTS,
    *(f"{folders.PRIVATE}/{name}.zlib" for name in SNAPSHOTS),
    *(f"{folders.PRIVATE}/{name}.jsonl" for name in ("journal", "history", "archive", "set-aside")),
    *(f"{folders.PRIVATE}/{name}" for name in ("conversation.json", "lock")),
)
"""What has to be a file, if it exists."""
UNTIL = "Upkeep removes them after storage.archive_days, as it does the history."
MENDS = "the next use mends it, or `memory-server doctor --repair`"


def examine_folder(
    data_dir: Path, now_ms: int, pause: Pause | None = None, last_run_ms: int | None = None
) -> Iterator[Finding]:
    """The findings about the folder itself, which is in this `pause`, and in which upkeep ran last at `last_run_ms`."""
    if data_dir.exists() and not data_dir.is_dir():
        yield Finding("error", "folder", f"{data_dir} is not a folder; choose another --data-dir.")
        return
    yield from (Finding(grade, "folder", what) for grade, what in _folder(data_dir, pause))
    yield from (Finding(grade, "disk", what) for grade, what in _disk(data_dir))
    yield from (Finding(grade, "clock", what) for grade, what in _clock(data_dir, now_ms, last_run_ms))
    yield from (Finding(grade, "backups", what) for grade, what in _backups(data_dir))


def examine_conversation(data_dir: Path, folder: Path, now_ms: int) -> list[Finding]:
    """The findings about one subfolder; one that cannot be read is itself a finding."""
    try:
        return list(examine(data_dir, folder, now_ms))
    except OSError as error:
        return [Finding("error", folder.name, f"{error.filename or folder} cannot be read: {error.strerror}.")]


def examine(data_dir: Path, folder: Path, now_ms: int) -> Iterator[Finding]:
    """The findings about the conversation in `folder`, not sorted by grade; empty if it is not a conversation."""
    name = conversation_id_in(folder)
    if name is None:
        return
    refused = [refusal for file in FILES if (refusal := folders.refusal_of(folder / file)) is not None]
    if refused:
        yield from (Finding("error", name, f"{refusal}.") for refusal in refused)
        return
    opened = ConversationFiles(folder, name, at_once=True).open()
    found = [
        *_place(data_dir, folder, name),
        *((grade, f"{what}; {MENDS}.") for grade, what in damage(opened, folder)),
        *_journal(opened, folder / folders.PRIVATE / "journal.jsonl"),
        *_snapshots(opened, now_ms),
        *_leftovers(folder),
        *_lock(folder / folders.PRIVATE / "lock"),
        *_open_to_others(folder),
    ]
    yield from (Finding(grade, name, what) for grade, what in found)
    if all(grade in ("ok", "note") for grade, _ in found):
        short, long = (len(opened.snapshots[file_name].latest) for file_name in SNAPSHOTS)
        held = f"{short} short-term and {long} long-term memories in the files"
        yield Finding("ok", name, f"{held}, {counted(len(opened.commits), 'commit')} since, every file can be read")


def damage(opened: Opened, folder: Path) -> Iterator[Said]:
    """Damage that can be mended, each without a full stop."""
    name, private = opened.state.conversation_id, folder / folders.PRIVATE
    if not opened.named:
        told = f"it is the conversation {name}" if "~" in folder.name else "the folder's name is taken"
        yield "warning", f"{private / 'conversation.json'} does not name the conversation; {told}"
    path = private / "journal.jsonl"
    bad = opened.tail.bad
    if bad and opened.position.header is None:
        count = counted(len(opened.commits), "commit")
        yield "error", f"The first line of {path} is broken; {count} behind it can be read"
        bad = bad[1:] if bad[0].offset == 0 else bad
    for line in bad:
        yield "error", f"The line at byte {line.offset} of {path} does not count: {line.reason}"
    for file_name, snapshot in opened.snapshots.items():
        broken, lost, copied = snapshot.broken, snapshot.from_history, snapshot.copied
        history = f"the history gives back {counted(lost, 'memory')}"
        if broken is None:
            continue
        if broken.data is None:
            yield "error", f"{file_name} is missing, and so is the copy of it; {history}"
            continue
        parts = [
            "a copy of it counts" if copied else "there is no copy of it",
            f"{len(broken.records)} of its memories can be read",
            *([history] if lost else []),
            *([f"{counted(len(broken.pieces), 'piece')} of it goes to set-aside.jsonl"] if broken.pieces else []),
        ]
        said = f"{folder / file_name} cannot be used: {broken.reason}; {', '.join(parts)}"
        yield "warning" if copied else "error", said


def _place(data_dir: Path, folder: Path, name: str) -> Iterator[Said]:
    path = folder / folders.PRIVATE / "conversation.json"
    if "~" in name and name == folder.name and folder_name(name) != name:
        state = "does not name the conversation" if path.exists() else "is missing"
        yield "error", f"{path} {state}, so that the conversation cannot be found; put it back or restore a backup."
        return
    home = find_folder(data_dir, name)
    if not home.exists():
        yield "error", f"{folder} holds this conversation, which is looked for in {home.name}: rename it to that."
    elif home.samefile(folder):
        # Under another locale an id in UTF-8 was read as `name`, and the folder's name written as the same bytes again.
        meant = folder.name.rpartition("~")[0]
        as_made = unicodedata.normalize("NFC", folder.name) in (folder_name(name), hashed_name(name), name)
        if not as_made and meant.isprintable() and find_folder(data_dir, meant).exists():
            said = f"{folder} holds memories of {meant}, whose id was misread under another locale: export this"
            mend = f"write {meant} for its id in that file, import that, and move this folder away"
            yield "warning", f"{said} conversation, {mend}."
    elif hash_in(folder.name) == hash_in(home.name):
        # Its bytes may not be UTF-8: they are shown as $'…' of a shell takes them.
        spelt = os.fsencode(folder).decode("utf-8", "backslashreplace")
        said = f"{spelt} holds other memories of this conversation, stored under another locale"
        mend = f"rename it to {home.name} in an empty folder, export that with --data-dir, and import the file here"
        yield "warning", f"{said}: {mend}."
    else:
        yield "warning", f"{folder} says it is this conversation, which is kept in {home}; move the copy away."


def _journal(opened: Opened, path: Path) -> Iterator[Said]:
    if opened.position.header is None:
        if not path.exists() and path.with_name("history.jsonl").exists():
            lost = "what was stored since the JSON files were last written is lost"
            yield "warning", f"{path} is missing: {lost}; put it back, or restore a backup."
    elif opened.position.newer:
        yield "warning", f"{path} is of a newer memory-server; update this one to write here."
    if opened.tail.torn:
        torn = f"The last {len(opened.tail.torn)} bytes of {path} are a write that was never finished"
        yield "note", f"{torn} and never acknowledged; the next writer cuts them off and keeps them in set-aside.jsonl."
    for line in opened.tail.lines:
        try:
            _ = past.commit_of(line) if "changes" in line else None
        except codec.NotARecord as error:
            yield "warning", f"Commit {line.get('seq')} in {path} is passed over: {error}."


def _snapshots(opened: Opened, now_ms: int) -> Iterator[Said]:
    for file_name, snapshot in opened.snapshots.items():
        if snapshot.edited_hash is not None:
            yield "note", f"{file_name} was changed by hand or by another program since it was written."
        if snapshot.copied and snapshot.broken is None:
            yield "note", f"{file_name} is missing; a copy of it counts, and the next write makes it again."
    for commit in opened.commits:
        if commit.at_ms > now_ms + FUTURE_MS:
            at = times.iso(commit.at_ms)
            yield "warning", f"Commit {commit.version} was made at {at}, in the future; check the clock."
    for file_name, snapshot in opened.snapshots.items():
        if ahead := [memory.made_ms for memory in snapshot.latest if memory.made_ms > now_ms + FUTURE_MS]:
            said = f"{counted(len(ahead), 'memory')} in {file_name} of the future, up to {times.iso(max(ahead))}"
            yield "warning", f"{said}; check the clock."


def _leftovers(folder: Path) -> Iterator[Said]:
    private = folder / folders.PRIVATE
    history = private / "history.jsonl"
    tail = journal.parse_tail(folders.read_if_there(history) or b"", 0)
    if bad := len(tail.bad) + bool(tail.torn):
        yield "warning", f"{counted(bad, 'line')} of {history} cannot be read; the others count."
    for path in sorted([*folder.glob("*.next"), *private.glob("*.next")]):
        yield "note", f"{path} is left of a write that a crash ended; it may be deleted."
    if aside := past.pieces(private):
        reasons = ", ".join(sorted({piece.reason for piece in aside}))
        yield "note", f"{len(aside)} unreadable pieces lie in set-aside.jsonl: {reasons}. {UNTIL}"
    if kept := list(past.broken_files(private)):
        place = private / past.BROKEN
        files = counted(len(kept), "damaged file")
        yield "note", f"Copies of {files}, made before a repair, are in {place}. {UNTIL}"


def _lock(path: Path) -> Iterator[Said]:
    """Whether the lock can be taken and keeps others out, as far as can be tried."""
    if not path.exists():
        return
    try:
        lock = try_lock(path)
        second = None if lock is None else try_lock(path)
    except OSError as error:
        removed = f"it cannot be locked: {error.strerror}; nobody can write here until it is removed"
        said = folders.advice_on(error) if error.errno == errno.ENOLCK else removed
        yield "error", f"{path}: {said}."
        return
    for held in filter(None, (second, lock)):
        held.release()
    if lock is None:
        yield "note", "It is being written just now by another process."
    elif second is not None:
        yield "error", f"{path}: {folders.advice_on(locks_fail(path))}."


def _open_to_others(folder: Path) -> Iterator[Said]:
    """A warning if others may read the folder, or it belongs to another user. Windows has no such permissions."""
    if os.name == "nt" or not folder.exists():
        return
    facts = folder.stat()
    if facts.st_uid != os.geteuid():
        yield "warning", f"{folder} belongs to another user; memories may not be written there."
    if facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = f"{stat.S_IMODE(facts.st_mode):o}"
        yield "warning", f"Others may look into {folder} (its mode is {mode}); `chmod 700` closes it."


def _folder(data_dir: Path, pause: Pause | None) -> Iterator[Said]:
    if not data_dir.exists():
        yield "note", f"{data_dir} does not exist yet; the first memory makes it."
    elif not os.access(data_dir, os.R_OK | os.X_OK):
        yield "error", f"{data_dir} cannot be read; check its owner and permissions."
    else:
        if not os.access(data_dir, os.W_OK):
            yield "error", f"{data_dir} cannot be written; check its owner and permissions."
        warned = list(_open_to_others(data_dir))
        yield from warned or [("ok", f"{data_dir} is there and its owner's only")]
    if pause is not None:
        yield "note", f"It is {pause.text(None)}: nothing that is said is kept, and no hook recalls."


def _disk(data_dir: Path) -> Iterator[Said]:
    free = shutil.disk_usage(next(place for place in (data_dir, *data_dir.parents) if place.exists())).free
    if free < FULL_BYTES:
        yield "error", f"The disk is full ({free:,} bytes free); nothing can be stored until there is room."
    elif free < LOW_BYTES:
        yield "warning", f"Only {free // 1024**2} MB are free; make room before writes are refused."
    else:
        yield "ok", f"{free / 1024**3:.1f} GB free"


def _clock(data_dir: Path, now_ms: int, last_run: int | None) -> Iterator[Said]:
    newest = 0
    for folder in subfolders(data_dir):
        with contextlib.suppress(OSError):
            path = folder / folders.PRIVATE / "journal.jsonl"
            newest = max(newest, path.stat().st_mtime_ns // 1_000_000)
    if newest > now_ms + CLOCK_MS:
        said = f"This clock says {times.iso(now_ms)}, but a journal was written at {times.iso(newest)}; set it."
        yield "warning", said
    elif last_run is not None and last_run > now_ms + CLOCK_MS:
        yield "warning", f"Upkeep ran at {times.iso(last_run)}, in the future; it will run again today."
    else:
        yield "ok", times.iso(now_ms)


def _backups(data_dir: Path) -> Iterator[Said]:
    place = data_dir / folders.PRIVATE / "backups"
    for path in sorted([*place.glob(".*.body"), *place.glob(".*.next*")]):
        yield "note", f"{visible(str(path))} is a backup that is being made, or was cut short; then delete it."
    shelf = BackupFolder(place)
    try:
        found = shelf.listed()
    except OSError as error:
        yield "warning", f"{place} cannot be read: {error.strerror}."
        return
    problems = []
    for backup in found:
        if backup.problem is not None:
            problems.append(f"The backup {backup.name} cannot be used: {backup.problem}.")
            continue
        try:
            with shelf.open(backup.name):  # checks the whole file, as a restore does
                pass
        except (BackupNotFound, StorageError) as error:
            problems.append(str(error))
    for problem in problems:
        yield "warning", f"{problem.split(' Nothing was changed')[0].rstrip('.')}; delete it."
    if found and not problems:
        yield "ok", f"{len(found)}, the newest of {times.iso(found[0].created_ms)}"
    if not found and data_dir.exists():
        yield "note", "There is none; `memory-server backup` makes one."


# --- repair --------------------------------------------------------------------------------------------------

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
    path = folder / folders.PRIVATE / "lock"
    try:
        if wanted not in (None, conversation_id_in(folder)):
            return None
        # Looked at first without the lock: whole conversations are neither waited for nor touched.
        found = plan(folder)
        if found is None or dry_run:
            return found
        folders.make_folder(path.parent)
        deadline = time.monotonic() + WAIT_SECONDS
        while (lock := try_lock(path)) is None:
            if time.monotonic() > deadline:
                raise LockTimeout(
                    f"another process has been writing for more than {WAIT_SECONDS:g} s; try again.", path
                )
            time.sleep(0.02)
        try:
            if (found := plan(folder)) is not None:
                files = ConversationFiles(folder, found.conversation_id, at_once=True)
                files.absorb(*files.load(), at_ms=now_ms)
            return found
        finally:
            lock.release()
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
    return Plan(name, steps, folder / folders.PRIVATE / past.BROKEN) if steps else None
