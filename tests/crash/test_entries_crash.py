"""Writers of knowledge that are killed, and writers at once: what was acknowledged is there, and the index is whole."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from crash import entry_writer
from entries_held import page

from memory_server.knowledge.entry import Filter
from memory_server.knowledge.notes.notes import NOTES
from memory_server.storage.entries.sqlite_store import SqliteStore

pytestmark = pytest.mark.anyio


def started(
    stack: ExitStack, writer: ModuleType, location: Path, name: str, count: int
) -> subprocess.Popen[str]:
    arguments = [sys.executable, str(writer.__file__), str(location), name, str(count)]
    process = stack.enter_context(
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    )
    stack.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def acknowledged(output: str) -> list[tuple[str, str]]:
    """Topics with what was said last; a line that was cut off was not acknowledged."""
    lines = [
        line for line in output.splitlines(keepends=True) if line.endswith("\n") and line != "end\n"
    ]
    parts = [line.rstrip("\n").partition("\t") for line in lines]
    return [(topic, text) for topic, _, text in parts]


def at_once(writer: ModuleType, location: Path, count: int) -> list[tuple[str, str]]:
    """What four processes said that stored `count` entries each at once."""
    with ExitStack() as stack:
        processes = [started(stack, writer, location, f"w{number}", count) for number in range(4)]
        for process in processes:
            go(process)
        outputs = [process.communicate(timeout=300)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * 4
    acknowledgements = list(chain.from_iterable(map(acknowledged, outputs)))
    assert len(acknowledgements) == 4 * count
    return acknowledgements


async def check(database_path: Path, acknowledgements: list[tuple[str, str]]) -> int:
    """Every acknowledged note is there with its text and in the index; the number of notes."""
    store = SqliteStore(database_path, lambda: 1)
    notes, _ = await page(store, NOTES, Filter())
    texts = {note.title: note.body for note in notes}
    for topic, text in acknowledgements:
        assert topic == "shared" or texts[topic].startswith(f"text of {text},")
    assert [finding.grade for finding in await store.examine()] == ["ok"]
    await store.aclose()
    connection = sqlite3.connect(database_path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.execute("INSERT INTO terms(terms) VALUES('integrity-check')")
    connection.close()
    return len(texts)


@pytest.mark.parametrize(
    "kills", [4, *(pytest.param(kills, marks=pytest.mark.full) for kills in (20, 60, 300))]
)
async def test_killed_writers_lose_nothing_that_was_acknowledged(
    tmp_path: Path, kills: int
) -> None:
    database_path = tmp_path / ".memory-server" / "k.sqlite3"
    rng = Random(kills)
    acknowledgements: list[tuple[str, str]] = []
    for run in range(kills // 2):
        with ExitStack() as stack:
            processes = [
                started(stack, entry_writer, database_path, f"r{run}w{number}", 100_000)
                for number in range(2)
            ]
            for process in processes:
                go(process)
            for process in processes:
                assert process.stdout is not None
                lines = "".join(process.stdout.readline() for _ in range(rng.randrange(1, 6)))
                await asyncio.sleep(rng.uniform(0, 0.05))
                process.kill()
                acknowledgements += acknowledged(lines + process.communicate()[0])
    count_of_notes = await check(database_path, acknowledgements)
    assert len(acknowledgements) > kills
    print(f"{kills} kills: {len(acknowledgements)} acknowledged, 0 lost; {count_of_notes} notes")


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.full)])
async def test_four_processes_that_store_at_once_lose_and_refuse_nothing(
    tmp_path: Path, count: int
) -> None:
    database_path = tmp_path / ".memory-server" / "k.sqlite3"
    acknowledgements = at_once(entry_writer, database_path, count)
    assert await check(database_path, acknowledgements) == 4 * (count - count // 10) + 1
    store = SqliteStore(database_path, lambda: 1)
    assert len(await store.operations(limit=1000)) == 4 * count
    notes, _ = await page(store, NOTES, Filter())
    shared = [note.body for note in notes if note.title == "shared"]
    assert any(
        shared[0].startswith(f"text of {text},")
        for topic, text in acknowledgements
        if topic == "shared"
    )
    await store.aclose()
