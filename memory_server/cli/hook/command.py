"""`hook`: memory without a request of the model, as the hooks SessionStart (the last exchanges), UserPromptSubmit
(recall) and Stop (remember) of Claude Code and VS Code, or those of Cursor.

A hook must never block the user: the exit status is always 0 (2 would block the prompt), standard output is empty or
complete, and one line on standard error says what was wrong; where the memory cannot be used, the user is told once a
session (trouble.py). After `--seconds` it gives up and says so. This module does not import MCP, numpy or the tools,
because a user waits for it at every prompt.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from argparse import Namespace
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from languages import N_, _, in_this_language
from memory_server.app import CallerView
from memory_server.cli import linked
from memory_server.cli.command_runner import Host
from memory_server.cli.hook.claude_code import (
    CURSOR,
    HookContext,
    HookEvent,
    Turn,
    event_of,
    messages_before,
    messages_now,
    session_of,
    turn_ended,
)
from memory_server.cli.project_file import in_folder
from memory_server.cli.terminal import complain, standard_input, write
from memory_server.config import Settings
from memory_server.conversations.model import EVERYWHERE
from memory_server.conversations.recall.prompt_lines import language_of
from memory_server.kernel import files as folders
from memory_server.kernel import json_text
from memory_server.kernel.errors import MemoryPaused, MemoryServerError, NothingToKeep
from memory_server.kernel.failures import failure_text
from memory_server.kernel.messages import Message, Session
from memory_server.kernel.recalled_block import FRAME_CHARS
from memory_server.kernel.text import words_between_commas
from memory_server.knowledge.projects import NO_PROJECT, Project
from memory_server.lore import Room
from memory_server.memories.prompt_block import Reader, recalled_block
from memory_server.memories.recalls import Given
from memory_server.memories.turns import (
    BEGINNING_CHARS,
    beginning_block,
    keep_firings,
    noted_block,
    other_words_asked,
    recall_for_turn,
)
from memory_server.runtime import ONE_QUESTION, ONE_TURN, Lifetime
from memory_server.shared_process import entrance
from memory_server.storage.repositories import folder_of_work, is_foreign, project_at
from sandbox import HOOK_CHARS

CHARS = 800
"""Characters of recalled text at most; half of it after a Chinese prompt, where a character says as much as two
letters."""
LORE_CHARS = 2_500
"""Characters of memories with triggers beside it: each of them comes whole, and once in a session until its context is
cut."""
CONTEXT_BYTES = 1_000_000
"""Bytes at the end of a transcript that are read for the last few messages: this takes 1 ms."""
WINDOW_BYTES = 8_000_000
"""Bytes at the end of a transcript that hold a whole context: a million tokens are some 4 MB of text."""
BEGINNINGS = ("startup", "clear", "compact")
"""Ways in which a session begins with an almost empty context; `resume` and `fork` keep theirs."""
TRANSCRIPT_TRIES, TRANSCRIPT_SECONDS = 3, 0.1
"""How often, and after what time, a transcript is read again that has no prompt of this turn: a client may write it
after the event."""
TURN_BYTES = 32_000_000
"""Bytes at the end of a transcript that hold a whole turn, with the results of tools between prompt and answer."""


async def hook(settings: Settings, flags: Namespace, host: Host) -> None:
    patience = None
    if not host.lasts:  # the entrance of a command that shares a process gives up by itself
        patience = _Deadline(flags.seconds, entrance.waited)
    try:
        event = event_of(json_text.loads(standard_input()))
        if host.folder is not None:
            event = _seen_from(host.folder, event)
        programs = words_between_commas(settings.programs or "")
        context = await _context_of(event, programs)
    except (
        OSError,
        ValueError,
    ) as error:  # the client gave something that cannot be used: the memory is all right
        if patience is None or patience.end():
            complain(_("hook: {reason}", _reason(error)))
        return
    server: linked.LinkedServer | None = None
    output = ""
    try:
        settings = in_folder(settings, event.cwd)
        link = linked.link_of(settings) if context is not None else None
        if context is not None and link is not None:
            from memory_server.cli.hook import (
                linked_hook,
            )  # here: most machines have no link, and each hook waits

            server = linked.LinkedServer(link, settings, lasts=host.lasts, folder=event.cwd)
            output = _output(event, *await linked_hook.hook(server, context, flags))
        elif context is not None:
            block = await answer(
                settings, context, host, max_chars=flags.chars, flashbacks=flags.flashbacks
            )
            output = _output(event, block)
    except MemoryPaused as error:
        if patience is None or patience.end():
            complain(_("hook: {reason}", str(error)))
        return
    except Exception as error:
        if patience is None or patience.end():
            from memory_server.cli.hook.trouble import tell

            tell(event, _reason(error))
        return
    if (patience is None or patience.end()) and output:
        write(output)
        sys.stdout.flush()
    if server is not None:
        await server.end(linked.AFTER_HOOK_SECONDS)


def _reason(error: Exception) -> str:
    """What a person can act on; or what failed in this program, and where."""
    expected = isinstance(error, (MemoryServerError, ValueError, OSError)) and str(error)
    return expected or failure_text(error)


async def _context_of(event: HookEvent, programs: Collection[str]) -> HookContext | None:
    """None: nothing is to be done. `programs`: those that the settings name. Raises ValueError: no hook is needed for
    this event."""
    folder = None if event.cwd is None else folder_of_work(Path(event.cwd))
    match event.name:
        case "UserPromptSubmit":
            transcript = _end_of(event.transcript_path, WINDOW_BYTES)
            messages = messages_now(event, (transcript or b"")[-CONTEXT_BYTES:])
            if not messages or event.called in CURSOR:
                return None  # Cursor's hook cannot add to a prompt
            session = session_of(event, transcript, whole=len(transcript or b"") < WINDOW_BYTES)
            return HookContext(event, session, folder, messages, transcript=transcript or b"")
        case "Stop":
            transcript, turn = await _ended(event, programs)
            session = session_of(event, transcript, whole=len(transcript or b"") < TURN_BYTES)
            if turn is None or not turn.messages:
                return None
            return HookContext(event, session, folder, turn=turn)
        case "SessionStart":
            if event.source not in BEGINNINGS:
                return None  # a continued session has its context
            return HookContext(event, session_of(event, None), folder)
    raise ValueError(
        _(
            "{called} needs no hook; install this one for SessionStart, UserPromptSubmit and Stop only",
            event.called,
        )
    )


async def _ended(event: HookEvent, programs: Collection[str]) -> tuple[bytes | None, Turn | None]:
    """The transcript, and the turn that ended."""
    tries_left = 0
    if event.last_assistant_message is not None and event.transcript_path is not None:
        tries_left = TRANSCRIPT_TRIES
    while True:
        transcript = _end_of(event.transcript_path, TURN_BYTES)
        turn = await asyncio.to_thread(turn_ended, event, transcript or b"", programs)
        if turn is not None or not tries_left:
            break
        tries_left -= 1
        await asyncio.sleep(TRANSCRIPT_SECONDS)
    if transcript is None and event.transcript_path is not None:
        complain(
            _("hook: {path} does not exist, so this turn was not stored", event.transcript_path)
        )
    if turn is not None and turn.is_shortened:
        complain(
            _(
                "hook: a message of this turn is too long to be stored whole, so its middle is left out"
            )
        )
    return transcript, turn


async def answer(
    settings: Settings, context: HookContext, host: Host, *, max_chars: int | None, flashbacks: int
) -> str:
    """The text for the model; "": there is none. Raises MemoryServerError."""
    match context.event.name:
        case "UserPromptSubmit":
            return await _recalled(
                settings.with_flashbacks(flashbacks).unasked(), context, host, max_chars=max_chars
            )
        case "Stop":
            await remembered(settings, context, host)
            return ""
    return await _begun(settings, context, host, max_chars=max_chars)


async def _recalled(
    settings: Settings, context: HookContext, host: Host, *, max_chars: int | None
) -> str:
    messages = context.messages
    if max_chars is None:
        max_chars = CHARS
        if language_of([messages[-1].content]) != "en":
            max_chars = CHARS // 2
    async with _opened(settings, context.session, host, ONE_QUESTION) as app:
        # A search that nobody asked for must not reinforce what it finds: it would find that more and more often.
        here = app.conversation()
        # Triggers may look further back than a search does; most homes have none that do.
        wanted = await here.long_term.messages_of_a_hook()
        earlier: tuple[Message, ...] = ()
        if wanted > len(messages) and context.transcript:
            earlier = messages_before(
                context.event, context.transcript, most=wanted, most_chars=HOOK_CHARS
            )
        given_lines = app.home.given_lines.to(context.session)
        recollection = await recall_for_turn(
            here,
            messages,
            earlier=earlier,
            folder=context.folder,
            flashbacks=settings.short_term.flashback_count,
            reinforce=False,
            lore_room=LORE_CHARS,
            given=given_lines,
            by="hook",
        )
        lines_before = frozenset(given_lines)
        search = recollection.found
        activation = recollection.activation
        reader = Reader(given_lines, context.folder)
        block = await asyncio.to_thread(
            recalled_block, app.memories, search, activation, _room(max_chars), reader
        )
        recollection = await keep_firings(here, recollection, block)
        noted, items = await noted_block(app.memories, messages, _project_of(app, context))
    if recollection.trouble:
        complain(_("hook: {reason}", recollection.trouble))
    text = "\n".join(filter(None, (block.text, noted)))
    answer = Given(
        here.id,
        messages,
        text,
        search.recall,
        activation,
        others=items,
        fitting=block.fitting,
        without_room=block.without_room,
    )
    _note(app, context, answer)
    return _claimed(app, context, text, given_lines - lines_before)


def _room(max_chars: int) -> Room:
    """The room of a block with so many characters of what was said, and beside it whole memories with triggers."""
    short_term_chars = max(0, max_chars - FRAME_CHARS)
    return Room(
        total=short_term_chars + LORE_CHARS,
        long_term=LORE_CHARS,
        ignoring_budget=0,
        short_term=short_term_chars,
    )


def _project_of(app: CallerView, context: HookContext) -> Project | None:
    """The project that the event is of; None: that of the settings, or of the folder of this process."""
    if (
        context.project is not None
        or context.event.cwd is None
        or app.settings.knowledge.project is not None
    ):
        return context.project
    here = project_at(Path(context.event.cwd), on_several_machines=app.home.on_several_machines)
    return here or Project(NO_PROJECT)


def _note(app: CallerView, context: HookContext, given: Given) -> None:
    event = context.event
    asker = {"by": N_("hook"), "client": event.client, "cwd": event.cwd, "turn": event.prompt_id}
    replace(app.call, asker=asker, folder=context.folder).note(given)


async def _begun(
    settings: Settings, context: HookContext, host: Host, *, max_chars: int | None
) -> str:
    event, session = context.event, context.session
    async with _opened(settings, session, host, ONE_QUESTION) as app:
        with_last, here = event.source != "compact", app.conversation()
        room = min(max_chars or CHARS, BEGINNING_CHARS)
        asked = (
            await other_words_asked(app.memories, here, room // 2)
            if _offers_recall(settings)
            else ""
        )
        given_keys: set[str] = set()
        block, shown = await beginning_block(
            app.memories,
            here,
            session=session,
            with_last=with_last,
            max_chars=room - len(asked) - 1 if asked else room,
            given=given_keys,
            here=context.folder,
        )
    if block:
        _note(app, context, Given(here.id, (), block, others=shown))
    text = "\n".join(filter(None, (block, asked)))
    return _claimed(app, context, text, given_keys, afresh=event.source == "compact")


def _offers_recall(settings: Settings) -> bool:
    """Whether the settings offer the tool `recall_turn` to a client. The tools themselves take too long to import."""
    if settings.toolsets is None:
        has_toolset = not settings.tools
    else:
        has_toolset = any(map(settings.names_toolset, ("default", "turn", "all")))
    single_tools = words_between_commas(settings.tools or "")
    excluded_tools = words_between_commas(settings.exclude_tools or "")
    return (has_toolset or "recall_turn" in single_tools) and "recall_turn" not in excluded_tools


def _claimed(
    app: CallerView,
    context: HookContext,
    block: str,
    given_keys: Collection[str],
    *,
    afresh: bool = False,
) -> str:
    """The `block`; empty if another hook has just given it. Nothing is awaited from here to the answer: a hook that is
    taken back has claimed nothing, and has given no lines."""
    # Without a session or a turn, as in a test by hand, an equal event may be a new one.
    event = context.event
    turn = event.prompt_id or event.source
    claimed = f"{event.name} {event.session_id} {turn}"
    if not app.settings.read_only:
        if block and turn and not app.home.answered_events.claim(claimed, app.clock()):
            return ""
        app.home.given_lines.note(context.session, given_keys, app.clock(), afresh=afresh)
    return block


def _output(event: HookEvent, block: str, message: str = "") -> str:
    """The output for the client: `block` as context, and a `message` for the user; empty if both are."""
    output: dict[str, Any] = {}
    if event.called in CURSOR:
        if block:
            output["additional_context"] = block
    else:
        if block:
            output["hookSpecificOutput"] = {"hookEventName": event.name, "additionalContext": block}
        if message:
            output["systemMessage"] = message
    if not output:
        return ""
    return json_text.dumps(output).decode()


async def remembered(settings: Settings, context: HookContext, host: Host) -> str | None:
    """Store a turn; why nothing of it is kept, or None: it is stored. Raises MemoryServerError: it is not."""
    event, turn = context.event, context.turn
    if turn is None:
        return _("There is no turn with text, so nothing was stored.")
    if settings.read_only:
        return _("`read_only` is set, so nothing was stored.")
    async with _opened(settings, context.session, host, ONE_TURN) as app:
        short_term = app.conversation().short_term
        if turn.corrections:
            await app.conversation().correct(turn.corrections, by="hook")
        if turn.forgot:  # nor is what was asked for it
            asked = {"session": event.session_id, "turn": event.prompt_id}
            if event.prompt_id is not None:
                app.home.recalls.rewrite(
                    lambda line: None if asked.items() <= line.items() else line
                )
            return _("In this turn something was forgotten, so nothing of it is kept.")
        try:
            stored = await short_term.add(
                turn.messages,
                turn=turn.id,
                folder=context.folder,
                muted=(EVERYWHERE,) if turn.program else (),
                by="hook",
            )
        except NothingToKeep as error:
            return str(error)
        if stored.change_id is not None and turn.messages[-1].role == "assistant":
            # Search again for what the prompt brought: if it were stored between the two events, it could be lost.
            credited = await short_term.credit(
                turn.asked, turn.messages[-1], became=stored.memory.id, by="hook"
            )
            used = [scored.memory.id for scored in (*credited.recall.top, *credited.recall.next)]
            about = {"session": event.session_id, "turn": event.prompt_id, "used": used}
            app.recalls.note(
                lambda at: {"at": at, "conversation": short_term.conversation_id} | about
            )
    return None


@asynccontextmanager
async def _opened(
    settings: Settings, session: Session | None, host: Host, lifetime: Lifetime
) -> AsyncIterator[CallerView]:
    """The memories for a hook. Raises MemoryPaused."""
    async with host.view(settings, session=session, lifetime=lifetime) as app:
        pause = app.paused()
        if pause is not None:
            raise MemoryPaused(
                "nothing is recalled or remembered: {zone}", pause.text(settings.zone)
            )
        yield app


def _seen_from(folder: Path, event: HookEvent) -> HookEvent:
    """The event with absolute paths: the working directory of the shared process is not that of the hook."""
    path = event.transcript_path
    transcript = None if path is None else str(folder / Path(path).expanduser())
    cwd = Path(event.cwd or "")
    if not is_foreign(cwd):
        cwd = folder / cwd
    return replace(event, cwd=str(cwd), transcript_path=transcript)


def _end_of(path: str | None, size: int) -> bytes | None:
    """The last `size` bytes of the transcript; None if there is none yet."""
    if path is None:
        return None
    try:
        with folders.open_file(Path(path).expanduser(), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read(size)
    except FileNotFoundError:
        return None


class _Deadline:
    """Ends the process after `seconds`, of which `waited` are over, unless `end` is called first."""

    def __init__(self, seconds: float, waited: float) -> None:
        self._over = threading.Lock()
        """The first of the two takes it: the work, or the timer."""
        self._timer = threading.Timer(
            max(0.0, seconds - waited), in_this_language(self._give_up), [seconds]
        )
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> bool:
        """Stop the timer; False if it has just given up."""
        self._timer.cancel()
        return self._over.acquire(blocking=False)

    def _give_up(self, seconds: float) -> None:
        if self._over.acquire(blocking=False):
            complain(
                _("hook: gave up after {seconds:g} s; --seconds allows a longer time", seconds)
            )
            # Not sys.exit, which waits for threads, and one may hang. The journal survives this at any moment.
            os._exit(0)
