"""Reads lorebooks: SillyTavern's world info, character books (also inside cards of version 2 and 3).

Sources: facts of SillyTavern's public/scripts/world-info.js (fields, defaults, the order of selectiveLogic) and of the
character card specifications V2 and V3 (character_book, use_regex, decorators).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from memory_server.interchange.incoming import NotThisFormat, document

Logic: TypeAlias = Literal["AND_ANY", "NOT_ALL", "NOT_ANY", "AND_ALL"]
LOGICS: tuple[Logic, ...] = get_args(Logic)
"""By the number that the file holds."""
_BOOK_NAMES = {
    "keys": "key",
    "secondary_keys": "keysecondary",
    "insertion_order": "order",
    "id": "uid",
    "case_sensitive": "caseSensitive",
}
"""What a character book calls a field of world info; its `extensions` use snake_case of the rest."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry, its fields as world info names and means them. `depth`, `sticky`, `delay`: messages; None: default."""

    uid: str
    title: str
    content: str
    keys: tuple[str, ...]
    secondary: tuple[str, ...]
    logic: Logic
    constant: bool
    enabled: bool
    all_regex: bool
    depth: int | None
    whole_words: bool | None
    case_sensitive: bool | None
    probability: float
    sticky: int
    delay: int
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Book:
    """A lorebook. `depth`: messages that its entries scan when they do not say, None unknown.

    `broken`: uid and fault of each entry that cannot be read.
    """

    entries: tuple[Entry, ...]
    depth: int | None
    broken: tuple[tuple[str, str], ...] = ()


def read_book(data: bytes) -> Book:
    """The lorebook in a file. Raises NotThisFormat."""
    book = _book_of(document(data))
    entries = book["entries"]
    rows = entries.items() if isinstance(entries, dict) else ((f"#{n}", row) for n, row in enumerate(entries, start=1))
    found: list[Entry] = []
    broken: list[tuple[str, str]] = []
    for uid, row in rows:
        try:
            if not isinstance(row, dict):
                raise TypeError("it is not an object")
            found.append(_entry(uid, _as_world_info(row)))
        except (TypeError, ValueError) as error:
            broken.append((uid, str(error)))
    if broken and not found:
        raise NotThisFormat(f"cannot be used: entry {broken[0][0]}: {broken[0][1]}; export the lorebook again.")
    return Book(tuple(found), _whole(book.get("scan_depth")), tuple(broken))


def _book_of(value: Any) -> Mapping[str, Any]:
    for book in _places(value):
        if isinstance(book, dict) and isinstance(book.get("entries"), dict | list):
            return book
    if isinstance(value, dict) and "spec" in value:
        raise NotThisFormat("is a character card without a character book; export the lorebook itself as JSON.")
    if isinstance(value, list):
        raise NotThisFormat("is a list and not a lorebook; name its form with --format.")
    raise NotThisFormat('has no `entries`; export the lorebook from SillyTavern as JSON ({"entries": {"0": ...}}).')


def _places(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        yield value.get("character_book")
        if isinstance(inner := value.get("data"), dict):
            yield inner  # a lorebook of card specification V3 stands alone with `spec: lorebook_v3`
            yield inner.get("character_book")


def _as_world_info(row: Mapping[str, Any]) -> dict[str, Any]:
    """Fields under world info's names, whichever form the entry has."""
    if "keys" not in row:
        return dict(row)
    extensions = row.get("extensions")
    fields = {_camel(key): value for key, value in extensions.items()} if isinstance(extensions, dict) else {}
    for key, value in row.items():
        if key == "extensions" or (key == "case_sensitive" and value is None):
            continue
        if key == "position" and "position" in fields:
            continue  # the extension has the finer one
        fields[_BOOK_NAMES.get(key, key)] = value
    fields["disable"] = not row.get("enabled", True)
    fields.setdefault("selective", bool(row.get("selective")))
    fields.pop("enabled", None)
    return fields


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _entry(uid: str, row: Mapping[str, Any]) -> Entry:
    """Raises TypeError, ValueError."""
    number = int(row.get("selectiveLogic") or 0)
    if not 0 <= number < len(LOGICS):
        raise ValueError(f"selectiveLogic is {number}, known are 0 to {len(LOGICS) - 1}")
    selective = row.get("selective", True)
    keys, secondary = _keys(row.get("key")), _keys(row.get("keysecondary"))
    chance = row.get("probability")
    rolled = row.get("useProbability", True) and chance is not None
    return Entry(
        uid=str(uid if row.get("uid") is None else row["uid"]),
        title=" ".join(str(row.get("comment") or row.get("name") or (keys[0] if keys else f"entry {uid}")).split()),
        content=str(row.get("content") or ""),
        keys=keys,
        secondary=secondary if selective else (),
        logic=LOGICS[number],
        constant=bool(row.get("constant")),
        enabled=not row.get("disable", False),
        all_regex=bool(row.get("use_regex")),
        depth=_whole(row.get("scanDepth")),
        whole_words=_choice(row.get("matchWholeWords")),
        case_sensitive=_choice(row.get("caseSensitive")),
        probability=float(chance) if rolled and chance is not None else 100.0,
        sticky=_whole(row.get("sticky")) or 0,
        delay=_whole(row.get("delay")) or 0,
        fields=row,
    )


def _keys(value: Any) -> tuple[str, ...]:
    """A list of keys; older files hold one text with commas."""
    given = value.split(",") if isinstance(value, str) else value or []
    return tuple(dict.fromkeys(key.strip() for key in map(str, given) if key.strip()))


def _whole(value: Any) -> int | None:
    return None if value is None or value is False or value == "" else int(value)


def _choice(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
