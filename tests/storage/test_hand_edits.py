"""Edits of the JSON files by people: seen at once, told once, and nothing is lost by them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from sample_memories import NOW, memory, trigger
from store_on_disk import commit, open_store, private, reopened, tree

from memory_server.conversations import codec
from memory_server.conversations.changes import Added, Commit, Forgotten, Reinforced
from memory_server.kernel import json_text
from memory_server.lore.memory import TriggerRemoved, TriggerSet
from memory_server.storage.json_store.conversation_files import ConversationFiles
from memory_server.storage.json_store.snapshots import LONG_TERM, SHORT_TERM
from memory_server.storage.json_store.store import JsonFileStore

pytestmark = pytest.mark.anyio
Records = list[dict[str, Any]]


async def compacted(data_dir: Path, *names: str) -> JsonFileStore:
    store = open_store(data_dir)
    await commit(
        store,
        *(Added(memory(name, text=f"user: {name}")) for name in names),
        TriggerSet(trigger("t"), None),
    )
    await store.compact("chat")
    return store


def edit(data_dir: Path, change: Callable[[Records], object], name: str = SHORT_TERM) -> None:
    path = data_dir / "chat" / name
    records = orjson.loads(path.read_bytes())
    change(records)
    # As an editor that lays it out anew.
    path.write_bytes(orjson.dumps(records, option=orjson.OPT_INDENT_2) + b"\n")


async def edits_in_history(store: JsonFileStore) -> list[Commit]:
    return [past_commit for past_commit in await store.history("chat") if past_commit.by == "hand"]


async def settled(store: JsonFileStore) -> JsonFileStore:
    """`store`, when what a reader found is committed."""
    await store.read("chat")
    await store.aclose()
    return open_store(store.data_dir)


@pytest.mark.parametrize("running", [True, False])
async def test_what_a_person_changes_adds_and_removes_becomes_one_commit(
    tmp_path: Path, running: bool
) -> None:
    store = await compacted(tmp_path, "a", "b", "c")

    def change(records: Records) -> None:
        records[0]["text"] = "user: by hand"
        records[0]["pinned"] = True
        del records[1]
        records.append(
            {
                "timestamp": "2026-06-20T04:00:00.000Z",
                "text": "user: new",
                "keywords": [],
                "score": 0,
            }
        )

    edit(tmp_path, change)
    edit(tmp_path, list.clear, LONG_TERM)
    reader = store if running else open_store(tmp_path)
    state = await reader.read("chat")
    assert [stored.text for stored in state.short_term.values()] == [
        "user: by hand",
        "user: c",
        "user: new",
    ]
    assert state.short_term["a"].pinned is True
    assert state.long_term == {}
    settled_store = await settled(reader)
    assert await settled_store.read("chat") == await reopened(tmp_path)
    [edit_commit] = await edits_in_history(settled_store)
    assert edit_commit.at_ms == NOW
    assert [type(part).__name__ for part in edit_commit.changes] == [
        "Edited",
        "Added",
        "Forgotten",
        "TriggerRemoved",
    ]
    assert edit_commit.changes[2:] == (
        Forgotten(memory("b", text="user: b"), "hand"),
        TriggerRemoved(trigger("t"), "hand"),
    )
    assert {entry.reason for entry in await settled_store.archive("chat")} == {"hand"}
    await settled_store.compact("chat")
    assert await reopened(tmp_path) == await settled_store.read("chat")


async def test_an_edit_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await compacted(tmp_path, "a", "b")
    edit(tmp_path, lambda records: records.pop())
    caplog.set_level(logging.INFO)
    for _ in range(3):
        store = open_store(tmp_path)
        assert [*(await store.read("chat")).short_term] == ["a"]
        await commit(store, Reinforced("a", 0, 5))
        await store.aclose()
    assert len(await edits_in_history(open_store(tmp_path))) == 1
    assert caplog.text.count("edited by hand") == 1


async def test_what_is_only_laid_out_anew_is_no_change(tmp_path: Path) -> None:
    store = await compacted(tmp_path, "a")
    edit(tmp_path, lambda records: None)
    version = (await store.read("chat")).version
    settled_store = await settled(store)
    assert await edits_in_history(settled_store) == []
    assert (await settled_store.read("chat")).version == version
    before = tree(tmp_path)
    await settled_store.read("chat")
    await settled_store.aclose()
    assert tree(tmp_path) == before


async def test_replay_does_not_bring_back_what_a_person_removed(tmp_path: Path) -> None:
    store = await compacted(tmp_path, "a", "b")
    await commit(store, Reinforced("a", 0, 5), TriggerSet(trigger("t", source="1"), trigger("t")))
    edit(tmp_path, lambda records: records.pop(0))
    edit(tmp_path, list.clear, LONG_TERM)
    await commit(store, Added(memory("later")))
    for state in (await store.read("chat"), await reopened(tmp_path)):
        assert [*state.short_term] == ["b", "later"]
        assert state.long_term == {}
    [_, entry] = await store.archive("chat")
    assert entry.memory == memory("a", text="user: a", score=5)


async def test_an_editor_that_saves_an_old_copy_loses_nothing(tmp_path: Path) -> None:
    store = await compacted(tmp_path, "a")
    old_copy = (tmp_path / "chat" / SHORT_TERM).read_bytes()
    await commit(store, Added(memory("compacted")))
    await store.compact("chat")
    await commit(store, Added(memory("journaled")))
    (tmp_path / "chat" / SHORT_TERM).write_bytes(old_copy)
    # What the editor never had a chance to see stays; what it could have seen is in the archive.
    assert [*(await store.read("chat")).short_term] == ["a", "journaled"]
    settled_store = await settled(store)
    assert [*(await reopened(tmp_path)).short_term] == ["a", "journaled"]
    assert [entry.memory for entry in await settled_store.archive("chat")] == [memory("compacted")]


async def test_an_editor_that_saves_an_old_copy_lowers_no_score(tmp_path: Path) -> None:
    store = await compacted(tmp_path, "a", "b", "c")
    old_copy = (tmp_path / "chat" / SHORT_TERM).read_bytes()
    await commit(store, Reinforced("a", 0, 5), Reinforced("b", 0, 5))
    await store.compact("chat")
    await commit(store, Reinforced("b", 5, 10))
    (tmp_path / "chat" / SHORT_TERM).write_bytes(old_copy.replace(b"user: a", b"user: by hand"))
    edit(tmp_path, lambda records: records[2].update(score=50))
    for state in (
        await store.read("chat"),
        await (await settled(store)).read("chat"),
        await reopened(tmp_path),
    ):
        assert [(stored.text, stored.score) for stored in state.short_term.values()] == [
            ("user: by hand", 5),
            ("user: b", 10),
            ("user: c", 50),
        ]


async def test_a_second_edit_is_compared_with_the_first(tmp_path: Path) -> None:
    store = await compacted(tmp_path, "a", "b", "c")
    edit(tmp_path, lambda records: records.pop(0))
    store = await settled(store)
    await commit(store, Added(memory("a", text="user: back")))
    edit(tmp_path, lambda records: records.pop())
    # It takes out "c" and knows nothing of the "a" that came back meanwhile.
    assert [*(await store.read("chat")).short_term] == ["b", "a"]
    assert [*(await reopened(tmp_path)).short_term] == ["b", "a"]


async def test_fields_that_the_edit_left_alone_keep_what_happened_since(tmp_path: Path) -> None:
    store = await compacted(tmp_path, "a")
    await commit(store, Reinforced("a", 0, 5))
    edit(tmp_path, lambda records: records[0].update(text="user: by hand"))
    stored = (await store.read("chat")).short_term["a"]
    assert stored.text == "user: by hand"
    assert stored.score == 5


@pytest.mark.parametrize("data", [b"", b" \n", b"[{", None])
async def test_an_editor_half_way_through_saving_removes_nothing(
    tmp_path: Path, data: bytes | None
) -> None:
    store = await compacted(tmp_path, "a", "b")
    path = tmp_path / "chat" / SHORT_TERM
    whole = path.read_bytes()
    if data is None:
        path.unlink()
        assert [*(await store.read("chat")).short_term] == ["a", "b"]
        await commit(store, Added(memory("c")))
        assert [*(await reopened(tmp_path)).short_term] == ["a", "b", "c"]
    else:
        path.write_bytes(data)
        assert [*(await store.read("chat")).short_term] == ["a", "b"]
        await commit(store, Added(memory("c")))
        await store.compact("chat")
        assert [*(await reopened(tmp_path)).short_term] == ["a", "b", "c"]
        assert path.read_bytes() == data  # it is not taken from under the editor
        path.write_bytes(whole)
    assert [*(await store.read("chat")).short_term][:2] == ["a", "b"]
    assert [*(await reopened(tmp_path)).short_term] == ["a", "b", "c"]
    assert await edits_in_history(store) == []
    assert not private(tmp_path, "broken").exists()


async def test_a_file_that_another_program_begins_beside_our_journal_is_taken_up(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    (tmp_path / "chat" / SHORT_TERM).write_bytes(
        json_text.dump_array([codec.short_term_json(memory("theirs"))])
    )
    assert [*(await store.read("chat")).short_term] == ["a", "theirs"]
    await store.compact("chat")
    assert [*(await reopened(tmp_path)).short_term] == ["a", "theirs"]


async def test_an_edit_between_a_look_and_a_compaction_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await compacted(tmp_path, "a", "b")
    await commit(store, Added(memory("c")))
    compact_files = ConversationFiles.compact

    def late(self: ConversationFiles, *arguments: Any) -> Any:
        edit(tmp_path, lambda records: records.pop(0))
        return compact_files(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ConversationFiles, "compact", late)
        await store.compact("chat")
    assert [*(await store.read("chat")).short_term] == ["b", "c"]
    assert [*(await reopened(tmp_path)).short_term] == ["b", "c"]


async def test_without_its_copy_an_edited_snapshot_is_read_as_it_is(tmp_path: Path) -> None:
    store = await compacted(tmp_path, "a", "b")
    await commit(store, Reinforced("b", 0, 5))
    private(tmp_path, f"{SHORT_TERM}.zlib").write_bytes(b"broken")
    edit(tmp_path, lambda records: records.pop(0))
    state = await reopened(tmp_path)
    assert [(stored.id, stored.score) for stored in state.short_term.values()] == [("b", 5)]
