"""Each form of memories: what goes out comes in again, and what cannot be read is named."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import LONG_TERM, NOW, SHORT_TERM, memory, trigger

from memory_server.cli import exchange_commands
from memory_server.conversations import codec
from memory_server.conversations.contents import Contents
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.interchange import (
    folder_forms,
    lore_memories,
    lorebooks,
    official,
    own,
)
from memory_server.interchange.forms import FORMATS, format_of, format_of_folder
from memory_server.interchange.incoming import Incoming, Loss, NotThisFormat, with_keywords
from memory_server.kernel import json_text
from memory_server.kernel.messages import Message

NAMES = ("chat", "小明", "Work", "a/b", "con", "..", "e\u0301\u0301")


def contents(name: str, short: list[object], long: list[object]) -> Contents:
    by_id = {memory.id: memory for memory in short}  # type: ignore[attr-defined]
    by_name = {memory.name: memory for memory in long}  # type: ignore[attr-defined]
    return Contents(name, tuple(by_id.values()), tuple(by_name.values()), NOW)  # type: ignore[arg-type]


CONVERSATIONS = st.lists(
    st.builds(
        contents,
        st.sampled_from([n for n in NAMES if n != "e\u0301\u0301"]),
        st.lists(SHORT_TERM, max_size=3),
        st.lists(LONG_TERM, max_size=3),
    ),
    unique_by=lambda contents: contents.conversation_id,
    max_size=3,
)


def by_name(conversations: list[Contents]) -> list[Contents]:
    return sorted(conversations, key=lambda contents: contents.conversation_id)


@given(CONVERSATIONS)
def test_a_native_export_gives_back_everything(conversations: list[Contents]) -> None:
    incoming = own.read_native(b"".join(own.write_native(conversations, NOW)))
    assert (incoming.conversations, incoming.skipped, incoming.notes) == (conversations, [], [])


@given(CONVERSATIONS.filter(bool))
def test_a_node_export_gives_back_everything(conversations: list[Contents]) -> None:
    incoming = folder_forms.read_node(folder_forms.write_node(conversations))
    assert (by_name(incoming.conversations), incoming.skipped) == (by_name(conversations), [])


@pytest.mark.parametrize(
    "first", [{}, {"mood": {"x": 1}}, {"keywords": None, "score": 5}, {"chat_name": "Nuts"}]
)
def test_a_list_of_memories_with_their_messages_is_not_a_chat(first: dict[str, object]) -> None:
    said = memory("a", messages=(Message("user", "I like jam"),))
    files = folder_forms.write_node([Contents("a", (said, memory("b")))])
    rows = json.loads(files[f"a/{folder_forms.SHORT_TERM}"])
    assert rows[0]["messages"]
    rows[0] |= first
    form = "gentian" if "chat_name" in first else "node"
    assert format_of(json.dumps(rows).encode()) == form
    assert format_of(json.dumps(["damaged", *rows]).encode()) == form
    with pytest.raises(NotThisFormat, match="unknown"):
        format_of("\n".join(map(json.dumps, rows)).encode())


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("pack", [{"trigger": "true"}]),
        ("mem0", [{"memory": "likes jam", "id": "1"}]),
        ("worldinfo", {"entries": {}}),
        ("worldinfo", {"spec": "chara_card_v2"}),
    ],
)
def test_what_has_messages_beside_memories_is_not_a_chat(
    form: str, value: list[dict[str, object]] | dict[str, object]
) -> None:
    record = value[0] if isinstance(value, list) else value
    record["messages"] = [{"role": "user", "content": "I like jam"}]
    assert format_of(json.dumps(value).encode()) == form


def test_folders_of_a_node_export_are_ids_that_it_takes_and_never_collide() -> None:
    names = ["chat", "Work", "work", "小明", "小红", "..", "a/b", "con", "CON", "x" * 65]
    files = folder_forms.write_node([Contents(name) for name in names])
    folders = {path.split("/")[0] for path in files}
    assert len({folder.lower() for folder in folders}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", folder) for folder in folders)
    assert {"chat", "Work"} <= folders
    assert sorted(
        contents.conversation_id for contents in folder_forms.read_node(files).conversations
    ) == sorted(names)


def test_a_node_folder_needs_no_note_of_the_id_where_a_record_names_it() -> None:
    files = folder_forms.write_node([Contents("小明", (memory("a", chat="小明"),))])
    for path in list(files):
        if path.endswith("conversation.json"):
            del files[path]
    assert [
        contents.conversation_id for contents in folder_forms.read_node(files).conversations
    ] == ["小明"]
    assert folder_forms.read_node({"Alice/short-term-memory.json": b"[]"}).conversations == [
        Contents("Alice")
    ]


def test_gentians_one_list_is_split_by_chat_name() -> None:
    rows = [
        {
            "time_stamp": NOW,
            "text": "a",
            "keywords": [],
            "score": 1,
            "chat_name": "群聊 1",
            "mood": {"x": 1},
        },
        {
            "time_stamp": NOW,
            "text": "b",
            "keywords": [{"word": "茶", "weight": 2}],
            "chat_name": "小红",
        },
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
    incoming = folder_forms.read_gentian(files, "usual")
    texts: dict[str, list[str]] = {}
    triggers: list[str] = []
    for conversation in incoming.conversations:
        texts[conversation.conversation_id] = [memory.text for memory in conversation.short_term]
        triggers.extend(memory.name for memory in conversation.long_term)
    assert texts == {"群聊 1": ["a", "c"], "小红": ["b"], "usual": ["d"]}
    assert triggers == ["生日"]
    first = incoming.conversations[0].short_term[0]
    assert (first.conversation_id, first.extra["mood"], first.score) == ("群聊 1", {"x": 1}, 1.0)
    assert {where for where, _ in incoming.skipped} == {
        "short-term memory 5",
        "short-term memory 6",
        "short-term memory 7",
        "no trigger",
    }


def test_a_pack_carries_long_term_memories_with_their_other_fields_and_their_conversations() -> (
    None
):
    birthday = trigger("生日", updated_ms=NOW, extra={"tags": ["a"]})
    shared = Contents("default", (), (trigger("纪念日"),))
    data = own.write_pack(
        [Contents("小明", (), (birthday,)), Contents("other", (), (trigger("生日"),)), shared]
    )
    conversations = own.read_pack(data, "usual").conversations
    assert [contents.conversation_id for contents in conversations] == ["小明", "other", "usual"]
    (of_ming,), (of_other,), (of_all,) = (contents.long_term for contents in conversations)
    assert of_ming == birthday
    assert (of_other.name, of_all.name) == ("生日 (2)", "纪念日")


def test_a_pack_may_name_a_conversation_that_cannot_be_one() -> None:
    rows = [
        {"name": n, "prompt": "p", "trigger": "1", "conversation_id": n * 200}
        for n in ("a", "生日")
    ]
    incoming = own.read_pack(json.dumps(rows).encode(), "usual")
    assert [contents.conversation_id for contents in incoming.conversations] == ["a" * 200]
    assert [where for where, _ in incoming.skipped] == ["生日"]


def test_a_lorebook_says_once_that_the_spelling_does_not_matter() -> None:
    def losses(*keys: str) -> list[Loss]:
        entries = {str(n): {"uid": n, "key": [key], "content": "x"} for n, key in enumerate(keys)}
        book = lorebooks.read_book(json.dumps({"entries": entries}).encode())
        return lore_memories.read(
            book, lore_memories.BookSource("b", "chat", lore_memories.Defaults())
        ).losses

    assert (
        len([loss for loss in losses("龍城", "猫", "ＡＩ", "dragon") if "Simplified" in loss.what])
        == 1
    )
    assert not [loss for loss in losses("dragon", "café", "木") if "Simplified" in loss.what]


def test_a_lorebook_becomes_long_term_memories_and_says_what_is_lost() -> None:
    entries = {
        "0": {"uid": 0, "comment": "芒果", "key": ["芒果", "/m[/"], "content": "过敏", "sticky": 2},
        "1": {"uid": 1, "comment": "off", "key": ["x"], "content": "y", "disable": True},
    }
    lorebook = lorebooks.read_book(json.dumps({"entries": entries}).encode())
    assert lore_memories.expressions(lorebook) == ["/m[/"]
    source = lore_memories.BookSource("book.json", "chat", lore_memories.Defaults(), {"/m[/"})
    incoming = lore_memories.read(lorebook, source)
    assert [memory.name for memory in incoming.books[0].memories] == ["芒果"]
    assert incoming.skipped == [("off", "it is disabled")]
    assert any("not a valid expression" in loss.what for loss in incoming.losses)


OFFICIAL = b"""{"type":"entity","name":"A","entityType":"person","observations":["likes tea","likes tea"]}
{"type":"entity","name":"A","entityType":"person","observations":["has a cat"]}
{"type":"entity","name":"B","entityType":"city","observations":[]}
{"type":"relation","from":"A","to":"B","relationType":"lives in"}
{"type":"relation","from":"Z","to":"B","relationType":"lives in"}

{"type":"other"}
{
"""


def test_entities_become_pinned_memories_and_the_rest_is_named() -> None:
    incoming = official.read(OFFICIAL, "chat")
    (memory_of_a,) = incoming.conversations[0].short_term
    assert memory_of_a.text == "A (person)\nlikes tea\nhas a cat\nA lives in B"
    assert memory_of_a.pinned
    assert dict(incoming.skipped) == {
        "line 8": "it is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "line 7": "it is neither an entity nor a relation",
        "line 5": "the relation starts from Z, which is not an entity of the file",
        "entity B": "it has no observation and no relation",
    }
    again = official.read(OFFICIAL, "chat").conversations[0].short_term[0]
    assert (again.id, again.time_ms) == (memory_of_a.id, 0), "it has no date of its own"
    assert with_keywords(incoming.conversations[0], KeywordOptions()).short_term[0].words


def test_keywords_are_made_only_where_there_are_none() -> None:
    spoken = memory("b", text="", messages=(Message("user", "我喜欢吃披萨"),))
    with_words = memory("a", words={"茶": 1.0})
    filled = with_keywords(
        Contents("chat", (with_words, spoken, memory("c", text=""))), KeywordOptions()
    )
    assert filled.short_term[0] is with_words
    assert "披萨" in filled.short_term[1].words
    assert filled.short_term[2].words == ()


def test_a_page_for_people_cannot_be_broken_by_what_it_holds() -> None:
    conversation = Contents(
        "a\n# b",
        (memory("a", text="user: # no heading\n```\n<b>", pinned=True),),
        (trigger("t", source="x = '````'\n```"),),
    )
    text = b"".join(own.write_page([conversation])).decode()
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
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08", "is compressed"),
        (b"PK\x03\x04", "unpack it"),
        (b"\x89PNG\r\n", "is a damaged picture"),
        (b"SQLite format 3\0", "is a database"),
        (
            "小禾：累了\n团子：睡吧\n小禾：晚安".encode(),
            "looks like a chat: add `--format chat --user NAME --char NAME`",
        ),
        (b"name: Ann\nage: 7\ntown: Venn", "has an unknown format"),
        (b"hello", "has an unknown format; name one with --format: native"),
        (b'[{"a":1}]', "a list of an unknown kind"),
        (b"[1]", "has an unknown form"),
        (b"17", "has an unknown form"),
    ],
)
def test_what_has_no_known_form_is_refused_with_what_to_do(data: bytes, sentence: str) -> None:
    with pytest.raises(NotThisFormat, match=sentence):
        format_of(data)


@pytest.mark.parametrize("data", ["小禾：晚安", "\ufeff小禾: 晚安", "\n团子：晚安"])
def test_lines_of_known_speakers_are_a_chat(data: str) -> None:
    assert format_of(data.encode(), ["小禾", "团子"]) == "chat"
    with pytest.raises(NotThisFormat):
        format_of(data.encode(), ["Ann"])


def test_folders_are_told_apart() -> None:
    assert (
        format_of_folder({"short-term-memory.json": b'[{"chat_name":"a","text":""}]'}) == "gentian"
    )
    assert (
        format_of_folder({"long-term-memory.json": b'[{"name":"a","trigger":"","prompt":""}]'})
        == "gentian"
    )
    assert format_of_folder({"short-term-memory.json": b'[{"text":"a"}]'}) == "node"
    assert format_of_folder({"chat/short-term-memory.json": b"[]"}) == "node"


def test_a_damaged_native_file_loses_only_its_damaged_lines() -> None:
    lines = list(
        own.write_native([Contents("chat", (memory("a"), memory("b")), (trigger("t"),))], NOW)
    )
    damaged = [*lines[:2], b"{\n", b"[]\n", lines[2][:-9] + b"\n", *lines[3:-1]]
    incoming = own.read_native(b"".join(damaged))
    assert [m.id for m in incoming.conversations[0].short_term] == ["b"]
    assert [where for where, _ in incoming.skipped] == ["line 3", "line 4", "line 5"]
    assert incoming.notes == ["the file ends too early: memories at its end may be missing"]
    assert own.read_native(lines[0] + lines[2]).skipped == [
        ("line 2", "it does not belong to a conversation")
    ]


@pytest.mark.parametrize(
    ("read", "sentence"),
    [
        (lambda: own.read_native(b"{}"), "it is not an export of memory-server"),
        (lambda: own.read_native(b'{"format":"memory-server","version":9}'), "newer memory-server"),
        (lambda: own.read_native(b""), "it is not an export of memory-server"),
        (lambda: folder_forms.read_node({}), "holds no folder with short-term-memory.json"),
        (lambda: folder_forms.read_node_list(b"{}", "chat"), "is not a JSON array"),
        (lambda: folder_forms.read_gentian({}, "chat"), "holds neither"),
        (
            lambda: folder_forms.read_gentian({folder_forms.LONG_TERM: b"[1]"}, "chat"),
            "holds no memories",
        ),
        (lambda: own.read_pack(b"[{}]", "chat"), "memory 1 .* has no `name`"),
        (lambda: own.read_pack(b"[", "chat"), "is not JSON"),
        (lambda: lorebooks.read_book(b"[]"), "is a list and not a lorebook"),
        (lambda: official.read(b"{}", "chat"), "holds no entities"),
        (lambda: folder_forms.read_node_list(b"[" * 200_000, "chat"), "is not JSON"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_sentence(read: object, sentence: str) -> None:
    with pytest.raises(NotThisFormat, match=sentence) as refused:
        read()  # type: ignore[operator]
    assert "\n" not in str(refused.value)


def test_a_broken_file_of_a_folder_is_named_and_the_others_come() -> None:
    good = json_text.dump_array([codec.short_term_json(memory("a"))])
    incoming = folder_forms.read_node(
        {"a/short-term-memory.json": b"[{", "b/short-term-memory.json": good}
    )
    assert [contents.conversation_id for contents in incoming.conversations if contents.count] == [
        "b"
    ]
    assert incoming.skipped[0][0] == "a/short-term-memory.json"
    assert isinstance(incoming, Incoming)


def test_each_form_can_be_named() -> None:
    assert set(exchange_commands._Formats()) == set(FORMATS)
