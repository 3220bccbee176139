"""Lorebooks bring here what SillyTavern's own scan brings, but for what differs on purpose
(docs/how-to/import-world-info.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from sillytavern.key_books import KEY_JOBS
from sillytavern.lore_jobs import (
    HOW_TO_RECORD,
    RECORDED,
    Job,
    Scan,
    brought,
    judged,
    record,
    recorded,
)
from sillytavern.random_books import random_job
from sillytavern.rule_books import RULE_JOBS

from memory_server import open_memory
from memory_server.conversations import trigger_search


@pytest.fixture(autouse=True)
def much_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes is compared, and not how fast."""
    monkeypatch.setattr(trigger_search, "ROUND_SECONDS", 60.0)


@dataclass(frozen=True)
class Difference:
    """A scan in which both bring something else, or in another order."""

    job: str
    at: int
    there: Scan
    here: Scan

    def __str__(self) -> str:
        missing = sorted(self.there.came - self.here.came)
        extra = sorted(self.here.came - self.there.came)
        order = "" if missing or extra else f" order {self.there.text} {self.here.text}"
        return f"{self.job} at {self.at}: missing {missing}, extra {extra}{order}"


async def differences(
    folder: Path, jobs: Sequence[Job], answers_there: Sequence[Sequence[Scan]]
) -> str:
    """What the scans of these jobs differ in, a line for each."""
    found: list[str] = []
    async with open_memory(folder) as app:
        for job, there in zip(jobs, answers_there, strict=True):
            here = await brought(app, job)
            for at, one, other in zip(job.scans, there, here, strict=True):
                if one != other:
                    found.append(str(Difference(job.name, at, one, other)))
    return "\n".join(found)


SMALL_JOBS = [*KEY_JOBS, *RULE_JOBS]
RANDOM_JOBS = [random_job(seed) for seed in range(20)]


def test_the_recorded_answers_are_those_of_sillytavern() -> None:
    jobs = [*SMALL_JOBS, *RANDOM_JOBS]
    answers = record(jobs, judged(jobs))
    if os.environ.get("UPDATE_GOLDEN"):
        RECORDED.write_text(answers, "utf-8")
    assert RECORDED.read_text("utf-8") == answers, HOW_TO_RECORD


@pytest.mark.anyio
@pytest.mark.parametrize("jobs", [SMALL_JOBS, RANDOM_JOBS], ids=["small", "random"])
async def test_books_bring_what_sillytavern_brings(tmp_path: Path, jobs: list[Job]) -> None:
    assert await differences(tmp_path, jobs, recorded(jobs)) == ""


@pytest.mark.anyio
@pytest.mark.full
@pytest.mark.parametrize("first", range(20, 200, 20))
async def test_more_random_books_bring_what_sillytavern_brings(tmp_path: Path, first: int) -> None:
    jobs = [random_job(seed) for seed in range(first, first + 20)]
    assert await differences(tmp_path, jobs, judged(jobs)) == ""
