"""The rounds of a search: what the triggers say is settled, then the texts of books that came are searched too. The
caller evaluates triggers; rounds.py decides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from memory_server.lore.entry_keys import CountedKeys, EntryKeys
from memory_server.lore.memory import Shelved
from memory_server.lore.rounds import MARK, FiringRounds

ROUND_SECONDS = 2.0
"""Seconds after which no further round of recursion begins, from the end of the first round on: the time of the
triggers of a search. Before that, a process for the triggers may still have to start."""


class Evaluator(Protocol):
    """Evaluates triggers where the last message of the chat has a text of a book too."""

    async def fired_entries(self, indexes: Sequence[int], text_of_book: str) -> Collection[int]:
        """Return the indexes of the entries whose own triggers fire."""
        ...

    async def present_keys(
        self, entries: Mapping[int, EntryKeys], text_of_book: str
    ) -> Mapping[int, Collection[str]]:
        """Return the counted keys of each entry that are in the messages."""
        ...


def with_text_of_book(content: str, text: str) -> str:
    """Return the last message of a chat with the texts of a book that are searched with it."""
    if not text:
        return content
    return f"{content}{MARK}{text}"


class Recursion:
    """The rounds of a search over `entries`."""

    def __init__(
        self, rounds: FiringRounds, entries: Sequence[Shelved], evaluator: Evaluator
    ) -> None:
        self._rounds = rounds
        self._entries = entries
        self._evaluator = evaluator

    async def run(self, fired: Sequence[int]) -> bool:
        """Settle what fired in the first round, which has been evaluated, and go on until nothing more can fire. Return
        False if the time was over before."""
        until = time.monotonic() + ROUND_SECONDS
        await self._settle(self._rounds.first(fired), {})
        while True:
            following = self._rounds.next_round()
            if following is None:
                return True
            if time.monotonic() >= until:
                return False
            fired_again: list[int] = []
            for book, indexes in following.memories.items():
                fired_again += await self._evaluator.fired_entries(indexes, following.texts[book])
            await self._settle(self._rounds.recursive(fired_again), following.texts)

    async def _settle(self, candidates: Sequence[int], texts: Mapping[str, str]) -> None:
        """Decide which of the candidates of a round come. `texts` are searched in this round, by the id of their book."""
        keys_by_index = self._rounds.keys_to_score(candidates)
        scores = await self._scores(keys_by_index, texts)
        if self._rounds.are_settled_quickly(candidates):
            self._rounds.settle(candidates, scores)
        else:
            await asyncio.to_thread(self._rounds.settle, candidates, scores)

    async def _scores(
        self, keys_by_index: Mapping[int, EntryKeys], texts: Mapping[str, str]
    ) -> dict[int, int]:
        """Count the keys that each memory has in the messages. All keys that are sought in the same text are asked at
        once: a group may have hundreds of memories."""
        by_text: dict[str, dict[int, EntryKeys]] = {}
        for index, keys in keys_by_index.items():
            text = texts.get(self._entries[index].book_id, "")
            by_text.setdefault(text, {})[index] = keys
        scores: dict[int, int] = {}
        for text, rivals in by_text.items():
            present_keys = await self._evaluator.present_keys(rivals, text)
            for index, keys in rivals.items():
                if keys.counted is not None:
                    scores[index] = score_of(keys.counted, present_keys[index])
        return scores


def score_of(keys: CountedKeys, present_keys: Collection[str]) -> int:
    """Count the keys that a memory has in the messages, which are `present_keys`."""
    primary = sum(key in present_keys for key in keys.primary)
    secondary = sum(key in present_keys for key in keys.secondary)
    has_all_secondary = secondary == len(keys.secondary)
    if keys.logic == "AND_ANY" or (keys.logic == "AND_ALL" and has_all_secondary):
        return primary + secondary
    return primary
