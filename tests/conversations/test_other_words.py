"""Other words of a caller: what they find, what they must not, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, NOW

from memory_server.config import Settings
from memory_server.config.recall import parameters
from memory_server.conversations import codec
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall import selection
from memory_server.conversations.recall.columns import IndexedMemories
from memory_server.conversations.recall.index import Index
from memory_server.conversations.recall.indexed_selection import decide
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import ThresholdRule
from memory_server.conversations.recall.request import RecallContext, RecallRequest
from memory_server.conversations.recall.selection import Recall, Recalled
from memory_server.conversations.recall.words import QueryContext
from memory_server.conversations.short_term import Origin
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import ItemFilter
from memory_server.kernel.messages import Message, context_text
from memory_server.kernel.other_words import other_words_of
from memory_server.memories import forgetting
from memory_server.runtime.app import App, open_memory
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import Answer, call
from nlp import MOST_TEXT_CHARS, MOST_TEXTS, bare, is_kept
from nlp.stems import stem

pytestmark = pytest.mark.anyio

USUAL = parameters(Settings())
WORDING = USUAL.wording
CHANCELESS = replace(USUAL.recall, flashback_count=0)
PILLS = "I take trazodone before I go to bed"
TALK = (
    "The tram was late again",
    "We painted the fence green",
    "My sister plays the cello",
    "Rent went up in March",
)


def memory_of(memory_id: str, text: str, *other_words: str, days: int = 3) -> ShortTermMemory:
    messages = (Message("user", text),)
    memory = ShortTermMemory(
        memory_id,
        NOW - days * DAY,
        context_text(messages),
        (),
        (),
        0.0,
        "chat",
        messages,
        other_words=other_words,
    )
    return WORDING.of_text(memory)


def recall_by(
    memories: Sequence[ShortTermMemory],
    text: str,
    *other_words: str,
    recall: RecallParameters = CHANCELESS,
) -> Recall:
    """What comes by a message and other words, after seeing that both ways to count decide the same."""
    keeps_words = any(memory.other_words for memory in memories)
    known = QueryContext(keeps_words=keeps_words)
    query = WORDING.of_query([Message("user", text)], NOW, other_words=other_words, known=known)
    about = {"conversation_id": "elsewhere", "now_ms": NOW, "parameters": recall}
    index = Index(memories, WORDING)
    chosen = decide(
        [IndexedMemories({memory.id: memory for memory in memories}, index)],
        query,
        RecallContext(rng=Random(1), **about),
    ).recall  # type: ignore[arg-type]
    plain = selection.select(
        memories, query, RecallContext(rng=Random(1), wording=WORDING, **about)
    )  # type: ignore[arg-type]
    assert_same(chosen.top, plain.top)
    assert_same(chosen.next, plain.next)
    return chosen


def assert_same(indexed: Sequence[Recalled], plain: Sequence[Recalled]) -> None:
    assert [item.memory.id for item in indexed] == [item.memory.id for item in plain]
    for item, plain_item in zip(indexed, plain, strict=True):
        assert item.weak == plain_item.weak
        assert item.counted == pytest.approx(plain_item.counted)
        assert item.receipt.relevance == pytest.approx(plain_item.receipt.relevance)
        assert [word.text() for word in item.receipt.matched] == [
            word.text() for word in plain_item.receipt.matched
        ]


def ids(recall: Recall) -> list[str]:
    return [item.memory.id for item in (*recall.top, *recall.next)]


async def called(app: App, tool: str, arguments: dict[str, Any]) -> Answer:
    return await call(TOOLS[tool], app.call, arguments)


def other_memories() -> list[ShortTermMemory]:
    return [memory_of(f"t{number}", text, days=10 + number) for number, text in enumerate(TALK)]


# --- what they find ------------------------------------------------------------------------------------------


FOUND = [
    ("nothing in common", PILLS, (), "How did I sleep again?", (), False),
    ("words of the query", PILLS, (), "I cannot sleep again", ("trazodone", "bed", "pills"), True),
    (
        "words of the memory",
        PILLS,
        ("sleeping pills", "insomnia"),
        "Which sleeping pills do I use?",
        (),
        True,
    ),
    (
        "words of both",
        PILLS,
        ("insomnia", "medicine"),
        "My insomnia is back",
        ("trazodone", "pills"),
        True,
    ),
    (
        "words that nobody said",
        PILLS,
        ("insomnia", "medicine"),
        "I cannot rest",
        ("insomnia", "medicine"),
        False,
    ),
    (
        "words that nobody said and that agree",
        PILLS,
        ("insomnia", "medicine", "nightmares"),
        "Again the ceiling kept me company until dawn",
        ("insomnia", "medicine", "nightmares"),
        True,
    ),
    (
        "one word that nobody said",
        PILLS,
        ("insomnia", "medicine", "nightmares"),
        "Again the ceiling kept me company until dawn",
        ("insomnia", "coffee", "owls"),
        False,
    ),
    (
        "words for a message that says little",
        PILLS,
        ("insomnia", "medicine", "nightmares"),
        "Good morning",
        ("trazodone", "insomnia", "medicine", "nightmares"),
        False,
    ),
    (
        "words that nobody said, after a question",
        PILLS,
        ("insomnia", "medicine", "nightmares"),
        "Why does the ceiling keep me company until dawn?",
        ("insomnia", "medicine", "nightmares"),
        False,
    ),
    ("Chinese", "我每晚吃曲唑酮", ("安眠药", "失眠"), "我的安眠药叫什么？", (), True),
    ("Traditional", "我每晚吃曲唑酮", ("安眠药", "失眠"), "我的安眠藥叫什麼？", (), True),
    ("Traditional kept", "我每晚吃曲唑酮", ("安眠藥", "失眠"), "我的安眠药叫什么？", (), True),
    (
        "another form of a word",
        PILLS,
        ("headache",),
        "Which headaches did I tell you about?",
        (),
        True,
    ),
    (
        "one rare word after a question",
        "我每晚吃曲唑酮",
        (),
        "医生给我开的那个安眠药叫什么？",
        ("曲唑酮",),
        True,
    ),
    ("one rare word after a statement", "我每晚吃曲唑酮", (), "今天好累", ("曲唑酮",), False),
    ("one common word alone", PILLS, (), "What a day that was", ("bed",), False),
]


@pytest.mark.parametrize(
    ("name", "text", "kept_words", "message", "given_words", "comes"),
    FOUND,
    ids=[row[0] for row in FOUND],
)
def test_other_words_find_what_the_messages_do_not_name(
    name: str,
    text: str,
    kept_words: tuple[str, ...],
    message: str,
    given_words: tuple[str, ...],
    comes: bool,
) -> None:
    memories = [memory_of("pills", text, *kept_words), *other_memories()]
    ids_that_came = ids(recall_by(memories, message, *given_words))
    if comes:
        assert ids_that_came == ["pills"], name
    else:
        assert "pills" not in ids_that_came, name


def test_other_words_count_less_after_a_remark_that_says_little() -> None:
    shares: list[float] = []
    for text in ("Good morning", "Again the ceiling kept me company until dawn"):
        query = WORDING.of_query([Message("user", text)], NOW)
        shares.append(ThresholdRule.of(query, CHANCELESS).share_of_others(2))
    assert shares[0] == pytest.approx(0.7 * shares[1])


def test_a_kept_word_of_an_earlier_message_does_not_count_after_a_statement() -> None:
    memories = [memory_of("pills", PILLS, "invoice", "receipt"), *other_memories()]
    earlier = Message("user", "I sent the invoice and the receipt to my boss")
    last = Message("user", "The parcel with the curtains came today")
    query = WORDING.of_query([earlier, last], NOW, known=QueryContext(keeps_words=True))
    chosen = decide(
        [IndexedMemories({memory.id: memory for memory in memories}, Index(memories, WORDING))],
        query,
        RecallContext(
            conversation_id="elsewhere", now_ms=NOW, parameters=CHANCELESS, rng=Random(1)
        ),
    ).recall
    assert ids(chosen) == []


def test_a_word_of_the_message_counts_once_if_it_is_given_too() -> None:
    memories = [memory_of("pills", PILLS), *other_memories()]
    without = recall_by(memories, "Where is my trazodone?").top[0]
    with_the_word = recall_by(memories, "Where is my trazodone?", "trazodone").top[0]
    assert with_the_word.receipt == without.receipt


def test_a_receipt_says_which_word_is_from_where() -> None:
    memories = [memory_of("pills", PILLS, "insomnia"), *other_memories()]
    item = recall_by(memories, "Is insomnia why I lie in bed?", "trazodone", "medicine").top[0]
    texts = [word.text() for word in item.receipt.matched]
    assert [text for text in texts if text.startswith("trazodon")] == [
        "trazodon (given by the caller) 0.40×(19.0+19.0)"
    ]
    assert any("(kept with the memory)" in text for text in texts)
    line = item.receipt.line()
    assert "trazodon (given by the caller)" in line
    assert "insomnia (kept with the memory)" in line
    assert {word.word for word in item.receipt.words_shared} == {"bed"}


def test_words_of_the_caller_do_not_raise_what_a_memory_needs() -> None:
    memories = [memory_of("pills", PILLS), *other_memories()]
    for message, word in (("What a day", "weather"), ("Which weather was it?", "rain")):
        without_words = recall_by(memories, message).needed
        assert without_words > 0
        assert recall_by(memories, message, word).needed == without_words


LETTERS = st.text("abcdefgh猫狗海山", min_size=1, max_size=4)
TEXTS = st.lists(LETTERS, min_size=1, max_size=6).map(" ".join)


@given(
    texts_and_words=st.lists(
        st.tuples(TEXTS, st.lists(LETTERS, max_size=3)), min_size=1, max_size=6
    ),
    message=TEXTS,
    words=st.lists(LETTERS, max_size=4),
    weak_too=st.booleans(),
)
def test_both_ways_to_count_agree_on_other_words(
    texts_and_words: list[tuple[str, list[str]]], message: str, words: list[str], weak_too: bool
) -> None:
    memories = [
        memory_of(f"m{number}", text, *kept_words, days=number)
        for number, (text, kept_words) in enumerate(texts_and_words, 1)
    ]
    recall_by(memories, message, *words, recall=replace(CHANCELESS, weak_too=weak_too))


# --- without them everything is as it was ----------------------------------------------------------------------


async def test_without_other_words_nothing_changes(tmp_path: Path) -> None:
    query = WORDING.of_query([Message("user", "Where is my trazodone?")], NOW)
    assert query == WORDING.of_query(
        [Message("user", "Where is my trazodone?")], NOW, other_words=()
    )
    assert "otherWords" not in codec.short_term_json(memory_of("pills", PILLS))


async def test_the_node_original_knows_no_other_words(tmp_path: Path) -> None:
    async with open_memory(tmp_path, settings=Settings(compat="node")) as app:
        chat = app.conversation().short_term
        await chat.add([Message("user", PILLS, NOW)], other_words=["安眠药"])
        results = await chat.search(
            RecallRequest([Message("user", "安眠药在哪里")], other_words=["trazodone"])
        )
        assert not results.recall.query.words.keys() & {"trazodone"}
        [record] = json.loads((await _snapshot(app, tmp_path)).read_text())
        assert record["otherWords"] == ["安眠药"]
        assert "otherKeywords" not in record


async def _snapshot(app: App, folder: Path) -> Path:
    await app.memories.services.store.compact("default")
    return folder / "default" / "short-term-memory.json"


# --- what is kept ------------------------------------------------------------------------------------------------


BAD = [
    ([str(number) for number in range(MOST_TEXTS + 1)], "too many"),
    (["x" * (MOST_TEXT_CHARS + 1)], "too long"),
]


@pytest.mark.parametrize(("texts", "fault"), BAD, ids=[row[1] for row in BAD])
async def test_too_many_or_too_long_ones_are_refused(
    tmp_path: Path, texts: list[str], fault: str
) -> None:
    async with open_memory(tmp_path) as app:
        chat = app.conversation().short_term
        with pytest.raises(InvalidInput, match="at most 40 other words, each of at most 60"):
            await chat.add([Message("user", "hello there")], other_words=texts)
        with pytest.raises(InvalidInput, match="at most 40 other words"):
            await chat.search(RecallRequest([Message("user", "hello there")], other_words=texts))
        assert await chat.memories() == (), fault


def test_blank_ones_and_doubles_go_and_spaces_are_one() -> None:
    assert other_words_of([" ", "a  b", "a b", "\n", "c\ud800"], ()).texts == ("a b", "c\ufffd")


PRIVATE = [
    ("trazodone", "I <private>take trazodone</private> at night", 1),
    ("my trazodone dose", "I <private>take trazodone</private> at night", 1),
    ("曲唑酮", "我晚上<private>吃曲唑酮</private>睡觉", 1),
    ("TRAZODONE", "I <private>take trazodone</private> at night", 1),
    ("night", "I <private>take trazodone</private> at night", 0),
    ("sleep", "I <private>take trazodone</private> at night", 0),
    ("trazodone", "trazodone, <private>trazodone</private>", 0),
]


@pytest.mark.parametrize(("word", "text", "left_out"), PRIVATE)
def test_words_of_a_private_part_are_left_out(word: str, text: str, left_out: int) -> None:
    assert other_words_of([word], [Message("user", text)]).private == left_out


async def test_a_tool_says_that_private_words_do_not_belong_there(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        messages = [
            {"role": "user", "content": "I <private>take trazodone</private> at night and read"}
        ]
        stored = await called(
            app, "remember_turn", {"messages": messages, "otherWords": ["trazodone", "books"]}
        )
        assert "such words do not belong there" in stored.structured["note"]
        [memory] = await app.conversation().short_term.memories()
        assert memory.other_words == ("books",)
        asked_for = await called(
            app, "recall_turn", {"messages": messages, "otherWords": ["trazodone"]}
        )
        assert "do not belong there" in asked_for.structured["shortTerm"]["note"]
        app.recalls.write()
        assert "trazodone" not in json.dumps(list(app.home.recalls.lines()))


async def test_an_edit_gives_them_and_takes_them_away_and_undo_brings_them_back(
    tmp_path: Path,
) -> None:
    async with open_memory(tmp_path) as app:
        chat = app.conversation()
        memory = (
            await chat.short_term.add([Message("user", PILLS)], other_words=["insomnia"])
        ).memory
        edited = await chat.short_term.edit(memory.id, other_words=["sleeping pills"])
        assert edited.memory.other_words == ("sleeping pills",)
        assert {bare(word) for word in edited.memory.words if is_kept(word)} == {"sleep", "pill"}
        assert edited.memory.text == memory.text
        emptied = await chat.short_term.edit(memory.id, other_words=[])
        assert not any(map(is_kept, emptied.memory.words))
        assert emptied.change_id is not None
        await app.memories.engines[0].undo(emptied.change_id)
        assert (await chat.short_term.memory(memory.id)).other_words == ("sleeping pills",)
        with_new_text = await chat.short_term.edit(
            memory.id, ["I take melatonin"], before=memory.text
        )
        assert with_new_text.memory.other_words == ("sleeping pills",), "a new text keeps them"


async def test_the_same_turn_with_other_words_adds_them(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        chat = app.conversation().short_term
        first = await chat.add([Message("user", PILLS)], origin=Origin(turn="1", replaces=True))
        second = await chat.add([Message("user", PILLS)], other_words=["insomnia"])
        assert second.memory.id == first.memory.id
        assert second.total == 1
        assert second.memory.other_words == ("insomnia",)
        turn = [Message("user", PILLS), Message("assistant", "Sleep well")]
        longer = await chat.add(turn, origin=Origin(turn="1", replaces=True))
        assert longer.memory.other_words == ("insomnia",)
        assert any(map(is_kept, longer.memory.words))
        same = await chat.add(turn, origin=Origin(turn="1", replaces=True))
        assert same.change_id is None


async def test_they_come_back_from_disk_and_from_a_hand_edit(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        stored = (
            await app.conversation().short_term.add(
                [Message("user", PILLS)], other_words=["insomnia"]
            )
        ).memory
        path = await _snapshot(app, tmp_path)
    [record] = json.loads(path.read_text())
    assert record["otherWords"] == ["insomnia"]
    assert [keyword["word"] for keyword in record["otherKeywords"]] == ["insomnia"]
    assert "insomnia" not in [keyword["word"] for keyword in record["keywords"]]
    async with open_memory(tmp_path) as app:
        [memory] = await app.conversation().short_term.memories()
        assert memory == stored
        record["otherWords"] = ["cannot sleep"]
        path.write_text(json.dumps([record]))
        [memory] = await app.conversation().short_term.memories()
        assert memory.other_words == ("cannot sleep",)


RECORDS = [
    {"otherWords": ["a"] * (MOST_TEXTS + 1)},
    {"otherWords": ["x" * (MOST_TEXT_CHARS + 1)]},
    {"otherWords": "a"},
    {"otherWords": [1]},
    {"otherWords": [""]},
    {"otherKeywords": [{"word": "a", "weight": 1.0}]},
]


@pytest.mark.parametrize("more", RECORDS)
def test_what_this_program_would_not_write_stays_as_it_is(more: dict[str, object]) -> None:
    record = codec.short_term_json(memory_of("pills", PILLS)) | more
    memory = codec.short_term(record)
    assert memory.other_words == ()
    assert codec.short_term_json(memory) == record


# --- forgetting --------------------------------------------------------------------------------------------------


async def test_forgetting_words_never_takes_a_memory_that_nobody_said_them_in(
    tmp_path: Path,
) -> None:
    async with open_memory(tmp_path) as app:
        chat = app.conversation().short_term
        spared = (await chat.add([Message("user", PILLS)], other_words=["walrus pills"])).memory
        meant = (await chat.add([Message("user", "My walrus figure broke")])).memory
        items, words = await forgetting.find(app.memories.engines, ["walrus"], ItemFilter())
        assert [item.id for item in items] == [meant.id]
        beside = await forgetting.beside(app.memories.engines, words, ItemFilter())
        assert [item.id for item in beside] == [spared.id]
        assert "takes the words away" in forgetting.beside_text(beside)
        answer = await called(app, "forget", {"words": "walrus", "confirm": True})
        assert answer.structured["found"] == 1
        assert spared.id in answer.structured["note"]
        assert [memory.id for memory in await chat.memories()] == [spared.id]


async def test_the_record_of_recalls_has_what_was_given_and_erasing_takes_it(
    tmp_path: Path,
) -> None:
    async with open_memory(tmp_path) as app:
        messages = [{"role": "user", "content": "I cannot rest"}]
        some_days_ago = Message("user", PILLS, app.clock() - 3 * DAY)
        await app.conversation().short_term.add([some_days_ago], other_words=["insomnia"])
        given_words = ["insomnia", "trazodone", "bed"]
        await called(app, "recall_turn", {"messages": messages, "otherWords": given_words})
        app.recalls.write()
        [line] = app.home.recalls.lines()
        assert line["otherWords"] == given_words
        [item] = line["came"]
        assert set(item["given"]) == {"insomnia", "trazodone", "bed"}
        assert item.get("words", {}) == {}
        erasure = await forgetting.erasure_of(app.memories.engines, (), ("insomnia",))
        await forgetting.erase(
            app.memories.engines, erasure, app.home.erased, app.home.recalls, app.home.questions
        )
        assert app.home.recalls.lines() == []


# --- what a reader of the first version found ---------------------------------------------------------------------


async def test_the_same_turn_again_never_has_more_than_may_be_read(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        chat = app.conversation().short_term
        for begin in ("a", "b"):
            texts = [f"{begin}{number}" for number in range(MOST_TEXTS)]
            stored = await chat.add(
                [Message("user", PILLS)], origin=Origin(turn="t", replaces=True), other_words=texts
            )
        assert stored.memory.other_words == tuple(texts), "the newest ones"
        assert codec.short_term(codec.short_term_json(stored.memory)) == stored.memory


AGAIN = [
    ("something else", [Message("user", "I have a dog")], ("puppy",), ("puppy",)),
    (
        "the same and more",
        [Message("user", "I have a cat"), Message("assistant", "Nice")],
        (),
        ("kitten",),
    ),
    (
        "now private",
        [Message("user", "<private>I have a cat</private> I like tea")],
        ("drink",),
        ("drink",),
    ),
]


@pytest.mark.parametrize(
    ("name", "messages", "words", "remaining"), AGAIN, ids=[row[0] for row in AGAIN]
)
async def test_a_turn_that_says_something_else_loses_the_words_of_what_it_said(
    tmp_path: Path,
    name: str,
    messages: list[Message],
    words: tuple[str, ...],
    remaining: tuple[str, ...],
) -> None:
    async with open_memory(tmp_path) as app:
        chat = app.conversation().short_term
        await chat.add(
            [Message("user", "I have a cat")],
            origin=Origin(turn="t", replaces=True),
            other_words=["kitten"],
        )
        stored = await chat.add(messages, origin=Origin(turn="t", replaces=True), other_words=words)
        assert stored.memory.other_words == remaining, name
        assert {bare(word) for word in stored.memory.words if is_kept(word)} == {
            stem(word) for word in remaining
        }


MARKED = [
    ("<private>secret</private>", (), 1),
    ("oncology <private>tumor</private>", ("oncology",), 1),
    ("a\u202eb\u200bc", ("abc",), 0),
    ("\u200b\u200e", (), 0),
    ("private school", ("private school",), 0),
]


@pytest.mark.parametrize(("text", "public_texts", "private"), MARKED)
def test_a_text_is_kept_without_its_own_private_part_and_what_nobody_sees(
    text: str, public_texts: tuple[str, ...], private: int
) -> None:
    other_words = other_words_of(
        [text], [Message("user", "<private>PIN is 1234</private> my son goes to school")]
    )
    assert other_words.texts == public_texts
    assert other_words.private == private


DISGUISED = [
    ("糖尿病人", "<private>我得了糖尿病</private>今天很累"),
    ("ONeil", "<private>O'Neil called</private> hello"),
    ("138-0000-1111", "<private>13800001111</private> hello"),
    ("dia betes", "<private>diabetes</private> hello"),
]


@pytest.mark.parametrize(("text", "said_text"), DISGUISED)
def test_private_words_are_known_in_other_writings(text: str, said_text: str) -> None:
    assert other_words_of([text], [Message("user", said_text)]).texts == ()


async def test_an_edit_says_which_words_are_private(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        memory = (
            await app.conversation().short_term.add(
                [Message("user", "I feel fine")], other_words=["tea"]
            )
        ).memory
        arguments = {"id": memory.id, "find": "fine", "replace": "<private>tisane</private>nice"}
        edited = await called(app, "edit_memory", {**arguments, "otherWords": ["tisane", "drink"]})
        assert edited.structured["otherWords"] == ["drink"]
        assert "do not belong there" in edited.text


def test_an_edit_takes_the_place_of_what_could_not_be_read() -> None:
    record = codec.short_term_json(memory_of("pills", PILLS)) | {"otherWords": "feline, tomcat"}
    edited = WORDING.with_other_words(codec.short_term(record), ["lion"])
    assert codec.short_term_json(edited)["otherWords"] == ["lion"]
    assert codec.short_term(codec.short_term_json(edited)).other_words == ("lion",)


async def test_a_search_says_which_word_is_kept_with_a_memory_and_the_node_original_has_none(
    tmp_path: Path,
) -> None:
    async with open_memory(tmp_path) as app:
        await app.conversation().short_term.add([Message("user", PILLS)], other_words=["concert"])
        answer = await called(app, "search_memories", {"query": "concert"})
        assert answer.structured["results"][0]["keptWords"] == ["concert"]
        assert "concert (kept with the memory)" in answer.text
    async with open_memory(tmp_path, settings=Settings(compat="node")) as app:
        assert (await called(app, "search_memories", {"query": "concert"})).structured[
            "total_found"
        ] == 0
