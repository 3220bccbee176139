"""Every bound of a record holds at every door (tool, Python API, import, restore, edit by hand) with one sentence each;
what is just within it is taken, and what is not takes nothing else with it."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sample_memories import NOW, memory, trigger
from store_on_disk import commit, open_store, private, reopened

from memory_server.config import Settings
from memory_server.conversations import codec, record_lines
from memory_server.conversations.changes import Added
from memory_server.conversations.contents import Contents
from memory_server.conversations.model import (
    MAX_EXTRA_CHARS,
    MAX_ID_CHARS,
    MAX_PROMPT_CHARS,
    MAX_TEXT_CHARS,
    MAX_TRIGGER_CHARS,
    ShortTermMemory,
    excess,
)
from memory_server.conversations.recall.request import RecallRequest
from memory_server.interchange import official, own
from memory_server.interchange.forms import format_of
from memory_server.kernel import json_text
from memory_server.kernel.backups import BackupBroken
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import DEEPEST
from memory_server.kernel.messages import MAX_CONTENT_CHARS, MAX_MESSAGES, MAX_NAME_CHARS, Message
from memory_server.kernel.text import Finding
from memory_server.lore.memory import LongTermMemory, TriggerSet
from memory_server.runtime.app import App
from memory_server.storage.backups import files
from memory_server.storage.backups.files import ENDING, BackupFolder
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store import repair, snapshots
from memory_server.storage.json_store.examination import examine
from memory_server.storage.json_store.snapshots import LONG_TERM, SHORT_TERM
from memory_server.storage.partition import journal
from memory_server.storage.small_files import FolderLedger
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import ToolFailed, call

pytestmark = pytest.mark.anyio
Memory = ShortTermMemory | LongTermMemory


def messages_of(*lengths: int) -> tuple[Message, ...]:
    return tuple(Message("user", "a" * length) for length in lengths)


def nested(levels: int) -> Any:
    """A field of a record, with the record itself `levels` deep."""
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return value


@dataclass(frozen=True)
class Bound:
    """A record made for a size, the most that is allowed of it, and the sentence for more."""

    made_of: Callable[[int], Memory]
    most: int
    sentence: str


BOUNDS = {
    "text": Bound(lambda size: memory(text="a" * size), MAX_TEXT_CHARS, "its text is too long"),
    "all messages": Bound(
        lambda size: memory(messages=messages_of(*[100_000] * (size // 100_000), size % 100_000)),
        MAX_TEXT_CHARS,
        "its text is too long",
    ),
    "a message": Bound(
        lambda size: memory(messages=messages_of(size)),
        MAX_CONTENT_CHARS,
        "its longest message is too long",
    ),
    "messages": Bound(
        lambda size: memory(messages=messages_of(*[1] * size)),
        MAX_MESSAGES,
        "split it into memories of at most 500",
    ),
    "keywords": Bound(
        lambda size: memory(words={"a" * size: 1.0}), MAX_TEXT_CHARS, "its keywords are too long"
    ),
    "id": Bound(lambda size: memory("a" * size), MAX_ID_CHARS, "its id is too long"),
    "fields": Bound(
        lambda size: memory(extra={"x": "a" * (size - 2)}),
        MAX_EXTRA_CHARS,
        "its unknown fields are too long",
    ),
    "fields of a message": Bound(
        lambda size: memory(
            messages=(Message("user", "a", extra={"xy": ["a" * (size - 6), 1, {}]}),)
        ),
        MAX_EXTRA_CHARS,
        "its unknown fields are too long",
    ),
    "name": Bound(lambda size: trigger("a" * size), MAX_NAME_CHARS, "its name is too long"),
    "prompt": Bound(
        lambda size: replace(trigger(), prompt="a" * size),
        MAX_PROMPT_CHARS,
        "its prompt is too long",
    ),
    "trigger": Bound(
        lambda size: trigger(source="true".ljust(size)),
        MAX_TRIGGER_CHARS,
        "its trigger is too long",
    ),
    "context": Bound(
        lambda size: trigger(created_context="a" * size), MAX_TEXT_CHARS, "its context is too long"
    ),
    "new context": Bound(
        lambda size: trigger(updated_context="a" * size), MAX_TEXT_CHARS, "its context is too long"
    ),
}
OTHERS: tuple[Memory, ...] = (memory("other", text="user: other"), trigger("other"))


@pytest.fixture(params=BOUNDS)
def bound(request: pytest.FixtureRequest) -> Bound:
    return BOUNDS[request.param]


def contents_of(*memories: Memory) -> Contents:
    short_term = tuple(memory for memory in memories if isinstance(memory, ShortTermMemory))
    long_term = tuple(memory for memory in memories if isinstance(memory, LongTermMemory))
    return Contents("chat", short_term, long_term)


def written(contents: Contents) -> bytes:
    return b"".join(own.write_native([contents], NOW))


def test_the_bound_itself_is_within_it(bound: Bound) -> None:
    assert excess(bound.made_of(bound.most)) is None
    assert bound.sentence in str(excess(bound.made_of(bound.most + 1)))


def test_an_import_leaves_out_what_is_more_and_says_so(bound: Bound) -> None:
    imported = own.read_native(written(contents_of(bound.made_of(bound.most + 1), *OTHERS)))
    assert imported.count == len(OTHERS)
    [(_, reason)] = imported.skipped
    assert bound.sentence in reason
    assert own.read_native(written(contents_of(bound.made_of(bound.most), *OTHERS))).skipped == []


async def test_a_restore_leaves_out_what_is_more_and_says_so(tmp_path: Path, bound: Bound) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        backups = BackupFolder(tmp_path / ".memory-server" / "backups")
        for name, size in (("more", bound.most + 1), ("most", bound.most)):
            writer = backups.begin(name, NOW)
            writer.add(contents_of(bound.made_of(size), *OTHERS))
            writer.finish()
        answer = await call(TOOLS["restore_memories"], app.call, {"name": "more", "dry_run": True})
        [row] = answer.structured["conversations"]
        assert row["added"] == len(OTHERS)
        [reason] = row["leftOut"]
        assert bound.sentence in reason
        assert f"Left out: {reason}." in answer.text
        answer = await call(TOOLS["restore_memories"], app.call, {"name": "most"})
        [row] = answer.structured["conversations"]
        assert row["added"] == 1 + len(OTHERS)
        assert row.get("leftOut") is None


@pytest.mark.parametrize("is_known", [True, False])
async def test_an_edit_by_hand_beyond_a_bound_is_set_aside_and_told_and_the_rest_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bound: Bound,
    is_known: bool,
) -> None:
    """`is_known`: whether this program has written the conversation before, or only another one."""
    monkeypatch.setattr(snapshots, "SAVING_SECONDS", 0.0)
    beside: list[Memory] = [*OTHERS]
    names: list[str] = []
    if is_known:
        store = open_store(tmp_path)
        await commit(store, Added(memory("kept")), TriggerSet(trigger("kept"), None))
        await store.compact("chat")
        beside += [memory("kept", text="user: other"), trigger("kept")]
        names.append("kept")
    for size in (bound.most + 1, bound.most):
        path = write_by_hand(tmp_path / "chat", bound.made_of(size), beside)
        if size > bound.most:
            [finding] = examined(tmp_path)
            assert bound.sentence in finding.what
        store = open_store(tmp_path)
        await commit(store, Added(memory("later")))
        state = await reopened(tmp_path)
        stored = state.short_term if path.name == SHORT_TERM else state.long_term
        names_in_use = [name for name in stored if name != "later"]
        if size > bound.most:  # the file is set aside, and its other records are used
            assert names_in_use == [*names, "other"]
        else:
            assert len(names_in_use) == len({"kept", "other"} & set(names_in_use)) + 1
            assert {*names, "other"} <= set(names_in_use)
    assert bound.sentence in caplog.text
    [piece] = past.pieces(private(tmp_path, ""))
    assert bound.sentence in piece.reason
    assert len([*past.broken_files(private(tmp_path, ""))]) == 1


def write_by_hand(folder: Path, record: Memory, beside: Sequence[Memory]) -> Path:
    """The file of the kind of this record, with those of this kind that stand beside it."""
    contents = contents_of(record, *beside)
    if isinstance(record, ShortTermMemory):
        path = folder / SHORT_TERM
        data = json_text.dump_array(map(codec.short_term_json, contents.short_term))
    else:
        path = folder / LONG_TERM
        data = json_text.dump_array(map(codec.long_term_json, contents.long_term))
    folder.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)
    return path


def examined(data_dir: Path) -> list[Finding]:
    """What is wrong with the conversation."""
    return [
        finding for finding in examine(data_dir, data_dir / "chat", NOW) if finding.grade != "ok"
    ]


async def test_a_repair_names_the_record_that_is_more(tmp_path: Path) -> None:
    (tmp_path / "chat").mkdir()
    triggers = [trigger("too long", source="1;" * MAX_TRIGGER_CHARS), trigger("fine")]
    (tmp_path / "chat" / LONG_TERM).write_bytes(
        json_text.dump_array(map(codec.long_term_json, triggers))
    )
    plan = repair.plan(tmp_path / "chat")
    assert plan is not None
    assert (
        "its trigger is too long: 200,000 characters, and at most 100,000 are allowed"
        in plan.steps[0]
    )
    assert "record 1 cannot be read" in plan.steps[0]
    assert "(line 2)" in plan.steps[0]
    repair.repair(tmp_path / "chat", NOW)
    assert [*(await reopened(tmp_path)).long_term] == ["fine"]


async def test_what_a_version_with_other_bounds_stored_is_read_as_it_is(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    long = trigger("long", source="1;" * MAX_TRIGGER_CHARS)
    deep = memory("a", text="a" * (MAX_TEXT_CHARS + 1))
    await commit(store, TriggerSet(long, None), Added(deep))
    assert (await reopened(tmp_path)).long_term == {"long": long}  # from the journal
    await store.compact("chat")
    state = await reopened(tmp_path)  # from the snapshots
    assert state.long_term == {"long": long}
    assert state.short_term == {"a": deep}
    assert examined(tmp_path) == []
    assert repair.plan(tmp_path / "chat") is None


CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "add_short_term_memory": (
        {"messages": [{"role": "user", "content": "a" * 100_000}] * 11},
        "`messages` cannot be used: together they have 1,100,000 characters; send at most 1,000,000",
    ),
    "remember_turn": (
        {"messages": [{"role": "user", "content": "a", "name": "n" * 1_000_001}]},
        "its text is too long: 1,000,004 characters, and at most 1,000,000 are allowed",
    ),
    "add_long_term_memory": (
        {"name": "n", "prompt": "p", "trigger": "1;" * 5_000_000},
        "its trigger is too long: 10,000,000 characters, and at most 100,000 are allowed; shorten it",
    ),
    "update_long_term_memory": (
        {"name": "known", "trigger": "1;" * 5_000_000},
        "its trigger is too long: 10,000,000 characters, and at most 100,000 are allowed; shorten it",
    ),
}
CONTEXTS: dict[str, dict[str, Any]] = {
    "add_long_term_memory": {
        "name": "n",
        "prompt": "p",
        "trigger": "true",
        "createdContext": "a" * 1_000_001,
    },
    "update_long_term_memory": {"name": "known", "updatedContext": "a" * 1_000_001},
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_tool_refuses_what_is_more_in_one_sentence_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    arguments, reason = CALLS[name]
    async with App(Settings(data_dir=tmp_path)) as app:
        await app.conversation().long_term.add("known", "p", "true")
        version = (await app.store.read("default")).version
        monkeypatch.setattr(app.sandbox, "check", None)  # what is too long is not tried
        with pytest.raises(ToolFailed, match=f"^(Nothing was stored, because )?{reason}"):
            await call(TOOLS[name], app.call, arguments)
        if name in CONTEXTS:
            with pytest.raises(ToolFailed, match="its context is too long"):
                await call(TOOLS[name], app.call, CONTEXTS[name])
        assert (await app.store.read("default")).version == version


async def test_the_python_api_has_the_same_bounds(tmp_path: Path) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        attempts: dict[str, Callable[[], Awaitable[object]]] = {
            "its name is": lambda: app.conversation().long_term.add("a" * 201, "p", "true"),
            "its prompt is": lambda: app.conversation().long_term.add("a", "p" * 20_001, "true"),
            "it has 501 messages": lambda: app.conversation().short_term.add(
                messages_of(*[1] * 501)
            ),
            "its unknown fields are": lambda: app.conversation().short_term.add(
                [Message("user", "a", extra={"x": "y" * MAX_EXTRA_CHARS})]
            ),
            f"nested {DEEPEST} levels deep": lambda: app.conversation().short_term.add(
                [Message("user", "a", extra={"x": nested(DEEPEST + 1)})]
            ),
        }
        for reason, attempt in attempts.items():
            with pytest.raises(InvalidInput, match=reason):
                await attempt()
        assert await app.conversations.ids() == []
        await app.conversation().long_term.add("a", "p", "true")
        with pytest.raises(InvalidInput, match=f"participants may be nested {DEEPEST} levels deep"):
            await app.conversation().long_term.search(
                RecallRequest(messages_of(1), participants={"x": nested(1_200)})
            )
        with pytest.raises(InvalidInput, match="its prompt is"):
            await app.conversation().long_term.update("a", prompt="p" * 20_001)


# --- depth -------------------------------------------------------------------------------------------------

DEPTHS = [DEEPEST + 1, 254, 990, 1010, 100_000]


def a_short_term_record(levels: int) -> bytes:
    deep = b"[" * (levels - 1) + b"]" * (levels - 1)
    return b'{"id":"deep","timestamp":"2026-01-01T00:00:00Z","text":"user: deep","x":%s}' % deep


def a_long_term_record(levels: int) -> bytes:
    deep = b"[" * (levels - 1) + b"]" * (levels - 1)
    return b'{"name":"deep","prompt":"p","trigger":"true","x":%s}' % deep


@pytest.mark.parametrize("levels", [DEEPEST, *DEPTHS])
@pytest.mark.parametrize("file", [SHORT_TERM, LONG_TERM])
async def test_a_field_nested_too_deeply_is_set_aside_and_the_conversation_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    file: str,
    levels: int,
) -> None:
    monkeypatch.setattr(snapshots, "SAVING_SECONDS", 0.0)
    (tmp_path / "chat").mkdir()
    if file == SHORT_TERM:
        deep_record = a_short_term_record(levels)
        usual_record = json_text.dumps(codec.short_term_json(memory("b")))
    else:
        deep_record = a_long_term_record(levels)
        usual_record = json_text.dumps(codec.long_term_json(trigger("b")))
    (tmp_path / "chat" / file).write_bytes(b"[%s,%s]" % (deep_record, usual_record))
    possible = [["deep", "b"]] if levels == DEEPEST else [["b"]]
    if levels > 900:
        possible.append(
            []
        )  # the parser itself does not go so deep, and the file is set aside whole
    store = open_store(tmp_path)
    await commit(store, Added(memory("later")), TriggerSet(trigger("later"), None))
    await store.compact("chat")
    state = await reopened(tmp_path)
    stored = state.short_term if file == SHORT_TERM else state.long_term
    *names, last_name = stored
    assert last_name == "later"
    assert names in possible
    assert len(past.pieces(private(tmp_path, ""))) == (0 if "deep" in names else 1)
    async with App(Settings(data_dir=tmp_path)) as app:
        assert (await app.memories.backups.make()).left_out == ()
        assert await app.maintenance.run_if_due() == 0


@pytest.mark.parametrize("levels", DEPTHS)
def test_an_import_takes_the_other_records_of_a_file_with_one_nested_too_deeply(
    levels: int,
) -> None:
    # By lines one costs only itself; an array that no parser can read as a whole is refused in a sentence.
    imported = own.read_native(
        b'{"format":"memory-server","version":1,"created":"x"}\n{"conversation":"chat"}\n{"short":%s}\n{"long":%s}\n'
        b'{"long":{"name":"fine","prompt":"p","trigger":"true"}}\n{"end":true}\n'
        % (a_short_term_record(levels), a_long_term_record(levels))
    )
    assert imported.count == 1
    assert len(imported.skipped) == 2
    assert all(
        "nested too deeply" in reason or "not JSON" in reason for _, reason in imported.skipped
    )
    pack = b'[%s,{"name":"fine","prompt":"p","trigger":"true"}]' % a_long_term_record(levels)
    if levels < 1000:
        assert format_of(pack) == "pack"
        assert own.read_pack(pack, "chat").count == 1
    elif levels > 1024:  # between, it is a question of how deep Python itself goes
        with pytest.raises(InvalidInput, match="is not JSON"):
            own.read_pack(pack, "chat")


@pytest.mark.parametrize("levels", [300, 1000, 100_000])
@pytest.mark.parametrize(
    "field", ["text", "id", "timestamp", "keywords", "messages", "score", "pinned", "roleWeights"]
)
async def test_no_field_of_a_record_can_be_nested_so_deeply_that_the_conversation_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, levels: int
) -> None:
    monkeypatch.setattr(snapshots, "SAVING_SECONDS", 0.0)
    (tmp_path / "chat").mkdir()
    deep = b"[" * levels + b"]" * levels
    usual_record = json_text.dumps(codec.short_term_json(memory("b")))
    record = b'{"timestamp":"2026-01-01T00:00:00Z","text":"user: a","%s":%s}' % (
        field.encode(),
        deep,
    )
    (tmp_path / "chat" / SHORT_TERM).write_bytes(b"[%s,%s]" % (record, usual_record))
    store = open_store(tmp_path)
    await commit(store, Added(memory("later")))
    await store.compact("chat")
    names = [*(await reopened(tmp_path)).short_term]
    asides = [*past.broken_files(private(tmp_path, ""))]
    possible = [("later", 3, 0), ("later", 2, 1)]
    if levels > 900:
        possible.append(("later", 1, 1))  # the parser itself does not go so deep
    assert (names[-1], len(names), len(asides)) in possible
    list(examine(tmp_path, tmp_path / "chat", NOW))
    repair.plan(tmp_path / "chat")


@pytest.mark.parametrize("file", ["journal.jsonl", "history.jsonl", "set-aside.jsonl"])
@pytest.mark.parametrize("levels", [300, 990, 1010, 100_000])
async def test_a_deep_line_among_those_of_the_past_does_not_count(
    tmp_path: Path, file: str, levels: int
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    await store.compact("chat")
    await commit(store, Added(memory("b")))
    deep = b"[" * levels + b"]" * levels
    body = (
        b'{"v":1,"seq":3,"at":"2026-06-21T00:00:00Z","by":"x","reason":"x","changes":[],"x":%s}'
        % deep
    )
    with private(tmp_path, file).open("ab") as past:
        past.write(journal.frame({}, body))
    store = open_store(tmp_path)
    assert [*(await store.read("chat")).short_term] == ["a", "b"]
    await commit(store, Added(memory("c")))
    await store.compact("chat")
    await store.compact("chat", now_ms=NOW)
    assert [*(await reopened(tmp_path)).short_term] == ["a", "b", "c"]
    list(examine(tmp_path, tmp_path / "chat", NOW))


# --- backups that unpack to more than they should ------------------------------------------------------------


def backup_of(body: bytes, folder: Path, name: str = "bomb") -> BackupFolder:
    """A backup whose first part and checksum are right, with `body` for its conversations."""
    packed = gzip.compress(body)
    facts = {
        "format": files.FORMAT,
        "version": files.VERSION,
        "created": "2026-01-01T00:00:00.000Z",
        "conversations": 1,
        "shortTerm": 1,
        "longTerm": 0,
        "sha256": hashlib.sha256(packed).hexdigest(),
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{name}{ENDING}").write_bytes(gzip.compress(json_text.dumps(facts) + b"\n") + packed)
    return BackupFolder(folder)


def refusal(backups: BackupFolder) -> str:
    with pytest.raises(BackupBroken) as failure, backups.open("bomb"):
        pass
    return str(failure.value)


FIRST = (
    record_lines.first_line(NOW)
    + b'{"conversation":"chat","lastCleanup":null,"shortTerm":2,"longTerm":0}\n'
)


BOMB_BYTES = 24 * 1024 * 1024


def test_a_backup_is_unpacked_only_as_far_as_memories_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked_bytes = 0

    class Counted(gzip.GzipFile):
        def readinto(self, buffer: Any) -> int:
            nonlocal unpacked_bytes
            count = super().readinto(buffer)
            unpacked_bytes += count
            return count

    monkeypatch.setattr(files.gzip, "GzipFile", Counted)
    monkeypatch.setattr(files, "LEAST_UNPACKED_BYTES", 4 * 1024 * 1024)
    monkeypatch.setattr(record_lines, "LONGEST_LINE", 1024 * 1024)
    record = b'{"short":%s}\n' % json_text.dumps(
        codec.short_term_json(memory("a", text="a" * 10_000))
    )
    for body in (
        b"a" * BOMB_BYTES,
        FIRST + b"a" * BOMB_BYTES,
        FIRST + record * (BOMB_BYTES // 10_000),
    ):
        unpacked_bytes = 0
        sentence = refusal(backup_of(body, tmp_path))
        assert (
            "The backup bomb cannot be used: it unpacks to far more than memories do. Nothing was changed"
            in sentence
        )
        assert unpacked_bytes <= BOMB_BYTES * 2 // 3


def test_a_backup_of_empty_lines_ends_at_the_first(tmp_path: Path) -> None:
    assert "line 3 cannot be read: it is not JSON" in refusal(
        backup_of(FIRST + b"\n" * 1_000_000, tmp_path)
    )


def test_a_backup_of_memories_that_pack_well_is_used(tmp_path: Path) -> None:
    backups = BackupFolder(tmp_path)
    writer = backups.begin("same", NOW)
    contents = Contents(
        "chat", tuple(memory(f"{number:016x}", text="user: 哈哈" * 1_000) for number in range(500))
    )
    writer.add(contents)
    writer.finish()
    with backups.open("same") as (_, conversations):
        assert list(conversations) == [contents]


# --- other programs' files -------------------------------------------------------------------------------------


def test_an_entity_with_more_than_a_memory_may_hold_is_left_out() -> None:
    rows = [
        {
            "type": "entity",
            "name": "big",
            "entityType": "",
            "observations": ["a" * (MAX_TEXT_CHARS + 1)],
        },
        {"type": "entity", "name": "fine", "entityType": "", "observations": ["b"]},
    ]
    imported = official.read(b"\n".join(map(json_text.dumps, rows)), "chat")
    assert [
        stored.text for contents in imported.conversations for stored in contents.short_term
    ] == ["fine\nb"]
    assert [source for source, _ in imported.skipped] == ["entity big"]


async def test_nothing_is_disturbed_by_a_note_nested_too_deeply(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    await store.compact("chat")
    deep = b'{"id":"chat","lastRun":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    private(tmp_path, "conversation.json").write_bytes(deep)
    (tmp_path / ".memory-server").mkdir()
    (tmp_path / ".memory-server" / "upkeep.json").write_bytes(deep)
    assert await open_store(tmp_path).conversations() == ["chat"]
    assert FolderLedger(tmp_path).last_run_ms() is None
    await commit(open_store(tmp_path), Added(memory("b")))
