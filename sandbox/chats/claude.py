"""A conversation of Claude, as its data export has it: `chat_messages`, each with `sender`, `created_at` and blocks of
`content`; older files have only its `text`. Pure.

A long paste is an attachment there, of which the export has the text (`extracted_content`); of pictures and other files
it has only the names. Blocks were seen in public readers of the export and in schemas that were drawn from real ones
(from 2023 to 2026); Anthropic does not describe the form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.chats import left_out
from sandbox.chats.messages import Message, Reading
from sandbox.locale import _

_ROLES = {"human": "user", "assistant": "assistant"}
_BLOCKS = {
    "thinking": left_out.THOUGHTS,
    "redacted_thinking": left_out.THOUGHTS,
    "tool_use": left_out.TOOLS,
    "server_tool_use": left_out.TOOLS,
    "image": left_out.PICTURES,
    "document": left_out.PICTURES,
}
"""What blocks without words of the chat are called."""
_BLOCKS_WITHOUT_WORDS = frozenset(("tool_result", "token_budget", "flag"))
"""A result is counted with its call."""
_PROSE = frozenset((None, "", "text/markdown", "text/plain"))
"""Types of artifacts that are texts; the others are programs, pages and pictures."""
_PROSE_ENDINGS = (".md", ".txt", ".markdown")
_PASTED = "paste"
"""How the name of an attachment begins that the program made of a paste."""


def read(conversation: Mapping[str, Any]) -> Reading:
    """The messages of the branch that ends with the last message, where messages name their parents; what else the
    conversation holds is counted."""
    reading = Reading()
    rows = [row for row in conversation["chat_messages"] if isinstance(row, Mapping)]
    reading.left_out[left_out.unknown_kind("message")] += len(conversation["chat_messages"]) - len(rows)
    branch = _branch(rows, conversation.get("current_leaf_message_uuid"))
    for row in branch:
        _read_message(row, conversation.get("name"), reading)
    chosen = set(map(id, branch))
    reading.left_out[left_out.BRANCHES] += sum(id(row) not in chosen for row in rows)
    reading.left_out[left_out.CHAT_SUMMARIES] += bool(conversation.get("summary"))
    return reading


def _branch(rows: Sequence[Mapping[str, Any]], leaf: Any) -> Sequence[Mapping[str, Any]]:
    by_id = {row["uuid"]: row for row in rows if isinstance(row.get("uuid"), str)}
    if not any(str(row.get("parent_message_uuid")) in by_id for row in rows):
        return rows
    last = by_id.get(str(leaf), rows[-1])
    branch = [last]
    while (parent := by_id.pop(str(branch[-1].get("parent_message_uuid")), None)) is not None:
        branch.append(parent)
    return branch[::-1]


def _read_message(row: Mapping[str, Any], title: Any, reading: Reading) -> None:
    """Add a message with words; its other parts are counted by their kind."""
    role = _ROLES.get(str(row.get("sender")))
    if role is None:
        reading.left_out[left_out.unknown_kind(row.get("sender"))] += 1
        return
    blocks = [block for block in _list(row, "content") if isinstance(block, Mapping)]
    texts = [text for block in blocks if (text := _text_of(block, reading))]
    kinds = {str(block.get("type")) for block in blocks}
    reading.left_out[left_out.TOOLS] += "tool_result" in kinds and not any("tool_use" in kind for kind in kinds)
    if not texts and kinds <= {"text"} and isinstance(row.get("text"), str):
        texts = [row["text"]]
    attached = _attached(row, reading)
    text = "\n".join(texts)
    if not text.strip() and not attached:
        return
    message: Message = {"role": role, "content": text}
    if attached:
        message["attached"] = attached
    reading.add(message, _("a message of {title!r}", str(title or "")[:60]), "created_at", row.get("created_at"))


def _text_of(block: Mapping[str, Any], reading: Reading) -> str:
    """What a block says; a block without words is counted."""
    kind = block.get("type")
    text = block.get("text")
    if kind in ("text", "voice_note") and isinstance(text, str):
        return text
    document = _document(block) if kind == "tool_use" else None
    if document is not None:
        reading.left_out[document.called] += not document.text
        return document.text
    if kind in _BLOCKS:
        reading.left_out[_BLOCKS[kind]] += 1
    elif kind not in _BLOCKS_WITHOUT_WORDS and kind != "text":
        reading.left_out[left_out.unknown_kind(kind)] += 1
    return ""


class _Document:
    """A text that the model wrote beside the chat: its words, or, if they do not come, what it is called."""

    __slots__ = ("called", "text")

    def __init__(self, text: str, called: str = "") -> None:
        self.text = text
        self.called = called


def _document(block: Mapping[str, Any]) -> _Document | None:
    """The artifact, or file, that this call of a tool made or changed; None: it is another call."""
    arguments = block.get("input")
    fields: Mapping[str, Any] = arguments if isinstance(arguments, Mapping) else {}
    name = block.get("name")
    if name == "artifacts":
        written, is_prose = fields.get("content"), fields.get("type") in _PROSE
        is_whole = fields.get("command") in ("create", "rewrite")
    elif name == "create_file":
        written, is_prose = fields.get("file_text"), str(fields.get("path")).endswith(_PROSE_ENDINGS)
        is_whole = True
    else:
        return None
    if not is_whole or not isinstance(written, str) or not written.strip():
        return _Document("", left_out.REVISIONS)
    if not is_prose:
        return _Document("", left_out.CODE)
    title = fields.get("title")
    return _Document(f"{title}\n\n{written}" if isinstance(title, str) and title else written)


def _attached(row: Mapping[str, Any], reading: Reading) -> list[str]:
    """The texts of what is attached to a message. What has no text is counted; a file whose text is an attachment is
    not counted again."""
    texts: list[str] = []
    names: set[Any] = set()
    for attachment in _list(row, "attachments"):
        fields = attachment if isinstance(attachment, Mapping) else {}
        text, name = fields.get("extracted_content"), fields.get("file_name")
        if not isinstance(text, str) or not text.strip():
            reading.left_out[left_out.PICTURES] += 1
            continue
        names.add(name)
        is_named = isinstance(name, str) and name and not name.lower().startswith(_PASTED)
        texts.append(f"{name}\n{text}" if is_named else text)
    files = [file for name in ("files", "sync_sources") for file in _list(row, name)]
    reading.left_out[left_out.PICTURES] += sum(
        not isinstance(file, Mapping) or file.get("file_name") not in names for file in files
    )
    return texts


def _list(row: Mapping[str, Any], name: str) -> list[Any]:
    value = row.get(name)
    return value if isinstance(value, list) else []
