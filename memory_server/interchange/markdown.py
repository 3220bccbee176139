"""Memories as a page that people can read. Export only: it holds no ids, keywords or scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import tzinfo

from memory_server.core import times
from memory_server.core.contents import Contents

_RUNS = re.compile(r"`+")


def write(conversations: Iterable[Contents], zone: tzinfo | None = None) -> Iterator[bytes]:
    """A heading for each conversation, its memories by time, and its long-term memories with their triggers."""
    yield b"# Memories\n"
    for contents in conversations:
        yield f"\n## {_line(contents.conversation_id)}\n".encode()
        for memory in sorted(contents.short_term, key=lambda one: (one.time_ms, one.id)):
            pinned = ", pinned" if memory.pinned else ""
            yield f"\n**{_moment(memory.time_ms, zone)}**{pinned}\n\n{_quoted(memory.text)}\n".encode()
        if contents.long_term:
            yield b"\n### Long-term\n"
        for kept in sorted(contents.long_term, key=lambda one: (one.created_ms, one.name)):
            text = f"\n**{_line(kept.name)}** ({_moment(kept.created_ms, zone)})\n\n{_quoted(kept.prompt)}\n"
            yield f"{text}\n{_fenced(kept.trigger)}\n".encode()


def _moment(time_ms: int, zone: tzinfo | None) -> str:
    return f"{times.local(time_ms, zone):%Y-%m-%d %H:%M}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() + "  " * bool(line) for line in text.splitlines() or [""])


def _fenced(code: str) -> str:
    """A block that `code` cannot end: its fence is longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, _RUNS.findall(code)), default=0))
    return f"{fence}js\n{code}\n{fence}"
