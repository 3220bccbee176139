"""What a client can read without calling a tool: figures, the memories of a conversation, and a guide for models.

`RESOURCES` and `TEMPLATES` are tables of values, with the URIs and fields of the Node original where it has them.
Nothing in here imports an MCP package; `documents.py` puts them on the wire. Reading changes and reinforces nothing.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from memory_server.core.errors import ResourceNotFound
from memory_server.core.model import LongTermMemory, ShortTermMemory
from memory_server.core.phrases import shown
from memory_server.core.times import iso
from memory_server.managers.conversations import Conversation, Conversations
from memory_server.serving.texts import Language, text
from memory_server.version import __version__

OVERVIEW = "memory://stats/overview"
CONVERSATIONS = "memory://conversations/list"
MARKDOWN, JSON = "text/markdown", "application/json"
PAGE = 50
MOST_ON_PAGE = 200
PAGE_CHARS = 60_000
"""Characters of JSON after which a page ends: a client may give all of it to its model."""
_WORDS = 10
"""Keywords shown of a memory, as in a search."""

_MOST_DIGITS = 18
"""Of a number in a query."""

Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Resource:
    """One document at a fixed URI."""

    uri: str
    name: str
    title: str
    description: str
    mime_type: str
    read: Callable[[Conversations, Query], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Template:
    """One document for each conversation: `prefix`, its id percent-encoded, `suffix`. RFC 6570 with `{id}`."""

    prefix: str
    suffix: str
    name: str
    title: str
    description: str
    read: Callable[[Conversation, str, Query], Awaitable[str]]
    paged: bool = False

    @property
    def uri_template(self) -> str:
        return f"{self.prefix}{{id}}{self.suffix}{'{?offset,limit}' if self.paged else ''}"

    def uri_of(self, conversation_id: str) -> str:
        return f"{self.prefix}{quote(conversation_id, safe='')}{self.suffix}"

    def id_in(self, path: str) -> str | None:
        """The id that `path` (a URI without its query) names, if it is one of this template."""
        inner = path.removeprefix(self.prefix).removesuffix(self.suffix)
        if len(inner) + len(self.prefix) + len(self.suffix) != len(path) or not inner:
            return None
        try:
            return unquote(inner, errors="strict")
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, slots=True)
class Document:
    """What was read."""

    uri: str
    mime_type: str
    text: str


async def read(conversations: Conversations, uri: str) -> Document:
    """The document at `uri`.

    Raises:
        ResourceNotFound: there is none.
        StorageError: the conversation cannot be read.
    """
    path, query = _parts(uri)
    if path in RESOURCES:
        resource = RESOURCES[path]
        return Document(uri, resource.mime_type, await resource.read(conversations, query))
    for template in TEMPLATES:
        conversation_id = template.id_in(path)
        if conversation_id is None:
            continue
        if conversation_id not in await conversations.ids():
            raise ResourceNotFound(
                f"No conversation is called `{shown(conversation_id)}`; {CONVERSATIONS} lists those there are.", uri
            )
        text = await template.read(conversations.get(conversation_id), path, query)
        return Document(uri, JSON, text)
    raise _unknown(uri)


def check(uri: str) -> None:
    """Whether a document can be at `uri`, now or once its conversation holds something.

    Raises:
        ResourceNotFound: never.
    """
    path, _ = _parts(uri)
    if path not in RESOURCES and conversation_of(uri) is None:
        raise _unknown(uri)


def conversation_of(uri: str) -> str | None:
    """The conversation whose document `uri` is; None where it is not of one conversation."""
    path, _ = _parts(uri)
    return next((found for template in TEMPLATES if (found := template.id_in(path)) is not None), None)


async def complete_id(conversations: Conversations, typed: str) -> list[str]:
    """The ids of conversations that begin with `typed`, then those that hold it, case aside."""
    wanted = typed.casefold()
    ids = [name for name in await conversations.ids() if wanted in name.casefold()]
    return sorted(ids, key=lambda name: (not name.casefold().startswith(wanted), name))


def _unknown(uri: str) -> ResourceNotFound:
    return ResourceNotFound(
        f"There is no resource {shown(uri)}; resources/list and resources/templates/list name them.", uri
    )


def _parts(uri: str) -> tuple[str, dict[str, str]]:
    try:
        split = urlsplit(uri)
        query = dict(parse_qsl(split.query, strict_parsing=bool(split.query)))
    except ValueError as error:
        raise ResourceNotFound(
            f"{shown(uri)} cannot be read as a URI; resources/list names those there are.", uri
        ) from error
    return uri.partition("?")[0].partition("#")[0], query


def _page(query: Query, uri: str) -> tuple[int, int]:
    def number(name: str, usual: int) -> int:
        value = query.get(name, str(usual))
        if not value.isascii() or not value.isdigit() or len(value) > _MOST_DIGITS:
            asked = f"{uri}?{urlencode(query)}"
            raise ResourceNotFound(
                f"`{name}` in {shown(asked)} is a number of at least 0 and at most {_MOST_DIGITS} digits, "
                f"not `{shown(value)}`.",
                asked,
            )
        return int(value)

    return number("offset", 0), min(MOST_ON_PAGE, max(1, number("limit", PAGE)))


def _paged(uri: str, query: Query, name: str, all_rows: Sequence[Any], form: Callable[[Any], Any]) -> dict[str, Any]:
    """A page of `all_rows` under `name`, and the URI of the next one where there is one."""
    offset, limit = _page(query, uri)
    rows: list[Any] = []
    left = PAGE_CHARS
    for row in all_rows[offset : offset + limit]:
        rows.append(form(row))
        left -= len(_json(rows[-1]))
        if left < 0:
            break
    page: dict[str, Any] = {"total": len(all_rows), "offset": offset, name: rows}
    after = offset + len(rows)
    if rows and after < len(all_rows):
        page["next"] = f"{uri}?offset={after}&limit={limit}"
    return page


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _iso(time_ms: int | None) -> str | None:
    return None if time_ms is None else iso(time_ms)


async def _overview(conversations: Conversations, _: Query) -> str:
    ids = await conversations.ids()
    return _json(
        {
            "system": {"conversations_count": len(ids), "conversations": ids[:MOST_ON_PAGE], "version": __version__},
            "status": "healthy",
            "features": {"short_term_memory": True, "long_term_memory": True, "chinese_nlp": True, "multimodal": False},
        }
    )


async def _conversation_list(conversations: Conversations, query: Query) -> str:
    page = _paged(CONVERSATIONS, query, "conversations", await conversations.ids(), lambda name: name)
    page["conversations"] = [await _totals(conversations.get(name)) for name in page["conversations"]]
    return _json(page)


async def _totals(conversation: Conversation) -> dict[str, Any]:
    short_term, long_term = await conversation.short_term.statistics(), await conversation.long_term.memories()
    return {
        "conversation_id": conversation.id,
        "short_term": _given(total=short_term.total, avg_score=short_term.average_score),
        "long_term": {"total": len(long_term), "updated_count": _updated(long_term)},
        "uri": STATISTICS.uri_of(conversation.id),
    }


def _updated(memories: Sequence[LongTermMemory]) -> int:
    return sum(memory.updated_ms is not None for memory in memories)


async def _statistics(conversation: Conversation, _: str, __: Query) -> str:
    short_term, long_term = await conversation.short_term.statistics(), await conversation.long_term.memories()
    created = [memory.created_ms for memory in long_term]
    updated = [memory.updated_ms for memory in long_term if memory.updated_ms is not None]
    return _json(
        {
            "conversation_id": conversation.id,
            "short_term": _given(
                total=short_term.total,
                avg_score=short_term.average_score,
                max_score=short_term.highest_score,
                min_score=short_term.lowest_score,
                oldest_memory=_iso(short_term.oldest_ms),
                newest_memory=_iso(short_term.newest_ms),
                last_cleanup=_iso(short_term.last_cleanup_ms),
                conversation_counts=dict(short_term.by_conversation),
            ),
            "long_term": _given(
                total=len(long_term),
                updated_count=len(updated),
                oldest_creation=_iso(min(created, default=None)),
                newest_creation=_iso(max(created, default=None)),
                oldest_update=_iso(min(updated, default=None)),
                newest_update=_iso(max(updated, default=None)),
            ),
        }
    )


async def _short_term(conversation: Conversation, uri: str, query: Query) -> str:
    newest_first = (await conversation.short_term.memories())[::-1]
    page = _paged(uri, query, "memories", newest_first, _short_term_form)
    return _json({"conversation_id": conversation.id, **page})


def _short_term_form(memory: ShortTermMemory) -> dict[str, Any]:
    return _given(
        id=memory.id,
        timestamp=iso(memory.time_ms),
        text=memory.text,
        score=memory.score,
        pinned=memory.pinned or None,
        keywords=list(memory.words[:_WORDS]),
    )


async def _long_term(conversation: Conversation, uri: str, query: Query) -> str:
    page = _paged(uri, query, "memories", await conversation.long_term.memories(), _long_term_form)
    return _json({"conversation_id": conversation.id, **page})


def _long_term_form(memory: LongTermMemory) -> dict[str, Any]:
    return _given(
        name=memory.name,
        prompt=memory.prompt,
        trigger=memory.trigger,
        createdAt=_iso(memory.created_ms),
        updatedAt=_iso(memory.updated_ms),
    )


def _guide(language: Language) -> Callable[[Conversations, Query], Awaitable[str]]:
    async def read(_: Conversations, __: Query) -> str:
        return text("best-practices", language)

    return read


STATISTICS = Template(
    "memory://stats/conversation/",
    "",
    "conversation-statistics",
    "Figures of a conversation",
    "How many memories a conversation has, their scores and times.",
    _statistics,
)
TEMPLATES = (
    STATISTICS,
    Template(
        "memory://conversation/",
        "/short-term",
        "conversation-short-term",
        "Short-term memories of a conversation",
        f"What was said, newest first; {PAGE} on a page, `next` is the URI of the page after it.",
        _short_term,
        paged=True,
    ),
    Template(
        "memory://conversation/",
        "/long-term",
        "conversation-long-term",
        "Long-term memories of a conversation",
        f"Names, prompts and triggers; {PAGE} on a page, `next` is the URI of the page after it.",
        _long_term,
        paged=True,
    ),
)
RESOURCES: Mapping[str, Resource] = {
    resource.uri: resource
    for resource in (
        Resource(
            OVERVIEW,
            "stats-overview",
            "Overview",
            "How many conversations there are, and what the server can do.",
            JSON,
            _overview,
        ),
        Resource(
            CONVERSATIONS,
            "conversations-list",
            "Conversations",
            f"Each conversation with its numbers of memories; {PAGE} on a page.",
            JSON,
            _conversation_list,
        ),
        Resource(
            "memory://guide/best-practices",
            "best-practices",
            "How to use this memory",
            "When to search, what to store, and how to write triggers; for models.",
            MARKDOWN,
            _guide("en"),
        ),
        Resource(
            "memory://guide/best-practices/zh-CN",
            "best-practices-zh-CN",
            "怎样用好这份记忆",
            "什么时候搜索、保存什么、怎样写触发条件；给模型看。",
            MARKDOWN,
            _guide("zh"),
        ),
    )
}
