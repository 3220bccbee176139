"""What a client can read without calling a tool: figures, the memories of a conversation, and a guide for models.

`RESOURCES` and `TEMPLATES` are tables of values, with the URIs and fields of the Node original where it has them. This
module does not import MCP; `documents.py` serves them over MCP. Reading changes and reinforces nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from memory_server.conversations.conversation import Conversation, Conversations
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.day_lines import DayNotes
from memory_server.conversations.recall.words import shown_words
from memory_server.kernel.errors import ResourceNotFound
from memory_server.kernel.recalled_block import UNSEEN
from memory_server.kernel.text import shown
from memory_server.kernel.times import iso, iso_or_none
from memory_server.kernel.values import frozen
from memory_server.lore import LongTermMemory
from memory_server.serving.texts import text
from memory_server.version import __version__

MARKDOWN = "text/markdown"
JSON = "application/json"
PAGE = 50
MOST_ON_PAGE = 200
PAGE_CHARS = 60_000
"""Characters of JSON after which a page ends: a client may give all of it to its model."""
MOST_URI_CHARS = 10_000
"""Characters of a URI: an id has at most 256, each of which takes at most twelve."""
_WORDS = 10
"""Keywords shown of a memory, as in a search."""
_MOST_DIGITS = 18
"""Digits of a number in a query."""


@frozen
class DocumentRequest:
    """A request for a document: its `uri` without the `query`, the query, and the conversation (by default the usual
    one)."""

    conversations: Conversations
    conversation: Conversation
    uri: str
    query: Mapping[str, str]


@frozen
class Document:
    """The document at `uri`; a `uri` with `{id}` is one document for each conversation, with its percent-encoded id.
    `read` returns a text, or a value for JSON."""

    uri: str
    name: str
    title: str
    description: str
    read: Callable[[DocumentRequest], Awaitable[Any]]
    mime_type: str = JSON
    paged: bool = False

    @property
    def uri_template(self) -> str:
        if self.paged:
            return self.uri + "{?offset,limit}"
        return self.uri

    def uri_of(self, conversation_id: str) -> str:
        return self.uri.replace("{id}", quote(conversation_id, safe=""))

    def id_in(self, path: str) -> str | None:
        """Return the id that `path` (a URI without its query) names, or None if it does not fit this template."""
        match = re.fullmatch(self.uri.replace("{id}", "(.+)"), path, re.DOTALL)
        if match is None:
            return None
        try:
            return unquote(match[1], errors="strict")
        except UnicodeDecodeError:
            return None


async def read(conversations: Conversations, uri: str) -> tuple[str, str]:
    """Return the media type and the text of the document at `uri`. Raises ResourceNotFound if it does not exist."""
    location = _located(uri)
    conversation_id = location.conversation_id
    if conversation_id is not None and conversation_id not in await conversations.ids():
        raise ResourceNotFound(
            f"No conversation is called `{shown(conversation_id)}`; {CONVERSATIONS} lists all conversations.",
            uri,
        )
    conversation = conversations.get(conversation_id)
    document = location.document
    content = await document.read(
        DocumentRequest(conversations, conversation, location.path, location.query)
    )
    if not isinstance(content, str):
        content = as_json(content)
    return document.mime_type, content


async def revision(conversations: Conversations, uri: str) -> Hashable:
    """Return a value that changes whenever the document at `uri` changes. Raises ResourceNotFound: nothing can be
    there."""
    conversation_id = _located(uri).conversation_id
    if conversation_id is not None:
        return await conversations.version(conversation_id)
    ids = tuple(await conversations.ids())
    if uri.startswith(CONVERSATIONS):
        return tuple([await conversations.version(name) for name in ids])
    return ids


async def complete_id(conversations: Conversations, typed: str) -> list[str]:
    """List the ids of conversations that begin with `typed`, then the ids that contain it, in upper or lower case."""
    part = typed.casefold()
    ids = [name for name in await conversations.ids() if part in name.casefold()]
    return sorted(ids, key=lambda name: (not name.casefold().startswith(part), name))


@frozen
class _Location:
    """What a URI names: a document, the conversation in it (None: it names none), the URI without its query (`path`),
    and the query."""

    document: Document
    conversation_id: str | None
    path: str
    query: Mapping[str, str]


def _located(uri: str) -> _Location:
    """Return the resource or template that `uri` names, with conversation and query. Raises
    ResourceNotFound if it is too long, not a URI, or names none."""
    there_is_none = (
        f"There is no resource {shown(uri)}; resources/list and resources/templates/list name all."
    )
    if len(uri) > MOST_URI_CHARS:
        raise ResourceNotFound(there_is_none, uri)

    try:
        split = urlsplit(uri)
        query = dict(parse_qsl(split.query, strict_parsing=bool(split.query)))
    except ValueError as error:
        raise ResourceNotFound(
            f"{shown(uri)} is not a URI; resources/list names all resources.", uri
        ) from error

    path = uri.partition("?")[0].partition("#")[0]
    # Resources come first, because an id could contain anything.
    if path in RESOURCES:
        return _Location(RESOURCES[path], None, path, query)

    for template in TEMPLATES:
        conversation_id = template.id_in(path)
        if conversation_id is not None:
            return _Location(template, conversation_id, path, query)

    raise ResourceNotFound(there_is_none, uri)


def _number(request: DocumentRequest, name: str, usual: int) -> int:
    """Return the number `name` of the query, or `usual` without one. Raises ResourceNotFound if it is not a number."""
    value = request.query.get(name, str(usual))
    if not value.isascii() or not value.isdigit() or len(value) > _MOST_DIGITS:
        uri = f"{request.uri}?{urlencode(request.query)}"
        raise ResourceNotFound(
            f"`{name}` in {shown(uri)} must be a number of at least 0 with at most {_MOST_DIGITS} digits, "
            f"not `{shown(value)}`.",
            uri,
        )
    return int(value)


def _paged(
    request: DocumentRequest, name: str, all_rows: Sequence[Any], form: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return a page of `all_rows` under `name`, each as `form` makes it, and the URI of the next page
    if there is one. The query says where the page begins and ends: after `limit` rows, or earlier
    once it has more than PAGE_CHARS. Raises ResourceNotFound if the query has a wrong number."""
    offset = _number(request, "offset", 0)
    limit = max(1, _number(request, "limit", PAGE))
    limit = min(MOST_ON_PAGE, limit)
    rows: list[Any] = []
    chars = 0
    for row in all_rows[offset : offset + limit]:
        formed_row = form(row)
        rows.append(formed_row)
        # A few rows may be long: the page ends before it is too much for a model.
        chars += len(as_json(formed_row))
        if chars > PAGE_CHARS:
            break
    page: dict[str, Any] = {"total": len(all_rows), "offset": offset, name: rows}
    next_offset = offset + len(rows)
    if rows and next_offset < len(all_rows):
        page["next"] = f"{request.uri}?offset={next_offset}&limit={limit}"
    return page


def as_json(value: Any) -> str:
    """Write the JSON of a document. Tags and invisible characters are escaped: a client may give the text to its
    model."""
    text = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
    return UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


async def _overview(request: DocumentRequest) -> dict[str, Any]:
    """Return facts about this server, the number of conversations, and the ids of the first
    MOST_ON_PAGE."""
    ids = await request.conversations.ids()
    return {
        "system": {
            "conversations_count": len(ids),
            "conversations": ids[:MOST_ON_PAGE],
            "version": __version__,
        },
        "status": "healthy",
        "features": {
            "short_term_memory": True,
            "long_term_memory": True,
            "chinese_nlp": True,
            "multimodal": False,
        },
    }


async def _conversation_list(request: DocumentRequest) -> dict[str, Any]:
    page = _paged(request, "conversations", await request.conversations.ids(), str)
    page["conversations"] = [
        await _totals(request.conversations.get(name)) for name in page["conversations"]
    ]
    return page


async def _totals(conversation: Conversation) -> dict[str, Any]:
    """Return the counts and the mean score of a conversation, and the URI of all its figures."""
    figures = await _figures(conversation)
    short_term = figures["short_term"]
    long_term = figures["long_term"]
    return {
        "conversation_id": conversation.id,
        "short_term": _without_none(
            total=short_term["total"], avg_score=short_term.get("avg_score")
        ),
        "long_term": {"total": long_term["total"], "updated_count": long_term["updated_count"]},
        "uri": STATISTICS.uri_of(conversation.id),
    }


async def _figures(conversation: Conversation) -> dict[str, Any]:
    """Return counts, scores and times of the memories of a conversation. A figure that has no
    value, such as the mean score without memories, is left out."""
    short_term = await conversation.short_term.statistics()
    long_term = await conversation.long_term.memories()
    created = [memory.created_ms for memory in long_term]
    updated = [memory.updated_ms for memory in long_term if memory.updated_ms is not None]
    return {
        "conversation_id": conversation.id,
        "short_term": _without_none(
            total=short_term.total,
            avg_score=short_term.average_score,
            max_score=short_term.highest_score,
            min_score=short_term.lowest_score,
            oldest_memory=iso_or_none(short_term.oldest_ms),
            newest_memory=iso_or_none(short_term.newest_ms),
            last_cleanup=iso_or_none(short_term.last_cleanup_ms),
            conversation_counts=dict(short_term.by_conversation),
        ),
        "long_term": _without_none(
            total=len(long_term),
            updated_count=len(updated),
            oldest_creation=iso_or_none(min(created, default=None)),
            newest_creation=iso_or_none(max(created, default=None)),
            oldest_update=iso_or_none(min(updated, default=None)),
            newest_update=iso_or_none(max(updated, default=None)),
        ),
    }


async def _short_term(request: DocumentRequest) -> dict[str, Any]:
    memories = await request.conversation.short_term.memories()
    newest_first = memories[::-1]
    form = partial(_short_term_form, notes=request.conversation.day_notes)
    page = _paged(request, "memories", newest_first, form)
    return {"conversation_id": request.conversation.id, **page}


def _short_term_form(memory: ShortTermMemory, notes: DayNotes) -> dict[str, Any]:
    return _without_none(
        id=memory.id,
        timestamp=iso(memory.time_ms),
        text=notes.within(memory.text, memory.time_ms),
        score=memory.score,
        pinned=memory.pinned or None,
        keywords=shown_words(memory, _WORDS),
    )


async def _long_term(request: DocumentRequest) -> dict[str, Any]:
    memories = await request.conversation.long_term.memories()
    page = _paged(request, "memories", memories, _long_term_form)
    return {"conversation_id": request.conversation.id, **page}


def _long_term_form(memory: LongTermMemory) -> dict[str, Any]:
    return _without_none(
        name=memory.name,
        prompt=memory.prompt,
        trigger=memory.trigger,
        createdAt=iso(memory.created_ms),
        updatedAt=iso_or_none(memory.updated_ms),
    )


async def _guide(request: DocumentRequest) -> str:
    if request.uri.endswith("/zh-CN"):
        return text("best-practices", "zh")
    return text("best-practices", "en")


CONVERSATIONS = "memory://conversations/list"
STATISTICS = Document(
    "memory://stats/conversation/{id}",
    "conversation-statistics",
    "Figures of a conversation",
    "How many memories a conversation has, their scores and times.",
    lambda request: _figures(request.conversation),
)
TEMPLATES = (
    STATISTICS,
    Document(
        "memory://conversation/{id}/short-term",
        "conversation-short-term",
        "Short-term memories of a conversation",
        f"What was said, newest first; {PAGE} on a page, `next` is the URI of the page after it.",
        _short_term,
        paged=True,
    ),
    Document(
        "memory://conversation/{id}/long-term",
        "conversation-long-term",
        "Long-term memories of a conversation",
        f"Names, prompts and triggers; {PAGE} on a page, `next` is the URI of the page after it.",
        _long_term,
        paged=True,
    ),
)
RESOURCES: Mapping[str, Document] = {
    document.uri: document
    for document in (
        Document(
            "memory://stats/overview",
            "stats-overview",
            "Overview",
            "How many conversations there are, and what the server can do.",
            _overview,
        ),
        Document(
            CONVERSATIONS,
            "conversations-list",
            "Conversations",
            f"Each conversation with its numbers of memories; {PAGE} on a page.",
            _conversation_list,
        ),
        Document(
            "memory://guide/best-practices",
            "best-practices",
            "How to use this memory",
            "When to search, what to store, and how to write triggers; for models.",
            _guide,
            MARKDOWN,
        ),
        Document(
            "memory://guide/best-practices/zh-CN",
            "best-practices-zh-CN",
            "怎样用好这份记忆",
            "什么时候搜索、保存什么、怎样写触发条件；给模型看。",
            _guide,
            MARKDOWN,
        ),
    )
}
