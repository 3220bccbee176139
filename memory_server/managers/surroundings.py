"""What every manager of a process shares: the store, who runs triggers, the constants, time and chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from memory_server.ports import ConversationStore, TriggerRunner
from memory_server.recall.parameters import Parameters


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`clock` gives milliseconds since 1970."""

    store: ConversationStore
    runner: TriggerRunner
    parameters: Parameters
    clock: Callable[[], int]
    rng: Random
