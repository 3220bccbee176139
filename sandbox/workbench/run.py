"""`trigger-sandbox run`, `repl` and `doctor`: run a trigger on a chat and explain it, once or line by line."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sandbox.chats import chat
from sandbox.errors import SandboxError
from sandbox.host.search import Scene
from sandbox.host.supervisor import TriggerSandbox
from sandbox.javascript.positions import caret
from sandbox.javascript.tracing import copy_of
from sandbox.language import cells, padded
from sandbox.locale import N_, _, foreign, translated
from sandbox.verdicts import Failed, Fired, ProtectionLayer, RunReport
from sandbox.workbench.chat_replay import Replay, moment, replay_of
from sandbox.workbench.explain import place_of, reasons, word
from sandbox.workbench.files import read_text
from sandbox.workbench.terminal import Terminal, UsageError, settled

EXIT_FIRED, EXIT_QUIET, EXIT_FAILED = 0, 1, 3
_HELP = _("""\
Type a trigger to see its verdict, or one of these:
:say [ROLE:] TEXT   add a message of the user, or of that role
:now TIME           run the next triggers at this time, such as 2026-07-17T09:00
:quit               leave; so does Ctrl-D""")


def run(options: argparse.Namespace) -> int:
    """Returns 0 when the trigger fired, 1 when it was quiet, 3 when it failed. Raises UsageError."""
    source = options.code if options.code is not None else read_text(options.file, options.encoding)
    replay = replay_of(options)
    return _show(source, perform(source, replay.end(), options.tz), replay)


def perform(source: str, scene: Scene, timezone: str | None) -> RunReport:
    """Raises UsageError when nothing can be run here."""

    async def once() -> RunReport:
        async with TriggerSandbox(timezone=timezone, workers=1) as sandbox:
            return await sandbox.run(source, scene.context, now=scene.now, seed=scene.seed, copy=copy_of(source))

    return settled(once())


def _show(source: str, report: RunReport, replay: Replay) -> int:
    terminal = Terminal(sys.stdout)
    for line in report.console:
        terminal.show(f"{padded('console', 9)}{line}")
    verdict = report.verdict
    if isinstance(verdict, Failed):
        terminal.show(f"{padded('failed', 9)}{verdict.kind}: " + foreign(verdict.message) + place_of(verdict))
        if pointer := caret(source, verdict.line, verdict.column):
            terminal.show(pointer)
    else:
        terminal.show(f"{padded(word(verdict), 9)}{verdict.elapsed_us / 1000:.1f} ms")
    seen = replay.end().context["messages"]
    for line in reasons(source, report, seen, len(replay.messages) - len(seen) + 1):
        terminal.show(line)
    return EXIT_FAILED if isinstance(verdict, Failed) else EXIT_FIRED if isinstance(verdict, Fired) else EXIT_QUIET


def repl(options: argparse.Namespace) -> int:
    """Answers each line of standard input until its end or `:quit`. Returns 0. Raises UsageError."""
    replay = replay_of(options)
    fixed = bool(options.now or options.at)
    terminal = Terminal(sys.stdout)
    typed = sys.stdin.isatty() and sys.stdout.isatty()
    if typed:
        with suppress(ImportError):
            import readline  # noqa: F401 - so that a typed line can be edited
        terminal.show(_("A trigger, or :help. Ctrl-D leaves."), "dim")
    with suppress(EOFError):
        while (line := input("trigger> " if typed else "")) != ":quit":
            command, _blank, rest = line.partition(" ")
            if command == ":say" and rest.strip():
                replay = replace(replay, messages=[*replay.messages, *_said(rest)])
            elif command == ":now" and rest.strip():
                try:
                    replay, fixed = replace(replay, now=moment(rest.strip(), options.tz)), True
                except UsageError as error:
                    terminal.show(error.args[0].values["reason"])
            elif command.startswith(":"):
                terminal.show(_HELP)
            elif line.strip():
                replay = replay if fixed else replace(replay, now=moment(None, options.tz))
                _show(line, perform(line, replay.end(), options.tz), replay)
    return 0


def _said(text: str) -> list[chat.Message]:
    """A line of `role: text` is a message of that role; any other line is the user's."""
    try:
        messages, assumed = chat.parse(text)
    except chat.ChatError:
        assumed = text
    # `Note: tea` is from the user, not from somebody called Note.
    return [{"role": "user", "content": text}] if assumed else messages


def _state_of(layer: ProtectionLayer) -> str:
    if layer.is_attempt:
        return N_("blocked") if layer.holds else N_("OPEN")
    return N_("holds") if layer.holds else N_("MISSING")


def doctor(options: argparse.Namespace) -> int:
    """Prints which layers hold. Returns 3 when triggers cannot run, or with --all when a layer is missing."""

    async def ask() -> tuple[Mapping[str, Any], tuple[ProtectionLayer, ...]]:
        async with TriggerSandbox(workers=1) as sandbox:
            return await sandbox.describe(), await sandbox.layers()

    terminal = Terminal(sys.stdout)
    try:
        hello, layers = asyncio.run(ask())
    except SandboxError as error:
        terminal.show(_("triggers cannot run here: {reason}", error))
        return EXIT_FAILED
    terminal.show(_("V8 {v8}, worker process {pid} started and ended", hello["v8"], hello["pid"]))
    width = max((cells(translated(layer.title)) for layer in layers), default=0)
    for layer in layers:
        state = padded(_state_of(layer), 9)
        terminal.show(f"{state}{padded(layer.title, width)}  " + foreign(layer.detail))
    missing = any(not layer.holds for layer in layers)
    return EXIT_FAILED if missing and options.all else EXIT_FIRED
