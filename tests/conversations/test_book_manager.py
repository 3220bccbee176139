"""The books of a conversation as units: listed, shown, switched, removed. An undo takes each change back."""

from __future__ import annotations

from random import Random

import pytest
from memory_store import MemoryStore
from sample_memories import NOW
from trigger_table import TableRunner

from memory_server.conversations.book_manager import BookManager
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.model import ConversationState
from memory_server.conversations.recall.parameters import Parameters
from memory_server.conversations.services import Services
from memory_server.kernel.errors import MemoryNotFound
from memory_server.lore.books import HeldBook
from memory_server.lore.memory import BookEntry, FiringRules, GroupRules, LongTermMemory, TriggerSet

pytestmark = pytest.mark.anyio

TALE = "9f01"
WEATHER = "77ab"


def entry(
    name: str,
    book_id: str = TALE,
    book_name: str = "Tale",
    *,
    prompt: str = "text",
    trigger: str = "false",
    order: float = 100,
) -> LongTermMemory:
    book = BookEntry(book_id, book_name, f"{book_name.lower()}.json", uid=name)
    return LongTermMemory(name, prompt, trigger, NOW, rules=FiringRules(order=order), book=book)


OWN = LongTermMemory("birthday", "in July", "true", NOW)
TALES = (
    entry("Dragon", prompt="It sleeps.", order=50),
    entry("Town", prompt="Nobody lives there.", trigger="// constant\ntrue", order=200),
    entry("River", prompt="It runs north."),
)
RAIN = entry("Rain", WEATHER, "Weather")
SHARED = entry("Law", "31cc", "House rules", trigger="true", prompt="Be kind.")


class House:
    """Conversations over a store in memory: `chat` has two books and a memory of its own, `default` has one book."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        services = Services(self.store, TableRunner(), Parameters(), lambda: NOW, Random(1))
        self.conversations = Conversations(services)

    async def put(self, conversation_id: str, *memories: LongTermMemory) -> None:
        changes = [TriggerSet(memory, None) for memory in memories]
        await self.store.update(conversation_id, lambda _state: (changes, None), by="test")

    async def memories(self, conversation_id: str = "chat") -> dict[str, LongTermMemory]:
        state: ConversationState = await self.store.read(conversation_id)
        return dict(state.long_term)

    def books(self, conversation_id: str = "chat") -> BookManager:
        return self.conversations.get(conversation_id).books


@pytest.fixture
async def house() -> House:
    house = House()
    await house.put("chat", OWN, *TALES, RAIN)
    await house.put("default", SHARED)
    return house


TALE_BOOK = HeldBook(
    conversation_id="chat",
    book_id=TALE,
    name="Tale",
    source="tale.json",
    entries=3,
    chars=43,
    constants=1,
    constant_chars=19,
    off=0,
    changed_ms=NOW,
)


async def test_a_conversation_lists_its_books_and_those_of_the_shared_one(house: House) -> None:
    listed = await house.books().listed()
    assert [(book.conversation_id, book.name) for book in listed] == [
        ("chat", "Tale"),
        ("chat", "Weather"),
        ("default", "House rules"),
    ]
    assert listed[0] == TALE_BOOK
    assert [book.name for book in await house.books("other").listed(also=["chat"])] == [
        "Tale",
        "Weather",
        "House rules",
    ]
    assert [book.name for book in await house.books("default").listed()] == ["House rules"]


@pytest.mark.parametrize("name", ["Tale", "tale", " TALE ", TALE, TALE.upper()])
async def test_a_book_is_found_by_name_or_id_in_any_case(house: House, name: str) -> None:
    assert await house.books().book(name) == TALE_BOOK


async def test_entries_stand_in_the_order_in_which_they_take_room(house: House) -> None:
    assert [memory.name for memory in await house.books().entries("Tale")] == [
        "Town",
        "River",
        "Dragon",
    ]


NOT_THERE = [
    (
        "chat",
        "Tail",
        "No book is called `Tail` in the conversation `chat`; there are `Tale`, `Weather`.",
    ),
    (
        "empty",
        "Tale",
        "The conversation `empty` has no books; `memory-server import FILE` brings one in.",
    ),
    (
        "chat",
        "house rules",
        "The conversation `chat` has no book `house rules`; it is kept in `default`: give that as conversation_id.",
    ),
]


@pytest.mark.parametrize(("conversation_id", "name", "sentence"), NOT_THERE)
async def test_a_name_that_is_not_there_gets_the_names_that_are(
    house: House, conversation_id: str, name: str, sentence: str
) -> None:
    books = house.books(conversation_id)
    for act in (
        books.book(name),
        books.entries(name),
        books.switch(name, on=False),
        books.remove(name),
    ):
        with pytest.raises(MemoryNotFound) as raised:
            await act
        assert str(raised.value) == sentence


async def test_two_books_of_one_name_are_told_apart_by_their_ids(house: House) -> None:
    await house.put("chat", entry("Tower", "aa00"))
    with pytest.raises(MemoryNotFound, match=f"`{TALE}` .tale.json., `aa00` .tale.json."):
        await house.books().remove("tale")
    assert (await house.books().remove("AA00")).entries == 1
    assert (await house.books().book("tale")).book_id == TALE


async def test_switching_is_one_change_and_an_undo_takes_it_back(house: House) -> None:
    before = await house.memories()
    receipt = await house.books().switch("tale", on=False, by="page")
    assert receipt.book == TALE_BOOK
    assert receipt.entries == 3
    assert receipt.change_id is not None
    assert [memory.rules.is_off for memory in (await house.memories()).values()] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert not (await house.books().book("tale")).is_on
    await house.conversations.get("chat").archive.undo(receipt.change_id)
    assert await house.memories() == before


async def test_what_is_so_already_is_no_change(house: House) -> None:
    receipt = await house.books().switch("tale", on=True)
    assert receipt.entries == 0
    assert receipt.change_id is None


async def test_a_book_that_is_off_and_on_again_is_as_it_was(house: House) -> None:
    before = await house.memories()
    await house.books().switch("tale", on=False)
    await house.books().switch("tale", on=True)
    assert await house.memories() == before


async def test_removing_is_one_change_and_an_undo_takes_it_back(house: House) -> None:
    before = await house.memories()
    receipt = await house.books().remove("tale")
    assert receipt.entries == 3
    assert set(await house.memories()) == {"birthday", "Rain"}
    [book] = [book for book in await house.books().listed() if book.conversation_id == "chat"]
    assert book.name == "Weather"
    assert receipt.change_id is not None
    await house.conversations.get("chat").archive.undo(receipt.change_id)
    assert await house.memories() == before


async def test_rules_of_a_group_stay_with_the_entries(house: House) -> None:
    grouped = FiringRules(group=GroupRules(("weather",)), cooldown=2)
    await house.put("chat", LongTermMemory("Snow", "x", "true", NOW, rules=grouped, book=RAIN.book))
    await house.books().switch("weather", on=False)
    await house.books().switch("weather", on=True)
    assert (await house.memories())["Snow"].rules == grouped
