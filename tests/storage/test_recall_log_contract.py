"""The record of recalls: what every store of its lines must do, and what files must do beside."""

from __future__ import annotations

import json
from pathlib import Path
from secrets import token_hex

import pytest
from passing_recalls import PassingRecalls
from postgres import postgres
from postgres_entries import database

from memory_server.kernel import files, recalls
from memory_server.kernel.recalls import LINES_AFTER_A_CUT, MOST_LINES, Line, RecallLog
from memory_server.storage.recall_files import RecallFiles


@pytest.fixture(params=["files", "passing", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> RecallLog:
    if request.param == "postgres":
        postgres()
        from memory_server.storage.postgres.recall_rows import RecallRows

        return RecallRows(database(), f"test-{token_hex(8)}")
    return RecallFiles(tmp_path) if request.param == "files" else PassingRecalls()


def line(number: int, conversation: str = "chat", **rest: object) -> Line:
    made = {"id": f"{number:08x}", "at": "2026-06-20T08:00:00.000Z", "conversation": conversation, "said": "吃披萨吗？"}
    return made | rest


def file_of(folder: Path, conversation: str = "chat") -> Path:
    return folder / ".memory-server" / "recalls" / f"{conversation}.jsonl"


def test_lines_come_back_as_they_were_each_in_its_conversation(kept: RecallLog) -> None:
    made = [line(1, "小明"), line(2), line(3, "小明", came=[{"id": "m", "words": {"披萨": 1.5}}])]
    for each in made:
        kept.append(each)
    assert kept.lines("小明") == [made[0], made[2]]
    assert kept.lines("chat") == [made[1]]
    assert kept.lines("nobody") == []
    assert sorted(each["id"] for each in kept.lines()) == ["00000001", "00000002", "00000003"]


def test_a_conversation_keeps_its_last_2000_lines_at_most(kept: RecallLog) -> None:
    kept.append(line(0, "other"))
    for number in range(MOST_LINES):
        kept.append(line(number))
    assert len(kept.lines("chat")) == MOST_LINES
    kept.append(line(MOST_LINES))
    held = kept.lines("chat")
    assert len(held) == LINES_AFTER_A_CUT
    assert held[-1] == line(MOST_LINES)
    assert kept.lines("other") == [line(0, "other")]


def test_more_lines_at_once_than_are_kept_leave_the_newest(kept: RecallLog) -> None:
    kept.append(*(line(number) for number in range(MOST_LINES + 500)))
    held = kept.lines("chat")
    assert LINES_AFTER_A_CUT <= len(held) <= MOST_LINES
    assert held == [line(number) for number in range(MOST_LINES + 500)][-len(held) :]


def test_lines_can_be_changed_and_removed(kept: RecallLog) -> None:
    for number, name in enumerate(("a", "a", "b")):
        kept.append(line(number, name))

    def without_text(each: Line) -> Line | None:
        return None if each["id"] == "00000000" else each | {"said": ""} if each["id"] == "00000002" else each

    kept.rewrite(without_text)
    assert kept.lines("a") == [line(1, "a")]
    assert kept.lines("b") == [line(2, "b", said="")]
    kept.rewrite(lambda _: None)
    assert kept.lines() == []


# --- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_a_last_line_that_was_lost_in_part_harms_no_other(tmp_path: Path, cut: int) -> None:
    kept = RecallFiles(tmp_path)
    kept.append(line(1))
    kept.append(line(2))
    file = file_of(tmp_path)
    file.write_bytes(file.read_bytes()[:-cut])
    before = [line(1), *([line(2)] if cut == 1 else [])]  # only its break is gone
    assert kept.lines("chat") == before
    kept.append(line(3))
    assert kept.lines("chat") == [*before, line(3)]


def test_lines_that_are_no_recalls_are_passed_over(tmp_path: Path) -> None:
    kept = RecallFiles(tmp_path)
    kept.append(line(1))
    wrong = [[], {}, line(2) | {"at": "soon"}, line(3) | {"at": True}, {"id": "4", "at": "2026-06-20T08:00:00.000Z"}]
    with file_of(tmp_path).open("a") as file:
        file.write("\n".join(map(json.dumps, wrong)) + "\nno JSON\n")
    assert kept.lines() == [line(1)]


def test_where_nothing_is_stored_nothing_is_made(tmp_path: Path) -> None:
    kept = RecallFiles(tmp_path / "none")
    kept.append(line(1))
    assert kept.lines() == []
    kept.rewrite(lambda _: None)
    assert not (tmp_path / "none").exists()


def test_a_line_is_its_owners_alone_and_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = RecallFiles(tmp_path)
    kept.append(line(1))
    monkeypatch.setattr(files, "sync_file", pytest.fail)
    kept.append(line(2))
    assert file_of(tmp_path).stat().st_mode & 0o077 == 0
    assert recalls.MOST_LINES == 2_000
