"""What notes cost, beside a bare insert and commit: python tests/bench/bench_knowledge.py [--quick]

Each line ends with its goal, which is that of the notes' first design, and the exit status is 1 where one is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from math import inf
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from knowledge.mixed_notes import NOW, mixed_notes

from memory_server.knowledge.entry import Operation
from memory_server.knowledge.notes import NOTES, Notes
from memory_server.storage.entries.pages import write_pages
from memory_server.storage.entries.sqlite_store import SqliteStore

missed = 0


def say(what: str, value: float, unit: str, goal: float, more: str = "") -> None:
    global missed
    missed += value > goal
    wanted = f" goal < {goal:g} {unit}" if goal < inf else ""
    print(f"{what:<42}{value:>9.2f} {unit:<3} {more:<34}{wanted}{'  MISSED' * (value > goal)}")


async def timed(calls: int, call: Callable[[int], Awaitable[object]]) -> list[float]:
    """Milliseconds of each call."""
    took = []
    for number in range(calls):
        began = time.perf_counter()
        await call(number)
        took.append((time.perf_counter() - began) * 1000)
    return took


def bare(folder: Path, calls: int) -> float:
    """Milliseconds of an insert and a commit of 300 characters, without an index."""
    connection = sqlite3.connect(folder / "bare.sqlite3", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS t(a)")
    began = time.perf_counter()
    for _ in range(calls):
        connection.execute("INSERT INTO t VALUES(?)", ("x" * 300,))
    connection.close()
    return (time.perf_counter() - began) * 1000 / calls


async def measure(folder: Path, count: int, calls: int) -> None:
    few = count <= 1_000
    store = SqliteStore(folder / str(count) / "k.sqlite3", lambda: NOW)
    notes, made = Notes(store, lambda: NOW), mixed_notes(count)
    await store.commit(NOTES, lambda held: (made, None), Operation("fill"))
    floor = bare(folder, calls)
    print(f"\n{count:,} notes of 300 characters; a bare insert and commit takes {floor:.2f} ms")
    fresh = mixed_notes(calls, seed=99)

    async def remember(number: int) -> None:
        await notes.remember("tech", f"fresh {number}", fresh[number].body, tags=["bench"])

    def quantiles(took: list[float]) -> str:
        p99 = statistics.quantiles(took, n=100)[98]
        return f"p99 {p99:.1f} ms, {statistics.median(took) / floor:.1f} x bare"

    took = await timed(calls, remember)
    say("remember, p50", statistics.median(took), "ms", 50 if few else inf, quantiles(took))
    queries = [
        "数据库 读写分离",
        "the cache validates session tokens",
        "設定ファイル",
        "fresh 7",
        "카 화면은",
        "сервер",
    ]

    async def recall(number: int) -> None:
        await notes.recall(queries[number % len(queries)])

    took = await timed(calls, recall)
    say("recall, p50", statistics.median(took), "ms", 100 if few else 500, quantiles(took))
    long = " ".join(entry.body for entry in made[:2])[:600]
    took = await timed(5, lambda _: notes.recall(long))
    say("recall of 600 characters", statistics.median(took), "ms", 500)
    began = time.perf_counter()
    await asyncio.gather(*(notes.recall(queries[number % len(queries)]) for number in range(100)))
    say("100 recalls at once", (time.perf_counter() - began) * 1000, "ms", 5_000)
    began = time.perf_counter()
    await asyncio.gather(*(notes.remember("domain", f"at once {n}", fresh[n % calls].body) for n in range(100)))
    say("100 notes at once", (time.perf_counter() - began) * 1000, "ms", 5_000 if few else inf)
    began = time.perf_counter()
    write_pages(folder / "pages", {str(kind): text for kind, text in (await notes.pages()).items()})
    say("document", time.perf_counter() - began, "s", 1 if few else inf)
    began = time.perf_counter()
    await notes.reindex()
    say("reindex", time.perf_counter() - began, "s", 30 if few else inf)
    await store.aclose()
    size = (folder / str(count) / "k.sqlite3").stat().st_size / 1024**2
    say("database", size, "MB", 100)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only 1,000 notes")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        await measure(Path(folder), 1_000, 200)
        if not flags.quick:
            await measure(Path(folder), 10_000, 100)
    return min(1, missed)


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
