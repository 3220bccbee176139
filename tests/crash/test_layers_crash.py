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


async def check(folder: Path, acknowledgements: list[tuple[str, str]]) -> int:
    """Every acknowledged entry is there with its text, and no file is torn; the number of entries."""
    layer = layer_writer.opened(folder)
    entries, _ = await layer.page()
    texts = {entry.key: entry.body for entry in entries}
    for key, text in acknowledgements:
        assert key == "shared" or texts[key].startswith(f"text of {text},")
    assert all(body.endswith("more ") for body in texts.values())
    assert await layer.folder.unreadable() == {}
    await layer.folder.aclose()
    return len(texts)


@pytest.mark.parametrize(
    "kills", [5, *(pytest.param(kills, marks=pytest.mark.full) for kills in (10, 300))]
)
async def test_killed_writers_lose_nothing_that_was_acknowledged(
    tmp_path: Path, kills: int
) -> None:
    rng = Random(kills)
    acknowledgements: list[tuple[str, str]] = []
    for run in range(kills // 2):
        with ExitStack() as stack:
            processes = [
                started(stack, layer_writer, tmp_path, f"r{run}w{number}", 100_000)
                for number in range(2)
            ]
            for process in processes:
                go(process)
            for process in processes:
                assert process.stdout is not None
                lines = "".join(process.stdout.readline() for _ in range(rng.randrange(1, 6)))
                await asyncio.sleep(rng.uniform(0, 0.03))
                process.kill()
                acknowledgements += acknowledged(lines + process.communicate()[0])
    count_of_entries = await check(tmp_path, acknowledgements)
    assert len(acknowledgements) >= kills
    print(
        f"{kills} kills: {len(acknowledgements)} acknowledged, 0 lost; {count_of_entries} entries"
    )


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.full)])
async def test_four_processes_on_one_folder_lose_and_refuse_nothing(
    tmp_path: Path, count: int
) -> None:
    acknowledgements = at_once(layer_writer, tmp_path, count)
    own = 4 * (count - count // 10)
    assert await check(tmp_path, acknowledgements) == own + 1
    layer = layer_writer.opened(tmp_path)
    shared = (await layer.get("shared")).body
    assert any(
        shared.startswith(f"text of {text},") for key, text in acknowledgements if key == "shared"
    )
    assert len(await layer.uses.uses(layer._place)) == own + 1
    await layer.folder.aclose()


@pytest.mark.parametrize("step", ["copy", "file", "index"])
async def test_killed_at_each_step_the_entry_is_whole(tmp_path: Path, step: str) -> None:
    layer = layer_writer.opened(tmp_path)
    await layer.save("k", "the old text", ["tag"])
    arguments = [sys.executable, layer_writer.__file__, str(tmp_path), step, "1"]
    assert subprocess.run(arguments, check=False).returncode == 9  # noqa: ASYNC221
    assert (await layer.get("k")).body == ("the new text" if step == "index" else "the old text")
    archive, _ = await layer.page(archive=True)
    assert [entry.body for entry in archive] == (["the old text"] if step == "copy" else [])
    for path in (tmp_path / "memory").rglob("*.md"):
        assert front_matter.read(path.read_bytes()) is not None
    await layer.save("k", "saved again")
    assert (await layer.get("k")).body == "saved again"
    assert (await layer.get("k")).tags == ("tag",)
    await layer.folder.aclose()
