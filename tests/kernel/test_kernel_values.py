"""A dataclass of `kernel.values` behaves as one of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.kernel import values


def classes(decorator: Callable[..., Any]) -> dict[str, type]:
    """Values of each kind that the server has, made by this decorator."""

    @decorator(frozen=True, slots=True)
    class Point:
        """A place."""

        x: Any
        y: Any = 0
        unit: ClassVar[str] = "m"

    @decorator(frozen=True, slots=True)
    class Empty:
        """Nothing."""

    @decorator(frozen=True, slots=True, kw_only=True)
    class Named:
        """A value by name."""

        x: Any
        y: Any = 0

    @decorator(slots=True)
    class Changing:
        """A value that changes."""

        x: Any
        y: Any = 0
        seen: list[Any] = field(default_factory=list, compare=False, repr=False)

    @decorator(frozen=True)
    class Base:
        """A value with a field by name only."""

        x: Any
        _: KW_ONLY
        y: Any = 0

    @decorator(frozen=True)
    class Heir(Base):
        """The same with one more."""

        z: Any = 1

    @decorator(eq=False)
    class Identity:
        """A thing, and not a value."""

        x: Any
        y: Any = 0

    @decorator(frozen=True, slots=True)
    class Single:
        """A value whose other field is not compared."""

        x: Any
        y: Any = field(default=0, compare=False)

    @decorator(frozen=True, slots=True)
    class Made:
        """A value with a part that it makes, and one that nobody gives."""

        x: Any
        y: Any = 0
        parts: list[Any] = field(default_factory=list)
        told: list[Any] = field(default_factory=list, init=False)
        kind: str = field(default="made", init=False)

        def __post_init__(self) -> None:
            self.told.append(self.x)

    @decorator(frozen=True, slots=True)
    class Hiding:
        """A value whose fields are called as what `__init__` might use, also with two underscores."""

        x: Any
        _set: Any = 1
        _factory: Any = 2
        _make_parts: Any = 3
        _default_y: Any = 4
        __set: Any = 5
        __factory: Any = 6
        y: Any = 0
        parts: list[Any] = field(default_factory=list, compare=False)

    return {
        kind.__name__: kind
        for kind in (Hiding, Point, Empty, Named, Changing, Base, Heir, Identity, Single, Made)
    }


OURS, STANDARD = classes(values.dataclass), classes(dataclasses.dataclass)
KINDS = [name for name in OURS if name != "Empty"]
numbers = st.integers(-2, 2) | st.sampled_from([1.0, "a", (), (1,)])


@pytest.mark.parametrize("name", KINDS)
@given(first=st.tuples(numbers, numbers), second=st.tuples(numbers, numbers))
def test_equality_hash_and_text_are_those_of_the_standard_library(
    name: str, first: tuple[Any, Any], second: tuple[Any, Any]
) -> None:
    ours = [OURS[name](x=x, y=y) for x, y in (first, second)]
    standard = [STANDARD[name](x=x, y=y) for x, y in (first, second)]
    assert (ours[0] == ours[1]) == (standard[0] == standard[1])
    assert (ours[0] != ours[1]) == (standard[0] != standard[1])
    if name != "Identity":
        assert repr(ours[0]) == repr(standard[0])
    if name not in ("Changing", "Identity", "Made"):  # Made has lists
        assert hash(ours[0]) == hash(standard[0])
        assert len(set(ours)) == len(set(standard))
    assert ours[0] != standard[0], "values of two classes differ"
    assert ours[0].__eq__(None) is NotImplemented


@pytest.mark.parametrize("name", KINDS)
def test_the_rest_is_as_the_standard_library_makes_it(name: str) -> None:
    value = OURS[name](x=1, y=2)
    twin = STANDARD[name](x=1, y=2)
    assert dataclasses.asdict(value) == dataclasses.asdict(twin)
    assert replace(value, x=3).x == 3
    assert copy.copy(value).y == 2
    assert OURS[name].__match_args__ == STANDARD[name].__match_args__
    assert getattr(OURS[name], "__slots__", None) == getattr(STANDARD[name], "__slots__", None)
    assert str(inspect.signature(OURS[name])) == str(inspect.signature(STANDARD[name]))
    if name in ("Hiding", "Point", "Named", "Base", "Heir", "Made"):
        for value_of_both in (value, twin):
            with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
                value_of_both.x = 4
            with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
                del value_of_both.x


def test_a_value_that_changes_cannot_be_hashed_and_ignores_what_is_not_compared() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(OURS["Changing"](1))
    assert OURS["Changing"](1, seen=[1]) == OURS["Changing"](1, seen=[2])


@pytest.mark.parametrize("kinds", [OURS, STANDARD])
def test_each_value_makes_its_own_parts_and_is_told_at_its_end(kinds: dict[str, type]) -> None:
    first, second = kinds["Made"](1), kinds["Made"](2, parts=[3])
    assert (first.parts, second.parts) == ([], [3])
    assert (first.told, second.told) == ([1], [2])
    assert first.kind == "made"
    with pytest.raises(TypeError):
        kinds["Made"](1, told=[])


@pytest.mark.parametrize("kinds", [OURS, STANDARD])
def test_an_heir_that_is_not_a_dataclass_has_attributes_of_its_own(kinds: dict[str, type]) -> None:
    class WithCount(kinds["Base"]):  # type: ignore[misc]
        pass

    value = WithCount(1)
    value.count = 5
    assert value.count == 5
    with pytest.raises(FrozenInstanceError):
        value.x = 2


def test_values_without_fields_are_equal() -> None:
    assert OURS["Empty"]() == OURS["Empty"]()
    assert hash(OURS["Empty"]()) == hash(())


@values.dataclass(frozen=True, slots=True)
class Own:
    """A class with its own text and equality."""

    x: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and abs(self.x - other.x) < 2

    def __hash__(self) -> int:
        return 7


def test_what_a_class_defines_itself_stays() -> None:
    assert repr(Own(1)) == "own"
    assert Own(1) == Own(2)
    assert hash(Own(1)) == 7


def test_a_value_can_be_stored_and_copied() -> None:
    assert pickle.loads(pickle.dumps(Own(3))).x == 3
    assert copy.deepcopy(Own(3)).x == 3


def test_no_module_of_the_server_uses_the_slower_one() -> None:
    slower = re.compile(r"from dataclasses import (\([^)]*)?.*\bdataclass\b|@dataclasses\.")
    files = Path(values.__file__).parents[1].rglob("*.py")
    importing = [
        file.name
        for file in files
        if file.name != "values.py" and slower.search(file.read_text(encoding="utf-8"))
    ]
    assert importing == []
