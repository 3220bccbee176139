"""A hundred at once is a hundred answers, also right after; a flood is refused soon and takes bounded room.

Time passes here only when every task waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush

import pytest

from memory_server.config.settings import HttpSettings
from memory_server.serving.http import rate_limits
from memory_server.serving.http.rate_limits import (
    AT_ONCE,
    MOST_WAIT_SECONDS,
    MOST_WAITING,
    RateLimiter,
)
from memory_server.serving.http.refusals import HttpError

pytestmark = pytest.mark.anyio
CALL_SECONDS = 0.02
IDLE_STEPS = 20
"""Steps of the event loop after which all that can go on has gone on."""


@dataclass
class StandingTime:
    """Seconds that pass only when every task waits for them."""

    now: float = 0.0
    waiting: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list)
    number: int = 0

    async def sleep(self, seconds: float) -> None:
        ended = asyncio.get_running_loop().create_future()
        self.number += 1
        heappush(self.waiting, (self.now + max(0.0, seconds), self.number, ended))
        await ended

    async def pass_until(self, work: asyncio.Future[list[str]]) -> list[str]:
        while not work.done():
            for _ in range(IDLE_STEPS):
                await asyncio.sleep(0)
            if self.waiting and not work.done():
                self.now, _, ended = heappop(self.waiting)
                if not ended.done():
                    ended.set_result(None)
        return await work


@dataclass
class Burst:
    """Calls of one tenant under the usual limits."""

    time: StandingTime
    limits: RateLimiter
    running: int = 0
    most_running: int = 0

    async def call(self) -> str:
        try:
            async with self.limits.request("calls"), self.limits.turn(100):
                self.running += 1
                self.most_running = max(self.most_running, self.running)
                await self.time.sleep(CALL_SECONDS)
                self.running -= 1
        except HttpError as error:
            return str(error.status)
        return "200"

    async def client(self) -> str:
        """A client that initializes, says that it did, and calls a tool."""
        statuses = [await self.call() for _ in range(3)]
        return max(statuses)

    async def answers(self, calls: int, clients: int = 0) -> Counter[str]:
        tasks = [self.call() for _ in range(calls)] + [self.client() for _ in range(clients)]
        return Counter(await self.time.pass_until(asyncio.gather(*tasks)))


@pytest.fixture
def burst() -> Burst:
    settings = HttpSettings()
    time = StandingTime()
    return Burst(
        time,
        RateLimiter(
            settings.requests_per_minute, settings.concurrent, lambda: time.now, time.sleep
        ),
    )


async def test_a_hundred_and_a_hundred_right_after_are_answered(burst: Burst) -> None:
    for _ in range(5):
        assert await burst.answers(100) == {"200": 100}
    assert burst.most_running == HttpSettings().concurrent


async def test_a_hundred_adds_and_a_hundred_searches_together_are_answered(burst: Burst) -> None:
    assert await burst.answers(200) == {"200": 200}
    assert burst.time.now < 1, "nothing waited for its share of the minute"
    assert await burst.answers(200) == {"200": 200}


async def test_a_hundred_clients_that_begin_are_answered(burst: Burst) -> None:
    assert await burst.answers(0, clients=100) == {"200": 100}
    assert await burst.answers(100) == {"200": 100}


async def test_a_flood_is_refused_at_once_and_its_queue_is_bounded(burst: Burst) -> None:
    settings = HttpSettings()
    answers = await burst.answers(1_500)
    assert answers["200"] <= settings.concurrent + MOST_WAITING
    assert answers["429"] == 1_500 - answers["200"]
    saved = settings.requests_per_minute / AT_ONCE
    assert (answers["200"] - saved) / (settings.requests_per_minute / 60) <= MOST_WAIT_SECONDS
    assert burst.time.now <= MOST_WAIT_SECONDS + 1


@pytest.mark.parametrize("seconds", [60, pytest.param(600, marks=pytest.mark.full)])
async def test_over_a_long_time_a_tenant_gets_its_share_and_no_more(
    burst: Burst, seconds: int
) -> None:
    settings = HttpSettings()
    number_answered = 0
    while burst.time.now < seconds:
        number_answered += (await burst.answers(300))["200"]
    minutes = burst.time.now / 60
    assert number_answered <= settings.requests_per_minute * (minutes + 1 / AT_ONCE) + 1


async def test_a_call_that_is_given_up_while_it_waits_leaves_its_place(burst: Burst) -> None:
    await burst.answers(400)
    given_up = [asyncio.ensure_future(burst.call()) for _ in range(50)]
    for _ in range(IDLE_STEPS):
        await asyncio.sleep(0)
    for call in given_up:
        call.cancel()
    await asyncio.gather(*given_up, return_exceptions=True)
    assert (await burst.answers(50))["200"] == 50


async def test_a_call_does_not_wait_for_ever_for_those_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rate_limits, "TURN_SECONDS", 0.0)
    limits = RateLimiter(1_200, 1)
    async with limits.request("calls"), limits.turn(1):
        with pytest.raises(HttpError, match="take too long") as refused:
            async with limits.request("calls"), limits.turn(1):
                pass
    assert refused.value.status == 429
