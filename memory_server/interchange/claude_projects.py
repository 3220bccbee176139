"""Projects of Claude and what Claude remembers of its user, as its data export has them (`projects.json` or a file for
each project, `memories.json`). Pure.

A project has `name`, `description`, `prompt_template` (the instructions of the user) and `docs` with `filename` and
`content`. A memory has `conversations_memory` and, by the uuid of a project, `project_memories`: Markdown whose
headings are lines of bold text. Instructions and memories become notes, because they are short and true of the user;
documents become refs, because they are long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from languages import N_, _
from memory_server.interchange.incoming import (
    MOST_PROJECT_CHARS,
    Incoming,
    milliseconds_of,
    text_of,
)
from memory_server.kernel.private import EMPTY_PART, emptied, without_private
from memory_server.kernel.recalled_block import without_recalled
from memory_server.knowledge.entry import MAX_BODY_CHARS

_HEADING = re.compile(r"^\*\*([^*\n]{1,200})\*\*[ \t]{0,9}$", re.MULTILINE)
_STARTER = N_("projects that Claude made as an example")
_EMPTY = N_("projects without instructions and documents")
_SOURCE = "claude"


def is_project(row: Mapping[str, Any]) -> bool:
    return (
        "name" in row
        and "uuid" in row
        and ("prompt_template" in row or isinstance(row.get("docs"), list))
    )


def is_memory(row: Mapping[str, Any]) -> bool:
    return "conversations_memory" in row or "project_memories" in row


def take(
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


def _take_project(incoming: Incoming, location: str, row: Mapping[str, Any]) -> None:
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
    documents: list[Mapping[str, Any]] = []
    if isinstance(row.get("docs"), list):
        documents = [document for document in row["docs"] if isinstance(document, Mapping)]
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

    for number, document in enumerate(documents, 1):
        file_name = text_of(document.get("filename"))
        document_ms = milliseconds_of(document.get("created_at")) or created_ms
        incoming.note(
            _("document {number} of {place}", number, location),
            f"claude document\n{uuid}\n{document.get('uuid') or file_name}",
            title=file_name,
            body=text_of(document.get("content")),
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
    row: Mapping[str, Any],
    *,
    project_names: Mapping[str, str],
    newest_ms: int,
) -> None:
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


def _kind_of(project: str) -> dict[str, Any]:
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
    """Title and text of the notes that a section becomes."""
    if len(body) > MAX_BODY_CHARS:
        body = without_recalled(without_private(body)) or EMPTY_PART
    for start in range(0, len(body), MAX_BODY_CHARS):
        part_title = title
        if start:
            part_title = f"{title} {start // MAX_BODY_CHARS + 1}"
        yield part_title, body[start : start + MAX_BODY_CHARS]
