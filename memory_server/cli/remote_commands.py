"""The commands and hooks of linked machines, which a server runs for them: what `linked.py` asks for.

They are run as the shared process runs those of its own machine, on the memories of the token, and with nothing of this
machine: no other folder, settings or file can be named.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memory_server.app import App, Shared
from memory_server.cli.families import USUAL_STEPS
from memory_server.cli.hook.claude_code import HookContext, HookEvent, Turn
from memory_server.cli.hook.command import answer, remembered
from memory_server.cli.parser import PACKAGE, function_of, parsed, refuse_where_read_only
from memory_server.cli.terminal import ASKER, complain
from memory_server.command_table import COMMANDS, SETTING_FLAGS
from memory_server.config import Settings
from memory_server.kernel.captured_io import CAPTURED_IO, CapturedIO
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, ReadOnly
from memory_server.kernel.link import MOST_FOLDER_CHARS
from memory_server.kernel.messages import Session
from memory_server.kernel.readers import AT_A_SHELL
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.text import shown
from memory_server.knowledge.projects import Project
from memory_server.serving.http.principals import Principal
from memory_server.tools.base.shapes import Messages, Text
from sandbox.locale import spoken_here, term, translated

Name = Annotated[Text, Field(max_length=1_000)]
_MOST_ROWS = 1_000
"""Of an answer: other tenants wait while it is made."""


_MOST_STEPS = 20_000
"""Steps of all changes of an answer together, where the caller does not say how many of one change."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    folder: Annotated[Text, Field(max_length=MOST_FOLDER_CHARS)] | None = None
    language: Literal["en", "zh"] = "en"


class CommandBody(_Body):
    """A command line without the settings of its machine, and what it reads. `terminal`: as in `CapturedIO`."""

    arguments: Annotated[list[Name], Field(max_length=200)]
    input: str = ""
    terminal: Annotated[dict[Name, Name], Field(max_length=20)] = {}


class HookBody(_Body):
    """What a hook was given, without the files of its machine. `asked`: what a turn was recalled by."""

    event: Literal["SessionStart", "UserPromptSubmit", "Stop"]
    session: Name | None = None
    context_since: int | None = None
    prompt_id: Name | None = None
    source: Name | None = None
    client: Name | None = None
    messages: Messages | None = None
    asked: Messages | None = None
    turn: Name | None = None
    forgot: bool = False
    chars: Annotated[int, Field(ge=1, le=50_000)] | None = None
    flashbacks: Annotated[int, Field(ge=0, le=100)] = 0


async def run(app: App, name: str, given: Mapping[str, Any], caller: Principal) -> dict[str, Any]:
    """What a command or hook says to `caller`, for `app`, which has its memories. Raises ValidationError,
    MemoryServerError."""
    command = COMMANDS.get(name)
    if command is None or not command.run_for_others:
        raise MemoryNotFound("The command {name} is not one that a server runs for other machines.", name)
    settings = app.settings
    if caller.usual is not None:
        settings = settings.model_copy(update={"conversation": caller.usual})
    project = None if caller.project is None else Project(caller.project)
    form: type[_Body] = HookBody if name == "hook" else CommandBody
    body = form.model_validate(dict(given))
    given_input, terminal = getattr(body, "input", "").encode(), getattr(body, "terminal", {})
    streams = CapturedIO(terminal=terminal, input=given_input, waiting=[])
    captured = CAPTURED_IO.set(streams)
    language = spoken_here.set((body.language, PACKAGE))
    reader = AT_A_SHELL.set(True)
    try:
        result: dict[str, Any]
        if isinstance(body, HookBody):
            result = await _hook(app, settings, body, project)
        else:
            assert isinstance(body, CommandBody)
            result = {"status": await _command(app, name, settings, body)}
        # In the caller's own share of the threads, because all other callers wait for the event loop.
        await asyncio.to_thread(streams.write_all)
    finally:
        AT_A_SHELL.reset(reader)
        spoken_here.reset(language)
        CAPTURED_IO.reset(captured)
    return result | {"output": streams.output.decode(), "errors": streams.errors.decode()}


async def _hook(app: App, settings: Settings, body: HookBody, project: Project | None) -> dict[str, Any]:
    """What a hook says, as `text`; of a turn also whether it is `stored`, or as `note` why it is not. A machine removes
    a turn from its outbox only for this answer (cli/delivery.py). Raises MemoryServerError."""
    context, shared = replace(_context_of(body), project=project), Shared(app, Path("/"))
    if body.event != "Stop":
        return {"text": await answer(settings, context, body.chars, body.flashbacks, shared)}
    if settings.read_only:
        raise ReadOnly("The server stores no turn for this token, because the token only reads, or the server does.")
    note = await remembered(settings, context, shared)
    return {"text": "", "stored": note is None, "note": None if note is None else translated(note)}


def _context_of(body: HookBody) -> HookContext:
    session = None if body.session is None else Session(body.session, body.context_since)
    event = HookEvent(body.event, body.session, None, None, body.prompt_id, None, body.folder, body.source, body.client)
    messages = body.messages or ()
    if body.event == "UserPromptSubmit" and not messages:
        raise InvalidInput("A prompt needs its messages.")
    turn = None
    if body.event == "Stop" and body.turn and (messages or body.forgot):
        turn = Turn(body.turn, messages, body.asked or (), body.forgot)
    return HookContext(event, session, body.folder, messages, turn)


async def _command(app: App, name: str, settings: Settings, body: CommandBody) -> int:
    flags = _flags(body.arguments)
    if flags.command.name != name:
        raise InvalidInput("The arguments are not those of the command {name}.", name)
    refuse_where_read_only(settings, flags)
    if name in ("import", "undo"):
        app.memories.services.refuse_where_full()
    rows = max(getattr(flags, "limit", None) or 0, getattr(flags, "n", 0), getattr(flags, "steps", None) or 0)
    if rows > _MOST_ROWS:
        raise InvalidInput("A server shows at most {rows:,} rows to another machine; ask for fewer.", _MOST_ROWS)
    if hasattr(flags, "steps") and flags.steps is None:
        flags.steps = max(1, _MOST_STEPS // max(_MOST_STEPS // USUAL_STEPS, flags.limit or 0))
    if name == "import" and flags.source != ["-"]:
        raise InvalidInput("A server imports what is sent to it, and no file of its own.")
    if name == "forget" and (flags.for_good or flags.in_backups):
        raise InvalidInput("Erasing for good is done on the server: it searches the whole data folder for the text.")
    if getattr(flags, "timezone", None) is not None:
        settings = type(settings).model_validate(settings.model_dump() | {"timezone": flags.timezone})
    if hasattr(flags, "conversation"):
        settings = settings.model_copy(update={"conversation": flags.conversation})
    async with App(settings, shared=Shared(app, Path("/")), asker=ASKER) as mine:
        mine.call = replace(mine.call, asker={**mine.call.asker, "cwd": body.folder}, folder=body.folder)
        return await function_of(flags.command)(mine, flags) or 0


def _flags(arguments: list[str]) -> Namespace:
    """Raises InvalidInput: they cannot be understood, or are about this machine."""
    try:
        with redirect_stderr(StringIO()) as printed, redirect_stdout(StringIO()):  # --help goes to the server's own
            flags = parsed(arguments)
    except SystemExit as error:
        # argparse prints the usage first, which is that of this machine's command.
        reason = printed.getvalue().rpartition(f": {term('error')}: ")[2] or " ".join(arguments)
        raise InvalidInput("The arguments cannot be used: {reason}.", shown(one_line(reason)).rstrip(".")) from error
    if any(hasattr(flags, flag.setting) for flag in SETTING_FLAGS.values() if flag.linked == "refused"):
        raise InvalidInput("A linked machine cannot name folders and settings of the server.")
    if printed.getvalue():
        complain(printed.getvalue().strip())
    return flags
