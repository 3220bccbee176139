"""The toolset `insight` over a data folder: why a memory came or not, and finding memories by what is known of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sample_memories import DAY, MINUTE, NOW, memory

from memory_server.config import Settings
from memory_server.conversations.changes import Added
from memory_server.conversations.model import Correction
from memory_server.kernel.errors import StorageError
from memory_server.kernel.messages import Message
from memory_server.kernel.work import Work
from memory_server.lore.memory import LongTermMemory
from memory_server.runtime.app import App, parameters
from memory_server.runtime.runtime import Runtime
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import Answer, ToolFailed, call
from sandbox import TriggerSandbox

pytestmark = pytest.mark.anyio

ASK = [{"role": "user", "content": "晚上吃披萨吗？"}]
STATED = [{"role": "user", "content": "晚上吃披萨。"}]


@pytest.fixture
async def app(tmp_path: Path, trigger_sandbox: TriggerSandbox) -> AsyncIterator[App]:
    settings = Settings.model_validate(
        {
            "data_dir": tmp_path,
            "now": NOW / 1000,
            "seed": 1,
            "timezone": "Asia/Shanghai",
            "conversation": "chat",
        }
    )
    async with App(settings, runtime=Runtime(settings, lent_sandbox=trigger_sandbox)) as opened:
        yield opened


async def keep(app: App, *memories: Any, chat: str = "chat") -> None:
    # As if they had been stored with the settings of this app.
    form = parameters(app.settings).wording.enrichment.signature
    added = [Added(replace(stored, indexed_with=form)) for stored in memories]
    await app.store.update(chat, lambda _: (added, None), by="test")


async def ask(app: App, tool: str, **arguments: Any) -> Answer:
    return await call(TOOLS[tool], app.call, arguments)


async def explanation_of(
    app: App, memory_id: str, *, messages: Any = ASK, **arguments: Any
) -> dict[str, Any]:
    answer = await ask(
        app, "explain_recall", memory_id=memory_id, recentMessages=messages, **arguments
    )
    assert answer.structured["reason"] in answer.text
    return answer.structured


def relevant(memory_id: str, weight: float, *, age: int, **rest: Any) -> Any:
    return memory(memory_id, age=age, words={"披萨": weight}, **rest)


async def test_each_reason_is_told(app: App) -> None:
    await keep(
        app,
        *(relevant(f"m{n}", 60.0 - n, age=(n + 2) * DAY) for n in range(3)),
        relevant("late", 50.0, age=20 * DAY),
        relevant("beside", 59.95, age=2 * DAY + 2 * MINUTE),
        relevant("third", 59.92, age=2 * DAY + 3 * MINUTE),
        relevant("near", 59.9, age=2 * DAY + 4 * MINUTE),
        relevant("new", 90.0, age=5 * MINUTE),
        memory("other", age=30 * DAY, words={"猫": 9.0}, text="user: 猫"),
    )
    version = (await app.store.read("chat")).version
    assert (await explanation_of(app, "m0"))["verdict"] == "came"
    outranked = await explanation_of(app, "late")
    assert outranked["verdict"] == "outranked"
    # A fourth would have to be nearly as relevant as the best.
    assert [row["id"] for row in outranked["by"]] == ["m0", "beside", "third"]
    assert "flashback" not in outranked, (
        "after a question nothing comes by chance where matches came"
    )
    stated = await explanation_of(app, "late", messages=STATED)
    assert [row["id"] for row in stated["by"]] == ["m0", "beside", "third"]
    assert 0 < stated["flashback"]["probability"] <= 1
    near = await explanation_of(app, "near")
    assert (near["verdict"], near["by"][0]["id"], near["by"][0]["minutesApart"]) == (
        "same_moment",
        "m0",
        4.0,
    )
    near = await explanation_of(app, "near", messages=STATED)
    assert "flashback" not in near
    assert "It cannot be a flashback" in near["reason"]
    recent = await explanation_of(app, "new")
    assert recent["verdict"] == "too_recent"
    assert "It can come in 15 min." in recent["reason"]
    below = await explanation_of(app, "other")
    assert (below["verdict"], below["matchedWords"]) == ("below_threshold", [])
    parts = below["match"] + below["around"] - below["decay"] + below["score"]
    assert below["relevance"] == pytest.approx(parts, abs=0.01)
    assert (await app.store.read("chat")).version == version, "explaining leaves no trace"


async def test_the_parts_of_relevance_are_all_told(app: App) -> None:
    await keep(app, relevant("day", 30.0, age=2 * DAY, text="user: 披萨 88 元"))
    asked = [{"role": "user", "content": "前天的披萨多少钱？"}]
    explanation = await explanation_of(app, "day", messages=asked)
    assert explanation["span"] > 0.0
    assert explanation["cue"] > 0.0
    parts = (
        explanation["match"]
        + explanation["around"]
        + explanation["span"]
        + explanation["cue"]
        - explanation["decay"]
        + explanation["score"]
    )
    assert explanation["relevance"] == pytest.approx(parts, abs=0.03), "each part is rounded"
    text = (await ask(app, "explain_recall", memory_id="day", recentMessages=asked)).text
    assert f" + time {explanation['span']:.2f} + asked {explanation['cue']:.2f} - decay " in text


async def test_what_was_removed_is_told_with_the_way_back(app: App) -> None:
    await keep(app, relevant("gone", 50.0, age=DAY, text="user: 我爱吃披萨"))
    done = await ask(app, "delete_short_term_memories", pattern="披萨")
    explanation = await explanation_of(app, "gone")
    assert explanation["verdict"] == "archived"
    assert explanation["archived"]["reason"] == "deleted"
    assert explanation["archived"]["removedBy"] == "delete_short_term_memories"
    assert explanation["archived"]["changeId"] == done.structured["changeId"]
    assert "memory-server undo --memory gone" in explanation["reason"]
    by_words = await ask(app, "explain_recall", text="披萨", recentMessages=ASK)
    assert by_words.structured["id"] == "gone"
    await ask(app, "undo_change", changeId=explanation["archived"]["changeId"])
    assert (await explanation_of(app, "gone"))["verdict"] == "came"


async def test_what_was_removed_is_searched_by_hand_and_comes_back(app: App) -> None:
    await keep(
        app,
        relevant("kept", 50.0, age=DAY, text="user: 我爱吃披萨"),
        relevant("gone", 50.0, age=3 * DAY, score=5.0, text="user: 披萨要加芝麻 #吃"),
        memory("cat", age=2 * DAY, words={"猫": 9.0}, text="user: 猫睡了"),
    )
    await app.conversation().long_term.add("买菜", "记得买披萨", "true")
    done = await ask(app, "delete_short_term_memories", pattern="/芝麻|猫/")
    await ask(app, "delete_long_term_memory", name="买菜")
    archived = await ask(app, "search_memories", query="披萨", archived=True)
    short, long = archived.structured["results"]
    assert (short["id"], short["matched"], short["tags"], short["score"]) == (
        "gone",
        ["披萨"],
        ["吃"],
        5.0,
    )
    assert short["removed"]["reason"] == "deleted"
    assert short["removed"]["removedBy"] == "delete_short_term_memories"
    assert short["removed"]["changeId"] == done.structured["changeId"]
    assert (long["name"], long["memory_type"]) == ("买菜", "long_term")
    assert ", deleted 2026-06-21\n" in archived.text
    assert "`memory-server --conversation chat undo --memory gone`" in archived.text
    assert archived.text.endswith("2 memories found, 2 shown.")

    async def names(**arguments: Any) -> list[str]:
        answer = await ask(app, "search_memories", archived=True, **arguments)
        return [hit.get("id") or hit["name"] for hit in answer.structured["results"]]

    assert await names(memory_type="short_term") == ["cat", "gone"]
    assert await names(memory_type="long_term") == ["买菜"]
    assert await names(min_score=1) == ["gone"]
    assert await names(limit=1, offset=1, memory_type="short_term") == ["gone"]
    assert await names(conversation_id="work") == []
    assert await names(conversation_id="work", scope="all", memory_type="short_term") == [
        "cat",
        "gone",
    ]
    await ask(app, "restore_memories_from_archive", ids=["gone"])
    assert await names(query="披萨") == ["买菜"]
    plain = await ask(app, "search_memories", query="披萨")
    assert {hit["id"] for hit in plain.structured["results"]} == {"kept", "gone"}
    assert not any("removed" in hit for hit in plain.structured["results"])
    assert "undo --memory" not in plain.text


async def test_a_date_until_which_something_was_removed_means_all_of_the_day(
    tmp_path: Path, trigger_sandbox: TriggerSandbox
) -> None:
    noon = datetime(2026, 6, 21, 12, tzinfo=UTC)
    settings = Settings(data_dir=tmp_path, now=noon.timestamp(), conversation="chat")
    async with App(settings, runtime=Runtime(settings, lent_sandbox=trigger_sandbox)) as app:
        await keep(app, memory("gone", text="user: 披萨"))
        await ask(app, "delete_short_term_memories", pattern="披萨")
        counts = {}
        for day in ("2026-06-20", "2026-06-21"):
            answer = await ask(app, "restore_memories_from_archive", removedUntil=day, dry_run=True)
            counts[day] = answer.structured["restoredCount"]
    assert counts == {"2026-06-20": 0, "2026-06-21": 1}


async def test_the_last_version_of_a_memory_that_was_removed_twice_is_found(app: App) -> None:
    for number in (1, 2):
        await keep(app, memory("m", text=f"user: 披萨 {number}"))
        await ask(app, "delete_short_term_memories", pattern="披萨")
    answer = await ask(app, "search_memories", keywords=["披萨"], archived=True)
    assert [hit["text"] for hit in answer.structured["results"]] == ["user: 披萨 2"]


# --- a question that finds nothing ------------------------------------------------------------------------


async def test_a_question_that_finds_nothing_says_what_the_archive_would_have(app: App) -> None:
    cat = memory("cat", age=2 * DAY, words={"猫": 9.0}, text="user: 猫")
    await keep(app, relevant("gone", 50.0, age=DAY), cat)
    asked = {"recentMessages": ASK}
    assert "note" not in (await ask(app, "search_short_term_memories", **asked)).structured
    await ask(app, "delete_short_term_memories", pattern="披萨")
    archive_note = (
        "The archive has 1 memory that would match; it was forgotten or deleted: "
        "`memory-server --conversation chat search "
    )
    note = (await ask(app, "search_short_term_memories", **asked)).structured["note"]
    assert (
        note
        == f"No memory shares enough words with these messages. {archive_note}--archived '披萨 吃'` shows them."
    )
    turn = await ask(app, "recall_turn", messages=ASK)
    assert turn.structured["note"].startswith(archive_note)
    assert archive_note in turn.text
    unrelated = [{"role": "user", "content": "外面在打雷"}]
    assert (
        "archive"
        not in (await ask(app, "search_short_term_memories", recentMessages=unrelated)).text
    )
    assert "note" not in (await ask(app, "recall_turn", messages=unrelated)).structured


async def test_the_archive_is_not_looked_at_where_something_came(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(app, relevant("kept", 50.0, age=DAY))

    async def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("the archive was read")

    monkeypatch.setattr(app.store, "archive", never)
    assert (await ask(app, "search_short_term_memories", recentMessages=ASK)).structured[
        "topRelevant"
    ]
    assert (await ask(app, "recall_turn", messages=ASK)).structured["shortTerm"]["topRelevant"]


async def test_an_archive_that_cannot_be_read_costs_a_search_nothing(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise StorageError("It cannot be read.", Path("archive.jsonl"))

    monkeypatch.setattr(app.store, "archive", broken)
    answer = await ask(app, "search_short_term_memories", recentMessages=ASK)
    assert answer.structured["note"] == "Nothing is stored yet in what was searched."


async def test_what_is_kept_elsewhere_is_told_with_what_a_wider_search_would_do(app: App) -> None:
    await keep(app, relevant("theirs", 50.0, age=DAY, chat="work"), chat="work")
    explanation = await explanation_of(app, "theirs")
    assert (explanation["verdict"], explanation["conversation_id"]) == ("elsewhere", "work")
    assert "conversation_id `work`" in explanation["reason"]
    assert "It came as top" in explanation["reason"]
    assert (await explanation_of(app, "theirs", scope="all"))["verdict"] == "came"
    assert (await explanation_of(app, "theirs", conversation_id="work"))["verdict"] == "came"


async def test_a_memory_is_found_by_its_words_or_by_a_part_of_its_text(app: App) -> None:
    await keep(
        app,
        relevant("weak", 5.0, age=DAY),
        relevant("strong", 50.0, age=2 * DAY),
        memory("wordless", age=3 * DAY, text="user: 嗯嗯，好"),
    )
    for text, memory_id in (("披萨", "strong"), ("嗯嗯", "wordless")):
        answer = await ask(app, "explain_recall", text=text, recentMessages=ASK)
        assert answer.structured["id"] == memory_id
        assert ("1 other memory shares words" in answer.text) is (memory_id == "strong")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"memory_id": "none"}, "No conversation has a short-term memory `none`"),
        ({"text": "没有的词"}, "No memory of chat shares a word with that text"),
        ({}, "give either its memory_id, or text"),
        ({"memory_id": "a", "text": "b"}, "give either its memory_id, or text"),
        ({"memory_id": "a", "scope": "familie"}, "There is no scope `familie`"),
    ],
)
async def test_what_cannot_be_explained_is_one_sentence(
    app: App, arguments: dict[str, str], sentence: str
) -> None:
    await keep(app, relevant("a", 50.0, age=DAY))
    with pytest.raises(ToolFailed, match=sentence):
        await ask(app, "explain_recall", recentMessages=ASK, **arguments)


async def test_memories_of_both_kinds_are_found_page_by_page(app: App) -> None:
    await keep(
        app,
        *(relevant(f"m{n}", 20.0, age=(n + 1) * DAY, text=f"user: 披萨 {n} #吃") for n in range(5)),
    )
    await ask(app, "add_long_term_memory", name="披萨", prompt="爱吃披萨 #吃", trigger="true")
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = (await ask(app, "search_memories", query="披萨", limit=4, offset=offset)).structured
        assert page["total_found"] == 6
        seen += [hit.get("id") or hit["name"] for hit in page["results"]]
        offset = page.get("next")
    assert sorted(seen) == ["m0", "m1", "m2", "m3", "m4", "披萨"]
    tagged = (await ask(app, "search_memories", tags=["#吃"], memory_type="long_term")).structured
    assert [hit["tags"] for hit in tagged["results"]] == [["吃"]]


async def test_a_page_that_is_too_long_goes_on_where_it_ended(app: App) -> None:
    await keep(
        app,
        *(
            relevant(f"m{n:02}", 20.0, age=(n + 1) * DAY, text="user: " + "披萨" * 100)
            for n in range(60)
        ),
    )
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        answer = await call(
            TOOLS["search_memories"],
            app.call,
            {"query": "披萨", "limit": 25, "offset": offset},
            max_bytes=9_000,
        )
        seen += [hit["id"] for hit in answer.structured["results"]]
        offset = answer.structured.get("next")
    assert seen == [f"m{n:02}" for n in range(60)]


async def test_a_day_is_one_of_the_servers_zone_and_is_included(app: App) -> None:
    # NOW is 08:00 on 21 June in Shanghai; the day began eight hours before.
    times = {"before": 8 * 60 + 1, "first": 8 * 60, "last": -16 * 60 + 1, "after": -16 * 60}
    await keep(app, *(memory(name, age=minutes * MINUTE) for name, minutes in times.items()))
    whole_day = await ask(
        app, "search_memories", date_from="2026-06-21", date_to="2026-06-21", order="asc"
    )
    assert [hit["id"] for hit in whole_day.structured["results"]] == ["first", "last"]
    exact = await ask(
        app,
        "search_memories",
        date_from="2026-06-20T16:00:00Z",
        date_to="2026-06-21T00:00:00+08:00",
    )
    assert [hit["id"] for hit in exact.structured["results"]] == ["first"]


async def test_all_conversations_can_be_searched(app: App) -> None:
    await keep(app, relevant("here", 20.0, age=DAY))
    await keep(app, relevant("there", 30.0, age=2 * DAY), chat="work")
    answer = (await ask(app, "search_memories", keywords=["披萨"], scope="all")).structured
    assert [(hit["id"], hit["conversation_id"]) for hit in answer["results"]] == [
        ("there", "work"),
        ("here", "chat"),
    ]


async def test_patterns_of_a_conversation(app: App) -> None:
    await keep(app, relevant("a", 20.0, age=DAY), relevant("b", 30.0, age=9 * DAY, score=7.0))
    medicine = LongTermMemory("药", "芝麻每天一粒", "true", NOW - DAY)
    await ask(
        app,
        "add_long_term_memory",
        name=medicine.name,
        prompt=medicine.prompt,
        trigger=medicine.trigger,
    )
    answer = await ask(app, "analyze_memory_patterns", top_keywords=1)
    short = answer.structured["short_term"]
    long = answer.structured["long_term"]
    assert short["top_keywords"] == [{"word": "披萨", "weight": 50.0, "memories": 2}]
    assert (short["total"], short["average_score"], short["never_recalled"]) == (2, 3.5, 1)
    assert long["total"] == 1
    assert "average_score" not in long
    assert "披萨 (2)" in answer.text
    assert (
        "long_term"
        not in (await ask(app, "analyze_memory_patterns", memory_type="short_term")).structured
    )


@pytest.mark.anyio
async def test_shared_words_are_spelt_as_the_memory_has_them_and_each_once(tmp_path: Path) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        for text in (
            "The dentist appointments are booked.",
            "Longjing tea is fresh.",
            "The real-time feed sends e-mails.",
        ):
            await call(
                TOOLS["add_short_term_memory"],
                app.call,
                {"messages": [{"role": "user", "content": text}]},
            )
        answers = [
            await call(TOOLS["search_memories"], app.call, {"query": query})
            for query in ("booking a dentist appointment", "longjing", "realtime email")
        ]
    matched = [answer.structured["results"][0]["matched"] for answer in answers]
    assert [sorted(words) for words in matched] == [
        ["appointments", "booked", "dentist"],
        ["Longjing"],
        ["e-mails", "real-time"],
    ]


@pytest.mark.anyio
async def test_shared_words_of_changed_files_are_spelt_as_their_paths(tmp_path: Path) -> None:
    worked = memory("one", text="user: Do it.", work=Work(touched=("src/charges.py",)))
    async with App(Settings(data_dir=tmp_path)) as app:
        await keep(app, worked)
        arguments = {"query": "charges.py", "conversation_id": "chat"}
        found = await call(TOOLS["search_memories"], app.call, arguments)
    assert sorted(found.structured["results"][0]["matched"]) == ["charges", "py"]


# --- plans and corrections ----------------------------------------------------------------------------------


def said_in_chat(memory_id: str, text: str, *, age: int, **rest: Any) -> Any:
    return memory(
        memory_id,
        age=age,
        words={"披萨": 50.0},
        text=f"user: {text}",
        messages=(Message("user", text),),
        **rest,
    )


async def test_a_plan_is_named_and_what_was_corrected_names_what_corrected_it(app: App) -> None:
    older = said_in_chat("older", "我周四去吃披萨", age=5 * DAY)
    newer = said_in_chat(
        "newer", "不吃披萨了", age=3 * DAY, corrects=(Correction("older", "caller"),)
    )
    await keep(app, older, newer)
    reason = (await explanation_of(app, "older"))["reason"]
    assert "It is a plan for 18 June, which was 3 days ago." in reason
    assert "It is corrected by newer, said on 2026-06-18: user: 不吃披萨了" in reason
    await app.conversation().short_term.mute("newer", "everywhere")
    assert "corrected by" not in (await explanation_of(app, "older"))["reason"]


async def test_a_search_gives_what_was_corrected_if_it_is_asked_to(app: App) -> None:
    older = said_in_chat("older", "我最爱吃披萨", age=5 * DAY)
    corrects = (Correction("older", "caller"),)
    await keep(app, older, said_in_chat("newer", "披萨太咸了", age=3 * DAY, corrects=corrects))

    async def found(**more: Any) -> list[str]:
        answer = await ask(app, "search_short_term_memories", recentMessages=ASK, **more)
        tiers = answer.structured
        return [item["id"] for item in (*tiers["topRelevant"], *tiers["nextRelevant"])]

    assert await found(reinforce=False) == ["newer"]
    assert sorted(await found(reinforce=False, includeCorrected=True)) == ["newer", "older"]


async def test_recall_turn_shows_the_plans_of_today_unless_the_settings_or_the_caller_say_no(
    app: App,
) -> None:
    plan = said_in_chat("plan", "我周日去吃披萨", age=3 * DAY)
    await keep(app, plan)
    hello = [{"role": "user", "content": "在吗"}]

    async def prompt(**more: Any) -> str:
        text: str = (await ask(app, "recall_turn", messages=hello, **more)).structured["prompt"]
        return text

    assert "今天：" not in await prompt(reinforce=False)
    without = replace(app.call, memories=replace(app.memories, plans=False))
    assert "今天：" not in (await call(TOOLS["recall_turn"], without, {"messages": hello})).text
    assert "今天：用户（3 天前，早上）：我周日去吃披萨" in await prompt()
    assert "今天：" not in await prompt()
    [line] = [item for recall in app.recalls.found() for item in recall.came if item.tier == "plan"]
    assert line.id == "plan"
