"""Which triggers do not run: only those that ran before, whose need is known, on messages of the usual form."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandbox import Failed, Fired, Quiet, SandboxLimits, TriggerSandbox, Verdict
from sandbox.host.candidates import MOST_CONTENT, Candidates
from sandbox.javascript.needs import prospect_of

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


def chat_of(*contents: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content} for content in contents]
    return {"messages": messages, "conversation_id": "default", "participants": {}} | more


def among(context: dict[str, Any], now: datetime = NOW, sources: list[str] = SOURCES) -> list[int]:
    candidates = Candidates()
    for source in sources:
        candidates.learn(source, prospect_of(source))
    return list(candidates.select(sources, context, now).running)


def test_only_what_could_be_true_or_fail_is_left() -> None:
    assert among(chat_of("你好")) == [4, 5]
    assert among(chat_of("明天生日")) == [0, 4, 5]
    assert among(chat_of("BIRTHDAY, rainy")) == [0, 2, 4, 5]
    assert among(chat_of("你好", conversation_id="other")) == [4, 5, 6]
    assert among(chat_of("你好"), NOW.replace(month=1, day=31)) == [3, 4, 5], (
        "a time zone may be a day ahead"
    )


def test_a_word_out_of_reach_does_not_count() -> None:
    sources = [
        "match_keys(context.messages, ['雨'], 'any', 2) > 0",
        "match_keys(context.messages, ['雨'], 'assistant', 0) > 0",
    ]
    assert among(chat_of("雨", "a", "b"), sources=sources) == []
    assert among(chat_of("a", "雨", "b"), sources=sources) == [0]
    context = chat_of("a", "b", "c")
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
    assert among(chat_of("", "a"), sources=sources) == [0, 1, 2]


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"messages": []},
        chat_of(),
        chat_of("a", participants=None),
        chat_of("a", conversation_id=None),
        chat_of("\ud83c", "\udf82"),
        chat_of("a" * MOST_CONTENT, "b"),
        {**chat_of("a"), "messages": ({"role": "user", "content": "a"},)},
        {**chat_of("a"), "messages": [{"role": "user", "content": None}]},
        {**chat_of("a"), "messages": [{"role": {}, "content": "a"}]},
        {**chat_of("a"), "messages": ["a"]},
    ],
)
def test_on_messages_of_another_form_everything_runs(context: dict[str, Any]) -> None:
    assert among(context) == list(range(len(SOURCES)))


def test_at_the_ends_of_the_calendar_everything_runs() -> None:
    assert len(among(chat_of("a"), datetime.min.replace(tzinfo=UTC))) == len(SOURCES)
    assert len(among(chat_of("a"), datetime.max.replace(tzinfo=UTC))) == len(SOURCES)


def test_what_is_not_a_text_runs_with_all_others() -> None:
    candidates = Candidates()
    candidates.learn(SOURCES[0], prospect_of(SOURCES[0]))
    triggers: Any = [SOURCES[0], None, {}, 7]
    assert list(candidates.select(triggers, chat_of("a"), NOW).running) == [0, 1, 2, 3]


def test_more_triggers_than_are_kept_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.host.candidates.MOST_READ", 5)
    assert among(chat_of("你好")) == [0, 1, 2, 3, 4, 5], (
        "the first five were forgotten, and the sixth may fail"
    )


def test_a_long_text_is_not_looked_through_for_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [f"match_keys(context.messages, ['abc{n}']) > 0" for n in range(99)]
    assert among(chat_of("abc, abc5"), sources=sources) == [5]
    monkeypatch.setattr("sandbox.host.candidates.MOST_WORK", 0)
    assert among(chat_of("abc, abc5"), sources=sources) == list(range(99))


async def judged(
    sandbox: TriggerSandbox, context: dict[str, Any], sources: list[str]
) -> dict[int, Verdict]:
    return dict(await sandbox.judge(sources, context, now=NOW, seed=1))


async def until_read(sandbox: TriggerSandbox) -> None:
    assert sandbox._need_reading is not None
    await sandbox._need_reading.finished()


def test_a_trigger_runs_once_before_it_is_left_out() -> None:
    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            first = await judged(sandbox, chat_of("你好"), SOURCES)
            assert sorted(first) == list(range(len(SOURCES)))
            await until_read(sandbox)
            second = await judged(sandbox, chat_of("你好"), SOURCES)
            assert sorted(second) == [4, 5]
            assert isinstance(second[5], Failed)
            third = await judged(
                sandbox, chat_of("生日", "Birthday", conversation_id="other"), SOURCES
            )
            assert [index for index, verdict in third.items() if isinstance(verdict, Fired)] == [
                0,
                6,
            ]
            verdicts = await sandbox.evaluate(SOURCES, chat_of("你好"), now=NOW, seed=1)
            assert [type(verdict) for verdict in verdicts] == [Quiet] * 5 + [Failed, Quiet]
            report = await sandbox.run(SOURCES[0], chat_of("你好"), now=NOW, seed=1)
            assert isinstance(report.verdict, Quiet)
            assert report.verdict.elapsed_us > 0, "a run for its author always runs"

    asyncio.run(searches())


def test_what_failed_is_never_left_out() -> None:
    broken = [
        "match_keys(context.messages, ['a']) > 0 &&",
        "match_keys(context, ['a'])",
        "match_keys(args, ['a', 7])",
    ]

    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            for _ in range(2):
                ran = await judged(sandbox, chat_of("b"), broken)
                kinds = [getattr(ran[index], "kind", "quiet") for index in (0, 2) if index in ran]
                assert kinds == ["syntax", "thrown"]
                await until_read(sandbox)

    asyncio.run(searches())


def test_limits_by_number_and_by_length_hold_as_before() -> None:
    limits = SandboxLimits(max_triggers=2, max_context_chars=500)
    sources = [f"match_keys(context.messages, ['{word}']) > 0" for word in ("aa", "bb", "cc")]

    async def searches() -> None:
        async with TriggerSandbox(limits, workers=1) as sandbox:
            await judged(sandbox, chat_of("x"), sources[2:])
            await until_read(sandbox)
            for _ in range(2):
                ran = await judged(sandbox, chat_of("x"), sources)
                assert isinstance(ran[2], Failed), "the third is one too many, read or not"
                await until_read(sandbox)
            assert sorted(ran) == [2]
            ran = await judged(sandbox, chat_of("x", participants={"a": "y" * 600}), sources[:2])
            assert [getattr(verdict, "kind", "quiet") for verdict in ran.values()] == [
                "not_evaluated"
            ] * 2

    asyncio.run(searches())


def test_names_of_speakers_count_as_text_that_is_looked_at() -> None:
    context = chat_of("a", "b")
    context["messages"][0]["name"] = "N" * MOST_CONTENT
    assert among(context) == list(range(len(SOURCES)))


def test_a_date_is_left_out_only_far_from_it() -> None:
    day = datetime(2026, 3, 1, 12, tzinfo=UTC)
    source = ["new Date().getDate() === 1"]
    near = [
        hours
        for hours in range(-100, 100)
        if among(chat_of("a"), day + timedelta(hours=hours), source)
    ]
    assert near[0] <= -26
    assert near[-1] >= 26
    assert len(near) < 120


def test_what_is_always_true_fires_without_running() -> None:
    sources = [
        "// World info entry 0: sky\ntrue",
        "true && Math.random() < 0.5",
        "1 < 2;",
        "'a' && true",
        "return true",
    ]
    candidates = Candidates()
    for source in sources:
        candidates.learn(source, prospect_of(source))
    selection = candidates.select(sources, chat_of("a"), NOW)
    assert list(selection.running) == [1, 3]
    assert list(selection.firing) == [0, 2, 4]


def test_verdicts_without_running_are_those_of_running_in_the_order_of_the_triggers() -> None:
    sources = [*SOURCES, "true", "match_keys(context.messages, ['你好']) > 0", "true", "0"]

    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            ran = await judged(sandbox, chat_of("你好"), sources)
            await until_read(sandbox)
            decided = await judged(sandbox, chat_of("你好"), sources)
            fired = [index for index, verdict in ran.items() if isinstance(verdict, Fired)]
            assert (
                fired
                == [index for index, verdict in decided.items() if isinstance(verdict, Fired)]
                == [7, 8, 9]
            )
            assert list(decided) == [4, 5, 7, 8, 9]

    asyncio.run(searches())


def test_a_context_that_is_refused_is_refused_for_what_is_always_true_too() -> None:
    async def searches() -> None:
        async with TriggerSandbox(SandboxLimits(max_context_chars=500), workers=1) as sandbox:
            await judged(sandbox, chat_of("x"), ["true"])
            await until_read(sandbox)
            ran = await judged(sandbox, chat_of("x", participants={"a": "y" * 600}), ["true"])
            assert [getattr(verdict, "kind", "fired") for verdict in ran.values()] == [
                "not_evaluated"
            ]

    asyncio.run(searches())


def test_a_list_of_triggers_that_was_changed_is_looked_at_again() -> None:
    candidates = Candidates()
    for source in SOURCES:
        candidates.learn(source, prospect_of(source))
    triggers = list(SOURCES)
    assert list(candidates.select(triggers, chat_of("你好"), NOW).running) == [4, 5]
    triggers[4] = SOURCES[1]
    assert list(candidates.select(list(triggers), chat_of("下雨"), NOW).running) == [1, 4, 5]
    triggers.append("nope()")
    assert list(candidates.select(list(triggers), chat_of("你好"), NOW).running) == [5, 7]
    candidates.learn("nope()", prospect_of("nope()"))
    assert list(candidates.select(list(triggers), chat_of("你好"), NOW).running) == [5, 7], (
        "it may fail"
    )


def test_a_trigger_that_stands_twice_is_decided_twice() -> None:
    sources = [SOURCES[0], SOURCES[1], SOURCES[0], "true", "true"]
    candidates = Candidates()
    for source in sources:
        candidates.learn(source, prospect_of(source))
    selection = candidates.select(sources, chat_of("生日"), NOW)
    assert (list(selection.running), list(selection.firing)) == ([0, 2], [3, 4])


def test_few_lists_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.host.candidates.MOST_LISTED", 10)
    candidates = Candidates()
    candidates.learn(SOURCES[0], prospect_of(SOURCES[0]))
    for last in "abc":
        candidates.select([*SOURCES[:3], f"'{last}' === 'a'"], chat_of("a"), NOW)
    assert [listing.triggers[-1] for listing in candidates._listings.kept] == [
        "'b' === 'a'",
        "'c' === 'a'",
    ]
    candidates.select([*SOURCES, *SOURCES], chat_of("a"), NOW)
    assert len(candidates._listings.kept) == 1
