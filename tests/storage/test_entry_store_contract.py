"""What every `EntryStore` promises (knowledge/ports.py): one suite, all stores."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from entries_held import figures, get, page, search
from hypothesis import given
from hypothesis import strategies as st
from postgres_entries import entries_of_its_own

from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import InvalidInput, StorageError, StorageUnwritable
from memory_server.kernel.items import Scope
from memory_server.knowledge.entry import (
    Change,
    Entry,
    Figures,
    Filter,
    Hits,
    Operation,
    Purge,
    Query,
    archived,
    changed_by_json,
    json_of,
    live,
)
from memory_server.knowledge.policies import expired, over_limit, taking_back, to_archive, to_purge
from memory_server.knowledge.ports import Committed, Entries, EntryStore, ScopeView
from memory_server.storage.entries import sqlite_store
from memory_server.storage.entries.markdown_folder import MarkdownFolder
from memory_server.storage.entries.sqlite_store import SqliteStore

pytestmark = pytest.mark.anyio
NOW = 1_750_000_000_000
EVERYTHING = Filter()
EVERYWHERE = Filter(archived=None)
"""In the archive too."""
NUMBERS = itertools.count()
OVERWRITE = Operation("overwrite", "test")
NOTES = Scope("notes")
ALICE = Scope("sessions", "alice")
BOB = Scope("sessions", "bob")


def opened(kind: str, folder: Path) -> SqliteStore:
    return SqliteStore(
        None if kind == "memory" else folder / "data" / ".memory-server" / "k.sqlite3", lambda: NOW
    )


@asynccontextmanager
async def opened_store(kind: str, folder: Path) -> AsyncIterator[Any]:
    with ExitStack() as stack:
        if kind == "postgres":
            store: Any = stack.enter_context(entries_of_its_own())
        else:
            store = opened_folder(folder) if kind == "markdown" else opened(kind, folder)
        yield store
        await store.aclose()


def opened_folder(folder: Path) -> MarkdownFolder:
    return MarkdownFolder(folder / "data" / "memory", locks=folder / "locks", scope=NOTES)


@pytest.fixture(params=["memory", "file", "postgres", "markdown"])
async def entries(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Entries]:
    """What every place of entries promises."""
    async with opened_store(request.param, tmp_path) as store:
        yield store


@pytest.fixture(params=["memory", "file", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EntryStore]:
    """What a place with a history promises besides."""
    async with opened_store(request.param, tmp_path) as entry_store:
        yield entry_store


def entry(body: str, **fields: Any) -> Entry:
    return Entry(
        body, **({"created_ms": NOW, "updated_ms": NOW, "key": f"entry-{next(NUMBERS)}"} | fields)
    )


async def commit(store: Entries, *changes: Change, scope: Scope = NOTES) -> Committed[str]:
    return await store.commit(scope, lambda view: (changes, "done"), Operation("change", "test"))


async def undo(store: EntryStore, seq: int | None, scope: Scope = NOTES) -> Committed[None]:
    assert seq is not None
    return await store.commit(
        scope, lambda view: (taking_back(view, seq, NOW), None), Operation("undo", "test")
    )


async def found_texts(store: Entries, text: str, scope: Scope = NOTES, **query: Any) -> list[str]:
    matches = await search(store, scope, Query(text, **query))
    return [hit.entry.body for hit in matches.hits]


async def bodies(
    store: Entries, scope: Scope = NOTES, where: Filter = EVERYTHING, **how: Any
) -> list[str]:
    entries, _ = await page(store, scope, where, **how)
    return [entry.body for entry in entries]


async def test_an_empty_place_answers_and_makes_nothing(entries: Entries, tmp_path: Path) -> None:
    assert await get(entries, NOTES, id=1) is None
    assert await found_texts(entries, "披萨") == []
    assert await page(entries, NOTES, Filter()) == ([], 0)
    assert await figures(entries, NOTES) == Figures(0, 0, 0, None, None)
    assert await entries.examine() == []
    assert os.listdir(tmp_path) == []


async def test_an_empty_store_has_no_history(store: EntryStore, tmp_path: Path) -> None:
    assert await store.operations() == []
    assert await store.scopes() == []
    await store.tidy(texts_before_ms=NOW, operations_before_ms=NOW)
    assert os.listdir(tmp_path) == []


async def test_what_files_hold_is_read_back(entries: Entries) -> None:
    pool = entry(
        "连接池最多 20", key="pool", title="pool", tags=("db", "数据库"), updated_ms=NOW + 5
    )
    (stored,) = (await commit(entries, pool)).entries
    assert stored == replace(pool, id=stored.id, ref=stored.ref, version=1)
    assert await get(entries, NOTES, ref=stored.ref) == stored
    (hit,) = (await search(entries, NOTES, Query("连接池 DB"))).hits
    assert hit.matched == {"tags": ("db",), "body": ("连接", "接池")}
    assert await figures(entries, NOTES) == Figures(1, 0, len(pool.body), NOW, NOW + 5)


async def test_the_archive_frees_a_key_and_a_search_does_not_find_it(entries: Entries) -> None:
    (stored,) = (await commit(entries, entry("one 披萨", key="k"))).entries
    (removed,) = (await commit(entries, archived(stored, "deleted", NOW))).entries
    assert removed.archived_ms == NOW
    assert await found_texts(entries, "披萨") == []
    await commit(entries, entry("two", key="k"))
    with pytest.raises(InvalidInput, match="has that name"):
        await commit(entries, live(removed))
    assert await bodies(entries) == ["two"]
    assert await bodies(entries, where=Filter(archived=True)) == ["one 披萨"]
    assert (await figures(entries, NOTES)).archived == 1


async def test_one_commit_may_archive_one_and_store_another_of_its_key(entries: Entries) -> None:
    (first,) = (await commit(entries, entry("one", key="k"))).entries
    receipt = await commit(entries, archived(first, "over_limit", NOW), entry("two", key="k"))
    assert [(stored.body, stored.archived_ms) for stored in receipt.entries] == [
        ("one", NOW),
        ("two", None),
    ]
    assert await bodies(entries) == ["two"]


async def test_every_field_is_read_back(store: EntryStore) -> None:
    filled = entry(
        "连接池最多 20",
        ref="r-1",
        kind="tech",
        project="shop",
        agent_id="a",
        run_id="r",
        key="pool",
        title="连接池",
        tags=("db", "数据库"),
        examples=("pool(20)", 'say("hi")'),
        metadata={"a": [1, {"b": None}]},
        source="README",
        origin="inferred",
        confidence=0.5,
        importance=0.25,
        uses=3,
        accessed_ms=NOW,
        expires_ms=NOW + 1,
    )
    receipt = await commit(store, filled)
    (stored,) = receipt.entries
    assert stored == replace(filled, id=stored.id, version=1)
    assert await get(store, NOTES, ref="r-1") == stored
    assert changed_by_json(Entry(""), json_of(stored)) == stored
    assert receipt.change_id == f"k{receipt.seq}"


async def test_a_commit_that_raises_changes_nothing(entries: Entries) -> None:
    await commit(entries, entry("one", key="one"))
    with pytest.raises(InvalidInput, match="has that name"):
        await commit(entries, entry("two"), entry("three", key="one"))

    def refuse(view: Any) -> tuple[Sequence[Change], None]:
        raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        await entries.commit(NOTES, refuse, Operation("change"))
    with pytest.raises(InvalidInput, match="read it again"):
        await commit(entries, entry("four"), entry("gone", id=99))
    assert await bodies(entries) == ["one"]


async def test_only_what_was_changed_is_in_the_history(store: EntryStore) -> None:
    (stored,) = (await commit(store, entry("one"))).entries
    await commit(store, stored)
    with pytest.raises(InvalidInput):
        await commit(store, entry("gone", id=99))
    assert [operation.op for _, operation in await store.operations()] == ["change"]


async def test_nothing_different_is_no_change(entries: Entries) -> None:
    (stored,) = (await commit(entries, entry("one"))).entries
    assert (await commit(entries, stored)).change_id is None
    assert (await get(entries, NOTES, id=stored.id)) == stored


async def test_keys_are_unique_among_live_entries_of_a_kind_and_project(store: EntryStore) -> None:
    (first, *_) = (
        await commit(
            store,
            entry("a", kind="tech", key="k"),
            entry("b", kind="domain", key="k"),
            entry("c", kind="tech", project="p", key="k"),
        )
    ).entries
    await commit(store, archived(first, "deleted", NOW))
    await commit(store, entry("d", kind="tech", key="k"))
    archived_entry = await get(store, NOTES, id=first.id)
    assert archived_entry is not None
    with pytest.raises(InvalidInput, match="has that name"):
        await commit(store, live(archived_entry))


async def test_scopes_never_see_each_other(store: EntryStore) -> None:
    (entry_of_alice,) = (await commit(store, entry("alice likes 披萨 pizza"), scope=ALICE)).entries
    await commit(
        store, *(entry(f"bob likes 披萨 pizza {number}") for number in range(5)), scope=BOB
    )
    assert await found_texts(store, "披萨 pizza", ALICE) == ["alice likes 披萨 pizza"]
    assert await get(store, BOB, id=entry_of_alice.id) is None
    assert await get(store, BOB, ref=entry_of_alice.ref) is None
    assert (await figures(store, BOB)).count == 5
    assert [scope for scope, _ in await store.operations(BOB)] == [BOB]
    with pytest.raises(InvalidInput):
        await commit(store, replace(entry_of_alice, body="taken"), scope=BOB)
    assert (await commit(store, Purge(entry_of_alice.id), scope=BOB)).seq is None
    with pytest.raises(InvalidInput, match="left to undo"):
        await undo(store, 1, BOB)
    assert await store.scopes("sessions") == [ALICE, BOB]
    assert await bodies(store, ALICE) == ["alice likes 披萨 pizza"]


async def test_a_search_looks_into_titles_tags_bodies_and_examples(store: EntryStore) -> None:
    await commit(
        store,
        entry("about the body", title="连接池", tags=("db",), examples=("tokio::spawn(async {})",)),
        entry("nothing of that"),
    )
    hits = await search(store, NOTES, Query("连接池 DB tokio::spawn body 不存在"))
    (hit,) = hits.hits
    assert hit.matched == {
        "title": ("连接", "接池"),
        "tags": ("db",),
        "body": ("tokio", "spawn", "body"),
    }
    assert hit.relevance == 1.0
    assert hits.total == 1
    assert dict(hits.left_off) == {}


async def test_what_no_term_finds_is_found_as_it_is_written(entries: Entries) -> None:
    await commit(entries, entry("use a -> b"), entry("trustworthy"), entry("plain"))
    assert await found_texts(entries, "->") == ["use a -> b"]
    assert await found_texts(entries, "RUSTWORTH") == ["trustworthy"]
    assert await found_texts(entries, "%") == []


async def test_other_words_bring_more_after_what_the_query_finds(entries: Entries) -> None:
    await commit(
        entries,
        entry("he cannot sleep", key="a", updated_ms=NOW),
        entry("trazodone and insomnia", key="b", updated_ms=NOW + 1_000),
        entry("nothing of that", key="c"),
    )
    query = Query("sleep", other_words=("trazodone", "Insomnia", "曲唑酮"))
    direct, by_other_words = (await search(entries, NOTES, query)).hits
    assert direct.entry.body == "he cannot sleep"
    assert by_other_words.entry.body == "trazodone and insomnia"
    assert direct.matched == {"body": ("sleep",)}
    assert direct.other_matched == {}
    assert direct.by_other_words is False
    assert by_other_words.matched == {}
    assert by_other_words.by_other_words is True
    assert by_other_words.other_matched == {"body": ("trazodone", "insomnia")}
    assert 0 < by_other_words.relevance <= direct.relevance == 1
    assert await found_texts(entries, "sleep") == ["he cannot sleep"]
    assert await found_texts(entries, "trazodone") == ["trazodone and insomnia"]


async def test_other_words_order_what_the_query_finds(entries: Entries) -> None:
    await commit(
        entries,
        entry("sleep here", key="a", updated_ms=NOW + 1_000),
        entry("sleep trazodone", key="b", updated_ms=NOW),
        *(entry(f"other text {number}", key=f"c{number}") for number in range(5)),
    )
    assert await found_texts(entries, "sleep") == ["sleep here", "sleep trazodone"]
    assert await found_texts(entries, "sleep", other_words=("trazodone",)) == [
        "sleep trazodone",
        "sleep here",
    ]
    assert await found_texts(entries, "sleep", other_words=("the", "sleep", "什么")) == [
        "sleep here",
        "sleep trazodone",
    ]


async def test_other_words_come_after_the_text_as_it_is_written(entries: Entries) -> None:
    await commit(entries, entry("use a -> b"), entry("an arrow"), entry("plain"))
    assert await found_texts(entries, "->", other_words=("arrow",)) == ["use a -> b", "an arrow"]
    assert await found_texts(entries, "->", other_words=("absent",)) == ["use a -> b"]
    (hit,) = (await search(entries, NOTES, Query("", other_words=("arrows",)))).hits
    assert hit.entry.body == "an arrow"
    assert hit.by_other_words is True
    assert hit.relevance == pytest.approx(0.3)


async def test_other_words_show_nothing_that_is_hidden_or_of_another_scope(
    store: EntryStore,
) -> None:
    await commit(
        store,
        entry("pool errors"),
        entry("connections and errors of the bank", project="bank"),
        entry("connections that are over", expires_ms=NOW),
    )
    await commit(store, entry("connections of bob"), scope=BOB)
    where = Filter(projects=("",), unexpired_at_ms=NOW)
    hits = await search(store, NOTES, Query("errors", where, other_words=("connections",)))
    assert [hit.entry.body for hit in hits.hits] == ["pool errors"]
    assert hits.total == 1
    assert hits.left_off == {"other project": 1, "expired": 1}


async def test_shares_tell_other_words_after_those_of_the_query(store: EntryStore) -> None:
    await commit(store, entry("pool of connections", title="timeout"))
    query = Query("pool absent", other_words=("timeouts", "pool", "connection"))
    (share,) = await store.read(NOTES, lambda view: view.shares(query))
    assert share.title == 0b0100
    assert share.tags == 0
    assert share.body == 0b1001


async def test_weak_hidden_and_filtered_matches(store: EntryStore) -> None:
    await commit(
        store,
        entry("rust errors with anyhow", kind="tech", tags=("Rust", "錯誤")),
        entry("errors of the shop", kind="project-tech", project="shop"),
        entry("errors of the bank", kind="project-tech", project="bank"),
        entry("errors that are over", kind="tech", expires_ms=NOW),
        entry(
            "many words, and among them errors, which are only one of all of these many words " * 3,
            kind="tech",
        ),
    )
    where = Filter(projects=("", "shop"), unexpired_at_ms=NOW)
    hits = await search(store, NOTES, Query("rust errors anyhow", where, least_share=0.5))
    assert [hit.entry.body for hit in hits.hits] == ["rust errors with anyhow"]
    assert hits.left_off == {"weaker": 2, "other project": 1, "expired": 1}
    assert await found_texts(
        store, "errors", where=Filter(kinds=("project-tech",), projects=("bank",))
    ) == ["errors of the bank"]
    counts = await store.read(
        NOTES, lambda view: view.counted("project", Filter(kinds=("project-tech",)))
    )
    assert counts == {"shop": 1, "bank": 1}
    assert await found_texts(store, "errors", where=Filter(tags=("错误", "x"))) == [
        "rust errors with anyhow"
    ]
    assert await found_texts(store, "errors", where=Filter(tags=("RUST",))) == [
        "rust errors with anyhow"
    ]
    assert len(await found_texts(store, "errors", limit=2)) == 2


async def test_pages_have_an_order_and_a_total(store: EntryStore) -> None:
    await commit(
        store,
        entry("a", title="3", created_ms=1, updated_ms=9, confidence=0.5),
        entry("b", title="1", created_ms=2, updated_ms=8, uses=1),
        entry("c", title="2", created_ms=3, updated_ms=7),
    )
    assert await page(store, NOTES, Filter(), limit=1, offset=1) == (
        [await get(store, NOTES, id=2)],
        3,
    )
    assert await bodies(store, order="newest") == ["a", "b", "c"]
    assert await bodies(store, order="oldest", limit=2) == ["a", "b"]
    assert await bodies(store, order="best") == ["b", "c", "a"]
    assert await bodies(store, order="title") == ["b", "c", "a"]


@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=pytest.mark.full)])
async def test_uses_at_once_are_all_counted(store: EntryStore, rounds: int) -> None:
    await commit(store, *(entry(f"number {number}") for number in range(100)))
    uses = [store.count_use([number % 100 + 1, 1], NOW) for number in range(100 * rounds)]
    await asyncio.gather(*uses)
    first = await get(store, NOTES, id=1)
    assert first is not None
    assert first.uses == 101 * rounds


async def test_a_use_is_counted_and_is_not_a_change(store: EntryStore) -> None:
    receipt = await commit(store, entry("a"))
    await store.count_use([1, 1, 99], NOW + 5)
    used = await get(store, NOTES, id=1)
    assert used is not None
    assert used.uses == 2
    assert used.accessed_ms == NOW + 5
    assert used.version == 1
    assert len(await store.operations()) == 1
    await undo(store, receipt.seq)
    assert await bodies(store) == []


async def test_uses_of_entries_that_are_elsewhere(store: EntryStore) -> None:
    await store.mark_used("/p", ["a", "b"], NOW)
    await store.mark_used("/p", ["a"], NOW - 5)
    assert await store.uses("/p") == {"a": (NOW, 2), "b": (NOW, 1)}
    assert await store.uses("/q") == {}


async def test_operations_come_newest_first_in_pages(store: EntryStore) -> None:
    for number in range(5):
        await commit(store, entry(f"entry {number}"))
    await store.log_operation(
        NOTES, Operation("search", "recall", NOW, {"user": "u"}, (1,), "failed", 2.5, {"q": 1})
    )
    newest = (await store.operations(limit=1))[0][1]
    assert newest == Operation(
        "search", "recall", NOW, {"user": "u"}, (1,), "failed", 2.5, {"q": 1}, newest.seq
    )
    older = await store.operations(NOTES, before=newest.seq, limit=2)
    assert [operation.seq for _, operation in older] == [newest.seq - 1, newest.seq - 2]
    assert older[0][1].entries == (5,)


async def test_a_scope_of_which_nothing_is_left_is_forgotten_with_its_operations(
    store: EntryStore,
) -> None:
    probe = Scope("sessions", "probe")
    await commit(store, entry("kept"))
    assert (
        await store.log_operation(
            probe, Operation("delete", "test", NOW, error="refused"), passing=True
        )
        > 0
    )
    assert [operation.op for _, operation in await store.operations(probe)] == ["delete"]
    await store.tidy(texts_before_ms=0, operations_before_ms=NOW)
    assert probe in await store.scopes()
    await store.tidy(texts_before_ms=0, operations_before_ms=NOW + 1)
    assert await store.scopes() == [NOTES]


async def test_undo_brings_texts_back_and_can_be_undone(store: EntryStore) -> None:
    (first,) = (await commit(store, entry("the old text", title="t"))).entries
    edit = await commit(store, replace(first, body="another", title="u"))
    undoing = await undo(store, edit.seq)
    assert await found_texts(store, "old text") == ["the old text"]
    assert await found_texts(store, "another") == []
    await undo(store, undoing.seq)
    assert await bodies(store) == ["another"]
    with pytest.raises(InvalidInput, match="changed again"):
        await undo(store, edit.seq)
    with pytest.raises(InvalidInput, match="left to undo"):
        await undo(store, 999)


async def test_old_texts_and_operations_are_forgotten(store: EntryStore) -> None:
    (stored,) = (await commit(store, entry("secret"))).entries
    edit = await commit(store, replace(stored, body="other"))
    await store.tidy(texts_before_ms=NOW + 1, operations_before_ms=0)
    with pytest.raises(InvalidInput, match="too long ago"):
        await undo(store, edit.seq)
    await store.tidy(texts_before_ms=0, operations_before_ms=NOW + 1)
    assert await store.operations() == []
    assert await bodies(store) == ["other"]


async def test_what_is_purged_is_gone_with_its_history(store: EntryStore) -> None:
    (first,) = (await commit(store, entry("secret"))).entries
    edit = await commit(store, replace(first, body="other"))
    await commit(store, Purge(first.id))
    assert await get(store, NOTES, id=first.id) is None
    assert await found_texts(store, "other") == []
    with pytest.raises(InvalidInput, match="left to undo"):
        await undo(store, edit.seq)
    (second,) = (await commit(store, entry("two"))).entries
    assert second.id > first.id


async def test_age_and_number_send_entries_to_the_archive(store: EntryStore) -> None:
    await commit(
        store,
        *(entry(f"e{number}", created_ms=number, expires_ms=NOW + number) for number in range(6)),
    )

    def clean(view: Any) -> tuple[Sequence[Change], int]:
        due = expired(view, NOW + 1)
        return to_archive(due, NOW), len(due)

    assert (await store.commit(NOTES, clean, Operation("cleanup"))).result == 2
    cap = await store.commit(
        NOTES, lambda view: (to_archive(over_limit(view, 3), NOW), None), Operation("cap")
    )
    assert [moved.reason for moved in cap.entries] == ["over_limit"]
    assert await bodies(store, order="oldest") == ["e3", "e4", "e5"]
    assert (await page(store, NOTES, Filter(archived=True)))[1] == 3
    await store.commit(NOTES, lambda view: (to_purge(view, NOW), None), Operation("purge"))
    assert (await page(store, NOTES, Filter(archived=None)))[1] == 3


async def test_an_index_made_anew_finds_the_same(store: EntryStore) -> None:
    (pizza, _) = (await commit(store, entry("披萨 pizza"), entry("拉面 ramen"))).entries
    await commit(store, archived(pizza, "deleted", NOW))
    assert await store.rebuild() == 1
    assert await found_texts(store, "拉面") == ["拉面 ramen"]
    assert await found_texts(store, "pizza") == []


async def test_a_copy_can_be_put_back_whole(store: EntryStore, tmp_path: Path) -> None:
    await commit(store, entry("kept 披萨"))
    path = tmp_path / "copies" / "copy.sqlite3"
    await store.copy_to(path)
    assert path.stat().st_mode & 0o777 == 0o600
    await commit(store, entry("later"))
    await store.replace_by(path, NOTES, OVERWRITE)
    assert await bodies(store) == ["kept 披萨"]
    assert await found_texts(store, "披萨") == ["kept 披萨"]
    await commit(store, entry("again"))
    assert len(await bodies(store)) == 2


async def test_after_a_copy_was_put_back_no_change_gets_the_number_of_another(
    tmp_path: Path,
) -> None:
    store = opened("file", tmp_path)
    path = tmp_path / "copy.sqlite3"
    await commit(store, entry("kept"))
    await store.copy_to(path)
    later = await commit(store, entry("later"))
    await store.replace_by(path, NOTES, OVERWRITE)
    again = await commit(store, entry("again"))
    assert later.change_id == "k2"  # k3 is the replacement
    assert again.change_id == "k4"
    await store.aclose()


async def test_without_room_for_what_was_there_nothing_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened("file", tmp_path)
    path = tmp_path / "copy.sqlite3"
    await commit(store, entry("kept"))
    await store.copy_to(path)
    await commit(store, entry("later"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sqlite_store, "copy_database", full)
    with pytest.raises(StorageError, match="Nothing was changed"):
        await store.replace_by(path, NOTES, OVERWRITE)
    assert sorted(await bodies(store)) == ["kept", "later"]
    await store.aclose()


async def test_a_store_that_is_read_only_erases_nothing_from_its_former_copies_either(
    tmp_path: Path,
) -> None:
    store = opened("file", tmp_path)
    await commit(store, entry("the secret plan"))
    copy = await store.set_aside()
    await store.aclose()
    assert copy is not None
    content = copy.read_bytes()
    assert b"the secret plan" in content

    reader = SqliteStore(store.place, lambda: NOW, read_only=True)
    with pytest.raises(StorageUnwritable, match="read_only"):
        await reader.erase(Erasure((), ("the secret plan",)))
    assert copy.read_bytes() == content
    await reader.aclose()


async def test_a_store_that_is_read_only_makes_and_removes_no_former_copies(tmp_path: Path) -> None:
    store = opened("file", tmp_path)
    await commit(store, entry("kept"))
    copy = await store.set_aside()
    await store.aclose()
    assert copy is not None

    later_ms = NOW + 1_000 * 86_400_000
    reader = SqliteStore(store.place, lambda: later_ms, read_only=True)
    with pytest.raises(StorageUnwritable, match="read_only"):
        await reader.set_aside()
    assert list(copy.parent.iterdir()) == [copy]
    await reader.aclose()


async def test_what_others_write_while_a_copy_is_put_back_is_kept(tmp_path: Path) -> None:
    mine = opened("file", tmp_path)
    others = opened("file", tmp_path)
    await commit(mine, entry("kept"))
    path = tmp_path / "copy.sqlite3"
    await mine.copy_to(path)
    acknowledged = ["kept"]
    is_over = asyncio.Event()

    async def write() -> None:
        for number in itertools.count():
            await commit(others, entry(f"number {number}"))
            acknowledged.append(f"number {number}")
            if is_over.is_set():
                return

    writing = asyncio.create_task(write())
    seen: set[str] = set()
    for _ in range(5):
        await asyncio.sleep(0.005)
        _, former = await mine.replace_by(path, NOTES, OVERWRITE)
        assert former is not None
        store = mine.copy_at(former)
        seen |= {*await bodies(store)}
        await store.aclose()
        former.unlink()
    is_over.set()
    await writing
    assert {*acknowledged} <= seen | {*await bodies(mine)}
    await mine.aclose()
    await others.aclose()


@pytest.mark.parametrize("callers", [40, pytest.param(100, marks=pytest.mark.full)])
async def test_many_callers_at_once(entries: Entries, callers: int) -> None:
    async def add(number: int) -> None:
        await commit(entries, entry(f"number {number}"))
        assert f"number {number}" in await found_texts(entries, f"number {number}", limit=200)

    await asyncio.gather(*(add(number) for number in range(callers)))
    assert (await figures(entries, NOTES)).count == callers


WORDS = ["披萨", "数据库", "error", "C++", "猫", "cafe", "🎂"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
STEP = st.one_of(
    st.tuples(st.just("add"), TEXTS, st.integers(0, 3)),
    st.tuples(st.just("edit"), TEXTS, st.integers(0, 9)),
    st.tuples(
        st.sampled_from(["archive", "live", "purge", "touch"]), st.just(""), st.integers(0, 9)
    ),
    st.tuples(st.just("undo"), st.just(""), st.integers(0, 3)),
)


def comparable(entries: Sequence[Entry]) -> dict[int, Entry]:
    """Entries as they are compared: versions only rise, and uses are not changes."""
    return {stored.id: replace(stored, version=0, uses=0, accessed_ms=None) for stored in entries}


async def all_entries(store: Entries) -> dict[int, Entry]:
    entries, _ = await page(store, NOTES, Filter(archived=None))
    return comparable(entries)


Snapshot = dict[int, Entry]
"""All entries by id, as they are compared."""


@dataclass
class Walk:
    """Steps on a store, whose entries, index and history must stay consistent. Markdown files have no history."""

    store: Any
    is_markdown: bool
    entries: dict[int, Entry] = field(default_factory=dict)
    """All entries as they were read last."""
    states: dict[int, tuple[Snapshot, Snapshot]] = field(default_factory=dict)
    """What was there before and after each operation."""

    async def look(self) -> Snapshot:
        """Read all entries, and see that a search finds each word where it stands."""

        def look(view: ScopeView) -> tuple[list[Entry], list[Hits]]:
            return view.entries(EVERYWHERE), [view.search(Query(word, limit=99)) for word in WORDS]

        entries, matches = await self.store.read(NOTES, look)
        self.entries = {stored.id: stored for stored in entries}
        live_texts = [stored.body for stored in entries if stored.archived_ms is None]
        for word, hits in zip(WORDS, matches, strict=True):
            assert sorted(hit.entry.body for hit in hits.hits) == sorted(
                text for text in live_texts if word in text
            )
        return comparable(entries)

    async def take(self, do: str, text: str, number: int) -> None:
        before = comparable([*self.entries.values()])
        if do == "undo":
            if self.states and not self.is_markdown:
                await self.undo(sorted(self.states)[-1 - number % len(self.states)], before)
            return
        change = await self.change_of(do, text, number)
        if change is None:
            return
        try:
            receipt = await commit(self.store, change)
        except InvalidInput:
            assert await self.look() == before
            return
        after = await self.look()
        if receipt.seq is not None:
            self.states[receipt.seq] = (before, after)

    async def change_of(self, do: str, text: str, number: int) -> Change | None:
        """The change that a step makes, if it makes one."""
        if do == "add":
            return entry(text, key=str(number), title=self.title_of(text, str(number)))
        if not self.entries:
            return None
        ids = sorted(self.entries)
        chosen = self.entries[ids[number % len(ids)]]
        match do:
            case "edit":
                return replace(chosen, body=text, title=self.title_of(text, chosen.title))
            case "archive":
                return archived(chosen, "deleted", NOW)
            case "live":
                return live(chosen)
            case "purge":
                return Purge(chosen.id)
            case "touch" if self.is_markdown:
                await self.store.examine()
            case "touch":
                await self.store.count_use([chosen.id], NOW)
        await self.look()
        return None

    def title_of(self, text: str, otherwise: str) -> str:
        """A file has its key for a title."""
        return otherwise if self.is_markdown else text

    async def undo(self, seq: int, before: Snapshot) -> None:
        try:
            await undo(self.store, seq)
        except InvalidInput:
            assert await self.look() == before
            return
        former, later = self.states[seq]
        after = await self.look()
        for entry_id in {**former, **later}:
            if former.get(entry_id) == later.get(entry_id) or entry_id not in after:
                continue
            if entry_id in former:
                assert after[entry_id] == former[entry_id]
            else:
                assert after[entry_id] == archived(later[entry_id], "undone", NOW)


async def texts_in(store: Entries) -> list[tuple[str | None, str, int]]:
    entries = await all_entries(store)
    return sorted((stored.key, stored.body, stored.archived_ms or 0) for stored in entries.values())


@pytest.mark.parametrize("kind", ["memory", "file", "postgres", "markdown"])
@given(steps=st.lists(STEP, min_size=1, max_size=12))
def test_every_sequence_leaves_entries_index_and_history_consistent(
    kind: str, steps: list[tuple[str, str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def run() -> None:
        folder = tmp_path_factory.mktemp("entries")
        async with opened_store(kind, folder) as store:
            walk = Walk(store, is_markdown=kind == "markdown")
            for do, text, number in steps:
                await walk.take(do, text, number)
            if walk.is_markdown:
                await check_files(store, folder)
            else:
                await store.rebuild()
            await walk.look()
            assert [finding.grade for finding in await store.examine()] in ([], ["ok"])

    async def check_files(store: Any, folder: Path) -> None:
        """Another process sees the same, and no other file is there."""
        other_process = opened_folder(folder)
        texts = await texts_in(store)
        assert await texts_in(other_process) == texts
        assert len(texts) == sum(path.is_file() for path in (folder / "data").rglob("*"))
        await other_process.aclose()

    asyncio.run(run())
