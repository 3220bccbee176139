"""AstrBot as a process on loopback, with the scripted model and a chat program that speaks OneBot."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hosts.environments import environment, install_adapter
from hosts.scripted_model import Model

VERSION = "4.14.6"
PLUGIN = "astrbot_plugin_memory_server"
STARTED = "AstrBot 启动完成"
START_SECONDS = 600


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class AstrBot:
    """A bot in the folder `root`; `port` is that of the chat program."""

    def __init__(self, root: Path, model: Model) -> None:
        self._env = environment("astrbot", VERSION)
        self.root = root
        self.port = free_port()
        self.log = root / "log"
        self._dashboard = free_port()
        data = root / "data"
        (data / "dist" / "assets").mkdir(parents=True)
        (root / ".astrbot").touch()
        (data / "dist" / "assets" / "version").write_text(f"v{VERSION}")
        (data / "plugins").mkdir()
        (data / "config").mkdir()
        self._write("cmd_config.json", _settings(model, self.port, self._dashboard))

    def add_plugin(self, **settings: Any) -> None:
        install_adapter("astrbot", self.root / "data" / "plugins" / PLUGIN)
        self.set(**settings)

    def set(self, **settings: Any) -> None:
        """Settings of the plugin, which count from its next start on; the others are the usual ones."""
        schema = json.loads(
            (self.root / "data" / "plugins" / PLUGIN / "_conf_schema.json").read_text("utf-8")
        )
        usual = {key: field["default"] for key, field in schema.items()}
        self._write(f"config/{PLUGIN}_config.json", usual | settings)

    def _write(self, name: str, value: Any) -> None:
        (self.root / "data" / name).write_text(json.dumps(value, ensure_ascii=False), "utf-8-sig")

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        # Without settings of this test's own process: its language, and that nothing is shared.
        command = [str(self._env / "bin" / "astrbot"), "run", "-p", str(self._dashboard)]
        variables = {
            **os.environ,
            "HOME": str(self.root),
            "ASTRBOT_ROOT": str(self.root),
            "LANGUAGE": "zh",
        }
        variables.pop(
            "PYTHONDONTWRITEBYTECODE", None
        )  # each command would compile the memory again
        with self.log.open("ab") as log:
            begin = log.tell()
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            end = time.monotonic() + START_SECONDS
            while STARTED not in self.said(begin):
                assert process.poll() is None, self.said(begin)
                assert time.monotonic() < end, self.said(begin)
                time.sleep(0.05)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)

    def said(self, begin: int = 0) -> str:
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[begin:].decode("utf-8", "replace")


def _settings(model: Model, port: int, dashboard: int) -> dict[str, Any]:
    source = {
        "id": "s1",
        "provider": "openai",
        "type": "openai_chat_completion",
        "provider_type": "chat_completion",
        "enable": True,
        "key": ["x"],
        "api_base": model.url,
        "timeout": 30,
        "custom_headers": {},
    }
    provider = {
        "id": "s1/scripted",
        "enable": True,
        "provider_source_id": "s1",
        "model": "scripted",
        "modalities": ["text", "tool_use"],
        "custom_extra_body": {},
        "max_context_tokens": 0,
    }
    chat = {
        "id": "qq",
        "type": "aiocqhttp",
        "enable": True,
        "ws_reverse_host": "127.0.0.1",
        "ws_reverse_port": port,
        "ws_reverse_token": "",
    }
    return {
        "provider_sources": [source],
        "provider": [provider],
        "provider_settings": {"default_provider_id": "s1/scripted"},
        "platform": [chat],
        "platform_settings": {"rate_limit": {"time": 60, "count": 100_000, "strategy": "stall"}},
        "dashboard": {
            "enable": True,
            "host": "127.0.0.1",
            "port": dashboard,
            "username": "astrbot",
        },
        "admins_id": ["10001"],
    }


MEMORY = f"{sys.executable} -m memory_server --timezone Asia/Shanghai"
"""The command of the memory, as the plugin runs it."""
