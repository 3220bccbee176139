"""Asking a memory a question, and showing what is recalled and why, and what fires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from textwrap import indent
from typing import Any

from rich.console import Console
from rich.markup import escape

from memory_server.app import App
from memory_server.cli.calls import called
from memory_server.cli.terminal import time_text
from sandbox.language import term, translated

_TIERS = (
    ("topRelevant", "top", "green"),
    ("nextRelevant", "next", "cyan"),
    ("randomFlashback", "flashback", "magenta"),
)


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
            why = escape(term(item["why"]))
            out.print(f"  [{colour}]{term(f'{tier:<9}')}[/] {moment}  [dim]{item['relevance']:.1f} = {why}[/]")
            out.print(escape(indent(item["text"], " " * 12)))
    if short.get("note"):
        out.print(f"  [yellow]{escape(translated(short['note']))}[/]")
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
        out.print(f"  [yellow]{escape(translated(long['note']))}[/]")
    out.print()
