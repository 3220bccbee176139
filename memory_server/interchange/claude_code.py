"""What Claude Code keeps in `~/.claude/projects`: transcripts, of which each turn becomes a short-term memory, and
beside them the pages of its memory (pages.py).

A turn gets the id that the hook `Stop` gives it, so that what was remembered as it was said is not there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from memory_server.interchange import pages
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.interchange.transcript_turns import turns_of
from memory_server.interchange.transcripts import rows_of
from memory_server.interchange.turn_memories import TurnMemories


def read(
    files: Mapping[str, bytes], usual: str, times: Mapping[str, int], folder_of: Callable[[str], str | None]
) -> Incoming:
    """The turns of all transcripts, for `usual`, and the notes of all pages: files by their path in a folder, when each
    was changed, and what a working folder is called. Raises NotThisFormat: there is neither."""
    found = Incoming()
    memories = TurnMemories(found, usual, folder_of)
    seen: set[str] = set()
    for path, data in sorted(files.items()):
        if path.endswith(".jsonl"):
            memories.add(path, turns_of(_new_lines(found, data, seen), found.lost))
    found.conversations = memories.contents()
    markdown = {path: data for path, data in files.items() if path.endswith(".md")}
    projects = memories.projects
    pages.take(found, markdown, times, lambda path: projects.get(str(PurePosixPath(path).parent.parent), ""))
    if not found.count and not found.skipped:
        raise NotThisFormat("holds no turn of a user and no page; give `~/.claude/projects`, or a folder in it.")
    return found


def _new_lines(found: Incoming, data: bytes, seen: set[str]) -> Iterator[Mapping[str, Any]]:
    """The lines of a transcript. One that another transcript has too, as that of a continued session, counts once."""
    for line in data.splitlines():
        for row in rows_of(line, found.lost):
            uuid = row.get("uuid")
            if isinstance(uuid, str) and uuid in seen:
                continue
            seen.add(str(uuid))
            yield row
