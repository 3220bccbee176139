"""A conversation of ChatGPT, as its data export has it: a tree (`mapping`) with a node for each message. Pure.

A node has `parent` and `children`. A message that is edited or answered again makes a new branch; the current branch
leads from `current_node` to the root. Times are seconds since 1970. Kinds of content were seen in public readers of the
export and in schemas that were drawn from real ones (from 2023 to 2026); OpenAI does not describe the form.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from languages import _
from sandbox.chats import left_out
from sandbox.chats.message_forms import ROLES
from sandbox.chats.messages import Message, ParsedChat
from sandbox.values import JsonObject, list_in, mapping_in, text_in

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
_TEXTS = frozenset(("text", "multimodal_text"))
_CANVAS = "canmore."
_CREATE_CANVAS = "canmore.create_textdoc"


def read(conversation: JsonObject) -> ParsedChat:
    """Read the messages of the current branch, or of the branch with the newest message; what else the tree holds is
    counted."""
    reading = ParsedChat()
    entries = mapping_in(conversation, "mapping")
    nodes = {name: node for name, node in entries.items() if isinstance(node, Mapping)}
    leaf = conversation.get("current_node")
    if not isinstance(leaf, str) or leaf not in nodes:
        leaf = _latest_leaf(nodes)
    branch = left_out.branch_to(leaf, _Parents(nodes).of)
    location = _("a message of {title!r}", text_in(conversation, "title")[:60])
    for name in branch:
        with reading.record(location):
            _read_message(mapping_in(nodes[name], "message"), location, reading)
    reading.left_out.update(_count_off_branch(nodes, branch))
    return reading


class _Parents:
    """The node before each node, also where the node that it names is not in the file."""

    def __init__(self, nodes: Mapping[str, JsonObject]) -> None:
        """Index the nodes: which node names a child, which comes before it in the file, and when it
        was written."""
        self._nodes = nodes
        self._parent_by_child: dict[str, str] = {}
        for name, node in nodes.items():
            for child in list_in(node, "children"):
                if isinstance(child, str):
                    self._parent_by_child[child] = name
        names = list(nodes)
        self._earlier = dict(zip(names[1:], names, strict=False))
        self._by_time = sorted(
            (_seconds(mapping_in(node, "message")), name) for name, node in nodes.items()
        )

    def of(self, name: str) -> str | None:
        """Return the parent; if it is not in the file, the node that names it as a child, or else the newest node
        that is older. Return None if this is the root, or nothing comes before it."""
        parent = self._nodes[name].get("parent")
        if not isinstance(parent, str):
            return None
        if parent in self._nodes:
            return parent
        if parent in self._parent_by_child:
            return self._parent_by_child[parent]
        seconds = _seconds(mapping_in(self._nodes[name], "message"))
        if seconds > 0:
            return self._newest_before(seconds)
        return self._earlier.get(name)

    def _newest_before(self, seconds: float) -> str | None:
        """Return the newest node that is older than this time, of those whose time is known. Return
        None if none exists."""
        index = bisect_left(self._by_time, (seconds, ""))
        if not index:
            return None
        older_seconds, older_name = self._by_time[index - 1]
        if older_seconds <= 0:
            return None
        return older_name


def _count_off_branch(nodes: Mapping[str, JsonObject], branch: Sequence[str]) -> Counter[str]:
    """Count the nodes that hold something and are not on the branch, by what the report calls
    them."""
    positions = {name: position for position, name in enumerate(nodes)}
    parents: list[int | None] = []
    begins: list[bool] = []
    for node in nodes.values():
        parent = node.get("parent")
        begins.append(not isinstance(parent, str))
        parents.append(positions.get(parent) if isinstance(parent, str) else None)
    on_branch = [positions[name] for name in branch]
    called = left_out.beside_the_branch(parents, begins, on_branch)
    counts: Counter[str] = Counter()
    for name, node in nodes.items():
        # A node that holds nothing is not counted, but others may be below it.
        if positions[name] in called and _holds_something(mapping_in(node, "message")):
            counts[called[positions[name]]] += 1
    return counts


def _latest_leaf(nodes: Mapping[str, JsonObject]) -> str | None:
    """Return the leaf with the newest message. Return None if there is no leaf."""
    latest: str | None = None
    latest_seconds = -1.0
    for name, node in nodes.items():
        if _has_child_in(node, nodes):
            continue
        seconds = _seconds(mapping_in(node, "message"))
        if seconds > latest_seconds:
            latest = name
            latest_seconds = seconds
    return latest


def _has_child_in(node: JsonObject, nodes: JsonObject) -> bool:
    children = [child for child in list_in(node, "children") if isinstance(child, str)]
    return any(child in nodes for child in children)


def _seconds(message: JsonObject) -> float:
    """Return when a message of a tree was written, or 0 if it is not known."""
    time = message.get("create_time")
    if not isinstance(time, int | float):
        return 0
    return time


def _holds_something(message: JsonObject) -> bool:
    """Tell whether a message holds more than the name of its kind: roots and hidden system messages are empty."""
    content = mapping_in(message, "content")
    values = [content[name] for name in content.keys() - _WITHOUT_WORDS]
    return any(value not in (None, "", [], [""]) for value in values)


def _read_message(message: JsonObject, location: str, reading: ParsedChat) -> None:
    """Add a message that a person sees as a text; any other message is counted by its kind."""
    role = mapping_in(message, "author").get("role")
    kind = mapping_in(message, "content").get("content_type")
    recipient = text_in(message, "recipient") or "all"
    is_text = kind in _TEXTS and recipient == "all" and not _is_hidden(message)
    if role == "assistant" and recipient.startswith(_CANVAS):
        _read_canvas(message, recipient, location, reading)
    elif role in ROLES and is_text:
        _read_words(message, location, reading)
    elif _holds_something(message):
        reading.left_out[_kind_left_out(message)] += 1


def _is_hidden(message: JsonObject) -> bool:
    metadata = mapping_in(message, "metadata")
    hidden = metadata.get("is_visually_hidden_from_conversation") or metadata.get(
        "is_user_system_message"
    )
    return bool(hidden)


def _kind_left_out(message: JsonObject) -> str:
    """Return what the report calls a message that is not a text of the chat."""
    kind = mapping_in(message, "content").get("content_type")
    if mapping_in(message, "author").get("role") == "tool":
        return left_out.TOOLS
    if kind in _KINDS:
        return _KINDS[kind]
    if _is_hidden(message):
        return left_out.FOR_THE_MODEL
    if kind in _TEXTS:
        return left_out.TOOLS  # it speaks to a tool
    return left_out.unknown_kind(kind)


def _read_words(message: JsonObject, location: str, reading: ParsedChat) -> None:
    """Add the texts of a message to `reading`, if it has any, and count its pictures and files. A
    recording is not counted where its transcript is a text beside it."""
    texts: list[str] = []
    assets: list[JsonObject] = []
    for part in list_in(mapping_in(message, "content"), "parts"):
        text = _text_of(part)
        if text:
            texts.append(text)
        elif isinstance(part, Mapping):
            assets.append(part)
    if texts:
        # A spoken part has its transcript beside it.
        assets = [asset for asset in assets if "audio" not in str(asset.get("content_type"))]
    attachments = list_in(mapping_in(message, "metadata"), "attachments")
    # A picture that the user uploaded is both a part and an attachment.
    reading.left_out[left_out.PICTURES] += max(len(attachments), len(assets))
    if texts:
        _add(message, "\n".join(texts), location, reading)


def _text_of(part: Any) -> str:
    """Return the text of a part of a message; '' for a picture, a file or a recording."""
    text = part.get("text") if isinstance(part, Mapping) else part
    if not isinstance(text, str):
        return ""
    return text


def _read_canvas(message: JsonObject, recipient: str, location: str, reading: ParsedChat) -> None:
    """Add a text that the model wrote on a canvas as what it said; a program is counted, and so is each later change."""
    document = _arguments(mapping_in(message, "content"))
    text = text_in(document, "content")
    if recipient != _CREATE_CANVAS or not text:
        reading.left_out[left_out.REVISIONS] += 1
        return
    if text_in(document, "type").startswith("code"):
        reading.left_out[left_out.CODE] += 1
        return
    title = text_in(document, "name")
    if title:
        text = f"{title}\n\n{text}"
    _add(message, text, location, reading)


def _arguments(content: JsonObject) -> JsonObject:
    """Return what a call of a tool says, which is JSON in the text of its message; empty if it is not an object."""
    texts = [content.get("text"), *list_in(content, "parts")]
    text = "".join(part for part in texts if isinstance(part, str))
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(arguments, Mapping):
        return {}
    return arguments


def _add(message: JsonObject, text: str, location: str, reading: ParsedChat) -> None:
    """Add `text` as what the author of the message said, at its time if that is known."""
    role = mapping_in(message, "author")["role"]
    row: Message = {"role": role, "content": text}
    seconds = _seconds(message)
    time_ms = None
    if seconds > 0:
        time_ms = seconds * 1000
    reading.add(row, location, "create_time", time_ms)
