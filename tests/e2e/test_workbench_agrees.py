"""What the workbench says is what the server does: the same verdicts by search_long_term_memories, fixtures and run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from memory_server import open_memory
from memory_server.config import Settings
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call
from sandbox import Fired, TriggerSandbox, Verdict
from sandbox.chats.chat import Message
from sandbox.workbench.chat_replay import Replay, verdicts_along
from sandbox.workbench.explain import word
from sandbox.workbench.files import read_chat, read_usable
from sandbox.workbench.run import perform

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"
ZONE = "Asia/Shanghai"
WINDOW = 20
MORE = {
    "by return": "if (context.messages.length > 9) return match_keys(context.messages, ['好'])\nreturn false",
    "by await": "await match_keys(args, ['好'], 'both', 2) && !match_keys_all(args, ['好', '吗'])",
    "by statements": "let n = 0\nfor (const m of context.messages) n += m.content.length\nn % 2 === 0",
    "who fails": "context.participants.nobody.name === '小满'",
    "own time": "new Date().getMinutes() < 30 || new Date().getDay() === 0",
}


def replay() -> Replay:
    messages = []
    for message in read_chat(str(SAMPLES / "companion.jsonl")):
        messages.append({key: message[key] for key in ("role", "content", "name", "timestamp")})
    return Replay(messages=messages, now=datetime.now(UTC), timezone=ZONE, window=WINDOW)


async def activated(folder: Path, now: datetime, messages: Sequence[Message]) -> set[str]:
    """What a server finds at that time."""
    async with open_memory(folder, settings=Settings(timezone=ZONE, now=now)) as app:
        answer = await call(
            TOOLS["search_long_term_memories"], app.call, {"messages": list(messages)}
        )
    return {memory["name"] for memory in answer.structured["activated"]}


async def stored(folder: Path, pack: Mapping[str, str]) -> None:
    async with open_memory(folder, settings=Settings(timezone=ZONE)) as app:
        for name, trigger in pack.items():
            added = {"name": name, "prompt": "p", "trigger": trigger}
            await call(TOOLS["add_long_term_memory"], app.call, added)


def verdicts_of(
    sources: Sequence[str], along: Replay, numbers: Sequence[int]
) -> list[list[Verdict]]:
    """Return for each source the verdicts after the messages with these numbers, from 1."""
    all_scenes = along.scenes()
    scenes = [all_scenes[number - 1] for number in numbers]

    async def work() -> list[list[Verdict]]:
        async with TriggerSandbox(timezone=along.timezone) as sandbox:
            return [await verdicts_along(sandbox, source, scenes) for source in sources]

    return asyncio.run(work())


def test_the_server_fires_what_a_fixture_fires(tmp_path: Path) -> None:
    along = replay()
    pack = {
        memory.name: memory.trigger for memory in read_usable(str(SAMPLES / "triggers.json"))[0]
    } | MORE
    numbers = range(5, len(along.messages), 60)
    series = verdicts_of(list(pack.values()), along, numbers)
    asyncio.run(stored(tmp_path, pack))
    moments = along.moments()
    total = 0
    for index, number in enumerate(numbers):
        fired_names = asyncio.run(
            activated(tmp_path, moments[number - 1], along.context(number)["messages"])
        )
        total += len(fired_names)
        verdicts = {name: verdicts[index] for name, verdicts in zip(pack, series, strict=True)}
        assert fired_names == {
            name for name, verdict in verdicts.items() if isinstance(verdict, Fired)
        }, number
    assert total > 8


def test_run_says_what_a_fixture_says() -> None:
    along = replay()
    sources = list(MORE.values())
    number = 100
    scene = along.scenes()[number - 1]
    for source, [verdict] in zip(sources, verdicts_of(sources, along, [number]), strict=True):
        report = perform(source, scene, ZONE)
        assert word(report.verdict) == word(verdict), source
        assert report.traced is None or word(report.traced) == word(report.verdict)
