"""What the words beyond the Node original cost, and how long a long message stalls others. `make bench` runs this.

    python tests/bench/bench_words.py

Prints each figure with its goal; the status is 1 where one is missed. Processor time, and ratios to something
run beside it; the gap of the event loop is real time, so run it where little else runs.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.quality.evaluation import SAMPLE, load_dataset

from memory_server import Message, Settings, open_memory
from memory_server.config.recall import enrichment
from nlp import enriched_keywords, extract_message_keywords

GOAL_RATIO = 4.0
"""Extraction with the defaults, times the Node original's: some 20 µs a message more, beside 1 ms of an add."""
GOAL_GAP_MS = 100.0
"""The longest that an added message of 200,000 characters keeps another client waiting."""

MIXED = "昨天我和小明去西湖边上散步，聊了很多关于工作的事情。Then we had café at 7/17! "
UNBROKEN = "我和小明去西湖边上散步聊了很多关于工作的事情"


def least_us(act: Callable[[], object], repeats: int = 15) -> float:
    spent = []
    for _ in range(repeats):
        before = time.process_time_ns()
        act()
        spent.append(time.process_time_ns() - before)
    return min(spent) / 1e3


async def longest_gap_ms(text: str) -> float:
    """How late the event loop was at most while two messages of 100,000 characters became a memory."""
    gaps: list[float] = []

    async def beat() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(folder, settings=Settings()) as memory:
            await memory.warm()
            chat = memory.conversation("bench").short_term
            await chat.add([Message("user", "5月2日")])
            task = asyncio.create_task(beat())
            await chat.add([Message("user", (text * 10_000)[:100_000])] * 2)
            task.cancel()
    # None: the whole of it was done between two beats.
    return max(gaps, default=0.001) * 1e3


def main() -> int:
    missed = False

    def line(label: str, figure: float, goal: float, unit: str) -> None:
        nonlocal missed
        missed |= figure > goal
        print(
            f"{label:<58} {figure:8.2f} {unit:<3} goal <= {goal:g} {'MISSED' if figure > goal else ''}",
            flush=True,
        )

    options = enrichment(Settings())
    for name in ("zh", "en"):
        turns = load_dataset([SAMPLE / f"{name}.jsonl"]).turns
        messages = [Message(turn.role, turn.content, turn.time_ms) for turn in turns]

        def extract(messages: list[Message] = messages) -> None:
            for message in messages:
                extract_message_keywords([message])

        def enrich(messages: list[Message] = messages) -> None:
            for message in messages:
                enriched_keywords([message], options, now_ms=0)

        plain = least_us(extract)
        enriched = least_us(enrich)
        print(
            f"{name}: {plain / len(messages):.0f} µs a message, {enriched / len(messages):.0f} µs with the defaults"
        )
        line(
            f"{name}: words with the defaults, times the Node original's",
            enriched / plain,
            GOAL_RATIO,
            "x",
        )
    for kind, text in (("mixed", MIXED), ("without punctuation", UNBROKEN), ("one letter", "a")):
        line(
            f"longest gap while 200,000 characters come, {kind}",
            asyncio.run(longest_gap_ms(text)),
            GOAL_GAP_MS,
            "ms",
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
