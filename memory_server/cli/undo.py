"""`undo`: take back a change, by its id or the last one, or bring back what was removed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from memory_server.app import App
from memory_server.cli.call_tool import called, print_result
from memory_server.cli.families import USUAL_STEPS, engines_of, past_changes
from memory_server.cli.inspection import chosen, whereabouts
from memory_server.cli.terminal import complain, confirmed, console, escape, time_text
from memory_server.conversations.archive import Archived
from memory_server.conversations.history import name_of
from memory_server.conversations.lifecycle import ASKED_FOR_WORDS
from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.lifecycle import PastChange, Undone
from memory_server.kernel.times import iso
from memory_server.memories import forgetting
from memory_server.tools.archive import StepRow, UndoResult
from memory_server.tools.base.shapes import moment_ms
from sandbox.locale import _, joined

_LOOKED_BACK = 200
"""Changes of each place that are looked at for the last one: a chat reinforces a few memories with each prompt."""
_SHOWN_STEPS = 20
_BY_ITSELF = ("reinforced", ASKED_FOR_WORDS)
"""Steps that nobody would take back."""


async def undo(app: App, flags: Namespace) -> None:
    brings_back = flags.memory is not None or flags.pattern or flags.since or flags.until
    if brings_back and flags.change is not None:
        raise InvalidInput("Give the id of a change, or --memory; `memory-server history` lists the changes.")
    if flags.family is not None and (brings_back or flags.change is not None):
        raise InvalidInput("--family chooses whose last change is undone; leave it out here.")
    if brings_back:
        await _bring_back(app, flags)
    elif flags.change is None:
        await _undo_last(app, flags)
    elif flags.dry_run:
        raise InvalidInput(
            "--dry-run works only with --memory. To reverse a change you have undone, undo the new change."
        )
    else:
        await _undo_change(app, flags, flags.change)


async def _undo_change(app: App, flags: Namespace, change: str) -> None:
    out = console()
    conversation = (await chosen(app, flags))[0] if hasattr(flags, "conversation") else None
    undone = await forgetting.undo(app.memories.engines, change, conversation, by="undo_change")
    shown = Undone(undone.id, undone.steps[:USUAL_STEPS])
    print_result(app, UndoResult.of(shown, undone=change))
    if len(undone.steps) > USUAL_STEPS:
        out.print(_("- and {steps} more", len(undone.steps) - USUAL_STEPS))
    for reason in undone.refused:
        complain(reason)


async def _undo_last(app: App, flags: Namespace) -> None:
    """Show the last change, ask, and undo it. Raises InvalidInput: there is no change, or the command cannot ask."""
    parts = await _last_change(app, flags)
    if not parts:
        raise InvalidInput("No change is in the history; {whereabouts}", await whereabouts(app))
    change = _id_of(parts[0])
    _show(app, change, parts)
    if flags.dry_run:
        return
    otherwise = _(
        "Nothing was undone, because this is not a terminal. To undo it: `memory-server undo {change}`.", change
    )
    if flags.yes or confirmed(_("Undo it?"), otherwise=otherwise):
        await _undo_change(app, flags, change)
    else:
        console().print(_("Nothing was undone."))


async def _last_change(app: App, flags: Namespace) -> Sequence[PastChange]:
    """The newest change that somebody made, with all its parts; a recall that only reinforced memories is not one, and
    neither is a question to a model that gave nothing."""
    conversation = (await chosen(app, flags))[0] if hasattr(flags, "conversation") else None
    engines = engines_of(app, flags)
    changes = await past_changes(engines, flags, conversation, limit=_LOOKED_BACK, most_steps=USUAL_STEPS)
    made = [change for change in changes if any(step.what not in _BY_ITSELF for step in change.steps)]
    return [change for change in made if _id_of(change) == _id_of(made[0])]


def _id_of(change: PastChange) -> str:
    """The id by which `undo` takes all parts of a change."""
    shared_id = change.by.rpartition(" ")[2]
    return shared_id if forgetting.is_together(shared_id) else change.id


def _show(app: App, change: str, parts: Sequence[PastChange]) -> None:
    out = console()
    when = time_text(parts[0].at_ms, app.settings.zone)
    out.print(escape(_("The last change is {change}, {when}, by {by}:", change, when, parts[0].by)))
    steps = [(part.place, step) for part in parts for step in part.steps]
    for place, step in steps[:_SHOWN_STEPS]:
        out.print(escape(joined("", [f"- {place}: ", str(StepRow.of(step))])))
    more = len(steps[_SHOWN_STEPS:]) + sum(part.more_steps for part in parts)
    if more:
        out.print(_("  … and {other} more", more))


async def _bring_back(app: App, flags: Namespace) -> None:
    """Bring back what was removed; each memory may be in another archive, and an id may be typed by its beginning."""
    zone = app.settings.zone
    wanted = list(flags.memory or ())
    since = moment_ms("--since", flags.since, zone)
    until = moment_ms("--until", flags.until, zone)
    names = await chosen(app, flags)
    out = console()
    matched: set[str] = set()
    for name in names:
        ids: set[str] = set()
        for entry in await app.conversation(name).archive.entries():
            meant = {begins for begins in wanted if _is_meant(entry, begins)}
            if meant:
                ids.add(name_of(entry))
                matched |= meant
        if wanted and not ids:
            continue
        arguments: dict[str, Any] = {"ids": sorted(ids), "dry_run": flags.dry_run, "conversation_id": name}
        if since is not None:
            arguments["removedSince"] = iso(since)
        if until is not None:
            arguments["removedUntil"] = iso(until)
        if not (ids or since or until) or flags.pattern:
            arguments["pattern"] = flags.pattern or "/./"
        answer = await called(app, "restore_memories_from_archive", arguments)
        if answer.structured["restored"] or answer.structured["inTheWay"] or len(names) == 1:
            text = escape(answer.text)
            out.print(Text.from_markup(f"[bold]{escape(name)}[/] {text}" if len(names) > 1 else text))
    missing = [begins for begins in wanted if begins not in matched]
    if missing:
        raise MemoryNotFound(
            "No archive has `{memory}`; `memory-server search --archived` lists what can come back.", missing[0]
        )


def _is_meant(entry: Archived, begins: str) -> bool:
    """Whether an archived memory has this name, or an id that begins like this."""
    key = name_of(entry)
    return key == begins or (isinstance(entry.memory, ShortTermMemory) and bool(begins) and key.startswith(begins))
