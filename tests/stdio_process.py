"""A server process as a client made of lines meets it. Every wait is bounded."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from forked_programs import start

PATIENCE = 60.0
"""Seconds for an answer, on a machine that others use too."""
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "lines", "version": "1"},
}


_SERVER = (sys.executable, "-P", "-m", "memory_server")


def request(id_: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method} | ({"params": params} if params else {})


def tool(id_: Any, name: str, /, **arguments: Any) -> dict[str, Any]:
    return request(id_, "tools/call", name=name, arguments=arguments)


def as_line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


class Client:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin = process.stdin
        self.stdout = process.stdout
        self._rest = b""

    def send(self, *messages: Any) -> None:
        self.write(b"".join(as_line(message) for message in messages))

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def connect(self) -> Client:
        self.send(request("initialize", "initialize", **INITIALIZE))
        assert self.read()["id"] == "initialize"
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def ask(self, id_: Any, method: str, **params: Any) -> dict[str, Any]:
        self.send(request(id_, method, **params))
        answer = self.read()
        assert answer["id"] == id_
        return answer

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        self.send(tool("call", name, **arguments))
        answer = self.read()
        assert answer["id"] == "call"
        result: dict[str, Any] = answer["result"]
        assert not result["isError"], result
        return result["structuredContent"]  # type: ignore[no-any-return]

    def read(self) -> Any:
        """The next line."""
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.stdout], [], [], PATIENCE)
            assert ready, "no answer"
            data = os.read(self.stdout.fileno(), 1 << 20)
            assert data, "the server has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def rest(self) -> list[Any]:
        """All that comes until the server ends its output."""
        data = self._rest
        self._rest = b""
        is_open = True
        while is_open:
            ready, _, _ = select.select([self.stdout], [], [], PATIENCE)
            assert ready, "the server does not end"
            piece = os.read(self.stdout.fileno(), 1 << 20)
            is_open = piece != b""
            data += piece
        assert data.endswith(b"\n") or not data, "the last line is whole"
        return [json.loads(line) for line in data.splitlines()]

    def ended(self) -> float:
        """Seconds until the process is gone."""
        began = time.monotonic()
        self.process.wait(PATIENCE)
        return time.monotonic() - began


def command(data_dir: Path, *flags: str) -> list[str]:
    return [*_SERVER, "--data-dir", str(data_dir), *flags]


@contextmanager
def running(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[Client]:
    """A client of this process. A server that `command` names is forked, see forked_programs.py, and so is the process
    that its windows share: the imports of either would take 1.3 s."""
    pipe = subprocess.PIPE
    pipes = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "env": os.environ | (environment or {})}
    process: subprocess.Popen[bytes]
    if tuple(arguments[: len(_SERVER)]) == _SERVER:
        process = start(arguments[len(_SERVER) :], **pipes)
    else:
        process = subprocess.Popen(arguments, **pipes)  # type: ignore[call-overload]
    with process:
        try:
            yield Client(process)
        finally:
            process.kill()
            if process.stdin is not None:
                # What was not sent is not sent any more.
                with suppress(BrokenPipeError):
                    process.stdin.close()
