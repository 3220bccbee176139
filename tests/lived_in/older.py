"""What is in a data folder beside what this program wrote: edits by hand, and records of older programs."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any


def edit_by_hand(data: Path, rng: Random) -> None:
    """Change one file as a person or an older program leaves it."""
    kind = rng.choice(
        (
            _edit_memory,
            _edit_memory,
            _edit_trigger,
            _old_recall,
            _old_recall,
            _stray_files,
            _conflict_copy,
            _put_back,
        )
    )
    kind(data, rng)


def damage(data: Path, rng: Random) -> None:
    """Break the end of one file of a conversation, or of the record of recalls."""
    paths: list[Path] = []
    for pattern in (
        "*/short-term-memory.json",
        "*/.memory-server/*.jsonl",
        ".memory-server/recalls/*.jsonl",
    ):
        paths.extend(data.glob(pattern))
    files = sorted(path for path in paths if path.is_file())
    if not files:
        return
    path = rng.choice(files)
    content = path.read_bytes()
    match rng.randrange(3):
        case 0:
            path.write_bytes(content[: max(0, len(content) - rng.randrange(1, 40))])
        case 1:
            path.write_bytes(content + b'{"half": "a li')
        case 2:
            path.write_bytes(content + b"\0" * 64)


def _rooms(data: Path, name: str) -> list[Path]:
    return sorted(path for path in data.glob(f"*/{name}") if path.is_file())


def _edit_memory(data: Path, rng: Random) -> None:
    files = _rooms(data, "short-term-memory.json")
    if not files:
        return
    path = rng.choice(files)
    records = json.loads(path.read_text("utf-8"))
    if not records:
        return
    record = rng.choice(records)
    match rng.randrange(7):
        case 0:
            record["score"] = rng.choice((1e9, -5, 0.1))
        case 1:
            record.pop("messages", None)
        case 2:
            record["text"] = "user: edited by hand 手改"
            record.pop("messages", None)
        case 3:
            record["mood"] = {"a": None}
        case 4:
            records.remove(record)
        case 5:
            records.append(
                {
                    "timestamp": 1_700_000_000_000,
                    "text": "user: 我从旧版来",
                    "keywords": [],
                    "score": 0,
                }
            )
        case 6:
            record["keywords"] = []
    path.write_text(json.dumps(records, ensure_ascii=False, indent=2), "utf-8")


def _edit_trigger(data: Path, rng: Random) -> None:
    files = _rooms(data, "long-term-memory.json")
    if not files:
        return
    path = rng.choice(files)
    records = json.loads(path.read_text("utf-8"))
    if records:
        record = rng.choice(records)
        record[rng.choice(("prompt", "trigger", "createdContext"))] = rng.choice(
            ("true", "", "手改")
        )
    else:
        records.append(
            {
                "name": "by hand",
                "prompt": "p",
                "trigger": "true",
                "createdAt": "2026-01-01T00:00:00Z",
            }
        )
    path.write_text(json.dumps(records, ensure_ascii=False, indent=2), "utf-8")


def _conflict_copy(data: Path, rng: Random) -> None:
    """A program that syncs puts the file of another machine beside ours."""
    files = _files_that_sync(data)
    if files:
        path = rng.choice(files)
        stem, dot, ending = path.name.partition(".")
        marks = (".sync-conflict-20261128-101500-ABCDEFG", " (1)", "-LAPTOP", " (conflicted copy)")
        path.with_name(f"{stem}{rng.choice(marks)}{dot}{ending}").write_bytes(path.read_bytes())


def _put_back(data: Path, rng: Random) -> None:
    """A program that syncs puts an older state of a snapshot back: some of its memories were not there yet."""
    files = _rooms(data, "short-term-memory.json")
    if not files:
        return
    path = rng.choice(files)
    records = json.loads(path.read_text("utf-8"))
    older = records[: rng.randrange(len(records) + 1)]
    path.write_text(json.dumps(older, ensure_ascii=False, indent=2), "utf-8")


def _files_that_sync(data: Path) -> list[Path]:
    paths: list[Path] = []
    for pattern in ("*/short-term-memory.json", "*/.memory-server/*.jsonl", ".memory-server/*"):
        paths.extend(data.glob(pattern))
    return sorted(path for path in paths if path.is_file())


def _old_recall(data: Path, rng: Random) -> None:
    """Lines of the record of recalls as an older program wrote them: without a message, a client or a reason."""
    folder = data / ".memory-server" / "recalls"
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        return
    path = files[-1]
    lines = path.read_text("utf-8").splitlines()
    if not lines:
        return
    number = rng.randrange(len(lines))
    line: dict[str, Any] = json.loads(lines[number])
    for name in rng.sample(
        ("said", "client", "by", "cwd", "near", "turn", "session", "chars", "folder"), 4
    ):
        line.pop(name, None)
    for item in line.get("came", ()):
        item.pop(rng.choice(("why", "points", "terms", "kept_in", "tier")), None)
    lines[number] = json.dumps(line, ensure_ascii=False)
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _stray_files(data: Path, rng: Random) -> None:
    """What other programs leave in every folder."""
    data.mkdir(exist_ok=True)
    (data / ".DS_Store").write_bytes(b"\0\1")
    (data / "notes.txt").write_text("mine", "utf-8")
    (data / "empty folder").mkdir(exist_ok=True)
