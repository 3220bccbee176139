"""Transcripts of Claude Code: JSON lines, of which those of the types `user` and `assistant` hold messages. The hooks
read the end of one (cli/hook/claude_code.py), an import reads whole ones. Pure.

Seen with Claude Code 2.1.330. A line has `uuid`, `sessionId`, `promptId`, `cwd`, `timestamp` (ISO) and a `message` of
Anthropic's form. VS Code and Cursor write nearly the same; what is known of theirs is from programs that read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from memory_server.kernel.messages import MAX_CONTENT_CHARS, Message
from memory_server.storage.json_store import codec

_NOISE = re.compile(
    r"<(system-reminder|command-name|command-message|command-args|local-command-stdout|local-command-stderr|"
    r"local-command-caveat|task-notification|bash-input|bash-stdout|bash-stderr)>"
)
"""The beginning of text that the client adds to messages: reminders to the model, commands and their output."""
_OF_A_MESSAGE = re.compile(rb'"(?:type|role)":\s*"(?:user|assistant)(?:\.message)?"')
_INTERRUPTED = re.compile(r"^\[Request interrupted by user[^\]\n]*\]$", re.MULTILINE)


def rows_of_messages(transcript: bytes) -> Iterator[Mapping[str, Any]]:
    """The lines that may hold messages: most do not, and a line may have a megabyte."""
    return map(row_of, filter(_OF_A_MESSAGE.search, transcript.splitlines()))


def row_of(line: bytes) -> Mapping[str, Any]:
    """A line of a transcript; empty if the line is cut or is still being written."""
    try:
        row = codec.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def message_of(row: Mapping[str, Any]) -> Message | None:
    """What user or model said; None for a line without words, such as one of a tool, and for one of a sub-agent."""
    kind = row.get("type", row.get("role"))
    role = kind.removesuffix(".message") if isinstance(kind, str) else ""
    message = row.get("message" if role == kind else "data")
    if row.get("isSidechain") or row.get("isMeta") or row.get("isCompactSummary"):
        return None
    if not isinstance(message, Mapping) or role not in ("user", "assistant"):
        return None
    words = _words(message.get("content"))
    if "role" in row:
        words = words.rpartition("<user_query>")[2].partition("</user_query>")[0]  # Cursor adds files and rules to it
    content = cleaned(words)
    if not content:
        return None
    return Message("user" if role == "user" else "assistant", content, time_of(row.get("timestamp")))


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks: Iterable[Any] = content if isinstance(content, list) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping) and block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def cleaned(text: str) -> str:
    """What a person or the model wrote, without what the client added."""
    return _INTERRUPTED.sub("", _without_noise(text)).strip()[:MAX_CONTENT_CHARS]


def _without_noise(text: str) -> str:
    """Linear in the length: the end of an unclosed tag is searched only once."""
    kept, place, unclosed = list[str](), 0, set[str]()
    for begin in _NOISE.finditer(text):
        if begin.start() < place or begin[1] in unclosed:
            continue
        end = text.find(f"</{begin[1]}>", begin.end())
        if end < 0:
            unclosed.add(begin[1])
            continue
        kept.append(text[place : begin.start()])
        place = end + len(begin[1]) + 3
    return "".join(kept) + text[place:]


def time_of(timestamp: Any) -> int | None:
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
