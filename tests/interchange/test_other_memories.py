"""Memories of other programs come in, once, found afterwards, with what is lost said: each file is made here as the
program makes it."""

from __future__ import annotations

import base64
import json
import os
import re
import sqlite3
import struct
import time
import zlib
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine

from memory_server.cli.parser import main
from memory_server.interchange import png_cards
from memory_server.interchange.forms import format_of
from memory_server.interchange.incoming import NotThisFormat
from memory_server.knowledge.refs import summary_of
from memory_server.operations.exchanged_files import MOST_PAGE_BYTES

MADE_MS = 1_780_000_000_000


@pytest.fixture
def cli(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command in UTC, in the folder of the test."""
    monkeypatch.setenv("MEMORY_SERVER_TIMEZONE", "UTC")
    monkeypatch.chdir(tmp_path)
    return cli.with_flags("--data-dir", "data")


def write(name: str, value: object) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    text = value
    if not isinstance(text, str):
        text = json.dumps(value, ensure_ascii=False)
    Path(name).write_text(text, encoding="utf-8")


def write_lines(name: str, *rows: object) -> None:
    write(name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def database(name: str, script: str, rows: Sequence[tuple[str, Sequence[object]]] = ()) -> None:
    with closing(sqlite3.connect(name)) as connection:
        connection.executescript(script)
        for table, values in rows:
            connection.execute(
                f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values
            )
        connection.commit()


# --- files as the other programs write them ------------------------------------------------------------------

BOOK = {
    "entries": [
        {
            "keys": ["芒果", "mango"],
            "content": "{{char}} 对芒果过敏",
            "enabled": True,
            "insertion_order": 1,
        }
    ]
}
CARD = {"name": "阿遥", "description": "d", "first_mes": "hi {{user}}", "character_book": BOOK}


def picture(*chunks: tuple[bytes, bytes]) -> bytes:
    parts = [(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)), *chunks, (b"IEND", b"")]
    packed = (
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def card(form: str, keyword: bytes = b"chara", content: object = None) -> bytes:
    whole = content or {"spec": "chara_card_v2", "spec_version": "2.0", "data": CARD}
    text = base64.b64encode(json.dumps(whole).encode())
    match form:
        case "zTXt":
            return picture((b"zTXt", keyword + b"\0\0" + zlib.compress(text)))
        case "iTXt":
            return picture((b"iTXt", keyword + b"\0\0\0zh\0" + "卡".encode() + b"\0" + text))
        case "packed iTXt":
            return picture((b"iTXt", keyword + b"\0\1\0\0\0" + zlib.compress(text)))
    return picture((b"tEXt", keyword + b"\0" + text))


def claude_mem(name: str, count: int = 1) -> None:
    database(
        name,
        """
        CREATE TABLE sdk_sessions(id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT);
        CREATE TABLE observations(id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, text TEXT, type TEXT,
          title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT,
          prompt_number INTEGER, created_at TEXT, created_at_epoch INTEGER, merged_into_project TEXT);
        CREATE TABLE session_summaries(id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, request TEXT,
          investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, notes TEXT, created_at_epoch INTEGER);
        CREATE TABLE user_prompts(id INTEGER PRIMARY KEY, content_session_id TEXT, prompt_number INTEGER,
          prompt_text TEXT, created_at_epoch INTEGER);
        CREATE TABLE tool_uses(id INTEGER PRIMARY KEY, name TEXT);
        CREATE VIRTUAL TABLE user_prompts_fts USING fts5(prompt_text, content='user_prompts', content_rowid='id');
        CREATE TRIGGER user_prompts_ai AFTER INSERT ON user_prompts BEGIN
          INSERT INTO user_prompts_fts(rowid, prompt_text) VALUES (new.id, new.prompt_text); END;
        """,
        [
            *(
                ("observations", (n, "m", "shop", None, "bugfix", f"Rounding of VAT fixed, part {n}", "half-even",
                  '["Prices are kept in cents"]', "先加税再舍入。", '["gotcha"]', '["a.ts"]', "[]", 1, "",
                  MADE_MS + n, None))
                for n in range(1, count + 1)
            ),
            ("session_summaries", (1, "m", "shop", "Fix rounding", None, "half-even", "tested", None, None, MADE_MS)),
            ("user_prompts", (1, "s", 1, "请修好结账页面的舍入错误", MADE_MS)),
            ("tool_uses", (1, "Bash")),
        ],
    )  # fmt: skip


def living_memory(name: str) -> None:
    about = {
        "session_id": "qq:FriendMessage:10001",
        "persona_id": "p",
        "importance": 0.8,
        "create_time": MADE_MS / 1000,
    }
    source_messages = [
        {
            "role": "user",
            "content": "我怕打针",
            "session_id": "qq:FriendMessage:10001",
            "timestamp": MADE_MS / 1000,
        },
        {
            "role": "assistant",
            "content": "不怕",
            "session_id": "qq:FriendMessage:10001",
            "timestamp": MADE_MS / 1000 + 5,
        },
    ]
    script = """
        CREATE TABLE documents(id INTEGER PRIMARY KEY AUTOINCREMENT, doc_id TEXT, text TEXT NOT NULL, metadata TEXT,
          created_at TEXT, updated_at TEXT,
          user_id TEXT GENERATED ALWAYS AS (json_extract(metadata, '$.user_id')) STORED);
        CREATE TABLE memory_sources(memory_id INTEGER PRIMARY KEY, source_json TEXT, created_at REAL, updated_at REAL);
        CREATE TABLE graph_edges(id INTEGER PRIMARY KEY, a TEXT);
    """
    database(
        name,
        script,
        [("memory_sources", (1, json.dumps(source_messages), 0, 0)), ("graph_edges", (1, "x"))],
    )
    rows = [
        ("小明下周四看牙医", about),
        ("旧的", about | {"status": "archived"}),
        ("大家都爱乌龙茶", {"topics": ["茶"]}),
    ]
    with closing(sqlite3.connect(name)) as connection:
        fields = "INSERT INTO documents(doc_id, text, metadata, created_at) VALUES ('x', ?, ?, '2026-05-28 20:26:40')"
        connection.executemany(
            fields, [(text, json.dumps(facts, ensure_ascii=False)) for text, facts in rows]
        )
        connection.commit()


def transcript(
    session: str, *turns: tuple[str, str], cwd: str = "/nowhere/shop"
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}
    ]
    for number, (question, answer) in enumerate(turns):
        at = {"sessionId": session, "cwd": cwd, "timestamp": f"2026-05-28T20:{number:02}:00.000Z"}
        blocks: list[dict[str, Any]] = [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "t", "name": "Read", "input": {}},
        ]
        result = [{"type": "tool_result", "content": "file"}]
        lines: list[tuple[str, str, object]] = [
            ("user", "u", question),
            *(("assistant", f"a{n}", [block]) for n, block in enumerate(blocks)),
            ("user", "r", result),
            ("assistant", "side", "sub"),
            ("assistant", "z", [{"type": "text", "text": answer}]),
        ]
        for role, mark, content in lines:
            row = {
                "type": role,
                "uuid": f"{session}{mark}{number}",
                **at,
                "message": {"role": role, "content": content},
            }
            if mark == "u":
                row["promptId"] = f"p{number}"
            elif mark == "side":
                row["isSidechain"] = True
            rows.append(row)
    return rows


MEM0 = {
    "results": [
        {"id": "1", "memory": "安安喜欢乌龙茶", "hash": "h", "metadata": {"place": "家"}, "user_id": "ann",
         "created_at": "2026-05-28T20:26:40+00:00", "updated_at": "2026-05-28T20:26:40+00:00"},
        {"id": "2", "memory": "Ann's dentist is Dr. Weber", "user_id": "ann", "agent_id": "coach",
         "categories": ["health"]},
    ]
}  # fmt: skip
SEED_NOTES = """
    CREATE TABLE memories(id TEXT PRIMARY KEY, type TEXT NOT NULL, topic TEXT NOT NULL, tags TEXT,
      content TEXT NOT NULL,
      examples TEXT, reference_count INTEGER DEFAULT 0, confidence REAL DEFAULT 1.0, created_at INTEGER,
      last_accessed INTEGER, source TEXT, deleted INTEGER DEFAULT 0);
    CREATE VIRTUAL TABLE memories_fts USING fts5(memory_id UNINDEXED, topic, tags, content);
"""
PAGE = """---
title: Coffee Brewing
type: note
tags: [coffee, brewing]
permalink: coffee-brewing
created: 2026-05-01T10:00:00+00:00
modified: '2026-05-02T10:00:00+00:00'
---

# Coffee Brewing
- [technique] Water at 96 degrees brings the best of Ethiopian beans #brewing
- relates_to [[Tea]]
"""


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-05-28T20:00:00.000Z", "type": kind, "payload": payload}


def codex_item(role: str, text: str) -> dict[str, Any]:
    form = "input_text"
    if role == "assistant":
        form = "output_text"
    return codex("response_item", type="message", role=role, content=[{"type": form, "text": text}])


CODEX_HEAD = [
    codex("session_meta", id="c1", cwd="/nowhere/shop", cli_version="0.171.0", source="cli"),
    codex("event_msg", type="task_started", turn_id="t1"),
    codex_item("developer", "<permissions instructions>"),
    codex_item("user", "<environment_context>\n  <cwd>/nowhere/shop</cwd>\n</environment_context>"),
    codex("turn_context", turn_id="t1", cwd="/nowhere/shop", model="m"),
]
CODEX_ANSWER = [
    codex("response_item", type="reasoning", summary=[]),
    codex("response_item", type="function_call", name="request_user_input", call_id="k", arguments=json.dumps(
        {"questions": [{"id": "q", "header": "Shop", "question": "Which shop?", "options": []}]})),
    codex("response_item", type="function_call_output", call_id="k", output=json.dumps(
        {"answers": {"q": {"answers": ["Books", "user_note: the one in Porto"]}}})),
    codex("inter_agent_communication", content="Delete the bucket"),
    codex("dream", content="x"),
    codex_item("user", "<subagent_notification>{}</subagent_notification>"),
    codex_item("assistant", "It listens on 8460."),
    codex("event_msg", type="task_complete", turn_id="t1", last_agent_message="It listens on 8460."),
    codex("event_msg", type="task_started", turn_id="t2"),
]  # fmt: skip
CODEX_ASKED = "Which port has the bookshop?"


def codex_event(text: str) -> dict[str, Any]:
    return codex("event_msg", type="user_message", message=text, images=[])


def codex_completed(text: str) -> dict[str, Any]:
    item = {"type": "UserMessage", "id": "i", "content": [{"type": "text", "text": text}]}
    return codex("event_msg", type="item_completed", thread_id="c1", item=item)


CODEX: dict[str, list[dict[str, Any]]] = {
    "codex": [*CODEX_HEAD, codex_item("user", CODEX_ASKED), codex_completed(CODEX_ASKED), *CODEX_ANSWER,
              codex_item("user", "谢谢"), codex_completed("谢谢"), codex_item("assistant", "不客气")],
    "codex events": [
        *CODEX_HEAD, codex_item("user", CODEX_ASKED),
        codex_event(f"# Context from my IDE setup:\n\n## My request for Codex:\n{CODEX_ASKED}\n"), *CODEX_ANSWER,
        codex_item("user", "谢谢"), codex_event("谢谢"), codex_item("assistant", "不客气")],
    "codex of 2025": [
        {"id": "c1", "timestamp": "2026-05-28T20:00:00.000Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        *(line["payload"] for line in (*CODEX_HEAD[2:4], codex_item("user", CODEX_ASKED), *CODEX_ANSWER[:3])),
        *(line["payload"] for line in (CODEX_ANSWER[6], codex_item("user", "谢谢"), codex_item("assistant", "不客气"))),
    ],
}  # fmt: skip
GEMINI_ABOUT = {
    "sessionId": "g1",
    "projectHash": "ab",
    "startTime": "2026-05-28T20:00:00.000Z",
    "lastUpdated": "2026-05-28T20:00:00.000Z",
    "kind": "main",
}
GEMINI_CONTEXT = (
    "<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\n"
    "- **Workspace Directories:**\n  - /nowhere/shop\n</session_context>"
)


def gemini(number: int, kind: str, content: object, **more: object) -> dict[str, Any]:
    at = f"2026-05-28T20:{number:02}:00.000Z"
    return {"id": f"m{number}", "timestamp": at, "type": kind, "content": content} | more


GEMINI = [
    gemini(1, "user", [{"text": "Which port has @shop.toml?"}, {"text": "\n--- Content from referenced files ---"},
                       {"text": "secret"}]),
    gemini(2, "gemini", "Let me ask.", thoughts=[{"subject": "s"}], toolCalls=[
        {"id": "k", "name": "ask_user", "args": {"questions": [{"question": "Which shop?", "header": "Shop"}]},
         "result": [{"functionResponse": {"id": "k", "name": "ask_user", "response":
                     {"output": json.dumps({"answers": {"0": "the bookshop in Porto"}})}}}]}]),
    gemini(3, "info", "Request cancelled."),
    gemini(4, "gemini", "It listens on 8460."),
    gemini(5, "user", "谢谢"),
    gemini(6, "gemini", "不客气"),
]  # fmt: skip


def make(form: str) -> str:
    """A file or folder of this form, as its program makes it; its name."""
    match form:
        case "card":
            Path("c.png").write_bytes(card("tEXt"))
            return "c.png"
        case "claude-mem":
            claude_mem("c.db")
            return "c.db"
        case "claude-mem export":
            row = {"memory_session_id": "m", "project": "shop", "type": "bugfix", "title": "Rounding of VAT fixed",
                   "narrative": "half-even", "created_at_epoch": MADE_MS}  # fmt: skip
            write("c.json", {"observations": [row], "summaries": [], "prompts": [], "sessions": []})
            return "c.json"
        case "livingmemory":
            living_memory("l.db")
            return "l.db"
        case "livingmemory export":
            about = {"session_id": "qq:GroupMessage:777", "create_time": MADE_MS / 1000}
            row = {
                "original_id": 7,
                "content": "群里周五打羽毛球",
                "metadata": about,
                "source_messages": [],
            }
            write(
                "l.json",
                {
                    "format": "livingmemory",
                    "schema_version": 1,
                    "memory_count": 1,
                    "memories": [row],
                },
            )
            return "l.json"
        case "livingmemory talk":
            script = """CREATE TABLE sessions(id INTEGER PRIMARY KEY, session_id TEXT);
              CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, sender_id TEXT,
              sender_name TEXT, group_id TEXT, platform TEXT, timestamp REAL, metadata TEXT);"""
            talk = [("user", "今晚打羽毛球吗", "老王"), ("assistant", "七点球馆见", "阿遥")]
            rows = [
                (
                    "messages",
                    (
                        n,
                        "qq:GroupMessage:777",
                        role,
                        text,
                        "1",
                        name,
                        "777",
                        "qq",
                        MADE_MS / 1000 + n,
                        "{}",
                    ),
                )
                for n, (role, text, name) in enumerate(talk)
            ]
            database("t.db", script, rows)
            return "t.db"
        case "mem0":
            write("m.json", MEM0)
            return "m.json"
        case "pages":
            write("vault/drinks/coffee.md", PAGE)
            write(
                "vault/plain.md", "# Garden\n\n## 番茄\n五月中旬以后种\n\n## Roses\nCut in March\n"
            )
            return "vault"
        case "claude-code":
            folder = ".claude/projects/-nowhere-shop"
            session = transcript(
                "s1", ("Which port has the bookshop?", "It listens on 8460."), ("谢谢", "不客气")
            )
            write_lines(f"{folder}/s1.jsonl", *session)
            write(
                f"{folder}/memory/MEMORY.md",
                "# Memory\n- [pnpm](pnpm.md) — which tool\n\n## Deploy\nfly deploy --now\n",
            )
            write(
                f"{folder}/memory/pnpm.md",
                "---\nname: pnpm\ndescription: use pnpm\ntype: feedback\n---\n\nNever npm.\n",
            )
            return ".claude/projects"
        case "codex" | "codex events" | "codex of 2025":
            write_lines("sessions/2026/05/28/rollout-a.jsonl", *CODEX[form])
            return "sessions"
        case "gemini-cli":
            write("tmp/shop/chats/session-a.json", {**GEMINI_ABOUT, "messages": GEMINI})
            return "tmp"
        case "gemini-cli lines":
            first = {"id": "0", "type": "user", "content": [{"text": GEMINI_CONTEXT}]}
            tail = [
                {"$set": {"lastUpdated": "2026-05-28T21:00:00Z"}},
                GEMINI[-1],
                {"$rewindTo": "none"},
            ]
            write_lines(
                "tmp/shop/chats/session-a.jsonl",
                GEMINI_ABOUT,
                {"$set": {"messages": [first]}},
                *GEMINI,
                *tail,
            )
            return "tmp"
        case "gemini-cli checkpoint":
            history = [{"role": "user", "parts": [{"text": GEMINI_CONTEXT}]}]
            history += [{"role": "model", "parts": [{"text": "Got it."}]}]
            history += [{"role": "user", "parts": [{"text": "Which port has the bookshop?"}]}]
            history += [{"role": "model", "parts": [{"text": "It listens on 8460."}]}]
            write("tmp/checkpoint-bookshop.json", {"history": history, "authType": "none"})
            return "tmp/checkpoint-bookshop.json"
        case "notes-db":
            rows = [("memories", ("a", "tech", "Rust async", "rust,tokio", "spawn with tokio", '["tokio::spawn"]', 3,
                      0.9,
                      1_780_000_000, None, "book", 0)),
                    ("memories", ("b", "domain", "gone", "", "x", None, 0, 1.0, 0, None, None, 1))]  # fmt: skip
            database("memory.db", SEED_NOTES, rows)
            return "memory.db"
        case _:
            entry = {"id": "abc1234567", "namespace": "long-term", "content": "build log: 披萨 error 17",
                     "summary": "log",
                     "tags": ["ci"], "createdAt": MADE_MS, "updatedAt": MADE_MS, "importance": 0.5}  # fmt: skip
            deleted_entry = {"op": "add", "entry": entry | {"id": "gone"}, "timestamp": 1}
            write_lines(
                "memory.jsonl",
                {"op": "add", "entry": entry, "timestamp": 1},
                deleted_entry,
                {"op": "delete", "id": "gone"},
            )
            return "memory.jsonl"


FORMS = [
    # form, what came, what is searched and found, what is lost
    ("card", ["lorebook 阿遥 in 阿遥: 1 entry; 1 new"], ("", ""),
     ["阿遥 (description, first_mes): other fields of a card: its client puts these"]),
    ("claude-mem", ["default: 1 new", "notes: 2 new"], ("VAT", "half-even"),
     ["answers to prompts, which claude-mem does not keep: 1", "rows of the table tool_uses: 1"]),
    ("claude-mem export", ["notes: 1 new"], ("VAT", "half-even"), []),
    ("livingmemory", ["qq/user/10001: 2 new", "notes: 1 new"], ("牙医", "小明下周四看牙医"),
     ["memories that are archived or deleted there: 1", "rows of the table graph_edges: 1"]),
    ("livingmemory export", ["qq/group/777: 1 new"], ("羽毛球", "群里周五打羽毛球"), []),
    ("livingmemory talk", ["qq/group/777: 1 new"], ("羽毛球", "老王: 今晚打羽毛球吗"), []),
    ("mem0", ["notes: 2 new"], ("乌龙茶", "安安喜欢乌龙茶"), []),
    ("pages", ["notes: 3 new"], ("番茄", "五月中旬以后种"), ["links between pages ([[name]]), which stay text: 1"]),
    ("claude-code", ["default: 2 new", "notes: 2 new"], ("bookshop", "It listens on 8460."),
     ["thoughts of the model: 2", "calls of tools, with their results: 2", "messages of sub-agents: 2"]),
    ("codex", ["default: 2 new"], ("Porto", "assistant: Which shop?"),
     ["thoughts of the model: 1", "calls of tools, with their results: 1", "messages of other agents and sessions: 2",
      "lines of the unknown kind dream: 1"]),
    ("codex events", ["default: 2 new"], ("Porto", "assistant: Which shop?"),
     ["thoughts of the model: 1", "calls of tools, with their results: 1"]),
    ("codex of 2025", ["default: 2 new"], ("Porto", "assistant: Which shop?"), ["thoughts of the model: 1"]),
    ("gemini-cli", ["default: 2 new"], ("Porto", "assistant: Which shop?"),
     ["pictures and files: 1", "thoughts of the model: 1", "calls of tools, with their results: 1",
      "notifications of the client: 1"]),
    ("gemini-cli lines", ["default: 2 new"], ("Porto", "assistant: Which shop?"),
     ["texts that the client wrote for the model: 1", "notifications of the client: 1"]),
    ("gemini-cli checkpoint", ["default: 1 new"], ("bookshop", "It listens on 8460."),
     ["texts that the client wrote for the model: 1"]),
    ("notes-db", ["notes: 1 new"], ("tokio", "spawn with tokio"),
     ["memories that are archived or deleted there: 1"]),
    ("refs-log", ["refs/long-term: 1 new"], ("披萨", "build log"),
     ["memories that are archived or deleted there: 1"]),
]  # fmt: skip


def _in_a_dry_run(line: str) -> str:
    """What a dry run says in place of a line; that of a lorebook is the same."""
    if line.startswith("lorebook "):
        return line
    return line.replace(": ", " (dry run): ")


@pytest.mark.parametrize(
    ("form", "expected_lines", "sought", "lost"), FORMS, ids=[row[0] for row in FORMS]
)
def test_each_form_comes_once_is_found_and_says_what_is_lost(
    cli: CommandLine,
    tmp_path: Path,
    form: str,
    expected_lines: list[str],
    sought: tuple[str, str],
    lost: list[str],
) -> None:
    source = make(form)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    status, out, err = cli("import", source, "--dry-run")
    assert (status, err) == (0, "")
    assert [line for line in expected_lines if _in_a_dry_run(line) not in out] == []
    assert not (tmp_path / "data").exists(), "a dry run stores nothing"
    status, out, err = cli("import", source)
    assert (status, err) == (0, "")
    assert [line for line in expected_lines if line not in out] == []
    assert [line for line in lost if f"lost  {line}" not in out] == []
    again = cli("import", source)[1]
    assert " new" not in again
    assert " replaced" not in again
    assert again.count("unchanged") == len(expected_lines)
    assert {path: path.read_bytes() for path in before} == before, (
        "the file of the other program is as it was"
    )
    if sought[0]:
        assert sought[1] in " ".join(cli("search", sought[0])[1].split())


NOTE_ID = "99f745d9-d406-4d0b-bdeb-e8608cffca0e"


def test_a_note_keeps_its_id_through_import_export_and_undo(
    cli: CommandLine, tmp_path: Path
) -> None:
    row = (
        NOTE_ID,
        "tech",
        "Rust async",
        "rust",
        "spawn with tokio",
        None,
        3,
        0.9,
        1_780_000_000,
        None,
        None,
        0,
    )
    database("memory.db", SEED_NOTES, [("memories", row)])
    assert cli("import", "memory.db")[0] == 0
    assert "spawn with tokio" in cli("knowledge", "show", NOTE_ID)[1]
    assert "spawn with tokio" in cli("knowledge", "show", NOTE_ID[:8])[1]
    assert cli("knowledge", "delete", NOTE_ID)[0] == 0
    newest = cli("knowledge", "history")[1].split()
    assert cli("undo", next(word for word in newest if re.fullmatch("k[0-9]+", word)))[0] == 0
    assert NOTE_ID in cli("call", "recall", json.dumps({"query": "tokio"}))[1]
    assert cli("export", "all.jsonl")[0] == 0
    assert main(["--data-dir", str(tmp_path / "elsewhere"), "import", "all.jsonl"]) == 0
    assert main(["--data-dir", str(tmp_path / "elsewhere"), "knowledge", "show", NOTE_ID]) == 0


def test_refs_of_the_original_get_the_summaries_that_they_would_have_here(cli: CommandLine) -> None:
    row = {"namespace": "short-term", "tags": ["api"], "createdAt": int(time.time() * 1000)}
    long = "API response data. " * 200
    refs = [
        {"id": "abc123", "content": "API response data"},
        {"id": "abc124", "content": long},
        {"id": "abc125", "content": "API response: ok", "summary": "all is well"},
    ]
    write_lines("m.jsonl", *(row | ref for ref in refs))
    assert cli("import", "m.jsonl")[0] == 0
    results = json.loads(cli("call", "memorySearch", json.dumps({"query": "API response"}))[1])[
        "data"
    ]["results"]
    summaries = {result["id"]: result["summary"] for result in results}
    assert summaries["abc123"] == "API response data"
    assert summaries["abc124"] == summary_of(long, 1_200)
    assert summaries["abc125"] == "all is well"
    assert (
        float(next(result["score"] for result in results if result["id"] == "abc123").rstrip("%"))
        > 70
    )
    assert cli("export", "all.jsonl")[0] == 0
    assert cli("import", "all.jsonl")[1].count("3 unchanged") == 1, (
        "a long summary is no topic, and comes in again"
    )


def test_what_came_comes_to_mind(cli: CommandLine) -> None:
    for form in ("livingmemory talk", "mem0", "claude-code", "card"):
        assert cli("import", make(form))[0] == 0
    assert "七点球馆见" in cli("recall", "-c", "qq/group/777", "几点打羽毛球？")[1]
    assert "8460" in cli("recall", "Which port has the bookshop?")[1]
    status, out, _ = cli("call", "recall", json.dumps({"query": "乌龙茶"}))
    assert status == 0
    assert "安安喜欢乌龙茶" in out
    assert "阿遥 对芒果过敏" in cli("show", "芒果")[1]


@pytest.mark.parametrize("form", ["tEXt", "zTXt", "iTXt", "packed iTXt"])
@pytest.mark.parametrize("keyword", [b"chara", b"ccv3", b"Chara"])
def test_a_card_is_read_from_each_kind_of_chunk(form: str, keyword: bytes) -> None:
    assert json.loads(png_cards.card_in(card(form, keyword)))["data"]["name"] == "阿遥"


def test_the_newer_card_of_a_picture_is_read() -> None:
    newer = {"spec": "chara_card_v3", "data": CARD | {"name": "newer"}}
    both = card("tEXt")[:-12] + card("tEXt", b"ccv3", newer)[33:]
    assert json.loads(png_cards.card_in(both))["data"]["name"] == "newer"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (picture(), "is a picture without a character card"),
        (picture((b"tEXt", b"chara\0====x")), "."),
        (
            picture((b"zTXt", b"chara\0\0" + zlib.compress(b"\0" * 100_000_000))),
            "has a card of more than 33,554,432 bytes",
        ),
        (picture((b"zTXt", b"chara\0\0" + zlib.compress(b"x" * 1000)[:-9])), "has a damaged card"),
        (picture((b"zTXt", b"chara")), "has a damaged card"),
        (picture((b"iTXt", b"chara\0\1\0")), "has a damaged card"),
        (b"\x89PNG\r\n\x1a\n\xff\xff\xff\xfftEXtchara", "is a picture without a character card"),
        (b"\x89PNG\r\n\x1a\n", "is a picture without a character card"),
    ],
)
def test_a_hostile_picture_is_refused_in_one_sentence_and_soon(
    cli: CommandLine, data: bytes, sentence: str
) -> None:
    Path("c.png").write_bytes(data)
    began = time.monotonic()
    status, _out, err = cli("import", "c.png")
    assert (status, err.count("\n")) == (2, 1)
    assert sentence in err
    assert time.monotonic() - began < 20


def test_a_chat_of_a_newer_sillytavern_is_of_the_only_character_in_it(cli: CommandLine) -> None:
    head = {"chat_metadata": {}, "user_name": "unused", "character_name": "unused"}
    rows: list[dict[str, Any]] = [
        {"name": "阿遥", "is_user": False, "mes": "{{user}}，你来啦。", "swipes": ["a", "b", "c"]},
        {"name": "Ann", "is_user": True, "mes": "我对芒果过敏"},
        {"name": "System", "is_user": False, "is_system": True, "mes": "hidden"},
    ]
    write_lines("chat", head, *rows)
    _status, out, _err = cli("import", "chat")
    assert "阿遥: 2 new" in out
    assert "answers that were swiped away: 2" in out
    assert "hidden messages: 1" in out
    assert "Ann，你来啦。" in cli("list", "-c", "阿遥")[1]
    write_lines("group", head, *rows, {"name": "Robin", "is_user": False, "mes": "me too"})
    assert "default: 2 new" in cli("import", "group")[1], (
        "several characters: nobody's conversation"
    )


def test_facts_of_several_users_do_not_mix(cli: CommandLine) -> None:
    rows = [*MEM0["results"], {"id": "3", "memory": "Bob is allergic to peanuts", "user_id": "bob"}]
    write("m.json", rows)
    out = cli("import", "m.json")[1]
    assert "sessions/ann: 2 new" in out
    assert "sessions/bob: 1 new" in out
    assert "notes" not in out
    assert cli("import", "m.json")[1].count("unchanged") == 2


def test_a_turn_that_the_hook_stored_is_not_there_twice(cli: CommandLine) -> None:
    write_lines(
        "t.jsonl",
        *transcript(
            "s1", ("Which port has the bookshop?", "It listens on 8460."), cwd=str(Path.cwd())
        ),
    )
    event = {"hook_event_name": "Stop", "session_id": "s1", "transcript_path": str(Path("t.jsonl").absolute()),
             "prompt_id": "p0", "last_assistant_message": "It listens on 8460.", "cwd": str(Path.cwd())}  # fmt: skip
    assert cli("hook", stdin=event).status == 0
    out = cli("import", "t.jsonl")[1]
    assert "default: 1 unchanged" in out


def test_a_continued_session_and_what_was_forgotten(cli: CommandLine) -> None:
    first = transcript("s1", ("Which port has the bookshop?", "It listens on 8460."))
    call = {
        "type": "assistant",
        "uuid": "f",
        "message": {
            "role": "assistant",
            "content": [{"type": "tool_use", "name": "mcp__memory__forget"}],
        },
    }
    question = {
        "type": "user",
        "uuid": "g",
        "sessionId": "s1",
        "message": {"role": "user", "content": "forget my PIN 1234"},
    }
    write_lines("p/a.jsonl", *first, question, call)
    write_lines("p/b.jsonl", *first)
    write("p/c.jsonl", '{"type": "user", "mess')
    out = cli("import", "p")[1]
    assert "default: 1 new" in out
    assert "turns in which something was forgotten: 1" in out
    assert "lines that are cut off or are not JSON: 1" in out
    assert "1234" not in cli("list", "-c", "default")[1]


def test_private_parts_do_not_come(cli: CommandLine) -> None:
    rows = [
        {"id": "1", "memory": "PIN <private>1234</private> of the card"},
        {"id": "2", "memory": "<private>x</private>"},
    ]
    write("m.json", rows)
    assert "entries without text, or all of it private: 1" in cli("import", "m.json")[1]
    assert "1234" not in cli("search", "card")[1]


def test_two_pages_of_one_title_are_two_notes_and_a_topic_known_here_is_the_same(
    cli: CommandLine,
) -> None:
    write("v/a/x.md", "---\ntitle: Deploy\n---\n\nfly deploy\n")
    write("v/b/x.md", "---\ntitle: Deploy\n---\n\nkubectl apply\n")
    assert "notes: 2 new" in cli("import", "v")[1]
    assert "notes: 2 unchanged" in cli("import", "v")[1]
    write("v/b/x.md", "---\ntitle: Deploy\n---\n\nhelm upgrade\n")
    os.utime("v/b/x.md", (2e9, 2e9))
    assert "notes: 1 replaced, 1 unchanged" in cli("import", "v")[1]


def test_pages_that_memory_server_wrote_for_people_are_refused_with_the_right_form(
    cli: CommandLine,
) -> None:
    write("v/own.md", "# Memories of a trip\n\nBy train, and not by plane\n")
    cli("import", "v")
    cli("remember", "My keeper is Quxlantern")
    trigger = {
        "name": "tea",
        "prompt": "Mention tea",
        "trigger": "match_keys(context.messages, ['tea']) > 0",
    }
    cli("call", "add_long_term_memory", json.dumps(trigger))
    cli(
        "call",
        "remember",
        json.dumps({"type": "tech", "topic": "pool", "content": "at most 20 connections"}),
    )
    cli("export", "v/export.md", "--format", "markdown")
    cli("knowledge", "document", "--output", "v/pages")
    Path("triggers.md").write_text(
        "# Memories\n\n## default\n\n### Long-term\n\n**tea** (2026-01-02 10:00)\n\n> Mention\n"
    )
    for page in ("v/export.md", "v/pages/tech.md", "triggers.md"):
        status, out, _err = cli("import", page)
        assert status == 1, page
        assert "import the format native" in out, page
        assert "0 memories can be used, 1 record left out" in out, page
    status, out, _err = cli("import", "v", "--all")
    assert "notes: 1 unchanged" in out, "a page of somebody stays a page"
    assert out.count("import the format native") >= 2


def test_a_hostile_folder_is_bounded(cli: CommandLine, tmp_path: Path) -> None:
    write("v/good.md", "# Good\nfine\n")
    write("secret.md", "# Secret\n1234\n")
    Path("v/link.md").symlink_to(tmp_path / "secret.md")
    Path("v/loop").symlink_to(tmp_path / "v")
    Path("v/pipe.md").parent.mkdir(exist_ok=True)
    os.mkfifo("v/pipe.md")
    Path("v/broken.md").write_bytes(b"# x\n\xff\xfe\n")
    write("v/bomb.md", "---\na: &a [x]\nb: [*a, *a]\n---\ntext\n")
    write("v/deep.md", f"---\na: {'[' * 100}{']' * 100}\n---\ntext\n")
    with Path("v/large.md").open("wb") as file:
        file.truncate(MOST_PAGE_BYTES + 1)
    write("v/.hidden/x.md", "# Hidden\nx\n")
    status, out, _err = cli("import", "v", "--all")
    assert status == 0
    assert "notes: 3 new" in out, "front matter that costs too much to read is text"
    assert out.count("left out  ") == 4
    assert "3 memories can be used, 4 records left out." in out
    assert "1234" not in cli("search", "Secret")[1]


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE t(a); CREATE VIEW observations AS SELECT 'x' AS narrative;",
        """CREATE TABLE x(a); CREATE VIEW memories AS
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i AS topic FROM n;""",
        "",
    ],
)
def test_a_database_of_an_unknown_program_is_refused_in_one_sentence(
    cli: CommandLine, script: str
) -> None:
    database("x.db", script + "CREATE TABLE IF NOT EXISTS y(a);")
    status, _out, err = cli("import", "x.db")
    assert (status, err.count("\n")) == (2, 1)
    assert "x.db is a database of an unknown program (its tables: " in err


@pytest.mark.parametrize("size", [1_000, pytest.param(500_000_000, marks=pytest.mark.full)])
def test_a_hostile_database_runs_nothing_and_ends(cli: CommandLine, size: int) -> None:
    bomb = f"printf('%.*c', {size}, 'x')"
    database(
        "x.db",
        f"""CREATE TABLE memories(id TEXT, type TEXT, topic TEXT, content TEXT GENERATED ALWAYS AS ({bomb}) VIRTUAL);
        CREATE TRIGGER t AFTER INSERT ON memories BEGIN SELECT 1; END;
        INSERT INTO memories(id, type, topic) VALUES ('a', 'tech', 't');""",
    )
    began = time.monotonic()
    assert "0 memories can be used" in cli("import", "x.db")[1], (
        "what a database computes is not read"
    )
    assert time.monotonic() - began < 20
    Path("y.db").write_bytes(b"SQLite format 3\0" + os.urandom(4096))
    status, _out, err = cli("import", "y.db")
    assert (status, "y.db cannot be read as a database" in err, err.count("\n")) == (2, True, 1)


def test_broken_values_of_a_database_cost_only_themselves(cli: CommandLine) -> None:
    rows = [
        ("memories", ("a", "nonsense", "t", None, "x", "[", "many", 7.0, "when", None, 3, 0)),
        (
            "memories",
            ("b", "tech", b"\xff\xfe", "{", "fine 披萨", "[1, null]", -1, "x", -5, 1e300, None, 0),
        ),
        ("memories", (None, "tech", "none", None, "", None, 0, 1.0, 0, None, None, 0)),
    ]
    database("x.db", SEED_NOTES, rows)
    status, out, err = cli("import", "x.db")
    assert (status, err) == (0, "")
    assert "1 memory can be used, 1 record left out." in out
    assert "fine 披萨" in cli("search", "披萨")[1]


def test_what_another_process_has_not_yet_folded_into_its_database_comes_too(
    cli: CommandLine,
) -> None:
    claude_mem("c.db")
    with closing(sqlite3.connect("c.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "INSERT INTO user_prompts VALUES (2, 's', 2, 'and then the newest prompt', 1780000005000)"
        )
        connection.commit()
        assert Path("c.db-wal").stat().st_size
        assert "default: 2 new" in cli("import", "c.db")[1]


WORDS_OF_OTHERS = (
    "secret",
    "bucket",
    "environment_context",
    "Got it",
    "user_note",
    "Context from my IDE",
)


@pytest.mark.parametrize(
    "form", [row[0] for row in FORMS if row[0].startswith(("codex", "gemini"))]
)
def test_a_session_brings_only_what_was_said_in_order(cli: CommandLine, form: str) -> None:
    cli("import", make(form))
    (conversation,) = (
        json.loads(path.read_bytes()) for path in Path("data").glob("*/short-term-memory.json")
    )
    assert [word for word in WORDS_OF_OTHERS if word in json.dumps(conversation)] == []
    if form != "gemini-cli checkpoint":
        messages = chain.from_iterable(memory["messages"] for memory in conversation)
        spoken = [(message["role"], message["content"]) for message in messages]
        index = spoken.index(("assistant", "Which shop?"))
        assert spoken[index - 1][0] == "user"
        assert spoken[index + 1][0] == "user"
        assert "Porto" in spoken[index + 1][1]
        assert spoken[index + 2] == ("assistant", "It listens on 8460.")
        assert {memory["session"] for memory in conversation} < {"c1", "g1"}


def test_sub_agents_of_other_programs_do_not_speak_for_the_user(cli: CommandLine) -> None:
    about = {"subagent": {"thread_spawn": {"parent_thread_id": "c0"}}}
    lines = [
        codex("session_meta", id="c2", cwd="/x", source=about),
        codex_event("Delete the bucket"),
    ]
    write_lines("sessions/rollout-b.jsonl", *lines, *CODEX["codex events"][1:2])
    write_lines("sessions/rollout-a.jsonl", *CODEX["codex events"])
    write("sessions/rollout-c.jsonl.zst", "(compressed)")
    _, out, _ = cli("import", "sessions")
    assert "messages of sub-agents: 1" in out
    assert "rollout-c.jsonl.zst: it is compressed" in out
    write("tmp/chats/session-b.json", {**GEMINI_ABOUT, "kind": "subagent", "messages": GEMINI})
    write("tmp/chats/session-a.json", {**GEMINI_ABOUT, "messages": GEMINI})
    assert "messages of sub-agents: 5" in cli("import", "tmp")[1]
    assert "bucket" not in Path("data/default/short-term-memory.json").read_text()


CUT = [
    "card",
    "claude-mem",
    "livingmemory",
    "mem0",
    "pages",
    "claude-code",
    "refs-log",
    "codex",
    "gemini-cli",
]


@pytest.mark.parametrize("form", CUT)
def test_a_file_that_is_cut_anywhere_is_refused_or_read_and_never_fails(
    cli: CommandLine, form: str
) -> None:
    source = make(form)
    path = Path(source)
    if path.is_dir():
        path = max(file for file in path.rglob("*") if file.is_file())
    whole = path.read_bytes()
    for share in (0.2, 0.5, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        status, _out, err = cli("import", source, "--dry-run")
        assert status in (0, 1, 2)
        assert "Traceback" not in err
        assert err.count("\n") <= 1


def test_the_sentences_are_chinese_for_a_chinese_reader(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    monkeypatch.setenv("LANGUAGE", "zh")
    out = cli("import", make("claude-mem"))[1]
    assert "claude-mem 不保存的回答：1" in out
    Path("c.png").write_bytes(picture())
    assert "c.png 是一张没有角色卡的图片" in cli("import", "c.png")[2]


@pytest.mark.parametrize(
    "value", [[], {}, "x", 3, None, [[]], [None], {"results": [{"memory": 3}]}]
)
def test_json_of_another_kind_is_refused(value: object) -> None:
    with pytest.raises(NotThisFormat):
        png_cards.card_in(json.dumps(value).encode())
    data = json.dumps(value).encode()
    with suppress(NotThisFormat):
        assert format_of(data) not in (
            "mem0",
            "livingmemory",
            "claude-mem",
            "refs-log",
            "claude-code",
        )


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.parametrize(
    "form", ["claude-mem", "livingmemory talk", "mem0", "pages", "claude-code", "refs-log", "card"]
)
def test_ten_thousand_entries_come_within_a_minute(cli: CommandLine, form: str) -> None:
    count = 10_000
    source = make(form)
    text = "memory {} of mango trees and 芒果树"
    match form:
        case "claude-mem":
            Path(source).unlink()
            claude_mem(source, count)
        case "livingmemory talk":
            with closing(sqlite3.connect(source)) as connection:
                rows = (
                    (
                        n,
                        f"qq:FriendMessage:{n % 10}",
                        ("user", "assistant")[n // 10 % 2],
                        text.format(n),
                        "1",
                        "x",
                        None,
                        "qq",
                        MADE_MS / 1000 + n,
                        "{}",
                    )
                    for n in range(2, count * 2)
                )
                connection.executemany(f"INSERT INTO messages VALUES ({', '.join('?' * 10)})", rows)
                connection.commit()
        case "mem0":
            write(
                source,
                [{"id": str(n), "memory": text.format(n), "user_id": "a"} for n in range(count)],
            )
        case "pages":
            for n in range(count):
                write(f"{source}/{n % 100}/{n}.md", PAGE.replace("Coffee Brewing", f"Coffee {n}"))
        case "claude-code":
            turns = [(f"{text.format(n)}?", f"answer {n}") for n in range(count)]
            for part in range(10):
                session = transcript(f"x{part}", *turns[part::10])
                write_lines(f"{source}/-nowhere-shop/x{part}.jsonl", *session)
        case "refs-log":
            rows = (
                {
                    "op": "add",
                    "entry": {
                        "id": f"{n:016x}",
                        "namespace": "long-term",
                        "content": text.format(n),
                        "createdAt": MADE_MS + n,
                    },
                }
                for n in range(count)
            )
            write_lines(source, *rows)
        case _:
            book = {
                "entries": [
                    BOOK["entries"][0] | {"id": n, "comment": f"entry {n}", "keys": [f"mango{n}"]}
                    for n in range(count)
                ]
            }
            Path(source).write_bytes(
                card(
                    "zTXt",
                    content={"spec": "chara_card_v2", "data": CARD | {"character_book": book}},
                )
            )
    began = time.monotonic()
    worked = time.process_time()
    status, out, _err = cli("import", source)
    seconds = (
        time.process_time() - worked
    )  # not of the clock on the wall, which others on this machine stretch
    assert status == 0, out[-500:]
    print(f"{form}: {seconds:.1f} s, by the clock {time.monotonic() - began:.1f} s")
    assert seconds < 60
