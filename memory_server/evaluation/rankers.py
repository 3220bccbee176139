"""Ways to answer a question with memories, best first: the server's own, and plain ones to compare it with.

The server's are made of `nlp` and `memory_server.recall` as they are; nothing is reckoned anew here. A ranker
gives only what it holds for relevant, so an empty answer is an abstention.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random

from memory_server.evaluation.bm25 import Bm25
from memory_server.evaluation.dataset import Question
from memory_server.evaluation.units import Unit
from memory_server.model import Message, ShortTermMemory, context_text
from memory_server.recall.parameters import Parameters
from memory_server.recall.relevance import relevance
from memory_server.recall.words import Wording
from nlp.lexicon.stop_words import STOP_WORDS
from nlp.segment import segment

DEPTH = 10
"""Memories that an answer names at most; MRR counts nothing beyond."""

Ranker = Callable[[Question], Sequence[Unit]]
"""The most relevant memories, best first, at most DEPTH."""

Maker = Callable[[Sequence[Unit]], Ranker]
"""Indexes the memories, so that what is timed later is a question."""


def remembered(unit: Unit, wording: Wording) -> ShortTermMemory:
    """The memory that the server makes of a unit, with a score of 0."""
    messages = tuple(Message(turn.role, turn.content, turn.time_ms, turn.name) for turn in unit.turns)
    keywords = wording.within(unit.conversation_id).of_memory(messages, unit.time_ms)
    return ShortTermMemory(
        id=unit.id,
        time_ms=unit.time_ms,
        text=context_text(messages),
        words=tuple(keyword.word for keyword in keywords),
        weights=tuple(keyword.weight for keyword in keywords),
        score=0.0,
        conversation_id=unit.conversation_id,
        messages=messages,
    )


def query_of(question: Question, wording: Wording) -> dict[str, float]:
    """The words of the question as the server weighs those of a user."""
    return wording.within(question.conversation_id).of_query([Message("user", question.text)], question.asked_ms)


def search(parameters: Parameters, units: Sequence[Unit]) -> Ranker:
    """`search_short_term_memories`, with more places: the first ones are those it gives. Flashbacks do not count."""
    from memory_server.recall.postings import Postings
    from memory_server.recall.selection import select

    recall = parameters.recall
    of_id = {unit.id: unit for unit in units}
    memories = {unit.id: remembered(unit, parameters.wording) for unit in units}
    index = Postings(memories.values())
    deep = replace(recall, next_count=max(0, DEPTH - recall.top_count), flashback_count=0)

    def answer(question: Question) -> Sequence[Unit]:
        found = select(
            memories,
            index,
            query_of(question, parameters.wording),
            conversation_id=question.conversation_id,
            now_ms=question.asked_ms,
            rng=Random(0),  # for flashbacks only, of which there are none
            parameters=deep,
        )
        return [of_id[recalled.memory.id] for recalled in (*found.top, *found.next)][:DEPTH]

    return answer


def formula(parameters: Parameters, units: Sequence[Unit]) -> Ranker:
    """Relevance alone: what `search` would give without the 20-minute and the 10-minute rule."""
    memories = [(remembered(unit, parameters.wording), unit) for unit in units]

    def answer(question: Question) -> Sequence[Unit]:
        query = query_of(question, parameters.wording)
        scored = ((relevance(memory, query, question.asked_ms, parameters.recall), unit) for memory, unit in memories)
        return _best([(points, unit) for points, unit in scored if points >= parameters.recall.threshold])

    return answer


def bm25_words(units: Sequence[Unit]) -> Ranker:
    """BM25 over the words of jieba, in lower case."""
    return _bm25(units, words)


def bm25_bigrams(units: Sequence[Unit]) -> Ranker:
    """BM25 over pairs of neighbouring characters, which needs no dictionary."""
    return _bm25(units, bigrams)


def grep(units: Sequence[Unit]) -> Ranker:
    """The number of words of the question that stand somewhere in the text; of equal ones the newest."""
    texts = [(unit.text.lower(), unit) for unit in units]

    def answer(question: Question) -> Sequence[Unit]:
        sought = [word for word in dict.fromkeys(words(question.text)) if len(word) > 1 and word not in STOP_WORDS]
        counted = ((float(sum(word in text for word in sought)), unit) for text, unit in texts)
        return _best([(count, unit) for count, unit in counted if count])

    return answer


def newest(units: Sequence[Unit]) -> Ranker:
    """The last ones, whatever is asked."""
    last = _best([(0.0, unit) for unit in units])

    def answer(_: Question) -> Sequence[Unit]:
        return last

    return answer


def by_chance(rng: Random, units: Sequence[Unit]) -> Ranker:
    """Any, drawn evenly."""

    def answer(_: Question) -> Sequence[Unit]:
        return rng.sample(units, min(DEPTH, len(units)))

    return answer


def makers(parameters: Parameters, rng: Random) -> Mapping[str, Maker]:
    """By name: the server's search first, then its formula without time rules, then the baselines."""
    return {
        "search": partial(search, parameters),
        "formula": partial(formula, parameters),
        "bm25 words": bm25_words,
        "bm25 bigrams": bm25_bigrams,
        "grep": grep,
        "last": newest,
        "random": partial(by_chance, rng),
    }


def words(text: str) -> list[str]:
    """The words of `text` in lower case, without white space and punctuation."""
    return [word.lower() for word in segment(text) if any(char.isalnum() for char in word)]


def bigrams(text: str) -> list[str]:
    """Neighbouring characters of each run of letters and digits, in lower case; a lone character is itself."""
    runs: list[str] = re.findall(r"\w+", text.lower())
    return [pair for run in runs for pair in (map("".join, pairwise(run)) if len(run) > 1 else (run,))]


def _bm25(units: Sequence[Unit], terms_of: Callable[[str], list[str]]) -> Ranker:
    index = Bm25([terms_of(unit.text) for unit in units])

    def answer(question: Question) -> Sequence[Unit]:
        return _best([(score, units[number]) for number, score in index.scores(terms_of(question.text)).items()])

    return answer


def _best(scored: Sequence[tuple[float, Unit]]) -> list[Unit]:
    """The first DEPTH: highest score first, ties newest first and then by id, as in recall."""
    ranked = sorted(scored, key=lambda pair: (-pair[0], -pair[1].time_ms, pair[1].id))
    return [unit for _, unit in ranked[:DEPTH]]
