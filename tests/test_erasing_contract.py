"""Erasing words that stand only in the past: whatever way they came there, no answer denies them before they are
erased, and nothing holds them afterwards. For homes in files and in PostgreSQL."""

from __future__ import annotations

import asyncio
import gzip
import hmac
import json
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli_program import CommandLine
from postgres_entries import everywhere, everywhere_one_of, tables_of_ours_with, url_of_its_own

from languages import Sentence
from memory_server.config import Settings
from memory_server.kernel.messages import Message
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.operations.examining import ExamineRequest, examine
from memory_server.runtime.app import App, open_memory
from memory_server.storage.json_store import history_files
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

ALICE = SessionIds("alice")
TRIGGER = "match_keys(context.messages, ['tea']) > 0"


@dataclass(frozen=True)
class Home:
    """A home of these tests, as a program and as a command name it; `store` None: it is the folder `data`."""

    data: Path
    store: str | None

    @property
    def settings(self) -> Settings:
        layers = {"project_dir": self.data.parent / "project"}
        return Settings(seed=1, store=self.store, layers=layers)  # type: ignore[arg-type]

    def places_of(self, word: str) -> list[str]:
        """Where the word stands on the disk, packed or not, and in the tables of the whole database."""
        if self.store is None:
            return self._files_with(word)
        return everywhere(word) + self._files_with(word)

    def usual_places_of(self, word: str) -> list[str]:
        """The same without the tables of PostgreSQL itself, of which a look takes ten times as long."""
        if self.store is None:
            return self._files_with(word)
        return tables_of_ours_with(word) + self._files_with(word)

    def _files_with(self, word: str) -> list[str]:
        paths = [path for path in self.data.rglob("*") if path.is_file()]
        return [str(path) for path in paths if word.encode() in _bytes(path)]


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    with suppress(OSError, EOFError):
        data += gzip.decompress(data)
    with suppress(zlib.error):
        data += zlib.decompress(data)
    return data


@pytest.fixture(params=["folder", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path, elsewhere: None) -> Iterator[Home]:
    if request.param == "folder":
        yield Home(tmp_path / "data", None)
        return
    with url_of_its_own() as store:
        yield Home(tmp_path / "data", store)


@pytest.fixture
def cli(cli: CommandLine, home: Home, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command in this home."""
    if home.store is not None:
        monkeypatch.setenv("MEMORY_SERVER_STORE", home.store)
    return cli


def is_in_use(cli: CommandLine, *words: str) -> bool:
    return "Would forget" in cli("forget", *words, "--dry-run").told


Way = Callable[[App, str], Awaitable[None]]


async def corrected_fact(app: App, word: str) -> None:
    addition = await app.knowledge.sessions.add(ALICE, f"My aunt {word} bakes", mode="direct")
    [(_event, entry)] = addition.entries
    await app.knowledge.sessions.update(ALICE, entry.id, "My aunt bakes bread", by="test")


async def corrected_note(app: App, word: str) -> None:
    note = await app.knowledge.notes.remember("domain", "rule", f"the rule of {word} says nine")
    await app.knowledge.notes.edit(note.entry.ref, find=word, replacement="some place")


async def note_with_another_tag(app: App, word: str) -> None:
    note = await app.knowledge.notes.remember("domain", "tagged", "what has a tag", tags=[word])
    await app.knowledge.notes.remember("domain", "tagged", "what has another tag", tags=["other"])
    await app.knowledge.notes.delete(note.entry.ref)
    await app.knowledge.notes.reindex()


async def merged_note(app: App, word: str) -> None:
    note = await app.knowledge.notes.remember(
        "domain", "gone", f"{word} stood in a note that was deleted"
    )
    await app.knowledge.notes.delete(note.entry.ref)
    await app.knowledge.notes.reindex()  # which sets a copy aside, and leaves deleted notes out


async def replaced_trigger(app: App, word: str) -> None:
    shelf = app.conversation().long_term
    await shelf.add("plim", f"Mention {word}", TRIGGER)
    await shelf.add("plim", "Mention nothing", TRIGGER)


async def edited_memory(app: App, word: str) -> None:
    short_term = app.conversation().short_term
    memory = await short_term.add([Message("user", f"my doctor is Dr {word}")])
    await short_term.edit(memory.memory.id, ["my doctor is Dr Who"], by="test")


async def question_that_brought_nothing(app: App, word: str) -> None:
    await app.conversation().short_term.add([Message("user", "The cat is called Miso")])
    asked = {"messages": [{"role": "user", "content": f"Do you know about my {word} result?"}]}
    await call(TOOLS["recall_turn"], app.call, asked)
    await asyncio.to_thread(app.recalls.write)


async def turn_that_waits_for_a_server(app: App, word: str) -> None:
    body = {"messages": [{"role": "user", "content": f"my keeper is {word}"}]}
    number = app.home.outbox.add({"path": "/v1/remember_turn", "headers": {}, "body": body})
    refused = app.home.outbox.add({"path": "/v1/remember_turn", "headers": {}, "body": body})
    assert number != refused
    app.home.outbox.refuse(refused, "it is too long")


async def line_that_was_set_aside(app: App, word: str) -> None:
    await app.conversation("torn").short_term.add([Message("user", "what follows is torn")])
    if app.settings.store is not None:
        return  # a database has no lines that could be torn
    private = app.home.place / "torn" / ".memory-server"
    history_files.set_aside(
        private, Sentence("it has no checksum"), data=f'{{"text": "a line with {word}'
    )
    history_files.keep_broken(private, "short-term-memory.json", f'[{{"text": "{word}"'.encode(), 0)


async def question_of_an_examination(app: App, word: str) -> None:
    await app.conversation().short_term.add([Message("user", "The dog is called Rex")])
    asked = {"messages": [{"role": "user", "content": f"And what was it with {word}?"}]}
    await call(TOOLS["recall_turn"], app.call, asked)
    await examine(app, ExamineRequest())
    # The question stays when the record does not have the recall any more.
    app.home.recalls.rewrite(lambda line: None if word in line.get("said", "") else line)


WAYS: dict[str, Way] = {
    way.__name__: way
    for way in (
        corrected_fact,
        corrected_note,
        merged_note,
        note_with_another_tag,
        replaced_trigger,
        edited_memory,
        question_that_brought_nothing,
        question_of_an_examination,
        turn_that_waits_for_a_server,
        line_that_was_set_aside,
    )
}
WORDS = {name: f"Gr{number}lnik" for number, name in enumerate(WAYS)}


async def fill(home: Home, *names: str) -> None:
    """Put a word into a home in each of these ways."""
    async with open_memory(home.data, settings=home.settings) as app:
        for name in names:
            await WAYS[name](app, WORDS[name])


A_FEW = (
    "corrected_fact",
    "note_with_another_tag",
    "replaced_trigger",
    "question_that_brought_nothing",
)
"""Ways through each kind of table of PostgreSQL, where each takes some ten times as long as in a folder."""


@pytest.mark.parametrize(
    ("home", "names"),
    [
        pytest.param("folder", tuple(WORDS), id="folder"),
        pytest.param("postgres", A_FEW, id="postgres"),
        pytest.param("postgres", tuple(WORDS), marks=pytest.mark.full, id="postgres in all ways"),
    ],
    indirect=["home"],
)
def test_no_face_denies_a_word_of_the_past_and_erasing_leaves_it_nowhere(
    home: Home, cli: CommandLine, names: tuple[str, ...]
) -> None:
    asyncio.run(fill(home, *WAYS))
    for name in names:
        word = WORDS[name]
        if home.store is not None and name == "line_that_was_set_aside":
            continue
        assert home.usual_places_of(word), f"{name} keeps the word"
        status, output = cli("forget", word, "--yes").in_one
        assert status == 2, name
        assert "the stored history does" in output, name
        answer = json.loads(cli("call", "forget", json.dumps({"words": word})).told)
        assert answer["found"] == 0
        assert "--for-good" in answer["note"], f"{name}: the tool says what it did not look through"
        status, output = cli("forget", word, "--for-good", "--dry-run").in_one
        assert (status, "Only the stored history contains these words" in output) == (0, True), name
        assert home.usual_places_of(word), f"{name}: a dry run changes nothing"
        status, output = cli("forget", word, "--for-good", "--yes").in_one
        assert status == 0, output
        assert "found in 0 places" in output, name
        assert home.usual_places_of(word) == [], name
        status, output = cli("forget", word, "--for-good", "--yes").in_one
        assert status == 2, name
        assert "No memory or entry contains these words" in output, name
    if home.store is not None:
        assert everywhere_one_of([WORDS[name] for name in names]) == [], (
            "the tables of PostgreSQL itself have none of the words"
        )
    for text in (
        "My aunt bakes bread",
        "the rule of some place",
        "Mention nothing",
        "Dr Who",
        "Miso",
    ):
        assert is_in_use(cli, *text.split()), "what was corrected stays as it is now"


def test_words_in_two_texts_are_not_in_one(home: Home, cli: CommandLine) -> None:
    asyncio.run(fill(home, "corrected_fact", "corrected_note"))
    together = WORDS["corrected_fact"], WORDS["corrected_note"]
    status, output = cli("forget", *together, "--for-good", "--yes").in_one
    assert status == 2
    assert "No memory or entry contains these words" in output
    status, _output = cli("forget", WORDS["corrected_note"], "rule", "--for-good", "--yes").in_one
    assert status == 0, "the topic of the note stays, and its former text has both"
    assert home.places_of(WORDS["corrected_note"]) == []


def test_a_backup_is_named_and_what_it_holds_goes_with_the_past(
    home: Home, cli: CommandLine
) -> None:
    if home.store is not None:
        pytest.skip("a database is backed up by pg_dump")

    async def fill() -> None:
        async with open_memory(home.data, settings=home.settings) as app:
            short_term = app.conversation().short_term
            memory = await short_term.add([Message("user", "my doctor is Dr Halvorsen")])
            await app.memories.backups.make("b")
            await short_term.edit(memory.memory.id, ["my doctor is Dr Who"], by="test")

    asyncio.run(fill())
    status, output = cli("forget", "Halvorsen", "--for-good", "--dry-run").in_one
    assert (status, "not of these backups (--in-backups): b" in output) == (0, True)
    status, output = cli("forget", "Halvorsen", "--for-good", "--in-backups", "--yes").in_one
    assert (status, "found in 0 places" in output) == (0, True), output
    assert home.places_of("Halvorsen") == []
    assert cli("backup", "restore", "b", "--overwrite")[0] in (0, 1)
    assert not is_in_use(cli, "Halvorsen")


def test_a_former_text_that_was_erased_does_not_come_back_from_a_backup(
    home: Home, cli: CommandLine
) -> None:
    if home.store is not None:
        pytest.skip("a database is backed up by pg_dump")

    async def fill() -> None:
        async with open_memory(home.data, settings=home.settings) as app:
            note = await app.knowledge.notes.remember(
                "domain", "rule", "the rule of Ploverton says nine"
            )
            await app.memories.backups.make("b")
            await app.knowledge.notes.edit(
                note.entry.ref, find="Ploverton", replacement="some place"
            )

    asyncio.run(fill())
    status, output = cli("forget", "Ploverton", "--for-good", "--yes").in_one
    assert "b.knowledge.sqlite3" in output
    assert status == 0, "backups were not meant"
    cli("backup", "restore", "b", "--overwrite")
    assert not is_in_use(cli, "Ploverton")


def test_a_former_text_that_was_erased_does_not_come_back_with_the_past_of_a_backup(
    home: Home, cli: CommandLine
) -> None:
    if home.store is not None:
        pytest.skip("a database is backed up by pg_dump")

    async def fill() -> None:
        async with open_memory(home.data, settings=home.settings) as app:
            note = await app.knowledge.notes.remember(
                "domain", "rule", "the rule of Ploverton says nine"
            )
            await app.knowledge.notes.edit(
                note.entry.ref, find="Ploverton", replacement="some place"
            )
            await app.memories.backups.make("b")

    asyncio.run(fill())
    assert cli("forget", "Ploverton", "--for-good", "--yes")[0] == 0
    assert cli("backup", "restore", "b", "--overwrite")[0] == 0
    assert is_in_use(cli, "the rule of some place")
    backups = str(home.data / ".memory-server" / "backups")
    assert [path for path in home.places_of("Ploverton") if not path.startswith(backups)] == []


def test_the_name_of_a_conversation_stays_and_is_said(home: Home, cli: CommandLine) -> None:
    async def fill() -> None:
        async with open_memory(home.data, settings=home.settings) as app:
            await app.conversation("Quxlantern-plans").short_term.add(
                [Message("user", "We go to Quxlantern in May")]
            )

    asyncio.run(fill())
    status, output = cli("forget", "Quxlantern", "--for-good", "--yes").in_one
    assert status == 0
    assert "found in 0 places" in output
    assert "as the name of a conversation, folder or user." in output
    status, output = cli("forget", "Quxlantern", "--for-good", "--yes").in_one
    assert status == 2
    assert "The words stay in" in output


def test_what_a_tenant_has_is_not_denied_to_the_owner(home: Home, cli: CommandLine) -> None:
    cli("remember", "The cat is called Miso")
    if home.store is not None:
        pytest.skip("these tests are a tenant themselves there")
    cli("remember", "The spare key is under Plimsoap", "--tenant", "carol")
    status, output = cli("forget", "Plimsoap", "--for-good", "--yes").in_one
    assert status == 2
    assert "Tenants have this text too (carol)" in output
    assert cli("forget", "Plimsoap", "--for-good", "--yes", "--tenant", "carol")[0] == 0
    assert home.places_of("Plimsoap") == []


def test_all_of_a_user_is_erased_where_only_the_history_is_left(
    home: Home, cli: CommandLine
) -> None:
    async def fill() -> None:
        async with open_memory(home.data, settings=home.settings) as app:
            await app.knowledge.sessions.add(
                SessionIds("zoe-grel"), "collects stamps", mode="direct"
            )

    asyncio.run(fill())
    assert cli("forget", "--user", "zoe-grel", "--for-good", "--yes")[0] == 0
    status, output = cli("forget", "--user", "zoe-grel", "--for-good", "--yes").in_one
    assert status == 2
    assert "There are no facts of the user zoe-grel" in output
    assert home.places_of("zoe-grel") == []


def test_a_page_that_was_made_of_notes_is_named_and_a_server_does_not_tell_of_pages_where_it_runs(
    home: Home, cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    cli(
        "call",
        "remember",
        json.dumps({"type": "tech", "topic": "pool", "content": "at most 20 of Ploverton"}),
    )
    cli("knowledge", "document")
    assert cli("forget", "Ploverton", "--yes")[0] == 0
    status, output = cli("forget", "Ploverton", "--for-good", "--yes").in_one
    assert status == 1
    assert "memory-docs/tech.md" in output
    status, output = cli("forget", "Ploverton", "--yes").in_one
    assert "No memory or entry contains these words" in output, "other machines ask this too"
    cli("knowledge", "document")
    assert (
        "No memory or entry contains these words"
        in cli("forget", "Ploverton", "--for-good", "--yes").told
    )


def test_a_search_removes_no_file_and_names_what_it_cannot_read(
    home: Home, cli: CommandLine, tmp_path: Path
) -> None:
    cli("remember", "The cat is called Miso")
    private = home.data / ".memory-server"
    private.mkdir(parents=True, exist_ok=True)
    being_written = private / f".x.{16 * 'a'}.next"
    being_written.write_text('{"text": "Halvorsen is written just now"}')
    (private / "backups").mkdir(exist_ok=True)
    (private / "backups" / "torn.backup.gz").write_bytes(gzip.compress(b"x" * 100)[:20])
    assert "the stored history does" in cli("forget", "Halvorsen", "--yes").told
    assert being_written.exists()
    status, output = cli("forget", "Halvorsen", "--for-good", "--yes").in_one
    assert (status, "found in 0 places" in output) == (0, True), output
    assert not being_written.exists(), "a killed process left it"
    status, output = cli("forget", "Halvorsen", "--yes").in_one
    assert "No memory or entry contains these words" in output
    assert "This could not be searched: .memory-server/backups/torn.backup.gz." in output


def test_a_text_with_a_character_that_nobody_sees_is_found_and_is_the_same_text(
    home: Home, cli: CommandLine
) -> None:
    cli("remember", "My keeper is Qux\u200blan\u00adtern, and nobody else")
    assert cli("forget", "Quxlantern", "--for-good", "--yes")[0] == 0

    async def are_erased() -> list[bool]:
        async with open_memory(home.data, settings=home.settings) as app:
            texts = (
                "My keeper is Quxlantern, and nobody else",
                "my keeper is quxlan\u2060tern,  and nobody else",
            )
            again = [
                app.home.erased.holds([f"user: {text}"]) for text in (*texts, "My keeper is Miso")
            ]
            # A version before this one counted the characters that nobody sees.
            key, _hashes = app.home.erased.known()
            old = "user: the spare key is under\u200b the pot"
            form = " ".join(old.casefold().split()).encode()
            app.home.erased.adopt(key, [hmac.new(key, form, "sha256").hexdigest()])
            return [*again, app.home.erased.holds([old])]

    assert asyncio.run(are_erased()) == [True, True, False, True]
