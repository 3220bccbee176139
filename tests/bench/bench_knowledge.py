"""What notes, sessions, layers and refs cost, beside a bare insert: python tests/bench/bench_knowledge.py [--quick]

Each line ends with its goal: of notes that of their first design, of layers and refs what was measured when they were
planned. The exit status is 1 where one is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from knowledge.mixed_notes import NOW, mixed_notes

from memory_server.kernel.items import Scope
from memory_server.knowledge.entry import Operation
from memory_server.knowledge.layers import LAYER, Layer
from memory_server.knowledge.notes.notes import NOTES, Notes
from memory_server.knowledge.ports import ModelResponse
from memory_server.knowledge.refs import NAMESPACES, Refs
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.knowledge.sessions.sessions import Sessions
from memory_server.llm.wire import unit
from memory_server.storage.entries.markdown_folder import MarkdownFolder, write_pages
from memory_server.storage.entries.sqlite_store import SqliteStore

missed = 0
FILL = Operation("fill")


def say(label: str, value: float, unit: str, goal: float, more: str = "") -> None:
    global missed
    missed += value > goal
    goal_text = f" goal < {goal:g} {unit}" * (goal < inf)
    print(f"{label:<42}{value:>9.2f} {unit:<3} {more:<34}{goal_text}{'  MISSED' * (value > goal)}")


async def timed(calls: int, call: Callable[[int], Awaitable[object]]) -> list[float]:
    """Milliseconds of each call."""
    milliseconds = []
    for number in range(calls):
        began = time.perf_counter()
        await call(number)
        milliseconds.append((time.perf_counter() - began) * 1000)
    return milliseconds


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
    notes = Notes(store, lambda: NOW)
    entries = mixed_notes(count)
    await store.commit(NOTES, lambda _: (entries, None), Operation("fill"))
    floor = bare(folder, calls)
    print(f"\n{count:,} notes of 300 characters; a bare insert and commit takes {floor:.2f} ms")
    fresh = mixed_notes(calls, seed=99)

    async def remember(number: int) -> None:
        await notes.remember("tech", f"fresh {number}", fresh[number].body, tags=["bench"])

    def quantiles(milliseconds: list[float]) -> str:
        p99 = statistics.quantiles(milliseconds, n=100)[98]
        return f"p99 {p99:.1f} ms, {statistics.median(milliseconds) / floor:.1f} x bare"

    milliseconds = await timed(calls, remember)
    say(
        "remember, p50",
        statistics.median(milliseconds),
        "ms",
        50 if few else inf,
        quantiles(milliseconds),
    )
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

    milliseconds = await timed(calls, recall)
    say(
        "recall, p50",
        statistics.median(milliseconds),
        "ms",
        100 if few else 500,
        quantiles(milliseconds),
    )
    long = " ".join(entry.body for entry in entries[:2])[:600]
    milliseconds = await timed(5, lambda _: notes.recall(long))
    say("recall of 600 characters", statistics.median(milliseconds), "ms", 500)
    began = time.perf_counter()
    await asyncio.gather(*(notes.recall(queries[number % len(queries)]) for number in range(100)))
    say("100 recalls at once", (time.perf_counter() - began) * 1000, "ms", 5_000)
    began = time.perf_counter()
    await asyncio.gather(
        *(notes.remember("domain", f"at once {n}", fresh[n % calls].body) for n in range(100))
    )
    say("100 notes at once", (time.perf_counter() - began) * 1000, "ms", 2_000)
    began = time.perf_counter()
    write_pages(folder / "pages", {str(kind): text for kind, text in (await notes.pages()).items()})
    say("document", time.perf_counter() - began, "s", 1 if few else inf)
    began = time.perf_counter()
    await notes.reindex()
    say("reindex", time.perf_counter() - began, "s", 30 if few else inf)
    await store.aclose()
    size = (folder / str(count) / "k.sqlite3").stat().st_size / 1024**2
    say("database", size, "MB", 100)


class Vectors:
    """`ports.Embeddings` that costs nothing: random directions, by text."""

    model = "bench"

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions

    async def vectors(self, texts: Sequence[str], seconds: float) -> ModelResponse[list[bytes]]:
        drawn = [random.Random(text) for text in texts]
        return ModelResponse(
            [unit([draw.gauss() for _ in range(self.dimensions)]) for draw in drawn], self.model
        )


def resident_mb() -> float:
    return (
        int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024**2
    )


async def measure_sessions(folder: Path, count: int, dimensions: int) -> None:
    """One user with `count` memories that have vectors, beside nine others with a tenth of it."""
    store = SqliteStore(folder / f"sessions{dimensions}.sqlite3", lambda: NOW, embeds="bench")
    sessions = Sessions(store, lambda: NOW)
    entries = mixed_notes(count)
    model = Vectors(dimensions)
    callers = [SessionIds(f"user {number}") for number in range(10)]
    for caller in callers:
        memories = [replace(entry, key=None, ref="", kind="", project="") for entry in entries]
        if caller is not callers[0]:
            memories = memories[: count // 10]
        await store.commit(
            Scope("sessions", caller.user_id), lambda _, memories=memories: (memories, None), FILL
        )
    texts = [entry.body for entry in entries]
    pairs = [(Scope("sessions", callers[0].user_id), text) for text in texts]
    await store.keep_vectors(dict(zip(pairs, (await model.vectors(texts, 0)).value, strict=True)))
    sessions.meaning.embeddings = model
    print(f"\n{count:,} memories of a user, vectors of {dimensions:,} numbers")
    before = resident_mb()
    calls = 100
    milliseconds = await timed(
        calls, lambda number: sessions.add(callers[0], f"fresh {number}", mode="direct")
    )
    say(
        "add, direct, p50",
        statistics.median(milliseconds),
        "ms",
        1_000,
        f"p99 {max(milliseconds):.1f} ms",
    )
    for kind in ("text", "vector", "hybrid"):
        by_kind = partial(sessions.search, callers[0], limit=10, search_type=kind)
        milliseconds = await timed(calls, lambda n, search=by_kind: search(texts[n][:12]))
        say(
            f"search, {kind}, p50",
            statistics.median(milliseconds),
            "ms",
            500,
            f"p99 {max(milliseconds):.1f} ms",
        )
    began = time.perf_counter()
    await asyncio.gather(
        *(sessions.add(callers[n % 10], f"at once {n}", mode="direct") for n in range(100))
    )
    say("100 adds at once", (time.perf_counter() - began) * 1000, "ms", 5_000)
    began = time.perf_counter()
    await asyncio.gather(
        *(sessions.search(callers[n % 10], texts[n][:12], search_type="text") for n in range(100))
    )
    say("100 searches at once", (time.perf_counter() - began) * 1000, "ms", 5_000)
    say("memory more than before these calls", resident_mb() - before, "MB", 200)
    await store.aclose()


async def measure_layers(folder: Path, count: int) -> None:
    """A folder of `count` entries, as another process finds it."""
    layer_folder = folder / "layer"
    store = SqliteStore(folder / "uses.sqlite3", lambda: NOW)

    def opened() -> Layer:
        return Layer(
            "project", MarkdownFolder(layer_folder, locks=folder / "locks"), store, lambda: NOW
        )

    layer = opened()
    entries = [replace(entry, key=f"k{number}") for number, entry in enumerate(mixed_notes(count))]
    print(f"\n{count:,} entries of a layer, of 300 characters")
    await layer.folder.commit(LAYER, lambda _: (entries, None), FILL)
    for path in layer_folder.iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))
    await layer.folder.aclose()
    layer = opened()
    began = time.perf_counter()
    await layer.page(limit=1)
    say("first look, with the index", time.perf_counter() - began, "s", 1)
    milliseconds = await timed(50, lambda _: layer.page(limit=1))
    say("look where nothing changed, p50", statistics.median(milliseconds), "ms", 20)
    milliseconds = await timed(50, lambda number: layer.retrieve(entries[number].body[:20]))
    say("retrieve, p50", statistics.median(milliseconds), "ms", 100)
    milliseconds = await timed(50, lambda number: layer.save(f"k{number}", f"new text {number}"))
    say("save, p50", statistics.median(milliseconds), "ms", 50)
    await layer.folder.aclose()
    await store.aclose()


async def measure_refs(folder: Path, count: int) -> None:
    """`count` texts of 3,000 characters in each namespace."""
    store = SqliteStore(folder / "refs.sqlite3", lambda: NOW)
    refs = Refs(store, lambda: NOW)
    entries = mixed_notes(count)
    print(f"\n{2 * count:,} refs of 3,000 characters")
    for name in NAMESPACES:
        texts = [replace(entry, body=entry.body * 10, key=None, ref="") for entry in entries]
        await store.commit(Scope("refs", name), lambda _, texts=texts: (texts, None), FILL)
    milliseconds = await timed(50, lambda number: refs.add(entries[number].body * 10))
    say("add, p50", statistics.median(milliseconds), "ms", 50)
    milliseconds = await timed(50, lambda number: refs.search(entries[number].body[:12]))
    say(
        "search, p50", statistics.median(milliseconds), "ms", 200, f"p99 {max(milliseconds):.1f} ms"
    )
    began = time.perf_counter()
    await refs.clear("short-term")
    say(f"clear {count:,}", time.perf_counter() - began, "s", inf)
    await store.aclose()


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only 1,000 notes")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        await measure(Path(folder), 1_000, 200)
        await measure_sessions(Path(folder), 1_000 if flags.quick else 10_000, 384)
        if not flags.quick:
            await measure_sessions(Path(folder), 10_000, 1_536)
        await measure_layers(Path(folder), 1_000)
        await measure_refs(Path(folder), 500 if flags.quick else 2_000)
        if not flags.quick:
            await measure(Path(folder), 10_000, 100)
    return min(1, missed)


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
