"""Several processes on one data folder, and processes that are killed while they write."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from random import Random

import pytest
from sample_memories import memory
from store_on_disk import commit, open_store, reopened

from memory_server.conversations.changes import Added
from memory_server.kernel import json_text
from memory_server.storage.json_store.snapshots import SHORT_TERM

pytestmark = pytest.mark.anyio

WRITER = """
import asyncio, sys
from pathlib import Path
from memory_server.conversations.changes import Added, Forgotten, Reinforced
from memory_server.conversations.model import ShortTermMemory
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.options import StoreParameters

data_dir, name, count, compact_every = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def memory(memory_id):
    return ShortTermMemory(memory_id, 0, "user: " + "披萨" * (sum(memory_id.encode()) % 50), ("披萨",), (1.5,), 0.0, "chat")

async def main():
    store = JsonFileStore(data_dir, lambda: 0, StoreParameters(wait_seconds=60, idle_seconds=0.01))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        new = memory(f"{name}-{number}")
        # Every step adds one for good, and one that is forgotten by the next step; it counts its own steps.
        def decide(state):
            changes = [Added(new), Added(memory(name + "-passing")), Forgotten(memory(name + "-passing"), "deleted")]
            if (shared := state.short_term.get("counter")) is not None:
                changes.append(Reinforced("counter", shared.score, shared.score + 1))
            return changes, None
        await store.update("chat", decide, by=name)
        print(new.id, flush=True)
        if compact_every and number % compact_every == compact_every - 1:
            await store.compact("chat")
    await store.aclose()

asyncio.run(main())
"""


@contextmanager
def writer(
    data_dir: Path, name: str, count: int, compact_every: int = 0
) -> Iterator[subprocess.Popen[str]]:
    """A process that writes `count` memories after its first line of input, and prints the id of each one that was
    acknowledged."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(data_dir), name, str(count), str(compact_every)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


async def with_a_counter(data_dir: Path) -> None:
    # Not compacted when idle: this loop stands still while it waits for the processes, and would keep the lock.
    await commit(open_store(data_dir), Added(memory("counter")))


@pytest.mark.parametrize(
    ("processes", "adds"),
    [(3, 30), *(pytest.param(4, 200, marks=pytest.mark.full, id=f"run {run}") for run in range(5))],
)
async def test_processes_that_write_at_once_lose_no_update(
    tmp_path: Path, processes: int, adds: int
) -> None:
    await with_a_counter(tmp_path)
    with ExitStack() as stack:
        writers = [
            writer(tmp_path, f"p{number}", adds, (0, 7)[number % 2]) for number in range(processes)
        ]
        started = [stack.enter_context(process) for process in writers]
        for process in started:
            begin(process)
        outputs = [process.communicate(timeout=120)[0] for process in started]
    assert [output.count("\n") for output in outputs] == [adds] * processes
    state = await reopened(tmp_path)
    expected = {
        f"p{process}-{number}" for process, number in product(range(processes), range(adds))
    }
    assert set(state.short_term) == expected | {"counter"}
    # Each commit read what the others had written: no increment is lost.
    assert state.short_term["counter"].score == processes * adds
    assert state.version == processes * adds + 1
    history = (tmp_path / "chat" / ".memory-server" / "history.jsonl").read_bytes()
    journal = (tmp_path / "chat" / ".memory-server" / "journal.jsonl").read_bytes()
    seqs = [
        line["seq"]
        for line in map(json_text.loads, (history + journal).splitlines())
        if "seq" in line
    ]
    assert seqs == list(range(1, processes * adds + 2))


@pytest.mark.parametrize("kills", [3, pytest.param(300, marks=pytest.mark.full)])
async def test_every_acknowledged_write_of_a_killed_process_is_found(
    tmp_path: Path, kills: int
) -> None:
    rng = Random(20260621)
    await with_a_counter(tmp_path)
    acknowledged: set[str] = set()
    for number in range(kills):
        with writer(
            tmp_path, f"k{number}", 100_000, compact_every=rng.choice([0, 1, 3])
        ) as process:
            begin(process)
            assert process.stdout is not None
            for _ in range(rng.randrange(25)):
                acknowledged.add(process.stdout.readline().strip())
            # Somewhere in a later write or compaction: the process does not wait for its reader.
            for _ in range(rng.randrange(20_000)):
                pass
            process.kill()
            acknowledged.update(line.strip() for line in process.stdout if line.endswith("\n"))
        state = await reopened(tmp_path)
        assert acknowledged <= set(state.short_term)
        # At most one commit per kill was durable but not yet acknowledged, and none is there by half.
        extra = set(state.short_term) - acknowledged - {"counter"}
        assert len(extra) <= number + 1
        assert not any(name.endswith("-passing") for name in state.short_term)
        assert state.short_term["counter"].score == len(state.short_term) - 1
        acknowledged |= extra
    await open_store(tmp_path).compact("chat")
    snapshot = json_text.load_array((tmp_path / "chat" / SHORT_TERM).read_bytes())
    assert acknowledged | {"counter"} == {record["id"] for record in snapshot}
