"""PostgreSQL: records come back equal, changes of several nodes are one fold, and what is set wrongly is said."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres import database_of_its_own, postgres, tenant_of_its_own
from sample_memories import NOW, contents, copy_of, memory, random_changes, trigger

from memory_server.app import open_memory
from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.conversations.changes import Added, Forgotten, TriggerSet, apply
from memory_server.conversations.model import ConversationState
from memory_server.conversations.ports import one_call
from memory_server.kernel.errors import InvalidInput, MemoryPaused, StorageError, StorageUnwritable
from memory_server.kernel.messages import Message
from memory_server.kernel.private import Pause
from memory_server.storage.options import PostgresSettings
from memory_server.storage.postgres import schema
from memory_server.storage.postgres.connection import Database
from memory_server.storage.postgres.conversations import PostgresStore
from memory_server.storage.postgres.ledger import Lease, PauseRow

pytestmark = pytest.mark.anyio

STRANGE = {
    "nul": "a\0b",
    "zero": -0.0,
    "small": 1e-7,
    "line": "\u2028 \u2029",
    "deep": {"b": [1, {"a": None}]},
    "z": 2**70,
}


async def test_strange_records_come_back_equal_from_commits_and_from_snapshots() -> None:
    kept = memory("a\0", words={"披萨": -0.0, "x": 1e-7}, messages=(Message("user", "\0\u2028"),), extra=STRANGE)
    with tenant_of_its_own() as (database, tenant):
        store = PostgresStore(database, tenant, lambda: NOW)
        changes = Added(kept), TriggerSet(trigger("t"), None)
        await store.update("chat", lambda _: (changes, None), by="te\u2028st")
        for compacted in (False, True):
            found = await PostgresStore(database, tenant, lambda: NOW).read("chat")
            assert repr(found.short_term) == repr({"a\0": kept}), compacted
            assert list(found.short_term["a\0"].extra) == list(STRANGE)
            [commit] = await store.history("chat")
            assert (repr(commit.changes), commit.by) == (repr(changes), "te\u2028st")
            await store.compact("chat")
        await store.aclose()


@settings(max_examples=15)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from("wwwwrrcd"), max_size=25))
def test_two_nodes_and_a_third_reader_equal_the_fold(rng: Random, acts: list[str]) -> None:
    async def run() -> None:
        with tenant_of_its_own() as (database, tenant):
            nodes = [PostgresStore(database, tenant, lambda: NOW) for _ in range(3)]
            expected = ConversationState("chat")
            for act in acts:
                node = nodes[rng.randrange(2)]
                if act == "w":
                    changes = random_changes(copy_of(expected), rng, 4)
                    if changes:
                        apply(expected, changes)
                        expected.version += 1
                        await node.update("chat", lambda _, c=changes: (c, None), by="test")  # type: ignore[misc]
                elif act == "c":
                    await node.compact("chat")
                elif act == "d":
                    node._open.clear()
                state = await (nodes[2] if act == "r" else node).read("chat")
                assert (state.version, contents(state)) == (expected.version, contents(expected))
            for node in nodes:
                assert contents(await node.read("chat")) == contents(expected)
                versions = [commit.version for commit in await node.history("chat", limit=99)]
                assert versions == list(range(expected.version, 0, -1))
                await node.aclose()

    asyncio.run(run())


async def test_snapshots_follow_when_commits_outgrow_them() -> None:
    with tenant_of_its_own() as (database, tenant):
        store = PostgresStore(database, tenant, lambda: NOW)
        for number in range(4):
            await store.update(
                "chat",
                lambda _, n=number: ([Added(memory(f"m{n}", text="x" * 30_000))], None),
                by="test",  # type: ignore[misc]
            )
        await store.aclose()
        [[base, pending]] = _rows("select base, pending_bytes from memory_server.partitions where tenant = %s", tenant)
        assert base in (3, 4), "a fold has what is there when it reads"
        assert pending < 40_000
        fresh = PostgresStore(database, tenant, lambda: NOW)
        assert len((await fresh.read("chat")).short_term) == 4


async def test_upkeep_opens_only_what_can_be_forgotten_and_the_past_of_all_ends() -> None:
    with tenant_of_its_own() as (database, tenant):
        now = [NOW]
        store = PostgresStore(database, tenant, lambda: now[0])
        for name in ("small", "large"):
            for number in range(3 if name == "small" else 9):
                await store.update(name, lambda _, n=number: ([Added(memory(f"m{n}"))], None), by="test")  # type: ignore[misc]
            await store.update(name, lambda _: ([Forgotten(memory("m0"), "deleted")], None), by="test")
        assert await store.larger(5) == ["large"]
        now[0] += 91 * 86_400_000
        await store.update("small", lambda _: ([Added(memory("new"))], None), by="test")
        await store.expire(now[0])
        assert [commit.version for commit in await store.history("small")] == [5]
        assert await store.history("large") == ()
        assert len((await PostgresStore(database, tenant, lambda: NOW).read("large")).short_term) == 8
        await store.aclose()


async def test_a_call_asks_once_for_a_conversation_and_what_it_left_behind_asks_anew() -> None:
    with tenant_of_its_own() as (database, tenant):
        one, two = (PostgresStore(database, tenant, lambda: NOW) for _ in range(2))

        async def add(store: PostgresStore, name: str) -> None:
            await store.update("chat", lambda _: ([Added(memory(name))], None), by="test")

        async def known() -> set[str]:
            return set((await one.read("chat")).short_term)

        async def later() -> set[str]:
            await ended.wait()
            return await known()

        ended = asyncio.Event()
        for there in (set(), {"a", "own"}):
            with one_call():
                assert await known() == there
                await add(two, f"b{len(there)}")
                assert await known() == there
                left = asyncio.create_task(later())
            assert await known() == there | {f"b{len(there)}"}
            with one_call():
                await known()
                await add(two, "a")
                await add(one, "own")
                assert await known() >= {"a", "own"}
            ended.set()
            assert await left >= {"a", "own"}
            await two.update(
                "chat",
                lambda state: (
                    [Forgotten(each, "deleted") for name, each in state.short_term.items() if name.startswith("b")],
                    None,
                ),
                by="test",
            )
        await asyncio.gather(one.aclose(), two.aclose())


async def test_one_node_at_a_time_has_the_lease_and_it_ends_by_itself() -> None:
    with tenant_of_its_own() as (database, tenant):
        one, two = Lease(database, tenant), Lease(database, tenant)
        async with one.turn() as first, two.turn() as second:
            assert (first, second) == (True, False)
            with psycopg.connect(postgres(), autocommit=True) as connection:
                connection.execute("update memory_server.upkeep set until = now() where tenant = %s", [tenant])
            async with two.turn() as third:
                assert third
        async with two.turn() as again:
            assert again
        one.note_run(NOW)
        assert two.last_run_ms() == NOW


async def test_a_pause_of_one_node_is_one_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_server.storage.postgres.ledger.PAUSE_SECONDS", -1.0)
    with tenant_of_its_own() as (_, tenant):
        given = Settings(store=f"{postgres()}#{tenant}", data_dir=tmp_path, seed=1)
        async with open_memory(settings=given) as one, open_memory(settings=given) as two:
            one.home.pause.write(Pause())
            with pytest.raises(MemoryPaused):
                await two.conversation("chat").short_term.add([Message("user", "apples grow here")])
            one.home.pause.remove()
            await two.conversation("chat").short_term.add([Message("user", "apples grow here")])
            assert {finding.grade for finding in two.home.examine()} <= {"ok", "note", "warning"}
            with pytest.raises(InvalidInput, match="pg_dump"):
                await two.memories.backups.make("one")
            assert two.home.size() > 0


async def test_a_question_in_the_event_loop_waits_for_no_writer_that_waits_for_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memory_server.storage.postgres.ledger.PAUSE_SECONDS", -1.0)
    with tenant_of_its_own() as (_, tenant):
        database = Database(postgres(), options=PostgresSettings(connections=1))
        store, pause = PostgresStore(database, tenant, lambda: NOW), PauseRow(database, tenant)
        asked: list[Pause | None] = []

        def decide(state: ConversationState) -> tuple[list[Added], None]:
            asked.append(pause.read(NOW))  # in the event loop, while the only connection of writers is in use
            return [Added(memory("a"))], None

        async with asyncio.timeout(20):
            await asyncio.gather(*(store.update(f"c{number}", decide, by="test") for number in range(5)))
        assert asked == [None] * 5
        await store.aclose()
        database.close()


# --- what is set wrongly -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("postgres:/x", "is not a URL of PostgreSQL"),
        ("postgresql://u:se%cret@127.0.0.1/x", "is not a URL of PostgreSQL"),
        ("postgresql://u:sec/secret@127.0.0.1:1/x", "is not a URL of PostgreSQL"),
        ("postgresql://u:12/secret@127.0.0.1:1/x", "is not a URL of PostgreSQL"),
        ("postgresql://u:sec@secret@127.0.0.1:1/x", "is not a URL of PostgreSQL"),
        ("postgresql://u:sec#secret@127.0.0.1:1/x", "is not a URL of PostgreSQL"),
        ("postgresql://u:12#secret@127.0.0.1:1/x", "is not a URL of PostgreSQL"),
        ("postgresql://u:[secret@127.0.0.1:1/x", "cannot be kept at `postgresql://`"),
        ("postgressql://u:secret@127.0.0.1:1/x", "cannot be kept at `postgressql://`"),
        ("postgresql://u:secret@127.0.0.1:1/x", "postgresql://u@127.0.0.1:1/x cannot be reached"),
        ("postgresql://u:secret@/x?host=/nowhere&password=secret", "postgresql://u@/nowhere/x cannot be reached"),
    ],
)
def test_a_wrong_address_is_one_sentence_without_the_password(
    store: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_STORE", store)
    assert main(["--data-dir", str(tmp_path), "--log-level", "DEBUG", "list"]) != 0
    shown = "".join(capsys.readouterr())
    assert said in shown
    assert "secret" not in shown
    assert "Traceback" not in shown


def test_an_unknown_user_or_database_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = postgres().rpartition("/")[0] + "/no_such_database"
    assert main(["--data-dir", str(tmp_path), "copy", "--to", wrong]) != 0
    assert "no_such_database" in capsys.readouterr().err


async def test_a_user_without_rights_is_told_of_migrate() -> None:
    with database_of_its_own() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop role if exists memory_server_reader")
            connection.execute("create role memory_server_reader login")
        database = Database(url.replace("://", "://memory_server_reader@"))
        with pytest.raises(StorageUnwritable, match="memory-server migrate"):
            await database.run(lambda attempt: None)
        database.close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop role memory_server_reader")


async def test_a_newer_schema_is_refused_and_an_older_one_waits_for_migrate() -> None:
    with database_of_its_own() as url:
        waiting = Database(url, options=PostgresSettings(migrate=False))
        with pytest.raises(StorageUnwritable, match="memory-server migrate"):
            await waiting.run(lambda attempt: None)
        assert waiting.migrate(dry_run=True) == list(schema.migrations())
        assert waiting.migrate() == list(schema.migrations())
        assert waiting.migrate() == []
        await waiting.run(lambda attempt: None)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("insert into memory_server.migrations (number) values (9999)")
        newer = Database(url)
        with pytest.raises(StorageUnwritable, match="update this"):
            await newer.run(lambda attempt: None)
        with pytest.raises(StorageError, match="update this"):
            newer.migrate()
        waiting.close(), newer.close()


async def test_two_nodes_that_migrate_at_once_migrate_once() -> None:
    with database_of_its_own() as url:
        nodes = [Database(url) for _ in range(8)]
        await asyncio.gather(*(node.run(lambda attempt: None) for node in nodes))
        with psycopg.connect(url) as connection:
            done = connection.execute("select number from memory_server.migrations order by 1").fetchall()
        assert [number for (number,) in done] == list(schema.migrations())
        for node in nodes:
            node.close()


# --- between stores ----------------------------------------------------------------------------------------


async def test_a_folder_copied_to_the_database_and_back_is_equal_and_changes_can_be_undone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tenant_of_its_own() as (_, tenant):
        async with open_memory(tmp_path / "here") as app:
            for number in range(5):
                await app.conversation("小明").short_term.add([Message("user", f"apples of the {number}. tree")])
            gone = await app.conversation("小明").short_term.delete("3. tree")
            await app.conversation("b").long_term.add("birthday", "Congratulate", "true")
            await app.store.compact("小明")
            await app.conversation("小明").short_term.add([Message("user", "pears grow there")])

        def run(*words: str) -> tuple[int, str]:
            status = main(["copy", *words])
            return status, "".join(capsys.readouterr())

        here, there, back = str(tmp_path / "here"), f"{postgres()}#{tenant}", str(tmp_path / "back")
        assert (await asyncio.to_thread(run, "--from", here, "--to", there, "--dry-run"))[0] == 0
        assert (await asyncio.to_thread(run, "--from", here, "--to", there, "nobody"))[0] == 2
        assert (await asyncio.to_thread(run, "--from", here, "--to", here))[0] == 2
        for source, target in ((here, there), (there, back)):
            status, said = await asyncio.to_thread(run, "--from", source, "--to", target)
            assert (status, said.count("is copied:")) == (0, 2), said
            status, said = await asyncio.to_thread(run, "--from", source, "--to", target)
            assert (status, said.count("is already there.")) == (0, 2), said
        homes = [Settings(data_dir=here), Settings(store=there, data_dir=tmp_path / "x"), Settings(data_dir=back)]
        seen = []
        for given in homes:
            async with open_memory(settings=given) as app:
                chat = app.conversation("小明")
                state = await app.store.read("小明")
                history, archive = await app.store.history("小明"), await app.store.archive("小明")
                seen.append(repr((contents(state), state.version, history, archive)))
                await chat.archive.undo(gone.change_id or "")
                assert len(await chat.short_term.memories()) == 6
        assert seen[0] == seen[1] == seen[2]
        async with open_memory(tmp_path / "here") as app:
            await app.conversation("小明").short_term.add([Message("user", "plums")])
        status, said = await asyncio.to_thread(run, "--from", here, "--to", there)
        assert status == 1
        assert "nothing is merged" in said


def _rows(query: str, *given: object) -> list[tuple[object, ...]]:
    with psycopg.connect(postgres()) as connection:
        return connection.execute(query, given).fetchall()
