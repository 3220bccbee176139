"""What the rooms above the stores may know of them: homes, their small files, and the folders of this machine.

Rooms above reach `storage` through this module alone. A hook imports it, so what it does not
need is imported where it is used.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_server.kernel.values import dataclass
from memory_server.storage.conflict_copies import copies_text
from memory_server.storage.data_dir import Home, tokens_at
from memory_server.storage.homes import open_home
from memory_server.storage.link_files import HOOK_PATH, TURN_PATH, Outbox, RefusedTurn, token_in
from memory_server.storage.repositories import (
    checkout_at,
    folder_of_work,
    is_foreign,
    project_at,
    shared_key,
)
from memory_server.storage.token_file import StoredToken, TokenFile

if TYPE_CHECKING:
    from memory_server.config import Settings
    from memory_server.kernel.meter import Meter
    from memory_server.storage.entries.foreign_tables import Table
    from memory_server.storage.options import StoreParameters

__all__ = [
    "HOOK_PATH",
    "TURN_PATH",
    "Home",
    "HomesAt",
    "MachineElsewhere",
    "Outbox",
    "RefusedTurn",
    "StoredToken",
    "ThisMachine",
    "TokenFile",
    "checkout_at",
    "copies_text",
    "folder_of_work",
    "home_of",
    "is_foreign",
    "open_home",
    "project_at",
    "shared_key",
    "token_in",
    "tokens_at",
    "write_pages",
]


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """The machine of the user. `on_several_machines`: whether others keep memories in the same home. `documents`: the
    folder of pages of notes that the settings name."""

    on_several_machines: bool
    documents: Path | None = None

    def folder_of_work(self, folder: Path) -> str | None:
        return folder_of_work(folder)

    def project_key(self, folder: Path) -> str:
        project = project_at(folder, on_several_machines=self.on_several_machines)
        if project is None:
            return ""
        return project.key

    def pages_of_notes(self) -> list[Path]:
        from memory_server.knowledge.notes.pages import FOLDER
        from memory_server.storage.entries.pages import pages_in

        tops = {Path().absolute()}
        checkout = checkout_at(Path())
        if checkout is not None:  # a worktree has its own
            tops |= {checkout.top, checkout.repository}
        folders = [top / FOLDER for top in sorted(tops)]
        if self.documents is not None:
            folders.insert(0, self.documents)
        return pages_in(*folders)

    def tables_of(self, path: Path) -> Mapping[str, Table]:
        from memory_server.storage.entries.foreign_tables import tables_of

        return tables_of(path)

    def rows_of(
        self, path: Path, tables: Mapping[str, Collection[str]]
    ) -> Mapping[str, list[Mapping[str, Any]]]:
        from memory_server.storage.entries.foreign_tables import rows_of

        return rows_of(path, tables)


class MachineElsewhere(ThisMachine):
    """The machine of a caller over HTTP, who erases nothing for good. Its folders are only names: a path in what it
    sends could be a path of the server, and an answer that depends on it would say what is there."""

    def folder_of_work(self, folder: Path) -> str:
        return str(folder)

    def project_key(self, folder: Path) -> str:
        return ""


def home_of(
    settings: Settings,
    clock: Callable[[], int],
    *,
    parameters: StoreParameters | None = None,
    meter: Meter | None = None,
    beside: Home | None = None,
) -> Home:
    """Return the home that the settings name. `clock` returns milliseconds since 1970; the other arguments are as for
    `open_home`."""
    folder = settings.folder
    return open_home(
        settings.store or folder,
        clock,
        parameters=parameters,
        meter=meter,
        folder=folder,
        postgres=settings.postgres,
        beside=beside,
    )


class HomesAt:
    """The homes of the store that a URL names, or of the settings' store (None)."""

    def __init__(self, settings: Settings, store: str | None) -> None:
        if store is not None:
            settings = settings.model_copy(update={"store": store})
        self._settings = settings
        self._owner: Home | None = None

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[Home]:
        async with _opened(self._settings) as home:
            self._owner = home
            yield home

    @asynccontextmanager
    async def tenant(self, name: str) -> AsyncIterator[Home]:
        """Open the home of a tenant, while the owner's home is open."""
        assert self._owner is not None
        settings = self._settings.model_copy(update=self._owner.settings_of(name))
        async with _opened(settings, beside=self._owner) as home:
            yield home


@asynccontextmanager
async def _opened(settings: Settings, beside: Home | None = None) -> AsyncIterator[Home]:
    home = home_of(settings, lambda: time.time_ns() // 1_000_000, beside=beside)
    async with aclosing(home), aclosing(home.conversations):
        yield home


def write_pages(folder: Path, texts: Mapping[str, str], *, force: bool) -> Sequence[Path]:
    """Write pages of notes into a folder. Return their paths. Raise InvalidInput."""
    from memory_server.storage.entries import pages

    return pages.write_pages(folder, texts, force=force)
