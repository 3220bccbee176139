"""The ports of operations: the memories of one caller, the machine on which files are read, and progress.

A view of the runtime is an `OpenMemory`; `homes.py` has the machine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import tzinfo
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from languages import _
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.ports import ConversationStore, RecallLog, RepairPlan
from memory_server.kernel.erasure import Erasure, Tombstones, Traces
from memory_server.kernel.values import frozen
from memory_server.knowledge.ports import EntryStore
from memory_server.knowledge.service import Knowledge
from memory_server.memories.memories import Memories
from memory_server.memories.recalls import Recalls
from sandbox import TriggerSandbox

if TYPE_CHECKING:
    from memory_server.interchange.forms import Format

Progress = Callable[[str, int], AbstractContextManager[Callable[..., None]]]
"""Shows the progress of an operation, by its title and its number of steps; yields a function that advances it."""


@contextmanager
def no_progress(_title: str, _steps: int) -> Iterator[Callable[..., None]]:
    """Show nothing."""
    yield lambda *_: None


class Table(Protocol):
    """A table of a database of another program."""

    @property
    def columns(self) -> Collection[str]: ...

    @property
    def rows(self) -> int: ...


class Machine(Protocol):
    """The machine of the user: projects and pages of notes of folders, and tables of databases of other programs."""

    def folder_of_work(self, folder: Path) -> str | None:
        """Return how a memory names a working folder."""

    def project_key(self, folder: Path) -> str:
        """Return the key of the project of a working folder; empty if it has none."""

    def pages_of_notes(self) -> list[Path]:
        """Return the pages of notes in the folder of the settings and in the usual folders."""

    def tables_of(self, path: Path) -> Mapping[str, Table]: ...

    def rows_of(
        self, path: Path, tables: Mapping[str, Collection[str]]
    ) -> Mapping[str, list[Mapping[str, Any]]]:
        """Return the rows of these tables, with these columns."""


class BackupFolder(Protocol):
    """The place of the files of backups."""

    @property
    def folder(self) -> Path: ...


class HomeOfMemories(Protocol):
    """The place of the memories of an owner or a tenant. Its calls block; they raise StorageError."""

    @property
    def place(self) -> Path: ...

    @property
    def shown(self) -> str:
        """The place, for people."""

    @property
    def conversations(self) -> ConversationStore: ...

    @property
    def recalls(self) -> RecallLog: ...

    @property
    def questions(self) -> RecallLog:
        """The questions that `examine` asks again, in the form of the record of recalls."""

    @property
    def erased(self) -> Tombstones: ...

    @property
    def backups(self) -> BackupFolder: ...

    def entries(self, *, durability: str, cache_mb: int) -> EntryStore: ...

    def refuse_newer(self, conversation_id: str) -> None:
        """Raise StorageUnwritable if a newer version has written a conversation."""

    def repairs(
        self, conversation_id: str | None = None, *, dry_run: bool = False
    ) -> Sequence[Callable[[], RepairPlan | None]]:
        """Return a call for each conversation, or for the named one: it mends the conversation, or returns None if
        nothing is broken."""

    def traces(self, erasure: Erasure, *further_places: Path) -> Traces:
        """Search the home and these places for what is erased."""

    def left(self, erasure: Erasure, *further_places: Path) -> Traces:
        """Search after an erasure, and remove files that killed processes left."""

    def erase_waiting(self, erasure: Erasure) -> None:
        """Erase from the turns that wait for a linked server."""

    @property
    def is_of_a_tenant(self) -> bool: ...

    def tenant_names(self, candidates: Iterable[str] = ()) -> list[str]: ...

    def has_tenant(self, name: str) -> bool: ...

    def note_tenant(self, name: str) -> None: ...

    def tenants_with(self, erasure: Erasure) -> list[str]: ...


class OpenMemory(Protocol):
    """The memories as one caller sees them, open."""

    @property
    def memories(self) -> Memories: ...

    @property
    def knowledge(self) -> Knowledge: ...

    @property
    def store(self) -> ConversationStore: ...

    @property
    def recalls(self) -> Recalls: ...

    @property
    def sandbox(self) -> TriggerSandbox: ...

    @property
    def home(self) -> HomeOfMemories: ...

    @property
    def clock(self) -> Callable[[], int]: ...

    @property
    def zone(self) -> tzinfo | None: ...

    @property
    def machine(self) -> Machine: ...

    def conversation(self, conversation_id: str | None = None) -> Conversation: ...


@frozen
class Source:
    """A file or folder by its `name`, or the `data` of a file that has no path here; the name `-` is standard input."""

    name: str
    data: bytes | None = None

    @property
    def shown(self) -> str:
        """The name in messages."""
        if self.name == "-":
            return _("standard input")
        return self.name


@frozen
class ReadOptions:
    """How a source is read.

    If `format` or `encoding` is None, the content shows it. `conversation` gets the memories; if it is None, they go
    to the usual conversation or to the conversations that the source names. `user` and `char` are the names of the
    two in it. `with_hidden` also takes messages that were hidden in SillyTavern. `programs` are the programs that the
    settings name, between commas. After `check_until`, by the monotonic clock, triggers are no longer checked.
    `admit` refuses a content of so many unpacked bytes before it is read. The others are about lorebooks: the name of
    the `book`, the `depth` of its scan in messages, and what else an entry leaves open.
    """

    format: Format | None = None
    encoding: str | None = None
    conversation: str | None = None
    user: str | None = None
    char: str | None = None
    with_hidden: bool = False
    programs: str = ""
    book: str | None = None
    depth: int | None = None
    substrings: bool = False
    case_sensitive: bool = False
    no_recursion: bool = False
    no_names: bool = False
    check_until: float = inf
    admit: Callable[[int], Awaitable[None]] | None = None
