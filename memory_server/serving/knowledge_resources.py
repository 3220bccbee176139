"""Notes as resources: the page of each type, and how much there is. Offered where the toolset `notes` is."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from memory_server.knowledge.note_pages import HEADINGS, Kind

if TYPE_CHECKING:
    from memory_server.knowledge.family import Knowledge

_BASE = "memory://knowledge/"
OVERVIEW = f"{_BASE}overview"
PAGES: dict[str, Kind] = {f"{_BASE}notes/{kind}": kind for kind in HEADINGS}
ROWS: tuple[tuple[str, str, str, Literal["text/markdown", "application/json"]], ...] = (
    *((uri, f"notes-{kind}", f"Notes: {HEADINGS[kind]}", "text/markdown") for uri, kind in PAGES.items()),
    (OVERVIEW, "knowledge-overview", "How many entries there are", "application/json"),
)
"""URI, name, title and form of each."""


async def read(knowledge: Knowledge, uri: str) -> str:
    """The text of the resource at `uri`, which is one of `ROWS`; reading counts nothing."""
    if uri in PAGES:
        return (await knowledge.notes.pages())[PAGES[uri]]
    from memory_server.serving.resources import as_json

    return as_json({scope: asdict(figures) for scope, figures in (await knowledge.overview()).items()})
