"""`recalls` and `explain --recall`: what models were given, when, and why."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from datetime import datetime

from rich.text import Text

from memory_server.app import App
from memory_server.cli.terminal import TEXT_CELLS, clipped, console, print_columns, time_text, write
from memory_server.conversations.recall.words import spelling
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.recalls import Line
from memory_server.kernel.times import milliseconds
from sandbox.locale import N_, _, counted, joined, term, translated

_WHY = {
    "words": N_("shares too few words of the last message that say something"),
    "same_moment": N_("too near in time to one that came"),
    "place": N_("others took the places"),
    "muted": N_("muted here"),
    "too_recent": N_("too young in this conversation"),
    "in_context": N_("still in the context of the session"),
}


async def recalls(app: App, flags: Namespace) -> None:
    if flags.n < 1:
        raise InvalidInput("-n must be at least 1 recall.")
    every = app.recalls.found(app.conversation(flags.conversation).id if hasattr(flags, "conversation") else None)
    empty = [line for line in every if "came" not in line]
    shown = (empty if flags.empty else every)[-flags.n :]
    if flags.json:
        for line in shown:
            write(line)
        return
    rows = [(_("recall"), _("time"), _("asked by"), _("came"), _("last message"))]
    for line in shown:
        asked_by = ", ".join(filter(None, (term(line["by"]), line.get("client"))))
        counts = counted(len(line.get("came", ())), "memory"), counted(line.get("tokens", 0), "token")
        came = translated(joined(", ", counts)) if "came" in line else term("nothing came")
        rows.append((line["id"], _time(app, line), asked_by, came, line.get("said", "")))
    if len(rows) > 1:
        print_columns(rows)
    what = _("{empty} of {recalls} brought nothing.", len(empty), counted(len(every), "recall"))
    none = _("No recall is on record; the setting recalls.days says how long one is kept.")
    console().print(what if every else none)


def _time(app: App, line: Line) -> str:
    return time_text(milliseconds(datetime.fromisoformat(line["at"])), app.settings.zone)


async def receipt(app: App, flags: Namespace) -> None:
    """Print why each memory of the recall came whose id begins so, and what nearly did."""
    found = [line for line in app.recalls.found() if flags.recall and line["id"].startswith(flags.recall)]
    if len(found) != 1:
        shows = _("`memory-server recalls` shows the ids")
        if found:
            raise InvalidInput("Several recalls have an id that begins with `{begin}`; {shows}.", flags.recall, shows)
        raise InvalidInput("No recall has an id that begins with `{begin}`; {shows}.", flags.recall, shows)
    [line], texts, out = found, dict[str, str](), console()
    if flags.json:
        write(line)
        return
    came, near = line.get("came", ()), line.get("near", ())
    for name in {item.get("kept_in", line["conversation"]) for item in (*came, *near)}:
        texts |= {memory.id: memory.text for memory in await app.conversation(name).short_term.memories()}
    about = ", ".join(filter(None, (term(line["by"]), line.get("client"), line.get("cwd"), line["conversation"])))
    # As `Text`, which is not translated: what users said stays as it is.
    out.print(Text(f"{line['id']} {_time(app, line)} {about}"))
    if said := line.get("said"):
        out.print(Text(f"{term('last message')}: {clipped(said, 3 * TEXT_CELLS)}"))
    if not came:
        out.print(_("Nothing came to mind."))
    elif line.get("chars"):
        tokens = counted(line["tokens"], "token")
        out.print(_("Given: {chars} characters, about {tokens}.", line["chars"], tokens))
    else:
        out.print(_("Given: nothing new; the session had it in its context, or there was no room."))
    for item in came:
        spelt = spelling(texts.get(item["id"], ""))
        words = ", ".join(f"{spelt(word)} {points:.1f}" for word, points in item.get("words", {}).items())
        out.print(Text(f"  {term(item['tier'])} {_shown(item, texts)}{words and f': {words}'}"))
    if near:
        out.print(_("Nearly came:"))
    for item in near:
        few = "points" in item and translated(_("{points:.1f} points too few", item["points"]))
        out.print(Text(f"  {_shown(item, texts)}: {term(_WHY.get(item['lacked'], '')) or few}"))
    if held := ", ".join(f"{count} {term(_WHY.get(rule, rule))}" for rule, count in line.get("held", {}).items()):
        out.print(Text(f"{term('Held back')}: {held}"))
    if (used := line.get("used")) is not None:
        out.print(_("The answer used {ids}.", ", ".join(used)) if used else _("The answer used none of them."))


def _shown(item: Line, texts: Mapping[str, str]) -> str:
    """The name; or the id of a memory, its relevance then, and its text now."""
    if item.get("tier") in ("trigger", "note"):
        return str(item["id"])
    points = f" {item['relevance']:.1f}" if "relevance" in item else ""
    return f"{item['id']}{points} {clipped(texts.get(item['id']) or term('no longer stored'), TEXT_CELLS)}"
