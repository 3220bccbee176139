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
