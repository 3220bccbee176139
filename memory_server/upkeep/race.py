"""`doctor --race`: two processes write to one conversation on the user's own disk; acknowledged writes are counted.

Run as a program it is one of the writers: folder, side, number of writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memory_server.core.changes import Added, Change
from memory_server.core.model import ConversationState, ShortTermMemory
from memory_server.storage.json_store.store import JsonFileStore

PROCESSES = 2
WRITES = 20
"""Writes of each process: the test under which the servers that were compared lose about half."""
TIMEOUT_SECONDS = 60.0
_CONVERSATION = "race"


@dataclass(frozen=True, slots=True)
class Race:
    """How many writes were acknowledged, how many of those were found afterwards, and how long it took."""

    acknowledged: int
    survived: int
    seconds: float


async def race(beside: Path) -> Race:
    """Let the processes write in a temporary folder in `beside`, which is removed afterwards.

    Raises:
        OSError: no folder can be made there.
    """
    with _folder(beside) as folder:
        started = time.monotonic()
        writers = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", __spec__.name, str(folder), str(side), str(WRITES)),
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
        store = JsonFileStore(folder, lambda: 0)
        survived = acknowledged & set((await store.read(_CONVERSATION)).short_term)
        await store.aclose()
        return Race(len(acknowledged), len(survived), time.monotonic() - started)


@contextlib.contextmanager
def _folder(beside: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=".race-", dir=beside))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
