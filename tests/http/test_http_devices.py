"""Several devices of one person: what one was told another finds at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from http_server import ERAS, Asker, give, said, serving

FACT = said("The garage code is 7741.")
QUESTION = said("What is the garage code?")


@pytest.mark.parametrize("era", [*ERAS, None])
def test_what_the_phone_was_told_the_laptop_finds_at_once(tmp_path: Path, era: str | None) -> None:
    folder = tmp_path / "data"
    tokens = {name: give(folder, name, "--tenant", "alice") for name in ("phone", "laptop")}
    with serving(folder) as server:

        def turn(
            device: str, tool: str, arguments: dict[str, Any], **headers: str
        ) -> dict[str, Any]:
            asker = Asker(server.url, tokens[device])
            if era is None:
                return dict(asker.call(tool, arguments, **headers).json())
            params = {"name": tool, "arguments": arguments}
            result = asker.mcp(era, "tools/call", params, **headers).json()["result"]
            return dict(result["structuredContent"]) | {"shown": result["content"][0]["text"]}

        assert turn("phone", "remember_turn", FACT)["stored"]
        assert "7741" in turn("laptop", "recall_turn", QUESTION)["prompt"]
        own_answer = turn("phone", "recall_turn", QUESTION)
        assert (own_answer["prompt"], own_answer["shortTerm"]["heldBack"]["tooRecent"]) == ("", 1)
        if era is not None:
            assert "held back" in own_answer["shown"]
            assert "Nothing came" not in own_answer["shown"]
        # Two chats with one token are two sessions where they say so.
        session_name = quote("厨房")
        assert (
            "7741"
            in turn("phone", "recall_turn", QUESTION, x_memory_session=session_name)["prompt"]
        )
        in_kitchen = turn(
            "phone", "recall_turn", QUESTION | {"session": "kitchen"}, x_memory_session="phone"
        )
        assert "7741" in in_kitchen["prompt"]
        assert not turn("laptop", "recall_turn", QUESTION | {"session": "phone"})["prompt"]


@pytest.mark.parametrize("header", ["%FF", "%0A", quote("长" * 300), ""])
def test_a_session_that_cannot_be_used_is_refused(tmp_path: Path, header: str) -> None:
    folder = tmp_path / "data"
    token = give(folder, "phone")
    with serving(folder) as server:
        refused = Asker(server.url, token).call("remember_turn", FACT, x_memory_session=header)
        assert refused.status_code == 400, refused.text
        assert "X-Memory-Session" in refused.json()["error"]["message"]
        assert not Asker(server.url, token).done("get_memory_stats")["total"]
