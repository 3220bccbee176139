"""Looking at the files of one conversation without changing any: what counts, what does not, and why.

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
from memory_server.storage.json_store.conversation_files import (
    LONG_TERM,
    READ_TRIES,
    SHORT_TERM,
    SNAPSHOTS,
    conversation_id_in,
    known_hashes,
)
from memory_server.storage.json_store.hand_edits import Copies
from memory_server.storage.json_store.snapshots import hash_of
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
MEND = "`memory-server repair --dry-run` shows what can be saved"


def examine(data_dir: Path, folder: Path, now_ms: int) -> Iterator[Finding]:
    """What there is to say about the conversation in `folder`, the worst not first. Nothing for another folder."""
    name = conversation_id_in(folder)
    if name is None:
        return
    refused = [refusal for file in FILES if (refusal := folders.refusal_of(folder / file)) is not None]
    if refused:
        yield from (Finding("error", name, f"{refusal}.") for refusal in refused)
        return
    path = folder / folders.PRIVATE / "journal.jsonl"
    for _ in range(READ_TRIES):
        before = journal.read_header(path)
        found = [*_place(data_dir, folder, name), *_journal(folder, name, now_ms), *_snapshots(folder, name, now_ms)]
        # A compaction in between makes whole files look changed.
        if journal.read_header(path) == before:
            break
    found += [
        *_kept_lines(folder, name),
        *_leftovers(folder, name),
        *_lock(folder, name),
        *open_to_others(folder, name),
    ]
    yield from found
    if all(finding.grade in ("ok", "note") for finding in found):
        yield Finding("ok", name, f"{_counts(folder)}, every file can be read")


def _place(data_dir: Path, folder: Path, name: str) -> Iterator[Finding]:
    path = folder / folders.PRIVATE / "conversation.json"
    if "~" in folder.name and not path.exists():
        # Only this program makes such names, which no id has for its own.
        yield Finding("error", name, f"{path} is missing, so that the conversation cannot be found; {MEND}.")
        return
    if path.exists():
        try:
            facts = codec.loads(folders.read_file(path))
            named = isinstance(facts, dict) and isinstance(facts.get("id"), str)
        except ValueError:
            named = False
        if not named and folder_name(name) == name:
            yield Finding("warning", name, f"{path} does not name the conversation; the folder's name is taken.")
        elif not named:
            yield Finding("error", name, f"{path} does not name the conversation, so that it cannot be found; {MEND}.")
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


def _journal(folder: Path, name: str, now_ms: int) -> Iterator[Finding]:
    path = folder / folders.PRIVATE / "journal.jsonl"
    try:
        header, tail = journal.read(path)
    except FileNotFoundError:
        if (path.parent / "history.jsonl").exists():
            lost = "what was stored since the JSON files were last written is lost"
            yield Finding("warning", name, f"{path} is missing: {lost}; put it back, or restore a backup.")
        return
    if header is None:
        yield Finding("error", name, f"The first line of {path} is broken, so that it cannot be read; {MEND}.")
        return
    if header.format > journal.FORMAT:
        yield Finding("warning", name, f"{path} is of a newer memory-server; update this one to write here.")
    for bad in tail.bad:
        yield Finding("error", name, f"The line at byte {bad.offset} of {path} does not count: {bad.reason}; {MEND}.")
    if tail.torn:
        yield Finding(
            "note",
            name,
            f"The last {len(tail.torn)} bytes of {path} are a write that was never finished and never acknowledged; "
            "the next writer cuts them off and keeps them in set-aside.jsonl.",
        )
    yield from _commits(path, name, tail, now_ms)
    yield from _edited(folder, name, header, tail)


def _commits(path: Path, name: str, tail: journal.Tail, now_ms: int) -> Iterator[Finding]:
    for line in tail.lines:
        if "changes" not in line:
            continue
        try:
            commit = change_codec.commit(line)
        except codec.NotARecord as error:
            yield Finding("error", name, f"Commit {line.get('seq')} in {path} is passed over: {error}; {MEND}.")
            continue
        if commit.at_ms > now_ms + FUTURE_MS:
            at = times.iso(commit.at_ms)
            yield Finding("warning", name, f"Commit {commit.version} was made at {at}, in the future; check the clock.")


def _edited(folder: Path, name: str, header: journal.Header, tail: journal.Tail) -> Iterator[Finding]:
    for file_name in SNAPSHOTS:
        path = folder / file_name
        data = folders.read_file(path) if path.exists() else None
        if data is None and header.snapshots.get(file_name) is not None:
            yield _missing(folder, name, file_name)
        elif hash_of(data) in known_hashes(file_name, header, tail) or _fault(path, name) is not None:
            continue  # told as broken: no edit by a person
        else:
            yield Finding("note", name, f"{file_name} was changed by hand or by another program since it was written.")


def _missing(folder: Path, name: str, file_name: str) -> Finding:
    if Copies(folder / folders.PRIVATE).read(file_name) is not None:
        return Finding("note", name, f"{file_name} is missing; a copy of it counts, and the next write makes it anew.")
    return Finding(
        "error",
        name,
        f"{file_name} is missing, and so is the copy of it; the next use takes what the history holds of it. "
        "Restore a backup for the rest.",
    )


def _kept_lines(folder: Path, name: str) -> Iterator[Finding]:
    for file_name in ("history.jsonl", "archive.jsonl"):
        path = folder / folders.PRIVATE / file_name
        tail = journal.parse_tail(folders.read_file(path) if path.exists() else b"", 0)
        if bad := len(tail.bad) + bool(tail.torn):
            yield Finding(
                "warning",
                name,
                f"{counted(bad, 'line')} of {path} cannot be read; the others count.",
            )


def _snapshots(folder: Path, name: str, now_ms: int) -> Iterator[Finding]:
    for file_name in SNAPSHOTS:
        path = folder / file_name
        try:
            fault = _fault(path, name)
            if fault is None:
                yield from _snapshot(path, name, now_ms)
            else:
                yield _broken(folder, name, file_name, fault)
        except FileNotFoundError:
            continue
        except OSError as error:
            yield Finding("error", name, f"{path} cannot be used: {error}; {MEND}.")


def _fault(path: Path, name: str) -> str | None:
    """Why a snapshot cannot be read as memories, as the store sees it; None where it can or is missing."""
    try:
        data = folders.read_file(path)
    except FileNotFoundError:
        return None
    if not data.strip():
        return "it is empty; write `[]` to remove everything"
    ours = _is_ours(path, data)
    try:
        records = codec.load_array(data)
        _ = (
            codec.long_terms(records, ours=ours)
            if path.name == LONG_TERM
            else codec.short_terms(records, name, ours=ours)
        )
    except ValueError as error:
        return str(error)
    return None


def _is_ours(path: Path, data: bytes) -> bool:
    """Whether the journal tells of a snapshot as it is."""
    try:
        header, tail = journal.read(path.parent / folders.PRIVATE / "journal.jsonl")
    except FileNotFoundError:
        return False
    return header is not None and hash_of(data) in known_hashes(path.name, header, tail)


def _broken(folder: Path, name: str, file_name: str, fault: str) -> Finding:
    said = f"{folder / file_name} cannot be used: {fault}"
    if Copies(folder / folders.PRIVATE).read(file_name) is None:
        return Finding("error", name, f"{said}; there is no copy of it, {MEND}.")
    return Finding("warning", name, f"{said}; a copy of it counts, and the next use writes it anew.")


def _snapshot(path: Path, name: str, now_ms: int) -> Iterator[Finding]:
    records = codec.load_array(folders.read_file(path))
    if path.name == LONG_TERM:
        times_ms = [memory.created_ms for memory in codec.long_terms(records, ours=True)]
    else:
        times_ms = [memory.time_ms for memory in codec.short_terms(records, name, ours=True)]
    ahead = [time for time in times_ms if time > now_ms + FUTURE_MS]
    if ahead:
        latest = times.iso(max(ahead))
        yield Finding(
            "warning",
            name,
            f"{counted(len(ahead), 'memory')} in {path.name} of the future, up to {latest}; check the clock.",
        )


def _leftovers(folder: Path, name: str) -> Iterator[Finding]:
    private = folder / folders.PRIVATE
    for path in sorted([*folder.glob("*.next"), *private.glob("*.next")]):
        yield Finding("note", name, f"{path} is left of a write that a crash ended; it may be deleted.")
    aside = quarantine.pieces(private)
    if aside:
        reasons = ", ".join(sorted({piece.reason for piece in aside}))
        yield Finding("note", name, f"{len(aside)} unreadable pieces lie in set-aside.jsonl: {reasons}. {UNTIL}")
    kept = list(quarantine.broken_files(private))
    if kept:
        yield Finding(
            "note",
            name,
            f"{len(kept)} files as they were before a repair lie in {private / quarantine.BROKEN}. {UNTIL}",
        )


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


def _counts(folder: Path) -> str:
    def count(file_name: str) -> int:
        path = folder / file_name
        return len(codec.load_array(folders.read_file(path))) if path.exists() else 0

    path = folder / folders.PRIVATE / "journal.jsonl"
    commits = sum("changes" in line for line in journal.read(path)[1].lines) if path.exists() else 0
    kept = f"{count(SHORT_TERM)} short-term and {count(LONG_TERM)} long-term memories"
    return f"{kept} in the files, {counted(commits, 'commit')} since"
