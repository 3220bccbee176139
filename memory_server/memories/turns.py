"""One call before each turn of a chat and one after it: what comes to mind, and what is remembered.

The hook, the commands for companions, and the toolset `turn` share it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_server.conversations.conversation import Conversation
from memory_server.conversations.found import Found
from memory_server.conversations.model import ShortTermMemory, muting_places
from memory_server.conversations.recall.activation import Activation
from memory_server.conversations.recall.prompt_lines import Language
from memory_server.kernel.errors import InvalidInput, StorageError, TriggersUnavailable
from memory_server.kernel.messages import Message, Session
from memory_server.kernel.readers import way
from memory_server.kernel.recalled_block import FRAME_CHARS, OTHER_WORDS_ASKED, as_said, marked
from memory_server.kernel.recalls import Line
from memory_server.kernel.text import unreadable
from memory_server.knowledge.projects import Project
from memory_server.memories.memories import Call, Memories
from memory_server.memories.recalls import Given
from sandbox.locale import counted

log = logging.getLogger(__name__)
MAX_CHARS = 1_200
"""Characters of a recalled block by default: a model pays for them in every turn."""
BEGINNING_CHARS = 800
"""Characters of the text for a new session at most: it did not ask for it."""
MOST_PINNED = 8
"""Pinned memories that a new session is shown, the newest: more would leave too little room for each."""
LAST_EXCHANGES = 2
"""Exchanges that it is shown from the last session."""
_HEADINGS: dict[Language, tuple[str, str]] = {
    "zh": ("置顶的记忆：", "上次说到："),
    "en": ("Pinned:", "Where you left off:"),
}
"""The headings of the pinned memories and of the last exchanges."""
_STEPS_TO_START = 10
"""Turns of the event loop that starting a worker process takes, if one is needed."""


@dataclass(frozen=True, slots=True)
class TurnRecall:
    """Both searches. `trouble` says why triggers could not run, which conversations could not be read, or how many
    triggers had no time."""

    found: Found
    activation: Activation
    trouble: str | None


async def recall_for_turn(
    conversation: Conversation,
    messages: Sequence[Message],
    *,
    other_words: Sequence[str] = (),
    participants: Mapping[str, Any] | None = None,
    also: Sequence[str] = (),
    session: Session | None = None,
    folder: str | None = None,
    flashbacks: int = 0,
    said_again: bool = True,
    reinforce: bool = True,
    by: str = "api",
) -> TurnRecall:
    """What the messages bring to mind in `session` and `folder`, of both kinds of memory, of this conversation and of
    those searched `also`; `other_words` as for `ShortTermSearch.search`; `flashbacks` of each kind may come by chance.
    It is reinforced, unless the caller does not want it. Raises InvalidInput: there is no message, or there are too
    many other words."""

    async def fired() -> tuple[Activation, str | None]:
        try:
            found = await conversation.long_term.search(
                messages, participants=participants, also=also, flashbacks=flashbacks
            )
            return found, None
        except TriggersUnavailable as error:
            return Activation((), (), (), 0), str(error)

    triggers = asyncio.create_task(fired())
    try:
        with_shared, _ = await conversation.long_term.with_shared(also)
        # The worker gets ready in its own process while this one finds the words. But starting it needs the interpreter
        # lock, which finding the first words holds for a tenth of a second: so the worker is started first.
        for _ in range(_STEPS_TO_START if with_shared.triggers else 0):
            await asyncio.sleep(0)
        # Participants are texts, or objects with the field `name`.
        named = [one.get("name") if isinstance(one, Mapping) else one for one in (participants or {}).values()]
        names = [name for name in named if isinstance(name, str)]
        found = await conversation.short_term.search(
            messages,
            other_words=other_words,
            also=also,
            session=session,
            folder=folder,
            names=names,
            flashbacks=flashbacks,
            said_again=said_again,
            reinforce=reinforce,
            by=by,
        )
        activation, trouble = await triggers
    finally:
        triggers.cancel()
    unread = {**found.unread, **activation.unread}
    late = sum(failure.kind == "not_evaluated" for _, failure in activation.failed)
    if trouble is None and unread:
        trouble = unreadable(unread)
    elif trouble is None and late:
        count = counted(late, "trigger")
        where = way("search_long_term_memories", "memory-server call --text search_long_term_memories")
        trouble = _("{number} did not run; {where} says why.", count, where)
    return TurnRecall(found, activation, trouble)


def recalled_block(
    memories: Memories,
    recollection: TurnRecall,
    *,
    max_chars: int = MAX_CHARS,
    given: set[str] | None = None,
    here: str | None = None,
) -> str:
    """What came to mind as lines for a prompt, marked as recalled, at most `max_chars`; empty if nothing came. `given`
    are the keys of lines that the reader was given before and still sees; those of new lines are added. `here`: the
    reader's folder."""
    activated = [item.memory for item in recollection.activation.activated]
    room = max(0, max_chars - FRAME_CHARS)
    text = memories.lines(recollection.found.recall, activated, max_chars=room, given=given, here=here)
    return marked(text, memories.language([text])) if text else ""


async def turn_prompt(
    call: Call,
    conversation: Conversation,
    messages: Sequence[Message],
    *,
    other_words: Sequence[str] = (),
    participants: Mapping[str, Any] | None = None,
    also: Sequence[str] = (),
    flashbacks: int = 0,
    reinforce: bool = True,
    max_chars: int = MAX_CHARS,
) -> tuple[str, TurnRecall]:
    """What the messages bring to mind for a prompt, marked as recalled and put into the record of recalls, and where it
    is from; the text is empty if nothing came. Raises InvalidInput: there is no message."""
    found = await recall_for_turn(
        conversation,
        messages,
        other_words=other_words,
        participants=participants,
        also=also,
        session=call.session,
        folder=call.folder,
        flashbacks=flashbacks,
        said_again=False,  # a client sends what it has in its context
        reinforce=reinforce,
        by="recall_turn",
    )
    block = recalled_block(call.memories, found, max_chars=max_chars, here=call.folder)
    noted, items = await noted_block(call.memories, messages, call.project)
    prompt = "\n".join(filter(None, (block, noted)))
    call.note(Given(conversation.id, messages, prompt, found.found.recall, found.activation, items))
    return prompt, found


async def turn_text(
    call: Call,
    conversation: Conversation,
    messages: Sequence[Message],
    *,
    other_words: Sequence[str] = (),
    participants: Mapping[str, Any] | None = None,
    flashbacks: int = 0,
    max_chars: int = MAX_CHARS,
) -> str:
    """Only the text of `turn_prompt`. Raises InvalidInput: there is no message, or `flashbacks` is below 0."""
    if flashbacks < 0:
        raise InvalidInput("`flashbacks` is a number of memories, from 0 on; {number} is less.", flashbacks)
    prompt, _found = await turn_prompt(
        call,
        conversation,
        messages,
        other_words=other_words,
        participants=participants,
        flashbacks=flashbacks,
        max_chars=max_chars,
    )
    return prompt


async def noted_block(
    memories: Memories, messages: Sequence[Message], project: Project | None = None
) -> tuple[str, list[Line]]:
    """The notes and entries of layers that the last message brings to mind, marked as recalled, and their items for the
    record of recalls; empty if none does, or none may come unasked. `project`: as in `Notes`."""
    if not memories.auto_recall_chars or not messages:
        return "", []
    said = as_said(messages[-1:])
    text = "\n".join(message.content for message in said)
    try:
        room = max(0, memories.auto_recall_chars - FRAME_CHARS)
        lines, names = await memories.knowledge.unasked(text, room, memories.auto_recall_from, project)
    except StorageError as error:
        log.warning("notes could not be recalled: %s", error)
        return "", []
    block = marked(lines, memories.language([lines])) if lines else ""
    return block, [{"id": name, "tier": "note"} for name in names]


async def beginning_block(
    memories: Memories,
    conversation: Conversation,
    *,
    session: Session | None,
    with_last: bool,
    max_chars: int = MAX_CHARS,
    given: set[str] | None = None,
    here: str | None = None,
) -> tuple[str, list[Line]]:
    """The text for `session` as it begins, marked as recalled: pinned memories and, `with_last`, the last exchanges of
    another session of this conversation in the folder `here`; and which these are. Empty if there are none. `given` as
    for `recalled_block`."""
    pinned, last = left_off(
        await conversation.short_term.memories(),
        conversation_id=conversation.id,
        session=session,
        with_last=with_last,
        folder=here,
    )
    language = memories.language([memory.text for memory in (*pinned, *last)])
    parts = [part for part in zip(_HEADINGS[language], (pinned, last), strict=True) if part[1]]
    room = max(0, min(max_chars, BEGINNING_CHARS) - FRAME_CHARS) // max(1, len(parts))
    texts = (
        (heading, memories.lines(memories=shown, max_chars=max(0, room - len(heading) - 2), given=given, here=here))
        for heading, shown in parts
    )
    text = "\n".join(f"{heading}\n{lines}" for heading, lines in texts if lines)
    came = [(memory, tier) for memories, tier in ((pinned, "pinned"), (last, "last")) for memory in memories]
    items: list[Line] = [{"id": one.id, "tier": tier, "chars": len(one.text)} for one, tier in came]
    return (marked(text, language), items) if text else ("", [])


async def other_words_asked(memories: Memories, conversation: Conversation, max_chars: int) -> str:
    """What the model of a new session is asked: to look again with other words. Empty where there is nothing to find,
    or no room for it."""
    kept = await conversation.short_term.memories()
    if not kept:
        return ""
    newest = max(kept, key=lambda memory: memory.time_ms)
    sentence = OTHER_WORDS_ASKED[memories.language([newest.text])]
    return sentence if len(sentence) <= max_chars else ""


def left_off(
    memories: Iterable[ShortTermMemory],
    *,
    conversation_id: str,
    session: Session | None,
    with_last: bool = True,
    folder: str | None = None,
) -> tuple[list[ShortTermMemory], list[ShortTermMemory]]:
    """What `session` gets of the memories made in `conversation_id`, without those that it stored itself: the pinned
    ones and the last exchanges, both oldest first, without duplicates and without what is muted there. `with_last` is
    False if the session continues after a compaction: then it has its own summary. `folder`: where it works; the last
    exchanges are of that folder, because another one may be of another client. None: of any."""
    own, places = None if session is None else session.id, muting_places(conversation_id, folder)
    known = sorted(
        (one for one in memories if one.conversation_id == conversation_id and places.isdisjoint(one.muted)),
        key=lambda memory: (memory.time_ms, memory.id),
    )
    pinned = [memory for memory in known if memory.pinned]
    others = [memory for memory in known if not memory.pinned and (memory.session is None or memory.session != own)]
    others = [memory for memory in others if folder in (None, memory.folder)]
    return pinned[-MOST_PINNED:], others[-LAST_EXCHANGES:] if with_last else []
