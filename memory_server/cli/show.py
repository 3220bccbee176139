"""`show`: everything that is known about one memory, trigger or entry."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from memory_server.app import App
from memory_server.cli.inspection import SHOWN_NAMES, each, whereabouts, with_id
from memory_server.cli.terminal import console, escape, spoken, time_text, write
from memory_server.conversations import codec
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.model import LongTermMemory, ShortTermMemory
from memory_server.conversations.recall.receipts import age_text
from memory_server.conversations.recall.relevance import age_of
from memory_server.conversations.recall.words import shown_words, spelt_words
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.items import OF_CONVERSATIONS
from memory_server.kernel.other_words import found_by_text
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.entry import Entry, json_of
from nlp import is_kept
from sandbox import padded
from sandbox.locale import N_, _, joined, term, translated

MOST = 100
"""Memories at once: nobody reads more, and of a server other tenants wait meanwhile."""


async def show(app: App, flags: Namespace) -> None:
    """Everything that is known about the memories, triggers and entries of this id or name."""
    texts: list[str] = []
    rows: list[dict[str, Any]] = []
    if flags.family in (None, *OF_CONVERSATIONS):
        found = await with_id(app, flags, flags.memory)
        if len(found) > MOST:
            ids = ", ".join(memory.id for _, memory in found[:SHOWN_NAMES])
            raise InvalidInput(
                "{found} memories have an id that begins with `{memory}` ({ids}); write more of it.",
                len(found),
                flags.memory,
                ids,
            )
        for conversation, memory in found:
            if flags.family != "triggers":
                texts.append(_short_term(app, conversation.id, memory))
                words = {"keywords": shown_words(memory, len(memory.words))}
                rows.append(_whole("memories", conversation.id, codec.short_term_json(memory) | words))

        async def look(conversation: Conversation) -> None:
            for one in await conversation.long_term.memories():
                if one.name == flags.memory and flags.family != "memories":
                    texts.append(_long_term(app, conversation.id, one))
                    rows.append(_whole("triggers", conversation.id, codec.long_term_json(one)))

        await each(app, flags, _("looking"), look)
    if flags.family not in OF_CONVERSATIONS and not hasattr(flags, "conversation"):
        try:
            scope, entry = await app.knowledge.found(flags.memory)
        except MemoryNotFound:
            pass
        else:
            if flags.family in (None, scope.space):
                texts.append(entry_text(app, scope, entry))
                rows.append(_whole(scope.space, place_text(scope), json_of(entry)))
    if not texts:
        raise MemoryNotFound(
            "No memory has the id or name `{memory}`; {whereabouts}", flags.memory, await whereabouts(app)
        )
    for text, row in zip(texts, rows, strict=True):
        if flags.json:
            write(row)
        else:
            console().print(Text.from_markup(text))


def _whole(family: str, place: str, record: Mapping[str, Any]) -> dict[str, Any]:
    return {"family": family, "place": place, **record}


def _short_term(app: App, conversation_id: str, memory: ShortTermMemory) -> str:
    age, pinned = age_text(age_of(memory.time_ms, app.clock())), _(", pinned") if memory.pinned else ""
    pairs = zip(spelt_words(memory), memory.weights, strict=True)
    words = ", ".join(f"{word} {weight:.1f}" for word, weight in pairs if not is_kept(word))
    head = translated(
        _(
            "[bold]short-term memory {id}[/] in {conversation}\n"
            "time      {time} ({age} ago)\n"
            "score     {score:g}{pinned}\n"
            "keywords  {words}",
            memory.id,
            escape(conversation_id),
            time_text(memory.time_ms, app.settings.zone),
            age,
            memory.score,
            pinned,
            escape(words) or _("none"),
        )
    )
    others = translated(found_by_text(memory.other_words))
    return "\n".join(filter(None, (head, escape(others), escape(spoken(memory.text)))))


def _long_term(app: App, conversation_id: str, memory: LongTermMemory) -> str:
    zone = app.settings.zone
    updated = _(", updated {time}", time_text(memory.updated_ms, zone)) if memory.updated_ms else ""
    arose = f"\n{term('arose from')}\n{escape(memory.created_context)}" if memory.created_context else ""
    head = translated(
        _(
            "[bold]long-term memory {name}[/] in {conversation}\ncreated   {time}{updated}",
            escape(memory.name),
            escape(conversation_id),
            time_text(memory.created_ms, zone),
            updated,
        )
    )
    prompt = f"{padded('prompt', 9)} {escape(memory.prompt)}{arose}"
    return f"{head}\n{padded('trigger', 9)} {escape(memory.trigger)}\n{prompt}"


def place_text(scope: Scope, *more: str) -> str:
    return "/".join(filter(None, (scope.space, scope.owner, *more)))


def entry_text(app: App, scope: Scope, entry: Entry) -> str:
    zone = app.settings.zone
    facts = {
        _("number"): scope.space != "layers" and entry.id,
        _("file") if scope.space == "layers" else _("id"): entry.ref,
        _("where"): place_text(scope, entry.kind),
        _("project"): entry.project,
        _("tags"): ", ".join(entry.tags),
        _("source"): entry.source,
        _("used"): entry.uses and _("{uses} times, last {time}", entry.uses, time_text(entry.accessed_ms, zone)),
        _("confidence"): f"{entry.confidence:g}",
        _("made"): time_text(entry.created_ms, zone),
        _("changed"): _("{time}, version {version}", time_text(entry.updated_ms, zone), entry.version),
        _("ends"): entry.expires_ms and time_text(entry.expires_ms, zone),
        _("archived"): entry.archived_ms
        and joined(", ", (time_text(entry.archived_ms, zone), _(entry.reason or N_("unused")))),
    }
    lines = [f"[bold]{escape(entry.title or entry.ref)}[/]"]
    lines += [f"{padded(name, 11)}{escape(str(value))}" for name, value in facts.items() if value]
    return "\n".join([*lines, "", escape("\n\n".join((entry.body, *entry.examples)))])
