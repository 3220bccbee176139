"""The data export of ChatGPT or Claude: the zip as it is sent, or its folder unpacked. Pure.

It holds `conversations.json`, or `conversations-000.json` and more of a large export (chats.py). An export of Claude
also has projects and a memory (claude_projects.py). Names were seen in public readers of exports, from 2023 to 2026."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any

from languages import _
from memory_server.interchange import chats, claude_projects
from memory_server.interchange.incoming import Incoming, document
from memory_server.kernel.values import dataclass
from sandbox import chat

_CONVERSATIONS = re.compile(r"conversations(?:-\d{1,9})?\.json")
_PARTS = ("conversations-", "memories-", "projects-", "design_chats-")
"""How the names of the zip archives begin in which Claude sends a large export."""
_FILES = ("projects.json", "memories.json")
"""What Claude calls the files of an export beside its chats."""
_FOLDERS = ("projects", "memories", "design_chats")
"""The folders of an export with a file for each project, memory or chat."""


def is_part(path: str) -> bool:
    """Tell whether an export has chats, projects or a memory in a file of this name."""
    parts = PurePosixPath(path).parts
    name = parts[-1]
    is_in_folder = len(parts) > 1 and parts[-2] in _FOLDERS and name.endswith(".json")
    return is_in_folder or name in _FILES or _CONVERSATIONS.fullmatch(name) is not None


def is_archived_part(name: str) -> bool:
    """Tell whether an export has its chats, projects or memory in a zip archive of this name."""
    return name.startswith(_PARTS) and name.endswith(".zip")


def is_beside_chats(value: Any) -> bool:
    """Tell whether this is what an export of Claude holds beside its chats: projects or a memory."""
    rows = [row for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict)]
    return any(claude_projects.is_memory(row) or claude_projects.is_project(row) for row in rows)


def read(
    files: Mapping[str, bytes],
    others: Sequence[str],
    usual: str,
    names: Mapping[str, str],
) -> Incoming:
    """Read the exchanges of all chats, for `usual`, and the notes of projects and memories. `files`: the files of the
    export, by their path; `others`: the paths of files that were not read. `names`: the names of the `user` and the
    `char`. Raises NotThisFormat: nothing in it can be used."""
    incoming = Incoming()
    parts = _Parts(unread=list(others))
    for path, data in sorted(files.items()):
        if not is_part(path):
            parts.unread.append(path)
            continue
        with incoming.record(path):
            reason = parts.add(path, document(data))
            if reason:
                incoming.skipped.append((path, reason))

    # Chats first: the newest message dates the memory, which has no time.
    chats.take_readings(incoming, parts.readings, usual, names)
    claude_projects.take(incoming, parts.projects, parts.memories, newest_ms=_newest_ms(incoming))
    _count_others(incoming, parts.unread)
    if not incoming.count and not incoming.skipped:
        chats.refuse_empty(incoming)

    return incoming


@dataclass(slots=True)
class _Parts:
    """What the files of an export hold. `unread`: paths of files without chats, projects or a memory."""

    readings: list[chat.Reading] = field(default_factory=list)
    projects: list[Any] = field(default_factory=list)
    memories: list[Any] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def add(self, path: str, value: Any) -> str:
        """Add the value of a file; why it cannot be used, or ""."""
        rows = value if isinstance(value, list) else [value]
        if is_beside_chats(rows):
            objects = [row for row in rows if isinstance(row, dict)]
            if any(map(claude_projects.is_memory, objects)):
                self.memories += rows
            else:
                self.projects += rows
        elif _CONVERSATIONS.fullmatch(PurePosixPath(path).name):
            readings = chat.read_export(rows)
            if rows and not readings:
                return _("it is not a list of conversations of ChatGPT or Claude")
            self.readings += readings
        else:
            self.unread.append(path)
        return ""


def _newest_ms(incoming: Incoming) -> int:
    """Return when the newest memory of the chats was made, or 0 without memories."""
    newest_ms = 0
    for contents in incoming.conversations:
        newest_ms = max(
            newest_ms, max((memory.time_ms for memory in contents.short_term), default=0)
        )
    return newest_ms


def _count_others(incoming: Incoming, paths: Sequence[str]) -> None:
    """Name each other file that could hold something that was said, and count the rest."""
    for path in sorted(paths):
        if path.endswith((".json", ".zip")):
            incoming.notes.append(_("what stands in the file {path}", path))
    pictures = [path for path in paths if not path.endswith((".json", ".zip"))]
    if pictures:
        incoming.lost[
            _("files of the export that hold no chat, such as {name}", min(pictures))
        ] += len(pictures)
