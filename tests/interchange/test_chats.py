"""Chats of other programs come in as memories: once, with their times, and whole."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine

from memory_server.conversations.model import ShortTermMemory
from memory_server.interchange import chats
from memory_server.interchange.forms import format_of
from memory_server.interchange.incoming import NotThisFormat

TAVERN = [
    {"user_name": "Ann", "character_name": "Robin", "chat_metadata": {}},
    {
        "name": "Robin",
        "is_user": False,
        "mes": "Welcome, {{user}}!",
        "send_date": "June 19, 2023 2:20pm",
    },
    {"name": "Ann", "is_user": True, "mes": "我对芒果过敏", "send_date": "June 19, 2023 2:21pm"},
    {"name": "Robin", "is_user": False, "mes": "记住了", "send_date": "June 19, 2023 2:22pm"},
    {"name": "Ann", "is_user": True, "mes": "晚安", "send_date": "June 19, 2023 11:00pm"},
]


def claude(name: str, *messages: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    rows = [
        {
            "uuid": f"{name}{at}",
            "sender": who,
            "created_at": at,
            "text": "",
            "content": [{"type": "text", "text": text}],
        }
        for who, text, at in messages
    ]
    return {"uuid": name, "name": name, "account": {"uuid": "x"}, "chat_messages": rows, **more}


CLAUDE = [
    claude(
        "trip",
        ("human", "京都几月好？", "2024-03-06T19:23:47.123456Z"),
        ("assistant", "十一月", "2024-03-06T19:23:50Z"),
    ),
    claude(
        "tea",
        ("human", "I like oolong", "2024-04-01T08:00:00+08:00"),
        ("assistant", "Noted", "2024-04-01T08:00:01+08:00"),
    ),
]
GPT = {
    "title": "trip",
    "current_node": "b",
    "mapping": {
        "root": {"id": "root", "message": None, "parent": None, "children": ["a"]},
        "a": {
            "parent": "root",
            "children": ["b"],
            "message": {
                "author": {"role": "user"},
                "content": {"content_type": "text", "parts": ["骑车去双廊"]},
                "create_time": 1_700_000_000.5,
            },
        },
        "b": {
            "parent": "a",
            "children": [],
            "message": {
                "author": {"role": "assistant"},
                "content": {"content_type": "text", "parts": ["小心车"]},
            },
        },
    },
}


@pytest.fixture
def cli(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command in UTC, in the folder of the test."""
    monkeypatch.setenv("MEMORY_SERVER_TIMEZONE", "UTC")
    monkeypatch.chdir(tmp_path)
    return cli


def lines(*rows: Any) -> bytes:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()


def memories(data: bytes, **names: str) -> tuple[ShortTermMemory, ...]:
    (contents,) = chats.read(data, chats.ChatOptions("default", UTC, names)).conversations
    return contents.short_term


@pytest.mark.parametrize(
    ("data", "texts", "first_ms"),
    [
        (
            lines(*TAVERN),
            ["Robin: Welcome, Ann!", "Ann: 我对芒果过敏\nRobin: 记住了", "Ann: 晚安"],
            1_687_184_400_000,
        ),
        (json.dumps([GPT]).encode(), ["user: 骑车去双廊\nassistant: 小心车"], 1_700_000_000_500),
        (
            json.dumps(CLAUDE).encode(),
            ["user: 京都几月好？\nassistant: 十一月", "user: I like oolong\nassistant: Noted"],
            1_709_753_030_000,
        ),
        (
            json.dumps(CLAUDE[0]).encode(),
            ["user: 京都几月好？\nassistant: 十一月"],
            1_709_753_030_000,
        ),
        (
            lines({"role": "user", "content": "a", "timestamp": "2026-01-01T00:00:00Z"}),
            ["user: a"],
            1_767_225_600_000,
        ),
        ("用户：你好\nAI：在".encode(), ["user: 你好\nassistant: 在"], 0),
    ],
    ids=["SillyTavern", "ChatGPT", "Claude", "one of Claude's", "lines of messages", "plain lines"],
)
def test_each_form_is_known_by_its_content_and_keeps_its_times(
    data: bytes, texts: list[str], first_ms: int
) -> None:
    assert format_of(data) == "chat"
    stored = memories(data)
    assert [memory.text for memory in stored] == texts
    assert stored[0].time_ms == first_ms


def test_a_conversation_of_claude_is_read_along_its_last_branch_and_without_thoughts() -> None:
    rows: list[dict[str, Any]] = [
        {"uuid": "1", "parent_message_uuid": "0", "sender": "human", "text": "hi", "content": []},
        {"uuid": "2", "parent_message_uuid": "1", "sender": "assistant", "text": "wrong"},
        {"uuid": "3", "parent_message_uuid": "1", "sender": "assistant", "text": "t and a"},
    ]
    rows[2]["content"] = [
        {"type": "thinking", "thinking": "t"},
        {"type": "tool_use"},
        {"type": "text", "text": "a"},
    ]
    (memory,) = memories(json.dumps([{"name": "x", "chat_messages": rows}]).encode())
    assert memory.text == "user: hi\nassistant: a"


def test_names_fill_macros_and_speakers() -> None:
    assert memories(lines(*TAVERN))[0].text == "Robin: Welcome, Ann!", "the header names both"
    assert memories(lines(*TAVERN), user="安")[0].text == "Robin: Welcome, 安!"
    newer = {**TAVERN[0], "user_name": "unused", "character_name": "unused"}
    assert memories(lines(newer, *TAVERN[1:]))[0].text == "Robin: Welcome, Ann!", (
        "as the messages say it"
    )
    assert (
        memories(json.dumps([GPT]).encode(), user="Ann", char="Robin")[0].text
        == "Ann: 骑车去双廊\nRobin: 小心车"
    )
    (memory,) = memories(b"Robin: hello\nAnn: hi\n", user="Ann", char="Robin")[:1]
    assert [message.role for message in memory.messages] == ["assistant"]


def test_the_same_words_said_twice_are_two_memories_and_private_words_none() -> None:
    rows = [{"role": "user", "content": "晚安"}, {"role": "assistant", "content": "晚安"}] * 2
    assert len({memory.id for memory in memories(lines(*rows))}) == 2
    secret = {"role": "user", "content": "<private>1234</private>"}
    assert [memory.text for memory in memories(lines(*rows[:2], secret))] == [
        "user: 晚安\nassistant: 晚安"
    ]


def test_a_chat_in_which_nobody_answers_becomes_several_memories() -> None:
    stored = memories(lines(*({"role": "user", "content": str(number)} for number in range(50))))
    assert [len(memory.messages) for memory in stored] == [20, 20, 10]


def test_a_diary_of_sixty_days_is_sixty_memories() -> None:
    day = 86_400_000
    rows = [
        {"role": "user", "content": str(n), "timestamp": 1_700_000_000_000 + n * day}
        for n in range(60)
    ]
    assert len(memories(lines(*rows))) == 60
    near = [row | {"timestamp": rows[0]["timestamp"] + n * 60_000} for n, row in enumerate(rows)]
    assert [len(memory.messages) for memory in memories(lines(*near))] == [20, 20, 20]


def test_chats_of_two_characters_do_not_mix_unless_somebody_says_so(cli: CommandLine) -> None:
    Path("chat").write_bytes(lines(*TAVERN))
    assert "\nRobin: 3 new" in cli("import", "chat")[1]
    assert "\nboth: 3 new" in cli("import", "-c", "both", "chat")[1]


def test_a_message_with_a_time_in_seconds_is_left_out_with_its_reason() -> None:
    rows = ({"role": "user", "content": "a", "timestamp": 17}, {"role": "user", "content": "b"})
    incoming = chats.read(lines(*rows), chats.ChatOptions("default", UTC))
    assert incoming.skipped == [("message 1", "its timestamp 17 is not in milliseconds since 1970")]
    assert incoming.count == 1


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b'{"role": "user"', "is not a message|not JSON"),
        (b"[]", "holds no messages"),
        (b"x", "speaker|role"),
    ],
)
def test_what_is_not_a_chat_is_refused_in_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(NotThisFormat, match=sentence):
        chats.read(data, chats.ChatOptions("default", UTC))


@pytest.mark.parametrize("name", ["dated", "undated"])
def test_importing_twice_changes_nothing(cli: CommandLine, name: str, tmp_path: Path) -> None:
    if name == "dated":
        Path("chat").write_bytes(lines(*TAVERN))
    else:
        Path("chat").write_text(
            "用户：我对芒果过敏\nAI：记住了\n用户：晚安\nAI：晚安\n", encoding="utf-8"
        )
    named = {"dated": "Robin", "undated": "default"}[name]
    assert f"{named} (dry run): " in cli("import", "chat", "--dry-run")[1]
    assert not (tmp_path / "data").exists()
    cli("--now", "2026-01-01T00:00", "import", "chat")
    before = cli("list", "-c", named)[1]
    changes = cli("history")[1]
    recall = cli("--now", "2026-01-02T00:00", "recall", "-c", named, "芒果蛋糕？")[1]
    assert "芒果" in recall
    listed = cli("list", "-c", named)[1]
    status, out, _ = cli("--now", "2026-02-01T00:00", "import", "chat")
    assert status == 0
    assert "new" not in out
    assert cli("list", "-c", named)[1] == listed
    assert len(cli("history")[1].splitlines()) == len(changes.splitlines()) + 1, (
        "only the recall reinforced"
    )
    assert before.splitlines()[0] == listed.splitlines()[0]


def test_an_exchange_that_has_grown_replaces_its_beginning_and_keeps_its_score(
    cli: CommandLine,
) -> None:
    Path("chat").write_bytes(lines(*TAVERN))
    cli("import", "chat")
    cli("--now", "2026-01-02T00:00", "recall", "-c", "Robin", "跟 Ann 说晚安")
    answer = {
        "name": "Robin",
        "is_user": False,
        "mes": "做个好梦",
        "send_date": "June 19, 2023 11:01pm",
    }
    Path("chat").write_bytes(lines(*TAVERN, answer))
    assert "1 replaced, 2 unchanged" in cli("import", "chat")[1]
    listed = cli("list")[1]
    assert "Ann: 晚安 Robin: 做个好梦" in listed
    assert "3 short-term memories" in listed
    assert not [line for line in listed.splitlines() if "晚安" in line and "  0  " in line], (
        "its score is kept"
    )


def test_a_lorebook_without_dates_is_not_dated_again(cli: CommandLine) -> None:
    entry = {"uid": 0, "comment": "芒果", "key": ["芒果"], "content": "{{char}} 对芒果过敏"}
    Path("book.json").write_text(json.dumps({"entries": {"0": entry}}), encoding="utf-8")
    cli("--now", "2026-01-01T00:00", "import", "book.json", "-c", "阿芙")
    assert "1 unchanged" in cli("--now", "2026-02-01T00:00", "import", "book.json", "-c", "阿芙")[1]
    shown = cli("show", "芒果")[1]
    assert "阿芙 对芒果过敏" in shown, "-c is a good name for the character"
    assert "created   2026-01-01" in shown


def test_a_tested_trigger_goes_into_the_memory(cli: CommandLine) -> None:
    Path("mother.js").write_text("match_keys(context.messages, ['mother']) > 0", encoding="utf-8")
    assert (
        "Write with --prompt what the model reads when mother.js fires"
        in cli("add-trigger", "mother.js")[2]
    )
    status, out, _ = cli(
        "add-trigger", "mother.js", "--prompt", "Ask how his mother is.", "-c", "小明"
    )
    assert (status, out.startswith("Stored mother in 小明; change 1-")) == (0, True)
    assert cli("add-trigger", "mother.js", "--prompt", "Ask.", "-c", "小明")[1].startswith(
        "Replaced mother"
    )
    assert "Ask." in cli("show", "mother")[1]
    Path("pack.json").write_text(
        '[{"name": "a", "prompt": "p", "trigger": "true"}]', encoding="utf-8"
    )
    assert cli("add-trigger", "pack.json")[1].startswith("Stored a in default;")
    Path("bad.js").write_text("match_keys(", encoding="utf-8")
    status, out, err = cli("add-trigger", "bad.js", "--prompt", "p")
    assert (status, out, err.startswith("memory-server: ")) == (2, "", True)
    Path("broken.json").write_text("[", encoding="utf-8")
    assert "broken.json is not JSON" in cli("add-trigger", "broken.json")[2]
    assert "one .js file at a time" in cli("add-trigger", "mother.js", "bad.js", "--prompt", "p")[2]


def test_a_chat_of_chub_has_its_texts_in_objects() -> None:
    data = lines(
        {"user_name": "Ann", "character_name": "Robin"},
        {"name": "Ann", "is_user": True, "mes": {"message": "I keep bees."}},
        {
            "name": "Robin",
            "is_user": False,
            "mes": {"message": "Good."},
            "swipes": [{"message": "a"}, {"message": "b"}],
        },
        {"name": "Robin", "is_user": False, "mes": {"text": "lost"}},
    )
    assert format_of(data) == "chat"
    incoming = chats.read(data, chats.ChatOptions("default", UTC))
    (contents,) = incoming.conversations
    assert [memory.text for memory in contents.short_term] == ["Ann: I keep bees.\nRobin: Good."]
    assert [where for where, _reason in incoming.skipped] == ["line 4"]


def test_a_chat_of_open_llm_vtuber_begins_with_a_row_without_text() -> None:
    rows = [
        {"role": "metadata", "timestamp": "2026-03-01T10:00:00"},
        {"role": "human", "timestamp": "2026-03-01T10:00:05", "content": "I keep bees."},
        {
            "role": "ai",
            "timestamp": "2026-03-01T10:00:09",
            "content": "Good.",
            "name": "Mili",
            "avatar": "",
        },
    ]
    data = json.dumps(rows).encode()
    assert format_of(data) == "chat"
    (memory,) = memories(data)
    assert memory.text == "user: I keep bees.\nMili: Good."
    assert memory.time_ms == 1_772_359_209_000
