"""Several devices of one person: what one was told another finds at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from http_server import ERAS, Asker, Server, give, said, serving

FACT = said("The garage code is 7741.")
QUESTION = said("What is the garage code?")


DEVICES = ("phone", "laptop")
ACCESSES = (*ERAS, None)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    """A server and its tokens by name. Each way to ask has a person with two devices; one token has no tenant."""
    folder = tmp_path_factory.mktemp("devices") / "data"
    tokens = {"without a tenant": give(folder, "without a tenant")}
    for era in ACCESSES:
        for device in DEVICES:
            name = f"{device} {era}"
            tokens[name] = give(folder, name, "--tenant", f"alice {era}")
    with serving(folder, ready=False) as server:
        yield server, tokens


@pytest.mark.parametrize("era", ACCESSES)
def test_what_the_phone_was_told_the_laptop_finds_at_once(
    served: tuple[Server, dict[str, str]], era: str | None
) -> None:
    server, tokens = served

    def turn(device: str, tool: str, arguments: dict[str, Any], **headers: str) -> dict[str, Any]:
        asker = Asker(server.url, tokens[f"{device} {era}"])
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
    # Two chats with one token are two sessions where they say so; otherwise its name is that of the session.
    session_name = quote("厨房")
    assert "7741" in turn("phone", "recall_turn", QUESTION, x_memory_session=session_name)["prompt"]
    in_kitchen = turn(
        "phone", "recall_turn", QUESTION | {"session": "kitchen"}, x_memory_session="phone"
    )
    assert "7741" in in_kitchen["prompt"]
    assert not turn("laptop", "recall_turn", QUESTION | {"session": f"phone {era}"})["prompt"]


@pytest.mark.parametrize("header", ["%FF", "%0A", quote("长" * 300), ""])
def test_a_session_that_cannot_be_used_is_refused(
    served: tuple[Server, dict[str, str]], header: str
) -> None:
    server, tokens = served
    asker = Asker(server.url, tokens["without a tenant"])
    refused = asker.call("remember_turn", FACT, x_memory_session=header)
    assert refused.status_code == 400, refused.text
    assert "X-Memory-Session" in refused.json()["error"]["message"]
    assert not asker.done("get_memory_stats")["total"]
