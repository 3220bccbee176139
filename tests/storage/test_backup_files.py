"""Backups as files: confined to their folder, never replaced, checked as a whole before they are used."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sample_memories import NOW, memory, trigger

from memory_server.conversations import record_lines
from memory_server.conversations.contents import Contents
from memory_server.kernel import backups as kernel_backups
from memory_server.kernel import files as folders
from memory_server.kernel.backups import BackupBroken, BackupNotFound, backup_name
from memory_server.kernel.errors import InvalidInput, LockTimeout, StorageUnwritable
from memory_server.storage.backups.files import ENDING, BackupFileWriter, BackupFolder

HELD = Contents("小明", (memory("a", extra={"mood": "calm"}), memory("b")), (trigger("生日"),), NOW)


def backups_with(folder: Path, name: str = "one") -> BackupFolder:
    backups = BackupFolder(folder)
    writer = backups.begin(name, NOW)
    writer.add(HELD)
    writer.finish()
    return backups


def read(backups: BackupFolder, name: str = "one") -> list[Contents]:
    with backups.open(name) as (_, conversations):
        return list(conversations)


def test_what_is_set_aside_is_read_again_and_listed(tmp_path: Path) -> None:
    backups = backups_with(tmp_path / "backups")
    assert read(backups) == [HELD]
    (listed,) = backups.listed()
    path = tmp_path / "backups" / f"one{ENDING}"
    assert listed.name == "one"
    assert listed.created_ms == NOW
    assert listed.size_bytes == path.stat().st_size
    assert listed.conversations == 1
    assert listed.short_term == 2
    assert listed.long_term == 1
    assert listed.problem is None
    assert os.listdir(path.parent) == [path.name]
    if os.name != "nt":
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_any_gunzip_shows_all_of_it(tmp_path: Path) -> None:
    backups_with(tmp_path)
    lines = gzip.decompress((tmp_path / f"one{ENDING}").read_bytes()).decode().splitlines()
    assert json.loads(lines[0])["format"] == "memory-server backup"
    assert json.loads(lines[3])["short"]["mood"] == "calm"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ".",
            "..",
            "../one",
            "a/b",
            "a\\b",
            "/etc/passwd",
            "C:one",
            "a..b",
            ".one",
            "one.",
            "-x",
            "con",
            "NUL.x",
        ),
        *("a b", "a\nb", "a\0b", "x" * 121, "备" * 41),
    ],
)
def test_names_that_lead_elsewhere_or_work_nowhere_are_refused(tmp_path: Path, name: str) -> None:
    backups = BackupFolder(tmp_path / "backups")
    for use in (
        lambda: backups.begin(name, NOW),
        lambda: backups.delete(name),
        lambda: read(backups, name),
    ):
        with pytest.raises(InvalidInput, match="name"):
            use()
    assert os.listdir(tmp_path) == []


def test_names_in_any_script_are_fine() -> None:
    for name in ("before-move", "2026.05.03", "搬家前", "a", "v1_2"):
        assert backup_name(name) == name
    assert backup_name("e\u0301") == "\u00e9"


def test_a_backup_is_never_replaced_not_even_in_a_race(tmp_path: Path) -> None:
    backups = backups_with(tmp_path)
    before = (tmp_path / f"one{ENDING}").read_bytes()
    with pytest.raises(InvalidInput, match="already; choose another name"):
        backups.begin("one", NOW)
    first = backups.begin("two", NOW)
    second = backups.begin("two", NOW)
    first.finish()
    with pytest.raises(InvalidInput, match="already"):
        second.finish()
    second.discard()
    assert (tmp_path / f"one{ENDING}").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == [f"one{ENDING}", f"two{ENDING}"]


def test_of_two_backups_of_one_name_at_once_one_is_made_whole_and_the_other_refused(
    tmp_path: Path,
) -> None:
    def finish(writer: BackupFileWriter, start: threading.Barrier, mark: str) -> str | None:
        if mark in ("a", "b"):  # c holds no knowledge
            writer.beside().write_text(mark)
        writer.add(replace(HELD, conversation_id=mark))
        start.wait()
        try:
            writer.finish()
        except InvalidInput:
            return None
        finally:
            writer.discard()
        return mark

    backups = BackupFolder(tmp_path / "backups")
    with ThreadPoolExecutor(2) as pool:
        for number, marks in enumerate([("a", "b"), ("a", "c")] * 20):
            name = f"n{number}"
            start = threading.Barrier(2)
            attempts = [
                pool.submit(finish, backups.begin(name, NOW), start, mark) for mark in marks
            ]
            (maker,) = filter(None, [attempt.result() for attempt in attempts])
            assert [contents.conversation_id for contents in read(backups, name)] == [maker]
            knowledge = backups.knowledge_of(name)
            assert (knowledge.read_text() if knowledge.exists() else "c") == maker


def left_by_a_killed_deletion(folder: Path, monkeypatch: pytest.MonkeyPatch) -> BackupFolder:
    """Make a backup with knowledge, and kill the process that deletes it between its two files."""
    backups = BackupFolder(folder)
    writer = backups.begin("one", NOW)
    writer.add(HELD)
    writer.beside().write_text("knowledge of the first")
    writer.finish()
    remove = folders.remove_file

    def killed(path: Path) -> None:
        if path == backups.knowledge_of("one"):
            raise KeyboardInterrupt
        remove(path)

    with monkeypatch.context() as patch:
        patch.setattr(folders, "remove_file", killed)
        with pytest.raises(KeyboardInterrupt):
            backups.delete("one")
    assert backups.listed() == []
    return backups


def test_a_backup_has_no_knowledge_of_one_whose_deletion_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backups = left_by_a_killed_deletion(tmp_path, monkeypatch)
    backups_with(tmp_path)
    assert not backups.knowledge_of("one").exists()


def test_a_deletion_that_was_killed_is_completed_by_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backups = left_by_a_killed_deletion(tmp_path, monkeypatch)
    with pytest.raises(BackupNotFound):
        backups.delete("one")
    assert os.listdir(tmp_path) == []


def test_backups_without_a_name_of_one_moment_are_all_made(tmp_path: Path) -> None:
    backups = BackupFolder(tmp_path)
    writers = [backups.begin("20260503-120000", NOW, numbered=True) for _ in range(3)]
    names = [writer.finish().name for writer in writers]
    assert names == ["20260503-120000", "20260503-120000-2", "20260503-120000-3"]
    assert sorted(backup.name for backup in backups.listed()) == names


def test_what_a_killed_backup_left_is_removed_after_a_day(tmp_path: Path) -> None:
    leavings = [
        tmp_path / name for name in (f".{'a' * 16}.next", f".{'b' * 16}.next-journal", ".x1.body")
    ]
    recent = tmp_path / f".{'c' * 16}.next"
    of_a_person = tmp_path / ".mine.next"
    for path in (*leavings, recent, of_a_person):
        path.write_bytes(b"half")
    for path in (*leavings, of_a_person):
        os.utime(path, (time.time() - 90_000,) * 2)
    backups_with(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / f"one{ENDING}", recent, of_a_person])


def test_while_a_backup_is_restored_nobody_deletes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backups = backups_with(tmp_path / "backups")
    monkeypatch.setattr(kernel_backups, "WAIT_SECONDS", 0.05)
    release = backups.try_hold("one")
    other_process = BackupFolder(tmp_path / "backups")
    assert release is not None
    assert other_process.try_hold("one") is None
    with pytest.raises(
        LockTimeout, match=r"Another process .* a backup; nothing was changed, try again"
    ):
        other_process.delete("one")
    backups_with(tmp_path / "backups", "two")  # others are made and deleted meanwhile
    other_process.delete("two")
    release()
    assert read(backups) == [HELD]
    backups.delete("one")
    assert BackupFolder(tmp_path / "none").try_hold("one") is not None
    assert sorted(os.listdir(tmp_path)) == ["backups", "backups.lock"]


@pytest.mark.skipif(os.name == "nt", reason="names are UTF-16")
def test_odd_names_in_the_folder_are_listed_as_problems(tmp_path: Path) -> None:
    backups_with(tmp_path)
    whole = (tmp_path / f"one{ENDING}").read_bytes()
    for name in (b"a\x1b[31m", b"caf\xe9", b"a b", b"", b"x" * 200, b"a\nb"):
        (tmp_path / os.fsdecode(name + ENDING.encode())).write_bytes(whole)
    (tmp_path / f"folder{ENDING}").mkdir()
    (tmp_path / f"loop{ENDING}").symlink_to(f"loop{ENDING}")
    (tmp_path / f"gone{ENDING}").symlink_to("nowhere")
    os.mkfifo(tmp_path / f"pipe{ENDING}")
    listed = {backup.name: backup for backup in BackupFolder(tmp_path).listed()}
    assert len(listed) == 11
    assert [name for name, backup in listed.items() if backup.problem is None] == ["one"]
    assert {"a\\x1b[31m", "caf\\udce9", "a\\nb"} < listed.keys()
    assert all((backup.name + (backup.problem or "")).isprintable() for backup in listed.values())


def test_what_is_given_up_leaves_nothing_behind(tmp_path: Path) -> None:
    writer = BackupFolder(tmp_path).begin("one", NOW)
    writer.add(HELD)
    writer.discard()
    assert os.listdir(tmp_path) == []


def test_every_damaged_byte_and_every_cut_is_seen(tmp_path: Path) -> None:
    backups = backups_with(tmp_path)
    path = tmp_path / f"one{ENDING}"
    whole = path.read_bytes()
    for position in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[position] ^= 0x10
        # The bytes 4 to 9 of a gzip member say when and where it was made, and nothing of what is in it.
        for damaged in (whole[:position], bytes(flipped)):
            path.write_bytes(damaged)
            if len(damaged) == len(whole) and 3 <= position <= 9:
                with contextlib.suppress(BackupBroken):
                    assert read(backups) == [HELD]
                continue
            with pytest.raises(BackupBroken, match="The backup one cannot be used"):
                read(backups)
    path.write_bytes(whole)
    assert read(backups) == [HELD]


def forged(body: bytes, **facts: object) -> bytes:
    packed = gzip.compress(body)
    head = {
        "format": "memory-server backup",
        "version": 1,
        "created": "2026-05-03T00:00:00Z",
        "conversations": 1,
        "shortTerm": 0,
        "longTerm": 0,
        "sha256": hashlib.sha256(packed).hexdigest(),
    }
    return gzip.compress(json.dumps(head | facts).encode() + b"\n") + packed


LINES = b"".join(
    [
        record_lines.first_line(NOW),
        *record_lines.conversation_lines(HELD),
        record_lines.last_line(1),
    ]
)


def test_a_record_that_cannot_be_used_is_named_and_stays_in_a_backup_that_is_written_again(
    tmp_path: Path,
) -> None:
    content = forged(LINES.replace(b'"timestamp"', b'"when"', 1))
    (tmp_path / f"one{ENDING}").write_bytes(content)
    backups = BackupFolder(tmp_path)
    for _try in ("as it was", "written again"):
        with backups.open("one") as (_facts, conversations):
            [read] = conversations
        assert len(read.short_term) == len(HELD.short_term) - 1
        assert read.long_term == HELD.long_term
        [reason] = read.left_out
        assert "it has no timestamp" in reason
        backups.rewrite("one", lambda contents: contents)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "its first part is damaged"),
        (b"PK\x03\x04 a zip", "it is not a backup of memory-server, or its first part is damaged"),
        (gzip.compress(b"[]\n", mtime=0), "it is not a backup of memory-server"),
        (gzip.compress(b"\xff\n", mtime=0), "its first part is damaged"),
        (forged(LINES, sha256="0" * 64), "its checksum does not match"),
        (forged(LINES, version=2), "newer memory-server"),
        (forged(LINES, created="soon"), "cannot be used: .*soon"),
        (forged(LINES[:-10]), "it is not JSON"),
        (forged(LINES.replace("小明".encode(), b"a\\u0000b", 1)), "control character"),
        (gzip.compress(b" " * 10_000_000, mtime=0), "first part is damaged"),
    ],
)
def test_a_file_that_is_no_whole_backup_is_refused_before_anything_of_it_is_used(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / f"one{ENDING}").write_bytes(content)
    backups = BackupFolder(tmp_path)
    with pytest.raises(BackupBroken, match=reason), backups.open("one"):
        pytest.fail("something of it was given")
    assert len(backups.listed()) == 1


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    backups_with(tmp_path / "elsewhere")
    backups = BackupFolder(tmp_path / "backups")
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / f"one{ENDING}").symlink_to(tmp_path / "elsewhere" / f"one{ENDING}")
    with pytest.raises(BackupBroken, match="it is a link"):
        read(backups)
    with pytest.raises(InvalidInput, match="already"):
        backups.begin("one", NOW)
    assert backups.listed()[0].problem is not None
    backups.delete("one")
    assert (tmp_path / "elsewhere" / f"one{ENDING}").exists()


def test_a_missing_backup_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(BackupNotFound, match="there are none yet"):
        read(BackupFolder(tmp_path / "none"))
    backups = backups_with(tmp_path)
    for call in (lambda: read(backups, "two"), lambda: backups.delete("two")):
        with pytest.raises(BackupNotFound, match="no backup called `two`; there are one"):
            call()
    backups.delete("one")
    assert backups.listed() == []


def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = BackupFolder(tmp_path).begin("one", NOW)
    writer.add(HELD)
    monkeypatch.setattr(folders, "sync_file", full)
    with pytest.raises(StorageUnwritable, match="the disk is full"):
        writer.finish()
    writer.discard()
    assert os.listdir(tmp_path) == []
