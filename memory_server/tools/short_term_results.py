"""Results of the toolset `short-term`: what a search gives, how many memories there are, and what was forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, PrivateAttr

from languages import _, counted, joined, n_
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.words import shown_words
from memory_server.kernel.messages import with_roles
from memory_server.kernel.times import iso
from memory_server.tools.base.result import From, Result, hundredths, undo_hint, when

SHOWN_KEYWORDS = 10
"""Keywords shown with a result (the Node original's number); all 72 would hide it."""


def _keywords(memory: ShortTermMemory) -> list[str]:
    return shown_words(memory, SHOWN_KEYWORDS)


def _true_or_none(is_weak: bool) -> bool | None:
    return is_weak or None


class Item(Result):
    id: Annotated[str, From("memory.id")]
    text: Annotated[str, From("memory.text")]
    conversation_id: Annotated[str, From("memory.conversation_id")]
    keptIn: str | None = Field(
        None, description="The conversation that holds it, where that is another one"
    )
    folder: str | None = Field(None, description="Where it was said, where that is another folder")
    timestamp: Annotated[str, From("memory.time_ms", iso)]
    score: Annotated[float, From("memory.score")]
    relevance: Annotated[float, From("receipt.relevance", hundredths)]
    keywords: Annotated[list[str], From("memory", _keywords)]
    why: str
    matched: list[str] = Field(
        description="The words it shares, as its text has them, heaviest first"
    )
    reason: str = Field(description="Why it came, for a person, in the language of the memories")
    weak: Annotated[
        bool | None, From("weak", _true_or_none, words="Shares little: check that it fits")
    ] = None

    def tier_text(self, tier: str) -> str:
        """The memory for people, with the name of its tier, such as `Top`."""
        return _(
            "{tier}{weak} - {when}{kept_in}{folder} (relevance {relevance:.1f}: {why})\n{text}",
            tier,
            _(", weak") if self.weak else "",
            when(self.timestamp),
            _(" in {kept_in}", self.keptIn) if self.keptIn else "",
            _(", said in {folder}", self.folder) if self.folder else "",
            self.relevance,
            self.why,
            with_roles(self.text),
        )


class HeldBackCounts(Result):
    tooRecent: Annotated[
        int,
        From(
            "recent",
            words="Of this chat, younger than 20 minutes (usually), not known to be of another session",
        ),
    ]
    sameMoment: Annotated[
        int, From("adjacent", words="Too near in time (usually 10 minutes) to one that is given")
    ]


class ReinforcedIn(Result):
    conversation_id: str
    changeId: str


class SearchResult(Result):
    topRelevant: list[Item]
    nextRelevant: list[Item]
    randomFlashback: list[Item]
    heldBack: HeldBackCounts
    totalSearched: int
    note: str | None = None
    changeId: str | None = None
    changes: list[ReinforcedIn] | None = Field(
        None, description="Each change where other conversations were changed"
    )
    lines: str | None = Field(
        None, description="The memories as prompt lines, where maxBytes asked for them"
    )

    _query_words: tuple[str, ...] = PrivateAttr(())

    def query_words(self) -> Sequence[str]:
        return self._query_words

    def __str__(self) -> str:
        if self.lines is not None:
            # Only the lines, because the caller limited the bytes.
            return self.lines
        blocks = [item.tier_text(_("Top")) for item in self.topRelevant]
        blocks += [item.tier_text(_("Next")) for item in self.nextRelevant]
        blocks += [item.tier_text(_("Flashback")) for item in self.randomFlashback]
        if self.note:
            blocks.append(self.note)
        counts = _(
            "Searched {memories}; held back: {too_recent} too recent, {same_moment} of the same moment.",
            counted(self.totalSearched, "memory"),
            self.heldBack.tooRecent,
            self.heldBack.sameMoment,
        )
        return "\n\n".join([*blocks, counts])


def _notice_or_none(damaged: int) -> str | None:
    if not damaged:
        return None
    return notice(damaged)


class StatsResult(Result):
    total: int
    avgScore: Annotated[float | None, From("average_score", hundredths)] = None
    maxScore: Annotated[float | None, From("highest_score")] = None
    minScore: Annotated[float | None, From("lowest_score")] = None
    oldestMemory: Annotated[str | None, From("oldest_ms", iso)] = None
    newestMemory: Annotated[str | None, From("newest_ms", iso)] = None
    lastCleanup: Annotated[str | None, From("last_cleanup_ms", iso)] = None
    conversationCounts: Annotated[dict[str, int], From("by_conversation", dict)]
    notice: Annotated[str | None, From("damaged", _notice_or_none)] = None

    def __str__(self) -> str:
        cleaned = (
            _("last clean-up {when}", when(self.lastCleanup))
            if self.lastCleanup
            else _("never cleaned up")
        )
        notice = f" {self.notice}" if self.notice else ""
        if self.oldestMemory is None or self.newestMemory is None:
            return _("No short-term memories; {cleaned}.{notice}", cleaned, notice)
        counts = joined(
            ", ",
            (_("{about}: {what}", name, count) for name, count in self.conversationCounts.items()),
        )
        oldest = when(self.oldestMemory)
        newest = when(self.newestMemory)
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
    """A sentence on damaged files and lines."""
    damaged_files = n_(
        "{count} damaged file or line is", "{count} damaged files or lines are", damaged
    )
    return _("{what} set aside; `memory-server doctor` says which.", damaged_files)


def unusable_records(count: int) -> str:
    """A sentence on stored records that cannot be used."""
    return n_(
        "{count} stored record cannot be used; `memory-server doctor` names it.",
        "{count} stored records cannot be used; `memory-server doctor` names them.",
        count,
    )


class DeleteResult(Result):
    deletedCount: Annotated[int, From("forgotten", len)]
    remainingCount: Annotated[int, From("remaining")]
    dryRun: bool | None = None
    changeId: str | None = None

    def __str__(self) -> str:
        verb = _("Would delete") if self.dryRun else _("Deleted")
        return _removed_text(
            verb, self.deletedCount, remaining=self.remainingCount, change_id=self.changeId
        )


class CleanupResult(Result):
    removedCount: Annotated[int, From("forgotten", len)]
    remainingCount: Annotated[int, From("remaining")]
    changeId: str | None = None

    def __str__(self) -> str:
        return _removed_text(
            _("Forgot"), self.removedCount, remaining=self.remainingCount, change_id=self.changeId
        )


def _removed_text(verb: str, count: int, *, remaining: int, change_id: str | None) -> str:
    number = counted(count, "memory")
    return _(
        "{verb} {number}; remaining: {remaining_count}.{undo_hint}",
        verb,
        number,
        remaining,
        undo_hint(change_id),
    )
