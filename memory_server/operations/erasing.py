"""Erase what a person named from everything that is stored here, and search all of it afterwards (`erase`).

An erasure is planned first: the plan says what is erased and which backups hold it. A plan that no longer fits what
is stored is not carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from languages import _, counted
from memory_server.kernel.erasure import Erasure, Traces
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.items import Item, ItemFilter
from memory_server.kernel.values import frozen
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.memories import forgetting
from memory_server.memories.held_secrets import held_secrets
from memory_server.operations.ports import OpenMemory


class NothingToErase(InvalidInput):
    """No current item that is meant exists, and no trace of it in the past."""


@frozen
class EraseRequest:
    """A request to erase the items that these words or ids mean among the items that match the filter, archived ones
    too. Without words, erase all that is kept of the user of the filter. `in_backups` erases from backups too.
    `holding_secrets` means the items that hold secrets, whatever their words are."""

    names: Sequence[str]
    where: ItemFilter
    in_backups: bool = False
    holding_secrets: bool = False

    @property
    def is_narrowed(self) -> bool:
        """Whether only a part of what is stored is meant."""
        # Compared with a filter without conditions, so that a new condition cannot be overlooked here.
        return self.where != ItemFilter(archived=self.where.archived)


@frozen
class ErasurePlan:
    """The things that an erasure takes. `items` are listed now. `places` hold the words if no item has them.
    `backups` names the backups that hold what is erased, or may hold it."""

    request: EraseRequest
    erasure: Erasure
    backups: Sequence[str]
    items: Sequence[Item] = ()
    places: Sequence[Path] = ()


@frozen
class ErasureReport:
    """The places where a search still found what was erased, and what it could not read. `damaged` says why backups
    could not be rewritten. `remarks` are sentences about other places. `is_complete` means that it remains only in
    backups that were to stay."""

    erasure: Erasure
    found: Sequence[Path]
    unread: Sequence[Path]
    damaged: Sequence[str]
    remarks: Sequence[str]
    is_complete: bool


async def plan_erasing(view: OpenMemory, request: EraseRequest) -> ErasurePlan:
    """Find what is to be erased, and change nothing. Raises InvalidInput if there is nothing to
    erase, or if an item in use has some of the words only in its `other_words`. For secrets the
    plan may be empty."""
    engines = view.memories.engines
    if request.holding_secrets:
        secrets = await held_secrets(view.memories)
        erasure = await secrets.erasure(view.memories)
        return ErasurePlan(request, erasure, list(secrets.backups), secrets.items)

    items, words = await forgetting.find(engines, request.names, request.where)
    looked_for = words or forgetting.words_in(request.names)
    beside = await forgetting.beside(engines, looked_for, request.where)

    if beside:
        raise InvalidInput("{reason} Then erase the rest of them.", forgetting.beside_text(beside))

    if items:
        # A filter means only these items, so the words are not erased from all of the past.
        if request.is_narrowed:
            words = ()
        erasure = await forgetting.erasure_of(engines, items, words, request.where.user)
        return ErasurePlan(request, erasure, await backups_with(view, erasure), items)

    # No item is left: only a history of the user, or only the past, may hold it.
    if request.where.user and not "".join(request.names).strip():
        return await _plan_of_history(view, request)
    if request.is_narrowed:
        raise nothing_chosen()
    return await _plan_of_past(view, request)


def nothing_chosen() -> NothingToErase:
    """Say that only a part of what is stored was searched."""
    return NothingToErase(
        "No memory or other entry that you chose contains these words; without -c, --family, --since, "
        "--until and --user, everything that is stored is searched."
    )


async def _plan_of_history(view: OpenMemory, request: EraseRequest) -> ErasurePlan:
    """Plan for a user of whom only a history is stored. Raises NothingToErase if that is missing too."""
    user = request.where.user
    if f"sessions/{user}" not in await KnowledgeLifecycle(view.knowledge).places():
        raise NothingToErase("There are no facts of the user {user}, and no history of them.", user)
    erasure = await forgetting.erasure_of(view.memories.engines, (), (), user)
    return ErasurePlan(request, erasure, [])


async def _plan_of_past(view: OpenMemory, request: EraseRequest) -> ErasurePlan:
    """Plan for words that only the past holds. Raises NothingToErase if a search of everything does not find them."""
    words = forgetting.words_in(request.names)
    erasure = await forgetting.erasure_of(view.memories.engines, (), words)
    traces = await asyncio.to_thread(view.home.traces, erasure, *await _places_beside(view))

    past = _outside_of_backups(view, traces)
    backups = await _backups_among(view, traces.texts)

    if not past and not (backups and request.in_backups):
        tenants = await asyncio.to_thread(view.home.tenants_with, erasure)
        raise await _nothing_holds(view, traces, tenants)
    return ErasurePlan(request, erasure, backups, places=past)


async def refusal(view: OpenMemory, names: Sequence[str]) -> InvalidInput:
    """Say why nothing is forgotten if no item holds the words, after a search of all that is kept. A server says this
    to other machines too, so it looks only at the memories of the caller."""
    words = forgetting.words_in(names)
    erasure = await forgetting.erasure_of(view.memories.engines, (), words)
    traces = await asyncio.to_thread(view.home.traces, erasure, *_layers(view))
    past = _outside_of_backups(view, traces)
    if not past:
        return await _nothing_holds(view, traces, [])
    return InvalidInput(
        "No current memory or entry contains these words, but the stored history does, in {places}; "
        "`memory-server forget --for-good` erases them there.",
        counted(len(past), "place"),
    )


async def erase(view: OpenMemory, plan: ErasurePlan) -> ErasureReport:
    """Erase for good what a plan says, and search for it. Raises InvalidInput if other items are meant by now."""
    if plan.items:
        # Other processes may have written since the plan was shown.
        request = plan.request
        if request.holding_secrets:
            items = list((await held_secrets(view.memories)).items)
        else:
            engines = view.memories.engines
            items, _words = await forgetting.find(engines, request.names, request.where)

        if {item.key for item in items} != {item.key for item in plan.items}:
            raise InvalidInput(
                "The matching memories and entries changed in the meantime, so nothing was erased; run the command "
                "again."
            )

    backups: Sequence[str] = ()
    if plan.request.in_backups:
        backups = plan.backups
    return await erase_from(view, plan.erasure, backups)


async def finish_erasing(view: OpenMemory, erasure: Erasure, *, in_backups: bool) -> ErasureReport:
    """Complete an erasure that was interrupted (`home.erased.begun`)."""
    backups: Sequence[str] = ()
    if in_backups:
        backups = await backups_with(view, erasure)
    return await erase_from(view, erasure, backups)


async def erase_from(view: OpenMemory, erasure: Erasure, backups: Sequence[str]) -> ErasureReport:
    """Erase for good, also from these backups, and search for what was erased."""
    home = view.home
    damaged: list[str] = []

    # Pending lines of the record of recalls may hold the text too.
    await asyncio.to_thread(view.recalls.write)
    await forgetting.erase(
        view.memories.engines, erasure, home.erased, home.recalls, home.questions
    )
    await asyncio.to_thread(home.erase_waiting, erasure)

    for name in backups:
        try:
            await view.memories.backups.erase(name, erasure)
        except StorageError as error:
            # A damaged backup must not keep the others from being erased.
            damaged.append(str(error))

    await asyncio.to_thread(home.erased.end)

    # Pages that are kept current are written before they are searched.
    await view.knowledge.notes.aclose()

    traces = await asyncio.to_thread(home.left, erasure, *await _places_beside(view))
    tenants = await asyncio.to_thread(home.tenants_with, erasure)

    must_be_gone = traces.texts
    if not backups:
        must_be_gone = tuple(_outside_of_backups(view, traces))

    return ErasureReport(
        erasure,
        traces.texts,
        traces.unread,
        damaged,
        _remarks(view, traces, tenants),
        is_complete=not damaged and not must_be_gone,
    )


async def _nothing_holds(
    view: OpenMemory, traces: Traces, tenants: Sequence[str]
) -> NothingToErase:
    """Say that no text holds the words, after a search of everything: where else they are, and what could not be
    searched."""
    backups = await _backups_among(view, traces.texts)
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
    return NothingToErase(" ".join([first, *_remarks(view, traces, tenants)]))


def _remarks(view: OpenMemory, traces: Traces, tenants: Sequence[str]) -> list[str]:
    """Return sentences about places that an erasure does not reach: names, tenants, and files that
    cannot be read."""
    sentences = []
    if traces.names:
        places = _shown(view, traces.names)
        sentences.append(
            _("The words stay in {places}, as the name of a conversation, folder or user.", places)
        )

    if tenants:
        names = ", ".join(tenants)
        sentences.append(
            _("Tenants have this text too ({names}); add --tenant NAME to erase it there.", names)
        )

    if traces.unread:
        places = _shown(view, traces.unread)
        sentences.append(_("This could not be searched: {places}.", places))
    return sentences


def _shown(view: OpenMemory, paths: Sequence[Path]) -> str:
    """Show paths relative to the home: other machines need not know where it is."""
    home = view.home.place
    shown_paths: list[str] = []
    for path in paths:
        if path.is_relative_to(home):
            path = path.relative_to(home)
        shown_paths.append(str(path))
    return ", ".join(shown_paths)


def _outside_of_backups(view: OpenMemory, traces: Traces) -> list[Path]:
    return [path for path in traces.texts if path.parent != view.home.backups.folder]


async def backups_with(view: OpenMemory, erasure: Erasure) -> list[str]:
    """Return the names of the backups that hold what is erased, or that cannot be read and may hold it."""
    traces = await asyncio.to_thread(view.home.traces, erasure)
    return await _backups_among(view, [*traces.texts, *traces.unread])


async def _backups_among(view: OpenMemory, paths: Sequence[Path]) -> list[str]:
    """Return the names of the backups that have one of these files."""
    file_names = [path.name for path in paths if path.parent == view.home.backups.folder]
    names: list[str] = []
    for backup in await view.memories.backups.listed():
        beginning = f"{backup.name}."
        if any(file_name.startswith(beginning) for file_name in file_names):
            names.append(backup.name)
    return names


async def _places_beside(view: OpenMemory) -> list[Path]:
    """Return the places outside the home that hold its texts: files of layers, and pages that were made of notes."""
    return [*_layers(view), *await asyncio.to_thread(view.machine.pages_of_notes)]


def _layers(view: OpenMemory) -> list[Path]:
    return [layer.folder.place for layer in view.knowledge.layers.known]
