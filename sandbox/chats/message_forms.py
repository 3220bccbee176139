"""A message as chat clients, programs and APIs write it: who said it, its text, when, and which parts were not said.
Pure.

Tools, REST, the Python API, commands and imports read messages with `read_message`; the table of
tests/tools/test_message_forms.py holds what all of them take. Forms: OpenAI (chat completions, Responses,
Assistants), Anthropic, the AI SDK of Vercel, Gemini, LangChain, ShareGPT, and programs whose messages have a role and
a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

from sandbox.chats import left_out
from sandbox.chats.dates import DateError, milliseconds_in
from sandbox.values import JsonObject, by_name, frozen

ROLES = ("user", "assistant", "system")
ROLE_WORDS: Mapping[str, str] = by_name(
    {
        "user": (
            "user",
            "human",
            "me",
            "you",
            "you said",
            "用户",
            "用戶",
            "使用者",
            "我",
            "你",
        ),
        "assistant": (
            "assistant",
            "ai",
            "bot",
            "model",
            "chatgpt",
            "chatgpt said",
            "claude",
            "助手",
            "助理",
            "ai助手",
            "智能助手",
            "机器人",
            "機器人",
            "模型",
        ),
        "system": (
            "system",
            "narrator",
            "系统",
            "系統",
            "旁白",
        ),
    }
)
"""Words that people write for a role at the beginning of a line, in lower case."""
_ROLES_IN_MESSAGES: Mapping[str, str] = by_name(
    {
        "user": (
            "user",
            "human",
        ),
        "assistant": (
            "assistant",
            "ai",
            "model",
            "gpt",
        ),
        "system": (
            "system",
            "developer",
        ),
        "tool": (
            "tool",
            "function",
            "tool_result",
            "toolresult",
            "ipython",
        ),
    }
)
"""Words that chat clients and APIs write for a role, in lower case; `tool` is the role of what a tool gave, which was
not said. A message with another word says so: who is meant by `bot` or `char` would be a guess."""
_ROLE_FIELDS = ("role", "sender", "author", "from", "type")
"""Where a message says who wrote it; only `role` may have an unknown word."""
_TYPES_OF_LANGCHAIN = ("human", "ai")
TEXT_FIELDS = ("content", "parts", "contentParts", "text", "value")
"""Where a message has its text, or its parts; the first that is not empty counts."""
TIME_FIELDS = (
    "timestamp",
    "time",
    "date",
    "created_at",
    "createdAt",
    "create_time",
    "createTime",
    "created",
    "inserted_at",
    "sent_at",
    "send_date",
    "ts",
)
"""Where a message says when it was written; the first that has a time counts."""
_TEXTS = frozenset((None, "text", "input_text", "output_text", "main_text", "REQUEST", "RESPONSE"))
"""Kinds of parts that were said; a part of Gemini has none. Not `reasoning_text` or `thinking`: they were not heard."""
_KINDS: Mapping[str, str] = by_name(
    {
        left_out.THOUGHTS: (
            "thinking",
            "redacted_thinking",
            "think",
            "THINK",
            "reasoning",
            "reasoning_text",
        ),
        left_out.PICTURES: (
            "image",
            "image_url",
            "input_image",
            "image_file",
            "file",
            "input_file",
            "document",
            "video",
            "audio",
            "input_audio",
            "inlineData",
            "fileData",
            "inline_data",
            "file_data",
            "attachments",
            "experimental_attachments",
            "images",
            "files",
        ),
        "": (
            "step-start",
            "step-finish",
            "snapshot",
            "patch",
            "refusal",
            "info",
        ),
        left_out.TOOLS: (
            "source-url",
            "source-document",
            "citation",
        ),
        left_out.ERRORS: ("error",),
    }
)
"""Names of parts that were not said; '' are not counted. Other kinds belong to tools."""
_CALLS = frozenset(
    ("tool_calls", "tool_call_id", "function_call", "toolInvocations", "refusal", "annotations")
) | {"audio"}
"""Fields of a message that may have no text: calls of tools, and what an answer of OpenAI has beside it."""
_QUIET = frozenset(
    ("id", "object", "status", "index", "phase", "logprobs", "usage", "model", "metadata", "name")
) | frozenset(
    ("parentId", "parent_id", "updatedAt", "updated_at", "finish_reason", "stop_reason", "attached")
)
"""Fields that clients send with each message beside its text; that they are not read is not worth a word."""
_PLAIN_FIELDS = {"role", "content"}
_KNOWN = frozenset((*_ROLE_FIELDS, *TEXT_FIELDS, *TIME_FIELDS, *_CALLS, *_KINDS)) | _QUIET


@frozen
class ParsedMessage:
    """A message as it was read. `fields` has `role`, `content` and, where they are known, `timestamp` (milliseconds
    since 1970) and `name`; a value that cannot be used stays as it was given. It is None if nothing was said in the
    message. `left_out`: the names of parts that were not said. `unknown`: fields that are not read. `undated`: the
    field whose time cannot be read, and the reason."""

    fields: dict[str, Any] | None
    left_out: Sequence[str] = ()
    unknown: Sequence[str] = ()
    undated: tuple[str, str] | None = None


def role_of(word: object) -> str | None:
    """Return the role that a word means: a role of ours, or `tool` for what a tool gave, or None if it is not known."""
    if not isinstance(word, str):
        return None
    return _ROLES_IN_MESSAGES.get(word.strip().casefold())


def message_rows(value: Any) -> Any:
    """Return the list of messages that `value` holds: itself, the list in `{"messages": [...]}`, or a list of a
    single message. What is something else stays as it is."""
    if not isinstance(value, Mapping):
        return value
    rows = value.get("messages")
    if isinstance(rows, list):
        return rows
    if is_message(value):
        return [value]
    return value


def is_message(value: Any) -> bool:
    """Tell whether this JSON value says who wrote it and has a text or parts. Of values that only have a `type`, only
    the types of LangChain count: lines of transcripts have other types."""
    if not isinstance(value, Mapping):
        return False
    if not any(name in value for name in TEXT_FIELDS):
        return False
    if isinstance(value.get("role"), str) or value.get("type") in _TYPES_OF_LANGCHAIN:
        return True
    return any(role_of(value.get(name)) is not None for name in _ROLE_FIELDS if name != "type")


def read_message(row: JsonObject, zone: tzinfo | None = None) -> ParsedMessage:
    """Read a message of any known form; it has no fields if nothing in it was said, such as a call
    of a tool. `zone`: the zone of times without an offset, None for the system's."""
    # Most messages are plain, and what follows takes thirty times as long.
    if row.keys() == _PLAIN_FIELDS and row["role"] in ROLES and type(row["content"]) is str:
        return ParsedMessage(dict(row), [], [])

    role = _role_in(row)
    if role == "tool" or (role is None and _is_item_of_a_tool(row)):
        return ParsedMessage(None, [_kind_of(str(row.get("type")))])

    text_field = _text_field(row)
    content, kinds = _said_in(row.get(text_field, ""))
    kinds += [_KINDS[name] for name in row if name in _KINDS and row[name]]
    kinds = list(filter(None, kinds))
    if text_field not in row and _CALLS & row.keys():
        content = None
    if content is None:
        content = _transcript_of(row.get("audio"))
    if content is None:
        return ParsedMessage(None, kinds)

    fields: dict[str, Any] = {}
    if role is not None or "role" in row:
        fields["role"] = role or row["role"]
    if text_field in row:
        fields["content"] = content
    if row.get("name") is not None:
        fields["name"] = row["name"]

    time_field, time, reason = _time_in(row, zone)
    if time is not None:
        fields["timestamp"] = time  # milliseconds, or what was given if it cannot be read

    undated = None
    if reason:
        undated = time_field, reason

    unknown = [name for name in row if name not in _KNOWN and row[name] is not None]
    return ParsedMessage(fields, kinds, unknown, undated)


def _role_in(row: JsonObject) -> str | None:
    """Return the role in the first field that names a known one, or None if none exists or `role` names an unknown
    one."""
    for name in _ROLE_FIELDS:
        word = row.get(name)
        if isinstance(word, Mapping):
            word = word.get("role")
        role = role_of(word)
        if role is not None:
            return role
        if name == "role" and word is not None:
            return None
    return None


def _is_item_of_a_tool(row: JsonObject) -> bool:
    """Tell whether this is a call, its output or a thought between the messages of OpenAI's Responses."""
    kind = row.get("type")
    return (
        "role" not in row
        and isinstance(kind, str)
        and (kind in _KINDS or kind.endswith(("_call", "_call_output")))
    )


def _text_field(row: JsonObject) -> str:
    """Return the field with the text: the first that is not empty, or else the first that is there."""
    for name in TEXT_FIELDS:
        if row.get(name) not in (None, "", []):
            return name
    return next((name for name in TEXT_FIELDS if name in row), TEXT_FIELDS[0])


def _said_in(value: Any) -> tuple[Any, list[str]]:
    """Return the text of a content, which may have parts, and the names of its other parts. The text is None if
    nothing was said in it. A content of another kind stays as it is."""
    if isinstance(value, Mapping):
        parts = value.get("parts")
        value = parts if isinstance(parts, list) else [value]

    if not isinstance(value, list):
        return value, []
    # A list of anything else is not a list of parts, and its reader must see it as it is.
    if not all(isinstance(part, str | Mapping) for part in value):
        return value, []

    texts: list[str] = []
    kinds: list[str] = []
    for part in value:
        text, kind = _said_in_part(part)
        if text is not None:
            texts.append(text)
        elif kind:
            kinds.append(kind)

    if not texts:
        return None, kinds

    return "\n".join(texts), kinds


def _said_in_part(part: str | JsonObject) -> tuple[str | None, str]:
    """Return the text of a part that was said; else None and the name of the part."""
    if isinstance(part, str):
        return part, ""

    kind = part.get("type")
    if kind is not None:
        kind = str(kind)
    if part.get("thought") is True:
        return None, left_out.THOUGHTS
    if part.get("synthetic") is True or part.get("ignored") is True:
        return None, left_out.FOR_THE_MODEL

    if kind in _TEXTS:
        text = part.get("text", part.get("content"))
        if isinstance(text, Mapping):  # of OpenAI's Assistants
            text = text.get("value")
        if isinstance(text, str):
            return text, ""

    transcript = _transcript_of(part)
    if transcript is not None:
        return transcript, ""
    if kind is None:
        kind = str(next(iter(part), ""))

    return None, _kind_of(kind)


def _transcript_of(part: Any) -> str | None:
    """Return what was spoken in a recording, if that is written beside it."""
    if isinstance(part, Mapping) and isinstance(part.get("transcript"), str):
        return str(part["transcript"])
    return None


def _kind_of(kind: str) -> str:
    return _KINDS.get(kind, left_out.TOOLS)


def _time_in(row: JsonObject, zone: tzinfo | None) -> tuple[str, Any, str]:
    """Return the field with the time, the milliseconds since 1970, and '' or why the field cannot be read: then
    `timestamp` keeps what was given. The first field that can be read counts."""
    unread: tuple[str, Any, str] = ("timestamp", None, "")
    for name in TIME_FIELDS:
        value = row.get(name)
        if isinstance(value, Mapping):  # opencode
            value = value.get("created")
        if value is None or value == "":
            continue
        try:
            return name, milliseconds_in(name, value, zone), ""
        except DateError as error:
            if not unread[2]:
                unread = (name, value if name == "timestamp" else None, str(error))
    return unread
