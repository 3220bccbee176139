"""Recall and remember without a request of the model (`hook`).

Claude Code calls it as the hooks SessionStart (the last exchanges), UserPromptSubmit (recall), Stop (remember) and as
the hooks of tools (what was said about a file or a command); VS Code and Cursor call it as theirs.

A hook must never block the user: the exit status is always 0 (2 would block the prompt), standard output is empty or
complete, and one line on standard error says what was wrong. If the memory cannot be used, the user is told once a
session (trouble.py). After `--seconds` the hook gives up and says so. This module does not import MCP, numpy or the
tools, because a user waits for it at every prompt.
"""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from languages import _, in_this_language
from memory_server.config import Settings
from memory_server.config.project_file import in_folder
from memory_server.kernel import json_text
from memory_server.kernel.errors import MemoryPaused, MemoryServerError
from memory_server.kernel.failures import failure_text
from memory_server.kernel.streams import complain, standard_input, write
from memory_server.kernel.text import words_between_commas
from memory_server.memories.hooks import CURSOR, HookEvent
from memory_server.operations.hook_events import event_of
from memory_server.process import entrance, linked_server
from memory_server.process.hook_contexts import context_of, without_secrets
from memory_server.process.hooks import answer
from memory_server.process.hosts import Host
from memory_server.runtime.homes import is_foreign


async def hook(settings: Settings, flags: Namespace, host: Host) -> None:
    """Answer the event on standard input: recall or remember, here or through the server of a link.
    A failure is never raised: standard error tells it, unless the event is the call of a tool."""
    patience = None
    if not host.lasts:  # the entrance of a command that shares a process gives up by itself
        patience = _Deadline(flags.seconds, entrance.waited)

    try:
        event = event_of(json_text.loads(standard_input()))
        if host.folder is not None:
            event = _seen_from(host.folder, event)
        programs = words_between_commas(settings.programs or "")
        context = await context_of(event, programs)
    except (
        OSError,
        ValueError,
    ) as error:  # the client gave something that cannot be used: the memory is all right
        if patience is None or patience.end():
            complain(_("hook: {reason}", _reason(error)))
        return

    server: linked_server.LinkedServer | None = None
    output = ""
    try:
        settings = in_folder(settings, event.cwd)
        context = without_secrets(context, settings.secret_filter)
        link = linked_server.link_of(settings) if context is not None else None
        if context is not None and link is not None:
            from memory_server.process import (
                linked_hook,
            )  # here: most machines have no link, and each hook waits

            server = linked_server.LinkedServer(link, settings, lasts=host.lasts, folder=event.cwd)
            output = _output(event, *await linked_hook.hook(server, context, flags))
        elif context is not None:
            block = await answer(
                settings, context, host, max_chars=flags.chars, flashbacks=flags.flashbacks
            )
            output = _output(event, block)
    except MemoryPaused as error:
        if (patience is None or patience.end()) and event.use is None:
            complain(_("hook: {reason}", str(error)))
        return
    except Exception as error:
        # At a call of a tool nothing is said: the hook of the prompt has told it.
        if (patience is None or patience.end()) and event.use is None:
            from memory_server.cli.hook.trouble import tell

            tell(event, _reason(error))
        return

    if (patience is None or patience.end()) and output:
        write(output)
        sys.stdout.flush()

    if server is not None:
        await server.end(linked_server.AFTER_HOOK_SECONDS)


def _reason(error: Exception) -> str:
    """Return a reason that a person can act on, or say what failed in this program, and where."""
    expected = isinstance(error, (MemoryServerError, ValueError, OSError)) and str(error)
    return expected or failure_text(error)


def _output(event: HookEvent, block: str, message: str = "") -> str:
    """Return the output for the client: `block` as context, and a `message` for the user. It is empty if both are."""
    output: dict[str, Any] = {}

    # Cursor has another name for the context; no message is written for it.
    if event.called in CURSOR:
        if block:
            output["additional_context"] = block
    else:
        if block:
            context = {"hookEventName": event.called, "additionalContext": block}
            output["hookSpecificOutput"] = context
        if message:
            output["systemMessage"] = message

    if not output:
        return ""
    return json_text.dumps(output).decode()


def _seen_from(folder: Path, event: HookEvent) -> HookEvent:
    """Return the event with absolute paths: the shared process has another working directory than the hook."""
    path = event.transcript_path
    transcript = None if path is None else str(folder / Path(path).expanduser())
    cwd = Path(event.cwd or "")
    if not is_foreign(cwd):
        cwd = folder / cwd
    return replace(event, cwd=str(cwd), transcript_path=transcript)


class _Deadline:
    """End the process after `seconds`, of which `waited` are over, unless `end` is called first."""

    def __init__(self, seconds: float, waited: float) -> None:
        self._over = threading.Lock()
        """The first of the two takes it: the work, or the timer."""
        self._timer = threading.Timer(
            max(0.0, seconds - waited), in_this_language(self._give_up), [seconds]
        )
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> bool:
        """Stop the timer; return False if it has just given up."""
        self._timer.cancel()
        return self._over.acquire(blocking=False)

    def _give_up(self, seconds: float) -> None:
        """End this process with status 0 and a complaint, unless the hook has ended its work."""
        if self._over.acquire(blocking=False):
            complain(
                _("hook: gave up after {seconds:g} s; --seconds allows a longer time", seconds)
            )
            # Not sys.exit, which waits for threads, and one may hang. The journal survives this at any moment.
            os._exit(0)
