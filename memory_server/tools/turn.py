"""The toolset `turn`: one call before a turn and one after it, for companions that want no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from memory_server.core.errors import MemoryPaused, NothingToKeep
from memory_server.managers.context import Context
from memory_server.managers.turns import MAX_CHARS, recalled_block, recollect
from memory_server.tools import long_term, short_term
from memory_server.tools.base.shapes import ConversationId, Messages, Text, messages_of
from memory_server.tools.base.tool import Arguments, Result, Tool


def _block_chars(value: int) -> int:
    if not 200 <= value <= 50_000:
        raise ValueError("it is a number of characters from 200 to 50,000")
    return value


class RecallArguments(Arguments):
    messages: Messages = Field(description="The last few messages of the chat")
    conversation_id: ConversationId = None
    participants: dict[str, Any] | None = Field(None, description="Who takes part; triggers see it as it is")
    maxChars: Annotated[int, AfterValidator(_block_chars)] = Field(MAX_CHARS, description="Length of `prompt`")


class RecallResult(Result):
    prompt: str = Field(description="What came to mind, ready for the prompt; empty where nothing did")
    shortTerm: short_term.SearchResult = Field(description="As search_short_term_memories gives it")
    longTerm: long_term.SearchResult = Field(description="As search_long_term_memories gives it")
    note: str | None = Field(None, description="Why triggers could not run, or what the archive would have")

    def sought(self) -> Sequence[str]:
        return self.shortTerm.sought()


async def _recall(context: Context, arguments: RecallArguments) -> RecallResult:
    conversation = context.conversations.get(arguments.conversation_id)
    recollection = await recollect(
        conversation, messages_of(arguments.messages), participants=arguments.participants, by="recall_turn"
    )
    notes = (recollection.trouble, await short_term.archive_note(conversation, recollection.found.recall))
    return RecallResult(
        prompt=recalled_block(context, recollection, max_chars=arguments.maxChars),
        shortTerm=short_term.search_result(context, conversation.id, recollection.found),
        longTerm=long_term.search_result(recollection.activation),
        note=" ".join(filter(None, notes)) or None,
    )


def _recall_text(result: RecallResult) -> str:
    return "\n".join(filter(None, (result.prompt or "Nothing came to mind.", result.note)))


class RememberArguments(Arguments):
    messages: Messages = Field(description="What was said since the last call")
    conversation_id: ConversationId = None
    turn_id: Text | None = Field(None, min_length=1, max_length=200, description="The same turn is stored once")


class RememberResult(Result):
    success: bool
    id: str | None = Field(None, description="Left out where nothing is kept")
    stored: bool = Field(description="false: this turn was stored before, or may not be kept")
    totalMemories: int | None = None
    changeId: str | None = None
    note: str | None = Field(None, description="Why nothing is kept")


async def _remember(context: Context, arguments: RememberArguments) -> RememberResult:
    try:
        done = await context.conversations.get(arguments.conversation_id).short_term.add(
            messages_of(arguments.messages), turn=arguments.turn_id, by="remember_turn"
        )
    except (MemoryPaused, NothingToKeep) as error:
        return RememberResult(success=True, stored=False, note=str(error))
    return RememberResult(
        success=True,
        id=done.memory.id,
        stored=done.change_id is not None,
        totalMemories=done.total,
        changeId=done.change_id,
    )


def _remember_text(result: RememberResult) -> str:
    if result.id is None or result.totalMemories is None:
        return result.note or ""
    return short_term.remembered_text(result.id, result.totalMemories, stored=result.stored)


RECALL = Tool(
    name="recall_turn",
    title="Recall before answering",
    description=(
        "Everything that comes to mind for the current messages, in one call before each answer: short-term "
        "memories as search_short_term_memories gives them, triggers as search_long_term_memories does, and "
        "`prompt`, lines to put into the prompt as they are. What stands between its tags is never stored again."
    ),
    arguments=RecallArguments,
    result=RecallResult,
    run=_recall,
    text=_recall_text,
    reinforces=True,
)
REMEMBER = Tool(
    name="remember_turn",
    title="Remember after answering",
    description=(
        "Remember what was said in a turn, in one call after each answer. Recalled memories in the messages are "
        "left out, and so is `<private>…</private>`. With a turn_id, the same turn is stored once."
    ),
    arguments=RememberArguments,
    result=RememberResult,
    run=_remember,
    text=_remember_text,
)
TURN: tuple[Tool, ...] = (RECALL, REMEMBER)
