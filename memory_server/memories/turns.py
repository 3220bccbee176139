"""One call before each turn of a chat and one after it: what comes to mind, and what is remembered.

The hook, the commands for companions, and the toolset `turn` share it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from languages import _, counted
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.found import Found
from memory_server.conversations.model import ShortTermMemory, muting_places
from memory_server.conversations.recall.activation import NOTHING_ACTIVATED, Activation
from memory_server.conversations.recall.prompt_lines import Language
from memory_server.conversations.recall_log import Line
from memory_server.kernel.errors import StorageError, TriggersUnavailable
from memory_server.kernel.messages import NOTHING, GivenMessage, Message, Session, messages_of
from memory_server.kernel.readers import way
from memory_server.kernel.recalled_block import FRAME_CHARS, OTHER_WORDS_ASKED, as_said, marked
from memory_server.kernel.text import unreadable
from memory_server.kernel.times import LAST_MS
from memory_server.kernel.values import dataclass
from memory_server.knowledge.projects import Project
from memory_server.lore import user_name
from memory_server.memories.memories import Call, Memories
from memory_server.memories.prompt_block import (
    Reader,
    RecalledBlock,
    is_made_quickly,
    prompt_room,
    recalled_block,
)
from memory_server.memories.recalls import Given

log = logging.getLogger(__name__)
MAX_CHARS = 7_200
"""Characters of a recalled block by default: the constants of six lorebooks in ten fit beside 1,800 characters of what
was said. It is seldom full: a model pays only for what comes."""
BEGINNING_CHARS = 800
"""Characters of the text for a new session at most: it did not ask for it."""
MOST_PINNED = 8
"""Pinned memories that a new session is shown, the newest: more would leave too little room for each."""
LAST_EXCHANGES = 2
"""Exchanges that a new session is shown from the last one."""
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
    triggers had no time. `by`: who asked; "": nothing of it may be written."""

    found: Found
    activation: Activation
    trouble: str | None
    by: str = ""


async def recall_for_turn(
    conversation: Conversation,
    messages: Sequence[GivenMessage],
    *,
    earlier: Sequence[Message] = (),
    other_words: Sequence[str] = (),
    participants: Mapping[str, Any] | None = None,
    also: Sequence[str] = (),
    also_turns: Mapping[str, Collection[str]] = NOTHING,
    session: Session | None = None,
    folder: str | None = None,
    flashbacks: int = 0,
    said_again: bool = True,
    reinforce: bool = True,
    message_count: int | None = None,
    keeps_state: bool = True,
    lore_room: int | None = None,
    given: Collection[str] = (),
    by: str = "api",
) -> TurnRecall:
    """What the messages bring to mind in `session` and `folder`, of both kinds of memory, of this conversation and of
    those searched `also`, of which `also_turns` limits some to such turns; `earlier`: messages before them, which only
    triggers get; `other_words` as for `ShortTermSearch.search`; `flashbacks` of each kind may come by chance.
    It is reinforced, unless the caller does not want it. `message_count`: how many messages the chat has; None: its
    recalls are counted. `keeps_state`: what is given counts for cooldowns (`keep_firings`). `lore_room`: the characters
    that memories with triggers may have; None: no bound is known. `given`: the keys of texts that the session has.
    Raises InvalidInput: all that the messages say was recalled, or there are too many other words."""

    async def search_triggers() -> tuple[Activation, str | None]:
        """What the triggers activate, and why they could not run."""
        session_id = None
        if session is not None:
            session_id = session.id
        try:
            activation = await conversation.long_term.search(
                (*earlier, *messages),
                participants=participants,
                also=also,
                flashbacks=flashbacks,
                session=session_id,
                message_count=message_count,
                other_words=other_words,
                room=lore_room,
                given=given,
            )
        except TriggersUnavailable as error:
            return NOTHING_ACTIVATED, str(error)
        return activation, None

    trigger_search = asyncio.create_task(search_triggers())
    try:
        with_shared, _unread = await conversation.long_term.with_shared(also)
        # The worker gets ready in its own process while this one finds the words. But starting it needs the interpreter
        # lock, which finding the first words holds for a tenth of a second: so the worker is started first.
        if with_shared.triggers:
            for _step in range(_STEPS_TO_START):
                await asyncio.sleep(0)
        short_term = await conversation.short_term.search(
            _with_asker(messages_of(messages), participants or {}),
            other_words=other_words,
            also=also,
            also_turns=also_turns,
            session=session,
            folder=folder,
            names=_names_of(participants),
            flashbacks=flashbacks,
            said_again=said_again,
            reinforce=reinforce,
            by=by,
        )
        activation, trouble = await trigger_search
    finally:
        trigger_search.cancel()
    if trouble is None:
        trouble = _trouble_of(short_term, activation)
    if not keeps_state:
        by = ""
    return TurnRecall(short_term, activation, trouble, by)


def _with_asker(messages: Sequence[Message], participants: Mapping[str, Any]) -> Sequence[Message]:
    """The messages, of which the last has the name of the user, if it is the user's and has no name."""
    if not messages or messages[-1].role != "user" or messages[-1].name:
        return messages
    return [*messages[:-1], replace(messages[-1], name=user_name(participants) or None)]


def _names_of(participants: Mapping[str, Any] | None) -> list[str]:
    """The names of the participants, who are texts, or objects with the field `name`."""
    names: list[str] = []
    for participant in (participants or {}).values():
        name = participant
        if isinstance(participant, Mapping):
            name = participant.get("name")
        if isinstance(name, str):
            names.append(name)
    return names


def _trouble_of(short_term: Found, activation: Activation) -> str | None:
    """The sentence about conversations that could not be read, or else about triggers that had no time; None: all were
    read and evaluated."""
    unread = {**short_term.unread, **activation.unread}
    if unread:
        return unreadable(unread)
    late_count = sum(failure.kind == "not_evaluated" for _shelved, failure in activation.failed)
    if late_count == 0 and not activation.is_complete:
        return _(
            "There was no time to look for lorebook entries in the texts of all entries that came; ask again."
        )
    if late_count == 0:
        return None
    number = counted(late_count, "trigger")
    where = way("search_long_term_memories", "memory-server call --text search_long_term_memories")
    return _("{number} did not run; {where} says why.", number, where)


async def keep_firings(
    conversation: Conversation, recollection: TurnRecall, block: RecalledBlock
) -> TurnRecall:
    """Count what was given for cooldowns and the like; the recall with what could not be written."""
    if not recollection.by:
        return recollection
    activation = recollection.activation
    trouble = await conversation.long_term.keep_firings(
        activation, block.fitting.came, by=recollection.by
    )
    if trouble is None:
        return recollection
    return replace(recollection, trouble=recollection.trouble or trouble)


@dataclass(frozen=True, slots=True)
class TurnPrompt:
    """The text of a recall, both searches, and the block of what came."""

    text: str
    recollection: TurnRecall
    block: RecalledBlock


async def turn_prompt(
    call: Call,
    conversation: Conversation,
    messages: Sequence[GivenMessage],
    *,
    other_words: Sequence[str] = (),
    participants: Mapping[str, Any] | None = None,
    also: Sequence[str] = (),
    also_turns: Mapping[str, Collection[str]] = NOTHING,
    flashbacks: int = 0,
    reinforce: bool = True,
    message_count: int | None = None,
    max_chars: int = MAX_CHARS,
) -> TurnPrompt:
    """What the messages bring to mind for a prompt, marked as recalled and put into the record of recalls, and where it
    is from; the text is empty if nothing came. Raises InvalidInput: all that the messages say was recalled."""
    room = prompt_room(max_chars)
    recollection = await recall_for_turn(
        conversation,
        messages,
        other_words=other_words,
        participants=participants,
        also=also,
        also_turns=also_turns,
        session=call.session,
        folder=call.folder,
        flashbacks=flashbacks,
        said_again=False,  # a client sends what it has in its context
        reinforce=reinforce,
        message_count=message_count,
        keeps_state=reinforce,
        lore_room=room.total,
        by="recall_turn",
    )
    short_term = recollection.found
    activation = recollection.activation
    make_block = partial(
        recalled_block, call.memories, short_term, activation, room, Reader(folder=call.folder)
    )
    if is_made_quickly(short_term, activation):
        block = make_block()
    else:
        block = await asyncio.to_thread(make_block)
    recollection = await keep_firings(conversation, recollection, block)
    notes, items = await noted_block(call.memories, messages, call.project)
    prompt = "\n".join(filter(None, (block.text, notes)))
    given = Given(
        conversation.id,
        messages_of(messages),
        prompt,
        short_term.recall,
        activation,
        others=items,
        fitting=block.fitting,
        without_room=block.without_room,
    )
    call.note(given)
    return TurnPrompt(prompt, recollection, block)


async def noted_block(
    memories: Memories, messages: Sequence[GivenMessage], project: Project | None = None
) -> tuple[str, list[Line]]:
    """The notes and entries of layers that the last message brings to mind, marked as recalled, and their items for the
    record of recalls; empty if none does, or none may come unasked. `project`: as in `Notes`."""
    if not memories.auto_recall_chars or not messages:
        return "", []
    last_messages = as_said(messages[-1:])
    text = "\n".join(message.content for message in last_messages)
    try:
        room = max(0, memories.auto_recall_chars - FRAME_CHARS)
        lines, names = await memories.knowledge.unasked(
            text, room, memories.auto_recall_from, project
        )
    except StorageError as error:
        log.warning("notes could not be recalled: %s", error)
        return "", []
    if not lines:
        return "", []
    items: list[Line] = [{"id": name, "tier": "note"} for name in names]
    return marked(lines, memories.language([lines])), items


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the text for a new session. `tier`: the tier of its memories in the record of recalls."""

    heading: str
    tier: str
    memories: Sequence[ShortTermMemory]


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
    another session of this conversation in the folder `here`; and the items of these memories for the record of
    recalls. Empty if there are none. `given` as for `prompt_lines`."""
    pinned, last = left_off(
        await conversation.short_term.memories(),
        conversation_id=conversation.id,
        session=session,
        with_last=with_last,
        folder=here,
        now_ms=memories.services.clock(),
    )
    language = memories.language([memory.text for memory in (*pinned, *last)])
    pinned_heading, last_heading = _HEADINGS[language]
    possible_parts = (_Part(pinned_heading, "pinned", pinned), _Part(last_heading, "last", last))
    parts = [part for part in possible_parts if part.memories]
    if not parts:
        return "", []
    room = max(0, min(max_chars, BEGINNING_CHARS) - FRAME_CHARS)
    room_of_part = room // len(parts)
    texts: list[str] = []
    items: list[Line] = []
    for part in parts:
        room_of_lines = max(0, room_of_part - len(f"{part.heading}\n") - len("\n"))
        lines = memories.fitted_lines(
            memories=part.memories, max_chars=room_of_lines, given=given, here=here
        )
        if lines.text:
            texts.append(f"{part.heading}\n{lines.text}")
        shown = [memory for memory in part.memories if memory.id not in lines.without_room]
        items += [
            {"id": memory.id, "tier": part.tier, "chars": len(memory.text)} for memory in shown
        ]
    if not texts:
        return "", []
    return marked("\n".join(texts), language), items


async def other_words_asked(memories: Memories, conversation: Conversation, max_chars: int) -> str:
    """What the model of a new session is asked: to look again with other words. Empty where there is nothing to find,
    or no room for it."""
    stored_memories = await conversation.short_term.memories()
    if not stored_memories:
        return ""
    now_ms = memories.services.clock()
    newest = max(stored_memories, key=lambda memory: (memory.time_ms <= now_ms, memory.time_ms))
    sentence = OTHER_WORDS_ASKED[memories.language([newest.text])]
    if len(sentence) > max_chars:
        return ""
    return sentence


def left_off(
    memories: Iterable[ShortTermMemory],
    *,
    conversation_id: str,
    session: Session | None,
    with_last: bool = True,
    folder: str | None = None,
    now_ms: int = LAST_MS,
) -> tuple[list[ShortTermMemory], list[ShortTermMemory]]:
    """What `session` gets of the memories made in `conversation_id`, without those that it stored itself: the pinned
    ones and the last exchanges, both oldest first, without duplicates and without what is muted there. `with_last` is
    False if the session continues after a compaction: then it has its own summary. `folder`: where it works; the last
    exchanges are of that folder, because another one may be of another client. None: of any. A memory with a time after
    `now_ms` was made while a clock was wrong: it counts as the oldest, or it would be the last one for years."""
    session_id = None
    if session is not None:
        session_id = session.id
    places = muting_places(conversation_id, folder)
    own_memories = (memory for memory in memories if memory.conversation_id == conversation_id)
    candidates = [memory for memory in own_memories if places.isdisjoint(memory.muted)]
    candidates.sort(key=lambda memory: (memory.time_ms <= now_ms, memory.time_ms, memory.id))
    pinned: list[ShortTermMemory] = []
    last: list[ShortTermMemory] = []
    for memory in candidates:
        is_own = memory.session is not None and memory.session == session_id
        is_of_folder = folder is None or memory.folder == folder
        if memory.pinned:
            pinned.append(memory)
        elif is_of_folder and not is_own:
            last.append(memory)
    if not with_last:
        last = []
    return pinned[-MOST_PINNED:], last[-LAST_EXCHANGES:]
