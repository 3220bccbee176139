"""`forget`: show what would go, ask, and move it into the archive."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from memory_server.app import App
from memory_server.cli.inspection import chosen
from memory_server.cli.terminal import clipped, confirmed, console, escape, print_columns, time_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.lifecycle import Item, Sought
from memory_server.memories import forgetting
from memory_server.tools.base.shapes import moment_ms
from sandbox.locale import _, counted, term

_CELLS, _BEFORE = 70, 25
"""Columns of a text that are shown, and of these how many before the first word that was looked for."""


async def forget(app: App, flags: Namespace) -> None:
    if not flags.words and not flags.user:
        raise InvalidInput("Write words of what is meant, or its id: `memory-server forget dentist`.")
    zone, place = app.settings.zone, (await chosen(app, flags))[0] if hasattr(flags, "conversation") else None
    since = moment_ms("--since", flags.since, zone)
    until = moment_ms("--until", flags.until, zone, end=True)
    where = Sought(family=flags.family, place=place, since_ms=since, until_ms=until, user=flags.user)
    items, out = await forgetting.find(app.memories.engines, flags.words, where), console()
    if not items:
        raise InvalidInput("Nothing here holds these words; `memory-server list` shows what is kept.")
    _show(app, items, flags.words)
    count = counted(len(items), "memory")
    if flags.dry_run:
        out.print(_("Would forget {count}.", count))
        return
    without = _("Nothing was forgotten, because nobody is there to be asked; add --yes to forget it.")
    if not flags.yes and not confirmed(_("Forget {count}?", count), otherwise=without):
        out.print(_("Nothing was forgotten."))
        return
    change = await forgetting.forget(app.memories.engines, items)
    until_text = time_text(app.clock() + app.settings.storage.keep_ms, zone)
    out.print(
        _(
            "Forgot {count}. Until {until} it is in the archive, and `memory-server undo {change}` brings it back.",
            count,
            until_text,
            escape(str(change)),
        )
    )


def _show(app: App, items: Sequence[Item], words: Sequence[str]) -> None:
    rows = [(_("id"), _("where"), _("when"), _("text"))]
    for item in items:
        where = item.place if item.family in item.place else f"{term(item.family)} {item.place}"
        text = item.text if item.title in ("", item.text) else f"{item.title}: {item.text}"
        rows.append((item.id, where, time_text(item.at_ms, app.settings.zone), clipped(_around(text, words), _CELLS)))
    print_columns(rows, words)


def _around(text: str, words: Sequence[str]) -> str:
    """The text from a little before the first of the words."""
    folded = text.casefold()
    places = [place for word in words if (place := folded.find(word.casefold())) >= 0]
    start = max(0, min(places, default=0) - _BEFORE)
    return f"…{text[start:]}" if start else text
