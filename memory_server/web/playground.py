"""Triggers: what they wait for, and a place to try one on a chat, at a time, without storing anything."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.responses import Response

from memory_server.conversations.model import LongTermMemory
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.messages import Message, context_text
from memory_server.kernel.times import local
from memory_server.web.actions import first
from memory_server.web.charts import Piece, Strip, strip, underlined
from memory_server.web.pages import number, recorded
from memory_server.web.taking_back import places_of
from memory_server.web.triggers import told, watching
from memory_server.web.view import View, form_of
from sandbox import Failed, Fired, Operand, Problem, RunReport, chat
from sandbox.locale import _, foreign

_REPLAYED = 48
"""Stored memories on which a trigger is tried, the newest."""
_LOOKED_AT = 4 * _REPLAYED
"""The newest memories, of which some have no messages."""
TRY_SECONDS = 5.0
"""When the last run of one try begins; with 48 memories, an endless loop would take a minute and a half."""
_SEEDS = 2**32
_LISTED = 100
"""Triggers on one page."""


@dataclass(frozen=True, slots=True)
class Row:
    """An operand: whether it was true (None: not reached), what it says, how deep it is, what it was."""

    true: bool | None
    text: str
    depth: int
    value: str


@dataclass(frozen=True, slots=True)
class Tried:
    """What a trigger did. `verdict`: fired, quiet or failed. `heard`: the chat with the words that were found."""

    verdict: str
    because: str
    rows: Sequence[Row]
    heard: Sequence[tuple[str, Sequence[Piece]]]
    console: Sequence[str]
    problems: Sequence[Problem]
    strip: Strip | None
    fired: int
    replayed: int


async def triggers(view: View) -> Response:
    """`/triggers`: all that come up by themselves."""
    shelf, _unread = await view.conversation.long_term.with_shared()
    page = number(view["page"])
    shown = shelf.memories[page * _LISTED : (page + 1) * _LISTED]
    rows = await watching(view, [each.memory for each in shown], await recorded(view, view.conversation.id))
    where = {each.memory.name: each.conversation_id for each in shown}
    records = {each.memory.name: view.conversation.long_term.record_of(each.memory) for each in shown}
    more = view.link("triggers", page=page + 1) if len(shelf.memories) > (page + 1) * _LISTED else ""
    return await view.page(
        "triggers.html",
        triggers=await told(view, rows),
        where=where,
        records=records,
        total=len(shelf.memories),
        more=more,
    )


async def trigger(view: View) -> Response:
    """`/trigger`: the playground, with the trigger of that name, or one for a word."""
    kept, place = await _kept(view, view["name"]) if view["name"] else (None, "")
    form = await form_of(view.request) if view.request.method == "POST" else {}
    given: dict[str, str] = {
        "name": view["name"],
        "code": "" if kept is None else kept.trigger,
        "prompt": "" if kept is None else kept.prompt,
        "chat": "",
        "at": view.speech.local(view.speech.now_ms).strftime("%Y-%m-%dT%H:%M"),
        "zone": str(view.speech.zone or ""),
        "seed": "1",
    }
    if view["word"]:
        given |= await _written_for(view, view["word"], view["id"])
    given |= {name: first(form, name).replace("\r\n", "\n") for name in given if name in form}
    tried: Tried | None = None
    trouble = ""
    if form or given["code"]:
        try:
            tried = await _try(view, given)
        except InvalidInput as error:
            trouble = error.args[0]
    places = [] if kept is None else await places_of(view, "triggers", place, kept.name)
    return await view.page(
        "trigger.html", kept=kept, place=place, given=given, tried=tried, trouble=trouble, places=places
    )


async def _kept(view: View, name: str) -> tuple[LongTermMemory, str]:
    shelf, _unread = await view.conversation.long_term.with_shared()
    for each in shelf.memories:
        if each.memory.name == name:
            return each.memory, each.conversation_id
    raise MemoryNotFound("No trigger of this conversation has that name; the list shows those that there are.")


async def _written_for(view: View, word: str, memory_id: str) -> dict[str, str]:
    """A trigger that brings a memory whenever the word is said."""
    from sandbox import literals

    memories = await view.conversation.short_term.memories()
    prompt = next((memory.text for memory in memories if memory.id == memory_id), "")
    code = f"{literals.call('match_keys', [literals.string(word)])} > 0"
    return {"name": word, "code": code, "prompt": prompt, "chat": word}


async def _try(view: View, given: Mapping[str, str]) -> Tried:
    """A try runs in the tenant's turn of the sandbox, as searches do. Raises InvalidInput: the time, zone or seed
    cannot be used; TriggersUnavailable."""
    deadline = time.monotonic() + TRY_SECONDS
    now, seed = _moment_and_seed(view, given)
    messages = _messages_in(given["chat"])
    code = given["code"]
    context = {"messages": messages, "conversation_id": view.conversation.id, "participants": {}}
    trial = await view.call.memories.services.runner.try_out(code, context, now=now, seed=seed)
    report = trial.report
    words = _words_found(report)
    heard = [
        (
            view.speech.speaker(message["role"], message.get("name")),
            underlined(message["content"], dict.fromkeys(words, 1.0), 1.0),
        )
        for message in messages
    ]
    verdict = report.verdict
    replays = [] if isinstance(verdict, Failed) else await _replayed(view, code, seed, deadline)
    days = [(9 if replay.fired else 0, replay.title, None) for replay in replays]
    because = foreign(verdict.message) if isinstance(verdict, Failed) else _because(view, report, words)
    return Tried(
        verdict=type(verdict).__name__.lower(),
        because=view.say(because),
        rows=_rows(trial.operands, report),
        heard=heard,
        console=report.console[:20],
        problems=(*trial.check.errors, *trial.check.warnings),
        strip=strip(days, 430, 1, "") if len(days) > 1 else None,
        fired=sum(replay.fired for replay in replays),
        replayed=len(replays),
    )


def _moment_and_seed(view: View, given: Mapping[str, str]) -> tuple[datetime, int]:
    """Raises InvalidInput: the time, the zone or the seed cannot be read."""
    try:
        zone = ZoneInfo(given["zone"]) if given["zone"] else view.speech.zone
        moment = replace(view.speech, zone=zone).time_in_field(given["at"])
        seed = int(given["seed"] or "1")
    except (InvalidInput, ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            "The time, the zone or the seed cannot be read; write such as Asia/Shanghai and 1."
        ) from error
    return local(moment, zone), seed % _SEEDS


def _messages_in(typed: str) -> list[dict[str, Any]]:
    """The messages of a chat as it was typed; a text of another form is one message."""
    text = typed.strip()
    if not text:
        return []
    try:
        return [dict(message) for message in chat.parse(text)[0]]
    except chat.ChatError:
        return [{"role": "user", "content": text}]


def _words_found(report: RunReport) -> list[str]:
    """The words that match_keys found."""
    calls = [call for call in report.trace if "keys" in call]
    hits = [hit for call in calls for _key, hits in call["keys"] for hit in hits]
    return list(dict.fromkeys(other or text for _place, text, other in hits if text))


def _because(view: View, report: RunReport, words: Sequence[str]) -> str:
    if isinstance(report.verdict, Fired):
        if words:
            return _("Because {words} is said.", view.speech.words(words[:3]))
        return _("Because of the time: nothing that was said matters.")
    return _("No condition holds: none of its words is said, or it is not the time.")


def _rows(operands: Sequence[Operand], report: RunReport) -> list[Row]:
    end = report.trace[-1] if report.trace else {}
    if "operands" not in end:
        return []
    values = {row[0]: row[1:] for row in end["operands"]}
    ordered = sorted(operands, key=lambda operand: (operand.start, -operand.end))
    rows = list[Row]()
    for operand, next_one in zip_longest(ordered, ordered[1:]):
        times, last, value = values.get(operand.number, (0, 0, ""))
        has_parts = next_one is not None and next_one.depth > operand.depth
        is_plain = value in ("", "true", "false")
        shown_value = "" if is_plain else str(value)[:40]
        within_last = bool(rows) and rows[-1].depth == operand.depth - 1 and operand.text in rows[-1].text
        if within_last and not (is_plain and times):
            rows[-1] = replace(rows[-1], value=shown_value)  # the side of a comparison says what that found
        elif not (has_parts and is_plain and operand.depth == 0 and not operand.role and len(ordered) > 3):
            rows.append(Row(bool(last) if times else None, operand.text, min(operand.depth, 3), shown_value))
    return [replace(row, text=row.text[:60]) for row in rows[:24]]


@dataclass(frozen=True, slots=True)
class Replay:
    """A stored memory, and whether a trigger would have fired after it."""

    title: str
    fired: bool


async def _replayed(view: View, code: str, seed: int, deadline: float) -> list[Replay]:
    """What it would have done after each of the newest stored memories, oldest first, as far as the time goes."""
    memories = await view.conversation.short_term.memories()
    newest_first = [memory for memory in memories[-_LOOKED_AT:] if memory.messages][::-1]
    replays = list[Replay]()
    for memory in newest_first[:_REPLAYED]:
        if time.monotonic() >= deadline:
            break
        said = [_as_seen(message) for message in memory.messages]
        context = {"messages": said, "conversation_id": view.conversation.id, "participants": {}}
        verdicts = await view.call.memories.services.runner.evaluate(
            [code], context, now=view.speech.local(memory.time_ms), seed=seed
        )
        title = f"{view.speech.moment(memory.time_ms)} {view.speech.cut(context_text(memory.messages), 60)}"
        replays.append(Replay(title, isinstance(verdicts.get(0), Fired)))
    return replays[::-1]


def _as_seen(message: Message) -> dict[str, str]:
    """A message as a trigger sees it."""
    seen = {"role": message.role, "content": message.content}
    return seen | {"name": message.name} if message.name else seen
