"""Forget faded memories and archive expired entries (`cleanup` and `knowledge cleanup`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from languages import counted
from memory_server.cli.inspection import named_conversation
from memory_server.cli.terminal import console, print_plain, say
from memory_server.cli.word_giving import words_after_cleanup
from memory_server.kernel.lifecycle import CleanupItem, Lifecycle
from memory_server.kernel.streams import complain
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.runtime.app import CallerView
from memory_server.tools.archive import archived_text, forgotten_text, kept_text


async def cleanup(view: CallerView, flags: Namespace) -> None:
    """Clean up all conversations and knowledge, or the conversation that `-c` names."""
    engines: Sequence[Lifecycle] = view.memories.engines
    only = await named_conversation(view, flags)
    if only is not None:
        # Knowledge does not belong to a conversation, so only conversations are cleaned up.
        engines = [engine for engine in engines if engine.keeps == "conversations"]

    always_kept = view.memories.services.parameters.retention.always_kept
    keeps_everything = False
    for engine in engines:
        async for cleaned in engine.clean_up(only, dry_run=flags.dry_run):
            if cleaned.problem is not None:
                complain(cleaned.problem)
                continue
            if engine.keeps == "conversations":
                remaining = cleaned.remaining
                text = forgotten_text(
                    cleaned.left, remaining=remaining, due=cleaned.due, dry_run=flags.dry_run
                )

                # A user who expects memories to go needs to know why all of them stay.
                keeps_everything = keeps_everything or 0 < remaining <= always_kept
            elif cleaned.left:
                text = archived_text(cleaned.left, dry_run=flags.dry_run)
            else:
                continue
            say("[bold]{place}[/]: {text}", cleaned.place, text)

    if keeps_everything:
        console().print(kept_text(always_kept))
    await words_after_cleanup(view, only, dry_run=flags.dry_run)


async def cleanup_of_knowledge(view: CallerView, flags: Namespace) -> None:
    """Archive what is past its limits, and make missing vectors, if meaning is used. With --dry-run
    only say what would be archived."""
    engine = KnowledgeLifecycle(view.knowledge)
    archived: list[CleanupItem] = []
    async for cleaned in engine.clean_up(dry_run=flags.dry_run):
        archived += cleaned.left
    print_plain(archived_text(archived, dry_run=flags.dry_run))

    meaning = view.knowledge.sessions.meaning
    if flags.dry_run or meaning.embeddings is None:
        return

    for count, missing, reason in (
        await meaning.make_missing(),
        await view.conversations.tidy_vectors(meaning),
    ):
        if count:
            say("Made the vectors of {texts}.", counted(count, "text"))
        if missing:
            say("Vectors of {texts} are missing: {why}", counted(missing, "text"), reason)
