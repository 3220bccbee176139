"""Reading and writing an author's files. Every error is one sentence that says what to do (UsageError)."""

from __future__ import annotations

import os
import sys
import zoneinfo
from collections.abc import Sequence
from datetime import tzinfo
from pathlib import Path

from sandbox.chats import chat
from sandbox.chats.encoding import EncodingError, decode
from sandbox.workbench.terminal import Terminal
from sandbox.workbench.usage import UsageError

__all__ = ["UsageError", "read_chat", "read_text", "write_files", "zone_of"]


def read_text(name: str | Path, encoding: str | None = None) -> str:
    """A whole text file; `-` is standard input. Line ends become `\\n`. Raises UsageError."""
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return decode(content, encoding).replace("\r\n", "\n")
    except EncodingError as error:
        raise UsageError(f"{name} {error}") from error
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{name!r} cannot be a file name; give another") from error


def read_chat(
    name: str,
    encoding: str | None = None,
    zone: tzinfo | None = None,
    people: chat.People = chat.People(),  # noqa: B008 - frozen
) -> list[chat.Message]:
    """The messages of a chat file in any form of chat.py; `FILE#2` or `FILE#title` names one of several conversations.

    `zone`: of local times in it, None the system's. Standard error shows which roles were assumed for the speakers.
    Raises UsageError.
    """
    path, mark, which = name.rpartition("#")
    if not mark or name == "-" or Path(name).exists():
        path, which = name, ""
    try:
        messages, assumed = chat.parse_assuming(read_text(path, encoding), zone, which or None, people)
    except chat.ChatError as error:
        raise UsageError(f"{path}: {error}") from error
    if assumed:
        Terminal(sys.stderr).say(f"{path}: {assumed}", "yellow")
    return messages


def zone_of(name: str | None) -> tzinfo | None:
    """The IANA time zone of that name, None for the system's. Raises UsageError."""
    if name is None:
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"no time zone {name!r}; give an IANA name such as Asia/Shanghai") from error


def write_files(files: Sequence[tuple[Path, str | bytes]], *, force: bool) -> None:
    """Writes all or none; a file that exists is replaced only with `force`. Texts become UTF-8. Raises UsageError.

    Each is written to a temporary file and renamed, so a full disk leaves the old file whole. A file keeps its
    permissions, and a link stays a link.
    """
    if not force and (taken := [path for path, _ in files if path.exists()]):
        raise UsageError(f"{taken[0]} exists already; add --force to replace it, or choose another name")
    aside: list[tuple[Path, Path]] = []
    try:
        for number, (given, content) in enumerate(files):
            path = given.resolve() if given.is_symlink() else given
            if not path.parent.is_dir():
                raise UsageError(f"the folder {path.parent} does not exist; make it first")
            temporary = path.with_name(f".{path.name[:40]}.{os.getpid()}-{number}.tmp")
            with temporary.open("xb") as out:
                aside.append((temporary, path))
                if path.exists():
                    temporary.chmod(path.stat().st_mode & 0o7777)
                out.write(content.encode() if isinstance(content, str) else content)
        for temporary, path in aside:
            temporary.replace(path)
    except OSError as error:
        raise UsageError(f"{error.filename or files[0][0]} cannot be written: {error.strerror}") from error
    finally:
        for temporary, _ in aside:
            temporary.unlink(missing_ok=True)
