"""The commands and hooks of linked machines, which a server runs for them: what `linked.py` asks for.

They run as in the shared process of an own machine, on the memories of the token, and with nothing of this machine: no
other folder, settings or file can be named.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from typing import Annotated, Any, Literal

from pydantic import Field

from languages import _, speaking
from memory_server.command_table import COMMANDS, SETTING_FLAGS
from memory_server.config import Settings
from memory_server.conversations.earlier_turns import Corrections, TakenBackTurn
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, ReadOnly
from memory_server.kernel.lifecycle import USUAL_STEPS
from memory_server.kernel.link import MOST_FOLDER_CHARS
from memory_server.kernel.messages import MAX_CONTENT_CHARS, Session
from memory_server.kernel.readers import AT_A_SHELL
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.streams import CAPTURED_IO, CapturedIO, complain
from memory_server.kernel.text import shown
from memory_server.kernel.work import (
    COMMAND_CHARS,
    MOST_ERROR_WORDS,
    MOST_FAILED,
    MOST_TOUCHED,
    Failure,
    ToolCall,
    Work,
)
from memory_server.knowledge.projects import Project
from memory_server.memories.hooks import TOOL_EVENTS, HookContext, HookEvent, ToolUse, Turn
from memory_server.memories.point_of_action import Act
from memory_server.process.command_runner import refuse_where_read_only, run_command
from memory_server.process.hooks import answer, remembered
from memory_server.process.hosts import Parse, ServerForOthers, settings_of
from memory_server.runtime.app import App
from memory_server.serving.http.principals import Principal
from memory_server.tools.base.shapes import Arguments, Messages, Text

Name = Annotated[Text, Field(max_length=1_000)]
_MOST_ROWS = 1_000
"""Most rows of an answer: other tenants wait while it is made."""
_MOST_STEPS = 20_000
"""Steps of all changes of an answer together, if the caller does not say how many steps of a change."""


class _Body(Arguments):
    folder: Annotated[Text, Field(max_length=MOST_FOLDER_CHARS)] | None = None
    language: Literal["en", "zh"] = "en"


class CommandBody(_Body):
    """A command line without the settings of its machine, and what it reads. `terminal` is as in `CapturedIO`."""

    arguments: Annotated[list[Name], Field(max_length=200)]
    input: str = ""
    terminal: Annotated[dict[Name, Name], Field(max_length=20)] = {}


class TakenBackBody(Arguments):
    """A turn that the user took back in the client: what the user said last in it, and the answer."""

    asked: Annotated[Text, Field(max_length=MAX_CONTENT_CHARS)]
    answer: Annotated[Text, Field(max_length=MAX_CONTENT_CHARS)] = ""


class FailedBody(Arguments):
    """A command that failed."""

    command: Annotated[Text, Field(max_length=1_000)]
    status: int | None = None
    words: Annotated[list[Name], Field(max_length=MOST_ERROR_WORDS)] = []

    @property
    def failure(self) -> Failure:
        return Failure(self.command, self.status, tuple(self.words))


Failed = Annotated[list[FailedBody], Field(max_length=MOST_FAILED)]


class ActBody(Arguments):
    """What is done with a tool: as in `Act`."""

    files: Annotated[list[Name], Field(max_length=20)] = []
    defined: Annotated[list[Name], Field(max_length=100)] = []
    command: str = Field("", max_length=2 * COMMAND_CHARS)
    about: str = Field("", max_length=10_000)
    failed: Failed = []

    @property
    def act(self) -> Act:
        failure = self.failed[0].failure if self.failed else None
        return Act(tuple(self.files), tuple(self.defined), self.command, failure, about=self.about)


class HookBody(_Body):
    """What a hook was given, without the files of its machine. `asked` are the messages that a turn was recalled by.
    `said_by` and `taken_back` are as in `Corrections`, `touched` and `failed` as in `Work`."""

    event: Literal[
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
    ]
    session: Name | None = None
    context_since: int | None = None
    prompt_id: Name | None = None
    source: Name | None = None
    client: Name | None = None
    messages: Messages | None = None
    asked: Messages | None = None
    turn: Name | None = None
    forgot: bool = False
    program: Name | None = None
    said_by: Name | None = None
    taken_back: Annotated[list[TakenBackBody], Field(max_length=1_000)] = []
    chars: Annotated[int, Field(ge=1, le=50_000)] | None = None
    flashbacks: Annotated[int, Field(ge=0, le=100)] = 0
    touched: Annotated[list[Name], Field(max_length=MOST_TOUCHED)] = []
    failed: Failed = []
    act: ActBody | None = None
    calls_since: int | None = None
    use: Name | None = None


async def run(
    app: App, parse: Parse, name: str, fields: Mapping[str, Any], caller: Principal
) -> dict[str, Any]:
    """Return what a command or hook says to `caller`, for `app`, which has its memories. `fields` come from the body,
    and `parse` parses its command line. Raise ValidationError if the body has another form, and MemoryServerError."""
    command = COMMANDS.get(name)
    if command is None or not command.run_for_others:
        raise MemoryNotFound(
            "The command {name} is not one that a server runs for other machines.", name
        )

    settings = settings_of(app, caller)
    host: ServerForOthers

    if name == "hook":
        hook_body = HookBody.model_validate(dict(fields))
        host = ServerForOthers(app, hook_body.folder)
        work = partial(_hook, settings, hook_body, caller.project, host)
        return await _captured(work, CapturedIO(waiting=[]), hook_body.language)

    body = CommandBody.model_validate(dict(fields))
    host = ServerForOthers(app, body.folder)
    streams = CapturedIO(body.input.encode(), terminal=body.terminal, waiting=[])
    return await _captured(
        partial(_command, parse, name, settings, body, host), streams, body.language
    )


async def _captured(
    work: Callable[[], Awaitable[dict[str, Any]]], streams: CapturedIO, language: str
) -> dict[str, Any]:
    """Return the result of `work`, and what it printed into `streams` for a reader at a shell in `language`, as
    "output" and "errors"."""
    streams_token = CAPTURED_IO.set(streams)
    shell_token = AT_A_SHELL.set(True)
    try:
        with speaking(language):
            result = await work()
        # In a thread: laying out many rows takes seconds, and all other callers wait for the event loop.
        await asyncio.to_thread(streams.write_all)
    finally:
        AT_A_SHELL.reset(shell_token)
        CAPTURED_IO.reset(streams_token)
    return {**result, "output": streams.output.decode(), "errors": streams.errors.decode()}


async def _hook(
    settings: Settings, body: HookBody, project: Project | None, host: ServerForOthers
) -> dict[str, Any]:
    """Return what a hook says, as `text`; for a turn also whether it is `stored`, or as `note` why it is not. A machine
    removes a turn from its outbox only for this answer (operations/delivery.py). Raise MemoryServerError."""
    context = replace(_context_of(body), project=project)
    if body.event != "Stop":
        text = await answer(
            settings, context, host, max_chars=body.chars, flashbacks=body.flashbacks
        )
        return {"text": text}
    if settings.read_only:
        raise ReadOnly(
            "The server does not store turns for this token, because the token or the server is read-only."
        )
    note = await remembered(settings, context, host)
    return {"text": "", "stored": note is None, "note": note}


def _context_of(body: HookBody) -> HookContext:
    """Make the context of a hook from what a linked machine sent. Raises InvalidInput if a prompt
    has no messages, or an event of a tool does not say what is done."""
    session = None if body.session is None else Session(body.session, body.context_since)

    event = HookEvent(
        body.event,
        body.session,
        None,
        None,
        body.prompt_id,
        None,
        body.folder,
        body.source,
        body.client,
    )

    messages = body.messages or ()
    if body.event == "UserPromptSubmit" and not messages:
        raise InvalidInput("A prompt needs its messages.")

    if body.event in TOOL_EVENTS and body.act is None:
        raise InvalidInput("An event of a tool needs `act`, which says what is done.")

    turn = None
    if body.event == "Stop" and body.turn and (messages or body.forgot):
        taken_back = frozenset(
            TakenBackTurn(body.session or "", said.asked, said.answer) for said in body.taken_back
        )
        turn = Turn(
            body.turn,
            messages,
            body.asked or (),
            body.forgot,
            corrections=Corrections(taken_back, body.session or "", body.said_by or ""),
            program=body.program or "",
            work=Work(tuple(body.touched), tuple(row.failure for row in body.failed)),
        )

    context = HookContext(event, session, body.folder, messages, turn)
    if body.act is None:
        return context
    act = body.act.act
    use = ToolUse(body.use, "", ToolCall(), failure=act.failure)
    event = replace(event, use=use)
    return replace(context, event=event, act=act, calls_since=body.calls_since)


async def _command(
    parse: Parse, name: str, settings: Settings, body: CommandBody, host: ServerForOthers
) -> dict[str, Any]:
    """Run a command and return its exit status. Raise MemoryServerError, such as InvalidInput if
    the arguments are not those of the command, or ask for what is done elsewhere."""
    flags = _flags(parse, body.arguments)
    if flags.command.name != name:
        raise InvalidInput("The arguments are not those of the command {name}.", name)
    refuse_where_read_only(settings, flags)
    if name in ("import", "undo"):
        host.app.memories.services.refuse_where_full()
    _bound_rows(flags)
    _refuse_what_is_done_elsewhere(flags)
    if getattr(flags, "timezone", None) is not None:
        settings = type(settings).model_validate(
            settings.model_dump() | {"timezone": flags.timezone}
        )
    if hasattr(flags, "conversation"):
        settings = settings.model_copy(update={"conversation": flags.conversation})
    return {"status": await run_command(settings, flags, host)}


def _refuse_what_is_done_elsewhere(flags: Namespace) -> None:
    """Raise InvalidInput if the command needs a file of this machine, or all of its memories."""
    if flags.command.name == "import" and flags.source != ["-"]:
        raise InvalidInput(
            "A server imports only the content that is sent to it, not its own files."
        )
    if flags.command.name == "forget" and (flags.for_good or flags.in_backups):
        raise InvalidInput(
            "Erasing for good works only on the server, because it searches the whole data folder for the text."
        )


def _bound_rows(flags: Namespace) -> None:
    """Let the answer have at most `_MOST_ROWS` rows, and if no number of steps is named, about `_MOST_STEPS` of all
    changes. Raise InvalidInput if more rows are asked for."""
    limit = getattr(flags, "limit", None) or 0
    messages = getattr(flags, "n", 0)
    steps = getattr(flags, "steps", None) or 0
    if max(limit, messages, steps) > _MOST_ROWS:
        raise InvalidInput(
            "A server shows at most {rows:,} rows to another machine; ask for fewer.", _MOST_ROWS
        )
    if hasattr(flags, "steps") and flags.steps is None:
        usual_rows = _MOST_STEPS // USUAL_STEPS
        flags.steps = max(1, _MOST_STEPS // max(usual_rows, limit))


def _flags(parse: Parse, arguments: list[str]) -> Namespace:
    """Parse a command line, and pass on the warnings of that. Raise InvalidInput if it cannot be understood, or names a
    folder or setting of this machine."""
    # The output of --help is not for the server's own streams.
    try:
        with (
            redirect_stderr(StringIO()) as printed,
            redirect_stdout(StringIO()),
        ):
            flags = parse(arguments)
    except SystemExit as error:
        # argparse prints the usage first, which is about this machine's command.
        reason = printed.getvalue().rpartition(f": {_('error')}: ")[2] or " ".join(arguments)
        raise InvalidInput(
            "The arguments cannot be used: {reason}.", shown(one_line(reason)).rstrip(".")
        ) from error

    if any(
        hasattr(flags, flag.setting)
        for flag in SETTING_FLAGS.values()
        if flag.on_linked_machine == "refused"
    ):
        raise InvalidInput("A linked machine cannot name folders and settings of the server.")

    if printed.getvalue():
        complain(printed.getvalue().strip())
    return flags
