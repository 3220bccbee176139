"""300 secrets come in through hooks, imports, failing calls, a crash and an export: no byte on the disk has one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from command_outcome import Outcome
from forked_programs import run as run_program

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
HEX = "0123456789abcdef"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
KINDS: list[tuple[str, Callable[[Callable[..., str]], str]]] = [
    ("{}", lambda chars: "ghp_" + chars(36)),
    ("{}", lambda chars: "github_pat_" + chars(82)),
    ("{}", lambda chars: "AKIA" + chars(16, UPPER)),
    ("aws_secret_access_key = {}", lambda chars: chars(40)),
    ("{}", lambda chars: "AIza" + chars(35)),
    ("{}", lambda chars: "glpat" + "-" + chars(20)),
    ("{}", lambda chars: "ATBB" + chars(32)),
    ("{}", lambda chars: "sk-ant-api03-" + chars(93)),
    ("{}", lambda chars: "sk-proj-" + chars(60)),
    ("{}", lambda chars: "hf_" + chars(34)),
    ("{}", lambda chars: "xoxb" + "-123456789012-" + chars(24)),
    ("https://hooks.slack.com/services/{}", lambda chars: "T0AB12CD3/B0AB12CD3/" + chars(24)),
    ("{}", lambda chars: "sk_live_" + chars(24)),
    ("{}", lambda chars: f"SG.{chars(22)}.{chars(43)}"),
    ("{}", lambda chars: "key-" + chars(32, HEX)),
    ("{}", lambda chars: "npm_" + chars(36)),
    ("{}", lambda chars: "pypi-AgEIcHlwaS5vcmc" + chars(140)),
    ("{}", lambda chars: "dop_v1_" + chars(64, HEX)),
    ("{}", lambda chars: "4839574812:AA" + chars(33)),
    ("{}", lambda chars: "LTAI" + chars(20)),
    ("{}", lambda chars: "AKID" + chars(32)),
    ("Authorization: Bearer {}", lambda chars: chars(40)),
    ("postgres://app:{}@db.local:5432/x", lambda chars: chars(14)),
    ("machine api.example.org login joe password {}", lambda chars: chars(14)),
    ("Cookie: sessionid={}; theme=dark", lambda chars: chars(32)),
    ("DB_PASSWORD={}", lambda chars: chars(14)),
    ("API_KEY={}", lambda chars: chars(20)),
    ("密码：{}", lambda chars: chars(12)),
    ("mysql --password {} -h db", lambda chars: chars(14)),
    ("AccountName=a;AccountKey={};EndpointSuffix=core", lambda chars: chars(86) + "=="),
]
"""The words around a secret of each of 30 kinds, and how one is made: put together here, so that no scanner takes this
file for a leak."""


class Leaks:
    """A home with a temporary folder of its own, and the secrets that come into it."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        self.inputs = folder / "inputs"
        for path in (self.project / ".git", self.inputs, folder / "tmp", folder / "run"):
            path.mkdir(parents=True, mode=0o700)
        random = Random(59)

        def chars(count: int, alphabet: str = LETTERS) -> str:
            end = "A7" if alphabet == UPPER else "a7"
            return "".join(random.choice(alphabet) for _ in range(count - 2)) + end

        self.secrets: list[str] = []
        self.sentences: list[list[str]] = []
        """The sentences of each turn."""
        for _ in range(rounds):
            self.sentences.append([])
            for around, make in KINDS:
                secret = make(chars)
                self.secrets.append(secret)
                self.sentences[-1].append(f"We use\n{around.format(secret)}\nhere.")

    def run(self, *arguments: str, given: object = None) -> Outcome:
        text = "" if given is None else json.dumps(given)
        done = run_program(arguments, text.encode(), env=self.environment, cwd=self.project)
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "MEMORY_SERVER_DATA_DIR": str(self.home),
            "MEMORY_SERVER_DAEMON__ENABLED": "false",
        }

    def turn(self, number: int) -> dict[str, Any]:
        """The end of a turn whose words, command and output have the secrets."""
        sentences = self.sentences[number]
        text = "\n".join(sentences)
        command = {"command": "curl " + " ".join(sentences)}
        output = f"Exit code 22\nerror: {text}\nfatal: {text}"
        call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": command}
        result = {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": output,
            "is_error": True,
        }
        rows = []
        contents = (("user", text), ("assistant", [call]), ("user", [result]))
        for at, (role, content) in enumerate(contents, 1):
            rows.append(
                {
                    "type": role,
                    "uuid": f"{number}-{at}",
                    "sessionId": f"s{number}",
                    "promptId": f"p{number}",
                    "cwd": str(self.project),
                    "timestamp": f"2026-11-2{number % 9}T10:00:0{at}.000Z",
                    "message": {"role": role, "content": content},
                }
            )
        answer = {"role": "assistant", "content": [{"type": "text", "text": "Done: " + text}]}
        rows.append(rows[0] | {"type": "assistant", "uuid": f"{number}-9", "message": answer})
        path = self.inputs / f"s{number}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return {
            "hook_event_name": "Stop",
            "session_id": f"s{number}",
            "prompt_id": f"p{number}",
            "transcript_path": str(path),
            "cwd": str(self.project),
            "last_assistant_message": "Done: " + text,
        }

    def found(self) -> list[tuple[Path, str]]:
        """Which file has which secret in any of its bytes, in any case."""
        found: list[tuple[Path, str]] = []
        for path in self.folder.rglob("*"):
            if path.is_file() and self.inputs not in path.parents:
                data = path.read_bytes().lower()
                found += [(path, text) for text in self.secrets if text.lower().encode() in data]
        return found


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.full)])
def test_no_byte_on_the_disk_has_a_secret_that_came_in(tmp_path: Path, rounds: int) -> None:
    leaks = Leaks(tmp_path, rounds)
    for number in range(rounds):
        ended = leaks.turn(number)
        text = "\n".join(leaks.sentences[number])
        asked = ended | {"hook_event_name": "UserPromptSubmit", "prompt": text}
        assert leaks.run("hook", given=asked).status == 0
        assert "secrets were removed" in leaks.run("hook", given=ended).err
        broken = {"name": "x", "prompt": text, "trigger": f"({text}"}
        assert leaks.run("call", "add_long_term_memory", json.dumps(broken)).status
        failed = ended | {
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Bash",
            "tool_input": {"command": "curl " + text},
            "error": f"Exit code 22\n{text}",
        }
        assert leaks.run("hook", "--seconds", "5", given=failed).status == 0
    imported = leaks.run("import", str(leaks.inputs), "-c", "imported")
    assert imported.status == 0, imported.err
    assert leaks.run("export", str(tmp_path / "out.json")).status == 0
    assert leaks.run("export", str(tmp_path / "out.md"), "--format", "markdown").status in (
        0,
        2,
    )
    assert leaks.run("backup", "b").status == 0
    crash(leaks)
    held = b"".join(path.read_bytes() for path in leaks.home.rglob("*") if path.is_file())
    assert held.count(b"[removed: ") > 30 * rounds
    found = leaks.found()
    names = {(str(path.relative_to(tmp_path)), text) for path, text in found}
    assert names == set(), f"{len(names)} of {len(leaks.secrets)}: {names}"


def crash(leaks: Leaks) -> None:
    """End a process while it stores one secret after the other."""
    code = (
        "import anyio, json, sys\n"
        "from memory_server import App, Settings\n"
        "async def main():\n"
        "    async with App(Settings(data_dir=sys.argv[1])) as app:\n"
        "        for text in json.load(sys.stdin):\n"
        "            await app.conversation().short_term.add([{'role': 'user', 'content': text}])\n"
        "            print('.', flush=True)\n"
        "anyio.run(main)\n"
    )
    # Pairs of a name and a value count only where code is spoken about: a companion is told a password to keep it.
    texts = [text for turn in leaks.sentences for text in turn[:22]] * 20
    with subprocess.Popen(
        [sys.executable, "-c", code, str(leaks.home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=leaks.environment,
        cwd=leaks.project,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(texts).encode())
        process.stdin.close()
        for _ in range(15):
            process.stdout.readline()
        time.sleep(0.003)
        process.send_signal(signal.SIGKILL)
    assert leaks.run("list").status == 0
