"""The format of a file or folder of memories, by its content and never by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from memory_server.interchange.incoming import NotThisFormat
from memory_server.storage.backups.record_lines import FORMAT as NATIVE
from memory_server.storage.json_store import codec

Format = Literal["native", "node", "gentian", "pack", "worldinfo", "official"]
FORMATS: tuple[Format, ...] = get_args(Format)
_MAGIC = {
    b"\x1f\x8b": "is compressed; if it is a backup, put it into the folder of the backups and use `restore`.",
    b"PK\x03\x04": "is a zip archive; unpack it and give what is inside.",
    b"\x89PNG": "is a picture; export the character or its lorebook as JSON.",
    b"SQLite format 3": "is a database; export it as JSON first.",
}


def format_of(data: bytes) -> Format:
    """The format of a file. Raises NotThisFormat with what to do if it is not known."""
    for start, advice in _MAGIC.items():
        if data.startswith(start):
            raise NotThisFormat(advice)
    if not data.strip():
        raise NotThisFormat("is empty.")
    try:
        value: Any = codec.loads(data)
    except ValueError:
        value = None
    if value is None:
        value = _first_line(data)
    match value:
        case {"format": str(name)} if name == NATIVE:
            return "native"
        case {"type": "entity" | "relation"}:
            return "official"
        case {"entries": _} | {"spec": _} | {"character_book": _}:
            return "worldinfo"
        case [dict() as first, *_]:
            return _format_of_record(first)
        case []:
            return "node"
    raise NotThisFormat(f"has an unknown form; name one with --format: {', '.join(FORMATS)}.")


def format_of_folder(files: Mapping[str, bytes]) -> Format:
    """The same for a folder: that of GentianAphrodite, or of the Node original."""
    alone = files.get("short-term-memory.json") or files.get("long-term-memory.json")
    if alone is None:
        return "node"
    return "gentian" if format_of(alone) in ("gentian", "pack") else "node"


def _format_of_record(first: Mapping[str, Any]) -> Format:
    if "chat_name" in first or "prompt_content" in first or "prompt_name" in first:
        return "gentian"
    if "trigger" in first:
        return "pack"
    if "text" in first:
        return "node"
    raise NotThisFormat(f"is a list of something else; name its form with --format: {', '.join(FORMATS)}.")


def _first_line(data: bytes) -> Any:
    line = next((line for line in data.splitlines() if line.strip()), b"")
    try:
        return codec.loads(line)
    except ValueError:
        return None
