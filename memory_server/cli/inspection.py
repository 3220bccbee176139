"""Looking into a data folder: `list`, `show`, `search`, `explain`, `history`, `where`.

Each looks at all conversations, or at the one that `-c` names.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from textwrap import indent
from typing import Any

from rich.console import Console
from rich.text import Text

from memory_server.app import App
from memory_server.cli.call_tool import called
from memory_server.cli.commands import OF_TOOL
from memory_server.cli.project_file import project_at
from memory_server.cli.recalls import receipt
from memory_server.cli.terminal import clipped, complain, console, escape, print_columns, time_text, watched
from memory_server.config import default_config_file, named_config_file
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.model import LongTermMemory, ShortTermMemory
from memory_server.conversations.recall.relevance import age_of, age_text
from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.lifecycle import LEAST_ID_CHARS, HistoryStep, Lifecycle, engine_of
from memory_server.kernel.recalled_block import one_line
from memory_server.shared_process.control import describe, running
from sandbox.language import padded
from sandbox.locale import _, counted, foreign, joined, term, translated

Act = Callable[[Conversation], Awaitable[None]]
"""What a command does with a conversation."""
SHOWN_CELLS = 70
SHOWN_NAMES = 10


async def chosen(app: App, flags: Namespace) -> list[str]:
    """The conversation that `-c` names, or all. Raises InvalidInput: there is no such conversation."""
    names, only = await app.conversations.ids(), getattr(flags, "conversation", None)
    if only is None:
        return names
    name = app.conversation(only).id
    if name not in names:
        raise InvalidInput("There is no conversation {name}; {whereabouts}", name, _whereabouts(app, names))
    return [name]


def _whereabouts(app: App, names: Sequence[str]) -> str:
    """Where something would be, for an answer that is empty."""
    if not names:
        return _("nothing is stored in {place} yet.", app.home.place)
    more = _(" and {names} more", len(names) - SHOWN_NAMES) if len(names) > SHOWN_NAMES else ""
    return _("{place} holds {names}{more}.", app.home.place, ", ".join(names[:SHOWN_NAMES]), more)


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


def tally_text(tally: MergeCounts) -> str:
    """`3 new, 1 replaced`: what a restore or an import did, in words."""
    parts = (
        (tally.added, _("{count} new", tally.added)),
        (tally.replaced, _("{count} replaced", tally.replaced)),
        (tally.removed, _("{count} removed", tally.removed)),
        (tally.unchanged, _("{count} unchanged", tally.unchanged)),
        (tally.kept_newer, _("{count} newer here and kept", tally.kept_newer)),
    )
    return joined(", ", (said for count, said in parts if count)) or _("nothing")


async def list_(app: App, flags: Namespace) -> None:
    """The conversations, or the memories of one, if only one holds something or was named."""
    rows = [(_("conversation"), _("short-term"), _("long-term"), _("newest"))]

    async def add(conversation: Conversation) -> None:
        figures = await conversation.short_term.statistics()
        triggers = len(await conversation.long_term.memories())
        newest = time_text(figures.newest_ms, app.settings.zone)
        rows.append((conversation.id, str(figures.total), str(triggers), newest))

    await each(app, flags, _("reading"), add)
    if len(rows) > 1 and not hasattr(flags, "conversation"):
        print_columns(rows)
    if len(rows) == 1:
        console().print(_("No conversations in {place} yet.", escape(str(app.home.place))))
    elif len(rows) == 2:
        await _list_memories(app, app.conversation(rows[1][0]))


async def _list_memories(app: App, conversation: Conversation) -> None:
    zone, out = app.settings.zone, console()
    short = [(_("id"), _("time"), _("score"), _("text"))]
    long = [(_("name"), _("created"), _("trigger"))]
    for memory in await conversation.short_term.memories():
        pinned = " " + term(_("pinned")) if memory.pinned else ""
        text = clipped(memory.text, SHOWN_CELLS)
        short.append((memory.id, time_text(memory.time_ms, zone), f"{memory.score:g}{pinned}", text))
    kept = await conversation.long_term.memories()
    long += [(one.name, time_text(one.created_ms, zone), clipped(one.trigger, SHOWN_CELLS)) for one in kept]
    for rows in (short, long):
        if len(rows) > 1:
            print_columns(rows)
    figures = await conversation.short_term.statistics()
    if figures.average_score is not None:
        counts = counted(figures.total, "short-term memory")
        scores = _(
            "scores {lowest_score:g} to {highest_score:g}, mean {average_score:.4g}",
            figures.lowest_score,
            figures.highest_score,
            figures.average_score,
        )
        out.print(
            _(
                "{counts} from {time} to {time2}; {scores}.",
                counts,
                time_text(figures.oldest_ms, zone),
                time_text(figures.newest_ms, zone),
                scores,
            )
        )
    if figures.damaged:
        out.print(
            _("[yellow]A file of it was damaged, and pieces were set aside; `memory-server doctor` says which.[/]")
        )
    elif len(short) == len(long) == 1:
        out.print(_("Nothing is stored in the conversation {id}.", escape(conversation.id)))


async def with_id(app: App, flags: Namespace, begins: str) -> list[tuple[Conversation, ShortTermMemory]]:
    """The short-term memories whose id begins like this, each with its conversation."""
    found: list[tuple[Conversation, ShortTermMemory]] = []

    async def look(conversation: Conversation) -> None:
        memories = await conversation.short_term.memories()
        found.extend((conversation, memory) for memory in memories if memory.id.startswith(begins))

    await each(app, flags, _("looking"), look)
    return found


async def search(app: App, flags: Namespace) -> None:
    names = await chosen(app, flags)
    asked = {name.removeprefix(OF_TOOL): value for name, value in vars(flags).items() if name.startswith(OF_TOOL)}
    if not hasattr(flags, "conversation"):
        asked.setdefault("scope", "all")
    answer = await called(app, "search_memories", asked, flags.names)
    console().print(escape(answer.text))
    if not answer.structured["total_found"]:
        holds = _whereabouts(app, await app.conversations.ids())
        looked = _("Looked in {names}; {holds}", ", ".join(names[:SHOWN_NAMES]), holds) if names else holds
        console().print(escape(looked))


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
    console().print(escape((await called(app, "explain_recall", asked, flags.names)).text))


async def _archived(app: App, flags: Namespace, begins: str) -> tuple[str, str] | None:
    """The conversation and the id of a removed memory whose id begins like this."""
    for name in await chosen(app, flags) if len(begins) >= LEAST_ID_CHARS else ():
        for entry in await app.conversation(name).archive.entries():
            if isinstance(entry.memory, ShortTermMemory) and entry.memory.id.startswith(begins):
                return name, entry.memory.id
    return None


async def history(app: App, flags: Namespace) -> None:
    if flags.limit < 1:
        raise InvalidInput("--limit must be at least 1 change.")
    only = (await chosen(app, flags))[0] if hasattr(flags, "conversation") else None
    engines: Sequence[Lifecycle] = app.memories.engines
    if flags.before is not None:
        engines = [engine_of(engines, flags.before)]
    found = [
        change
        for engine in engines
        if only is None or engine.keeps == "conversations"
        for change in await engine.history(only, before=flags.before, limit=flags.limit + 1)
    ]
    found.sort(key=lambda change: -change.at_ms)
    # Each conversation has a sequence of its own, and all knowledge has one.
    places = {engine.keeps: await engine.places() for engine in engines if only is None}
    before = flags.before is not None or only is not None
    several = not before and sum(map(len, places.values())) > 1
    one_sequence = before or len(places.get("conversations", ())) + bool(places.get("knowledge")) == 1
    out = console()
    for change in found[: flags.limit]:
        in_it = " " + translated(_("in {place}", change.place)) if several else ""
        steps = "; ".join(map(step_text, change.steps))
        when = time_text(change.at_ms, app.settings.zone)
        out.print(escape(f"{change.id} {when}{in_it} {change.by}: {steps}"))
    if not found:
        out.print(_("No change is in the history; {whereabouts}", escape(_whereabouts(app, await chosen(app, flags)))))
    elif len(found) > flags.limit:
        last = found[flags.limit - 1].id
        out.print(_("More: --before {last}", last) if one_sequence else _("More: -c ID, or a larger --limit"))


def step_text(step: HistoryStep) -> str:
    """What a step of a change did, in the language of the reader; texts of users stay as they are."""
    text = term(step.text) if step.what == "reinforced" and step.text else step.text
    return one_line(" ".join(filter(None, (term(step.what), step.id, f"- {text}" if text else None))))


async def show(app: App, flags: Namespace) -> None:
    found = [_short_term(app, place.id, memory) for place, memory in await with_id(app, flags, flags.memory)]

    async def look(conversation: Conversation) -> None:
        long = await conversation.long_term.memories()
        found.extend(_long_term(app, conversation.id, one) for one in long if one.name == flags.memory)

    await each(app, flags, "looking", look)
    if not found:
        raise MemoryNotFound(
            "No memory has the id or name `{memory}`; {whereabouts}",
            flags.memory,
            _whereabouts(app, await chosen(app, flags)),
        )
    for text in found:
        console().print(Text.from_markup(text))


def _short_term(app: App, conversation_id: str, memory: ShortTermMemory) -> str:
    age, pinned = age_text(age_of(memory.time_ms, app.clock())), _(", pinned") if memory.pinned else ""
    words = ", ".join(f"{w} {x:.1f}" for w, x in zip(memory.words, memory.weights, strict=True))
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
    return f"{head}\n{escape(memory.text)}"


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


async def where(app: App, flags: Namespace) -> None:
    out = console()
    out.print(
        _("memories  {place}\nsettings  {settings_file}", escape(str(app.home.place)), escape(_settings_file(flags)))
    )
    if (project := project_at()) is not None:
        out.print(
            _(
                "here      {conversation}, set by {path} for servers and hooks",
                escape(project.conversation),
                escape(str(project.path)),
            )
        )
    if (pause := app.paused()) is not None:
        out.print(escape(pause.text(app.settings.zone)))
    for place, known in running():
        out.print(f"{padded('shared', 10)}{escape(describe(place, known))}")
    for space, figures in (await app.knowledge.overview()).items():
        out.print(
            _(
                "knowledge {space}: {number:,}, and {archived:,} in the archive",
                escape(space),
                figures.count,
                figures.archived,
            )
        )
    for name in await app.conversations.ids():
        out.print(f"{escape(name)}\t{escape(str(app.home.conversations.folder(name)))}")


def _settings_file(flags: Namespace) -> str:
    path = Path(getattr(flags, "config", None) or named_config_file(os.environ) or default_config_file())
    return str(path) if path.is_file() else _("{path} (no such file: defaults apply)", path)


_TIERS = (
    ("topRelevant", _("top"), "green"),
    ("nextRelevant", _("next"), "cyan"),
    ("randomFlashback", _("flashback"), "magenta"),
)


async def ask(
    app: App, out: Console, conversation_id: str, messages: Sequence[Mapping[str, Any]], title: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Print what both searches give for these messages under a heading; the results: short-term, long-term."""
    common = {"conversation_id": conversation_id}
    short = await called(app, "search_short_term_memories", {**common, "recentMessages": messages})
    long = await called(app, "search_long_term_memories", {**common, "messages": messages})
    out.print(f"[bold]── {escape(title)} ──[/]")
    for message in messages:
        out.print(f"[bold]{escape(message.get('name') or message['role'])}:[/] {escape(message['content'])}")
    _print_recall(out, short.structured, long.structured, app.settings.zone)
    return short.structured, long.structured


def _print_recall(out: Console, short: Mapping[str, Any], long: Mapping[str, Any], zone: tzinfo | None) -> None:
    """Both results, one block a memory: tier, time, why, text."""
    for key, tier, colour in _TIERS:
        for item in short[key]:
            moment = time_text(round(datetime.fromisoformat(item["timestamp"]).timestamp() * 1000), zone)
            why = escape(item["why"])
            out.print(f"  [{colour}]{padded(tier, 9)}[/] {moment}  [dim]{item['relevance']:.1f} = {why}[/]")
            out.print(escape(indent(item["text"], " " * 12)))
    if short.get("note"):
        out.print(f"  [yellow]{escape(short['note'])}[/]")
    held = short["heldBack"]
    out.print(
        _(
            "  [dim]searched {total_searched}; held back {too_recent} too recent, {same_moment} of the same moment[/]",
            short["totalSearched"],
            held["tooRecent"],
            held["sameMoment"],
        )
    )
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
