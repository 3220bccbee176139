"""Lorebooks of AstrBot: the YAML of its plugin lorebook_lite, whose triggers look at the one message of the user.

Source: facts of the plugin's README (`trigger`, `authors_note`, logic of keywords `A&B~C`, placeholders
`{namespace::function(...)}`). Its variables and actions have no meaning here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from languages import _
from memory_server.interchange.incoming import WRONG_VALUE
from memory_server.kernel.json_text import Fields, Json, objects_in
from memory_server.kernel.values import frozen
from memory_server.knowledge import front_matter
from sandbox import WRONG_VALUES, literals

LoreRow = dict[str, Any]
"""An entry with the names of world info; `excludedKeys`: keys of which none may be there, which world info has not."""


class RowFault(ValueError):
    """An entry cannot come, because what it says has no meaning here; the message says why."""


@frozen
class ConvertedLorebook:
    """A lorebook of another program. `broken`: uid of each entry that cannot come, and why. `lost`: sentences about
    what does not come of the others."""

    rows: tuple[LoreRow, ...]
    broken: tuple[tuple[str, str], ...] = ()
    program: str = ""
    name: str = ""
    lost: tuple[str, ...] = ()


def is_given(value: Any) -> bool:
    """Tell whether a field has a value: not an empty text, list or object."""
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, list):
        return any(is_given(item) for item in value)
    return bool(value)


def expression_of_all(
    required: Sequence[str], excluded: Sequence[str] = (), *, ignores_case: bool
) -> str:
    """Write a key `/expression/` for texts that hold all required parts, and not all excluded parts together."""
    looks = "".join(map(_look_ahead, required))
    if excluded:
        barred = "".join(map(_look_ahead, excluded))
        looks += f"(?!{barred})"
    flags = "i" if ignores_case else ""
    return f"/{_BEGINNING}{looks}/{flags}"


_BEGINNING = r"(?<![\s\S])"
"""The beginning of a text, whatever the flags are."""


def _look_ahead(part: str) -> str:
    body = literals.expression(part, "")[1:-1]
    return rf"(?=[\s\S]*{body})"


MAX_BYTES = 2 * 1024 * 1024
"""Bytes of such a file at most."""
_TYPES = ("keywords", "regex", "listener")
_COMMA = re.compile(r"""("[^"]*"|'[^']*'|[^,"']+)+""")
_PLACEHOLDER = re.compile(r"\{\w+::\w+")
_SENDER = re.compile(r"\{buildin::sender_name\}")
_WITHOUT_LOGIC = ("false", "no", "off", "0")
_TRUE = ("true", "yes", "on", "1")


def _begins(line: bytes) -> bool:
    """Tell whether a line begins the triggers of such a lorebook."""
    if not line.startswith(b"trigger:"):
        return False
    value = line.removeprefix(b"trigger:").partition(b"#")[0]
    return not value.strip()


def document_in(data: bytes) -> Any:
    """Read a file in YAML that can be such a lorebook. Return None if it cannot, is too large or deep, or is not YAML."""
    if len(data) > MAX_BYTES or not any(map(_begins, data.splitlines())):
        return None
    try:
        value = front_matter.value_in(data.decode("utf-8-sig", errors="replace"))
    except front_matter.NotFields:
        return None
    if triggers_in(value) is None:
        return None
    return value


def triggers_in(value: Any) -> list[Any] | None:
    """Return the triggers in the value of a file, or None if it is not such a lorebook."""
    triggers = value.get("trigger") if isinstance(value, dict) else None
    if not isinstance(triggers, list):
        return None
    types = [trigger.get("type") for trigger in objects_in(triggers)]
    if any(kind in _TYPES for kind in types):
        return triggers
    return None


def read(given_triggers: list[Any], value: Fields) -> ConvertedLorebook:
    """Convert the triggers of a lorebook of AstrBot, and its author's notes, which always come. A
    trigger that cannot be converted is named as broken."""
    rows: list[LoreRow] = []
    broken: list[tuple[str, str]] = []
    triggers = objects_in(given_triggers)
    for position, trigger in enumerate(triggers):
        name = str(trigger.get("name") or position)
        try:
            rows.append({"uid": name, "comment": name} | _row_of(trigger))
        except RowFault as fault:
            broken.append((name, str(fault)))
        except WRONG_VALUES:
            broken.append((name, _(WRONG_VALUE)))

    notes = value.get("authors_note")
    for position, note in enumerate(notes if isinstance(notes, list) else []):
        if isinstance(note, dict):
            # A note has no condition, so it always comes.
            rows.append(_of_all(note) | {"uid": f"authors_note {position}", "constant": True})

    return ConvertedLorebook(tuple(rows), tuple(broken), lost=_lost(rows, triggers))


def _row_of(trigger: Fields) -> LoreRow:
    """Convert a trigger: of the type `listener` it always comes, of the type `regex` by an expression, and of any other
    type by keys with commas between them. Raises RowFault if it has a condition, which needs variables of AstrBot."""
    if is_given(trigger.get("conditional")):
        raise RowFault(_("its condition needs variables of AstrBot"))
    row = _of_all(trigger)
    match = str(trigger.get("match") or "")
    kind = trigger.get("type")
    if kind == "listener":
        return row | {"constant": True}
    if kind == "regex":
        return row | {"key": [f"/{_escaped(match)}/"]}
    uses_logic = str(trigger.get("use_logic", "true")).lower() not in _WITHOUT_LOGIC
    parts = [part.group().strip().strip("'\"") for part in _COMMA.finditer(match)]
    keys = [_key_of(part) if uses_logic else part for part in parts if part]
    return row | {"key": keys, "caseSensitive": True, "matchWholeWords": False}


def _of_all(part: Fields) -> LoreRow:
    """Convert what triggers and author's notes have both. They look only at a message of the user."""
    probability = _number(part.get("probability"), 1.0) * 100
    content = _SENDER.sub("{{user}}", str(part.get("content") or ""))
    order = _number(part.get("priority"), 100.0)
    return {"content": content, "scanDepth": 1, "probability": probability, "order": order}


def _key_of(expression: str) -> str:
    """Write a key for `A&B~C&D`: A and B, and not C together with D."""
    required, _tilde, excluded = expression.partition("~")
    required_parts = _parts_of(required)
    excluded_parts = _parts_of(excluded)
    if len(required_parts) == 1 and not excluded_parts:
        return required_parts[0]
    return expression_of_all(required_parts, excluded_parts, ignores_case=False)


def _parts_of(conjunction: str) -> list[str]:
    parts = [part.strip() for part in conjunction.split("&")]
    return [part for part in parts if part]


def _escaped(expression: str) -> str:
    """Write an expression of Python between slashes: a slash in it must not end it."""
    return re.sub(r"(?<!\\)/", r"\\/", expression)


def _lost(rows: list[LoreRow], triggers: list[Json]) -> tuple[str, ...]:
    """Return a sentence with a count for each thing that world info does not have: actions,
    blocking and placeholders."""
    with_actions = [trigger for trigger in triggers if is_given(trigger.get("actions"))]
    blocking = [trigger for trigger in triggers if str(trigger.get("block", "")).lower() in _TRUE]
    with_placeholders = [row for row in rows if _PLACEHOLDER.search(row["content"]) is not None]
    counts = {
        _("triggers that carry out actions"): len(with_actions),
        _("triggers that keep later ones from coming (block)"): len(blocking),
        _("entries with placeholders of AstrBot, which stay as they are"): len(with_placeholders),
    }
    return tuple(
        _("{what}: {count:,}", description, count) for description, count in counts.items() if count
    )


def _number(value: Any, usual: float) -> float:
    """Parse a number that is written as text. Return `usual` if it is missing."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return usual
