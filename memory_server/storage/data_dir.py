"""A home of memories, named by a URL: the conversations, the backups and the notes that are kept there.

Only `storage/` knows that it is a folder of this machine, or a database (postgres/home.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from datetime import tzinfo
from errno import ENOSPC
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.folder_names import find_folder, subfolders
from memory_server.kernel.meter import Meter
from memory_server.kernel.process_figures import FolderSize
from memory_server.kernel.text import Finding
from memory_server.storage.json_store.store import JsonFileStore, StoreParameters
from memory_server.storage.token_file import named
from sandbox.locale import _

if TYPE_CHECKING:
    from memory_server.conversations.ports import ConversationStore
    from memory_server.kernel.erasure import Erasure, Tombstones
    from memory_server.kernel.lifecycle import Ledger
    from memory_server.kernel.private import Pauses
    from memory_server.kernel.recalls import RecallLog
    from memory_server.knowledge.ports import EntryFolder, EntryStore
    from memory_server.storage.backups.files import BackupFolder
    from memory_server.storage.json_store.repair import RepairPlan
    from memory_server.storage.options import PostgresSettings

from memory_server.storage.link_files import LinkFile, Outbox
from memory_server.storage.recall_files import RecallFiles
from memory_server.storage.small_files import AnsweredEvents, FolderLedger, GivenLines, PauseNote

__all__ = ["Home", "StoreParameters", "open_home"]

log = logging.getLogger(__name__)

LEAST_FREE_BYTES = 1_000_000
"""Below this a disk counts as full: a write of one call, with the files that SQLite needs for it, would not fit."""


def open_home(
    url: str | Path,
    clock: Callable[[], int],
    parameters: StoreParameters | None = None,
    meter: Meter | None = None,
    *,
    folder: Path | None = None,
    postgres: PostgresSettings | None = None,
    beside: Home | None = None,
) -> Home:
    """The home at `url`: `file:///…`, or the path of a folder, which need not exist yet; or `postgresql://…`, where
    `#NAME` at the end names a tenant, with the files of this machine in `folder`. It shares what it can with a home
    `beside` it, which is closed after it. Touches no disk and no network. Raises InvalidInput if memories cannot be
    kept at such a URL."""
    # Without what follows the scheme, which may hold a password.
    refused = InvalidInput(
        "Memories cannot be kept at `{url}`; give a folder, or a URL that begins with file:/// or postgresql://.",
        f"{str(url).partition('://')[0]}://",
    )
    try:
        parts = urlsplit(str(url))
    except ValueError:  # such as a bracket in a password
        raise refused from None
    if parts.scheme in ("postgresql", "postgres"):
        try:
            from memory_server.storage.postgres.home import open_database
        except ImportError as error:
            raise InvalidInput(
                "Memories in PostgreSQL need psycopg; in the clone run `uv tool install '.[postgres]'`."
            ) from error
        place = (folder or Path()).expanduser().absolute()
        return open_database(str(url), place, clock, parameters, meter, postgres, beside)
    if parts.scheme == "file":
        from urllib.request import url2pathname

        url = url2pathname(parts.path)
    elif len(parts.scheme) > 1 and f"{parts.scheme}:/" in str(url):
        raise refused
    return Home(Path(url).expanduser().absolute(), clock, parameters, meter)


def tokens_at(place: Path) -> Path:
    """Where the tokens of a home are, if no other file is set."""
    return place.expanduser().absolute() / folders.PRIVATE / "tokens.jsonl"


class Home:
    """What is kept in the folder `place`. Examinations and repairs are blocking calls; they and backups are imported
    when they are used, because short commands do not need them."""

    def __init__(
        self, place: Path, clock: Callable[[], int], parameters: StoreParameters | None, meter: Meter | None
    ) -> None:
        self.place = place
        self.clock = clock
        self._parameters = parameters or StoreParameters()
        self._meter = meter or Meter()
        self.conversations: ConversationStore = JsonFileStore(place, clock, parameters, meter)
        self.ledger: Ledger = FolderLedger(place)
        self.pause: Pauses = PauseNote(place)
        self.answered = AnsweredEvents(place)
        self.given = GivenLines(place)
        self.recalls: RecallLog = RecallFiles(place)
        self.link = LinkFile(place)
        self.outbox = Outbox(place)

    without_backups = _("There is no backup yet; `memory-server backup` makes one.")

    def migrate(self, *, dry_run: bool = False) -> list[int]:
        """Bring the form of what is kept up to date; the numbers of the steps. Raises InvalidInput: files need none."""
        raise InvalidInput("Only a database has tables; name one as `store`, such as postgresql://user@host/database.")

    def refuse_newer(self, conversation_id: str) -> None:
        """Raises StorageUnwritable: a newer memory-server has written a conversation."""
        from memory_server.storage.partition import journal

        folder = find_folder(self.place, conversation_id)
        journal.refuse_newer(folder, journal.read_header(folder / folders.PRIVATE / "journal.jsonl"))

    def place_of(self, conversation_id: str) -> str:
        """Where a conversation is kept, for people."""
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
        """Where knowledge is kept; `embeds` is the model of its vectors. Touches no disk."""
        from memory_server.storage.entries.sqlite_store import SqliteStore

        given = self._parameters
        return SqliteStore(
            self.place / folders.PRIVATE / "knowledge.sqlite3",
            self.clock,
            wait_seconds=given.wait_seconds,
            durability=durability,
            cache_mb=cache_mb,
            keep_ms=given.keep_ms,
            read_only=given.read_only,
            embeds=embeds,
            meter=self._meter,
            erased=self.erased.holds,
        )

    def layer(self, folder: Path, zone: tzinfo | None, project: Path | None = None) -> EntryFolder:
        """Entries as Markdown files in `folder`, which is not part of the home, but may be in `project`. Touches no
        disk."""
        from platformdirs import user_cache_path

        from memory_server.storage.entries.markdown_folder import MarkdownFolder

        given = self._parameters
        return MarkdownFolder(
            folder,
            locks=user_cache_path("memory-server", appauthor=False) / "locks",
            project=project,
            zone=zone,
            wait_seconds=given.wait_seconds,
            read_only=given.read_only,
            meter=self._meter,
        )

    def passing_entries(self) -> EntryStore:
        """A place of entries that are forgotten when this process ends, and have no history."""
        from memory_server.storage.entries.sqlite_store import SqliteStore

        return SqliteStore(None, self.clock, mirror=True)

    def publish(self, folder: Path, pages: Mapping[str, str]) -> None:
        """Write pages for people into a folder of theirs."""
        from memory_server.storage.entries.pages import write_pages

        write_pages(folder, pages)

    def holding(self, erasure: Erasure, *others: Path) -> list[Path]:
        """The files, here and in `others`, in which something that is erased still stands. Those that a killed process
        left are removed."""
        from memory_server.storage.erased_files import holding

        return [path for place in (self.place, *others) for path in holding(place, erasure.held_in)]

    @property
    def not_ours(self) -> str:
        """What else may have a text that is erased, for people."""
        return ""

    def made(self) -> Path:
        """The folder, which is there after this."""
        folders.make_folder(self.place)
        return self.place

    def size(self) -> int:
        """Bytes of all that is kept."""
        return self.folder_size().size_bytes

    def folder_size(self) -> FolderSize:
        """The files of its folder. One that is removed meanwhile does not count."""
        sizes: list[int] = []
        for folder, _folders, names in os.walk(self.place):
            for name in names:
                with contextlib.suppress(OSError):
                    sizes.append(Path(folder, name).lstat().st_size)
        return FolderSize(len(sizes), sum(sizes))

    def refuse_without_room(self) -> None:
        """Raises OSError: the folder cannot be made, or there is no room for a write."""
        import shutil

        if shutil.disk_usage(self.made()).free < LEAST_FREE_BYTES:
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    @property
    def layers(self) -> Path:
        """The folder of layers that belong to this home alone."""
        return self.place / folders.PRIVATE / "layers"

    def tenant(self, name: str) -> Path:
        """The home of a tenant. Raises InvalidInput: a tenant cannot be called that."""
        return find_folder(self._tenants, named(name, "tenant"))

    def settings_of(self, tenant: str) -> Mapping[str, Any]:
        """The settings with which a tenant's home is opened. Raises InvalidInput: a tenant cannot be called that."""
        return {"data_dir": self.tenant(tenant)}

    def tenants(self) -> list[Mapping[str, Any]]:
        """The settings with which each tenant's home is opened."""
        return [{"data_dir": folder} for folder in subfolders(self._tenants)]

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
                _(
                    "{folder} could not be deleted whole, so the token stays; stop the server and run this again.",
                    folder,
                ),
                folder,
            )

    def tenant_names(self) -> list[str]:
        """The names of the tenants, as far as their folders tell them."""
        return [folder.name.partition("~")[0] for folder in subfolders(self._tenants)]

    @property
    def _tenants(self) -> Path:
        return self.place / folders.PRIVATE / "tenants"

    def examine(self) -> list[Finding]:
        from memory_server.storage.json_store.examination import examine_folder

        now_ms = self.clock()
        return list(examine_folder(self.place, now_ms, self.pause.read(now_ms), self.ledger.last_run_ms()))

    def examinations(self) -> list[Callable[[], list[Finding]]]:
        """A call for each conversation, which gives the findings about it."""
        from memory_server.storage.json_store.examination import examine_conversation

        try:
            there = subfolders(self.place)
        except PermissionError:
            return []  # `examine` reports it
        return [partial(examine_conversation, self.place, folder, self.clock()) for folder in there]

    def repairs(self, wanted: str | None = None, *, dry_run: bool = False) -> list[Callable[[], RepairPlan | None]]:
        """A call for each conversation, which mends it, or with `dry_run` says what it would mend; None if nothing is
        broken, or if another conversation is `wanted`. A call raises `StorageError` if it mended nothing."""
        from memory_server.storage.json_store.repair import repair

        return [
            partial(repair, folder, self.clock(), wanted=wanted, dry_run=dry_run) for folder in subfolders(self.place)
        ]


# --- notes about the whole folder ---------------------------------------------------------------------------
