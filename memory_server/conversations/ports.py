"""What the managers need from outside: a store of conversations, a store of backups and a runner of triggers.

`json_store/store.py` and the tests' store in memory pass one contract suite; `trigger_search.SandboxRunner` and the tests' table
of verdicts run triggers. The clock is not a port but an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from memory_server.conversations.archive import ArchivedMemory
from memory_server.conversations.changes import Change, Commit
from memory_server.conversations.model import ConversationState
from memory_server.kernel.lifecycle import HISTORY_PAGE
from memory_server.kernel.values import frozen

if TYPE_CHECKING:
    from memory_server.kernel.items import Scope
    from sandbox import CheckReport, Operand, RunReport, TriggerRecord, Verdict

Result = TypeVar("Result")
Decide = Callable[[ConversationState], tuple[Sequence[Change], Result]]
"""A pure decision. A store may call it more than once before it commits, so it must not consume anything."""


@frozen
class RepairPlan:
    """What is damaged and will be mended, in sentences. `kept_in`: where a repair keeps the files as they were.
    `set_aside`: sentences about each snapshot that was set aside, also at an earlier use, and how to put it back."""

    conversation_id: str
    steps: tuple[str, ...]
    kept_in: Path
    set_aside: tuple[str, ...]


class ConversationStore(Protocol):
    """A store of conversations. Every method may raise `StorageError`."""

    async def update(
        self,
        conversation_id: str,
        decide: Decide[Result],
        *,
        by: str,
        wait_seconds: float | None = None,
    ) -> tuple[Result, str | None]:
        """Lock the conversation, read what others wrote, decide, commit, and then return the result of the decision
        with the id of the change (None if nothing changed).

        When this returns, the changes are durable; when it raises, none of them happened (after `OutcomeUnknown` they
        may have). No changes, no write. `by` names the author for the history. `wait_seconds` bounds the wait for
        other writers (default: the store's own limit). Raises LockTimeout: it was over; StorageUnwritable: the
        changes could not be made durable.
        """

    async def read(self, conversation_id: str) -> ConversationState:
        """Read the state after all acknowledged commits, never a part of a commit; this does not lock other processes
        out. The value is live: use it before the next `await`. An unknown conversation is an empty state."""

    async def history(
        self,
        conversation_id: str,
        *,
        before: int | None = None,
        limit: int = HISTORY_PAGE,
        most_changes: int | None = None,
    ) -> tuple[Commit, ...]:
        """Return at most `limit` commits before the version `before` (all versions if it is None), newest first.
        `most_changes` limits how many changes of a commit are read: an import has tens of thousands, which take a
        second to read."""

    async def archive(
        self, conversation_id: str, *, newest: int | None = None
    ) -> tuple[ArchivedMemory, ...]:
        """Return what was removed and has not come back, oldest removal first; only the `newest` last removals, or
        all if that is None."""

    async def damaged(self, conversation_id: str) -> int:
        """Count the unreadable pieces of damaged files that were set aside and still exist; an unfinished write is
        not damage."""

    async def conversations(self) -> list[str]:
        """List the ids of all conversations that were ever written to, sorted."""

    async def compact(
        self,
        conversation_id: str,
        *,
        now_ms: int | None = None,
        erased: Callable[[Any], bool] | None = None,
    ) -> None:
        """Fold the conversation's commits into its base, so that the next opening is quick, and delete history and
        archive that are older than they are kept, counted back from `now_ms` (default: the store's clock). `erased`:
        delete too each change of the past that it is true of, given as JSON; the versions stay."""

    async def larger(self, than: int) -> list[str]:
        """List the ids of the conversations that may hold more short-term memories than this, sorted."""

    async def expire(self, now_ms: int) -> None:
        """Delete history and archive of all conversations as `compact` does, where that is quicker than to compact
        each."""

    async def adopt(
        self, conversation_id: str, state: ConversationState, commits: Sequence[Commit]
    ) -> bool:
        """Keep a conversation of another store with its version and its past, `commits` with the oldest first, so
        that change ids stay valid. All is written together. Return False, and change nothing, if the id exists."""

    async def aclose(self) -> None:
        """Finish pending work and release everything; idempotent."""


class Similarities(Protocol):
    """How near texts are by meaning, by the vectors of a model that the owner named."""

    async def cosines(
        self, scope: Scope, text: str, among: Mapping[Scope, Collection[str]], seconds: float
    ) -> Mapping[Scope, Mapping[str, float]]:
        """Compare texts of other scopes, or of this scope, with `text` of `scope`. Return the cosine of each text
        that has a vector. Raises ModelsFailed if they are not ready within `seconds`."""

    def later(self, scope: Scope, texts: Iterable[str]) -> None:
        """Make the vectors of these texts when there is time; returns at once."""

    async def tidy(self, live: Sequence[tuple[Scope, str]], now_ms: int) -> tuple[int, int, str]:
        """Forget the vectors of texts that are not `live` any more, and make the missing vectors of live texts.
        Return how many vectors were made, how many are still missing, and why."""


@frozen
class Trial:
    """What a trigger did once, and why: its verdict with the values of its operands, and what is wrong with it."""

    report: RunReport
    operands: Sequence[Operand]
    check: CheckReport


class TriggerRunner(Protocol):
    """Runs untrusted JavaScript: triggers, and the regular expressions of users."""

    def in_zone(self, timezone: str) -> TriggerRunner:
        """Return the same runner for triggers in another time zone."""

    async def evaluate(
        self,
        triggers: Sequence[str],
        context: Mapping[str, Any],
        *,
        now: datetime,
        seed: int,
        last_fired: Mapping[int, Mapping[str, int]] | None = None,
    ) -> Mapping[int, Verdict]:
        """Return the verdicts of the triggers that had to run, by index and in order; the others did not fire. A
        failing trigger also gives a verdict, never an exception. `last_fired` gives the value of `context.last_fired`
        for triggers by index; it is null for the others."""

    async def check(
        self, source: str, context: Mapping[str, Any] | None = None, *, now: datetime, seed: int
    ) -> CheckReport:
        """Find what is wrong with a trigger (errors) and what might be (warnings)."""

    async def check_all(
        self, sources: Sequence[str], *, now: datetime, seed: int
    ) -> Sequence[CheckReport]:
        """Check each trigger as `check` does; they share the time of a single search."""

    async def try_out(
        self, source: str, context: Mapping[str, Any], *, now: datetime, seed: int
    ) -> Trial:
        """One run of a trigger for its author, and what is wrong with it. Raises TriggersUnavailable."""

    async def words_of(self, sources: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return the words that each trigger looks for, for people; empty where they are not known. Raises
        TriggersUnavailable."""

    def record_of(self, source: str) -> TriggerRecord:
        """Return how often this trigger timed out, ran out of memory or killed its worker since the runner began."""

    async def match_texts(self, pattern: str, texts: Sequence[str]) -> tuple[bool, ...]:
        """Return for each text whether it holds `word`, or matches `/re/flags` in JavaScript syntax. Raises
        `sandbox.PatternError`."""


# --- the record of recalls ---

Line = dict[str, Any]
LineChange = Callable[[Line], Line | None]
MOST_LINES = 2_000
"""Lines of a conversation at most."""
LINES_AFTER_A_CUT = 1_800
"""How many of the newest lines stay when there are more than `MOST_LINES`: so a cut is rare."""


class RecallLog(Protocol):
    """The record of recalls: it keeps at most `MOST_LINES` for each conversation. Blocking calls; they raise
    OSError."""

    def append(self, *lines: Line) -> None:
        """Add lines. They are not synced: a crash may take the last ones."""

    def lines(self, conversation_id: str | None = None) -> list[Line]:
        """Return the lines of a conversation, the oldest first, or of all conversations, one conversation after the
        other."""

    def rewrite(self, change: LineChange) -> None:
        """Replace each line by what `change` makes of it, or remove the line if that is None."""
