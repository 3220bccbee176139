"""`demo`: store the sample conversation in a new data folder, then ask about it on later days. What comes is shown
with its reasons, also for `import --ask`."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from importlib.resources import files
from pathlib import Path
from textwrap import indent
from typing import Any

from rich.console import Console
from rich.markup import escape

from memory_server.app import App
from memory_server.cli.calls import called
from memory_server.cli.exchange import store
from memory_server.cli.terminal import console, time_text, watched
from memory_server.config import Settings
from memory_server.interchange import chats, own
from memory_server.storage.json_store import codec
from sandbox.language import spoken, term, translated

ZONES = {"zh": "Asia/Shanghai", "en": "Europe/London"}
"""The time zone of the people in the sample of each language: their evenings must be evenings."""
SEED = 7
"""The demo shows the same flashbacks every time."""


_TIERS = (
    ("topRelevant", "top", "green"),
    ("nextRelevant", "next", "cyan"),
    ("randomFlashback", "flashback", "magenta"),
)


def samples() -> Path:
    """The folder of the sample conversation: in the wheel, or in the source tree."""
    shipped = Path(str(files("memory_server"))) / "samples"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "data" / "samples"


async def demo(settings: Settings, flags: Namespace) -> None:
    """Print what each question recalls, why, and which triggers fire."""
    language = spoken() if settings.language == "auto" else settings.language
    sample = samples() if language == "zh" else samples() / language
    with tempfile.TemporaryDirectory(prefix="memory-server-demo-", ignore_cleanup_errors=True) as folder:
        given = {"data_dir": Path(folder), "timezone": ZONES[language], "seed": SEED}
        await _run(settings.model_copy(update=given), sample)


async def _run(settings: Settings, sample: Path) -> None:
    out = console()
    [chat] = chats.read((sample / "companion.jsonl").read_bytes(), "default", settings.zone, {}).conversations
    [pack] = own.read_pack((sample / "triggers.json").read_bytes(), chat.conversation_id).conversations
    questions: list[dict[str, Any]] = codec.loads((sample / "questions.json").read_bytes())
    conversation_id = chat.conversation_id
    messages = sum(len(memory.messages) for memory in chat.short_term)
    async with _that_day(settings, questions[0]) as app:
        await store(app, replace(chat, long_term=pack.long_term), "chat", dry_run=False)
    out.print(
        f"{messages} messages of [bold]{conversation_id}[/] became {len(chat.short_term)} memories; "
        f"{len(pack.long_term)} triggers watch. Now it is later, and {chat.short_term[0].messages[0].name} says:\n"
    )
    as_expected = 0
    for number, question in enumerate(watched("asking", questions, len(questions))):
        # Each day opens the memory again, so what it knows comes from the disk.
        async with _that_day(settings.model_copy(update={"seed": SEED + number}), question) as app:
            as_expected += await _ask(app, conversation_id, question)
    out.print(f"{as_expected} of {len(questions)} answers are what the sample's author expected.")


def _that_day(settings: Settings, question: Mapping[str, Any]) -> App:
    return App(settings.model_copy(update={"now": datetime.fromisoformat(question["now"])}))


async def _ask(app: App, conversation_id: str, question: Mapping[str, Any]) -> bool:
    moment = datetime.fromisoformat(question["now"]).astimezone(app.settings.zone)
    title = f"{moment:%Y-%m-%d %H:%M}  {question['about']}"
    short, long = await ask(app, console(), conversation_id, question["messages"], title)
    expected = question["expect"]
    recalled = "\n".join(item["text"] for item in [*short["topRelevant"], *short["nextRelevant"]])
    fired = {memory["name"] for memory in long["activated"]}
    return all(word in recalled for word in expected["recalled"]) and set(expected["fires"]) <= fired


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
