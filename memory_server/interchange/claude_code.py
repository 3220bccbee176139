"""What Claude Code keeps in `~/.claude/projects`: transcripts, of which each turn becomes a short-term memory, and
beside them the pages of its memory (pages.py).

A turn gets the id that the hook `Stop` gives it, so that what was remembered as it was said is not there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from memory_server.conversations.contents import Contents
from memory_server.conversations.model import ShortTermMemory
from memory_server.interchange import pages
from memory_server.interchange.chats import memory_of
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.interchange.transcripts import message_of, row_of
from memory_server.kernel.messages import Message, storable
from memory_server.kernel.private import calls_forget, to_keep
from memory_server.kernel.recalled_block import as_said
from sandbox.locale import _

_LOST = {
    "thinking": _("thoughts of the model"),
    "tool_use": _("calls of tools, with their results"),
    "image": _("pictures and files"),
    "document": _("pictures and files"),
}


def read(
    files: Mapping[str, bytes], usual: str, times: Mapping[str, int], folder_of: Callable[[str], str | None]
) -> Incoming:
    """The turns of all transcripts, for `usual`, and the notes of all pages: files by their path in a folder, when each
    was changed, and what a working folder is called. Raises NotThisFormat: there is neither."""
    found = Incoming()
    memories: dict[str, ShortTermMemory] = {}
    folders: dict[str, str | None] = {}
    projects: dict[str, str] = {}
    seen: set[str] = set()
    for path, data in sorted(files.items()):
        if not path.endswith(".jsonl"):
            continue
        for rows in _turns(found, data, seen):
            if isinstance(cwd := rows[0].get("cwd"), str) and cwd not in folders:
                folders[cwd] = folder_of(cwd) if cwd else None
            folder = folders.get(cwd) if isinstance(cwd, str) else None
            projects.setdefault(str(PurePosixPath(path).parent), PurePosixPath(folder or "").name)
            if (memory := _memory(found, rows, usual, folder)) is not None:
                memories[memory.id] = memory
    found.conversations = [Contents(usual, tuple(memories.values()))] if memories else []
    markdown = {path: data for path, data in files.items() if path.endswith(".md")}
    pages.take(found, markdown, times, lambda path: projects.get(str(PurePosixPath(path).parent.parent), ""))
    if not found.count and not found.skipped:
        raise NotThisFormat("holds no turn of a user and no page; give `~/.claude/projects`, or a folder in it.")
    return found


def _turns(found: Incoming, data: bytes, seen: set[str]) -> Iterator[list[Mapping[str, Any]]]:
    """The lines of each turn. A line that another transcript has too, as that of a continued session, counts once."""
    turn: list[Mapping[str, Any]] = []
    for line in data.splitlines():
        row = row_of(line)
        if not row and line.strip():
            found.lost[_("lines that are cut off or are not JSON")] += 1
        if row.get("type") not in ("user", "assistant") or row.get("uuid") in seen:
            continue
        if isinstance(row.get("uuid"), str):
            seen.add(row["uuid"])
        if row.get("isSidechain"):
            found.lost[_("messages of sub-agents")] += 1
            continue
        said = message_of(row)
        if said is not None and said.role == "user" and turn:
            yield turn
            turn = []
        if turn or (said is not None and said.role == "user"):
            turn.append(row)
    if turn:
        yield turn


def _memory(found: Incoming, rows: list[Mapping[str, Any]], usual: str, folder: str | None) -> ShortTermMemory | None:
    for row in rows:
        content = row["message"].get("content") if isinstance(row.get("message"), Mapping) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, Mapping) and isinstance(kind := block.get("type"), str) and kind in _LOST:
                found.lost[_LOST[kind]] += 1
    if any(calls_forget(row.get("message")) for row in rows):
        found.lost[_("turns in which something was forgotten")] += 1
        return None
    said = [message for row in rows if (message := message_of(row)) is not None]
    session, asked = str(rows[0].get("sessionId") or ""), said[0]
    # As the hook: the question and what the model wrote last.
    kept = to_keep(as_said([asked, *(one for one in said[1:][-1:] if one.role == "assistant")]))
    if not any(message.content.strip() for message in kept):
        return None
    messages: tuple[Message, ...] = tuple(map(storable, kept))
    turn = f"{session}/{rows[0].get('promptId') or asked.time_ms}"
    known_by = "\0".join((turn, *(part for message in messages for part in (message.role, message.content))))
    memory = memory_of(usual, messages, known_by, session=session or None, folder=folder)
    memory = replace(memory, time_ms=memory.time_ms or asked.time_ms or 0)
    return memory if found.fits(_("the turn that begins with `{content}`", asked.content[:40]), memory) else None
