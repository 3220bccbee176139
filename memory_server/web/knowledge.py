"""Notes, layers, facts and refs: their lists, and one entry as it reads."""

from __future__ import annotations

from functools import cache
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
    from markdown_it.token import Token

SPACES: dict[str, Literal["notes", "layers", "sessions", "refs"]] = {
    "notes": "notes",
    "layers": "layers",
    "facts": "sessions",
    "refs": "refs",
}
"""The space behind each page."""
TITLES = {"notes": _("Notes"), "layers": _("Layers"), "facts": _("Facts"), "refs": _("Refs")}


def page_of(space: str) -> str:
    return next(page for page, known in SPACES.items() if known == space)


async def listed(view: View) -> Response:
    """`/notes`, `/layers`, `/facts`, `/refs`: what is kept, changed last first."""
    page = view.request.url.path.rpartition("/")[2]
    offset, owner = number(view["page"]) * PAGE, view["owner"]
    rows: list[tuple[str, Entry]] = []
    total = 0
    for scope, store in await view.call.memories.knowledge.places(SPACES[page]):
        if owner and scope.owner != owner:
            continue
        entries, count = await store.read(
            scope, lambda held: (held.entries(Filter(), limit=offset + PAGE + 1), held.count(Filter()))
        )
        rows += [(place_of(scope), entry) for entry in entries]
        total += count
    rows.sort(key=lambda row: -row[1].updated_ms)
    more = view.link(page, page=number(view["page"]) + 1, owner=owner) if len(rows) > offset + PAGE else ""
    return await view.page(
        "entries.html", kind=page, rows=rows[offset : offset + PAGE], total=total, more=more, titles=TITLES
    )


async def entry(view: View) -> Response:
    """`/entry`: one entry, its text rendered without any HTML of its own."""
    place, name = view["family"], view["id"]
    for scope, store in await view.call.memories.knowledge.places():
        if place_of(scope) != place:
            continue

        def read(held: Any) -> Entry | None:
            if place.startswith("layers"):
                found: Entry | None = held.keyed("", "", name)
                return found
            known: Entry | None = held.get(id=int(name)) if name.isdecimal() and len(name) < 16 else held.get(ref=name)
            return known

        if (found := await store.read(scope, read)) is not None:
            blocks = blocks_of(found.body)
            return await view.page(
                "entry.html",
                entry=found,
                family=place,
                kind=page_of(scope.space),
                space=scope.space,
                blocks=blocks,
                places=await places_of(view, SPACES[page_of(scope.space)], place, view.entry_name(found, place)),
            )
    raise MemoryNotFound("That entry is not here any more; it was forgotten, or it has another name.")


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "html_block", "html_inline"])


_BLOCKS = {"paragraph": "p", "bullet_list": "ul", "ordered_list": "ol", "list_item": "li", "blockquote": "blockquote"}
_BLOCKS |= {"em": "strong", "strong": "strong", "table": "table", "tr": "tr", "th": "th", "td": "td"}
_BLOCKS |= {"thead": "thead", "tbody": "tbody"}


def blocks_of(text: str) -> list[dict[str, Any]]:
    """Markdown as a tree of `tag`, `text`, `children`; the template writes the elements, so that all text is escaped.
    Links keep only addresses of the web."""
    root: dict[str, Any] = {"tag": "", "children": []}
    _grow([root], _markdown().parse(text[:100_000]))
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
