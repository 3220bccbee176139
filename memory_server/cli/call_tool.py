"""Tools from a shell: `call` with JSON, and `recall` and `remember` for a companion that runs a command before each
answer and one after it."""

from __future__ import annotations

import secrets
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from languages import _
from memory_server.app import CallerView
from memory_server.cli.command_runner import Host
from memory_server.cli.terminal import (
    complain,
    console,
    escape,
    reading,
    say_if_waiting,
    standard_input,
    write,
)
from memory_server.config import Settings
from memory_server.conversations.model import MAX_ID_CHARS
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Session
from memory_server.lore import ROOM, no_room_text
from memory_server.runtime import ONE_QUESTION
from memory_server.tools import TOOLS, tool_named
from memory_server.tools.base.result import SHOWN_ZONE, Result
from memory_server.tools.base.tool import Answer, ToolFailed
from memory_server.tools.base.tool import call as call_tool
from memory_server.tools.turn import recall_turn, remember_turn
from sandbox import message_rows


async def call(app: CallerView, flags: Namespace) -> None:
    """Print the result of one tool call: its JSON, or with --text the block for people."""
    tool = tool_named(flags.tool)
    if not tool.only_reads:
        app.settings.refuse_change(tool.name)
    answer = await called(app, tool.name, arguments_of(flags.arguments))
    if flags.text:
        write(answer.text)
    else:
        write(answer.structured)


async def called(
    app: CallerView,
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
            TOOLS[tool],
            app.call.in_session(session),
            arguments,
            max_bytes=app.settings.results.max_bytes,
        )
    except ToolFailed as error:
        if not flags:
            raise
        message = str(error)
        for name, flag in flags.items():
            message = message.replace(f"`{name}`", f"`{flag}`")
        raise ToolFailed(message) from error


def print_result(app: CallerView, result: Result) -> None:
    """Print the text of a tool's result, with local times."""
    SHOWN_ZONE.set(app.settings.zone)
    console().print(escape(str(result)))


def arguments_of(source: str) -> dict[str, object]:
    """The arguments that a JSON object gives: `source` itself, the file `@FILE`, or with `-` standard input."""
    if source == "-":
        origin = _("standard input")
        text = sys.stdin.buffer.read()
    elif source.startswith("@"):
        origin = source[1:]
        with reading(origin):
            text = Path(origin).read_bytes()
    else:
        origin = _("the argument")
        text = source.encode("utf-8", "surrogateescape")
    try:
        value = json_text.loads(text)
    except ValueError as error:
        raise InvalidInput(
            "{origin} is not JSON ({reason}); write an object such as '{{}}'.", origin, error
        ) from error
    if not isinstance(value, dict):
        raise InvalidInput(
            "{origin} is not a JSON object; write the arguments by name, such as '{{}}'.", origin
        )
    return value


async def recall(settings: Settings, flags: Namespace, host: Host) -> None:
    arguments = messages_of(flags.words) | typed_for_recall(flags)
    async with host.view(settings, session=session_of(flags.session), lifetime=ONE_QUESTION) as app:
        answer = await called(app, recall_turn.name, arguments)
        result = answer.structured
        if not flags.json:
            result = answer.structured["prompt"]
        if result:
            write(result)
        tell_of_recall(answer.structured, flags)
        if not answer.structured["prompt"]:
            await _tell_of_others(app, answer.structured)


_MOST_NAMED = 5
"""Conversations that a sentence names."""


async def _tell_of_others(app: CallerView, answer: Mapping[str, Any]) -> None:
    """Say in which conversations the memories are, if the one that was searched has none, and others do."""
    here = app.conversation()
    searched = (answer.get("shortTerm") or {}).get("totalSearched")
    if searched or await here.long_term.memories():
        return
    others = [name for name in await app.conversations.ids() if name != here.id]
    if others:
        named = ", ".join(others[:_MOST_NAMED])
        complain(
            _(
                "The conversation {here} is empty; the memories are in {others}. Name one with -c.",
                here.id,
                named,
            )
        )


def typed_for_recall(flags: Namespace) -> dict[str, Any]:
    """The arguments of the tool that `recall` was typed with."""
    typed = {
        "maxChars": flags.chars,
        "flashbacks": flags.flashbacks,
        "otherWords": flags.other_words,
        "messageCount": flags.messages,
    }
    return {name: value for name, value in typed.items() if value is not None}


def tell_of_recall(answer: Mapping[str, Any], flags: Namespace) -> None:
    """Say beside the block what did not come for want of room, and the note: the block itself goes into a prompt."""
    sentences: list[str] = []
    if not flags.json:
        sentences.append(no_room_text(_without_room(answer)))
    sentences.append(str(answer.get("note") or ""))
    for sentence in filter(None, sentences):
        complain(sentence)


def _without_room(answer: Mapping[str, Any]) -> list[str]:
    """The names of those that were left out for want of room. An older server says nothing of them."""
    long_term = answer.get("longTerm")
    if not isinstance(long_term, dict):
        return []
    rows = long_term.get("leftOut")
    if not isinstance(rows, list):
        return []
    return [
        str(row.get("name")) for row in rows if isinstance(row, dict) and row.get("reason") == ROOM
    ]


async def remember(settings: Settings, flags: Namespace, host: Host) -> None:
    arguments = messages_of(flags.words)
    if flags.turn is not None:
        arguments["turn_id"] = flags.turn
    if flags.other_words is not None:
        arguments["otherWords"] = flags.other_words
    async with host.view(settings, session=session_of(flags.session)) as app:
        answer = await called(app, remember_turn.name, arguments)
    if flags.json:
        write(answer.structured)
    else:
        write(answer.text)


def session_of(typed_id: str | None) -> Session:
    """The session that was typed, or one of its own. Raises InvalidInput."""
    if typed_id is None:
        return Session(
            secrets.token_hex(8)
        )  # what a shell said is in nobody's context, and comes at once
    if not 0 < len(typed_id) <= MAX_ID_CHARS:
        raise InvalidInput(
            "--session takes an id of 1 to {id} characters; leave it out if there is no session.",
            MAX_ID_CHARS,
        )
    return Session(typed_id)


def messages_of(words: str | None) -> dict[str, Any]:
    """The arguments of the tool: a user's `words` as they are, or else JSON from standard input: messages, or an
    object with the arguments. `words` are never read as JSON: a chat may begin with a bracket."""
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
    if isinstance(value, dict) and ("messages" in value or message_rows(value) is value):
        return value
    return {"messages": message_rows(value)}
