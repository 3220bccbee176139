"""Folders with `short-term-memory.json` and `long-term-memory.json`, both JSON arrays, and either file alone.

The Node original has a folder for each conversation. It takes only ids of `[A-Za-z0-9_-]{1,64}`, and the name of a
folder is the id. For any other id the folder has a name of that kind with a hash, and a note of the real id, which that
program does not read.

GentianAphrodite has one folder: a list of the short-term memories of all chats, which is split by `chat_name`, because
here each conversation has memories of its own, and one of long-term memories. Their triggers are kept as they are;
checking them tells what does not work here. Facts of its prompt/memory/long-term-memory.mjs: a JSON array of {trigger,
prompt, name}, in later versions with times and contexts; a trigger is async code that sees args, logical_results,
prompt_struct, detail_level and both match functions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from memory_server.conversations import codec
from memory_server.conversations.contents import Contents
from memory_server.conversations.model import LongTermMemory
from memory_server.interchange.incoming import Incoming, NotThisFormat, array, fields_of, numbered
from memory_server.kernel import json_text
from memory_server.kernel.files import PRIVATE
from memory_server.kernel.folder_names import folder_name
from memory_server.kernel.json_text import Json
from sandbox.locale import _

SHORT_TERM, LONG_TERM = "short-term-memory.json", "long-term-memory.json"
FACTS = f"{PRIVATE}/conversation.json"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STEM_CHARS = 40
_MONTH = re.compile(r"getMonth\(\)\s*={2,3}\s*(\d{1,2})\b")
_OTHER_NAMES = {"prompt_name": "name", "prompt_content": "prompt"}
"""The names of the fields in older versions."""


def write_node(conversations: Iterable[Contents]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    taken: set[str] = set()
    for contents in conversations:
        folder = _plain(contents.conversation_id)
        if folder is None or folder.lower() in taken:
            folder = _hashed(contents.conversation_id)
        taken.add(folder.lower())
        files[f"{folder}/{SHORT_TERM}"] = json_text.dump_array(map(codec.short_term_json, contents.short_term))
        files[f"{folder}/{LONG_TERM}"] = json_text.dump_array(map(codec.long_term_json, contents.long_term))
        facts = {"format": 1, "id": contents.conversation_id, "lastCleanup": contents.last_cleanup_ms}
        files[f"{folder}/{FACTS}"] = json_text.dumps(facts) + b"\n"
    return files


def read_node(files: Mapping[str, bytes], usual: str = "default") -> Incoming:
    """The memories of such a folder: files by their path in it; those of the folder itself are for `usual`. Raises
    NotThisFormat if it holds none."""
    found = Incoming()
    folders = {str(PurePosixPath(path).parent) for path in files if path.endswith((SHORT_TERM, LONG_TERM))}
    if not folders:
        raise NotThisFormat("holds no folder with {short_term}; give the data folder of the Node original.", SHORT_TERM)
    for folder in sorted(folders):
        facts = fields_of(files.get(f"{folder}/{FACTS}"))
        rows = {name: _rows(found, files, folder, name) for name in (SHORT_TERM, LONG_TERM)}
        here = usual if folder == "." else PurePosixPath(folder).name
        name = found.conversation_of(facts.get("id"), here, _("the folder {folder}", folder))
        if name is None:
            continue
        if "id" not in facts:
            name = _named_by_records(rows[SHORT_TERM], here)
        found.add(name, rows[SHORT_TERM], rows[LONG_TERM], facts.get("lastCleanup"))
    return found


def read_node_list(data: bytes, usual: str) -> Incoming:
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
        found.skipped.append((path, _("it {reason}", error)))
        return []


def _named_by_records(rows: list[tuple[str, Any]], usual: str) -> str:
    """The id that the records name, if this is the folder of that id; otherwise the name of the folder."""
    names = (row.get("conversation_id") for _, row in rows if isinstance(row, dict))
    return next(
        (name for name in names if isinstance(name, str) and usual in (folder_name(name), _hashed(name))), usual
    )


# --- GentianAphrodite -----------------------------------------------------------------------------------------


def read_gentian(files: Mapping[str, bytes], usual: str) -> Incoming:
    """The memories of its folder; long-term memories are for `usual`. Raises NotThisFormat."""
    found = Incoming()
    if not {SHORT_TERM, LONG_TERM} & set(files):
        raise NotThisFormat(
            "holds neither {short_term} nor {long_term}; give the character's memory folder.", SHORT_TERM, LONG_TERM
        )
    rows = numbered(array(files[SHORT_TERM]), _("short-term memory")) if SHORT_TERM in files else []
    held = found.by_chat(rows, "chat_name", usual)
    if LONG_TERM in files:
        known = held.get(usual, Contents(usual))
        held[usual] = Contents(usual, known.short_term, _long_terms(found, array(files[LONG_TERM])))
    found.conversations = list(held.values())
    return found


def read_gentian_list(data: bytes, usual: str) -> Incoming:
    """The same for one of its two files alone."""
    return read_gentian({SHORT_TERM if b'"chat_name"' in data else LONG_TERM: data}, usual)


def _long_terms(found: Incoming, rows: list[Any]) -> tuple[LongTermMemory, ...]:
    if rows and not any(isinstance(row, dict) for row in rows):
        raise NotThisFormat("holds no memories; give the character's memory/long-term-memory.json.")
    good: dict[str, Json] = {}
    for place, row in numbered(rows, "memory"):
        if not isinstance(row, dict):
            found.skipped.append((place, _("it is not an object with name, prompt and trigger")))
            continue
        record = {key: value for key, value in row.items() if key not in _OTHER_NAMES}
        record |= {new: row[old] for old, new in _OTHER_NAMES.items() if row.get(old) and not row.get(new)}
        name = record["name"] = str(record.get("name") or place).strip()
        missing = [
            key for key in ("trigger", "prompt") if not (isinstance(record.get(key), str) and record[key].strip())
        ]
        if missing or name in good:
            why = _("it has no {missing}", missing[0]) if missing else _("another memory before it has the same name")
            found.skipped.append((name if missing else f"{name} ({place})", why))
            continue
        doubts = list(_doubts(record["trigger"], record["prompt"]))
        found.doubts += [_("{about}: {what}", name, line) for line in doubts]
        context = record.get("createdContext")
        record["createdContext"] = context if context and isinstance(context, str) else f"{LONG_TERM}, {place}"
        good[name] = record | ({"notes": doubts} if doubts else {})
    return found.long_terms(good.items())


def _doubts(trigger: str, prompt: str) -> Iterator[str]:
    for month in dict.fromkeys(map(int, _MONTH.findall(trigger))):
        if re.search(rf"(?<!\d)0?{month}\s*月", prompt) and not re.search(rf"(?<!\d)0?{month + 1}\s*月", prompt):
            yield _(
                "getMonth() === {month}: months count from 0, this is {month2}月, but the prompt says {month}月",
                month,
                month + 1,
            )
