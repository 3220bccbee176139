"""How a long-term memory competes with others once its trigger is true, and when it may come again in a chat. Values
only; rounds.py decides by them, and rule_fields.py has their JSON.

The meanings are the same as in SillyTavern's world info (public/scripts/world-info.js), from which most such memories
come.
"""

from __future__ import annotations

from dataclasses import field

from memory_server.kernel.values import dataclass

USUAL_ORDER = 100.0
"""The order of a memory that names none, and its weight in a group."""
OF_CHAT, OF_PERSONA, USUAL_PRECEDENCE, LATER_PRECEDENCE = range(4)
"""The precedence of the books of a chat, of a persona, of what SillyTavern lets come first of the books of a character
and of the books for all chats (and of memories that name none), and of the rest of these."""
MOST_GROUPS = 20
MOST_RULE_CHARS = 1_000
"""Groups of a memory, and characters of a name in its rules, at most: more of them no editor writes."""


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The inclusion groups of a memory: if several of a group fire together, only one comes. `weight`: its share in the
    draw. `overrides`: among members with it, the highest order wins without a draw. `is_scored`: it loses before the
    draw if fewer of its keys are in the messages than of another member."""

    names: tuple[str, ...] = ()
    weight: float = USUAL_ORDER
    overrides: bool = False
    is_scored: bool = False


@dataclass(frozen=True, slots=True)
class RecursionRules:
    """How a memory of a book takes part in the search of texts that came. `is_on`: whether its book searches them at
    all. `is_excluded`: no such text makes it fire. `is_prevented`: its own text makes none fire. `level`: it waits for
    the rounds of recursion from this one on; 0: it does not wait. `most_rounds`: it fires only in the first so many
    rounds, counting the round of the messages; 0 means in all rounds."""

    is_on: bool = False
    is_excluded: bool = False
    is_prevented: bool = False
    level: int = 0
    most_rounds: int = 0


@dataclass(frozen=True, slots=True)
class CharacterRule:
    """The characters for whom a memory is, or with `is_exclude` is not; no names: it is for all."""

    names: tuple[str, ...] = ()
    is_exclude: bool = False

    def admits(self, characters: frozenset[str]) -> bool:
        """Return whether the memory may come in a chat with these characters."""
        if not self.names:
            return True
        return characters.isdisjoint(self.names) == self.is_exclude


@dataclass(frozen=True, slots=True)
class FiringRules:
    """The rules of a memory. `precedence`: a memory with a lower number takes room first; with equal numbers, a memory
    with a higher order does. `sticky`, `cooldown` and `delay` count messages of a chat. `sticky`: it stays for so many,
    including the message at which it came. `cooldown`: it comes again so many later at the earliest; after its
    stickiness, it stays away for so many. `delay`: it does not come before the chat has so many. `once`: it comes in
    one message of a chat. `by_words`: it also comes where the messages bring its words to mind, and `other_words` are
    texts by which they may. `is_off`: its owner has it switched off."""

    order: float = USUAL_ORDER
    precedence: int = USUAL_PRECEDENCE
    group: GroupRules = field(default_factory=GroupRules)
    probability: float = 100.0
    sticky: int = 0
    cooldown: int = 0
    delay: int = 0
    once: bool = False
    ignores_budget: bool = False
    recursion: RecursionRules = field(default_factory=RecursionRules)
    characters: CharacterRule = field(default_factory=CharacterRule)
    by_words: bool = False
    other_words: tuple[str, ...] = ()
    is_off: bool = False

    @property
    def needs_chat_state(self) -> bool:
        """Whether it counts when the memory came in this chat, or how many messages the chat has."""
        return bool(self.sticky or self.cooldown or self.delay or self.once)


LAST_FIRED = "last_fired"
"""What a trigger reads that asks when its memory last came: `context.last_fired`."""
PLAIN = FiringRules()
"""The rules of a memory that names none."""
