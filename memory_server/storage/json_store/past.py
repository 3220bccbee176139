"""A conversation's history: the commits that were folded into the snapshots. The archive is read from it.

Blocking calls on the files of one conversation. Writing needs the lock. A reader reads the journal first and gives its
commits: a compaction in between makes both hold the same commits, and none is missed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from memory_server.core.archive import Archived, Horizon, archived
from memory_server.core.changes import Commit, apply
from memory_server.core.model import ConversationState
from memory_server.storage.json_store import change_codec, codec, quarantine
from memory_server.storage.partition import history, journal

log = logging.getLogger(__name__)
_TELLS_OF_ARCHIVE = re.compile(rb'"type":"(?:forgotten|restored|trigger_)').search
"""Whether a line of the history can change the archive; most cannot, and parsing them would take ten times as long."""


class Past:
    """`history.jsonl` in `folder`; what does not count is set aside there (quarantine.py).

    Older versions also wrote removals to `archive.jsonl`. It is no longer read, but its text expires with the history.
    """

    def __init__(self, folder: Path) -> None:
        self._history = folder / "history.jsonl"
        self._former_archive = folder / "archive.jsonl"
        self._private = folder

    # --- reading ---------------------------------------------------------------------------------------

    def newest_first(
        self, recent: Sequence[Commit], wanted: Callable[[bytes], object] | None = None
    ) -> Iterator[Commit]:
        """All commits that are kept. `recent`: those of the journal, oldest first. `wanted`: whether to read a line of
        the history."""
        last: int | None = None
        for commit in reversed(recent):
            last = commit.version
            yield commit
        for line in history.newest_first(self._history, wanted):
            if last is None or line["seq"] < last:
                yield from commits_in([line], self._history)

    def before(self, recent: Sequence[Commit], version: int | None, limit: int) -> tuple[Commit, ...]:
        """At most `limit` commits, newest first, older than `version` (None: the newest)."""
        older = (commit for commit in self.newest_first(recent) if version is None or commit.version < version)
        return tuple(islice(older, limit))

    def archived(self, recent: Sequence[Commit], newest: int | None = None) -> tuple[Archived, ...]:
        """What was removed and can come back; of the last removals no more than `newest`."""
        return archived(self.newest_first(recent, _TELLS_OF_ARCHIVE), newest)

    def folded(self, version: int | None) -> ConversationState:
        """The state of `version` (None: the newest) by the history, as far back as it goes."""
        state = ConversationState("history")
        oldest_first = reversed(tuple(self.newest_first(())))
        replay(state, (commit for commit in oldest_first if version is None or commit.version <= version))
        return state

    def newest_version(self) -> int:
        """The newest version in the history; 0 if it is empty."""
        return next((line["seq"] for line in history.newest_first(self._history)), 0)

    # --- writing, under the lock -----------------------------------------------------------------------

    def fold(self, tail: journal.Tail) -> None:
        """Keep the commits and the bad lines of a journal that is about to be replaced."""
        for line in tail.bad:
            quarantine.set_aside(self._private, line.reason, line.data, line.offset)
        history.keep(self._history, [(line["seq"], line_of(line)) for line in tail.lines if "changes" in line])

    def expire(self, horizon: Horizon) -> None:
        """Remove the commits beyond `horizon`, and their text with them."""
        for path in (self._history, self._former_archive):
            history.drop_first(path, lambda lines: horizon.passed(map(_time_of, lines)))


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
