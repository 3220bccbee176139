"""`forget`: show what would go, ask, and move it into the archive, or erase it for good."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from itertools import accumulate

from languages import _, counted
from memory_server.app import CallerView
from memory_server.cli import erasing
from memory_server.cli.inspection import chosen
from memory_server.cli.terminal import (
    TEXT_CELLS,
    clipped,
    console,
    escape,
    print_columns,
    spoken,
    time_text,
)
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Item, Sought
from memory_server.kernel.streams import complain, confirmed
from memory_server.memories import forgetting
from memory_server.tools.base.shapes import moment_ms

_BEFORE = 25
"""Characters of a text that are shown before the first word that was looked for."""


async def forget(app: CallerView, flags: Namespace) -> int:
    """Returns the exit status. Raises InvalidInput: nothing is named, or nothing that is named is there."""
    if flags.in_backups and not flags.for_good:
        raise InvalidInput(
            "--in-backups works only with --for-good; without it, backups stay as they are."
        )
    finished_status = await _finish_what_was_begun(app, flags)
    if not "".join(flags.words).strip() and not flags.user:
        raise InvalidInput(
            "Give words of the text to forget, or its id: `memory-server forget dentist`."
        )
    where = await _where(app, flags)
    items, words = await forgetting.find(app.memories.engines, flags.words, where)
    await _say_what_is_beside(
        app, flags, words or forgetting.words_in(flags.words), where, any_items=bool(items)
    )
    # Compared with a filter without conditions, so that a new condition cannot be overlooked here.
    narrowed = where != Sought(archived=where.archived)
    if not items:
        if finished_status is not None:
            return finished_status
        return await _nothing_listed(app, flags, narrowed=narrowed)
    _show(app, items, flags.words)
    if not flags.for_good:
        return await _into_the_archive(app, flags, items)
    erased_words: Sequence[str] = words
    if narrowed:
        erased_words = ()
    return await erasing.items_for_good(app, flags, where=where, items=items, words=erased_words)


async def _say_what_is_beside(
    app: CallerView, flags: Namespace, words: Sequence[str], where: Sought, *, any_items: bool
) -> None:
    """Say which items hold the words only together with their other words, and so are not taken. Raises InvalidInput:
    there are some, and these words have to be taken from them first, or no item holds the words itself."""
    beside = await forgetting.beside(app.memories.engines, words, where)
    if not beside:
        return
    sentence = forgetting.beside_text(beside)
    if flags.for_good:
        raise InvalidInput(" ".join((sentence, _("Then erase the rest of them."))))
    if not any_items:
        raise InvalidInput(sentence)
    console().print(escape(sentence))


async def _finish_what_was_begun(app: CallerView, flags: Namespace) -> int | None:
    """The status of an erasing that was interrupted and is finished now; None: there was none."""
    if not flags.for_good or flags.dry_run:
        return None
    erasure = await asyncio.to_thread(app.home.erased.begun)
    if erasure is None:
        return None
    complain(_("An earlier erasure was interrupted; it is completed first."))
    backups: Sequence[str] = ()
    if flags.in_backups:
        backups = await erasing.backups_with(app, erasure)
    return await erasing.finish(app, erasure, backups)


async def _where(app: CallerView, flags: Namespace) -> Sought:
    """What the flags say about the items, besides their words. To erase, archived items are looked at too."""
    zone = app.settings.zone
    conversation_id = None
    if hasattr(flags, "conversation"):
        [conversation_id] = await chosen(app, flags)
    archived: bool | None = False
    if flags.for_good:
        archived = None
    return Sought(
        family=flags.family,
        place=conversation_id,
        since_ms=moment_ms("--since", flags.since, zone),
        until_ms=moment_ms("--until", flags.until, zone, end=True),
        user=flags.user,
        archived=archived,
    )


async def _nothing_listed(app: CallerView, flags: Namespace, *, narrowed: bool) -> int:
    """What to do where no item is meant. Raises InvalidInput: nothing; it says only what was looked at."""
    only_user = flags.user and not "".join(flags.words).strip()
    if only_user and flags.for_good:
        return await erasing.user_for_good(app, flags)
    if narrowed:
        raise InvalidInput(
            "No memory or other entry that you chose contains these words; without -c, --family, --since, "
            "--until and --user, everything that is stored is searched."
        )
    if flags.for_good:
        return await erasing.past_for_good(app, flags)
    raise await erasing.refusal(app, flags.words)


async def _into_the_archive(app: CallerView, flags: Namespace, items: Sequence[Item]) -> int:
    count = counted(len(items), "memory")
    out = console()
    if flags.dry_run:
        out.print(_("Would forget {count}.", count))
        return 0
    without = _("Nothing was forgotten, because this is not a terminal; add --yes to forget it.")
    if not flags.yes and not confirmed(_("Forget {count}?", count), otherwise=without):
        out.print(_("Nothing was forgotten."))
        return 0
    change = await forgetting.forget(app.memories.engines, items)
    until_text = time_text(app.clock() + app.settings.storage.keep_ms, app.settings.zone)
    out.print(
        _(
            "Forgot {count}. Until {until} it is in the archive, and `memory-server undo {change}` brings it back.",
            count,
            until_text,
            escape(str(change)),
        )
    )
    return 0


def _show(app: CallerView, items: Sequence[Item], words: Sequence[str]) -> None:
    rows = [(_("id"), _("where"), _("when"), _("text"))]
    for item in items:
        where = item.place
        if item.family not in item.place:
            where = f"{_(item.family)} {item.place}"
        text = spoken(item.text)
        if item.title not in ("", item.text):
            text = f"{item.title}: {item.text}"
        when = time_text(item.at_ms, app.settings.zone)
        rows.append((item.id, where, when, clipped(_around(text, words), TEXT_CELLS)))
    print_columns(rows, words)


def _around(text: str, words: Sequence[str]) -> str:
    """The text from a little before the first of the words, which are found as the search finds them: in any case,
    full-width or not, in Traditional or Simplified characters."""
    from nlp.index_terms import seen_form

    forms = [seen_form(char) for char in text]  # a form may be longer or shorter than its character
    whole_form = "".join(forms)
    positions = [whole_form.find(seen_form(word)) for word in words]
    first_in_form = min((position for position in positions if position >= 0), default=0)
    lengths = accumulate(map(len, forms))
    first = next((number for number, length in enumerate(lengths) if length > first_in_form), 0)
    start = max(0, first - _BEFORE)
    if start == 0:
        return text
    return f"…{text[start:]}"
