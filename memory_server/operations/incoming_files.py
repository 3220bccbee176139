"""Read a file, a database or a folder for `import` and `convert`, in the format that its content shows."""

from __future__ import annotations

import asyncio
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from languages import _
from memory_server.interchange import (
    chat_exports,
    chats,
    claude_code,
    codex,
    folder_forms,
    gemini_cli,
    own,
    pages,
    png_cards,
    sillytavern_folder,
    sillytavern_parts,
)
from memory_server.interchange.forms import (
    DATABASES,
    FILES,
    FOLDERS,
    JPEG,
    SESSIONS,
    SQLITE,
    ZIP,
    Format,
    format_of,
    format_of_folder,
    format_of_tables,
)
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.values import frozen
from memory_server.operations import lore_import
from memory_server.operations.exchanged_files import (
    Tree,
    TreeFiles,
    ZippedCard,
    ZippedFolder,
    content_of,
    read_folder,
    read_tree,
    read_zip,
    starts_with,
)
from memory_server.operations.ports import OpenMemory, ReadOptions, Source
from sandbox import WRONG_VALUES

_NAMES: Mapping[Format, str] = {
    **dict.fromkeys(SESSIONS, "a.jsonl"),
    "chat-export": "memories.json",
    "gentian": folder_forms.SHORT_TERM,
    "node": folder_forms.SHORT_TERM,
}
"""The name of a file of a format in its folder, for a file that is given alone."""
TRUSTED: tuple[Format, ...] = ("native", "node")
"""Our own formats, whose triggers were checked when they were stored: all of their content is kept."""
_OF_ITSELF = ("version", "migration", "sync_", "write_ops")
"""Parts of the names of tables in which a program keeps things that are not memories."""


async def read(
    view: OpenMemory, source: Source, options: ReadOptions, usual: str
) -> tuple[Incoming, Format]:
    """Read the memories in the file or folder `source`; memories without a conversation are for `usual`. Raises
    InvalidInput if the source cannot be read; the message says what to give instead."""
    if options.depth is not None and options.depth < 1:
        raise InvalidInput("--depth must be at least 1 message.")

    path = Path(source.name) if source.data is None else None
    try:
        incoming, form = await _Reader(view, source, path=path, options=options, usual=usual).read()
    except NotThisFormat as error:
        raise InvalidInput("{file} {reason}", source.shown, error) from error
    except WRONG_VALUES as error:  # beside the records, each of which has a boundary of its own
        raise InvalidInput(
            "{file} has a value of a type or size that its format does not have; export it again.",
            source.shown,
        ) from error

    if form not in TRUSTED:
        _leave_out_expired(incoming, view.clock())
    return incoming, form


@frozen
class _Reader:
    """Reads one source. `path` is the path of its file or folder, or None if its bytes were given."""

    view: OpenMemory
    source: Source
    path: Path | None
    options: ReadOptions
    usual: str

    async def read(self) -> tuple[Incoming, Format]:
        """Read the memories of the source, and return its format too. Raises NotThisFormat, and
        InvalidInput if it cannot be read."""
        path = self.path
        if path is not None:
            if await asyncio.to_thread(path.is_dir):
                return await self._folder(path)
            if await asyncio.to_thread(starts_with, path, SQLITE):
                return await asyncio.to_thread(self._read_database, path)
            if await asyncio.to_thread(_is_zip, path):
                return await self._zip(path)

        data = await asyncio.to_thread(content_of, self.source, self.options.encoding)
        if data.startswith(
            ZIP
        ):  # of standard input, which has no path that could be looked at before
            return await self._zip(BytesIO(data))

        if data.startswith(own.COMPRESSED):
            data = await asyncio.to_thread(own.uncompressed, data)
        if data.startswith(png_cards.SIGNATURE):
            data = await asyncio.to_thread(png_cards.card_in, data)
        return await self._data(data)

    async def _data(self, data: bytes) -> tuple[Incoming, Format]:
        """Read the memories of a file in the named format, or the one its content shows. Raises
        NotThisFormat; if another format was named, the reason says so first."""
        await self._admit(len(data))
        form = await self._form_of(data)

        try:
            if form == "worldinfo":
                incoming = await lore_import.lorebook(
                    self.view, data, self.source.name, options=self.options, usual=self.usual
                )
            else:
                incoming = await asyncio.to_thread(self._file, data, form)
        except NotThisFormat:
            # A wrong --format is the more useful reason, so it is reported first.
            await asyncio.to_thread(_refuse_other_form, self.options, partial(format_of, data))
            raise
        return incoming, form

    async def _form_of(self, data: bytes) -> Format:
        """Return the format of a file, as the options name it or its content shows."""
        if self.options.format is not None:
            return self.options.format
        names = lore_import.names_of(self.options)
        return await asyncio.to_thread(format_of, data, names.values())

    async def _admit(self, size: int) -> None:
        """Refuse a content that has no room where it would be stored."""
        if self.options.admit is not None:
            await self.options.admit(size)

    def _file(self, data: bytes, form: Format) -> Incoming:
        """Read a file in any format except a lorebook. Raises NotThisFormat if the format is that
        of a database or a folder."""
        changed_ms = self.view.clock() if self.path is None else _changed_ms(self.path)
        if form in FILES:
            return _timed(FILES[form](data, self.usual), changed_ms)

        if form == "chat":
            return chats.read(data, lore_import.chat_options(self.view, self.options, self.usual))

        if form in DATABASES:
            raise NotThisFormat(
                "is a file, but the format {form} is a database; import the database.", form
            )
        if form == "sillytavern":
            raise NotThisFormat(
                "is a file, but the format {form} is a folder; import the folder.", form
            )

        usual_name = "page.md" if self.path is None else self.path.name
        name = _NAMES.get(form) or usual_name
        return self._tree(Tree({name: data}, {name: changed_ms}), form)

    async def _folder(self, path: Path) -> tuple[Incoming, Format]:
        """Read the memories of a folder: as SillyTavern's if it may be one and holds something of it or the format says
        so, otherwise in another format. Raises NotThisFormat if it has none."""
        if await self._may_be_sillytavern(path):
            tree = await asyncio.to_thread(read_sillytavern, path)
            folder = await lore_import.sillytavern_in(
                tree, self.source.shown, self.options, self.usual
            )

            # Other programs have folders with such names too.
            if folder.holds_something or self.options.format is not None:
                return await self._sillytavern(folder), "sillytavern"
        return await asyncio.to_thread(self._other_folder, path)

    async def _may_be_sillytavern(self, path: Path) -> bool:
        """Return whether a folder has the format of SillyTavern, by the options or by its content."""
        if self.options.format is not None:
            return bool(self.options.format == "sillytavern")
        return await asyncio.to_thread(is_sillytavern, path)

    async def _sillytavern(self, folder: lore_import.SillyTavernFolder) -> Incoming:
        return await lore_import.sillytavern(
            self.view, folder, options=self.options, usual=self.usual
        )

    def _other_folder(self, path: Path) -> tuple[Incoming, Format]:
        """Read the memories of a folder in any format except SillyTavern's. Raises NotThisFormat if
        the format is that of a file."""
        files = read_folder(path, self.options.encoding)
        tree = Tree(files, {})
        if not files and self.options.format != "node":
            tree = read_tree(path)

        form: Format = self.options.format or format_of_folder(tree.files, tree.others)
        if form not in FOLDERS:
            raise NotThisFormat(
                "is a folder, but the format {form} is a file; import the file.", form
            )

        try:
            return self._tree(tree, form), form
        except NotThisFormat:
            _refuse_other_form(self.options, partial(format_of_folder, tree.files, tree.others))
            raise

    async def _zip(self, archive: Path | BinaryIO) -> tuple[Incoming, Format]:
        """Read a zip archive, and return its memories and its format. Raises NotThisFormat if it
        holds nothing that is known, or is not in the format of the options; and what `admit` of the
        options raises."""
        content = await asyncio.to_thread(read_zip, archive)
        if isinstance(content, bytes):
            return await self._data(content)

        await self._admit(content.size)
        form: Format = "chat-export"
        if isinstance(content, ZippedCard):
            form = "worldinfo"
        elif isinstance(content, ZippedFolder):
            form = "sillytavern"

        if self.options.format not in (None, form):
            raise NotThisFormat(
                "is a zip archive, but the format {form} is not; unpack it and import the files inside.",
                self.options.format,
            )

        match content:
            case ZippedCard():
                incoming = await lore_import.zipped_card(
                    self.view, content, self.source.name, options=self.options, usual=self.usual
                )
            case ZippedFolder():
                folder = await lore_import.sillytavern_in(
                    content.tree, self.source.shown, self.options, self.usual
                )
                incoming = await self._sillytavern(folder)
            case _:
                incoming = await asyncio.to_thread(self._tree, content, form)
        return incoming, form

    def _tree(self, tree: Tree, form: Format) -> Incoming:
        """Read the memories of the files of a folder in this format. Raises NotThisFormat if they
        hold none, in most formats."""
        programs = words_between_commas(self.options.programs)

        match form:
            case "node":
                incoming = folder_forms.read_node(tree.files, self.usual)
            case "gentian":
                incoming = folder_forms.read_gentian(tree.files, self.usual)
            case "pages":
                incoming = pages.read(tree.files, tree.times, self.view.zone)
            case "codex":
                incoming = codex.read(tree.files, self.usual, self._folder_of, programs)
            case "gemini-cli":
                incoming = gemini_cli.read(tree.files, self.usual, self._folder_of, programs)
            case "chat":
                incoming = chats.read_all(
                    tree.files, lore_import.chat_options(self.view, self.options, self.usual)
                )
                chats.count_others(incoming, tree.others)
            case "chat-export":
                names = lore_import.names_of(self.options)
                incoming = chat_exports.read(
                    tree.files, others=tree.others, usual=self.usual, names=names
                )
                incoming = _timed(incoming, max(tree.times.values(), default=0))
            case "claude-code":
                folders = claude_code.WorkingFolders(self._folder_of, self._project_of)
                incoming = claude_code.read(tree.files, self.usual, tree.times, folders, programs)
            case _:
                raise AssertionError(f"no reader for a folder in the format {form}")

        incoming.skipped += tree.left_out
        return incoming

    def _folder_of(self, folder: str) -> str | None:
        """Return how a memory names a working folder."""
        return self.view.machine.folder_of_work(Path(folder))

    def _project_of(self, folder: str) -> str:
        """Return the key of the project of a working folder; empty if it has no project."""
        return self.view.machine.project_key(Path(folder))

    def _read_database(self, path: Path) -> tuple[Incoming, Format]:
        """Read a database in the named format, or the one its columns show; entries without a time
        get the time of the file. Raises NotThisFormat, or InvalidInput if it cannot be read."""
        tables = self.view.machine.tables_of(path)
        columns = {name: table.columns for name, table in tables.items()}
        form: Format = self.options.format or format_of_tables(columns)
        if form not in DATABASES:
            raise NotThisFormat(
                "is a database, but the format {form} is a file; import the file.", form
            )

        database = DATABASES[form]
        incoming = database.read(self.view.machine.rows_of(path, database.tables), self.usual)

        # Say how much was left out; tables that the program keeps for itself do not count.
        for name, table in sorted(tables.items()):
            if name not in database.tables and not any(part in name for part in _OF_ITSELF):
                incoming.lost[_("rows of the table {name}", name)] += table.rows
        return _timed(incoming, _changed_ms(path)), form


def _changed_ms(path: Path) -> int:
    """Return when a file was changed, in milliseconds since 1970."""
    return round(path.stat().st_mtime * 1000)


def _refuse_other_form(options: ReadOptions, form_of_content: Callable[[], Format]) -> None:
    """Refuse a content that has another known format than --format names. Raises NotThisFormat."""
    named_form = options.format
    if named_form is None:
        return
    try:
        form = form_of_content()
    except NotThisFormat:
        return  # the content has no known format that could be advised
    if form != named_form:
        raise NotThisFormat(
            "has the format {form}, not {other}; leave --format out.", form, named_form
        )


def _is_zip(path: Path) -> bool:
    """Return whether a file is a zip archive, also behind a picture, as RisuAI writes it."""
    return starts_with(path, ZIP) or (starts_with(path, JPEG) and zipfile.is_zipfile(path))


def _timed(incoming: Incoming, changed_ms: int) -> Incoming:
    """Give each entry without a time the time of the file, so that the same file makes the same entries."""
    for entries in incoming.entries.values():
        for index, entry in enumerate(entries):
            if not entry.updated_ms:
                entries[index] = replace(entry, created_ms=changed_ms, updated_ms=changed_ms)
    return incoming


def _leave_out_expired(incoming: Incoming, now_ms: int) -> None:
    """Remove the entries that the other program would no longer give, and count them as lost."""
    for entries in incoming.entries.values():
        live = [entry for entry in entries if entry.expires_ms is None or entry.expires_ms > now_ms]
        incoming.lost[_("memories that have expired there")] += len(entries) - len(live)
        entries[:] = live


# --- a folder of SillyTavern -------------------------------------------------------------------------------------

# Read the files of a folder of SillyTavern for `import` and `convert`.
#
# These are chats, groups, lorebooks, settings, and of each picture of a character only its card. Nothing else of the
# folder is opened, such as the keys of services.

_NOT_OF_A_USER = ("node_modules", "backups", "thumbnails", "assets")
"""Folders without anything that a user said; some have very many files."""


def is_sillytavern(folder: Path) -> bool:
    """Return whether the names of the files in a folder are the names in a SillyTavern folder."""
    return sillytavern_folder.is_folder(relative for relative, _path in _parts(folder))


def read_sillytavern(folder: Path) -> Tree:
    """Read the parts of such a folder. Raises InvalidInput if they are too many or too large."""
    files = TreeFiles(folder)
    for relative, path in _parts(folder):
        files.read(relative, path)
    return files.tree()


def _parts(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files that are parts of such a folder, with their paths in it. If the user gave only the folder of
    all worlds or characters, its own name is a part of the paths."""
    base = folder.resolve().name
    prefix = ""
    if base in sillytavern_parts.BOOK_FOLDERS:
        prefix = f"{base}/"
    for subfolder, below, names in os.walk(folder):
        # `os.walk` does not enter folders that are removed from its list.
        below[:] = sorted(
            name for name in below if not name.startswith(".") and name not in _NOT_OF_A_USER
        )
        for name in sorted(names):
            path = Path(subfolder, name)
            relative = prefix + path.relative_to(folder).as_posix()
            if not name.startswith(".") and sillytavern_parts.part_of(relative) is not None:
                yield relative, path
