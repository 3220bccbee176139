"""A conversation of ChatGPT, as its data export has it: a tree (`mapping`) with a node for each message. Pure.

A node has `parent` and `children`. A message that is edited or answered again makes a new branch; the current branch
leads from `current_node` to the root. Times are seconds since 1970. Kinds of content were seen in public readers of the
export and in schemas that were drawn from real ones (from 2023 to 2026); OpenAI does not describe the form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sandbox.chats import left_out
from sandbox.chats.messages import ROLES, Message, Reading
from sandbox.locale import _

_KINDS = {
    "thoughts": left_out.THOUGHTS,
    "reasoning_recap": left_out.THOUGHTS,
    "user_editable_context": left_out.CUSTOM_INSTRUCTIONS,
    "model_editable_context": left_out.MODEL_MEMORY,
    "code": left_out.TOOLS,
    "execution_output": left_out.TOOLS,
    "computer_output": left_out.TOOLS,
    "tether_quote": left_out.TOOLS,
    "tether_browsing_display": left_out.TOOLS,
    "sonic_webpage": left_out.TOOLS,
    "citable_code_output": left_out.TOOLS,
    "app_pairing_content": left_out.TOOLS,
    "super_widget": left_out.TOOLS,
    "system_error": left_out.ERRORS,
}
"""What the kinds of content that hold no words of the chat are called."""
_WITHOUT_WORDS = frozenset(("content_type", "language", "response_format_name"))
"""Fields of a content that say what it is."""
_CREATE_CANVAS, _CANVAS = "canmore.create_textdoc", "canmore."


def read(conversation: Mapping[str, Any]) -> Reading:
    """The messages of the current branch; what else the tree holds is counted."""
    reading = Reading()
    nodes: Mapping[str, Any] = conversation["mapping"]
    branch = _branch(nodes, conversation.get("current_node") or _latest_leaf(nodes))
    for name in branch:
        _read_message(nodes[name].get("message"), conversation.get("title"), reading)
    for name in nodes.keys() - set(branch):
        node = nodes[name]
        message = node.get("message") if isinstance(node, Mapping) else None
        reading.left_out[left_out.BRANCHES] += _holds_something(message)
    return reading


def _branch(nodes: Mapping[str, Any], leaf: Any) -> list[str]:
    """The names of the nodes from the root to this one."""
    names: dict[str, None] = {}
    while isinstance(leaf, str) and leaf not in names and isinstance(nodes.get(leaf), Mapping):
        names[leaf] = None
        leaf = nodes[leaf].get("parent")
    return list(names)[::-1]


def _latest_leaf(nodes: Mapping[str, Any]) -> str | None:
    """The leaf with the newest message, for files without a current branch."""
    leaves = [name for name, node in nodes.items() if isinstance(node, dict) and not node.get("children")]
    return max(leaves, key=lambda name: _seconds(nodes[name].get("message")), default=None)


def _seconds(message: Any) -> float:
    """When a message of a tree was written; 0: this is not known."""
    time = message.get("create_time") if isinstance(message, dict) else None
    return time if isinstance(time, int | float) else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _holds_something(message: Any) -> bool:
    """Whether a message holds more than the name of its kind: roots and hidden system messages are empty."""
    content = _mapping(_mapping(message).get("content"))
    values = [value for name, value in content.items() if name not in _WITHOUT_WORDS]
    return any(value not in (None, "", [], [""]) for value in values)


def _read_message(message: Any, title: Any, reading: Reading) -> None:
    """Add a message that a person sees as a text; another one is counted by its kind."""
    if not isinstance(message, Mapping):
        return
    author = _mapping(message.get("author"))
    content = _mapping(message.get("content"))
    metadata = _mapping(message.get("metadata"))
    kind = content.get("content_type")
    hidden = metadata.get("is_visually_hidden_from_conversation") or metadata.get("is_user_system_message")
    recipient = message.get("recipient") or "all"
    if author.get("role") == "assistant" and str(recipient).startswith(_CANVAS):
        _read_canvas(message, str(recipient), reading)
    elif author.get("role") in ROLES and kind in ("text", "multimodal_text") and recipient == "all" and not hidden:
        _read_words(message, title, reading)
    elif _holds_something(message):
        reading.left_out[_called(author.get("role"), kind, hidden=bool(hidden))] += 1


def _called(role: Any, kind: Any, *, hidden: bool) -> str:
    """What the report calls a message that is not a text of the chat."""
    if role == "tool":
        return left_out.TOOLS
    if kind in _KINDS:
        return _KINDS[kind]
    if hidden:
        return left_out.FOR_THE_MODEL
    if kind in ("text", "multimodal_text"):
        return left_out.TOOLS  # it speaks to a tool
    return left_out.unknown_kind(kind)


def _read_words(message: Mapping[str, Any], title: Any, reading: Reading) -> None:
    parts = message["content"].get("parts")
    rows = parts if isinstance(parts, list) else []
    # A spoken part has its transcript; a picture has no text.
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in rows]
    text = "\n".join(part for part in texts if isinstance(part, str) and part)
    attachments = _mapping(message.get("metadata")).get("attachments")
    files = len(attachments) if isinstance(attachments, list) else 0
    # A picture that the user uploaded is both a part and an attachment.
    reading.left_out[left_out.PICTURES] += max(files, _assets(rows, transcribed=bool(text)))
    if text:
        _add(message, text, title, reading)


def _assets(parts: list[Any], *, transcribed: bool) -> int:
    """How many parts are pictures, files, or recordings of which there is no transcript."""
    kinds = [str(part.get("content_type")) for part in parts if isinstance(part, Mapping) and not part.get("text")]
    return sum(not (transcribed and "audio" in kind) for kind in kinds)


def _read_canvas(message: Mapping[str, Any], recipient: str, reading: Reading) -> None:
    """A text that the model wrote on a canvas is what it said; a program is counted, and so is each later change."""
    content = _mapping(message.get("content"))
    parts = content.get("parts")
    texts = [content.get("text"), *(parts if isinstance(parts, list) else ())]
    text = "".join(part for part in texts if isinstance(part, str))
    try:
        document = _mapping(json.loads(text))
    except (ValueError, RecursionError):
        document = {}
    written = document.get("content")
    if recipient != _CREATE_CANVAS or not isinstance(written, str):
        reading.left_out[left_out.REVISIONS] += 1
    elif str(document.get("type")).startswith("code"):
        reading.left_out[left_out.CODE] += 1
    elif written.strip():
        heading = document.get("name")
        lines = [heading, written] if isinstance(heading, str) and heading else [written]
        _add(message, "\n\n".join(lines), None, reading)


def _add(message: Mapping[str, Any], text: str, title: Any, reading: Reading) -> None:
    row: Message = {"role": message["author"]["role"], "content": text}
    seconds = _seconds(message)
    place = _("a message of {title!r}", str(title or "")[:60])
    reading.add(row, place, "create_time", seconds * 1000 if seconds > 0 else None)
