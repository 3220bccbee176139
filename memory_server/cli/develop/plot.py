"""`plot`: pictures of a conversation's memories over time, and of what the settings do to them."""

from __future__ import annotations

import asyncio
import math
from argparse import Namespace
from functools import partial

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import console
from memory_server.config import Settings
from memory_server.core.errors import InvalidInput
from memory_server.core.model import Message
from memory_server.recall import retention


async def plot(settings: Settings, flags: Namespace) -> int:
    """Draw a picture of one conversation into a file."""
    from memory_server.evaluation.plots import (
        HALF_LIVES_DAYS,
        draw,
        draw_decay,
        draw_scores,
        draw_timeline,
        picture_path,
    )

    path = picture_path(flags.out or f"{flags.picture}.svg")
    if bad := [days for days in flags.half_life or () if not (days > 0 and math.isfinite(days))]:
        raise InvalidInput(f"A half-life of {bad[0]:g} days cannot be drawn; give a number above 0.")
    async with App(settings) as app:
        conversation = app.conversation(flags.conversation_id)
        memories = await conversation.short_term.memories()
        if not memories and flags.picture != "decay":
            raise InvalidInput(f"Nothing is stored in the conversation {conversation.id}; there is nothing to draw.")
        now_ms, parameters, name = app.clock(), app.context.services.parameters, conversation.id
        match flags.picture:
            case "decay":
                compared = {"half_lives": flags.half_life or HALF_LIVES_DAYS, "match": flags.match}
                drawing = partial(draw_decay, **compared)
            case "scores":
                drawing = partial(draw_scores, name=name)
            case _:
                query = recall = None
                if flags.ask is not None:
                    asked = [Message("user", flags.ask)]
                    query = await conversation.short_term.query_of(asked)
                    found = await conversation.short_term.search(asked, scope="conversation", reinforce=False)
                    recall = found.recall
                gone = {gone.memory.id for gone in retention.plan(memories, now_ms, parameters).forgotten}
                drawing = partial(
                    draw_timeline, forgotten=gone, zone=settings.zone, name=name, query=query, recall=recall
                )
        drawing = partial(drawing, parameters=parameters, memories=memories, now_ms=now_ms)
        await asyncio.to_thread(draw, path, drawing, panels=1 if flags.picture == "timeline" else 2)
    console().print(f"Drew {escape(str(path))}.")
    return 0
