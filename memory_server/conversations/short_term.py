"""Short-term memories of one conversation: remember, recall, edit, pin, mute, forget, find the words again.

Segmentation and users' expressions run before the store's lock is taken; the decisions are in `recall/`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_server.conversations.changes import (
    Added,
    Change,
    CleanedUp,
    Edited,
    Forgotten,
    Muted,
    Pinned,
    Unpinned,
    merged,
)
from memory_server.conversations.model import EVERYWHERE, MOST_MUTED, ConversationState, ShortTermMemory, mark_of
from memory_server.conversations.recall.retention import plan_cleanup
from memory_server.conversations.same_turn import other_words_of_both, replacing, stored_just_now
from memory_server.conversations.search import ShortTermSearch, vectors_of
from memory_server.conversations.services import Done, refuse_excess
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, NothingToKeep
from memory_server.kernel.messages import NOTHING, Message, Session, context_text, storable, without_surrogates
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.private import to_keep
from memory_server.kernel.recalled_block import as_said
from nlp import ROLE_WEIGHTS

AT_ONCE = 200
"""Memories whose words are found again in one step, in a thread: some 50 ms, so that a cancellation is quick."""
_MANY = 2_000
"""Memories that are brought into their order in a thread: some 2 ms."""
_PLACE = re.compile(rf"{EVERYWHERE}|conversation:.{{1,256}}|folder:[^\0]{{1,4096}}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Stored(Done):
    """A memory was stored; the conversation now has `total` short-term memories. `change_id` is None if it was stored
    before: the same turn, or equal messages within ten minutes. `replaced`: the turn said something else, or could be
    found by fewer words. `private_words`: how many other words were left out because a private part has them."""

    memory: ShortTermMemory
    total: int
    replaced: bool = False
    private_words: int = 0


@dataclass(frozen=True, slots=True)
class Removed(Done):
    """What was forgotten, or would be, and how many memories remain. `due` of these are for later runs of the clean-up,
    because one run forgets only so many."""

    forgotten: tuple[Forgotten, ...]
    remaining: int
    due: int = 0


@dataclass(frozen=True, slots=True)
class MarkSet(Done):
    """A memory with its pin and places as they are now; `change_id` is None if nothing had to change."""

    memory: ShortTermMemory


@dataclass(frozen=True, slots=True)
class Rewritten(Done):
    """A memory as it is after an edit; `change_id` is None if nothing had to change. `private_words` as of `Stored`."""

    memory: ShortTermMemory
    private_words: int = 0


@dataclass(frozen=True, slots=True)
class Reindexed(Done):
    """What was changed, or would be changed, of `total` memories."""

    changes: tuple[Edited, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures of the short-term memories of one conversation; scores are None if it has no memories."""

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


class ShortTermManager(ShortTermSearch):
    """Remembers and recalls for `conversation_id`."""

    async def add(
        self,
        messages: Sequence[Message],
        *,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
        other_words: Sequence[str] = (),
        turn: str | None = None,
        replaces: bool = False,
        session: Session | None = None,
        folder: str | None = None,
        by: str = "api",
    ) -> Stored:
        """Store the messages as one memory, with the timestamp of the last message, else now.

        Parts marked as recalled (recalled_block.py) or private (private.py) are left out. `other_words`: texts by which
        one may ask for it, and which it does not have (other_words.py). `turn` identifies the turn: the same messages
        of the same turn are stored once, and so are equal messages within ten minutes; other messages of it are stored
        beside them, or `replaces` says that they take their place. `session` is where they were said: a search of
        another session finds the memory at once, a search of the same or of an unknown session finds it after 20
        minutes. `folder` is where the work was.

        Raises:
            MemoryPaused: the memory is paused.
            NothingToKeep: all of it is private.
            InvalidInput: there is no message with text, a time is not valid, or something is too large.
        """
        self._services.refuse_while_paused()
        said = as_said(messages)
        messages = tuple(map(storable, to_keep(said)))
        if not messages and any(message.content.strip() for message in said):
            raise NothingToKeep("All of the text is marked as private, so nothing was stored.")
        if not any(message.content.strip() for message in messages):
            raise InvalidInput("There is no text to remember; give at least one message with text.")
        now_ms = self._services.clock()
        last = messages[-1].time_ms
        # Never from the seeded generator: two processes must not make the same id.
        memory_id = secrets.token_hex(8)
        if turn is not None:
            parts = (turn, *(part for message in messages for part in (message.role, message.content)))
            memory_id = hashlib.sha256("\0".join(map(without_surrogates, parts)).encode()).hexdigest()[:16]
        said_in = (session or self._services.session) if self._services.parameters.recall.sessions else None
        other = {role: weight for role, weight in role_weights.items() if ROLE_WEIGHTS.get(role) != weight}
        unindexed = ShortTermMemory(
            id=memory_id,
            time_ms=now_ms if last is None else last,
            text=context_text(messages),
            words=(),
            weights=(),
            score=0.0,
            conversation_id=self.conversation_id,
            messages=messages,
            role_weights=other or NOTHING,
            session=None if said_in is None else without_surrogates(said_in.id),
            folder=None if folder is None else without_surrogates(folder),
            turn=None if turn is None or not replaces else without_surrogates(turn),
        )
        refuse_excess(unindexed)

        def worded() -> tuple[ShortTermMemory, int]:
            if turn is not None:  # a hook that comes late; what somebody says again is meant
                self._services.refuse_erased(mark_of(unindexed, self.conversation_id))
            given = other_words_of(other_words, said)
            return self._wording.of_text(replace(unindexed, other_words=given.texts)), given.private

        # In a thread: the first call loads a dictionary, a long message takes tens of milliseconds, and a database may
        # be asked what was erased.
        memory, private_words = await asyncio.to_thread(worded)

        def decide(state: ConversationState) -> tuple[Sequence[Change], Stored]:
            total, newest_first = len(state.short_term), reversed(state.short_term.values())
            former = known = None
            if memory.turn is not None:
                former = next((one for one in newest_first if one.turn == memory.turn), None)
            if former is None:
                within_ms = self._services.parameters.same_turn_ms
                newest_first = reversed(state.short_term.values())
                known = state.short_term.get(memory.id) or stored_just_now(newest_first, memory, within_ms)
            if former is not None:
                now = replacing(former, memory, timed=last is not None)
            elif known is not None:
                former = now = known
            else:
                return [Added(memory)], Stored(memory, total + 1, private_words=private_words)
            texts = other_words_of(other_words_of_both(former, memory), said).texts
            if texts != now.other_words:
                now = self._wording.with_other_words(now, texts)
            if now == former:
                return (), Stored(former, total, private_words=private_words)
            return [Edited(now, former)], Stored(now, total, replaced=True, private_words=private_words)

        stored = await self._services.commit(self.conversation_id, decide, by=by)
        if stored.change_id is not None and self._services.meaning is not None and not self._services.brief:
            self._services.meaning().later(vectors_of(self.conversation_id), [memory.text])
        return stored

    async def delete(self, pattern: str, *, dry_run: bool = False, by: str = "api") -> Removed:
        """Forget every memory whose text holds `word`, or matches `/re/flags` (JavaScript syntax); with `dry_run`
        only return them. Raises InvalidPattern: the pattern is empty, not an expression, or runs too long;
        nothing was deleted."""
        known = tuple((await self._services.store.read(self.conversation_id)).short_term.values())
        hits = await self._services.matching(pattern, [memory.text for memory in known], "deleted")
        matched = {memory.id: memory.text for memory, hit in zip(known, hits, strict=True) if hit}

        def decide(state: ConversationState) -> tuple[Sequence[Change], Removed]:
            gone = tuple(
                Forgotten(memory, "deleted")
                for memory in state.short_term.values()
                if matched.get(memory.id) == memory.text
            )
            return gone, Removed(gone, len(state.short_term) - len(gone))

        return await self._services.commit(self.conversation_id, decide, by=by, dry_run=dry_run)

    async def clean_up(self, *, dry_run: bool = False, by: str = "api") -> Removed:
        """Forget what retention no longer keeps, limited per run; with `dry_run` only return it."""
        now_ms, parameters = self._services.clock(), self._services.parameters

        def decide(state: ConversationState) -> tuple[Sequence[Change], Removed]:
            most = parameters.retention.most_at_once
            planned = plan_cleanup(state.short_term.values(), now_ms, parameters, most=most)
            gone = planned.forgotten
            changes: list[Change] = [*gone, CleanedUp(now_ms, state.last_cleanup_ms)] if state.short_term else []
            return changes, Removed(gone, len(state.short_term) - len(gone), planned.due)

        done = await self._services.commit(self.conversation_id, decide, by=by, dry_run=dry_run)
        # The time of the clean-up is a change too, but nobody would undo it.
        return done if done.forgotten else replace(done, change_id=None)

    async def pin(self, memory_id: str, *, pinned: bool = True, by: str = "api") -> MarkSet:
        """Let the clean-up never forget the memory; with `pinned=False` let it forget the memory again. Raises
        MemoryNotFound: no memory has that id."""

        def decide(state: ConversationState) -> tuple[Sequence[Change], MarkSet]:
            memory = self._known(state, memory_id)
            if memory.pinned == pinned:
                return (), MarkSet(memory)
            change = Pinned(memory_id) if pinned else Unpinned(memory_id)
            return [change], MarkSet(replace(memory, pinned=pinned))

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def mute(self, memory_id: str, place: str | None, *, by: str = "api") -> MarkSet:
        """Let the memory no longer come unasked in this place: `everywhere`, `conversation:ID` or `folder:PATH`; None:
        let it come again. Raises MemoryNotFound: no memory has that id; InvalidInput: it is not such a place, or it is
        muted in too many places."""
        if place is not None and not _PLACE.fullmatch(place):
            raise InvalidInput(
                "`{place}` is not `everywhere`, `conversation:ID` or `folder:PATH`; give one of these.", place
            )

        def decide(state: ConversationState) -> tuple[Sequence[Change], MarkSet]:
            memory = self._known(state, memory_id)
            after = () if place is None else tuple(dict.fromkeys((*memory.muted, place)))
            if len(after) > MOST_MUTED:
                raise InvalidInput("It is muted in {number} places already; mute it everywhere.", MOST_MUTED)
            if after == memory.muted:
                return (), MarkSet(memory)
            return [Muted(memory_id, memory.muted, after)], MarkSet(replace(memory, muted=after))

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def edit(
        self,
        memory_id: str,
        texts: Sequence[str] | None = None,
        *,
        other_words: Sequence[str] | None = None,
        before: str | None = None,
        by: str = "api",
    ) -> Rewritten:
        """Give the messages of a memory these texts, one each (an empty one takes its message out), and the memory
        these `other_words`; None: they stay. Its words are found anew. `before`: its text when it was read. Raises
        MemoryNotFound: no memory has that id; InvalidInput: no text is left, there are more or fewer than it has
        messages, there are too many other words, or it was changed since it was read."""
        self._services.refuse_where_full()
        memory = await self.memory(memory_id)
        if before not in (None, memory.text):
            raise InvalidInput("This memory was changed meanwhile; look at it as it is now, and change it again.")
        said = memory.messages or (Message("user", memory.text),)
        texts = [message.content for message in said] if texts is None else texts
        if len(texts) != len(said):
            raise InvalidInput("The memory has {messages} messages; give a text for each.", len(said))
        changed = tuple(replace(message, content=text) for message, text in zip(said, texts, strict=True))
        kept = tuple(map(storable, to_keep(message for message in changed if message.content.strip())))
        if not kept:
            raise InvalidInput("No text is left; to remove the memory, forget it.")
        text = context_text(kept) if memory.messages else kept[0].content
        given = other_words_of(memory.other_words if other_words is None else other_words, changed)
        edited = replace(memory, messages=kept if memory.messages else (), text=text, other_words=given.texts)
        refuse_excess(edited)
        reworded = await asyncio.to_thread(self._wording.of_text, edited)

        def decide(state: ConversationState) -> tuple[Sequence[Change], Rewritten]:
            now = self._known(state, memory_id)
            if now.text != memory.text:
                raise InvalidInput("This memory was changed meanwhile; look at it as it is now, and change it again.")
            after = merged(memory, reworded, now)
            return [Edited(after, now)] if after != now else (), Rewritten(after, given.private)

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def memory(self, memory_id: str) -> ShortTermMemory:
        """The memory with this id. Raises MemoryNotFound: no memory has it."""
        return self._known(await self._services.store.read(self.conversation_id), memory_id)

    def _known(self, state: ConversationState, memory_id: str) -> ShortTermMemory:
        if (memory := state.short_term.get(memory_id)) is not None:
            return memory
        raise MemoryNotFound(
            "No short-term memory of {conversation} has the id `{memory}`; a search gives the ids "
            "of the memories that it finds.",
            self.conversation_id,
            memory_id,
        )

    async def outdated(self) -> int:
        """How many memories have words that were found with other settings."""
        state = await self._services.store.read(self.conversation_id)
        return sum(not self._wording.is_of(memory) for memory in state.short_term.values())

    async def reindex(self, *, dry_run: bool = False, by: str = "api") -> Reindexed:
        """Give every memory the words that the present settings find in it; scores, pins and texts stay."""
        memories = list((await self._services.store.read(self.conversation_id)).short_term.values())
        found: list[tuple[ShortTermMemory, ShortTermMemory]] = []
        for start in range(0, len(memories), AT_ONCE):
            # Without the lock: others write meanwhile.
            some = memories[start : start + AT_ONCE]
            reworded = await asyncio.to_thread(list, map(self._wording.of_text, some))
            found += (pair for pair in zip(some, reworded, strict=True) if pair[0] != pair[1])

        def decide(state: ConversationState) -> tuple[Sequence[Change], Reindexed]:
            changes = tuple(edit for before, after in found if (edit := _edit(state, before, after)) is not None)
            return changes, Reindexed(changes, len(state.short_term))

        return await self._services.commit(self.conversation_id, decide, by=by, dry_run=dry_run or not found)

    async def statistics(self) -> Statistics:
        """Figures of what is stored."""
        damaged = await self._services.store.damaged(self.conversation_id)
        state = await self._services.store.read(self.conversation_id)
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
        state = await self._services.store.read(self.conversation_id)
        memories = state.short_term.values()
        if len(memories) < _MANY:
            return _by_time(memories)
        return await asyncio.to_thread(_by_time, memories)


def _by_time(memories: Collection[ShortTermMemory]) -> tuple[ShortTermMemory, ...]:
    return tuple(sorted(memories, key=lambda memory: (memory.time_ms, memory.id)))


def _edit(state: ConversationState, before: ShortTermMemory, after: ShortTermMemory) -> Edited | None:
    """The change to the memory as it is now; None if it is gone or its text was changed."""
    now = state.short_term.get(before.id)
    if now is None or (now.text, now.messages, now.time_ms) != (before.text, before.messages, before.time_ms):
        return None
    edited = replace(now, words=after.words, weights=after.weights, indexed_with=after.indexed_with)
    return Edited(edited, now) if edited != now else None
