"""A line of the record of recalls as a value: every field has its type and a default, because a line leaves out what is
empty (docs/reference/data-folder.md), and an older version, or an editor, may have written something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from memory_server.kernel.times import milliseconds
from memory_server.kernel.values import frozen

_MOST_NUMBER = 1e15
"""A number of a line that is as large was not written by this program."""
_NAMED = ("trigger", "note")
"""Tiers of items that are not memories: the id of such an item is a name."""
_BEGINNING = ("plan", "pinned", "last")
"""Tiers of what a session gets as it begins."""


@frozen
class RecordedItem:
    """What came, or nearly came. `words`, `given` and `kept` have the points of words: words that the messages and its
    text have, words that the caller gave, and words that are kept with it. `relevance`, `counted` and `points` are None
    if the line has none: `points` is what it lacked. `conversation` is the conversation that keeps it. `overview`: the
    messages asked for an overview, and it is part of that. `instead_of`: the id of the memory that it corrects, and in
    whose place it came."""

    id: str
    conversation: str
    tier: str
    relevance: float | None
    counted: float | None
    words: Mapping[str, float]
    given: Mapping[str, float]
    kept: Mapping[str, float]
    around: float
    overview: bool
    lacked: str
    points: float | None
    order: float | None = None
    instead_of: str = ""
    chars: int = 0
    is_cut: bool = False

    @property
    def is_memory(self) -> bool:
        return self.tier not in _NAMED


@frozen
class RecordedLeftOut:
    """A memory whose trigger fired and which is not in the text that was given: its name, its characters (0 if they
    were not counted) and the reason."""

    id: str
    chars: int
    reason: str


@frozen
class RecordedRecall:
    """A recall. `line` is the line as it is stored, to be printed. `used` has the ids that the answer used; it is None
    if they are not known."""

    line: Mapping[str, Any]
    id: str
    at_ms: int
    conversation: str
    by: str
    client: str
    cwd: str
    folder: str
    session: str
    turn: str
    said: str
    other_words: Sequence[str]
    came: Sequence[RecordedItem]
    near: Sequence[RecordedItem]
    needed: float
    failed: Sequence[str]
    left_out: Sequence[RecordedLeftOut]
    held: Mapping[str, int]
    chars: int
    tokens: int
    used: Sequence[str] | None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came."""
        return not self.came

    @property
    def begins_session(self) -> bool:
        """Whether a session began, and nothing was asked yet."""
        return not self.said and any(item.tier in _BEGINNING for item in self.came)

    @property
    def was_in_context(self) -> bool:
        """Whether all that came had been given to the session before, so that nothing was given again."""
        return bool(self.came) and not self.tokens

    @property
    def memories(self) -> Sequence[RecordedItem]:
        return [item for item in self.came if item.is_memory]

    @property
    def others(self) -> Sequence[RecordedItem]:
        """The triggers and notes that came."""
        return [item for item in self.came if not item.is_memory]


def recorded_recall(line: Mapping[str, Any]) -> RecordedRecall:
    """Read a line as a value. A field of another type counts as missing."""
    conversation = _text(line, "conversation")
    used = line.get("used")

    # A line of another version may lack any field or have another type in it.
    return RecordedRecall(
        line=line,
        id=_text(line, "id"),
        at_ms=_at_ms(line),
        conversation=conversation,
        by=_text(line, "by"),
        client=_text(line, "client"),
        cwd=_text(line, "cwd"),
        folder=_text(line, "folder"),
        session=_text(line, "session"),
        turn=_text(line, "turn"),
        said=_text(line, "said"),
        other_words=_texts(line.get("otherWords")),
        came=tuple(_items(line.get("came"), conversation)),
        near=tuple(_items(line.get("near"), conversation)),
        needed=_number(line, "needed") or 0.0,
        failed=_texts(line.get("failed")),
        left_out=tuple(_left_out(line.get("leftOut"))),
        held={rule: int(count) for rule, count in _numbers(line.get("held")).items()},
        chars=int(_number(line, "chars") or 0),
        tokens=int(_number(line, "tokens") or 0),
        used=_texts(used) if isinstance(used, list) else None,
    )


def _items(field_value: object, conversation: str) -> Iterator[RecordedItem]:
    """Yield the memories in a field of a line; what is not an object with a text as `id` is left
    out. `conversation` is where they are kept if they do not say it."""
    for item in field_value if isinstance(field_value, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            continue

        yield RecordedItem(
            id=item["id"],
            conversation=_text(item, "kept_in") or conversation,
            tier=_text(item, "tier"),
            relevance=_number(item, "relevance"),
            counted=_number(item, "counted"),
            words=_numbers(item.get("words")),
            given=_numbers(item.get("given")),
            kept=_numbers(item.get("kept")),
            around=_number(item, "around") or 0.0,
            overview=item.get("overview") is True,
            lacked=_text(item, "lacked"),
            points=_number(item, "points"),
            order=_number(item, "order"),
            instead_of=_text(item, "insteadOf"),
            chars=int(_number(item, "chars") or 0),
            is_cut=item.get("cut") is True,
        )


def _left_out(rows: object) -> Iterator[RecordedLeftOut]:
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("id"), str):
            yield RecordedLeftOut(row["id"], int(_number(row, "chars") or 0), _text(row, "reason"))


def _at_ms(line: Mapping[str, Any]) -> int:
    try:
        return milliseconds(datetime.fromisoformat(_text(line, "at")))
    except (ValueError, OverflowError):
        return 0


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _texts(field_value: object) -> tuple[str, ...]:
    return (
        tuple(value for value in field_value if isinstance(value, str))
        if isinstance(field_value, list)
        else ()
    )


def _number(fields: Mapping[str, Any], name: str) -> float | None:
    return _as_number(fields.get(name))


def _numbers(field_value: object) -> dict[str, float]:
    pairs = field_value.items() if isinstance(field_value, dict) else ()
    numbers = {str(name): _as_number(value) for name, value in pairs}
    return {name: number for name, number in numbers.items() if number is not None}


def _as_number(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < _MOST_NUMBER else None
