"""Undo a change, by its id or the last one, or bring back what was removed (`undo`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from languages import _
from memory_server.cli.call_tool import called, print_result
from memory_server.cli.history import engines_of, past_changes
from memory_server.cli.inspection import chosen, named_conversation
from memory_server.cli.terminal import console, escape, print_plain, say, time_text
from memory_server.conversations.archive import ArchivedMemory
from memory_server.conversations.history import name_of
from memory_server.conversations.lifecycle import ASKED_FOR_WORDS
from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.lifecycle import USUAL_STEPS, PastChange, Undone
from memory_server.kernel.streams import complain, confirmed
from memory_server.kernel.times import iso
from memory_server.memories import forgetting
from memory_server.operations.whereabouts import whereabouts
from memory_server.runtime.app import CallerView
from memory_server.tools.archive import StepRow, UndoResult
from memory_server.tools.base.shapes import moment_ms

_LOOKED_BACK = 200
"""Changes of each place that are searched for the last one: a chat reinforces a few memories with each prompt."""
_SHOWN_STEPS = 20
_BY_ITSELF = ("reinforced", "counted", "cleaned up", ASKED_FOR_WORDS)
"""Steps that a user would not undo."""


async def undo(view: CallerView, flags: Namespace) -> None:
    """Undo the typed change or the last one, or bring back what was removed; with --dry-run only
    show it. Raises InvalidInput if the flags do not go together, or if there is no such change."""
    brings_back = flags.memory is not None or flags.pattern or flags.since or flags.until
    if brings_back and flags.change is not None:
        raise InvalidInput(
            "Give the id of a change, or --memory; `memory-server history` lists the changes."
        )

    if flags.family is not None and (brings_back or flags.change is not None):
        raise InvalidInput(
            "--family chooses the kind whose last change is undone; leave it out here."
        )

    if brings_back:
        await _bring_back(view, flags)
    elif flags.change is None:
        await _undo_last(view, flags)
    elif flags.dry_run:
        await _show_change(view, flags, flags.change)
    else:
        await _undo_change(view, flags, flags.change)


async def _undo_change(view: CallerView, flags: Namespace, change: str) -> None:
    """Undo a change, and print its steps and what could not be undone. Raises InvalidInput if there is no such change."""
    undone = await forgetting.undo(
        view.memories.engines, change, await named_conversation(view, flags), by="undo_change"
    )
    shown = Undone(undone.id, undone.steps[:USUAL_STEPS])
    print_result(view, UndoResult.of(shown, undone=change))
    hidden_steps = len(undone.steps) - USUAL_STEPS
    if hidden_steps > 0:
        say("- and {steps} more", hidden_steps)
    for reason in undone.refused:
        complain(reason)


async def _newest_changes(view: CallerView, flags: Namespace) -> Sequence[PastChange]:
    """Return the newest changes of the places that the flags name."""
    return await past_changes(
        engines_of(view, flags),
        flags,
        await named_conversation(view, flags),
        now_ms=view.clock(),
        limit=_LOOKED_BACK,
        most_steps=USUAL_STEPS,
    )


async def _show_change(view: CallerView, flags: Namespace, change: str) -> None:
    """Show a change that an undo would take back. Raises InvalidInput if it is not among the newest ones."""
    changes = await _newest_changes(view, flags)

    # A change may have parts in several places.
    parts = [past for past in changes if change in (past.id, _id_of(past))]
    if not parts:
        raise InvalidInput(
            "`{change}` is not among the last {count} changes; `memory-server history` lists them.",
            change,
            _LOOKED_BACK,
        )

    first = parts[0]
    heading = _(
        "The change {change}, {when}, by {by}:",
        change,
        time_text(first.at_ms, view.zone),
        first.by,
    )
    _show(heading, parts)


async def _undo_last(view: CallerView, flags: Namespace) -> None:
    """Show the last change, ask, and undo it. Raises InvalidInput if the history is empty, or if the command cannot ask."""
    parts = await _last_change(view, flags)
    if not parts:
        raise InvalidInput("The history has no changes; {whereabouts}", await whereabouts(view))

    change = _id_of(parts[0])
    when = time_text(parts[0].at_ms, view.zone)
    _show(_("The last change is {change}, {when}, by {by}:", change, when, parts[0].by), parts)

    if flags.dry_run:
        return

    otherwise = _(
        "Nothing was undone, because this is not a terminal. To undo it: `memory-server undo {change}`.",
        change,
    )
    if flags.yes or confirmed(_("Undo it?"), otherwise=otherwise):
        await _undo_change(view, flags, change)
    else:
        say("Nothing was undone.")


async def _last_change(view: CallerView, flags: Namespace) -> Sequence[PastChange]:
    """Return the newest change that a user or a program made on purpose, with all its parts. A recall that only
    reinforced memories does not count, and neither does a question to a model that gave nothing."""
    changes = await _newest_changes(view, flags)
    deliberate = [
        change for change in changes if any(step.what not in _BY_ITSELF for step in change.steps)
    ]
    if not deliberate:
        return []
    last_id = _id_of(deliberate[0])
    return [change for change in deliberate if _id_of(change) == last_id]


def _id_of(change: PastChange) -> str:
    """Return the id by which `undo` takes all parts of a change."""
    shared_id = change.by.rpartition(" ")[2]
    if forgetting.is_together(shared_id):
        return shared_id
    return change.id


def _show(heading: str, parts: Sequence[PastChange]) -> None:
    """Print the steps of all parts of a change, at most `_SHOWN_STEPS` of them."""
    print_plain(heading)
    lines: list[str] = []
    hidden_steps = 0
    for part in parts:
        lines += [f"- {part.place}: {StepRow.of(step)}" for step in part.steps]
        hidden_steps += part.more_steps
    for line in lines[:_SHOWN_STEPS]:
        print_plain(line)
    hidden_steps += len(lines[_SHOWN_STEPS:])
    if hidden_steps:
        say("  … and {other} more", hidden_steps)


async def _bring_back(view: CallerView, flags: Namespace) -> None:
    """Bring back what was removed. Each memory may be in another archive, and an id may be typed by
    its beginning. Raises MemoryNotFound if a typed id or name is in no archive."""
    zone = view.zone
    typed_ids: Sequence[str] = flags.memory or ()
    since_ms = moment_ms("--since", flags.since, zone)
    until_ms = moment_ms("--until", flags.until, zone, end=True)

    conversation_ids = await chosen(view, flags)
    matched_ids: set[str] = set()
    for conversation_id in conversation_ids:
        ids: set[str] = set()
        for entry in await view.conversation(conversation_id).archive.entries():
            meant = {begins for begins in typed_ids if _is_meant(entry, begins)}
            if meant:
                ids.add(name_of(entry))
                matched_ids |= meant

        # Nothing that was typed is in this archive.
        if typed_ids and not ids:
            continue

        arguments: dict[str, Any] = {
            "ids": sorted(ids),
            "dry_run": flags.dry_run,
            "conversation_id": conversation_id,
        }
        if since_ms is not None:
            arguments["removedSince"] = iso(since_ms)
        if until_ms is not None:
            arguments["removedUntil"] = iso(until_ms)

        # The tool requires an id, a time or a pattern; this pattern matches every text.
        if not (ids or since_ms or until_ms) or flags.pattern:
            arguments["pattern"] = flags.pattern or "/./"

        answer = await called(view, "restore_memories_from_archive", arguments)
        text = escape(answer.text)

        # With many conversations, only those where something happened are worth a line.
        if len(conversation_ids) == 1:
            console().print(Text.from_markup(text))
        elif answer.structured["restored"] or answer.structured["inTheWay"]:
            console().print(Text.from_markup(f"[bold]{escape(conversation_id)}[/] {text}"))

    missing = [begins for begins in typed_ids if begins not in matched_ids]
    if missing:
        raise MemoryNotFound(
            "`{memory}` is not in an archive; `memory-server search --archived` lists what can be restored.",
            missing[0],
        )


def _is_meant(entry: ArchivedMemory, begins: str) -> bool:
    """Return whether an archived memory has this name, or an id that begins with it."""
    key = name_of(entry)
    return key == begins or (
        isinstance(entry.memory, ShortTermMemory) and bool(begins) and key.startswith(begins)
    )
