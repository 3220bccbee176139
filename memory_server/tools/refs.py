"""The toolset `refs`: long texts stay out of the context; a model keeps a summary and an id (seed 004).

No result but that of `memoryGetContent` holds more of a text than its summary and a preview.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memory_server.core.errors import InvalidInput
from memory_server.core.times import iso
from memory_server.knowledge.entry import MAX_KEY_CHARS
from memory_server.knowledge.refs import NAMESPACES, FoundRef, Namespace
from memory_server.managers.context import Context
from memory_server.recall.passages import one_line
from memory_server.tools.base.shapes import ChangeId, Offset, Text, between, counted, undo_hint
from memory_server.tools.base.tool import Result, tool

MAX_LIMIT = 100
Id = Annotated[Text, Field(min_length=1, max_length=100), "A referenceId, or 6 or more of its first digits"]
Name = Annotated[Namespace | None, "Only this one"]
ChangeIds = Annotated[list[str], Field(description="Names the changes for undo_change")]


class Done(Result):
    success: Literal[True] = True


class AddResult(Done):
    referenceId: str
    summary: str = Field(description="The beginning of the text")
    contentLength: int = Field(description="Characters that are stored")
    contentTruncated: int | None = Field(None, description="Characters at the end that were too many to be stored")
    changeId: ChangeId = None

    def __str__(self) -> str:
        cut = f", {self.contentTruncated:,} more were too many" if self.contentTruncated else ""
        said = f"Stored as {self.referenceId} ({self.contentLength:,} characters{cut}).{undo_hint(self.changeId)}"
        return f"{said}\n{self.summary}"


@tool(
    title="Store a long text",
    description=(
        "Store a long text, such as the output of a tool, outside of the context; keep its referenceId and summary. "
        "Do not store secrets."
    ),
    at_hand=True,
    search_hint="reference store output context",
)
async def memoryAdd(
    context: Context,
    content: Annotated[Text, Field(min_length=1)],
    namespace: Annotated[Namespace, "short-term: for two weeks; long-term: for good"] = "short-term",
    tags: list[Text] = [],
    source: Annotated[Text | None, Field(max_length=MAX_KEY_CHARS), "Where it is from"] = None,
    importance: Annotated[float | None, Field(ge=0, le=1), "0 to 1"] = None,
    metadata: Annotated[dict[str, Any] | None, "Facts about it, for programs"] = None,
) -> AddResult:
    done = await context.knowledge.refs.add(
        content, namespace, tags=tags, source=source, importance=importance, metadata=metadata, by="memoryAdd"
    )
    return AddResult(
        referenceId=done.entry.ref,
        summary=done.entry.title,
        contentLength=len(done.entry.body),
        contentTruncated=done.cut or None,
        changeId=done.change_id,
    )


class Reference(Result):
    id: str
    namespace: str
    summary: str
    tags: list[str]
    score: str = Field(description="Such as 85.0%")
    createdAt: str
    contentPreview: str | None = None
    why: str | None = None


class SearchData(Result):
    found: bool
    results: list[Reference] = Field(description="Best first")
    total: int = Field(description="How many there are, shown or not")
    query: str


class SearchResult(Done):
    data: SearchData

    def __str__(self) -> str:
        lines = [
            f"{each.id} {each.score} ({each.namespace}): {one_line(each.contentPreview or each.summary)}"
            + (f" ({each.why})" if each.why else "")
            for each in self.data.results
        ]
        return "\n".join([*lines, f"{len(lines)} of {counted(self.data.total, 'reference')}."])


@tool(
    title="Search stored texts",
    description=(
        "Find texts that memoryAdd stored, by words in any language or by referenceId; gives summaries. "
        "memoryGetContent gives a whole text."
    ),
    read_only=True,
    recalls=True,
    at_hand=True,
    search_hint="reference find output summary",
)
async def memorySearch(
    context: Context,
    query: Annotated[Text, Field(min_length=1, max_length=10_000)],
    namespace: Name = None,
    tags: Annotated[list[Text], "With any of these"] = [],
    limit: Annotated[int | None, between(1, MAX_LIMIT, "references"), "At most; 5 by default"] = None,
    includeContent: Annotated[bool | None, "With the beginning of each text"] = None,
    why: Annotated[bool, "With the words that matched, and the parts of the score"] = False,
) -> SearchResult:
    refs = context.knowledge.refs
    found, total = await refs.search(query, namespace, tags=tags, limit=limit)
    preview = refs.options.include_content if includeContent is None else includeContent
    rows = [_reference(each, refs.options.preview_chars if preview else 0, why=why) for each in found]
    return SearchResult(data=SearchData(found=bool(rows), results=rows, total=total, query=query))


def _reference(found: FoundRef, preview_chars: int, *, why: bool) -> Reference:
    return Reference(
        id=found.entry.ref,
        namespace=found.namespace,
        summary=found.entry.title,
        tags=list(found.entry.tags),
        score=f"{found.score:.1%}",
        createdAt=iso(found.entry.created_ms),
        contentPreview=found.entry.body[:preview_chars] or None,
        why=found.why if why else None,
    )


class CountsResult(Done):
    data: dict[str, int]

    def __str__(self) -> str:
        return f"{self.data['shortTerm']:,} short-term and {self.data['longTerm']:,} long-term references."


@tool(title="Count stored texts", description="How many texts are stored, by namespace.", read_only=True)
async def memoryStats(context: Context) -> CountsResult:
    short, long = [await context.knowledge.refs.count(name) for name in NAMESPACES]
    return CountsResult(data={"total": short + long, "shortTerm": short, "longTerm": long})


class DeleteData(Result):
    deleted: Literal[True] = True
    id: str


class DeleteResult(Done):
    data: DeleteData
    changeId: ChangeId = None

    def __str__(self) -> str:
        return f"Deleted {self.data.id}.{undo_hint(self.changeId)}"


@tool(title="Delete a stored text", description="Delete one text; the change can be undone.", destructive=True)
async def memoryDelete(context: Context, id: Id) -> DeleteResult:
    entry, change_id = await context.knowledge.refs.delete(id, by="memoryDelete")
    return DeleteResult(data=DeleteData(id=entry.ref), changeId=change_id)


class ClearData(Result):
    cleared: int | None = None
    remaining: int | None = None
    cleaned: int | None = None
    message: str


class ClearResult(Done):
    data: ClearData
    changeIds: ChangeIds

    def __str__(self) -> str:
        return self.data.message + undo_hint(", ".join(self.changeIds))


async def _cleared(context: Context, namespaces: tuple[Namespace, ...], by: str) -> tuple[int, str, list[str]]:
    done = [await context.knowledge.refs.clear(name, by=by) for name in namespaces]
    count = sum(cleared for cleared, _ in done)
    return count, f"Cleared {counted(count, 'reference')}.", [change_id for _, change_id in done if change_id]


@tool(
    title="Delete all short-term texts",
    description="Delete all texts of the namespace short-term; the change can be undone.",
    destructive=True,
    idempotent=True,
)
async def memoryClearShortTerm(context: Context) -> ClearResult:
    cleared, said, change_ids = await _cleared(context, ("short-term",), "memoryClearShortTerm")
    remaining = await context.knowledge.refs.count("long-term")
    return ClearResult(data=ClearData(cleared=cleared, remaining=remaining, message=said), changeIds=change_ids)


@tool(
    title="Delete all stored texts",
    description="Delete all texts of both namespaces; the change can be undone.",
    destructive=True,
    idempotent=True,
)
async def memoryClearAll(context: Context) -> ClearResult:
    cleared, said, change_ids = await _cleared(context, NAMESPACES, "memoryClearAll")
    return ClearResult(data=ClearData(cleared=cleared, message=said), changeIds=change_ids)


@tool(
    title="Clean up stored texts",
    description="Put texts whose time is over into the archive; searches do not show them already.",
    idempotent=True,
)
async def memoryCleanup(context: Context) -> ClearResult:
    cleaned, change_ids = 0, []
    for name in NAMESPACES:
        while (done := await context.knowledge.refs.clean_up(name, by="memoryCleanup"))[1] is not None:
            cleaned += done[0]
            change_ids.append(done[1])
    said = f"{counted(cleaned, 'reference')} went into the archive." if cleaned else "Nothing is over."
    return ClearResult(data=ClearData(cleaned=cleaned, message=said), changeIds=change_ids)


class ContentData(Result):
    id: str
    content: str
    contentLength: int = Field(description="Characters of the whole text")
    next: int | None = Field(None, description="Give this as `offset` for what follows")


class ContentResult(Done):
    data: ContentData

    def __str__(self) -> str:
        more = "" if self.data.next is None else f"\nGo on with offset={self.data.next}."
        return self.data.content + more


@tool(
    title="Read a stored text",
    description="The whole text of a reference, page by page. Ask only for what you need now.",
    read_only=True,
    recalls=True,
    search_hint="reference whole text content",
)
async def memoryGetContent(context: Context, id: Id, offset: Offset = None) -> ContentResult:
    refs = context.knowledge.refs
    _, entry = await refs.get(id)
    start = offset or 0
    if start > len(entry.body):
        raise InvalidInput(
            f"`offset` is {start:,}, and the text has {len(entry.body):,} characters; give a smaller one."
        )
    page = _page(entry.body[start : start + refs.options.page_bytes], refs.options.page_bytes)
    end = start + len(page)
    return ContentResult(
        data=ContentData(
            id=entry.ref,
            content=page,
            contentLength=len(entry.body),
            next=end if end < len(entry.body) else None,
        )
    )


def _page(text: str, most_bytes: int) -> str:
    """The longest beginning of `text` that has at most `most_bytes` as JSON."""
    least, most = 0, len(text)
    while least < most:
        middle = (least + most + 1) // 2
        if len(orjson.dumps(text[:middle])) <= most_bytes:
            least = middle
        else:
            most = middle - 1
    return text[:least]


REFS = (
    memoryAdd,
    memorySearch,
    memoryStats,
    memoryDelete,
    memoryClearShortTerm,
    memoryClearAll,
    memoryCleanup,
    memoryGetContent,
)
