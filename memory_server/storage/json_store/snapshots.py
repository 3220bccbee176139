"""The two snapshots of a conversation, which people and other programs read and edit too.

One whose hash the journal tells is what the journal builds on. One that it does not tell was edited: the journal then
builds on the copy of what was last written, and hand_edits.py says what the edit means. One that cannot be read as
memories is broken: what can be read of it is an edit that removes nothing. Blocking calls that change nothing.
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
from typing import TypeVar

from memory_server.core.changes import Change, Forgotten, TriggerRemoved
from memory_server.core.errors import SnapshotBroken
from memory_server.core.model import ConversationState, LongTermMemory, ShortTermMemory
from memory_server.storage.json_store import codec
from memory_server.storage.json_store.hand_edits import Broken, Copies, HandEdit, long_term_edits, short_term_edits
from memory_server.storage.json_store.salvage import Salvage, long_term_fault, salvage, short_term_fault
from memory_server.storage.partition import folders

log = logging.getLogger(__name__)

SHORT_TERM = "short-term-memory.json"
LONG_TERM = "long-term-memory.json"
SNAPSHOTS = (SHORT_TERM, LONG_TERM)

SAVING_SECONDS = 5.0
"""Age up to which a file that cannot be read may be one that somebody is saving just now; it is left alone so long."""

GONE = "it is missing, and so is the copy of it"

Mark = tuple[int, int] | None
"""Size in bytes and modification time in nanoseconds of a snapshot, None where there is none."""
Known = Collection[str | None]
"""Hashes of a snapshot that the journal tells: as it was, as compacted, as edits left it; None stands for no file."""
_M = TypeVar("_M", ShortTermMemory, LongTermMemory)


@dataclass(slots=True)
class SnapshotContents:
    """What the snapshots hold: what the journal builds on, and, where they were edited, what the edits made of it."""

    short_term: list[ShortTermMemory] = field(default_factory=list)
    long_term: list[LongTermMemory] = field(default_factory=list)
    edited_short_term: list[ShortTermMemory] | None = None
    edited_long_term: list[LongTermMemory] | None = None
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
        short, long = self.edited_short_term, self.edited_long_term
        return self.short_term if short is None else short, self.long_term if long is None else long

    def edit(self, now: ConversationState) -> HandEdit | None:
        """What the edits mean for the conversation as it is `now`, after the journal."""
        if not (self.hashes or self.broken):
            return None
        changes: list[Change] = []
        if self.edited_short_term is not None:
            made = short_term_edits(self.short_term, self.edited_short_term, now)
            changes += [c for c in made if SHORT_TERM not in self.broken or not isinstance(c, Forgotten)]
        if self.edited_long_term is not None:
            made = long_term_edits(self.long_term, self.edited_long_term, now)
            changes += [c for c in made if LONG_TERM not in self.broken or not isinstance(c, TriggerRemoved)]
        return HandEdit(tuple(changes), self.hashes, self.broken)


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Without looking for garbage, of which reading makes none: looking through the objects of 10,000 memories
    again and again took a sixth of the time."""
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
        """What changes when somebody writes one."""
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
        hashes = {name: None if known is None else known[name] for name in SNAPSHOTS}
        short = self._one(found, SHORT_TERM, data, marks, hashes[SHORT_TERM], self._short_term, self._salvaged_short)
        long = self._one(found, LONG_TERM, data, marks, hashes[LONG_TERM], _long_term, _salvaged_long)
        found.short_term, found.edited_short_term = short
        found.long_term, found.edited_long_term = long
        if SHORT_TERM in found.broken and found.edited_short_term is None:
            ids = {memory.id for memory in found.short_term}
            short_lost = [kept for kept in lost().short_term.values() if kept.id not in ids]
            found.short_term += short_lost
            found.from_history[SHORT_TERM] = len(short_lost)
        if LONG_TERM in found.broken and found.edited_long_term is None:
            names = {kept.name for kept in found.long_term}
            long_lost = [kept for kept in lost().long_term.values() if kept.name not in names]
            found.long_term += long_lost
            found.from_history[LONG_TERM] = len(long_lost)
        return found

    def may_be_being_saved(self, mark: Mark) -> bool:
        """Whether a file was changed so shortly ago that somebody may be half-way through saving it."""
        return not self._at_once and mark is not None and 0 <= time.time() - mark[1] / 1e9 < SAVING_SECONDS

    def _one(
        self,
        found: SnapshotContents,
        name: str,
        data: Mapping[str, bytes | None],
        marks: Mapping[str, Mark],
        known: Known | None,
        parse: Callable[[bytes, bool, bool], list[_M]],
        salvaged: Callable[[bytes, str], tuple[Broken, list[_M]]],
    ) -> tuple[list[_M], list[_M] | None]:
        """What the journal builds on, and what an edit made of it: None where there is none."""
        content = data[name]
        digest = hash_of(content)
        ours = known is not None and digest in known
        is_known = known is None or ours
        if content is None and not is_known:
            # One that is missing is no edit: an editor may be saving it. Without its copy it is lost, and not empty.
            base = self._copy(name, known, parse)
            if base is None:
                found.broken[name] = Broken(None, GONE, (), ())
            else:
                found.copied.add(name)
            return base or [], None
        try:
            memories = parse(content or b"", not is_known, ours)
        except ValueError as error:
            reason = str(error)
        else:
            if is_known:
                return memories, None
            found.hashes[name] = digest
            base = self._copy(name, known, parse)
            return memories if base is None else base, memories
        assert content is not None
        base = self._copy(name, known, parse)
        if self.may_be_being_saved(marks[name]):
            if base is None:
                raise self._being_saved(name, reason)
            found.unsettled = True
            return base, None
        found.broken[name], memories = salvaged(content, reason)
        if base is None:
            return memories, None
        found.copied.add(name)
        return base, memories

    def _copy(self, name: str, known: Known | None, parse: Callable[[bytes, bool, bool], list[_M]]) -> list[_M] | None:
        """What the journal builds on, without the file itself; None where nothing tells."""
        if known is None:
            return None
        copy = self._copies.read(name)
        if copy is not None and hash_of(copy) in known:
            with contextlib.suppress(ValueError):
                return parse(copy, False, True)
        return [] if None in known else None

    def _short_term(self, data: bytes, edited: bool, ours: bool) -> list[ShortTermMemory]:
        try:
            return codec.short_terms(codec.lines_of_array(data), self._conversation_id, ours=ours)
        except codec.OtherLayout:
            return codec.short_terms(_records(data, edited), self._conversation_id, ours=ours)

    def _salvaged_short(self, data: bytes, reason: str) -> tuple[Broken, list[ShortTermMemory]]:
        broken = _broken(data, reason, salvage(data, short_term_fault, "text"))
        return broken, codec.short_terms(broken.records, self._conversation_id)

    def _being_saved(self, name: str, reason: str) -> SnapshotBroken:
        path = self.paths[name]
        return SnapshotBroken(
            f"{name} of the conversation {self._conversation_id} cannot be used: {reason}. It was changed just now, "
            f"so somebody may be saving it; try again in {SAVING_SECONDS:g} seconds. Nothing was changed.",
            path,
        )


def hash_of(data: bytes | None) -> str | None:
    """The hash by which the journal knows a snapshot; None where there is none."""
    return None if data is None else "sha256:" + hashlib.sha256(data).hexdigest()


def _long_term(data: bytes, edited: bool, ours: bool) -> list[LongTermMemory]:
    return codec.long_terms(_records(data, edited), ours=ours)


def _salvaged_long(data: bytes, reason: str) -> tuple[Broken, list[LongTermMemory]]:
    broken = _broken(data, reason, salvage(data, long_term_fault, "trigger"))
    return broken, codec.long_terms(broken.records)


def _broken(data: bytes, reason: str, saved: Salvage) -> Broken:
    # A record that stands there twice, as where a file was saved behind itself, is one.
    records = {codec.dumps(record): record for record in saved.records}
    if saved.encoding is not None:
        reason += f"; it was saved as {saved.encoding}"
    return Broken(data, reason, tuple(records.values()), saved.pieces)


def _records(data: bytes, edited: bool) -> list[codec.Json]:
    if edited and not data.strip():
        # An editor that is about to write, or one that died: nobody empties a file to forget everything.
        raise codec.NotARecord("it is empty; write `[]` to remove everything")
    return codec.load_array(data)


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
