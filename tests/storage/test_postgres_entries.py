"""What knowledge in PostgreSQL promises beside the contract of every store: it finds what SQLite finds, and tenants and
nodes do not disturb each other."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from entries_held import figures, get, search
from knowledge.mixed_notes import mixed_notes
from postgres_entries import NOW, analyze, database, entries_of_its_own, everywhere, url_of_its_own

from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.kernel.errors import LockTimeout, StorageError
from memory_server.kernel.items import ItemFilter, Scope
from memory_server.kernel.messages import Message
from memory_server.knowledge.entry import EVERYTHING, Entry, Filter, Operation, Query, archived
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.memories import forgetting
from memory_server.runtime.app import open_memory
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

pytestmark = pytest.mark.anyio
NOTES = Scope("notes")
ALICE = Scope("sessions", "alice")
FILL = Operation("fill", "test")
WORDS = [
    "披萨",
    "数据库",
    "连接池",
    "error",
    "errors",
    "C++",
    "猫",
    "猫咪",
    "cafe",
    "🎂",
    "configuration",
    "con",
    "張偉",
]


@pytest.fixture
async def store() -> AsyncIterator[Any]:
    with entries_of_its_own() as entries:
        yield entries


@pytest.fixture
async def beside() -> AsyncIterator[SqliteStore]:
    sqlite_store = SqliteStore(None, lambda: NOW)
    yield sqlite_store
    await sqlite_store.aclose()


async def commit(store: Any, changes: Sequence[Any], scope: Scope = NOTES) -> Any:
    return await store.commit(scope, lambda view: (changes, None), FILL)


def random_entries(rng: random.Random, count: int) -> list[Entry]:
    def text(most: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))

    return [
        Entry(
            text(rng.choice((3, 12, 400))),
            ref=f"r{number}",
            kind=rng.choice(("tech", "domain")),
            project=rng.choice(("", "shop", "bank")),
            title=text(2),
            tags=tuple({text(1) for _ in range(rng.randint(0, 2))}),
            examples=tuple(text(3) for _ in range(rng.randint(0, 1))),
            created_ms=NOW + rng.randint(0, 5),
            updated_ms=NOW + rng.randint(0, 5),
            expires_ms=rng.choice((None, NOW, NOW + 9)),
        )
        for number in range(count)
    ]


def comparable(matches: Any) -> Any:
    """Hits as they are compared: relevance is the quotient of two sums of logarithms."""
    hits = [
        (hit.entry.id, round(hit.relevance, 9), hit.matched, hit.other_matched, hit.by_other_words)
        for hit in matches.hits
    ]
    return hits, matches.total, dict(matches.left_off)


@pytest.mark.parametrize(
    ("seed", "queries"),
    [(0, 25), *(pytest.param(seed, 60, marks=pytest.mark.full) for seed in range(4))],
)
async def test_it_finds_what_sqlite_finds_in_the_same_order(
    store: Any, beside: SqliteStore, seed: int, queries: int
) -> None:
    rng = random.Random(seed)
    entries = random_entries(rng, 150)
    removed = [
        archived(replace(stored, id=number, version=1), "deleted", NOW)
        for number, stored in enumerate(entries[:20], 1)
    ]
    for entry_store in (store, beside):
        await commit(entry_store, entries)
        await commit(entry_store, removed)
        await commit(
            entry_store,
            random_entries(random.Random(seed + 100), 0) or [Entry("alice likes 披萨", ref="a")],
            ALICE,
        )
    for _ in range(queries):
        text = " ".join(
            rng.choice([*WORDS, "错误", "eat", "的", "c"]) for _ in range(rng.randint(1, 5))
        )
        where = Filter(
            kinds=rng.choice(((), ("tech",))),
            projects=rng.choice((None, ("", "shop"))),
            tags=rng.choice(((), ("ERROR", "张伟"))),
            unexpired_at_ms=rng.choice((None, NOW)),
        )
        query = Query(
            text,
            where,
            limit=rng.choice((3, 200)),
            least_share=rng.choice((0.0, 0.3)),
            other_words=tuple(rng.sample(WORDS, rng.randint(0, 3))),
        )
        assert comparable(await search(store, NOTES, query)) == comparable(
            await search(beside, NOTES, query)
        ), query

        def look(view: Any, query: Query = query) -> Any:
            return sorted(view.shares(query)), view.alike(query.text, query.where, 5)

        assert await store.read(NOTES, look) == await beside.read(NOTES, look), query
        written = Query("-> ERR", where)
        assert comparable(await search(store, NOTES, written)) == comparable(
            await search(beside, NOTES, written)
        )


async def test_notes_of_every_language_come_in_the_same_order(
    store: Any, beside: SqliteStore
) -> None:
    notes = mixed_notes(300)
    for entry_store in (store, beside):
        await commit(entry_store, notes)
    for text in (
        "披萨",
        "非同期",
        "连接池",
        "ＧＰＴ４",
        "C++",
        "猫",
        "생일",
        "async await",
        "how do we configure the pool?",
    ):
        query = Query(text, limit=300)
        assert comparable(await search(store, NOTES, query)) == comparable(
            await search(beside, NOTES, query)
        ), text


async def test_vectors_are_compared_alike(store: Any, beside: SqliteStore) -> None:
    np = pytest.importorskip("numpy")
    vectors = {}
    for entry_store in (store, beside):
        entry_store.embeds = "m"
        await commit(
            entry_store, [Entry(f"fact {number}", ref=f"r{number}") for number in range(20)], ALICE
        )
    for number in range(15):
        direction = np.random.default_rng(number).normal(size=8).astype("float32")
        vectors[(ALICE, f"fact {number}")] = (direction / np.linalg.norm(direction)).tobytes()
    sought = next(iter(vectors.values()))
    results = []
    for entry_store in (store, beside):
        await entry_store.keep_vectors(vectors)
        await entry_store.keep_vectors(vectors)
        results.append(await entry_store.read(ALICE, lambda view: view.nearest(sought, EVERYTHING)))
        assert await entry_store.vectors(ALICE, ["fact 3", "unknown"]) == {
            "fact 3": vectors[ALICE, "fact 3"]
        }
        assert len(await entry_store.without_vector(3)) == 3
        assert await entry_store.read(ALICE, lambda view: view.vectors(EVERYTHING)) == 15
    (of_postgres, count), (of_sqlite, count_of_sqlite) = results
    assert list(dict(of_postgres)) == list(dict(of_sqlite))
    # How floats are added up depends on where they lie in memory.
    assert dict(of_postgres) == pytest.approx(dict(of_sqlite), abs=1e-5)
    assert count == count_of_sqlite == 5


async def test_what_the_texts_hold_comes_back_as_it_was(store: Any) -> None:
    odd = Entry(
        "nul \0 and \ufdd0 and \ufdd00 \u2028 'quoted' \\ %s ? :name",
        title="t\0",
        tags=("a\0b", "%"),
        metadata={"x": "\0", "y": -0.0, "z": 1e-7},
        source="\ufdd01",
        key="k\0",
        examples=("?", "\0"),
    )
    [stored] = (await commit(store, [odd])).entries
    read_back = await get(store, NOTES, id=stored.id)
    assert read_back == stored
    [edited] = (await commit(store, [replace(stored, body="other")])).entries
    [former] = await store.read(NOTES, lambda view: view.former_texts([edited.id]))
    assert former == odd.body


async def test_a_long_text_is_found_though_its_terms_do_not_fit_into_one_vector(store: Any) -> None:
    rng = random.Random(1)
    text = "".join(chr(rng.randint(0x4E00, 0x9FFF)) for _ in range(70_000))
    await commit(store, [Entry(text), Entry("short")])
    for start in (0, 35_000, 69_990):
        [hit] = (await search(store, NOTES, Query(text[start : start + 6]))).hits
        assert hit.entry.body == text
    await commit(store, [replace(hit.entry, body="now short")])
    assert (await search(store, NOTES, Query(text[:6]))).hits == ()
    assert (await figures(store, NOTES)).count == 2


async def test_a_tenant_never_sees_another(store: Any) -> None:
    with (
        entries_of_its_own() as store_of_other,
        entries_of_its_own(tenant=store.tenant) as same_tenant,
    ):
        for entry_store in (store, store_of_other):
            receipt = await commit(
                entry_store, [Entry(f"披萨 of {entry_store.tenant}", ref="same", key="k")]
            )
            assert receipt.entry.id == 1
            assert receipt.change_id == "k1"
            await entry_store.mark_used("/p", ["a"], NOW)
        for entry_store, owner in (
            (store, store),
            (store_of_other, store_of_other),
            (same_tenant, store),
        ):
            assert [
                hit.entry.body for hit in (await search(entry_store, NOTES, Query("披萨"))).hits
            ] == [f"披萨 of {owner.tenant}"]
            assert [receipt.seq for _, receipt in await entry_store.operations()] == [1]
            assert await entry_store.uses("/p") == {"a": (NOW, 1)}
        await commit(store_of_other, [Entry("more")])
        await store.rebuild()
        await store.tidy(texts_before_ms=NOW + 1, operations_before_ms=NOW + 1)
        assert (await figures(store_of_other, NOTES)).count == 2
        assert len(await store_of_other.operations()) == 2


def write_many(tenant: str, name: str, count: int, comparable: Path) -> None:
    """A node: notes, refs and facts, from several callers at once; what is acknowledged is a line of `acknowledged`."""

    async def run() -> None:
        with (
            entries_of_its_own(tenant=tenant) as entry_store,
            comparable.open("a", buffering=1) as lines,
        ):
            scopes = [NOTES, Scope("refs", "short-term"), ALICE, Scope("sessions", "bob")]

            async def write_one(number: int) -> None:
                [stored] = (
                    await commit(entry_store, [Entry(f"{name} {number}")], scopes[number % 4])
                ).entries
                lines.write(f"{name} {number}\n")
                await entry_store.count_use([stored.id], NOW)

            for start in range(0, count, 8):
                await asyncio.gather(*map(write_one, range(start, start + 8)))

    asyncio.run(run())
    database().close()


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.full), True])
async def test_two_nodes_that_write_at_once_lose_nothing_and_store_nothing_twice(
    store: Any, tmp_path: Path, killed: bool
) -> None:
    count = 16
    files = [tmp_path / name for name in ("left", "right")]
    context = multiprocessing.get_context("spawn")
    nodes = [
        context.Process(target=write_many, args=(store.tenant, file.name, count, file))
        for file in files
    ]
    for node in nodes:
        node.start()
    if killed:
        while not files[0].exists() or files[0].read_text().count("\n") < 10:  # noqa: ASYNC110 (it is in a process)
            await asyncio.sleep(0.01)
        nodes[0].kill()
    for node in nodes:
        await asyncio.to_thread(node.join)
    assert nodes[1].exitcode == 0
    acknowledged = [*files[0].read_text().splitlines(), *files[1].read_text().splitlines()]
    assert len(acknowledged) == 2 * count or (killed and 10 + count <= len(acknowledged))
    entries: list[Entry] = []
    for scope in await store.scopes():
        entries += await store.read(scope, lambda view: view.entries(EVERYTHING))
    bodies = [entry.body for entry in entries]
    assert set(acknowledged) <= set(bodies)
    assert len(bodies) == len(set(bodies)) <= len(acknowledged) + 8 * killed
    assert sorted(entry.id for entry in entries) == list(range(1, len(entries) + 1)), (
        "no number twice, and no gap"
    )
    assert killed or {entry.uses for entry in entries} == {1}
    assert sorted(operation.seq for _, operation in await store.operations(limit=999)) == list(
        range(1, len(entries) + 1)
    )


async def test_a_connection_that_is_lost_in_the_commit_leaves_neither_nothing_nor_two(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memory_server.storage.postgres.entry_rows import OwnRows

    await commit(store, [Entry("first")])
    finish = OwnRows.finish
    lost = []

    def losing(rows: Any) -> None:
        finish(rows)
        if len(lost) < 2:
            lost.append(rows)
            if len(lost) == 1:  # committed, and not told
                rows._connection.execute("commit")
            rows._connection.close()

    monkeypatch.setattr(OwnRows, "finish", losing)
    receipts = [await commit(store, [Entry(text)]) for text in ("second", "third")]
    assert len(lost) == 2
    assert [receipt.seq for receipt in receipts] == [2, 3]
    entries = await store.read(NOTES, lambda view: view.entries(EVERYTHING, order="oldest"))
    assert sorted(entry.body for entry in entries) == ["first", "second", "third"]


async def test_while_another_node_writes_a_search_answers_and_a_writer_says_that_it_waited_too_long(
    store: Any,
) -> None:
    await commit(store, [Entry("披萨")])
    with database().connect() as connection:
        locking = "select 1 from memory_server.all_stores where tenant = %s for update"
        connection.execute("begin")
        assert connection.execute(locking, [store.tenant]).fetchall() == [(1,)]
        with pytest.raises(LockTimeout, match="Another node"):
            await store._write(lambda rows: None, 0.3)
        assert [hit.entry.body for hit in (await search(store, NOTES, Query("披萨"))).hits] == [
            "披萨"
        ]
        connection.execute("rollback")
    await commit(store, [Entry("later")])
    assert (await figures(store, NOTES)).count == 2


@pytest.mark.parametrize("origin", ["sqlite", "postgres"])
async def test_a_copy_in_the_other_database_is_equal_and_goes_on(
    store: Any, tmp_path: Path, origin: str
) -> None:
    file = SqliteStore(tmp_path / "k.sqlite3", lambda: NOW)
    source: Any = file
    target: Any = store
    if origin == "postgres":
        source, target = target, source
    receipt = await commit(source, random_entries(random.Random(5), 40))
    await commit(source, [archived(receipt.entries[3], "deleted", NOW)])
    edit = await commit(source, [replace(receipt.entries[0], body="edited")])
    await commit(source, [Entry("of alice")], ALICE)
    await source.mark_used("/p", ["a"], NOW)
    await source.copy_to(tmp_path / "copy.sqlite3")
    assert await target.adopt(tmp_path / "copy.sqlite3")
    for scope in (NOTES, ALICE):
        pages = [
            await entry_store.read(scope, lambda view: view.entries(EVERYTHING, order="oldest"))
            for entry_store in (source, target)
        ]
        assert pages[0] == pages[1]
        assert await source.operations(scope) == await target.operations(scope)
    assert await target.uses("/p") == {"a": (NOW, 1)}
    from memory_server.knowledge.policies import taking_back

    undo = Operation("undo", "test")
    undoings = [
        await entry_store.commit(NOTES, lambda view: (taking_back(view, edit.seq, NOW), None), undo)
        for entry_store in (source, target)
    ]
    assert undoings[0] == undoings[1]
    assert not await target.adopt(tmp_path / "copy.sqlite3"), "something is there already"
    await file.aclose()


@pytest.mark.parametrize("name", ["x) values (1); --", "x /* /* */", 'a"b', "X", "é"])
async def test_names_in_a_copy_of_somebody_else_become_no_statement(
    store: Any, tmp_path: Path, name: str
) -> None:
    file = SqliteStore(tmp_path / "k.sqlite3", lambda: NOW)
    await commit(file, [Entry("hostile")])
    await file.copy_to(path := tmp_path / "copy.sqlite3")
    await file.aclose()
    with closing(sqlite3.connect(path)) as copy:
        copy.execute('ALTER TABLE entries ADD COLUMN "{}"'.format(name.replace('"', '""')))
        copy.commit()
    with pytest.raises(StorageError, match="column"):
        await store.adopt(path)
    assert (await figures(store, NOTES)).count == 0


async def test_the_search_for_what_is_erased_names_the_tables_and_after_it_no_table_of_the_database_holds_it(
    tmp_path: Path, elsewhere: None
) -> None:
    marker = f"Zq{random.randrange(10**6):06}xw"
    with url_of_its_own() as url:
        async with open_memory(tmp_path, settings=Settings(seed=1, store=url)) as app:
            notes = app.knowledge.notes
            engines = app.memories.engines
            receipt = await notes.remember(
                "tech", f"about {marker}", f"The number of {marker} is 4711", tags=[marker]
            )
            await notes.edit(receipt.entry.ref, append=f"more about {marker}")
            await notes.remember("tech", "pet", "The cat is called Miso.")
            await app.knowledge.sessions.add(
                SessionIds("alice"), f"{marker} likes tea", mode="direct"
            )
            await app.conversation().short_term.add([Message("user", f"I met {marker} yesterday")])
            await notes.reindex()  # a copy of all of it is set aside
            await call(
                TOOLS["recall_turn"],
                app.call,
                {"messages": [{"role": "user", "content": f"Where is {marker}?"}]},
            )
            await asyncio.to_thread(app.recalls.write)
            await notes.recall(marker)
            items, words = await forgetting.find(engines, [marker], ItemFilter(archived=None))
            erasure = await forgetting.erasure_of(engines, items, words)
            traces = await asyncio.to_thread(app.home.left, erasure)
            before = {table.name for table in traces.texts}
            assert before >= {
                f"memory_server.all_{name}" for name in ("entries", "changes", "copies")
            }
            assert "memory_server.commits" in before
            analyze()  # what the planner knows of the values
            await forgetting.erase(
                engines, erasure, app.home.erased, app.home.recalls, app.home.questions
            )
            await asyncio.to_thread(app.home.erased.end)
            assert list(app.home.left(erasure).texts) == []
            assert everywhere(marker) == []
            assert app.home.erased.holds([f"The number of {marker} is 4711\nmore about {marker}"])
            # Another node knows it too, and finds the rest.
            async with open_memory(
                tmp_path / "other", settings=Settings(seed=1, store=url)
            ) as other_node:
                assert other_node.home.erased.holds([receipt.entry.body])
                assert [
                    hit.entry.body for hit in (await other_node.knowledge.notes.recall("cat")).hits
                ] == ["The cat is called Miso."]


async def test_the_copy_of_a_folder_and_back_has_entries_recalls_and_what_was_erased(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], elsewhere: None
) -> None:
    def run(source: str, target: str, *more: str) -> tuple[int, str]:
        return main(["copy", "--from", source, "--to", target, *more]), "".join(capsys.readouterr())

    source_home = str(tmp_path / "here")
    target_home = str(tmp_path / "back")
    with url_of_its_own() as database_home:
        async with open_memory(source_home) as app:
            note = await app.knowledge.notes.remember("tech", "pool", "at most 20")
            edit = await app.knowledge.notes.edit(note.entry.ref, append="or 30")
            await app.knowledge.refs.add("A long log of a build")
            await app.conversation().short_term.add([Message("user", "The password is Xyzzy-4711")])
            items, words = await forgetting.find(app.memories.engines, ["Xyzzy-4711"], ItemFilter())
            erasure = await forgetting.erasure_of(app.memories.engines, items, words)
            await forgetting.erase(
                app.memories.engines, erasure, app.home.erased, app.home.recalls, app.home.questions
            )
            app.home.erased.end()
            app.home.recalls.append(
                {"id": "1", "at": "2026-06-20T08:00:00.000Z", "conversation": "c", "said": "吃?"}
            )
        status, output = await asyncio.to_thread(run, source_home, database_home, "--dry-run")
        assert status == 0, output
        assert "knowledge would be copied: 2 entries" in output, output
        for source, target in ((source_home, database_home), (database_home, target_home)):
            status, output = await asyncio.to_thread(run, source, target)
            assert status == 0, output
            assert "knowledge copied: 2 entries" in output, output
            status, output = await asyncio.to_thread(run, source, target)
            assert status == 0, output
            assert "knowledge is already in the other store" in output, output
        for settings in (
            Settings(store=database_home, data_dir=tmp_path / "x"),
            Settings(data_dir=Path(target_home)),
        ):
            async with open_memory(settings=settings) as app:
                assert app.home.erased.holds(erasure.texts)
                assert [line["said"] for line in app.home.recalls.lines()] == ["吃?"]
                assert (await KnowledgeLifecycle(app.knowledge).undo(edit.change_id or "")).steps
                assert [
                    hit.entry.body for hit in (await app.knowledge.notes.recall("pool")).hits
                ] == ["at most 20"]
        status, output = await asyncio.to_thread(run, source_home, database_home)
        assert status == 1, output
        assert "it differs; nothing is merged" in output, output


async def test_of_a_tenant_that_is_erased_no_row_is_left(tmp_path: Path, elsewhere: None) -> None:
    with url_of_its_own() as url:
        tenant = url.partition("#")[2]
        async with open_memory(tmp_path, settings=Settings(seed=1, store=url)) as app:
            await app.knowledge.notes.remember("tech", "pool", "at most 20")
            await app.knowledge.notes.reindex()
            await app.knowledge.store.mark_used("/p", ["a"], NOW)
            await asyncio.to_thread(app.home.recalls.append, {"conversation": "c"})
            assert everywhere(tenant)
            await asyncio.to_thread(app.home.erase_tenant, tenant)
            assert everywhere(tenant) == []
