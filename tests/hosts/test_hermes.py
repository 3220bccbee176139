"""The provider in the real Hermes, with a scripted model on loopback: its command, and its server with two users."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from hosts.astrbot_process import MEMORY, free_port
from hosts.environments import environment, install_adapter
from hosts.scripted_model import Model, ToolCall, results_of, scripted_model, tools_of

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("shared")]
VERSION = "0.19.0"
SECRET = "我的牙医叫林小满，在朝阳门"
ASK = "朝阳门那个牙医叫什么？"
FIRST = "你好，我们开始吧"
PATIENCE = 180.0


class Hermes:
    def __init__(self, root: Path, model: Model) -> None:
        self.env = environment("hermes-agent", VERSION, "aiohttp")  # which its API server needs
        self.home = root / "hermes"
        self.key = "k" * 32
        (self.home / "plugins").mkdir(parents=True)
        install_adapter("hermes", self.home / "plugins" / "memory_server")
        settings: dict[str, Any] = {
            "model": {
                "provider": "custom",
                "default": "scripted",
                "base_url": model.url,
                "api_key": "x",
            },
            "memory": {"provider": "memory_server"},
        }
        (self.home / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
        self.set(command=f"{MEMORY} --data-dir {root / 'memory'}")
        self.root = root

    def set(self, **settings: str) -> None:
        (self.home / "memory_server.json").write_text(json.dumps({"seconds": "7", **settings}))

    def _started(self, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        environ = {**os.environ, **variables, "HERMES_HOME": str(self.home), "HOME": str(self.root)}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        log = (self.root / "log").open("ab")
        with log:
            return subprocess.Popen(
                [str(self.env / "bin" / "hermes"), *words],
                cwd=self.root,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def says(self, text: str) -> None:
        """One message in a session and a process of its own."""
        process = self._started("chat", "-Q", "-q", text)
        assert process.wait(PATIENCE) == 0, self.said()

    @contextmanager
    def serving(self) -> Iterator[str]:
        port = free_port()
        at = {
            "API_SERVER_ENABLED": "true",
            "API_SERVER_HOST": "127.0.0.1",
            "API_SERVER_PORT": str(port),
        }
        process = self._started("gateway", "run", API_SERVER_KEY=self.key, **at)
        url = f"http://127.0.0.1:{port}"
        end = time.monotonic() + PATIENCE
        try:
            while not _answers(f"{url}/health"):
                assert process.poll() is None, self.said()
                assert time.monotonic() < end, self.said()
                time.sleep(0.1)
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)

    def said(self) -> str:
        return (self.root / "log").read_text("utf-8", "replace")[-5_000:]


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def model() -> Iterator[Model]:
    with scripted_model() as model:
        yield model


def test_what_one_process_was_told_comes_in_the_next_one(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "MEMORY_SERVER_DAEMON__IDLE_MINUTES", "10"
    )  # longer than Hermes takes to start
    hermes = Hermes(tmp_path, model)
    hermes.says(SECRET)
    for number in range(3):  # on a machine with much to do, a recall may be late
        hermes.says(f"{ASK}第{number}次问")
        if "林小满" in model.block(f"{ASK}第{number}次问"):
            return
    pytest.fail(hermes.said())


def test_two_users_with_the_same_first_words_are_apart(tmp_path: Path, model: Model) -> None:
    hermes = Hermes(tmp_path, model)
    with hermes.serving() as url:

        def block_for(text: str, key: str, *earlier: str) -> str:
            """What came from the memory to the last of these messages of one chat."""
            messages = []
            for question in earlier:
                messages.append({"role": "user", "content": question})
                messages.append({"role": "assistant", "content": "好的。"})
            messages.append({"role": "user", "content": text})
            headers = {"Authorization": f"Bearer {hermes.key}"}
            if key:
                headers["X-Hermes-Session-Key"] = key
            body = {"model": "hermes-agent", "messages": messages}
            answer = httpx.post(
                f"{url}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE
            )
            assert answer.status_code == 200, answer.text
            return model.block(text)

        block_for(FIRST, "alice")
        block_for(SECRET, "alice", FIRST)
        block_for(FIRST, "bob")
        block_for(f"{SECRET}，没有名字", "", FIRST)
        end = time.monotonic() + PATIENCE
        while "林小满" not in block_for(ASK, "alice", "换个话题"):
            assert time.monotonic() < end, hermes.said()
        assert "林小满" not in block_for(f"{ASK}我是鲍勃", "bob", "换个话题")
        assert "林小满" not in block_for(f"{ASK}我没有名字", "", "换个话题")
        assert "没有名字" not in block_for(f"{ASK}是我", "alice", "再换个话题")


RECITAL = "弹肖邦的夜曲，手一直抖，最后还是弹完了"
NERVOUS = "明天有点紧张。"


def _names_other_words(request: dict[str, Any]) -> str | ToolCall:
    """The model calls the tool `recall` once, where it has it and the user is nervous."""
    last_message = json.dumps(request["messages"][-1], ensure_ascii=False)
    if "recall" in tools_of(request) and NERVOUS in last_message:
        return ToolCall("recall", {"otherWords": ["钢琴", "演出", "肖邦", "夜曲"]})
    return "好的。"


def test_the_model_recalls_once_more_with_words_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "MEMORY_SERVER_DAEMON__IDLE_MINUTES", "10"
    )  # longer than Hermes takes to start
    with scripted_model(_names_other_words) as model:
        hermes = Hermes(tmp_path, model)
        hermes.says(RECITAL)
        for number in range(3):  # on a machine with much to do, a recall may be late
            hermes.says(f"{NERVOUS}第{number}次说")
            assert model.block(f"{NERVOUS}第{number}次说") == ""
            if any(RECITAL in str(results_of(request)) for request in model.requests):
                break
        else:
            pytest.fail(hermes.said())
        hermes.set(command=f"{MEMORY} --data-dir {tmp_path / 'memory'}", recall_tool="no")
        hermes.says(f"{NERVOUS}再说")
        assert not any(
            "recall" in tools_of(request)
            for request in model.requests
            if f"{NERVOUS}再说" in str(request)
        )
        with_tool = [request for request in model.requests if "recall" in tools_of(request)]
        assert with_tool, "it was there before"


def test_hermes_goes_on_without_the_memory(tmp_path: Path, model: Model) -> None:
    hermes = Hermes(tmp_path, model)
    hermes.set(command="no-such-command-here")
    hermes.says(ASK)
    assert model.block(ASK) == ""
