"""`call`: any tool from a shell, with the same results and errors as over MCP."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from memory_server.app import App
from memory_server.cli.terminal import complain, speak_utf8
from memory_server.config import Settings
from memory_server.core.errors import InvalidInput
from memory_server.storage.json_store import codec
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import ToolFailed
from memory_server.tools.base.tool import call as call_tool


async def call(settings: Settings, flags: Namespace) -> int:
    """Print the result of one tool call: its JSON, or with --text the block for people."""
    tool = TOOLS.get(flags.tool)
    if tool is None:
        raise InvalidInput(f"There is no tool `{flags.tool}`; use one of {', '.join(TOOLS)}.")
    if not tool.only_reads:
        settings.refuse_change(tool.name)
    arguments = _arguments(flags.arguments)
    async with App(settings) as app:
        try:
            answer = await call_tool(tool, app.conversations, arguments, max_bytes=settings.results.max_bytes)
        except ToolFailed as failure:
            complain(str(failure))
            return 1
    speak_utf8()
    sys.stdout.write((answer.text if flags.text else codec.dumps(answer.structured).decode()) + "\n")
    return 0


def _arguments(source: str) -> dict[str, object]:
    try:
        if source == "-":
            text, origin = sys.stdin.buffer.read(), "standard input"
        elif source.startswith("@"):
            text, origin = Path(source[1:]).read_bytes(), source[1:]
        else:
            text, origin = source.encode("utf-8", "surrogateescape"), "the argument"
        value = codec.loads(text)
    except OSError as error:
        raise InvalidInput(f"{source[1:]} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InvalidInput(f"{origin} is no JSON ({error}); write an object such as '{{}}'.") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{origin} is no JSON object; write the arguments by name, such as '{{}}'.")
    return value
