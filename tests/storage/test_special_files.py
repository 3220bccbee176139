"""What has the name of a file and is none: a named pipe, a socket, a device, a folder. Nobody waits for one, the
conversation says which it is, and no other conversation is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sample_memories import NOW, memory, trigger
from store_on_disk import commit, open_store, private, reopened

from memory_server.config import Settings
from memory_server.config.recall import parameters
from memory_server.conversations.changes import Added
from memory_server.conversations.recall.request import RecallRequest
from memory_server.kernel import files as folders
from memory_server.kernel.errors import StorageUnwritable
from memory_server.kernel.messages import Message
from memory_server.lore.memory import TriggerSet
from memory_server.memories.backups import Backups
from memory_server.runtime.app import App
from memory_server.storage.backups.files import ENDING
from memory_server.storage.json_store.examination import FILES, examine, examine_folder
from memory_server.storage.json_store.snapshots import LONG_TERM, SHORT_TERM, read_copy, write_copy
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here"),
]
T = TypeVar("T")
SAID = [Message("user", "披萨 pizza")]
WORDING = parameters(Settings()).wording
PATIENCE = 60.0
"""Seconds for an answer, on a machine that others use too."""


def a_socket(path: Path) -> None:
    with (
        contextlib.chdir(path.parent),
        socket.socket(socket.AF_UNIX) as bound_socket,
    ):  # a long path is none for a socket
        bound_socket.bind(path.name)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "a named pipe"),
    "a link to a pipe": (
        lambda path: (os.mkfifo(path.with_name("pipe")), path.symlink_to("pipe")),
        "a named pipe",
    ),
    "a link to a device": (lambda path: path.symlink_to(os.devnull), "a device"),
    "a socket": (a_socket, "a socket"),
    "a folder": (Path.mkdir, "a folder"),
}


@pytest.fixture(autouse=True)
def nobody_waits_for_ever(tmp_path: Path) -> Iterator[None]:
    """Whoever does wait for a pipe is let go after a while, so that a test that fails ends."""
    is_over = threading.Event()

    def let_go() -> None:
        wait = PATIENCE
        while not is_over.wait(wait):
            wait = 0.1
            for path in tmp_path.rglob("*"):
                with contextlib.suppress(OSError):
                    if path.is_fifo():
                        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))

    thread = threading.Thread(target=let_go)
    thread.start()
    yield
    is_over.set()
    thread.join()


async def soon(answer: Awaitable[T]) -> T:
    return await asyncio.wait_for(answer, PATIENCE)


def put(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    KINDS[kind][0](path)


@contextlib.asynccontextmanager
async def two_conversations(data_dir: Path) -> Any:
    """An app over `odd`, which the test spoils, and `fine`; both hold a memory and a trigger."""
    store = open_store(data_dir)
    for name in ("odd", "fine"):
        stored = WORDING.of_text(memory(text="user: 披萨 pizza", messages=tuple(SAID), chat=name))
        await commit(store, Added(stored), TriggerSet(trigger(f"of {name}"), None), chat=name)
        await store.compact(name)
    await store.aclose()
    async with App(Settings(data_dir=data_dir)) as app:
        yield app


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", [SHORT_TERM, LONG_TERM, ".memory-server/journal.jsonl"])
async def test_a_conversation_says_what_is_in_the_place_of_its_file_and_others_go_on(
    tmp_path: Path, file: str, kind: str
) -> None:
    async with two_conversations(tmp_path) as app:
        path = tmp_path / "odd" / file
        put(path, kind)
        sentence = f"{path} is {KINDS[kind][1]} and not a file; move it away and try again"
        with pytest.raises(StorageUnwritable, match=sentence):
            await soon(app.conversation("odd").short_term.statistics())
        with pytest.raises(StorageUnwritable, match=sentence):
            await soon(app.conversation("odd").short_term.add(SAID))
        await soon(app.conversation("fine").short_term.add([*SAID, Message("assistant", "也许")]))
        results = await soon(
            app.conversation("fine").short_term.search(RecallRequest(SAID, scope="all"))
        )
        assert results.unread == {"odd": path}
        assert results.recall.searched == 2
        [finding] = examine(tmp_path, tmp_path / "odd", NOW)
        assert finding.grade == "error"
        assert finding.what == f"{sentence}."


MESSAGES = [{"role": "user", "content": "披萨 pizza"}]
OVER_ALL: dict[str, tuple[dict[str, Any], bool]] = {
    "search_short_term_memories": (
        {"recentMessages": MESSAGES, "scope": "all", "conversation_id": "fine"},
        True,
    ),
    "explain_recall": (
        {"recentMessages": MESSAGES, "text": "pizza", "scope": "all", "conversation_id": "fine"},
        False,
    ),
    "get_frequent_conversation": ({}, False),
    "backup_memories": ({}, True),
    "health_check": ({}, False),
}
"""Tools that look at all conversations, and whether they name the one that cannot be read."""


@pytest.mark.parametrize("name", OVER_ALL)
async def test_a_tool_that_looks_at_all_conversations_passes_over_the_one_that_cannot_be_read(
    tmp_path: Path, name: str
) -> None:
    arguments, names_it = OVER_ALL[name]
    async with two_conversations(tmp_path) as app:
        put(tmp_path / "odd" / SHORT_TERM, "a pipe")
        answer = await soon(call(TOOLS[name], app.call, arguments))
        assert ("odd" in answer.text) == names_it


async def test_upkeep_passes_over_the_conversation_that_cannot_be_read(tmp_path: Path) -> None:
    async with two_conversations(tmp_path) as app:
        put(tmp_path / "odd" / SHORT_TERM, "a pipe")
        assert await soon(app.conversations.outdated()) == 0
        assert await soon(app.maintenance.run_if_due()) == 0


@pytest.mark.parametrize("file", [LONG_TERM, ".memory-server/journal.jsonl"])
async def test_the_triggers_of_a_conversation_fire_where_the_shelf_cannot_be_read(
    tmp_path: Path, file: str
) -> None:
    async with two_conversations(tmp_path) as app:
        put(tmp_path / "default" / file, "a pipe")
        arguments = {"messages": MESSAGES, "conversation_id": "fine"}
        answer = await soon(call(TOOLS["search_long_term_memories"], app.call, arguments))
        assert [row["name"] for row in answer.structured["activated"]] == ["of fine"]
        broken = tmp_path / "default" / file
        note = f"These conversations could not be read: default ({broken}); `memory-server doctor` says why."
        assert answer.structured["note"] == note
        assert note in answer.text
        turn = await soon(call(TOOLS["recall_turn"], app.call, arguments))
        assert turn.structured["note"] == note
        assert "of fine" in str(turn.structured["longTerm"])
        with pytest.raises(Exception, match="one of its names: `of fine`"):
            await soon(app.conversation("fine").long_term.get("no such name"))


@pytest.mark.parametrize("name", ["conversation.json", f"{SHORT_TERM}.zlib"])
async def test_what_can_be_written_anew_is_written_over_a_pipe(tmp_path: Path, name: str) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    await store.compact("chat")
    put(private(tmp_path, name), "a pipe")
    store = open_store(tmp_path)
    assert [finding.grade for finding in examine(tmp_path, tmp_path / "chat", NOW)] == ["error"]
    assert await soon(store.conversations()) == ["chat"]
    await soon(commit(store, Added(memory("b"))))
    await soon(store.compact("chat"))
    assert private(tmp_path, name).is_file()
    assert [*(await reopened(tmp_path)).short_term] == ["a", "b"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", ["a pipe", "a folder"])
async def test_doctor_names_whatever_is_in_the_place_of_a_file(
    tmp_path: Path, file: str, kind: str
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    await store.compact("chat")
    put(tmp_path / "chat" / file, kind)
    [finding] = examine(tmp_path, tmp_path / "chat", NOW)
    assert finding.grade == "error"
    assert finding.about == "chat"
    assert (
        finding.what
        == f"{tmp_path / 'chat' / file} is {KINDS[kind][1]} and not a file; move it away and try again."
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_the_lock_is_taken_on_a_file_only(tmp_path: Path, kind: str) -> None:
    put(private(tmp_path, "lock"), kind)
    with pytest.raises(StorageUnwritable, match=f"lock is {KINDS[kind][1]} and not a file"):
        await soon(commit(open_store(tmp_path), Added(memory("a"))))


@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a folder"])
async def test_a_backup_that_is_no_file_is_told_and_the_others_are_listed(
    tmp_path: Path, kind: str
) -> None:
    async with two_conversations(tmp_path) as app:
        backups: Backups = app.memories.backups
        await backups.make("whole")
        put(tmp_path / ".memory-server" / "backups" / f"odd{ENDING}", kind)
        listed = await soon(backups.listed())
        assert {backup.name: backup.problem is None for backup in listed} == {
            "whole": True,
            "odd": False,
        }
        with pytest.raises(
            Exception, match=f"The backup odd cannot be read: it is {KINDS[kind][1]} and not a file"
        ):
            await soon(backups.restore("odd"))
        findings = [
            finding for finding in examine_folder(tmp_path, NOW) if finding.about == "backups"
        ]
        warnings = [finding.what for finding in findings if finding.grade == "warning"]
        assert len(warnings) == 1
        assert "odd" in warnings[0]


async def test_a_file_larger_than_is_read_is_named_before_it_is_read(tmp_path: Path) -> None:
    async with two_conversations(tmp_path) as app:
        path = tmp_path / "odd" / SHORT_TERM
        path.touch()
        os.truncate(
            path, folders.MAX_FILE_BYTES + 1
        )  # a file of zeros that takes no room on the disk
        with pytest.raises(
            StorageUnwritable, match="has more than 1,073,741,824 bytes; move it away"
        ):
            await soon(app.conversation("odd").short_term.statistics())
        results = await soon(
            app.conversation("fine").short_term.search(RecallRequest(SAID, scope="all"))
        )
        assert results.unread == {"odd": tmp_path / "odd" / SHORT_TERM}


def test_a_copy_that_unpacks_to_more_than_a_snapshot_may_have_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_copy(tmp_path, SHORT_TERM, bytes(100_000))
    assert read_copy(tmp_path, SHORT_TERM) == bytes(100_000)
    monkeypatch.setattr(folders, "MAX_FILE_BYTES", 99_999)
    assert read_copy(tmp_path, SHORT_TERM) is None


@pytest.mark.skipif(sys.platform != "linux", reason="leases are Linux's")
def test_a_file_with_a_lease_is_opened_when_its_holder_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"whole")
    holder = os.open(path, os.O_RDWR)
    signals: list[int] = []

    def let_go(number: int, _: object) -> None:
        signals.append(number)
        fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    before = signal.signal(signal.SIGIO, let_go)
    try:
        fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        assert folders.read_file(path) == b"whole"
        assert signals == [signal.SIGIO]
    finally:
        signal.signal(signal.SIGIO, before)
        os.close(holder)


async def test_a_new_file_takes_the_name_of_a_file_only(tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    path = tmp_path / "file"
    aside.write_bytes(b"new")
    path.write_bytes(b"old")
    folders.take_name(aside, path)
    assert path.read_bytes() == b"new"

    with pytest.raises(FileNotFoundError):
        folders.take_name(aside, path)
    assert path.read_bytes() == b"new"

    aside.write_bytes(b"newer")
    path.unlink()
    path.mkdir()
    with pytest.raises(folders.FileRefused, match="is a folder"):
        folders.take_name(aside, path)
