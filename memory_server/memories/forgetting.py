"""Forget what an owner takes back, over both engines: find the items, and move them into the archive as one change.

The parts of such a change have the same author, such as `forget 3f2a81c0`, by which the histories know them. So one
`undo` takes all of them back.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from languages import Sentence, _, n_
from memory_server.conversations.ports import Line, RecallLog
from memory_server.kernel.erasure import LEAST_BYTES, Erasure, Tombstones, pieces_of
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.items import Item, ItemFilter
from memory_server.kernel.lifecycle import HistoryStep, Lifecycle, Undone, engine_of, forgetting_of
from memory_server.kernel.readers import way
from memory_server.memories.questions import without_answer

Engines = Sequence[Lifecycle]
_TOGETHER = re.compile(r"[0-9a-f]{8}")
_MOST_NAMED = 3
"""Memories that a sentence names."""
_LOOKED_BACK = 10_000
"""Changes of each place that are searched for the parts of a change."""


def is_together(change: str) -> bool:
    """Return whether a change id has the form of a change with parts in several places."""
    return _TOGETHER.fullmatch(change) is not None


def _is_id(name: str) -> bool:
    """Return whether a name looks like an id, and not like a word or a number, which people search for."""
    return name.isascii() and not name.isalpha() and not name.isdecimal() and len(name.split()) == 1


def words_in(names: Sequence[str]) -> tuple[str, ...]:
    """Return the words that a person wrote. Raises InvalidInput if they wrote no word, or a word without a visible
    character."""
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
    engines: Engines, names: Sequence[str], where: ItemFilter
) -> tuple[list[Item], tuple[str, ...]]:
    """Find the items that are meant, newest first: the items with these ids, if each name looks like an id and names
    an item; or else the items that hold all the words; or else the items with these ids. If words found them, return
    the words too. Without `names`, return all items that match `where`. Raises InvalidInput if `names` are blank."""
    words = words_in(names)

    every_name_matches = True
    named: dict[tuple[str, str, str], Item] = {}
    for name in names:
        items = await _items(engines, replace(where, ids=(name,)))
        every_name_matches = every_name_matches and bool(items)
        for item in items:
            named[item.key] = item

    # A word that looks like an id may also be searched for, so only ids that all exist count.
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


async def beside(engines: Engines, words: Sequence[str], where: ItemFilter) -> list[Item]:
    """Find the items in use that hold all the words only together with the other words that are kept with them. They
    are not forgotten, but the words can be removed from them."""
    if not words:
        return []
    return await _items(
        engines, replace(where, words=tuple(words), only_by_other_words=True, archived=False)
    )


def beside_text(items: Sequence[Item]) -> str:
    """Return the sentences about the items of `beside`; empty if there are no items."""
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


async def _items(engines: Engines, sought: ItemFilter) -> list[Item]:
    """Return the items of all engines that match the filter, newest first."""
    items: list[Item] = []
    for engine in engines:
        items += await engine.find(sought)
    return sorted(items, key=lambda item: -item.at_ms)


async def forget(engines: Engines, items: Collection[Item]) -> str | None:
    """Move those items into the archive that are still live. Return the id of the change, or None if none was. The
    change is a commit in each place: an error in one leaves those before it done."""
    change_id = secrets.token_hex(4)
    moved_count = 0
    for engine in engines:
        moved_count += await engine.forget(items, by=forgetting_of(change_id))
    return change_id if moved_count else None


async def erasure_of(
    engines: Engines, items: Collection[Item], words: Sequence[str] = (), user: str | None = None
) -> Erasure:
    """Return what to erase with these items: the items, what the archive has of them, and all their texts, except
    texts that also occur in something that stays. Everything in the past that held all of the `words` is erased too,
    whatever became of it, so words alone have an effect without items; with `user`, everything of this user."""
    from nlp.index_terms import index_form

    keys = {item.key for item in items}

    # A text that something else holds too must stay, so find also the items that stay.
    erased_items: list[Item] = []
    staying_items: list[Item] = []
    for engine in engines:
        for item in await engine.find(ItemFilter(archived=None)):
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
        """Sort the texts that are long enough to search for and that occur in nothing that stays."""
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
    engines: Engines,
    erasure: Erasure,
    tombstones: Tombstones,
    recalls: RecallLog,
    questions: RecallLog,
) -> None:
    """Erase for good, so that nothing brings it back. If a crash interrupts it, doing it again finishes it;
    `tombstones.end` ends it. Raises StorageError if it has to be done again."""
    await asyncio.to_thread(tombstones.begin, erasure)
    for engine in engines:
        await engine.forget(erasure.items, by="erase")
    for engine in engines:
        await engine.erase(erasure)
    await asyncio.to_thread(_erase_recalls, (recalls, questions), erasure)


def _erase_recalls(logs: Sequence[RecallLog], erasure: Erasure) -> None:
    """Delete the lines of these records that hold something erased, and the answers of the
    questions that stay. Raises StorageUnwritable if a record cannot be written."""

    def keep_line(line: Line) -> Line | None:
        if erasure.in_recall(line):
            return None
        # What came beside an erased memory is not what comes without it, so a question is answered anew.
        return without_answer(line) if "version" in line else line

    try:
        for log in logs:
            log.rewrite(keep_line)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageUnwritable(
            Sentence("The record of recalls cannot be written: {reason}.", reason)
        ) from error


async def undo(engines: Engines, change: str, place: str | None = None, *, by: str) -> Undone:
    """Undo a change as `Lifecycle.undo`, in the engine that made it, or in all engines that have a part of it. Raises
    InvalidInput if the change does not exist, or if nothing of it can be taken back."""
    if not is_together(change):
        return await engine_of(engines, change).undo(change, place, by=by)

    undo_id = secrets.token_hex(4)
    steps: list[HistoryStep] = []
    refusals: list[InvalidInput] = []
    for engine in engines:
        past_changes = await engine.history(limit=_LOOKED_BACK, most_steps=1)
        parts = [past for past in past_changes if past.by.endswith(f" {change}")]
        for part in parts:
            # A place may have changed since, so that its part cannot be taken back; the others can.
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
