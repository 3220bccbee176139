"""What commands share that look into conversations: all of them, or the one that `-c` names; and `explain`."""

from __future__ import annotations

import secrets
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from textwrap import indent
from typing import Any

from rich.console import Console

from memory_server.app import App
from memory_server.cli.call_tool import called
from memory_server.cli.recalls import receipt
from memory_server.cli.terminal import complain, console, escape, spoken, time_text, watched, write
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.items import LEAST_ID_CHARS
from sandbox import padded
from sandbox.locale import _, foreign, term

Act = Callable[[Conversation], Awaitable[None]]
"""What a command does with a conversation."""
SHOWN_NAMES = 10


async def chosen(app: App, flags: Namespace) -> list[str]:
    """The conversation that `-c` names, or all. Raises InvalidInput: there is no such conversation."""
    names, only = await app.conversations.ids(), getattr(flags, "conversation", None)
    if only is None:
        return names
    name = app.conversation(only).id
    if name not in names:
        raise InvalidInput("There is no conversation {name}; {whereabouts}", name, await whereabouts(app))
    return [name]


async def whereabouts(app: App) -> str:
    """Where something would be, for an answer that is empty."""
    names: list[str] = list(await app.conversations.ids())
    for place, held in (await app.knowledge.overview(layers=True)).items():
        names += [f"{place} ({held.count})"] if held.count else []
    if names:
        return _("{place} holds {names}.", app.home.shown, shown_names(names))
    tenants = app.home.tenant_names()
    if tenants:
        names_text = shown_names(tenants)
        return _("{place} holds only tenants ({names}); --tenant NAME looks into one.", app.home.shown, names_text)
    return _("nothing is stored in {place} yet.", app.home.place)


def shown_names(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    first = ", ".join(names[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return _("{names} and {count} more", first, more) if more > 0 else first


async def not_copied(app: App, *, layers: bool) -> list[str]:
    """Sentences about what a copy of this memory does not hold: tenants and, unless it takes them, `layers`."""
    said: list[str] = []
    held = {} if layers else await app.knowledge.overview(layers=True)
    if places := [str(one.folder.place) for one in app.knowledge.layers.known if f"layers/{one.name}" in held]:
        said.append(_("Not in it: the layers, which are files of their own in {places}", ", ".join(places)))
    if tenants := app.home.tenant_names():
        said.append(_("Not in it: the tenants {names}; --tenant NAME takes one", shown_names(tenants)))
    return said


async def each(app: App, flags: Namespace, doing: str, act: Act) -> tuple[int, int]:
    """Act on all conversations, or on the one that `-c` names; one of many that cannot be read or written is reported
    and skipped. Returns how many there were and how many failed. Raises StorageError if the one that was named cannot
    be read or written, InvalidInput if it does not exist."""
    names, failed = await chosen(app, flags), 0
    for name in watched(doing, names, len(names)):
        try:
            await act(app.conversation(name))
        except StorageError as error:
            if hasattr(flags, "conversation"):
                raise
            complain(str(error))
            failed += 1
    return len(names), failed


def taken_text(place: str, counts: str, *, dry_run: bool, change_id: str | None = None) -> str:
    """`tea: 3 new, 1 replaced (change 4-37a8)`: what a restore or an import did to a place, or would do, as markup."""
    if dry_run:
        return _("[bold]{place}[/] would get {counts}", escape(place), counts)
    change = _(" (change {change_id})", change_id) if change_id else ""
    return _("[bold]{place}[/]: {counts}{change}", escape(place), counts, change)


async def with_id(app: App, flags: Namespace, begins: str) -> list[tuple[Conversation, ShortTermMemory]]:
    """The short-term memories whose id begins like this, each with its conversation."""
    found: list[tuple[Conversation, ShortTermMemory]] = []

    async def look(conversation: Conversation) -> None:
        memories = await conversation.short_term.memories()
        found.extend((conversation, memory) for memory in memories if memory.id.startswith(begins))

    await each(app, flags, _("looking"), look)
    return found


async def explain(app: App, flags: Namespace) -> None:
    """Explain the memory with an id that begins like this, as a search of its own conversation sees it, or the one that
    shares most with these words, as a search of all conversations does."""
    if flags.recall is not None:
        await receipt(app, flags)
        return
    if flags.memory is None or not flags.ask:
        raise InvalidInput("Name a memory and give --ask; or give --recall ID, which `memory-server recalls` shows.")
    asked: dict[str, Any] = {"recentMessages": [{"role": "user", "content": text} for text in flags.ask]}
    asked |= {} if flags.scope is None else {"scope": flags.scope}
    asked |= {} if flags.other_words is None else {"otherWords": flags.other_words}
    sought = flags.memory
    known = await with_id(app, flags, sought) if len(sought) >= LEAST_ID_CHARS else []
    if known:
        asked |= {"memory_id": known[0][1].id, "conversation_id": known[0][0].id}
    elif place := await _archived(app, flags, sought):
        asked |= {"memory_id": place[1], "conversation_id": place[0]}
    else:
        names = await chosen(app, flags)
        where = {"conversation_id": names[0]} if len(names) == 1 else {"scope": "all"} if names else {}
        asked = {"text": sought} | where | asked
    # In a session of its own, as `recall` asks: otherwise it would hold back what `recall` brings.
    answer = await called(app, "explain_recall", asked, flags.names, session=secrets.token_hex(8))
    if flags.json:
        write(answer.structured)
    else:
        console().print(escape(answer.text))


async def _archived(app: App, flags: Namespace, begins: str) -> tuple[str, str] | None:
    """The conversation and the id of a removed memory whose id begins like this."""
    for name in await chosen(app, flags) if len(begins) >= LEAST_ID_CHARS else ():
        for entry in await app.conversation(name).archive.entries():
            if isinstance(entry.memory, ShortTermMemory) and entry.memory.id.startswith(begins):
                return name, entry.memory.id
    return None


_TIERS = (
    ("topRelevant", _("top"), "green"),
    ("nextRelevant", _("next"), "cyan"),
    ("randomFlashback", _("flashback"), "magenta"),
)


async def ask(
    app: App, out: Console, conversation_id: str, messages: Sequence[Mapping[str, Any]], title: str, *, why: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Print what both searches give for these messages under a heading, and `why`; the results: short-term,
    long-term."""
    common = {"conversation_id": conversation_id}
    short = await called(app, "search_short_term_memories", {**common, "recentMessages": messages})
    long = await called(app, "search_long_term_memories", {**common, "messages": messages})
    out.print(f"[bold]── {escape(title)} ──[/]")
    for message in messages:
        out.print(f"[bold]{escape(message.get('name') or term(message['role']))}:[/] {escape(message['content'])}")
    _print_recall(out, short.structured, long.structured, app.settings.zone, why=why)
    return short.structured, long.structured


def _print_recall(
    out: Console, short: Mapping[str, Any], long: Mapping[str, Any], zone: tzinfo | None, *, why: bool
) -> None:
    """Both results, one block a memory: tier, time, `why`, text; without `why` only what comes unasked."""
    tiers = {tier: [item for item in short[tier[0]] if why or not item.get("weak")] for tier in _TIERS}
    for (_key, tier, colour), items in tiers.items():
        for item in items:
            moment = time_text(round(datetime.fromisoformat(item["timestamp"]).timestamp() * 1000), zone)
            reason = f"  [dim]{item['relevance']:.1f} = {escape(item['why'])}[/]" if why else ""
            out.print(f"  [{colour}]{padded(tier, 9)}[/] {moment}{reason}")
            out.print(escape(indent(spoken(item["text"]), " " * 12)))
    if short.get("note"):
        out.print(f"  [yellow]{escape(short['note'])}[/]")
    searched, held = short["totalSearched"], short["heldBack"]
    counts = _(
        "  [dim]searched {total_searched}; held back {too_recent} too recent, {same_moment} of the same moment[/]",
        searched,
        held["tooRecent"],
        held["sameMoment"],
    )
    if why:
        out.print(counts)
    elif not any((*tiers.values(), long["activated"], long["random"])):
        out.print(_("  [dim]nothing comes to mind[/]"))
    for memory in long["activated"]:
        out.print(_("  [bold red]fired[/]     {name}: {prompt}", escape(memory["name"]), escape(memory["prompt"])))
    for memory in long["random"]:
        out.print(_("  [dim]by chance {name}[/]", escape(memory["name"])))
    for failed in long["failed"]:
        what = _(
            "{name}: {kind}, {reason}",
            escape(failed["name"]),
            failed["kind"],
            escape(foreign(failed["message"])),
        )
        out.print(f"  [yellow]{padded('failed', 9)} {what}[/]")
    if long.get("note"):
        out.print(f"  [yellow]{escape(long['note'])}[/]")
    out.print()
