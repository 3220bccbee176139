"""Which triggers do not run: only those that ran before and are decided by keys, on messages of the usual form."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from random_triggers import Chance

from sandbox import Failed, Fired, Quiet, SandboxLimits, TriggerSandbox, Verdict
from sandbox.host.condition_index import MOST_CONTENT, ConditionIndex, Selection, read_all

NOW = datetime(2026, 7, 17, 9, 30, tzinfo=UTC)
SOURCES = [
    "match_keys(context.messages, ['生日', 'birthday']) > 0",
    "match_keys(context.messages, ['下雨']) > 0 && Math.random() < 2",
    "match_keys(context.messages, ['rain']) === 0",
    "!match_keys_all(context, ['rain']) && new Date().getMonth() === 1",
    "let n = 0; for (const m of context.messages) n += m.content.length; n > 900",
    "context.participants.nobody.name === 'Ann' || match_keys(context.messages, ['x']) > 0",
    "true",
]


def chat_of(*contents: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content} for content in contents]
    return {"messages": messages, "conversation_id": "default", "participants": {}} | more


def index_of(sources: list[str]) -> ConditionIndex:
    index = ConditionIndex()
    for source, reading in zip(sources, read_all(sources), strict=True):
        index.learn(source, reading)
    return index


def selected(context: dict[str, Any], sources: list[str] = SOURCES) -> Selection:
    return index_of(sources).select(sources, context)


def test_only_what_may_fire_or_fail_runs() -> None:
    assert selected(chat_of("你好")) == Selection([3, 4, 5], [2, 6])
    assert selected(chat_of("明天生日")) == Selection([3, 4, 5], [0, 2, 6])
    assert selected(chat_of("BIRTHDAY, rain")) == Selection([4, 5], [0, 6])
    assert selected(chat_of("下雨")) == Selection([1, 3, 4, 5], [2, 6])


@pytest.mark.parametrize(
    "context",
    [
        {},
        chat_of("\ud83c", "\udf82"),
        chat_of("a" * MOST_CONTENT, "b"),
        chat_of("a", "ƛ"),
        {"messages": [{"role": "user", "content": "a", "name": "N" * MOST_CONTENT}]},
        {"messages": ({"role": "user", "content": "a"},)},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": ["a"]},
    ],
)
def test_on_messages_of_another_form_everything_runs(context: dict[str, Any]) -> None:
    assert selected(context) == Selection(range(len(SOURCES)))


def test_what_is_not_a_text_runs_with_all_others() -> None:
    triggers: Any = [SOURCES[0], None, {}, 7]
    assert index_of(SOURCES).select(triggers, chat_of("a")) == Selection(range(4))


def test_more_triggers_than_are_kept_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.host.condition_index.MOST_READ", 5)
    assert selected(chat_of("你好")) == Selection([0, 1, 2, 3, 4, 5], [6])


def test_a_long_text_is_not_looked_through_for_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [f"match_keys(context.messages, ['abc{n}']) > 0" for n in range(99)]
    assert selected(chat_of("abc, abc5"), sources) == Selection([], [5])
    monkeypatch.setattr("sandbox.host.condition_index.MOST_CHARACTERS", 0)
    assert selected(chat_of("abc, abc5"), sources) == Selection(range(99))


def test_a_trigger_that_stands_twice_is_decided_twice() -> None:
    sources = [SOURCES[0], SOURCES[1], SOURCES[0], "true", "true"]
    assert selected(chat_of("生日"), sources) == Selection([], [0, 2, 3, 4])


async def judged(
    sandbox: TriggerSandbox, context: dict[str, Any], sources: list[str], **more: Any
) -> dict[int, Verdict]:
    """The verdicts of those that ran or fired, after all before them were read."""
    verdicts = dict(await sandbox.judge(sources, context, now=NOW, seed=1, **more))
    await sandbox.has_read()
    return verdicts


def test_a_trigger_runs_once_before_it_is_decided_without_running() -> None:
    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            first = await judged(sandbox, chat_of("你好"), SOURCES)
            assert sorted(first) == list(range(len(SOURCES)))
            second = await judged(sandbox, chat_of("你好"), SOURCES)
            assert list(second) == [2, 3, 4, 5, 6]
            assert isinstance(second[5], Failed)
            assert second[6] == Fired(0), "it did not run"
            verdicts = await sandbox.evaluate(SOURCES, chat_of("你好"), now=NOW, seed=1)
            assert list(map(type, verdicts)) == [Quiet, Quiet, Fired, Quiet, Quiet, Failed, Fired]
            assert list(map(type, first.values())) == list(map(type, verdicts))
            report = await sandbox.run(SOURCES[0], chat_of("你好"), now=NOW, seed=1)
            assert isinstance(report.verdict, Quiet)
            assert report.verdict.elapsed_us > 0, "a run for its author always runs"

    asyncio.run(searches())


def test_random_triggers_have_the_verdicts_that_they_have_where_all_run() -> None:
    async def searches() -> None:
        async with (
            TriggerSandbox(workers=1) as sandbox,
            TriggerSandbox(workers=1, spare=False) as other,
        ):  # the other one runs them all
            for seed in range(3):
                chance = Chance(seed)
                sources = [chance.trigger() for _ in range(300)]
                options: dict[str, Any] = {"now": chance.now, "seed": seed}
                await sandbox.judge(sources, chance.context, **options)
                await sandbox.has_read()
                context = Chance(seed + 1_000).context
                verdicts = await sandbox.evaluate(sources, context, **options)
                expected = await other.evaluate(sources, context, **options)
                assert list(map(type, verdicts)) == list(map(type, expected))

    asyncio.run(searches())


def test_what_failed_always_runs() -> None:
    broken = ["match_keys(context, ['a']) > 0 &&", "match_keys(args, ['a', 7])"]

    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            for _ in range(2):
                ran = await judged(sandbox, chat_of("b"), broken)
                assert [getattr(verdict, "kind", "") for verdict in ran.values()] == [
                    "syntax",
                    "thrown",
                ]

    asyncio.run(searches())


def test_limits_by_number_and_by_length_hold_as_before() -> None:
    limits = SandboxLimits(max_triggers=2, max_context_chars=500)
    sources = [f"match_keys(context.messages, ['{word}']) > 0" for word in ("aa", "bb")]
    sources.append("true")

    async def searches() -> None:
        async with TriggerSandbox(limits, workers=1) as sandbox:
            await judged(sandbox, chat_of("x"), sources[2:])
            for _ in range(2):
                ran = await judged(sandbox, chat_of("x"), sources)
                assert isinstance(ran[2], Failed), "the third is one too many, read or not"
            assert sorted(ran) == [2]
            large = chat_of("x", participants={"a": "y" * 600})
            ran = await judged(sandbox, large, ["true", sources[1]])
            assert [getattr(verdict, "kind", "") for verdict in ran.values()] == [
                "not_evaluated"
            ] * 2

    asyncio.run(searches())


def test_many_triggers_are_read_while_others_are_searched() -> None:
    sources = [f"match_keys(context.messages, ['w{number}']) > 0" for number in range(1_000)]

    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            await sandbox.judge(sources, chat_of("x"), now=NOW, seed=1)
            assert len(await sandbox.judge(sources, chat_of("x"), now=NOW, seed=1)) > 0
            await sandbox.has_read()
            assert await judged(sandbox, chat_of("x"), sources) == {}

    asyncio.run(searches())


def test_a_sandbox_with_the_spellings_of_the_original_runs_everything() -> None:
    async def searches() -> None:
        async with TriggerSandbox(workers=1, spellings_apart=True) as sandbox:
            for _ in range(2):
                assert len(await judged(sandbox, chat_of("慶祝"), SOURCES)) == len(SOURCES)

    asyncio.run(searches())


@pytest.mark.parametrize(
    "source",
    ["(" * 1_900 + "true" + ")" * 1_900, "!" * 3_900 + "true", "true && " * 480 + "true"],
    ids=["parentheses", "negations", "operands"],
)
def test_a_trigger_that_is_hard_to_read_keeps_no_other_from_being_read(source: str) -> None:
    async def searches() -> None:
        async with TriggerSandbox(workers=1) as sandbox:
            sources = [source, SOURCES[0]]
            await judged(sandbox, chat_of("x"), sources)
            assert 1 not in await judged(sandbox, chat_of("x"), sources)

    asyncio.run(searches())
