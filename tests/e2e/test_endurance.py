"""One server that works for long: after many calls of every kind it holds what it held after a few."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from stdio_process import PATIENCE, Client, command, running, tool

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="descriptors are counted as POSIX has them"
)
MESSAGES = [{"role": "user", "content": "我们去公园吃披萨吧 pizza 生日快乐"}]
TRIGGER = "match_keys(context.messages, ['生日']) > 0"
IN_FLIGHT = 64
"""More than there are threads for blocking work, so that all of these are there from the beginning."""

SOON = {"MEMORY_SERVER_UPKEEP__ENABLED": "false", "MEMORY_SERVER_STORAGE__IDLE_SECONDS": "0.5"}
"""The daily work, which begins 10 s after the start, is left out, and files are tidied after half a second, not 3."""


_LATE_THREADS = 2
"""Threads of the pool that may start after the first calls; a thread lost in each round would be more."""


@dataclass(frozen=True)
class Figures:
    """What a server and its workers hold; MiB of resident memory, of workers that of the largest."""

    descriptors: int
    threads: int
    workers: int
    memory_mb: float
    workers_mb: float

    @classmethod
    def of(cls, process: psutil.Process) -> Figures:
        workers = process.children()
        return cls(
            process.num_fds(),
            process.num_threads(),
            len(workers),
            process.memory_info().rss / 2**20,
            max((worker.memory_info().rss for worker in workers), default=0) / 2**20,
        )

    @property
    def counted(self) -> tuple[int, int, int]:
        return self.descriptors, self.threads, self.workers

    def has_no_more_than(self, first: Figures) -> bool:
        """Whether nothing was left open since `first`. The pool of threads is full when the most calls wait at once,
        which may happen later on a busy machine."""
        return (
            self.descriptors <= first.descriptors
            and self.workers == first.workers
            and self.threads <= first.threads + _LATE_THREADS
        )


def calls(rng: Random) -> Iterator[dict[str, Any]]:
    """Requests of every kind, mistakes among them, in five busy conversations and a hundred others."""
    number = 0
    while True:
        number += 1
        conversations = 100 if rng.random() < 0.3 else 5
        chat = f"c{rng.randrange(conversations)}"
        messages = [
            {"role": "user", "content": f"t{number} " + "我们去公园 weather " * rng.randrange(1, 4)}
        ]
        kinds: list[tuple[int, str, dict[str, Any]]] = [
            (30, "add_short_term_memory", {"messages": messages}),
            (25, "search_short_term_memories", {"recentMessages": MESSAGES}),
            (15, "search_long_term_memories", {"messages": MESSAGES}),
            (
                4,
                "add_long_term_memory",
                {"name": f"n{rng.randrange(40)}", "prompt": "p", "trigger": TRIGGER},
            ),
            (5, "delete_short_term_memories", {"pattern": f"t{rng.randrange(number)} "}),
            (3, "delete_short_term_memories", {"pattern": f"/t{rng.randrange(number)}\\b/"}),
            (5, "get_memory_stats", {}),
            (3, "list_long_term_memories", {}),
            (2, "explain_recall", {"recentMessages": MESSAGES, "text": "公园"}),
            (2, "cleanup_memories", {}),
            (2, "recall_turn", {"messages": MESSAGES}),
            (2, "search_memories", {"query": "pizza"}),
            (1, "no_such_tool", {}),
            (1, "add_short_term_memory", {"messages": "no list"}),
        ]
        [(_, name, arguments)] = rng.choices(kinds, weights=[weight for weight, _, _ in kinds])
        yield tool(number, name, conversation_id=chat, **arguments)


def make_calls(
    client: Client, requests: Iterator[dict[str, Any]], count: int, *, at_once: int
) -> None:
    """Make `count` calls, `at_once` of them in flight. Each has exactly one answer; none fails inside the server."""
    waiting: set[int] = set()
    for request in islice(requests, count):
        client.send(request)
        waiting.add(request["id"])
        if len(waiting) == at_once:
            take_answer(client, waiting)
    while waiting:
        take_answer(client, waiting)


def take_answer(client: Client, waiting: set[int]) -> None:
    answer = client.read()
    waiting.remove(answer["id"])
    assert "failed inside the server" not in str(answer)


def settled_figures(
    process: psutil.Process, quiet_seconds: float, like: Figures | None = None
) -> Figures:
    """The figures when nothing happens any more: the same for `quiet_seconds`, or once like those of before."""
    deadline = time.monotonic() + PATIENCE
    last = Figures.of(process)
    since = time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(0.3)  # there is nothing that tells when the files are tidied
        now = Figures.of(process)
        if like is not None and now.has_no_more_than(like):
            return now
        if now.counted != last.counted:
            since = time.monotonic()
        elif like is None and time.monotonic() - since > quiet_seconds:
            return now
        last = now
    return last


@pytest.mark.parametrize(
    ("environment", "quiet_seconds", "warm", "rounds", "count", "more_mb"),
    [
        pytest.param(SOON, 2.0, 200, 5, 40, 8, id="200"),
        pytest.param({}, 12.0, 2_000, 10, 2_000, 24, marks=pytest.mark.full, id="20,000"),
    ],
)
def test_descriptors_threads_and_memory_do_not_grow_with_calls(
    tmp_path: Path,
    environment: dict[str, str],
    quiet_seconds: float,
    warm: int,
    rounds: int,
    count: int,
    more_mb: int,
) -> None:
    """`quiet_seconds`: more than the files wait to be tidied, and than the daily work waits. `count`: calls of each
    round. `more_mb`: MiB by which memory may grow; 6,000 memories take about half of the larger one."""
    with running(command(tmp_path, "--toolsets", "all"), environment) as client:
        client.connect()
        requests = calls(Random(5))
        make_calls(client, requests, warm, at_once=IN_FLIGHT)
        process = psutil.Process(client.process.pid)
        first_figures = settled_figures(process, quiet_seconds)
        figures = [first_figures]
        for number in range(rounds):
            in_flight = IN_FLIGHT if number % 2 else 8
            make_calls(client, requests, count, at_once=in_flight)
            figures.append(settled_figures(process, quiet_seconds, like=first_figures))
        print(*figures, sep="\n")
        assert all(sample.has_no_more_than(first_figures) for sample in figures)
        assert max(sample.memory_mb for sample in figures) <= first_figures.memory_mb + more_mb
        assert max(sample.workers_mb for sample in figures) <= first_figures.workers_mb + more_mb
        client.stdin.close()
        assert client.rest() == []
        assert client.ended() < PATIENCE
        assert client.process.returncode == 0
