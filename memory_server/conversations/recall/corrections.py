"""What was corrected does not come as itself: the newer memory takes its place, and says what was before. Pure.

A memory names the older ones that are no longer true since it was said (`ShortTermMemory.corrects`). A question about
the past gets the older one, marked as no longer true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.order import Recalled
from memory_server.conversations.recall.selection import Recall
from memory_server.kernel.values import frozen
from nlp.once import Once

_ASKS_FOR_PAST = Once(
    lambda: re.compile(
        r"原[来來先本定]|[当當](?:初|[时時](?!候))|最[初早]|[从從]前|曾|那[会會阵陣时時]|[旧舊]|老(?:[号號]|地址)|上一[段个個任]"
        r"|一[开開]始|小[时時]候|前面.{0,6}[过過]"
        r"|\b(?:used? to|back (?:then|when)|previous(?:ly)?|original(?:ly)?|at (?:first|the (?:start|beginning))|former(?:ly)?"
        r"|(?<!how )old(?!er)|in the past|initial(?:ly)?|ago)\b",
        re.IGNORECASE,
    )
)
"""Words by which people ask for what was."""
_MAY_ASK_FOR_PAST = Once(
    lambda: re.compile(
        r"[以之]前|(?<![怎么麼能])[过過]去|那天|(?<![么麼啥])[时時]候|[^以之目提]前(?:[的开開，我]|$)"
        r"|\b(?:before|earlier|(?:was|were) (?:i|we|he|she|they)\b"
        r"|(?<=.)when (?!(?:is|are|do|does|will)\b).*?\b(?:\w{2,}ed|was|were|had|got|went|came|took|held|said|began)\b"
        r"|did (?:i|we|he|she|they|you|my \w+) (?:live|work|study|teach|drive|use|own|have|like|love|hate|eat|drink|want"
        r"|believe|think|feel|weigh|earn|pay|charge|call|keep|plan|intend|swear)\b)",
        re.IGNORECASE,
    )
)
"""The same, if nothing beside them speaks of what is to come or usual."""
_SPEAKS_OF_NOW = Once(
    lambda: re.compile(
        r"要(?!是)|[该該]|得[去在把到给給]|需|必[须須]|截止|[别別]忘|提醒|一般|平[时時]|通常|每|[会會][不怎]|明天|[后後]天|[现現]在|下[周週个個次]"
        r"|\b(?:should|needs? to|ha(?:ve|s) to|must|will|going to|supposed to|remind|tomorrow|tonight|next|now|usually"
        r"|always|do i|can i)\b",
        re.IGNORECASE,
    )
)
_MOST_STEPS = 100
"""The longest chain of corrections that is followed."""


def newer_by_older(memories: Iterable[ShortTermMemory]) -> dict[str, ShortTermMemory]:
    """Map the id of each corrected memory to the first memory that corrects it, so that a chain can be followed."""
    newer: dict[str, ShortTermMemory] = {}
    for memory in memories:
        for older in memory.corrects:
            current = newer.get(older.id)
            if older.id != memory.id and (current is None or memory.time_ms < current.time_ms):
                newer[older.id] = memory
    return newer


def asks_for_past(question: str) -> bool:
    """Return whether a question asks for what was."""
    if _ASKS_FOR_PAST().search(question) is not None:
        return True
    return _MAY_ASK_FOR_PAST().search(question) is not None and (
        _SPEAKS_OF_NOW().search(question) is None
    )


@frozen
class CorrectionLinks:
    """What was corrected in the searched memories. `newer` maps the id of each corrected memory to the memory that
    corrects it; `memory_of` returns the memory of an id, if it was searched; `hidden` has the ids of memories that
    may not come."""

    newer: Mapping[str, ShortTermMemory]
    memory_of: Callable[[str], ShortTermMemory | None]
    hidden: Collection[str] = ()

    def holds(self, memory: ShortTermMemory) -> bool:
        """Return whether no later memory that may come contradicts it."""
        correcting = self.newer.get(memory.id)
        return correcting is None or correcting.id in self.hidden

    def in_recall(self, recall: Recall) -> Recall:
        """Return the recall with the newest memory of each chain in the best place of its memories. A question about
        the past gets the older ones, each with the time of its correction, and a list of plans has only what holds."""
        if not self.newer:
            return recall
        asks_past = asks_for_past(recall.query.said)
        by_id = {
            scored.memory.id: scored for scored in (*recall.top, *recall.next, *recall.flashback)
        }

        shown_ids: set[str] = set()

        def in_place(tier: Iterable[Recalled]) -> tuple[Recalled, ...]:
            """Return what comes in place of the memories of a tier, each memory once in all
            tiers."""
            shown: list[Recalled] = []
            for recalled in tier:
                if recall.query.plans is not None:
                    standing = [recalled] if self.holds(recalled.memory) else []
                elif asks_past:
                    standing = list(self._with_older(recalled))
                else:
                    standing = [self._newest(recalled, by_id)]

                # Two memories of a chain may lead to the same newest one, which comes once.
                shown += [scored for scored in standing if scored.memory.id not in shown_ids]
                shown_ids.update(scored.memory.id for scored in standing)
            return tuple(shown)

        answers = recall.answers
        if not asks_past:
            answers = {
                key: scored for key, scored in answers.items() if scored.id not in self.newer
            }
        return replace(
            recall,
            top=in_place(recall.top),
            next=in_place(recall.next),
            flashback=in_place(recall.flashback),
            answers=answers,
        )

    def _with_older(self, recalled: Recalled) -> Iterator[Recalled]:
        """Yield what a memory corrects, then the memory, each with the time of its correction if it was corrected.
        What is gone or hidden is left out."""
        olders = (self.memory_of(older.id) for older in recalled.memory.corrects)
        for memory in (*filter(None, olders), recalled.memory):
            correcting = self.newer.get(memory.id)
            if correcting is None or (memory is recalled.memory and self.holds(memory)):
                yield recalled
            elif memory.id not in self.hidden:
                yield replace(recalled, memory=memory, until_ms=correcting.time_ms)

    def _newest(self, recalled: Recalled, by_id: Mapping[str, Recalled]) -> Recalled:
        """Return the end of the chain of corrections that begins with a memory, with the memory before it. A memory
        that is the end itself comes with one that it corrects, if such a one came."""
        memory = recalled.memory
        before: ShortTermMemory | None = None
        for _ in range(_MOST_STEPS):
            correcting = self.newer.get(memory.id)
            if correcting is None or self.holds(memory) or correcting.time_ms < memory.time_ms:
                break
            before, memory = memory, correcting
        if before is not None:
            return replace(by_id.get(memory.id, recalled), memory=memory, before=before)
        for older in memory.corrects:
            if older.id in by_id and older.id in self.newer:
                return replace(recalled, before=by_id[older.id].memory)
        return recalled
