"""claude-mem: its database `claude-mem.db` (seen with 13.25), and the JSON that its export writes, with the same rows.

An observation and the summary of a session become notes of their project; a prompt becomes a short-term memory, because
its answer is not kept there.
"""

from __future__ import annotations

from typing import Any

from languages import _
from memory_server.conversations.contents import Contents
from memory_server.conversations.model import ShortTermMemory
from memory_server.interchange.chats import memory_of
from memory_server.interchange.incoming import (
    MOST_PROJECT_CHARS,
    Incoming,
    Tables,
    document,
    fields_of,
    list_of,
    milliseconds_of,
    texts,
)
from memory_server.kernel.json_text import Fields, objects_in, without_surrogates
from memory_server.kernel.messages import Message
from memory_server.kernel.private import to_keep, without_private
from memory_server.kernel.text import beginning

_MADE = ("project", "merged_into_project", "memory_session_id", "created_at_epoch")
_SUMMARY = ("request", "investigated", "learned", "completed", "next_steps", "notes")
TABLES = {
    "observations": (
        *_MADE,
        *("type", "title", "subtitle", "narrative", "facts", "text", "concepts"),
        "files_read",
        "files_modified",
    ),
    "session_summaries": (*_MADE, *_SUMMARY, "files_read", "files_edited"),
    "user_prompts": ("content_session_id", "prompt_number", "prompt_text", "created_at_epoch"),
    "sdk_sessions": ("id",),
}


_LISTS = {
    "observations": "observations",
    "session_summaries": "summaries",
    "user_prompts": "prompts",
}
"""What an export calls the rows of a table."""


def read(data: bytes, usual: str) -> Incoming:
    """Read the memories of an export. Raises NotThisFormat."""
    export = fields_of(document(data))
    tables: dict[str, list[Fields]] = {}
    for table, name in _LISTS.items():
        tables[table] = [*objects_in(list_of(export.get(name)))]
    return read_tables(tables, usual)


def read_tables(tables: Tables, usual: str) -> Incoming:
    """Read the tables of its database: observations and summaries as notes, prompts as memories of
    the conversation `usual`. A row with wrong values is skipped."""
    incoming = Incoming()
    for number, row in enumerate(tables.get("observations", ()), 1):
        with incoming.record(f"observation {number}"):
            _note_observation(incoming, f"observation {number}", row)

    for number, row in enumerate(tables.get("session_summaries", ()), 1):
        with incoming.record(f"summary {number}"):
            _note_summary(incoming, f"summary {number}", row)

    memories: dict[str, ShortTermMemory] = {}  # a prompt that is there twice is one memory
    for number, row in enumerate(tables.get("user_prompts", ()), 1):
        location = _("prompt {number}", number)
        with incoming.record(location):
            memory = _prompt(row, usual)
            if memory is not None and incoming.fits(location, memory):
                memories[memory.id] = memory

    if memories:
        incoming.conversations = [Contents(usual, tuple(memories.values()))]

    incoming.lost[_("answers to prompts, which claude-mem does not keep")] += len(memories)
    return incoming


def _note_observation(incoming: Incoming, location: str, row: Fields) -> None:
    """Add an observation as a note, with its facts as a list and its type and concepts as tags."""
    title = _text(row.get("title"))
    paragraphs = [_text(row.get(name)) for name in ("subtitle", "narrative", "text")]
    facts = [f"- {fact}" for fact in texts(row.get("facts"))]
    paragraphs.append("\n".join(facts))
    body = "\n\n".join(filter(None, paragraphs)) or title
    tags = [*texts([row.get("type")]), *texts(row.get("concepts"))]
    _note(incoming, location, row, title=title, body=body, tags=tags)


def _note_summary(incoming: Incoming, location: str, row: Fields) -> None:
    """Add the summary of a session as a note, each field as a paragraph under its name; the request is its title."""
    paragraphs: list[str] = []
    for name in _SUMMARY:
        text = _text(row.get(name))
        if text:
            paragraphs.append(f"{name.replace('_', ' ')}: {text}")
    title = beginning(without_private(_text(row.get("request"))))
    _note(incoming, location, row, title=title, body="\n\n".join(paragraphs), tags=["session"])


def _note(
    incoming: Incoming,
    location: str,
    row: Fields,
    *,
    title: str,
    body: str,
    tags: list[str],
) -> None:
    """Add a row as a note of its project, or of no project if it names none, with the files that it
    names."""
    created_ms = milliseconds_of(row.get("created_at_epoch"))
    table = location.partition(" ")[0]
    # A project that was merged into another one goes on under that name.
    project = _text(row.get("merged_into_project")) or _text(row.get("project"))
    kind = {"kind": "tech"}
    if project:
        kind = {"kind": "project-tech", "project": project[:MOST_PROJECT_CHARS]}

    files = {
        name: texts(row.get(name)) for name in ("files_read", "files_modified", "files_edited")
    }
    incoming.note(
        location,
        f"claude-mem\n{table}\n{row.get('memory_session_id')}\n{created_ms}\n{title}",
        title=title,
        body=body,
        created_ms=created_ms,
        tags=tags,
        metadata={name: paths for name, paths in files.items() if paths},
        source="claude-mem",
        **kind,
    )


def _prompt(row: Fields, usual: str) -> ShortTermMemory | None:
    """Return the memory of a prompt, or None if it has no words, or all of them are private."""
    text = _text(row.get("prompt_text"))
    session = _text(row.get("content_session_id"))
    time_ms = milliseconds_of(row.get("created_at_epoch")) or None
    messages = to_keep([Message("user", text, time_ms)])
    if not any(message.content.strip() for message in messages):
        return None
    identity = f"claude-mem\nprompt\n{session}\n{row.get('prompt_number')}\n{text}"
    return memory_of(usual, messages, identity, session=session or None)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return without_surrogates(value).strip()
