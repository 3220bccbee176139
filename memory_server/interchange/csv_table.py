"""`csv`: a table for people who sort and count, with a row for each memory, trigger and entry. It is not read back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Final

from memory_server.conversations.contents import Contents
from memory_server.kernel.times import iso
from memory_server.knowledge.entry import Entry
from memory_server.knowledge.items import FAMILY_OF_SPACE

COLUMNS: Final = (
    *("family", "place", "id", "type", "project", "title", "text", "tags", "examples", "source"),
    *("confidence", "uses", "score", "created", "updated"),
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for a formula at the beginning of a cell: a text could call a program."""
Row = dict[str, object]


def write_csv(conversations: Iterable[Contents], entries: Iterable[tuple[str, Entry]]) -> bytes:
    """Write the table in UTF-8 with a byte order mark, by which spreadsheets know it."""
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, restval="")
    table.writeheader()
    for contents in conversations:
        for row in _conversation_rows(contents):
            table.writerow(_shown(row))
    for place, entry in entries:
        table.writerow(_shown(_entry_row(place, entry)))
    return text.getvalue().encode("utf-8-sig", "replace")


def _conversation_rows(contents: Contents) -> Iterator[Row]:
    for memory in contents.short_term:
        yield {
            "family": "memories",
            "place": contents.conversation_id,
            "id": memory.id,
            "text": memory.text,
            "score": memory.score,
            "created": _time(memory.time_ms),
        }

    for trigger in contents.long_term:
        yield {
            "family": "triggers",
            "place": contents.conversation_id,
            "id": trigger.name,
            "title": trigger.name,
            "text": trigger.prompt,
            "source": trigger.trigger,
            "created": _time(trigger.created_ms),
            "updated": _time(trigger.updated_ms or 0),
        }


def _entry_row(place: str, entry: Entry) -> Row:
    return {
        "family": FAMILY_OF_SPACE[place.partition("/")[0]],
        "place": place,
        "id": entry.key if place.startswith("layers/") else entry.ref,
        "type": entry.kind,
        "project": entry.project,
        "title": entry.title,
        "text": entry.body,
        "tags": ", ".join(entry.tags),
        "examples": "\n\n".join(entry.examples),
        "source": entry.source or "",
        "confidence": entry.confidence,
        "uses": entry.uses,
        "created": _time(entry.created_ms),
        "updated": _time(entry.updated_ms),
    }


def _time(time_ms: int) -> str:
    if not time_ms:
        return ""
    return iso(time_ms)


def _shown(row: Row) -> Row:
    return {name: _cell(value) for name, value in row.items()}


def _cell(value: object) -> object:
    """Put an apostrophe, which spreadsheets do not show, before a text that could be a formula."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
