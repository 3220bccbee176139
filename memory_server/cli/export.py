"""`export`: what is stored, as files for people, for other programs, or for another memory-server."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import replace

from memory_server.app import App
from memory_server.cli.exchanged_files import write_file, write_folder
from memory_server.cli.inspection import each, not_copied, whereabouts
from memory_server.cli.terminal import console, escape, hint, size_text
from memory_server.conversations.contents import Contents, contents_of
from memory_server.conversations.conversation import Conversation
from memory_server.interchange import csv_table, folder_forms, own
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import OF_CONVERSATIONS, Family
from memory_server.knowledge.entry import Entry, Filter
from sandbox.locale import _, counted

_WITH_ENTRIES = ("native", "csv")
"""Forms that hold the entries of all families."""


async def export(app: App, flags: Namespace) -> int:
    """Write what is stored, or what a conversation or family of it holds; 1 if a conversation could not be read."""
    _refuse_contradiction(flags)
    held: list[Contents] = []
    chosen = bool(flags.type or flags.tags)

    async def hold(conversation: Conversation) -> None:
        held.append(_of_family(contents_of(await app.store.read(conversation.id)), flags.family))

    failed, named = 0, hasattr(flags, "conversation")
    if flags.family in (None, *OF_CONVERSATIONS) and not chosen:
        _count, failed = await each(app, flags, _("reading"), hold)
    held = [contents for contents in held if contents.count or not (named or flags.family)]
    entries: list[tuple[str, Entry]] = []
    if not named and flags.family not in OF_CONVERSATIONS:
        where = Filter(kinds=(flags.type,) if flags.type else (), tags=_tags(flags))
        family: Family | None = "notes" if flags.type else flags.family
        entries = await app.knowledge.lifecycle.live(family, where)
    if chosen and not entries:
        raise InvalidInput("No entry has this type and these tags; `memory-server list` shows what there is.")
    if not held and (flags.to not in _WITH_ENTRIES or not entries):
        raise InvalidInput("There is nothing to export in this form: {whereabouts}", await whereabouts(app))
    await write_memories(app, held, flags, entries)
    whole = not named and flags.family is None and not chosen
    for sentence in await not_copied(app, layers=True) if whole else ():
        hint(sentence)
    return 1 if failed else 0


def _tags(flags: Namespace) -> tuple[str, ...]:
    return tuple(tag.strip() for tag in flags.tags.split(",") if tag.strip())


def _refuse_contradiction(flags: Namespace) -> None:
    """Raises InvalidInput: a filter is for entries, and what was named has none of them."""
    if flags.tags and not _tags(flags):
        raise InvalidInput("--tags names no tag; write some, such as --tags api,db.")
    if not (flags.type or flags.tags):
        return
    name = "--type" if flags.type else "--tags"
    if hasattr(flags, "conversation"):
        raise InvalidInput("{name} is for entries, which are in no conversation; leave -c out.", name)
    if flags.family in OF_CONVERSATIONS or (flags.type and flags.family not in (None, "notes")):
        raise InvalidInput("{name} does not fit to --family {family}; leave one of them out.", name, flags.family)
    if flags.to not in _WITH_ENTRIES:
        raise InvalidInput("{name} is for entries, which only the forms native and csv have.", name)


def _of_family(contents: Contents, family: str | None) -> Contents:
    if family not in OF_CONVERSATIONS:
        return contents
    return replace(contents, long_term=()) if family == "memories" else replace(contents, short_term=())


async def write_memories(
    app: App, held: Sequence[Contents], flags: Namespace, entries: Sequence[tuple[str, Entry]]
) -> None:
    """Write memories to `flags.target` in the form `flags.to`; print the number written, and what is not in it.
    Raises InvalidInput if the target cannot be written, or the form is a folder and the target standard output."""
    form, target = flags.to, flags.target
    if form == "node":
        if target == "-":
            raise InvalidInput("The form {form} is a folder; give the name of one instead of `-`.", form)
        size = await asyncio.to_thread(write_folder, target, folder_forms.write_node(held))
    else:
        parts: Iterable[bytes] = own.write_native(held, app.clock(), entries)
        if form == "pack":
            parts = [own.write_pack(held)]
        elif form == "csv":
            parts = [csv_table.write_csv(held, entries)]
        elif form == "markdown":
            parts = own.write_page(held, app.settings.zone)
        size = await asyncio.to_thread(write_file, target, parts, force=flags.force)
    if target == "-":
        return
    left = sum(len(contents.short_term) for contents in held) if form == "pack" else 0
    count = sum(contents.count for contents in held) - left
    what = _(
        "{memories} of {conversations}, {decimal}",
        counted(count, "memory"),
        counted(len(held), "conversation"),
        size_text(size),
    )
    out = console()
    out.print(_("Wrote {target}: {what}, as {form}.", escape(target), what, form))
    if entries:
        many = counted(len(entries), "entry")
        not_here = _("Not in it: {entries} of other families; the forms native and csv hold them.", many)
        out.print(_("With {entries} of other families.", many) if form in _WITH_ENTRIES else not_here)
    if left:
        out.print(_("Not in it: {memories}; a pack holds only long-term memories.", counted(left, "short-term memory")))
