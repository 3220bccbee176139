"""Say what is erased and where, ask, erase it, and say where it was found afterwards (`forget --for-good`)."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from languages import N_, _, counted
from memory_server.cli.terminal import console, print_plain, say
from memory_server.config import Settings
from memory_server.kernel.items import ItemFilter
from memory_server.kernel.secrets import without_secrets
from memory_server.kernel.streams import complain, confirmed, standard_input, write
from memory_server.operations.erasing import (
    EraseRequest,
    ErasurePlan,
    ErasureReport,
    erase,
    finish_erasing,
    plan_erasing,
)
from memory_server.runtime.app import CallerView

_PLACES = N_(
    "The text is erased from everything that is stored here: memories, archive, history, journal, "
    "snapshots, files that repairs set aside, the record of recalls, notes and other entries with "
    "their history, index and vectors, free pages, logs and former copies of the database, turns "
    "that wait for a linked server, and Markdown files of layers. This cannot be undone."
)
_NOT_OURS = N_(
    "You must delete these yourself: transcripts of clients, copies elsewhere, and the git history of layer files."
)


async def finish_what_was_begun(view: CallerView, flags: Namespace) -> bool | None:
    """Finish an erasure that was interrupted. Return whether it is complete, or None if no erasure was interrupted."""
    erasure = await asyncio.to_thread(view.home.erased.begun)
    if erasure is None:
        return None
    complain("An earlier erasure was interrupted; it is completed first.")
    report = await finish_erasing(view, erasure, in_backups=flags.in_backups)
    _print_report(report)
    return report.is_complete


async def plan_for_good(view: CallerView, flags: Namespace, where: ItemFilter) -> ErasurePlan:
    return await plan_erasing(view, EraseRequest(flags.words, where, in_backups=flags.in_backups))


async def carry_out(view: CallerView, flags: Namespace, plan: ErasurePlan) -> int:
    """Say what a plan erases, ask, and erase it. Return 1 if the text is still found outside the
    backups, or in backups that were to be rewritten; else 0, also after --dry-run or a no. Raises
    InvalidInput if the user cannot be asked and --yes is missing."""
    _say_what_goes(view, plan)
    out = console()
    would_erase = _("Would erase it.")
    question = _("Erase it for good?")

    if plan.items:
        count = counted(len(plan.items), "memory")
        would_erase = _("Would erase {count}.", count)
        question = _("Erase {count} for good?", count)

    if flags.dry_run:
        out.print(would_erase)
        return 0

    # Without a terminal the command cannot ask, and it must not erase unasked.
    without = _("Nothing was erased, because this is not a terminal; add --yes to erase it.")
    if not flags.yes and not confirmed(question, otherwise=without):
        say("Nothing was erased.")
        return 0

    report = await erase(view, plan)
    _print_report(report)
    return int(not report.is_complete)


def _say_what_goes(view: CallerView, plan: ErasurePlan) -> None:
    """Say what an erasure would reach before the user is asked: where the text is if no item holds
    it, which backups hold it, and which memories with the same text stay."""
    out = console()
    names = ", ".join(plan.backups)

    # The user has seen no item, so say where the text is.
    if not plan.items:
        print_plain(_where_it_is(plan, names))
        for path in plan.places:
            print_plain(path)

    out.print(_(_PLACES))
    if plan.backups:
        if plan.request.in_backups:
            whose = _("and of these backups")
        else:
            whose = _("but not of these backups (--in-backups)")
        say("{where}: {backups}", whose, names)

    # The user named some memories by id; others with the same text are not meant.
    if plan.erasure.alike:
        same = counted(plan.erasure.alike, "memory")
        say(
            "{same} elsewhere with the same text will not be erased, because you did not name it.",
            same,
        )

    out.print(_(_NOT_OURS))
    if view.home.not_ours:
        out.print(view.home.not_ours)


def _where_it_is(plan: ErasurePlan, backups: str) -> str:
    """Say where the text is if no item holds it."""
    if plan.erasure.user:
        return _("The user {user} has no facts any more, only a history.", plan.erasure.user)
    if plan.places:
        places = counted(len(plan.places), "place")
        return _("Only the stored history contains these words, in {places}:", places)
    return _("Only backups contain these words: {names}", backups)


def _print_report(report: ErasureReport) -> None:
    """Print what was erased, where its text was found afterwards, and what was not searched; faults
    go to standard error."""
    for reason in report.damaged:
        complain(reason)

    if report.erasure.items:
        say("Erased {memories}.", counted(len(report.erasure.items), "memory"))
    else:
        say("Erased.")
    say(
        "Everything that is stored was searched: found in {places}.",
        counted(len(report.found), "place"),
    )

    for path in report.found:
        print_plain(path)

    # A short text would be found inside other texts everywhere.
    if report.erasure.unsearched:
        short = counted(report.erasure.unsearched, "memory")
        say(
            "The text of {short} was not searched for elsewhere: it is shorter than 8 bytes, or another "
            "memory contains it.",
            short,
        )

    for sentence in report.remarks:
        print_plain(sentence)


async def say_without_secrets(_settings: Settings, flags: Namespace) -> None:
    """Print a text as it would be stored for a client that writes code."""
    text = flags.text
    if text == "-":
        text = standard_input().decode(errors="replace")
    cleaned = without_secrets(text, with_pairs=True)
    write(cleaned.text)
    say("Secrets that are removed: {count}.", len(cleaned.found))


async def erase_secrets(view: CallerView, flags: Namespace) -> int:
    """Erase for good the memories that hold secrets, after listing them and asking. Return the exit
    status of `carry_out`, or 0 if none exist. Raises InvalidInput if the user cannot be asked
    and --yes is missing."""
    request = EraseRequest(
        (), ItemFilter(archived=None), in_backups=flags.in_backups, holding_secrets=True
    )
    plan = await plan_erasing(view, request)
    if not plan.items and not plan.backups:
        say("No memory and no backup holds a secret of a known kind.")
        return 0
    for item in plan.items:
        print_plain(f"{item.id}  {_(item.family)} {item.place}")
    return await carry_out(view, flags, plan)
