"""The toolset `short-term`: exchanges that fade, which are stored, searched and deleted. Names of arguments and results
are the Node original's, so that its users can switch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from memory_server.conversations.conversation import Conversation
from memory_server.conversations.found import Found
from memory_server.conversations.recall.order import Recalled
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.recall.why import OtherPoints, joined_words, reason
from memory_server.conversations.recall.words import spelling_of
from memory_server.kernel.errors import StorageError
from memory_server.kernel.other_words import private_words_note
from memory_server.kernel.recalled_block import FRAME_CHARS, marked
from memory_server.kernel.text import unreadable
from memory_server.kernel.times import MINUTE_MS
from memory_server.memories.memories import Call
from memory_server.memories.recalls import Given
from memory_server.tools.base.result import ChangeId, From, Result, shell_command
from memory_server.tools.base.shapes import (
    ConversationId,
    CurrentMessages,
    KeptWords,
    Messages,
    OtherWords,
    Regex,
    RoleWeights,
    Text,
    between,
)
from memory_server.tools.base.tool import tool
from memory_server.tools.short_term_results import (
    SHOWN_KEYWORDS,
    CleanupResult,
    DeleteResult,
    HeldBackCounts,
    Item,
    ReinforcedIn,
    SearchResult,
    StatsResult,
)
from nlp import says_little
from nlp.grams import FUNCTION_CHARACTERS
from sandbox.locale import _, counted, joined, n_, said_in

_PACKAGE = str(Path(__file__).parents[1])
_HINTED_WORDS = 3
"""Words that a search for removed memories uses."""


class AddResult(Result):
    success: bool
    id: Annotated[str, From("memory.id")]
    totalMemories: Annotated[int, From("total")]
    changeId: ChangeId = None
    note: str | None = Field(None, description="Which other words were left out, and why")

    def __str__(self) -> str:
        done = remembered_text(self.id, self.totalMemories, stored=self.changeId is not None)
        return joined(" ", filter(None, (done, self.note)))


@tool(
    title="Remember this exchange",
    description=(
        "Remember a stretch of the conversation: give the last few messages after each meaningful exchange. "
        "It is found again by its words. With age its relevance falls, unless it is recalled, and in the end it is "
        "cleaned up. "
        "For a fact that must come up under a condition, use add_long_term_memory."
    ),
    always_loaded=True,
)
async def add_short_term_memory(
    call: Call,
    messages: Messages,
    otherWords: KeptWords = [],
    conversation_id: ConversationId = None,
    roleWeights: Annotated[
        RoleWeights | None, "Keyword weight per role; usually user 2.7, assistant 2, system 1"
    ] = None,
) -> AddResult:
    stored = await call.conversations.get(conversation_id).short_term.add(
        messages,
        role_weights=RoleWeights.of(roleWeights),
        other_words=otherWords,
        session=call.session,
        folder=call.folder,
        by="add_short_term_memory",
    )
    return AddResult.of(stored, success=True, note=private_words_note(stored.private_words))


def remembered_text(memory_id: str, total: int, *, stored: bool) -> str:
    """A sentence on what was done; not `stored`: the same was stored before."""
    done = _("Remembered as {memory}", memory_id) if stored else _("Stored before, as {memory}", memory_id)
    return _("{done}; {number} in this conversation.", done, counted(total, "memory"))


@tool(
    title="Recall related memories",
    description=(
        "Recall what earlier exchanges have to do with the current messages: call it before you answer. "
        "Gives the most relevant (5 for a question, else 3 and 2 by chance), each with why; `weak` ones share little. "
        "What it recalls is reinforced. "
        "What this session stored in the last 20 minutes is usually held back."
    ),
    always_loaded=True,
    reinforces=True,
    recalls=True,
)
async def search_short_term_memories(
    call: Call,
    recentMessages: CurrentMessages,
    otherWords: OtherWords = [],
    conversation_id: ConversationId = None,
    roleWeights: RoleWeights | None = None,
    scope: Annotated[Text | None, "`all`, or a group of conversations"] = None,
    reinforce: Annotated[bool, "false: no trace"] = True,
    maxBytes: Annotated[int | None, between(200, 100_000, "bytes"), "Answer in lines for a prompt, this long"] = None,
) -> SearchResult:
    conversation = call.conversations.get(conversation_id)
    found = await conversation.short_term.search(
        recentMessages,
        role_weights=RoleWeights.of(roleWeights),
        other_words=otherWords,
        scope=scope,
        reinforce=reinforce,
        session=call.session,
        asked=maxBytes is None,  # lines for a prompt are for those who did not ask
        by="search_short_term_memories",
    )
    result = search_result(call, conversation.id, found, maxBytes)
    if told := await archive_note(conversation, found.recall):
        result = result.model_copy(update={"note": joined(" ", filter(None, (result.note, told)))})
    call.note(Given(conversation.id, recentMessages, result, found.recall))
    return result


async def archive_note(conversation: Conversation, recall: Recall) -> str | None:
    """If nothing relevant came to mind: a sentence on matching memories in the archive. None if there are none, if an
    overview was asked for, or if the archive cannot be read."""
    if _came(recall) or recall.query.overview is not None:
        return None
    try:
        gone = await conversation.archive.recall(recall.query)
    except StorageError:
        return None  # the search itself was answered
    came = (*gone.top, *gone.next)
    if not came:
        return None
    words = " ".join(_heaviest(came[:1])[:_HINTED_WORDS])
    command = shell_command(conversation.id, "search", "--archived", words)
    verb = _("it was") if len(came) == 1 else _("they were")
    return _(
        "The archive has {memories} that would match; {verb} forgotten or deleted: `{command}` shows them.",
        counted(len(came), "memory"),
        verb,
        command,
    )


def search_result(call: Call, conversation_id: str, found: Found, line_bytes: int | None = None) -> SearchResult:
    """What a search in `conversation_id` found, with prompt lines if `line_bytes` is given."""
    recall = found.recall
    notes = _notes(found, conversation_id, call.memories.services.parameters.recall)
    only_here = found.changes.keys() <= {conversation_id}
    changes = [ReinforcedIn(conversation_id=name, changeId=made) for name, made in found.changes.items()]
    lines = (
        None
        if line_bytes is None
        else call.memories.lines(recall, max_bytes=line_bytes - FRAME_CHARS, here=call.folder)
    )

    came = (*recall.top, *recall.next, *recall.flashback)
    language = call.memories.language([each.memory.text for each in came])

    def item(each: Recalled, tier: str) -> Item:
        memory, shared = each.memory, {word.word: word.points for word in each.receipt.words_shared}
        words = joined_words(memory.text, _telling(shared) or shared)
        heaviest, receipt = max(words.values(), default=1.0), each.receipt
        spelt = spelling_of(memory)
        others = OtherPoints(
            given={spelt(word.word): word.points for word in receipt.words_given},
            kept={spelt(word.word): word.points for word in receipt.words_kept},
        )
        why = reason(
            tier, words, heaviest, receipt.around, zh=language == "zh", overview=receipt.overview, others=others
        )
        return Item.of(
            each,
            keptIn=None if each.kept_in == conversation_id else each.kept_in,
            folder=None if call.folder in (None, memory.folder) else memory.folder,
            matched=sorted(words, key=lambda word: -words[word])[:SHOWN_KEYWORDS],
            why=receipt.line(spelt),
            reason=said_in(why, language, _PACKAGE),
        )

    result = SearchResult(
        topRelevant=[item(each, "top") for each in recall.top],
        nextRelevant=[item(each, "next") for each in recall.next],
        randomFlashback=[item(each, "flashback") for each in recall.flashback],
        heldBack=HeldBackCounts.of(recall.held_back),
        totalSearched=recall.searched,
        note=joined(" ", notes) or None,
        changeId=found.change_id if only_here else None,
        changes=None if only_here else changes,
        lines=marked(lines, language) if lines else lines,
    )
    result._sought = _heaviest(came)
    return result


def _telling(shared: Mapping[str, float]) -> dict[str, float]:
    """Without function words, pairs with a function word such as 的牙, and single characters."""
    return {
        word: points
        for word, points in shared.items()
        if (len(word) > 1 or word.isascii())
        and not says_little(word.lower())
        and (len(word) != 2 or word.isascii() or FUNCTION_CHARACTERS.isdisjoint(word))
    }


def _came(recall: Recall) -> bool:
    """Whether a memory came that would come unasked too."""
    return any(not item.weak for item in (*recall.top, *recall.next))


def _heaviest(recalled: Iterable[Recalled]) -> tuple[str, ...]:
    """The words that the messages and these memories share, the heaviest first."""
    shared = [word for item in recalled for word in item.receipt.words_shared]
    shared.sort(key=lambda word: -word.points)
    kept: list[str] = []
    for word in (matched.word for matched in shared):
        # A character of a word that is listed already adds nothing, and neither does a pair from the ends of two words.
        pair = len(word) == 2 and not word.isascii()
        if not (any(word in longer for longer in kept) or (pair and set(word) <= set("".join(kept)))):
            kept.append(word)
    return tuple(kept)


def _notes(found: Found, own: str, parameters: RecallParameters) -> list[str]:
    """What went wrong in a search of the conversation `own`, and why nothing came."""
    notes, recent, outdated = [], found.recall.held_back.recent, found.outdated
    if private := private_words_note(found.recall.query.private_words):
        notes.append(private)
    if found.unreinforced == (own,):
        notes.append(_("No memory was reinforced, because the conversation could not be written."))
    elif found.unreinforced:
        names = ", ".join(found.unreinforced)
        notes.append(
            _("Not all memories were reinforced, because these conversations could not be written: {names}.", names)
        )
    if found.unread:
        notes.append(unreadable(found.unread))
    if found.only_words:
        notes.append(_("Searched by words only: {only_words}.", found.only_words))
    if outdated:
        notes.append(
            n_(
                "{count} memory has words that older settings found, so some may be missed; "
                "`memory-server doctor --reindex` finds them again.",
                "{count} memories have words that older settings found, so some may be missed; "
                "`memory-server doctor --reindex` finds them again.",
                outdated,
            )
        )
    if _came(found.recall):
        return notes
    if not found.recall.searched:
        return [*notes, _("Nothing is stored yet in what was searched.")]
    if held := found.recall.held_back.in_context:
        told = n_("{count} memory is held back", "{count} memories are held back", held)
        notes.append(_("{held_back}: these messages, or this session, have it already.", told))
    if not recent:
        but = _(" Those that share something are marked as weak.") if found.recall.top or found.recall.next else ""
        return [*notes, _("No memory shares enough words with these messages.{but}", but)]
    held_back = n_(
        "{count} memory of this conversation is held back",
        "{count} memories of this conversation are held back",
        recent,
    )
    return [
        *notes,
        _(
            "{held_back}: younger than {own_conversation:g} minutes.",
            held_back,
            parameters.own_conversation_ms / MINUTE_MS,
        ),
    ]


@tool(
    title="Forget matching memories",
    description="Delete the short-term memories whose text holds a word or matches a regular expression.",
    search_hint="forget, remove, erase what was said",
    destructive=True,
    idempotent=True,
)
async def delete_short_term_memories(
    call: Call,
    pattern: Regex,
    conversation_id: ConversationId = None,
    dry_run: Annotated[bool, "Only count"] = False,
) -> DeleteResult:
    manager = call.conversations.get(conversation_id).short_term
    removed = await manager.delete(pattern, dry_run=dry_run, by="delete_short_term_memories")
    return DeleteResult.of(removed, dryRun=dry_run or None)


@tool(
    title="Memory statistics",
    description="Number, scores and dates of the short-term memories of a conversation.",
    read_only=True,
)
async def get_memory_stats(call: Call, conversation_id: ConversationId = None) -> StatsResult:
    return StatsResult.of(await call.conversations.get(conversation_id).short_term.statistics())


@tool(
    title="Forget faded memories",
    description="Forget what has faded, beyond 20,000 memories (usually). Happens daily by itself.",
    destructive=True,
    idempotent=True,
)
async def cleanup_memories(call: Call, conversation_id: ConversationId = None) -> CleanupResult:
    manager = call.conversations.get(conversation_id).short_term
    return CleanupResult.of(await manager.clean_up(by="cleanup_memories"))


class FrequentResult(Result):
    conversation_id: str | None = None

    def __str__(self) -> str:
        if self.conversation_id is None:
            return _("Nothing is stored yet.")
        return _("Most memories are in `{conversation}`.", self.conversation_id)


@tool(
    title="Most frequent conversation",
    description="The conversation with the most short-term memories.",
    read_only=True,
)
async def get_frequent_conversation(call: Call) -> FrequentResult:
    return FrequentResult(conversation_id=await call.conversations.most_frequent())
