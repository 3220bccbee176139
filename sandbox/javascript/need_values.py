"""What the parts of a trigger stand for, as far as it matters to what the trigger needs. Pure.

Two needs are known of each value: what must be there for it to be true, and for it to be false.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sandbox.javascript.sought import NotUnderstood, either, nearer
from sandbox.prospects import FACTS, NEVER, Constant, Need

EQUALITIES = frozenset(("===", "!==", "==", "!="))
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "===": operator.eq,
    "==": operator.eq,
    "!==": operator.ne,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of any kind. `true`, `false`: what it needs to be so."""

    is_primitive: ClassVar[bool] = False
    """Whether it is a number, a text, a truth value or null. Comparing anything else may call code of it and fail."""
    true: Need = None
    false: Need = None


@dataclass(frozen=True, slots=True)
class Primitive(Value):
    """A number, a text or a truth value of which nothing else is known."""

    is_primitive: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Usual(Primitive):
    """The constant `usual`, unless something of `unless` is there. Made by `usually`."""

    usual: Constant = None
    unless: Need = NEVER

    @property
    def is_constant(self) -> bool:
        return self.unless == NEVER


@dataclass(frozen=True, slots=True)
class Fact(Primitive):
    """A fact of the search; `name` is one of FACTS."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Text(Primitive):
    """The text of one or all of the last `depth` messages. `glue`: what joins them; None for one message."""

    depth: int = 0
    glue: str | None = None


@dataclass(frozen=True, slots=True)
class Contents(Value):
    """The list of the texts of the last `depth` messages."""

    depth: int = 0


@dataclass(frozen=True, slots=True)
class OneMessage(Value):
    """Any one of the last `depth` messages."""

    depth: int = 0


@dataclass(frozen=True, slots=True)
class Messages(Value):
    """A list of some of the last `depth` messages. `is_exact`: it has all of these, so at least one. `some`: what it
    needs that there are any; None where nothing is known."""

    depth: int = 0
    is_exact: bool = True
    some: Need = None


@dataclass(frozen=True, slots=True)
class Context(Value):
    """The context as a whole, which match_keys takes for its messages."""


@dataclass(frozen=True, slots=True)
class Participants(Value):
    """The participants of the context: an object."""


@dataclass(frozen=True, slots=True)
class Participant(Value):
    """A field of the participants, or a field of such a field: anything or nothing."""


@dataclass(frozen=True, slots=True)
class LastFiring(Value):
    """When the memory last came: an object or null. `is_there`: it is no null."""

    is_there: bool = False


@dataclass(frozen=True, slots=True)
class Words(Value):
    """A list of constants."""

    constants: tuple[Constant, ...] = ()


@dataclass(frozen=True, slots=True)
class OneWord(Value):
    """Any one of a list of constants."""

    constants: tuple[Constant, ...] = ()


def usually(usual: Constant, unless: Need = NEVER) -> Usual:
    """A value that is this constant, unless something of `unless` is there."""
    if usual:
        return Usual(true=None, false=unless, usual=usual, unless=unless)
    return Usual(true=unless, false=None, usual=usual, unless=unless)


def compared(left: Value, sign: str, right: Value) -> Value:
    """The value of a comparison. Raises NotUnderstood where comparing may fail."""
    if sign in EQUALITIES:
        if isinstance(left, Fact) and _is_possible(left, right):
            return _fact_compared(left, sign, right)
        if isinstance(right, Fact) and _is_possible(right, left):
            return _fact_compared(right, sign, left)
    if (
        isinstance(left, Usual)
        and isinstance(right, Usual)
        and type(left.usual) is type(right.usual) is float
    ):
        is_usually_so = _COMPARISONS[sign](left.usual, right.usual)
        return usually(is_usually_so, either(left.unless, right.unless))
    is_strict = sign in ("===", "!==")
    if not is_strict and not (left.is_primitive and right.is_primitive):
        raise NotUnderstood
    return Primitive()


def _is_possible(fact: Fact, value: Value) -> bool:
    """Whether the value is a constant that the fact may have."""
    return (
        isinstance(value, Usual) and value.is_constant and isinstance(value.usual, FACTS[fact.name])
    )


def _fact_compared(fact: Fact, sign: str, value: Value) -> Value:
    assert isinstance(value, Usual)
    is_inequality = sign.startswith("!")
    return usually(is_inequality, frozenset([(fact.name, value.usual)]))


def words_in(value: Value) -> list[str]:
    """The texts that a value may be; at least one. Raises NotUnderstood: it may be something else."""
    match value:
        case Usual(usual=str(word)) if value.is_constant:
            return [word]
        case OneWord(constants=constants):
            words = [constant for constant in constants if isinstance(constant, str)]
            if words and len(words) == len(constants):
                return words
    raise NotUnderstood


def sliced(messages: Messages, start: int) -> Messages:
    """`messages.slice(start)`."""
    if start < 0 and messages.is_exact:
        return replace(messages, depth=nearer(messages.depth, -start))
    return replace(messages, is_exact=messages.is_exact and start == 0)


def included(constants: Sequence[Constant], fact: Value) -> Value:
    """Whether a list of constants has a fact in it."""
    if not isinstance(fact, Fact) or any("\0" in str(constant) for constant in constants):
        raise NotUnderstood
    possible = [constant for constant in constants if isinstance(constant, FACTS[fact.name])]
    return usually(False, frozenset((fact.name, constant) for constant in possible))
