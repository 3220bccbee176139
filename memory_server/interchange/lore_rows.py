"""What lore_forms.py makes of the lorebook of another program: rows with the names of world info."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memory_server.kernel.values import dataclass
from sandbox import literals

LoreRow = dict[str, Any]
"""An entry with the names of world info; `excludedKeys`: keys of which none may be there, which world info has not."""


class RowFault(ValueError):
    """An entry cannot come, because what it says has no meaning here; the message says why."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A lorebook of another program. `broken`: uid of each entry that cannot come, and why. `lost`: sentences about
    what does not come of the others."""

    rows: tuple[LoreRow, ...]
    broken: tuple[tuple[str, str], ...] = ()
    program: str = ""
    name: str = ""
    lost: tuple[str, ...] = ()

    def of_book(self, program: str, name: str, lost: tuple[str, ...]) -> Converted:
        return replace(self, program=program, name=name, lost=lost)


def is_given(value: Any) -> bool:
    """Tell whether a field has a value: not an empty text, list or object."""
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, list):
        return any(is_given(item) for item in value)
    return bool(value)


def expression_of_all(
    required: Sequence[str], excluded: Sequence[str] = (), *, ignores_case: bool
) -> str:
    """Write a key `/expression/` for texts that hold all required parts, and not all excluded parts together."""
    looks = "".join(map(_look_ahead, required))
    if excluded:
        barred = "".join(map(_look_ahead, excluded))
        looks += f"(?!{barred})"
    flags = "i" if ignores_case else ""
    return f"/{_BEGINNING}{looks}/{flags}"


_BEGINNING = r"(?<![\s\S])"
"""The beginning of a text, whatever the flags are."""


def _look_ahead(part: str) -> str:
    body = literals.expression(part, "")[1:-1]
    return rf"(?=[\s\S]*{body})"
