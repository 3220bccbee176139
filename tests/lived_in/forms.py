"""The forms of the page, filled as a person fills them who looks at what is there."""

from __future__ import annotations

from random import Random
from typing import Any
from urllib.parse import urlencode

from lived_in import texts
from lived_in.house import House

from memory_server.web.actions import ACTIONS

BACKS = ("", "recalls", "memory?id=x", "history?shelf=1", "triggers", "?by=folder")


def form_of_the_page(house: House, rng: Random) -> tuple[str, dict[str, Any]]:
    """The address of a form, and its fields."""
    rooms = house.conversations() or ["default"]
    room = rng.choice(rooms)
    action = rng.choice([*ACTIONS, "trigger", "trigger"])
    query = urlencode({"c": room, "lang": rng.choice(("en", "zh"))})
    if action == "trigger":
        return f"/trigger?{query}", _trigger(house, rng, room)
    fields = _fields(house, rng, action, room)
    return f"/do/{action}?{query}", {"back": rng.choice(BACKS)} | fields


def _fields(house: House, rng: Random, action: str, room: str) -> dict[str, Any]:
    memories = house.memories(room)
    memory: Any = None
    memory_id = "zz"
    if memories:
        memory = rng.choice(memories)
        memory_id = memory.id
    match action:
        case "pin":
            return {"id": memory_id, "pinned": rng.choice(("yes", "no"))}
        case "keep_both":
            return {"id": memory_id}
        case "mute":
            scope = rng.choice(("", f"conversation:{room}", "everywhere", "folder:/srv/shop"))
            return {"id": memory_id, "in": scope}
        case "edit":
            count = 1
            before = ""
            if memory is not None:
                count = max(1, len(memory.messages))
                before = memory.text
            return {
                "id": memory_id,
                "before": before,
                "text": [texts.sentence(rng) for _n in range(count)],
            }
        case "forget" | "erase":
            fields = _something(house, rng, room)
            if rng.random() < 0.5:
                fields["backup"] = house.backups()
            return fields
        case "undo":
            changes = house.changes()
            if not changes:
                return {"change": "x", "place": ""}
            change = rng.choice(changes)
            return {"change": change.id, "place": change.place}
        case "restore":
            forgotten = house.shelf(room)
            if forgotten:
                shelved = rng.choice(forgotten).memory
                return {"family": "", "id": getattr(shelved, "id", None) or shelved.name}
            return {"family": rng.choice(("notes", "layers/project", "sessions/ann")), "id": "zz"}
        case "edit-entry" | "promote":
            entries = house.entries()
            if not entries:
                return {"family": "notes", "id": "zz", "text": "x"}
            location, entry = rng.choice(entries)
            name = entry.ref or str(entry.id)
            if location.startswith("layers"):
                name = entry.key
            return {
                "family": location,
                "id": name or "",
                "before": entry.body,
                "text": texts.sentence(rng),
            }
        case "save-trigger":
            return {
                "name": rng.choice(("生日", "cat", "new one")),
                "code": rng.choice(texts.TRIGGERS),
                "prompt": texts.sentence(rng),
            }
        case "pause":
            if rng.random() < 0.7:
                return {"resume": "1"}
    return {}


def _something(house: House, rng: Random, room: str) -> dict[str, Any]:
    """The names of something in the home, as a form gives them."""
    meant: list[dict[str, Any]] = [
        {"family": "memories", "place": room, "id": memory.id} for memory in house.memories(room)
    ]
    meant += [
        {"family": "triggers", "place": room, "id": memory.name} for memory in house.triggers(room)
    ]
    for location, entry in house.entries():
        name = str(entry.id)
        if location.startswith("layers"):
            name = entry.key
        meant.append({"family": location.partition("/")[0], "place": location, "id": name or ""})
    if not meant:
        return {"id": "zz"}
    return rng.choice(meant)


def _trigger(house: House, rng: Random, room: str) -> dict[str, Any]:
    """A trigger that is tried, by words or by code."""
    return {
        "name": rng.choice(("生日", "cat", "", *(memory.name for memory in house.triggers(room)))),
        "prompt": texts.sentence(rng),
        "code": rng.choice(texts.TRIGGERS),
        "try": "1",
    }
