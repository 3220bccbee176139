"""The toolset `refs`: long texts stay out of the context; a model keeps a summary and an id (seed 004).

No result but that of `memoryGetContent` holds more of a text than its summary and a preview.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import orjson
from pydantic import Field

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import iso
from memory_server.knowledge.entry import MAX_KEY_CHARS, Hit
from memory_server.knowledge.options import NAMESPACES, Namespace
from memory_server.memories.memories import Call
from memory_server.tools.base.result import ChangeId, From, Result, listed, undo_hint
from memory_server.tools.base.shapes import Offset, OtherWordsOfSearch, Text, between
from memory_server.tools.base.tool import tool
from sandbox.locale import _, counted, n_

MAX_LIMIT = 100
Id = Annotated[Text, Field(min_length=1, max_length=100), "A referenceId, or 6 or more of its first digits"]
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
        From("result", lambda over: over or None, "Characters at the end that were too many to be stored"),
    ] = None
    changeId: ChangeId = None

    def __str__(self) -> str:
        cut = _(", {count:,} more were too many", self.contentTruncated) if self.contentTruncated else ""
        said = n_(
            "Stored as {id} ({count:,} character{cut}).",
            "Stored as {id} ({count:,} characters{cut}).",
            self.contentLength,
            self.referenceId,
            cut,
        )
        return said + undo_hint(self.changeId) + f"\n{self.summary}"


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
    namespace: Annotated[Namespace, "short-term: for two weeks; long-term: for good"] = "short-term",
    tags: list[Text] = [],
    source: Annotated[Text | None, Field(max_length=MAX_KEY_CHARS), "Where it is from"] = None,
    importance: Annotated[float | None, Field(ge=0, le=1), "0 to 1"] = None,
    metadata: Annotated[dict[str, Any] | None, "Facts about it, for programs"] = None,
) -> AddResult:
    done = await call.memories.knowledge.refs.add(
        content, namespace, tags=tags, source=source, importance=importance, metadata=metadata, by="memoryAdd"
    )
    return AddResult.of(done, success=True)


class Reference(Result):
    id: Annotated[str, From("entry.ref")]
    namespace: Annotated[str, From("scope.owner")]
    summary: Annotated[str, From("entry.title")]
    tags: Annotated[list[str], From("entry.tags", list)]
    score: Annotated[str, From(form="{:.1%}".format, words="Such as 85.0%")]
    createdAt: Annotated[str, From("entry.created_ms", iso)]
    contentPreview: str | None = None
    why: str | None = None


class SearchData(Result):
    found: bool
    results: list[Reference] = Field(description="Best first")
    total: int = Field(description="How many there are, shown or not")
    query: str

    def __str__(self) -> str:
        lines = [
            f"{each.id} {each.score} ({each.namespace}): {one_line(each.contentPreview or each.summary)}"
            + (_(" ({reason})", each.why) if each.why else "")
            for each in self.results
        ]
        return listed(lines, _("{shown} of {all}.", len(lines), counted(self.total, "reference")))


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
    limit: Annotated[int | None, between(1, MAX_LIMIT, "references"), "At most; 5 by default"] = None,
    includeContent: Annotated[bool | None, "With the beginning of each text"] = None,
    why: Annotated[bool, "With the words that matched, and the parts of the score"] = False,
) -> DataResult[SearchData]:
    refs = call.memories.knowledge.refs
    found = await refs.search(query, namespace, tags=tags, limit=limit, other_words=otherWords)
    preview = refs.options.include_content if includeContent is None else includeContent
    rows = [_reference(each, refs.options.preview_chars if preview else 0, why=why) for each in found.hits]
    return DataResult(data=SearchData(found=bool(rows), results=rows, total=found.total, query=query))


def _reference(found: Hit, preview_chars: int, *, why: bool) -> Reference:
    preview = found.entry.body[:preview_chars] or None
    return Reference.of(found, contentPreview=preview, why=found.why if why else None)


class CountsResult(RefDone):
    data: dict[str, int]

    def __str__(self) -> str:
        return _(
            "{short:,} short-term and {long:,} long-term references.", self.data["shortTerm"], self.data["longTerm"]
        )


@tool(title="Count stored texts", description="How many texts are stored, by namespace.", read_only=True)
async def memoryStats(call: Call) -> CountsResult:
    short, long = [await call.memories.knowledge.refs.count(name) for name in NAMESPACES]
    return CountsResult(data={"total": short + long, "shortTerm": short, "longTerm": long})


class DeleteData(Result):
    deleted: Literal[True] = True
    id: str


class DeleteResult(RefDone):
    data: DeleteData
    changeId: ChangeId = None

    def __str__(self) -> str:
        return _("Deleted {id}.", self.data.id) + undo_hint(self.changeId)


@tool(title="Delete a stored text", description="Delete one text; the change can be undone.", destructive=True)
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
    call: Call, namespaces: tuple[Namespace, ...], by: str, remaining: int | None
) -> ChangedResult[ClearData]:
    done = [await call.memories.knowledge.refs.clear(name, by=by) for name in namespaces]
    count = sum(cleared for cleared, _ in done)
    data = ClearData(
        cleared=count, remaining=remaining, message=_("Cleared {references}.", counted(count, "reference"))
    )
    return ChangedResult(data=data, changeIds=[change_id for _, change_id in done if change_id])


@tool(
    title="Delete all short-term texts",
    description="Delete all texts of the namespace short-term; the change can be undone.",
    destructive=True,
    idempotent=True,
)
async def memoryClearShortTerm(call: Call) -> ChangedResult[ClearData]:
    remaining = await call.memories.knowledge.refs.count("long-term")
    return await _cleared(call, ("short-term",), "memoryClearShortTerm", remaining)


@tool(
    title="Delete all stored texts",
    description="Delete all texts of both namespaces; the change can be undone.",
    destructive=True,
    idempotent=True,
)
async def memoryClearAll(call: Call) -> ChangedResult[ClearData]:
    return await _cleared(call, NAMESPACES, "memoryClearAll", None)


@tool(
    title="Clean up stored texts",
    description="Put texts whose time is over into the archive; searches do not show them already.",
    idempotent=True,
)
async def memoryCleanup(call: Call) -> ChangedResult[ClearData]:
    cleaned, change_ids = 0, []
    for name in NAMESPACES:
        while (done := await call.memories.knowledge.refs.clean_up(name, by="memoryCleanup"))[1] is not None:
            cleaned += done[0]
            change_ids.append(done[1])
    said = _("{references} went into the archive.", counted(cleaned, "reference")) if cleaned else _("Nothing is over.")
    return ChangedResult(data=ClearData(cleaned=cleaned, message=said), changeIds=change_ids)


class ContentData(Result):
    id: str
    content: str
    contentLength: int = Field(description="Characters of the whole text")
    next: int | None = Field(None, description="Give this as `offset` for what follows")

    def __str__(self) -> str:
        return self.content + ("" if self.next is None else _("\nGo on with offset={next}.", self.next))


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
    # Each character of JSON has at least a byte, and at most six where it is escaped.
    page = entry.body[start : start + refs.options.page_bytes]
    while len(orjson.dumps(page)) > refs.options.page_bytes:
        page = page[: len(page) * refs.options.page_bytes // len(orjson.dumps(page)) or 1]
    end = start + len(page)
    following = end if end < len(entry.body) else None
    return DataResult(data=ContentData(id=entry.ref, content=page, contentLength=len(entry.body), next=following))
