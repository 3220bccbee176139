"""`export`: only notes of a type, only entries with a tag, a table, and a compressed file that comes in again."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from pathlib import Path

import pytest
from cli_program import CommandLine

from memory_server.cli.parser import main
from memory_server.interchange.own import COLUMNS


@pytest.fixture
def cli(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command on a folder that holds notes, a log and a turn."""
    monkeypatch.chdir(tmp_path)
    cli = cli.with_flags("--data-dir", "data")
    for kind, topic, tags in (("tech", "pool", ["db", "API"]), ("domain", "=SUM(1)", ["money"])):
        note = {"type": kind, "topic": topic, "content": f"about {topic}, 文本", "tags": tags}
        assert cli("call", "remember", json.dumps(note))[0] == 0
    assert cli("call", "memoryAdd", json.dumps({"content": "+a log", "tags": ["api"]}))[0] == 0
    turn = {"messages": [{"role": "user", "content": "I like pizza"}]}
    assert cli("call", "add_short_term_memory", json.dumps(turn))[0] == 0
    return cli


def exported(cli: CommandLine, *arguments: str) -> list[str]:
    status, out, err = cli("export", "-", *arguments)
    assert (status, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    return [line["entry"]["body"] for line in lines if "entry" in line]


@pytest.mark.parametrize(
    ("arguments", "bodies"),
    [
        (["--type", "tech"], ["about pool, 文本"]),
        (["--type", "domain"], ["about =SUM(1), 文本"]),
        (["--tags", "api"], ["about pool, 文本", "+a log"]),
        (["--tags", " API , money "], ["about pool, 文本", "about =SUM(1), 文本", "+a log"]),
        (["--tags", "api", "--type", "tech"], ["about pool, 文本"]),
        (["--tags", "api", "--family", "refs"], ["+a log"]),
    ],
)
def test_only_what_is_meant_is_exported(
    cli: CommandLine, arguments: list[str], bodies: list[str]
) -> None:
    assert exported(cli, *arguments) == bodies
    assert '"conversation"' not in cli("export", "-", *arguments)[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--type", "tech", "-c", "default"], "--type is for entries"),
        (["--type", "tech", "--family", "refs"], "--type cannot be used with --family refs"),
        (["--tags", "a", "--family", "memories"], "--tags cannot be used with --family memories"),
        (["--tags", "a", "--format", "pack"], "only the formats native and csv"),
        (["--tags", " , "], "--tags names no tag"),
        (["--tags", "nothing"], "No entry has this type and these tags"),
        (["--type", "project-tech"], "No entry has this type and these tags"),
    ],
)
def test_a_choice_that_cannot_be_is_one_sentence(
    cli: CommandLine, arguments: list[str], sentence: str
) -> None:
    status, out, err = cli("export", "-", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_a_table_has_a_row_for_everything_and_no_formula(cli: CommandLine) -> None:
    assert cli("export", "all.csv", "--format", "csv")[0] == 0
    data = Path("all.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf")
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))
    assert tuple(rows[0]) == COLUMNS
    cells = [(row["family"], row["title"], row["text"], row["tags"]) for row in rows]
    assert cells == [
        ("memories", "", "user: I like pizza", ""),
        ("notes", "pool", "about pool, 文本", "db, API"),
        ("notes", "'=SUM(1)", "about =SUM(1), 文本", "money"),
        ("refs", "'+a log", "'+a log", "api"),
    ]
    assert all(row["created"] for row in rows)


def test_a_compressed_export_comes_in_again(cli: CommandLine) -> None:
    assert cli("export", "all.jsonl.gz")[0] == 0
    assert cli("export", "all.jsonl")[0] == 0
    plain = gzip.decompress(Path("all.jsonl.gz").read_bytes()).splitlines()
    assert plain[1:] == Path("all.jsonl").read_bytes().splitlines()[1:]
    assert cli("import", "all.jsonl.gz")[1].count("unchanged") == 3
    assert main(["--data-dir", "elsewhere", "import", "all.jsonl.gz"]) == 0
    assert main(["--data-dir", "elsewhere", "knowledge", "list", "pool"]) == 0


def test_a_compressed_file_that_cannot_be_used_is_refused_in_a_sentence(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("other.gz").write_bytes(gzip.compress(b"a chat\n" * 100))
    assert "is compressed" in cli("import", "other.gz")[2]
    head = b'{"format":"memory-server","version":1,"created":"2026-01-01T00:00:00.000Z"}\n'
    whole = gzip.compress(head + os.urandom(20_000))
    Path("cut.gz").write_bytes(whole[: len(whole) // 2])
    Path("large.gz").write_bytes(gzip.compress(head + b"x" * 10_000))
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 255
    Path("damaged.gz").write_bytes(damaged)
    monkeypatch.setattr("memory_server.interchange.own.MAX_FILE_BYTES", 5_000)
    for name in ("cut.gz", "large.gz", "damaged.gz"):
        status, _out, err = cli("import", name)
        assert (status, err.count("\n")) == (2, 1)
        assert "is compressed, and" in err
