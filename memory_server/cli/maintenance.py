"""Keep memories in order: `pin`, `mute`, `edit`, `pause`, `resume`, `backup` and its kin, `doctor`."""

from __future__ import annotations

import asyncio
import platform
import re
from argparse import Namespace
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

from languages import N_, _, counted, n_
from languages.columns import cells, padded
from memory_server.cli.call_tool import called, print_result
from memory_server.cli.daemon import describe, running_for
from memory_server.cli.inspection import for_each_conversation, named_conversation, with_id
from memory_server.cli.install.command import tool_hooks_finding
from memory_server.cli.terminal import (
    console,
    escape,
    hint,
    print_plain,
    progress,
    say,
    time_text,
    watched,
)
from memory_server.cli.word_giving import words_finding
from memory_server.command_table import COMMANDS
from memory_server.conversations.changes import Edited
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.lifecycle import outdated_text
from memory_server.conversations.ports import RepairPlan
from memory_server.conversations.short_term import Reindexed
from memory_server.conversations.trigger_search import examine_sandbox
from memory_server.kernel.backups import Mode
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.lifecycle import Examine
from memory_server.kernel.messages import LAST_MS
from memory_server.kernel.private import Pause
from memory_server.kernel.streams import complain, write
from memory_server.kernel.text import Finding, Grade
from memory_server.memories.held_secrets import held_secrets
from memory_server.operations.backing_up import BackupRequest, back_up, back_up_all
from memory_server.operations.examining import unexamined_finding
from memory_server.operations.repairing import RepairRequest, repair
from memory_server.operations.whereabouts import not_copied, shown_names
from memory_server.runtime.app import NO_OPENCC, App, CallerView, tenants_of
from memory_server.tools.backup import backup_result, restore_result
from memory_server.version import __version__
from nlp.normal_forms import can_simplify

STYLES = {N_("ok"): "green", N_("note"): "cyan", N_("warning"): "yellow", N_("error"): "red"}
SHOWN = 20
"""Memories of a conversation that `doctor --reindex --dry-run` shows."""
SHOWN_WORDS = 6
_SUBJECT_CELLS = 20
"""Columns for the subject of a line of `doctor`; a longer name pushes its line to the right."""
_DURATION = re.compile(r"([0-9]{1,9}) ?(m|h|d)")
_UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


async def pin(view: CallerView, flags: Namespace) -> None:
    """Keep the memory whose id begins with the typed text from being forgotten, or with --off let it be forgotten
    again."""
    tool = "pin_memory"
    if flags.off:
        tool = "unpin_memory"
    await _change(view, flags, tool)


async def mute(view: CallerView, flags: Namespace) -> None:
    """Keep the memory whose id begins with the typed text from coming unasked here, or with --off let it come again."""
    await _change(view, flags, "mute_memory", where=flags.where)


async def edit(view: CallerView, flags: Namespace) -> None:
    """Put other words into the memory whose id begins with the typed text."""
    arguments = {"find": flags.find, "replace": flags.replacement, "otherWords": flags.other_words}
    named_arguments = {name: value for name, value in arguments.items() if value is not None}
    await _change(view, flags, "edit_memory", **named_arguments)


async def _change(view: CallerView, flags: Namespace, tool: str, **arguments: object) -> None:
    """Call a tool for the memory whose id begins with `flags.memory`. Raises MemoryNotFound if no memory or several
    match."""
    matches = await with_id(view, flags, flags.memory)
    if not matches:
        raise MemoryNotFound(
            _(
                "No short-term memory has the id `{memory}`; `memory-server list` shows the ids.",
                flags.memory,
            )
        )

    if len(matches) > 1:
        ids = ", ".join(match.memory.id for match in matches[:SHOWN])
        many = _(
            "{found} memories have an id that begins with `{memory}` ({ids}); write more of it.",
            len(matches),
            flags.memory,
            ids,
        )
        raise MemoryNotFound(many)
    [match] = matches

    arguments = {"id": match.memory.id, "conversation_id": match.conversation.id, **arguments}
    names = {"find": "FIND", "replace": "REPLACEMENT", "otherWords": "--other-words"}
    answer = await called(view, tool, arguments, names)
    print_plain(answer.text)


async def pause(view: CallerView, flags: Namespace) -> None:
    new_pause = _pause(flags.for_, view.clock())
    view.home.pause.write(new_pause)
    pause_text = new_pause.text(view.zone)
    say("Memory is {zone}: nothing is stored, and hooks do not recall.", pause_text)


async def resume(view: CallerView, _flags: Namespace) -> None:
    former_pause = view.paused()
    view.home.pause.remove()
    if former_pause:
        say("Memory resumed.")
    else:
        say("Memory was not paused.")


def _pause(duration: str | None, now_ms: int) -> Pause:
    """Return the pause that begins at `now_ms` and lasts for `duration` (`30m`, `2h`, `3d`), or until it is ended if
    that is None. Raises InvalidInput if `duration` is not a duration, or longer than dates can show."""
    if duration is None:
        return Pause()
    until_ms = 0
    match = _DURATION.fullmatch(duration.strip())
    if match is not None:
        until_ms = now_ms + int(match[1]) * _UNIT_MS[match[2]]
    if not now_ms < until_ms <= LAST_MS:
        raise InvalidInput(
            "`{duration}` is not a duration; write a number and m, h or d, such as 30m, 2h or 3d.",
            duration,
        )
    return Pause(until_ms)


async def backup(view: CallerView, flags: Namespace) -> int:
    """Make a backup. Return 1 if a conversation or tenant had to be left out. Raises InvalidInput if no
    backup can be made here, or the name is the second word of a command."""
    view.home.backups.must_be_possible()  # before any advice on what else to back up
    if flags.all_tenants:
        return await _backup_of_all(view, flags)

    conversation_id = await named_conversation(view, flags)

    # With a flag between them, `backup` and `list` are parsed as a backup named `list`.
    if f"backup {flags.name}" in COMMANDS:
        raise InvalidInput(
            "Write `memory-server backup {name}` without anything between the two words.",
            flags.name,
        )

    new_backup = await back_up(view, BackupRequest(flags.name, conversation_id), progress)
    print_result(view, backup_result(new_backup))
    if conversation_id is None:
        for sentence in await not_copied(view, layers=False):
            hint(sentence)
        if view.home.tenant_names():
            hint("`memory-server backup --all-tenants` backs up the tenants too.")
    return int(bool(new_backup.left_out))


async def _backup_of_all(view: CallerView, flags: Namespace) -> int:
    """Back up the memories of the owner and of each tenant. Return 1 if one of them is not
    complete. Raises InvalidInput with -c or --tenant, or if nothing is stored at all."""
    if hasattr(flags, "conversation") or hasattr(flags, "tenant"):
        raise InvalidInput("--all-tenants backs up all memories; leave out --tenant and -c.")

    tenants = tenants_of(view)
    out = console()
    saved = 0

    parts = await back_up_all(view, tenants, flags.name, progress)
    for part in parts:
        if part.reason:
            complain("{tenant} was not backed up: {reason}", part.tenant, part.reason)
        elif part.backup is None:
            say("{tenant}: nothing is stored.", part.tenant)
        else:
            if part.tenant is not None:
                saved += 1
                out.print(f"[bold]{escape(part.tenant)}[/]")
            print_result(view, backup_result(part.backup))

    if tenants:
        say("{saved} of {tenants} backed up.", saved, counted(len(tenants), "tenant"))
    return int(not all(part.is_complete for part in parts))


async def restore(view: CallerView, flags: Namespace) -> int:
    """Restore a backup, or with --dry-run say what that would change. Return 1 if a memory was left out."""
    backups = view.memories.backups
    mode: Mode = "merge"
    if flags.overwrite:
        mode = "overwrite"

    # The progress bar needs the number of conversations beforehand.
    conversations = {backup.name: backup.conversations for backup in await backups.listed()}
    with progress(_("restoring"), conversations.get(flags.name, 0)) as advance:
        restored = await backups.restore(
            flags.name,
            mode,
            dry_run=flags.dry_run,
            only=getattr(flags, "conversation", None),
            by="restore",
            advance=advance,
        )

    print_result(view, restore_result(restored, dry_run=flags.dry_run))
    return int(any(restored_place.left_out for restored_place in restored))


async def delete(view: CallerView, flags: Namespace) -> None:
    answer = await called(view, "delete_backup", {"name": flags.name})
    print_plain(answer.text)


async def backups(view: CallerView, _flags: Namespace) -> None:
    answer = await called(view, "list_backups", {})
    if answer.structured["backups"]:
        print_plain(answer.text)
    else:
        print_plain(_(view.home.without_backups))


async def _reindex(view: CallerView, flags: Namespace) -> int:
    """Find the words of older memories again, with the present settings; with --dry-run only say
    what would change. Return 1 if some conversation cannot be read or written; with -c, raise
    StorageError instead, or InvalidInput if it does not exist. Raises InvalidInput, too, if there
    are only tenants."""

    async def renew(conversation: Conversation) -> None:
        reindexed = await conversation.short_term.reindex(dry_run=flags.dry_run, by="reindex")
        _print_reindexed(view, conversation.id, reindexed, dry_run=flags.dry_run)

    count, failures = await for_each_conversation(view, flags, _("reindexing"), renew)
    tenants = view.home.tenant_names()

    if not count and tenants:
        raise InvalidInput(
            "Only tenants have conversations here ({names}); use --tenant NAME for one of them.",
            shown_names(tenants),
        )
    if not count:
        say("Nothing is stored yet.")
    elif not hasattr(flags, "conversation"):
        for sentence in await not_copied(view, layers=True):
            hint(sentence)
    return int(failures > 0)


def _print_reindexed(
    view: CallerView, conversation_id: str, reindexed: Reindexed, *, dry_run: bool
) -> None:
    """Print how many memories of a conversation get other words; in a dry run, print also which memories."""
    out = console()

    edits = [edit for edit in reindexed.changes if _changes_words(edit)]

    if dry_run:
        counts = _("would change {other} of {total}", len(edits), reindexed.total)
    else:
        counts = _("changed {other} of {total}", len(edits), reindexed.total)

    change = ""
    if reindexed.change_id:
        change = _(", change {change_id}", reindexed.change_id)
    out.print(f"[bold]{escape(conversation_id)}[/] {counts}{change}")

    if not dry_run:
        return
    for edit in edits[:SHOWN]:
        when = time_text(edit.memory.time_ms, view.zone)
        print_plain(f"  {edit.memory.id} {when} {_words(edit)}")
    if len(edits) > SHOWN:
        say("  … and {other} more", len(edits) - SHOWN)


def _changes_words(edit: Edited) -> bool:
    """Return whether words or weights change; otherwise only the record of the settings that found them changes."""
    return edit.before.words != edit.memory.words or edit.before.weights != edit.memory.weights


def _words(edit: Edited) -> str:
    """Describe the added and removed words, as `+5月2日 -喜歡`, or say that only weights change."""
    added = [f"+{word}" for word in edit.memory.words if word not in edit.before.words]
    removed = [f"-{word}" for word in edit.before.words if word not in edit.memory.words]
    parts = added[:SHOWN_WORDS] + removed[:SHOWN_WORDS]
    if max(len(added), len(removed)) > SHOWN_WORDS:
        parts.append("…")
    if not parts:
        return _("other weights")
    return " ".join(parts)


async def _repair(view: CallerView, flags: Namespace) -> int:
    """Mend what is broken, and report every step. Return 1 if a conversation could not be mended."""
    conversation_id = await named_conversation(view, flags)
    request = RepairRequest(conversation_id, dry_run=flags.dry_run)
    report = await repair(view.home, request, progress)
    for reason in report.failures:
        complain(reason)
    for plan in report.plans:
        _print_repair(plan, dry_run=flags.dry_run)
    if not report.mended and not report.failures:
        say("Nothing is broken.")
    return int(bool(report.failures))


def _print_repair(plan: RepairPlan, *, dry_run: bool) -> None:
    """Print the steps of a repair, and where the files as they were are kept."""
    out = console()
    unchanged = ""
    if dry_run and plan.steps:
        unchanged = _(" (nothing is changed yet)")
    out.print(f"[bold]{escape(plan.conversation_id)}[/]{unchanged}")
    for step in plan.steps:
        out.print(f"  {escape(step)}")
    if plan.steps and not dry_run:
        say("  The files as they were are in {kept_in}.", str(plan.kept_in))
    for sentence in plan.set_aside:
        out.print(f"  {escape(sentence)}", soft_wrap=True)


async def doctor(view: CallerView, flags: Namespace) -> int:
    """Print the findings about the data folder, the disk, the clock and the sandbox. Return 1 if a
    finding is an error. Change nothing, except with --repair and --reindex. With these it raises
    ReadOnly where nothing may be changed."""
    if flags.repair:
        if not flags.dry_run:
            view.settings.refuse_change("doctor --repair")
        return await _repair(view, flags)
    if flags.reindex:
        if not flags.dry_run:
            view.settings.refuse_change("doctor --reindex")
        return await _reindex(view, flags)

    findings = [finding async for finding in _examined(view)]
    any_error = any(finding.grade == "error" for finding in findings)
    if flags.json:
        write({"ok": not any_error, "findings": [asdict(finding) for finding in findings]})
    else:
        _print(findings)
    return int(any_error)


def _versions() -> Finding:
    """Report the versions of this program, of Python and of the packages on which most depends."""
    system = _("Python {python_version} on {system}", platform.python_version(), platform.system())
    packages: list[str] = []
    for name in ("mcp", "mini-racer", "jieba", "rjieba", "orjson"):
        with suppress(PackageNotFoundError):
            packages.append(f"{name} {version(name)}")
    packages_text = ", ".join(packages)
    sentence = _("memory-server {version}, {system}, {found}", __version__, system, packages_text)
    return Finding("ok", _("versions"), sentence)


async def _word_index_finding(reader: App) -> Finding | None:
    """Report whether the present settings found the words of all memories. Return None if no conversation exists."""
    if not await reader.conversations.ids():
        return None
    outdated = await reader.conversations.outdated()
    if outdated:
        return Finding("note", _("words"), outdated_text(outdated))
    if reader.settings.words.simplified and not can_simplify():
        return Finding("note", _("words"), _(NO_OPENCC))
    return Finding("ok", _("words"), _("all memories were indexed with the current settings"))


async def _examined(view: CallerView) -> AsyncIterator[Finding]:
    """Yield the findings of all examinations, in the order in which they are printed."""
    yield _versions()
    for finding in await asyncio.to_thread(view.home.examine):
        yield finding
    yield await asyncio.to_thread(view.recalls.finding)

    examinations: list[Examine] = []
    for engine in view.memories.engines:
        examinations += await engine.examinations()
    for examine in watched("examining", examinations, len(examinations)):
        for finding in await examine():
            yield finding

    # Opening a conversation mends it, and doctor must not change anything.
    async with App.for_one_question(view.settings.model_copy(update={"read_only": True})) as reader:
        possible_findings = (
            await _word_index_finding(reader),
            await words_finding(view),
            await asyncio.to_thread(unexamined_finding, view.home.questions),
            tool_hooks_finding(),
            (await held_secrets(reader.memories)).finding,
        )
    for possible in filter(None, possible_findings):
        yield possible

    for finding in await examine_sandbox(view.sandbox):
        yield finding

    tenants = view.home.tenant_names()
    if tenants:
        yield Finding(
            "note", _("tenants"), _("{names}; --tenant NAME examines one", ", ".join(tenants))
        )

    for socket_path, facts in await asyncio.to_thread(running_for, view.home.shown):
        grade: Grade = "ok"
        if not facts:
            grade = "warning"
        yield Finding(grade, _("shared process"), describe(socket_path, facts))


def _print(findings: Sequence[Finding]) -> None:
    """Print one line a finding, aligned by what it is about, and the counts below."""
    out = console()
    widths = [cells(finding.about) for finding in findings]
    width = min(_SUBJECT_CELLS, max(widths, default=0))

    for finding in findings:
        grade = f"[{STYLES[finding.grade]}]{padded(finding.grade, 8)}[/]"
        blanks = " " * max(0, width - cells(finding.about))
        out.print(f"{grade} {escape(finding.about)}{blanks}  {escape(finding.what)}")
    counts = Counter(finding.grade for finding in findings)
    # Not `counted`: the notes that people keep are counted too, and have another word in Chinese.
    out.print(
        n_(
            "{errors}, {warnings}, {count} note.",
            "{errors}, {warnings}, {count} notes.",
            counts["note"],
            counted(counts["error"], "error"),
            counted(counts["warning"], "warning"),
        )
    )
