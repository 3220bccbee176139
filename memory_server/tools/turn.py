"""The toolset `turn`: recall before a turn, remember after it, and forget; all three are offered by default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from languages import N_, _, joined
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.services import OWN
from memory_server.conversations.short_term import Origin
from memory_server.kernel.errors import InvalidInput, MemoryPaused, NothingToKeep
from memory_server.kernel.items import OF_CONVERSATIONS, Item, ItemFilter
from memory_server.kernel.messages import Message, said_beginning
from memory_server.kernel.other_words import private_words_note
from memory_server.kernel.private import calls_forget
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import MINUTE_MS, iso
from memory_server.kernel.values import frozen
from memory_server.knowledge.sessions.ids import NOBODY
from memory_server.lore import ROOM, no_room_text
from memory_server.memories import forgetting
from memory_server.memories.memories import Call
from memory_server.memories.turns import MAX_CHARS, prompt_room, turn_prompt
from memory_server.tools import long_term, short_term
from memory_server.tools.base.result import From, Result, sentences
from memory_server.tools.base.shapes import (
    ConversationId,
    CorrectedIds,
    CurrentMessages,
    KeptWords,
    Messages,
    OtherWordsArgument,
    Participants,
    SessionName,
    Text,
    between,
)
from memory_server.tools.base.tool import FOR_PROGRAMS, tool
from nlp.index_terms import index_form
from sandbox import MOST_MESSAGES, message_rows

_MOST_ALSO = 20
"""Conversations that a recall can name beside its own: a group, its members, a persona."""
_MOST_TURNS = 10_000
"""Turns of other conversations that belong to a chat, because they are before its branch."""


def _not_too_many_turns(value: dict[str, list[str]]) -> dict[str, list[str]]:
    """Check `alsoTurns`: for conversations that a recall searches too, the only turns of each that
    may come. Raise ValueError if there are too many."""
    turns = sum(map(len, value.values()))
    if len(value) > _MOST_ALSO or turns > _MOST_TURNS:
        raise ValueError(
            _(
                "it names {conversations:,} conversations and {turns:,} turns; give at most {most:,} and {most_turns:,}",
                len(value),
                turns,
                _MOST_ALSO,
                _MOST_TURNS,
            )
        )
    return value


class RecallResult(Result):
    prompt: str = Field(
        description="What came to mind, ready for the prompt; empty where nothing did"
    )
    shortTerm: short_term.SearchResult = Field(description="As search_short_term_memories gives it")
    longTerm: long_term.TurnResult = Field(
        description="Which triggers fired; their texts are in `prompt`"
    )
    note: str | None = Field(
        None, description="Why triggers could not run, or what the archive would have"
    )

    whole_field = "prompt"

    def query_words(self) -> Sequence[str]:
        return self.shortTerm.query_words()

    def __str__(self) -> str:
        nothing = self.shortTerm.note or _("Nothing came to mind.")
        without_room = [memory.name for memory in self.longTerm.leftOut if memory.reason == ROOM]
        return "\n".join(
            filter(None, (self.prompt or nothing, no_room_text(without_room), self.note))
        )


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
    otherWords: OtherWordsArgument = [],
    conversation_id: ConversationId = None,
    participants: Participants = None,
    maxChars: Annotated[int, between(200, 50_000, "characters"), "Length of `prompt`"] = MAX_CHARS,
    session: SessionName = None,
    also: Annotated[
        list[Text], Field(max_length=_MOST_ALSO), FOR_PROGRAMS, "Conversations searched too"
    ] = [],
    alsoTurns: Annotated[
        dict[Text, list[Text]],
        AfterValidator(_not_too_many_turns),
        FOR_PROGRAMS,
        "Of a conversation in `also` only these turns: those before a branch",
    ] = {},
    flashbacks: Annotated[
        int, Field(ge=0, le=100), FOR_PROGRAMS, "Memories of each kind by chance"
    ] = 0,
    reinforce: Annotated[bool, FOR_PROGRAMS, "false: no trace"] = True,
    messageCount: Annotated[
        int | None, Field(ge=0, le=MOST_MESSAGES), FOR_PROGRAMS, "Messages of the chat"
    ] = None,
) -> RecallResult:
    call = call.in_session(session)
    request = RecallRequest(
        messages,
        other_words=otherWords,
        participants=participants or {},
        also=[call.conversations.get(name).id for name in also],
        also_turns={call.conversations.get(name).id: turns for name, turns in alsoTurns.items()},
        session=call.session,
        folder=call.folder,
        flashbacks=flashbacks,
        # A client sends what it has in its context.
        said_again=False,
        message_count=messageCount,
        reinforce=reinforce,
        counts=reinforce,
        plans=reinforce and call.memories.plans is not False,
        by="recall_turn",
    )

    call = call.in_zone(request.timezone)
    conversation = call.conversations.get(conversation_id)
    turn = await turn_prompt(call, conversation, request, prompt_room(maxChars))

    recollection = turn.recollection
    notes = (
        _paused_note(call),
        recollection.trouble,
        await short_term.archive_note(conversation, recollection.found.recall),
    )

    return RecallResult(
        prompt=turn.text,
        shortTerm=short_term.search_result(call, conversation.id, recollection.found),
        longTerm=long_term.turn_result(recollection.activation, turn.block.fitting),
        note=sentences(*notes) or None,
    )


def _paused_note(call: Call) -> str | None:
    services = call.memories.services
    pause = services.paused()
    if pause is None:
        return None
    return _("Memory is {state}.", pause.text(services.zone))


_KEPT_OUT = {"role": "user", "content": "<private>what was asked to be forgotten</private>"}


def _unless_forgetting(messages: Any) -> Any:
    """Return the messages as they came, or a placeholder if any of them calls `forget`: what such a call names must not
    be stored."""
    rows = message_rows(messages)
    if isinstance(rows, list) and any(map(calls_forget, rows)):
        return [_KEPT_OUT]
    return messages


_SAME_TURN_MS = 10 * MINUTE_MS


def _asks_to_forget(call: Call, messages: Sequence[Message]) -> bool:
    """Return whether these messages are of the turn in which this session called `forget`: soon after it, with its
    words. Only the first messages after a call are compared with it."""
    words, at_ms = call.memories.forgotten.pop(call.session_id, ((), 0))
    is_soon_after = abs(call.memories.services.clock() - at_ms) < _SAME_TURN_MS
    if not words or not is_soon_after:
        return False
    text = index_form("\n".join(message.content for message in messages))
    return all(index_form(word) in text for word in words)


class RememberResult(Result):
    success: bool
    id: Annotated[str | None, From("memory.id", words="Left out where nothing is kept")] = None
    stored: bool = Field(description="false: this turn was stored before, or may not be kept")
    replaced: bool | None = Field(None, description="true: in place of what this turn was before")
    totalMemories: Annotated[int | None, From("total")] = None
    changeId: str | None = None
    note: str | None = Field(None, description="Why nothing, or less, is kept")

    def __str__(self) -> str:
        if self.id is None or self.totalMemories is None:
            return self.note or ""
        sentence = short_term.remembered_text(self.id, self.totalMemories, stored=self.stored)
        return sentences(sentence, self.note)


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
    messages: Annotated[
        Messages, BeforeValidator(_unless_forgetting), "What was said since the last call"
    ],
    otherWords: KeptWords = [],
    conversation_id: ConversationId = None,
    turn_id: Annotated[
        Text | None, Field(min_length=1, max_length=200), "A turn is kept once, as it was last"
    ] = None,
    session: SessionName = None,
    corrects: CorrectedIds = [],
) -> RememberResult:
    call = call.in_session(session)
    conversation = call.conversations.get(conversation_id)

    if _asks_to_forget(call, messages):
        note = _("In this turn something was forgotten, so nothing of it is kept.")
        # The model tells in its answer what was forgotten, which would bring it back.
        return RememberResult(success=True, stored=False, note=note)

    try:
        added = await conversation.short_term.add(
            messages,
            other_words=otherWords,
            origin=Origin(turn_id, replaces=True, session=call.session, folder=call.folder),
            corrects=corrects,
            by="remember_turn",
        )
    except (MemoryPaused, NothingToKeep) as error:
        return RememberResult(success=True, stored=False, note=str(error))

    return RememberResult.of(
        added,
        success=True,
        stored=added.change_id is not None,
        replaced=added.replaced or None,
        note=private_words_note(added.private_words),
    )


_MOST_SHOWN = 50
_FORGETS = ("memories", "triggers", "notes", "refs")
"""What a model may forget: facts of users and entries of layers are others' too, and have tools of their own."""


_NOT_SEARCHED = N_(
    "What is kept of the past was not searched: only the user erases that, by `memory-server forget WORDS --for-good`."
)


class ForgetRow(Result):
    id: str
    family: str = Field(description="`memories`, `triggers`, `notes` or `refs`")
    at: Annotated[str, From("at_ms", iso, "When it was said or changed")]
    text: Annotated[str, From(form=said_beginning, words="Its beginning")]
    turn: Annotated[str | None, From(words="What its client calls the turn")] = None


class OtherPlace(Result):
    what: str = Field(description="What is kept there")
    count: int


class ForgetResult(Result):
    found: int = Field(description="How many there are")
    items: Annotated[list[ForgetRow], Field(description="The newest of them")]
    forgotten: bool = Field(description="false: nothing was changed yet")
    changeId: str | None = Field(None, description="Brings all of it back: `memory-server undo ID`")
    note: str | None = Field(None, description="What was not searched")
    alsoIn: list[OtherPlace] = Field(
        default_factory=list, description="Where the words stay, which is the user's"
    )

    def __str__(self) -> str:
        """Say what was or would be forgotten, and where else the words stand."""
        if not self.alsoIn:
            return self._told()
        places = joined(
            ", ", (_("{what}: {count}", _(place.what), place.count) for place in self.alsoIn)
        )
        sentence = _(
            "The words also stand elsewhere ({places}). Of other conversations, call again with conversation_id; all "
            "else the user forgets by `memory-server forget WORDS`.",
            places,
        )
        return "\n".join([self._told(), sentence])

    def _told(self) -> str:
        """Describe what was or would be forgotten, or that nothing was found."""
        if not self.found and self.alsoIn:
            return _("Nothing that this call may forget has these words.")
        if not self.found:
            none = _(
                "No memory, trigger, note or ref in use has these words or ids; try fewer or other words."
            )
            return " ".join([none, self.note or _(_NOT_SEARCHED)])
        if self.forgotten:
            heading = _("Forgotten; `memory-server undo {change}` brings it back:", self.changeId)
        else:
            heading = _(
                "This would go; call again with confirm: true if all of it is meant, else with ids:"
            )
        lines = [f"- {one_line(item.id)} {one_line(item.text)}" for item in self.items]
        return "\n".join([heading, *lines])


@tool(
    title="Forget",
    description=(
        "Forget what the user wants forgotten. Without `confirm` it only says what would go. A turn that calls it is "
        "not stored."
    ),
    destructive=True,
    idempotent=True,
)
async def forget(
    call: Call,
    words: Annotated[Text | None, "All of them are in what is meant"] = None,
    ids: Annotated[list[Text], "Instead of words: ids of memories or turns"] = [],
    said_in: Annotated[
        Text | None, FOR_PROGRAMS, "Instead of words: what this session said"
    ] = None,
    conversation_id: ConversationId = None,
    confirm: Annotated[bool, "Forget it"] = False,
) -> ForgetResult:
    has_words = bool(words and words.strip())
    if bool(ids) + has_words + bool(said_in) != 1:
        raise InvalidInput(
            "Give either words that it holds, or ids, or said_in; then nothing else is forgotten."
        )

    # What is shown first has whole ids. A beginning may be of another memory than the caller knows of.
    sought = ItemFilter(
        ids=tuple(ids), words=tuple((words or "").split()), session=said_in, whole_ids=confirm
    )

    matches = await _matches(call, sought, conversation_id)
    if confirm:
        await _refuse_vague(call, sought, conversation_id, matches=matches)

    change = None
    if confirm and matches.items:
        change = await forgetting.forget(call.memories.engines, matches.items)

    if sought.words:
        # The turn of this call must not be stored: it has the words.
        call.memories.forgotten[call.session_id] = sought.words, call.memories.services.clock()

    notes = [await _note_on_staying(call, sought, conversation_id)]
    if not matches.items:
        notes.append(_(_NOT_SEARCHED))

    also_in: list[OtherPlace] = []
    if sought.words:
        also_in = [
            OtherPlace(what=name, count=count) for name, count in sorted(matches.elsewhere.items())
        ]

    return ForgetResult(
        found=len(matches.items),
        items=ForgetRow.each(matches.items[:_MOST_SHOWN]),
        forgotten=change is not None,
        changeId=change,
        note=sentences(*notes) or None,
        alsoIn=also_in,
    )


async def _refuse_vague(
    call: Call, sought: ItemFilter, conversation_id: str | None, *, matches: _Matches
) -> None:
    """Raise InvalidInput if it is not certain that the caller means just these items: only
    beginnings of ids match, or the words match more than `_MOST_SHOWN`."""
    if sought.ids and not matches.items:
        by_beginnings = await _matches(call, replace(sought, whole_ids=False), conversation_id)
        if by_beginnings.items:
            raise InvalidInput(
                "Give whole ids to forget; without confirm: true, beginnings show which ones are meant."
            )
    if sought.words and len(matches.items) > _MOST_SHOWN:
        raise InvalidInput(
            "{count} memories have these words; give more words, or the ids of those meant.",
            len(matches.items),
        )


async def _note_on_staying(call: Call, sought: ItemFilter, conversation_id: str | None) -> str:
    """Return sentences on the memories that have the words only as other words, and stay; empty without such memories."""
    kept_with = await forgetting.beside(
        call.memories.engines, sought.words, replace(sought, words=())
    )
    if conversation_id is not None:
        kept_with = [item for item in kept_with if item.place == conversation_id]
    return forgetting.beside_text(kept_with)


def _user_of(call: Call) -> str | None:
    """Return whose call this is, as its headers or its session say, or None for the owner's, as over standard input."""
    try:
        caller = call.memories.knowledge.sessions.caller(NOBODY, call.wire)
    except InvalidInput:
        return None
    if caller.sources.get("user_id") not in ("header", "session"):
        return None
    return caller.user_id


_NAMES_ELSEWHERE = dict(
    zip(
        OF_CONVERSATIONS,
        N_(("memories of other conversations", "triggers of other conversations")),
        strict=True,
    )
)
"""What `alsoIn` calls the families of conversations."""


@frozen
class _Matches:
    """What a call of `forget` asks for."""

    items: list[Item]
    """The items that this call may forget, newest first."""
    elsewhere: Counter[str]
    """How many others there are, by what they are."""


async def _matches(call: Call, sought: ItemFilter, conversation_id: str | None) -> _Matches:
    """Find the items that are sought: those that this call may forget, newest first, and how many others there are by
    kind. If it is known whose call this is, facts of other users are not counted, so that no user learns what another
    user has."""
    usual = call.conversations.get(conversation_id).id
    everywhere = conversation_id is None and call.memories.services.scope != OWN

    def is_within_reach(item: Item) -> bool:
        """Tell whether this call may forget an item."""
        if item.family not in _FORGETS:
            return False
        is_knowledge = conversation_id is None and item.family not in OF_CONVERSATIONS
        return everywhere or item.place == usual or is_knowledge

    items: list[Item] = []
    others: list[Item] = []
    for engine in call.memories.engines:
        for item in await engine.find(sought):
            if is_within_reach(item):
                items.append(item)
            else:
                others.append(item)
    if any(item.family == "sessions" for item in others):
        # The count alone would tell one user what another has.
        user = _user_of(call)
        if user is not None:
            own = f"sessions/{user}"
            others = [item for item in others if item.family != "sessions" or item.place == own]

    elsewhere = Counter(_NAMES_ELSEWHERE.get(item.family, item.family) for item in others)
    items.sort(key=lambda item: -item.at_ms)

    return _Matches(items, elsewhere)
