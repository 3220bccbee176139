"""Lorebooks: SillyTavern's world info, and character books (also inside cards of version 2 and 3). An entry becomes a
long-term memory with a readable trigger, and a sentence for each part that is lost.

Sources: facts of SillyTavern's public/scripts/world-info.js (fields, defaults, the order of selectiveLogic) and of the
character card specifications V2 and V3 (character_book, use_regex, decorators). SillyTavern looks for keys in the last
`scanDepth` messages joined together. A key `/re/flags` is an expression; otherwise upper case counts only if that is
set. With whole words, a single word must stand between characters that are not ASCII word characters; several words are
a substring.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from memory_server.conversations.contents import Contents
from memory_server.interchange.incoming import Incoming, NotThisFormat, document, fields_of
from memory_server.kernel.json_text import Json
from sandbox import literals, spelled_in_two_ways
from sandbox.locale import _

LOGICS = ("AND_ANY", "NOT_ALL", "NOT_ANY", "AND_ALL")
"""Of the secondary keys, by the number that the file holds."""
SILLYTAVERN_DEPTH = 2
"""Messages that SillyTavern scans unless its user says otherwise (world_info_depth)."""
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
    *("group_only_greetings", "system_prompt", "post_history_instructions", "creator_notes", "assets"),
)
"""Fields of a card that its client puts into the prompt or shows."""
_MACRO = re.compile(r"\{\{[^{}]*\}\}")
_EXPRESSION = re.compile(r"/(?P<body>[\s\S]+?)/(?P<flags>[gimsuy]*)")
_OPEN_SLASH = re.compile(r"(^|[^\\])/")
_SNAKE = re.compile(r"_([a-z])")
_ASCII = re.compile(r"[!-~]")
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]")


_UNUSED = ("automationId", "characterFilter", "cooldown", "delayUntilRecursion", "group", "triggers", "vectorized")
"""Fields that have no meaning here, beside those that begin with `match` and say what else is searched."""
_OF_ALL = _("all entries: names of speakers are not searched, no memory fires another, the client places texts")
_SPELLINGS = _(
    "the difference between Traditional and Simplified, full-width and plain characters: a key that is text is found "
    "in all"
)


@dataclass(frozen=True, slots=True)
class LoreEntry:
    """One entry, with the names and meanings of world info. `depth`, `sticky`, `delay`: messages. None: the default.
    `fields`: all fields."""

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
    probability: float
    sticky: int
    delay: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Book:
    """A lorebook. `depth`: messages that its entries scan by default; None: not given. `broken`: uid and fault of each
    entry that cannot be read. `character`: whose card it is in; `unread`: what else is in the card."""

    entries: tuple[LoreEntry, ...]
    depth: int | None
    broken: tuple[tuple[str, str], ...] = ()
    character: str | None = None
    unread: tuple[str, ...] = ()


def read_book(data: bytes) -> Book:
    """The lorebook in a file. Raises NotThisFormat."""
    value = document(data)
    book = _book_of(value)
    entries = book["entries"]
    rows = entries.items() if isinstance(entries, dict) else ((f"#{n}", row) for n, row in enumerate(entries, start=1))
    found: list[LoreEntry] = []
    broken: list[tuple[str, str]] = []
    for uid, row in rows:
        try:
            if not isinstance(row, dict):
                raise TypeError(_("it is not an object"))
            found.append(_entry(uid, _as_world_info(row)))
        except (TypeError, ValueError) as error:
            broken.append((uid, str(error)))
    if broken and not found:
        raise NotThisFormat(
            "cannot be used: entry {entry}: {reason}; export the lorebook again.", broken[0][0], broken[0][1]
        )
    card = value if "character_book" in value else fields_of(value.get("data"))
    name = str(card.get("name") or "").strip() if "character_book" in card else ""
    unread = tuple(field for field in _CARD if card.get(field)) if name else ()
    return Book(tuple(found), _whole(book.get("scan_depth")), tuple(broken), name or None, unread)


def _book_of(value: Any) -> Mapping[str, Any]:
    outer = value if isinstance(value, dict) else {}
    inner = data if isinstance(data := outer.get("data"), dict) else {}
    # `inner` alone: a lorebook of card specification V3, with `spec: lorebook_v3`.
    for book in (outer, outer.get("character_book"), inner, inner.get("character_book")):
        if isinstance(book, dict) and isinstance(book.get("entries"), dict | list):
            return book
    if isinstance(value, dict) and "spec" in value:
        raise NotThisFormat(
            "is a character card without a character book: it has no memories; export its lorebook as JSON."
        )
    if isinstance(value, list):
        raise NotThisFormat("is a list and not a lorebook; name its form with --format.")
    raise NotThisFormat('has no `entries`; export the lorebook from SillyTavern as JSON ({"entries": {"0": ...}}).')


def _as_world_info(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entry of either form, with the names of world info."""
    if "keys" not in row:
        return dict(row)
    extensions = row.get("extensions")
    finer = extensions if isinstance(extensions, dict) else {}
    fields = {_SNAKE.sub(lambda found: found[1].upper(), key): value for key, value in finer.items()}
    fields.setdefault("selective", bool(row.get("selective")))
    for key, value in row.items():
        if key in ("extensions", "enabled") or (key == "case_sensitive" and value is None):
            continue
        if key != "position" or key not in fields:  # the one in the extensions is finer
            fields[_BOOK_NAMES.get(key, key)] = value
    return fields | {"disable": not row.get("enabled", True)}


def _entry(uid: str, row: Mapping[str, Any]) -> LoreEntry:
    """Raises TypeError or ValueError if a field has a value that it cannot have."""
    number = int(row.get("selectiveLogic") or 0)
    if not 0 <= number < len(LOGICS):
        raise ValueError(_("selectiveLogic is {number}, known are 0 to {logics}", number, len(LOGICS) - 1))
    selective = row.get("selective", True)
    keys, secondary = _keys(row.get("key")), _keys(row.get("keysecondary"))
    chance = row.get("probability") if row.get("useProbability", True) else None
    return LoreEntry(
        uid=str(uid if row.get("uid") is None else row["uid"]),
        title=" ".join(
            str(row.get("comment") or row.get("name") or (keys[0] if keys else _("entry {uid}", uid))).split()
        ),
        content=str(row.get("content") or ""),
        keys=keys,
        secondary=secondary if selective else (),
        logic=LOGICS[number],
        constant=bool(row.get("constant")),
        enabled=not row.get("disable", False),
        all_regex=bool(row.get("use_regex")),
        depth=_whole(row.get("scanDepth")),
        whole_words=whole if isinstance(whole := row.get("matchWholeWords"), bool) else None,
        case_sensitive=exact if isinstance(exact := row.get("caseSensitive"), bool) else None,
        probability=100.0 if chance is None else float(chance),
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


# --- as long-term memories ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for an entry that does not say it: the settings of its owner's SillyTavern. `names`: the meanings of
    `char` and `user`."""

    depth: int | None = None
    whole_words: bool = True
    case_sensitive: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """The text with its macros replaced, as far as their meaning is known."""
        known = {f"{{{{{name}}}}}": meaning for name, meaning in self.names.items()}
        return _MACRO.sub(lambda found: known.get(found[0].lower(), found[0]), text)


def expressions(book: Book) -> list[str]:
    """The keys with the form of an expression. `read` must be told which of them V8 does not compile."""
    return [key for entry in book.entries for key in (*entry.keys, *entry.secondary) if _parsed(key, entry) is not None]


def read(
    book: Book, source: str, usual: str, invalid: Collection[str] = (), defaults: Defaults = Defaults()
) -> Incoming:
    """The entries of a lorebook, for the conversation `usual`. `source`: name of its file; `invalid`: expressions that
    V8 does not compile."""
    found = Incoming()
    rows: list[tuple[str, Json]] = []
    titles = Counter(defaults.named(entry.title) for entry in book.entries)
    for entry in book.entries:
        title = defaults.named(entry.title)
        place = _("{title} (entry {uid})", title, entry.uid) if titles[title] > 1 else title
        decorators, content = _decorators(defaults.named(entry.content))
        depth = next(one for one in (entry.depth, defaults.depth, book.depth, SILLYTAVERN_DEPTH) if one is not None)
        if (reason := _why_not(entry, decorators, content, depth)) is not None:
            found.skipped.append((place, reason))
            continue
        lost: list[str] = []
        trigger = _trigger(entry, "@@activate" in decorators, depth, defaults, invalid, lost)
        if unused := ", ".join(_unused(decorators, entry.fields)):
            lost.append(_("{unused}: has no meaning here", unused))
        lost += _lost_macros((content, *entry.keys, *entry.secondary), defaults)
        record = {"name": title, "prompt": content, "createdContext": _("{source}, entry {uid}", source, entry.uid)}
        record["trigger"] = f"{literals.comment(f'World info entry {entry.uid}: {title}')}\n{trigger}"
        rows.append((place, record | ({"notes": lost} if lost else {})))
        found.notes += [_("{about}: {what}", place, line) for line in lost]
    found.skipped += [(_("entry {uid}", uid), _("it cannot be read: {fault}", fault)) for uid, fault in book.broken]
    found.conversations = [Contents(usual, (), found.long_terms(rows))]
    found.notes.append(_OF_ALL)
    if book.unread:
        found.notes.append(_("of the card: {fields}; its client puts these into the prompt", ", ".join(book.unread)))
    if any(spelled_in_two_ways(key) for entry in book.entries for key in (*entry.keys, *entry.secondary)):
        found.notes.append(_SPELLINGS)
    return found


def _decorators(content: str) -> tuple[list[str], str]:
    lines = content.split("\n")
    count = next((n for n, line in enumerate(lines) if not line.startswith("@@")), len(lines))
    return [line.strip() for line in lines[:count]], "\n".join(lines[count:])


def _why_not(entry: LoreEntry, decorators: Collection[str], content: str, depth: int) -> str | None:
    constant = entry.constant or "@@activate" in decorators
    if not entry.enabled:
        return _("it is disabled")
    if "@@dont_activate" in decorators:
        return _("@@dont_activate keeps it from ever firing")
    if not content.strip():
        return _("it has no content")
    if entry.probability <= 0:
        return _("its probability is 0")
    if not constant and not entry.keys:
        why = _("vectorized: it is found by meaning") if entry.fields.get("vectorized") else _("it has no keys")
        return _("{why}; give it a trigger of its own", why)
    if not constant and depth < 1:
        return _("scanDepth {depth} looks at no message", depth)
    return None


def _trigger(
    entry: LoreEntry, activated: bool, depth: int, defaults: Defaults, invalid: Collection[str], lost: list[str]
) -> str:
    """The keys, and the other conditions: a number of messages, a probability."""
    conditions = [f"context.messages.length >= {entry.delay}"] if entry.delay else []
    if not (entry.constant or activated):
        if not (entry.secondary and entry.logic.startswith("NOT")):
            depth += entry.sticky  # a trigger does not know when it last fired
        conditions += _sought(entry, defaults, depth, invalid, lost)
    if entry.probability < 100:
        conditions.append(f"Math.random() < {entry.probability / 100:g}")
    return "\n  && ".join(conditions or ["true"])


def _sought(entry: LoreEntry, defaults: Defaults, depth: int, invalid: Collection[str], lost: list[str]) -> list[str]:
    primary = [_key(key, entry, defaults, invalid, lost) for key in entry.keys]
    secondary = [_key(key, entry, defaults, invalid, lost) for key in entry.secondary]
    if len(primary) == 1 and secondary and entry.logic == "AND_ALL":
        return [literals.call("match_keys_all", primary + secondary, depth=depth)]
    found = f"{literals.call('match_keys', primary, depth=depth)} > 0"
    if not secondary:
        return [found]
    second = literals.call("match_keys_all" if entry.logic.endswith("ALL") else "match_keys", secondary, depth=depth)
    forms = {"AND_ANY": "{} > 0", "NOT_ANY": "{} === 0", "AND_ALL": "{}", "NOT_ALL": "!{}"}
    return [found, forms[entry.logic].format(second)]


def _parsed(key: str, entry: LoreEntry) -> tuple[str, str] | None:
    """Body and flags of a key with the form of an expression."""
    found = _EXPRESSION.fullmatch(key)
    if found and not _OPEN_SLASH.search(found["body"]):
        return found["body"], found["flags"]
    return (key.replace("/", r"\/"), "") if entry.all_regex else None


def _key(key: str, entry: LoreEntry, defaults: Defaults, invalid: Collection[str], lost: list[str]) -> str:
    """A key as match_keys takes it: a string if that means the same, otherwise an expression."""
    given = _parsed(key, entry)
    if given is not None and key in invalid:
        lost.append(_("key {key}: not a valid expression; sought as plain text, as SillyTavern does", key))
        given = None
    if given is not None:
        body, flags = given
        if "m" not in flags and (body.startswith("^") or (body.endswith("$") and not body.endswith("\\$"))):
            lost.append(_("key {key}: ^ and $ are the ends of one message here, not of all scanned text", key))
        line = body.replace("\r", r"\r").replace("\n", r"\n")
        return f"/{line}/{flags.replace('g', '').replace('y', '')}"
    text = defaults.named(key)
    exact = defaults.case_sensitive if entry.case_sensitive is None else entry.case_sensitive
    whole = defaults.whole_words if entry.whole_words is None else entry.whole_words
    whole = whole and not re.search(r"\s", text)
    edged = _ASCII_WORD.match(text[0]) or _ASCII_WORD.match(text[-1])
    foreign = literals.has_ideograph(text) or not (_ASCII.match(text[0]) and _ASCII.match(text[-1]))
    # match_keys wants an edge beside a letter only: it finds `#hello` in `a#hello`, and SillyTavern does not.
    marked = whole and not foreign and not (_ASCII_WORD.match(text[0]) and _ASCII_WORD.match(text[-1]))
    if not exact and not marked and (literals.has_ideograph(text) or whole or not edged):
        return literals.string(text)
    return literals.expression(text, "" if exact else "i", whole=whole and not foreign)


def _unused(names: Iterable[str], fields: Mapping[str, Any]) -> Iterator[str]:
    yield from (name for name in names if name != "@@activate")
    for name, value in fields.items():
        is_set = any(value.values()) if isinstance(value, dict) else value
        if is_set and (name in _UNUSED or (name.startswith("match") and name != "matchWholeWords")):
            yield name


def _lost_macros(texts: Iterable[str], defaults: Defaults) -> Iterator[str]:
    for macro in dict.fromkeys(_MACRO.findall(" ".join(texts))):
        if defaults.named(macro) == macro:
            name = macro.strip("{}").lower()
            advice = f"give --{name} NAME" if name in ("char", "user") else _("nothing replaces it here")
            yield _("{macro}: stays as it is; {advice}", macro, advice)
