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
    from memory_server.evaluation.plots.decay import HALF_LIVES_DAYS, draw_decay
    from memory_server.evaluation.plots.picture import draw, picture_path
    from memory_server.evaluation.plots.scores import draw_scores
    from memory_server.evaluation.plots.timeline import draw_timeline

    path = picture_path(flags.out or f"{flags.picture}.svg")
    if bad := [days for days in flags.half_life or () if not (days > 0 and math.isfinite(days))]:
        raise InvalidInput(f"A half-life of {bad[0]:g} days cannot be drawn; give a number above 0.")
    async with App(settings) as app:
        conversation = app.conversation(flags.conversation_id)
        memories = await conversation.short_term.memories()
        if not memories and flags.picture != "decay":
            raise InvalidInput(f"Nothing is stored in the conversation {conversation.id}; there is nothing to draw.")
        now_ms, parameters = app.clock(), app.conversations.parameters
        match flags.picture:
            case "decay":
                half_lives = flags.half_life or HALF_LIVES_DAYS
                drawing = partial(
                    draw_decay,
                    parameters=parameters,
                    memories=memories,
                    now_ms=now_ms,
                    half_lives=half_lives,
                    match=flags.match,
                )
                panels = 2
            case "scores":
                drawing = partial(
                    draw_scores, parameters=parameters, memories=memories, now_ms=now_ms, name=conversation.id
                )
                panels = 2
            case _:
                query = recall = None
                if flags.ask is not None:
                    query = await conversation.short_term.query_of([Message("user", flags.ask)])
                    found = await conversation.short_term.search(
                        [Message("user", flags.ask)], scope="conversation", reinforce=False
                    )
                    recall = found.recall
                drawing = partial(
                    draw_timeline,
                    parameters=parameters,
                    memories=memories,
                    forgotten={gone.memory.id for gone in retention.plan(memories, now_ms, parameters).forgotten},
                    now_ms=now_ms,
                    zone=settings.zone,
                    name=conversation.id,
                    query=query,
                    recall=recall,
                )
                panels = 1
        await asyncio.to_thread(draw, path, drawing, panels=panels)
    console().print(f"Drew {escape(str(path))}.")
    return 0
