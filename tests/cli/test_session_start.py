"""What a session is told as it begins, and that two hooks for one event tell it once."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from forked_programs import run as run_program
from hook_transcripts import assistant, event, transcript, user
from sample_memories import DAY, memory

from memory_server.kernel.messages import Session
from memory_server.kernel.recalled_block import OTHER_WORDS_ASKED, marked, without_recalled
from memory_server.memories import hooks
from memory_server.memories.turns import BEGINNING_CHARS, LAST_EXCHANGES, MOST_PINNED, left_off
from memory_server.runtime.app import App
from memory_server.storage.small_files import HOLDS_MS, AnsweredEvents, GivenLines

NOW = "2026-06-20T12:00:00Z"
ASKED = OTHER_WORDS_ASKED["zh"]


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """The command in Shanghai, at the time of these tests."""
    return cli.with_flags("--now", NOW, "--timezone", "Asia/Shanghai")


def store_turns(cli: CommandLine, tmp_path: Path, *texts: str, session: str = "earlier") -> None:
    for number, text in enumerate(texts):
        path = tmp_path / "session.jsonl"
        at = f"2026-06-20T0{number}:00:00.000Z"
        path.write_bytes(transcript(user(text, f"p{number}", at), assistant(f"好{number}", at=at)))
        ended = event("Stop", transcript_path=str(path), session_id=session)
        assert cli("hook", stdin=ended) == (0, "", "")


def start_of_session(
    cli: CommandLine, source: str, session: str = "new", cwd: str = "/tmp", **about: Any
) -> str:
    status, out, err = cli(
        "hook", stdin=event("SessionStart", source=source, session_id=session, cwd=cwd), **about
    )
    assert (status, err) == (0, "")
    if not out:
        return ""
    output = json.loads(out)["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    return str(output["additionalContext"])


@pytest.mark.parametrize("source", ["startup", "clear"])
def test_a_new_session_is_told_where_the_last_one_left_off(
    cli: CommandLine, tmp_path: Path, source: str
) -> None:
    store_turns(cli, tmp_path, "我喜欢披萨", "我们改到周五出发", "机票订好了")
    assert (
        start_of_session(cli, source)
        == marked(
            "上次说到：\n用户（11 小时前，上午）：我们改到周五出发[6 月 26 日，星期五：6 天后]\n助手（11 小时前，上午）：好1\n"
            "用户（10 小时前，上午）：机票订好了\n助手（10 小时前，上午）：好2",
            "zh",
        )
        + f"\n{ASKED}"
    )


def test_what_is_pinned_comes_first_and_stays_after_a_compaction(
    cli: CommandLine, tmp_path: Path
) -> None:
    store_turns(cli, tmp_path, "我对花生过敏", "我们改到周五出发")
    (allergy, _) = json.loads(
        (tmp_path / "data" / "default" / "short-term-memory.json").read_bytes()
    )
    cli("pin", allergy["id"])
    pinned = "置顶的记忆：\n用户（12 小时前，早上）：我对花生过敏\n助手（12 小时前，早上）：好0"
    last = "上次说到：\n用户（11 小时前，上午）：我们改到周五出发[6 月 26 日，星期五：6 天后]\n助手（11 小时前，上午）：好1"
    assert start_of_session(cli, "startup") == marked(f"{pinned}\n{last}", "zh") + f"\n{ASKED}"
    assert start_of_session(cli, "compact", "earlier") == marked(pinned, "zh") + f"\n{ASKED}"


@pytest.mark.parametrize("source", ["resume", "fork", "", "something new"])
def test_a_session_that_brings_its_context_is_told_nothing(
    cli: CommandLine, tmp_path: Path, source: str
) -> None:
    store_turns(cli, tmp_path, "我喜欢披萨")
    assert start_of_session(cli, source) == ""


def test_with_nothing_to_tell_nothing_is_told_and_nothing_is_made(
    cli: CommandLine, tmp_path: Path
) -> None:
    assert start_of_session(cli, "startup") == ""
    assert not (tmp_path / "data").exists()


def test_it_is_short_however_long_the_memories_are(cli: CommandLine, tmp_path: Path) -> None:
    store_turns(cli, tmp_path, "披萨" * 3_000, "We leave on Friday. " * 300)
    for flags in ((), ("--chars", "400")):
        start = event("SessionStart", source="startup", session_id=f"s{flags}")
        block = json.loads(cli("hook", *flags, stdin=start).out)["hookSpecificOutput"][
            "additionalContext"
        ]
        assert 200 < len(block) <= (int(flags[1]) if flags else BEGINNING_CHARS)


def test_the_model_is_asked_for_other_words_only_where_it_has_the_tool_and_there_is_something_to_find(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert start_of_session(cli, "startup", "nothing to find") == ""
    store_turns(cli, tmp_path, "我喜欢披萨")
    offers = {"turn,insight": True, "default": True, "all": True, "archive": False}
    for toolsets, has in offers.items():
        monkeypatch.setenv("MEMORY_SERVER_TOOLSETS", toolsets)
        assert (ASKED in start_of_session(cli, "startup", toolsets)) is has, toolsets
    monkeypatch.delenv("MEMORY_SERVER_TOOLSETS")
    for name, tools, has in (
        ("TOOLS", "forget", False),
        ("TOOLS", "recall_turn", True),
        ("EXCLUDE_TOOLS", "recall_turn", False),
    ):
        monkeypatch.setenv(f"MEMORY_SERVER_{name}", tools)
        assert (ASKED in start_of_session(cli, "startup", f"{name} {tools}")) is has
        monkeypatch.delenv(f"MEMORY_SERVER_{name}")


def test_what_the_model_is_asked_is_in_the_language_of_the_memories_short_and_never_remembered(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli(
        "remember",
        "--session",
        "earlier",
        stdin=[{"role": "user", "content": "We leave on Friday."}],
    )
    english = OTHER_WORDS_ASKED["en"]
    cli(
        "pin",
        json.loads((tmp_path / "data" / "default" / "short-term-memory.json").read_bytes())[0][
            "id"
        ],
    )
    block = start_of_session(cli, "startup")
    assert block.endswith(f"\n{english}")
    assert without_recalled(f"{block}\nWater the garden.") == "Water the garden."
    assert without_recalled(english) == ""
    assert max(map(len, OTHER_WORDS_ASKED.values())) <= BEGINNING_CHARS // 4
    start = event("SessionStart", source="startup", session_id="narrow")
    narrow_block = json.loads(cli("hook", "--chars", "300", stdin=start).out)["hookSpecificOutput"][
        "additionalContext"
    ]
    assert english not in narrow_block
    assert "Friday" in narrow_block


def test_while_it_is_paused_nothing_is_told(cli: CommandLine, tmp_path: Path) -> None:
    store_turns(cli, tmp_path, "我喜欢披萨")
    cli("pause")
    status, out, err = cli("hook", stdin=event("SessionStart", source="startup"))
    assert (status, out) == (0, "")
    assert "paused until" in err


def test_what_a_session_is_told_is_chosen_by_who_said_it_and_where() -> None:
    def ids(
        *memories: Any, session: Session | None = None, **about: Any
    ) -> tuple[list[str], list[str]]:
        pinned, last = left_off(memories, conversation_id="chat", session=session, **about)
        return [m.id for m in pinned], [m.id for m in last]

    said_here = [memory(f"h{n}", age=n * DAY, session="one") for n in range(4)]
    elsewhere = memory("e", age=0, chat="other", pinned=True)
    assert ids(*said_here, elsewhere) == ([], ["h1", "h0"][:LAST_EXCHANGES])
    assert ids(*said_here, session=Session("one")) == ([], [])
    assert ids(*said_here, memory("u", age=9 * DAY), session=Session("one")) == ([], ["u"])
    pinned = [
        memory(f"p{n}", age=n * DAY, pinned=True, session="one") for n in range(MOST_PINNED + 2)
    ]
    newest_last = [f"p{n}" for n in reversed(range(MOST_PINNED))]
    assert ids(*pinned, session=Session("one")) == (newest_last, [])
    assert ids(*pinned, *said_here, with_last=False) == (newest_last, [])
    shop, garden = (memory(name, age=0, folder=f"/srv/{name}") for name in ("shop", "garden"))
    assert ids(*said_here, shop, garden, folder="/srv/shop") == ([], ["shop"])
    assert ids(*said_here, shop, garden, pinned[0], folder="/other") == (["p0"], [])


def test_the_model_is_asked_in_the_language_of_the_folder(cli: CommandLine, tmp_path: Path) -> None:
    for name, text, at in (("shop", "密钥十二月三日过期", 1), ("garden", "Water it daily", 2)):
        (tmp_path / name).mkdir()
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(transcript(user(text, at=f"2026-06-20T0{at}:00:00.000Z"), assistant(text)))
        where = {"session_id": name, "cwd": str(tmp_path / name)}
        assert cli("hook", stdin=event("Stop", transcript_path=str(path), **where)).status == 0
    assert start_in(cli, tmp_path / "shop").endswith(ASKED)
    assert start_in(cli, tmp_path / "garden").endswith(OTHER_WORDS_ASKED["en"])


def test_where_the_last_session_left_off_is_of_this_folder_and_a_search_is_of_all(
    cli: CommandLine, tmp_path: Path
) -> None:
    shop = tmp_path / "shop"
    garden = tmp_path / "garden"
    for folder in (shop / ".git", shop / "src", garden):
        folder.mkdir(parents=True)
    path = tmp_path / "session.jsonl"
    path.write_bytes(transcript(user("天气服务的密钥十二月三日过期"), assistant("记住了")))
    ended = event("Stop", transcript_path=str(path), session_id="earlier", cwd=str(shop / "src"))
    assert cli("hook", stdin=ended) == (0, "", "")
    [memory] = json.loads((tmp_path / "data" / "default" / "short-term-memory.json").read_bytes())
    assert memory["folder"] == str(shop), "the top of the repository"
    assert "密钥" in start_in(cli, shop)
    assert start_in(cli, garden) == ASKED, "nothing was said here, and a search is of all folders"

    def asked(folder: Path, session: str) -> str:
        prompt_event = event(
            "UserPromptSubmit",
            prompt="天气服务的密钥哪天过期？",
            session_id=session,
            cwd=str(folder),
        )
        return str(
            json.loads(cli("hook", stdin=prompt_event).out)["hookSpecificOutput"][
                "additionalContext"
            ]
        )

    assert "上午，在 shop）：天气服务" not in asked(shop, "s2")
    block = asked(garden, "s3")
    assert "，在 shop）：天气服务的密钥十二月三日过期" in block
    assert without_recalled(f"{block}\n今天浇花") == "今天浇花"


def start_in(cli: CommandLine, folder: Path) -> str:
    return start_of_session(cli, "startup", f"begun in {folder}", cwd=str(folder))


def test_an_event_is_answered_by_one_hook_and_asked_again_by_the_same(
    cli: CommandLine, tmp_path: Path
) -> None:
    store_turns(cli, tmp_path, "我喜欢披萨")
    assert start_of_session(cli, "startup")
    assert start_of_session(cli, "startup") == "", "another hook for the same event"
    assert start_of_session(cli, "startup", "another")
    assert start_of_session(cli, "startup", now="2026-06-20T12:00:11Z")
    # Each question in a session of its own: none is given the same line twice.
    questions = (
        ("p1", "a", True),
        ("p1", "a", False),
        ("p2", "b", True),
        (None, "c", True),
        (None, "d", True),
    )
    for prompt_id, session, comes in questions:
        prompt_event = event("UserPromptSubmit", prompt="晚上吃披萨吗？", session_id=session)
        if prompt_id is not None:
            prompt_event["prompt_id"] = prompt_id
        assert bool(cli("hook", stdin=prompt_event).out) is comes


def test_of_two_processes_at_once_one_answers(tmp_path: Path) -> None:
    environment = os.environ | {
        "MEMORY_SERVER_DATA_DIR": str(tmp_path),
        "MEMORY_SERVER_TIMEZONE": "Asia/Shanghai",
    }

    def output_of(*arguments: str, stdin: Any) -> bytes:
        completed = run_program(arguments, json.dumps(stdin).encode(), env=environment)
        assert completed.returncode == 0, completed.stderr
        output: bytes = completed.stdout
        return output

    output_of("remember", "--session", "earlier", stdin=[{"role": "user", "content": "我喜欢披萨"}])
    prompt_event = event(
        "UserPromptSubmit", prompt="晚上吃披萨吗？", session_id="new", prompt_id="p1"
    )
    with ThreadPoolExecutor() as pool:
        commands = [("hook",), ("hook", "--chars", "1000")]
        answers = list(pool.map(lambda command: output_of(*command, stdin=prompt_event), commands))
    assert sorted(map(bool, answers)) == [False, True]


def test_a_hook_that_ends_before_its_answer_has_given_no_lines(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is taken back while it closes: the hook that recalls in its place must find all lines."""
    store_turns(cli, tmp_path, "我喜欢披萨")
    prompt_event = event(
        "UserPromptSubmit", prompt="晚上吃披萨吗？", prompt_id="p", session_id="new"
    )
    prompt_event["transcript_path"] = str(tmp_path / "none")
    closed = App.__aexit__

    async def ended(self: App, *about: Any) -> None:
        await closed(self, *about)
        raise OSError("taken back")

    with monkeypatch.context() as patched:
        patched.setattr(App, "__aexit__", ended)
        assert cli("hook", stdin=prompt_event)[1:] == ("", "memory-server: hook: taken back\n")
    assert "我喜欢披萨" in cli("hook", stdin=prompt_event).out
    assert cli("hook", stdin=prompt_event | {"prompt_id": "p2"}).out == "", (
        "it is in the context now"
    )


@pytest.mark.parametrize("name", ["UserPromptSubmit", "SessionStart"])
def test_a_hook_that_ends_before_its_answer_has_shown_no_plan(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_RECALL__PLANS", "true")
    store_turns(cli, tmp_path, "我今天很累，不过明天下午去体检")
    tomorrow = cli.with_flags("--now", "2026-06-21T04:00:00Z", "--timezone", "Asia/Shanghai")
    asked = event(name, prompt="看看测试", prompt_id="p", source="startup", session_id="new")
    given_block = "beginning_block" if name == "SessionStart" else "_seen_whole"

    def ended(*_: object, **_more: object) -> None:
        raise OSError("taken back")

    with monkeypatch.context() as patched:
        patched.setattr(hooks, given_block, ended)
        assert tomorrow("hook", stdin=asked).err == "memory-server: hook: taken back\n"
    assert "今天：用户" in tomorrow("hook", stdin=asked).out
    later = event("UserPromptSubmit", prompt="看看测试", prompt_id="p2", session_id="new")
    assert "今天：" not in tomorrow("hook", stdin=later).out


def test_sessions_that_are_told_at_once_lose_no_lines(tmp_path: Path) -> None:
    sessions = [Session(f"s{number}", None) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda session: GivenLines(tmp_path).note(session, ["line"], 1), sessions))
    assert [GivenLines(tmp_path).to(session) for session in sessions] == [{"line"}] * 8


def test_threads_that_claim_at_once_claim_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        claimed = list(
            pool.map(lambda number: AnsweredEvents(tmp_path).claim(f"e{number // 8}", 0), range(80))
        )
    assert [sum(claimed[start : start + 8]) for start in range(0, 80, 8)] == [1] * 10


def test_a_note_is_small_and_may_be_lost(tmp_path: Path) -> None:
    events = AnsweredEvents(tmp_path)
    note = tmp_path / ".memory-server" / "answered.json"
    for number in range(100):
        assert events.claim(f"{number}", number * HOLDS_MS)
    assert len(note.read_bytes()) < 100
    for broken in (b"", b"{", b"[]", b'{"99": "x"}', b"\xff"):
        note.write_bytes(broken)
        assert events.claim("99", 99 * HOLDS_MS)
        assert not events.claim("99", 99 * HOLDS_MS)
    (tmp_path / "file").write_text("no folder")
    assert AnsweredEvents(tmp_path / "file").claim("1", 0), "rather twice than not at all"
