"""Look into conversations: all of them, or the one that `-c` names; shared by several commands. Also `explain`."""

from __future__ import annotations

import secrets
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, tzinfo
from textwrap import indent
from typing import Any

from languages import N_, _, foreign
from languages.columns import padded
from memory_server.cli.call_tool import called
from memory_server.cli.recalls import receipt
from memory_server.cli.terminal import (
    console,
    escape,
    print_plain,
    say,
    spoken,
    time_text,
    watched,
)
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.items import LEAST_ID_CHARS
from memory_server.kernel.streams import complain, write
from memory_server.kernel.values import JsonObject, frozen
from memory_server.operations.whereabouts import whereabouts
from memory_server.runtime.app import CallerView

Act = Callable[[Conversation], Awaitable[None]]
"""What a command does with a conversation."""


async def chosen(view: CallerView, flags: Namespace) -> list[str]:
    """Return the ids of all conversations, or the id of the conversation that `-c` names. Raises InvalidInput if it
    does not exist."""
    conversation_ids = await view.conversations.ids()
    only = getattr(flags, "conversation", None)
    if only is None:
        return conversation_ids
    conversation_id = view.conversation(only).id
    if conversation_id not in conversation_ids:
        raise InvalidInput(
            "There is no conversation {name}; {whereabouts}",
            conversation_id,
            await whereabouts(view),
        )
    return [conversation_id]


async def named_conversation(view: CallerView, flags: Namespace) -> str | None:
    """Return the id of the conversation that `-c` names, or None if `-c` was left out. Raises InvalidInput if it does
    not exist."""
    if not hasattr(flags, "conversation"):
        return None
    [conversation_id] = await chosen(view, flags)
    return conversation_id


async def for_each_conversation(
    view: CallerView, flags: Namespace, doing: str, act: Act
) -> tuple[int, int]:
    """Act on all conversations, or on the one that `-c` names. Report and skip a conversation that cannot be read or
    written. Return how many there were and how many failed. Raises StorageError if the named conversation cannot be
    read or written, InvalidInput if it does not exist."""
    conversation_ids = await chosen(view, flags)
    failures = 0

    for conversation_id in watched(doing, conversation_ids, len(conversation_ids)):
        try:
            await act(view.conversation(conversation_id))
        except StorageError as error:
            # The user named this conversation, so its failure is the failure of the command.
            if hasattr(flags, "conversation"):
                raise
            complain(str(error))
            failures += 1
    return len(conversation_ids), failures


@frozen
class LocatedMemory:
    """A short-term memory and the conversation that holds it."""

    conversation: Conversation
    memory: ShortTermMemory


async def with_id(view: CallerView, flags: Namespace, begins: str) -> list[LocatedMemory]:
    """Find the short-term memories whose id begins with `begins`, each with its conversation. A
    conversation that cannot be read is reported and passed over, unless -c names it. Raises
    InvalidInput if the conversation of -c does not exist."""
    matches: list[LocatedMemory] = []

    async def look(conversation: Conversation) -> None:
        memories = await conversation.short_term.memories()
        matches.extend(
            LocatedMemory(conversation, memory)
            for memory in memories
            if memory.id.startswith(begins)
        )

    await for_each_conversation(view, flags, _("looking"), look)
    return matches


async def explain(view: CallerView, flags: Namespace) -> None:
    """Explain one memory. A memory named by the beginning of its id is explained as a search of its
    own conversation sees it; words choose the memory that shares most of them, as a search of all
    conversations sees it. Raises InvalidInput if the memory, or --ask, is missing."""
    if flags.recall is not None:
        await receipt(view, flags)
        return

    if flags.memory is None or not flags.ask:
        raise InvalidInput(
            "Name a memory and give --ask; or give --recall ID, which `memory-server recalls` shows."
        )

    arguments = await _memory_arguments(view, flags)
    arguments["recentMessages"] = [{"role": "user", "content": text} for text in flags.ask]
    if flags.scope is not None:
        arguments["scope"] = flags.scope
    if flags.other_words is not None:
        arguments["otherWords"] = flags.other_words
    # Ask in a new session, as `recall` does: otherwise memories that the session has would be held back.
    answer = await called(
        view, "explain_recall", arguments, flags.names, session=secrets.token_hex(8)
    )

    if flags.json:
        write(answer.structured)
    else:
        print_plain(answer.text)


async def _memory_arguments(view: CallerView, flags: Namespace) -> dict[str, Any]:
    """Return the arguments of `explain_recall` that name the memory: by the beginning of its id, in
    the store or in the archive, or else by words and where to look for them. Raises InvalidInput if
    a trigger has this name."""
    sought: str = flags.memory

    # A shorter text is more likely a word than the beginning of an id.
    if len(sought) >= LEAST_ID_CHARS:
        matches = await with_id(view, flags, sought)
        if matches:
            return {
                "memory_id": matches[0].memory.id,
                "conversation_id": matches[0].conversation.id,
            }

        archived_arguments = await _archived_memory_arguments(view, flags, sought)
        if archived_arguments is not None:
            return archived_arguments

    conversation_ids = await chosen(view, flags)
    for conversation_id in conversation_ids:
        await _refuse_trigger(view, conversation_id, sought)

    if not conversation_ids:
        return {"text": sought}
    if len(conversation_ids) == 1:
        return {"text": sought, "conversation_id": conversation_ids[0]}
    return {"text": sought, "scope": "all"}


async def _refuse_trigger(view: CallerView, conversation_id: str, name: str) -> None:
    """Refuse the name of a memory with a trigger, which is not recalled by its words. Raises InvalidInput."""
    for memory in await view.conversation(conversation_id).long_term.memories():
        if memory.name == name:
            raise InvalidInput(
                "`{name}` comes by its trigger, and not by words; `memory-server web` shows under Triggers when it "
                "fires, and `trigger-sandbox run` tries it with a chat.",
                name,
            )


async def _archived_memory_arguments(
    view: CallerView, flags: Namespace, begins: str
) -> dict[str, Any] | None:
    """Return the arguments that name the first removed memory whose id begins with `begins`, or None."""
    for conversation_id in await chosen(view, flags):
        for entry in await view.conversation(conversation_id).archive.entries():
            if isinstance(entry.memory, ShortTermMemory) and entry.memory.id.startswith(begins):
                return {"memory_id": entry.memory.id, "conversation_id": conversation_id}
    return None


@frozen
class _Tier:
    """A list of the result of a search of short-term memories: its key there, its shown name and its colour."""

    key: str
    name: str
    colour: str


_TIERS = (
    _Tier("topRelevant", N_("top"), "green"),
    _Tier("nextRelevant", N_("next"), "cyan"),
    _Tier("randomFlashback", N_("flashback"), "magenta"),
)


async def ask(
    view: CallerView,
    conversation_id: str,
    messages: Sequence[JsonObject],
    title: str,
    *,
    why: bool = True,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Print what both searches give for these messages under a heading, with the reasons if `why`. Return the results
    of the short-term search, then of the long-term search."""
    short_arguments = {"conversation_id": conversation_id, "recentMessages": messages}
    short = await called(view, "search_short_term_memories", short_arguments)

    long_arguments = {"conversation_id": conversation_id, "messages": messages}
    long = await called(view, "search_long_term_memories", long_arguments)

    console().print(f"[bold]── {escape(title)} ──[/]")
    for message in messages:
        speaker = message.get("name") or _(message["role"])
        console().print(f"[bold]{escape(speaker)}:[/] {escape(message['content'])}")

    _print_recall(short=short.structured, long=long.structured, zone=view.zone, why=why)
    return short.structured, long.structured


def _print_recall(
    *,
    short: JsonObject,
    long: JsonObject,
    zone: tzinfo | None,
    why: bool,
) -> None:
    """Print both results; without `why`, only what a prompt would get unasked."""
    any_memory = False
    for tier in _TIERS:
        for item in short[tier.key]:
            if why or not item.get("weak"):
                any_memory = True
                _print_memory(tier, item, zone, why=why)

    if short.get("note"):
        console().print(f"  [yellow]{escape(short['note'])}[/]")
    if why:
        _print_search_counts(short)
    elif not (any_memory or long["activated"] or long["random"]):
        say("  [dim]nothing comes to mind[/]")

    _print_triggers(long)
    if long.get("note"):
        console().print(f"  [yellow]{escape(long['note'])}[/]")
    console().print()


def _print_memory(tier: _Tier, item: JsonObject, zone: tzinfo | None, *, why: bool) -> None:
    """Print a memory: tier, time, the reason if `why`, and the text below."""
    seconds = datetime.fromisoformat(item["timestamp"]).timestamp()
    moment = time_text(round(seconds * 1000), zone)
    reason = ""
    if why:
        reason = f"  [dim]{item['relevance']:.1f} = {escape(item['why'])}[/]"
    console().print(f"  [{tier.colour}]{padded(tier.name, 9)}[/] {moment}{reason}")
    print_plain(indent(spoken(item["text"]), " " * 12))


def _print_search_counts(short: JsonObject) -> None:
    held_back = short["heldBack"]
    say(
        "  [dim]searched {total_searched}; held back {too_recent} too recent, {same_moment} of the same moment[/]",
        short["totalSearched"],
        held_back["tooRecent"],
        held_back["sameMoment"],
    )


def _print_triggers(long: JsonObject) -> None:
    """Print the triggers that fired, came by chance or failed, a line each."""
    for trigger in long["activated"]:
        say("  [bold red]fired[/]     {name}: {prompt}", trigger["name"], trigger["prompt"])

    for trigger in long["random"]:
        say("  [dim]by chance {name}[/]", trigger["name"])

    for failure in long["failed"]:
        failure_text = _(
            "{name}: {kind}, {reason}",
            escape(failure["name"]),
            failure["kind"],
            escape(foreign(failure["message"])),
        )
        console().print(f"  [yellow]{padded('failed', 9)} {failure_text}[/]")
