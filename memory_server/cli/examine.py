"""Ask again what was asked before, and print what is recalled otherwise now (`examine`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from rich.text import Text

from languages import N_, _
from memory_server.cli.terminal import TEXT_CELLS, clipped, console, hint, progress, time_text
from memory_server.kernel.streams import write
from memory_server.operations import examining
from memory_server.runtime.app import CallerView


async def examine(view: CallerView, flags: Namespace) -> int:
    """Ask all questions again. Return 1 if a question lost or gained a memory. Raises ReadOnly with
    --accept where nothing may be written."""
    if flags.accept:
        view.settings.refuse_change("examine --accept")
    request = examining.ExamineRequest(flags.accept, writes=not view.settings.read_only)
    report = await examining.examine(view, request, progress)

    for answer in report.changed[: flags.limit]:
        if flags.json:
            write(answer.fields())
        else:
            _print(view, answer)
    if not flags.json:
        console().print("\n".join(_summary(report)))
        if report.changed and not flags.accept:
            hint(_("`memory-server examine --accept` takes the answers of now as right."))
    return int(bool(report.changed))


def _summary(report: examining.ExamineReport) -> Iterator[str]:
    """Yield what was asked and how the answers changed, and a sentence for each other figure that is not 0."""
    if not report.total:
        yield _("There are no questions yet: recalls and changes of the last days make them.")
    yield _(
        "Asked: {asked}. Another answer: {changed}. Memories lost: {lost}, gained: {gained}.",
        report.asked,
        len(report.changed),
        report.lost,
        report.gained,
    )
    figures = (
        (report.new, N_("New, for later runs to compare with: {count}.")),
        (report.other_points, N_("The same memories with other points: {count}.")),
        (report.too_old, N_("Not asked, because the history does not go back so far: {count}.")),
        (report.gone, N_("Not asked, because their conversation is gone: {count}.")),
    )
    for count, template in figures:
        if count:
            yield _(template, count)


def _print(view: CallerView, answer: examining.ChangedAnswer) -> None:
    """Print a question and what its answer lost and gained, with the reasons."""
    recall = answer.question.recall
    time = time_text(recall.at_ms, view.zone)
    said_text = clipped(recall.said, 3 * TEXT_CELLS)
    # Print `Text`, in which Rich finds no markup: users may have written some.
    about = _(answer.question.about)
    console().print(Text(f"{recall.id} {time} {recall.conversation} ({about}): {said_text}"))
    for memory in answer.memories:
        verdict = _("comes now") if memory.came else _("no longer comes")
        reasons = f"    {_('then')}: {memory.then}\n    {_('now')}: {memory.now}"
        console().print(
            Text(f"  {verdict} {memory.memory_id} {clipped(memory.text, TEXT_CELLS)}\n{reasons}")
        )
