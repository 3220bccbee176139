"""Entries and chats of the small lorebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sillytavern.lore_jobs import CHARACTER, USER, Job, LoreBook

AND_ANY, NOT_ALL, NOT_ANY, AND_ALL = range(4)
Json = dict[str, Any]


def entry(uid: int, *keys: str, text: str | None = None, **fields: Any) -> Json:
    """An entry with the fields that SillyTavern writes."""
    usual: Json = {
        "uid": uid,
        "comment": f"e{uid}",
        "key": list(keys),
        "keysecondary": [],
        "content": f"This is text number {uid}." if text is None else text,
        "constant": False,
        "vectorized": False,
        "selective": True,
        "selectiveLogic": AND_ANY,
        "order": 100,
        "position": 0,
        "disable": False,
        "probability": 100,
        "useProbability": True,
        "group": "",
        "groupOverride": False,
        "groupWeight": 100,
        "scanDepth": None,
        "caseSensitive": None,
        "matchWholeWords": None,
        "useGroupScoring": None,
        "sticky": None,
        "cooldown": None,
        "delay": None,
        "excludeRecursion": False,
        "preventRecursion": False,
        "delayUntilRecursion": 0,
        "ignoreBudget": False,
        "triggers": [],
    }
    return usual | fields


def constant(uid: int, **fields: Any) -> Json:
    return entry(uid, constant=True, **fields)


def without(row: Json, *names: str) -> Json:
    return {name: value for name, value in row.items() if name not in names}


def book(entries: Iterable[Json], **fields: Any) -> LoreBook:
    rows = {str(row["uid"]): row for row in entries}
    return LoreBook({"entries": rows}, **fields)


def card(entries: Iterable[Json]) -> LoreBook:
    """A book in a card of version 2, whose rows have other names for these fields."""
    return LoreBook({"name": "Book", "entries": list(entries)}, is_card=True)


def chat(*texts: str) -> list[tuple[str, str]]:
    """Character and user speak in turn, the character first."""
    return [(USER if number % 2 else CHARACTER, text) for number, text in enumerate(texts)]


def job(
    name: str, entries: Iterable[Json], *texts: str, scans: Sequence[int] = (), **fields: Any
) -> Job:
    """`scans`: after each message of the user, unless others are given."""
    usual_scans = scans or range(2, len(texts) + 1, 2)
    return Job(name, [book(entries)], chat(*texts), list(usual_scans), **fields)


TALK = (
    *("Welcome.", "A lantern, and fog.", "Where?", "By the mill. The lantern is red; a boat too."),
    *("Hm.", "The mill and the lantern again.", "So?", "Only the boat.", "Yes.", "No more."),
)
WORDS = (
    *(
        "Hi.",
        "The cart stood.",
        "Yes.",
        "Carts, a go-cart and cartography.",
        "No.",
        "CART! my_cart 9cart",
    ),
    *(
        "No.",
        "a cart's wheel (cart)",
        "No.",
        "The  cart\tstood at the café and cafés, at Straße and STRASSE",
    ),
)
CALM = (
    *("Hi.", "the lantern", "r", "rain", "r", "rain", "r", "wind", "r", "wind", "r", "the lantern"),
    *("r", "wind", "r", "rain", "r", "rain"),
)
DEEP = (
    "The quay.",
    *(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]),
)
CHAIN = ("Hi.", "A lantern.", "Hm.", "amber", "Hm.", "rain", "Hm.", "the mill", "Hm.", "rain")
LONG = "It has been told for many years along the river, by all who came. " * 5
