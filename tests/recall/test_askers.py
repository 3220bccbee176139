"""Who asks about themselves, where several people speak, gets their own words first; the name alone brings nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sample_memories import DAY, NOW
from searched_memories import USUAL_WORDING, decided

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import USUAL
from memory_server.conversations.recall.words import QueryContext, RecallQuery
from memory_server.kernel.messages import Message, Role, context_text

WITH_SPEAKERS = replace(USUAL_WORDING, enrichment=replace(USUAL_WORDING.enrichment, speakers=True))
ENGLISH = ("Ann", "Ben", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hana")
CHINESE = ("阿明", "小红", "老王", "阿芳", "大刘", "小陈", "阿梅", "老李")
FOODS = ("tofu", "cake", "pork", "fish", "lamb", "noodles", "dumplings", "duck")
FOODS_ZH = ("麻婆豆腐", "草莓蛋糕", "红烧肉", "糖醋鱼", "羊肉串", "螺蛳粉", "小笼包", "烤鸭")


def said(
    number: int, name: str | None, text: str, role: Role = "user", days: int = 1
) -> ShortTermMemory:
    messages = (Message(role, text, name=name), Message("assistant", "Noted."))
    memory = ShortTermMemory(
        f"m{number}",
        NOW - days * DAY,
        context_text(messages),
        words=(),
        weights=(),
        score=0.0,
        conversation_id="group",
        messages=messages,
    )
    return WITH_SPEAKERS.of_text(memory)


def query_of(memories: Sequence[ShortTermMemory], text: str, name: str | None) -> RecallQuery:
    known = QueryContext.of(memories)
    return WITH_SPEAKERS.of_query([Message("user", text, name=name)], NOW, known=known)


def ids_for(memories: Sequence[ShortTermMemory], text: str, name: str | None) -> list[str]:
    """The ids of the memories that come, best first."""
    recall = decided(
        memories,
        query_of(memories, text, name),
        replace(USUAL, flashback_count=0),
        wording=WITH_SPEAKERS,
        conversation_id="other",
    ).recall
    return [item.memory.id for item in (*recall.top, *recall.next)]


def group(names: Sequence[str], form: str, foods: Sequence[str]) -> list[ShortTermMemory]:
    """What each member said, the first one longest ago."""
    return [
        said(number, name, form.format(food), days=len(names) - number)
        for number, (name, food) in enumerate(zip(names, foods, strict=True))
    ]


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize(
    ("names", "form", "foods", "question"),
    [
        (ENGLISH, "I like {} best.", FOODS, "What do I like best?"),
        (ENGLISH, "My favourite dish is {}.", FOODS, "Do you remember my favourite dish?"),
        (CHINESE, "我最喜欢吃{}。", FOODS_ZH, "你还记得我最喜欢吃什么吗？"),
        (CHINESE, "我最喜欢的菜是{}。", FOODS_ZH, "我最喜欢的菜是哪个？"),
    ],
)
def test_each_member_of_a_group_gets_their_own_words_first(
    names: Sequence[str], form: str, foods: Sequence[str], question: str, number: int
) -> None:
    memories = group(names, form, foods)
    assert ids_for(memories, question, names[number])[0] == f"m{number}"


def test_an_overview_begins_with_what_the_asker_said() -> None:
    memories = group(ENGLISH, "I like {} best, and I am from Oslo.", FOODS)
    for number, name in enumerate(ENGLISH):
        assert f"m{number}" in ids_for(memories, "What do you know about me?", name)


@pytest.mark.parametrize(
    ("name", "question"),
    [
        (None, "What do I like best?"),
        ("Zoe", "What do I like best?"),
        ("Ann", "What do people like best?"),
        ("Ann", "What do we like best?"),
    ],
)
def test_without_an_asker_who_speaks_of_themselves_nothing_changes(
    name: str | None, question: str
) -> None:
    memories = group(ENGLISH, "I like {} best.", FOODS)
    assert ids_for(memories, question, name) == ids_for(memories, question, None)


@pytest.mark.parametrize("character", [None, "Mika"])
def test_in_a_chat_of_one_user_the_name_counts_for_nothing(character: str | None) -> None:
    memories = [said(number, "Ann", f"I like {food}.") for number, food in enumerate(FOODS[:4])]
    memories.append(said(9, character, "I like it here.", role="assistant"))
    assert query_of(memories, "What do I like?", "Ann").own_word == ""


def test_the_name_of_the_asker_alone_brings_no_memory() -> None:
    memories = group(ENGLISH, "I like {} best.", FOODS)
    assert ids_for(memories, "Did I close my umbrella?", "Ann") == []
    assert ids_for(memories, "I am going to bed now, good night to me.", "Ann") == []


def test_the_last_message_of_another_role_asks_for_nobody() -> None:
    memories = group(ENGLISH, "I like {} best.", FOODS)
    messages = [Message("assistant", "What do I like?", name="Ann")]
    known = QueryContext(users=QueryContext.of(memories).users)
    assert WITH_SPEAKERS.of_query(messages, NOW, known=known).own_word == ""
