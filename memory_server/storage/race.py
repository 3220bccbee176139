"""`doctor --race`: two processes write to one conversation on the user's own disk; acknowledged writes are counted.

As a program it is one of the writers; its arguments are the folder, the side and the number of writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from memory_server.core.changes import Added, Change
from memory_server.core.findings import Finding
from memory_server.core.model import ConversationState, ShortTermMemory
from memory_server.storage.folder_examination import nearest
from memory_server.storage.json_store.store import JsonFileStore

PROCESSES = 2
WRITES = 20
"""Writes of each process: with so many, the servers we compared lost about half."""
TIMEOUT_SECONDS = 60.0
_CONVERSATION = "race"


@dataclass(frozen=True, slots=True)
class Race:
    """How many writes were acknowledged, how many of these were found afterwards, and how long it took."""

    acknowledged: int
    survived: int
    seconds: float


async def examine_race(data_dir: Path) -> Finding:
    """Whether all that two processes write at once in `data_dir` is there afterwards."""
    beside = nearest(data_dir)
    try:
        result = await race(beside)
    except OSError as error:
        return Finding("error", "race", f"No folder can be made in {beside}: {error.strerror}.")
    expected = PROCESSES * WRITES
    figures = f"{result.survived} of {expected} writes of {PROCESSES} processes at once survived"
    if result.acknowledged == result.survived == expected:
        return Finding("ok", "race", f"{figures} ({result.seconds:.1f} s)")
    if result.survived == result.acknowledged:
        refused = expected - result.acknowledged
        return Finding("error", "race", f"{refused} of {expected} writes were refused; of the others none is lost.")
    return Finding(
        "error",
        "race",
        f"{figures}, of {result.acknowledged} acknowledged; do not share {data_dir} between processes on this disk.",
    )


async def race(beside: Path) -> Race:
    """Let the processes write in a temporary folder in `beside`, and remove it.

    Raises:
        OSError: a folder cannot be made there.
    """
    with tempfile.TemporaryDirectory(prefix=".race-", dir=beside, ignore_cleanup_errors=True) as folder:
        started = time.monotonic()
        writers = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", __spec__.name, folder, str(side), str(WRITES)),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            for side in range(PROCESSES)
        ]
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                printed = [(await writer.communicate())[0] for writer in writers]
        except TimeoutError:
            printed = []
        finally:
            for writer in writers:
                if writer.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        writer.kill()
                    await writer.wait()
        acknowledged = {name for text in printed for name in text.decode().split()}
        store = JsonFileStore(Path(folder), lambda: 0)
        survived = acknowledged & set((await store.read(_CONVERSATION)).short_term)
        await store.aclose()
        return Race(len(acknowledged), len(survived), time.monotonic() - started)


async def write(folder: Path, side: str, count: int) -> None:
    """Store `count` memories and print the id of each once it is acknowledged."""
    store = JsonFileStore(folder, lambda: time.time_ns() // 1_000_000)
    for number in range(count):
        memory = ShortTermMemory(f"{side}-{number}", number, "a write of the race", (), (), 0.0, _CONVERSATION)

        def decide(_: ConversationState, memory: ShortTermMemory = memory) -> tuple[list[Change], None]:
            return [Added(memory)], None

        await store.update(_CONVERSATION, decide, by="race")
        sys.stdout.write(memory.id + "\n")
    sys.stdout.flush()
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
