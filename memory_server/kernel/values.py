"""`frozen` marks a value: a dataclass that is frozen and has slots. `dataclass` is that of the standard library, with
classes that are made in a third of the time.

Python 3.11 and 3.12 compile each method of each dataclass when the class is made. For the 200 small values that a hook
imports, this took a fifth of its start. Here only `__init__` is compiled. The other methods are ordinary functions that
read the names of the fields, and the standard library reads the class: fields, order, slots, `__match_args__`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, dataclass_transform

T = TypeVar("T")
JsonObject: TypeAlias = Mapping[str, Any]
"""An object as JSON has it, which is not changed."""

if TYPE_CHECKING:
    from dataclasses import dataclass, field

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def frozen(cls: type[T]) -> type[T]: ...

else:
    from collections.abc import Callable, Sequence
    from dataclasses import MISSING, Field, FrozenInstanceError, fields
    from dataclasses import dataclass as standard_dataclass
    from operator import attrgetter

    def dataclass(
        *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False
    ) -> Callable:
        """Return a decorator that makes a dataclass. What the class defines itself stays. Fields are compared as
        tuples, as Python 3.12 does; of the options of a field, `hash` is not read. `__dataclass_params__` says nothing
        of `frozen`, and a class of the standard library cannot inherit from a frozen class made here."""

        def make(cls: type) -> type:
            """Return a dataclass of `cls` with `__init__`, `__repr__` and comparison made here,
            unless `cls` defines them."""
            value_class = standard_dataclass(
                slots=slots, kw_only=kw_only, init=False, eq=False, repr=False
            )(cls)

            own_fields = fields(value_class)
            if "__init__" not in cls.__dict__:
                value_class.__init__ = _init_of(value_class, own_fields, frozen=frozen)
            if "__repr__" not in cls.__dict__:
                value_class.__repr__ = _shown

            if frozen:
                _freeze(value_class, frozenset([field.name for field in own_fields]))
                # A frozen value with slots cannot be pickled by its attributes, because setting them is refused.
                if slots and "__setstate__" not in cls.__dict__:
                    value_class.__getstate__ = _state_of
                    value_class.__setstate__ = _take_state

            if eq:
                _compare_by_fields(value_class, hashable=frozen)
            return value_class

        return make

    class _Factory:
        """Represents in a signature a value that each instance gets anew."""

        def __repr__(self) -> str:
            return "<factory>"

    _FACTORY = _Factory()

    def _init_of(value_class: type, own_fields: Sequence[Field], *, frozen: bool) -> Callable:
        """Return the compiled `__init__` of a class with these fields. What it uses begins with
        `__`, as the name of no field does: Python puts the name of the class before it."""
        names: dict[str, Any] = {"__factory": _FACTORY, "__set": object.__setattr__}
        positional, by_name, lines = [], [], []

        for field in own_fields:
            name = field.name
            value = name
            parameter = name
            # The default value is made for each instance, so the signature has only a mark for it.
            if field.default_factory is not MISSING:
                names[f"__make_{name}"] = field.default_factory
                parameter = f"{name}=__factory"
                value = f"__make_{name}() if {name} is __factory else {name}"
                if not field.init:
                    value = f"__make_{name}()"
            elif field.default is not MISSING:
                names[f"__default_{name}"] = field.default
                parameter = f"{name}=__default_{name}"
                if not field.init:
                    value = f"__default_{name}"
            elif not field.init:
                continue

            if field.init:
                (by_name if field.kw_only else positional).append(parameter)
            lines.append(f"__set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")

        if hasattr(value_class, "__post_init__"):
            lines.append("self.__post_init__()")

        # Fields by name only come after the mark `*` in the signature.
        parameters = ["self", *positional, *(["*", *by_name] if by_name else [])]
        exec(f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(lines or ["pass"]), names)
        init = names["__init__"]

        init.__qualname__ = f"{value_class.__qualname__}.__init__"
        init.__module__ = value_class.__module__
        init.__annotations__ = {field.name: field.type for field in own_fields if field.init}
        init.__annotations__["return"] = None
        return init

    def _freeze(value_class: type, names: frozenset[str]) -> None:
        """Let values of this class refuse to set or delete any attribute, and values of an heir that is not a dataclass
        only the fields `names`."""

        def refuse_value(self: Any, name: str, value: object) -> None:
            if type(self) is value_class or name in names:
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            super(value_class, self).__setattr__(name, value)

        def refuse_deletion(self: Any, name: str) -> None:
            if type(self) is value_class or name in names:
                raise FrozenInstanceError(f"cannot delete field {name!r}")
            super(value_class, self).__delattr__(name)

        value_class.__setattr__ = refuse_value
        value_class.__delattr__ = refuse_deletion

    def _state_of(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]

    def _take_state(self: Any, state: Sequence[Any]) -> None:
        for field, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)

    def _shown(self: Any) -> str:
        shown_fields = [
            f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr
        ]
        return f"{type(self).__qualname__}({', '.join(shown_fields)})"

    def _compare_by_fields(value_class: type, *, hashable: bool) -> None:
        """Give a class `__eq__` and `__hash__` by its fields, unless it defines them: values are
        equal if they are of the same class and their fields are equal. `hashable` False: no
        hash."""
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
        """Return a function that reads these fields of a value."""
        if len(names) > 1:
            return attrgetter(*names)  # in C
        return lambda self: tuple([getattr(self, name) for name in names])

    frozen = dataclass(frozen=True, slots=True)

__all__ = ["JsonObject", "dataclass", "frozen"]
