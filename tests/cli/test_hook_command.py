"""`memory-server hook` as Claude Code runs it: what it prints, what it keeps, and that it never stands in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from command_outcome import Outcome
from forked_programs import run as run_program
from forked_programs import start
from hook_transcripts import assistant, compacted, event, transcript, user
from shared_process import end_shared
from stdio_process import running

from memory_server.cli.parser import main
from memory_server.kernel.recalled_block import HEADS, TAG
from memory_server.memories.turns import MAX_CHARS

Run = Callable[..., Outcome]
THEN = "2026-06-20T08:00:10Z"
LATER = "2026-06-25T08:00:00Z"
"""When turns end, and when prompts are written, unless a test says otherwise: no memory is too young to be recalled."""


@pytest.fixture(params=["own", pytest.param("shared", marks=pytest.mark.full)])
def run(request: pytest.FixtureRequest, cli: CommandLine) -> Run:
    """`run(event, "--chars", "300")`: what the hook leaves, in this process or by the shared one."""
    if request.param == "shared":
        request.getfixturevalue("shared")

    def run_shared(text: bytes, settings: list[str], *flags: str) -> Outcome:
        with running([sys.executable, "-m", "memory_server", *settings]) as client:
            with suppress(AssertionError):  # settings that no server can use
                client.connect()
            arguments = [sys.executable, "-m", "memory_server", *settings, "hook", *flags]
            completed = subprocess.run(arguments, input=text, capture_output=True, timeout=60)
        end_shared()
        return Outcome(completed.returncode, completed.stdout.decode(), completed.stderr.decode())

    def run(stdin: Any, *flags: str, now: str | None = None) -> Outcome:
        text = stdin if isinstance(stdin, bytes) else json.dumps(stdin).encode()
        at = now or (THEN if b'"Stop"' in text else LATER)
        settings = ["--now", at, "--timezone", "Asia/Shanghai"]
        if request.param == "shared":
            return run_shared(text, settings, *flags)
        return cli(*settings, "hook", *flags, stdin=text)

    return run


def stop(tmp_path: Path, *entries: dict[str, Any], **fields: Any) -> dict[str, Any]:
    path = tmp_path / "session.jsonl"
    path.write_bytes(transcript(*entries))
    return event("Stop", transcript_path=str(path), **fields)


def block_of(out: str) -> str:
    output = json.loads(out)["hookSpecificOutput"]
    assert output["hookEventName"] == "UserPromptSubmit"
    text: str = output["additionalContext"]
    assert text.startswith(f"<{TAG}>")
    assert text.endswith(f"</{TAG}>")
    return text


def stored(tmp_path: Path) -> list[dict[str, Any]]:
    file = tmp_path / "data" / "default" / "short-term-memory.json"
    return json.loads(file.read_bytes()) if file.exists() else []


def test_what_was_said_in_one_turn_comes_up_by_itself_in_a_later_one(
    run: Run, tmp_path: Path
) -> None:
    turn = stop(
        tmp_path,
        user("我的生日是六月三十日"),
        prompt_id="p1",
        last_assistant_message="我记住了你的生日。",
    )
    assert run(turn) == (0, "", "")
    (memory,) = stored(tmp_path)
    assert memory["text"] == "user: 我的生日是六月三十日\nassistant: 我记住了你的生日。"

    status, out, err = run(event("UserPromptSubmit", prompt="我的生日是哪天？", prompt_id="p2"))
    assert (status, err) == (0, "")
    assert "用户（5 天前，下午）：我的生日是六月三十日" in block_of(out)
    assert len(block_of(out)) <= MAX_CHARS


def prompt(tmp_path: Path, asked: str, *entries: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A prompt of a session whose transcript holds these entries."""
    path = tmp_path / "prompt.jsonl"
    path.write_bytes(transcript(*entries))
    return event("UserPromptSubmit", transcript_path=str(path), prompt=asked, **fields)


SOON = "2026-06-20T08:00:40Z"
MUCH_LATER = "2026-06-20T18:00:00Z"
PIZZA = user("我喜欢披萨", "p1", "2026-06-20T08:00:00.000Z")


def test_a_new_session_is_told_at_once_what_another_was_told(run: Run, tmp_path: Path) -> None:
    run(stop(tmp_path, PIZZA, prompt_id="p1", last_assistant_message="好", session_id="s1"))
    (memory,) = stored(tmp_path)
    assert memory["session"] == "s1"
    new = event(
        "UserPromptSubmit",
        prompt="晚上吃披萨吗？",
        session_id="s2",
        transcript_path=str(tmp_path / "none"),
    )
    assert "我喜欢披萨" in block_of(run(new, now=SOON).out)


@pytest.mark.parametrize("now", [SOON, MUCH_LATER])
def test_a_session_is_not_told_again_what_is_still_in_its_context(
    run: Run, tmp_path: Path, now: str
) -> None:
    entries = [PIZZA, assistant("好")]
    run(stop(tmp_path, *entries, prompt_id="p1", last_assistant_message="好"))
    assert run(prompt(tmp_path, "晚上吃披萨吗？", *entries, prompt_id="p2"), now=now) == (0, "", "")


def test_after_a_compaction_what_was_said_before_it_may_come(run: Run, tmp_path: Path) -> None:
    entries = [PIZZA, assistant("好"), compacted("2026-06-20T08:00:20.000Z")]
    run(stop(tmp_path, *entries[:2], prompt_id="p1", last_assistant_message="好"))
    assert "我喜欢披萨" in block_of(
        run(prompt(tmp_path, "晚上吃披萨吗？", *entries, prompt_id="p2"), now=SOON).out
    )
    again = user("披萨要薄底的", "p3", "2026-06-20T08:00:30.000Z")
    run(stop(tmp_path, *entries, again, prompt_id="p3"), now="2026-06-20T08:00:32Z")
    # It was given since the compaction, so it is in the context again.
    assert run(prompt(tmp_path, "晚上吃披萨吗？", *entries, again, prompt_id="p4"), now=SOON) == (
        0,
        "",
        "",
    )


def test_a_hook_leaves_nothing_to_chance_unless_it_is_asked_to(run: Run, tmp_path: Path) -> None:
    for number, text in enumerate(["我喜欢披萨", "昨天看了电影", "小猫生病了"]):
        at = f"2026-06-{10 + number}T08:00:00.000Z"
        run(stop(tmp_path, user(text, f"p{number}", at), prompt_id=f"p{number}"))
    unrelated = event("UserPromptSubmit", prompt="I need a regex that matches a UUID.")
    assert run(unrelated) == (0, "", "")
    drawn = block_of(run(unrelated, "--flashbacks", "2").out)
    assert drawn.count("偶然想起") == 2


def test_to_be_asked_unasked_strengthens_nothing(run: Run, tmp_path: Path) -> None:
    def memory_files() -> dict[Path, bytes]:
        # What sessions were given is known, so that it does not come twice, and recorded.
        files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        memories = [
            path for path in files if path.name != "given.json" and path.parent.name != "recalls"
        ]
        return {path: path.read_bytes() for path in memories}

    run(stop(tmp_path, PIZZA, prompt_id="p1", last_assistant_message="好"))
    before = memory_files()
    for number in range(3):
        prompt_event = event(
            "UserPromptSubmit", prompt="晚上吃披萨吗？", session_id=f"asking {number}"
        )
        assert "我喜欢披萨" in run(prompt_event).out
    assert memory_files() == before


def test_what_the_answer_used_is_strengthened_once_and_nothing_else_is(
    run: Run, tmp_path: Path
) -> None:
    for number, text in enumerate(["过生日，吃的是水果蛋糕", "去年过生日，吃的是草莓蛋糕"]):
        at = f"2026-06-{10 + number}T08:00:00.000Z"
        run(
            stop(
                tmp_path, user(text, f"p{number}", at), prompt_id=f"p{number}", session_id="earlier"
            )
        )
    entries = [user("今年过生日，吃什么蛋糕？", "p9", "2026-06-25T08:00:00.000Z")]
    assert (
        len(
            block_of(
                run(prompt(tmp_path, "今年过生日，吃什么蛋糕？", prompt_id="p9")).out
            ).splitlines()
        )
        == 5
    )
    ended = stop(tmp_path, *entries, prompt_id="p9", last_assistant_message="草莓！")
    for _ in range(2):
        assert run(ended, now=LATER) == (0, "", "")
    assert {memory["text"]: memory["score"] for memory in stored(tmp_path)} == {
        "user: 过生日，吃的是水果蛋糕": 0,
        "user: 去年过生日，吃的是草莓蛋糕": 5,
        "user: 今年过生日，吃什么蛋糕？\nassistant: 草莓！": 0,
    }


def test_a_turn_is_stored_once_however_often_its_end_is_told(run: Run, tmp_path: Path) -> None:
    turn = stop(tmp_path, user("我喜欢披萨"), prompt_id="p1", last_assistant_message="好")
    assert [run(turn).status for _ in range(3)] == [0, 0, 0]
    assert len(stored(tmp_path)) == 1
    run(turn | {"prompt_id": "p1", "last_assistant_message": "好的，披萨"})
    assert len(stored(tmp_path)) == 2, "what the model said on is not lost"


def test_what_was_recalled_is_never_remembered(run: Run, tmp_path: Path) -> None:
    run(stop(tmp_path, user("我喜欢披萨"), prompt_id="p1", last_assistant_message="好"))
    recalled = block_of(run(event("UserPromptSubmit", prompt="晚上吃披萨吗？")).out)
    again = [user(f"{recalled}\n晚上吃披萨吗？", "p2")]
    run(stop(tmp_path, *again, prompt_id="p2", last_assistant_message=f"吃！\n{recalled}"))
    assert [memory["text"] for memory in stored(tmp_path)] == [
        "user: 我喜欢披萨\nassistant: 好",
        "user: 晚上吃披萨吗？\nassistant: 吃！",
    ]


def test_what_is_private_is_not_remembered(run: Run, tmp_path: Path) -> None:
    half = user("我的猫叫芝麻。<private>密码是 1234</private>", "p1")
    assert run(stop(tmp_path, half, prompt_id="p1", last_assistant_message="好可爱")) == (0, "", "")
    whole = user("<private>密码是 1234</private>", "p2")
    assert run(stop(tmp_path, whole, prompt_id="p2", last_assistant_message="1234 太短")) == (
        0,
        "",
        "",
    )
    assert [memory["text"] for memory in stored(tmp_path)] == [
        "user: 我的猫叫芝麻。\nassistant: 好可爱"
    ]


def test_a_session_can_leave_no_trace(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(stop(tmp_path, user("我喜欢披萨"), prompt_id="p1", last_assistant_message="好"))
    before = {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
    monkeypatch.setenv("MEMORY_SERVER_READ_ONLY", "true")
    assert run(
        stop(tmp_path, user("我的密码是 1234"), prompt_id="p2", last_assistant_message="好")
    ) == (0, "", "")
    assert "我喜欢披萨" in run(event("UserPromptSubmit", prompt="晚上吃披萨吗？")).out
    assert {
        path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()
    } == before


def test_long_memories_keep_within_the_characters_that_were_allowed(
    run: Run, tmp_path: Path
) -> None:
    for number in range(6):
        long = f"披萨{number}" + "非常好吃" * 400 + "delicious" * 300
        at = f"2026-06-{10 + number}T08:00:00Z"
        run(stop(tmp_path, user(long, f"p{number}", at), prompt_id=f"p{number}"))
    prompt_event = event("UserPromptSubmit", prompt="披萨")
    sizes = [
        len(block_of(run(prompt_event, "--chars", str(n), "--flashbacks", "6").out))
        for n in (300, 1200)
    ]
    shorter = len(HEADS["en"]) - len(HEADS["zh"])  # the note of a Chinese block
    assert 200 - shorter < sizes[0] <= 300
    assert 600 < sizes[1] <= 1200  # each memory has at most a third of it


def test_after_a_chinese_prompt_half_as_many_characters_come(run: Run, tmp_path: Path) -> None:
    for prompt, filler, most in (
        ("阿黄追松鼠了吗？", "后来下雨了，我们在亭子里等了很久。", 400),
        ("Did the Heron leak?", "It rained, so we waited in the hut. ", 800),
    ):
        for number in range(3):
            long = f"{filler * (20 + number)}{prompt} {filler * (20 - number)}"
            at = f"2026-06-{10 + number}T{8 + most // 400}:00:00Z"
            run(stop(tmp_path, user(long, f"{most} {number}", at), prompt_id=f"{most} {number}"))
        prompt_events = [
            event("UserPromptSubmit", prompt=prompt, session_id=name) for name in "abc"
        ]
        usual = run(prompt_events[0])
        assert usual == run(prompt_events[1], "--chars", str(most))
        assert usual != run(prompt_events[2], "--chars", "600")


def test_triggers_fire_too(run: Run) -> None:
    main(
        [
            "call",
            "add_long_term_memory",
            '{"name":"过敏","prompt":"不能吃花生","trigger":"match_keys(context.messages,[\'花生\'])"}',
        ]
    )
    status, out, err = run(event("UserPromptSubmit", prompt="花生酱面包"))
    assert (status, err) == (0, "")
    assert "【过敏】不能吃花生" in out


@pytest.mark.parametrize(("depth", "fires"), [(8, True), (0, True), (4, False)])
def test_a_trigger_gets_as_many_messages_as_it_looks_at(
    run: Run, tmp_path: Path, depth: int, *, fires: bool
) -> None:
    trigger = f"match_keys(context.messages, ['tired', 'lonely', 'hopeless'], 'user', {depth}) >= 3"
    memory = {"name": "mood", "prompt": "Be gentle.", "trigger": trigger}
    main(["call", "add_long_term_memory", json.dumps(memory)])
    said = [
        user("I am so tired", "p1"),
        assistant("Rest."),
        user("I feel lonely", "p2"),
        assistant("I am here."),
        user("It rains", "p3"),
        assistant("Yes."),
    ]
    _status, out, _err = run(prompt(tmp_path, "All is hopeless", *said, prompt_id="p4"))
    assert ("Be gentle." in out) == fires


def test_a_turn_whose_prompt_comes_late_into_the_transcript_is_stored(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "late.jsonl"

    def write() -> None:
        path.write_bytes(transcript(user("我对花生过敏", "p9"), assistant("记住了")))

    timer = threading.Timer(0.15, write)
    timer.start()
    ended = event(
        "Stop", transcript_path=str(path), prompt_id="p9", last_assistant_message="记住了"
    )
    assert run(ended) == (0, "", "")
    timer.join()
    assert any(
        "我对花生过敏" in file.read_text()
        for file in (tmp_path / "data" / "default").rglob("*.json*")
    )


def test_with_nothing_to_say_nothing_is_said_and_nothing_is_made(run: Run, tmp_path: Path) -> None:
    assert run(event("UserPromptSubmit", prompt="你好")) == (0, "", "")
    assert run(event("UserPromptSubmit", prompt=" ")) == (0, "", "")
    assert run(stop(tmp_path)) == (0, "", "")
    ended = event("Stop", transcript_path=str(tmp_path / "gone.jsonl"), last_assistant_message="答")
    status, out, err = run(ended)
    assert (status, out) == (0, "")
    assert "gone.jsonl does not exist, so this turn was not stored" in err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("stdin", "flags", "environment", "reason"),
    [
        (b"", (), {}, "hook"),
        (b"no JSON", (), {}, "hook"),
        ([], (), {}, "not a hook event"),
        (event("PreCompact"), (), {}, "PreCompact"),
        (event("UserPromptSubmit", prompt="hi", transcript_path="/"), (), {}, "hook"),
        (event("UserPromptSubmit", prompt="hi"), ("--chars", "many"), {}, "--chars"),
        (
            event("UserPromptSubmit", prompt="hi"),
            ("--flashbacks", "-1"),
            {},
            "whole number from 0 to 100",
        ),
        (event("UserPromptSubmit", prompt="hi"), ("--no-such-flag",), {}, "--no-such-flag"),
        (event("UserPromptSubmit", prompt="hi"), (), {"MEMORY_SERVER_SEED": "x"}, "seed"),
        (event("UserPromptSubmit", prompt="hi"), (), {"MEMORY_SERVER_NO_SUCH": "x"}, "no_such"),
        (
            event("UserPromptSubmit", prompt="hi"),
            (),
            {"MEMORY_SERVER_CONFIG": "/nowhere.toml"},
            "nowhere.toml",
        ),
    ],
)
def test_nothing_that_is_wrong_stands_in_the_way(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    stdin: Any,
    flags: tuple[str, ...],
    environment: dict[str, str],
    reason: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    status, out, err = run(stdin, *flags)
    assert status == 0
    if out:  # a program that could still read the event tells its user; the prompt goes on without a block
        assert list(json.loads(out)) == ["systemMessage"]
    assert reason in err
    if not flags:
        assert err.count("\n") == 1


DAMAGED = "language = [\n"
TROUBLE: list[tuple[str, Callable[[Path], None]]] = [
    ("a file", lambda folder: (folder / "data").write_text("not a folder")),
    ("a folder in a file", lambda folder: (folder / "data").write_text("not a folder")),
    ("damaged settings", lambda folder: (folder / "config.toml").write_text(DAMAGED)),
    ("a damaged file of the project", lambda folder: (folder / ".memory-server.toml").write_text(DAMAGED)),
]  # fmt: skip


@pytest.mark.parametrize("trouble", TROUBLE, ids=[name for name, _ in TROUBLE])
def test_a_memory_that_cannot_be_used_is_told_to_the_user_once_a_session(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: tuple[str, Callable[[Path], None]],
) -> None:
    name, damage = trouble
    runtime = tmp_path / "runtime"
    runtime.mkdir(0o700, exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    if name == "a folder in a file":
        monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data" / "memories"))
    if name == "damaged settings":
        monkeypatch.setenv("MEMORY_SERVER_CONFIG", str(tmp_path / "config.toml"))
    damage(tmp_path)
    begun = event("SessionStart", source="startup", cwd=str(tmp_path))
    asking = prompt(tmp_path, "晚上吃披萨吗？", prompt_id="p1", cwd=str(tmp_path))
    ended = stop(
        tmp_path, user("我喜欢披萨"), prompt_id="p1", last_assistant_message="好", cwd=str(tmp_path)
    )
    outputs = []
    for hook_event in (begun, asking, ended, asking | {"session_id": "s2"}):
        status, out, err = run(hook_event)
        assert (status, err.count("\n")) == (0, 1)
        assert err.startswith("memory-server: hook: ")
        outputs.append(out)
    sentences = [json.loads(out)["systemMessage"] for out in outputs if out]
    assert [bool(out) for out in outputs] == [True, False, False, True], "once a session"
    assert all(
        sentence.startswith("memory-server: until this is repaired") for sentence in sentences
    )


@pytest.mark.parametrize("wanted", ["true", "false", None])
def test_a_plan_comes_on_its_day_where_the_user_wants_it_in_hooks(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str | None
) -> None:
    if wanted is not None:
        monkeypatch.setenv("MEMORY_SERVER_RECALL__PLANS", wanted)
    run(stop(tmp_path, user("我周四下午去体检"), prompt_id="p1", last_assistant_message="好"))
    begun = run(event("SessionStart", source="startup", session_id="s2", cwd=str(tmp_path)))
    asked = run(event("UserPromptSubmit", prompt="帮我看看这个测试", session_id="s3"))
    assert ("今天：用户" in begun.out) == (wanted == "true")
    assert "今天：" not in asked.out, "another session of the conversation was shown it"


def test_a_plan_comes_at_the_first_prompt_of_its_day(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_RECALL__PLANS", "true")
    run(stop(tmp_path, user("我周四下午去体检"), prompt_id="p1", last_assistant_message="好"))
    asked = event("UserPromptSubmit", prompt="帮我看看这个测试", session_id="s2", prompt_id="p2")
    assert "今天：用户（5 天前，下午）：我周四下午去体检" in block_of(run(asked).out)
    assert run(asked | {"session_id": "s3", "prompt_id": "p3"}).out == ""


def test_a_pause_is_wished_and_no_trouble(run: Run, tmp_path: Path) -> None:
    main(["--data-dir", str(tmp_path / "data"), "--now", THEN, "pause"])
    status, out, err = run(
        stop(tmp_path, user("我喜欢披萨"), prompt_id="p1", last_assistant_message="好")
    )
    assert (status, '"systemMessage"' in out) == (0, False)
    assert "paused" in err


@pytest.mark.full
@pytest.mark.parametrize("encoding", ["gbk", "ascii", "utf-16"])
def test_what_a_program_reads_is_utf8_whatever_the_locale(tmp_path: Path, encoding: str) -> None:
    def run(command: str, stdin: Any, now: str = LATER) -> Any:
        completed = subprocess.run(
            [
                sys.executable,
                "-P",
                "-m",
                "memory_server",
                "--data-dir",
                tmp_path,
                "--now",
                now,
                *command.split(),
            ],
            input=json.dumps(stdin, ensure_ascii=False).encode(),
            capture_output=True,
            timeout=60,
            check=True,
            env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": encoding},
        )
        return json.loads(completed.stdout.decode("utf-8"))

    messages = [{"role": "user", "content": "我喜欢吃披萨 😀"}]
    run("remember --json", messages, THEN)
    hooked = run("hook", event("UserPromptSubmit", prompt="吃披萨吗"))
    assert "我喜欢吃披萨 😀" in hooked["hookSpecificOutput"]["additionalContext"]
    recalled = run("recall --json", [{"role": "user", "content": "吃披萨吗"}])
    assert "我喜欢吃披萨 😀" in recalled["prompt"]
    answer = run("call search_short_term_memories -", {"recentMessages": messages})
    assert answer["topRelevant"][0]["text"].endswith("😀")


def test_it_gives_up_in_time_when_nobody_ends_its_input(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    words = ["--data-dir", tmp_path, "hook", "--seconds", "0.2"]
    with start(words, stdin=pipe, stdout=pipe, stderr=pipe) as hook:
        assert hook.wait(60) == 0
        assert hook.stdout is not None
        assert hook.stderr is not None
        assert hook.stdout.read() == b""
        assert (
            hook.stderr.read()
            == b"memory-server: hook: gave up after 0.2 s; --seconds allows a longer time\n"
        )


def test_a_prompt_waits_for_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    code = (
        "import sys, atexit\n"
        "heavy = {'mcp', 'mcp_types', 'numpy', 'jieba', 'apscheduler', 'rich', 'ssl', 'tree_sitter', 'psutil'}\n"
        "atexit.register(lambda: print(*sorted(n for n in heavy if sys.modules.get(n)), file=sys.stderr))\n"
        "from memory_server.cli.parser import main\n"
        f"main(['--data-dir', {str(tmp_path)!r}, 'hook'])\n"
    )
    stdin = json.dumps(event("UserPromptSubmit", prompt="我喜欢披萨"))
    completed = subprocess.run(
        [sys.executable, "-c", code],
        input=stdin.encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert completed.stdout == b""
    assert completed.stderr == b"\n", "imported needlessly"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_transcript_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    os.mkfifo(path)
    stdin = json.dumps(
        event("UserPromptSubmit", prompt="吃披萨吗", transcript_path=str(path))
    ).encode()
    completed = run_program(["--data-dir", tmp_path / "data", "hook", "--seconds", "20"], stdin)
    assert (completed.returncode, completed.stdout) == (0, b"")
    assert f"{path} is a named pipe and not a file" in completed.stderr.decode()
