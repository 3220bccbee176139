"""A fault of ours is named in the log at each face: by its exception, file and line, and the id that the answer has."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from web_page import opened, remember

from memory_server import open_memory
from memory_server.cli.parser import main
from memory_server.kernel.failures import failure_text
from memory_server.runtime.app import App
from memory_server.serving import resources
from memory_server.serving.http.middleware import LOOPBACK, Middleware
from memory_server.serving.http.principals import ALL, Principal
from memory_server.serving.server import build_server
from memory_server.web.speech import Speech

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere")]
TURN = {"messages": [{"role": "user", "content": "My cat is called Miso."}]}


def fail(*_arguments: object, **_named: object) -> Any:
    raise ZeroDivisionError("a fault of ours")


async def failed_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    async with opened(folder) as page:
        await remember(page.app, "My cat is called Miso.")
        monkeypatch.setattr(Speech, "date", fail)
        answer = await page.client.get("/history", params={"lang": "en"})
        assert answer.status_code == 500
        return answer.text


async def failed_tool(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    async with open_memory(folder) as app, Client(build_server(lambda _: app.call)) as client:
        monkeypatch.setattr(app.conversations, "get", fail)
        answer = await client.call_tool("remember_turn", TURN)
        assert answer.is_error
        return str(answer.content)


async def failed_resource(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    async with open_memory(folder) as app, Client(build_server(lambda _: app.call)) as client:
        monkeypatch.setattr(resources, "read", fail)
        with pytest.raises(MCPError) as raised:
            await client.read_resource("memory://conversations")
        return str(raised.value)


async def failed_request(_folder: Path, _monkeypatch: pytest.MonkeyPatch) -> str:
    async def enter(_token: str | None) -> Principal:
        return Principal(None, ALL)

    middleware = Middleware(fail, enter, {}, ("/healthz",), LOOPBACK, ())
    transport = httpx.ASGITransport(app=middleware)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/healthz")
        assert answer.status_code == 500
        return answer.text


@pytest.mark.parametrize("face", [failed_page, failed_tool, failed_resource, failed_request])
async def test_a_failed_request_is_named_in_the_log_under_the_id_that_its_answer_has(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    face: Callable[[Path, pytest.MonkeyPatch], Awaitable[str]],
) -> None:
    caplog.set_level(logging.INFO)
    answer = await face(tmp_path / "data", monkeypatch)
    [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    request = re.search(
        r"request ([0-9a-f]{8}): ZeroDivisionError: a fault of ours \(\S+\.(?:py|html):\d+\)", line
    )
    assert request is not None, line
    assert request[1] in answer
    assert "a fault of ours" not in answer, "who asks is not told what is inside"


def test_a_command_that_fails_inside_says_what_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(App, "conversation", fail)
    assert main(["list", "-c", "a", "--data-dir", str(tmp_path / "data")]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(
        r"failed inside the program: ZeroDivisionError: a fault of ours \(memory_server/\S+:\d+\)",
        line,
    )


def test_an_error_of_a_template_is_placed_in_the_template() -> None:
    from jinja2 import UndefinedError

    from memory_server.web.view import render

    with pytest.raises(UndefinedError) as raised:
        render("en", "stranger.html", {})
    assert re.search(
        r"^UndefinedError: .* \(memory_server/web/templates/stranger\.html:\d+\)$",
        failure_text(raised.value),
    )


def test_an_error_that_was_not_raised_has_no_place() -> None:
    assert failure_text(ValueError("a\n  b")) == "ValueError: a b"
    assert failure_text(TimeoutError()) == "TimeoutError"
