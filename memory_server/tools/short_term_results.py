"""Results of the toolset `short-term`: how many memories there are, how they score, and what was forgotten."""

from __future__ import annotations

from typing import Annotated

from memory_server.kernel.times import iso
from memory_server.tools.base.result import From, Result, hundredths, undo_hint, when
from sandbox.locale import _, counted, joined, n_


class StatsResult(Result):
    total: int
    avgScore: Annotated[float | None, From("average_score", hundredths)] = None
    maxScore: Annotated[float | None, From("highest_score")] = None
    minScore: Annotated[float | None, From("lowest_score")] = None
    oldestMemory: Annotated[str | None, From("oldest_ms", iso)] = None
    newestMemory: Annotated[str | None, From("newest_ms", iso)] = None
    lastCleanup: Annotated[str | None, From("last_cleanup_ms", iso)] = None
    conversationCounts: Annotated[dict[str, int], From("by_conversation", dict)]
    notice: Annotated[str | None, From("damaged", lambda damaged: notice(damaged) if damaged else None)] = None

    def __str__(self) -> str:
        cleaned = _("last clean-up {when}", when(self.lastCleanup)) if self.lastCleanup else _("never cleaned up")
        notice = f" {self.notice}" if self.notice else ""
        if not self.total:
            return _("No short-term memories; {cleaned}.{notice}", cleaned, notice)
        counts = joined(", ", (_("{about}: {what}", name, count) for name, count in self.conversationCounts.items()))
        oldest, newest = (when(moment) for moment in (self.oldestMemory, self.newestMemory) if moment)
        return _(
            "{memories} from {oldest} to {newest}; score {min_score:g} to {max_score:g}, mean "
            "{avg_score:g}; {cleaned}. By conversation: {counts}.{notice}",
            counted(self.total, "short-term memory"),
            oldest,
            newest,
            self.minScore,
            self.maxScore,
            self.avgScore,
            cleaned,
            counts,
            notice,
        )


def notice(damaged: int) -> str:
    what = n_("{count} damaged file or line is", "{count} damaged files or lines are", damaged)
    return _("{what} set aside; `memory-server doctor` says which.", what)


class DeleteResult(Result):
    deletedCount: Annotated[int, From("forgotten", len)]
    remainingCount: Annotated[int, From("remaining")]
    dryRun: bool | None = None
    changeId: str | None = None

    def __str__(self) -> str:
        verb = _("Would delete") if self.dryRun else _("Deleted")
        return _left(verb, self.deletedCount, self.remainingCount, self.changeId)


class CleanupResult(Result):
    removedCount: Annotated[int, From("forgotten", len)]
    remainingCount: Annotated[int, From("remaining")]
    changeId: str | None = None

    def __str__(self) -> str:
        return _left(_("Forgot"), self.removedCount, self.remainingCount, self.changeId)


def _left(verb: str, count: int, remaining: int, change_id: str | None) -> str:
    number = counted(count, "memory")
    return _("{verb} {number}; remaining: {remaining_count}.{undo_hint}", verb, number, remaining, undo_hint(change_id))
