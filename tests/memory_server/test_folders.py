"""A folder for every id."""

from __future__ import annotations

import os
import unicodedata
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.errors import InvalidInput
from memory_server.model import conversation_id_of
from memory_server.storage.folders import find_folder, folder_name, make_folder, patiently, subfolders

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
    *("/", "../../etc/passwd", "C:\\x", "\u202eabc", "é", "e\u0301x", "ß", "ss", "İ", "ｗｏｒｋ", "-", "--help"),
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

    names = {as_a_careless_system_sees_it(folder_name(one)) for one in IDS}
    assert len(names) == len(IDS)


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_folders_never_collide(one: str, other: str) -> None:
    try:
        one, other = conversation_id_of(one), conversation_id_of(other)
    except InvalidInput:
        return
    names = [folder_name(name).casefold() for name in (one, other)]
    assert (names[0] == names[1]) is (one == other)


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
    ("text", "why"),
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
def test_other_ids_are_refused_in_one_sentence(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        conversation_id_of(text)


# --- finding -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("conversation_id", ["Work", "UPPER_CASE-1", "con", "CON", "Default"])
def test_a_folder_of_the_node_original_is_taken_as_it_is(tmp_path: Path, conversation_id: str) -> None:
    assert find_folder(tmp_path, conversation_id).name == folder_name(conversation_id)
    (tmp_path / conversation_id).mkdir()
    assert find_folder(tmp_path, conversation_id) == tmp_path / conversation_id


def test_our_folder_stays_the_one_when_the_node_original_makes_its_own_later(tmp_path: Path) -> None:
    ours = find_folder(tmp_path, "Work")
    ours.mkdir()
    (tmp_path / "Work").mkdir()
    assert find_folder(tmp_path, "Work") == ours


def test_a_folder_of_another_case_is_not_taken_on_a_case_insensitive_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "WORK").mkdir()
    monkeypatch.setattr(Path, "is_dir", lambda self: self.name.casefold() == "work")
    assert find_folder(tmp_path, "Work").name == folder_name("Work")
    assert find_folder(tmp_path, "WORK").name == "WORK"


@pytest.mark.parametrize("conversation_id", ["..", ".", "a/b", "../x", "小明"])
def test_no_id_leads_out_of_the_data_folder(tmp_path: Path, conversation_id: str) -> None:
    inside = tmp_path / "data"
    inside.mkdir()
    assert find_folder(inside, conversation_id).resolve().parent == inside


def test_folders_are_private_and_their_names_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("memory_server.storage.folders.sync_folder", synced.append)
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


def test_different_ids_differ_in_pairs() -> None:
    assert all(folder_name(a) != folder_name(b) for a, b in combinations(IDS, 2))


class Held(OSError):
    """What Windows says of a file that another program has open."""

    def __init__(self, code: int) -> None:
        super().__init__("held")
        self.winerror = code


@pytest.mark.parametrize("code", [5, 32, 33])
def test_a_file_that_another_program_holds_is_tried_again(code: int) -> None:
    pauses: list[float] = []

    def call() -> str:
        if len(pauses) < 4:
            raise Held(code)
        return "done"

    assert patiently(call, pauses.append) == "done"
    assert pauses == [0.02, 0.04, 0.08, 0.16]


@pytest.mark.parametrize(("error", "tries"), [(Held(5), 10), (Held(2), 1), (PermissionError("no"), 1)])
def test_trying_again_has_an_end_and_is_for_held_files_only(error: OSError, tries: int) -> None:
    pauses: list[float] = []
    calls: list[None] = []

    def call() -> None:
        calls.append(None)
        raise error

    with pytest.raises(OSError, match=r"held|no"):
        patiently(call, pauses.append)
    assert len(calls) == tries
    assert sum(pauses) == (pytest.approx(2.5) if tries > 1 else 0)
