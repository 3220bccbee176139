"""`recalls` and `explain --recall`: what models were given, when, and why."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence

from rich.text import Text

from memory_server.app import App
from memory_server.cli.terminal import TEXT_CELLS, clipped, console, print_columns, spoken, time_text, write
from memory_server.conversations.recall import why
from memory_server.conversations.recall.words import spelling
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.recorded_recall import RecordedItem, RecordedRecall
from sandbox.locale import N_, _, counted, joined, term, translated
from sandbox.locale import spoken as spoken_language

_SESSION_START = N_("(session start)")


async def recalls(app: App, flags: Namespace) -> None:
    if flags.n < 1:
        raise InvalidInput("-n must be at least 1 recall.")
    conversation_id = app.conversation(flags.conversation).id if hasattr(flags, "conversation") else None
    every = app.recalls.found(conversation_id)
    quiet = [recall for recall in every if recall.is_quiet]
    shown = (quiet if flags.empty else every)[-flags.n :]
    if flags.json:
        for recall in shown:
            write(recall.line)
        return
    rows = [(_("recall"), _("time"), _("asked by"), _("came"), _("last message"))]
    rows += [(recall.id, _time(app, recall), _asker(recall), _came(recall), _question(recall)) for recall in shown]
    if shown:
        print_columns(rows)
    if every:
        console().print(_("{empty} of {recalls} brought nothing.", len(quiet), counted(len(every), "recall")))
    else:
        console().print(_("No recall is on record; the setting recalls.days says how long one is kept."))


def _asker(recall: RecordedRecall) -> str:
    return ", ".join(filter(None, (term(recall.by), recall.client)))


def _came(recall: RecordedRecall) -> str:
    """How much came, and what it took of the context."""
    if recall.is_quiet:
        return term("nothing came")
    size = _("already in context") if recall.was_in_context else counted(recall.tokens, "token")
    return translated(joined(", ", (counted(len(recall.came), "memory"), size)))


def _question(recall: RecordedRecall) -> str:
    return term(_SESSION_START) if recall.begins_session else recall.said


def _time(app: App, recall: RecordedRecall) -> str:
    return time_text(recall.at_ms, app.settings.zone)


async def receipt(app: App, flags: Namespace) -> None:
    """Print why each memory of the recall came whose id begins so, and what nearly did."""
    recall = _named(app.recalls.found(), flags.recall)
    if flags.json:
        write(recall.line)
        return
    texts, out = dict[str, str](), console()
    for name in {item.conversation for item in (*recall.came, *recall.near)}:
        texts |= {memory.id: memory.text for memory in await app.conversation(name).short_term.memories()}
    about = ", ".join(filter(None, (term(recall.by), recall.client, recall.cwd, recall.conversation)))
    # As `Text`, which is not translated: what users said stays as it is.
    out.print(Text(f"{recall.id} {_time(app, recall)} {about}"))
    if recall.begins_session:
        out.print(Text(_question(recall)))
    elif recall.said:
        out.print(Text(f"{term('last message')}: {clipped(recall.said, 3 * TEXT_CELLS)}"))
    if recall.other_words:
        out.print(Text(f"{term('other words')}: {clipped(', '.join(recall.other_words), 3 * TEXT_CELLS)}"))
    if recall.is_quiet:
        out.print(_("Nothing came to mind."))
    elif recall.chars:
        out.print(_("Given: {chars} characters, about {tokens}.", recall.chars, counted(recall.tokens, "token")))
    else:
        out.print(_("Given: nothing new; the session had it in its context, or there was no room."))
    for item in recall.came:
        spelt = spelling(texts.get(item.id, ""))
        others = (_("given by the caller"), item.given), (_("kept with the memory"), item.kept)
        named = [f"{term(origin)}: {why.words_text(words, spelt)}" for origin, words in others if words]
        words = "; ".join(filter(None, (why.words_text(item.words, spelt), *named)))
        out.print(Text(f"  {term(item.tier)} {_shown(item, texts)}{words and f': {words}'}"))
    if recall.near:
        out.print(_("Nearly came:"))
    for item in recall.near:
        lacked = translated(why.lacked(item, zh=spoken_language() == "zh"))
        out.print(Text(f"  {_shown(item, texts)}: {lacked}"))
    for rule, count in recall.held.items():
        out.print(why.held_back(rule, count))
    if recall.used is not None:
        used = ", ".join(recall.used)
        out.print(_("The answer used {ids}.", used) if used else _("The answer used none of them."))


def _named(recalls: Sequence[RecordedRecall], begin: str) -> RecordedRecall:
    """The recall whose id begins so. Raises InvalidInput: there is none, or more than one."""
    named = [recall for recall in recalls if begin and recall.id.startswith(begin)]
    if len(named) == 1:
        return named[0]
    shows = _("`memory-server recalls` shows the ids")
    if named:
        raise InvalidInput("Several recalls have an id that begins with `{begin}`; {shows}.", begin, shows)
    raise InvalidInput("No recall has an id that begins with `{begin}`; {shows}.", begin, shows)


def _shown(item: RecordedItem, texts: Mapping[str, str]) -> str:
    """The name; or the id of a memory, its relevance then, and its text now."""
    if not item.is_memory:
        return item.id
    points = "" if item.relevance is None else f" {item.relevance:.1f}"
    return f"{item.id}{points} {clipped(spoken(texts.get(item.id, '')) or term('no longer stored'), TEXT_CELLS)}"
