"""Sessions of Gemini CLI in `~/.gemini/tmp/*/chats`, and checkpoints that `/chat save` made: each turn becomes a
short-term memory.

A session is one JSON object with `messages`, or lines: its beginning, messages, and changes to them (`$set`,
`$rewindTo`), as google-gemini/gemini-cli has them in packages/core/src/services/chatRecordingTypes.ts. A checkpoint is
the history of the model, without times (packages/core/src/core/logger.ts). Seen with Gemini CLI 0.61. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memory_server.interchange import spoken_places as places
from memory_server.interchange.incoming import Incoming, NotThisFormat, fields_of
from memory_server.interchange.transcript_turns import TranscriptTurn
from memory_server.interchange.transcripts import rows_of, time_of
from memory_server.interchange.turn_memories import TurnMemories
from memory_server.kernel import json_text
from memory_server.kernel.messages import Message
from memory_server.kernel.private import calls_forget, emptied

_OF_THE_CLIENT = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context for our chat.",
    "System: Please continue.",
)
"""How texts of the role `user` begin that the client wrote."""
_FOLDER = re.compile(r"(?:Workspace Directories:\*\*\s{1,9}- |working in the directory: )([^\n]{1,4096})")
"""Where the first of these texts names the working folder, which nothing else does."""
_ADDED = ("\n--- Content from referenced files ---", "<hook_context>")
"""Where what the client adds to the words of the user begins."""


def read(files: Mapping[str, bytes], usual: str, folder_of: Callable[[str], str | None]) -> Incoming:
    """The turns of all sessions and checkpoints, for `usual`. Raises NotThisFormat: there are none."""
    found = Incoming()
    memories = TurnMemories(found, usual, folder_of)
    for path, data in sorted(files.items()):
        if path.endswith((".json", ".jsonl")):
            memories.add(path, _turns(found, data))
    found.conversations = memories.contents()
    if not found.count and not found.skipped:
        raise NotThisFormat("holds no turn of a user; give `~/.gemini/tmp`, or a file in a folder `chats` there.")
    return found


def _turns(found: Incoming, data: bytes) -> Iterator[TranscriptTurn]:
    about, records = _session_of(found, data)
    if about.get("kind") == "subagent":
        found.lost[places.SUB_AGENTS] += sum(record.get("type") in ("user", "gemini") for record in records)
        return
    first = {"sessionId": about.get("sessionId"), "cwd": _folder_in(records)}
    turn: TranscriptTurn | None = None
    for number, record in enumerate(records):
        time_ms = time_of(record.get("timestamp"))
        if _is_of(record, "user"):
            words = _words(found, record)
            if not words:
                continue
            if turn is not None and turn.answered:
                yield turn
                turn = None
            if turn is None:
                turn = TranscriptTurn(first)
            turn.prompt_again()
            turn.prompt_id = str(record.get("id") or number)
            turn.prompted_ms = time_ms
            turn.asked.append(Message("user", words, time_ms))
        elif _is_of(record, "gemini") and turn is not None:
            _answer(found, turn, record, time_ms)
        elif _is_of(record, "gemini"):
            found.lost[places.WITHOUT_THE_USER] += bool(_text(record.get("content", record.get("parts"))).strip())
        elif record.get("type") in ("info", "warning", "error"):
            found.lost[places.NOTIFICATIONS] += 1
        else:
            found.lost[places.unknown_record(str(record.get("type", record.get("role"))))] += 1
    if turn is not None:
        yield turn


def _session_of(found: Incoming, data: bytes) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """What a file says about its session, and the messages, each as it was last written."""
    try:
        values = [json_text.loads(data)]
    except ValueError:
        values = [row for line in data.splitlines() for row in rows_of(line, found.lost)]
    about: dict[str, Any] = {}
    records: dict[str, Mapping[str, Any]] = {}
    for value in values:
        changed = value.get("$set", value) if isinstance(value, Mapping) else {}
        messages: Any
        if isinstance(value, list):
            messages = value
        elif "messages" in changed or "history" in changed:
            messages = changed.get("messages", changed.get("history"))
        else:
            messages = [value] if "type" in value or "role" in value else []
        if isinstance(changed, Mapping) and "type" not in changed:
            about |= changed
        for message in messages if isinstance(messages, list) else ():
            if isinstance(message, Mapping):
                records[str(message.get("id") or len(records))] = message
    return about, list(records.values())


def _folder_in(records: list[Mapping[str, Any]]) -> str | None:
    named = _FOLDER.search(_text(records[0].get("content", records[0].get("parts")))) if records else None
    return None if named is None else named[1].strip()


def _is_of(record: Mapping[str, Any], kind: str) -> bool:
    return record.get("type", record.get("role")) in (kind, "model" if kind == "gemini" else kind)


def _words(found: Incoming, record: Mapping[str, Any]) -> str:
    """What the user wrote in a message; empty if the client wrote it, or it holds results of tools."""
    shown = record.get("displayContent")
    text = _text(shown if shown else record.get("content", record.get("parts")))
    if text.lstrip().startswith(_OF_THE_CLIENT):
        found.lost[places.FOR_THE_MODEL] += 1
        return ""
    text = emptied(text)
    for mark in _ADDED:
        words, added, _rest = text.partition(mark)
        if added and mark == _ADDED[0]:
            found.lost[places.PICTURES] += 1
        text = words
    return text.strip()


def _text(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    thoughts = [isinstance(part, Mapping) and bool(part.get("thought")) for part in parts]
    said = (text for text, thought in zip(texts, thoughts, strict=True) if isinstance(text, str) and not thought)
    return "\n".join(said)


def _answer(found: Incoming, turn: TranscriptTurn, record: Mapping[str, Any], time_ms: int | None) -> None:
    thoughts = record.get("thoughts")
    found.lost[places.THOUGHTS] += len(thoughts) if isinstance(thoughts, list) else 0
    answer = _text(record.get("content", record.get("parts"))).strip()
    if answer:
        turn.answers.append(Message("assistant", answer, time_ms))
    calls = _calls(record)
    found.lost[places.TOOLS] += len(calls)
    for call in calls:
        turn.forgot = turn.forgot or calls_forget({"function_call": call})
        if call.get("name") == "ask_user":
            turn.asked += _dialog(call, time_ms)
    turn.answered = bool(answer) and not calls


def _calls(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The calls of tools: fields of a session, parts of a checkpoint."""
    calls = record.get("toolCalls")
    parts = record.get("parts")
    rows = [*(calls if isinstance(calls, list) else ())]
    rows += [part.get("functionCall") for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    return [row for row in rows if isinstance(row, Mapping)]


def _dialog(call: Mapping[str, Any], time_ms: int | None) -> list[Message]:
    """Each question of a dialog, which the model asked, and the answer of the user."""
    arguments = call.get("args")
    questions = arguments.get("questions") if isinstance(arguments, Mapping) else None
    results = call.get("result")
    parts = [part for part in results if isinstance(part, Mapping)] if isinstance(results, list) else []
    spoken: list[Message] = []
    for part in parts:
        response = fields_of(fields_of(part.get("functionResponse")).get("response"))
        answers = fields_of(response.get("output")).get("answers")
        for name, answer in answers.items() if isinstance(answers, Mapping) else ():
            words = str(answer or "").strip()
            question = _question(questions, name)
            if words and question:
                spoken.append(Message("assistant", question, time_ms))
            if words:
                spoken.append(Message("user", words, time_ms))
    return spoken


def _question(questions: Any, name: str) -> str:
    """The question that an answer names by its number."""
    if not isinstance(questions, list) or not name.isdecimal() or int(name) >= len(questions):
        return ""
    question = questions[int(name)]
    return str(question.get("question") or "") if isinstance(question, Mapping) else ""
