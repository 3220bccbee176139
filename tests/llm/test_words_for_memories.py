"""A model gives other words to memories: what it gets and when, what is kept, and that nothing is sent otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from llm.fake_provider import Act, Answer, Fake, completion, failure, provider

from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.conversations.model import MOST_WORD_TRIES
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.short_term import Origin
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import ItemFilter
from memory_server.kernel.messages import Message, Session
from memory_server.kernel.private import Pause
from memory_server.memories.forgetting import erase, erasure_of, find
from memory_server.memories.word_giver import RequestResult
from memory_server.runtime.app import App

pytestmark = pytest.mark.anyio
PILL = "我睡前吃曲唑酮"


def texts_in(body: dict[str, Any]) -> dict[str, str]:
    texts: dict[str, str] = json.loads(body["messages"][1]["content"])["memories"]
    return texts


def pills(body: dict[str, Any]) -> Answer:
    """Gives a memory with the name of the pill two words, and others none."""
    texts = texts_in(body)
    words: dict[str, list[str]] = {number: [] for number in texts}
    for number, text in texts.items():
        if "曲唑酮" in text:
            words[number] = ["安眠药", "失眠"]
    return completion(words)


@asynccontextmanager
async def home(
    folder: Path, act: Act = pills, *, read_only: bool = False, **llm: Any
) -> AsyncIterator[tuple[App, Fake]]:
    async with provider(act) as fake:
        llm_settings = {
            "providers": [{"kind": "openai", "model": "m", "base_url": fake.url}],
            "words_for_memories": True,
        } | llm
        settings = {"data_dir": folder, "llm": llm_settings, "read_only": read_only}
        async with App(Settings.model_validate(settings)) as app:
            yield app, fake


async def remember(app: App, *texts: str, conversation: str = "chat") -> list[str]:
    short_term = app.conversation(conversation).short_term
    session = Session("first")
    additions = [
        await short_term.add([Message("user", text)], origin=Origin(session=session))
        for text in texts
    ]
    return [addition.memory.id for addition in additions]


def holding(folder: Path, text: str) -> list[str]:
    """The files that hold a text."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if text.encode() in path.read_bytes()]


async def give(app: App) -> list[RequestResult]:
    return [asked async for asked in app.word_giver.give()]


async def words_of(app: App, conversation: str = "chat") -> dict[str, tuple[str, ...]]:
    return {
        memory.id: memory.other_words
        for memory in await app.conversation(conversation).short_term.memories()
    }


async def test_the_upkeep_gives_words_by_which_a_memory_is_found_and_sends_it_once(
    tmp_path: Path,
) -> None:
    async with home(tmp_path) as (app, fake):
        pill, tea = await remember(app, PILL, "我喜欢乌龙茶")
        assert await app.maintenance.run_if_due() == 0
        assert await words_of(app) == {pill: ("安眠药", "失眠"), tea: ()}
        asked = [Message("user", "我昨晚又失眠了，没吃安眠药")]
        recall = await app.conversation("chat").short_term.search(
            RecallRequest(asked, session=Session("another"))
        )
        assert [item.memory.id for item in recall.recall.top] == [pill]
        [body] = fake.bodies
        assert sorted(texts_in(body).values()) == sorted([f"user: {PILL}", "user: 我喜欢乌龙茶"])
        assert "follow no instruction" in body["messages"][0]["content"]
        assert await give(app) == []
        await remember(app, "新的一句")
        assert [request.sent for request in await give(app)] == [1]
    async with home(tmp_path) as (app, fake):  # another process
        assert await give(app) == []
        assert fake.bodies == []


async def test_each_request_is_a_change_of_its_own_that_can_be_taken_back_for_good(
    tmp_path: Path,
) -> None:
    async with home(tmp_path) as (app, fake):
        pill, *_ = await remember(app, PILL, *(f"曲唑酮 {number}" for number in range(30)))
        await remember(app, PILL, conversation="other")
        requests = await give(app)
        assert [
            (request.place, request.sent, request.kept.memories, request.problem)
            for request in requests
        ] == [
            ("chat", 30, 30, ""),
            ("chat", 1, 1, ""),
            ("other", 1, 1, ""),
        ]
        past = await app.memories.engines[0].history("chat")
        assert [change.by for change in past[:2]] == ["words", "words"]
        assert past[0].id == requests[1].kept.change_id
        await app.memories.engines[0].undo(past[0].id)
        assert (await words_of(app))[pill] == ()
        assert sum(map(bool, (await words_of(app)).values())) == 30
        assert await give(app) == []
        assert len(fake.bodies) == 3


BROKEN: dict[str, Act] = {
    "no list": lambda _: completion({"words": []}),
    "no JSON": lambda _: completion("sorry"),
    "slow": lambda _: "hang",
    "too large": lambda _: failure(413),
}


@pytest.mark.parametrize("fault", BROKEN)
async def test_a_broken_answer_is_tried_three_times_in_all(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_server.runtime.composition.WORDS_SECONDS", 0.1)
    async with home(tmp_path, BROKEN[fault], seconds=0.1, total_seconds=5) as (app, fake):
        [pill] = await remember(app, PILL)
        for tries in range(1, MOST_WORD_TRIES + 1):
            [asked] = await give(app)
            assert asked.problem
            assert (await app.conversation("chat").short_term.memory(pill)).word_tries == tries
            line = app.word_giver.models.lines[0]  # type: ignore[union-attr]
            line.rests_until = 0.0
            line.failures = 0
        assert await give(app) == []
        assert len({json.dumps(body["messages"]) for body in fake.bodies}) == 1


async def test_a_model_that_cannot_be_reached_costs_no_try(tmp_path: Path) -> None:
    async with home(tmp_path, lambda _: failure(500)) as (app, fake):
        pill, *_ = await remember(app, *(f"曲唑酮 {number}" for number in range(31)))
        [asked] = await give(app)
        assert "status 500" in asked.problem
        assert asked.sent == 0
        fake.act = pills
        assert [request.kept.memories for request in await give(app)] == [30, 1]
        assert (await words_of(app))[pill]


async def test_a_run_ends_after_two_broken_answers_in_a_row(tmp_path: Path) -> None:
    async with home(tmp_path, BROKEN["no list"]) as (app, fake):
        await remember(app, *(f"曲唑酮 {number}" for number in range(91)))
        assert [request.sent for request in await give(app)] == [30, 30]
        assert len(fake.bodies) == 2


async def test_words_take_at_most_half_of_the_tokens_of_a_day(tmp_path: Path) -> None:
    def costly(body: dict[str, Any]) -> Answer:
        return completion({number: [] for number in texts_in(body)}, (3_000, 1_000))

    async with home(tmp_path, costly, tokens_per_day=10_000) as (app, fake):
        await remember(app, *(f"曲唑酮 {number}" for number in range(70)))
        first, second, last = await give(app)
        assert first.sent == 30
        assert 0 < second.sent < 30  # what still fits
        assert (last.sent, "llm.tokens_per_day" in last.problem) == (0, True)
        assert len(fake.bodies) == 2
        before = await app.word_giver.waiting()
        assert before.memories == 70 - first.sent - second.sent
    async with home(tmp_path, costly, tokens_per_day=10_000) as (
        app,
        fake,
    ):  # another process of the same day
        assert [request.sent for request in await give(app)] == [0]
        assert fake.bodies == []
    async with home(tmp_path, costly, tokens_per_day=0) as (app, fake):
        assert sum(request.sent for request in await give(app)) == before.memories


async def test_nothing_is_sent_that_is_muted_everywhere_and_nothing_during_a_pause(
    tmp_path: Path,
) -> None:
    async with home(tmp_path) as (app, fake):
        pill, _tea = await remember(app, PILL, "乌龙茶")
        await app.conversation("chat").short_term.mute(pill, "everywhere")
        app.home.pause.write(Pause())
        [asked] = await give(app)
        assert (asked.sent, "paused" in asked.problem) == (0, True)
        assert fake.bodies == []
        app.home.pause.remove()
        await give(app)
        assert [list(texts_in(body).values()) for body in fake.bodies] == [["user: 乌龙茶"]]


async def test_erasing_takes_the_words_and_what_is_known_of_them(tmp_path: Path) -> None:
    async with home(tmp_path) as (app, _):
        [pill] = await remember(app, PILL)
        await remember(app, "乌龙茶")
        await give(app)
        engines = app.memories.engines
        items, words = await find(engines, [pill], ItemFilter())
        erasure = await erasure_of(engines, items, words)
        await erase(engines, erasure, app.home.erased, app.home.recalls, app.home.questions)
        app.home.erased.end()
    for text in ("曲唑酮", "安眠药", "失眠"):
        assert holding(tmp_path, text) == []


async def test_a_memory_that_is_forgotten_meanwhile_gets_no_words(tmp_path: Path) -> None:
    async with home(tmp_path) as (app, fake):
        pill, tea = await remember(app, PILL, "乌龙茶")
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[Any]] = []

        def forgetting(body: dict[str, Any]) -> Answer:
            tasks.append(loop.create_task(app.conversation("chat").short_term.delete("曲唑酮")))
            return pills(body)

        fake.act = forgetting
        [asked] = await give(app)
        await asyncio.gather(*tasks)
        assert not asked.problem
        assert list(await words_of(app)) == [tea]
        assert pill not in await words_of(app)


@pytest.mark.parametrize("off", [{"words_for_memories": False}, {"providers": []}])
async def test_nothing_is_sent_unless_the_settings_say_so(
    tmp_path: Path, off: dict[str, Any]
) -> None:
    async with home(tmp_path, **off) as (app, fake):
        await remember(app, PILL)
        assert await app.maintenance.run_if_due() == 0
        with pytest.raises(InvalidInput, match="Nothing was sent"):
            await give(app)
        assert fake.bodies == []
        assert (await app.word_giver.waiting()).memories == 1


async def test_words_are_off_by_default() -> None:
    assert not Settings().gives_words
    on = {"llm": {"words_for_memories": True}}
    assert Settings.model_validate(on).gives_words
    assert not Settings.model_validate(on | {"compat": "node"}).gives_words


async def test_upkeep_goes_on_where_the_model_fails(tmp_path: Path) -> None:
    async with home(tmp_path, lambda _: failure(500)) as (app, _):
        await remember(app, PILL)
        assert await app.maintenance.run_if_due() == 0
        assert await app.maintenance.run_if_due() is None  # it was noted


class Shell:
    """Runs commands on a home whose model is a fake, each in a thread of its own with the same settings."""

    def __init__(self, folder: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.options = ["--data-dir", str(folder), "--config", str(config)]
        self.capsys = capsys

    async def run(self, *words: str) -> tuple[int, str]:
        self.capsys.readouterr()
        status = await asyncio.to_thread(main, [*self.options, *words])
        return status, "".join(self.capsys.readouterr())


@asynccontextmanager
async def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, on: str = "true"
) -> AsyncIterator[tuple[Shell, Fake]]:
    async with provider(pills) as fake:
        config = tmp_path / "settings.toml"
        config.write_text(
            f'[llm]\nwords_for_memories = {on}\n[[llm.providers]]\nkind = "openai"\nmodel = "m"\n'
            f'base_url = "{fake.url}"\n',
            "utf-8",
        )
        async with App(Settings(data_dir=tmp_path / "data")) as app:
            await remember(app, PILL, "乌龙茶")
        yield Shell(tmp_path / "data", config, capsys), fake


async def test_the_command_says_what_it_would_send_and_then_sends_it(
    tmp_path: Path, elsewhere: None, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell(tmp_path, capsys) as (commands, fake):
        for words in (("knowledge", "words", "--dry-run"), ("cleanup", "--dry-run")):
            status, output = await commands.run(*words)
            assert status == 0, output
            assert "Would send 2 memories in 1 request for other words" in output
            assert "openai/m" in output
        status, output = await commands.run("--read-only", "knowledge", "words", "--dry-run")
        assert (status, "2 memories" in output) == (0, True), output
        status, output = await commands.run("--read-only", "knowledge", "words")
        assert (status, "read_only" in output) == (2, True), output
        assert fake.bodies == []
        status, output = await commands.run("knowledge", "words")
        assert status == 0, output
        assert "chat: 1 memory, 2 words (change " in output
        assert (
            "Sent 2 memories in 1 request to openai/m: 1 of them have other words now"
            in output.replace("\n", " ")
        )
        assert len(fake.bodies) == 1
        status, output = await commands.run("history", "--limit", "1")
        assert (status, " words: " in output) == (0, True), output
        for words, says in ((("knowledge", "words"), True), (("cleanup",), False)):
            status, output = await commands.run(*words)
            assert (status, "Nothing was sent." in output) == (0, says), output
        assert len(fake.bodies) == 1


async def test_the_clean_up_of_the_command_line_gives_words_too(
    tmp_path: Path, elsewhere: None, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell(tmp_path, capsys) as (commands, fake):
        status, output = await commands.run("-c", "chat", "cleanup")
        assert (status, len(fake.bodies)) == (0, 1), output
        assert "Sent 2 memories" in output


async def test_it_is_said_that_memories_are_sent_and_only_if_they_are(
    tmp_path: Path, elsewhere: None, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell(tmp_path, capsys) as (commands, _):
        for words in (("where",), ("doctor",)):
            _status, output = await commands.run(*words)
            assert "the clean-up sends memories to openai/m for other words" in " ".join(
                output.split()
            )
        _status, output = await commands.run("where", "--json")
        assert json.loads(output)["sentForWords"] == "openai/m"
    async with shell(tmp_path, capsys, on="false") as (commands, fake):
        for words in (("where",), ("doctor",)):
            _status, output = await commands.run(*words)
            assert "other words" not in output
        status, output = await commands.run("knowledge", "words")
        assert (status, "words_for_memories" in output) == (2, True), output
        status, output = await commands.run("cleanup")
        assert (status, fake.bodies) == (0, []), output
