"""What clients (Claude Code, VS Code, Cursor) give to a hook, and which words of a turn are kept.

JSON on standard input, and the transcript of the session (interchange/transcripts.py, transcript_turns.py). Seen with
Claude Code 2.1.332: at UserPromptSubmit the prompt is not in the transcript yet, and a new session has none; the prompt
of a slash command is the line as it was typed. At Stop the last answer may not be in it yet, so the event carries it. A
compaction adds a line `compact_boundary`: what is before it is no longer in the context of the model. A session that is
continued or compacted keeps its id; `/clear` gives a new one.

VS Code and Cursor give nearly the same, by their documentation (code.visualstudio.com/docs/agent-customization/hooks,
microsoft/vscode issue 300583, cursor.com/docs/agent/hooks); they do not document their transcripts, whose form is known
from programs that read them. Cursor has other names, no source of a session, and cannot add to a prompt. Pure: the file
is read elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from io import BytesIO
from typing import Any

from memory_server.interchange.transcript_turns import TranscriptTurn, turns_of
from memory_server.interchange.transcripts import answer_in, prompt_in, reading_of, row_of, rows_of_messages, time_of
from memory_server.kernel.messages import FIRST_MS, Message, Session
from memory_server.kernel.private import shortened
from memory_server.kernel.recalled_block import as_said
from memory_server.knowledge.projects import Project
from sandbox.locale import _

CONTEXT_MESSAGES = 4
"""Messages of a search: the prompt, and the last few before it."""

_COMPACTED = b'"compact_boundary"'
"""Quotes inside a message are escaped, so a message cannot contain it."""
_OTHER_NAMES = {
    "session_id": ("session_id", "sessionId", "conversation_id"),
    "prompt_id": ("prompt_id", "generation_id"),
}
"""Fields that VS Code and Cursor call otherwise."""
CURSOR = {"sessionStart": "SessionStart", "beforeSubmitPrompt": "UserPromptSubmit", "stop": "Stop"}
"""Cursor's names of the events."""


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One call of a hook; `called` is the name that the client gave it. None: the client did not give it."""

    called: str
    session_id: str | None
    transcript_path: str | None
    prompt: str | None
    prompt_id: str | None
    last_assistant_message: str | None
    cwd: str | None
    source: str | None
    client: str | None

    @property
    def name(self) -> str:
        """Claude Code's name of the event."""
        return CURSOR.get(self.called, self.called)


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt with its answer. The same turn always has the same `id`; `asked` is what `messages_now` gave. `forgot`:
    our tool `forget` was called in it. `is_shortened`: a message was too long, and both ends of it are kept."""

    id: str
    messages: tuple[Message, ...]
    asked: tuple[Message, ...]
    forgot: bool = False
    is_shortened: bool = False


def event_of(given: Any) -> HookEvent:
    """The event that a hook was called for. Raises ValueError if this is not an event of a client."""
    called = given.get("hook_event_name", given.get("hookEventName")) if isinstance(given, Mapping) else None
    if not isinstance(called, str):
        raise ValueError(_("standard input is not a hook event: it must be an object with hook_event_name"))
    roots = given.get("workspace_roots")
    given = {"cwd": roots[0] if isinstance(roots, list) and roots else None, **given}
    given["client"] = "cursor" if called in CURSOR else "claude-code" if "hook_event_name" in given else "vscode"
    if called == "sessionStart" or given.get("source") == "new":
        given["source"] = "startup"

    def text_of(name: str) -> str | None:
        values = (given.get(each) for each in _OTHER_NAMES.get(name, (name,)))
        return next((value for value in values if isinstance(value, str) and value.strip()), None)

    return HookEvent(called, *(text_of(field.name) for field in fields(HookEvent)[1:]))


def session_of(event: HookEvent, transcript: bytes | None, *, whole: bool = True) -> Session | None:
    """The session of an event, and since when its messages are still in its context; None if it has no id. If the
    `transcript` (None: there is none) is not `whole`, it is the end of it: what was earlier counts as gone."""
    if not event.session_id:
        return None
    return Session(event.session_id, None if transcript is None else _context_since_ms(transcript, whole=whole))


def _context_since_ms(transcript: bytes, *, whole: bool) -> int | None:
    end = len(transcript)
    while (place := transcript.rfind(_COMPACTED, 0, end)) >= 0:
        end = transcript.rfind(b"\n", 0, place) + 1
        after = transcript.find(b"\n", place)
        row = row_of(transcript[end : after if after >= 0 else None])
        if row.get("subtype") == "compact_boundary" and (at_ms := time_of(row.get("timestamp"))) is not None:
            return at_ms
    if whole:
        return FIRST_MS
    times = (time_of(row_of(line).get("timestamp")) for line in BytesIO(transcript))
    return next((at_ms for at_ms in times if at_ms is not None), None)


def messages_now(event: HookEvent, transcript: bytes) -> tuple[Message, ...]:
    """The last few messages and the prompt, oldest first; no messages if the user wrote nothing in the prompt."""
    prompt = prompt_in(event.prompt or "")
    if not prompt:
        return ()
    before = [spoken.message for spoken in _spoken(transcript) if spoken.prompt_id != event.prompt_id]
    return _searched_by(before, Message("user", prompt))


def _searched_by(before: Iterable[Message], prompt: Message) -> tuple[Message, ...]:
    return tuple(map(shortened, (*as_said(before)[-(CONTEXT_MESSAGES - 1) :], prompt)))


def turn_ended(event: HookEvent, transcript: bytes) -> Turn | None:
    """The turn that just ended: all that the user said since the last one, and the answer; None if the user said
    nothing."""
    turns = list(turns_of(rows_of_messages(transcript)))
    named = [turn for turn in turns if turn.prompt_id == event.prompt_id]
    if not turns:
        return None
    ended = (named or turns)[-1]
    if not ended.has_words:
        return None
    if event.prompt_id is not None and ended.prompt_id not in (None, event.prompt_id):
        return None  # of another turn: this one has no words, such as one that a command began
    answer = answer_in(event.last_assistant_message or "")
    if answer:
        answered_ms = ended.answers[-1].time_ms if ended.answers else None
        answers = [Message("assistant", answer, answered_ms)]
    else:
        answers = _joined(ended.answers)
    last_answer = answers[-1] if answers else None
    messages = ended.messages(last_answer)
    has_long = ended.count_of_shortened(last_answer) > 0
    turn_id = ended.id_in(event.session_id or "", event.prompt_id)
    return Turn(turn_id, messages, _asked(ended, transcript), ended.forgot, is_shortened=has_long)


def _asked(ended: TranscriptTurn, transcript: bytes) -> tuple[Message, ...]:
    """What the last prompt of a turn was searched by: `messages_now` at that prompt."""
    spoken = [each.message for each in _spoken(transcript)]
    prompts = [message for message in ended.asked if message.role == "user"]
    prompted = [message for message in prompts if message.time_ms == ended.prompted_ms] or prompts[-1:]
    before = spoken.index(prompted[0]) if prompted[0] in spoken else len(spoken)
    return _searched_by(spoken[:before], prompted[0])


@dataclass(frozen=True, slots=True)
class _Spoken:
    message: Message
    prompt_id: str | None


def _spoken(transcript: bytes) -> list[_Spoken]:
    """The messages of a transcript, or of its end, each with the id of its prompt: only the words of user and model,
    without tools, thoughts and text of the client."""
    spoken: list[_Spoken] = []
    for row in rows_of_messages(transcript):
        prompt_id = row.get("promptId")
        for message in reading_of(row).messages:
            if spoken and spoken[-1].message.role == message.role == "assistant":
                message = _joined([spoken.pop().message, message])[0]
            spoken.append(_Spoken(message, prompt_id if isinstance(prompt_id, str) else None))
    return spoken


def _joined(answers: list[Message]) -> list[Message]:
    """An answer comes in blocks, a line each, with tools between them: it is one message."""
    if not answers:
        return []
    return [replace(answers[-1], content="\n".join(answer.content for answer in answers))]


@dataclass(frozen=True, slots=True)
class HookContext:
    """What is known at an event of a hook: `messages` are the prompt and the last few before it, `turn` is that which
    ended. `folder`: where the work is, `project`: of which project, if it is not that of the app's folder."""

    event: HookEvent
    session: Session | None
    folder: str | None
    messages: tuple[Message, ...] = ()
    turn: Turn | None = None
    project: Project | None = None
