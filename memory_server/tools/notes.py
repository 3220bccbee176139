"""The toolset `notes`: knowledge under a topic that is looked up by words and does not fade (seed 000)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from languages import N_, _, counted, n_
from memory_server.kernel.messages import MAX_CONTENT_CHARS, MAX_NAME_CHARS
from memory_server.kernel.recalled_block import one_line
from memory_server.memories.memories import Call
from memory_server.tools.base.result import (
    ChangeId,
    From,
    Pagination,
    Result,
    listed,
    or_none,
    undo_hint,
)
from memory_server.tools.base.shapes import Offset, OtherWordsOfSearch, Text, between
from memory_server.tools.base.tool import tool

MAX_LIMIT = 100
"""Notes of a result at most, as in the seed."""
Type = Literal["tech", "project-tech", "domain"]
_TYPES = N_("tech: true anywhere; project-tech: how this project does it; domain: its subject")


class RememberResult(Result):
    memory_id: Annotated[str, From("entry.ref")]
    action: Annotated[
        Literal["created", "updated"],
        From("result.action", words="updated: the note of this topic was replaced"),
    ]
    similar_count: Annotated[
        int, From("result.similar", words="Other notes that say nearly the same")
    ]
    changeId: ChangeId = None

    def __str__(self) -> str:
        """Say whether the note was created or updated, how many notes are like it, and how to undo
        it."""
        similar = (
            _(" {notes} more like it.", counted(self.similar_count, "note"))
            if self.similar_count
            else ""
        )
        done = (
            _("Created {id}.", self.memory_id)
            if self.action == "created"
            else _("Updated {id}.", self.memory_id)
        )
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
    topic: Annotated[
        Text, Field(min_length=1, max_length=MAX_NAME_CHARS), "A title that people read"
    ],
    content: Annotated[Text, Field(min_length=1, max_length=MAX_CONTENT_CHARS), "Markdown"],
    tags: Annotated[list[Text], "Words to narrow a search by"] = [],
    examples: Annotated[list[Text], "Pieces of code"] = [],
    source: Annotated[Text | None, "Where it is from"] = None,
) -> RememberResult:
    stored = await call.memories.knowledge.notes.remember(
        type,
        topic,
        content,
        tags=tags,
        examples=examples,
        source=source,
        project=call.project,
        by="remember",
    )
    return RememberResult.of(stored)


def _seconds(time_ms: int) -> int:
    return time_ms // 1000


class Note(Result):
    id: Annotated[str, From("entry.ref")]
    type: Annotated[str, From("entry.kind")]
    topic: Annotated[str, From("entry.title")]
    tags: Annotated[list[str], From("entry.tags")]
    content: Annotated[str, From("entry.body")]
    examples: Annotated[list[str] | None, From("entry.examples", or_none)] = None
    reference_count: Annotated[int, From("entry.uses", words="How often it was recalled")]
    confidence: Annotated[float, From("entry.confidence", words="0 to 1")]
    created_at: Annotated[int, From("entry.created_ms", _seconds, "Seconds since 1970")]
    why: str = Field(description="Which words it has, and where")
    project: str | None = Field(None, description="Of which project, where the caller is in none")

    def __str__(self) -> str:
        heading = f"## {one_line(self.topic)} ({_origin(self.type, self.project)})"
        return "\n".join([heading, self.content, *(self.examples or ()), _("({why})", self.why)])


def _origin(note_type: str, project: str | None) -> str:
    """Return the type of a note, and its project if that is told."""
    if not project:
        return note_type
    return f"{note_type}, {project}"


_WAITING = "Notes that may be of this project, and what to do with them"


class RecallResult(Result):
    memories: list[Note] = Field(description="Best first")
    total_count: Annotated[int, From("total")]
    left_off: Annotated[
        dict[str, int] | None,
        From(form=or_none, words="How many more match, by the reason they are left off"),
    ] = None
    note: str | None = Field(None, description=_WAITING)

    def __str__(self) -> str:
        left_off = self.left_off or {}
        more = "".join(
            [_("; {number} {what}", number, _(reason)) for reason, number in left_off.items()]
        )
        shown = _(
            "{lines} of {notes}{more}.", len(self.memories), counted(self.total_count, "note"), more
        )
        return listed(self.memories, _with_note(shown, self.note), "\n\n")


def _with_note(sentence: str, note: str | None) -> str:
    if not note:
        return sentence
    return "\n".join((sentence, note))


@tool(
    title="Recall notes",
    description=(
        "Find notes by words in any language, before you work on something that may have been decided before. An empty "
        "query lists all, the most certain first."
    ),
    reinforces=True,
    recalls=True,
    paging=Pagination("memories", skips=True),
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
    notes = call.memories.knowledge.notes
    matches = await notes.recall(
        query,
        type,
        tags=tags,
        limit=limit,
        offset=offset or 0,
        project=call.project,
        other_words=otherWords,
    )

    project_names = await _project_names(call)
    shown_notes = [
        Note.of(hit, project=project_names.get(hit.entry.project)) for hit in matches.hits
    ]

    waiting = await notes.hint_of_waiting(call.project)
    return RecallResult.of(matches, memories=shown_notes, note=waiting)


async def _project_names(call: Call) -> Mapping[str, str]:
    """Return the name of each project by its id; empty for a caller in a project, who is not told where notes are from."""
    notes = call.memories.knowledge.notes
    if notes.project_of(call.project) is not None:
        return {}
    return await notes.project_names()


class NoteRow(Result):
    id: Annotated[str, From("ref")]
    type: Annotated[str, From("kind")]
    topic: Annotated[str, From("title")]
    tags: Annotated[list[str] | None, From(form=or_none)] = None
    characters: Annotated[int, From("body", len, "Of its content")]
    updated_at: Annotated[int, From("updated_ms", _seconds, "Seconds since 1970")]
    project: str | None = Field(None, description="Of which project, where the caller is in none")

    def __str__(self) -> str:
        return n_(
            "{id} {topic} ({type}, {count:,} character)",
            "{id} {topic} ({type}, {count:,} characters)",
            self.characters,
            self.id,
            one_line(self.topic),
            _origin(self.type, self.project),
        )


class NoteList(Result):
    notes: list[NoteRow] = Field(description="By type and topic")
    total_count: int
    note: str | None = Field(None, description=_WAITING)

    def __str__(self) -> str:
        shown = _("{shown} of {all}.", len(self.notes), counted(self.total_count, "note"))
        return listed(self.notes, _with_note(shown, self.note))


@tool(
    title="List notes",
    description="All notes, without their contents; recall with words gives contents.",
    read_only=True,
    recalls=True,
    paging=Pagination("notes", skips=True),
    search_hint="notes list topics",
)
async def list_notes(
    call: Call,
    type: Annotated[Type | None, "Only this type"] = None,
    tags: Annotated[list[Text], "With any of these"] = [],
    limit: Annotated[int, between(1, MAX_LIMIT, "notes"), "Notes at most"] = MAX_LIMIT,
    offset: Offset = None,
) -> NoteList:
    notes = call.memories.knowledge.notes
    entries, total = await notes.listed(
        type, tags=tags, limit=limit, offset=offset or 0, project=call.project
    )
    project_names = await _project_names(call)
    rows = [NoteRow.of(entry, project=project_names.get(entry.project)) for entry in entries]
    waiting = await notes.hint_of_waiting(call.project)
    return NoteList(notes=rows, total_count=total, note=waiting)


class NoteChanged(Result):
    memory_id: str
    action: Literal["updated", "deleted"] = Field(description="deleted: it is in the archive")
    changeId: ChangeId = None

    def __str__(self) -> str:
        done = (
            _("Deleted {id}.", self.memory_id)
            if self.action == "deleted"
            else _("Updated {id}.", self.memory_id)
        )
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
    edited = await notes.edit(
        memory_id, find=find, replacement=replace, append=append, by="edit_note"
    )
    return NoteChanged(memory_id=memory_id, action="updated", changeId=edited.change_id)


@tool(
    title="Delete a note",
    description="Delete one note; the change can be undone.",
    destructive=True,
)
async def delete_note(call: Call, memory_id: Id) -> NoteChanged:
    change_id = await call.memories.knowledge.notes.delete(memory_id, by="delete_note")
    return NoteChanged(memory_id=memory_id, action="deleted", changeId=change_id)
