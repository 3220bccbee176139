"""What an owner takes back, over both engines: the items are found, and go into the archive as one change.

The parts of such a change have one author, such as `forget 3f2a81c0`, by which the histories know them: so one `undo`
takes all of them back.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from languages import Sentence, _, n_
from memory_server.conversations.recall_log import Line, RecallLog
from memory_server.kernel.erasure import LEAST_BYTES, Erasure, Tombstones, pieces_of
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.items import Item, Sought
from memory_server.kernel.lifecycle import HistoryStep, Lifecycle, Undone, engine_of, forgetting_of
from memory_server.kernel.readers import way

Engines = Sequence[Lifecycle]
_TOGETHER = re.compile(r"[0-9a-f]{8}")
_MOST_NAMED = 3
"""Memories that a sentence names."""
_LOOKED_BACK = 10_000
"""Changes of each place that are looked at for the parts of one."""


def is_together(change: str) -> bool:
    """Whether a change id has the form of a change that several places may have a part of."""
    return _TOGETHER.fullmatch(change) is not None


def _is_id(name: str) -> bool:
    """Whether a name looks like an id, and not like a word or a number, either of which people look for."""
    return name.isascii() and not name.isalpha() and not name.isdecimal() and len(name.split()) == 1


def words_in(names: Sequence[str]) -> tuple[str, ...]:
    """The words that a person wrote. Raises InvalidInput: there is none, or one of which nothing can be seen."""
    from nlp.index_terms import seen_form

    words: list[str] = []
    for name in names:
        words += name.split()
    is_blank = not words or not all(map(seen_form, words))
    if names and is_blank:
        raise InvalidInput(
            "Give words of the text to forget, or its id: `memory-server forget dentist`."
        )
    return tuple(words)


async def find(
    engines: Engines, names: Sequence[str], where: Sought
) -> tuple[list[Item], tuple[str, ...]]:
    """The items that `names` name by their ids, if each of them looks like an id and names one; or else those that hold
    all their words; or else those that they name. With the items come the words, if words found them. Without `names`
    the items are all that `where` takes in. Newest first. Raises InvalidInput: `names` are blank."""
    words = words_in(names)
    every_name_matches = True
    named: dict[tuple[str, str, str], Item] = {}
    for name in names:
        items = await _items(engines, replace(where, ids=(name,)))
        every_name_matches = every_name_matches and bool(items)
        for item in items:
            named[item.key] = item
    if names and every_name_matches and all(map(_is_id, names)):
        return _newest_first(named.values()), ()
    holders = await _items(engines, replace(where, words=words))
    if holders:
        return holders, words
    if every_name_matches:
        return _newest_first(named.values()), ()
    return [], ()


def _newest_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: -item.at_ms)


async def beside(engines: Engines, words: Sequence[str], where: Sought) -> list[Item]:
    """The items in use that hold all the words only together with the other words that are kept with them; they are
    not forgotten, but the words can be taken away from them."""
    if not words:
        return []
    return await _items(
        engines, replace(where, words=tuple(words), only_by_other_words=True, archived=False)
    )


def beside_text(items: Sequence[Item]) -> str:
    """The sentences about the items of `beside`; empty if there are none."""
    if not items:
        return ""
    named_items = "; ".join(
        f"{item.id} ({', '.join(item.other_words)})" for item in items[:_MOST_NAMED]
    )
    what_stays = n_(
        "{count} memory has some of these words only as other words by which it is found, and stays: {items}.",
        "{count} memories have some of these words only as other words by which they are found, and stay: {items}.",
        len(items),
        named_items,
    )
    remedy = way("edit_memory", 'memory-server edit ID --other-words "…"')
    return _("{kept} {how} takes the words away.", what_stays, remedy)


async def _items(engines: Engines, sought: Sought) -> list[Item]:
    """The items of all engines that match the filter, newest first."""
    items: list[Item] = []
    for engine in engines:
        items += await engine.find(sought)
    return sorted(items, key=lambda item: -item.at_ms)


async def forget(engines: Engines, items: Collection[Item]) -> str | None:
    """Move items into the archive; the id of the change. None: none of them is there any more."""
    change_id = secrets.token_hex(4)
    moved_count = 0
    for engine in engines:
        moved_count += await engine.forget(items, by=forgetting_of(change_id))
    if moved_count == 0:
        return None
    return change_id


async def erasure_of(
    engines: Engines, items: Collection[Item], words: Sequence[str] = (), user: str | None = None
) -> Erasure:
    """What erasing these items means: they and what the archive has of them, and all their texts, except those that
    stand in something that stays. What held all of the `words` in the past goes too, whatever has become of it: so
    words mean something without items."""
    from nlp.index_terms import index_form

    keys = {item.key for item in items}
    erased_items: list[Item] = []
    staying_items: list[Item] = []
    for engine in engines:
        for item in await engine.find(Sought(archived=None)):
            if item.key in keys:
                erased_items.append(item)
            else:
                staying_items.append(item)
    staying_texts: list[str] = []
    for item in staying_items:
        staying_texts += [item.text, item.title, *item.also]
    staying_text = index_form("\n".join(staying_texts))
    texts: set[str] = set()
    for engine in engines:
        texts |= await engine.texts_of(erased_items)
        if words:
            texts |= await engine.past_texts(words)

    def without_staying(candidates: Iterable[str]) -> tuple[str, ...]:
        """The texts that are long enough to be looked for and stand in nothing that stays, sorted."""
        long_texts = {text for text in candidates if len(text.encode()) >= LEAST_BYTES}
        return tuple(sorted(text for text in long_texts if index_form(text) not in staying_text))

    erased_texts = without_staying(texts)
    all_pieces: list[str] = []
    for text in erased_texts:
        all_pieces += pieces_of(text)
    named_texts = {item.text for item in items}
    return Erasure(
        items=tuple(erased_items),
        texts=erased_texts,
        pieces=without_staying(all_pieces),
        words=tuple(words),
        user=user,
        alike=sum(item.text in named_texts for item in staying_items),
    )


async def erase(
    engines: Engines, erasure: Erasure, tombstones: Tombstones, recalls: RecallLog
) -> None:
    """Erase for good; nothing brings it back, and doing it again finishes what a crash left. It ends by
    `tombstones.end`. Raises StorageError: it has to be done again."""
    await asyncio.to_thread(tombstones.begin, erasure)
    for engine in engines:
        await engine.forget(erasure.items, by="erase")
    for engine in engines:
        await engine.erase(erasure)
    await asyncio.to_thread(_erase_recalls, recalls, erasure)


def _erase_recalls(recalls: RecallLog, erasure: Erasure) -> None:
    def keep_line(line: Line) -> Line | None:
        if erasure.in_recall(line):
            return None
        return line

    try:
        recalls.rewrite(keep_line)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageUnwritable(
            Sentence("The record of recalls cannot be written: {reason}.", reason)
        ) from error


async def undo(engines: Engines, change: str, place: str | None = None, *, by: str) -> Undone:
    """As `Lifecycle.undo`, of the engine that made the change, or of all that have a part of it. Raises InvalidInput:
    there is no such change, or nothing of it can be taken back."""
    if not is_together(change):
        return await engine_of(engines, change).undo(change, place, by=by)
    undo_id = secrets.token_hex(4)
    steps: list[HistoryStep] = []
    refusals: list[InvalidInput] = []
    for engine in engines:
        past_changes = await engine.history(limit=_LOOKED_BACK, most_steps=1)
        parts = [past for past in past_changes if past.by.endswith(f" {change}")]
        for part in parts:
            try:
                undone = await engine.undo(part.id, part.place, by=f"{by} {undo_id}")
            except InvalidInput as error:
                refusals.append(error)
            else:
                steps += undone.steps
    if steps:
        return Undone(undo_id, tuple(steps), tuple(map(str, refusals)))
    if refusals:
        raise refusals[0]
    raise InvalidInput(
        "There is no change {change}; `memory-server history` lists all changes.", change
    )
