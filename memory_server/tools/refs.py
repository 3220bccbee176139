"""The toolset `refs`: long texts stay out of the context; a model keeps a summary and an id (seed 004).

Only the result of `memoryGetContent` holds more of a text than its summary and a preview.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import orjson
from pydantic import Field

from languages import _, counted, n_
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import iso
from memory_server.knowledge.entry import MAX_KEY_CHARS, Hit
from memory_server.knowledge.options import NAMESPACES, Namespace
from memory_server.memories.memories import Call
from memory_server.tools.base.result import ChangeId, From, Result, listed, or_none, undo_hint
from memory_server.tools.base.shapes import Offset, OtherWordsOfSearch, Text, between
from memory_server.tools.base.tool import tool

MAX_LIMIT = 100
Id = Annotated[
    Text, Field(min_length=1, max_length=100), "A referenceId, or 6 or more of its first digits"
]
Name = Annotated[Namespace | None, "Only this one"]
T = TypeVar("T")


class RefDone(Result):
    success: Literal[True] = True


class DataResult(RefDone, Generic[T]):
    data: T

    def __str__(self) -> str:
        return str(self.data)


class ChangedResult(DataResult[T]):
    changeIds: Annotated[list[str], Field(description="Names the changes for undo_change")]

    def __str__(self) -> str:
        return str(self.data) + undo_hint(", ".join(self.changeIds))


class AddResult(RefDone):
    referenceId: Annotated[str, From("entry.ref")]
    summary: Annotated[str, From("entry.title", words="The beginning of the text")]
    contentLength: Annotated[int, From("entry.body", len, "Characters that are stored")]
    contentTruncated: Annotated[
        int | None,
        From("result", or_none, "Characters at the end that were too many to be stored"),
    ] = None
    changeId: ChangeId = None

    def __str__(self) -> str:
        """Say under which id the text is stored, its length, what was cut off, and its summary."""
        cut = (
            _(", {count:,} more were too many", self.contentTruncated)
            if self.contentTruncated
            else ""
        )
        stored = n_(
            "Stored as {id} ({count:,} character{cut}).",
            "Stored as {id} ({count:,} characters{cut}).",
            self.contentLength,
            self.referenceId,
            cut,
        )
        return stored + undo_hint(self.changeId) + f"\n{self.summary}"


@tool(
    title="Store a long text",
    description=(
        "Store a long text, such as the output of a tool, outside of the context; keep its referenceId and summary. "
        "Do not store secrets."
    ),
    always_loaded=True,
    search_hint="reference store output context",
)
async def memoryAdd(
    call: Call,
    content: Annotated[Text, Field(min_length=1)],
    namespace: Annotated[
        Namespace, "short-term: for two weeks; long-term: for good"
    ] = "short-term",
    tags: list[Text] = [],
    source: Annotated[Text | None, Field(max_length=MAX_KEY_CHARS), "Where it is from"] = None,
    importance: Annotated[float | None, Field(ge=0, le=1), "0 to 1"] = None,
    metadata: Annotated[dict[str, Any] | None, "Facts about it, for programs"] = None,
) -> AddResult:
    added = await call.memories.knowledge.refs.add(
        content,
        namespace,
        tags=tags,
        source=source,
        importance=importance,
        metadata=metadata,
        by="memoryAdd",
    )
    return AddResult.of(added, success=True)


class Reference(Result):
    id: Annotated[str, From("entry.ref")]
    namespace: Annotated[str, From("scope.owner")]
    summary: Annotated[str, From("entry.title")]
    tags: Annotated[list[str], From("entry.tags")]
    score: Annotated[str, From(form="{:.1%}".format, words="Such as 85.0%")]
    createdAt: Annotated[str, From("entry.created_ms", iso)]
    contentPreview: str | None = None
    why: str | None = None

    def __str__(self) -> str:
        text = f"{self.id} {self.score} ({self.namespace}): {one_line(self.contentPreview or self.summary)}"
        if self.why:
            text += _(" ({reason})", self.why)
        return text


class SearchData(Result):
    found: bool
    results: list[Reference] = Field(description="Best first")
    total: int = Field(description="How many there are, shown or not")
    query: str

    def __str__(self) -> str:
        shown = len(self.results)
        return listed(self.results, _("{shown} of {all}.", shown, counted(self.total, "reference")))


@tool(
    title="Search stored texts",
    description=(
        "Find texts that memoryAdd stored, by words in any language or by referenceId; gives summaries. "
        "memoryGetContent gives a whole text."
    ),
    read_only=True,
    recalls=True,
    always_loaded=True,
    search_hint="reference find output summary",
)
async def memorySearch(
    call: Call,
    query: Annotated[Text, Field(min_length=1, max_length=10_000)],
    otherWords: OtherWordsOfSearch = [],
    namespace: Name = None,
    tags: Annotated[list[Text], "With any of these"] = [],
    limit: Annotated[
        int | None, between(1, MAX_LIMIT, "references"), "At most; 5 by default"
    ] = None,
    includeContent: Annotated[bool | None, "With the beginning of each text"] = None,
    why: Annotated[bool, "With the words that matched, and the parts of the score"] = False,
) -> DataResult[SearchData]:
    refs = call.memories.knowledge.refs
    matches = await refs.search(query, namespace, tags=tags, limit=limit, other_words=otherWords)
    has_preview = refs.options.include_content if includeContent is None else includeContent
    preview_chars = refs.options.preview_chars if has_preview else 0
    rows = [_reference(hit, preview_chars=preview_chars, why=why) for hit in matches.hits]
    return DataResult(
        data=SearchData(found=bool(rows), results=rows, total=matches.total, query=query)
    )


def _reference(hit: Hit, *, preview_chars: int, why: bool) -> Reference:
    preview = hit.entry.body[:preview_chars] or None
    return Reference.of(hit, contentPreview=preview, why=hit.why if why else None)


class CountsResult(RefDone):
    data: dict[str, int]

    def __str__(self) -> str:
        return _(
            "{short:,} short-term and {long:,} long-term references.",
            self.data["shortTerm"],
            self.data["longTerm"],
        )


@tool(
    title="Count stored texts",
    description="How many texts are stored, by namespace.",
    read_only=True,
)
async def memoryStats(call: Call) -> CountsResult:
    refs = call.memories.knowledge.refs
    short_term = await refs.count("short-term")
    long_term = await refs.count("long-term")
    counts = {"total": short_term + long_term, "shortTerm": short_term, "longTerm": long_term}
    return CountsResult(data=counts)


class DeleteData(Result):
    deleted: Literal[True] = True
    id: str


class DeleteResult(RefDone):
    data: DeleteData
    changeId: ChangeId = None

    def __str__(self) -> str:
        return _("Deleted {id}.", self.data.id) + undo_hint(self.changeId)


@tool(
    title="Delete a stored text",
    description="Delete one text; the change can be undone.",
    destructive=True,
)
async def memoryDelete(call: Call, id: Id) -> DeleteResult:
    entry, change_id = await call.memories.knowledge.refs.delete(id, by="memoryDelete")
    return DeleteResult(data=DeleteData(id=entry.ref), changeId=change_id)


class ClearData(Result):
    cleared: int | None = None
    remaining: int | None = None
    cleaned: int | None = None
    message: str

    def __str__(self) -> str:
        return self.message


async def _cleared(
    call: Call, namespaces: tuple[Namespace, ...], *, by: str, remaining: int | None
) -> ChangedResult[ClearData]:
    """Put all refs of these namespaces into the archive. Return their number, the ids of the changes, and how many
    refs of other namespaces are `remaining`, if that is given."""
    count = 0
    change_ids: list[str] = []
    for namespace in namespaces:
        cleared, change_id = await call.memories.knowledge.refs.clear(namespace, by=by)
        count += cleared
        if change_id:
            change_ids.append(change_id)
    data = ClearData(
        cleared=count,
        remaining=remaining,
        message=_("Cleared {references}.", counted(count, "reference")),
    )
    return ChangedResult(data=data, changeIds=change_ids)


@tool(
    title="Delete all short-term texts",
    description="Delete all texts of the namespace short-term; the change can be undone.",
    destructive=True,
    idempotent=True,
)
async def memoryClearShortTerm(call: Call) -> ChangedResult[ClearData]:
    remaining = await call.memories.knowledge.refs.count("long-term")
    return await _cleared(call, ("short-term",), by="memoryClearShortTerm", remaining=remaining)


@tool(
    title="Delete all stored texts",
    description="Delete all texts of both namespaces; the change can be undone.",
    destructive=True,
    idempotent=True,
)
async def memoryClearAll(call: Call) -> ChangedResult[ClearData]:
    return await _cleared(call, NAMESPACES, by="memoryClearAll", remaining=None)


@tool(
    title="Clean up stored texts",
    description="Put texts whose time is over into the archive; searches do not show them already.",
    idempotent=True,
)
async def memoryCleanup(call: Call) -> ChangedResult[ClearData]:
    cleaned = 0
    change_ids: list[str] = []
    for namespace in NAMESPACES:
        # A run archives a limited number of texts; the run that finds nothing more has no change.
        while True:
            count, change_id = await call.memories.knowledge.refs.clean_up(
                namespace, by="memoryCleanup"
            )
            if change_id is None:
                break
            cleaned += count
            change_ids.append(change_id)

    if cleaned:
        message = _("{references} went into the archive.", counted(cleaned, "reference"))
    else:
        message = _("Nothing is over.")

    return ChangedResult(data=ClearData(cleaned=cleaned, message=message), changeIds=change_ids)


class ContentData(Result):
    id: str
    content: str
    contentLength: int = Field(description="Characters of the whole text")
    next: int | None = Field(None, description="Give this as `offset` for what follows")

    def __str__(self) -> str:
        if self.next is None:
            return self.content
        return self.content + _("\nGo on with offset={next}.", self.next)


@tool(
    title="Read a stored text",
    description="The whole text of a reference, page by page. Ask only for what you need now.",
    read_only=True,
    recalls=True,
    search_hint="reference whole text content",
)
async def memoryGetContent(call: Call, id: Id, offset: Offset = None) -> DataResult[ContentData]:
    refs = call.memories.knowledge.refs
    _, entry = await refs.get(id)
    start = offset or 0
    if start > len(entry.body):
        raise InvalidInput(
            "`offset` is {start:,}, and the text has {characters:,} characters; give a smaller one.",
            start,
            len(entry.body),
        )
    page = _page(entry.body, start, refs.options.page_bytes)
    end = start + len(page)
    following = end if end < len(entry.body) else None
    content = ContentData(id=entry.ref, content=page, contentLength=len(entry.body), next=following)
    return DataResult(data=content)


def _page(text: str, start: int, most_bytes: int) -> str:
    """Return the part of a text from `start` on that has at most `most_bytes` of JSON, but at least one character."""
    # Each character of JSON has at least a byte, and at most six where it is escaped.
    page = text[start : start + most_bytes]
    page_bytes = len(orjson.dumps(page))
    while page_bytes > most_bytes:
        chars = len(page) * most_bytes // page_bytes
        page = page[: max(chars, 1)]
        page_bytes = len(orjson.dumps(page))
    return page
