"""The tools of the toolset `archive` that change one short-term memory: pin it, mute it, correct it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from languages import _, joined
from memory_server.conversations.model import EVERYWHERE, ShortTermMemory, place_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import MAX_CONTENT_CHARS, said_beginning
from memory_server.kernel.other_words import found_by_text, private_words_note
from memory_server.kernel.recalled_block import one_line
from memory_server.memories.memories import Call
from memory_server.tools.base.result import ChangeId, From, Result, undo_hint
from memory_server.tools.base.shapes import ConversationId, Text, Words
from memory_server.tools.base.tool import tool

MemoryId = Annotated[Text, "Id of a short-term memory"]


def _words_or_none(words: Sequence[str]) -> list[str] | None:
    return list(words) or None


class PinResult(Result):
    id: Annotated[str, From("memory.id", words="Id of the memory")]
    pinned: Annotated[bool, From("memory.pinned", words="Whether the clean-up leaves it alone")]
    changeId: ChangeId = None

    def __str__(self) -> str:
        return _(
            "{id} is {pinned}.{undo_hint}",
            self.id,
            _("pinned") if self.pinned else _("not pinned"),
            undo_hint(self.changeId),
        )


@tool(
    title="Never forget this",
    description="Keep the clean-up from ever forgetting a short-term memory.",
    idempotent=True,
)
async def pin_memory(call: Call, id: MemoryId, conversation_id: ConversationId = None) -> PinResult:
    short_term = call.conversations.get(conversation_id).short_term
    return PinResult.of(await short_term.pin(id, by="pin_memory"))


@tool(
    title="May be forgotten again",
    description="Let the clean-up forget a pinned memory when it has faded.",
    idempotent=True,
)
async def unpin_memory(
    call: Call, id: MemoryId, conversation_id: ConversationId = None
) -> PinResult:
    short_term = call.conversations.get(conversation_id).short_term
    return PinResult.of(await short_term.pin(id, pinned=False, by="unpin_memory"))


class MuteResult(Result):
    id: Annotated[str, From("memory.id", words="Id of the memory")]
    muted: Annotated[
        list[str],
        From(
            "memory.muted",
            list,
            "Where it does not come: `everywhere`, `conversation:ID`, `folder:PATH`",
        ),
    ]
    changeId: ChangeId = None

    def __str__(self) -> str:
        undo = undo_hint(self.changeId)
        if not self.muted:
            return _("{id} is not muted.{undo_hint}", self.id, undo)
        places = joined(", ", map(place_text, self.muted))
        return _(
            "{id} is muted: it no longer comes unasked {places}. A search by hand finds it.{undo}",
            self.id,
            places,
            undo,
        )


@tool(
    title="Never bring this here",
    description=(
        "Mute a short-term memory: it stays, a search finds it, but it no longer comes unasked in the conversation, in "
        "the folder of the work, or everywhere; `nowhere` ends that."
    ),
    idempotent=True,
)
async def mute_memory(
    call: Call,
    id: MemoryId,
    where: Annotated[
        Literal["conversation", "folder", "everywhere", "nowhere"], "Where it must not come"
    ] = "conversation",
    conversation_id: ConversationId = None,
) -> MuteResult:
    conversation = call.conversations.get(conversation_id)

    place: str | None
    match where:
        case "conversation":
            place = f"conversation:{conversation.id}"
        case "folder":
            if call.folder is None:
                raise InvalidInput(
                    "The folder of this call is not known; mute the memory in its conversation, or everywhere."
                )
            place = f"folder:{call.folder}"
        case "everywhere":
            place = EVERYWHERE
        case "nowhere":
            place = None

    return MuteResult.of(await conversation.short_term.mute(id, place, by="mute_memory"))


class EditResult(Result):
    id: Annotated[str, From("memory.id", words="Id of the memory")]
    text: Annotated[str, From("memory.text", said_beginning, "The beginning of what it says now")]
    otherWords: Annotated[
        list[str] | None,
        From("memory.other_words", _words_or_none, "By which it is found beside its own words"),
    ] = None
    note: str | None = Field(None, description="Which other words were left out, and why")
    changeId: ChangeId = None

    def __str__(self) -> str:
        sentence = _(
            "{id} says now: {text}.{undo_hint}",
            self.id,
            one_line(self.text),
            undo_hint(self.changeId),
        )
        return " ".join(filter(None, (sentence, found_by_text(self.otherWords or ()), self.note)))


def _texts_with(memory: ShortTermMemory, find: str, replacement: str) -> list[str]:
    """Return the texts of its messages, with `replacement` in the place of `find`. Raise InvalidInput if all texts
    together have `find` not at all or several times."""
    texts = [message.content for message in memory.messages] or [memory.text]
    count = sum(text.count(find) for text in texts)
    if count == 0:
        raise InvalidInput(
            "No message of the memory {id} has these words; give some as they are written.",
            memory.id,
        )
    if count > 1:
        raise InvalidInput(
            "The memory {id} has these words {number} times; give more of the text around them.",
            memory.id,
            count,
        )
    return [text.replace(find, replacement) for text in texts]


@tool(
    title="Correct a memory",
    description=(
        "Correct what a short-term memory says, such as a name that was wrong. What it said stays in the history; "
        "the change can be undone. Or give it other words by which it is found."
    ),
)
async def edit_memory(
    call: Call,
    id: MemoryId,
    find: Annotated[
        Text | None,
        Field(min_length=1, max_length=MAX_CONTENT_CHARS),
        "Words that one of its messages has once",
    ] = None,
    replace: Annotated[
        Text | None,
        Field(max_length=MAX_CONTENT_CHARS),
        "What comes in their place; an empty text takes them out",
    ] = None,
    otherWords: Annotated[
        Words | None, "All other words by which it is found; an empty list takes them away"
    ] = None,
    conversation_id: ConversationId = None,
) -> EditResult:
    has_half_a_replacement = (find is None) != (replace is None)
    if has_half_a_replacement or (find is None and otherWords is None):
        raise InvalidInput(
            "Give both find and replace, or otherWords, or all three; then it is known what to change."
        )
    short_term = call.conversations.get(conversation_id).short_term
    memory = await short_term.memory(id)
    texts = None
    if find is not None and replace is not None:
        texts = _texts_with(memory, find, replace)
    edited = await short_term.edit(
        id, texts, other_words=otherWords, before=memory.text, by="edit_memory"
    )
    return EditResult.of(edited, note=private_words_note(edited.private_words))
