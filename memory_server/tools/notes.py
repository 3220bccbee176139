"""The toolset `notes`: knowledge under a topic that is looked up by words and does not fade (seed 000)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from memory_server.kernel.messages import MAX_CONTENT_CHARS, MAX_NAME_CHARS
from memory_server.kernel.recalled_block import one_line
from memory_server.memories.memories import Call
from memory_server.tools.base.budget import Paging
from memory_server.tools.base.shapes import ChangeId, Offset, Text, between, counted, undo_hint
from memory_server.tools.base.tool import Result, tool

if TYPE_CHECKING:
    from memory_server.knowledge.entry import Hit

MAX_LIMIT = 100
"""Notes of one result at most, as of the seed."""
Type = Literal["tech", "project-tech", "domain"]
_TYPES = "tech: true anywhere; project-tech: how this project does it; domain: its subject"


class RememberResult(Result):
    memory_id: str
    action: Literal["created", "updated"] = Field(description="updated: the note of this topic was replaced")
    similar_count: int = Field(description="Other notes that say nearly the same")
    changeId: ChangeId = None

    def __str__(self) -> str:
        similar = f" {counted(self.similar_count, 'note')} more like it." if self.similar_count else ""
        return f"{self.action.capitalize()} {self.memory_id}.{similar}{undo_hint(self.changeId)}"


@tool(
    title="Remember a note",
    description=(
        "Keep knowledge that will be true next month, under a topic: a technique, a decision with its reason, a fact. "
        "The same topic and type replaces the note. Do not store secrets."
    ),
    at_hand=True,
    search_hint="note decision convention knowledge project",
)
async def remember(
    call: Call,
    type: Annotated[Type, _TYPES],
    topic: Annotated[Text, Field(min_length=1, max_length=MAX_NAME_CHARS), "A title that people read"],
    content: Annotated[Text, Field(min_length=1, max_length=MAX_CONTENT_CHARS), "Markdown"],
    tags: Annotated[list[Text], "Words to narrow a search by"] = [],
    examples: Annotated[list[Text], "Pieces of code"] = [],
    source: Annotated[Text | None, "Where it is from"] = None,
) -> RememberResult:
    done = await call.memories.knowledge.notes.remember(
        type, topic, content, tags=tags, examples=examples, source=source, by="remember"
    )
    return RememberResult(
        memory_id=done.entry.ref,
        action=done.result.action,
        similar_count=done.result.similar,
        changeId=done.change_id,
    )


class Note(Result):
    id: str
    type: str
    topic: str
    tags: list[str]
    content: str
    examples: list[str] | None = None
    reference_count: int = Field(description="How often it was recalled")
    confidence: float = Field(description="0 to 1")
    created_at: int = Field(description="Seconds since 1970")
    why: str = Field(description="Which words it has, and where")


class RecallResult(Result):
    memories: list[Note] = Field(description="Best first")
    total_count: int
    left_off: dict[str, int] | None = Field(None, description="How many more match, by the reason they are left off")

    def __str__(self) -> str:
        lines = [
            "\n".join(
                [f"## {one_line(note.topic)} ({note.type})", note.content, *(note.examples or ()), f"({note.why})"]
            )
            for note in self.memories
        ]
        more = "".join(f"; {number} {reason}" for reason, number in (self.left_off or {}).items())
        return "\n\n".join([*lines, f"{len(lines)} of {counted(self.total_count, 'note')}{more}."])


def _form(hit: Hit) -> Note:
    entry = hit.entry
    return Note(
        id=entry.ref,
        type=entry.kind,
        topic=entry.title,
        tags=list(entry.tags),
        content=entry.body,
        examples=list(entry.examples) or None,
        reference_count=entry.uses,
        confidence=entry.confidence,
        created_at=entry.created_ms // 1000,
        why=hit.why,
    )


@tool(
    title="Recall notes",
    description=(
        "Find notes by words in any language, before you work on something that may have been decided before. An empty "
        "query lists all, the most certain first."
    ),
    reinforces=True,
    recalls=True,
    paging=Paging("memories", skips=True),
    at_hand=True,
    search_hint="notes decision convention knowledge how do we",
)
async def recall(
    call: Call,
    query: Annotated[Text, Field(max_length=10_000), "Words; their order does not matter"],
    type: Annotated[Type | None, "Only this type"] = None,
    tags: Annotated[list[Text], "With any of these"] = [],
    limit: Annotated[int, between(1, MAX_LIMIT, "notes"), "Notes at most"] = 10,
    offset: Offset = None,
) -> RecallResult:
    found = await call.memories.knowledge.notes.recall(query, type, tags=tags, limit=limit, offset=offset or 0)
    return RecallResult(
        memories=list(map(_form, found.hits)), total_count=found.total, left_off=dict(found.left_off) or None
    )


class NoteRow(Result):
    id: str
    type: str
    topic: str
    tags: list[str] | None = None
    characters: int = Field(description="Of its content")
    updated_at: int = Field(description="Seconds since 1970")


class NoteList(Result):
    notes: list[NoteRow] = Field(description="By type and topic")
    total_count: int

    def __str__(self) -> str:
        lines = [
            f"{each.id} {one_line(each.topic)} ({each.type}, {each.characters:,} characters)" for each in self.notes
        ]
        return "\n".join([*lines, f"{len(lines)} of {counted(self.total_count, 'note')}."])


@tool(
    title="List notes",
    description="All notes, without their contents; recall with words gives contents.",
    read_only=True,
    recalls=True,
    paging=Paging("notes", skips=True),
    search_hint="notes list topics",
)
async def list_notes(
    call: Call,
    type: Annotated[Type | None, "Only this type"] = None,
    tags: Annotated[list[Text], "With any of these"] = [],
    limit: Annotated[int, between(1, MAX_LIMIT, "notes"), "Notes at most"] = MAX_LIMIT,
    offset: Offset = None,
) -> NoteList:
    entries, total = await call.memories.knowledge.notes.listed(type, tags=tags, limit=limit, offset=offset or 0)
    rows = [
        NoteRow(
            id=each.ref,
            type=each.kind,
            topic=each.title,
            tags=list(each.tags) or None,
            characters=len(each.body),
            updated_at=each.updated_ms // 1000,
        )
        for each in entries
    ]
    return NoteList(notes=rows, total_count=total)


class NoteChanged(Result):
    memory_id: str
    action: Literal["updated", "deleted"] = Field(description="deleted: it is in the archive")
    changeId: ChangeId = None

    def __str__(self) -> str:
        return f"{self.action.capitalize()} {self.memory_id}.{undo_hint(self.changeId)}"


Id = Annotated[Text, Field(min_length=1, max_length=100), "Its id"]
Piece = Annotated[Text, Field(max_length=MAX_CONTENT_CHARS)]


@tool(
    title="Edit a note",
    description=(
        "Change a part of a note, or add to its end; `remember` replaces a whole note. The change can be undone."
    ),
    search_hint="note change append correct",
)
async def edit_note(
    call: Call,
    memory_id: Id,
    find: Annotated[Piece, "Text that the note has once"] = "",
    replace: Annotated[Piece, "What comes in its place; nothing removes it"] = "",
    append: Annotated[Piece, "Lines to add at the end"] = "",
) -> NoteChanged:
    notes = call.memories.knowledge.notes
    done = await notes.edit(memory_id, find=find, replacement=replace, append=append, by="edit_note")
    return NoteChanged(memory_id=memory_id, action="updated", changeId=done.change_id)


@tool(title="Delete a note", description="Delete one note; the change can be undone.", destructive=True)
async def delete_note(call: Call, memory_id: Id) -> NoteChanged:
    change_id = await call.memories.knowledge.notes.delete(memory_id, by="delete_note")
    return NoteChanged(memory_id=memory_id, action="deleted", changeId=change_id)
