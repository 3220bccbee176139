"""What the fields of an options class say beside their bounds, and how such a value gets what the program knows.

The options that users may set are frozen dataclasses in the rooms that use them, with default, bounds and docstring;
`config/settings.py` makes sections of them. The bounds are those of `annotated_types`, which pydantic understands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from memory_server.kernel.errors import InvalidInput

Options = TypeVar("Options")


@dataclass(frozen=True, slots=True)
class Checked:
    """In `Annotated`: `check` gives the value that counts for a given one; its InvalidInput or ValueError says why it
    cannot be used. `first`: before its type is looked at."""

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


def extended(kind: type[Options], given: Any, **more: Any) -> Options:
    """A `kind`, which extends the class of `given`, with the values of `given` and `more` that users cannot set."""
    return kind(**{field.name: getattr(given, field.name) for field in fields(given)}, **more)
