"""Findings about a data folder and about each conversation in it, as opening finds them; that changes nothing. And
`doctor --repair`: it mends the files of a conversation as its next use would, even if another program may be saving a
file.

docs/reference/findings.md explains each finding and changes with this file."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from languages import N_, _, clause, counted, joined
from memory_server.conversations.changes import change_id
from memory_server.conversations.model import ConversationState
from memory_server.kernel import files as folders
from memory_server.kernel import times
from memory_server.kernel.backups import Backup, BackupNotFound
from memory_server.kernel.errors import StorageError
from memory_server.kernel.files import (
    find_folder,
    folder_name,
    hash_in,
    hashed_name,
    locks_fail,
    subfolders,
    try_lock,
)
from memory_server.kernel.private import Pause
from memory_server.kernel.text import Finding, Grade, visible
from memory_server.kernel.times import iso
from memory_server.storage.backups.files import BackupFolder
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store.conversation_files import (
    ConversationFiles,
    OpenedConversation,
    conversation_id_in,
)
from memory_server.storage.json_store.snapshots import SNAPSHOTS, Broken, Snapshot
from memory_server.storage.partition import journal

# --- leavings of crashes and repairs -----------------------------------------------------------------------------

# Findings about what crashes, damage and repairs leave in the folder of a conversation.
#
# docs/reference/findings.md explains each finding and changes with this file.

GradedSentence = tuple[Grade, str]
"""A grade and a sentence: a `Finding` without `about`."""
UNTIL = N_("Upkeep removes them after storage.archive_days, as it does the history.")


def snapshot_damage(path: Path, snapshot: Snapshot, broken: Broken) -> GradedSentence:
    """Say what counts in the place of a broken snapshot, or of some records of it; without a full stop."""
    if broken.unusable:
        sentence = _(
            "{records} of {file} cannot be used: {reason}; the others are used, the file is kept whole",
            counted(len(broken.unusable), "record"),
            path,
            broken.reason,
        )
        return "warning", sentence

    history = _("the history can restore {memories}", counted(snapshot.from_history, "memory"))
    if broken.data is None:
        return "error", _(
            "{file_name} is missing, and so is the copy of it; {history}", path.name, history
        )

    # Without a copy the loss is certain; with it only an edit may be lost.
    grade: Grade = "error"
    parts = [_("there is no copy of it")]
    if snapshot.copied:
        grade = "warning"
        parts = [_("its copy is used")]

    if snapshot.from_history:
        parts.append(history)

    parts.append(_("the file is kept whole"))
    return grade, _(
        "{folder} cannot be used: {reason}; {parts}", path, broken.reason, joined(", ", parts)
    )


def leftovers(folder: Path, state: ConversationState) -> Iterator[GradedSentence]:
    """Yield a finding for unreadable lines, unfinished files, pieces and files that were set aside,
    and memories that went into the archive because a file that was put in place of ours did not
    have them."""
    private = folder / folders.PRIVATE
    history = private / "history.jsonl"
    tail = journal.parse_tail(folders.read_if_there(history) or b"", 0)
    unreadable_lines = len(tail.bad) + bool(tail.torn)
    if unreadable_lines:
        lines = counted(unreadable_lines, "line")
        yield (
            "warning",
            _("{lines} of {history} cannot be read; the others are used.", lines, history),
        )

    yield from unusable_changes(history, tail.lines)
    for path in sorted([*folder.glob("*.next"), *private.glob("*.next")]):
        yield (
            "note",
            _(
                "{path} is left over from a write that a crash interrupted; you may delete it.",
                path,
            ),
        )

    # A piece that is `kept` is a whole file, which is reported with the snapshots.
    pieces = [piece for piece in past.pieces(private) if "kept" not in piece.fields]
    if pieces:
        reasons = joined(", ", sorted({_(piece.reason) for piece in pieces}))
        yield (
            "note",
            _(
                "{aside} unreadable pieces lie in set-aside.jsonl: {reasons}. {until}",
                len(pieces),
                reasons,
                _(UNTIL),
            ),
        )

    yield from snapshots_set_aside(folder)
    yield from _removed_with_a_file(folder, state)
    # Snapshots are reported above, one by one.
    other_files = sum(_snapshot_kept_as(path) is None for path, _time in past.broken_files(private))
    if other_files:
        files = counted(other_files, "damaged file")
        broken_folder = private / past.BROKEN
        yield (
            "note",
            _(
                "Copies of {files}, made before a repair, are in {place}. {until}",
                files,
                broken_folder,
                _(UNTIL),
            ),
        )


def _removed_with_a_file(folder: Path, state: ConversationState) -> Iterator[GradedSentence]:
    """Yield a note on the last change in which memories went into the archive because a file no
    longer had them, if they are not back: a person deleted them, or a program that syncs or
    restores put an older file back."""
    removals = [
        entry
        for entry in past.Past(folder / folders.PRIVATE).archived()
        if entry.by == "hand" and entry.memory.key not in state.like(entry.memory)
    ]
    if not removals:
        return

    # Older removals were probably meant, or are known by now.
    last = removals[-1]
    count = sum(entry.version == last.version for entry in removals)
    yield (
        "note",
        _(
            "{memories} went into the archive at {at}, because a file in {folder} no longer had them: somebody deleted them "
            "there, or a program put an older file back. `memory-server undo {change}` brings them back; else upkeep "
            "removes them after storage.archive_days.",
            counted(count, "memory"),
            iso(last.at_ms),
            folder,
            change_id(state.conversation_id, last.version),
        ),
    )


def unusable_changes(path: Path, lines: Iterable[Mapping[str, Any]]) -> Iterator[GradedSentence]:
    """Report the changes in these lines of a journal or history that cannot be used, if there are any."""
    unusable = past.unusable_changes(lines)
    if unusable:
        sentence = _(
            "{changes} in {path} cannot be used: {reason}; the others of those commits are used, the lines are kept.",
            counted(len(unusable), "change"),
            path,
            unusable[0].reason,
        )
        yield "warning", sentence


def snapshots_set_aside(folder: Path) -> Iterator[GradedSentence]:
    """Yield for each snapshot that was set aside in `folder` why, how to put it back, and how long
    it stays: a warning if it may be the only copy of memories, else a note."""
    private = folder / folders.PRIVATE
    reasons = {piece.fields.get("kept"): piece.reason for piece in past.pieces(private)}
    for path, _time in past.broken_files(private):
        file_name = _snapshot_kept_as(path)
        if file_name is None:
            continue

        reason = reasons.get(f"{past.BROKEN}/{path.name}", _("the reason was not noted"))
        conversation_id = shlex.quote(conversation_id_in(folder) or folder.name)
        way_back = _(
            "Repair the file, and `{command}` adds the memories that are missing here. Or put it in place of "
            "{path}: that counts as an edit by hand, and memories that the file lacks are removed.",
            f"memory-server import {shlex.quote(str(path))} -c {conversation_id}",
            folder / file_name,
        )
        if past.may_be_only_copy(path):
            grade: Grade = "warning"
            stays = _("No other file has its memories, so it stays until you delete it.")
        else:
            grade = "note"
            stays = _("Upkeep removes it after storage.archive_days.")

        yield (
            grade,
            _("{path} was set aside: {reason}. {way_back} {stays}", path, reason, way_back, stays),
        )


def _snapshot_kept_as(path: Path) -> str | None:
    """Return the name of the snapshot that a file in `broken` was, or None if it was another file."""
    return next((name for name in SNAPSHOTS if name in path.name), None)


# --- the folder and each conversation ----------------------------------------------------------------------------

FUTURE_MS = 86_400_000
"""A time further ahead than this is a finding: a day, because clocks and time zones differ."""
LOW_BYTES = 200 * 1024 * 1024
"""The free space below which a disk is low."""
FULL_BYTES = 5 * 1024 * 1024
"""The free space below which a compaction of some thousand memories no longer fits."""
CLOCK_MS = 60_000
"""The time that the clock may be behind the newest file: file systems round, and other machines may write here."""
FILES = (
    *SNAPSHOTS,
    *(f"{folders.PRIVATE}/{name}.zlib" for name in SNAPSHOTS),
    *(f"{folders.PRIVATE}/{name}.jsonl" for name in ("journal", "history", "set-aside")),
    *(f"{folders.PRIVATE}/{name}" for name in ("conversation.json", "lock")),
)
"""The names of all that has to be a file, if it exists."""
MENDS = N_("the next use repairs it, or `memory-server doctor --repair`")


def examine_folder(
    data_dir: Path, now_ms: int, pause: Pause | None = None, last_run_ms: int | None = None
) -> Iterator[Finding]:
    """Return the findings about the folder itself, which is in this `pause`, and in which upkeep ran last at
    `last_run_ms`."""
    if data_dir.exists() and not data_dir.is_dir():
        yield Finding(
            "error",
            _("folder"),
            _("{data_dir} is not a folder; choose another --data-dir.", data_dir),
        )
        return
    yield from _findings(_("folder"), _folder(data_dir, pause))
    yield from _findings(_("disk"), _disk(data_dir))
    yield from _findings(_("clock"), _clock(data_dir, now_ms, last_run_ms))
    yield from _findings(_("backups"), _backups(data_dir))


def _findings(about: str, sentences: Iterable[GradedSentence]) -> Iterator[Finding]:
    for grade, sentence in sentences:
        yield Finding(grade, about, sentence)


def examine_conversation(data_dir: Path, folder: Path, now_ms: int) -> list[Finding]:
    """Return the findings about a subfolder. A subfolder that cannot be read is itself a finding."""
    try:
        return list(examine(data_dir, folder, now_ms))
    except OSError as error:
        sentence = _("{name} cannot be read: {reason}.", error.filename or folder, error.strerror)
        return [Finding("error", folder.name, sentence)]


def examine(data_dir: Path, folder: Path, now_ms: int) -> Iterator[Finding]:
    """Return the findings about the conversation in `folder`, not sorted by grade; empty if it is not a conversation."""
    name = conversation_id_in(folder)
    if name is None:
        return

    # A file that must not be read, such as a link that leads out of the folder, would end the examination with an
    # error.
    refusals = list(filter(None, (folders.refusal_of(folder / file) for file in FILES)))
    if refusals:
        for refusal in refusals:
            yield Finding("error", name, _("{reason}.", refusal))
        return

    opened = ConversationFiles(folder, name, at_once=True).open()
    sentences = [
        *_folder_name(data_dir, folder, name),
        *(
            (grade, _("{what}; {mends}.", sentence, _(MENDS)))
            for grade, sentence in damage(opened, folder)
        ),
        *_journal(opened, folder / folders.PRIVATE / "journal.jsonl"),
        *_snapshots(opened, now_ms),
        *leftovers(folder, opened.state),
        *_lock(folder / folders.PRIVATE / "lock"),
        *_open_to_others(folder),
    ]
    yield from _findings(name, sentences)
    if all(grade in ("ok", "note") for grade, _sentence in sentences):
        yield Finding("ok", name, _counts(opened))


def _counts(opened: OpenedConversation) -> str:
    """Say how many memories and commits a conversation has."""
    short, long = (len(opened.snapshots[file_name].latest) for file_name in SNAPSHOTS)
    memories = _("{short} short-term and {long} long-term memories in the files", short, long)
    commits = counted(len(opened.commits), "commit")
    return _("{held}, {commits} since, every file can be read", memories, commits)


def damage(opened: OpenedConversation, folder: Path) -> Iterator[GradedSentence]:
    """Yield the damage of a conversation that can be mended, each sentence without a full stop."""
    private = folder / folders.PRIVATE
    if not opened.named:
        consequence = _("the name of the folder is used")
        if "~" in folder.name:
            consequence = _("it is the conversation {name}", opened.state.conversation_id)
        path = private / "conversation.json"
        yield "warning", _("{private} does not name the conversation; {told}", path, consequence)
    yield from _journal_damage(opened, private / "journal.jsonl")
    for file_name, snapshot in opened.snapshots.items():
        if snapshot.broken is not None:
            yield snapshot_damage(folder / file_name, snapshot, snapshot.broken)


def _journal_damage(opened: OpenedConversation, path: Path) -> Iterator[GradedSentence]:
    """Yield an error for a broken first line of the journal at `path`, and one for each other line
    that cannot be read."""
    bad_lines = opened.tail.bad
    if bad_lines and opened.position.header is None:
        count = counted(len(opened.commits), "commit")
        yield (
            "error",
            _("The first line of {path} is broken; {number} behind it can be read", path, count),
        )
        # The sentence above tells of the first line already.
        if bad_lines[0].offset == 0:
            bad_lines = bad_lines[1:]

    for line in bad_lines:
        yield (
            "error",
            _(
                "The line at byte {offset} of {path} is ignored: {reason}",
                line.offset,
                path,
                line.reason,
            ),
        )


def _folder_name(data_dir: Path, folder: Path, name: str) -> Iterator[GradedSentence]:
    """Yield an error or a warning if the conversation called `name` is not looked for in `folder`,
    because the folder has another name, or holds a copy or other memories of it."""
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
            _(
                "{folder} holds this conversation, which is looked for in {name}: rename it to that.",
                folder,
                home.name,
            ),
        )
    elif home.samefile(folder):
        # The folder is found by this name. It can still be the name of another conversation in a wrong encoding.
        yield from _misread_id(data_dir, folder, name)
    elif hash_in(folder.name) == hash_in(home.name):
        # Its bytes may not be UTF-8: they are shown as $'…' of a shell takes them.
        spelt = os.fsencode(folder).decode("utf-8", "backslashreplace")
        fact = _(
            "{spelt} holds other memories of this conversation, stored under another locale", spelt
        )
        advice = _(
            "rename it to {name} in an empty folder, export that with --data-dir, and import the file here",
            home.name,
        )
        yield "warning", _("{about}: {what}.", fact, advice)
    else:
        yield (
            "warning",
            _(
                "{folder} says it is this conversation, which is kept in {home}; move the copy away.",
                folder,
                home,
            ),
        )


def _misread_id(data_dir: Path, folder: Path, name: str) -> Iterator[GradedSentence]:
    """Report an id in UTF-8 that was read as `name` under another locale, so that the folder's name was written as
    the same bytes again."""
    meant = folder.name.rpartition("~")[0]
    is_as_made = unicodedata.normalize("NFC", folder.name) in (
        folder_name(name),
        hashed_name(name),
        name,
    )
    if is_as_made or not meant.isprintable() or not find_folder(data_dir, meant).exists():
        return

    fact = _(
        "{folder} holds memories of {meant}, whose id was misread under another locale: export this",
        folder,
        meant,
    )
    advice = _(
        "write {meant} for its id in that file, import that, and move this folder away", meant
    )
    yield "warning", _("{said} conversation, {mend}.", fact, advice)


def _journal(opened: OpenedConversation, path: Path) -> Iterator[GradedSentence]:
    """Yield what is unusual about the journal at `path`: it is missing although there is a history,
    a newer version wrote it, its last write is cut off, or changes in it cannot be used."""
    # A new conversation has no journal either; a history shows that there was one.
    if opened.position.header is None:
        if not path.exists() and path.with_name("history.jsonl").exists():
            lost = _("what was stored since the JSON files were last written is lost")
            yield (
                "warning",
                _("{path} is missing: {lost}; put it back, or restore a backup.", path, lost),
            )
    elif opened.position.newer:
        yield (
            "warning",
            _("{path} is of a newer memory-server; update this one to write here.", path),
        )

    if opened.tail.torn:
        torn = _(
            "The last {torn} bytes of {path} are a write that was never finished",
            len(opened.tail.torn),
            path,
        )
        yield (
            "note",
            _("{torn} and never acknowledged; the next write moves them to set-aside.jsonl.", torn),
        )

    yield from unusable_changes(path, opened.tail.lines)


def _snapshots(opened: OpenedConversation, now_ms: int) -> Iterator[GradedSentence]:
    """Yield a note for each snapshot that was edited or whose copy is used, and a warning for each
    commit and each snapshot with a time after `now_ms`."""
    for file_name, snapshot in opened.snapshots.items():
        if snapshot.edited_hash is not None:
            yield (
                "note",
                _(
                    "{file_name} was changed by hand or by another program since it was written.",
                    file_name,
                ),
            )

        if snapshot.copied and snapshot.broken is None:
            yield (
                "note",
                _(
                    "{file_name} is missing; its copy is used, and the next write makes the file again.",
                    file_name,
                ),
            )

    for commit in opened.commits:
        if commit.at_ms > now_ms + FUTURE_MS:
            time = times.iso(commit.at_ms)
            yield (
                "warning",
                _(
                    "Commit {version} was made at {at}, in the future; check the clock.",
                    commit.version,
                    time,
                ),
            )

    for file_name, snapshot in opened.snapshots.items():
        future_times = [
            memory.made_ms for memory in snapshot.latest if memory.made_ms > now_ms + FUTURE_MS
        ]
        if future_times:
            fact = _(
                "{memories} in {file_name} with a time in the future, up to {iso}",
                counted(len(future_times), "memory"),
                file_name,
                times.iso(max(future_times)),
            )
            yield "warning", _("{said}; check the clock.", fact)


def _lock(path: Path) -> Iterator[GradedSentence]:
    """Yield an error if the file cannot be locked, or can be locked twice so that the lock keeps
    no process out, and a note if another process holds it now. A missing file has no trouble."""
    if not path.exists():
        return

    # A lock that can be taken twice protects nothing.
    try:
        first_lock = try_lock(path)
        second_lock = None if first_lock is None else try_lock(path)
    except OSError as error:
        advice = _(
            "it cannot be locked: {reason}; no program can write here until it is removed",
            error.strerror,
        )
        if error.errno == errno.ENOLCK:
            advice = folders.advice_on(error)
        yield "error", _("{path}: {what}.", path, advice)
        return

    for lock in filter(None, (second_lock, first_lock)):
        lock.release()

    if first_lock is None:
        yield "note", _("It is being written just now by another process.")
    elif second_lock is not None:
        yield "error", _("{path}: {what}.", path, folders.advice_on(locks_fail(path)))


def _open_to_others(folder: Path) -> Iterator[GradedSentence]:
    """Warn if others may read the folder, or it belongs to another user. Windows has no such permissions."""
    if os.name == "nt" or not folder.exists():
        return

    facts = folder.stat()
    if facts.st_uid != os.geteuid():
        yield (
            "warning",
            _("{folder} belongs to another user; writing memories there may fail.", folder),
        )

    if facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = f"{stat.S_IMODE(facts.st_mode):o}"
        yield (
            "warning",
            _(
                "Others may look into {folder} (its mode is {mode}); run `chmod 700` on it.",
                folder,
                mode,
            ),
        )


def _folder(data_dir: Path, pause: Pause | None) -> Iterator[GradedSentence]:
    """Yield whether the data folder exists, who can read and write it, and whether memory is
    paused."""
    if not data_dir.exists():
        yield "note", _("{data_dir} does not exist yet; the first memory makes it.", data_dir)
    elif not os.access(data_dir, os.R_OK | os.X_OK):
        yield "error", _("{data_dir} cannot be read; check its owner and permissions.", data_dir)
    else:
        if not os.access(data_dir, os.W_OK):
            yield (
                "error",
                _("{data_dir} cannot be written; check its owner and permissions.", data_dir),
            )
        warnings = list(_open_to_others(data_dir))
        yield from warnings
        if not warnings:
            yield "ok", _("{data_dir} exists; only you can read it", data_dir)

    if pause is not None:
        yield (
            "note",
            _("Memory is {value}: nothing is stored, and hooks do not recall.", pause.text(None)),
        )


def _disk(data_dir: Path) -> Iterator[GradedSentence]:
    """Yield the free room on the disk of the data folder: an error below `FULL_BYTES`, a warning
    below `LOW_BYTES`. Raises OSError."""
    existing_folder = next(folder for folder in (data_dir, *data_dir.parents) if folder.exists())
    free = shutil.disk_usage(existing_folder).free
    if free < FULL_BYTES:
        yield (
            "error",
            _(
                "The disk is full ({free:,} bytes free); nothing can be stored until there is room.",
                free,
            ),
        )
    elif free < LOW_BYTES:
        yield (
            "warning",
            _("Only {free} MB are free; make room before writes are refused.", free // 1024**2),
        )
    else:
        yield "ok", _("{free:.1f} GB free", free / 1024**3)


def _clock(data_dir: Path, now_ms: int, last_run: int | None) -> Iterator[GradedSentence]:
    """Yield a warning if a journal was written, or upkeep ran, more than `CLOCK_MS` after `now_ms`;
    else yield the present time."""
    # A journal that is newer than now shows that the clock was set back.
    newest_ms = 0
    for folder in subfolders(data_dir):
        with contextlib.suppress(OSError):
            facts = (folder / folders.PRIVATE / "journal.jsonl").stat()
            newest_ms = max(newest_ms, facts.st_mtime_ns // 1_000_000)

    if newest_ms > now_ms + CLOCK_MS:
        clock_time = times.iso(now_ms)
        journal_time = times.iso(newest_ms)
        yield (
            "warning",
            _(
                "This clock says {iso}, but a journal was written at {iso2}; set the clock.",
                clock_time,
                journal_time,
            ),
        )
    elif last_run is not None and last_run > now_ms + CLOCK_MS:
        yield (
            "warning",
            _("Upkeep ran at {iso}, in the future; it will run again today.", times.iso(last_run)),
        )
    else:
        yield "ok", times.iso(now_ms)


def _backups(data_dir: Path) -> Iterator[GradedSentence]:
    """Yield a note for each unfinished backup and a warning for each unusable one; if
    all are usable, their number; if none exist in an existing data folder, advice."""
    folder = data_dir / folders.PRIVATE / "backups"
    for path in sorted([*folder.glob(".*.body"), *folder.glob(".*.next*")]):
        yield (
            "note",
            _(
                "{path} is an unfinished backup; if no backup is being made now, delete it.",
                visible(str(path)),
            ),
        )

    backup_folder = BackupFolder(folder)
    try:
        backups = backup_folder.listed()
    except OSError as error:
        yield "warning", _("{name} cannot be read: {reason}.", folder, error.strerror)
        return

    problems = []
    for backup in backups:
        problem = _problem_of(backup_folder, backup)
        if problem is not None:
            problems.append(_("The backup {name} cannot be used: {problem}.", backup.name, problem))

    for sentence in problems:
        yield "warning", _("{problem}; delete it.", clause(sentence))

    if backups and not problems:
        yield (
            "ok",
            _("{found}, the newest of {iso}", len(backups), times.iso(backups[0].created_ms)),
        )

    # Backups of the owner do not include tenants, so the advice names both.
    if not backups and data_dir.exists():
        if subfolders(data_dir / folders.PRIVATE / "tenants"):
            yield (
                "note",
                _(
                    "No backup yet; `memory-server backup --all-tenants` backs up the owner and all tenants."
                ),
            )
        else:
            yield "note", _("No backup yet; `memory-server backup` makes one.")


def _problem_of(folder: BackupFolder, backup: Backup) -> Any:
    """Say why a backup cannot be used. Return None if it can."""
    if backup.problem is not None:
        return backup.problem
    try:
        with folder.open(backup.name):  # checks the whole file, as a restore does
            return None
    except (BackupNotFound, StorageError) as error:
        return error.sentence.named_values.get("reason", error)
