"""What is remembered of a conversation: each turn, or each exchange, as one memory; and the sessions they are of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from memory_server.core.model import Message
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
    def messages(self) -> tuple[Message, ...]:
        return tuple(turn.message for turn in self.turns)

    @property
    def text(self) -> str:
        """What was said, without who said it."""
        return "\n".join(turn.content for turn in self.turns)

    def holds(self, turn_ids: Collection[str]) -> bool:
        """Whether one of its turns is among these, such as those that are gold."""
        return any(turn.id in turn_ids for turn in self.turns)


def units_of(turns: Iterable[Turn], grain: Grain) -> tuple[Unit, ...]:
    """The memories that these turns make."""
    return tuple(Unit((turn,)) for turn in turns) if grain == "turn" else tuple(_cut(turns, _answered))


def sessions_of(turns: Iterable[Turn]) -> tuple[Unit, ...]:
    """What was said from one pause to the next."""
    return tuple(_cut(turns, lambda _taken, _turn: False))


def _answered(taken: Sequence[Turn], turn: Turn) -> bool:
    """As `memory-server replay` cuts a chat: a new exchange begins with a user's turn after an answer."""
    return turn.role == "user" and any(earlier.role == "assistant" for earlier in taken)


def _cut(turns: Iterable[Turn], anew: Callable[[Sequence[Turn], Turn], bool]) -> Iterator[Unit]:
    """Cut where another conversation or, after a pause, something else begins, and where `anew` says so."""
    taken: list[Turn] = []
    for turn in turns:
        if taken:
            elsewhere = turn.conversation_id != taken[-1].conversation_id
            if elsewhere or turn.time_ms - taken[-1].time_ms > PAUSE_MS or anew(taken, turn):
                yield Unit(tuple(taken))
                taken = []
        taken.append(turn)
    if taken:
        yield Unit(tuple(taken))
