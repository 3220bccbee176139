"""The link of a data folder, and the turns that wait to be delivered: in `{data_dir}/.memory-server/`.

A turn that waits is a file of its own, whose name is its number: so none is half there, and what is delivered is
removed by itself. One process delivers at a time, in the order of the numbers. `operations/delivery.py` decides what is
sent, dropped or set aside. Whoever adds, sets aside, brings back or erases holds the lock of the file `numbers`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from languages import N_, _
from memory_server.kernel import files as folders
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput, QuotaReached
from memory_server.kernel.json_text import Fields, Json
from memory_server.kernel.link import Link, url_of
from memory_server.kernel.values import frozen
from memory_server.storage.small_files import PrivateFile, locked, turn_at

MOST_TURNS = 10_000
"""The most turns that wait: some weeks of them, and more than a person says in a flight."""
MOST_BYTES = 50_000_000
"""The most bytes of the turns that wait."""
TURN_PATH = "/v1/remember_turn"
HOOK_PATH = "/v1/commands/hook"
"""The paths to which turns are sent: by a command, and by a hook."""
_DIGITS = 12
_TURN_FILES = "[0-9]" * _DIGITS + ".json"
_REASONS = "reasons"
"""The name of the file with the reasons why turns were refused, by the names of their files."""
_REASON = "error"
"""Under this key a reason is a text that may quote people, for whoever searches for words (kernel/erasure.py)."""


class LinkFile(PrivateFile):
    """`link.json`: which server this folder is linked to."""

    name = "link.json"

    def read(self) -> Link | None:
        """Return the link, or None if this machine is not linked. Raises InvalidInput if the file cannot be used; turns
        must not go elsewhere then."""
        try:
            link = json_text.load_object(folders.read_file(self._path))
            return Link(url_of(str(link["url"])), str(link["token_file"]), link.get("ca"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError) as error:
            raise InvalidInput(
                "{path} cannot be used; run `memory-server link` or `memory-server unlink` again.",
                self._path,
            ) from error

    def write(self, link: Link) -> None:
        """Link this folder. Raises StorageUnwritable: it is as it was."""
        self._replace(asdict(link))


def token_in(path: str) -> str:
    """Return the token in a file. Raises InvalidInput if others may read the file, it cannot be
    read, or it does not hold exactly one token."""
    file = Path(path)
    try:
        mode = file.stat().st_mode
        if os.name == "posix" and mode & 0o077:
            raise InvalidInput("Others may read the token in {path}; run `chmod 600 {path}`.", path)
        token = folders.read_file(file).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or _("it is not text")
        raise InvalidInput("The token in {path} cannot be read: {reason}.", path, reason) from error
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise InvalidInput(
            "{path} must hold one token, as `memory-server tokens add` prints it, and no more.",
            path,
        )
    return token


@frozen
class RefusedTurn:
    """A turn that the server refused for good: the file that keeps it, and why."""

    path: Path
    reason: str


class Outbox:
    """The turns that wait, oldest first; `refused` are turns that the server does not take."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / folders.PRIVATE / "outbox"

    def add(self, turn: Fields) -> int:
        """Keep a turn durably, and return its number. Raises QuotaReached if too many turns or
        bytes wait, StorageUnwritable if it could not be written; then it is not kept."""
        data = json_text.dumps(dict(turn)) + b"\n"
        with folders.unwritable(self._folder), self._locked() as file:
            sizes = _sizes_in(self._folder)
            if len(sizes) >= MOST_TURNS or sum(sizes.values()) + len(data) > MOST_BYTES:
                raise QuotaReached(
                    "{turns:,} turns wait for the server, which is the limit, so this one was not stored.",
                    len(sizes),
                )
            last = file.read()
            last_number = int(last) if last.isdigit() else 0  # of bytes, so 0 to 9
            refused = _sizes_in(self.refused_folder)  # they may come back under their numbers
            number = max(last_number, *sizes, *refused, 0) + 1
            folders.replace_file(self.path_of(number), data)
            file.truncate(0)
            file.write(b"%d" % number)
            return number

    def waiting(self) -> list[int]:
        """Return the numbers of the turns that wait, in order."""
        return sorted(_sizes_in(self._folder))

    def read(self, number: int) -> Json | None:
        """Read a turn that waits. Return None if it is delivered, or its file was damaged and set aside. Raises
        OSError: it cannot be read now."""
        turn = _turn_in(self.path_of(number))
        if turn is None and number in _sizes_in(self._folder):
            self.refuse(number, N_("its file does not hold a turn"))
        return turn

    def delivered(self, number: int) -> None:
        folders.remove_file(self.path_of(number))

    def refuse(self, number: int, reason: str) -> Path:
        """Set a turn aside that the server does not take, with the reason, and return its path there. Its file is
        renamed, so at any moment it is either here or there; the reason is only told to people, and need not survive."""
        aside = self.refused_folder / self.path_of(number).name
        folders.make_folder(aside.parent)
        with self._locked():
            with contextlib.suppress(OSError):
                self._keep_reasons(self._reasons() | {aside.name: reason}, {aside.name})
            with contextlib.suppress(FileNotFoundError):
                folders.take_name(self.path_of(number), aside)
        return aside

    def may_retry(self) -> list[int]:
        """Return the numbers of the refused turns that can be sent again, in order. A file without a turn, or that
        cannot be read, is left out."""
        numbers = []
        for number in sorted(_sizes_in(self.refused_folder)):
            with contextlib.suppress(OSError):
                if _turn_in(self.refused_folder / self.path_of(number).name) is not None:
                    numbers.append(number)
        return numbers

    def retry(self, number: int) -> bool:
        """Let a refused turn wait again under its number, and so before turns that were said later. Return False if
        it was removed, or another turn has its number. Raises StorageUnwritable."""
        path = self.path_of(number)
        aside = self.refused_folder / path.name
        with folders.unwritable(self._folder), self._locked():
            if path.exists() or not aside.exists():
                return False
            folders.take_name(aside, path)
            return True

    def erase(self, holds: Callable[[Any], bool]) -> None:
        """Remove each turn, also of those put aside, that `holds` is true of, and with it why it was refused; and each
        reason that `holds` is true of. Raises StorageUnwritable."""
        if not self._folder.is_dir():
            return
        with folders.unwritable(self._folder), self._locked():
            for path in [*self._folder.glob("*.json"), *self.refused_folder.glob("*.json")]:
                if holds(_turn_or_text(folders.read_if_there(path) or b"")):
                    folders.remove_file(path)
            reasons = self._reasons()
            if reasons:
                self._keep_reasons(
                    {name: reason for name, reason in reasons.items() if not holds(reason)}
                )

    def refused(self) -> list[RefusedTurn]:
        """List the turns that were set aside, oldest first; none if they cannot be read."""
        with contextlib.suppress(OSError):
            paths = sorted(self.refused_folder.iterdir())
            reasons = self._reasons()
            return [RefusedTurn(path, reasons.get(path.name, "")) for path in paths]
        return []

    def _reasons(self) -> dict[str, str]:
        """Read why turns were set aside, by the names of their files; empty if that is not known any more."""
        try:
            reasons = json_text.load_object(folders.read_file(self._folder / _REASONS))
        except (OSError, json_text.NotARecord):
            return {}
        return {
            name: str(value.get(_REASON, ""))
            for name, value in reasons.items()
            if isinstance(value, dict)
        }

    def _keep_reasons(self, reasons: Mapping[str, str], coming: Collection[str] = ()) -> None:
        """Keep the reasons of the turns that are set aside, or just `coming` there. Raises OSError."""
        names = {path.name for path in self.refused_folder.glob("*")} | set(coming)
        current = {name: {_REASON: reason} for name, reason in reasons.items() if name in names}
        folders.replace_file(self._folder / _REASONS, json_text.dumps(current) + b"\n")

    def _locked(self) -> contextlib.AbstractContextManager[BinaryIO]:
        return locked(self._folder / "numbers")

    def turn(self) -> contextlib.AbstractContextManager[bool]:
        """Give whether this process may deliver what waits, as `turn_at` does."""
        return turn_at(self._folder / "lock")

    def path_of(self, number: int) -> Path:
        """Return the file of a turn that waits."""
        return self._folder / f"{number:0{_DIGITS}}.json"

    @property
    def refused_folder(self) -> Path:
        """The folder of the turns that were set aside."""
        return self._folder / "refused"


def _turn_or_text(data: bytes) -> Any:
    """Return the turn in these bytes, or their text if they hold no turn."""
    try:
        return json_text.load_object(data)
    except json_text.NotARecord:
        return data.decode(errors="replace")


def _sizes_in(folder: Path) -> dict[int, int]:
    """Return the bytes of the files of turns in a folder, by their numbers. What has another name is no turn."""
    sizes: dict[int, int] = {}
    for path in folder.glob(_TURN_FILES):
        with contextlib.suppress(FileNotFoundError):  # it was just delivered
            sizes[int(path.stem)] = path.stat().st_size
    return sizes


def _turn_in(path: Path) -> Json | None:
    """Read the turn in a file. Return None if it is missing, or holds no turn. Raises OSError: it cannot be read."""
    try:
        turn = dict(json_text.load_object(folders.read_file(path)))
    except (FileNotFoundError, json_text.NotARecord):
        return None
    if not _can_be_sent(turn):
        return None
    return turn


def _can_be_sent(turn: Fields) -> bool:
    """Tell whether it has the form of a turn. Another path could belong to another server, or to a request that this
    token may not make: its refusal would be taken for a refusal of every turn."""
    path = turn.get("path")
    headers = turn.get("headers")
    if path not in (TURN_PATH, HOOK_PATH):
        return False
    if not isinstance(headers, dict) or "body" not in turn:
        return False
    return all(
        isinstance(value, str) and value.isascii() and value.isprintable()
        for value in headers.values()
    )
