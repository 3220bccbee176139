"""`plot`: pictures of a conversation's memories over time, and of what the settings do to them."""

from __future__ import annotations

import asyncio
import math
from argparse import Namespace
from functools import partial

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import console
from memory_server.core.errors import InvalidInput
from memory_server.core.model import Message
from memory_server.recall import retention


async def plot(app: App, flags: Namespace) -> None:
    """Draw a picture of one conversation into a file."""
    from memory_server.evaluation.plots import HALF_LIVES_DAYS, draw, draw_decay, draw_timeline, picture_path

    path = picture_path(flags.out or f"{flags.picture}.svg")
    if bad := [days for days in flags.half_life or () if not (days > 0 and math.isfinite(days))]:
        raise InvalidInput(f"A half-life of {bad[0]:g} days cannot be drawn; give a number above 0.")
    parameters, conversation = app.context.services.parameters, app.conversation(flags.conversation_id)
    if flags.picture == "decay":
        half_lives = flags.half_life or HALF_LIVES_DAYS
        drawing = partial(draw_decay, parameters=parameters.recall, half_lives=half_lives, match=flags.match)
    else:
        memories, now_ms = await conversation.short_term.memories(), app.clock()
        if not memories:
            raise InvalidInput(f"Nothing is stored in the conversation {conversation.id}; nothing can be drawn.")
        query = recall = None
        if flags.ask is not None:
            asked = [Message("user", flags.ask)]
            query = await conversation.short_term.query_of(asked)
            found = await conversation.short_term.search(asked, scope="conversation", reinforce=False)
            recall = found.recall
        drawing = partial(
            draw_timeline,
            parameters=parameters,
            memories=memories,
            forgotten={gone.memory.id for gone in retention.plan(memories, now_ms, parameters).forgotten},
            now_ms=now_ms,
            zone=app.settings.zone,
            name=conversation.id,
            query=query,
            recall=recall,
        )
    await asyncio.to_thread(draw, path, drawing)
    console().print(f"Drew {escape(str(path))}.")
