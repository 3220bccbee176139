"""Show what models were given, when, and why (`recalls` and `explain --recall`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence

from languages import N_, _, counted, joined
from memory_server.cli.terminal import (
    TEXT_CELLS,
    clipped,
    console,
    print_columns,
    print_plain,
    say,
    spoken,
    time_text,
)
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.recorded_recall import RecordedItem, RecordedRecall
from memory_server.kernel.secrets import removed_text
from memory_server.kernel.streams import write
from memory_server.lore import left_out_text, trigger_text
from memory_server.memories.reasons import StoredNow, held_back, what_it_lacked, words_that_brought
from memory_server.runtime.app import CallerView

_SESSION_START = N_("(session start)")


async def recalls(view: CallerView, flags: Namespace) -> None:
    """List the newest recalls; with --empty, list the recalls that found nothing. Raises
    InvalidInput if -n is less than 1."""
    if flags.n < 1:
        raise InvalidInput("-n must be at least 1 recall.")
    conversation_id = None
    if hasattr(flags, "conversation"):
        conversation_id = view.conversation(flags.conversation).id

    all_recalls = view.recalls.found(conversation_id)
    quiet_recalls = [recall for recall in all_recalls if recall.is_quiet]

    listed = all_recalls
    if flags.empty:
        listed = quiet_recalls

    shown = listed[-flags.n :]
    if flags.json:
        for recall in shown:
            write(recall.line)
        return

    if shown:
        heading = N_(("recall", "time", "asked by", "recalled", "last message"))
        print_columns([heading, *(_row(view, recall) for recall in shown)])

    if all_recalls:
        total = counted(len(all_recalls), "recall")
        say("{empty} of {recalls} found nothing.", len(quiet_recalls), total)
    else:
        say("No recalls are recorded; the setting recalls.days says how long they are kept.")


def _row(view: CallerView, recall: RecordedRecall) -> tuple[str, ...]:
    return recall.id, _time(view, recall), _asker(recall), _came(recall), _question(recall)


def _asker(recall: RecordedRecall) -> str:
    return ", ".join(filter(None, (_(recall.by), recall.client)))


def _came(recall: RecordedRecall) -> str:
    """Say how much was recalled, and how much of the context it took."""
    if recall.is_quiet:
        return _("nothing came")
    if recall.was_in_context:
        size = _("already in context")
    else:
        size = counted(recall.tokens, "token")
    parts = [counted(len(recall.came), "memory"), size]
    if recall.left_out:
        parts.append(_("{count} left out", len(recall.left_out)))
    return joined(", ", parts)


def _question(recall: RecordedRecall) -> str:
    if recall.begins_session:
        return _(_SESSION_START)
    return recall.said


def _time(view: CallerView, recall: RecordedRecall) -> str:
    return time_text(recall.at_ms, view.zone)


async def receipt(view: CallerView, flags: Namespace) -> None:
    """Print why each memory of a recall was given, and which memories nearly were. The recall's id
    begins with the typed text. Raises InvalidInput if no recall, or several, match."""
    recall = _named(view.recalls.found(), flags.recall)
    if flags.json:
        write(recall.line)
        return

    # Texts may have changed since, so they are read now; the record keeps no texts of memories.
    now = await _memories_now(view, recall)
    texts = {memory_id: memory.text for memory_id, memory in now.memories.items()}
    out = console()
    about = ", ".join(filter(None, (_(recall.by), recall.client, recall.cwd, recall.conversation)))
    # Print `Text`, in which Rich finds no markup: users may have written some.
    print_plain(f"{recall.id} {_time(view, recall)} {about}")

    _print_question(recall)
    out.print(_amount(recall))
    if recall.line.get("secrets"):
        out.print(removed_text(recall.line["secrets"]))

    for item in recall.came:
        reason = ""
        words = words_that_brought(item, texts.get(item.id, ""))
        if words:
            reason = f": {words}"
        print_plain(f"  {_(item.tier)} {_shown(item, texts)}{reason}")
        about = now.about(item)
        if about:
            print_plain(f"    {about}")

    if recall.left_out:
        say("Left out:")
    for left_out in recall.left_out:
        print_plain(f"  {left_out.id}: {left_out_text(left_out)}")

    if recall.near:
        say("Nearly recalled:")
    for item in recall.near:
        lacked = what_it_lacked(item, recall.said)
        print_plain(f"  {_shown(item, texts)}: {lacked}")
    for rule, count in recall.held.items():
        out.print(held_back(rule, count))

    # A book that is switched off is the usual reason why nothing came.
    if recall.is_quiet:
        await _print_books_off(view, recall)

    if recall.used:
        say("The answer used {ids}.", ", ".join(recall.used))
    elif recall.used is not None:
        say("The answer used none of them.")


async def _print_books_off(view: CallerView, recall: RecordedRecall) -> None:
    """Name the lorebooks of the conversation that are switched off now, so that none of their entries is recalled."""
    for book in await view.conversation(recall.conversation).books.listed():
        if not book.is_on:
            print_plain(_("The lorebook {name} is switched off now.", one_line(book.name)))


async def _memories_now(view: CallerView, recall: RecordedRecall) -> StoredNow:
    """Read the present memories of all conversations that the recall took or nearly took memories from."""
    now = StoredNow(view.memories.services.day_notes)
    conversation_ids = {item.conversation for item in (*recall.came, *recall.near)}
    for conversation_id in conversation_ids:
        memories = await view.conversation(conversation_id).short_term.memories()
        now.add(memories)
    return now


def _print_question(recall: RecordedRecall) -> None:
    """Print the last message, or that a session began, and the other words that the caller gave."""
    if recall.begins_session:
        print_plain(_question(recall))
    elif recall.said:
        print_plain(f"{_('last message')}: {clipped(recall.said, 3 * TEXT_CELLS)}")
    if recall.other_words:
        other_words = ", ".join(recall.other_words)
        print_plain(f"{_('other words')}: {clipped(other_words, 3 * TEXT_CELLS)}")


def _amount(recall: RecordedRecall) -> str:
    """Say how much text a recall gave, or why it gave none."""
    if recall.is_quiet:
        return _("Nothing came to mind.")
    if recall.chars:
        return _(
            "Added to the prompt: {chars} characters, about {tokens}.",
            recall.chars,
            counted(recall.tokens, "token"),
        )
    return _(
        "Added to the prompt: nothing new. The session already had these memories in its context, or "
        "there was no room for them."
    )


def _named(recalls: Sequence[RecordedRecall], begin: str) -> RecordedRecall:
    """Return the recall whose id begins with `begin`. Raises InvalidInput if no recall or several match."""
    matches = [recall for recall in recalls if begin and recall.id.startswith(begin)]
    if len(matches) == 1:
        return matches[0]
    shows = _("`memory-server recalls` shows the ids")
    if matches:
        raise InvalidInput(
            "Several recalls have an id that begins with `{begin}`; {shows}.", begin, shows
        )
    raise InvalidInput("No recall has an id that begins with `{begin}`; {shows}.", begin, shows)


def _shown(item: RecordedItem, texts: Mapping[str, str]) -> str:
    """Return the name of a trigger or entry; for a memory, return its id, its relevance then, and its text now."""
    if item.is_memory:
        text = spoken(texts.get(item.id, "")) or _("no longer stored")
        points = ""
        if item.relevance is not None:
            points = f" {item.relevance:.1f}"
        return f"{item.id}{points} {clipped(text, TEXT_CELLS)}"
    if item.tier == "trigger":
        size = trigger_text(item)
        if size:
            return f"{item.id} ({size})"
    return item.id
