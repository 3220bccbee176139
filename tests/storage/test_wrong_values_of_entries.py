"""An odd value in a stored entry costs that entry: the others are used, it is named, and it stays as it is."""

from __future__ import annotations

import json
import math
import random
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from entries_held import get, page, search
from interchange.test_wrong_values import WRONG_VALUES
from postgres import postgres
from postgres_entries import entries_of_its_own
from storage.test_entry_store_contract import NOTES, NOW, commit, entry, opened, undo

from memory_server.kernel.errors import InvalidInput
from memory_server.knowledge.entry import FIELDS, LISTS, Filter, Query
from memory_server.knowledge.ports import EntryStore, ScopeView
from memory_server.storage.entries.markdown_folder import MarkdownFolder

pytestmark = pytest.mark.anyio
JSON_COLUMNS = (*LISTS, "metadata")
_UNCHANGED = ("id", "archived_ms", "version", "ref")
"""Fields by which a row is known, or which the archive gives a meaning."""


def _cases() -> list[tuple[str, Any]]:
    """Each column of an entry with each odd value that SQLite can keep there."""
    cases = []
    for name in FIELDS:
        for value in WRONG_VALUES:
            if name in _UNCHANGED or value == "\ud800":
                continue
            if name in JSON_COLUMNS:
                cases += [(name, json.dumps(value))] if _is_json(value) else []
            elif isinstance(value, str | int | float | None) and value != 10**30:
                cases.append((name, value))
        if name not in JSON_COLUMNS:
            cases.append((name, b"\x01\x02"))
    return [case for case in cases if case[0] not in _UNCHANGED]


def _is_json(value: Any) -> bool:
    """Whether a value has a form in JSON; a text that is not JSON is damage of the file."""
    return value != "\ud800" and not (isinstance(value, float) and not math.isfinite(value))


async def _begun(folder: Path) -> tuple[Path, list[int]]:
    """A file of three notes, of which the second was changed once; its path, and their numbers."""
    store = opened("file", folder)
    ids = []
    for name in ("apple", "berry", "cherry"):
        note = entry(f"text about {name}", title=name, tags=("fruit", name), metadata={"a": 1})
        committed = await commit(store, note)
        ids.append(committed.entries[0].id)
    await commit(store, replace(committed.entries[0], id=ids[2], body="cherry, changed"))
    await store.aclose()
    path = store.place
    assert path is not None
    return path, ids


def _put(path: Path, entry_id: int, column: str, value: Any) -> list[Any] | None:
    """Put a value into a row; the row, or None where the database refuses the value."""
    connection = sqlite3.connect(path)
    try:
        with connection:
            connection.execute(f"UPDATE entries SET {column} = ? WHERE id = ?", (value, entry_id))
        return list(
            connection.execute("SELECT * FROM entries WHERE id = ?", (entry_id,)).fetchone()
        )
    except sqlite3.IntegrityError:
        return None
    finally:
        connection.close()


def _row(path: Path, entry_id: int) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return list(
            connection.execute("SELECT * FROM entries WHERE id = ?", (entry_id,)).fetchone()
        )
    finally:
        connection.close()


async def _others_are_used(store: EntryStore, ids: list[int]) -> bool:
    """Whether the entry is used, after a look in each way; the others must be."""
    entries, _total = await page(store, NOTES, Filter())
    present = {stored.id for stored in entries}
    assert {ids[0], ids[2]} <= present
    matches = await search(store, NOTES, Query("text about apple berry cherry"))
    assert {ids[0], ids[2]} & {hit.entry.id for hit in matches.hits}
    tagged, _total = await page(store, NOTES, Filter(tags=("apple",)))
    assert ids[0] in {stored.id for stored in tagged}
    await store.read(NOTES, lambda view: view.shares(Query("text about apple")))
    await store.read(NOTES, lambda view: view.figures())
    await store.read(NOTES, lambda view: view.alike("text about apple", Filter(), 3))
    return ids[1] in present


@pytest.mark.parametrize("examples", [60, pytest.param(0, marks=pytest.mark.full)])
async def test_an_odd_value_in_a_row_costs_only_its_entry(tmp_path: Path, examples: int) -> None:
    cases = _cases()
    for number, (column, value) in enumerate(
        random.Random(5).sample(cases, examples) if examples else cases
    ):
        folder = tmp_path / str(number)
        path, ids = await _begun(folder)
        row = _put(path, ids[1], column, value)
        if row is None:
            continue
        store = opened("file", folder)
        is_used = await _others_are_used(store, ids)
        named = any(f"entry {ids[1]}:" in found.what for found in await store.examine())
        assert named != is_used, (column, repr(value)[:60])
        first = await get(store, NOTES, id=ids[0])
        assert first is not None
        changed = await commit(store, replace(first, body="changed"))
        await undo(store, changed.seq)
        if not is_used:
            assert _row(path, ids[1]) == row, (column, repr(value)[:60])
        await store.aclose()


def _look_back(view: ScopeView, ids: list[int]) -> None:
    """Ask a scope for all that it knows of the past."""
    view.former_entries()
    view.former_texts(ids)
    view.changed_since(0)
    view.changed_after(ids[2], 1)


@pytest.mark.parametrize("examples", [20, pytest.param(0, marks=pytest.mark.full)])
async def test_an_odd_value_in_the_history_of_entries_costs_only_that(
    tmp_path: Path, examples: int
) -> None:
    cases = [
        (table, column, json.dumps(value))
        for table, column in (
            ("changes", "before"),
            ("operations", "detail"),
            ("operations", "caller"),
            ("operations", "entries"),
        )
        for value in (
            *WRONG_VALUES,
            *({name: value} for name in FIELDS for value in (5, [], {}, None)),
        )
        if _is_json(value)
    ]
    for number, (table, column, value) in enumerate(
        random.Random(6).sample(cases, examples) if examples else cases
    ):
        folder = tmp_path / str(number)
        path, ids = await _begun(folder)
        connection = sqlite3.connect(path)
        with connection:
            key = "operation" if table == "changes" else "seq"
            connection.execute(
                f"UPDATE {table} SET {column} = ? WHERE {key} = "
                f"(SELECT max({key}) FROM {table}) AND {column} NOTNULL",
                (value,),
            )
        connection.close()
        store = opened("file", folder)
        assert await _others_are_used(store, ids)
        await store.read(NOTES, partial(_look_back, ids=ids))
        assert await store.operations(NOTES)
        assert await store.examine()
        with suppress(InvalidInput):  # what is not kept any more cannot be undone
            await undo(store, 4)
        third = await get(store, NOTES, id=ids[2])
        assert third is not None
        await store.aclose()


async def test_a_row_of_the_database_with_a_value_of_a_wrong_kind_costs_its_entry() -> None:
    import psycopg

    with entries_of_its_own() as store:
        ids = []
        for name in ("apple", "berry", "cherry"):
            note = entry(f"text about {name}", title=name, tags=("fruit", name))
            ids.append((await commit(store, note)).entries[0].id)
        for column, value in (("tags", "7"), ("metadata", "[]"), ("examples", "not JSON")):
            with psycopg.connect(postgres()) as connection:
                connection.execute(
                    f"update memory_server.all_entries set {column} = %s where tenant = %s and id = %s",
                    [value, store.tenant, ids[1]],
                )
            assert not await _others_are_used(store, ids)
            [finding] = [found.what for found in await store.examine() if "kind" in found.what]
            assert f"entry {ids[1]}:" in finding
        await store.aclose()


@pytest.mark.parametrize(
    ("column", "value", "stays"),
    [
        ("title", "usual", True),
        ("tags", "7", True),
        ("metadata", "[]", True),
        ("created_ms", "text", False),
        ("title", b"\x01", False),
    ],
)
async def test_an_entry_with_a_wrong_value_does_not_stop_a_copy_into_a_database(
    tmp_path: Path, column: str, value: Any, stays: bool
) -> None:
    path, ids = await _begun(tmp_path)
    row = _put(path, ids[1], column, value)
    with entries_of_its_own() as store:
        assert await store.adopt(path)
        is_used = await _others_are_used(store, ids)
        assert is_used == (column == "title" and stays)
        named = any(f"entry {ids[1]}:" in found.what for found in await store.examine())
        assert named == (stays and not is_used)
        await store.aclose()
    assert _row(path, ids[1]) == row


def _files() -> Iterator[tuple[str, bool]]:
    """Front matter, and whether it is that of an entry."""
    yield "tags: {a: b}", False
    yield "tags: [[a], b]", False
    yield "tags: [{a: b}]", False
    yield "metadata: text", False
    yield "metadata: [a]", False
    yield "key: [a]", False
    yield "key: {a: b}", False
    yield "metadata:", True
    yield "metadata: null", True
    yield "tags:", True
    yield "created_at: [never]", True


@pytest.mark.parametrize(("field", "is_entry"), [*_files()])
async def test_a_field_of_a_wrong_kind_costs_its_file_which_is_named_and_left(
    tmp_path: Path, field: str, is_entry: bool
) -> None:
    folder = MarkdownFolder(tmp_path / "memory", locks=tmp_path / "locks", scope=NOTES)
    folder.place.mkdir()
    path = folder.place / "odd.md"
    path.write_text(f"---\n{field}\n---\nbody\n", "utf-8")
    stored = await commit(folder, entry("body", key="other"))
    await commit(folder, replace(stored.entries[0], body="changed", updated_ms=NOW + 1))
    entries, _total = await page(folder, NOTES, Filter())
    assert {found.key for found in entries} == ({"odd", "other"} if is_entry else {"other"})
    named = [found.what for found in await folder.examine() if "odd.md" in found.what]
    assert bool(named) != is_entry
    assert path.read_text("utf-8") == f"---\n{field}\n---\nbody\n"
    await folder.aclose()
