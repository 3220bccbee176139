"""A case: one trigger, what it is given, and what it should say. From the rows of a fixture file; pure.

docs/reference/trigger-packs.md describes the keys and changes with this.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Protocol, TypeAlias, get_args

from .. import chat
from ..chats import messages as chat_messages
from ..chats.dates import instant
from ..verdicts import FailureKind
from .terminal import counted
from .yaml_forms import LINE, without_lines

KEYS = (
    "name",
    "trigger",
    "trigger_file",
    "pack",
    "memory",
    "chat",
    "chat_file",
    "encoding",
    "now",
    "tz",
    "seed",
    "participants",
    "conversation_id",
    "at",
    "window",
    "expect",
    "fires_at",
)
DEFAULT_NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
"""The time of a case that names none and whose chat has no times: any, but the same in every run."""
DEFAULT_WINDOW = 20
"""Messages that a search is given. What companions send; the triggers look at the last 4 by default."""
_VERDICTS = ("fired", "quiet", "failed")
_SHORT_MESSAGE = (*chat_messages.ROLES, "timestamp", "name")


class CaseError(Exception):
    """The fixture cannot be used; the message says where and what to write instead."""


@dataclass(frozen=True, slots=True)
class ExpectVerdict:
    """The verdict after the last message. `kind`: of the failure, None for any."""

    verdict: str
    kind: FailureKind | None = None

    def __str__(self) -> str:
        return f"{self.verdict} ({self.kind})" if self.kind else self.verdict


@dataclass(frozen=True, slots=True)
class ExpectFirings:
    """The messages, numbered from 1, after which it fires; after all others it is quiet."""

    numbers: tuple[int, ...]


Expected: TypeAlias = ExpectVerdict | ExpectFirings


@dataclass(frozen=True, slots=True)
class Case:
    """`file`: as the user named it. `line`: where it stands, None unknown. `now`: aware. `window`: messages."""

    file: str
    line: int | None
    name: str
    source: str
    messages: tuple[chat.Message, ...]
    now: datetime | None
    timezone: str
    seed: int
    participants: Mapping[str, Any]
    conversation_id: str
    window: int
    expected: Expected
    memory: str | None = None
    pack: str | None = None

    def moment(self, number: int) -> datetime:
        """When message `number` (from 1) arrives, if the case expects firings; else the time of its one run."""
        stamp = self.messages[number - 1].get("timestamp") if number else None
        given = datetime.fromtimestamp(stamp / 1000, UTC) if isinstance(stamp, int) else None
        if isinstance(self.expected, ExpectVerdict):
            return self.now or given or DEFAULT_NOW
        return given or self.now or DEFAULT_NOW

    def context(self, number: int) -> Mapping[str, Any]:
        """What the trigger is given after message `number`."""
        return {
            "messages": list(self.messages[max(0, number - self.window) : number]),
            "conversation_id": self.conversation_id,
            "participants": self.participants,
        }


@dataclass(frozen=True, slots=True)
class Unusable:
    """A case, or a whole fixture file, that cannot be run. `pack`: as the case names it, None unknown."""

    file: str
    line: int | None
    name: str
    reason: str
    pack: str | None = None


class Nearby(Protocol):
    """The files a fixture names, relative to it. Each method raises CaseError."""

    def text(self, name: str) -> str: ...

    def chat(self, name: str, encoding: str | None, zone: tzinfo) -> Sequence[chat.Message]: ...

    def trigger_of(self, pack: str, memory: str) -> str: ...

    def zone(self, name: str) -> tzinfo: ...

    def tell(self, sentence: str) -> None:
        """What the author should know although the fixture can be used."""


def cases(file: str, document: Any, nearby: Nearby) -> list[Case | Unusable]:
    """The cases of one fixture file: `cases`, each over the keys above it; or the one case that the file is.

    Raises CaseError for what is wrong with all of them.
    """
    if not isinstance(document, dict):
        raise CaseError(
            "a fixture is a mapping with `trigger`, `chat` and `expect`; see docs/reference/trigger-packs.md"
        )
    rows = document.get("cases", [{LINE: document.get(LINE)}])
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise CaseError("`cases` must be a list of mappings, each with at least `name` and `expect`")
    common = {key: value for key, value in document.items() if key != "cases"}
    _known(common, "cases")
    found: list[Case | Unusable] = []
    for number, row in enumerate(rows, start=1):
        try:
            _known(row)
            found.append(_case(file, _merged(common, row), number, nearby))
        except CaseError as error:
            where = f"line {row[LINE]}" if row.get(LINE) else f"case {number}"
            found.append(_unusable(file, {**common, **row}, number, f"{where}: {error}"))
    return found


def _unusable(file: str, row: Mapping[str, Any], number: int, reason: str) -> Unusable:
    try:
        name = _name(row, number)
    except CaseError:
        name = f"case {number}"
    pack = row.get("pack")
    return Unusable(file, row.get(LINE), name, reason, pack if isinstance(pack, str) else None)


_RIVALS = (("trigger", "trigger_file", "pack"), ("chat", "chat_file"), ("expect", "fires_at"))


def _merged(common: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The case's own keys win, also over a rival above them: `chat` over a common `chat_file`."""
    beaten = {key for rivals in _RIVALS if any(key in row for key in rivals) for key in rivals}
    return {**{key: value for key, value in common.items() if key not in beaten}, **row}


def _known(row: Mapping[str, Any], *more: str) -> None:
    for key in row:
        if key not in KEYS and key not in more and key != LINE:
            near = difflib.get_close_matches(key, (*KEYS, *more), n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"use {', '.join(KEYS)}"
            raise CaseError(f"there is no key `{key}`; {hint}")
    for rivals in _RIVALS:
        if len(given := [key for key in rivals if key in row]) > 1:
            raise CaseError(f"`{given[0]}` and `{given[1]}` exclude each other; keep one")


def _case(file: str, row: Mapping[str, Any], number: int, nearby: Nearby) -> Case:
    timezone = _text(row, "tz", "UTC")
    zone = nearby.zone(timezone)
    messages = _messages(row, zone, nearby)
    if (at := _whole(row, "at", len(messages))) > len(messages):
        raise CaseError(f"`at` is {at}, but the chat has {counted(len(messages), 'message')}")
    participants = without_lines(row.get("participants", {}))
    if not isinstance(participants, dict):
        raise CaseError("`participants` must be a mapping such as {user: {name: Ann}}")
    if (window := _whole(row, "window", DEFAULT_WINDOW)) < 1:
        raise CaseError("`window` must be at least 1 message")
    return Case(
        file=file,
        line=row.get(LINE),
        name=_name(row, number),
        source=_source(row, nearby),
        messages=messages[:at],
        now=_moment(row["now"], zone) if "now" in row else None,
        timezone=timezone,
        seed=_whole(row, "seed", 0),
        participants=participants,
        conversation_id=_text(row, "conversation_id", "default"),
        window=window,
        expected=_expected(row, at),
        memory=_text(row, "memory") if "pack" in row else None,
        pack=row.get("pack"),
    )


def _name(row: Mapping[str, Any], number: int) -> str:
    own = _text(row, "name", f"case {number}")
    memory = row.get("memory")
    return f"{memory}: {own}" if isinstance(memory, str) and memory not in own else own


def _text(row: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = row.get(key, default)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise CaseError(f"`{key}` must be text" + ("" if key in row else ", and it is missing"))
    return value


def _whole(row: Mapping[str, Any], key: str, default: int) -> int:
    value = row.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise CaseError(f"`{key}` must be a whole number, not {without_lines(value)!r}")
    return value


def _source(row: Mapping[str, Any], nearby: Nearby) -> str:
    if "trigger" in row:
        return _text(row, "trigger")
    if "trigger_file" in row:
        return nearby.text(_text(row, "trigger_file"))
    if "pack" in row:
        return nearby.trigger_of(_text(row, "pack"), _text(row, "memory"))
    raise CaseError("there is no trigger; give `trigger`, `trigger_file`, or `pack` with `memory`")


def _messages(row: Mapping[str, Any], zone: tzinfo, nearby: Nearby) -> tuple[chat.Message, ...]:
    if "chat_file" in row:
        encoding = _text(row, "encoding") if "encoding" in row else None
        return tuple(nearby.chat(_text(row, "chat_file"), encoding, zone))
    given = row.get("chat", [])
    try:
        if isinstance(given, str):
            messages, assumed = chat.parse_assuming(given, zone, None, chat.People())
            if assumed:
                nearby.tell(f"`chat`: {assumed.partition(' (')[0]}; a message can be {{user: text, name: who}} as well")
            return tuple(messages)
        if isinstance(given, list):
            rows = (_long_form(without_lines(one)) for one in given)
            return tuple(
                chat_messages.message(f"message {number} of `chat`", one, zone)
                for number, one in enumerate(rows, start=1)
            )
    except chat.ChatError as error:
        raise CaseError(f"`chat`: {error}" if isinstance(given, str) else str(error)) from error
    raise CaseError("`chat` must be a list such as [{user: text}], or text with lines of `role: text`")


def _long_form(one: Any) -> Any:
    """`{user: text}` is short for `{role: user, content: text}`."""
    if not isinstance(one, dict) or "role" in one or set(one) - set(_SHORT_MESSAGE):
        return one
    roles = [role for role in chat_messages.ROLES if role in one]
    if len(roles) != 1:
        return one
    rest = {key: value for key, value in one.items() if key != roles[0]}
    content = one[roles[0]]
    return {"role": roles[0], "content": str(content) if isinstance(content, int | float) else content, **rest}


def _moment(given: Any, zone: tzinfo) -> datetime:
    try:
        return instant(datetime.fromisoformat(given), zone)
    except (TypeError, ValueError) as error:
        raise CaseError(f"`now` is no ISO time: {given!r}; give one such as 2026-07-17T09:00") from error


def _expected(row: Mapping[str, Any], length: int) -> Expected:
    if "fires_at" in row:
        numbers = row["fires_at"]
        if not isinstance(numbers, list) or not all(
            isinstance(one, int) and not isinstance(one, bool) for one in numbers
        ):
            raise CaseError("`fires_at` must be a list of message numbers such as [3, 7], or [] for never")
        if beyond := [one for one in numbers if not 1 <= one <= length]:
            raise CaseError(f"`fires_at` names message {beyond[0]}, but the chat has {counted(length, 'message')}")
        return ExpectFirings(tuple(sorted(set(numbers))))
    expected = without_lines(row.get("expect"))
    if isinstance(expected, str) and expected in _VERDICTS:
        return ExpectVerdict(expected)
    if isinstance(expected, dict) and expected.keys() == {"failed"} and expected["failed"] in get_args(FailureKind):
        return ExpectVerdict("failed", expected["failed"])
    kinds = ", ".join(get_args(FailureKind))
    raise CaseError(
        f"`expect` must be fired, quiet, failed or {{failed: KIND}} with a kind of {kinds}"
        if "expect" in row
        else "it expects nothing; add `expect: fired`, `expect: quiet` or `fires_at: [3, 7]`"
    )
