"""`copy` brings nothing into a store that was erased for good there: no memory, no former text, no note, no recall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from postgres import database_of_its_own

from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.kernel.messages import Message
from memory_server.runtime.app import open_memory
from memory_server.runtime.homes import home_of

ERASED = "The safe stands behind the picture of Quxlantern, where nobody looks for it at all."
OTHER = "The ferry leaves at nine."
Run = Callable[..., tuple[int, str]]


@pytest.fixture(params=["a folder", "PostgreSQL"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "a folder":
            yield str(tmp_path / "target")
        else:
            yield stack.enter_context(database_of_its_own())


@pytest.fixture
def run(tmp_path: Path, elsewhere: None, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run(store, "list")`: the status of a command with the store of this URL, and all that it says."""

    def run(store: str, *words: str) -> tuple[int, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "files"))
            patch.setenv("MEMORY_SERVER_STORE", store)
            status = main(list(words))
        return status, "".join(capsys.readouterr())

    return run


@pytest.fixture
def source(tmp_path: Path, target: str, run: Run) -> str:
    """A folder that is still empty; in `target`, a text is erased for good."""
    run(target, "remember", "-c", "said-there", ERASED)
    status, output = run(target, "forget", "Quxlantern", "--for-good", "--yes")
    assert status == 0, output
    return str(tmp_path / "source")


def run_copy(run: Run, source: str, target: str, *flags: str) -> tuple[int, str]:
    return run(source, "copy", "--from", source, "--to", target, *flags)


def conversations_in(store: str) -> list[str]:
    async def names() -> list[str]:
        home = home_of(Settings(store=store), lambda: 0)
        try:
            return await home.conversations.conversations()
        finally:
            await home.conversations.aclose()
            await home.aclose()

    return asyncio.run(names())


@pytest.mark.parametrize("kept_in", ["the state", "the past"])
def test_a_conversation_that_holds_what_was_erased_there_is_left_and_said(
    kept_in: str, source: str, target: str, run: Run
) -> None:
    async def fill() -> None:
        async with open_memory(Path(source), settings=Settings(seed=1)) as app:
            short_term = app.conversation("said-here").short_term
            addition = await short_term.add([Message("user", ERASED)])
            if kept_in == "the past":
                await short_term.edit(addition.memory.id, ["The safe is sold."], by="test")

    asyncio.run(fill())
    run(source, "remember", "-c", "harmless", OTHER)
    for flags in (["--dry-run"], []):
        status, output = run_copy(run, source, target, *flags)
        assert status == 1, output
        assert "said-here was not copied" in output
        assert "was erased for good in" in output
        assert "said-here" in output.rpartition("Not copied:")[2]
        assert "1 conversation " in output, "the other one is copied, or would be"
        conversations = conversations_in(target)
        assert "said-here" not in conversations
        assert ("harmless" in conversations) == (flags == [])
    assert "Quxlantern" not in run(target, "search", "safe")[1]


@pytest.mark.parametrize("kept_in", ["the entries", "the past"])
def test_knowledge_that_holds_what_was_erased_there_is_left_and_said(
    kept_in: str, source: str, target: str, run: Run
) -> None:
    async def fill() -> None:
        async with open_memory(Path(source), settings=Settings(seed=1)) as app:
            addition = await app.knowledge.notes.remember("domain", "safe", ERASED)
            if kept_in == "the past":
                await app.knowledge.notes.edit(
                    addition.entry.ref, find=ERASED, replacement="The safe is sold."
                )

    asyncio.run(fill())
    for flags in (["--dry-run"], []):
        status, output = run_copy(run, source, target, *flags)
        assert status == 1, output
        assert "knowledge was not copied" in output
        assert "was erased for good in" in output
    assert "0 memories found" in run(target, "search", "safe")[1]
    assert "Quxlantern" not in run(target, "history")[1]


def test_what_was_left_comes_by_an_export_without_what_was_erased(
    source: str, target: str, run: Run, tmp_path: Path
) -> None:
    run(source, "remember", "-c", "said-here", ERASED)
    run(source, "remember", "-c", "said-here", OTHER)
    assert run_copy(run, source, target)[0] == 1
    file = str(tmp_path / "all.jsonl")
    assert run(source, "export", file)[0] == 0
    status, output = run(target, "import", file)
    assert (status, "1 erased memory was left out" in output) == (0, True), output
    listing = run(target, "list", "-c", "said-here")[1]
    assert OTHER in listing
    assert "Quxlantern" not in listing


def test_a_recall_that_tells_of_what_was_erased_there_is_left_out_and_counted(
    source: str, target: str, run: Run
) -> None:
    source_home = home_of(Settings(store=source), lambda: 0)
    run(source, "remember", "-c", "harmless", OTHER)
    recall = {"at": "2026-06-20T08:00:00.000Z", "conversation": "harmless", "by": "hook"}
    erased_question = recall | {"id": "a1", "said": ERASED}
    harmless_question = recall | {"id": "a2", "said": "When does it leave?"}
    source_home.recalls.append(erased_question, harmless_question)
    for _ in range(2):
        status, output = run_copy(run, source, target)
        assert status == 0, output
        assert "1 recall was left out" in output
    target_home = home_of(Settings(store=target), lambda: 0)
    try:
        assert [line["id"] for line in target_home.recalls.lines()] == ["a2"]
    finally:
        target_home.close()
        source_home.close()


def test_what_was_erased_nowhere_is_copied_with_its_past(
    tmp_path: Path, target: str, run: Run
) -> None:
    source = str(tmp_path / "source")
    run(source, "remember", "-c", "said-here", ERASED)
    status, output = run_copy(run, source, target)
    assert (status, "1 conversation copied" in output) == (0, True), output
    assert "Quxlantern" in run(target, "list", "-c", "said-here")[1]
