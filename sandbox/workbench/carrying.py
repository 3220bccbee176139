"""A lorebook entry as a readable trigger, and in words what could not be carried over. Pure.

SillyTavern seeks keys in the last `scanDepth` messages joined together (facts of world-info.js); worldinfo_keys.py says
how a key matches, worldinfo_losses.py what has no meaning here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.javascript import literals
from sandbox.workbench.sources.packs import Memory
from sandbox.workbench.worldinfo import Book, Entry
from sandbox.workbench.worldinfo_keys import Defaults, literal, parsed
from sandbox.workbench.worldinfo_losses import lost_fields, lost_macros

SILLYTAVERN_DEPTH = 2
"""Messages that SillyTavern scans unless its user says otherwise (world_info_depth)."""


@dataclass(frozen=True, slots=True)
class Carried:
    """`memory`: None when nothing of the entry could be used. `lost`: a line for each thing that does not hold.

    `place`: where it stands in its file, in words. `runs`: False for one that is kept but cannot work here.
    """

    title: str
    memory: Memory | None
    lost: tuple[str, ...]
    place: str = ""
    runs: bool = True


def expressions(book: Book) -> list[str]:
    """The keys that are regular expressions in form, to be tried before `carry`."""
    return [key for entry in book.entries for key in (*entry.keys, *entry.secondary) if parsed(key, entry) is not None]


def carry(book: Book, defaults: Defaults, source: str, invalid: Collection[str] = ()) -> list[Carried]:
    """Every entry of a book. `source`: name of the file. `invalid`: expressions that V8 does not compile."""
    taken: set[str] = set()
    broken = [Carried(f"entry {uid}", None, (f"left out: it cannot be read: {fault}",)) for uid, fault in book.broken]
    return [*(_carried(entry, book, defaults, source, invalid, taken) for entry in book.entries), *broken]


def _carried(
    entry: Entry, book: Book, defaults: Defaults, source: str, invalid: Collection[str], taken: set[str]
) -> Carried:
    title, place = defaults.named(entry.title), f"entry {entry.uid}"
    decorators, content = _decorators(defaults.named(entry.content))
    lost: list[str] = []
    if reason := _why_not(entry, decorators, content):
        return Carried(title, None, (f"left out: {reason}",), place)
    constant = entry.constant or "@@activate" in decorators
    if not constant and not entry.keys:
        why = "vectorized: it is found by meaning" if entry.fields.get("vectorized") else "it has no keys"
        return Carried(title, None, (f"left out: {why}; give it a trigger of its own",), place)
    depth = _first(entry.depth, defaults.depth, book.depth, SILLYTAVERN_DEPTH)
    if not constant and depth < 1:
        return Carried(title, None, (f"left out: scanDepth {depth} looks at no message",), place)
    negative = entry.secondary and entry.logic in ("NOT_ANY", "NOT_ALL")
    if entry.sticky and not constant and not negative:
        depth += entry.sticky
        lost.append(f"sticky {entry.sticky}: keys are sought {entry.sticky} messages further back instead")
    elif entry.sticky and not constant:
        lost.append(f"sticky {entry.sticky}: a trigger does not know when it last fired")
    condition = "true" if constant else _condition(entry, defaults, depth, invalid, lost)
    trigger = "\n".join([literals.comment(f"World info entry {entry.uid}: {title}"), _limited(entry, condition)])
    if entry.delay:
        lost.append(f"delay {entry.delay}: counts only the messages that the client sends")
    lost += [f"decorator {name}: has no meaning here" for name in decorators if name != "@@activate"]
    lost += lost_fields(entry.fields)
    lost += lost_macros((content, *entry.keys, *entry.secondary), defaults)
    memory = Memory(_unique(title, taken), content, trigger, f"{source}, entry {entry.uid}", _notes(lost))
    return Carried(memory.name, memory, tuple(lost), place)


def _notes(lost: Sequence[str]) -> dict[str, Any]:
    return {"notes": list(lost)} if lost else {}


def _first(*numbers: int | None) -> int:
    return next(number for number in numbers if number is not None)


def _why_not(entry: Entry, decorators: Collection[str], content: str) -> str | None:
    if not entry.enabled:
        return "it is disabled"
    if "@@dont_activate" in decorators:
        return "@@dont_activate keeps it from ever firing"
    if not content.strip():
        return "it has no content"
    if entry.probability <= 0:
        return "its probability is 0"
    return None


def _decorators(content: str) -> tuple[list[str], str]:
    """The `@@name` lines that a content begins with, and the rest."""
    lines = content.split("\n")
    count = 0
    while count < len(lines) and lines[count].startswith("@@"):
        count += 1
    return [line.strip() for line in lines[:count]], "\n".join(lines[count:])


def _limited(entry: Entry, condition: str) -> str:
    """The condition with what else must hold: a number of messages, a throw of the dice."""
    conditions = [f"context.messages.length >= {entry.delay}"] if entry.delay else []
    if condition != "true" or not (entry.delay or entry.probability < 100):
        conditions.append(condition)
    if entry.probability < 100:
        conditions.append(f"Math.random() < {entry.probability / 100:g}")
    return "\n  && ".join(conditions)


def _condition(entry: Entry, defaults: Defaults, depth: int, invalid: Collection[str], lost: list[str]) -> str:
    primary = [literal(key, entry, defaults, invalid, lost) for key in entry.keys]
    secondary = [literal(key, entry, defaults, invalid, lost) for key in entry.secondary]
    if len(primary) == 1 and secondary and entry.logic == "AND_ALL":
        return literals.call("match_keys_all", primary + secondary, depth=depth)
    found = f"{literals.call('match_keys', primary, depth=depth)} > 0"
    if not secondary:
        return found
    anywhere = literals.call("match_keys", secondary, depth=depth)
    everywhere = literals.call("match_keys_all", secondary, depth=depth)
    match entry.logic:
        case "AND_ANY":
            second = f"{anywhere} > 0"
        case "NOT_ANY":
            second = f"{anywhere} === 0"
        case "AND_ALL":
            second = everywhere
        case "NOT_ALL":
            second = f"!{everywhere}"
    return f"{found}\n  && {second}"


def _unique(title: str, taken: set[str]) -> str:
    name, number = title, 2
    while name in taken:
        name, number = f"{title} ({number})", number + 1
    taken.add(name)
    return name
