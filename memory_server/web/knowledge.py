"""Notes, layers, facts and refs: their lists, and one entry as it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal

from starlette.responses import Response

from languages import N_
from memory_server.kernel.errors import MemoryNotFound
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import Entry, Filter
from memory_server.knowledge.ports import ScopeView
from memory_server.web.pages import PAGE, number, rows_of_page
from memory_server.web.taking_back import places_of
from memory_server.web.view import View

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

SPACES: dict[str, Literal["notes", "layers", "sessions", "refs"]] = {
    "notes": "notes",
    "layers": "layers",
    "facts": "sessions",
    "refs": "refs",
}
"""The space behind each page."""
MOST_MARKDOWN = 20_000
"""Characters of Markdown on one page: the parser takes the square of their number for some texts, half a second."""
_ID_DIGITS = 16
"""A number has fewer digits than this where it is the id of an entry."""
_MOST_CELLS = 20_000
"""Cells of a table. Three characters of a row can be hundreds of cells."""
TITLES = N_({"notes": "Notes", "layers": "Layers", "facts": "Facts", "refs": "Refs"})


def page_of(space: str) -> str:
    """Return the page of a space."""
    return next(page for page, space_of_page in SPACES.items() if space_of_page == space)


async def listed(view: View) -> Response:
    """Show `/notes`, `/layers`, `/facts`, `/refs`: what is kept, changed last first."""
    kind = view.request.url.path.rpartition("/")[2]
    knowledge = view.call.memories.knowledge
    owner = view["owner"]
    end = (number(view["page"]) + 1) * PAGE
    rows: list[tuple[str, Entry]] = []
    total = 0
    # One row more than the page needs shows whether another page follows.
    for scope, store in await knowledge.places(SPACES[kind]):
        if owner and scope.owner != owner:
            continue
        newest = await store.read(scope, partial(_newest, end + 1))
        rows += [(scope.place, entry) for entry in newest.entries]
        total += newest.total

    rows.sort(key=lambda row: -row[1].updated_ms)
    page = rows_of_page(view, rows, kind, owner=owner)

    projects: Mapping[str, str] = {}
    if kind == "notes":
        projects = await knowledge.notes.project_names()

    return await view.page(
        "entries.html",
        kind=kind,
        rows=page.rows,
        projects=projects,
        total=total,
        more=page.more,
        titles=TITLES,
    )


@frozen
class _Newest:
    """The entries of a scope that changed last, and how many it has in all."""

    entries: Sequence[Entry]
    total: int


def _newest(most: int, stored: ScopeView) -> _Newest:
    return _Newest(stored.entries(Filter(), limit=most), stored.count(Filter()))


async def entry(view: View) -> Response:
    """Return the page `/entry`: one entry, its text rendered without any HTML of its own; a long
    one in parts. Raises MemoryNotFound."""
    place = view["family"]
    name = view["id"]
    for scope, store in await view.call.memories.knowledge.places():
        if scope.place != place:
            continue
        shown = await store.read(scope, partial(_named, place, name))
        if shown is not None:
            return await _entry_page(view, shown, place, scope.space)
    raise MemoryNotFound("That entry is no longer here; it was forgotten, or it has another name.")


async def _entry_page(view: View, shown: Entry, place: str, space: str) -> Response:
    """Return the page of one entry. A long text has several parts, of which the address names one;
    a number that is too large means the last part."""
    page = page_of(space)
    parts = await asyncio.to_thread(parts_of, shown.body)
    part = min(number(view["part"]), len(parts) - 1)
    return await view.page(
        "entry.html",
        entry=shown,
        family=place,
        kind=page,
        space=space,
        blocks=await asyncio.to_thread(blocks_of, parts[part]),
        part=part,
        parts_in_all=len(parts),
        places=await places_of(view, SPACES[page], place, view.entry_name(shown, place)),
    )


def _named(place: str, name: str, stored: ScopeView) -> Entry | None:
    """Find the entry with this key, number or ref."""
    if place.startswith("layers"):
        return stored.keyed("", "", name)
    if name.isascii() and name.isdecimal() and len(name) < _ID_DIGITS:
        return stored.get(id=int(name))
    return stored.get(ref=name)


def parts_of(text: str) -> list[str]:
    """Split the text into parts of at most `MOST_MARKDOWN` characters, which end with a paragraph or a line where
    they can."""
    parts = list[str]()
    start = 0
    while len(text) - start > MOST_MARKDOWN:
        end = _end_of_part(text, start)
        parts.append(text[start:end])
        start = end
    return [*parts, text[start:]]


def _end_of_part(text: str, start: int) -> int:
    """Return the end of a part that begins at `start`: after a paragraph, a line or a word in its second half."""
    least = start + MOST_MARKDOWN // 2
    most = start + MOST_MARKDOWN
    for mark in ("\n\n", "\n", " "):
        end = text.rfind(mark, least, most) + len(mark)
        if end > least:
            return end
    return most


@cache
def _markdown() -> MarkdownIt:
    """Make the parser of Markdown, without HTML and pictures."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_block.table import table

    def small_table(state: StateBlock, first_line: int, last_line: int, silent: bool) -> bool:
        """Parse a table, unless it could have more than `_MOST_CELLS`: each short row is filled up to all columns."""
        columns = state.getLines(first_line, first_line + 1, 0, False).count("|") + 1
        most_cells = (last_line - first_line) * columns
        if most_cells > _MOST_CELLS:
            return False
        return table(state, first_line, last_line, silent)

    markdown = (
        MarkdownIt("commonmark", {"html": False})
        .enable("table")
        .disable(["image", "html_block", "html_inline"])
    )
    markdown.block.ruler.at("table", small_table, {"alt": ["paragraph", "reference"]})
    return markdown


_TAGS = {
    "paragraph": "p",
    "heading": "h3",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "blockquote": "blockquote",
    "em": "strong",
    "strong": "strong",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
}
"""The elements with children, by their names in Markdown."""
_LEAF_TAGS = {
    "code_inline": "code",
    "fence": "pre",
    "code_block": "pre",
    "hr": "hr",
    "hardbreak": "br",
}
"""The elements with only a text; what has none here is a text without an element."""
_MOST_OPEN = 60
"""Elements inside each other; a deeper element goes beside the last one."""


def blocks_of(text: str) -> list[dict[str, Any]]:
    """Parse the first `MOST_MARKDOWN` characters of Markdown into a tree of `tag`, `text`, `children`; the template
    writes the elements, so that all text is escaped. Links keep only addresses of the web."""
    root: dict[str, Any] = {"tag": "", "children": []}
    _add_elements([root], _markdown().parse(text[:MOST_MARKDOWN]))
    children: list[dict[str, Any]] = root["children"]
    return children


def _add_elements(open_elements: list[dict[str, Any]], tokens: list[Token]) -> None:
    """Add the elements of these tokens to the tree. `open_elements`: from the root to the element that gets children."""
    depth = len(open_elements)
    for token in tokens:
        if token.type == "inline":
            _add_elements(open_elements, token.children or [])
        elif token.nesting == 1:
            element = _opened(token)
            open_elements[-1]["children"].append(element)
            # Deeper elements could exhaust the stack of the template.
            if len(open_elements) < _MOST_OPEN:
                open_elements.append(element)
        elif token.nesting == -1:
            if len(open_elements) > depth:
                open_elements.pop()
        else:
            tag = _LEAF_TAGS.get(token.type, "")
            text = "\n" if token.type == "softbreak" else token.content
            open_elements[-1]["children"].append(
                {"tag": tag, "text": text, "children": [], "href": ""}
            )


def _opened(token: Token) -> dict[str, Any]:
    """Return the element that a token opens, without its children."""
    name = token.type.removesuffix("_open")
    tag = _TAGS.get(name, "span")
    href = ""
    if name == "link":
        href = str(token.attrGet("href") or "")
        if href.startswith(("https://", "http://")):
            tag = "a"
    return {"tag": tag, "href": href, "children": [], "text": ""}
