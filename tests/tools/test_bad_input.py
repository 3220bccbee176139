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
from memory_server.config import Settings
from memory_server.runtime.app import App
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import MOST_SAID_CHARS, Tool, ToolFailed, call, complaint

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere_together")]


async def contents_of(app: App) -> tuple[Any, ...]:
    state = await app.store.read("default")
    memories = (
        state.version,
        dict(state.short_term),
        dict(state.long_term),
        await app.conversations.ids(),
    )
    layers = [await layer.page() for layer in app.knowledge.layers.known]
    return *memories, await app.knowledge.overview(), layers


@pytest.fixture(scope="module")
async def memory(
    elsewhere_together: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[App]:
    """One memory for all cases, none of which changes it."""
    async with open_memory(tmp_path_factory.mktemp("data")) as app:
        await call(TOOLS["add_short_term_memory"], app.call, {"messages": HELLO})
        long_term = {"name": "披萨", "prompt": "爱吃披萨", "trigger": TRIGGER}
        await call(TOOLS["add_long_term_memory"], app.call, long_term)
        yield app


@pytest.mark.parametrize(("tool", "arguments", "words"), CASES, ids=lambda value: None)
async def test_bad_input_is_refused_in_one_sentence_and_changes_nothing(
    memory: App, tool: str, arguments: dict[str, Any], words: str
) -> None:
    before = await contents_of(memory)
    with pytest.raises(ToolFailed) as failure:
        await call(TOOLS[tool], memory.call, arguments)
    assert words in str(failure.value)
    sentence = str(failure.value).partition("\n")[0]
    assert sentence.endswith((".", "?")), sentence
    assert len(sentence) < 500
    assert "pydantic" not in sentence
    assert await contents_of(memory) == before


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
async def test_a_mistake_costs_no_more_than_a_sentence(app: App, tool: Tool) -> None:
    long = "字" * 100_000
    shapes = tool.input_schema()["properties"]
    texts = [name for name, shape in shapes.items() if shape.get("type") == "string"]
    for name in [long, *texts]:
        answer = await _text_of(tool, app, _required_arguments(tool) | {name: long})
        assert len(answer) <= MOST_SAID_CHARS, name[:40]


WRONG: tuple[Any, ...] = (
    *(
        "",
        "yes",
        "on",
        "true",
        "1",
        "x" * 100_001,
        0,
        1,
        1.0,
        -1,
        0.5,
        2**80,
        math.nan,
        True,
        False,
        None,
    ),
    *([], [1], [[]], [None], {}, {"a": 1}, [{}], [{"role": 1}], [{"role": "x", "content": []}]),
)
INTERNALS = re.compile(
    r"function|<class|functools|0x[0-9a-f]{6}|pydantic|Annotated|Argument|validator|\w\[[a-zA-Z]"
)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_an_error_names_the_argument_and_shows_nothing_of_the_server(tool: Tool) -> None:
    shapes = tool.input_schema()["properties"]
    usable = _required_arguments(tool)
    for name in shapes:
        for value in WRONG:
            try:
                tool.arguments.model_validate(usable | {name: value})
            except ValidationError as error:
                sentence = str(complaint(tool, error))
                assert sentence.startswith(f"`{name}"), sentence
                assert not INTERNALS.search(sentence.partition(", not ")[0]), sentence
                assert sentence.endswith((".", "?")), sentence


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_true_is_only_true_and_a_whole_number_only_a_whole_number(tool: Tool) -> None:
    shapes = tool.input_schema()["properties"]
    usable = _required_arguments(tool)
    for name, shape in shapes.items():
        wrong = {
            "boolean": ["yes", "on", "true", 1, 1.0, "1", []],
            "integer": [True, "1", 1.0, "x", []],
        }
        for value in wrong.get(shape.get("type", ""), ()):
            with pytest.raises(ValidationError) as failure:
                tool.arguments.model_validate(usable | {name: value})
            assert {error["loc"][0] for error in failure.value.errors()} >= {name}
            kind = {"boolean": "true or false", "integer": "a whole number"}[shape["type"]]
            assert f"`{name}` must be {kind}, not" in str(complaint(tool, failure.value))


async def _text_of(tool: Tool, app: App, arguments: dict[str, Any]) -> str:
    try:
        return (await call(tool, app.call, arguments)).text
    except ToolFailed as failed:
        return str(failed)


def _required_arguments(tool: Tool) -> dict[str, Any]:
    """Usable values of the arguments that a tool needs."""
    schema = tool.input_schema()
    return {name: _usable(schema["properties"][name]) for name in schema.get("required", ())}


def _usable(shape: dict[str, Any]) -> Any:
    if "enum" in shape:
        return shape["enum"][0]
    usable = {"array": HELLO, "string": "x", "integer": 1, "object": {}, "boolean": True}
    return usable.get(shape.get("type", ""), "x")


async def test_a_refused_trigger_is_shown_with_a_caret_under_the_column(app: App) -> None:
    arguments = {"name": "a", "prompt": "p", "trigger": "let n = 1;\nn == ) 2"}
    with pytest.raises(ToolFailed) as failure:
        await call(TOOLS["add_long_term_memory"], app.call, arguments)
    lines = str(failure.value).splitlines()
    assert lines[1:] == ["n == ) 2", "     ^"]


async def test_a_trigger_that_depends_on_the_data_is_stored_with_a_warning(app: App) -> None:
    arguments = {"name": "a", "prompt": "p", "trigger": "context.participants.user.name === '小明'"}
    answer = await call(TOOLS["add_long_term_memory"], app.call, arguments)
    assert answer.structured["success"] is True
    assert "name" in answer.structured["warnings"][0]
    assert answer.structured["warnings"][0] in answer.text


@pytest.mark.parametrize(
    ("trigger", "warning"),
    [
        (
            "new Date().getMonth() === 12",
            "never true: getMonth() gives 0 to 11; January is 0 (line 1, column 1)",
        ),
        (
            "match_keys(context.messages, ['生日'], 'User') > 0",
            "no scope 'User'; did you mean 'user'? (line 1, column 38)",
        ),
    ],
)
async def test_a_trigger_that_cannot_be_meant_is_stored_with_a_warning(
    app: App, trigger: str, warning: str
) -> None:
    arguments = {"name": "a", "trigger": trigger}
    for name, more in (("add_long_term_memory", {"prompt": "p"}), ("update_long_term_memory", {})):
        answer = await call(TOOLS[name], app.call, arguments | more)
        assert answer.structured["warnings"] == [warning]
        assert f"Warning: {warning}" in answer.text


async def test_an_unwritable_data_folder_is_said_and_reading_goes_on(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    async with open_memory(blocked / "data") as app:
        with pytest.raises(ToolFailed, match=r"^Nothing was changed in .*\.$"):
            await call(TOOLS["add_short_term_memory"], app.call, {"messages": HELLO})
        answer = await call(
            TOOLS["search_short_term_memories"], app.call, {"recentMessages": HELLO}
        )
        assert answer.structured["totalSearched"] == 0


async def test_a_fault_of_ours_is_one_sentence_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        monkeypatch.setattr(app.conversations, "get", lambda _: 1 / 0)
        with pytest.raises(ToolFailed, match=r"failed inside the server \(ZeroDivisionError\)"):
            await call(TOOLS["get_memory_stats"], app.call, {})
