"""Editing a client's settings: what is written can be read, nothing else changes, and it can be taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory_server.operations.install.clients import Server
from memory_server.operations.install.edits import (
    Edits,
    NameTaken,
    NotJson,
    edited,
    of_hooks,
    of_server,
    taken_back,
)

SERVER = Server("memory", ["/opt/with blank/memory-server"], {"conversation": "小明"})
OTHER_OPTIONS = Server("memory", ["/usr/bin/memory-server"], {"timezone": "Asia/Shanghai"})
KINDS = {
    "servers": lambda server: of_server(server, "vscode"),
    "hooks": lambda server: of_hooks(server, "linux"),
}
OURS = {"hooks": [{"type": "command", "command": "memory-server hook"}]}

NAMES = st.sampled_from(
    ["servers", "hooks", "Stop", "UserPromptSubmit", "memory", "x", "//", "/*", "é", '"', "\\", ""]
)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | NAMES | st.text(max_size=4)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "servers": st.dictionaries(NAMES, VALUES, max_size=3),
        "hooks": st.dictionaries(NAMES, st.lists(VALUES | st.just(OURS), max_size=3), max_size=3),
        "before": VALUES,
        "x": VALUES,
    },
).flatmap(lambda members: st.permutations(list(members.items())).map(dict))
BLANKS = st.sampled_from(["", "", " ", "\n", "\r\n", "\t", "\n    "])
COMMENTS = st.sampled_from(
    ["// a\n", "// {\r\n", "//\n", "/* ] */", "/**/", '/* " */', "// it's\n", "/* //\n */"]
)


def edits_of(kind: str, server: Server = SERVER) -> Edits:
    return KINDS[kind](server)


@st.composite
def texts(
    draw: st.DrawFn, between: st.SearchStrategy[str] = BLANKS, *, commas: bool = False
) -> str:
    """A document as somebody may have typed it: blanks, or comments, wherever JSON lets them be."""
    trailing = st.sampled_from(["", ","]) if commas else st.just("")

    def typed(value: Any) -> str:
        if not isinstance(value, (dict, list)) or not value:
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        if isinstance(value, list):
            opening, closing = "[]"
            parts = [typed(item) for item in value]
        else:
            opening, closing = "{}"
            parts = [f"{json.dumps(key)}{blank()}:{blank()}{typed(value[key])}" for key in value]
        inner = ",".join(f"{blank()}{part}{blank()}" for part in parts)
        return f"{opening}{inner}{draw(trailing)}{blank()}{closing}"

    def blank() -> str:
        return draw(between)

    return f"{blank()}{typed(draw(DOCUMENTS))}{blank()}"


def put(text: str, edits: Edits) -> str:
    """The text with the entry; a text that is refused is no example."""
    try:
        return edited(text, edits.put)
    except (NotJson, NameTaken):
        assume(False)
        raise


@given(texts(), st.sampled_from(list(KINDS)))
def test_what_is_written_is_json_with_the_entry_and_all_else_as_it_was(
    text: str, kind: str
) -> None:
    edits = edits_of(kind)
    after = put(text, edits)
    expected = json.loads(text)
    edits.put(expected)
    assert json.loads(after) == expected
    assert edited(after, edits.put) == after, "twice is once"


@given(texts(), st.sampled_from(list(KINDS)))
def test_it_comes_back_to_the_byte_whatever_options_came_later(text: str, kind: str) -> None:
    assume(edited(text, edits_of(kind).take) == text)
    after = put(put(text, edits_of(kind)), edits_of(kind, OTHER_OPTIONS))
    assert taken_back(after, text, edits_of(kind)) == text


@given(texts(), st.sampled_from(list(KINDS)), st.sampled_from([0, "new", [1], {"a": None}]))
def test_what_was_changed_since_stays(text: str, kind: str, value: Any) -> None:
    edits = edits_of(kind)
    assume(edited(text, edits.take) == text)
    changed = json.loads(put(text, edits)) | {"since": value}
    back = taken_back(json.dumps(changed), text, edits)
    edits.take(changed)
    assert back is not None
    assert json.loads(back) == changed


@given(texts(), st.sampled_from(list(KINDS)))
def test_a_file_that_held_nothing_else_goes(text: str, kind: str) -> None:
    edits = edits_of(kind)
    after = put(text, edits)
    rest = json.loads(after)
    edits.take(rest)
    assert (taken_back(after, None, edits) is None) is (rest == {})


@given(texts(BLANKS | COMMENTS, commas=True), st.sampled_from(list(KINDS)))
def test_a_text_with_comments_is_never_changed(text: str, kind: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        pass
    else:
        assume(False)
    for edit in (edits_of(kind).put, edits_of(kind).take):
        with pytest.raises(NotJson):
            edited(text, edit)


@pytest.mark.parametrize("indent", [None, 1, 2, 4, "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_the_form_of_a_file_is_kept(indent: int | str | None, newline: str, end: str) -> None:
    def typed(document: dict[str, Any]) -> str:
        return json.dumps(document, indent=indent, ensure_ascii=False).replace("\n", newline) + end

    document: dict[str, Any] = {"head": "小明", "servers": {"x": {"args": [1]}}}
    after = edited(typed(document), edits_of("servers").put)
    edits_of("servers").put(document)
    assert after == typed(document)


def test_half_of_a_character_pair_stays_an_escape() -> None:
    assert '"\\ud83d小"' in edited('{"x": "\\ud83d小"}', edits_of("servers").put)


@given(st.text(alphabet='{}[]",:/*\\ \n1atrue', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        after = edited(text, edits_of("servers").put)
    except NotJson:
        return
    assert json.loads(after)["servers"]["memory"]
