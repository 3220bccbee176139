"""No two ids share a folder, on a simulated file system that ignores case, decomposes names, or does both.

The simulation is a list of names: making one that the file system takes for another one does nothing, and a listing
gives names in the file system's form.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.conversations.model import conversation_id_of
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.files import FolderNames, as_seen_carelessly, folder_name

Form = Callable[[str], str]


def as_it_is(name: str) -> str:
    return name


def composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def decomposed(name: str) -> str:
    return unicodedata.normalize("NFD", name)


class FileSystem:
    """`stored`: how a listing shows a name. `key`: names with the same key are one."""

    def __init__(self, stored: Form, key: Form) -> None:
        self._stored = stored
        self._key = key
        self.names: list[str] = []

    def make(self, name: str) -> str:
        """The folder that is then open under `name`: the one that is there already, or a new one."""
        for present in self.names:
            if self._key(present) == self._key(name):
                return present
        self.names.append(self._stored(name))
        return self.names[-1]


SYSTEMS = {
    "ext4": (as_it_is, as_it_is),
    "NTFS": (as_it_is, str.casefold),
    "HFS+": (decomposed, as_seen_carelessly),
    "HFS+ with case": (decomposed, decomposed),
    "APFS": (as_it_is, as_seen_carelessly),
    "a zip from a Mac on ext4": (decomposed, as_it_is),
}
SPELLINGS = "work Work WORK woRk con CON Con é É e\u0301 E\u0301 ß ss SS ſs K \u212a k i İ ı \ufb01 fi 각 が"
WORDS = st.one_of(
    st.sampled_from(SPELLINGS.split(" ")),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
)
NODE = st.sampled_from(["work", "Work", "WORK", "con", "k", "K", "ss", "SS", "fi"])


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS.keys())
@given(node=st.lists(NODE, unique=True), words=st.lists(WORDS, min_size=2, max_size=12))
def test_no_two_ids_share_a_folder(
    system: tuple[Form, Form], node: list[str], words: list[str]
) -> None:
    disk = FileSystem(*system)
    # The Node original opens whatever opens under an id: what it made first names the folder.
    folders_of_node = {disk.make(name) for name in node}
    ids: dict[str, str] = {}
    for word in [*words, *words]:
        try:
            name = conversation_id_of(word)
        except InvalidInput:
            continue
        folder = disk.make(FolderNames(disk.names).of(name))
        assert ids.setdefault(name, folder) == folder, "an id keeps its folder"
    assert len(set(ids.values())) == len(ids)
    for name, folder in ids.items():
        assert folder not in folders_of_node or folder == name


@given(WORDS, WORDS)
def test_names_of_different_ids_are_different_for_the_most_careless_system(
    first: str, second: str
) -> None:
    try:
        first = conversation_id_of(first)
        second = conversation_id_of(second)
    except InvalidInput:
        return
    names = {as_seen_carelessly(folder_name(name)) for name in (first, second)}
    assert len(names) == len({first, second})


@pytest.mark.parametrize(
    ("listed", "conversation_id", "name"),
    [
        ([], "work", "work"),
        (["work"], "work", "work"),
        (["Work"], "work", "hashed"),
        (["Work"], "Work", "Work"),
        (["Work"], "WORK", "hashed"),
        (["work"], "Work", "hashed"),
        (["work", "Work"], "work", "work"),
        (["work", "Work"], "Work", "Work"),
        (["\u212aelvin"], "kelvin", "hashed"),
        (["CON"], "con", "hashed"),
        (["con"], "con", "con"),
        (["小明"], "小明", "hashed"),
        (["é"], "é", "hashed"),
        (["other", "worker"], "work", "work"),
    ],
)
def test_a_table_of_what_is_there(listed: list[str], conversation_id: str, name: str) -> None:
    folder = FolderNames(listed).of(conversation_id)
    assert folder == name or (name == "hashed" and folder.startswith(f"{conversation_id}~"))
    # Once it is there it stays the one, whatever comes beside it.
    assert (
        FolderNames([*listed, folder, conversation_id.upper(), conversation_id.lower()]).of(
            conversation_id
        )
        == folder
    )
