"""What a hook does on a machine that is linked to a server: it asks the server, or keeps a turn for it."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from memory_server.cli.delivery import Ending
from memory_server.cli.hook.claude_code import HookContext
from memory_server.cli.linked import REMOTE_RECALL_SECONDS, LinkedServer, keep, shared_folder, show_errors
from memory_server.cli.terminal import complain, from_afar
from memory_server.kernel.errors import RemoteError
from memory_server.kernel.messages import Message
from memory_server.kernel.private import to_keep
from memory_server.kernel.recalled_block import as_said
from sandbox.locale import _, spoken

_NOT_REACHED, _TURNS_WAIT = "not reached", "turns wait"
"""What a session was told, as keys of its given lines."""


async def hook(server: LinkedServer, context: HookContext, flags: Namespace) -> tuple[str, str]:
    """The text for the model, and what the user is told; it is told once in a session that the server is not reached,
    or does not take turns. Raises MemoryServerError."""
    body = _body_of(context, flags)
    if body is None:
        return "", ""
    if context.turn is not None:
        return "", "" if server.settings.read_only else await _keep_of_hook(server, context, body)
    try:
        answer = await server.ask_for("text", "/v1/commands/hook", body, server.headers(), REMOTE_RECALL_SECONDS)
    except RemoteError as error:
        sentence = _("Nothing is recalled in this session while that lasts; what is said is kept and delivered later. ")
        return "", _told_once(server, context, _NOT_REACHED, sentence + str(error))
    show_errors(answer)
    return from_afar(answer["text"]), ""


async def _keep_of_hook(server: LinkedServer, context: HookContext, body: Mapping[str, Any]) -> str:
    """Keep a turn and deliver it; what the user is told."""
    delivery = await keep(server, "/v1/commands/hook", body, server.headers(), REMOTE_RECALL_SECONDS)
    if delivery.newest is not None:
        if delivery.newest.ending is not Ending.STORED:
            complain(_("hook: {reason}", delivery.newest.sentence))
        return ""
    if delivery.stopped is None or not server.remote.reached:
        return ""  # the next prompt says that the server is not reached
    sentence = _("What is said in this session is kept on this machine until the server takes it. ")
    return _told_once(server, context, _TURNS_WAIT, sentence + delivery.stopped)


def _told_once(server: LinkedServer, context: HookContext, about: str, sentence: str) -> str:
    """What the user is told; empty if this session was told `about` it before."""
    given = server.home.given
    if about in given.to(context.session):
        return ""
    given.note(context.session, [about], server.home.clock())
    complain(_("hook: {reason}", sentence))
    return f"memory-server: {sentence}"


def _body_of(context: HookContext, flags: Namespace) -> dict[str, Any] | None:
    """What is sent of an event; None: all of it is private."""
    event, turn = context.event, context.turn
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
        body |= {"turn": turn.id, "forgot": turn.forgot}
        if not turn.forgot:
            body |= {"messages": _sent(turn.messages, time.time_ns() // 1_000_000), "asked": _sent(turn.asked) or None}
    elif event.name == "UserPromptSubmit":
        body |= {"messages": _sent(context.messages), "chars": flags.chars, "flashbacks": flags.flashbacks}
    return None if body.get("messages") == [] else {name: one for name, one in body.items() if one is not None}


def _sent(messages: Sequence[Message], now_ms: int | None = None) -> list[dict[str, Any]]:
    """Messages as they are sent: without what is private or was recalled. `now_ms`: the time of those without one."""
    return [
        {"role": each.role, "content": each.content}
        | ({"timestamp": each.time_ms or now_ms} if each.time_ms or now_ms else {})
        | ({"name": each.name} if each.name else {})
        for each in to_keep(as_said(messages))
    ]
