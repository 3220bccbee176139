"""What there is to say about the files of one conversation, in sentences: as opening finds them, changing nothing.

docs/how-to/mend-a-data-folder.md tells a reader what each finding means and changes with this file.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from memory_server.core import times
from memory_server.core.findings import Finding
from memory_server.core.phrases import counted
from memory_server.storage.json_store import change_codec, codec, quarantine
from memory_server.storage.json_store.conversation_files import ConversationFiles, Opened, conversation_id_in
from memory_server.storage.json_store.snapshots import SNAPSHOTS
from memory_server.storage.partition import folders, journal
from memory_server.storage.partition.folder_names import folder_name, hash_in, hashed_name
from memory_server.storage.partition.locking import QUEUE, locks_fail, try_lock

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
FUTURE_MS = 86_400_000
"""How far ahead a time may lie before it is told: a day, because clocks and time zones differ."""
FILES = (
    *SNAPSHOTS,
    *(f"{folders.PRIVATE}/{name}.zlib" for name in SNAPSHOTS),
    *(f"{folders.PRIVATE}/{name}.jsonl" for name in ("journal", "history", "archive", "set-aside")),
    *(f"{folders.PRIVATE}/{name}" for name in ("conversation.json", "lock", QUEUE)),
)
"""What has to be a file, where it is there."""
UNTIL = "Upkeep removes them after storage.archive_days, as it does the history."
MENDS = "the next use mends it, or `memory-server repair`"


def examine(data_dir: Path, folder: Path, now_ms: int) -> Iterator[Finding]:
    """What there is to say about the conversation in `folder`, the worst not first. Nothing for another folder."""
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
        *(Finding(finding.grade, name, f"{finding.what}; {MENDS}.") for finding in damage(opened, folder)),
        *_journal(opened, folder, name),
        *_snapshots(opened, name),
        *_future(opened, name, now_ms),
        *_kept_lines(folder, name),
        *_leftovers(folder, name),
        *_lock(folder, name),
        *open_to_others(folder, name),
    ]
    yield from found
    if all(finding.grade in ("ok", "note") for finding in found):
        counts = [counted(len(opened.commits), "commit"), "every file can be read"]
        yield Finding("ok", name, f"{_counts(opened)}, {counts[0]} since, {counts[1]}")


def damage(opened: Opened, folder: Path) -> Iterator[Finding]:
    """What of a conversation's files is damaged and can be mended, each without a full stop."""
    name, private = opened.state.conversation_id, folder / folders.PRIVATE
    if not opened.named:
        told = f"it is the conversation {name}" if "~" in folder.name else "the folder's name is taken"
        yield Finding("warning", name, f"{private / 'conversation.json'} does not name the conversation; {told}")
    path = private / "journal.jsonl"
    bad = opened.tail.bad
    if bad and opened.header is None:
        count = counted(len(opened.commits), "commit")
        yield Finding("error", name, f"The first line of {path} is broken; {count} behind it can be read")
        bad = bad[1:] if bad[0].offset == 0 else bad
    for line in bad:
        yield Finding("error", name, f"The line at byte {line.offset} of {path} does not count: {line.reason}")
    for file_name, broken in opened.snapshots.broken.items():
        lost = opened.snapshots.from_history.get(file_name, 0)
        history = f"the history gives back {counted(lost, 'memory')}"
        if broken.data is None:
            yield Finding("error", name, f"{file_name} is missing, and so is the copy of it; {history}")
            continue
        copied = file_name in opened.snapshots.copied
        parts = [
            "a copy of it counts" if copied else "there is no copy of it",
            f"{len(broken.records)} of its memories can be read",
            *([history] if lost else []),
            *([f"{counted(len(broken.pieces), 'piece')} of it goes to set-aside.jsonl"] if broken.pieces else []),
        ]
        said = f"{folder / file_name} cannot be used: {broken.reason}; {', '.join(parts)}"
        yield Finding("warning" if copied else "error", name, said)


def _place(data_dir: Path, folder: Path, name: str) -> Iterator[Finding]:
    path = folder / folders.PRIVATE / "conversation.json"
    if "~" in name and name == folder.name and folder_name(name) != name:
        state = "does not name the conversation" if path.exists() else "is missing"
        yield Finding(
            "error", name, f"{path} {state}, so that the conversation cannot be found; put it back or restore a backup."
        )
        return
    home = folders.find_folder(data_dir, name)
    if not home.exists():
        yield Finding(
            "error", name, f"{folder} holds this conversation, which is looked for in {home.name}: rename it to that."
        )
    elif home.samefile(folder):
        yield from _misread(data_dir, folder, name)
    elif hash_in(folder.name) == hash_in(home.name):
        yield Finding(
            "warning",
            name,
            f"{_spelt(folder)} holds other memories of this conversation, stored under another locale: rename it to "
            f"{home.name} in an empty folder, export that with --data-dir, and import the file here.",
        )
    else:
        yield Finding(
            "warning", name, f"{folder} says it is this conversation, which is kept in {home}; move the copy away."
        )


def _misread(data_dir: Path, folder: Path, name: str) -> Iterator[Finding]:
    """Under another locale an id in UTF-8 was read as `name`, and the folder's name written as the same bytes again."""
    meant = folder.name.rpartition("~")[0]
    as_made = unicodedata.normalize("NFC", folder.name) in (folder_name(name), hashed_name(name), name)
    if not as_made and meant.isprintable() and folders.find_folder(data_dir, meant).exists():
        yield Finding(
            "warning",
            name,
            f"{folder} holds memories of {meant}, whose id was misread under another locale: export this conversation, "
            f"write {meant} for its id in that file, import that, and move this folder away.",
        )


def _spelt(folder: Path) -> str:
    """A path whose bytes may not be UTF-8, as $'…' of a shell takes it."""
    return os.fsencode(folder).decode("utf-8", "backslashreplace")


def _journal(opened: Opened, folder: Path, name: str) -> Iterator[Finding]:
    path = folder / folders.PRIVATE / "journal.jsonl"
    if opened.header is None:
        if not path.exists() and path.with_name("history.jsonl").exists():
            lost = "what was stored since the JSON files were last written is lost"
            yield Finding("warning", name, f"{path} is missing: {lost}; put it back, or restore a backup.")
    elif opened.header.format > journal.FORMAT:
        yield Finding("warning", name, f"{path} is of a newer memory-server; update this one to write here.")
    if opened.tail.torn:
        yield Finding(
            "note",
            name,
            f"The last {len(opened.tail.torn)} bytes of {path} are a write that was never finished and never "
            "acknowledged; the next writer cuts them off and keeps them in set-aside.jsonl.",
        )
    for line in opened.tail.lines:
        try:
            _ = change_codec.commit(line) if "changes" in line else None
        except codec.NotARecord as error:
            yield Finding("warning", name, f"Commit {line.get('seq')} in {path} is passed over: {error}.")


def _snapshots(opened: Opened, name: str) -> Iterator[Finding]:
    for file_name in opened.snapshots.hashes:
        yield Finding("note", name, f"{file_name} was changed by hand or by another program since it was written.")
    for file_name in sorted(opened.snapshots.copied - opened.snapshots.broken.keys()):
        yield Finding("note", name, f"{file_name} is missing; a copy of it counts, and the next write makes it anew.")


def _future(opened: Opened, name: str, now_ms: int) -> Iterator[Finding]:
    for commit in opened.commits:
        if commit.at_ms > now_ms + FUTURE_MS:
            at = times.iso(commit.at_ms)
            yield Finding("warning", name, f"Commit {commit.version} was made at {at}, in the future; check the clock.")
    short, long = opened.snapshots.latest()
    times_of = zip(SNAPSHOTS, ([kept.time_ms for kept in short], [kept.created_ms for kept in long]), strict=True)
    for file_name, times_ms in times_of:
        if ahead := [time_ms for time_ms in times_ms if time_ms > now_ms + FUTURE_MS]:
            said = f"{counted(len(ahead), 'memory')} in {file_name} of the future, up to {times.iso(max(ahead))}"
            yield Finding("warning", name, f"{said}; check the clock.")


def _kept_lines(folder: Path, name: str) -> Iterator[Finding]:
    for file_name in ("history.jsonl", "archive.jsonl"):
        path = folder / folders.PRIVATE / file_name
        tail = journal.parse_tail(folders.read_file(path) if path.exists() else b"", 0)
        if bad := len(tail.bad) + bool(tail.torn):
            yield Finding("warning", name, f"{counted(bad, 'line')} of {path} cannot be read; the others count.")


def _leftovers(folder: Path, name: str) -> Iterator[Finding]:
    private = folder / folders.PRIVATE
    for path in sorted([*folder.glob("*.next"), *private.glob("*.next")]):
        yield Finding("note", name, f"{path} is left of a write that a crash ended; it may be deleted.")
    if aside := quarantine.pieces(private):
        reasons = ", ".join(sorted({piece.reason for piece in aside}))
        yield Finding("note", name, f"{len(aside)} unreadable pieces lie in set-aside.jsonl: {reasons}. {UNTIL}")
    if kept := list(quarantine.broken_files(private)):
        place = private / quarantine.BROKEN
        yield Finding("note", name, f"{len(kept)} files as they were before a repair lie in {place}. {UNTIL}")


def _lock(folder: Path, name: str) -> Iterator[Finding]:
    """Whether the lock can be had, and keeps others out, as far as it can be tried."""
    path = folder / folders.PRIVATE / "lock"
    if not path.exists():
        return
    try:
        lock = try_lock(path)
        second = None if lock is None else try_lock(path)
    except OSError as error:
        removed = f"it cannot be locked: {error.strerror}; nobody can write here until it is removed"
        said = folders.advice_on(error) if error.errno == errno.ENOLCK else removed
        yield Finding("error", name, f"{path}: {said}.")
        return
    for held in filter(None, (second, lock)):
        held.release()
    if lock is None:
        yield Finding("note", name, "It is being written just now by another process.")
    elif second is not None:
        yield Finding("error", name, f"{path}: {folders.advice_on(locks_fail(path))}.")


def open_to_others(folder: Path, about: str) -> Iterator[Finding]:
    """A warning where the folder lets others in, or belongs to somebody else. Windows has no such bits."""
    if os.name == "nt" or not folder.exists():
        return
    facts = folder.stat()
    if facts.st_uid != os.geteuid():
        yield Finding("warning", about, f"{folder} belongs to another user; memories may not be written there.")
    if facts.st_mode & _OTHERS:
        yield Finding(
            "warning",
            about,
            f"Others may look into {folder} (its mode is {stat.S_IMODE(facts.st_mode):o}); `chmod 700` closes it.",
        )


def _counts(opened: Opened) -> str:
    short, long = opened.snapshots.latest()
    return f"{len(short)} short-term and {len(long)} long-term memories in the files"
