"""Lorebooks in a home: books come, come again in another version, are switched, and bring their entries to chats."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from lived_in import texts
from lived_in.house import House, Output
from lived_in.life import step

BOOKS = ("Tale", "故事")
_KEYS = ("芒果", "mango", "ferry", "披萨", "sword")
_MACROS = (
    "",
    "{{user}} ",
    "{{random::rain::snow}} ",
    "{{roll:d6}} ",
    "{{pick::a::b}} ",
    "{{weekday}} ",
    "{{getvar::hp}} ",
)


def book(rng: Random) -> dict[str, Any]:
    """A book in one of its versions: entries come, go, and get other texts, titles, numbers and rules."""
    entries = [_entry(rng, number) for number in range(rng.randrange(1, 8))]
    if rng.random() < 0.3:
        rng.shuffle(entries)
    return {"entries": {str(number): entry for number, entry in enumerate(entries)}}


def _entry(rng: Random, number: int) -> dict[str, Any]:
    uid = rng.choice((number, number, number + 1))
    entry: dict[str, Any] = {
        "uid": uid,
        "comment": rng.choice((f"Entry {number}", "Entry", "芒果")),
    }
    entry |= {
        "key": rng.sample(_KEYS, rng.randrange(1, 3)),
        "content": rng.choice(_MACROS) + texts.sentence(rng),
    }
    rules: dict[str, Any] = {
        "order": rng.choice((1, 100, 900)),
        "constant": rng.random() < 0.3,
        "vectorized": rng.random() < 0.2,
        "disable": rng.random() < 0.1,
        "group": rng.choice(("", "", "weather", "weather, place")),
        "groupOverride": rng.random() < 0.2,
        "useGroupScoring": rng.random() < 0.2,
        "probability": rng.choice((100, 100, 50)),
        "sticky": rng.choice((0, 0, 3)),
        "cooldown": rng.choice((0, 0, 2)),
        "delay": rng.choice((0, 0, 2)),
        "excludeRecursion": rng.random() < 0.2,
        "preventRecursion": rng.random() < 0.2,
        "delayUntilRecursion": rng.choice((0, 0, 1, 2)),
        "ignoreBudget": rng.random() < 0.1,
    }
    return entry | rules


@step(4)
def lorebook(house: House, rng: Random) -> Output:
    """A book comes, for the first time or in another version."""
    name = rng.choice(BOOKS)
    file = Path(house.folder) / f"{name}.json"
    file.write_text(json.dumps(book(rng), ensure_ascii=False), "utf-8")
    flags = []
    if rng.random() < 0.1:
        flags.append("--dry-run")
    if rng.random() < 0.5:
        flags += ["-c", rng.choice(texts.ROOMS)]
    if rng.random() < 0.2:
        flags.append("--all")
    return house.command(
        "import", str(file), "--format", "worldinfo", *flags, own=rng.random() < 0.1
    )


@step(3)
def books(house: House, rng: Random) -> Output:
    """A book is looked at, switched off or on, or taken out."""
    words = rng.choice((["show"], ["off"], ["on"], ["remove"], ["off"], ["on"]))
    if rng.random() < 0.2:
        return house.command("books", *rng.choice(([], ["--json"])))
    return house.command("books", *words, rng.choice(BOOKS))


@step(8)
def turn_of_a_chat(house: House, rng: Random) -> None:
    """A chat program recalls for a turn: it counts the messages of its chat, or leaves that to the server."""
    arguments: dict[str, Any] = {
        "messages": [{"role": "user", "content": f"{rng.choice(_KEYS)}? {texts.sentence(rng)}"}],
        "session": f"s{rng.randrange(3)}",
        "maxChars": rng.choice((200, 900, 7_200, 50_000)),
    }
    if rng.random() < 0.5:
        arguments["conversation_id"] = rng.choice(house.conversations() or ["default"])
    if rng.random() < 0.5:
        arguments["messageCount"] = rng.randrange(1, 30)
    if rng.random() < 0.5:
        arguments["participants"] = {"user": "Ann", "char": {"name": "阿澈"}}
    if rng.random() < 0.2:
        arguments["reinforce"] = False
    house.tool("recall_turn", arguments, session=None)
