"""Files of other programs, small and our own, and some of this program."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from interchange import test_chat_programs as chat_programs
from interchange import test_other_memories as programs
from lived_in import texts
from lived_in.house import House


def written_file(house: House, rng: Random) -> tuple[list[str], Path]:
    """A file or folder of another program, and the flags of the import that it needs."""
    folder = house.folder / f"from{rng.randrange(10_000)}"
    folder.mkdir(exist_ok=True)
    kind = rng.choice(list(KINDS))
    flags, name = KINDS[kind](folder, rng)
    return [*flags], folder / name


def _chat(folder: Path, rng: Random) -> tuple[list[str], str]:
    rows = [
        texts.message(rng, rng.choice(("user", "assistant")))
        for _number in range(rng.randrange(1, 12))
    ]
    _write_lines(folder / "chat.jsonl", rows)
    return ["--format", "chat"], "chat.jsonl"


def _sillytavern(folder: Path, rng: Random) -> tuple[list[str], str]:
    rows: list[dict[str, Any]] = [
        {"user_name": "Ann", "character_name": "阿澈", "create_date": "2026-01-01@10h00m00s"}
    ]
    for number in range(rng.randrange(1, 9)):
        is_user = number % 2 == 0
        name = ("Ann", "阿澈")[number % 2]
        send_date = f"January {number + 1}, 2026 1:0{number}pm"
        rows.append(
            {"name": name, "is_user": is_user, "mes": texts.sentence(rng), "send_date": send_date}
        )
    _write_lines(folder / "tavern.jsonl", rows)
    return [], "tavern.jsonl"


def _lorebook(folder: Path, rng: Random) -> tuple[list[str], str]:
    entry = {
        "uid": 0,
        "key": ["芒果", "mango"],
        "keysecondary": [],
        "content": texts.sentence(rng),
        "comment": "芒果",
    }
    entry |= {
        "constant": rng.random() < 0.3,
        "selective": False,
        "disable": False,
        "order": 100,
        "depth": 4,
    }
    _write(folder / "book.json", {"entries": {"0": entry}})
    return ["--format", "worldinfo"], "book.json"


def _official(folder: Path, rng: Random) -> tuple[list[str], str]:
    rows = [
        {
            "type": "entity",
            "name": "Ann",
            "entityType": "person",
            "observations": [texts.sentence(rng), "likes tea"],
        },
        {"type": "relation", "from": "Ann", "to": "Bob", "relationType": "knows"},
    ]
    _write_lines(folder / "memory.jsonl", rows)
    return ["--format", "official"], "memory.jsonl"


def _page(folder: Path, rng: Random) -> tuple[list[str], str]:
    text = f"---\ntitle: {rng.choice(('Deploy', '部署'))}\ntags: [db]\n---\n\n# Deploy\n\n{texts.sentence(rng)}\n"
    (folder / "pages").mkdir(exist_ok=True)
    (folder / "pages" / "deploy.md").write_text(text, "utf-8", newline="")
    return ["--format", "pages"], "pages"


def _node(folder: Path, rng: Random) -> tuple[list[str], str]:
    """The data folder of the Node original: memories without messages."""
    room = folder / "memories" / "小明"
    room.mkdir(parents=True, exist_ok=True)
    memory = {
        "timestamp": 1_750_000_000_000,
        "text": f"user: {texts.sentence(rng)}",
        "keywords": [["披萨", 3.5]],
    }
    memory["keywords"] = [{"word": "披萨", "weight": 3.5}]
    _write(
        room / "short-term-memory.json",
        [memory | {"score": rng.choice((0, 5, -2.5)), "conversation_id": "小明"}],
    )
    _write(room / "long-term-memory.json", [{"name": "生日", "prompt": "p", "trigger": "true"}])
    return ["--format", "node"], "memories"


def _claude_code(folder: Path, rng: Random) -> tuple[list[str], str]:
    import hook_transcripts

    origin = rng.choice(({}, {"entrypoint": "sdk-cli"}))
    rows = [
        hook_transcripts.user(texts.sentence(rng), uuid="u0", **origin),
        hook_transcripts.assistant("Noted.", uuid="a0", parentUuid="u0"),
    ]
    for number in range(1, rng.randrange(1, 4)):  # each takes back the one before it
        words = texts.sentence(rng)
        rows.append(hook_transcripts.user(words, uuid=f"u{number}", parentUuid="a0", **origin))
        answer = hook_transcripts.assistant("Well.", uuid=f"a{number}", parentUuid=f"u{number}")
        rows.append(answer)
    lines = hook_transcripts.transcript(*rows)
    (folder / "project").mkdir(exist_ok=True)
    (folder / "project" / "s1.jsonl").write_bytes(lines)
    return ["--format", "claude-code"], "project"


def _claude_mem(folder: Path, rng: Random) -> tuple[list[str], str]:
    programs.claude_mem(str(folder / "claude-mem.db"), 2)
    return ["--format", "claude-mem"], "claude-mem.db"


def _livingmemory(folder: Path, rng: Random) -> tuple[list[str], str]:
    programs.living_memory(str(folder / "living.db"))
    return ["--format", "livingmemory"], "living.db"


def _card(folder: Path, rng: Random) -> tuple[list[str], str]:
    (folder / "card.png").write_bytes(programs.card("tEXt"))
    return ["--char", "阿遥", "--user", "我"], "card.png"


def _broken(folder: Path, rng: Random) -> tuple[list[str], str]:
    (folder / "broken.json").write_bytes(
        rng.choice((b"", b"{", b"[]", b"\xff\xfe", b'{"a": NaN}', b"null"))
    )
    return [], "broken.json"


def _mem0(folder: Path, rng: Random) -> tuple[list[str], str]:
    result = {
        "id": "0b1c",
        "memory": texts.sentence(rng),
        "user_id": rng.choice(texts.USERS),
        "metadata": None,
    }
    result |= {"created_at": "2026-01-02T03:04:05-07:00", "updated_at": None}
    _write(folder / "mem0.json", {"results": [result]})
    return ["--format", "mem0"], "mem0.json"


def _chat_program(folder: Path, rng: Random) -> tuple[list[str], str]:
    value = chat_programs.FILES[rng.choice(list(chat_programs.FILES))]
    _write(folder / "export.json", value)
    return [], "export.json"


def _openmemory(folder: Path, rng: Random) -> tuple[list[str], str]:
    states = ("active", "deleted", "archived")
    rows = [
        {"id": state, "content": texts.sentence(rng), "state": state, "created_at": "2026-01-02"}
        for state in states
    ]
    _write(folder / "memories.json", {"apps": [], "memories": rows, "export_meta": {}})
    return [], "memories.json"


def _node_backup(folder: Path, rng: Random) -> tuple[list[str], str]:
    long_term = [{"name": "生日", "prompt": texts.sentence(rng), "trigger": "true"}]
    backup = {"version": "1.0", "conversation_id": "小明", "short_term": None}
    _write(folder / "backup.json", backup | {"long_term": long_term})
    return [], "backup.json"


KINDS = {
    "chat": _chat,
    "sillytavern": _sillytavern,
    "lorebook": _lorebook,
    "official": _official,
    "page": _page,
    "node": _node,
    "claude-code": _claude_code,
    "claude-mem": _claude_mem,
    "livingmemory": _livingmemory,
    "card": _card,
    "broken": _broken,
    "mem0": _mem0,
    "chat program": _chat_program,
    "openmemory": _openmemory,
    "node backup": _node_backup,
}


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")


def _write_lines(path: Path, rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
