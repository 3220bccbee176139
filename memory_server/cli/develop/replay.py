"""`replay`: store a chat, message by message, ask about it, and show what is recalled and why, and what fires."""

from __future__ import annotations

import secrets
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from textwrap import indent
from typing import Any

from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from memory_server.app import App
from memory_server.cli.terminal import console, reading, time_text, watched
from memory_server.cli.typed_tools import called
from memory_server.config import Settings
from memory_server.core.errors import InvalidInput
from memory_server.core.model import Session
from memory_server.storage.json_store import codec
from memory_server.tools.base.shapes import MessageArgument, counted
from sandbox.chats import chat
from sandbox.chats.encoding import EncodingError, decode

Exchange = tuple[str, list[dict[str, Any]]]
"""A conversation, and what a user said and was answered in it, as the messages of a tool: this becomes one memory."""

AFTER_CHAT_MS = 3_600_000
"""How long ago a shifted chat ended: longer than the 20 minutes in which nothing is recalled."""
_TIERS = (
    ("topRelevant", "top", "green"),
    ("nextRelevant", "next", "cyan"),
    ("randomFlashback", "flashback", "magenta"),
)


async def replay(settings: Settings, flags: Namespace) -> None:
    """Store every exchange of the file as a memory, and print what each question recalls."""
    exchanges = read_exchanges(Path(flags.chat), settings)
    triggers = read_triggers(Path(flags.triggers)) if flags.triggers else []
    out, conversation_id = console(), exchanges[-1][0]
    async with opened(settings) as app:
        if flags.shift_to_now:
            _shift([message for _, messages in exchanges for message in messages], app.clock())
        await store(app, exchanges, triggers)
        folder = settings.data_dir or app.home.place
        out.print(f"Stored {counted(len(exchanges), 'exchange')} and {counted(len(triggers), 'trigger')} in {folder}.")
        for text in flags.ask:
            await ask(app, out, conversation_id, [{"role": "user", "content": text}], conversation_id)


def opened(settings: Settings) -> App:
    """A memory that knows its session, as a server for one window of a client does."""
    return App(settings, session=Session(secrets.token_hex(8)))


def read_exchanges(path: Path, settings: Settings) -> list[Exchange]:
    """The exchanges of a chat file in any form of sandbox/chats; messages that name no conversation are of the usual
    one. A new exchange begins with a user's message after an answer, or with another conversation. Raises InvalidInput
    if the file cannot be read, or one of its messages cannot be used; the sentence names it."""
    try:
        with reading(path):
            rows, _ = chat.parse(decode(path.read_bytes(), None), settings.zone)
    except EncodingError as error:
        raise InvalidInput(f"{path} {error}.") from error
    except chat.ChatError as error:
        raise InvalidInput(f"{path}: {error}.") from error
    if not rows:
        raise InvalidInput(f'{path} holds no messages; give lines such as {{"role":"user","content":"你好"}}.')
    exchanges: list[Exchange] = []
    for number, row in enumerate(rows, 1):
        conversation_id, message = row.get("conversation_id") or settings.conversation, _checked(path, number, row)
        last_id, messages = exchanges[-1] if exchanges else (None, [])
        answered = any(earlier["role"] == "assistant" for earlier in messages)
        if conversation_id != last_id or (message["role"] == "user" and answered):
            exchanges.append((conversation_id, [message]))
        else:
            messages.append(message)
    return exchanges


def _checked(path: Path, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    """A message as tools take it, checked before anything is stored."""
    given = {name: row[name] for name in MessageArgument.model_fields if name in row}
    try:
        return MessageArgument.model_validate(given).model_dump(exclude_none=True)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        reason = problem["msg"].removeprefix("Value error, ")
        raise InvalidInput(f"{path}, message {number}: `{problem['loc'][0]}`: {reason}.") from error


def _shift(messages: Sequence[dict[str, Any]], now_ms: int) -> None:
    """Move the chat in time: its last message is an hour before `now_ms`."""
    dated = [message for message in messages if "timestamp" in message]
    by = now_ms - AFTER_CHAT_MS - max((message["timestamp"] for message in dated), default=0)
    for message in dated:
        message["timestamp"] += by


def read_triggers(path: Path) -> Sequence[dict[str, Any]]:
    """The long-term memories of a JSON file: an array of the arguments of `add_long_term_memory`. Raises InvalidInput
    if the file cannot be read or is not such an array."""
    try:
        with reading(path):
            return codec.load_array(path.read_bytes())
    except ValueError as error:
        raise InvalidInput(f"{path} cannot be used: {error}; give an array of name, prompt and trigger.") from error


async def store(app: App, exchanges: Sequence[Exchange], triggers: Iterable[Mapping[str, Any]]) -> None:
    """Store the triggers in the conversation that the chat ends with, and each exchange as one memory."""
    for trigger in triggers:
        await called(app, "add_long_term_memory", {"conversation_id": exchanges[-1][0], **trigger})
    for conversation_id, messages in watched("storing the chat", exchanges, len(exchanges)):
        await called(app, "add_short_term_memory", {"conversation_id": conversation_id, "messages": messages})


async def ask(
    app: App, out: Console, conversation_id: str, messages: Sequence[Mapping[str, Any]], title: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Print what both searches give for these messages under a heading; the results: short-term, long-term."""
    common = {"conversation_id": conversation_id}
    short = await called(app, "search_short_term_memories", {**common, "recentMessages": messages})
    long = await called(app, "search_long_term_memories", {**common, "messages": messages})
    out.print(f"[bold]── {escape(title)} ──[/]")
    for message in messages:
        out.print(f"[bold]{escape(message.get('name') or message['role'])}:[/] {escape(message['content'])}")
    _print_recall(out, short.structured, long.structured, app.settings.zone)
    return short.structured, long.structured


def _print_recall(out: Console, short: Mapping[str, Any], long: Mapping[str, Any], zone: tzinfo | None) -> None:
    """Both results, one block a memory: tier, time, why, text."""
    for key, tier, colour in _TIERS:
        for item in short[key]:
            moment = time_text(round(datetime.fromisoformat(item["timestamp"]).timestamp() * 1000), zone)
            out.print(f"  [{colour}]{tier:<9}[/] {moment}  [dim]{item['relevance']:.1f} = {escape(item['why'])}[/]")
            out.print(escape(indent(item["text"], " " * 12)))
    if short.get("note"):
        out.print(f"  [yellow]{escape(short['note'])}[/]")
    held = short["heldBack"]
    out.print(
        f"  [dim]searched {short['totalSearched']}; held back {held['tooRecent']} too recent, "
        f"{held['sameMoment']} of the same moment[/]"
    )
    for memory in long["activated"]:
        out.print(f"  [bold red]fired[/]     {escape(memory['name'])}: {escape(memory['prompt'])}")
    for memory in long["random"]:
        out.print(f"  [dim]by chance {escape(memory['name'])}[/]")
    for failed in long["failed"]:
        out.print(f"  [yellow]failed    {escape(failed['name'])}: {failed['kind']}, {escape(failed['message'])}[/]")
    if long.get("note"):
        out.print(f"  [yellow]{escape(long['note'])}[/]")
    out.print()
