"""A record that parses and cannot be used costs itself: it is named and kept, and the others of its file count."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from interchange.test_wrong_values import WRONG_VALUES, _changed, _paths
from postgres import tenant_of_its_own
from sample_memories import NOW, memory, trigger
from store_on_disk import commit, open_store, private, reopened

from memory_server.conversations import codec, record_lines
from memory_server.conversations.changes import Added
from memory_server.conversations.contents import contents_of
from memory_server.conversations.model import MAX_TRIGGER_CHARS
from memory_server.kernel import json_text
from memory_server.lore.memory import TriggerSet
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store import snapshots
from memory_server.storage.json_store.examination import examine
from memory_server.storage.json_store.snapshots import LONG_TERM, SHORT_TERM
from memory_server.storage.postgres.conversations import PostgresStore

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def somebody_may_be_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of objects is whole, so nobody waits for the rest of it."""
    monkeypatch.setattr(snapshots, "SAVING_SECONDS", 1e6)


def _written(folder: Path, name: str, records: list[Any]) -> bytes:
    folder.mkdir(exist_ok=True)
    data = json_text.dump_array(records)
    (folder / name).write_bytes(data)
    return data


_LONG = [codec.long_term_json(trigger(name)) for name in ("one", "two", "three")]
_SHORT = [codec.short_term_json(memory(name, text=f"user: {name}")) for name in ("a", "b", "c")]
_TOO_LONG = {"trigger": "1;" * MAX_TRIGGER_CHARS}


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_trigger_that_is_too_long_costs_itself_and_is_kept(
    tmp_path: Path, is_known: bool
) -> None:
    if is_known:
        store = open_store(tmp_path)
        await commit(store, TriggerSet(trigger("one"), None))
        await store.compact("chat")
    data = _written(tmp_path / "chat", LONG_TERM, [_LONG[0], _LONG[1] | _TOO_LONG, _LONG[2]])
    findings = [found.what for found in examine(tmp_path, tmp_path / "chat", NOW)]
    [finding] = [what for what in findings if "1 record of" in what]
    assert "its trigger is too long" in finding
    assert {*(await open_store(tmp_path).read("chat")).long_term} == {"one", "three"}
    await commit(open_store(tmp_path), Added(memory("later")))
    state = await reopened(tmp_path)
    assert {*state.long_term} == {"one", "three"}
    assert [*state.short_term] == ["later"]
    [(kept, _time)] = past.broken_files(private(tmp_path, ""))
    assert kept.read_bytes() == data
    assert past.may_be_only_copy(kept)
    findings = [found.what for found in examine(tmp_path, tmp_path / "chat", NOW)]
    assert any(str(kept) in what and "its trigger is too long" in what for what in findings)


async def test_an_edit_that_makes_a_memory_unusable_leaves_it_as_it_was(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, *(Added(memory(name, text=f"user: {name}")) for name in ("a", "b", "c")))
    await store.compact("chat")
    edited = _SHORT[0] | {"text": "user: by hand"}
    _written(tmp_path / "chat", SHORT_TERM, [edited, _SHORT[1] | {"timestamp": "never"}])
    await commit(open_store(tmp_path), Added(memory("later")))
    state = await reopened(tmp_path)
    assert [*state.short_term] == ["a", "b", "later"]  # the edit removed c, and nothing else
    assert state.short_term["a"].text == "user: by hand"
    assert state.short_term["b"].text == "user: b"
    assert [forgotten.memory.key for forgotten in await store.archive("chat")] == ["c"]
    records = orjson.loads((tmp_path / "chat" / SHORT_TERM).read_bytes())
    assert [record["id"] for record in records] == ["a", "b"]
    assert len([*past.broken_files(private(tmp_path, ""))]) == 1


async def test_a_crash_before_the_file_is_written_again_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    await commit(store, *(Added(memory(name, text=f"user: {name}")) for name in ("a", "b")))
    await store.compact("chat")
    new = codec.short_term_json(memory("new", text="user: new"))
    _written(tmp_path / "chat", SHORT_TERM, [_SHORT[0], _SHORT[1] | {"timestamp": []}, new])

    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("memory_server.storage.json_store.snapshots.contents_of", fail)
        with pytest.raises(Exception, match="Input/output error"):
            await commit(open_store(tmp_path), Added(memory("later")))
    await commit(open_store(tmp_path), Added(memory("later")))
    assert {*(await reopened(tmp_path)).short_term} == {"a", "b", "new", "later"}
    assert await store.archive("chat") == ()
    assert len([*past.broken_files(private(tmp_path, ""))]) == 1


@pytest.mark.parametrize(
    ("name", "records"), [(SHORT_TERM, _SHORT), (LONG_TERM, _LONG)], ids=["short", "long"]
)
@pytest.mark.parametrize("examples", [150, pytest.param(0, marks=pytest.mark.full)])
def test_a_wrong_value_in_a_record_costs_only_that(
    name: str, records: list[Any], examples: int
) -> None:
    rng = random.Random(name)
    cases = [(path, value) for path in _paths(records[1]) for value in WRONG_VALUES]
    for path, value in rng.sample(cases, examples) if examples else cases:
        rows = [records[0], _changed(records[1], path, value), records[2]]
        unusable: list[codec.UnusableRecord] = []
        memories: list[Any]
        if name == SHORT_TERM:
            memories = codec.short_terms(rows, "chat", unusable=unusable)
            written = [codec.short_term_json(stored) for stored in memories]
        else:
            memories = codec.long_terms(rows, unusable=unusable)
            written = [codec.long_term_json(stored) for stored in memories]
        assert len(memories) + len(unusable) == 3, (path, value)
        assert {records[0]["id" if name == SHORT_TERM else "name"]} <= {
            stored.key for stored in memories
        }
        json_text.loads(json_text.dump_array(written))


async def test_a_kept_record_goes_into_a_backup_and_is_known_until_its_file_is_deleted(
    tmp_path: Path,
) -> None:
    odd = _LONG[1] | _TOO_LONG
    _written(tmp_path / "chat", LONG_TERM, [_LONG[0], odd])
    store = open_store(tmp_path)
    for step in ("read", "absorbed"):
        state = await store.read("chat")
        assert [row.record for row in state.unusable] == [odd], step
        lines = [*record_lines.conversation_lines(contents_of(state))]
        file = [record_lines.first_line(NOW), *lines, record_lines.last_line(1)]
        [brought] = record_lines.parse(file)
        assert [trigger.name for trigger in brought.long_term] == ["one"]
        assert [row.record for row in brought.unusable] == [odd]
        [reason] = brought.left_out
        assert reason.startswith("two: its trigger is too long")
        await commit(store, Added(memory("later")))
        store = open_store(tmp_path)
    [(kept, _time)] = past.broken_files(private(tmp_path, ""))
    kept.unlink()
    assert (await reopened(tmp_path)).unusable == []


@pytest.mark.parametrize("is_list", [True, False])
async def test_erasing_one_record_leaves_the_others_of_a_kept_file(
    tmp_path: Path, is_list: bool
) -> None:
    odd = [_LONG[1] | _TOO_LONG, _LONG[2] | _TOO_LONG | {"prompt": "secret of Quxlantern"}]
    data = _written(tmp_path / "chat", LONG_TERM, [_LONG[0], *odd])
    store = open_store(tmp_path)
    await commit(store, Added(memory("later")))
    [(kept, _time)] = past.broken_files(private(tmp_path, ""))
    if not is_list:
        kept.write_bytes(data.removesuffix(b"]\n"))

    def erased(value: Any) -> bool:
        return "Quxlantern" in (value.decode() if isinstance(value, bytes) else str(value))

    await store.compact("chat", erased=erased)
    assert b"Quxlantern" not in kept.read_bytes()
    assert b'"two"' in kept.read_bytes()
    assert "three" not in [row.key for row in (await store.read("chat")).unusable]
    await store.compact("chat", erased=lambda value: "two" in str(value) or "one" in str(value))
    assert not kept.exists()


async def test_the_work_of_opening_grows_with_the_number_of_unusable_records(
    tmp_path: Path,
) -> None:
    seconds: list[float] = []
    for count in (1_500, 6_000):
        folder = tmp_path / str(count)
        store = open_store(folder)
        good = [memory(f"good {number}") for number in range(count)]
        await commit(store, *map(Added, good))
        await store.compact("chat")
        odd = [_SHORT[0] | {"id": f"odd {number}", "timestamp": []} for number in range(count)]
        _written(folder / "chat", SHORT_TERM, [*map(codec.short_term_json, good), *odd])
        began = time.process_time()
        assert len((await open_store(folder).read("chat")).unusable) == count
        seconds.append(time.process_time() - began)
    assert seconds[1] < 8 * seconds[0]  # four times as many


async def test_the_records_of_two_kept_files_of_one_second_are_known(tmp_path: Path) -> None:
    for odd in (_SHORT[1] | {"timestamp": []}, _SHORT[2] | {"timestamp": []}):
        _written(tmp_path / "chat", SHORT_TERM, [_SHORT[0], odd])
        await commit(open_store(tmp_path), Added(memory("later")))
    assert len([*past.broken_files(private(tmp_path, ""))]) == 2
    assert [row.key for row in (await reopened(tmp_path)).unusable] == ["b", "c"]


async def test_kept_records_come_along_to_another_store_and_back(tmp_path: Path) -> None:
    odd = [_SHORT[1] | {"timestamp": []}, _LONG[1] | _TOO_LONG]
    _written(tmp_path / "chat", SHORT_TERM, [_SHORT[0], odd[0]])
    _written(tmp_path / "chat", LONG_TERM, [_LONG[0], odd[1]])
    await commit(open_store(tmp_path), Added(memory("later")))
    source = await reopened(tmp_path)
    with tenant_of_its_own() as (database, tenant):
        assert await PostgresStore(database, tenant, lambda: NOW).adopt("chat", source, ())
        there = await PostgresStore(database, tenant, lambda: NOW).read("chat")
        assert sorted(row.kind for row in there.unusable) == ["long", "short"]
        assert all(row.record in odd for row in there.unusable)
        assert {*there.short_term} == {"a", "later"}
    assert await open_store(tmp_path / "back").adopt("chat", there, ())
    back = await reopened(tmp_path / "back")
    assert sorted(row.kind for row in back.unusable) == ["long", "short"]
    assert all(row.record in odd for row in back.unusable)
    findings = [found.what for found in examine(tmp_path, tmp_path / "back" / "chat", NOW)]
    assert sum("was set aside" in what for what in findings) == 2
