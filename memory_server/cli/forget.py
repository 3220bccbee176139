"""`forget`: show what would go, ask, and move it into the archive, or erase it for good."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from memory_server.app import App
from memory_server.cli.inspection import chosen
from memory_server.cli.terminal import (
    TEXT_CELLS,
    clipped,
    complain,
    confirmed,
    console,
    escape,
    print_columns,
    spoken,
    time_text,
)
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.items import Item, Sought
from memory_server.memories import forgetting
from memory_server.tools.base.shapes import moment_ms
from sandbox.locale import _, counted, term

_PLACES = _(
    "Its text leaves all that is kept here: memories, archive, history, journal, snapshots, what repairs set aside, "
    "the record of recalls, notes and other entries with their past, index and vectors, free pages, logs and former "
    "copies of the database, and Markdown files of layers. This cannot be undone."
)
_NOT_OURS = _("Not in our hands: transcripts of clients, copies elsewhere, and what git keeps of the files of layers.")
_BEFORE = 25
"""Characters of a text that are shown before the first word that was looked for."""


async def forget(app: App, flags: Namespace) -> int:
    if flags.in_backups and not flags.for_good:
        raise InvalidInput("--in-backups works only with --for-good; without it, backups stay as they are.")
    begun, status = app.home.erased.begun() if flags.for_good and not flags.dry_run else None, 0
    if begun is not None:
        complain(_("An erasing that was interrupted is finished first."))
        status = await _erase(app, begun, await backups_with(app, begun) if flags.in_backups else [])
    if not "".join(flags.words).strip() and not flags.user:
        raise InvalidInput("Write words of what is meant, or its id: `memory-server forget dentist`.")
    zone, place = app.settings.zone, (await chosen(app, flags))[0] if hasattr(flags, "conversation") else None
    since = moment_ms("--since", flags.since, zone)
    until = moment_ms("--until", flags.until, zone, end=True)
    where = Sought(family=flags.family, place=place, since_ms=since, until_ms=until, user=flags.user)
    where = replace(where, archived=None if flags.for_good else False)
    (items, words), out = await forgetting.find(app.memories.engines, flags.words, where), console()
    if not items and begun is not None:
        return status
    narrowed = hasattr(flags, "conversation") or flags.family or flags.since or flags.until or flags.user
    if (
        not items
        and flags.in_backups
        and not narrowed
        and (names := [b.name for b in await app.memories.backups.listed()])
    ):
        return await _from_backups(app, flags, names)
    if not items:
        raise InvalidInput("Nothing here holds these words; `memory-server list` shows what is kept.")
    _show(app, items, flags.words)
    count = counted(len(items), "memory")
    if flags.for_good:
        return await _for_good(app, flags, where, items, () if narrowed else words)
    if flags.dry_run:
        out.print(_("Would forget {count}.", count))
        return 0
    without = _("Nothing was forgotten, because nobody is there to be asked; add --yes to forget it.")
    if not flags.yes and not confirmed(_("Forget {count}?", count), otherwise=without):
        out.print(_("Nothing was forgotten."))
        return 0
    change = await forgetting.forget(app.memories.engines, items)
    until_text = time_text(app.clock() + app.settings.storage.keep_ms, zone)
    out.print(
        _(
            "Forgot {count}. Until {until} it is in the archive, and `memory-server undo {change}` brings it back.",
            count,
            until_text,
            escape(str(change)),
        )
    )
    return 0


async def _for_good(app: App, flags: Namespace, where: Sought, items: Sequence[Item], words: Sequence[str]) -> int:
    """Say what is erased and where, ask, do it, and search for it; 1 if it is found outside of the backups, or in them
    though they were to be written again."""
    engines, count = app.memories.engines, counted(len(items), "memory")
    erasure, out = await forgetting.erasure_of(engines, items, words, flags.user), console()
    backups = await backups_with(app, erasure)
    out.print(_PLACES)
    if backups:
        whose = _("and of these backups") if flags.in_backups else _("but not of these backups (--in-backups)")
        out.print(escape(_("{where}: {backups}", whose, ", ".join(backups))))
    if erasure.alike:
        same = counted(erasure.alike, "memory")
        out.print(_("Elsewhere {same} with the same text stays; it is not among those that you named.", same))
    out.print(_NOT_OURS)
    if also := app.home.not_ours:
        out.print(also)
    if flags.dry_run:
        out.print(_("Would erase {count}.", count))
        return 0
    if not _may_erase(flags, _("Erase {count} for good?", count)):
        return 0
    now, _words = await forgetting.find(engines, flags.words, where)  # while somebody thought, others wrote
    if {item.key for item in now} != {item.key for item in items}:
        raise InvalidInput("What is meant has changed meanwhile, and nothing was erased; run the command again.")
    return await _erase(app, erasure, backups if flags.in_backups else [])


async def _from_backups(app: App, flags: Namespace, names: Sequence[str]) -> int:
    """Only backups may still hold it: an earlier erasing left them as they were."""
    out, listed = console(), escape(", ".join(names))
    if flags.dry_run:
        out.print(_("Only backups may hold these words; what holds them would be erased from: {names}", listed))
        return 0
    asked = _("Only backups may hold these words. Erase what holds them from all backups ({names})?", listed)
    if not _may_erase(flags, asked):
        return 0
    words, failed = tuple(word for each in flags.words for word in each.split()), list[str]()
    for name in names:
        try:
            await app.memories.backups.erase(name, Erasure((), (), words=words))
        except StorageError as error:
            failed.append(str(error))
            complain(failed[-1])
    if len(failed) < len(names):
        out.print(
            _("What is kept does not hold these words, and no backup that can be read does any more: {names}", listed)
        )
    return int(bool(failed))


def _may_erase(flags: Namespace, question: str) -> bool:
    """Whether --yes is given, or a person at the terminal agrees. Raises InvalidInput: nobody is there."""
    without = _("Nothing was erased, because nobody is there to be asked; add --yes to erase it.")
    if flags.yes or confirmed(question, otherwise=without):
        return True
    console().print(_("Nothing was erased."))
    return False


async def _erase(app: App, erasure: Erasure, backups: Sequence[str]) -> int:
    out, (left, damaged) = console(), await erase(app, erasure, backups)
    for reason in damaged:
        complain(reason)
    out.print(_("Erased {memories}.", counted(len(erasure.items), "memory")))
    out.print(_("All that is kept was searched: found in {places}.", counted(len(left), "place")))
    for path in left:
        out.print(escape(str(path)))
    return int(any(backups or path.parent != app.home.backups.folder for path in left))


async def erase(app: App, erasure: Erasure, backups: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Erase for good, also from these backups; where it is found afterwards, and what could not be rewritten."""
    home, damaged = app.home, list[str]()
    await forgetting.erase(app.memories.engines, erasure, home.erased, home.recalls)
    for name in backups:
        try:
            await app.memories.backups.erase(name, erasure)
        except StorageError as error:
            damaged.append(str(error))
    await asyncio.to_thread(home.erased.end)
    layers = [each.folder.place for each in app.knowledge.layers.known]
    return await asyncio.to_thread(home.holding, erasure, *layers), damaged


async def backups_with(app: App, erasure: Erasure) -> list[str]:
    """The names of the backups that hold it."""
    folder = app.home.backups.folder
    held = {path.name for path in await asyncio.to_thread(app.home.holding, erasure) if path.parent == folder}
    names = [each.name for each in await app.memories.backups.listed()]
    return [name for name in names if any(each.startswith(f"{name}.") for each in held)]


def _show(app: App, items: Sequence[Item], words: Sequence[str]) -> None:
    rows = [(_("id"), _("where"), _("when"), _("text"))]
    for item in items:
        where = item.place if item.family in item.place else f"{term(item.family)} {item.place}"
        text = spoken(item.text) if item.title in ("", item.text) else f"{item.title}: {item.text}"
        when, shown = time_text(item.at_ms, app.settings.zone), clipped(_around(text, words), TEXT_CELLS)
        rows.append((item.id, where, when, shown))
    print_columns(rows, words)


def _around(text: str, words: Sequence[str]) -> str:
    """The text from a little before the first of the words."""
    folded = text.casefold()
    places = [place for word in words if (place := folded.find(word.casefold())) >= 0]
    start = max(0, min(places, default=0) - _BEFORE)
    return f"…{text[start:]}" if start else text
