"""The toolset `turn`: one call before a turn and one after it; both are offered by default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from memory_server.kernel.errors import MemoryPaused, NothingToKeep
from memory_server.memories.memories import Call
from memory_server.memories.turns import MAX_CHARS, turn_prompt
from memory_server.tools import long_term, short_term
from memory_server.tools.base.result import From, Result
from memory_server.tools.base.shapes import (
    ConversationId,
    CurrentMessages,
    Messages,
    Participants,
    SessionName,
    Text,
    between,
)
from memory_server.tools.base.tool import tool
from sandbox.locale import _, joined


class RecallResult(Result):
    prompt: str = Field(description="What came to mind, ready for the prompt; empty where nothing did")
    shortTerm: short_term.SearchResult = Field(description="As search_short_term_memories gives it")
    longTerm: long_term.SearchResult = Field(description="As search_long_term_memories gives it")
    note: str | None = Field(None, description="Why triggers could not run, or what the archive would have")

    def query_words(self) -> Sequence[str]:
        return self.shortTerm.query_words()

    def __str__(self) -> str:
        nothing = self.shortTerm.note or _("Nothing came to mind.")
        return joined("\n", filter(None, (self.prompt or nothing, self.note)))


@tool(
    title="Recall before answering",
    description=(
        "What comes to mind for the current messages: call it before each answer. `prompt` has what was said before, "
        "and the long-term memories whose trigger is true."
    ),
    always_loaded=True,
    reinforces=True,
)
async def recall_turn(
    call: Call,
    messages: CurrentMessages,
    conversation_id: ConversationId = None,
    participants: Participants = None,
    maxChars: Annotated[int, between(200, 50_000, "characters"), "Length of `prompt`"] = MAX_CHARS,
    session: SessionName = None,
) -> RecallResult:
    call, conversation = call.in_session(session), call.conversations.get(conversation_id)
    prompt, recollection = await turn_prompt(
        call, conversation, messages, participants=participants, max_chars=maxChars
    )
    notes = (recollection.trouble, await short_term.archive_note(conversation, recollection.found.recall))
    return RecallResult(
        prompt=prompt,
        shortTerm=short_term.search_result(call, conversation.id, recollection.found),
        longTerm=long_term.search_result(recollection.activation),
        note=joined(" ", filter(None, notes)) or None,
    )


class RememberResult(Result):
    success: bool
    id: Annotated[str | None, From("memory.id", words="Left out where nothing is kept")] = None
    stored: bool = Field(description="false: this turn was stored before, or may not be kept")
    totalMemories: Annotated[int | None, From("total")] = None
    changeId: str | None = None
    note: str | None = Field(None, description="Why nothing is kept")

    def __str__(self) -> str:
        if self.id is None or self.totalMemories is None:
            return self.note or ""
        return short_term.remembered_text(self.id, self.totalMemories, stored=self.stored)


@tool(
    title="Remember after answering",
    description=(
        "Remember what was said in a turn: call it after each answer. Recalled memories and `<private>…</private>` are "
        "left out. For what must come up under a condition, use add_long_term_memory."
    ),
    always_loaded=True,
)
async def remember_turn(
    call: Call,
    messages: Annotated[Messages, "What was said since the last call"],
    conversation_id: ConversationId = None,
    turn_id: Annotated[Text | None, Field(min_length=1, max_length=200), "The same turn is stored once"] = None,
    session: SessionName = None,
) -> RememberResult:
    call, conversation = call.in_session(session), call.conversations.get(conversation_id)
    try:
        done = await conversation.short_term.add(
            messages, turn=turn_id, session=call.session, folder=call.folder, by="remember_turn"
        )
    except (MemoryPaused, NothingToKeep) as error:
        return RememberResult(success=True, stored=False, note=str(error))
    return RememberResult.of(done, success=True, stored=done.change_id is not None, note=None)
