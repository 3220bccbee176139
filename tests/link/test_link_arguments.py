"""Every command that a server runs for a linked machine, with every argument of it given wrongly: the answer is never
that the server failed, and a refusal is one sentence."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_server import Asker, give, said, serving

from memory_server.cli.parser import parsed, parser
from memory_server.command_table import COMMANDS, SETTING_FLAGS
from memory_server.config import Settings
from memory_server.kernel import streams
from memory_server.kernel.messages import Message
from memory_server.process import remote_commands
from memory_server.runtime.app import App
from memory_server.serving.http.principals import ALL, Principal

WRONG = (
    "",
    "-5",
    "0",
    "1e400",
    "nan",
    "9" * 30,
    "yesterdayy",
    "9999-99-99",
    "[",
    "/(/",
    "a\x00b",
    "\ud800",
    "x" * 990,
)
"""No argument of a command takes all of them."""
OFTEN = {"http__requests_per_minute": "600000"}


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    folder = tmp_path_factory.mktemp("home") / "data"
    token = give(folder, "mine", "--tenant", "mine")
    with serving(
        folder, "--toolsets=all,notes", ready=False, upkeep__enabled="false", **OFTEN
    ) as server:
        asker = Asker(server.url, token)
        asker.done("remember_turn", **said("my cat is Miso"))
        yield asker


def actions_of(name: str) -> list[argparse.Action]:
    """The arguments of a command, without the settings that every command has."""
    commands = next(
        action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    ours: list[argparse.Action] = commands.choices[name]._actions
    settings = {
        f"--{flag.name}" for flag in SETTING_FLAGS.values() if flag.on_linked_machine == "refused"
    }
    return [action for action in ours if not settings & set(action.option_strings)]


def lines_of(name: str, step: int) -> Iterator[list[str]]:
    """Command lines of which one argument is wrong; each argument has every `step`-th value, beginning with another."""
    for number, action in enumerate(actions_of(name)):
        flags = action.option_strings[:1]
        if flags and action.nargs == 0:
            continue
        words = [] if name == "import" and flags else ["miso"]
        for value in WRONG[number % step :: step]:
            yield [name, *words, *flags, value]
    yield [name, "--no-such-flag"]
    yield [name, "a", "b", "c", "d"]


@pytest.mark.parametrize(
    "name", sorted(name for name, row in COMMANDS.items() if row.run_for_others and name != "hook")
)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.full)])
def test_a_wrong_argument_is_never_a_failure_of_the_server(
    asker: Asker, name: str, step: int
) -> None:
    lines = list(lines_of(name, step))
    assert lines
    for line in lines:
        words = line if name != "import" else ["import", "-", "--format", "chat", *line[1:]]
        content = json.dumps(
            {"arguments": words, "input": "user: hello\nassistant: hi\n"}
        )  # a lone surrogate too
        headers = {"content-type": "application/json"}
        answer = asker.http.post(f"/v1/commands/{name}", content=content, headers=headers)
        assert answer.status_code in (200, 400, 404, 409, 413), (words, answer.text)
        if answer.status_code != 200:
            error: dict[str, Any] = answer.json()["error"]
            assert error["kind"] in ("arguments", "not found", "form", "paused", "size"), words
            assert error["message"], words
            assert error["message"].count("\n") == 0, (words, error["message"])
        if name == "pause":
            asker.call("commands/resume", {"arguments": ["resume"]})


@pytest.mark.parametrize(
    "body",
    [
        {"event": "UserPromptSubmit"},
        {"event": "Never"},
        {"event": "Stop", "turn": 7},
        {"event": "Stop", "turn": "t", "messages": "none"},
        {
            "event": "Stop",
            "turn": "t",
            "messages": [{"role": "user", "content": "x", "timestamp": "never"}],
        },
        {"event": "Stop", "turn": "t", "messages": [{"role": "user", "content": " "}]},
        {"event": "SessionStart", "chars": -1},
        {"event": "SessionStart", "folder": "f" * 5_000},
        {"event": "SessionStart", "context_since": "x"},
        {"event": "SessionStart", "no_such": 1},
        {},
    ],
)
def test_a_wrong_hook_is_never_a_failure_of_the_server(asker: Asker, body: dict[str, Any]) -> None:
    answer = asker.call("commands/hook", body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"].count("\n") == 0


def test_a_change_of_many_steps_is_shown_up_to_a_bound(asker: Asker) -> None:
    chat = "".join(f"user: letter {number}\nassistant: ok\n" for number in range(150))
    imported = ["import", "-", "--format", "chat", "-c", "many"]
    assert (
        asker.call("commands/import", {"arguments": imported, "input": chat}).json()["status"] == 0
    )

    def shown(*words: str) -> str:
        answer = asker.call("commands/history", {"arguments": ["history", "-c", "many", *words]})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["output"])

    steps = json.loads(shown("--json", "--steps", "1000"))["steps"]
    assert len(steps) == 150
    history = json.loads(shown("--json"))
    assert (history["steps"], history["moreSteps"]) == (steps[:100], 50)
    assert "and 50 more" in shown()
    assert json.loads(shown("--json", "--limit", "1000"))["moreSteps"] == 130, (
        "all changes together have a bound"
    )
    refused = asker.call("commands/history", {"arguments": ["history", "--steps", "1001"]})
    assert refused.status_code == 400
    change = history["change"]
    undone = asker.call("commands/undo", {"arguments": ["undo", change, "-c", "many"]}).json()[
        "output"
    ]
    assert undone.count("letter") == 100
    assert "and 50 more" in undone


@pytest.mark.anyio
async def test_what_a_command_prints_is_laid_out_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    write = streams.CapturedStream.write

    def noted(self: streams.CapturedStream, printed: str) -> int:
        threads.add(threading.current_thread().name)
        return write(self, printed)

    async with App(Settings(data_dir=tmp_path)) as app:
        await app.conversation("c").short_term.add([Message("user", "my cat is Miso")])
        monkeypatch.setattr(streams.CapturedStream, "write", noted)
        for name in ("list", "history"):
            for more in ([], ["--json"]):
                answer = await remote_commands.run(
                    app, parsed, name, {"arguments": [name, "-c", "c", *more]}, Principal(None, ALL)
                )
                assert "Miso" in answer["output"]
    assert threads
    assert threading.current_thread().name not in threads
