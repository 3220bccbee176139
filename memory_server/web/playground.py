"""Triggers: what they wait for, and a place to try one on a chat, at a time, without storing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.responses import Response

from memory_server.conversations.model import LongTermMemory
from memory_server.conversations.trigger_runner import sandbox_errors
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.messages import context_text
from memory_server.web.actions import first
from memory_server.web.charts import Piece, Strip, strip, underlined
from memory_server.web.pages import recorded
from memory_server.web.taking_back import places_of
from memory_server.web.triggers import watching
from memory_server.web.view import View, form_of
from sandbox import Problem
from sandbox.chats.chat import ChatError
from sandbox.chats.plain import parse
from sandbox.locale import _, foreign
from sandbox.verdicts import Failed, Fired, RunReport

_REPLAYED = 48
"""Stored memories on which a trigger is tried, the newest."""


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
    place: str = ""


async def triggers(view: View) -> Response:
    """`/triggers`: all that come up by themselves."""
    shelf, _unread = await view.conversation.long_term.with_shared()
    found = await watching(view, [each.memory for each in shelf.memories], await recorded(view, view.conversation.id))
    where = {each.memory.name: each.conversation_id for each in shelf.memories}
    records = {each.memory.name: view.conversation.long_term.record_of(each.memory) for each in shelf.memories}
    return await view.page("triggers.html", triggers=found, where=where, records=records)


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
    tried, trouble = None, ""
    if form or given["code"]:
        try:
            tried = await _try(view, given)
        except (InvalidInput, ChatError) as error:
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
    from sandbox.javascript.literals import call, string

    kept = {one.id: one.text for one in await view.conversation.short_term.memories()}
    code = f"{call('match_keys', [string(word)])} > 0"
    return {"name": word, "code": code, "prompt": kept.get(memory_id, ""), "chat": word}


async def _try(view: View, given: Mapping[str, str]) -> Tried:
    """Raises InvalidInput: the time, zone or seed cannot be used; ChatError: the chat cannot be read."""
    try:
        zone = ZoneInfo(given["zone"]) if given["zone"] else view.speech.zone
        now = datetime.fromisoformat(given["at"]).replace(tzinfo=zone)
        seed = int(given["seed"] or "1")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            "The time, the zone or the seed cannot be read; write such as Asia/Shanghai and 1."
        ) from error
    text = given["chat"].strip()
    messages: list[dict[str, Any]] = []
    if text:
        try:
            messages = [dict(one) for one in parse(text)[0]]
        except ChatError:
            messages = [{"role": "user", "content": text}]
    from sandbox.workbench.explain import copy_of

    code, sandbox = given["code"], view.site.sandbox
    context = {"messages": messages, "conversation_id": view.conversation.id, "participants": {}}
    with sandbox_errors():
        report = await sandbox.run(code, context, now=now, seed=seed, copy=copy_of(code))
        checked = await sandbox.check(code, context if messages else None, now=now, seed=seed)
    found = _found(report)
    heard = [
        (
            view.speech.speaker(one["role"], one.get("name")),
            underlined(one["content"], dict.fromkeys(found, 1.0), 1.0),
        )
        for one in messages
    ]
    days, fired = await _replayed(view, code, seed)
    verdict = report.verdict
    because = foreign(verdict.message) if isinstance(verdict, Failed) else _because(view, report, found)
    place = f"{verdict.line}:{verdict.column}" if isinstance(verdict, Failed) and verdict.line is not None else ""
    return Tried(
        type(verdict).__name__.lower(),
        view.say(because),
        _rows(code, report),
        heard,
        report.console[:20],
        (*checked.errors, *checked.warnings),
        strip(days, 430, 1, "") if len(days) > 1 else None,
        fired,
        len(days),
        place,
    )


def _found(report: RunReport) -> list[str]:
    """The words that match_keys found."""
    calls = [call for call in report.trace if "keys" in call]
    hits = [hit for call in calls for _key, hits in call["keys"] for hit in hits]
    return list(dict.fromkeys(other or text for _place, text, other in hits if text))


def _because(view: View, report: RunReport, found: Sequence[str]) -> str:
    if isinstance(report.verdict, Fired):
        if found:
            return _("Because {words} is said.", view.speech.words(found[:3]))
        return _("Because of the time: nothing that was said matters.")
    return _("No condition holds: none of its words is said, or it is not the time.")


def _rows(code: str, report: RunReport) -> list[Row]:
    from sandbox.javascript import syntax
    from sandbox.workbench.explain import operands

    end = report.trace[-1] if report.trace else {}
    if "operands" not in end:
        return []
    values = {row[0]: row[1:] for row in end["operands"]}
    found = sorted(operands(syntax.parse(code)), key=lambda operand: (operand.start, -operand.end))
    rows = list[Row]()
    for number, one in enumerate(found):
        times, last, value = values.get(one.number, (0, 0, ""))
        parts = number + 1 < len(found) and found[number + 1].depth > one.depth
        plain = value in ("", "true", "false")
        if rows and not (plain and times) and rows[-1].depth == one.depth - 1 and one.text in rows[-1].text:
            rows[-1] = replace(
                rows[-1], value="" if plain else str(value)[:40]
            )  # the side of a comparison says what that found
        elif not (parts and plain and one.depth == 0 and not one.role and len(found) > 3):
            rows.append(
                Row(bool(last) if times else None, one.text, min(one.depth, 3), "" if plain else str(value)[:40])
            )
    return [replace(row, text=row.text[:60]) for row in rows[:24]]


async def _replayed(view: View, code: str, seed: int) -> tuple[list[tuple[int, str, str | None]], int]:
    """What it would have done after each of the newest stored memories."""
    kept = [one for one in await view.conversation.short_term.memories() if one.messages][-_REPLAYED:]

    async def fires(messages: Sequence[Any], at_ms: int) -> bool:
        said = [{"role": m.role, "content": m.content} | ({"name": m.name} if m.name else {}) for m in messages]
        context = {"messages": said, "conversation_id": view.conversation.id, "participants": {}}
        ran = await view.call.memories.services.runner.evaluate(
            [code], context, now=view.speech.local(at_ms), seed=seed
        )
        return isinstance(ran.get(0), Fired)

    hits = []
    for one in kept:
        hits.append(await fires(one.messages, one.time_ms))
        await asyncio.sleep(0)
    titles = [f"{view.speech.moment(one.time_ms)} {view.speech.cut(context_text(one.messages), 60)}" for one in kept]
    return [(9 if hit else 0, title, None) for hit, title in zip(hits, titles, strict=True)], sum(hits)
