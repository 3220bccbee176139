"""The journal of one partition: what counts, what does not, and what a failed append leaves."""

from __future__ import annotations

import errno
import json
import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.kernel import files as folders
from memory_server.storage.partition import journal
from memory_server.storage.partition.journal import BadLine, Header, Place, Tail

HEADER = Header(generation=3, base=41, snapshots={"a.json": "sha256:00", "b.json": None})
HEAD = journal.header_line(HEADER)
COMMITS: list[dict[str, Any]] = [
    {"v": 1, "seq": 42, "changes": [{"text": "小明: 我喜欢\n披萨 🎂"}]},
    {"v": 1, "seq": 43, "changes": []},
    {"v": 1, "seq": 44, "changes": [{"n": 123456789012345678901234567890, "crc": "deadbeef"}]},
    {"v": 1, "compacted": {"a.json": "sha256:11"}},
]


def frame(fields: dict[str, Any]) -> bytes:
    return journal.frame(
        fields, json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    )


LINES = [frame(fields) for fields in COMMITS]
WHOLE = HEAD + b"".join(LINES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    journal_path = tmp_path / "journal.jsonl"
    journal_path.write_bytes(WHOLE)
    return journal_path


def test_what_was_written_is_read(path: Path) -> None:
    assert journal.read_header(path) == HEADER
    assert journal.read(path)[:2] == (HEADER, Tail(tuple(COMMITS), (), len(WHOLE), b""))


def test_a_line_is_json_with_a_checksum_at_its_end() -> None:
    assert journal.frame({"a": 1}) == b'{"a":1,"crc":"a702fc6e"}\n'


def placed(number: int) -> Place:
    """The place after the header and `number` lines, as somebody has it who read them."""
    read = HEAD + b"".join(LINES[:number])
    return Place(HEAD, len(read), read[-19:])


@pytest.mark.parametrize("number", range(len(LINES) + 1))
@pytest.mark.parametrize("torn", [b"", b'{"v":1,"seq"'])
def test_reading_goes_on_from_any_line(path: Path, number: int, torn: bytes) -> None:
    path.write_bytes(WHOLE + torn)
    end = placed(len(LINES))
    assert journal.follow(path, placed(number)) == (
        Tail(tuple(COMMITS[number:]), (), len(WHOLE), torn),
        end,
    )
    assert journal.read(path)[2] == end


@pytest.mark.parametrize("number", range(len(LINES) + 1))
def test_reading_does_not_go_on_where_another_line_ends_or_another_journal_begins(
    path: Path, number: int
) -> None:
    end = placed(number)
    for content in (
        WHOLE.replace(HEAD, journal.header_line(replace(HEADER, generation=4))),
        WHOLE[: end.offset - 1],
        WHOLE[: end.offset - 19] + b"0" * 18 + b"\n" + WHOLE[end.offset :],
        b"",
    ):
        path.write_bytes(content)
        assert journal.follow(path, end) is None
    path.unlink()
    with pytest.raises(FileNotFoundError):
        journal.follow(path, end)


def test_every_truncation_at_every_byte_is_a_committed_prefix() -> None:
    ends = [sum(map(len, LINES[:number])) for number in range(len(LINES) + 1)]
    body = b"".join(LINES)
    for cut in range(len(body) + 1):
        tail = journal.parse_tail(body[:cut], 100)
        complete = sum(end <= cut for end in ends) - 1
        assert tail == Tail(
            tuple(COMMITS[:complete]), (), 100 + ends[complete], body[ends[complete] : cut]
        )


def test_a_header_cut_at_any_byte_is_no_header(path: Path) -> None:
    for cut in range(len(HEAD)):
        path.write_bytes(HEAD[:cut])
        assert journal.read_header(path) is None
    path.unlink()
    assert journal.read_header(path) is None
    with pytest.raises(FileNotFoundError):
        journal.read(path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "no checksum"),
        (b"{}", "no checksum"),
        (b'{"a":1}', "no checksum"),
        (b'{"seq":1,"changes":[]}', "no checksum"),
        (b',"crc":"00000000"}', "no checksum"),
        (LINES[0][:-1].replace("披萨".encode(), "生日".encode()), "checksum does not match"),
        (LINES[0][:-2], "no checksum"),
        (LINES[0][:-3] + b"}", "no checksum"),
        (b"\0" * 200, "no checksum"),
        (frame({"a": 1})[:-1].replace(b"crc", b"CRC"), "no checksum"),
        (b'[1,"crc":"%08x"}' % zlib.crc32(b"[1"), "not JSON"),
    ],
)
def test_a_bad_line_in_the_middle_is_passed_over_with_its_reason(line: bytes, reason: str) -> None:
    tail = journal.parse_tail(LINES[0] + line + b"\n" + LINES[1], 7)
    assert tail.lines == (COMMITS[0], COMMITS[1])
    [bad] = tail.bad
    assert bad == BadLine(7 + len(LINES[0]), line, bad.reason)
    assert reason in bad.reason.english
    assert tail.torn == b""


@given(st.data())
def test_no_flipped_byte_makes_another_commit(data: st.DataObject) -> None:
    body = bytearray(b"".join(LINES))
    position = data.draw(st.integers(0, len(body) - 1))
    body[position] ^= data.draw(st.integers(1, 255))
    tail = journal.parse_tail(bytes(body), 0)
    # A checksum of 32 bits catches every single flipped byte: what is read was written, in order.
    unharmed = [number for number, commit in enumerate(COMMITS) if commit in tail.lines]
    assert list(tail.lines) == [COMMITS[number] for number in unharmed]
    assert len(unharmed) >= len(COMMITS) - 2
    bad_bytes = sum(len(bad.data) + 1 for bad in tail.bad)
    unharmed_bytes = sum(len(LINES[number]) for number in unharmed)
    assert bad_bytes + unharmed_bytes + len(tail.torn) == len(body)


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(data: bytes) -> None:
    tail = journal.parse_tail(data, 0)
    assert tail.end + len(tail.torn) == len(data)
    assert tail.lines == ()


# --- appending ---------------------------------------------------------------------------------------------


def test_appending_overwrites_what_a_crashed_writer_left(path: Path) -> None:
    path.write_bytes(HEAD + LINES[0] + LINES[1][:-1] * 2)  # no newline: it was never finished
    end = journal.append(path, placed(1), [LINES[2], LINES[1]])
    assert path.read_bytes() == HEAD + LINES[0] + LINES[2] + LINES[1]
    assert end == Place(HEAD, path.stat().st_size, LINES[1][-19:])
    assert journal.follow(path, end) == (Tail((), (), end.offset, b""), end)


def test_a_line_that_came_since_the_lock_is_not_overwritten_because_then_the_lock_does_not_hold(
    path: Path,
) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        journal.append(path, placed(1), [LINES[2]])
    assert path.read_bytes() == WHOLE


def test_an_append_is_durable_before_it_returns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    monkeypatch.setattr(journal, "sync_file", lambda descriptor: synced.append(path.read_bytes()))
    journal.append(path, placed(len(LINES)), [LINES[0]])
    assert synced == [WHOLE + LINES[0]]


def test_a_failed_sync_leaves_no_line_that_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(journal, "sync_file", fail)
    with pytest.raises(OSError, match="Input/output"):
        journal.append(path, placed(len(LINES)), [LINES[0]])
    assert path.read_bytes() == WHOLE


class FullDisk:
    """A file that takes `room` more bytes, a few at a time, and then says the disk is full."""

    def __init__(self, file: Any, room: int) -> None:
        self._file = file
        self._room = room

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        if self._room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = min(self._room, 7)
        self._room -= min(count, len(data))
        return int(self._file.write(data[:count]))


@pytest.mark.parametrize("room", [0, 1, 7, 20, 10_000])
def test_a_full_disk_leaves_the_journal_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    def opened(*arguments: Any, **options: Any) -> FullDisk:
        return FullDisk(folders.open_file(*arguments, **options), room)

    monkeypatch.setattr(journal, "open_file", opened)
    if room < len(LINES[0]):
        with pytest.raises(OSError, match="No space left"):
            journal.append(path, placed(len(LINES)), [LINES[0]])
        assert path.read_bytes() == WHOLE
    else:
        # Short writes are gone on with.
        journal.append(path, placed(len(LINES)), [LINES[0]])
        assert path.read_bytes() == WHOLE + LINES[0]


# --- whole files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write", [folders.write_aside, folders.append_durably, folders.replace_file]
)
@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_all_bytes_have_left_the_buffer_when_a_file_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, size: int
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(
        folders, "sync_file", lambda descriptor: sizes.append(os.fstat(descriptor).st_size)
    )
    write(tmp_path / "file", b"x" * size)
    assert sizes == [size]


def test_a_file_is_whole_before_it_takes_its_name_and_the_name_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    syncs: list[tuple[str, bytes]] = []
    monkeypatch.setattr(
        folders, "sync_file", lambda descriptor: syncs.append(("file", path.read_bytes()))
    )
    monkeypatch.setattr(
        folders, "sync_folder", lambda folder: syncs.append((folder.name, path.read_bytes()))
    )
    folders.replace_file(path, b"new")
    assert syncs == [("file", b"old"), (tmp_path.name, b"new")]


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, b"b\n"), (b"", b"b\n"), (b"a\n", b"a\nb\n"), (b"a\ntor", b"a\ntor\nb\n")],
)
def test_a_torn_line_in_a_kept_file_does_not_spoil_the_next(
    tmp_path: Path, before: bytes | None, after: bytes
) -> None:
    path = tmp_path / "history.jsonl"
    if before is not None:
        path.write_bytes(before)
    folders.append_durably(path, b"b\n")
    assert path.read_bytes() == after


@pytest.mark.parametrize(
    ("version", "counts"),
    [(0, True), (2**53 - 1, True), (2**53, False), (-1, False), (True, False), (1.0, False)],
)
def test_a_version_is_a_whole_number_that_json_holds_exactly(version: object, counts: bool) -> None:
    line = frame({"v": 1, "seq": version, "changes": []})
    assert isinstance(journal.parse_line(line[:-1]), dict) == counts
