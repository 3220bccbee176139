"""The keys by which an entry of a book comes to mind: its fields, and the trigger that is written from them.

The fields are the truth (shelf.py decides by them). The trigger is for people, for other programs and for V8,
which decides entries with expressions; it is written and never read back. A person who changes it makes the entry a
hand-written one, without keys. Pure.

Sources: facts of SillyTavern's public/scripts/world-info.js. With whole words, a single word must be between characters
that are not ASCII word characters; several words are a substring. Upper case counts only if that is set. An empty key
is never found, a key of blanks always.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from memory_server.kernel.json_text import Json
from memory_server.kernel.values import frozen
from sandbox import PlainPattern, SoughtKey, literals

NAMED = "named"
"""The scope of match_keys with the names of speakers."""
ANYBODY = "any"
"""The scope of match_keys without them."""
SCANNED = {NAMED: "scanned", ANYBODY: "scanned_unnamed"}
"""The same scopes for an entry with expressions, which are sought in one text of all messages."""
SCOPES = frozenset((*SCANNED, *SCANNED.values()))
_MOST_KEPT = 50_000
_ASCII = re.compile(r"[!-~]")
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]")
LOGIC_FORMS = {"AND_ANY": "{} > 0", "NOT_ANY": "{} === 0", "AND_ALL": "{}", "NOT_ALL": "!{}"}
"""What a condition on keys is in JavaScript, around the call that looks for them."""


@frozen
class KeyCondition:
    """Keys that must be there or not. `logic`: AND_ANY, AND_ALL, NOT_ANY or NOT_ALL."""

    keys: tuple[str, ...]
    logic: str


@frozen
class CountedKeys:
    """The keys of an entry that count where the number of keys decides a group. `logic`: AND_ANY and AND_ALL let the
    secondary keys count too."""

    primary: tuple[str, ...]
    secondary: tuple[str, ...] = ()
    logic: str = "AND_ANY"

    @property
    def all(self) -> tuple[str, ...]:
        return self.primary + self.secondary


@frozen
class EntryKeys:
    """The keys of an entry, sought in the last `depth` messages. All `conditions` must hold; the first condition has
    the primary keys. Without conditions the entry comes in every search, or, if `is_by_words`, never by its keys.
    `expressions` are the keys that are expressions of JavaScript. `is_exact`: upper case counts. `every`: it comes only
    where the number of messages is a multiple of this; 0: always. `counted`: None if no group counts its keys."""

    heading: str
    conditions: tuple[KeyCondition, ...] = ()
    scope: str = NAMED
    depth: int = 2
    expressions: tuple[str, ...] = ()
    is_exact: bool = False
    is_whole: bool = True
    every: int = 0
    is_by_words: bool = False
    counted: CountedKeys | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the entry comes in every search."""
        return not self.conditions and self.every < 2 and not self.is_by_words

    def sought(self, key: str) -> SoughtKey:
        """Return a key that is text as it is sought: a text as match_keys seeks it, or as an expression finds it."""
        return _sought(key, self.is_exact, self.is_whole)


# --- how a key that is text is sought -----------------------------------------------------------------------


def plain_pattern(text: str, *, is_exact: bool, is_whole: bool) -> PlainPattern:
    """Return the pattern of a text. A text with a blank, or in a script without upper and lower case, is a substring."""
    if not text.strip():
        return PlainPattern("", is_exact=True, is_whole=False)
    has_edges = _has_edges(text[0]) and _has_edges(text[-1])
    is_one_word = has_edges and not literals.has_ideograph(text) and not re.search(r"\s", text)
    return PlainPattern(text, is_exact, is_whole and is_one_word)


@lru_cache(_MOST_KEPT)
def _sought(key: str, is_exact: bool, is_whole: bool) -> SoughtKey:
    """Return what the trigger looks for: the key itself if match_keys finds what is meant, otherwise a pattern."""
    if not key:
        return key
    pattern = plain_pattern(key, is_exact=is_exact, is_whole=is_whole)
    return key if _means_the_same(pattern, is_whole=is_whole) else pattern


def _means_the_same(pattern: PlainPattern, *, is_whole: bool) -> bool:
    """Tell whether match_keys finds the text of a pattern where the pattern finds it, in all spellings. `is_whole`
    means that whole words are asked for."""
    text = pattern.text
    if pattern.is_exact:
        return False
    begins_in_word = _ASCII_WORD.match(text[0]) is not None
    ends_in_word = _ASCII_WORD.match(text[-1]) is not None
    if pattern.is_whole:
        # match_keys wants an edge beside a letter only: it finds `#hello` in `a#hello`, and SillyTavern does not.
        return begins_in_word and ends_in_word
    is_one_word = is_whole and re.search(r"\s", text) is None
    return is_one_word or literals.has_ideograph(text) or not (begins_in_word or ends_in_word)


def _has_edges(char: str) -> bool:
    """Return whether words of such characters are written apart from others: ASCII, and letters with upper and lower
    case."""
    return _ASCII.match(char) is not None or char.lower() != char.upper()


# --- the trigger ------------------------------------------------------------------------------------------------------


def trigger_of(keys: EntryKeys) -> str:
    """Write the trigger that a person can read, and that fires where the keys are found."""
    return f"{literals.comment(keys.heading)}\n{_condition(keys)}"


def _condition(keys: EntryKeys) -> str:
    """Return the JavaScript expression of the trigger: all conditions of the keys, `true` if there
    are none, `false` if the entry is found by its words."""
    if keys.is_by_words:
        return "false  // it is found by its words"
    conditions: list[str] = []
    if keys.every > 1:
        conditions.append(f"context.messages.length % {keys.every} === 0")

    # One primary key and others of which all must be there are one list.
    match keys.conditions:
        case [KeyCondition(keys=[primary]), KeyCondition(keys=others, logic="AND_ALL")]:
            conditions.append(_call(keys, KeyCondition((primary, *others), "AND_ALL")))
        case _:
            conditions += [_call(keys, condition) for condition in keys.conditions]
    return "\n  && ".join(conditions or ["true"])


def _call(keys: EntryKeys, condition: KeyCondition) -> str:
    function = "match_keys_all" if condition.logic.endswith("ALL") else "match_keys"
    written_keys = _literals(keys, condition.keys)
    call = literals.call(function, written_keys, depth=keys.depth, scope=keys.scope)
    return LOGIC_FORMS[condition.logic].format(call)


def _literals(keys: EntryKeys, texts: Sequence[str]) -> list[str]:
    return [_literal(keys, text) for text in texts]


def _literal(keys: EntryKeys, key: str) -> str:
    """Write a key as match_keys takes it: a string if that means the same, otherwise an expression."""
    if key in keys.expressions:
        return key
    sought = keys.sought(key)
    return sought.literal if isinstance(sought, PlainPattern) else literals.string(sought)


def question_of(keys: EntryKeys, key: str) -> str:
    """Write the trigger that is true if the messages have this key."""
    return _call(keys, KeyCondition((key,), "AND_ANY"))


def counted_json(keys: EntryKeys) -> Json | None:
    """Return the keys that count in a group in the form from before keys were data, of which fingerprints are made;
    None without any."""
    counted = keys.counted
    if counted is None:
        return None
    return {
        "primary": _literals(keys, counted.primary),
        "secondary": _literals(keys, counted.secondary),
        "logic": counted.logic,
        "call": f"context.messages, [{{}}], '{keys.scope}', {keys.depth}",
    }
