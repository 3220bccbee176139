"""Mending the files of one conversation: what can be read stays, what cannot is set aside with its reason.

The broken file is first copied, as it is, to `.memory-server/broken/`; nothing there is ever replaced. Memories that a
broken snapshot lost are taken from the history where it has them. The journal is written before the snapshots: a crash
in between leaves files that a second repair mends.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memory_server.core.model import ConversationState, LongTermMemory, ShortTermMemory
from memory_server.core.phrases import counted
from memory_server.storage.json_store import change_codec, codec, quarantine
from memory_server.storage.json_store.conversation_files import SHORT_TERM, SNAPSHOTS
from memory_server.storage.json_store.hand_edits import Copies
from memory_server.storage.json_store.past import Past
from memory_server.storage.json_store.salvage import Piece, long_term_fault, salvage, short_term_fault
from memory_server.storage.json_store.snapshots import hash_of
from memory_server.storage.partition import folders, journal
from memory_server.storage.partition.folder_names import folder_name


@dataclass(slots=True)
class Plan:
    """What a repair does: sentences for people, files to write, pieces to set aside. Empty: nothing is broken."""

    conversation_id: str
    steps: list[str] = field(default_factory=list)
    files: dict[Path, bytes] = field(default_factory=dict)
    pieces: list[tuple[Path, Piece]] = field(default_factory=list)


def plan(folder: Path) -> Plan | None:
    """How to mend the conversation in `folder`, decided without changing anything. None: there is nothing to mend.

    Raises:
        NotARecord: a newer memory-server wrote here; this one must not touch it.
    """
    private = folder / folders.PRIVATE
    lines = _lines(private / "journal.jsonl")
    header = lines.header
    if header is not None and header.format > journal.FORMAT:
        raise codec.NotARecord(f"{private / 'journal.jsonl'} is of a newer memory-server; update this one")
    found = Plan(folder.name)
    snapshots = {name: _read(folder / name) for name in SNAPSHOTS}
    history = Past(private).folded(header.base if header else None)
    for name, data in snapshots.items():
        if data is None and header is not None and header.snapshots.get(name) is not None:
            if Copies(private).read(name) is None:
                snapshots[name] = found.files[folder / name] = _from_history(found, name, history)
        elif data is not None:
            ours = header is not None and header.snapshots.get(name) == hash_of(data)
            if (mended := _snapshot(found, folder / name, data, history, ours=ours)) is not None:
                snapshots[name] = found.files[folder / name] = mended
    _journal(found, private / "journal.jsonl", lines, snapshots, history.version)
    _facts(found, folder, snapshots)
    if not found.steps:
        return None
    # The journal first: it holds the hashes of the snapshots, which are then not taken for edits by hand.
    found.files = dict(sorted(found.files.items(), key=lambda item: item[0].name != "journal.jsonl"))
    return found


def carry_out(found: Plan, folder: Path, now_ms: int) -> None:
    """Do what `found` says. Call it under the lock of the conversation."""
    private = folder / folders.PRIVATE
    for path in found.files:
        if (data := _read(path)) is not None:
            quarantine.keep_broken(private, path.name, data, now_ms)
    for path, piece in found.pieces:
        found_there = {"offset": piece.offset, "reason": piece.reason, "file": path.name, "data": piece.text}
        quarantine.set_aside(private, found_there)
    for path, data in found.files.items():
        folders.replace_file(path, data)


# --- snapshots -----------------------------------------------------------------------------------------------


def _from_history(found: Plan, name: str, history: ConversationState) -> bytes:
    """The contents of a snapshot that is missing together with its copy, as far as the history tells."""
    if name == SHORT_TERM:
        records = list(map(codec.short_term_json, history.short_term.values()))
    else:
        records = list(map(codec.long_term_json, history.long_term.values()))
    found.steps.append(f"{name} and its copy are missing: {counted(len(records), 'memory')} of it are in the history.")
    return codec.dump_array(records)


def _snapshot(found: Plan, path: Path, data: bytes, history: ConversationState, *, ours: bool) -> bytes | None:
    """The mended contents of a snapshot; None where it is not broken. `ours`: it is as this program wrote it."""
    short = path.name == SHORT_TERM
    try:
        records = codec.load_array(data)
        _ = (
            codec.short_terms(records, found.conversation_id, ours=ours)
            if short
            else codec.long_terms(records, ours=ours)
        )
        return None
    except ValueError as error:
        reason = str(error)
    saved = salvage(data, short_term_fault if short else long_term_fault, "text" if short else "trigger")
    found.pieces += [(path, piece) for piece in saved.pieces]
    records = list(saved.records)
    found.steps.append(f"{path.name} cannot be used ({reason}): {len(records)} of its memories can be read.")
    if saved.encoding:
        found.steps.append(f"{path.name} was saved as {saved.encoding}: it becomes UTF-8.")
    if saved.pieces:
        count = f"{len(saved.pieces)} pieces" if len(saved.pieces) > 1 else "1 piece"
        found.steps.append(f"{count} of {path.name} cannot be read and goes to set-aside.jsonl.")
        known = {record.get("id" if short else "name") for record in records}
        memories: Sequence[ShortTermMemory] | Sequence[LongTermMemory]
        if short:
            memories = [memory for memory in history.short_term.values() if memory.id not in known]
            records += map(codec.short_term_json, memories)
        else:
            memories = [kept for kept in history.long_term.values() if kept.name not in known]
            records += map(codec.long_term_json, memories)
        if memories:
            found.steps.append(f"{len(memories)} memories that {path.name} lost come back from the history.")
    return codec.dump_array(records)


# --- the journal ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lines:
    """A journal's header, the lines that count as they are, their versions, and what does not count."""

    header: journal.Header | None
    broken_header: bool
    good: tuple[bytes, ...]
    versions: tuple[int, ...]
    bad: tuple[Piece, ...]


def _lines(path: Path) -> _Lines:
    data = _read(path)
    if data is None:
        return _Lines(None, False, (), (), ())
    header = journal.read_header(path)
    good: list[bytes] = []
    versions: list[int] = []
    bad: list[Piece] = []
    offset = 0
    whole, _, torn = data.rpartition(b"\n")
    for number, raw in enumerate(whole.split(b"\n") if whole else []):
        if number > 0 or header is None:
            reason = _line_fault(raw)
            if isinstance(reason, str):
                bad.append(Piece(offset, _shown(raw), reason))
            else:
                good.append(raw + b"\n")
                versions += [] if reason is None else [reason]
        offset += len(raw) + 1
    if torn and header is None:
        bad.append(Piece(offset, _shown(torn), quarantine.UNFINISHED))
    return _Lines(header, header is None, tuple(good), tuple(versions), tuple(bad))


def _line_fault(raw: bytes) -> int | str | None:
    """The version of a commit that counts, why a line does not, or None for a note of a compaction or an edit."""
    line = journal.parse_line(raw)
    if isinstance(line, str):
        return line
    if "changes" not in line:
        return None if "compacted" in line or "edited" in line else "it is no commit"
    try:
        return change_codec.commit(line).version
    except codec.NotARecord as error:
        return str(error)


def _journal(
    found: Plan, path: Path, lines: _Lines, snapshots: Mapping[str, bytes | None], history_version: int
) -> None:
    if lines.broken_header:
        first = min(lines.versions) - 1 if lines.versions else history_version
        header = journal.Header(1 + secrets.randbits(32), first, {})
        found.steps.append(
            f"The first line of journal.jsonl is broken: it gets a new one; {len(lines.versions)} commits count."
        )
    elif lines.header is None or not (lines.bad or found.steps):
        return
    else:
        header = lines.header
        if lines.bad:
            found.steps.append(
                f"{len(lines.bad)} lines of journal.jsonl do not count: they go to set-aside.jsonl; "
                f"{len(lines.versions)} stay."
            )
    found.pieces += [(path, piece) for piece in lines.bad]
    hashes = {name: hash_of(data) for name, data in snapshots.items()}
    # Of a snapshot that is whole the old hash stays: if a person edited it, that is still to be found out.
    kept = {
        name: hashes[name] if path.parent.parent / name in found.files or lines.broken_header else old
        for name, old in {**hashes, **header.snapshots}.items()
    }
    new = journal.Header(header.generation + 1, header.base, kept)
    found.files[path] = journal.header_line(new) + b"".join(lines.good)


# --- the note of the true id -----------------------------------------------------------------------------------


def _facts(found: Plan, folder: Path, snapshots: Mapping[str, bytes | None]) -> None:
    """Finds out whose a folder is, where its note is broken: the name that makes this folder's name."""
    path = folder / folders.PRIVATE / "conversation.json"
    data = _read(path)
    try:
        facts = {} if data is None else codec.loads(data)
    except ValueError:
        facts = {}
    if isinstance(facts, dict) and isinstance(facts.get("id"), str):
        found.conversation_id = facts["id"]
        return
    if data is None and folder_name(folder.name) == folder.name:
        return
    for name in dict.fromkeys([folder.name, *_names_in(snapshots[SHORT_TERM])]):
        if folder_name(name) == folder.name:
            found.conversation_id = name
            found.files[path] = codec.dumps({"format": journal.FORMAT, "id": name, "lastCleanup": None}) + b"\n"
            found.steps.append(f"conversation.json is broken or missing: this is the conversation {name}.")
            return


def _names_in(data: bytes | None) -> Iterator[str]:
    try:
        records = codec.load_array(data or b"")
    except ValueError:
        return
    yield from (name for record in records if isinstance(name := record.get("conversation_id"), str))


# --- files ---------------------------------------------------------------------------------------------------


def _read(path: Path) -> bytes | None:
    try:
        return folders.read_file(path)
    except FileNotFoundError:
        return None


def _shown(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
