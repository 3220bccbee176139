"""What all managers of a process share: the store, the trigger runner, the constants, clock and chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from datetime import tzinfo
from random import Random
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from languages import _
from memory_server.conversations.model import ConversationState, Memory, excess
from memory_server.conversations.ports import ConversationStore, Decide, TriggerRunner
from memory_server.conversations.recall.day_lines import DayNotes
from memory_server.conversations.recall.parameters import Parameters
from memory_server.kernel.errors import (
    InvalidInput,
    InvalidPattern,
    MemoryPaused,
    NothingToKeep,
    QuotaReached,
)
from memory_server.kernel.messages import Session
from memory_server.kernel.meter import Meter
from memory_server.kernel.private import Pause
from memory_server.kernel.secrets import SecretFilter
from memory_server.kernel.text import Language
from memory_server.kernel.values import dataclass, frozen
from sandbox import PatternError

if TYPE_CHECKING:
    from memory_server.conversations.ports import Similarities

OWN = "conversation"
"""The scope of a search of its own conversation."""
ALL = "all"
"""The scope of a search of all conversations of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A result with the id of the change, which is None if nothing was changed."""

    change_id: str | None = None


D = TypeVar("D", bound=Done)


def refuse_excess(memory: Memory) -> None:
    """Check the size of a memory. Raises InvalidInput if a part of it is too large to be stored."""
    reason = excess(memory)
    if reason is not None:
        raise InvalidInput("Nothing was stored, because {reason}.", reason)


class Seen(dict[tuple["ConversationStore", str], ConversationState]):
    """The conversations that a call has read."""

    over = False
    """Whether the call has ended. A task that it started, and that still runs, asks the store again."""


_seen: ContextVar[Seen | None] = ContextVar("seen", default=None)


@contextmanager
def one_call() -> Iterator[None]:
    """Ask a store on another machine only once for each conversation while the block runs: what is read again need
    not be newer."""
    seen = Seen()
    token = _seen.set(seen)
    try:
        yield
    finally:
        _seen.reset(token)
        seen.over = True


def seen_in_call() -> Seen:
    """Return what the current call has read. Outside of a call it is empty, and nothing is kept in it."""
    seen = _seen.get()
    if seen is None or seen.over:
        return Seen()
    return seen


@frozen
class Services:
    """`clock` gives milliseconds since 1970; `scope` and `groups` (patterns of ids by name) say which conversations a
    search looks at; `zone` and `language` belong to the readers (if None: the system's zone, the memories' language).
    `brief`: this process asks once, so an index does not pay off. `writable`: a search may reinforce. `session` is
    the session of calls that name none (None if it is unknown). `paused` gives the pause that lasts now; `full` says
    whether the memories take all the room that they may. `meter` counts calls and events. `meaning` gives the vectors
    of texts (None if no model makes any). `erased` says whether any of these texts was erased for good. `secrets`
    removes them from what comes in."""

    store: ConversationStore
    runner: TriggerRunner
    parameters: Parameters
    clock: Callable[[], int]
    rng: Random
    scope: str = OWN
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    zone: tzinfo | None = None
    language: Language | None = None
    brief: bool = False
    writable: bool = True
    session: Session | None = None
    paused: Callable[[], Pause | None] = lambda: None
    full: Callable[[], bool] = lambda: False
    meter: Meter = field(default_factory=Meter)
    meaning: Callable[[], Similarities] | None = None
    erased: Callable[[Iterable[str]], bool] = lambda _texts: False
    secrets: SecretFilter = SecretFilter()

    def in_zone(self, zone: ZoneInfo) -> Services:
        """Return the same services for readers in another time zone: triggers, date words and the ages of lines
        follow it."""
        wording = replace(self.parameters.wording, zone=zone)
        return replace(
            self,
            runner=self.runner.in_zone(zone.key),
            parameters=replace(self.parameters, wording=wording),
            zone=zone,
        )

    @property
    def has_corrections(self) -> bool:
        """Whether rules look for what a memory corrects: not with `compat = "node"`."""
        return self.parameters.recall.must_share

    @property
    def day_notes(self) -> DayNotes:
        """The notes on days, for the readers of now."""
        has_dates = self.parameters.wording.enrichment.dates
        return DayNotes(self.clock(), self.zone, are_shown=has_dates)

    def refuse_while_paused(self) -> None:
        """Check that something can be stored. Raises MemoryPaused during a pause, QuotaReached if the memories take
        all the room that they may."""
        pause = self.paused()
        if pause is not None:
            raise MemoryPaused("Memory is {zone}; nothing was stored.", pause.text(self.zone))
        self.refuse_where_full()

    def refuse_where_full(self) -> None:
        """Refuse what takes room: to store, bring back or copy. Raises QuotaReached: the memories take all the room
        they may."""
        if self.full():
            raise QuotaReached(
                "These memories take all the room they may have; delete some, or ask for more room."
            )

    def refuse_erased(self, *texts: str) -> None:
        """Check that none of these texts was erased for good. Blocking. Raises NothingToKeep."""
        if self.erased(texts):
            from memory_server.kernel.erasure import left_out_text

            raise NothingToKeep(
                "{left}: it was erased for good, so it is not stored.", left_out_text(1)
            )

    async def commit(
        self, conversation_id: str, decide: Decide[D], *, by: str, dry_run: bool = False
    ) -> D:
        """Commit what `decide` decides, and return its result, with the id of the change if anything changed. With
        `dry_run` only decide."""
        if dry_run:
            _changes, result = decide(await self.store.read(conversation_id))
            return result
        result, change_id = await self.store.update(conversation_id, decide, by=by)
        if change_id is None:
            return result
        return replace(result, change_id=change_id)

    async def matching(self, pattern: str, texts: Sequence[str], action: str) -> tuple[bool, ...]:
        """Return for each text whether it holds `word`, or matches `/re/flags` in JavaScript syntax; this runs in the
        sandbox. `action` names the action in the error message, such as `deleted`. Raises InvalidPattern if the
        pattern is empty, not an expression, or runs too long."""
        try:
            return await self.runner.match_texts(pattern, texts)
        except PatternError as error:
            advice = _(
                "Nothing was {what}; write a word, or an expression such as /披萨|pizza/i.", action
            )
            raise InvalidPattern("{reason}. {advice}", error, advice) from error
