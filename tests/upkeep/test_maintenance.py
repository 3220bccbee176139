"""Upkeep: at most once a day, in one process, whatever happens to one conversation."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from memory_store import MemoryStore
from sample_memories import DAY, HOUR, NOW, memory
from trigger_table import TableRunner

from memory_server.conversations.changes import Added
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.lifecycle import ConversationLifecycle
from memory_server.conversations.recall.parameters import Parameters, RetentionParameters
from memory_server.conversations.services import Services
from memory_server.kernel.errors import StorageUnwritable
from memory_server.runtime.upkeep import DUE_AFTER_MS, Maintenance
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.small_files import FolderLedger

pytestmark = pytest.mark.anyio


class NotedInMemory:
    """A ledger of one process; `is_ours` is what `turn` says."""

    def __init__(self, last: int | None = None, *, is_ours: bool = True) -> None:
        self.last = last
        self.is_ours = is_ours

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        yield self.is_ours

    def last_run_ms(self) -> int | None:
        return self.last

    def note_run(self, at_ms: int) -> None:
        self.last = at_ms


def upkeep(
    store: MemoryStore | JsonFileStore, ledger: FolderLedger, now_ms: int = NOW
) -> Maintenance:
    parameters = Parameters(retention=RetentionParameters(always_kept=0))
    services = Services(store, TableRunner(), parameters, lambda: now_ms, Random(1))
    return Maintenance(
        lambda: [ConversationLifecycle(Conversations(services), services)], ledger, lambda: now_ms
    )


async def filled(store: MemoryStore | JsonFileStore) -> None:
    for chat in ("a", "b", "c"):
        changes = [Added(memory("faded", age=30 * DAY)), Added(memory("new", age=HOUR))]
        await store.update(chat, lambda state, changes=changes: (changes, None), by="test")


@pytest.mark.parametrize(
    ("last", "is_due"),
    [
        (None, True),
        (NOW, False),
        (NOW - DUE_AFTER_MS + 1, False),
        (NOW - DUE_AFTER_MS, True),
        (NOW - 400 * DAY, True),
        (NOW + 1, True),  # noted by a clock that was ahead
        (NOW + 400 * DAY, True),
    ],
)
async def test_upkeep_is_due_after_most_of_a_day(last: int | None, is_due: bool) -> None:
    ledger = NotedInMemory(last)
    maintenance = upkeep(MemoryStore(), ledger)
    assert await maintenance.overdue() is is_due
    assert await maintenance.run_if_due() == (0 if is_due else None)
    assert ledger.last == (NOW if is_due else last)


async def test_upkeep_forgets_in_every_conversation_and_running_it_again_changes_nothing() -> None:
    store = MemoryStore()
    ledger = NotedInMemory()
    await filled(store)
    assert await upkeep(store, ledger).run_if_due() == 3
    versions = [(await store.read(chat)).version for chat in "abc"]
    assert [[*(await store.read(chat)).short_term] for chat in "abc"] == [["new"]] * 3
    assert await upkeep(store, ledger).run_if_due() is None
    assert [(await store.read(chat)).version for chat in "abc"] == versions
    assert await upkeep(store, ledger, NOW + DAY).run_if_due() == 0


async def test_upkeep_is_the_business_of_one_process() -> None:
    store = MemoryStore()
    await filled(store)
    ledger = NotedInMemory(is_ours=False)
    assert await upkeep(store, ledger).run_if_due() is None
    assert ledger.last is None
    assert len((await store.read("a")).short_term) == 2


async def test_a_conversation_that_fails_is_reported_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stubborn(MemoryStore):
        async def compact(self, conversation_id: str, *, now_ms: int | None = None) -> None:
            if conversation_id == "b":
                raise StorageUnwritable("b is stubborn")

    store = Stubborn()
    ledger = NotedInMemory()
    await filled(store)
    with caplog.at_level(logging.WARNING):
        assert await upkeep(store, ledger).run_if_due() == 2
    assert "b is stubborn" in caplog.text
    assert ledger.last == NOW
    assert [len((await store.read(chat)).short_term) for chat in "ac"] == [1, 1]


# --- in a data folder --------------------------------------------------------------------------------------


async def test_upkeep_of_a_data_folder_compacts_it_and_notes_the_time(tmp_path: Path) -> None:
    store = JsonFileStore(tmp_path, lambda: NOW)
    await filled(store)
    assert await upkeep(store, FolderLedger(tmp_path)).run_if_due() == 3
    assert (tmp_path / "a" / "short-term-memory.json").read_bytes().count(b'"id"') == 1
    assert FolderLedger(tmp_path).last_run_ms() == NOW
    assert await store.conversations() == ["a", "b", "c"]
    await store.aclose()


async def test_one_turn_at_a_time(tmp_path: Path) -> None:
    async with FolderLedger(tmp_path).turn() as first:
        assert first
        async with FolderLedger(tmp_path).turn() as second:
            assert not second
    async with FolderLedger(tmp_path).turn() as third:
        assert third


async def test_a_turn_is_given_back_when_upkeep_fails(tmp_path: Path) -> None:
    async def fail() -> None:
        async with FolderLedger(tmp_path).turn() as is_ours:
            assert is_ours
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    async with FolderLedger(tmp_path).turn() as is_ours:
        assert is_ours


async def test_a_folder_that_cannot_be_written_has_no_upkeep(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    async with FolderLedger(tmp_path / "data").turn() as is_ours:
        assert not is_ours


def test_looking_at_the_ledger_makes_nothing(tmp_path: Path) -> None:
    assert FolderLedger(tmp_path / "data").last_run_ms() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "note", [b"", b"{", b"[]", b"{}", b'{"lastRun":null}', b'{"lastRun":"soon"}', b"\xff"]
)
def test_a_broken_note_is_none(tmp_path: Path, note: bytes) -> None:
    (tmp_path / ".memory-server").mkdir()
    (tmp_path / ".memory-server" / "upkeep.json").write_bytes(note)
    assert FolderLedger(tmp_path).last_run_ms() is None


def test_a_note_that_cannot_be_written_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memory_server.kernel.files.replace_file", full)
    FolderLedger(tmp_path).note_run(NOW)
    assert "No space left" in caplog.text
