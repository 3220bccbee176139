"""Decorators of entries: each means what its field means, and one without meaning is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.interchange.lorebooks import (
    LAST_ORDER,
    KeyCondition,
    LoreEntry,
    decorators_in,
    placement_of,
    read_book,
)
from memory_server.lore.memory import RecursionRules


def entry_with(content: str, **fields: Any) -> LoreEntry:
    row = {"uid": 7, "key": ["sword"], "comment": "Sword", "content": content} | fields
    (entry,) = read_book(json.dumps({"entries": {"7": row}}).encode()).entries
    return entry


SAYS: list[tuple[str, dict[str, Any]]] = [
    ("@@activate", {"constant": True}),
    ("@@constant", {"constant": True}),
    ("@@dont_activate", {"enabled": False, "is_forbidden": True}),
    ("@@dont_activate\n@@activate", {"enabled": True, "constant": True, "is_forbidden": False}),
    ("@@exclude_keys toy, wooden", {"secondary": ("toy", "wooden"), "logic": "NOT_ANY"}),
    ("@@additional_keys oath,vow", {"secondary": ("oath", "vow"), "logic": "AND_ANY"}),
    ("@@exclude_keys_all toy,kite", {"secondary": ("toy", "kite"), "logic": "NOT_ALL"}),
    ("@@activate_only_after 6", {"delay": 6}),
    ("@@activate_only_every 3", {"every": 3}),
    ("@@keep_activate_after_match", {"stays": True}),
    ("@@dont_activate_after_match", {"once": True}),
    ("@@scan_depth 1", {"depth": 1}),
    ("@@scan_depth 1\n@@scan_depth 9", {"depth": 1}),
    ("@@probability 35", {"probability": 35.0}),
    ("@@priority 7", {"order": 7.0}),
    ("@@ignore_on_max_context", {"order": LAST_ORDER}),
    ("@@match_full_word", {"whole_words": True}),
    ("@@match_partial_word", {"whole_words": False}),
    ("@@unrecursive", {"recursion": RecursionRules(is_prevented=True)}),
    ("@@no_recursive_search", {"recursion": RecursionRules(is_excluded=True)}),
    ("@@is_greeting 1", {"unknown_decorators": ("@@is_greeting 1",)}),
    ("@@is_user_icon hat", {"unknown_decorators": ("@@is_user_icon hat",)}),
    ("@@instruct_depth 4", {"unknown_decorators": ("@@instruct_depth 4",)}),
    (
        "@@disable_ui_prompt system_prompt",
        {"unknown_decorators": ("@@disable_ui_prompt system_prompt",)},
    ),
    (
        "@@activate_only_after soon",
        {"delay": 0, "unknown_decorators": ("@@activate_only_after soon",)},
    ),
    ("@@activate_only_every 0", {"every": 0, "unknown_decorators": ("@@activate_only_every 0",)}),
    ("@@exclude_keys", {"secondary": (), "unknown_decorators": ("@@exclude_keys",)}),
]


@pytest.mark.parametrize(("lines", "fields"), SAYS)
def test_a_decorator_means_what_its_field_means(lines: str, fields: dict[str, Any]) -> None:
    entry = entry_with(f"{lines}\nA sword.")
    assert {name: getattr(entry, name) for name in fields} == fields
    assert entry.content == "A sword."
    assert entry.fields["content"] == f"{lines}\nA sword."


PLACED: list[tuple[str, dict[str, int]]] = [
    ("@@depth 3", {"position": 4, "depth": 3}),
    ("@@depth 3\n@@role user", {"position": 4, "depth": 3, "role": 1}),
    ("@@position after_desc", {"position": 1}),
    ("@@position scenario", {}),
    ("@@end", {"position": 4, "depth": 0}),
]


@pytest.mark.parametrize(("lines", "placement"), PLACED)
def test_where_a_text_stands_is_kept_as_data(lines: str, placement: dict[str, int]) -> None:
    entry = entry_with(f"{lines}\nA sword.")
    assert placement_of(entry) == placement
    assert entry.unknown_decorators == ()


FALLBACKS: list[tuple[str, int | None, tuple[str, ...]]] = [
    ("@@other 1\n@@@scan_depth 5", 5, ()),
    ("@@other 1\n@@@another 2\n@@@scan_depth 5", 5, ()),
    ("@@scan_depth 2\n@@@scan_depth 5", 2, ()),
    ("@@other 1\n@@@another 2", None, ("@@other 1",)),
    ("@@@scan_depth 5", None, ()),
    ("@@scan_depth x\n@@@scan_depth 5", 5, ()),
]


@pytest.mark.parametrize(("lines", "depth", "unknown"), FALLBACKS)
def test_a_fallback_holds_where_the_decorator_before_it_does_not(
    lines: str, depth: int | None, unknown: tuple[str, ...]
) -> None:
    entry = entry_with(f"{lines}\nA sword.")
    assert (entry.depth, entry.unknown_decorators) == (depth, unknown)


def test_all_conditions_on_keys_hold_beside_secondary_keys() -> None:
    content = "@@additional_keys oath\n@@exclude_keys toy\n@@additional_keys vow\nA sword."
    entry = entry_with(content, keysecondary=["king"], selective=True, selectiveLogic=3)
    assert (entry.secondary, entry.logic) == (("king",), "AND_ALL")
    assert entry.conditions == (
        KeyCondition(("toy",), "NOT_ANY"),
        KeyCondition(("oath",), "AND_ANY"),
        KeyCondition(("vow",), "AND_ANY"),
    )


def test_blank_lines_between_decorators_and_text_are_no_text() -> None:
    assert (
        entry_with("@@scan_depth 2\n\n@@activate\n\nA sword.\n\n@@depth 1").content
        == "A sword.\n\n@@depth 1"
    )


@given(
    st.lists(st.sampled_from([lines for lines, _fields in SAYS]), max_size=6),
    st.text().filter(str.strip),
)
def test_no_line_of_a_decorator_stays_and_no_other_line_goes(lines: list[str], text: str) -> None:
    text = "T" + text
    _decorators, content = decorators_in("\n".join([*lines, text]))
    assert content == text


@given(st.text(alphabet="@ab_1,\n \t-", max_size=60))
def test_any_content_is_read(content: str) -> None:
    _decorators, text = decorators_in(content)
    assert content.endswith(text)
    assert not text.startswith("@@") or not content.lstrip().startswith("@@")
