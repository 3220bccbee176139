"""Decorators: the lines `@@name value` at the beginning of an entry's content, which say when and where it comes.

Sources: facts of the character card specification V3 ("Decorators") and of RisuAI, which writes most of them and has
more names (its numbers count all messages of a chat, as the delay of world info does); SillyTavern knows `@@activate`
and `@@dont_activate`. A line `@@@name value` is the fallback of the decorator before it: it holds if that decorator
does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from itertools import chain

from memory_server.kernel.values import dataclass

_LINE = re.compile(r"(?P<marks>@{2,3})(?P<name>[A-Za-z]\w*)[ \t]*(?P<value>.*)")
_KEYS = ("additional_keys", "exclude_keys", "exclude_keys_all")
"""The decorators whose values are keys."""
_PLACEMENTS = frozenset(("position", "depth", "reverse_depth", "role", "end"))
"""What says only where a client puts the text."""
_ROLES = ("system", "user", "assistant")
"""The roles of a text, by the number that world info has for each."""
LAST_ORDER = -1000.0
"""The order of an entry that must give way to all others; RisuAI has the same number for it."""


@dataclass(frozen=True, slots=True)
class Decorators:
    """What the decorators of an entry say. None and an empty text or tuple: no decorator says it.

    `additional`: groups of keys of each of which one must be there; `excluded`: keys of which none may be there;
    `excluded_together`: groups that may not be there as a whole. `after`, `every`: numbers of messages. `once`: it
    does not come again after it came; `stays`: it always comes after it came. `placement`: names and values of
    decorators that say where a client puts the text. `unknown`: the lines that have no meaning here."""

    additional: tuple[tuple[str, ...], ...] = ()
    excluded: tuple[str, ...] = ()
    excluded_together: tuple[tuple[str, ...], ...] = ()
    after: int | None = None
    every: int | None = None
    scan_depth: int | None = None
    probability: float | None = None
    order: float | None = None
    whole_words: bool | None = None
    is_constant: bool = False
    is_forbidden: bool = False
    once: bool = False
    stays: bool = False
    prevents_recursion: bool | None = None
    excluded_from_recursion: bool = False
    placement: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


def decorators_in(content: str) -> tuple[Decorators, str]:
    """Split the content of an entry into the decorators at its beginning, and the content without their lines."""
    if not content.lstrip().startswith("@@"):
        return Decorators(), content
    lines = content.split("\n")
    reading = _Reading()
    end = 0
    while end < len(lines) and (lines[end].strip().startswith("@@") or not lines[end].strip()):
        if lines[end].strip():
            reading.add(lines[end].strip())
        end += 1
    reading.finish()
    return reading.decorators(), "\n".join(lines[end:])


class _Reading:
    """The decorators of the lines that were read so far. A decorator without meaning waits for a fallback with one."""

    def __init__(self) -> None:
        self._keys: dict[str, list[tuple[str, ...]]] = {name: [] for name in _KEYS}
        self._values: dict[str, str] = {}
        self._unknown: list[str] = []
        self._waiting: list[str] = []
        self._is_settled = True  # a fallback without a decorator before it has no meaning

    def add(self, line: str) -> None:
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
        self._unknown += self._waiting[:1]
        self._waiting.clear()
        self._is_settled = False

    def _takes(self, name: str, value: str) -> bool:
        """Tell whether this decorator has a meaning here with this value. Of several with the same name the first
        holds, but decorators with keys add up."""
        if name in self._keys:
            keys = tuple(key.strip() for key in value.split(",") if key.strip())
            if keys:
                self._keys[name].append(keys)
            return bool(keys)
        is_valid = _VALID.get(name)
        if is_valid is None or not is_valid(value):
            return False
        self._values.setdefault(name, value)
        return True

    def decorators(self) -> Decorators:
        values = self._values
        order = _float_of(values.get("priority"))
        if "ignore_on_max_context" in values:
            order = LAST_ORDER

        whole_words = None
        if "match_partial_word" in values:
            whole_words = False
        if "match_full_word" in values or "match_word_boundary" in values:
            whole_words = True

        prevents_recursion = True if "unrecursive" in values else None
        if "recursive" in values:
            prevents_recursion = False

        return Decorators(
            additional=tuple(self._keys["additional_keys"]),
            excluded=tuple(chain.from_iterable(self._keys["exclude_keys"])),
            excluded_together=tuple(self._keys["exclude_keys_all"]),
            after=_int_of(values.get("activate_only_after")),
            every=_int_of(values.get("activate_only_every")),
            scan_depth=_int_of(values.get("scan_depth")),
            probability=_float_of(values.get("probability")),
            order=order,
            whole_words=whole_words,
            is_constant="activate" in values or "constant" in values,
            is_forbidden="dont_activate" in values and "activate" not in values,
            once="dont_activate_after_match" in values,
            stays="keep_activate_after_match" in values,
            prevents_recursion=prevents_recursion,
            excluded_from_recursion="no_recursive_search" in values,
            placement={name: value for name, value in values.items() if name in _PLACEMENTS},
            unknown=tuple(self._unknown),
        )


def placement_fields(placement: Mapping[str, str]) -> dict[str, int]:
    """`position`, `depth` and `role` with the numbers of world info, as far as decorators name what it has too."""
    fields: dict[str, int] = {}
    depth = "0" if "end" in placement else placement.get("depth")
    if depth is not None:
        fields |= {"position": _AT_DEPTH, "depth": int(depth)}
    position = _POSITIONS.get(placement.get("position", ""))
    if position is not None:
        fields["position"] = position
    if "role" in placement:
        fields["role"] = _ROLES.index(placement["role"])
    return fields


_POSITIONS = {"before_desc": 0, "after_desc": 1}
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


def _is_any(_value: str) -> bool:
    return True


_VALID: Mapping[str, Callable[[str], bool]] = {
    "activate": _is_any,
    "activate_only_after": _is_count,
    "activate_only_every": _is_divisor,
    "constant": _is_any,
    "depth": _is_number,
    "dont_activate": _is_any,
    "dont_activate_after_match": _is_any,
    "end": _is_any,
    "ignore_on_max_context": _is_any,
    "keep_activate_after_match": _is_any,
    "match_full_word": _is_any,
    "match_partial_word": _is_any,
    "match_word_boundary": _is_any,
    "no_recursive_search": _is_any,
    "position": bool,
    "priority": _is_number,
    "probability": _is_share,
    "recursive": _is_any,
    "reverse_depth": _is_number,
    "role": _ROLES.__contains__,
    "scan_depth": _is_count,
    "unrecursive": _is_any,
}
"""The decorators that have a meaning here, beside those with keys, and which values each can have."""


def _int_of(value: str | None) -> int | None:
    if value is None:
        return None
    return int(value)


def _float_of(value: str | None) -> float | None:
    if value is None:
        return None
    return float(value)
