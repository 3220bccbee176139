"""Reading and writing an author's files. Every error is one sentence that says what to do (UsageError)."""

from __future__ import annotations

import json
import sys
import zoneinfo
from collections.abc import Mapping
from datetime import tzinfo
from pathlib import Path
from typing import Any

from sandbox.chats import chat
from sandbox.chats.encoding import EncodingError, decode
from sandbox.language import translated
from sandbox.workbench.terminal import Terminal, UsageError


def read_json(name: str | Path, encoding: str | None = None) -> Any:
    """The JSON value of a file. Raises UsageError."""
    try:
        return json.loads(read_text(name, encoding))
    except json.JSONDecodeError as error:
        raise UsageError(f"{name} is not JSON: line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise UsageError(f"{name} is not JSON: it is nested too deeply") from error


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
    roles: Mapping[str, str] | None = None,
) -> list[chat.Message]:
    """The messages of a chat file in any form of chat.py; `FILE#2` or `FILE#title` names one of several conversations.
    `zone`: of local times in it, None the system's. Standard error shows which roles were assumed for the speakers.
    Raises UsageError."""
    path, mark, which = name.rpartition("#")
    if not mark or name == "-" or Path(name).exists():
        path, which = name, ""
    try:
        messages, assumed = chat.parse(read_text(path, encoding), zone, which or None, roles)
    except chat.ChatError as error:
        raise UsageError(f"{path}: {error}") from error
    if assumed:
        Terminal(sys.stderr).show(f"{path}: {translated(assumed)}", "yellow")
    return messages


def zone_of(name: str | None) -> tzinfo | None:
    """The IANA time zone of that name, None for the system's. Raises UsageError."""
    if name is None:
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"no time zone {name!r}; give an IANA name such as Asia/Shanghai") from error


def write_files(files: Mapping[Path, str], *, force: bool) -> None:
    """Writes UTF-8. If a file exists, none is written without `force`. Raises UsageError."""
    if not force and (taken := [path for path in files if path.exists()]):
        raise UsageError(f"{taken[0]} exists already; add --force to replace it, or choose another name")
    for path, text in files.items():
        if not path.parent.is_dir():
            raise UsageError(f"the folder {path.parent} does not exist; make it first")
        try:
            path.write_text(text, "utf-8", newline="\n")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
