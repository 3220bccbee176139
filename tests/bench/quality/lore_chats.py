"""Chats that touch keys of a lorebook: made of its keys by seeded dice, or read from files of SillyTavern. Nothing of a
book is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random

from bench.quality.lore_as_there import Line
from bench.quality.lore_entries import Entry
from bench.quality.lore_keys import expression_of

USER = "Ann"
CHARACTER = "Mika"
_SENTENCES = (
    "I keep thinking about {0}.",
    "Tell me what you know of {0} and {1}.",
    "Yesterday somebody asked about {0}!",
    "{0}? No, I would rather hear of {1}, then of {2}.",
    "Let us walk on; the rain has stopped.",
    "昨天有人提到{0}，我还没想明白。",
    "你还记得{0}和{1}吗？",
    "先不说{0}了，我们回家吧。",
)
_LEAST_MESSAGES = 6
_MOST_MESSAGES = 12
_LONGEST_NAME = 20
_SEPARATE_TITLE = "chat_metadata"


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat of a user with somebody; a line of the user is one whose name is `user`."""

    name: str
    user: str
    lines: tuple[Line, ...]


def made_of_keys(entries: Sequence[Entry], count: int, seed: int) -> list[Chat]:
    """So many chats about keys of the entries. In every second one the other speaker has a key for a name."""
    dice = Random(seed)
    all_keys = chain.from_iterable(entry.keys for entry in entries if entry.enabled)
    texts = [key for key in all_keys if expression_of(key) is None]
    keys = [key for key in dict.fromkeys(texts) if key.strip() and "{{" not in key]
    if not keys:
        return []
    names = [
        key for key in keys if len(key) <= _LONGEST_NAME and ":" not in key and "\n" not in key
    ]
    chats: list[Chat] = []
    for number in range(count):
        character = CHARACTER
        if number % 2 and names:
            character = dice.choice(names)
        length = dice.randrange(_LEAST_MESSAGES, _MOST_MESSAGES + 1)
        speakers = [(character, USER)[index % 2] for index in range(length)]
        lines = tuple(Line(speaker, _sentence(dice, keys)) for speaker in speakers)
        chats.append(Chat(f"made {number}", USER, lines))
    return chats


def _sentence(dice: Random, keys: Sequence[str]) -> str:
    return dice.choice(_SENTENCES).format(*(dice.choice(keys) for _ in range(3)))


def read_chats(folder: Path) -> Iterator[Chat]:
    """The chats of SillyTavern in a folder, also in folders below it."""
    for path in sorted(folder.rglob("*.jsonl")):
        rows = [_object(line) for line in path.read_text("utf-8", errors="replace").splitlines()]
        messages = [
            row for row in rows if isinstance(row.get("mes"), str) and not row.get("is_system")
        ]
        users = [str(row["name"]) for row in messages if row.get("is_user") and row.get("name")]
        lines = tuple(Line(str(row.get("name") or ""), str(row["mes"])) for row in messages)
        if lines:
            yield Chat(path.stem, next(iter(users), USER), lines)


def _object(line: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(value, dict) or _SEPARATE_TITLE in value:
        return {}
    return value
