"""The two snapshots of a conversation, which people and other programs read and edit too.

If the journal knows the hash of a snapshot, it builds on that snapshot. If not, the snapshot was edited: the journal
builds on the copy of what was last written, and hand_edits.py says what the edit means. A snapshot that cannot be read
as memories is broken: what can be read of it is an edit that removes nothing. Blocking calls that change nothing.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from memory_server.core.changes import Change
from memory_server.core.errors import SnapshotBroken
from memory_server.core.model import ConversationState, LongTermMemory, Memory, ShortTermMemory
from memory_server.storage.json_store import codec
from memory_server.storage.json_store.hand_edits import Broken, Copies, HandEdit, edits
from memory_server.storage.json_store.salvage import Read, salvage
from memory_server.storage.partition import folders

log = logging.getLogger(__name__)

SHORT_TERM = "short-term-memory.json"
LONG_TERM = "long-term-memory.json"
SNAPSHOTS = (SHORT_TERM, LONG_TERM)

SAVING_SECONDS = 5.0
"""A file that cannot be read and is younger than this may be half saved: it is left alone."""

GONE = "it is missing, and so is the copy of it"

Mark = tuple[int, int] | None
"""Size in bytes and modification time in nanoseconds of a snapshot, None where there is none."""
Known = Collection[str | None]
"""Hashes of a snapshot that the journal knows: as it was, as compacted, as edited. None stands for a missing file."""


class _Kind(NamedTuple):
    """What differs between the two snapshots: how its file and one record are read, a field that only its records have
    (salvage.py), and the memories in a state."""

    read: Callable[..., list[Any]]
    read_one: Read
    mark: str
    of: Callable[[ConversationState], Mapping[str, Memory]]


_KINDS = {
    SHORT_TERM: _Kind(codec.short_terms, codec.short_term, "text", lambda state: state.short_term),
    LONG_TERM: _Kind(
        lambda records, _, ours: codec.long_terms(records, ours=ours),
        codec.long_term,
        "trigger",
        lambda state: state.long_term,
    ),
}


@dataclass(slots=True)
class SnapshotContents:
    """What the snapshots hold, by their names."""

    base: dict[str, list[Any]] = field(default_factory=dict)
    """What the journal builds on."""
    edited: dict[str, list[Any]] = field(default_factory=dict)
    """What edits made of it, where a snapshot was edited."""
    hashes: dict[str, str | None] = field(default_factory=dict)
    """Of the edited ones that are not broken."""
    broken: dict[str, Broken] = field(default_factory=dict)
    copied: set[str] = field(default_factory=set)
    """Those of which the copy counts, because they are missing or broken."""
    from_history: dict[str, int] = field(default_factory=dict)
    """How many memories the history gave back of those that are broken or gone, and have no copy."""
    unsettled: bool = False
    """Whether one cannot be read, and somebody may be saving it just now."""

    def latest(self) -> tuple[list[ShortTermMemory], list[LongTermMemory]]:
        """The memories with what edits made of them."""
        latest = self.base | self.edited
        return latest[SHORT_TERM], latest[LONG_TERM]

    def edit(self, now: ConversationState) -> HandEdit | None:
        """What the edits mean for the conversation as it is `now`, after the journal."""
        if not (self.hashes or self.broken):
            return None
        changes: list[Change] = []
        for name, edited in self.edited.items():
            changes += edits(self.base[name], edited, _KINDS[name].of(now), removes=name not in self.broken)
        return HandEdit(tuple(changes), self.hashes, self.broken)


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Without garbage collection: reading leaves no garbage, and the collector took a sixth of the time with 10,000
    memories."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class Snapshots:
    """The snapshots of `conversation_id` in `folder`, and the copies of them."""

    def __init__(self, folder: Path, copies: Copies, conversation_id: str, *, at_once: bool = False) -> None:
        self.paths = {name: folder / name for name in SNAPSHOTS}
        self._copies = copies
        self._conversation_id = conversation_id
        self._at_once = at_once

    def exist(self) -> bool:
        """Whether there is one."""
        return any(path.exists() for path in self.paths.values())

    def contents(self) -> dict[str, bytes | None]:
        """What is in the files; None where there is none."""
        return {name: _bytes(path) for name, path in self.paths.items()}

    def marks(self) -> dict[str, Mark]:
        """Values that change when somebody writes a snapshot."""
        return {name: _mark(path) for name, path in self.paths.items()}

    @_without_collecting()
    def read(
        self,
        data: Mapping[str, bytes | None],
        marks: Mapping[str, Mark],
        known: Mapping[str, Known] | None,
        lost: Callable[[], ConversationState],
    ) -> SnapshotContents:
        """What `data`, read at `marks`, holds.

        Args:
            known: None where there is no journal.
            lost: what the history says the snapshots held, for memories that a broken one lost.

        Raises:
            SnapshotBroken: one cannot be read, may be being saved just now, and nothing tells what it held.
        """
        found = SnapshotContents()
        for name, kind in _KINDS.items():
            base, edited = self._one(found, name, data[name], marks[name], None if known is None else known[name])
            if edited is not None:
                found.edited[name] = edited
            elif name in found.broken:
                there = {memory.key for memory in base}
                given_back = [memory for key, memory in kind.of(lost()).items() if key not in there]
                base = base + given_back
                found.from_history[name] = len(given_back)
            found.base[name] = base
        return found

    def may_be_being_saved(self, mark: Mark) -> bool:
        """Whether a file is so new that somebody may be saving it now."""
        return not self._at_once and mark is not None and 0 <= time.time() - mark[1] / 1e9 < SAVING_SECONDS

    def _one(
        self, found: SnapshotContents, name: str, content: bytes | None, mark: Mark, known: Known | None
    ) -> tuple[list[Any], list[Any] | None]:
        """The memories that the journal builds on, and what an edit made of them: None without an edit."""
        digest = hash_of(content)
        ours = known is not None and digest in known
        edited = known is not None and not ours
        if content is None and edited:
            # One that is missing is not an edit: an editor may be saving it. Without its copy it is lost, not empty.
            base = self._copy(name, known)
            if base is None:
                found.broken[name] = Broken(None, GONE, (), ())
            else:
                found.copied.add(name)
            return base or [], None
        try:
            memories = self._parsed(name, content or b"", edited=edited, ours=ours)
        except ValueError as error:
            reason = str(error)
        else:
            if not edited:
                return memories, None
            found.hashes[name] = digest
            base = self._copy(name, known)
            return memories if base is None else base, memories
        assert content is not None
        base = self._copy(name, known)
        if self.may_be_being_saved(mark):
            if base is None:
                raise SnapshotBroken(
                    f"{self.paths[name]} of the conversation {self._conversation_id} cannot be used: {reason}. "
                    f"It was changed just now, so somebody may be saving it; try again in {SAVING_SECONDS:g} seconds. "
                    "Nothing was changed.",
                    self.paths[name],
                )
            found.unsettled = True
            return base, None
        found.broken[name], memories = self._salvaged(name, content, reason)
        if base is None:
            return memories, None
        found.copied.add(name)
        return base, memories

    def _copy(self, name: str, known: Known | None) -> list[Any] | None:
        """The memories that the journal builds on, by the copy; None where nothing tells them."""
        if known is None:
            return None
        copy = self._copies.read(name)
        if copy is not None and hash_of(copy) in known:
            with contextlib.suppress(ValueError):
                return self._parsed(name, copy, edited=False, ours=True)
        return [] if None in known else None

    def _parsed(self, name: str, data: bytes, *, edited: bool, ours: bool) -> list[Any]:
        read = _KINDS[name].read
        try:
            return read(codec.lines_of_array(data), self._conversation_id, ours=ours)
        except codec.OtherLayout:
            if edited and not data.strip():
                # An editor that is about to write, or one that died: nobody empties a file to forget everything.
                raise codec.NotARecord("it is empty; write `[]` to remove everything") from None
            return read(codec.load_array(data), self._conversation_id, ours=ours)

    def _salvaged(self, name: str, data: bytes, reason: str) -> tuple[Broken, list[Any]]:
        saved = salvage(data, _KINDS[name].read_one, _KINDS[name].mark)
        # A record that stands there twice, as where a file was saved behind itself, is one.
        records = {codec.dumps(record): record for record in saved.records}
        if saved.encoding is not None:
            reason += f"; it was saved as {saved.encoding}"
        broken = Broken(data, reason, tuple(records.values()), saved.pieces)
        return broken, _KINDS[name].read(broken.records, self._conversation_id, ours=False)


def hash_of(data: bytes | None) -> str | None:
    """The hash by which the journal knows a snapshot; None for a missing file."""
    return None if data is None else "sha256:" + hashlib.sha256(data).hexdigest()


def _bytes(path: Path) -> bytes | None:
    try:
        return folders.read_file(path)
    except FileNotFoundError:
        return None


def _mark(path: Path) -> Mark:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_size, facts.st_mtime_ns
