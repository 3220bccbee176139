"""The rule of lorebooks against a table of cases; each case is one rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from bench.quality.lore_as_there import (
    Effects,
    Line,
    Lore,
    Settings,
    Span,
    by_probability,
    by_weight,
    fires_there,
)
from bench.quality.lore_entries import Entry, Logic, entries_of, split_decorators
from bench.quality.lore_keys import Keys, expression_of, matches_in_python

CHAT = (
    Line("Mika", "We met at the old mill."),
    Line("Robin", "The Mill? I saw a lantern, and a key."),
)
PLAIN = Settings(names=False, recursive=False)
NO_EFFECTS = Effects()
NEVER = ("@@dont_activate",)


def entry(uid: str, *keys: str, **more: Any) -> Entry:
    """An entry whose content is its uid in brackets."""
    return Entry(uid, **{"content": f"[{uid}]", "keys": keys} | more)


def scanned(
    entries: Sequence[Entry],
    chat: Sequence[Line] = CHAT,
    settings: Settings = PLAIN,
    effects: Effects = NO_EFFECTS,
    *,
    winner: str = "",
    lucky: bool = True,
    keys: Keys | None = None,
    **more: Any,
) -> Lore:
    """What fires, where the entry `winner` is drawn in every group and all or no chances are good."""

    def draw(_name: str, candidates: Sequence[Entry]) -> Entry | None:
        return next((candidate for candidate in candidates if candidate.uid == winner), None)

    return fires_there(
        entries,
        chat,
        keys or Keys(),
        settings,
        effects,
        draw=draw,
        chance=lambda _entry: lucky,
        **more,
    )


def fired(entries: Sequence[Entry], *rest: Any, **more: Any) -> list[str]:
    return [active.uid for active in scanned(entries, *rest, **more).entries]


@dataclass(frozen=True)
class KeyCase:
    """A key, and whether it is in CHAT."""

    rule: str
    keys: tuple[str, ...]
    fires: bool
    fields: tuple[tuple[str, Any], ...] = ()
    settings: Settings = PLAIN


KEY_CASES = [
    KeyCase("a word in the newest message", ("lantern",), True),
    KeyCase("capitals do not count", ("LANTERN",), True),
    KeyCase(
        "capitals count where the entry says so",
        ("lantern", "Lantern"),
        True,
        (("case_sensitive", True),),
    ),
    KeyCase(
        "another capital is another word then", ("LANTERN",), False, (("case_sensitive", True),)
    ),
    KeyCase("a part of a word is no word", ("lant",), False),
    KeyCase(
        "a part of a word is enough without whole words", ("lant",), True, (("whole_words", False),)
    ),
    KeyCase("several words are a part of the text", ("e old mi",), True),
    KeyCase("a sign ends a word", ("mill",), True),
    KeyCase("one of the keys is enough", ("nothing", "key"), True),
    KeyCase("no key is in the text", ("nothing", "castle"), False),
    KeyCase("an entry without keys never fires", (), False),
    KeyCase("a blank key never fires", ("  ",), False),
    KeyCase("blanks around a key do not count", (" lantern ",), True),
    KeyCase("an expression", ("/lant(ern|horn)/",), True),
    KeyCase("an expression has its own capitals", ("/LANTERN/",), False),
    KeyCase("an expression with a flag", ("/LANTERN/i",), True),
    KeyCase("an expression sees where a message begins", (r"/\x01The Mill/",), True),
    KeyCase("an expression sees the line between messages", (r"/key\.\n\x01We met/",), True),
    KeyCase("a slash within makes a text of an expression", ("/a/b/",), False),
    KeyCase("the newest message alone", ("old mill",), False, (("scan_depth", 1),)),
    KeyCase("a depth of nothing", ("lantern",), False, (("scan_depth", 0),)),
    KeyCase("the depth of the settings", ("old mill",), False, (), replace(PLAIN, depth=1)),
    KeyCase(
        "the depth of an entry is before that of the settings",
        ("old mill",),
        True,
        (("scan_depth", 2),),
    ),
    KeyCase("names are no text without the setting", ("Robin",), False),
    KeyCase("names are text with the setting", ("Robin",), True, (), replace(PLAIN, names=True)),
    KeyCase(
        "a macro in a key",
        (
            "{{user}}'s lantern",
            "{{USER}}",
        ),
        True,
        (),
        replace(PLAIN, names=True),
    ),
    KeyCase("a macro in an expression", ("/{{user}}: We/",), True, (), replace(PLAIN, names=True)),
    KeyCase("a disabled entry", ("lantern",), False, (("enabled", False),)),
    KeyCase("a constant entry needs no key", (), True, (("constant", True),)),
    KeyCase("@@activate needs no key", (), True, (("decorators", ("@@activate",)),)),
    KeyCase("@@dont_activate is before a key", ("lantern",), False, (("decorators", NEVER),)),
    KeyCase(
        "@@dont_activate is before a constant",
        (),
        False,
        (("decorators", ("@@dont_activate",)), ("constant", True)),
    ),
    KeyCase("an entry without content has no text", ("lantern",), False, (("content", ""),)),
    KeyCase("a filter for another character", ("lantern",), False, (("filter_names", ("Ann",)),)),
    KeyCase(
        "a filter for this character", ("lantern",), True, (("filter_names", ("Ann", "Mika")),)
    ),
    KeyCase(
        "a filter against this character",
        ("lantern",),
        False,
        (("filter_names", ("Mika",)), ("filter_excludes", True)),
    ),
    KeyCase(
        "a filter against another one",
        ("lantern",),
        True,
        (("filter_names", ("Ann",)), ("filter_excludes", True)),
    ),
    KeyCase("a filter for a tag", ("lantern",), True, (("filter_tags", ("elf",)),)),
    KeyCase("a filter for another tag", ("lantern",), False, (("filter_tags", ("orc",)),)),
    KeyCase(
        "a filter against a tag",
        ("lantern",),
        False,
        (("filter_tags", ("elf",)), ("filter_excludes", True)),
    ),
]


@pytest.mark.parametrize("case", KEY_CASES, ids=lambda case: case.rule)
def test_an_entry_fires_by_its_keys(case: KeyCase) -> None:
    lore = [entry("e", *case.keys, **dict(case.fields))]
    keys = Keys(meanings={"{{user}}": "Mika"})
    assert (
        bool(fired(lore, CHAT, case.settings, keys=keys, character="Mika", tags=["elf"]))
        is case.fires
    )


@pytest.mark.parametrize(
    ("logic", "none", "some", "whole"),
    [
        (Logic.AND_ANY, False, True, True),
        (Logic.AND_ALL, False, False, True),
        (Logic.NOT_ANY, True, False, False),
        (Logic.NOT_ALL, True, True, False),
    ],
)
def test_secondary_keys_are_asked_by_the_logic(
    logic: Logic, none: bool, some: bool, whole: bool
) -> None:
    for secondary, expected in (
        (("a1", "b1"), none),
        (("key", "b1"), some),
        (("key", "mill"), whole),
    ):
        lore = [entry("e", "lantern", secondary=secondary, logic=logic)]
        assert bool(fired(lore)) is expected
        assert fired([replace(lore[0], selective=False)]), "without `selective` they do not count"
        assert not fired([replace(lore[0], keys=("nothing",))])


def test_texts_stand_by_order_with_the_highest_last_and_the_first_of_equals_last() -> None:
    lore = [
        entry(uid, constant=True, order=order)
        for uid, order in (("a", 50), ("b", 200), ("c", 50), ("d", 7))
    ]
    assert fired(lore) == ["d", "c", "a", "b"]


def test_entries_of_a_lower_rank_are_before_others_in_room_and_not_in_the_text() -> None:
    lore = [entry("world", constant=True, order=9, rank=1), entry("chat", constant=True, order=1)]
    assert fired(lore) == ["chat", "world"]
    assert fired(lore, CHAT, replace(PLAIN, room=8)) == ["chat"]


class TestRoom:
    LORE = (
        entry("high", constant=True, order=9, content="x" * 9),
        entry("long", constant=True, order=8, content="x" * 50),
        entry("low", constant=True, order=7, content="x"),
    )

    def test_the_first_that_does_not_fit_ends_it(self) -> None:
        lore = scanned(self.LORE, CHAT, replace(PLAIN, room=40))
        assert [active.uid for active in lore.entries] == ["high"]
        assert lore.left_out is not None
        assert lore.left_out.uid == "long"

    def test_more_room_loses_nothing(self) -> None:
        before: set[str] = set()
        for room in range(1, 80):
            now = set(fired(self.LORE, CHAT, replace(PLAIN, room=room)))
            assert before <= now
            before = now
        assert len(before) == 3

    def test_an_entry_that_ignores_the_budget_comes_after_the_end(self) -> None:
        lore = [*self.LORE, entry("free", constant=True, order=1, ignore_budget=True)]
        assert fired(lore, CHAT, replace(PLAIN, room=40)) == ["free", "high"]

    def test_what_is_sticky_is_first(self) -> None:
        lore = [*self.LORE, entry("held", sticky=9, order=1)]
        effects = Effects(sticky={".held": Span(1, 10)})
        assert fired(lore, CHAT, replace(PLAIN, room=10), effects) == ["held"]

    def test_without_room_nothing_fires_again(self) -> None:
        lore = [*self.LORE[:2], entry("again", "xx", order=99, whole_words=False)]
        assert "again" not in fired(lore, CHAT, Settings(room=40))


class TestChance:
    LORE = (entry("maybe", "lantern", probability=50), entry("sure", "lantern"))

    def test_it_is_asked_for_entries_below_a_hundred_alone(self) -> None:
        assert fired(self.LORE, lucky=True) == ["sure", "maybe"]
        lore = scanned(self.LORE, lucky=False)
        assert [active.uid for active in lore.entries] == ["sure"]
        assert [active.uid for active in lore.by_chance] == ["maybe"]

    def test_it_is_not_asked_of_what_is_sticky(self) -> None:
        lore = [entry("maybe", sticky=5, probability=1)]
        assert fired(lore, effects=Effects(sticky={".maybe": Span(1, 5)}), lucky=False) == ["maybe"]

    def test_who_was_unlucky_is_not_asked_again(self) -> None:
        lore = [*self.LORE, entry("speaks", "lantern", content="a lantern")]
        outcome = scanned(lore, CHAT, Settings(), lucky=False)
        assert [active.uid for active in outcome.by_chance] == ["maybe"]


class TestGroups:
    A = entry("a", "mill", group="weather")
    B = entry("b", "mill", "lantern", group="weather", order=1)
    OTHER = entry("other", "key", group="place")

    def test_one_of_a_group_fires(self) -> None:
        outcome = scanned([self.A, self.B, self.OTHER], winner="b")
        assert {active.uid for active in outcome.entries} == {"b", "other"}
        assert {name: len(members) for name, members in outcome.drawn.items()} == {"weather": 2}

    def test_the_highest_that_overrides_wins(self) -> None:
        low = replace(self.B, uid="c", group_override=True, order=1)
        high = replace(self.B, uid="d", group_override=True, order=2)
        assert fired([self.A, low, high], winner="a") == ["d"]

    def test_more_keys_win_where_they_are_scored(self) -> None:
        assert fired([replace(self.A, group_scoring=True), self.B], winner="a") == ["b"]
        assert fired([self.A, self.B], CHAT, replace(PLAIN, group_scoring=True), winner="a") == [
            "b"
        ]
        assert fired([self.A, replace(self.B, group_scoring=True)], winner="a") == ["a"], (
            "only a scored one loses by it"
        )

    def test_secondary_keys_are_scored_by_their_logic(self) -> None:
        for logic, winner in ((Logic.AND_ANY, "c"), (Logic.AND_ALL, "a"), (Logic.NOT_ALL, "a")):
            scored = entry(
                "c",
                "mill",
                secondary=("key", "lantern", "zz"),
                logic=logic,
                group="weather",
                group_scoring=True,
            )
            lore = [scored, replace(self.A, keys=("mill", "lantern"), group_scoring=True)]
            assert fired(lore, winner="nobody") == [winner]

    def test_an_entry_of_several_groups_must_win_in_each(self) -> None:
        both = replace(self.A, group="weather, place")
        assert set(fired([both, self.B, self.OTHER], winner="b")) == {"b", "other"}
        assert set(fired([both, self.B, self.OTHER], winner="a")) == {"a"}

    def test_a_sticky_member_wins_without_a_draw(self) -> None:
        sticky_member = replace(self.A, sticky=4)
        assert fired(
            [sticky_member, self.B], effects=Effects(sticky={".a": Span(1, 4)}), winner="b"
        ) == ["a"]

    def test_a_group_that_fired_stays_decided_in_the_next_scan(self) -> None:
        speaks = replace(self.A, content="a castle")
        late = entry("late", "castle", group="weather")
        assert fired([speaks, late], CHAT, Settings()) == ["a"]

    def test_a_loser_does_not_speak(self) -> None:
        loser = replace(self.A, content="a castle")
        assert fired([loser, self.B, entry("late", "castle")], CHAT, Settings(), winner="b") == [
            "b"
        ]

    def test_the_draw_is_before_chance(self) -> None:
        assert fired([replace(self.A, probability=1), self.B], winner="a", lucky=False) == []

    def test_a_weighted_draw_gives_each_its_share(self) -> None:
        dice = Random(1)
        draw = by_weight(dice.random)
        members = [replace(self.A, group_weight=300), self.B]
        drawn = [draw("weather", members) for _ in range(2_000)]
        assert 1_400 < drawn.count(members[0]) < 1_600

    def test_a_chance_is_as_likely_as_its_probability(self) -> None:
        chance = by_probability(Random(2).random)
        assert 400 < sum(chance(replace(self.A, probability=25)) for _ in range(2_000)) < 600


class TestRecursion:
    FIRST = entry("first", "lantern", content="it stands in the castle")
    SECOND = entry("second", "castle", content="where the queen lives")
    THIRD = entry("third", "queen")

    def fired(self, *lore: Entry, **settings: Any) -> set[str]:
        return set(fired(lore, CHAT, Settings(**settings)))

    def test_texts_that_fired_are_searched_too(self) -> None:
        assert self.fired(self.FIRST, self.SECOND, self.THIRD) == {"first", "second", "third"}
        assert self.fired(self.FIRST, self.SECOND, self.THIRD, recursive=False) == {"first"}

    def test_it_ends_after_so_many_rounds(self) -> None:
        assert self.fired(self.FIRST, self.SECOND, self.THIRD, most_rounds=1) == {"first", "second"}

    def test_an_excluded_entry_is_not_found_by_others(self) -> None:
        assert self.fired(self.FIRST, replace(self.SECOND, exclude_recursion=True), self.THIRD) == {
            "first"
        }

    def test_an_entry_that_prevents_it_finds_no_others(self) -> None:
        assert self.fired(replace(self.FIRST, prevent_recursion=True), self.SECOND) == {"first"}

    def test_a_delayed_entry_is_not_found_in_messages_at_first(self) -> None:
        late = entry("late", "mill", delay_until_recursion=1)
        assert self.fired(late) == set()
        assert self.fired(late, self.FIRST) == {"late", "first"}

    def test_each_level_waits_for_the_one_before(self) -> None:
        levels = [entry(f"late{level}", "mill", delay_until_recursion=level) for level in (1, 2, 7)]
        assert self.fired(levels[0]) == set(), "the first level needs an entry that fired"
        assert self.fired(*levels) == {"late1", "late2", "late7"}, "and a later one does not"
        assert self.fired(*levels, self.FIRST) == {"late1", "late2", "late7", "first"}
        assert self.fired(*levels, self.FIRST, most_rounds=1) == {"late1", "first"}

    def test_a_depth_of_nothing_searches_no_texts_either(self) -> None:
        assert self.fired(self.FIRST, replace(self.SECOND, scan_depth=0)) == {"first"}

    def test_secondary_keys_are_sought_in_texts_too(self) -> None:
        assert self.fired(
            self.FIRST, replace(self.THIRD, keys=("castle",), secondary=("mill",))
        ) == {"first", "third"}


def course(lore: Sequence[Entry], counts: Sequence[int], spoken: Sequence[int]) -> list[int]:
    """The numbers of messages at which an entry fires whose key is said at the numbers `spoken`."""
    effects = Effects()
    active: list[int] = []
    for count in counts:
        text = "nothing"
        if count in spoken:
            text = "mill"
        chat = [Line("Ann", text)]
        outcome = scanned(lore, chat, PLAIN, effects, message_count=count)
        effects = outcome.effects
        if outcome.entries:
            active.append(count)
    return active


@pytest.mark.parametrize(
    ("rule", "fields", "spoken", "active"),
    [
        ("nothing lasts", {}, [3], [3]),
        ("sticky lasts so many messages", {"sticky": 3}, [3], [3, 4, 5]),
        ("sticky is not renewed while it lasts", {"sticky": 3}, [3, 4], [3, 4, 5]),
        ("sticky begins again after its end", {"sticky": 3}, [3, 6], [3, 4, 5, 6, 7, 8]),
        ("cooldown keeps it from firing", {"cooldown": 3}, [3, 4, 5, 6, 9], [3, 6, 9]),
        (
            "cooldown begins where sticky ends",
            {"sticky": 2, "cooldown": 2},
            [3, 4, 5, 6, 7],
            [3, 4, 7, 8],
        ),
        ("delay waits for so many messages", {"delay": 4}, [2, 3, 4, 5], [4, 5]),
        ("delay holds a constant too", {"delay": 8, "constant": True}, [], [8, 9]),
        ("cooldown holds a constant too", {"cooldown": 4, "constant": True}, [], [1, 5, 9]),
    ],
)
def test_effects_last_by_the_number_of_messages(
    rule: str, fields: dict[str, Any], spoken: list[int], active: list[int]
) -> None:
    assert course([entry("e", "mill", **fields)], range(1, 10), spoken) == active, rule


def test_an_effect_ends_where_the_chat_has_not_become_longer() -> None:
    assert course([entry("e", "mill", sticky=5)], [1, 2, 3, 3, 2], [3]) == [3, 3]
    effects = Effects(sticky={".e": Span(7, 12)})
    assert fired([entry("e", sticky=5)], CHAT, PLAIN, effects, message_count=7) == []
    assert fired([entry("e", sticky=5)], CHAT, PLAIN, effects, message_count=8) == ["e"]


@pytest.mark.parametrize(
    ("content", "decorators", "text"),
    [
        ("plain", [], "plain"),
        ("@@activate\nplain", ["@@activate"], "plain"),
        ("@@unknown\n@@@activate\nplain", ["@@activate"], "plain"),
        ("@@activate\n@@@dont_activate\nplain", ["@@activate"], "plain"),
        ("plain\n@@activate", [], "plain\n@@activate"),
        ("@@activate", ["@@activate"], "@@activate"),
    ],
)
def test_decorators_stand_above_the_content(content: str, decorators: list[str], text: str) -> None:
    assert split_decorators(content) == (decorators, text)


@pytest.mark.parametrize(
    ("key", "text", "is_match"),
    [
        ("/a.c/", "abc", True),
        ("/a.c/", "a\nc", False),
        ("/a.c/s", "a\nc", True),
        ("/c$/", "c\n", False),
        ("/c$/m", "c\nd", True),
        (r"/\u4f60|\x61/", "你", True),
        ("/(?<word>ab)c/", "abc", True),
        ("/(?<!x)b/", "xb", False),
        (r"/a\sb/", "a\u3000b", True),
        (r"/\bcat\b/i", "my Cat", True),
        (r"/\w/", "é", False),
        ("/[a&&b]/", "&", True),
        (r"/\//", "/", True),
        (r"/\p{L}/u", "a", None),
        ("/(/", "(", None),
        ("/[^]/", "a", None),
        ("/é/i", "É", None),
        ("/(?<=a+)b/", "ab", None),
    ],
)
def test_an_expression_means_the_same_in_python_or_is_not_run(
    key: str, text: str, is_match: bool | None
) -> None:
    expression = expression_of(key)
    assert expression is not None
    assert matches_in_python(*expression, text) is is_match


def test_keys_that_cannot_be_run_are_counted() -> None:
    keys = Keys()
    assert fired([entry("e", r"/\p{L}/u")], keys=keys) == []
    assert keys.skipped == {r"/\p{L}/u": 1}


def test_world_info_and_a_character_book_are_the_same_entries() -> None:
    world_info = {
        "entries": {
            "4": {
                "uid": 4,
                "key": ["mill"],
                "keysecondary": ["key"],
                "selective": True,
                "selectiveLogic": 3,
                "content": "@@activate\ntext",
                "comment": "The  mill",
                "order": 7,
                "disable": False,
                "probability": 30,
                "useProbability": True,
                "scanDepth": 3,
                "caseSensitive": True,
                "matchWholeWords": None,
                "group": "a, b",
                "sticky": 2,
                "delayUntilRecursion": True,
            }
        }
    }
    row = {
        "id": 4,
        "keys": ["mill"],
        "secondary_keys": ["key"],
        "selective": True,
        "content": "@@activate\ntext",
        "comment": "The  mill",
        "insertion_order": 7,
        "enabled": True,
        "use_regex": True,
        "extensions": {
            "selectiveLogic": 3,
            "probability": 30,
            "useProbability": True,
            "scan_depth": 3,
            "case_sensitive": True,
            "group": "a, b",
            "sticky": 2,
            "delay_until_recursion": True,
        },
    }
    expected = [
        Entry(
            uid="4",
            title="The mill",
            content="text",
            keys=("mill",),
            secondary=("key",),
            logic=Logic.AND_ALL,
            order=7,
            probability=30,
            scan_depth=3,
            case_sensitive=True,
            group="a, b",
            sticky=2,
            delay_until_recursion=1,
            decorators=("@@activate",),
        )
    ]
    assert entries_of(world_info) == expected
    assert expected[0].groups == ("a", "b")
    for document in (
        {"character_book": {"entries": [row]}},
        {"data": {"character_book": {"entries": [row]}}},
    ):
        assert entries_of(document) == expected
    assert entries_of({"spec": "chara_card_v2", "data": {"name": "Ann"}}) == []
