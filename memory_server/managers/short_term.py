"""Short-term memories of one conversation: remember, recall, forget.

Segmentation and users' expressions run before the store's lock is taken; the decisions are in `recall/`.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_server.core.changes import Added, Change, CleanedUp, Forgotten, Pinned, Unpinned
from memory_server.core.errors import InvalidInput, MemoryNotFound, NothingToKeep
from memory_server.core.model import (
    NOTHING,
    ConversationState,
    Message,
    Session,
    ShortTermMemory,
    context_text,
    excess,
    storable,
    without_surrogates,
)
from memory_server.core.undo import change_id
from memory_server.managers.patterns import matching
from memory_server.managers.search import Found, Recalling
from memory_server.managers.services import Surroundings
from memory_server.recall import retention
from memory_server.recall.recalled_block import as_said
from memory_server.recall.words import Query
from nlp import ROLE_WEIGHTS


@dataclass(frozen=True, slots=True)
class Stored:
    """A memory was stored; `total` short-term memories are now in the conversation. `change_id` is None where it was
    stored before: the same turn, or equal messages within ten minutes."""

    memory: ShortTermMemory
    total: int
    change_id: str | None


@dataclass(frozen=True, slots=True)
class Removed:
    """What was forgotten, or would be, and how many memories remain. `due` of them would go too, but for the
    bound of one run of the clean-up."""

    forgotten: tuple[Forgotten, ...]
    remaining: int
    change_id: str | None
    due: int = 0


@dataclass(frozen=True, slots=True)
class PinSet:
    """A memory is pinned, or is not; `change_id` is None where it was so before."""

    memory: ShortTermMemory
    change_id: str | None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures of the short-term memories of one conversation; scores are None where there is no memory."""

    total: int
    average_score: float | None
    highest_score: float | None
    lowest_score: float | None
    oldest_ms: int | None
    newest_ms: int | None
    last_cleanup_ms: int | None
    by_conversation: Mapping[str, int]
    damaged: int
    """Pieces of damaged files that were set aside."""


class ShortTermManager:
    """Remembers and recalls for `conversation_id`."""

    def __init__(self, conversation_id: str, surroundings: Surroundings) -> None:
        self.conversation_id = conversation_id
        self._around = surroundings
        self.recalling = Recalling(conversation_id, surroundings)
        self._wording = surroundings.parameters.wording.within(conversation_id)

    async def add(
        self,
        messages: Sequence[Message],
        *,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
        turn: str | None = None,
        session: Session | None = None,
        by: str = "api",
    ) -> Stored:
        """Store the messages as one memory, dated by the last one's timestamp, else now.

        What is marked in them as recalled (recalled_block.py) or private (private.py) is no part of it. `turn` names
        what was said: the same messages of the same turn are stored once, and so are equal messages within ten minutes,
        whichever way they come. `session` is where they were said: a search
        of another session finds the memory at once, one of the same or of an unknown session after 20 minutes.

        Raises:
            MemoryPaused: nothing is kept now.
            NothingToKeep: all of it is private.
            InvalidInput: there is no message, or none with any text, a time is none, or there is more than is stored.
            StorageError: nothing was stored.
        """
        # Not at the top, here and elsewhere: a hook that recalls does not store, and a user waits for its imports.
        from memory_server.core.private import to_keep
        from memory_server.recall.repetition import stored_just_now

        self._around.refuse_while_paused()
        said = as_said(messages)
        messages = tuple(map(storable, to_keep(said)))
        if not messages and any(message.content.strip() for message in said):
            raise NothingToKeep("All of it is marked as private, so nothing was stored.")
        if not any(message.content.strip() for message in messages):
            raise InvalidInput("There is no text to remember; give at least one message with content.")
        now_ms = self._around.clock()
        last = messages[-1].time_ms
        said_in = (session or self._around.session) if self._around.parameters.recall.sessions else None
        other = {role: weight for role, weight in role_weights.items() if ROLE_WEIGHTS.get(role) != weight}
        unindexed = ShortTermMemory(
            # Never from the seeded generator: two processes must not draw the same.
            id=secrets.token_hex(8) if turn is None else _id_of_turn(turn, messages),
            time_ms=now_ms if last is None else last,
            text=context_text(messages),
            words=(),
            weights=(),
            score=0.0,
            conversation_id=self.conversation_id,
            messages=messages,
            role_weights=other or NOTHING,
            session=None if said_in is None else without_surrogates(said_in.id),
        )
        if (reason := excess(unindexed)) is not None:
            raise InvalidInput(f"Nothing was stored, because {reason}.")
        # In a thread: the first call loads a dictionary, and a long message takes tens of milliseconds.
        memory = await asyncio.to_thread(self._wording.of_text, unindexed)

        def decide(state: ConversationState) -> tuple[Sequence[Change], Stored]:
            within_ms = self._around.parameters.same_turn_ms
            known = state.short_term.get(memory.id) or stored_just_now(state, memory, within_ms)
            if known is not None:
                return (), Stored(known, len(state.short_term), None)
            return [Added(memory)], Stored(memory, len(state.short_term) + 1, self._next_change(state))

        return await self._around.store.update(self.conversation_id, decide, by=by)

    async def search(
        self,
        recent: Sequence[Message],
        *,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
        scope: str | None = None,
        reinforce: bool = True,
        session: Session | None = None,
        names: Iterable[str] = (),
        by: str = "api",
    ) -> Found:
        """What the recent messages bring to mind; what comes as top or next is reinforced, unless that is not wanted.

        `scope` names the conversations that are searched: `conversation` (this one), `all`, or a group of the
        settings; None: what the settings say. `session` is the one that asks. `names`, such as those of who takes part,
        are never cut; nor are those of who speaks.

        Raises:
            InvalidInput: there is no message, or no such scope.
            StorageError: the conversation cannot be read.
        """
        query = await self.query_of(recent, role_weights=role_weights, names=names)
        return await self.recalling.search(query, scope=scope, reinforce=reinforce, session=session, by=by)

    async def credit(
        self,
        recent: Sequence[Message],
        answer: Message,
        *,
        became: str | None = None,
        session: Session | None = None,
        by: str = "api",
    ) -> Found:
        """Reinforce those memories that a search by the recent messages brings and that the answer then used: it shares
        rare words with them that the messages did not have. For a search that was made unasked, after the answer.
        `became` is the id of the memory that the answer is in, if it was stored already.

        Raises:
            InvalidInput: there is no message.
            StorageError: the conversation cannot be read.
        """
        from memory_server.recall.usage import words_said

        query = await self.query_of(recent)
        now_ms = self._around.clock()
        asked, answered = await asyncio.to_thread(
            lambda: [words_said(as_said(said), self._wording, now_ms) for said in (recent, [answer])]
        )
        return await self.recalling.credit(query, asked=asked, answered=answered, became=became, session=session, by=by)

    async def query_of(
        self,
        recent: Sequence[Message],
        *,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
        names: Iterable[str] = (),
    ) -> Query:
        """What a search by the recent messages looks for; `names` are never cut.

        Raises:
            InvalidInput: there is no message.
        """
        recent = as_said(recent)
        if not recent:
            raise InvalidInput("There are no recent messages to search by; give the last few of the conversation.")
        return await asyncio.to_thread(self._wording.of_query, recent, self._around.clock(), role_weights, names=names)

    async def delete(self, pattern: str, *, dry_run: bool = False, by: str = "api") -> Removed:
        """Forget every memory whose text holds `word`, or matches `/re/flags` (JavaScript syntax); with `dry_run`
        only say which.

        Raises:
            InvalidPattern: the pattern is empty, no expression, or runs too long; nothing was deleted.
            StorageError: nothing was deleted.
        """
        known = tuple((await self._around.store.read(self.conversation_id)).short_term.values())
        hits = await matching(self._around.runner, pattern, [memory.text for memory in known], "deleted")
        matched = {memory.id: memory.text for memory, hit in zip(known, hits, strict=True) if hit}

        def decide(state: ConversationState) -> tuple[Sequence[Change], Removed]:
            gone = tuple(
                Forgotten(memory, "deleted")
                for memory in state.short_term.values()
                if matched.get(memory.id) == memory.text
            )
            made = self._next_change(state) if gone and not dry_run else None
            return gone, Removed(gone, len(state.short_term) - len(gone), made)

        if dry_run:
            return decide(await self._around.store.read(self.conversation_id))[1]
        return await self._around.store.update(self.conversation_id, decide, by=by)

    async def clean_up(self, *, dry_run: bool = False, by: str = "api") -> Removed:
        """Forget what retention no longer keeps, at most so many at once, or with `dry_run` only say what that
        would be.

        Raises:
            StorageError: nothing was forgotten.
        """
        now_ms, parameters = self._around.clock(), self._around.parameters

        def decide(state: ConversationState) -> tuple[Sequence[Change], Removed]:
            most = parameters.retention.most_at_once
            planned = retention.plan(state.short_term.values(), now_ms, parameters, most=most)
            gone = planned.forgotten
            changes: list[Change] = [*gone, CleanedUp(now_ms, state.last_cleanup_ms)] if state.short_term else []
            made = self._next_change(state) if gone and not dry_run else None
            return changes, Removed(gone, len(state.short_term) - len(gone), made, planned.due)

        if dry_run:
            return decide(await self._around.store.read(self.conversation_id))[1]
        return await self._around.store.update(self.conversation_id, decide, by=by)

    async def pin(self, memory_id: str, *, pinned: bool = True, by: str = "api") -> PinSet:
        """Keep the clean-up from ever forgetting the memory, or with `pinned=False` let it.

        Raises:
            MemoryNotFound: there is none of that id.
            StorageError: nothing was changed.
        """

        def decide(state: ConversationState) -> tuple[Sequence[Change], PinSet]:
            memory = state.short_term.get(memory_id)
            if memory is None:
                raise MemoryNotFound(
                    f"No short-term memory of {self.conversation_id} has the id `{memory_id}`; "
                    "searching gives the id of what it finds."
                )
            if memory.pinned == pinned:
                return (), PinSet(memory, None)
            change = Pinned(memory_id) if pinned else Unpinned(memory_id)
            return [change], PinSet(replace(memory, pinned=pinned), self._next_change(state))

        return await self._around.store.update(self.conversation_id, decide, by=by)

    async def statistics(self) -> Statistics:
        """Figures of what is stored."""
        damaged = await self._around.store.damaged(self.conversation_id)
        state = await self._around.store.read(self.conversation_id)
        memories = state.short_term.values()
        scores = [memory.score for memory in memories]
        times = [memory.time_ms for memory in memories]
        return Statistics(
            total=len(scores),
            average_score=sum(scores) / len(scores) if scores else None,
            highest_score=max(scores, default=None),
            lowest_score=min(scores, default=None),
            oldest_ms=min(times, default=None),
            newest_ms=max(times, default=None),
            last_cleanup_ms=state.last_cleanup_ms,
            by_conversation=dict(Counter(memory.conversation_id for memory in memories).most_common()),
            damaged=damaged,
        )

    async def memories(self) -> tuple[ShortTermMemory, ...]:
        """All of them, oldest first."""
        state = await self._around.store.read(self.conversation_id)
        return tuple(sorted(state.short_term.values(), key=lambda memory: (memory.time_ms, memory.id)))

    def _next_change(self, state: ConversationState) -> str:
        return change_id(self.conversation_id, state.version + 1)


def _id_of_turn(turn: str, messages: Sequence[Message]) -> str:
    parts = (turn, *(part for message in messages for part in (message.role, message.content)))
    digest = hashlib.sha256("\0".join(map(without_surrogates, parts)).encode())
    return digest.hexdigest()[:16]
