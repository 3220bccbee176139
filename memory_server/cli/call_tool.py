"""Tools from a shell: `call` with JSON, and `recall` and `remember` for a companion that runs a command before each
answer and one after it."""

from __future__ import annotations

import secrets
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_server.app import App, Shared
from memory_server.cli.terminal import ASKER, complain, console, escape, reading, say_if_waiting, standard_input, write
from memory_server.config import Settings
from memory_server.conversations.model import MAX_ID_CHARS
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Session
from memory_server.tools import TOOLS, tool_named
from memory_server.tools.base.result import SHOWN_ZONE, Result
from memory_server.tools.base.tool import Answer, ToolFailed
from memory_server.tools.base.tool import call as call_tool
from memory_server.tools.turn import recall_turn, remember_turn
from sandbox.locale import _, translated


async def call(app: App, flags: Namespace) -> None:
    """Print the result of one tool call: its JSON, or with --text the block for people."""
    tool = tool_named(flags.tool)
    if not tool.only_reads:
        app.settings.refuse_change(tool.name)
    answer = await called(app, tool.name, arguments_of(flags.arguments))
    write(translated(answer.text) if flags.text else answer.structured)


async def called(
    app: App,
    tool: str,
    arguments: Mapping[str, Any],
    flags: Mapping[str, str] | None = None,
    *,
    session: str | None = None,
) -> Answer:
    """The answer of the tool with this name, asked in `session`; its text has local times. Raises ToolFailed if it
    failed; nothing was changed. The message names `flags` in place of arguments."""
    SHOWN_ZONE.set(app.settings.zone)
    try:
        return await call_tool(
            TOOLS[tool], app.call.in_session(session), arguments, max_bytes=app.settings.results.max_bytes
        )
    except ToolFailed as error:
        message = translated(str(error))
        for name, flag in (flags or {}).items():
            message = message.replace(f"`{name}`", f"`{flag}`")
        raise ToolFailed(message) from error


def print_result(app: App, result: Result) -> None:
    """Print the text of a tool's result, with local times."""
    SHOWN_ZONE.set(app.settings.zone)
    console().print(escape(str(result)))


def arguments_of(source: str) -> dict[str, object]:
    if source == "-":
        text, origin = sys.stdin.buffer.read(), _("standard input")
    elif source.startswith("@"):
        origin = source[1:]
        with reading(origin):
            text = Path(origin).read_bytes()
    else:
        text, origin = source.encode("utf-8", "surrogateescape"), _("the argument")
    try:
        value = json_text.loads(text)
    except ValueError as error:
        raise InvalidInput("{origin} is not JSON ({reason}); write an object such as '{{}}'.", origin, error) from error
    if not isinstance(value, dict):
        raise InvalidInput("{origin} is not a JSON object; write the arguments by name, such as '{{}}'.", origin)
    return value


async def recall(settings: Settings, flags: Namespace, shared: Shared | None = None) -> None:
    given = {"maxChars": flags.chars, "flashbacks": flags.flashbacks, "otherWords": flags.other_words}
    arguments = messages_of(flags.words) | {name: value for name, value in given.items() if value is not None}
    async with App(settings, brief=True, session=session_of(flags.session), shared=shared, asker=ASKER) as app:
        answer = await called(app, recall_turn.name, arguments)
        if shown := answer.structured if flags.json else answer.structured["prompt"]:
            write(shown)
        if note := answer.structured.get("note"):
            complain(note)


async def remember(settings: Settings, flags: Namespace, shared: Shared | None = None) -> None:
    given = {"turn_id": flags.turn, "otherWords": flags.other_words}
    arguments = messages_of(flags.words) | {name: value for name, value in given.items() if value is not None}
    async with App(settings, session=session_of(flags.session), shared=shared, asker=ASKER) as app:
        answer = await called(app, remember_turn.name, arguments)
    write(answer.structured if flags.json else translated(answer.text))


def session_of(given: str | None) -> Session:
    """The session that was typed, or one of its own. Raises InvalidInput."""
    if given is None:
        return Session(secrets.token_hex(8))  # what a shell said is in nobody's context, and comes at once
    if not 0 < len(given) <= MAX_ID_CHARS:
        raise InvalidInput(
            "--session takes an id of 1 to {id} characters; leave it out if there is no session.", MAX_ID_CHARS
        )
    return Session(given)


def messages_of(words: str | None) -> dict[str, Any]:
    """The arguments of the tool: a user's `words` as they are, or else JSON from standard input: a list of messages, or
    an object with the arguments. `words` are never read as JSON: a chat may begin with a bracket."""
    if words is not None:
        return {"messages": [{"role": "user", "content": words}]}
    say_if_waiting(_("messages as JSON"))
    try:
        value = json_text.loads(standard_input().removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise InvalidInput(
            'Standard input is not JSON ({reason}); write a list of messages such as [{{"role": "user", '
            '"content": "你好"}}], or give a user\'s words as an argument.',
            error,
        ) from error
    if not isinstance(value, (list, dict)):
        raise InvalidInput(
            "Standard input is neither a list of messages nor an object; see docs/how-to/memory-unasked.md."
        )
    return {"messages": value} if isinstance(value, list) else value
