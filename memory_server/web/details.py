"""One memory, the past, a question to try, and the health of it all."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import methodcaller

from starlette.responses import Response

from memory_server.conversations.archive import Archived
from memory_server.conversations.conversation import Conversation, Conversations
from memory_server.conversations.insight import ExplainedMemory
from memory_server.conversations.lifecycle import ASKED_FOR_WORDS
from memory_server.conversations.model import Memory, ShortTermMemory, place_text
from memory_server.kernel.errors import MemoryNotFound
from memory_server.kernel.lifecycle import PastChange
from memory_server.kernel.messages import Message
from memory_server.kernel.recorded_recall import recorded_recall
from memory_server.kernel.times import DAY_MS, iso
from memory_server.knowledge.entry import EVERYTHING, Entry, Filter
from memory_server.knowledge.items import place_of
from memory_server.memories.recalls import Given, recall_line
from memory_server.web.pages import PAGE, asked_of, number, opened_receipt, recorded
from memory_server.web.receipts import ShownRecall, messages_of, spoken
from memory_server.web.staying import stay, uses_of
from memory_server.web.taking_back import mended, places_of
from memory_server.web.view import Examination, View

_ID = re.compile(r"[0-9a-f]{16}")
_FINDINGS_SECONDS = 300.0


async def memory(view: View) -> Response:
    """`/memory`: one memory, whether it will stay, and what used it."""
    shown, removal = await _shown(view)
    recalls = [recall for recall in await recorded(view) if any(item.id == shown.id for item in recall.came)]
    parameters = view.call.memories.services.parameters
    uses = await uses_of(view, shown)
    again = None
    last_question = next((recall.said for recall in recalls if recall.said), "")
    if removal is None and last_question:
        again = await view.conversation.insight.explain([Message("user", last_question)], memory_id=shown.id)
    staying = await asyncio.to_thread(stay, view, shown, uses, drawn=removal is None)
    return await view.page(
        "memory.html",
        memory=shown,
        said=messages_of(shown, {}, 1.0, view.speech),
        gone=removal,
        gone_until=None if removal is None else removal.at_ms + view.site.keep_ms,
        until=view.speech.now_ms + view.site.keep_ms,
        rows=asked_of(view, recalls[:PAGE]),
        used=len(recalls),
        curves=staying.curves,
        fades=staying.fades_ms,
        faded=staying.has_faded,
        always_kept=parameters.retention.always_kept,
        total=len(await view.conversation.short_term.memories()),
        again=again,
        last_question=last_question,
        needed=None if again is None or again.explanation is None else again.explanation.needed,
        editing=bool(view["edit"]),
        places=await places_of(view, "memories", view.conversation.id, shown.id),
        muted=[view.say(place_text(place)) for place in shown.muted],
    )


async def _shown(view: View) -> tuple[ShortTermMemory, Archived | None]:
    """The memory that the address names; how it was removed, if it was."""
    wanted = view["id"]
    for one in await view.conversation.short_term.memories():
        if one.id == wanted:
            return one, None
    for entry in reversed(await view.conversation.archive.entries()):
        if isinstance(entry.memory, ShortTermMemory) and entry.memory.id == wanted:
            return entry.memory, entry
    raise MemoryNotFound("That memory is not here any more; it was erased, or it is in another conversation.")


@dataclass(frozen=True, slots=True)
class Shelf:
    """Something that was forgotten and can come back. `id`: of a memory, or of an entry in `family`."""

    family: str
    id: str
    text: str
    gone_ms: int
    until_ms: int


def said_by(memory: Memory) -> str:
    """What stands for a memory in a list."""
    return spoken(memory) if isinstance(memory, ShortTermMemory) else memory.prompt


async def _texts(view: View) -> dict[tuple[str, str], str]:
    """What the ids of changes stand for, in the place of each: numbers are given out in each place."""
    here = view.conversation.id
    removals = await view.conversation.archive.entries()
    memories = await view.conversation.short_term.memories()
    texts = await asyncio.to_thread(_texts_here, here, removals, memories)
    for scope, store in await view.call.memories.knowledge.places():
        entries: list[Entry] = await store.read(scope, lambda held: held.entries(EVERYTHING, limit=500))
        texts |= {(place_of(scope), str(entry.id)): entry.title or entry.body for entry in entries}
    return texts


def _texts_here(
    here: str, removals: Sequence[Archived], memories: Sequence[ShortTermMemory]
) -> dict[tuple[str, str], str]:
    texts = {(here, removal.memory.key): said_by(removal.memory) for removal in removals}
    texts |= {(here, memory.id): spoken(memory) for memory in memories}
    return texts


async def shelf(view: View) -> list[Shelf]:
    """What can come back, of this conversation and of knowledge, newest first."""
    keep = view.site.keep_ms
    found = [
        Shelf("", entry.memory.key, said_by(entry.memory), entry.at_ms, entry.at_ms + keep)
        for entry in await view.conversation.archive.entries()
    ]
    for scope, store in await view.call.memories.knowledge.places():
        where = Filter(archived=True)
        read = methodcaller("entries", where, order="removed", limit=PAGE)
        entries: list[Entry] = await store.read(scope, read)
        found += [
            Shelf(place_of(scope), each.key or str(each.id), each.title or each.body, gone, gone + keep)
            for each in entries
            if (gone := each.archived_ms) is not None and each.reason in ("deleted", "undone", "expired", "over_limit")
        ]
    return sorted(found, key=lambda each: -each.gone_ms)


async def history(view: View) -> Response:
    """`/history`: take it back."""
    page, everything = number(view["page"]), bool(view["all"])
    changes: list[PastChange] = []
    for engine in view.call.memories.engines:
        place = view.conversation.id if engine.keeps == "conversations" else None
        changes += await engine.history(place, limit=(page + 1) * PAGE * (1 if everything else 4) + 1)
    changes = await asyncio.to_thread(_newest_first, changes, uses=everything)
    kept = await shelf(view)
    return await view.page(
        "history.html",
        shelf=kept if view["shelf"] else kept[:4],
        on_shelf=len(kept),
        texts=await _texts(view),
        changes=changes[page * PAGE : (page + 1) * PAGE],
        more=view.link("history", page=page + 1, all=view["all"]) if len(changes) > (page + 1) * PAGE else "",
        everything=everything,
        days=view.site.keep_ms // DAY_MS,
    )


def _newest_first(changes: Sequence[PastChange], *, uses: bool) -> list[PastChange]:
    newest_first = sorted(changes, key=lambda change: -change.at_ms)
    return [change for change in newest_first if uses or not _is_use(change)]


def _is_use(change: PastChange) -> bool:
    return all(step.what in ("reinforced", "cleaned up", ASKED_FOR_WORDS) for step in change.steps)


async def ask(view: View) -> Response:
    """`/ask`: what would come if you said this, at a time; nothing is counted as used."""
    said, at, sought = view["q"].strip(), view["at"], view["id"]
    recall: ShownRecall | None = None
    explained: ExplainedMemory | None = None
    if said:
        services = view.call.memories.services
        if at:
            at_ms = view.speech.time_in_field(at)
            services = replace(services, clock=lambda: at_ms)
        messages = [Message("user", line) for line in said.splitlines() if line.strip()]
        conversation = Conversations(services, usual=view.conversation.id).get(None)
        recall = await _would_come(view, conversation, messages)
        if sought:
            explained = await _explained(conversation, messages, sought)
    return await view.page("ask.html", said=said, at=at, receipt=recall, why=explained, sought=sought)


async def _would_come(view: View, conversation: Conversation, messages: Sequence[Message]) -> ShownRecall | None:
    """What the messages would bring, without what comes by chance; None: there is nothing to show of it."""
    search = await conversation.short_term.search(messages, reinforce=False)
    activation = await conversation.long_term.search(messages)
    given = Given(conversation.id, messages, "", search.recall, activation)
    line = recall_line(given, {}, iso(view.speech.now_ms))
    if line is None:
        return None
    recall = recorded_recall(line)
    by_right = [item for item in recall.came if item.tier != "flashback"]
    return await opened_receipt(view, replace(recall, came=by_right))


async def _explained(conversation: Conversation, messages: Sequence[Message], sought: str) -> ExplainedMemory:
    """Why a memory comes or not, which is named by its id or by some of its words."""
    if _ID.fullmatch(sought):
        return await conversation.insight.explain(messages, memory_id=sought)
    return await conversation.insight.explain(messages, text=sought)


async def health(view: View) -> Response:
    """`/health`: what is found about the folder, the disk, the clock, the words and the sandbox."""
    examination = await examined(view, again=bool(view["again"]))
    backups = await view.call.memories.backups.listed()
    plans = None
    if view["cleanup"]:
        plans = [
            cleaned
            for engine in view.call.memories.engines
            async for cleaned in engine.clean_up(dry_run=True)
            if cleaned.left or cleaned.problem
        ]
    newest = max((backup.created_ms for backup in backups if not backup.problem), default=None)
    memories = await view.conversation.short_term.memories()
    since = sum(one.time_ms > (newest or 0) for one in memories)
    return await view.page(
        "health.html",
        findings=examination.findings,
        wrong=[finding for finding in examination.findings if finding.grade in ("warning", "error")],
        checked_ms=examination.at_ms,
        backups=backups[:PAGE],
        newest=newest,
        since=since,
        plans=plans,
        mended=await mended(view, dry_run=True) if view["repair"] else None,
        tenants=await asyncio.to_thread(view.site.tenants),
    )


async def examined(view: View, *, again: bool = False) -> Examination:
    """The findings, at most some minutes old."""
    examination = view.site.made.examination
    if again or examination is None or view.speech.now_ms - examination.at_ms > _FINDINGS_SECONDS * 1000:
        memories = view.call.memories
        findings = list(await memories.examine())
        for look in await memories.engines[0].examinations():
            findings += await look()
        examination = view.site.made.examination = Examination(tuple(findings), view.speech.now_ms)
    return examination
