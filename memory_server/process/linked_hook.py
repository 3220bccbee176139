"""What a hook does on a machine that is linked to a server: it asks the server, or keeps a turn for it."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from languages import _, spoken
from memory_server.kernel.errors import RemoteError
from memory_server.kernel.messages import Message
from memory_server.kernel.private import to_keep
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.streams import complain, from_afar
from memory_server.kernel.work import work_json
from memory_server.memories.hooks import HookContext
from memory_server.memories.point_of_action import act_json
from memory_server.operations.delivery import TurnEnd
from memory_server.process.linked_server import (
    REMOTE_RECALL_SECONDS,
    LinkedServer,
    keep,
    sent_message,
    shared_folder,
    show_errors,
)
from memory_server.runtime.homes import HOOK_PATH

REMOTE_ACTION_SECONDS = 0.3
"""Seconds for an answer at the call of a tool, which waits for it."""
_NOT_REACHED = "not reached"
_TURNS_WAIT = "turns wait"
"""The keys under which the record of a session notes what its user was told."""


async def hook(server: LinkedServer, context: HookContext, flags: Namespace) -> tuple[str, str]:
    """Return the text for the model, and what the user is told. The user is told once in a session that the server is
    not reached, or does not take turns. Raise MemoryServerError."""
    body = _body_of(context, flags)
    if body is None:
        return "", ""
    if context.turn is not None:
        if server.settings.read_only:
            return "", ""
        return "", await _keep_of_hook(server, context, body)

    seconds = REMOTE_RECALL_SECONDS if context.act is None else REMOTE_ACTION_SECONDS
    try:
        answer = await server.ask_for("text", HOOK_PATH, body, server.headers(), seconds)
    except RemoteError as error:
        if context.act is not None:
            return "", ""  # the next prompt says it
        sentence = _(
            "Until the server can be reached again, this session recalls nothing; its turns are kept and "
            "delivered later. "
        )
        return "", _told_once(server, context, _NOT_REACHED, sentence + str(error))

    show_errors(answer)
    return from_afar(answer["text"]), ""


async def _keep_of_hook(server: LinkedServer, context: HookContext, body: Mapping[str, Any]) -> str:
    """Keep a turn and deliver it. Return what the user is told once a session if the server does
    not take it; '' otherwise, and if the server is not reached."""
    delivery = await keep(
        server, "/v1/commands/hook", body, server.headers(), REMOTE_RECALL_SECONDS
    )
    if delivery.newest is not None:
        if delivery.newest.ending is not TurnEnd.STORED:
            complain("hook: {reason}", delivery.newest.sentence)
        return ""
    if delivery.stopped is None or not server.remote.reached:
        return ""  # the next prompt says that the server is not reached
    sentence = _(
        "The turns of this session are kept on this machine until the server accepts them. "
    )
    return _told_once(server, context, _TURNS_WAIT, sentence + delivery.stopped)


def _told_once(server: LinkedServer, context: HookContext, about: str, sentence: str) -> str:
    """Return what the user is told, note that this session was told `about` it, and log it. Return '' if it was told
    before."""
    given_lines = server.home.given_lines
    if about in given_lines.to(context.session):
        return ""
    given_lines.note(context.session, [about], server.home.clock())
    complain("hook: {reason}", sentence)
    return f"memory-server: {sentence}"


def _body_of(context: HookContext, flags: Namespace) -> dict[str, Any] | None:
    """Return the body of an event for the server, without private parts. Return None if nothing is
    left of the messages and the turn corrects nothing."""
    event = context.event
    turn = context.turn
    body: dict[str, Any] = {
        "event": event.name,
        "session": event.session_id,
        "context_since": context.session and context.session.context_since_ms,
        "prompt_id": event.prompt_id,
        "source": event.source,
        "client": event.client,
        "folder": shared_folder(context.folder),
        "language": spoken(),
    }

    if turn is not None:
        body["turn"] = turn.id
        body["forgot"] = turn.forgot
        body["program"] = turn.program or None
        body["said_by"] = turn.corrections.said_by or None
        taken_back = turn.corrections.taken_back
        body["taken_back"] = [
            {"asked": said.asked, "answer": said.answer} for said in taken_back
        ] or None
        if not turn.forgot:
            now_ms = time.time_ns() // 1_000_000
            body["messages"] = [
                sent_message(message, usual_time_ms=now_ms) for message in _shared(turn.messages)
            ]
            body["asked"] = [sent_message(message) for message in _shared(turn.asked)] or None
        if not turn.forgot:
            body |= work_json(turn.work)
    elif context.act is not None:
        body["act"] = act_json(context.act)
        body["calls_since"] = context.calls_since
        body["use"] = event.use and event.use.id
    elif event.name == "UserPromptSubmit":
        body["messages"] = [sent_message(message) for message in _shared(context.messages)]
        body["chars"] = flags.chars
        body["flashbacks"] = flags.flashbacks

    if body.get("messages") == []:
        if turn is None or not turn.corrections:
            return None
        # The server keeps nothing of it, and hears what is known now of earlier turns.
        body["messages"] = [{"role": "user", "content": "<private></private>"}]

    return {name: value for name, value in body.items() if value is not None}


def _shared(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages without what is private or was recalled."""
    return to_keep(as_said(messages))
