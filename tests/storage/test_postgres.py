"""PostgreSQL: records come back equal, changes of several nodes are one fold, and what is set wrongly is said."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres import database_of_its_own, postgres, tenant_of_its_own
from sample_memories import NOW, contents, copy_of, memory, random_changes, trigger

from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.conversations.changes import Added, Forgotten, apply
from memory_server.conversations.model import ConversationState
from memory_server.conversations.services import one_call
from memory_server.kernel.errors import InvalidInput, MemoryPaused, StorageError, StorageUnwritable
from memory_server.kernel.messages import Message
from memory_server.kernel.private import Pause
from memory_server.lore.memory import BookEntry, FiringRules, LongTermMemory, TriggerSet
from memory_server.runtime.app import open_memory
from memory_server.storage.options import PostgresSettings
from memory_server.storage.postgres.connection import Database, migrations
from memory_server.storage.postgres.conversations import PostgresStore
from memory_server.storage.postgres.recall_rows import Lease, PauseRow

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
    strange = memory(
        "a\0",
        words={"披萨": -0.0, "x": 1e-7},
        messages=(Message("user", "\0\u2028"),),
        extra=STRANGE,
    )
    with tenant_of_its_own() as (database, tenant):
        store = PostgresStore(database, tenant, lambda: NOW)
        changes = Added(strange), TriggerSet(trigger("t"), None)
        await store.update("chat", lambda _: (changes, None), by="te\u2028st")
        for is_compacted in (False, True):
            state = await PostgresStore(database, tenant, lambda: NOW).read("chat")
            assert repr(state.short_term) == repr({"a\0": strange}), is_compacted
            assert list(state.short_term["a\0"].extra) == list(STRANGE)
            [past_commit] = await store.history("chat")
            assert repr(past_commit.changes) == repr(changes)
            assert past_commit.by == "te\u2028st"
            await store.compact("chat")
        await store.aclose()


@settings(max_examples=max(4, settings.default.max_examples // 4))
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from("wwwwrrcd"), max_size=25))
def test_two_nodes_and_a_third_reader_equal_the_fold(rng: Random, steps: list[str]) -> None:
    async def run() -> None:
        with tenant_of_its_own() as (database, tenant):
            nodes = [PostgresStore(database, tenant, lambda: NOW) for _ in range(3)]
            expected = ConversationState("chat")
            for step in steps:
                node = nodes[rng.randrange(2)]
                if step == "w":
                    changes = random_changes(copy_of(expected), rng, 4)
                    if changes:
                        apply(expected, changes)
                        expected.version += 1
                        await node.update(
                            "chat", lambda _, changes=changes: (changes, None), by="test"
                        )  # type: ignore[misc]
                elif step == "c":
                    await node.compact("chat")
                elif step == "d":
                    node._open.clear()
                reader = nodes[2] if step == "r" else node
                state = await reader.read("chat")
                assert state.version == expected.version
                assert contents(state) == contents(expected)
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
                lambda _, number=number: ([Added(memory(f"m{number}", text="x" * 30_000))], None),
                by="test",  # type: ignore[misc]
            )
        await store.aclose()
        [[base, pending]] = _rows(
            "select base, pending_bytes from memory_server.partitions where tenant = %s", tenant
        )
        assert base in (3, 4), "a fold has what is there when it reads"
        assert pending < 40_000
        fresh = PostgresStore(database, tenant, lambda: NOW)
        assert len((await fresh.read("chat")).short_term) == 4


async def test_upkeep_opens_only_what_can_be_forgotten_and_the_past_of_all_ends() -> None:
    with tenant_of_its_own() as (database, tenant):
        now = [NOW]
        store = PostgresStore(database, tenant, lambda: now[0])
        for name, count in (("small", 3), ("large", 9)):
            for number in range(count):
                await store.update(
                    name, lambda _, number=number: ([Added(memory(f"m{number}"))], None), by="test"
                )  # type: ignore[misc]
            await store.update(
                name, lambda _: ([Forgotten(memory("m0"), "deleted")], None), by="test"
            )
        assert await store.larger(5) == ["large"]
        now[0] += 91 * 86_400_000
        await store.update("small", lambda _: ([Added(memory("new"))], None), by="test")
        await store.expire(now[0])
        assert [commit.version for commit in await store.history("small")] == [5]
        assert await store.history("large") == ()
        assert (
            len((await PostgresStore(database, tenant, lambda: NOW).read("large")).short_term) == 8
        )
        await store.aclose()


async def test_a_call_asks_once_for_a_conversation_and_what_it_left_behind_asks_anew() -> None:
    with tenant_of_its_own() as (database, tenant):
        node, other_node = (PostgresStore(database, tenant, lambda: NOW) for _ in range(2))

        async def add(store: PostgresStore, name: str) -> None:
            await store.update("chat", lambda _: ([Added(memory(name))], None), by="test")

        def forget_those_of_b(state: ConversationState) -> tuple[list[Forgotten], None]:
            memories = [stored for name, stored in state.short_term.items() if name.startswith("b")]
            return [Forgotten(stored, "deleted") for stored in memories], None

        async def ids_in_node() -> set[str]:
            return set((await node.read("chat")).short_term)

        async def ids_after_the_call() -> set[str]:
            await call_is_over.wait()
            return await ids_in_node()

        call_is_over = asyncio.Event()
        for present in (set(), {"a", "own"}):
            with one_call():
                assert await ids_in_node() == present
                await add(other_node, f"b{len(present)}")
                assert await ids_in_node() == present
                left_behind = asyncio.create_task(ids_after_the_call())
            assert await ids_in_node() == present | {f"b{len(present)}"}
            with one_call():
                await ids_in_node()
                await add(other_node, "a")
                await add(node, "own")
                assert await ids_in_node() >= {"a", "own"}
            call_is_over.set()
            assert await left_behind >= {"a", "own"}
            await other_node.update("chat", forget_those_of_b, by="test")
        await asyncio.gather(node.aclose(), other_node.aclose())


async def test_one_node_at_a_time_has_the_lease_and_it_ends_by_itself() -> None:
    with tenant_of_its_own() as (database, tenant):
        lease = Lease(database, tenant)
        other_lease = Lease(database, tenant)
        async with lease.turn() as first, other_lease.turn() as second:
            assert first is True
            assert second is False
            with psycopg.connect(postgres(), autocommit=True) as connection:
                connection.execute(
                    "update memory_server.upkeep set until = now() where tenant = %s",
                    [tenant],
                )
            async with other_lease.turn() as third:
                assert third
        async with other_lease.turn() as fourth:
            assert fourth
        lease.note_run(NOW)
        assert other_lease.last_run_ms() == NOW


async def test_a_pause_of_one_node_is_one_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_server.storage.postgres.recall_rows.PAUSE_SECONDS", -1.0)
    with tenant_of_its_own() as (_, tenant):
        node_settings = Settings(store=f"{postgres()}#{tenant}", data_dir=tmp_path, seed=1)
        async with (
            open_memory(settings=node_settings) as node,
            open_memory(settings=node_settings) as other_node,
        ):
            node.home.pause.write(Pause())
            with pytest.raises(MemoryPaused):
                await other_node.conversation("chat").short_term.add(
                    [Message("user", "apples grow here")]
                )
            node.home.pause.remove()
            await other_node.conversation("chat").short_term.add(
                [Message("user", "apples grow here")]
            )
            assert {finding.grade for finding in other_node.home.examine()} <= {
                "ok",
                "note",
                "warning",
            }
            with pytest.raises(InvalidInput, match="pg_dump"):
                await other_node.memories.backups.make("one")
            assert other_node.home.size() > 0


async def test_a_question_in_the_event_loop_waits_for_no_writer_that_waits_for_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memory_server.storage.postgres.recall_rows.PAUSE_SECONDS", -1.0)
    with tenant_of_its_own() as (_, tenant):
        database = Database(postgres(), options=PostgresSettings(connections=1))
        store = PostgresStore(database, tenant, lambda: NOW)
        pause = PauseRow(database, tenant)
        answers: list[Pause | None] = []

        def decide(state: ConversationState) -> tuple[list[Added], None]:
            answers.append(
                pause.read(NOW)
            )  # in the event loop, while the only connection of writers is in use
            return [Added(memory("a"))], None

        async with asyncio.timeout(20):
            await asyncio.gather(
                *(store.update(f"c{number}", decide, by="test") for number in range(5))
            )
        assert answers == [None] * 5
        await store.aclose()
        database.close()


# --- what is set wrongly -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "reason"),
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
        ("postgresql://u:secret@127.0.0.1:1/x/", "postgresql://u@127.0.0.1:1/x cannot be reached"),
        ("postgresql://u:secret@127.0.0.1:1/x//#a", "u@127.0.0.1:1/x cannot be reached"),
        (
            "postgresql://u:secret@/x/?host=/nowhere/&password=secret",
            "postgresql://u@/nowhere//x cannot be reached",
        ),
        (
            "postgresql://u:secret@/x?host=/nowhere&password=secret",
            "postgresql://u@/nowhere/x cannot be reached",
        ),
    ],
)
def test_a_wrong_address_is_one_sentence_without_the_password(
    store: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("memory_server.storage.postgres.connection.FIRST_SECONDS", 0.2)
    monkeypatch.setenv("MEMORY_SERVER_STORE", store)
    assert main(["--data-dir", str(tmp_path), "--log-level", "DEBUG", "list"]) != 0
    output = "".join(capsys.readouterr())
    assert reason in output
    assert "secret" not in output
    assert "Traceback" not in output


def test_an_unknown_user_or_database_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("memory_server.storage.postgres.connection.FIRST_SECONDS", 0.2)
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
        assert waiting.migrate(dry_run=True) == list(migrations())
        assert waiting.migrate() == list(migrations())
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
            numbers = connection.execute(
                "select number from memory_server.migrations order by 1"
            ).fetchall()
        assert [number for (number,) in numbers] == list(migrations())
        for node in nodes:
            node.close()


# --- between stores ----------------------------------------------------------------------------------------


async def test_a_folder_copied_to_the_database_and_back_is_equal_and_changes_can_be_undone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tenant_of_its_own() as (_, tenant):
        async with open_memory(tmp_path / "here") as app:
            for number in range(5):
                await app.conversation("小明").short_term.add(
                    [Message("user", f"apples of the {number}. tree")]
                )
            deleted = await app.conversation("小明").short_term.delete("3. tree")
            await app.conversation("b").long_term.add("birthday", "Congratulate", "true")
            await app.store.compact("小明")
            await app.conversation("小明").short_term.add([Message("user", "pears grow there")])

        def run(*words: str) -> tuple[int, str]:
            status = main(["copy", *words])
            return status, "".join(capsys.readouterr())

        source_home = str(tmp_path / "here")
        database_home = f"{postgres()}#{tenant}"
        target_home = str(tmp_path / "back")
        assert (
            await asyncio.to_thread(run, "--from", source_home, "--to", database_home, "--dry-run")
        )[0] == 0
        assert (
            await asyncio.to_thread(run, "--from", source_home, "--to", database_home, "nobody")
        )[0] == 2
        assert (await asyncio.to_thread(run, "--from", source_home, "--to", source_home))[0] == 2
        for source, target in ((source_home, database_home), (database_home, target_home)):
            status, output = await asyncio.to_thread(run, "--from", source, "--to", target)
            assert status == 0, output
            assert output.count("was copied:") == 2, output
            status, output = await asyncio.to_thread(run, "--from", source, "--to", target)
            assert status == 0, output
            assert output.count("is already in the other store.") == 2, output
        homes = [
            Settings(data_dir=source_home),
            Settings(store=database_home, data_dir=tmp_path / "x"),
            Settings(data_dir=target_home),
        ]
        descriptions = []
        for settings in homes:
            async with open_memory(settings=settings) as app:
                chat = app.conversation("小明")
                state = await app.store.read("小明")
                history = await app.store.history("小明")
                archive = await app.store.archive("小明")
                descriptions.append(repr((contents(state), state.version, history, archive)))
                await chat.archive.undo(deleted.change_id or "")
                assert len(await chat.short_term.memories()) == 6
        assert descriptions[0] == descriptions[1] == descriptions[2]
        async with open_memory(tmp_path / "here") as app:
            await app.conversation("小明").short_term.add([Message("user", "plums")])
        status, output = await asyncio.to_thread(run, "--from", source_home, "--to", database_home)
        assert status == 1
        assert "nothing is merged" in output


def _rows(query: str, *parameters: object) -> list[tuple[object, ...]]:
    with psycopg.connect(postgres()) as connection:
        return connection.execute(query, parameters).fetchall()


@pytest.mark.parametrize("kind", ["folder", "database"])
async def test_a_book_is_switched_and_removed_and_comes_back_in_its_order(
    tmp_path: Path, kind: str
) -> None:
    book = BookEntry("9f", "Tale", "tale.json")
    memories = [
        LongTermMemory(
            name,
            "text",
            "true",
            NOW,
            rules=FiringRules(cooldown=number),
            book=replace(book, uid=name),
        )
        for number, name in enumerate(("Town", "River", "Bridge", "Mill"))
    ]
    changes = [TriggerSet(memory, None) for memory in memories]
    with tenant_of_its_own() as (_, tenant):
        store = f"{postgres()}#{tenant}" if kind == "database" else None
        settings = Settings(store=store, data_dir=tmp_path / "data")
        async with open_memory(settings=settings) as app:
            await app.store.update("chat", lambda _: (changes, None), by="import")
            chat = app.conversation("chat")
            off = await chat.books.switch("tale", on=False)
            assert [memory.rules.is_off for memory in await chat.books.entries("9F")] == [True] * 4
            removed = await chat.books.remove("Tale")
            assert await chat.books.listed() == []
        async with open_memory(settings=settings) as app:
            chat = app.conversation("chat")
            await chat.archive.undo(removed.change_id or "")
            await chat.archive.undo(off.change_id or "")
            await app.store.compact("chat")
        async with open_memory(settings=settings) as app:
            assert list(await app.conversation("chat").books.entries("tale")) == memories


def test_a_backup_of_a_database_with_tenants_names_no_backup_that_it_would_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with tenant_of_its_own() as (_, tenant):
        monkeypatch.setenv("MEMORY_SERVER_STORE", postgres())
        monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path))
        assert main(["--tenant", tenant, "remember", "apples grow here"]) == 0
        capsys.readouterr()
        for arguments in (["backup", "one"], ["backup", "one", "--all-tenants"]):
            assert main(arguments) == 2
            output = "".join(capsys.readouterr())
            assert "pg_dump" in output
            assert "--all-tenants" not in output
