"""The two snapshots of a conversation, which people and other programs read and edit too.

If the journal knows the hash of a snapshot, it builds on that snapshot. If not, the snapshot was edited: the journal
builds on the copy of what was last written, which shows whether the edit removed a memory, or whether the memory came
after the editor was opened. A snapshot that cannot be read as memories is broken: the copy counts in its place, or
what the history tells, and no record is taken out of it. Where it is a list of objects, only the unusable objects do
not count: an earlier version of such a memory stays, and the file is kept as it was. Blocking calls; only
`write_copy` changes files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from languages import Sentence
from memory_server.conversations import codec
from memory_server.conversations.changes import Change, merged, putting, removing
from memory_server.conversations.model import (
    ConversationState,
    Memory,
    ShortTermMemory,
    UnusableRecord,
    excess,
)
from memory_server.kernel import files as folders
from memory_server.kernel import json_text
from memory_server.kernel.collecting import without_collecting
from memory_server.kernel.errors import SnapshotBroken
from memory_server.kernel.json_text import Json, NotARecord
from memory_server.kernel.values import dataclass, frozen
from sandbox import WRONG_VALUES

# --- where a snapshot is broken ----------------------------------------------------------------------------------

# The line at which a JSON array cannot be read, for the sentence about a broken snapshot. Pure.

_BETWEEN_RECORDS = re.compile(r"[\s,]*")
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def reason_with_line(
    data: bytes, error: ValueError, memory_of: Callable[[Json], Memory]
) -> Sentence:
    """Say why `data`, which was refused with `error`, cannot be read, with the number of the line, counted from 1.
    `memory_of` makes a memory of a record, or raises NotARecord or RecursionError."""
    if isinstance(error, json.JSONDecodeError):
        return Sentence("it is not JSON: {reason}", str(error))  # which names line and column
    if isinstance(error, UnicodeDecodeError):
        if data.startswith(_UTF_16_MARKS):
            return Sentence("it was saved as UTF-16; save it as UTF-8")
        return Sentence("it is not UTF-8 (line {line})", 1 + data.count(b"\n", 0, error.start))
    text = data.decode("utf-8-sig", "replace")
    for offset, value in _records(text):
        if not _can_be_stored(value, memory_of):
            return Sentence("{reason} (line {line})", error, 1 + text.count("\n", 0, offset))
    return error.sentence if isinstance(error, NotARecord) else Sentence(str(error))


def _can_be_stored(value: Any, memory_of: Callable[[Json], Memory]) -> bool:
    if not isinstance(value, dict):
        return False
    try:
        return excess(memory_of(value)) is None
    except WRONG_VALUES:
        return False


def _records(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the offset in characters and the value of each record of an array, or of the only value of a text without
    `[`. The last is the first record that is not JSON or too deep for the parser, with None for its value."""
    decoder = json.JSONDecoder()
    offset = len(text) - len(text.lstrip())
    if text.startswith("[", offset):
        offset = _next_offset(text, offset + 1)
    while offset < len(text) and text[offset] != "]":
        try:
            value, end = decoder.raw_decode(text, offset)
        except (ValueError, RecursionError):
            yield offset, None
            return
        yield offset, value
        offset = _next_offset(text, end)


def _next_offset(text: str, offset: int) -> int:
    between = _BETWEEN_RECORDS.match(text, offset)
    if between is None:
        return offset
    return between.end()


# --- snapshots ---------------------------------------------------------------------------------------------------

SHORT_TERM = "short-term-memory.json"
LONG_TERM = "long-term-memory.json"
SNAPSHOTS = (SHORT_TERM, LONG_TERM)

SAVING_SECONDS = 5.0
"""The age of a file that cannot be read below which it may be half saved: it is left alone."""

_LEVEL = 1
"""The level of zlib: the fastest; the next ones save little of digits that are chance."""

_BLANK = b"\0 \t\r\n"

GONE = Sentence("it is missing, and so is the copy of it")

Mark = tuple[int, int] | None
"""The size in bytes and the modification time in nanoseconds of a snapshot, or None for a missing file."""
Known = Collection[str | None]
"""The hashes of a snapshot that the journal knows: as it was, as compacted, as edited. None is the hash of a missing
file."""


class _Kind(NamedTuple):
    """The differences of the two snapshots: how the file and one record are read, and the memories in a state."""

    read: Callable[..., list[Any]]
    read_one: Callable[[Json], Memory]
    of: Callable[[ConversationState], Mapping[str, Memory]]


_KINDS = {
    SHORT_TERM: _Kind(codec.short_terms, codec.short_term, lambda state: state.short_term),
    LONG_TERM: _Kind(
        lambda records, _, ours, unusable: codec.long_terms(records, ours=ours, unusable=unusable),
        codec.long_term,
        lambda state: state.long_term,
    ),
}


@frozen
class Broken:
    """A snapshot that cannot be used: its bytes (None if the file is missing), and why, with the number of the line.
    `only_copy`: no copy has memories in its place, so nothing else is sure to have the memories of the file.
    `unusable`: the records that cannot be used, or empty if the whole file cannot."""

    data: bytes | None
    reason: Sentence
    only_copy: bool = False
    unusable: Sequence[UnusableRecord] = ()


@frozen
class HandEdit:
    """An edit that is not committed yet: its changes, the hashes of the edited snapshots, and the broken snapshots."""

    changes: tuple[Change, ...]
    hashes: Mapping[str, str | None]
    broken: Mapping[str, Broken]


def contents_of(state: ConversationState) -> dict[str, bytes]:
    """Write both snapshots of a state, by name."""
    return {
        SHORT_TERM: json_text.dump_array(map(codec.short_term_json, state.short_term.values())),
        LONG_TERM: json_text.dump_array(map(codec.long_term_json, state.long_term.values())),
    }


def write_copy(private: Path, name: str, data: bytes) -> None:
    """Keep a copy of the snapshot `name` as it was last written or read after an edit, compressed to a quarter."""
    folders.replace_file(private / f"{name}.zlib", zlib.compress(data, _LEVEL))


def read_copy(private: Path, name: str) -> bytes | None:
    """Read the copy of the snapshot `name`. Return None if it is missing or cannot be read."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(
            folders.read_file(private / f"{name}.zlib"), folders.MAX_FILE_BYTES
        )
    except (FileNotFoundError, folders.FileRefused, zlib.error):
        return None
    if not unpacking.eof:
        return None  # it is cut off, or larger than a snapshot may be
    return data


@dataclass(slots=True)
class Snapshot:
    """The memories of a snapshot, and what is to be known of its file."""

    base: list[Any]
    """The memories that the journal builds on."""
    edited: list[Any] | None = None
    """The memories after an edit, or None without an edit."""
    edited_hash: str | None = None
    """The hash of an edited snapshot that is not broken."""
    broken: Broken | None = None
    copied: bool = False
    """Whether the copy counts, because it is missing or broken."""
    from_history: int = 0
    """How many memories the history gave back, because it is broken or gone, and no copy has any."""
    unsettled: bool = False
    """Whether it cannot be read, and another program may be saving it just now."""

    @property
    def latest(self) -> list[Any]:
        """The memories with what an edit made of them."""
        return self.base if self.edited is None else self.edited


def hand_edit(snapshots: Mapping[str, Snapshot], now: ConversationState) -> HandEdit | None:
    """Return the changes that the edits of snapshots mean for the conversation as it is `now`,
    after the journal, and the broken snapshots, or None if there are neither."""
    hashes = {
        name: snapshot.edited_hash
        for name, snapshot in snapshots.items()
        if snapshot.edited_hash is not None
    }
    broken = {
        name: snapshot.broken for name, snapshot in snapshots.items() if snapshot.broken is not None
    }
    changes: list[Change] = []
    for name, snapshot in snapshots.items():
        if snapshot.edited is not None:
            changes += edits(snapshot.base, snapshot.edited, _KINDS[name].of(now))
    if not hashes and not broken:
        return None
    return HandEdit(tuple(changes), hashes, broken)


def edits(
    base: Iterable[Memory], edited: Iterable[Memory], now: Mapping[str, Memory]
) -> list[Change]:
    """Return the changes that an edit of `base` to `edited` means for the memories of that kind as they are now, by
    key. A memory that came after `base` stays; a memory that the edit left out is forgotten. A long-term memory that
    the edit changed becomes as the edit has it. Of a short-term memory, a field that the edit did not change keeps
    its present value, and a score is never lowered: a lower score comes from an editor that was open while memories
    were recalled."""
    base_memories = {memory.key: memory for memory in base}
    edited_memories = {memory.key: memory for memory in edited}
    changes: list[Change] = []
    for key, memory in edited_memories.items():
        before = base_memories.get(key)
        current = now.get(key)
        if memory == before:
            continue
        if isinstance(memory, ShortTermMemory) and isinstance(current, ShortTermMemory):
            memory = _edited_short_term(before, memory, current)
        if memory != current:
            changes.append(putting(memory, current))

    # A memory that is gone by now needs no removal.
    removed_keys = [key for key in base_memories if key not in edited_memories and key in now]
    changes += [removing(now[key], "hand") for key in removed_keys]
    return changes


def _edited_short_term(
    before: Memory | None, edited: ShortTermMemory, current: ShortTermMemory
) -> ShortTermMemory:
    """Return the current memory with what a person changed in the file since `before`; its score never falls."""
    memory = edited
    if isinstance(before, ShortTermMemory):
        memory = merged(before, edited, current)
    return replace(memory, score=max(memory.score, current.score))


class Snapshots:
    """The snapshots of `conversation_id` in `folder`, and the copies of them."""

    def __init__(self, folder: Path, conversation_id: str, *, at_once: bool) -> None:
        self.paths = {name: folder / name for name in SNAPSHOTS}
        self._private = folder / folders.PRIVATE
        self._conversation_id = conversation_id
        self._at_once = at_once

    def exist(self) -> bool:
        return any(path.exists() for path in self.paths.values())

    def contents(self) -> dict[str, bytes | None]:
        """Read the bytes of the files, or None for a missing file."""
        return {name: folders.read_if_there(path) for name, path in self.paths.items()}

    def marks(self) -> dict[str, Mark]:
        """Return values that change when a program writes a snapshot."""
        return {name: _mark(path) for name, path in self.paths.items()}

    @without_collecting()
    def read(
        self,
        data: Mapping[str, bytes | None],
        marks: Mapping[str, Mark],
        known_hashes: Mapping[str, Known] | None,
        lost: Callable[[], ConversationState],
    ) -> dict[str, Snapshot]:
        """Read the snapshots from `data`, which was read at `marks`, by their names. `known_hashes` is None without a
        journal; `lost` gives what the history says the snapshots held, for memories that a broken snapshot lost.
        Raises SnapshotBroken: a snapshot cannot be read, may be being saved just now, and nothing tells what it held."""
        snapshots: dict[str, Snapshot] = {}
        for name, kind in _KINDS.items():
            hashes = None if known_hashes is None else known_hashes[name]
            snapshot = self._read(name, data[name], mark=marks[name], known_hashes=hashes)
            if snapshot.broken is not None and not snapshot.base and snapshot.edited is None:
                snapshot.base += kind.of(lost()).values()
                snapshot.from_history = len(snapshot.base)
            snapshots[name] = snapshot
        return snapshots

    def may_be_being_saved(self, *marks: Mark) -> bool:
        """Tell whether a file is so new that another program may be saving it now."""
        if self._at_once:
            return False
        ages = [time.time() - mark[1] / 1e9 for mark in marks if mark is not None]
        return any(0 <= age < SAVING_SECONDS for age in ages)

    def _read(
        self, name: str, content: bytes | None, mark: Mark, known_hashes: Known | None
    ) -> Snapshot:
        """Return the snapshot `name` by its bytes, None for a missing file. A file whose hash is
        not among `known_hashes` was edited; without a journal (None) nothing counts as edited.
        Raises SnapshotBroken if it is broken, another program may be saving it, and no copy is
        known."""
        digest = hash_of(content)
        ours = known_hashes is not None and digest in known_hashes
        edited = known_hashes is not None and not ours
        if content is None and edited:
            # A missing file is not an edit: an editor may be saving it. Without its copy it is lost, not empty.
            base = self._copy(name, known_hashes)
            if base is None:
                return Snapshot([], broken=Broken(None, GONE))
            return Snapshot(base, copied=True)

        unusable: list[UnusableRecord] = []
        try:
            memories = self._parsed(
                name, content or b"", edited=edited, ours=ours, unusable=unusable
            )
        except ValueError as error:
            assert content is not None  # a missing file is one without memories
            reason = reason_with_line(content, error, _KINDS[name].read_one)
            return self._in_place_of(
                name, content, reason=reason, mark=mark, known_hashes=known_hashes
            )

        # Nothing was edited: the journal builds on the file itself.
        if not edited:
            return Snapshot(
                memories, broken=self._broken_in_part(name, content, unusable, memories)
            )

        base = self._copy(name, known_hashes)
        # The copy is lost too. If the file was missing before, all its memories are new; else the edit removed none.
        if base is None:
            was_missing = known_hashes is not None and None in known_hashes
            base = [] if was_missing else memories

        if not unusable:
            return Snapshot(base, memories, digest)

        # An edit that makes a memory unusable does not remove it: what it was before stays.
        keys = {unusable_record.key for unusable_record in unusable}
        used_keys = {memory.key for memory in memories}
        memories += [
            memory for memory in base if memory.key in keys and memory.key not in used_keys
        ]
        broken = self._broken_in_part(name, content, unusable, memories)
        return Snapshot(base, memories, broken=broken)

    def _broken_in_part(
        self,
        name: str,
        content: bytes | None,
        unusable: Sequence[UnusableRecord],
        memories: Iterable[Memory],
    ) -> Broken | None:
        """Say what is wrong with a file of which some records cannot be used. `memories`: the memories that count.
        Return None if nothing is wrong."""
        if not unusable or content is None:
            return None
        kind = _KINDS[name]
        keys = {memory.key for memory in memories}
        reason = reason_with_line(content, unusable[0].reason, kind.read_one)
        only_copy = not all(row.key in keys for row in unusable)
        return Broken(content, reason, only_copy, unusable)

    def _in_place_of(
        self, name: str, content: bytes, reason: Sentence, mark: Mark, known_hashes: Known | None
    ) -> Snapshot:
        """Return what counts in place of a file that is broken: its copy, or nothing. While another
        program may be saving it, raises SnapshotBroken if there is no usable copy."""
        base = self._copy(name, known_hashes)
        if not self.may_be_being_saved(mark):
            # An empty copy has none of its memories either, and a file that a crash emptied has none itself.
            only_copy = not base and bool(content.strip(_BLANK))
            return Snapshot(
                base or [], broken=Broken(content, reason, only_copy), copied=base is not None
            )

        if base is not None:
            return Snapshot(base, unsettled=True)

        raise SnapshotBroken(
            Sentence(
                "{paths} of the conversation {conversation} cannot be used: {reason}. It was changed "
                "just now, so somebody may be saving it; try again in {saving:g} seconds. Nothing was "
                "changed.",
                self.paths[name],
                self._conversation_id,
                reason,
                SAVING_SECONDS,
            ),
            self.paths[name],
        )

    def _copy(self, name: str, known_hashes: Known | None) -> list[Any] | None:
        """Return the memories that the journal builds on, by the copy, or None if the copy does not tell them. Where
        the journal is lost, nothing newer than the copy is known."""
        copy = read_copy(self._private, name)
        if copy is None or (known_hashes is not None and hash_of(copy) not in known_hashes):
            return None
        try:
            return self._parsed(name, copy, edited=False, ours=True)
        except ValueError:
            return None

    def _parsed(
        self,
        name: str,
        data: bytes,
        *,
        edited: bool,
        ours: bool,
        unusable: list[UnusableRecord] | None = None,
    ) -> list[Any]:
        """Return the memories in the bytes of a snapshot. `ours`: this program wrote them. Add
        records that cannot be used to `unusable`. Raises ValueError if the bytes are not a JSON
        array, if an edited file is blank, or, without such a list, at the first unusable record."""
        read = partial(_KINDS[name].read, ours=ours, unusable=unusable)
        try:
            return read(json_text.lines_of_array(data), self._conversation_id)
        except json_text.OtherLayout:
            if unusable is not None:
                unusable.clear()
            if edited and not data.strip():
                # An editor is about to write, or died: people do not empty a file to forget everything.
                raise json_text.NotARecord("it is empty; write `[]` to remove everything") from None
            return read(json_text.load_array(data), self._conversation_id)


def unusable_in(name: str, data: bytes) -> list[UnusableRecord]:
    """Return the records of a kept snapshot that cannot be used; empty if it is not a list of objects."""
    unusable: list[UnusableRecord] = []
    with contextlib.suppress(ValueError, RecursionError):
        _KINDS[name].read(json_text.load_array(data), "", ours=False, unusable=unusable)
    return unusable


def kept_of(unusable: Iterable[UnusableRecord]) -> dict[str, bytes]:
    """Return the contents of the files in which such records are kept, by the name of the file. The file of changes is
    not a snapshot, and only people read it."""
    names = {"short": SHORT_TERM, "long": LONG_TERM, "change": "changes.json"}
    records: dict[str, list[Any]] = {}
    for row in unusable:
        records.setdefault(names[row.kind], []).append(row.record)
    return {name: json_text.dump_array(rows) for name, rows in records.items()}


def hash_of(data: bytes | None) -> str | None:
    """Return the hash by which the journal knows a snapshot, or None for a missing file."""
    if data is None:
        return None
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _mark(path: Path) -> Mark:
    """Return the size and time by which a change of a file is seen, or None for a missing file."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_size, facts.st_mtime_ns
