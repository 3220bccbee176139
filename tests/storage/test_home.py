"""A home is named by a URL; what is kept there is reached through it alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_memories import NOW, memory
from store_on_disk import commit

from memory_server.config import Settings
from memory_server.conversations.changes import Added
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.private import Pause
from memory_server.runtime.app import App
from memory_server.runtime.homes import open_home
from memory_server.storage.data_dir import Home

pytestmark = pytest.mark.anyio


def home_at(url: str | Path) -> Home:
    return open_home(url, lambda: NOW)


@pytest.mark.parametrize("form", [str, Path, Path.as_uri, lambda path: Path(path.as_uri())])
def test_a_folder_and_its_url_are_the_same_home(tmp_path: Path, form: type[str]) -> None:
    folder = tmp_path / "小明 and 50%"
    assert home_at(form(folder)).place == folder
    assert not folder.exists(), "opening touches no disk"


def test_a_relative_path_and_one_of_the_user_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_at("memories").place == home_at("~/memories").place == tmp_path / "memories"
    assert home_at("a:b").place == tmp_path / "a:b"


@pytest.mark.parametrize(
    "url", ["mysql://localhost/memories", Path("https://example.org/memories")]
)
def test_another_kind_of_home_is_refused_in_a_sentence(url: str | Path) -> None:
    with pytest.raises(InvalidInput, match="give a folder, or a URL that begins with file:///"):
        home_at(url)


async def test_a_setting_may_be_a_url(tmp_path: Path) -> None:
    async with App(Settings(data_dir=Path((tmp_path / "data").as_uri()))) as app:
        await commit(app.home.conversations, Added(memory("a")))
    assert (tmp_path / "data" / "chat").is_dir()


async def test_all_that_is_kept_is_reached_through_it(tmp_path: Path) -> None:
    home = home_at(tmp_path)
    assert home.examinations() == []
    await commit(home.conversations, Added(memory("a")))
    [examination] = home.examinations()
    assert [finding.grade for finding in examination()] == ["ok"]
    assert {finding.about for finding in home.examine()} == {"folder", "disk", "clock", "backups"}
    [repair] = home.repairs()
    assert repair() is None
    assert home.backups.listed() == []
    async with home.ledger.turn() as is_ours:
        assert is_ours
    home.pause.write(Pause())
    assert home.pause.read(NOW) == Pause()
    assert home.answered_events.claim("event", NOW)
    await home.conversations.aclose()
