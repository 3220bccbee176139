"""A server over HTTP in a process of its own, and the ways to ask it: REST and both protocol eras. Every wait is
bounded, and a server is ended by its id."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from cli_program import in_process
from forked_programs import start

PATIENCE = 60.0
TOKEN = "t" * 40
MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
ERAS = (MODERN, HANDSHAKE)


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    url: str
    log: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def said(self) -> str:
        return self.log.read_text("utf-8")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit status after a signal."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextmanager
def serving(folder: Path, *arguments: str, ready: bool = True, **settings: str) -> Iterator[Server]:
    """A server on `folder`, with settings as `http__token="…"`."""
    variables = {f"MEMORY_SERVER_{name.upper()}": value for name, value in settings.items()}
    log = folder.with_name(f"{folder.name}-{time.monotonic_ns()}.log")
    words = ["serve", "--http", "0", "--data-dir", folder, *arguments]
    with log.open("wb") as errors:
        process = start(words, stderr=errors, env={**os.environ, **variables}, cwd=folder.parent)
    try:
        deadline = time.monotonic() + PATIENCE
        address = _address_in(log)
        while address is None:
            assert process.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < deadline
            time.sleep(0.02)
            address = _address_in(log)
        server = Server(process, address, log)
        while ready and httpx.get(f"{server.url}/readyz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)


def _address_in(log: Path) -> str | None:
    """The address that a server has written to its log."""
    address = re.search(r"http://\S+:\d+(?=/mcp)", log.read_text("utf-8"))
    return None if address is None else address[0]


def give(folder: Path, name: str, *arguments: str) -> str:
    """A new token, as the command prints it."""
    status, out, err = in_process("tokens", "add", name, "--data-dir", str(folder), *arguments)
    assert status == 0, err
    return out.strip()


def take_back(folder: Path, name: str) -> None:
    status, _, err = in_process("tokens", "remove", name, "--data-dir", str(folder))
    assert status == 0, err


class Asker:
    """A client with one token, which asks one thing after the other."""

    def __init__(self, url: str, token: str | None = TOKEN) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        # Each request has a connection of its own: otherwise one could meet the end that the server makes after 5 s.
        limits = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, limits=limits)

    def __del__(self) -> None:
        self.http.close()

    def call(self, tool: str, arguments: Any = None, **headers: str) -> httpx.Response:
        """`POST /v1/{tool}`; headers with underscores."""
        named_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(f"/v1/{tool}", json=arguments or {}, headers=named_headers)

    def done(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of a call that must work."""
        response = self.call(tool, arguments)
        assert response.status_code == 200, response.text
        result: dict[str, Any] = response.json()
        return result

    def mcp(
        self, era: str, method: str, params: Mapping[str, Any] | None = None, **headers: str
    ) -> httpx.Response:
        """A request of this era on `POST /mcp`."""
        body: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": dict(params or {}),
        }
        sent_headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": era,
        }
        if era == MODERN:
            body["params"]["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": era,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "asker", "version": "1"},
            }
            sent_headers["mcp-method"] = method
            name = body["params"].get("name") or body["params"].get("uri")
            if name is not None:
                sent_headers["mcp-name"] = name
        sent_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent_headers["content-type"] = "application/json"
        return self.http.post("/mcp", content=json.dumps(body), headers=sent_headers)

    def tool(self, era: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of `tools/call`."""
        result: dict[str, Any] = self.mcp(
            era, "tools/call", {"name": tool, "arguments": arguments}
        ).json()["result"]
        return result


def listening(server: Server, token: str = TOKEN, *uris: str) -> socket.socket:
    """A connection with an open `subscriptions/listen`."""
    asker = Asker(server.url, token)
    request = asker.http.build_request("POST", "/mcp")
    params = {"notifications": {"resourceSubscriptions": uris or ["memory://stats/overview"]}}
    body: list[bytes] = []

    def catch(sent: httpx.Request) -> httpx.Response:
        body.append(sent.content)
        request.headers.update(sent.headers)
        return httpx.Response(200, json={})

    asker.http = httpx.Client(
        base_url=server.url, transport=httpx.MockTransport(catch), headers=asker.http.headers
    )
    asker.mcp(MODERN, "subscriptions/listen", params)
    connection = socket.create_connection(("127.0.0.1", server.port), 10)
    lines = [
        f"{name}: {value}" for name, value in request.headers.items() if name != "content-length"
    ]
    head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, f"content-length: {len(body[0])}", "", ""])
    connection.sendall(head.encode() + body[0])
    answer = b""
    while b"acknowledged" not in answer and b'"error"' not in answer:
        answer += connection.recv(65_536)
    if b'"error"' in answer:
        connection.close()
        pytest.fail(answer.decode())
    return connection


def said(text: str) -> dict[str, Any]:
    """Arguments that add this."""
    return {"messages": [{"role": "user", "content": text}]}
