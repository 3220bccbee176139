"""`POST /v1/import` and `POST /v1/export`: what `memory-server import -` and `export -` do, for programs without a
shell. A request bounds what comes, and nothing of the server's own files can be named."""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field
from starlette.responses import Response

from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.errors import InvalidInput, ReadOnly, StorageError
from memory_server.kernel.items import OF_CONVERSATIONS, Family
from memory_server.kernel.values import JsonObject, frozen
from memory_server.operations.exports import ExportContent, ExportRequest, exported, file_content
from memory_server.operations.imports import ImportReport, ImportRequest, form_named, import_sources
from memory_server.operations.lore_import import book_text
from memory_server.operations.ports import OpenMemory, ReadOptions, Source
from memory_server.serving.http.refusals import HttpError
from memory_server.tools.base.shapes import Arguments, Text

NOT_OFFERED = (
    "This server does not offer import and export: they come with the whole toolset short-term, which its "
    "operator can name in `--toolsets`."
)
CHECK_SECONDS = 20.0
"""How long the triggers of an import are checked: other requests of the tenant wait meanwhile."""
MOST_BYTES = 64_000_000
"""Bytes of an export; other tenants wait while an export is made."""
_MEDIA = {
    "native": "application/x-ndjson",
    "pack": "application/json",
    "csv": "text/csv",
    "markdown": "text/markdown",
}
_UNNAMED = "the content"
_FIELDS = {
    "leave -c out": "leave `conversation_id` out",
    "add `--format chat --user NAME --char NAME`": "add `format` chat, and `user` and `char`",
    "`--encoding gb18030`": "`encoding` gb18030",
    "name its file instead of standard input": "a server imports no database",
    "`memory-server undo ": "`undo_change ",
    "--format": "`format`",
    "--encoding": "`encoding`",
    "--book": "`book`",
}
"""What sentences for a shell say, and what a program does in its place."""
_Name = Annotated[Text, Field(max_length=1_000)]


class _Body(Arguments):
    conversation_id: _Name | None = None


class ImportBody(_Body):
    """The content of a file. `content`: the text of a text file; `base64`: the bytes of any file. `format`: its form,
    which the content shows by default. `name`: the name of the file. `conversation_id`: where records go that do not
    name a conversation. `user` and `char`: who they are in it. `book`: the lorebook here of which it is a new
    version."""

    content: str | None = None
    base64: str | None = None
    format: _Name | None = None
    encoding: _Name | None = None
    name: _Name = _UNNAMED
    user: _Name | None = None
    char: _Name | None = None
    book: _Name | None = None
    dry_run: bool = False


class ExportBody(_Body):
    """What is exported, by default everything, and in which form."""

    format: Literal["native", "csv", "markdown", "pack"] = "native"
    family: Family | None = None


@frozen
class Exchange:
    """Whose memories a request is about, and what it may do. `admit` refuses a content that has no room. `usual`: the
    conversation that a header names."""

    view: OpenMemory
    admit: Callable[[int], Awaitable[None]]
    may_write: bool
    usual: str | None = None


async def import_content(exchange: Exchange, fields: JsonObject) -> Response:
    """Import a content, and tell what came of it. Raises ValidationError, MemoryServerError."""
    body = ImportBody.model_validate(dict(fields))
    view = exchange.view
    options = ReadOptions(
        form_named(body.format),
        body.encoding,
        conversation=body.conversation_id,
        user=body.user,
        char=body.char,
        book=body.book,
        check_until=time.monotonic() + CHECK_SECONDS,
    )
    # A dry run changes nothing, so a token that only reads may ask for it.
    if not body.dry_run:
        if not exchange.may_write:
            raise ReadOnly("This token or server only reads; with dry_run nothing is stored.")
        view.memories.services.refuse_while_paused()
        options = replace(options, admit=exchange.admit)

    request = ImportRequest(
        [Source(body.name or _UNNAMED, _data_of(body))], options, dry_run=body.dry_run
    )
    report = await import_sources(view, request)
    # In a thread: a report of many records takes long to write.
    answer = await asyncio.to_thread(_json_of, report)
    return Response(orjson.dumps(answer), media_type="application/json")


def _data_of(body: ImportBody) -> bytes:
    """Return the bytes of the content. Raises InvalidInput: it is missing, or given twice or wrongly."""
    if (body.content is None) == (body.base64 is None):
        raise InvalidInput("Give the file as `content`, or as `base64` if it is not text.")
    if body.base64 is None:
        return (body.content or "").encode(errors="replace")
    try:
        return b64decode(body.base64, validate=True)
    except ValueError as error:
        raise InvalidInput("`base64` is not base64: {reason}.", error) from error


def _json_of(report: ImportReport) -> dict[str, Any]:
    """Return the report of an import as JSON: formats, counts by place, lorebooks, remarks,
    warnings."""
    places: list[dict[str, Any]] = []
    books: list[str] = []
    for source in report.sources:
        places += [
            _place(conversation.contents.conversation_id, conversation.counts)
            for conversation in source.conversations
        ]
        places += [_place(entries.place, entries.counts) for entries in source.entries]
        books += [book_text(book.book, book.stored.update) for book in source.books]

    return {
        "formats": [source.form for source in report.sources],
        "usable": report.count,
        "leftOut": report.left_out,
        "places": places,
        "books": books,
        "remarks": [{"kind": line.kind, "text": in_fields(line.text)} for line in report.lines()],
        "warnings": report.warnings,
    }


def _place(name: str, counts: MergeCounts) -> dict[str, Any]:
    return {"place": name, **asdict(counts)}


async def export_content(exchange: Exchange, fields: JsonObject) -> Response:
    """Answer with a file of a conversation or a family. Raises ValidationError; MemoryServerError
    if a conversation cannot be read, or if there is nothing to export."""
    view = exchange.view
    body = ExportBody.model_validate(dict(fields))
    conversation_id = body.conversation_id
    if conversation_id is None and body.family in (None, *OF_CONVERSATIONS):
        conversation_id = exchange.usual
    stored = await exported(view, ExportRequest(conversation_id, body.family))
    for reason in stored.unread:
        raise StorageError(reason)
    if stored.is_empty_in(body.format):
        raise InvalidInput("There is nothing to export in this format.")
    content = await asyncio.to_thread(_bounded, view, stored, body.format)
    return Response(content, media_type=_MEDIA[body.format])


def _bounded(view: OpenMemory, stored: ExportContent, form: str) -> bytes:
    """Return the content of a file. Raises HttpError: it is too large."""
    pieces: list[bytes] = []
    free_bytes = MOST_BYTES
    for piece in file_content(view, stored, form):
        free_bytes -= len(piece)
        if free_bytes < 0:
            sentence = f"The export has more than {MOST_BYTES:,} bytes; export each conversation and family by itself."
            raise HttpError(413, "size", sentence)
        pieces.append(piece)
    return b"".join(pieces)


def in_fields(sentence: str) -> str:
    """Write a sentence for a shell as a program can use it: with names of fields in place of flags."""
    for flag, field in _FIELDS.items():
        sentence = sentence.replace(flag, field)
    return sentence


@frozen
class Operation:
    """What OpenAPI says of a path: `answer` describes its answer, and `body` is the schema of its arguments."""

    summary: str
    answer: JsonObject
    body: JsonObject
    description: str = ""


OPERATIONS: Mapping[str, Operation] = {
    "import": Operation(
        "Import the content of a file",
        {
            "description": "What came, by place, and what was left out",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        ImportBody.model_json_schema(),
    ),
    "export": Operation(
        "Export what is stored as a file",
        {"description": "A file", "content": {media: {} for media in _MEDIA.values()}},
        ExportBody.model_json_schema(),
    ),
}
"""How OpenAPI describes the two paths."""
