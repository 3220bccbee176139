"""Frames: what is encoded comes back whole from any cutting, and nothing else comes back at all."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import protocol
from sandbox.errors import ProtocolError
from sandbox.protocol import HEADER_BYTES, Decoder, Frame, Kind, encode

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FRAMES = st.builds(Frame, st.sampled_from(Kind), st.dictionaries(st.text(), JSON, max_size=4))
GOOD = encode(Frame(Kind.DONE, {"rows": [[2, 17]], "text": "生日 \ud800"}))


@given(st.lists(FRAMES, max_size=4), st.data())
def test_frames_come_back_from_any_cutting(frames: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(map(encode, frames))
    decoder = Decoder()
    decoded: list[Frame] = []
    offset = 0
    while offset < len(stream):
        size = data.draw(st.integers(1, len(stream) - offset))
        decoded += decoder.feed(stream[offset : offset + size])
        offset += size
    assert decoded == frames
    assert decoder.pending == 0


def test_byte_by_byte_nothing_comes_early() -> None:
    decoder = Decoder()
    for index in range(len(GOOD) - 1):
        assert list(decoder.feed(GOOD[index : index + 1])) == []
    (frame,) = decoder.feed(GOOD[-1:])
    assert frame.body["text"] == "生日 \ud800"


@pytest.mark.parametrize("index", range(HEADER_BYTES))
def test_any_other_byte_in_the_header_is_refused_or_waits(index: int) -> None:
    for value in range(256):
        if value == GOOD[index]:
            continue
        bad = bytearray(GOOD)
        bad[index] = value
        decoder = Decoder()
        try:
            frames = list(decoder.feed(bytes(bad)))
        except ProtocolError:
            continue
        # Only another kind can pass whole; a longer length waits for bytes that do not come.
        assert all(frame.kind is not Kind.DONE for frame in frames)
        assert frames or decoder.pending == len(bad)


@given(st.binary(max_size=200))
def test_noise_is_refused_and_never_a_frame(noise: bytes) -> None:
    decoder = Decoder()
    try:
        assert list(decoder.feed(noise)) == []
    except ProtocolError:
        return
    assert len(noise) < HEADER_BYTES or noise.startswith(protocol.MAGIC)


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_one_changed_byte_never_raises_anything_else(index: int, change: int) -> None:
    bad = bytearray(GOOD)
    bad[index] ^= change
    with contextlib.suppress(ProtocolError):
        list(Decoder().feed(bytes(bad)))


@given(st.integers(0, len(GOOD) - 1))
def test_a_cut_frame_is_no_frame(length: int) -> None:
    decoder = Decoder()
    assert list(decoder.feed(GOOD[:length])) == []
    assert decoder.pending == length


def test_a_body_over_the_bound_is_refused_before_it_is_read() -> None:
    header = protocol._HEADER.pack(
        protocol.MAGIC, protocol.VERSION, b"D", 0, protocol.MOST_BODY_BYTES + 1
    )
    with pytest.raises(ProtocolError, match="bound"):
        list(Decoder().feed(header))


def test_a_decoder_may_be_stricter() -> None:
    with pytest.raises(ProtocolError, match="bound of 5"):
        list(Decoder(5).feed(GOOD))


def test_another_version_is_refused_by_name() -> None:
    header = protocol._HEADER.pack(protocol.MAGIC, 9, b"D", 0, 2)
    with pytest.raises(ProtocolError, match="version 9"):
        list(Decoder().feed(header + b"{}"))


@pytest.mark.parametrize("body", [b"[]", b"1", b"nul", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    header = protocol._HEADER.pack(protocol.MAGIC, protocol.VERSION, b"D", 0, len(body))
    with pytest.raises(ProtocolError):
        list(Decoder().feed(header + body))


def test_nan_is_no_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(Frame(Kind.DONE, {"n": float("nan")}))
