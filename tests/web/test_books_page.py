"""Lorebooks on the page: the section of the page of triggers, one book, what a message would bring, and receipts."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from web_page import CHAT, Page, ask, opened

from memory_server.lore.memory import BookEntry, FiringRules, GroupRules, LongTermMemory, TriggerSet

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere")]

BOOK_ID = "77ab"
LONG = "The houses of this street lean over the water, and nobody counts them. " * 100
WEATHER = GroupRules(("weather",))


def entry(name: str, prompt: str, trigger: str, rules: FiringRules) -> LongTermMemory:
    book = BookEntry(BOOK_ID, "Venn <b>", "venn.json", uid=name)
    return LongTermMemory(name, prompt, trigger, 1, rules=rules, book=book)


ENTRIES = (
    entry("Harbour", "The harbour lies below.", "true", FiringRules(order=200)),
    entry(
        "Rain", "It rains.", "match_keys(context.messages, ['weather'])", FiringRules(group=WEATHER)
    ),
    entry(
        "Sun",
        "The sun is out.",
        "match_keys(context.messages, ['weather'])",
        FiringRules(group=WEATHER),
    ),
    entry(
        "Ghost",
        "It hums.",
        "match_keys(context.messages, ['lamp'])",
        FiringRules(cooldown=2, order=90),
    ),
    entry("Street", LONG, "match_keys(context.messages, ['street'])", FiringRules(order=80)),
)


async def fill(folder: Path) -> None:
    """Store a book of five entries, and a trigger that is in no book."""
    async with opened(folder) as page:
        changes = [TriggerSet(memory, None) for memory in ENTRIES]
        await page.app.store.update(CHAT, lambda _state: (changes, None), by="import")
        await page.app.conversation().long_term.add(
            "tea", "Offer tea.", "match_keys(context.messages, ['tea'])"
        )


@pytest.fixture(scope="module")
def book_folder(tmp_path_factory: pytest.TempPathFactory, elsewhere_together: None) -> Path:
    folder = tmp_path_factory.mktemp("book") / "data"
    asyncio.run(fill(folder))
    return folder


@pytest.fixture
async def page(tmp_path: Path, book_folder: Path) -> AsyncIterator[Page]:
    """The page of a copy of the folder with the book."""
    shutil.copytree(book_folder, tmp_path / "data")
    async with opened(tmp_path / "data") as page:
        yield page


async def test_the_page_of_triggers_has_a_section_of_books(page: Page) -> None:
    document = await page.get("triggers", lang="en")
    assert "1 thing comes up" in document.text, "entries of a book are listed in their book"
    assert "Lorebooks" in document.text
    assert "Venn <b>" in document.text
    assert "5 entries" in document.text
    assert "1 constant (23 characters)" in document.text
    assert "from venn.json" in document.text
    assert "世界书" in (await page.get("triggers", lang="zh")).text


async def test_a_book_shows_its_entries_in_order_with_their_rules(page: Page) -> None:
    document = await page.get("book", name=BOOK_ID, lang="en")
    texts = ("The harbour lies", "It rains", "The sun is", "It hums", "The houses")
    places = [document.text.index(text) for text in texts]
    assert places == sorted(places)
    assert "comes again 2 messages later at the earliest" in document.text
    assert "group weather" in document.text
    assert "最早在之后第 2 条消息再出现" in (await page.get("book", name=BOOK_ID, lang="zh")).text
    assert "No book is called" in (await page.get("book", 404, name="Vein", lang="en")).text


async def test_a_book_is_switched_off_and_on_and_taken_out_and_each_is_undone(page: Page) -> None:
    books = page.app.conversation().books
    off = await page.do("switch-book", id=BOOK_ID, on="no", back="triggers")
    assert "已停用" in off.text or "is off" in off.text
    assert not (await books.book(BOOK_ID)).is_on
    [change, *_older] = await page.app.conversation().archive.history(limit=1)
    assert change.by == "page"
    undo = next(
        attributes["value"]
        for attributes in off.named("input")
        if attributes.get("name") == "change"
    )
    await page.do("undo", change=undo, place=CHAT, back="triggers")
    assert (await books.book(BOOK_ID)).is_on
    await page.do("switch-book", id=BOOK_ID, on="no", back="triggers")
    await page.do("switch-book", id=BOOK_ID, on="yes", back="triggers")
    assert (await books.book(BOOK_ID)).off == 0
    out = await page.do("remove-book", id=BOOK_ID, back="triggers")
    assert await books.own() == []
    undo = next(
        attributes["value"]
        for attributes in out.named("input")
        if attributes.get("name") == "change"
    )
    await page.do("undo", change=undo, place=CHAT, back="triggers")
    assert [memory.name for memory in await books.entries(BOOK_ID)] == [
        memory.name for memory in ENTRIES
    ]


async def test_a_page_that_only_reads_offers_no_change(tmp_path: Path, page: Page) -> None:
    async with opened(tmp_path / "data", read_only=True) as reading:
        document = await reading.get("triggers", lang="en")
        assert "Venn <b>" in document.text
        assert "Switch off" not in document.text
        await reading.do("switch-book", 422, id=BOOK_ID, on="no")


async def test_a_message_shows_what_would_come_and_what_is_left_out_and_why(page: Page) -> None:
    document = await page.get("triggers", lang="en", say="the weather in the street, at the lamp")
    table = document.text.partition("Comes?")[2]
    assert table.index("200 Harbour 23 yes") < table.index("90 Ghost 8 yes")
    assert f"80 Street {len(LONG):,} no: no room left" in table
    assert table.count("no: another one of its group came") == 1
    assert "of 7,200 characters" in table
    assert "[Harbour] The harbour lies below." in table
    assert (await page.app.store.read(CHAT)).chats == {}, "trying counts nothing"


@pytest.mark.parametrize(
    ("room", "bound"), [("600", "600"), ("x", "7,200"), ("1", "200"), ("99999", "50,000")]
)
async def test_the_room_of_a_try_is_within_the_bounds_of_the_tool(
    page: Page, room: str, bound: str
) -> None:
    document = await page.get("triggers", lang="en", say="street", room=room, messages="?")
    assert f"of {bound} characters" in document.text


async def test_a_receipt_shows_length_and_order_and_what_was_left_out(page: Page) -> None:
    line = await ask(page.app, "the weather in the street, at the lamp")
    document = await page.get("recalls", lang="en", open=line["id"])
    assert "The trigger “Harbour” 23 characters, order 200" in document.text
    assert f"Street : no room left ({len(LONG.strip()):,} characters)" in document.text
    assert "another one of its group came" in document.text
    assert "2 left out" in document.text
    answer = await page.get("ask", lang="en", q="the weather in the street, at the lamp")
    assert "Street : no room left" in answer.text


async def test_the_page_of_a_trigger_says_its_rules_and_saving_keeps_them(page: Page) -> None:
    document = await page.get("trigger", lang="en", name="Ghost")
    assert "An entry of the lorebook Venn <b>" in document.text
    assert "Rules: order 90, comes again 2 messages later at the earliest" in document.text
    assert "Rules:" not in (await page.get("trigger", lang="en", name="tea")).text
    await page.do(
        "save-trigger", name="Ghost", code=ENTRIES[3].trigger, prompt="It sings.", back="triggers"
    )
    saved = await page.app.conversation().long_term.get("Ghost")
    assert saved.prompt == "It sings."
    assert saved.rules == ENTRIES[3].rules
    assert saved.book == ENTRIES[3].book
