"""The toolset `sessions` over HTTP: headers name the user of each request, in both protocol eras and over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from http_server import ERAS, TOKEN, Asker, serving


@pytest.mark.parametrize("era", [*ERAS, None])
def test_headers_name_the_user_of_each_request(tmp_path: Path, era: str | None) -> None:
    with serving(tmp_path / "data", "--toolsets", "sessions", http__token=TOKEN) as server:
        asker = Asker(server.url)

        def called(tool: str, headers: dict[str, str], **arguments: Any) -> dict[str, Any]:
            if era is None:
                response = asker.call(tool, arguments, **headers)
                assert response.status_code in (200, 400, 422), response.text
                return dict(response.json())
            params = {"name": tool, "arguments": arguments}
            result = asker.mcp(era, "tools/call", params, **headers).json()["result"]
            return dict(result.get("structuredContent") or result)

        ming = {"x_memory_user_id": quote("小明"), "x_memory_session_metadata": '{"channel": "phone"}'}
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


@pytest.mark.parametrize("transport", ["2025-11-25", "2026-07-28", "REST"])
def test_each_id_comes_from_the_first_source_of_its_transport(tmp_path: Path, transport: str) -> None:
    """The column of the table in docs/how-to/memory-for-several-users.md; `test_callers.py` has all mixes of sources,
    and `test_sessions.py` what holds over standard input."""
    settings = {f"sessions__{field}": f"setting-{field}" for field in FIELDS}
    with serving(tmp_path / "data", "--toolsets", "sessions", http__token=TOKEN, **settings) as server:
        asker = Asker(server.url)
        for field in FIELDS:
            for sources in (("setting",), ("header", "setting"), ("argument", "setting"), ("argument", "header")):
                # A user of a stronger source does not inherit the agent of the settings, so all name the same one.
                users = {"user_id": "setting-user_id"} if field != "user_id" else {}
                arguments = users | ({field: f"argument-{field}"} if "argument" in sources else {})
                headers = {f"x_memory_{field}": f"header-{field}"} if "header" in sources else {}
                if transport == "REST":
                    session = asker.call("memory_get_stats", arguments, **headers).json()["session"]
                else:
                    params = {"name": "memory_get_stats", "arguments": arguments}
                    answer = asker.mcp(transport, "tools/call", params, **headers).json()["result"]
                    session = answer["structuredContent"]["session"]
                assert (session[field], session["sources"][field]) == (f"{sources[0]}-{field}", sources[0])
