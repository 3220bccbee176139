"""The same tools through an in-memory client, in both protocol eras: results, refusals, and what a client is told."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from bad_input_cases import CASES, HELLO, TRIGGER
from mcp import Client

from memory_server import open_memory
from memory_server.serving.server import build_server
from memory_server.tools import DEFAULT_TOOLS, TOOLS, TOOLSETS
from memory_server.tools.base.tool import Tool

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere")]

ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


@asynccontextmanager
async def connected(
    folder: Path, mode: str, tools: Mapping[str, Tool] | None = None
) -> AsyncIterator[Client]:
    """A client of a server with `tools`, by default those that a server offers when nothing is chosen."""
    chosen = None if tools is None else lambda: tools
    async with (
        open_memory(folder) as app,
        Client(build_server(lambda _: app.call, chosen), mode=mode) as client,
    ):
        assert client.protocol_version == ERAS[mode], "the era under test is the one that is spoken"
        yield client


@pytest.mark.parametrize(
    ("mode", "cases"),
    [
        ("auto", CASES),
        ("legacy", CASES[::6]),
        pytest.param("legacy", CASES, marks=pytest.mark.full),
    ],
    ids=["auto", "some of legacy", "legacy"],
)
async def test_every_case_of_bad_input_is_an_error_on_the_wire_and_changes_nothing(
    tmp_path: Path, mode: str, cases: list[tuple[str, dict[str, Any], str]]
) -> None:
    async with connected(tmp_path / "data", mode, TOOLS) as client:
        await client.call_tool("add_short_term_memory", {"messages": HELLO})
        await client.call_tool(
            "add_long_term_memory", {"name": "披萨", "prompt": "爱吃披萨", "trigger": TRIGGER}
        )
    # Another session: the first one has brought its files up to date, which takes place seconds after a write.
    async with connected(tmp_path / "data", mode, TOOLS) as client:
        await client.call_tool("get_memory_stats", {})
        files = contents(tmp_path / "data")
        for tool, arguments, sentence in cases:
            if not wireable(arguments):
                continue
            result = await client.call_tool(tool, arguments)
            assert result.is_error is True, (tool, sentence)
            assert sentence in text_of(result)
            assert result.structured_content is None
        now = contents(tmp_path / "data")
    # A refused call of `sessions` is in the history of its user, and changes no entry.
    database = tmp_path / "data" / ".memory-server" / "knowledge.sqlite3"
    with closing(sqlite3.connect(database)) as history:
        counts = [
            history.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("entries", "changes")
        ]
        assert counts == [0, 0]
        assert history.execute(
            "SELECT count(*) FROM operations WHERE error IS NULL"
        ).fetchone() == (0,)
    assert {name: text for name, text in now.items() if not name.startswith(str(database))} == files


@pytest.mark.parametrize("mode", ERAS)
async def test_the_text_and_the_fields_of_an_answer_are_the_same_facts(
    tmp_path: Path, mode: str
) -> None:
    async with connected(tmp_path / "data", mode) as client:
        stored = await client.call_tool("add_short_term_memory", {"messages": HELLO})
        assert stored.is_error is False
        assert stored.structured_content is not None
        assert stored.structured_content["id"] in text_of(stored)


@pytest.mark.parametrize("mode", ERAS)
async def test_an_unknown_tool_is_refused_with_the_names_of_the_others(
    tmp_path: Path, mode: str
) -> None:
    async with connected(tmp_path / "data", mode) as client:
        refused = await client.call_tool("add_memory", {})
        assert refused.is_error is True
        assert "There is no tool `add_memory`; use one of add_long_term_memory" in text_of(refused)


async def test_every_character_of_an_icon_may_stand_in_a_uri(tmp_path: Path) -> None:
    async with connected(tmp_path, "legacy") as client:
        assert client.server_info is not None
        icons = client.server_info.icons
        assert icons
        for icon in icons:
            # RFC 3986: unreserved and reserved characters, and percent-encoded bytes.
            assert re.fullmatch(
                r"data:(?:[\w.~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-F]{2})+", icon.src, re.ASCII
            ), icon.src
            ElementTree.fromstring(unquote(icon.src.partition(",")[2]))


async def test_the_sdk_need_not_look_at_schemas_since_no_argument_is_a_header(
    tmp_path: Path,
) -> None:
    async with open_memory(tmp_path) as app:
        server = build_server(lambda _: app.call, lambda: TOOLS)
        assert server.get_tool_input_schema is not None
        for name, tool in TOOLS.items():
            assert server.get_tool_input_schema(name) is None
            assert "x-mcp-header" not in json.dumps(tool.input_schema())


async def test_a_model_is_told_to_use_one_memory_for_all_chats(tmp_path: Path) -> None:
    async with connected(tmp_path, "legacy") as client:
        assert client.instructions is not None
        assert "Leave conversation_id out unless you were given one" in client.instructions
        assert [tool.name for tool in (await client.list_tools()).tools] == list(DEFAULT_TOOLS)


MOST_CHARS = 5_600
"""Characters of the JSON of what a model reads of the default tools: names, descriptions and arguments."""


@pytest.mark.parametrize("mode", ERAS)
async def test_the_list_of_the_default_tools_is_short(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, mode) as client:
        listed = await client.list_tools()
    forms = [
        tool.model_dump(by_alias=True, include={"name", "description", "input_schema"})
        for tool in listed.tools
    ]
    assert all(set(form) == {"name", "description", "inputSchema"} for form in forms)
    assert len(json.dumps(forms, ensure_ascii=False)) <= MOST_CHARS
    assert all(
        tool.input_schema["properties"] and tool.output_schema is None for tool in listed.tools
    )


async def test_a_program_may_call_the_twelve_tools_of_the_node_original_without_asking_for_them(
    tmp_path: Path,
) -> None:
    async with connected(tmp_path, "legacy") as client:
        for name in [
            tool.name for toolset in ("short-term", "long-term") for tool in TOOLSETS[toolset]
        ]:
            assert "There is no tool" not in text_of(await client.call_tool(name, {}))
        assert "There is no tool" in text_of(await client.call_tool("get_history", {}))


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


def wireable(arguments: Any) -> bool:
    """Whether JSON can carry it: no infinity, no lone surrogate (those cases are tried without a wire)."""
    try:
        repr(arguments).encode()
    except UnicodeEncodeError:
        return False
    return not any(word in repr(arguments) for word in (": inf", ": nan"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
