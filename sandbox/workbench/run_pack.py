"""`trigger-sandbox run PACK`: which triggers of a pack fire at the last message of a chat.

Which of these memories come, by their groups, chance, cooldowns and room, is decided where they are stored.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from languages import N_, _, foreign
from sandbox.host.search import Scene
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import Failed, Fired, Verdict
from sandbox.workbench.chat_replay import replay_of
from sandbox.workbench.explain import place_of
from sandbox.workbench.files import PackMemory, read_usable, say_unusable
from sandbox.workbench.rule_fields import groups_of, rule_of
from sandbox.workbench.terminal import Terminal, UsageError, settled

EXIT_FIRED = 0
EXIT_QUIET = 1
EXIT_MISUSE = 2
EXIT_FAILED = 3
_HEADING = N_(" order   chars  memory")


def run_pack(options: argparse.Namespace) -> int:
    """Show which triggers fire. Return 0 when one does, 1 when none does, 3 when one failed, 2 when a memory of the
    pack cannot be used. Raises UsageError."""
    if options.last_fired is not None:
        raise UsageError("--last-fired is for one trigger; leave it out for a pack")

    memories, unusable = read_usable(options.file, options.encoding)
    say_unusable(Terminal(sys.stderr), [(options.file, sentence) for sentence in unusable])
    replay = replay_of(options)
    if not replay.messages:
        raise UsageError("a pack is run on a chat; add --chat")

    # A memory that is off is not tried in a recall either.
    switched_on = [memory for memory in memories if not rule_of(memory.extra, "off")]
    verdicts = _verdicts(switched_on, replay.end(), replay.timezone)
    judged = list(zip(switched_on, verdicts, strict=True))
    fired = [memory for memory, verdict in judged if isinstance(verdict, Fired)]
    failures = [(memory, verdict) for memory, verdict in judged if isinstance(verdict, Failed)]

    terminal = Terminal(sys.stdout)
    _show_fired(terminal, fired, len(switched_on))
    for memory, failure in failures:
        reason = _("{kind}: {reason}", failure.kind, foreign(failure.message))
        terminal.show(
            _("{name} failed: {reason}{place}", memory.name, reason, place_of(failure)), "red"
        )

    if unusable:
        return EXIT_MISUSE
    if failures:
        return EXIT_FAILED

    return EXIT_FIRED if fired else EXIT_QUIET


def _verdicts(
    memories: Sequence[PackMemory], scene: Scene, timezone: str | None
) -> Sequence[Verdict]:
    async def work() -> Sequence[Verdict]:
        async with TriggerSandbox(timezone=timezone) as sandbox:
            triggers = [memory.trigger for memory in memories]
            return await sandbox.evaluate(triggers, scene.context, now=scene.now, seed=scene.seed)

    return settled(work())


def _show_fired(terminal: Terminal, fired: Sequence[PackMemory], searched: int) -> None:
    """Show the memories that fired, in the order in which they take room."""
    heading = _("{fired} of {searched} fire", len(fired), searched)
    terminal.show(heading, "green" if fired else "dim")
    if not fired:
        return
    terminal.show(_(_HEADING), "dim")
    for memory in sorted(fired, key=lambda memory: -rule_of(memory.extra, "order")):
        order = rule_of(memory.extra, "order")
        groups = ", ".join(groups_of(memory.extra))
        remark = f" [{groups}]" if groups else ""
        terminal.show(f"{order:>6g} {len(memory.prompt):>7,}  {memory.name}{remark}")
    terminal.show(
        _("Their groups, chance, cooldowns and room decide where they are stored."), "dim"
    )
