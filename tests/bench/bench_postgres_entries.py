"""What knowledge in PostgreSQL costs beside SQLite: python tests/bench/bench_postgres_entries.py [--quick]

Both are asked in turn, so that a busy machine slows both. Figures are medians in milliseconds, and their ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from knowledge.mixed_notes import NOW, mixed_notes
from postgres_entries import database, entries_of_its_own

from memory_server.kernel.items import Scope
from memory_server.knowledge.entry import Entry, Filter, Operation, Query
from memory_server.knowledge.notes.notes import Notes
from memory_server.storage.entries.sqlite_store import SqliteStore

NOTES = Scope("notes")
FILL = Operation("fill")
RARE = ("披萨", "連接池", "tokio::spawn", "ＧＰＴ４", "小雪", "retry_max_seconds")
COMMON = (
    "how do we configure the connection pool?",
    "支付网关超时是多少秒？",
    "データベース メモリ管理",
    "error handling async",
)


async def compare(
    label: str, calls: int, stores: list[Any], call: Callable[[Any, int], Awaitable[object]]
) -> None:
    milliseconds: list[list[float]] = [[], []]
    for number in range(calls):
        for which, store in enumerate(stores):
            began = time.perf_counter()
            await call(store, number)
            milliseconds[which].append((time.perf_counter() - began) * 1000)
    ours, theirs = map(statistics.median, milliseconds)
    print(f"{label:<44}{ours:>9.2f} ms{theirs:>9.2f} ms   x {ours / theirs:.2f}", flush=True)


async def measure(folder: Path, count: int, calls: int) -> None:
    file = SqliteStore(folder / f"{count}.sqlite3", lambda: NOW)
    with entries_of_its_own(lambda: NOW) as ours:
        stores = [ours, file]
        entries = mixed_notes(count)
        print(f"{count:,} entries: PostgreSQL, SQLite")

        async def fill(store: Any, _number: int) -> None:
            for start in range(0, count, 1000):
                part = entries[start : start + 1000]
                await store.commit(NOTES, lambda _, part=part: (part, None), FILL)

        await compare("fill, all of it", 1, stores, fill)

        async def add(store: Any, number: int) -> None:
            body = entries[number % count].body
            await store.commit(
                NOTES, lambda _: ([Entry(body, created_ms=NOW, updated_ms=NOW)], None), FILL
            )

        await compare("add an entry of 300 characters", calls, stores, add)
        notes = {id(store): Notes(store, lambda: NOW) for store in stores}

        async def remember(store: Any, number: int) -> None:
            await notes[id(store)].remember(
                "tech", f"topic {number}", entries[number % count].body[::-1]
            )

        await compare("remember a note, as the tool does", calls, stores, remember)

        def search(words: tuple[str, ...]) -> Callable[[Any, int], Awaitable[object]]:
            async def search_for_one(store: Any, number: int) -> None:
                query = Query(words[number % len(words)], Filter(), least_share=0.3)
                await store.read(NOTES, lambda entries_of_scope: entries_of_scope.search(query))

            return search_for_one

        await compare("search for rare words", calls, stores, search(RARE))
        await compare("search for common words", calls, stores, search(COMMON))

        async def shares(store: Any, number: int) -> None:
            query = Query(COMMON[number % len(COMMON)])
            await store.read(NOTES, lambda entries_of_scope: entries_of_scope.shares(query))

        await compare("which terms each entry holds (refs)", calls // 3, stores, shares)

        async def use(store: Any, number: int) -> None:
            await store.count_use([number % count + 1], NOW)

        await compare("count a use", calls, stores, use)
        await file.aclose()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 entries only")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        for count in (1_000,) if quick else (1_000, 10_000):
            await measure(Path(folder), count, 15 if quick else 40)
    database().close()


if __name__ == "__main__":
    asyncio.run(main())
