"""What some clients send in place of a list, a number or nothing is read as meant; all else is refused as before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.test_argument_fuzz import values

from memory_server import open_memory
from memory_server.tools import TOOLS
from memory_server.tools.base.shapes import as_meant
from memory_server.tools.base.tool import ToolFailed, call

TOLERANT = [tool for tool in TOOLS.values() if not tool.destructive]
HELLO = [{"role": "user", "content": "My tent is in locker 12"}]


def as_clients_send(value: Any, draw: st.DrawFn, schema: dict[str, Any], name: str = "") -> Any:
    """The same value as one of these clients sends it."""
    if name in ("confirm", "id", "ids") or name.endswith(("_id", "Id")) or "anyOf" in schema:
        return value
    match value:
        case list():
            items = schema.get("items", {})
            sent = [as_clients_send(item, draw, items) for item in value]
            if draw(st.booleans()):
                return json.dumps(sent)
            return sent
        case dict() if "properties" in schema:
            members = schema["properties"]
            sent = {
                key: as_clients_send(item, draw, members[key], key) for key, item in value.items()
            }
            nulls = dict.fromkeys(set(members) - set(value) - set(schema.get("required", ())))
            if draw(st.booleans()):
                sent |= nulls
            if draw(st.booleans()) and "messages" not in members:
                return json.dumps(sent)
            return sent
        case dict() if draw(st.booleans()):
            return json.dumps(value)
        case bool() | int() | float() if draw(st.booleans()):
            return str(value)
    return value


MEANT = {tool.name: values(tool.input_schema()) for tool in TOLERANT}
"""What can be meant by the arguments of each tool."""


@pytest.mark.parametrize("tool", TOLERANT, ids=lambda tool: tool.name)
@given(data=st.data())
def test_what_clients_send_in_another_type_means_the_same(tool: Any, data: st.DataObject) -> None:
    schema = tool.input_schema()
    meant = data.draw(MEANT[tool.name])
    sent = {}
    for name, value in meant.items():
        sent[name] = as_clients_send(value, data.draw, schema["properties"][name], name)
    assert as_meant(schema, sent) == meant


# The argument as the schema knows it, what is sent, and what it is taken for.
READ = [
    ({"type": "integer"}, "5", 5),
    ({"type": "integer"}, " -5 ", -5),
    ({"type": "integer"}, 5.0, 5),
    ({"type": "number"}, "0.5", 0.5),
    ({"type": "number"}, "1e3", 1000.0),
    ({"type": "boolean"}, "true", True),
    ({"type": "boolean"}, "False", False),
    ({"type": "array", "items": {"type": "string"}}, '["a", "b"]', ["a", "b"]),
    ({"type": "array", "items": {"type": "integer"}}, '["1", 2]', [1, 2]),
    ({"type": "object"}, '{"a": 1}', {"a": 1}),
]
AS_SENT = [
    ({"type": "integer"}, "5.5"),
    ({"type": "integer"}, "five"),
    ({"type": "integer"}, ""),
    ({"type": "integer"}, "９"),
    ({"type": "integer"}, "9" * 400),
    ({"type": "integer"}, True),
    ({"type": "number"}, "NaN"),
    ({"type": "number"}, "1e999"),
    ({"type": "number"}, "0x10"),
    ({"type": "boolean"}, "yes"),
    ({"type": "boolean"}, 1),
    ({"type": "string"}, '["a"]'),
    ({"type": "string"}, 7),
    ({"type": "array"}, "a, b"),
    ({"type": "array"}, "["),
    ({"type": "array"}, '{"a": 1}'),
    ({"type": "array"}, "[" * 300 + "]" * 300),
    ({"type": "array"}, "[" + "1," * 20_000 + "1]"),
    ({"type": "object"}, "[]"),
    ({"type": "object"}, '{"a": 1, "a": 2}'),
    ({"type": "object"}, '{"a": NaN}'),
    ({"type": "object"}, "{\ud83d}"),
]


@pytest.mark.parametrize(("schema", "sent", "meant"), READ)
def test_a_known_fault_of_a_client_is_read(schema: dict[str, Any], sent: Any, meant: Any) -> None:
    read = as_meant({"properties": {"given": schema}}, {"given": sent})["given"]
    assert (read, type(read)) == (meant, type(meant))


@pytest.mark.parametrize(("schema", "sent"), AS_SENT)
def test_all_else_stays_as_it_was_sent(schema: dict[str, Any], sent: Any) -> None:
    assert as_meant({"properties": {"given": schema}}, {"given": sent}) == {"given": sent}


@pytest.mark.parametrize("name", ["confirm", "id", "ids", "memory_id", "changeId"])
def test_what_must_be_meant_is_taken_as_it_was_sent(name: str) -> None:
    for schema in ({"type": "integer"}, {"type": "boolean"}, {"type": "array"}):
        for sent in ("1", "true", '["1"]', None):
            assert as_meant({"properties": {name: schema}}, {name: sent}) == {name: sent}


def test_null_for_an_argument_is_as_if_it_was_left_out_and_stays_where_one_is_needed() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}
    assert as_meant(schema, {"a": None, "b": None, "unknown": None}) == {"b": None, "unknown": None}


def test_messages_that_may_also_be_a_text_are_read_only_if_they_are_messages() -> None:
    schema = TOOLS["memory_add"].input_schema()
    assert as_meant(schema, {"messages": json.dumps(HELLO)})["messages"] == HELLO
    for text in ('["a", "b"]', "[1] is a footnote", '[{"note": 1}]', "[]"):
        assert as_meant(schema, {"messages": text})["messages"] == text


@pytest.mark.anyio
async def test_a_turn_sent_as_text_is_stored_and_a_tool_that_destroys_refuses_the_same(
    tmp_path: Path,
) -> None:
    async with open_memory(tmp_path) as app:
        await call(
            TOOLS["remember_turn"], app.call, {"messages": json.dumps(HELLO), "session": None}
        )
        answer = await call(
            TOOLS["search_memories"],
            app.call,
            {"query": "tent", "limit": "5", "offset": None, "keywords": "[]"},
        )
        assert "locker 12" in answer.text
        with pytest.raises(ToolFailed, match="`dry_run` must be true or false"):
            await call(
                TOOLS["delete_short_term_memories"],
                app.call,
                {"pattern": "tent", "dry_run": "false"},
            )
        assert (
            "locker 12" in (await call(TOOLS["search_memories"], app.call, {"query": "tent"})).text
        )
