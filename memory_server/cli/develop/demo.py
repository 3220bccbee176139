"""`demo`: store the sample conversation in a new data folder, then ask about it on later days."""

from __future__ import annotations

import shutil
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from memory_server.app import App
from memory_server.cli.develop.replay import ask, opened, read_exchanges, read_triggers, store
from memory_server.cli.terminal import console, watched
from memory_server.config import Settings
from memory_server.storage.json_store import codec

ZONE = "Asia/Shanghai"
"""The time zone of the people in the sample: their evenings must be evenings."""
SEED = 7
"""The demo shows the same flashbacks every time."""


def samples() -> Path:
    """The folder of the sample conversation: in the wheel, or in the source tree."""
    shipped = Path(str(files("memory_server"))) / "samples"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "data" / "samples"


async def demo(settings: Settings, flags: Namespace) -> None:
    """Print what each question recalls, why, and which triggers fire."""
    folder = Path(tempfile.mkdtemp(prefix="memory-server-demo-"))
    try:
        await _run(settings.model_copy(update={"data_dir": folder, "timezone": ZONE, "seed": SEED}))
    finally:
        if flags.keep:
            console().print(f"The demo's memories are in {folder}; try `memory-server --data-dir {folder} list`.")
        else:
            shutil.rmtree(folder, ignore_errors=True)


async def _run(settings: Settings) -> None:
    out = console()
    exchanges = read_exchanges(samples() / "companion.jsonl", settings)
    triggers = read_triggers(samples() / "triggers.json")
    questions: list[dict[str, Any]] = codec.loads((samples() / "questions.json").read_bytes())
    conversation_id = exchanges[-1][0]
    messages = sum(len(said) for _, said in exchanges)
    async with _that_day(settings, questions[0]) as app:
        await store(app, exchanges, triggers)
    out.print(
        f"{messages} messages of [bold]{conversation_id}[/] became {len(exchanges)} memories; "
        f"{len(triggers)} triggers watch. Now it is later, and 小满 says:\n"
    )
    as_expected = 0
    for number, question in enumerate(watched("asking", questions, len(questions))):
        # Each day opens the memory again, so what it knows comes from the disk.
        async with _that_day(settings.model_copy(update={"seed": SEED + number}), question) as app:
            as_expected += await _ask(app, conversation_id, question)
    out.print(f"{as_expected} of {len(questions)} answers are what the sample's author expected.")


def _that_day(settings: Settings, question: Mapping[str, Any]) -> App:
    return opened(settings.model_copy(update={"now": datetime.fromisoformat(question["now"])}))


async def _ask(app: App, conversation_id: str, question: Mapping[str, Any]) -> bool:
    moment = datetime.fromisoformat(question["now"]).astimezone(app.settings.zone)
    title = f"{moment:%Y-%m-%d %H:%M}  {question['about']}"
    short, long = await ask(app, console(), conversation_id, question["messages"], title)
    expected = question["expect"]
    recalled = "\n".join(item["text"] for item in [*short["topRelevant"], *short["nextRelevant"]])
    fired = {memory["name"] for memory in long["activated"]}
    return all(word in recalled for word in expected["recalled"]) and set(expected["fires"]) <= fired
