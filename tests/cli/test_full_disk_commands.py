"""Every command that writes, on a disk that takes no write: one sentence that names the trouble, no traceback, and the
same command works once there is room."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from command_outcome import Outcome

from memory_server import open_memory
from memory_server.kernel import files
from memory_server.kernel.link import Link
from memory_server.kernel.messages import Message
from memory_server.storage.partition import journal

TROUBLE = {errno.ENOSPC: "full", errno.EROFS: "cannot be written"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
NOTE = {"type": "tech", "topic": "pool", "content": "at most 20 connections"}
CHANGE = "CHANGE"
MEMORY = "MEMORY"
"""In the place of the id of a change, and of a memory."""
COMMANDS: dict[str, list[str]] = {
    "remember": ["remember", "A new thing"],
    "pause": ["pause"],
    "resume": ["resume"],
    "undo": ["undo", CHANGE],
    "forget": ["forget", "Halloran", "--yes"],
    "forget for good": ["forget", "Halloran", "--for-good", "--yes"],
    "forget the past for good": ["forget", "Halvorsen", "--for-good", "--yes"],
    "forget in backups": ["forget", "Halloran", "--for-good", "--in-backups", "--yes"],
    "pin": ["pin", MEMORY],
    "mute": ["mute", MEMORY],
    "edit": ["edit", MEMORY, "Elm Street", "Oak Street"],
    "backup": ["backup", "two"],
    "backup restore": ["backup", "restore", "one", "--overwrite"],
    "backup delete": ["backup", "delete", "one"],
    "doctor --repair": ["doctor", "--repair"],
    "doctor --reindex": ["doctor", "--reindex"],
    "copy": ["copy", "--to", "elsewhere"],
    "tokens add": ["tokens", "add", "phone"],
    "tokens remove": ["tokens", "remove", "laptop"],
    "export": ["export", "out.jsonl"],
    "export node": ["export", "out", "--format", "node"],
    "import": ["import", "all.jsonl"],
    "add-trigger": ["add-trigger", "tea.js", "--prompt", "Mention tea"],
    "convert": ["convert", "all.jsonl", "pack.json", "--as", "native"],
    "view": ["view", "--html", "page.html"],
    "knowledge document": ["knowledge", "document", "--output", "pages"],
    "knowledge reindex": ["knowledge", "reindex"],
    "cleanup": ["cleanup"],
    "call": ["call", "remember", json.dumps(NOTE)],
    "unlink": ["unlink"],
}


@contextmanager
def no_write(number: int, *, accepted: int = 0) -> Iterator[None]:
    """A disk that takes no more writes of this program after the first ones: files cannot be opened for writing, named,
    removed or made."""
    writes = count(1)

    def refusing(write: Callable[..., Any]) -> Callable[..., Any]:
        def refused(*arguments: Any, **more: Any) -> Any:
            reads = write is opened and not arguments[1] & WRITING
            if not reads and next(writes) > accepted:
                raise OSError(number, os.strerror(number))
            return write(*arguments, **more)

        return refused

    opened = files.open_descriptor
    with pytest.MonkeyPatch.context() as patch:
        for name in ("open_descriptor", "remove_file", "take_name", "sync_file"):
            patch.setattr(files, name, refusing(getattr(files, name)))
        patch.setattr(
            "memory_server.storage.partition.journal.sync_file", refusing(journal.sync_file)
        )
        for name in ("unlink", "mkdir", "rename"):
            patch.setattr(Path, name, refusing(getattr(Path, name)))
        yield


@pytest.fixture
def cli(
    cli: CommandLine, elsewhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The command, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    return cli


async def filled_store(data: Path) -> tuple[str, str]:
    """The id of a change, and of a memory."""
    async with open_memory(data) as app:
        short_term = app.conversation().short_term
        dentist = await short_term.add(
            [Message("user", "My dentist is Dr. Halloran on Elm Street")]
        )
        doctor = await short_term.add([Message("user", "my doctor is Dr Halvorsen")])
        await short_term.edit(doctor.memory.id, ["my doctor is Dr Who"], by="test")
        await app.knowledge.notes.remember("tech", "pool", "at most 20 connections")
        await app.memories.backups.make("one")
        app.home.link.write(Link("https://home.example", "token"))
        return dentist.change_id or "", dentist.memory.id


@pytest.mark.parametrize(
    ("number", "names"),
    [
        (errno.ENOSPC, list(COMMANDS)),
        (errno.EROFS, list(COMMANDS)[::4]),
        pytest.param(errno.EROFS, list(COMMANDS), marks=pytest.mark.full),
    ],
    ids=["full", "cannot be written, some", "cannot be written, all"],
)
def test_a_command_on_a_disk_that_takes_no_write_says_it_in_one_sentence(
    cli: Callable[..., Outcome], tmp_path: Path, number: int, names: list[str]
) -> None:
    change, memory = asyncio.run(filled_store(tmp_path / "data"))
    link = tmp_path / "data" / ".memory-server" / "link.json"
    linked = link.read_bytes()
    link.unlink()
    cli("export", "all.jsonl")
    cli("tokens", "add", "laptop")
    Path("tea.js").write_text("match_keys(context.messages, ['tea']) > 0")
    ids = {CHANGE: change, MEMORY: memory}
    wrong: dict[str, str] = {}
    for name in names:
        arguments = [ids.get(argument, argument) for argument in COMMANDS[name]]
        if name == "unlink":
            link.write_bytes(linked)
        with no_write(number):
            try:
                status, out, err = cli(*arguments)
            except Exception as error:
                wrong[name] = repr(error)
                continue
        if "Traceback" in err:
            wrong[name] = err[-300:]
        elif status and not (TROUBLE[number] in err or os.strerror(number) in err):
            wrong[name] = f"{status}: {err or out}"
    assert not wrong, "\n".join(f"{name}: {failure}" for name, failure in wrong.items())


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("words", ["Halloran", "Halvorsen"])
def test_an_erasing_that_a_full_disk_interrupts_anywhere_says_so_and_is_finished_by_the_next(
    cli: Callable[..., Outcome], tmp_path: Path, words: str, step: int
) -> None:
    """`step`: how many more writes each attempt has than the one before it."""
    asyncio.run(filled_store(tmp_path / "data"))
    (tmp_path / "data" / ".memory-server" / "link.json").unlink()
    interrupted = 0
    for accepted in count(step=step):
        with no_write(errno.ENOSPC, accepted=accepted):
            status, out, err = cli("forget", words, "--for-good", "--in-backups", "--yes")
        assert "Traceback" not in err, accepted
        if status == 0:
            break
        assert "full" in err, (accepted, status, out, err)
        interrupted += 1
    assert interrupted > 10 // step, "there were writes to refuse"
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    files_with_words = [path for path in files if words.encode() in path.read_bytes()]
    assert files_with_words == []
    assert (
        "No memory or entry contains these words" in cli("forget", words, "--for-good", "--yes").err
    )
