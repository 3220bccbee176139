"""One memory, the past, a question to try, and the health of it all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import methodcaller

from starlette.responses import Response

from memory_server.conversations.archive import Archived
from memory_server.conversations.changes import Reinforced, change_id
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.insight import ExplainedMemory
from memory_server.conversations.model import Memory, ShortTermMemory, place_text
from memory_server.conversations.recall.retention import worth
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.lifecycle import PastChange
from memory_server.kernel.messages import Message
from memory_server.kernel.recorded_recall import recorded_recall
from memory_server.kernel.text import Finding
from memory_server.kernel.times import DAY_MS, milliseconds
from memory_server.knowledge.entry import EVERYTHING, Entry, Filter
from memory_server.knowledge.items import place_of
from memory_server.memories.recalls import Given, recall_line
from memory_server.web.charts import Curve, curve
from memory_server.web.pages import PAGE, asked_of, number, opened_receipt, recorded
from memory_server.web.receipts import ShownRecall, messages_of, spoken
from memory_server.web.taking_back import mended, places_of
from memory_server.web.view import View
from sandbox.locale import _

_COMMITS = (8, 16, 32, 64, 128, 256, 512)
"""How far back the uses of a memory are looked for. The first pages are small, for a commit of an import takes long to
read; they grow, for each is read from the newest commit on."""
_FINDINGS_SECONDS = 300.0


async def memory(view: View) -> Response:
    """`/memory`: one memory, whether it will stay, and what used it."""
    found, gone = await _found(view)
    recalls = [recall for recall in await recorded(view) if any(item.id == found.id for item in recall.came)]
    parameters = view.call.memories.services.parameters
    kept = await view.conversation.short_term.memories()
    uses = await _uses(view, found)
    again = None
    last_question = next((recall.said for recall in recalls if recall.said), "")
    if gone is None and last_question:
        again = await view.conversation.insight.explain([Message("user", last_question)], memory_id=found.id)
    year = found.time_ms + parameters.retention.max_age_ms
    limit = parameters.retention.min_relevance
    fades_ms = next(
        (at for at in _ahead(view.speech.now_ms, year) if worth(found, at, parameters.recall) < limit), year
    )
    curves = [] if gone is not None else [_curve(view, found, uses, width) for width in (620, 350)]
    return await view.page(
        "memory.html",
        memory=found,
        said=messages_of(found, {}, 1.0, view.speech),
        gone=gone,
        gone_until=None if gone is None else gone.at_ms + view.site.keep_ms,
        until=view.speech.now_ms + view.site.keep_ms,
        rows=asked_of(view, recalls[:PAGE]),
        used=len(recalls),
        curves=curves,
        fades=fades_ms,
        faded=worth(found, view.speech.now_ms, parameters.recall) < limit,
        always_kept=parameters.retention.always_kept,
        total=len(kept),
        again=again,
        needed=None if again is None or again.explanation is None else again.explanation.needed,
        editing=bool(view["edit"]),
        places=await places_of(view, "memories", view.conversation.id, found.id),
        muted=[view.say(place_text(place)) for place in found.muted],
    )


async def _found(view: View) -> tuple[ShortTermMemory, Archived | None]:
    """The memory that the address names; how it was removed, if it was."""
    wanted = view["id"]
    for one in await view.conversation.short_term.memories():
        if one.id == wanted:
            return one, None
    for entry in reversed(await view.conversation.archive.entries()):
        if isinstance(entry.memory, ShortTermMemory) and entry.memory.id == wanted:
            return entry.memory, entry
    raise MemoryNotFound("That memory is not here any more; it was erased, or it is in another conversation.")


async def _uses(view: View, found: ShortTermMemory) -> list[tuple[int, float, float]]:
    """When it was used: the time, and its score before and after, oldest first."""
    uses, before, left = list[tuple[int, float, float]](), None, found.score
    for limit in _COMMITS:
        if left <= 0:
            break
        commits = await view.conversation.archive.history(before=before, limit=limit)
        for commit in commits:
            for change in commit.changes:
                if isinstance(change, Reinforced) and change.id == found.id:
                    uses.append((commit.at_ms, change.before, change.after))
                    left = change.before
        if not commits or commits[-1].at_ms < found.time_ms:
            break
        before = change_id(view.conversation.id, commits[-1].version)
    return uses[::-1]


def _ahead(now_ms: int, until_ms: int) -> range:
    return range(now_ms, max(now_ms + 1, until_ms), DAY_MS)


def _curve(view: View, found: ShortTermMemory, uses: Sequence[tuple[int, float, float]], width: int) -> Curve:
    speech, parameters = view.speech, view.call.memories.services.parameters
    start = min(found.time_ms, speech.now_ms)
    span = max(speech.now_ms - start, 3 * DAY_MS)
    end = speech.now_ms + max(DAY_MS, span // 3)
    first = uses[0][1] if uses else found.score
    moments = sorted({start + (end - start) * step // 160 for step in range(161)} | {speech.now_ms})
    points, score, at = list[tuple[int, float]](), first, 0
    for moment in moments:
        while at < len(uses) and uses[at][0] <= moment:
            used_ms, before, after = uses[at]
            used_ms = max(start, used_ms)
            points += [
                (used_ms, worth(replace(found, score=one), used_ms, parameters.recall)) for one in (before, after)
            ]
            score, at = after, at + 1
        points.append((moment, worth(replace(found, score=score), moment, parameters.recall)))
    said = [(view.say(_("just said, clearest")), speech.date(start))]
    said += [
        (view.say(_("used, brighter") if number == 0 else _("used again")), speech.date(used_ms))
        for number, (used_ms, _before, _after) in enumerate(uses)
    ]
    turns = [
        (max(start, at_ms), worth(replace(found, score=after), at_ms, parameters.recall)) for at_ms, _b, after in uses
    ]
    return curve(start, turns, speech.now_ms, points, parameters.retention.min_relevance, width, said)


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
    texts = {(here, entry.memory.key): said_by(entry.memory) for entry in await view.conversation.archive.entries()}
    texts |= {(here, one.id): spoken(one) for one in await view.conversation.short_term.memories()}
    for scope, store in await view.call.memories.knowledge.places():
        entries: list[Entry] = await store.read(scope, lambda held: held.entries(EVERYTHING, limit=500))
        texts |= {(place_of(scope), str(each.id)): each.title or each.body for each in entries}
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
    changes = [each for each in sorted(changes, key=lambda one: -one.at_ms) if everything or not _is_use(each)]
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


def _is_use(change: PastChange) -> bool:
    return all(step.what in ("reinforced", "cleaned up") for step in change.steps)


async def ask(view: View) -> Response:
    """`/ask`: what would come if you said this, at a time; nothing is counted as used."""
    said, at, sought = view["q"].strip(), view["at"], view["id"]
    shown: ShownRecall | None = None
    why: ExplainedMemory | None = None
    if said:
        services = view.call.memories.services
        if at:
            try:
                moment = datetime.fromisoformat(at)
            except ValueError as error:
                raise InvalidInput("The time is not a date; choose one in the field.") from error
            then = milliseconds(moment.replace(tzinfo=view.speech.zone) if view.speech.zone else moment.astimezone())
            services = replace(services, clock=lambda: then)
        messages = [Message("user", line) for line in said.splitlines() if line.strip()]
        conversation = Conversations(services, usual=view.conversation.id).get(None)
        found = await conversation.short_term.search(messages, reinforce=False)
        activation = await conversation.long_term.search(messages)
        given = Given(conversation.id, messages, "", found.recall, activation)
        now = datetime.fromtimestamp(services.clock() / 1000, view.speech.zone)
        line = recall_line(given, {}, now.isoformat())
        if line is not None:
            recall = recorded_recall(line)
            by_right = [item for item in recall.came if item.tier != "flashback"]
            shown = await opened_receipt(view, replace(recall, came=by_right))
        if sought:
            is_id = len(sought) == 16 and all(char in "0123456789abcdef" for char in sought)
            named = {"memory_id" if is_id else "text": sought}
            why = await conversation.insight.explain(messages, memory_id=named.get("memory_id"), text=named.get("text"))
    return await view.page("ask.html", said=said, at=at, receipt=shown, why=why, sought=sought)


async def health(view: View) -> Response:
    """`/health`: what is found about the folder, the disk, the clock, the words and the sandbox."""
    findings, checked_ms = await examined(view, again=bool(view["again"]))
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
        findings=findings,
        wrong=[finding for finding in findings if finding.grade in ("warning", "error")],
        checked_ms=checked_ms,
        backups=backups[:PAGE],
        newest=newest,
        since=since,
        plans=plans,
        mended=await mended(view, dry_run=True) if view["repair"] else None,
        tenants=await asyncio.to_thread(view.site.tenants),
    )


async def examined(view: View, *, again: bool = False) -> tuple[Sequence[Finding], int]:
    """The findings, at most some minutes old, and when they were made."""
    known, now_ms = view.site.known, view.speech.now_ms
    at_ms = known.get("examined", 0)
    if again or not known.get("findings") or now_ms - at_ms > _FINDINGS_SECONDS * 1000:
        memories = view.call.memories
        found = list(await memories.examine())
        for look in await memories.engines[0].examinations():
            found += await look()
        known["findings"], known["examined"] = tuple(found), now_ms
    return known["findings"], known["examined"]
