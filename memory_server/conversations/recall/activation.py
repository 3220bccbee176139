"""Which long-term memories come: those whose trigger fired, and some by chance
(docs/reference/trigger-api.md). Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from random import Random

from memory_server.kernel.values import dataclass
from memory_server.lore import Counted, HeldBackReason, Shelved
from sandbox import Failed, Fired, Verdict


@dataclass(frozen=True, slots=True)
class HeldBackMemory:
    """A memory whose trigger fired and which does not come, and why."""

    shelved: Shelved
    reason: HeldBackReason


@dataclass(frozen=True, slots=True)
class Chat:
    """The chat of a search: its session ("": the host has none), and how many messages it has. `is_counted`: the host
    said how many; otherwise each recall counts as one."""

    session: str = ""
    messages: int = 0
    is_counted: bool = False


@dataclass(frozen=True, slots=True)
class Activation:
    """The answer of one search: the triggers that fired, in the order in which they take room, those that came by
    chance, and those that failed. `held_back` fired too. `unread`: conversations whose triggers could not be read, with
    the file. `chat`: where the search was made. `is_complete`: False if there was no time to search all texts of books
    that came. `counting`: the memories whose rules count its messages."""

    activated: tuple[Shelved, ...]
    random: tuple[Shelved, ...]
    failed: tuple[tuple[Shelved, Failed], ...]
    searched: int
    unread: Mapping[str, object] = field(default_factory=dict)
    held_back: tuple[HeldBackMemory, ...] = ()
    chat: Chat = Chat()
    is_complete: bool = True
    counting: Mapping[str, Counted] = field(default_factory=dict)


NOTHING_ACTIVATED = Activation((), (), (), 0)


def fired_in(verdicts: Mapping[int, Verdict]) -> list[int]:
    """The indexes of the triggers that fired."""
    return [index for index, verdict in verdicts.items() if isinstance(verdict, Fired)]


def failed_in(
    verdicts: Mapping[int, Verdict], memories: Sequence[Shelved]
) -> tuple[tuple[Shelved, Failed], ...]:
    """The memories whose trigger failed; that counts as quiet."""
    return tuple(
        (memories[index], verdict)
        for index, verdict in verdicts.items()
        if isinstance(verdict, Failed)
    )


def drawn_by_chance(
    memories: Sequence[Shelved], excluded: Collection[int], *, rng: Random, count: int
) -> tuple[Shelved, ...]:
    """Up to `count` of the memories, drawn evenly from those that are not `excluded`. A failing trigger is `false` for
    recall, so its memory may still come by chance."""
    candidate_count = len(memories) - len(excluded)
    drawn = rng.sample(range(candidate_count), min(count, candidate_count))
    # From indexes among the candidates to indexes among all.
    for excluded_index in sorted(excluded):
        drawn = [index + (index >= excluded_index) for index in drawn]
    return tuple(memories[index] for index in drawn)
