"""Keeping in order: `pin`, `mute`, `edit`, `pause`, `resume`, `backup` and its kin, `doctor`."""

from __future__ import annotations

import asyncio
import platform
import re
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

from rich.text import Text

from memory_server.app import NO_OPENCC, App
from memory_server.cli import tenant_backups
from memory_server.cli.call_tool import called, print_result
from memory_server.cli.daemon import describe, running_for
from memory_server.cli.inspection import chosen, each, not_copied, shown_names, with_id
from memory_server.cli.terminal import (
    complain,
    console,
    escape,
    hint,
    progress,
    time_text,
    watched,
    write,
)
from memory_server.cli.word_giving import words_finding
from memory_server.command_table import COMMANDS
from memory_server.conversations.changes import Edited
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.lifecycle import outdated_text
from memory_server.conversations.trigger_runner import examine_sandbox
from memory_server.kernel.backups import Mode
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.messages import LAST_MS
from memory_server.kernel.private import Pause
from memory_server.kernel.text import Finding
from memory_server.tools.backup import backup_result, restore_result
from memory_server.version import __version__
from nlp.normal_forms import can_simplify
from sandbox import cells, padded
from sandbox.locale import N_, _, counted, n_, term, translated

STYLES = {N_("ok"): "green", N_("note"): "cyan", N_("warning"): "yellow", N_("error"): "red"}
SHOWN = 20
"""Memories of a conversation that `doctor --reindex --dry-run` shows."""
SHOWN_WORDS = 6
_SUBJECT_CELLS = 20
"""Columns of what a line of `doctor` is about; a longer name pushes its line to the right."""
_DURATION = re.compile(r"([0-9]{1,9}) ?(m|h|d)")
_UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


async def pin(app: App, flags: Namespace) -> None:
    """Keep the memory whose id begins like this from being forgotten, or with --off let it be forgotten again."""
    await _change(app, flags, "unpin_memory" if flags.off else "pin_memory")


async def mute(app: App, flags: Namespace) -> None:
    """Let the memory whose id begins like this no longer come unasked here, or with --off let it come again."""
    await _change(app, flags, "mute_memory", where=flags.where)


async def edit(app: App, flags: Namespace) -> None:
    """Put other words into the memory whose id begins like this."""
    given = {"find": flags.find, "replace": flags.replacement, "otherWords": flags.other_words}
    await _change(app, flags, "edit_memory", **{name: value for name, value in given.items() if value is not None})


async def _change(app: App, flags: Namespace, tool: str, **given: object) -> None:
    found = await with_id(app, flags, flags.memory)
    if len(found) != 1:
        ids = ", ".join(memory.id for _, memory in found[:SHOWN])
        many = _(
            "{found} memories have an id that begins with `{memory}` ({ids}); write more of it.",
            len(found),
            flags.memory,
            ids,
        )
        none = _("No short-term memory has the id `{memory}`; `memory-server list` shows the ids.", flags.memory)
        raise MemoryNotFound(many if found else none)
    [(conversation, memory)] = found
    arguments = {"id": memory.id, "conversation_id": conversation.id, **given}
    answer = await called(
        app, tool, arguments, {"find": "FIND", "replace": "REPLACEMENT", "otherWords": "--other-words"}
    )
    console().print(escape(answer.text))


async def pause(app: App, flags: Namespace) -> None:
    made = _pause(flags.for_, app.clock())
    app.home.pause.write(made)
    console().print(_("Memory is {zone}: nothing is stored, and hooks do not recall.", made.text(app.settings.zone)))


async def resume(app: App, _flags: Namespace) -> None:
    paused = app.paused()
    app.home.pause.remove()
    console().print(_("Memory resumed.") if paused else _("Memory was not paused."))


def _pause(duration: str | None, now_ms: int) -> Pause:
    """The pause that begins at `now_ms` and lasts for `duration`: `30m`, `2h`, `3d`; None: until it is ended. Raises
    InvalidInput if that is not a duration, or longer than dates can show."""
    if duration is None:
        return Pause()
    found = _DURATION.fullmatch(duration.strip())
    until_ms = now_ms + int(found[1]) * _UNIT_MS[found[2]] if found else 0
    if not now_ms < until_ms <= LAST_MS:
        raise InvalidInput(
            "`{duration}` is not a duration; write a number and m, h or d, such as 30m, 2h or 3d.", duration
        )
    return Pause(until_ms)


async def backup(app: App, flags: Namespace) -> int:
    """Make a backup; 1 if a conversation had to be left out."""
    if flags.all_tenants:
        return await tenant_backups.make(app, flags)
    names = await chosen(app, flags)
    if f"backup {flags.name}" in COMMANDS:
        raise InvalidInput("Write `memory-server backup {name}` without anything between the two words.", flags.name)
    only = names[0] if hasattr(flags, "conversation") else None
    tenants = app.home.tenant_names()
    if only is None and not names and tenants and not await app.knowledge.overview():
        raise InvalidInput(
            "Only tenants have memories here ({names}); `memory-server backup --all-tenants` takes all of them.",
            shown_names(tenants),
        )
    with progress(_("backing up"), len(names)) as advance:
        made = await app.memories.backups.make(flags.name, only=only, advance=advance)
    print_result(app, backup_result(made))
    for sentence in await not_copied(app, layers=False) if only is None else ():
        hint(sentence)
    if tenants and only is None:
        hint(_("`memory-server backup --all-tenants` takes the tenants too."))
    return 1 if made.left_out else 0


async def restore(app: App, flags: Namespace) -> int:
    """Restore a backup, or with --dry-run say what that would change; 1 if a memory was left out."""
    backups = app.memories.backups
    mode: Mode = "overwrite" if flags.overwrite else "merge"
    conversations = {backup.name: backup.conversations for backup in await backups.listed()}
    with progress(_("restoring"), conversations.get(flags.name, 0)) as advance:
        only, dry_run = getattr(flags, "conversation", None), flags.dry_run
        restored = await backups.restore(flags.name, mode, dry_run=dry_run, only=only, by="restore", advance=advance)
    print_result(app, restore_result(restored, dry_run=dry_run))
    return 1 if any(place.left_out for place in restored) else 0


async def delete(app: App, flags: Namespace) -> None:
    console().print(escape((await called(app, "delete_backup", {"name": flags.name})).text))


async def backups(app: App, _flags: Namespace) -> None:
    answer = await called(app, "list_backups", {})
    console().print(escape(answer.text if answer.structured["backups"] else app.home.without_backups))


async def _reindex(app: App, flags: Namespace) -> int:
    """Find the words of older memories again, with the present settings; with --dry-run only say what that would
    change. 1 if a conversation cannot be read."""
    out = console()

    async def renew(conversation: Conversation) -> None:
        done = await conversation.short_term.reindex(dry_run=flags.dry_run, by="reindex")
        change = _(", change {change_id}", done.change_id) if done.change_id else ""
        # Where neither words nor weights change, only the record of the settings that found them does.
        other = [
            edit
            for edit in done.changes
            if (edit.before.words, edit.before.weights) != (edit.memory.words, edit.memory.weights)
        ]
        would = _("would change {other} of {total}", len(other), done.total)
        said = would if flags.dry_run else _("changed {other} of {total}", len(other), done.total)
        out.print(f"[bold]{escape(conversation.id)}[/] {translated(said)}{translated(change)}")
        if flags.dry_run:
            for edit in other[:SHOWN]:
                when = time_text(edit.memory.time_ms, app.settings.zone)
                out.print(Text(f"  {edit.memory.id} {when} {_words(edit)}"))
            if len(other) > SHOWN:
                out.print(_("  … and {other} more", len(other) - SHOWN))

    count, failed = await each(app, flags, _("reindexing"), renew)
    if not count:
        out.print(_("Nothing is stored yet."))
    return 1 if failed else 0


def _words(edit: Edited) -> str:
    """`+5月2日 -喜歡`: added and removed words; if there are none, a note that weights change."""
    come = [f"+{word}" for word in edit.memory.words if word not in edit.before.words]
    go = [f"-{word}" for word in edit.before.words if word not in edit.memory.words]
    more = ["…"] if max(len(come), len(go)) > SHOWN_WORDS else []
    return " ".join([*come[:SHOWN_WORDS], *go[:SHOWN_WORDS], *more]) or term("other weights")


async def _repair(app: App, flags: Namespace) -> int:
    """Mend now what the next use of a conversation would mend, and report every step; 1 if one could not be mended."""
    out, failed, mended = console(), 0, 0
    [wanted] = await chosen(app, flags) if hasattr(flags, "conversation") else [None]
    repairs = await asyncio.to_thread(app.home.repairs, wanted, dry_run=flags.dry_run)
    for act in watched(_("repairing"), repairs, len(repairs)):
        try:
            plan = await asyncio.to_thread(act)
        except StorageError as error:
            complain(str(error))
            failed += 1
            continue
        if plan is None:
            continue
        mended += bool(plan.steps)
        unchanged = term(" (nothing is changed yet)") if flags.dry_run and plan.steps else ""
        out.print(f"[bold]{escape(plan.conversation_id)}[/]{unchanged}")
        for step in plan.steps:
            out.print(f"  {escape(step)}")
        if plan.steps and not flags.dry_run:
            out.print(_("  The files as they were are in {kept_in}.", escape(str(plan.kept_in))))
        for sentence in plan.set_aside:
            out.print(f"  {escape(sentence)}", soft_wrap=True)
    if not mended and not failed:
        out.print(_("Nothing is broken."))
    return 1 if failed else 0


async def doctor(app: App, flags: Namespace) -> int:
    """Print what is found about the data folder, the disk, the clock and the sandbox; 1 if something is an error.
    Nothing is changed, except with --repair and --reindex."""
    if work := _repair if flags.repair else _reindex if flags.reindex else None:
        if not flags.dry_run:
            app.settings.refuse_change("doctor --repair" if flags.repair else "doctor --reindex")
        return await work(app, flags)
    found = [finding async for finding in _examined(app)]
    failed = any(finding.grade == "error" for finding in found)
    if flags.json:
        write({"ok": not failed, "findings": list(map(asdict, found))})
    else:
        _print(found)
    return 1 if failed else 0


async def _examined(app: App) -> AsyncIterator[Finding]:
    system, found = _("Python {python_version} on {system}", platform.python_version(), platform.system()), list[str]()
    for name in ("mcp", "mini-racer", "jieba", "rjieba", "orjson"):
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    yield Finding(
        "ok", _("versions"), _("memory-server {version}, {system}, {found}", __version__, system, ", ".join(found))
    )
    for finding in await asyncio.to_thread(app.home.examine):
        yield finding
    yield await asyncio.to_thread(app.recalls.finding)
    examinations = [examine for engine in app.memories.engines for examine in await engine.examinations()]
    for examine in watched("examining", examinations, len(examinations)):
        for finding in await examine():
            yield finding
    if await app.conversations.ids():
        # Opening a conversation mends it; doctor must not change anything.
        async with App(app.settings.model_copy(update={"read_only": True}), brief=True) as reader:
            outdated = await reader.conversations.outdated()
        if outdated:
            yield Finding("note", _("words"), outdated_text(outdated))
        elif app.settings.words.simplified and not can_simplify():
            yield Finding("note", _("words"), NO_OPENCC)
        else:
            yield Finding("ok", _("words"), _("all memories were indexed with the present settings"))
    if (finding_on_words := await words_finding(app)) is not None:
        yield finding_on_words
    for finding in await examine_sandbox(app.sandbox):
        yield finding
    if tenants := app.home.tenant_names():
        yield Finding("note", _("tenants"), _("{names}; --tenant NAME examines one", ", ".join(tenants)))
    for place, known in await asyncio.to_thread(running_for, app.home.shown):
        yield Finding("ok" if known else "warning", _("shared process"), describe(place, known))


def _print(found: Sequence[Finding]) -> None:
    out = console()
    subjects = [translated(finding.about) for finding in found]
    width = min(_SUBJECT_CELLS, max(map(cells, subjects), default=0))
    for finding, subject in zip(found, subjects, strict=True):
        grade = f"[{STYLES[finding.grade]}]{padded(finding.grade, 8)}[/]"
        blanks = " " * max(0, width - cells(subject))
        out.print(f"{grade} {escape(subject)}{blanks}  {escape(finding.what)}")
    counts = {grade: sum(finding.grade == grade for finding in found) for grade in STYLES}
    errors, warnings = counted(counts["error"], "error"), counted(counts["warning"], "warning")
    # Not `counted`: the notes that people keep are counted too, and have another word in Chinese.
    out.print(
        n_(
            "{errors}, {warnings}, {count} note.",
            "{errors}, {warnings}, {count} notes.",
            counts["note"],
            errors,
            warnings,
        )
    )
