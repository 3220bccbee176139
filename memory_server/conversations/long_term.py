"""Long-term memories of one conversation: store a prompt with its trigger, and see which triggers fire.

A search also evaluates the shared conversation, `default` that all others share, so every chat finds what was stored
without a conversation.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from memory_server.conversations.changes import Change, TriggerRemoved, TriggerSet
from memory_server.conversations.model import ConversationState, LongTermMemory
from memory_server.conversations.recall.activation import Activation, Shelved, activate
from memory_server.conversations.services import Done, Services, refuse_excess
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError, TriggerRejected
from memory_server.kernel.messages import Message, context_text, without_surrogates
from memory_server.kernel.nesting import DEEPEST, deeper
from memory_server.kernel.private import to_keep, without_private
from memory_server.kernel.readers import way
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.times import moment_of
from sandbox import Problem
from sandbox.locale import _

if TYPE_CHECKING:
    from sandbox import TriggerRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TriggerStored(Done):
    """A long-term memory was stored. `warnings` are what may go wrong with its trigger."""

    memory: LongTermMemory
    replaced: bool
    warnings: tuple[Problem, ...]
    total: int
    change_id: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Deleted(Done):
    """A long-term memory was deleted; `remaining` are left."""

    memory: LongTermMemory
    remaining: int
    change_id: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Long-term memories, and their triggers in the same order."""

    memories: Sequence[Shelved]
    triggers: Sequence[str]

    def __add__(self, other: Shelf) -> Shelf:
        return Shelf([*self.memories, *other.memories], [*self.triggers, *other.triggers])


class LongTermManager:
    """Keeps and evaluates triggers for `conversation_id`; `shared_conversation` is the shared conversation, None if
    there is none."""

    def __init__(self, conversation_id: str, services: Services, shared_conversation: str | None) -> None:
        self.conversation_id = conversation_id
        self._services = services
        self._shared_conversation = shared_conversation if shared_conversation != conversation_id else None

    async def add(
        self,
        name: str,
        prompt: str,
        trigger: str,
        *,
        created_context: str | None = None,
        recent: Sequence[Message] = (),
        by: str = "api",
    ) -> TriggerStored:
        """Store a memory under `name`; an existing memory of that name is replaced and keeps its date of creation.
        `recent` are the messages that it comes from: they become its `created_context` if none is given, and the
        trigger is tried on them. Raises MemoryPaused; TriggerRejected: the trigger cannot work; InvalidInput: the name
        or the prompt is empty, or something is too long."""
        self._services.refuse_while_paused()
        name, prompt, trigger = without_surrogates(name), _public(prompt), without_surrogates(trigger)
        if not name.strip() or not prompt.strip():
            raise InvalidInput("A long-term memory needs a name and a prompt; write text for both.")
        context = _said(recent) if created_context is None else _public(created_context)
        now_ms = self._services.clock()
        made = LongTermMemory(name, prompt, trigger, now_ms, context)
        refuse_excess(made)
        warnings = await self._checked(trigger, recent)

        def decide(state: ConversationState) -> tuple[Sequence[Change], TriggerStored]:
            before = state.long_term.get(name)
            memory = made
            if before is not None:
                memory = replace(made, created_ms=before.created_ms, updated_ms=now_ms, extra=before.extra)
            total = len(state.long_term) + (before is None)
            return [TriggerSet(memory, before)], TriggerStored(memory, before is not None, warnings, total)

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def update(
        self,
        name: str,
        *,
        trigger: str | None = None,
        prompt: str | None = None,
        updated_context: str | None = None,
        recent: Sequence[Message] = (),
        by: str = "api",
    ) -> TriggerStored:
        """Change the trigger, the prompt or both of the memory called `name`. Raises MemoryPaused; MemoryNotFound: no
        memory has that name; TriggerRejected: the new trigger cannot work; InvalidInput: there is nothing to change, or
        something is too long."""
        self._services.refuse_while_paused()
        if trigger is None and prompt is None and updated_context is None:
            raise InvalidInput("There is nothing to change; give a new trigger, a new prompt or an updatedContext.")
        prompt, context = (None if text is None else _public(text) for text in (prompt, updated_context))
        trigger = None if trigger is None else without_surrogates(trigger)
        if prompt is not None and not prompt.strip():
            raise InvalidInput("The new prompt is empty; write some text, or delete the memory.")
        await self.get(name)
        context = _said(recent) if context is None and recent else context
        refuse_excess(LongTermMemory(name, prompt or "", trigger or "", 0, updated_context=context))
        warnings = () if trigger is None else await self._checked(trigger, recent)
        now_ms = self._services.clock()

        def decide(state: ConversationState) -> tuple[Sequence[Change], TriggerStored]:
            before = state.long_term.get(name)
            if before is None:
                raise self._missing(name, state)
            memory = replace(
                before,
                prompt=before.prompt if prompt is None else prompt,
                trigger=before.trigger if trigger is None else trigger,
                updated_ms=now_ms,
                updated_context=before.updated_context if context is None else context,
            )
            return [TriggerSet(memory, before)], TriggerStored(memory, True, warnings, len(state.long_term))

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def delete(self, name: str, *, by: str = "api") -> Deleted:
        """Delete the memory called `name`. Raises MemoryNotFound: no memory has that name."""
        await self.get(name)

        def decide(state: ConversationState) -> tuple[Sequence[Change], Deleted]:
            before = state.long_term.get(name)
            if before is None:
                raise self._missing(name, state)
            return [TriggerRemoved(before)], Deleted(before, len(state.long_term) - 1)

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def get(self, name: str) -> LongTermMemory:
        """The memory called `name`. Raises MemoryNotFound: no memory has that name; the message lists the names, or
        says that it is in the shared conversation."""
        state = await self._services.store.read(self.conversation_id)
        if (memory := state.long_term.get(name)) is not None:
            return memory
        own = {id(one) for one in state.long_term.values()}
        shared = {each.memory.name for each in (await self.with_shared())[0].memories if id(each.memory) not in own}
        raise self._missing(name, state, shared)

    async def memories(self) -> tuple[LongTermMemory, ...]:
        """All of them, oldest first."""
        state = await self._services.store.read(self.conversation_id)
        return tuple(sorted(state.long_term.values(), key=lambda memory: (memory.created_ms, memory.name)))

    def record_of(self, memory: LongTermMemory) -> TriggerRecord:
        """How often the memory's trigger did harm since this process began; it is not disabled because of that."""
        return self._services.runner.record_of(memory.trigger)

    async def with_shared(self, also: Sequence[str] = ()) -> tuple[Shelf, dict[str, Path | None]]:
        """All memories that a search evaluates: those of the conversation, then those of the conversations searched
        `also` and of the shared one. And the names of those that cannot be read, with the file: other conversations
        work without them."""
        found, unread = shelf_of(await self._services.store.read(self.conversation_id)), dict[str, Path | None]()
        for name in dict.fromkeys((*also, self._shared_conversation)):
            if name in (None, self.conversation_id):
                continue
            try:
                found += shelf_of(await self._services.store.read(name))
            except StorageError as error:
                log.warning("the triggers of a conversation were not evaluated: %s", error)
                unread[name] = error.path
        return found, unread

    async def search(
        self,
        messages: Sequence[Message],
        *,
        participants: Mapping[str, Any] | None = None,
        also: Sequence[str] = (),
        flashbacks: int | None = None,
    ) -> Activation:
        """Evaluate every trigger of the conversation, of those searched `also` and of the shared one against
        `messages`, without the parts marked as recalled: a recalled birthday was not mentioned now. `flashbacks`: how
        many may come by chance; None: as the parameters say. Raises InvalidInput: there is no message, or the
        participants are nested too deeply."""
        messages = as_said(messages)
        if not messages:
            raise InvalidInput("There are no messages to evaluate triggers against; give the last few.")
        if participants and deeper(dict(participants)):
            raise InvalidInput("The participants may be nested {deepest} levels deep; remove levels.", DEEPEST)
        with_shared, unread = await self.with_shared(also)
        ran = await self._services.runner.evaluate(
            with_shared.triggers,
            self._context(messages, participants or {}),
            now=moment_of(self._services.clock()),
            seed=self._services.rng.getrandbits(32),
        )
        rng = Random(self._services.rng.getrandbits(64))
        by_chance = self._services.parameters.random_long_term if flashbacks is None else flashbacks
        found = activate(with_shared.memories, ran, rng=rng, random_count=by_chance)
        return replace(found, unread=unread)

    async def _checked(self, trigger: str, recent: Sequence[Message]) -> tuple[Problem, ...]:
        if not trigger.strip():
            raise InvalidInput(
                "The trigger is empty; give a JavaScript condition such as `match_keys(context.messages, ['生日'])`."
            )
        report = await self._services.runner.check(
            trigger,
            self._context(recent, {}) if recent else None,
            now=moment_of(self._services.clock()),
            seed=self._services.rng.getrandbits(32),
        )
        if report.errors:
            first = report.errors[0]
            place = _(" at line {line}, column {column}", first.line, first.column) if first.line is not None else ""
            raise TriggerRejected(
                _(
                    "The trigger cannot work and was not stored: {reason}{place}. Correct it and try again.{caret}",
                    first.message,
                    place,
                    f"\n{first.caret}" if first.caret else "",
                ),
                report.errors,
            )
        return report.warnings

    def _context(self, messages: Sequence[Message], participants: Mapping[str, Any]) -> dict[str, Any]:
        """What a trigger sees (docs/reference/trigger-api.md)."""
        given = ({"role": m.role, "content": m.content, "timestamp": m.time_ms, "name": m.name} for m in messages)
        seen = [{name: value for name, value in one.items() if value is not None} for one in given]
        return {"messages": seen, "conversation_id": self.conversation_id, "participants": dict(participants)}

    def _missing(self, name: str, state: ConversationState, shared: Collection[str] = ()) -> MemoryNotFound:
        where = _(
            "No long-term memory is called `{name}` in the conversation `{conversation}`", name, self.conversation_id
        )
        if name in shared:
            return MemoryNotFound(
                "{where}; it is kept in `{shelf}`: give that as conversation_id.", where, self._shared_conversation
            )
        if not state.long_term:
            return MemoryNotFound(
                "{where}, which has no long-term memories; store one with {how}.",
                where,
                way("add_long_term_memory", "memory-server add-trigger"),
            )
        names = ", ".join(f"`{known}`" for known in list(state.long_term)[:10])
        return MemoryNotFound("{where}; use one of its names: {names}.", where, names)


def shelf_of(state: ConversationState) -> Shelf:
    """Made once for each version, because a prompt may search thousands."""
    if state.shelf is None or state.shelf[0] != state.version:
        memories = [Shelved(state.conversation_id, memory) for memory in state.long_term.values()]
        state.shelf = state.version, Shelf(memories, [memory.trigger for memory in state.long_term.values()])
    shelf: Shelf = state.shelf[1]
    return shelf


def _public(text: str) -> str:
    return without_surrogates(without_private(text))


def _said(recent: Sequence[Message]) -> str:
    return without_surrogates(context_text(to_keep(as_said(recent))))
