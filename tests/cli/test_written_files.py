"""Files that a user names and a command writes: they are their owner's only, and what is not a file is written to and
stays what it is."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
from pathlib import Path

import pytest
from cli_program import in_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and pipes of POSIX")

WRITERS = {
    "export": ["export"],
    "export of a page": ["export", "--format", "markdown"],
    "export of a pack": ["export", "--format", "pack"],
    "convert": ["convert", "--as", "native", "chat.jsonl"],
    "view": ["view", "--html"],
}
"""The commands that write a file whose name follows."""


def _use_folder(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let commands read and write below a folder only."""
    for name in ("HOME", "XDG_CONFIG_HOME"):
        patch.setenv(name, str(folder))
    patch.setenv("MEMORY_SERVER_DATA_DIR", str(folder / "data"))
    patch.setenv("MEMORY_SERVER_DAEMON__ENABLED", "false")
    patch.chdir(folder)


@pytest.fixture(scope="module")
def filled_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a memory, a trigger and the file of a chat."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "chat.jsonl").write_text(
        '{"role": "user", "content": "The safe has the code 4711."}\n'
    )
    trigger = "return match_keys(['safe'], context.messages)"
    added = f'{{"name": "safe", "prompt": "It has the code 4711.", "trigger": "{trigger}"}}'
    with pytest.MonkeyPatch.context() as patch:
        _use_folder(folder, patch)
        assert in_process("remember", "The safe has the code 4711.").status == 0
        assert in_process("call", "add_long_term_memory", added).status == 0
    return folder


@pytest.fixture
def home(filled_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder for this test."""
    shutil.copytree(filled_home, tmp_path, dirs_exist_ok=True)
    _use_folder(tmp_path, monkeypatch)
    return tmp_path


def status_and_errors(words: list[str], target: Path, *more: str) -> tuple[int, str]:
    status, _, err = in_process(*words, str(target), *more)
    return status, err


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_a_file_is_its_owners_only_and_is_not_replaced_without_force(
    home: Path, words: list[str]
) -> None:
    usual_umask = os.umask(0o022)
    try:
        target = home / "out"
        assert status_and_errors(words, target)[0] == 0
        content = target.read_bytes()
        assert b"4711" in content
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        target.write_text("mine")
        target.chmod(0o644)
        status, err = status_and_errors(words, target)
        assert (status, target.read_text()) == (2, "mine")
        assert "--force" in err
        assert status_and_errors(words, target, "--force")[0] == 0
        assert b"4711" in target.read_bytes()
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
    finally:
        os.umask(usual_umask)


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_a_pipe_is_written_to_and_stays_a_pipe(home: Path, words: list[str]) -> None:
    pipe = home / "pipe"
    received_parts = list[bytes]()
    os.mkfifo(pipe)
    status, err = status_and_errors(words, pipe, "--force")
    assert status == 2, "nobody reads it"
    assert "cannot be written" in err
    assert err.count("\n") == 1
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)

    def reader() -> None:
        with open(descriptor, "rb") as file:
            while part := file.read(1 << 16):
                received_parts.append(part)

    # The pipe has no writer yet, so the reader begins with the command.
    held_open = os.open(pipe, os.O_WRONLY)
    thread = threading.Thread(target=reader)
    thread.start()
    assert status_and_errors(words, pipe, "--force")[0] == 0
    os.close(held_open)
    thread.join(60)
    assert b"4711" in b"".join(received_parts)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_a_link_to_a_device_is_written_through(home: Path, words: list[str]) -> None:
    link = home / "link"
    link.symlink_to(os.devnull)
    assert status_and_errors(words, link)[0] == 2
    assert status_and_errors(words, link, "--force")[0] == 0
    assert link.is_symlink()
    assert stat.S_ISCHR(link.stat().st_mode)


def test_a_trigger_does_not_take_the_place_of_a_pipe(home: Path) -> None:
    from sandbox.cli import main

    os.mkfifo(home / "birthday.js")
    assert main(["new", "birthday", "--force", "-o", str(home)]) == 2
    assert stat.S_ISFIFO((home / "birthday.js").lstat().st_mode)
