"""Each form of memories: what goes out comes in again, and what cannot be read is named."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import LONG_TERM, NOW, SHORT_TERM, memory, trigger

from memory_server.cli import commands
from memory_server.conversations import codec
from memory_server.conversations.contents import Contents
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.interchange import folder_forms, official, own, worldinfo
from memory_server.interchange.forms import FORMATS, format_of, format_of_folder
from memory_server.interchange.incoming import Incoming, NotThisFormat, with_keywords
from memory_server.kernel import json_text
from memory_server.kernel.messages import Message

NAMES = ("chat", "小明", "Work", "a/b", "con", "..", "e\u0301\u0301")


def contents(name: str, short: list[object], long: list[object]) -> Contents:
    held = {m.id: m for m in short}, {t.name: t for t in long}  # type: ignore[attr-defined]
    return Contents(name, tuple(held[0].values()), tuple(held[1].values()), NOW)  # type: ignore[arg-type]


HELD = st.lists(
    st.builds(
        contents,
        st.sampled_from([n for n in NAMES if n != "e\u0301\u0301"]),
        st.lists(SHORT_TERM, max_size=3),
        st.lists(LONG_TERM, max_size=3),
    ),
    unique_by=lambda one: one.conversation_id,
    max_size=3,
)


def by_name(conversations: list[Contents]) -> list[Contents]:
    return sorted(conversations, key=lambda one: one.conversation_id)


@given(HELD)
def test_a_native_export_gives_back_everything(held: list[Contents]) -> None:
    found = own.read_native(b"".join(own.write_native(held, NOW)))
    assert (found.conversations, found.skipped, found.notes) == (held, [], [])


@given(HELD.filter(bool))
def test_a_node_export_gives_back_everything(held: list[Contents]) -> None:
    found = folder_forms.read_node(folder_forms.write_node(held))
    assert (by_name(found.conversations), found.skipped) == (by_name(held), [])


def test_folders_of_a_node_export_are_ids_that_it_takes_and_never_collide() -> None:
    names = ["chat", "Work", "work", "小明", "小红", "..", "a/b", "con", "CON", "x" * 65]
    files = folder_forms.write_node([Contents(name) for name in names])
    folders = {path.split("/")[0] for path in files}
    assert len({folder.lower() for folder in folders}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", folder) for folder in folders)
    assert {"chat", "Work"} <= folders
    assert sorted(one.conversation_id for one in folder_forms.read_node(files).conversations) == sorted(names)


def test_a_node_folder_needs_no_note_of_the_id_where_a_record_names_it() -> None:
    held = Contents("小明", (memory("a", chat="小明"),))
    files = {
        path: data for path, data in folder_forms.write_node([held]).items() if not path.endswith("conversation.json")
    }
    assert [one.conversation_id for one in folder_forms.read_node(files).conversations] == ["小明"]
    assert folder_forms.read_node({"Alice/short-term-memory.json": b"[]"}).conversations == [Contents("Alice")]


def test_gentians_one_list_is_split_by_chat_name() -> None:
    rows = [
        {"time_stamp": NOW, "text": "a", "keywords": [], "score": 1, "chat_name": "群聊 1", "mood": {"x": 1}},
        {"time_stamp": NOW, "text": "b", "keywords": [{"word": "茶", "weight": 2}], "chat_name": "小红"},
        {"time_stamp": NOW + 1, "text": "c", "chat_name": "群聊 1"},
        {"time_stamp": NOW, "text": "d"},
        {"text": "no time", "chat_name": "小红"},
        {"time_stamp": NOW, "text": "e", "chat_name": "a\nb"},
        "nothing",
    ]
    long = [
        {"name": "生日", "trigger": "args.x && true", "prompt": "祝贺"},
        {"name": "no trigger", "prompt": "p"},
    ]
    files = {
        folder_forms.SHORT_TERM: json.dumps(rows).encode(),
        folder_forms.LONG_TERM: json.dumps(long).encode(),
    }
    found = folder_forms.read_gentian(files, "usual")
    got = {one.conversation_id: [m.text for m in one.short_term] for one in found.conversations}
    assert got == {"群聊 1": ["a", "c"], "小红": ["b"], "usual": ["d"]}
    first = found.conversations[0].short_term[0]
    assert (first.conversation_id, first.extra["mood"], first.score) == ("群聊 1", {"x": 1}, 1.0)
    assert [t.name for one in found.conversations for t in one.long_term] == ["生日"]
    assert [place for place, _ in found.skipped] == [
        "short-term memory 6",
        "short-term memory 5",
        "short-term memory 7",
        "no trigger",
    ] or {place for place, _ in found.skipped} == {
        "short-term memory 5",
        "short-term memory 6",
        "short-term memory 7",
        "no trigger",
    }


def test_a_pack_carries_long_term_memories_with_their_other_fields_and_their_conversations() -> None:
    one = trigger("生日", updated_ms=NOW, extra={"tags": ["a"]})
    shared = Contents("default", (), (trigger("纪念日"),))
    data = own.write_pack([Contents("小明", (), (one,)), Contents("other", (), (trigger("生日"),)), shared])
    found = own.read_pack(data, "usual").conversations
    assert [(held.conversation_id, [t.name for t in held.long_term]) for held in found] == [
        ("小明", ["生日"]),
        ("other", ["生日 (2)"]),
        ("usual", ["纪念日"]),
    ]
    assert found[0].long_term[0] == one


def test_a_pack_may_name_a_conversation_that_cannot_be_one() -> None:
    rows = [{"name": n, "prompt": "p", "trigger": "1", "conversation_id": n * 200} for n in ("a", "生日")]
    found = own.read_pack(json.dumps(rows).encode(), "usual")
    assert [held.conversation_id for held in found.conversations] == ["a" * 200]
    assert [place for place, _ in found.skipped] == ["生日"]


def test_a_lorebook_says_once_that_the_spelling_does_not_matter() -> None:
    def notes(*keys: str) -> list[str]:
        entries = {str(n): {"uid": n, "key": [key], "content": "x"} for n, key in enumerate(keys)}
        return worldinfo.read(worldinfo.read_book(json.dumps({"entries": entries}).encode()), "b", "chat").notes

    assert len([note for note in notes("龍城", "猫", "ＡＩ", "dragon") if "Simplified" in note]) == 1
    assert not [note for note in notes("dragon", "café", "木") if "Simplified" in note]


def test_a_lorebook_becomes_long_term_memories_and_says_what_is_lost() -> None:
    entries = {
        "0": {"uid": 0, "comment": "芒果", "key": ["芒果", "/m[/"], "content": "过敏", "sticky": 2},
        "1": {"uid": 1, "comment": "off", "key": ["x"], "content": "y", "disable": True},
    }
    lorebook = worldinfo.read_book(json.dumps({"entries": entries}).encode())
    assert worldinfo.expressions(lorebook) == ["/m[/"]
    found = worldinfo.read(lorebook, "book.json", "chat", {"/m[/"})
    assert [t.name for t in found.conversations[0].long_term] == ["芒果"]
    assert found.skipped == [("off", "it is disabled")]
    assert any("not a valid expression" in note for note in found.notes)


OFFICIAL = b"""{"type":"entity","name":"A","entityType":"person","observations":["likes tea","likes tea"]}
{"type":"entity","name":"A","entityType":"person","observations":["has a cat"]}
{"type":"entity","name":"B","entityType":"city","observations":[]}
{"type":"relation","from":"A","to":"B","relationType":"lives in"}
{"type":"relation","from":"Z","to":"B","relationType":"lives in"}

{"type":"other"}
{
"""


def test_entities_become_pinned_memories_and_the_rest_is_named() -> None:
    found = official.read(OFFICIAL, "chat")
    (one,) = found.conversations[0].short_term
    assert one.text == "A (person)\nlikes tea\nhas a cat\nA lives in B"
    assert one.pinned
    assert dict(found.skipped) == {
        "line 8": "it is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "line 7": "it is neither an entity nor a relation",
        "line 5": "the relation starts from Z, which is not an entity of the file",
        "entity B": "it has no observation and no relation",
    }
    again = official.read(OFFICIAL, "chat").conversations[0].short_term[0]
    assert (again.id, again.time_ms) == (one.id, 0), "it has no date of its own"
    assert with_keywords(found.conversations[0], KeywordOptions()).short_term[0].words


def test_keywords_are_made_only_where_there_are_none() -> None:
    spoken = memory("b", text="", messages=(Message("user", "我喜欢吃披萨"),))
    known = memory("a", words={"茶": 1.0})
    filled = with_keywords(Contents("chat", (known, spoken, memory("c", text=""))), KeywordOptions())
    assert filled.short_term[0] is known
    assert "披萨" in filled.short_term[1].words
    assert filled.short_term[2].words == ()


def test_a_page_for_people_cannot_be_broken_by_what_it_holds() -> None:
    held = Contents(
        "a\n# b",
        (memory("a", text="user: # no heading\n```\n<b>", pinned=True),),
        (trigger("t", source="x = '````'\n```"),),
    )
    text = b"".join(own.write_page([held])).decode()
    assert "\n## a # b\n" in text
    assert "> user: # no heading" in text
    assert "\n`````js\nx = '````'\n```\n`````\n" in text
    assert ", pinned" in text


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b'{"format":"memory-server","version":1}\n', "native"),
        (OFFICIAL, "official"),
        (b'{"entries":{}}', "worldinfo"),
        (b'{"spec":"chara_card_v3","data":{}}', "worldinfo"),
        (b'[{"chat_name":"a","text":""}]', "gentian"),
        (b'[{"prompt_name":"a","trigger":""}]', "gentian"),
        (b'[{"name":"a","trigger":"","prompt":""}]', "pack"),
        (b'\xef\xbb\xbf[{"text":"a"}]', "node"),
        (b"[]", "node"),
    ],
)
def test_the_form_is_told_by_the_contents(data: bytes, form: str) -> None:
    assert format_of(data) == form


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08", "is compressed"),
        (b"PK\x03\x04", "unpack it"),
        (b"\x89PNG\r\n", "is a damaged picture"),
        (b"SQLite format 3\0", "is a database"),
        (b"hello", "has an unknown form; name one with --format: native"),
        (b'[{"a":1}]', "a list of something else"),
        (b"[1]", "has an unknown form"),
        (b"17", "has an unknown form"),
    ],
)
def test_what_has_no_known_form_is_refused_with_what_to_do(data: bytes, said: str) -> None:
    with pytest.raises(NotThisFormat, match=said):
        format_of(data)


def test_folders_are_told_apart() -> None:
    assert format_of_folder({"short-term-memory.json": b'[{"chat_name":"a","text":""}]'}) == "gentian"
    assert format_of_folder({"long-term-memory.json": b'[{"name":"a","trigger":"","prompt":""}]'}) == "gentian"
    assert format_of_folder({"short-term-memory.json": b'[{"text":"a"}]'}) == "node"
    assert format_of_folder({"chat/short-term-memory.json": b"[]"}) == "node"


def test_a_damaged_native_file_loses_only_its_damaged_lines() -> None:
    lines = list(own.write_native([Contents("chat", (memory("a"), memory("b")), (trigger("t"),))], NOW))
    damaged = [*lines[:2], b"{\n", b"[]\n", lines[2][:-9] + b"\n", *lines[3:-1]]
    found = own.read_native(b"".join(damaged))
    assert [m.id for m in found.conversations[0].short_term] == ["b"]
    assert [place for place, _ in found.skipped] == ["line 3", "line 4", "line 5"]
    assert found.notes == ["the file ends too early: memories at its end may be missing"]
    assert own.read_native(lines[0] + lines[2]).skipped == [("line 2", "it does not belong to a conversation")]


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: own.read_native(b"{}"), "it is not an export of memory-server"),
        (lambda: own.read_native(b'{"format":"memory-server","version":9}'), "newer memory-server"),
        (lambda: own.read_native(b""), "it is not an export of memory-server"),
        (lambda: folder_forms.read_node({}), "holds no folder with short-term-memory.json"),
        (lambda: folder_forms.read_node_list(b"{}", "chat"), "is not a JSON array"),
        (lambda: folder_forms.read_gentian({}, "chat"), "holds neither"),
        (lambda: folder_forms.read_gentian({folder_forms.LONG_TERM: b"[1]"}, "chat"), "holds no memories"),
        (lambda: own.read_pack(b"[{}]", "chat"), "memory 1 .* has no `name`"),
        (lambda: own.read_pack(b"[", "chat"), "is not JSON"),
        (lambda: worldinfo.read_book(b"[]"), "is a list and not a lorebook"),
        (lambda: official.read(b"{}", "chat"), "holds no entities"),
        (lambda: folder_forms.read_node_list(b"[" * 200_000, "chat"), "is not JSON"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_sentence(read: object, said: str) -> None:
    with pytest.raises(NotThisFormat, match=said) as refused:
        read()  # type: ignore[operator]
    assert "\n" not in str(refused.value)


def test_a_broken_file_of_a_folder_is_named_and_the_others_come() -> None:
    good = json_text.dump_array([codec.short_term_json(memory("a"))])
    found = folder_forms.read_node({"a/short-term-memory.json": b"[{", "b/short-term-memory.json": good})
    assert [one.conversation_id for one in found.conversations if one.count] == ["b"]
    assert found.skipped[0][0] == "a/short-term-memory.json"
    assert isinstance(found, Incoming)


def test_each_form_can_be_named() -> None:
    assert set(commands._READ) == set(FORMATS)
