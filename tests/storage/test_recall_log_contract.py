"""The record of recalls: what every store of its lines must do, and what files must do beside."""

from __future__ import annotations

import json
from pathlib import Path
from secrets import token_hex

import pytest
from passing_recalls import PassingRecalls
from postgres import postgres
from postgres_entries import database

from memory_server.conversations.ports import LINES_AFTER_A_CUT, MOST_LINES, Line, RecallLog
from memory_server.kernel import files
from memory_server.storage.small_files import RecallFiles


@pytest.fixture(params=["files", "passing", "postgres"])
def recall_log(request: pytest.FixtureRequest, tmp_path: Path) -> RecallLog:
    if request.param == "postgres":
        postgres()
        from memory_server.storage.postgres.recall_rows import RecallRows

        return RecallRows(database(), f"test-{token_hex(8)}")
    if request.param == "files":
        return RecallFiles(tmp_path)
    return PassingRecalls()


def line(number: int, conversation: str = "chat", **rest: object) -> Line:
    fields = {
        "id": f"{number:08x}",
        "at": "2026-06-20T08:00:00.000Z",
        "conversation": conversation,
        "said": "吃披萨吗？",
    }
    return fields | rest


def file_of(folder: Path, conversation: str = "chat") -> Path:
    return folder / ".memory-server" / "recalls" / f"{conversation}.jsonl"


def test_lines_come_back_as_they_were_each_in_its_conversation(recall_log: RecallLog) -> None:
    lines = [line(1, "小明"), line(2), line(3, "小明", came=[{"id": "m", "words": {"披萨": 1.5}}])]
    for recall_line in lines:
        recall_log.append(recall_line)
    assert recall_log.lines("小明") == [lines[0], lines[2]]
    assert recall_log.lines("chat") == [lines[1]]
    assert recall_log.lines("nobody") == []
    assert sorted(recall_line["id"] for recall_line in recall_log.lines()) == [
        "00000001",
        "00000002",
        "00000003",
    ]


def test_a_conversation_keeps_its_last_2000_lines_at_most(recall_log: RecallLog) -> None:
    recall_log.append(line(0, "other"))
    for first in range(0, MOST_LINES, 100):
        recall_log.append(*(line(number) for number in range(first, first + 100)))
    assert len(recall_log.lines("chat")) == MOST_LINES
    recall_log.append(line(MOST_LINES))
    lines = recall_log.lines("chat")
    assert len(lines) == LINES_AFTER_A_CUT
    assert lines[-1] == line(MOST_LINES)
    assert recall_log.lines("other") == [line(0, "other")]


def test_more_lines_at_once_than_are_kept_leave_the_newest(recall_log: RecallLog) -> None:
    recall_log.append(*(line(number) for number in range(MOST_LINES + 500)))
    lines = recall_log.lines("chat")
    assert LINES_AFTER_A_CUT <= len(lines) <= MOST_LINES
    assert lines == [line(number) for number in range(MOST_LINES + 500)][-len(lines) :]


def test_lines_can_be_changed_and_removed(recall_log: RecallLog) -> None:
    for number, name in enumerate(("a", "a", "b")):
        recall_log.append(line(number, name))

    def without_text(recall_line: Line) -> Line | None:
        if recall_line["id"] == "00000000":
            return None
        if recall_line["id"] == "00000002":
            return recall_line | {"said": ""}
        return recall_line

    recall_log.rewrite(without_text)
    assert recall_log.lines("a") == [line(1, "a")]
    assert recall_log.lines("b") == [line(2, "b", said="")]
    recall_log.rewrite(lambda _: None)
    assert recall_log.lines() == []


# --- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_a_last_line_that_was_lost_in_part_harms_no_other(tmp_path: Path, cut: int) -> None:
    recall_log = RecallFiles(tmp_path)
    recall_log.append(line(1))
    recall_log.append(line(2))
    file = file_of(tmp_path)
    file.write_bytes(file.read_bytes()[:-cut])
    before = [line(1)]
    if cut == 1:  # only its break is gone
        before.append(line(2))
    assert recall_log.lines("chat") == before
    recall_log.append(line(3))
    assert recall_log.lines("chat") == [*before, line(3)]


def test_lines_that_are_no_recalls_are_passed_over(tmp_path: Path) -> None:
    recall_log = RecallFiles(tmp_path)
    recall_log.append(line(1))
    wrong = [
        [],
        {},
        line(2) | {"at": "soon"},
        line(3) | {"at": True},
        {"id": "4", "at": "2026-06-20T08:00:00.000Z"},
    ]
    with file_of(tmp_path).open("a") as file:
        file.write("\n".join(map(json.dumps, wrong)) + "\nno JSON\n")
    assert recall_log.lines() == [line(1)]


def test_where_nothing_is_stored_nothing_is_made(tmp_path: Path) -> None:
    recall_log = RecallFiles(tmp_path / "none")
    recall_log.append(line(1))
    assert recall_log.lines() == []
    recall_log.rewrite(lambda _: None)
    assert not (tmp_path / "none").exists()


def test_a_line_is_its_owners_alone_and_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recall_log = RecallFiles(tmp_path)
    recall_log.append(line(1))
    monkeypatch.setattr(files, "sync_file", pytest.fail)
    recall_log.append(line(2))
    assert file_of(tmp_path).stat().st_mode & 0o077 == 0
    assert MOST_LINES == 2_000
