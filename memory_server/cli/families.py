"""List and search all families of memories in one view, newest first (`list` and `search`).

Each command looks at all places, or at the conversation that `-c` names, or at one --family.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any

from languages import N_, _, counted
from memory_server.cli.call_tool import called
from memory_server.cli.inspection import chosen, for_each_conversation
from memory_server.cli.search_arguments import OF_TOOL
from memory_server.cli.terminal import (
    TEXT_CELLS,
    clipped,
    console,
    hint,
    print_columns,
    print_plain,
    say,
    spoken,
    time_text,
)
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.short_term import Statistics
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import FAMILIES, OF_CONVERSATIONS, Item, ItemFilter
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.streams import write
from memory_server.kernel.text import beginning
from memory_server.kernel.times import iso
from memory_server.kernel.values import JsonObject, frozen
from memory_server.knowledge.entry import Figures
from memory_server.operations.whereabouts import SHOWN_NAMES, whereabouts
from memory_server.runtime.app import CallerView
from memory_server.tools.base.shapes import moment_ms

USUAL_LIMIT = 50
"""Rows of a list if the user sets no limit: a screen or two."""
_OF_MEMORIES = ("min_score", "max_score", "tags", "memory_type")
"""Arguments of `search_memories` that entries do not have."""


async def sought_items(view: CallerView, flags: Namespace, sought: ItemFilter) -> list[Item]:
    """Find the items that are meant, newest first. Report and skip a conversation that cannot be read. Raises
    InvalidInput if the conversation of `-c` does not exist, or if the wanted family is not kept in conversations."""
    conversations, knowledge = view.memories.engines
    has_conversation_flag = hasattr(flags, "conversation")
    items: list[Item] = []

    async def look(conversation: Conversation) -> None:
        items.extend(await conversations.find(replace(sought, place=conversation.id)))

    may_be_in_conversations = sought.family is None or sought.family in OF_CONVERSATIONS
    if may_be_in_conversations and sought.user is None:
        await for_each_conversation(view, flags, _("looking"), look)
    elif has_conversation_flag:
        raise InvalidInput(
            "{family} do not belong to a conversation; leave -c out.", sought.family or "sessions"
        )

    if sought.family not in OF_CONVERSATIONS and not has_conversation_flag:
        items += await knowledge.find(sought)
    return sorted(items, key=lambda item: -item.at_ms)


def print_items(
    view: CallerView,
    items: Sequence[Item],
    flags: Namespace,
    nothing: str,
    json_of: Callable[[Item], dict[str, Any]] | None = None,
) -> None:
    """Print the first items as a table, or as JSON lines that `json_of` may make, and hint at how many more there are.
    `nothing` is the sentence for an empty list. Raises InvalidInput if --limit is below 1."""
    shown = items[: limit_of(flags)]
    if flags.json:
        for item in shown:
            write((json_of or item_json)(item))
    elif shown:
        heading = N_(("id", "where", "time", "title", "text"))
        rows = [_item_row(item, view.zone) for item in shown]
        print_columns([heading, *rows])
    else:
        console().print(nothing)

    hint_more(len(items) - len(shown))


def _item_row(item: Item, zone: tzinfo | None) -> tuple[str, str, str, str, str]:
    """Return the cells of an item. The title is empty if it is the id; the place names a project
    too."""
    title = ""
    if item.title != item.id:
        title = clipped(item.title, 30)
    where = item.place
    if item.project:
        where = f"{item.place} ({item.project})"
    return (
        item.id,
        where,
        time_text(item.at_ms, zone),
        title,
        clipped(spoken(item.text), TEXT_CELLS),
    )


def nothing_text(family: str | None, *, archived: bool, narrowed: bool = False) -> str:
    """Return the sentence for an empty list. `narrowed` means that words or a user were given, so other items may
    exist."""
    if archived:
        return _("The archive has no matching entry.")
    if narrowed:
        return _("No entry matches.")
    if family:
        return _("No {family} yet.", _(family))
    return _("No entries yet.")


@frozen
class _ConversationRow:
    """The figures of a conversation in `list`."""

    conversation_id: str
    memories: int
    triggers: int
    newest_ms: int | None


def item_json(item: Item) -> dict[str, Any]:
    """Return an item as `--json` prints it."""
    fields = {
        "family": item.family,
        "place": item.place,
        "id": item.id,
        "at": iso(item.at_ms),
        "title": item.title,
    }
    if item.project:
        fields["project"] = item.project
    return fields | {"text": item.text, "archived": item.archived}


def limit_of(flags: Namespace, usual: int = USUAL_LIMIT) -> int:
    """Return how many rows to show. Raises InvalidInput if the typed number is below 1."""
    if flags.limit is not None and flags.limit < 1:
        raise InvalidInput("--limit must be at least 1.")
    return flags.limit or usual


def hint_more(count: int) -> None:
    if count > 0:
        hint("{count} more: a larger --limit shows them", count)


# --- list ----------------------------------------------------------------------------------------------------


async def list_(view: CallerView, flags: Namespace) -> None:
    """List the places, with the memories of the only or the named conversation; or list the items
    of a family. Raises InvalidInput if the conversation does not exist, the family is not kept in
    conversations, or --limit is below 1."""
    limit = limit_of(flags)
    has_conversation_flag = hasattr(flags, "conversation")
    if flags.family or flags.archived or (has_conversation_flag and flags.json):
        sought = ItemFilter(family=flags.family, archived=flags.archived)
        items = await sought_items(view, flags, sought)
        print_items(view, items, flags, nothing_text(flags.family, archived=flags.archived))
        return

    pause = view.paused()
    if pause is not None and not flags.json:
        print_plain(pause.text(view.zone))

    conversations = await _conversation_rows(view, flags)
    if has_conversation_flag:
        await _list_memories(view, view.conversation(conversations[0].conversation_id), limit)
        return
    overview = await view.knowledge.overview(layers=True)
    figures_of_scopes = sorted(overview.items(), key=lambda item: -(item[1].newest_ms or 0))

    if flags.json:
        _write_places(conversations, figures_of_scopes, limit)
        return

    _print_places(conversations, figures_of_scopes, limit, zone=view.zone)

    # With a single conversation, the user most likely wants its memories.
    if len(conversations) == 1:
        await _list_memories(view, view.conversation(conversations[0].conversation_id), limit)

    # Memories that a user misses often belong to a tenant.
    tenants = view.home.tenant_names()
    if conversations or figures_of_scopes:
        if tenants:
            hint(
                "there are also the tenants {names}; use --tenant NAME for one of them",
                ", ".join(tenants),
            )
    elif tenants:
        print_plain(await whereabouts(view))
    else:
        say("No conversations in {place} yet.", view.home.shown)


async def _conversation_rows(view: CallerView, flags: Namespace) -> list[_ConversationRow]:
    """Count what each conversation holds, or only the conversation that `-c` names. Newest first; one
    that cannot be read is reported and left out. Raises InvalidInput if the named one does not exist,
    StorageError if it cannot be read."""
    rows: list[_ConversationRow] = []

    async def add(conversation: Conversation) -> None:
        figures = await conversation.short_term.statistics()
        triggers = await conversation.long_term.memories()
        times_ms = [trigger.updated_ms or trigger.created_ms for trigger in triggers]
        if figures.newest_ms:
            times_ms.append(figures.newest_ms)
        newest_ms = max(filter(None, times_ms), default=None)
        rows.append(_ConversationRow(conversation.id, figures.total, len(triggers), newest_ms))

    await for_each_conversation(view, flags, _("reading"), add)
    return sorted(rows, key=lambda row: -(row.newest_ms or 0))


def _write_places(
    conversations: Sequence[_ConversationRow],
    figures_of_scopes: Sequence[tuple[str, Figures]],
    limit: int,
) -> None:
    """Write the first `limit` places as JSON lines: the conversations, then the families."""
    for row in conversations[:limit]:
        newest = row.newest_ms and iso(row.newest_ms)
        write(
            {
                "place": row.conversation_id,
                "memories": row.memories,
                "triggers": row.triggers,
                "newest": newest,
            }
        )

    # The limit counts conversations and families together.
    room = max(0, limit - len(conversations))
    for name, figures in figures_of_scopes[:room]:
        newest = figures.newest_ms and iso(figures.newest_ms)
        write({"place": name, "entries": figures.count, "newest": newest})


def _print_places(
    conversations: Sequence[_ConversationRow],
    figures_of_scopes: Sequence[tuple[str, Figures]],
    limit: int,
    *,
    zone: tzinfo | None,
) -> None:
    """Print a table of the conversations and a table of the families, each with at most `limit`
    rows; no table where there are none."""
    if conversations:
        conversation_table = [N_(("conversation", "short-term", "long-term", "last said"))]
        for row in conversations[:limit]:
            newest = time_text(row.newest_ms, zone)
            conversation_table.append(
                (row.conversation_id, str(row.memories), str(row.triggers), newest)
            )
        print_columns(conversation_table)
        hint_more(len(conversations) - limit)

    if figures_of_scopes:
        family_table = [N_(("family", "entries", "newest"))]
        for name, figures in figures_of_scopes[:limit]:
            family_table.append((name, str(figures.count), time_text(figures.newest_ms, zone)))
        print_columns(family_table)
        hint("--family shows the entries of one kind: {families}", ", ".join(FAMILIES))


async def _list_memories(view: CallerView, conversation: Conversation, limit: int) -> None:
    """Print the newest memories and triggers of a conversation, its figures, and what is damaged in it."""
    zone = view.zone
    memories = sorted(await conversation.short_term.memories(), key=lambda memory: -memory.time_ms)
    triggers = sorted(
        await conversation.long_term.memories(), key=lambda trigger: -trigger.created_ms
    )

    if memories:
        memory_table = [N_(("id", "time", "score", "text"))]
        memory_table += [_memory_row(memory, zone) for memory in memories[:limit]]
        print_columns(memory_table)
    if triggers:
        trigger_table = [N_(("name", "created", "trigger"))]
        for trigger in triggers[:limit]:
            text = clipped(trigger.trigger, TEXT_CELLS)
            trigger_table.append((trigger.name, time_text(trigger.created_ms, zone), text))
        print_columns(trigger_table)

    figures = await conversation.short_term.statistics()
    if figures.average_score is not None:
        console().print(_figures_text(figures, zone))
    hint_more(max(len(memories), len(triggers)) - limit)

    if figures.damaged:
        damaged = _(
            "A file or line of the conversation was damaged and is set aside; `memory-server doctor` says which."
        )
        console().print(f"[yellow]{damaged}[/]")
    elif not memories and not triggers:
        say("Nothing is stored in the conversation {id}.", conversation.id)


def _memory_row(memory: ShortTermMemory, zone: tzinfo | None) -> tuple[str, str, str, str]:
    score = f"{memory.score:g}"
    if memory.pinned:
        score += " " + _("pinned")
    return (
        memory.id,
        time_text(memory.time_ms, zone),
        score,
        clipped(spoken(memory.text), TEXT_CELLS),
    )


def _figures_text(figures: Statistics, zone: tzinfo | None) -> str:
    """Describe the figures: `3 short-term memories from … to …; scores 1 to 5, mean 2.5.`"""
    scores = _(
        "scores {lowest_score:g} to {highest_score:g}, mean {average_score:.4g}",
        figures.lowest_score,
        figures.highest_score,
        figures.average_score,
    )
    return _(
        "{counts} from {time} to {time2}; {scores}.",
        counted(figures.total, "short-term memory"),
        time_text(figures.oldest_ms, zone),
        time_text(figures.newest_ms, zone),
        scores,
    )


# --- search --------------------------------------------------------------------------------------------------


async def search(view: CallerView, flags: Namespace) -> None:
    """Show what `search_memories` finds, and after it the entries of other families that hold all words. With `-c` or
    a flag that only memories have (such as --min-score) no entries are searched. If nothing is found, say which
    conversations were looked in (all without `-c`) and where memories are; with --json print nothing then. Raises
    InvalidInput if the conversation of `-c` does not exist or does not go with --family, and ToolFailed."""
    arguments = _tool_arguments(flags)
    looked_in = await chosen(view, flags)
    memories_total = 0
    searches_memories = flags.family is None or flags.family in OF_CONVERSATIONS
    if searches_memories:
        memories_total = await _search_memories(view, flags, arguments)

    entries = await _entries(view, flags, arguments)

    # The tool applies offset and limit to memories; the entries need the same here.
    offset = arguments.get("offset", 0)
    shown = entries[offset:][: arguments.get("limit", 20)]

    if flags.json:
        for item in shown:
            write(item_json(item))
        return
    for item in shown:
        when = time_text(item.at_ms, view.zone)
        print_plain(f"{when} {item.id} {_('in {place}', item.place)}")
        text = ": ".join(filter(None, (item.title, item.text)))
        print_plain(f"  {one_line(beginning(text))}")

    if entries:
        say("{entries} found, {shown} shown.", counted(len(entries), "entry"), len(shown))

    elif not searches_memories:
        say("{entries} found, {shown} shown.", counted(0, "entry"), 0)

    elif not memories_total:
        say("{memories} found, {results} shown.{more}", counted(0, "memory"), 0, "")
        where_text = await whereabouts(view)
        if looked_in:
            names = ", ".join(looked_in[:SHOWN_NAMES])
            where_text = _("Looked in {names}; {holds}", names, where_text)
        print_plain(where_text)


def _tool_arguments(flags: Namespace) -> dict[str, Any]:
    """Return the flags that are arguments of `search_memories`, by the tool's names."""
    arguments: dict[str, Any] = {}
    for name, value in vars(flags).items():
        if name.startswith(OF_TOOL):
            arguments[name.removeprefix(OF_TOOL)] = value
    return arguments


async def _search_memories(view: CallerView, flags: Namespace, arguments: dict[str, Any]) -> int:
    """Print the memories and triggers that `search_memories` finds, and return their number. Add the type and the
    scope that the flags imply to `arguments`."""
    if flags.family == "triggers":
        arguments["memory_type"] = "long_term"
    elif flags.family is not None:
        arguments["memory_type"] = "short_term"
    if not hasattr(flags, "conversation"):
        # The tool searches one conversation by default; the command searches all.
        arguments.setdefault("scope", "all")

    answer = await called(view, "search_memories", arguments, flags.names)
    total: int = answer.structured["total_found"]
    if flags.json:
        for hit in answer.structured["results"]:
            write(_hit_json(hit))
    elif total:
        print_plain(answer.text)
    return total


async def _entries(view: CallerView, flags: Namespace, arguments: JsonObject) -> list[Item]:
    """Find notes, facts, entries of layers and refs. Return nothing if a condition applies only to
    memories. Other words count only if no word is required: then an entry must hold at least one
    such text. Raises InvalidInput if a time cannot be read, or if -c is given with a family of
    entries."""
    if flags.family in OF_CONVERSATIONS or any(name in arguments for name in _OF_MEMORIES):
        return []

    # Entries do not belong to a conversation.
    if flags.family is None and hasattr(flags, "conversation"):
        return []

    zone = view.zone
    words = tuple(arguments.get("query", "").split())
    sought = ItemFilter(
        words=words or tuple(arguments.get("keywords", ())),
        family=flags.family,
        since_ms=moment_ms("--since", arguments.get("date_from"), zone),
        until_ms=moment_ms("--until", arguments.get("date_to"), zone, end=True),
        archived=bool(arguments.get("archived")),
    )

    if flags.family:
        items = await sought_items(view, flags, sought)
    else:
        _conversations, knowledge = view.memories.engines
        items = await knowledge.find(sought)

    other_texts = arguments.get("otherWords", ())
    if other_texts and not sought.words:
        items = _holding_any(items, other_texts, sought)
    if arguments.get("order") == "asc":
        return list(reversed(items))
    return items


def _holding_any(items: Sequence[Item], texts: Sequence[str], sought: ItemFilter) -> list[Item]:
    """Return the items that hold all words of at least one of the texts."""
    matching_keys: set[tuple[str, str, str]] = set()
    for text in texts:
        query = replace(sought, words=tuple(text.split()))
        matching_keys.update(item.key for item in query.among(items))
    return [item for item in items if item.key in matching_keys]


def _hit_json(hit: JsonObject) -> dict[str, Any]:
    """Return a found memory as `--json` prints it: under the same names for both kinds, with the
    further fields that it has."""
    if hit["memory_type"] == "short_term":
        fields = {
            "family": "memories",
            "place": hit["conversation_id"],
            "id": hit["id"],
            "at": hit["timestamp"],
        }
        fields["text"] = hit["text"]
    else:
        fields = {
            "family": "triggers",
            "place": hit["conversation_id"],
            "id": hit["name"],
            "at": hit["timestamp"],
        }
        fields["text"] = hit["prompt"]

    for name in ("relevance", "score", "matched", "keywords", "trigger"):
        if name in hit:
            fields[name] = hit[name]
    return fields
