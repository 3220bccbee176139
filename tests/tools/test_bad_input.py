"""Bad input gets one clear sentence and changes nothing."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bad_input_cases import CASES, HELLO, TRIGGER
from pydantic import ValidationError

from memory_server import open_memory
from memory_server.app import App
from memory_server.config import Settings
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import MOST_SAID_CHARS, Tool, ToolFailed, call, complaint

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere_together")]


async def stored(app: App) -> tuple[Any, ...]:
    state = await app.store.read("default")
    memories = state.version, dict(state.short_term), dict(state.long_term), await app.conversations.ids()
    layers = [await layer.page() for layer in app.knowledge.layers.known]
    return *memories, await app.knowledge.overview(), layers


@pytest.fixture(scope="module")
async def memory(elsewhere_together: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """One memory for all cases, none of which changes it."""
    async with open_memory(tmp_path_factory.mktemp("data")) as app:
        await call(TOOLS["add_short_term_memory"], app.call, {"messages": HELLO})
        kept = {"name": "披萨", "prompt": "爱吃披萨", "trigger": TRIGGER}
        await call(TOOLS["add_long_term_memory"], app.call, kept)
        yield app


@pytest.mark.parametrize(("tool", "arguments", "said"), CASES, ids=lambda value: None)
async def test_bad_input_is_refused_in_one_sentence_and_changes_nothing(
    memory: App, tool: str, arguments: dict[str, Any], said: str
) -> None:
    before = await stored(memory)
    with pytest.raises(ToolFailed) as failure:
        await call(TOOLS[tool], memory.call, arguments)
    assert said in str(failure.value)
    sentence = str(failure.value).partition("\n")[0]
    assert sentence.endswith((".", "?")), sentence
    assert len(sentence) < 500
    assert "pydantic" not in sentence
    assert await stored(memory) == before


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
async def test_a_mistake_costs_no_more_than_a_sentence(tmp_path: Path, tool: Tool) -> None:
    long = "字" * 100_000
    shapes = tool.input_schema()["properties"]
    texts = [name for name, shape in shapes.items() if shape.get("type") == "string"]
    async with open_memory(tmp_path / "data") as app:
        for name in [long, *texts]:
            given = {each: _usable(shapes[each]) for each in tool.input_schema().get("required", ())} | {name: long}
            said = await _said(tool, app, given)
            assert len(said) <= MOST_SAID_CHARS, name[:40]


WRONG: tuple[Any, ...] = (
    *("", "yes", "on", "true", "1", "x" * 100_001, 0, 1, 1.0, -1, 0.5, 2**80, math.nan, True, False, None),
    *([], [1], [[]], [None], {}, {"a": 1}, [{}], [{"role": 1}], [{"role": "x", "content": []}]),
)
INTERNALS = re.compile(r"function|<class|functools|0x[0-9a-f]{6}|pydantic|Annotated|Argument|validator|\w\[[a-zA-Z]")


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_an_error_names_the_argument_and_shows_nothing_of_the_server(tool: Tool) -> None:
    shapes = tool.input_schema()["properties"]
    usable = {each: _usable(shapes[each]) for each in tool.input_schema().get("required", ())}
    for name in shapes:
        for value in WRONG:
            try:
                tool.arguments.model_validate(usable | {name: value})
            except ValidationError as error:
                said = complaint(tool, error)
                assert said.startswith(f"`{name}"), said
                assert not INTERNALS.search(said.partition(", not ")[0]), said
                assert said.endswith((".", "?")), said


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_true_is_only_true_and_a_whole_number_only_a_whole_number(tool: Tool) -> None:
    shapes = tool.input_schema()["properties"]
    usable = {each: _usable(shapes[each]) for each in tool.input_schema().get("required", ())}
    for name, shape in shapes.items():
        wrong = {"boolean": ["yes", "on", "true", 1, 1.0, "1", []], "integer": [True, "1", 1.0, "x", []]}
        for value in wrong.get(shape.get("type", ""), ()):
            with pytest.raises(ValidationError) as failure:
                tool.arguments.model_validate(usable | {name: value})
            assert {each["loc"][0] for each in failure.value.errors()} >= {name}
            wanted = {"boolean": "true or false", "integer": "a whole number"}[shape["type"]]
            assert f"`{name}` must be {wanted}, not" in complaint(tool, failure.value)


async def _said(tool: Tool, app: App, given: dict[str, Any]) -> str:
    try:
        return (await call(tool, app.call, given)).text
    except ToolFailed as failed:
        return str(failed)


def _usable(shape: dict[str, Any]) -> Any:
    usable = {"array": HELLO, "string": "x", "integer": 1, "object": {}, "boolean": True}
    return shape["enum"][0] if "enum" in shape else usable.get(shape.get("type", ""), "x")


async def test_a_refused_trigger_is_shown_with_a_caret_under_the_column(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "data") as app:
        arguments = {"name": "a", "prompt": "p", "trigger": "let n = 1;\nn == ) 2"}
        with pytest.raises(ToolFailed) as failure:
            await call(TOOLS["add_long_term_memory"], app.call, arguments)
        lines = str(failure.value).splitlines()
        assert lines[1:] == ["n == ) 2", "     ^"]


async def test_a_trigger_that_depends_on_the_data_is_stored_with_a_warning(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "data") as app:
        arguments = {"name": "a", "prompt": "p", "trigger": "context.participants.user.name === '小明'"}
        answer = await call(TOOLS["add_long_term_memory"], app.call, arguments)
        assert answer.structured["success"] is True
        assert "name" in answer.structured["warnings"][0]
        assert answer.structured["warnings"][0] in answer.text


@pytest.mark.parametrize(
    ("trigger", "warning"),
    [
        ("new Date().getMonth() === 12", "never true: getMonth() gives 0 to 11; January is 0 (line 1, column 1)"),
        (
            "match_keys(context.messages, ['生日'], 'User') > 0",
            "no scope 'User'; did you mean 'user'? (line 1, column 38)",
        ),
    ],
)
async def test_a_trigger_that_cannot_be_meant_is_stored_with_a_warning(
    tmp_path: Path, trigger: str, warning: str
) -> None:
    async with open_memory(tmp_path / "data") as app:
        for name in ("add_long_term_memory", "update_long_term_memory"):
            given = {"name": "a", "trigger": trigger} | ({"prompt": "p"} if name.startswith("add") else {})
            answer = await call(TOOLS[name], app.call, given)
            assert answer.structured["warnings"] == [warning]
            assert f"Warning: {warning}" in answer.text


async def test_an_unwritable_data_folder_is_said_and_reading_goes_on(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    async with open_memory(blocked / "data") as app:
        with pytest.raises(ToolFailed, match=r"^Nothing was changed in .*\.$"):
            await call(TOOLS["add_short_term_memory"], app.call, {"messages": HELLO})
        found = await call(TOOLS["search_short_term_memories"], app.call, {"recentMessages": HELLO})
        assert found.structured["totalSearched"] == 0


async def test_a_fault_of_ours_is_one_sentence_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        monkeypatch.setattr(app.conversations, "get", lambda _: 1 / 0)
        with pytest.raises(ToolFailed, match=r"failed inside the server \(ZeroDivisionError\)"):
            await call(TOOLS["get_memory_stats"], app.call, {})
