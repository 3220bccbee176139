"""What became of a conversation's commits after they were folded into the snapshots: its history and its archive.

Blocking calls on the files of one conversation. What writes needs the lock; what reads is given the commits of the
journal, read before: a compaction meanwhile makes both hold the same, never neither.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from memory_server.core.archive import Archive, Archived, Horizon, touches_archive
from memory_server.core.changes import Commit, apply
from memory_server.core.model import ConversationState
from memory_server.storage.json_store import archive_file, change_codec, codec, quarantine
from memory_server.storage.partition import folders, history, journal

log = logging.getLogger(__name__)


class Past:
    """`history.jsonl` and `archive.jsonl` in `folder`; what does not count is set aside there (quarantine.py)."""

    def __init__(self, folder: Path) -> None:
        self._history = folder / "history.jsonl"
        self._archive = folder / "archive.jsonl"
        self._private = folder

    # --- reading ---------------------------------------------------------------------------------------

    def newest_first(self, recent: Sequence[Commit]) -> Iterator[Commit]:
        """All commits that are kept, `recent` being those of the journal, oldest first."""
        last: int | None = None
        for commit in reversed(recent):
            last = commit.version
            yield commit
        for line in history.newest_first(self._history):
            if last is None or line["seq"] < last:
                yield from commits_in([line], self._history)

    def before(self, recent: Sequence[Commit], version: int | None, limit: int) -> tuple[Commit, ...]:
        """At most `limit` commits, newest first, older than `version` (None: the newest)."""
        older = (commit for commit in self.newest_first(recent) if version is None or commit.version < version)
        return tuple(islice(older, limit))

    def since(self, recent: Sequence[Commit], version: int) -> tuple[Commit, ...]:
        """The commits after `version` that are kept, oldest first."""
        newer = tuple(takewhile(lambda commit: commit.version > version, self.newest_first(recent)))
        return newer[::-1]

    def archived(self, recent: Iterable[Commit], newest: int | None = None) -> tuple[Archived, ...]:
        """What the archive holds, with what `recent` did to it; of the last removals no more than `newest`."""
        known = archive_file.read(self._archive)[0] if newest is None else archive_file.last(self._archive, newest)
        archive = Archive(known)
        for commit in recent:
            archive.follow(commit)
        entries = archive.entries()
        return entries if newest is None else entries[max(0, len(entries) - newest) :]

    def folded(self, version: int | None) -> ConversationState:
        """What the history says the snapshots of `version` held (None: the newest), as far back as it goes."""
        state = ConversationState("history")
        for commit in reversed(tuple(self.newest_first(()))):
            if commit.version > state.version and (version is None or commit.version <= version):
                apply(state, commit.changes)
                state.version = commit.version
        return state

    def newest_version(self) -> int:
        """The newest version that history and archive tell of; 0 where they tell of none."""
        newest = next((line["seq"] for line in history.newest_first(self._history)), 0)
        return max([newest, *(entry.version for entry in archive_file.read(self._archive)[0])])

    # --- writing, under the lock -----------------------------------------------------------------------

    def fold(self, tail: journal.Tail) -> None:
        """Keep what a journal holds that is about to be replaced: its commits and its bad lines."""
        for line in tail.bad:
            self.set_aside(line.offset, line.data, line.reason)
        commits = commits_in(tail.lines, self._history)
        if any(map(touches_archive, commits)):
            entries, bad = archive_file.read(self._archive)
            archive = Archive(entries)
            for commit in commits:
                archive.follow(commit)
            self._write_archive(entries, archive.entries(), bad)
        lines = [line for line in tail.lines if "changes" in line]
        history.keep(self._history, [(line["seq"], journal.frame(line, codec.dumps(line))) for line in lines])

    def expire(self, horizon: Horizon) -> None:
        """Let go of the text of what happened beyond `horizon`."""
        history.drop_first(self._history, lambda lines: horizon.passed(map(_time_of, lines)))
        entries, bad = archive_file.read(self._archive)
        passed = horizon.passed(entry.at_ms for entry in entries)
        self._write_archive(entries, entries[passed:], bad)

    def set_aside(self, offset: int, data: bytes, reason: str) -> None:
        """Keep bytes that do not count, with the reason."""
        text = data.decode("utf-8", "backslashreplace")
        quarantine.set_aside(self._private, {"offset": offset, "reason": reason, "data": text})

    def _write_archive(self, old: Sequence[Archived], new: Sequence[Archived], bad: Sequence[journal.BadLine]) -> None:
        if not bad and list(old) == list(new):
            return
        for line in bad:
            self.set_aside(line.offset, line.data, f"archive: {line.reason}")
        if not bad and list(new[: len(old)]) == list(old):
            # Mostly memories only come: then the cost is that of what came.
            folders.append_durably(self._archive, archive_file.dump(new[len(old) :]))
        else:
            folders.replace_file(self._archive, archive_file.dump(new))


def _time_of(line: Mapping[str, Any] | None) -> int | None:
    try:
        return None if line is None else codec.milliseconds(line["at"])
    except (codec.NotARecord, KeyError):
        return None


def commits_in(lines: Iterable[Mapping[str, Any]], place: Path) -> tuple[Commit, ...]:
    """The commits among the lines of a journal or history; one that cannot be read is reported and passed over."""
    commits: list[Commit] = []
    for line in lines:
        if "changes" not in line:
            continue
        try:
            commits.append(change_codec.commit(line))
        except codec.NotARecord as error:
            log.warning("commit %s of %s passed over: %s", line.get("seq"), place, error)
    return tuple(commits)
