"""What results are made of: their fields, where the values come from, and parts of their texts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cache, partial
from operator import attrgetter
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.alias_generators import to_snake
from pydantic_core import CoreSchema

from memory_server.kernel.times import local, milliseconds
from sandbox.locale import LocalizedText, _, joined, spoken


@dataclass(frozen=True, slots=True)
class From:
    """Where `Result.of` finds the value of a field: the attribute `path`, such as `memory.id`, by default the field's
    name in snake_case. `form` makes the value of it, unless it is None. `words` describe the field to clients."""

    path: str = ""
    form: Callable[[Any], Any] | None = None
    words: str | None = None

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(core) | ({"description": self.words} if self.words else {})


class Result(BaseModel):
    """Base of all results. `None` fields are left out on the wire; `str()` of it is the text for people."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.__dict__.update((name, value) for name, value in given.items() if _holds_message(value))

    def fields(self) -> dict[str, Any]:
        """As JSON has them, without those that are `None`. For a shell in another language messages stay messages,
        which pydantic would make plain texts."""
        plain = self.model_dump(mode="json", exclude_none=True)
        return plain if spoken() == "en" else _with_messages(plain, self)

    @classmethod
    def of(cls, source: object, **given: Any) -> Self:
        """A result with the fields `given`; all others are attributes of `source`, where `From` says: a field that the
        source lacks has to be given, also if it has a default."""
        for name, found, form in _sources(cls):
            if name not in given:
                value = found(source)
                given[name] = value if value is None or form is None else form(value)
        return cls(**given)

    @classmethod
    def each(cls, sources: Iterable[object]) -> list[Self]:
        return [cls.of(source) for source in sources]

    def query_words(self) -> Sequence[str]:
        """The words of the search, the heaviest first: a text that is too long is cut around them."""
        return ()


def _holds_message(value: object) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, LocalizedText) or any(isinstance(each, LocalizedText) for each in inner)


def _with_messages(plain: Any, source: Any) -> Any:
    match source:
        case LocalizedText():
            return source
        case BaseModel():
            return {name: _with_messages(value, getattr(source, name)) for name, value in plain.items()}
        case dict():
            return {name: _with_messages(value, source.get(name)) for name, value in plain.items()}
        case list() | tuple():
            return [_with_messages(value, each) for value, each in zip(plain, source, strict=True)]
    return plain


@cache
def _sources(result: type[Result]) -> list[tuple[str, Callable[[object], Any], Callable[[Any], Any] | None]]:
    """Each field, how its value is found in the source, and the form of it."""
    rules = {
        name: next((each for each in field.metadata if isinstance(each, From)), From())
        for name, field in result.model_fields.items()
    }
    return [(name, attrgetter(rule.path or to_snake(name)), rule.form) for name, rule in rules.items()]


ChangeId = Annotated[str | None, Field(description="Names this change for undo_change; left out where nothing changed")]
hundredths = partial(round, ndigits=2)
SHOWN_ZONE: ContextVar[tzinfo | None] = ContextVar("SHOWN_ZONE", default=UTC)
"""The zone of times in texts for people (None: the system's): UTC for clients, which may be elsewhere; a shell sets its
own."""


def when(moment: str) -> str:
    """A time of a result, to the minute, in a text: `2026-05-03 12:00 UTC`, or without a zone if it is local."""
    zone = SHOWN_ZONE.get()
    local_time = local(milliseconds(datetime.fromisoformat(moment)), zone)
    return f"{local_time:%Y-%m-%d %H:%M}{' UTC' if zone is UTC else ''}"


def listed(rows: Iterable[object], end: str, between: str = "\n") -> str:
    """The text of each row, and at the end a sentence about all of them."""
    return joined(between, [*(row if isinstance(row, str) else str(row) for row in rows), end])


def shell_command(conversation_id: str, *words: str) -> str:
    """A command of memory-server for this conversation, as a user types it."""
    return shlex.join(["memory-server", "--conversation", conversation_id, *words])


def undo_hint(change_id: str | None) -> str:
    """The change id for a result text; empty if nothing was changed."""
    return _(" Change {change}.", change_id) if change_id else ""
