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
    memory = rng.choice(memories) if memories else None
    memory_id = "zz" if memory is None else memory.id
    match action:
        case "pin":
            return {"id": memory_id, "pinned": rng.choice(("yes", "no"))}
        case "mute":
            place = rng.choice(("", f"conversation:{room}", "everywhere", "folder:/srv/shop"))
            return {"id": memory_id, "in": place}
        case "edit":
            count = 1 if memory is None else max(1, len(memory.messages))
            before = "" if memory is None else memory.text
            return {"id": memory_id, "before": before, "text": [texts.sentence(rng) for _n in range(count)]}
        case "forget" | "erase":
            return _something(house, rng, room) | ({"backup": house.backups()} if rng.random() < 0.5 else {})
        case "undo":
            changes = house.changes()
            change = rng.choice(changes) if changes else None
            return {"change": change.id if change else "x", "place": change.place if change else ""}
        case "restore":
            gone = house.shelf(room)
            if gone:
                shelved = rng.choice(gone).memory
                return {"family": "", "id": getattr(shelved, "id", None) or shelved.name}
            return {"family": rng.choice(("notes", "layers/project", "sessions/ann")), "id": "zz"}
        case "edit-entry" | "promote":
            entries = house.entries()
            if not entries:
                return {"family": "notes", "id": "zz", "text": "x"}
            place, entry = rng.choice(entries)
            name = entry.key if place.startswith("layers") else entry.ref or str(entry.id)
            return {"family": place, "id": name or "", "before": entry.body, "text": texts.sentence(rng)}
        case "save-trigger":
            return {
                "name": rng.choice(("生日", "cat", "new one")),
                "code": rng.choice(texts.TRIGGERS),
                "prompt": texts.sentence(rng),
            }
        case "pause":
            return {"resume": "1"} if rng.random() < 0.7 else {}
    return {}


def _something(house: House, rng: Random, room: str) -> dict[str, Any]:
    """The names of something in the home, as a form gives them."""
    meant: list[dict[str, Any]] = [
        {"family": "memories", "place": room, "id": memory.id} for memory in house.memories(room)
    ]
    meant += [{"family": "triggers", "place": room, "id": memory.name} for memory in house.triggers(room)]
    for place, entry in house.entries():
        name = entry.key if place.startswith("layers") else str(entry.id)
        meant.append({"family": place.partition("/")[0], "place": place, "id": name or ""})
    return rng.choice(meant) if meant else {"id": "zz"}


def _trigger(house: House, rng: Random, room: str) -> dict[str, Any]:
    """A trigger that is tried, by words or by code."""
    return {
        "name": rng.choice(("生日", "cat", "", *(memory.name for memory in house.triggers(room)))),
        "prompt": texts.sentence(rng),
        "code": rng.choice(texts.TRIGGERS),
        "try": "1",
    }
