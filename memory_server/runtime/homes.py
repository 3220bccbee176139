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
from urllib.parse import urlsplit

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.meter import Meter
from memory_server.kernel.values import frozen
from memory_server.storage.conflict_copies import copies_text
from memory_server.storage.data_dir import Home, tokens_at
from memory_server.storage.link_files import HOOK_PATH, TURN_PATH, Outbox, RefusedTurn, token_in
from memory_server.storage.options import StoreParameters
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
    from memory_server.storage.options import PostgresSettings, StoreParameters

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


@frozen
class ThisMachine:
    """The machine of the user. `on_several_machines`: whether others keep memories in the same home. `documents`: the
    folder of pages of notes that the settings name."""

    on_several_machines: bool
    documents: Path | None = None

    def folder_of_work(self, folder: Path) -> str | None:
        return folder_of_work(folder)

    def project_key(self, folder: Path) -> str:
        """Return the key of the project in a folder, or "" if it is in none."""
        project = project_at(folder, on_several_machines=self.on_several_machines)
        if project is None:
            return ""
        return project.key

    def pages_of_notes(self) -> list[Path]:
        """Return the pages of notes that this program wrote: in the folder of the settings, below
        the working directory, and below the checkout and the repository of it."""
        from memory_server.knowledge.notes.pages import FOLDER
        from memory_server.storage.entries.markdown_folder import pages_in

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
    """Write pages of notes into a folder, and return their paths. Raise InvalidInput if a file there is a person's and
    `force` is not set."""
    from memory_server.storage.entries import markdown_folder

    return markdown_folder.write_pages(folder, texts, force=force)


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
    """Return the home at `url`: `file:///…`, or the path of a folder, which need not exist yet; or `postgresql://…`,
    where `#NAME` at the end names a tenant, with the files of this machine in `folder`. It shares what it can with a
    home `beside` it, which is closed after it. Touches no disk and no network. Raises InvalidInput if memories cannot
    be kept at such a URL."""
    # Without what follows the scheme, which may hold a password.
    refusal = InvalidInput(
        "Memories cannot be kept at `{url}`; give a folder, or a URL that begins with file:/// or postgresql://.",
        f"{str(url).partition('://')[0]}://",
    )
    try:
        parts = urlsplit(str(url))
    except ValueError:  # such as a bracket in a password
        raise refusal from None

    if parts.scheme in ("postgresql", "postgres"):
        try:
            from memory_server.storage.postgres.home import open_database
        except ImportError as error:
            raise InvalidInput(
                "Memories in PostgreSQL need psycopg; in the folder of the repository, run `uv tool install "
                "'.[postgres]'`."
            ) from error
        local_folder = (folder or Path()).expanduser().absolute()
        return open_database(str(url), local_folder, clock, parameters, meter, postgres, beside)

    if parts.scheme == "file":
        from urllib.request import url2pathname

        url = url2pathname(parts.path)
    elif len(parts.scheme) > 1 and f"{parts.scheme}:/" in str(url):
        # A single letter before the colon is a drive of Windows.
        raise refusal

    return Home(Path(url).expanduser().absolute(), clock, parameters=parameters, meter=meter)
