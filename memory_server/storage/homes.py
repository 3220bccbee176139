"""The home of memories that a URL names. Only `storage/` knows that it is a folder of this machine (data_dir.py), or a
database (postgres/home.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.meter import Meter
from memory_server.storage.data_dir import Home
from memory_server.storage.options import StoreParameters

if TYPE_CHECKING:
    from memory_server.storage.options import PostgresSettings


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
