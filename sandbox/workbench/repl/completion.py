"""What can follow the words before the cursor of a `repl`: the trigger API, commands, time zones. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_WORD = re.compile(r"(?<![\w$.:'])[\w$.:']*$")

API = (
    ("match_keys(context.messages, [", "number of keys found: (messages, keys, scope = 'any', depth = 4)"),
    ("match_keys_all(context.messages, [", "whether all keys are found: (messages, keys, scope = 'any', depth = 4)"),
    ("context.messages", "role, content, and perhaps timestamp and name of each message"),
    ("context.participants", "who takes part, as the client tells it"),
    ("context.conversation_id", "id of the conversation"),
    ("'any'", "scope: every message"),
    ("'user'", "scope: the user's messages"),
    ("'assistant'", "scope: the assistant's messages"),
    ("'system'", "scope: system messages"),
    ("new Date()", "the time of the search, in its time zone"),
    ("new Date().getMonth()", "0 is January"),
    ("new Date().getDate()", "day of the month, from 1"),
    ("new Date().getDay()", "0 is Sunday"),
    ("new Date().getHours()", "0 to 23"),
    ("Math.random()", "from the seed of the search"),
    ("console.log(", "shown by run and repl"),
)
OF_MESSAGES = ("length", "at(-1)", "some(", "every(", "filter(", "find(", "map(", "slice(-4)")


@dataclass(frozen=True, slots=True)
class Candidate:
    """`text` replaces the last `length` characters before the cursor."""

    text: str
    length: int
    about: str = ""


def candidates(before: str, commands: Sequence[tuple[str, str]], zones: Iterable[str]) -> Iterator[Candidate]:
    """`before`: the line up to the cursor. `commands`: names with what they do."""
    if before.startswith(":tz "):
        part = before[4:]
        yield from (Candidate(zone, len(part)) for zone in sorted(zones) if part.casefold() in zone.casefold())
        return
    if before.startswith(":"):
        if " " not in before:
            part = before[1:]
            yield from (Candidate(name, len(part), about) for name, about in commands if name.startswith(part))
        return
    found = _WORD.search(before)
    part = found[0] if found else ""
    if part.startswith("context.messages."):
        method = part.removeprefix("context.messages.")
        yield from (Candidate(name, len(method)) for name in OF_MESSAGES if name.startswith(method))
    elif part:
        for name, about in API:
            if name.startswith(part) or name.removeprefix("new ").startswith(part):
                yield Candidate(name, len(part), about)
