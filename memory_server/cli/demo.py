"""Store the sample conversation in a new data folder, then ask about it on later days (`demo`). Each result is shown
with its reasons, also for `import --ask`."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from languages import _, spoken
from memory_server.cli.inspection import ask
from memory_server.cli.terminal import hint, say, watched
from memory_server.config import Settings
from memory_server.kernel import json_text
from memory_server.operations.imports import sample_of, store
from memory_server.runtime.app import App, CallerView

ZONES = {"zh": "Asia/Shanghai", "en": "Europe/London"}
"""The time zone of the people in the sample of each language: their evenings must be evenings."""
SEED = 7
"""The demo shows the same flashbacks every time."""


def samples() -> Path:
    """Return the folder of the sample conversation: in the wheel, or in the source tree."""
    shipped = Path(str(files("memory_server"))) / "samples"
    if shipped.is_dir():
        return shipped
    return Path(__file__).parents[2] / "data" / "samples"


async def demo(settings: Settings, flags: Namespace) -> None:
    """Store a sample chat in a temporary folder, and print what each question recalls and why."""
    language: str = settings.language
    if language == "auto":
        language = spoken()

    sample = samples()
    if language != "zh":
        sample = sample / language

    with tempfile.TemporaryDirectory(
        prefix="memory-server-demo-", ignore_cleanup_errors=True
    ) as folder:
        overrides = {"data_dir": Path(folder), "timezone": ZONES[language], "seed": SEED}
        await _run(settings.model_copy(update=overrides), sample, flags)


async def _run(settings: Settings, sample: Path, flags: Namespace) -> None:
    """Ask the brief questions of the sample without random memories, or with --all every question."""
    chat = sample_of(
        (sample / "companion.jsonl").read_bytes(),
        (sample / "triggers.json").read_bytes(),
        settings.zone,
    )

    all_questions: list[dict[str, Any]] = json_text.loads((sample / "questions.json").read_bytes())
    questions = all_questions

    if not flags.all:
        questions = [question for question in all_questions if question.get("brief")]
        settings = settings.with_flashbacks(0)

    conversation_id = chat.conversation_id
    messages = sum(len(memory.messages) for memory in chat.short_term)
    async with _that_day(settings, questions[0]) as app:
        await store(app, chat, "chat", dry_run=False)

    say(
        "{messages} messages of [bold]{conversation}[/] became {short_term} memories; there are {long_term} "
        "triggers. Now it is later, and {name} says:\n",
        messages,
        conversation_id,
        len(chat.short_term),
        len(chat.long_term),
        chat.short_term[0].messages[0].name,
    )

    as_expected = 0
    for number, question in enumerate(watched(_("asking"), questions, len(questions))):
        # Each day opens the memory again, so what it knows comes from the disk.
        seeded = settings.model_copy(update={"seed": SEED + number})
        async with _that_day(seeded, question) as app:
            as_expected += await _ask(app, conversation_id, question, why=flags.why)

    if as_expected == len(questions):
        say("All {questions} questions recalled the expected memories.", len(questions))
    else:
        say(
            "{as_expected} of {questions} questions recalled the expected memories.",
            as_expected,
            len(questions),
        )

    if len(questions) < len(all_questions):
        hint(
            "--all asks all {questions}; --why shows the words and points behind each memory.",
            len(all_questions),
        )


def _that_day(settings: Settings, question: Mapping[str, Any]) -> App:
    """Open the memory at the time of the question."""
    expected = question.get("expect")
    if expected is not None and not any(expected.values()):
        settings = settings.with_flashbacks(0)  # the question shows that nothing comes
    return App(settings.model_copy(update={"now": datetime.fromisoformat(question["now"])}))


async def _ask(
    view: CallerView, conversation_id: str, question: Mapping[str, Any], *, why: bool
) -> bool:
    """Ask the question, print the results, and return whether they are what the sample expects."""
    moment = datetime.fromisoformat(question["now"]).astimezone(view.zone)
    title = f"{moment:%Y-%m-%d %H:%M}  {question['about']}"
    short, long = await ask(view, conversation_id, question["messages"], title, why=why)

    relevant = [*short["topRelevant"], *short["nextRelevant"]]
    recalled_texts = [item["text"] for item in relevant if not item.get("weak")]
    fired_names = {trigger["name"] for trigger in long["activated"]}

    expected = question["expect"]

    # The sample may expect that nothing is recalled.
    if not any(expected.values()):
        return not recalled_texts and not fired_names
    recalled = "\n".join(recalled_texts)
    all_recalled = all(word in recalled for word in expected["recalled"])
    return all_recalled and fired_names.issuperset(expected["fires"])
