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
from memory_server.interchange.spoken_places import DAMAGED, FORGOTTEN
from memory_server.interchange.transcript_turns import TranscriptTurn, turns_of
from memory_server.interchange.transcripts import row_of
from memory_server.kernel.messages import Message, storable
from memory_server.kernel.private import to_keep
from sandbox.locale import _


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
        for turn in turns_of(_new_lines(found, data, seen), found.lost):
            if not turn.has_words:
                continue
            cwd = turn.first.get("cwd")
            if isinstance(cwd, str) and cwd not in folders:
                folders[cwd] = folder_of(cwd) if cwd else None
            folder = folders.get(cwd) if isinstance(cwd, str) else None
            projects.setdefault(str(PurePosixPath(path).parent), PurePosixPath(folder or "").name)
            memory = _memory(found, turn, usual, folder)
            if memory is not None:
                memories[memory.id] = memory
    found.conversations = [Contents(usual, tuple(memories.values()))] if memories else []
    markdown = {path: data for path, data in files.items() if path.endswith(".md")}
    pages.take(found, markdown, times, lambda path: projects.get(str(PurePosixPath(path).parent.parent), ""))
    if not found.count and not found.skipped:
        raise NotThisFormat("holds no turn of a user and no page; give `~/.claude/projects`, or a folder in it.")
    return found


def _new_lines(found: Incoming, data: bytes, seen: set[str]) -> Iterator[Mapping[str, Any]]:
    """The lines of a transcript. One that another transcript has too, as that of a continued session, counts once."""
    for line in data.splitlines():
        row = row_of(line)
        if not row and line.strip():
            found.lost[DAMAGED] += 1
        uuid = row.get("uuid")
        if isinstance(uuid, str):
            if uuid in seen:
                continue
            seen.add(uuid)
        yield row


def _memory(found: Incoming, turn: TranscriptTurn, usual: str, folder: str | None) -> ShortTermMemory | None:
    if turn.forgot:
        found.lost[FORGOTTEN] += 1
        return None
    # As the hook: what the user said, and what the model wrote last.
    kept = to_keep(turn.messages(turn.answers[-1] if turn.answers else None))
    if not any(message.content.strip() for message in kept):
        return None
    messages: tuple[Message, ...] = tuple(map(storable, kept))
    session = str(turn.first.get("sessionId") or "")
    spoken = (part for message in messages for part in (message.role, message.content))
    memory = memory_of(
        usual, messages, "\0".join((turn.id_in(session), *spoken)), session=session or None, folder=folder
    )
    memory = replace(memory, time_ms=memory.time_ms or turn.prompted_ms or 0)
    beginning = messages[0].content[:40]
    return memory if found.fits(_("the turn that begins with `{content}`", beginning), memory) else None
