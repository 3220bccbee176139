"""Lines become messages or refusals: a table of cases, byte by byte, and a fuzz with one sentence as its property."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_server.serving.stdio.frames import (
    DEEPEST,
    LONGEST_LINE,
    Frame,
    Frames,
    Refusal,
    frame_of,
)

PARSE = -32700
INVALID = -32600
PARAMS = -32602
PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'


def call(id_: Any = 1, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": "ping"} | more


def line(value: Any) -> bytes:
    return json.dumps(value).encode()


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def answer(frame: Frame | None) -> Any:
    assert isinstance(frame, Refusal), frame
    assert frame.line.endswith(b"\n")
    assert frame.line.count(b"\n") == 1
    return json.loads(frame.line)


REFUSED: list[tuple[str, bytes, int, Any]] = [
    ("no JSON", b"{bad", PARSE, None),
    ("cut off", b'{"jsonrpc":"2.0","id":1,"method":"ping"', PARSE, None),
    ("two on one line", line(call()) + line(call()), PARSE, None),
    ("a NUL before it", b"\x00" + line(call()), PARSE, None),
    ("a NUL within", b'{"jsonrpc":"2.0","id":1,"method":"pi\x00ng"}', PARSE, None),
    ("NaN", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', PARSE, None),
    ("text", b'"ping"', INVALID, None),
    ("a number", b"1", INVALID, None),
    ("null", b"null", INVALID, None),
    ("an empty object", b"{}", INVALID, None),
    ("no method", line({"jsonrpc": "2.0", "id": 7}), INVALID, 7),
    ("no version", line({"id": 7, "method": "ping"}), INVALID, 7),
    ("version 1.0", line(call(7, jsonrpc="1.0")), INVALID, 7),
    ("a number as method", line(call(7, method=1)), INVALID, 7),
    (
        "a notification with a number as method",
        line({"jsonrpc": "2.0", "method": 1}),
        INVALID,
        None,
    ),
    ("id null", line(call(None)), INVALID, None),
    ("id true", line(call(True)), INVALID, None),
    ("id a list", line(call([1])), INVALID, None),
    ("id 1.5", line(call(1.5)), INVALID, 1.5),
    ("params a list", line(call(7, params=[1])), PARAMS, 7),
    ("params text", line(call("a", params="b")), PARAMS, "a"),
    ("a lone surrogate in the params", line(call(7, params={"a": "x\ud83d"})), PARAMS, 7),
    ("a lone surrogate in a name", line(call(7, params={"\udc00": 1})), PARAMS, 7),
    ("a lone surrogate as id", line(call("\ud83d")), PARAMS, "\ud83d"),
    ("a lone surrogate, and no request", line({"id": 7, "a": "\ud83d"}), PARAMS, 7),
    (
        "a number beyond all",
        b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1e999}}',
        PARAMS,
        7,
    ),
    (
        "GBK",
        '{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"中文"}}'.encode("gbk"),
        PARSE,
        None,
    ),
    ("UTF-16", line(call()).decode().encode("utf-16"), PARSE, None),
    (
        "just too deep",
        b'{"jsonrpc":"2.0","id":7,"method":"a","params":{"a":%s}}' % nested(DEEPEST - 1),
        INVALID,
        7,
    ),
    (
        "1,100 deep",
        b'{"jsonrpc":"2.0","id":7,"method":"a","params":{"a":%s}}' % nested(1100),
        INVALID,
        None,
    ),
    (
        "5,000 deep",
        b'{"jsonrpc":"2.0","id":7,"method":"a","params":{"a":%s}}' % nested(5000),
        INVALID,
        None,
    ),
    ("100,000 deep and never closed", b"[" * 100_000, INVALID, None),
    ("an empty batch", b"[]", INVALID, None),
    ("a batch of notifications", line([{"jsonrpc": "2.0", "method": "a"}]), INVALID, None),
    ("a batch of requests", line([call(1), call(2)]), INVALID, None),
]


@pytest.mark.parametrize(
    ("text", "code", "id_"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_is_no_message_is_refused_in_one_sentence(text: bytes, code: int, id_: Any) -> None:
    refusal = answer(frame_of(text))
    assert refusal["jsonrpc"] == "2.0"
    assert refusal["error"]["code"] == code
    assert refusal["id"] == id_
    assert type(refusal["id"]) is type(id_)
    assert refusal["error"]["message"].endswith(".")
    assert len(refusal["error"]["message"]) < 200


MESSAGES: list[tuple[str, bytes, Frame | None]] = [
    ("a request", line(call(1, params={"a": [1]})), call(1, params={"a": [1]})),
    ("id 0", line(call(0)), call(0)),
    ("an empty id", line(call("")), call("")),
    ("spaces around", b" \t" + line(call()) + b" \r", call()),
    ("params null", line(call(params=None)), call(params=None)),
    ("a whole pair", line(call("\U0001f600")), call("\U0001f600")),
    ("a notification", b'{"jsonrpc":"2.0","method":"n"}', {"jsonrpc": "2.0", "method": "n"}),
    ("a notification that nobody can read", b'{"jsonrpc":"2.0","method":"n","params":[1]}', None),
    (
        "an answer",
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ),
    ("an answer to nothing", b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}', None),
    ("an empty line", b"", None),
    ("a line of spaces", b"  \r", None),
]


@pytest.mark.parametrize(
    ("text", "frame"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES]
)
def test_a_message_is_what_its_line_says(text: bytes, frame: Frame | None) -> None:
    assert frame_of(text) == frame


def test_as_deep_as_allowed_is_a_request() -> None:
    text = b'{"jsonrpc":"2.0","id":7,"method":"a","params":{"a":%s}}' % nested(DEEPEST - 2)
    assert frame_of(text) == json.loads(text)


# --- lines -------------------------------------------------------------------------------------------------

STREAM = b"\xef\xbb\xbf" + b"\r\n".join(
    [PING % 1, b"{bad", b"", "[中]".encode(), PING % 2, b'{"jsonrpc":"2.0","method":"n"}', PING % 3]
)


def fed(*pieces: bytes, longest: int = LONGEST_LINE) -> list[Frame]:
    frames = Frames(longest)
    taken: list[Frame] = []
    for piece in pieces:
        taken += frames.feed(piece)
    return taken + frames.end()


def test_byte_by_byte_gives_the_same_as_all_at_once() -> None:
    at_once = fed(STREAM)
    noted = {"jsonrpc": "2.0", "method": "n"}
    assert [None if isinstance(frame, Refusal) else frame for frame in at_once] == [
        call(1), None, None, call(2), noted, call(3),
    ]  # fmt: skip
    assert fed(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == at_once


def test_a_line_is_a_message_as_soon_as_it_ends() -> None:
    frames = Frames()
    assert frames.feed(PING % 1) == []
    assert len(frames.feed(b"\n" + PING % 2)) == 1
    assert len(frames.end()) == 1
    assert frames.end() == []


def test_a_line_of_8_mb_is_a_message() -> None:
    text = line(call(5, params={"a": "x" * 8_000_000})) + b"\n"
    (frame,) = fed(*(text[i : i + 65536] for i in range(0, len(text), 65536)))
    assert frame == call(5, params={"a": "x" * 8_000_000})


@pytest.mark.parametrize("piece", [1, 7, 4096, 10**9])
def test_a_line_that_is_too_long_is_refused_and_the_next_is_read(piece: int) -> None:
    long = {"id": 8, "params": {"a": "x" * 9_000}}
    text = line(long) + b"\n" + PING % 9 + b"\n"
    refusal, request = fed(*(text[i : i + piece] for i in range(0, len(text), piece)), longest=4096)
    answered = answer(refusal)
    assert (answered["id"], answered["error"]["code"]) == (None, INVALID)
    assert f"has {len(line(long)):,} bytes; send at most 4,096" in answered["error"]["message"]
    assert request == call(9)


def test_no_more_than_the_longest_line_is_kept() -> None:
    frames = Frames(longest=4096)
    for _ in range(100):
        assert frames.feed(b"x" * 1000) == []
        assert len(frames._rest) <= 4096


def test_a_piece_of_a_line_that_is_too_long_costs_what_the_piece_does() -> None:
    frames = Frames(longest=1_000_000)
    frames.feed(b"x" * 1_000_001)
    assert len(frames._rest) <= 4096, "what is kept is copied for every piece"
    for _ in range(10):
        frames.feed(b"x" * 1_000_000)
    (refusal,) = frames.feed(b"\n")
    assert "has 11,000,001 bytes" in answer(refusal)["error"]["message"]


JUNK = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [text for _, text, _, _ in REFUSED if len(text) < 5000] + [text for _, text, _ in MESSAGES]
    ),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(alphabet=st.characters(codec=None)),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["jsonrpc", "id", "method", "params", "result"]), inner, max_size=5
            )
        ),
        max_leaves=8,
    ).map(line),
).map(lambda text: text.replace(b"\n", b" "))


@example([b'{"jsonrpc":"2.0","id":"","method":""}'], [1])
@given(st.lists(JUNK, max_size=12), st.lists(st.integers(1, 50), min_size=1, max_size=5))
def test_whatever_comes_a_line_has_at_most_one_answer_and_the_session_lives_on(
    junk: list[bytes], sizes: list[int]
) -> None:
    stream = b"".join(text + b"\n" + PING % number + b"\n" for number, text in enumerate(junk))
    frames = Frames()
    taken_frames = list[Frame]()
    at = 0
    turn = 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        taken_frames += frames.feed(stream[at : at + size])
        at = at + size
        turn = turn + 1
    assert frames.end() == []
    remaining = iter(taken_frames)
    for number in range(len(junk)):
        assert call(number) in remaining, (
            "every request is read, in its turn, whatever stands before it"
        )
    assert len(taken_frames) <= 2 * len(junk)
    for frame in taken_frames:
        if isinstance(frame, Refusal):
            answer(frame)
