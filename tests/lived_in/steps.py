"""What happens in a home: one function for each kind of event, which makes all its choices with its own `rng`.

A life is a list of pairs of a step's name and the seed of its choices, so that it can be made shorter and replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from lived_in import texts
from lived_in.arguments import arguments_for
from lived_in.events import event_of_a_client
from lived_in.house import House, Output
from lived_in.imported import written_file

from memory_server.tools import TOOLS

Act = Callable[[House, Random], Output | None]
ZONES = ("Asia/Shanghai", "UTC", "America/St_Johns", "Pacific/Kiritimati", "Europe/London")
STEPS: dict[str, Act] = {}
WEIGHTS: dict[str, int] = {}
CHANGING = tuple(name for name, tool in TOOLS.items() if not tool.read_only)


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a life."""

    name: str
    seed: int

    def __str__(self) -> str:
        return f"{self.name}:{self.seed}"

    def take(self, house: House) -> Output | None:
        return STEPS[self.name](house, Random(f"{self.name} {self.seed}"))


def steps_of(text: str) -> list[Step]:
    """The steps that a failing run printed."""
    pairs = [word.rpartition(":") for word in text.split()]
    return [Step(name, int(seed)) for name, _colon, seed in pairs]


def step(weight: int) -> Callable[[Act], Act]:
    def registered(act: Act) -> Act:
        STEPS[act.__name__] = act
        WEIGHTS[act.__name__] = weight
        return act

    return registered


def random_life(rng: Random, length: int) -> list[Step]:
    names = rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=length)
    return [Step(name, rng.randrange(100_000)) for name in names]


# --- talk ----------------------------------------------------------------------------------------------------


@step(14)
def hook(house: House, rng: Random) -> Output:
    """A client calls its hook."""
    event = event_of_a_client(house, rng)
    words = ["hook", "--seconds", "60"]
    if rng.random() < 0.2:
        words += ["--chars", str(rng.choice((1, 80, 2_000)))]
    return house.command(*words, given=json.dumps(event).encode(), own=rng.random() < 0.15)


@step(6)
def remember(house: House, rng: Random) -> Output:
    """A companion stores a turn with the command."""
    words = ["remember"]
    if rng.random() < 0.5:
        words += ["-c", rng.choice(texts.ROOMS)]
    if rng.random() < 0.4:
        words += ["--session", f"s{rng.randrange(4)}"]
    if rng.random() < 0.3:
        words += ["--turn", f"turn {rng.randrange(6)}"]
    given = json.dumps(texts.exchange(rng, _some_time(house, rng)))
    return house.command(*words, given=given.encode(), own=rng.random() < 0.1)


@step(4)
def recall(house: House, rng: Random) -> Output:
    """A companion asks before it answers."""
    words = ["recall", "--flashbacks", str(rng.randrange(3))]
    if rng.random() < 0.5:
        words += ["-c", rng.choice(house.conversations() or ["default"])]
    if rng.random() < 0.5:
        words += ["--session", f"s{rng.randrange(4)}"]
    if rng.random() < 0.3:
        words.append("--json")
    return house.command(*words, "--", rng.choice((*texts.QUESTIONS, texts.sentence(rng).replace("\0", ""))))


@step(20)
def tool(house: House, rng: Random) -> None:
    """A model calls a tool that changes something."""
    name = rng.choice(CHANGING)
    house.tool(name, arguments_for(house, TOOLS[name], rng), session=rng.choice((None, "s1", "s2")))


@step(6)
def rest(house: House, rng: Random) -> None:
    """A program calls a tool over HTTP."""
    name = rng.choice(list(TOOLS))
    headers = {}
    if rng.random() < 0.5:
        headers["x-memory-session"] = f"s{rng.randrange(3)}"
    if rng.random() < 0.3:
        headers["x-memory-folder"] = rng.choice(("/srv/shop", "/tmp"))
    response = house.ask(name, arguments_for(house, TOOLS[name], rng), **headers)
    assert response.status_code < 500 or response.status_code in (503, 507), response.text


@step(4)
def many_exchanges(house: House, rng: Random) -> None:
    """A long evening of talk."""
    room, at_ms = rng.choice(texts.ROOMS[:6]), _some_time(house, rng)
    for number in range(rng.randrange(5, 45)):
        at = None if at_ms is None else at_ms + number * 60_000
        house.tool("remember_turn", {"messages": texts.exchange(rng, at), "conversation_id": room})


@step(2)
def many_entries(house: House, rng: Random) -> None:
    """A model writes more entries of one family than a page shows."""
    tool, arguments = rng.choice(
        (
            ("remember", {"type": "domain"}),
            ("memory_add", {"user_id": rng.choice(texts.USERS), "mode": "direct"}),
            ("save_to_memory", {}),
            ("save_to_global_memory", {}),
            ("memoryAdd", {"namespace": rng.choice(("short-term", "long-term"))}),
            ("add_long_term_memory", {"prompt": "p", "trigger": rng.choice(texts.TRIGGERS[:3])}),
        )
    )
    fields = {"remember": ("topic", "content"), "memory_add": ("", "messages"), "memoryAdd": ("", "content")}
    name, text = fields.get(tool, ("key", "content"))
    if tool == "add_long_term_memory":
        name, text = "name", "prompt"
    for number in range(rng.randrange(25, 70)):
        named = {name: f"{rng.choice(texts.KEYS)} {number}"} if name else {}
        house.tool(tool, {**arguments, **named, text: f"{texts.sentence(rng)[:3_000]} {number}"})


@step(0)
def far_times(house: House, rng: Random) -> None:
    """A clock or an import was wrong by centuries."""
    at_ms = rng.choice((-62_104_000_000_000, -1, 0, 1, 4_102_444_800_000, 253_370_764_800_000))
    house.tool("remember_turn", {"messages": texts.exchange(rng, at_ms), "conversation_id": rng.choice(texts.ROOMS)})


@step(1)
def many_rooms(house: House, rng: Random) -> None:
    """A group chat has a conversation for each of its members."""
    for number in range(rng.randrange(5, 50)):
        room = f"qq/user/{10_000 + number}"
        house.tool("remember_turn", {"messages": texts.exchange(rng), "conversation_id": room})


# --- the page ------------------------------------------------------------------------------------------------


@step(12)
def form(house: House, rng: Random) -> None:
    """A person sends a form of the page."""
    from lived_in.forms import form_of_the_page

    address, fields = form_of_the_page(house, rng)
    response = house.post(address, fields)
    assert response.status_code in (200, 303, 404, 422), (address, response.status_code, response.text[-2_000:])


# --- commands ------------------------------------------------------------------------------------------------


@step(5)
def forget(house: House, rng: Random) -> Output:
    """A person has something forgotten, perhaps for good."""
    words = ["forget", rng.choice(_words_of(house, rng)), "--yes"]
    if rng.random() < 0.4:
        words.append("--for-good")
        if rng.random() < 0.5:
            words.append("--in-backups")
    if rng.random() < 0.2:
        words += ["--family", rng.choice(("memories", "triggers", "notes", "layers", "sessions", "refs"))]
    if rng.random() < 0.2:
        words.append("--dry-run")
    return house.command(*words, own=rng.random() < 0.15)


@step(4)
def undo(house: House, rng: Random) -> Output:
    changes = house.changes()
    if changes and rng.random() < 0.8:
        return house.command("undo", rng.choice(changes).id)
    gone = [entry for room in house.conversations() for entry in house.shelf(room)]
    if gone and rng.random() < 0.7:
        memory = rng.choice(gone).memory
        return house.command("undo", "--memory", getattr(memory, "id", None) or memory.name)
    return house.command("undo", "--since", "2026-03-01", *(["--dry-run"] if rng.random() < 0.5 else []))


@step(4)
def backup(house: House, rng: Random) -> Output:
    names = house.backups()
    kind = rng.choice(("make", "restore", "overwrite", "delete", "dry-run"))
    if kind == "make" or not names:
        return house.command("backup", *(["before-move"] if rng.random() < 0.3 else []))
    if kind == "delete":
        return house.command("backup delete", rng.choice(names))
    flags = {"overwrite": ["--overwrite"], "dry-run": ["--dry-run"]}.get(kind, [])
    return house.command("backup restore", rng.choice(names), *flags)


@step(5)
def keep(house: House, rng: Random) -> Output:
    """A person pins, mutes, pauses, cleans up or mends."""
    ids = [memory.id for room in house.conversations() for memory in house.memories(room)]
    some = rng.choice(ids) if ids else "zz"
    return house.command(
        *rng.choice(
            (
                ["pin", some],
                ["pin", some[:3], "--off"],
                ["mute", some],
                ["mute", some, "--folder"],
                ["mute", some, "--everywhere"],
                ["mute", some, "--off"],
                ["pause", "--for", "2h"],
                ["pause"],
                ["resume"],
                ["resume"],
                ["cleanup"],
                ["cleanup", "--dry-run"],
                ["doctor", "--repair"],
                ["doctor", "--reindex"],
                ["knowledge", "reindex", "--verbose"],
                ["knowledge", "cleanup"],
                ["knowledge", "document", "--output", str(house.place / "pages"), "--force"],
            )
        )
    )


@step(4)
def knowledge(house: House, rng: Random) -> Output:
    """A person changes one entry."""
    entries = house.entries()
    if not entries:
        return house.command("knowledge", "list")
    _place, entry = rng.choice(entries)
    name = entry.key or entry.ref or str(entry.id)
    return house.command("knowledge", rng.choice(("delete", "restore", "promote", "show")), "--", name)


@step(5)
def import_file(house: House, rng: Random) -> Output:
    """Memories of another program come in."""
    flags, name = written_file(house, rng)
    if rng.random() < 0.2:
        flags.append("--dry-run")
    return house.command("import", str(name), *flags, own=rng.random() < 0.1)


@step(2)
def add_trigger(house: House, rng: Random) -> Output:
    source = house.place / "mother.js"
    source.write_text(rng.choice(texts.TRIGGERS), "utf-8")
    return house.command("add-trigger", str(source), "--prompt", texts.sentence(rng).replace("\0", ""))


@step(3)
def own_export(house: House, rng: Random) -> Output:
    """What is exported is imported again, now or later."""
    name = house.place / f"kept{rng.randrange(2)}.jsonl"
    if name.exists() and rng.random() < 0.5:
        return house.command("import", str(name))
    return house.command("export", str(name), "--force")


# --- the world -----------------------------------------------------------------------------------------------


@step(5)
def time_passes(house: House, rng: Random) -> None:
    """Hours or months later everything is started again; at times a clock was set back, or far ahead."""
    hours = rng.choice((1, 7, 26, 100, 24 * 40, 24 * 200, -3, -24 * 30))
    changed: dict[str, Any] = {"now": house.now + timedelta(hours=hours)}
    if rng.random() < 0.3:
        changed["zone"] = rng.choice(ZONES)
    if rng.random() < 0.3:
        changed["language"] = rng.choice(("en", "zh"))
    changed["read_only"] = rng.random() < 0.08
    house.reopen(**changed)


@step(1)
def upkeep(house: House, rng: Random) -> None:
    """The daily work is done."""
    if not house.read_only:
        house.run(house.app.maintenance.run_if_due())


@step(2)
def tenants(house: House, rng: Random) -> Output:
    """A tenant of the server gets a token, or memories."""
    name = rng.choice(("小明", "work", "ann"))
    kind = rng.random()
    if kind < 0.3:
        return house.command("tokens", "add", f"phone{rng.randrange(3)}", "--tenant", name)
    if kind < 0.5:
        return house.command("tokens", "remove", f"phone{rng.randrange(3)}", *(["--erase", "--yes"] * (kind < 0.4)))
    return house.command("remember", "--tenant", name, "--", rng.choice(texts.SENTENCES), own=True)


@step(4)
def laptop(house: House, rng: Random) -> Output:
    """A person works on a linked machine."""
    from lived_in.elsewhere import live_on_the_laptop

    return live_on_the_laptop(house, rng)


@step(3)
def edited_by_hand(house: House, rng: Random) -> None:
    """A person edits a file of a conversation, or it has records of an older program."""
    from lived_in.older import edit_by_hand

    house.close()
    try:
        edit_by_hand(house.data, rng)
    finally:
        house.open()


@step(1)
def damaged(house: House, rng: Random) -> Output:
    """A crash, a full disk or a virus scanner leaves a file broken; somebody looks, and at times has it mended."""
    from lived_in.older import damage

    house.close()
    try:
        damage(house.data, rng)
    finally:
        house.open()
    house.command("list")
    return house.command("doctor", *(["--repair"] if rng.random() < 0.5 else []))


def _some_time(house: House, rng: Random) -> int | None:
    """A time of a message: mostly lately, at times years ago, and often not there."""
    if rng.random() < 0.4:
        return None
    days = rng.choice((0.01, 0.5, 1, 3, 10, 40, 400, 4_000))
    return round((house.now - timedelta(days=days)).timestamp() * 1_000)


def _words_of(house: House, rng: Random) -> list[str]:
    """Words or ids that somebody may want to be forgotten."""
    words = ["Halloran", "披萨", "米酱", "ferry", "Berlin 1,180", "zzz", "4711", "🙂"]
    for room in house.conversations()[:3]:
        memories = house.memories(room)
        if memories:
            words.append(rng.choice(memories).id)
    return words
