"""Show what would be forgotten, ask, and move it into the archive, or erase it for good (`forget`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from itertools import accumulate

from languages import N_, _, counted
from memory_server.cli import erasing
from memory_server.cli.inspection import named_conversation
from memory_server.cli.terminal import (
    TEXT_CELLS,
    clipped,
    print_columns,
    print_plain,
    say,
    spoken,
    time_text,
)
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Item, ItemFilter
from memory_server.kernel.streams import confirmed
from memory_server.memories import forgetting
from memory_server.operations.erasing import EraseRequest, NothingToErase, nothing_chosen, refusal
from memory_server.runtime.app import CallerView
from memory_server.tools.base.shapes import moment_ms

_BEFORE = 25
"""Characters of a text that are shown before the first searched word."""


async def forget(view: CallerView, flags: Namespace) -> int:
    """Forget or erase what the flags name. Return the exit status. Raises InvalidInput if nothing is named, or if
    nothing that is named exists."""
    if flags.in_backups and not flags.for_good:
        raise InvalidInput(
            "--in-backups works only with --for-good; without it, backups stay as they are."
        )

    # An interrupted erasure is finished first: what it was to erase must not stay.
    finished: bool | None = None
    if flags.for_good and not flags.dry_run:
        finished = await erasing.finish_what_was_begun(view, flags)
    if not "".join(flags.words).strip() and not flags.user:
        raise InvalidInput(
            "Give words of the text to forget, or its id: `memory-server forget dentist`."
        )

    where = await _where(view, flags)
    if flags.for_good:
        return await _for_good(view, flags, where, finished=finished)

    items, words = await forgetting.find(view.memories.engines, flags.words, where)
    looked_for = words or forgetting.words_in(flags.words)
    beside = await forgetting.beside(view.memories.engines, looked_for, where)

    if not items:
        if beside:
            raise InvalidInput(forgetting.beside_text(beside))
        if EraseRequest(flags.words, where).is_narrowed:
            raise nothing_chosen()
        raise await refusal(view, flags.words)
    if beside:
        print_plain(forgetting.beside_text(beside))

    # Show the items first, because the user is asked about them.
    _show(view, items, flags.words)
    return await _into_the_archive(view, flags, items)


async def _for_good(
    view: CallerView, flags: Namespace, where: ItemFilter, *, finished: bool | None
) -> int:
    """Erase what is meant. `finished` says whether an interrupted erasure, which was just finished, is complete."""
    try:
        plan = await erasing.plan_for_good(view, flags, where)
    except NothingToErase:
        # The interrupted erasure may have erased all that was meant, which is not an error.
        if finished is None:
            raise
        return int(not finished)
    if plan.items:
        _show(view, plan.items, flags.words)
    return await erasing.carry_out(view, flags, plan)


async def _where(view: CallerView, flags: Namespace) -> ItemFilter:
    """Return the conditions that the flags set for items, except their words. An erasure also searches archived
    items."""
    zone = view.zone
    conversation_id = await named_conversation(view, flags)
    archived: bool | None = False
    if flags.for_good:
        archived = None

    return ItemFilter(
        family=flags.family,
        place=conversation_id,
        since_ms=moment_ms("--since", flags.since, zone),
        until_ms=moment_ms("--until", flags.until, zone, end=True),
        user=flags.user,
        archived=archived,
    )


async def _into_the_archive(view: CallerView, flags: Namespace, items: Sequence[Item]) -> int:
    """Move items into the archive after a question, or with --dry-run only say how many. Return 0.
    Raises InvalidInput if the user cannot be asked and --yes is missing."""
    count = counted(len(items), "memory")
    if flags.dry_run:
        say("Would forget {count}.", count)
        return 0
    without = _("Nothing was forgotten, because this is not a terminal; add --yes to forget it.")
    if not flags.yes and not confirmed(_("Forget {count}?", count), otherwise=without):
        say("Nothing was forgotten.")
        return 0

    change = await forgetting.forget(view.memories.engines, items)
    until_text = time_text(view.clock() + view.settings.storage.keep_ms, view.zone)
    say(
        "Forgot {count}. Until {until} it is in the archive, and `memory-server undo {change}` brings it back.",
        count,
        until_text,
        str(change),
    )
    return 0


def _show(view: CallerView, items: Sequence[Item], words: Sequence[str]) -> None:
    """Print a table of the items, with the part of their texts around the first of the words."""
    rows = [N_(("id", "where", "when", "text"))]
    for item in items:
        where = item.place
        if item.family not in item.place:
            where = f"{_(item.family)} {item.place}"
        text = spoken(item.text)
        if item.title not in ("", item.text):
            text = f"{item.title}: {item.text}"
        when = time_text(item.at_ms, view.zone)

        rows.append((item.id, where, when, clipped(_excerpt(text, words), TEXT_CELLS)))
    print_columns(rows, words)


def _excerpt(text: str, words: Sequence[str]) -> str:
    """Return the text from a little before the first of the words. A word matches as in a search: in any case,
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
