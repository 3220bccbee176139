"""What must be there for a search to find a text or an expression: the algebra of needs. Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import NoReturn

from sandbox.javascript.spelling import UNSEEN, folded, normal
from sandbox.prospects import DEPTHS, MOST_WORD, NAMED, NEVER, ROLES, SCANNED, Need, Window

_CLASS = r"\[\^?(?:a-z|A-Z|0-9|[^-\\\[\]]|\\[sSdDwW\\^$.*+?()\[\]{}|/])+\]"
"""A class of characters whose ranges, if it has any, are in order whatever the flags are."""
_PART = re.compile(
    rf"(?:\.|\\[sSdDwW]|{_CLASS})(?P<many>[*+]|\{{\d{{1,2}},\d{{1,2}}\}})?\??"
    r"|\\b|\(\?<!\\w\)|\(\?!\\w\)|\^|\$"
    r"|(?P<open>\((?:\?:)?)|(?P<close>\)(?P<maybe>\??))|(?P<or>\|)"
    r"|(?:\\(?P<escaped>[\\^$.*+?()\[\]{}|/])|(?P<char>[^\\^$.*+?()\[\]{}|/]))(?P<absent>\??)"
)
_MOST_LOOPS = 2
"""Repetitions such as `.*` in an expression; with more of them V8 may need long."""
_MARKS = ("Mn", "Mc", "Me")
"""The categories of Unicode of the marks that a letter may have."""
_JOINED = re.compile(f"{UNSEEN}|[\u1160-\u11ff\u3130-\u318f\uff9e-\uffdc]")
"""Beside marks: what is not seen, and later letters of a Korean syllable and marks of kana, which are joined too."""
_CASED = "".join(
    char
    for char in map(chr, range(0xC0, 0x500))
    if char.lower() != char.upper() and char not in "İıŉǰΐΰ"
)
_SURE = re.compile(
    rf"[ -~{_CASED}\u2010-\u205e\u2190-\u23ff\u2500-\u27bf\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff01-\uff5e]+"
)
"""Only in these characters all versions of Unicode agree about case: a word ends at any other."""


class NotUnderstood(Exception):
    """The trigger has something that is not in the grammar."""


def either(one: Need, other: Need) -> Need:
    return None if one is None or other is None else one | other


def both(one: Need, other: Need) -> Need:
    return min(one, other, key=_likely)


def _likely(need: Need) -> float:
    """How likely it is met, as a rough guess."""
    if need is None:
        return float("inf")
    return sum(
        0.1 if isinstance(place, str) else 2.0 ** -len(str(what).encode()) for place, what in need
    )


def nearer(one: int, other: int) -> int:
    """The smaller of two depths, as DEPTHS has it; 0 is all."""
    least = min(one or 10**9, other or 10**9)
    return next((depth for depth in DEPTHS if depth >= least), 0)


def window_of(role: str, depth: int) -> Window:
    """The messages of a scope of match_keys among the last `depth`; a scope that is not told apart counts as all."""
    if role == SCANNED:
        role = NAMED
    return (role if role in ROLES else "any", depth)


def text_need(text: str, window: Window, glue: str | None) -> Need:
    """What it needs that a text is found in the messages of a window. `glue`: what joins them; a word may not reach
    over it."""
    in_one_spelling = folded(_without_joined(text))
    as_written = word_need(text, window, glue)
    if in_one_spelling == text:
        return as_written
    return either(as_written, word_need(in_one_spelling, window, glue))


def _without_joined(text: str) -> str:
    """The text without the characters that one of its escapes (NUL stands for them) may be joined with in the spelling
    in which words are compared: e and an escaped accent are one character there."""
    first, *others = text.split("\0")
    parts = [first, *(_without_marks(part[::-1])[::-1] for part in others)]
    return "\0".join([*(_without_marks(part)[:-1] for part in parts[:-1]), parts[-1]])


def _without_marks(text: str) -> str:
    """The text without the marks and the unseen characters at its end."""
    end = len(text)
    while end and (unicodedata.category(text[end - 1]) in _MARKS or _JOINED.match(text[end - 1])):
        end -= 1
    return text[:end]


def word_need(text: str, window: Window, glue: str | None) -> Need:
    """The longest word of a text, as far as all versions of Unicode agree about it; None if it has none."""
    pieces = [normal(piece) for piece in _SURE.findall(text)]
    if glue is not None:
        border = f"[{re.escape(normal(glue))}]" if glue else "(?<=.)"
        pieces = [part for piece in pieces for part in re.split(border, piece)]
    words = [piece[:MOST_WORD] for piece in pieces]
    longest = max(words, key=lambda word: len(word.encode()), default="")
    return frozenset([(window, longest)]) if longest else None


@dataclass(slots=True)
class _Alternatives:
    """What the arms of an expression or of a group need. `finished`: one of the arms that ended. `arm`: the arm that is
    read now."""

    finished: Need = NEVER
    arm: Need = None

    @property
    def need(self) -> Need:
        return either(self.finished, self.arm)

    def end_arm(self) -> None:
        self.finished = self.need
        self.arm = None


def pattern_need(literal: str, window: Window, glue: str | None) -> Need:
    """As each arm of an expression such as `/a(b|c)/i` needs all of its parts, and the whole one of the arms. Raises
    NotUnderstood."""
    body, _slash, flags = literal[1:].rpartition("/")
    if set(flags) - set("gimsuy") or len(set(flags)) < len(flags):
        raise NotUnderstood
    alternatives = _Alternatives()
    outer: list[_Alternatives] = []
    letters = ""
    position = 0
    loops = 0
    while position < len(body):
        part = _PART.match(body, position) or refuse()
        position = part.end()
        letter = part["escaped"] or part["char"]
        if letter and not part["absent"]:
            letters += letter
            continue
        alternatives.arm = both(alternatives.arm, word_need(letters, window, glue))
        letters = ""
        if part["many"]:
            loops += 1
        elif part["or"]:
            alternatives.end_arm()
        elif part["open"]:
            outer.append(alternatives)
            alternatives = _Alternatives()
        elif part["close"]:
            group = alternatives
            alternatives = outer.pop() if outer else refuse()
            if not part["maybe"]:
                alternatives.arm = both(alternatives.arm, group.need)
    if outer or loops > _MOST_LOOPS:
        raise NotUnderstood
    alternatives.arm = both(alternatives.arm, word_need(letters, window, glue))
    return alternatives.need


def refuse() -> NoReturn:
    raise NotUnderstood
