"""The pages and forms without a browser: what they show is what the tools say, and each change can be taken back."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from starlette.requests import Request
from web_page import CHAT, FORM, SAME, SERVER, Page, ask, opened, remember

from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.short_term import Origin
from memory_server.conversations.trigger_search import SandboxRunner
from memory_server.kernel.messages import Message
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.serving.http.principals import ALL, Principal
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call
from memory_server.tools.insight import explain_recall
from memory_server.tools.short_term import get_memory_stats
from memory_server.web import access
from memory_server.web import triggers as trigger_page
from memory_server.web.access import HEADERS, LINK_SECONDS, LOOPBACK, OneTimeLink
from memory_server.web.app import PAGES, page_app
from memory_server.web.charts import runs, strip, underlined
from memory_server.web.knowledge import blocks_of
from memory_server.web.speech import Speech, language_of
from memory_server.web.subjects import best_sentences
from memory_server.web.view import request_of, viewed
from memory_server.web.whole import whole
from sandbox import SandboxUnavailable, TriggerSandbox

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere")]

TEXTS = (
    "我对芒果过敏，一口都不行，小时候去过急诊。",
    "芝麻是我的猫，三岁，怕打雷。",
    "芒果布丁端走了，芝麻在旁边看。",
    "建国北路新发现一家贵州馆子，酸汤鱼绝了。",
)
TRIGGER = "match_keys(context.messages, ['芒果', '过敏']) > 0"


@pytest.fixture
async def page(tmp_path: Path):
    async with opened(tmp_path / "data") as page:
        yield page


async def test_the_first_day_says_what_to_do(page: Page) -> None:
    document = await page.get("", lang="en")
    assert "Nothing yet." in document.text
    assert "memory-server install" in document.text


async def test_home_says_how_many_exchanges_and_triggers_there_are(page: Page) -> None:
    await remember(page.app, *TEXTS)
    await page.app.conversation().long_term.add("过敏", "先问有没有芒果", TRIGGER)
    await ask(page.app, "芒果能吃吗？", cwd="/srv/shop")
    stats = await call(get_memory_stats, page.app.call, {"conversation_id": CHAT})
    english = await page.get("", lang="en")
    assert f"{stats.structured['total']} exchanges" in english.text
    assert "1 thing comes up without being asked for." in english.text
    assert "芒果、过敏" not in english.text
    assert "芒果, 过敏" in english.text
    chinese = await page.get("", lang="zh")
    assert f"{stats.structured['total']} 段" in chinese.text
    assert "它记得我什么" in chinese.text


async def test_home_counts_what_else_is_kept_in_the_language_of_the_reader(page: Page) -> None:
    await remember(page.app, *TEXTS)
    await page.app.knowledge.notes.remember("tech", "fruit", "Mangoes grow on trees.")
    await page.app.knowledge.refs.add("A long log of a build")
    await page.app.knowledge.refs.add("Another long log")
    for text in ("Likes tea", "Lives in Bergen"):
        await page.app.knowledge.sessions.add(SessionIds("alice"), text, mode="direct")
    assert "另有 1 条笔记、2 个事实、2 篇长文本" in (await page.get("", lang="zh")).text
    assert "It also keeps 1 note, 2 facts and 2 refs" in (await page.get("", lang="en")).text
    assert "2 facts , last changed first." in (await page.get("facts", lang="en")).text


async def test_a_card_shows_no_sentence_twice(page: Page) -> None:
    greeting = "Hello, I am back from the harbour."
    for number in range(4):
        at = page.app.clock() - (20 + number) * 3_600_000
        await page.app.conversation().short_term.add([Message("user", greeting, at)])
    await page.app.conversation().short_term.add(
        [Message("user", "The harbour smells of fish.", at)]
    )
    memories = await page.app.conversation().short_term.memories()
    sentences = [sentence.text for sentence in best_sentences(memories, "harbour")]
    assert sentences == ["The harbour smells of fish.", greeting]


async def test_a_day_is_said_once(page: Page) -> None:
    await remember(page.app, *TEXTS)
    line = {
        "at": "2026-06-01T08:00:00Z",
        "id": "a1",
        "conversation": CHAT,
        "by": "hook",
        "said": "芒果？",
    }
    page.app.home.recalls.append(line)
    document = await page.get("recalls", lang="en")
    assert [text.strip() for text in document.texts if "June" in text] == [
        "Monday\u00a01\u00a0June"
    ]


async def test_a_change_names_its_own_thing_though_another_place_has_its_number(page: Page) -> None:
    await page.app.knowledge.notes.remember("tech", "deploy", "fly deploy")
    await page.app.knowledge.layers["global"].save("style", "Use tabs", ["code"])
    document = await page.get("history", lang="en")
    assert "deploy" in document.text
    assert "style" not in document.text


async def test_a_recall_is_shown_with_its_words_and_points(page: Page) -> None:
    ids = await remember(page.app, *TEXTS)
    line = await ask(page.app, "我能吃芒果布丁吗？", cwd="/srv/shop")
    document = await page.get("recalls", lang="en")
    assert "You asked" in document.text
    assert "Claude Code, /srv/shop" in document.text
    for item in line["came"]:
        if "relevance" in item and item["tier"] not in ("flashback",):
            assert item["counted"] >= line["needed"]
            assert f"{item['counted']:.0f} points; {line['needed']:.0f} are enough" in document.text
    assert any(
        attributes.get("class", "") in ("u1", "u2", "u3", "u4")
        for attributes in document.named("span")
    )
    assert any(f"id={ids[2]}" in link for link in document.links)


async def test_a_quiet_recall_says_so(page: Page) -> None:
    await remember(page.app, *TEXTS)
    await ask(page.app, "二进制补码为何要取反加一？")
    document = await page.get("recalls", lang="en")
    assert "no memory matched, so nothing was recalled" in document.text


LINES: dict[str, dict[str, Any]] = {
    "nothing but what each line has": {},
    "a session began": {
        "by": "hook",
        "client": "claude-code",
        "came": [{"id": "MEMORY", "tier": "last", "chars": 9}],
    },
    "a quiet one": {"by": "tool", "said": "芒果？"},
    "only a trigger": {
        "said": "芒果？",
        "came": [{"id": "过敏", "tier": "trigger"}],
        "tokens": 9,
        "chars": 9,
    },
    "in context": {"said": "芒果？", "came": [{"id": "MEMORY", "tier": "top", "relevance": 20.0}]},
    "of an old version": {
        "said": "芒果？",
        "came": [{"id": "MEMORY", "tier": "top", "relevance": 2}],
        "needed": 9,
    },
    "broken by hand": {
        "said": 3,
        "came": [{"tier": "top"}, 4, {"id": "MEMORY", "words": 3}],
        "near": {},
        "held": [1],
    },
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
async def test_each_line_of_the_record_is_shown_on_each_page_that_has_the_record(
    page: Page, tmp_path: Path, line: dict[str, Any]
) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    recall = json.loads(json.dumps(line).replace("MEMORY", memory))
    page.app.home.recalls.append(
        {"id": "a1", "at": "2026-06-20T08:00:00.000Z", "conversation": CHAT, **recall}
    )
    for language in ("en", "zh"):
        for address in ("", "recalls", "history", "triggers", "health"):
            await page.get(address, lang=language)
        await page.get("recalls", open="a1", lang=language)
        await page.get("memory", id=memory, lang=language)
        await page.get("memory", id=memory, erase="1", lang=language)
    async with viewed(page.site, request_of("en")) as view:
        assert "You asked" in await whole(view) or not isinstance(line.get("said"), str)


async def test_a_session_that_began_is_shown_with_what_it_was_given(page: Page) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    items = [{"id": memory, "tier": "last", "chars": 9}]
    line = {"id": "a1", "at": "2026-06-20T08:00:00.000Z", "conversation": CHAT, "came": items}
    line |= {"tokens": 40, "chars": 90}
    page.app.home.recalls.append(line)
    assert "A session began" in (await page.get("", lang="en")).text
    assert "A session began" in (await page.get("memory", id=memory, lang="en")).text
    receipt = (await page.get("recalls", open="a1", lang="en")).text
    assert "where you left off" in receipt
    assert "You asked" not in receipt
    assert "about 40 tokens" in receipt


async def test_what_was_in_the_context_already_is_told_so(page: Page) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    items = [{"id": memory, "tier": "top", "relevance": 20.0, "counted": 20.0}]
    line = {
        "id": "a1",
        "at": "2026-06-20T08:00:00.000Z",
        "conversation": CHAT,
        "said": "芒果？",
        "came": items,
    }
    page.app.home.recalls.append(line)
    text = (await page.get("recalls", lang="en")).text
    assert "1 memory recalled · already in context" in text
    assert "tokens" not in text


async def test_a_memory_is_pinned_and_the_bar_takes_it_back(page: Page) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    document = await page.do("pin", id=memory, back=f"memory?c={CHAT}&id={memory}&lang=en")
    assert "Pinned. It is never cleaned up." in document.text
    assert (await page.app.conversation().short_term.memories())[0].pinned
    [change] = [
        attributes["value"]
        for attributes in document.named("input")
        if attributes.get("name") == "change"
    ]
    assert "Undone." in (await page.do("undo", change=change, place=CHAT, back="?lang=en")).text
    assert not (await page.app.conversation().short_term.memories())[0].pinned


async def test_a_memory_is_edited_and_found_by_its_new_words(page: Page) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    before = (await page.app.conversation().short_term.memories())[0].text
    fields = {"id": memory, "text": ["我对菠萝过敏。", "记下了。"], "before": before}
    document = await page.do("edit", **fields, back=f"memory?c={CHAT}&id={memory}&lang=en")
    assert "我对菠萝过敏。" in document.text
    search = await page.app.conversation().short_term.search(
        RecallRequest([Message("user", "菠萝能吃吗")], reinforce=False)
    )
    assert search.recall.top[0].memory.id == memory


async def test_an_edit_of_what_was_changed_meanwhile_is_refused(page: Page) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    fields = {"id": memory, "text": ["别的", "记下了。"], "before": "user: 从前"}
    document = await page.do("edit", 422, **fields)
    assert "changed meanwhile" in document.text or "刚才被改过" in document.text
    assert (await page.app.conversation().short_term.memories())[0].text.startswith(
        "user: 我对芒果"
    )


async def test_what_is_forgotten_lies_on_the_shelf_and_comes_back(page: Page) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    document = await page.do("forget", id=memory, back=f"history?c={CHAT}&lang=en")
    assert "1 memory forgotten. It stays on the shelf until 18 September." in document.text
    assert "我对芒果过敏" in document.text
    assert len(await page.app.conversation().short_term.memories()) == 3
    await page.do("restore", id=memory, family="", back="history")
    assert len(await page.app.conversation().short_term.memories()) == 4


async def test_what_is_erased_is_found_in_no_place(page: Page) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    await ask(page.app, "芒果能吃吗？")
    places = await page.get("memory", c=CHAT, id=memory, erase="1", lang="en")
    assert "This text, and its index" in places.text
    document = await page.do("erase", id=memory, back="?lang=en")
    assert "found in 0 places" in document.text
    files = [path for path in page.app.home.place.rglob("*") if path.is_file()]
    assert not any("小时候去过急诊".encode() in path.read_bytes() for path in files)


async def test_what_a_memory_said_before_an_edit_is_erased_with_it_and_a_search_says_what_it_did_not_look_through(
    page: Page,
) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    await page.app.conversation().short_term.edit(memory, ["我对花生过敏", "记住了"], by="test")
    document = await page.get("find", q="急诊", lang="en")
    assert "Earlier versions and the record of recalls were not searched" in document.text
    await page.do("erase", id=memory, back="?lang=en")
    files = [path for path in page.app.home.place.rglob("*") if path.is_file()]
    assert not any("小时候去过急诊".encode() in path.read_bytes() for path in files)


async def test_an_erasing_on_a_disk_that_is_full_says_so(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("memory_server.kernel.files.sync_file", full)
        patch.setattr("memory_server.storage.partition.journal.sync_file", full)
        document = await page.do("erase", status=422, id=memory, back="?lang=en")
    assert "the disk is full" in document.text


async def test_one_search_finds_all_families(page: Page) -> None:
    ids = await remember(page.app, *TEXTS)
    await page.app.conversation().long_term.add("过敏", "先问有没有芒果", TRIGGER)
    await page.app.knowledge.notes.remember("domain", "水果", "芒果布丁里有芒果。")
    await page.do("forget", id=ids[2], back="history")
    document = await page.get("find", q="芒果", lang="en")
    assert any(f"id={ids[0]}" in link for link in document.links)
    assert any("trigger?" in link for link in document.links)
    assert any("family=notes" in link for link in document.links)
    assert "on the shelf" in document.text


async def test_asking_counts_nothing_as_used(page: Page) -> None:
    ids = await remember(page.app, *TEXTS)
    before = [memory.score for memory in await page.app.conversation().short_term.memories()]
    document = await page.get("ask", q="我能吃芒果吗？", id=ids[1], lang="en")
    assert "芒果" in document.text
    assert [
        memory.score for memory in await page.app.conversation().short_term.memories()
    ] == before
    assert not page.app.recalls.found()


async def test_a_trigger_is_tried_saved_and_forgotten(page: Page) -> None:
    fields = {
        "name": "过敏",
        "code": TRIGGER,
        "prompt": "先问有没有芒果",
        "chat": "你：芒果蛋糕",
        "seed": "1",
    }
    answer = await page.client.post(
        "/trigger?lang=en",
        content="&".join(f"{k}={v}" for k, v in fields.items()).encode(),
        headers={**SAME, **FORM},
    )
    assert answer.status_code in (200, 422)
    assert not await page.app.conversation().long_term.memories()
    await page.do("save-trigger", **fields, back="triggers")
    document = await page.get("trigger", name="过敏", lang="en")
    assert "It stays quiet" in document.text
    document = await page.do(
        "forget", family="triggers", place=CHAT, id="过敏", back="triggers?lang=en"
    )
    assert "forgotten" in document.text
    assert not await page.app.conversation().long_term.memories()


async def test_where_v8_does_not_start_a_trigger_that_is_tried_says_so(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cannot(*_: object, **__: object) -> None:
        raise SandboxUnavailable("the trigger worker ended while starting (code -5)")

    monkeypatch.setattr(TriggerSandbox, "run", cannot)
    answer = await page.client.post(
        "/trigger?lang=en",
        content="name=x&code=true&prompt=p&seed=1&chat=",
        headers={**SAME, **FORM},
    )
    assert (answer.status_code, "Triggers cannot run now" in answer.text) == (422, True)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("on_day(12, 25)", "25 December"),
        ("on_day(12, 25, { before: 2 })", "23 December"),
        ("days_until(12, 24) <= 0", "24 December"),
        ("on_lunar_day(8, 15)", "25 September"),
        ("lunar().month === 8 && lunar().day === 15", "25 September"),
        ("new Date().getMonth() === 11", "1 December"),
    ],
)
async def test_the_list_says_when_a_trigger_of_a_day_fires(
    page: Page, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    monkeypatch.setattr(trigger_page, "_WAIT_SECONDS", 60)
    await page.app.conversation().long_term.add("节日", "祝福。", code)
    text = (await page.get("triggers", lang="en")).text
    assert said in text


async def test_the_days_of_triggers_are_looked_for_again_after_a_failure(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger_page, "_WAIT_SECONDS", 60)
    await page.app.conversation().long_term.add("节日", "祝福。", "on_day(12, 25)")
    with monkeypatch.context() as patch:

        async def fails(*_args: object, **_options: object) -> None:
            raise SandboxUnavailable("the trigger worker ended while starting (code -5)")

        patch.setattr(SandboxRunner, "evaluate", fails)
        assert "25 December" not in (await page.get("triggers", lang="en")).text
    assert "25 December" in (await page.get("triggers", lang="en")).text


async def test_the_list_says_which_trigger_failed_until_it_is_changed(page: Page) -> None:
    triggers = page.app.conversation().long_term
    await triggers.add("问好", "叫他的名字。", "context.participants.user.name.length > 0")
    assert (await ask(page.app, "早上好"))["failed"] == ["问好"]
    assert "Failed today 12:00" in (await page.get("triggers", lang="en")).text
    await triggers.update("问好", trigger="context.messages.length > 99")
    assert "Failed" not in (await page.get("triggers", lang="en")).text


async def test_an_erasure_and_a_saved_trigger_leave_the_reader_in_the_conversation(
    page: Page,
) -> None:
    [memory] = await remember(page.app, TEXTS[0], chat="Ann")
    await page.app.conversation("Ann").long_term.add("过敏", "先问", TRIGGER)
    for document in (
        await page.get("memory", c="Ann", id=memory, erase="1"),
        await page.get("trigger", c="Ann", name="过敏", erase="1"),
    ):
        backs = [
            attributes["value"]
            for attributes in document.named("input")
            if attributes.get("name") == "back"
        ]
        assert backs
        assert all("c=Ann" in back for back in backs), backs


async def test_a_speaker_without_a_name_is_named_in_the_language_of_the_reader(page: Page) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    for lang, who in (("zh", "对方"), ("en", "the assistant")):
        text = (await page.get("memory", id=memory, edit="1", lang=lang)).text
        assert text.count(who) >= 2


async def test_a_broken_trigger_says_where_it_is_broken(page: Page) -> None:
    document = await page.do(
        "save-trigger", 422, name="x", code="match_keys(context.messages, ['a']", prompt="p"
    )
    assert "line 1" in document.text or "第 1 行" in document.text


async def test_notes_are_shown_as_text_and_changed(page: Page) -> None:
    await page.app.knowledge.notes.remember(
        "domain", "Staging", "# Port\n\nUses **8443**. <b>no html</b>"
    )
    [link] = [
        link for link in (await page.get("notes", lang="en")).links if link.startswith("entry")
    ]
    document = await page.get(link)
    assert "<b>no html</b>" in document.text
    assert any(tag == "strong" for tag, _given in document.elements)
    note = (await page.app.knowledge.notes.listed())[0][0]
    fields = {"family": "notes", "id": note.ref, "before": note.body, "text": "Uses 9000."}
    await page.do("edit-entry", **fields, back=link)
    assert (await page.app.knowledge.notes.get(note.ref)).body == "Uses 9000."


async def test_pausing_and_going_on(page: Page) -> None:
    assert "Memory is off until 14:00" in (await page.do("pause", back="?lang=en")).text
    assert page.app.paused() is not None
    assert "Memory resumed." in (await page.do("pause", resume="1", back="?lang=en")).text
    assert page.app.paused() is None


async def test_health_backs_up(page: Page) -> None:
    await remember(page.app, *TEXTS)
    assert "There is no backup yet." in (await page.get("health", lang="en")).text
    await page.do("backup", back="health")
    assert len(await page.app.memories.backups.listed()) == 1


async def test_a_receipt_asks_why_another_memory_did_not_come(page: Page) -> None:
    await remember(page.app, *TEXTS)
    await ask(page.app, "我能吃芒果吗？")
    [recall] = page.app.recalls.found()
    receipt = (await page.client.get("/recalls", params={"open": recall.id, "lang": "en"})).text
    form = receipt[receipt.index('<form class="search" action="ask">') :]
    assert '<input type="hidden" name="q" value="我能吃芒果吗？">' in form.partition("</form>")[0]
    answer = await page.get("ask", q="我能吃芒果吗？", id="贵州馆子", lang="en")
    insight = await page.app.conversation().insight.explain(
        [Message("user", "我能吃芒果吗？")], text="贵州馆子"
    )
    assert insight.explanation is not None
    assert insight.explanation.verdict.sentence in answer.text


@pytest.mark.parametrize("questions", [20, pytest.param(1_000, marks=pytest.mark.full)])
async def test_the_page_and_the_tool_give_the_same_points(page: Page, questions: int) -> None:
    words = [
        "芒果",
        "芝麻",
        "猫",
        "打雷",
        "布丁",
        "贵州",
        "馆子",
        "酸汤鱼",
        "急诊",
        "过敏",
        "旁边",
        "三岁",
        "什么",
        "名字",
        "一口",
    ]
    ids = await remember(page.app, *TEXTS)
    rng = random.Random(1)
    for _ in range(questions):
        question = "".join(rng.sample(words, 3)) + rng.choice(("？", "。"))
        memory = rng.choice(ids)
        messages = [{"role": "user", "content": question}]
        arguments = {"recentMessages": messages, "memory_id": memory, "conversation_id": CHAT}
        explanation = (await call(explain_recall, page.app.call, arguments)).structured
        document = await page.get("ask", q=question, id=memory, lang="en")
        assert explanation["reason"].split("\n")[0].split("(")[0] in document.text
        points = explanation["counted"]
        needed = explanation["threshold"]
        assert f"{points:.0f} points; {needed:.0f} are enough" in document.text
        # The threshold is for what a memory shares, so age and score are not in the points beside it.
        shared = explanation["match"] + explanation["around"]
        if question[-1] == "？" and shared:
            # They count more the greater the part of the question is that the memory shares.
            assert 0.69 < (points - explanation["span"]) / shared < 1.41


# --- who may see it ---------------------------------------------------------------------------------------------------


async def test_every_answer_forbids_what_the_page_does_not_need(page: Page) -> None:
    for path in (*PAGES, "/static/style.css", "/static/page.js", "/nothing", "/enter"):
        answer = await page.client.get(path)
        assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS), path


async def test_a_link_works_once_and_for_ten_minutes(page: Page) -> None:
    second_answer = await page.client.get(f"{SERVER}/enter", params={"key": page.gate.key})
    assert second_answer.status_code == 401
    now = [0.0]
    for seconds, is_let_in in ((LINK_SECONDS + 1, False), (LINK_SECONDS - 1, True)):
        now[0] = 0.0
        link = OneTimeLink(Principal(None, ALL), lambda: now[0])
        now[0] = seconds
        scope = {
            "type": "http",
            "method": "GET",
            "query_string": f"key={link.key}".encode(),
            "headers": [],
        }
        assert (await link.enter(Request(scope | {"cookie": "a"})) is not None) is is_let_in
        assert not await link.knows("", {})


LOOKS = [
    ("HEAD", {}, 200),
    ("GET", {"sec-purpose": "prefetch"}, 503),
    ("GET", {"sec-purpose": "prefetch;prerender"}, 503),
    ("GET", {"purpose": "prefetch"}, 503),
    ("GET", {"x-moz": "prefetch"}, 503),
    ("POST", SAME, 401),
]


@pytest.mark.parametrize(("method", "headers", "status"), LOOKS)
async def test_who_only_looks_at_the_link_does_not_use_it_up(
    page: Page, method: str, headers: dict[str, str], status: int
) -> None:
    gate = OneTimeLink(Principal(None, ALL))
    transport = httpx.ASGITransport(app=page_app(lambda _scope: page.site, gate, LOOPBACK))
    async with httpx.AsyncClient(transport=transport, base_url=SERVER) as client:
        looked = await client.request(method, gate.door, params={"key": gate.key}, headers=headers)
        assert looked.status_code == status
        assert "set-cookie" not in looked.headers
        assert gate.base not in f"{looked.headers} {looked.text}"
        wrong = await client.request(method, gate.door, params={"key": "wrong"}, headers=headers)
        assert wrong.status_code == 401
        entered = await client.get(gate.door, params={"key": gate.key}, headers={"sec-purpose": ""})
        assert entered.status_code == 303
        assert (await client.get(entered.headers["location"])).status_code == 200


async def test_the_cookie_is_for_this_page_only(page: Page) -> None:
    [cookie] = page.client.cookies.jar
    assert cookie.name == "memory-page-8771"
    assert cookie.path == f"{page.gate.base}/", (
        "cookies know no ports, so the path is what others cannot guess"
    )
    page.client.cookies.clear()
    assert (await page.client.get("/")).status_code == 401
    answer = await page.client.get("/", headers={"cookie": f"memory-page-8772={cookie.value}"})
    assert answer.status_code == 401


async def test_below_another_path_the_cookie_opens_nothing(page: Page) -> None:
    [cookie] = page.client.cookies.jar
    assert OneTimeLink(Principal(None, ALL)).base != page.gate.base
    assert len(page.gate.base) > 40
    assert page.gate.base not in f"{page.gate.door}?key={page.gate.key}", (
        "the link stands in the list of processes"
    )
    for path in ("/", "/recalls", "/find?q=a", f"{page.gate.base}x/", page.gate.base):
        answer = await page.client.get(
            f"{SERVER}{path}", headers={"cookie": f"{cookie.name}={cookie.value}"}
        )
        assert answer.status_code == 401, path
        assert page.gate.base not in answer.text
    assert (await page.client.get(f"{SERVER}/static/style.css")).status_code == 200


class _Body:
    """A body that comes in pieces, as `receive` gives them; `taken`: bytes that were asked for."""

    def __init__(self, pieces: int, *, ends: bool = True) -> None:
        self._pieces = pieces
        self._ends = ends
        self.taken = 0

    async def receive(self) -> dict[str, Any]:
        self._pieces -= 1
        if self._pieces < 0 and not self._ends:
            await asyncio.Event().wait()
        self.taken += 1_024
        return {
            "type": "http.request",
            "body": b"x" * 1_024,
            "more_body": self._pieces > 0 or not self._ends,
        }


@pytest.mark.parametrize(
    ("path", "cookie", "body", "status", "most"),
    [
        ("/enter", False, _Body(4_000), 413, 8_192),
        ("/enter", False, _Body(2, ends=False), 408, 8_192),
        ("BASE/do/pause", False, _Body(4_000), 401, 0),
        ("/do/pause", True, _Body(4_000), 401, 0),
        ("BASE/do/pause", True, _Body(4_000), 413, 2_200_000),
        ("BASE/do/pause", True, _Body(2, ends=False), 408, 8_192),
        ("BASE/static/page.js", False, _Body(4_000), 405, 0),
    ],
)
async def test_a_body_is_received_within_bounds_and_only_from_who_may_send_one(
    page: Page,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    cookie: bool,
    body: _Body,
    status: int,
    most: int,
) -> None:
    monkeypatch.setattr(access, "BODY_SECONDS", 0.05)
    [page_cookie] = page.client.cookies.jar
    headers = [
        (b"host", b"127.0.0.1:8771"),
        (b"sec-fetch-site", b"same-origin"),
        (b"transfer-encoding", b"chunked"),
    ]
    if cookie:
        headers.append((b"cookie", f"{page_cookie.name}={page_cookie.value}".encode()))
    scope = {
        "type": "http",
        "method": "POST",
        "path": path.replace("BASE", page.gate.base),
        "headers": headers,
    }
    scope |= {"query_string": b"", "scheme": "http", "server": ("127.0.0.1", 8771), "root_path": ""}
    messages = list[Any]()

    async def send(message: Any) -> None:
        messages.append(message)

    await page_app(lambda _scope: page.site, page.gate, LOOPBACK)(scope, body.receive, send)
    assert messages[0]["status"] == status
    assert body.taken <= most
    assert page.app.paused() is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example:8771"}, 421),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({}, 403),
        ({"origin": "http://127.0.0.1:8771"}, 303),
        ({"sec-fetch-site": "same-origin"}, 303),
    ],
)
async def test_changes_come_from_the_page_itself(
    page: Page, headers: dict[str, str], status: int
) -> None:
    answer = await page.client.post("/do/pause", headers={**FORM, **headers}, content="back=")
    assert answer.status_code == status
    assert (page.app.paused() is not None) == (status == 303)


async def test_a_change_is_no_link(page: Page) -> None:
    assert (await page.client.get("/do/pause")).status_code == 405


async def test_a_form_sends_nobody_elsewhere(page: Page) -> None:
    for back in (
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "a\r\nb: c",
    ):
        answer = await page.client.post(
            "/do/pause", headers={**FORM, **SAME}, content=f"back={back}".encode()
        )
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("../?done=")


async def test_a_server_that_only_reads_changes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as page:
        [memory] = await remember(page.app, TEXTS[0])
    async with opened(tmp_path / "data", read_only=True) as page:
        document = await page.do("forget", 422, id=memory)
        assert "read_only" in document.text
        assert not list((await page.get("memory", c=CHAT, id=memory)).named("form"))


# --- parts that are pure ----------------------------------------------------------------------------------------------


async def test_words_that_overlap_are_one() -> None:
    text = "酸汤鱼绝了，贵州馆子"
    assert [
        text[run.start : run.end]
        for run in runs(text, {"酸汤": 3, "汤鱼": 4, "贵州": 9, "馆子": 1})
    ] == [
        "酸汤鱼",
        "贵州",
        "馆子",
    ]
    assert [
        piece.text for piece in underlined("Ports: port 80", {"port": 5.0}, 5.0) if piece.level
    ] == [
        "Ports",
        "port",
    ]
    assert "".join(piece.text for piece in underlined("ﬃx İß", {"x": 1.0}, 1.0)) == "ﬃx İß"


async def test_dates_are_said_as_people_say_them() -> None:
    now = 1_781_956_800_000  # Saturday 20 June 2026, 12:00 UTC
    day = 86_400_000
    english, chinese = (Speech(language, None, now) for language in ("en", "zh"))
    assert [english.day(now - count * day) for count in (0, 1, 3)] == [
        "today",
        "yesterday",
        "Wednesday",
    ]
    assert [chinese.day(now - count * day) for count in (0, 1, 3, 6)] == [
        "今天",
        "昨天",
        "这周三",
        "上周日",
    ]
    assert english.date(now - 45 * day) == "6\u00a0May"
    assert chinese.date(now - 400 * day) == "2025\u00a0年\u00a05\u00a0月\u00a016\u00a0日"


async def test_the_language_is_that_of_the_reader() -> None:
    assert language_of("zh-TW,zh;q=0.9,en", None) == "zh"
    assert language_of("fr, en;q=0.8", None) == "en"
    assert language_of("zh", "en") == "en"
    assert language_of("", "tlh") == "en"


async def test_names_of_months_do_not_touch() -> None:
    weeks = [
        (1, "", name)
        for name in ("February", "", "", "March", "", "", "", "September", "", "", "", "October")
    ]
    drawn = strip([*weeks, (0, "", "November")], 270, 1, "")
    ends = []
    for x, _y, name, side in drawn.marks:
        width = 7.5 * len(name)
        ends.append((x, x + width) if side == "start" else (x - width, x))
    assert [name for _x, _y, name, _side in drawn.marks] == ["February", "September", "November"]
    assert all(end < begin for (_begin, end), (begin, _end) in pairwise(ends))
    assert all(0 <= begin < end <= drawn.width for begin, end in ends)


async def test_charts_stay_within_their_frame() -> None:
    drawn = strip([(number % 3, "", None) for number in range(90)], 350, 2, "today")
    assert all(0 <= dot.x <= drawn.width for dot in drawn.dots)


async def test_markdown_becomes_elements_and_never_html() -> None:
    blocks = blocks_of(
        "[a](javascript:alert(1)) <img src=x> ![i](http://evil.example/p.png)\n\n- one\n  - two"
    )
    flat = str(blocks)
    assert (
        "javascript" not in flat.replace("javascript:alert(1)", "", 1)
        or "'href': 'javascript" not in flat
    )
    assert "'tag': 'img'" not in flat
    assert "'tag': 'ul'" in flat


async def test_a_memory_is_muted_from_the_receipt_and_comes_again_from_its_page(page: Page) -> None:
    ids = await remember(page.app, *TEXTS)
    await ask(page.app, "我能吃芒果布丁吗？")
    document = await page.get("recalls", lang="en")
    assert "Never bring it here" in document.text
    muted_in = f"conversation:{CHAT}"
    document = await page.do(
        "mute", **{"id": ids[2], "in": muted_in}, back=f"memory?c={CHAT}&id={ids[2]}&lang=en"
    )
    assert f"no longer comes unasked in the conversation {CHAT}" in document.text
    memories = {memory.id: memory for memory in await page.app.conversation().short_term.memories()}
    assert memories[ids[2]].muted == (muted_in,)
    line = await ask(page.app, "我能吃芒果布丁吗？")
    assert line["held"]["muted"] == 1
    assert "1 is muted here." in (await page.get("recalls", lang="en")).text
    question = {"q": "我能吃芒果布丁吗？", "id": ids[2], "lang": "en"}
    muted = "It is muted, so it never comes unasked"
    assert muted in (await page.get("ask", face="turn", **question)).text
    assert muted not in (await page.get("ask", face="search", **question)).text
    document = await page.do(
        "mute", **{"id": ids[2], "in": ""}, back=f"memory?c={CHAT}&id={ids[2]}&lang=en"
    )
    assert "This memory may come unasked again." in document.text
    refused = await page.do("mute", 422, **{"id": ids[2], "in": "elsewhere"})
    assert "everywhere" in refused.text


async def test_a_folder_narrows_the_first_question_and_can_be_left(page: Page) -> None:
    short = page.app.conversation().short_term
    await short.add(
        [Message("user", "店里的芒果卖完了")], origin=Origin(folder="/srv/shop", turn="1")
    )
    await short.add([Message("user", "芝麻怕打雷")], origin=Origin(folder="/srv/home", turn="2"))
    document = await page.get("", by="folder", lang="en")
    assert "/srv/shop" in document.text
    document = await page.get("subject", folder="/srv/shop", lang="en")
    assert "芒果" in document.text
    assert "打雷" not in document.text
    assert "/srv/shop ×" in document.text
    assert "1 exchange" in (await page.get("", folder="/srv/shop", lang="en")).text


async def test_a_trigger_and_a_note_are_erased_with_their_places(page: Page) -> None:
    await page.app.conversation().long_term.add("过敏", "先问有没有芒果", TRIGGER)
    document = await page.get("trigger", name="过敏", erase="1", lang="en")
    assert "This text, and its index" in document.text
    document = await page.do("erase", family="triggers", place=CHAT, id="过敏", back="?lang=en")
    assert "found in 0 places" in document.text
    assert not (await page.app.conversation().long_term.with_shared())[0].memories
    note = (
        await page.app.memories.knowledge.notes.remember("domain", "布丁的做法", "先煮牛奶")
    ).entry
    document = await page.get("entry", family="notes", id=note.ref, erase="1", lang="en")
    assert "This text, and its index" in document.text
    document = await page.do("erase", family="notes", place="notes", id=note.ref, back="?lang=en")
    assert "found in 0 places" in document.text


async def test_health_shows_what_would_be_mended_and_the_tenants(page: Page) -> None:
    await remember(page.app, *TEXTS)
    document = await page.get("health", repair="1", lang="en")
    assert "Nothing is broken." in document.text
    broken = page.app.home.place / "broken"
    broken.mkdir()
    (broken / "short-term-memory.json").write_text("[{", "utf-8")
    document = await page.get("health", repair="1", lang="en")
    assert "Repair it" in document.text
    assert "broken" in document.text
    document = await page.do("mend", back="health?lang=en")
    assert "Repaired: 1 conversation." in document.text
    assert "Nothing is broken." in (await page.get("health", repair="1", lang="en")).text


async def test_a_receipt_marks_other_words_apart_and_claims_of_none_that_the_user_said_it(
    page: Page,
) -> None:
    [pills, *_rest] = await remember(page.app, "我每晚吃曲唑酮。", *TEXTS)
    await page.app.conversation().short_term.edit(pills, other_words=["失眠", "<b>药</b>"])
    messages = [{"role": "user", "content": "我又失眠了"}]
    arguments = {
        "messages": messages,
        "otherWords": ["曲唑酮", "每晚", "<i>睡</i>"],
        "session": "another",
    }
    await call(TOOLS["recall_turn"], page.app.call, arguments)
    page.app.recalls.write()
    [recall] = page.app.recalls.found()
    receipt = await page.get("recalls", open=recall.id, lang="en")
    assert "The caller also looked for: 曲唑酮, 每晚, <i>睡</i>" in receipt.text
    assert "Words with a dotted line are other words" in receipt.text
    dotted = [attributes for attributes in receipt.named("span") if attributes.get("class") == "u5"]
    assert dotted, "曲唑酮 of the memory, and 失眠 of the question"
    assert "is in both" not in receipt.text
    detail = await page.get("memory", id=pills, lang="en")
    assert "Also found by: 失眠, <b>药</b>." in detail.text
    assert "b" not in [tag for tag, _given in detail.elements]


async def test_other_words_are_changed_and_taken_away_on_the_page(page: Page) -> None:
    [memory, *_rest] = await remember(page.app, *TEXTS)
    fields = {"id": memory, "text": [TEXTS[0], ""], "before": await _text_of(page, memory)}
    await page.do(
        "edit", **fields, otherWords="菠萝蜜， 水果", back=f"memory?c={CHAT}&id={memory}&lang=en"
    )
    assert (await page.app.conversation().short_term.memory(memory)).other_words == (
        "菠萝蜜",
        "水果",
    )
    edited = await page.get("memory", id=memory, edit=1, lang="en")
    [field] = [
        attributes for attributes in edited.named("input") if attributes.get("name") == "otherWords"
    ]
    assert field["value"] == "菠萝蜜, 水果"
    fields |= {"text": [TEXTS[0]], "before": await _text_of(page, memory)}
    await page.do("edit", **fields, otherWords="", back=f"memory?c={CHAT}&id={memory}&lang=en")
    assert (await page.app.conversation().short_term.memory(memory)).other_words == ()


async def _text_of(page: Page, memory: str) -> str:
    return (await page.app.conversation().short_term.memory(memory)).text
