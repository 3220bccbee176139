"""Folders with `short-term-memory.json` and `long-term-memory.json`, both JSON arrays, and either file alone.

The Node original has a folder for each conversation. It takes only ids of `[A-Za-z0-9_-]{1,64}`, and the name of a
folder is the id. For any other id the folder has a name of that kind with a hash, and a note of the real id, which
that program does not read.

GentianAphrodite has one folder: a list of the short-term memories of all chats, which is split by `chat_name`,
because here each conversation has memories of its own, and a list of long-term memories. Their triggers are kept as
they are; checking them tells what does not work here. Facts of its prompt/memory/long-term-memory.mjs: a JSON array
of {trigger, prompt, name}, in later versions with times and contexts; a trigger is async code that sees args,
logical_results, prompt_struct, detail_level and both match functions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import PurePosixPath
from typing import Any

from languages import _
from memory_server.conversations import codec
from memory_server.conversations.contents import Contents
from memory_server.interchange.incoming import (
    Incoming,
    NotThisFormat,
    array,
    fields_of,
    list_of,
    numbered,
    text_of,
)
from memory_server.kernel import json_text
from memory_server.kernel.files import PRIVATE, folder_name
from memory_server.kernel.json_text import Json
from memory_server.lore import LongTermMemory

SHORT_TERM = "short-term-memory.json"
LONG_TERM = "long-term-memory.json"
FACTS = f"{PRIVATE}/conversation.json"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STEM_CHARS = 40
_MONTH = re.compile(r"getMonth\(\)\s*={2,3}\s*(\d{1,2})\b")
_OTHER_NAMES = {"prompt_name": "name", "prompt_content": "prompt"}
"""The names of the fields in older versions."""


def write_node(conversations: Iterable[Contents]) -> dict[str, bytes]:
    """Write the files of such folders by their paths, a folder for each conversation."""
    files: dict[str, bytes] = {}
    used_folders: set[str] = set()
    for contents in conversations:
        folder = _plain(contents.conversation_id)
        # On Windows and macOS two names that differ only in case are the same folder.
        if folder is None or folder.lower() in used_folders:
            folder = _hashed(contents.conversation_id)

        used_folders.add(folder.lower())
        files[f"{folder}/{SHORT_TERM}"] = json_text.dump_array(
            map(codec.short_term_json, contents.short_term)
        )
        files[f"{folder}/{LONG_TERM}"] = json_text.dump_array(
            map(codec.long_term_json, contents.long_term)
        )
        facts = {
            "format": 1,
            "id": contents.conversation_id,
            "lastCleanup": contents.last_cleanup_ms,
        }
        files[f"{folder}/{FACTS}"] = json_text.dumps(facts) + b"\n"

    return files


def read_node(files: Mapping[str, bytes], usual: str = "default") -> Incoming:
    """Read the memories of such a folder. `files`: its files by their path; memories directly in the folder are for
    `usual`. Raises NotThisFormat if it holds none."""
    incoming = Incoming()
    folders = {
        str(PurePosixPath(path).parent) for path in files if path.endswith((SHORT_TERM, LONG_TERM))
    }
    if not folders:
        raise NotThisFormat(
            "holds no folder with {short_term}; import the data folder of the Node original.",
            SHORT_TERM,
        )

    for folder in sorted(folders):
        facts = fields_of(files.get(f"{folder}/{FACTS}"))
        short_rows = _rows(incoming, files, folder, name=SHORT_TERM)
        long_rows = _rows(incoming, files, folder, name=LONG_TERM)
        folder_id = usual if folder == "." else PurePosixPath(folder).name
        conversation_id = incoming.conversation_of(
            facts.get("id"), folder_id, _("the folder {folder}", folder)
        )
        if conversation_id is None:
            continue
        if "id" not in facts:
            conversation_id = _named_by_records(short_rows, folder_id)
        incoming.add(
            conversation_id, short=short_rows, long=long_rows, last_cleanup=facts.get("lastCleanup")
        )

    return incoming


def read_node_list(data: bytes, usual: str) -> Incoming:
    """Read the memories of a `short-term-memory.json` alone, by the conversation that each names; or of a backup of
    the Node original, which has both lists of a conversation. Raises NotThisFormat: it is neither."""
    incoming = Incoming()
    backup = {} if data.lstrip().startswith(b"[") else fields_of(data)
    if is_node_backup(backup):
        name = incoming.conversation_of(backup.get("conversation_id"), usual, "conversation_id")
        if name is not None:
            short = numbered(list_of(backup.get("short_term")), "memory")
            long = numbered(list_of(backup.get("long_term")), "trigger")
            incoming.add(name, short=short, long=long, last_cleanup=None)
        return incoming
    rows = numbered(array(data), "memory")
    by_conversation = incoming.by_chat(rows, "conversation_id", usual)
    incoming.conversations = list(by_conversation.values())
    return incoming


def is_node_backup(value: Any) -> bool:
    """Tell whether this is a backup that the tool `backup_memories` of the Node original wrote, in `data/backups`."""
    return isinstance(value, dict) and {"version", "short_term", "long_term"} <= value.keys()


def _plain(conversation_id: str) -> str | None:
    """Return the id as a folder of the Node original, or None if that program or Windows does not take such a name."""
    lower_case = conversation_id.lower()
    if not _ID.fullmatch(conversation_id) or folder_name(lower_case) != lower_case:
        return None
    return conversation_id


def _hashed(conversation_id: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9_-]", "_", conversation_id)[:_STEM_CHARS]
    return f"{stem}-{hashlib.sha256(conversation_id.encode()).hexdigest()[:16]}"


def _rows(
    incoming: Incoming, files: Mapping[str, bytes], folder: str, *, name: str
) -> list[tuple[str, Any]]:
    """Return the records of the file `name` in a folder, each with its place; empty without such a file."""
    path = name if folder == "." else f"{folder}/{name}"
    if path not in files:
        return []
    rows: list[tuple[str, Any]] = []
    with incoming.record(path):
        rows += numbered(array(files[path]), f"{path}, memory")
    return rows


def _named_by_records(rows: list[tuple[str, Any]], usual: str) -> str:
    """Return the id that the records name, if this is the folder of that id; otherwise the name of the folder."""
    for _place, row in rows:
        name = row.get("conversation_id") if isinstance(row, dict) else None
        if isinstance(name, str) and usual in (folder_name(name), _hashed(name)):
            return name
    return usual


# --- GentianAphrodite -----------------------------------------------------------------------------------------


def read_gentian(files: Mapping[str, bytes], usual: str) -> Incoming:
    """Read the memories of its folder; long-term memories are for `usual`. Raises NotThisFormat."""
    incoming = Incoming()
    if not {SHORT_TERM, LONG_TERM} & set(files):
        raise NotThisFormat(
            "holds neither {short_term} nor {long_term}; import the character's memory folder.",
            SHORT_TERM,
            LONG_TERM,
        )

    by_chat: dict[str, Contents] = {}
    if SHORT_TERM in files:
        with _of_several(incoming, files, SHORT_TERM):
            rows = numbered(array(files[SHORT_TERM]), _("short-term memory"))
            by_chat = incoming.by_chat(rows, "chat_name", usual)

    if LONG_TERM in files:
        # These memories name no chat, so they go to the usual conversation.
        with _of_several(incoming, files, LONG_TERM):
            contents = by_chat.get(usual, Contents(usual))
            long_term = _long_terms(incoming, array(files[LONG_TERM]))
            by_chat[usual] = Contents(usual, contents.short_term, long_term)

    incoming.conversations = list(by_chat.values())
    return incoming


def _of_several(
    incoming: Incoming, files: Mapping[str, bytes], name: str
) -> AbstractContextManager[None]:
    """Return a block that reads a file of the folder. If it is the only file, what is wrong with it refuses all."""
    if len(files) == 1:
        return nullcontext()
    return incoming.record(name)


def read_gentian_list(data: bytes, usual: str) -> Incoming:
    """Read either of its two files alone."""
    name = SHORT_TERM if b'"chat_name"' in data else LONG_TERM
    return read_gentian({name: data}, usual)


def _long_terms(incoming: Incoming, rows: list[Any]) -> tuple[LongTermMemory, ...]:
    """Return the memories of the rows. A row is skipped if it is not an object, has no trigger or
    prompt, or has a name that came before. Raises NotThisFormat if no row is an object."""
    if rows and not any(isinstance(row, dict) for row in rows):
        raise NotThisFormat(
            "holds no memories; import the character's memory/long-term-memory.json."
        )

    records: dict[str, Json] = {}
    for location, row in numbered(rows, "memory"):
        if not isinstance(row, dict):
            incoming.skipped.append(
                (location, _("it is not an object with name, prompt and trigger"))
            )
            continue

        record = _with_new_names(row)
        name = str(record.get("name") or location).strip()
        missing = [key for key in ("trigger", "prompt") if not text_of(record.get(key))]
        if missing:
            incoming.skipped.append((name, _("it has no {missing}", missing[0])))
            continue

        if name in records:
            incoming.skipped.append(
                (f"{name} ({location})", _("another memory before it has the same name"))
            )
            continue

        record["name"] = name
        # Without a context of its own the memory tells at least where it came from.
        context = record.get("createdContext")
        if not context or not isinstance(context, str):
            record["createdContext"] = f"{LONG_TERM}, {location}"

        # Doubts are stored with the memory, so that people who look at it later see them too.
        doubts = list(_doubts(record["trigger"], record["prompt"]))
        if doubts:
            record["notes"] = doubts

        incoming.doubts += [_("{about}: {what}", name, line) for line in doubts]
        records[name] = record

    return incoming.long_terms(records.items())


def _with_new_names(row: Json) -> Json:
    """Return a record with the names that its fields have in newer versions."""
    record = {key: value for key, value in row.items() if key not in _OTHER_NAMES}
    for old_name, new_name in _OTHER_NAMES.items():
        if row.get(old_name) and not row.get(new_name):
            record[new_name] = row[old_name]
    return record


def _doubts(trigger: str, prompt: str) -> Iterator[str]:
    """Yield a doubt about each month in a trigger whose number the prompt names as a month, because the months of
    JavaScript count from 0."""
    months = dict.fromkeys(map(int, _MONTH.findall(trigger)))
    for month in months:
        if _names_month(prompt, month) and not _names_month(prompt, month + 1):
            yield _(
                "getMonth() === {month}: months count from 0, this is {month2}月, but the prompt says {month}月",
                month,
                month + 1,
            )


def _names_month(prompt: str, month: int) -> bool:
    return re.search(rf"(?<!\d)0?{month}\s*月", prompt) is not None
