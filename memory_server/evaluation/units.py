"""What is remembered of a conversation: each turn, or each exchange, as one memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from memory_server.evaluation.dataset import Turn
from memory_server.recall.parameters import MINUTE_MS

Grain = Literal["exchange", "turn"]
GRAINS: tuple[Grain, ...] = get_args(Grain)

PAUSE_MS = 60 * MINUTE_MS
"""A pause after which something new begins, whoever spoke last: longer than any answer takes."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of one conversation that becomes one memory, named by its first turn. `turns` is never empty."""

    turns: tuple[Turn, ...]

    @property
    def id(self) -> str:
        return self.turns[0].id

    @property
    def conversation_id(self) -> str:
        return self.turns[0].conversation_id

    @property
    def time_ms(self) -> int:
        """The time of its last turn, as for a memory of the server."""
        return self.turns[-1].time_ms

    @property
    def text(self) -> str:
        """What was said, without who said it."""
        return "\n".join(turn.content for turn in self.turns)

    def answers(self, gold: frozenset[str]) -> bool:
        """Whether one of its turns is gold."""
        return any(turn.id in gold for turn in self.turns)


def units_of(turns: Iterable[Turn], grain: Grain) -> tuple[Unit, ...]:
    """The memories that these turns make."""
    return tuple(Unit((turn,)) for turn in turns) if grain == "turn" else tuple(_exchanges(turns))


def _exchanges(turns: Iterable[Turn]) -> Iterator[Unit]:
    """As `memory-server replay` cuts a chat: a new one begins with a user's turn after an answer."""
    taken: list[Turn] = []
    for turn in turns:
        if taken:
            answered = turn.role == "user" and any(earlier.role == "assistant" for earlier in taken)
            elsewhere = turn.conversation_id != taken[-1].conversation_id
            if answered or elsewhere or turn.time_ms - taken[-1].time_ms > PAUSE_MS:
                yield Unit(tuple(taken))
                taken = []
        taken.append(turn)
    if taken:
        yield Unit(tuple(taken))
