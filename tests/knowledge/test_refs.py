"""Refs: what is stored and cut, the score to the last digit, bounds that hold, and no whole text but by one tool."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from entries_held import page
from knowledge.conftest import NOW, Clock

from memory_server import open_memory
from memory_server.app import App
from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, NothingToKeep
from memory_server.kernel.scopes import Scope
from memory_server.kernel.times import DAY_MS
from memory_server.knowledge.entry import Filter, Operation, Share
from memory_server.knowledge.options import Namespace
from memory_server.knowledge.ranking import reference_parts
from memory_server.knowledge.ref_ranking import ScoredRef, best_first
from memory_server.knowledge.refs import RefOptions, Refs, summary_of
from memory_server.knowledge.service import Knowledge
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call
from nlp.index_terms import IndexTerm, sought_in, terms_of

pytestmark = pytest.mark.anyio
HOUR_MS = 3_600_000
SHORT = Scope("refs", "short-term")


@pytest.fixture
async def knowledge(tmp_path: Path, clock: Clock) -> AsyncIterator[Knowledge]:
    made = Knowledge(SqliteStore(tmp_path / "k.sqlite3", clock), clock)
    yield made
    await made.aclose()


@pytest.fixture
def refs(knowledge: Knowledge) -> Refs:
    return knowledge.refs


async def ids(refs: Refs, query: str, **given: Any) -> list[str]:
    return [each.entry.ref for each in (await refs.search(query, **given)).hits]


async def test_a_ref_has_16_digits_and_a_summary(refs: Refs) -> None:
    done = await refs.add("API response " * 500, "long-term", tags=["api"], source="tool", importance=0.5)
    assert len(done.entry.ref) == 16
    assert set(done.entry.ref) <= set("0123456789abcdef")
    assert len(done.entry.title) <= 1200
    assert (done.result, done.change_id) == (0, "k1")
    assert await refs.get(done.entry.ref) == ("long-term", done.entry)
    assert done.entry.expires_ms == NOW + 3650 * DAY_MS


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


async def test_a_ref_that_was_imported_without_a_summary_gets_one_when_it_is_read(refs: Refs) -> None:
    ref = (await refs.add("API response data of the gateway")).entry
    unlike = [replace(ref, title="")]
    await refs.store.commit(SHORT, lambda held: (unlike, None), Operation("restore", "import"))
    _namespace, entry = await refs.get(ref.ref)
    assert entry.title == ref.title
    (hit,) = (await refs.search("gateway response")).hits
    assert (hit.entry.title, round(hit.score, 2)) == (ref.title, 0.75)
    assert not await refs.store.read(SHORT, lambda held: held.ids(Filter(untitled=True)))


async def test_a_clean_up_gives_each_ref_its_summary_and_ends_where_there_is_none(refs: Refs) -> None:
    entries = [replace((await refs.add(f"text {number}")).entry, title="") for number in range(45)]
    await refs.store.commit(SHORT, lambda held: (entries, None), Operation("restore", "import"))
    await refs.summarize()
    titles = await refs.store.read(SHORT, lambda held: sorted(entry.title for entry in held.entries(Filter())))
    assert titles == sorted(entry.body for entry in entries)


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
    made = []
    for _ in range(120):
        clock.now += rng.randrange(2 * HOUR_MS)
        words = rng.sample(WORDS, rng.randrange(1, 6))
        content = " ".join(words[:2]) + " filler" * rng.choice([0, 300]) + " " + " ".join(words[2:])
        namespace: Namespace = rng.choice(("short-term", "long-term"))
        tags = rng.sample(WORDS, rng.randrange(3))
        importance = rng.choice([None, 0.0, 0.3, 1.0])
        made.append((await refs.add(content, namespace, tags=tags, importance=importance)).entry)
    clock.now += 5 * HOUR_MS

    def begins(sought: IndexTerm) -> bool:
        return sought.prefix or len(sought.term) > 2

    for query in ["披萨", "数据库 error", "C++ 猫 nothing", "cafe 🎂 连接 timeout", "errors of the gateway", "数"]:
        sought = sought_in(query)
        expected = {}
        for entry in made:
            counts = []
            for text in (entry.title, entry.body, "\n".join(entry.tags)):
                terms = terms_of(text)
                counts.append(
                    sum(any(t == s.term or (begins(s) and t.startswith(s.term)) for t in terms) for s in sought)
                )
            summary, content_count, tag_count = (count / len(sought) for count in counts)
            hours = (clock.now - entry.created_ms) / HOUR_MS
            score = 0.40 * summary + 0.25 * content_count + 0.20 * tag_count
            if score:
                score += max(0, 0.10 - 0.001 * hours) + 0.05 * (entry.importance or 0)
                if score >= 0.15:
                    expected[entry.ref] = min(1.0, score)
        found = await refs.search(query, limit=100)
        assert found.total == len(expected)
        for each in found.hits:
            assert abs(each.score - expected.pop(each.entry.ref)) < 1e-9
        assert max(expected.values(), default=0) <= min((each.score for each in found.hits), default=1) + 1e-9
        assert [each.score for each in found.hits] == sorted((each.score for each in found.hits), reverse=True)


async def test_filters_and_limits(refs: Refs) -> None:
    for number in range(8):
        await refs.add(f"config {number}", "long-term" if number % 2 else "short-term", tags=["Even"][number % 2 :])
    assert len(await ids(refs, "config")) == 5
    assert (await refs.search("config", limit=3)).total == 8
    assert len(await ids(refs, "config", namespace="long-term")) == 4
    assert len(await ids(refs, "config", tags=["even", "x"])) == 4
    assert await ids(refs, "nothing") == []
    assert await ids(refs, "->") == []
    arrow = await refs.add("a -> b")
    assert await ids(refs, "->") == [arrow.entry.ref]


async def test_an_id_or_its_beginning_names_one(refs: Refs, knowledge: Knowledge) -> None:
    one, two = (await refs.add("text one")).entry, (await refs.add("text two", "long-term")).entry
    assert await ids(refs, one.ref) == [one.ref]
    assert await ids(refs, two.ref[:6]) == [two.ref]
    assert (await refs.search(two.ref)).hits[0].score == 1.0
    assert await ids(refs, two.ref, namespace="short-term") == []
    assert await ids(refs, one.ref[:5]) == []
    twin = replace(two, id=0, ref=one.ref[:8] + "0" * 8)
    await knowledge.store.commit(Scope("refs", "long-term"), lambda _: ([twin], None), Operation("x"))
    assert await ids(refs, one.ref[:8]) == []
    with pytest.raises(InvalidInput, match=f"Several ids begin with {one.ref[:8]}; write more digits"):
        await refs.get(one.ref[:8])
    with pytest.raises(MemoryNotFound, match="memorySearch finds references by words"):
        await refs.get("abc")
    assert len(await ids(refs, "text")) == 3


async def test_what_is_over_is_hidden_at_once_and_archived_by_the_clean_up(
    refs: Refs, clock: Clock, knowledge: Knowledge
) -> None:
    short = (await refs.add("披萨 short")).entry
    long = (await refs.add("披萨 long", "long-term")).entry
    clock.now += 14 * DAY_MS - 1
    assert await ids(refs, "披萨") == [long.ref, short.ref] or len(await ids(refs, "披萨")) == 2
    clock.now += 1
    assert await ids(refs, "披萨") == [long.ref]
    assert await ids(refs, short.ref) == []
    with pytest.raises(MemoryNotFound):
        await refs.get(short.ref)
    assert (await refs.count("short-term"), await refs.count("long-term")) == (0, 1)
    assert (await page(knowledge.store, SHORT, Filter()))[1] == 1
    assert await refs.clean_up("short-term") == (1, "k3")
    assert await refs.clean_up("short-term") == (0, None)
    assert (await page(knowledge.store, SHORT, Filter()))[1] == 0
    clock.now += 3650 * DAY_MS
    assert await ids(refs, "披萨") == []


async def test_the_oldest_above_the_bound_go_into_the_archive_at_each_add(tmp_path: Path, clock: Clock) -> None:
    bounds = {
        "short_term_entries": 3,
        "short_term_content_chars": 50,
        "long_term_entries": 5,
        "long_term_content_chars": 100,
    }
    refs = Refs(store := SqliteStore(tmp_path / "k.sqlite3", clock), clock, RefOptions(**bounds))
    for number in range(10):
        clock.now += 1
        await refs.add(f"number {number}")
        assert await refs.count("short-term") == min(3, number + 1)
    assert sorted(each.body for each in (await page(store, SHORT, Filter()))[0]) == ["number 7", "number 8", "number 9"]
    archived, total = await page(store, SHORT, Filter(archived=True))
    assert (total, {each.reason for each in archived}) == (7, {"over_limit"})
    long = await refs.add("x" * 130, "long-term")
    assert (len(long.entry.body), long.result) == (100, 30)
    assert (await refs.add("x" * 50)).result == 0
    await store.aclose()


async def test_deleting_and_clearing_can_be_undone(refs: Refs, knowledge: Knowledge) -> None:
    entries = [(await refs.add(f"披萨 {number}")).entry for number in range(3)]
    _, change = await refs.delete(entries[0].ref)
    assert len(await ids(refs, "披萨")) == 2
    assert change is not None
    await knowledge.lifecycle.undo(change)
    assert len(await ids(refs, "披萨")) == 3
    cleared, change = await refs.clear("short-term")
    assert (cleared, await ids(refs, "披萨")) == (3, [])
    assert change is not None
    await knowledge.lifecycle.undo(change)
    assert len(await ids(refs, "披萨")) == 3
    assert await refs.clear("long-term") == (0, None)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"content": ""}, "The content is empty"),
    ({"content": " \n"}, "The content is empty"),
    ({"content": "x", "namespace": "medium"}, "`medium` is not a namespace; use short-term or long-term"),
    ({"content": "x", "importance": 1.5}, "The importance is a number from 0 to 1, not 1.5"),
    ({"content": "x", "importance": float("nan")}, "from 0 to 1, not nan"),
    ({"content": "x", "tags": ["t"] + [str(n) for n in range(50)]}, "too long: 51, and at most 50 tags"),
    ({"content": "x", "tags": ["t" * 101]}, "longest tag is too long"),
    ({"content": "x", "metadata": {"a": "x" * 17_000}}, "The metadata is too long"),
    ({"content": "x", "source": "s" * 201}, "The source is too long"),
]


@pytest.mark.parametrize(("given", "said"), BAD, ids=[said for _, said in BAD])
async def test_bad_input_is_one_sentence_and_changes_nothing(refs: Refs, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as failure:
        await refs.add(**given)
    assert str(failure.value).endswith(".")
    assert (await refs.count("short-term"), await refs.count("long-term")) == (0, 0)


async def test_what_is_private_or_recalled_is_not_stored(refs: Refs) -> None:
    assert (await refs.add("key <private>1234</private> here")).entry.body == "key  here"
    with pytest.raises(NothingToKeep):
        await refs.add("<private>1234</private>")
    with pytest.raises(InvalidInput, match="The query is empty"):
        await refs.search(" ")


async def called(app: App, name: str, **given: Any) -> dict[str, Any]:
    return (await call(TOOLS[name], app.call, given, max_bytes=app.settings.results.max_bytes)).structured


@pytest.mark.parametrize("max_bytes", [2_000, 40_000])
async def test_no_result_holds_a_whole_text_but_that_of_one_tool(tmp_path: Path, max_bytes: int) -> None:
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
        got, offset = "", 0
        while offset is not None:
            data = (await called(app, "memoryGetContent", id=ref[:8], offset=offset))["data"]
            assert data["contentLength"] == len(text)
            got, offset = got + data["content"], data.get("next")
        assert got == text


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in texts_in(each)]


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
    assert [each.entry.ref for each in (await refs.search("config")).hits] == [long]
    assert [each.entry.ref for each in (await refs.search("authent")).hits] == [long]
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
    other = (await refs.add("filler " * 300 + "insomnia")).entry.ref
    clock.now += 200 * HOUR_MS  # so that nothing counts because it is new
    assert await ids(refs, "sleeping pill") == [pill]
    words = ["Trazodone", "insomnia", "pill"]
    found = await refs.search("sleeping pill", other_words=words)
    assert [hit.entry.ref for hit in found.hits] == [
        pill,
        trazodone,
    ]  # one other word at the end of a text says too little
    assert other not in await ids(refs, "sleeping pill", other_words=words)
    assert found.total == 2
    first, second = found.hits
    assert first.score == (await refs.search("sleeping pill")).hits[0].score > second.score
    assert second.why.startswith("trazodone, insomnia (given by the caller) in summary and content; ")
    assert (second.matched, second.by_other_words) == ({}, True)


async def test_other_words_add_to_a_ref_that_the_query_finds(refs: Refs) -> None:
    plain = (await refs.add("gateway log of monday")).entry.ref
    both = (await refs.add("gateway log with a timeout")).entry.ref
    await refs.add("gateway log of friday")
    assert (await ids(refs, "gateway log"))[0] != both
    found = await refs.search("gateway log", other_words=["timeout"])
    assert found.hits[0].entry.ref == both
    assert found.hits[0].why.startswith("gateway, log in summary and content; timeout (given by the caller) in summary")
    assert plain in [hit.entry.ref for hit in found.hits]


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
    assert (await refs.search(query)).hits == (await refs.search(query, other_words=["absent"])).hits


def test_a_ref_of_other_words_has_at_most_the_score_of_what_the_query_finds() -> None:
    def scored(number: int, score: float, *, by_other_words: bool) -> ScoredRef:
        return ScoredRef(Share(number, NOW, None), SHORT, {"summary": score}, by_other_words)

    own = [scored(1, 0.2, by_other_words=False), scored(2, 0.5, by_other_words=False)]
    others = [scored(3, 0.1, by_other_words=True), scored(4, 0.4, by_other_words=True)]
    ranked = best_first([*others, *own])
    assert [(ref.share.id, ref.score) for ref in ranked] == [(2, 0.5), (1, 0.2), (4, 0.2), (3, 0.05)]
    assert [ref.score for ref in best_first(others)] == [0.4, 0.1]
