"""What somebody says they will do is a plan: it comes by itself on its day, is listed in order, and is over after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from memory_store import MemoryStore
from sample_memories import DAY, HOUR
from trigger_table import TableRunner

from memory_server.config.recall import parameters
from memory_server.config.settings import Settings
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.recall import plans
from memory_server.conversations.recall.plans import plan_text
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.services import Services
from memory_server.kernel.messages import Message, Session
from memory_server.kernel.private import Pause
from memory_server.kernel.recalled_block import as_said
from memory_server.memories.memories import Call, Memories
from memory_server.memories.turns import beginning_block, prompt_room, turn_prompt

pytestmark = pytest.mark.anyio

MONDAY = round(datetime(2026, 6, 15, 9, tzinfo=UTC).timestamp() * 1000)
NO_HOME: Any = (None, None, None, None)
HELLO = "Hello there"


class Talk:
    """Two conversations of a group at nine o'clock on Monday, 15 June 2026."""

    def __init__(self, **around: Any) -> None:
        self.now_ms = MONDAY
        self.store = MemoryStore()
        settings = Settings(timezone="UTC")
        self.services = Services(
            self.store,
            TableRunner(),
            parameters(settings),
            lambda: self.now_ms,
            Random(1),
            zone=settings.zone,
            **around,
        )
        self.give(**around)

    def give(self, **around: Any) -> None:
        """Go on with other services over the same memories."""
        self.services = replace(self.services, **around)
        self.conversations = Conversations(self.services)
        self.memories = Memories(self.conversations, self.services, *NO_HOME)

    async def say(self, *texts: str, chat: str = "chat", **options: Any) -> str:
        messages = [Message("user", text) for text in texts]
        return (await self.conversations.get(chat).short_term.add(messages, **options)).memory.id

    async def turn(
        self, text: str = HELLO, chat: str = "chat", *, plans: bool = True, **options: Any
    ) -> str:
        """The prompt of a turn, without the frame of its block."""
        request = RecallRequest(
            [Message("user", text)], plans=plans, reinforce=False, flashbacks=0, **options
        )
        call = Call(self.memories, self.conversations)
        prompt = await turn_prompt(call, self.conversations.get(chat), request, prompt_room(2_000))
        return "\n".join(prompt.text.splitlines()[2:-1])

    async def came(self, question: str) -> list[str]:
        request = RecallRequest([Message("user", question)], mode="asked", reinforce=False)
        found = await self.conversations.get("chat").short_term.search(request)
        return [each.memory.text for each in (*found.recall.top, *found.recall.next)]


async def test_a_plan_comes_once_on_its_day() -> None:
    talk = Talk()
    await talk.say("My driving test is on Thursday. I am so nervous!")
    for _day in (15, 16, 17):
        assert await talk.turn() == ""
        talk.now_ms += DAY
    line = (
        "Today: User (3 days ago, morning): My driving test is on Thursday. [Thursday, 18 June: today] "
        "I am so nervous!"
    )
    assert await talk.turn() == line
    assert await talk.turn() == ""
    assert await talk.turn(session=Session("another")) == ""
    talk.now_ms += DAY
    assert await talk.turn() == ""


async def test_a_plan_comes_once_in_each_conversation_that_may_see_it() -> None:
    talk = Talk(scope="all")
    await talk.say("我周四考驾照")
    talk.now_ms += 3 * DAY
    assert (
        await talk.turn("在吗", "other")
        == "今天：用户（3 天前，上午）：我周四考驾照[6 月 18 日，星期四：今天]"
    )
    assert (await talk.turn("在吗")).startswith("今天：")
    assert await talk.turn("在吗", "other") == ""


async def test_two_plans_of_a_message_come_each_on_its_day() -> None:
    talk = Talk()
    await talk.say("On Wednesday I have the dentist. On Thursday I fly to Rome.")
    for _day in ("Wednesday", "Thursday"):
        talk.now_ms += DAY if _day == "Thursday" else 2 * DAY
        assert (await talk.turn()).startswith("Today: ")
        assert await talk.turn() == ""


async def test_many_plans_for_a_day_come_in_several_turns() -> None:
    talk = Talk()
    for hour in range(5):
        await talk.say(f"On Thursday I meet number {hour} of five")
    talk.now_ms += 3 * DAY
    shown = [(await talk.turn()).count("I meet number") for _turn in range(3)]
    assert shown == [3, 2, 0]


async def test_a_plan_stays_in_its_conversation() -> None:
    talk = Talk()
    await talk.say("My driving test is on Thursday")
    talk.now_ms += 3 * DAY
    assert await talk.turn(chat="other") == ""
    assert (await talk.turn(chat="other", also=["chat"])).startswith("Today: ")


async def test_what_begins_before_noon_comes_on_the_day_before_too() -> None:
    talk = Talk()
    await talk.say("The train leaves on Thursday at 6:45")
    talk.now_ms += 2 * DAY
    assert (await talk.turn()).startswith("Tomorrow: User (2 days ago, morning): The train")
    assert await talk.turn() == ""
    talk.now_ms += DAY
    assert (await talk.turn()).startswith("Today: User (3 days ago, morning): The train")


async def test_what_was_said_today_of_tomorrow_does_not_come_today() -> None:
    talk = Talk()
    await talk.say("The train leaves tomorrow at 6:45")
    talk.now_ms += 6 * HOUR
    assert await talk.turn() == ""


@pytest.mark.parametrize(
    "text",
    [
        "We meet next Friday",  # this one, or the one after it
        "The lease is up at the end of the month",
        "Every Thursday I go to choir",
        "One day I will see Rome",
        "I went to the dentist on Friday",
        "Next month I work from home",
    ],
)
async def test_what_names_no_certain_day_to_come_does_not_come_by_itself(text: str) -> None:
    talk = Talk()
    await talk.say(text)
    for _day in range(35):
        talk.now_ms += DAY
        assert await talk.turn() == ""


async def test_a_span_comes_on_its_first_day_with_a_turn() -> None:
    talk = Talk()
    await talk.say("This weekend I paint the fence")
    talk.now_ms += 6 * DAY
    assert "[20 to 21 June: today]" in await talk.turn()
    assert await talk.turn() == ""


@pytest.mark.parametrize(
    "around",
    [
        {"writable": False},
        {"paused": lambda: Pause(None)},
        {"parameters": parameters(Settings(compat="node"))},
    ],
)
async def test_nothing_comes_by_itself_where_it_may_not_be_written(around: Any) -> None:
    talk = Talk()
    usual = {name: getattr(talk.services, name) for name in around}
    await talk.say("My driving test is on Thursday")
    talk.now_ms += 3 * DAY
    talk.give(**around)
    assert await talk.turn() == ""
    talk.give(**usual)
    assert (await talk.turn()).startswith("Today: ")


async def test_a_search_shows_no_plan_for_today() -> None:
    talk = Talk()
    await talk.say("My driving test is on Thursday")
    talk.now_ms += 3 * DAY
    assert await talk.turn(plans=False) == ""


async def test_what_is_muted_deleted_or_corrected_does_not_come_by_itself() -> None:
    talk = Talk()
    short_term = talk.conversations.get("chat").short_term
    muted = await talk.say("My driving test is on Thursday")
    await talk.say("The plumber comes on Thursday")
    corrected = await talk.say("I see the dentist on Thursday")
    kept = "On Thursday I sing in the choir"
    await talk.say(kept)
    talk.now_ms += DAY
    await short_term.mute(muted, "conversation:chat")
    await short_term.delete("plumber")
    await talk.say("The dentist is ill", corrects=[corrected])
    talk.now_ms += 2 * DAY
    shown = (await talk.turn()).splitlines()
    assert len(shown) == 1
    assert kept in shown[0]


async def test_a_plan_that_the_question_brings_too_comes_once() -> None:
    talk = Talk()
    await talk.say("My driving test is on Thursday")
    talk.now_ms += 3 * DAY
    shown = await talk.turn("Is there anything with a driving test?")
    assert shown.count("driving test") == 1
    assert shown.startswith("Today: ")


async def test_a_new_session_is_shown_the_plans_of_today() -> None:
    talk = Talk()
    await talk.say("My driving test is on Thursday")
    talk.now_ms += 3 * DAY
    chat = talk.conversations.get("chat")
    for _session in range(2):
        request = RecallRequest((), by="hook")
        plans = await chat.short_term.plans_today(request)
        await chat.short_term.note_plans(plans, request)
        text, items, _given = await beginning_block(
            talk.memories, chat, session=None, with_last=False, plans=plans
        )
        assert "\nToday: User (3 days ago, morning): My driving test" in text
        assert [item["tier"] for item in items] == ["plan"]
    assert await talk.turn() == ""  # the session has it
    assert as_said([Message("user", text)]) == ()


async def test_a_memory_that_comes_later_on_the_day_is_seen() -> None:
    talk = Talk()
    talk.now_ms += 3 * DAY
    assert await talk.turn() == ""
    said = Message("user", "My driving test is on Thursday", time_ms=MONDAY)
    await talk.conversations.get("chat").short_term.add([said])
    assert (await talk.turn()).startswith("Today: ")


async def test_a_plan_that_was_said_many_memories_ago_comes_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plans, "_LOOKED_AT", 3)
    talk = Talk()
    await talk.say("I fly to Oslo in three weeks")
    for number in range(10):
        await talk.say(f"Cake number {number} is good")
    talk.now_ms += DAY
    assert await talk.came("What do I have planned?") == ["user: I fly to Oslo in three weeks"]
    talk.now_ms += 20 * DAY
    assert (await talk.turn()).startswith("Today: ")


async def test_two_plans_of_a_sentence_come_each_on_its_day() -> None:
    talk = Talk()
    await talk.say("我周三看牙，周四去罗马")
    talk.now_ms += 2 * DAY
    assert (await talk.turn("在吗")).startswith("今天：")
    assert await talk.turn("在吗") == ""
    talk.now_ms += DAY
    assert (await talk.turn("在吗")).startswith("今天：")


async def test_the_day_is_that_of_the_readers() -> None:
    talk = Talk()
    await talk.say("My driving test is on Thursday")
    talk.now_ms += 2 * DAY + 15 * HOUR  # midnight in London, and nine o'clock on Thursday in Tokyo
    call = Call(talk.memories, talk.conversations).in_zone("Asia/Tokyo")
    request = RecallRequest([Message("user", HELLO)], plans=True, reinforce=False)
    chat = call.conversations.get("chat")
    prompt = await turn_prompt(call, chat, request, prompt_room(2_000))
    assert "Today: " in prompt.text


async def test_open_plans_are_listed_in_the_order_of_their_days() -> None:
    talk = Talk()
    await talk.say("I fly to Oslo in three weeks")
    await talk.say("My driving test is on Thursday")
    await talk.say("Tomorrow I see the dentist")
    await talk.say("Last week I saw my aunt")
    talk.now_ms += DAY
    await talk.say("I like cake a lot")
    talk.now_ms += DAY
    flight, test = "user: I fly to Oslo in three weeks", "user: My driving test is on Thursday"
    assert await talk.came("What do I have planned?") == [test, flight]
    assert await talk.came("What's coming up this week?") == [test]
    assert await talk.came("What did I do yesterday?") != [flight]


async def test_what_was_planned_for_a_time_is_what_was_done_in_it() -> None:
    talk = Talk()
    await talk.say("Next week I'm going to move the piano. Who can help?")
    talk.now_ms += 14 * DAY
    [planned] = await talk.came("What did I do last week?")
    assert "piano" in planned


async def test_a_plan_has_a_name() -> None:
    talk = Talk()
    await talk.say("My driving test is on Thursday. I bring cake.")
    [memory] = await talk.conversations.get("chat").short_term.memories()
    names = [plan_text(memory, MONDAY + days * DAY, talk.services.zone) for days in (0, 3, 6)]
    assert names == [
        "a plan for 18 June, in 3 days",
        "a plan for 18 June, which is today",
        "a plan for 18 June, which was 3 days ago",
    ]


async def test_a_plan_for_a_week_that_has_begun_is_now() -> None:
    talk = Talk()
    await talk.say("Next week I will go to Rome")
    [memory] = await talk.conversations.get("chat").short_term.memories()
    names = [plan_text(memory, MONDAY + days * DAY, talk.services.zone) for days in (6, 7, 10)]
    assert names == [
        "a plan for 22 to 28 June, in 1 day",
        "a plan for 22 to 28 June, which is now",
        "a plan for 22 to 28 June, which is now",
    ]


async def test_an_open_plan_comes_before_one_that_is_over() -> None:
    talk = Talk()
    await talk.say("I have a dentist appointment tomorrow, the dentist will drill")
    talk.now_ms += 3 * DAY
    await talk.say("My next visit at the dentist is in two weeks, for a crown")
    talk.now_ms += DAY
    asked = "When is my dentist appointment with the dentist?"
    over, open_plan = "drill", "crown"
    first, second = await talk.came(asked)
    assert (open_plan in first, over in second) == (True, True)
    first, second = await talk.came("Tell me of my dentist appointment at the dentist?")
    assert over in first
