"""A chat without times: no day is made up for it, and the report says how it is placed."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.kernel.messages import Message
from memory_server.runtime.app import App

CHAT = (
    "user: 我家有只猫叫豆包\nassistant: 真可爱\nuser: 明天我花生过敏要看医生\nassistant: 记住了\n"
)


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "chat.txt").write_text(CHAT, "utf-8")
    return tmp_path / "data"


def imported(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    assert (
        main(
            [
                "--now",
                "2026-06-25T08:00:00Z",
                "--timezone",
                "UTC",
                "import",
                str(path),
                "--format",
                "chat",
            ]
        )
        == 0
    )
    return capsys.readouterr().out


@pytest.mark.parametrize("question", ["1月1日放假吗", "1月2日", "What happened on 1 January?"])
def test_a_day_that_nobody_knows_does_not_bring_it(
    data_dir: Path, capsys: pytest.CaptureFixture[str], question: str
) -> None:
    imported(capsys, data_dir.parent / "chat.txt")
    assert main(["--now", "2026-06-25T09:00:00Z", "--timezone", "UTC", "recall", question]) == 0
    assert capsys.readouterr().out == ""


def test_its_words_bring_it(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(capsys, data_dir.parent / "chat.txt")
    assert (
        main(["--now", "2026-06-25T09:00:00Z", "--timezone", "UTC", "recall", "豆包几岁了？"]) == 0
    )
    assert "我家有只猫叫豆包" in capsys.readouterr().out


def test_the_report_says_how_it_is_placed(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = imported(capsys, data_dir.parent / "chat.txt")
    assert (
        "Without a time in the file: 2 memories; the last counts as said an hour ago."
        in report.splitlines()
    )


@pytest.mark.anyio
async def test_a_chat_that_is_told_now_has_its_day(tmp_path: Path) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        added = await app.conversation().short_term.add([Message("user", "我家有只猫叫豆包")])
    assert any(word.endswith("日") for word in added.memory.words)
