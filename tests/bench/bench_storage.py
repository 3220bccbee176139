"""What the JSON store costs, in one sitting, with ratios: python tests/bench/bench_storage.py [--quick]

Times of one machine say little; the ratios and the last column, what issue 5 asks for, are what counts.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import psutil

from memory_server.changes import Added, Change
from memory_server.model import ConversationState, Message, ShortTermMemory
from memory_server.recall.postings import index_of
from memory_server.storage.json_files import JsonFileStore, StoreParameters

KEYWORDS = 23
NOW = 1_782_000_000_000
QUIET = StoreParameters(idle_seconds=3600, wait_seconds=60)

WRITER = """
import asyncio, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from bench_storage import QUIET, memory
from memory_server.changes import Added
from memory_server.storage.json_files import JsonFileStore
from random import Random

async def main():
    store = JsonFileStore(Path(sys.argv[2]), lambda: 0, QUIET)
    chat, name, count = sys.argv[3], sys.argv[4], int(sys.argv[5])
    await store.read(chat)
    print("ready", flush=True)
    sys.stdin.readline()
    rng, waits = Random(name), []
    for n in range(count):
        new = memory(rng, f"{name}-{n}")
        start = time.perf_counter()
        await store.update(chat, lambda state: ([Added(new)], None), by="bench")
        waits.append(time.perf_counter() - start)
    print(" ".join(map(str, waits)), flush=True)

asyncio.run(main())
"""


def memory(rng: Random, memory_id: str) -> ShortTermMemory:
    """A memory as companions store them: two short lines and 23 keywords of some 8,000 words."""
    words = [chr(0x4E00 + rng.randrange(90)) + chr(0x4E00 + rng.randrange(90)) for _ in range(KEYWORDS)]
    text = "".join(words)
    return ShortTermMemory(
        id=memory_id,
        time_ms=NOW - rng.randrange(10**10),
        text=f"user: {text}",
        words=tuple(sys.intern(word) for word in words),
        weights=tuple(rng.random() * 60 for _ in words),
        score=0.0,
        conversation_id="chat",
        messages=(Message("user", text),),
    )


async def fill(store: JsonFileStore, chat: str, count: int) -> None:
    rng = Random(count)
    for start in range(0, count, 5_000):
        new: list[Change] = [Added(memory(rng, f"m{n}")) for n in range(start, min(count, start + 5_000))]

        def decide(state: ConversationState, new: list[Change] = new) -> tuple[list[Change], None]:
            return new, None

        await store.update(chat, decide, by="bench")
    await store.compact(chat)


async def commit_times(stores: dict[str, JsonFileStore], count: int) -> dict[str, float]:
    """The median seconds of a commit in each store, measured in turns."""
    rng, times = Random(1), {name: [0.0] * 0 for name in stores}
    for number in range(count):
        for name, store in stores.items():
            new = Added(memory(rng, f"new{number}"))
            start = time.perf_counter()
            await store.update("chat", lambda state, new=new: ([new], None), by="bench")
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def together(data: Path, chats: list[str], count: int) -> tuple[float, list[float]]:
    """Commits a second of one process per chat, all at once, and how long each commit took."""
    here = str(Path(__file__).parent)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, here, str(data), chat, f"p{n}", str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n, chat in enumerate(chats)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    taken = time.perf_counter() - start
    waits = [float(x) for output in outputs for x in output.split()]
    assert len(waits) == count * len(chats)
    return len(waits) / taken, waits


async def main(quick: bool) -> None:
    rows: list[tuple[str, str, str]] = []
    large = 20_000 if quick else 100_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        stores = {str(n): JsonFileStore(root / str(n), lambda: NOW, QUIET) for n in (100, large)}
        for count, store in stores.items():
            await fill(store, "chat", int(count))
        times = await commit_times(stores, 60 if quick else 200)
        ratio = times[str(large)] / times["100"]
        rows.append((f"commit p50 at {large:,} memories", f"{times[str(large)] * 1e3:.2f} ms, {ratio:.2f} x", "1.5 x"))
        del stores, store

        await fill(JsonFileStore(root / "open", lambda: NOW, QUIET), "chat", 10_000)
        size = sum(path.stat().st_size for path in (root / "open" / "chat").rglob("*short*"))
        opened = []
        for _ in range(3):
            gc.collect()
            start = time.perf_counter()
            await JsonFileStore(root / "open", lambda: NOW, QUIET).read("chat")
            opened.append(time.perf_counter() - start)
        rows.append(("open 10,000 memories", f"{min(opened) * 1e3:.0f} ms", "300 ms"))
        rows.append(("10,000 memories on disk", f"{size / 1e6:.1f} MB, with the copy for edits", "20 MB"))
        rows.append(("10,000 memories in memory, with index", f"{ram(root / 'open'):.0f} MB", "60 MB"))

        count = 60 if quick else 200
        alone, _ = together(root / "one", ["chat"], count)
        same, waits = together(root / "same", ["chat"] * 4, count)
        different, _ = together(root / "different", [f"chat{n}" for n in range(4)], count)
        rows.append(("4 processes, one conversation", f"{same:.0f}/s, {same / alone:.2f} x one", "0.8 x"))
        rows.append(("4 processes, a conversation each", f"{different:.0f}/s, {different / alone:.2f} x one", "1 x"))
        p99 = statistics.quantiles(waits, n=100)[98]
        rows.append(("commit with its wait for the lock, p99", f"{p99 * 1e3:.0f} ms", "50 ms"))
    for what, measured, wanted in rows:
        print(f"{what:42} {measured:36} wanted: {wanted}")


def ram(data: Path) -> float:
    """MB that a process of its own gains by reading the conversation and making its index."""
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import bench_storage; "
        "print(bench_storage.grown(Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(data)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def grown(data: Path) -> float:
    """See `ram`."""

    async def read() -> float:
        store = JsonFileStore(data, lambda: NOW, QUIET)
        await store.read("nothing")
        gc.collect()
        before = psutil.Process().memory_info().rss
        state = await store.read("chat")
        index = index_of(state)
        gc.collect()
        assert len(index) == 10_000
        return (psutil.Process().memory_info().rss - before) / 1e6

    return asyncio.run(read())


if __name__ == "__main__":
    asyncio.run(main("--quick" in sys.argv))
