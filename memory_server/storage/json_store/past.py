"""A conversation's history: the commits that were folded into the snapshots. The archive is read from it.

Blocking calls on the files of one conversation. Writing needs the lock. A reader reads the journal first and gives its
commits: a compaction in between makes both hold the same commits, and none is missed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from memory_server.core.archive import Archived, Horizon, archived
from memory_server.core.changes import Commit, apply
from memory_server.core.model import ConversationState
from memory_server.storage.json_store import change_codec, codec, quarantine
from memory_server.storage.partition import folders, journal

log = logging.getLogger(__name__)
_TELLS_OF_ARCHIVE = re.compile(rb'"type":"(?:forgotten|restored|trigger_)').search
"""Whether a line of the history can change the archive; most cannot, and parsing them would take ten times as long."""


class Past:
    """The past of the conversation that is kept in `private`: `history.jsonl`, and before it the commits of the journal
    beside it; what does not count is set aside there (quarantine.py).

    Older versions also wrote removals to `archive.jsonl`. It is no longer read, but its text expires with the history.
    """

    def __init__(self, private: Path) -> None:
        self._private = private
        self._journal = private / "journal.jsonl"
        self._history = private / "history.jsonl"

    # --- reading ---------------------------------------------------------------------------------------

    def history(self, before: int | None, limit: int) -> tuple[Commit, ...]:
        """At most `limit` commits, newest first, older than the version `before` (None: the newest)."""
        older = (commit for commit in self._newest_first() if before is None or commit.version < before)
        return tuple(islice(older, limit))

    def archived(self, newest: int | None = None) -> tuple[Archived, ...]:
        """What was removed and can come back; of the last removals no more than `newest`."""
        return archived(self._newest_first(_TELLS_OF_ARCHIVE), newest)

    def folded(self, version: int) -> ConversationState:
        """The state of `version` by the history, as far back as it goes."""
        state = ConversationState("history")
        oldest_first = reversed(tuple(commits_in(journal.newest_first([self._history]), self._history)))
        replay(state, (commit for commit in oldest_first if commit.version <= version))
        return state

    def _newest_first(self, wanted: Callable[[bytes], object] | None = None) -> Iterator[Commit]:
        """All commits that are kept, read as they are needed. `wanted`: whether to read a line."""
        return commits_in(journal.newest_first([self._journal, self._history], wanted), self._private)

    # --- writing, under the lock -----------------------------------------------------------------------

    def fold(self) -> None:
        """Keep the commits and the bad lines of the journal, which is about to be replaced."""
        data = folders.read_file(self._journal)
        start = data.find(b"\n") + 1
        commits: list[tuple[int, bytes]] = []
        # Line by line: all of them parsed at once would take ten times the size of the file.
        for raw, line in journal.lines_in(data[start:], start):
            if isinstance(line, journal.BadLine):
                quarantine.set_aside(self._private, line.reason, line.data, line.offset)
            elif "changes" in line:
                commits.append((line["seq"], raw + b"\n"))
        journal.keep(self._history, commits)

    def expire(self, horizon: Horizon) -> None:
        """Remove the commits and what was set aside beyond `horizon`, and their text with them."""
        for path in (self._history, self._private / "archive.jsonl"):
            journal.drop_first(path, lambda lines: horizon.passed(map(_time_of, lines)))
        quarantine.expire_leavings(self._private, horizon)


def replay(state: ConversationState, commits: Iterable[Commit]) -> None:
    """Apply `commits`, oldest first, to `state`."""
    for commit in commits:
        apply(state, commit.changes)
        state.version = commit.version


def line_of(fields: Mapping[str, Any]) -> bytes:
    """A line of a journal or history."""
    return journal.frame(fields, codec.dumps(dict(fields)))


def _time_of(line: Mapping[str, Any] | None) -> int | None:
    try:
        return None if line is None else codec.milliseconds(line["at"])
    except (codec.NotARecord, KeyError):
        return None


def commits_in(lines: Iterable[Mapping[str, Any]], place: Path) -> Iterator[Commit]:
    """The commits among the lines of a journal or history; one that cannot be read is reported and passed over."""
    for line in lines:
        if "changes" in line:
            try:
                yield change_codec.commit(line)
            except codec.NotARecord as error:
                log.warning("commit %s of %s passed over: %s", line.get("seq"), place, error)
