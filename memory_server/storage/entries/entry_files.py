"""One file of a Markdown folder: its name, why it is not read, and what was read of it."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import tzinfo
from itertools import count
from pathlib import Path
from typing import Any

from languages import Sentence, _
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.folder_names import hashed_name, is_reserved
from memory_server.kernel.foreign_files import foreign, is_link
from memory_server.kernel.messages import without_surrogates
from memory_server.kernel.values import dataclass
from memory_server.knowledge import front_matter
from memory_server.knowledge.entry import Entry

ARCHIVE = "archive/"
ENDING = ".md"
MAX_FILE_BYTES = 1024 * 1024
"""The most bytes of a file that is read: an entry has 100,000 characters at most."""


_PLAIN = re.compile(r"\w[\w.-]*")
_NAME_BYTES = 80
_TIMES = {"created_at": "created_ms", "updated_at": "updated_ms", "archived_at": "archived_ms"}


@dataclass(frozen=True, slots=True)
class EntryFile:
    """A file as it was read. `entry` None: it is not an entry, or with a `trouble` cannot be read."""

    seen: tuple[int, int, int]
    settled: bool
    entry: Entry | None = None
    trouble: Sentence | None = None


def unusable(facts: os.stat_result, owners: Collection[int] | None) -> Sentence | None:
    """Say why a file is not read. Return None if it is."""
    reason = foreign(facts, owners)
    if reason is not None:
        return Sentence("it {reason}", reason)
    if facts.st_size > MAX_FILE_BYTES:
        return Sentence("it has more than {file:,} bytes", MAX_FILE_BYTES)
    return None


def numbered(key: str, first: int) -> Iterator[str]:
    """Yield names for further files of a key, from this number on."""
    return (hashed_name(f"{key} {number}") for number in count(first))


def name_of(entry: Entry, stem: str) -> str:
    """Return the name of the file of an entry, live or archived."""
    if entry.archived_ms is None:
        return f"{stem}{ENDING}"
    return f"{ARCHIVE}{stem}{ENDING}"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file or link of a folder, by its name in the folder of the entries."""

    name: str
    facts: os.stat_result


def listed_files(folder: Path, prefix: str) -> list[ListedFile]:
    """List the files and links of a folder that may be entries, changed last first."""
    files = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder / prefix) as directory:
        for item in directory:
            if not item.name.endswith(ENDING) or item.name.startswith("."):
                continue
            with suppress(FileNotFoundError):
                facts = item.stat(follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode) or is_link(facts):
                    files.append(ListedFile(prefix + item.name, facts))
    return sorted(files, key=lambda file: (-file.facts.st_mtime_ns, file.name))


@dataclass(frozen=True, slots=True)
class FileContent:
    """The entry of a file (None: it has none), and why it cannot be read."""

    entry: Entry | None
    trouble: Sentence | None = None


def read_entry(folder: Path, file: ListedFile, zone: tzinfo | None) -> FileContent:
    """Read the content of a file. Raises FileNotFoundError: it was removed."""
    if file.name != without_surrogates(file.name):
        return FileContent(None, Sentence("its name is not UTF-8; rename it"))

    try:
        page = front_matter.read(folders.read_file(folder / file.name, links=False))
    except FileNotFoundError:
        raise
    except front_matter.Unreadable as error:
        return FileContent(None, error.sentence)
    except OSError as error:
        return FileContent(None, Sentence(str(error)))

    if page is None:
        return FileContent(None)

    wrong = next(
        (name for name, is_right in _FORMS.items() if not is_right(page.fields.get(name))), ""
    )
    if wrong:
        return FileContent(None, Sentence("its `{name}` is of the wrong kind", wrong))

    return FileContent(_entry_of(file, page, zone))


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_tags(value: Any) -> bool:
    """Tell whether a value is a text, or a list of texts."""
    return all(map(_is_text, value)) if isinstance(value, list) else _is_text(value)


def _is_metadata(value: Any) -> bool:
    """Tell whether a value is an object, or nothing."""
    return isinstance(value, dict) or value in (None, "", "null", "~")


_FORMS: dict[str, Callable[[Any], bool]] = {
    "key": _is_text,
    "tags": _are_tags,
    "metadata": _is_metadata,
}
"""What the fields of a file must be, that an entry takes."""


def _entry_of(file: ListedFile, page: front_matter.Page, zone: tzinfo | None) -> Entry:
    # A file that a person wrote need not have times: the file system has one.
    changed_ms = file.facts.st_mtime_ns // 1_000_000
    created_ms = front_matter.moment_ms(page.fields.get("created_at"), zone)
    updated_ms = (
        front_matter.moment_ms(page.fields.get("updated_at"), zone) or created_ms or changed_ms
    )
    archived_ms = None
    if file.name.startswith(ARCHIVE):
        archived_ms = front_matter.moment_ms(page.fields.get("archived_at"), zone) or changed_ms

    metadata = page.fields.get("metadata")
    key = _key_of(file.name, page.fields.get("key"))
    return Entry(
        page.body,
        ref=file.name,
        key=key,
        title=key,
        tags=_tags_of(page.fields.get("tags")),
        metadata=metadata if isinstance(metadata, dict) else {},
        created_ms=created_ms or updated_ms,
        updated_ms=updated_ms,
        archived_ms=archived_ms,
    )


def _key_of(name: str, written_key: Any) -> str:
    """Return the key in a file, or else the name of the file."""
    key = ""
    if isinstance(written_key, str):
        key = written_key.strip()
    stem = name.removeprefix(ARCHIVE).removesuffix(ENDING)
    return unicodedata.normalize("NFC", key or stem)


def _tags_of(written_tags: Any) -> tuple[str, ...]:
    tags = written_tags
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list):
        return ()
    stripped = [tag.strip() for tag in tags if isinstance(tag, str)]
    return tuple(dict.fromkeys(filter(None, stripped)))


def entries_that_count(files: Mapping[str, EntryFile]) -> dict[str, Entry]:
    """Return the entries by file. Of two live files with the same key the newer file counts."""
    entries = {name: file.entry for name, file in sorted(files.items()) if file.entry is not None}
    newest: dict[str | None, Entry] = {}
    for entry in entries.values():
        if entry.archived_ms is None:
            newest_before = newest.setdefault(entry.key, entry)
            if newest_before.updated_ms < entry.updated_ms:
                newest[entry.key] = entry

    def counts(entry: Entry) -> bool:
        return entry.archived_ms is not None or newest[entry.key] is entry

    return {name: entry for name, entry in entries.items() if counts(entry)}


def new_file(path: Path, entry: Entry, zone: tzinfo | None) -> bytes:
    """Return the content of a new file. Raises InvalidInput: it could not be read again."""
    fields: dict[str, Any] = {"key": entry.key, "tags": list(entry.tags)}
    for name, attribute in _TIMES.items():
        fields[name] = front_matter.moment(getattr(entry, attribute), zone)
    if entry.metadata:
        fields["metadata"] = dict(entry.metadata)
    try:
        return front_matter.write(_body_of(entry), fields, None)
    except front_matter.Unreadable as error:
        raise _not_written(path, error) from error


def changed_file(
    path: Path, entry: Entry, before: Entry, former_data: bytes, zone: tzinfo | None
) -> bytes:
    """Return the content of a file that changes. Raises InvalidInput: it could not be read again."""
    former = front_matter.read(former_data)
    fields: dict[str, Any] = {"key": entry.key, "tags": list(entry.tags)}
    for name, attribute in _TIMES.items():
        time_ms = getattr(entry, attribute)
        # A time that stays may be written in another form, such as with a zone: so its line stays.
        if former is None or name not in former.fields or getattr(before, attribute) != time_ms:
            fields[name] = front_matter.moment(time_ms, zone)
    try:
        return front_matter.write(_body_of(entry), fields, former)
    except front_matter.Unreadable as error:
        if entry.archived_ms is None:
            raise _not_written(path, error) from error
        # Only the time of the move does not fit, and the time of the file says it too: it must make room for others.
        return former_data


def _body_of(entry: Entry) -> str:
    return entry.body.replace("\r\n", "\n").strip("\n")


def _not_written(path: Path, error: front_matter.Unreadable) -> InvalidInput:
    return InvalidInput(
        _(
            "{path} was not written, because {reason}; give a plainer key, or leave some tags out.",
            path,
            error,
        )
    )


def is_plain(key: str) -> bool:
    """Tell whether a key can be the name of a file as it is."""
    if len(key.encode(errors="surrogateescape")) > _NAME_BYTES or key.endswith("."):
        return False
    return _PLAIN.fullmatch(key) is not None and not is_reserved(key)
