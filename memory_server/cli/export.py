"""Write what is stored as files for people, for other programs, or for another memory-server (`export`)."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from languages import _, counted
from memory_server.cli.inspection import named_conversation
from memory_server.cli.terminal import hint, progress, say, size_text, write_target
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import OF_CONVERSATIONS
from memory_server.kernel.streams import complain
from memory_server.kernel.text import words_between_commas
from memory_server.operations.exchanged_files import write_folder
from memory_server.operations.exports import (
    WITH_ENTRIES,
    ExportContent,
    ExportRequest,
    exported,
    file_content,
    folder_content,
    nothing_to_export,
)
from memory_server.operations.whereabouts import not_copied
from memory_server.runtime.app import CallerView


async def export(view: CallerView, flags: Namespace) -> int:
    """Write everything that is stored, or the part that a conversation or a family holds. Return 1
    if a conversation could not be read. Raises InvalidInput if there is nothing to write."""
    _refuse_contradiction(flags)
    conversation_id = await named_conversation(view, flags)
    request = ExportRequest(
        conversation_id, flags.family, flags.type or "", tuple(words_between_commas(flags.tags))
    )
    result = await exported(view, request, progress)
    for reason in result.unread:
        complain(reason)

    # Write no empty file: it could replace a good one.
    if result.is_empty_in(flags.to):
        raise await nothing_to_export(view)
    await write_memories(view, result, flags)

    # An export of everything looks complete, so name the things it does not hold.
    if request.is_everything:
        for sentence in await not_copied(view, layers=True):
            hint(sentence)
    return int(bool(result.unread))


def _refuse_contradiction(flags: Namespace) -> None:
    """Refuse a filter for entries if the named conversation, family or format holds no entries. Raises InvalidInput."""
    if flags.tags and not words_between_commas(flags.tags):
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
    if flags.to not in WITH_ENTRIES:
        raise InvalidInput(
            "{name} is for entries; only the formats native and csv contain entries.", name
        )


async def write_memories(view: CallerView, exported: ExportContent, flags: Namespace) -> None:
    """Write memories to `flags.target` in the format `flags.to`; print how many were written and what was left out,
    but nothing if the target is standard output (`-`). An existing file is replaced only with `flags.force`; a folder
    must be new or empty in any case. Raises InvalidInput if the target cannot be written, or if the format is a
    folder and the target is standard output."""
    form = flags.to
    target = flags.target
    if form == "node":
        # Standard output holds the memories, so a program that reads it gets nothing else.
        if target == "-":
            raise InvalidInput(
                "The format {form} is a folder; give the name of a folder instead of `-`.", form
            )
        size = await asyncio.to_thread(write_folder, target, folder_content(exported))

    else:
        parts = file_content(view, exported, form)
        size = await asyncio.to_thread(write_target, target, parts, force=flags.force)
    if target == "-":
        return

    conversations = exported.conversations
    entries = exported.entries
    left_out = exported.not_in(form)
    count = sum(contents.count for contents in conversations) - left_out
    contents_text = _(
        "{memories} of {conversations}, {decimal}",
        counted(count, "memory"),
        counted(len(conversations), "conversation"),
        size_text(size),
    )

    say("Wrote {target}: {what}, as {form}.", target, contents_text, form)
    if entries:
        many = counted(len(entries), "entry")
        if form in WITH_ENTRIES:
            say("It also has {entries} of other kinds.", many)
        else:
            say(
                "Not included: {entries} of other kinds; use the format native or csv for them.",
                many,
            )

    if left_out:
        say(
            "Not included: {memories}; a pack holds only long-term memories.",
            counted(left_out, "short-term memory"),
        )
