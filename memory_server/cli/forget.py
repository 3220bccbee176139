"""`forget`: show what would go, ask, and move it into the archive, or erase it for good."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence

from memory_server.app import App
from memory_server.cli import erasing
from memory_server.cli.inspection import chosen
from memory_server.cli.terminal import (
    TEXT_CELLS,
    clipped,
    complain,
    confirmed,
    console,
    escape,
    print_columns,
    spoken,
    time_text,
)
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Item, Sought
from memory_server.memories import forgetting
from memory_server.tools.base.shapes import moment_ms
from sandbox.locale import _, counted, joined, term

_BEFORE = 25
"""Characters of a text that are shown before the first word that was looked for."""


async def forget(app: App, flags: Namespace) -> int:
    if flags.in_backups and not flags.for_good:
        raise InvalidInput("--in-backups works only with --for-good; without it, backups stay as they are.")
    finished = await _finish_what_was_begun(app, flags)
    if not "".join(flags.words).strip() and not flags.user:
        raise InvalidInput("Write words of what is meant, or its id: `memory-server forget dentist`.")
    where = await _where(app, flags)
    items, words = await forgetting.find(app.memories.engines, flags.words, where)
    beside = await forgetting.beside(app.memories.engines, words or forgetting.words_in(flags.words), where)
    if beside and (flags.for_good or not items):
        then = _("Then erase what is left of them.") if flags.for_good else ""
        raise InvalidInput(joined(" ", filter(None, (forgetting.beside_text(beside), then))))
    if beside:
        console().print(escape(forgetting.beside_text(beside)))
    narrowed = bool(hasattr(flags, "conversation") or flags.family or flags.since or flags.until or flags.user)
    if not items and finished is not None:
        return finished
    if not items:
        return await _nothing_listed(app, flags, narrowed=narrowed)
    _show(app, items, flags.words)
    if flags.for_good:
        return await erasing.items_for_good(app, flags, where, items, () if narrowed else words)
    return await _into_the_archive(app, flags, items)


async def _finish_what_was_begun(app: App, flags: Namespace) -> int | None:
    """The status of an erasing that was interrupted and is finished now; None: there was none."""
    if not flags.for_good or flags.dry_run:
        return None
    begun = await asyncio.to_thread(app.home.erased.begun)
    if begun is None:
        return None
    complain(_("An erasing that was interrupted is finished first."))
    backups = await erasing.backups_with(app, begun) if flags.in_backups else []
    return await erasing.finish(app, begun, backups)


async def _where(app: App, flags: Namespace) -> Sought:
    zone = app.settings.zone
    place = (await chosen(app, flags))[0] if hasattr(flags, "conversation") else None
    since_ms = moment_ms("--since", flags.since, zone)
    until_ms = moment_ms("--until", flags.until, zone, end=True)
    archived = None if flags.for_good else False
    return Sought(
        family=flags.family, place=place, since_ms=since_ms, until_ms=until_ms, user=flags.user, archived=archived
    )


async def _nothing_listed(app: App, flags: Namespace, *, narrowed: bool) -> int:
    """What to do where no item is meant. Raises InvalidInput: nothing; it says only what was looked at."""
    only_user = flags.user and not "".join(flags.words).strip()
    if only_user and flags.for_good:
        return await erasing.user_for_good(app, flags)
    if narrowed:
        raise InvalidInput(
            "No memory or other entry that you chose holds these words; without -c, --family, --since, --until and "
            "--user, all that is kept is searched."
        )
    if flags.for_good:
        return await erasing.past_for_good(app, flags)
    raise await erasing.refusal(app, flags.words)


async def _into_the_archive(app: App, flags: Namespace, items: Sequence[Item]) -> int:
    count = counted(len(items), "memory")
    out = console()
    if flags.dry_run:
        out.print(_("Would forget {count}.", count))
        return 0
    without = _("Nothing was forgotten, because nobody is there to be asked; add --yes to forget it.")
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


def _show(app: App, items: Sequence[Item], words: Sequence[str]) -> None:
    rows = [(_("id"), _("where"), _("when"), _("text"))]
    for item in items:
        where = item.place if item.family in item.place else f"{term(item.family)} {item.place}"
        text = spoken(item.text) if item.title in ("", item.text) else f"{item.title}: {item.text}"
        when, shown = time_text(item.at_ms, app.settings.zone), clipped(_around(text, words), TEXT_CELLS)
        rows.append((item.id, where, when, shown))
    print_columns(rows, words)


def _around(text: str, words: Sequence[str]) -> str:
    """The text from a little before the first of the words."""
    folded = text.casefold()
    places = [place for word in words if (place := folded.find(word.casefold())) >= 0]
    start = max(0, min(places, default=0) - _BEFORE)
    return f"…{text[start:]}" if start else text
