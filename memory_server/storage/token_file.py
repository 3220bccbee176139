"""The file of tokens: who may enter over HTTP, as which tenant, and what the holder may do.

One JSON object a line. The file has no token, but its SHA-256: that suffices for 256 random bits.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from errno import EDQUOT, ENOSPC
from hashlib import sha256
from pathlib import Path
from typing import Any

from languages import _
from memory_server.conversations.model import conversation_id_of
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.times import zone_named
from memory_server.kernel.values import frozen

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""The longest time between two looks for changes of the file: so a token that is removed counts for a second at
most."""
PREFIX = "mst_"
MOST_DAYS = 1_000_000
"""The most days that a token can last: a date must have a year of four digits."""
WAIT_SECONDS = 5.0
"""The timeout for another process that changes the file."""
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


@frozen
class StoredToken:
    """A line of the file. `tenant` is None for the data folder itself. Times are ISO times; `expires` is None if the
    token always counts. `timezone`: where its holder lives, or None for the time zone of the tenant."""

    name: str
    tenant: str | None
    sha256: str
    scopes: tuple[str, ...]
    created: str
    expires: str | None
    timezone: str | None = None

    @property
    def expired(self) -> bool:
        return self.expires is not None and datetime.fromisoformat(self.expires) <= datetime.now(
            UTC
        )


@frozen
class _Line:
    """A line of the file as it is, and its token, or None if the line is not usable."""

    data: bytes
    token: StoredToken | None = None

    def has_name(self, name: str) -> bool:
        """Tell whether its token has this name."""
        return self.token is not None and self.token.name == name


class TokenFile:
    """The tokens in the file at `path`, which need not be there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tokens_by_hash: dict[str, StoredToken] = {}
        self._seen: object = None
        self._looked = float("-inf")

    def find(self, token: str) -> StoredToken | None:
        """Return the line of a token that counts now, or None. With a file that cannot be read no token is valid,
        which the log says once."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._refresh()
        stored = self._tokens_by_hash.get(sha256(token.encode()).hexdigest())
        if stored is None or stored.expired:
            return None
        return stored

    def _refresh(self) -> None:
        """Read the tokens again where the file, or who may write it, has changed."""
        seen = self._state()
        if seen == self._seen:
            return
        self._seen = seen
        self._tokens_by_hash = {}
        try:
            self._tokens_by_hash = {token.sha256: token for token in self.tokens()}
        except InvalidInput as error:
            log.error("nobody can enter: %s", error)

    def _state(self) -> object:
        """Return a value that changes with the file and with who may write it."""
        try:
            file = self.path.stat()
            folder = self.path.parent.stat()
        except OSError:
            return "missing"
        rights = (file.st_mode, file.st_uid, folder.st_mode, folder.st_uid)
        return (file.st_mtime_ns, file.st_size, file.st_ino, *rights)

    def tokens(self) -> list[StoredToken]:
        """Return all tokens, in the order in which they were added. A line that is not usable is logged and ignored.
        Raises InvalidInput: the file cannot be read, or others may write or replace it."""
        return [line.token for line in self._lines() if line.token is not None]

    def _refuse_of_others(self) -> None:
        trouble = self._of_others()
        if trouble is not None:
            raise InvalidInput(trouble)

    def _of_others(self) -> str | None:
        """Say how others can give themselves tokens, and what to do. Return None if they cannot, or if Windows keeps
        no such rights."""
        if os.name == "nt":
            return None

        own = {os.geteuid(), 0}
        if self.path.exists():
            file = self.path.stat()
            if file.st_mode & _WRITABLE:
                return _("Others may write {path}; run `chmod 600` on it.", self.path)
            # A link and the file it leads to can have different owners.
            if not {file.st_uid, self.path.lstat().st_uid} <= own:
                return _(
                    "{path} belongs to another user; run `chown` on it, or choose another file.",
                    self.path,
                )

        # Whoever may write to the folder can replace the file, unless the folder is sticky as /tmp is.
        folder = self.path.parent.stat()
        others_may_replace = folder.st_mode & _WRITABLE and not folder.st_mode & stat.S_ISVTX
        if folder.st_uid not in own or others_may_replace:
            return _(
                "Others may replace {path}; run `chmod go-w` on its folder, which must be yours or root's.",
                self.path,
            )

        return None

    def _lines(self) -> list[_Line]:
        """Read all lines as they are, each with its token."""
        with folders.reading(self.path):
            self._refuse_of_others()
            lines = folders.read_file(self.path).splitlines(keepends=True)
        return [self._line(number, data) for number, data in enumerate(lines, 1)]

    def _line(self, number: int, data: bytes) -> _Line:
        """Return a line with its token. One that is not a token has none, and is logged unless it is empty."""
        if not data.strip():
            return _Line(data)
        try:
            return _Line(data, _token(json.loads(data)))
        except (ValueError, TypeError, KeyError, RecursionError, InvalidInput):
            log.error("line %d of %s is not a token", number, self.path)
            return _Line(data)

    def add(
        self,
        name: str,
        tenant: str | None,
        scopes: Sequence[str],
        days: float | None,
        *,
        timezone: str | None = None,
    ) -> str:
        """Add a token, which counts for `days` (None: until it is removed), and return it: it is stored nowhere.
        Raises InvalidInput: the name is taken or not usable, the token would never count or have no date, the time
        zone is unknown, or others may replace the file."""
        name = conversation_id_of(name, "name")
        if days is not None and not 0 < days <= MOST_DAYS:  # NaN is not between them either
            raise InvalidInput(
                "A token cannot last {days:g} days; give more than 0 and at most {days2:,}.",
                days,
                MOST_DAYS,
            )

        now = datetime.now(UTC).replace(microsecond=0)
        token = PREFIX + secrets.token_urlsafe(32)
        if timezone is not None:
            zone_named(timezone)

        stored = StoredToken(
            name,
            tenant=None if tenant is None else conversation_id_of(tenant, "tenant"),
            sha256=sha256(token.encode()).hexdigest(),
            scopes=tuple(scopes),
            created=now.isoformat(),
            expires=None if days is None else (now + timedelta(days=days)).isoformat(),
            timezone=timezone,
        )
        # Two commands at the same time must not both find the name free.
        with self._locked():
            self._refuse_of_others()
            if self.path.exists() and any(token.name == name for token in self.tokens()):
                raise InvalidInput(
                    "There is a token `{name}`; remove it first, or give another name.", name
                )
            folders.append_durably(
                self.path, json.dumps(asdict(stored), ensure_ascii=False).encode() + b"\n"
            )

        return token

    def remove(self, name: str) -> None:
        """Remove a token; lines that are not usable stay. Raises InvalidInput: no token has this name."""
        self.tokens()  # where it cannot be read, no folder is made
        with self._locked():
            lines = self._lines()
            remaining = [line.data for line in lines if not line.has_name(name)]
            if len(remaining) == len(lines):
                raise InvalidInput(
                    "There is no token `{name}`; `memory-server tokens list` shows them.", name
                )

            try:
                folders.replace_file(self.path, b"".join(remaining))
            except OSError as error:
                if error.errno not in (ENOSPC, EDQUOT):
                    raise
                # On a full disk blanks over the line need no room.
                blanked = [
                    b"\n".rjust(len(line.data)) if line.has_name(name) else line.data
                    for line in lines
                ]
                folders.overwrite_durably(self.path, b"".join(blanked))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the file against other processes for the block; make its folder. Raises LockTimeout: another process
        holds it for too long; StorageUnwritable."""
        with folders.unwritable(self.path):
            folders.make_folder(self.path.parent)
            lock_path = self.path.with_name(f"{self.path.name}.lock")
            lock = folders.lock_within(lock_path, WAIT_SECONDS, self.path)
            try:
                yield
            finally:
                lock.release()


def _token(values: Any) -> StoredToken:
    """Return a token from the fields of its record, also one that has expired. Raises ValueError,
    TypeError, KeyError or InvalidInput if a field is missing or not usable."""
    timezone = values.get("timezone")
    types = ((values["name"], str), (values["scopes"], list), (timezone, str | None))
    if not all(isinstance(value, kind) for value, kind in types):
        raise TypeError("a field of a token has another type")

    names = [field.name for field in fields(StoredToken) if field.name != "timezone"]
    token = StoredToken(**{name: values[name] for name in names})
    if token.tenant is not None:
        conversation_id_of(token.tenant)
    _ = token.expired  # a date that cannot be read
    if timezone is not None:
        zone_named(timezone)
    return replace(
        token, sha256=str(token.sha256), scopes=tuple(map(str, token.scopes)), timezone=timezone
    )
