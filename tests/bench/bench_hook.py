"""What a user waits for at every prompt: `memory-server hook` as a whole process, beside an empty Python. `make bench`.

    python tests/bench/bench_hook.py [--memories 1000] [--triggers 1 50] [--runs 15]

Wall time, median and 95th percentile, and processor time of the process with its trigger worker. Each run of the hook
is one between runs of its neighbours, so that all of them meet the same load. Fails never: whoever reads it judges.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memory_server.conversations.changes import Added, Change
from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel.messages import Message, context_text
from memory_server.lore.memory import LongTermMemory, TriggerSet
from memory_server.runtime.app import open_memory
from nlp.lexicon.idf import idf_table

DAY_MS = 86_400_000
KEYWORDS = 23
"""Keywords of a memory: the mean of real companion chats (22.6)."""
PROMPT = "下周三是我的生日，我们晚上去吃披萨，还是去看电影？"


async def fill(folder: Path, memories: int, triggers: int) -> None:
    chance = random.Random(7)
    now_ms = time.time_ns() // 1_000_000
    vocabulary = [
        word for word in idf_table() if len(word) == 2 and word.isalpha() and not word.isascii()
    ][:5_000]
    vocabulary += ["生日", "披萨", "电影", "晚上"]
    memories_to_add = []
    for number in range(memories):
        words = tuple(dict.fromkeys(chance.choices(vocabulary, k=KEYWORDS)))
        messages = (Message("user", "".join(words), name="小明"),)
        at_ms = now_ms - chance.randrange(DAY_MS, 300 * DAY_MS)
        weights = tuple(chance.uniform(1, 20) for _ in words)
        memories_to_add.append(
            ShortTermMemory(
                f"{number:016x}",
                at_ms,
                context_text(messages),
                words,
                weights,
                0.0,
                "default",
                messages,
            )
        )
    conditions = [
        f"match_keys(context.messages, ['{word}'], 'user', 3) > 0 && new Date().getFullYear() > 2000"
        for word in chance.choices(vocabulary, k=triggers - 1)
    ]
    conditions.append("match_keys(context.messages, ['生日'], 'user') > 0")
    changes: list[Change] = list(map(Added, memories_to_add))
    for number, trigger in enumerate(conditions):
        changes.append(
            TriggerSet(LongTermMemory(f"记忆{number}", f"第 {number} 件事", trigger, now_ms), None)
        )
    async with open_memory(folder) as memory:
        await memory.store.update("default", lambda state: (changes, None), by="bench")
        await memory.store.compact("default")


def ran(command: list[str], stdin: bytes) -> tuple[float, float, bytes]:
    """Milliseconds by the wall and of processor time, and what was printed."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("MEMORY_SERVER_")
    }
    before = os.times()
    began = time.perf_counter()
    process = subprocess.run(command, input=stdin, capture_output=True, check=True, env=environment)
    wall = time.perf_counter() - began
    after = os.times()
    spent = (
        after.children_user - before.children_user + after.children_system - before.children_system
    )
    return wall * 1000, spent * 1000, process.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=1_000)
    parser.add_argument("--triggers", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--runs", type=int, default=15)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        for count in flags.triggers:
            asyncio.run(fill(Path(home, str(count)), flags.memories, count))
        server = [sys.executable, "-m", "memory_server", "--data-dir"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            **{
                f"hook, {flags.memories} memories, {count} triggers": [
                    *server,
                    str(Path(home, str(count))),
                    "hook",
                ]
                for count in flags.triggers
            },
            "hook, nothing stored": [*server, str(Path(home, "empty")), "hook"],
            "memory-server --version": [sys.executable, "-m", "memory_server", "--version"],
        }
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(flags.runs + 1):
            # A session is given the same text once only.
            event = {
                "hook_event_name": "UserPromptSubmit",
                "session_id": f"s{number}",
                "prompt": PROMPT,
            }
            for name, command in commands.items():
                wall, spent, printed = ran(command, json.dumps(event).encode())
                if number:  # the first one warms the page cache
                    figures[name].append((wall, spent))
                assert " 50 triggers" not in name or "第 49 件事".encode() in printed, printed
    base = statistics.median(wall for wall, _ in figures["python -c pass"])
    print(f"{'':44} {'p50 ms':>8} {'p95 ms':>8} {'x pass':>7} {'cpu ms':>8}")
    for name, runs in figures.items():
        walls = sorted(wall for wall, _ in runs)
        middle = statistics.median(walls)
        late = walls[min(len(walls) - 1, round(0.95 * len(walls)))]
        spent = statistics.median(spent for _, spent in runs)
        print(f"{name:44} {middle:8.0f} {late:8.0f} {middle / base:7.1f} {spent:8.0f}")


if __name__ == "__main__":
    main()
