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

from memory_server.interchange.incoming import Incoming, milliseconds_of
from memory_server.kernel.private import EMPTY_PART, emptied, without_private
from memory_server.kernel.recalled_block import without_recalled
from memory_server.knowledge.entry import MAX_BODY_CHARS
from sandbox.locale import _

_HEADING = re.compile(r"^\*\*([^*\n]{1,200})\*\*[ \t]{0,9}$", re.MULTILINE)
_STARTER = _("projects that Claude made as an example")
_EMPTY = _("projects without instructions and documents")
_SOURCE = "claude"


def is_project(row: Mapping[str, Any]) -> bool:
    return "name" in row and "uuid" in row and ("prompt_template" in row or isinstance(row.get("docs"), list))


def is_memory(row: Mapping[str, Any]) -> bool:
    return "conversations_memory" in row or "project_memories" in row


def take(incoming: Incoming, projects: Sequence[Any], memories: Sequence[Any], newest_ms: int) -> None:
    """Add the notes and refs of these rows. `newest_ms`: when the newest message of the export was written, by which a
    memory is dated, because it has no time; 0: not known."""
    names: dict[str, str] = {}
    for number, row in enumerate(projects, 1):
        place = _("project {number}", number)
        if not isinstance(row, Mapping) or not is_project(row):
            incoming.skipped.append((place, _("it is not a project of Claude")))
            continue
        names[str(row["uuid"])] = without_private(_text(row.get("name")))
        _take_project(incoming, place, row)
    for number, row in enumerate(memories, 1):
        place = _("memory {number}", number)
        if isinstance(row, Mapping):
            _take_memory(incoming, place, row, names, newest_ms)
        else:
            incoming.skipped.append((place, _("it is not a memory of Claude")))


def _take_project(incoming: Incoming, place: str, row: Mapping[str, Any]) -> None:
    if row.get("is_starter_project") is True:
        incoming.lost[_STARTER] += 1
        return
    uuid = str(row["uuid"])
    name = without_private(_text(row.get("name")))
    updated_ms = milliseconds_of(row.get("updated_at"))
    created_ms = milliseconds_of(row.get("created_at")) or updated_ms
    texts = [_text(row.get(field)) for field in ("description", "prompt_template")]
    instructions = "\n\n".join(text for text in texts if text)
    documents = row.get("docs")
    rows = [document for document in documents if isinstance(document, Mapping)] if isinstance(documents, list) else []
    if not instructions and not rows:
        incoming.lost[_EMPTY] += 1
    if instructions:
        incoming.note(
            place,
            f"claude project\n{uuid}",
            name,
            instructions,
            source=_SOURCE,
            created_ms=created_ms,
            updated_ms=updated_ms,
            **_kind_of(name),
        )
    for number, document in enumerate(rows, 1):
        file_name = _text(document.get("filename"))
        made_ms = milliseconds_of(document.get("created_at")) or created_ms
        incoming.note(
            _("document {number} of {place}", number, place),
            f"claude document\n{uuid}\n{document.get('uuid') or file_name}",
            file_name,
            _text(document.get("content")),
            "refs/long-term",
            kind="",
            source=_SOURCE,
            tags=[name] if name else [],
            created_ms=made_ms,
            updated_ms=made_ms,
        )


def _take_memory(
    incoming: Incoming, place: str, row: Mapping[str, Any], names: Mapping[str, str], newest_ms: int
) -> None:
    account = row.get("account_uuid")
    by_project = row.get("project_memories")
    texts = {"": _text(row.get("conversations_memory"))}
    for uuid, text in by_project.items() if isinstance(by_project, Mapping) else ():
        texts[str(uuid)] = _text(text)
    for uuid, text in texts.items():
        project = names.get(uuid, uuid)
        for heading, body in _sections(text):
            incoming.note(
                place,
                f"claude memory\n{account}\n{uuid}\n{heading}",
                heading,
                body,
                source=_SOURCE,
                created_ms=newest_ms,
                **_kind_of(project),
            )
    files = row.get("memory_files")
    incoming.lost[_("files in which Claude remembers")] += len(files) if isinstance(files, list) else 0


def _kind_of(project: str) -> dict[str, Any]:
    return {"kind": "project-tech", "project": project[:200]} if project else {"kind": "domain"}


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Heading and text of each section; what is before the first has the heading ''. A section that is too long for a
    note becomes several, of what is not private; one that is wholly private is given, so that it is counted."""
    text = emptied(text)
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings), len(text)]
    sections = [("", text[: ends[0]])]
    for heading, end in zip(headings, ends[1:], strict=True):
        sections.append((heading[1].strip(), text[heading.end() : end]))
    for title, section in sections:
        body = section.strip()
        if len(body) > MAX_BODY_CHARS:
            body = without_recalled(without_private(body)) or EMPTY_PART
        for start in range(0, len(body), MAX_BODY_CHARS):
            yield (f"{title} {start // MAX_BODY_CHARS + 1}" if start else title), body[start : start + MAX_BODY_CHARS]


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
