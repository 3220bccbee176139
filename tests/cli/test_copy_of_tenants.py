"""`copy` keeps the memories of the owner and of each tenant apart, and says what it did not take."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cli_program import CommandLine
from postgres import database_of_its_own

from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.kernel.errors import StorageError
from memory_server.runtime.homes import home_of
from memory_server.storage.small_files import QuestionFiles, RecallFiles

TENANTS = ("alice", "阿遥", "Bob")
"""The folder of the last two has a hash, because not every disk takes their names as they are."""
SHORTENED = "Carol@example.com"
"""Its folder does not tell the whole name."""


@pytest.fixture(params=["a folder", "PostgreSQL"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "a folder":
            yield str(tmp_path / "target")
        else:
            yield stack.enter_context(database_of_its_own())


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    return cli.with_flags("copy")


@pytest.fixture(scope="module")
def memories_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with memories of the owner and of each tenant."""
    folder = tmp_path_factory.mktemp("memories") / "source"
    main(["--data-dir", str(folder), "remember", "The safe code of the owner is 1111."])
    for name in TENANTS:
        main(["--data-dir", str(folder), "--tenant", name, "remember", f"{name} likes tulips."])
    return folder


@pytest.fixture
def source(
    cli: CommandLine, memories_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A copy of the folder for this test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "files"))
    shutil.copytree(memories_folder, tmp_path / "source")
    return str(tmp_path / "source")


def memories(store: str, *tenant: str) -> str:
    """What `list` shows of the home at `store`."""
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as capture:
        patch.setenv("MEMORY_SERVER_STORE", store)
        lines: list[str] = []
        capture.setattr(
            "rich.console.Console.print",
            lambda _self, *texts, **_more: lines.extend(map(str, texts)),
        )
        main(["list", "-c", "default", *tenant])
    return "\n".join(lines)


def test_all_tenants_are_copied_each_to_itself(source: str, target: str, cli: CommandLine) -> None:
    status, text = cli("--from", source, "--to", target).in_one
    assert status == 0, text
    assert "4 conversations copied; 0 conversations already in the other store." in text
    assert "The memories of 3 tenants are included." in text
    assert "1111" in memories(target)
    for name in TENANTS:
        listing = memories(target, "--tenant", name)
        assert f"{name} likes tulips" in listing
        assert listing.count("tulips") == 1
        assert "1111" not in listing
    status, text = cli("--from", source, "--to", target).in_one
    assert (
        status,
        "0 conversations copied; 4 conversations already in the other store." in text,
    ) == (0, True), text


def test_a_record_of_recalls_that_differs_is_left_and_said(
    source: str, target: str, cli: CommandLine
) -> None:
    main(["--data-dir", source, "recall", "What is the safe code?", "--session", "s"])
    assert cli("--from", source, "--to", target)[0] == 0
    assert cli("--from", source, "--to", target)[0] == 0, "what is there already was not left"
    main(["--data-dir", source, "recall", "And the code of the safe?", "--session", "s"])
    for flags in (["--dry-run"], []):
        status, text = cli("--from", source, "--to", target, *flags).in_one
        assert status == 1
        assert "The record of recalls was not copied" in text
        assert "the record of recalls" in text.rpartition("Not copied:")[2]


QUESTION = {"at": "2026-06-20T08:00:00.000Z", "conversation": "default", "said": "Where is it?"}


def test_the_questions_of_examine_are_copied_and_those_that_differ_are_left_and_said(
    source: str, target: str, tmp_path: Path, cli: CommandLine
) -> None:
    kept = QuestionFiles(Path(source))
    settings = Settings(store=target, data_dir=tmp_path / "files")
    copied = home_of(settings, lambda: 0).questions
    kept.append(QUESTION)
    for _ in range(2):
        assert cli("--from", source, "--to", target)[0] == 0
        assert copied.lines() == [QUESTION]
    kept.append(QUESTION | {"said": "And the other one?"})
    for flags in (["--dry-run"], []):
        status, text = cli("--from", source, "--to", target, *flags).in_one
        assert status == 1
        assert "The file of questions was not copied" in text
        assert "the file of questions" in text.rpartition("Not copied:")[2]
    assert copied.lines() == [QUESTION]


def test_questions_that_cannot_be_read_do_not_keep_the_others(
    source: str, target: str, cli: CommandLine
) -> None:
    QuestionFiles(Path(source)).append(QUESTION)
    [path] = Path(source, ".memory-server", "questions").glob("*.jsonl")
    path.write_text("no question\n")
    status, text = cli("--from", source, "--to", target).in_one
    assert status == 1
    assert "4 conversations copied" in text
    assert "Line 1 of" in text
    assert "the file of questions" in text.rpartition("Not copied:")[2]


def test_a_record_that_cannot_be_read_does_not_keep_the_others(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    def unreadable(*_: object) -> list[object]:
        raise StorageError("the disk is broken")

    monkeypatch.setattr(RecallFiles, "lines", unreadable)
    monkeypatch.setattr(QuestionFiles, "lines", lambda *_: [])
    status, text = cli("--from", source, "--to", target).in_one
    assert status == 1
    assert "4 conversations copied" in text, "there is a sum"
    assert text.count("the disk is broken") == 4
    assert "1111" in memories(target)


def test_one_tenant_is_copied_alone(source: str, target: str, cli: CommandLine) -> None:
    status, text = cli("--from", source, "--to", target, "--tenant", "阿遥").in_one
    assert (status, "1 conversation copied" in text) == (0, True), text
    assert "阿遥 likes tulips" in memories(target, "--tenant", "阿遥")
    home = home_of(Settings(store=target), lambda: 0)
    try:
        assert home.tenant_names() == ["阿遥"]
    finally:
        home.close()
    assert "1111" not in memories(target)


def test_a_tenant_comes_back_from_where_it_was_copied_to(
    source: str, target: str, tmp_path: Path, cli: CommandLine
) -> None:
    cli("--from", source, "--to", target)
    back = str(tmp_path / "back")
    status, text = cli("--from", target, "--to", back).in_one
    assert (status, "4 conversations copied" in text) == (0, True), text
    assert [memories(back, "--tenant", name) for name in TENANTS] == [
        memories(source, "--tenant", name) for name in TENANTS
    ]


def test_a_tenant_that_is_not_there_is_refused(source: str, target: str, cli: CommandLine) -> None:
    status, text = cli("--from", source, "--to", target, "--tenant", "carol").in_one
    assert status == 2
    assert "There is no tenant carol; the tenants are:" in text
    assert all(name in text for name in TENANTS)


def test_what_is_left_is_named_and_the_status_says_so(
    source: str, target: str, cli: CommandLine
) -> None:
    main(["--data-dir", source, "--tenant", SHORTENED, "remember", "Carol likes roses."])
    cli.streams.readouterr()
    status, text = cli("--from", source, "--to", target).in_one
    assert status == 1
    assert (
        "The whole name of the tenant Carol_example_com is not known; copy it with --tenant NAME."
        in text
    )
    assert "Not copied: Carol_example_com." in text
    assert "The memories of 3 tenants are included." in text
    assert cli("--from", source, "--to", target, "--tenant", SHORTENED)[0] == 0
    status, text = cli("--from", source, "--to", target).in_one
    assert (status, "The memories of 4 tenants are included." in text) == (0, True), text


def test_a_token_tells_the_whole_name_of_its_tenant(
    source: str, target: str, cli: CommandLine
) -> None:
    main(["--data-dir", source, "--tenant", SHORTENED, "remember", "Carol likes roses."])
    main(["--data-dir", source, "tokens", "add", "phone", "--tenant", SHORTENED])
    cli.streams.readouterr()
    assert cli("--from", source, "--to", target)[0] == 0
    assert "roses" in memories(target, "--tenant", SHORTENED)


def test_conversations_that_are_named_are_those_of_the_owner(
    source: str, target: str, cli: CommandLine
) -> None:
    status, text = cli("--from", source, "--to", target, "default").in_one
    assert (status, "1 conversation copied" in text, "tenant" in text) == (0, True, False), text
    status, text = cli("--from", source, "--to", target, "default", "--tenant", "alice").in_one
    assert (status, "default of alice was copied" in text) == (0, True), text


def test_a_tenant_has_no_tenants(source: str, cli: CommandLine) -> None:
    with database_of_its_own() as database:
        status, text = cli("--from", source, "--to", f"{database}#dora").in_one
        assert status == 1
        assert "is the home of a tenant, which cannot have tenants." in text
        assert "Not copied: " in text


def test_a_dry_run_copies_nothing(source: str, target: str, cli: CommandLine) -> None:
    status, text = cli("--from", source, "--to", target, "--dry-run").in_one
    assert (
        status,
        "4 conversations would be copied; 0 conversations already in the other store." in text,
    ) == (
        0,
        True,
    ), text
    status, text = cli("--from", source, "--to", target).in_one
    assert "4 conversations copied; 0 conversations already in the other store." in text


@pytest.mark.parametrize("form", [str, Path.as_uri])
def test_the_store_of_the_owner_is_not_that_of_a_tenant(
    form: type[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: CommandLine,
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_STORE", form(tmp_path / "source"))
    main(["remember", "The safe code of the owner is 1111."])
    main(["--tenant", "alice", "remember", "Alice likes tulips."])
    cli.streams.readouterr()
    main(["--tenant", "alice", "list"])
    listing = cli.streams.readouterr().out
    assert "tulips" in listing
    assert "1111" not in listing
