"""The data export of ChatGPT or Claude: the zip as it is sent, or its folder unpacked. Pure.

It holds `conversations.json`, or `conversations-000.json` and more of a large export (chats.py). An export of Claude
also has projects and a memory (below). Names were seen in public readers of exports, from 2023 to 2026."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any

from languages import N_, _
from memory_server.interchange import chats
from memory_server.interchange.incoming import (
    MOST_PROJECT_CHARS,
    Incoming,
    document,
    milliseconds_of,
    text_of,
)
from memory_server.kernel.json_text import Fields, Json, objects_in
from memory_server.kernel.private import EMPTY_PART, emptied, without_private
from memory_server.kernel.recalled_block import without_recalled
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import MAX_BODY_CHARS
from sandbox import chat

# --- projects and memories of Claude -----------------------------------------------------------------------------

# Projects of Claude and what Claude remembers of its user, as its data export has them (`projects.json` or a file for
# each project, `memories.json`). Pure.
#
# A project has `name`, `description`, `prompt_template` (the instructions of the user) and `docs` with `filename` and
# `content`. A memory has `conversations_memory` and, by the uuid of a project, `project_memories`: Markdown whose
# headings are lines of bold text. Instructions and memories become notes, because they are short and true of the
# user; documents become refs, because they are long.

_HEADING = re.compile(r"^\*\*([^*\n]{1,200})\*\*[ \t]{0,9}$", re.MULTILINE)
_STARTER = N_("projects that Claude made as an example")
_EMPTY = N_("projects without instructions and documents")
_SOURCE = "claude"


def is_project(row: Fields) -> bool:
    return (
        "name" in row
        and "uuid" in row
        and ("prompt_template" in row or isinstance(row.get("docs"), list))
    )


def is_memory(row: Fields) -> bool:
    return "conversations_memory" in row or "project_memories" in row


def take_projects(
    incoming: Incoming, projects: Sequence[Any], memories: Sequence[Any], newest_ms: int
) -> None:
    """Add the notes and refs of these rows. `newest_ms`: when the newest message of the export was written, or 0 if
    it is not known. It dates the memories, which have no time."""
    # Projects first: a memory names its project only by an id.
    project_names: dict[str, str] = {}
    for number, row in enumerate(projects, 1):
        location = _("project {number}", number)
        if not isinstance(row, Mapping) or not is_project(row):
            incoming.skipped.append((location, _("it is not a project of Claude")))
            continue
        with incoming.record(location):
            project_names[str(row["uuid"])] = without_private(text_of(row.get("name")))
            _take_project(incoming, location, row)

    for number, row in enumerate(memories, 1):
        location = _("memory {number}", number)
        if not isinstance(row, Mapping):
            incoming.skipped.append((location, _("it is not a memory of Claude")))
            continue
        with incoming.record(location):
            _take_memory(incoming, location, row, project_names=project_names, newest_ms=newest_ms)


def _take_project(incoming: Incoming, location: str, row: Fields) -> None:
    """Add the instructions of a project as a note and its documents as refs. A starter project and
    an empty one are only counted as lost."""
    if row.get("is_starter_project") is True:
        incoming.lost[_STARTER] += 1
        return

    uuid = str(row["uuid"])
    name = without_private(text_of(row.get("name")))
    updated_ms = milliseconds_of(row.get("updated_at"))
    created_ms = milliseconds_of(row.get("created_at")) or updated_ms
    texts = [text_of(row.get(field)) for field in ("description", "prompt_template")]
    instructions = "\n\n".join(filter(None, texts))
    # A project can have a prompt template, which Claude follows in each chat, and documents, which it reads there.
    documents = objects_in(row.get("docs"))
    if not instructions and not documents:
        incoming.lost[_EMPTY] += 1

    if instructions:
        incoming.note(
            location,
            f"claude project\n{uuid}",
            title=name,
            body=instructions,
            source=_SOURCE,
            created_ms=created_ms,
            updated_ms=updated_ms,
            **_kind_of(name),
        )

    for number, page in enumerate(documents, 1):
        file_name = text_of(page.get("filename"))
        document_ms = milliseconds_of(page.get("created_at")) or created_ms
        incoming.note(
            _("document {number} of {place}", number, location),
            f"claude document\n{uuid}\n{page.get('uuid') or file_name}",
            title=file_name,
            body=text_of(page.get("content")),
            knowledge_place="refs/long-term",
            kind="",
            source=_SOURCE,
            tags=[name] if name else [],
            created_ms=document_ms,
            updated_ms=document_ms,
        )


def _take_memory(
    incoming: Incoming,
    location: str,
    row: Fields,
    *,
    project_names: Mapping[str, str],
    newest_ms: int,
) -> None:
    """Add what Claude remembers as notes, one for each section: of all chats, and of the projects
    in `project_names`. Its files are only counted as lost."""
    texts = {"": text_of(row.get("conversations_memory"))}
    by_project = row.get("project_memories")
    if isinstance(by_project, Mapping):
        for uuid, text in by_project.items():
            texts[str(uuid)] = text_of(text)

    account = row.get("account_uuid")
    # The text under no project is about all chats.
    for uuid, text in texts.items():
        project = project_names.get(uuid, uuid)
        for heading, body in _sections(text):
            incoming.note(
                location,
                f"claude memory\n{account}\n{uuid}\n{heading}",
                title=heading,
                body=body,
                source=_SOURCE,
                created_ms=newest_ms,
                **_kind_of(project),
            )

    files = row.get("memory_files")
    if isinstance(files, list):
        incoming.lost[_("files in which Claude remembers")] += len(files)


def _kind_of(project: str) -> Json:
    if not project:
        return {"kind": "domain"}
    return {"kind": "project-tech", "project": project[:MOST_PROJECT_CHARS]}


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield heading and text of each section; text before the first heading has the heading ''. A section that is too
    long for a note becomes several, of what is not private. A wholly private section is given too, so that it is
    counted."""
    text = emptied(text)
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings]
    ends.append(len(text))
    sections = [("", text[: ends[0]])]
    for heading, end in zip(headings, ends[1:], strict=True):
        sections.append((heading[1].strip(), text[heading.end() : end]))
    for title, section in sections:
        yield from _parts_of(title, section.strip())


def _parts_of(title: str, body: str) -> Iterator[tuple[str, str]]:
    """Yield title and text of the notes that a section becomes, each of at most `MAX_BODY_CHARS`; later ones have a
    number in their title."""
    if len(body) > MAX_BODY_CHARS:
        body = without_recalled(without_private(body)) or EMPTY_PART
    for start in range(0, len(body), MAX_BODY_CHARS):
        part_title = title
        if start:
            part_title = f"{title} {start // MAX_BODY_CHARS + 1}"
        yield part_title, body[start : start + MAX_BODY_CHARS]


# --- exports -----------------------------------------------------------------------------------------------------

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
    rows = objects_in(value if isinstance(value, list) else [value])
    return any(is_memory(row) or is_project(row) for row in rows)


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
    take_projects(incoming, parts.projects, parts.memories, newest_ms=_newest_ms(incoming))
    _count_others(incoming, parts.unread)
    if not incoming.count and not incoming.skipped:
        chats.refuse_empty(incoming)

    return incoming


@dataclass(slots=True)
class _Parts:
    """What the files of an export hold. `unread`: paths of files without chats, projects or a memory."""

    readings: list[chat.ParsedChat] = field(default_factory=list)
    projects: list[Any] = field(default_factory=list)
    memories: list[Any] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def add(self, path: str, value: Any) -> str:
        """Add the value of a file: conversations, projects or memories. Return why it cannot be
        used, or ''. A file of another kind is only noted as unread."""
        rows = value if isinstance(value, list) else [value]
        if is_beside_chats(rows):
            objects = objects_in(rows)
            if any(map(is_memory, objects)):
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
