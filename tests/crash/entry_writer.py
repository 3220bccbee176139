"""A process that stores notes until it is killed: it prints each topic once the note is acknowledged."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from memory_server.knowledge.notes.notes import Notes
from memory_server.storage.entries.sqlite_store import SqliteStore


async def main() -> None:
    database_path = Path(sys.argv[1])
    name = sys.argv[2]
    count = int(sys.argv[3])
    notes = Notes(
        SqliteStore(database_path, lambda: time.time_ns() // 1_000_000, wait_seconds=60), lambda: 1
    )
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        topic = "shared" if number % 10 == 9 else f"{name} {number}"
        await notes.remember("tech", topic, f"text of {name} {number}, 文本 {number}")
        print(f"{topic}\t{name} {number}", flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
