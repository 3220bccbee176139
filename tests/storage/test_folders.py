"""A folder for every id."""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import NOW, memory
from store_on_disk import commit, open_store, reopened

from memory_server.conversations.changes import Added
from memory_server.conversations.model import conversation_id_of
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.files import find_folder, folder_name, make_folder, patiently, subfolders
from memory_server.storage.json_store.examination import examine

IDS = [
    *(
        "default",
        "work-2",
        "a_b",
        "0",
        "小明",
        "小红",
        "a/b",
        "a:b",
        "a\\b",
        "CON",
        "con",
        "nul",
        "com1",
        "lpt9",
        "aux",
    ),
    *(
        "..",
        ".",
        "Work",
        "work",
        "WORK",
        "x" * 64,
        "x" * 65,
        "y" * 256,
        "ピザ",
        "생일",
        "🎂",
        "~",
        "小明~",
        " ",
        "a b",
        "a.",
    ),
    *(
        "/",
        "../../etc/passwd",
        "C:\\x",
        "\u202eabc",
        "é",
        "e\u0301x",
        "ß",
        "ss",
        "İ",
        "ｗｏｒｋ",
        "-",
        "--help",
    ),
]


@pytest.mark.parametrize("conversation_id", IDS)
def test_a_folder_name_is_safe_on_every_system(conversation_id: str) -> None:
    name = folder_name(conversation_id)
    assert name not in ("", ".", "..")
    assert not set(name) & set('/\\:*?"<>|\0')
    assert name[-1] not in ". "
    assert name[0] != "."
    assert name.split(".")[0].upper() not in {"CON", "PRN", "AUX", "NUL", "COM1", "LPT9"}
    assert len(name.encode()) <= 64 if name == conversation_id else len(name.encode()) <= 73
    assert unicodedata.normalize("NFC", name) == name


def test_distinct_ids_have_folders_that_no_file_system_takes_for_one() -> None:
    def as_a_careless_system_sees_it(name: str) -> str:
        return unicodedata.normalize("NFKD", name).casefold()

    names = {as_a_careless_system_sees_it(folder_name(conversation_id)) for conversation_id in IDS}
    assert len(names) == len(IDS)


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_folders_never_collide(first: str, second: str) -> None:
    try:
        first = conversation_id_of(first)
        second = conversation_id_of(second)
    except InvalidInput:
        return
    names = [folder_name(name).casefold() for name in (first, second)]
    assert (names[0] == names[1]) is (first == second)


@pytest.mark.parametrize(
    ("conversation_id", "name"),
    [
        ("work-2", "work-2"),
        ("小明", "小明~df3ea25a4369305a82412d479a21bd5e"),
        ("a/b", "a_b~c14cddc033f64b9dea80ea675cf280a0"),
        ("Work", "Work~104ab9213e28e4ff5ba0b4086457503e"),
    ],
)
def test_folder_names_do_not_change_between_releases(conversation_id: str, name: str) -> None:
    assert folder_name(conversation_id) == name


# --- ids ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*IDS[:-1], "x" * 256])
def test_ids_of_any_script_are_accepted(text: str) -> None:
    if text.strip():
        assert conversation_id_of(text) == unicodedata.normalize("NFC", text)


def test_both_normal_forms_are_one_conversation() -> None:
    for text in ("é", "が", "각", "Å"):
        forms = {conversation_id_of(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")}
        assert len(forms) == 1
    # 256 characters count after composition.
    assert len(conversation_id_of("e\u0301" * 256)) == 256


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("  \u3000", "is empty"),
        ("x" * 257, "has 257 characters"),
        ("a\nb", "line break"),
        ("a\u2028b", "line break"),
        ("a\u2029b", "line break"),
        ("a\0b", "control character"),
        ("a\x7f", "control character"),
        ("a\ud800", "broken surrogate"),
    ],
)
def test_other_ids_are_refused_in_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        conversation_id_of(text)


# --- finding -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("conversation_id", ["Work", "UPPER_CASE-1", "con", "CON", "Default"])
def test_a_folder_of_the_node_original_is_taken_as_it_is(
    tmp_path: Path, conversation_id: str
) -> None:
    assert find_folder(tmp_path, conversation_id).name == folder_name(conversation_id)
    (tmp_path / conversation_id).mkdir()
    assert find_folder(tmp_path, conversation_id) == tmp_path / conversation_id


def test_our_folder_stays_the_one_when_the_node_original_makes_its_own_later(
    tmp_path: Path,
) -> None:
    ours = find_folder(tmp_path, "Work")
    ours.mkdir()
    (tmp_path / "Work").mkdir()
    assert find_folder(tmp_path, "Work") == ours


@pytest.fixture
def without_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds `Work` on a simulated file system without case: every spelling opens it (as links that
    a listing leaves out), and a listing shows the true name."""
    (tmp_path / "Work").mkdir(mode=0o700)
    for spelling in map("".join, product(*zip("work", "WORK", strict=True))):
        if spelling != "Work":
            (tmp_path / spelling).symlink_to(tmp_path / "Work")
    scandir = os.scandir

    @contextmanager
    def listing(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(path) as entries:
            yield (entry for entry in entries if not entry.is_symlink())

    monkeypatch.setattr(os, "scandir", listing)
    return tmp_path


@pytest.mark.parametrize("conversation_id", ["work", "WORK", "wORK"])
def test_what_opens_under_another_name_is_not_taken(
    without_case: Path, conversation_id: str
) -> None:
    assert find_folder(without_case, "Work").name == "Work"
    assert (without_case / conversation_id).is_dir()
    name = find_folder(without_case, conversation_id).name
    assert name.startswith(f"{conversation_id}~")
    (without_case / name).mkdir()
    assert find_folder(without_case, conversation_id).name == name


@pytest.mark.anyio
async def test_ids_that_differ_in_case_share_nothing_without_case(without_case: Path) -> None:
    (without_case / "Work" / "short-term-memory.json").write_text("[]")
    ids = ["Work", "WORK", "work", "wOrk"]
    store = open_store(without_case)
    for name in ids:
        await commit(store, Added(memory(f"of {name}")), chat=name)
        await store.compact(name)
    await store.aclose()
    assert await open_store(without_case).conversations() == sorted(ids)
    for name in ids:
        assert [*(await reopened(without_case, name)).short_term] == [f"of {name}"]
    for folder in subfolders(without_case):
        assert not [
            finding for finding in examine(without_case, folder, NOW) if finding.grade != "ok"
        ]


@pytest.mark.anyio
async def test_a_folder_whose_name_came_back_decomposed_is_found(tmp_path: Path) -> None:
    await commit(open_store(tmp_path), Added(memory("a")), chat="Zoé が 각")
    (folder,) = subfolders(tmp_path)
    folder.rename(folder.with_name(unicodedata.normalize("NFD", folder.name)))
    store = open_store(tmp_path)
    assert await store.conversations() == ["Zoé が 각"]
    await commit(store, Added(memory("b")), chat="Zoé が 각")
    assert [*(await reopened(tmp_path, "Zoé が 각")).short_term] == ["a", "b"]
    (folder,) = subfolders(tmp_path)
    assert not [finding for finding in examine(tmp_path, folder, NOW) if finding.grade != "ok"]


@pytest.mark.parametrize("conversation_id", ["..", ".", "a/b", "../x", "小明"])
def test_no_id_leads_out_of_the_data_folder(tmp_path: Path, conversation_id: str) -> None:
    inside = tmp_path / "data"
    inside.mkdir()
    assert find_folder(inside, conversation_id).resolve().parent == inside


def test_folders_are_private_and_their_names_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("memory_server.kernel.files.sync_folder", synced.append)
    make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    if os.name != "nt":
        assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_subfolders_are_those_that_can_be_conversations(tmp_path: Path) -> None:
    for name in ("b", "a", ".memory-server", ".git"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert [folder.name for folder in subfolders(tmp_path)] == ["a", "b"]
    assert list(subfolders(tmp_path / "nowhere")) == []


class Held(OSError):
    """What Windows says of a file that another program has open."""

    def __init__(self, code: int) -> None:
        super().__init__("held")
        self.winerror = code


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each pause, for which nothing waits."""
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


@pytest.mark.parametrize("code", [5, 32, 33])
def test_a_file_that_another_program_holds_is_tried_again(code: int, pauses: list[float]) -> None:
    def call() -> str:
        if len(pauses) < 4:
            raise Held(code)
        return "done"

    assert patiently(call) == "done"
    assert pauses == [0.02, 0.04, 0.08, 0.16]


def test_a_file_with_a_lease_is_tried_again(pauses: list[float]) -> None:
    def call() -> str:
        if len(pauses) < 2:
            raise BlockingIOError("Resource temporarily unavailable")
        return "done"

    assert patiently(call) == "done"


@pytest.mark.parametrize(
    ("error", "tries"), [(Held(5), 10), (Held(2), 1), (PermissionError("no"), 1)]
)
def test_trying_again_has_an_end_and_is_for_held_files_only(
    error: OSError, tries: int, pauses: list[float]
) -> None:
    calls: list[None] = []

    def call() -> None:
        calls.append(None)
        raise error

    with pytest.raises(OSError, match=r"held|no"):
        patiently(call)
    assert len(calls) == tries
    if tries > 1:
        assert sum(pauses) == pytest.approx(2.5)
    else:
        assert pauses == []
