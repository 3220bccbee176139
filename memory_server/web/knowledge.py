"""Notes, layers, facts and refs: their lists, and one entry as it reads."""

from __future__ import annotations

import asyncio
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal

from starlette.responses import Response

from memory_server.kernel.errors import MemoryNotFound
from memory_server.knowledge.entry import Entry, Filter
from memory_server.knowledge.items import place_of
from memory_server.web.pages import PAGE, number
from memory_server.web.taking_back import places_of
from memory_server.web.view import View
from sandbox.locale import _

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
_MOST_CELLS = 20_000
"""Cells of a table. Three characters of a row can be hundreds of cells."""
TITLES = {"notes": _("Notes"), "layers": _("Layers"), "facts": _("Facts"), "refs": _("Refs")}


def page_of(space: str) -> str:
    return next(page for page, known in SPACES.items() if known == space)


async def listed(view: View) -> Response:
    """`/notes`, `/layers`, `/facts`, `/refs`: what is kept, changed last first."""
    page = view.request.url.path.rpartition("/")[2]
    page_number, owner = number(view["page"]), view["owner"]
    most = (page_number + 1) * PAGE
    rows: list[tuple[str, Entry]] = []
    total = 0
    for scope, store in await view.call.memories.knowledge.places(SPACES[page]):
        if owner and scope.owner != owner:
            continue
        entries, count = await store.read(
            scope, lambda held: (held.entries(Filter(), limit=most + 1), held.count(Filter()))
        )
        rows += [(place_of(scope), entry) for entry in entries]
        total += count
    rows.sort(key=lambda row: -row[1].updated_ms)
    more = view.link(page, page=page_number + 1, owner=owner) if len(rows) > most else ""
    return await view.page(
        "entries.html",
        kind=page,
        rows=rows[most - PAGE : most],
        projects=await view.call.memories.knowledge.notes.project_names() if page == "notes" else {},
        total=total,
        more=more,
        titles=TITLES,
    )


async def entry(view: View) -> Response:
    """`/entry`: one entry, its text rendered without any HTML of its own; a long one in parts."""
    place, name = view["family"], view["id"]
    for scope, store in await view.call.memories.knowledge.places():
        if place_of(scope) != place:
            continue
        shown = await store.read(scope, partial(_named, place, name))
        if shown is not None:
            parts = await asyncio.to_thread(parts_of, shown.body)
            part = min(number(view["part"]), len(parts) - 1)
            return await view.page(
                "entry.html",
                entry=shown,
                family=place,
                kind=page_of(scope.space),
                space=scope.space,
                blocks=await asyncio.to_thread(blocks_of, parts[part]),
                part=part,
                parts_in_all=len(parts),
                places=await places_of(view, SPACES[page_of(scope.space)], place, view.entry_name(shown, place)),
            )
    raise MemoryNotFound("That entry is not here any more; it was forgotten, or it has another name.")


def _named(place: str, name: str, held: Any) -> Entry | None:
    """The entry with this key, number or ref."""
    named: Entry | None
    if place.startswith("layers"):
        named = held.keyed("", "", name)
    elif name.isascii() and name.isdecimal() and len(name) < 16:
        named = held.get(id=int(name))
    else:
        named = held.get(ref=name)
    return named


def parts_of(text: str) -> list[str]:
    """The text in parts of at most `MOST_MARKDOWN` characters, which end with a paragraph or a line where they can."""
    parts = list[str]()
    start = 0
    while len(text) - start > MOST_MARKDOWN:
        least, most = start + MOST_MARKDOWN // 2, start + MOST_MARKDOWN
        ends = (text.rfind(mark, least, most) + len(mark) for mark in ("\n\n", "\n", " "))
        end = next((end for end in ends if end > least), most)
        parts.append(text[start:end])
        start = end
    return [*parts, text[start:]]


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block.table import table

    def small_table(state: StateBlock, first_line: int, last_line: int, silent: bool) -> bool:
        """A table, unless it could have more than `_MOST_CELLS`: each short row is filled up to all columns."""
        columns = state.getLines(first_line, first_line + 1, 0, False).count("|") + 1
        return (last_line - first_line) * columns <= _MOST_CELLS and table(state, first_line, last_line, silent)

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "html_block", "html_inline"])
    markdown.block.ruler.at("table", small_table, {"alt": ["paragraph", "reference"]})
    return markdown


_BLOCKS = {"paragraph": "p", "bullet_list": "ul", "ordered_list": "ol", "list_item": "li", "blockquote": "blockquote"}
_BLOCKS |= {"em": "strong", "strong": "strong", "table": "table", "tr": "tr", "th": "th", "td": "td"}
_BLOCKS |= {"thead": "thead", "tbody": "tbody"}


def blocks_of(text: str) -> list[dict[str, Any]]:
    """The first `MOST_MARKDOWN` characters of Markdown as a tree of `tag`, `text`, `children`; the template writes the
    elements, so that all text is escaped. Links keep only addresses of the web."""
    root: dict[str, Any] = {"tag": "", "children": []}
    _grow([root], _markdown().parse(text[:MOST_MARKDOWN]))
    children: list[dict[str, Any]] = root["children"]
    return children


def _grow(open_: list[dict[str, Any]], tokens: list[Token]) -> None:
    depth = len(open_)
    for token in tokens:
        name = token.type.removesuffix("_open").removesuffix("_close")
        if token.type == "inline":
            _grow(open_, token.children or [])
        elif token.nesting == 1:
            tag, href = _BLOCKS.get(name, "span"), ""
            if name == "heading":
                tag = "h3"
            elif name == "link":
                href = str(token.attrGet("href") or "")
                tag = "a" if href.startswith(("https://", "http://")) else "span"
            node: dict[str, Any] = {"tag": tag, "href": href, "children": [], "text": ""}
            open_[-1]["children"].append(node)
            if len(open_) < 60:
                open_.append(node)
        elif token.nesting == -1:
            if len(open_) > depth:
                open_.pop()
        else:
            tag = {"code_inline": "code", "fence": "pre", "code_block": "pre", "hr": "hr", "hardbreak": "br"}.get(
                name, ""
            )
            said = "\n" if name == "softbreak" else token.content
            open_[-1]["children"].append({"tag": tag, "text": said, "children": [], "href": ""})
