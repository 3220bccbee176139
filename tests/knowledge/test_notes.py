"""Notes: what is remembered, how it is found, shown as pages, merged, and brought back."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from entries_held import figures, page
from knowledge_past import cleaned, restored

from memory_server.kernel.errors import (
    InvalidInput,
    MemoryNotFound,
    MemoryPaused,
    NothingToKeep,
    StorageError,
)
from memory_server.knowledge import lifecycle
from memory_server.knowledge.entry import Filter, change_id
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.knowledge.notes.notes import NOTES, Notes
from memory_server.knowledge.notes.pages import MARK, fenced
from memory_server.knowledge.policies import Options
from memory_server.knowledge.service import Knowledge
from memory_server.knowledge.sessions.ids import named
from memory_server.storage.entries.markdown_folder import write_pages
from memory_server.storage.entries.sqlite_store import SqliteStore

pytestmark = pytest.mark.anyio
NOW = 1_750_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        self.now += 1000
        return self.now


@pytest.fixture
async def knowledge(tmp_path: Path) -> AsyncIterator[Knowledge]:
    opened_knowledge = family(tmp_path)
    yield opened_knowledge
    await opened_knowledge.aclose()


def family(folder: Path, **options: Any) -> Knowledge:
    clock = Clock()
    return Knowledge(SqliteStore(folder / "k.sqlite3", clock), clock, Options(**options))


@pytest.fixture
def notes(knowledge: Knowledge) -> Notes:
    return knowledge.notes


async def test_other_words_find_notes_that_the_query_does_not(knowledge: Knowledge) -> None:
    notes = knowledge.notes
    await notes.remember("domain", "medicine", "曲唑酮 every evening")
    await notes.remember("domain", "evening", "安眠药 are in the drawer")
    assert await topics(notes, "安眠药", reinforce=False) == ["evening"]
    matches = await notes.recall("安眠药", other_words=["曲唑酮", "trazodone"], reinforce=False)
    assert [hit.entry.title for hit in matches.hits] == ["evening", "medicine"]
    assert matches.hits[0].why.startswith("安眠药 in content, relevance 1.00")
    assert matches.hits[1].why.startswith("曲唑酮 (given by the caller) in content, relevance ")
    assert await topics(notes, "", other_words=["曲唑酮"], reinforce=False) == ["medicine"]
    assert len(await topics(notes, " ", reinforce=False)) == 2


@pytest.mark.parametrize("texts", [[str(number) for number in range(41)], ["x" * 61]])
async def test_other_words_of_a_search_are_few_and_short(
    knowledge: Knowledge, texts: list[str]
) -> None:
    with pytest.raises(InvalidInput, match="at most 40 other words, each of at most 60"):
        await knowledge.notes.recall("pool", other_words=texts)
    with pytest.raises(InvalidInput, match="at most 40 other words"):
        await knowledge.refs.search("pool", other_words=texts)
    sessions = knowledge.sessions
    with pytest.raises(InvalidInput, match="at most 40 other words"):
        await sessions.search(sessions.caller(named()), "pool", other_words=texts)


async def topics(notes: Notes, query: str = "", **options: Any) -> list[str]:
    matches = await notes.recall(query, **options)
    return [hit.entry.title for hit in matches.hits]


async def texts(notes: Notes, query: str = "", **options: Any) -> list[str]:
    matches = await notes.recall(query, **options)
    return [hit.entry.body for hit in matches.hits]


async def uses(notes: Notes) -> list[int]:
    matches = await notes.recall()
    return [hit.entry.uses for hit in matches.hits]


async def remembered(notes: Notes, topic: str, text: str) -> str:
    """The id of the change."""
    receipt = await notes.remember("tech", topic, text)
    assert receipt.change_id is not None
    return receipt.change_id


async def test_the_same_topic_and_type_is_updated_and_keeps_its_id(
    notes: Notes, knowledge: Knowledge
) -> None:
    first = await notes.remember(
        "tech", "Error Handling", "use anyhow", tags=["rust"], examples=["?"], source="a"
    )
    second = await notes.remember("tech", " ｅｒｒｏｒ  handling ", "use thiserror")
    of_another_type = await notes.remember("domain", "Error Handling", "who to ask")
    assert first.result.action == "created"
    assert second.result.action == "updated"
    assert of_another_type.result.action == "created"
    assert second.entry.ref == first.entry.ref != of_another_type.entry.ref
    assert second.entry.body == "use thiserror"
    assert second.entry.tags == ()
    assert second.entry.examples == ()
    assert second.entry.uses == 1
    assert await topics(notes, "anyhow") == []
    await KnowledgeLifecycle(knowledge).undo(second.change_id or "")
    assert await topics(notes, "anyhow") == ["Error Handling"]


async def test_similar_notes_of_the_type_are_counted(notes: Notes) -> None:
    await notes.remember(
        "tech", "the pool", "Use a connection pool of twenty for the main database"
    )
    second = await notes.remember(
        "tech", "pool", "Use a connection pool of twenty for the main database"
    )
    of_another_type = await notes.remember(
        "domain", "pool", "Use a connection pool of twenty for the main database"
    )
    assert second.result.similar == 1
    assert of_another_type.result.similar == 0


async def test_notes_about_things_with_other_names_are_not_similar(notes: Notes) -> None:
    text = "Customers in the northern region always get plan {} when the contract is renewed."
    await notes.remember("domain", "option", text.format("A"))
    receipt = await notes.remember("domain", "the option", text.format("B"))
    assert receipt.result.similar == 0
    assert (await notes.reindex(dry_run=True)).merged == ()


async def test_recall_counts_a_reference_for_what_came_and_says_why(notes: Notes) -> None:
    for number in range(4):
        await notes.remember("tech", f"数据库 {number}", "数据库连接池")
    matches = await notes.recall("数据库连接", limit=2)
    assert len(matches.hits) == 2
    assert matches.total == 4
    assert (
        matches.hits[0].why.startswith("数据库连接 in content; 数据库 in title")
        or "数据库" in matches.hits[0].why
    )
    assert sorted(await uses(notes)) == [0, 0, 1, 1]
    await notes.recall("数据库", reinforce=False)
    assert sorted(await uses(notes)) == [0, 0, 1, 1]


async def test_a_note_that_is_used_often_rises(notes: Notes) -> None:
    await notes.remember("tech", "alpha one", "the gateway retries")
    await notes.remember("tech", "alpha two", "the gateway retries")
    newest_first = await topics(notes, "gateway retries", reinforce=False)
    for _ in range(5):
        await notes.recall("one")
    assert newest_first == ["alpha two", "alpha one"]
    assert await topics(notes, "gateway retries") == ["alpha one", "alpha two"]


async def test_browsing_lists_all_by_confidence_and_use_and_counts_nothing(notes: Notes) -> None:
    for number in range(3):
        await notes.remember(
            "tech" if number else "domain",
            f"n{number}",
            f"word{number}",
            tags=["Even"][number % 2 :],
        )
    await notes.recall("word1")
    assert (await topics(notes))[0] == "n1"
    assert await topics(notes, "  ", kind="domain") == ["n0"]
    assert await topics(notes, tags=["even"]) == ["n2", "n0"]
    assert await uses(notes) == [1, 0, 0]
    assert await topics(notes, limit=1, offset=1) == ["n2"]


async def test_notes_of_another_project_are_left_off_and_counted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "k.sqlite3", Clock())
    shop, bank, nowhere = (
        Notes(store, Clock(), Options(project=name)) for name in ("shop", "bank", None)
    )
    await shop.remember("project-tech", "errors", "errors become 400")
    await bank.remember("project-tech", "errors", "errors become 500")
    await bank.remember("tech", "general", "errors are values")
    matches = await shop.recall("errors", reinforce=False)
    assert {hit.entry.body for hit in matches.hits} == {"errors become 400", "errors are values"}
    assert matches.left_off == {"other project": 1}
    assert len((await nowhere.recall("errors")).hits) == 3
    assert "errors become 500" not in (await shop.pages())["project-tech"]
    await store.aclose()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tool", "t", "c"), "use tech, project-tech or domain"),
        (("tech", " \n", "c"), "topic is empty"),
        (("tech", "t", " \n"), "content is empty"),
        (("tech", "t" * 201, "c"), "at most 200"),
        (("tech", "t", "c" * 100_001), "at most 100,000"),
    ],
)
async def test_bad_input_is_refused_and_changes_nothing(
    notes: Notes, arguments: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await notes.remember(*arguments)
    assert not (tmp_path / "k.sqlite3").exists()


async def test_too_many_or_too_long_tags_are_refused(notes: Notes) -> None:
    for tags in ([f"t{number}" for number in range(51)], ["t" * 101]):
        with pytest.raises(InvalidInput, match="shorten it"):
            await notes.remember("tech", "t", "c", tags=tags)
    with pytest.raises(InvalidInput, match="type"):
        await notes.recall("x", "tool")  # type: ignore[arg-type]


async def test_private_and_recalled_text_is_not_kept(notes: Notes, tmp_path: Path) -> None:
    with pytest.raises(NothingToKeep):
        await notes.remember("tech", "t", "<private>password</private>")
    receipt = await notes.remember(
        "tech", "t", "open <private>password</private>", examples=["<private>x</private>"]
    )
    assert receipt.entry.body == "open"
    assert receipt.entry.examples == ()

    def refuse() -> None:
        raise MemoryPaused("paused")

    paused = family(tmp_path, refuse=refuse)
    with pytest.raises(MemoryPaused):
        await paused.notes.remember("tech", "t", "c")
    await paused.aclose()


async def test_lone_surrogates_and_odd_characters_are_kept_as_far_as_they_can(notes: Notes) -> None:
    receipt = await notes.remember(
        "tech", "a\ud800b", "x\udfff\x00 🎂'; DROP TABLE entries; --", tags=["\ud800"]
    )
    assert (await notes.get(receipt.entry.ref)).body == "x\ufffd\x00 🎂'; DROP TABLE entries; --"
    assert await topics(notes, "drop table") == ["a\ufffdb"]
    assert await topics(notes, '"') == []
    assert await topics(notes, 'NEAR( "x* OR -') == ["a\ufffdb"]


async def test_a_note_is_edited_in_one_place_and_added_to(
    notes: Notes, knowledge: Knowledge
) -> None:
    ref = (await notes.remember("tech", "pool", "It has 20 connections.\nAsk Anna.")).entry.ref
    receipt = await notes.edit(
        ref, find="20", replacement="30", append="Since May.\n<private>secret</private>"
    )
    assert receipt.entry.body == "It has 30 connections.\nAsk Anna.\nSince May."
    assert await topics(notes, "30") == ["pool"]
    assert (
        await notes.edit(ref, find="\nSince May.")
    ).entry.body == "It has 30 connections.\nAsk Anna."
    for edit, reason in (
        ({}, "Nothing is to be changed"),
        ({"find": "20"}, "0 times in the note pool.*read the note"),
        ({"find": "n"}, "times in the note pool.*more of the text"),
        ({"find": "It has 30 connections.\nAsk Anna."}, "The content is empty"),
        ({"append": "x" * 100_001}, "too long"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            await notes.edit(ref, **edit)
    assert (await notes.get(ref)).body == "It has 30 connections.\nAsk Anna."
    await KnowledgeLifecycle(knowledge).undo("k3")
    await KnowledgeLifecycle(knowledge).undo("k2")
    assert (await notes.get(ref)).body == "It has 20 connections.\nAsk Anna."
    await notes.delete(ref)
    for missing in (ref, "nobody"):
        with pytest.raises(MemoryNotFound):
            await notes.edit(missing, append="x")


async def test_notes_are_listed_by_type_and_topic_and_counted(notes: Notes) -> None:
    for kind, topic in (("tech", "b"), ("domain", "c"), ("tech", "a")):
        await notes.remember(kind, topic, f"text {topic}", tags=[topic])  # type: ignore[arg-type]
    entries, total = await notes.listed(limit=2)
    assert [entry.title for entry in entries] == ["c", "a"]
    assert total == 3
    assert [entry.title for entry in (await notes.listed("tech", tags=["B"]))[0]] == ["b"]
    assert {entry.uses for entry in entries} == {0}


async def test_delete_and_restore(notes: Notes, knowledge: Knowledge) -> None:
    note = (await notes.remember("tech", "one", "text one")).entry
    await notes.delete(note.ref)
    assert await topics(notes, "text") == []
    with pytest.raises(InvalidInput, match="already"):
        await notes.delete(note.ref)
    await notes.restore(note.id)
    assert await topics(notes, "text") == ["one"]
    with pytest.raises(InvalidInput, match="not in the archive"):
        await notes.restore(note.ref)
    change = await notes.delete(note.ref)
    await notes.remember("tech", "one", "another")
    with pytest.raises(InvalidInput, match="has that name"):
        await notes.restore(note.ref)
    with pytest.raises(InvalidInput, match="has that name"):
        await KnowledgeLifecycle(knowledge).undo(change or "")
    with pytest.raises(MemoryNotFound):
        await notes.delete("nobody")


@pytest.mark.parametrize("change", ["k", "42", "kx", "k1x", "k99999999999999999999", "k-1", "k７"])
async def test_an_unknown_change_is_refused(knowledge: Knowledge, change: str) -> None:
    with pytest.raises(InvalidInput):
        await KnowledgeLifecycle(knowledge).undo(change)


async def test_an_entry_is_found_by_number_id_or_the_beginning_of_its_id(
    knowledge: Knowledge,
) -> None:
    note = (await knowledge.notes.remember("tech", "one", "x")).entry
    assert (
        (await knowledge.found(str(note.id)))[1] == (await knowledge.found(note.ref[:8]))[1] == note
    )
    with pytest.raises(MemoryNotFound):
        await knowledge.found("zzz")
    await knowledge.notes.remember("tech", "two", "y")
    with pytest.raises(InvalidInput, match="more of the id"):
        await knowledge.found("")


async def test_archived_notes_are_removed_after_their_time(knowledge: Knowledge) -> None:
    await knowledge.notes.delete((await knowledge.notes.remember("tech", "one", "x")).entry.ref)
    assert await cleaned(knowledge) == []
    assert (await figures(knowledge.store, NOTES)).archived == 1
    knowledge.clock.now += 91 * 86_400_000  # type: ignore[attr-defined]
    await knowledge.notes.remember("tech", "two", "y")
    await cleaned(knowledge, dry_run=True)
    assert (await figures(knowledge.store, NOTES)).archived == 1
    await cleaned(knowledge)
    assert (await figures(knowledge.store, NOTES)).archived == 0


async def test_a_clock_years_ahead_costs_neither_history_nor_entries(knowledge: Knowledge) -> None:
    first = await remembered(knowledge.notes, "one", "x")
    edited = await remembered(knowledge.notes, "one", "y")
    deleted_ref = (await knowledge.notes.remember("tech", "two", "gone")).entry.ref
    await knowledge.notes.delete(deleted_ref)
    ref = (await knowledge.refs.add("a long output")).entry.ref
    now = knowledge.clock.now  # type: ignore[attr-defined]
    knowledge.clock.now += 10 * 365 * 86_400_000  # type: ignore[attr-defined]
    for _ in range(3):
        assert await cleaned(knowledge) == []
    knowledge.clock.now = now  # type: ignore[attr-defined]
    assert (await knowledge.refs.get(ref))[1].body == "a long output"
    await knowledge.notes.restore(deleted_ref)
    await KnowledgeLifecycle(knowledge).undo(edited)
    await KnowledgeLifecycle(knowledge).undo(first)
    assert await topics(knowledge.notes) == ["two"]


async def test_one_upkeep_under_a_clock_years_ahead_costs_nothing_also_after_a_write(
    knowledge: Knowledge,
) -> None:
    first = await remembered(knowledge.notes, "one", "x")
    edited = await remembered(knowledge.notes, "one", "y")
    deleted_ref = (await knowledge.notes.remember("tech", "two", "gone")).entry.ref
    await knowledge.notes.delete(deleted_ref)
    ref = (await knowledge.refs.add("a long output")).entry.ref
    now = knowledge.clock.now  # type: ignore[attr-defined]
    knowledge.clock.now += 10 * 365 * 86_400_000  # type: ignore[attr-defined]
    await knowledge.notes.remember("tech", "three", "written under the wrong clock")
    assert await KnowledgeLifecycle(knowledge).keep_up(now) == 1
    knowledge.clock.now = now  # type: ignore[attr-defined]
    [by_upkeep] = [
        change
        for change in await KnowledgeLifecycle(knowledge).history("refs/short-term")
        if change.by == "upkeep"
    ]
    await KnowledgeLifecycle(knowledge).undo(by_upkeep.id)
    assert (await knowledge.refs.get(ref))[1].body == "a long output"
    await knowledge.notes.restore(deleted_ref)
    await KnowledgeLifecycle(knowledge).undo(edited)
    await KnowledgeLifecycle(knowledge).undo(first)
    assert sorted(await topics(knowledge.notes)) == ["three", "two"]


async def test_upkeep_deletes_what_was_deleted_last_after_its_time_though_nothing_is_written(
    knowledge: Knowledge,
) -> None:
    await knowledge.notes.delete((await knowledge.notes.remember("tech", "one", "x")).entry.ref)
    for days, archived in ((89, 1), (2, 0)):
        knowledge.clock.now += days * 86_400_000  # type: ignore[attr-defined]
        await KnowledgeLifecycle(knowledge).keep_up(knowledge.clock())
        assert (await figures(knowledge.store, NOTES)).archived == archived


async def test_reindex_merges_removes_and_can_be_undone(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    notes = knowledge.notes
    await notes.remember("tech", "pool", "Use a connection pool of twenty.\nAsk Anna.", tags=["db"])
    await notes.remember("tech", "pool?", "Use a connection pool of twenty!\nAsk Bert.")
    await notes.remember("tech", "port", "The server listens on port 8080.")
    await notes.remember("tech", "port.", "The server listens on port 8081.")
    await notes.remember(
        "tech", "pool!", "Use a connection pool of twenty\nAsk Anna", tags=["sql"], examples=["p"]
    )
    await notes.delete((await notes.remember("tech", "gone", "gone")).entry.ref)
    before = (tmp_path / "k.sqlite3").read_bytes()
    wal = (tmp_path / "k.sqlite3-wal").read_bytes()
    plan = await notes.reindex(dry_run=True)
    assert (tmp_path / "k.sqlite3").read_bytes() == before
    assert (tmp_path / "k.sqlite3-wal").read_bytes() == wal
    assert [(pair.older.title, pair.newer.title) for pair in plan.merged] == [("pool", "pool!")]
    assert {pair.differs for pair in plan.kept_apart} >= {"8080 against 8081"}
    assert plan.removed == 1
    assert plan.remaining == 4
    assert plan.change_id is None
    result = await notes.reindex()
    assert result.copy is not None
    assert sqlite3.connect(result.copy).execute("SELECT count(*) FROM entries").fetchone() == (6,)
    (merged_note,) = [hit.entry for hit in (await notes.recall("connection", tags=["sql"])).hits]
    assert merged_note.title == "pool!"
    assert merged_note.tags == ("sql", "db")
    assert merged_note.examples == ("p",)
    assert (await page(knowledge.store, NOTES, Filter(archived=True)))[1] == 1
    await KnowledgeLifecycle(knowledge).undo(result.change_id or "")
    assert sorted(await topics(notes)) == ["pool", "pool!", "pool?", "port", "port."]


async def test_what_is_taken_back_during_a_reindex_is_not_removed_for_good(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy that a reindex sets aside does not have it."""
    notes = knowledge.notes
    undo = KnowledgeLifecycle(knowledge).undo
    set_aside = knowledge.store.set_aside
    first = (await notes.remember("tech", "first", "an old text")).entry
    await notes.delete(first.ref)

    async def meanwhile() -> Path | None:
        copy = await set_aside()
        await undo(await remembered(notes, "second", "an acknowledged text"))
        await notes.restore(first.ref)
        await notes.delete((await notes.edit(first.ref, append="and more")).entry.ref)
        return copy

    monkeypatch.setattr(knowledge.store, "set_aside", meanwhile)
    assert (await notes.reindex()).removed == 0
    archive, _ = await page(knowledge.store, NOTES, Filter(archived=True))
    assert sorted(entry.title for entry in archive) == ["first", "second"]


async def test_a_merge_can_be_undone_after_another_reindex_and_after_a_later_change(
    knowledge: Knowledge,
) -> None:
    notes = knowledge.notes
    for topic in ("pool", "pool!"):
        await notes.remember("tech", topic, "Use a connection pool of twenty.")
    merge = (await notes.reindex()).change_id or ""
    second = await notes.reindex()
    assert second.removed == 0
    assert second.change_id is None
    later = await remembered(notes, "pool!", "Ask Bert.")
    with pytest.raises(InvalidInput, match=f"changed again after it, by {later}"):
        await KnowledgeLifecycle(knowledge).undo(merge)
    assert await topics(notes) == ["pool!"]
    await KnowledgeLifecycle(knowledge).undo(later)
    undoing = await KnowledgeLifecycle(knowledge).undo(merge)
    assert sorted(await topics(notes)) == ["pool", "pool!"]
    await KnowledgeLifecycle(knowledge).undo(undoing.id)
    assert await topics(notes) == ["pool!"]
    await KnowledgeLifecycle(knowledge).undo(merge)
    assert sorted(await topics(notes)) == ["pool", "pool!"]


async def test_a_merge_whose_note_is_removed_for_good_says_so_and_changes_nothing(
    knowledge: Knowledge,
) -> None:
    notes = knowledge.notes
    for topic in ("pool", "pool!"):
        await notes.remember("tech", topic, "Use a connection pool of twenty.")
    merge = (await notes.reindex()).change_id or ""
    knowledge.clock.now += 91 * 86_400_000  # type: ignore[attr-defined]
    assert (await notes.reindex()).removed == 1
    with pytest.raises(InvalidInput, match="1 entry left the archive for good"):
        await KnowledgeLifecycle(knowledge).undo(merge)
    assert await topics(notes) == ["pool!"]


async def test_an_undo_of_an_earlier_change_counts_as_a_later_one(knowledge: Knowledge) -> None:
    notes = knowledge.notes
    first = await remembered(notes, "pizza", "one")
    second = await remembered(notes, "pizza", "two")
    later_undoing = (await KnowledgeLifecycle(knowledge).undo(second)).id
    earlier_undoing = (await KnowledgeLifecycle(knowledge).undo(first)).id
    with pytest.raises(InvalidInput, match=f"changed again after it, by {earlier_undoing}"):
        await KnowledgeLifecycle(knowledge).undo(later_undoing)
    await KnowledgeLifecycle(knowledge).undo(earlier_undoing)
    await KnowledgeLifecycle(knowledge).undo(later_undoing)
    (note,) = (await notes.recall("pizza")).hits
    assert note.entry.body == "two"


async def test_changes_are_undone_one_after_the_other(knowledge: Knowledge) -> None:
    notes = knowledge.notes
    changes = [await remembered(notes, "t", text) for text in ("one", "two", "three")]
    for change, remaining in zip(reversed(changes), (["two"], ["one"], []), strict=True):
        await KnowledgeLifecycle(knowledge).undo(change)
        assert await texts(notes) == remaining
    with pytest.raises(InvalidInput):
        await KnowledgeLifecycle(knowledge).undo(changes[1])


async def test_pages_in_the_form_of_the_seed(notes: Notes) -> None:
    await notes.remember(
        "tech",
        "Rustの非同期",
        "`tokio` を使う。\n\n## 見出し",
        tags=["rust", "async"],
        examples=["let x;"],
    )
    await notes.remember("tech", "Hooks", "use them", examples=["```js\nf()\n```", "a ``` b"])
    await notes.recall("tokio")
    assert (await notes.pages())["tech"] == (
        f"{MARK}\n# Technical Knowledge\n\n"
        "## Rustの非同期\n*Tags: rust, async*\n*References: 1, Confidence: 1.00*\n\n`tokio` を使う。\n\n## 見出し\n\n"
        "### Examples:\n```\nlet x;\n```\n\n---\n\n"
        "## Hooks\n*References: 0, Confidence: 1.00*\n\nuse them\n\n"
        "### Examples:\n```js\nf()\n```\n\n````\na ``` b\n````\n\n---\n"
    )
    assert (await notes.pages())["domain"] == f"{MARK}\n# Domain Knowledge\n"


async def test_stable_pages_do_not_change_by_a_hundred_recalls(notes: Notes) -> None:
    for number in range(3):
        await notes.remember("domain", f"n{number}", "the same words")
    before = await notes.pages(stable=True)
    for _ in range(100):
        await notes.recall("words", limit=1)
    assert await notes.pages(stable=True) == before
    assert (await notes.pages())["domain"] != before["domain"]


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert fenced("a") == "```\na\n```"
    assert fenced("````\nx\n````") == "````\nx\n````"
    assert fenced("```\nx") == "````\n```\nx\n````"


def test_a_page_that_is_somebodys_own_is_not_replaced(tmp_path: Path) -> None:
    page_of_a_person = tmp_path / "domain.md"
    page_of_a_person.write_text("# mine\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="No page was written"):
        write_pages(tmp_path, {"tech": MARK, "domain": MARK})
    assert page_of_a_person.read_text(encoding="utf-8") == "# mine\n"
    assert not (tmp_path / "tech.md").exists()
    write_pages(tmp_path, {"domain": MARK}, force=True)
    stamp = page_of_a_person.stat().st_mtime_ns
    write_pages(tmp_path, {"domain": MARK})
    assert page_of_a_person.stat().st_mtime_ns == stamp


async def test_pages_are_kept_current_after_a_change_and_at_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_server.knowledge.notes.notes._PAGES_SECONDS", 0.02)
    folder = tmp_path / "pages"
    written = threading.Event()

    def publish(pages: Any) -> None:
        write_pages(folder, pages)
        written.set()

    knowledge = family(tmp_path, publish=publish)
    await knowledge.notes.remember("tech", "one", "first")
    assert await asyncio.to_thread(written.wait, 60)
    assert "first" in (folder / "tech.md").read_text(encoding="utf-8")
    await knowledge.notes.remember("tech", "one", "second")
    await knowledge.aclose()
    assert "second" in (folder / "tech.md").read_text(encoding="utf-8")


async def test_a_restore_brings_back_what_is_newer_or_gone_there(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    notes = knowledge.notes
    unchanged, deleted, edited = [
        (await notes.remember("tech", topic, f"old {topic}")).entry
        for topic in ("kept", "gone", "edited")
    ]
    await knowledge.store.copy_to(tmp_path / "copy.sqlite3")
    await notes.delete(deleted.ref)
    await notes.remember("tech", "edited", "new text")
    copy = tmp_path / "copy.sqlite3"
    assert await restored(knowledge, copy, dry_run=True) == 1
    assert await restored(knowledge, copy) == 1
    assert sorted(await texts(notes)) == ["new text", "old gone", "old kept"]
    empty = family(tmp_path / "empty")
    assert await restored(empty, copy) == 3
    assert len(await topics(empty.notes, "old")) == 3
    await notes.remember("tech", "later", "later")
    assert await restored(knowledge, copy, overwrite=True) == 3
    assert sorted(await topics(notes)) == ["edited", "gone", "kept"]
    for broken in (b"", b"not a database at all" * 100):
        copy.write_bytes(broken)
        with pytest.raises(StorageError):
            await restored(knowledge, copy, overwrite=True)
    assert len(await topics(notes)) == 3
    await empty.aclose()
    assert unchanged.body == "old kept"
    assert edited.uses == 0


async def test_a_restore_that_overwrites_can_be_undone(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    notes = knowledge.notes
    copy = tmp_path / "copy.sqlite3"
    await notes.remember("tech", "kept", "text")
    await knowledge.store.copy_to(copy)
    await notes.remember("tech", "later", "text")
    await restored(knowledge, copy, overwrite=True)
    assert await topics(notes) == ["kept"]
    ((_, overwriting),) = await knowledge.store.operations(limit=1)
    assert overwriting.op == "overwrite"
    undoing = await KnowledgeLifecycle(knowledge).undo(change_id(overwriting.seq))
    assert sorted(await topics(notes)) == ["kept", "later"]
    await KnowledgeLifecycle(knowledge).undo(undoing.id)
    assert await topics(notes) == ["kept"]
    for copy_set_aside in (tmp_path / "archive").iterdir():
        copy_set_aside.unlink()
    ((_, overwriting),) = await knowledge.store.operations(limit=1)
    with pytest.raises(InvalidInput, match="too long ago"):
        await KnowledgeLifecycle(knowledge).undo(change_id(overwriting.seq))


async def test_what_came_after_a_restore_stays_when_the_restore_is_undone(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    notes = knowledge.notes
    copy = tmp_path / "copy.sqlite3"
    restorable = {
        topic: (await notes.remember("tech", topic, f"old {topic}")).entry
        for topic in ("a", "b", "c", "d")
    }
    await knowledge.store.copy_to(copy)
    await notes.remember("tech", "b", "of before")
    await notes.remember("tech", "before", "of before")
    await restored(knowledge, copy, overwrite=True)
    ((_, overwriting),) = await knowledge.store.operations(limit=1)
    knowledge.clock.now += 1_000  # type: ignore[attr-defined]
    await notes.remember("tech", "a", "edited after")
    await notes.remember("tech", "after", "of after")
    await notes.remember("tech", "before", "of after too")
    await notes.delete(restorable["b"].ref)
    await notes.delete(restorable["c"].ref)
    await notes.reindex()  # what was deleted is gone for good there
    await notes.delete(restorable["d"].ref)
    undoing = await KnowledgeLifecycle(knowledge).undo(change_id(overwriting.seq))

    async def texts_by_topic() -> dict[str, str]:
        matches = await notes.recall()
        return {hit.entry.title: hit.entry.body for hit in matches.hits}

    after = {"a": "edited after", "after": "of after", "before": "of after too"}
    assert await texts_by_topic() == after
    assert (await notes.recall("edited")).total == 1
    knowledge.clock.now += 1_000  # type: ignore[attr-defined]
    await notes.delete((await notes.recall("edited")).hits[0].entry.ref)
    await KnowledgeLifecycle(knowledge).undo(undoing.id)
    assert await texts_by_topic() == {topic: after[topic] for topic in ("after", "before")}


async def test_what_came_after_a_restore_stays_although_its_time_is_earlier(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    notes = knowledge.notes
    copy = tmp_path / "copy.sqlite3"
    await notes.remember("tech", "a", "first")
    edited = await notes.remember("tech", "a", "second")
    await notes.remember("tech", "b", "first")
    await knowledge.store.copy_to(copy)
    for topic in ("a", "b"):
        await notes.remember("tech", topic, "before the restore")
    await restored(knowledge, copy, overwrite=True)
    ((_, overwriting),) = await knowledge.store.operations(limit=1)
    assert edited.change_id is not None
    await KnowledgeLifecycle(knowledge).undo(edited.change_id)
    knowledge.clock.now -= 1_000_000  # type: ignore[attr-defined]
    await notes.remember("tech", "b", "by a clock set back")
    await KnowledgeLifecycle(knowledge).undo(change_id(overwriting.seq))
    assert sorted(await texts(notes)) == ["by a clock set back", "first"]
    assert await topics(notes, "first") == ["a"]
    assert await topics(notes, "clock") == ["b"]


@pytest.mark.parametrize("killed", [False, True])
async def test_an_undo_of_a_restore_that_breaks_off_changes_nothing_and_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    knowledge = family(tmp_path)
    copy = tmp_path / "copy.sqlite3"
    await knowledge.notes.remember("tech", "kept", "text")
    await knowledge.store.copy_to(copy)
    await knowledge.notes.remember("tech", "before", "text")
    await restored(knowledge, copy, overwrite=True)
    await knowledge.notes.remember("tech", "after", "text")
    (_, (_, overwriting)) = await knowledge.store.operations(limit=2)
    assert overwriting.op == "overwrite"
    if killed:
        await knowledge.aclose()
        undo = [
            sys.executable,
            "-c",
            UNDO_THAT_IS_KILLED,
            str(tmp_path),
            change_id(overwriting.seq),
        ]
        assert (await asyncio.to_thread(subprocess.run, undo, timeout=60)).returncode == 9
        knowledge = family(tmp_path)
    else:
        with monkeypatch.context() as patched:
            patched.setattr(lifecycle, "as_later", full)
            with pytest.raises(StorageError, match="the disk is full"):
                await KnowledgeLifecycle(knowledge).undo(change_id(overwriting.seq))
    assert sorted(await topics(knowledge.notes)) == ["after", "kept"]
    assert "undo" not in [operation.op for _, operation in await knowledge.store.operations()]
    await KnowledgeLifecycle(knowledge).undo(change_id(overwriting.seq))
    assert sorted(await topics(knowledge.notes)) == ["after", "before", "kept"]
    await knowledge.aclose()


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


UNDO_THAT_IS_KILLED = """
import asyncio, os, pathlib, sys
from memory_server.knowledge import lifecycle
from memory_server.knowledge.policies import Options
from memory_server.knowledge.service import Knowledge
from memory_server.storage.entries.sqlite_store import SqliteStore

clock = lambda: 1_750_000_000_000
lifecycle.as_later = lambda *_, **__: os._exit(9)
knowledge = Knowledge(SqliteStore(pathlib.Path(sys.argv[1], "k.sqlite3"), clock), clock, Options())
asyncio.run(lifecycle.KnowledgeLifecycle(knowledge).undo(sys.argv[2]))
"""


async def test_what_another_store_held_comes_back_beside_what_came_after(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    """Its numbers are those of other entries here."""
    notes = knowledge.notes
    copy = tmp_path / "copy.sqlite3"
    my_notes = [(await notes.remember("tech", topic, f"my {topic}")).entry for topic in ("a", "b")]
    other_store = family(tmp_path / "other")
    their_note = (await other_store.notes.remember("tech", "theirs", "their text")).entry
    await other_store.store.copy_to(copy)
    await other_store.aclose()
    await restored(knowledge, copy, overwrite=True)
    ((_, overwriting),) = await knowledge.store.operations(limit=1)
    assert their_note.id == my_notes[0].id
    await notes.delete(their_note.ref)
    await notes.reindex()
    await KnowledgeLifecycle(knowledge).undo(change_id(overwriting.seq))
    assert sorted(await topics(notes)) == ["a", "b"]


@pytest.mark.parametrize("topic", ["\u200b", "\u00ad", " \u200b \u00ad ", "\ufeff"])
async def test_a_topic_that_nobody_can_see_is_refused_as_an_empty_one(
    notes: Notes, topic: str
) -> None:
    with pytest.raises(InvalidInput, match="The topic is empty"):
        await notes.remember("tech", topic, "text")
