"""Prompts that a person picks in the client: remember something, recall, set a reminder, look through a conversation.

`PROMPTS` is a table with the names and arguments of the Node original. A prompt is in Chinese if its arguments are.
This module does not import MCP; `documents.py` serves the table over MCP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from memory_server.conversations.conversation import Conversation
from memory_server.conversations.recall.request import RecallRequest
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.messages import Message
from memory_server.kernel.recalled_block import marked, one_line
from memory_server.kernel.text import Language, shown
from memory_server.kernel.values import frozen
from memory_server.lore import LongTermMemory
from memory_server.memories.memories import Call
from memory_server.memories.turns import (
    output_of_turn,
    prompt_room,
    recall_for_turn,
    recalled_block,
)
from memory_server.serving.texts import text
from memory_server.tools import keeps_conversations

MAX_ARGUMENT_CHARS = 10_000
"""Characters of an argument; a longer text belongs into the conversation."""
_RECENT = 20
"""Newest memories that `analyze-conversation` shows."""
_RECENT_BYTES = 8_000
_RECALLED_CHARS = 3_000
_NAMES_CHARS = 2_000
"""Characters of all names of long-term memories that `analyze-conversation` shows."""


class Argument(NamedTuple):
    name: str
    description: str
    required: bool = True


@frozen
class PromptRequest:
    """The call and the language for which a prompt is written."""

    call: Call
    conversation: Conversation
    language: Language

    def say(self, name: str, **fields: str) -> str:
        return text(name, self.language, conversation=self.conversation.id, **fields)


@frozen
class Prompt:
    """One row of the table. `write` gets the arguments by name, including all required ones; without `write`, they are
    filled into the text with the prompt's name."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    write: Callable[[PromptRequest, Mapping[str, str]], Awaitable[str]] | None = None
    keeps: bool = False
    """Whether its text asks the model to call `KEEPING`."""


def prompts_with(tools: Collection[str]) -> Mapping[str, Prompt]:
    """Return the prompts that a model with these tools can follow."""
    if not keeps_conversations(tools):
        return {}
    return {name: row for name, row in PROMPTS.items() if not row.keeps or KEEPING in tools}


async def write(call: Call, name: str, arguments: Mapping[str, str]) -> str:
    """Write the text that the prompt `name` puts into the chat. Raises InvalidInput: the prompt is unknown, or an
    argument is missing, unknown, empty or too long."""
    prompt = PROMPTS.get(name)
    if prompt is None:
        raise InvalidInput(f"There is no prompt `{shown(name)}`; use one of {', '.join(PROMPTS)}.")

    argument_names = {argument.name for argument in prompt.arguments}
    for unknown in arguments.keys() - argument_names:
        raise InvalidInput(
            f"{name} has no argument `{shown(unknown)}`; it takes {', '.join(sorted(argument_names))}."
        )

    values = {key: without_surrogates(value).strip() for key, value in arguments.items()}
    for argument in prompt.arguments:
        value = values.get(argument.name, "")
        if argument.required and not value:
            raise InvalidInput(f"`{argument.name}` is missing; {name} needs it.")
        if len(value) > MAX_ARGUMENT_CHARS:
            raise InvalidInput(
                f"`{argument.name}` is too long; shorten it to {MAX_ARGUMENT_CHARS:,} characters."
            )

    # The language of the text follows what the user typed.
    conversation_id = values.pop(_CONVERSATION.name, "") or None
    conversation = call.conversations.get(conversation_id)
    request = PromptRequest(call, conversation, call.memories.language([*values.values()]))
    if prompt.write is None:
        return request.say(name, **values)

    return await prompt.write(request, values)


async def _recall(request: PromptRequest, values: Mapping[str, str]) -> str:
    """Write the prompt with what the topic brings to mind, and note it in the record of recalls;
    another text if nothing comes. Raises InvalidInput if the topic holds only recalled text."""
    asked = RecallRequest([Message("user", values["current_topic"])], flashbacks=0, by="prompt")
    recollection = await recall_for_turn(request.conversation, asked)
    block = recalled_block(
        request.call.memories,
        recollection.found,
        recollection.activation,
        prompt_room(_RECALLED_CHARS),
    )
    request.call.note(
        output_of_turn(block, recollection, request.conversation.id, asked, block.text)
    )
    text_name = "recall-context" if block.text else "recall-nothing"
    return request.say(text_name, block=block.text, **values)


async def _analyze(request: PromptRequest, _: Mapping[str, str]) -> str:
    """Write the prompt with the newest exchanges and the names of the long-term memories, in the
    language of the exchanges; another text if there are no exchanges."""
    memories = await request.conversation.short_term.memories()
    newest = memories[-_RECENT:]
    # In the language of the memories, because the only argument is a name.
    language = request.call.memories.language([memory.text for memory in newest])
    request = replace(request, language=language)
    names = _names(await request.conversation.long_term.memories())
    if not newest:
        return request.say("analyze-nothing", names=marked(names, language) if names else "-")
    lines = request.call.memories.lines(memories=newest, max_bytes=_RECENT_BYTES).text
    block = "\n".join(filter(None, (lines, names)))
    return request.say("analyze-conversation", block=marked(block, language))


def _names(memories: Sequence[LongTermMemory]) -> str:
    """Return `[name] [name]`, as recalled lines name long-term memories; an ellipsis where there are too many."""
    names: list[str] = []
    chars = 0
    for memory in memories:
        name = f"[{one_line(memory.name)}]"
        chars += len(name) + 1
        if chars > _NAMES_CHARS:
            names.append("…")
            break
        names.append(name)
    return " ".join(names)


KEEPING = "add_long_term_memory"
_CONVERSATION = Argument(
    "conversation_id",
    "Where the memories are kept; leave it out for the usual place",
    required=False,
)

PROMPTS: Mapping[str, Prompt] = {
    prompt.name: prompt
    for prompt in (
        Prompt(
            "remember-user-info",
            "Remember this about me",
            "Keep a fact about the user for good: a preference, a birthday, a person. 记住关于用户的一件事。",
            (
                Argument("info_type", "What it is, such as preference, birthday, person"),
                Argument("information", "What to remember"),
                _CONVERSATION,
            ),
            keeps=True,
        ),
        Prompt(
            "recall-context",
            "What do you remember of this?",
            "Put what the memory holds on a topic into the chat. 把记忆里与话题有关的内容带进来。",
            (Argument("current_topic", "The topic or question"), _CONVERSATION),
            _recall,
        ),
        Prompt(
            "create-reminder",
            "Remind me",
            "Set a reminder that comes at a word, a date or a time. 设一个到时出现的提醒。",
            (
                Argument("reminder_content", "What to remind of"),
                Argument("trigger_condition", "When: words, a date, a time"),
                _CONVERSATION,
            ),
            keeps=True,
        ),
        Prompt(
            "analyze-conversation",
            "What is worth keeping?",
            "Look through the newest memories and keep for good what will matter. 整理近来的记忆，留下重要的。",
            (Argument("conversation_id", "The conversation to look through"),),
            _analyze,
            keeps=True,
        ),
    )
}
