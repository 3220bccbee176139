"""Memories of books in a prompt: whole and by order, within a budget; more room never gives less."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random

import pytest
from sample_memories import NOW

from memory_server.conversations.recall.passages import first_sentences
from memory_server.lore.memory import FiringRules, LongTermMemory
from memory_server.lore.rounds import LoreText, PromptFit, Room
from memory_server.lore.rounds import fitting as fitting_with
from memory_server.lore.shelf import Shelved
from memory_server.memories.turns import lore_text


def fitting(texts: Sequence[LoreText], room: Room, shown_keys: Collection[str] = ()) -> PromptFit:
    return fitting_with(texts, room, first_sentences, shown_keys)


def text(name: str, chars: int | str, *, order: float = 100.0, ignores: bool = False) -> LoreText:
    """A text that takes `chars` characters with its name and the end of its line; or with this body."""
    body = chars if isinstance(chars, str) else name[0] * (chars - len(name) - 4)
    rules = FiringRules(order=order, ignores_budget=ignores)
    memory = LongTermMemory(name, body, "true", NOW, rules=rules)
    return lore_text(Shelved("chat", memory), body, is_chinese=False)


def names(fitted: PromptFit) -> list[str]:
    return [item.entry.memory.name for item in fitted.texts]


def left_out(fitted: PromptFit) -> dict[str, str]:
    return {item.entry.memory.name: item.reason for item in fitted.left_out}


@pytest.mark.parametrize(
    ("max_chars", "long_term", "short_term"),
    [
        (200, 100, 1_200),
        (1_200, 600, 1_200),
        (2_400, 1_200, 1_200),
        (4_800, 3_600, 1_200),
        (7_200, 5_400, 1_800),
        (20_000, 15_000, 5_000),
        (0, 0, 1_200),
    ],
)
def test_short_term_memories_keep_their_part(
    max_chars: int, long_term: int, short_term: int
) -> None:
    room = Room.of(max_chars)
    assert (room.total, room.long_term, room.short_term) == (max_chars, long_term, short_term)
    assert room.long_term + room.ignoring_budget == max_chars


def test_what_short_term_memories_cannot_use_is_lent() -> None:
    room = Room.of(7_200)
    assert room.with_lent_reserve(0).long_term == 7_200
    assert room.with_lent_reserve(500).long_term == 6_700
    assert room.with_lent_reserve(5_000) == room
    hooks = Room(3_300, 2_500, 0, 800)
    assert hooks.with_lent_reserve(0) == hooks


def test_a_text_is_one_line_behind_its_name() -> None:
    memory = Shelved("chat", LongTermMemory("a\nb", "x", "true", NOW))
    assert lore_text(memory, "one\n\ntwo", is_chinese=False).line == "[a b] one two"
    assert lore_text(memory, "一\n二", is_chinese=True).line == "【a b】一 二"


def test_the_highest_order_stands_last_and_equal_ones_the_other_way_round() -> None:
    texts = [
        text("high", 20, order=9),
        text("b", 20, order=5),
        text("c", 20, order=5),
        text("low", 20, order=1),
    ]
    assert names(fitting(texts, Room.of(7_200))) == ["low", "c", "b", "high"]


def test_the_first_one_that_does_not_fit_ends_it() -> None:
    texts = [text("a", 60), text("b", 60), text("c", 10)]
    fitted = fitting(texts, Room(200, 100, 100, 100))
    assert names(fitted) == ["a"]
    assert left_out(fitted) == {"b": "room", "c": "room"}


def test_what_fits_to_the_character_comes_whole() -> None:
    texts = [text("a", 60), text("b", 40)]
    assert names(fitting(texts, Room(200, 100, 0, 100))) == ["b", "a"]
    assert names(fitting(texts, Room(200, 99, 0, 100))) == ["a"]


def test_what_ignores_the_budget_comes_after_the_end_too() -> None:
    texts = [
        text("a", 60),
        text("b", 60),
        text("kept", 30, ignores=True),
        text("too much", 90, ignores=True),
    ]
    fitted = fitting(texts, Room(200, 100, 100, 100))
    assert names(fitted) == ["kept", "a"]
    assert left_out(fitted) == {"b": "room", "too much": "room"}


def test_only_a_first_text_that_exceeds_the_room_is_cut_and_says_so() -> None:
    sentences = " ".join(f"Sentence number {number} is here." for number in range(40))
    fitted = fitting([text("a", sentences), text("b", 30)], Room(400, 300, 0, 100))
    (cut,) = fitted.texts
    assert cut.is_cut
    assert cut.line.startswith("[a] Sentence number 0 is here.")
    beginning, _, note = cut.body.partition(" (cut here: ")
    assert beginning.endswith("is here."), "it ends with a sentence"
    assert note == f"{len(sentences) - len(beginning)} more characters)"
    assert fitted.chars <= 300
    assert left_out(fitted) == {"b": "room"}
    chinese = lore_text(
        Shelved("chat", LongTermMemory("甲", "x", "true", NOW)),
        "这是一句话。" * 100,
        is_chinese=True,
    )
    (cut,) = fitting([chinese], Room(400, 300, 0, 100)).texts
    assert cut.body.endswith("个字符没有放下）")
    assert cut.chars <= 300


def test_where_not_even_a_sentence_fits_nothing_is_cut() -> None:
    fitted = fitting([text("a", 500)], Room(60, 60, 0, 60))
    assert (names(fitted), left_out(fitted)) == ([], {"a": "room"})


def test_one_text_stands_once() -> None:
    texts = [text("a", "the same"), text("b", "the same"), text("c", "another")]
    fitted = fitting(texts, Room.of(7_200))
    assert names(fitted) == ["c", "a"]
    assert left_out(fitted) == {"b": "same_text"}


def test_the_same_text_is_named_so_only_where_it_stands() -> None:
    texts = [text("first", 90), text("long", "l" * 60), text("again", "l" * 60, ignores=True)]
    fitted = fitting(texts, Room(200, 100, 100, 100))
    assert names(fitted) == ["again", "first"]
    assert left_out(fitted) == {"long": "same_text"}


def test_what_the_reader_has_takes_no_room_and_is_not_named() -> None:
    texts = [text("a", 90), text("b", 60)]
    fitted = fitting(texts, Room(100, 100, 0, 0), {texts[0].key})
    assert (names(fitted), left_out(fitted)) == (["b"], {})


def random_book(rng: Random) -> list[LoreText]:
    bodies = [letter * rng.choice((3, 30, 200, 900, 2_500)) for letter in "abcdefgh"]
    size = rng.randrange(1, 12)
    orders = sorted((rng.choice((1, 50, 100, 100, 250)) for _ in range(size)), reverse=True)
    return [
        text(f"n{number}", rng.choice(bodies), order=orders[number], ignores=rng.random() < 0.15)
        for number in range(size)
    ]


@pytest.mark.parametrize("count", [300, pytest.param(2_000, marks=pytest.mark.full)])
def test_in_no_book_more_room_gives_less(count: int) -> None:
    rng = Random(3)
    cut = 0
    for _ in range(count):
        book = random_book(rng)
        before: set[str] = set()
        short_term_chars = rng.choice((0, 100, 700, 5_000))
        lends = not any(item.entry.memory.rules.ignores_budget for item in book)
        for max_chars in sorted(rng.randrange(0, 9_000) for _ in range(6)):
            room = Room.of(max_chars)
            if lends:
                room = room.with_lent_reserve(short_term_chars)
            fitted = fitting(book, room)
            whole = {item.body for item in fitted.texts if not item.is_cut}
            assert before <= whole, "each text that came whole with less room comes whole with more"
            before = whole
            assert fitted.chars <= room.total
            bodies = [item.body for item in fitted.texts]
            assert len(bodies) == len(set(bodies)), "no text stands twice"
            named = [*names(fitted), *left_out(fitted)]
            assert sorted(named) == sorted(item.entry.memory.name for item in book), (
                "nothing is left out unnamed"
            )
            orders = [item.entry.memory.rules.order for item in fitted.texts]
            assert orders == sorted(orders), "the highest order stands last"
            cut += sum(item.is_cut for item in fitted.texts)
    assert cut > count / 20


def test_a_prompt_lends_what_short_term_memories_do_not_need_and_other_room_does_not() -> None:
    room = Room.of(4_000)
    reserve = room.total - room.long_term
    assert room.with_lent_reserve(0).long_term == room.total
    assert room.with_lent_reserve(reserve - 1).long_term == room.long_term + 1
    assert room.with_lent_reserve(reserve) == room
    assert Room(4_000, 3_000, 0, 500).with_lent_reserve(0).long_term == 3_000
