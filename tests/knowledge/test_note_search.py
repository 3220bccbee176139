"""Each of 28 hard queries finds the one note that was planted for it, first, among 1,000 and among 10,000."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from knowledge.mixed_notes import NOW, mixed_notes

from memory_server.knowledge.entry import Change, Operation
from memory_server.knowledge.notes.notes import NOTES, Notes
from memory_server.storage.entries.sqlite_store import SqliteStore

pytestmark = pytest.mark.anyio

CASES = {
    "披萨": "小明周末想吃披萨，加双份芝士",
    "喜欢吃烤鱼": "他喜欢吃烤鱼，不吃辣",
    "非同期": "非同期の呼び出しはここで待つ",
    "プログラミング 教科書": "プログラミングの教科書は棚の上",
    "itgc": "审计看 gen-itgc后50条",
    "データベース": "データベースの移行手順",
    "メモリ管理": "メモリ管理は自動だ",
    "营收": "第三季營收成長兩成",
    "连接池": "連接池最多二十個",
    "ＧＰＴ４": "the summaries come from GPT4",
    "C++": "the codec is written in C++",
    "猫": "办公室里的猫很可爱",
    "생일": "오늘은 지민의 생일은 아니다",
    "tokio::spawn": "background work goes through tokio::spawn",
    "handling errors": "errors are handled at the edge",
    "async await": "prefer async-await to callbacks",
    "腾讯云": "备份放在腾讯云上",
    "支付网关超时是多少秒？": "支付网关的超时是三十秒",
    "how do we configure the connection pool?": "configuring the connection pool is done in pool.toml",
    "cafe": "the café on the corner has the key",
    "🎂": "team day 🎂 in May",
    "v1.2.3": "pinned to v1.2.3 until spring",
    "ﾀﾜｰ": "東京タワーの近くで会う",
    "retry_max_seconds": "retry_max_seconds is thirty",
    "小雪": "小雪负责前端",
    "встреча": "встреча с заказчиком",
    "标准错误": "日志写到标准错误",
    "cdn": "静态资源走CDN缓存",
    "->": "arrows such as a -> b",
}


@pytest.fixture(
    scope="module", params=[1_000, pytest.param(10_000, id="10000", marks=pytest.mark.full)]
)
async def notes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Notes]:
    store = SqliteStore(Path(tmp_path_factory.mktemp("search")) / "k.sqlite3", lambda: NOW)
    changes: list[Change] = list(mixed_notes(request.param))
    await store.commit(NOTES, lambda view: (changes, None), Operation("plant"))
    notes = Notes(store, lambda: NOW)
    for number, text in enumerate(CASES.values()):
        await notes.remember("domain", f"planted {number}", text)
    yield notes
    await store.aclose()


@pytest.mark.parametrize("query", CASES)
async def test_a_hard_query_finds_what_was_planted_first(notes: Notes, query: str) -> None:
    matches = await notes.recall(query, reinforce=False)
    assert [hit.entry.body for hit in matches.hits[:1]] == [CASES[query]]
