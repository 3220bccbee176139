"""What an owner takes back, over both engines: it is found, and goes into the archive as one change.

The parts of such a change have one author, such as `forget 3f2a81c0`, by which the histories know them: so one `undo`
takes all of them back.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from memory_server.kernel.erasure import LEAST_BYTES, Erasure, Tombstones, pieces_of
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Item, Sought
from memory_server.kernel.lifecycle import HistoryStep, Lifecycle, Undone, engine_of
from memory_server.kernel.recalls import RecallLog

Engines = Sequence[Lifecycle]
_TOGETHER = re.compile(r"[0-9a-f]{8}")
_LOOKED_BACK = 10_000
"""Changes of each place that are looked at for the parts of one."""


def is_together(change: str) -> bool:
    """Whether it has the form of a change that several places may have a part of."""
    return _TOGETHER.fullmatch(change) is not None


def _is_id(given: str) -> bool:
    """Whether it looks like an id, and not like a word or a number, either of which people look for."""
    return given.isascii() and not given.isalpha() and not given.isdecimal() and len(given.split()) == 1


async def find(engines: Engines, given: Sequence[str], where: Sought) -> tuple[list[Item], tuple[str, ...]]:
    """The items that `given` names by their ids, or else those that hold all its words, newest first; and these words,
    if they found them. Raises InvalidInput: `given` is blank."""
    words = tuple(word for each in given for word in each.split())
    if given and not words:
        raise InvalidInput("Write words of what is meant, or its id: `memory-server forget dentist`.")

    async def found(sought: Sought) -> list[Item]:
        return sorted([item for one in engines for item in await one.find(sought)], key=lambda item: -item.at_ms)

    named = [await found(replace(where, ids=(each,))) for each in given]
    if given and all(named) and all(map(_is_id, given)):
        return list({item.key: item for items in named for item in items}.values()), ()
    if those := await found(replace(where, words=words)):
        return those, words
    return (list({item.key: item for items in named for item in items}.values()) if all(named) else []), ()


async def forget(engines: Engines, items: Collection[Item]) -> str | None:
    """Move items into the archive; the id of the change. None: none of them is there any more."""
    change = secrets.token_hex(4)
    return change if sum([await engine.forget(items, by=f"forget {change}") for engine in engines]) else None


async def erasure_of(
    engines: Engines, items: Collection[Item], words: Sequence[str] = (), user: str | None = None
) -> Erasure:
    """What erasing these items means: they and what the archive has of them, and all their texts, except those that
    stand in something that stays."""
    from nlp.index_terms import index_form

    everything = [item for engine in engines for item in await engine.find(Sought(archived=None))]
    keys, texts = {item.key for item in items}, {item.text for item in items}
    meant = [each for each in everything if each.key in keys]
    others = [each for each in everything if each.key not in keys]
    staying = index_form("\n".join(text for each in others for text in (each.text, each.title, *each.also)))
    found = {text for engine in engines for text in await engine.texts_of(meant)}

    def alone(these: Iterable[str]) -> tuple[str, ...]:
        long = {each for each in these if len(each.encode()) >= LEAST_BYTES}
        return tuple(sorted(each for each in long if index_form(each) not in staying))

    whole, alike = alone(found), sum(each.text in texts for each in others)
    pieces = alone(piece for text in whole for piece in pieces_of(text))
    return Erasure(tuple(meant), whole, pieces, tuple(words), user, alike)


async def erase(engines: Engines, erasure: Erasure, tombstones: Tombstones, recalls: RecallLog) -> None:
    """Erase for good; nothing brings it back, and doing it again finishes what a crash left. It ends by
    `tombstones.end`."""
    await asyncio.to_thread(tombstones.begin, erasure)
    for engine in engines:
        await engine.forget(erasure.items, by="erase")
    for engine in engines:
        await engine.erase(erasure)
    await asyncio.to_thread(recalls.rewrite, lambda line: None if erasure.in_recall(line) else line)


async def undo(engines: Engines, change: str, place: str | None = None, *, by: str) -> Undone:
    """As `Lifecycle.undo`, of the engine that made the change, or of all that have a part of it. Raises InvalidInput:
    there is no such change, or nothing of it can be taken back."""
    if not is_together(change):
        return await engine_of(engines, change).undo(change, place, by=by)
    again, steps, refused = secrets.token_hex(4), list[HistoryStep](), list[InvalidInput]()
    for engine in engines:
        lately = await engine.history(limit=_LOOKED_BACK, most_steps=1)
        for part in [past for past in lately if past.by.endswith(f" {change}")]:
            try:
                steps += (await engine.undo(part.id, part.place, by=f"{by} {again}")).steps
            except InvalidInput as error:
                refused.append(error)
    if not steps:
        missing = InvalidInput("There is no change {change}; `memory-server history` lists all changes.", change)
        raise refused[0] if refused else missing
    return Undone(again, tuple(steps), tuple(map(str, refused)))
