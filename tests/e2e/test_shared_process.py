"""One process for many windows: what each window sees, how it starts, and what happens when something fails."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cli_program import run_on
from forked_programs import run as run_program
from hook_transcripts import event
from platformdirs import user_config_path
from shared_process import (
    ON_LINUX,
    descriptors,
    end_shared,
    is_gone,
    only_process,
    shared_processes,
    threads,
    until,
    windows,
)
from stdio_process import PATIENCE, Client, as_line, command, running, tool

from memory_server.process import entrance, invocation, protocol

pytestmark = [
    pytest.mark.skipif(not ON_LINUX, reason="looks into /proc"),
    pytest.mark.usefixtures("shared"),
]
PIZZA = [{"role": "user", "content": "我喜欢吃披萨"}]


def hook(
    data_dir: Path, *flags: str, prompt: str = "晚上吃披萨吗？"
) -> subprocess.CompletedProcess[bytes]:
    stdin = json.dumps(event("UserPromptSubmit", prompt=prompt)).encode()
    completed: subprocess.CompletedProcess[bytes] = run_program(
        ["--data-dir", data_dir, "hook", *flags], stdin
    )
    return completed


def output_of(data_dir: Path, *words: str) -> str:
    """What a command prints."""
    output: bytes = run_program(["--data-dir", data_dir, *words]).stdout
    return output.decode()


def tool_names(client: Client) -> set[str]:
    """The tools that a window is offered."""
    return {offered["name"] for offered in client.ask(1, "tools/list")["result"]["tools"]}


def kill_and_wait(client: Client) -> None:
    client.process.kill()
    client.process.wait()


def test_the_entrance_imports_only_what_it_needs() -> None:
    code = (
        "import sys, os; before = set(sys.modules); from memory_server.process import entrance; "
        "asked = entrance.Invocation(['hook'], {}); "
        "asked.key(); print(*sorted(set(sys.modules) - before))"
    )
    completed = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=_root()
    )
    assert set(completed.stdout.split()) <= {
        "memory_server",
        "memory_server.command_table",
        "memory_server.version",
        "__future__",
    } | {f"memory_server.process{name}" for name in ("", ".entrance", ".invocation", ".protocol")}


def _root() -> Path:
    return Path(entrance.__file__).parents[2]


def test_the_settings_file_is_looked_for_where_the_settings_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for value in ("/x/config", "", " "):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        expected = user_config_path("memory-server", appauthor=False) / "memory-server.toml"
        assert invocation.default_config_file(os.environ) == str(expected)


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        (["-c", "a"], ["--conversation", "b", "--toolsets=all", "--tools", "x"], True),
        (["--data-dir", "/x"], ["--data-dir=/x", "hook", "--chars", "9"], True),
        (["--data-dir", "/x"], ["--data-dir", "/y"], False),
        (["--read-only"], [], False),
        (["recall", "--session", "1", "x"], ["remember", "x"], True),
        (["--now", "2026-01-01"], [], False),
    ],
)
def test_what_makes_another_process(first: list[str], second: list[str], equal: bool) -> None:
    assert (
        invocation.Invocation(first, {}).key() == invocation.Invocation(second, {}).key()
    ) is equal


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        (
            {"MEMORY_SERVER_CONVERSATION": "a", "MEMORY_SERVER_HOOKS": "true"},
            {"PATH": "/bin"},
            True,
        ),
        ({"MEMORY_SERVER_SHORT_TERM__TOP_COUNT": "3"}, {}, False),
        ({"LANG": "zh_CN.UTF-8"}, {}, False),
        ({"HOME": "/a"}, {"HOME": "/b"}, False),
        ({"XDG_DATA_HOME": "/a"}, {}, False),
        ({"XDG_ACTIVATION_TOKEN": "a"}, {"XDG_ACTIVATION_TOKEN": "b", "XDG_SESSION_ID": "2"}, True),
        ({"HTTPS_PROXY": "http://a"}, {"HTTPS_PROXY": "http://b"}, False),
        ({"no_proxy": "a"}, {}, False),
        ({"SSL_CERT_FILE": "/a.pem"}, {}, False),
        ({"REQUESTS_CA_BUNDLE": "/a.pem"}, {"REQUESTS_CA_BUNDLE": "/b.pem"}, False),
        ({"OPENAI_API_KEY": "a"}, {"OPENAI_API_KEY": "b"}, True),
    ],
)
def test_which_variables_make_another_process(
    first: dict[str, str], second: dict[str, str], equal: bool
) -> None:
    assert (
        invocation.Invocation([], first).key() == invocation.Invocation([], second).key()
    ) is equal


PROVIDER = '[[llm.providers]]\nkind = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\nkey_env = {}\n'


@pytest.mark.parametrize("quoted", ['"MY_KEY"', "'MY_KEY'", '"""MY_KEY"""'])
def test_another_key_of_a_model_makes_another_process(tmp_path: Path, quoted: str) -> None:
    """What a window says must not go out under the key of another window."""
    file = tmp_path / "settings.toml"
    file.write_text(PROVIDER.format(quoted))

    def key_with(**environment: str) -> str:
        return invocation.Invocation(["--config", str(file)], environment).key()

    key = key_with(OTHER_KEY="c", MY_KEY="a")
    assert len({key, key_with(OTHER_KEY="c", MY_KEY="b"), key_with(OTHER_KEY="c")}) == 3
    assert key == key_with(OTHER_KEY="d", MY_KEY="a")


@pytest.mark.parametrize(
    "environment",
    [
        {"MEMORY_SERVER_LLM__EMBEDDINGS__KEY_ENV": "MY_KEY"},
        {"MEMORY_SERVER_llm__providers": '[{"kind": "openai", "model": "m", "key_env": "MY_KEY"}]'},
    ],
)
def test_a_key_that_the_environment_names_makes_another_process(
    environment: dict[str, str],
) -> None:
    keys = {
        invocation.Invocation([], environment | {"MY_KEY": value}).key() for value in ("a", "b")
    }
    assert len(keys) == 2


def test_changed_code_makes_another_process(tmp_path: Path) -> None:
    """Also code deep below the package, as after `git pull` in an editable installation."""
    for name in ("memory_server/tools", "sandbox", "languages", "nlp/__pycache__"):
        (tmp_path / name).mkdir(parents=True)
    module = tmp_path / "memory_server" / "tools" / "turn.py"
    module.touch()
    stamps = [invocation._code_stamp(str(tmp_path))]
    (tmp_path / "nlp" / "__pycache__" / "turn.pyc").touch()
    (tmp_path / "memory_server" / ".#turn.py").symlink_to("nobody@nowhere:1")
    assert invocation._code_stamp(str(tmp_path)) == stamps[0]
    os.utime(module, (1, 1))
    stamps.append(invocation._code_stamp(str(tmp_path)))
    module.unlink()
    stamps.append(invocation._code_stamp(str(tmp_path)))
    assert len(set(stamps)) == 3


def test_all_code_counts_for_another_process() -> None:
    declared = tomllib.loads((_root() / "pyproject.toml").read_text())
    assert (
        list(invocation._PACKAGES)
        == declared["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats"],
        ["--help"],
        ["serve", "--help"],
        ["--vers"],
        ["--data-dir"],
        ["--no-daemon"],
        ["hook", "--no-daemon"],
    ],
)
def test_what_is_not_shared(arguments: list[str]) -> None:
    with pytest.raises(protocol.CannotShare):
        invocation.Invocation(arguments, {})


def test_another_settings_file_makes_another_process(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    keys = []
    for text in ("", "seed = 1\n"):
        file.write_text(text)
        keys.append(invocation.Invocation(["--config", str(file)], {}).key())
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("variable", marks=pytest.mark.full),
        "file",
        pytest.param("flag", marks=pytest.mark.full),
    ],
)
def test_it_can_be_turned_off(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    flags = ["--no-daemon"] if how == "flag" else []
    if how == "variable":
        monkeypatch.setenv("MEMORY_SERVER_DAEMON__ENABLED", "off")
    else:
        monkeypatch.delenv("MEMORY_SERVER_DAEMON__ENABLED", raising=False)
    if how == "file":
        (tmp_path / "settings.toml").write_text("[daemon]\nenabled = false\n")
        flags = ["--config", str(tmp_path / "settings.toml")]
    with windows(tmp_path, 1, *flags) as (alone,):
        assert alone.ask(1, "ping")["result"] == {}
        assert not shared.exists() or not list(shared.iterdir())


def test_windows_share_a_process_and_see_only_their_own(tmp_path: Path, shared: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".memory-server.toml").write_text('conversation = "项目"\n')
    data = tmp_path / "data"
    with (
        running(command(data, "-c", "小明", "--toolsets", "all")) as ming,
        running(command(data, "-c", "小红")) as hong,
        running(command(data, "--read-only")) as reader,
    ):
        for client in (ming, hong, reader):
            client.connect()
        # Two processes: what may be written makes a difference.
        assert len(list(shared.glob("*.sock"))) == 2
        ming.call("remember_turn", messages=PIZZA)
        hong.call("remember_turn", messages=PIZZA)
        assert {folder.name.partition("~")[0] for folder in data.iterdir()} >= {"小明", "小红"}
        assert len(tool_names(ming)) > 20
        assert len(tool_names(hong)) == 6
        reader.send(tool(2, "remember_turn", messages=PIZZA))
        assert "There is no tool" in json.dumps(reader.read())
        status = output_of(data, "daemon", "status")
        assert sorted(line.split(", ")[1] for line in status.splitlines()) == [
            "1 window",
            "2 windows",
        ]
        examined = output_of(data, "doctor")
        assert len(re.findall(r"shared process +process \d", examined)) == 2, examined
        assert output_of(data, "where").count(".log") == 2
        output_of(data, "daemon", "stop")
        assert [client.process.wait(10) for client in (ming, hong, reader)] == [0, 0, 0]
    assert output_of(data, "daemon", "status").startswith("No shared")


def test_the_file_of_a_folder_names_the_conversation_of_its_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with windows(tmp_path / "data", 1):
        (tmp_path / ".memory-server.toml").write_text('conversation = "项目"\nother = 1\n')
        monkeypatch.chdir(tmp_path)
        with running(command(tmp_path / "data")) as client:
            client.connect()
            client.call("remember_turn", messages=PIZZA)
            assert list((tmp_path / "data").glob("项目~*"))
            assert only_process()["sessions"] == 2
            client.stdin.close()
            client.process.wait(30)
            assert (
                b"only `conversation` is read there"
                in (client.process.stderr or sys.stdin.buffer).read()
            )


def test_commands_ask_the_process_and_answer_as_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ["--data-dir", tmp_path, "--now", "2026-06-20T08:00:00Z"]
    recall = [*command(tmp_path, "--now", "2026-06-20T08:00:00Z"), "recall", "--session", "2"]
    assert (
        run_program([*at, "remember", "--session", "1"], json.dumps(PIZZA).encode()).returncode == 0
    )
    alone = run_program([*at, "recall", "--session", "2", "吃披萨吗"]).stdout
    assert "我喜欢吃披萨" in alone.decode()
    with windows(tmp_path, 1, "--now", "2026-06-20T08:00:00Z"):
        # Standard input that never ends must not matter when there are words.
        with subprocess.Popen(
            [*recall, "吃披萨吗"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as recalled:
            assert recalled.wait(30) == 0
            assert recalled.stdout is not None
            assert recalled.stdout.read() == alone
        wrong = subprocess.run(
            [*recall, "--session", ""], input=b"[]", capture_output=True, timeout=60
        )
        assert wrong.returncode == 2
        assert wrong.stderr.startswith(b"memory-server: --session takes an id of 1 to")
        unknown = subprocess.run(
            [*recall, "--sesion", "1"], input=b"[]", capture_output=True, timeout=60
        )
        assert unknown.returncode == 2
        monkeypatch.setenv("MEMORY_SERVER_NOTHING", "1")
        outcome = subprocess.run([*recall, "吃披萨吗"], capture_output=True, timeout=60)
        assert outcome.returncode == 2, "other settings are those of another process"


def test_twenty_windows_at_once_start_one_process(tmp_path: Path, shared: Path) -> None:
    started = [
        subprocess.Popen(
            command(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(20)
    ]
    try:
        clients = [Client(process).connect() for process in started]
        assert len(clients) == 20
        assert only_process()["sessions"] == 20
        assert len(list(shared.glob("*.sock"))) == 1
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_a_recall_starts_the_process_only_where_that_is_asked_for(
    tmp_path: Path, shared: Path
) -> None:
    recall = ["--data-dir", tmp_path, "recall", "--json", "吃披萨吗"]

    def recalled(*flags: str) -> dict[str, Any]:
        completed = run_program([*recall, *flags])
        assert completed.returncode == 0, completed.stderr
        result: dict[str, Any] = json.loads(completed.stdout)
        return result

    alone = recalled()
    assert not list(shared.glob("*.sock"))
    assert recalled("--start") == alone
    until(
        lambda: len(list(shared_processes())) == 1
    )  # the command does not wait for one that is slow to start
    pid = only_process()["pid"]
    assert recalled("--start") == recalled() == alone
    assert only_process()["pid"] == pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(pid))
    assert recalled("--start") == alone  # a socket that nobody listens at
    until(lambda: len(list(shared_processes())) == 1)
    assert only_process()["pid"] != pid
    os.kill(only_process()["pid"], signal.SIGTERM)


def test_a_recall_starts_a_process_after_one_that_ends_before_it_accepts(
    tmp_path: Path, shared: Path
) -> None:
    recall = ["--data-dir", tmp_path, "recall", "--json", "--start", "吃披萨吗"]
    alone = run_program([*recall[:-2], recall[-1]]).stdout
    run_program(recall)
    until(lambda: len(list(shared_processes())) == 1)
    ((path, figures),) = shared_processes()
    end_shared()
    Path(path).unlink(missing_ok=True)

    with socket.socket(socket.AF_UNIX) as dying:
        dying.bind(str(path))
        dying.listen()
        with ThreadPoolExecutor(1) as threads:
            completed = threads.submit(run_program, recall)
            select.select([dying], [], [], PATIENCE)
            dying.close()
            assert completed.result().stdout == alone
    until(lambda: len(list(shared_processes())) == 1)
    assert only_process()["pid"] != figures["pid"]


@pytest.mark.parametrize("flags", [(), ("--start",)])
def test_an_error_is_json_where_the_result_would_be(tmp_path: Path, flags: tuple[str, ...]) -> None:
    completed = run_program(["--data-dir", tmp_path, "recall", "--json", *flags], b"[5]")
    assert completed.returncode == 1
    assert json.loads(completed.stdout)["error"]["kind"] == "arguments"
    assert not completed.stderr


def test_a_killed_process_ends_its_windows_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with windows(tmp_path, 5) as clients:
        acknowledged_ids: list[str] = []
        for number in range(40):
            turn = [{"role": "user", "content": f"第{number}件事是披萨{number}"}]
            acknowledged_ids.append(clients[number % 5].call("remember_turn", messages=turn)["id"])
        for number, client in enumerate(clients):  # in flight
            client.send(
                tool(
                    "late", "remember_turn", messages=[{"role": "user", "content": f"最后{number}"}]
                )
            )
        pid = only_process()["pid"]
        clients[4].process.stderr.close()  # type: ignore[union-attr]  # a sentence that nobody reads changes nothing
        os.kill(pid, signal.SIGKILL)
        assert [client.process.wait(PATIENCE) for client in clients] == [1] * 5
        for client in clients:
            late_answers = [answer for answer in client.rest() if answer["id"] == "late"]
            acknowledged_ids += [
                answer["result"]["structuredContent"]["id"] for answer in late_answers
            ]
        (sentence,) = {(client.process.stderr or sys.stdin.buffer).read() for client in clients[:4]}
        assert sentence == b"memory-server: the shared process has ended; start the server again\n"
    with windows(tmp_path, 1, "--toolsets", "all") as (client,):
        search = client.call("search_memories", limit=100)
        assert set(acknowledged_ids) <= {memory["id"] for memory in search["results"]}


def test_a_killed_window_leaves_nothing_behind(tmp_path: Path) -> None:
    def open_kinds() -> Counter[str]:
        """Count the open files of the process by kind: paths as they are, and `socket:` and `pipe:` without numbers."""
        kinds: Counter[str] = Counter()
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                kinds[str(descriptor.readlink()).partition("[")[0]] += 1
        return kinds

    with windows(tmp_path, 1) as (client,):
        client.call("remember_turn", messages=PIZZA)
        client.call("add_long_term_memory", name="a", prompt="p", trigger="true")
        pid = only_process()["pid"]
        # What is opened once for all windows is open after one that came and went.
        with windows(tmp_path, 1) as (other,):
            other.call("recall_turn", messages=PIZZA)
        until(lambda: only_process()["sessions"] == 1)
        client.call("recall_turn", messages=PIZZA)
        before = open_kinds()
        threads_before = threads(pid)

        with windows(tmp_path, 3) as others:
            for window in others:
                window.call("recall_turn", messages=PIZZA)
            # The window is gone, and its client keeps the other ends of the pipes.
            others[0].process.kill()
            until(lambda: only_process()["sessions"] == 3)
            # Both are gone.
            kill_and_wait(others[1])
            others[1].stdin.close()
            others[1].stdout.close()
            until(lambda: only_process()["sessions"] == 2)
            # It is told to end, and ends.
            others[2].process.terminate()
            assert others[2].process.wait(PATIENCE) == 0
            until(lambda: only_process()["sessions"] == 1)

        end = time.monotonic() + PATIENCE
        while (left := open_kinds() - before) and time.monotonic() < end:
            time.sleep(0.05)
        assert left == Counter()
        # The pool of threads may have grown: a session's own two must be gone.
        until(lambda: threads(pid) <= threads_before + 6)
        assert client.ask(2, "ping")["result"] == {}


@pytest.mark.full
def test_a_window_whose_client_reads_nothing_ends(tmp_path: Path) -> None:
    with windows(tmp_path, 2) as (reader, silent):
        pid = only_process()["pid"]
        before = threads(pid)
        silent.send(*(tool(number, "get_memory_stats") for number in range(400)))
        time.sleep(0.5)
        silent.process.terminate()
        assert silent.process.wait(10) == 0
        until(lambda: only_process()["sessions"] == 1)
        until(lambda: threads(pid) <= before + 6)
        assert reader.ask(2, "ping")["result"] == {}


@pytest.mark.full
def test_a_window_whose_client_says_its_last_and_reads_nothing_ends(tmp_path: Path) -> None:
    with windows(tmp_path, 2) as (reader, silent):
        silent.send(
            *({"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(100))
        )  # 2 MB
        silent.stdin.close()
        assert silent.process.wait(30) == 0
        until(lambda: only_process()["sessions"] == 1)
        assert reader.ask(2, "ping")["result"] == {}


def test_a_stopped_process_is_not_waited_for(tmp_path: Path, shared: Path) -> None:
    with windows(tmp_path, 1, "--toolsets", "all") as (client,):
        client.call("remember_turn", messages=PIZZA)
        pid = only_process()["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            completed = hook(tmp_path)
            assert (completed.returncode, completed.stderr) == (0, b"")
            began = time.monotonic()
            with running(command(tmp_path)) as alone:
                alone.connect()
                # It also stops one that has just started; one that is starting has START_SECONDS.
                assert (
                    time.monotonic() - began
                    < (protocol.CONNECT_SECONDS + protocol.START_SECONDS) / 2
                )
                alone.call("remember_turn", messages=[{"role": "user", "content": "我住在上海"}])
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.3)
                # It does not take the input of a window that has given it up.
                for number in range(20):
                    assert alone.ask(number, "ping")["result"] == {}
        finally:
            os.kill(pid, signal.SIGCONT)
        assert only_process()["sessions"] == 1
        assert len(client.call("search_memories")["results"]) == 2


@contextmanager
def odd_process(data_dir: Path, change: str) -> Iterator[subprocess.Popen[bytes]]:
    """A shared process whose code was changed by `change`, which sees the modules of its commands."""
    caller = invocation.Invocation(["--data-dir", str(data_dir)], os.environ)
    path = protocol.socket_at(protocol.folder(os.environ), caller.key())
    modules = (
        "from memory_server.process import command_runner, hosts, windows; import asyncio, time"
    )
    code = f"{modules}\n{change}\nfrom memory_server.cli.windows import main; main()"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        arguments = [sys.executable, "-c", code, path, str(listener.fileno()), *caller.flags]
        process = subprocess.Popen(arguments, pass_fds=[listener.fileno()])
    try:
        until(lambda: only_process().get("pid") == process.pid)
        yield process
    finally:
        process.kill()
        process.wait()


SLOW_HOOK = """
async def slow(*_):
    from pathlib import Path
    try:
        await asyncio.sleep({})
        Path({!r}).write_text("done")
    except asyncio.CancelledError:
        Path({!r}).write_text("taken back")
        raise
known = hosts.function_of
hosts.function_of = lambda command: slow if command.name == "hook" else known(command)
"""


@pytest.mark.parametrize(
    "name", ["UserPromptSubmit", pytest.param("SessionStart", marks=pytest.mark.full)]
)
def test_a_hook_that_gets_no_answer_recalls_itself(tmp_path: Path, name: str) -> None:
    """It takes back what it asked for: otherwise its own answer would be the second of the turn, and be left out."""
    data = tmp_path / "data"
    marker = str(tmp_path / "told")
    assert run_on(data, "remember", "--session", "1", "我喜欢吃披萨").status == 0
    hook_event = event(
        name, prompt="晚上吃披萨吗？", prompt_id="p", source="startup", cwd=str(Path.cwd())
    )
    stdin = json.dumps(hook_event).encode()
    with odd_process(data, SLOW_HOOK.format(60, marker, marker)):
        completed = run_program(["--data-dir", data, "hook", "--seconds", "30"], stdin)
        assert "我喜欢吃披萨" in completed.stdout.decode()
        assert completed.stderr == b""
        until(lambda: Path(marker).exists())
        assert Path(marker).read_text() == "taken back"


def test_a_turn_that_ended_is_stored_by_one_process_only(tmp_path: Path) -> None:
    """However long it takes: the hook of a turn takes nothing back."""
    data = tmp_path / "data"
    marker = str(tmp_path / "told")
    (tmp_path / "talk.jsonl").write_text(
        json.dumps({"type": "user", "message": {"role": "user", "content": "米娅"}})
    )
    stdin = json.dumps(event("Stop", transcript_path=str(tmp_path / "talk.jsonl"))).encode()
    with odd_process(data, SLOW_HOOK.format(2 * entrance.RECALL_SECONDS, marker, marker)):
        completed = run_program(["--data-dir", data, "hook", "--seconds", "30"], stdin)
        assert (completed.stdout, completed.stderr) == (b"", b"")
        assert Path(marker).read_text() == "done"
        assert not list(data.glob("*~*"))


BUSY_THREAD = """
async def busy(*_):
    open({!r}, "w").close()
    await asyncio.to_thread(time.sleep, 60)
known = hosts.function_of
hosts.function_of = lambda command: busy if command.name == "recall" else known(command)
"""


def test_the_end_does_not_wait_for_threads(tmp_path: Path) -> None:
    began = tmp_path / "busy"
    recall = [*command(tmp_path), "recall", "x"]
    with (
        odd_process(tmp_path, BUSY_THREAD.format(str(began))) as process,
        subprocess.Popen(recall) as asking,
    ):
        until(began.exists)
        assert output_of(tmp_path, "daemon", "stop").startswith("ended: ")
        until(lambda: is_gone(process.pid), 1)  # the command returns when it has ended
        asking.kill()


def test_what_stands_in_the_way_of_a_socket(tmp_path: Path, shared: Path) -> None:
    """A stale socket and lock are used again; a folder that is not only ours is not."""
    with windows(tmp_path, 1):
        path = next(shared.glob("*.sock"))
        os.kill(only_process()["pid"], signal.SIGKILL)
    assert path.exists()
    with windows(tmp_path, 1):
        assert only_process()["sessions"] == 1
        os.kill(only_process()["pid"], signal.SIGKILL)
    shared.chmod(0o755)
    with windows(tmp_path, 1) as (alone,):
        alone.call("remember_turn", messages=PIZZA)
        with pytest.raises(ValueError, match="not enough"):
            only_process()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "memory-server").symlink_to(shared)
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "memory-server").touch()
    for folder in (shared.parent, tmp_path / "linked", tmp_path / "file", Path("/proc/nowhere")):
        with pytest.raises(protocol.CannotShare):
            protocol.folder({"XDG_RUNTIME_DIR": str(folder)})
    with pytest.raises(protocol.CannotShare):
        protocol.socket_at("/" + "x" * 100, "key")


def test_a_log_that_cannot_be_written_does_not_matter(tmp_path: Path, shared: Path) -> None:
    shared.mkdir(mode=0o700)
    key = invocation.Invocation(["--data-dir", str(tmp_path)], os.environ).key()
    Path(protocol.socket_at(str(shared), key)).with_suffix(".log").mkdir()
    with windows(tmp_path, 1) as (alone,):
        assert alone.ask(1, "ping")["result"] == {}
        with pytest.raises(ValueError, match="not enough"):
            only_process()


def test_settings_that_cannot_be_used_are_told_by_each_window(tmp_path: Path) -> None:
    with running(command(tmp_path, "--timezone", "Mars/Olympus")) as client:
        assert client.process.wait(30) == 2
        assert b"timezone" in (client.process.stderr or sys.stdin.buffer).read()
    with windows(tmp_path, 1), running(command(tmp_path, "--toolsets", "nonsense")) as client:
        assert client.process.wait(30) == 2
        assert b"nonsense" in (client.process.stderr or sys.stdin.buffer).read()


def test_it_ends_when_nobody_needs_it(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_DAEMON__IDLE_MINUTES", "0.01")
    with windows(tmp_path, 1) as (client,):
        pid = only_process()["pid"]
        time.sleep(1.2)
        assert client.ask(1, "ping")["result"] == {}
    until(lambda: is_gone(pid))
    assert not list(shared.glob("*.sock"))


def test_a_hook_never_starts_it_and_gives_up_in_time(tmp_path: Path, shared: Path) -> None:
    assert hook(tmp_path).returncode == 0
    assert not shared.exists() or not list(shared.glob("*.sock"))
    with windows(tmp_path, 1):
        arguments = [*command(tmp_path), "hook", "--seconds", "0.3"]
        with subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as waiting:
            assert waiting.wait(30) == 0
            assert waiting.stdout is not None
            assert waiting.stderr is not None
            assert waiting.stdout.read() == b""
            assert (
                waiting.stderr.read()
                == b"memory-server: hook: gave up after 0.3 s; --seconds allows a longer time\n"
            )


@pytest.mark.parametrize(
    ("flags", "listens", "starts"),
    [((), True, True), ((), False, False), (("--read-only",), True, False)],
    ids=["old code", "killed", "other settings"],
)
def test_a_hook_after_an_update_starts_the_process_for_the_next_ones(
    tmp_path: Path, shared: Path, flags: tuple[str, ...], listens: bool, starts: bool
) -> None:
    """The windows that are open keep the process of the old code, and no new window may come for days."""
    key = invocation.Invocation(["--data-dir", str(tmp_path), *flags], os.environ).key()
    old = protocol.socket_at(
        protocol.folder(os.environ), key.replace(invocation.__version__, "0.0.1")
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(old)
        if listens:
            listener.listen()
        hooks = [hook(tmp_path) for _ in range(2)]
        assert [done.returncode for done in hooks] == [0, 0]
    Path(old).unlink()
    if not starts:
        assert not list(shared.glob("*.sock"))
        return
    until(lambda: [figures for _, figures in shared_processes() if figures])
    assert hook(tmp_path).stdout == hooks[0].stdout
    os.kill(only_process()["pid"], signal.SIGTERM)


def test_sockets_as_standard_input_and_output(tmp_path: Path) -> None:
    """As clients written in Node start their servers."""
    client_end, server_end = socket.socketpair()
    streams = {"stdin": server_end, "stdout": server_end}
    with (
        client_end,
        windows(tmp_path, 1),
        subprocess.Popen(command(tmp_path), **streams) as process,
    ):
        server_end.close()
        client_end.settimeout(30)
        big = [{"role": "user", "content": "披萨" * 20_000}]
        client_end.sendall(as_line({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
        client_end.sendall(as_line(tool(2, "remember_turn", messages=big)))
        data = b""
        while data.count(b"\n") < 2:
            data += client_end.recv(1 << 16)
        assert [json.loads(line)["id"] for line in data.splitlines()] == [1, 2]
        assert only_process()["sessions"] == 2
        client_end.shutdown(socket.SHUT_WR)
        assert process.wait(10) == 0


def test_a_stranger_at_the_socket_learns_nothing(tmp_path: Path, shared: Path) -> None:
    with windows(tmp_path, 1) as (client,):
        path = str(next(shared.glob("*.sock")))
        key = invocation.Invocation(["--data-dir", str(tmp_path)], os.environ).key()
        for greeting in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"99999999999 0\n",
            b"3 0\nabc",
            b"-1 0\n",
            b"\n",
            b"",
            "\0".join(["memory-server 1", key, "serve", "/", ""]).encode(),
            "\0".join([protocol.PROTOCOL, "other", "serve", "/", ""]).encode(),
            "\0".join([protocol.PROTOCOL, key, "shell", "/", ""]).encode(),
        ):
            with closing(protocol.connected(path, 10)) as connection:
                if greeting.startswith(b"memory"):
                    connection.sendall(b"%d 0\n" % len(greeting))
                connection.sendall(greeting)
                connection.shutdown(socket.SHUT_WR)
                assert not connection.recv(100).startswith(b"+")
        with closing(protocol.connected(path, 10)) as connection:
            connection.sendall(b"9" * 1000)
            assert connection.recv(1) == b"-", "a first line that does not end is not waited for"
        assert client.ask(1, "ping")["result"] == {}
        assert only_process()["sessions"] == 1


def test_open_files_that_run_out_only_put_off_a_client(tmp_path: Path) -> None:
    few = ["sh", "-c", 'ulimit -Sn 50; exec "$@"', "sh", *command(tmp_path)]
    with running(few) as client:
        client.connect()
        pid = only_process()["pid"]
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] >= min(most, 10_240)
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors(pid), most))
        assert hook(tmp_path).returncode == 0
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        until(lambda: only_process().get("sessions") == 1)


def test_an_answer_that_cannot_be_written_does_not_do_the_work_again(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('language = "zh"\n')
    data = tmp_path / "data"
    flags = ["--config", str(settings)]
    with windows(data, 1, *flags, "--toolsets", "all") as (client,):
        remember = [*command(data, *flags), "remember", "我喜欢吃披萨"]
        assert (
            "已保存" in subprocess.run(remember, check=True, capture_output=True, text=True).stdout
        )
        with open("/dev/full", "wb") as full:
            wrong = subprocess.run(
                [*remember[:-1], "我住在上海"], stdout=full, stderr=subprocess.PIPE
            )
        assert wrong.returncode == 1
        assert (
            wrong.stderr
            == b"memory-server: the answer could not be written: No space left on device\n"
        )
        reading, writing = os.pipe()
        os.close(reading)
        assert subprocess.run([*remember[:-1], "我住在北京"], stdout=writing).returncode == 0
        os.close(writing)
        assert len(client.call("search_memories")["results"]) == 3


def test_a_hook_reads_the_files_of_its_own_folder_and_any_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".memory-server.toml").write_text('conversation = "项目"\n')
    line = {"type": "user", "uuid": "1", "message": {"role": "user", "content": "我的猫叫米娅"}}
    (tmp_path / "talk.jsonl").write_text(json.dumps(line) + "\n")
    ended = json.dumps(event("Stop", transcript_path="talk.jsonl", cwd="sub")).encode()
    with windows(tmp_path / "data", 1) as (client,):
        client.call("recall_turn", messages=PIZZA)  # it has loaded what it needs
        monkeypatch.chdir(tmp_path)
        hook_command = [*command(tmp_path / "data"), "hook", "--seconds", "60"]
        completed = subprocess.run(hook_command, input=ended, capture_output=True, timeout=90)
        assert (completed.returncode, completed.stderr) == (0, b"")
        assert list((tmp_path / "data").glob("项目~*"))
        assert hook(tmp_path / "data", "--seconds", "inf").returncode == 0


def test_a_lock_that_is_held_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entrance, "CONNECT_SECONDS", 0.05)
    with open(tmp_path / "x.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(protocol.CannotShare):
            entrance._started(str(tmp_path / "x.sock"), invocation.Invocation([], {}))


def test_a_runtime_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    foreign_folder = tmp_path / "theirs"
    foreign_folder.mkdir()
    if os.getuid():
        foreign_folder = Path("/")
    else:
        os.chown(foreign_folder, 1, 1)
    for runtime_folder in (str(foreign_folder), "relative", ""):
        folder = protocol.folder({"XDG_RUNTIME_DIR": runtime_folder, "TMPDIR": str(tmp_path)})
        assert folder == f"{tmp_path}/memory-server-{os.getuid()}"
    assert not list(foreign_folder.glob("memory-server*"))
