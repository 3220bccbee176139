"""When memories came in a chat, for their rules sticky, cooldown and once. Pure.

A chat is a session of a conversation. It counts messages: a host says how many its chat has, and without that each
recall counts as one. The rules are those of SillyTavern's timed effects (public/scripts/world-info.js): an effect that
began at a message is void if the chat is no longer than it was then, because its answer was swiped or taken back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from memory_server.kernel.json_text import Fields
from memory_server.kernel.text import MOST_NAME_CHARS
from memory_server.kernel.values import frozen
from memory_server.lore.memory import FiringRules

_NO_FIRINGS: Mapping[str, Firing] = MappingProxyType({})

MOST_CHATS = 200
"""Chats of a conversation whose state is kept. The chat with the oldest recall goes first."""
MOST_FIRINGS = 2_000
"""Memories of a chat whose firing is kept, the last ones that came."""


@frozen
class Effect:
    """An effect from the message `start` until before the message `end`. `is_protected`: it began with the end of
    another effect, so it stays though the chat is no longer."""

    start: int
    end: int
    is_protected: bool = False

    def is_void(self, messages: int) -> bool:
        """Return whether the chat went back to where the effect began."""
        return messages <= self.start and not self.is_protected


@frozen
class Firing:
    """When a memory last came: at which message of the chat, and at which time in milliseconds since 1970. `before`:
    the same of the time before that, because the last one may be taken back."""

    message: int
    at_ms: int
    before: tuple[int, int] | None = None
    sticky: Effect | None = None
    cooldown: Effect | None = None

    def earlier_than(self, message: int) -> tuple[int, int] | None:
        """Return message and time at which the memory last came before this message, or None if it did not."""
        if self.message < message:
            return self.message, self.at_ms
        return self.before


@frozen
class ChatState:
    """A chat at its last recall. `messages` is the number of its messages then. `firings` are by the key of the memory
    (`firing_key`)."""

    messages: int = 0
    at_ms: int = 0
    firings: Mapping[str, Firing] = field(default_factory=lambda: _NO_FIRINGS)


@frozen
class TimedEffects:
    """What the state of a chat means for a memory now."""

    is_sticky: bool = False
    is_cooling: bool = False
    is_delayed: bool = False
    is_used_up: bool = False

    @property
    def holds_back(self) -> bool:
        """Whether the memory may not come."""
        return self.is_delayed or self.is_used_up or (self.is_cooling and not self.is_sticky)


def firing_key(name: str, kept_in: str) -> str:
    """Return the key of the memory `name` of the conversation `kept_in` in the state of a chat. It has no word of the
    name, because a memory may be erased in one conversation, and chats of others know it too."""
    return hashlib.blake2b(f"{kept_in}\0{name}".encode(errors="replace"), digest_size=6).hexdigest()


def timed_effects_of(rules: FiringRules, firing: Firing | None, messages: int) -> TimedEffects:
    """Return what the rules mean at this number of messages for a memory that last came as `firing` says."""
    is_delayed = messages < rules.delay
    if firing is None:
        return TimedEffects(is_delayed=is_delayed)
    current = settled(firing, rules, messages)
    return TimedEffects(
        is_sticky=current.sticky is not None,
        is_cooling=current.cooldown is not None,
        is_delayed=is_delayed,
        is_used_up=rules.once and firing.earlier_than(messages) is not None,
    )


def settled(firing: Firing, rules: FiringRules, messages: int) -> Firing:
    """Return the firing with the effects that still last. The end of stickiness begins a cooldown."""
    sticky = _in_force(firing.sticky, rules.sticky, messages)
    cooldown = firing.cooldown
    has_ended = sticky is not None and messages >= sticky.end
    if has_ended:
        sticky = None
        if rules.cooldown:
            cooldown = Effect(messages, messages + rules.cooldown, is_protected=True)
    cooldown = _in_force(cooldown, rules.cooldown, messages)
    if cooldown is not None and messages >= cooldown.end:
        cooldown = None
    return replace(firing, sticky=sticky, cooldown=cooldown)


def _in_force(effect: Effect | None, rule: int, messages: int) -> Effect | None:
    """Return the effect, or None if the chat went back to where it began or its rule was taken away (0)."""
    if effect is None or rule == 0 or effect.is_void(messages):
        return None
    return effect


def last_fired(firing: Firing | None, messages: int, now_ms: int) -> dict[str, int] | None:
    """Return `context.last_fired` in a chat of so many messages, for a memory that last came as `firing` says; None
    if it did not come before the present message."""
    last = None if firing is None else firing.earlier_than(messages)
    if last is None:
        return None
    message, at_ms = last
    return {"messages": messages - message, "ms": now_ms - at_ms}


@frozen
class Came:
    """A memory that came, by its key, with its rules."""

    key: str
    rules: FiringRules


def advanced(
    state: ChatState,
    fired_memories: Iterable[Came],
    others: Iterable[Came],
    *,
    messages: int,
    now_ms: int,
) -> ChatState:
    """Return the state of a chat of `messages` after a recall in which these memories came. `others` are the other
    memories whose effects go on or end. Only the last `MOST_FIRINGS` firings stay."""
    firings = dict(state.firings)
    for memory in others:
        firing = firings.get(memory.key)
        if firing is not None:
            firings[memory.key] = settled(firing, memory.rules, messages)
    for memory in fired_memories:
        firing = firings.pop(memory.key, None)  # it goes to the end, because it came last
        firings[memory.key] = _fired_again(firing, memory.rules, messages=messages, now_ms=now_ms)
    newest = dict(list(firings.items())[-MOST_FIRINGS:])
    return ChatState(messages, now_ms, newest)


def _fired_again(
    firing: Firing | None, rules: FiringRules, *, messages: int, now_ms: int
) -> Firing:
    """Return the firing of a memory that comes now. `firing` is the firing before, if there was one. A present effect
    goes on; otherwise a new effect begins."""
    before: tuple[int, int] | None = None
    sticky: Effect | None = None
    cooldown: Effect | None = None
    if firing is not None:
        before = firing.earlier_than(messages)
        current = settled(firing, rules, messages)
        sticky = current.sticky
        cooldown = current.cooldown
    if rules.sticky and sticky is None:
        sticky = Effect(messages, messages + rules.sticky)
    if rules.cooldown and cooldown is None:
        cooldown = Effect(messages, messages + rules.cooldown)
    return Firing(messages, now_ms, before=before, sticky=sticky, cooldown=cooldown)


@frozen
class ChatStep:
    """What a recall did to the state of a chat: both states with only the firings that differ. `before` is None if no
    state existed, `after` is None if no state remains."""

    before: ChatState | None
    after: ChatState | None

    @staticmethod
    def between(before: ChatState | None, after: ChatState) -> ChatStep:
        """Return the step that leads from one state to the other, with only the firings that differ. `before` is None
        for a new chat."""
        former = before or ChatState()
        keys = former.firings.keys() | after.firings.keys()
        changed = {key for key in keys if former.firings.get(key) != after.firings.get(key)}
        if before is None:
            return ChatStep(None, _only(after, changed))
        return ChatStep(_only(before, changed), _only(after, changed))

    def applied(self, now: ChatState | None) -> ChatState | None:
        """Return the state after this step, or None if the step ends the chat. What other recalls noted meanwhile
        stays."""
        if self.after is None:
            return None
        firings = dict((now or ChatState()).firings)
        for key in (self.before or ChatState()).firings:
            firings.pop(key, None)
        for key, firing in self.after.firings.items():
            firings.pop(key, None)  # it goes to the end, because it came last
            firings[key] = firing
        return replace(self.after, firings=firings)

    def taken_back(self, now: ChatState) -> ChatStep | None:
        """Return the step that undoes this step and leaves what later recalls did, or None if nothing of this step is
        left."""
        if self.after is None:
            return None

        former = self.before or ChatState()
        firings = dict(now.firings)
        for key in former.firings.keys() | self.after.firings.keys():
            was_changed_later = now.firings.get(key) != self.after.firings.get(key)
            if was_changed_later:
                continue
            firings.pop(key, None)
            if key in former.firings:
                firings[key] = former.firings[key]

        is_last_step = (now.messages, now.at_ms) == (self.after.messages, self.after.at_ms)
        # The first recall of the chat is undone, so the chat has no state again.
        if is_last_step and self.before is None and not firings:
            return ChatStep(now, None)

        state = replace(former if is_last_step else now, firings=firings)
        if state == now:
            return None
        return ChatStep.between(now, state)


def _only(state: ChatState, keys: Collection[str]) -> ChatState:
    """Return the state with only the firings of these keys."""
    return replace(
        state, firings={key: firing for key, firing in state.firings.items() if key in keys}
    )


def without_memory(state: ChatState, key: str) -> ChatState:
    """Return the state without a memory that is gone."""
    return replace(
        state, firings={name: firing for name, firing in state.firings.items() if name != key}
    )


_CHARACTERS = ("char", "character", "assistant")
"""The names of the field that says who the character is."""


def name_of(participant: Any) -> str:
    """Return the name of a participant, or the beginning of a long name; empty if it has no name."""
    name = participant.get("name") if isinstance(participant, Mapping) else participant
    return name.strip()[:MOST_NAME_CHARS] if isinstance(name, str) else ""


def user_name(participants: Fields) -> str:
    """Return the name of the user; empty if it was not given."""
    return name_of(participants.get("user"))


def character_name(participants: Fields) -> str:
    """Return the name of the character; empty if it was not given."""
    names = (name_of(participants.get(field)) for field in _CHARACTERS)
    return next(filter(None, names), "")


def characters_of(participants: Fields, conversation_id: str) -> frozenset[str]:
    """Return the names by which a memory may be for this chat: the character's, and the conversation's."""
    return frozenset(filter(None, (character_name(participants), conversation_id)))
