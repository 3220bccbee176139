"""Which triggers do not run: only those that ran before, whose need is known, on messages of the usual form."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandbox import Failed, Fired, Quiet, SandboxLimits, TriggerSandbox, Verdict
from sandbox.host.candidates import MOST_CONTENT, Candidates

NOW = datetime(2026, 7, 17, 9, 30, tzinfo=UTC)
SOURCES = [
    "match_keys(context.messages, ['生日', 'birthday']) > 0",
    "match_keys(context.messages, ['下雨']) > 0",
    "context.messages.some(m => m.content.includes('rain'))",
    "new Date().getMonth() === 1 && context.messages.length > 0",
    "let n = 0; for (const m of context.messages) n += m.content.length; n > 900",
    "context.participants.nobody.name === 'Ann' || match_keys(context.messages, ['x']) > 0",
    "context.conversation_id === 'other'",
]


def said(*contents: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content} for content in contents]
    return {"messages": messages, "conversation_id": "default", "participants": {}} | more


def among(context: dict[str, Any], now: datetime = NOW, sources: list[str] = SOURCES) -> list[int]:
    candidates = Candidates()
    for source in sources:
        candidates.read(source)
    return list(candidates.among(sources, context, now))


def test_only_what_could_be_true_or_fail_is_left() -> None:
    assert among(said("你好")) == [4, 5]
    assert among(said("明天生日")) == [0, 4, 5]
    assert among(said("BIRTHDAY, rainy")) == [0, 2, 4, 5]
    assert among(said("你好", conversation_id="other")) == [4, 5, 6]
    assert among(said("你好"), NOW.replace(month=1, day=31)) == [3, 4, 5], "a time zone may be a day ahead"


def test_a_word_out_of_reach_does_not_count() -> None:
    sources = [
        "match_keys(context.messages, ['雨'], 'any', 2) > 0",
        "match_keys(context.messages, ['雨'], 'assistant', 0) > 0",
    ]
    assert among(said("雨", "a", "b"), sources=sources) == []
    assert among(said("a", "雨", "b"), sources=sources) == [0]
    context = said("a", "b", "c")
    context["messages"][0] = {"role": "char", "content": "雨"}
    assert among(context, sources=sources) == [1]


def test_what_joins_messages_may_be_what_is_sought() -> None:
    joined = "/(b|{0})/.test(context.messages.map(m => m.content).join({1}))"
    sources = [
        joined.format("日", '"日"'),
        joined.format("日", '"\\u65e5"'),
        joined.format('"', "'\\\"'"),
        joined.format("日", "'\\n'"),
    ]
    assert among(said("", "a"), sources=sources) == [0, 1, 2]


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"messages": []},
        said(),
        said("a", participants=None),
        said("a", conversation_id=None),
        said("\ud83c", "\udf82"),
        said("a" * MOST_CONTENT, "b"),
        {**said("a"), "messages": ({"role": "user", "content": "a"},)},
        {**said("a"), "messages": [{"role": "user", "content": None}]},
        {**said("a"), "messages": [{"role": {}, "content": "a"}]},
        {**said("a"), "messages": ["a"]},
    ],
)
def test_on_messages_of_another_form_everything_runs(context: dict[str, Any]) -> None:
    assert among(context) == list(range(len(SOURCES)))


def test_at_the_ends_of_the_calendar_everything_runs() -> None:
    assert len(among(said("a"), datetime.min.replace(tzinfo=UTC))) == len(SOURCES)
    assert len(among(said("a"), datetime.max.replace(tzinfo=UTC))) == len(SOURCES)


def test_what_is_not_a_text_runs_with_all_others() -> None:
    candidates = Candidates()
    candidates.read(SOURCES[0])
    triggers: Any = [SOURCES[0], None, {}, 7]
    assert list(candidates.among(triggers, said("a"), NOW)) == [0, 1, 2, 3]


def test_more_triggers_than_are_kept_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.host.candidates.MOST_READ", 5)
    assert among(said("你好")) == [0, 1, 2, 3, 4, 5], "the first five were forgotten, and the sixth may fail"


def test_a_long_text_is_not_looked_through_for_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [f"match_keys(context.messages, ['abc{n}']) > 0" for n in range(99)]
    assert among(said("abc, abc5"), sources=sources) == [5]
    monkeypatch.setattr("sandbox.host.candidates.MOST_WORK", 0)
    assert among(said("abc, abc5"), sources=sources) == list(range(99))


async def judged(sandbox: TriggerSandbox, context: dict[str, Any], sources: list[str]) -> dict[int, Verdict]:
    return dict(await sandbox.judge(sources, context, now=NOW, seed=1))


async def until_read(sandbox: TriggerSandbox) -> None:
    assert sandbox._reading is not None
    await sandbox._reading


def test_a_trigger_runs_once_before_it_is_left_out() -> None:
    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            first = await judged(sandbox, said("你好"), SOURCES)
            assert sorted(first) == list(range(len(SOURCES)))
            await until_read(sandbox)
            second = await judged(sandbox, said("你好"), SOURCES)
            assert sorted(second) == [4, 5]
            assert isinstance(second[5], Failed)
            third = await judged(sandbox, said("生日", "Birthday", conversation_id="other"), SOURCES)
            assert [index for index, verdict in third.items() if isinstance(verdict, Fired)] == [0, 6]
            verdicts = await sandbox.evaluate(SOURCES, said("你好"), now=NOW, seed=1)
            assert [type(one) for one in verdicts] == [Quiet] * 5 + [Failed, Quiet]
            report = await sandbox.run(SOURCES[0], said("你好"), now=NOW, seed=1)
            assert isinstance(report.verdict, Quiet)
            assert report.verdict.elapsed_us > 0, "a run for its author always runs"

    asyncio.run(searches())


def test_what_failed_is_never_left_out() -> None:
    broken = ["match_keys(context.messages, ['a']) > 0 &&", "match_keys(context, ['a'])", "match_keys(args, ['a', 7])"]

    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            for _ in range(2):
                ran = await judged(sandbox, said("b"), broken)
                kinds = [getattr(ran[index], "kind", "quiet") for index in (0, 2) if index in ran]
                assert kinds == ["syntax", "thrown"]
                await until_read(sandbox)

    asyncio.run(searches())


def test_limits_by_number_and_by_length_hold_as_before() -> None:
    limits = SandboxLimits(max_triggers=2, max_context_chars=500)
    sources = [f"match_keys(context.messages, ['{word}']) > 0" for word in ("aa", "bb", "cc")]

    async def searches() -> None:
        async with TriggerSandbox(limits, workers=1) as sandbox:
            await judged(sandbox, said("x"), sources[2:])
            await until_read(sandbox)
            for _ in range(2):
                ran = await judged(sandbox, said("x"), sources)
                assert isinstance(ran[2], Failed), "the third is one too many, read or not"
                await until_read(sandbox)
            assert sorted(ran) == [2]
            ran = await judged(sandbox, said("x", participants={"a": "y" * 600}), sources[:2])
            assert [getattr(one, "kind", "quiet") for one in ran.values()] == ["not_evaluated"] * 2

    asyncio.run(searches())


def test_a_date_is_left_out_only_far_from_it() -> None:
    day = datetime(2026, 3, 1, 12, tzinfo=UTC)
    source = ["new Date().getDate() === 1"]
    near = [hours for hours in range(-100, 100) if among(said("a"), day + timedelta(hours=hours), source)]
    assert near[0] <= -26
    assert near[-1] >= 26
    assert len(near) < 120
