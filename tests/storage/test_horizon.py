"""How far back the past is kept, also under clocks that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, NOW, memory
from store_on_disk import private
from trigger_table import TableRunner

from memory_server.conversations.archive import Horizon
from memory_server.conversations.changes import Added, Forgotten
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.lifecycle import ConversationLifecycle
from memory_server.conversations.recall.parameters import Parameters
from memory_server.conversations.services import Services
from memory_server.kernel.times import moment_of
from memory_server.runtime.upkeep import Maintenance
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store.history_files import expire_leavings
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.options import StoreParameters
from memory_server.storage.small_files import FolderLedger

OLD = NOW - 91 * DAY
KEPT = NOW - 80 * DAY
FUTURE = NOW + 9000 * DAY
RESET = 0


@pytest.mark.parametrize(
    ("times", "passed"),
    [
        ([], 0),
        ([OLD, OLD, KEPT], 2),
        ([KEPT, NOW], 0),
        ([NOW - 90 * DAY], 0),
        ([OLD, FUTURE, OLD, KEPT], 3),  # a clock that was ahead for one commit
        ([FUTURE, FUTURE], 0),
        ([OLD, FUTURE], 1),
        ([KEPT, RESET, KEPT], 0),  # a clock that was reset for one commit
        ([OLD, None, OLD, None, KEPT], 3),  # lines that cannot be read
        ([None], 0),
    ],
)
def test_the_order_counts_where_a_clock_was_wrong(times: list[int | None], passed: int) -> None:
    assert Horizon(NOW - 90 * DAY, NOW).passed(times) == passed


@given(st.lists(st.none() | st.integers(-2 * NOW, 2 * NOW)))
def test_what_comes_after_something_kept_is_kept(times: list[int | None]) -> None:
    horizon = Horizon(NOW - 90 * DAY, NOW)
    passed = horizon.passed(times)
    assert not any(time is not None and horizon.since_ms <= time <= NOW for time in times[:passed])
    if passed:
        last_passed = times[passed - 1]
        assert last_passed is not None
        assert last_passed < horizon.since_ms


# --- in a data folder --------------------------------------------------------------------------------------


class House:
    """One data folder under a clock that can be set; every day of upkeep is one of a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = NOW

    def store(self) -> JsonFileStore:
        return JsonFileStore(self.folder, lambda: self.now, StoreParameters(idle_seconds=3600))

    async def upkeep(self, *, at: int) -> None:
        self.now = at
        store = self.store()
        services = Services(store, TableRunner(), Parameters(), lambda: self.now, Random(1))
        maintenance = Maintenance(
            lambda: [ConversationLifecycle(Conversations(services), services)],
            FolderLedger(self.folder),
            lambda: self.now,
        )
        assert await maintenance.run_if_due() is not None
        await store.aclose()

    async def commit(self, *changes: Added | Forgotten) -> None:
        store = self.store()
        await store.update("chat", lambda state: (changes, None), by="test")
        await store.aclose()

    def text(self) -> str:
        parts = (
            path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file() and path.suffix != ".zlib"
        )
        return b"\n".join(parts).decode()

    async def archived(self) -> list[str]:
        return [getattr(entry.memory, "id", "") for entry in await self.store().archive("chat")]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def forget_one(house: House, name: str = "secret") -> None:
    await house.commit(Added(memory(name, text=f"user: {name}")))
    await house.commit(Forgotten(memory(name, text=f"user: {name}"), "deleted"))


@pytest.mark.anyio
async def test_one_upkeep_under_a_clock_years_ahead_costs_nothing(house: House) -> None:
    await forget_one(house)
    await house.upkeep(at=NOW)
    await house.upkeep(at=NOW + 4000 * DAY)
    await house.upkeep(at=NOW + DAY)
    assert await house.archived() == ["secret"]
    assert len(await house.store().history("chat")) == 2


@pytest.mark.anyio
async def test_a_commit_under_a_clock_years_ahead_goes_with_those_after_it(house: House) -> None:
    house.now = NOW + 4000 * DAY
    await forget_one(house, "ahead")
    house.now = NOW
    await forget_one(house, "right")
    await house.upkeep(at=NOW)
    await house.upkeep(at=NOW + 80 * DAY)
    await house.upkeep(at=NOW + 81 * DAY)
    assert await house.archived() == ["ahead", "right"]
    await house.upkeep(at=NOW + 91 * DAY)
    await house.upkeep(at=NOW + 92 * DAY)
    assert await house.archived() == []
    assert "ahead" not in house.text()


@pytest.mark.anyio
async def test_a_commit_under_a_clock_that_was_reset_is_kept_with_those_before_it(
    house: House,
) -> None:
    await forget_one(house, "before")
    house.now = 5000
    await forget_one(house, "reset")
    await house.upkeep(at=NOW + DAY)
    await house.upkeep(at=NOW + 2 * DAY)
    assert await house.archived() == ["before", "reset"]
    assert [commit.version for commit in await house.store().history("chat")] == [4, 3, 2, 1]


@pytest.mark.anyio
async def test_an_unreadable_line_does_not_keep_the_past_for_ever(house: House) -> None:
    await forget_one(house)
    await house.upkeep(at=NOW)
    history = private(house.folder, "history.jsonl")
    history.write_bytes(b"damage\n" + history.read_bytes())
    await house.upkeep(at=NOW + 91 * DAY)
    await house.upkeep(at=NOW + 92 * DAY)
    assert "secret" not in house.text()
    assert "damage" not in house.text()


@pytest.mark.anyio
async def test_what_damage_and_repairs_left_goes_with_the_history(house: House) -> None:
    await forget_one(house)
    journal = private(house.folder, "journal.jsonl")
    with journal.open("ab") as file:
        file.write(b"text of long ago, torn")
    await house.commit(Added(memory("kept")))
    broken = journal.parent / past.BROKEN
    broken.mkdir()
    (broken / f"{moment_of(NOW):%Y%m%d-%H%M%S}-short-term-memory.json").write_text(
        "text of long ago, broken"
    )
    (broken / f"{moment_of(NOW + 50 * DAY):%Y%m%d-%H%M%S}-short-term-memory.json.2").write_text(
        "newer"
    )
    for day in (0, 40, 85, 88):
        await house.upkeep(at=NOW + day * DAY)
        assert house.text().count("text of long ago") == 2
    await house.upkeep(at=NOW + 92 * DAY)
    await house.upkeep(at=NOW + 93 * DAY)
    assert "text of long ago" not in house.text()
    assert [path.read_text() for path in broken.iterdir()] == ["newer"]
    assert [*(await house.store().read("chat")).short_term] == ["kept"]


def test_leavings_without_a_time_and_lines_that_are_none_count_from_when_they_are_met(
    tmp_path: Path,
) -> None:
    aside = tmp_path / past.SET_ASIDE
    aside.write_bytes(b'{"reason":"a","data":"x"}\n\xff\n[1]\n')
    expire_leavings(tmp_path, Horizon(NOW - 90 * DAY, NOW))
    lines = [json.loads(line) for line in aside.read_bytes().splitlines()]
    assert [line["reason"] for line in lines] == ["a", past.UNREADABLE, past.UNREADABLE]
    assert {line["since"] for line in lines} == {"2026-06-21T00:00:00.000Z"}
    before = aside.read_bytes()
    expire_leavings(tmp_path, Horizon(NOW - 89 * DAY, NOW + DAY))
    assert aside.read_bytes() == before
    expire_leavings(tmp_path, Horizon(NOW + 1, NOW + 90 * DAY))
    assert aside.read_bytes() == b""
