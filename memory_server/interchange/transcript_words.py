"""What the user or the model wrote in a block of text of a transcript of Claude Code, without what the client adds:
tags, slash commands and sentences of the table spoken_places.py. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from memory_server.interchange import spoken_places as places
from nlp.once import Once

_TAG = Once(
    lambda: re.compile(rf"<({'|'.join(map(re.escape, places.TAGS))})(?:\s[^<>\n]{{0,1000}})?>")
)
_ADDED_TO_WORDS = frozenset(name for name, place in places.TAGS.items() if place.whose != "agent")
_ADDED_TO_ANSWERS = frozenset(("system-reminder", "system_reminder"))
_INTERRUPTED = re.compile(r"^\[Request interrupted by user[^\]\n]*\]$", re.MULTILINE)
_INVOKED_BY_THE_MODEL = Once(
    lambda: re.compile(r'^The "[^"\n]{1,200}" skill is (?:loading|running)')
)
ORIGIN = ("origin", "kind")
"""Where newer lines say whose words they hold."""


def words_of_user(text: str, row: Mapping[str, Any], left_out: Counter[str]) -> str:
    """Return what the user wrote in a block of text. Where the line says that a person wrote it, only what the client
    adds to such words is taken away: the rest may be a paste."""
    is_by_human = value_at(row, ORIGIN) == "human"
    tags = _ADDED_TO_WORDS if is_by_human else places.TAGS.keys()
    # A skill that is called without a terminal is a local row too, and has the other tag first.
    is_local = row.get("rowSource") == "local" and text.lstrip().startswith("<command-name>")
    words = _without_parts(text, tags, left_out, is_local=is_local)
    if is_by_human:
        return words
    beginning = words.lstrip()
    for place in places.SENTENCES:
        if beginning.startswith(place.mark):
            if place.called:
                left_out[place.called] += 1
            return ""
    return words


def prompt_in(text: str) -> str:
    """Return what the user wrote in a prompt that a client gives to a hook; empty if another agent or the client
    wrote it."""
    return without_interruption(words_of_user(text, {}, Counter()))


def answer_in(text: str) -> str:
    """Return what the model wrote, without what the client added."""
    return _without_parts(text, _ADDED_TO_ANSWERS, Counter()).strip()


def was_interrupted(text: str) -> bool:
    """Tell whether the client wrote in a text that the user interrupted the model."""
    return _INTERRUPTED.search(text) is not None


def without_interruption(text: str) -> str:
    """Return a text without the line that the client writes where the user interrupts the model."""
    return _INTERRUPTED.sub("", text).strip()


def _without_parts(
    text: str, tags: Collection[str], left_out: Counter[str], *, is_local: bool = False
) -> str:
    """Return the text without the parts between `tags`; a slash command as it was typed. Linear in the length: the
    end of an unclosed tag is searched only once. `is_local`: the client ran the command by itself."""
    pieces: list[str] = []
    command: dict[str, str] = {}
    piece_start = 0
    unclosed: set[str] = set()
    for opening in _TAG().finditer(text):
        name = opening[1]
        # This tag is inside a part that is taken out, or does not matter.
        if opening.start() < piece_start or name in unclosed or name not in tags:
            continue

        closing = f"</{name}>"
        end = text.find(closing, opening.end())
        if end < 0:
            unclosed.add(name)
            continue

        part = text[opening.end() : end]
        pieces.append(text[piece_start : opening.start()])
        # This is what the user typed after `#`, so it stays.
        if name == "user-memory-input":
            pieces.append(part)
        elif name in ("command-name", "command-args", "command-message", "skill-format"):
            command[name] = part.strip()

        called = places.TAGS[name].called
        if called:
            left_out[called] += 1

        piece_start = end + len(closing)

    pieces.append(text[piece_start:])
    return _typed(command, left_out, is_local=is_local) + "".join(pieces)


def _typed(command: Mapping[str, str], left_out: Counter[str], *, is_local: bool) -> str:
    """Write a slash command as the user typed it; empty if it is a setting of the client, or the model called a
    skill."""
    name = command.get("command-name", "").lstrip("/")
    if not name:
        return command.get("command-args", "")
    is_by_model = "skill-format" in command or _INVOKED_BY_THE_MODEL().match(
        command.get("command-message", "")
    )
    if is_local or is_by_model or name in places.CLIENT_COMMANDS:
        left_out[places.COMMANDS] += 1
        return ""
    return f"/{name} {command.get('command-args', '')}".strip()


def value_at(row: Mapping[str, Any], path: Iterable[str]) -> Any:
    """Return the value at a path of names, or None."""
    value: Any = row
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
