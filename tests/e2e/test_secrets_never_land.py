"""No byte of a home holds a secret that came in, through whichever door."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from cli_program import CommandLine

from memory_server import App, Settings
from memory_server.conversations.short_term import Origin
from memory_server.kernel.work import Work
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


def test_a_hook_stores_neither_a_key_nor_a_pair_and_a_companion_keeps_its_pair(
    cli: CommandLine, tmp_path: Path
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
    assert cli("--data-dir", str(home), "hook", stdin=asked).status == 0
    stored = cli("--data-dir", str(home), "hook", stdin=ended)
    assert "3 secrets were removed" in stored.err
    assert holders(home, SECRET, PASSWORD) == []
    assert holders(home, MARK)
    cli("--data-dir", str(home), "remember", f"the wifi password: {PASSWORD}")
    assert holders(home, PASSWORD)


async def home_with_secret(home: Path) -> None:
    """Make a home as a version made it that removed no secrets."""
    async with App(Settings(data_dir=home, secrets="keep")) as app:
        await app.conversation().short_term.add(SAID)
        await app.conversation().short_term.add([{"role": "user", "content": "The cat is Miso."}])


def test_an_import_removes_secrets_unless_it_is_told_to_keep_them(
    cli: CommandLine, tmp_path: Path
) -> None:
    kept, home, older = (tmp_path / name for name in ("kept", "home", "older"))
    asyncio.run(home_with_secret(older))
    file = str(tmp_path / "memories.jsonl")
    assert cli("--data-dir", str(older), "export", file).status == 0
    removing = cli("--data-dir", str(home), "import", file)
    assert "1 secret was removed" in removing.out
    assert holders(home, SECRET) == []
    assert holders(home, MARK)
    assert cli("--data-dir", str(kept), "import", file, "--keep-secrets").status == 0
    assert holders(kept, SECRET)


def test_an_import_removes_pairs_of_turns_in_which_work_was_done(
    cli: CommandLine, tmp_path: Path
) -> None:
    older, home = tmp_path / "older", tmp_path / "home"

    async def fill() -> None:
        async with App(Settings(data_dir=older, secrets="keep")) as app:
            add = app.conversation().short_term.add
            said = [{"role": "user", "content": f"DB_PASSWORD={PASSWORD}"}]
            await add(said, origin=Origin("t1", work=Work(("config.py",))))
            await add([{"role": "user", "content": "The wifi password: sunshine77"}])

    asyncio.run(fill())
    file = str(tmp_path / "memories.jsonl")
    assert cli("--data-dir", str(older), "export", file).status == 0
    assert "1 secret was removed" in cli("--data-dir", str(home), "import", file).out
    assert holders(home, PASSWORD) == []
    assert holders(home, "sunshine77"), "a companion is told a password to keep it"


def test_a_restored_backup_is_as_it_was(cli: CommandLine, tmp_path: Path) -> None:
    asyncio.run(home_with_secret(tmp_path))
    assert cli("--data-dir", str(tmp_path), "backup", "b").status == 0
    assert cli("--data-dir", str(tmp_path), "forget", "deployment", "--yes").status == 0
    assert cli("--data-dir", str(tmp_path), "backup", "restore", "b").status == 0
    listed = cli("--data-dir", str(tmp_path), "search", "deployment", "--json").out
    assert SECRET in listed


def test_older_secrets_are_counted_shown_and_erased_for_good(
    cli: CommandLine, tmp_path: Path
) -> None:
    asyncio.run(home_with_secret(tmp_path))
    assert cli("--data-dir", str(tmp_path), "backup", "b").status == 0
    examined = cli("--data-dir", str(tmp_path), "doctor").out
    assert "1 memory and 1 backup hold keys or passwords" in " ".join(examined.split())
    planned = cli("--data-dir", str(tmp_path), "secrets", "erase", "--dry-run", "--in-backups")
    assert "Would erase 1 memory." in planned.out
    assert SECRET not in planned.out
    assert holders(tmp_path, SECRET)
    erased = cli("--data-dir", str(tmp_path), "secrets", "erase", "--yes", "--in-backups")
    assert erased.status == 0, erased
    assert holders(tmp_path, SECRET) == []
    assert "Miso" in cli("--data-dir", str(tmp_path), "list").out
    assert "no memory and no backup holds" in " ".join(
        cli("--data-dir", str(tmp_path), "doctor").out.split()
    )


def test_a_text_is_shown_as_it_would_be_stored(cli: CommandLine, tmp_path: Path) -> None:
    shown = cli(
        "--data-dir",
        str(tmp_path),
        "secrets",
        "test",
        "-",
        stdin=f"{SECRET} and password: {PASSWORD}".encode(),
    )
    assert MARK in shown.out
    assert PASSWORD not in shown.out
