"""What Claude Code keeps in `~/.claude/projects`: transcripts, of which each turn becomes a short-term memory, and
beside them the pages of its memory (pages.py).

A turn gets the id that the hook `Stop` gives it, so that what was remembered as it was said is not there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from memory_server.interchange import pages
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.interchange.transcript_turns import turns_of
from memory_server.interchange.transcripts import rows_of
from memory_server.interchange.turn_memories import TurnMemories
from memory_server.kernel.values import dataclass
from memory_server.knowledge.projects import name_of, unsettled


@dataclass(frozen=True, slots=True)
class WorkingFolders:
    """What is known of working folders by their paths: how a memory names one, and the key of its project ("":
    none)."""

    folder_of: Callable[[str], str | None]
    project_of: Callable[[str], str]


def read(
    files: Mapping[str, bytes], usual: str, times: Mapping[str, int], folders: WorkingFolders
) -> Incoming:
    """The turns of all transcripts, for `usual`, and the notes of all pages: files by their path in a folder, and when
    each was changed. Raises NotThisFormat: there is neither."""
    incoming = Incoming()
    memories = TurnMemories(incoming, usual, folders.folder_of)
    seen_ids: set[str] = set()
    for path, data in sorted(files.items()):
        if path.endswith(".jsonl"):
            lines = _new_lines(incoming, data, seen_ids)
            memories.add(path, turns_of(lines, incoming.lost))
    incoming.conversations = memories.contents()

    def project_of_page(path: str) -> str:
        transcripts = PurePosixPath(path).parent.parent
        working_folders = memories.working_folders.get(str(transcripts), set())
        return _only_one({folders.project_of(folder) for folder in working_folders})

    markdown = {path: data for path, data in files.items() if path.endswith(".md")}
    pages.take(incoming, markdown, times, project_of=project_of_page)
    if not incoming.count and not incoming.skipped:
        raise NotThisFormat(
            "holds no turn of a user and no page; import `~/.claude/projects`, or a folder in it."
        )
    return incoming


def _only_one(projects: Collection[str]) -> str:
    """The project of a folder of transcripts, which Claude Code names by a path in which each `/` and `.` became `-`:
    so two working folders may have one. Then nobody knows of which of them its pages are."""
    if len(projects) < 2:
        return next(iter(projects), "")
    return unsettled(name_of(min(projects)))


def _new_lines(incoming: Incoming, data: bytes, seen_ids: set[str]) -> Iterator[Mapping[str, Any]]:
    """The lines of a transcript. One that another transcript has too, as that of a continued session, counts once."""
    for line in data.splitlines():
        for row in rows_of(line, incoming.lost):
            uuid = row.get("uuid")
            if isinstance(uuid, str) and uuid in seen_ids:
                continue
            seen_ids.add(str(uuid))
            yield row
