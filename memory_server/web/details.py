"""One memory, the past, a question to try, and the health of it all."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import methodcaller

from starlette.responses import Response

from languages import _
from memory_server.conversations.archive import ArchivedMemory
from memory_server.conversations.conversation import Conversation, Conversations
from memory_server.conversations.insight import ExplainedMemory
from memory_server.conversations.lifecycle import ASKED_FOR_WORDS
from memory_server.conversations.model import Memory, ShortTermMemory, place_text
from memory_server.conversations.recall.corrections import newer_by_older
from memory_server.conversations.recall.request import Mode, RecallRequest
from memory_server.conversations.recall.retention import worth
from memory_server.kernel.errors import MemoryNotFound
from memory_server.kernel.lifecycle import PastChange, PlaceCleanup, newest_first
from memory_server.kernel.messages import Message, Session
from memory_server.kernel.recorded_recall import recorded_recall
from memory_server.kernel.times import DAY_MS, iso
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import EVERYTHING, Entry, Filter
from memory_server.lore import USUAL_ORDER, LongTermMemory, rules_text
from memory_server.memories.reasons import plan_of
from memory_server.memories.recalls import recall_line
from memory_server.memories.turns import (
    MAX_CHARS,
    TurnRecall,
    output_of_turn,
    prompt_room,
    recalled_block,
)
from memory_server.web.pages import PAGE, number, opened_receipt, recorded, rows_of_page
from memory_server.web.receipts import ShownRecall, messages_of, spoken
from memory_server.web.taking_back import mended, places_of
from memory_server.web.view import Examination, View

_ID = re.compile(r"[0-9a-f]{16}")
_FINDINGS_MS = 300_000
"""How long the findings of an examination are shown."""
_RETURNING = ("deleted", "undone", "expired", "over_limit")
"""Why an entry was archived, if it can come back."""


TURN, HOOK, SEARCH = "turn", "hook", "search"
_FACES: dict[str, Callable[[], str]] = {
    HOOK: lambda: _("a hook, at each prompt of Claude Code or another client"),
    TURN: lambda: _("a companion, or the command `recall`"),
    SEARCH: lambda: _("a search that the model makes by itself"),
}
"""Who asks; a hook asks for more points, and a search gives what is weak too."""


async def memory(view: View) -> Response:
    """Return the page `/memory`: one memory, whether it has faded, and which recalls on record it
    came in. Raises MemoryNotFound."""
    shown, removal = await _shown(view)
    is_live = removal is None
    recalls = [
        recall
        for recall in await recorded(view)
        if any(item.id == shown.id for item in recall.came)
    ]
    parameters = view.call.memories.services.parameters
    worth_now = worth(shown, view.speech.now_ms, parameters.recall)
    last_recall = next((recall for recall in recalls if recall.said), None)
    last_question = "" if last_recall is None else last_recall.said
    by_hook = last_recall is not None and last_recall.by == HOOK
    again = None
    needed_points = None
    # Asked again as it was asked last: that shows why the memory would come now, or would not.
    if is_live and last_question:
        again = await view.conversation.insight.explain(
            _asked_by(HOOK if by_hook else TURN, [Message("user", last_question)]),
            memory_id=shown.id,
        )
        if again.explanation is not None:
            needed_points = again.explanation.needed

    gone_until_ms = None
    if removal is not None:
        gone_until_ms = removal.at_ms + view.site.keep_ms

    memories = await view.conversation.short_term.memories()
    corrected = {older.id for older in shown.corrects}
    return await view.page(
        "memory.html",
        corrected=[stored for stored in memories if stored.id in corrected],
        corrected_by=newer_by_older(memories).get(shown.id),
        memory=shown,
        about=plan_of(shown, view.conversation.day_notes),
        said=messages_of(shown, {}, 1.0, view.speech, view.conversation.day_notes),
        gone=removal,
        gone_until=gone_until_ms,
        until=view.speech.now_ms + view.site.keep_ms,
        rows=recalls[:PAGE],
        used=len(recalls),
        faded=worth_now < parameters.retention.min_relevance,
        always_kept=parameters.retention.always_kept,
        total=len(memories),
        again=again,
        again_face=_FACES[HOOK if by_hook else TURN](),
        last_question=last_question,
        needed=needed_points,
        editing=bool(view["edit"]),
        places=await places_of(view, "memories", view.conversation.id, shown.id),
        muted=[place_text(place) for place in shown.muted],
    )


async def _shown(view: View) -> tuple[ShortTermMemory, ArchivedMemory | None]:
    """Find the memory that the address names, and how it was removed, if it was. Raises
    MemoryNotFound if this conversation does not have it."""
    memory_id = view["id"]
    for live in await view.conversation.short_term.memories():
        if live.id == memory_id:
            return live, None
    for removal in reversed(await view.conversation.archive.entries()):
        if isinstance(removal.memory, ShortTermMemory) and removal.memory.id == memory_id:
            return removal.memory, removal
    raise MemoryNotFound(
        "That memory is no longer here; it was erased, or it is in another conversation."
    )


@frozen
class Shelf:
    """Something that was forgotten and can come back. `id`: the id of a memory, or of an entry in `family`."""

    family: str
    id: str
    text: str
    gone_ms: int
    until_ms: int


def said_by(memory: Memory) -> str:
    """Return the text that shows a memory in a list."""
    if isinstance(memory, ShortTermMemory):
        return spoken(memory)
    return memory.prompt


async def _texts(view: View) -> dict[tuple[str, str], str]:
    """Return the texts that the ids of changes mean, in the place of each: numbers are given out in each place."""
    here = view.conversation.id
    removals = await view.conversation.archive.entries()
    memories = await view.conversation.short_term.memories()
    texts = await asyncio.to_thread(_texts_here, here, removals, memories)
    for scope, store in await view.call.memories.knowledge.places():
        entries: list[Entry] = await store.read(
            scope, lambda stored: stored.entries(EVERYTHING, limit=500)
        )
        texts |= {(scope.place, str(entry.id)): entry.title or entry.body for entry in entries}
    return texts


def _texts_here(
    here: str, removals: Sequence[ArchivedMemory], memories: Sequence[ShortTermMemory]
) -> dict[tuple[str, str], str]:
    """Return the texts of the removed and the stored memories of a conversation, by place and id; the stored one
    counts if both have an id."""
    texts = {(here, removal.memory.key): said_by(removal.memory) for removal in removals}
    texts |= {(here, memory.id): spoken(memory) for memory in memories}
    return texts


async def shelf(view: View) -> list[Shelf]:
    """List what can come back, of this conversation and of knowledge, newest first. Entries that
    were merged are left out."""
    keep_ms = view.site.keep_ms
    rows = [
        Shelf(
            family="",
            id=removal.memory.key,
            text=said_by(removal.memory),
            gone_ms=removal.at_ms,
            until_ms=removal.at_ms + keep_ms,
        )
        for removal in await view.conversation.archive.entries()
    ]
    read = methodcaller("entries", Filter(archived=True), order="removed", limit=PAGE)
    for scope, store in await view.call.memories.knowledge.places():
        entries: list[Entry] = await store.read(scope, read)
        for entry in entries:
            # A merged entry is not offered, because its text is in another entry.
            if entry.archived_ms is None or entry.reason not in _RETURNING:
                continue
            rows.append(
                Shelf(
                    family=scope.place,
                    id=entry.key or str(entry.id),
                    text=entry.title or entry.body,
                    gone_ms=entry.archived_ms,
                    until_ms=entry.archived_ms + keep_ms,
                )
            )

    return sorted(rows, key=lambda row: -row.gone_ms)


async def history(view: View) -> Response:
    """Return the page `/history`: the changes of all engines in one list, without uses unless `all`
    is asked for, and what can be brought back."""
    end = (number(view["page"]) + 1) * PAGE
    shows_uses = bool(view["all"])
    # Without uses, four times as many changes are read, because most are uses.
    limit = (end if shows_uses else 4 * end) + 1
    sequences: list[list[PastChange]] = []
    for engine in view.call.memories.engines:
        conversation = view.conversation.id if engine.keeps == "conversations" else None
        sequences.append(await engine.history(conversation, limit=limit))

    # Each engine has its own history; the reader wants a single list.
    in_order = await asyncio.to_thread(newest_first, sequences, view.speech.now_ms)
    changes = [change for change in in_order if shows_uses or not _is_use(change)]
    rows = await shelf(view)
    page = rows_of_page(view, changes, "history", all=view["all"])
    return await view.page(
        "history.html",
        shelf=rows if view["shelf"] else rows[:4],
        on_shelf=len(rows),
        texts=await _texts(view),
        changes=page.rows,
        more=page.more,
        everything=shows_uses,
        days=view.site.keep_ms // DAY_MS,
    )


def _is_use(change: PastChange) -> bool:
    return all(step.what in ("reinforced", "cleaned up", ASKED_FOR_WORDS) for step in change.steps)


async def ask(view: View) -> Response:
    """Return the page `/ask`: what would come if you said this, at a time; nothing is counted as
    used. Raises InvalidInput if the time is not one."""
    question = view["q"].strip()
    at = view["at"]
    sought = view["id"]
    face = view["face"] if view["face"] in _FACES else TURN
    recall: ShownRecall | None = None
    explained: ExplainedMemory | None = None
    if question:
        services = view.call.memories.services
        # Asked as at that time: memories fade, and triggers look at the clock.
        if at:
            at_ms = view.speech.time_in_field(at)
            services = replace(services, clock=lambda: at_ms)
        messages = [Message("user", line) for line in question.splitlines() if line.strip()]
        conversation = Conversations(services, usual=view.conversation.id).get(None)
        recall = await _would_come(view, conversation, messages, face)
        if sought:
            explained = await _explained(conversation, messages, sought, face)

    return await view.page(
        "ask.html",
        said=question,
        at=at,
        receipt=recall,
        why=explained,
        sought=sought,
        face=face,
        faces={name: says() for name, says in _FACES.items()},
    )


async def _would_come(
    view: View, conversation: Conversation, messages: Sequence[Message], face: str
) -> ShownRecall | None:
    """Return what the messages would bring in a new session, asked by this face, without what comes by chance. Return
    None if nothing of it can be shown."""
    request = _asked_by(face, messages)
    search = await conversation.short_term.search(request)
    activation = await conversation.long_term.search(messages)
    block = await asyncio.to_thread(
        recalled_block, view.call.memories, search, activation, prompt_room(MAX_CHARS)
    )
    answer = output_of_turn(block, TurnRecall(search, activation), conversation.id, request, "")
    line = recall_line(answer, {}, iso(view.speech.now_ms))
    if line is None:
        return None
    recall = recorded_recall(line)
    by_right = [item for item in recall.came if item.tier != "flashback"]
    return await opened_receipt(view, replace(recall, came=by_right))


async def _explained(
    conversation: Conversation, messages: Sequence[Message], sought: str, face: str
) -> ExplainedMemory:
    """Explain why a memory comes or not in a new session, asked by this face; it is named by its id or by some of its
    words."""
    memory_id = sought if _ID.fullmatch(sought) else None
    return await conversation.insight.explain(
        _asked_by(face, messages),
        memory_id=memory_id,
        text=sought if memory_id is None else None,
    )


def _asked_by(face: str, messages: Sequence[Message]) -> RecallRequest:
    """Ask as this face in a session that said nothing yet, as the next window of a client is: nothing is held back
    for it."""
    modes: dict[str, Mode] = {HOOK: "every_prompt", SEARCH: "asked"}
    return RecallRequest(
        messages,
        session=Session(secrets.token_hex(8)),
        mode=modes.get(face, "unasked"),
        reinforce=False,
    )


async def health(view: View) -> Response:
    """Return the page `/health`: what is found about the folder, the disk, the clock, the words and
    the sandbox, and the backups; plans for a clean-up or a repair if they are asked for."""
    examination = await examined(view, again=bool(view["again"]))
    backups = await view.call.memories.backups.listed()
    plans = await _cleanup_plans(view) if view["cleanup"] else None
    newest = max((backup.created_ms for backup in backups if not backup.problem), default=None)
    memories = await view.conversation.short_term.memories()
    # What a backup of now would add.
    since = sum(memory.time_ms > (newest or 0) for memory in memories)
    return await view.page(
        "health.html",
        findings=examination.findings,
        wrong=[
            finding for finding in examination.findings if finding.grade in ("warning", "error")
        ],
        checked_ms=examination.at_ms,
        backups=backups[:PAGE],
        newest=newest,
        since=since,
        plans=plans,
        mended=await mended(view, dry_run=True) if view["repair"] else None,
        tenants=await asyncio.to_thread(view.site.tenants),
    )


async def _cleanup_plans(view: View) -> list[PlaceCleanup]:
    """Return what a cleanup would do in each place where it does something."""
    plans: list[PlaceCleanup] = []
    for engine in view.call.memories.engines:
        plans += [plan async for plan in engine.clean_up(dry_run=True) if plan.left or plan.problem]
    return plans


async def examined(view: View, *, again: bool = False) -> Examination:
    """Return the findings about the memories, which are kept for some minutes; with `again`, examine them now."""
    examinations = view.site.made.examinations
    examination = examinations.get(view.speech.language)
    if again or examination is None or view.speech.now_ms - examination.at_ms > _FINDINGS_MS:
        memories = view.call.memories
        findings = list(await memories.examine())
        for look in await memories.engines[0].examinations():
            findings += await look()
        examination = Examination(tuple(findings), view.speech.now_ms)
        examinations[view.speech.language] = examination
    return examination


_LISTED = 200
"""Entries on one page."""


async def book(view: View) -> Response:
    """Return the page `/book`: the entries of a lorebook of this conversation, by its name or id.
    Raises MemoryNotFound."""
    books = view.conversation.books
    shown = await books.book(view["name"])
    entries = await books.entries(shown.book_id)
    page = rows_of_page(view, entries, "book", _LISTED, name=shown.book_id)
    return await view.page(
        "book.html", book=shown, entries=page.rows, rules_of=_other_rules, more=page.more
    )


def _other_rules(memory: LongTermMemory) -> str:
    """Return the rules of an entry in words, without the order and whether it is off, which have places of their own."""
    return rules_text(replace(memory.rules, order=USUAL_ORDER, is_off=False))
