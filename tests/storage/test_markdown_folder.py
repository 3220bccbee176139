"""Entries as Markdown files that people edit: names, edits by hand, broken files, moves, and a clean `git status`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from entries_held import page, search

from memory_server.kernel.errors import InvalidInput, LockTimeout, StorageError, StorageUnwritable
from memory_server.kernel.files import hashed_name, try_lock
from memory_server.knowledge import front_matter
from memory_server.knowledge.entry import (
    Change,
    Entry,
    Filter,
    Operation,
    Purge,
    Query,
    archived,
    live,
)
from memory_server.knowledge.layers import LAYER
from memory_server.knowledge.ports import Committed
from memory_server.storage.entries import markdown_folder
from memory_server.storage.entries.markdown_folder import MarkdownFolder

pytestmark = pytest.mark.anyio
NOW = 1_705_314_600_000
"""2024-01-15T10:30:00Z"""
EVERYTHING = Filter(archived=None)


def opened(tmp_path: Path, **parameters: object) -> MarkdownFolder:
    return MarkdownFolder(
        tmp_path / "memory",
        locks=tmp_path / "locks",
        **({"zone": UTC, "wait_seconds": 0.3} | parameters),  # type: ignore[arg-type]
    )


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[MarkdownFolder]:
    opened_folder = opened(tmp_path)
    yield opened_folder
    await opened_folder.aclose()


def entry(key: str, body: str = "body", tags: Sequence[str] = ()) -> Entry:
    return Entry(body, key=key, title=key, tags=tuple(tags), created_ms=NOW, updated_ms=NOW)


async def commit(folder: MarkdownFolder, *changes: Change) -> Committed[None]:
    return await folder.commit(LAYER, lambda view: (changes, None), Operation("test"))


async def keys(folder: MarkdownFolder, where: Filter = EVERYTHING) -> list[str]:
    entries, _ = await page(folder, LAYER, where)
    return sorted(entry.key or "" for entry in entries)


async def entries_in(
    folder: MarkdownFolder, where: Filter | None = None, **how: Any
) -> list[Entry]:
    entries, _ = await page(folder, LAYER, where or Filter(), **how)
    return entries


def files(folder: MarkdownFolder) -> list[str]:
    return sorted(
        str(path.relative_to(folder.place)) for path in folder.place.rglob("*") if path.is_file()
    )


def by_hand(path: Path, text: str, age_seconds: float = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if age_seconds:
        os.utime(path, (time.time() - age_seconds,) * 2)


async def test_a_file_is_byte_for_byte_the_seeds_example(folder: MarkdownFolder) -> None:
    body = "## API設計の決定事項\n\nREST API は以下の方針で設計する:\n- バージョニングは URL パスで（/api/v1/...）"
    await commit(folder, entry("api-design-decision", body, ["architecture", "api", "decision"]))
    front = (
        "---\nkey: api-design-decision\ntags:\n  - architecture\n  - api\n  - decision\n"
        "created_at: 2024-01-15T10:30:00\nupdated_at: 2024-01-15T10:30:00\n---\n\n"
    )
    assert (folder.place / "api-design-decision.md").read_bytes() == f"{front}{body}\n".encode()


NAMES = [
    "a/b",
    "a:b",
    "Api",
    "api",
    "API",
    "CON",
    "con.txt",
    "小明",
    "k" * 200,
    "小" * 200,
    ".hidden",
    "..",
    "-",
    "a.",
    "é",
]


async def test_any_key_has_a_file_of_its_own_on_any_disk(
    folder: MarkdownFolder, tmp_path: Path
) -> None:
    for key in NAMES:
        await commit(folder, entry(key, f"text of {key}"))
    names = files(folder)
    assert len({name.casefold() for name in names}) == len(names) == len(NAMES)
    assert {"Api.md", "小明.md", "é.md"} < set(names)
    assert "CON.md" not in names
    assert all(len(name.encode()) <= 255 and not set(name) & set('\\/:*?"<>|') for name in names)
    other_process = opened(tmp_path)
    for key in NAMES:
        (stored,) = [
            candidate for candidate in await entries_in(other_process) if candidate.key == key
        ]
        assert stored.body == f"text of {key}"
        await commit(other_process, archived(stored, "deleted", NOW))
    assert sorted(NAMES) == await keys(folder, Filter(archived=True))
    assert await keys(folder, Filter()) == []
    for stored in await entries_in(folder, Filter(archived=True)):
        await commit(folder, live(stored))
    assert sorted(NAMES) == await keys(other_process, Filter())
    assert not [name for name in files(folder) if name.startswith("archive")]
    await other_process.aclose()


async def test_what_people_do_to_files_is_simply_true(folder: MarkdownFolder) -> None:
    await commit(folder, entry("one", "披萨"), entry("two", "拉面"))
    text = (folder.place / "one.md").read_text(encoding="utf-8")
    by_hand(folder.place / "one.md", text.replace("披萨", "寿司"))
    assert (await search(folder, LAYER, Query("寿司"))).total == 1
    assert (await search(folder, LAYER, Query("披萨"))).total == 0
    (folder.place / "two.md").unlink()
    assert await keys(folder) == ["one"]
    by_hand(folder.place / "three.md", "---\nkey: three\ntags: [x]\n---\nnew by hand\n")
    by_hand(folder.place / "noted.md", "---\ntags: a, b\n---\nthe name is the key\n")
    by_hand(folder.place / "README.md", "# no entry\n")
    assert await keys(folder) == ["noted", "one", "three"]
    (folder.place / "three.md").rename(folder.place / "other.md")
    assert await keys(folder) == ["noted", "one", "three"]
    (folder.place / "archive").mkdir()
    (folder.place / "one.md").rename(folder.place / "archive" / "one.md")
    assert await keys(folder, Filter(archived=True)) == ["one"]
    # Two files exchange their keys.
    by_hand(folder.place / "noted.md", "---\nkey: three\n---\nnoted\n")
    by_hand(folder.place / "other.md", "---\nkey: noted\n---\nother\n")
    texts = {stored.key: stored.body for stored in await entries_in(folder)}
    assert texts == {"three": "noted", "noted": "other"}
    await commit(folder, entry("README", "mine"))
    assert (folder.place / "README.md").read_text(encoding="utf-8") == "# no entry\n"


async def test_two_changes_in_the_same_moment_are_both_seen(folder: MarkdownFolder) -> None:
    path = folder.place / "one.md"
    for number in range(20):
        by_hand(path, f"---\nkey: one\n---\nnumber {number:02}\n")
        os.utime(path, ns=(1, time.time_ns() // 10**9 * 10**9))
        (stored,) = await entries_in(folder)
        assert stored.body == f"number {number:02}"


async def test_a_change_keeps_what_it_does_not_know(folder: MarkdownFolder) -> None:
    text = "---\nowner: me  # who\nkey: one\ncreated_at: 2024-01-15T12:30:00+02:00\nmetadata:\n  a: 1\n---\n\nold\n"
    by_hand(folder.place / "a_b.md", text)
    (folder.place / "a_b.md").chmod(0o640)
    (stored,) = await entries_in(folder)
    assert stored.created_ms == NOW
    assert stored.metadata == {"a": "1"}
    await commit(folder, Entry(**{**fields(stored), "body": "new", "updated_ms": NOW + 1000}))
    expected = text.replace("old", "new").replace(
        "  a: 1\n", "  a: 1\ntags: []\nupdated_at: 2024-01-15T10:30:01\n"
    )
    assert (folder.place / "a_b.md").read_text(encoding="utf-8") == expected
    assert (folder.place / "a_b.md").stat().st_mode & 0o777 == 0o640


def fields(entry: Entry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in Entry.__slots__}


async def test_times_are_in_the_zone_of_the_settings(tmp_path: Path) -> None:
    folder = opened(tmp_path, zone=ZoneInfo("Asia/Tokyo"))
    await commit(folder, entry("one"))
    assert "created_at: 2024-01-15T19:30:00\n" in (folder.place / "one.md").read_text(
        encoding="utf-8"
    )
    (stored,) = await entries_in(folder)
    assert stored.created_ms == NOW
    await folder.aclose()


async def test_a_broken_file_is_left_alone_and_its_key_refused(folder: MarkdownFolder) -> None:
    by_hand(folder.place / "broken.md", "---\nkey: [\n---\nprecious\n")
    await commit(folder, entry("fine"))
    assert await keys(folder) == ["fine"]
    assert list(await folder.unreadable()) == ["broken.md"]
    assert [finding.grade for finding in await folder.examine()] == ["warning"]
    with pytest.raises(
        InvalidInput, match=r"broken\.md cannot be read, because its front matter is not YAML"
    ):
        await commit(folder, entry("broken", "mine"))
    assert (folder.place / "broken.md").read_text(
        encoding="utf-8"
    ) == "---\nkey: [\n---\nprecious\n"
    by_hand(folder.place / "broken.md", "---\nkey: broken\n---\nmended\n")
    assert await keys(folder) == ["broken", "fine"]
    assert [finding.grade for finding in await folder.examine()] == ["ok"]


async def test_of_two_files_of_one_key_the_newer_one_counts(folder: MarkdownFolder) -> None:
    by_hand(folder.place / "a.md", "---\nkey: k\nupdated_at: 2024-01-02\n---\nnew\n")
    by_hand(folder.place / "b.md", "---\nkey: k\nupdated_at: 2024-01-01\n---\nold\n")
    assert [stored.body for stored in await entries_in(folder)] == ["new"]
    (finding,) = await folder.examine()
    assert "b.md has the key of a newer file" in str(finding)
    (folder.place / "a.md").unlink()
    assert [stored.body for stored in await entries_in(folder)] == ["old"]


async def test_an_older_archived_one_comes_back_after_the_newer_one(folder: MarkdownFolder) -> None:
    for number in range(3):
        (stored,) = (await commit(folder, entry("k", f"text {number}"))).entries
        await commit(folder, archived(stored, "expired", NOW + number * 1000))
    assert len(files(folder)) == 3
    for number in (2, 1, 0):
        newest = (await entries_in(folder, Filter(archived=True), order="removed"))[0]
        assert newest.body == f"text {number}"
        (restored,) = (await commit(folder, live(newest))).entries
        assert "archived_at" not in (folder.place / "k.md").read_text(encoding="utf-8")
        await commit(folder, Purge(restored.id))
    assert files(folder) == []


async def test_killed_between_copy_and_removal_nothing_is_lost(
    folder: MarkdownFolder, tmp_path: Path
) -> None:
    (stored,) = (await commit(folder, entry("k", "text"))).entries
    before = (folder.place / "k.md").read_bytes()
    await commit(folder, archived(stored, "expired", NOW))
    (folder.place / "k.md").write_bytes(before)  # as a kill between the two leaves it
    other_process = opened(tmp_path)
    assert await keys(other_process, Filter()) == ["k"]
    assert await keys(other_process, Filter(archived=True)) == ["k"]
    (original,) = await entries_in(other_process)
    await commit(other_process, archived(original, "expired", NOW + 5000))
    assert files(other_process) == ["archive/k.md"]
    await other_process.aclose()
    assert await keys(folder) == ["k"]


async def test_what_a_killed_writer_left_is_removed(folder: MarkdownFolder) -> None:
    old = f".k.md.{'0' * 16}.next"
    new = f".new.md.{'1' * 16}.next"
    by_hand(folder.place / old, "half", age_seconds=100)
    by_hand(folder.place / new, "half")
    by_hand(folder.place / "mine.md.next", "of somebody", age_seconds=100)
    await commit(folder, entry("other"))
    assert files(folder) == [new, "mine.md.next", "other.md"]
    assert await keys(folder) == ["other"]


async def test_a_layer_has_bounds_on_its_bytes_and_names_what_is_left_out(
    folder: MarkdownFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markdown_folder, "MAX_BYTES", 100_000)
    for number in range(60):
        by_hand(
            folder.place / f"small-{number}.md",
            f"---\nkey: s{number}\n---\nx\n",
            age_seconds=100 + number,
        )
    by_hand(folder.place / "large.md", "---\nkey: large\n---\n" + "x " * 30_000, age_seconds=90)
    by_hand(folder.place / "archive" / "old.md", "---\nkey: old\n---\nx\n", age_seconds=500)
    keys_read = await keys(folder)
    assert (
        len(keys_read) == 1 + 39 + 1
    )  # a small file counts as 1,000 bytes, and the archive has as much room again
    assert {"large", "s0", "s38", "old"} <= {*keys_read}
    (left_out,) = (await folder.unreadable()).items()
    assert left_out[0] == "21 more files"
    assert "newest files are read, up to" in left_out[1]
    await commit(folder, entry("new"))
    assert "new" in await keys(folder)
    with pytest.raises(InvalidInput, match=r"small-59\.md cannot be read, because of a layer"):
        await commit(folder, entry("small-59"))


async def test_many_broken_files_are_counted(folder: MarkdownFolder) -> None:
    for number in range(52):
        by_hand(folder.place / f"{number:02}.md", "---\nkey: [\n---\n")
    reasons = await folder.unreadable()
    assert len(reasons) == 51
    assert [*reasons.items()][-1] == ("2 more files", "they are broken too")


@pytest.mark.parametrize(
    ("key", "tags", "reason"),
    [
        ("k", [f"tag {number}" for number in range(500)], "more than 4,096 bytes"),
        ("k", ["[" * 21], "more than 20 levels of brackets"),
        ("k", ["[draft"] * 21, "more than 20 levels of brackets"),
        ("{" * 21, [], "more than 20 levels of brackets"),
    ],
)
async def test_what_makes_a_file_unreadable_is_refused(
    folder: MarkdownFolder, key: str, tags: Sequence[str], reason: str
) -> None:
    with pytest.raises(
        InvalidInput, match=rf"\.md was not written, because its front matter has {reason}"
    ):
        await commit(folder, entry(key, tags=tags))
    assert files(folder) == []


async def test_an_entry_that_is_as_long_as_can_be_read_makes_room_and_comes_back(
    folder: MarkdownFolder,
) -> None:
    front = (
        "key: long\ntags: []\ncreated_at: 2024-01-15\nupdated_at: 2024-01-15\n".ljust(
            front_matter.MAX_BYTES - 1, "#"
        )
        + "\n"
    )
    by_hand(folder.place / "long.md", f"---\n{front}---\n\nbody\n")
    long_entry = (await entries_in(folder, EVERYTHING))[0]
    await commit(folder, entry("new"), archived(long_entry, "over_limit", NOW))
    assert files(folder) == ["archive/long.md", "new.md"]
    (archived_entry,) = await entries_in(folder, Filter(archived=True))
    await commit(folder, live(archived_entry))
    assert (folder.place / "long.md").read_text() == f"---\n{front}---\n\nbody\n"


async def test_rights_of_an_entry_stay_but_not_that_everybody_may_write_it(
    folder: MarkdownFolder,
) -> None:
    (stored,) = (await commit(folder, entry("k"))).entries
    (folder.place / "k.md").chmod(0o666)
    await commit(folder, replace(stored, body="other"))
    assert (folder.place / "k.md").stat().st_mode & 0o777 == 0o664


async def test_looking_makes_and_changes_nothing(folder: MarkdownFolder, tmp_path: Path) -> None:
    assert await keys(folder) == []
    assert os.listdir(tmp_path) == []
    await commit(folder, entry("k", "text"))
    before = (folder.place / "k.md").stat()
    for _ in range(100):
        await search(folder, LAYER, Query("text"))
    assert (folder.place / "k.md").stat() == before


async def test_a_read_only_place_and_a_held_lock_are_one_sentence(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    await commit(folder, entry("k"))
    (lock_folder,) = (tmp_path / "locks").iterdir()
    lock = try_lock(lock_folder / "lock")
    assert lock is not None
    with pytest.raises(LockTimeout, match="nothing was changed, try again"):
        await commit(folder, entry("other"))
    lock.release()
    reader = opened(tmp_path, read_only=True)
    assert await keys(reader) == ["k"]
    with pytest.raises(StorageUnwritable):
        await commit(reader, entry("other"))
    assert files(folder) == ["k.md"]
    (tmp_path / "file").write_text("x")
    wrong = MarkdownFolder(tmp_path / "file" / "memory", locks=tmp_path / "locks")
    with pytest.raises(StorageError):
        await commit(wrong, entry("k"))
    for opened_folder in (folder, reader, wrong):
        await opened_folder.aclose()


async def test_a_caller_who_gives_up_leaves_a_whole_change_and_no_lock(
    folder: MarkdownFolder,
) -> None:
    for number in range(20):
        task = asyncio.create_task(commit(folder, entry(f"k{number}")))
        await asyncio.sleep(number * 0.0005)
        task.cancel()
        look = asyncio.create_task(page(folder, LAYER, Filter()))
        await asyncio.sleep(number * 0.0002)
        look.cancel()
    await commit(folder, entry("last"))
    assert [f"{key}.md" for key in await keys(folder)] == files(folder)


async def test_names_of_hashes_are_those_of_folders(folder: MarkdownFolder) -> None:
    await commit(folder, entry("a/b"))
    assert files(folder) == [f"{hashed_name('a/b')}.md"]


@pytest.mark.parametrize("key", ["plain", "a/b", "API"])
async def test_a_file_with_another_key_in_the_way_is_never_replaced(
    folder: MarkdownFolder, key: str
) -> None:
    (stored,) = (await commit(folder, entry(key, "first"))).entries
    path = folder.place / stored.ref
    by_hand(path, path.read_text(encoding="utf-8").replace(f"key: {key}", "key: other"))
    await commit(folder, entry(key, "second"))
    entries = {stored.key: stored for stored in await entries_in(folder)}
    assert {name: stored.body for name, stored in entries.items()} == {
        "other": "first",
        key: "second",
    }
    await commit(folder, *(archived(stored, "expired", NOW) for stored in entries.values()))
    assert await keys(folder, Filter(archived=True)) == sorted(["other", key])


@pytest.mark.parametrize("hashed", [False, True])
async def test_a_file_of_a_person_without_front_matter_is_never_replaced(
    folder: MarkdownFolder, hashed: bool
) -> None:
    name = f"{hashed_name('k') if hashed else 'k'}.md"
    for prefix in ("", "archive/"):
        by_hand(folder.place / "k.md", "# mine\n")
        by_hand(folder.place / f"{prefix}{name}", "# mine\n")
    (stored,) = (await commit(folder, entry("k", "text"))).entries
    await commit(folder, archived(stored, "expired", NOW))
    assert await keys(folder, Filter(archived=True)) == ["k"]
    assert all(
        (folder.place / f"{prefix}{name}").read_text() == "# mine\n" for prefix in ("", "archive/")
    )


@pytest.mark.parametrize("key", ["k", "a/b"])
async def test_all_that_is_archived_in_one_second_comes_back(
    folder: MarkdownFolder, key: str
) -> None:
    (named,) = (await commit(folder, entry(f"{key} {NOW}", "its key is a name of another"))).entries
    await commit(folder, archived(named, "expired", NOW))
    for number in range(4):
        (stored,) = (await commit(folder, entry(key, f"text {number}"))).entries
        await commit(folder, archived(stored, "expired", NOW))
    archive = await entries_in(folder, Filter(archived=True))
    assert sorted(stored.body for stored in archive) == [
        "its key is a name of another",
        *(f"text {number}" for number in range(4)),
    ]


@pytest.mark.skipif(os.name == "nt", reason="names are UTF-16")
async def test_a_name_that_is_not_utf_8_keeps_no_other_entry_away(folder: MarkdownFolder) -> None:
    for prefix in ("", "archive/"):
        by_hand(
            folder.place / os.fsdecode(f"{prefix}caf\udce9\n.md".encode(errors="surrogateescape")),
            "---\n---\nx\n",
        )
    await commit(folder, entry("fine"))
    assert await keys(folder) == ["fine"]
    for archive in (False, True):
        ((name, reason),) = (await folder.unreadable(archive=archive)).items()
        assert name == f"{'archive/' * archive}caf\\udce9\\n.md"
        assert reason == "its name is not UTF-8; rename it"
    assert all(
        "caf\\udce9\\n.md" in finding.what and finding.what.isprintable()
        for finding in await folder.examine()
    )


async def test_a_plain_file_in_the_place_of_the_archive_stores_nothing_and_says_so(
    folder: MarkdownFolder,
) -> None:
    (stored,) = (await commit(folder, entry("one"))).entries
    by_hand(folder.place / "archive", "not a folder")
    with pytest.raises(
        StorageUnwritable, match=r"archive is not a folder; move it away.* Nothing was changed"
    ):
        await commit(folder, entry("two"), archived(stored, "over_limit", NOW))
    assert files(folder) == ["archive", "one.md"]
    assert await keys(folder) == ["one"]
    await commit(folder, entry("three"))
    assert await keys(folder) == ["one", "three"]
