"""A conversation of Claude, as its data export has it: `chat_messages`, each with `sender`, `created_at` and blocks of
`content`; older files have only its `text`. Pure.

A long paste is an attachment there, of which the export has the text (`extracted_content`); of pictures and other files
it has only the names. Blocks were seen in public readers of the export and in schemas that were drawn from real ones
(from 2023 to 2026); Anthropic does not describe the form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from languages import _
from sandbox.chats import left_out
from sandbox.chats.message_forms import role_of
from sandbox.chats.messages import Message, ParsedChat
from sandbox.values import JsonObject, list_in, mapping_in, text_in

_BLOCKS = {
    "thinking": left_out.THOUGHTS,
    "redacted_thinking": left_out.THOUGHTS,
    "tool_use": left_out.TOOLS,
    "server_tool_use": left_out.TOOLS,
    "image": left_out.PICTURES,
    "document": left_out.PICTURES,
}
"""What blocks without words of the chat are called."""
_TEXTS = frozenset(("text", "voice_note"))
_CALLS = frozenset(("tool_use", "server_tool_use"))
_WRITERS = frozenset(("artifacts", "create_file"))
"""Tools with which the model writes a text beside the chat."""
_BLOCKS_WITHOUT_WORDS = frozenset(("tool_result", "token_budget", "flag"))
"""A result is counted with its call."""
_PROSE = frozenset((None, "", "text/markdown", "text/plain"))
"""Types of artifacts that are texts; the others are programs, pages and pictures."""
_PROSE_ENDINGS = (".md", ".txt", ".markdown")
_PASTED = "paste"
"""How the name of an attachment begins that the program made of a paste."""


def read(conversation: JsonObject) -> ParsedChat:
    """Read the messages of the branch that ends with the last message, where messages name their parents; what else
    the conversation holds is counted. Messages come in the order of their times: a message whose parent is not in the
    file continues the message before it."""
    reading = ParsedChat()
    all_rows = list_in(conversation, "chat_messages")
    rows = [row for row in all_rows if isinstance(row, Mapping)]
    parents = _parents(rows)
    branch = _branch(rows, parents, conversation.get("current_leaf_message_uuid"))
    location = _("a message of {title!r}", text_in(conversation, "name")[:60])
    for position in branch:
        with reading.record(location):
            _read_message(rows[position], location, reading)

    reading.left_out[left_out.unknown_kind("message")] += len(all_rows) - len(rows)
    begins = [_begins(rows, position) for position in range(len(rows))]
    reading.left_out.update(left_out.beside_the_branch(parents, begins, branch).values())
    if text_in(conversation, "summary"):
        reading.left_out[left_out.CHAT_SUMMARIES] += 1

    return reading


def _parents(rows: Sequence[JsonObject]) -> list[int | None]:
    """Return the position of the parent of each message, or None if it is not in the file."""
    positions = {
        row["uuid"]: position
        for position, row in enumerate(rows)
        if isinstance(row.get("uuid"), str)
    }
    return [positions.get(str(row.get("parent_message_uuid"))) for row in rows]


def _branch(rows: Sequence[JsonObject], parents: Sequence[int | None], leaf: Any) -> list[int]:
    """Return the positions of the messages from the first one to this leaf, or to the last message."""
    if all(parent is None for parent in parents):
        return list(range(len(rows)))
    last = len(rows) - 1
    if leaf:
        leaves = [index for index, row in enumerate(rows) if row.get("uuid") == leaf]
        if leaves:
            last = leaves[-1]

    def before(position: int) -> int | None:
        parent = parents[position]
        if parent is None and not _begins(rows, position):
            return position - 1
        return parent

    return left_out.branch_to(last, before)


def _begins(rows: Sequence[JsonObject], position: int) -> bool:
    """Tell whether the chat begins with this message: it is the first message, or an edited first message, which
    names the same parent."""
    root = rows[0].get("parent_message_uuid")
    return position == 0 or (bool(root) and rows[position].get("parent_message_uuid") == root)


def _read_message(row: JsonObject, location: str, reading: ParsedChat) -> None:
    """Add a message with words; its other parts are counted by their kind."""
    role = role_of(row.get("sender"))
    if role not in ("user", "assistant"):
        reading.left_out[left_out.unknown_kind(row.get("sender"))] += 1
        return
    text = _words(row, reading)
    attached = _attached(row, reading)
    if not text.strip() and not attached:
        return
    message: Message = {"role": role, "content": text}
    if attached:
        message["attached"] = attached
    reading.add(message, location, "created_at", row.get("created_at"))


def _words(row: JsonObject, reading: ParsedChat) -> str:
    """Return what the blocks of a message say; of an older one, which has no blocks, its text."""
    blocks = [block for block in list_in(row, "content") if isinstance(block, Mapping)]
    kinds = {str(block.get("type")) for block in blocks}
    texts = [_text_of(block, reading) for block in blocks]
    if "tool_result" in kinds and not kinds & _CALLS:
        reading.left_out[left_out.TOOLS] += 1
    if not any(texts) and kinds <= {"text"}:
        return text_in(row, "text")
    return "\n".join(text for text in texts if text)


def _text_of(block: JsonObject, reading: ParsedChat) -> str:
    """Return what a block says; a block without words is counted."""
    kind = block.get("type")
    if kind in _TEXTS:
        return text_in(block, "text")
    if kind == "tool_use" and block.get("name") in _WRITERS:
        return _document(block, reading)
    if kind in _BLOCKS:
        reading.left_out[_BLOCKS[kind]] += 1
    elif kind not in _BLOCKS_WITHOUT_WORDS:
        reading.left_out[left_out.unknown_kind(kind)] += 1
    return ""


def _document(block: JsonObject, reading: ParsedChat) -> str:
    """Return the text of an artifact or file that the model wrote beside the chat. A program is counted, and so is a
    later change."""
    arguments = mapping_in(block, "input")
    if block.get("name") == "artifacts":
        text = text_in(arguments, "content")
        is_prose = arguments.get("type") in _PROSE
        is_whole = arguments.get("command") in ("create", "rewrite")
    else:
        text = text_in(arguments, "file_text")
        is_prose = text_in(arguments, "path").endswith(_PROSE_ENDINGS)
        is_whole = True

    # Only a whole text can be read; a change says nothing without the text before it.
    if not is_whole or not text:
        reading.left_out[left_out.REVISIONS] += 1
        return ""

    if not is_prose:
        reading.left_out[left_out.CODE] += 1
        return ""

    title = text_in(arguments, "title")
    if not title:
        return text

    return f"{title}\n\n{text}"


def _attached(row: JsonObject, reading: ParsedChat) -> list[str]:
    """Return the texts of what is attached to a message. What has no text is counted in `reading.left_out`; a file
    whose text is an attachment is not counted again."""
    texts: list[str] = []
    names: set[str] = set()
    for attachment in list_in(row, "attachments"):
        fields = attachment if isinstance(attachment, Mapping) else {}
        text = text_in(fields, "extracted_content")
        name = text_in(fields, "file_name")
        if not text:
            reading.left_out[left_out.PICTURES] += 1
        elif not name or name.lower().startswith(_PASTED):
            texts.append(text)
        else:
            names.add(name)
            texts.append(f"{name}\n{text}")

    for file in [*list_in(row, "files"), *list_in(row, "sync_sources")]:
        if not isinstance(file, Mapping) or file.get("file_name") not in names:
            reading.left_out[left_out.PICTURES] += 1

    return texts
