"""What the JSON store costs, in one sitting, with ratios: python tests/bench/bench_storage.py [--quick]

Times of one machine say little; the ratios are what counts. Each line ends with its goal, and the exit status is 1
where one is missed. Rates are medians of several rounds, in which the things that are compared take turns.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil

from memory_server.conversations.changes import Added, Change
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.recall.index import index_of
from memory_server.kernel.messages import Message
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.options import StoreParameters

KEYWORDS = 23
NOW = 1_782_000_000_000
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"bench","version":"1"}}}\n'
)
QUIET = StoreParameters(idle_seconds=3600, wait_seconds=60)

WRITER = """
import asyncio, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from bench_storage import QUIET, memory
from memory_server.conversations.changes import Added
from memory_server.storage.json_store.store import JsonFileStore
from random import Random

async def main():
    store = JsonFileStore(Path(sys.argv[2]), lambda: 0, QUIET)
    chat, name, count = sys.argv[3], sys.argv[4], int(sys.argv[5])
    # The first commit makes the folder and reads what is there.
    first = memory(Random(name), f"{name}-first")
    await store.update(chat, lambda state: ([Added(first)], None), by="bench")
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
    words = [
        chr(0x4E00 + rng.randrange(90)) + chr(0x4E00 + rng.randrange(90)) for _ in range(KEYWORDS)
    ]
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
        new: list[Change] = [
            Added(memory(rng, f"m{n}")) for n in range(start, min(count, start + 5_000))
        ]

        def decide(state: ConversationState, new: list[Change] = new) -> tuple[list[Change], None]:
            return new, None

        await store.update(chat, decide, by="bench")
    await store.compact(chat)


async def commit_times(stores: dict[str, JsonFileStore], count: int) -> dict[str, float]:
    """The median seconds of a commit in each store, measured in turns."""
    rng = Random(1)
    times: dict[str, list[float]] = {name: [] for name in stores}
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
    waits = list(map(float, " ".join(outputs).split()))
    assert len(waits) == count * len(chats)
    return len(waits) / taken, waits


@dataclass(frozen=True, slots=True)
class Row:
    """One figure and its goal."""

    label: str
    figure: float
    goal: float
    unit: str
    beside: str = ""
    at_least: bool = False

    @property
    def missed(self) -> bool:
        if self.at_least:
            return self.figure < self.goal
        return self.figure > self.goal

    def __str__(self) -> str:
        sign = ("<=", ">=")[self.at_least]
        figure = f"{self.figure:.2f} {self.unit}"
        goal = f"{sign} {self.goal:g} {self.unit}"
        return f"{self.label:46} {figure:12} {self.beside:34} {goal:12}{'MISSED' * self.missed}"


async def sizes(root: Path, quick: bool) -> list[Row]:
    """What a commit, an opening and 10,000 memories cost."""
    large = 20_000 if quick else 100_000
    stores = {str(n): JsonFileStore(root / str(n), lambda: NOW, QUIET) for n in (100, large)}
    for count, store in stores.items():
        await fill(store, "chat", int(count))
    times = await commit_times(stores, 60 if quick else 200)
    ratio = times[str(large)] / times["100"]
    beside = f"{times[str(large)] * 1e3:.2f} ms"
    rows = [Row(f"commit p50 at {large:,} memories, of that at 100", ratio, 1.5, "x", beside)]
    await fill(JsonFileStore(root / "open", lambda: NOW, QUIET), "chat", 10_000)
    size = sum(path.stat().st_size for path in (root / "open" / "chat").rglob("*short*"))
    opened, used = zip(*(opening(root / "open") for _ in range(3 if quick else 7)), strict=True)
    beside = f"{min(used) * 1e3:.0f} ms of it computing"
    rows.append(Row("open 10,000 memories, best", min(opened) * 1e3, 300, "ms", beside))
    rows.append(Row("10,000 memories on disk", size / 1e6, 20, "MB", "with the copy for edits"))
    rows.append(
        Row("10,000 memories in memory", ram(root / "open"), 60, "MB", "with the index of words")
    )
    return rows


def sharing(root: Path, quick: bool) -> list[Row]:
    """What processes that write at once take from each other."""
    count = 200
    if quick:
        count = 100
    same: list[float] = []
    different: list[float] = []
    waits: list[float] = []
    rates: list[float] = []
    for number in range(3 if quick else 5):
        alone, _ = together(root / f"one{number}", ["chat"], 4 * count)
        shared, taken = together(root / f"same{number}", ["chat"] * 4, count)
        apart, _ = together(root / f"different{number}", [f"chat{n}" for n in range(4)], count)
        same.append(shared / alone)
        different.append(apart / alone)
        waits += taken
        rates.append(alone)
    p99 = statistics.quantiles(waits, n=100)[98]
    beside = f"one: {statistics.median(rates):.0f}/s; {min(same):.2f} to {max(same):.2f}"
    return [
        Row(
            "4 processes, one conversation, of one process",
            statistics.median(same),
            0.8,
            "x",
            beside,
            at_least=True,
        ),
        Row(
            "4 processes, a conversation each",
            statistics.median(different),
            1.0,
            "x",
            at_least=True,
        ),
        Row(
            "commit with its wait for the lock, p99",
            p99 * 1e3,
            50,
            "ms",
            f"longest {max(waits) * 1e3:.0f} ms",
        ),
    ]


def starting(root: Path, quick: bool) -> list[Row]:
    """What conversations on disk cost a server that starts."""
    counts = (10, 1_000 if quick else 10_000)
    for count in counts:
        for number in range(count):
            private = root / f"start{count}" / f"chat{number}" / ".memory-server"
            private.mkdir(parents=True)
            (private.parent / "short-term-memory.json").write_bytes(b"[]\n")
            (private / "conversation.json").write_text(
                f'{{"format":1,"id":"chat{number}","lastCleanup":null}}\n'
            )
    taken: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(3 if quick else 7):
        for count in counts:
            taken[count].append(first_answer(root / f"start{count}"))
    few, many = (min(taken[count]) for count in counts)
    label = f"start to first answer, {counts[1]:,} conversations, of 10"
    return [Row(label, many / few, 1.2, "x", f"{many * 1e3:.0f} ms")]


def first_answer(data: Path) -> float:
    """Seconds from starting a server on `data` to its answer to `initialize`."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "memory_server", "--data-dir", str(data), "serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(INITIALIZE)
        server.stdin.flush()
        assert b'"serverInfo"' in server.stdout.readline()
        taken = time.perf_counter() - start
        server.communicate(timeout=60)
    return taken


async def main(quick: bool) -> bool:
    """Whether every goal was met."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rows = [*await sizes(root, quick), *sharing(root, quick), *starting(root, quick)]
    for row in rows:
        print(row)
    return not any(row.missed for row in rows)


def opening(data: Path) -> tuple[float, float]:
    """Seconds in which a process of its own opens the conversation, and those of them in which it computed."""
    taken, used = map(float, measured("opened", data).split())
    return taken, used


def opened(data: Path) -> str:
    """See `opening`."""

    async def read() -> str:
        store = JsonFileStore(data, lambda: NOW, QUIET)
        await store.read("nothing")
        start = time.perf_counter()
        used = time.process_time()
        assert len((await store.read("chat")).short_term) == 10_000
        return f"{time.perf_counter() - start} {time.process_time() - used}"

    return asyncio.run(read())


def measured(function: str, data: Path) -> str:
    """What `function` of this file says about `data` in a process of its own."""
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import bench_storage; "
        f"print(bench_storage.{function}(Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def ram(data: Path) -> float:
    """MB that a process of its own gains by reading the conversation and making its index."""
    return float(measured("grown", data))


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
    sys.exit(not asyncio.run(main("--quick" in sys.argv)))
