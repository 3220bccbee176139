"""What `import` and `convert` read: a file, a database or a folder, in the form that its content shows."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from memory_server.app import App
from memory_server.cli.exchanged_files import Tree, read_file, read_folder, read_tree, starts_with
from memory_server.cli.terminal import say_if_waiting
from memory_server.conversations.model import conversation_id_of
from memory_server.conversations.trigger_runner import sandbox_errors
from memory_server.interchange import (
    chats,
    claude_code,
    claude_mem,
    codex,
    folder_forms,
    gemini_cli,
    livingmemory,
    mem0,
    official,
    own,
    pages,
    png_cards,
    seed_stores,
    worldinfo,
)
from memory_server.interchange.incoming import (
    SESSIONS,
    Format,
    Incoming,
    NotThisFormat,
    Tables,
    format_of,
    format_of_folder,
    format_of_tables,
)
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
    "refs-log": lambda data, _usual: seed_stores.read_refs(data),
}
"""What reads one file: its bytes, for a conversation."""
DATABASES: Mapping[Format, tuple[Mapping[str, Collection[str]], Callable[[Tables, str], Incoming]]] = {
    "livingmemory": (livingmemory.TABLES, livingmemory.read_tables),
    "claude-mem": (claude_mem.TABLES, claude_mem.read_tables),
    "notes-db": (seed_stores.TABLES, lambda tables, _usual: seed_stores.read_notes(tables)),
}
"""Tables and columns of a database, and what reads them."""
_OF_ITSELF = ("version", "migration", "sync_", "write_ops")
"""Parts of the names of tables in which a program keeps what is not a memory."""


def named(source: str) -> str:
    return _("standard input") if source == "-" else source


async def read(app: App, source: str, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    """The memories in the file or folder `source`; memories without a conversation are for `usual`. Raises
    InvalidInput if the source cannot be read; the message says what to give instead."""
    if flags.depth is not None and flags.depth < 1:
        raise InvalidInput("--depth must be at least 1 message.")
    names = {who: name for who, name in (("char", flags.char), ("user", flags.user)) if name}
    path = None if source == "-" else Path(source)
    try:
        if path is not None and await asyncio.to_thread(path.is_dir):
            return await asyncio.to_thread(_folder, app, path, flags, usual)
        if path is not None and await asyncio.to_thread(starts_with, path, foreign_tables.SIGNATURE):
            return await asyncio.to_thread(_database, path, flags, usual)
        if path is None:
            say_if_waiting(_("what is imported"))
        data = await asyncio.to_thread(read_file, source, flags.encoding)
        if data.startswith(own.COMPRESSED):
            data = await asyncio.to_thread(own.uncompressed, data)
        if data.startswith(png_cards.SIGNATURE):
            data = await asyncio.to_thread(png_cards.card_in, data)
        form: Format = flags.format or format_of(data)
        if form == "worldinfo":
            return await _lorebook(app, data, source, flags, usual, names), form
        if form == "chat":
            by_character = not hasattr(flags, "conversation")
            read = partial(chats.read, by_character=by_character)
            return await asyncio.to_thread(read, data, usual, app.settings.zone, names), form
        if form in (*SESSIONS, "pages"):
            name = "a.jsonl" if form in SESSIONS else "page.md" if path is None else path.name
            one = Tree({name: data}, {name: app.clock() if path is None else round(path.stat().st_mtime * 1000)}, ())
            return await asyncio.to_thread(_tree, app, one, form, usual), form
        if form not in FILES:
            raise NotThisFormat("is a file, but the form {form} is a database; give the database.", form)
        found = await asyncio.to_thread(FILES[form], data, usual)
        return _timed(found, app.clock() if path is None else round(path.stat().st_mtime * 1000)), form
    except NotThisFormat as error:
        raise InvalidInput("{file} {reason}", named(source), error) from error


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
    tree = read_tree(path) if not files and flags.format != "node" else Tree(files, {}, ())
    form: Format = flags.format or format_of_folder(tree.files)
    match form:
        case "node":
            return folder_forms.read_node(tree.files, usual), form
        case "gentian":
            return folder_forms.read_gentian(tree.files, usual), form
        case "claude-code" | "codex" | "gemini-cli" | "pages":
            return _tree(app, tree, form, usual), form
        case _:
            raise NotThisFormat("is a folder, but the form {form} is a file; give the file.", form)


def _tree(app: App, tree: Tree, form: Format, usual: str) -> Incoming:
    def folder_of(folder: str) -> str | None:
        return folder_of_work(Path(folder))

    def project_of(folder: str) -> str:
        project = project_at(Path(folder), on_several_machines=app.home.on_several_machines)
        return "" if project is None else project.key

    match form:
        case "pages":
            found = pages.read(tree.files, tree.times, app.settings.zone)
        case "codex":
            found = codex.read(tree.files, usual, folder_of)
        case "gemini-cli":
            found = gemini_cli.read(tree.files, usual, folder_of)
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


async def invalid_expressions(sandbox: TriggerSandbox, keys: Iterable[str]) -> set[str]:
    """The expressions `/body/flags` that V8 does not compile."""
    found: set[str] = set()
    for key in dict.fromkeys(keys):
        try:
            await sandbox.match_texts(key, [])
        except PatternError:
            found.add(key)
    return found
