"""Triggers, date words and the ages of lines follow the time zone of a call. It is 18:00 in UTC, and 2 at night in
Shanghai, on 18 July."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory_server import Message, Settings
from memory_server.cli.tokens import TokenFile
from memory_server.conversations.recall.request import RecallRequest
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.times import zone_named
from memory_server.runtime.app import App

pytestmark = pytest.mark.anyio
NOW = "2026-07-17T18:00:00Z"
LATE = 1784302200000
"""15:30 in UTC on 17 July, 23:30 in Shanghai."""


def settings(tmp_path: Path, **more: Any) -> Settings:
    return Settings(data_dir=tmp_path, timezone="UTC", now=NOW, language="en", **more)


async def recalled(app: App, text: str, timezone: str | None) -> str:
    participants = None if timezone is None else {"user": {"name": "Ann", "timezone": timezone}}
    return await app.recall_turn([Message("user", text)], participants=participants)


async def test_triggers_date_words_and_ages_follow_the_zone_of_the_call(tmp_path: Path) -> None:
    async with App(settings(tmp_path)) as app:
        conversation = app.conversation()
        await conversation.long_term.add("day", "It is the eighteenth.", "on_day(7, 18)")
        await conversation.short_term.add([Message("user", "I planted a quince tree", LATE)])
        for zone in (None, "Asia/Shanghai", None, "America/New_York"):
            text = await recalled(app, "what did I say yesterday?", zone)
            is_next_day = zone == "Asia/Shanghai"
            assert ("It is the eighteenth." in text) == is_next_day, (zone, text)
            assert ("quince" in text) == is_next_day, (zone, text)
        ages = {
            zone: await recalled(app, "Where is the quince tree?", zone)
            for zone in ("UTC", "Asia/Shanghai")
        }
        assert "afternoon" in ages["UTC"]
        assert "night" in ages["Asia/Shanghai"]


async def test_a_zone_of_a_call_does_not_stay(tmp_path: Path) -> None:
    async with App(settings(tmp_path)) as app:
        await app.conversation().long_term.add("day", "It is the eighteenth.", "on_day(7, 18)")
        assert "eighteenth" in await recalled(app, "hello", "Asia/Shanghai")
        assert "eighteenth" not in await recalled(app, "hello", None)
        assert app.memories.services.zone == zone_named("UTC")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "utc+8", ""])
async def test_a_zone_that_does_not_exist_is_refused(tmp_path: Path, zone: str) -> None:
    async with App(settings(tmp_path)) as app:
        with pytest.raises(
            InvalidInput, match="is not an IANA time zone; write for example `Asia/Shanghai`"
        ):
            await recalled(app, "hello", zone)


async def test_participants_without_a_zone_change_nothing(tmp_path: Path) -> None:
    async with App(settings(tmp_path)) as app:
        for participants in (
            {},
            {"user": "Ann"},
            {"user": {"name": "Ann"}},
            {"char": {"timezone": "Mars/Olympus"}},
        ):
            request = RecallRequest([], participants=participants)
            assert app.call.in_zone(request.timezone) is app.call


async def test_a_token_has_a_zone_and_lines_of_earlier_versions_have_none(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.jsonl")
    token = file.add("phone", None, ["read"], None, timezone="Asia/Tokyo")
    stored = file.find(token)
    assert stored is not None
    assert stored.timezone == "Asia/Tokyo"
    with pytest.raises(InvalidInput, match="`Mars` is not an IANA time zone"):
        file.add("other", None, ["read"], None, timezone="Mars")
    line = json.loads(file.path.read_text("utf-8"))
    del line["timezone"]
    file.path.write_text(json.dumps(line) + "\n", "utf-8")
    assert [entry.timezone for entry in file.tokens()] == [None]
