"""A record that parses and cannot be used costs itself: it is named and kept, and the others of its file count."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from interchange.test_wrong_values import WRONG_VALUES, _changed, _paths
from sample_memories import NOW, memory, trigger
from store_on_disk import commit, open_store, private, reopened

from memory_server.conversations import codec
from memory_server.conversations.changes import Added, TriggerSet
from memory_server.conversations.model import MAX_TRIGGER_CHARS
from memory_server.kernel import json_text
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store import snapshots
from memory_server.storage.json_store.examination import examine
from memory_server.storage.json_store.snapshots import LONG_TERM, SHORT_TERM

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
