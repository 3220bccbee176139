"""The toolset `sessions` over HTTP: headers name the user of each request, in both protocol eras and over REST, and no
user or tenant ever sees anything of another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from http_server import ERAS, TOKEN, Asker, Server, give, serving
from users_apart import Said, World

from memory_server.tools.base.tool import ToolFailed

ACCESSES = (*ERAS, None)


@pytest.fixture(scope="module")
def askers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str | None, Asker]]:
    """One server, and a tenant of it for each way to ask."""
    folder = tmp_path_factory.mktemp("headers") / "data"
    tokens = {era: give(folder, f"{era}", "--tenant", f"{era}") for era in ACCESSES}
    with serving(folder, "--toolsets", "sessions", ready=False) as server:
        yield {era: Asker(server.url, token) for era, token in tokens.items()}


@pytest.mark.parametrize("era", ACCESSES)
def test_headers_name_the_user_of_each_request(
    askers: dict[str | None, Asker], era: str | None
) -> None:
    asker = askers[era]

    def called(tool: str, headers: dict[str, str], **arguments: Any) -> dict[str, Any]:
        if era is None:
            response = asker.call(tool, arguments, **headers)
            assert response.status_code in (200, 400, 422), response.text
            return dict(response.json())
        params = {"name": tool, "arguments": arguments}
        result = asker.mcp(era, "tools/call", params, **headers).json()["result"]
        return dict(result.get("structuredContent") or result)

    ming = {
        "x_memory_user_id": quote("小明"),
        "x_memory_session_metadata": '{"channel": "phone"}',
    }
    added = called("memory_add", ming, messages="对花生过敏")
    assert added["session"] == {
        "user_id": "小明",
        "sources": {"user_id": "header"},
        "metadata": {"channel": "phone"},
    }
    assert called("memory_search", ming, query="花生")["total"] == 1
    assert called("memory_search", {"x_memory_user_id": "bob"}, query="花生")["total"] == 0
    assert called("memory_search", {}, query="花生")["session"]["user_id"] == "default_user"
    refused = called("memory_init_session", {}, user_id="小明")
    assert "Connections do not last here; send X-Memory-User-ID" in str(refused)
    assert called("memory_search", {}, query="花生")["total"] == 0, "nobody else's session"
    wrong = asker.call("memory_search", {"query": "x"}, x_memory_user_id="%FF")
    assert wrong.status_code == 400
    assert "x-memory-user-id is not UTF-8" in wrong.text


FIELDS = ("user_id", "agent_id", "run_id")


@pytest.fixture(scope="module")
def with_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """A server whose settings name all ids."""
    settings = {f"sessions__{field}": f"setting-{field}" for field in FIELDS}
    folder = tmp_path_factory.mktemp("ids") / "data"
    with serving(
        folder, "--toolsets", "sessions", ready=False, http__token=TOKEN, **settings
    ) as server:
        yield Asker(server.url)


@pytest.mark.parametrize("transport", ["2025-11-25", "2026-07-28", "REST"])
def test_each_id_comes_from_the_first_source_of_its_transport(
    with_settings: Asker, transport: str
) -> None:
    """The column of the table in docs/how-to/memory-for-several-users.md; `test_session_ids.py` has all mixes of
    sources, and `test_sessions.py` what holds over standard input."""
    asker = with_settings
    for field in FIELDS:
        for sources in (
            ("setting",),
            ("header", "setting"),
            ("argument", "setting"),
            ("argument", "header"),
        ):
            # A user of a stronger source does not inherit the agent of the settings, so all name the same one.
            arguments = {"user_id": "setting-user_id"} if field != "user_id" else {}
            if "argument" in sources:
                arguments[field] = f"argument-{field}"
            headers = {f"x_memory_{field}": f"header-{field}"} if "header" in sources else {}
            if transport == "REST":
                session = asker.call("memory_get_stats", arguments, **headers).json()["session"]
            else:
                params = {"name": "memory_get_stats", "arguments": arguments}
                answer = asker.mcp(transport, "tools/call", params, **headers).json()["result"]
                session = answer["structuredContent"]["session"]
            assert (session[field], session["sources"][field]) == (
                f"{sources[0]}-{field}",
                sources[0],
            )


def said_over(server: Server, token: str, rng: Random) -> Said:
    """Calls over REST or in one of the eras, with the ids as headers, as arguments, or some as each."""
    asker = Asker(server.url, token)

    async def tell(tool: str, **arguments: Any) -> dict[str, Any]:
        headers = {
            f"x_memory_{name}": quote(arguments.pop(name))
            for name in ("user_id", "agent_id", "run_id")
            if arguments.get(name) and rng.random() < 0.5
        }
        era = rng.choice([*ERAS, None])
        if era is None:
            response = asker.call(tool, arguments, **headers)
            if response.status_code != 200:
                raise ToolFailed(response.json()["error"]["message"])
            return dict(response.json())
        answer = asker.mcp(
            era, "tools/call", {"name": tool, "arguments": arguments}, **headers
        ).json()
        if "error" in answer or answer["result"].get("isError"):
            failed = answer.get("error") or answer["result"]["content"][0]
            raise ToolFailed(failed.get("message") or failed["text"])
        return dict(answer["result"]["structuredContent"])

    return tell


@pytest.fixture
def tokens(tmp_path: Path) -> list[str]:
    """Those of two tenants; made here, because the command runs a loop of its own."""
    return [give(tmp_path / "data", name, "--tenant", name) for name in ("A", "B")]


@pytest.mark.anyio
@pytest.mark.parametrize("calls", [150, pytest.param(5_000, marks=pytest.mark.full)])
async def test_no_call_shows_anything_of_another_user_or_tenant(
    tmp_path: Path, tokens: list[str], calls: int
) -> None:
    folder = tmp_path / "data"
    rng = Random(calls)
    often = {"http__requests_per_minute": "6000000", "knowledge__durability": "normal"}
    with serving(folder, "--toolsets", "sessions", ready=False, **often) as server:
        worlds = [
            World(said_over(server, token, rng), n, lasts=False) for n, token in enumerate(tokens)
        ]
        while sum(world.calls for world in worlds) < calls:
            await rng.choice(worlds).step()
    assert [world.leaks for world in worlds] == [[], []]
    assert all(len(world.held) > 5 for world in worlds), (
        "users of the same name in both tenants have something"
    )
