"""How fast a search is decided, what an add costs the index, and the memory it takes. `make bench` runs this.

    python tests/bench/bench_recall.py [--memories 10000 100000] [--runs 200]

Prints each figure with its goal; the status is 1 where one is missed. Times are processor time of this process, so that
others on the machine count less. Words and ranking are those of the settings, which is not the Node original: pairs of
characters are indexed and looked for. The naive form (`recall/selection.py`) decides the same searches beside it.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from memory_server.config import Settings
from memory_server.config.recall import parameters
from memory_server.conversations.changes import Added
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall import selection
from memory_server.conversations.recall.columns import IndexedMemories
from memory_server.conversations.recall.index import Index
from memory_server.conversations.recall.indexed_selection import decide
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.selection import Recall, Recalled
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.messages import Message

NOW_MS = 1_781_928_000_000
DAY_MS = 86_400_000
SAMPLE = Path(__file__).parents[2] / "data/samples/recall/zh.jsonl"
BEFORE = 3
"""Messages before the question in some searches: as many as the hook hands over."""
KEYWORDS = 23
"""Keywords of a memory: the mean of real companion chats (22.6)."""
LEAST_CHARS = 15
"""Characters of a message: with this bound a memory has some 75 pairs and single characters, 3.6 times as many as real
chats have words."""
JUMPS = 0.1
"""Share of the characters that do not follow the one before in the sample: what makes pairs that few memories hold."""
RARE_WORDS = 31_000
"""As many words as 10,000 such memories have; the sample alone has 1,000."""

GOAL_MS = {10_000: 1.2, 100_000: 7.0}
"""Goals of a question alone."""
GOAL_TIMES = 3.0
"""Times that with the messages before it: they bring four times as many words and pairs."""
GOAL_RATIO = 20.0
GOAL_MB = 20.0
"""Per 10,000 memories."""
GOAL_ADD = 3.0
"""Times what an add costs a conversation a hundred times smaller: it must not depend on the size."""

IN_USE = parameters(Settings(data_dir=None))


class Chat:
    """Makes up messages in which characters follow each other as in the sample, and memories of them."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        lines = map(json.loads, SAMPLE.read_text(encoding="utf-8").splitlines())
        self.said = [Message(line["role"], line["content"]) for line in lines if "turn" in line]
        self._chars = "\n".join(["", *(message.content for message in self.said), ""])
        self._after = defaultdict(list)
        for char, following in zip(self._chars, self._chars[1:]):  # noqa: B905 - the last one has none
            self._after[char].append(following)

    def memory(self, number: int) -> ShortTermMemory:
        """A question and an answer, with the words of their text and so many rare ones that it has `KEYWORDS`."""
        rng = self._rng
        spoken = IN_USE.wording.of_text(
            ShortTermMemory(
                id=f"{number:016x}",
                time_ms=NOW_MS - rng.randrange(200 * DAY_MS),
                text="",
                words=(),
                weights=(),
                score=rng.choice((0.0, 0.0, 5.0, 12.0)),
                conversation_id="bench",
                messages=(Message("user", self._text()), Message("assistant", self._text())),
            )
        )
        # Log-uniform, as words are in texts: few that are common, many that are rare.
        rare = {
            f"词{int(RARE_WORDS ** rng.random() * (1 + rng.random()))}"
            for _ in range(KEYWORDS - len(spoken.words))
        }
        weights = (*spoken.weights, *(rng.uniform(0.8, 40.0) for _ in rare))
        return replace(spoken, words=(*spoken.words, *rare), weights=weights)

    def query(self, before: int = 0) -> RecallQuery:
        """A message of the sample with so many before it."""
        last = self._rng.randrange(before, len(self.said))
        return IN_USE.wording.of_query(self.said[last - before : last + 1], NOW_MS)

    def _text(self) -> str:
        text = ""
        char = "\n"
        while True:
            following: Sequence[str] = self._after[char]
            if self._rng.random() < JUMPS:
                following = self._chars
            char = self._rng.choice(following)
            if char != "\n":
                text += char
            elif len(text) >= LEAST_CHARS:
                return text


def agree(first: Recall, second: Recall) -> bool:
    """Whether both forms decided the same; sums in another order may differ in their last bits."""
    if (first.held_back, first.searched) != (second.held_back, second.searched):
        return False
    tiers = (
        (first.top, second.top),
        (first.next, second.next),
        (first.flashback, second.flashback),
    )
    return all(_tiers_agree(ours, theirs) for ours, theirs in tiers)


def _tiers_agree(ours: Sequence[Recalled], theirs: Sequence[Recalled]) -> bool:
    if [recalled.memory.id for recalled in ours] != [recalled.memory.id for recalled in theirs]:
        return False
    pairs = zip(ours, theirs, strict=True)
    return all(
        abs(first.receipt.relevance - second.receipt.relevance) <= 1e-9 for first, second in pairs
    )


def spent_ms(act: Callable[[], object]) -> float:
    before = time.process_time_ns()
    act()
    return (time.process_time_ns() - before) / 1e6


class Report:
    """Prints figures; remembers whether one missed its goal."""

    def __init__(self) -> None:
        self.missed = False

    def line(
        self, label: str, figure: float, goal: float, unit: str, *, at_least: bool = False
    ) -> None:
        sign = "<="
        is_missed = figure > goal
        if at_least:
            sign = ">="
            is_missed = figure < goal
        self.missed |= is_missed
        print(
            f"{label:<58} {figure:10.3f} {unit:<4} goal {sign} {goal:g} {'  MISSED' * is_missed}",
            flush=True,
        )


def measure(count: int, runs: int, report: Report) -> None:
    chat = Chat(Random(1))
    memories = {memory.id: memory for memory in map(chat.memory, range(count))}
    queries = [chat.query() for _ in range(runs)]
    longer = [chat.query(BEFORE) for _ in range(runs)]

    # Live bytes: what the allocator keeps beside them is not the index's.
    gc.collect()
    tracemalloc.start()
    index = Index(memories.values(), IN_USE.wording)
    gc.collect()
    megabytes = tracemalloc.get_traced_memory()[0] / 1e6 / (count / 10_000)
    tracemalloc.stop()

    def fast(query: RecallQuery) -> Recall:
        searched = [IndexedMemories(memories, index)]
        about = {
            "conversation_id": "now",
            "now_ms": NOW_MS,
            "rng": Random(2),
            "parameters": IN_USE.recall,
        }
        return decide(searched, query, RecallContext(**about)).recall

    def naive(query: RecallQuery) -> Recall:
        return selection.select(
            memories.values(),
            query,
            RecallContext(
                conversation_id="now",
                now_ms=NOW_MS,
                rng=Random(2),
                parameters=IN_USE.recall,
                wording=IN_USE.wording,
            ),
        )

    few = 5
    if count > 10_000:
        few = 3
    beside = queries[:few] + longer[:few]
    assert all(agree(fast(query), naive(query)) for query in beside)

    def p50(decide: Callable[[RecallQuery], Recall], queries_of_run: list[RecallQuery]) -> float:
        return statistics.median(
            spent_ms(lambda query=query: decide(query)) for query in queries_of_run
        )

    decided = p50(fast, queries)
    with_more = p50(fast, longer)
    report.line(
        f"{count:,} memories: a search decision, p50",
        decided,
        GOAL_MS.get(count, float("inf")),
        "ms",
    )
    report.line(
        f"{count:,} memories: times that with {BEFORE} more messages",
        with_more / decided,
        GOAL_TIMES,
        "x",
    )
    faster = p50(naive, beside[:few]) / decided
    report.line(
        f"{count:,} memories: times faster than the naive loop",
        faster,
        GOAL_RATIO,
        "x",
        at_least=True,
    )
    report.line(f"{count:,} memories: index per 10,000", megabytes, GOAL_MB, "MB")

    # As a chat adds them: each later than those before.
    added = [
        replace(chat.memory(count + number), time_ms=NOW_MS + number) for number in range(2_000)
    ]
    small = Index(
        [chat.memory(2 * count + number) for number in range(count // 100)], IN_USE.wording
    )
    for grown in (index, small):
        grown.oldest_first()  # as after a search
    cost = {}
    for name, grown in (("small", small), ("large", index)):
        cost[name] = statistics.median(
            spent_ms(lambda memory=memory, grown=grown: grown.follow(Added(memory)))
            for memory in added
        )
    report.line(
        f"{count:,} memories: an add, times that of {count // 100:,}",
        cost["large"] / cost["small"],
        GOAL_ADD,
        "x",
    )


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--memories", type=int, nargs="+", default=[10_000, 100_000])
    arguments.add_argument("--runs", type=int, default=200)
    flags = arguments.parse_args()
    report = Report()
    for count in flags.memories:
        measure(count, flags.runs, report)
    return int(report.missed)


if __name__ == "__main__":
    sys.exit(main())
