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
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.items import Item, Sought
from memory_server.kernel.lifecycle import HistoryStep, Lifecycle, Undone, engine_of, forgetting_of
from memory_server.kernel.readers import way
from memory_server.kernel.recalls import RecallLog
from sandbox.locale import _, n_

Engines = Sequence[Lifecycle]
_TOGETHER = re.compile(r"[0-9a-f]{8}")
_MOST_NAMED = 3
"""Memories that a sentence names."""
_LOOKED_BACK = 10_000
"""Changes of each place that are looked at for the parts of one."""


def is_together(change: str) -> bool:
    """Whether it has the form of a change that several places may have a part of."""
    return _TOGETHER.fullmatch(change) is not None


def _is_id(name: str) -> bool:
    """Whether it looks like an id, and not like a word or a number, either of which people look for."""
    return name.isascii() and not name.isalpha() and not name.isdecimal() and len(name.split()) == 1


def words_in(names: Sequence[str]) -> tuple[str, ...]:
    """The words that a person wrote. Raises InvalidInput: there is none, or one of which nothing can be seen."""
    from nlp.index_terms import seen_form

    words = tuple(word for name in names for word in name.split())
    if names and not all(map(seen_form, words or ("",))):
        raise InvalidInput("Write words of what is meant, or its id: `memory-server forget dentist`.")
    return words


async def find(engines: Engines, names: Sequence[str], where: Sought) -> tuple[list[Item], tuple[str, ...]]:
    """The items that `names` name by their ids, or else those that hold all their words, newest first; and these words,
    if they found them. Raises InvalidInput: `names` are blank."""
    words = words_in(names)
    by_id = [await _items(engines, replace(where, ids=(name,))) for name in names]
    named = list({item.key: item for items in by_id for item in items}.values())
    if names and all(by_id) and all(map(_is_id, names)):
        return named, ()
    holders = await _items(engines, replace(where, words=words))
    if holders:
        return holders, words
    return (named if all(by_id) else []), ()


async def beside(engines: Engines, words: Sequence[str], where: Sought) -> list[Item]:
    """The items in use that hold all the words only together with the other words that are kept with them; they are
    not forgotten, but the words can be taken away from them."""
    if not words:
        return []
    return await _items(engines, replace(where, words=tuple(words), beside=True, archived=False))


def beside_text(items: Sequence[Item]) -> str:
    """What is said of such items; empty if there are none."""
    if not items:
        return ""
    shown = "; ".join(f"{item.id} ({', '.join(item.other_words)})" for item in items[:_MOST_NAMED])
    kept = n_(
        "{count} memory has some of these words only as other words by which it is found, and stays: {items}.",
        "{count} memories have some of these words only as other words by which they are found, and stay: {items}.",
        len(items),
        shown,
    )
    how = way("edit_memory", 'memory-server edit ID --other-words "…"')
    return _("{kept} {how} takes the words away.", kept, how)


async def _items(engines: Engines, sought: Sought) -> list[Item]:
    items = [item for engine in engines for item in await engine.find(sought)]
    return sorted(items, key=lambda item: -item.at_ms)


async def forget(engines: Engines, items: Collection[Item]) -> str | None:
    """Move items into the archive; the id of the change. None: none of them is there any more."""
    change = secrets.token_hex(4)
    return change if sum([await engine.forget(items, by=forgetting_of(change)) for engine in engines]) else None


async def erasure_of(
    engines: Engines, items: Collection[Item], words: Sequence[str] = (), user: str | None = None
) -> Erasure:
    """What erasing these items means: they and what the archive has of them, and all their texts, except those that
    stand in something that stays. What held all of the `words` in the past goes too, whatever has become of it: so
    words mean something without items."""
    from nlp.index_terms import index_form

    everything = [item for engine in engines for item in await engine.find(Sought(archived=None))]
    keys = {item.key for item in items}
    meant = [item for item in everything if item.key in keys]
    others = [item for item in everything if item.key not in keys]
    staying = index_form("\n".join(text for item in others for text in (item.text, item.title, *item.also)))
    texts = {text for engine in engines for text in await engine.texts_of(meant)}
    if words:
        texts |= {text for engine in engines for text in await engine.past_texts(words)}

    def alone(these: Iterable[str]) -> tuple[str, ...]:
        long = {text for text in these if len(text.encode()) >= LEAST_BYTES}
        return tuple(sorted(text for text in long if index_form(text) not in staying))

    whole = alone(texts)
    pieces = alone(piece for text in whole for piece in pieces_of(text))
    named = {item.text for item in items}
    alike = sum(item.text in named for item in others)
    return Erasure(tuple(meant), whole, pieces, tuple(words), user, alike)


async def erase(engines: Engines, erasure: Erasure, tombstones: Tombstones, recalls: RecallLog) -> None:
    """Erase for good; nothing brings it back, and doing it again finishes what a crash left. It ends by
    `tombstones.end`. Raises StorageError: it has to be done again."""
    await asyncio.to_thread(tombstones.begin, erasure)
    for engine in engines:
        await engine.forget(erasure.items, by="erase")
    for engine in engines:
        await engine.erase(erasure)
    await asyncio.to_thread(_erase_recalls, recalls, erasure)


def _erase_recalls(recalls: RecallLog, erasure: Erasure) -> None:
    try:
        recalls.rewrite(lambda line: None if erasure.in_recall(line) else line)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageUnwritable(_("The record of recalls cannot be written: {reason}.", reason)) from error


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
