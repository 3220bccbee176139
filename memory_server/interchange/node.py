"""The Node original's folder: `{conversation}/short-term-memory.json` and `long-term-memory.json`, both JSON arrays.

It takes only ids of `[A-Za-z0-9_-]{1,64}`, and the name of a folder is the id. For any other id the folder has a name
of that kind with a hash, and a note of the real id, which that program does not read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from memory_server.core.contents import Contents
from memory_server.interchange.incoming import Incoming, NotThisFormat, array, numbered
from memory_server.storage.json_store import codec
from memory_server.storage.partition.folders import PRIVATE, folder_name

SHORT_TERM, LONG_TERM = "short-term-memory.json", "long-term-memory.json"
FACTS = f"{PRIVATE}/conversation.json"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STEM_CHARS = 40


def write(conversations: Iterable[Contents]) -> dict[str, bytes]:
    """Files by their path in the folder."""
    files: dict[str, bytes] = {}
    taken: set[str] = set()
    for contents in conversations:
        folder = _plain(contents.conversation_id)
        if folder is None or folder.lower() in taken:
            folder = _hashed(contents.conversation_id)
        taken.add(folder.lower())
        files[f"{folder}/{SHORT_TERM}"] = codec.dump_array(map(codec.short_term_json, contents.short_term))
        files[f"{folder}/{LONG_TERM}"] = codec.dump_array(map(codec.long_term_json, contents.long_term))
        facts = {"format": 1, "id": contents.conversation_id, "lastCleanup": contents.last_cleanup_ms}
        files[f"{folder}/{FACTS}"] = codec.dumps(facts) + b"\n"
    return files


def read(files: Mapping[str, bytes], usual: str = "default") -> Incoming:
    """The memories of such a folder: files by their path in it; those of the folder itself are for `usual`. Raises
    NotThisFormat if it holds none."""
    found = Incoming()
    folders = {str(PurePosixPath(path).parent) for path in files if path.endswith((SHORT_TERM, LONG_TERM))}
    if not folders:
        raise NotThisFormat(f"holds no folder with {SHORT_TERM}; give the data folder of the Node original.")
    for folder in sorted(folders):
        facts = _facts(files.get(f"{folder}/{FACTS}"))
        rows = {name: _rows(found, files, folder, name) for name in (SHORT_TERM, LONG_TERM)}
        here = usual if folder == "." else PurePosixPath(folder).name
        name = found.conversation_of(facts.get("id"), here, f"the folder {folder}")
        if name is None:
            continue
        if "id" not in facts:
            name = _named_by_records(rows[SHORT_TERM], here)
        found.add(name, rows[SHORT_TERM], rows[LONG_TERM], facts.get("lastCleanup"))
    return found


def read_short_term(data: bytes, usual: str) -> Incoming:
    """The memories of one `short-term-memory.json` alone, by the conversation that each names."""
    found = Incoming()
    found.conversations = [*found.by_chat(numbered(array(data), "memory"), "conversation_id", usual).values()]
    return found


def _plain(conversation_id: str) -> str | None:
    """The id as a folder of the Node original; None if that program or Windows does not take such a name."""
    small = conversation_id.lower()
    return conversation_id if _ID.fullmatch(conversation_id) and folder_name(small) == small else None


def _hashed(conversation_id: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9_-]", "_", conversation_id)[:_STEM_CHARS]
    return f"{stem}-{hashlib.sha256(conversation_id.encode()).hexdigest()[:16]}"


def _rows(found: Incoming, files: Mapping[str, bytes], folder: str, name: str) -> list[tuple[str, Any]]:
    path = name if folder == "." else f"{folder}/{name}"
    try:
        return numbered(array(files[path]), f"{path}, memory") if path in files else []
    except NotThisFormat as error:
        found.skipped.append((path, f"it {error}"))
        return []


def _facts(data: bytes | None) -> Mapping[str, Any]:
    try:
        return codec.load_object(data or b"{}")
    except codec.NotARecord:
        return {}


def _named_by_records(rows: list[tuple[str, Any]], usual: str) -> str:
    """The id that the records name, if this is the folder of that id; otherwise the name of the folder."""
    names = (row.get("conversation_id") for _, row in rows if isinstance(row, dict))
    return next(
        (name for name in names if isinstance(name, str) and usual in (folder_name(name), _hashed(name))), usual
    )
