"""What must be there for a search to find a text or an expression: the algebra of needs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NoReturn, TypeAlias

from sandbox.javascript.spelling import folded, normal

MOST_WORD = 12
"""Characters of a word that are looked for."""
DEPTHS = (1, 2, 4, 8, 16, 0)
"""The numbers of last messages that are told apart; 0 for all. Others count as the next greater one."""
ROLES: Mapping[str, tuple[str, ...]] = {"any": (), "user": ("user",), "assistant": ("assistant", "char")}
"""The scopes of match_keys that are told apart, with their roles; the others count as `any`."""
Window: TypeAlias = tuple[str, int]
"""One of ROLES and of DEPTHS: the messages in which a word is looked for."""
Constant: TypeAlias = bool | float | str | None
Atom: TypeAlias = tuple[Window | str, Constant]
"""Where a word must be and the word in normal form, or one of FACTS and its value."""
Need: TypeAlias = frozenset[Atom] | None
"""At least one of them must be there; if it is empty, that is never so. None: nothing need be there."""
NEVER: Final[Need] = frozenset()

_PART = re.compile(
    r"\\b|\(\?<!\\w\)|\(\?!\\w\)|\^|\$|(?:\.|\\[sSdDwW])(?P<many>[*+]|\{\d{1,2},\d{1,2}\})?\??"
    r"|(?P<open>\((?:\?:)?)|(?P<close>\)(?P<maybe>\??))|(?P<or>\|)"
    r"|(?:\\(?P<escaped>[\\^$.*+?()\[\]{}|/])|(?P<char>[^\\^$.*+?()\[\]{}|/]))(?P<absent>\??)"
)
_CASED = "".join(one for one in map(chr, range(0xC0, 0x500)) if one.lower() != one.upper() and one not in "İıŉǰΐΰ")
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
    return sum(0.1 if isinstance(place, str) else 2.0 ** -len(str(what).encode()) for place, what in need)


def nearer(one: int, other: int) -> int:
    """The smaller of two depths, as DEPTHS has it; 0 is all."""
    least = min(one or 10**9, other or 10**9)
    return next((depth for depth in DEPTHS if depth >= least), 0)


def search_need(kind: str | None, what: str, role: str, depth: int, glue: str | None) -> Need:
    """What it needs that a text, or an expression (of the kind `pattern`), is found in messages of a role, among the
    last so many. `glue`: what joins them; a word may not reach over it. Raises NotUnderstood."""
    window = (role if role in ROLES else "any", depth)
    if kind == "pattern":
        return pattern_need(what, window, glue)
    in_one_spelling = folded(what)
    as_written = word_need(what, window, glue)
    return as_written if in_one_spelling == what else either(as_written, word_need(in_one_spelling, window, glue))


def word_need(text: str, window: Window, glue: str | None) -> Need:
    pieces = [normal(piece) for piece in _SURE.findall(text)]
    if glue is not None:
        apart = f"[{re.escape(normal(glue))}]" if glue else "(?<=.)"
        pieces = [part for piece in pieces for part in re.split(apart, piece)]
    best = max((piece[:MOST_WORD] for piece in pieces), key=lambda piece: len(piece.encode()), default="")
    return frozenset([(window, best)]) if best else None


def pattern_need(literal: str, window: Window, glue: str | None) -> Need:
    """As each arm of an expression such as `/a(b|c)/i` needs all of its parts, and the whole one of the arms."""
    body, _, flags = literal[1:].rpartition("/")
    if set(flags) - set("gimsuy") or len(set(flags)) < len(flags):
        raise NotUnderstood
    outer: list[tuple[Need, Need]] = []
    arms: Need = NEVER
    arm: Need = None
    run, at, loops = "", 0, 0
    while at < len(body):
        part = _PART.match(body, at) or refuse()
        at, char = part.end(), part["escaped"] or part["char"]
        if char and not part["absent"]:
            run += char
            continue
        arm, run, loops = both(arm, word_need(run, window, glue)), "", loops + bool(part["many"])
        if part["or"]:
            arms, arm = either(arms, arm), None
        elif part["open"]:
            outer.append((arms, arm))
            arms, arm = NEVER, None
        elif part["close"]:
            inner = None if part["maybe"] else either(arms, arm)
            arms, arm = outer.pop()
            arm = both(arm, inner)
    if outer or loops > 2:
        raise NotUnderstood
    return either(arms, both(arm, word_need(run, window, glue)))


def refuse() -> NoReturn:
    raise NotUnderstood
