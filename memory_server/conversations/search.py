"""Searching short-term memories: reads the conversations that the scope names, decides once, reinforces each memory
where it is kept."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from memory_server.conversations.changes import Change
from memory_server.conversations.found import NOTHING_SEARCHED, Asking, Found
from memory_server.conversations.model import ConversationState, ShortTermMemory, muting_places
from memory_server.conversations.recall.selection import Recall, held_in, reinforcements
from memory_server.conversations.recall.words import RecallQuery, speakers_of
from memory_server.conversations.services import ALL, OWN, Services
from memory_server.kernel.collecting import without_collecting
from memory_server.kernel.errors import InvalidInput, LockTimeout, ModelsFailed, StorageError, StorageUnwritable
from memory_server.kernel.messages import NOTHING, Message, Session
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.private import to_keep
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.scopes import Scope
from nlp import ROLE_WEIGHTS

if TYPE_CHECKING:
    from memory_server.conversations.recall.indexed_selection import Decision

SEARCH_WAIT_SECONDS = 1.0
"""How long a search waits for writers before it answers without reinforcing (docs/reference/data-folder.md)."""
WORTH_A_THREAD, WORTH_A_THREAD_CHARS = 1_000, 100_000
"""With this many memories, or characters of them, indexing takes over 15 ms; the decision itself indexes fewer."""
VECTOR_SECONDS, UNASKED_VECTOR_SECONDS = 2.0, 0.2
"""How long a search waits for vectors, and one that nobody asked for: a hook takes its question back after 0.5 s
(`shared_process.entrance.RECALL_SECONDS`), and its answer by words must come before that."""
PLAIN_AT_MOST = 1_500
"""Memories up to which the first search of a process makes no index: 31 ms for 1,000; numpy and an index take 130."""
DECISIONS = "memory_server.conversations.recall.indexed_selection"
"""The module that decides a search; it imports numpy, which takes 0.1 s or more."""
_SAID_AGAIN = 3
"""How often a search is repeated without what the messages hold; it may bring more of that."""
Cosines: TypeAlias = Mapping[str, Mapping[str, float]]
"""How near memories are by meaning, by conversation and id."""


def vectors_of(conversation_id: str) -> Scope:
    """Whose the vectors of its texts are: nobody learns from one what is said in another conversation."""
    return Scope("conversations", conversation_id)


class ShortTermSearch:
    """Searches made in `conversation_id`."""

    def __init__(self, conversation_id: str, services: Services) -> None:
        self.conversation_id = conversation_id
        self._services = services
        self._wording = services.parameters.wording.within(conversation_id)
        self._indexing = asyncio.Lock()

    async def search(
        self,
        recent: Sequence[Message],
        *,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
        other_words: Sequence[str] = (),
        scope: str | None = None,
        also: Sequence[str] = (),
        reinforce: bool = True,
        session: Session | None = None,
        folder: str | None = None,
        names: Iterable[str] = (),
        asked: bool = False,
        flashbacks: int | None = None,
        said_again: bool = True,
        by: str = "api",
    ) -> Found:
        """What the recent messages bring to mind; top and next are reinforced, unless the caller does not want it.
        `scope` names the conversations to search: `conversation` (this one), `all`, or a group of the settings; None:
        the scope of the settings; `also` are further ones. `said_again`: whether what the messages hold may come.
        `session` is the one that asks, in `folder`. `names`, such as those of the participants, are never cut; the
        names of the speakers are not cut either. `other_words`: texts for what is looked for, which the messages do not
        have (other_words.py). `asked`: somebody asked for memories, so those come too that share too
        little to come unasked, marked as weak (not reinforced), and what is muted; vectors have more time. Raises
        InvalidInput: there is no message, or no such scope."""
        query = await self.query_of(recent, role_weights=role_weights, names=names, other_words=other_words)
        asking = Asking(scope, tuple(also), session, folder, asked, flashbacks)
        found = await self._searched(query, asking)
        said = frozenset() if said_again else {message.content.strip() for message in as_said(recent)}
        for _ in range(_SAID_AGAIN):
            if not (again := held_in(said, found.recall)):
                break
            asking = replace(asking, without=asking.without | again)
            found = await self._searched(query, asking)
        if not (reinforce and self._services.writable):
            return found
        changes, unreinforced = await self._reinforce(found.recall, by)
        return replace(found, changes=changes, unreinforced=unreinforced)

    async def credit(
        self,
        recent: Sequence[Message],
        answer: Message,
        *,
        became: str | None = None,
        session: Session | None = None,
        by: str = "api",
    ) -> Found:
        """Reinforce the memories that a search by the recent messages brings and that the answer used: the answer
        shares rare words with them that the messages did not have. A hook calls this after the answer. `became`
        is the id of the memory that holds the answer, if it was stored already. Raises InvalidInput: there is no
        message."""
        from memory_server.conversations.recall.credit import used, words_said

        query = await self.query_of(recent)
        found = await self._searched(query, Asking(session=session))
        if not self._services.writable or not (found.recall.top or found.recall.next):
            return Found(replace(found.recall, top=(), next=(), flashback=()))
        searched: list[ShortTermMemory] = []
        for name in await self.conversations_of(None):
            if name not in found.unread:
                kept = (await self._services.store.read(name)).short_term
                searched += (memory for memory in kept.values() if memory.id != became)
        now_ms = self._services.clock()

        def used_ones() -> Recall:
            asked, answered = (words_said(as_said(said), self._wording, now_ms) for said in (recent, [answer]))
            return used(found.recall, searched, asked=asked, answered=answered)

        recall = await asyncio.to_thread(used_ones)
        changes, unreinforced = await self._reinforce(recall, by)
        return Found(recall, changes, unreinforced, found.unread)

    async def query_of(
        self,
        recent: Sequence[Message],
        *,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
        names: Iterable[str] = (),
        other_words: Sequence[str] = (),
    ) -> RecallQuery:
        """What a search by the recent messages, and by `other_words`, looks for; `names` are never cut. Raises
        InvalidInput: there is no message, or there are too many other words."""
        now_ms = self._services.clock()

        def found() -> RecallQuery:
            said = as_said(recent)
            if not said:
                raise InvalidInput("There are no recent messages to search by; give the last few of the conversation.")
            given = other_words_of(other_words, said)
            query = self._wording.of_query(said, now_ms, role_weights, names=names, other_words=given.texts)
            last = "\n".join(message.content for message in to_keep(said[-1:]))
            return replace(query, said=last, private_words=given.private)

        return await asyncio.to_thread(found)

    async def decision(self, query: RecallQuery, asking: Asking) -> Decision:
        """What a search would decide now; nothing is changed. Use it before the next `await`. Raises
        InvalidInput: the scope is not known; StorageError: the scope is only this conversation, and it cannot be
        read."""
        states, _ = await self._read(await self.conversations_of(asking.scope) or (self.conversation_id,))
        cosines, _ = await self._cosines(states, query)
        return self._decided(states, query, cosines, asking)

    async def conversations_of(self, scope: str | None) -> tuple[str, ...]:
        """The ids of the conversations that `scope` names, this one first; None: the scope of the settings. A group of
        the settings counts for its members only; a conversation outside the group recalls itself. Raises InvalidInput:
        the scope is not known."""
        chosen = self._services.scope if scope is None else scope
        own = self.conversation_id
        patterns = {**self._services.groups, OWN: (), ALL: ("*",)}.get(chosen)
        if patterns is None:
            named = "".join(f", `{name}`" for name in self._services.groups)
            raise InvalidInput(
                "There is no scope `{chosen}`; use `{own}` or `{all}`{named}, or add it to the setting `groups`.",
                chosen,
                OWN,
                ALL,
                named,
            )
        is_member = any(fnmatchcase(own, pattern) for pattern in patterns)
        if chosen == OWN or (scope is None and not is_member):
            return (own,)
        known = await self._services.store.conversations()
        others = [name for name in known if name != own and any(fnmatchcase(name, pattern) for pattern in patterns)]
        return (own, *others) if is_member else tuple(others)

    async def _searched(self, query: RecallQuery, asking: Asking) -> Found:
        """What `query` brings to mind."""
        ids = tuple(dict.fromkeys((*await self.conversations_of(asking.scope), *asking.also)))
        state = await self._services.store.read(self.conversation_id) if ids == (self.conversation_id,) else None
        if state is not None and (self._services.brief or _is_sooner_without_index(state)):
            cosines, reason = await self._cosines([state], query, asked=asking.asked)
            found = self._plainly(state, query, cosines, asking)
            if not self._services.brief:  # for the next search
                asyncio.get_running_loop().run_in_executor(None, import_module, DECISIONS)
            return replace(found, only_words=reason)
        states, unread = await self._read(ids)
        if not states:
            return Found(NOTHING_SEARCHED, unread=unread)
        cosines, reason = await self._cosines(states, query, asked=asking.asked)
        decision = self._decided(states, query, cosines, asking)
        wording = self._services.parameters.wording
        forms = [wording.within(state.conversation_id).enrichment.signature for state in states]
        outdated = decision.columns.of_other_form(forms)
        return Found(decision.recall, unread=unread, outdated=outdated, only_words=reason)

    async def _cosines(
        self, states: Sequence[ConversationState], query: RecallQuery, *, asked: bool = False
    ) -> tuple[Cosines, str]:
        """How near the memories are to what was said last, by conversation and id; or why that is not known."""
        if self._services.meaning is None or not query.said or not any(state.short_term for state in states):
            return {}, ""
        ids: dict[Scope, dict[str, list[str]]] = {}
        for state in states:
            of_text = ids.setdefault(vectors_of(state.conversation_id), {})
            for memory in state.short_term.values():
                of_text.setdefault(memory.text, []).append(memory.id)
        asking, seconds = vectors_of(self.conversation_id), VECTOR_SECONDS if asked else UNASKED_VECTOR_SECONDS
        try:
            found = await self._services.meaning().cosines(asking, query.said, ids, seconds)
        except (ModelsFailed, StorageError) as error:
            return {}, str(error)
        return {
            scope.owner: {each: cosine for text, cosine in of_text.items() for each in ids[scope][text]}
            for scope, of_text in found.items()
        }, ""

    async def _read(self, ids: Sequence[str]) -> tuple[list[ConversationState], dict[str, Path | None]]:
        """The states with their indexes, and the ids of those that could not be read, with the file."""
        states: list[ConversationState] = []
        unread: dict[str, Path | None] = {}
        for name in ids:
            try:
                state = await self._services.store.read(name)
            except StorageError as error:
                if len(ids) == 1:
                    raise
                unread[name] = error.path
            else:
                # Many small indexes together would block the event loop as long as one large index.
                await self._prepare(state, WORTH_A_THREAD if len(ids) == 1 else 1)
                states.append(state)
        return states, unread

    async def _prepare(self, state: ConversationState, least: int) -> None:
        """Give `state` its index, made in a thread so that other clients do not wait, unless it has one or fewer than
        `least` memories. If the store replaced the state meanwhile, `index_of` makes the index later."""
        if DECISIONS not in sys.modules:
            # Only a process that was not warmed up imports it here; the decision itself runs in the event loop.
            await asyncio.to_thread(import_module, DECISIONS)
        if len(state.short_term) < least and not _is_long(state):
            return
        from memory_server.conversations.recall.index import Index

        async with self._indexing:
            if state.follower is not None:
                return
            recorder = state.follower = _Recorder()
            try:
                with without_collecting():
                    index = await asyncio.to_thread(Index, list(state.short_term.values()), self._wording)
            finally:
                # Another decision may have made an index meanwhile.
                ours = state.follower is recorder
                if ours:
                    state.follower = None
            if ours:
                for change in recorder:
                    index.follow(change)
                state.follower = index

    def _about(self, asking: Asking) -> dict[str, Any]:
        """What both selections need to know."""
        around = self._services
        parameters = around.parameters.recall
        if asking.asked:  # what somebody asked for may share little, or come by meaning alone
            parameters = replace(parameters, weak_too=True)
        if asking.flashbacks is not None:
            parameters = parameters.with_flashbacks(asking.flashbacks)
        return {
            "conversation_id": self.conversation_id,
            "now_ms": around.clock(),
            "rng": Random(around.rng.getrandbits(64)),
            "parameters": parameters,
            "session": asking.session or around.session,
            "places": frozenset() if asking.asked else muting_places(self.conversation_id, asking.folder),
            "without": asking.without,
        }

    def _decided(
        self,
        states: Sequence[ConversationState],
        query: RecallQuery,
        cosines: Cosines,
        asking: Asking,
    ) -> Decision:
        # Not at the top: numpy would double the time that a client waits for the server to start.
        from memory_server.conversations.recall.columns import Searched
        from memory_server.conversations.recall.index import index_of
        from memory_server.conversations.recall.indexed_selection import decide

        searched = [
            Searched(
                state.short_term,
                index_of(state, self._wording),
                state.conversation_id,
                cosines.get(state.conversation_id, NOTHING),
            )
            for state in states
        ]
        query = self._wording.naming(query, [name for part in searched for name in part.index.speakers])
        if any(part.index.keeps_words for part in searched):
            query = self._wording.reaching_kept(query)
        return decide(searched, query, **self._about(asking))

    def _plainly(self, state: ConversationState, query: RecallQuery, cosines: Cosines, asking: Asking) -> Found:
        """The same without an index, for a process that asks once, and for the first search of a small conversation."""
        from memory_server.conversations.recall.selection import select

        cosines_here = cosines.get(state.conversation_id, NOTHING)
        about = self._about(asking)
        query = self._wording.naming(query, speakers_of(state.short_term.values()))
        if any(memory.other_words for memory in state.short_term.values()):
            query = self._wording.reaching_kept(query)
        recall = select(state.short_term.values(), query, wording=self._wording, cosines=cosines_here, **about)
        return Found(recall, outdated=sum(not self._wording.is_of(memory) for memory in state.short_term.values()))

    async def _reinforce(self, recall: Recall, by: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """The change ids by conversation, and the conversations that could not be written in time."""
        parameters = self._services.parameters.recall
        gains: dict[str, list[tuple[ShortTermMemory, float]]] = {}
        for recalled, points in recall.gains(parameters):
            gains.setdefault(recalled.kept_in or self.conversation_id, []).append((recalled.memory, points))

        async def reinforce(name: str) -> tuple[str | None, bool]:
            """The change, and whether the conversation could be written."""
            if not reinforcements(gains[name], parameters):
                return None, True

            def decide(state: ConversationState) -> tuple[Sequence[Change], None]:
                # With the scores as they are now: another search may have raised them meanwhile.
                kept = state.short_term
                now = [(kept[memory.id], points) for memory, points in gains[name] if memory.id in kept]
                return reinforcements(now, parameters), None

            try:
                _, made = await self._services.store.update(name, decide, by=by, wait_seconds=SEARCH_WAIT_SECONDS)
            except (LockTimeout, StorageUnwritable):
                return None, False
            return made, True

        done = dict(zip(gains, await asyncio.gather(*map(reinforce, gains)), strict=True))
        changes = {name: made for name, (made, _) in done.items() if made is not None}
        return changes, tuple(name for name, (_, written) in done.items() if not written)


def _is_sooner_without_index(state: ConversationState) -> bool:
    """Whether a search is: in a process that has not imported numpy yet, which takes as long as several plain ones."""
    return DECISIONS not in sys.modules and len(state.short_term) <= PLAIN_AT_MOST and not _is_long(state)


def _is_long(state: ConversationState) -> bool:
    return sum(len(memory.text) for memory in state.short_term.values()) > WORTH_A_THREAD_CHARS


class _Recorder(list[Change]):
    """Follows a state while a thread makes its index, and holds the changes of that time."""

    follow = list.append
