"""Sessions of Gemini CLI in `~/.gemini/tmp/*/chats`, and checkpoints that `/chat save` made: each turn becomes a
short-term memory.

A session is one JSON object with `messages`, or lines: its beginning, messages, and changes to them (`$set`,
`$rewindTo`), as google-gemini/gemini-cli has them in packages/core/src/services/chatRecordingTypes.ts. A checkpoint is
the history of the model, without times (packages/core/src/core/logger.ts). Seen with Gemini CLI 0.61. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from languages import N_
from memory_server.interchange import spoken_places as places
from memory_server.interchange.incoming import Incoming, fields_of
from memory_server.interchange.transcript_turns import TranscriptTurn
from memory_server.interchange.transcripts import (
    dialog,
    rows_of,
    time_of,
    without_hook_context,
)
from memory_server.interchange.turn_memories import TurnMemories
from memory_server.kernel import json_text
from memory_server.kernel.json_text import Fields, Json, objects_in
from memory_server.kernel.messages import Message
from memory_server.kernel.private import calls_forget, emptied
from memory_server.kernel.values import frozen
from memory_server.kernel.work import WorkSeen, strings_of

_OF_THE_CLIENT = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context for our chat.",
    "System: Please continue.",
)
"""How texts of the role `user` begin that the client wrote."""
_FOLDER = re.compile(
    r"(?:Workspace Directories:\*\*\s{1,9}- |working in the directory: )([^\n]{1,4096})"
)
"""Where the first of these texts names the working folder, which nothing else does."""
_REFERENCED_FILES = "\n--- Content from referenced files ---"
"""Where the contents of files begin that the client adds to the words of the user."""


def read(
    files: Mapping[str, bytes],
    usual: str,
    folder_of: Callable[[str], str | None],
    programs: Collection[str] = (),
) -> Incoming:
    """Read the turns of all sessions and checkpoints, for `usual`. Raises NotThisFormat: no turn was found."""
    incoming = Incoming()
    memories = TurnMemories(incoming, usual, folder_of, programs)
    for path, data in sorted(files.items()):
        if path.endswith((".json", ".jsonl")):
            session = _session_of(incoming, data)
            memories.add(path, _turns(incoming, session, session.records))
            memories.take_back(_turns(Incoming(), session, session.rewound))
    return memories.finished(
        N_("holds no turn of a user; import `~/.gemini/tmp`, or a file in a folder `chats` there.")
    )


@frozen
class _Session:
    """What a file says of its session, the messages that hold, and the messages that the user rewound."""

    fields: Fields
    records: Sequence[Fields]
    rewound: Sequence[Fields]


def _turns(
    incoming: Incoming, session: _Session, records: Sequence[Fields]
) -> Iterator[TranscriptTurn]:
    """Yield the turns of a session. Prompts without an answer between them are one turn. What is
    not words, and a whole session of a sub-agent, is only counted."""
    if session.fields.get("kind") == "subagent":
        incoming.lost[places.SUB_AGENTS] += sum(
            record.get("type") in ("user", "gemini") for record in records
        )
        return

    # The first line tells session and folder of a turn, as in a transcript of Claude Code.
    first = {
        "sessionId": session.fields.get("sessionId"),
        "cwd": _folder_in([*session.records, *session.rewound]),
    }
    turn: TranscriptTurn | None = None
    for number, record in enumerate(records):
        time_ms = time_of(record.get("timestamp"))
        if _kind_of(record) == "user":
            words = _words(incoming, record)
            if not words:
                continue
            if turn is not None and turn.answered:
                yield turn
                turn = None
            if turn is None:
                turn = TranscriptTurn(first)
            # Two prompts without an answer between them belong to the same turn.
            turn.prompt_again()
            turn.prompt_id = str(record.get("id") or number)
            turn.prompted_ms = time_ms
            turn.asked.append(Message("user", words, time_ms))
        elif _is_of_model(record) and turn is not None:
            _answer(incoming, turn, record, time_ms)
        else:
            _count_left_out(incoming, record)

    if turn is not None:
        yield turn


def _count_left_out(incoming: Incoming, record: Fields) -> None:
    """Count a record that belongs to no turn."""
    kind = _kind_of(record)
    if _is_of_model(record):
        has_words = bool(_content(record).strip())
        incoming.lost[places.WITHOUT_THE_USER] += has_words
    elif record.get("type") in ("info", "warning", "error"):
        incoming.lost[places.NOTIFICATIONS] += 1
    else:
        incoming.lost[places.unknown_record(str(kind))] += 1


def _session_of(incoming: Incoming, data: bytes) -> _Session:
    """Read the fields of the session in a file, and its messages. A field or a message that the file has several
    times, as a session that changed it wrote it again, is as it was written last; a message stays at its first place.
    `$rewindTo` takes the message that it names, and all after it (services/chatRecordingService.ts)."""
    session: Json = {}
    messages_by_id: dict[str, Fields] = {}
    rewound: list[Fields] = []
    for value in _values_in(incoming, data):
        if isinstance(value, Mapping) and "$rewindTo" in value:
            rewound += _rewound(messages_by_id, str(value["$rewindTo"]))
            continue
        fields = _changed_fields(value)
        is_message = "type" in fields
        if not is_message:
            session |= fields
        for message in _messages_of(value, fields):
            if isinstance(message, Mapping):
                message_id = str(
                    message.get("id") or len(messages_by_id)
                )  # messages of a checkpoint have no id
                messages_by_id[message_id] = message

    return _Session(session, list(messages_by_id.values()), rewound)


def _rewound(messages_by_id: dict[str, Fields], message_id: str) -> list[Fields]:
    """Take the message of this id and all after it away from the others. Return nothing if no message has the id."""
    ids = list(messages_by_id)
    if message_id not in messages_by_id:
        return []
    return [messages_by_id.pop(taken_id) for taken_id in ids[ids.index(message_id) :]]


def _values_in(incoming: Incoming, data: bytes) -> list[Any]:
    """Read the JSON values of a file: the whole file is a value, or each line. Lines that are not JSON are counted."""
    try:
        return [json_text.loads(data)]
    except ValueError:
        values: list[Any] = []
        for line in data.splitlines():
            values += rows_of(line, incoming.lost)
        return values


def _changed_fields(value: Any) -> Fields:
    """Return the fields of a value of the file, or the fields that it changes (`$set`)."""
    if not isinstance(value, Mapping):
        return {}
    fields = value.get("$set", value)
    if not isinstance(fields, Mapping):
        return {}
    return fields


def _messages_of(value: Any, fields: Fields) -> list[Any]:
    """Return the messages in a value of the file, which may be a message itself."""
    if isinstance(value, list):
        return value
    if "messages" in fields or "history" in fields:
        messages = fields.get("messages", fields.get("history"))
        if isinstance(messages, list):
            return messages
        return []
    if isinstance(value, Mapping) and ("type" in value or "role" in value):
        return [value]
    return []


def _folder_in(records: Sequence[Fields]) -> str | None:
    if not records:
        return None
    match = _FOLDER.search(_content(records[0]))
    if match is None:
        return None
    return match[1].strip()


def _kind_of(record: Fields) -> object:
    """Return the type of a record of a session, or the role of a record of a checkpoint."""
    return record.get("type", record.get("role"))


def _is_of_model(record: Fields) -> bool:
    return _kind_of(record) in ("gemini", "model")


def _words(incoming: Incoming, record: Fields) -> str:
    """Return what the user wrote in a message; empty if the client wrote it, or it holds results of tools. What is
    left out is counted."""
    shown = record.get("displayContent")
    text = _text(shown) if shown else _content(record)
    if text.lstrip().startswith(_OF_THE_CLIENT):
        incoming.lost[places.FOR_THE_MODEL] += 1
        return ""
    words, mark, _contents = emptied(text).partition(_REFERENCED_FILES)
    if mark:
        incoming.lost[places.PICTURES] += 1
    return without_hook_context(words)


def _content(record: Fields) -> str:
    """Return the text of a record of a session, or of a record of a checkpoint, which has `parts`."""
    return _text(record.get("content", record.get("parts")))


def _text(content: Any) -> str:
    """Return the texts of a content in lines, without thoughts."""
    parts = content if isinstance(content, list) else [content]
    texts: list[str] = []
    for part in parts:
        text = part
        if isinstance(part, Mapping):
            text = None if part.get("thought") else part.get("text")
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)


def _answer(incoming: Incoming, turn: TranscriptTurn, record: Fields, time_ms: int | None) -> None:
    """Add an answer of the model to its turn: text, work and dialogs; thoughts and calls are counted as lost. The
    turn is answered if there is a text and no call of a tool; it is not stored if the tool is `forget`."""
    thoughts = record.get("thoughts")
    if isinstance(thoughts, list):
        incoming.lost[places.THOUGHTS] += len(thoughts)
    answer = _content(record).strip()
    if answer:
        turn.answers.append(Message("assistant", answer, time_ms))
    calls = _calls(record)
    incoming.lost[places.TOOLS] += len(calls)
    for call in calls:
        turn.forgot = turn.forgot or calls_forget({"function_call": call})
        _see_work(turn.work, call)
        if call.get("name") == "ask_user":
            turn.asked += _dialog(call, time_ms)
    turn.answered = bool(answer) and not calls


def _see_work(work: WorkSeen, call: Fields) -> None:
    """Add a call of a tool, and its result, to `work`."""
    work.call(call.get("id"), call.get("name"), call.get("args"))
    outputs: list[object] = []
    for part in objects_in(call.get("result")):
        response = fields_of(fields_of(part.get("functionResponse")).get("response"))
        outputs += [response.get("output"), response.get("error")]
    has_failed = True if call.get("status") in ("error", "cancelled") else None
    work.result(call.get("id"), without_hook_context(strings_of(outputs)), failed=has_failed)


def _calls(record: Fields) -> list[Json]:
    """Return the calls of tools: fields of a session, parts of a checkpoint."""
    calls = objects_in(record.get("toolCalls"))
    in_parts = [part.get("functionCall") for part in objects_in(record.get("parts"))]
    return calls + objects_in(in_parts)


def _dialog(call: Fields, time_ms: int | None) -> list[Message]:
    """Return each question of a dialog, which the model asked, and the answer of the user."""
    questions = None
    arguments = call.get("args")
    if isinstance(arguments, Mapping):
        questions = arguments.get("questions")
    messages: list[Message] = []
    for part in objects_in(call.get("result")):
        response = fields_of(fields_of(part.get("functionResponse")).get("response"))
        answers = fields_of(response.get("output")).get("answers")
        if isinstance(answers, Mapping):
            for name, answer in answers.items():
                words = str(answer or "").strip()
                messages += dialog(_question(questions, name), words, time_ms)
    return messages


def _question(questions: Any, name: str) -> str:
    """Return the question that an answer names by its number, or ""."""
    if not isinstance(questions, list) or not name.isdecimal() or int(name) >= len(questions):
        return ""
    question = questions[int(name)]
    if not isinstance(question, Mapping):
        return ""
    return str(question.get("question") or "")
