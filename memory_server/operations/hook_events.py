"""Read the events that clients (Claude Code, VS Code, Cursor) give to a hook, and decide which words of a turn are
kept.

An event is JSON on standard input, with the transcript of the session (interchange/transcripts.py,
transcript_turns.py). Seen with Claude Code 2.1.332: at UserPromptSubmit the prompt is not in the transcript yet, and
a new session has no transcript; the prompt of a slash command is the typed line. At Stop the last answer may not be
in it yet, so the event carries it. A compaction adds a line `compact_boundary`: everything before it is no longer in
the context of the model. A session that is continued or compacted keeps its id; `/clear` gives a new one.

Seen with Gemini CLI 0.61.0: what the hook of a session adds comes before the prompt, also in `BeforeAgent`.

VS Code and Cursor give nearly the same, by their documentation (code.visualstudio.com/docs/agent-customization/hooks,
microsoft/vscode issue 300583, cursor.com/docs/agent/hooks). They do not document their transcripts; the known formats
are read elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any

from languages import _
from memory_server.conversations.earlier_turns import Corrections, TakenBackTurn
from memory_server.interchange.branches import Branches, Row, TakenBackBranch, branches_of
from memory_server.interchange.spoken_places import program_of
from memory_server.interchange.transcript_turns import (
    TranscriptTurn,
    by_program,
    joined,
    turns_of,
)
from memory_server.interchange.transcripts import (
    answer_in,
    prompt_in,
    reading_of,
    row_of,
    rows_of_transcript,
    time_of,
    without_hook_context,
)
from memory_server.kernel.erasure import strings_in
from memory_server.kernel.json_text import Fields
from memory_server.kernel.messages import FIRST_MS, Message, Session
from memory_server.kernel.private import shortened
from memory_server.kernel.recalled_block import TAG, as_said
from memory_server.kernel.values import frozen
from memory_server.kernel.work import (
    COMMAND_CHARS,
    command_head,
    defined_in,
    failure_of,
    path_in,
    tool_call,
)
from memory_server.memories.hooks import CURSOR, GEMINI, TOOL_EVENTS, HookEvent, ToolUse, Turn
from memory_server.memories.point_of_action import Act

CONTEXT_MESSAGES = 4
"""Messages of a search: the prompt, and the last few before it."""

_COMPACTED = b'"compact_boundary"'
"""Quotes inside a message are escaped, so a message cannot contain it."""


_ADDITION = b'"type":"hook_additional_context"'
"""A part of the lines that a client writes for the text that a hook added."""


def event_of(record: Any) -> HookEvent:
    """Parse the event that a hook was called for. Raises ValueError if this is not an event of a client."""
    called = None
    if isinstance(record, Mapping):
        called = record.get("hook_event_name", record.get("hookEventName"))
    if not isinstance(called, str):
        raise ValueError(
            _("standard input is not a hook event: it must be an object with hook_event_name")
        )

    source = _text_of(record, "source")
    if called == "sessionStart" or source == "new":
        source = "startup"

    prompt = _text_of(record, "prompt")
    if called in GEMINI and prompt is not None:
        prompt = without_hook_context(prompt)

    return HookEvent(
        called=called,
        session_id=_text_of(record, "session_id", "sessionId", "conversation_id"),
        transcript_path=_text_of(record, "transcript_path"),
        prompt=prompt,
        prompt_id=_text_of(record, "prompt_id", "generation_id"),
        last_assistant_message=_text_of(record, "last_assistant_message"),
        cwd=_folder_of(record),
        source=source,
        client=_client_of(record, called),
        use=_tool_use_of(record, called) if GEMINI.get(called, called) in TOOL_EVENTS else None,
    )


def _tool_use_of(record: Fields, called: str) -> ToolUse:
    """Parse what a client says of the call of a tool. Large texts are searched here, and not kept."""
    tool = str(record.get("tool_name") or "")
    call = tool_call(tool, record.get("tool_input"))
    # After a call, take its result, which may have an exit status; before it, take the text to be written.
    result = record.get("error", record.get("tool_response"))
    text = "\n".join(strings_in(record.get("tool_input") if result is None else result))

    failure = None
    # `PostToolUse` is for a call that succeeded, even if its output speaks of an exit status. Gemini CLI has one event
    # for both, and writes the status of a command that failed.
    if call.command and result is not None and called in ("PostToolUseFailure", "AfterTool"):
        failure = failure_of(call.command, text)

    defined = defined_in(text) if call.files else ()
    agent = _text_of(record, "agent_id")
    return ToolUse(_text_of(record, "tool_use_id"), tool, call, defined, failure, agent)


def act_of(use: ToolUse, folder: str | None, cwd: str | None) -> Act | None:
    """Return what is done with a tool in a project, or None if memories say nothing about such an act."""
    if use.call.command:
        command = use.call.command[:COMMAND_CHARS]
        return Act(
            command=command, failure=use.failure, about=f"{use.tool}: {command_head(command)}"
        )
    files = tuple(filter(None, (path_in(folder or cwd, path) for path in use.call.files)))
    if not files:
        return None
    return Act(files, use.defined, about=f"{use.tool}: {', '.join(files)}")


def calls_since_addition(transcript: bytes) -> int | None:
    """Count the calls of tools since the last addition at a tool call. Return None if there was no addition."""
    for line_start, line in _lines_from_end(transcript, _ADDITION):
        if b"ToolUse" in line and TAG.encode() in line:
            return transcript.count(b'"type":"tool_use"', line_start)
    return None


def _lines_from_end(transcript: bytes, mark: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield where each line with a mark begins, and the line, the last one first."""
    offset = transcript.rfind(mark)
    while offset >= 0:
        line_start = transcript.rfind(b"\n", 0, offset) + 1
        line_end = transcript.find(b"\n", offset)
        yield line_start, transcript[line_start : line_end if line_end >= 0 else None]
        offset = transcript.rfind(mark, 0, line_start)


def _text_of(record: Fields, *names: str) -> str | None:
    """Return the text of a field, which clients call by any of these names, or None if it is missing."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return None


def _folder_of(record: Fields) -> str | None:
    """Return the folder of the work: `cwd`, otherwise the first of Cursor's list of folders. Return None if neither is
    a text that is not blank."""
    folder = _text_of(record, "cwd")
    if folder is not None:
        return folder
    roots = record.get("workspace_roots")
    if isinstance(roots, list) and roots and isinstance(roots[0], str) and roots[0].strip():
        return roots[0]
    return None


def _client_of(record: Fields, called: str) -> str:
    """Return the client, which is known by how it spells its events."""
    if called in CURSOR:
        return "cursor"
    if called in GEMINI:
        return "gemini"
    if "hook_event_name" in record:
        return "claude-code"
    return "vscode"


def session_of(event: HookEvent, transcript: bytes | None, *, whole: bool = True) -> Session | None:
    """Return the session of an event, and since when its messages are still in its context, or None if the event has
    no session id. If the `transcript` is not `whole`, it is only the end, and everything earlier counts as gone."""
    if not event.session_id:
        return None
    if transcript is None:
        return Session(event.session_id, None)
    return Session(event.session_id, _context_since_ms(transcript, whole=whole))


def _context_since_ms(transcript: bytes, *, whole: bool) -> int | None:
    """Return since when messages are in the context: the time of the last compaction; or else, of a `whole`
    transcript, `FIRST_MS` (all of the session is), and of the end of one, the time of its first dated line, or None
    if it has no time."""
    compacted_ms = _compacted_ms(transcript)
    if compacted_ms is not None:
        return compacted_ms
    if whole:
        return FIRST_MS
    for line in BytesIO(transcript):
        time_ms = time_of(row_of(line).get("timestamp"))
        if time_ms is not None:
            return time_ms
    return None


def _compacted_ms(transcript: bytes) -> int | None:
    """Return the time of the last compaction, searched from the end, or None if there was no compaction."""
    for _line_start, line in _lines_from_end(transcript, _COMPACTED):
        row = row_of(line)
        time_ms = time_of(row.get("timestamp"))
        if row.get("subtype") == "compact_boundary" and time_ms is not None:
            return time_ms
    return None


def messages_now(event: HookEvent, transcript: bytes) -> tuple[Message, ...]:
    """Return the last few messages and the prompt, oldest first; no messages if the user wrote nothing in the prompt."""
    prompt = prompt_in(event.prompt or "")
    if not prompt:
        return ()
    return _searched_by(_said_before(event, transcript), Message("user", prompt))


def _said_before(event: HookEvent, transcript: bytes) -> list[Message]:
    """Return the messages before the prompt of an event. A client that gives no ids of prompts has not written it
    yet."""
    lines = _spoken(branches_of(rows_of_transcript(transcript)).live)
    if event.prompt_id is None:
        return [line.message for line in lines]
    return [line.message for line in lines if line.prompt_id != event.prompt_id]


def messages_before(
    event: HookEvent, transcript: bytes, *, most: int, most_chars: int
) -> tuple[Message, ...]:
    """Return the messages before the messages of `messages_now`, oldest first, so many that both together are `most`,
    and at most so many characters. They are for triggers that look further back."""
    earlier = as_said(_said_before(event, transcript))[-(most - 1) : -(CONTEXT_MESSAGES - 1)]
    last_first: list[Message] = []
    room = most_chars
    for message in map(shortened, reversed(earlier)):
        room -= len(message.content)
        if room < 0:
            break
        last_first.append(message)
    return tuple(reversed(last_first))


def _searched_by(before: Iterable[Message], prompt: Message) -> tuple[Message, ...]:
    last_messages = as_said(before)[-(CONTEXT_MESSAGES - 1) :]
    return tuple(map(shortened, (*last_messages, prompt)))


def turn_ended(
    event: HookEvent,
    transcript: bytes,
    programs: Collection[str] = (),
    folder: str | None = None,
) -> Turn | None:
    """Return the turn that just ended: all that the user said since the last turn, and the answer. Return None if the
    user said nothing. `programs` is the `named` of `program_of`. `folder` is the folder of the project."""
    branches = branches_of(rows_of_transcript(transcript))
    turns = list(turns_of(branches.live))
    if not turns:
        return None

    turns_of_prompt = [turn for turn in turns if turn.prompt_id == event.prompt_id]
    ended = (turns_of_prompt or turns)[-1]
    if not ended.has_words:
        return None
    if event.prompt_id is not None and ended.prompt_id not in (None, event.prompt_id):
        return None  # of another turn: a turn that a command began, for example, has no words

    # The event has the last answer, because the transcript may not have it yet.
    answer = answer_in(event.last_assistant_message or "")
    if answer:
        answered_ms = ended.answers[-1].time_ms if ended.answers else None
        answers = [Message("assistant", answer, answered_ms)]
    else:
        answers = [joined(ended.answers)] if ended.answers else []

    last_answer = answers[-1] if answers else None

    messages = ended.messages(last_answer)
    has_long = ended.count_of_shortened(last_answer) > 0

    session = event.session_id or ""
    if (
        "forkedFrom" in ended.first
    ):  # the event says nothing new: this turn was said in another session
        session = ended.session

    turn_id = ended.id_in(session, event.prompt_id)
    prompts = sum(turn.has_words for turn in turns)
    program = program_of(ended.first, prompts, programs)

    program_before = ""
    if prompts == 2 and not program:  # a second prompt tells that a person types
        program_before = program_of(ended.first, 1, programs)

    return Turn(
        turn_id,
        by_program(messages, program),
        _asked(ended, branches.live),
        ended.forgot,
        is_shortened=has_long,
        corrections=Corrections(
            _taken_back(event.session_id or "", branches, ended, turns),
            event.session_id or "",
            said_by=program_before,
        ),
        program=program,
        work=ended.work_in(folder or event.cwd),
    )


def _taken_back(
    session: str, branches: Branches, ended: TranscriptTurn, turns: Iterable[TranscriptTurn]
) -> frozenset[TakenBackTurn]:
    """Return the turns that the turn that ended replaced, without what was said again. Turns that an earlier turn
    replaced were taken back at an earlier event; if the user brought their memories back, they stay."""
    taken: set[TakenBackTurn] = set()
    for branch in branches.taken_back:
        if _is_replaced_in(branch, ended, branches.live):
            for turn in turns_of(branch.rows):
                taken.update(turn.taken_back(session))

    if not taken:
        return frozenset()
    for turn in turns:
        taken.difference_update(turn.taken_back(session))
    return frozenset(taken)


def _is_replaced_in(branch: TakenBackBranch, ended: TranscriptTurn, live: Iterable[Row]) -> bool:
    """Return whether the prompt that replaces a branch belongs to the turn that ended, which is the last one."""
    is_of_turn = False
    for row in live:
        is_of_turn = is_of_turn or row is ended.first
        if row is branch.replaced_by:
            return is_of_turn
    return False


def _asked(ended: TranscriptTurn, rows: Iterable[Row]) -> tuple[Message, ...]:
    """Return the messages that the last prompt of a turn was searched by: `messages_now` at that prompt."""
    messages = [line.message for line in _spoken(rows)]
    prompts = [message for message in ended.asked if message.role == "user"]
    last_prompt = next(
        (message for message in prompts if message.time_ms == ended.prompted_ms), prompts[-1]
    )
    before = messages
    if last_prompt in messages:
        before = messages[: messages.index(last_prompt)]
    return _searched_by(before, last_prompt)


@frozen
class _Spoken:
    """A message of a transcript, and the id of its prompt if the client gives it."""

    message: Message
    prompt_id: str | None


def _spoken(rows: Iterable[Row]) -> list[_Spoken]:
    """Return the messages of these lines of a transcript, each with the id of its prompt: only the words of user and
    model, without tools, thoughts and text of the client."""
    lines: list[_Spoken] = []
    for row in rows:
        prompt_id = row.get("promptId")
        if not isinstance(prompt_id, str):
            prompt_id = None
        for message in reading_of(row).messages:
            if lines and lines[-1].message.role == message.role == "assistant":
                message = joined([lines.pop().message, message])
            lines.append(_Spoken(message, prompt_id))
    return lines
