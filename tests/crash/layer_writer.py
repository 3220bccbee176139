"""A process that saves entries of a layer until it is killed: it prints each key once it is acknowledged. With the
name of a step it kills itself there: `copy` before the original is removed, `file` before its new text takes the name,
`index` when the file is there and the use is not yet noted."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from memory_server.kernel import files as folders
from memory_server.knowledge.layers import Layer, LayerOptions
from memory_server.storage.entries.markdown_folder import MarkdownFolder
from memory_server.storage.entries.sqlite_store import SqliteStore


def opened(folder: Path) -> Layer:
    def clock() -> int:
        return time.time_ns() // 1_000_000

    entries = MarkdownFolder(folder / "memory", locks=folder / "locks", wait_seconds=60)
    options = LayerOptions(max_entries=1_000_000)  # none goes into the archive
    return Layer(
        "project",
        entries,
        SqliteStore(folder / "k.sqlite3", clock, wait_seconds=60),
        clock,
        options,
    )


def die_at(step: str) -> None:
    def die(*_: Any) -> None:
        os._exit(9)

    if step == "copy":
        folders.remove_file = die
    elif step == "file":
        folders.take_name = die
    elif step == "index":
        SqliteStore.mark_used = die  # type: ignore[method-assign, assignment]


async def main() -> None:
    folder = Path(sys.argv[1])
    name = sys.argv[2]
    count = int(sys.argv[3])
    layer = opened(folder)
    if name in ("copy", "file", "index"):
        if name == "copy":
            entry = await layer.get("k")
            die_at(name)
            from memory_server.knowledge.entry import Operation, archived
            from memory_server.knowledge.layers import LAYER

            change = archived(entry, "expired", entry.updated_ms)
            await layer.folder.commit(LAYER, lambda _: ([change], None), Operation("archive"))
        else:
            die_at(name)
            await layer.save("k", "the new text")
        return
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        key = "shared" if number % 10 == 9 else f"{name}-{number}"
        await layer.save(key, f"text of {name} {number}, 文本 {number}\n" + "more " * 500)
        print(f"{key}\t{name} {number}", flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
