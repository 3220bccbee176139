"""Whatever the arguments: an error in a sentence that changes nothing, or a result that is what the schema says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import hypothesis
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from memory_server import open_memory
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.runtime.app import App
from memory_server.tools import TOOLS
from memory_server.tools.base.result import size
from memory_server.tools.base.tool import MAX_BYTES, Answer, ToolFailed, call

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
SPECIAL = st.sampled_from(
    [
        *(
            "",
            " ",
            "default",
            "another room",
            "披萨",
            "/披萨/",
            "/(/",
            "/(a+)+$/",
            "true",
            "../..",
            "CON",
            "\x00",
            "a" * 300,
        ),
        *(
            "2026-06-20",
            "not a date",
            "0",
            "default:1",
            "match_keys(context.messages, ['披萨']) > 0",
            "let x = ;",
        ),
    ]
)
MESSAGE = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.text(max_size=30) | SPECIAL,
    },
    optional={"timestamp": st.integers(10**11, 2 * 10**12), "name": st.text(max_size=5)},
)


def values(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema asks for."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([values(option) for option in schema["anyOf"]])
    match schema.get("type"):
        case "string":
            return SPECIAL | st.text(max_size=20)
        case "integer":
            return st.integers(schema.get("minimum", -2), schema.get("maximum", 60))
        case "number":
            return st.floats(0, 100) | st.integers(-1, 100)
        case "boolean":
            return st.booleans()
        case "array":
            items = schema.get("items", {})
            inner = MESSAGE if "content" in items.get("properties", {}) else values(items)
            return st.lists(inner, min_size=schema.get("minItems", 0), max_size=3)
        case "object" if "properties" in schema:
            return arguments(schema)
        case "object":
            return st.dictionaries(st.text(max_size=5), ANYTHING, max_size=2)
    return ANYTHING


def arguments(schema: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties = {name: values(inner) for name, inner in schema.get("properties", {}).items()}
    required = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: value for name, value in properties.items() if name in required},
        optional={name: value for name, value in properties.items() if name not in required},
    )


def spoilt_arguments(schema: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The same with one argument that is anything, or one that nobody knows."""
    names = st.sampled_from([*schema.get("properties", {}), "nonsense"])
    return st.builds(
        lambda good, name, value: good | {name: value}, arguments(schema), names, ANYTHING
    )


async def remembered(app: App) -> Any:
    """All that is remembered, with its uses and ends: no bytes, for an upkeep of files changes nothing."""
    conversations = {}
    for conversation_id in await app.store.conversations():
        state = await app.store.read(conversation_id)
        conversations[conversation_id] = (
            state.version,
            list(state.short_term),
            dict(state.long_term),
        )
    return conversations, await KnowledgeLifecycle(app.knowledge).live()


async def answer_of(app: App, name: str, sent_arguments: dict[str, Any]) -> Answer | ToolFailed:
    try:
        async with asyncio.timeout(60):
            return await call(TOOLS[name], app.call, sent_arguments)
    except ToolFailed as failure:
        return failure


async def check_call(app: App, name: str, sent_arguments: dict[str, Any]) -> None:
    before = await remembered(app)
    answer = await answer_of(app, name, sent_arguments)
    if isinstance(answer, ToolFailed):
        assert str(answer)
        assert "failed inside the server" not in str(answer)
        assert await remembered(app) == before
        return
    Draft202012Validator(TOOLS[name].output_schema()).validate(
        json.loads(orjson.dumps(answer.structured))
    )
    assert answer.text
    assert size(answer.structured) <= MAX_BYTES
    if TOOLS[name].read_only:
        assert await remembered(app) == before


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory, and the event loop in which it is open."""

    runner: asyncio.Runner
    app: App


@pytest.fixture(scope="module")
def memory(elsewhere_together: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """One memory for all of them: what an earlier call left is one more thing that a later one meets."""
    with asyncio.Runner() as runner:
        app = open_memory(tmp_path_factory.mktemp("fuzz"))
        runner.run(app.__aenter__())
        hello = {"messages": [{"role": "user", "content": "披萨"}]}
        runner.run(call(TOOLS["add_short_term_memory"], app.call, hello))
        long_term = {"name": "披萨", "prompt": "p", "trigger": "true"}
        runner.run(call(TOOLS["add_long_term_memory"], app.call, long_term))
        yield Memory(runner, app)
        runner.run(app.__aexit__(None, None, None))


def fuzz(memory: Memory, name: str, examples: int) -> None:
    schema = TOOLS[name].input_schema()

    @hypothesis.settings(max_examples=examples, deadline=None, derandomize=True, database=None)
    @given(arguments(schema) | spoilt_arguments(schema))
    def check(sent_arguments: dict[str, Any]) -> None:
        memory.runner.run(check_call(memory.app, name, sent_arguments))

    check()


@pytest.mark.parametrize("name", TOOLS)
def test_arguments_of_every_kind_are_an_error_that_changes_nothing_or_a_valid_result(
    memory: Memory, name: str
) -> None:
    fuzz(memory, name, examples=6)


@pytest.mark.full
@pytest.mark.parametrize("name", TOOLS)
def test_very_many_arguments_of_every_kind(memory: Memory, name: str) -> None:
    fuzz(memory, name, examples=300)
