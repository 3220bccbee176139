"""Short-term memories of a conversation: remember, recall, edit, pin, mute, forget, find the words again.

Segmentation and users' expressions run before the store's lock is taken; the decisions are in `recall/`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from memory_server.conversations.changes import (
    Added,
    Change,
    CleanedUp,
    Edited,
    Forgotten,
    Muted,
    Pinned,
    Unpinned,
    kept_corrections,
    merged,
    replacing,
)
from memory_server.conversations.correction_links import (
    found_by_rule,
    linked,
    refuse_uncorrectable,
    statement_of_user,
)
from memory_server.conversations.model import (
    EVERYWHERE,
    MOST_MUTED,
    ConversationState,
    Correction,
    ShortTermMemory,
    mark_of,
)
from memory_server.conversations.recall.plans import Plan
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.recall.retention import plan_cleanup
from memory_server.conversations.recall.selection import Recall, held_in
from memory_server.conversations.recall.words import RecallQuery
from memory_server.conversations.search import (
    Found,
    Search,
    conversations_of,
    give_points,
    note_shown_plans,
    plans_not_shown,
    query_of,
    vectors_of,
)
from memory_server.conversations.services import Done, Services, refuse_excess
from memory_server.kernel.errors import (
    InvalidInput,
    MemoryNotFound,
    NothingToKeep,
)
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.messages import (
    NOTHING,
    GivenMessage,
    Message,
    Session,
    context_text,
    storable,
)
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.private import to_keep
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.values import frozen
from memory_server.kernel.work import NO_WORK, Work
from nlp import MOST_TEXTS, ROLE_WEIGHTS
from nlp.corrections import Statement
from nlp.keywords import is_loaded


@frozen
class Rewording:
    """A memory as it was read, and the same with its words found again."""

    before: ShortTermMemory
    after: ShortTermMemory

    def edit_in(self, state: ConversationState) -> Edited | None:
        """Return the change to the memory as `state` has it, or None if it is gone, its text or time was changed, or
        the words are the same."""
        before = self.before
        present = state.short_term.get(before.id)
        if present is None or (present.text, present.messages) != (before.text, before.messages):
            return None
        if present.time_ms != before.time_ms:
            return None
        after = self.after
        edited = replace(
            present, words=after.words, weights=after.weights, indexed_with=after.indexed_with
        )
        if edited == present:
            return None
        return Edited(edited, present)


if TYPE_CHECKING:
    from memory_server.conversations.recall.indexed_selection import Decision

_SAID_AGAIN = 3
"""How often a search is repeated without what the messages hold; it may bring more of that."""
_REINDEX_BATCH = 200
"""Memories whose words are found again in one step, in a thread: some 50 ms, so that a cancellation is quick."""
_MANY = 2_000
"""Memories that are brought into their order in a thread: some 2 ms."""
_PLACE = re.compile(rf"{EVERYWHERE}|conversation:.{{1,256}}|folder:[^\0]{{1,4096}}", re.DOTALL)


@frozen
class Stored(Done):
    """A memory was stored; the conversation now has `total` short-term memories. `change_id` is None if it was stored
    before. `replaced`: the turn had other words before. `private_words` counts the other words that were left out
    because a private part has them. `corrections` is what the rules found that it corrects."""

    memory: ShortTermMemory
    total: int
    replaced: bool = False
    private_words: int = 0
    corrections: tuple[Correction, ...] = ()


@frozen
class Removed(Done):
    """The memories that were forgotten, or would be, and how many remain. `due`: how many are left for later runs of
    the clean-up."""

    forgotten: tuple[Forgotten, ...]
    remaining: int
    due: int = 0


@frozen
class MarkSet(Done):
    """A memory with its pin and places as they are now; `change_id` is None if nothing had to change."""

    memory: ShortTermMemory


@frozen
class Rewritten(Done):
    """A memory as it is after an edit; `change_id` is None if nothing had to change. `private_words` are counted as in
    `Stored`."""

    memory: ShortTermMemory
    private_words: int = 0


@frozen
class Reindexed(Done):
    """What was changed, or would be changed, of `total` memories."""

    changes: tuple[Edited, ...]
    total: int


@frozen
class Statistics:
    """Figures of the short-term memories of a conversation; scores are None if it has no memories."""

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


@frozen
class Origin:
    """Where messages come from that are stored."""

    turn: str | None = None
    """What its client calls the turn, or None if it has no name."""
    replaces: bool = False
    """Whether the messages come in place of what the turn was before; otherwise they are stored beside it."""
    session: Session | None = None
    """Where they were said: another session finds the memory at once, the same or an unknown one after 20 minutes.
    With None it is the session of the services."""
    folder: str | None = None
    """Where the work was."""
    muted: tuple[str, ...] = ()
    """The places in which the memory does not come unasked."""
    work: Work = NO_WORK
    """What was done in the turn."""


class ShortTermManager:
    """Remembers and recalls for `conversation_id`."""

    def __init__(self, conversation_id: str, services: Services) -> None:
        self.conversation_id = conversation_id
        self._services = services
        self._wording = services.parameters.wording.within(conversation_id)
        self._indexing = asyncio.Lock()

    async def search(self, request: RecallRequest | Sequence[GivenMessage]) -> Found:
        """Return the memories that the messages bring to mind; reinforces top and next if the request wants it. With
        plans, also return the plans for today that are new to the conversation, and note them as shown if what comes
        counts. Raises InvalidInput if all that the messages say was recalled, there are too many other
        words, or the scope is unknown."""
        request = RecallRequest.of(request)
        search = await self._search(request)
        result = search.found()

        # A memory that the messages already contain tells the reader nothing new.
        if not request.said_again:
            texts = {message.content.strip() for message in request.said}
            for _ in range(_SAID_AGAIN):
                ids_said = held_in(texts, result.recall)
                if not ids_said:
                    break
                search.without |= ids_said
                result = search.found()
        if request.plans:
            due = await self._plans_to_show(search)
            if not request.counts:
                due = await plans_not_shown(self._services, self.conversation_id, due)
            elif due:
                due = await self.note_plans(due, request)
            result = replace(result, recall=replace(result.recall, due=due))

        if not (request.reinforce and self._services.writable):
            return result
        gained = await give_points(self._services, self.conversation_id, result.recall, request.by)
        return replace(result, changes=gained.changes, unreinforced=gained.unreinforced)

    async def _search(
        self, request: RecallRequest, *, indexed: bool = False, by_meaning: bool = True
    ) -> Search:
        """Return the search with its memories and its query. With `indexed`, its decision is
        wanted, so it looks at this conversation if the scope names none. Raises StorageError."""
        scope_ids = await conversations_of(self._services, self.conversation_id, request.scope)
        ids = tuple(dict.fromkeys((*scope_ids, *request.also)))
        if indexed and not ids:
            ids = (self.conversation_id,)
        search = Search(self._services, self.conversation_id, request)
        await search.read(ids, self._indexing, indexed=indexed)
        await search.find_query()
        if by_meaning:
            await search.find_nearness()
        return search

    async def plans_today(self, request: RecallRequest) -> tuple[Plan, ...]:
        """Return the plans that a session is shown as it begins, even again; none where `note_plans` cannot note
        them."""
        scope_ids = await conversations_of(self._services, self.conversation_id, request.scope)
        search = Search(self._services, self.conversation_id, request)
        await search.read(scope_ids, self._indexing)
        return await self._plans_to_show(search)

    async def _plans_to_show(self, search: Search) -> tuple[Plan, ...]:
        """Return the plans of today, whether they were shown or not; none if nothing may be written."""
        services = self._services
        if not (services.writable and services.has_corrections) or services.paused() is not None:
            return ()
        return await search.due_plans()

    async def note_plans(self, plans: tuple[Plan, ...], request: RecallRequest) -> tuple[Plan, ...]:
        """Write that these plans are shown to the session of the request, and return the ones that were new to the
        conversation; none if the write fails."""
        services = self._services
        session = request.session or services.session
        return await note_shown_plans(services, self.conversation_id, plans, session, by=request.by)

    async def decision(self, request: RecallRequest, *, by_meaning: bool = True) -> Decision:
        """Return the decision that a search would make now; nothing is changed. Use it before the next `await`.
        Raises InvalidInput if the scope is unknown, StorageError if the scope is only this conversation and it cannot
        be read."""
        search = await self._search(request, indexed=True, by_meaning=by_meaning)
        return search.decision()

    async def query_of(self, request: RecallRequest | Sequence[GivenMessage]) -> RecallQuery:
        """Return the query of a search as far as the messages tell it, without the memories. Raises InvalidInput if
        all that the messages say was recalled, or there are too many other words."""
        now_ms = self._services.clock()
        return await asyncio.to_thread(query_of, RecallRequest.of(request), self._wording, now_ms)

    async def credit(
        self,
        recent: Sequence[GivenMessage],
        answer: Message,
        *,
        became: str | None = None,
        session: Session | None = None,
        by: str = "api",
    ) -> Found:
        """Reinforce and return the memories that a search by the recent messages finds and that the answer used, by
        rare words that the messages did not have; none if nothing can be written. `became`: the id of the memory that
        holds the answer, if it is stored already. Raises InvalidInput if all that the messages say was recalled."""
        from memory_server.conversations.recall.credit import used, words_said

        search = await self._search(RecallRequest(recent, session=session))
        result = search.found()
        if not self._services.writable or not (result.recall.top or result.recall.next):
            return Found(replace(result.recall, top=(), next=(), flashback=()))
        searched: list[ShortTermMemory] = []
        for state in search.states:
            searched += [memory for memory in state.short_term.values() if memory.id != became]
        now_ms = self._services.clock()

        def used_recall() -> Recall:
            asked_words = words_said(as_said(recent), self._wording, now_ms)
            answered_words = words_said(as_said([answer]), self._wording, now_ms)
            return used(result.recall, searched, asked=asked_words, answered=answered_words)

        recall = await asyncio.to_thread(used_recall)
        gained = await give_points(self._services, self.conversation_id, recall, by)
        return replace(gained, unread=result.unread)

    async def add(
        self,
        messages: Sequence[GivenMessage],
        *,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
        other_words: Sequence[str] = (),
        origin: Origin = Origin(),
        session: Session | None = None,
        corrects: Sequence[str] = (),
        by: str = "api",
    ) -> Stored:
        """Store the messages as one memory, with the timestamp of the last message, else now.

        Parts marked as recalled or private, and secrets, are left out. `other_words`: texts with which a user may ask
        for the memory, though it does not have their words. The same messages of a turn, or equal messages within ten
        minutes, are stored once. `corrects`: ids of older memories of this conversation that are no longer true; what
        the rules find is added in a change of its own.

        Raises:
            MemoryPaused: the memory is paused.
            NothingToKeep: all of it is private.
            InvalidInput: no message has text, a time is not valid, something is too large, or this conversation has
                no memory of an id in `corrects`, or it is of another user.
        """
        if session is not None:
            origin = replace(origin, session=session)
        self._services.refuse_while_paused()
        all_messages = self._services.secrets.of(as_said(messages))
        other_words = self._services.secrets.of(other_words)
        kept_messages = tuple(map(storable, to_keep(all_messages)))
        if not kept_messages and any(message.content.strip() for message in all_messages):
            raise NothingToKeep("All of the text is marked as private, so nothing was stored.")
        if not any(message.content.strip() for message in kept_messages):
            raise InvalidInput("There is no text to remember; give at least one message with text.")

        unindexed = self._unindexed(kept_messages, role_weights, origin)
        refuse_excess(unindexed)
        if not self._services.has_corrections:
            corrects = ()
        if corrects:
            state = await self._services.store.read(self.conversation_id)
            refuse_uncorrectable(corrects, state, kept_messages)

        def find_words() -> tuple[ShortTermMemory, int, Statement]:
            """Return the memory with its words, the number of private other words, and what the user states."""
            # A late hook must not bring back what was erased; a user who says it again means it.
            if origin.turn is not None:
                self._services.refuse_erased(mark_of(unindexed, self.conversation_id))
            others = other_words_of(other_words, all_messages)
            worded = self._wording.of_text(replace(unindexed, other_words=others.texts))
            statement = Statement()
            if self._services.has_corrections and not corrects:
                statement = statement_of_user(worded)
            return worded, others.private, statement

        # In a thread: the first call loads a dictionary, a long message takes tens of milliseconds, and a database may
        # be asked what was erased. Otherwise the way to a thread and back would take a fifth of the time.
        chars = sum(len(message.content) for message in kept_messages)
        if origin.turn is None and chars <= _AT_ONCE_CHARS and is_loaded():
            memory, private_words, statement = find_words()
        else:
            memory, private_words, statement = await asyncio.to_thread(find_words)
        is_timed = kept_messages[-1].time_ms is not None

        def stored_in(state: ConversationState) -> tuple[Sequence[Change], Stored]:
            """Add the memory, or change the former one of its turn or messages; no change if that says all of it."""
            total = len(state.short_term)
            former = self._former(state, memory)
            if former is None:
                return [Added(memory)], Stored(memory, total + 1, private_words=private_words)
            present = former
            if memory.turn is not None and former.turn == memory.turn:
                present = replacing(former, memory, timed=is_timed)
            if not present.work:  # the model stored the turn with a tool, and then the hook comes
                present = replace(present, work=memory.work)
            texts = other_words_of(other_words_of_both(former, memory), all_messages).texts
            if texts != present.other_words:
                present = self._wording.with_other_words(present, texts)
            if present == former:
                return (), Stored(former, total, private_words=private_words)
            return [Edited(present, former)], Stored(
                present, total, replaced=True, private_words=private_words
            )

        def decide(state: ConversationState) -> tuple[Sequence[Change], Stored]:
            changes, stored = stored_in(state)
            if changes:
                corrections = found_by_rule(state, stored.memory, statement)
                if corrections:
                    stored = replace(stored, corrections=corrections)
            return changes, stored

        stored = await self._services.commit(self.conversation_id, decide, by=by)
        # The vector is made when there is time, so that nothing waits for the model.
        if (
            stored.change_id is not None
            and self._services.meaning is not None
            and not self._services.brief
        ):
            self._services.meaning().later(vectors_of(self.conversation_id), [memory.text])

        # In a change of their own, so that an undo of a correction keeps the memory.
        by_caller = tuple([Correction(memory_id, "caller") for memory_id in corrects])
        if by_caller or stored.corrections:
            await self._link(stored.memory.id, by_caller or stored.corrections, by=by)
        return stored

    async def _link(self, memory_id: str, corrections: Sequence[Correction], *, by: str) -> None:
        """Let a memory correct others, in a separate change, so that an undo takes back only this."""

        def decide(state: ConversationState) -> tuple[Sequence[Change], Done]:
            return linked(state, memory_id, corrections), Done()

        await self._services.commit(self.conversation_id, decide, by=by)

    async def keep_both(self, memory_id: str, *, by: str = "api") -> MarkSet:
        """Let what a memory corrects hold again, because both are true. Raises MemoryNotFound."""

        def decide(state: ConversationState) -> tuple[Sequence[Change], MarkSet]:
            memory = self._memory_in(state, memory_id)
            if not memory.corrects:
                return (), MarkSet(memory)
            uncorrecting = replace(memory, corrects=())
            return [Edited(uncorrecting, memory)], MarkSet(uncorrecting)

        return await self._services.commit(self.conversation_id, decide, by=by)

    def _unindexed(
        self, messages: tuple[Message, ...], role_weights: Mapping[str, float], origin: Origin
    ) -> ShortTermMemory:
        """Return the memory of these messages, as `add` describes it, without its words."""
        time_ms = messages[-1].time_ms
        if time_ms is None:
            time_ms = self._services.clock()

        session = origin.session or self._services.session
        session_id: str | None = None
        if session is not None and self._services.parameters.recall.sessions:
            session_id = without_surrogates(session.id)

        # Without `replaces`, the same turn may have several memories, which no name could tell apart.
        turn_replaced: str | None = None
        if origin.turn is not None and origin.replaces:
            turn_replaced = without_surrogates(origin.turn)

        # Only these are stored, so that later changes of the usual weights apply to old memories.
        unusual_weights = {
            role: weight
            for role, weight in role_weights.items()
            if ROLE_WEIGHTS.get(role) != weight
        }

        return ShortTermMemory(
            id=_new_id(messages, origin.turn),
            time_ms=time_ms,
            text=context_text(messages),
            words=(),
            weights=(),
            score=0.0,
            conversation_id=self.conversation_id,
            messages=messages,
            role_weights=unusual_weights or NOTHING,
            session=session_id,
            folder=None if origin.folder is None else without_surrogates(origin.folder),
            turn=turn_replaced,
            muted=origin.muted,
            work=origin.work,
        )

    def _former(self, state: ConversationState, memory: ShortTermMemory) -> ShortTermMemory | None:
        """Return the memory as it was stored before: by its turn, or as a recent one with equal messages; or None."""
        if memory.turn is not None:
            for stored in reversed(state.short_term.values()):
                if stored.turn == memory.turn:
                    return stored
        same_id = state.short_term.get(memory.id)
        if same_id is not None:
            return same_id
        newest_first = reversed(state.short_term.values())
        return stored_just_now(newest_first, memory, self._services.parameters.same_turn_ms)

    async def delete(self, pattern: str, *, dry_run: bool = False, by: str = "api") -> Removed:
        """Forget every memory whose text holds `pattern`, or matches it if it is `/re/flags` in the syntax of
        JavaScript; with `dry_run` only return them. Raises InvalidPattern: the pattern is empty, not an expression, or
        runs too long; nothing was deleted."""
        read_state = await self._services.store.read(self.conversation_id)
        memories = tuple(read_state.short_term.values())
        matches = await self._services.matching(
            pattern, [memory.text for memory in memories], "deleted"
        )
        matched_texts = {
            memory.id: memory.text
            for memory, matches_it in zip(memories, matches, strict=True)
            if matches_it
        }

        def decide(state: ConversationState) -> tuple[Sequence[Change], Removed]:
            forgotten = tuple(
                Forgotten(memory, "deleted")
                for memory in state.short_term.values()
                if matched_texts.get(memory.id) == memory.text
            )
            return forgotten, Removed(forgotten, len(state.short_term) - len(forgotten))

        return await self._services.commit(self.conversation_id, decide, by=by, dry_run=dry_run)

    async def clean_up(self, *, dry_run: bool = False, by: str = "api") -> Removed:
        """Forget what retention no longer keeps, a limited number per run, and note the time; a `dry_run` does not."""
        now_ms = self._services.clock()
        parameters = self._services.parameters

        def decide(state: ConversationState) -> tuple[Sequence[Change], Removed]:
            most = parameters.retention.most_at_once
            plan = plan_cleanup(state.short_term.values(), now_ms, parameters, most=most)
            remaining = len(state.short_term) - len(plan.forgotten)
            changes: list[Change] = []
            if state.short_term:
                changes += [*plan.forgotten, CleanedUp(now_ms, state.last_cleanup_ms)]
            return changes, Removed(plan.forgotten, remaining, plan.due)

        removed = await self._services.commit(self.conversation_id, decide, by=by, dry_run=dry_run)
        if removed.forgotten:
            return removed
        # The time of the clean-up is a change too, but it needs no undo.
        return replace(removed, change_id=None)

    async def pin(self, memory_id: str, *, pinned: bool = True, by: str = "api") -> MarkSet:
        """Keep the memory from the clean-up, or with `pinned=False` no longer. Raises MemoryNotFound."""

        def decide(state: ConversationState) -> tuple[Sequence[Change], MarkSet]:
            memory = self._memory_in(state, memory_id)
            if memory.pinned == pinned:
                return (), MarkSet(memory)
            change = Pinned(memory_id) if pinned else Unpinned(memory_id)
            return [change], MarkSet(replace(memory, pinned=pinned))

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def mute(self, memory_id: str, place: str | None, *, by: str = "api") -> MarkSet:
        """Keep the memory from coming unasked in this place: `everywhere`, `conversation:ID` or `folder:PATH`. With
        None, let it come again. Raises MemoryNotFound if no memory has that id; InvalidInput if it is not such a
        place, or the memory is muted in too many places."""
        if place is not None and not _PLACE.fullmatch(place):
            raise InvalidInput(
                "`{place}` is not `everywhere`, `conversation:ID` or `folder:PATH`; give one of these.",
                place,
            )

        def decide(state: ConversationState) -> tuple[Sequence[Change], MarkSet]:
            memory = self._memory_in(state, memory_id)
            places: tuple[str, ...] = ()
            if place is not None:
                places = tuple(dict.fromkeys((*memory.muted, place)))
            if len(places) > MOST_MUTED:
                raise InvalidInput(
                    "It is muted in {number} places already; mute it everywhere.", MOST_MUTED
                )
            if places == memory.muted:
                return (), MarkSet(memory)
            return [Muted(memory_id, memory.muted, places)], MarkSet(replace(memory, muted=places))

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
        """Give the messages of a memory these texts, one each (an empty one removes its message), and give the memory
        these `other_words`. What is None stays. Its keywords are found again. `before` is the text that you read; the
        edit fails if it has changed. Raises MemoryNotFound if no memory has that id; InvalidInput if no text is left,
        there are more or fewer texts than messages, there are too many other words, or it was changed since it was
        read."""
        self._services.refuse_where_full()
        memory = await self.memory(memory_id)
        if before not in (None, memory.text):
            raise InvalidInput(
                "This memory was changed meanwhile; look at it as it is now, and change it again."
            )

        former_messages = memory.messages or (Message("user", memory.text),)
        if texts is None:
            texts = [message.content for message in former_messages]
        if other_words is None:
            other_words = memory.other_words
        texts = self._services.secrets.of(texts)
        other_words = self._services.secrets.of(other_words)

        if len(texts) != len(former_messages):
            raise InvalidInput(
                "The memory has {messages} messages; give a text for each.", len(former_messages)
            )
        changed = tuple(
            replace(message, content=text)
            for message, text in zip(former_messages, texts, strict=True)
        )

        # An empty message is removed, and private parts are not stored.
        public = to_keep(message for message in changed if message.content.strip())
        messages = tuple(map(storable, public))
        if not messages:
            raise InvalidInput("No text is left; to remove the memory, forget it.")

        others = other_words_of(other_words, changed)
        edited = replace(memory, text=messages[0].content, other_words=others.texts)
        if memory.messages:
            edited = replace(edited, text=context_text(messages), messages=messages)
        if edited.text != memory.text:
            edited = replace(edited, corrects=kept_corrections(memory))
        refuse_excess(edited)
        reworded = await asyncio.to_thread(self._wording.of_text, edited)

        def decide(state: ConversationState) -> tuple[Sequence[Change], Rewritten]:
            # Read again under the lock: another process may have changed it while its words were found.
            present = self._memory_in(state, memory_id)
            if present.text != memory.text:
                raise InvalidInput(
                    "This memory was changed meanwhile; look at it as it is now, and change it again."
                )
            rewritten = merged(memory, reworded, present)
            changes = [] if rewritten == present else [Edited(rewritten, present)]
            return changes, Rewritten(rewritten, others.private)

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def memory(self, memory_id: str) -> ShortTermMemory:
        """Return the memory with this id. Raises MemoryNotFound if no memory has it."""
        return self._memory_in(await self._services.store.read(self.conversation_id), memory_id)

    def _memory_in(self, state: ConversationState, memory_id: str) -> ShortTermMemory:
        """Return the memory with this id. Raises MemoryNotFound if the state has no such memory."""
        memory = state.short_term.get(memory_id)
        if memory is not None:
            return memory
        raise MemoryNotFound(
            "No short-term memory of {conversation} has the id `{memory}`; a search gives the ids "
            "of the memories that it finds.",
            self.conversation_id,
            memory_id,
        )

    async def outdated(self) -> int:
        """Count the memories whose keywords were found with other settings."""
        state = await self._services.store.read(self.conversation_id)
        return sum(not self._wording.is_of(memory) for memory in state.short_term.values())

    async def reindex(self, *, dry_run: bool = False, by: str = "api") -> Reindexed:
        """Find the keywords of all memories again; scores, pins and texts stay. A `dry_run` writes nothing."""
        read_state = await self._services.store.read(self.conversation_id)
        memories = list(read_state.short_term.values())
        rewordings: list[Rewording] = []
        for start in range(0, len(memories), _REINDEX_BATCH):
            # This takes no lock, so others write meanwhile; `edit_in` leaves alone what they changed.
            batch = memories[start : start + _REINDEX_BATCH]
            rewordings += await asyncio.to_thread(self._rewordings_of, batch)

        def decide(state: ConversationState) -> tuple[Sequence[Change], Reindexed]:
            edits = [rewording.edit_in(state) for rewording in rewordings]
            changes = tuple(edit for edit in edits if edit is not None)
            return changes, Reindexed(changes, total=len(state.short_term))

        # Without a rewording nothing can change, so nothing has to be written.
        only_reads = dry_run or not rewordings
        return await self._services.commit(self.conversation_id, decide, by=by, dry_run=only_reads)

    def _rewordings_of(self, memories: Sequence[ShortTermMemory]) -> list[Rewording]:
        """Find the memories in which the present settings find other words. Blocking."""
        rewordings: list[Rewording] = []
        for memory in memories:
            reworded = self._wording.of_text(memory)
            if reworded != memory:
                rewordings.append(Rewording(before=memory, after=reworded))
        return rewordings

    async def statistics(self) -> Statistics:
        """Return figures of what is stored. Damaged records are counted too."""
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
            by_conversation=dict(
                Counter(memory.conversation_id for memory in memories).most_common()
            ),
            damaged=damaged + len(state.unusable),
        )

    async def unordered(self) -> tuple[ShortTermMemory, ...]:
        """All of them in no order, which takes no time."""
        state = await self._services.store.read(self.conversation_id)
        return tuple(state.short_term.values())

    async def memories(self) -> tuple[ShortTermMemory, ...]:
        """All of them, oldest first."""
        state = await self._services.store.read(self.conversation_id)
        memories = state.short_term.values()
        if len(memories) < _MANY:
            return _by_time(memories)
        return await asyncio.to_thread(_by_time, memories)


def _by_time(memories: Collection[ShortTermMemory]) -> tuple[ShortTermMemory, ...]:
    return tuple(sorted(memories, key=lambda memory: (memory.time_ms, memory.id)))


def _new_id(messages: Sequence[Message], turn: str | None) -> str:
    """Make a random id; for a turn, an id made of the turn and its messages, so that the same turn gets it again."""
    if turn is None:
        # Never from the seeded generator: two processes must not make the same id.
        return secrets.token_hex(8)
    parts = [turn]
    for message in messages:
        parts += [message.role, message.content]
    content = "\0".join(map(without_surrogates, parts))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


_AT_ONCE_CHARS = 1_000
"""Characters of messages whose words are found in the event loop: some 0.5 ms."""
_LATELY = 32
"""How many of the last memories are compared: even many clients together store fewer in ten minutes."""


def other_words_of_both(former: ShortTermMemory, memory: ShortTermMemory) -> tuple[str, ...]:
    """Join the other words of a turn that comes again, the new ones first, at most `MOST_TEXTS`. The former ones stay
    only if the turn still says all that it said before; otherwise they may not fit it."""
    contents = {message.content for message in memory.messages}
    texts = memory.other_words
    if all(message.content in contents for message in former.messages):
        texts += former.other_words
    return tuple(dict.fromkeys(texts))[:MOST_TEXTS]


def stored_just_now(
    newest_first: Iterable[ShortTermMemory], memory: ShortTermMemory, within_ms: int
) -> ShortTermMemory | None:
    """Find the memory of the same conversation with equal messages less than `within_ms` from `memory`. Return None
    if the first `_LATELY` memories have none."""
    contents = _contents(memory)
    for stored in islice(newest_first, _LATELY):
        if abs(stored.time_ms - memory.time_ms) >= within_ms or _contents(stored) != contents:
            continue
        is_same_conversation = stored.conversation_id == memory.conversation_id
        if is_same_conversation and all(map(_is_same_speaker, stored.messages, memory.messages)):
            return stored
    return None


def _contents(memory: ShortTermMemory) -> list[str]:
    return [message.content.strip() for message in memory.messages]


def _is_same_speaker(message: Message, twin: Message) -> bool:
    """Return whether two messages are of the same speaker. Names may be missing: a tool gets names that a transcript
    does not have."""
    is_same_name = message.name == twin.name or None in (message.name, twin.name)
    return message.role == twin.role and is_same_name
