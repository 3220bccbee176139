"""The toolset `short-term`. Argument and result names are the Node original's, so that its users can switch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field, PrivateAttr

from memory_server.core.errors import StorageError
from memory_server.core.phrases import unreadable
from memory_server.managers.context import Context
from memory_server.managers.conversations import Conversation
from memory_server.managers.search import Found
from memory_server.recall.parameters import MINUTE_MS, RecallParameters
from memory_server.recall.recalled_block import FRAME_CHARS, marked
from memory_server.recall.result import HeldBack, Recall, Recalled
from memory_server.tools.base.shapes import (
    ChangeId,
    ConversationId,
    Messages,
    RoleWeights,
    Text,
    counted,
    messages_of,
    role_weights_of,
    shell_command,
    time_text,
    undo_hint,
)
from memory_server.tools.base.tool import Arguments, Result, Tool

SHOWN_KEYWORDS = 10
"""Keywords shown with a result (the Node original's number); all 72 would drown it."""
MAX_PATTERN_CHARS = 1_000
_HINTED_WORDS = 3
"""Words by which a removed memory is looked for."""


class AddArguments(Arguments):
    messages: Messages
    conversation_id: ConversationId = None
    roleWeights: RoleWeights | None = Field(
        None, description="Keyword weight per role; usually user 2.7, assistant 2, system 1"
    )


class AddResult(Result):
    success: bool
    id: str
    totalMemories: int
    changeId: ChangeId = None


async def _add(context: Context, arguments: AddArguments) -> AddResult:
    stored = await context.conversations.get(arguments.conversation_id).short_term.add(
        messages_of(arguments.messages), role_weights=role_weights_of(arguments.roleWeights), by="add_short_term_memory"
    )
    return AddResult(success=True, id=stored.memory.id, totalMemories=stored.total, changeId=stored.change_id)


def remembered_text(memory_id: str, total: int, *, stored: bool) -> str:
    """What was done; not `stored`: the same was stored before."""
    done = f"Remembered as {memory_id}" if stored else f"Remembered before, as {memory_id}"
    return f"{done}; {counted(total, 'memory')} in this conversation."


def _line_bytes(value: int | None) -> int | None:
    # Not in the schema: every model would pay for it in every conversation.
    if value is not None and not 200 <= value <= 100_000:
        raise ValueError("it is a number of bytes from 200 to 100,000")
    return value


class SearchArguments(Arguments):
    recentMessages: Messages = Field(description="The last few messages of the chat")
    conversation_id: ConversationId = None
    roleWeights: RoleWeights | None = None
    scope: Text | None = Field(None, description="`all`, or a group of conversations")
    reinforce: bool = Field(True, description="false: no trace")
    maxBytes: Annotated[int | None, AfterValidator(_line_bytes)] = Field(
        None, description="Answer in lines for a prompt, this long"
    )


class Item(Result):
    id: str
    text: str
    conversation_id: str
    keptIn: str | None = Field(None, description="The conversation that holds it, where that is another one")
    timestamp: str
    score: float
    relevance: float
    keywords: list[str]
    why: str


class HeldBackCounts(Result):
    tooRecent: int = Field(
        description="Of this chat, younger than 20 minutes (usually), not known to be of another session"
    )
    sameMoment: int = Field(description="Too near in time (usually 10 minutes) to one that is given")


class ReinforcedIn(Result):
    conversation_id: str
    changeId: str


class SearchResult(Result):
    topRelevant: list[Item]
    nextRelevant: list[Item]
    randomFlashback: list[Item]
    heldBack: HeldBackCounts
    totalSearched: int
    note: str | None = None
    changeId: str | None = None
    changes: list[ReinforcedIn] | None = Field(None, description="Each change where other conversations were changed")
    lines: str | None = Field(None, description="The memories as prompt lines, where maxBytes asked for them")
    _sought: tuple[str, ...] = PrivateAttr(())

    def sought(self) -> Sequence[str]:
        return self._sought


def _item(recalled: Recalled, own: str) -> Item:
    memory = recalled.memory
    return Item(
        id=memory.id,
        text=memory.text,
        conversation_id=memory.conversation_id,
        keptIn=None if recalled.kept_in == own else recalled.kept_in,
        timestamp=time_text(memory.time_ms) or "",
        score=memory.score,
        relevance=round(recalled.receipt.relevance, 2),
        keywords=list(memory.words[:SHOWN_KEYWORDS]),
        why=recalled.receipt.line(),
    )


async def _search(context: Context, arguments: SearchArguments) -> SearchResult:
    conversation = context.conversations.get(arguments.conversation_id)
    found = await conversation.short_term.search(
        messages_of(arguments.recentMessages),
        role_weights=role_weights_of(arguments.roleWeights),
        scope=arguments.scope,
        reinforce=arguments.reinforce,
        by="search_short_term_memories",
    )
    result = search_result(context, conversation.id, found, arguments.maxBytes)
    if told := await archive_note(conversation, found.recall):
        result = result.model_copy(update={"note": f"{result.note} {told}"})
    return result


async def archive_note(conversation: Conversation, recall: Recall) -> str | None:
    """Where nothing relevant came to mind: whether the archive would have it. None where not, or where that cannot be
    told."""
    if recall.top or recall.next:
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
    verb = "it was" if len(came) == 1 else "they were"
    return (
        f"The archive would have {counted(len(came), 'memory')}; {verb} forgotten or deleted: `{command}` shows them."
    )


def search_result(context: Context, conversation_id: str, found: Found, line_bytes: int | None = None) -> SearchResult:
    """What a search in `conversation_id` found, with its prompt lines where `line_bytes` asks for them."""
    recall = found.recall
    notes = _troubles(found, conversation_id)
    if not (recall.top or recall.next):
        notes.append(_nothing(recall.held_back, recall.searched, context.parameters.recall))
    only_here = found.changes.keys() <= {conversation_id}
    changes = [ReinforcedIn(conversation_id=name, changeId=made) for name, made in found.changes.items()]
    lines = None if line_bytes is None else context.lines(recall, max_bytes=line_bytes - FRAME_CHARS)
    result = SearchResult(
        topRelevant=[_item(recalled, conversation_id) for recalled in recall.top],
        nextRelevant=[_item(recalled, conversation_id) for recalled in recall.next],
        randomFlashback=[_item(recalled, conversation_id) for recalled in recall.flashback],
        heldBack=HeldBackCounts(tooRecent=recall.held_back.recent, sameMoment=recall.held_back.adjacent),
        totalSearched=recall.searched,
        note=" ".join(notes) or None,
        changeId=found.change_id if only_here else None,
        changes=None if only_here else changes,
        lines=marked(lines) if lines else lines,
    )
    result._sought = _heaviest((*recall.top, *recall.next, *recall.flashback))
    return result


def _heaviest(recalled: Iterable[Recalled]) -> tuple[str, ...]:
    """The words that the messages and these memories share, the heaviest first."""
    shared = [word for item in recalled for word in item.receipt.matched]
    shared.sort(key=lambda word: -word.points)
    kept: list[str] = []
    for word in (matched.word for matched in shared):
        # A character of a word that is there already says nothing more, nor does a pair from the ends of two words.
        pair = len(word) == 2 and not word.isascii()
        if not (any(word in longer for longer in kept) or (pair and set(word) <= set("".join(kept)))):
            kept.append(word)
    return tuple(kept)


def _troubles(found: Found, own: str) -> list[str]:
    notes = []
    if found.unreinforced == (own,):
        notes.append("The scores were not reinforced: the conversation could not be written.")
    elif found.unreinforced:
        names = ", ".join(found.unreinforced)
        notes.append(f"Not all scores were reinforced: these conversations could not be written: {names}.")
    if found.unread:
        notes.append(unreadable(found.unread))
    if found.outdated:
        verb = "has" if found.outdated == 1 else "have"
        notes.append(
            f"{counted(found.outdated, 'memory')} {verb} words that older settings found, so some may be missed; "
            "`memory-server reindex` finds them again."
        )
    return notes


def _nothing(held_back: HeldBack, searched: int, parameters: RecallParameters) -> str:
    if not searched:
        return "Nothing is stored yet in what was searched."
    if held_back.recent:
        verb = "is" if held_back.recent == 1 else "are"
        return (
            f"{counted(held_back.recent, 'memory')} of this conversation {verb} held back: "
            f"younger than {parameters.own_conversation_ms / MINUTE_MS:g} minutes."
        )
    return "No memory shares enough words with these messages."


def search_text(result: SearchResult) -> str:
    """The same for people."""
    if result.lines is not None:
        # Within the bytes that were asked for: nothing else.
        return result.lines
    tiers = (("Top", result.topRelevant), ("Next", result.nextRelevant), ("Flashback", result.randomFlashback))
    blocks = [
        f"{tier} - {item.timestamp[:16].replace('T', ' ')} UTC{f' in {item.keptIn}' if item.keptIn else ''} "
        f"(relevance {item.relevance:.1f}: {item.why})\n{item.text}"
        for tier, items in tiers
        for item in items
    ]
    held_back = result.heldBack
    counts = (
        f"Searched {counted(result.totalSearched, 'memory')}; held back: "
        f"{held_back.tooRecent} too recent, {held_back.sameMoment} of the same moment."
    )
    return "\n\n".join([*blocks, *([result.note] if result.note else []), counts])


class DeleteArguments(Arguments):
    pattern: Text = Field(
        min_length=1, max_length=MAX_PATTERN_CHARS, description="A word, or /regex/flags in JavaScript syntax"
    )
    conversation_id: ConversationId = None
    dry_run: bool = Field(False, description="Only count")


class DeleteResult(Result):
    deletedCount: int
    remainingCount: int
    dryRun: bool | None = None
    changeId: str | None = None


async def _delete(context: Context, arguments: DeleteArguments) -> DeleteResult:
    removed = await context.conversations.get(arguments.conversation_id).short_term.delete(
        arguments.pattern, dry_run=arguments.dry_run, by="delete_short_term_memories"
    )
    return DeleteResult(
        deletedCount=len(removed.forgotten),
        remainingCount=removed.remaining,
        dryRun=arguments.dry_run or None,
        changeId=removed.change_id,
    )


def _delete_text(result: DeleteResult) -> str:
    verb = "Would delete" if result.dryRun else "Deleted"
    return f"{verb} {counted(result.deletedCount, 'memory')}; remaining: {result.remainingCount}.{undo_hint(result)}"


class ConversationArguments(Arguments):
    conversation_id: ConversationId = None


class StatsResult(Result):
    total: int
    avgScore: float | None = None
    maxScore: float | None = None
    minScore: float | None = None
    oldestMemory: str | None = None
    newestMemory: str | None = None
    lastCleanup: str | None = None
    conversationCounts: dict[str, int]
    notice: str | None = None


async def _stats(context: Context, arguments: ConversationArguments) -> StatsResult:
    figures = await context.conversations.get(arguments.conversation_id).short_term.statistics()
    return StatsResult(
        total=figures.total,
        avgScore=None if figures.average_score is None else round(figures.average_score, 2),
        maxScore=figures.highest_score,
        minScore=figures.lowest_score,
        oldestMemory=time_text(figures.oldest_ms),
        newestMemory=time_text(figures.newest_ms),
        lastCleanup=time_text(figures.last_cleanup_ms),
        conversationCounts=dict(figures.by_conversation),
        notice=_notice(figures.damaged),
    )


def _notice(damaged: int) -> str | None:
    if not damaged:
        return None
    kept = f"{counted(damaged, 'piece')} of it could not be read and {'is' if damaged == 1 else 'are'} kept aside"
    return f"A file was damaged: {kept}; `memory-server doctor` says which."


def _stats_text(result: StatsResult) -> str:
    cleaned = f"last clean-up {result.lastCleanup}" if result.lastCleanup else "never cleaned up"
    notice = f" {result.notice}" if result.notice else ""
    if not result.total:
        return f"No short-term memories; {cleaned}.{notice}"
    counts = ", ".join(f"{name}: {count}" for name, count in result.conversationCounts.items())
    return (
        f"{counted(result.total, 'short-term memory')} from {result.oldestMemory} to {result.newestMemory}; "
        f"score {result.minScore:g} to {result.maxScore:g}, mean {result.avgScore:g}; {cleaned}. "
        f"By conversation: {counts}.{notice}"
    )


class CleanupResult(Result):
    removedCount: int
    remainingCount: int
    changeId: str | None = None


async def _cleanup(context: Context, arguments: ConversationArguments) -> CleanupResult:
    removed = await context.conversations.get(arguments.conversation_id).short_term.clean_up(by="cleanup_memories")
    return CleanupResult(
        removedCount=len(removed.forgotten), remainingCount=removed.remaining, changeId=removed.change_id
    )


class NoArguments(Arguments):
    pass


class FrequentResult(Result):
    conversation_id: str | None = None


async def _frequent(context: Context, arguments: NoArguments) -> FrequentResult:
    return FrequentResult(conversation_id=await context.conversations.most_frequent())


SHORT_TERM: tuple[Tool, ...] = (
    Tool(
        name="add_short_term_memory",
        title="Remember this exchange",
        description=(
            "Remember a stretch of the conversation: give the last few messages after each meaningful exchange. "
            "It is found again by its words and fades over weeks unless it is recalled. "
            "For a fact that must come up under a condition, use add_long_term_memory."
        ),
        at_hand=True,
        arguments=AddArguments,
        result=AddResult,
        run=_add,
        text=lambda r: remembered_text(r.id, r.totalMemories, stored=r.changeId is not None),
    ),
    Tool(
        name="search_short_term_memories",
        title="Recall related memories",
        description=(
            "Recall what earlier exchanges have to do with the current messages: call it before you answer. "
            "Gives the most relevant (usually 3) and 2 by chance, each with why. What it recalls is reinforced. "
            "What this session stored in the last 20 minutes is usually held back."
        ),
        at_hand=True,
        arguments=SearchArguments,
        result=SearchResult,
        run=_search,
        text=search_text,
        recalls=True,
        reinforces=True,
    ),
    Tool(
        name="delete_short_term_memories",
        title="Forget matching memories",
        description="Delete the short-term memories whose text holds a word or matches a regular expression.",
        search_hint="forget, remove, erase what was said",
        arguments=DeleteArguments,
        result=DeleteResult,
        run=_delete,
        text=_delete_text,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="get_memory_stats",
        title="Memory statistics",
        description="Number, scores and dates of the short-term memories of a conversation.",
        arguments=ConversationArguments,
        result=StatsResult,
        run=_stats,
        text=_stats_text,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="cleanup_memories",
        title="Forget faded memories",
        description="Forget what has faded, beyond 20,000 memories (usually). Happens daily by itself.",
        arguments=ConversationArguments,
        result=CleanupResult,
        run=_cleanup,
        text=lambda r: f"Forgot {counted(r.removedCount, 'memory')}; remaining: {r.remainingCount}.{undo_hint(r)}",
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="get_frequent_conversation",
        title="Most frequent conversation",
        description="The conversation with the most short-term memories.",
        arguments=NoArguments,
        result=FrequentResult,
        run=_frequent,
        text=lambda r: (
            f"Most memories are in `{r.conversation_id}`." if r.conversation_id else "Nothing is stored yet."
        ),
        read_only=True,
        idempotent=True,
    ),
)
