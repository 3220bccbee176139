"""The data export of ChatGPT or Claude: the zip as it is sent, or its folder unpacked. Pure.

It holds `conversations.json`, or `conversations-000.json` and more of a large one (chats.py), and that of Claude also
projects and a memory (claude_projects.py). Names were seen in public readers of exports, from 2023 to 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from memory_server.interchange import chats, claude_projects
from memory_server.interchange.incoming import Incoming, NotThisFormat, document
from sandbox import chat
from sandbox.locale import _

_CONVERSATIONS = re.compile(r"conversations(?:-\d{1,9})?\.json")
_PARTS = ("conversations-", "memories-", "projects-", "design_chats-")
"""How the names of the zip archives begin in which Claude sends a large export."""
_FILES, _FOLDERS = ("projects.json", "memories.json"), ("projects", "memories", "design_chats")


def is_part(path: str) -> bool:
    """Whether an export has chats, projects or a memory in a file of this name."""
    parts = PurePosixPath(path).parts
    in_folder = len(parts) > 1 and parts[-2] in _FOLDERS and parts[-1].endswith(".json")
    return _CONVERSATIONS.fullmatch(parts[-1]) is not None or parts[-1] in _FILES or in_folder


def is_archived_part(name: str) -> bool:
    """Whether an export has its chats, projects or memory in a zip archive of this name."""
    return name.startswith(_PARTS) and name.endswith(".zip")


def is_beside_chats(value: Any) -> bool:
    """Whether this is what an export of Claude holds beside its chats: projects or a memory."""
    rows = value if isinstance(value, list) else [value]
    first = rows[0] if rows else None
    return isinstance(first, dict) and (claude_projects.is_memory(first) or claude_projects.is_project(first))


def read(
    files: Mapping[str, bytes],
    others: Sequence[str],
    usual: str,
    names: Mapping[str, str],
) -> Incoming:
    """The exchanges of all chats, for `usual`, and the notes of projects and memories. `files`: those of the export, by
    their path; `others`: the paths of files that were not read. `names`: of the `user` and the `char`. Raises
    NotThisFormat: nothing in it can be used."""
    incoming = Incoming()
    readings: list[chat.Reading] = []
    projects: list[Any] = []
    memories: list[Any] = []
    parts = {path: data for path, data in files.items() if is_part(path)}
    unread = [*others, *(path for path in files if path not in parts)]
    for path, data in sorted(parts.items()):
        try:
            value = document(data)
            rows = value if isinstance(value, list) else [value]
            if is_beside_chats(rows):
                (memories if claude_projects.is_memory(rows[0]) else projects).extend(rows)
            elif _CONVERSATIONS.fullmatch(PurePosixPath(path).name):
                conversations = chat.read_export(rows)
                readings += conversations
                if rows and not conversations:
                    incoming.skipped.append((path, _("it is not a list of conversations of ChatGPT or Claude")))
            else:
                unread.append(path)
        except NotThisFormat as error:
            incoming.skipped.append((path, _("it {reason}", error)))
    chats.take_readings(incoming, readings, usual, names)
    times = (memory.time_ms for contents in incoming.conversations for memory in contents.short_term)
    claude_projects.take(incoming, projects, memories, max(times, default=0))
    _count_others(incoming, unread)
    if not incoming.count and not incoming.skipped:
        chats.refuse_empty(incoming)
    return incoming


def _count_others(incoming: Incoming, paths: Sequence[str]) -> None:
    """Name each other file that could hold something that was said, and count those that cannot."""
    for path in sorted(paths):
        if path.endswith((".json", ".zip")):
            incoming.notes.append(_("what stands in the file {path}", path))
    pictures = [path for path in paths if not path.endswith((".json", ".zip"))]
    if pictures:
        incoming.lost[_("files of the export that hold no chat, such as {name}", min(pictures))] += len(pictures)
