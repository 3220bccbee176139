"""Lorebooks of other programs: each becomes entries of world info, and what its form has more is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_server.interchange.forms import format_of
from memory_server.interchange.incoming import NotThisFormat
from memory_server.interchange.lorebooks import Book, KeyCondition, read_book

NOVELAI = {
    "lorebookVersion": 6,
    "entries": [
        {
            "text": "Nessel is a harbour.",
            "displayName": "Nessel",
            "id": "a-1",
            "keys": ["nessel", "harbour & fog", "/pier(s)?/i"],
            "enabled": True,
            "forceActivation": False,
            "contextConfig": {"budgetPriority": 600},
            "category": "places",
            "advancedConditions": [{"type": "lore"}],
        },
        {
            "text": "It rains.",
            "displayName": "Rain",
            "id": "a-2",
            "keys": [],
            "enabled": True,
            "forceActivation": True,
        },
        {
            "text": "Off.",
            "displayName": "Off",
            "id": "a-3",
            "keys": ["off"],
            "enabled": True,
            "category": "closed",
        },
    ],
    "categories": [{"id": "places", "enabled": True}, {"id": "closed", "enabled": False}],
}
AGNAI = {
    "kind": "memory",
    "name": "Harbour",
    "entries": [
        {
            "name": "Nessel",
            "entry": "A harbour.",
            "keywords": ["nessel"],
            "weight": 9,
            "priority": 2,
            "enabled": True,
        },
        {
            "name": "Pier",
            "entry": "It is long.",
            "keywords": ["pier"],
            "weight": 1,
            "priority": 0,
            "enabled": False,
        },
    ],
}
RISU_ROWS: list[dict[str, Any]] = [
    {"key": "", "comment": "Places", "mode": "folder", "content": ""},
    {
        "key": "nessel, haven",
        "secondkey": "fog, mist",
        "selective": True,
        "comment": "Nessel",
        "content": "@@exclude_keys toy\nA harbour.",
        "insertorder": 50,
        "activationPercent": 40,
        "id": "r-1",
        "extentions": {"risu_case_sensitive": True},
    },
    {
        "key": "",
        "comment": "Rain",
        "content": "It rains.",
        "alwaysActive": True,
        "mode": "constant",
    },
    {"key": "copy", "comment": "Copy", "content": "", "mode": "child", "id": "r-1"},
]
RISU = {"type": "risu", "ver": 1, "data": RISU_ROWS}
MODULE = {
    "type": "risuModule",
    "module": {"name": "Harbour", "lorebook": RISU_ROWS, "regex": [{"in": "a"}], "assets": []},
}
KOBOLD = {
    "gamestarted": True,
    "prompt": "You stand at a pier.",
    "actions": ["Go on."],
    "worldinfo": [
        {
            "key": "nessel, haven",
            "keysecondary": "",
            "content": "A harbour.",
            "comment": "Nessel",
            "selective": False,
        },
        {
            "key": "pier",
            "keysecondary": "fog",
            "keyanti": "sun",
            "content": "It is long.",
            "selective": True,
        },
        {"key": "", "content": ""},
        {"key": "", "content": "It rains.", "constant": True, "comment": "Rain"},
    ],
}
STORY_CARDS = [
    {"keys": "nessel, haven", "value": "A harbour.", "type": "location", "title": "Nessel"},
    {"keys": "pier ", "value": "It is long.", "type": "location", "title": "Pier"},
]
OLD_WORLD_INFO = [{"keys": "nessel,haven", "entry": "A harbour.", "id": "12"}]
ASTRBOT = """
world_state:
  weather: "rain"
trigger:
  - name: "harbour"
    type: "keywords"
    match: "nessel,pier&fog~sun&dry"
    probability: 0.5
    priority: 10
    block: true
    content: |
      {buildin::sender_name} knows the harbour.
    actions:
      - "{var::set(world.weather, fog)}"
  - name: "ships"
    type: "regex"
    match: "ships?/boats?"
    content: "Ships lie there at {buildin::time}."
  - name: "storm"
    type: "listener"
    conditional: "{var::get(world.weather)} == storm"
    content: "A storm."
  - name: "always"
    type: "listener"
    content: "It rains."
authors_note:
  - content: "Speak softly."
    probability: 1.0
"""


def book_of(value: Any) -> Book:
    text = value
    if not isinstance(text, str):
        text = json.dumps(value)
    data = text.encode()
    assert format_of(data) == "worldinfo"
    return read_book(data)


def titles(book: Book) -> list[str]:
    return [entry.title for entry in book.entries]


def test_novelai() -> None:
    book = book_of(NOVELAI)
    nessel, rain, off = book.entries
    assert (book.program, titles(book)) == ("NovelAI", ["Nessel", "Rain", "Off"])
    assert (nessel.uid, nessel.order, nessel.constant, nessel.enabled) == ("a-1", 600, False, True)
    assert nessel.keys[0] == "nessel"
    assert nessel.keys[1].startswith("/")
    assert nessel.keys[1].endswith("/i")
    assert nessel.keys[2] == "/pier(s)?/i"
    assert (rain.constant, off.enabled) == (True, False)
    assert book.lost == ("entries with further conditions (advancedConditions): 1",)


@pytest.mark.parametrize(
    ("holder", "name"),
    [
        ({"scenarioVersion": 1, "title": "Fog", "prompt": "x", "lorebook": NOVELAI}, "Fog"),
        (
            {
                "storyContainerVersion": 1,
                "metadata": {"title": "Fog"},
                "content": {"lorebook": NOVELAI},
            },
            "Fog",
        ),
    ],
)
def test_novelai_in_a_story_or_a_scenario(holder: dict[str, Any], name: str) -> None:
    book = book_of(holder)
    assert (book.name, len(book.entries)) == (name, 3)
    assert any("text of the story" in line for line in book.lost)


def test_agnai() -> None:
    book = book_of(AGNAI)
    nessel, pier = book.entries
    assert (book.program, book.name, nessel.keys, nessel.order) == (
        "Agnai",
        "Harbour",
        ("nessel",),
        9,
    )
    assert (nessel.enabled, pier.enabled) == (True, False)
    assert book.lost == ("which entries come first where there is no room for all (priority)",)


@pytest.mark.parametrize("value", [RISU, MODULE, MODULE["module"]])
def test_risuai(value: Any) -> None:
    book = book_of(value)
    nessel, rain = book.entries
    assert (book.program, titles(book)) == ("RisuAI", ["Nessel", "Rain"])
    assert (nessel.uid, nessel.keys, nessel.secondary, nessel.logic) == (
        "r-1",
        ("nessel", "haven"),
        ("fog", "mist"),
        "AND_ANY",
    )
    assert nessel.conditions == (KeyCondition(("toy",), "NOT_ANY"),)
    assert (nessel.content, nessel.order, nessel.probability, nessel.case_sensitive) == (
        "A harbour.",
        50,
        40,
        True,
    )
    assert rain.constant
    assert [uid for uid, _fault in book.broken] == ["r-1#3"]
    assert ("scripts that change texts (regex)" in book.lost) == (value is not RISU)


def test_koboldai() -> None:
    book = book_of(KOBOLD)
    nessel, pier, rain = book.entries
    assert book.program == "KoboldAI"
    assert (nessel.keys, nessel.secondary) == (("nessel", "haven"), ())
    assert (pier.secondary, pier.logic, pier.conditions) == (
        ("fog",),
        "AND_ANY",
        (KeyCondition(("sun",), "NOT_ANY"),),
    )
    assert (rain.title, rain.constant) == ("Rain", True)
    assert book.lost == ("the text of the story: it is not a chat of messages",)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (STORY_CARDS, ""),
        ({"title": "Fog", "prompt": "x", "storyCards": STORY_CARDS}, "Fog"),
        ({"title": "Fog", "worldInfo": STORY_CARDS}, "Fog"),
    ],
)
def test_ai_dungeon(value: Any, name: str) -> None:
    book = book_of(value)
    nessel, pier = book.entries
    assert (book.program, book.name, titles(book)) == ("AI Dungeon", name, ["Nessel", "Pier"])
    assert (nessel.keys, nessel.content) == (("nessel", "haven"), "A harbour.")
    assert (nessel.whole_words, pier.whole_words) == (False, True)


def test_ai_dungeon_as_it_was_before() -> None:
    (entry,) = book_of(OLD_WORLD_INFO).entries
    assert (entry.uid, entry.keys, entry.content) == ("12", ("nessel", "haven"), "A harbour.")


def test_astrbot() -> None:
    book = book_of(ASTRBOT)
    harbour, ships, always, note = book.entries
    assert (book.program, titles(book)[:3]) == ("AstrBot", ["harbour", "ships", "always"])
    assert (harbour.keys[0], harbour.probability, harbour.order, harbour.depth) == (
        "nessel",
        50,
        10,
        1,
    )
    assert "pier" in harbour.keys[1]
    assert harbour.content == "{{user}} knows the harbour.\n"
    assert ships.keys == ("/ships?\\/boats?/",)
    assert (always.constant, note.constant, note.content) == (True, True, "Speak softly.")
    assert book.broken == (("storm", "its condition needs variables of AstrBot"),)
    assert book.lost == (
        "triggers that carry out actions: 1",
        "triggers that keep later ones from coming (block): 1",
        "entries with placeholders of AstrBot, which stay as they are: 1",
    )


@pytest.mark.parametrize(
    "text",
    [
        "trigger:\n" + "  " * 30 + "- x",
        "trigger:\n  - " + "[" * 50,
        "trigger: &a\n  - type: keywords\n    match: *a",
        "trigger:\n  - 'unclosed",
        "trigger:\n  - name: x",
    ],
)
def test_yaml_that_is_no_such_lorebook_is_not_read(text: str) -> None:
    with pytest.raises(NotThisFormat):
        format_of(text.encode())


def test_a_row_of_chub_has_the_names_of_both_forms() -> None:
    row = {
        "id": 4,
        "keys": ["nessel"],
        "key": ["nessel"],
        "secondary_keys": [],
        "content": "A harbour.",
        "enabled": True,
        "insertion_order": 12,
        "extensions": {"selectiveLogic": 0, "probability": 70, "useProbability": True, "depth": 4},
        "position": "",
    }
    value = {
        "name": "Harbour",
        "scan_depth": 3,
        "extensions": {"chub": {"id": 1}},
        "entries": {"4": row},
    }
    book = book_of(value)
    (entry,) = book.entries
    assert (book.name, book.depth, entry.uid) == ("Harbour", 3, "4")
    assert (entry.keys, entry.order, entry.probability, entry.enabled) == (
        ("nessel",),
        12,
        70,
        True,
    )


def test_a_row_that_says_only_that_it_is_disabled_is_disabled() -> None:
    value = {"entries": [{"keys": ["a"], "content": "b", "disable": True}]}
    assert [entry.enabled for entry in book_of(value).entries] == [False]


REFUSED: list[tuple[bytes, str]] = [
    (
        json.dumps({"power_user": {}, "oai_settings": {}}).encode(),
        "has the settings of SillyTavern",
    ),
    (json.dumps({"prompts": [], "prompt_order": []}).encode(), "is a preset of SillyTavern"),
    (
        json.dumps({"members": [], "allow_self_responses": False}).encode(),
        "is a group of SillyTavern",
    ),
    (
        json.dumps({"findRegex": "/a/", "replaceString": ""}).encode(),
        "is a regex script of SillyTavern",
    ),
    (json.dumps({"qrList": [], "version": 2}).encode(), "is a set of quick replies"),
    (json.dumps({"data": [], "data_visible": []}).encode(), "is a chat of text-generation-webui"),
    (json.dumps({"moduleVersion": 1, "data": ""}).encode(), "is a module of NovelAI"),
    (json.dumps({"presetVersion": 3, "parameters": {}}).encode(), "is a preset of NovelAI"),
    (b"o\x00\x10\x00\x00\x00packed", "is a module of RisuAI in its packed form"),
    (b"\xff\xd8\xff\xe0", "is a picture without a character card"),
]


@pytest.mark.parametrize(("data", "sentence"), REFUSED)
def test_a_form_that_is_known_and_not_read_is_named_as_what_it_is(
    data: bytes, sentence: str
) -> None:
    with pytest.raises(NotThisFormat, match=sentence):
        format_of(data)
