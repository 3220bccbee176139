"""`forget --for-good`: say what is erased and where, ask, erase it, and search all that is kept for it."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from languages import N_, _, counted
from memory_server.app import CallerView
from memory_server.cli.terminal import console, escape
from memory_server.homes import checkout_at, pages_in
from memory_server.kernel.erasure import Erasure, Traces
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.items import Item, Sought
from memory_server.kernel.streams import complain, confirmed
from memory_server.kernel.values import dataclass
from memory_server.knowledge.notes.pages import FOLDER
from memory_server.memories import forgetting

_PLACES = N_(
    "The text is erased from everything that is stored here: memories, archive, history, journal, "
    "snapshots, files that repairs set aside, the record of recalls, notes and other entries with "
    "their history, index and vectors, free pages, logs and former copies of the database, turns "
    "that wait for a linked server, and Markdown files of layers. This cannot be undone."
)
_NOT_OURS = N_(
    "You must delete these yourself: transcripts of clients, copies elsewhere, and the git history of layer files."
)


@dataclass(frozen=True, slots=True)
class Erased:
    """What a search found after an erasing, and why some backups could not be written again."""

    traces: Traces
    damaged: tuple[str, ...] = ()


async def items_for_good(
    app: CallerView, flags: Namespace, *, where: Sought, items: Sequence[Item], words: Sequence[str]
) -> int:
    """Erase these items; 1 if they are found outside of the backups, or in them though they were to be written
    again."""
    engines = app.memories.engines
    count = counted(len(items), "memory")
    erasure = await forgetting.erasure_of(engines, items, words, flags.user)
    backups = await backups_with(app, erasure)
    _say_what_goes(app, flags, erasure, backups)
    if flags.dry_run:
        console().print(_("Would erase {count}.", count))
        return 0
    if not _may_erase(flags, _("Erase {count} for good?", count)):
        return 0
    items_now, _words = await forgetting.find(
        engines, flags.words, where
    )  # while somebody thought, others wrote
    if {item.key for item in items_now} != {item.key for item in items}:
        raise InvalidInput(
            "The matching memories and entries changed in the meantime, so nothing was erased; run the command again."
        )
    return await finish(app, erasure, _backups_to_rewrite(flags, backups))


def _backups_to_rewrite(flags: Namespace, backups: Sequence[str]) -> Sequence[str]:
    if flags.in_backups:
        return backups
    return ()


async def past_for_good(app: CallerView, flags: Namespace) -> int:
    """Erase words that no item holds, from all that is kept of the past. Raises InvalidInput: all was searched, and
    nothing holds them."""
    words = forgetting.words_in(flags.words)
    erasure = await forgetting.erasure_of(app.memories.engines, (), words)
    traces = await search(app, erasure)
    past = _past(app, traces)
    backups = await _backups_among(app, traces.texts)
    if not past and not (backups and flags.in_backups):
        tenants = await asyncio.to_thread(app.home.tenants_with, erasure)
        raise await _nothing_holds(app, traces, tenants)
    out = console()
    if past:
        out.print(
            _(
                "Only the stored history contains these words, in {places}:",
                counted(len(past), "place"),
            )
        )
        for path in past:
            out.print(escape(str(path)))
    else:
        out.print(escape(_("Only backups contain these words: {names}", ", ".join(backups))))
    return await after_asking(app, flags, erasure, backups)


async def user_for_good(app: CallerView, flags: Namespace) -> int:
    """Erase what is kept of a user of whom there is no fact any more. Raises InvalidInput: there is nothing."""
    if f"sessions/{flags.user}" not in await app.knowledge.lifecycle.places():
        raise InvalidInput(
            "There are no facts of the user {user}, and no history of them.", flags.user
        )
    console().print(escape(_("The user {user} has no facts any more, only a history.", flags.user)))
    erasure = await forgetting.erasure_of(app.memories.engines, (), (), flags.user)
    return await after_asking(app, flags, erasure, [])


async def after_asking(
    app: CallerView, flags: Namespace, erasure: Erasure, backups: Sequence[str]
) -> int:
    """Say what goes, ask, and erase it; returns the status of the command."""
    _say_what_goes(app, flags, erasure, backups)
    if flags.dry_run:
        console().print(_("Would erase it."))
        return 0
    if not _may_erase(flags, _("Erase it for good?")):
        return 0
    return await finish(app, erasure, _backups_to_rewrite(flags, backups))


async def refusal(app: CallerView, names: Sequence[str]) -> InvalidInput:
    """Why nothing is forgotten where no item holds the words, after all that is kept was searched for them. A server
    says this to other machines too: so it looks at the memories of the caller, and at nothing else of the server."""
    erasure = await forgetting.erasure_of(app.memories.engines, (), forgetting.words_in(names))
    traces = await asyncio.to_thread(app.home.traces, erasure, *_layers(app))
    past = _past(app, traces)
    if not past:
        return await _nothing_holds(app, traces, [])
    return InvalidInput(
        "No current memory or entry contains these words, but the stored history does, in {places}; "
        "`memory-server forget --for-good` erases them there.",
        counted(len(past), "place"),
    )


def _past(app: CallerView, traces: Traces) -> list[Path]:
    return [path for path in traces.texts if path.parent != app.home.backups.folder]


async def _nothing_holds(app: CallerView, traces: Traces, tenants: Sequence[str]) -> InvalidInput:
    """The sentence that no text holds the words, after all was searched: it says where else they are, and what could
    not be searched."""
    backups = await _backups_among(app, traces.texts)
    if backups:
        names = ", ".join(backups)
        first = _(
            "Only backups contain these words ({names}); add --for-good --in-backups to erase them there.",
            names,
        )
    else:
        first = _(
            "No memory or entry contains these words; `memory-server list` shows what is stored."
        )
    return InvalidInput(" ".join([first, *_also_said(app, traces, tenants)]))


async def finish(app: CallerView, erasure: Erasure, backups: Sequence[str]) -> int:
    """Erase, and say where it is found afterwards; the status of the command."""
    out = console()
    erased = await erase(app, erasure, backups)
    for reason in erased.damaged:
        complain(reason)
    if erasure.items:
        out.print(_("Erased {memories}.", counted(len(erasure.items), "memory")))
    else:
        out.print(_("Erased."))
    remaining_files = erased.traces.texts
    out.print(
        _(
            "Everything that is stored was searched: found in {places}.",
            counted(len(remaining_files), "place"),
        )
    )
    for path in remaining_files:
        out.print(escape(str(path)))
    if erasure.unsearched:
        short = counted(erasure.unsearched, "memory")
        out.print(
            _(
                "The text of {short} was not searched for elsewhere: it is shorter than 8 bytes, or another "
                "memory contains it.",
                short,
            )
        )
    tenants = await asyncio.to_thread(app.home.tenants_with, erasure)
    for sentence in _also_said(app, erased.traces, tenants):
        out.print(escape(sentence))
    folder = app.home.backups.folder
    return int(
        bool(erased.damaged) or any(backups or path.parent != folder for path in remaining_files)
    )


def _also_said(app: CallerView, traces: Traces, tenants: Sequence[str]) -> list[str]:
    sentences = []
    if traces.names:
        places = _shown(app, traces.names)
        sentences.append(
            _("The words stay in {places}, as the name of a conversation, folder or user.", places)
        )
    if tenants:
        names = ", ".join(tenants)
        sentences.append(
            _("Tenants have this text too ({names}); add --tenant NAME to erase it there.", names)
        )
    if traces.unread:
        places = _shown(app, traces.unread)
        sentences.append(_("This could not be searched: {places}.", places))
    return sentences


def _shown(app: CallerView, paths: Sequence[Path]) -> str:
    """Paths from the home on: other machines need not know where it is."""
    home = app.home.place
    shown_paths: list[str] = []
    for path in paths:
        if path.is_relative_to(home):
            path = path.relative_to(home)
        shown_paths.append(str(path))
    return ", ".join(shown_paths)


def _say_what_goes(
    app: CallerView, flags: Namespace, erasure: Erasure, backups: Sequence[str]
) -> None:
    out = console()
    out.print(_(_PLACES))
    if backups:
        if flags.in_backups:
            whose = _("and of these backups")
        else:
            whose = _("but not of these backups (--in-backups)")
        out.print(escape(_("{where}: {backups}", whose, ", ".join(backups))))
    if erasure.alike:
        same = counted(erasure.alike, "memory")
        out.print(
            _(
                "{same} elsewhere with the same text will not be erased, because you did not name it.",
                same,
            )
        )
    out.print(_(_NOT_OURS))
    if app.home.not_ours:
        out.print(app.home.not_ours)


def _may_erase(flags: Namespace, question: str) -> bool:
    """Whether --yes is given, or a person at the terminal agrees. Raises InvalidInput: nobody is there."""
    without = _("Nothing was erased, because this is not a terminal; add --yes to erase it.")
    if flags.yes or confirmed(question, otherwise=without):
        return True
    console().print(_("Nothing was erased."))
    return False


async def erase(app: CallerView, erasure: Erasure, backups: Sequence[str]) -> Erased:
    """Erase for good, also from these backups, and search for it."""
    home = app.home
    damaged: list[str] = []
    await asyncio.to_thread(app.recalls.write)
    await forgetting.erase(app.memories.engines, erasure, home.erased, home.recalls)
    await asyncio.to_thread(home.erase_waiting, erasure)
    for name in backups:
        try:
            await app.memories.backups.erase(name, erasure)
        except StorageError as error:
            damaged.append(str(error))
    await asyncio.to_thread(home.erased.end)
    await (
        app.knowledge.notes.aclose()
    )  # pages that are kept current are written before they are searched
    others = [*_layers(app), *await _pages(app)]
    return Erased(await asyncio.to_thread(home.left, erasure, *others), tuple(damaged))


async def search(app: CallerView, erasure: Erasure) -> Traces:
    """Where it stands in all that is kept, in files of layers, and in pages that were made of notes."""
    return await asyncio.to_thread(app.home.traces, erasure, *_layers(app), *await _pages(app))


def _layers(app: CallerView) -> list[Path]:
    return [layer.folder.place for layer in app.knowledge.layers.known]


async def _pages(app: CallerView) -> list[Path]:
    return await asyncio.to_thread(_pages_beside, app.settings.notes.documents)


def _pages_beside(documents: Path | None) -> list[Path]:
    """The pages of notes in the folder `documents` of the settings and in the usual folders."""
    folders = _usual_folders()
    if documents is not None:
        folders.insert(0, documents)
    return pages_in(*folders)


def _usual_folders() -> list[Path]:
    """The folders in which pages of notes are written if nothing else was said; a worktree has its own."""
    tops = {Path().absolute()}
    checkout = checkout_at(Path())
    if checkout is not None:
        tops |= {checkout.top, checkout.repository}
    return [top / FOLDER for top in sorted(tops)]


async def backups_with(app: CallerView, erasure: Erasure) -> list[str]:
    """The names of the backups that hold it, or that cannot be read and may."""
    traces = await asyncio.to_thread(app.home.traces, erasure)
    return await _backups_among(app, [*traces.texts, *traces.unread])


async def _backups_among(app: CallerView, paths: Sequence[Path]) -> list[str]:
    """The names of the backups that have one of these files."""
    file_names = [path.name for path in paths if path.parent == app.home.backups.folder]
    names: list[str] = []
    for backup in await app.memories.backups.listed():
        beginning = f"{backup.name}."
        if any(file_name.startswith(beginning) for file_name in file_names):
            names.append(backup.name)
    return names
