"""Conditions on the keys in a chat, as values, and what decides them without JavaScript. Pure.

A condition finds what match_keys and match_keys_all find: worker/realm/keys.js has the same rules and changes with this
file. Both agree about every text in which `is_certain`; about others the version of Unicode decides, and V8 may have a
newer one. A key of match_keys_all with a blank in it may reach over two messages there, and is sought in each here.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

from sandbox.javascript import literals
from sandbox.javascript.literals import USUAL_DEPTH
from sandbox.javascript.spelling import folded, seen
from sandbox.limits import MOST_NAME_CHARS
from sandbox.values import JsonObject, frozen

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "any": (),
    "named": (),
    "scanned": (),
    "scanned_unnamed": (),
    "user": ("user",),
    "assistant": ("assistant", "char"),
    "system": ("system",),
    "char": ("assistant", "char"),
    "both": ("user", "assistant", "char"),
    "other": ("system", "other"),
}
"""The scopes of match_keys, each with the roles whose messages it searches; without a role, all messages."""
COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "===": operator.eq,
    "==": operator.eq,
    "!==": operator.ne,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
MARK: Final = "\n\x01"
"""The text before the texts of a book that are searched with the last message."""
_PIECE: Final = 3
"""Characters of the beginning of a word, by which an index finds it."""
MOST_CHARACTERS: Final = 5_000_000
"""Characters that an index of keys looks through: some 5 ms, and 0.2 s where a key is within words everywhere. The
server waits meanwhile."""
_MOST_KEPT_TEXTS = 300
_MOST_KEPT_CHARACTERS = 1_000
"""Characters of a text whose forms are kept for the next search, which has most messages again."""
_MOST_KEPT_KEYS = 20_000
_BLANKS = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What `trim` of JavaScript removes."""
_UNCERTAIN = re.compile(
    "[\u019b\u0264\u0390\u03b0\u1c80-\u1c8f\u1f00-\u1fff\ua7c0-\ua7ff\ud800-\udfff\ufa0e-\ufa29\ufb00-\ufb06\U00010000-\U0001efff]"
)
"""Letters that have another case or no plain form in some versions of Unicode, and halves of characters."""
_IDEOGRAPHS = (("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"), ("\U00020000", "\U0003ffff"))
"""First and last characters. A pattern of so many characters takes 2 ms to compile, at each start."""
_WORD_CHARACTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
)
_ASCII_WORD: Final = re.compile("[A-Za-z0-9_]+")
_MOST_KEPT_WORDS: Final = 64
"""Texts whose words are kept; many keys look at one text after another."""
_MOST_ATTEMPTS: Final = 16
"""Places of a word in a text that are looked at one by one: a usual key is free at the first places."""
_EVERYWHERE: Final = "/(?:)/"
"""An expression that is found in every text."""


@frozen
class PlainPattern:
    """A text that is sought as an expression of JavaScript finds it: without other spellings, with or without regard to
    case. `is_whole`: not within a word of ASCII letters, digits and `_`. An empty text is found everywhere."""

    text: str
    is_exact: bool
    is_whole: bool

    @property
    def literal(self) -> str:
        """The expression as it is written in JavaScript."""
        if not self.text:
            return _EVERYWHERE
        return literals.expression(self.text, "" if self.is_exact else "i", whole=self.is_whole)


SoughtKey: TypeAlias = str | PlainPattern
"""A key: a text that is found in all spellings, or a pattern that is found as an expression finds it."""


@frozen
class KeySearch:
    """A search for keys in the last `depth` messages of a scope; a depth of 0 means all messages. It is true if a
    text has any of the keys, or, if `is_every`, if each of the keys is in a text."""

    keys: tuple[SoughtKey, ...]
    scope: str = "any"
    depth: int = USUAL_DEPTH
    is_every: bool = False


@frozen
class Comparison:
    """Compares how many keys a search finds, summed over the texts, with a number. `sign`: an item of COMPARISONS."""

    search: KeySearch
    sign: str
    number: float


@frozen
class Negation:
    """Is true if the condition in it is false."""

    condition: Condition


@frozen
class Combination:
    """Is true if any of its conditions is, or, if `is_every`, if all of them are."""

    conditions: tuple[Condition, ...]
    is_every: bool


Condition: TypeAlias = KeySearch | Comparison | Negation | Combination


def searches_of(condition: Condition) -> list[KeySearch]:
    """Return the searches for keys in a condition."""
    match condition:
        case KeySearch():
            return [condition]
        case Comparison(search=search):
            return [search]
        case Negation(condition=inner):
            return searches_of(inner)
        case Combination(conditions=conditions):
            return [search for inner in conditions for search in searches_of(inner)]


def is_certain(text: str) -> bool:
    """Tell whether all versions of Unicode agree about the letters of the text."""
    return text.isascii() or _UNCERTAIN.search(text) is None


# --- keys and texts in the forms in which they are compared ------------------------------------------------------------


class _OneCase(dict[int, str]):
    """The letters that count as the same without regard to case, for `str.translate`: one letter for one."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        for form in (letter.casefold(), letter.lower(), letter):
            if len(form) == 1:
                break
        self[code] = form
        return form


_ONE_CASE = _OneCase()


def _in_one_case(text: str) -> str:
    """Return the text as expressions with the flags `iu` compare it; it stays as long as it was."""
    return text.lower() if text.isascii() else text.translate(_ONE_CASE)


class _UpperCase(dict[int, str]):
    """The letters that an expression with the flag i takes for the same, for `str.translate`: one letter for one, and
    no other letter becomes an ASCII letter."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        upper = letter.upper()
        if len(upper) != 1 or code > 0xFFFF or (code > 0x7F and upper.isascii()):
            upper = letter
        self[code] = upper
        return upper


_UPPER_CASE = _UpperCase()


@lru_cache(_MOST_KEPT_KEYS)
def _upper_key(key: str) -> str:
    return key.translate(_UPPER_CASE)


@lru_cache(_MOST_KEPT_WORDS)
def _ascii_words(text: str) -> frozenset[str]:
    return frozenset(_ASCII_WORD.findall(text))


def stands_in(text: str, sought: str, *, begins_at_edge: bool, ends_at_edge: bool) -> bool:
    """Tell whether a text, which is not empty, is in another one, on these sides not beside an ASCII letter, digit
    or `_`."""
    if not begins_at_edge and not ends_at_edge:
        return sought in text
    if begins_at_edge and ends_at_edge and sought.isascii() and sought.isalnum():
        return sought in _ascii_words(text)

    start = text.find(sought)
    # Python looks through short texts faster than an expression that must be compiled first.
    for _attempt in range(_MOST_ATTEMPTS):
        if start == -1:
            return False
        end = start + len(sought)
        is_free_before = not begins_at_edge or text[start - 1 : start] not in _WORD_CHARACTERS
        is_free_after = not ends_at_edge or text[end : end + 1] not in _WORD_CHARACTERS
        if is_free_before and is_free_after:
            return True
        start = text.find(sought, start + 1)

    if start == -1:
        return False

    # A text that is within words everywhere, such as `a` in `aaaa`: an expression looks through the rest faster.
    before = "(?<![A-Za-z0-9_])" if begins_at_edge else ""
    after = "(?![A-Za-z0-9_])" if ends_at_edge else ""
    return re.compile(before + re.escape(sought) + after).search(text, start) is not None


@frozen
class Word:
    """A key in lower case. It is found in a text only between characters that belong to no word, on the sides where
    it has such a character itself and no ideograph anywhere."""

    text: str
    begins_at_edge: bool
    ends_at_edge: bool

    @classmethod
    def of(cls, key: str) -> Word:
        """Make the word of a key, which is not empty."""
        text = _in_one_case(key)
        has_edges = not any(
            first <= character <= last for character in key for first, last in _IDEOGRAPHS
        )
        # A letter that is not ASCII has no edge, though it may be a word character in one case (WORD_EDGE in keys.js).
        begins_in_word = key[0].isascii() and text[0] in _WORD_CHARACTERS
        ends_in_word = key[-1].isascii() and text[-1] in _WORD_CHARACTERS
        return cls(text, has_edges and begins_in_word, has_edges and ends_in_word)

    def is_in(self, text: str) -> bool:
        """Tell whether the word is in a text that is in lower case."""
        return stands_in(
            text, self.text, begins_at_edge=self.begins_at_edge, ends_at_edge=self.ends_at_edge
        )


@frozen
class Key:
    """A key as it is written, and in the spelling of `folded`, or None where nothing of it can be seen."""

    written: Word
    spelled: Word | None


@lru_cache(_MOST_KEPT_KEYS)
def compiled(key: str) -> Key:
    """Return the forms of a key, which is not empty."""
    spelling = folded(key)
    written = Word.of(key)
    if spelling == key:
        return Key(written, written)
    return Key(written, Word.of(spelling) if spelling else None)


def pieces_of(key: SoughtKey) -> set[str]:
    """Return beginnings of the key, which is not empty: a text that has the key has such a beginning."""
    forms = compiled(key.text if isinstance(key, PlainPattern) else key)
    return {form.text[:_PIECE] for form in (forms.written, forms.spelled) if form is not None}


class SpokenText:
    """A text in the forms in which keys are sought; each form is made when it is first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def written(self) -> str:
        """The text in one case, as it is written."""
        return _in_one_case(self.text)

    @cached_property
    def spelled(self) -> str:
        """The text in one case, in the one spelling of `folded`."""
        spelling = folded(self.text)
        return self.written if spelling == self.text else _in_one_case(spelling)

    @cached_property
    def exact(self) -> frozenset[str]:
        """The text as it is written and as people see it."""
        return frozenset((self.text, seen(self.text)))

    @cached_property
    def upper(self) -> frozenset[str]:
        """The same as expressions compare it without regard to case."""
        return frozenset([form.translate(_UPPER_CASE) for form in self.exact])

    @cached_property
    def pieces(self) -> frozenset[str]:
        """All beginnings of up to _PIECE characters of what is anywhere in a form, in one case."""
        pieces: set[str] = set()
        for form in {self.written, self.spelled, *map(_in_one_case, self.exact)}:
            for size in range(1, _PIECE + 1):
                pieces.update(form[start : start + size] for start in range(len(form)))
        return frozenset(pieces)

    def has(self, key: SoughtKey) -> bool:
        """Tell whether the key, which is not an empty text, is in the text."""
        if isinstance(key, PlainPattern):
            return self._has_pattern(key)
        forms = compiled(key)
        if forms.written.is_in(self.written):
            return True
        return forms.spelled is not None and forms.spelled.is_in(self.spelled)

    def _has_pattern(self, pattern: PlainPattern) -> bool:
        """Tell whether a pattern is in the text, in upper or lower case unless it is exact, and as
        a whole word if it must be one. An empty pattern always is."""
        if not pattern.text:
            return True
        texts = self.exact
        sought = pattern.text
        if not pattern.is_exact:
            texts = self.upper
            sought = _upper_key(sought)
        is_whole = pattern.is_whole
        return any(
            stands_in(text, sought, begins_at_edge=is_whole, ends_at_edge=is_whole)
            for text in texts
        )


_kept_text = lru_cache(_MOST_KEPT_TEXTS)(SpokenText)


class TooMuchText(Exception):
    """It would take too long to look through the texts for all keys, so V8 decides, which has a limit of time."""


class SearchedTexts:
    """The texts of a search. Each gets its forms once, however many keys are sought in it and at however many depths.
    All keys together may look through so many characters."""

    def __init__(self, most_characters: int) -> None:
        self._texts: dict[str, SpokenText] = {}
        self._characters_left = most_characters

    def spoken(self, text: str) -> SpokenText:
        """Return the forms of a text; the forms of a short text are kept for the next search."""
        if len(text) <= _MOST_KEPT_CHARACTERS:
            return _kept_text(text)
        forms = self._texts.get(text)
        if forms is None:
            forms = self._texts[text] = SpokenText(text)
        return forms

    def has(self, text: SpokenText, key: SoughtKey) -> bool:
        """Tell whether a key is in a text. Raises TooMuchText when more characters were searched than one search
        may."""
        self._characters_left -= len(text.text)
        if self._characters_left < 0:
            raise TooMuchText
        return text.has(key)


@lru_cache(_MOST_KEPT_KEYS)
def _distinct(keys: tuple[SoughtKey, ...]) -> tuple[tuple[SoughtKey, ...], ...]:
    """Return the keys that are no empty text, those together that are one key in several spellings."""
    groups: dict[SoughtKey, dict[SoughtKey, None]] = {}
    for key in keys:
        if not key:
            continue
        one_spelling = key if isinstance(key, PlainPattern) else folded(key) or key
        groups.setdefault(one_spelling, {})[key] = None
    return tuple(map(tuple, groups.values()))


# --- the messages of a chat -------------------------------------------------------------------------------------------


def speaker_names(context: JsonObject) -> dict[str, str]:
    """Return the names of speakers whose messages have no name, by role: as the participants of the context say; of a
    long name the beginning."""
    participants = context.get("participants")
    if not isinstance(participants, Mapping):
        return {}
    names: dict[str, str] = {}
    for role, participant_key in (("user", "user"), ("assistant", "char"), ("char", "char")):
        participant = participants.get(participant_key)
        name = participant.get("name") if isinstance(participant, Mapping) else participant
        if isinstance(name, str) and name:
            names[role] = name[:MOST_NAME_CHARS]
    return names


def named_text(message: JsonObject, names: Mapping[str, str]) -> str:
    """Return a message as the scope `named` of match_keys has it."""
    name = message.get("name")
    if not isinstance(name, str) or not name:
        name = names.get(str(message.get("role")), "")
    return f"\x01{name}: {message['content']}" if name else f"\x01{message['content']}"


class KeyIndex:
    """Many keys, which are found together: one look at a text tells by which pieces of words they can begin in it."""

    def __init__(self) -> None:
        self._keys_by_piece: dict[str, dict[SoughtKey, None]] = {}

    def add(self, key: SoughtKey) -> None:
        """Take in a key, which is not empty."""
        for piece in pieces_of(key):
            self._keys_by_piece.setdefault(piece, {})[key] = None

    def clear(self) -> None:
        """Forget all keys."""
        self._keys_by_piece.clear()

    def found_in(self, texts: Sequence[str], searched: SearchedTexts) -> set[SoughtKey]:
        """Return the keys that are in any of the texts. Raises TooMuchText. A key that a condition finds in a chat is
        in a message with the name of its speaker (`named_text`)."""
        sought_keys: set[SoughtKey] = set()
        for text in map(searched.spoken, texts):
            for piece in self._keys_by_piece.keys() & text.pieces:
                for key in self._keys_by_piece[piece].keys() - sought_keys:
                    if searched.has(text, key):
                        sought_keys.add(key)
        return sought_keys


class Chat:
    """The messages of a search, in which conditions are decided. `names`: the names of speakers, by role. `keys`: the
    keys that are in any of the messages, if it is known. A decision raises TooMuchText where all conditions together
    would take too long."""

    def __init__(
        self,
        messages: Sequence[JsonObject],
        names: Mapping[str, str],
        keys: Collection[SoughtKey] | None = None,
        searched: SearchedTexts | None = None,
    ) -> None:
        """Prepare to decide conditions in these messages. `searched`: texts that earlier chats have
        searched."""
        self._messages = messages
        self._searched = searched or SearchedTexts(MOST_CHARACTERS)
        self._names = names
        self._keys = keys
        self._texts: dict[tuple[str, int], Sequence[SpokenText]] = {}
        self._counts: dict[tuple[tuple[SoughtKey, ...], str, int], int] = {}
        """How many texts of a scope and depth have a key: many conditions share keys."""

    def holds(self, condition: Condition) -> bool:
        """Tell whether a condition is true in this chat. Raises TooMuchText."""
        match condition:
            case KeySearch(is_every=True):
                return self._has_every(condition)
            case KeySearch():
                return self.count(condition) > 0
            case Comparison(search=search, sign=sign, number=number):
                return COMPARISONS[sign](self.count(search), number)
            case Negation(condition=inner):
                return not self.holds(inner)
            case Combination(conditions=conditions, is_every=True):
                return all(map(self.holds, conditions))
            case Combination(conditions=conditions):
                return any(map(self.holds, conditions))

    def count(self, search: KeySearch) -> int:
        """Return how many of the keys each text has, summed over the texts; a scanned chat is one text."""
        count = 0
        for spellings in _distinct(search.keys):
            texts_with_key = self._texts_with(spellings, search)
            count += min(texts_with_key, 1) if _is_scanned(search.scope) else texts_with_key
        return count

    def _has_every(self, search: KeySearch) -> bool:
        if not search.keys or "" in search.keys:
            return False
        return all(self._texts_with(spellings, search) for spellings in _distinct(search.keys))

    def _texts_with(self, spellings: tuple[SoughtKey, ...], search: KeySearch) -> int:
        """Return how many texts of the search have any spelling of a key."""
        question = spellings, search.scope, search.depth
        count = self._counts.get(question)
        if count is None:
            in_chat = [key for key in spellings if self._keys is None or key in self._keys]
            texts = self.texts(search.scope, search.depth) if in_chat else ()
            count = sum(any(self._searched.has(text, key) for key in in_chat) for text in texts)
            self._counts[question] = count
        return count

    def texts(self, scope: str, depth: int) -> Sequence[SpokenText]:
        """Return the texts of the last `depth` messages that are of the scope. The one text of a scanned chat comes in
        parts: no key reaches over the marks between them."""
        window = scope, depth
        texts = self._texts.get(window)
        if texts is None:
            texts = list(map(self._searched.spoken, self._texts_in(scope, depth)))
            self._texts[window] = texts
        return texts

    def _texts_in(self, scope: str, depth: int) -> list[str]:
        """Return what a scope searches in the last `depth` messages, or in all for 0: the texts of
        its roles, or of all messages with the names of speakers. A scan trims texts, except those
        of a book."""
        messages = self._messages[-depth:]
        roles = ROLES[scope]
        if roles:
            return [message["content"] for message in messages if message.get("role") in roles]
        if scope == "any":
            return [message["content"] for message in messages]
        if scope == "scanned_unnamed":
            texts = [f"\x01{message['content']}" for message in messages]
        else:
            texts = [named_text(message, self._names) for message in messages]
        if not _is_scanned(scope) or not texts:
            return texts

        # The texts of a book stay as they are; all else is trimmed behind its mark.
        texts[-1], mark, of_book = texts[-1].partition(MARK)
        return [f"\x01{text[1:].strip(_BLANKS)}" for text in texts] + [mark + of_book]


def _is_scanned(scope: str) -> bool:
    return scope.startswith("scanned")
