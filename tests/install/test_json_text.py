"""Editing somebody else's JSON: every byte that is not meant stays, and taking an edit back gives the same file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.clients.json_text import NotJson, value_at, with_item, with_member, without_items, without_member

ENTRY = {"command": "/bin/memory-server", "env": {"A": "小明"}}

VS_CODE = """\
{
    // servers of mine
    "servers": {
        "github": { "type": "http", "url": "https://x/" }, // keep
        /* old: */
        "files": {
            "command": "npx", // why
            "args": ["-y",],
        }, // the last one
    },
    "inputs": [],
}
"""

BEFORE_AND_AFTER = [
    ("", '{\n  "servers": {\n    "m": {\n      "k": 1\n    }\n  }\n}'),
    ("{}", '{\n  "servers": {\n    "m": {\n      "k": 1\n    }\n  }\n}'),
    ('{"a":1}', '{"a":1, "servers": {"m": {"k": 1}}}'),
    ('{"servers":{"x":{}}}\n', '{"servers":{"x":{}, "m": {"k": 1}}}\n'),
    (
        '{\n\t"servers": {\n\t\t"x": {}\n\t}\n}\n',
        '{\n\t"servers": {\n\t\t"x": {},\n\t\t"m": {\n\t\t\t"k": 1\n\t\t}\n\t}\n}\n',
    ),
    (
        '{\r\n  "servers": {}\r\n}\r\n',
        '{\r\n  "servers": {\r\n    "m": {\r\n      "k": 1\r\n    }\r\n  }\r\n}\r\n',
    ),
    (
        '{\n  "servers": {\n    "x": 1 // note\n  }\n}',
        '{\n  "servers": {\n    "x": 1, // note\n    "m": {\n      "k": 1\n    }\n  }\n}',
    ),
    ('{"servers": {"m": 5}, "z": 0}', '{"servers": {"m": {\n  "k": 1\n}}, "z": 0}'),
]


@pytest.mark.parametrize(("before", "after"), BEFORE_AND_AFTER)
def test_a_member_is_written_in_the_form_of_its_neighbours(before: str, after: str) -> None:
    assert with_member(before, ("servers", "m"), {"k": 1}) == after
    assert value_at(after, ("servers", "m", "k")) == 1


def test_comments_and_trailing_commas_stay_where_they_are() -> None:
    edited = with_member(VS_CODE, ("servers", "memory"), ENTRY)
    assert value_at(edited, ("servers", "memory")) == ENTRY
    added = '        "memory": {\n            "command": "/bin/memory-server",\n            "env": {\n'
    assert f"        }}, // the last one\n{added}" in edited
    kept = [line for line in edited.splitlines() if line in VS_CODE.splitlines()]
    assert [line for line in VS_CODE.splitlines() if line not in kept] == []


def documents() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4)
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))


@given(
    st.dictionaries(st.text(max_size=3), documents(), min_size=1, max_size=4),
    st.sampled_from([None, 1, 2, 4, "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    documents(),
)
def test_taking_a_member_back_gives_the_file_as_it_was(
    others: dict[str, Any], indent: int | str | None, newline: str, value: Any
) -> None:
    text = json.dumps({"head": 1, "servers": others}, indent=indent, ensure_ascii=False).replace("\n", newline)
    edited = with_member(text, ("servers", "memory"), value)
    assert json.loads(edited) == {"head": 1, "servers": others | {"memory": value}}
    assert without_member(edited, ("servers", "memory")) == text


def test_taking_back_the_only_member_leaves_no_empty_object() -> None:
    assert json.loads(without_member(with_member("{}", ("a", "b", "m"), 1), ("a", "b", "m"))) == {}
    assert without_member('{"a": {"m": 1}, "z": 2}', ("a", "m")) == '{"z": 2}'
    assert without_member('{"z": 2}', ("a", "m")) == '{"z": 2}'
    assert without_member(with_member(VS_CODE, ("servers", "memory"), ENTRY), ("servers", "memory")).replace(
        ",", ""
    ) == VS_CODE.replace(",", "")


def test_items_are_added_to_an_array_and_taken_from_it() -> None:
    text = '{\n  "hooks": {\n    "Stop": [\n      {"x": 1}\n    ]\n  }\n}\n'
    more = with_item(text, ("hooks", "Stop"), {"mine": True})
    assert value_at(more, ("hooks", "Stop")) == [{"x": 1}, {"mine": True}]
    assert without_items(more, ("hooks", "Stop"), lambda item: "mine" in item) == text
    new = with_item("{}", ("hooks", "Stop"), {"mine": True})
    assert value_at(new, ("hooks", "Stop")) == [{"mine": True}]
    assert json.loads(without_items(new, ("hooks", "Stop"), lambda item: "mine" in item)) == {}
    assert without_items(text, ("hooks", "Start"), lambda item: True) == text


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1, 2",
        '{"a": }',
        '{"a" 1}',
        "{a: 1}",
        '{"a": 1} x',
        '{"a": 1 "b": 2}',
        '{"a": tru}',
        "'x'",
        "[" * 500,
        "5 5",
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(NotJson, match="line 1 is no JSON"):
        with_member(text, ("servers", "m"), 1)


@pytest.mark.parametrize(
    ("text", "said"), [("[]", "the file is no object"), ('{"servers": 5}', "servers is no object")]
)
def test_what_has_another_form_is_refused(text: str, said: str) -> None:
    with pytest.raises(NotJson, match=said):
        with_member(text, ("servers", "m"), 1)
    with pytest.raises(NotJson, match="no array"):
        with_item('{"hooks": 5}', ("hooks",), 1)


@given(st.text(alphabet='{}[]",:/*\\ \n1atrue', max_size=40))
def test_any_text_is_json_or_refused(text: str) -> None:
    try:
        edited = with_member(text, ("m",), 1)
    except NotJson:
        return
    assert value_at(edited, ("m",)) == 1
