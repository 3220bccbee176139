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

from memory_server.app import open_memory
from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.kernel.errors import LockTimeout, StorageError
from memory_server.kernel.items import Sought
from memory_server.kernel.messages import Message
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.entry import EVERYTHING, Entry, Filter, Operation, Query, archived
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.memories import forgetting
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

pytestmark = pytest.mark.anyio
NOTES, ALICE = Scope("notes"), Scope("sessions", "alice")
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
    with entries_of_its_own() as made:
        yield made


@pytest.fixture
async def beside() -> AsyncIterator[SqliteStore]:
    made = SqliteStore(None, lambda: NOW)
    yield made
    await made.aclose()


async def commit(store: Any, changes: Sequence[Any], scope: Scope = NOTES) -> Any:
    return await store.commit(scope, lambda held: (changes, None), FILL)


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


def told(found: Any) -> Any:
    """Hits as they are compared: relevance is the quotient of two sums of logarithms."""
    hits = [
        (hit.entry.id, round(hit.relevance, 9), hit.matched, hit.other_matched, hit.by_other_words)
        for hit in found.hits
    ]
    return hits, found.total, dict(found.left_off)


@pytest.mark.parametrize("seed", range(3))
async def test_it_finds_what_sqlite_finds_in_the_same_order(store: Any, beside: SqliteStore, seed: int) -> None:
    rng = random.Random(seed)
    made = random_entries(rng, 150)
    gone = [archived(replace(each, id=number, version=1), "deleted", NOW) for number, each in enumerate(made[:20], 1)]
    for each in (store, beside):
        await commit(each, made)
        await commit(each, gone)
        await commit(each, random_entries(random.Random(seed + 100), 0) or [Entry("alice likes 披萨", ref="a")], ALICE)
    for _ in range(60):
        text = " ".join(rng.choice([*WORDS, "错误", "eat", "的", "c"]) for _ in range(rng.randint(1, 5)))
        where = Filter(
            kinds=rng.choice(((), ("tech",))),
            projects=rng.choice((None, ("", "shop"))),
            tags=rng.choice(((), ("ERROR", "张伟"))),
            unexpired_at_ms=rng.choice((None, NOW)),
            untitled=rng.random() < 0.2,
        )
        query = Query(
            text,
            where,
            limit=rng.choice((3, 200)),
            least_share=rng.choice((0.0, 0.3)),
            other_words=tuple(rng.sample(WORDS, rng.randint(0, 3))),
        )
        mine, theirs = [await search(each, NOTES, query) for each in (store, beside)]
        assert told(mine) == told(theirs), query

        def look(held: Any, query: Query = query) -> Any:
            return sorted(held.shares(query)), held.alike(query.text, query.where, 5)

        assert await store.read(NOTES, look) == await beside.read(NOTES, look), query
        written = Query("-> ERR", where)
        assert told(await search(store, NOTES, written)) == told(await search(beside, NOTES, written))


async def test_notes_of_every_language_come_in_the_same_order(store: Any, beside: SqliteStore) -> None:
    made = mixed_notes(300)
    for each in (store, beside):
        await commit(each, made)
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
        assert told(await search(store, NOTES, query)) == told(await search(beside, NOTES, query)), text


async def test_vectors_are_compared_alike(store: Any, beside: SqliteStore) -> None:
    np = pytest.importorskip("numpy")
    vectors = {}
    for each in (store, beside):
        each.embeds = "m"
        await commit(each, [Entry(f"fact {number}", ref=f"r{number}") for number in range(20)], ALICE)
    for number in range(15):
        made = np.random.default_rng(number).normal(size=8).astype("float32")
        vectors[(ALICE, f"fact {number}")] = (made / np.linalg.norm(made)).tobytes()
    sought = next(iter(vectors.values()))
    found = []
    for each in (store, beside):
        await each.keep_vectors(vectors)
        await each.keep_vectors(vectors)
        found.append(await each.read(ALICE, lambda held: held.nearest(sought, EVERYTHING)))
        assert await each.vectors(ALICE, ["fact 3", "unknown"]) == {"fact 3": vectors[ALICE, "fact 3"]}
        assert len(await each.without_vector(3)) == 3
        assert await each.read(ALICE, lambda held: held.vectors(EVERYTHING)) == 15
    (of_one, among), (of_other, _) = found
    assert [each for each, _ in of_one] == [each for each, _ in of_other]
    # How floats are added up depends on where they lie in memory.
    assert dict(of_one) == pytest.approx(dict(of_other), abs=1e-5)
    assert among == found[1][1] == 5


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
    held = await get(store, NOTES, id=stored.id)
    assert held == stored
    [edited] = (await commit(store, [replace(stored, body="other")])).entries
    [former] = await store.read(NOTES, lambda view: view.former_texts([edited.id]))
    assert former == odd.body


async def test_a_long_text_is_found_though_its_terms_do_not_fit_into_one_vector(store: Any) -> None:
    rng = random.Random(1)
    text = "".join(chr(rng.randint(0x4E00, 0x9FFF)) for _ in range(120_000))
    await commit(store, [Entry(text), Entry("short")])
    for start in (0, 60_000, 119_990):
        [hit] = (await search(store, NOTES, Query(text[start : start + 6]))).hits
        assert hit.entry.body == text
    await commit(store, [replace(hit.entry, body="now short")])
    assert (await search(store, NOTES, Query(text[:6]))).hits == ()
    assert (await figures(store, NOTES)).count == 2


async def test_a_tenant_never_sees_another(store: Any) -> None:
    with entries_of_its_own() as other, entries_of_its_own(tenant=store.tenant) as again:
        for each in (store, other):
            done = await commit(each, [Entry(f"披萨 of {each.tenant}", ref="same", key="k")])
            assert (done.entry.id, done.change_id) == (1, "k1")
            await each.mark_used("/p", ["a"], NOW)
        for each, whose in ((store, store), (other, other), (again, store)):
            assert [hit.entry.body for hit in (await search(each, NOTES, Query("披萨"))).hits] == [
                f"披萨 of {whose.tenant}"
            ]
            assert [done.seq for _, done in await each.operations()] == [1]
            assert await each.uses("/p") == {"a": (NOW, 1)}
        await commit(other, [Entry("more")])
        await store.rebuild()
        await store.tidy(texts_before_ms=NOW + 1, operations_before_ms=NOW + 1)
        assert (await figures(other, NOTES)).count == 2
        assert len(await other.operations()) == 2


def write_many(tenant: str, name: str, count: int, told: Path) -> None:
    """A node: notes, refs and facts, from several callers at once; what is acknowledged is a line of `told`."""

    async def run() -> None:
        with entries_of_its_own(tenant=tenant) as mine, told.open("a", buffering=1) as lines:
            scopes = [NOTES, Scope("refs", "short-term"), ALICE, Scope("sessions", "bob")]

            async def one(number: int) -> None:
                [stored] = (await commit(mine, [Entry(f"{name} {number}")], scopes[number % 4])).entries
                lines.write(f"{name} {number}\n")
                await mine.count_use([stored.id], NOW)

            for start in range(0, count, 8):
                await asyncio.gather(*map(one, range(start, start + 8)))

    asyncio.run(run())
    database().close()


@pytest.mark.parametrize("killed", [False, True])
async def test_two_nodes_that_write_at_once_lose_nothing_and_store_nothing_twice(
    store: Any, tmp_path: Path, killed: bool
) -> None:
    count, files = 40, [tmp_path / name for name in ("left", "right")]
    context = multiprocessing.get_context("spawn")
    nodes = [context.Process(target=write_many, args=(store.tenant, each.name, count, each)) for each in files]
    for node in nodes:
        node.start()
    if killed:
        while not files[0].exists() or files[0].read_text().count("\n") < 10:  # noqa: ASYNC110 (it is in a process)
            await asyncio.sleep(0.01)
        nodes[0].kill()
    for node in nodes:
        await asyncio.to_thread(node.join)
    assert nodes[1].exitcode == 0
    told = [line for each in files for line in each.read_text().splitlines()]
    assert len(told) == 2 * count or (killed and 10 + count <= len(told))
    scopes = await store.scopes()
    held = [each for scope in scopes for each in await store.read(scope, lambda view: view.entries(EVERYTHING))]
    bodies = [each.body for each in held]
    assert set(told) <= set(bodies)
    assert len(bodies) == len(set(bodies)) <= len(told) + 8 * killed
    assert sorted(each.id for each in held) == list(range(1, len(held) + 1)), "no number twice, and no gap"
    assert killed or {each.uses for each in held} == {1}
    assert sorted(done.seq for _, done in await store.operations(limit=999)) == list(range(1, len(held) + 1))


async def test_a_connection_that_is_lost_in_the_commit_leaves_neither_nothing_nor_two(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memory_server.storage.postgres.entry_rows import OwnRows

    await commit(store, [Entry("first")])
    finish, lost = OwnRows.finish, []

    def losing(rows: Any) -> None:
        finish(rows)
        if len(lost) < 2:
            lost.append(rows)
            if len(lost) == 1:  # committed, and not told
                rows._connection.execute("commit")
            rows._connection.close()

    monkeypatch.setattr(OwnRows, "finish", losing)
    done = [await commit(store, [Entry(text)]) for text in ("second", "third")]
    assert len(lost) == 2
    assert [each.seq for each in done] == [2, 3]
    held = await store.read(NOTES, lambda view: view.entries(EVERYTHING, order="oldest"))
    assert sorted(each.body for each in held) == ["first", "second", "third"]


async def test_while_another_node_writes_a_search_answers_and_a_writer_says_that_it_waited_too_long(store: Any) -> None:
    await commit(store, [Entry("披萨")])
    with database().connect() as other:
        held = "select 1 from memory_server.all_stores where tenant = %s for update"
        other.execute("begin")
        assert other.execute(held, [store.tenant]).fetchall() == [(1,)]
        with pytest.raises(LockTimeout, match="Another node"):
            await store._write(lambda rows: None, 0.3)
        assert [hit.entry.body for hit in (await search(store, NOTES, Query("披萨"))).hits] == ["披萨"]
        other.execute("rollback")
    await commit(store, [Entry("later")])
    assert (await figures(store, NOTES)).count == 2


@pytest.mark.parametrize("whence", ["sqlite", "postgres"])
async def test_a_copy_in_the_other_database_is_equal_and_goes_on(store: Any, tmp_path: Path, whence: str) -> None:
    file = SqliteStore(tmp_path / "k.sqlite3", lambda: NOW)
    one, other = (file, store) if whence == "sqlite" else (store, file)
    made = await commit(one, random_entries(random.Random(5), 40))
    await commit(one, [archived(made.entries[3], "deleted", NOW)])
    edit = await commit(one, [replace(made.entries[0], body="edited")])
    await commit(one, [Entry("of alice")], ALICE)
    await one.mark_used("/p", ["a"], NOW)
    await one.copy_to(tmp_path / "copy.sqlite3")
    assert await other.adopt(tmp_path / "copy.sqlite3")
    for scope in (NOTES, ALICE):
        pages = [await each.read(scope, lambda view: view.entries(EVERYTHING, order="oldest")) for each in (one, other)]
        assert pages[0] == pages[1]
        assert await one.operations(scope) == await other.operations(scope)
    assert await other.uses("/p") == {"a": (NOW, 1)}
    from memory_server.knowledge.policies import taking_back

    undo = Operation("undo", "test")
    back = [
        await each.commit(NOTES, lambda held: (taking_back(held, edit.seq, NOW), None), undo) for each in (one, other)
    ]
    assert back[0] == back[1]
    assert not await other.adopt(tmp_path / "copy.sqlite3"), "something is there already"
    await file.aclose()


@pytest.mark.parametrize("name", ["x) values (1); --", "x /* /* */", 'a"b', "X", "é"])
async def test_names_in_a_copy_of_somebody_else_become_no_statement(store: Any, tmp_path: Path, name: str) -> None:
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
            notes, engines = app.knowledge.notes, app.memories.engines
            told = await notes.remember("tech", f"about {marker}", f"The number of {marker} is 4711", tags=[marker])
            await notes.edit(told.entry.ref, append=f"more about {marker}")
            await notes.remember("tech", "pet", "The cat is called Miso.")
            await app.knowledge.sessions.add(SessionIds("alice"), f"{marker} likes tea", mode="direct")
            await app.conversation().short_term.add([Message("user", f"I met {marker} yesterday")])
            await notes.reindex()  # a copy of all of it is set aside
            await call(
                TOOLS["recall_turn"], app.call, {"messages": [{"role": "user", "content": f"Where is {marker}?"}]}
            )
            await asyncio.to_thread(app.recalls.write)
            await notes.recall(marker)
            items, words = await forgetting.find(engines, [marker], Sought(archived=None))
            erasure = await forgetting.erasure_of(engines, items, words)
            before = {each.name for each in await asyncio.to_thread(app.home.holding, erasure)}
            assert before >= {f"memory_server.all_{name}" for name in ("entries", "changes", "copies")}
            assert "memory_server.commits" in before
            analyze()  # what the planner knows of the values
            await forgetting.erase(engines, erasure, app.home.erased, app.home.recalls)
            await asyncio.to_thread(app.home.erased.end)
            assert app.home.holding(erasure) == []
            assert everywhere(marker) == []
            assert app.home.erased.holds([f"The number of {marker} is 4711\nmore about {marker}"])
            # Another node knows it too, and finds the rest.
            async with open_memory(tmp_path / "other", settings=Settings(seed=1, store=url)) as other:
                assert other.home.erased.holds([told.entry.body])
                assert [hit.entry.body for hit in (await other.knowledge.notes.recall("cat")).hits] == [
                    "The cat is called Miso."
                ]


async def test_the_copy_of_a_folder_and_back_has_entries_recalls_and_what_was_erased(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], elsewhere: None
) -> None:
    def run(source: str, target: str, *more: str) -> tuple[int, str]:
        return main(["copy", "--from", source, "--to", target, *more]), "".join(capsys.readouterr())

    here, back = str(tmp_path / "here"), str(tmp_path / "back")
    with url_of_its_own() as there:
        async with open_memory(here) as app:
            note = await app.knowledge.notes.remember("tech", "pool", "at most 20")
            edit = await app.knowledge.notes.edit(note.entry.ref, append="or 30")
            await app.knowledge.refs.add("A long log of a build")
            await app.conversation().short_term.add([Message("user", "The password is Xyzzy-4711")])
            items, words = await forgetting.find(app.memories.engines, ["Xyzzy-4711"], Sought())
            erasure = await forgetting.erasure_of(app.memories.engines, items, words)
            await forgetting.erase(app.memories.engines, erasure, app.home.erased, app.home.recalls)
            app.home.erased.end()
            app.home.recalls.append({"id": "1", "at": "2026-06-20T08:00:00.000Z", "conversation": "c", "said": "吃?"})
        status, said = await asyncio.to_thread(run, here, there, "--dry-run")
        assert (status, "knowledge would be copied: 2 entries" in said) == (0, True), said
        for source, target in ((here, there), (there, back)):
            status, said = await asyncio.to_thread(run, source, target)
            assert (status, "knowledge copied: 2 entries" in said) == (0, True), said
            status, said = await asyncio.to_thread(run, source, target)
            assert (status, "knowledge is already there" in said) == (0, True), said
        for given in (Settings(store=there, data_dir=tmp_path / "x"), Settings(data_dir=Path(back))):
            async with open_memory(settings=given) as app:
                assert app.home.erased.holds(erasure.texts)
                assert [line["said"] for line in app.home.recalls.lines()] == ["吃?"]
                assert (await app.knowledge.lifecycle.undo(edit.change_id or "")).steps
                assert [hit.entry.body for hit in (await app.knowledge.notes.recall("pool")).hits] == ["at most 20"]
        status, said = await asyncio.to_thread(run, here, there)
        assert (status, "it differs; nothing is merged" in said) == (1, True), said


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
