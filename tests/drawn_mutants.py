"""Mutants: small changes of the code that a test should notice. How they are drawn by a seed, kept in a table, and applied.

The changes are those of Cosmic Ray (https://cosmic-ray.readthedocs.io), which is needed only to draw. A place of the
code is drawn first and then one of its changes, so that a place with many changes is not drawn more often. A mutant is
kept as its lines before and after, so it can be applied to a later state of the code too, unless these lines changed.
"""

from __future__ import annotations

import csv
import difflib
import random
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOMS = Path(__file__).with_name("mutants.toml")
TABLE = Path(__file__).with_name("mutants.csv")
SEED = 20261130
"""The day of the draw, so that nobody chose it for its mutants."""
DRAWN = 150
LEAST_OF_ROOM = 5

Place = tuple[str, str, str, Any]
"""A room, a module, a kind of change, and the position of what it changes."""
Change = tuple[str, int]
"""An operator, and which one of its changes in the module is meant."""

_COMPARISONS = (
    "Eq_NotEq NotEq_Eq Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Is_IsNot IsNot_Is"
)
_ARITHMETIC = (
    "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul BitOr_BitAnd BitAnd_BitOr"
)
OPERATORS = (
    *(f"ReplaceComparisonOperator_{name}" for name in _COMPARISONS.split()),
    *(f"ReplaceBinaryOperator_{name}" for name in _ARITHMETIC.split()),
    "ReplaceUnaryOperator_USub_UAdd",
    "ReplaceUnaryOperator_Delete_Not",
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "ZeroIterationForLoop",
)
"""Changes that a slip could make. Those that no test can notice (`is` for `==` of short texts) or that every test notices
(`>>` for `+`) are left out, and so are those of decorators, most of which are `@dataclass`."""


@dataclass
class Mutant:
    """A change of the code, and what the tests of its room said."""

    number: int
    room: str
    module: str
    line: int
    """The line where it was drawn; the code may have moved since."""
    operator: str
    before: str
    """Whole lines of the code."""
    after: str
    nth: int
    """Which one of the equal lines of the module is meant, from 1."""
    first: str = ""
    """The verdict of the tests on the day of the draw."""
    verdict: str = ""
    """`killed`, `survived`, `slow` (the tests took too long, which is noticed too), or `gone` (its lines changed)."""
    said_by: str = ""
    """The first test that failed."""
    note: str = ""
    """Why no test can notice a mutant that survives, if somebody says so."""

    def applied_to(self, source: str) -> str | None:
        """Return the changed source, or None if it does not have the lines."""
        position = -1
        for _ in range(self.nth):
            position = _position_of_lines(source, self.before, position + 1)
            if position < 0:
                return None
        return source[:position] + self.after + source[position + len(self.before) :]


def read_rooms() -> dict[str, dict[str, list[str]]]:
    """Read the modules and tests of each room, by its name."""
    return tomllib.loads(ROOMS.read_text("utf-8"))


def read_mutants(path: Path) -> list[Mutant]:
    """Read the mutants of a table."""
    with path.open(encoding="utf-8", newline="") as table:
        rows = [dict[str, Any](row) for row in csv.DictReader(table)]
    for row in rows:
        row |= {name: int(row[name]) for name in ("number", "line", "nth")}
    return [Mutant(**row) for row in rows]


def write_mutants(path: Path, mutants: Iterable[Mutant]) -> None:
    """Write the mutants as a table, whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    written = path.with_suffix(".new")
    with written.open("w", encoding="utf-8", newline="") as table:
        rows = csv.DictWriter(table, [field.name for field in fields(Mutant)], lineterminator="\n")
        rows.writeheader()
        rows.writerows(map(asdict, mutants))
    written.replace(path)


def draw(seed: int, count: int = DRAWN) -> list[Mutant]:
    """Draw mutants from all rooms."""
    places: dict[Place, list[Change]] = {}
    for room, module in _modules():
        for place, change in _changes_of(room, module):
            places.setdefault(place, []).append(change)

    # A small room has its five, and the others are drawn from all.
    dice = random.Random(seed)
    mixed = dice.sample(sorted(places), len(places))
    drawn: list[Mutant] = []
    for room in read_rooms():
        of_room = (place for place in mixed if place[0] == room)
        drawn += islice(_mutants(dice, of_room, places), LEAST_OF_ROOM)
    taken = {(mutant.module, mutant.line) for mutant in drawn}
    others = (
        mutant
        for mutant in _mutants(dice, mixed, places)
        if (mutant.module, mutant.line) not in taken
    )
    drawn += islice(others, count - len(drawn))

    drawn.sort(key=lambda mutant: (mutant.room, mutant.module, mutant.line, mutant.operator))
    for number, mutant in enumerate(drawn, start=1):
        mutant.number = number
    return drawn


def _mutants(
    dice: random.Random, drawn: Iterable[Place], places: Mapping[Place, list[Change]]
) -> Iterator[Mutant]:
    """Yield one mutant of each place that was drawn."""
    for place in drawn:
        mutant = _mutant(place[0], place[1], dice.choice(places[place]))
        if mutant is not None:
            yield mutant


def _modules() -> Iterator[tuple[str, str]]:
    for room, parts in read_rooms().items():
        for pattern in parts["modules"]:
            for path in sorted(ROOT.glob(pattern)):
                yield room, path.relative_to(ROOT).as_posix()


def _changes_of(room: str, module: str) -> Iterator[tuple[Place, Change]]:
    """Yield each place of a module, with each of its changes."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.operators.provider import OperatorProvider

    tree = get_ast((ROOT / module).read_text("utf-8"))
    for name in OPERATORS:
        operator = OperatorProvider()[name]()
        occurrence = 0
        for node in ast_nodes(tree):
            for start, _ in operator.mutation_positions(node):
                if not _is_left_out(node):
                    yield (room, module, name.partition("_")[0], start), (name, occurrence)
                occurrence += 1


def _is_left_out(node: Any) -> bool:
    """Whether a node is in an annotation, in a call that logs, in what only the type checker reads, or in `A | B` of types
    outside of functions."""
    is_union = getattr(node, "value", "") == "|"
    while node.parent is not None:
        parent = node.parent
        siblings = parent.children
        before = siblings[siblings.index(node) - 1]
        match parent.type:
            case "funcdef" if before.type == "operator" and before.value == "->":
                return True
            case "tfpdef" | "annassign" if before.type == "operator" and before.value == ":":
                return True
            case "if_stmt" if siblings[1].get_code().strip() == "TYPE_CHECKING":
                return True
            case "atom_expr" if getattr(siblings[0], "value", "") == "log":
                return True
            case "funcdef" | "lambdef":
                is_union = False
        node = parent
    return is_union


def _mutant(room: str, module: str, change: Change) -> Mutant | None:
    """Return a mutant without a number, or None if it is not Python: Cosmic Ray takes `|` of a pattern for an operator."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.operators.provider import OperatorProvider

    name, occurrence = change
    source = (ROOT / module).read_text("utf-8")
    changed = mutate_code(source, OperatorProvider()[name](), occurrence)
    try:
        compile(changed, module, "exec")
    except SyntaxError:
        return None

    old_lines = source.splitlines(keepends=True)
    new_lines = changed.splitlines(keepends=True)

    matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    (_, start, end, new_start, new_end), *rest = (
        code for code in matcher.get_opcodes() if code[0] != "equal"
    )
    assert not rest, f"{module}: {change} changes two places"
    before = "".join(old_lines[start:end])
    position = sum(map(len, old_lines[:start]))
    nth = 1
    found = _position_of_lines(source, before, 0)
    while found < position:
        found = _position_of_lines(source, before, found + 1)
        nth += 1
    after = "".join(new_lines[new_start:new_end])
    return Mutant(0, room, module, start + 1, name, before, after, nth)


def _position_of_lines(source: str, lines: str, start: int) -> int:
    """Return where whole lines are in a source, from `start` on; -1 if nowhere."""
    position = source.find(lines, start)
    while position > 0 and source[position - 1] != "\n":
        position = source.find(lines, position + 1)
    return position
