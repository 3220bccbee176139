"""`trigger-sandbox repl`: the prompt. With a terminal it has history and completion; without one it reads lines."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.errors import SandboxError
from sandbox.workbench import verdict_text
from sandbox.workbench.explain.operands import copy_of
from sandbox.workbench.fixtures.case_runner import Zones
from sandbox.workbench.repl.completion import candidates
from sandbox.workbench.repl.session import COMMANDS, Session, obey, unfinished
from sandbox.workbench.sources.files import UsageError, people_of, read_chat, zone_of
from sandbox.workbench.terminal import Terminal

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer
    from prompt_toolkit.history import History

Reader = Callable[[bool], Awaitable[str | None]]
"""Gives the next line, None at the end. Told whether it goes on with an open trigger."""
PROMPT, CONTINUED = "trigger> ", "     ... "


def repl(options: argparse.Namespace) -> int:
    """Returns 0. Raises UsageError for options that cannot be used; later errors are said and the prompt comes back."""
    session = _session(options)
    terminal = Terminal(sys.stdout)
    session = replace(session, paint=terminal.painter)
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    if interactive:
        terminal.say("A trigger, or :help. Ctrl-D leaves.", "faint")
    try:
        asyncio.run(converse(session, typed() if interactive else piped, terminal))
    except SandboxError as error:
        raise UsageError(str(error)) from error
    return 0


def _session(options: argparse.Namespace) -> Session:
    zone = zone_of(options.tz)
    try:
        participants = json.loads(options.participants)
    except ValueError as error:
        raise UsageError(f"--participants is no JSON: {error}") from error
    if not isinstance(participants, dict):
        raise UsageError('--participants must be a JSON object such as {"user": {"name": "Ann"}}')
    return Session(
        messages=tuple(read_chat(options.chat, options.encoding, zone, people_of(options))) if options.chat else (),
        given_now=verdict_text.moment(options.now, options.tz) if options.now else None,
        timezone=options.tz,
        seed=options.seed,
        participants=participants,
    )


async def converse(session: Session, read: Reader, terminal: Terminal) -> Session:
    """Answers each line until the lines or the session end. Raises SandboxError when nothing can be run here."""
    pending = ""
    async with Zones() as zones:
        while not session.over:
            line = await read(bool(pending))
            ended = line is None
            if line is not None and line.startswith(":") and not pending:
                session = _obeyed(session, line, terminal)
                continue
            source = f"{pending}\n{line or ''}".strip("\n") if pending else line or ""
            pending = ""
            if source.strip():
                tried = await _tried(session, source, zones)
                if line and line.strip() and tried.report and unfinished(source, tried.report):
                    pending = source  # a blank line, or the end, takes it as it is
                else:
                    session = tried
                    _show(session, terminal)
            if ended:
                break
    return session


def _obeyed(session: Session, line: str, terminal: Terminal) -> Session:
    try:
        session, answer = obey(session, line)
    except UsageError as error:
        answer = [str(error)]
    for text in answer:
        terminal.say(text)
    return session


async def _tried(session: Session, source: str, zones: Zones) -> Session:
    sandbox = await zones.of(session.timezone)
    report = await sandbox.run(source, session.context(), now=session.now(), seed=session.seed, copy=copy_of(source))
    return replace(session, source=source, report=report)


def _show(session: Session, terminal: Terminal) -> None:
    if session.report is not None:
        verdict_text.show(session.source, session.report, terminal.out)
        terminal.out.flush()


async def piped(_continued: bool) -> str | None:
    """The next line of standard input, None at its end."""
    line = sys.stdin.readline()
    return line.rstrip("\r\n") if line else None


def typed() -> Reader:
    """Reads from the terminal. Ctrl-C drops the line, Ctrl-D ends."""
    prompt: PromptSession[str] | None = None

    async def read(continued: bool) -> str | None:
        nonlocal prompt
        prompt = prompt or _prompt()  # made where the event loop runs
        while True:
            try:
                return await prompt.prompt_async(CONTINUED if continued else PROMPT)
            except KeyboardInterrupt:
                if continued:
                    return ""
            except EOFError:
                return None

    return read


def _prompt() -> PromptSession[str]:
    from prompt_toolkit import PromptSession

    return PromptSession(history=_history(), completer=_completer(), complete_while_typing=False)


def _history() -> History:
    """Kept between sessions where that is possible."""
    import platformdirs
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    folder = Path(platformdirs.user_state_dir("trigger-sandbox", appauthor=False))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "history").open("ab"):
            pass
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(folder / "history"))


def _completer() -> Completer:
    import zoneinfo

    from prompt_toolkit.completion import Completer, Completion, PathCompleter
    from prompt_toolkit.document import Document

    names = [(command.names[0], command.about) for command in COMMANDS]
    zones = zoneinfo.available_timezones()
    files = PathCompleter(expanduser=True)

    class OfLine(Completer):
        """The words of completion.py, and files after the commands that take one."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            before = document.text_before_cursor
            command, blank, rest = before.partition(" ")
            if blank and command in (":chat", ":save"):
                yield from files.get_completions(Document(rest.removeprefix("! ")), complete_event)
                return
            for one in candidates(before, names, zones):
                yield Completion(one.text, -one.length, display_meta=one.about)

    return OfLine()
