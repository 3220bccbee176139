"""A call, a header, a token and a tenant name a time zone over HTTP. It is 18:00 in UTC, 2 at night in Shanghai."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_server import ERAS, Asker, Server, give, serving

NOW = "2026-07-17T18:00:00Z"
QUESTION = {"messages": [{"role": "user", "content": "Which day is it?"}]}
HOURS = {
    "UTC": 18,
    "Asia/Shanghai": 2,
    "America/New_York": 14,
    "Pacific/Kiritimati": 8,
    "Europe/Berlin": 20,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zones") / "data"


@pytest.fixture(scope="module")
def tokens(folder: Path) -> dict[str, str]:
    return {
        "plain": give(folder, "plain"),
        "zoned": give(folder, "zoned", "--timezone", "Asia/Shanghai"),
        "alice": give(folder, "alice", "--tenant", "alice"),
        "alice far": give(folder, "far", "--tenant", "alice", "--timezone", "Pacific/Kiritimati"),
    }


@pytest.fixture(scope="module")
def server(folder: Path, tokens: dict[str, str]) -> Iterator[Server]:
    zones = json.dumps({"alice": "America/New_York"})
    with serving(
        folder, "--timezone", "UTC", "--now", NOW, ready=False, http__timezones=zones
    ) as server:
        for token in (tokens["plain"], tokens["alice"]):
            for hour in range(24):
                trigger = f"new Date().getHours() === {hour}"
                Asker(server.url, token).done(
                    "add_long_term_memory", name=f"{hour}", prompt=f"h{hour}", trigger=trigger
                )
        yield server


def hour(asker: Asker, zone: str | None = None, **headers: str) -> int:
    """The hour at which the triggers of a recall are."""
    participants = (
        {} if zone is None else {"participants": {"user": {"name": "Ann", "timezone": zone}}}
    )
    answer = asker.call("recall_turn", QUESTION | participants, **headers)
    assert answer.status_code == 200, answer.text
    (fired,) = answer.json()["longTerm"]["activated"]
    return int(fired["name"])


def test_the_zone_of_the_call_comes_before_the_header_the_token_the_tenant_and_the_server(
    server: Server, tokens: dict[str, str]
) -> None:
    plain, zoned, alice, far = (Asker(server.url, token) for token in tokens.values())
    assert hour(plain) == HOURS["UTC"]
    assert hour(zoned) == HOURS["Asia/Shanghai"]
    assert hour(alice) == HOURS["America/New_York"]
    assert hour(far) == HOURS["Pacific/Kiritimati"]
    assert hour(zoned, x_memory_timezone="Europe/Berlin") == HOURS["Europe/Berlin"]
    assert hour(far, x_memory_timezone="Europe/Berlin") == HOURS["Europe/Berlin"]
    assert (
        hour(zoned, "America/New_York", x_memory_timezone="Europe/Berlin")
        == HOURS["America/New_York"]
    )
    assert hour(plain) == HOURS["UTC"]


@pytest.mark.parametrize("era", ERAS)
def test_the_header_counts_over_mcp_too(server: Server, tokens: dict[str, str], era: str) -> None:
    asker = Asker(server.url, tokens["plain"])
    params = {"name": "search_long_term_memories", "arguments": QUESTION}
    answer = asker.mcp(era, "tools/call", params, x_memory_timezone="Asia/Shanghai").json()[
        "result"
    ]
    assert [row["name"] for row in answer["structuredContent"]["activated"]] == [
        str(HOURS["Asia/Shanghai"])
    ]


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "Asia/shanghai2", "UTC+8", "../etc/passwd", "北京"]
)
def test_a_zone_that_does_not_exist_is_refused_in_one_sentence(
    server: Server, tokens: dict[str, str], zone: str
) -> None:
    asker = Asker(server.url, tokens["plain"])
    participants: dict[str, Any] = {"participants": {"user": {"timezone": zone}}}
    for tool in ("recall_turn", "search_long_term_memories"):
        answer = asker.call(tool, QUESTION | participants)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith(
            f"`{zone}` is not an IANA time zone; write for example"
        )
    if zone.isascii():
        answer = asker.call("get_memory_stats", {}, x_memory_timezone=zone)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith(
            f"`{zone}` is not an IANA time zone; write for example"
        )


def test_a_header_that_is_there_twice_is_refused(server: Server, tokens: dict[str, str]) -> None:
    headers = [("x-memory-timezone", "UTC"), ("x-memory-timezone", "Asia/Tokyo")]
    asker = Asker(server.url, tokens["plain"])
    answer = asker.http.post("/v1/get_memory_stats", json={}, headers=headers)
    assert answer.status_code == 400
    assert "X-Memory-Timezone is there more than once" in answer.json()["error"]["message"]


def test_a_zone_of_a_wrong_kind_is_refused(server: Server, tokens: dict[str, str]) -> None:
    participants = {"participants": {"user": {"timezone": 8}}}
    answer = Asker(server.url, tokens["plain"]).call("recall_turn", QUESTION | participants)
    assert answer.status_code == 400
    assert "`participants.user.timezone` is a text" in answer.json()["error"]["message"]
    assert hour(Asker(server.url, tokens["plain"])) == HOURS["UTC"]
