"""Searching short-term memories: reads the conversations that the scope names, decides once, reinforces each memory
where it is kept."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from memory_server.conversations.changes import Change
from memory_server.conversations.found import NOTHING_SEARCHED, Asking, Found
from memory_server.conversations.model import ConversationState, ShortTermMemory, muting_places
from memory_server.conversations.recall.selection import Recall, held_in, reinforcements
from memory_server.conversations.recall.words import RecallQuery, speakers_of, users_of
from memory_server.conversations.services import ALL, OWN, Services
from memory_server.kernel.collecting import without_collecting
from memory_server.kernel.errors import (
    InvalidInput,
    LockTimeout,
    ModelsFailed,
    StorageError,
    StorageUnwritable,
)
from memory_server.kernel.messages import NOTHING, GivenMessage, Message, Session
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.private import to_keep
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.scopes import Scope
from nlp import ROLE_WEIGHTS

if TYPE_CHECKING:
    from memory_server.conversations.recall.indexed_selection import Decision

SEARCH_WAIT_SECONDS = 1.0
"""How long a search waits for writers before it answers without reinforcing (docs/reference/data-folder.md)."""
WORTH_A_THREAD = 1_000
"""With this many memories, indexing takes over 15 ms; the decision itself indexes fewer."""
WORTH_A_THREAD_CHARS = 100_000
"""With this many characters of memories it takes as long."""
VECTOR_SECONDS = 2.0
"""How long a search that somebody asked for waits for vectors."""
UNASKED_VECTOR_SECONDS = 0.2
"""How long a search that nobody asked for waits for vectors: a hook takes its question back after 0.5 s
(`process.entrance.RECALL_SECONDS`), and its answer by words must come before that."""
PLAIN_AT_MOST = 1_500
"""Memories up to which the first search of a process makes no index: 31 ms for 1,000; numpy and an index take 130."""
DECISIONS = "memory_server.conversations.recall.indexed_selection"
"""The module that decides a search; it imports numpy, which takes 0.1 s or more."""
_SAID_AGAIN = 3
"""How often a search is repeated without what the messages hold; it may bring more of that."""
_MANY_CONVERSATIONS = 1
"""The fewest memories of a conversation whose index is made in a thread, if several conversations are searched: many
small indexes together would block the event loop as long as one large index."""
Cosines: TypeAlias = Mapping[str, Mapping[str, float]]
"""How near memories are by meaning, by conversation and id."""


def vectors_of(conversation_id: str) -> Scope:
    """The scope of the vectors of a conversation's texts: nobody learns from one what is said in another
    conversation."""
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
        recent: Sequence[GivenMessage],
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
        at_every_prompt: bool = False,
        flashbacks: int | None = None,
        said_again: bool = True,
        also_turns: Mapping[str, Collection[str]] = NOTHING,
        by: str = "api",
    ) -> Found:
        """The memories that the recent messages bring to mind. Top and next are reinforced, unless `reinforce` is
        False.

        `scope` names the conversations to search: `conversation` (this one), `all`, or a group of the settings; None:
        the scope of the settings. `also` are further ones. `session` is the one that asks, in `folder`. `names`, such
        as those of the participants, are never cut; those of the speakers are not cut either. `other_words`: further
        texts to search for. `asked`: a user asked for memories, so weak and muted ones come too, and vectors have more
        time. `at_every_prompt`: by the stricter rule of a hook. `said_again`: whether text that the messages hold may
        come. `also_turns`: of these conversations `also`, only such turns: those of a trunk before its branch. Raises
        InvalidInput: all that the messages say was recalled, or there is no such scope.
        """
        query = await self.query_of(
            recent, role_weights=role_weights, names=names, other_words=other_words
        )
        asking = Asking(
            scope,
            tuple(also),
            session,
            folder,
            asked,
            flashbacks,
            at_every_prompt=at_every_prompt,
        )
        asking = await self._with_turns(asking, also_turns)
        result = await self._searched(query, asking)
        if not said_again:
            texts = {message.content.strip() for message in as_said(recent)}
            for _ in range(_SAID_AGAIN):
                ids_said = held_in(texts, result.recall)
                if not ids_said:
                    break
                asking = replace(asking, without=asking.without | ids_said)
                result = await self._searched(query, asking)
        if not (reinforce and self._services.writable):
            return result
        changes, unreinforced = await self._reinforce(result.recall, by)
        return replace(result, changes=changes, unreinforced=unreinforced)

    async def _with_turns(
        self, asking: Asking, also_turns: Mapping[str, Collection[str]]
    ) -> Asking:
        """The search that finds only these turns of conversations that it looks at too. What was forgotten there is not
        found here either."""
        for conversation_id, turns in also_turns.items():
            if conversation_id == self.conversation_id or conversation_id not in asking.also:
                continue
            try:
                state = await self._services.store.read(conversation_id)
            except StorageError:
                continue  # the search says that it cannot be read
            belonging = frozenset(turns)
            others = {
                memory.id for memory in state.short_term.values() if memory.turn not in belonging
            }
            asking = replace(asking, without=asking.without | others)
        return asking

    async def credit(
        self,
        recent: Sequence[GivenMessage],
        answer: Message,
        *,
        became: str | None = None,
        session: Session | None = None,
        by: str = "api",
    ) -> Found:
        """Reinforce the memories that a search by the recent messages finds and that the answer used: the answer shares
        rare words with them that the messages did not have. `became`: the id of the memory that holds the answer, if it
        is stored already. Raises InvalidInput: all that the messages say was recalled."""
        from memory_server.conversations.recall.credit import used, words_said

        query = await self.query_of(recent)
        result = await self._searched(query, Asking(session=session))
        if not self._services.writable or not (result.recall.top or result.recall.next):
            return Found(replace(result.recall, top=(), next=(), flashback=()))
        searched: list[ShortTermMemory] = []
        for conversation_id in await self.conversations_of(None):
            if conversation_id not in result.unread:
                state = await self._services.store.read(conversation_id)
                searched += [memory for memory in state.short_term.values() if memory.id != became]
        now_ms = self._services.clock()

        def used_recall() -> Recall:
            asked_words = words_said(as_said(recent), self._wording, now_ms)
            answered_words = words_said(as_said([answer]), self._wording, now_ms)
            return used(result.recall, searched, asked=asked_words, answered=answered_words)

        recall = await asyncio.to_thread(used_recall)
        changes, unreinforced = await self._reinforce(recall, by)
        return Found(recall, changes=changes, unreinforced=unreinforced, unread=result.unread)

    async def query_of(
        self,
        recent: Sequence[GivenMessage],
        *,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
        names: Iterable[str] = (),
        other_words: Sequence[str] = (),
    ) -> RecallQuery:
        """The query of a search by the recent messages and `other_words`; `names` are never cut. Without messages, as
        when a chat opens, memories come by score and chance. Raises InvalidInput: all that the messages say was
        recalled, or there are too many other words."""
        now_ms = self._services.clock()

        def find_query() -> RecallQuery:
            messages = self._services.secrets.of(as_said(recent))
            if recent and not messages:
                raise InvalidInput(
                    "There are no recent messages to search by; give the last few of the conversation."
                )
            if not messages:
                messages = (Message("user", ""),)  # a chat opens, and nobody has said a word
            others = other_words_of(self._services.secrets.of(other_words), messages)
            query = self._wording.of_query(
                messages, now_ms, role_weights, names=names, other_words=others.texts
            )
            last_text = "\n".join(message.content for message in to_keep(messages[-1:]))
            return replace(query, said=last_text, private_words=others.private)

        return await asyncio.to_thread(find_query)

    async def decision(self, query: RecallQuery, asking: Asking) -> Decision:
        """The decision that a search would make now; nothing is changed. Use it before the next `await`. Raises
        InvalidInput: the scope is not known; StorageError: the scope is only this conversation, and it cannot be
        read."""
        ids = await self.conversations_of(asking.scope) or (self.conversation_id,)
        states, _unread = await self._read(ids)
        cosines, _reason = await self._cosines(states, query)
        return self._decided(states, query, cosines, asking)

    async def conversations_of(self, scope: str | None) -> tuple[str, ...]:
        """The ids of the conversations that `scope` names, this one first; None: the scope of the settings. A
        conversation outside of a group recalls itself. Raises InvalidInput: the scope is not known."""
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
        is_member = _matches_any(own, patterns)
        if chosen == OWN or (scope is None and not is_member):
            return (own,)
        all_ids = await self._services.store.conversations()
        other_ids = [id_ for id_ in all_ids if id_ != own and _matches_any(id_, patterns)]
        if is_member:
            return (own, *other_ids)
        return tuple(other_ids)

    async def _searched(self, query: RecallQuery, asking: Asking) -> Found:
        """What `query` brings to mind."""
        scope_ids = await self.conversations_of(asking.scope)
        ids = tuple(dict.fromkeys((*scope_ids, *asking.also)))
        if ids == (self.conversation_id,):
            state = await self._services.store.read(self.conversation_id)
            if self._services.brief or _is_sooner_without_index(state):
                return await self._searched_plainly(state, query, asking)
        states, unread = await self._read(ids)
        if not states:
            return Found(NOTHING_SEARCHED, unread=unread)
        cosines, only_words = await self._cosines(states, query, asked=asking.asked)
        decision = self._decided(states, query, cosines, asking)
        wording = self._services.parameters.wording
        forms = [wording.within(state.conversation_id).enrichment.signature for state in states]
        outdated = decision.columns.of_other_form(forms)
        return Found(
            decision.recall,
            unread=unread,
            outdated=outdated,
            unusable=sum(len(state.unusable) for state in states),
            only_words=only_words,
        )

    async def _searched_plainly(
        self, state: ConversationState, query: RecallQuery, asking: Asking
    ) -> Found:
        """What `query` brings to mind in this conversation alone, without an index."""
        cosines, only_words = await self._cosines([state], query, asked=asking.asked)
        result = self._plainly(state, query, cosines, asking)
        if not self._services.brief:  # for the next search
            asyncio.get_running_loop().run_in_executor(None, import_module, DECISIONS)
        return replace(result, unusable=len(state.unusable), only_words=only_words)

    async def _cosines(
        self, states: Sequence[ConversationState], query: RecallQuery, *, asked: bool = False
    ) -> tuple[Cosines, str]:
        """How near the memories are to what was said last, by conversation and id; or why that is not known."""
        if (
            self._services.meaning is None
            or not query.said
            or not any(state.short_term for state in states)
        ):
            return {}, ""
        ids_of_texts: dict[Scope, dict[str, list[str]]] = {}
        for state in states:
            ids_of_text = ids_of_texts.setdefault(vectors_of(state.conversation_id), {})
            for memory in state.short_term.values():
                ids_of_text.setdefault(memory.text, []).append(memory.id)
        own_scope = vectors_of(self.conversation_id)
        seconds = VECTOR_SECONDS if asked else UNASKED_VECTOR_SECONDS
        try:
            text_cosines = await self._services.meaning().cosines(
                own_scope, query.said, ids_of_texts, seconds
            )
        except (ModelsFailed, StorageError) as error:
            return {}, str(error)
        cosines: dict[str, dict[str, float]] = {}
        for scope, cosine_of_text in text_cosines.items():
            cosine_of_id = cosines.setdefault(scope.owner, {})
            for text, cosine in cosine_of_text.items():
                cosine_of_id.update(dict.fromkeys(ids_of_texts[scope][text], cosine))
        return cosines, ""

    async def _read(
        self, ids: Sequence[str]
    ) -> tuple[list[ConversationState], dict[str, Path | None]]:
        """The states with their indexes, and the ids of those that could not be read, with the file."""
        states: list[ConversationState] = []
        unread: dict[str, Path | None] = {}
        for conversation_id in ids:
            try:
                state = await self._services.store.read(conversation_id)
            except StorageError as error:
                if len(ids) == 1:
                    raise
                unread[conversation_id] = error.path
            else:
                await self._prepare(state, WORTH_A_THREAD if len(ids) == 1 else _MANY_CONVERSATIONS)
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
            recorder = _Recorder()
            state.follower = recorder
            try:
                with without_collecting():
                    index = await asyncio.to_thread(
                        Index, list(state.short_term.values()), self._wording
                    )
            finally:
                # Another decision may have made an index meanwhile.
                is_ours = state.follower is recorder
                if is_ours:
                    state.follower = None
            if is_ours:
                for change in recorder:
                    index.follow(change)
                state.follower = index

    def _arguments(self, asking: Asking) -> dict[str, Any]:
        """The arguments that both selections, `decide` and `select`, take by the same names."""
        services = self._services
        parameters = services.parameters.recall
        if asking.at_every_prompt:
            parameters = services.parameters.at_every_prompt
        places: frozenset[str] = frozenset()
        if (
            asking.asked
        ):  # what somebody asked for may share little, come by meaning alone, or be muted
            parameters = replace(parameters, weak_too=True)
        else:
            places = muting_places(self.conversation_id, asking.folder)
        if asking.flashbacks is not None:
            parameters = parameters.with_flashbacks(asking.flashbacks)
        return {
            "conversation_id": self.conversation_id,
            "now_ms": services.clock(),
            "rng": Random(services.rng.getrandbits(64)),
            "parameters": parameters,
            "session": asking.session or services.session,
            "places": places,
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
                index=index_of(state, self._wording),
                conversation_id=state.conversation_id,
                cosines=cosines.get(state.conversation_id, NOTHING),
            )
            for state in states
        ]
        query = self._wording.naming(
            query,
            chain.from_iterable(part.index.speakers for part in searched),
            chain.from_iterable(part.index.users for part in searched),
        )
        if any(part.index.keeps_words for part in searched):
            query = self._wording.reaching_kept(query)
        return decide(searched, query, **self._arguments(asking))

    def _plainly(
        self, state: ConversationState, query: RecallQuery, cosines: Cosines, asking: Asking
    ) -> Found:
        """What a search finds without an index: for a process that asks once, and for the first search of a small
        conversation."""
        from memory_server.conversations.recall.selection import select

        memories = state.short_term.values()
        query = self._wording.naming(query, speakers_of(memories), users_of(memories))
        if any(memory.other_words for memory in memories):
            query = self._wording.reaching_kept(query)
        recall = select(
            memories,
            query,
            wording=self._wording,
            cosines=cosines.get(state.conversation_id, NOTHING),
            **self._arguments(asking),
        )
        return Found(recall, outdated=sum(not self._wording.is_of(memory) for memory in memories))

    async def _reinforce(self, recall: Recall, by: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """The change ids by conversation, and the conversations that could not be written in time."""
        parameters = self._services.parameters.recall
        gains: dict[str, list[tuple[ShortTermMemory, float]]] = {}
        for recalled, points in recall.gains(parameters):
            conversation_id = recalled.kept_in or self.conversation_id
            gains.setdefault(conversation_id, []).append((recalled.memory, points))
        changes: dict[str, str] = {}
        unwritten: set[str] = set()

        async def reinforce(conversation_id: str) -> None:
            if not reinforcements(gains[conversation_id], parameters):
                return

            def decide(state: ConversationState) -> tuple[Sequence[Change], None]:
                # With the scores as they are now: another search may have raised them meanwhile.
                present = state.short_term
                present_gains = [
                    (present[memory.id], points)
                    for memory, points in gains[conversation_id]
                    if memory.id in present
                ]
                return reinforcements(present_gains, parameters), None

            try:
                _none, change_id = await self._services.store.update(
                    conversation_id, decide, by=by, wait_seconds=SEARCH_WAIT_SECONDS
                )
            except (LockTimeout, StorageUnwritable):
                unwritten.add(conversation_id)
                return
            if change_id is not None:
                changes[conversation_id] = change_id

        await asyncio.gather(*map(reinforce, gains))
        in_order = {id_: changes[id_] for id_ in gains if id_ in changes}
        return in_order, tuple(id_ for id_ in gains if id_ in unwritten)


def _matches_any(conversation_id: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(conversation_id, pattern) for pattern in patterns)


def _is_sooner_without_index(state: ConversationState) -> bool:
    """Whether a search takes less time without an index: in a process that has not imported numpy yet, which takes as
    long as several plain searches."""
    return (
        DECISIONS not in sys.modules
        and len(state.short_term) <= PLAIN_AT_MOST
        and not _is_long(state)
    )


def _is_long(state: ConversationState) -> bool:
    """Whether the memories have so many characters that an index is made in a thread."""
    return sum(len(memory.text) for memory in state.short_term.values()) > WORTH_A_THREAD_CHARS


class _Recorder(list[Change]):
    """Follows a state while a thread makes its index, and holds the changes of that time."""

    follow = list.append
