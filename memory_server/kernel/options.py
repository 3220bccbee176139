"""What the fields of an options class say beside their bounds, and how such a value gets what the program knows.

The options that users may set are frozen dataclasses in the rooms that use them, with default, bounds and docstring;
`config/settings.py` makes sections of them. The bounds are types of `annotated_types`, which pydantic understands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import frozen

Options = TypeVar("Options")


@frozen
class OptionCheck:
    """A check in `Annotated`: `check` converts a set value to the value that counts; its InvalidInput or ValueError
    says why the set value cannot be used. `first`: the check is made before the type is looked at."""

    check: Callable[[Any], Any]
    first: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        # pydantic asks for it, so pydantic is there; the rooms themselves need none.
        from pydantic_core import core_schema

        if self.first:
            return core_schema.no_info_before_validator_function(self._checked, handler(source))
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def _checked(self, value: Any) -> Any:
        try:
            return self.check(value)
        except InvalidInput as error:
            raise ValueError(str(error)) from error


def extended(kind: type[Options], user_options: Any, **program_values: Any) -> Options:
    """Make options of the class `kind`, which extends the class of `user_options`, from these values and from values
    that users cannot set."""
    user_values = {field.name: getattr(user_options, field.name) for field in fields(user_options)}
    return kind(**user_values, **program_values)
