"""Which long-term memories come: those whose trigger fired, and some by chance
(docs/reference/trigger-api.md). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from memory_server.conversations.model import LongTermMemory
from sandbox.verdicts import Failed, Fired, Verdict


@dataclass(frozen=True, slots=True)
class Shelved:
    """A long-term memory and the conversation it is kept in."""

    conversation_id: str
    memory: LongTermMemory


@dataclass(frozen=True, slots=True)
class Activation:
    """The answer of one search: what fired, what came by chance, what failed and how. `unread` are conversations whose
    triggers could not be read, with the file."""

    activated: tuple[Shelved, ...]
    random: tuple[Shelved, ...]
    failed: tuple[tuple[Shelved, Failed], ...]
    searched: int
    unread: Mapping[str, object] = field(default_factory=dict)


def activate(
    with_shared: Sequence[Shelved], verdicts: Sequence[Verdict], *, rng: Random, random_count: int
) -> Activation:
    """Sort memories by verdict and draw up to `random_count` evenly from those that did not fire."""
    judged = list(zip(with_shared, verdicts, strict=True))
    activated = tuple(item for item, verdict in judged if isinstance(verdict, Fired))
    # A failing trigger is `false` for recall, so its memory may still come by chance.
    quiet = [item for item, verdict in judged if not isinstance(verdict, Fired)]
    failed = tuple((item, verdict) for item, verdict in judged if isinstance(verdict, Failed))
    drawn = rng.sample(quiet, min(random_count, len(quiet)))
    return Activation(activated, tuple(drawn), failed, len(with_shared))
