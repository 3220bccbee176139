"""`trigger-sandbox timeline`: where along a chat triggers fire and memories come, as a picture or a comparison.

There is a search for each message, as the server makes it, with the rules of the memories and the state of the chat.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from languages import N_, _, counted
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import Failed, Verdict
from sandbox.workbench.chat_replay import Replay, replay_of
from sandbox.workbench.explain import said, word
from sandbox.workbench.files import NamedTrigger, PackMemory, read_text, say_unusable, triggers_of
from sandbox.workbench.firing_replay import Circumstances, Outcome, Step, outcomes_along
from sandbox.workbench.pack_rules import PackEntry, entries_of, entry_of_trigger
from sandbox.workbench.terminal import Terminal, UsageError, bar, cells, fit, settled

EXIT_FINE = 0
EXIT_DIFFERENT = 1
EXIT_MISUSE = 2
FIRED = "#"
STAYED = "s"
QUIET = "."
FAILED = "!"
NO_ROOM = "r"
SAME_TEXT = "t"
HELD_BACK = MappingProxyType(
    {
        "cooldown": "c",
        "group": "g",
        "chance": "p",
        "delay": "d",
        "once": "o",
        "character": "a",
        "recursion": "w",
    }
)
"""The mark of a memory that fired and does not come, by the reason."""
MEANINGS = MappingProxyType(
    {
        STAYED: N_("stays"),
        "c": N_("cooldown"),
        "g": N_("lost its group"),
        "p": N_("by chance"),
        NO_ROOM: N_("no room"),
        SAME_TEXT: N_("same text"),
        "d": N_("chat too short"),
        "o": N_("came before"),
        "a": N_("other characters"),
        "w": N_("waits for recursion"),
    }
)
"""What the marks mean that only memories with rules have."""
_BY_WEIGHT = (FAILED, FIRED, STAYED, *HELD_BACK.values(), NO_ROOM, SAME_TEXT, QUIET)
"""The marks, the heaviest first: one that stands for several messages is the first of these that one of them has."""
_MOST_NAME = 24
"""Cells of a name."""
_MOST_CODE = 60
"""Cells of the code of -e, which stands for a name."""
_MOST_WIDTH = 160
"""Cells of a line."""
_LEAST_MARKS = 10
_FIGURES = 24
"""Cells of the columns right of the picture."""
_MOST_KINDS = 3
"""Different failures of a trigger that are named, the most frequent first."""
_UNBOUNDED = 10_000_000
_STYLES = {FIRED: "green", STAYED: "green", FAILED: "red", QUIET: "dim"}


def timeline(options: argparse.Namespace) -> int:
    """Returns 1 when a trigger failed somewhere, or with --compare when a verdict changed. 2 when a memory of a pack
    cannot be used. Raises UsageError."""
    triggers, unusable = triggers_of(options.files, options.encoding, code=options.code)
    if not triggers:
        raise UsageError(
            "{files}: no trigger in it; give a pack or a file with a trigger",
            " and ".join(options.files),
        )
    say_unusable(Terminal(sys.stderr), unusable)
    replay = replay_of(options)
    if not replay.messages:
        raise UsageError("{chat} has no messages; give a chat with some", options.chat)
    terminal = Terminal(sys.stdout)
    if options.compare is not None:
        differs = _compared_with(options, triggers, replay, terminal)
    else:
        rows: list[Row] = []
        for entries in searched_together(triggers):
            outcomes = outcomes_of(entries, replay, max_chars=options.max_chars)
            rows += [_row(entry, outcomes) for entry in entries]
        _draw(terminal, rows)
        differs = any(row.failures for row in rows)
    if unusable:
        return EXIT_MISUSE
    return EXIT_DIFFERENT if differs else EXIT_FINE


def _compared_with(
    options: argparse.Namespace,
    triggers: Sequence[NamedTrigger],
    replay: Replay,
    terminal: Terminal,
) -> bool:
    """Show where the new trigger and the one of --compare differ; whether they do. Raises UsageError."""
    if len(triggers) != 1:
        raise UsageError("--compare takes one new trigger and the old one; name one FILE")
    old_source = read_text(options.compare, options.encoding)
    before, after = replayed([old_source, triggers[0].source], replay)
    return _compare(terminal, replay, before, after) > 0


class Row(NamedTuple):
    """A trigger along the chat: a mark for each message, and its failures by the number of their message."""

    name: str
    marks: str
    failures: Sequence[tuple[int, Failed]]


def _row(entry: PackEntry, outcomes: Sequence[Outcome]) -> Row:
    marks = [mark_of(outcome, entry.number) for outcome in outcomes]
    failures: list[tuple[int, Failed]] = []
    for number, outcome in enumerate(outcomes, start=1):
        verdict = outcome.verdicts[entry.number]
        if isinstance(verdict, Failed):
            failures.append((number, verdict))
    return Row(_shown_name(entry), "".join(marks), failures)


def _shown_name(entry: PackEntry) -> str:
    """The name of a memory, the beginning of a file's name, or the code of -e."""
    if entry.name == "-e":
        return fit(entry.trigger, _MOST_CODE).rstrip()
    if entry.is_file:
        return Path(entry.name).stem
    return entry.name


def mark_of(outcome: Outcome, number: int) -> str:
    """What became of a memory in one search."""
    if number in outcome.without_room:
        return NO_ROOM if outcome.without_room[number] == "room" else SAME_TEXT
    if number in outcome.activated:
        return STAYED if number in outcome.staying else FIRED
    if number in outcome.held_back:
        return HELD_BACK[outcome.held_back[number]]
    if isinstance(outcome.verdicts[number], Failed):
        return FAILED
    return QUIET


def searched_together(triggers: Sequence[NamedTrigger]) -> list[list[PackEntry]]:
    """The triggers in searches of their own: each pack is one, and all other files together."""
    packs: dict[str, list[PackMemory]] = {}
    others: list[PackEntry] = []
    for trigger in triggers:
        if trigger.memory is None:
            others.append(entry_of_trigger(trigger, len(others)))
        else:
            packs.setdefault(trigger.file, []).append(trigger.memory)
    searches = [entries_of(memories) for memories in packs.values()]
    return [entries for entries in (*searches, others) if entries]


def outcomes_of(entries: Sequence[PackEntry], replay: Replay, *, max_chars: int) -> list[Outcome]:
    """What a search gives at each message of the chat; shows a progress bar. Raises UsageError."""
    circumstances = Circumstances(max_chars=max_chars, conversation_id=replay.conversation_id)
    steps = [Step(scene, number) for number, scene in enumerate(replay.scenes(), start=1)]

    async def work() -> list[Outcome]:
        async with TriggerSandbox(timezone=replay.timezone) as sandbox:
            with bar(len(replay.messages), _("messages")) as progress:
                return await outcomes_along(sandbox, entries, steps, circumstances, progress)

    return settled(work())


def replayed(sources: Sequence[str], replay: Replay) -> list[tuple[Verdict, ...]]:
    """For each source the verdicts at all messages; shows a progress bar. Raises UsageError."""
    entries: list[PackEntry] = []
    for number, source in enumerate(sources):
        entries.append(entry_of_trigger(NamedTrigger(str(number), source, ""), number))
    outcomes = outcomes_of(entries, replay, max_chars=_UNBOUNDED)
    return list(zip(*(outcome.verdicts for outcome in outcomes), strict=True))


def _draw(terminal: Terminal, rows: Sequence[Row]) -> None:
    """The marks of all rows, with their meanings, and below them the failures."""
    total = len(rows[0].marks)
    width = min(_MOST_NAME, max(cells(row.name) for row in rows))
    room = min(terminal.width, _MOST_WIDTH) - width - _FIGURES - 2
    messages_per_mark = per_mark(total, max(_LEAST_MARKS, room))
    columns = -(-total // messages_per_mark)
    scale = counted(messages_per_mark, "message")
    terminal.show(
        _(
            "{messages}, {scale} per mark: {fired} fired  {quiet} quiet  {failed} failed",
            counted(total, "message"),
            scale,
            FIRED,
            QUIET,
            FAILED,
        ),
        "dim",
    )
    legend = _legend(row.marks for row in rows)
    if legend:
        terminal.show(legend, "dim")
    terminal.show(f"{'':<{width}}  {'':<{columns}}  {_('fired    rate silence')}", "dim")
    for row in rows:
        terminal.show(f"{fit(row.name, width)}  ", end="")
        for mark, run in groupby(picture(row.marks, messages_per_mark)):
            terminal.show("".join(run), _STYLES.get(mark, "yellow"), end="")
        fired = sum(mark in (FIRED, STAYED) for mark in row.marks)
        terminal.show(f"  {fired:>5} {fired / total:>7.1%} {longest_silence(row.marks):>7}")
    for row in rows:
        _show_failures(terminal, row)


def _show_failures(terminal: Terminal, row: Row) -> None:
    kinds = Counter(
        _("{kind}: {reason}", failure.kind, failure.message) for _number, failure in row.failures
    )
    for text, times in kinds.most_common(_MOST_KINDS):
        first, _failure = row.failures[0]
        of_all = counted(times, "time")
        sentence = _(
            "{name}: failed {times}, first at #{failed}: {text}", row.name, of_all, first, text
        )
        terminal.show(sentence, "yellow")


def _legend(rows: Iterable[str]) -> str:
    """The meanings of the marks that memories with rules have here."""
    marks = set("".join(rows))
    return "  ".join(
        (f"{mark} {_(meaning)}" for mark, meaning in MEANINGS.items() if mark in marks)
    )


def longest_silence(marks: str) -> int:
    """The most messages in a row at which the memory does not come."""
    longest = 0
    silence = 0
    for mark in marks:
        if mark in (FIRED, STAYED):
            silence = 0
        else:
            silence += 1
        longest = max(longest, silence)
    return longest


def per_mark(total: int, width: int) -> int:
    """How many messages one mark stands for, so that the picture has at most `width` marks."""
    return max(1, -(-total // max(1, width)))


def picture(marks: str, messages_per_mark: int) -> str:
    """One mark for so many messages: failed if one failed, else fired if one fired, and so on."""
    parts = [
        marks[begin : begin + messages_per_mark]
        for begin in range(0, len(marks), messages_per_mark)
    ]
    return "".join(min(part, key=_BY_WEIGHT.index) for part in parts)


def _compare(
    terminal: Terminal, replay: Replay, before: Sequence[Verdict], after: Sequence[Verdict]
) -> int:
    """Show each message at which the verdicts differ; how many these are."""
    changed = 0
    for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
        if _kind_of(old) == _kind_of(new):
            continue
        changed += 1
        message = replay.messages[number - 1]
        who = message.get("name") or message["role"]
        terminal.show(f"#{number} {who}: {fit(message['content'], 60).rstrip()}")
        terminal.show(
            _("    the old one {said}; the new one {said2}", said(old), said(new)),
            _STYLES[FIRED if word(new) == "fired" else QUIET],
        )
    said_of_all = _("{changed} of {verdicts} changed", changed, counted(len(before), "verdict"))
    terminal.show(said_of_all, "yellow" if changed else "green")
    return changed


def _kind_of(verdict: Verdict) -> str:
    """fired, quiet, or the kind of a failure."""
    if isinstance(verdict, Failed):
        return verdict.kind
    return word(verdict)
