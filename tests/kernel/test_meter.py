"""What is counted, and how near the estimates are."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server import open_memory
from memory_server.config import Settings
from memory_server.kernel.errors import StorageError
from memory_server.kernel.meter import BOUNDS_MS, Calls, FolderSize, Meter, gauge
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import ToolFailed, call
from sandbox import FailureKind

HELLO = [{"role": "user", "content": "你好，今天吃披萨"}]


@given(
    st.lists(st.floats(0, 20_000), min_size=1, max_size=200),
    st.sampled_from([0.5, 0.95, 0.99, 1.0]),
)
def test_a_quantile_is_in_the_bucket_of_the_real_one(times: list[float], share: float) -> None:
    durations = Calls()
    for milliseconds in times:
        durations.note(milliseconds)
    rank = max(1, -(-share * len(times) // 1))  # the smallest number of calls that is that share
    expected = sorted(times)[int(rank) - 1]
    bounds = [0.0, *BOUNDS_MS, float("inf")]
    lower, upper = next((start, end) for start, end in pairwise(bounds) if expected <= end)
    assert lower <= durations.quantile(share) <= upper
    assert durations.quantile(share) <= max(times)


def test_nothing_was_called_takes_no_time() -> None:
    assert Calls().quantile(0.95) == 0.0


def test_a_call_is_counted_with_its_time_and_its_error() -> None:
    moments = iter([0.0, 1.0, 1.004, 2.0, 2.03, 9.0])
    meter = Meter(lambda: next(moments))
    with meter.call("a"):
        pass
    with pytest.raises(ValueError, match="no"), meter.call("a"):
        raise ValueError("no")
    calls = meter.calls["a"]
    assert calls.count == 2
    assert calls.errors == 1
    assert calls.longest_ms == pytest.approx(30)
    assert meter.seconds == 9.0


@pytest.mark.anyio
async def test_a_server_counts_what_it_did(tmp_path: Path) -> None:
    async with open_memory(tmp_path, settings=Settings(triggers={"trigger_seconds": 0.2})) as app:  # type: ignore[arg-type]
        triggers = {
            "fires": "let n = 0; while (n < 1e6) n++; true",
            "quiet": "false",
            "throws": "match_keys(context.messages, ['披萨']) > 0 && context.participants.nobody.name",
        }
        for name, trigger in triggers.items():
            long_term = {"name": name, "prompt": "p", "trigger": trigger}
            await call(TOOLS["add_long_term_memory"], app.call, long_term)
        await call(TOOLS["search_long_term_memories"], app.call, {"messages": HELLO})
        with pytest.raises(ToolFailed):
            await call(TOOLS["add_short_term_memory"], app.call, {"message": HELLO})
        answer = await call(TOOLS["get_metrics"], app.call, {})
        tools = {row["name"]: (row["calls"], row["errors"]) for row in answer.structured["tools"]}
        assert tools == {
            "add_long_term_memory": (3, 0),
            "search_long_term_memories": (1, 0),
            "add_short_term_memory": (1, 1),
        }
        assert answer.structured["tools"][0]["p50Ms"] > 0
        counters = answer.structured["counters"]
        assert counters["triggers"].pop("run_us") > 0
        outcomes = {"searches": 1, "fired": 1, "quiet": 1, "thrown": 1}
        assert (
            counters["triggers"] == dict.fromkeys(("not_run", *get_args(FailureKind)), 0) | outcomes
        )
        waits = dict.fromkeys(
            ("compactions", "lock_waits", "lock_timeouts", "failed_reads", "failed_writes"), 0
        )
        assert counters["storage"] == {"commits": 3, "open_conversations": 1, **waits}
        assert counters["workers"]["started"] >= counters["workers"]["running"] >= 1
        assert "add_long_term_memory: 3 calls, 0 errors, p50" in answer.text
        await app.store.compact("default")
        assert app.meter.figures()["storage"]["compactions"] == 1


def test_a_total_has_what_its_parts_count_also_after_they_left() -> None:
    total = Meter()
    total.gauge("storage", "open_conversations", lambda: 1)
    total.gauge("workers", "running", lambda: 2, of_all=True)
    parts = [Meter(), Meter()]
    for part in parts:
        part.gauge("storage", "open_conversations", lambda: 10)
        part.gauge("workers", "running", lambda: 2, of_all=True)
        part.join(total)
        part.count("storage", "commits", 3)
        part.called("search", 0.001, failed=False)
    assert total.figures() == {
        "storage": {"commits": 6, "open_conversations": 21},
        "workers": {"running": 2},
    }
    assert parts[0].figures()["storage"] == {"commits": 3, "open_conversations": 10}
    parts[0].leave()
    parts[0].count("storage", "commits")
    assert total.figures()["storage"] == {"commits": 6, "open_conversations": 11}
    assert total.calls["search"].count == 2


def test_a_counter_that_is_expected_is_shown_before_it_was_counted() -> None:
    meter = Meter()
    meter.expect("storage", "lock_waits")
    assert meter.figures() == {"storage": {"lock_waits": 0}}


@pytest.mark.anyio
async def test_the_figures_have_files_the_process_and_what_failed(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        await call(
            TOOLS["remember"], app.call, {"type": "tech", "topic": "pool", "content": "twenty"}
        )
        await call(TOOLS["recall"], app.call, {"query": "pool"})
        with pytest.raises(ToolFailed):
            await call(TOOLS["delete_note"], app.call, {"memory_id": "nothing"})
        figures = (await call(TOOLS["get_metrics"], app.call, {})).structured["counters"]
        assert figures["files"]["count"] >= 1
        database = tmp_path / ".memory-server" / "knowledge.sqlite3"
        assert figures["files"]["bytes"] >= database.stat().st_size > 0
        assert figures["process"]["memory_bytes"] > 10_000_000
        assert figures["process"]["cpu_ms"] > 0
        assert figures["process"]["threads"] >= 1
        assert figures["knowledge"]["commit_us"] >= figures["knowledge"]["commits"] >= 1
        assert figures["knowledge"]["read_us"] >= figures["knowledge"]["reads"] >= 1
        assert figures["storage"]["failed_reads"] == 0
        assert figures["storage"]["failed_writes"] == 0

        async def fails(*arguments: object) -> None:
            raise StorageError("the disk is gone")

        for tool, arguments in (("recall", {"query": "x"}), ("delete_note", {"memory_id": "x"})):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(app.knowledge.store, "read", fails)
                patch.setattr(app.knowledge.store, "commit", fails)
                with pytest.raises(ToolFailed, match="the disk is gone"):
                    await call(TOOLS[tool], app.call, arguments)
        storage = app.meter.family("storage")
        assert storage["failed_reads"] == 1
        assert storage["failed_writes"] == 1


def test_files_are_counted_once_a_minute_and_less_often_where_that_takes_long() -> None:
    moments = [0.0]
    looked_at: list[float] = []

    def look() -> FolderSize:
        looked_at.append(moments[0])
        moments[0] += len(looked_at)
        return FolderSize(len(looked_at), 7)

    meter = Meter()
    gauge(meter, look, of_process=False, now=lambda: moments[0])
    assert meter.number("files", "count") == 1
    assert meter.number("files", "bytes") == 7
    moments[0] = 99.0
    assert meter.number("files", "count") == 1, "it took a second, so it counts for a hundred"
    moments[0] = 100.0
    assert meter.number("files", "count") == 2
    assert looked_at == [0.0, 100.0]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.anyio
async def test_a_dead_worker_is_one_more_that_was_started(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        await app.warm()
        before = app.meter.figures()["workers"]["started"]
        assert app.meter.figures()["workers"]["replaced"] == 0
        loops = "match_keys(context.messages, ['披萨']) > 0 && (() => { const a = []; for (;;) a.push(a.concat(a)) })()"
        long_term = {"name": "a", "prompt": "p", "trigger": loops}
        await call(TOOLS["add_long_term_memory"], app.call, long_term)
        for pid in app.sandbox.pids:
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            await call(TOOLS["search_long_term_memories"], app.call, {"messages": HELLO})
        assert app.meter.figures()["workers"]["started"] > before
        assert app.meter.figures()["workers"]["replaced"] >= 1


@pytest.mark.anyio
async def test_health_is_what_doctor_says_of_folder_and_sandbox(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        answer = await call(TOOLS["health_check"], app.call, {})
        assert answer.structured["healthy"] is True
        assert {"disk", "clock", "triggers"} <= {
            check["about"] for check in answer.structured["checks"]
        }
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    async with open_memory(tmp_path / "file") as app:
        answer = await call(TOOLS["health_check"], app.call, {})
        assert answer.structured["healthy"] is False
        assert answer.text.startswith("Not healthy.\n")
