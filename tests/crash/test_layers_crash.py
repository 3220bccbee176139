"""Writers of layers that are killed, and writers at once: what was acknowledged is there, and every file is whole."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from crash import layer_writer
from crash.test_entries_crash import acknowledged, at_once, go, started

from memory_server.knowledge import front_matter

pytestmark = pytest.mark.anyio


async def check(place: Path, said: list[tuple[str, str]]) -> int:
    """Every acknowledged entry is there with its text, and no file is torn; the number of entries."""
    layer = layer_writer.opened(place)
    kept = {entry.key: entry.body for entry in (await layer.page())[0]}
    for key, text in said:
        assert key == "shared" or kept[key].startswith(f"text of {text},")
    assert all(body.endswith("more ") for body in kept.values())
    assert await layer.folder.unreadable() == {}
    await layer.folder.aclose()
    return len(kept)


@pytest.mark.parametrize("kills", [10, pytest.param(300, marks=pytest.mark.full)])
async def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path: Path, kills: int) -> None:
    rng = Random(kills)
    said: list[tuple[str, str]] = []
    for run in range(kills // 2):
        with ExitStack() as stack:
            two = [started(stack, layer_writer, tmp_path, f"r{run}w{number}", 100_000) for number in range(2)]
            for process in two:
                go(process)
            for process in two:
                assert process.stdout is not None
                read = "".join(process.stdout.readline() for _ in range(rng.randrange(1, 6)))
                await asyncio.sleep(rng.uniform(0, 0.03))
                process.kill()
                said += acknowledged(read + process.communicate()[0])
    kept = await check(tmp_path, said)
    assert len(said) >= kills
    print(f"{kills} kills: {len(said)} acknowledged, 0 lost; {kept} entries")


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.full)])
async def test_four_processes_on_one_folder_lose_and_refuse_nothing(tmp_path: Path, count: int) -> None:
    said = at_once(layer_writer, tmp_path, count)
    own = 4 * (count - count // 10)
    assert await check(tmp_path, said) == own + 1
    layer = layer_writer.opened(tmp_path)
    shared = (await layer.get("shared")).body
    assert any(shared.startswith(f"text of {text},") for key, text in said if key == "shared")
    assert len(await layer.uses.uses(layer._place)) == own + 1
    await layer.folder.aclose()


@pytest.mark.parametrize("step", ["copy", "file", "index"])
async def test_killed_at_each_step_the_entry_is_whole(tmp_path: Path, step: str) -> None:
    layer = layer_writer.opened(tmp_path)
    await layer.save("k", "the old text", ["tag"])
    arguments = [sys.executable, layer_writer.__file__, str(tmp_path), step, "1"]
    assert subprocess.run(arguments, check=False).returncode == 9  # noqa: ASYNC221
    assert (await layer.get("k")).body == ("the new text" if step == "index" else "the old text")
    archive = [entry.body for entry in (await layer.page(archive=True))[0]]
    assert archive == (["the old text"] if step == "copy" else [])
    for path in (tmp_path / "memory").rglob("*.md"):
        assert front_matter.read(path.read_bytes()) is not None
    await layer.save("k", "saved again")
    assert ((await layer.get("k")).body, (await layer.get("k")).tags) == ("saved again", ("tag",))
    await layer.folder.aclose()
