"""claude-mem: its database `claude-mem.db` (seen with 13.25), and the JSON that its export writes, with the same rows.

An observation and the summary of a session become notes of their project; a prompt becomes a short-term memory, because
its answer is not kept there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memory_server.conversations.contents import Contents
from memory_server.interchange.chats import memory_of
from memory_server.interchange.incoming import Incoming, Tables, document, fields_of, list_of, milliseconds_of, texts
from memory_server.kernel.messages import Message, without_surrogates
from memory_server.kernel.private import to_keep, without_private
from memory_server.kernel.text import beginning
from sandbox.locale import _

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


def read(data: bytes, usual: str) -> Incoming:
    """The memories of an export. Raises NotThisFormat."""
    whole = fields_of(document(data))
    lists = {"observations": "observations", "session_summaries": "summaries", "user_prompts": "prompts"}
    rows = {table: list_of(whole.get(name)) for table, name in lists.items()}
    return read_tables(
        {table: [each for each in held if isinstance(each, dict)] for table, held in rows.items()}, usual
    )


def read_tables(tables: Tables, usual: str) -> Incoming:
    """The same of its database; prompts are for the conversation `usual`."""
    found = Incoming()
    for number, row in enumerate(tables.get("observations", ()), 1):
        lines = [_text(row.get(name)) for name in ("subtitle", "narrative", "text")]
        body = "\n\n".join(filter(None, (*lines, "\n".join(f"- {fact}" for fact in texts(row.get("facts"))))))
        tags = [*texts([row.get("type")]), *texts(row.get("concepts"))]
        title = _text(row.get("title"))
        _note(found, f"observation {number}", row, title, body or title, tags)
    for number, row in enumerate(tables.get("session_summaries", ()), 1):
        body = "\n\n".join(f"{name.replace('_', ' ')}: {text}" for name in _SUMMARY if (text := _text(row.get(name))))
        _note(found, f"summary {number}", row, beginning(without_private(_text(row.get("request")))), body, ["session"])
    memories = {memory.id: memory for memory in _prompts(found, tables, usual)}
    found.conversations = [Contents(usual, tuple(memories.values()))] if memories else []
    found.lost[_("answers to prompts, which claude-mem does not keep")] += len(memories)
    return found


def _note(found: Incoming, place: str, row: Mapping[str, Any], title: str, body: str, tags: list[str]) -> None:
    project = _text(row.get("merged_into_project")) or _text(row.get("project"))
    made_ms = milliseconds_of(row.get("created_at_epoch"))
    known_by = f"claude-mem\n{place.partition(' ')[0]}\n{row.get('memory_session_id')}\n{made_ms}\n{title}"
    files = {name: held for name in ("files_read", "files_modified", "files_edited") if (held := texts(row.get(name)))}
    kind = {"kind": "project-tech", "project": project[:200]} if project else {"kind": "tech"}
    found.note(place, known_by, title, body, created_ms=made_ms, tags=tags, metadata=files, source="claude-mem", **kind)


def _prompts(found: Incoming, tables: Tables, usual: str) -> Iterator[Any]:
    for number, row in enumerate(tables.get("user_prompts", ()), 1):
        text, session = _text(row.get("prompt_text")), _text(row.get("content_session_id"))
        kept = to_keep([Message("user", text, milliseconds_of(row.get("created_at_epoch")) or None)])
        if any(message.content.strip() for message in kept):
            known_by = f"claude-mem\nprompt\n{session}\n{row.get('prompt_number')}\n{text}"
            memory = memory_of(usual, kept, known_by, session=session or None)
            if found.fits(_("prompt {number}", number), memory):
                yield memory


def _text(value: Any) -> str:
    return without_surrogates(value).strip() if isinstance(value, str) else ""
