"""The answer to the event of a hook, for the commands of this machine and of linked machines: the memories are opened,
and `memories/hooks.py` decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from languages import _
from memory_server.config import Settings
from memory_server.kernel.errors import MemoryPaused
from memory_server.kernel.messages import Message
from memory_server.kernel.streams import complain
from memory_server.kernel.text import words_between_commas
from memory_server.knowledge.projects import NO_PROJECT, Project
from memory_server.memories import hooks
from memory_server.memories.hooks import HookContext, HookMemory
from memory_server.operations.hook_events import messages_before
from memory_server.process.hosts import Host
from memory_server.runtime.app import CallerView
from memory_server.runtime.homes import project_at
from memory_server.runtime.runtime import ONE_QUESTION, ONE_TURN
from sandbox import HOOK_CHARS


async def answer(
    settings: Settings, context: HookContext, host: Host, *, max_chars: int | None, flashbacks: int
) -> str:
    """Return the text for the model at an event, or '' if there is nothing to say; at `Stop` store
    the turn that ended. Raise MemoryServerError."""
    if context.event.name == "Stop":
        await remembered(settings, context, host)
        return ""

    recalls = context.event.name == "UserPromptSubmit"
    if recalls:
        settings = settings.with_flashbacks(flashbacks).unasked()

    async with _opened(settings, context, host) as view:
        memory = _memory_of(view, context)
        if context.act is not None:
            additions = await hooks.recall_at_action(memory, context.act)
        elif recalls:
            earlier = partial(_messages_before, context)
            project = _project_of(view, context)
            additions = await hooks.recall_at_prompt(memory, earlier, project, max_chars)
        else:
            offers_recall = _offers_recall(settings)
            additions = await hooks.recall_at_beginning(
                memory, max_chars, offers_recall=offers_recall
            )

    if additions.trouble:
        complain("hook: {reason}", additions.trouble)
    return memory.claimed(additions)


async def remembered(settings: Settings, context: HookContext, host: Host) -> str | None:
    """Store a turn. Return why nothing of it is kept, or None if it is stored. Raise MemoryServerError if it is not."""
    if context.turn is not None and settings.read_only:
        return _("`read_only` is set, so nothing was stored.")
    async with _opened(settings, context, host) as view:
        return await hooks.remember_turn(_memory_of(view, context))


@asynccontextmanager
async def _opened(
    settings: Settings, context: HookContext, host: Host
) -> AsyncIterator[CallerView]:
    """Open the memories for a hook. Raise MemoryPaused during a pause."""
    lifetime = ONE_QUESTION if context.turn is None else ONE_TURN
    async with host.view(settings, session=context.session, lifetime=lifetime) as view:
        pause = view.paused()
        if pause is not None:
            raise MemoryPaused(
                "nothing is recalled or remembered: {zone}", pause.text(settings.zone)
            )
        yield view


def _memory_of(view: CallerView, context: HookContext) -> HookMemory:
    settings = view.settings
    return HookMemory(
        view.call,
        view.conversation(),
        view.home,
        context,
        read_only=settings.read_only,
        flashbacks=settings.short_term.flashback_count,
    )


def _messages_before(context: HookContext, wanted: int) -> tuple[Message, ...]:
    return messages_before(context.event, context.transcript, most=wanted, most_chars=HOOK_CHARS)


def _project_of(view: CallerView, context: HookContext) -> Project | None:
    """Return the project of the event or of its folder, which may be no project (`NO_PROJECT`). Return None for the
    project of the settings or of this process's folder."""
    if (
        context.project is not None
        or context.event.cwd is None
        or view.settings.knowledge.project is not None
    ):
        return context.project
    here = project_at(Path(context.event.cwd), on_several_machines=view.home.on_several_machines)
    return here or Project(NO_PROJECT)


def _offers_recall(settings: Settings) -> bool:
    """Return whether the settings offer the tool `recall_turn` to a client. The tools themselves take too long to
    import."""
    if settings.toolsets is None:
        has_toolset = not settings.tools
    else:
        has_toolset = any(map(settings.names_toolset, ("default", "turn", "all")))
    single_tools = words_between_commas(settings.tools or "")
    excluded_tools = words_between_commas(settings.exclude_tools or "")
    return (has_toolset or "recall_turn" in single_tools) and "recall_turn" not in excluded_tools
