"""The toolset `turn`: one call before a turn and one after it, for companions that want no more."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from memory_server.managers.conversations import Conversations
from memory_server.managers.turns import MAX_CHARS, recalled_block, recollect
from memory_server.tools import long_term, short_term
from memory_server.tools.shapes import ConversationId, Messages, Text, counted, messages_of
from memory_server.tools.tool import Arguments, Result, Tool


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
    note: str | None = None


async def _recall(conversations: Conversations, arguments: RecallArguments) -> RecallResult:
    conversation = conversations.get(arguments.conversation_id)
    recollection = await recollect(
        conversation, messages_of(arguments.messages), participants=arguments.participants, by="recall_turn"
    )
    return RecallResult(
        prompt=recalled_block(conversations, recollection, max_chars=arguments.maxChars),
        shortTerm=short_term.search_result(conversations, conversation.id, recollection.found),
        longTerm=long_term.search_result(recollection.activation),
        note=recollection.trouble,
    )


def _recall_text(result: RecallResult) -> str:
    return "\n".join(part for part in (result.prompt, result.note) if part) or "Nothing came to mind."


class RememberArguments(Arguments):
    messages: Messages = Field(description="What was said since the last call")
    conversation_id: ConversationId = None
    turn_id: Text | None = Field(None, min_length=1, max_length=200, description="The same turn is stored once")


class RememberResult(Result):
    success: bool
    id: str
    stored: bool = Field(description="false: this turn was stored before")
    totalMemories: int
    changeId: str | None = None


async def _remember(conversations: Conversations, arguments: RememberArguments) -> RememberResult:
    done = await conversations.get(arguments.conversation_id).short_term.add(
        messages_of(arguments.messages), turn=arguments.turn_id, by="remember_turn"
    )
    return RememberResult(
        success=True,
        id=done.memory.id,
        stored=done.change_id is not None,
        totalMemories=done.total,
        changeId=done.change_id,
    )


def _remember_text(result: RememberResult) -> str:
    done = f"Remembered as {result.id}" if result.stored else f"Remembered before, as {result.id}"
    return f"{done}; {counted(result.totalMemories, 'memory')} in this conversation."


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
        "left out. With a turn_id, the same turn is stored once however often it is told."
    ),
    arguments=RememberArguments,
    result=RememberResult,
    run=_remember,
    text=_remember_text,
)
TURN: tuple[Tool, ...] = (RECALL, REMEMBER)
