"""Findings about what crashes, damage and repairs leave in the folder of a conversation.

docs/reference/findings.md explains each finding and changes with this file.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from languages import N_, _, counted, joined
from memory_server.conversations.changes import change_id
from memory_server.conversations.model import ConversationState
from memory_server.kernel import files as folders
from memory_server.kernel.text import Grade
from memory_server.kernel.times import iso
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store.conversation_files import conversation_id_in
from memory_server.storage.json_store.snapshots import SNAPSHOTS, Broken, Snapshot
from memory_server.storage.partition import journal

GradedSentence = tuple[Grade, str]
"""A grade and a sentence: a `Finding` without `about`."""
UNTIL = N_("Upkeep removes them after storage.archive_days, as it does the history.")


def snapshot_damage(path: Path, snapshot: Snapshot, broken: Broken) -> GradedSentence:
    """Say what counts in the place of a broken snapshot, or of some records of it; without a full stop."""
    if broken.unusable:
        said = _(
            "{records} of {file} cannot be used: {reason}; the others are used, the file is kept whole",
            counted(len(broken.unusable), "record"),
            path,
            broken.reason,
        )
        return "warning", said

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
    """Report unreadable lines, unfinished files, pieces and files that were set aside, and memories that went into
    the archive because a file that was put in place of ours did not have them."""
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
    """Report the last change in which memories went into the archive because a file no longer had them, and they are
    not back: a person deleted them, or a program that syncs or restores put an older file back."""
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
        said = _(
            "{changes} in {path} cannot be used: {reason}; the others of those commits are used, the lines are kept.",
            counted(len(unusable), "change"),
            path,
            unusable[0].reason,
        )
        yield "warning", said


def snapshots_set_aside(folder: Path) -> Iterator[GradedSentence]:
    """Report each snapshot that was set aside in `folder`: why, how to put it back, and how long it stays."""
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
