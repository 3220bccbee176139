"""Which tools a client is offered, and a server that changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bad_input_cases import HELLO, TRIGGER
from mcp import Client
from settings_environment import as_environment

from memory_server import open_memory
from memory_server.config import Settings, load
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.messages import Message
from memory_server.runtime.app import offered_tools, usual_offer
from memory_server.serving.server import SEARCHES, build_server, instructions
from memory_server.tools import DEFAULT_TOOLS, TOOLS, TOOLSETS
from memory_server.tools.base.tool import call

SHORT = [tool.name for tool in TOOLSETS["short-term"]]
LONG = [tool.name for tool in TOOLSETS["long-term"]]
NOTES = [tool.name for tool in TOOLSETS["notes"]]
TURN = [tool.name for tool in TOOLSETS["turn"]]
SESSIONS = [tool.name for tool in TOOLSETS["sessions"]]
LAYERS = [tool.name for tool in TOOLSETS["layers"]]
REFS = [tool.name for tool in TOOLSETS["refs"]]
BACKUP = [tool.name for tool in TOOLSETS["backup"]]
READING_SHORT = ["search_short_term_memories", "get_memory_stats", "get_frequent_conversation"]

CHOICES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, list(DEFAULT_TOOLS)),
    ({"toolsets": "short-term"}, SHORT),
    ({"toolsets": " backup , short-term "}, [*SHORT, *BACKUP]),
    ({"toolsets": "backup，short-term"}, [*SHORT, *BACKUP]),
    ({"toolsets": "all"}, [name for name in TOOLS if name not in NOTES + SESSIONS + LAYERS + REFS]),
    ({"toolsets": "all,notes,layers,refs"}, [name for name in TOOLS if name not in SESSIONS]),
    ({"toolsets": "all,notes,sessions,layers"}, [name for name in TOOLS if name not in REFS]),
    ({"toolsets": "sessions"}, SESSIONS),
    (
        {"toolsets": "sessions", "read_only": True},
        ["memory_search", "memory_get_all", "memory_get_history", "memory_get_stats"],
    ),
    ({"toolsets": "layers"}, LAYERS),
    ({"toolsets": "refs", "read_only": True}, ["memorySearch", "memoryStats", "memoryGetContent"]),
    ({"toolsets": "notes"}, NOTES),
    ({"toolsets": "notes", "read_only": True}, ["recall", "list_notes"]),
    ({"toolsets": "default,backup"}, [*LONG[:3], *BACKUP, *TURN]),
    ({"read_only": True}, ["recall_turn"]),
    ({"tools": "get_memory_stats"}, ["get_memory_stats"]),
    ({"tools": "list_backups,get_memory_stats"}, ["get_memory_stats", "list_backups"]),
    ({"toolsets": "long-term", "tools": "get_memory_stats"}, ["get_memory_stats", *LONG]),
    (
        {"exclude_tools": "remember_turn"},
        [name for name in DEFAULT_TOOLS if name != "remember_turn"],
    ),
    (
        {"tools": "list_backups,get_memory_stats", "exclude_tools": "get_memory_stats"},
        ["list_backups"],
    ),
    ({"toolsets": "short-term", "read_only": True}, READING_SHORT),
    ({"tools": "delete_backup,list_backups", "read_only": True}, ["list_backups"]),
]


@pytest.mark.parametrize(("settings", "names"), CHOICES, ids=[str(choice) for choice, _ in CHOICES])
def test_the_settings_choose_which_tools_are_offered(
    settings: dict[str, Any], names: list[str]
) -> None:
    chosen = Settings(**settings)
    assert list(offered_tools(chosen)) == names
    assert list(offered_tools(load(as_environment(chosen)))) == names, "the same by the environment"


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"toolsets": "short-term,archives"},
        r"^There is no toolset `archives`; did you mean `archive`\?$",
    ),
    ({"toolsets": "x"}, r"^There is no toolset `x`; there are default, short-term, .*, all\.$"),
    (
        {"tools": "get_memory_stat"},
        r"^There is no tool `get_memory_stat`; did you mean `get_memory_stats`\?$",
    ),
    ({"exclude_tools": "search"}, r"^There is no tool `search`; (did you mean|there are) "),
    ({"toolsets": ","}, r"^No tool is left to offer; "),
    ({"tools": "delete_backup", "read_only": True}, r"^No tool is left to offer; "),
]


@pytest.mark.parametrize(("settings", "sentence"), WRONG, ids=[str(choice) for choice, _ in WRONG])
def test_a_wrong_choice_is_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        offered_tools(Settings(**settings))


def test_tools_that_differ_only_in_spelling_are_not_offered_together() -> None:
    sentence = "`memory_add` and `memoryAdd` differ only in spelling; offer `sessions` and `refs` from two server entries."
    with pytest.raises(InvalidInput, match=f"^{re.escape(sentence)}$"):
        offered_tools(Settings(toolsets="refs,sessions"))
    with pytest.raises(InvalidInput, match="only in spelling"):
        offered_tools(Settings(toolsets="refs", tools="memory_add"))
    assert list(offered_tools(Settings(toolsets="sessions"))) == SESSIONS


def test_the_file_may_have_a_list(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('toolsets = ["archive", "backup"]\nread_only = true\n', encoding="utf-8")
    settings = load({}, config_file=file)
    assert (settings.toolsets, settings.read_only) == ("archive,backup", True)


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.anyio
async def test_a_read_only_server_answers_and_changes_nothing(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        await call(TOOLS["add_short_term_memory"], app.call, {"messages": HELLO})
        long_term = {"name": "披萨", "prompt": "爱吃披萨", "trigger": TRIGGER}
        await call(TOOLS["add_long_term_memory"], app.call, long_term)
    # Somebody edits by hand: a server that may write would commit that.
    file = tmp_path / "default" / "long-term-memory.json"
    edited = json.loads(file.read_text(encoding="utf-8"))
    edited[0]["prompt"] = "不爱吃披萨"
    file.write_text(json.dumps(edited), encoding="utf-8")
    before = contents(tmp_path)
    # Of two tools whose names differ only in spelling, one is offered: those of sessions have a test of their own.
    settings = Settings(
        read_only=True, toolsets="all,notes,layers,refs", short_term={"own_conversation_minutes": 0}
    )  # type: ignore[arg-type]
    async with open_memory(tmp_path, settings=settings) as app:
        server = build_server(lambda _: app.call, lambda: offered_tools(settings), read_only=True)
        async with Client(server) as client:
            listed = (await client.list_tools()).tools
            assert all(
                tool.annotations is not None and tool.annotations.read_only_hint for tool in listed
            )
            reading = {tool.name for tool in TOOLS.values() if tool.only_reads}
            assert {tool.name for tool in listed} == reading - {*SESSIONS}
            answer = await client.call_tool("search_short_term_memories", {"recentMessages": HELLO})
            assert answer.structured_content is not None
            assert len(answer.structured_content["topRelevant"]) == 1
            assert "changeId" not in answer.structured_content
            assert "note" not in answer.structured_content, "nobody wanted the scores reinforced"
            context = await client.call_tool("search_long_term_memories", {"messages": HELLO})
            assert context.is_error is False
            refused = await client.call_tool("add_short_term_memory", {"messages": HELLO})
            assert refused.is_error is True
        with pytest.raises(StorageUnwritable, match="read-only and changed nothing"):
            await app.conversation().short_term.add([Message("user", "again", None)])
        await app.store.compact("default")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("settings", "names"), CHOICES, ids=[str(choice) for choice, _ in CHOICES])
def test_a_model_is_told_of_no_tool_that_it_does_not_have(
    settings: dict[str, Any], names: list[str]
) -> None:
    text = instructions(offered_tools(Settings(**settings)))
    assert {name for name in TOOLS if re.search(rf"\b{name}\b", text)} <= set(names)
    assert [name for name in TURN if name in text] == [name for name in TURN if name in names]
    replacements = dict.fromkeys(SEARCHES, TURN[0]) | {"add_short_term_memory": TURN[1]}
    for name, replacement in replacements.items():
        assert (name in text) == (name in names and replacement not in names), "one way to do it"
    assert usual_offer(Settings(**settings)) == (settings == {})


def test_a_model_with_the_usual_tools_is_told_to_recall_and_to_remember_each_turn() -> None:
    text = instructions()
    assert usual_offer(Settings(toolsets="default"))
    assert "Before you answer, call recall_turn" in text
    assert "store what was said in the turn with remember_turn" in text
    assert "remember_turn" not in instructions(
        offered_tools(Settings(toolsets="turn", read_only=True))
    )


def test_what_is_usual_needs_no_look_at_the_tools() -> None:
    for hooks in (False, True):
        assert instructions(None, hooks=hooks) == instructions(DEFAULT_TOOLS, hooks=hooks)


@pytest.mark.parametrize(("settings", "names"), CHOICES, ids=[str(choice) for choice, _ in CHOICES])
def test_beside_hooks_a_model_is_asked_neither_to_recall_nor_to_store_each_turn(
    settings: dict[str, Any], names: list[str]
) -> None:
    text = instructions(offered_tools(Settings(**settings)), hooks=True)
    assert "come with it by themselves" in text
    assert "do not store turns" in text
    assert "Before you answer" not in text
    assert "add_short_term_memory" not in text
    assert {name for name in TOOLS if re.search(rf"\b{name}\b", text)} <= set(names)
    assert ("add_long_term_memory" in text) == ("add_long_term_memory" in names)
    search = next((name for name in (TURN[0], SEARCHES[0]) if name in names), None)
    assert search is None or f"call {search} with words" in text
