"""`trigger-sandbox run`, `repl` and `doctor`: run a trigger on a chat and explain it, once or line by line."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from languages import N_, _, foreign
from languages.columns import cells, padded
from sandbox.chats import chat
from sandbox.errors import SandboxError
from sandbox.host.search import Scene
from sandbox.host.supervisor import TriggerSandbox
from sandbox.javascript.positions import caret
from sandbox.javascript.tracing import copy_of
from sandbox.rules import groups_of, rule_of
from sandbox.verdicts import Failed, Fired, ProtectionLayer, RunReport, Verdict
from sandbox.workbench.chat_replay import Replay, last_firing, moment, replay_of
from sandbox.workbench.explain import place_of, reasons, word
from sandbox.workbench.files import PackMemory, read_text, read_usable, say_unusable
from sandbox.workbench.terminal import Terminal, UsageError, settled

EXIT_FIRED = 0
EXIT_QUIET = 1
EXIT_FAILED = 3
_HELP = N_("""\
Type a trigger to see its verdict, or one of these:
:say [ROLE:] TEXT   add a message of the user, or of that role
:now TIME           run the next triggers at this time, such as 2026-07-17T09:00
:quit               leave; so does Ctrl-D""")


def run(options: argparse.Namespace) -> int:
    """Run a trigger and show what it gave, or run a pack if the file is JSON. Return 0 when it fired, 1 when it was
    quiet, 3 when it failed. Raises UsageError."""
    if options.file is not None and options.file.endswith(".json"):
        return run_pack(options)
    source = options.code
    if source is None:
        source = read_text(options.file, options.encoding)
    replay = replay_of(options)
    report = perform(source, replay.end(), options.tz, last_firing(options.last_fired))
    return _show(source, report, replay)


def perform(
    source: str, scene: Scene, timezone: str | None, last_fired: Mapping[str, int] | None = None
) -> RunReport:
    """Run a trigger in a sandbox of its own. Raises UsageError when nothing can be run here."""

    async def once() -> RunReport:
        async with TriggerSandbox(timezone=timezone, workers=1, spare=False) as sandbox:
            return await sandbox.run(
                source,
                scene.context,
                now=scene.now,
                seed=scene.seed,
                copy=copy_of(source),
                last_fired=last_fired,
            )

    return settled(once())


def _show(source: str, report: RunReport, replay: Replay) -> int:
    """Show what a run gave: console, verdict and reasons. Return the exit code of the verdict."""
    terminal = Terminal(sys.stdout)
    for line in report.console:
        terminal.show(f"{padded('console', 9)}{line}")

    verdict = report.verdict
    if isinstance(verdict, Failed):
        terminal.show(
            f"{padded('failed', 9)}{verdict.kind}: " + foreign(verdict.message) + place_of(verdict)
        )
        pointer = caret(source, verdict.line, verdict.column)
        if pointer:
            terminal.show(pointer)
    else:
        terminal.show(f"{padded(word(verdict), 9)}{verdict.elapsed_us / 1000:.1f} ms")

    # The messages of the window are numbered as in the whole chat.
    messages = replay.end().context["messages"]
    first = len(replay.messages) - len(messages) + 1
    for line in reasons(source, report, messages, first):
        terminal.show(line)

    if isinstance(verdict, Failed):
        return EXIT_FAILED

    return EXIT_FIRED if isinstance(verdict, Fired) else EXIT_QUIET


def repl(options: argparse.Namespace) -> int:
    """Run each line of standard input as a trigger, or change the chat or the time by a command such as `:say`, until
    its end or `:quit`. Return 0. Raises UsageError."""
    replay = replay_of(options)
    firing = last_firing(options.last_fired)
    has_fixed_time = bool(options.now or options.at)
    terminal = Terminal(sys.stdout)
    is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
    if is_interactive:
        with suppress(ImportError):
            import readline  # noqa: F401 - so that a typed line can be edited
        terminal.show(_("A trigger, or :help. Ctrl-D leaves."), "dim")

    for line in _typed_lines("trigger> " if is_interactive else ""):
        command, _blank, argument = line.partition(" ")
        if command == ":say" and argument.strip():
            replay = replace(replay, messages=[*replay.messages, *_said(argument)])
        elif command == ":now" and argument.strip():
            try:
                replay = replace(replay, now=moment(argument.strip(), options.tz))
                has_fixed_time = True
            except UsageError as error:
                terminal.show(str(error.sentence.named_values["reason"]))
        elif command.startswith(":"):
            terminal.show(_(_HELP))
        elif line.strip():
            if not has_fixed_time:
                replay = replace(replay, now=moment(None, options.tz))
            report = perform(line, replay.end(), options.tz, firing)
            _show(line, report, replay)

    return 0


def _typed_lines(prompt: str) -> Iterator[str]:
    """Yield the lines of standard input before `:quit`."""
    while True:
        try:
            line = input(prompt)
        except EOFError:
            return
        if line == ":quit":
            return
        yield line


def _said(text: str) -> list[chat.Message]:
    """Read a line of `role: text` as a message of that role; any other line is the user's."""
    try:
        messages, assumed = chat.parse(text)
    except chat.ChatError:
        assumed = text
    if assumed:
        # `Note: tea` is from the user, not from a speaker called Note.
        return [{"role": "user", "content": text}]
    return messages


def _state_of(layer: ProtectionLayer) -> str:
    if layer.is_attempt:
        return N_("blocked") if layer.holds else N_("OPEN")
    return N_("active") if layer.holds else N_("MISSING")


def doctor(options: argparse.Namespace) -> int:
    """Print which layers hold. Return 3 when triggers cannot run, or with --all when a layer is missing."""

    async def ask() -> tuple[Mapping[str, Any], tuple[ProtectionLayer, ...]]:
        async with TriggerSandbox(workers=1, spare=False) as sandbox:
            return await sandbox.describe(), await sandbox.layers()

    terminal = Terminal(sys.stdout)
    try:
        hello, layers = asyncio.run(ask())
    except SandboxError as error:
        terminal.show(_("triggers cannot run here: {reason}", error))
        return EXIT_FAILED
    terminal.show(_("V8 {v8}, worker process {pid} started and ended", hello["v8"], hello["pid"]))
    width = max((cells(layer.title) for layer in layers), default=0)
    for layer in layers:
        state = padded(_state_of(layer), 9)
        terminal.show(f"{state}{padded(layer.title, width)}  " + foreign(layer.detail))
    missing = any(not layer.holds for layer in layers)
    return EXIT_FAILED if missing and options.all else EXIT_FIRED


EXIT_MISUSE = 2
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
    """Return the verdict of each memory's trigger, in a sandbox of their own. Raises UsageError when nothing can be run."""

    async def work() -> Sequence[Verdict]:
        async with TriggerSandbox(timezone=timezone) as sandbox:
            triggers = [memory.trigger for memory in memories]
            return await sandbox.evaluate(triggers, scene.context, now=scene.now, seed=scene.seed)

    return settled(work())


def _show_fired(terminal: Terminal, fired: Sequence[PackMemory], searched: int) -> None:
    """Show the memories of a pack that fired, those of the highest order first, which take room
    first."""
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
