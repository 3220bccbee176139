"""One lorebook: its entries, in the order in which they take room, with what is unusual about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from starlette.responses import Response

from memory_server.kernel.values import dataclass
from memory_server.lore import USUAL_ORDER, LongTermMemory, rules_text
from memory_server.web.pages import number
from memory_server.web.view import View

_LISTED = 200
"""Entries on one page."""


@dataclass(frozen=True, slots=True)
class EntryLine:
    """An entry of a book. `rules`: the rules that are not as usual, without the order."""

    name: str
    text: str
    order: float
    chars: int
    is_constant: bool
    is_off: bool
    rules: str


async def book(view: View) -> Response:
    """`/book`: the entries of the book of that name or id in this conversation."""
    books = view.conversation.books
    shown = await books.book(view["name"])
    entries = await books.entries(shown.book_id)
    page = number(view["page"])
    lines = _lines(entries[page * _LISTED : (page + 1) * _LISTED])
    more = (
        view.link("book", name=shown.book_id, page=page + 1)
        if len(entries) > (page + 1) * _LISTED
        else ""
    )
    return await view.page("book.html", book=shown, entries=lines, more=more)


def _lines(entries: Sequence[LongTermMemory]) -> list[EntryLine]:
    return [
        EntryLine(
            name=memory.name,
            text=memory.prompt,
            order=memory.rules.order,
            chars=len(memory.prompt),
            is_constant=memory.is_constant,
            is_off=memory.rules.is_off,
            rules=rules_text(replace(memory.rules, order=USUAL_ORDER, is_off=False)),
        )
        for memory in entries
    ]
