"""`export`: what is stored, as files for people, for other programs, or for another memory-server."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import replace

from languages import _, counted
from memory_server.app import CallerView
from memory_server.cli.exchanged_files import write_file, write_folder
from memory_server.cli.inspection import for_each_conversation, not_copied, whereabouts
from memory_server.cli.terminal import console, escape, hint, size_text
from memory_server.conversations.contents import Contents, contents_of
from memory_server.conversations.conversation import Conversation
from memory_server.interchange import csv_table, folder_forms, own
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import OF_CONVERSATIONS, Family
from memory_server.knowledge.entry import Entry, Filter

_WITH_ENTRIES = ("native", "csv")
"""Forms that hold the entries of all families."""


async def export(app: CallerView, flags: Namespace) -> int:
    """Write what is stored, or what a conversation or family of it holds; 1 if a conversation could not be read."""
    _refuse_contradiction(flags)
    has_filter = bool(flags.type or flags.tags)
    names_conversation = hasattr(flags, "conversation")
    conversations: list[Contents] = []
    failed = 0
    if flags.family in (None, *OF_CONVERSATIONS) and not has_filter:

        async def add(conversation: Conversation) -> None:
            state = await app.store.read(conversation.id)
            contents = _of_family(contents_of(state), flags.family)
            # An empty conversation is only in an export of everything.
            if contents.count or not (names_conversation or flags.family):
                conversations.append(contents)

        _count, failed = await for_each_conversation(app, flags, _("reading"), add)
    entries: list[tuple[str, Entry]] = []
    if not names_conversation and flags.family not in OF_CONVERSATIONS:
        entries = await _entries(app, flags)
    if has_filter and not entries:
        raise InvalidInput(
            "No entry has this type and these tags; `memory-server list` lists all entries."
        )
    if not conversations and (flags.to not in _WITH_ENTRIES or not entries):
        raise InvalidInput(
            "There is nothing to export in this format: {whereabouts}", await whereabouts(app)
        )
    await write_memories(app, conversations, flags, entries)
    is_everything = not names_conversation and flags.family is None and not has_filter
    if is_everything:
        for sentence in await not_copied(app, layers=True):
            hint(sentence)
    return int(failed > 0)


async def _entries(app: CallerView, flags: Namespace) -> list[tuple[str, Entry]]:
    """The entries that --family, --type and --tags leave; only notes have a type."""
    family: Family | None = flags.family
    kinds: tuple[str, ...] = ()
    if flags.type:
        family = "notes"
        kinds = (flags.type,)
    return await app.knowledge.lifecycle.live(family, Filter(kinds=kinds, tags=_tags(flags)))


def _tags(flags: Namespace) -> tuple[str, ...]:
    tags = [tag.strip() for tag in flags.tags.split(",")]
    return tuple(tag for tag in tags if tag)


def _refuse_contradiction(flags: Namespace) -> None:
    """Raises InvalidInput: a filter is for entries, and what was named has none of them."""
    if flags.tags and not _tags(flags):
        raise InvalidInput("--tags names no tag; write some, such as --tags api,db.")
    if not (flags.type or flags.tags):
        return
    name = "--type" if flags.type else "--tags"
    if hasattr(flags, "conversation"):
        raise InvalidInput(
            "{name} is for entries, which do not belong to a conversation; leave -c out.", name
        )
    if flags.family in OF_CONVERSATIONS or (flags.type and flags.family not in (None, "notes")):
        raise InvalidInput(
            "{name} cannot be used with --family {family}; leave one of them out.",
            name,
            flags.family,
        )
    if flags.to not in _WITH_ENTRIES:
        raise InvalidInput(
            "{name} is for entries; only the formats native and csv contain entries.", name
        )


def _of_family(contents: Contents, family: str | None) -> Contents:
    """The contents, or only those of a family of conversations."""
    match family:
        case "memories":
            return replace(contents, long_term=())
        case "triggers":
            return replace(contents, short_term=())
    return contents


async def write_memories(
    app: CallerView,
    conversations: Sequence[Contents],
    flags: Namespace,
    entries: Sequence[tuple[str, Entry]],
) -> None:
    """Write memories to `flags.target` in the form `flags.to`; print the number written, and what is not in it.
    Raises InvalidInput if the target cannot be written, or the form is a folder and the target standard output."""
    form = flags.to
    target = flags.target
    if form == "node":
        if target == "-":
            raise InvalidInput(
                "The format {form} is a folder; give the name of a folder instead of `-`.", form
            )
        size = await asyncio.to_thread(write_folder, target, folder_forms.write_node(conversations))
    else:
        parts = _parts(app, conversations, form, entries)
        size = await asyncio.to_thread(write_file, target, parts, force=flags.force)
    if target == "-":
        return
    left_out = 0
    if form == "pack":
        left_out = sum(len(contents.short_term) for contents in conversations)
    count = sum(contents.count for contents in conversations) - left_out
    contents_text = _(
        "{memories} of {conversations}, {decimal}",
        counted(count, "memory"),
        counted(len(conversations), "conversation"),
        size_text(size),
    )
    out = console()
    out.print(_("Wrote {target}: {what}, as {form}.", escape(target), contents_text, form))
    if entries:
        many = counted(len(entries), "entry")
        if form in _WITH_ENTRIES:
            out.print(_("It also has {entries} of other kinds.", many))
        else:
            out.print(
                _(
                    "Not included: {entries} of other kinds; use the format native or csv for them.",
                    many,
                )
            )
    if left_out:
        out.print(
            _(
                "Not included: {memories}; a pack holds only long-term memories.",
                counted(left_out, "short-term memory"),
            )
        )


def _parts(
    app: CallerView,
    conversations: Sequence[Contents],
    form: str,
    entries: Sequence[tuple[str, Entry]],
) -> Iterable[bytes]:
    """The content of a file of this form."""
    match form:
        case "pack":
            return [own.write_pack(conversations)]
        case "csv":
            return [csv_table.write_csv(conversations, entries)]
        case "markdown":
            return own.write_page(conversations, app.settings.zone)
    return own.write_native(conversations, app.clock(), entries)
