"""No byte of a home holds a secret that came in, through whichever door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_server import App, Settings
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import ToolFailed, call

pytestmark = pytest.mark.anyio
# Put together here, so that no scanner takes this file for a leak.
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
PASSWORD = "hunter" + "2275"
MARK = f"[removed: a GitHub token, {len(SECRET)} characters]"
SAID = [{"role": "user", "content": f"the deployment token is {SECRET}, keep it"}]


def holders(folder: Path, *needles: str) -> list[Path]:
    """Return the files that have one of these texts in any of their bytes, in any case."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [
        path
        for path in files
        if any(needle.lower().encode() in path.read_bytes().lower() for needle in needles)
    ]


DOORS = [
    ("add_short_term_memory", {"messages": SAID, "otherWords": [f"x {SECRET}"]}),
    ("remember_turn", {"messages": SAID}),
    (
        "add_long_term_memory",
        {
            "name": f"deployment {SECRET}",
            "prompt": f"The token is {SECRET}.",
            "trigger": f'match_keys(context.messages, ["{SECRET}"]) > 0',
            "recentMessages": SAID,
        },
    ),
    (
        "remember",
        {
            "type": "domain",
            "topic": f"Token {SECRET}",
            "content": f"It is {SECRET}.",
            "tags": [SECRET],
        },
    ),
    (
        "memory_add",
        {"messages": f"My token is {SECRET}.", "mode": "direct", "metadata": {"a": SECRET}},
    ),
    ("memoryAdd", {"content": f"A long text with {SECRET}.", "tags": [SECRET[:40]]}),
]


@pytest.mark.parametrize(("tool", "arguments"), DOORS)
async def test_a_tool_stores_no_secret_and_says_so(
    tmp_path: Path, tool: str, arguments: dict[str, object]
) -> None:
    if tool not in TOOLS:
        pytest.fail(f"there is no tool {tool}")
    async with App(Settings(data_dir=tmp_path)) as app:
        answer = await call(TOOLS[tool], app.call, arguments)
        assert "removed" in answer.text
        assert SECRET not in json.dumps(answer.structured)
    assert holders(tmp_path, SECRET) == []
    assert holders(tmp_path, "removed: a GitHub token")


async def test_a_question_and_a_call_that_fails_leave_no_secret(tmp_path: Path) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        await call(
            TOOLS["remember_turn"],
            app.call,
            {"messages": [{"role": "user", "content": "the deployment token"}]},
        )
        asked = {"messages": SAID, "otherWords": [SECRET]}
        answer = await call(TOOLS["recall_turn"], app.call, asked)
        assert "removed" not in answer.text
        broken = {"name": "x", "prompt": SECRET, "trigger": f"({SECRET}"}
        with pytest.raises(ToolFailed):
            await call(TOOLS["add_long_term_memory"], app.call, broken)
    assert holders(tmp_path, SECRET) == []


async def test_an_edit_stores_no_secret(tmp_path: Path) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        short_term = app.conversation().short_term
        stored = await short_term.add([{"role": "user", "content": "the token is not known"}])
        await short_term.edit(stored.memory.id, [f"the token is {SECRET}"], other_words=[SECRET])
    assert holders(tmp_path, SECRET) == []
    assert holders(tmp_path, MARK)


async def test_where_the_settings_say_so_a_secret_stays(tmp_path: Path) -> None:
    for number, settings in enumerate(({"secrets": "keep"}, {"compat": "node"})):
        home = tmp_path / str(number)
        async with App(Settings(data_dir=home, **settings)) as app:
            await app.conversation().short_term.add(SAID)
        assert holders(home, SECRET)
    async with App(Settings(data_dir=tmp_path / "2", compat="node", secrets="remove")) as app:
        await app.conversation().short_term.add(SAID)
    assert holders(tmp_path / "2", SECRET) == []


def program(home: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "MEMORY_SERVER_DATA_DIR": str(home),
        "MEMORY_SERVER_DAEMON__ENABLED": "false",
    }
    command = [sys.executable, "-m", "memory_server", *arguments]
    return subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=120,
    )


def test_a_hook_stores_neither_a_key_nor_a_pair_and_a_companion_keeps_its_pair(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    transcript = tmp_path / "session.jsonl"
    said = f"use {SECRET} and DB_PASSWORD={PASSWORD}"
    row = {
        "type": "user",
        "sessionId": "s1",
        "uuid": "u1",
        "promptId": "p1",
        "timestamp": "2026-11-28T10:00:00.000Z",
        "message": {"role": "user", "content": said},
    }
    transcript.write_text(json.dumps(row) + "\n")
    event = {
        "session_id": "s1",
        "prompt_id": "p1",
        "transcript_path": str(transcript),
        "cwd": str(tmp_path),
    }
    asked = {**event, "hook_event_name": "UserPromptSubmit", "prompt": said}
    ended = {**event, "hook_event_name": "Stop", "last_assistant_message": f"I set {SECRET}."}
    assert program(home, "hook", given=json.dumps(asked)).returncode == 0
    stored = program(home, "hook", given=json.dumps(ended))
    assert "3 secrets were removed" in stored.stderr
    assert holders(home, SECRET, PASSWORD) == []
    assert holders(home, MARK)
    program(home, "remember", f"the wifi password: {PASSWORD}")
    assert holders(home, PASSWORD)


async def home_with_secret(home: Path) -> None:
    """Make a home as a version made it that removed no secrets."""
    async with App(Settings(data_dir=home, secrets="keep")) as app:
        await app.conversation().short_term.add(SAID)
        await app.conversation().short_term.add([{"role": "user", "content": "The cat is Miso."}])


async def test_an_import_removes_secrets_unless_it_is_told_to_keep_them(tmp_path: Path) -> None:
    kept, home, older = (tmp_path / name for name in ("kept", "home", "older"))
    await home_with_secret(older)
    file = str(tmp_path / "memories.jsonl")
    assert program(older, "export", file).returncode == 0
    removing = program(home, "import", file)
    assert "1 secret was removed" in removing.stdout
    assert holders(home, SECRET) == []
    assert holders(home, MARK)
    assert program(kept, "import", file, "--keep-secrets").returncode == 0
    assert holders(kept, SECRET)


async def test_a_restored_backup_is_as_it_was(tmp_path: Path) -> None:
    await home_with_secret(tmp_path)
    assert program(tmp_path, "backup", "b").returncode == 0
    assert program(tmp_path, "forget", "deployment", "--yes").returncode == 0
    assert program(tmp_path, "backup", "restore", "b").returncode == 0
    listed = program(tmp_path, "search", "deployment", "--json").stdout
    assert SECRET in listed


async def test_older_secrets_are_counted_shown_and_erased_for_good(tmp_path: Path) -> None:
    await home_with_secret(tmp_path)
    assert program(tmp_path, "backup", "b").returncode == 0
    examined = program(tmp_path, "doctor").stdout
    assert "1 memory and 1 backup hold keys or passwords" in " ".join(examined.split())
    planned = program(tmp_path, "secrets", "erase", "--dry-run", "--in-backups")
    assert "Would erase 1 memory." in planned.stdout
    assert SECRET not in planned.stdout
    assert holders(tmp_path, SECRET)
    erased = program(tmp_path, "secrets", "erase", "--yes", "--in-backups")
    assert erased.returncode == 0, erased
    assert holders(tmp_path, SECRET) == []
    assert "Miso" in program(tmp_path, "list").stdout
    assert "no memory and no backup holds" in " ".join(program(tmp_path, "doctor").stdout.split())


def test_a_text_is_shown_as_it_would_be_stored(tmp_path: Path) -> None:
    shown = program(tmp_path, "secrets", "test", "-", given=f"{SECRET} and password: {PASSWORD}")
    assert MARK in shown.stdout
    assert PASSWORD not in shown.stdout
