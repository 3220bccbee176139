"""Lorebooks bring here what SillyTavern's own scan brings, but for what differs on purpose
(docs/how-to/import-world-info.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from sillytavern.key_books import KEY_JOBS
from sillytavern.lore_jobs import Job, Scan, brought, judged
from sillytavern.random_books import random_job
from sillytavern.rule_books import RULE_JOBS

from memory_server import open_memory
from memory_server.lore import recursion


@pytest.fixture(autouse=True)
def much_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes is compared, and not how fast."""
    monkeypatch.setattr(recursion, "ROUND_SECONDS", 60.0)


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


async def differences(folder: Path, jobs: Sequence[Job]) -> list[str]:
    """What the scans of these jobs differ in; skips the test where SillyTavern is not installed."""
    found: list[str] = []
    answers_there = judged(jobs)
    async with open_memory(folder) as app:
        for job, there in zip(jobs, answers_there, strict=True):
            here = await brought(app, job)
            for at, one, other in zip(job.scans, there, here, strict=True):
                if one != other:
                    found.append(str(Difference(job.name, at, one, other)))
    return found


@pytest.mark.anyio
async def test_small_books_bring_what_sillytavern_brings(tmp_path: Path) -> None:
    assert "\n".join(await differences(tmp_path, [*KEY_JOBS, *RULE_JOBS])) == ""


@pytest.mark.anyio
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 10))]
)
async def test_random_books_bring_what_sillytavern_brings(tmp_path: Path, first: int) -> None:
    jobs = [random_job(seed) for seed in range(first * 20, first * 20 + 20)]
    assert "\n".join(await differences(tmp_path, jobs)) == ""
