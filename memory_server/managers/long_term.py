"""Long-term memories of one conversation: store a prompt with its trigger, and see which triggers fire.

A search also evaluates the memories of the shelf, the conversation `default` that all others share, so that
what was stored without a conversation is found from every chat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any

from memory_server.changes import Change, TriggerRemoved, TriggerSet
from memory_server.errors import InvalidInput, MemoryNotFound, TriggerRejected
from memory_server.managers.surroundings import Surroundings
from memory_server.model import ConversationState, LongTermMemory, Message, context_text, without_surrogates
from memory_server.recall.activation import Activation, Shelved, activate
from memory_server.recalled_block import as_said
from memory_server.times import moment_of
from memory_server.undo import change_id
from sandbox import Problem

if TYPE_CHECKING:
    from sandbox import Offences

MAX_NAME_CHARS = 200
"""Characters of a long-term memory's name: it is a title, the prompt is the text."""


@dataclass(frozen=True, slots=True)
class TriggerStored:
    """A long-term memory was stored. `warnings` are what may go wrong with its trigger."""

    memory: LongTermMemory
    replaced: bool
    warnings: tuple[Problem, ...]
    total: int
    change_id: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """A long-term memory was deleted; `remaining` are left."""

    memory: LongTermMemory
    remaining: int
    change_id: str


class LongTermManager:
    """Keeps and evaluates triggers for `conversation_id`; `shelf` is the shared one, None for none."""

    def __init__(self, conversation_id: str, surroundings: Surroundings, shelf: str | None) -> None:
        self.conversation_id = conversation_id
        self._around = surroundings
        self._shelf = shelf if shelf != conversation_id else None

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
        """Store a memory under `name`; one of that name is replaced and keeps its date of creation.

        `recent` are the messages it arose from: they become its `created_context` where none is given, and
        the trigger is tried on them.

        Raises:
            TriggerRejected: the trigger cannot work; nothing was stored.
            InvalidInput: the name or the prompt is empty, or the name too long.
            StorageError: nothing was stored.
        """
        name, prompt, trigger = map(without_surrogates, (name, prompt, trigger))
        if not name.strip() or not prompt.strip():
            raise InvalidInput("A long-term memory needs a name and a prompt; give both some text.")
        if len(name) > MAX_NAME_CHARS:
            raise InvalidInput(
                f"The name has {len(name)} characters; use at most {MAX_NAME_CHARS} and put the rest into the prompt."
            )
        warnings = await self._checked(trigger, recent)
        context = without_surrogates(context_text(recent) if created_context is None else created_context)
        now_ms = self._around.clock()

        def decide(state: ConversationState) -> tuple[Sequence[Change], TriggerStored]:
            before = state.long_term.get(name)
            memory = LongTermMemory(name, prompt, trigger, now_ms, context)
            if before is not None:
                memory = replace(memory, created_ms=before.created_ms, updated_ms=now_ms, extra=before.extra)
            total = len(state.long_term) + (before is None)
            done = TriggerStored(memory, before is not None, warnings, total, self._next_change(state))
            return [TriggerSet(memory, before)], done

        return await self._around.store.update(self.conversation_id, decide, by=by)

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
        """Change the trigger, the prompt or both of the memory called `name`.

        Raises:
            MemoryNotFound: there is none of that name.
            TriggerRejected: the new trigger cannot work; nothing was changed.
            InvalidInput: there is nothing to change.
            StorageError: nothing was changed.
        """
        if trigger is None and prompt is None and updated_context is None:
            raise InvalidInput("There is nothing to change; give a new trigger, a new prompt or an updatedContext.")
        if prompt is not None and not prompt.strip():
            raise InvalidInput("The new prompt is empty; give it some text, or delete the memory.")
        await self.get(name)
        warnings = () if trigger is None else await self._checked(trigger, recent)
        context = context_text(recent) if updated_context is None and recent else updated_context
        prompt, trigger, context = (None if x is None else without_surrogates(x) for x in (prompt, trigger, context))
        now_ms = self._around.clock()

        def decide(state: ConversationState) -> tuple[Sequence[Change], TriggerStored]:
            before = state.long_term.get(name)
            if before is None:
                raise self._missing(name, state, None)
            memory = replace(
                before,
                prompt=before.prompt if prompt is None else prompt,
                trigger=before.trigger if trigger is None else trigger,
                updated_ms=now_ms,
                updated_context=before.updated_context if context is None else context,
            )
            done = TriggerStored(memory, True, warnings, len(state.long_term), self._next_change(state))
            return [TriggerSet(memory, before)], done

        return await self._around.store.update(self.conversation_id, decide, by=by)

    async def delete(self, name: str, *, by: str = "api") -> Deleted:
        """Delete the memory called `name`.

        Raises:
            MemoryNotFound: there is none of that name.
            StorageError: nothing was deleted.
        """
        await self.get(name)

        def decide(state: ConversationState) -> tuple[Sequence[Change], Deleted]:
            before = state.long_term.get(name)
            if before is None:
                raise self._missing(name, state, None)
            done = Deleted(before, len(state.long_term) - 1, self._next_change(state))
            return [TriggerRemoved(before)], done

        return await self._around.store.update(self.conversation_id, decide, by=by)

    async def get(self, name: str) -> LongTermMemory:
        """The memory called `name`.

        Raises:
            MemoryNotFound: there is none of that name; the message says which there are, and where it is kept
                if it lies on the shelf.
        """
        state = await self._around.store.read(self.conversation_id)
        if (memory := state.long_term.get(name)) is not None:
            return memory
        shelf = None if self._shelf is None else await self._around.store.read(self._shelf)
        raise self._missing(name, state, shelf)

    async def memories(self) -> tuple[LongTermMemory, ...]:
        """All of them, oldest first."""
        state = await self._around.store.read(self.conversation_id)
        return tuple(sorted(state.long_term.values(), key=lambda memory: (memory.created_ms, memory.name)))

    def record_of(self, memory: LongTermMemory) -> Offences:
        """How often the memory's trigger did harm since this process began; it is never disabled for it."""
        return self._around.runner.record_of(memory.trigger)

    async def shelved(self) -> list[Shelved]:
        """All that a search evaluates: the memories of the conversation, then those of the shelf."""
        return [
            Shelved(conversation_id, memory)
            for conversation_id in (self.conversation_id, self._shelf)
            if conversation_id is not None
            for memory in (await self._around.store.read(conversation_id)).long_term.values()
        ]

    async def search(self, messages: Sequence[Message], *, participants: Mapping[str, Any] | None = None) -> Activation:
        """Evaluate every trigger of the conversation and of the shelf against `messages`, without what is marked in
        them as recalled: a birthday that was recalled is not one that was mentioned.

        Raises:
            InvalidInput: there is no message.
        """
        messages = as_said(messages)
        if not messages:
            raise InvalidInput("There are no messages to evaluate triggers against; give the last few.")
        shelved = await self.shelved()
        verdicts = await self._around.runner.evaluate(
            [item.memory.trigger for item in shelved],
            self._context(messages, participants or {}),
            now=self._now(),
            seed=self._around.rng.getrandbits(32),
        )
        rng = Random(self._around.rng.getrandbits(64))
        return activate(shelved, verdicts, rng=rng, random_count=self._around.parameters.random_long_term)

    async def _checked(self, trigger: str, recent: Sequence[Message]) -> tuple[Problem, ...]:
        if not trigger.strip():
            raise InvalidInput(
                "The trigger is empty; give a JavaScript condition such as `match_keys(context.messages, ['生日'])`."
            )
        report = await self._around.runner.check(
            trigger,
            self._context(recent, {}) if recent else None,
            now=self._now(),
            seed=self._around.rng.getrandbits(32),
        )
        if report.errors:
            first = report.errors[0]
            place = f" at line {first.line}, column {first.column}" if first.line is not None else ""
            raise TriggerRejected(
                f"The trigger cannot work and was not stored: {first.message}{place}. Correct it and try again."
                + (f"\n{first.caret}" if first.caret else ""),
                report.errors,
            )
        return report.warnings

    def _context(self, messages: Sequence[Message], participants: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "messages": [_as_trigger_sees(message) for message in messages],
            "conversation_id": self.conversation_id,
            "participants": dict(participants),
        }

    def _next_change(self, state: ConversationState) -> str:
        return change_id(self.conversation_id, state.version + 1)

    def _now(self) -> datetime:
        return moment_of(self._around.clock())

    def _missing(self, name: str, state: ConversationState, shelf: ConversationState | None) -> MemoryNotFound:
        where = f"No long-term memory is called `{name}` in the conversation `{self.conversation_id}`"
        if shelf is not None and name in shelf.long_term:
            return MemoryNotFound(f"{where}; it is kept in `{self._shelf}`, so pass that as conversation_id.")
        if not state.long_term:
            return MemoryNotFound(f"{where}, which holds none; store it with add_long_term_memory.")
        names = ", ".join(f"`{known}`" for known in list(state.long_term)[:10])
        return MemoryNotFound(f"{where}; it holds {names}. Use one of these names.")


def _as_trigger_sees(message: Message) -> dict[str, Any]:
    """A message in the shape of the trigger API (docs/reference/trigger-api.md)."""
    seen: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.time_ms is not None:
        seen["timestamp"] = message.time_ms
    if message.name is not None:
        seen["name"] = message.name
    return seen
