"""Tools from a shell: `call` with JSON, and `recall` and `remember` for a companion that runs a command before each
answer and one after it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from memory_server.cli.terminal import print_plain
from memory_server.config import Settings
from memory_server.kernel.streams import complain, write
from memory_server.process.hosts import Host
from memory_server.process.typed_calls import (
    arguments_of,
    messages_of,
    session_of,
    tell_of_recall,
    typed_for_recall,
)
from memory_server.runtime.app import CallerView
from memory_server.runtime.runtime import ONE_QUESTION
from memory_server.tools import TOOLS, tool_named
from memory_server.tools.base.result import SHOWN_ZONE, Result
from memory_server.tools.base.tool import Answer, ToolFailed
from memory_server.tools.base.tool import call as call_tool
from memory_server.tools.turn import recall_turn, remember_turn


async def call(view: CallerView, flags: Namespace) -> None:
    """Call a tool and print its JSON, or with --text the block for people. Raises ReadOnly for a tool that may change
    something where nothing may be changed, InvalidInput, and ToolFailed."""
    tool = tool_named(flags.tool)
    if not tool.only_reads:
        view.settings.refuse_change(tool.name)
    answer = await called(view, tool.name, arguments_of(flags.arguments))
    if flags.text:
        write(answer.text)
    else:
        write(answer.structured)


async def called(
    view: CallerView,
    tool: str,
    arguments: Mapping[str, Any],
    flags: Mapping[str, str] | None = None,
    *,
    session: str | None = None,
) -> Answer:
    """Call the tool with this name in `session` and return its answer, whose text has local times. Raises ToolFailed
    if the tool failed; then nothing was changed. The error message names the `flags` in place of arguments."""
    SHOWN_ZONE.set(view.zone)
    try:
        return await call_tool(
            TOOLS[tool],
            view.call.in_session(session),
            arguments,
            max_bytes=view.settings.results.max_bytes,
        )

    except ToolFailed as error:
        if not flags:
            raise

        # The user typed flags and does not know the names of the tool's arguments.
        message = str(error)
        for name, flag in flags.items():
            message = message.replace(f"`{name}`", f"`{flag}`")
        raise ToolFailed(message) from error


def print_result(view: CallerView, result: Result) -> None:
    """Print the text of a tool's result, with local times."""
    SHOWN_ZONE.set(view.zone)
    print_plain(result)


async def recall(settings: Settings, flags: Namespace, host: Host) -> None:
    """Print what comes to mind for the typed messages, or with --json the result of the tool; print nothing if
    nothing comes. Notes go to standard error; they name other conversations with memories if the searched one is
    empty. Raises InvalidInput if the messages or the session cannot be read, and ToolFailed."""
    arguments = messages_of(flags.words) | typed_for_recall(flags)

    async with host.view(
        settings, session=session_of(flags.session), lifetime=ONE_QUESTION
    ) as view:
        answer = await called(view, recall_turn.name, arguments)
        result = answer.structured
        if not flags.json:
            result = answer.structured["prompt"]

        if result:
            write(result)
        tell_of_recall(answer.structured, flags)
        if not answer.structured["prompt"]:
            await _tell_of_others(view, answer.structured)


_MOST_NAMED = 5
"""Most conversations that a sentence names."""


async def _tell_of_others(view: CallerView, answer: Mapping[str, Any]) -> None:
    """Name the conversations that hold memories if the searched conversation is empty."""
    here = view.conversation()
    searched = (answer.get("shortTerm") or {}).get("totalSearched")
    if searched or await here.long_term.memories():
        return

    others = [name for name in await view.conversations.ids() if name != here.id]
    if others:
        named = ", ".join(others[:_MOST_NAMED])
        complain(
            "The conversation {here} is empty; the memories are in {others}. Name one with -c.",
            here.id,
            named,
        )


async def remember(settings: Settings, flags: Namespace, host: Host) -> None:
    """Store the typed messages, and print the text of the tool, or with --json its result. Raises InvalidInput if the
    messages cannot be read, and ToolFailed."""
    arguments = messages_of(flags.words)
    if flags.turn is not None:
        arguments["turn_id"] = flags.turn
    if flags.other_words is not None:
        arguments["otherWords"] = flags.other_words
    async with host.view(settings, session=session_of(flags.session)) as view:
        answer = await called(view, remember_turn.name, arguments)
    if flags.json:
        write(answer.structured)
    else:
        write(answer.text)
