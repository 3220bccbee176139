"""What Claude Code tells a hook: its JSON on standard input, and the transcript of the session it names.

Seen with Claude Code 2.1.330. A transcript is JSON lines, of which those of the types `user` and `assistant` hold
messages. At UserPromptSubmit the prompt is not in it yet, and of a new session there is none. At Stop the last answer
may not be in it yet, so the event carries it. Pure: the file is read elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_server.model import MAX_CONTENT_CHARS, Message, Role
from memory_server.recalled_block import as_said
from memory_server.storage import codec

CONTEXT_MESSAGES = 4
"""Messages that are searched by: the prompt, and the last few before it."""

_NOISE = re.compile(
    r"<(system-reminder|command-name|command-message|command-args|local-command-stdout|local-command-stderr|"
    r"local-command-caveat|task-notification|bash-input|bash-stdout|bash-stderr)>.*?</\1>",
    re.DOTALL,
)
"""What the client itself writes into messages: reminders to the model, commands and their output."""
_OF_A_MESSAGE = re.compile(rb'"type":\s*"(?:user|assistant)"')
_INTERRUPTED = re.compile(r"^\[Request interrupted by user[^\]]*\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One call of a hook. Fields that the client did not give are None."""

    name: str
    session_id: str
    transcript_path: str | None
    prompt: str | None
    prompt_id: str | None
    last_assistant_message: str | None


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said between a prompt and its answer. `id` is the same whenever the same turn is looked at."""

    id: str
    messages: tuple[Message, ...]


def event_of(given: Any) -> HookEvent:
    """The event that a hook was told of.

    Raises:
        ValueError: that is no event of Claude Code.
    """
    if not isinstance(given, Mapping) or not isinstance(given.get("hook_event_name"), str):
        raise ValueError("standard input is no hook event: an object with hook_event_name is needed")

    def text(name: str) -> str | None:
        return value if isinstance(value := given.get(name), str) and value.strip() else None

    return HookEvent(
        name=given["hook_event_name"],
        session_id=text("session_id") or "",
        transcript_path=text("transcript_path"),
        prompt=text("prompt"),
        prompt_id=text("prompt_id"),
        last_assistant_message=text("last_assistant_message"),
    )


@dataclass(frozen=True, slots=True)
class _Said:
    message: Message
    prompt_id: str | None


def messages_now(event: HookEvent, transcript: bytes) -> tuple[Message, ...]:
    """The last few messages and the prompt, oldest first; none where the prompt says nothing."""
    prompt = _cleaned(event.prompt or "")
    if not prompt:
        return ()
    before = [said.message for said in _said(transcript) if said.prompt_id is None or said.prompt_id != event.prompt_id]
    return (*as_said(before)[-(CONTEXT_MESSAGES - 1) :], Message("user", prompt))


def turn_ended(event: HookEvent, transcript: bytes) -> Turn | None:
    """The turn that just ended: the last prompt and the answer to it; None where the user said nothing."""
    everything = _said(transcript)
    last = next((n for n in reversed(range(len(everything))) if everything[n].message.role == "user"), None)
    if last is None:
        return None
    asked = everything[last]
    if event.prompt_id is not None and asked.prompt_id not in (None, event.prompt_id):
        return None  # of another turn: this one has no words, such as one that a command began
    answers = [said.message for said in everything[last + 1 :]]
    answer = _cleaned(event.last_assistant_message or "")
    if answer:
        answers = [Message("assistant", answer, answers[-1].time_ms if answers else None)]
    turn = f"{event.session_id}/{event.prompt_id or asked.prompt_id or asked.message.time_ms}"
    return Turn(turn, as_said([asked.message, *answers[-1:]]))


def _said(transcript: bytes) -> list[_Said]:
    """The messages of a transcript, or of its end: words only, without tools, thoughts and what the client wrote."""
    said: list[_Said] = []
    for line in transcript.splitlines():
        # Most of a transcript is neither, and its lines may be a megabyte long.
        if _OF_A_MESSAGE.search(line) is None:
            continue
        try:
            entry = codec.loads(line)
        except ValueError:
            continue  # the first line of the end of a file, or one that is being written
        if isinstance(entry, dict) and (one := _message(entry)) is not None:
            previous = said[-1].message if said else None
            if previous is not None and previous.role == one.message.role == "assistant":
                # An answer comes in blocks, a line each, with tools between them: it is one message.
                joined = f"{previous.content}\n{one.message.content}"[-MAX_CONTENT_CHARS:]
                one = _Said(Message("assistant", joined, one.message.time_ms), one.prompt_id)
                said.pop()
            said.append(one)
    return said


def _message(entry: Mapping[str, Any]) -> _Said | None:
    role, message = entry.get("type"), entry.get("message")
    if entry.get("isSidechain") or entry.get("isMeta") or entry.get("isCompactSummary"):
        return None
    if not isinstance(message, Mapping) or role not in ("user", "assistant"):
        return None
    content = _cleaned(_words(message.get("content")))
    if not content:
        return None
    prompt_id = entry.get("promptId")
    said_by: Role = "user" if role == "user" else "assistant"
    return _Said(
        Message(said_by, content, _time_ms(entry.get("timestamp"))), prompt_id if isinstance(prompt_id, str) else None
    )


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks: Iterable[Any] = content if isinstance(content, list) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping) and block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _cleaned(text: str) -> str:
    return _INTERRUPTED.sub("", _NOISE.sub("", text)).strip()[:MAX_CONTENT_CHARS]


def _time_ms(timestamp: Any) -> int | None:
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
