"""What a question about everything, about a time or about the asker's name brings (`nlp/questions.py`).

Such a question has no word to search by. It brings the memories that are worth most by themselves: pinned ones, those
recalled most, the newest; of different hours, because an hour is mostly about one subject. Both selections call
`spread`: `selection.py` with memories, `indexed_selection.py` with rows. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.words import RecallQuery, is_of_days
from memory_server.kernel.messages import said_in
from memory_server.kernel.times import MINUTE_MS
from nlp.questions import answers_overview

LOOKED_AT = 10_000
"""Memories whose texts are looked at, those worth most first: at most some 50 ms, in which nothing else is answered."""
_LOOKED_AT_CHARS = 2_000
"""Characters of a message that are looked at."""
_NIGHT_MS = 5 * 60 * MINUTE_MS
"""The night after a day belongs to it too: until five, people call the day before today."""

M = TypeVar("M")


def pinned_points(memory: ShortTermMemory, parameters: RecallParameters) -> float:
    """The points of a memory in an overview for being pinned: as many as a score can give."""
    return parameters.score_ceiling if memory.pinned else 0.0


def belongs(memory: ShortTermMemory, query: RecallQuery) -> bool:
    """Whether a memory belongs into the overview that `query` asks for. It is what the user said that counts."""
    overview = query.overview
    if overview is None:
        return False
    if overview == "time":
        is_within = any(
            begin <= memory.time_ms < (end + _NIGHT_MS if is_of_days(begin, end) else end)
            for begin, end in query.spans
        )
        return is_within or not query.days.isdisjoint(memory.words)
    if overview == "everything" and memory.pinned:
        return True
    messages = memory.messages or said_in(memory.text)
    user_texts = (
        message.content[:_LOOKED_AT_CHARS] for message in messages if message.role == "user"
    )
    return any(answers_overview(text, overview) for text in user_texts)


def spread(
    best_first: Iterable[M],
    memory_of: Callable[[M], ShortTermMemory],
    query: RecallQuery,
    parameters: RecallParameters,
) -> list[M]:
    """Those that come of the memories `best_first`: one of each hour, and then others where there is room."""
    places = parameters.places(question=True)
    candidates: list[M] = []
    apart: list[M] = []
    times_apart: list[int] = []
    ordered = list(islice(best_first, LOOKED_AT))
    if query.own_word:  # what the asker said comes before what others said
        ordered.sort(key=lambda candidate: query.own_word not in memory_of(candidate).words)
    for candidate in ordered:
        if len(apart) == places:
            break
        memory = memory_of(candidate)
        if not belongs(memory, query):
            continue
        candidates.append(candidate)
        if all(
            abs(memory.time_ms - time_ms) >= parameters.episode_pause_ms for time_ms in times_apart
        ):
            apart.append(candidate)
            times_apart.append(memory.time_ms)
    of_same_hours = [candidate for candidate in candidates if candidate not in apart]
    chosen = [*apart, *of_same_hours[: places - len(apart)]]
    return [candidate for candidate in candidates if candidate in chosen]
