"""Several processes that do everything at once to one conversation: each acknowledged change is there exactly once."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import mixed_work
import pytest
from sample_memories import NOW, contents
from store_on_disk import open_store

from memory_server.conversations.archive import archived
from memory_server.conversations.changes import CleanedUp, apply
from memory_server.conversations.model import ConversationState
from memory_server.storage.json_store.examination import examine

pytestmark = pytest.mark.anyio


def printed(data_dir: Path, seeds: range, count: int) -> list[str]:
    """The lines of one process for each seed, which begin together."""
    with ExitStack() as stack:
        started = []
        for seed in seeds:
            arguments = [sys.executable, mixed_work.__file__, str(data_dir), str(seed), str(count)]
            process = stack.enter_context(
                subprocess.Popen(
                    arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            stack.callback(process.kill)
            started.append(process)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=240)[0] for process in started]
        assert [process.returncode for process in started] == [0] * len(seeds)
    return [line for output in outputs for line in output.splitlines()]


@pytest.mark.parametrize(
    ("processes", "count", "run"),
    [
        (3, 25, 0),
        *(
            pytest.param(4, 200, run, marks=pytest.mark.full, id=f"run {run}")
            for run in range(1, 6)
        ),
    ],
)
async def test_processes_that_do_everything_at_once_lose_nothing(
    tmp_path: Path, processes: int, count: int, run: int
) -> None:
    lines = printed(tmp_path, range(run * 10, run * 10 + processes), count)
    acknowledged = [int(line) for line in lines if line != "looked"]
    store = open_store(tmp_path)
    state = await store.read("chat")
    commits = (await store.history("chat", limit=sys.maxsize))[::-1]
    # Every version was acknowledged to one process, and none to two: the exact count.
    looked = [
        commit.version
        for commit in commits
        if all(isinstance(change, CleanedUp) for change in commit.changes)
    ]
    assert len(looked) == lines.count("looked")
    assert sorted(acknowledged + looked) == list(range(1, state.version + 1))
    assert [commit.version for commit in commits] == sorted(acknowledged + looked)
    assert len(acknowledged) > processes * count / 2
    # What is there is what the history tells, whatever the clocks said.
    folded = ConversationState("chat")
    for commit in commits:
        apply(folded, commit.changes)
    assert contents(state) == contents(folded)
    assert await store.archive("chat") == archived(reversed(commits))
    assert [
        finding
        for finding in examine(tmp_path, tmp_path / "chat", NOW)
        if finding.grade in ("error", "warning")
    ] == []
    await store.compact("chat")
    assert contents(await open_store(tmp_path).read("chat")) == contents(folded)
