"""Records and changes to JSON and back; the forms that other programs write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import (
    CHANGES,
    JSON_VALUES,
    LONG_TERM,
    MESSAGES,
    NOW,
    SHORT_TERM,
    TIMES,
    memory,
    trigger,
)

from memory_server.conversations import change_forms, codec
from memory_server.conversations.changes import Change
from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel import json_text, times
from memory_server.kernel.messages import Message
from memory_server.lore.memory import LongTermMemory

BOM = b"\xef\xbb\xbf"
HUGE = 123456789012345678901234567890


def through_disk(value: Any) -> Any:
    return json_text.loads(json_text.dumps(value))


def record(**fields: Any) -> dict[str, Any]:
    """A short-term memory as the Node original writes it."""
    return {
        "timestamp": "2026-06-20T04:00:00.000Z",
        "text": "user: hi",
        "keywords": [],
        "score": 0,
    } | fields


def read_one(**fields: Any) -> ShortTermMemory:
    [stored] = codec.short_terms([record(**fields)], "chat")
    return stored


# --- round trips -------------------------------------------------------------------------------------------


@given(SHORT_TERM)
def test_short_term_memories_survive(stored: ShortTermMemory) -> None:
    assert codec.short_term(through_disk(codec.short_term_json(stored)), "other") == stored


@given(st.lists(SHORT_TERM, max_size=4, unique_by=lambda stored: stored.id))
def test_files_of_short_term_memories_survive(memories: list[ShortTermMemory]) -> None:
    data = json_text.dump_array(map(codec.short_term_json, memories))
    if memories:
        assert data.count(b"\n") == len(memories) + 2
    else:
        assert data == b"[]\n"
    assert codec.short_terms(json_text.load_array(data), "other") == memories
    assert codec.short_terms(json_text.load_array(BOM + data), "other") == memories


@given(st.lists(LONG_TERM, max_size=4, unique_by=lambda stored: stored.name))
def test_files_of_long_term_memories_survive(memories: list[LongTermMemory]) -> None:
    assert (
        codec.long_terms(
            json_text.load_array(json_text.dump_array(map(codec.long_term_json, memories)))
        )
        == memories
    )


@given(CHANGES)
def test_changes_survive(change: Change) -> None:
    assert change_forms.change(through_disk(change_forms.change_json(change))) == change


def test_every_change_has_a_form() -> None:
    assert {change_type.change_class for change_type in change_forms.TYPES.values()} == set(
        get_args(Change)
    )


@given(MESSAGES)
def test_messages_survive(message: Message) -> None:
    [restored] = codec.short_term(
        through_disk(record(messages=[codec.message_json(message)])), "chat"
    ).messages
    assert restored == message


@given(JSON_VALUES)
def test_any_json_survives(value: Any) -> None:
    assert through_disk(value) == value
    assert b"\n" not in json_text.dumps(value)


@given(st.text(max_size=12))
def test_text_with_lone_surrogates_is_stored_as_the_replacement_character(text: str) -> None:
    stored = through_disk({text: [text]})
    [(key, [item])] = stored.items()
    assert key == item
    stored_again = through_disk(item)
    assert stored_again == item
    assert "\ufffd" in item or item == text.encode("utf-16", "surrogatepass").decode("utf-16")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'"a\\ud800b"', "a\ufffdb"),
        (b'"\\udc00"', "\ufffd"),
        (b'"\\ud83c\\udf82"', "🎂"),
        (b'"\\ud83c"', "\ufffd"),
        ('"中文"'.encode(), "中文"),
    ],
)
def test_escapes_that_javascript_writes_are_read(data: bytes, text: str) -> None:
    assert json_text.loads(data) == text


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64, -(2**63) - 1, HUGE, -HUGE, 10**400])
def test_numbers_beyond_64_bits_are_exact(number: int) -> None:
    assert json_text.loads(json.dumps({"n": number}).encode()) == {"n": number}
    assert through_disk([number]) == [number]
    assert read_one(visits=number).extra == {"visits": number}


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1,]", b"\xff", b'"\xed\xa0\x80"', b"[" * 100_000, b"nul"]
)
def test_what_is_no_json_is_refused_as_such(data: bytes) -> None:
    with pytest.raises(ValueError):
        json_text.loads(data)


@pytest.mark.parametrize("data", [b"{}", b"3", b"[3]", b"[[]]", b'[{"a":1},null]', b"null"])
def test_a_file_that_is_no_array_of_objects_is_refused(data: bytes) -> None:
    with pytest.raises(json_text.NotARecord, match="not a JSON array of objects"):
        json_text.load_array(data)


@pytest.mark.parametrize("data", [b"", b"  \n", b"[]", b"[ ]\r\n", BOM + b"[]"])
def test_an_empty_file_holds_nothing(data: bytes) -> None:
    assert json_text.load_array(data) == []


# --- times -------------------------------------------------------------------------------------------------


@given(TIMES)
def test_times_survive(time_ms: int) -> None:
    text = times.iso(time_ms)
    assert len(text) == 24
    assert json_text.milliseconds(text) == time_ms
    assert json_text.milliseconds(time_ms) == time_ms


@pytest.mark.parametrize(
    ("written", "time_ms"),
    [
        ("1970-01-01T00:00:00.000Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2026-06-20T04:00:00Z", 1_781_928_000_000),
        ("2026-06-20T12:00:00+08:00", 1_781_928_000_000),
        ("2026-06-20T04:00:00", 1_781_928_000_000),
        ("2026-06-20", 1_781_913_600_000),
        ("2026-06-20 04:00:00.123456", 1_781_928_000_123),
        (1_781_928_000_000, 1_781_928_000_000),
        (1_781_928_000_000.9, 1_781_928_000_000),
    ],
)
def test_times_of_other_programs_are_read(written: Any, time_ms: int) -> None:
    assert json_text.milliseconds(written) == time_ms


@pytest.mark.parametrize(
    "written",
    [
        "",
        "yesterday",
        None,
        True,
        [],
        {},
        10**20,
        -(10**20),
        10**400,
        float("nan"),
        float("inf"),
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-13-01",
    ],
)
def test_other_times_are_refused(written: Any) -> None:
    with pytest.raises(json_text.NotARecord):
        json_text.milliseconds(written)


# --- the Node original and other programs ------------------------------------------------------------------

NODE_FILE = """[
  {
    "time_stamp": "2026-06-20T04:00:00.000Z",
    "text": "user: 我喜欢吃披萨",
    "keywords": [
      { "word": "披萨", "weight": 59.77 },
      { "word": "奇怪", "weight": null }
    ],
    "score": 7,
    "conversation_id": "chat",
    "modalities": { "image": [0.1, 0.2] }
  },
  {
    "timeStamp": 1781928000000,
    "text": "assistant: 好啊",
    "keywords": [],
    "score": null
  }
]"""


@pytest.mark.parametrize(
    "data", [NODE_FILE.encode(), BOM + NODE_FILE.replace("\n", "\r\n").encode()]
)
def test_a_file_of_the_node_original_is_read(data: bytes) -> None:
    first, second = codec.short_terms(json_text.load_array(data), "here")
    assert first.time_ms == 1_781_928_000_000
    assert first.text == "user: 我喜欢吃披萨"
    assert first.score == 7.0
    assert first.words == ("披萨",)
    assert first.weights == (59.77,)
    assert first.conversation_id == "chat"
    assert second.conversation_id == "here"
    assert first.extra == {"modalities": {"image": [0.1, 0.2]}}
    assert second.time_ms == 1_781_928_000_000
    assert second.score == 0.0
    assert second.words == ()
    written = [codec.short_term_json(item) for item in (first, second)]
    assert codec.short_terms(through_disk(written), "elsewhere") == [first, second]
    assert written[0]["modalities"] == {"image": [0.1, 0.2]}
    assert written[0]["timestamp"] == "2026-06-20T04:00:00.000Z"
    assert not {"time_stamp", "timeStamp"} & (written[0].keys() | written[1].keys())


@pytest.mark.parametrize(
    ("fields", "attribute", "value"),
    [
        ({"text": None}, "text", ""),
        ({"conversation_id": None}, "conversation_id", "chat"),
        ({"keywords": None}, "words", ()),
        (
            {"keywords": ["披萨", {"word": 3, "weight": 1}, {"word": "a", "weight": "1"}, None]},
            "words",
            (),
        ),
        (
            {"keywords": [{"word": "a", "weight": 10**400}, {"word": "b", "weight": 2}]},
            "words",
            ("b",),
        ),
        ({"messages": None}, "messages", ()),
        ({"score": "7"}, "score", 0.0),
        ({"score": 10**400}, "score", 0.0),
        ({"score": -3}, "score", -3.0),
        ({"pinned": True}, "pinned", True),
        ({"id": 7}, "id", "7"),
        ({"timestamp": None, "time_stamp": NOW}, "time_ms", NOW),
        ({"timestamp": NOW, "timeStamp": 5}, "time_ms", NOW),
    ],
)
def test_odd_fields_are_read_for_what_they_can_be(
    fields: dict[str, Any], attribute: str, value: Any
) -> None:
    assert getattr(read_one(**fields), attribute) == value


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"timestamp": None}, "no timestamp"),
        ({"timestamp": "soon"}, "malformed"),
        ({"keywords": "披萨"}, "keywords are not a list"),
        ({"messages": "hi"}, "messages are not a list"),
        ({"messages": ["hi"]}, "message is not an object"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_number(
    fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(json_text.NotARecord, match=f"record 2 cannot be read: .*{reason}"):
        codec.short_terms([record(), record(**fields)], "chat")


@pytest.mark.parametrize(
    "message",
    [
        {"role": "char", "content": "hi", "mood": "good"},
        {"role": "tool", "content": [{"type": "text", "text": "hi"}]},
        {"role": "user", "content": None},
        {"role": "user", "content": "hi", "name": 5},
        {"role": "user", "content": "hi", "timestamp": "2026-06-20T04:00:00Z"},
        {"role": "user", "content": "hi", "timestamp": "yesterday"},
        {"role": ["user"], "content": "hi", "originalRole": "x"},
    ],
)
def test_messages_of_other_programs_go_back_as_they_came(message: dict[str, Any]) -> None:
    [stored] = read_one(messages=[message]).messages
    assert stored.role in ("user", "assistant", "system")
    assert isinstance(stored.content, str)
    assert stored.name is None
    assert codec.message_json(stored) == message


# --- ids of records without one ----------------------------------------------------------------------------


def test_records_without_an_id_get_distinct_lasting_ones() -> None:
    records = [
        record(),
        record(),
        record(text="other"),
        record(timestamp=5),
        record(id=""),
        record(text={"a": [1]}),
    ]
    first = [item.id for item in codec.short_terms(records, "chat")]
    assert len(set(first)) == len(records)
    assert all(len(name) == 16 for name in first)
    assert [item.id for item in codec.short_terms(records, "another")] == first


def test_ids_of_records_without_one_are_the_same_in_every_process() -> None:
    program = """
import sys
from memory_server.conversations import codec
from memory_server.kernel import json_text
print([memory.id for memory in codec.short_terms(json_text.load_array(sys.stdin.buffer.read()), "")])
"""
    outputs = set()
    for seed in ("1", "2"):
        process = subprocess.run(
            [sys.executable, "-c", program],
            input=NODE_FILE.encode(),
            capture_output=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
        outputs.add(process.stdout)
    ids = [item.id for item in codec.short_terms(json_text.load_array(NODE_FILE.encode()), "")]
    assert outputs == {f"{ids}\n".encode()}
    # Pinned: a new release must find what an old one named.
    assert ids == ["e9428d72cbd12a51", "a243c7a67f4d0568"]


def test_a_copied_record_is_not_lost() -> None:
    memories = codec.short_terms(
        [record(id="a"), record(id="a", text="copied and changed"), record(id="b")], "chat"
    )
    assert [item.text for item in memories] == ["user: hi", "copied and changed", "user: hi"]
    assert len({item.id for item in memories}) == 3
    assert memories[0].id == "a"
    assert memories[2].id == "b"


def test_a_copied_long_term_memory_is_not_lost() -> None:
    records = [codec.long_term_json(trigger("t", source=str(number))) for number in range(3)]
    memories = codec.long_terms([*records, codec.long_term_json(trigger("t (2)"))])
    assert [item.name for item in memories] == ["t", "t (2)", "t (3)", "t (2) (2)"]
    assert [item.trigger for item in memories[:3]] == ["0", "1", "2"]


# --- long-term memories ------------------------------------------------------------------------------------


def test_a_long_term_memory_of_the_node_original_is_read() -> None:
    written = {
        "name": "t",
        "prompt": None,
        "trigger": "true",
        "createdAt": "2026-06-20T04:00:00.000Z",
        "tags": ["x"],
    }
    [stored] = codec.long_terms([written])
    assert stored == LongTermMemory("t", "", "true", 1_781_928_000_000, extra={"tags": ["x"]})
    assert codec.long_terms([codec.long_term_json(stored)]) == [stored]


@pytest.mark.parametrize(
    "fields", [{"name": ""}, {"name": 5}, {"trigger": None}, {"createdAt": "soon"}]
)
def test_a_long_term_memory_without_name_or_trigger_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(json_text.NotARecord, match="record 1 cannot be read"):
        codec.long_terms([{"name": "t", "trigger": "true", "prompt": ""} | fields])


# --- changes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"type": "invented"},
        {"type": ["added"]},
        {"type": "added"},
        {"type": "added", "memory": []},
        {"type": "added", "memory": 5},
        {"type": "added", "memory": {}},
        {"type": "reinforced", "id": "a", "before": 1},
        {"type": "reinforced", "id": "a", "before": 1, "after": 10**400},
        {"type": "trigger_set", "memory": {"name": "a", "trigger": "b"}},
        "added",
        None,
    ],
)
def test_a_change_that_cannot_be_read_is_refused(written: Any) -> None:
    with pytest.raises(json_text.NotARecord):
        change_forms.change(written)


def test_the_forms_on_disk_are_those_of_the_design() -> None:
    pizza = memory(
        "a",
        words={"披萨": 1.5},
        score=2,
        messages=(Message("user", "hi", NOW, "小明"),),
        pinned=True,
    )
    assert orjson.loads(json_text.dumps(codec.short_term_json(pizza))) == {
        "id": "a",
        "timestamp": "2026-06-20T00:00:00.000Z",
        "text": "user: 我喜欢吃披萨",
        "keywords": [{"word": "披萨", "weight": 1.5}],
        "score": 2,
        "conversation_id": "chat",
        "messages": [{"role": "user", "content": "hi", "timestamp": NOW, "name": "小明"}],
        "pinned": True,
    }
    assert codec.long_term_json(trigger("t")) == {
        "name": "t",
        "prompt": "about t",
        "trigger": "true",
        "createdAt": "2026-06-21T00:00:00.000Z",
        "createdContext": "",
    }


# --- record by record --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_at_once", [1, 300, 50_000])
@given(memories=st.lists(SHORT_TERM, max_size=4))
def test_an_array_read_some_records_at_once_is_the_same(
    bytes_at_once: int, memories: list[ShortTermMemory]
) -> None:
    data = json_text.dump_array(map(codec.short_term_json, memories))
    if memories:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_text, "_BYTES_AT_ONCE", bytes_at_once)
            records = list(json_text.lines_of_array(data))
        assert records == json_text.load_array(data)


def test_a_record_of_several_lines_is_never_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_BYTES_AT_ONCE", 1)
    for data in (b'[\n{"a":[{"b":1},\n{"b":2}]}\n]\n', b'[\n{"a":"b"},\n[{"a":1},\n{"b":2}]\n]\n'):
        with pytest.raises(json_text.OtherLayout):
            list(json_text.lines_of_array(data))


@pytest.mark.parametrize("number", [2**63 + 1, 2**64 + 1, 10**20 + 1, -(10**19) - 1])
def test_integers_of_any_size_are_read_record_by_record(number: int) -> None:
    data = b'[\n{"a":1},\n{"a":%d}\n]\n' % number
    assert list(json_text.lines_of_array(data)) == [{"a": 1}, {"a": number}]


def test_a_message_of_two_other_fields_keeps_them() -> None:
    """As the common one in number, and in nothing else."""
    for message in (
        {"role": ["user"], "content": "a"},
        {"role": "user", "content": 5},
        {"role": "user", "x": 1},
    ):
        stored = {"id": "a", "timestamp": "2026-06-21T00:00:00.000Z", "messages": [message]}
        message_again = codec.short_term_json(codec.short_term(stored, "chat"))["messages"][0]
        assert message.items() <= message_again.items()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]\n",
        b'[{"a":1}]',
        b'[\n{"a":1},\n]\n',
        b'[\n{"a":1}\n{"a":2}\n]\n',
        b"[\n1\n]\n",
        b"[\n{\n]\n",
    ],
)
def test_another_layout_is_left_to_the_whole_reading(data: bytes) -> None:
    with pytest.raises(json_text.OtherLayout):
        list(json_text.lines_of_array(data))
