"""Searching long-term memories: evaluates their triggers, lets memory_server/lore decide which of them come, and keeps
the state of the chat when what came was given."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from languages import _
from memory_server.conversations.changes import Change, ChatMoved
from memory_server.conversations.lore_words import found_by_words
from memory_server.conversations.model import ConversationState
from memory_server.conversations.recall.activation import (
    Activation,
    Chat,
    HeldBackMemory,
    drawn_by_chance,
    failed_in,
    fired_in,
)
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.recall.words import RecallQuery
from memory_server.conversations.search import SEARCH_WAIT_SECONDS
from memory_server.conversations.services import Services
from memory_server.kernel.errors import InvalidInput, LockTimeout, StorageError, StorageUnwritable
from memory_server.kernel.messages import GivenMessage, Message
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.strict_json import DEEPEST, deeper
from memory_server.kernel.times import local, moment_of
from memory_server.kernel.values import dataclass
from memory_server.lore import (
    Came,
    ChatMoment,
    ChatState,
    ChatStep,
    Counted,
    EntryKeys,
    FiringRounds,
    JoinedShelves,
    MacroContext,
    Recursion,
    ScannedChat,
    Shelf,
    Shelved,
    advanced,
    character_name,
    characters_of,
    filled,
    has_macros,
    key_of,
    last_fired,
    message_seed,
    question_of,
    shelf_of,
    short_seed,
    user_name,
    with_text_of_book,
)
from sandbox import Failed, Fired, TooMuchText, Verdict, given_by_a_hook

log = logging.getLogger(__name__)
_WORTH_A_THREAD = 2_000
"""Memories of several conversations that take some 10 ms to be put together."""
_WORTH_A_THREAD_CHARS = 1_000_000
"""Characters of messages, times the entries whose keys are looked for in them: some milliseconds."""
_MOST_FILLED_CHARS = 1_000_000
"""Characters of texts in which a search fills macros: fifteen times the largest prompt."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """What is asked, the messages as they were said, and the chat."""

    request: RecallRequest
    messages: Sequence[Message]
    session: str = ""
    room: int | None = None
    given: Collection[str] = ()

    @property
    def seed(self) -> str:
        """A text that is the same whenever this message of this chat is searched for."""
        time_ms, content = None, ""
        if self.messages:
            last = self.messages[-1]
            time_ms, content = last.time_ms, last.content
        return message_seed(self.session, self.request.message_count, time_ms, content)


class TriggerSearch:
    """Searches made in `conversation_id`; `shared_conversation` is the shared conversation, None if there is none."""

    def __init__(
        self, conversation_id: str, services: Services, shared_conversation: str | None
    ) -> None:
        self.conversation_id = conversation_id
        self._services = services
        self._shared_conversation = (
            shared_conversation if shared_conversation != conversation_id else None
        )
        self._joined = JoinedShelves()

    async def with_shared(self, also: Sequence[str] = ()) -> tuple[Shelf, dict[str, Path | None]]:
        """All memories that a search evaluates: those of the conversation, of `also` and of the shared conversation.
        And the conversations that cannot be read, with the file."""
        shelves = [shelf_of(await self._services.store.read(self.conversation_id))]
        unread: dict[str, Path | None] = {}
        for name in dict.fromkeys((*also, self._shared_conversation)):
            if name in (None, self.conversation_id):
                continue
            try:
                shelves.append(shelf_of(await self._services.store.read(name)))
            except StorageError as error:
                log.warning("the triggers of a conversation were not evaluated: %s", error)
                unread[name] = error.path
        joined = self._joined.known(shelves)
        if joined is not None:
            return joined, unread
        if sum(len(shelf.memories) for shelf in shelves) < _WORTH_A_THREAD:
            return self._joined.of(shelves), unread
        return await asyncio.to_thread(self._joined.of, shelves), unread

    async def messages_of_a_hook(self) -> int:
        """How many messages a hook gives the triggers of a search: as many as one of them looks at, within bounds."""
        shelf, _unread = await self.with_shared()
        return given_by_a_hook(shelf.triggers.values(), shelf.entries.depth)

    async def search(
        self,
        request: RecallRequest | Sequence[GivenMessage],
        *,
        room: int | None = None,
        given: Collection[str] = (),
    ) -> Activation:
        """Evaluate every trigger of the conversation, of those searched too and of the shared conversation against the
        messages, without the parts marked as recalled. `room`: characters beyond which the texts of books start no
        further entries; texts with a key of `given` (`version_key`) take none, because the reader has them. Without
        messages, as when a chat opens, what asks for a date or for participants can fire. Nothing is changed:
        `keep_firings` does that. Raises InvalidInput: all that the messages say was recalled, or the participants are
        nested too deeply."""
        request = RecallRequest.of(request)
        messages = (*request.earlier, *request.messages)
        said_messages = as_said(messages)
        if messages and not said_messages:
            raise InvalidInput(
                "There are no messages to evaluate triggers against; give the last few."
            )
        if deeper(dict(request.participants)):
            raise InvalidInput(
                "The participants may be nested {deepest} levels deep; remove levels.", DEEPEST
            )
        session = request.session or self._services.session
        occasion = Occasion(
            request,
            said_messages,
            session="" if session is None else session.id,
            room=room,
            given=given,
        )
        shelf, unread = await self.with_shared(request.also)
        moment = await self._moment(occasion)
        filled_memories = _FilledMemories(self._macros(occasion, moment))
        scan = _Scan(self, shelf, occasion, moment, filled_memories)
        verdicts = await scan.run()
        rng = Random(self._services.rng.getrandbits(64))
        by_chance = request.flashbacks
        if by_chance is None:
            by_chance = self._services.parameters.random_long_term
        excluded = scan.excluded_from_chance(verdicts)
        drawn = drawn_by_chance(shelf.memories, excluded, rng=rng, count=by_chance)
        # The rounds have filled the texts of what fired; only those that came by chance are filled here.
        activated = filled_memories.each(shelf.memories[index] for index in scan.rounds.activated)
        random: tuple[Shelved, ...] = ()
        if drawn:
            random = await asyncio.to_thread(filled_memories.each, drawn)
        failed = failed_in({**verdicts, **scan.failed_later}, shelf.memories)
        # As a chat opens, a trigger that reads the last message throws, and nothing is wrong with it.
        if not said_messages:
            failed = tuple(item for item in failed if item[1].kind != "thrown")
        return Activation(
            activated=activated,
            random=random,
            failed=failed,
            searched=len(shelf.memories),
            unread=unread,
            held_back=scan.held_back(),
            chat=Chat(
                occasion.session, moment.messages, is_counted=request.message_count is not None
            ),
            counting=shelf.rules.counting,
            is_complete=scan.is_complete,
        )

    async def keep_firings(
        self, activation: Activation, came: Iterable[Shelved], *, by: str
    ) -> str | None:
        """Note in the state of the chat that these memories were given. Returns a sentence if that could not be
        written."""
        services = self._services
        if not activation.counting or not services.writable or services.paused() is not None:
            return None
        chat = activation.chat
        counting = activation.counting
        keys = counting.keys() & {key_of(shelved) for shelved in came}
        counted = _as_came(sorted(keys, key=lambda key: counting[key].index), counting)
        now_ms = services.clock()

        def decide(state: ConversationState) -> tuple[Sequence[Change], None]:
            before = state.chats.get(chat.session)
            former = ChatState() if before is None else before
            messages = chat.messages if chat.is_counted else former.messages + 1
            others = _as_came(
                [key for key in former.firings if key in counting and key not in keys], counting
            )
            after = advanced(former, counted, others, messages=messages, now_ms=now_ms)
            if chat.is_counted and after.firings == former.firings:
                return (
                    [],
                    None,
                )  # the host counts the messages, so nothing of this recall matters to the next one
            return [ChatMoved.of(chat.session, ChatStep.between(before, after))], None

        try:
            await services.store.update(
                self.conversation_id, decide, by=by, wait_seconds=SEARCH_WAIT_SECONDS
            )
        except (LockTimeout, StorageUnwritable) as error:
            log.warning("the state of a chat was not written: %s", error)
            return _(
                "What came was not counted for cooldowns, because the conversation could not be written in time."
            )
        return None

    async def _moment(self, occasion: Occasion) -> ChatMoment:
        state = await self._services.store.read(self.conversation_id)
        chat = state.chats.get(occasion.session, ChatState())
        counted = occasion.request.message_count
        if counted is None:
            counted = chat.messages + 1
        return ChatMoment(
            messages=counted,
            now_ms=self._services.clock(),
            seed=f"{self.conversation_id}\0{occasion.seed}",
            state=chat,
            characters=characters_of(occasion.request.participants, self.conversation_id),
            room=occasion.room,
        )

    def _macros(self, occasion: Occasion, moment: ChatMoment) -> MacroContext:
        names = {
            "user": user_name(occasion.request.participants),
            "char": character_name(occasion.request.participants),
        }
        return MacroContext(
            now=local(moment.now_ms, self._services.zone),
            names={name: meaning for name, meaning in names.items() if meaning},
            message_seed=moment.seed,
            chat_seed=short_seed(f"{self.conversation_id}\0{occasion.session}"),
        )

    async def _verdicts(
        self,
        shelf: Shelf,
        context: Mapping[str, Any],
        last_fired: Mapping[int, Mapping[str, int]],
        among: Collection[int] | None = None,
    ) -> Mapping[int, Verdict]:
        """Return the verdicts on memories of the shelf by their indexes; those without one are quiet. Entries are
        decided by their keys, all else by the sandbox. `among`: no others are looked at."""
        triggers = shelf.triggers
        if among is not None:
            triggers = {index: triggers[index] for index in among if index in triggers}
        chat = ScannedChat(context, shelf.entries.depth)
        coming: Sequence[int] = ()
        try:
            if chat.chars * len(shelf.entries.places) < _WORTH_A_THREAD_CHARS:
                coming = shelf.entries.coming(chat, among)
            else:
                coming = await asyncio.to_thread(shelf.entries.coming, chat, among)
        except TooMuchText:
            # The sandbox has a limit of time, and names what it could not decide within it.
            entries = (
                shelf.entries.places if among is None else shelf.entries.places.intersection(among)
            )
            triggers = {
                index: shelf.memories[index].memory.trigger
                for index in sorted((*triggers, *entries))
            }
        verdicts: dict[int, Verdict] = dict.fromkeys(coming, Fired(0))

        indexes = list(triggers)
        asking = {
            position: last_fired[index]
            for position, index in enumerate(indexes)
            if index in last_fired
        }
        ran = await self._run(list(triggers.values()), context, asking)
        for position, verdict in ran.items():
            verdicts[indexes[position]] = verdict
        return dict(sorted(verdicts.items()))

    async def _run(
        self,
        triggers: Sequence[str],
        context: Mapping[str, Any],
        last_fired: Mapping[int, Mapping[str, int]],
    ) -> Mapping[int, Verdict]:
        """Return the verdicts of the sandbox on these triggers, by their places."""
        if not triggers:
            return {}
        return await self._services.runner.evaluate(
            triggers,
            context,
            now=moment_of(self._services.clock()),
            seed=self._services.rng.getrandbits(32),
            last_fired=last_fired,
        )

    async def by_words(self, shelf: Shelf, occasion: Occasion) -> list[int]:
        """The indexes of the memories that the messages bring to mind by words."""
        if not shelf.rules.by_words:
            return []
        parameters = self._services.parameters
        wording = parameters.wording.within(self.conversation_id)
        now_ms = self._services.clock()

        def sought() -> list[int]:
            words = other_words_of(occasion.request.other_words, occasion.messages)
            query: RecallQuery = wording.of_query(
                occasion.messages, now_ms, other_words=words.texts
            )
            return found_by_words(
                shelf, query, now_ms=now_ms, parameters=parameters.recall, wording=wording
            )

        return await asyncio.to_thread(sought)

    def _context(
        self, messages: Sequence[Message], participants: Mapping[str, Any], text_of_books: str = ""
    ) -> dict[str, Any]:
        """What a trigger sees (docs/reference/trigger-api.md). `text_of_books`: texts of its book that came, which are
        searched as part of the last message."""
        seen = [_seen(message) for message in messages]
        if seen:
            seen[-1]["content"] = with_text_of_book(seen[-1]["content"], text_of_books)
        return {
            "messages": seen,
            "conversation_id": self.conversation_id,
            "participants": dict(participants),
        }


class _Scan:
    """The rounds of one search."""

    def __init__(
        self,
        search: TriggerSearch,
        shelf: Shelf,
        occasion: Occasion,
        moment: ChatMoment,
        filled_memories: _FilledMemories,
    ) -> None:
        self._search = search
        self._shelf = shelf
        self._occasion = occasion
        self._moment = moment
        self.rounds = FiringRounds(
            shelf.memories,
            shelf.rules,
            moment,
            lambda index: filled_memories.of(shelf.memories[index]).text,
            is_given=self._is_given,
        )
        self.is_complete = True
        """Whether the texts of books were searched to the end."""
        self.failed_later: dict[int, Failed] = {}
        """Triggers that failed on the text of a book, where they could have made their memory come."""

    async def run(self) -> Mapping[int, Verdict]:
        """The verdicts of the first round, after all rounds have been decided."""
        verdicts = await self._search._verdicts(
            self._shelf, self._context_with(""), self._last_fired()
        )
        by_words = await self._search.by_words(self._shelf, self._occasion)
        recursion = Recursion(self.rounds, self._shelf.memories, self)
        self.is_complete = await recursion.run([*fired_in(verdicts), *by_words])
        return verdicts

    def _is_given(self, index: int) -> bool:
        """Whether the reader has this version of the memory."""
        given = self._occasion.given
        return bool(given) and self._shelf.memories[index].version_key in given

    def held_back(self) -> tuple[HeldBackMemory, ...]:
        """What fired in any round and does not come, each with the reason."""
        return tuple(
            HeldBackMemory(self._shelf.memories[index], reason)
            for index, reason in self.rounds.held_back().items()
        )

    def excluded_from_chance(self, verdicts: Mapping[int, Verdict]) -> frozenset[int]:
        """What cannot come by chance: what fired, and what its rules hold back."""
        return frozenset((*fired_in(verdicts), *self.rounds.activated, *self.rounds.barred()))

    async def fired_entries(self, indexes: Sequence[int], text_of_book: str) -> list[int]:
        """Those of the memories whose triggers fire where the last message has this text of a book too."""
        verdicts = await self._search._verdicts(
            self._shelf, self._context_with(text_of_book), self._last_fired(), frozenset(indexes)
        )
        for index, verdict in verdicts.items():
            self.failed_later.pop(index, None)
            if isinstance(verdict, Failed) and self.rounds.may_recurse(index):
                self.failed_later[index] = verdict
        return fired_in(verdicts)

    async def present_keys(
        self, entries: Mapping[int, EntryKeys], text_of_book: str
    ) -> Mapping[int, Collection[str]]:
        """Those of the counted keys of each entry that are in the messages with this text of a book."""
        context = self._context_with(text_of_book)
        chat = ScannedChat(context, max((keys.depth for keys in entries.values()), default=0))
        present: dict[int, set[str]] = {}
        asking: dict[str, list[tuple[int, str]]] = {}
        """The entries and keys of each question that only V8 answers."""
        for index, keys in entries.items():
            present[index] = set()
            for key in () if keys.counted is None else keys.counted.all:
                is_there = chat.answer(keys, key)
                if is_there is None:
                    asking.setdefault(question_of(keys, key), []).append((index, key))
                elif is_there:
                    present[index].add(key)

        questions = list(asking)
        for position in fired_in(await self._search._run(questions, context, {})):
            for index, key in asking[questions[position]]:
                present[index].add(key)
        return present

    def _context_with(self, text_of_book: str) -> dict[str, Any]:
        return self._search._context(
            self._occasion.messages, self._occasion.request.participants, text_of_book
        )

    def _last_fired(self) -> dict[int, Mapping[str, int]]:
        """For each trigger that asks: how many messages and milliseconds ago its memory last came."""
        answers: dict[int, Mapping[str, int]] = {}
        for index in self._shelf.with_last_fired:
            shelved = self._shelf.memories[index]
            firing = self._moment.state.firings.get(key_of(shelved))
            answer = last_fired(firing, self._moment.messages, self._moment.now_ms)
            if answer is not None:
                answers[index] = answer
        return answers


class _FilledMemories:
    """The memories of one search with their macros filled, each once, until the texts have _MOST_FILLED_CHARS together:
    the others stay as they are stored, because no prompt has room for them. Filling is work for a thread."""

    def __init__(self, context: MacroContext) -> None:
        self._context = context
        self._filled: dict[tuple[str, str], Shelved] = {}
        self._chars_left = _MOST_FILLED_CHARS

    def of(self, shelved: Shelved) -> Shelved:
        """The memory with its macros filled."""
        key = (shelved.conversation_id, shelved.name)
        if key in self._filled:
            return self._filled[key]
        if self._chars_left <= 0:
            return shelved
        filled_memory = _filled(shelved, self._context)
        self._filled[key] = filled_memory
        self._chars_left -= max(len(shelved.text), len(filled_memory.text))
        return filled_memory

    def each(self, memories: Iterable[Shelved]) -> tuple[Shelved, ...]:
        """The memories with their macros filled, in their order."""
        return tuple(map(self.of, memories))


def _filled(shelved: Shelved, context: MacroContext) -> Shelved:
    """The memory with the macros of its text filled, if it is from a book: one of the user's own has none. Each memory
    draws for itself, also where two have the same macro in the same place."""
    memory = shelved.memory
    if memory.book is None or not has_macros(memory.prompt):
        return shelved
    of_memory = f"\0{shelved.conversation_id}\0{memory.name}"
    own_context = replace(
        context,
        message_seed=context.message_seed + of_memory,
        chat_seed=context.chat_seed + of_memory,
    )
    return replace(shelved, memory=replace(memory, prompt=filled(memory.prompt, own_context)))


def _seen(message: Message) -> dict[str, Any]:
    """A message as a trigger sees it."""
    fields = {
        "role": message.role,
        "content": message.content,
        "timestamp": message.time_ms,
        "name": message.name,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _as_came(keys: Iterable[str], counting: Mapping[str, Counted]) -> list[Came]:
    """The memories of these keys, each with its rules."""
    return [Came(key, counting[key].rules) for key in keys]
