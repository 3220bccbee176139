"""The keys of a lore entry of another program as data (lore/entry_keys.py).

Sources: facts of SillyTavern's public/scripts/world-info.js. SillyTavern looks for keys in the last `scanDepth`
messages joined together, the newest first, each behind a mark and the name of its speaker. A key `/re/flags` is an
expression, which may reach over several messages; otherwise upper case counts only if that is set. With whole words, a
single word must stand between characters that are not ASCII word characters; several words are a substring. An empty
key is never found, a key of blanks always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace

from languages import Sentence
from memory_server.interchange.lorebooks import Book, LoreEntry
from memory_server.kernel.values import dataclass
from memory_server.lore import (
    ANYBODY,
    NAMED,
    SCANNED,
    CountedKeys,
    EntryKeys,
    KeyCondition,
    filled_key,
    plain_pattern,
    with_names,
)

SILLYTAVERN_DEPTH = 2
"""Messages that SillyTavern scans unless its user says otherwise (world_info_depth)."""
_DOTTED_I = re.compile("İ|i\u0307")
"""What is the same in lower case, though it is one character and two: expressions do not know it."""
_EXPRESSION = re.compile(r"/(?P<body>[\s\S]+?)/(?P<flags>[gimsuy]*)")
_OPEN_SLASH = re.compile(r"(^|[^\\])/")
_SYNTAX = re.compile(r"[\\^$.*+?()\[\]{}|/]")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for an entry that does not say it: the settings of its owner's SillyTavern. `names`: the meanings of
    `char` and `user`. `recursion`: the texts of a book that came are searched too, in `most_rounds` rounds with the
    round of the messages; 0 for no bound. `speakers`: the names of speakers are part of what is searched.
    `group_scoring`: in groups, the number of keys counts."""

    depth: int | None = None
    whole_words: bool = True
    case_sensitive: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    recursion: bool = True
    speakers: bool = True
    group_scoring: bool = False
    most_rounds: int = 0

    def named(self, text: str, spelled: Callable[[str], str] = str) -> str:
        """Return the text with the names in place of their macros, if they are known; each name as `spelled` has it."""
        return with_names(text, self.names, spelled)

    def key(self, key: str, spelled: Callable[[str], str] = str) -> str:
        """Return a key with its macros filled. A key of blanks becomes a single blank, which SillyTavern finds in
        every text."""
        filled = filled_key(key, self.names, spelled)
        return filled.strip() or filled[:1]


@dataclass(frozen=True, slots=True)
class Expression:
    """A key with the form of an expression: its body and its flags."""

    body: str
    flags: str

    @property
    def text(self) -> str:
        """The expression as the key has it."""
        return f"/{self.body}/{self.flags}"

    @property
    def literal(self) -> str:
        """The expression as a literal of JavaScript, in a single line, which looks for only one match. With the flag
        y it must be at the beginning, as there."""
        line = self.body.replace("\r", r"\r").replace("\n", r"\n")
        flags = self.flags.replace("g", "")
        return f"/{line}/{flags}"


def expressions(book: Book, defaults: Defaults = Defaults()) -> list[str]:
    """Return the keys with the form of an expression. `KeyWriter` must be told which of them V8 does not compile."""
    texts: list[str] = []
    for entry in book.entries:
        for key in keys_of(entry):
            expression = _parsed(key, entry, defaults)
            if expression is not None:
                texts.append(expression.text)
    return texts


def keys_of(entry: LoreEntry) -> Iterator[str]:
    """Yield all keys of an entry."""
    yield from entry.keys
    yield from entry.secondary
    for condition in entry.conditions:
        yield from condition.keys


def _parsed(key: str, entry: LoreEntry, defaults: Defaults) -> Expression | None:
    """Return a key as an expression, or None if it is plain text."""
    match = _EXPRESSION.fullmatch(defaults.key(key, _without_syntax))
    if match is not None and not _OPEN_SLASH.search(match["body"]):
        return Expression(match["body"], match["flags"])
    if not entry.all_regex or not key.strip():
        return None
    return Expression(key.replace("/", r"\/"), "")


def _without_syntax(name: str) -> str:
    """Write a name as an expression that looks for just this name."""
    return _SYNTAX.sub(r"\\\g<0>", name)


@dataclass(frozen=True, slots=True)
class EntryReading:
    """How the keys of `entry` are read, which are sought in the last `depth` messages. `invalid`: expressions that V8
    does not compile. `is_counted`: the number of its keys decides a group."""

    entry: LoreEntry
    depth: int
    defaults: Defaults
    invalid: Collection[str]
    is_counted: bool

    def keys(self, heading: str) -> EntryKeys:
        """Return the keys of the entry as data; `heading` is the first line of its trigger."""
        entry = self.entry
        scope = NAMED if self.defaults.speakers else ANYBODY
        # An expression is looked for in one text of all messages, as in SillyTavern.
        if any(self._valid_expression(key) for key in keys_of(entry)):
            scope = SCANNED[scope]

        # An entry without keys that is not constant came by vectors there.
        is_by_words = not entry.constant and not entry.keys
        conditions: list[KeyCondition] = []
        if entry.keys and not entry.constant:
            given = (
                KeyCondition(entry.keys, "AND_ANY"),
                KeyCondition(entry.secondary, entry.logic),
                *entry.conditions,
            )
            conditions += [self._condition(condition) for condition in given if condition.keys]

        return EntryKeys(
            heading=heading,
            conditions=tuple(conditions),
            scope=scope,
            depth=self.depth,
            expressions=self._expressions(),
            is_exact=self._is_exact,
            is_whole=self._is_whole,
            every=entry.every,
            is_by_words=is_by_words,
            counted=self._counted() if self.is_counted else None,
        )

    def lost(self) -> Iterator[Sentence]:
        """Say which keys only look like an expression."""
        for key in keys_of(self.entry):
            is_expression = _parsed(key, self.entry, self.defaults) is not None
            if is_expression and self._valid_expression(key) is None:
                yield Sentence(
                    "key {key}: not a valid expression; it is looked for as plain text, as SillyTavern does",
                    key,
                )

    @property
    def _is_exact(self) -> bool:
        is_exact = self.entry.case_sensitive
        return self.defaults.case_sensitive if is_exact is None else is_exact

    @property
    def _is_whole(self) -> bool:
        is_whole = self.entry.whole_words
        return self.defaults.whole_words if is_whole is None else is_whole

    def _condition(self, condition: KeyCondition) -> KeyCondition:
        return KeyCondition(self._keys(condition.keys), condition.logic)

    def _counted(self) -> CountedKeys:
        entry = self.entry
        secondary = entry.scored_secondary if entry.logic.startswith("AND") else ()
        return CountedKeys(self._keys(entry.keys), self._keys(secondary), entry.logic)

    def _keys(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self._key, keys))

    def _key(self, key: str) -> str:
        """Return a key as it is kept: an expression as its literal, a text with its macros filled."""
        return self._expression_of(key) or self.defaults.key(key)

    def _expressions(self) -> tuple[str, ...]:
        """Return the keys that are expressions, as they are kept."""
        keys = list(keys_of(self.entry))
        if self.is_counted:
            keys += self.entry.scored_secondary
        return tuple(dict.fromkeys(filter(None, map(self._expression_of, keys))))

    def _expression_of(self, key: str) -> str | None:
        """Return the literal of a key that V8 has to look for, or None if the key is text."""
        expression = self._valid_expression(key)
        if expression is not None:
            return expression.literal
        text = self.defaults.key(key)
        if self._is_exact or _DOTTED_I.search(text) is None:
            return None
        pattern = plain_pattern(text, is_exact=False, is_whole=self._is_whole)
        literal = replace(pattern, text=_DOTTED_I.sub("İ", text)).literal
        return literal.replace("İ", "(?:İ|i\u0307)")

    def _valid_expression(self, key: str) -> Expression | None:
        """Return a key as an expression that V8 compiles, or None if it is looked for as plain text."""
        expression = _parsed(key, self.entry, self.defaults)
        if expression is None or expression.text in self.invalid:
            return None
        return expression
