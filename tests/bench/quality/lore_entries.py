"""Entries of lorebooks as SillyTavern reads them: world info, and character books, also those inside of cards.

Sources: facts of SillyTavern's public/scripts/world-info.js (names of fields, defaults, decorators). What a card says
of `use_regex` has no meaning there: a key is an expression if it is written as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

USUAL_ORDER = 100
USUAL_WEIGHT = 100
_SNAKE = re.compile(r"_([a-z])")
_SEPARATOR = re.compile(r",\s*")
_KNOWN_DECORATORS = ("@@activate", "@@dont_activate")
_CHARACTER_BOOK = {
    "keys": "key",
    "secondary_keys": "keysecondary",
    "insertion_order": "order",
    "id": "uid",
}
"""What a character book calls fields of world info."""


class Logic(IntEnum):
    """What secondary keys ask for beside a primary key."""

    AND_ANY = 0
    NOT_ALL = 1
    NOT_ANY = 2
    AND_ALL = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry, with the defaults of SillyTavern. `rank`: the entries of a lower rank come first, whatever their order.
    `delay_until_recursion`: the level of recursion from which on it may fire; 0 for one that is not delayed. None: the
    setting of the user."""

    uid: str
    book: str = ""
    rank: int = 0
    title: str = ""
    content: str = ""
    keys: tuple[str, ...] = ()
    secondary: tuple[str, ...] = ()
    logic: Logic = Logic.AND_ANY
    selective: bool = True
    constant: bool = False
    enabled: bool = True
    vectorized: bool = False
    order: float = USUAL_ORDER
    scan_depth: int | None = None
    case_sensitive: bool | None = None
    whole_words: bool | None = None
    group: str = ""
    group_override: bool = False
    group_weight: float = USUAL_WEIGHT
    group_scoring: bool | None = None
    probability: float = 100
    sticky: int = 0
    cooldown: int = 0
    delay: int = 0
    exclude_recursion: bool = False
    prevent_recursion: bool = False
    delay_until_recursion: int = 0
    ignore_budget: bool = False
    filter_names: tuple[str, ...] = ()
    filter_tags: tuple[str, ...] = ()
    filter_excludes: bool = False
    decorators: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What names the entry among those of all books."""
        return f"{self.book}.{self.uid}"

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(filter(None, _SEPARATOR.split(self.group)))

    @property
    def is_certain(self) -> bool:
        """Whether it fires without a draw."""
        return self.probability == 100


def entries_of(document: object, book: str = "", rank: int = 0) -> list[Entry]:
    """The entries in a file of world info, a character book or a card; none if it has no book."""
    return [_entry(uid, row, book, rank) for uid, row in _rows_of(document)]


def _rows_of(document: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The entries as they are written, with names of world info."""
    for book in _books_of(document):
        rows = book.get("entries")
        if not isinstance(rows, dict | list):
            continue
        numbered = rows.items() if isinstance(rows, dict) else enumerate(rows)
        for uid, row in numbered:
            if isinstance(row, dict):
                yield str(uid), _as_world_info(row)
        return


def _books_of(document: object) -> Iterator[Mapping[str, Any]]:
    """The places where a file may have its book."""
    outer = document if isinstance(document, dict) else {}
    inner = outer.get("data")
    for holder in (outer, inner):
        if isinstance(holder, dict):
            yield holder
            character_book = holder.get("character_book")
            if isinstance(character_book, dict):
                yield character_book


def _as_world_info(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if "keys" not in row:
        return row
    extensions = row.get("extensions")
    fields = dict(extensions) if isinstance(extensions, dict) else {}
    fields = {
        _SNAKE.sub(lambda match: match[1].upper(), name): value for name, value in fields.items()
    }
    fields["selective"] = bool(row.get("selective"))
    fields["disable"] = not row.get("enabled", True)
    for name in (
        "keys",
        "secondary_keys",
        "insertion_order",
        "id",
        "comment",
        "name",
        "content",
        "constant",
    ):
        fields[_CHARACTER_BOOK.get(name, name)] = row.get(name)
    return fields


def _entry(number: str, row: Mapping[str, Any], book: str, rank: int) -> Entry:
    decorators, content = split_decorators(str(row.get("content") or ""))
    has_chance = row.get("useProbability", True)
    character_filter = row.get("characterFilter")
    if not isinstance(character_filter, dict):
        character_filter = {}
    uid = row.get("uid")
    return Entry(
        uid=number if uid is None else str(uid),
        book=book,
        rank=rank,
        title=" ".join(str(row.get("comment") or row.get("name") or "").split()),
        content=content,
        keys=_texts(row.get("key")),
        secondary=_texts(row.get("keysecondary")),
        logic=Logic(int(row.get("selectiveLogic") or 0)),
        selective=bool(row.get("selective", True)),
        constant=bool(row.get("constant")),
        enabled=not row.get("disable"),
        vectorized=bool(row.get("vectorized")),
        order=_number(row.get("order"), USUAL_ORDER),
        scan_depth=None if row.get("scanDepth") is None else int(row["scanDepth"]),
        case_sensitive=_choice(row.get("caseSensitive")),
        whole_words=_choice(row.get("matchWholeWords")),
        group=str(row.get("group") or ""),
        group_override=bool(row.get("groupOverride")),
        group_weight=_number(row.get("groupWeight"), USUAL_WEIGHT),
        group_scoring=_choice(row.get("useGroupScoring")),
        probability=_number(row.get("probability"), 100) if has_chance else 100,
        sticky=int(row.get("sticky") or 0),
        cooldown=int(row.get("cooldown") or 0),
        delay=int(row.get("delay") or 0),
        exclude_recursion=bool(row.get("excludeRecursion")),
        prevent_recursion=bool(row.get("preventRecursion")),
        delay_until_recursion=int(row.get("delayUntilRecursion") or 0),
        ignore_budget=bool(row.get("ignoreBudget")),
        filter_names=_texts(character_filter.get("names")),
        filter_tags=_texts(character_filter.get("tags")),
        filter_excludes=bool(character_filter.get("isExclude")),
        decorators=tuple(decorators),
    )


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(filter(None, _SEPARATOR.split(value)))
    return tuple(map(str, value)) if isinstance(value, Sequence) else ()


def _number(value: object, usual: float) -> float:
    return float(value) if isinstance(value, int | float | str) and value != "" else usual


def _choice(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def split_decorators(content: str) -> tuple[list[str], str]:
    """The decorators that SillyTavern knows, and the content below all lines of decorators. A line with `@@@` counts
    only after one that is not known: it stands in for that one."""
    if not content.startswith("@@"):
        return [], content
    decorators: list[str] = []
    lines = content.split("\n")
    is_unknown = False
    for index, line in enumerate(lines):
        if not line.startswith("@@"):
            return decorators, "\n".join(lines[index:])
        stands_in = line.startswith("@@@")
        if stands_in and not is_unknown:
            continue
        decorator = line[1:] if stands_in else line
        is_unknown = not decorator.startswith(_KNOWN_DECORATORS)
        if not is_unknown:
            decorators.append(decorator)
    return decorators, content
