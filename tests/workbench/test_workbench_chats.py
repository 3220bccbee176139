"""Chat files in every form, and the sentence for every file that is none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import cli
from sandbox.chats import chat
from sandbox.chats.dates import DateError, milliseconds
from sandbox.workbench.files import UsageError, read_chat

SHANGHAI = ZoneInfo("Asia/Shanghai")


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


TAVERN = lines(
    {
        "user_name": "小满",
        "character_name": "阿澈",
        "create_date": "2023-06-04",
        "chat_metadata": {},
    },
    {
        "name": "小满",
        "is_user": True,
        "is_system": False,
        "mes": "你好",
        "send_date": "June 19, 2023 2:20pm",
    },
    {
        "name": "阿澈",
        "is_user": False,
        "mes": "hi",
        "send_date": "2023-06-19 @14h 21m 12s 123ms",
        "swipes": ["hi", "yo"],
    },
    {"name": "阿澈", "is_user": False, "is_system": True, "mes": "hidden"},
    {
        "name": "x",
        "is_user": False,
        "is_system": True,
        "mes": "It rains.",
        "extra": {"type": "narrator"},
    },
)


def node(
    parent: str | None, children: list[str], role: str | None = None, text: str = "", **more: Any
) -> Any:
    message = None
    if role:
        content = {"content_type": "text", "parts": [text]}
        message = {
            "author": {"role": role},
            "content": content,
            "create_time": 1_750_000_000.5,
            "metadata": {},
            **more,
        }
    return {"message": message, "parent": parent, "children": children}


GPT = {
    "title": "Trip to 大理",
    "current_node": "c2",
    "mapping": {
        "root": node(None, ["s"]),
        "s": node(
            "root",
            ["a"],
            "system",
            "hidden",
            metadata={"is_visually_hidden_from_conversation": True},
        ),
        "a": node("s", ["b1", "b2"], "user", "where?"),
        "b1": node("a", [], "assistant", "the first answer"),
        "b2": node("a", ["c1", "c2"], "assistant", "the second answer"),
        "c1": node("b2", [], "user", "an edited message"),
        "c2": node("b2", [], "user", "thanks"),
    },
}


def roles_and_texts(messages: list[chat.Message]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in messages]


def test_a_sillytavern_export_becomes_messages_without_hidden_ones() -> None:
    messages = chat.parse(TAVERN, SHANGHAI)[0]
    assert roles_and_texts(messages) == [
        ("user", "你好"),
        ("assistant", "hi"),
        ("system", "It rains."),
    ]
    assert [message["name"] for message in messages] == ["小满", "阿澈", "x"]
    assert (
        messages[0]["timestamp"]
        == datetime(2023, 6, 19, 14, 20, tzinfo=SHANGHAI).timestamp() * 1000
    )
    assert messages[1]["timestamp"] - messages[0]["timestamp"] == 72_123


def test_a_chatgpt_export_gives_the_current_branch() -> None:
    messages = chat.parse(json.dumps([GPT]))[0]
    assert roles_and_texts(messages) == [
        ("user", "where?"),
        ("assistant", "the second answer"),
        ("user", "thanks"),
    ]
    assert messages[0]["timestamp"] == 1_750_000_000_500
    assert chat.parse(json.dumps(GPT))[0] == messages


def test_without_a_current_node_the_newest_leaf_counts() -> None:
    tree = {
        **GPT,
        "current_node": None,
        "mapping": {
            **GPT["mapping"],
            "b1": node("a", [], "assistant", "later", create_time=1_760_000_000),
        },
    }
    assert roles_and_texts(chat.parse(json.dumps(tree))[0])[-1] == ("assistant", "later")


@pytest.mark.parametrize("time", ["Infinity", "1e999", "1e306", "9" * 400])
def test_a_time_that_cannot_be_is_one_sentence(time: str) -> None:
    text = json.dumps(GPT).replace("1750000000.5", time)
    with pytest.raises(chat.ChatError, match=r"create_time .* milliseconds since 1970"):
        chat.parse(text)


def test_times_that_are_not_numbers_are_not_known() -> None:
    tree = json.loads(json.dumps(GPT).replace("1750000000.5", '{"seconds": []}')) | {
        "current_node": None
    }
    assert "timestamp" not in chat.parse(json.dumps(tree))[0][0]


def test_a_loop_in_the_tree_ends() -> None:
    looped = {
        "mapping": {"a": node("b", [], "user", "1"), "b": node("a", [], "user", "2")},
        "current_node": "a",
    }
    assert roles_and_texts(chat.parse(json.dumps(looped))[0]) == [("user", "2"), ("user", "1")]


def test_one_of_several_conversations_is_chosen_by_number_or_title(tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(
        json.dumps(
            [{**GPT, "title": "A"}, GPT, {**GPT, "title": "Trip home", "current_node": "b1"}]
        ),
        "utf-8",
    )
    assert len(read_chat(f"{file}#2")) == 3
    assert roles_and_texts(read_chat(f"{file}#trip HOME"))[-1] == ("assistant", "the first answer")
    for which, sentence in (
        ("", "has 3 conversations; add # and a number or a part of the title"),
        ("#4", "no conversation 4; give a number from 1 to 3"),
        ("#trip", "has 2 conversations with 'trip' in the title; give a number, one of 2, 3"),
        ("#zebra", "has no conversations with 'zebra' in the title; give a number from 1 to 3"),
    ):
        with pytest.raises(UsageError, match=sentence):
            read_chat(f"{file}{which}")


def test_a_file_whose_name_has_a_hash_is_read(tmp_path: Path) -> None:
    (tmp_path / "chat#1.txt").write_text("user: hi", "utf-8")
    assert roles_and_texts(read_chat(str(tmp_path / "chat#1.txt"))) == [("user", "hi")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "user: hi\n  and more\nAssistant： 你好\n",
            [("user", "hi\n  and more"), ("assistant", "你好")],
        ),
        (lines({"role": "user", "content": "hi"}), [("user", "hi")]),
        ('[{"role": "system", "content": "x"}]', [("system", "x")]),
        ("", []),
        ("[]", []),
    ],
)
def test_plain_lines_json_lines_and_arrays(text: str, expected: list[tuple[str, str]]) -> None:
    assert roles_and_texts(chat.parse(text)[0]) == expected
    assert roles_and_texts(chat.parse("\ufeff" + text)[0]) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello there", "line 1 must begin with user:"),
        ('{"role": "user", "content": "x"}\n{"role": "user"\n', "line 2 is not JSON"),
        (
            '{"role": "critic", "content": "x"}',
            "line 1 has the role 'critic'; it must be user, assistant or system",
        ),
        ('{"role": "user", "content": 5}', "line 1 is not a message; expected"),
        (
            '{"role": "user", "content": "x", "timestamp": "soon"}',
            "line 1: timestamp 'soon' is not a date; give an ISO time",
        ),
        ('{"role": "user", "content": "x", "timestamp": true}', "True is not a date"),
        ('{"entries": {}}', "is a lorebook, not a chat"),
        ('{"spec": "chara_card_v2", "data": {}}', "is a character card, not a chat"),
        ('[{"name": "a", "trigger": "1"}]', "is a pack of triggers, not a chat"),
        ("[1, 2", "begins with \\[ but is not JSON"),
        (
            '{"chat_metadata": {}}\n{"mes": "x", "send_date": "some day"}',
            "line 2: send_date 'some day' is not a date",
        ),
        ('{"chat_metadata": {}}\n{"mes": null}', "line 2 has no text in `mes`"),
        ('[{"mapping": {}}, {}]', "has 2 conversations"),
    ],
)
def test_what_is_no_chat_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(chat.ChatError, match=sentence):
        chat.parse(text)


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("2023-06-04T12:30:00.000Z", "2023-06-04T12:30:00+00:00"),
        ("2023-06-04T12:30", "2023-06-04T12:30:00+08:00"),
        ("2023-6-4 @14h 5m 12s 123ms", "2023-06-04T14:05:12.123000+08:00"),
        ("2023-06-04@14h05m12s", "2023-06-04T14:05:12+08:00"),
        ("June 19, 2023 2:20pm", "2023-06-19T14:20:00+08:00"),
        ("Jan 1, 2024 12:05am", "2024-01-01T00:05:00+08:00"),
        ("December 31, 2023 12:05 PM", "2023-12-31T12:05:00+08:00"),
        ("1686572400000", "2023-06-12T12:20:00+00:00"),
        (1686572400000, "2023-06-12T12:20:00+00:00"),
        (0, "1970-01-01T00:00:00+00:00"),
    ],
)
def test_dates_of_every_form_are_milliseconds(date: object, expected: str) -> None:
    assert datetime.fromtimestamp(
        milliseconds(date, SHANGHAI) / 1000, UTC
    ) == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    "date",
    [
        "June 31, 2023 2:20pm",
        "Foo 1, 2023 1:00am",
        "May 1, 2023 13:00pm",
        "2023-13-01",
        "",
        1e300,
        [],
        10**17,
    ],
)
def test_what_is_no_date_is_refused(date: object) -> None:
    with pytest.raises(DateError):
        milliseconds(date, UTC)


TEXT = "user: 今天是我的生日，记得吗？\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_utf_and_marked_files_are_read_as_they_are(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "chat.txt").write_bytes(TEXT.replace("\n", "\r\n").encode(encoding))
    assert roles_and_texts(read_chat(str(tmp_path / "chat.txt"))) == [("user", TEXT[6:-1])]


@pytest.mark.parametrize("name", ["gbk", "GB2312", "cp936", "936", "gb18030"])
def test_what_is_called_gbk_may_hold_emoji(tmp_path: Path, name: str) -> None:
    file = tmp_path / "chat.txt"
    file.write_bytes("user: 芒果打碎了花瓶😹".encode("gb18030"))
    assert roles_and_texts(read_chat(str(file), name)) == [("user", "芒果打碎了花瓶😹")]


@pytest.mark.parametrize("encoding", ["gbk", "gb18030"])
def test_gbk_is_read_when_it_is_said_and_advised_when_not(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "chat.txt"
    file.write_bytes(TEXT.encode(encoding))
    assert roles_and_texts(read_chat(str(file), "gb18030")) == [("user", TEXT[6:-1])]
    with pytest.raises(
        UsageError,
        match="is not UTF-8 but probably GBK; add the encoding gb18030, or save the file as UTF-8",
    ):
        read_chat(str(file))


@pytest.mark.parametrize(
    ("content", "encoding", "sentence"),
    [
        (b"user: caf\xe9", None, "is not UTF-8; save the file as UTF-8"),
        (b"\x89PNG\r\n\x00\x00\xff", None, "is not a text file"),
        (b"user: \x00", None, "is not a text file"),
        (b"user: \xff\xff", "gb18030", "is not in the encoding gb18030"),
        (b"user: a", "klingon", "there is no encoding 'klingon'"),
        (b"user: a", "base64", "there is no encoding|is not in the encoding"),
    ],
)
def test_other_bytes_get_one_sentence(
    tmp_path: Path, content: bytes, encoding: str | None, sentence: str
) -> None:
    (tmp_path / "chat.txt").write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        read_chat(str(tmp_path / "chat.txt"), encoding)


CHINESE = """小满：今天是我生日
阿澈：生日快乐！
还有一句：
小满：谢谢
"""
PLAIN = {
    "words of roles": (
        "用户：你好\nAI: 在\n我：嗯\n助手： 好\n系统：下雨了\nHuman: hi\nChatGPT said: yo\n",
        [
            (r, None)
            for r in ("user", "assistant", "user", "assistant", "system", "user", "assistant")
        ],
        "",
    ),
    "two names": (
        CHINESE,
        [("user", "小满"), ("assistant", "阿澈"), ("user", "小满")],
        (
            "小满 is taken for the user, 阿澈 is taken for the assistant "
            "(--user NAME and --assistant NAME change that); "
            "line 3 is taken for text; if 还有一句 is a speaker, give their role"
        ),
    ),
    "me and a name": (
        "我：在吗\n小爱：在\n",
        [("user", None), ("assistant", "小爱")],
        "小爱 is taken for the assistant (--user NAME and --assistant NAME change that)",
    ),
    "a name and AI": (
        "**Ann**: hi\nAI: hello\n**Ann**: bye\n",
        [("user", "Ann"), ("assistant", None), ("user", "Ann")],
        "Ann is taken for the user (--user NAME and --assistant NAME change that)",
    ),
    "a group": (
        "user: hi\nassistant: hi\n小明：来了\n小明：走了\n",
        [("user", None), ("assistant", None), ("user", "小明"), ("user", "小明")],
        "小明 is taken for the user (--user NAME and --assistant NAME change that)",
    ),
    "text with a colon": (
        "user: see\nhttp://example.org\nat 10:30\nC:\\x\n  milk: 2\n我想说，其实：好\nassistant: ok\nNote: tea\n",
        [("user", None), ("assistant", None)],
        "line 8 is taken for text; if Note is a speaker, give their role",
    ),
}


@pytest.mark.parametrize(("text", "who", "note"), PLAIN.values(), ids=PLAIN)
def test_who_speaks_in_plain_lines(text: str, who: list[tuple[str, str | None]], note: str) -> None:
    messages, assumed = chat.parse(text)
    assert [(message["role"], message.get("name")) for message in messages] == who
    assert assumed == note
    for name in ("小满", "阿澈", "小爱", "小明", "Ann", "AI"):
        assert not any(
            message["content"].startswith(name) or f"\n{name}" in message["content"]
            for message in messages
        )


def test_the_roles_of_names_can_be_told() -> None:
    roles = {"阿澈": "user", "小满": "assistant", "Note": "assistant"}
    messages, assumed = chat.parse(CHINESE + "note: x\n", None, None, roles)
    assert [(message["role"], message["name"]) for message in messages] == [
        ("assistant", "小满"),
        ("user", "阿澈"),
        ("assistant", "小满"),
        ("assistant", "note"),
    ]
    assert assumed == "line 3 is taken for text; if 还有一句 is a speaker, give their role"


def test_what_was_assumed_is_said_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.txt").write_text(CHINESE, "utf-8")
    arguments = [
        "-e",
        "match_keys(context.messages, ['快乐'], 'assistant') > 0",
        "--chat",
        str(tmp_path / "c.txt"),
    ]
    assert cli.main(["run", *arguments]) == 0
    out = capsys.readouterr()
    assert "小满 is taken for the user" in out.err
    assert "is taken for" not in out.out
    assert cli.main(["run", *arguments, "--user", "阿澈", "--assistant", "小满"]) == 1
    assert "is taken for the" not in capsys.readouterr().err


@given(st.text(alphabet="ab小明：:\n *1.", max_size=60))
def test_no_text_is_lost_whoever_speaks(text: str) -> None:
    try:
        messages, _ = chat.parse(text)
    except chat.ChatError:
        return
    kept_text = "".join(
        str(message.get("name", message["role"])) + message["content"] for message in messages
    )
    for char in "ab小明1.":
        assert kept_text.count(char) >= text.count(char), char


def test_a_conversation_of_a_claude_export_is_chosen_by_its_number_or_title() -> None:
    first_message = {
        "sender": "human",
        "created_at": "2024-03-06T19:23:47.5Z",
        "content": [{"type": "text", "text": "京都几月好？"}],
    }
    other_conversation = {
        "name": "tea",
        "chat_messages": [{"sender": "assistant", "text": "old files have only this"}],
    }
    export = json.dumps([{"name": "trip", "chat_messages": [first_message]}, other_conversation])
    message = {"role": "user", "content": "京都几月好？", "timestamp": 1_709_753_027_500}
    assert chat.parse(export, None, "1")[0] == chat.parse(export, None, "tri")[0] == [message]
    assert chat.parse(export, None, "tea")[0] == [
        {"role": "assistant", "content": "old files have only this"}
    ]
    with pytest.raises(chat.ChatError, match="has 2 conversations; add #"):
        chat.parse(export)
