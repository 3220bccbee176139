"""Chats of programs that keep them as a list or a tree of messages, in one description for each program. Pure.

A description says where in the file the chats are, where in a chat the messages, and which of them are shown; the
messages are read by message_forms.py. Forms were seen in the code with which these programs export, in July to
November 2026; the forms of DeepSeek and AI Studio, whose code is not public, in public readers of their exports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from languages import _
from sandbox.chats import left_out
from sandbox.chats.message_forms import is_message, read_message
from sandbox.chats.messages import Message, ParsedChat, read_messages
from sandbox.values import frozen, list_in, mapping_in, text_in

Row = Mapping[str, Any]


@frozen
class _Shape:
    """How a program keeps chats. Paths have dots between the names of fields; `*` matches each item of a list or
    value of an object, `session:*` each field that begins so, and `0` the first items of a list. `mark`: a path that
    only a file of this program has, or an item of its list. `chats`: from the file to each chat. `messages`: from a
    chat to its messages, a list or an object. `leaf`: from a chat to the id of the last message that is shown. `id`
    and `parent`: fields of a message; without `parent`, all messages are one branch. `is_list`: a message that names
    no parent follows the message before it. `children`: the field with the messages below a message. `blocks`: from
    the file to parts of messages, which messages name by their ids. `of_row` makes messages of a row and of these
    parts. `by`: fields of a message that tell its chat, where the messages of all chats are one list.
    `only_last_answer`: the model writes between calls of tools, and the last text of a turn is its answer."""

    program: str
    mark: str
    messages: str = "messages"
    chats: str = ""
    leaf: str = ""
    id: str = "id"
    parent: str = ""
    is_list: bool = False
    children: str = ""
    blocks: str = ""
    of_row: Callable[[Row, Row], Sequence[Row]] = lambda row, _blocks: [row]
    by: Sequence[str] = ()
    only_last_answer: bool = False


@frozen
class Chat:
    """A chat in the file of a program. `blocks`: parts of messages of this file, by their id."""

    shape: _Shape
    fields: Row
    blocks: Row

    @property
    def title(self) -> str:
        """Its title; empty if it has none."""
        named = {**mapping_in(self.fields, "info"), **self.fields}
        titles = [text_in(named, name) for name in ("title", "name", "topic", "userTitle")]
        return next(filter(None, titles), "")


def _of_librechat(row: Row, _blocks: Row) -> Sequence[Row]:
    role = "user" if row.get("isCreatedByUser") else "assistant"
    return [{**row, "role": role}]


def _of_deepseek(row: Row, _blocks: Row) -> Sequence[Row]:
    """Return the message of a node, or nothing for a node without a text."""
    message = mapping_in(row, "message")
    parts = list_in(message, "fragments")
    if not parts:
        return []
    kinds = [part.get("type") for part in parts if isinstance(part, Mapping)]
    role = "user" if "REQUEST" in kinds else "assistant"
    return [{"role": role, "content": parts, "timestamp": message.get("inserted_at")}]


def _of_cherry_studio(row: Row, blocks: Row) -> Sequence[Row]:
    parts = [blocks[name] for name in map(str, list_in(row, "blocks")) if name in blocks]
    return [{**row, "content": parts or row.get("content")}]


def _of_opencode(row: Row, _blocks: Row) -> Sequence[Row]:
    return [{**mapping_in(row, "info"), "content": list_in(row, "parts")}]


def _of_big_agi(row: Row, _blocks: Row) -> Sequence[Row]:
    parts: list[Row] = []
    for fragment in list_in(row, "fragments"):
        part = mapping_in(fragment, "part")
        parts.append({**part, "type": part.get("pt")})
    return [{**row, "content": parts or row.get("text")}]


def _of_vs_code(row: Row, _blocks: Row) -> Sequence[Row]:
    """Return the prompt and the answer of a request. A part of an answer that has no kind is Markdown."""
    message = row.get("message")
    prompt = message.get("text") if isinstance(message, Mapping) else message
    parts: list[Any] = []
    for part in list_in(row, "response"):
        if isinstance(part, Mapping) and part.get("kind") in (None, "markdownContent"):
            part = {"text": part.get("value", mapping_in(part, "content").get("value"))}
        parts.append(part)
    shared = {name: row.get(name) for name in ("timestamp", _REMOVED)}
    return [
        {"role": "user", "content": prompt, **shared},
        {"role": "assistant", "content": parts, **shared},
    ]


def _of_ai_studio(row: Row, _blocks: Row) -> Sequence[Row]:
    return [{**row, "content": [{**row, "thought": row.get("isThought")}]}]


_TAG_OF_CLINE = re.compile(r"(?<!`)<(?P<tag>task|feedback|answer|[a-z]+(?:_[a-z]+)+)>")
"""What Cline and Roo Code put around the words of the user, and how the call of a tool begins that a model without tools
writes as text."""
_SAID_IN = frozenset(("task", "feedback", "user_message", "answer"))
_SAID_WITHIN = {"attempt_completion": "result", "ask_followup_question": "question"}
"""The calls in which something is said, each with the tag around it."""
_RESULT_OF_CLINE = re.compile(
    r"\[(?:\w+(?: for .*?)?\] Result:|ERROR\] You did not use a tool)", re.DOTALL
)
"""How a text begins that the program wrote for the model in the place of the user."""


def _of_cline(row: Row, _blocks: Row) -> Sequence[Row]:
    """Return the message without the results of tools, and without tags and what they hold that nobody said."""
    content = row.get("content")
    parts = content if isinstance(content, list) else [content]
    messages: list[Any] = []
    for part in parts:
        text = part.get("text") if isinstance(part, Mapping) else part
        if not isinstance(text, str):
            messages.append(part)
        elif not _RESULT_OF_CLINE.match(text.lstrip()):
            messages.append(_without_tags(text, _TAG_OF_CLINE, _words_of_cline).strip())
    return [{**row, "content": [part for part in messages if part]}]


def _words_of_cline(opening: re.Match[str], text: str) -> str:
    """Return what was said in a part between tags; '' if it is a call, or the state of the editor."""
    tag = opening["tag"]
    if tag in _SAID_IN:
        return text
    within = _SAID_WITHIN.get(tag)
    if within is None:
        return ""
    return text.partition(f"<{within}>")[2].partition(f"</{within}>")[0]


_MOST_UNCLOSED = 50
"""Different tags that are never closed, after which the rest of a text stays as it is."""


def _without_tags(
    text: str, opening: re.Pattern[str], replacement: Callable[[re.Match[str], str], str]
) -> str:
    """Replace each part between an opening tag and its closing one. `opening` names the tag; `replacement` gets its
    match and the text of the part. The text is read once, whatever tags are never closed in it."""
    pieces: list[str] = []
    unclosed: set[str] = set()
    kept_from = 0
    position = 0
    while len(unclosed) < _MOST_UNCLOSED:
        match = opening.search(text, position)
        if match is None:
            break
        position = match.end()
        closing = f"</{match['tag']}>"
        # Looked for once in the rest of the text and not found, so it cannot be closed here either.
        if closing in unclosed:
            continue
        end = text.find(closing, position)
        if end < 0:
            unclosed.add(closing)
            continue
        pieces += [text[kept_from : match.start()], replacement(match, text[position:end])]
        kept_from = position = end + len(closing)

    return "".join((*pieces, text[kept_from:]))


_REMOVED = "shouldBeRemovedOnSend"
"""The field of a request of VS Code that its user took back."""
_LOBEHUB = _Shape(
    "LobeHub",
    "state.messages.0.role",
    chats="state",
    parent="parentId",
    is_list=True,
    by=("sessionId", "topicId", "threadId"),
)
_LIBRECHAT = _Shape(
    "LibreChat",
    "messages.0.isCreatedByUser",
    id="messageId",
    parent="parentMessageId",
    of_row=_of_librechat,
)
_OPEN_WEBUI = _Shape(
    "Open WebUI",
    "chat.history.messages",
    messages="chat.history.messages",
    leaf="chat.history.currentId",
    parent="parentId",
)
_CHERRY_STUDIO = _Shape(
    "Cherry Studio",
    "indexedDB.topics",
    chats="indexedDB.topics.*",
    blocks="indexedDB.message_blocks",
    of_row=_of_cherry_studio,
)
_SHAPES = (
    _OPEN_WEBUI,
    replace(_LIBRECHAT, mark="messagesTree", messages="messagesTree", children="children"),
    _LIBRECHAT,
    _LOBEHUB,
    replace(_LOBEHUB, mark="data.messages.0.role", chats="data"),
    _CHERRY_STUDIO,
    _Shape("Chatbox", "__exported_items", chats="session:*"),
    _Shape("Chatbox", "chat-sessions", chats="chat-sessions.*"),
    _Shape("opencode", "messages.0.info.role", of_row=_of_opencode, only_last_answer=True),
    _Shape("NextChat", "chat-next-web-store", chats="chat-next-web-store.sessions.*"),
    _Shape(
        "big-AGI", "conversations.0.systemPurposeId", chats="conversations.*", of_row=_of_big_agi
    ),
    _Shape("big-AGI", "systemPurposeId", of_row=_of_big_agi),
    _Shape(
        "AI Studio",
        "chunkedPrompt.chunks",
        messages="chunkedPrompt.chunks",
        of_row=_of_ai_studio,
    ),
    _Shape("VS Code", "responderUsername", messages="requests", of_row=_of_vs_code),
    _Shape("Chatbot UI", "history.0.messages", chats="history.*"),
)
_DEEPSEEK = _Shape("DeepSeek", "", messages="mapping", parent="parent", of_row=_of_deepseek)
_CLINE = _Shape("Cline", "", of_row=_of_cline, only_last_answer=True)
_MARKS_OF_CLINE = ("<task>", "<environment_details>")
_LISTS = (_Shape("", "messages"), _Shape("", "conversations", messages="conversations"))
"""An object with nothing but messages, as logs and sets of examples have them."""
_OF_MEMORIES = ("text", "memory", "trigger", "entries", "spec")
"""Fields of memories, triggers, lorebooks and cards, which may have messages too."""


def chats(value: Any) -> Sequence[Chat]:
    """Return the chats of a file of any of these programs, or no chat for another JSON value. In a list, the first of
    the first items that is known tells the program of all of them; an item of another form may then give a chat
    without messages."""
    items: list[Any] = value if isinstance(value, list) else [value]
    if _is_of_cline(next(filter(is_message, items[:_FIRST_ITEMS]), {})):
        return [Chat(_CLINE, {"messages": items}, {})]
    files = [item for item in items if isinstance(item, Mapping)]
    shape = next(filter(None, map(_shape_of, files[:_FIRST_ITEMS])), None)
    if shape is None:
        return ()
    chats_found: list[Chat] = []
    for file in files:
        parts = next(_values_at(file, shape.blocks), ()) if shape.blocks else ()
        blocks = {str(part.get("id")): part for part in _rows(parts, "")}
        for fields in _values_at(file, shape.chats):
            if isinstance(fields, Mapping):
                chats_found += _chats_in(fields, shape, blocks)
    return chats_found


def _is_of_cline(first: Row) -> bool:
    """Tell whether a list that begins with this message is a task of Cline or Roo Code."""
    fields = read_message(first).fields or {}
    return str(fields.get("content")).lstrip().startswith(_MARKS_OF_CLINE)


def _shape_of(file: Row) -> _Shape | None:
    """Return the shape of the program that has written an object of JSON, or None if it is not known here."""
    if isinstance(file.get("mapping"), Mapping):
        return _DEEPSEEK if "inserted_at" in file else None
    for shape in _SHAPES:
        if any(True for _value in _values_at(file, shape.mark)):
            return shape
    for shape in _LISTS:
        is_list = any(map(is_message, list_in(file, shape.mark)[:_FIRST_ITEMS]))
        if is_list and file.keys().isdisjoint(_OF_MEMORIES):
            return shape
    return None


_FIRST_ITEMS = 5
"""Items of a list of which one shows what it is a list of: the first may be damaged, or something else."""


def _values_at(value: Any, path: str) -> Iterator[Any]:
    """Yield each value at the end of a path of names with dots between them. `*` means all items
    or, at the end of a name, all names that begin so; `0` means the first items."""
    name, _dot, rest = path.partition(".")
    if not name:
        yield value
    elif isinstance(value, list):
        items = {"*": value, "0": value[:_FIRST_ITEMS]}.get(name, [])
        for item in items:
            yield from _values_at(item, rest)
    elif isinstance(value, Mapping):
        keys = [name] if name in value else []
        if name.endswith("*"):
            keys = [key for key in value if key.startswith(name[:-1])]
        for key in keys:
            yield from _values_at(value[key], rest)


def _chats_in(fields: Row, shape: _Shape, blocks: Row) -> Iterator[Chat]:
    """Yield the chats in an object: itself and its older threads, or where the messages of all chats are one list,
    each."""
    if not shape.by:
        yield Chat(shape, fields, blocks)
        for thread in list_in(fields, "threads"):
            if isinstance(thread, Mapping):
                yield Chat(shape, thread, blocks)
        return
    groups: dict[tuple[str, ...], list[Row]] = {}
    for message in list_in(fields, shape.messages):
        if isinstance(message, Mapping):
            key = tuple(str(message.get(name)) for name in shape.by)
            groups.setdefault(key, []).append(message)
    for messages in groups.values():
        messages.sort(key=lambda message: str(message.get("createdAt")))
        yield Chat(shape, {shape.messages: messages}, blocks)


def read(chat: Chat, location: str) -> ParsedChat:
    """Read the messages of the branch of a chat that is shown; what else it holds is counted. `location`: how a
    report names a chat without a title."""
    reading = ParsedChat()
    shape = chat.shape
    rows = _rows(next(_values_at(chat.fields, shape.messages), ()), shape.children)
    shown = _shown(rows, chat)
    unshown = sum(map(bool, rows)) - len(shown)
    reading.left_out[left_out.BRANCHES] += unshown + _chatbox_branches(chat.fields)

    message_label = _("a message of {title!r}", chat.title[:60] or location)
    messages: list[tuple[str, Any]] = []
    for row in shown:
        for message in shape.of_row(row, chat.blocks):
            called = _kind_left_out(message)
            if called is None:
                messages.append((message_label, message))
            else:
                reading.left_out[called] += bool(called)

    # Logs and sets of examples, which name no program, keep their system messages.
    read_messages(messages, None, reading)

    if shape.program:
        _leave_out_prompts_and_thoughts(reading)
    if shape.only_last_answer:
        _keep_last_answers(reading)

    return reading


def _rows(messages: Any, children: str) -> list[Row]:
    """Return each message, with the messages below it after it."""
    values = messages.values() if isinstance(messages, Mapping) else messages
    waiting = list(values)[::-1] if isinstance(values, Iterable) else []
    rows: list[Row] = []
    while waiting:
        row = waiting.pop()
        if isinstance(row, Mapping):
            rows.append(row)
            if children:
                waiting += list_in(row, children)[::-1]
    return rows


def _shown(rows: Sequence[Row], chat: Chat) -> list[Row]:
    """Return the messages of the branch that is shown, without messages that were taken back. Where the chat names no
    known leaf, that is the branch of the last child at each message with several, as after a new answer to the same
    question; this need not hold the last row of the file. Without parents, all messages are shown up to what the user
    of opencode took back."""
    shape = chat.shape
    if not shape.parent:
        first = mapping_in(mapping_in(chat.fields, "info"), "revert").get("messageID")
        shown: list[Row] = []
        for row in rows:
            if first is not None and mapping_in(row, "info").get("id") == first:
                break  # opencode keeps what its user took back until the next prompt
            shown.append(row)
        return shown

    positions = {str(row.get(shape.id)): position for position, row in enumerate(rows)}
    parents = [positions.get(str(row.get(shape.parent))) for row in rows]
    if shape.is_list:
        parents = [
            position - 1 if parent is None and position else parent
            for position, parent in enumerate(parents)
        ]

    leaf = next(_values_at(chat.fields, shape.leaf), None) if shape.leaf else None
    last = positions.get(str(leaf), _last_leaf(parents)) if rows else None
    return [rows[position] for position in left_out.branch_to(last, parents.__getitem__)]


def _last_leaf(parents: Sequence[int | None]) -> int:
    """Return the position of the message at the end of the branch that was begun last, at each message with several."""
    last_child = {parent: position for position, parent in enumerate(parents)}
    leaf = last_child.get(None, len(parents) - 1)
    for _step in parents:
        leaf = last_child.get(leaf, leaf)
    return leaf


def _chatbox_branches(fields: Row) -> int:
    """Return how many messages Chatbox keeps of branches that it does not show."""
    count = 0
    for fork in mapping_in(fields, "messageForksHash").values():
        if isinstance(fork, Mapping):
            for branch in list_in(fork, "lists"):
                count += len(list_in(branch, "messages")) if isinstance(branch, Mapping) else 0
    return count


def _kind_left_out(message: Row) -> str | None:
    """Return what a report calls a message that was not said in the chat, '' if it is not worth a count, or None if
    it was said."""
    if message.get("isSummary") or message.get("summary") is True:
        return left_out.CHAT_SUMMARIES
    if message.get("error") is True or message.get("isError") is True:
        return left_out.ERRORS
    if message.get(_REMOVED):
        return left_out.BRANCHES
    if message.get("type") == "clear":  # Cherry Studio forgets at this mark what was said before it
        return ""
    return None


_FOLDED = re.compile(
    r"(?m:^|(?<=>))[ \t]*+<(?P<tag>think|thinking|details(?= type=\"))(?: type=\"(?P<call>tool_calls|code\w*+)?[^<>]*+)?>"
)
"""How what programs write into the text of an answer and show folded begins: thoughts, and calls of tools. Within a line
stands what the answer says about such tags."""


def _leave_out_prompts_and_thoughts(reading: ParsedChat) -> None:
    """Remove messages of the role system, and thoughts and calls that are part of the text of an
    answer, from `reading`, and count them there."""
    spoken: list[Message] = []
    for message in reading.messages:
        if message["role"] == "system":
            reading.left_out[left_out.CUSTOM_INSTRUCTIONS] += 1
            continue
        if message["role"] == "assistant":

            def leave_out(opening: re.Match[str], _text: str) -> str:
                called = left_out.TOOLS if opening["call"] else left_out.THOUGHTS
                reading.left_out[called] += 1
                return ""

            message["content"] = _without_tags(message["content"], _FOLDED, leave_out).strip()
        spoken.append(message)
    reading.messages[:] = spoken


def _keep_last_answers(reading: ParsedChat) -> None:
    """Leave out each text of the model after which it wrote another one in the same turn."""
    messages: list[Message] = []
    for message in reading.messages:
        if messages and messages[-1]["role"] == message["role"] == "assistant":
            messages.pop()
            reading.left_out[left_out.BEFORE_THE_LAST] += 1
        messages.append(message)
    reading.messages[:] = messages
