"""Copy memories between stores (`copy`), and update the tables of a database (`migrate`)."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from languages import counted, n_
from memory_server.cli.terminal import console, print_plain, progress, say
from memory_server.config import Settings
from memory_server.kernel.streams import complain
from memory_server.operations.copying import CopyReport, CopyRequest, copy_store
from memory_server.runtime.homes import HomesAt, TokenFile, home_of


async def copy(settings: Settings, flags: Namespace) -> int:
    """Copy memories from one store to another, and print a sum. Return 1 if something was not
    copied and the target does not have it in the same form. Raises InvalidInput if both stores are
    the same, or if a conversation or tenant does not exist."""
    request = CopyRequest(
        HomesAt(settings, flags.from_),
        HomesAt(settings, flags.to),
        flags.conversations,
        getattr(flags, "tenant", None),
        _tenants_of_tokens(settings),
        dry_run=flags.dry_run,
    )
    report = await copy_store(request, progress)
    _print_report(report, dry_run=flags.dry_run)
    return int(bool(report.not_copied))


def _print_report(report: CopyReport, *, dry_run: bool) -> None:
    """Print the steps of a copy and its counts, or with `dry_run` what would be copied. Faults and
    what was not copied go to standard error."""
    for step in report.steps:
        if step.is_fault:
            complain(step.sentence)
        else:
            print_plain(step.sentence)
    conversations = counted(report.conversations, "conversation")
    present = counted(report.present, "conversation")

    if dry_run:
        say(
            "{conversations} would be copied; {present} already in the other store.",
            conversations,
            present,
        )
    else:
        say("{conversations} copied; {present} already in the other store.", conversations, present)

    if report.tenants:
        say("The memories of {tenants} are included.", counted(report.tenants, "tenant"))
    if report.not_copied:
        complain("Not copied: {names}.", ", ".join(report.not_copied))


def _tenants_of_tokens(settings: Settings) -> list[str]:
    """List the tenants in the file that `http.tokens` names."""
    path = settings.http.tokens
    if path is None or not path.expanduser().exists():
        return []
    tokens = TokenFile(path.expanduser()).tokens()
    return [token.tenant for token in tokens if token.tenant is not None]


async def migrate(settings: Settings, flags: Namespace) -> None:
    """Bring the tables of the database up to date, or with --dry-run say what that would do."""
    home = home_of(settings, lambda: 0)

    try:
        steps = await asyncio.to_thread(home.migrate, dry_run=flags.dry_run)
    finally:
        await home.aclose()
    if not steps:
        say("The tables of {place} are up to date.", home.shown)
    elif flags.dry_run:
        console().print(
            n_(
                "{count} step is missing: {steps}.",
                "{count} steps are missing: {steps}.",
                len(steps),
                steps,
            )
        )
    else:
        say("Database updated to version {version}.", steps[-1])
