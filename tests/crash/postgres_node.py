"""A node that many clients write to, as a process: each line that it prints is what one write came to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from random import Random

from sample_memories import memory

from memory_server.conversations.changes import Added
from memory_server.kernel.errors import OutcomeUnknown, StorageError
from memory_server.storage.options import StoreParameters
from memory_server.storage.postgres import log
from memory_server.storage.postgres.connection import Database
from memory_server.storage.postgres.conversations import PostgresStore

LEAST_WRITES = 6
"""The number of writes of each client that are tried where the time is over before, on a busy machine."""


def say(*words: object) -> None:
    """Print a line in one write: with PYTHONUNBUFFERED, `print` writes each word alone."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def write(
    url: str, tenant: str, node: str, clients: int, seconds: float, patience: float
) -> None:
    database = Database(url, patience)
    store = PostgresStore(
        database,
        tenant,
        lambda: time.time_ns() // 1_000_000,
        StoreParameters(wait_seconds=patience),
    )
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        rng = Random(number)
        count = 0
        while time.monotonic() < end or count < LEAST_WRITES:
            chat = rng.choice([f"own-{node}-{number}", "shared"])
            name = f"{node}-{number}-{count}"
            count += 1
            began = time.monotonic()
            try:
                _, change = await store.update(
                    chat, lambda _, n=name: ([Added(memory(n))], None), by="test"
                )  # type: ignore[misc]
                say("ok", chat, name, change, f"{time.monotonic() - began:.3f}")
            except OutcomeUnknown:
                say("unknown", chat, name)
            except StorageError as error:
                say("failed", chat, name, error)
            # A read sees each acknowledged write.
            if count % 5 == 0:
                state = await store.read(chat)
                assert len(state.short_term) >= 0

    await asyncio.gather(*map(client, range(clients)))
    await store.aclose()
    database.close()


async def stop_in_the_middle(url: str, tenant: str) -> None:
    """Hold the lock of a conversation while the process is stopped; after it goes on, the write is done."""
    log.IDLE_SECONDS = 1.0
    database = Database(url, 20.0)
    stopped = []
    store = PostgresStore(database, tenant, lambda: 0)

    def decide(state: object) -> tuple[list[Added], None]:
        if not stopped:
            stopped.append(True)
            say("holding")
            os.kill(os.getpid(), signal.SIGSTOP)
        return [Added(memory("stopped"))], None

    _, change = await store.update("shared", decide, by="test", wait_seconds=20.0)  # type: ignore[arg-type]
    say("ok", "shared", "stopped", change, "0")
    await store.aclose()
    database.close()


if __name__ == "__main__":
    if sys.argv[1] == "stop":
        asyncio.run(stop_in_the_middle(*sys.argv[2:4]))
    else:
        url, tenant, node, clients, seconds, patience = sys.argv[1:]
        asyncio.run(write(url, tenant, node, int(clients), float(seconds), float(patience)))
