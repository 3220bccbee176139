"""`list`, `search` and `history`: one view over all families of memories, newest first.

Each looks at all places, or at the conversation that `-c` names, or at one --family.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.text import Text

from memory_server.app import App
from memory_server.cli.call_tool import called
from memory_server.cli.inspection import SHOWN_NAMES, chosen, each, whereabouts
from memory_server.cli.search_arguments import OF_TOOL
from memory_server.cli.terminal import (
    TEXT_CELLS,
    clipped,
    console,
    escape,
    hint,
    print_columns,
    spoken,
    time_text,
    write,
)
from memory_server.conversations.conversation import Conversation
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import FAMILIES, OF_CONVERSATIONS, Item, Sought
from memory_server.kernel.lifecycle import Kept, Lifecycle, PastChange, engine_of
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.text import beginning
from memory_server.kernel.times import iso
from memory_server.tools.archive import HistoryEntry
from memory_server.tools.base.result import SHOWN_ZONE
from memory_server.tools.base.shapes import moment_ms
from sandbox.locale import _, counted, joined, term

USUAL_LIMIT = 50
"""Rows of a list where nothing else is asked for: a screen or two."""
_OF_ENTRIES = frozenset(
    (
        "query",
        "keywords",
        "otherWords",
        "date_from",
        "date_to",
        "archived",
        "sort_by",
        "order",
        "limit",
        "offset",
        "scope",
    )
)
"""Arguments of `search_memories` that entries can meet, too."""


async def found(app: App, flags: Namespace, sought: Sought) -> list[Item]:
    """What is meant, newest first; a conversation that cannot be read is reported and passed over. Raises InvalidInput:
    the conversation of `-c` does not exist, or what is sought is in no conversation."""
    conversations, knowledge = app.memories.engines
    items: list[Item] = []

    async def look(conversation: Conversation) -> None:
        items.extend(await conversations.find(replace(sought, place=conversation.id)))

    named = hasattr(flags, "conversation")
    if sought.family in (None, *OF_CONVERSATIONS) and sought.user is None:
        await each(app, flags, _("looking"), look)
    elif named:
        raise InvalidInput("{family} are in no conversation; leave -c out.", sought.family or "sessions")
    if sought.family not in OF_CONVERSATIONS and not named:
        items += await knowledge.find(sought)
    return sorted(items, key=lambda item: -item.at_ms)


def print_items(app: App, items: Sequence[Item], flags: Namespace, nothing: str) -> None:
    shown = items[: limit_of(flags)]
    if flags.json:
        for item in shown:
            write(item_json(item))
    elif shown:
        rows = [(_("id"), _("where"), _("time"), _("title"), _("text"))]
        for item in shown:
            when = time_text(item.at_ms, app.settings.zone)
            title = "" if item.title == item.id else clipped(item.title, 30)
            where = item.place if not item.project else f"{item.place} ({item.project})"
            rows.append((item.id, where, when, title, clipped(spoken(item.text), TEXT_CELLS)))
        print_columns(rows)
    else:
        console().print(nothing)
    hint_more(len(items) - len(shown))


def nothing_text(family: str | None, *, archived: bool, narrowed: bool = False) -> str:
    """What is said of an empty list. `narrowed`: words or a user were given, so others may be there."""
    if archived:
        return _("Nothing like that is in the archive.")
    if narrowed:
        return _("No entry matches.")
    return _("No {family} yet.", _(family)) if family else _("No entries yet.")


def item_json(item: Item) -> dict[str, Any]:
    fields = {"family": item.family, "place": item.place, "id": item.id, "at": iso(item.at_ms), "title": item.title}
    if item.project:
        fields["project"] = item.project
    return fields | {"text": item.text, "archived": item.archived}


def limit_of(flags: Namespace, usual: int = USUAL_LIMIT) -> int:
    """Raises InvalidInput: it is below 1."""
    if flags.limit is not None and flags.limit < 1:
        raise InvalidInput("--limit must be at least 1.")
    return flags.limit or usual


def hint_more(count: int) -> None:
    if count > 0:
        hint(_("{count} more: a larger --limit shows them", count))


# --- list ----------------------------------------------------------------------------------------------------


async def list_(app: App, flags: Namespace) -> None:
    """The places, and the memories of the only conversation or of the one that was named; or the items of a family."""
    limit, named = limit_of(flags), hasattr(flags, "conversation")
    if flags.family or flags.archived or (named and flags.json):
        sought = Sought(family=flags.family, archived=flags.archived)
        print_items(app, await found(app, flags, sought), flags, nothing_text(flags.family, archived=flags.archived))
        return
    if (pause := app.paused()) is not None and not flags.json:
        console().print(escape(pause.text(app.settings.zone)))
    places: list[tuple[str, int, int, int | None]] = []

    async def add(conversation: Conversation) -> None:
        figures, triggers = await conversation.short_term.statistics(), await conversation.long_term.memories()
        times = [one.updated_ms or one.created_ms for one in triggers]
        newest_ms = max(filter(None, (figures.newest_ms, *times)), default=None)
        places.append((conversation.id, figures.total, len(triggers), newest_ms))

    await each(app, flags, _("reading"), add)
    places.sort(key=lambda row: -(row[3] or 0))
    if named:
        await _list_memories(app, app.conversation(places[0][0]), limit)
        return
    held = sorted((await app.knowledge.overview(layers=True)).items(), key=lambda row: -(row[1].newest_ms or 0))
    if flags.json:
        for name, short, long, newest_ms in places[:limit]:
            write({"place": name, "memories": short, "triggers": long, "newest": newest_ms and iso(newest_ms)})
        for name, figures in held[: max(0, limit - len(places))]:
            newest_ms = figures.newest_ms
            write({"place": name, "entries": figures.count, "newest": newest_ms and iso(newest_ms)})
        return
    zone = app.settings.zone
    if places:
        rows = [(name, str(short), str(long), time_text(at, zone)) for name, short, long, at in places[:limit]]
        print_columns([(_("conversation"), _("short-term"), _("long-term"), _("last said")), *rows])
        hint_more(len(places) - limit)
    if held:
        of_family = [(name, str(one.count), time_text(one.newest_ms, zone)) for name, one in held[:limit]]
        print_columns([(_("family"), _("entries"), _("newest")), *of_family])
        hint(_("--family shows the entries of one: {families}", ", ".join(FAMILIES)))
    if len(places) == 1:
        await _list_memories(app, app.conversation(places[0][0]), limit)
    tenants = app.home.tenant_names()
    if tenants and (places or held):
        hint(_("also the tenants {names}; --tenant NAME looks into one", ", ".join(tenants)))
    elif not (places or held):
        none = _("No conversations in {place} yet.", escape(app.home.shown))
        console().print(escape(await whereabouts(app)) if tenants else none)


async def _list_memories(app: App, conversation: Conversation, limit: int) -> None:
    zone, out = app.settings.zone, console()
    short = [(_("id"), _("time"), _("score"), _("text"))]
    long = [(_("name"), _("created"), _("trigger"))]
    held = sorted(await conversation.short_term.memories(), key=lambda memory: -memory.time_ms)
    for memory in held[:limit]:
        pinned = " " + term(_("pinned")) if memory.pinned else ""
        text = clipped(spoken(memory.text), TEXT_CELLS)
        short.append((memory.id, time_text(memory.time_ms, zone), f"{memory.score:g}{pinned}", text))
    kept = sorted(await conversation.long_term.memories(), key=lambda memory: -memory.created_ms)
    long += [(one.name, time_text(one.created_ms, zone), clipped(one.trigger, TEXT_CELLS)) for one in kept[:limit]]
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
    hint_more(max(len(held), len(kept)) - limit)
    if figures.damaged:
        damaged = _(
            "A file or line of the conversation was damaged and is set aside; `memory-server doctor` says which."
        )
        out.print(f"[yellow]{damaged}[/]")
    elif len(short) == len(long) == 1:
        out.print(_("Nothing is stored in the conversation {id}.", escape(conversation.id)))


# --- search --------------------------------------------------------------------------------------------------


async def search(app: App, flags: Namespace) -> None:
    """Memories and triggers as `search_memories` finds them, and the entries of other families that hold all words."""
    asked = {name.removeprefix(OF_TOOL): value for name, value in vars(flags).items() if name.startswith(OF_TOOL)}
    names, total, out = await chosen(app, flags), 0, console()
    if flags.family in (None, *OF_CONVERSATIONS):
        if flags.family is not None:
            asked["memory_type"] = "long_term" if flags.family == "triggers" else "short_term"
        if not hasattr(flags, "conversation"):
            asked.setdefault("scope", "all")
        answer = await called(app, "search_memories", asked, flags.names)
        total = answer.structured["total_found"]
        for hit in answer.structured["results"] if flags.json else ():
            write(_hit_json(hit))
        if total and not flags.json:
            out.print(escape(answer.text))
    entries = await _entries(app, flags, asked)
    shown = entries[asked.get("offset", 0) :][: asked.get("limit", 20)]
    for item in shown:
        if flags.json:
            write(item_json(item))
        else:
            when = time_text(item.at_ms, app.settings.zone)
            out.print(Text(f"{when} {item.id} {term(_('in {place}', item.place))}"))
            out.print(Text(f"  {one_line(beginning(joined(': ', filter(None, (item.title, item.text)))))}"))
    if flags.json:
        return
    if entries:
        out.print(_("{entries} found, {shown} shown.", counted(len(entries), "entry"), len(shown)))
    elif not total:
        out.print(_("{memories} found, {results} shown.{more}", counted(0, "memory"), 0, ""))
        holds = await whereabouts(app)
        looked = _("Looked in {names}; {holds}", ", ".join(names[:SHOWN_NAMES]), holds) if names else holds
        out.print(escape(looked))


async def _entries(app: App, flags: Namespace, asked: Mapping[str, Any]) -> list[Item]:
    """Notes, facts, entries of layers and refs. None comes where a condition is asked that only memories can meet.
    Other words count only where there are no words that all must be held: then one of these texts is enough."""
    if flags.family in OF_CONVERSATIONS or not _OF_ENTRIES.issuperset(asked):
        return []
    if flags.family is None and hasattr(flags, "conversation"):
        return []
    zone, words = app.settings.zone, tuple(asked.get("query", "").split())
    sought = Sought(
        words=words or tuple(asked.get("keywords", ())),
        family=flags.family,
        since_ms=moment_ms("--since", asked.get("date_from"), zone),
        until_ms=moment_ms("--until", asked.get("date_to"), zone, end=True),
        archived=bool(asked.get("archived")),
    )
    items = await found(app, flags, sought) if flags.family else await app.memories.engines[1].find(sought)
    others = asked.get("otherWords", ())
    if others and not sought.words:
        meant = {item.key for text in others for item in replace(sought, words=tuple(text.split())).among(items)}
        items = [item for item in items if item.key in meant]
    return items[::-1] if asked.get("order") == "asc" else items


def _hit_json(hit: Mapping[str, Any]) -> dict[str, Any]:
    short_term = hit["memory_type"] == "short_term"
    fields = {"family": "memories" if short_term else "triggers", "place": hit["conversation_id"]}
    fields |= {"id": hit["id"] if short_term else hit["name"], "at": hit["timestamp"]}
    fields["text"] = hit["text"] if short_term else hit["prompt"]
    return fields | {
        name: hit[name] for name in ("relevance", "score", "matched", "keywords", "trigger") if name in hit
    }


# --- history -------------------------------------------------------------------------------------------------


USUAL_STEPS = 100
"""Steps of a change that are shown."""


def engines_of(app: App, flags: Namespace, keeps: Kept | None = None) -> Sequence[Lifecycle]:
    """The engines whose changes are meant: by `keeps`, by --family, by -c, or by --before; otherwise all. Raises
    InvalidInput: the family has no history."""
    engines: Sequence[Lifecycle] = app.memories.engines
    if getattr(flags, "before", None) is not None:
        engines = [engine_of(engines, flags.before)]
    if flags.family == "layers":
        raise InvalidInput("The files of layers have no history here; git keeps one where they are in a repository.")
    named = hasattr(flags, "conversation")
    if flags.family is not None or named:
        keeps = "conversations" if named or flags.family in OF_CONVERSATIONS else "knowledge"
    return [engine for engine in engines if keeps in (None, engine.keeps)]


async def past_changes(
    engines: Sequence[Lifecycle], flags: Namespace, conversation: str | None, *, limit: int, most_steps: int
) -> list[PastChange]:
    """The newest changes of these engines first: up to `limit` of each place that is looked at, each with up to
    `most_steps` of its steps."""
    changes: list[PastChange] = []
    before = getattr(flags, "before", None)
    for engine in engines:
        places: Sequence[str | None] = [conversation]
        if flags.family is not None and engine.keeps == "knowledge":
            places = [place for place in await engine.places() if place.partition("/")[0] == flags.family]
        for place in places:
            changes += await engine.history(place, before=before, limit=limit, most_steps=most_steps)
    return sorted(changes, key=lambda change: -change.at_ms)


async def history(app: App, flags: Namespace, keeps: Kept | None = None) -> None:
    """The changes of all engines, or of the one that `keeps` this."""
    limit = limit_of(flags, 20)
    most_steps = USUAL_STEPS if flags.steps is None else max(1, flags.steps)
    only = (await chosen(app, flags))[0] if hasattr(flags, "conversation") else None
    engines = engines_of(app, flags, keeps)
    changes = await past_changes(engines, flags, only, limit=limit + 1, most_steps=most_steps)
    if flags.json:
        for change in changes[:limit]:
            line = {"change": change.id, "place": change.place, "at": iso(change.at_ms), "by": change.by}
            more = {"moreSteps": change.more_steps} if change.more_steps else {}
            write(line | {"steps": list(map(asdict, change.steps))} | more)
        return
    SHOWN_ZONE.set(app.settings.zone)
    # Each conversation has a sequence of its own, and all knowledge has one.
    places = {engine.keeps: await engine.places() for engine in engines if only is None}
    before = flags.before is not None or only is not None
    several = not before and sum(map(len, places.values())) > 1
    one_sequence = before or len(places.get("conversations", ())) + bool(places.get("knowledge")) == 1
    out = console()
    for change in changes[:limit]:
        out.print(escape(HistoryEntry.of(change).line(change.place if several else "")))
    if any(change.more_steps for change in changes[:limit]):
        hint(_("A larger --steps shows more steps of a change."))
    if not changes:
        out.print(_("No change is in the history; {whereabouts}", escape(await whereabouts(app))))
    elif len(changes) > limit:
        last = changes[limit - 1].id
        hint(_("More: --before {last}", last) if one_sequence else _("More: -c ID, or a larger --limit"))
