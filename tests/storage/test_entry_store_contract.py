"""What every `EntryStore` promises (knowledge/ports.py): one suite, all stores."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from entries_held import figures, get, page, search
from hypothesis import given
from hypothesis import strategies as st
from postgres_entries import entries_of_its_own

from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.entry import (
    Change,
    Entry,
    Figures,
    Filter,
    Operation,
    Purge,
    Query,
    archived,
    changed_by_json,
    json_of,
    live,
)
from memory_server.knowledge.policies import expired, over_limit, taking_back, to_archive, to_purge
from memory_server.knowledge.ports import Committed, Entries, EntryStore
from memory_server.storage.entries import sqlite_store
from memory_server.storage.entries.markdown_folder import MarkdownFolder
from memory_server.storage.entries.sqlite_store import SqliteStore

pytestmark = pytest.mark.anyio
NOW = 1_750_000_000_000
EVERYTHING = Filter()
NUMBERS = itertools.count()
OVERWRITE = Operation("overwrite", "test")
NOTES, ALICE, BOB = Scope("notes"), Scope("sessions", "alice"), Scope("sessions", "bob")


def opened(kind: str, folder: Path) -> SqliteStore:
    return SqliteStore(None if kind == "memory" else folder / "data" / ".memory-server" / "k.sqlite3", lambda: NOW)


@asynccontextmanager
async def opened_place(kind: str, folder: Path) -> AsyncIterator[Any]:
    with ExitStack() as stack:
        if kind == "postgres":
            made: Any = stack.enter_context(entries_of_its_own())
        else:
            made = opened_folder(folder) if kind == "markdown" else opened(kind, folder)
        yield made
        await made.aclose()


def opened_folder(folder: Path) -> MarkdownFolder:
    return MarkdownFolder(folder / "data" / "memory", locks=folder / "locks", scope=NOTES)


@pytest.fixture(params=["memory", "file", "postgres", "markdown"])
async def entries(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Entries]:
    """What every place of entries promises."""
    async with opened_place(request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=["memory", "file", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EntryStore]:
    """What a place with a history promises besides."""
    async with opened_place(request.param, tmp_path) as made:
        yield made


def entry(body: str, **fields: Any) -> Entry:
    return Entry(body, **({"created_ms": NOW, "updated_ms": NOW, "key": f"entry-{next(NUMBERS)}"} | fields))


async def commit(store: Entries, *changes: Change, scope: Scope = NOTES) -> Committed[str]:
    return await store.commit(scope, lambda held: (changes, "done"), Operation("change", "test"))


async def undo(store: EntryStore, seq: int | None, scope: Scope = NOTES) -> Committed[None]:
    assert seq is not None
    return await store.commit(scope, lambda held: (taking_back(held, seq, NOW), None), Operation("undo", "test"))


async def found(store: Entries, text: str, scope: Scope = NOTES, **query: Any) -> list[str]:
    return [hit.entry.body for hit in (await search(store, scope, Query(text, **query))).hits]


async def bodies(store: Entries, scope: Scope = NOTES, where: Filter = EVERYTHING, **how: Any) -> list[str]:
    return [each.body for each in (await page(store, scope, where, **how))[0]]


async def test_an_empty_place_answers_and_makes_nothing(entries: Entries, tmp_path: Path) -> None:
    assert await get(entries, NOTES, id=1) is None
    assert await found(entries, "披萨") == []
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
    made = entry("连接池最多 20", key="pool", title="pool", tags=("db", "数据库"), updated_ms=NOW + 5)
    (stored,) = (await commit(entries, made)).entries
    assert stored == replace(made, id=stored.id, ref=stored.ref, version=1)
    assert await get(entries, NOTES, ref=stored.ref) == stored
    (hit,) = (await search(entries, NOTES, Query("连接池 DB"))).hits
    assert hit.matched == {"tags": ("db",), "body": ("连接", "接池")}
    assert await figures(entries, NOTES) == Figures(1, 0, len(made.body), NOW, NOW + 5)


async def test_the_archive_frees_a_key_and_a_search_does_not_find_it(entries: Entries) -> None:
    (one,) = (await commit(entries, entry("one 披萨", key="k"))).entries
    (gone,) = (await commit(entries, archived(one, "deleted", NOW))).entries
    assert gone.archived_ms == NOW
    assert await found(entries, "披萨") == []
    await commit(entries, entry("two", key="k"))
    with pytest.raises(InvalidInput, match="has that name"):
        await commit(entries, live(gone))
    assert await bodies(entries) == ["two"]
    assert await bodies(entries, where=Filter(archived=True)) == ["one 披萨"]
    assert (await figures(entries, NOTES)).archived == 1


async def test_one_commit_may_archive_one_and_store_another_of_its_key(entries: Entries) -> None:
    (one,) = (await commit(entries, entry("one", key="k"))).entries
    done = await commit(entries, archived(one, "over_limit", NOW), entry("two", key="k"))
    assert [(each.body, each.archived_ms) for each in done.entries] == [("one", NOW), ("two", None)]
    assert await bodies(entries) == ["two"]


async def test_every_field_is_read_back(store: EntryStore) -> None:
    made = entry(
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
    done = await commit(store, made)
    (stored,) = done.entries
    assert stored == replace(made, id=stored.id, version=1)
    assert await get(store, NOTES, ref="r-1") == stored
    assert changed_by_json(Entry(""), json_of(stored)) == stored
    assert done.change_id == f"k{done.seq}"


async def test_a_commit_that_raises_changes_nothing(entries: Entries) -> None:
    await commit(entries, entry("one", key="one"))
    with pytest.raises(InvalidInput, match="has that name"):
        await commit(entries, entry("two"), entry("three", key="one"))

    def refuse(held: Any) -> tuple[Sequence[Change], None]:
        raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        await entries.commit(NOTES, refuse, Operation("change"))
    with pytest.raises(InvalidInput, match="read it again"):
        await commit(entries, entry("four"), entry("gone", id=99))
    assert await bodies(entries) == ["one"]


async def test_only_what_was_changed_is_in_the_history(store: EntryStore) -> None:
    (one,) = (await commit(store, entry("one"))).entries
    await commit(store, one)
    with pytest.raises(InvalidInput):
        await commit(store, entry("gone", id=99))
    assert [done.op for _, done in await store.operations()] == ["change"]


async def test_nothing_different_is_no_change(entries: Entries) -> None:
    (one,) = (await commit(entries, entry("one"))).entries
    assert (await commit(entries, one)).change_id is None
    assert (await get(entries, NOTES, id=one.id)) == one


async def test_keys_are_unique_among_live_entries_of_a_kind_and_project(store: EntryStore) -> None:
    (one, *_) = (
        await commit(
            store,
            entry("a", kind="tech", key="k"),
            entry("b", kind="domain", key="k"),
            entry("c", kind="tech", project="p", key="k"),
        )
    ).entries
    await commit(store, archived(one, "deleted", NOW))
    await commit(store, entry("d", kind="tech", key="k"))
    back = await get(store, NOTES, id=one.id)
    assert back is not None
    with pytest.raises(InvalidInput, match="has that name"):
        await commit(store, live(back))


async def test_scopes_never_see_each_other(store: EntryStore) -> None:
    (hers,) = (await commit(store, entry("alice likes 披萨 pizza"), scope=ALICE)).entries
    await commit(store, *(entry(f"bob likes 披萨 pizza {number}") for number in range(5)), scope=BOB)
    assert await found(store, "披萨 pizza", ALICE) == ["alice likes 披萨 pizza"]
    assert await get(store, BOB, id=hers.id) is None
    assert await get(store, BOB, ref=hers.ref) is None
    assert (await figures(store, BOB)).count == 5
    assert [scope for scope, _ in await store.operations(BOB)] == [BOB]
    with pytest.raises(InvalidInput):
        await commit(store, replace(hers, body="taken"), scope=BOB)
    assert (await commit(store, Purge(hers.id), scope=BOB)).seq is None
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
    assert hit.matched == {"title": ("连接", "接池"), "tags": ("db",), "body": ("tokio", "spawn", "body")}
    assert (hit.relevance, hits.total, dict(hits.left_off)) == (1.0, 1, {})


async def test_what_no_term_finds_is_found_as_it_is_written(entries: Entries) -> None:
    await commit(entries, entry("use a -> b"), entry("trustworthy"), entry("plain"))
    assert await found(entries, "->") == ["use a -> b"]
    assert await found(entries, "RUSTWORTH") == ["trustworthy"]
    assert await found(entries, "%") == []


async def test_other_words_bring_more_after_what_the_query_finds(entries: Entries) -> None:
    await commit(
        entries,
        entry("he cannot sleep", key="a", updated_ms=NOW),
        entry("trazodone and insomnia", key="b", updated_ms=NOW + 1_000),
        entry("nothing of that", key="c"),
    )
    query = Query("sleep", other_words=("trazodone", "Insomnia", "曲唑酮"))
    own, other = (await search(entries, NOTES, query)).hits
    assert (own.entry.body, other.entry.body) == ("he cannot sleep", "trazodone and insomnia")
    assert (own.matched, own.other_matched, own.by_other_words) == ({"body": ("sleep",)}, {}, False)
    assert (other.matched, other.by_other_words) == ({}, True)
    assert other.other_matched == {"body": ("trazodone", "insomnia")}
    assert 0 < other.relevance <= own.relevance == 1
    assert await found(entries, "sleep") == ["he cannot sleep"]
    assert await found(entries, "trazodone") == ["trazodone and insomnia"]


async def test_other_words_order_what_the_query_finds(entries: Entries) -> None:
    await commit(
        entries,
        entry("sleep here", key="a", updated_ms=NOW + 1_000),
        entry("sleep trazodone", key="b", updated_ms=NOW),
        *(entry(f"other text {number}", key=f"c{number}") for number in range(5)),
    )
    assert await found(entries, "sleep") == ["sleep here", "sleep trazodone"]
    assert await found(entries, "sleep", other_words=("trazodone",)) == ["sleep trazodone", "sleep here"]
    assert await found(entries, "sleep", other_words=("the", "sleep", "什么")) == ["sleep here", "sleep trazodone"]


async def test_other_words_come_after_the_text_as_it_is_written(entries: Entries) -> None:
    await commit(entries, entry("use a -> b"), entry("an arrow"), entry("plain"))
    assert await found(entries, "->", other_words=("arrow",)) == ["use a -> b", "an arrow"]
    assert await found(entries, "->", other_words=("absent",)) == ["use a -> b"]
    (hit,) = (await search(entries, NOTES, Query("", other_words=("arrows",)))).hits
    assert (hit.entry.body, hit.by_other_words) == ("an arrow", True)
    assert hit.relevance == pytest.approx(0.3)


async def test_other_words_show_nothing_that_is_hidden_or_of_another_scope(store: EntryStore) -> None:
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
    assert (hits.total, hits.left_off) == (1, {"other project": 1, "expired": 1})


async def test_shares_tell_other_words_after_those_of_the_query(store: EntryStore) -> None:
    await commit(store, entry("pool of connections", title="timeout"))
    query = Query("pool absent", other_words=("timeouts", "pool", "connection"))
    (share,) = await store.read(NOTES, lambda held: held.shares(query))
    assert (share.title, share.tags, share.body) == (0b0100, 0, 0b1001)


async def test_weak_hidden_and_filtered_matches(store: EntryStore) -> None:
    await commit(
        store,
        entry("rust errors with anyhow", kind="tech", tags=("Rust", "錯誤")),
        entry("errors of the shop", kind="project-tech", project="shop"),
        entry("errors of the bank", kind="project-tech", project="bank"),
        entry("errors that are over", kind="tech", expires_ms=NOW),
        entry("many words, and among them errors, which are only one of all of these many words " * 3, kind="tech"),
    )
    where = Filter(projects=("", "shop"), unexpired_at_ms=NOW)
    hits = await search(store, NOTES, Query("rust errors anyhow", where, least_share=0.5))
    assert [hit.entry.body for hit in hits.hits] == ["rust errors with anyhow"]
    assert hits.left_off == {"weaker": 2, "other project": 1, "expired": 1}
    assert await found(store, "errors", where=Filter(kinds=("project-tech",), projects=("bank",))) == [
        "errors of the bank"
    ]
    counts = await store.read(NOTES, lambda held: held.counted("project", Filter(kinds=("project-tech",))))
    assert counts == {"shop": 1, "bank": 1}
    assert await found(store, "errors", where=Filter(tags=("错误", "x"))) == ["rust errors with anyhow"]
    assert await found(store, "errors", where=Filter(tags=("RUST",))) == ["rust errors with anyhow"]
    assert len(await found(store, "errors", limit=2)) == 2


async def test_pages_have_an_order_and_a_total(store: EntryStore) -> None:
    await commit(
        store,
        entry("a", title="3", created_ms=1, updated_ms=9, confidence=0.5),
        entry("b", title="1", created_ms=2, updated_ms=8, uses=1),
        entry("c", title="2", created_ms=3, updated_ms=7),
    )
    assert await page(store, NOTES, Filter(), limit=1, offset=1) == ([await get(store, NOTES, id=2)], 3)
    assert await bodies(store, order="newest") == ["a", "b", "c"]
    assert await bodies(store, order="oldest", limit=2) == ["a", "b"]
    assert await bodies(store, order="best") == ["b", "c", "a"]
    assert await bodies(store, order="title") == ["b", "c", "a"]


async def test_uses_at_once_are_all_counted(store: EntryStore) -> None:
    await commit(store, *(entry(f"number {number}") for number in range(100)))
    await asyncio.gather(*(store.count_use([number % 100 + 1, 1], NOW) for number in range(1000)))
    first = await get(store, NOTES, id=1)
    assert first is not None
    assert first.uses == 1010


async def test_a_use_is_counted_and_is_not_a_change(store: EntryStore) -> None:
    done = await commit(store, entry("a"))
    await store.count_use([1, 1, 99], NOW + 5)
    used = await get(store, NOTES, id=1)
    assert used is not None
    assert (used.uses, used.accessed_ms, used.version) == (2, NOW + 5, 1)
    assert len(await store.operations()) == 1
    await undo(store, done.seq)
    assert await bodies(store) == []


async def test_uses_of_entries_that_are_elsewhere(store: EntryStore) -> None:
    await store.mark_used("/p", ["a", "b"], NOW)
    await store.mark_used("/p", ["a"], NOW - 5)
    assert await store.uses("/p") == {"a": (NOW, 2), "b": (NOW, 1)}
    assert await store.uses("/q") == {}


async def test_operations_come_newest_first_in_pages(store: EntryStore) -> None:
    for number in range(5):
        await commit(store, entry(f"entry {number}"))
    await store.log_operation(NOTES, Operation("search", "recall", NOW, {"user": "u"}, (1,), "failed", 2.5, {"q": 1}))
    newest = (await store.operations(limit=1))[0][1]
    assert newest == Operation("search", "recall", NOW, {"user": "u"}, (1,), "failed", 2.5, {"q": 1}, newest.seq)
    older = await store.operations(NOTES, before=newest.seq, limit=2)
    assert [done.seq for _, done in older] == [newest.seq - 1, newest.seq - 2]
    assert older[0][1].entries == (5,)


async def test_a_scope_of_which_nothing_is_left_is_forgotten_with_its_operations(store: EntryStore) -> None:
    probe = Scope("sessions", "probe")
    await commit(store, entry("kept"))
    assert await store.log_operation(probe, Operation("delete", "test", NOW, error="refused"), passing=True) > 0
    assert [done.op for _, done in await store.operations(probe)] == ["delete"]
    await store.tidy(texts_before_ms=0, operations_before_ms=NOW)
    assert probe in await store.scopes()
    await store.tidy(texts_before_ms=0, operations_before_ms=NOW + 1)
    assert await store.scopes() == [NOTES]


async def test_undo_brings_texts_back_and_can_be_undone(store: EntryStore) -> None:
    (first,) = (await commit(store, entry("the old text", title="t"))).entries
    edit = await commit(store, replace(first, body="another", title="u"))
    back = await undo(store, edit.seq)
    assert await found(store, "old text") == ["the old text"]
    assert await found(store, "another") == []
    await undo(store, back.seq)
    assert await bodies(store) == ["another"]
    with pytest.raises(InvalidInput, match="changed again"):
        await undo(store, edit.seq)
    with pytest.raises(InvalidInput, match="left to undo"):
        await undo(store, 999)


async def test_old_texts_and_operations_are_forgotten(store: EntryStore) -> None:
    (one,) = (await commit(store, entry("secret"))).entries
    edit = await commit(store, replace(one, body="other"))
    await store.tidy(texts_before_ms=NOW + 1, operations_before_ms=0)
    with pytest.raises(InvalidInput, match="too long ago"):
        await undo(store, edit.seq)
    await store.tidy(texts_before_ms=0, operations_before_ms=NOW + 1)
    assert await store.operations() == []
    assert await bodies(store) == ["other"]


async def test_what_is_purged_is_gone_with_its_history(store: EntryStore) -> None:
    (one,) = (await commit(store, entry("secret"))).entries
    edit = await commit(store, replace(one, body="other"))
    await commit(store, Purge(one.id))
    assert await get(store, NOTES, id=one.id) is None
    assert await found(store, "other") == []
    with pytest.raises(InvalidInput, match="left to undo"):
        await undo(store, edit.seq)
    (two,) = (await commit(store, entry("two"))).entries
    assert two.id > one.id


async def test_age_and_number_send_entries_to_the_archive(store: EntryStore) -> None:
    await commit(store, *(entry(f"e{number}", created_ms=number, expires_ms=NOW + number) for number in range(6)))

    def clean(held: Any) -> tuple[Sequence[Change], int]:
        due = expired(held, NOW + 1)
        return to_archive(due, NOW), len(due)

    assert (await store.commit(NOTES, clean, Operation("cleanup"))).result == 2
    cap = await store.commit(NOTES, lambda held: (to_archive(over_limit(held, 3), NOW), None), Operation("cap"))
    assert [each.reason for each in cap.entries] == ["over_limit"]
    assert await bodies(store, order="oldest") == ["e3", "e4", "e5"]
    assert (await page(store, NOTES, Filter(archived=True)))[1] == 3
    await store.commit(NOTES, lambda held: (to_purge(held, NOW), None), Operation("purge"))
    assert (await page(store, NOTES, Filter(archived=None)))[1] == 3


async def test_an_index_made_anew_finds_the_same(store: EntryStore) -> None:
    (one, _) = (await commit(store, entry("披萨 pizza"), entry("拉面 ramen"))).entries
    await commit(store, archived(one, "deleted", NOW))
    assert await store.rebuild() == 1
    assert await found(store, "拉面") == ["拉面 ramen"]
    assert await found(store, "pizza") == []


async def test_a_copy_can_be_put_back_whole(store: EntryStore, tmp_path: Path) -> None:
    await commit(store, entry("kept 披萨"))
    path = tmp_path / "copies" / "copy.sqlite3"
    await store.copy_to(path)
    assert path.stat().st_mode & 0o777 == 0o600
    await commit(store, entry("later"))
    await store.replace_by(path, NOTES, OVERWRITE)
    assert await bodies(store) == ["kept 披萨"]
    assert await found(store, "披萨") == ["kept 披萨"]
    await commit(store, entry("again"))
    assert len(await bodies(store)) == 2


async def test_after_a_copy_was_put_back_no_change_gets_the_number_of_another(tmp_path: Path) -> None:
    store, path = opened("file", tmp_path), tmp_path / "copy.sqlite3"
    await commit(store, entry("kept"))
    await store.copy_to(path)
    later = await commit(store, entry("later"))
    await store.replace_by(path, NOTES, OVERWRITE)
    again = await commit(store, entry("again"))
    assert (later.change_id, again.change_id) == ("k2", "k4")  # k3 is the replacement
    await store.aclose()


async def test_without_room_for_what_was_there_nothing_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, path = opened("file", tmp_path), tmp_path / "copy.sqlite3"
    await commit(store, entry("kept"))
    await store.copy_to(path)
    await commit(store, entry("later"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sqlite_store, "copy_database", full)
    with pytest.raises(StorageError, match="nothing was changed"):
        await store.replace_by(path, NOTES, OVERWRITE)
    assert sorted(await bodies(store)) == ["kept", "later"]
    await store.aclose()


async def test_what_others_write_while_a_copy_is_put_back_is_kept(tmp_path: Path) -> None:
    mine, other = opened("file", tmp_path), opened("file", tmp_path)
    await commit(mine, entry("kept"))
    path = tmp_path / "copy.sqlite3"
    await mine.copy_to(path)
    acknowledged, done = ["kept"], asyncio.Event()

    async def write() -> None:
        for number in itertools.count():
            await commit(other, entry(f"number {number}"))
            acknowledged.append(f"number {number}")
            if done.is_set():
                return

    writing = asyncio.create_task(write())
    there: set[str] = set()
    for _ in range(5):
        await asyncio.sleep(0.02)
        _, former = await mine.replace_by(path, NOTES, OVERWRITE)
        assert former is not None
        store = mine.copy_at(former)
        there |= {*await bodies(store)}
        await store.aclose()
        former.unlink()
    done.set()
    await writing
    assert {*acknowledged} <= there | {*await bodies(mine)}
    await mine.aclose()
    await other.aclose()


async def test_many_callers_at_once(entries: Entries) -> None:
    async def add(number: int) -> None:
        await commit(entries, entry(f"number {number}"))
        assert f"number {number}" in await found(entries, f"number {number}", limit=200)

    await asyncio.gather(*(add(number) for number in range(100)))
    assert (await figures(entries, NOTES)).count == 100


WORDS = ["披萨", "数据库", "error", "C++", "猫", "cafe", "🎂"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
STEP = st.one_of(
    st.tuples(st.just("add"), TEXTS, st.integers(0, 3)),
    st.tuples(st.just("edit"), TEXTS, st.integers(0, 9)),
    st.tuples(st.sampled_from(["archive", "live", "purge", "touch"]), st.just(""), st.integers(0, 9)),
    st.tuples(st.just("undo"), st.just(""), st.integers(0, 3)),
)


def known(entries: Sequence[Entry]) -> dict[int, Entry]:
    """Entries as they are compared: versions only rise, and uses are not changes."""
    return {each.id: replace(each, version=0, uses=0, accessed_ms=None) for each in entries}


async def everything(store: Entries) -> dict[int, Entry]:
    return known((await page(store, NOTES, Filter(archived=None)))[0])


@pytest.mark.parametrize("kind", ["memory", "file", "postgres", "markdown"])
@given(steps=st.lists(STEP, min_size=1, max_size=12))
def test_every_sequence_leaves_entries_index_and_history_consistent(
    kind: str, steps: list[tuple[str, str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            folder = tmp_path_factory.mktemp("entries")
            await steps_in(await stack.enter_async_context(opened_place(kind, folder)), folder)

    async def steps_in(store: Any, folder: Path) -> None:
        files = store if kind == "markdown" else None
        history = store if files is None else None
        states: dict[int, tuple[dict[int, Entry], dict[int, Entry]]] = {}
        for do, text, number in steps:
            before = await everything(store)
            ids = sorted(before)
            chosen = await get(store, NOTES, id=ids[number % len(ids)]) if ids else None
            changes: list[Change] = []
            if do == "add":
                changes = [entry(text, key=str(number), title=text if files is None else str(number))]
            elif do == "undo" and states and history is not None:
                seq = sorted(states)[-1 - number % len(states)]
                try:
                    await undo(history, seq)
                except InvalidInput:
                    assert await everything(store) == before
                else:
                    was, became = states[seq]
                    after = await everything(store)
                    for each in {**was, **became}:
                        if was.get(each) == became.get(each) or each not in after:
                            continue
                        gone = archived(became[each], "undone", NOW) if each not in was else was[each]
                        assert after[each] == gone
            elif chosen is not None and do == "touch":
                await (history.count_use([chosen.id], NOW) if history is not None else store.examine())
            elif chosen is not None:
                changes = (
                    [
                        {
                            "edit": replace(chosen, body=text, title=text if files is None else chosen.title),
                            "archive": archived(chosen, "deleted", NOW),
                            "live": live(chosen),
                            "purge": Purge(chosen.id),
                        }[do]
                    ]
                    if do != "undo"
                    else []
                )
            if changes:
                try:
                    done = await commit(store, *changes)
                except InvalidInput:
                    assert await everything(store) == before
                else:
                    if done.seq is not None:
                        states[done.seq] = (before, await everything(store))
            now = await everything(store)
            for word in WORDS:
                expected = sorted(e.body for e in now.values() if e.archived_ms is None and word in e.body)
                assert sorted(await found(store, word, limit=99)) == expected
        if history is not None:
            await history.rebuild()
        if files is not None:
            # Another process sees the same, and no other file is there.
            other = opened_folder(folder)
            texts = [
                sorted((e.key, e.body, e.archived_ms or 0) for e in (await everything(s)).values())
                for s in (files, other)
            ]
            assert texts[0] == texts[1]
            assert len(texts[0]) == sum(path.is_file() for path in (folder / "data").rglob("*"))
            await other.aclose()
        for word in WORDS:
            expected = sorted(e.body for e in now.values() if e.archived_ms is None and word in e.body)
            assert sorted(await found(store, word, limit=99)) == expected
        assert [finding.grade for finding in await store.examine()] in ([], ["ok"])

    asyncio.run(run())
