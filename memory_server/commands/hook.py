"""`hook`: memory without being asked, as Claude Code's hooks UserPromptSubmit (recall) and Stop (remember).

A hook must never stand in the user's way: whatever happens, the exit status is 0 (2 would block the prompt), standard
output is empty or whole, and one line on standard error says what was wrong. After `--seconds` it gives up likewise.
Nothing in here imports MCP, numpy or the tools: a user waits for it at every prompt.
"""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace
from pathlib import Path

from memory_server.app import App
from memory_server.commands.claude_code import HookEvent, event_of, messages_now, turn_ended
from memory_server.config import Settings
from memory_server.managers.turns import recalled_block, recollect
from memory_server.storage import codec
from memory_server.terminal import complain, speak_utf8

CONTEXT_BYTES = 1_000_000
"""End of a transcript that is looked at for the last few messages: reading it takes 1 ms."""
TURN_BYTES = 32_000_000
"""End of a transcript in which a turn began; what tools gave lies between a prompt and its answer."""


async def hook(settings: Settings, flags: Namespace) -> int:
    """Do what the event on standard input asks for; 0 whatever happens."""
    patience = _Patience(flags.seconds)
    try:
        event = event_of(codec.loads(sys.stdin.buffer.read()))
        match event.name:
            case "UserPromptSubmit":
                said = await _recalled(settings, flags.chars, event)
            case "Stop":
                said = await _remembered(settings, event)
            case other:
                raise ValueError(f"nothing is to be done at {other}; this hook is for UserPromptSubmit and Stop")
    except Exception as error:
        patience.end()
        complain(f"hook: {_one_line(error)}")
        return 0
    if patience.end() and said:
        speak_utf8()
        sys.stdout.write(said + "\n")
        sys.stdout.flush()
    return 0


async def _recalled(settings: Settings, max_chars: int, event: HookEvent) -> str:
    messages = messages_now(event, _end_of(event.transcript_path, CONTEXT_BYTES))
    if not messages:
        return ""
    async with App(settings, brief=True) as app:
        recollection = await recollect(app.conversation(), messages, by="hook")
        block = recalled_block(app.conversations, recollection, max_chars=max_chars)
    if recollection.trouble:
        complain(f"hook: {recollection.trouble}")
    if not block:
        return ""
    output = {"hookEventName": "UserPromptSubmit", "additionalContext": block}
    return codec.dumps({"hookSpecificOutput": output}).decode()


async def _remembered(settings: Settings, event: HookEvent) -> str:
    turn = turn_ended(event, _end_of(event.transcript_path, TURN_BYTES))
    if turn is not None and turn.messages and not settings.read_only:
        async with App(settings) as app:
            await app.conversation().short_term.add(turn.messages, turn=turn.id, by="hook")
    return ""


def _end_of(path: str | None, size: int) -> bytes:
    """The last `size` bytes of the transcript; nothing where there is none yet."""
    if path is None:
        return b""
    try:
        with Path(path).expanduser().open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read(size)
    except FileNotFoundError:
        return b""


class _Patience:
    """Ends the process silently after `seconds`, unless it is ended first."""

    def __init__(self, seconds: float) -> None:
        self._lock = threading.Lock()
        self._over = False
        self._seconds = seconds
        self._timer = threading.Timer(seconds, self._give_up)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> bool:
        """Wait no longer; False where it gave up just now."""
        with self._lock:
            ours, self._over = not self._over, True
        self._timer.cancel()
        return ours

    def _give_up(self) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
        complain(f"hook: gave up after {self._seconds:g} s; --seconds gives it more")
        # Not sys.exit: that waits for threads, of which one may hang. A journal survives it at any moment.
        os._exit(0)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
