"""GentianAphrodite's memory folder: a list of the short-term memories of all chats, and one of long-term memories.

The short-term list is split by `chat_name`, because here each conversation has memories of its own. The triggers of
long-term memories are kept as they are; checking them tells what does not work here. Facts of its
prompt/memory/long-term-memory.mjs: a JSON array of {trigger, prompt, name}, in later versions with times and contexts;
a trigger is async code that sees args, logical_results, prompt_struct, detail_level and both match functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memory_server.core.contents import Contents
from memory_server.core.model import LongTermMemory
from memory_server.interchange.incoming import Incoming, NotThisFormat, array, numbered
from memory_server.storage.json_store import codec

SHORT_TERM, LONG_TERM = "short-term-memory.json", "long-term-memory.json"
CHAT = "chat_name"
_MONTH = re.compile(r"getMonth\(\)\s*={2,3}\s*(\d{1,2})\b")
_OTHER_NAMES = {"prompt_name": "name", "prompt_content": "prompt"}
"""The names of the fields in older versions."""


def read(files: Mapping[str, bytes], usual: str) -> Incoming:
    """The memories of its folder; long-term memories are for `usual`. Raises NotThisFormat."""
    found = Incoming()
    if not {SHORT_TERM, LONG_TERM} & set(files):
        raise NotThisFormat(f"holds neither {SHORT_TERM} nor {LONG_TERM}; give the character's memory folder.")
    rows = numbered(array(files[SHORT_TERM]), "short-term memory") if SHORT_TERM in files else []
    held = found.by_chat(rows, CHAT, usual)
    if LONG_TERM in files:
        known = held.get(usual, Contents(usual))
        held[usual] = Contents(usual, known.short_term, _long_terms(found, array(files[LONG_TERM])))
    found.conversations = list(held.values())
    return found


def read_list(data: bytes, usual: str) -> Incoming:
    """The same for one of its two files alone."""
    return read({SHORT_TERM if b'"chat_name"' in data else LONG_TERM: data}, usual)


def _long_terms(found: Incoming, rows: list[Any]) -> tuple[LongTermMemory, ...]:
    if rows and not any(isinstance(row, dict) for row in rows):
        raise NotThisFormat("holds no memories; give the character's memory/long-term-memory.json.")
    good: dict[str, codec.Json] = {}
    for place, row in numbered(rows, "memory"):
        if not isinstance(row, dict):
            found.skipped.append((place, "it is not an object with name, prompt and trigger"))
            continue
        record = {key: value for key, value in row.items() if key not in _OTHER_NAMES}
        record |= {new: row[old] for old, new in _OTHER_NAMES.items() if row.get(old) and not row.get(new)}
        name = record["name"] = str(record.get("name") or place).strip()
        missing = [
            key for key in ("trigger", "prompt") if not (isinstance(record.get(key), str) and record[key].strip())
        ]
        if missing or name in good:
            why = f"it has no {missing[0]}" if missing else "another memory before it has the same name"
            found.skipped.append((name if missing else f"{name} ({place})", why))
            continue
        doubts = list(_doubts(record["trigger"], record["prompt"]))
        found.notes += [f"{name}: {line}" for line in doubts]
        context = record.get("createdContext")
        record["createdContext"] = context if context and isinstance(context, str) else f"{LONG_TERM}, {place}"
        good[name] = record | ({"notes": doubts} if doubts else {})
    return found.long_terms(good.items())


def _doubts(trigger: str, prompt: str) -> Iterator[str]:
    for month in dict.fromkeys(map(int, _MONTH.findall(trigger))):
        if re.search(rf"(?<!\d)0?{month}\s*月", prompt) and not re.search(rf"(?<!\d)0?{month + 1}\s*月", prompt):
            yield f"getMonth() === {month}: months count from 0, this is {month + 1}月, but the prompt says {month}月"
