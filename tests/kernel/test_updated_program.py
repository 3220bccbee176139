"""A program whose files were replaced while it ran says so, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from languages import Sentence
from memory_server.config import Settings
from memory_server.kernel.failures import failure_sentence
from memory_server.runtime.app import App
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import ToolFailed, call

USUAL = Sentence("The usual sentence.")
UPDATED = "memory-server was updated while it ran here; restart this window. No memory is lost."


@pytest.mark.parametrize(
    "module",
    ["memory_server.tools.gone", "sandbox.gone", "nlp.gone", "languages.gone", "memory_server"],
)
def test_a_module_of_the_program_that_is_gone_means_an_update(module: str) -> None:
    assert (
        str(
            failure_sentence(ModuleNotFoundError(f"No module named {module!r}", name=module), USUAL)
        )
        == UPDATED
    )


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'psycopg'", name="psycopg"),
        ModuleNotFoundError("No module named 'nlpx'", name="nlpx"),
        ImportError("cannot import it"),
        ValueError("memory_server"),
    ],
)
def test_another_error_has_its_usual_sentence(error: Exception) -> None:
    assert failure_sentence(error, USUAL) is USUAL


@pytest.mark.anyio
async def test_a_tool_says_that_the_program_was_updated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:

        def import_what_is_gone(_conversation: object) -> None:
            import memory_server.gone  # type: ignore[import-not-found]  # noqa: F401

        monkeypatch.setattr(app.conversations, "get", import_what_is_gone)
        with pytest.raises(ToolFailed, match=UPDATED):
            await call(TOOLS["get_memory_stats"], app.call, {})
