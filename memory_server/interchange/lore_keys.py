"""The keys of a lore entry as a trigger that a person can read.

Sources: facts of SillyTavern's public/scripts/world-info.js. SillyTavern looks for keys in the last `scanDepth`
messages joined together, the newest first, each behind a mark and the name of its speaker. A key `/re/flags` is an
expression, which may reach over several messages; otherwise upper case counts only if that is set. With whole words, a
single word must stand between characters that are not ASCII word characters; several words are a substring. An empty
key is never found, a key of blanks always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field

from languages import Sentence
from memory_server.interchange.lorebooks import Book, LoreEntry
from memory_server.kernel.values import dataclass
from memory_server.lore import ScoredKeys, filled_key, with_names
from sandbox import literals

SILLYTAVERN_DEPTH = 2
"""Messages that SillyTavern scans unless its user says otherwise (world_info_depth)."""
NAMED = "named"
"""The scope of match_keys with the names of speakers."""
ANYBODY = "any"
"""The scope of match_keys without them."""
SCANNED = {NAMED: "scanned", ANYBODY: "scanned_unnamed"}
"""The same scopes where expressions are sought: in one text of all messages."""
_EVERYWHERE = "/(?:)/"
"""An expression that is found in every text."""
_DOTTED_I = re.compile("İ|i\u0307")
"""What is the same in lower case, though it is one character and two: expressions do not know it."""
_EXPRESSION = re.compile(r"/(?P<body>[\s\S]+?)/(?P<flags>[gimsuy]*)")
_OPEN_SLASH = re.compile(r"(^|[^\\])/")
_SYNTAX = re.compile(r"[\\^$.*+?()\[\]{}|/]")
_ASCII = re.compile(r"[!-~]")
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]")
_FORMS = {"AND_ANY": "{} > 0", "NOT_ANY": "{} === 0", "AND_ALL": "{}", "NOT_ALL": "!{}"}
"""What a condition on keys is in JavaScript, around the call that looks for them."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for an entry that does not say it: the settings of its owner's SillyTavern. `names`: the meanings of
    `char` and `user`. `recursion`: the texts of a book that came are searched too, in `most_rounds` rounds with that of
    the messages; 0: there is no bound. `speakers`: the names of speakers
    are part of what is searched. `group_scoring`: in groups, the number of keys counts."""

    depth: int | None = None
    whole_words: bool = True
    case_sensitive: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    recursion: bool = True
    speakers: bool = True
    group_scoring: bool = False
    most_rounds: int = 0

    def named(self, text: str, spelled: Callable[[str], str] = str) -> str:
        """The text with the names in place of their macros, as far as they are known; each name as `spelled` has it."""
        return with_names(text, self.names, spelled)

    def key(self, key: str, spelled: Callable[[str], str] = str) -> str:
        """A key with its macros filled. One of blanks is one blank, which SillyTavern finds in every text."""
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
        """The expression as a literal of JavaScript, which stands in one line and looks for one place. With the flag y
        that place is the beginning, as there."""
        line = self.body.replace("\r", r"\r").replace("\n", r"\n")
        flags = self.flags.replace("g", "")
        return f"/{line}/{flags}"


def expressions(book: Book, defaults: Defaults = Defaults()) -> list[str]:
    """The keys with the form of an expression. `KeyWriter` must be told which of them V8 does not compile."""
    texts: list[str] = []
    for entry in book.entries:
        for key in keys_of(entry):
            expression = _parsed(key, entry, defaults)
            if expression is not None:
                texts.append(expression.text)
    return texts


def keys_of(entry: LoreEntry) -> Iterator[str]:
    """All keys of an entry."""
    yield from entry.keys
    yield from entry.secondary
    for condition in entry.conditions:
        yield from condition.keys


def _parsed(key: str, entry: LoreEntry, defaults: Defaults) -> Expression | None:
    """A key as an expression; None: it is plain text."""
    match = _EXPRESSION.fullmatch(defaults.key(key, _without_syntax))
    if match is not None and not _OPEN_SLASH.search(match["body"]):
        return Expression(match["body"], match["flags"])
    if not entry.all_regex or not key.strip():
        return None
    return Expression(key.replace("/", r"\/"), "")


def _without_syntax(name: str) -> str:
    """A name as an expression that looks for just this name."""
    return _SYNTAX.sub(r"\\\g<0>", name)


@dataclass(frozen=True, slots=True)
class KeyWriter:
    """Writes the keys of `entry`, which are sought in the last `depth` messages. `invalid`: expressions that V8 does
    not compile. `lost` receives a sentence for each thing that a key says and its literal does not."""

    entry: LoreEntry
    depth: int
    defaults: Defaults
    invalid: Collection[str]
    lost: list[Sentence]

    @property
    def scope(self) -> str:
        """The scope of match_keys. Text stands in one of the messages, if it stands in all of them."""
        scope = NAMED if self.defaults.speakers else ANYBODY
        if any(self._valid_expression(key) for key in keys_of(self.entry)):
            return SCANNED[scope]
        return scope

    def conditions(self) -> list[str]:
        """The conditions of the entry on keys, which must all hold."""
        entry = self.entry
        primary = self._literals(entry.keys)
        wants_all = entry.secondary and entry.logic == "AND_ALL" and not entry.conditions
        if len(primary) == 1 and wants_all:
            return [self._call("match_keys_all", [*primary, *self._literals(entry.secondary)])]
        conditions: list[str] = []
        if primary:
            conditions.append(_FORMS["AND_ANY"].format(self._call("match_keys", primary)))
        if entry.secondary:
            conditions.append(self._condition(entry.secondary, entry.logic))
        conditions += [
            self._condition(condition.keys, condition.logic) for condition in entry.conditions
        ]
        return conditions

    def scored_keys(self) -> ScoredKeys:
        """The keys as they are counted where the number of them decides a group."""
        secondary: tuple[str, ...] = ()
        if self.entry.logic.startswith("AND"):
            secondary = tuple(self._literals(self.entry.scored_secondary))
        return ScoredKeys(
            primary=tuple(self._literals(self.entry.keys)),
            secondary=secondary,
            logic=self.entry.logic,
            call=f"context.messages, [{{}}], '{self.scope}', {self.depth}",
        )

    def _condition(self, keys: Sequence[str], logic: str) -> str:
        function = "match_keys_all" if logic.endswith("ALL") else "match_keys"
        return _FORMS[logic].format(self._call(function, self._literals(keys)))

    def _call(self, function: str, keys: Sequence[str]) -> str:
        return literals.call(function, keys, depth=self.depth, scope=self.scope)

    def _literals(self, keys: Sequence[str]) -> list[str]:
        return [self._literal(key) for key in keys]

    def _literal(self, key: str) -> str:
        """A key as match_keys takes it: a string if that means the same, otherwise an expression."""
        expression = self._valid_expression(key)
        if expression is not None:
            return expression.literal
        if _parsed(key, self.entry, self.defaults) is not None:
            self.lost.append(
                Sentence(
                    "key {key}: not a valid expression; it is looked for as plain text, as SillyTavern does",
                    key,
                )
            )
        return self._plain(self.defaults.key(key))

    def _valid_expression(self, key: str) -> Expression | None:
        """A key as an expression that V8 compiles; None: it is looked for as plain text."""
        expression = _parsed(key, self.entry, self.defaults)
        if expression is None or expression.text in self.invalid:
            return None
        return expression

    def _plain(self, text: str) -> str:
        if not text:
            return literals.string(text)
        if not text.strip():
            return _EVERYWHERE
        entry = self.entry
        is_exact = (
            self.defaults.case_sensitive if entry.case_sensitive is None else entry.case_sensitive
        )
        is_whole = self.defaults.whole_words if entry.whole_words is None else entry.whole_words
        if re.search(r"\s", text):
            is_whole = False
        begins_in_word = _ASCII_WORD.match(text[0]) is not None
        ends_in_word = _ASCII_WORD.match(text[-1]) is not None
        has_ideograph = literals.has_ideograph(text)
        is_foreign = has_ideograph or not (_has_edges(text[0]) and _has_edges(text[-1]))
        # match_keys wants an edge beside a letter only: it finds `#hello` in `a#hello`, and SillyTavern does not.
        is_marked = is_whole and not is_foreign and not (begins_in_word and ends_in_word)
        means_the_same = has_ideograph or is_whole or not (begins_in_word or ends_in_word)
        has_two_forms = not is_exact and _DOTTED_I.search(text) is not None
        if not is_exact and not is_marked and means_the_same and not has_two_forms:
            return literals.string(text)
        flags = "" if is_exact else "i"
        if not has_two_forms:
            return literals.expression(text, flags, whole=is_whole and not is_foreign)
        text = _DOTTED_I.sub("İ", text)
        expression = literals.expression(text, flags, whole=is_whole and not is_foreign)
        return expression.replace("İ", "(?:İ|i\u0307)")


def _has_edges(char: str) -> bool:
    """Whether words of such characters are written apart from others: ASCII, and letters with upper and lower case."""
    return _ASCII.match(char) is not None or char.lower() != char.upper()
