"""A conversation's past: commits as lines, the history of commits that were folded into the snapshots, and what
damage and repairs leave: pieces set aside, and files as they were before a repair. The archive is read from the
history.

Blocking calls on the files of a single conversation. Writing needs the lock. A reader reads the journal first and
gives its commits: a compaction in between makes both hold the same commits, and none is missed. What damage leaves
may hold text that was forgotten later, so it expires with the history."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from languages import N_, Sentence
from memory_server.conversations.archive import ArchivedMemory, Horizon, archived
from memory_server.conversations.change_forms import commit_of
from memory_server.conversations.changes import Commit, replay
from memory_server.conversations.model import ConversationState, UnusableRecord
from memory_server.kernel import files as folders
from memory_server.kernel import json_text, times
from memory_server.kernel.json_text import Fields, deeper
from memory_server.kernel.values import frozen
from memory_server.storage.partition import journal
from memory_server.storage.text_records import records_in

log = logging.getLogger(__name__)
_TELLS_OF_ARCHIVE = re.compile(rb'"type":"(?:forgotten|restored|trigger_)').search
"""Whether a line of the history can change the archive; most cannot, and parsing them would take ten times as long."""
_TELLS_OF_REMOVAL = re.compile(rb'"type":"(?:forgotten|trigger_removed)').search
"""Whether a line of the history may put something into the archive."""


class Past:
    """The past of the conversation that is kept in `private`: `history.jsonl`, and before it the commits of the journal
    beside it; what does not count is set aside there."""

    def __init__(self, private: Path) -> None:
        self._private = private
        self._journal = private / "journal.jsonl"
        self.file = private / "history.jsonl"
        self._state_without_removal: tuple[int, ...] | None = None
        """The state of the history in which it was found to tell of no removal."""

    # --- reading ---------------------------------------------------------------------------------------

    def history(
        self, before: int | None, limit: int, most_changes: int | None = None
    ) -> tuple[Commit, ...]:
        """Return at most `limit` commits, newest first, older than the version `before` (None: the newest)."""
        lines = journal.newest_first([self._journal, self.file])
        commits = commits_in(lines, self._private, most_changes)
        if before is not None:
            commits = (commit for commit in commits if commit.version < before)
        return tuple(islice(commits, limit))

    def archived(self, newest: int | None = None) -> tuple[ArchivedMemory, ...]:
        """Return what was removed and can come back; of the last removals no more than `newest`."""
        lines = journal.each_version_once(self._lines_about_archive())
        return archived(commits_in(lines, self._private), newest)

    def _lines_about_archive(self) -> Iterator[bytes]:
        """Yield the lines that can change the archive, newest first. A line older than every removal cannot: it may
        be the import of a whole lorebook, and an answer reads the archive each time. A single pass finds them,
        because the history may be as long as all memories together."""
        lines_since_removal: list[bytes] = []
        for line in self._lines_to_look_through():
            lines_since_removal.append(line)
            if _TELLS_OF_REMOVAL(line):
                yield from lines_since_removal
                lines_since_removal.clear()

    def _lines_to_look_through(self) -> Iterator[bytes]:
        """Yield the lines of the journal and of the history that may tell of the archive. A history without a removal
        is read once, because each search that finds nothing looks in the archive. The journal is read first: its lines
        go to the history."""
        yield from journal.lines_of([self._journal], _TELLS_OF_ARCHIVE)
        state = _state_of(self.file)
        if state is None or state == self._state_without_removal:
            return
        has_removal = False
        for line in journal.lines_of([self.file], _TELLS_OF_ARCHIVE):
            has_removal = has_removal or _TELLS_OF_REMOVAL(line) is not None
            yield line
        if not has_removal:
            self._state_without_removal = state

    def folded(self, version: int) -> ConversationState:
        """Return the state of `version` by the history, as far back as it goes."""
        state = ConversationState("history")
        lines = journal.newest_first([self.file])
        commits = list(commits_in(lines, self.file))
        commits.reverse()
        replay(state, (commit for commit in commits if commit.version <= version))
        return state

    # --- writing, under the lock -----------------------------------------------------------------------

    def fold(self) -> None:
        """Keep the commits and the bad lines of the journal, which is about to be replaced."""
        data = folders.read_file(self._journal)
        start = data.find(b"\n") + 1
        commits: list[tuple[int, bytes]] = []
        # Line by line: all of them parsed at once would take ten times the size of the file.
        for raw, line in journal.lines_in(data[start:], start):
            if isinstance(line, journal.BadLine):
                set_aside(self._private, line.reason, data=line.data, offset=line.offset)
            elif "changes" in line:
                commits.append((line["seq"], raw + b"\n"))
        journal.keep(self.file, commits)

    def expire(self, horizon: Horizon) -> None:
        """Remove the commits and what was set aside beyond `horizon`, and their text with them. A change that cannot
        be used stays, because no snapshot has it."""
        journal.drop_first(
            self.file,
            lambda lines: horizon.passed(map(_time_of, lines)),
            _with_unusable_changes,
        )
        expire_leavings(self._private, horizon)

    def erase(self, erased: Callable[[Any], bool]) -> None:
        """Remove the changes that `erased` is true of, which may leave a commit without any; and likewise what was set
        aside. Each file is there as it was or as it will be."""
        for name in (self.file.name, SET_ASIDE):
            path = self._private / name
            before = folders.read_if_there(path) or b""
            after = b"".join(_line_without(line, erased) for line in before.splitlines())
            if after != before:
                folders.replace_file(path, after)
        for path, _time in broken_files(self._private):
            data = folders.read_file(path)
            if not _holds_erased(data, erased):
                continue
            remaining = _without_erased_records(data, erased)
            if remaining and not _holds_erased(remaining, erased):
                folders.replace_file(path, remaining)
            else:
                folders.remove_file(path)


def _state_of(path: Path) -> tuple[int, ...] | None:
    """Return values that change when a file is written or replaced, or None without a file."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _holds_erased(data: bytes, erased: Callable[[Any], bool]) -> bool:
    return erased(data) or any(map(erased, records_in(data.decode(errors="replace"))))


def _without_erased_records(data: bytes, erased: Callable[[Any], bool]) -> bytes:
    """Return the other records of a kept file, or its other lines if it is not a list; empty if all are erased. The
    file may be their only copy."""
    try:
        records = [record for record in json_text.load_array(data) if not erased(record)]
        if records:
            return json_text.dump_array(records)
        return b""
    except (ValueError, RecursionError):
        lines = [line for line in data.splitlines(keepends=True) if not _holds_erased(line, erased)]
        if b"".join(lines).strip(b" \r\n\t[],"):
            return b"".join(lines)
        return b""


def _line_without(raw: bytes, erased: Callable[[Any], bool]) -> bytes:
    """Return a line with its newline, without erased changes; empty if nothing of it stays."""
    fields = journal.parse_line(raw)
    if isinstance(fields, Sentence):  # a line without a checksum, or a broken one
        if erased(_piece(raw).fields) or erased(raw):
            return b""
        return raw + b"\n"
    if not erased(fields):
        return raw + b"\n"
    changes = [change for change in fields.get("changes", ()) if not erased(change)]
    return line_of({**fields, "changes": changes})


def line_of(fields: Fields) -> bytes:
    return journal.frame(fields, json_text.dumps(dict(fields)))


def _time_of(line: Fields | None) -> int | None:
    if line is None:
        return None
    try:
        return json_text.milliseconds(line["at"])
    except (json_text.NotARecord, KeyError):
        return None


def _with_unusable_changes(line: Fields) -> bytes:
    """Return a line with only the changes that cannot be used; empty if all can be used."""
    changes = [change.record for change in unusable_changes([line])]
    if changes:
        return line_of({**line, "changes": changes})
    return b""


def commits_in(
    lines: Iterable[Fields], path: Path, most_changes: int | None = None
) -> Iterator[Commit]:
    """Yield the commits among the lines of a journal or history, each with at most so many changes. A change that
    cannot be read is reported and passed over."""
    for line in lines:
        if "changes" in line:
            unusable: list[UnusableRecord] = []
            yield commit_of(line, most_changes, unusable)
            for change in unusable:
                log.warning(
                    "a change of commit %s of %s passed over: %s", line["seq"], path, change.reason
                )


def unusable_changes(lines: Iterable[Fields]) -> list[UnusableRecord]:
    """Return the changes in the lines of a journal or history that count for nothing."""
    unusable: list[UnusableRecord] = []
    for line in lines:
        if "changes" in line:
            commit_of(line, None, unusable)
    return unusable


# --- what damage and repairs leave in a folder --------------------------------------------------------------

SET_ASIDE = "set-aside.jsonl"
BROKEN = "broken"
ONLY_COPY = "only-copy"
"""The part of the name of a broken file that says that nothing else may have its memories. Only people remove it, and
`erase`."""
_STAMP = "%Y%m%d-%H%M%S"
UNFINISHED = Sentence("the last line was not finished")
UNREADABLE = N_("a line that cannot be read")


@frozen
class QuarantinedLine:
    """A line of `set-aside.jsonl`. `since_ms`: when upkeep first met it, or None before that."""

    fields: Fields
    reason: str
    since_ms: int | None

    def dated(self, since_ms: int) -> QuarantinedLine:
        """Return the same line, with this time."""
        return QuarantinedLine({**self.fields, "since": times.iso(since_ms)}, self.reason, since_ms)


def set_aside(
    private: Path, reason: Sentence, *, data: bytes | str = b"", offset: int = 0, **more_fields: str
) -> None:
    """Add a line to `set-aside.jsonl` about something that does not count: `data` that stood at `offset` of the
    journal, or a file that `more_fields` name. A second call with the same does nothing."""
    text = data
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    fields = {"offset": offset, "reason": reason.english, **more_fields, "data": text}
    if any(fields.items() <= piece.fields.items() for piece in pieces(private)):
        return
    folders.append_durably(private / SET_ASIDE, json_text.dumps(fields) + b"\n")


def pieces(private: Path) -> list[QuarantinedLine]:
    """Return the pieces that were set aside, oldest first."""
    data = folders.read_if_there(private / SET_ASIDE) or b""
    return list(map(_piece, data.splitlines()))


def keep_broken(
    private: Path, file_name: str, data: bytes, now_ms: int, *, only_copy: bool = False
) -> Path:
    """Keep a file as it was, durably, under a name that begins with the time. Return its path. A file that is kept
    already, as after a crash, is not kept twice. The `only_copy` of memories has that in its name, and stays."""
    if only_copy:
        file_name = f"{ONLY_COPY}-{file_name}"
    folder = private / BROKEN
    folders.make_folder(folder)
    for path, _time in broken_files(private):
        if file_name in path.name and _holds(path, data):
            return path
    path = _free_path(folder, f"{times.moment_of(now_ms):{_STAMP}}-{file_name}")
    folders.replace_file(path, data)
    return path


def _holds(path: Path, data: bytes) -> bool:
    """Tell whether a file has just these bytes. A file that a crash left is removed by a later write, and does not
    count."""
    if path.name.endswith(".next"):
        return False
    return path.stat().st_size == len(data) and folders.read_file(path) == data


def _free_path(folder: Path, name: str) -> Path:
    """Return a free path in a folder: with this name, or with a number after it."""
    path = folder / name
    number = 1
    while os.path.lexists(path):
        number += 1
        path = folder / f"{name}.{number}"
    return path


def broken_files(private: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files that repairs kept, each with its time in milliseconds since 1970, oldest first."""
    folder = private / BROKEN
    if not folder.is_dir():
        return
    paths = [path for path in folder.iterdir() if not folders.NEXT.fullmatch(path.name)]
    times_by_path = [(path, _kept_at(path)) for path in paths]
    yield from sorted(times_by_path, key=lambda item: (item[1], item[0]))


def may_be_only_copy(broken_file: Path) -> bool:
    return f"-{ONLY_COPY}-" in broken_file.name


def _tells_of_only_copy(private: Path, piece: QuarantinedLine) -> bool:
    broken_file = private / str(piece.fields.get("kept", ""))
    return may_be_only_copy(broken_file) and broken_file.exists()


def expire_leavings(private: Path, horizon: Horizon) -> None:
    """Remove what is there since before `horizon`, except for files that may be the only copy of memories, and why they
    are there."""
    _expire_pieces(private, horizon)
    _expire_broken_files(private, horizon)


def _expire_pieces(private: Path, horizon: Horizon) -> None:
    """Delete the pieces set aside before `horizon`, except the ones that tell of a kept file that may
    be the only copy of memories. Give a date to each piece without one. Write only if something
    changes."""
    present = pieces(private)
    # A piece has no time of its own: it counts from the first upkeep that finds it.
    dated = [
        piece if piece.since_ms is not None else piece.dated(horizon.now_ms) for piece in present
    ]
    expired = horizon.passed(piece.since_ms for piece in dated)
    needed = [piece for piece in dated[:expired] if _tells_of_only_copy(private, piece)]
    remaining = needed + dated[expired:]
    if remaining != present:
        lines = [json_text.dumps(dict(piece.fields)) + b"\n" for piece in remaining]
        folders.replace_file(private / SET_ASIDE, b"".join(lines))


def _expire_broken_files(private: Path, horizon: Horizon) -> None:
    """Delete the kept files from before `horizon`, except the ones that may be the only copy of memories."""
    files = list(broken_files(private))
    expired = horizon.passed(time_ms for _path, time_ms in files)
    removable = [path for path, _time in files[:expired] if not may_be_only_copy(path)]
    for path in removable:
        folders.remove_file(path)
    if removable:
        folders.sync_folder(private / BROKEN)


def _piece(line: bytes) -> QuarantinedLine:
    """Parse a line of the file of what was set aside. A line that cannot be read becomes the data of a piece."""
    try:
        fields = json_text.load_object(line)
        if "reason" not in fields or deeper(fields):
            raise json_text.NotARecord(UNREADABLE)
    except json_text.NotARecord:
        fields = {"reason": UNREADABLE, "data": line.decode("utf-8", "backslashreplace")}
    since_ms = None
    with contextlib.suppress(json_text.NotARecord, KeyError):
        since_ms = json_text.milliseconds(fields["since"])
    return QuarantinedLine(fields, str(fields["reason"]), since_ms)


def _kept_at(path: Path) -> int:
    """Return when a file was set aside, in milliseconds: as its name says, or else when it was changed last."""
    try:
        return times.milliseconds(datetime.strptime(path.name[:15], _STAMP).replace(tzinfo=UTC))
    except ValueError:
        return path.stat().st_mtime_ns // 1_000_000
