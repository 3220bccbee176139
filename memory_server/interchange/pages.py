"""Markdown pages as notes: a folder of basic-memory, the memory of Claude Code with its MEMORY.md, or any other.

Facts of basic-memory's NOTE-FORMAT.md (front matter with title, type, tags, permalink, created, modified; lines
`- [category] text #tag (context)` and `- relation [[Target]]`, which stay text) and of Claude Code's pages (name,
description, type). A page without front matter becomes a note for each of its sections.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from datetime import tzinfo
from pathlib import PurePosixPath
from typing import Any

from memory_server.interchange.incoming import Incoming, NotThisFormat, milliseconds_of, texts
from memory_server.kernel.private import emptied
from memory_server.knowledge import front_matter
from memory_server.knowledge.notes.pages import MARK
from sandbox.locale import _

_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
_HEADING = re.compile(r"^# (.*)\n", re.MULTILINE)
_FENCE = re.compile(r"^(?:`{3,}|~{3,})", re.MULTILINE)
_POINTER = re.compile(r"^[-*] \[[^\]\n]*\]\((?P<file>[^)\n]+\.md)\).*\n?", re.MULTILINE)
_EXPORTED = re.compile(r"^\*\*(?:[^\n]*\*\* \()?\d{4}-\d\d-\d\d \d\d:\d\d(?:\*\*[^\n]*|\))\n\n>", re.MULTILINE)
"""What `own.write_page` writes below `# Memories`: the time of a memory, or name and time, above a quoted text."""
_LINK = re.compile(r"\[\[[^\[\]\n]+\]\]")
_OURS = _(
    "memory-server wrote this page for people; import the form native, which `memory-server export FILE` writes; it "
    "has ids, and does not bring back what was erased"
)
_KNOWN = ("title", "name", "tags", "created", "modified")


def read(files: Mapping[str, bytes], times: Mapping[str, int], zone: tzinfo | None) -> Incoming:
    """The notes of all pages: by their path in a folder, and when each file was changed. Raises NotThisFormat: there is
    none."""
    found = Incoming()
    take(found, files, times, lambda _path: "", zone)
    if not found.count and not found.skipped:
        raise NotThisFormat("holds no page with text; give a folder with Markdown files.")
    return found


def take(
    found: Incoming,
    files: Mapping[str, bytes],
    times: Mapping[str, int],
    project_of: Callable[[str], str],
    zone: tzinfo | None = None,
) -> None:
    """Add the notes of these pages; `project_of`: the project of a path, "" for all."""
    for path, data in sorted(files.items()):
        try:
            page = _page_of(found, data)
            text = data.decode("utf-8-sig").replace("\r\n", "\n") if page is None else page.body
        except (front_matter.Unreadable, UnicodeDecodeError) as error:
            found.skipped.append((path, str(error)))
            continue
        text = emptied(text)  # a private part may go over several sections
        if is_ours(text):
            found.skipped.append((path, _OURS))
            continue
        fields: Mapping[str, Any] = {} if page is None else page.fields
        project = project_of(path)
        kind = {"kind": "project-tech", "project": project} if project else {}
        text = _without_pointers(text, PurePosixPath(path).parent, files)
        found.lost[_("links between pages ([[name]]), which stay text")] += len(_LINK.findall(text))
        changed_ms = milliseconds_of(fields.get("modified"), zone) or times.get(path, 0)
        more: dict[str, Any] = {
            "created_ms": milliseconds_of(fields.get("created"), zone) or changed_ms,
            "updated_ms": changed_ms,
            "tags": [*texts(fields.get("tags")), *texts([fields.get("type")])],
            "metadata": {name: value for name, value in fields.items() if name not in _KNOWN},
            "source": path,
        }
        title = str(fields.get("title") or fields.get("name") or "")
        about = f"{fields['description']}\n\n" if isinstance(fields.get("description"), str) else ""
        for heading, body in [("", about + text)] if page is not None else _sections(text):
            first = _HEADING.match(body)
            named = title or heading or (first[1].strip(" #") if first else PurePosixPath(path).stem)
            known_by = f"page\n{path}\n{heading}"
            found.note(path, known_by, named, body.strip("\n"), key=True, **kind, **more)


def _page_of(incoming: Incoming, data: bytes) -> front_matter.Page | None:
    """The page of a file; None: all of it is text. Front matter that is not YAML is text too. Raises Unreadable."""
    try:
        return front_matter.read(data)
    except front_matter.NotFields:
        is_closed = f"\n{front_matter.MARK}".encode() in data
        incoming.lost[_("front matter that is not YAML, which stays text")] += is_closed
        return None


def is_ours(text: str) -> bool:
    """Whether memory-server wrote a page for people. It has no ids, so what was erased would come back by it."""
    exported = text.startswith("# Memories\n") and _EXPORTED.search(text) is not None
    return exported or text.startswith(MARK)


def _without_pointers(text: str, folder: PurePosixPath, files: Mapping[str, bytes]) -> str:
    """Without the lines of an index that name another page, which comes too."""
    return _POINTER.sub(lambda line: "" if (folder / line["file"]).as_posix() in files else line[0], text)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Heading and text of each section; what is before the first has the heading ''."""
    fences = list(_fences(text))
    starts = [one for one in _SECTION.finditer(text) if bisect(fences, one.start()) % 2 == 0]
    ends = [*(one.start() for one in starts), len(text)]
    before = text[: ends[0]]
    if _HEADING.sub("", before).strip() or not starts:
        yield "", before
    for start, end in zip(starts, ends[1:], strict=True):
        if text[start.end() : end].strip():
            yield start[1].strip(" #"), text[start.end() : end]


def _fences(text: str) -> Iterator[int]:
    """Where fenced blocks begin and end, in turn."""
    opened = ""
    for fence in _FENCE.finditer(text):
        if not opened or fence[0].startswith(opened):
            opened = "" if opened else fence[0]
            yield fence.start()
