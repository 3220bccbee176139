"""What `import` and `convert` read: a file, a database or a folder, in the form that its content shows."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from memory_server.app import App
from memory_server.cli.exchanged_files import Tree, read_file, read_folder, read_tree, starts_with
from memory_server.cli.exchanged_zips import read_zip
from memory_server.cli.terminal import say_if_waiting
from memory_server.conversations.model import conversation_id_of
from memory_server.conversations.trigger_runner import sandbox_errors
from memory_server.interchange import (
    chat_exports,
    chats,
    claude_code,
    claude_mem,
    codex,
    folder_forms,
    gemini_cli,
    livingmemory,
    mem0,
    memory_service,
    official,
    own,
    pages,
    png_cards,
    seed_stores,
    worldinfo,
)
from memory_server.interchange.forms import (
    FOLDERS,
    SESSIONS,
    ZIP,
    Format,
    format_of,
    format_of_folder,
    format_of_tables,
)
from memory_server.interchange.incoming import Incoming, NotThisFormat, Tables
from memory_server.kernel.errors import InvalidInput
from memory_server.storage.entries import foreign_tables
from memory_server.storage.repositories import folder_of_work, project_at
from sandbox import PatternError, TriggerSandbox
from sandbox.locale import _

FILES: Mapping[Format, Callable[[bytes, str], Incoming]] = {
    "native": own.read_native,
    "node": folder_forms.read_node_list,
    "gentian": folder_forms.read_gentian_list,
    "pack": own.read_pack,
    "official": official.read,
    "livingmemory": livingmemory.read,
    "claude-mem": claude_mem.read,
    "mem0": lambda data, _usual: mem0.read(data),
    "memory-service": lambda data, _usual: memory_service.read(data),
    "refs-log": lambda data, _usual: seed_stores.read_refs(data),
}
"""What reads one file: its bytes, for a conversation."""
DATABASES: Mapping[Format, tuple[Mapping[str, Collection[str]], Callable[[Tables, str], Incoming]]] = {
    "livingmemory": (livingmemory.TABLES, livingmemory.read_tables),
    "claude-mem": (claude_mem.TABLES, claude_mem.read_tables),
    "notes-db": (seed_stores.TABLES, lambda tables, _usual: seed_stores.read_notes(tables)),
}
"""Tables and columns of a database, and what reads them."""
_NAMES: Mapping[Format, str] = {
    **dict.fromkeys(SESSIONS, "a.jsonl"),
    "chat-export": "memories.json",
    "gentian": folder_forms.SHORT_TERM,
    "node": folder_forms.SHORT_TERM,
}
"""What a file of a form is called in its folder, where it is given alone."""
TRUSTED: tuple[Format, ...] = ("native", "node")
"""Our own forms, whose triggers were checked when they were stored: all of what they hold is kept."""
_OF_ITSELF = ("version", "migration", "sync_", "write_ops")
"""Parts of the names of tables in which a program keeps what is not a memory."""


def named(source: str) -> str:
    return _("standard input") if source == "-" else source


async def read(app: App, source: str, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    """The memories in the file or folder `source`; memories without a conversation are for `usual`. Raises
    InvalidInput if the source cannot be read; the message says what to give instead."""
    if flags.depth is not None and flags.depth < 1:
        raise InvalidInput("--depth must be at least 1 message.")
    path = None if source == "-" else Path(source)
    try:
        found, form = await _read(app, source, path, flags, usual)
    except NotThisFormat as error:
        raise InvalidInput("{file} {reason}", named(source), error) from error
    if form not in TRUSTED:
        _leave_out_expired(found, app.clock())
    return found, form


async def _read(app: App, source: str, path: Path | None, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    if path is not None and await asyncio.to_thread(path.is_dir):
        return await asyncio.to_thread(_folder, app, path, flags, usual)
    if path is not None and await asyncio.to_thread(starts_with, path, foreign_tables.SIGNATURE):
        return await asyncio.to_thread(_database, path, flags, usual)
    if path is not None and await asyncio.to_thread(starts_with, path, ZIP):
        return await asyncio.to_thread(_zip, app, path, flags, usual)
    if path is None:
        say_if_waiting(_("what is imported"))
    data = await asyncio.to_thread(read_file, source, flags.encoding)
    if data.startswith(ZIP):
        return await asyncio.to_thread(_zip, app, BytesIO(data), flags, usual)
    if data.startswith(own.COMPRESSED):
        data = await asyncio.to_thread(own.uncompressed, data)
    if data.startswith(png_cards.SIGNATURE):
        data = await asyncio.to_thread(png_cards.card_in, data)
    form: Format = flags.format or format_of(data)
    try:
        if form == "worldinfo":
            return await _lorebook(app, data, source, flags, usual, _names(flags)), form
        return await asyncio.to_thread(_file, app, data, path, form, flags, usual), form
    except NotThisFormat:
        _refuse_other_form(flags, lambda: format_of(data))
        raise


def _file(app: App, data: bytes, path: Path | None, form: Format, flags: Namespace, usual: str) -> Incoming:
    """What one file holds, in any form but that of a lorebook."""
    changed_ms = app.clock() if path is None else round(path.stat().st_mtime * 1000)
    if form in FILES:
        return _timed(FILES[form](data, usual), changed_ms)
    if form == "chat":
        return chats.read(data, usual, app.settings.zone, _names(flags), by_character=_by_character(flags))
    if form not in FOLDERS:
        raise NotThisFormat("is a file, but the form {form} is a database; give the database.", form)
    name = _NAMES.get(form) or ("page.md" if path is None else path.name)
    return _tree(app, Tree({name: data}, {name: changed_ms}), form, flags, usual)


def _refuse_other_form(flags: Namespace, told: Callable[[], Format]) -> None:
    """Raises NotThisFormat if the form that --format names is not the one that the content shows."""
    form = flags.format
    if form is None:
        return
    with suppress(NotThisFormat):
        form = told()
    if form != flags.format:
        raise NotThisFormat("has the form {form}, and not {other}; leave --format out.", form, flags.format)


def _names(flags: Namespace) -> dict[str, str]:
    """Who the user and the character are, as far as the options say it."""
    return {who: name for who, name in (("char", flags.char), ("user", flags.user)) if name}


def _by_character(flags: Namespace) -> bool:
    """Whether a chat goes into the conversation of its character, because no option names one."""
    return not hasattr(flags, "conversation")


async def _lorebook(
    app: App, data: bytes, source: str, flags: Namespace, usual: str, names: Mapping[str, str]
) -> Incoming:
    """A lorebook, or a card with one: that goes into the conversation of its character."""
    book = worldinfo.read_book(data)
    if hasattr(flags, "conversation"):
        names = {"char": usual, **names}  # the lorebook of a character usually goes into the one that has its name
    elif book.character is not None:
        usual, names = conversation_id_of(book.character), {"char": book.character, **names}
    defaults = worldinfo.Defaults(flags.depth, not flags.substrings, flags.case_sensitive, names)
    with sandbox_errors():
        invalid = await invalid_expressions(app.sandbox, worldinfo.expressions(book))
    return worldinfo.read(book, Path(source).name, usual, invalid, defaults)


def _folder(app: App, path: Path, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    files = read_folder(path, flags.encoding)
    tree = read_tree(path) if not files and flags.format != "node" else Tree(files, {})
    form: Format = flags.format or format_of_folder(tree.files, tree.others)
    if form not in FOLDERS:
        raise NotThisFormat("is a folder, but the form {form} is a file; give the file.", form)
    try:
        return _tree(app, tree, form, flags, usual), form
    except NotThisFormat:
        _refuse_other_form(flags, lambda: format_of_folder(tree.files, tree.others))
        raise


def _zip(app: App, source: Path | BinaryIO, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    form: Format = "chat-export"
    if flags.format not in (None, form):
        raise NotThisFormat(
            "is a zip archive, but the form {form} is not; unpack it and give what is inside.", flags.format
        )
    return _tree(app, read_zip(source), form, flags, usual), form


def _tree(app: App, tree: Tree, form: Format, flags: Namespace, usual: str) -> Incoming:
    def folder_of(folder: str) -> str | None:
        return folder_of_work(Path(folder))

    def project_of(folder: str) -> str:
        project = project_at(Path(folder), on_several_machines=app.home.on_several_machines)
        return "" if project is None else project.key

    zone = app.settings.zone
    match form:
        case "node":
            found = folder_forms.read_node(tree.files, usual)
        case "gentian":
            found = folder_forms.read_gentian(tree.files, usual)
        case "pages":
            found = pages.read(tree.files, tree.times, zone)
        case "codex":
            found = codex.read(tree.files, usual, folder_of)
        case "gemini-cli":
            found = gemini_cli.read(tree.files, usual, folder_of)
        case "chat":
            found = chats.read_all(tree.files, usual, zone, _names(flags), by_character=_by_character(flags))
            chats.count_others(found, tree.others)
        case "chat-export":
            found = chat_exports.read(tree.files, tree.others, usual, _names(flags))
            found = _timed(found, max(tree.times.values(), default=0))
        case _:
            found = claude_code.read(tree.files, usual, tree.times, claude_code.WorkingFolders(folder_of, project_of))
    found.skipped += tree.left_out
    return found


def _database(path: Path, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    there = foreign_tables.tables_of(path)
    form: Format = flags.format or format_of_tables({name: table.columns for name, table in there.items()})
    if form not in DATABASES:
        raise NotThisFormat("is a database, but the form {form} is a file; give the file.", form)
    wanted, read = DATABASES[form]
    found = read(foreign_tables.rows_of(path, wanted), usual)
    for name, table in sorted(there.items()):
        if name not in wanted and not any(part in name for part in _OF_ITSELF):
            found.lost[_("rows of the table {name}", name)] += table.rows
    return _timed(found, round(path.stat().st_mtime * 1000)), form


def _timed(found: Incoming, changed_ms: int) -> Incoming:
    """With the time of the file for each entry that has none: so the same file is the same entries."""
    for entries in found.entries.values():
        entries[:] = (
            entry if entry.updated_ms else replace(entry, created_ms=changed_ms, updated_ms=changed_ms)
            for entry in entries
        )
    return found


def _leave_out_expired(found: Incoming, now_ms: int) -> None:
    """Without the entries that the other program would no longer give."""
    for entries in found.entries.values():
        live = [entry for entry in entries if entry.expires_ms is None or entry.expires_ms > now_ms]
        found.lost[_("memories that have expired there")] += len(entries) - len(live)
        entries[:] = live


async def invalid_expressions(sandbox: TriggerSandbox, keys: Iterable[str]) -> set[str]:
    """The expressions `/body/flags` that V8 does not compile."""
    found: set[str] = set()
    for key in dict.fromkeys(keys):
        try:
            await sandbox.match_texts(key, [])
        except PatternError:
            found.add(key)
    return found
