"""How fast a search is decided, what an add costs the index, and the memory it takes. `make bench` runs this.

    python tests/bench/bench_recall.py [--memories 10000 100000] [--runs 200]

Prints each figure with its goal; the status is 1 where one is missed. Times are processor time of this process, so that
others on the machine count less. The naive form (`recall/plain_selection.py`) decides the same searches beside it.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random

import psutil

from memory_server.changes import Added
from memory_server.model import ShortTermMemory
from memory_server.recall import plain_selection
from memory_server.recall.parameters import RecallParameters
from memory_server.recall.postings import Postings
from memory_server.recall.selection import select

NOW_MS = 1_781_928_000_000
DAY_MS = 86_400_000
KEYWORDS = 23
"""Keywords of a memory: the mean of real companion chats (22.6)."""
QUERY_WORDS = 25
VOCABULARY = [f"词{number}" for number in range(31_000)]
"""As many as 10,000 such memories have."""

GOAL_MS = {10_000: 1.0, 100_000: 6.0}
GOAL_RATIO = 20.0
GOAL_MB = 20.0
"""Per 10,000 memories."""
GOAL_ADD = 3.0
"""Times what an add costs a conversation a hundred times smaller: it must not depend on the size."""


def words(rng: Random, count: int) -> dict[str, float]:
    """Words as texts have them: few that are common, many that are rare."""
    last = len(VOCABULARY) - 1
    chosen = (VOCABULARY[min(last, int(last ** rng.random() * (1 + rng.random())))] for _ in range(count * 3))
    return {word: rng.uniform(0.8, 40.0) for word in list(dict.fromkeys(chosen))[:count]}


def memory(number: int, rng: Random) -> ShortTermMemory:
    kept = words(rng, KEYWORDS)
    return ShortTermMemory(
        id=f"{number:016x}",
        time_ms=NOW_MS - rng.randrange(200 * DAY_MS),
        text="",
        words=tuple(kept),
        weights=tuple(kept.values()),
        score=rng.choice((0.0, 0.0, 5.0, 12.0)),
        conversation_id="bench",
    )


def spent_ms(act: Callable[[], object]) -> float:
    before = time.process_time_ns()
    act()
    return (time.process_time_ns() - before) / 1e6


class Report:
    """Prints figures; remembers whether one missed its goal."""

    def __init__(self) -> None:
        self.missed = False

    def line(self, what: str, figure: float, goal: float, unit: str, *, at_least: bool = False) -> None:
        good = figure >= goal if at_least else figure <= goal
        self.missed |= not good
        sign = ">=" if at_least else "<="
        print(f"{what:<58} {figure:10.3f} {unit:<4} goal {sign} {goal:g} {'' if good else '  MISSED'}", flush=True)


def measure(count: int, runs: int, report: Report) -> None:
    rng, parameters = Random(1), RecallParameters()
    memories = {one.id: one for one in (memory(number, rng) for number in range(count))}
    queries = [words(rng, QUERY_WORDS) for _ in range(runs)]

    gc.collect()
    before = psutil.Process().memory_info().rss
    index = Postings(memories.values())
    gc.collect()
    megabytes = (psutil.Process().memory_info().rss - before) / 1e6 / (count / 10_000)

    def fast(query: dict[str, float]) -> object:
        return select(
            memories, index, query, conversation_id="now", now_ms=NOW_MS, rng=Random(2), parameters=parameters
        )

    def naive(query: dict[str, float]) -> object:
        return plain_selection.select(
            memories.values(), query, conversation_id="now", now_ms=NOW_MS, rng=Random(2), parameters=parameters
        )

    beside = queries[: 5 if count > 10_000 else 10]
    assert [fast(query) for query in beside] == [naive(query) for query in beside]
    decided = statistics.median(spent_ms(lambda query=query: fast(query)) for query in queries)
    slow = statistics.median(spent_ms(lambda query=query: naive(query)) for query in beside)
    report.line(f"{count:,} memories: a search decision, p50", decided, GOAL_MS.get(count, float("inf")), "ms")
    report.line(f"{count:,} memories: times faster than the naive loop", slow / decided, GOAL_RATIO, "x", at_least=True)
    report.line(f"{count:,} memories: index per 10,000", megabytes, GOAL_MB, "MB")

    # As a chat adds them: each later than those before.
    added = [replace(memory(count + number, rng), time_ms=NOW_MS + number) for number in range(2_000)]
    small = Postings([memory(-1 - number, rng) for number in range(count // 100)])
    for grown in (index, small):
        grown.oldest_first()  # as after a search
    cost = {}
    for name, grown in (("small", small), ("large", index)):
        cost[name] = statistics.median(spent_ms(lambda one=one, grown=grown: grown.follow(Added(one))) for one in added)
    report.line(
        f"{count:,} memories: an add, times that of {count // 100:,}", cost["large"] / cost["small"], GOAL_ADD, "x"
    )


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--memories", type=int, nargs="+", default=[10_000, 100_000])
    arguments.add_argument("--runs", type=int, default=200)
    given = arguments.parse_args()
    report = Report()
    for count in given.memories:
        measure(count, given.runs, report)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
