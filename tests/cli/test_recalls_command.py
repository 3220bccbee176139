"""The record of recalls from end to end: what hooks, tools and commands leave in it, and how a person reads it."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from hook_transcripts import assistant, event, transcript, user

from memory_server import Message, Settings, open_memory
from memory_server.web.speech import ASKERS

MONTHS_LATER = "2026-08-25T08:00:00Z"


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Each command is a minute later than the last one."""
    times = (f"2026-06-25T08:{minute:02}:00Z" for minute in count())
    return cli.at(times).with_flags("--timezone", "Asia/Shanghai")


def ask(cli: CommandLine, prompt: str, **fields: Any) -> str:
    return cli.text("hook", stdin=event("UserPromptSubmit", prompt=prompt, **fields))


def end_turn(
    cli: CommandLine, tmp_path: Path, *entries: dict[str, Any], now: str = "", **fields: Any
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(transcript(*entries))
    cli.text("hook", stdin=event("Stop", transcript_path=str(path), **fields), now=now)


def recalls(cli: CommandLine, *flags: str, now: str = "") -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in cli.text("recalls", "--json", *flags, now=now).splitlines()
    ]


@pytest.fixture
def stored(cli: CommandLine, tmp_path: Path) -> None:
    """A memory of five days ago, of another session."""
    entry = user("我喜欢披萨，最喜欢榴莲味的", "p0", "2026-06-20T08:00:00.000Z")
    end_turn(cli, tmp_path, entry, prompt_id="p0", session_id="s0", now="2026-06-20T08:00:10Z")


@pytest.mark.usefixtures("stored")
def test_a_prompt_leaves_what_came_why_and_for_whom(cli: CommandLine) -> None:
    assert "我喜欢披萨" in ask(cli, "晚上吃披萨吗？", prompt_id="p1", cwd="/tmp")
    [line] = recalls(cli)
    assert (line["by"], line["client"], line["cwd"], line["conversation"]) == (
        "hook",
        "claude-code",
        "/tmp",
        "default",
    )
    assert (line["session"], line["turn"], line["said"]) == ("s1", "p1", "晚上吃披萨吗？")
    [item] = line["came"]
    assert item["tier"] == "top"
    assert item["words"]["披萨"] > 10 > 5 < item["relevance"]
    assert (item["chars"], line["at"][:14]) == (
        len("user: 我喜欢披萨，最喜欢榴莲味的"),
        "2026-06-25T08:",
    )
    assert 0 < line["tokens"] < line["chars"]
    assert "used" not in line
    assert "披萨，" not in json.dumps(line["came"], ensure_ascii=False), (
        "no text of a memory is in it"
    )


@pytest.mark.usefixtures("stored")
def test_the_end_of_the_turn_says_what_its_answer_used(cli: CommandLine, tmp_path: Path) -> None:
    for turn, prompt, answer in (
        ("p1", "晚上吃披萨吗？", "好，来个榴莲味的。"),
        ("p2", "披萨几点吃？", "七点。"),
    ):
        at = f"2026-06-25T08:00:0{turn[1]}.000Z"
        ask(cli, prompt, prompt_id=turn)
        end_turn(cli, tmp_path, user(prompt, turn, at), assistant(answer, at=at), prompt_id=turn)
    first, second = recalls(cli)
    assert first["used"] == [first["came"][0]["id"]]
    assert second["used"] == []


@pytest.mark.usefixtures("stored")
def test_a_recall_that_brought_nothing_is_a_line_too(cli: CommandLine) -> None:
    ask(cli, "晚上吃披萨吗？")
    assert ask(cli, "I need a regex that matches a UUID.") == ""
    assert [line["said"] for line in recalls(cli, "--empty")] == [
        "I need a regex that matches a UUID."
    ]
    out = cli.text("recalls")
    assert "nothing" in out
    assert out.endswith("1 of 2 recalls found nothing.\n")
    assert re.search("recalls +2 recalls in 30 days, 50% found nothing", cli.text("doctor"))


@pytest.mark.usefixtures("stored")
def test_a_python_program_is_not_recorded_as_a_command(cli: CommandLine, tmp_path: Path) -> None:
    async def recall() -> None:
        clock = Settings(now=datetime.fromisoformat("2026-06-25T09:00:00Z"))
        async with open_memory(tmp_path / "data", settings=clock) as memory:
            await memory.recall_turn([Message("user", "晚上吃披萨吗？")])

    asyncio.run(recall())
    [line] = recalls(cli)
    assert line["by"] == "program"
    assert " program" in cli.text("recalls")
    assert " 程序" in cli.text("recalls", "--language", "zh")
    assert ASKERS["program"] == "a Python program"


@pytest.mark.usefixtures("stored")
def test_tools_and_commands_are_recorded_as_such(cli: CommandLine) -> None:
    cli.text("recall", "晚上吃披萨吗？", "--session", "window")
    arguments = {"recentMessages": [{"role": "user", "content": "披萨"}], "conversation_id": "其他"}
    cli.text("call", "search_short_term_memories", json.dumps(arguments))
    first, second = recalls(cli)
    assert (first["by"], first["session"], len(first["came"])) == ("command", "window", 1)
    assert first["cwd"] == str(Path.cwd())
    assert (second["conversation"], second.get("came")) == ("其他", None)
    assert recalls(cli, "-c", "其他") == [second]
    assert recalls(cli, "-n", "1") == [second]


@pytest.mark.usefixtures("stored")
def test_the_start_of_a_session_is_recorded_where_it_was_given_something(cli: CommandLine) -> None:
    cli.text("hook", stdin=event("SessionStart", source="startup", session_id="s2"))
    cli.text("hook", stdin=event("SessionStart", source="resume", session_id="s3"))
    [line] = recalls(cli)
    assert [item["tier"] for item in line["came"]] == ["last"]
    assert "said" not in line
    assert "(session start)" in cli.text("recalls")
    assert cli.text("explain", "--recall", line["id"]).splitlines()[1] == "(session start)"
    assert "（会话开始）" in cli.text("--language", "zh", "recalls")


@pytest.mark.usefixtures("stored")
def test_what_the_session_was_given_before_is_told_as_being_in_context(cli: CommandLine) -> None:
    ask(cli, "晚上吃披萨吗？", prompt_id="p1")
    assert ask(cli, "披萨几点吃？", prompt_id="p2") == ""
    first, second = cli.text("recalls").splitlines()[1:3]
    assert " tokens " in first
    assert "1 memory, already in context" in second
    assert "已经在上下文里" in cli.text("--language", "zh", "recalls")


@pytest.mark.usefixtures("stored")
def test_nothing_is_recorded_of_what_is_private_or_during_a_pause(
    cli: CommandLine, tmp_path: Path
) -> None:
    ask(cli, "<private>吃披萨吗？</private>")
    assert recalls(cli) == []
    ask(cli, "晚上吃什么？<private>披萨 1234</private>")
    [line] = recalls(cli)
    assert line["said"] == "晚上吃什么？"
    files = (tmp_path / "data" / ".memory-server" / "recalls").glob("*.jsonl")
    assert "披萨" not in "".join(path.read_text("utf-8") for path in files), (
        "the shared words would tell it"
    )
    cli.text("pause")
    ask(cli, "晚上吃披萨吗？")
    cli.text("recall", "晚上吃披萨吗？")
    assert recalls(cli) == [line]


@pytest.mark.usefixtures("stored")
def test_recalls_are_kept_for_the_days_of_the_setting(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(cli, "晚上吃披萨吗？")
    assert len(recalls(cli, now="2026-07-24T08:00:00Z")) == 1
    assert recalls(cli, now="2026-07-26T08:00:00Z") == []
    monkeypatch.setenv("MEMORY_SERVER_RECALLS__DAYS", "90")
    assert len(recalls(cli, now=MONTHS_LATER)) == 1
    monkeypatch.setenv("MEMORY_SERVER_RECALLS__DAYS", "0")
    ask(cli, "披萨？", session_id="s2")
    assert (
        cli.text("recalls")
        == "No recalls are recorded; the setting recalls.days says how long they are kept.\n"
    )
    monkeypatch.setenv("MEMORY_SERVER_RECALLS__DAYS", "90")
    assert len(recalls(cli, now=MONTHS_LATER)) == 1


@pytest.mark.usefixtures("stored")
def test_recalls_are_in_the_order_in_which_they_were_made_whatever_the_clock_said(
    cli: CommandLine,
) -> None:
    nows = ("2026-06-21T08:00:00Z", "2036-01-01T00:00:00Z", "2026-06-22T08:00:00Z")
    for number, now in enumerate(nows):
        cli.text("--now", now, "recall", "--session", f"s{number}", "晚上吃披萨吗？")
    recorded = recalls(cli, now="2026-06-22T09:00:00Z")
    assert [line["session"] for line in recorded] == ["s0", "s1", "s2"]


@pytest.mark.usefixtures("stored")
def test_one_upkeep_under_a_clock_years_ahead_removes_no_recall(
    cli: CommandLine, tmp_path: Path
) -> None:
    ask(cli, "晚上吃披萨吗？")
    times = iter(["2026-06-22T08:00:00+00:00", "2036-01-01T00:00:00+00:00"])

    async def keep_up(now: str) -> None:
        settings = Settings(now=datetime.fromisoformat(now))
        async with open_memory(tmp_path / "data", settings=settings) as app:
            await app.maintenance.run_if_due()

    for now in times:
        asyncio.run(keep_up(now))
    assert len(recalls(cli)) == 1


@pytest.mark.usefixtures("stored")
def test_a_server_that_only_reads_records_nothing(cli: CommandLine) -> None:
    cli.text("--read-only", "recall", "晚上吃披萨吗？")
    assert recalls(cli) == []


@pytest.mark.usefixtures("stored")
def test_a_backup_holds_no_recalls(cli: CommandLine) -> None:
    ask(cli, "晚上吃披萨吗？")
    cli.text("backup", "before")
    assert cli.text("backup", "restore", "before", "--dry-run")
    ask(cli, "还吃披萨吗？", session_id="s2")
    before = recalls(cli)
    cli.text("backup", "restore", "before", "--overwrite")
    assert recalls(cli) == before


@pytest.mark.usefixtures("stored")
def test_the_receipt_says_what_came_what_nearly_came_and_what_the_answer_used(
    cli: CommandLine, tmp_path: Path
) -> None:
    near = user("晚上一直下雨", "p5", "2026-06-21T08:00:00.000Z")
    end_turn(cli, tmp_path, near, prompt_id="p5", session_id="s0", now="2026-06-21T08:00:10Z")
    prompt = "晚上去吃披萨，我喜欢"
    ask(cli, prompt, prompt_id="p1")
    at = "2026-06-25T08:00:01.000Z"
    end_turn(
        cli, tmp_path, user(prompt, "p1", at), assistant("榴莲味的，六点", at=at), prompt_id="p1"
    )
    [line] = recalls(cli)
    out = cli.text("explain", "--recall", line["id"][:5])
    head, last_message, given_line = out.splitlines()[:3]
    assert (
        head == f"{line['id']} 2026-06-25 16:{line['at'][14:16]} hook, claude-code, /tmp, default"
    )
    assert last_message == f"last message: {prompt}"
    assert given_line.startswith(
        f"Added to the prompt: {line['chars']} characters, about {line['tokens']} tokens."
    )
    assert f"top {line['came'][0]['id']}" in out
    assert "我喜欢披萨，最喜欢榴莲味的: 披萨 " in out
    assert "\nNearly recalled:\n" in out
    assert "user: 晚上一直下雨: " in out
    assert out.endswith(f"The answer used {line['came'][0]['id']}.\n")


def test_shared_words_are_shown_as_the_memory_spells_them(cli: CommandLine) -> None:
    cli.text("remember", "The databases are migrated to Postgres on 23 November.")
    question = "Which database do we migrate, on November 23?"
    cli.text("recall", question)
    [line] = recalls(cli)
    receipt = cli.text("explain", "--recall", line["id"])
    explanation = cli.text("explain", "Postgres", "--ask", question)
    for output in (receipt, explanation):
        for word in ("databases", "migrated", "23 Nov"):
            assert f"{word} " in output.splitlines()[-1], output


def test_explain_sees_what_recall_brings(cli: CommandLine) -> None:
    """What a shell stored comes to the next `recall` at once."""
    cli.text("remember", "My cat is called Miso.")
    assert "Miso" in cli.text("recall", "What is my cat called?")
    assert "It came as top" in cli.text("explain", "Miso", "--ask", "What is my cat called?")


@pytest.mark.usefixtures("stored")
def test_a_receipt_outlives_its_memories(cli: CommandLine) -> None:
    ask(cli, "晚上吃披萨吗？")
    cli.text("call", "delete_short_term_memories", '{"pattern": "披萨"}')
    [line] = recalls(cli)
    assert "no longer stored: 披萨 " in cli.text("explain", "--recall", line["id"])


@pytest.mark.usefixtures("stored")
def test_a_receipt_in_chinese(cli: CommandLine) -> None:
    ask(cli, "晚上吃披萨吗？")
    ask(cli, "今天天气怎么样")
    listed = cli.text("--language", "zh", "recalls")
    assert "谁问的" in listed
    assert "钩子, claude-code" in listed
    assert listed.endswith("2 次回忆里有 1 次什么也没想起。\n")
    [line] = [recall for recall in recalls(cli) if "came" in recall]
    receipt = cli.text("--language", "zh", "explain", "--recall", line["id"])
    assert "最后一条消息: 晚上吃披萨吗？\n加入提示：" in receipt
    assert f"  最相关 {line['came'][0]['id']}" in receipt
    assert "用户: 我喜欢披萨" in receipt, (
        "the role is in the language of the reader, and what was said stays as it is"
    )
    assert "2 次回忆，其中 50%" in cli.text("--language", "zh", "doctor")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("recalls", "-n", "0"), "-n must be at least 1 recall."),
        (("explain", "--recall", "zz"), "No recall has an id that begins with `zz`"),
        (("explain", "--recall", ""), "No recall has an id that begins with ``"),
        (("explain", "披萨"), "Name a memory and give --ask; or give --recall"),
        (("explain", "--ask", "披萨？"), "Name a memory and give --ask; or give --recall"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_sentence(
    cli: CommandLine, arguments: tuple[str, ...], sentence: str
) -> None:
    assert sentence in cli.text(*arguments, status=2)


def test_before_anything_is_stored_nothing_is_recorded(cli: CommandLine, tmp_path: Path) -> None:
    ask(cli, "晚上吃披萨吗？")
    assert cli.text("recalls").startswith("No recalls are recorded;")
    assert not (tmp_path / "data").exists()


def test_triggers_and_notes_that_came_are_named(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = {
        "name": "过敏",
        "prompt": "小明对芒果过敏。",
        "trigger": 'match_keys(context.messages, ["芒果"])',
    }
    cli.text("call", "add_long_term_memory", json.dumps(trigger))
    monkeypatch.setenv("MEMORY_SERVER_TOOLSETS", "default,notes")
    note = {"type": "domain", "topic": "芒果布丁", "content": "芒果布丁先煮牛奶，再放芒果"}
    cli.text("call", "remember", json.dumps(note))
    assert "芒果布丁" in ask(cli, "下午茶做芒果布丁吗？")
    [line] = recalls(cli)
    assert [(item["tier"], "芒果布丁" in item["id"]) for item in line["came"]] == [
        ("note", True),
        ("trigger", False),
    ]
    out = cli.text("--read-only", "explain", "--recall", line["id"])
    assert "\n  trigger 过敏 (8 characters)\n" in out
    assert "\n  note note “芒果布丁”\n" in out


def test_the_name_of_a_trigger_is_not_looked_for_among_words(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli.text("remember", "The dragon of the hill is asleep.")
    (tmp_path / "dragon.js").write_text("true", "utf-8")
    cli.text("add-trigger", str(tmp_path / "dragon.js"), "--prompt", "It wakes.")
    refusal = cli.text("explain", "dragon", "--ask", "Is it asleep?", status=2)
    assert "`dragon` comes by its trigger, and not by words" in refusal
