"""A dry run changes nothing, so `read_only` does not refuse it; and who stops reading is not told of a fault."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from forked_programs import start

from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.kernel.messages import Message
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.runtime.app import open_memory

DRY_RUNS = (
    ("cleanup", "--dry-run"),
    ("knowledge", "cleanup", "--dry-run"),
    ("knowledge", "words", "--dry-run"),
    ("forget", "apples", "--dry-run"),
    ("forget", "apples", "--for-good", "--dry-run"),
    ("doctor", "--repair", "--dry-run"),
    ("doctor", "--reindex", "--dry-run"),
)


async def _fill(data: Path, project: Path) -> None:
    settings = Settings(layers={"project_dir": project})  # type: ignore[arg-type]
    async with open_memory(data, settings=settings) as app:
        await app.conversation().short_term.add([Message("user", "apples grow here")])
        await app.knowledge.notes.remember("domain", "fruit", "apples are round")
        await app.knowledge.sessions.add(SessionIds("ann"), "apples are red", mode="direct")
        await app.knowledge.layers["project"].save("fruit", "apples")


@pytest.fixture
def home(tmp_path: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    asyncio.run(_fill(tmp_path / "data", tmp_path / "project"))
    monkeypatch.setenv("MEMORY_SERVER_LAYERS__PROJECT_DIR", str(tmp_path / "project"))
    return tmp_path / "data"


@pytest.mark.parametrize("words", DRY_RUNS, ids=" ".join)
def test_a_dry_run_is_not_refused_where_nothing_may_be_changed(
    words: tuple[str, ...], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["--data-dir", str(home), "--read-only", *words])
    output = "".join(capsys.readouterr())
    assert status == 0, output
    assert "read_only" not in output


def test_who_stops_reading_is_not_told_of_a_fault(tmp_path: Path) -> None:
    command = ["--data-dir", tmp_path / "data", "tools", "--json"]
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
