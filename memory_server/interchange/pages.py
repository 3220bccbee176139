"""Markdown pages as notes: a folder of basic-memory, the memory of Claude Code with its MEMORY.md, or any other.

Facts of basic-memory's NOTE-FORMAT.md (front matter with title, type, tags, permalink, created, modified; lines
`- [category] text #tag (context)` and `- relation [[Target]]`, which stay text) and of Claude Code's pages (name,
description, type). A page without front matter becomes a note for each of its sections.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import tzinfo
from pathlib import PurePosixPath

from languages import N_, _
from memory_server.interchange.incoming import Incoming, NotThisFormat, milliseconds_of, texts
from memory_server.kernel.json_text import Fields, Json
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.private import emptied
from memory_server.kernel.values import frozen
from memory_server.knowledge import front_matter
from memory_server.knowledge.notes.pages import MARK

_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
_HEADING = re.compile(r"^# (.*)\n", re.MULTILINE)
_FENCE = re.compile(r"^(?:`{3,}|~{3,})", re.MULTILINE)
_POINTER = re.compile(r"^[-*] \[[^\]\n]*\]\((?P<file>[^)\n]+\.md)\).*\n?", re.MULTILINE)
_EXPORTED = re.compile(
    r"^\*\*(?:[^\n]*\*\* \()?\d{4}-\d\d-\d\d \d\d:\d\d(?:\*\*[^\n]*|\))\n\n>", re.MULTILINE
)
"""What `own.write_page` writes below `# Memories`: the time of a memory, or name and time, above a quoted text."""
_LINK = re.compile(r"\[\[[^\[\]\n]+\]\]")
_OURS = N_(
    "memory-server wrote this page for people; import the format native, which `memory-server export FILE` writes; it "
    "has ids, and does not bring back what was erased"
)
_KNOWN = ("title", "name", "tags", "created", "modified")


def _of_all_projects(_path: str) -> str:
    return ""


def read(files: Mapping[str, bytes], times: Mapping[str, int], zone: tzinfo | None) -> Incoming:
    """Read the notes of all pages. `files`: the pages by their path in a folder; `times`: when each file was changed.
    Raises NotThisFormat: no page has text."""
    incoming = Incoming()
    take(incoming, files, times, project_of=_of_all_projects, zone=zone)
    if not incoming.count and not incoming.skipped:
        raise NotThisFormat("holds no page with text; import a folder with Markdown files.")
    return incoming


def take(
    incoming: Incoming,
    files: Mapping[str, bytes],
    times: Mapping[str, int],
    *,
    project_of: Callable[[str], str],
    zone: tzinfo | None = None,
) -> None:
    """Add the notes of these pages. `times`: when each file was changed; `project_of`: the project of a path, "" for
    all."""
    for path, data in sorted(files.items()):
        with incoming.record(path):
            _take_page(
                incoming, path, data, files=files, times=times, project=project_of(path), zone=zone
            )


def _take_page(
    incoming: Incoming,
    path: str,
    data: bytes,
    *,
    files: Mapping[str, bytes],
    times: Mapping[str, int],
    project: str,
    zone: tzinfo | None,
) -> None:
    """Add the notes of a page: one if it has front matter, otherwise one for each section. A page
    that cannot be read, or that memory-server wrote, is skipped. Links between pages are counted as
    lost."""
    try:
        page = _page_of(incoming, data)
    except (front_matter.Unreadable, UnicodeDecodeError) as error:
        incoming.skipped.append((path, str(error)))
        return

    text = emptied(page.body)  # a private part may go over several sections
    if is_ours(text):
        incoming.skipped.append((path, _(_OURS)))
        return

    # Links are resolved first: an index of pages that come too holds nothing else.
    text = _without_pointers(text, PurePosixPath(path).parent, files)
    incoming.lost[_("links between pages ([[name]]), which stay text")] += len(_LINK.findall(text))
    fields = page.fields
    note_fields = _note_fields(path, fields, changed_ms=times.get(path, 0), zone=zone)
    if project:
        note_fields |= {"kind": "project-tech", "project": project}

    title = str(fields.get("title") or fields.get("name") or "")
    for heading, body in _notes_in(page, text):
        incoming.note(
            path,
            f"page\n{path}\n{heading}",
            title=title or heading or _title_in(body, path),
            body=body.strip("\n"),
            key=True,
            **note_fields,
        )


def _note_fields(path: str, fields: Fields, *, changed_ms: int, zone: tzinfo | None) -> Json:
    """Return the fields that all notes of a page have, from its front matter. `changed_ms`: when its file was
    changed."""
    updated_ms = milliseconds_of(fields.get("modified"), zone) or changed_ms
    return {
        "created_ms": milliseconds_of(fields.get("created"), zone) or updated_ms,
        "updated_ms": updated_ms,
        "tags": [*texts(fields.get("tags")), *texts([fields.get("type")])],
        "metadata": {name: value for name, value in fields.items() if name not in _KNOWN},
        "source": path,
    }


def _notes_in(page: _Page, text: str) -> Iterable[tuple[str, str]]:
    """Yield heading and text of each note of a page. With front matter it is one note; otherwise
    each section is one."""
    if not page.has_fields:
        return _sections(text)
    description = page.fields.get("description")
    if isinstance(description, str):
        text = f"{description}\n\n{text}"
    return [("", text)]


def _title_in(body: str, path: str) -> str:
    """Return the heading of the first rank with which a text begins, or else the name of its file."""
    match = _HEADING.match(body)
    if match is None:
        return PurePosixPath(path).stem
    return match[1].strip(" #")


@frozen
class _Page:
    """The text of a file, and the fields of its front matter. `has_fields`: whether it has such."""

    body: str
    fields: Fields
    has_fields: bool


def _page_of(incoming: Incoming, data: bytes) -> _Page:
    """Parse the page of a file. Front matter that is not YAML is text, and counted as lost. Raises Unreadable or
    UnicodeDecodeError."""
    try:
        page = front_matter.read(data)
    except front_matter.NotFields:
        is_closed = f"\n{front_matter.MARK}".encode() in data
        incoming.lost[_("front matter that is not YAML, which stays text")] += is_closed
        page = None
    if page is None:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
        return _Page(text, NOTHING, has_fields=False)
    return _Page(page.body, page.fields, has_fields=True)


def is_ours(text: str) -> bool:
    """Tell whether memory-server wrote a page for people. It has no ids, so what was erased would come back by it."""
    exported = text.startswith("# Memories\n") and _EXPORTED.search(text) is not None
    return exported or text.startswith(MARK)


def _without_pointers(text: str, folder: PurePosixPath, files: Mapping[str, bytes]) -> str:
    """Return the text without the lines of an index that name another page, which comes too."""

    def unless_it_comes(line: re.Match[str]) -> str:
        """Return the line of an index of pages, or an empty text if it points to a page that comes too."""
        path = (folder / line["file"]).as_posix()
        if path in files:
            return ""
        return line[0]

    return _POINTER.sub(unless_it_comes, text)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield heading and text of each section; what is before the first has the heading ''."""
    fences = list(_fences(text))
    headings: list[re.Match[str]] = []
    for heading in _SECTION.finditer(text):
        is_in_block = bisect(fences, heading.start()) % 2 == 1
        if not is_in_block:
            headings.append(heading)
    ends = [heading.start() for heading in headings]
    ends.append(len(text))
    preface = text[: ends[0]]
    if _HEADING.sub("", preface).strip() or not headings:
        yield "", preface
    for heading, end in zip(headings, ends[1:], strict=True):
        body = text[heading.end() : end]
        if body.strip():
            yield heading[1].strip(" #"), body


def _fences(text: str) -> Iterator[int]:
    """Yield where fenced blocks begin and end, in turn."""
    opening = ""
    for fence in _FENCE.finditer(text):
        if opening and not fence[0].startswith(opening):
            continue
        opening = "" if opening else fence[0]
        yield fence.start()
