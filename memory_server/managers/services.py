"""What every manager of a process shares: the store, who runs triggers, the constants, time and chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from random import Random

from memory_server.core.errors import MemoryPaused
from memory_server.core.meter import Meter
from memory_server.core.model import Session
from memory_server.core.pause import Pause
from memory_server.core.ports import ConversationStore, TriggerRunner
from memory_server.recall.parameters import Parameters
from memory_server.recall.prompt_lines import Language

OWN, ALL = "conversation", "all"
"""Scopes of a search that need no group: the conversation it is made in, and every one of the store."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`clock` gives milliseconds since 1970; `scope` and `groups` (patterns of ids by name) say which conversations a
    search looks at; `zone` and `language` are those of the readers (None: the system's, and that of the memories).
    `brief`: this process asks once, so an index would not pay. `writable`: a search may reinforce. `session` is the one
    in which things are said and asked where a call names none; None: it is not known. `paused` gives the pause that
    lasts now. `meter` counts what is done."""

    store: ConversationStore
    runner: TriggerRunner
    parameters: Parameters
    clock: Callable[[], int]
    rng: Random
    scope: str = OWN
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    zone: tzinfo | None = None
    language: Language | None = None
    brief: bool = False
    writable: bool = True
    session: Session | None = None
    paused: Callable[[], Pause | None] = lambda: None
    meter: Meter = field(default_factory=Meter)

    def refuse_while_paused(self) -> None:
        """Let something be stored only where nobody has paused this memory.

        Raises:
            MemoryPaused: somebody has.
        """
        if (pause := self.paused()) is not None:
            raise MemoryPaused(f"Memory is {pause.text(self.zone)}; nothing was stored.")
