"""Triggers: what they wait for, and a place to try one on a chat, at a time, without storing anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.responses import Response

from languages import _, foreign
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.trigger_search import Activation, trigger_context
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.messages import Message, context_text
from memory_server.kernel.times import local
from memory_server.kernel.values import JsonObject, frozen
from memory_server.lore import PromptFit, Shelved, reason_text, rules_text
from memory_server.memories.turns import MAX_CHARS, prompt_room, recalled_block
from memory_server.web.actions import first
from memory_server.web.charts import Day, Piece, Strip, strip, underlined
from memory_server.web.pages import number, recorded, rows_of_page
from memory_server.web.taking_back import places_of
from memory_server.web.triggers import told, watching
from memory_server.web.view import View, form_of
from sandbox import Failed, Fired, Operand, Problem, RunReport, chat

_REPLAYED = 48
"""Stored memories on which a trigger is tried, the newest."""
_LOOKED_AT = 4 * _REPLAYED
"""The newest memories, of which some have no messages."""
TRY_SECONDS = 5.0
"""Seconds after the try itself in which replays may begin; with 48 memories, an endless loop would take a minute and a half."""
_SEEDS = 2**32
"""The seeds that a worker takes: from 0 to this number."""
_STRIP_WIDTH = 430
"""Pixels of the strip of replays."""
_FULL = 9
"""How much a dot shows on which the trigger fired: as much as a full dot."""
_LISTED = 100
"""Triggers on one page."""
_MOST_LINES = 20
"""Lines of the console that are shown."""
_NAMED_WORDS = 3
"""Words that the reason names."""
_MOST_ROWS = 24
"""Operands that are shown."""
_MOST_DEPTH = 3
"""Steps by which an operand is indented, at most."""
_FEW_OPERANDS = 3
"""With so many, the whole verdict is shown too."""
_OPERAND_CHARS = 60
"""Characters of an operand that are shown."""
_VALUE_CHARS = 40
"""Characters of a value that are shown."""
_TITLE_CHARS = 60
"""Characters of a stored memory in the title of its dot."""


@frozen
class Row:
    """An operand: whether it was true (None: not reached), what it says, how deep it is, what it was."""

    true: bool | None
    text: str
    depth: int
    value: str


@frozen
class TrialResult:
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
    """Return the page `/triggers`: all triggers of the conversation, its lorebooks, and which of
    them a message would bring."""
    shelf, _unread = await view.conversation.long_term.with_shared()
    own = [shelved for shelved in shelf.all if shelved.memory.book is None]
    page = rows_of_page(view, own, "triggers", _LISTED)
    rows = await watching(
        view, [shelved.memory for shelved in page.rows], await recorded(view, view.conversation.id)
    )
    records = {
        shelved.memory.name: view.conversation.long_term.record_of(shelved.memory)
        for shelved in page.rows
    }
    return await view.page(
        "triggers.html",
        triggers=await told(view, rows),
        records=records,
        total=len(own),
        more=page.more,
        books=await view.conversation.books.listed(),
        say=view["say"],
        room=_room(view),
        message_count=view["messages"],
        tried=await _tried_message(view),
    )


def _room(view: View) -> int:
    """Return the characters of the prompt, as the address says."""
    return number(view["room"]) or MAX_CHARS


async def _tried_message(view: View) -> WouldFire | None:
    """Return what the message of the address would bring, or None without a message."""
    messages = _messages_in(view["say"].replace("\r\n", "\n"))
    if not messages:
        return None
    message_count = number(view["messages"]) if view["messages"] else None
    return await would_fire(view, messages, max_chars=_room(view), message_count=message_count)


async def trigger(view: View) -> Response:
    """Return the page `/trigger`: the playground, with the trigger of that name, or a trigger for a
    word, and the result of a try if there is code. Raises MemoryNotFound."""
    stored: Shelved | None = None
    if view["name"]:
        stored = await _stored(view, view["name"])

    fields = await _fields(view, stored)
    form: JsonObject = {}
    if view.request.method == "POST":
        form = await form_of(view.request)

    # What was typed is shown again, also after an error.
    for name in fields.keys() & form.keys():
        fields[name] = first(form, name).replace("\r\n", "\n")

    tried: TrialResult | None = None
    trouble = ""
    if form or fields["code"]:
        try:
            tried = await _try(view, fields)
        except InvalidInput as error:
            trouble = str(error)

    about_stored: dict[str, Any] = {"kept": None, "rules": "", "place": "", "places": []}
    if stored is not None:
        about_stored = {
            "kept": stored.memory,
            "rules": rules_text(stored.memory.rules),
            "place": stored.conversation_id,
            "places": await places_of(view, "triggers", stored.conversation_id, stored.memory.name),
        }

    return await view.page(
        "trigger.html", given=fields, tried=tried, trouble=trouble, **about_stored
    )


async def _fields(view: View, stored: Shelved | None) -> dict[str, str]:
    """Return what the fields of the form hold at first: the stored trigger, or a trigger for the word of the address."""
    fields = {
        "name": view["name"],
        "code": "",
        "prompt": "",
        "chat": "",
        "at": view.speech.local(view.speech.now_ms).strftime("%Y-%m-%dT%H:%M"),
        "zone": str(view.speech.zone or ""),
        "seed": "1",
    }
    if stored is not None:
        fields |= {"code": stored.memory.trigger, "prompt": stored.memory.prompt}
    if view["word"]:
        fields |= await _written_for(view, view["word"], view["id"])
    return fields


async def _stored(view: View, name: str) -> Shelved:
    """Find the trigger with this name. Raises MemoryNotFound."""
    shelf, _unread = await view.conversation.long_term.with_shared()
    for shelved in shelf.all:
        if shelved.memory.name == name:
            return shelved
    raise MemoryNotFound(
        "No trigger of this conversation has that name; the list shows all triggers."
    )


async def _written_for(view: View, word: str, memory_id: str) -> dict[str, str]:
    """Write a trigger that brings a memory whenever the word is said."""
    from sandbox import literals

    memories = await view.conversation.short_term.memories()
    prompt = next((memory.text for memory in memories if memory.id == memory_id), "")
    code = f"{literals.call('match_keys', [literals.string(word)])} > 0"
    return {"name": word, "code": code, "prompt": prompt, "chat": word}


async def _try(view: View, fields: Mapping[str, str]) -> TrialResult:
    """Try a trigger in the tenant's turn of the sandbox, as searches do. Raises InvalidInput: the time, zone or seed
    cannot be used; TriggersUnavailable."""
    now, seed = _moment_and_seed(view, fields)
    messages = _messages_in(fields["chat"])
    code = fields["code"]
    context = trigger_context(messages, view.conversation.id, {})
    trial = await view.call.memories.services.runner.try_out(code, context, now=now, seed=seed)
    # It begins here: before, a worker had to start, and others may have had their turn.
    deadline = time.monotonic() + TRY_SECONDS
    report = trial.report
    matched_words = _matched_words(report)
    replays: Sequence[Replay] = ()
    if isinstance(report.verdict, Failed):
        because = foreign(report.verdict.message)
    else:
        because = _because(view, report, matched_words)
        replays = await _replayed(view, code, seed, deadline)

    days = [Day(_FULL if replay.fired else 0, replay.title, None) for replay in replays]
    return TrialResult(
        verdict=type(report.verdict).__name__.lower(),
        because=because,
        rows=_rows(trial.operands, report),
        heard=_underlined_messages(view, messages, matched_words),
        console=report.console[:_MOST_LINES],
        problems=(*trial.check.errors, *trial.check.warnings),
        strip=strip(days, _STRIP_WIDTH, 1, "") if len(days) > 1 else None,
        fired=sum(replay.fired for replay in replays),
        replayed=len(replays),
    )


def _underlined_messages(
    view: View, messages: Sequence[Message], words: Sequence[str]
) -> list[tuple[str, Sequence[Piece]]]:
    """Return who said each message, and its pieces, with these words underlined."""
    weights = dict.fromkeys(words, 1.0)
    heard: list[tuple[str, Sequence[Piece]]] = []
    for message in messages:
        speaker = view.speech.speaker(message.role, message.name)
        heard.append((speaker, underlined(message.content, weights, 1.0)))
    return heard


def _moment_and_seed(view: View, fields: Mapping[str, str]) -> tuple[datetime, int]:
    """Read the moment and the seed. Raises InvalidInput: the time, the zone or the seed cannot be read."""
    try:
        zone = ZoneInfo(fields["zone"]) if fields["zone"] else view.speech.zone
        moment = replace(view.speech, zone=zone).time_in_field(fields["at"])
        seed = int(fields["seed"] or "1")
    except (InvalidInput, ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            "The time, the zone or the seed cannot be read; write for example Asia/Shanghai and 1."
        ) from error
    return local(moment, zone), seed % _SEEDS


def _messages_in(typed: str) -> list[Message]:
    """Read the messages of a chat as it was typed; a text of another form is one message."""
    text = typed.strip()
    if not text:
        return []
    try:
        messages = chat.parse(text)[0]
    except chat.ChatError:
        return [Message("user", text)]
    return [
        Message(message["role"], message["content"], message.get("timestamp"), message.get("name"))
        for message in messages
    ]


def _matched_words(report: RunReport) -> list[str]:
    """Return the words that match_keys found, each once, as they are written."""
    words: list[str] = []
    for call in report.trace:
        for _key, hits in call.get("keys", ()):
            words += [written or text for _place, text, written in hits if text]
    return list(dict.fromkeys(words))


def _because(view: View, report: RunReport, words: Sequence[str]) -> str:
    """Say why the trigger fired or did not. `words`: the words that match_keys found."""
    has_fired = isinstance(report.verdict, Fired)
    if has_fired and words:
        return _("Because {words} was said.", view.speech.words(words[:_NAMED_WORDS]))
    if has_fired:
        return _("Because of the time; it does not depend on what was said.")
    return _("No condition is met: none of its words was said, or it is not the time.")


def _rows(operands: Sequence[Operand], report: RunReport) -> list[Row]:
    """Return what each operand was when the trigger ran, in the order of the text, at most
    `_MOST_ROWS`; nothing without a trace. The side of a comparison is joined to it."""
    last_note = report.trace[-1] if report.trace else {}
    if "operands" not in last_note:
        return []

    values = {row[0]: row[1:] for row in last_note["operands"]}
    ordered = sorted(operands, key=lambda operand: (operand.start, -operand.end))
    rows: list[Row] = []
    for operand, next_operand in zip_longest(ordered, ordered[1:]):
        times, last, value = values.get(operand.number, (0, 0, ""))
        is_plain = value in ("", "true", "false")
        shown_value = "" if is_plain else str(value)[:_VALUE_CHARS]
        is_side_of_last = (
            bool(rows) and rows[-1].depth == operand.depth - 1 and operand.text in rows[-1].text
        )
        has_truth_value = is_plain and times > 0
        if is_side_of_last and not has_truth_value:
            rows[-1] = replace(
                rows[-1], value=shown_value
            )  # the side of a comparison says what that found
            continue

        has_parts = next_operand is not None and next_operand.depth > operand.depth
        is_whole_verdict = operand.depth == 0 and not operand.role
        if has_parts and is_plain and is_whole_verdict and len(ordered) > _FEW_OPERANDS:
            continue  # its parts say it

        was_true = bool(last) if times else None
        rows.append(
            Row(was_true, operand.text, depth=min(operand.depth, _MOST_DEPTH), value=shown_value)
        )

    return [replace(row, text=row.text[:_OPERAND_CHARS]) for row in rows[:_MOST_ROWS]]


@frozen
class Replay:
    """A stored memory, and whether a trigger would have fired after it."""

    title: str
    fired: bool


async def _replayed(view: View, code: str, seed: int, deadline: float) -> list[Replay]:
    """Return what it would have done after each of the newest stored memories, oldest first, as far as the time goes."""
    memories = await view.conversation.short_term.memories()
    newest_first = [memory for memory in memories[-_LOOKED_AT:] if memory.messages][::-1]
    replays: list[Replay] = []
    for memory in newest_first[:_REPLAYED]:
        if time.monotonic() >= deadline:
            break
        context = trigger_context(memory.messages, view.conversation.id, {})
        verdicts = await view.call.memories.services.runner.evaluate(
            [code], context, now=view.speech.local(memory.time_ms), seed=seed
        )
        beginning = view.speech.cut(context_text(memory.messages), _TITLE_CHARS)
        title = f"{view.speech.moment(memory.time_ms)} {beginning}"
        replays.append(Replay(title, isinstance(verdicts.get(0), Fired)))
    return replays[::-1]


_LEAST_CHARS = 200
_MOST_CHARS = 50_000
"""The room that a reader may try, as for the tool `recall_turn`."""
_MOST_FIRED_ROWS = 200
"""Rows that are shown, where no more memories come."""


@frozen
class FiringRow:
    """A memory whose trigger fired. `chars`: the length of its text, or 0 if it was not counted. `why`: the reason
    why it is left out, or "" if it comes. `is_cut`: only its beginning has room."""

    name: str
    place: str
    order: float
    chars: int = 0
    why: str = ""
    is_cut: bool = False


@frozen
class WouldFire:
    """What a message would bring. `rows`: in the order in which they take room, then memories that their rules hold
    back; `more`: how many of the last rows are not shown. `used`: characters that the memories take; of the `room`,
    at least `least` characters are for them. `text`: the block as a model would read it; `failed`: the names of
    triggers that failed."""

    rows: Sequence[FiringRow]
    more: int
    used: int
    least: int
    room: int
    text: str
    failed: Sequence[str]


async def would_fire(
    view: View,
    messages: Sequence[Message],
    *,
    max_chars: int,
    message_count: int | None,
) -> WouldFire:
    """Return what the messages would bring with so much room, in a chat of so many messages, or in a session that
    says nothing of it."""
    room = min(_MOST_CHARS, max(_LEAST_CHARS, max_chars))
    # A try must give the same each time, and must not count as use.
    request = RecallRequest(messages, flashbacks=0, message_count=message_count, reinforce=False)
    short_term = await view.conversation.short_term.search(request)
    activation = await view.conversation.long_term.search(request)
    block = await asyncio.to_thread(
        recalled_block, view.call.memories, short_term, activation, prompt_room(room)
    )
    rows = [*_fitted(activation, block.fitting), *_held_back(activation)]
    shown = max(_MOST_FIRED_ROWS, len(block.fitting.texts))
    return WouldFire(
        rows=rows[:shown],
        more=max(0, len(rows) - shown),
        used=block.fitting.chars,
        least=prompt_room(room).long_term,
        room=room,
        text=block.text,
        failed=[shelved.memory.name for shelved, _failure in activation.failed],
    )


def _fitted(activation: Activation, fitting: PromptFit) -> Iterator[FiringRow]:
    """Yield the memories that their rules let come: memories with room, and memories without."""
    texts = {_key(text.entry): text for text in fitting.texts}
    left_out = {_key(text.entry): text for text in fitting.left_out}
    for shelved in activation.activated:
        memory = shelved.memory
        text = texts.get(_key(shelved))
        without_room = left_out.get(_key(shelved))
        yield FiringRow(
            name=memory.name,
            place=shelved.conversation_id,
            order=memory.rules.order,
            chars=len(memory.prompt),
            why="" if without_room is None else reason_text(without_room.reason),
            is_cut=text is not None and text.is_cut,
        )


def _held_back(activation: Activation) -> Iterator[FiringRow]:
    """Yield the memories whose triggers fired and whose rules held them back, with the reason."""
    for held_memory in activation.held_back:
        memory = held_memory.shelved.memory
        why = reason_text(held_memory.reason)
        yield FiringRow(
            memory.name,
            held_memory.shelved.conversation_id,
            memory.rules.order,
            len(memory.prompt),
            why,
        )


def _key(shelved: Shelved) -> tuple[str, str]:
    return shelved.conversation_id, shelved.memory.name
