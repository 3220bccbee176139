"""An export holds all families in one form, and an import reads it back equal."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine


@pytest.fixture
def cli(cli: CommandLine, elsewhere: None) -> CommandLine:
    """The command, in a project of its own."""
    return cli


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "add_short_term_memory",
        {"messages": [{"role": "user", "content": "我喜欢吃披萨"}], "conversation_id": "小明"},
    ),
    ("add_long_term_memory", {"name": "生日", "prompt": "p", "trigger": "true"}),
    (
        "remember",
        {
            "type": "tech",
            "topic": "deploy",
            "content": "fly deploy",
            "examples": ["fly deploy --now"],
        },
    ),
    ("remember", {"type": "domain", "topic": "塔", "content": "塔高三百米", "tags": ["A", "b"]}),
    (
        "memory_add",
        {"messages": "likes tea", "user_id": "ann/1", "agent_id": "a", "mode": "direct"},
    ),
    ("memory_add", {"messages": "likes milk", "user_id": "bob", "run_id": "r", "mode": "direct"}),
    ("save_to_memory", {"key": "pool size", "content": "# twenty\n\ntext", "tags": ["db"]}),
    ("save_to_global_memory", {"key": "port", "content": "8080"}),
    ("memoryAdd", {"content": "build log 披萨", "metadata": {"x": [1, {"y": None}]}}),
)


def filled(cli: CommandLine) -> None:
    for second, (tool, arguments) in enumerate(CALLS):
        status, _, err = cli(
            "call", tool, json.dumps(arguments), "--now", f"2026-06-20T08:00:{second:02}Z"
        )
        assert status == 0, err


def elsewhere_again(tmp_path: Path) -> None:
    """Take everything away: the data folder, and the files of both layers."""
    (tmp_path / "data").rename(tmp_path / "former")
    for folder in [*tmp_path.rglob("memory")]:
        if folder.is_dir() and "former" not in folder.parts:
            shutil.rmtree(folder)


def exported(cli: CommandLine, name: str, *flags: str) -> list[str]:
    status, _, err = cli("export", name, *flags, "--force")
    assert status == 0, err
    return Path(name).read_text(encoding="utf-8").splitlines()[1:]


def test_what_was_exported_comes_back_equal_and_twice_is_once(
    cli: CommandLine, tmp_path: Path
) -> None:
    filled(cli)
    before = exported(cli, "all.jsonl")
    assert len(before) == len(CALLS) + 3, "two conversations and the end"
    elsewhere_again(tmp_path)
    status, out, err = cli("import", "all.jsonl", "--dry-run")
    assert (status, "sessions/ann/1 (dry run): 1 new" in out, "left out " in out) == (
        0,
        True,
        False,
    ), err
    assert cli("export", "none.jsonl")[0] == 2, "a dry run stores nothing"
    status, out, err = cli("import", "all.jsonl")
    assert (status, "9 memories can be used, 0 records left out." in out) == (0, True), out
    assert exported(cli, "again.jsonl") == before
    again = cli("import", "all.jsonl")[1]
    assert again.count("1 unchanged") + 2 * again.count("2 unchanged") == len(CALLS)
    assert " new" not in again
    assert exported(cli, "again.jsonl") == before
    change = json.loads(cli("history", "--family", "notes", "--limit", "1", "--json")[1])
    assert change["by"] == "import"
    cli("undo", change["change"])
    assert (
        json.loads(cli("where", "--json")[1])["knowledge"].get("notes", {"entries": 0})["entries"]
        == 0
    )


def test_what_was_deleted_here_comes_back_and_what_is_newer_here_stays(cli: CommandLine) -> None:
    filled(cli)
    exported(cli, "all.jsonl")
    cli("knowledge", "delete", "1")
    [note] = cli("list", "--family", "notes", "--json")[1].splitlines()
    edit = {"memory_id": json.loads(note)["id"], "find": "三", "replace": "四"}
    assert cli("call", "edit_note", json.dumps(edit))[0] == 0
    assert "notes: 1 replaced, 1 newer here and kept" in cli("import", "all.jsonl")[1]
    texts = {
        json.loads(line)["text"]
        for line in cli("list", "--family", "notes", "--json")[1].splitlines()
    }
    assert texts == {"fly deploy", "塔高四百米"}


@pytest.mark.parametrize(
    ("family", "kinds"),
    [
        ("memories", {"short"}),
        ("triggers", {"long"}),
        ("notes", {"notes"}),
        ("sessions", {"sessions/ann/1", "sessions/bob"}),
        ("layers", {"layers/project", "layers/global"}),
        ("refs", {"refs/short-term"}),
    ],
)
def test_an_export_may_be_of_one_family(cli: CommandLine, family: str, kinds: set[str]) -> None:
    filled(cli)
    lines = [json.loads(line) for line in exported(cli, "some.jsonl", "--family", family)]
    assert {line.get("place") or next(iter(line)) for line in lines} - {
        "conversation",
        "end",
    } == kinds


def test_a_line_that_cannot_be_an_entry_costs_only_itself(cli: CommandLine) -> None:
    filled(cli)
    lines = exported(cli, "all.jsonl", "--family", "notes")
    bad = [
        {"place": "nowhere", "entry": {"body": "x"}},
        {"place": "conversations/a", "entry": {"body": "x"}},
        {"place": "notes", "entry": {"body": 7}},
        {"place": "notes", "entry": {"body": "x", "tags": "a"}},
        {"place": "notes", "entry": {"body": "x", "created_ms": True}},
        {"place": "notes", "entry": {"body": ""}},
        {"place": "layers/other", "entry": {"body": "x", "key": "k", "title": "k"}},
        {"place": "layers/project", "entry": {"body": "x", "key": "a\nb", "ref": "../../a.md"}},
        {"place": "notes", "entry": {"body": "x", "ref": "r", "kind": "nonsense"}},
        {"place": "notes", "entry": {"body": "x", "kind": "tech"}},
        {"place": "refs/elsewhere", "entry": {"body": "x", "ref": "r"}},
        {"place": "sessions/a\u200bb", "entry": {"body": "x", "ref": "r"}},
    ]
    head = json.dumps({"format": "memory-server", "version": 1})
    Path("bad.jsonl").write_text("\n".join([head, *map(json.dumps, bad), *lines]), encoding="utf-8")
    cli("knowledge", "delete", "1")
    status, out, err = cli("import", "bad.jsonl", "--all")
    assert (status, err) == (0, "")
    assert out.count("left out  ") == len(bad)
    assert f"2 memories can be used, {len(bad)} records left out." in out
    assert not [*Path("..").rglob("a.md")]
    assert "notes: 1 replaced, 1 unchanged" in out


@pytest.mark.full
@pytest.mark.alone
def test_ten_thousand_entries_of_each_family_come_back_equal(
    cli: CommandLine, tmp_path: Path
) -> None:
    count = 10_000
    lines = [
        {"format": "memory-server", "version": 1},
        {"conversation": "a", "shortTerm": count, "longTerm": count},
    ]
    for number in range(count):
        at = 1_780_000_000_000 + number * 1000
        text = f"memory {number} of mango trees"
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000)) + ".000Z"
        lines.append(
            {
                "short": {
                    "id": f"{number:016x}",
                    "timestamp": stamp,
                    "text": text,
                    "score": 0,
                    "keywords": [],
                }
            }
        )
    for number in range(count):
        long = {
            "name": f"n{number}",
            "prompt": "p",
            "trigger": "true",
            "createdAt": "2026-06-20T08:00:00.000Z",
        }
        lines.append({"long": long})
    for location in ("notes", "sessions/ann", "layers/global", "refs/short-term"):
        for number in range(count):
            at = 1_780_000_000_000 + number * 1000
            entry = {
                "body": f"entry {number} of {location}",
                "title": f"t{number}",
                "created_ms": at,
                "updated_ms": at,
            }
            if location.startswith("layers"):
                entry |= {"key": f"t{number}"}
            else:
                entry |= {"ref": f"{number:08x}-{location.partition('/')[0]}"}
            if location == "notes":
                entry |= {"kind": "tech", "key": f"t{number}"}
            lines.append({"place": location, "entry": entry})
    end = {"end": True, "conversations": 1, "entries": 4 * count}
    Path("big.jsonl").write_text("\n".join(map(json.dumps, [*lines, end])) + "\n", encoding="utf-8")
    seconds_of: dict[str, float] = {}

    def timed(name: str, *arguments: str) -> str:
        began = time.monotonic()
        status, out, err = cli(*arguments)
        seconds_of[name] = time.monotonic() - began
        assert status == 0, err
        return out

    assert f"{6 * count:,}".replace(",", "") in timed("import", "import", "big.jsonl").replace(
        ",", ""
    )
    timed("export", "export", "first.jsonl")
    first = Path("first.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    assert len(first) == 6 * count + 2
    timed("import again", "import", "first.jsonl")
    elsewhere_again(tmp_path)
    timed("import elsewhere", "import", "first.jsonl")
    timed("export elsewhere", "export", "second.jsonl")
    assert Path("second.jsonl").read_text(encoding="utf-8").splitlines()[1:] == first
    print({name: f"{seconds:.1f} s" for name, seconds in seconds_of.items()})
