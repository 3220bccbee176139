"""One reader of a message, at every door: the table holds what tools, the Python API and imports take."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pytest
from pydantic import ValidationError

from memory_server.interchange import chats
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message, messages_of, storable
from memory_server.kernel.private import calls_forget
from memory_server.tools import TOOLS
from memory_server.tools.base.shapes import MessageContext
from memory_server.tools.base.tool import _unread_text, complaint
from sandbox import read_message

AT = 1_795_860_000_000
"""2026-11-28T10:00:00Z."""
ISO = "2026-11-28T10:00:00Z"
USER = {"role": "user"}
TEXT = {"type": "text", "text": "likes jam"}
Said = tuple[str, str, int | None]
JAM: Said = ("user", "likes jam", None)
ANSWERED: Said = ("assistant", "likes jam", None)
FORMS: dict[str, tuple[dict[str, Any], Said | None]] = {
    "a text": (USER | {"content": "likes jam"}, JAM),
    "parts of OpenAI": (USER | {"content": [TEXT, {"type": "image_url", "image_url": {}}]}, JAM),
    "OpenAI Responses": (
        {
            "id": "m",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "likes jam", "annotations": []}],
        },
        ANSWERED,
    ),
    "OpenAI Assistants": (
        USER | {"content": [{"type": "text", "text": {"value": "likes jam", "annotations": []}}]},
        JAM,
    ),
    "OpenAI, spoken": (
        {"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "likes jam"}},
        ANSWERED,
    ),
    "Anthropic": (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, TEXT]},
        ANSWERED,
    ),
    "AI SDK": (USER | {"id": "m", "parts": [{"type": "reasoning", "text": "hm"}, TEXT]}, JAM),
    "AI SDK, with an empty content": (USER | {"content": "", "parts": [TEXT]}, JAM),
    "Gemini": (
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "likes jam"}]},
        ANSWERED,
    ),
    "LangChain": ({"type": "human", "content": "likes jam"}, JAM),
    "ShareGPT": ({"from": "gpt", "value": "likes jam"}, ANSWERED),
    "a prompt of MCP": (USER | {"content": TEXT}, JAM),
    "Chatbox": (USER | {"contentParts": [TEXT]}, JAM),
    "developer": ({"role": "developer", "content": "likes jam"}, ("system", "likes jam", None)),
    "human": ({"role": "Human", "content": "likes jam"}, JAM),
    "model": ({"role": "model", "content": "likes jam"}, ANSWERED),
    "milliseconds": (USER | {"content": "likes jam", "timestamp": AT}, (*JAM[:2], AT)),
    "seconds": (USER | {"content": "likes jam", "created_at": AT / 1000}, (*JAM[:2], AT)),
    "an ISO text": (USER | {"content": "likes jam", "createdAt": ISO}, (*JAM[:2], AT)),
    "a number as text": (USER | {"content": "likes jam", "ts": str(AT)}, (*JAM[:2], AT)),
    "another time that no one can read": (USER | {"content": "likes jam", "date": "soon"}, JAM),
    "seconds that an answer took": (
        USER | {"content": "likes jam", "ts": 12.5, "date": ISO},
        (*JAM[:2], AT),
    ),
    "no time, as a number": (USER | {"content": "likes jam", "created": 0}, JAM),
    "a year long ago": (USER | {"content": "likes jam", "date": "1815-06-18"}, JAM),
    "unknown fields": (USER | {"content": "likes jam", "id": "m", "mood": "glad"}, JAM),
    "a call": ({"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}, None),
    "the output of a tool": ({"role": "tool", "content": "likes jam"}, None),
    "an item of Responses": ({"type": "function_call", "name": "f", "arguments": "{}"}, None),
    "an empty content": (USER | {"content": None}, None),
    "only a picture": (USER | {"content": [{"type": "image"}]}, None),
    "only a thought": ({"role": "model", "parts": [{"text": "hm", "thought": True}]}, None),
}
OTHER = {"role": "user", "content": "hi"}
BROKEN: dict[str, dict[str, Any]] = {
    "an unknown role": {"role": "wizard", "content": "x"},
    "no role": {"content": "x"},
    "no content": USER,
    "a number as content": USER | {"content": 5},
    "numbers as parts": USER | {"content": [1]},
    "a time that no one can read": USER | {"content": "x", "timestamp": "soon"},
}
TAKE_MESSAGES = {
    name: argument
    for name, tool in TOOLS.items()
    for argument in tool.input_schema()["properties"]
    if "messages" in argument.lower()
}


def taken(name: str, messages: Any, context: MessageContext | None = None) -> list[Said]:
    """What a tool takes of the messages."""
    argument = TAKE_MESSAGES[name]
    required = dict.fromkeys(TOOLS[name].input_schema().get("required", ()), "x")
    checked = TOOLS[name].arguments.model_validate(required | {argument: messages}, context=context)
    return [
        (message.role, message.content, message.time_ms) for message in getattr(checked, argument)
    ]


@pytest.mark.parametrize("form", FORMS)
def test_each_tool_takes_each_form(form: str) -> None:
    message, said = FORMS[form]
    expected = [said] if said is not None else []
    for name in TAKE_MESSAGES:
        assert taken(name, [OTHER, message]) == [("user", "hi", None), *expected], name
        assert taken(name, {"messages": [OTHER, message]})[1:] == expected, name


@pytest.mark.parametrize("form", FORMS)
def test_the_python_api_takes_each_form(form: str) -> None:
    message, said = FORMS[form]
    read = [(each.role, each.content, each.time_ms) for each in messages_of([message])]
    assert read == ([said] if said is not None else [])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lines", [True, False])
def test_an_import_takes_each_form(form: str, lines: bool) -> None:
    message, said = FORMS[form]
    first = {"role": "assistant", "content": "hi"}
    text = json.dumps([first, message])
    if lines:
        text = "\n".join(map(json.dumps, (first, message)))
    incoming = chats.read(text.encode(), chats.ChatOptions("c"))
    messages = [each for memory in incoming.conversations[0].short_term for each in memory.messages]
    read = [(each.role, each.content, each.time_ms) for each in messages]
    assert read[1:] == ([said] if said is not None else [])
    assert not incoming.skipped


@pytest.mark.parametrize("form", BROKEN)
def test_what_is_not_a_message_is_refused_at_each_door(form: str) -> None:
    message = BROKEN[form]
    for name in TAKE_MESSAGES:
        with pytest.raises(ValidationError):
            taken(name, [OTHER, message])
    with pytest.raises(InvalidInput):
        [storable(each) for each in messages_of([message])]
    incoming = chats.read(json.dumps([OTHER, message]).encode(), chats.ChatOptions("c"))
    assert len(incoming.skipped) + incoming.lost.total() == 1


def test_fields_that_are_not_read_are_named_once_and_those_that_clients_always_send_are_not() -> (
    None
):
    context = MessageContext()
    messages = [OTHER | {"id": "1", "mood": "glad"}, OTHER | {"status": "done", "mood": "sad"}]
    taken("remember_turn", messages, context)
    assert context.unknown_fields == {"mood"}


def test_the_name_of_a_field_that_is_not_read_is_shortened() -> None:
    assert len(_unread_text({"x" * 2_000_000})) < 500


def test_a_long_time_that_no_one_can_read_is_shortened_where_it_is_refused() -> None:
    with pytest.raises(ValidationError) as refused:
        taken("remember_turn", [OTHER | {"timestamp": "y" * 2_000_000}])
    assert len(str(complaint(TOOLS["remember_turn"], refused.value))) < 3_000


def test_eight_digits_are_a_day() -> None:
    message = OTHER | {"date": "20261128"}
    fields = read_message(message, UTC).fields
    assert fields is not None
    assert fields["timestamp"] == AT - 10 * 3_600_000


def test_a_list_in_which_nobody_said_anything_says_so() -> None:
    with pytest.raises(ValidationError, match="that somebody said"):
        taken("search_long_term_memories", [{"role": "tool", "content": "x"}])


@pytest.mark.parametrize(
    "name", ["search_long_term_memories", "search_short_term_memories", "recall_turn"]
)
def test_a_search_when_a_chat_opens_needs_no_messages(name: str) -> None:
    assert taken(name, []) == []


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": [{"type": "tool_use", "name": "mcp__memory__forget"}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "forget"}}]},
        {"role": "assistant", "parts": [{"type": "tool-forget", "state": "output-available"}]},
        {"role": "assistant", "parts": [{"type": "dynamic-tool", "toolName": "memory_forget"}]},
        {"role": "assistant", "content": "", "toolInvocations": [{"toolName": "forget"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "forget"}}]},
        {"type": "function_call", "name": "forget", "arguments": "{}"},
    ],
)
def test_a_call_of_forget_is_seen_in_each_form(message: dict[str, Any]) -> None:
    assert calls_forget(message)
    assert "secret" not in str(
        taken("remember_turn", [USER | {"content": "forget my secret"}, message])
    )


def test_a_known_word_for_a_role_is_stored_as_that_role() -> None:
    assert storable(Message("human", "x")).role == "user"  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, [None], {"type": []}, {"text": {}}])
def test_any_value_in_any_field_is_read_or_left_as_it_is(value: Any) -> None:
    for field in (
        "role",
        "content",
        "parts",
        "text",
        "timestamp",
        "time",
        "audio",
        "author",
        "type",
    ):
        read_message(USER | {"content": "x", field: value})
        read_message({field: value})


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
@pytest.mark.parametrize("content", ["", "likes jam", "\ud800"])
def test_a_plain_message_is_read_as_one_with_further_fields(role: str, content: str) -> None:
    plain = {"role": role, "content": content}
    assert read_message(plain) == read_message(plain | {"id": "m"})


def test_a_name_that_is_not_text_becomes_text() -> None:
    assert [storable(each).name for each in messages_of([OTHER | {"name": 5}])] == ["5"]
