"""A batch of messages in one request says what a search per message says: whatever the triggers do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from sandbox import Failed, Limits, TriggerSandbox, Verdict
from sandbox.host.search import STOPPED, Scene
from sandbox.workbench.timeline import batching
from sandbox.workbench.timeline.batching import BatchSizer, verdicts_along

START = datetime(2026, 7, 1, tzinfo=UTC)
LIMITS = Limits(search_seconds=5.0)
TEXTS = ("你好", "生日 cake", "hm", "stop", "birthday", "", "生日", "ok", "再见", "hm", "cake", "!")
SCENES = [
    Scene(
        {
            "messages": [{"role": "user", "content": text} for text in TEXTS[max(0, number - 4) : number]],
            "conversation_id": f"c{number}",
            "participants": {},
        },
        START + timedelta(days=number),
        seed=7,
    )
    for number in range(1, len(TEXTS) + 1)
]
HONEST = (
    "match_keys(context.messages, ['生日', 'cake'], 'any', 1) > 0",
    "new Date().getDate() % 3 === 0",
    "Math.random() < 0.5",
    "return context.messages.length > 2",
    "await Promise.resolve(context.messages.at(-1).content === 'hm')",
    "new Promise((resolve) => resolve(context.conversation_id === 'c5'))",
)
BROKEN = (
    "context.messages[2].content === 'hm'",
    "nope > 1",
    "if (",
    "throw new Error(context.conversation_id)",
    "await Promise.reject(new Error('no'))",
    "new Promise(() => {})",
    "(function deep() { deep(); })()",
)
KEEPING_STATE = (
    "globalThis.seen = (globalThis.seen ?? 0) + 1; seen > 1",
    "Array.prototype.seen = 1",
    "context.messages.push({ role: 'user', content: '生日' }); context.messages.length > 5",
    "context.seen = (context.seen ?? 0) + 1; context.seen > 1",
    "match_keys.seen = (match_keys.seen ?? 0) + 1",
    "(console.seen = (console.seen ?? 0) + 1) > 1",
    "const mark = /a/g; mark.lastIndex = mark.lastIndex + 1; mark.lastIndex > 1",
    "((text) => Object.isExtensible(text))`a`",
    "Promise.resolve().then(() => { context.messages.length = 0; }); context.messages.length > 3",
    "(async () => { for (let i = 0; i < 50; i += 1) await 0; globalThis.late = 1; })(); typeof late !== 'undefined'",
)
WHEN = "context.messages.at(-1).content === 'stop'"
HARMFUL = (
    f"while ({WHEN}); true",
    f"const kept = []; while ({WHEN}) kept.push(new Array(1000).fill(1.5)); kept.length === 0",
    f"{WHEN} && 'x'.repeat(2 ** 29 - 25).split('').length > 0",
    f"if ({WHEN}) (async () => {{ while (true) await 0; }})(); true",
)


def plain(verdict: Verdict) -> object:
    """Without the time it took, which no two runs share."""
    if isinstance(verdict, Failed):
        return (verdict.kind, *(() if verdict.kind in STOPPED else (verdict.message, verdict.line, verdict.column)))
    return type(verdict).__name__


def both_ways(sources: Sequence[str]) -> tuple[list[list[object]], list[list[object]]]:
    async def work() -> tuple[list[list[object]], list[list[object]]]:
        async with TriggerSandbox(LIMITS, timezone="UTC", workers=1) as sandbox:
            along = await verdicts_along(sandbox, sources, SCENES)
            alone = [await sandbox.evaluate(sources, scene.context, now=scene.now, seed=scene.seed) for scene in SCENES]
        return [list(map(plain, row)) for row in along], [list(map(plain, row)) for row in alone]

    return asyncio.run(work())


@pytest.mark.parametrize(
    "sources",
    [HONEST, (*BROKEN, *HONEST), (*KEEPING_STATE, *HONEST), *((*HONEST, one, *BROKEN[:2]) for one in HARMFUL)],
    ids=["honest", "broken", "keeping state", "endless", "memory", "deadly", "endless jobs"],
)
def test_a_batch_says_what_a_search_per_message_says(sources: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MOST_AT_ONCE", 1)  # else all messages are begun before the batches grow
    monkeypatch.setattr(batching, "BATCH_SECONDS", 60.0)
    along, alone = both_ways(sources)
    assert along == alone
    assert len({str(row) for row in along}) > 1, "the messages differ"


def test_most_messages_share_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = TriggerSandbox.evaluate_scenes

    async def counted(self: TriggerSandbox, triggers: object, scenes: Sequence[Scene]) -> object:
        asked.append(len(scenes))
        return await real(self, triggers, scenes)  # type: ignore[arg-type]

    monkeypatch.setattr(TriggerSandbox, "evaluate_scenes", counted)
    monkeypatch.setattr(batching, "BATCH_SECONDS", 60.0)

    async def work() -> None:
        async with TriggerSandbox(timezone="UTC", workers=1) as sandbox:
            await verdicts_along(sandbox, HONEST, SCENES * 10)

    asyncio.run(work())
    assert sum(asked) == len(SCENES) * 10
    assert len(asked) < 20


def test_one_scene_is_never_disturbed_and_several_are() -> None:
    async def work() -> None:
        async with TriggerSandbox(LIMITS, timezone="UTC", workers=1) as sandbox:
            stop = SCENES[3:4]
            (verdicts,) = await sandbox.evaluate_scenes(["while (true);", "true"], stop) or [()]
            assert list(map(plain, verdicts)) == [("timeout",), "Fired"]
            assert await sandbox.evaluate_scenes(["while (true);", "true"], stop * 2) is None

    asyncio.run(work())


def test_batches_grow_while_all_is_calm_and_begin_small_again_after_a_stop() -> None:
    sizer = BatchSizer()
    sizes = []
    for _ in range(6):
        sizes.append(sizer.size(10, 100))
        sizer.note(sizes[-1], 0.001, stopped=False)
    assert sizes == [1, 2, 4, 8, 16, 32]
    sizer.note(32, 0.001, stopped=True)
    assert sizer.size(10, 100) == 1
    sizer.note(40, 0.001, stopped=False)
    assert sizer.size(10, 100) == 40
    assert sizer.size(2000, 100) == 2
    assert sizer.size(10, 400_000) == 2
    sizer.note(1, 10.0, stopped=False)
    assert sizer.size(10, 100) == 1
