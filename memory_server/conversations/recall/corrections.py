"""What was corrected does not come as itself: the newer memory takes its place, and says what was before. Pure.

A memory names the older ones that are no longer true since it was said (`ShortTermMemory.corrects`). A question about
the past gets the older one, marked as no longer true.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.order import Recalled
from memory_server.conversations.recall.selection import Recall
from nlp.once import Once

_ASKS_FOR_PAST = Once(
    lambda: re.compile(
        r"以前|之前|原[来來先本定]|[当當]初|最初|最早|[过過]去|[从從]前|曾[经經]?|那[会會阵陣天时時]|的[时時]候|[旧舊]|老[号號地]|上一[段个個任次]"
        r"|一[开開]始|[^以之目提]前(?:[的开開，我]|$)"
        r"|\b(?:use(?:d)? to|back then|before|previous(?:ly)?|earlier|original(?:ly)?|at first|former(?:ly)?|old|in the past"
        r"|started|initial(?:ly)?|ago|was|were|did|had|when i)\b",
        re.IGNORECASE,
    )
)
"""Words by which people ask for what was."""
_MOST_STEPS = 100
"""The longest chain of corrections that is followed."""


def newer_by_older(memories: Iterable[ShortTermMemory]) -> dict[str, ShortTermMemory]:
    """By the id of each memory that was corrected: the first one that corrects it, so that a chain is followed."""
    newer: dict[str, ShortTermMemory] = {}
    for memory in memories:
        for older in memory.corrects:
            known = newer.get(older.id)
            if older.id != memory.id and (known is None or memory.time_ms < known.time_ms):
                newer[older.id] = memory
    return newer


def asks_for_past(question: str) -> bool:
    """Whether a question asks for what was."""
    return _ASKS_FOR_PAST().search(question) is not None


def corrected(
    recall: Recall, newer: Mapping[str, ShortTermMemory], excluded: Iterable[str] = ()
) -> Recall:
    """The recall with the newest memory of each chain in the best place of its memories. A question about the past keeps
    the older ones, each with the time of its correction. `excluded`: ids of memories that may not come."""
    if not newer:
        return recall
    if recall.query.plans is not None:
        return _without_corrected(recall, newer, frozenset(excluded))
    if asks_for_past(recall.query.said):
        return replace(
            recall,
            top=tuple(_dated(recalled, newer) for recalled in recall.top),
            next=tuple(_dated(recalled, newer) for recalled in recall.next),
            flashback=tuple(_dated(recalled, newer) for recalled in recall.flashback),
        )
    hidden = frozenset(excluded)
    by_id = {each.memory.id: each for each in (*recall.top, *recall.next, *recall.flashback)}
    came: set[str] = set()

    def in_place(tier: Iterable[Recalled]) -> tuple[Recalled, ...]:
        shown: list[Recalled] = []
        for recalled in tier:
            replacement = _newest(recalled, newer, hidden, by_id)
            if replacement.memory.id not in came:
                came.add(replacement.memory.id)
                shown.append(replacement)
        return tuple(shown)

    return replace(
        recall,
        top=in_place(recall.top),
        next=in_place(recall.next),
        flashback=in_place(recall.flashback),
        answers={key: answer for key, answer in recall.answers.items() if answer.id not in newer},
    )


def _without_corrected(
    recall: Recall, newer: Mapping[str, ShortTermMemory], hidden: frozenset[str]
) -> Recall:
    """A list of plans without those that were corrected: what holds now is in the list by itself, if it is a plan."""

    def holding(tier: Iterable[Recalled]) -> tuple[Recalled, ...]:
        return tuple(each for each in tier if not is_corrected(each.memory, newer, hidden))

    return replace(recall, top=holding(recall.top), next=holding(recall.next))


def is_corrected(
    memory: ShortTermMemory, newer: Mapping[str, ShortTermMemory], hidden: Collection[str]
) -> bool:
    """Whether a memory is no longer true, as a later one says that is not `hidden`."""
    correcting = newer.get(memory.id)
    return correcting is not None and correcting.id not in hidden


def _dated(recalled: Recalled, newer: Mapping[str, ShortTermMemory]) -> Recalled:
    """A memory with the time at which it was corrected, if it was."""
    correcting = newer.get(recalled.memory.id)
    if correcting is None:
        return recalled
    return replace(recalled, until_ms=correcting.time_ms)


def _newest(
    recalled: Recalled,
    newer: Mapping[str, ShortTermMemory],
    hidden: frozenset[str],
    by_id: Mapping[str, Recalled],
) -> Recalled:
    """The end of the chain of corrections that begins with a memory, with the one before it; or the memory itself."""
    memory = recalled.memory
    before: ShortTermMemory | None = None
    for _ in range(_MOST_STEPS):
        correcting = newer.get(memory.id)
        if correcting is None or correcting.id in hidden or correcting.time_ms < memory.time_ms:
            break
        before, memory = memory, correcting
    if before is None:
        return _with_before(recalled, newer, by_id)
    shown = by_id.get(memory.id, recalled)
    return replace(shown, memory=memory, before=before)


def _with_before(
    recalled: Recalled, newer: Mapping[str, ShortTermMemory], by_id: Mapping[str, Recalled]
) -> Recalled:
    """A memory that came by itself, with what it corrects, if that came too."""
    for older in recalled.memory.corrects:
        if older.id in by_id and older.id in newer:
            return replace(recalled, before=by_id[older.id].memory)
    return recalled
