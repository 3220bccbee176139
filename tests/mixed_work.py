"""A process that does everything at once that a conversation can be asked: adds, searches that reinforce, deletes,
pins, triggers, clean-ups, undos, compactions. Prints the version of each change that was acknowledged,
and `looked` for a clean-up that forgot nothing.

    python mixed_work.py DATA_DIR SEED COUNT
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from random import Random

from sample_memories import DAY, NOW
from trigger_table import TableRunner

from memory_server.conversations.conversation import Conversations
from memory_server.conversations.recall.parameters import Parameters, RetentionParameters
from memory_server.conversations.services import Services
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.messages import Message
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.options import StoreParameters

WORDS = ("披萨", "乌龙茶", "deadline", "birthday", "🎂")


async def work(data_dir: Path, seed: int, count: int) -> None:
    rng = Random(seed)
    # Each process has its own idea of the time, some minutes off and not always going forward.
    store = JsonFileStore(
        data_dir,
        lambda: NOW + rng.randrange(-DAY, DAY),
        StoreParameters(wait_seconds=60, idle_seconds=0.05),
    )
    parameters = Parameters(
        retention=RetentionParameters(always_kept=20, most_at_once=3, max_age_ms=DAY // 2)
    )
    around = Services(store, TableRunner(), parameters, lambda: NOW + rng.randrange(-DAY, DAY), rng)
    chat = Conversations(around).get("chat")
    question = [Message("user", f"{rng.choice(WORDS)} {rng.choice(WORDS)} {rng.random()}")]
    await chat.short_term.query_of(question)
    print("ready", flush=True)
    sys.stdin.readline()
    done: list[str] = []
    for number in range(count):
        message = Message("user", f"{rng.choice(WORDS)} {rng.choice(WORDS)} {seed}-{number}")
        ids = list((await store.read("chat")).short_term)
        change: str | None = None
        match rng.randrange(10):
            case 0 | 1 | 2 | 3:
                change = (await chat.short_term.add([message])).change_id
            case 4:
                change = (
                    await chat.short_term.search([Message("user", rng.choice(WORDS))])
                ).change_id
            case 5:
                change = (await chat.short_term.delete(f"{seed}-{rng.randrange(count)}")).change_id
            case 6 if ids:
                with contextlib.suppress(MemoryNotFound):  # another process deleted it meanwhile
                    change = (
                        await chat.short_term.pin(rng.choice(ids), pinned=rng.random() < 0.5)
                    ).change_id
            case 7:
                change = (
                    await chat.long_term.add(f"t{rng.randrange(3)}", f"p {seed}-{number}", "true")
                ).change_id
            case 8:
                removed = await chat.short_term.clean_up()
                change = removed.change_id
                if change is None and removed.remaining:
                    print("looked", flush=True)
            case _ if done:
                with contextlib.suppress(InvalidInput):  # there is nothing left of it
                    change = (await chat.archive.undo(rng.choice(done))).change_id
            case _:
                pass
        if change is not None:
            done.append(change)
            print(change.partition("-")[0], flush=True)
        if number % 20 == 19:
            await store.compact("chat")
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
