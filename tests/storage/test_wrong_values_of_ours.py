"""An odd value in what this program stored costs its record or change: the others are used, and it is kept."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from interchange.test_wrong_values import WRONG_VALUES, _changed, _paths
from postgres import postgres, tenant_of_its_own
from sample_memories import NOW, memory, trigger
from store_on_disk import open_store, private

from memory_server.conversations import change_forms, codec, record_lines
from memory_server.conversations.change_forms import change_json
from memory_server.conversations.changes import (
    Added,
    ChatMoved,
    CleanedUp,
    Edited,
    Forgotten,
    Muted,
    Pinned,
    Reinforced,
    Restored,
)
from memory_server.conversations.contents import Contents
from memory_server.kernel import json_text, times
from memory_server.kernel.errors import StorageError
from memory_server.lore.chat_state import ChatState, Effect, Firing
from memory_server.lore.memory import TriggerRemoved, TriggerSet
from memory_server.storage.json_store.examination import examine
from memory_server.storage.json_store.history_files import line_of
from memory_server.storage.postgres.conversations import (
    PostgresStore,
    commit_of,
    packed,
    state_of,
    unusable_records,
)
from memory_server.storage.postgres.log import Line, News
from memory_server.storage.postgres.recall_rows import RecallRows

pytestmark = pytest.mark.anyio

_CHAT = ChatState(3, NOW, {"t": Firing(1, NOW, (0, NOW), Effect(1, 2, False), Effect(2, 4, True))})
CHANGES = [
    change_json(change)
    for change in (
        Added(memory("m")),
        Reinforced("a", 1.0, 2.0),
        Edited(memory("a", text="user: new"), memory("a")),
        Forgotten(memory("gone"), "deleted"),
        Restored(memory("back"), "deleted"),
        Pinned("a"),
        Muted("a", (), ("here",)),
        TriggerSet(trigger("t"), trigger("t", source="false")),
        TriggerRemoved(trigger("u")),
        CleanedUp(NOW, NOW - 1),
        ChatMoved("s", None, _CHAT),
    )
]
"""A change of each kind."""
_GOOD = [change_json(Added(memory(name, text=f"user: {name}"))) for name in ("a", "b", "c")]
_ODD = {"type": "pinned", "id": ["a"]}
_NEWER = {"type": "of a later version", "id": "a"}
_LONG = codec.long_term_json(trigger("one"))


def _cases(rng: random.Random, record: Any, examples: int) -> list[Any]:
    """Copies of a record with an odd value in it: so many of them; 0: all."""
    cases = [(path, value) for path in _paths(record) for value in WRONG_VALUES]
    if examples:
        cases = rng.sample(cases, min(examples, len(cases)))
    # As it is read: JSON has no NaN.
    return [
        json_text.loads(json_text.dumps(_changed(record, path, value))) for path, value in cases
    ]


def _write_journal(folder: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Put these lines after the header of the journal."""
    path = private(folder, "journal.jsonl")
    header = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(header + b"".join(map(line_of, lines)))


def _line(version: int, changes: Any) -> dict[str, Any]:
    at = "2026-06-21T00:00:00.000Z"
    return {"v": 1, "seq": version, "at": at, "by": "test", "changes": changes}


async def _begun(folder: Path) -> None:
    store = open_store(folder)
    await store.update("chat", lambda _: ([Added(memory("first"))], None), by="test")


async def test_a_change_that_cannot_be_used_costs_itself_and_its_line_is_kept(
    tmp_path: Path,
) -> None:
    await _begun(tmp_path)
    odd_line = _line(1, [_GOOD[0], _ODD, _GOOD[1]])
    _write_journal(tmp_path, [odd_line, _line(2, [_GOOD[2]])])
    findings = [found.what for found in examine(tmp_path, tmp_path / "chat", NOW)]
    assert any("1 change in" in what and "journal.jsonl" in what for what in findings)

    store = open_store(tmp_path)
    assert [*(await store.read("chat")).short_term] == ["a", "b", "c"]
    await store.compact("chat")
    assert [*(await open_store(tmp_path).read("chat")).short_term] == ["a", "b", "c"]
    for days in (10, 400):
        await store.compact("chat", now_ms=NOW + days * 86_400_000)
        history = private(tmp_path, "history.jsonl").read_bytes()
        assert line_of(odd_line if days == 10 else _line(1, [_ODD])) in history
        findings = [found.what for found in examine(tmp_path, tmp_path / "chat", NOW)]
        assert any("1 change in" in what and "history.jsonl" in what for what in findings)
        assert (b"user: a" in history) == (days == 10)  # texts end with the history
    assert line_of(_line(2, [_GOOD[2]])) not in history


async def test_a_change_of_a_newer_program_is_folded_by_that_program(tmp_path: Path) -> None:
    await _begun(tmp_path)
    newer_line = _line(1, [_GOOD[0], _NEWER, _GOOD[1]])
    _write_journal(tmp_path, [newer_line])
    store = open_store(tmp_path)
    await store.update("chat", lambda _: ([Added(memory("later"))], None), by="test")
    await store.compact("chat", now_ms=NOW + 400 * 86_400_000)
    assert line_of(newer_line) in private(tmp_path, "journal.jsonl").read_bytes()
    assert {*(await open_store(tmp_path).read("chat")).short_term} == {"a", "b", "later"}


async def test_a_change_of_a_newer_program_stays_in_the_database_until_that_folds_it() -> None:
    with tenant_of_its_own() as (database, tenant):
        store = PostgresStore(database, tenant, lambda: NOW)
        await store.update("chat", lambda _: ([Added(memory("a"))], None), by="test")
        _put_changes(tenant, [_GOOD[2], _NEWER])
        older = PostgresStore(database, tenant, lambda: NOW)
        with pytest.raises(StorageError, match="of a newer memory-server: update this one"):
            await older.compact("chat", now_ms=NOW + 400 * 86_400_000)
        await older.expire(NOW + 400 * 86_400_000)
        assert {*(await older.read("chat")).short_term} == {"a", "c"}
        with psycopg.connect(postgres()) as connection:
            query = "select count(*) from memory_server.commits join memory_server.partitions using (place)"
            [(count,)] = connection.execute(f"{query} where tenant = %s", [tenant])
        assert count == 2


@pytest.mark.parametrize("examples", [20, pytest.param(0, marks=pytest.mark.full)])
@pytest.mark.parametrize("number", range(len(CHANGES)))
async def test_an_odd_value_in_a_change_of_the_journal_costs_only_that_change(
    tmp_path: Path, number: int, examples: int
) -> None:
    rng = random.Random(number)
    for case, change in enumerate(_cases(rng, CHANGES[number], examples)):
        unusable: list[Any] = []
        read_changes, _more = change_forms.changes_of([change], unusable=unusable)
        assert len(read_changes) + len(unusable) == 1
        folder = tmp_path / str(case)
        await _begun(folder)
        _write_journal(folder, [_line(1, [_GOOD[0], change, _GOOD[1]]), _line(2, [_GOOD[2]])])
        store = open_store(folder)
        await store.update("chat", lambda _: ([Added(memory("later"))], None), by="test")
        await store.compact("chat")
        state = await open_store(folder).read("chat")
        assert {"a", "b", "c", "later"} <= {*state.short_term}, change
        assert await store.archive("chat") is not None
        named = any(
            "cannot be used" in found.what for found in examine(folder, folder / "chat", NOW)
        )
        assert named == bool(unusable), change


@pytest.mark.parametrize("examples", [30, pytest.param(0, marks=pytest.mark.full)])
async def test_an_odd_value_in_a_line_of_the_journal_costs_only_that_line(
    tmp_path: Path, examples: int
) -> None:
    lines = [
        _line(1, [_GOOD[0]]),
        _line(2, [_GOOD[1]]),
        {"v": 1, "edited": {"short-term-memory.json": None}},
        _line(3, [_GOOD[2]]),
    ]
    rng = random.Random(1)
    cases = [(path, value) for path in _paths(lines[1:3]) for value in WRONG_VALUES]
    cases = [(path, value) for path, value in cases if len(path) < 3 or path[0] == 1]
    if examples:
        cases = rng.sample(cases, examples)
    for case, (path, value) in enumerate(cases):
        folder = tmp_path / str(case)
        await _begun(folder)
        changed = _changed(lines[1:3], path, value)
        _write_journal(
            folder, [lines[0], *filter(lambda line: isinstance(line, dict), changed), lines[3]]
        )
        store = open_store(folder)
        await store.update("chat", lambda _: ([Added(memory("later"))], None), by="test")
        await store.compact("chat")
        await store.compact("chat", now_ms=NOW + 400 * 86_400_000)
        state = await open_store(folder).read("chat")
        assert {"a", "c", "later"} <= {*state.short_term}, (path, repr(value)[:60])
        assert await store.history("chat") is not None
        assert [*examine(folder, folder / "chat", NOW)]


async def test_records_that_cannot_be_used_stay_in_the_database_and_are_named() -> None:
    with tenant_of_its_own() as (database, tenant):
        store = PostgresStore(database, tenant, lambda: NOW)
        good = [Added(memory(name)) for name in ("a", "b")]
        await store.update(
            "chat", lambda _: ([*good, TriggerSet(trigger("t"), None)], None), by="test"
        )
        await store.compact("chat")
        short = [codec.short_term_json(memory(name)) for name in ("a", "b")]
        fields = {
            "shortTerm": [short[0], short[1] | {"timestamp": "never"}, 7],
            "longTerm": [_LONG, _LONG | {"name": "odd", "trigger": []}],
            "lastCleanup": [],
        }
        _put_snapshot(tenant, fields)
        _put_changes(tenant, [_GOOD[2], _ODD])
        for is_compacted in (False, True, True):
            fresh = PostgresStore(database, tenant, lambda: NOW)
            state = await fresh.read("chat")
            assert {*state.short_term} == {"a", "c"}
            assert {*state.long_term} == {"one"}
            kept = [unusable.record for unusable in state.unusable]
            assert all(record in kept for record in (fields["shortTerm"][1], 7, _ODD)), is_compacted
            assert len(kept) == 4
            with psycopg.connect(postgres()) as connection:
                [(name, named)] = unusable_records(connection, tenant)
            assert (name, len(named)) == ("chat", 4)
            await fresh.compact("chat", now_ms=NOW + 400 * 86_400_000)
        await fresh.update("chat", lambda _: ([Added(memory("later"))], None), by="test")
        assert (
            "later" in (await PostgresStore(database, tenant, lambda: NOW).read("chat")).short_term
        )

        def erased(record: Any) -> bool:
            return bool(record == _ODD)

        await fresh.compact("chat", erased=erased)
        state = await PostgresStore(database, tenant, lambda: NOW).read("chat")
        assert len(state.unusable) == 3


def _put_snapshot(tenant: str, fields: Any) -> None:
    with psycopg.connect(postgres()) as connection:
        connection.execute(
            "update memory_server.partitions set snapshot = %b where tenant = %s",
            [zlib.compress(json_text.dumps(fields)), tenant],
        )


def _put_changes(tenant: str, changes: Any) -> None:
    """Add a commit to the one conversation of a tenant."""
    with psycopg.connect(postgres()) as connection:
        connection.execute(
            "with moved as (update memory_server.partitions set version = version + 1 where tenant = %s "
            "returning place, version) insert into memory_server.commits "
            "(place, version, token, at_ms, by, archival, changes) "
            "select place, version, gen_random_uuid(), 1, 'test', true, %s::json from moved",
            [tenant, json_text.dumps(changes).decode()],
        )


@pytest.mark.parametrize("examples", [300, pytest.param(0, marks=pytest.mark.full)])
def test_an_odd_value_in_a_snapshot_of_the_database_costs_only_its_record(examples: int) -> None:
    fields = {
        "shortTerm": [codec.short_term_json(memory(name)) for name in ("a", "b")],
        "longTerm": [_LONG],
        "lastCleanup": NOW,
        "chats": {"s": change_forms.chat_state_json(_CHAT)},
    }
    line = Line(2, NOW, "test", json_text.dumps([_GOOD[2]]).decode())
    for changed in _cases(random.Random(2), fields, examples):
        snapshot = zlib.compress(json_text.dumps(changed))
        state = state_of("chat", News(2, [line], base=1, snapshot=snapshot))
        assert "c" in state.short_term
        records = 0
        for key in ("shortTerm", "longTerm"):
            records += len(changed[key]) if isinstance(changed[key], list) else 1
        assert len(state.short_term) + len(state.long_term) + len(state.unusable) == records + 1
        again = state_of("chat", News(2, [], base=2, snapshot=packed(state)))
        assert again.short_term == state.short_term
        assert again.long_term == state.long_term
        assert [kept.record for kept in again.unusable] == [kept.record for kept in state.unusable]


@pytest.mark.parametrize("value", WRONG_VALUES, ids=lambda value: repr(value)[:20])
def test_a_commit_of_the_database_is_read_whatever_stands_for_its_changes(value: Any) -> None:
    commit = commit_of(Line(2, NOW, "test", json_text.dumps(value).decode()))
    assert commit.changes == ()


@pytest.mark.parametrize("examples", [300, pytest.param(0, marks=pytest.mark.full)])
def test_an_odd_value_in_a_record_of_a_backup_costs_only_that(examples: int) -> None:
    written = Contents("chat", (memory("a"), memory("b")), (trigger("one"), trigger("two")), NOW)
    lines = list(map(json_text.load_object, record_lines.conversation_lines(written)))
    others = Contents("others", (memory("other"),))
    for changed in _cases(random.Random(3), {"rows": lines}, examples):
        rows = changed["rows"]
        if (
            not isinstance(rows, list)
            or not rows
            or not all(isinstance(row, dict) and row for row in rows)
        ):
            continue  # such a line is not a JSON object, so the file is set aside whole
        if not all(row.keys() & {"short", "long", "conversation"} for row in rows):
            continue  # a line of another kind is no record
        named = rows[0].get("conversation")
        if isinstance(named, str) and named != "chat":
            continue  # that is another conversation, or none
        file = [
            record_lines.first_line(NOW),
            *(json_text.dumps(row) + b"\n" for row in rows),
            *record_lines.conversation_lines(others),
            record_lines.last_line(2),
        ]
        counts = [rows[0].get(name) for name in ("shortTerm", "longTerm")]
        if counts != [2, 2] and any(type(count) is int for count in counts if count != 2):
            continue  # it says that lines are missing
        first, second = record_lines.parse(file)
        assert second == others
        count = len(first.short_term) + len(first.long_term)
        assert count + len(first.unusable) == 4
        assert len(first.unusable) == len(first.left_out) <= 1
        again = [*record_lines.conversation_lines(first)]
        assert len(again) == len(rows), "nothing is lost when the backup is written again"


@pytest.mark.parametrize("value", ["7", "not JSON", '{"at": []}', "[]", '{"at": 1}'])
def test_a_line_about_a_recall_that_cannot_be_used_costs_itself(value: str) -> None:
    line = {"at": "2026-06-21T00:00:00.000Z", "conversation": "chat", "id": "r"}
    with tenant_of_its_own() as (database, tenant):
        rows = RecallRows(database, tenant)
        rows.append(line)
        with psycopg.connect(postgres()) as connection:
            connection.execute(
                "insert into memory_server.all_recalls(tenant, conversation, line) values (%s, %s, %s)",
                [tenant, "chat", value],
            )
        rows.append({**line, "id": "s"})
        assert [found["id"] for found in rows.lines()] == ["r", "s"]
        rows.rewrite(lambda present: present)
        assert [found["id"] for found in rows.lines()] == ["r", "s"]


@pytest.mark.parametrize("value", WRONG_VALUES, ids=lambda value: repr(value)[:20])
async def test_an_odd_value_in_the_note_of_a_conversation_costs_only_itself(
    tmp_path: Path, value: Any
) -> None:
    await _begun(tmp_path)
    path = private(tmp_path, "conversation.json")
    whole = json_text.load_object(path.read_bytes()) | {"chats": {"s": CHANGES[-1]["after"]}}
    for changed in [_changed(whole, place, value) for place in _paths(whole) if place != ("id",)]:
        path.write_bytes(json_text.dumps(changed))
        store = open_store(tmp_path)
        state = await store.read("chat")
        assert "first" in state.short_term
        assert state.last_cleanup_ms is None or times.iso(state.last_cleanup_ms)
        assert [*examine(tmp_path, tmp_path / "chat", NOW)]
