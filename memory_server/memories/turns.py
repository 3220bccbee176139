"""Recall before each turn of a chat, and remember after it.

The hook, the commands for companions, and the toolset `turn` share this module.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from languages import _, counted
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.ports import Line
from memory_server.conversations.recall.passages import first_sentences
from memory_server.conversations.recall.plans import Plan
from memory_server.conversations.recall.prompt_lines import Reader
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.recall.selection import NOTHING_RECALLED, Recall
from memory_server.conversations.search import Found, muting_places
from memory_server.conversations.trigger_search import NOTHING_ACTIVATED, Activation
from memory_server.kernel.errors import StorageError, TriggersUnavailable
from memory_server.kernel.messages import MAX_NAME_CHARS, GivenMessage, Session, messages_of
from memory_server.kernel.readers import way
from memory_server.kernel.recalled_block import (
    FRAME_CHARS,
    OTHER_WORDS_ASKED,
    as_said,
    marked,
    one_line,
)
from memory_server.kernel.text import CHARS, Language, clipped, ideograph_count, unreadable
from memory_server.kernel.times import LAST_MS
from memory_server.kernel.values import frozen
from memory_server.knowledge.projects import Project
from memory_server.lore import LoreText, PromptFit, Room, Shelved, fitting, head_of
from memory_server.memories.memories import Call, Memories
from memory_server.memories.recalls import RecallOutput

_UNBOUNDED = 10_000_000
_NAME_CHARS = 60

_CHINESE_SHARE = 10
"""A text is Chinese if one character in so many is an ideograph."""


_QUICK_CHARS = 20_000
"""Characters of texts and names of which a block is made in about 4 ms."""


@frozen
class RecalledBlock:
    """The text of a recall, marked as recalled; empty if nothing was recalled. `fitting` says which memories with
    triggers are in it, and which are not. `without_room` are the ids of the recalled short-term memories that had no
    room."""

    text: str
    fitting: PromptFit
    without_room: frozenset[str]


def lore_text(shelved: Shelved, body: str, *, is_chinese: bool) -> LoreText:
    """Return the memory with the text `body`, in which macros are filled."""
    name = clipped(one_line(shelved.name), _NAME_CHARS, CHARS)
    head = head_of(name, is_chinese=is_chinese)
    return LoreText(shelved, head, one_line(body), shelved.version_key, is_chinese)


def recalled_block(
    memories: Memories,
    short_term: Found,
    activation: Activation,
    room: Room,
    reader: Reader = Reader(),
) -> RecalledBlock:
    """Write what was recalled, within `room`, which does not count the frame of the block. Add the keys of the texts
    and lines in the block to `reader.given`."""
    language = _language(memories, short_term, activation)
    reader = replace(reader, language=language)
    is_chinese = language == "zh"

    texts = [
        lore_text(shelved, shelved.memory.prompt, is_chinese=is_chinese)
        for shelved in activation.activated
    ]

    if room.lends and sum(text.chars for text in texts) > room.long_term:
        short_term_chars = _unbounded_chars(memories, short_term, reader)
        ignoring_chars = sum(text.chars for text in texts if text.entry.rules.ignores_budget)
        # Texts that ignore the budget may take the reserve too, so no more of it is lent than they leave over.
        needed_reserve = max(short_term_chars, min(ignoring_chars, room.ignoring_budget))
        room = room.with_lent_reserve(needed_reserve)

    # Memories with triggers take their room first; short-term memories get what they leave.
    fitted = fitting(texts, room, first_sentences, reader.given or ())
    if reader.given is not None:
        reader.given.update(text.key for text in fitted.texts)

    chars_left = room.total - fitted.chars
    short_term_lines = memories.lines(
        short_term.recall, reader=reader, max_chars=max(0, min(room.short_term, chars_left))
    )

    block_lines = [text.line for text in fitted.texts]
    if short_term_lines.text:
        block_lines.append(short_term_lines.text)
    block_text = "\n".join(block_lines)
    if block_text:
        block_text = marked(block_text, language)
    return RecalledBlock(block_text, fitted, short_term_lines.without_room)


def is_made_quickly(short_term: Found, activation: Activation) -> bool:
    """Return whether the block of this recall takes at most a few milliseconds, so that it needs no thread."""
    chars = len(activation.activated) * MAX_NAME_CHARS
    for shelved in activation.activated:
        chars += len(shelved.text)
    recall = short_term.recall
    for tier in (recall.top, recall.next, recall.flashback):
        chars += sum(len(recalled.memory.text) for recalled in tier)
    chars += sum(len(plan.memory.text) for plan in recall.due)
    return chars <= _QUICK_CHARS


def prompt_room(max_chars: int) -> Room:
    """Return the room of a prompt with so many characters, of which the frame of the block takes a part."""
    return Room.of(max(0, max_chars - FRAME_CHARS))


def _unbounded_chars(memories: Memories, short_term: Found, reader: Reader) -> int:
    """Count the characters of all recalled short-term memories without a limit."""
    if reader.given is not None:
        reader = replace(reader, given=set(reader.given))  # a copy, because `lines` adds to it
    lines = memories.lines(short_term.recall, reader=reader, max_chars=_UNBOUNDED)
    return len(lines.text) + len("\n") if lines.text else 0


def _language(memories: Memories, short_term: Found, activation: Activation) -> Language:
    """Return the readers' language; if it is not set, the language of what came. Texts of triggers count only if they
    are Chinese."""
    recall = short_term.recall
    texts: list[str] = []
    for tier in (recall.top, recall.next, recall.flashback):
        texts += [recalled.memory.text for recalled in tier]
    texts += [plan.message.content for plan in recall.due]
    prompts = "".join(shelved.memory.prompt for shelved in activation.activated)
    # A book in another language may spell a name in ideographs.
    if ideograph_count(prompts) * _CHINESE_SHARE >= len(prompts) > 0:
        texts.append(prompts)
    return memories.language(texts)


log = logging.getLogger(__name__)
MAX_CHARS = 7_200
"""Characters of a recalled block by default: the constants of six lorebooks in ten fit next to 1,800 characters of
what was said. It is seldom full, and a model pays only for what it is given."""
BEGINNING_CHARS = 800
"""Most characters of the text for a new session, which did not ask for it."""
MOST_PINNED = 8
"""Most pinned memories that a new session is shown, the newest: more would leave too little room for each."""
LAST_EXCHANGES = 2
"""Exchanges of the last session that a new session is shown."""
_HEADINGS: dict[Language, tuple[str, str]] = {
    "zh": ("置顶的记忆：", "上次说到："),
    "en": ("Pinned:", "Where you left off:"),
}
"""The headings of the pinned memories and of the last exchanges."""
_STEPS_TO_START = 10
"""Turns of the event loop that starting a worker process takes, if it is needed."""


@frozen
class TurnRecall:
    """The results of both searches. `trouble` says why triggers could not run, which conversations could not be read,
    or how many triggers had no time."""

    found: Found
    activation: Activation
    trouble: str | None = None


async def recall_for_turn(
    conversation: Conversation,
    request: RecallRequest,
    *,
    lore_room: int | None = None,
    given: Collection[str] = (),
) -> TurnRecall:
    """Recall what the messages bring to mind, of both kinds of memory. `lore_room` limits the characters of memories
    with triggers, and None means that no limit is known. `given` are the keys of texts that the session has. Raises
    InvalidInput if everything in the messages was recalled text, or if there are too many other words."""

    async def search_triggers() -> tuple[Activation, str | None]:
        """Run the triggers, and return what they activate, and why they could not run (None if they could)."""
        try:
            activation = await conversation.long_term.search(request, room=lore_room, given=given)
        except TriggersUnavailable as error:
            return NOTHING_ACTIVATED, str(error)
        return activation, None

    # Both searches run together: the triggers run in a worker process.
    trigger_search = asyncio.create_task(search_triggers())
    try:
        with_shared, _unread = await conversation.long_term.with_shared(request.also)
        # The worker gets ready in its own process while this one finds the words. But starting it needs the interpreter
        # lock, which finding the first words holds for a tenth of a second: so the worker is started first.
        if with_shared.triggers:
            for _step in range(_STEPS_TO_START):
                await asyncio.sleep(0)
        short_term = await conversation.short_term.search(request)
        activation, trouble = await trigger_search
    finally:
        # If the other search failed, its result is of no use.
        trigger_search.cancel()

    if trouble is None:
        trouble = _trouble_of(short_term, activation)
    return TurnRecall(short_term, activation, trouble)


def _trouble_of(short_term: Found, activation: Activation) -> str | None:
    """Return the sentence about conversations that could not be read, or else about triggers or texts of lorebook
    entries for which there was no time. Return None if all were read and evaluated."""
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
    conversation: Conversation, recollection: TurnRecall, block: RecalledBlock, *, by: str
) -> TurnRecall:
    """Count what was given, for cooldowns and similar rules. Return the recall with what could not be written."""
    trouble = await conversation.long_term.keep_firings(
        recollection.activation, block.fitting.came, by=by
    )
    if trouble is None:
        return recollection
    return replace(recollection, trouble=recollection.trouble or trouble)


@frozen
class TurnPrompt:
    """The text of a recall, both searches, and the block of what was recalled."""

    text: str
    recollection: TurnRecall
    block: RecalledBlock


async def turn_prompt(
    call: Call,
    conversation: Conversation,
    request: RecallRequest,
    room: Room,
    given: set[str] | None = None,
) -> TurnPrompt:
    """Recall for a prompt: the text is marked as recalled and put into the record of recalls; it is empty if nothing
    was recalled. What came is counted for cooldowns if the request wants it. `given` are the keys of texts that the
    session was given before and still sees; the keys of this text are added. Raises InvalidInput if everything in the
    messages was recalled text."""
    lore_room = room.total if room.lends else room.long_term
    recollection = await recall_for_turn(
        conversation, request, lore_room=lore_room, given=given or ()
    )

    search = recollection.found
    activation = recollection.activation
    reader = Reader(folder=request.folder, given=given)
    make_block = partial(recalled_block, call.memories, search, activation, room, reader)

    if is_made_quickly(search, activation):
        block = make_block()
    else:
        # A long block would hold up all other calls of the server.
        block = await asyncio.to_thread(make_block)

    if request.counts:
        recollection = await keep_firings(conversation, recollection, block, by=request.by)

    notes, items = await noted_block(call.memories, request.messages, call.project)
    prompt = "\n".join(filter(None, (block.text, notes)))
    call.note(output_of_turn(block, recollection, conversation.id, request, prompt, items))
    return TurnPrompt(prompt, recollection, block)


def output_of_turn(
    block: RecalledBlock,
    recollection: TurnRecall,
    conversation_id: str,
    request: RecallRequest,
    text: str,
    others: Sequence[Line] = (),
) -> RecallOutput:
    """Return what the record of recalls needs of a turn: its messages, the text that was given, and
    what that text has of the recall."""
    return RecallOutput(
        conversation_id,
        messages_of(request.messages),
        text,
        recollection.found.recall,
        recollection.activation,
        others=others,
        fitting=block.fitting,
        without_room=block.without_room,
    )


async def noted_block(
    memories: Memories, messages: Sequence[GivenMessage], project: Project | None = None
) -> tuple[str, list[Line]]:
    """Recall notes and entries of layers for the last message. Return their text, marked as recalled, and their items
    for the record of recalls; both are empty if nothing is recalled, nothing may be given unasked, or the store
    fails, which the log says. `project` as in `Notes`."""
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
        # A prompt is worth more than its notes, so the turn goes on without them.
        log.warning("notes could not be recalled: %s", error)
        return "", []

    if not lines:
        return "", []
    items: list[Line] = [{"id": name, "tier": "note"} for name in names]
    return marked(lines, memories.language([lines])), items


@frozen
class _Part:
    """A part of the text for a new session. `tier` is the tier of its memories in the record of recalls. `recall` is
    the search that found them, or None."""

    heading: str
    tier: str
    memories: Sequence[ShortTermMemory]
    recall: Recall | None = None


class BeginningBlock(NamedTuple):
    """What a session gets as it begins: the `text`, marked as recalled and empty if there is nothing; the `items` of its
    memories for the record of recalls; and the keys of what was `given`, as for `prompt_lines`."""

    text: str = ""
    items: Sequence[Line] = ()
    given: Collection[str] = ()


async def beginning_block(
    memories: Memories,
    conversation: Conversation,
    *,
    session: Session | None,
    with_last: bool,
    max_chars: int = MAX_CHARS,
    here: str | None = None,
    plans: tuple[Plan, ...],
) -> BeginningBlock:
    """Return what `session` gets as it begins: `plans` for today, pinned memories and, `with_last`, the last
    exchanges of another session of this conversation in the folder `here`; empty if there is nothing of these, or no
    room."""
    pinned, last = left_off(
        await conversation.short_term.memories(),
        conversation_id=conversation.id,
        session=session,
        with_last=with_last,
        folder=here,
        now_ms=memories.services.clock(),
    )

    of_plans = [plan.memory for plan in plans]
    language = memories.language([memory.text for memory in (*of_plans, *pinned, *last)])
    pinned_heading, last_heading = _HEADINGS[language]

    possible_parts = (
        _Part("", "plan", of_plans, replace(NOTHING_RECALLED, due=plans)),
        _Part(pinned_heading, "pinned", pinned),
        _Part(last_heading, "last", last),
    )
    parts = [part for part in possible_parts if part.memories]
    if not parts:
        return BeginningBlock()

    room = max(0, min(max_chars, BEGINNING_CHARS) - FRAME_CHARS)
    given: set[str] = set()
    room_of_part = room // len(parts)
    texts: list[str] = []
    items: list[Line] = []

    for part in parts:
        room_of_lines = max(0, room_of_part - len(f"{part.heading}\n") - len("\n"))
        reader = Reader(language=language, folder=here, given=given)
        of_no_search = part.memories if part.recall is None else ()
        lines = memories.lines(part.recall, of_no_search, reader=reader, max_chars=room_of_lines)
        if lines.text:
            texts.append("\n".join(filter(None, (part.heading, lines.text))))
        shown = [memory for memory in part.memories if memory.id not in lines.without_room]
        items += [
            {"id": memory.id, "tier": part.tier, "chars": len(memory.text)} for memory in shown
        ]

    if not texts:
        return BeginningBlock()
    return BeginningBlock(marked("\n".join(texts), language), items, given)


async def other_words_asked(
    memories: Memories, conversation: Conversation, max_chars: int, here: str | None
) -> str:
    """Return the request to the model of a new session to search again with other words, in the language of what was
    said last in the folder `here`, or else anywhere. It is empty if there is nothing to find, or no room for it."""
    stored_memories = await conversation.short_term.memories()
    if not stored_memories:
        return ""
    now_ms = memories.services.clock()
    newest = max(
        stored_memories,
        key=lambda memory: (
            here is not None and memory.folder == here,
            memory.time_ms <= now_ms,
            memory.time_ms,
        ),
    )
    sentence = OTHER_WORDS_ASKED[memories.language([newest.text])]
    return sentence if len(sentence) <= max_chars else ""


def left_off(
    memories: Iterable[ShortTermMemory],
    *,
    conversation_id: str,
    session: Session | None,
    with_last: bool = True,
    folder: str | None = None,
    now_ms: int = LAST_MS,
) -> tuple[list[ShortTermMemory], list[ShortTermMemory]]:
    """Return what `session` gets of the memories made in `conversation_id`, without its own: the pinned ones and the
    last exchanges, both oldest first, without duplicates and without memories that are muted there. `with_last` is
    False if the session continues after a compaction: then it has its own summary. The last exchanges are from
    `folder`, where the session works, because another folder may belong to another client, and None means any folder. A
    memory with a time after `now_ms` was made while a clock was wrong: it counts as the oldest, or it would be the
    last exchange for years."""
    session_id = session and session.id
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
        elif with_last and is_of_folder and not is_own:
            last.append(memory)

    return pinned[-MOST_PINNED:], last[-LAST_EXCHANGES:]
