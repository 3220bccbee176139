"""What holds for the past of every engine: conversations in files, knowledge in SQLite and in Markdown, and both in
PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from postgres_entries import url_of_its_own

from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.kernel import backups as kernel_backups
from memory_server.kernel.backups import BackupNotFound
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import InvalidInput, LockTimeout, StorageError
from memory_server.kernel.items import FAMILIES, ItemFilter
from memory_server.kernel.lifecycle import Lifecycle, engine_of
from memory_server.kernel.messages import Message
from memory_server.kernel.text import Finding
from memory_server.knowledge.entry import Filter
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.memories import forgetting
from memory_server.memories.backups import Backups
from memory_server.runtime.app import App, open_memory

pytestmark = pytest.mark.anyio
DAY_MS = 86_400_000


@dataclass
class Engine:
    """An engine in use: how a text is stored (the change id is returned), deleted, and seen."""

    app: App
    past: Lifecycle
    place_name: str
    store: Callable[[str], Awaitable[str]]
    delete: Callable[[str], Awaitable[str]]
    texts: Callable[[], Awaitable[list[str]]]


def conversations(app: App) -> Engine:
    chat = app.conversation("小明")

    async def store(text: str) -> str:
        return (await chat.short_term.add([Message("user", text)])).change_id or ""

    async def delete(text: str) -> str:
        return (await chat.short_term.delete(text)).change_id or ""

    async def texts() -> list[str]:
        return sorted(memory.messages[0].content for memory in await chat.short_term.memories())

    return Engine(app, app.memories.engines[0], "小明", store, delete, texts)


def notes(app: App) -> Engine:
    service = app.knowledge.notes

    async def store(text: str) -> str:
        return (await service.remember("tech", text, text)).change_id or ""

    async def delete(text: str) -> str:
        [entry] = [hit.entry for hit in (await service.recall(text)).hits if hit.entry.body == text]
        return await service.delete(entry.ref)

    async def texts() -> list[str]:
        return sorted(hit.entry.body for hit in (await service.recall(limit=100)).hits)

    return Engine(app, app.memories.engines[1], "notes", store, delete, texts)


def refs(app: App) -> Engine:
    service = app.knowledge.refs
    ids: dict[str, str] = {}

    async def store(text: str) -> str:
        done = await service.add(text)
        ids[text] = done.entries[0].ref
        return done.change_id or ""

    async def delete(text: str) -> str:
        return (await service.delete(ids[text]))[1] or ""

    async def texts() -> list[str]:
        store = app.knowledge.store
        bodies: list[str] = []
        for scope in await store.scopes("refs"):
            entries = await store.read(scope, lambda entries: entries.entries(Filter()))
            bodies += [entry.body for entry in entries]
        return sorted(bodies)

    return Engine(app, app.memories.engines[1], "refs/short-term", store, delete, texts)


async def stored_in_every_family(app: App) -> None:
    for make in (conversations, notes, refs):
        await make(app).store("apples grow here")
    await app.conversation("小明").long_term.add("birthday", "Congratulate on the apples", "true")
    await app.knowledge.sessions.add(SessionIds("alice"), "apples are red", mode="direct")
    await app.knowledge.layers["project"].save("fruit", "apples are round", ["tree"])


ENGINES = {"conversations": conversations, "notes": notes, "refs": refs}


@pytest.fixture(params=["folder", "postgres"])
def home_settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """Settings of memories in a folder, or in PostgreSQL for a tenant that nobody else has."""
    if request.param == "folder":
        yield Settings(seed=1)
        return
    with url_of_its_own() as store:
        yield Settings(seed=1, store=store)


def in_project(home_settings: Settings, folder: Path) -> Settings:
    return Settings(seed=1, store=home_settings.store, layers={"project_dir": folder / "project"})  # type: ignore[arg-type]


@pytest.fixture(params=ENGINES)
async def engine(
    request: pytest.FixtureRequest, home_settings: Settings, tmp_path: Path, elsewhere: None
) -> AsyncIterator[Engine]:
    async with open_memory(tmp_path / "data", settings=home_settings) as app:
        yield ENGINES[request.param](app)


def backups_of(app: App) -> Backups:
    """Skips where they are made by other means."""
    if app.settings.store is not None:
        pytest.skip("a database is backed up by pg_dump")
    return app.memories.backups


async def test_each_engine_knows_its_own_changes_and_no_others(engine: Engine) -> None:
    change = await engine.store("apples grow here")
    assert [lifecycle.made(change) for lifecycle in engine.app.memories.engines].count(True) == 1
    assert engine_of(engine.app.memories.engines, change) is engine.past
    for wrong in ("", "k", "kx", "-", "7-", "-ab", "memory", "k٣"):
        assert not engine.past.made(wrong)
    with pytest.raises(InvalidInput, match="is not a change id"):
        engine_of(engine.app.memories.engines, "memory")


async def test_an_item_is_found_by_words_of_its_text_and_by_its_id(engine: Engine) -> None:
    await engine.store("Apples grow in the garden of 張偉")
    await engine.store("pears grow in Ｇｄａńｓｋ")
    both = await engine.past.find(ItemFilter())
    assert [item.text.rpartition(": ")[2] for item in both] == [
        "pears grow in Ｇｄａńｓｋ",
        "Apples grow in the garden of 張偉",
    ]
    pears, apples = both
    for words, matches in (
        (("grow",), [pears, apples]),
        (("APPLES", "张伟"), [apples]),
        (("gdansk",), [pears]),
        (("app", "gar"), [apples]),
        (("apples", "pears"), []),
    ):
        assert await engine.past.find(ItemFilter(words)) == matches
    assert {item.place for item in both} == {engine.place_name}
    assert await engine.past.find(ItemFilter(ids=(apples.id,))) == [apples]
    assert await engine.past.find(ItemFilter(ids=(pears.id[:6].upper(),))) == [pears]
    assert await engine.past.find(ItemFilter(ids=(pears.id[:3],))) == []
    assert await engine.past.find(ItemFilter(("grow",), ids=(pears.id,))) == [pears]


async def test_an_item_is_found_in_its_family_place_and_time_and_in_the_archive_only_there(
    engine: Engine,
) -> None:
    await engine.store("apples grow here")
    [item] = await engine.past.find(ItemFilter())
    assert not item.archived
    matches = [item]
    for sought, is_found in (
        (ItemFilter(family=item.family), True),
        (ItemFilter(family="layers"), False),
        (ItemFilter(place=engine.place_name), True),
        (ItemFilter(place="elsewhere"), False),
        (ItemFilter(since_ms=item.at_ms, until_ms=item.at_ms), True),
        (ItemFilter(since_ms=item.at_ms + 1), False),
        (ItemFilter(until_ms=item.at_ms - 1), False),
        (ItemFilter(user="alice"), False),
        (ItemFilter(archived=True), False),
        (ItemFilter(archived=None), True),
    ):
        assert await engine.past.find(sought) == (matches if is_found else []), sought
    await engine.delete("apples grow here")
    assert await engine.past.find(ItemFilter()) == []
    [removed] = await engine.past.find(ItemFilter(("apples",), archived=True))
    assert removed.archived
    assert removed.id == item.id


async def test_triggers_facts_of_users_and_entries_of_layers_are_found_too(
    home_settings: Settings, tmp_path: Path, elsewhere: None
) -> None:
    settings = in_project(home_settings, tmp_path)
    async with open_memory(tmp_path / "data", settings=settings) as app:
        await stored_in_every_family(app)
        await app.knowledge.sessions.add(SessionIds("bob"), "apples are green", mode="direct")
        families_and_places: set[tuple[str, str]] = set()
        for engine in app.memories.engines:
            families_and_places |= {
                (item.family, item.place) for item in await engine.find(ItemFilter(("apples",)))
            }
        places = ("triggers", "小明"), ("sessions", "sessions/alice"), ("sessions", "sessions/bob")
        others = (
            ("memories", "小明"),
            ("notes", "notes"),
            ("refs", "refs/short-term"),
            ("layers", "layers/project"),
        )
        assert families_and_places == {*places, *others}
        knowledge = app.memories.engines[1]
        [fact] = await knowledge.find(ItemFilter(user="alice"))
        assert fact.text == "apples are red"
        [entry] = await knowledge.find(ItemFilter(("tree",)))
        assert (entry.id, entry.title) == ("fruit", "fruit")
        assert await app.memories.engines[0].find(ItemFilter(user="alice")) == []


async def test_what_is_forgotten_is_one_change_in_the_archive_and_comes_back_by_one_undo(
    engine: Engine,
) -> None:
    for text in ("apples grow here", "pears grow there", "stones do not"):
        await engine.store(text)
    engines = engine.app.memories.engines
    meant = (await forgetting.find(engines, ["grow"], ItemFilter()))[0]
    change = await forgetting.forget(engines, meant)
    assert change is not None
    assert await engine.texts() == ["stones do not"]
    assert await engine.past.find(ItemFilter(("grow",))) == []
    assert [item.id for item in await engine.past.find(ItemFilter(("grow",), archived=True))] == [
        item.id for item in meant
    ]
    newest, *_ = await engine.past.history()
    assert newest.by == f"forget {change}"
    assert await forgetting.forget(engines, meant) is None, "twice is once"
    undone = await forgetting.undo(engines, change, by="undo")
    assert await engine.texts() == ["apples grow here", "pears grow there", "stones do not"]
    for wrong in (change, "00000000", "memory"):
        with pytest.raises(InvalidInput):
            await forgetting.undo(engines, wrong, by="undo")
    await forgetting.undo(engines, undone.id, by="undo")
    assert await engine.texts() == ["stones do not"]


async def test_one_undo_brings_back_what_was_forgotten_in_every_family(
    home_settings: Settings, tmp_path: Path, elsewhere: None
) -> None:
    settings = in_project(home_settings, tmp_path)
    async with open_memory(tmp_path / "data", settings=settings) as app:
        await stored_in_every_family(app)
        engines = app.memories.engines
        before = (await forgetting.find(engines, ["apples"], ItemFilter()))[0]
        assert {item.family for item in before} == set(FAMILIES)
        change = await forgetting.forget(engines, before)
        assert (await forgetting.find(engines, ["apples"], ItemFilter()))[0] == []
        assert change is not None
        assert (await forgetting.undo(engines, change, by="undo")).steps
        after = (await forgetting.find(engines, ["apples"], ItemFilter()))[0]
        assert {(item.family, item.id) for item in after} == {
            (item.family, item.id) for item in before
        }


async def erased(app: App, *words: str) -> None:
    engines = app.memories.engines
    meant = (await forgetting.find(engines, words, ItemFilter(archived=None)))[0]
    erasure = await forgetting.erasure_of(engines, meant, words)
    await forgetting.erase(engines, erasure, app.home.erased, app.home.recalls, app.home.questions)
    app.home.erased.end()
    assert list(app.home.left(erasure).texts) == []


async def test_what_is_erased_is_in_no_store_and_no_undo_brings_it_back(engine: Engine) -> None:
    stored = await engine.store("apples grow here")
    await engine.store("pears grow there")
    await engine.delete("apples grow here")
    await erased(engine.app, "apples")
    assert await engine.texts() == ["pears grow there"]
    assert [
        item.text
        for item in await engine.past.find(ItemFilter(archived=None))
        if "apples" in item.text
    ] == []
    history = await engine.past.history()
    assert stored in {change.id for change in history}, "the versions stay"
    assert "apples" not in repr(history)
    for change in history:
        with suppress(InvalidInput):
            await engine.past.undo(change.id)
    assert "apples grow here" not in await engine.texts()
    assert await complaints(engine.past) == []


async def complaints(past: Lifecycle) -> list[Finding]:
    """What an examination finds wrong."""
    findings: list[Finding] = []
    for examine in await past.examinations():
        findings += await examine()
    return [finding for finding in findings if finding.grade in ("warning", "error")]


async def test_what_was_erased_can_be_said_again(engine: Engine) -> None:
    await engine.store("apples grow here")
    await erased(engine.app, "apples")
    assert await engine.texts() == []
    await engine.store("apples grow here")
    assert await engine.texts() == ["apples grow here"]


@pytest.mark.parametrize("mode", ["merge", "overwrite"])
async def test_a_restore_leaves_out_what_was_erased_and_says_so(engine: Engine, mode: str) -> None:
    backups = backups_of(engine.app)
    await engine.store("apples grow here")
    await engine.store("pears grow there")
    await backups.make("one")
    await erased_but_in_backups(engine.app, "apples")
    results = await backups.restore("one", mode)  # type: ignore[arg-type]
    assert await engine.texts() == ["pears grow there"]
    left_out = [sentence for result in results for sentence in result.left_out]
    assert left_out == ["1 erased memory was left out"]


async def erased_but_in_backups(app: App, *words: str) -> None:
    engines = app.memories.engines
    meant = (await forgetting.find(engines, words, ItemFilter(archived=None)))[0]
    erasure = await forgetting.erasure_of(engines, meant, words)
    await forgetting.erase(engines, erasure, app.home.erased, app.home.recalls, app.home.questions)
    app.home.erased.end()
    assert {path.parent for path in list(app.home.left(erasure).texts)} == {app.home.backups.folder}


async def test_a_backup_is_rewritten_without_what_is_erased_or_if_it_is_damaged_not_at_all(
    engine: Engine,
) -> None:
    backups = backups_of(engine.app)
    folder = engine.app.home.backups
    await engine.store("apples grow here")
    await engine.store("pears grow there")
    for name in ("one", "two"):
        await backups.make(name)
    engines = engine.app.memories.engines
    erasure = await forgetting.erasure_of(
        engines, (await forgetting.find(engines, ["apples"], ItemFilter()))[0], ["apples"]
    )
    await backups.erase("one", erasure)
    assert await engine.texts() == ["apples grow here", "pears grow there"]
    await backups.restore("one", "overwrite")
    assert await engine.texts() == ["pears grow there"]
    broken = folder.folder / "two.backup.gz"
    broken.write_bytes(broken.read_bytes()[:-9])
    before = {path: path.read_bytes() for path in folder.folder.glob("two.*")}
    with pytest.raises(StorageError, match="two cannot be used"):
        await backups.erase("two", erasure)
    assert before == {path: path.read_bytes() for path in folder.folder.glob("two.*")}


async def test_what_another_memory_says_too_stays_there(engine: Engine) -> None:
    await engine.store("apples grow here")
    await engine.store("apples grow here and there")
    engines = engine.app.memories.engines
    [short] = [
        item for item in await engine.past.find(ItemFilter()) if item.text.endswith("grow here")
    ]
    erasure = await forgetting.erasure_of(engines, [short])
    await forgetting.erase(
        engines, erasure, engine.app.home.erased, engine.app.home.recalls, engine.app.home.questions
    )
    assert await engine.texts() == ["apples grow here and there"]
    assert engine.app.home.erased.begun() == erasure_without_more(erasure)


def erasure_without_more(erasure: Erasure) -> Erasure:
    items = tuple(
        replace(item, aliases=(), also=(), said=(), other_words=()) for item in erasure.items
    )
    return replace(erasure, items=items)


async def test_words_are_looked_for_and_ids(engine: Engine) -> None:
    await engine.store("apples grow here")
    await engine.store("pears grow there")
    engines = engine.app.memories.engines
    [pears] = (await forgetting.find(engines, ["pears grow"], ItemFilter()))[0]
    assert await forgetting.find(engines, [pears.id[:8]], ItemFilter()) == ([pears], ())
    assert (await forgetting.find(engines, ["plums"], ItemFilter()))[0] == []


async def test_the_history_is_newest_first_and_goes_on_in_pages(engine: Engine) -> None:
    assert await engine.past.history() == []
    change_ids = [await engine.store(f"apples of the {number}. tree") for number in range(5)]
    assert engine.place_name in await engine.past.places()
    history = await engine.past.history()
    assert [change.id for change in history] == change_ids[::-1]
    assert {change.place for change in history} == {engine.place_name}
    assert all(change.steps and change.by and change.at_ms for change in history)
    assert await engine.past.history(engine.place_name) == history
    page = await engine.past.history(limit=2)
    rest = await engine.past.history(before=page[-1].id, limit=9)
    assert [*page, *rest] == history


async def test_a_change_of_many_steps_is_told_up_to_a_bound(engine: Engine) -> None:
    for number in range(4):
        await engine.store(f"apples of the {number}. tree")
    items = await engine.past.find(ItemFilter(words=("apples",)))
    assert await engine.past.forget(items, by="test") == 4
    [whole] = await engine.past.history(limit=1)
    [bounded] = await engine.past.history(limit=1, most_steps=3)
    assert (len(whole.steps), whole.more_steps) == (4, 0)
    assert (bounded.steps, bounded.more_steps) == (whole.steps[:3], 1)


async def test_what_was_stored_or_deleted_is_taken_back_and_that_too(engine: Engine) -> None:
    await engine.store("apples grow here")
    stored = await engine.store("pears grow there")
    deleted = await engine.delete("apples grow here")
    assert await engine.texts() == ["pears grow there"]
    undone = await engine.past.undo(deleted)
    assert await engine.texts() == ["apples grow here", "pears grow there"]
    assert undone.id != deleted
    assert undone.steps
    await engine.past.undo(stored)
    assert await engine.texts() == ["apples grow here"]
    await engine.past.undo(undone.id)
    assert await engine.texts() == []


async def test_what_cannot_be_taken_back_says_why_and_changes_nothing(engine: Engine) -> None:
    stored = await engine.store("apples grow here")
    await engine.past.undo(stored)
    absent = stored.replace("1", "9") if "-" in stored else "k999"
    for change in (stored, absent, "k" * 3):
        with pytest.raises(InvalidInput):
            await engine.past.undo(change)
    assert await engine.texts() == []


async def test_a_dry_clean_up_moves_nothing_and_a_fresh_memory_stays(engine: Engine) -> None:
    await engine.store("apples grow here")
    before = await engine.past.history()
    for dry_run in (True, False):
        async for cleaned in engine.past.clean_up(dry_run=dry_run):
            assert list(cleaned.left) == []
        assert await engine.texts() == ["apples grow here"]
    ids = {change.id for change in before}
    assert [change for change in await engine.past.history() if change.id in ids] == before
    assert await engine.past.keep_up(engine.app.clock()) == 0


async def test_examining_finds_nothing_wrong_and_changes_nothing(engine: Engine) -> None:
    await engine.store("apples grow here")
    before = await engine.past.history()
    assert await complaints(engine.past) == []
    assert await engine.past.history() == before


@pytest.mark.parametrize("mode", ["merge", "overwrite"])
async def test_a_backup_brings_back_what_was_deleted(engine: Engine, mode: str) -> None:
    backups = backups_of(engine.app)
    await engine.store("apples grow here")
    await backups.make("one")
    await engine.delete("apples grow here")
    await engine.store("pears grow there")
    planned = await backups.restore("one", mode, dry_run=True)  # type: ignore[arg-type]
    assert await engine.texts() == ["pears grow there"]
    done = await backups.restore("one", mode)  # type: ignore[arg-type]
    assert [(row.keeps, row.place, row.counts.added) for row in done] == [
        (row.keeps, row.place, row.counts.added) for row in planned
    ]
    assert {row.keeps for row in done} == {engine.past.keeps}
    both = ["apples grow here", "pears grow there"]
    assert await engine.texts() == (both if mode == "merge" else both[:1])
    newest, *_ = await engine.past.history(limit=1)
    await engine.past.undo(newest.id)
    assert await engine.texts() == ["pears grow there"]


async def test_a_place_or_a_change_that_is_not_there_is_refused(engine: Engine) -> None:
    stored = await engine.store("apples grow here")
    absent = stored.replace("1-", "7-") if "-" in stored else "k999"
    with pytest.raises(InvalidInput):
        await engine.past.history(before=absent)
    with pytest.raises(InvalidInput):
        await engine.past.undo(stored, "elsewhere")
    with pytest.raises(InvalidInput):
        [row async for row in engine.past.clean_up("elsewhere")]
    assert await engine.texts() == ["apples grow here"]


async def test_damaged_knowledge_stops_no_backup_of_conversations(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "data") as app:
        await conversations(app).store("apples grow here")
        await notes(app).store("pears grow there")
    file = tmp_path / "data" / ".memory-server" / "knowledge.sqlite3"
    file.write_bytes(file.read_bytes()[:5000])
    async with open_memory(tmp_path / "data") as app:
        result = await app.memories.backups.make("all")
        assert result.backup.conversations == 1
        assert len(result.left_out) == 1
        assert "knowledge.sqlite3" in result.left_out[0]
        assert (await app.memories.backups.make("one", only="小明")).left_out == ()
        with pytest.raises(InvalidInput, match="nothing is stored in the conversation notes"):
            await app.memories.backups.make("none", only="notes")


async def test_a_backup_whose_knowledge_is_damaged_changes_nothing(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "data") as app:
        chat = conversations(app)
        noted = notes(app)
        await chat.store("apples grow here")
        await noted.store("pears grow there")
        await app.memories.backups.make("one")
        await chat.delete("apples grow here")
        copy = app.home.backups.knowledge_of("one")
        copy.write_bytes(copy.read_bytes()[:5000])
        before = await chat.past.history()
        for mode in ("merge", "overwrite"):
            with pytest.raises(StorageError, match="cannot be used"):
                await app.memories.backups.restore("one", mode)  # type: ignore[arg-type]
        assert await chat.past.history() == before
        assert await noted.texts() == ["pears grow there"]
        assert [row.place for row in await app.memories.backups.restore("one", only="小明")] == [
            "小明"
        ]


async def test_a_backup_that_is_deleted_before_its_restore_changes_nothing_and_during_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_backups, "WAIT_SECONDS", 0.05)
    async with open_memory(tmp_path / "data") as app:
        chat = conversations(app)
        noted = notes(app)
        await chat.store("a cat called Miso")
        await noted.store("pears grow there")
        backups = app.memories.backups
        folder = app.home.backups
        await backups.make("one")
        opened = folder.open

        @contextmanager
        def deleting(name: str) -> Iterator[Any]:
            with pytest.raises(LockTimeout):
                folder.delete(name)
            with opened(name) as backup:
                yield backup

        monkeypatch.setattr(folder, "open", deleting)
        assert len(await backups.restore("one", "overwrite")) == 2
        monkeypatch.setattr(folder, "open", opened)
        check = KnowledgeLifecycle.check_backup

        async def check_and_delete(*arguments: Any) -> None:
            await check(*arguments)
            folder.knowledge_of("one").unlink()
            (folder.folder / "one.backup.gz").unlink()

        monkeypatch.setattr(KnowledgeLifecycle, "check_backup", check_and_delete)
        chat_history = await chat.past.history()
        note_history = await noted.past.history()
        with pytest.raises(BackupNotFound):
            await backups.restore("one", "overwrite")
        assert await chat.past.history() == chat_history
        assert await noted.past.history() == note_history


async def test_a_second_backup_of_one_name_takes_nothing_from_the_first(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "data") as app:
        await notes(app).store("pears grow there")
        await app.memories.backups.make("one")
        with pytest.raises(InvalidInput, match="one"):
            await app.memories.backups.make("one")
        assert app.home.backups.knowledge_of("one").exists()
        names = [path.name for path in app.home.backups.folder.iterdir()]
        assert sorted(names) == ["one.backup.gz", "one.knowledge.sqlite3"]


async def test_the_history_says_where_if_there_are_several_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory(tmp_path) as app:
        for chat, count in (("old", 2), ("new", 3)):
            for number in range(count):
                await app.conversation(chat).short_term.add(
                    [Message("user", f"apples of the {number}. tree")]
                )
    monkeypatch.setattr("sys.stdout.isatty", lambda: False, raising=False)

    def printed(*flags: str) -> str:
        assert main(["--data-dir", str(tmp_path), "history", *flags]) == 0
        return "".join(capsys.readouterr())

    shown = await asyncio.to_thread(printed, "--limit", "2")
    assert shown.count(" in new ") == 2
    assert "More: -c ID, or a larger --limit" in shown
    assert "More: --before 2-" in await asyncio.to_thread(printed, "-c", "new", "--limit", "2")


WRONG_CLOCKS = (-27 * 365, -400, -1, 0, 0, 1, 400, 10 * 365)
"""Days by which the clock of a machine is wrong: an empty battery, a daylight saving hour, a wrong year."""


@pytest.mark.parametrize("family", ENGINES)
async def test_what_was_made_under_clocks_that_jump_is_undone_in_the_order_in_which_it_was_made(
    home_settings: Settings, tmp_path: Path, elsewhere: None, family: str
) -> None:
    rng = Random(family)
    begin = datetime(2026, 11, 28, tzinfo=UTC)

    def settings_after(hours: int) -> Settings:
        now = begin + timedelta(days=rng.choice(WRONG_CLOCKS), hours=hours)
        return home_settings.model_copy(update={"now": now})

    made: list[str] = []
    states: list[list[str]] = [[]]
    for number in range(10):
        async with open_memory(tmp_path / "data", settings=settings_after(number)) as app:
            engine = ENGINES[family](app)
            made.append(await engine.store(f"tree {number} has {number * 7} apples"))
            states.append(await engine.texts())
    for number in reversed(range(10)):
        async with open_memory(tmp_path / "data", settings=settings_after(20 - number)) as app:
            engine = ENGINES[family](app)
            history = await engine.past.history(engine.place_name)
            assert [change.id for change in history][-10:] == made[::-1]
            everywhere = await engine.past.history()
            assert everywhere == history
            await engine.past.undo(made[number])
            assert await engine.texts() == states[number]


async def test_a_change_made_by_a_clock_that_was_ahead_is_not_the_last_one_of_all(
    home_settings: Settings, tmp_path: Path
) -> None:
    def settings_at(year: int, day: int = 1) -> Settings:
        return home_settings.model_copy(update={"now": datetime(year, 11, day, tzinfo=UTC)})

    made: list[str] = []
    for room, year, day in (("a", 2026, 1), ("a", 2036, 2), ("b", 2026, 3), ("a", 1999, 4)):
        async with open_memory(tmp_path / "data", settings=settings_at(year, day)) as app:
            added = await app.conversation(room).short_term.add([Message("user", "apples grow")])
            made.append(added.change_id or "")
    async with open_memory(tmp_path / "data", settings=settings_at(2026, 5)) as app:
        history = await app.memories.engines[0].history()
    # The change of 1999 is newer than the two before it in its place; against others nothing is known.
    assert [change.id for change in history] == [made[2], made[3], made[1], made[0]]
