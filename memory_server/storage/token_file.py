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
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from errno import EDQUOT, ENOSPC
from hashlib import sha256
from pathlib import Path
from typing import Any

from memory_server.conversations.model import conversation_id_of
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, LockTimeout, StorageUnwritable
from sandbox.locale import _

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Time between two looks for changes of the file, at most: so a token that is removed counts for a second at most."""
PREFIX = "mst_"
MOST_DAYS = 1_000_000
"""A date must have a year of four digits."""
WAIT_SECONDS, _PAUSE_SECONDS = 5.0, 0.02
"""For another process that changes the file."""
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A line of the file. `tenant` None: the data folder itself. Times are ISO times; `expires` None: never."""

    name: str
    tenant: str | None
    sha256: str
    scopes: tuple[str, ...]
    created: str
    expires: str | None

    @property
    def expired(self) -> bool:
        return self.expires is not None and datetime.fromisoformat(self.expires) <= datetime.now(UTC)


class TokenFile:
    """The tokens in the file at `path`, which need not be there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, StoredToken] = {}
        self._seen: object = None
        self._looked = float("-inf")

    def find(self, token: str) -> StoredToken | None:
        """The line of a token that counts now. With a file that cannot be read no token is valid, which the log says
        once."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._look()
        found = self._known.get(sha256(token.encode()).hexdigest())
        return None if found is None or found.expired else found

    def _look(self) -> None:
        try:
            status, folder = self.path.stat(), self.path.parent.stat()
            rights = (status.st_mode, status.st_uid, folder.st_mode, folder.st_uid)
            seen: object = (status.st_mtime_ns, status.st_size, status.st_ino, *rights)
        except OSError:
            seen = "missing"
        if seen != self._seen:
            self._seen, self._known = seen, {}
            try:
                self._known = {token.sha256: token for token in self.tokens()}
            except InvalidInput as error:
                log.error("nobody can enter: %s", error)

    def tokens(self) -> list[StoredToken]:
        """All tokens, in the order in which they were added. A line that is not usable is logged and lets nobody in.
        Raises InvalidInput: the file cannot be read, or others may write or replace it."""
        return [token for _, token in self._lines() if token is not None]

    def _refuse_of_others(self) -> None:
        if (trouble := self._of_others()) is not None:
            raise InvalidInput(trouble)

    def _of_others(self) -> str | None:
        """How others can give themselves tokens, and what to do; None: they cannot, or Windows keeps no such rights."""
        if os.name == "nt":
            return None
        folder, own = self.path.parent.stat(), {os.geteuid(), 0}
        if self.path.exists():
            file = self.path.stat()
            if file.st_mode & _WRITABLE:
                return _("Others may write {path}; run `chmod 600` on it.", self.path)
            if not {file.st_uid, self.path.lstat().st_uid} <= own:
                return _("{path} belongs to another user; run `chown` on it, or choose another file.", self.path)
        if folder.st_uid not in own or (folder.st_mode & _WRITABLE and not folder.st_mode & stat.S_ISVTX):
            return _(
                "Others may replace {path}; run `chmod go-w` on its folder, which must be yours or root's.", self.path
            )
        return None

    def _lines(self) -> list[tuple[bytes, StoredToken | None]]:
        """All lines as they are, each with its token."""
        try:
            self._refuse_of_others()
            lines = folders.read_file(self.path).splitlines(keepends=True)
        except OSError as error:
            raise InvalidInput(
                "The tokens in {path} cannot be read: {reason}.", self.path, error.strerror or error
            ) from error
        found: list[tuple[bytes, StoredToken | None]] = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                found.append((line, None))
                continue
            try:
                found.append((line, _token(json.loads(line))))
            except (ValueError, TypeError, KeyError, RecursionError, InvalidInput):
                found.append((line, None))
                log.error("line %d of %s is not a token", number, self.path)
        return found

    def add(self, name: str, tenant: str | None, scopes: Sequence[str], days: float | None) -> str:
        """Add a token, which counts for `days` (None: until it is removed), and give it: it is stored nowhere. Raises
        InvalidInput: the name is taken or not usable, or the token would never count or have no date, or others may
        replace the file."""
        name = named(name, "name")
        if days is not None and not 0 < days <= MOST_DAYS:  # NaN is not between them either
            raise InvalidInput(
                "A token cannot last {days:g} days; give more than 0 and at most {days2:,}.", days, MOST_DAYS
            )
        now = datetime.now(UTC).replace(microsecond=0)
        expires = None if days is None else (now + timedelta(days=days)).isoformat()
        token = PREFIX + secrets.token_urlsafe(32)
        owner = None if tenant is None else named(tenant, "tenant")
        made = StoredToken(name, owner, sha256(token.encode()).hexdigest(), tuple(scopes), now.isoformat(), expires)
        with self._alone():
            self._refuse_of_others()
            if any(token.name == name for token in (self.tokens() if self.path.exists() else ())):
                raise InvalidInput("There is a token `{name}`; remove it first, or give another name.", name)
            folders.append_durably(self.path, json.dumps(asdict(made), ensure_ascii=False).encode() + b"\n")
        return token

    def remove(self, name: str) -> None:
        """Take a token back; lines that are not usable stay. Raises InvalidInput: there is no such token."""
        self.tokens()  # where it cannot be read, no folder is made
        with self._alone():
            lines = self._lines()
            gone = [token is not None and token.name == name for _, token in lines]
            if not any(gone):
                raise InvalidInput("There is no token `{name}`; `memory-server tokens list` shows them.", name)
            try:
                folders.replace_file(
                    self.path, b"".join(line for (line, _), out in zip(lines, gone, strict=True) if not out)
                )
            except OSError as error:
                if error.errno not in (ENOSPC, EDQUOT):
                    raise
                # On a full disk blanks over the line need no room.
                blanked = (b"\n".rjust(len(line)) if out else line for (line, _), out in zip(lines, gone, strict=True))
                folders.overwrite_durably(self.path, b"".join(blanked))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other process changes the file. Raises LockTimeout: one does, for too long; StorageUnwritable."""
        deadline = time.monotonic() + WAIT_SECONDS
        try:
            folders.make_folder(self.path.parent)
            while (lock := folders.try_lock(self.path.with_name(f"{self.path.name}.lock"))) is None:
                if time.monotonic() > deadline:
                    said = _("Another process holds {place} for too long; nothing was changed, try again.", self.path)
                    raise LockTimeout(said, self.path)
                time.sleep(_PAUSE_SECONDS)
            try:
                yield
            finally:
                lock.release()
        except OSError as error:
            raise StorageUnwritable(f"{self.path}: {folders.advice_on(error)}.", self.path) from error


def named(text: str, what: str) -> str:
    """`text` as the name of a `what`, under the rules for conversations. Raises InvalidInput: it is not usable."""
    return conversation_id_of(text, what)


def _token(given: Any) -> StoredToken:
    token = StoredToken(**{field.name: given[field.name] for field in fields(StoredToken)})
    if token.tenant is not None:
        conversation_id_of(token.tenant)
    _ = token.expired  # a date that cannot be read
    return replace(token, sha256=str(token.sha256), scopes=tuple(map(str, token.scopes)))
