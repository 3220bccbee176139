"""Chats in whose tree a message is missing: what stands in the file comes, and only what has no place is counted."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest

from memory_server.interchange import chat_exports
from memory_server.interchange.incoming import Incoming
from sandbox.chats import left_out

AT = 1_750_000_000


def _read(conversation: dict[str, Any]) -> Incoming:
    return chat_exports.read(
        {"conversations.json": json.dumps([conversation]).encode()}, [], "default", {}
    )


def _texts(incoming: Incoming) -> list[str]:
    memories = chain.from_iterable(contents.short_term for contents in incoming.conversations)
    messages = chain.from_iterable(memory.messages for memory in memories)
    return [message.content for message in messages]


def _beside(incoming: Incoming) -> tuple[int, int]:
    return incoming.lost[left_out.BRANCHES], incoming.lost[left_out.UNPLACED]


def _claude(parents: list[str | None], leaf: str | None = None) -> Incoming:
    """Messages `1`, `2`… with these parents."""
    rows = []
    for number, parent in enumerate(parents, 1):
        sender = ("assistant", "human")[number % 2]
        rows.append(
            {
                "uuid": str(number),
                "parent_message_uuid": parent,
                "sender": sender,
                "text": str(number),
            }
        )
    return _read({"name": "n", "chat_messages": rows, "current_leaf_message_uuid": leaf})


@pytest.mark.parametrize(
    ("parents", "leaf", "texts", "beside"),
    [
        (["root", "1", "missing", "3"], None, "1234", (0, 0)),
        ([None, "1", None, None], None, "1234", (0, 0)),
        ([None, "1", "missing", None, "4"], "5", "12345", (0, 0)),
        (["root", "1", "2", "3"], "missing", "1234", (0, 0)),
        (["root", "1", "root", "3"], "4", "34", (2, 0)),
        (["root", "1", "1", "missing"], "2", "12", (1, 1)),
        (["root", "1", "4", "3"], "2", "12", (0, 2)),
    ],
)
def test_a_chat_of_claude(
    parents: list[str | None], leaf: str | None, texts: str, beside: tuple[int, int]
) -> None:
    incoming = _claude(parents, leaf)
    assert "".join(_texts(incoming)) == texts
    assert _beside(incoming) == beside


def _chatgpt(
    parents: dict[str, str | None], leaf: str | None, *, dated: bool = True, linked: bool = True
) -> Incoming:
    """Messages by their names, each with its parent; `linked`: the parents name their children."""
    mapping: dict[str, Any] = {}
    for number, (name, parent) in enumerate(parents.items()):
        message: dict[str, Any] = {
            "author": {"role": ("user", "assistant")[number % 2]},
            "content": {"content_type": "text", "parts": [name]},
            "create_time": None,
        }
        if dated:
            message["create_time"] = AT + number
        children: list[str] = []
        if linked:
            children = [child for child, above in parents.items() if above == name]
        mapping[name] = {"parent": parent, "children": children, "message": message}
    return _read({"title": "t", "current_node": leaf, "mapping": mapping})


def test_without_its_current_node_a_chat_of_chatgpt_is_the_branch_of_the_latest_leaf() -> None:
    for leaf in ("missing", None):
        incoming = _chatgpt({"a": None, "b": "a", "c": "b", "d": "b"}, leaf)
        assert _texts(incoming) == ["a", "b", "d"]
        assert _beside(incoming) == (1, 0)


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("linked", [True, False])
def test_over_a_missing_node_a_chat_of_chatgpt_goes_on_with_what_stands_before(
    dated: bool, linked: bool
) -> None:
    incoming = _chatgpt(
        {"a": None, "b": "a", "d": "missing", "e": "d"}, "e", dated=dated, linked=linked
    )
    assert _texts(incoming) == ["a", "b", "d", "e"]
    assert _beside(incoming) == (0, 0)


def test_the_parent_of_a_missing_node_is_the_one_that_names_it() -> None:
    mapping = {
        "a": {"parent": None, "children": ["lost"], "message": _message("user", "a", 1)},
        "x": {"parent": "a", "children": [], "message": _message("assistant", "x", 2)},
        "d": {"parent": "lost", "children": [], "message": _message("user", "d", 3)},
    }
    incoming = _read({"title": "t", "current_node": "d", "mapping": mapping})
    assert _texts(incoming) == ["a", "d"]
    assert _beside(incoming) == (1, 0)


def _message(role: str, text: str, seconds: int) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    return {"author": {"role": role}, "content": content, "create_time": AT + seconds}


def test_a_node_of_chatgpt_without_a_place_is_counted_as_such() -> None:
    incoming = _chatgpt({"a": None, "b": "a", "x": "missing", "y": "x"}, "b")
    assert _texts(incoming) == ["a", "b"]
    assert _beside(incoming) == (0, 2)
