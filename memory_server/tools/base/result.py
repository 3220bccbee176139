"""What results are made of: their fields, where the values come from, and parts of their texts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from functools import cache, partial
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.alias_generators import to_snake
from pydantic_core import CoreSchema

from languages import _
from memory_server.kernel.times import local, milliseconds
from memory_server.kernel.values import dataclass


@dataclass(frozen=True, slots=True)
class From:
    """The place where `Result.of` finds the value of a field: the attribute `path`, such as `memory.id`, by default the
    field's name in snake_case. `form` makes the value of it, unless it is None. `words` describe the field to clients.
    """

    path: str = ""
    form: Callable[[Any], Any] | None = None
    words: str | None = None

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core)
        if self.words:
            schema |= {"description": self.words}
        return schema


class Result(BaseModel):
    """Base of all results. `None` fields are left out on the wire; `str()` of it is the text for people."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    whole_field: ClassVar[str | None] = None
    """The field whose text is never cut, because the caller said how long it may be."""

    def fields(self) -> dict[str, Any]:
        """Return the fields as JSON has them, without fields that are `None`."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def of(cls, source: object, **values: Any) -> Self:
        """Make a result with the fields `values`. All others are attributes of `source`, where `From` says: a field
        that the source lacks must be among `values`, also if it has a default."""
        for field in _sources(cls):
            if field.name in values:
                continue
            value = field.attribute(source)
            if value is not None and field.form is not None:
                value = field.form(value)
            values[field.name] = value
        return cls(**values)

    @classmethod
    def each(cls, sources: Iterable[object]) -> list[Self]:
        return [cls.of(source) for source in sources]

    def query_words(self) -> Sequence[str]:
        """Return the words of the search, the heaviest first: a text that is too long is cut around them."""
        return ()


@dataclass(frozen=True, slots=True)
class _FieldSource:
    """How `Result.of` finds the value of a field."""

    name: str
    attribute: Callable[[object], Any]
    form: Callable[[Any], Any] | None


@cache
def _sources(result: type[Result]) -> list[_FieldSource]:
    sources: list[_FieldSource] = []
    for name, field in result.model_fields.items():
        rules = [rule for rule in field.metadata if isinstance(rule, From)]
        rule = rules[0] if rules else From()
        path = rule.path or to_snake(name)
        sources.append(_FieldSource(name, attrgetter(path), rule.form))
    return sources


ChangeId = Annotated[
    str | None,
    Field(description="Names this change for undo_change; left out where nothing changed"),
]
hundredths = partial(round, ndigits=2)
SHOWN_ZONE: ContextVar[tzinfo | None] = ContextVar("SHOWN_ZONE", default=UTC)
"""The zone of times in texts for people (None: the system's): UTC for clients, which may be elsewhere; a shell sets its
own."""


def when(moment: str) -> str:
    """Return a time of a result, to the minute, for a text: `2026-05-03 12:00 UTC`, or without a zone if it is local."""
    zone = SHOWN_ZONE.get()
    time_ms = milliseconds(datetime.fromisoformat(moment))
    text = f"{local(time_ms, zone):%Y-%m-%d %H:%M}"
    if zone is UTC:
        text += " UTC"
    return text


def listed(rows: Iterable[object], end: str, between: str = "\n") -> str:
    """Return the text of each row, and at the end a sentence about all of them."""
    return between.join([*map(str, rows), end])


def shell_command(conversation_id: str, *words: str) -> str:
    """Return a command of memory-server for this conversation, as a user types it."""
    return shlex.join(["memory-server", "--conversation", conversation_id, *words])


def undo_hint(change_id: str | None) -> str:
    """Return the change id for a result text; empty if nothing was changed."""
    if not change_id:
        return ""
    return _(" Change {change}.", change_id)
