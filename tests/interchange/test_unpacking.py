"""A hostile packed file of a megabyte takes at most 300 MB more memory than a small one, at each door."""

from __future__ import annotations

import base64
import gzip
import os
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from interchange.test_other_memories import picture
from sample_memories import NOW, memory

from memory_server.conversations.contents import Contents
from memory_server.interchange import own, png_cards
from memory_server.interchange.incoming import NotThisFormat
from memory_server.kernel.unpacking import LEAST_BYTES, UnpackingRoom, unpacked
from memory_server.storage.backups.files import BackupFolder

_MOST_MORE_BYTES = 300 * 1024 * 1024
_MANY = 1024 * 1024 * 1024
"""Bytes of blanks that deflate packs into one megabyte."""
_HEAD = b'{"format":"memory-server","version":1,"created":"2026-01-01T00:00:00.000Z"}\n'
_OBJECTS = 15_000_000
"""Empty objects of JSON, which have 45 MB, and become a gigabyte of values."""

Write = Callable[[Path], None]


def _pieces(piece: bytes, count: int) -> Iterator[bytes]:
    """`piece` so many times, a thousand of them at a time."""
    for _thousand in range(count // 1_000):
        yield piece * 1_000


def _gz(*parts: Iterator[bytes] | bytes) -> Write:
    def write(path: Path) -> None:
        with gzip.open(path, "wb") as file:
            for part in parts:
                for piece in [part] if isinstance(part, bytes) else part:
                    file.write(piece)

    return write


def _zip(name: str, *parts: Iterator[bytes] | bytes) -> Write:
    def write(path: Path) -> None:
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open(name, "w", force_zip64=True) as file,
        ):
            for part in parts:
                for piece in [part] if isinstance(part, bytes) else part:
                    file.write(piece)

    return write


def _png(path: Path) -> None:
    objects = b"{}," * 8_000_000
    card = b'{"spec":"chara_card_v2","data":{"name":"C","x":[%s0]}}' % objects
    packed = zlib.compress(base64.b64encode(card))
    path.write_bytes(picture((b"zTXt", b"chara\0\0" + packed)))


_CARD = b'{"spec":"chara_card_v3","data":{"name":"C","x":['
DOORS: dict[str, tuple[str, Callable[[], Write]]] = {
    "an export, of blanks": ("a.gz", lambda: _gz(_HEAD, _pieces(b" " * 1000, _MANY // 1000))),
    "an export, of objects": ("a.gz", lambda: _gz(_HEAD, _pieces(b'{"short":{}}\n', _OBJECTS))),
    "a file that is not ours": ("a.gz", lambda: _gz(_pieces(b" " * 1000, _MANY // 1000))),
    "a zip, of blanks": (
        "a.zip",
        lambda: _zip("conversations.json", _pieces(b" " * 1000, _MANY // 1000)),
    ),
    "a zip, of objects": (
        "a.zip",
        lambda: _zip("conversations.json", b"[", _pieces(b"{},", _OBJECTS), b"{}]"),
    ),
    "a zip of SillyTavern": (
        "a.zip",
        lambda: _zip("worlds/a.json", b'{"entries":[', _pieces(b"{},", _OBJECTS), b"{}]}"),
    ),
    "a card in a zip": (
        "a.charx",
        lambda: _zip("card.json", _CARD, _pieces(b"{},", _OBJECTS // 3), b"0]}}"),
    ),
    "a card in a picture": ("a.png", lambda: _png),
}


_RUN = """
import sys
from memory_server.__main__ import main
try:
    main()
finally:
    status = open("/proc/self/status").read()
    print("peak:", status.partition("VmHWM:")[2].split()[0], file=sys.stderr)
"""


def _peak_bytes(tmp_path: Path, path: Path) -> int:
    """The most memory of an import of this file, in a process of its own."""
    env = {**os.environ, "MEMORY_SERVER_DAEMON__ENABLED": "false"}
    arguments = ["--data-dir", str(tmp_path / "data"), "import", str(path), "-c", "chat"]
    program = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "inside the program" not in program.stderr
    assert "Traceback" not in program.stderr
    return int(program.stderr.rpartition("peak: ")[2]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it so")
@pytest.mark.parametrize(
    "door",
    [
        "a zip, of objects",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in DOORS
            if name != "a zip, of objects"
        ),
    ],
)
def test_a_hostile_megabyte_takes_little_memory(tmp_path: Path, door: str) -> None:
    small = tmp_path / "small.jsonl"
    small.write_bytes(_HEAD + b'{"conversation":"chat"}\n{"end":true}\n')
    name, writer = DOORS[door]
    hostile = tmp_path / name
    writer()(hostile)
    assert hostile.stat().st_size < 1_200_000
    more_bytes = _peak_bytes(tmp_path, hostile) - _peak_bytes(tmp_path, small)
    print(f"{door}: {more_bytes / 1024**2:,.0f} MB more")
    assert more_bytes < _MOST_MORE_BYTES


def test_the_room_of_what_is_unpacked_ends_by_its_bytes_or_by_its_values() -> None:
    assert UnpackingRoom(1).fits(b"a" * LEAST_BYTES)
    assert not UnpackingRoom(1).fits(b"a" * (LEAST_BYTES + 1))
    assert not UnpackingRoom(1).fits(b"{}," * 2_000_000)
    assert UnpackingRoom(1_000_000_000).fits(b"{}," * 2_000_000)
    room = UnpackingRoom(1)
    assert room.fits(b"a" * (LEAST_BYTES // 2))
    assert not room.fits(b"a" * (LEAST_BYTES // 2 + 1))


def test_members_are_unpacked_one_after_the_other_and_only_so_far() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"two")
    assert unpacked(data, wbits=31, most_bytes=7) == b"one two"
    for broken, most_bytes in ((data, 6), (data[:-3], 100), (b"x" + data, 100)):
        with pytest.raises(zlib.error):
            unpacked(broken, wbits=31, most_bytes=most_bytes)


_V2 = base64.b64encode(b'{"spec":"chara_card_v2","data":{"name":"Zoe"}}')


@pytest.mark.parametrize("newer", [b"[]", b"null", b"{", b"{}", b"\xff"])
def test_a_card_whose_newer_chunk_cannot_be_used_is_read_from_the_other(newer: bytes) -> None:
    chunks = [(b"tEXt", b"ccv3\0" + base64.b64encode(newer)), (b"tEXt", b"chara\0" + _V2)]
    assert b'"Zoe"' in png_cards.card_in(picture(*chunks))
    with pytest.raises(NotThisFormat, match="damaged card"):
        png_cards.card_in(picture(chunks[0]))


def _nearly_equal(count: int, conversations: int) -> list[Contents]:
    """Conversations with so many short memories each, of 20 templates."""
    words = {f"word{number}": number / 7 for number in range(8)}
    return [
        Contents(
            f"chat {chat}",
            tuple(
                memory(
                    f"{number:016x}", text=f"user: {number % 20}", words=words, chat=f"chat {chat}"
                )
                for number in range(count)
            ),
        )
        for chat in range(conversations)
    ]


def test_nearly_equal_memories_come_back_from_a_backup_of_many_conversations(
    tmp_path: Path,
) -> None:
    # Two conversations together need more memory than a file may take; each alone does not.
    written = _nearly_equal(40_000, conversations=2)
    backups = BackupFolder(tmp_path)
    writer = backups.begin("same", NOW)
    for contents in written:
        writer.add(contents)
    writer.finish()
    with backups.open("same") as (_facts, conversations):
        assert [contents.count for contents in conversations] == [40_000] * 2


def test_nearly_equal_memories_come_back_from_an_export() -> None:
    lines = b"".join(own.write_native(_nearly_equal(60_000, conversations=1), NOW))
    assert own.uncompressed(gzip.compress(lines)) == lines
