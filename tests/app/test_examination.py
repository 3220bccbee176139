"""The owner's examination: what was asked is asked again as it was then, and nothing but a regression is told."""

from __future__ import annotations

import asyncio
import json
import shutil
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgres import tenant_of_its_own
from sample_memories import copy_of, random_changes, state_of

from memory_server import App, Message, Settings
from memory_server.conversations import search
from memory_server.conversations.changes import Commit, Edited, apply
from memory_server.conversations.model import Correction
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.conversations.short_term import Origin
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import ItemFilter
from memory_server.kernel.messages import Session
from memory_server.kernel.recorded_recall import recorded_recall
from memory_server.kernel.times import MINUTE_MS, milliseconds
from memory_server.memories import questions
from memory_server.operations import examining
from memory_server.operations.erasing import EraseRequest, erase, plan_erasing
from memory_server.operations.examining import (
    ExamineReport,
    ExamineRequest,
    Past,
    examine,
    unexamined_finding,
)
from memory_server.runtime import runtime

pytestmark = pytest.mark.anyio
BEGIN = milliseconds(datetime.fromisoformat("2026-06-01T08:00:00+08:00"))
SAID = (
    "I love tea, most of all Phoenix oolong from the market",
    "My sister Halloran plays the cello in an orchestra",
    "我喜欢披萨，最喜欢榴莲味的",
    "We hiked on Mount Snowdon yesterday and my legs trembled",
    "My cat Miso stole the salmon from the kitchen table",
    "The dentist wants to see me on Thursday about the crown",
    "My cousin Anselm works at the post office in Tromso",
    "昨天带芝麻去看了兽医，它打了疫苗",
)
ASKED = (
    "Which tea do I love?",
    "Who plays the cello?",
    "晚上吃披萨吗？",
    "Where did we go hiking yesterday?",
    "What did my cat steal from the kitchen?",
    "When does the dentist want to see me?",
    "Where does my cousin Anselm work?",
    "芝麻什么时候打的疫苗？",
    "How do I sort a list in Haskell?",
)


class Clock:
    def __init__(self) -> None:
        self.now_ms = BEGIN

    def __call__(self) -> int:
        return self.now_ms

    def wait(self, minutes: float) -> None:
        self.now_ms += round(minutes * MINUTE_MS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(runtime, "clock_from", lambda _now: clock)
    return clock


@pytest.fixture(params=["files", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    usual = _in_files(tmp_path / "home")
    if request.param == "files":
        yield usual
        return
    with tenant_of_its_own() as (database, tenant):
        yield usual.model_copy(update={"store": f"{database.url}#{tenant}"})


@pytest.fixture
def in_files(tmp_path: Path) -> Settings:
    return _in_files(tmp_path / "home")


def _in_files(folder: Path) -> Settings:
    return Settings(data_dir=folder, timezone="Asia/Shanghai", seed=1)


async def live(app: App, clock: Clock) -> dict[str, str]:
    """Live two weeks: say all, ask for all, and mute, edit, forget and correct. Returns the ids by the first word."""
    chat = app.conversation("default").short_term
    ids: dict[str, str] = {}
    for number, text in enumerate(SAID):
        stored = await chat.add(
            [Message("user", text)], origin=Origin(f"t{number}", session=Session(f"s{number}"))
        )
        ids[text] = stored.memory.id
        clock.wait(2)
        await app.recall_turn([Message("user", ASKED[number])], session=Session("another window"))
        clock.wait(25)
    for day in range(3):
        for number, question in enumerate(ASKED):
            session = Session(f"day {day}, {number}")
            await app.recall_turn([Message("user", question)], session=session)
            clock.wait(2)
            await chat.add([Message("user", f"{question} Tell me, {day}")], session=session)
            await app.recall_turn([Message("user", question)], session=session)
            clock.wait(25)
        clock.wait(2 * 24 * 60)
    await chat.mute(ids[SAID[4]], "everywhere")
    await chat.edit(ids[SAID[5]], ["The dentist wants to see me on Friday about the crown"])
    await chat.add(
        [
            Message(
                "user", "My cousin Anselm works at the airport now, no longer at the post office"
            )
        ],
        corrects=[ids[SAID[6]]],
    )
    await chat.delete("vaccin")
    clock.wait(24 * 60)
    for question in ASKED:
        await app.recall_turn([Message("user", question)])
        clock.wait(5)
    clock.wait(120)
    return ids


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[App]:
    async with App(settings) as app:
        yield app


@dataclass(frozen=True)
class LivedHome:
    """A home in files after `live`, the time then, and the ids of its memories."""

    folder: Path
    now_ms: int
    ids: dict[str, str]

    @asynccontextmanager
    async def opened(
        self, settings: Settings, clock: Clock
    ) -> AsyncIterator[tuple[App, dict[str, str]]]:
        """Open a copy of this home, or live the two weeks in PostgreSQL, whose tenants cannot be copied."""
        if settings.store is not None:
            async with App(settings) as app:
                yield app, await live(app, clock)
            return

        shutil.copytree(self.folder, settings.folder)
        clock.now_ms = self.now_ms
        async with App(settings) as app:
            yield app, self.ids


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> LivedHome:
    """The home that the tests of this module copy: living takes longer than what they examine."""
    clock = Clock()
    folder = tmp_path_factory.mktemp("lived") / "home"

    async def ids_of_life() -> dict[str, str]:
        async with App(_in_files(folder)) as app:
            return await live(app, clock)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "clock_from", lambda _now: clock)
        ids = asyncio.run(ids_of_life())
    return LivedHome(folder, clock.now_ms, ids)


async def asked(app: App, **request: bool) -> ExamineReport:
    return await examine(app, ExamineRequest(**request))


def told(report: ExamineReport) -> list[tuple[str, str, bool]]:
    return [
        (answer.question.recall.said, memory.memory_id, memory.came)
        for answer in report.changed
        for memory in answer.memories
    ]


def files_of(home: Path) -> list[Path]:
    return sorted((home / ".memory-server" / "questions").glob("*.jsonl"))


async def test_the_same_version_and_settings_change_no_answer(
    settings: Settings, clock: Clock, lived: LivedHome
) -> None:
    async with lived.opened(settings, clock) as (app, _ids):
        first = await asked(app)
    assert first.new == first.asked > 60
    assert told(first) == []
    assert '"flashback"' not in _text_of(settings), "nothing comes by chance"

    # What happens later is taken back for a question of before.
    async with opened(settings) as app:
        chat = app.conversation("default").short_term
        await chat.add([Message("user", "The best tea is Phoenix oolong, and my cat Miso agrees")])
        for question in ASKED:
            await app.recall_turn([Message("user", question)])
        await chat.mute((await chat.memories())[0].id, "everywhere")
        clock.wait(5 * 24 * 60)
        second = await asked(app)
    assert second.asked > first.asked
    assert (told(second), second.other_points, second.too_old) == ([], 0, 0)


async def test_it_stores_no_memory_and_moves_no_score(
    in_files: Settings, clock: Clock, lived: LivedHome
) -> None:
    async with lived.opened(in_files, clock):
        pass
    home = in_files.folder
    before = _bytes_beside_questions(home)
    async with opened(in_files) as app:
        await asked(app)
        await asked(app, accept=True)
    assert _bytes_beside_questions(home) == before


def _bytes_beside_questions(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and path.parent.name != "questions"
    }


def _without_mutes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(search, "muting_places", lambda *_: frozenset())


def _without_corrections(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(search, "newer_by_older", lambda _memories: {})


def _nothing(_patch: pytest.MonkeyPatch) -> None:
    """The code stays as it is."""


REGRESSIONS: list[tuple[dict[str, Any], Callable[[pytest.MonkeyPatch], None]]] = [
    ({"short_term": {"threshold": 100}}, _nothing),
    ({"short_term": {"top_count": 1, "next_count": 0, "flashback_count": 0}}, _nothing),
    ({"short_term": {"own_conversation_minutes": 0}}, _nothing),
    ({"short_term": {"sessions": False}}, _nothing),
    ({"words": {"stems": False}}, _nothing),
    ({"words": {"dates": False}}, _nothing),
    ({"words": {"function_words": 0, "pairs": 0}}, _nothing),
    ({"compat": "node"}, _nothing),
    ({"timezone": "America/Los_Angeles"}, _nothing),
    ({}, _without_mutes),
    ({}, _without_corrections),
]


@pytest.mark.parametrize(("changed", "break_code"), REGRESSIONS)
async def test_a_regression_is_told_with_both_reasons(
    in_files: Settings,
    clock: Clock,
    lived: LivedHome,
    changed: dict[str, Any],
    break_code: Callable[[pytest.MonkeyPatch], None],
) -> None:
    async with lived.opened(in_files, clock) as (app, _ids):
        await asked(app)
    with pytest.MonkeyPatch.context() as patch:
        break_code(patch)
        other = Settings(
            **{**in_files.model_dump(include={"data_dir", "timezone", "seed"}), **changed}
        )
        async with opened(other) as app:
            report = await asked(app)
    assert told(report) or report.other_points
    for answer in report.changed:
        for memory in answer.memories:
            assert memory.then, memory
            assert memory.now, memory
    async with opened(in_files) as app:
        assert told(await asked(app)) == [], "an answer that changed is not written"


async def test_accepting_takes_the_answers_of_now_as_right(
    in_files: Settings, clock: Clock, lived: LivedHome
) -> None:
    async with lived.opened(in_files, clock) as (app, _ids):
        await asked(app)
    strict = Settings(**in_files.model_dump(exclude={"short_term"}), short_term={"threshold": 100})
    async with opened(strict) as app:
        assert told(await asked(app, accept=True))
        assert told(await asked(app)) == []
    async with opened(in_files) as app:
        assert any(came for _said, _memory, came in told(await asked(app)))


async def test_a_reindex_after_other_settings_is_not_a_regression_and_a_missing_one_is(
    in_files: Settings, clock: Clock, lived: LivedHome
) -> None:
    async with lived.opened(in_files, clock) as (app, _ids):
        await asked(app)
    without = Settings(**in_files.model_dump(exclude={"words"}), words={"long_texts": False})
    async with opened(without) as app:
        await app.conversation("default").short_term.reindex()
    async with opened(in_files) as app:
        left_out = await asked(app)
        await app.conversation("default").short_term.reindex()
        found_again = await asked(app)
    assert told(left_out) or left_out.other_points
    assert (told(found_again), found_again.other_points) == ([], 0)


@pytest.mark.parametrize("word", ["Halloran", "榴莲", "Snowdon", "salmon", "vaccin", "Haskell"])
async def test_what_was_erased_is_in_no_byte_of_the_questions(
    settings: Settings, clock: Clock, lived: LivedHome, word: str
) -> None:
    async with lived.opened(settings, clock) as (app, _ids):
        chat = app.conversation("default").short_term
        # A long message, of which the record keeps the beginning and the end.
        await chat.add(
            [Message("user", f"{word} is where\nit began. " + "And so on and on. " * 30)]
        )
        clock.wait(30)
        for memory in await chat.memories():
            if word in memory.text:
                await app.recall_turn([Message("user", memory.messages[0].content)])
        await asked(app)
        assert word in _text_of(settings)

        await erase(app, await plan_erasing(app, EraseRequest([word], ItemFilter(archived=None))))
        assert word not in _text_of(settings)
        after = await asked(app)
        again = await asked(app)
    assert word not in _text_of(settings)
    assert after.asked > 40
    assert (told(after), told(again), again.other_points) == ([], [], 0)


def _text_of(settings: Settings) -> str:
    return "".join(path.read_text() for path in files_of(settings.folder))


async def test_erasing_by_id_reaches_a_long_message_that_was_shortened(
    settings: Settings, clock: Clock, lived: LivedHome
) -> None:
    said = "The surgeon's name is Quillfeather.\n" + "We talked about the knee. " * 20
    async with lived.opened(settings, clock) as (app, _ids):
        await app.recall_turn([Message("user", said)])
        stored = await app.conversation("default").short_term.add([Message("user", said)])
        clock.wait(70)
        await asked(app)
        assert "Quillfeather" in _text_of(settings)
        await erase(app, await plan_erasing(app, EraseRequest([stored.memory.id], ItemFilter())))
        assert "Quillfeather" not in _text_of(settings)
        assert not [recall for recall in app.recalls.found() if "Quillfeather" in recall.said]


async def test_the_files_are_private_and_of_the_tenant(
    settings: Settings, clock: Clock, lived: LivedHome
) -> None:
    async with lived.opened(settings, clock) as (app, _ids):
        await asked(app)
        await asked(app)
        if not app.home.is_of_a_tenant:
            tenant = settings.model_copy(update=app.home.settings_of("alice"))
            async with opened(tenant) as theirs:
                await theirs.conversation().short_term.add([Message("user", SAID[0])])
                clock.wait(30)
                await theirs.recall_turn([Message("user", ASKED[0])])
                assert (await asked(theirs)).asked == 1
            assert [path.stem for path in files_of(tenant.folder)] == ["default"]
    [path] = files_of(settings.folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_nothing_is_written_where_nothing_may_be(
    in_files: Settings, clock: Clock, lived: LivedHome
) -> None:
    async with lived.opened(in_files, clock) as (app, _ids):
        assert (await asked(app, writes=False)).new > 60
    assert files_of(in_files.folder) == []


async def test_questions_last_as_long_as_the_record(
    in_files: Settings, clock: Clock, lived: LivedHome
) -> None:
    async with lived.opened(in_files, clock) as (app, _ids):
        await asked(app)
        clock.wait(40 * 24 * 60)
        app.recalls.tidy(clock(), app.home.questions)
        assert app.home.questions.lines() == []
        assert (await asked(app)).asked == 0


BROKEN = [
    (b"not a question", "Line 2 of "),
    (b"[]", "Line 2 of "),
    (b'{"at":"2026-06-10T08:00:00Z"}', "Line 2 of "),
    (b'{"at":"soon","conversation":"default","id":"x","said":"tea"}', "Line 2 of "),
    (b'{"at":"2026-06-10T08:00:00Z","conversation":"default","said":"tea"}', "`id` must be a text"),
    (
        b'{"at":"2026-06-10T08:00:00Z","conversation":"default","id":"x","said":" "}',
        "`said` must be a text that is not empty",
    ),
    (
        b'{"at":"2026-06-10T08:00:00Z","conversation":"default","id":"x","said":7}',
        "`said` must be a text that is not empty",
    ),
    (
        b'{"at":"2026-06-10T08:00:00Z","conversation":"default","id":"x","said":"tea","mustCome":"a"}',
        "`mustCome` must be a list of ids",
    ),
    (
        b'{"at":"2026-06-10T08:00:00Z","conversation":"default","id":"x","said":"tea","otherWords":['
        + b",".join(b'"w%d"' % number for number in range(99))
        + b"]}",
        "cannot be asked",
    ),
    (b'{"at":"2026-06-10T08:00:00Z","conver', "Line 2 of "),
    (b"\xff\xfe\x00", "Line 2 of "),
]


@pytest.mark.parametrize(("line", "sentence"), BROKEN)
async def test_a_broken_line_gives_one_sentence_and_changes_nothing(
    in_files: Settings, clock: Clock, line: bytes, sentence: str
) -> None:
    async with opened(in_files) as app:
        chat = app.conversation("default").short_term
        await chat.add([Message("user", SAID[0])])
        clock.wait(30)
        await app.recall_turn([Message("user", ASKED[0])])
        await asked(app)
        [path] = files_of(in_files.folder)
        edited = path.read_bytes() + line + b"\n"
        path.write_bytes(edited)
        clock.wait(30)
        with pytest.raises(InvalidInput) as refusal:
            await asked(app)
        assert sentence in str(refusal.value)
        assert "\n" not in str(refusal.value)
        assert path.read_bytes() == edited


async def test_a_person_edits_what_must_come_and_switches_a_question_off(
    in_files: Settings, clock: Clock, lived: LivedHome
) -> None:
    async with lived.opened(in_files, clock) as (app, ids):
        await asked(app)
        [path] = files_of(in_files.folder)
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        tea = ids[SAID[0]]
        chosen = [line for line in lines if tea in [item["id"] for item in line.get("came", ())]]
        chosen[0] |= {"mustCome": [ids[SAID[1]]], "mustNotCome": [ids[SAID[0]]]}
        chosen[1] |= {"mustCome": ["nothing"], "off": True}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        report = await asked(app)
    [answer] = report.changed
    assert {memory.memory_id: memory.came for memory in answer.memories} == {
        ids[SAID[1]]: False,
        ids[SAID[0]]: True,
    }


async def test_after_an_upgrade_doctor_has_a_note(
    in_files: Settings, clock: Clock, lived: LivedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lived.opened(in_files, clock) as (app, _ids):
        await asked(app)
        assert unexamined_finding(app.home.questions) is None
        monkeypatch.setattr(examining, "version_line", lambda: "memory-server 9.9.9")
        finding = unexamined_finding(app.home.questions)
        assert finding is not None
        assert finding.what.startswith("memory-server 0.")
        await asked(app)
        assert unexamined_finding(app.home.questions) is None
        files_of(in_files.folder)[0].write_bytes(b"broken\n")
        finding = unexamined_finding(app.home.questions)
    assert finding is not None
    assert finding.grade == "warning"


@given(st.integers(0, 2**32), st.integers(0, 40))
def test_taking_back_leads_to_each_state_of_the_past(seed: int, count: int) -> None:
    rng = Random(seed)
    state = state_of()
    commits: list[Commit] = []
    states = [copy_of(state)]
    for version, change in enumerate(random_changes(state_of(), rng, count), 1):
        commits.append(Commit(version, BEGIN + version * 1000, "test", (change,)))
        apply(state, [change])
        states.append(copy_of(state))
    past = Past(state, commits[::-1], oldest_ms=0, wording=_AS_STORED)
    chosen = sorted({rng.randint(0, count) for _time in range(9)}, reverse=True)
    for version in chosen:
        at = past.at(BEGIN + version * 1000 + 500)
        assert _of_memories(at) == _of_memories(states[version])


class _Words(KeywordOptions):
    """The words of a memory stay as they are."""

    def is_of(self, memory: Any) -> bool:
        return True


_AS_STORED = _Words()


def _of_memories(state: Any) -> dict[str, Any]:
    return {
        memory.id: replace(memory, score=round(memory.score, 6), words=(), weights=())
        for memory in state.short_term.values()
    }


THEN = {
    "id": "q",
    "at": "2026-06-10T08:00:00.000Z",
    "conversation": "default",
    "said": "tea?",
    "version": "1",
    "came": [{"id": "a", "tier": "top", "relevance": 30.0}, {"id": "t", "tier": "trigger"}],
    "near": [{"id": "b", "lacked": "points", "points": 2.0}],
}
ANSWERS = [
    ({}, ["a"], []),
    ({}, [], ["-a"]),
    ({}, ["a", "b"], ["+b"]),
    ({}, ["b", "c"], ["-a", "+b", "+c"]),
    ({"version": ""}, ["b", "c"], []),
    ({"mustCome": ["d"]}, ["a"], ["-d"]),
    ({"mustCome": ["a"]}, ["a"], []),
    ({"mustNotCome": ["a"]}, ["a"], ["+a"]),
    ({"mustNotCome": ["b"]}, ["a"], []),
    ({"version": "", "mustNotCome": ["b"]}, ["b"], ["+b"]),
]


@pytest.mark.parametrize(("fields", "ids", "expected"), ANSWERS)
def test_what_an_answer_lost_and_gained(
    fields: dict[str, Any], ids: list[str], expected: list[str]
) -> None:
    question = questions.question_of(THEN | fields)
    came = [{"id": memory_id, "tier": "top", "relevance": 30.0} for memory_id in ids]
    found = questions.differences(question, recorded_recall(THEN | {"came": came}))
    assert [f"{'+' if each.came else '-'}{each.memory_id}" for each in found] == expected


@pytest.mark.parametrize("remover", ["examine", "upkeep"])
async def test_what_another_machine_erased_is_gone_here_too(
    settings: Settings, clock: Clock, lived: LivedHome, remover: str
) -> None:
    word = "dentist"
    own: dict[str, Any] = {
        "id": "mine",
        "at": "2026-06-10T08:00:00.000Z",
        "conversation": "default",
        "said": "?",
        "version": "1",
    }
    async with lived.opened(settings, clock) as (app, ids):
        await asked(app)
        [path] = files_of(settings.folder)
        dentist = ids[SAID[5]]
        own["near"] = [{"id": dentist, "lacked": "points", "points": 2.0}]
        of_the_other_machine = path.read_bytes() + json.dumps(own).encode() + b"\n"
        await erase(app, await plan_erasing(app, EraseRequest([word], ItemFilter(archived=None))))
        path.write_bytes(of_the_other_machine)
        assert word in _text_of(settings)
        if remover == "examine":
            await asked(app)
        else:
            clock.wait(2 * 24 * 60)
            await app.maintenance.run_if_due()
        lines = app.home.questions.lines()
    assert word not in _text_of(settings)
    assert dentist not in _text_of(settings)
    assert len(lines) > 40
    assert own["id"] in [line["id"] for line in lines]


async def test_what_is_erased_as_an_examination_starts_is_not_written_again(
    settings: Settings, clock: Clock, lived: LivedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = "dentist"
    async with lived.opened(settings, clock) as (app, _ids):
        read = examining._recorded

        async def read_and_erase(*arguments: Any) -> Any:
            monkeypatch.setattr(examining, "_recorded", read)
            recorded = await read(*arguments)
            await erase(
                app, await plan_erasing(app, EraseRequest([word], ItemFilter(archived=None)))
            )
            return recorded

        monkeypatch.setattr(examining, "_recorded", read_and_erase)
        report = await asked(app)
    assert word not in _text_of(settings)
    assert report.new == report.total == len(_text_of(settings).splitlines())


async def test_no_answer_names_what_was_erased_while_the_questions_were_asked(
    settings: Settings, clock: Clock, lived: LivedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lived.opened(settings, clock) as (app, ids):
        tea = ids[SAID[0]]
        drop = examining.drop_unrecorded

        async def drop_and_erase(*arguments: Any) -> Any:
            monkeypatch.setattr(examining, "drop_unrecorded", drop)
            recorded = await drop(*arguments)
            await erase(app, await plan_erasing(app, EraseRequest([tea], ItemFilter())))
            return recorded

        monkeypatch.setattr(examining, "drop_unrecorded", drop_and_erase)
        await asked(app)
        assert tea not in _text_of(settings)
        assert told(await asked(app)) == []


BROKEN_LINE = (
    b'{"at":"2026-06-10T08:00:00Z","conversation":"default","id":"x","said":"the cello of Halloran"'
)


async def test_a_line_that_must_be_mended_stays_until_what_it_says_is_erased(
    in_files: Settings, clock: Clock
) -> None:
    async with opened(in_files) as app:
        chat = app.conversation("default").short_term
        tea = (await chat.add([Message("user", SAID[0])])).memory.id
        await chat.add([Message("user", SAID[1])])
        of_tea = b'{"mustCome":["' + tea.encode() + b'"],"said":"?"'
        path = in_files.folder / ".memory-server" / "questions" / "default.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(BROKEN_LINE + b"\n" + of_tea + b"\n")
        await app.maintenance.run_if_due()
        app.recalls.tidy(clock() + 10**10, app.home.questions)
        assert path.read_bytes() == BROKEN_LINE + b"\n" + of_tea + b"\n"
        await erase(app, await plan_erasing(app, EraseRequest(["Halloran"], ItemFilter())))
        assert path.read_bytes() == of_tea + b"\n"
        await erase(app, await plan_erasing(app, EraseRequest([tea], ItemFilter())))
        assert not path.exists()


async def test_a_conversation_is_read_without_what_is_written_meanwhile(
    settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(settings) as app:
        chat = app.conversation("default").short_term
        tea = (await chat.add([Message("user", SAID[0])])).memory.id
        asked_ms = clock()
        clock.wait(60)
        store = app.memories.services.store
        read = store.history

        async def history(*arguments: Any, **options: Any) -> Any:
            await chat.add([Message("user", SAID[1])])
            commits = await read(*arguments, **options)
            await chat.add([Message("user", SAID[2])])
            return commits

        monkeypatch.setattr(store, "history", history)
        past = await Past.read(app.memories.services, "default", 0)
        assert len(past.commits) == 1
        assert [*past.at(asked_ms).short_term] == [tea]
        assert len(await chat.memories()) == 3


@pytest.mark.parametrize("is_undone", [False, True])
async def test_what_was_forgotten_and_came_back_is_not_asked_about(
    settings: Settings, clock: Clock, is_undone: bool
) -> None:
    async with opened(settings) as app:
        chat = app.conversation("default").short_term
        await chat.add([Message("user", SAID[0])])
        clock.wait(90)
        removed = await chat.delete("oolong")
        clock.wait(20)
        if is_undone:
            await app.conversation("default").archive.undo(removed.change_id)
        clock.wait(90)
        report = await asked(app)
        assert told(report) == []
        assert report.total == (not is_undone)
        if not is_undone:
            await app.conversation("default").archive.undo(removed.change_id)
            assert (await asked(app)).total == 0


async def test_accepting_takes_back_the_demand_of_a_change_and_none_of_a_person(
    in_files: Settings, clock: Clock, lived: LivedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lived.opened(in_files, clock) as (app, ids):
        await asked(app)
        _without_mutes(monkeypatch)
        miso = ids[SAID[4]]
        assert (True, miso) in {
            (came, memory_id) for _said, memory_id, came in told(await asked(app))
        }
        await asked(app, accept=True)
        assert told(await asked(app)) == []

        [path] = files_of(in_files.folder)
        first, *others = map(json.loads, path.read_bytes().splitlines())
        first["mustCome"] = ["nothing"]
        path.write_text("".join(json.dumps(line) + "\n" for line in (first, *others)))
        await asked(app, accept=True)
        assert [memory_id for _said, memory_id, _came in told(await asked(app))] == ["nothing"]


async def test_an_edit_and_a_correction_in_one_commit_have_ids_of_their_own(
    in_files: Settings, clock: Clock
) -> None:
    async with opened(in_files) as app:
        chat = app.conversation("default").short_term
        older = (await chat.add([Message("user", SAID[0])])).memory
        newer = (await chat.add([Message("user", SAID[1])])).memory
    edited = Edited(replace(older, text="Tea"), older)
    corrected = Edited(replace(newer, corrects=(Correction(older.id, "caller"),)), newer)
    commit = Commit(3, clock(), "test", (edited, corrected))
    lines = list(
        questions.of_changes("default", [commit], {older.id: older}, clock() + 61 * MINUTE_MS)
    )
    assert [line["about"] for line in lines] == ["edited", "corrected"]
    assert len({line["id"] for line in lines}) == 2
