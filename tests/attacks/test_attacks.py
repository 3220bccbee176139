"""Every hostile trigger stands between innocent ones and is followed by a healthy search.

What must hold for each: the innocent verdicts are right, the next search is right, the time is bounded, no worker is
over 300 MB, and the attack comes out as its category allows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from attacks.cases import ALLOWED, Attack, every_attack, sample
from attacks.driver import CROWDED_TRIES, EXPECTED, INNOCENT, Driver, crowded, kinds, outcome

from sandbox import Failed, SandboxLimits, Verdict
from sandbox.host.process import resident_mb

MOST_MB = 300
SHORT = SandboxLimits(trigger_seconds=0.25, search_seconds=2.0)
ATTACKS = every_attack()


@pytest.fixture(scope="module")
def short() -> Iterator[Driver]:
    driver = Driver(SHORT, workers=1)
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def full() -> Iterator[Driver]:
    driver = Driver(SandboxLimits(), workers=1)
    yield driver
    driver.close()


def peak_mb(pid: int) -> float:
    """The most MB that a living process ever had resident; what it has now where the system does not tell. 0 for one
    that has just ended and waits to be replaced: it has no memory any more, and its status tells none."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        peak = status.read_text().partition("VmHWM:")[2].split()
        if not peak:
            return 0.0
        return int(peak[0]) / 1024
    return resident_mb(pid)


def late(verdicts: Sequence[Verdict], seconds: float, limits: SandboxLimits) -> bool:
    """Whether a time limit was met by more than the attack itself."""
    middle = len(INNOCENT)
    others = (*verdicts[:middle], *verdicts[middle + 1 :])
    stopped = any(
        isinstance(verdict, Failed) and verdict.kind in ("not_evaluated", "timeout")
        for verdict in others
    )
    return stopped or seconds >= limits.search_seconds + 1.5


def check(driver: Driver, attack: Attack, limits: SandboxLimits) -> None:
    """Limits are seconds of a clock on the wall. So where others crowd the processors, and only there, a search that
    came late is repeated, with the attack as one that was never seen before; on a calm machine the first try counts.
    """
    middle = len(INNOCENT)
    for again in range(CROWDED_TRIES):
        source = attack.source
        if again:
            source = f"/* {again} */ {attack.source}"
        driver.run(driver.sandbox.warm())
        began = time.monotonic()
        verdicts = driver.evaluate(*INNOCENT, source, *INNOCENT)
        seconds = time.monotonic() - began
        if not (late(verdicts, seconds, limits) and crowded()):
            break
    assert kinds(verdicts[:middle]) + kinds(verdicts[middle + 1 :]) == EXPECTED * 2, verdicts
    assert outcome(verdicts[middle]) in ALLOWED[attack.category], verdicts[middle]
    assert seconds < limits.search_seconds + 1.5, "a search is bounded by its budget"
    after = driver.evaluate(*INNOCENT)
    assert kinds(after) == EXPECTED, after
    assert max(map(peak_mb, driver.sandbox.pids)) < MOST_MB


@pytest.mark.parametrize("attack", sample(ATTACKS, 19), ids=lambda attack: attack.id)
def test_an_attack_harms_nobody(short: Driver, attack: Attack) -> None:
    check(short, attack, SHORT)


@pytest.mark.full
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_an_attack_harms_nobody_under_the_real_limits(full: Driver, attack: Attack) -> None:
    check(full, attack, SandboxLimits())


def test_there_are_at_least_two_hundred_attacks_of_every_category() -> None:
    assert len({attack.source for attack in ATTACKS}) >= 200
    assert {attack.category for attack in ATTACKS} == set(ALLOWED)
