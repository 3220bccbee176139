"""`trigger-sandbox run PACK`: which memories of a pack come at the last message of a chat, in which order, and why the
others that fired do not."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from languages import N_, _, counted, foreign
from sandbox.firing.reasons import reason_text
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import Failed
from sandbox.workbench.chat_replay import Replay, replay_of
from sandbox.workbench.explain import place_of
from sandbox.workbench.files import read_usable, say_unusable
from sandbox.workbench.firing_replay import Circumstances, Outcome, Step, outcomes_along
from sandbox.workbench.pack_rules import PackEntry, entries_of
from sandbox.workbench.terminal import Terminal, UsageError, settled

EXIT_CAME = 0
EXIT_NOTHING = 1
EXIT_MISUSE = 2
EXIT_FAILED = 3


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """A memory that fired and does not come."""

    entry: PackEntry
    chars: int
    reason: str


def run_pack(options: argparse.Namespace) -> int:
    """Returns 0 when a memory comes, 1 when none does, 3 when a trigger failed, 2 when a memory of the pack cannot be
    used. Raises UsageError."""
    if options.last_fired is not None:
        raise UsageError(
            "--last-fired is for one trigger; a pack has the state of the messages before the last one"
        )
    memories, unusable = read_usable(options.file, options.encoding)
    say_unusable(Terminal(sys.stderr), [(options.file, sentence) for sentence in unusable])
    entries = entries_of(memories)
    replay = replay_of(options)
    if not replay.messages:
        raise UsageError("a pack is run on a chat; add --chat")
    circumstances = Circumstances(
        max_chars=options.max_chars, conversation_id=replay.conversation_id
    )
    outcome = _last_outcome(entries, replay, circumstances)
    failures = list(_failures(entries, outcome))
    terminal = Terminal(sys.stdout)
    _show_what_came(terminal, outcome, circumstances.room.long_term)
    _show_left_out(terminal, list(_left_out(entries, outcome)))
    for entry, failure in failures:
        reason = _("{kind}: {reason}", failure.kind, foreign(failure.message))
        terminal.show(
            _("{name} failed: {reason}{place}", entry.name, reason, place_of(failure)), "red"
        )
    if unusable:
        return EXIT_MISUSE
    if failures:
        return EXIT_FAILED
    return EXIT_CAME if outcome.fitting.texts else EXIT_NOTHING


def _last_outcome(
    entries: Sequence[PackEntry], replay: Replay, circumstances: Circumstances
) -> Outcome:
    """What comes at the last message; those before it are searched too where their state matters."""
    end = Step(replay.end(), len(replay.messages))
    earlier: list[Step] = []
    if any(entry.counts_messages for entry in entries):
        earlier = [
            Step(scene, number) for number, scene in enumerate(replay.scenes()[:-1], start=1)
        ]

    async def work() -> list[Outcome]:
        async with TriggerSandbox(timezone=replay.timezone) as sandbox:
            return await outcomes_along(sandbox, entries, [*earlier, end], circumstances)

    return settled(work())[-1]


def _failures(entries: Sequence[PackEntry], outcome: Outcome) -> Iterator[tuple[PackEntry, Failed]]:
    for entry, verdict in zip(entries, outcome.verdicts, strict=True):
        if isinstance(verdict, Failed):
            yield entry, verdict


def _left_out(entries: Sequence[PackEntry], outcome: Outcome) -> Iterator[_LeftOut]:
    for without_room in outcome.fitting.left_out:
        yield _LeftOut(without_room.entry, without_room.chars, without_room.reason)
    for number, reason in outcome.held_back.items():
        yield _LeftOut(entries[number], len(entries[number].text), reason)


def _show_what_came(terminal: Terminal, outcome: Outcome, room: int) -> None:
    """The memories that come, in the order in which they take room."""
    texts = sorted(
        outcome.fitting.texts, key=lambda text: outcome.activated.index(text.entry.number)
    )
    count = counted(len(texts), "memory")
    searched = len(outcome.verdicts)
    heading = _(
        "{came} of {searched} come, with {chars:,} of {room:,} characters",
        count,
        searched,
        outcome.fitting.chars,
        room,
    )
    terminal.show(heading, "green" if texts else "dim")
    if texts:
        terminal.show(_(_HEADING), "dim")
    for text in texts:
        remarks = _remarks(
            text.entry, stays=text.entry.number in outcome.staying, is_cut=text.is_cut
        )
        terminal.show(_row(text.entry, text.chars, remarks))


def _show_left_out(terminal: Terminal, rows: Sequence[_LeftOut]) -> None:
    if not rows:
        return
    terminal.show()
    terminal.show(_("fired and left out:"), "yellow")
    for row in rows:
        remarks = _remarks(row.entry)
        terminal.show(_row(row.entry, row.chars, f"{remarks}: {reason_text(row.reason)}"))


_HEADING = N_(" order   chars  memory")


def _row(entry: PackEntry, chars: int, remarks: str) -> str:
    return f"{entry.rules.order:>6g} {chars:>7,}  {entry.name}{remarks}"


def _remarks(entry: PackEntry, *, stays: bool = False, is_cut: bool = False) -> str:
    """What else is to be said of a memory, behind its name."""
    groups = ", ".join(entry.rules.group.names)
    remarks = f" [{groups}]" if groups else ""
    if stays:
        remarks += f" ({_('stays')})"
    if is_cut:
        remarks += f" ({_('cut')})"
    return remarks
