"""Long-term memories of a conversation: store a prompt with its trigger, and see which triggers fire.

A search also evaluates the shared conversation, `default` that all others share, so every chat finds what was stored
without a conversation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from languages import Sentence, _
from memory_server.conversations.changes import Change, ChatMoved
from memory_server.conversations.model import ConversationState
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.search import SEARCH_WAIT_SECONDS
from memory_server.conversations.services import Done, Services, refuse_excess
from memory_server.conversations.trigger_search import (
    Activation,
    Occasion,
    TriggerSearch,
    trigger_context,
)
from memory_server.kernel.errors import (
    InvalidInput,
    LockTimeout,
    MemoryNotFound,
    StorageError,
    StorageUnwritable,
    TriggerRejected,
)
from memory_server.kernel.json_text import DEEPEST, deeper, without_surrogates
from memory_server.kernel.messages import GivenMessage, Message, context_text, messages_of
from memory_server.kernel.private import to_keep, without_private
from memory_server.kernel.readers import way
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.times import moment_of
from memory_server.kernel.values import frozen
from memory_server.lore import (
    NO_RULES,
    PLAIN,
    Came,
    ChatState,
    ChatStep,
    FiringRules,
    GivenRules,
    JoinedShelves,
    LongTermMemory,
    Shelf,
    Shelved,
    TimedEntry,
    TriggerRemoved,
    TriggerSet,
    advanced,
    key_of,
    shelf_of,
)
from sandbox import Problem, given_by_a_hook

if TYPE_CHECKING:
    from sandbox import TriggerRecord


log = logging.getLogger(__name__)
_WORTH_A_THREAD = 2_000
"""Memories of several conversations that take some 10 ms to be put together."""
_MOST_NAMED = 10
"""Names of memories in an error, at most."""


@frozen
class TriggerStored(Done):
    """A long-term memory was stored. `warnings` are what may go wrong with its trigger."""

    memory: LongTermMemory
    replaced: bool
    warnings: tuple[Problem, ...]
    total: int
    change_id: str = field(default="", kw_only=True)


@frozen
class Deleted(Done):
    """A long-term memory was deleted; `remaining` are left."""

    memory: LongTermMemory
    remaining: int
    change_id: str = field(default="", kw_only=True)


class LongTermManager:
    """Keeps and evaluates the triggers of `conversation_id`; `shared_conversation` is the id of the shared
    conversation, or None."""

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
        """Return all memories that a search evaluates, of the conversation, of `also` and of the shared conversation;
        and the others that cannot be read, with the file, which are named in the log too. Raises StorageError if this
        conversation cannot be read."""
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

        # Joining large shelves takes long enough to hold up other calls.
        return await asyncio.to_thread(self._joined.of, shelves), unread

    async def messages_of_a_hook(self) -> int:
        """Return how many messages a hook gives the triggers of a search: as many as the triggers look at, within
        bounds."""
        shelf, _unread = await self.with_shared()
        return given_by_a_hook(shelf.triggers.values(), shelf.entries.depth)

    async def search(
        self,
        request: RecallRequest | Sequence[GivenMessage],
        *,
        room: int | None = None,
        given: Collection[str] = (),
    ) -> Activation:
        """Evaluate every trigger of the conversation, of those searched too and of the shared one. Parts of
        messages that are marked as recalled do not count. `room`: characters beyond which the
        texts of books start no further entries; texts with a key of `given` (`version_key`) take none, because the
        reader has them. Without messages, as when a chat opens, what asks for a date or for participants can fire.
        Nothing is changed: `keep_firings` does that. Raises InvalidInput: all that the messages say was recalled, or
        the participants are nested too deeply."""
        request = RecallRequest.of(request)
        messages = (*request.earlier, *request.messages)
        said_messages = as_said(messages)

        # All of them are marked as recalled; a chat that opens has none at all, and goes on.
        if messages and not said_messages:
            raise InvalidInput(
                "There are no messages to evaluate triggers against; give the last few."
            )
        if request.participants and deeper(dict(request.participants)):
            raise InvalidInput(
                "The participants may be nested {deepest} levels deep; remove levels.", DEEPEST
            )

        session = request.session or self._services.session
        session_id = "" if session is None else session.id
        shelf, unread = await self.with_shared(request.also)

        state = await self._services.store.read(self.conversation_id)

        occasion = Occasion(
            self.conversation_id,
            request,
            said_messages,
            session=session_id,
            chat=state.chats.get(session_id, ChatState()),
            room=room,
            given=given,
        )
        activation = await TriggerSearch(self._services, shelf, occasion).activation()
        return replace(activation, unread=unread)

    async def keep_firings(
        self, activation: Activation, came: Iterable[Shelved], *, by: str
    ) -> str | None:
        """Note in the state of the chat that these memories were given. Do nothing if no memory has rules that count,
        during a pause, or where nothing can be written. Return a sentence if it was not written in time, else
        None."""
        services = self._services
        if not activation.counting or not services.writable or services.paused() is not None:
            return None
        chat = activation.chat
        counting = activation.counting
        keys = counting.keys() & {key_of(shelved) for shelved in came}
        counted = _as_came(sorted(keys, key=lambda key: counting[key].index), counting)
        now_ms = services.clock()

        def decide(state: ConversationState) -> tuple[Sequence[Change], None]:
            """Move the state of the chat on by this search; no change if the host counts the
            messages and nothing with rules came."""
            before = state.chats.get(chat.session)
            former = ChatState() if before is None else before
            messages = chat.messages if chat.is_counted else former.messages + 1
            others = _as_came(
                [key for key in former.firings if key in counting and key not in keys], counting
            )
            after = advanced(former, counted, others, messages=messages, now_ms=now_ms)
            if chat.is_counted and after.firings == former.firings:
                # The host counts the messages, so nothing of this recall matters to the next one.
                return [], None
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

    async def add(
        self,
        name: str,
        prompt: str,
        trigger: str,
        *,
        created_context: str | None = None,
        recent: Sequence[GivenMessage] = (),
        rules: FiringRules | GivenRules = NO_RULES,
        by: str = "api",
    ) -> TriggerStored:
        """Store a memory under `name`. An existing memory of that name is replaced and keeps its date of creation,
        its book and its rules. `rules` has the rules that change, or all of them. `recent` are the messages that it
        comes from: they become its `created_context` if none is given, and the trigger is tried on them. Raises
        MemoryPaused; TriggerRejected if the trigger cannot work; InvalidInput if the name or the prompt is empty,
        something is too long, or a rule has a value that it cannot have."""
        self._services.refuse_while_paused()
        name = self._services.secrets.of(without_surrogates(name))
        prompt = self._public(prompt)
        trigger = self._services.secrets.of(without_surrogates(trigger))
        if not name.strip() or not prompt.strip():
            raise InvalidInput("A long-term memory needs a name and a prompt; write text for both.")

        # The context shows later readers why the memory was stored.
        recent_messages = messages_of(recent)
        context = (
            self._text_of(recent_messages)
            if created_context is None
            else self._public(created_context)
        )

        now_ms = self._services.clock()
        new_memory = LongTermMemory(
            name,
            prompt,
            trigger,
            created_ms=now_ms,
            created_context=context,
            rules=_ruled(PLAIN, rules),
        )
        refuse_excess(new_memory)

        # Outside the lock, because the sandbox takes time.
        warnings = await self._checked(trigger, recent_messages)

        def decide(state: ConversationState) -> tuple[Sequence[Change], TriggerStored]:
            """Store the memory; if its name is there by now, replace that memory. The new one keeps its age, book and
            fields, its rules as `rules` changes them, and its keys if the trigger is the same."""
            # Under the lock: another process may have stored this name while the trigger was tried.
            before = state.long_term.get(name)
            memory = new_memory
            if before is not None:
                memory = replace(
                    new_memory,
                    created_ms=before.created_ms,
                    updated_ms=now_ms,
                    rules=_ruled(before.rules, rules),
                    book=before.book,
                    keys=before.keys,
                    extra=before.extra,
                )
                memory = _with_own_trigger(memory, before)

            is_replaced = before is not None
            total = len(state.long_term) if is_replaced else len(state.long_term) + 1
            stored = TriggerStored(memory, replaced=is_replaced, warnings=warnings, total=total)
            return [TriggerSet(memory, before)], stored

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def update(
        self,
        name: str,
        *,
        trigger: str | None = None,
        prompt: str | None = None,
        updated_context: str | None = None,
        recent: Sequence[GivenMessage] = (),
        rules: FiringRules | GivenRules = NO_RULES,
        by: str = "api",
    ) -> TriggerStored:
        """Change the trigger, the prompt, the context or rules of a memory. `recent` are messages: they become its
        `updated_context` if none is given, and a new trigger is tried on them. Raises MemoryPaused; MemoryNotFound:
        no memory has that name; TriggerRejected: the new trigger cannot work; InvalidInput: there is nothing to
        change, something is too long, or a rule has a value that it cannot have."""
        self._services.refuse_while_paused()
        if trigger is None and prompt is None and updated_context is None and rules == NO_RULES:
            raise InvalidInput(
                "There is nothing to change; give a new trigger, a new prompt or an updatedContext."
            )
        _ruled(PLAIN, rules)  # refused before anything is read or tried
        recent_messages = messages_of(recent)

        changed: dict[str, Any] = {}
        """The fields that change, with their texts."""
        if prompt is not None:
            changed["prompt"] = self._public(prompt)
            if not changed["prompt"].strip():
                raise InvalidInput(
                    "The new prompt is empty; write some text, or delete the memory."
                )
        if trigger is not None:
            changed["trigger"] = self._services.secrets.of(without_surrogates(trigger))
        if updated_context is not None:
            changed["updated_context"] = self._public(updated_context)
        elif recent_messages:
            changed["updated_context"] = self._text_of(recent_messages)

        # Before the trigger is tried, which takes longer: an unknown name fails at once.
        await self.get(name)
        unchanged = LongTermMemory(name, prompt="", trigger="", created_ms=0)
        refuse_excess(replace(unchanged, **changed))

        warnings: tuple[Problem, ...] = ()
        if trigger is not None:
            warnings = await self._checked(changed["trigger"], recent_messages)
        now_ms = self._services.clock()

        def decide(state: ConversationState) -> tuple[Sequence[Change], TriggerStored]:
            """Change the memory as it is now. Raises MemoryNotFound if it was removed meanwhile."""
            before = state.long_term.get(name)
            if before is None:
                raise self._missing(name, state)

            memory = replace(
                before, updated_ms=now_ms, rules=_ruled(before.rules, rules), **changed
            )
            memory = _with_own_trigger(memory, before)
            stored = TriggerStored(
                memory, replaced=True, warnings=warnings, total=len(state.long_term)
            )
            return [TriggerSet(memory, before)], stored

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def delete(self, name: str, *, by: str = "api") -> Deleted:
        """Delete a memory. Raises MemoryNotFound: no memory has that name."""
        await self.get(name)

        def decide(state: ConversationState) -> tuple[Sequence[Change], Deleted]:
            before = state.long_term.get(name)
            if before is None:
                raise self._missing(name, state)
            return [TriggerRemoved(before)], Deleted(before, len(state.long_term) - 1)

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def get(self, name: str) -> LongTermMemory:
        """Return the memory with this name. Raises MemoryNotFound, whose message lists the names, or says that the
        memory is in the shared conversation."""
        state = await self._services.store.read(self.conversation_id)
        memory = state.long_term.get(name)
        if memory is not None:
            return memory
        shelf, _unread = await self.with_shared()
        own = {id(memory) for memory in state.long_term.values()}
        shared_names = {
            shelved.memory.name for shelved in shelf.all if id(shelved.memory) not in own
        }
        raise self._missing(name, state, shared_names)

    async def memories(self) -> tuple[LongTermMemory, ...]:
        """All of them, oldest first."""
        state = await self._services.store.read(self.conversation_id)
        return tuple(
            sorted(state.long_term.values(), key=lambda memory: (memory.created_ms, memory.name))
        )

    def record_of(self, memory: LongTermMemory) -> TriggerRecord:
        """Return how often the memory's trigger failed since this process began; it stays enabled."""
        return self._services.runner.record_of(memory.trigger)

    async def _checked(self, trigger: str, recent: Sequence[Message]) -> tuple[Problem, ...]:
        """Return the warnings about a trigger, which runs on `recent` messages if there are any.
        Raises InvalidInput if it is empty, TriggerRejected if it has an error, TriggersUnavailable
        if triggers cannot run now."""
        if not trigger.strip():
            raise InvalidInput(
                "The trigger is empty; give a JavaScript condition such as `match_keys(context.messages, ['生日'])`."
            )

        # Without recent messages there is nothing to try the trigger on.
        context = trigger_context(recent, self.conversation_id, {}) if recent else None
        report = await self._services.runner.check(
            trigger,
            context,
            now=moment_of(self._services.clock()),
            seed=self._services.rng.getrandbits(32),
        )

        # Warnings do not stop the storing; an error means that the trigger cannot work.
        if report.errors:
            first = report.errors[0]
            position_text: Sentence | str = ""
            if first.line is not None:
                position_text = Sentence(
                    " at line {line}, column {column}", first.line, first.column
                )

            raise TriggerRejected(
                Sentence(
                    "The trigger cannot work and was not stored: {reason}{place}. Correct it and try again.{caret}",
                    first.sentence or first.message,
                    position_text,
                    f"\n{first.caret}" if first.caret else "",
                ),
                report.errors,
            )
        return report.warnings

    def _public(self, text: str) -> str:
        """Return what of a text may be stored."""
        return self._services.secrets.of(without_surrogates(without_private(text)))

    def _text_of(self, recent: Sequence[Message]) -> str:
        """Return what of the messages may be stored, as one text."""
        public_text = context_text(to_keep(as_said(recent)))
        return self._services.secrets.of(without_surrogates(public_text))

    def _missing(
        self, name: str, state: ConversationState, shared: Collection[str] = ()
    ) -> MemoryNotFound:
        """Return the error for a name that no memory of `state` has. It names the shared
        conversation if `shared` has the name; else names that exist, or how to store a memory if
        there are none."""
        where = _(
            "No long-term memory is called `{name}` in the conversation `{conversation}`",
            name,
            self.conversation_id,
        )

        # The usual mistake: the memory exists, but in the shared conversation.
        if name in shared:
            return MemoryNotFound(
                "{where}; it is kept in `{shelf}`: give that as conversation_id.",
                where,
                self._shared_conversation,
            )
        if not state.long_term:
            return MemoryNotFound(
                "{where}, which has no long-term memories; store one with {how}.",
                where,
                way("add_long_term_memory", "memory-server add-trigger"),
            )

        names = ", ".join(f"`{other_name}`" for other_name in list(state.long_term)[:_MOST_NAMED])
        return MemoryNotFound("{where}; use one of its names: {names}.", where, names)


def _with_own_trigger(memory: LongTermMemory, before: LongTermMemory) -> LongTermMemory:
    """Drop the keys of the memory's book if its trigger is no longer the trigger that was written from them."""
    return memory if memory.trigger == before.trigger else replace(memory, keys=None)


def _ruled(before: FiringRules, rules: FiringRules | GivenRules) -> FiringRules:
    """Apply `rules` to the rules of a memory, which are `before`. Raises InvalidInput if `rules` has another type,
    such as a dict from a program that checks no types."""
    if isinstance(rules, GivenRules):
        return rules.applied_to(before)
    if isinstance(rules, FiringRules):
        return rules
    raise InvalidInput(
        "`rules` is FiringRules(…) or GivenRules(…), and not a {type}; write FiringRules(once=True), for example.",
        type(rules).__name__,
    )


def _as_came(keys: Iterable[str], counting: Mapping[str, TimedEntry]) -> list[Came]:
    """Pair the keys of memories with their rules."""
    return [Came(key, counting[key].rules) for key in keys]
