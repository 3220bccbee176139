"""Notes belong to a place: projects of one name never meet, and notes of before, which have only a name, are moved to
their place once or wait under it. In SQLite and in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from postgres_entries import entries_of_its_own

from memory_server.kernel.errors import MemoryPaused
from memory_server.knowledge.entry import Entry, Filter, Operation
from memory_server.knowledge.notes.notes import Notes
from memory_server.knowledge.notes.settling import NOTES
from memory_server.knowledge.policies import Options
from memory_server.knowledge.ports import EntryStore
from memory_server.knowledge.projects import (
    Project,
    is_bare_name,
    name_of,
    named_by_user,
    projects_meant,
    projects_taken,
    shown_names,
)
from memory_server.storage.entries.sqlite_store import SqliteStore

pytestmark = pytest.mark.anyio
NOW = 1_750_000_000_000
ACME = Project("github.com/acme/backend", ("/home/ann/acme/backend",), ("backend",))
GLOBEX = Project("/home/ann/globex/backend", (), ("backend",))


def clock() -> int:
    return NOW


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EntryStore]:
    if request.param == "sqlite":
        sqlite_store = SqliteStore(tmp_path / "k.sqlite3", clock)
        yield sqlite_store
        await sqlite_store.aclose()
        return
    with entries_of_its_own() as postgres_store:
        yield postgres_store


def at(store: EntryStore, project: Project | None, **more: Any) -> Notes:
    return Notes(store, clock, Options(here=project, **more))


def before(store: EntryStore, name: str) -> Notes:
    """Notes as the version before this one kept them."""
    return at(store, Project(name))


async def texts(notes: Notes, query: str = "") -> set[str]:
    return {hit.entry.body for hit in (await notes.recall(query, reinforce=False)).hits}


async def keys(store: EntryStore) -> dict[str, str]:
    """The project of each note, by its text."""
    scope, *_ = await store.scopes()
    entries = await store.read(
        scope, lambda view: view.entries(Filter(archived=None), order="oldest")
    )
    return {entry.body: entry.project for entry in entries}


async def said_elsewhere(_name: str, _project: Project) -> bool:
    return True


async def test_projects_of_one_name_meet_in_no_way(store: EntryStore) -> None:
    acme = at(store, ACME)
    globex = at(store, GLOBEX)
    assert (
        await acme.remember("project-tech", "vault", "acme rotates on Monday")
    ).result.action == "created"
    receipt = await globex.remember("project-tech", "vault", "globex rotates on Monday")
    assert receipt.result.action == "created"
    assert receipt.result.similar == 0
    for own, foreign, word in ((acme, globex, "acme"), (globex, acme, "globex")):
        assert await texts(own, "rotates Monday") == {f"{word} rotates on Monday"}
        assert await texts(own) == {f"{word} rotates on Monday"}
        assert [entry.body for entry in (await own.listed())[0]] == [f"{word} rotates on Monday"]
        assert f"{word} rotates" in (await own.pages())["project-tech"]
        assert f"{word} rotates" not in (await foreign.pages())["project-tech"]
    assert (await acme.reindex()).merged == ()


async def test_a_project_of_the_call_counts_more_than_that_of_the_process(
    store: EntryStore,
) -> None:
    server = at(store, ACME)
    await server.remember("project-tech", "vault", "of globex", project=GLOBEX)
    await server.remember("project-tech", "vault", "of acme")
    assert {hit.entry.body for hit in (await server.recall("of", project=GLOBEX)).hits} == {
        "of globex"
    }
    assert [entry.body for entry in (await server.listed(project=GLOBEX))[0]] == ["of globex"]
    assert "of acme" not in (await server.pages(project=GLOBEX))["project-tech"]


async def test_without_a_project_all_are_found_if_asked_for_and_none_comes_unasked(
    store: EntryStore,
) -> None:
    nowhere = at(store, None)
    await at(store, ACME).remember("project-tech", "vault", "the vault of acme")
    await nowhere.remember("tech", "general", "a vault is a safe")
    assert await texts(nowhere, "vault") == {"the vault of acme", "a vault is a safe"}
    unasked = await nowhere.recall("vault", reinforce=False, unasked=True)
    assert {hit.entry.body for hit in unasked.hits} == {"a vault is a safe"}


async def test_notes_of_before_are_moved_once_and_the_move_is_in_the_history(
    store: EntryStore,
) -> None:
    former_version = before(store, "backend")
    await former_version.remember("project-tech", "vault", "old text")
    deleted = (await former_version.remember("project-tech", "gone", "deleted text")).entry
    await former_version.delete(deleted.id)
    acme = at(store, ACME)
    assert (await acme.remember("project-tech", "vault", "new text")).result.action == "updated"
    assert await keys(store) == {"new text": ACME.key, "deleted text": ACME.key}
    assert [operation.op for _scope, operation in await store.operations()][:2] == [
        "remember",
        "assign",
    ]
    assert await texts(at(store, GLOBEX)) == set()
    await acme.recall("text")
    assert [operation.op for _scope, operation in await store.operations()].count("assign") == 1


@pytest.mark.parametrize("known_by", ["a folder of a turn", "a note"])
async def test_notes_of_a_name_that_two_folders_have_wait_and_a_sentence_says_so(
    store: EntryStore, known_by: str
) -> None:
    await before(store, "backend").remember("project-tech", "vault", "whose is this?")
    if known_by == "a note":
        await at(store, GLOBEX, is_elsewhere=said_elsewhere).remember(
            "project-tech", "x", "of globex"
        )
    acme = at(store, ACME, is_elsewhere=said_elsewhere)
    assert await texts(acme, "whose") == set()
    sentence = await acme.hint_of_waiting()
    assert sentence is not None
    assert "1 note from before" in sentence
    assert "memory-server knowledge assign backend" in sentence
    assert await at(store, GLOBEX).hint_of_waiting() == sentence
    assert await at(store, Project("/home/ann/shop", (), ("shop",))).hint_of_waiting() is None
    assert (await keys(store))["whose is this?"] == "?backend"
    await before(store, "backend").remember("project-tech", "later", "imported later")
    assert (
        await texts(at(store, GLOBEX), "imported later") == set()
    )  # the name is known to be of two


async def test_a_note_of_before_is_not_lost_where_the_project_has_one_of_its_topic(
    store: EntryStore,
) -> None:
    await at(store, ACME).remember("project-tech", "vault", "newer")
    await before(store, "backend").remember("project-tech", "vault", "older")
    await before(store, "/home/ann/acme/backend").remember(
        "project-tech", "vault", "before it had a URL"
    )
    acme = at(store, ACME)
    assert await texts(acme) == {"newer"}
    assert await keys(store) == {
        "newer": ACME.key,
        "older": "?backend",
        "before it had a URL": "/home/ann/acme/backend",
    }
    assert await acme.hint_of_waiting() is not None


async def test_an_imported_note_of_a_name_waits_until_the_user_says_whose_it_is(
    store: EntryStore,
) -> None:
    """A project of another program is not the repository of the same name."""
    await before(store, "backend").remember("project-tech", "vault", "of the folder")
    imported = Entry("of another program", kind="project-tech", project="backend", source="claude")
    await store.commit(NOTES, lambda view: ([imported], None), Operation("import", "test"))
    acme = at(store, ACME)
    assert await texts(acme) == {"of the folder"}
    assert await keys(store) == {"of the folder": ACME.key, "of another program": "?backend"}
    sentence = await acme.hint_of_waiting()
    assert sentence is not None
    assert "knowledge assign backend" in sentence


async def test_what_was_noted_before_a_repository_had_a_url_stays_with_it(
    store: EntryStore,
) -> None:
    await at(store, Project("/home/ann/acme/backend")).remember(
        "project-tech", "vault", "noted early"
    )
    assert await texts(at(store, ACME, is_elsewhere=said_elsewhere)) == {"noted early"}


async def test_the_setting_takes_what_was_noted_under_its_name_and_no_folder_does(
    store: EntryStore,
) -> None:
    await before(store, "backend").remember("project-tech", "a", "by the setting of before")
    named = at(store, named_by_user("backend"), is_elsewhere=said_elsewhere)
    await named.remember("project-tech", "b", "by the setting")
    assert await texts(at(store, ACME)) == set()
    assert await texts(named) == {"by the setting of before", "by the setting"}


async def test_while_nothing_may_be_stored_notes_of_before_are_read_where_they_are(
    store: EntryStore,
) -> None:
    def refuse() -> None:
        raise MemoryPaused("paused")

    await before(store, "backend").remember("project-tech", "vault", "old text")
    assert await texts(at(store, ACME, refuse=refuse)) == {"old text"}
    assert await keys(store) == {"old text": "backend"}
    assert await texts(at(store, ACME, refuse=refuse, is_elsewhere=said_elsewhere)) == set()


async def test_that_the_name_is_of_one_project_only_does_not_count_for_another_project(
    store: EntryStore,
) -> None:
    ours = Project("/a/shop", (), ("shop",))
    other_project = Project("/b/shop", (), ("shop",))
    is_paused = True

    def refuse() -> None:
        if is_paused:
            raise MemoryPaused("paused")

    async def elsewhere_for_the_other(_name: str, project: Project) -> bool:
        return project == other_project

    await before(store, "shop").remember("project-tech", "vault", "secret of a")
    server = at(store, None, refuse=refuse, is_elsewhere=elsewhere_for_the_other)
    for _ in range(2):
        assert {hit.entry.body for hit in (await server.recall("secret", project=ours)).hits} == {
            "secret of a"
        }
        assert not (await server.recall("secret", project=other_project)).hits
    is_paused = False
    assert not (await server.recall("secret", project=other_project)).hits
    assert (await keys(store))["secret of a"] == "?shop"


async def test_a_folder_that_becomes_known_counts_in_the_same_process(store: EntryStore) -> None:
    now_ms = NOW
    known_folders: list[str] = []
    times_asked = 0

    def refuse() -> None:
        raise MemoryPaused("paused")

    async def is_known(_name: str, _project: Project) -> bool:
        nonlocal times_asked
        times_asked += 1
        return bool(known_folders)

    await before(store, "backend").remember("project-tech", "vault", "old text")
    notes = Notes(store, lambda: now_ms, Options(here=ACME, refuse=refuse, is_elsewhere=is_known))
    assert await texts(notes) == {"old text"}
    assert await texts(notes) == {"old text"}
    assert times_asked == 1
    known_folders.append("/home/ann/globex/backend")
    now_ms += 60_000
    assert await texts(notes) == set()


async def test_notes_are_assigned_and_one_that_is_in_the_way_stays(store: EntryStore) -> None:
    await at(store, GLOBEX).remember("project-tech", "vault", "theirs")
    await at(store, GLOBEX).remember("project-tech", "port", "8080")
    acme = at(store, ACME)
    await acme.remember("project-tech", "vault", "ours")

    def of_globex(view: Any) -> Sequence[Entry]:
        entries: list[Entry] = view.entries(Filter(projects=(GLOBEX.key,)))
        return entries

    preview = await acme.assign(of_globex, ACME.key, dry_run=True)
    assert len(preview.result.moved) == 1
    assert preview.change_id is None
    receipt = await acme.assign(of_globex, ACME.key)
    assert [note.title for note in receipt.result.moved] == ["port"]
    assert [note.title for note in receipt.result.in_the_way] == ["vault"]
    assert await texts(acme) == {"ours", "8080"}
    assert await acme.project_counts() == {ACME.key: 2, GLOBEX.key: 1}


NAMES = [
    (["/home/ann/shop"], ["shop"]),
    (["/acme/backend", "/globex/backend"], ["acme/backend", "globex/backend"]),
    (["/a/x/backend", "/b/x/backend", "/b/web"], ["a/x/backend", "b/x/backend", "web"]),
    (["github.com/acme/backend", "/acme/backend"], ["github.com/acme/backend", "/acme/backend"]),
    (["name:shop", "shop", "?shop"], ["name:shop", "shop", "?shop"]),
    (
        ["laptop-5f3a9c:~/shop", "desk-5f3a9c:~/shop"],
        ["laptop-5f3a9c:~/shop", "desk-5f3a9c:~/shop"],
    ),
    (["C:\\work\\shop", "/srv/shop.git"], ["work/shop", "srv/shop"]),
    (["", "/"], ["/"]),
]


@pytest.mark.parametrize(("keys_of_projects", "shown"), NAMES)
def test_a_name_has_as_much_of_the_place_as_tells_it_from_others(
    keys_of_projects: list[str], shown: list[str]
) -> None:
    names = shown_names(keys_of_projects)
    assert [names[key] for key in keys_of_projects if key] == shown
    assert len(set(names.values())) == len(names)


MEANT = [
    ("backend", ["backend"]),
    ("acme/backend", ["github.com/acme/backend"]),
    ("/globex/backend", ["/globex/backend"]),
    ("shop", ["/home/ann/shop"]),
    ("shop.git", ["/home/ann/shop"]),
    ("end", []),
    ("", []),
]


@pytest.mark.parametrize(("word", "meant"), MEANT)
def test_a_person_names_a_project_by_its_ending(word: str, meant: list[str]) -> None:
    known_keys = [
        "github.com/acme/backend",
        "/globex/backend",
        "?backend",
        "backend",
        "/home/ann/shop",
    ]
    assert projects_meant(word, known_keys) == meant
    assert projects_meant("backend", [key for key in known_keys if key != "backend"]) == [
        "/globex/backend",
        "?backend",
        "github.com/acme/backend",
    ]


TAKEN = [
    ("backend", ["github.com/acme/backend"], []),
    ("backend", ["github.com/acme/backend", "?backend"], ["?backend"]),
    ("backend", ["/w/backend", "backend", "?backend"], ["?backend", "backend"]),
    ("acme/backend", ["github.com/acme/backend"], []),
    ("github.com/acme/backend", ["github.com/acme/backend"], ["github.com/acme/backend"]),
    ("", [""], []),
]


@pytest.mark.parametrize(("word", "known_keys", "taken"), TAKEN)
def test_a_name_takes_only_notes_that_have_nothing_else(
    word: str, known_keys: list[str], taken: list[str]
) -> None:
    assert projects_taken(word, known_keys) == taken


def test_a_bare_name_is_no_place() -> None:
    keys_of_places = ("github.com/a/b", "/a", "C:\\a", "name:a", "?a", "laptop-1:~/a", "")
    assert not any(map(is_bare_name, keys_of_places))
    assert is_bare_name("shop")
    assert [
        name_of(key)
        for key in ("github.com/a/b", "/srv/b.git", "name:b", "?b", "b", "laptop-1:~/b")
    ] == ["b"] * 6
