"""What is known of a trigger before it runs: words and facts of which at least one must be there for it to be true.

A worker reads it from the syntax tree of the trigger (javascript/needs.py). The supervisor gets it in a frame, and
decides by it which triggers a search can leave out (host/candidates.py). Values only: nothing here reads JavaScript.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

MOST_CHARACTERS = 4_000
"""Characters of a trigger that is read for its need; a longer one always runs."""
MOST_ATOMS = 300
"""Words and facts of one need; a trigger with more of them always runs."""
MOST_WORD = 12
"""Characters of a word that are looked for."""
DEPTHS = (1, 2, 4, 8, 16, 0)
"""The numbers of last messages that are told apart; 0 for all. Others count as the next greater one."""
NAMED = "named"
"""The scope of match_keys in which a message begins with the name of its speaker."""
SCANNED = "scanned"
"""The scope in which all messages are one text; a word that stands in it stands in one of them, as in `named`."""
ROLES: Mapping[str, tuple[str, ...]] = {
    "any": (),
    NAMED: (),
    "user": ("user",),
    "assistant": ("assistant", "char"),
}
"""The scopes of match_keys that are told apart, with their roles; the others count as `any`."""
FACTS: Mapping[str, type] = {
    "conversation_id": str,
    "getFullYear": float,
    "getMonth": float,
    "getDate": float,
    "getDay": float,
}
"""What triggers compare with constants, by the name of the field or of the getter of Date, with the type of its
value."""

Window: TypeAlias = tuple[str, int]
"""One of ROLES and one of DEPTHS: the messages in which a word is looked for."""
Constant: TypeAlias = bool | float | str | None
Atom: TypeAlias = tuple[Window | str, Constant]
"""A window and a word in normal form (spelling.py), or the name of a fact and its value."""
Need: TypeAlias = frozenset[Atom] | None
"""At least one of the atoms must be there; if it is empty, that is never so. None: nothing need be there."""
NEVER: Final[Need] = frozenset()


@dataclass(frozen=True, slots=True)
class Prospect:
    """What is known of a trigger before it runs.

    `need` is what it needs to be true or to fail, and None if that is not known. A trigger is `always` true if it is a
    constant, as that of a lorebook's constant entry is: no message and no date can make it false, and nothing in it
    can fail."""

    need: Need = None
    always: bool = False


UNKNOWN: Final = Prospect()
"""The prospect of a trigger of which nothing is known: it runs in every search."""
ALWAYS_TRUE: Final = Prospect(always=True)
