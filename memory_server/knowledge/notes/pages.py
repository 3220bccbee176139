"""Notes as pages that people read, and that other programs include. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from memory_server.knowledge.entry import Entry

Kind = Literal["tech", "project-tech", "domain"]
KINDS: tuple[Kind, ...] = get_args(Kind)
HEADINGS: dict[Kind, str] = {
    "tech": "Technical Knowledge",
    "project-tech": "Project Technical Standards",
    "domain": "Domain Knowledge",
}
MARK = "<!-- Made by `memory-server knowledge document`, which replaces this file: change the notes, not the page. -->"
"""The first line of a page. A file without it belongs to a user."""
FOLDER = "memory-docs"
"""The folder in which pages are written if no other folder is named."""
_RUNS = re.compile(r"`+")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


def page(kind: Kind, notes: Iterable[Entry], *, stable: bool = False) -> str:
    """Return the page of a kind, with the notes in their order. A `stable` page is ordered by topic and has no counts,
    so it changes only if a note does."""
    ordered_notes = list(notes)
    if stable:
        ordered_notes.sort(key=lambda note: (note.title, note.id))
    lines = [MARK, f"# {HEADINGS[kind]}", ""]
    for note in ordered_notes:
        lines += _lines(note, stable)
    return "\n".join(lines)


def _lines(note: Entry, stable: bool) -> Iterator[str]:
    """Yield the lines of a note in Markdown. A `stable` page leaves out how often the note was used
    and its confidence, which change without an edit."""
    yield f"## {note.title}"
    if note.tags:
        yield f"*Tags: {', '.join(note.tags)}*"
    if not stable:
        yield f"*References: {note.uses}, Confidence: {note.confidence:.2f}*"
    yield from ("", note.body.strip("\n"), "")
    if note.examples:
        yield "### Examples:"
    for example in note.examples:
        yield from (fenced(example), "")
    yield from ("---", "")


def fenced(code: str) -> str:
    """Return a block that `code` cannot end: its fence is longer than any run of backticks in it. Code that is already
    a block is returned as it is."""
    code = code.strip("\n")
    opening = _FENCE.match(code)
    if opening is not None:
        last_line = code.rstrip().rpartition("\n")[2].strip()
        if last_line == opening[1] and "\n" in code:
            return code
    longest_run = max(map(len, _RUNS.findall(code)), default=0)
    fence = "`" * max(3, longest_run + 1)
    return f"{fence}\n{code}\n{fence}"
