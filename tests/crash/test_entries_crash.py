"""Writers of knowledge that are killed, and writers at once: what was acknowledged is there, and the index is whole."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
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


def started(stack: ExitStack, writer: ModuleType, place: Path, name: str, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, str(writer.__file__), str(place), name, str(count)]
    process = stack.enter_context(subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
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
    lines = [line for line in output.splitlines(keepends=True) if line.endswith("\n") and line != "end\n"]
    return [(topic, text) for topic, _, text in (line.rstrip("\n").partition("\t") for line in lines)]


def at_once(writer: ModuleType, place: Path, count: int = 200) -> list[tuple[str, str]]:
    """What four processes said that stored `count` entries each at once."""
    with ExitStack() as stack:
        four = [started(stack, writer, place, f"w{number}", count) for number in range(4)]
        for process in four:
            go(process)
        outputs = [process.communicate(timeout=300)[0] for process in four]
        assert [process.returncode for process in four] == [0] * 4
    said = [each for output in outputs for each in acknowledged(output)]
    assert len(said) == 4 * count
    return said


async def check(place: Path, said: list[tuple[str, str]]) -> int:
    """Every acknowledged note is there with its text and in the index; the number of notes."""
    store = SqliteStore(place, lambda: 1)
    kept = {note.title: note.body for note in (await page(store, NOTES, Filter()))[0]}
    for topic, text in said:
        assert topic == "shared" or kept[topic].startswith(f"text of {text},")
    assert [finding.grade for finding in await store.examine()] == ["ok"]
    await store.aclose()
    connection = sqlite3.connect(place)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.execute("INSERT INTO terms(terms) VALUES('integrity-check')")
    connection.close()
    return len(kept)


@pytest.mark.parametrize("kills", [20, *(pytest.param(kills, marks=pytest.mark.full) for kills in (60, 300))])
async def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path: Path, kills: int) -> None:
    place, rng = tmp_path / ".memory-server" / "k.sqlite3", Random(kills)
    said: list[tuple[str, str]] = []
    for run in range(kills // 2):
        with ExitStack() as stack:
            two = [started(stack, entry_writer, place, f"r{run}w{number}", 100_000) for number in range(2)]
            for process in two:
                go(process)
            for process in two:
                assert process.stdout is not None
                read = "".join(process.stdout.readline() for _ in range(rng.randrange(1, 6)))
                await asyncio.sleep(rng.uniform(0, 0.05))
                process.kill()
                said += acknowledged(read + process.communicate()[0])
    kept = await check(place, said)
    assert len(said) > kills
    print(f"{kills} kills: {len(said)} acknowledged, 0 lost; {kept} notes")


async def test_four_processes_that_store_at_once_lose_and_refuse_nothing(tmp_path: Path) -> None:
    place = tmp_path / ".memory-server" / "k.sqlite3"
    said = at_once(entry_writer, place)
    assert await check(place, said) == 4 * 180 + 1
    store = SqliteStore(place, lambda: 1)
    assert len(await store.operations(limit=1000)) == 800
    shared = [note.body for note in (await page(store, NOTES, Filter()))[0] if note.title == "shared"]
    assert any(shared[0].startswith(f"text of {text},") for topic, text in said if topic == "shared")
    await store.aclose()
