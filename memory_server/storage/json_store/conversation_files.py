"""One conversation on disk: two snapshots for people, and a journal of what happened since they were written.

Blocking calls on one folder; store.py decides when and in which thread. Writing needs the lock. `open` finds what is
damaged (examination.py puts it into words), and `absorb` mends it.

    {folder}/short-term-memory.json  long-term-memory.json
             .memory-server/  journal.jsonl  conversation.json  lock, and what history_files.py keeps
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from languages import Sentence, _
from memory_server.conversations import change_forms, codec
from memory_server.conversations.changes import Commit, apply, replay
from memory_server.conversations.model import ConversationState, UnusableRecord
from memory_server.kernel import files as folders
from memory_server.kernel import json_text
from memory_server.kernel.errors import StorageUnwritable
from memory_server.kernel.files import folder_name, hashed_name
from memory_server.kernel.json_text import Fields, deeper
from memory_server.kernel.values import dataclass, frozen
from memory_server.lore import ChatState, chats_json, chats_of
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store import snapshots
from memory_server.storage.json_store.history_files import Past, commits_in, line_of
from memory_server.storage.partition import journal

# --- the note of a conversation ----------------------------------------------------------------------------------

# `conversation.json`: the id of a conversation, and the state beside the memories.


@frozen
class ConversationFacts:
    """The state beside the memories."""

    last_cleanup_ms: int | None
    chats: Mapping[str, ChatState]

    @staticmethod
    def of(state: ConversationState) -> ConversationFacts:
        """Return the facts of a state."""
        return ConversationFacts(state.last_cleanup_ms, state.chats)


class ConversationNote:
    """The note of `conversation_id` in `private`, which need not be there. Blocking calls; writing needs the lock."""

    def __init__(self, private: Path, conversation_id: str) -> None:
        self._private = private
        self._path = private / "conversation.json"
        self._conversation_id = conversation_id

    @property
    def id(self) -> str | None:
        """The noted id, or None."""
        noted_id = self._fields().get("id")
        if not isinstance(noted_id, str):
            return None
        return noted_id

    @property
    def can_be_replaced(self) -> bool:
        """Whether nothing else than a file is in its place."""
        return folders.refusal_of(self._path) is None

    def facts(self) -> ConversationFacts:
        """Return the noted facts."""
        fields = self._fields()
        return ConversationFacts(
            codec.cleanup_time(fields.get("lastCleanup")), chats_of(fields.get("chats"))
        )

    def write(self, facts: ConversationFacts) -> None:
        """Write the id of the conversation and these facts to the note. A copy of a broken note is
        kept first."""
        if self.can_be_replaced and "id" not in self._fields():
            broken = folders.read_if_there(self._path)
            if broken:
                past.keep_broken(
                    self._private, self._path.name, data=broken, now_ms=time.time_ns() // 1_000_000
                )
        fields = {
            "format": journal.FORMAT,
            "id": self._conversation_id,
            "lastCleanup": facts.last_cleanup_ms,
        }
        if facts.chats:
            fields["chats"] = chats_json(facts.chats)
        folders.replace_file(self._path, json_text.dumps(fields) + b"\n")

    def _fields(self) -> Fields:
        """Read the note. Return no fields if it is missing or cannot be used."""
        try:
            return json_text.load_object(folders.read_file(self._path))
        except (FileNotFoundError, folders.FileRefused, json_text.NotARecord):
            return {}


# --- the files of a conversation ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Position:
    """The position up to which a process has read a conversation. `header` and `journal_end` are None if there is not a
    journal yet, or if its first line is broken."""

    header: journal.Header | None
    journal_end: journal.Place | None
    marks: Mapping[str, snapshots.Mark]
    torn: bytes = b""
    edit: snapshots.HandEdit | None = None
    """The edit of snapshots that is not in the journal yet; the state holds it already."""
    unsettled: bool = False
    """Whether a snapshot cannot be read because another program may be saving it now; the state is without it."""
    damaged: bool = False
    """Whether lines of the journal do not count, or `conversation.json` does not name the conversation."""

    @property
    def newer(self) -> bool:
        """Whether a newer memory-server wrote the journal: this one must not write."""
        return self.header is not None and self.header.format > journal.FORMAT

    @property
    def pending(self) -> bool:
        """Whether `absorb` has work to do."""
        return self.edit is not None or self.damaged

    @property
    def journal_size(self) -> int:
        """Bytes of the journal's lines that were read."""
        if self.journal_end is None:
            return 0
        return self.journal_end.offset


@frozen
class OpenedConversation:
    """An opened conversation. `named`: whether `conversation.json` names the conversation, where it must."""

    state: ConversationState
    position: Position
    tail: journal.Tail
    commits: tuple[Commit, ...]
    snapshots: Mapping[str, snapshots.Snapshot]
    named: bool


log = logging.getLogger(__name__)

_JOURNAL = "journal.jsonl"
READ_TRIES = 5
"""The number of tries of a reader, because a compaction may change the files meanwhile."""


class ConversationFiles:
    """The files of the conversation `conversation_id` in `folder`, which need not exist. `at_once`: a broken snapshot
    is mended at once, although another program may be saving it."""

    def __init__(self, folder: Path, conversation_id: str, *, at_once: bool = False) -> None:
        self._private = folder / folders.PRIVATE
        self._journal = self._private / _JOURNAL
        self.past = Past(self._private)
        self.folder = folder
        self.conversation_id = conversation_id
        self.lock_path = self._private / "lock"
        self.grams_path = self._private / "grams.bin"
        self.note = ConversationNote(self._private, conversation_id)
        self._snapshots = snapshots.Snapshots(folder, conversation_id, at_once=at_once)

    # --- reading, without the lock ---------------------------------------------------------------------

    def exists(self) -> bool:
        return self._journal.exists() or self._snapshots.exist()

    def load(self) -> tuple[ConversationState, Position]:
        """Return the state, and the position up to which the files were read; warn of damaged files. Raises as `open`
        does."""
        opened = self.open()
        self._warn(opened.tail)
        edit = opened.position.edit
        if edit is not None:
            for name, broken in edit.broken.items():
                advice = _("`memory-server doctor` says more, and the next change repairs it")
                log.warning(
                    "%s",
                    _(
                        "{path} is damaged: {reason}; {advice}",
                        self.folder / name,
                        broken.reason,
                        advice,
                    ),
                )
        return opened.state, opened.position

    def open(self) -> OpenedConversation:
        """Return all that the snapshots and the journal hold. Raises SnapshotBroken as
        `Snapshots.read` does, StorageUnwritable if the journal was replaced during each of
        `READ_TRIES` tries."""
        for _try in range(READ_TRIES):
            before = journal.read_header(self._journal)
            marks = self._snapshots.marks()
            data = self._snapshots.contents()
            # The journal after the snapshots: if the snapshots are newer, the journal holds the note of their hashes;
            # if the journal is newer, its generation has changed and the reader tries again.
            header, tail, journal_end = self._read_journal()
            if header == before:
                return self._assemble(
                    tail, data, Position(header, journal_end, marks=marks, torn=tail.torn)
                )
        raise StorageUnwritable(
            Sentence("{folder} is being rewritten without pause; try again.", self.folder),
            self.folder,
        )

    def read_since(self, position: Position) -> tuple[tuple[Commit, ...], Position] | None:
        """Read the commits after `position`, which stays the same object if there is nothing new. Return None if only
        `load` can tell: another journal, a line cut off because it could not be made durable, an edited snapshot."""
        if position.journal_end is None:
            # A journal with a broken header is not a missing journal: it must not be replaced.
            if self._snapshots.marks() != position.marks or self._journal.exists():
                return None
            return (), position

        try:
            news = journal.follow(self._journal, position.journal_end)
        except FileNotFoundError:
            return None

        marks = position.marks
        if self._snapshots.marks() != marks or news is None:
            return None
        if position.unsettled and not self._snapshots.may_be_being_saved(*marks.values()):
            return None

        tail, journal_end = news
        if journal_end is position.journal_end and tail.torn == position.torn:
            return (), position

        self._warn(tail)
        damaged = position.damaged or bool(tail.bad)
        after = replace(position, journal_end=journal_end, torn=tail.torn, damaged=damaged)
        return tuple(commits_in(tail.lines, self._journal)), after

    def unread(self, position: Position) -> int:
        """Count the bytes of the journal after `position`, which `read_since` reads."""
        try:
            return self._journal.stat().st_size - position.journal_size
        except FileNotFoundError:
            return 0

    def damaged(self) -> int:
        """Count the unreadable pieces that were set aside, without unfinished writes."""
        return sum(piece.reason != past.UNFINISHED.english for piece in past.pieces(self._private))

    # --- writing, under the lock -----------------------------------------------------------------------

    def append(self, state: ConversationState, position: Position, commit: Commit) -> Position:
        """Make `commit`, the next commit of `state`, durable. Return the position after it. Raises StorageUnwritable:
        the journal is of a newer format; OSError. Then nothing was written."""
        journal.refuse_newer(self.folder, position.header)
        if position.journal_end is None:
            position = self._begin_journal(position, state.version)
        return self._append(position, [change_forms.commit_json(commit)])

    def absorb(
        self, state: ConversationState, position: Position, *, at_ms: int
    ) -> tuple[Commit | None, Position]:
        """Commit the edit at `position`, which `state` holds already, and mend what is damaged; damaged files are kept.
        Returns the commit, if the edit changed anything, and the position after it. A broken snapshot is first kept as
        it is, and then written again; until then every reader finds the same in its place."""
        # A newer program knows what to do with its own files.
        if position.newer:
            return None, position
        if position.damaged:
            position = self._mend(state, position, at_ms)

        edit = position.edit
        if edit is None:
            return None, position

        # The broken file is the only copy of what it holds, so it is kept before it is written again.
        for name, broken in edit.broken.items():
            self._set_snapshot_aside(name, broken, at_ms)

        if position.journal_end is None:
            position = self._begin_journal(position, state.version)
        if edit.hashes:
            log.info("edited by hand: %s, %d changes", self.folder, len(edit.changes))

        commit = None
        lines: list[Fields] = []
        if edit.changes:
            commit = Commit(state.version + 1, at_ms, by="hand", changes=edit.changes)
            lines.append(change_forms.commit_json(commit))

        if edit.hashes:
            lines.append({"v": journal.FORMAT, "edited": dict(edit.hashes)})
        if lines:
            position = self._append(position, lines)

        self._copy_edited(edit)
        position = replace(position, edit=None)
        if edit.broken:
            # Its own value: only the event loop changes `state`.
            mended = state if commit is None else replace(state, version=commit.version)
            position = self.compact(mended, position, mend=True)

        return commit, position

    def _copy_edited(self, edit: snapshots.HandEdit) -> None:
        """Copy the edited snapshots, with which the next edit is compared."""
        for name, content in self._snapshots.contents().items():
            if content is not None and snapshots.hash_of(content) == edit.hashes.get(name):
                snapshots.write_copy(self._private, name, content)

    def snapshot_size(self, position: Position) -> int:
        return sum(mark[0] for mark in position.marks.values() if mark)

    def compact(
        self, state: ConversationState, position: Position, *, mend: bool = False
    ) -> Position:
        """Write `state` as snapshots and begin the journal's next generation. Return the position after it, or that of
        before if there is nothing to do, or it must wait. `mend`: also if nothing happened since, because a snapshot is
        broken. A crash at any step leaves files that `load` reads as `state`: the journal still holds every commit, and
        replaying it over a newer snapshot changes nothing."""
        # The journal is empty, or a newer program wrote it.
        header = position.header
        if header is None or position.newer or (header.base == state.version and not mend):
            return position
        if position.unsettled and self._snapshots.may_be_being_saved(*position.marks.values()):
            return position
        if any(map(change_forms.has_newer_change, journal.newest_first([self._journal]))):
            return position  # the newer program that made it has yet to fold it
        if mend or self._journal_removes_texts():
            folders.remove_file(self.grams_path)

        data = snapshots.contents_of(state)
        asides = {
            name: folders.write_aside(self._private / name, content)
            for name, content in data.items()
        }
        if self._snapshots.marks() != position.marks:
            # Edited a moment ago: an edit must be read first, and is never written over.
            return position

        # Noted before the renames: otherwise a crash between them would look like an edit by hand.
        hashes: dict[str, str | None] = {
            name: snapshots.hash_of(content) for name, content in data.items()
        }
        position_after = self._append(position, [{"v": journal.FORMAT, "compacted": hashes}])
        for name, aside in asides.items():
            folders.take_name(aside, self.folder / name)

        folders.sync_folder(self.folder)
        for name, content in data.items():
            snapshots.write_copy(self._private, name, content)

        self.note.write(ConversationFacts.of(state))
        self.past.fold()
        if self.unread(position_after):
            # On a disk without working locks another process wrote meanwhile: its commits must not be lost with the
            # old journal.
            return replace(position_after, marks=self._snapshots.marks())

        log.debug("compacted %s: %d bytes of journal", self.folder, position_after.journal_size)
        without_journal = Position(None, None, self._snapshots.marks())
        new_header = journal.Header(header.generation + 1, state.version, hashes)
        return self._replace_journal(without_journal, new_header)

    def adopt(self, state: ConversationState, commits: Sequence[Commit], now_ms: int) -> None:
        """Write the files of a conversation with `state`, of its version, and its past; the folder
        is not there yet. Unusable records are set aside. Raises OSError."""
        folders.make_folder(self._private)
        lines = [(commit.version, line_of(change_forms.commit_json(commit))) for commit in commits]
        journal.keep(self.past.file, lines)
        hashes: dict[str, str | None] = {}
        for name, content in snapshots.contents_of(state).items():
            folders.replace_file(self.folder / name, content)
            snapshots.write_copy(self._private, name, content)
            hashes[name] = snapshots.hash_of(content)
        self.note.write(ConversationFacts.of(state))
        for name, data in snapshots.kept_of(state.unusable).items():
            broken = snapshots.Broken(data, state.unusable[0].reason.sentence, only_copy=True)
            self._set_snapshot_aside(name, broken, now_ms)
        header = journal.Header(1 + secrets.randbits(32), state.version, hashes)
        self._replace_journal(Position(None, None, self._snapshots.marks()), header)

    def _journal_removes_texts(self) -> bool:
        """Tell whether a memory was forgotten or edited since the snapshots were written. A text of a memory cannot
        have such a name, because the quotes in it are marked."""
        lines = folders.read_if_there(self._journal) or b""
        return any(b'"%b"' % name in lines for name in (b"forgotten", b"edited"))

    # --- parts -----------------------------------------------------------------------------------------

    def _mend(self, state: ConversationState, position: Position, at_ms: int) -> Position:
        """Write `conversation.json` and the journal again if they are damaged: lines that count stay, the others are
        set aside, and a copy of the damaged journal is kept."""
        if not self._is_named():
            self.note.write(ConversationFacts.of(state))
        header, tail, _place = self._read_journal()
        if tail.bad:
            self._keep_bad_lines(tail, at_ms)
            lines = b"".join(map(line_of, tail.lines))
            if header is None:
                version = self._base(header, tuple(commits_in(tail.lines, self._journal)))
                position = self._begin_journal(position, version, lines)
            else:
                header = replace(header, generation=header.generation + 1)
                position = self._replace_journal(position, header, lines)
        return replace(position, damaged=False)

    def _keep_bad_lines(self, tail: journal.Tail, at_ms: int) -> None:
        """Keep a copy of the damaged journal, and set its lines aside that do not count."""
        past.keep_broken(
            self._private, self._journal.name, data=folders.read_file(self._journal), now_ms=at_ms
        )
        bad_lines = list(tail.bad)
        if tail.torn:
            bad_lines.append(journal.BadLine(tail.end, tail.torn, past.UNFINISHED))
        for line in bad_lines:
            past.set_aside(self._private, line.reason, data=line.data, offset=line.offset)
        log.warning(
            "%s is written again: %d of its lines did not count", self._journal, len(tail.bad)
        )

    def _set_snapshot_aside(self, name: str, broken: snapshots.Broken, now_ms: int) -> None:
        """Note why the snapshot in the file `name` does not count, and keep a copy of the file unless it is missing."""
        path = self.folder / name
        # The file is missing, so there is nothing to keep.
        if broken.data is None:
            past.set_aside(self._private, broken.reason, file=name)
            log.warning(
                "%s: %s; what the history holds of it counts, and it is written again",
                path,
                broken.reason,
            )
            return

        copy = past.keep_broken(
            self._private, name, data=broken.data, now_ms=now_ms, only_copy=broken.only_copy
        )
        past.set_aside(self._private, broken.reason, file=name, kept=f"{past.BROKEN}/{copy.name}")
        advice = _("`memory-server doctor` says how to put it back")
        sentence = _(
            "{path} is set aside as {kept}: {reason}; {advice}.", path, copy, broken.reason, advice
        )
        log.warning("%s", sentence)

    def _append(self, position: Position, lines: Sequence[Fields]) -> Position:
        """Make `lines` durable after `position`, in a journal that has begun, and return the position after them. A line
        that was cut off there is set aside."""
        assert position.journal_end is not None
        if position.torn:
            past.set_aside(
                self._private, past.UNFINISHED, data=position.torn, offset=position.journal_size
            )
        journal_end = journal.append(self._journal, position.journal_end, list(map(line_of, lines)))
        return replace(position, journal_end=journal_end, torn=b"", edit=None)

    def _read_journal(self) -> tuple[journal.Header | None, journal.Tail, journal.Place | None]:
        try:
            return journal.read(self._journal)
        except FileNotFoundError:
            return None, journal.Tail((), (), end=0, torn=b""), None

    def _assemble(
        self, tail: journal.Tail, data: Mapping[str, bytes | None], position: Position
    ) -> OpenedConversation:
        """Return the state by what was read: the snapshots, then the commits of the journal, then
        an edit by hand. Raises SnapshotBroken if another program may be saving a broken snapshot of
        which no copy is known."""
        header = position.header
        commits = tuple(commits_in(tail.lines, self._journal))
        version = self._base(header, commits)
        known_hashes = None if header is None else _known_hashes(header, tail)
        read_snapshots = self._snapshots.read(
            data, position.marks, known_hashes=known_hashes, lost=lambda: self.past.folded(version)
        )
        facts = self.note.facts()
        state = ConversationState(
            self.conversation_id,
            version,
            short_term={memory.id: memory for memory in read_snapshots[snapshots.SHORT_TERM].base},
            long_term={memory.name: memory for memory in read_snapshots[snapshots.LONG_TERM].base},
            last_cleanup_ms=facts.last_cleanup_ms,
            chats=dict(facts.chats),
        )
        # The journal first, then the edit: the editor saw what the journal holds.
        replay(state, commits)
        is_named = self._is_named()
        position.damaged = bool(tail.bad) or not is_named
        position.unsettled = any(snapshot.unsettled for snapshot in read_snapshots.values())
        position.edit = snapshots.hand_edit(read_snapshots, state)
        if position.edit is not None:
            apply(state, position.edit.changes)

        unusable: dict[bytes, UnusableRecord] = {}
        for row in (*_unusable_in(read_snapshots), *self._kept_records()):
            # A record that is nested too deeply cannot be written anywhere else: it stays in its file only.
            if not row.is_in(state) and not deeper(row.record):
                unusable.setdefault(json_text.dumps(row.record), row)

        state.unusable += unusable.values()
        return OpenedConversation(
            state, position, tail=tail, commits=commits, snapshots=read_snapshots, named=is_named
        )

    def _kept_records(self) -> Iterator[UnusableRecord]:
        """Yield the records that cannot be used in the files that may be the only copy of them."""
        for path, _time in past.broken_files(self._private):
            # A number may follow the name.
            name = next((name for name in snapshots.SNAPSHOTS if name in path.name), None)
            if name is not None and past.may_be_only_copy(path):
                yield from snapshots.unusable_in(name, folders.read_file(path))

    def _base(self, header: journal.Header | None, commits: Sequence[Commit]) -> int:
        """Return the version on which `commits` of the journal build."""
        if header is not None:
            return header.base
        if commits:
            return commits[0].version - 1
        # If a journal was lost its versions go on: a new change must never get the id of an old one.
        return journal.newest_version(self.past.file)

    def _warn(self, tail: journal.Tail) -> None:
        for line in tail.bad:
            log.warning(
                "line at byte %d of %s does not count: %s", line.offset, self._journal, line.reason
            )

    def _is_named(self) -> bool:
        """Tell whether `conversation.json` names the conversation, need not do so, or cannot be replaced."""
        is_hashed = "~" in self.folder.name
        if not self._journal.exists() and not (is_hashed and self._snapshots.exist()):
            return True
        if is_hashed and hashed_name(self.conversation_id) != self.folder.name:
            return True  # it is another conversation
        return not self.note.can_be_replaced or self.note.id is not None

    def _begin_journal(self, position: Position, version: int, lines: bytes = b"") -> Position:
        """Write a new journal with these commit lines after `version`, and return the position
        after it. Before that, write the conversation's id, and copies of the snapshots on which it
        builds. Raises OSError."""
        # The true id first: a folder with a journal always names its conversation.
        self.note.write(self.note.facts())
        data = self._snapshots.contents()
        broken_names = set() if position.edit is None else set(position.edit.broken)
        for name, content in data.items():
            if name in broken_names:
                # The journal builds on what counts in place of a broken one.
                data[name] = snapshots.read_copy(self._private, name) or json_text.dump_array(())
            elif content is not None:
                snapshots.write_copy(self._private, name, content)
        hashes = {name: snapshots.hash_of(content) for name, content in data.items()}
        # Random, not 1: if a conversation is removed and another begins in its folder, a process that still has the
        # former one open must see the difference.
        header = journal.Header(1 + secrets.randbits(32), version, hashes)
        return self._replace_journal(position, header, lines)

    def _replace_journal(
        self, position: Position, header: journal.Header, lines: bytes = b""
    ) -> Position:
        """Write a new journal of this header and these lines, and return the position at its end."""
        folders.replace_file(self._journal, journal.header_line(header) + lines)
        _header, _tail, journal_end = journal.read(self._journal)
        return replace(position, header=header, journal_end=journal_end, torn=b"")


def _unusable_in(read_snapshots: Mapping[str, snapshots.Snapshot]) -> Iterator[UnusableRecord]:
    """Yield the records of the snapshots that cannot be used."""
    for snapshot in read_snapshots.values():
        if snapshot.broken is not None:
            yield from snapshot.broken.unusable


def _known_hashes(header: journal.Header, tail: journal.Tail) -> dict[str, snapshots.Known]:
    """Return the hashes of each snapshot that a journal knows."""
    hashes_by_name: dict[str, set[str | None]] = {name: set() for name in snapshots.SNAPSHOTS}
    lines = [{"compacted": dict.fromkeys(hashes_by_name) | dict(header.snapshots)}, *tail.lines]
    for line in lines:
        for kind in ("compacted", "edited"):
            hashes = line.get(kind)
            if not isinstance(hashes, dict):
                continue
            for name, snapshot_hash in hashes.items():
                if name in hashes_by_name and isinstance(snapshot_hash, str | None):
                    hashes_by_name[name].add(snapshot_hash)
    return {name: frozenset(hashes) for name, hashes in hashes_by_name.items()}


def conversation_id_in(folder: Path) -> str | None:
    """Return the id of the conversation kept in `folder`: the noted id, or the folder's name if only the Node
    original wrote it. Return None if the folder is not a conversation."""
    private = folder / folders.PRIVATE
    files = (private / _JOURNAL, *(folder / name for name in snapshots.SNAPSHOTS))
    if not any(path.exists() for path in files):
        return None
    noted_id = ConversationNote(private, folder.name).id
    if noted_id is not None:
        return noted_id
    # The note is lost. Only this program makes a name with `~`, and the memories name their conversation.
    if "~" in folder.name:
        with contextlib.suppress(OSError, ValueError):
            for record in json_text.load_array(folders.read_file(folder / snapshots.SHORT_TERM)):
                name = record.get("conversation_id")
                if isinstance(name, str) and folder_name(name) == folder.name:
                    return name
    return folder.name
