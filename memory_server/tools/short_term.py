"""The toolset `short-term`: exchanges that fade, which are stored, searched and deleted. Names of arguments and results
are the Node original's, so that its users can switch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from pydantic import Field, PrivateAttr

from languages import _, counted, joined, n_, speaking
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.order import Recalled, heaviest_words
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.prompt_lines import Reader
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.recall.why import reason_of, shared_words
from memory_server.conversations.recall.words import shown_words, spelling_of
from memory_server.conversations.search import Found
from memory_server.conversations.short_term import Origin
from memory_server.kernel.errors import StorageError
from memory_server.kernel.messages import with_roles
from memory_server.kernel.other_words import private_words_note
from memory_server.kernel.recalled_block import FRAME_CHARS, marked
from memory_server.kernel.text import unreadable
from memory_server.kernel.times import MINUTE_MS, iso
from memory_server.memories.memories import Call
from memory_server.memories.recalls import RecallOutput
from memory_server.tools.base.result import (
    ChangeId,
    From,
    Result,
    hundredths,
    or_none,
    sentences,
    shell_command,
    undo_hint,
    when,
)
from memory_server.tools.base.shapes import (
    ConversationId,
    CorrectedIds,
    CurrentMessages,
    KeptWords,
    Messages,
    OtherWordsArgument,
    Regex,
    RoleWeights,
    Text,
    between,
)
from memory_server.tools.base.tool import FOR_PROGRAMS, tool

SHOWN_KEYWORDS = 10
"""Keywords shown with a result (the Node original's number); all 72 would hide it."""


def _keywords(memory: ShortTermMemory) -> list[str]:
    return shown_words(memory, SHOWN_KEYWORDS)


class Item(Result):
    id: Annotated[str, From("memory.id")]
    text: Annotated[str, From("memory.text")]
    conversation_id: Annotated[str, From("memory.conversation_id")]
    keptIn: str | None = Field(
        None, description="The conversation that holds it, where that is another one"
    )
    folder: str | None = Field(None, description="Where it was said, where that is another folder")
    timestamp: Annotated[str, From("memory.time_ms", iso)]
    score: Annotated[float, From("memory.score")]
    relevance: Annotated[float, From("receipt.relevance", hundredths)]
    keywords: Annotated[list[str], From("memory", _keywords)]
    why: str
    matched: list[str] = Field(
        description="The words it shares, as its text has them, heaviest first"
    )
    reason: str = Field(description="Why it came, for a person, in the language of the memories")
    weak: Annotated[
        bool | None, From("weak", or_none, words="Shares little: check that it fits")
    ] = None

    def tier_text(self, tier: str) -> str:
        """Return the memory for people, with the name of its tier, such as `Top`."""
        return _(
            "{tier}{weak} - {when}{kept_in}{folder} (relevance {relevance:.1f}: {why})\n{text}",
            tier,
            _(", weak") if self.weak else "",
            when(self.timestamp),
            _(" in {kept_in}", self.keptIn) if self.keptIn else "",
            _(", said in {folder}", self.folder) if self.folder else "",
            self.relevance,
            self.why,
            with_roles(self.text),
        )


class HeldBackCounts(Result):
    tooRecent: Annotated[
        int,
        From(
            "recent",
            words="Of this chat, younger than 20 minutes (usually), not known to be of another session",
        ),
    ]
    sameMoment: Annotated[
        int, From("adjacent", words="Too near in time (usually 10 minutes) to one that is given")
    ]


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
    changes: list[ReinforcedIn] | None = Field(
        None, description="Each change where other conversations were changed"
    )
    lines: str | None = Field(
        None, description="The memories as prompt lines, where maxBytes asked for them"
    )

    _query_words: tuple[str, ...] = PrivateAttr(())

    def query_words(self) -> Sequence[str]:
        return self._query_words

    def __str__(self) -> str:
        """List the memories by tier, and how many were searched and held back. If the caller
        limited the bytes, return only the lines."""
        if self.lines is not None:
            # Only the lines, because the caller limited the bytes.
            return self.lines
        blocks = [item.tier_text(_("Top")) for item in self.topRelevant]
        blocks += [item.tier_text(_("Next")) for item in self.nextRelevant]
        blocks += [item.tier_text(_("Flashback")) for item in self.randomFlashback]
        if self.note:
            blocks.append(self.note)
        counts = _(
            "Searched {memories}; held back: {too_recent} too recent, {same_moment} of the same moment.",
            counted(self.totalSearched, "memory"),
            self.heldBack.tooRecent,
            self.heldBack.sameMoment,
        )
        return "\n\n".join([*blocks, counts])


def _notice_or_none(damaged: int) -> str | None:
    if not damaged:
        return None
    return notice(damaged)


class StatsResult(Result):
    total: int
    avgScore: Annotated[float | None, From("average_score", hundredths)] = None
    maxScore: Annotated[float | None, From("highest_score")] = None
    minScore: Annotated[float | None, From("lowest_score")] = None
    oldestMemory: Annotated[str | None, From("oldest_ms", iso)] = None
    newestMemory: Annotated[str | None, From("newest_ms", iso)] = None
    lastCleanup: Annotated[str | None, From("last_cleanup_ms", iso)] = None
    conversationCounts: Annotated[dict[str, int], From("by_conversation")]
    notice: Annotated[str | None, From("damaged", _notice_or_none)] = None

    def __str__(self) -> str:
        """Describe the figures in a sentence. Without memories, it has only the clean-up and the
        notice."""
        cleaned = (
            _("last clean-up {when}", when(self.lastCleanup))
            if self.lastCleanup
            else _("never cleaned up")
        )

        notice = f" {self.notice}" if self.notice else ""
        if self.oldestMemory is None or self.newestMemory is None:
            return _("No short-term memories; {cleaned}.{notice}", cleaned, notice)

        counts = joined(
            ", ",
            (_("{about}: {what}", name, count) for name, count in self.conversationCounts.items()),
        )

        oldest = when(self.oldestMemory)
        newest = when(self.newestMemory)
        return _(
            "{memories} from {oldest} to {newest}; score {min_score:g} to {max_score:g}, mean "
            "{avg_score:g}; {cleaned}. By conversation: {counts}.{notice}",
            counted(self.total, "short-term memory"),
            oldest,
            newest,
            self.minScore,
            self.maxScore,
            self.avgScore,
            cleaned,
            counts,
            notice,
        )


def notice(damaged: int) -> str:
    """Return a sentence on damaged files and lines."""
    damaged_files = n_(
        "{count} damaged file or line is", "{count} damaged files or lines are", damaged
    )
    return _("{what} set aside; `memory-server doctor` says which.", damaged_files)


def unusable_records(count: int) -> str:
    """Return a sentence on stored records that cannot be used."""
    return n_(
        "{count} stored record cannot be used; `memory-server doctor` names it.",
        "{count} stored records cannot be used; `memory-server doctor` names them.",
        count,
    )


class DeleteResult(Result):
    deletedCount: Annotated[int, From("forgotten", len)]
    remainingCount: Annotated[int, From("remaining")]
    dryRun: bool | None = None
    changeId: str | None = None

    def __str__(self) -> str:
        verb = _("Would delete") if self.dryRun else _("Deleted")
        return _removed_text(
            verb, self.deletedCount, remaining=self.remainingCount, change_id=self.changeId
        )


class CleanupResult(Result):
    removedCount: Annotated[int, From("forgotten", len)]
    remainingCount: Annotated[int, From("remaining")]
    changeId: str | None = None

    def __str__(self) -> str:
        return _removed_text(
            _("Forgot"), self.removedCount, remaining=self.remainingCount, change_id=self.changeId
        )


def _removed_text(verb: str, count: int, *, remaining: int, change_id: str | None) -> str:
    """Return a sentence on how many memories were removed and remain, with the change id."""
    number = counted(count, "memory")
    return _(
        "{verb} {number}; remaining: {remaining_count}.{undo_hint}",
        verb,
        number,
        remaining,
        undo_hint(change_id),
    )


_HINTED_WORDS = 3
"""Words that a search for removed memories uses."""


class AddResult(Result):
    success: bool
    id: Annotated[str, From("memory.id")]
    totalMemories: Annotated[int, From("total")]
    changeId: ChangeId = None
    note: str | None = Field(None, description="Which other words were left out, and why")

    def __str__(self) -> str:
        sentence = remembered_text(self.id, self.totalMemories, stored=self.changeId is not None)
        return sentences(sentence, self.note)


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
    corrects: CorrectedIds = [],
) -> AddResult:
    stored = await call.conversations.get(conversation_id).short_term.add(
        messages,
        role_weights=RoleWeights.of(roleWeights),
        other_words=otherWords,
        origin=Origin(session=call.session, folder=call.folder),
        corrects=corrects,
        by="add_short_term_memory",
    )
    return AddResult.of(stored, success=True, note=private_words_note(stored.private_words))


def remembered_text(memory_id: str, total: int, *, stored: bool) -> str:
    """Return a sentence on what was done. `stored` is False if the same was stored before."""
    done = (
        _("Remembered as {memory}", memory_id)
        if stored
        else _("Stored before, as {memory}", memory_id)
    )
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
    otherWords: OtherWordsArgument = [],
    conversation_id: ConversationId = None,
    roleWeights: RoleWeights | None = None,
    scope: Annotated[Text | None, "`all`, or a group of conversations"] = None,
    reinforce: Annotated[bool, "false: no trace"] = True,
    includeCorrected: Annotated[
        bool, FOR_PROGRAMS, "What was corrected comes as itself too"
    ] = False,
    maxBytes: Annotated[
        int | None, between(200, 100_000, "bytes"), "Answer in lines for a prompt, this long"
    ] = None,
) -> SearchResult:
    conversation = call.conversations.get(conversation_id)
    request = RecallRequest(
        recentMessages,
        other_words=otherWords,
        role_weights=RoleWeights.of(roleWeights),
        scope=scope,
        session=call.session,
        # Lines for a prompt come without a request.
        mode="asked" if maxBytes is None else "unasked",
        reinforce=reinforce,
        include_corrected=includeCorrected,
        by="search_short_term_memories",
    )

    found = await conversation.short_term.search(request)
    result = search_result(call, conversation.id, found, line_bytes=maxBytes)

    note_on_archive = await archive_note(conversation, found.recall)
    if note_on_archive:
        note = sentences(result.note, note_on_archive)
        result = result.model_copy(update={"note": note})

    call.note(RecallOutput(conversation.id, recentMessages, result, found.recall))
    return result


async def archive_note(conversation: Conversation, recall: Recall) -> str | None:
    """If nothing relevant came to mind, return a sentence on matching memories in the archive. Return None without such
    memories, if an overview was asked for, or if the archive cannot be read."""
    if recall.came_unasked or recall.query.overview is not None:
        return None
    try:
        from_archive = await conversation.archive.recall(recall.query)
    except StorageError:
        # The search itself was answered.
        return None

    matches = (*from_archive.top, *from_archive.next)
    if not matches:
        return None

    words = " ".join(heaviest_words(matches[:1])[:_HINTED_WORDS])
    command = shell_command(conversation.id, "search", "--archived", words)
    verb = _("it was") if len(matches) == 1 else _("they were")

    return _(
        "The archive has {memories} that would match; {verb} forgotten or deleted: `{command}` shows them.",
        counted(len(matches), "memory"),
        verb,
        command,
    )


def search_result(
    call: Call, conversation_id: str, found: Found, *, line_bytes: int | None = None
) -> SearchResult:
    """Return what a search in `conversation_id` found, with prompt lines if `line_bytes` is given."""
    recall = found.recall
    recalled = (*recall.top, *recall.next, *recall.flashback)
    language = call.memories.language([memory.memory.text for memory in recalled])

    item = partial(_item, conversation_id=conversation_id, folder=call.folder, language=language)

    lines = None
    if line_bytes is not None:
        reader = Reader(folder=call.folder)
        room = line_bytes - FRAME_CHARS
        lines = call.memories.lines(recall, reader=reader, max_bytes=room).text
        if lines:
            lines = marked(lines, language)

    change_id = None
    changes = None
    if found.changes.keys() <= {conversation_id}:
        change_id = found.changes.get(conversation_id)
    # Memories of several conversations were reinforced, and each has its own undo.
    else:
        changes = [
            ReinforcedIn(conversation_id=name, changeId=change)
            for name, change in found.changes.items()
        ]

    notes = _notes(found, conversation_id, call.memories.services.parameters.recall)
    result = SearchResult(
        topRelevant=[item(memory, "top") for memory in recall.top],
        nextRelevant=[item(memory, "next") for memory in recall.next],
        randomFlashback=[item(memory, "flashback") for memory in recall.flashback],
        heldBack=HeldBackCounts.of(recall.held_back),
        totalSearched=recall.searched,
        note=" ".join(notes) or None,
        changeId=change_id,
        changes=changes,
        lines=lines,
    )

    result._query_words = heaviest_words(recalled)
    return result


def _item(
    recalled: Recalled, tier: str, *, conversation_id: str, folder: str | None, language: str
) -> Item:
    """Return a memory of a tier as a result of a search in `conversation_id` from `folder`, with its reason in
    `language`."""
    memory = recalled.memory
    words = shared_words(recalled)
    with speaking(language):
        reason = reason_of(recalled, tier, words)
    return Item.of(
        recalled,
        keptIn=None if recalled.kept_in == conversation_id else recalled.kept_in,
        folder=None if folder in (None, memory.folder) else memory.folder,
        matched=list(words)[:SHOWN_KEYWORDS],
        why=recalled.receipt.line(spelling_of(memory)),
        reason=reason,
    )


def _notes(result: Found, own: str, parameters: RecallParameters) -> list[str]:
    """Return a sentence for each thing that went wrong in a search of the conversation `own`: private words, memories
    that could not be read or reinforced, a search by words only, and outdated words; and why nothing came."""
    notes: list[str] = []

    private = private_words_note(result.recall.query.private_words)
    if private:
        notes.append(private)

    if result.unreinforced == (own,):
        notes.append(_("No memory was reinforced, because the conversation could not be written."))
    elif result.unreinforced:
        names = ", ".join(result.unreinforced)
        notes.append(
            _(
                "Not all memories were reinforced, because these conversations could not be written: {names}.",
                names,
            )
        )

    if result.unread:
        notes.append(unreadable(result.unread))
    if result.unusable:
        notes.append(unusable_records(result.unusable))
    if result.only_words:
        notes.append(_("Searched by words only: {only_words}.", result.only_words))

    outdated = result.outdated
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

    if not result.recall.came_unasked:
        notes += _reasons_for_nothing(result.recall, parameters)
    return notes


def _reasons_for_nothing(recall: Recall, parameters: RecallParameters) -> list[str]:
    """Return why a search brought nothing that would come unasked: nothing is stored, memories are
    in the context or too young, or none shares enough words."""
    if not recall.searched:
        return [_("Nothing is stored yet in what was searched.")]

    notes: list[str] = []
    in_context = recall.held_back.in_context
    if in_context:
        held_back = n_("{count} memory is held back", "{count} memories are held back", in_context)
        notes.append(_("{held_back}: these messages, or this session, have it already.", held_back))

    recent = recall.held_back.recent
    # Nothing was held back for its age, so the memories share too little.
    if not recent:
        but = (
            _(" Those that share something are marked as weak.")
            if recall.top or recall.next
            else ""
        )
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
    short_term = call.conversations.get(conversation_id).short_term
    removed = await short_term.delete(pattern, dry_run=dry_run, by="delete_short_term_memories")
    return DeleteResult.of(removed, dryRun=dry_run or None)


@tool(
    title="Memory statistics",
    description="Number, scores and dates of the short-term memories of a conversation.",
    read_only=True,
)
async def get_memory_stats(call: Call, conversation_id: ConversationId = None) -> StatsResult:
    statistics = await call.conversations.get(conversation_id).short_term.statistics()
    return StatsResult.of(statistics)


@tool(
    title="Forget faded memories",
    description="Forget what has faded, beyond 20,000 memories (usually). Happens daily by itself.",
    destructive=True,
    idempotent=True,
)
async def cleanup_memories(call: Call, conversation_id: ConversationId = None) -> CleanupResult:
    cleaned = await call.conversations.get(conversation_id).short_term.clean_up(
        by="cleanup_memories"
    )
    return CleanupResult.of(cleaned)


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
