"""File names and arguments are UTF-8 whatever the locale: one conversation stays one, and what was split is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import pytest
from cli_program import run_on
from sample_memories import NOW, memory
from store_on_disk import commit, open_store, reopened

from memory_server.conversations.changes import Added
from memory_server.kernel.files import hash_in, hashed_name, subfolders
from memory_server.kernel.text import Finding
from memory_server.storage.json_store.examination import examine

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems have one encoding for file names"
)

LOCALES = {"C": ("", ""), "GBK": ("zh_CN", "GBK"), "Latin-1": ("en_US", "ISO-8859-1")}
Run = Callable[..., str]
EVENT = {
    "hook_event_name": "UserPromptSubmit",
    "session_id": "s",
    "prompt": "生日 what about my birthday cake 蛋糕?",
}
TURN = {
    "conversation_id": "小明",
    "messages": [{"role": "user", "content": "my birthday cake…", "timestamp": 1780000000000}],
}


@pytest.fixture(
    scope="module",
    params=["GBK", *(pytest.param(name, marks=pytest.mark.full) for name in ("C", "Latin-1"))],
)
def locale(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, str]:
    """The variables of a locale without UTF-8, where the system can make it."""
    off = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    language, charset = LOCALES[request.param]
    if not charset:
        return {"LC_ALL": "C", **off}
    folder = tmp_path_factory.mktemp("locales")
    compiled = shutil.which("localedef") and subprocess.run(
        ["localedef", "-f", charset, "-i", language, folder / "here"], capture_output=True
    )
    if not compiled or not (folder / "here").exists():
        if request.param == "GBK":  # its streams at least
            return {"LC_ALL": "C", "PYTHONIOENCODING": "gbk", **off}
        pytest.skip(f"no {request.param} locale can be made here")
    return {"LC_ALL": "here", "LOCPATH": str(folder), **off}


def run(*command: str | Path, locale: Mapping[str, str], stdin: str = "") -> str:
    """What a program prints, as UTF-8; nothing on standard error."""
    ended = subprocess.run(
        [sys.executable, *command],
        input=stdin.encode(),
        capture_output=True,
        env={**os.environ, **locale},
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout.decode()


def test_a_conversation_is_one_in_every_locale(tmp_path: Path, locale: Mapping[str, str]) -> None:
    server = ("-m", "memory_server", "--data-dir", tmp_path / "数据…")
    run(
        *server,
        "call",
        "add_short_term_memory",
        json.dumps(TURN, ensure_ascii=False),
        locale=locale,
    )
    # The locale of the tests is UTF-8.
    here = ("--conversation", "小明", "remember", "我喜欢吃披萨 🍕")
    assert run_on(tmp_path / "数据…", *here).status == 0
    listing = run(*server, "list", "-c", "小明", locale=locale)
    assert "my birthday cake…" in listing
    assert "我喜欢吃披萨 🍕" in listing
    assert os.listdir(os.fsencode(tmp_path)) == ["数据…".encode()]
    assert [*os.listdir(os.fsencode(tmp_path / "数据…"))] == [hashed_name("小明").encode()]
    recalled = run(
        *server,
        "--conversation",
        "小明",
        "hook",
        locale=locale,
        stdin=json.dumps(EVENT, ensure_ascii=False),
    )
    assert "my birthday cake…" in json.loads(recalled)["hookSpecificOutput"]["additionalContext"]


def test_a_program_with_the_memory_in_itself_finds_the_same_folder(
    tmp_path: Path, locale: Mapping[str, str]
) -> None:
    program = """
import asyncio, sys
from memory_server.runtime.app import open_memory
from memory_server.conversations.model import Message
async def main():
    async with open_memory(sys.argv[1]) as memory:
        await memory.conversation("小明😀").short_term.add([Message("user", "hello")])
        assert await memory.store.conversations() == ["小明😀"]
asyncio.run(main())
"""
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    run(tmp_path / "program.py", tmp_path / "data", locale=locale)
    assert hashed_name("小明😀").encode() in os.listdir(os.fsencode(tmp_path / "data"))


def test_a_trigger_on_the_command_line_is_what_was_typed(locale: Mapping[str, str]) -> None:
    output = run("-m", "sandbox.cli", "run", "-e", "'…小'.codePointAt(1) === 0x5c0f", locale=locale)
    assert output.startswith("fired")


async def in_gbk(data_dir: Path, name: str, text: str) -> Path:
    """A conversation as it was stored under a GBK locale."""
    await commit(open_store(data_dir), Added(memory(text)), chat=name)
    (folder,) = (
        subfolder for subfolder in subfolders(data_dir) if subfolder.name == hashed_name(name)
    )
    return folder.rename(os.fsdecode(bytes(data_dir) + b"/" + folder.name.encode("gbk")))


def findings(data_dir: Path) -> list[Finding]:
    all_findings: list[Finding] = []
    for folder in subfolders(data_dir):
        all_findings.extend(examine(data_dir, folder, NOW))
    return [finding for finding in all_findings if finding.grade != "ok"]


@pytest.mark.anyio
async def test_a_folder_named_under_another_locale_is_found(tmp_path: Path) -> None:
    folder = await in_gbk(tmp_path, "小明", "a")
    assert not folder.name.isprintable()
    await commit(open_store(tmp_path), Added(memory("b")), chat="小明")
    assert [*(await reopened(tmp_path, "小明")).short_term] == ["a", "b"]
    assert await open_store(tmp_path).conversations() == ["小明"]
    assert findings(tmp_path) == []


@pytest.mark.anyio
async def test_a_conversation_that_was_split_is_told_and_can_be_made_one(tmp_path: Path) -> None:
    data = tmp_path / "data"
    aside = tmp_path / "aside"
    folder = await in_gbk(data, "小明", "a")
    folder.rename(tmp_path / "kept")
    await commit(open_store(data), Added(memory("b")), chat="小明")
    (tmp_path / "kept").rename(folder)
    (finding,) = findings(data)
    assert (finding.grade, finding.about) == ("warning", "小明")
    assert (
        rf"\xc3\xf7~{hash_in(folder.name)} holds other memories of this conversation"
        in finding.what
    )
    aside.mkdir()
    folder.rename(aside / hashed_name("小明"))
    file = str(tmp_path / "file")
    for folder, command in ((aside, "export"), (data, "import")):
        assert (await anyio.to_thread.run_sync(run_on, folder, command, file)).status == 0
    assert sorted((await reopened(data, "小明")).short_term) == ["a", "b"]
    assert findings(data) == []


@pytest.mark.anyio
async def test_a_conversation_whose_id_was_misread_is_told(tmp_path: Path) -> None:
    misread = "小明".encode().decode("gbk")
    await in_gbk(tmp_path, misread, "a")
    assert findings(tmp_path) == []  # nobody is called 小明
    await commit(open_store(tmp_path), Added(memory("b")), chat="小明")
    (finding,) = findings(tmp_path)
    assert (finding.grade, finding.about) == ("warning", misread)
    assert "holds memories of 小明, whose id was misread under another locale" in finding.what
