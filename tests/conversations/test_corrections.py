"""A memory corrects older ones: by what it says, or as a caller says. What was corrected does not come as itself."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from memory_store import MemoryStore
from sample_memories import DAY, NOW
from trigger_table import TableRunner

from memory_server.config.recall import parameters
from memory_server.config.settings import Settings
from memory_server.conversations.changes import Commit, taking_back
from memory_server.conversations.conversation import Conversation, Conversations
from memory_server.conversations.recall.corrections import asks_for_past
from memory_server.conversations.recall.order import Recalled
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.services import Services
from memory_server.conversations.short_term import Origin
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message
from memory_server.memories.memories import Memories

pytestmark = pytest.mark.anyio

OLDER = "I work mornings at the florist, roses everywhere"
NEWER = "I work mornings at the post office, stamps everywhere"
ASKED = "Where do I work in the mornings?"
NO_HOME: Any = (None, None, None, None)


class Talk:
    """A conversation whose clock goes on by ten days with each turn."""

    def __init__(self, **settings: Any) -> None:
        self.now_ms = NOW
        self.store = MemoryStore()
        self.services = Services(
            self.store,
            TableRunner(),
            parameters(Settings(**settings)),
            lambda: self.now_ms,
            Random(1),
        )
        conversations = Conversations(self.services)
        self.memories = Memories(conversations, self.services, *NO_HOME)
        self.chat: Conversation = conversations.get("chat")

    async def say(self, text: str, name: str | None = None, **options: Any) -> str:
        self.now_ms += 10 * DAY
        said = await self.chat.short_term.add([Message("user", text, name=name)], **options)
        return said.memory.id

    async def came(self, question: str) -> list[Recalled]:
        self.now_ms += DAY
        found = await self.chat.short_term.search(
            RecallRequest((Message("user", question),), reinforce=False)
        )
        return [*found.recall.top, *found.recall.next]

    async def lines(self, question: str) -> str:
        found = await self.chat.short_term.search(
            RecallRequest((Message("user", question),), reinforce=False)
        )
        return self.memories.lines(found.recall).text

    async def links(self) -> list[tuple[str, str]]:
        state = await self.store.read("chat")
        return [
            (each.id, older.by) for each in state.short_term.values() for older in each.corrects
        ]


async def test_the_newer_one_comes_in_place_of_the_older_one() -> None:
    talk = Talk()
    await talk.say(OLDER)
    newer = await talk.say(NEWER)
    assert await talk.links() == [(newer, "rule")]
    [recalled] = await talk.came(ASKED)
    assert recalled.memory.id == newer
    lines = await talk.lines(ASKED)
    assert lines.endswith(f"{NEWER} (before, until 11 July: {OLDER})")


async def test_a_question_about_the_past_gets_the_older_one_as_no_longer_true() -> None:
    talk = Talk()
    older = await talk.say(OLDER)
    await talk.say(NEWER)
    recalled = await talk.came("Where did I work in the mornings before?")
    assert older in [each.memory.id for each in recalled]
    assert "no longer true" in await talk.lines("Where did I work in the mornings before?")


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("Where did I live before Berlin?", True),
        ("Where did I work back then?", True),
        ("Where did I use to live?", True),
        ("Where was I living in March?", True),
        ("What was I charging when the first pupil came?", True),
        ("How did I feel about it when I held the coats?", True),
        ("What was my old number?", True),
        ("What was the name at the start?", True),
        ("Which one was I on earlier?", True),
        ("What did we believe all those years?", True),
        ("搬家之前我租在哪儿？", True),
        ("我原来教什么的来着？", True),
        ("我前面学过一阵的是哪门？", True),
        ("她二年级的时候在哪个学校？", True),
        ("我买新车前开的哪辆？", True),
        ("换药以前吃的哪种？", True),
        ("我小时候住哪里？", True),
        ("What was my phone number again?", False),
        ("What was the name of my dentist?", False),
        ("Did I tell you where I live?", False),
        ("Where did I move to?", False),
        ("What did I decide about the deadline?", False),
        ("When was the deadline?", False),
        ("What was I supposed to buy?", False),
        ("What do I have to do before Friday?", False),
        ("Should I get up earlier?", False),
        ("How old is my sister?", False),
        ("Who had the key?", False),
        ("When is my exam?", False),
        ("我的电话是什么来着？", False),
        ("我什么时候搬的家？", False),
        ("周五之前我要交什么？", False),
        ("睡前我一般听什么？", False),
        ("开会的时候我该说什么？", False),
        ("我怎么过去？", False),
        ("我目前住在哪里？", False),
    ],
)
def test_which_questions_ask_for_the_past(question: str, asks: bool) -> None:
    assert asks_for_past(question) == asks


async def test_a_caller_says_what_is_corrected() -> None:
    talk = Talk()
    older = await talk.say("My tooth hurts on the left")
    newer = await talk.say("The dentist found it, it was a nut", corrects=[older])
    assert await talk.links() == [(newer, "caller")]
    [recalled] = await talk.came("Which tooth hurts?")
    assert recalled.memory.id == newer


async def test_a_wrong_id_is_a_sentence_and_stores_nothing() -> None:
    talk = Talk()
    with pytest.raises(InvalidInput, match="no memory `nobody`"):
        await talk.say(NEWER, corrects=["nobody"])
    assert not (await talk.store.read("chat")).short_term


async def test_a_chain_shows_the_newest_and_the_one_before() -> None:
    talk = Talk()
    for place in ("florist", "bakery", "post office"):
        await talk.say(f"I work mornings at the {place}")
    [recalled] = await talk.came(ASKED)
    assert "post office" in recalled.memory.text
    assert recalled.before is not None
    assert "bakery" in recalled.before.text


async def test_one_undo_takes_only_the_link_back() -> None:
    talk = Talk()
    await talk.say(OLDER)
    await talk.say(NEWER)
    state = await talk.store.read("chat")
    commits: list[Commit] = talk.store._commits["chat"]
    await talk.store.update("chat", lambda _: (taking_back(state, commits[-1]), None), by="undo")
    assert await talk.links() == []
    assert len(await talk.came(ASKED)) == 2


async def test_what_corrected_is_forgotten_and_the_older_one_holds_again() -> None:
    talk = Talk()
    older = await talk.say(OLDER)
    await talk.say(NEWER)
    await talk.chat.short_term.delete("post")
    [recalled] = await talk.came(ASKED)
    assert recalled.memory.id == older


async def test_both_are_true() -> None:
    talk = Talk()
    await talk.say(OLDER)
    newer = await talk.say(NEWER)
    await talk.chat.short_term.keep_both(newer)
    assert len(await talk.came(ASKED)) == 2


async def test_nobody_corrects_what_somebody_else_said() -> None:
    talk = Talk()
    await talk.say(OLDER, name="Hanna")
    await talk.say(NEWER, name="Robin")
    assert await talk.links() == []


async def test_a_caller_does_not_correct_what_somebody_else_said() -> None:
    talk = Talk()
    older = await talk.say(OLDER, name="Hanna")
    with pytest.raises(InvalidInput, match="of another user"):
        await talk.say(NEWER, name="Robin", corrects=[older])
    assert await talk.say(NEWER, name="Hanna", corrects=[older])


async def test_what_holds_in_one_project_corrects_nothing_of_another() -> None:
    talk = Talk()
    await talk.say("The dev port is 8080.", origin=Origin(folder="/alpha"))
    await talk.say("The dev port is 3000.", origin=Origin(folder="/beta"))
    assert await talk.links() == []
    newest = await talk.say("The dev port is 4000.", origin=Origin(folder="/beta"))
    assert await talk.links() == [(newest, "rule")]


async def test_an_edit_takes_away_what_the_former_words_corrected() -> None:
    talk = Talk()
    older = await talk.say(OLDER)
    newer = await talk.say(NEWER)
    await talk.chat.short_term.edit(newer, ["I like stamps"])
    assert await talk.links() == []
    [recalled] = await talk.came(ASKED)
    assert recalled.memory.id == older


async def test_nothing_corrects_what_corrects_it() -> None:
    talk = Talk()
    older = await talk.say(OLDER)
    newer = await talk.say(NEWER, corrects=[older])
    talk.now_ms -= 10 * DAY
    again = await talk.chat.short_term.add([Message("user", NEWER)], corrects=[newer])
    assert again.memory.id != older
    assert (newer, "caller") in await talk.links()
    assert len(await talk.links()) == 1


async def test_the_node_original_takes_no_corrections_of_a_caller() -> None:
    talk = Talk(compat="node")
    older = await talk.say(OLDER)
    await talk.say("Something else", corrects=[older])
    assert await talk.links() == []


async def test_a_muted_newer_one_hides_nothing() -> None:
    talk = Talk()
    older = await talk.say(OLDER)
    newer = await talk.say(NEWER)
    await talk.chat.short_term.mute(newer, "everywhere")
    [recalled] = await talk.came(ASKED)
    assert recalled.memory.id == older


async def test_a_muted_older_one_is_not_said() -> None:
    talk = Talk()
    older = await talk.say(OLDER)
    await talk.say(NEWER)
    await talk.chat.short_term.mute(older, "everywhere")
    assert "florist" not in await talk.lines(ASKED)


async def test_the_node_original_links_nothing() -> None:
    talk = Talk(compat="node")
    await talk.say(OLDER)
    await talk.say(NEWER)
    assert await talk.links() == []
