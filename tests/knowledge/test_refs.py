"""Refs: what is stored and cut, the score to the last digit, bounds that hold, and no whole text but by one tool."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from entries_held import page
from knowledge.conftest import NOW, Clock

from memory_server import open_memory
from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, NothingToKeep
from memory_server.kernel.items import Scope
from memory_server.kernel.times import DAY_MS
from memory_server.knowledge.entry import Entry, Filter, Operation, Share
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.knowledge.options import Namespace
from memory_server.knowledge.ranking import ScoredRef, best_first, reference_parts
from memory_server.knowledge.refs import RefOptions, Refs, summary_of
from memory_server.knowledge.service import Knowledge
from memory_server.runtime.app import App
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call
from nlp.index_terms import IndexTerm, sought_in, terms_of

pytestmark = pytest.mark.anyio
HOUR_MS = 3_600_000
SHORT = Scope("refs", "short-term")


@pytest.fixture
async def knowledge(tmp_path: Path, clock: Clock) -> AsyncIterator[Knowledge]:
    opened_knowledge = Knowledge(SqliteStore(tmp_path / "k.sqlite3", clock), clock)
    yield opened_knowledge
    await opened_knowledge.aclose()


@pytest.fixture
def refs(knowledge: Knowledge) -> Refs:
    return knowledge.refs


async def ids(refs: Refs, query: str, **options: Any) -> list[str]:
    matches = await refs.search(query, **options)
    return [hit.entry.ref for hit in matches.hits]


async def test_a_ref_has_16_digits_and_a_summary(refs: Refs) -> None:
    receipt = await refs.add(
        "API response " * 500, "long-term", tags=["api"], source="tool", importance=0.5
    )
    assert len(receipt.entry.ref) == 16
    assert set(receipt.entry.ref) <= set("0123456789abcdef")
    assert len(receipt.entry.title) <= 1200
    assert receipt.result == 0
    assert receipt.change_id == "k1"
    assert await refs.get(receipt.entry.ref) == ("long-term", receipt.entry)
    assert receipt.entry.expires_ms == NOW + 3650 * DAY_MS


@pytest.mark.parametrize(
    ("text", "most", "summary"),
    [
        ("short", 10, "short"),
        ("exactly ten", 11, "exactly ten"),
        ("one two three four", 10, "one two th"),  # the last space is before the last fifth
        ("one two th four", 10, "one two th"),
        ("abcdefg hi jklm", 10, "abcdefg hi"),
        ("abcdefgh ijklm", 10, "abcdefgh"),
        ("一二三四五六七八。九十一", 10, "一二三四五六七八。"),
        ("a" * 30, 10, "a" * 10),
        ("abcdefgh\nijklm", 10, "abcdefgh"),
    ],
)
def test_a_summary_ends_where_a_sentence_or_word_does(text: str, most: int, summary: str) -> None:
    assert summary_of(text, most) == summary


SCORES: list[tuple[int, int, int, int, float, float | None, float]] = [
    # terms, in summary, content, tags, hours, importance: score
    (2, 2, 2, 0, 0, None, 0.75),
    (2, 2, 2, 0, 0, 1.0, 0.80),
    (1, 1, 1, 1, 0, 1.0, 1.0),
    (3, 1, 2, 0, 10, 0.5, 0.4 / 3 + 0.5 / 3 + 0.09 + 0.025),
    (4, 0, 1, 0, 200, None, 0.0625),
    (4, 0, 1, 3, 99, 0.2, 0.0625 + 0.15 + 0.001 + 0.01),
    (5, 3, 4, 1, 100.5, 0.0, 0.24 + 0.2 + 0.04),
    (1, 1, 1, 0, -5, None, 0.75),
]


@pytest.mark.parametrize(("terms", "s", "c", "t", "hours", "importance", "score"), SCORES)
def test_the_score_is_the_seeds(
    terms: int, s: int, c: int, t: int, hours: float, importance: float | None, score: float
) -> None:
    share = Share(1, NOW - round(hours * HOUR_MS), importance, 2**s - 1, 2**t - 1, 2**c - 1)
    assert abs(sum(reference_parts(share, terms, NOW).values()) - score) < 1e-9


WORDS = ["披萨", "数据库", "error", "C++", "猫", "cafe", "🎂", "连接", "timeout", "gateway"]


async def test_scores_of_a_search_are_those_of_reading_everything(refs: Refs, clock: Clock) -> None:
    rng = random.Random(7)
    added = []
    for _ in range(120):
        clock.now += rng.randrange(2 * HOUR_MS)
        words = rng.sample(WORDS, rng.randrange(1, 6))
        content = " ".join(words[:2]) + " filler" * rng.choice([0, 300]) + " " + " ".join(words[2:])
        namespace: Namespace = rng.choice(("short-term", "long-term"))
        tags = rng.sample(WORDS, rng.randrange(3))
        importance = rng.choice([None, 0.0, 0.3, 1.0])
        added.append((await refs.add(content, namespace, tags=tags, importance=importance)).entry)
    clock.now += 5 * HOUR_MS

    for query in [
        "披萨",
        "数据库 error",
        "C++ 猫 nothing",
        "cafe 🎂 连接 timeout",
        "errors of the gateway",
        "数",
    ]:
        expected = {entry.ref: expected_score(query, entry, clock.now) for entry in added}
        expected = {ref: score for ref, score in expected.items() if score >= 0.15}
        matches = await refs.search(query, limit=100)
        assert matches.total == len(expected)
        for hit in matches.hits:
            assert abs(hit.score - expected.pop(hit.entry.ref)) < 1e-9
        scores = [hit.score for hit in matches.hits]
        assert max(expected.values(), default=0) <= min(scores, default=1) + 1e-9
        assert scores == sorted(scores, reverse=True)


def expected_score(query: str, entry: Entry, now: int) -> float:
    """The score of an entry that is read whole."""
    sought = sought_in(query)
    score = 0.40 * share_of_terms(sought, entry.title)
    score += 0.25 * share_of_terms(sought, entry.body)
    score += 0.20 * share_of_terms(sought, "\n".join(entry.tags))
    if score:
        hours = (now - entry.created_ms) / HOUR_MS
        score += max(0, 0.10 - 0.001 * hours) + 0.05 * (entry.importance or 0)
    return min(1.0, score)


def share_of_terms(sought: Sequence[IndexTerm], text: str) -> float:
    terms = terms_of(text)
    return sum(is_among(sought_term, terms) for sought_term in sought) / len(sought)


def is_among(sought: IndexTerm, terms: Iterable[str]) -> bool:
    if sought.prefix or len(sought.term) > 2:
        return any(term.startswith(sought.term) for term in terms)
    return sought.term in terms


async def test_filters_and_limits(refs: Refs) -> None:
    for number in range(8):
        await refs.add(
            f"config {number}",
            "long-term" if number % 2 else "short-term",
            tags=["Even"][number % 2 :],
        )
    assert len(await ids(refs, "config")) == 5
    assert (await refs.search("config", limit=3)).total == 8
    assert len(await ids(refs, "config", namespace="long-term")) == 4
    assert len(await ids(refs, "config", tags=["even", "x"])) == 4
    assert await ids(refs, "nothing") == []
    assert await ids(refs, "->") == []
    arrow = await refs.add("a -> b")
    assert await ids(refs, "->") == [arrow.entry.ref]


async def test_an_id_or_its_beginning_names_one(refs: Refs, knowledge: Knowledge) -> None:
    first = (await refs.add("text one")).entry
    second = (await refs.add("text two", "long-term")).entry
    assert await ids(refs, first.ref) == [first.ref]
    assert await ids(refs, second.ref[:6]) == [second.ref]
    named = await refs.search(second.ref)
    assert (named.hits[0].score, named.total) == (1.0, 1)
    assert await ids(refs, second.ref, namespace="short-term") == []
    assert await ids(refs, first.ref[:5]) == []
    twin = replace(second, id=0, ref=first.ref[:8] + "0" * 8)
    await knowledge.store.commit(
        Scope("refs", "long-term"), lambda _: ([twin], None), Operation("x")
    )
    assert await ids(refs, first.ref[:8]) == []
    with pytest.raises(
        InvalidInput, match=f"Several ids begin with {first.ref[:8]}; write more digits"
    ):
        await refs.get(first.ref[:8])
    with pytest.raises(MemoryNotFound, match="memorySearch finds references by words"):
        await refs.get("abc")
    assert len(await ids(refs, "text")) == 3


async def test_what_is_over_is_hidden_at_once_and_archived_by_the_clean_up(
    refs: Refs, clock: Clock, knowledge: Knowledge
) -> None:
    short = (await refs.add("披萨 short")).entry
    long = (await refs.add("披萨 long", "long-term")).entry
    clock.now += 14 * DAY_MS - 1
    assert sorted(await ids(refs, "披萨")) == sorted([long.ref, short.ref])
    clock.now += 1
    assert await ids(refs, "披萨") == [long.ref]
    assert await ids(refs, short.ref) == []
    with pytest.raises(MemoryNotFound):
        await refs.get(short.ref)
    assert await refs.count("short-term") == 0
    assert await refs.count("long-term") == 1
    assert (await page(knowledge.store, SHORT, Filter()))[1] == 1
    assert await refs.clean_up("short-term") == (1, "k3")
    assert await refs.clean_up("short-term") == (0, None)
    assert (await page(knowledge.store, SHORT, Filter()))[1] == 0
    clock.now += 3650 * DAY_MS
    assert await ids(refs, "披萨") == []


async def test_the_oldest_above_the_bound_go_into_the_archive_at_each_add(
    tmp_path: Path, clock: Clock
) -> None:
    bounds = {
        "short_term_entries": 3,
        "short_term_content_chars": 50,
        "long_term_entries": 5,
        "long_term_content_chars": 100,
    }
    store = SqliteStore(tmp_path / "k.sqlite3", clock)
    refs = Refs(store, clock, RefOptions(**bounds))
    for number in range(10):
        clock.now += 1
        await refs.add(f"number {number}")
        assert await refs.count("short-term") == min(3, number + 1)
    live, _ = await page(store, SHORT, Filter())
    assert sorted(entry.body for entry in live) == ["number 7", "number 8", "number 9"]
    archived, total = await page(store, SHORT, Filter(archived=True))
    assert total == 7
    assert {entry.reason for entry in archived} == {"over_limit"}
    long = await refs.add("x" * 130, "long-term")
    assert len(long.entry.body) == 100
    assert long.result == 30
    assert (await refs.add("x" * 50)).result == 0
    await store.aclose()


async def test_deleting_and_clearing_can_be_undone(refs: Refs, knowledge: Knowledge) -> None:
    entries = [(await refs.add(f"披萨 {number}")).entry for number in range(3)]
    _, change = await refs.delete(entries[0].ref)
    assert len(await ids(refs, "披萨")) == 2
    assert change is not None
    await KnowledgeLifecycle(knowledge).undo(change)
    assert len(await ids(refs, "披萨")) == 3
    cleared, change = await refs.clear("short-term")
    assert cleared == 3
    assert await ids(refs, "披萨") == []
    assert change is not None
    await KnowledgeLifecycle(knowledge).undo(change)
    assert len(await ids(refs, "披萨")) == 3
    assert await refs.clear("long-term") == (0, None)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"content": ""}, "The content is empty"),
    ({"content": " \n"}, "The content is empty"),
    (
        {"content": "x", "namespace": "medium"},
        "`medium` is not a namespace; use short-term or long-term",
    ),
    ({"content": "x", "importance": 1.5}, "The importance is a number from 0 to 1, not 1.5"),
    ({"content": "x", "importance": float("nan")}, "from 0 to 1, not nan"),
    (
        {"content": "x", "tags": ["t"] + [str(number) for number in range(50)]},
        "too long: 51, and at most 50 tags",
    ),
    ({"content": "x", "tags": ["t" * 101]}, "longest tag is too long"),
    ({"content": "x", "metadata": {"a": "x" * 17_000}}, "The metadata is too long"),
    ({"content": "x", "source": "s" * 201}, "The source is too long"),
]


@pytest.mark.parametrize(("arguments", "reason"), BAD, ids=[reason for _, reason in BAD])
async def test_bad_input_is_one_sentence_and_changes_nothing(
    refs: Refs, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason) as failure:
        await refs.add(**arguments)
    assert str(failure.value).endswith(".")
    assert await refs.count("short-term") == 0
    assert await refs.count("long-term") == 0


async def test_what_is_private_or_recalled_is_not_stored(refs: Refs) -> None:
    assert (await refs.add("key <private>1234</private> here")).entry.body == "key  here"
    with pytest.raises(NothingToKeep):
        await refs.add("<private>1234</private>")
    with pytest.raises(InvalidInput, match="The query is empty"):
        await refs.search(" ")


async def called(app: App, name: str, **arguments: Any) -> dict[str, Any]:
    return (
        await call(TOOLS[name], app.call, arguments, max_bytes=app.settings.results.max_bytes)
    ).structured


@pytest.mark.parametrize("max_bytes", [2_000, 40_000])
async def test_no_result_holds_a_whole_text_but_that_of_one_tool(
    tmp_path: Path, max_bytes: int
) -> None:
    text = "".join(f'第{number}行 line {number} \x01 "quoted" 🎂\n' for number in range(3000))
    settings = Settings(results={"max_bytes": max_bytes})  # type: ignore[arg-type]
    async with open_memory(tmp_path, settings=settings) as app:
        added = await called(app, "memoryAdd", content=text, tags=["lines"])
        ref = added["referenceId"]
        results = [
            added,
            await called(app, "memorySearch", query="line", includeContent=True, why=True),
            await called(app, "memorySearch", query=ref, includeContent=True),
            await called(app, "memoryStats"),
            await called(app, "memoryDelete", id=ref),
            await called(app, "undo_change", changeId="k2"),
            await called(app, "memoryClearAll"),
            await called(app, "undo_change", changeId="k4"),
            await called(app, "memoryCleanup"),
        ]
        for result in results:
            assert "第200行" not in str(result)
            assert max(map(len, texts_in(result)), default=0) <= 1200
        read_text = ""
        offset = 0
        while offset is not None:
            data = (await called(app, "memoryGetContent", id=ref[:8], offset=offset))["data"]
            assert data["contentLength"] == len(text)
            read_text += data["content"]
            offset = data.get("next")
        assert read_text == text


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return list(chain.from_iterable(map(texts_in, value.values())))
    if isinstance(value, list):
        return list(chain.from_iterable(map(texts_in, value)))
    return []


async def test_a_score_is_at_most_100_percent(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        await called(app, "memoryAdd", content="pizza", tags=["pizza"], importance=1)
        (row,) = (await called(app, "memorySearch", query="pizza"))["data"]["results"]
        assert row["score"] == "100.0%"


async def test_refs_in_memory_are_forgotten_and_have_no_change_ids(tmp_path: Path) -> None:
    settings = Settings(refs={"backend": "memory"})  # type: ignore[arg-type]
    async with open_memory(tmp_path, settings=settings) as app:
        added = await called(app, "memoryAdd", content="text")
        assert "changeId" not in added
        assert (await called(app, "memoryStats"))["data"]["total"] == 1
        await called(app, "memoryDelete", id=added["referenceId"])
    async with open_memory(tmp_path, settings=settings) as app:
        assert (await called(app, "memoryStats"))["data"]["total"] == 0
    assert not (tmp_path / ".memory-server" / "knowledge.sqlite3").exists()


async def test_parts_of_words_are_found_from_their_beginning(refs: Refs) -> None:
    long = (await refs.add("the configuration of the authentication service")).entry.ref
    await refs.add("the convention of the author's house")
    assert await ids(refs, "config") == [long]
    assert await ids(refs, "authent") == [long]
    assert len((await refs.search("co")).hits) == 0
    hit = (await refs.search("config service")).hits[0]
    assert hit.why.startswith("config, service in summary and content")


async def test_words_of_one_character_count_only_alone(refs: Refs) -> None:
    await refs.add("data of the plant x 猫")
    assert (await refs.search("data a x")).hits[0].score == pytest.approx(0.75, abs=0.001)
    assert len((await refs.search("x")).hits) == len((await refs.search("猫")).hits) == 1


async def test_other_words_find_refs_after_those_of_the_query(refs: Refs, clock: Clock) -> None:
    trazodone = (await refs.add("trazodone, 50 mg, for insomnia")).entry.ref
    pill = (await refs.add("the sleeping pill")).entry.ref
    weak_ref = (await refs.add("filler " * 300 + "insomnia")).entry.ref
    clock.now += 200 * HOUR_MS  # so that nothing counts because it is new
    assert await ids(refs, "sleeping pill") == [pill]
    words = ["Trazodone", "insomnia", "pill"]
    matches = await refs.search("sleeping pill", other_words=words)
    assert [hit.entry.ref for hit in matches.hits] == [
        pill,
        trazodone,
    ]  # one other word at the end of a text says too little
    assert weak_ref not in await ids(refs, "sleeping pill", other_words=words)
    assert matches.total == 2
    first, second = matches.hits
    assert first.score == (await refs.search("sleeping pill")).hits[0].score > second.score
    assert second.why.startswith(
        "trazodone, insomnia (given by the caller) in summary and content; "
    )
    assert second.matched == {}
    assert second.by_other_words is True


async def test_other_words_add_to_a_ref_that_the_query_finds(refs: Refs) -> None:
    plain = (await refs.add("gateway log of monday")).entry.ref
    both = (await refs.add("gateway log with a timeout")).entry.ref
    await refs.add("gateway log of friday")
    assert (await ids(refs, "gateway log"))[0] != both
    matches = await refs.search("gateway log", other_words=["timeout"])
    assert matches.hits[0].entry.ref == both
    assert matches.hits[0].why.startswith(
        "gateway, log in summary and content; timeout (given by the caller) in summary"
    )
    assert plain in [hit.entry.ref for hit in matches.hits]


async def test_other_words_beside_punctuation_or_an_id(refs: Refs) -> None:
    arrow = (await refs.add("a -> b")).entry.ref
    word = (await refs.add("arrows of the editor")).entry.ref
    both = (await refs.add("x -> y, an arrow")).entry.ref
    assert await ids(refs, "->", other_words=["arrow"]) == [both, arrow, word]
    assert await ids(refs, arrow, other_words=["arrow"]) == [arrow]


@pytest.mark.parametrize("query", ["config GPT5 1", "->", "猫 x", "config"])
async def test_other_words_that_no_ref_has_change_nothing(refs: Refs, query: str) -> None:
    for text in ("config of GPT5", "gpt 5 -> config", "猫 x y", "authentication configuration"):
        await refs.add(text, tags=[text[:3]])
    assert (await refs.search(query)).hits == (
        await refs.search(query, other_words=["absent"])
    ).hits


def test_a_ref_of_other_words_has_at_most_the_score_of_what_the_query_finds() -> None:
    def scored(number: int, score: float, *, by_other_words: bool) -> ScoredRef:
        return ScoredRef(Share(number, NOW, None), SHORT, {"summary": score}, by_other_words)

    own = [scored(1, 0.2, by_other_words=False), scored(2, 0.5, by_other_words=False)]
    others = [scored(3, 0.1, by_other_words=True), scored(4, 0.4, by_other_words=True)]
    ranked = best_first([*others, *own])
    assert [(ref.share.id, ref.score) for ref in ranked] == [
        (2, 0.5),
        (1, 0.2),
        (4, 0.2),
        (3, 0.05),
    ]
    assert [ref.score for ref in best_first(others)] == [0.4, 0.1]
