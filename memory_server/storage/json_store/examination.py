"""Findings about a data folder and about each conversation in it, as opening finds them; that changes nothing. And
`doctor --repair`: it mends the files of a conversation as its next use would, even one that somebody may be saving.

docs/how-to/mend-a-data-folder.md explains each finding and changes with this file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from memory_server.conversations import change_forms
from memory_server.kernel import files as folders
from memory_server.kernel import json_text, times
from memory_server.kernel.backups import BackupNotFound
from memory_server.kernel.errors import StorageError
from memory_server.kernel.files import locks_fail, try_lock
from memory_server.kernel.folder_names import find_folder, folder_name, hash_in, hashed_name, subfolders
from memory_server.kernel.private import Pause
from memory_server.kernel.text import Finding, Grade, visible
from memory_server.storage.backups.files import BackupFolder
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store.conversation_files import ConversationFiles, Opened, conversation_id_in
from memory_server.storage.json_store.snapshots import SNAPSHOTS
from memory_server.storage.partition import journal
from sandbox.locale import _, clause, counted, joined

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
UNTIL = _("Upkeep removes them after storage.archive_days, as it does the history.")
MENDS = _("the next use mends it, or `memory-server doctor --repair`")


def examine_folder(
    data_dir: Path, now_ms: int, pause: Pause | None = None, last_run_ms: int | None = None
) -> Iterator[Finding]:
    """The findings about the folder itself, which is in this `pause`, and in which upkeep ran last at `last_run_ms`."""
    if data_dir.exists() and not data_dir.is_dir():
        yield Finding("error", _("folder"), _("{data_dir} is not a folder; choose another --data-dir.", data_dir))
        return
    yield from (Finding(grade, _("folder"), what) for grade, what in _folder(data_dir, pause))
    yield from (Finding(grade, _("disk"), what) for grade, what in _disk(data_dir))
    yield from (Finding(grade, _("clock"), what) for grade, what in _clock(data_dir, now_ms, last_run_ms))
    yield from (Finding(grade, _("backups"), what) for grade, what in _backups(data_dir))


def examine_conversation(data_dir: Path, folder: Path, now_ms: int) -> list[Finding]:
    """The findings about one subfolder; one that cannot be read is itself a finding."""
    try:
        return list(examine(data_dir, folder, now_ms))
    except OSError as error:
        return [
            Finding(
                "error", folder.name, _("{name} cannot be read: {reason}.", error.filename or folder, error.strerror)
            )
        ]


def examine(data_dir: Path, folder: Path, now_ms: int) -> Iterator[Finding]:
    """The findings about the conversation in `folder`, not sorted by grade; empty if it is not a conversation."""
    name = conversation_id_in(folder)
    if name is None:
        return
    refused = [refusal for file in FILES if (refusal := folders.refusal_of(folder / file)) is not None]
    if refused:
        yield from (Finding("error", name, _("{reason}.", refusal)) for refusal in refused)
        return
    opened = ConversationFiles(folder, name, at_once=True).open()
    found = [
        *_place(data_dir, folder, name),
        *((grade, _("{what}; {mends}.", what, MENDS)) for grade, what in damage(opened, folder)),
        *_journal(opened, folder / folders.PRIVATE / "journal.jsonl"),
        *_snapshots(opened, now_ms),
        *_leftovers(folder),
        *_lock(folder / folders.PRIVATE / "lock"),
        *_open_to_others(folder),
    ]
    yield from (Finding(grade, name, what) for grade, what in found)
    if all(grade in ("ok", "note") for grade, _ in found):
        short, long = (len(opened.snapshots[file_name].latest) for file_name in SNAPSHOTS)
        held = _("{short} short-term and {long} long-term memories in the files", short, long)
        yield Finding(
            "ok",
            name,
            _("{held}, {commits} since, every file can be read", held, counted(len(opened.commits), "commit")),
        )


def damage(opened: Opened, folder: Path) -> Iterator[Said]:
    """Damage that can be mended, each without a full stop."""
    name, private = opened.state.conversation_id, folder / folders.PRIVATE
    if not opened.named:
        told = _("it is the conversation {name}", name) if "~" in folder.name else _("the folder's name is taken")
        yield "warning", _("{private} does not name the conversation; {told}", private / "conversation.json", told)
    path = private / "journal.jsonl"
    bad = opened.tail.bad
    if bad and opened.position.header is None:
        count = counted(len(opened.commits), "commit")
        yield "error", _("The first line of {path} is broken; {number} behind it can be read", path, count)
        bad = bad[1:] if bad[0].offset == 0 else bad
    for line in bad:
        yield "error", _("The line at byte {offset} of {path} does not count: {reason}", line.offset, path, line.reason)
    for file_name, snapshot in opened.snapshots.items():
        broken = snapshot.broken
        if broken is None:
            continue
        history = _("the history gives back {memories}", counted(snapshot.from_history, "memory"))
        if broken.data is None:
            yield "error", _("{file_name} is missing, and so is the copy of it; {history}", file_name, history)
            continue
        parts = [_("a copy of it counts") if snapshot.copied else _("there is no copy of it")]
        if snapshot.from_history:
            parts.append(history)
        parts.append(_("the file is kept whole"))
        said = _("{folder} cannot be used: {reason}; {parts}", folder / file_name, broken.reason, joined(", ", parts))
        yield "warning" if snapshot.copied else "error", said


def _place(data_dir: Path, folder: Path, name: str) -> Iterator[Said]:
    path = folder / folders.PRIVATE / "conversation.json"
    if "~" in name and name == folder.name and folder_name(name) != name:
        state = _("does not name the conversation") if path.exists() else _("is missing")
        yield (
            "error",
            _(
                "{path} {state}, so that the conversation cannot be found; put it back or restore a backup.",
                path,
                state,
            ),
        )
        return
    home = find_folder(data_dir, name)
    if not home.exists():
        yield (
            "error",
            _("{folder} holds this conversation, which is looked for in {name}: rename it to that.", folder, home.name),
        )
    elif home.samefile(folder):
        # Under another locale an id in UTF-8 was read as `name`, and the folder's name written as the same bytes again.
        meant = folder.name.rpartition("~")[0]
        as_made = unicodedata.normalize("NFC", folder.name) in (folder_name(name), hashed_name(name), name)
        if not as_made and meant.isprintable() and find_folder(data_dir, meant).exists():
            said = _(
                "{folder} holds memories of {meant}, whose id was misread under another locale: export this",
                folder,
                meant,
            )
            mend = _("write {meant} for its id in that file, import that, and move this folder away", meant)
            yield "warning", _("{said} conversation, {mend}.", said, mend)
    elif hash_in(folder.name) == hash_in(home.name):
        # Its bytes may not be UTF-8: they are shown as $'…' of a shell takes them.
        spelt = os.fsencode(folder).decode("utf-8", "backslashreplace")
        said = _("{spelt} holds other memories of this conversation, stored under another locale", spelt)
        mend = _(
            "rename it to {name} in an empty folder, export that with --data-dir, and import the file here", home.name
        )
        yield "warning", _("{about}: {what}.", said, mend)
    else:
        yield (
            "warning",
            _("{folder} says it is this conversation, which is kept in {home}; move the copy away.", folder, home),
        )


def _journal(opened: Opened, path: Path) -> Iterator[Said]:
    if opened.position.header is None:
        if not path.exists() and path.with_name("history.jsonl").exists():
            lost = _("what was stored since the JSON files were last written is lost")
            yield "warning", _("{path} is missing: {lost}; put it back, or restore a backup.", path, lost)
    elif opened.position.newer:
        yield "warning", _("{path} is of a newer memory-server; update this one to write here.", path)
    if opened.tail.torn:
        torn = _("The last {torn} bytes of {path} are a write that was never finished", len(opened.tail.torn), path)
        yield (
            "note",
            _("{torn} and never acknowledged; the next writer cuts them off and keeps them in set-aside.jsonl.", torn),
        )
    for line in opened.tail.lines:
        try:
            _commit = change_forms.commit_of(line) if "changes" in line else None
        except json_text.NotARecord as error:
            yield "warning", _("Commit {line} in {path} is passed over: {reason}.", line.get("seq"), path, error)


def _snapshots(opened: Opened, now_ms: int) -> Iterator[Said]:
    for file_name, snapshot in opened.snapshots.items():
        if snapshot.edited_hash is not None:
            yield "note", _("{file_name} was changed by hand or by another program since it was written.", file_name)
        if snapshot.copied and snapshot.broken is None:
            yield (
                "note",
                _("{file_name} is missing; a copy of it counts, and the next write makes it again.", file_name),
            )
    for commit in opened.commits:
        if commit.at_ms > now_ms + FUTURE_MS:
            at = times.iso(commit.at_ms)
            yield "warning", _("Commit {version} was made at {at}, in the future; check the clock.", commit.version, at)
    for file_name, snapshot in opened.snapshots.items():
        if ahead := [memory.made_ms for memory in snapshot.latest if memory.made_ms > now_ms + FUTURE_MS]:
            said = _(
                "{memories} in {file_name} of the future, up to {iso}",
                counted(len(ahead), "memory"),
                file_name,
                times.iso(max(ahead)),
            )
            yield "warning", _("{said}; check the clock.", said)


def _leftovers(folder: Path) -> Iterator[Said]:
    private = folder / folders.PRIVATE
    history = private / "history.jsonl"
    tail = journal.parse_tail(folders.read_if_there(history) or b"", 0)
    if bad := len(tail.bad) + bool(tail.torn):
        yield "warning", _("{lines} of {history} cannot be read; the others count.", counted(bad, "line"), history)
    for path in sorted([*folder.glob("*.next"), *private.glob("*.next")]):
        yield "note", _("{path} is left of a write that a crash ended; it may be deleted.", path)
    lines = [piece for piece in past.pieces(private) if "kept" not in piece.fields]
    if lines:
        reasons = joined(", ", (sorted({line.reason for line in lines})))
        yield (
            "note",
            _("{aside} unreadable pieces lie in set-aside.jsonl: {reasons}. {until}", len(lines), reasons, UNTIL),
        )
    yield from snapshots_set_aside(folder)
    others = sum(_snapshot_kept_as(kept) is None for kept, _time in past.broken_files(private))
    if others:
        files = counted(others, "damaged file")
        place = private / past.BROKEN
        yield "note", _("Copies of {files}, made before a repair, are in {place}. {until}", files, place, UNTIL)


def snapshots_set_aside(folder: Path) -> Iterator[Said]:
    """Each snapshot that was set aside in `folder`: why, how to put it back, and how long it stays."""
    private = folder / folders.PRIVATE
    reasons = {piece.fields.get("kept"): piece.reason for piece in past.pieces(private)}
    for kept, _time in past.broken_files(private):
        name = _snapshot_kept_as(kept)
        if name is None:
            continue
        reason = reasons.get(f"{past.BROKEN}/{kept.name}", _("the reason was not noted"))
        conversation_id = shlex.quote(conversation_id_in(folder) or folder.name)
        way_back = _(
            "Mend it, and `{command}` adds the memories that are missing here; or put it in place of {path}: then it "
            "counts as an edit by hand, and what it lacks is removed.",
            f"memory-server import {shlex.quote(str(kept))} -c {conversation_id}",
            folder / name,
        )
        if past.may_be_only_copy(kept):
            grade: Grade = "warning"
            stays = _("No copy has its memories, so it stays until you delete it.")
        else:
            grade = "note"
            stays = _("Upkeep removes it after storage.archive_days.")
        yield grade, _("{path} was set aside: {reason}. {way_back} {stays}", kept, reason, way_back, stays)


def _snapshot_kept_as(kept: Path) -> str | None:
    return next((name for name in SNAPSHOTS if name in kept.name), None)


def _lock(path: Path) -> Iterator[Said]:
    """Whether the lock can be taken and keeps others out, as far as can be tried."""
    if not path.exists():
        return
    try:
        lock = try_lock(path)
        second = None if lock is None else try_lock(path)
    except OSError as error:
        removed = _("it cannot be locked: {reason}; nobody can write here until it is removed", error.strerror)
        said = folders.advice_on(error) if error.errno == errno.ENOLCK else removed
        yield "error", _("{path}: {what}.", path, said)
        return
    for held in filter(None, (second, lock)):
        held.release()
    if lock is None:
        yield "note", _("It is being written just now by another process.")
    elif second is not None:
        yield "error", _("{path}: {what}.", path, folders.advice_on(locks_fail(path)))


def _open_to_others(folder: Path) -> Iterator[Said]:
    """A warning if others may read the folder, or it belongs to another user. Windows has no such permissions."""
    if os.name == "nt" or not folder.exists():
        return
    facts = folder.stat()
    if facts.st_uid != os.geteuid():
        yield "warning", _("{folder} belongs to another user; memories may not be written there.", folder)
    if facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = f"{stat.S_IMODE(facts.st_mode):o}"
        yield "warning", _("Others may look into {folder} (its mode is {mode}); `chmod 700` closes it.", folder, mode)


def _folder(data_dir: Path, pause: Pause | None) -> Iterator[Said]:
    if not data_dir.exists():
        yield "note", _("{data_dir} does not exist yet; the first memory makes it.", data_dir)
    elif not os.access(data_dir, os.R_OK | os.X_OK):
        yield "error", _("{data_dir} cannot be read; check its owner and permissions.", data_dir)
    else:
        if not os.access(data_dir, os.W_OK):
            yield "error", _("{data_dir} cannot be written; check its owner and permissions.", data_dir)
        warned = list(_open_to_others(data_dir))
        yield from warned or [("ok", _("{data_dir} exists; only you can read it", data_dir))]
    if pause is not None:
        yield "note", _("It is {value}: nothing that is said is kept, and no hook recalls.", pause.text(None))


def _disk(data_dir: Path) -> Iterator[Said]:
    free = shutil.disk_usage(next(place for place in (data_dir, *data_dir.parents) if place.exists())).free
    if free < FULL_BYTES:
        yield "error", _("The disk is full ({free:,} bytes free); nothing can be stored until there is room.", free)
    elif free < LOW_BYTES:
        yield "warning", _("Only {free} MB are free; make room before writes are refused.", free // 1024**2)
    else:
        yield "ok", _("{free:.1f} GB free", free / 1024**3)


def _clock(data_dir: Path, now_ms: int, last_run: int | None) -> Iterator[Said]:
    newest = 0
    for folder in subfolders(data_dir):
        with contextlib.suppress(OSError):
            path = folder / folders.PRIVATE / "journal.jsonl"
            newest = max(newest, path.stat().st_mtime_ns // 1_000_000)
    if newest > now_ms + CLOCK_MS:
        said = _(
            "This clock says {iso}, but a journal was written at {iso2}; set it.", times.iso(now_ms), times.iso(newest)
        )
        yield "warning", said
    elif last_run is not None and last_run > now_ms + CLOCK_MS:
        yield "warning", _("Upkeep ran at {iso}, in the future; it will run again today.", times.iso(last_run))
    else:
        yield "ok", times.iso(now_ms)


def _backups(data_dir: Path) -> Iterator[Said]:
    place = data_dir / folders.PRIVATE / "backups"
    for path in sorted([*place.glob(".*.body"), *place.glob(".*.next*")]):
        yield "note", _("{path} is a backup that is being made, or was cut short; then delete it.", visible(str(path)))
    backups = BackupFolder(place)
    try:
        found = backups.listed()
    except OSError as error:
        yield "warning", _("{name} cannot be read: {reason}.", place, error.strerror)
        return
    problems = []
    for backup in found:
        if backup.problem is not None:
            problems.append(_("The backup {name} cannot be used: {problem}.", backup.name, backup.problem))
            continue
        try:
            with backups.open(backup.name):  # checks the whole file, as a restore does
                pass
        except (BackupNotFound, StorageError) as error:
            reason = getattr(error.args[0], "values", {}).get("reason", error.args[0])
            problems.append(_("The backup {name} cannot be used: {problem}.", backup.name, reason))
    for problem in problems:
        yield "warning", _("{problem}; delete it.", clause(problem))
    if found and not problems:
        yield "ok", _("{found}, the newest of {iso}", len(found), times.iso(found[0].created_ms))
    if not found and data_dir.exists():
        if subfolders(data_dir / folders.PRIVATE / "tenants"):
            yield "note", _("No backup yet; `memory-server backup --all-tenants` backs up the owner and all tenants.")
        else:
            yield "note", _("No backup yet; `memory-server backup` makes one.")
