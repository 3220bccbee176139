"""A home of memories in a folder of this machine: the conversations, the backups and the notes that are kept there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import tzinfo
from errno import ENOSPC
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from languages import N_, Sentence
from memory_server.conversations.model import conversation_id_of
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.files import find_folder, subfolders
from memory_server.kernel.meter import Meter
from memory_server.kernel.text import Finding
from memory_server.storage import conflict_copies
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.options import StoreParameters
from memory_server.storage.token_file import TokenFile

if TYPE_CHECKING:
    from memory_server.conversations.ports import ConversationStore, RecallLog, RepairPlan
    from memory_server.kernel.erasure import Erasure, Tombstones, Traces
    from memory_server.kernel.lifecycle import BlockingExamine, Ledger
    from memory_server.kernel.meter import FolderSize
    from memory_server.kernel.private import Pauses
    from memory_server.knowledge.ports import EntryFolder, EntryStore
    from memory_server.storage.backups.files import BackupFolder

from memory_server.storage.link_files import LinkFile, Outbox
from memory_server.storage.small_files import (
    AnsweredEvents,
    FolderLedger,
    GivenLines,
    PauseNote,
    QuestionFiles,
    RecallFiles,
)

TENANT_NAME = "tenant-name.txt"
LEAST_FREE_BYTES = 1_000_000
"""The free bytes below which a disk counts as full: a write of a single call, with the files that SQLite needs for
it, would not fit."""
LEAST_FREE_FILES = 32
"""The free files below which a disk counts as full, too: a new tenant with one conversation has some twenty files and
folders."""


def tokens_at(folder: Path) -> Path:
    """Return the path of the tokens of a home, if no other file is set."""
    return folder.expanduser().absolute() / folders.PRIVATE / "tokens.jsonl"


class Home:
    """All that is kept in the folder `place`. `clock` gives milliseconds since 1970. Without `parameters` the
    defaults of `StoreParameters` count, and without `meter` nothing is measured. Examinations and repairs are
    blocking calls; they and backups are imported when they are used, because short commands do not need them."""

    def __init__(
        self,
        place: Path,
        clock: Callable[[], int],
        parameters: StoreParameters | None,
        meter: Meter | None,
    ) -> None:
        """Keep what is given, and make the stores of the folder. Nothing on disk is read or
        written."""
        self.place = place
        self.clock = clock
        self._parameters = parameters or StoreParameters()
        self._meter = meter or Meter()
        self.conversations: ConversationStore = JsonFileStore(
            place, clock, parameters=self._parameters, meter=self._meter
        )
        self.ledger: Ledger = FolderLedger(place)
        self.pause: Pauses = PauseNote(place)
        self.answered_events = AnsweredEvents(place)
        self.given_lines = GivenLines(place)
        self.recalls: RecallLog = RecallFiles(place)
        self.questions: RecallLog = QuestionFiles(place)
        self.link = LinkFile(place)
        self.outbox = Outbox(place)

    on_several_machines = False
    """Whether other machines may keep memories in the same place."""
    without_backups = N_("There is no backup yet; `memory-server backup` makes one.")

    def migrate(self, *, dry_run: bool = False) -> list[int]:
        """Bring the tables up to date, and return the numbers of the steps. Raises InvalidInput here: files have no
        tables."""
        raise InvalidInput(
            "Only a database has tables; name one as `store`, such as postgresql://user@host/database."
        )

    def refuse_newer(self, conversation_id: str) -> None:
        """Refuse a conversation that a newer memory-server has written. Raises StorageUnwritable."""
        from memory_server.storage.partition import journal

        folder = find_folder(self.place, conversation_id)
        journal.refuse_newer(
            folder, journal.read_header(folder / folders.PRIVATE / "journal.jsonl")
        )

    def place_of(self, conversation_id: str) -> str:
        """Return the path of a conversation, for people."""
        return str(find_folder(self.place, conversation_id))

    @property
    def shown(self) -> str:
        """Where it is, for people."""
        return str(self.place)

    def close(self) -> None:
        """Let go of what its parts share, after all of them are closed; idempotent."""

    async def aclose(self) -> None:
        self.close()

    @cached_property
    def erased(self) -> Tombstones:
        from memory_server.storage.erased_files import ErasedFiles

        return ErasedFiles(self.place)

    @cached_property
    def backups(self) -> BackupFolder:
        from memory_server.storage.backups.files import BackupFolder

        return BackupFolder(self.place / folders.PRIVATE / "backups")

    def entries(self, *, durability: str, cache_mb: int, embeds: str = "") -> EntryStore:
        """Return the store of the knowledge; `embeds` is the model of its vectors. Touches no disk."""
        from memory_server.storage.entries.sqlite_store import SqliteStore

        parameters = self._parameters
        return SqliteStore(
            self.place / folders.PRIVATE / "knowledge.sqlite3",
            self.clock,
            wait_seconds=parameters.wait_seconds,
            durability=durability,
            cache_mb=cache_mb,
            keep_ms=parameters.keep_ms,
            read_only=parameters.read_only,
            embeds=embeds,
            meter=self._meter,
            erased=self.erased.holds,
        )

    def layer(self, folder: Path, zone: tzinfo | None, project: Path | None = None) -> EntryFolder:
        """Open entries as Markdown files in `folder`, which is not part of the home, but may be in `project`. Touches
        no disk."""
        from platformdirs import user_cache_path

        from memory_server.storage.entries.markdown_folder import MarkdownFolder

        parameters = self._parameters
        return MarkdownFolder(
            folder,
            locks=user_cache_path("memory-server", appauthor=False) / "locks",
            project=project,
            zone=zone,
            wait_seconds=parameters.wait_seconds,
            read_only=parameters.read_only,
            meter=self._meter,
        )

    def passing_entries(self) -> EntryStore:
        """Return a store of entries that are forgotten when this process ends, and have no history."""
        from memory_server.storage.entries.sqlite_store import SqliteStore

        return SqliteStore(None, self.clock, mirror=True)

    def publish(self, folder: Path, pages: Mapping[str, str]) -> None:
        """Write pages for people into a folder of theirs."""
        from memory_server.storage.entries.markdown_folder import write_pages

        write_pages(folder, pages)

    def traces(self, erasure: Erasure, *further_places: Path) -> Traces:
        """Find what is left of an erasure here and in the folders or files `further_places`; tenants have homes of
        their own. Changes nothing. Raises StorageError: not all could be read."""
        from memory_server.kernel.erasure import Traces
        from memory_server.storage.erased_files import holding

        traces = Traces()
        with folders.unwritable(self.place):
            for path in dict.fromkeys((self.place, *further_places)):
                traces += holding(path, erasure, without=[self._tenants])
        return traces

    def left(self, erasure: Erasure, *further_places: Path) -> Traces:
        """Return the traces after an erasure, without the files that a killed process left, which are removed. Raises
        StorageError."""
        from memory_server.storage.erased_files import without_leftovers

        with folders.unwritable(self.place):
            return without_leftovers(self.traces(erasure, *further_places))

    def tenants_with(self, erasure: Erasure) -> list[str]:
        """Return the names of the tenants that have the words of an erasure of this home, or its texts."""
        from memory_server.storage.erased_files import holding

        with folders.unwritable(self._tenants):
            tenants = [
                folder for folder in subfolders(self._tenants) if holding(folder, erasure).texts
            ]
        return [_short_name(folder) for folder in tenants]

    def erase_waiting(self, erasure: Erasure) -> None:
        """Remove what is erased from the turns that wait for a linked server. Raises StorageUnwritable."""
        self.outbox.erase(erasure.held_in)

    @property
    def not_ours(self) -> str:
        """What else may have a text that is erased, for people."""
        return ""

    def size(self) -> int:
        """Return the bytes of all that is kept."""
        return self.folder_size().size_bytes

    def folder_size(self) -> FolderSize:
        """Count and measure the files of the folder. A file that is removed meanwhile does not count."""
        from memory_server.kernel.meter import FolderSize

        sizes: list[int] = []
        for folder, _folders, names in os.walk(self.place):
            for name in names:
                with contextlib.suppress(OSError):
                    sizes.append(Path(folder, name).lstat().st_size)
        return FolderSize(len(sizes), sum(sizes))

    def refuse_without_room(self) -> None:
        """Raise OSError if the folder cannot be made, or a write or the files of a new conversation would not fit."""
        import shutil

        folders.make_folder(self.place)
        free_bytes = shutil.disk_usage(self.place).free
        if free_bytes < LEAST_FREE_BYTES or _free_files(self.place) < LEAST_FREE_FILES:
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    @property
    def layers(self) -> Path:
        """The folder of layers that belong to this home alone."""
        return self.place / folders.PRIVATE / "layers"

    def tenant(self, name: str) -> Path:
        """Return the home of a tenant. Raises InvalidInput: a tenant cannot be called that."""
        return find_folder(self._tenants, conversation_id_of(name, "tenant"))

    def settings_of(self, tenant: str) -> Mapping[str, Any]:
        """Return the settings with which a tenant's home is opened. Raises InvalidInput: a tenant cannot be called
        that."""
        return _settings_of_folder(self.tenant(tenant))

    def tenants(self) -> list[Mapping[str, Any]]:
        """Return the settings with which each tenant's home is opened."""
        return [_settings_of_folder(folder) for folder in subfolders(self._tenants)]

    @property
    def is_of_a_tenant(self) -> bool:
        """Whether it is known to be the home of a tenant, which cannot have tenants of its own."""
        return False

    def has_tenant(self, name: str) -> bool:
        return self.tenant(name).is_dir()

    def erase_tenant(self, name: str) -> None:
        """Delete all that is kept for a tenant, while a server may write there. Raises StorageUnwritable: something is
        left of it."""
        from shutil import rmtree

        folder = self.tenant(name)
        for _attempt in range(3):
            rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise StorageUnwritable(
                Sentence(
                    "{folder} could not be deleted whole, so the token stays; stop the server and run this again.",
                    folder,
                ),
                folder,
            )

    def tenant_names(self, candidates: Iterable[str] = ()) -> list[str]:
        """List the names of the tenants. The name of a folder can be shortened; then the whole name is looked for in
        the folder, among the tenants of the tokens and among `candidates`. Where no candidate fits, the list has the
        shortened name, and `has_tenant` says no to it."""
        tenant_folders = subfolders(self._tenants)
        candidates = [*self._tenants_of_tokens(), *candidates, *map(_noted_name, tenant_folders)]
        names_by_folder = {self.tenant(name).name: name for name in candidates if name}
        return [names_by_folder.get(folder.name, _short_name(folder)) for folder in tenant_folders]

    def note_tenant(self, name: str) -> None:
        """Write the whole name of a tenant into its folder, if the folder is there and its name is shortened. Raises
        OSError."""
        folder = self.tenant(name)
        if folder.is_dir() and _short_name(folder) != name and _noted_name(folder) != name:
            folders.replace_file(folder / folders.PRIVATE / TENANT_NAME, name.encode())

    def _tenants_of_tokens(self) -> list[str]:
        tokens = TokenFile(tokens_at(self.place))
        try:
            return [token.tenant for token in tokens.tokens() if token.tenant is not None]
        except InvalidInput:  # it is missing, or cannot be trusted
            return []

    @property
    def _tenants(self) -> Path:
        return self.place / folders.PRIVATE / "tenants"

    def examine(self) -> list[Finding]:
        from memory_server.storage.json_store.examination import examine_folder

        now_ms = self.clock()
        return [
            *examine_folder(self.place, now_ms, self.pause.read(now_ms), self.ledger.last_run_ms()),
            *conflict_copies.findings(self.place),
        ]

    def conflict_copies(self) -> list[Path]:
        """List the copies that a program made which syncs this folder, and which nothing reads."""
        return conflict_copies.conflict_copies(self.place)

    def examinations(self) -> list[BlockingExamine]:
        """Return a call for each conversation, which gives the findings about it; none if the folder may not be read."""
        from memory_server.storage.json_store.examination import examine_conversation

        try:
            conversation_folders = subfolders(self.place)
        except PermissionError:
            return []  # `examine` reports it
        now_ms = self.clock()
        return [
            partial(examine_conversation, self.place, folder, now_ms)
            for folder in conversation_folders
        ]

    def repairs(
        self, conversation_id: str | None = None, *, dry_run: bool = False
    ) -> list[Callable[[], RepairPlan | None]]:
        """Return a call for each conversation, which mends it, or with `dry_run` says what it would mend. A call
        returns None if nothing is broken, or if it is not the conversation `conversation_id`. It raises
        `StorageError` if it mended nothing."""
        from memory_server.storage.json_store.repair import repair

        now_ms = self.clock()
        return [
            partial(repair, folder, now_ms, conversation_id=conversation_id, dry_run=dry_run)
            for folder in subfolders(self.place)
        ]


def _short_name(folder: Path) -> str:
    """Return the name of a tenant as the name of its folder has it, which can be shortened."""
    return folder.name.partition("~")[0]


def _noted_name(folder: Path) -> str:
    """Read the name that `note_tenant` wrote into the folder of a tenant. Return "" if it did not."""
    try:
        return folders.read_file(folder / folders.PRIVATE / TENANT_NAME).decode()
    except (OSError, UnicodeDecodeError):
        return ""


def _settings_of_folder(folder: Path) -> Mapping[str, Any]:
    """Return the settings for the folder of a tenant. A `store` of the owner must not stay in force beside it: it
    would win."""
    return {"data_dir": folder, "store": None}


def _free_files(folder: Path) -> float:
    """Return the number of files this user may still make there; infinite where the file system has no such bound."""
    if not hasattr(os, "statvfs"):
        return inf
    figures = os.statvfs(folder)
    if not figures.f_files:
        return inf  # btrfs counts none
    return figures.f_favail
