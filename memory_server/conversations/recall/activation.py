"""Which long-term memories come: those whose trigger fired, and some by chance
(docs/reference/trigger-api.md). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from memory_server.conversations.model import LongTermMemory
from sandbox import Failed, Fired, Verdict


@dataclass(frozen=True, slots=True)
class Shelved:
    """A long-term memory and the conversation it is kept in."""

    conversation_id: str
    memory: LongTermMemory


@dataclass(frozen=True, slots=True)
class Activation:
    """The answer of one search: what fired, what came by chance, what failed and how. `unread` are conversations whose
    triggers could not be read, with the file. tools/long_term.py shows it, memories/turns.py puts it into a prompt, and
    memories/recalls.py into the record of recalls."""

    activated: tuple[Shelved, ...]
    random: tuple[Shelved, ...]
    failed: tuple[tuple[Shelved, Failed], ...]
    searched: int
    unread: Mapping[str, object] = field(default_factory=dict)


def activate(
    with_shared: Sequence[Shelved], ran: Mapping[int, Verdict], *, rng: Random, random_count: int
) -> Activation:
    """Sort memories by verdict and draw up to `random_count` evenly from those that did not fire. `ran`: the verdicts
    by index, in order; the triggers that are not in it were quiet."""
    fired = [index for index, verdict in ran.items() if isinstance(verdict, Fired)]
    # A failing trigger is `false` for recall, so its memory may still come by chance.
    failed = tuple((with_shared[index], verdict) for index, verdict in ran.items() if isinstance(verdict, Failed))
    others = len(with_shared) - len(fired)
    drawn = rng.sample(range(others), min(random_count, others))
    for index in fired:  # from places among the others to places among all
        drawn = [place + (place >= index) for place in drawn]
    activated, chosen = (tuple(with_shared[index] for index in some) for some in (fired, drawn))
    return Activation(activated, chosen, failed, len(with_shared))
