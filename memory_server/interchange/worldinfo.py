"""SillyTavern lorebooks: an entry becomes a long-term memory, read by the trigger authors' workbench; and a long-term
memory whose trigger only looks for keys becomes an entry."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Any

from memory_server.core.contents import Contents
from memory_server.core.model import LongTermMemory
from memory_server.interchange.incoming import Incoming, NotThisFormat, document
from memory_server.interchange.packs import from_pack, take_carried
from memory_server.interchange.trigger_keys import Conditions, Key, Sought, conditions
from sandbox.javascript import literals
from sandbox.workbench import carrying
from sandbox.workbench.worldinfo import Book, BookError, read_book
from sandbox.workbench.worldinfo_keys import Defaults
from sandbox.workbench.worldinfo_losses import lost_everywhere

ALL_MESSAGES = 1000
"""The most messages that SillyTavern scans; what looks at all messages looks at these."""
_LOGIC = {(False, False): 0, (True, True): 1, (False, True): 2, (True, False): 3}
"""`selectiveLogic` by whether every key is meant and whether none may be there: AND_ANY, NOT_ALL, NOT_ANY, AND_ALL."""
_FLAGS = frozenset("gimsuy")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_](?:[!-~]*[A-Za-z0-9_])?")
_EXPRESSION_FORM = re.compile(r"/[\s\S]+/[a-z]*")
_WORD = re.compile(r"[A-Za-z0-9_]")


def write(conversations: Iterable[Contents]) -> tuple[bytes, int, list[tuple[str, str]]]:
    """The long-term memories as one lorebook; how many are in it; and by name what is not, or not wholly."""
    entries: dict[str, Any] = {}
    notes: list[tuple[str, str]] = []
    for contents in conversations:
        for memory in contents.long_term:
            found = conditions(memory.trigger)
            entry = None if found is None else _entry(len(entries), memory, found, notes)
            if entry is None:
                notes.append((memory.name, "left out: its trigger does more than look for keys"))
            else:
                entries[str(entry["uid"])] = entry
    return json.dumps({"entries": entries}, ensure_ascii=False, indent=2).encode() + b"\n", len(entries), notes


def _entry(uid: int, memory: LongTermMemory, found: Conditions, notes: list[tuple[str, str]]) -> dict[str, Any] | None:
    arranged = _arranged(found.sought)
    if arranged is None:
        return None
    primary, secondary, logic = arranged
    keys = [*primary, *secondary]
    if any(key.flags is not None and not set(key.flags) <= _FLAGS for key in keys):
        return None
    depth = found.sought[0].depth if found.sought else None
    if depth == 0:
        depth = ALL_MESSAGES
        notes.append((memory.name, f"looks at all messages: SillyTavern looks at the last {ALL_MESSAGES}"))
    if scopes := {sought.scope for sought in found.sought} - {"any"}:
        notes.append((memory.name, f"scope {min(scopes)}: a lorebook looks at what everybody said"))
    words = all(key.flags is None and _PLAIN_WORD.fullmatch(key.text) for key in keys)
    return {
        "uid": uid,
        "key": [_written(key, words) for key in primary],
        "keysecondary": [_written(key, words) for key in secondary],
        "comment": memory.name,
        "content": memory.prompt,
        "constant": not found.sought,
        "selective": bool(secondary),
        "selectiveLogic": logic,
        "order": 100,
        "position": 0,
        "disable": False,
        "probability": round(found.chance * 100, 6),
        "useProbability": True,
        "scanDepth": depth,
        "caseSensitive": False,
        "matchWholeWords": words,
        "delay": found.messages or None,
    }


def _arranged(sought: tuple[Sought, ...]) -> tuple[tuple[Key, ...], tuple[Key, ...], int] | None:
    """Keys, secondary keys and their logic; None where a lorebook cannot say it."""
    match sought:
        case ():
            return (), (), 0
        case (Sought(keys, every, False),):
            return (keys[:1], keys[1:], 3) if every else (keys, (), 0)
        case (Sought(keys, every, False) as first, second) if not every or len(keys) == 1:
            if (first.depth, first.scope) == (second.depth, second.scope):
                return keys, second.keys, _LOGIC[second.every, second.negated]
    return None


def _written(key: Key, words: bool) -> str:
    """A key as SillyTavern seeks it where match_keys does: an expression where plain text would not say the same."""
    if key.flags is not None:
        return f"/{_slashes_escaped(key.text)}/{key.flags}"
    text = key.text
    lettered = not literals.has_ideograph(text) and (_WORD.match(text[0]) or _WORD.match(text[-1]))
    if words or not (lettered or text != text.strip() or _EXPRESSION_FORM.fullmatch(text)):
        return text
    body = literals.expression(text, "")[1:-1]
    if lettered:
        body = r"\b" * bool(_WORD.match(text[0])) + body + r"\b" * bool(_WORD.match(text[-1]))
    return f"/{body}/i"


def _slashes_escaped(body: str) -> str:
    return re.sub(r"(\\.)|/", lambda found: found[1] or r"\/", body)


def book(data: bytes) -> Book:
    """The lorebook in a file. Raises NotThisFormat."""
    try:
        return read_book(document(data))
    except BookError as error:
        raise NotThisFormat(f"{error}.") from error


def expressions(lorebook: Book) -> list[str]:
    """Keys that are expressions in form; which of them V8 does not compile is to be found out before `read`."""
    return carrying.expressions(lorebook)


def read(lorebook: Book, source: str, usual: str, invalid: Collection[str] = ()) -> Incoming:
    """The entries of a lorebook, for the conversation `usual`. `source`: name of its file."""
    found = Incoming()
    carried = carrying.carry(lorebook, Defaults(), source, invalid)
    found.conversations = [Contents(usual, (), from_pack(found, take_carried(found, carried)))]
    found.notes += [f"all entries: {line}" for line in lost_everywhere(lorebook)]
    return found
