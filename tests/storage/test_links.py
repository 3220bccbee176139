"""Links in the place of, beside and above every file that is written: what they lead to is neither written nor read.

A repository brings links with it, and in a folder that others may write anybody can make one."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from itertools import chain, count
from pathlib import Path

import pytest

from memory_server.cli.parser import main
from memory_server.kernel import files as folders
from sandbox.cli import main as sandbox

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need rights there")
ROOT = Path(__file__).parents[2]
OURS = "secret words of this user\n"
THEIRS = "---\nkey: theirs\n---\n\nsecret words of this user\n"
PROJECT = "work"
DATA = "data"


def saved(*keys: str, tool: str = "save_to_memory") -> None:
    for key in keys:
        main(["call", tool, json.dumps({"key": key, "content": f"the words of {key}"})])


def tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        main(["remember", "--turn", str(number), f"披萨 number {number}"])
    main(["cleanup"])
    main(["undo", "c1"])


def hooked(monkeypatch: pytest.MonkeyPatch) -> None:
    main(["remember", "--session", "old", "My cat is called Miso and hates the vacuum cleaner."])
    event = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "s",
        "prompt_id": "1",
        "prompt": "what does Miso hate?",
    }
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(json.dumps(event).encode())))
    main(["hook"])


def archived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SERVER_LAYERS__MAX_ENTRIES", "1")
    saved("one", "two")


def documented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SERVER_NOTES__DOCUMENTS", "docs")
    main(["call", "remember", '{"type": "tech", "topic": "t", "content": "c"}'])


WRITERS: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "a conversation": tenth,
    "a hook": hooked,
    "a pause": lambda _: main(["pause"]),
    "a backup": lambda _: (main(["remember", "hello"]), main(["backup", "one"])),
    "an export": lambda _: (main(["remember", "hello"]), main(["export", "out.jsonl", "--force"])),
    "an export as a folder": lambda _: (
        main(["remember", "hello"]),
        main(["export", "out", "--format", "node"]),
    ),
    "tokens": lambda _: [
        main(["tokens", *words]) for words in (["add", "a"], ["add", "b"], ["remove", "a"])
    ],
    "an entry": lambda _: saved("one", "one"),
    "an entry of all projects": lambda _: saved("one", tool="save_to_global_memory"),
    "an archived entry": archived,
    "pages of notes": documented,
    "Claude Code in a project": lambda _: main(
        ["install", "claude-code", "--project", "--with-hooks", "--conversation", "p"]
    ),
    "Cursor in a project": lambda _: main(["install", "cursor", "--project"]),
    "VS Code in a project": lambda _: main(["install", "vscode", "--project"]),
    "a new trigger": lambda _: sandbox(["new", "keyword", "--force"]),
}
"""Everything that writes files, with a call that does."""


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Path]]:
    numbers = count()

    def make() -> Path:
        top = tmp_path / str(next(numbers))
        for folder in ("home", "outside", PROJECT + "/.git"):
            (top / folder).mkdir(parents=True)
        for name, folder in (
            ("HOME", "home"),
            ("XDG_CACHE_HOME", "cache"),
            ("MEMORY_SERVER_DATA_DIR", DATA),
        ):
            monkeypatch.setenv(name, str(top / folder))
        monkeypatch.setenv("PATH", "/usr/bin:/bin")  # not the client's own commands
        monkeypatch.chdir(top / PROJECT)
        return top

    yield make
    monkeypatch.chdir(ROOT)


def run(writer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, suppress(SystemExit):  # a refusal of the sandbox's command
        WRITERS[writer](patch)


def written(top: Path) -> list[str]:
    """The files in the project and in the data folder whose names can be foreseen."""
    paths = chain((top / PROJECT).rglob("*"), (top / DATA).rglob("*"))
    names = [str(path.relative_to(top)) for path in paths if path.is_file()]
    return sorted(name for name in names if "archive/memories" not in name)


def linked(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.symlink_to(target)


@pytest.mark.parametrize("writer", WRITERS)
def test_no_file_is_written_or_read_through_a_link(
    writer: str,
    fresh: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    top = fresh()
    run(writer, monkeypatch)
    names = written(top)
    assert names, "the call writes no file"
    capsys.readouterr()
    for name in names:
        for victim_exists in (True, False):
            top = fresh()
            victim = top / "outside" / "victim"
            if victim_exists:
                victim.write_text(OURS)
            linked(top / name, victim)
            run(writer, monkeypatch)
            if victim_exists:
                assert victim.read_text() == OURS, name
            else:
                assert not victim.exists(), name
            assert "secret words" not in capsys.readouterr().out
    top = fresh()
    victim = top / "outside" / "victim"
    victim.write_text(OURS)
    for name in names:
        for neighbour in (f"{name}.next", f"{name}.tmp", f"{name}.before-memory-server"):
            if not os.path.lexists(top / neighbour):
                linked(top / neighbour, victim)
    run(writer, monkeypatch)
    assert victim.read_text() == OURS
    assert os.listdir(top / "outside") == ["victim"]


@pytest.mark.parametrize(
    "writer", [name for name in WRITERS if "project" in name or "entry" in name or "pages" in name]
)
def test_nothing_is_written_or_read_through_a_linked_folder_of_a_project(
    writer: str,
    fresh: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    top = fresh()
    run(writer, monkeypatch)
    parents = {
        str(parent) for parent in chain.from_iterable(Path(name).parents for name in written(top))
    }
    parts = {parent for parent in parents if parent.startswith(f"{PROJECT}/")}
    capsys.readouterr()
    for part in parts:
        top = fresh()
        (top / "outside" / "theirs.md").write_text(THEIRS)
        linked(top / part, top / "outside")
        run(writer, monkeypatch)
        main(["call", "retrieve_from_memory", '{"query": "secret words"}'])
        assert os.listdir(top / "outside") == ["theirs.md"], part
        assert "secret words of this user" not in capsys.readouterr().out


def test_an_entry_that_is_a_link_is_named_and_not_read(
    fresh: Callable[[], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    top = fresh()
    (top / "outside" / "theirs.md").write_text(THEIRS)
    linked(top / PROJECT / ".multi-agent-mcp/memory/mine.md", top / "outside/theirs.md")
    main(["call", "--text", "retrieve_from_memory", '{"query": "secret words"}'])
    main(["call", "--text", "get_memory_summary"])
    output = capsys.readouterr().out
    assert "secret words of" not in output
    assert "mine.md cannot be read: it is a link" in output


def test_a_link_of_the_user_in_the_home_folder_is_followed_and_stays(
    fresh: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    top = fresh()
    target = top / "home/dotfiles/claude.json"
    target.parent.mkdir()
    target.write_text("{}")
    (top / "home/.claude.json").symlink_to(target)
    main(["install", "claude-code"])
    assert (top / "home/.claude.json").is_symlink()
    assert "memory" in target.read_text()


def test_a_link_of_the_user_to_what_is_not_there_yet_is_followed(fresh: Callable[[], Path]) -> None:
    top = fresh()
    (top / "home/.claude.json").symlink_to(top / "home/dotfiles/claude/claude.json")
    main(["install", "claude-code"])
    assert "memory" in (top / "home/dotfiles/claude/claude.json").read_text()


def test_a_link_to_itself_is_one_sentence(
    fresh: Callable[[], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    link = fresh() / "home/.claude.json"
    link.symlink_to(link)
    assert main(["install", "claude-code"]) == 2
    assert (
        f"{link} was not changed, because it is a link that leads to itself; remove it."
        in capsys.readouterr().err
    )


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
def test_a_link_to_a_file_of_another_user_is_not_followed(
    fresh: Callable[[], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    top = fresh()
    target = top / "outside/claude.json"
    target.write_text("{}")
    os.chown(target, 65534, 65534)
    (top / "home/.claude.json").symlink_to(target)
    assert main(["install", "claude-code"]) == 2
    assert "another user" in capsys.readouterr().err
    assert target.read_text() == "{}"


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
def test_pages_in_a_repository_of_another_user_are_not_written_through_its_link(
    fresh: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    top = fresh()
    (top / PROJECT / "docs").symlink_to(top / "outside")
    for path in (PROJECT, PROJECT + "/.git", PROJECT + "/docs"):
        os.chown(top / path, 65534, 65534, follow_symlinks=False)
    main(["call", "remember", '{"type": "tech", "topic": "t", "content": "c"}'])
    assert main(["knowledge", "document", "--output", "docs"]) == 1
    assert "is a link" in capsys.readouterr().err
    assert not [*(top / "outside").iterdir()]


def test_the_file_beside_cannot_be_foreseen_and_what_is_left_of_it_is_removed(
    tmp_path: Path,
) -> None:
    victim = tmp_path / "victim"
    victim.write_text(OURS)
    old_file, new_file = (folders.write_aside(tmp_path / "file", b"x") for _ in range(2))
    assert old_file != new_file
    for path, age in ((old_file, 100), (new_file, 10)):
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    leftover = tmp_path / f".file.{'a' * 16}.next"
    leftover.symlink_to(victim)
    os.utime(leftover, (0, 0), follow_symlinks=False)
    folders.replace_file(tmp_path / "file", b"whole")
    assert sorted(os.listdir(tmp_path)) == sorted([new_file.name, "file", "victim"])
    assert victim.read_text() == OURS


ELSEWHERE = {
    "memory_server/cli/parser.py": "the null device",
    "memory_server/serving/stdio/runner.py": "the null device",
    "sandbox/cli.py": "the null device",
    "sandbox/worker/main.py": "the null device",
    "sandbox/worker/hardening.py": "a new file only, to find out that it cannot be made",
    "memory_server/cli/demo.py": "a temporary folder",
    "memory_server/operations/exchanged_files.py": "a device or pipe that the user named, which is not a regular file",
    "memory_server/operations/copying.py": "a temporary folder",
    "memory_server/storage/entries/foreign_tables.py": "a temporary folder",
    "memory_server/storage/json_store/store.py": "a new folder with a random name, in the data folder of this user",
    "memory_server/storage/backups/files.py": "a temporary file without a name",
    "memory_server/process/entrance.py": "the runtime folder, which is this user's only",
    "memory_server/process/server.py": "the runtime folder, which is this user's only",
    "sandbox/workbench/testing.py": "a new file only, in the place of one that was removed",
}
"""Modules that open files for writing by themselves, with the reason why no link is followed."""
_WRITES = {
    "write_text",
    "write_bytes",
    "mkstemp",
    "copyfile",
    "copy2",
    "copytree",
    "NamedTemporaryFile",
}
_MAKES = {"TemporaryFile", "TemporaryDirectory"}


def _opens_for_writing(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "folders":
        return False
    if name in _WRITES | _MAKES:
        return True
    return name == "open" and (_has_writing_mode(call) or _has_writing_flags(call))


def _has_writing_mode(call: ast.Call) -> bool:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            letters = set(value.value)
            is_mode = len(value.value) <= 3 and letters <= set("rwaxbt+")
            if is_mode and letters & set("wax+"):
                return True
    return False


def _has_writing_flags(call: ast.Call) -> bool:
    return any("O_WRONLY" in ast.dump(value) or "O_RDWR" in ast.dump(value) for value in call.args)


def test_nothing_else_opens_files_for_writing() -> None:
    writers = set()
    for package in ("memory_server", "sandbox", "nlp", "languages"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text("utf-8")
            if path == Path(folders.__file__) or not any(
                f"{name}(" in text for name in ("open", *_WRITES, *_MAKES)
            ):
                continue
            calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
            if any(map(_opens_for_writing, calls)):
                writers.add(path.relative_to(ROOT).as_posix())
    assert writers == ELSEWHERE.keys()
