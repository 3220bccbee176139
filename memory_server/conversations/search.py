"""One search of short-term memories: it reads the conversations that the scope names, finds its query once, and decides
as often as it is asked. What came is reinforced where it is kept."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from importlib import import_module
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from memory_server.conversations.changes import Change, ChatMoved
from memory_server.conversations.model import EVERYWHERE, ConversationState, ShortTermMemory
from memory_server.conversations.recall.corrections import CorrectionLinks, newer_by_older
from memory_server.conversations.recall.plans import DayOfPlans, Plan, not_shown
from memory_server.conversations.recall.request import RecallContext, RecallRequest
from memory_server.conversations.recall.selection import (
    NOTHING_RECALLED,
    Recall,
    open_first,
    reinforcements,
    select,
)
from memory_server.conversations.recall.words import KeywordOptions, QueryContext, RecallQuery
from memory_server.conversations.services import ALL, OWN, Services
from memory_server.kernel.collecting import without_collecting
from memory_server.kernel.errors import (
    InvalidInput,
    LockTimeout,
    ModelsFailed,
    StorageError,
    StorageUnwritable,
)
from memory_server.kernel.items import Scope
from memory_server.kernel.messages import NOTHING, Message, Session
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.times import local
from memory_server.kernel.values import frozen
from memory_server.lore import Came, ChatState, ChatStep, FiringRules, advanced

if TYPE_CHECKING:
    from memory_server.conversations.recall.indexed_selection import Decision

SEARCH_WAIT_SECONDS = 1.0
"""How long a search waits for writers before it answers without reinforcing (docs/reference/data-folder.md)."""
WORTH_A_THREAD = 1_000
"""With this many memories, indexing takes over 15 ms; the decision itself indexes fewer."""
WORTH_A_THREAD_CHARS = 100_000
"""With this many characters of memories, indexing takes as long."""
VECTOR_SECONDS = 2.0
"""How long a search that a caller asked for waits for vectors."""
UNASKED_VECTOR_SECONDS = 0.2
"""How long a hook's search waits for vectors: a hook takes its question back after 0.5 s
(`process.entrance.RECALL_SECONDS`), and its answer by words must come before that."""
PLAIN_AT_MOST = 1_500
"""Memories up to which the first search of a process makes no index: 31 ms for 1,000; numpy and an index take 130."""
PLAIN_CHARS_AT_MOST = 500_000
"""Characters of such memories. Looking for the pairs of characters of a query in so many takes 50 ms."""
DECISIONS = "memory_server.conversations.recall.indexed_selection"
"""The module that decides a search; it imports numpy, which takes 0.1 s or more."""
_MANY_CONVERSATIONS = 1
"""The fewest memories of a conversation whose index is made in a thread, if several conversations are searched: many
small indexes together would block the event loop as long as one large index."""
Cosines: TypeAlias = Mapping[str, Mapping[str, float]]
"""How near memories are by meaning, by conversation and id."""


@frozen
class Found:
    """The answer of a search. `changes`: the change ids of its reinforcements, by conversation. `unreinforced`:
    conversations that could not be written (locked, read-only). `unread`: conversations that could not be read, with
    the file."""

    recall: Recall
    changes: Mapping[str, str] = field(default_factory=dict)
    unreinforced: tuple[str, ...] = ()
    unread: Mapping[str, Path | None] = field(default_factory=dict)
    outdated: int = 0
    """Searched memories whose words were found with other settings: `doctor --reindex` finds them again."""
    unusable: int = 0
    """Stored records of what was searched that cannot be used: `doctor` names them."""
    only_words: str = ""
    """Why it searched only by words, where a model of meaning is named."""

    @property
    def reinforced(self) -> bool:
        """Whether every memory that should be reinforced was."""
        return not self.unreinforced

    @property
    def change_id(self) -> str | None:
        """The change id, if exactly one conversation was changed."""
        if len(self.changes) != 1:
            return None
        [change_id] = self.changes.values()
        return change_id


def vectors_of(conversation_id: str) -> Scope:
    """Return the scope of the vectors of a conversation's texts. Each conversation has its own, so that no caller
    learns what was said in another."""
    return Scope("conversations", conversation_id)


def muting_places(conversation_id: str, folder: str | None) -> frozenset[str]:
    """Return all muting places that cover a search in this conversation and folder (None if unknown)."""
    places = {EVERYWHERE, f"conversation:{conversation_id}"}
    if folder is not None:
        places.add(f"folder:{folder}")
    return frozenset(places)


def query_of(
    request: RecallRequest,
    wording: KeywordOptions,
    now_ms: int,
    known: QueryContext = QueryContext(),
) -> RecallQuery:
    """Make the query of a search. Without messages, as when a chat opens, memories come by score and chance.
    Blocking. Raises InvalidInput if all that the messages say was recalled, or there are too many other words."""
    messages = request.said
    if request.messages and not messages:
        raise InvalidInput(
            "There are no recent messages to search by; give the last few of the conversation."
        )

    if not messages:
        messages = (Message("user", ""),)  # a chat opens without a message

    others = other_words_of(request.other_words, messages)
    query = wording.of_query(
        messages,
        now_ms,
        request.role_weights,
        names=request.names,
        other_words=others.texts,
        known=known,
    )
    return replace(query, private_words=others.private, folder=request.folder)


class Search:
    """A search made in `conversation_id`: the memories that it looks at, its query, and how near they are by meaning.
    What it decides is valid until the next `await`."""

    def __init__(self, services: Services, conversation_id: str, request: RecallRequest) -> None:
        """Keep the request, without the secrets in its messages and other words. Nothing is read
        yet."""
        secrets = services.secrets
        self.request = replace(
            request,
            messages=secrets.of(request.messages),
            other_words=secrets.of(request.other_words),
        )
        self.states: list[ConversationState] = []
        self.query = RecallQuery()
        self.without: set[str] = set()
        """Ids of memories that do not come, because the asker has them."""

        self._services = services
        self._conversation_id = conversation_id
        self._wording = services.parameters.wording.within(conversation_id)
        self._unread: dict[str, Path | None] = {}
        self._is_plain = False
        self._cosines: Cosines = {}
        self._only_words = ""

    async def read(
        self, ids: Sequence[str], indexing: asyncio.Lock, *, indexed: bool = False
    ) -> None:
        """Read these conversations, with their indexes; a single one, where an index would take longer than a search
        without, has none unless it must be `indexed`. Raises StorageError if the only one cannot be read; of several,
        such a one is noted and left out."""
        for conversation_id in ids:
            try:
                self.states.append(await self._services.store.read(conversation_id))
            except StorageError as error:
                if len(ids) == 1:
                    raise
                self._unread[conversation_id] = error.path
        if not indexed and tuple(ids) == (self._conversation_id,):
            self._is_plain = self._services.brief or _is_sooner_without_index(self.states[0])
        if not self._is_plain:
            least = WORTH_A_THREAD if len(ids) == 1 else _MANY_CONVERSATIONS
            for state in self.states:
                await prepare_index(state, self._wording, least, indexing)
        self._leave_out_other_turns()

    def _leave_out_other_turns(self) -> None:
        """Leave out the memories of other conversations that are of other turns than the request names there. What
        was forgotten there is not found here either."""
        for state in self.states:
            turns = self.request.also_turns.get(state.conversation_id)
            if turns is None or state.conversation_id == self._conversation_id:
                continue
            belonging = frozenset(turns)
            self.without.update(
                memory.id for memory in state.short_term.values() if memory.turn not in belonging
            )

    async def find_query(self) -> None:
        """Find the query, with what the searched memories or their indexes tell it. Raises InvalidInput as
        `query_of`."""
        if self._is_plain:
            [state] = self.states
            known = QueryContext.of(list(state.short_term.values()))
        else:
            from memory_server.conversations.recall.index import index_of

            indexes = [index_of(state, self._wording) for state in self.states]
            known = QueryContext(
                speakers=tuple(chain.from_iterable(index.speakers for index in indexes)),
                users=tuple(chain.from_iterable(index.users for index in indexes)),
                keeps_words=any(index.keeps_words for index in indexes),
            )
        now_ms = self._services.clock()
        self.query = await asyncio.to_thread(query_of, self.request, self._wording, now_ms, known)

    async def find_nearness(self) -> None:
        """Ask for the cosines of the memories to what was said last, and keep them, or why there
        are none. Do nothing without a model of vectors, without words or without memories."""
        if self._services.meaning is None or not self.query.said:
            return
        ids_of_texts: dict[Scope, dict[str, list[str]]] = {}
        for state in self.states:
            ids_of_text = ids_of_texts.setdefault(vectors_of(state.conversation_id), {})
            for memory in state.short_term.values():
                ids_of_text.setdefault(memory.text, []).append(memory.id)

        if not any(ids_of_texts.values()):
            return

        # A user who asks for memories waits longer than a hook can.
        seconds = VECTOR_SECONDS if self.request.mode == "asked" else UNASKED_VECTOR_SECONDS
        try:
            text_cosines = await self._services.meaning().cosines(
                vectors_of(self._conversation_id), self.query.said, ids_of_texts, seconds
            )
        except (ModelsFailed, StorageError) as error:
            self._only_words = str(error)
            return

        # Vectors are kept by text, and a search asks by id; equal texts share a cosine.
        cosines: dict[str, dict[str, float]] = {}
        for scope, cosine_of_text in text_cosines.items():
            cosine_of_id = cosines.setdefault(scope.owner, {})
            for text, cosine in cosine_of_text.items():
                cosine_of_id.update(dict.fromkeys(ids_of_texts[scope][text], cosine))
        self._cosines = cosines

    def found(self) -> Found:
        """Return what comes to mind now, with what could not be read and how many memories cannot
        be used or have words of other settings. No memory is changed."""
        if not self.states:
            return Found(NOTHING_RECALLED, unread=self._unread)

        # A single conversation, where an index would take longer than a search without it.
        if self._is_plain:
            [state] = self.states
            memories = state.short_term.values()
            cosines = self._cosines.get(state.conversation_id, NOTHING)
            recall = select(memories, self.query, self._context(), cosines)
            outdated = sum(not self._wording.is_of(memory) for memory in memories)
            # The next search may need the module, so a thread imports it.
            if not self._services.brief:
                asyncio.get_running_loop().run_in_executor(None, import_module, DECISIONS)
        else:
            decision = self.decision()
            recall = decision.recall
            wording = self._services.parameters.wording
            outdated = decision.columns.of_other_form(
                [
                    wording.within(state.conversation_id).enrichment.signature
                    for state in self.states
                ]
            )
        return Found(
            self._in_their_places(recall),
            unread=self._unread,
            outdated=outdated,
            unusable=sum(len(state.unusable) for state in self.states),
            only_words=self._only_words,
        )

    def _in_their_places(self, recall: Recall) -> Recall:
        """Return the recall as it holds now: a correction takes the place of what it corrects, and open plans come
        first. Without the setting for corrections it stays as it is."""
        services = self._services
        if not services.has_corrections:
            return recall
        if not self.request.include_corrected:
            recall = self._corrections().in_recall(recall)
        return open_first(recall, services.clock(), services.zone)

    def _corrections(self, others: Iterable[ShortTermMemory] = ()) -> CorrectionLinks:
        """Return the links of corrections. Hides memories that are muted here or that the asker has, also of these
        `others`."""
        newer: dict[str, ShortTermMemory] = {}
        for state in self.states:
            newer |= newer_by_older(_correcting(state))
        older = (self._memory(old.id) for new in newer.values() for old in new.corrects)
        places = self._places
        muted = {
            memory.id
            for memory in (*newer.values(), *filter(None, older), *others)
            if not places.isdisjoint(memory.muted)
        }
        return CorrectionLinks(newer, self._memory, self.without | muted)

    def _memory(self, memory_id: str) -> ShortTermMemory | None:
        """Return the searched memory with this id, or None if it was not searched."""
        for state in self.states:
            memory = state.short_term.get(memory_id)
            if memory is not None:
                return memory
        return None

    async def due_plans(self) -> tuple[Plan, ...]:
        """Return the plans that come by themselves now, the earliest day first, whether they were shown or not; none
        that is hidden or corrected. Looks through the memories that are new since the last call."""
        zone = self._services.zone
        today = local(self._services.clock(), zone).date()
        due: list[Plan] = []
        for state in self.states:
            day = DayOfPlans.of(state, today, zone)
            memories = day.taken(state)
            if memories:
                await asyncio.to_thread(day.look_through, memories, state.conversation_id)
            due += day.present(state)

        # Plans of several conversations are one list for the reader.
        due.sort(key=lambda plan: (plan.day.first, plan.said, plan.memory.id))
        corrections = self._corrections(plan.memory for plan in due)
        return tuple(
            plan
            for plan in due
            if plan.memory.id not in corrections.hidden and corrections.holds(plan.memory)
        )

    @property
    def _places(self) -> frozenset[str]:
        """The places in which something may be muted that does not come here."""
        if self.request.mode == "asked":
            return frozenset()
        return muting_places(self._conversation_id, self.request.folder)

    def decision(self) -> Decision:
        """Return the decision about every memory, with the points of each; nothing is changed."""
        # Not at the top: numpy would double the time that a client waits for the server to start.
        from memory_server.conversations.recall.columns import IndexedMemories
        from memory_server.conversations.recall.index import index_of
        from memory_server.conversations.recall.indexed_selection import decide

        searched = [
            IndexedMemories(
                state.short_term,
                index=index_of(state, self._wording),
                conversation_id=state.conversation_id,
                cosines=self._cosines.get(state.conversation_id, NOTHING),
            )
            for state in self.states
        ]
        return decide(searched, self.query, self._context())

    def _context(self) -> RecallContext:
        """Return what the rules of recall depend on at this moment. The mode of the request chooses
        the parameters, and each call draws a new seed."""
        services = self._services
        request = self.request
        parameters = services.parameters.recall
        if request.mode == "every_prompt":
            parameters = services.parameters.at_every_prompt
        if request.mode == "asked":  # it may share little, come by meaning alone, or be muted
            parameters = replace(parameters, weak_too=True)

        if request.flashbacks is not None:
            parameters = parameters.with_flashbacks(request.flashbacks)

        return RecallContext(
            conversation_id=self._conversation_id,
            now_ms=services.clock(),
            rng=Random(services.rng.getrandbits(64)),
            parameters=parameters,
            wording=self._wording,
            session=request.session or services.session,
            places=self._places,
            without=frozenset(self.without),
        )


async def conversations_of(services: Services, own: str, scope: str | None) -> tuple[str, ...]:
    """Return the ids of the conversations that `scope` names (None for the scope of the settings), `own` first if it
    is one of them. A conversation outside of the group of the settings recalls only itself. Raises InvalidInput if
    the scope is unknown."""
    chosen = services.scope if scope is None else scope
    patterns = {**services.groups, OWN: (), ALL: ("*",)}.get(chosen)
    if patterns is None:
        named = "".join(f", `{name}`" for name in services.groups)
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

    all_ids = await services.store.conversations()
    other_ids = [id_ for id_ in all_ids if id_ != own and _matches_any(id_, patterns)]
    if is_member:
        return (own, *other_ids)
    return tuple(other_ids)


def _correcting(state: ConversationState) -> Iterable[ShortTermMemory]:
    """Return the memories that may correct others: all, unless the index of the conversation knows them."""
    ids = getattr(state.follower, "correcting", None)
    if ids is None:
        return state.short_term.values()
    return [state.short_term[memory_id] for memory_id in ids]


def _matches_any(conversation_id: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(conversation_id, pattern) for pattern in patterns)


async def give_points(services: Services, own: str, recall: Recall, by: str) -> Found:
    """Give the memories that came their points, each where it is kept; memories without a place are kept in `own`.
    Returns the changes, and the conversations that could not be written in time."""
    parameters = services.parameters.recall
    gains: dict[str, list[tuple[ShortTermMemory, float]]] = {}
    for recalled, points in recall.gains(parameters):
        gains.setdefault(recalled.kept_in or own, []).append((recalled.memory, points))
    changes: dict[str, str] = {}
    unwritten: set[str] = set()

    async def reinforce(conversation_id: str) -> None:
        """Add the points to the memories of a conversation that are still there, and note the
        change; or note that the conversation could not be written in time."""
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
            _none, change_id = await services.store.update(
                conversation_id, decide, by=by, wait_seconds=SEARCH_WAIT_SECONDS
            )
        except (LockTimeout, StorageUnwritable):
            unwritten.add(conversation_id)
            return
        if change_id is not None:
            changes[conversation_id] = change_id

    await asyncio.gather(*map(reinforce, gains))
    in_order = {id_: changes[id_] for id_ in gains if id_ in changes}
    return Found(recall, in_order, tuple(id_ for id_ in gains if id_ in unwritten))


MOST_PLANS_AT_ONCE = 3
"""Plans that come with one turn, so that the block has room for each that counts as shown."""


async def plans_not_shown(
    services: Services, own: str, plans: tuple[Plan, ...]
) -> tuple[Plan, ...]:
    """Return the first of these plans that no chat of `own` was shown; the next turns show the others."""
    state = await services.store.read(own)
    today = local(services.clock(), services.zone).date()
    return not_shown(plans, state.chats.values(), today)[:MOST_PLANS_AT_ONCE]


async def note_shown_plans(
    services: Services, own: str, plans: tuple[Plan, ...], session: Session | None, by: str
) -> tuple[Plan, ...]:
    """Write in the state of a chat of `own` that the plans of `plans_not_shown` are shown, and return these; none if it
    cannot be written in time."""
    session_id = "" if session is None else session.id
    now_ms = services.clock()
    today = local(now_ms, services.zone).date()

    def decide(state: ConversationState) -> tuple[Sequence[Change], tuple[Plan, ...]]:
        new_plans = not_shown(plans, state.chats.values(), today)[:MOST_PLANS_AT_ONCE]
        if not new_plans:
            return (), ()
        before = state.chats.get(session_id)
        former = before or ChatState()
        firings = [Came(plan.key(today), FiringRules()) for plan in new_plans]
        after = advanced(former, firings, (), messages=former.messages, now_ms=now_ms)
        return [ChatMoved.of(session_id, ChatStep.between(before, after))], new_plans

    if not plans or not await plans_not_shown(services, own, plans):
        return ()
    try:
        new_plans, _change = await services.store.update(
            own, decide, by=by, wait_seconds=SEARCH_WAIT_SECONDS
        )
    except (LockTimeout, StorageUnwritable):
        return ()
    return new_plans


async def prepare_index(
    state: ConversationState, wording: KeywordOptions, least: int, indexing: asyncio.Lock
) -> None:
    """Give `state` its index, made in a thread so that other clients do not wait. Do nothing if it has one, or has
    fewer than `least` memories and little text. If the store replaced the state meanwhile, `index_of` makes the index
    later."""
    if DECISIONS not in sys.modules:
        # Only a process that was not warmed up imports it here; the decision itself runs in the event loop.
        await asyncio.to_thread(import_module, DECISIONS)
    if len(state.short_term) < least and _count_chars(state) <= WORTH_A_THREAD_CHARS:
        return
    from memory_server.conversations.recall.index import Index

    async with indexing:
        if state.follower is not None:
            return

        # Changes that come while the thread works are recorded, and the index follows them at its end.
        recorder = _Recorder()
        state.follower = recorder
        memories = list(state.short_term.values())
        file = state.grams_file
        try:
            with without_collecting():
                index = await asyncio.to_thread(
                    lambda: Index(memories, wording, None if file is None else file.read_grams())
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
            if file is not None:
                file.write_grams_later(index.grams_to_store)


def _is_sooner_without_index(state: ConversationState) -> bool:
    """Return whether a search takes less time without an index: in a process that has not imported numpy yet, which
    takes as long as several plain searches."""
    return (
        DECISIONS not in sys.modules
        and len(state.short_term) <= PLAIN_AT_MOST
        and _count_chars(state) <= PLAIN_CHARS_AT_MOST
    )


def _count_chars(state: ConversationState) -> int:
    """Count the characters of all short-term memories."""
    return sum(len(memory.text) for memory in state.short_term.values())


class _Recorder(list[Change]):
    """Follows a state while a thread makes its index, and holds the changes of that time."""

    follow = list.append
