"""Searching short-term memories: reads the conversations that the scope names, decides once, reinforces each memory
where it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from random import Random
from typing import TYPE_CHECKING

from memory_server.core.changes import Change, Reinforced
from memory_server.core.errors import InvalidInput, LockTimeout, StorageError, StorageUnwritable
from memory_server.core.model import ConversationState, Session, ShortTermMemory
from memory_server.core.undo import change_id
from memory_server.managers.index_builder import WORTH_A_THREAD, Indexing
from memory_server.managers.services import ALL, OWN, Surroundings
from memory_server.recall.result import HeldBack, Recall
from memory_server.recall.words import Query

if TYPE_CHECKING:
    from memory_server.recall.selection import Decision

SEARCH_WAIT_SECONDS = 1.0
"""How long a search waits for writers before it answers without reinforcing (docs/reference/data-folder.md)."""

NOTHING_SEARCHED = Recall((), (), (), HeldBack(0, 0), 0)


@dataclass(frozen=True, slots=True)
class Found:
    """A search. `changes` are the ids of its reinforcements by conversation.

    `unreinforced` are conversations whose memories came but could not be written: another process kept the lock, or
    the folder is read-only. `unread` are those of the scope that could not be read.
    """

    recall: Recall
    changes: Mapping[str, str] = field(default_factory=dict)
    unreinforced: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    outdated: int = 0
    """Memories that were searched with words found by other settings: `reindex` gives them those of now."""

    @property
    def reinforced(self) -> bool:
        """Whether all that came was reinforced that should be."""
        return not self.unreinforced

    @property
    def change_id(self) -> str | None:
        """The change where just one conversation was changed."""
        return next(iter(self.changes.values())) if len(self.changes) == 1 else None


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question: its words, who asks (None: not known), when, and the seed of what is left to chance."""

    query: Query
    session: Session | None
    now_ms: int
    seed: int


class Recalling:
    """Searches made in `conversation_id`."""

    def __init__(self, conversation_id: str, surroundings: Surroundings) -> None:
        self.conversation_id = conversation_id
        self._around = surroundings
        self._wording = surroundings.parameters.wording.within(conversation_id)
        self._indexing = Indexing(self._wording)

    async def search(
        self, query: Query, *, scope: str | None, reinforce: bool, by: str, session: Session | None = None
    ) -> Found:
        """What the words of `query` bring to mind in `session`; None: the one of the surroundings.

        Raises:
            InvalidInput: there is no such scope.
            StorageError: this conversation is all of the scope, and cannot be read.
        """
        reinforce = reinforce and self._around.writable
        ids = await self.conversations_of(scope)
        asked = self._asked(query, session)
        if ids == (self.conversation_id,):
            if reinforce:
                return await self._in_own(asked, by)
            recall, outdated = self._recalled(await self._indexed(), asked)
            return Found(recall, outdated=outdated)
        states, unread = await self._read(ids)
        recall, outdated = NOTHING_SEARCHED, 0
        if states:
            decision = self._decided(states, asked)
            recall, outdated = decision.recall, self._outdated(decision)
        if not reinforce:
            return Found(recall, unread=unread, outdated=outdated)
        changes, unreinforced = await self._reinforce(recall, by)
        return Found(recall, changes, unreinforced, unread, outdated)

    async def credit(
        self,
        query: Query,
        *,
        asked: frozenset[str],
        answered: frozenset[str],
        became: str | None,
        session: Session | None,
        by: str,
    ) -> Found:
        """Reinforce what `query` brings in `session` where the answer used it; `asked` and `answered` are words, and
        `became` is the id of the memory that holds the answer.

        Raises:
            StorageError: this conversation is all of the scope, and cannot be read.
        """
        from memory_server.recall.usage import used

        found = await self.search(query, scope=None, reinforce=False, session=session, by=by)
        if not self._around.writable or not (found.recall.top or found.recall.next):
            return Found(replace(found.recall, top=(), next=(), flashback=()))
        searched: list[ShortTermMemory] = []
        for name in await self.conversations_of(None):
            if name not in found.unread:
                kept = (await self._around.store.read(name)).short_term
                searched += (memory for memory in kept.values() if memory.id != became)
        recall = await asyncio.to_thread(used, found.recall, searched, asked=asked, answered=answered)
        changes, unreinforced = await self._reinforce(recall, by)
        return Found(recall, changes, unreinforced, found.unread)

    async def decision(self, query: Query, *, scope: str | None, session: Session | None = None) -> Decision:
        """What a search would decide now, without a trace. Use it before the next `await`.

        Raises:
            InvalidInput: there is no such scope.
            StorageError: this conversation is all of the scope, and cannot be read.
        """
        states, _ = await self._read(await self.conversations_of(scope) or (self.conversation_id,))
        return self._decided(states, self._asked(query, session))

    async def conversations_of(self, scope: str | None) -> tuple[str, ...]:
        """The ids of the conversations that `scope` names, the own one first; None: as the settings say.

        A group of the settings widens what its own members recall; a conversation outside of it recalls itself.

        Raises:
            InvalidInput: there is no such scope.
        """
        chosen = self._around.scope if scope is None else scope
        own = self.conversation_id
        if chosen == OWN:
            return (own,)
        if chosen == ALL:
            patterns: Sequence[str] = ("*",)
        elif (group := self._around.groups.get(chosen)) is not None:
            patterns = group
        else:
            named = "".join(f", `{name}`" for name in self._around.groups)
            raise InvalidInput(f"There is no scope `{chosen}`; use `{OWN}` or `{ALL}`{named}, or add it to `groups`.")
        is_member = any(fnmatchcase(own, pattern) for pattern in patterns)
        if scope is None and not is_member:
            return (own,)
        known = await self._around.store.conversations()
        others = [name for name in known if name != own and any(fnmatchcase(name, pattern) for pattern in patterns)]
        return (own, *others) if is_member else tuple(others)

    def _asked(self, query: Query, session: Session | None) -> _Asked:
        around = self._around
        return _Asked(query, around.session if session is None else session, around.clock(), around.rng.getrandbits(64))

    async def _in_own(self, asked: _Asked, by: str) -> Found:
        """The usual search: decided under the lock, so that what came is what is reinforced."""
        if not self._around.brief:
            await self._indexed()
        parameters = self._around.parameters.recall

        def decide(state: ConversationState) -> tuple[Sequence[Change], Found]:
            recall, outdated = self._recalled(state, asked)
            changes = recall.reinforcements(parameters)
            made = change_id(self.conversation_id, state.version + 1)
            return changes, Found(recall, {self.conversation_id: made} if changes else {}, outdated=outdated)

        try:
            return await self._around.store.update(
                self.conversation_id, decide, by=by, wait_seconds=SEARCH_WAIT_SECONDS
            )
        except (LockTimeout, StorageUnwritable):
            _, found = decide(await self._around.store.read(self.conversation_id))
            return replace(found, changes={}, unreinforced=(self.conversation_id,))

    async def _indexed(self) -> ConversationState:
        """The own conversation, with its index where one pays. Use it before the next `await`."""
        state = await self._around.store.read(self.conversation_id)
        if not self._around.brief:
            await self._indexing.prepare(state)
        return state

    async def _read(self, ids: Sequence[str]) -> tuple[list[ConversationState], tuple[str, ...]]:
        """The states with their indexes, and which of several could not be read."""
        states: list[ConversationState] = []
        unread: list[str] = []
        for name in ids:
            try:
                state = await self._around.store.read(name)
            except StorageError:
                if len(ids) == 1:
                    raise
                unread.append(name)
            else:
                # Many small ones together would stall the event loop as one large one does.
                await self._indexing.prepare(state, least=WORTH_A_THREAD if len(ids) == 1 else 1)
                states.append(state)
        return states, tuple(unread)

    def _decided(self, states: Sequence[ConversationState], asked: _Asked) -> Decision:
        # Not at the top: numpy would double the time that a client waits for the server to start.
        from memory_server.recall.index import index_of
        from memory_server.recall.merged_index import Searched
        from memory_server.recall.selection import decide

        with self._around.meter.part("recall", memories=sum(len(state.short_term) for state in states)):
            return decide(
                [Searched(state.short_term, index_of(state, self._wording), state.conversation_id) for state in states],
                asked.query,
                conversation_id=self.conversation_id,
                now_ms=asked.now_ms,
                rng=Random(asked.seed),
                parameters=self._around.parameters.recall,
                session=asked.session,
            )

    def _outdated(self, decision: Decision) -> int:
        wording = self._around.parameters.wording

        def signature_of(conversation_id: str | None) -> str:
            return wording.within(conversation_id or self.conversation_id).enrichment.signature

        return decision.columns.of_other_form(signature_of)

    def _recalled(self, state: ConversationState, asked: _Asked) -> tuple[Recall, int]:
        """What comes to mind, and how many memories have words of other settings."""
        if not self._around.brief:
            decision = self._decided([state], asked)
            return decision.recall, self._outdated(decision)
        from memory_server.recall.plain_selection import select

        recall = select(
            state.short_term.values(),
            asked.query,
            conversation_id=self.conversation_id,
            now_ms=asked.now_ms,
            rng=Random(asked.seed),
            parameters=self._around.parameters.recall,
            session=asked.session,
            wording=self._wording,
        )
        return recall, sum(not self._wording.is_of(memory) for memory in state.short_term.values())

    async def _reinforce(self, recall: Recall, by: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """The change ids by conversation, and the conversations that could not be written within a second."""
        ceiling = self._around.parameters.recall.score_ceiling
        gains: dict[str, dict[str, float]] = {}
        for recalled, points in recall.gains(self._around.parameters.recall):
            if min(recalled.memory.score + points, ceiling) > recalled.memory.score:
                gains.setdefault(recalled.kept_in or self.conversation_id, {})[recalled.memory.id] = points

        async def reinforce(name: str, points: Mapping[str, float]) -> str | None:
            def decide(state: ConversationState) -> tuple[Sequence[Change], str | None]:
                # By the scores as they are now: another search may have raised them since.
                known = [state.short_term[memory_id] for memory_id in points if memory_id in state.short_term]
                after = [(memory, min(memory.score + points[memory.id], ceiling)) for memory in known]
                changes = [
                    Reinforced(memory.id, memory.score, score) for memory, score in after if score > memory.score
                ]
                return changes, change_id(name, state.version + 1) if changes else None

            return await self._around.store.update(name, decide, by=by, wait_seconds=SEARCH_WAIT_SECONDS)

        made = await asyncio.gather(*(reinforce(*item) for item in gains.items()), return_exceptions=True)
        changes: dict[str, str] = {}
        unreinforced: list[str] = []
        for name, outcome in zip(gains, made, strict=True):
            if isinstance(outcome, (LockTimeout, StorageUnwritable)):
                unreinforced.append(name)
            elif isinstance(outcome, BaseException):
                raise outcome
            elif outcome is not None:
                changes[name] = outcome
        return changes, tuple(unreinforced)
