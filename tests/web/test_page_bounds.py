"""What one reader can ask of the page has bounds: Markdown, years, what is kept between requests, one try of a trigger;
and pages are made in the threads of their tenant."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from web_page import CHAT, FORM, SAME, Page, opened, remember

from memory_server.conversations.changes import Added
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall import prompt_lines
from memory_server.conversations.services import Done
from memory_server.conversations.trigger_search import SandboxRunner
from memory_server.kernel.messages import Message
from memory_server.kernel.times import DAY_MS, FIRST_MS, LAST_MS, within_calendar
from memory_server.serving.fair_threads import FOR
from memory_server.web import playground, speech, view
from memory_server.web.knowledge import MOST_MARKDOWN, blocks_of, parts_of
from memory_server.web.speech import Speech
from memory_server.web.view import Recent

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere")]


@pytest.fixture
async def page(tmp_path: Path):
    async with opened(tmp_path / "data", toolsets="all") as page:
        yield page


def nodes(blocks: Sequence[Any]) -> int:
    return sum(1 + nodes(block["children"]) for block in blocks)


HOSTILE = {
    "short rows of a wide table": "|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + "|a\n" * 33_000,
    "a wide table": "|" + "a|" * 16_000 + "\n|" + "-|" * 16_000 + "\n" + "a\n" * 5_000,
    "quotes": ">" * 100_000,
    "emphasis": "**a" * 33_000,
    "links": "[a](" * 25_000,
    "lists": "- " * 50_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_markdown_of_a_page_has_a_bound_of_elements(text: str) -> None:
    assert nodes(blocks_of(text)) <= 3 * MOST_MARKDOWN


def test_an_honest_table_is_a_table() -> None:
    text = "|a|b|\n|-|-|\n" + "|1|2|\n" * 500
    [table] = blocks_of(text)
    assert (table["tag"], nodes([table]) > 1_000) == ("table", True)


@given(st.text(alphabet="ab \n", max_size=200), st.integers(0, 5))
def test_parts_of_a_text_are_the_text(text: str, times: int) -> None:
    long_text = text * 4**times
    parts = parts_of(long_text)
    assert "".join(parts) == long_text
    assert all(0 < len(part) <= MOST_MARKDOWN for part in parts) or long_text == ""


async def test_a_long_note_is_read_in_parts(page: Page) -> None:
    body = "\n\n".join(f"Paragraph {number} of the note." for number in range(2_000))
    await page.app.knowledge.notes.remember("tech", "long", body)
    listed = await page.get("notes", lang="en")
    [link] = [link for link in listed.links if link.startswith("entry?")]
    paragraphs = list[str]()
    for _part in range(4):
        document = await page.get(link)
        paragraphs += [text for text in document.texts if text.startswith("Paragraph ")]
        link = next(
            (href for href in document.links if href.startswith("entry?") and "part=" in href), ""
        )
        if not link:
            break
    assert paragraphs == body.split("\n\n")


@pytest.mark.parametrize(
    "time_ms", [FIRST_MS - 1, FIRST_MS, -1, LAST_MS, LAST_MS + 1, 10**20, -(10**20)]
)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_any_time_can_be_said(time_ms: int, language: Any) -> None:
    speaker = Speech(language, None, 1_781_956_800_000)
    says = (
        speaker.date,
        speaker.day,
        speaker.moment,
        speaker.clock,
        speaker.part,
        speaker.age,
        speaker.exact,
    )
    assert all(isinstance(say(time_ms), str) for say in says)
    assert FIRST_MS <= within_calendar(time_ms) <= LAST_MS


def test_the_page_and_prompts_divide_a_day_alike() -> None:
    assert speech._PARTS["zh"] == prompt_lines._DAY_PARTS["zh"]
    assert [end for end, _name in speech._PARTS["en"]] == [
        end for end, _name in prompt_lines._DAY_PARTS["en"]
    ]


def test_of_recent_values_the_first_one_is_dropped() -> None:
    dropped = list[int]()
    recent = Recent[str, int](2, dropped.append)
    for name, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        recent.put(name, value)
    assert (list(recent), dropped, recent.get("b"), recent.get("a")) == ([3, 4], [2], None, 3)


async def test_readers_cannot_make_the_page_keep_more_and_more(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page.site.made.overviews, "_most", 4)
    monkeypatch.setattr(page.site.made.firings, "_most", 2)
    await remember(page.app, "My cat Miso fears thunder.")
    for number in range(6):
        await page.get("", folder=f"/{number}", lang="en")
    for number in range(4):
        chat = f"other {number}"
        triggers = page.app.conversation(chat).long_term
        await triggers.add("day", "Say it.", "new Date().getDate() === 1")
        await page.get("triggers", c=chat, lang="en")
    cached = page.site.made
    assert len(cached.overviews) == 4
    assert len(cached.firings) == 2


async def test_a_page_is_filled_in_a_thread_of_its_tenant(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set[int]()
    owners = set[object]()
    render = view.render

    def render_noted(*arguments: Any) -> str:
        threads.add(threading.get_ident())
        owners.add(FOR.get())
        return render(*arguments)

    monkeypatch.setattr(view, "render", render_noted)
    token = FOR.set("alice")
    try:
        for path in (
            "",
            "subject",
            "recalls",
            "history",
            "find?q=a",
            "triggers",
            "health",
            "notes",
        ):
            await page.get(path)
    finally:
        FOR.reset(token)
    assert threading.get_ident() not in threads
    assert owners == {"alice"}


class _Turns:
    """Counts who has the turn of the sandbox."""

    def __init__(self) -> None:
        self.taken = 0
        self.held = False

    async def __aenter__(self) -> None:
        self.taken += 1
        self.held = True

    async def __aexit__(self, *_: object) -> None:
        self.held = False


async def test_a_try_runs_in_the_turn_of_its_tenant_and_replays_nothing_that_failed(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remember(page.app, *(f"My cat Miso {number}." for number in range(5)))
    turns = _Turns()
    monkeypatch.setattr(page.app._services.runner, "_turns", turns)
    within = list[bool]()
    for name in ("run", "check", "check_after", "read", "judge"):
        plain = getattr(page.app.sandbox, name)

        async def noted(*arguments: Any, _plain: Any = plain, **more: Any) -> Any:
            within.append(turns.held)
            return await _plain(*arguments, **more)

        monkeypatch.setattr(page.app.sandbox, name, noted)
    matching = "match_keys(context.messages, ['Miso'])"
    for code, sentence, at_most in (("while (true);", "It fails", 1), (matching, "5 ", 6)):
        turns_before = turns.taken
        fields = {"code": code, "chat": "Miso?", "seed": "1"}
        answer = await page.client.post("/trigger?lang=en", data=fields, headers={**SAME, **FORM})
        assert sentence in answer.text
        assert turns.taken - turns_before <= at_most
    assert within
    assert all(within)


async def test_the_replay_of_a_try_ends_with_its_time(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remember(page.app, *(f"My cat Miso {number}." for number in range(20)))
    monkeypatch.setattr(playground, "TRY_SECONDS", -1.0)
    evaluations = list[object]()
    evaluate = SandboxRunner.evaluate

    async def noted(self: Any, *arguments: Any, **more: Any) -> Any:
        evaluations.append(arguments)
        return await evaluate(self, *arguments, **more)

    monkeypatch.setattr(SandboxRunner, "evaluate", noted)
    fields = {"code": "true", "chat": "Miso?", "seed": "1"}
    answer = await page.client.post("/trigger?lang=en", data=fields, headers={**SAME, **FORM})
    assert (answer.status_code, evaluations) == (200, [])
    assert "It comes up" in answer.text


async def test_a_try_on_former_chats_sees_the_times_of_their_messages(page: Page) -> None:
    await remember(page.app, *(f"My cat Miso {number}." for number in range(3)))
    fields = {"code": "context.messages[0].timestamp > 0", "chat": "Miso?", "seed": "1"}
    answer = await page.client.post("/trigger?lang=en", data=fields, headers={**SAME, **FORM})
    assert "On the last 3 exchanges it would have come up 3 times." in answer.text


async def test_last_stored_is_when_it_was_stored_and_not_when_it_was_said(page: Page) -> None:
    at = round(datetime.fromisoformat("2024-02-01T09:00:00+00:00").timestamp() * 1000)
    await page.app.conversation().short_term.add(
        [Message("user", "My cat Miso fears thunder.", at)]
    )
    assert "Last stored today" in (await page.get("", lang="en")).text


async def test_where_no_change_tells_when_it_was_stored_the_page_says_when_it_was_said(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remember(page.app, "My cat Miso fears thunder.")

    async def no_history(*_given: object, **_more: object) -> list[object]:
        return []

    monkeypatch.setattr(type(page.app.conversation().archive), "history", no_history)
    text = (await page.get("", lang="en")).text
    assert "The newest was said yesterday" in text
    assert "Last stored" not in text


async def test_the_strip_of_a_long_time_has_a_bound_of_dots(page: Page) -> None:
    for number, time_ms in enumerate((FIRST_MS + DAY_MS, 0, page.app.clock() - DAY_MS)):
        messages = (Message("user", f"Miso {number}.", time_ms),)
        text = f"user: Miso {number}."
        memory = ShortTermMemory(
            f"{number:016x}", time_ms, text, ("miso",), (9.0,), 0.0, CHAT, messages
        )
        await page.app._services.commit(
            CHAT, lambda _state, memory=memory: ([Added(memory)], Done()), by="import"
        )
    document = await page.get("", lang="en")
    assert len(list(document.named("circle"))) <= 2 * 261
