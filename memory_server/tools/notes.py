"""The toolset `notes`: knowledge under a topic that is looked up by words and does not fade (seed 000)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from memory_server.kernel.messages import MAX_CONTENT_CHARS, MAX_NAME_CHARS
from memory_server.kernel.recalled_block import one_line
from memory_server.memories.memories import Call
from memory_server.tools.base.budget import Paging
from memory_server.tools.base.result import ChangeId, From, Result, listed, undo_hint
from memory_server.tools.base.shapes import Offset, OtherWordsOfSearch, Text, between
from memory_server.tools.base.tool import tool
from sandbox.locale import _, counted, joined, n_

MAX_LIMIT = 100
"""Notes of one result at most, as of the seed."""
Type = Literal["tech", "project-tech", "domain"]
_TYPES = _("tech: true anywhere; project-tech: how this project does it; domain: its subject")


class RememberResult(Result):
    memory_id: Annotated[str, From("entry.ref")]
    action: Annotated[
        Literal["created", "updated"], From("result.action", words="updated: the note of this topic was replaced")
    ]
    similar_count: Annotated[int, From("result.similar", words="Other notes that say nearly the same")]
    changeId: ChangeId = None

    def __str__(self) -> str:
        similar = _(" {notes} more like it.", counted(self.similar_count, "note")) if self.similar_count else ""
        done = _("Created {id}.", self.memory_id) if self.action == "created" else _("Updated {id}.", self.memory_id)
        return done + similar + undo_hint(self.changeId)


@tool(
    title="Remember a note",
    description=(
        "Keep knowledge that will be true next month, under a topic: a technique, a decision with its reason, a fact. "
        "The same topic and type replaces the note. Do not store secrets."
    ),
    always_loaded=True,
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
        type, topic, content, tags=tags, examples=examples, source=source, project=call.project, by="remember"
    )
    return RememberResult.of(done)


def _seconds(time_ms: int) -> int:
    return time_ms // 1000


def _unless_empty(texts: Iterable[str]) -> list[str] | None:
    return list(texts) or None


class Note(Result):
    id: Annotated[str, From("entry.ref")]
    type: Annotated[str, From("entry.kind")]
    topic: Annotated[str, From("entry.title")]
    tags: Annotated[list[str], From("entry.tags", list)]
    content: Annotated[str, From("entry.body")]
    examples: Annotated[list[str] | None, From("entry.examples", _unless_empty)] = None
    reference_count: Annotated[int, From("entry.uses", words="How often it was recalled")]
    confidence: Annotated[float, From("entry.confidence", words="0 to 1")]
    created_at: Annotated[int, From("entry.created_ms", _seconds, "Seconds since 1970")]
    why: str = Field(description="Which words it has, and where")
    project: str | None = Field(None, description="Of which project, where the caller is in none")


_WAITING = "Notes that may be of this project, and what to do with them"


class RecallResult(Result):
    memories: list[Note] = Field(description="Best first")
    total_count: Annotated[int, From("total")]
    left_off: Annotated[
        dict[str, int] | None,
        From(form=lambda counts: dict(counts) or None, words="How many more match, by the reason they are left off"),
    ] = None
    note: str | None = Field(None, description=_WAITING)

    def __str__(self) -> str:
        lines = [
            joined(
                "\n",
                [
                    f"## {one_line(note.topic)} ({joined(', ', filter(None, (note.type, note.project)))})",
                    note.content,
                    *(note.examples or ()),
                    _("({why})", note.why),
                ],
            )
            for note in self.memories
        ]
        more = joined(
            "", (_("; {number} {what}", number, _(reason)) for reason, number in (self.left_off or {}).items())
        )
        shown = _("{lines} of {notes}{more}.", len(lines), counted(self.total_count, "note"), more)
        return listed(lines, joined("\n", filter(None, (shown, self.note))), "\n\n")


@tool(
    title="Recall notes",
    description=(
        "Find notes by words in any language, before you work on something that may have been decided before. An empty "
        "query lists all, the most certain first."
    ),
    reinforces=True,
    recalls=True,
    paging=Paging("memories", skips=True),
    always_loaded=True,
    search_hint="notes decision convention knowledge how do we",
)
async def recall(
    call: Call,
    query: Annotated[Text, Field(max_length=10_000), "Words; their order does not matter"],
    otherWords: OtherWordsOfSearch = [],
    type: Annotated[Type | None, "Only this type"] = None,
    tags: Annotated[list[Text], "With any of these"] = [],
    limit: Annotated[int, between(1, MAX_LIMIT, "notes"), "Notes at most"] = 10,
    offset: Offset = None,
) -> RecallResult:
    notes, here = call.memories.knowledge.notes, call.project
    found = await notes.recall(
        query, type, tags=tags, limit=limit, offset=offset or 0, project=here, other_words=otherWords
    )
    names = await notes.project_names() if notes.project_of(here) is None else {}
    shown = [Note.of(hit, project=names.get(hit.entry.project)) for hit in found.hits]
    return RecallResult.of(found, memories=shown, note=await notes.waiting(here))


class NoteRow(Result):
    id: Annotated[str, From("ref")]
    type: Annotated[str, From("kind")]
    topic: Annotated[str, From("title")]
    tags: Annotated[list[str] | None, From(form=_unless_empty)] = None
    characters: Annotated[int, From("body", len, "Of its content")]
    updated_at: Annotated[int, From("updated_ms", _seconds, "Seconds since 1970")]
    project: str | None = Field(None, description="Of which project, where the caller is in none")


class NoteList(Result):
    notes: list[NoteRow] = Field(description="By type and topic")
    total_count: int
    note: str | None = Field(None, description=_WAITING)

    def __str__(self) -> str:
        lines = [
            n_(
                "{id} {topic} ({type}, {count:,} character)",
                "{id} {topic} ({type}, {count:,} characters)",
                note.characters,
                note.id,
                one_line(note.topic),
                joined(", ", filter(None, (note.type, note.project))),
            )
            for note in self.notes
        ]
        shown = _("{shown} of {all}.", len(lines), counted(self.total_count, "note"))
        return listed(lines, joined("\n", filter(None, (shown, self.note))))


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
    notes, here = call.memories.knowledge.notes, call.project
    entries, total = await notes.listed(type, tags=tags, limit=limit, offset=offset or 0, project=here)
    names = await notes.project_names() if notes.project_of(here) is None else {}
    rows = [NoteRow.of(entry, project=names.get(entry.project)) for entry in entries]
    return NoteList(notes=rows, total_count=total, note=await notes.waiting(here))


class NoteChanged(Result):
    memory_id: str
    action: Literal["updated", "deleted"] = Field(description="deleted: it is in the archive")
    changeId: ChangeId = None

    def __str__(self) -> str:
        done = _("Deleted {id}.", self.memory_id) if self.action == "deleted" else _("Updated {id}.", self.memory_id)
        return done + undo_hint(self.changeId)


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
