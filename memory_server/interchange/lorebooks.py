"""Lorebooks as other programs keep them: SillyTavern's world info, and character books (also inside cards of version 2
and 3). Each entry becomes a value with the names and meanings of world info; lore_memories.py makes memories of them.

Sources: facts of SillyTavern's public/scripts/world-info.js (fields, defaults, the order of selectiveLogic) and of the
character card specifications V2 and V3 (character_book, use_regex, decorators).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import Any, TypeVar

from languages import _
from memory_server.interchange import lore_astrbot, lore_forms
from memory_server.interchange.incoming import (
    NotThisFormat,
    document,
    fields_of,
    line_of,
    switch_of,
)
from memory_server.kernel.json_text import Fields, Json
from memory_server.kernel.values import dataclass, frozen
from memory_server.lore import (
    USUAL_ORDER,
    CharacterRule,
    GroupRules,
    KeyCondition,
    RecursionRules,
)
from sandbox import WRONG_VALUES, group_names

# --- decorators --------------------------------------------------------------------------------------------------

# Decorators: the lines `@@name value` at the beginning of an entry's content, which say when and where it comes.
#
# Sources: facts of the character card specification V3 ("Decorators") and of RisuAI, which writes most of them and
# has more names (its numbers count all messages of a chat, as the delay of world info does); SillyTavern knows
# `@@activate` and `@@dont_activate`. A line `@@@name value` is the fallback of the decorator before it: it holds if
# that decorator does not.

_LINE = re.compile(r"(?P<marks>@{2,3})(?P<name>[A-Za-z]\w*)[ \t]*(?P<value>.*)")
_KEYS = ("additional_keys", "exclude_keys", "exclude_keys_all")
"""The decorators whose values are keys."""
_PLACEMENTS = frozenset(("position", "depth", "reverse_depth", "role", "end"))
"""What says only where a client puts the text."""
_ROLES = ("system", "user", "assistant")
"""The roles of a text, by the number that world info has for each."""
LAST_ORDER = -1000.0
"""The order of an entry that must give way to all others; RisuAI has the same number for it."""


def decorators_in(content: str) -> tuple[Decorators, str]:
    """Split the content of an entry into the decorators at its beginning, and the content without their lines."""
    decorators = Decorators()
    if not content.lstrip().startswith("@@"):
        return decorators, content
    lines = content.split("\n")
    end = 0
    while end < len(lines) and (lines[end].strip().startswith("@@") or not lines[end].strip()):
        if lines[end].strip():
            decorators.add(lines[end].strip())
        end += 1
    decorators.finish()
    return decorators, "\n".join(lines[end:])


@dataclass(slots=True)
class Decorators:
    """The decorators of an entry. `keys`: of each decorator with keys the groups of them; `values`: the values of all
    others by their names. `unknown`: the lines that have no meaning here. A decorator without meaning waits for a
    fallback with one."""

    keys: dict[str, list[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(list))
    values: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    _waiting: list[str] = field(default_factory=list)
    _is_settled: bool = True
    """Whether a fallback has no meaning, because the decorator before it has one or there is none."""

    def has(self, *names: str) -> bool:
        """Tell whether the entry has any of these decorators."""
        return not self.values.keys().isdisjoint(names)

    def whole(self, name: str) -> int | None:
        """Return the number of a decorator, or None without it."""
        if name in self.values:
            return int(self.values[name])
        return None

    def number(self, name: str) -> float | None:
        if name in self.values:
            return float(self.values[name])
        return None

    def choice(self, is_true: Sequence[str], is_false: Sequence[str]) -> bool | None:
        """Return which of two kinds of decorators the entry has, or None if it has neither."""
        if self.has(*is_true):
            return True
        if self.has(*is_false):
            return False
        return None

    def add(self, line: str) -> None:
        """Read the line of a decorator. A fallback (`@@@`) is used only if no decorator before it
        in its chain has a meaning here; `finish` names a chain without a meaning."""
        match = _LINE.fullmatch(line)
        is_fallback = line.startswith("@@@")
        if not is_fallback:
            self.finish()
        elif self._is_settled:
            return
        if match is not None and self._takes(match["name"], match["value"].strip()):
            self._is_settled = True
            self._waiting.clear()
        else:
            self._waiting.append(line)

    def finish(self) -> None:
        """Name the decorator that waits: no fallback with a meaning came. Only the first of its chain is named."""
        self.unknown += self._waiting[:1]
        self._waiting.clear()
        self._is_settled = False

    def _takes(self, name: str, value: str) -> bool:
        """Tell whether this decorator has a meaning here with this value. Of several with the same name the first
        holds, but decorators with keys add up."""
        if name in _KEYS:
            keys = tuple(key.strip() for key in value.split(",") if key.strip())
            if keys:
                self.keys[name].append(keys)
            return bool(keys)
        if name not in _FLAGS and not _VALID.get(name, _is_nothing)(value):
            return False
        self.values.setdefault(name, value)
        return True


def placement_fields(placement: Mapping[str, str]) -> dict[str, int]:
    """Return `position`, `depth` and `role` with the numbers of world info, as far as decorators name what it has
    too."""
    fields: dict[str, int] = {}
    depth = "0" if "end" in placement else placement.get("depth")
    if depth is not None:
        fields |= {"position": _AT_DEPTH, "depth": int(depth)}
    position = _POSITIONS_OF_DECORATORS.get(placement.get("position", ""))
    if position is not None:
        fields["position"] = position
    if "role" in placement:
        fields["role"] = _ROLES.index(placement["role"])
    return fields


_POSITIONS_OF_DECORATORS = {"before_desc": 0, "after_desc": 1}
_AT_DEPTH = 4
"""The position of world info for a text between the messages."""


def _is_number(value: str) -> bool:
    return re.fullmatch(r"-?\d{1,9}", value) is not None


def _is_count(value: str) -> bool:
    return re.fullmatch(r"\d{1,9}", value) is not None


def _is_divisor(value: str) -> bool:
    return _is_count(value) and int(value) > 0


def _is_share(value: str) -> bool:
    return re.fullmatch(r"\d{1,3}(\.\d+)?", value) is not None and float(value) <= 100


def _is_nothing(_value: str) -> bool:
    return False


_FLAGS = frozenset(
    (
        "activate",
        "constant",
        "dont_activate",
        "dont_activate_after_match",
        "end",
        "ignore_on_max_context",
        "keep_activate_after_match",
        "match_full_word",
        "match_partial_word",
        "match_word_boundary",
        "no_recursive_search",
        "recursive",
        "unrecursive",
    )
)
"""The decorators whose value does not matter."""
_VALID: Mapping[str, Callable[[str], bool]] = {
    "activate_only_after": _is_count,
    "activate_only_every": _is_divisor,
    "depth": _is_number,
    "position": bool,
    "priority": _is_number,
    "probability": _is_share,
    "reverse_depth": _is_number,
    "role": _ROLES.__contains__,
    "scan_depth": _is_count,
}
"""The other decorators that have a meaning here, beside those with keys, and which values each can have."""


# --- entries and books -------------------------------------------------------------------------------------------

T = TypeVar("T")
LOGICS = ("AND_ANY", "NOT_ALL", "NOT_ANY", "AND_ALL")
"""The logics of the secondary keys, by the number that the file holds."""
_BOOK_NAMES = {
    "keys": "key",
    "secondary_keys": "keysecondary",
    "insertion_order": "order",
    "id": "uid",
    "case_sensitive": "caseSensitive",
}
"""What a character book calls a field of world info; its `extensions` use snake_case for the others."""
_CARD = (
    *("description", "personality", "scenario", "first_mes", "mes_example", "alternate_greetings"),
    "group_only_greetings",
    "system_prompt",
    "post_history_instructions",
    "creator_notes",
    "assets",
)
"""Fields of a card that its client puts into the prompt or shows."""
_SNAKE = re.compile(r"_([a-z])")
_POSITIONS = {"before_char": 0, "after_char": 1}
"""The two words of a character book for a position, by the number that world info has for them."""


@frozen
class LoreEntry:
    """An entry, with the names and meanings of world info. `depth`, `sticky`, `cooldown`, `delay`, `every`: messages.
    None is the default; a `probability` of None never holds. `fields`: all fields, as the file has them. `content`
    has no lines of decorators: what they say is in the fields.

    `conditions`: further conditions on keys, which must hold too; the first condition is in `secondary` and `logic`
    where the entry has no secondary keys of its own. `every`: it comes only where the number of messages is a
    multiple; 0: always. `once`: it never comes again after it came; `stays`: it always comes after it came.
    `is_forbidden`: it never comes (and is not enabled). `recursion`: `is_on` is False there, because no entry says
    it. `character_tags`: the tags of its filter, kept only to name them: no tag is known here. `placement`: where
    decorators put the text, by their names. `unknown_decorators`: the lines that have no meaning here."""

    uid: str
    title: str
    content: str
    keys: tuple[str, ...]
    secondary: tuple[str, ...]
    logic: str
    constant: bool
    enabled: bool
    all_regex: bool
    depth: int | None
    whole_words: bool | None
    case_sensitive: bool | None
    probability: float | None
    order: float
    sticky: int
    cooldown: int
    delay: int
    group: GroupRules
    recursion: RecursionRules
    characters: CharacterRule
    character_tags: tuple[str, ...]
    ignores_budget: bool
    vectorized: bool
    outlet: str
    fields: Fields
    conditions: tuple[KeyCondition, ...] = ()
    every: int = 0
    once: bool = False
    stays: bool = False
    is_forbidden: bool = False
    placement: Mapping[str, str] = field(default_factory=dict)
    unknown_decorators: tuple[str, ...] = ()

    @property
    def scored_secondary(self) -> tuple[str, ...]:
        """The secondary keys that SillyTavern counts in a group, where it does not look whether they are in use."""
        return _secondary_keys(self.fields.get("keysecondary"))


@frozen
class Book:
    """A lorebook. `name`: its name in the file, or "". `depth`: messages that its entries scan by default, or None if
    the book does not say it. `broken`: uid and fault of each entry that cannot be read. `character`: whose card it is
    in; `unread`: the other parts of the card. `is_on`: its owner has it switched on. `program`: the program whose
    form it has; "" for the forms of SillyTavern and of the card specifications. `lost`: sentences about parts of that
    form that this program does not have."""

    entries: tuple[LoreEntry, ...]
    depth: int | None
    broken: tuple[tuple[str, str], ...] = ()
    character: str | None = None
    unread: tuple[str, ...] = ()
    name: str = ""
    is_on: bool = True
    program: str = ""
    lost: tuple[str, ...] = ()


def read_book(data: bytes) -> Book:
    """Read the lorebook in a file. Raises NotThisFormat."""
    value = lore_astrbot.document_in(data)
    if value is None:
        value = document(data)
    return book_of(value)


def book_of(value: Any) -> Book:
    """Read a lorebook of any known program, or in a card. Raises NotThisFormat if it has no
    entries, or only broken ones."""
    converted = lore_forms.converted(value)
    if converted is None:
        return _book_of(value)
    rows = {"name": converted.name, "entries": dict(enumerate(converted.rows))}
    book = _book_of(rows, is_converted=True)
    return replace(
        book,
        program=converted.program,
        lost=converted.lost,
        broken=(*converted.broken, *book.broken),
    )


def _book_of(value: Any, *, is_converted: bool = False) -> Book:
    """Read a book with rows of world info or of a card. With `is_converted` its rows were made of
    rows of another program. A broken entry is left out and named. Raises NotThisFormat if all are
    broken, or `entries` is missing."""
    book = _entries_of(value)
    entries: list[LoreEntry] = []
    broken: list[tuple[str, str]] = []
    for uid, row in _rows(book["entries"]):
        try:
            if not isinstance(row, dict):
                raise TypeError(_("it is not an object"))
            fields = dict(row) if is_converted else _as_world_info(row)
            entries.append(_entry(uid, fields))
        except WRONG_VALUES as error:
            broken.append((uid, str(error)))

    # A book with a few broken entries is still worth reading, a book with only broken entries is not.
    if broken and not entries:
        raise NotThisFormat(
            "cannot be used: entry {entry}: {reason}; export the lorebook again.",
            broken[0][0],
            broken[0][1],
        )

    # Version 1 of cards has its fields in the object itself, later versions in `data`.
    card = value if "character_book" in value else fields_of(value.get("data"))
    character = None
    unread: tuple[str, ...] = ()
    if "character_book" in card:
        character = str(card.get("name") or "").strip() or None
    if character is not None:
        unread = tuple(field for field in _CARD if card.get(field))

    return Book(
        entries=tuple(entries),
        depth=_depth_of(book),
        broken=tuple(broken),
        character=character,
        unread=unread,
        name=line_of(book.get("name")),
    )


def _depth_of(book: Fields) -> int | None:
    """Return how many messages all entries look at, or None if the book does not say it, or says what cannot be."""
    try:
        depth = _whole(book.get("scan_depth"))
    except WRONG_VALUES:
        return None
    if depth is None or depth < 1:
        return None
    return depth


def _rows(entries: Any) -> Iterable[tuple[str, Any]]:
    """Return the rows of a book by their uids, or else by their numbers, in SillyTavern's order, which decides
    between equal orders: an object of JavaScript has its keys that are whole numbers first, by their size."""
    if isinstance(entries, dict):
        return sorted(entries.items(), key=lambda item: _place_of(item[0]))
    numbered_rows = [(f"#{number}", row) for number, row in enumerate(entries, start=1)]
    places = [_place_of(fields_of(row).get("id", index)) for index, row in enumerate(entries)]
    indexes = sorted(range(len(places)), key=places.__getitem__)
    return [numbered_rows[index] for index in indexes]


def _place_of(key: object) -> float:
    """Return the place of this key in an object of JavaScript: a whole number at its place, any other key after them."""
    text = str(key)
    if text.isascii() and text.isdigit() and (text == "0" or text[0] != "0"):
        return float(text)
    return math.inf


def _entries_of(value: Any) -> Fields:
    """Return the object that has `entries`: the file, its data, or a character book in either.
    Raises NotThisFormat if none exists."""
    outer = value if isinstance(value, dict) else {}
    data = outer.get("data")
    inner = data if isinstance(data, dict) else {}
    # `inner` alone: a lorebook of card specification V3, with `spec: lorebook_v3`.
    for book in (outer, outer.get("character_book"), inner, inner.get("character_book")):
        if isinstance(book, dict) and isinstance(book.get("entries"), dict | list):
            return book
    if isinstance(value, dict) and "spec" in value:
        raise NotThisFormat(
            "is a character card without a character book: it has no memories; export its lorebook as JSON."
        )
    if isinstance(value, list):
        raise NotThisFormat("is a list and not a lorebook; name its format with --format.")
    raise NotThisFormat(
        'has no `entries`; export the lorebook from SillyTavern as JSON ({"entries": {"0": ...}}).'
    )


def _as_world_info(row: Fields) -> Json:
    """Return the fields of an entry of either form, with the names of world info, and with what SillyTavern takes for
    fields that are missing or null."""
    fields: Json = {"selective": False, "useProbability": False, **row}
    if "keys" in row:
        fields = _of_card(row)
    if "order" in fields and fields["order"] is None:
        fields["order"] = 0
    return fields


def _of_card(row: Fields) -> Json:
    """Return the fields of an entry of a character book, with the names of world info."""
    fields: Json = {}
    extensions = row.get("extensions")
    if isinstance(extensions, dict):
        fields = {_camel_case(name): value for name, value in extensions.items()}
    if fields.get("probability") is None:
        fields["probability"] = 100
    fields.setdefault("selective", bool(row.get("selective")))
    for name, value in row.items():
        if name in ("extensions", "enabled") or (name == "case_sensitive" and value is None):
            continue
        if name == "position" and "position" in fields:
            continue  # the one in the extensions is finer
        fields[_BOOK_NAMES.get(name, name)] = value
    is_enabled = row.get("enabled", not row.get("disable", False))
    return fields | {"disable": not is_enabled}


def _camel_case(name: str) -> str:
    return _SNAKE.sub(lambda letter: letter[1].upper(), name)


def _entry(uid: str, row: Fields) -> LoreEntry:
    """Read an entry. Raises TypeError, ValueError or OverflowError if a field has a value that it cannot have."""
    logic = _logic_of(row)
    keys = _keys(row.get("key"))
    if row.get("uid") is not None:
        uid = str(row["uid"])

    decorators, content = decorators_in(str(row.get("content") or ""))
    conditions = _conditions(row, logic, decorators)
    is_forbidden = decorators.has("dont_activate") and not decorators.has("activate")
    whole_words = decorators.choice(
        ("match_full_word", "match_word_boundary"), ("match_partial_word",)
    )
    order = decorators.number("priority")
    if decorators.has("ignore_on_max_context"):
        order = LAST_ORDER

    # The first condition has a place of its own, as in world info; the others are additional.
    first_condition = conditions[0] if conditions else KeyCondition((), logic)
    character_filter = row.get("characterFilter")
    character_fields = character_filter if isinstance(character_filter, dict) else {}
    return LoreEntry(
        uid=str(uid),
        title=_title_of(row, keys, str(uid)),
        content=content,
        keys=keys,
        secondary=first_condition.keys,
        logic=first_condition.logic,
        constant=bool(row.get("constant")) or decorators.has("activate", "constant"),
        enabled=not row.get("disable", False) and not is_forbidden,
        all_regex=bool(row.get("use_regex")) and not row.keys() >= _OF_SILLYTAVERN,
        depth=_first(decorators.whole("scan_depth"), _whole(row.get("scanDepth"))),
        whole_words=_first(whole_words, switch_of(row.get("matchWholeWords"))),
        case_sensitive=switch_of(row.get("caseSensitive")),
        probability=_first(decorators.number("probability"), _probability_of(row)),
        order=_first(order, _number(row.get("order"), USUAL_ORDER)),
        sticky=_whole(row.get("sticky")) or 0,
        cooldown=_whole(row.get("cooldown")) or 0,
        delay=max(_whole(row.get("delay")) or 0, decorators.whole("activate_only_after") or 0),
        group=_group_of(row),
        recursion=_recursion_of(row, decorators),
        characters=CharacterRule(
            _keys(character_fields.get("names")), bool(character_fields.get("isExclude"))
        ),
        character_tags=_keys(character_fields.get("tags")),
        ignores_budget=bool(row.get("ignoreBudget")),
        vectorized=bool(row.get("vectorized")),
        outlet=_outlet(row),
        fields=row,
        conditions=conditions[1:],
        every=decorators.whole("activate_only_every") or 0,
        once=decorators.has("dont_activate_after_match"),
        stays=decorators.has("keep_activate_after_match"),
        is_forbidden=is_forbidden,
        placement={name: value for name, value in decorators.values.items() if name in _PLACEMENTS},
        unknown_decorators=tuple(decorators.unknown),
    )


def _logic_of(row: Fields) -> str:
    """Return how an entry combines its secondary keys, by the number in its field. Raises ValueError if the number is
    not known."""
    number = int(row.get("selectiveLogic") or 0)
    if not 0 <= number < len(LOGICS):
        raise ValueError(
            _(
                "selectiveLogic is {number}, but only 0 to {logics} are known",
                number,
                len(LOGICS) - 1,
            )
        )
    return LOGICS[number]


def _title_of(row: Fields, keys: Sequence[str], uid: str) -> str:
    """Return what people call the entry: its title, its first key, or else its uid."""
    title = row.get("comment") or row.get("name") or row.get("title")
    if not title:
        title = next(filter(str.strip, keys), _("entry {uid}", uid))
    return " ".join(str(title).split())


def _probability_of(row: Fields) -> float | None:
    """Return the probability in per cent. Return None if the entry wants a chance and gives none: SillyTavern never
    brings it."""
    uses_probability = row.get("useProbability")
    if uses_probability and row.get("probability") is None:
        return None
    probability = row.get("probability") if row.get("useProbability", True) else None
    return _number(probability, 100.0)


def _conditions(row: Fields, logic: str, decorators: Decorators) -> tuple[KeyCondition, ...]:
    """Return all conditions on keys beside the keys of the entry itself; its secondary keys first."""
    secondary = _secondary_keys(row.get("keysecondary")) if row.get("selective", True) else ()
    excluded = (
        *_keys(row.get("excludedKeys")),
        *chain.from_iterable(decorators.keys["exclude_keys"]),
    )
    conditions = [KeyCondition(secondary, logic), KeyCondition(excluded, "NOT_ANY")]
    conditions += [KeyCondition(keys, "AND_ANY") for keys in decorators.keys["additional_keys"]]
    conditions += [KeyCondition(keys, "NOT_ALL") for keys in decorators.keys["exclude_keys_all"]]
    return tuple(condition for condition in conditions if condition.keys)


def _first(decorated: T | None, usual: T) -> T:
    """Return what a decorator says, or else what the field says."""
    if decorated is None:
        return usual
    return decorated


def _group_of(row: Fields) -> GroupRules:
    """Return the groups of a row and their rules. Raises ValueError if the weight is not a
    number."""
    groups = row.get("group")
    if not isinstance(groups, str):
        groups = [str(name).strip() for name in groups or ()]
    return GroupRules(
        names=tuple(group_names(groups)),
        weight=_number(row.get("groupWeight"), USUAL_ORDER),
        overrides=bool(row.get("groupOverride")),
        is_scored=bool(row.get("useGroupScoring")),
    )


def _recursion_of(row: Fields, decorators: Decorators) -> RecursionRules:
    """Return the rules by which an entry takes part in recursion. What a decorator says counts before the field."""
    level = row.get("delayUntilRecursion")
    if level is True:
        level = 1
    is_let_in = decorators.choice(("recursive",), ("unrecursive",))
    prevents_recursion = None if is_let_in is None else not is_let_in
    return RecursionRules(
        is_excluded=bool(row.get("excludeRecursion")) or decorators.has("no_recursive_search"),
        is_prevented=_first(prevents_recursion, bool(row.get("preventRecursion"))),
        level=_whole(level) or 0,
    )


_OF_SILLYTAVERN = frozenset(("excludeRecursion", "selectiveLogic", "useProbability"))
"""Fields that SillyTavern writes into the extensions of each entry of a card. It also writes `use_regex: true` into
each of them, and reads no key as an expression because of that."""
_OUTLET = 7
"""The position of an entry that comes only where a template of its client names its outlet."""


def _outlet(row: Fields) -> str:
    """Return the only outlet in which an entry comes, or "" if it comes in the prompt."""
    if row.get("position") != _OUTLET:
        return ""
    return str(row.get("outletName") or "?")


def placement_of(entry: LoreEntry) -> Json:
    """Return where the client puts an entry, for hosts that place texts themselves: the fields that the file has, or
    what its decorators say."""
    fields = {name: entry.fields.get(name) for name in ("position", "depth", "role")}
    fields["position"] = _POSITIONS.get(str(fields["position"]), fields["position"])
    numbers = {name: value for name, value in fields.items() if type(value) is int}
    return numbers | placement_fields(entry.placement)


def is_placed(entry: LoreEntry) -> bool:
    """Tell whether the client puts an entry elsewhere than into the block before the character, as it usually does.
    Depth and role have a meaning only elsewhere."""
    return bool(placement_of(entry).get("position")) or bool(entry.placement)


def _keys(value: Any) -> tuple[str, ...]:
    """Return a list of keys, without empty keys; older files hold a single text with commas. A key of blanks becomes
    a single blank."""
    if isinstance(value, str):
        keys = [key.strip() for key in value.split(",")]
    else:
        keys = [_trimmed(str(key)) for key in value or []]
    return tuple(dict.fromkeys(filter(None, keys)))


def _secondary_keys(value: Any) -> tuple[str, ...]:
    """Return the secondary keys: an empty key in a list is a key that is never found."""
    if not isinstance(value, list):
        return _keys(value)
    return tuple(dict.fromkeys(_trimmed(str(key)) for key in value))


def _trimmed(key: str) -> str:
    return key.strip() or key[:1]


def _whole(value: Any) -> int | None:
    """Return a whole number, or None if it is missing."""
    if value is None or value is False or value == "":
        return None
    return int(value)


def _number(value: Any, usual: float) -> float:
    """Parse a finite number; `usual` if the field is missing. Raises ValueError for any other value."""
    if value is None or value == "":
        return usual
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(_("{value} is not a number", value))
    return number
