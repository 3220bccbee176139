"""Lines with notes on the days that they name: where they stand, and that they cost room and change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sample_memories import DAY, HOUR, NOW, memory, query_of

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.day_lines import DayNotes
from memory_server.conversations.recall.order import Recalled
from memory_server.conversations.recall.prompt_lines import PromptLines, Reader, prompt_lines
from memory_server.conversations.recall.receipts import Receipt
from memory_server.conversations.recall.selection import HeldBack, Recall
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.messages import Message
from memory_server.kernel.recalled_block import as_said, marked
from nlp import Enrichment

WITH_DAYS = KeywordOptions(enrichment=Enrichment(dates=True))


def lines_of(
    recall: Recall | None,
    memories: Sequence[ShortTermMemory] = (),
    zone: tzinfo = UTC,
    given: set[str] | None = None,
    **options: Any,
) -> PromptLines:
    """The lines at midnight of Sunday 21 June 2026, unless said otherwise."""
    reader = Reader(zone, "en", given=given)
    return prompt_lines(
        recall, memories, reader=reader, **{"now_ms": NOW, "wording": WITH_DAYS} | options
    )


def said(text: str, age: int = 2 * DAY, **more: Any) -> ShortTermMemory:
    return memory(text, age=age, messages=(Message("user", text, name="Hanna"),), **more)


def recalled(*memories: ShortTermMemory) -> Recall:
    top = tuple(Recalled(each, Receipt((), 0.0, 0, 0.0)) for each in memories)
    return Recall(top, (), (), HeldBack(0, 0), len(top), query_of({}))


def test_a_line_says_the_day_after_its_sentence() -> None:
    lines = lines_of(recalled(said("My birthday is next Wednesday. I like cake.")))
    assert lines.text == (
        "Hanna (2 days ago, night): My birthday is next Wednesday. [Wednesday, 24 June: in 3 days]"
        " I like cake."
    )


def test_a_note_is_in_the_language_of_its_sentence() -> None:
    lines = lines_of(recalled(said("下周五早上去体检。好怕", age=20 * DAY)))
    assert lines.text.endswith("下周五早上去体检。[6 月 12 日，星期五：9 天前，已过]好怕")


def test_days_are_those_where_the_reader_lives() -> None:
    evening = said("See you tomorrow", age=2 * HOUR)
    shanghai = lines_of(recalled(evening), zone=ZoneInfo("Asia/Shanghai")).text
    assert lines_of(recalled(evening)).text.endswith("[Sunday, 21 June: today]")
    assert shanghai.endswith("[Monday, 22 June: in 1 day]")


def test_words_of_the_node_original_have_no_notes() -> None:
    lines = lines_of(recalled(said("See you tomorrow")), wording=KeywordOptions())
    assert "[" not in lines.text


def test_code_has_no_notes() -> None:
    code = "```\nremind(user, 'tomorrow')\n```"
    assert DayNotes(NOW, UTC).within(code, NOW) == code


@pytest.mark.parametrize("room", range(60, 400, 7))
def test_notes_are_counted_and_never_torn(room: int) -> None:
    sentences = " ".join(f"On the {day}th we meet number {day}." for day in range(24, 31))
    for lines in (
        lines_of(recalled(said(sentences)), max_chars=room),
        lines_of(None, [said(sentences)], max_chars=room),
    ):
        assert len(lines.text) <= room
        assert lines.text.count("[") == lines.text.count("]")


def test_a_line_that_was_given_does_not_come_again_on_the_next_day() -> None:
    given: set[str] = set()
    first = lines_of(recalled(said("See you tomorrow")), given=given)
    later = lines_of(recalled(said("See you tomorrow")), given=given, now_ms=NOW + DAY)
    assert first.text
    assert not later.text


def test_what_comes_back_is_as_it_was_said() -> None:
    lines = lines_of(recalled(said("My birthday is next Wednesday.")))
    quoted = "Your birthday is next Wednesday. [Wednesday, 24 June: in 3 days]"
    turn = (Message("user", f"Hello\n{marked(lines.text)}"), Message("assistant", quoted))
    assert [message.content for message in as_said(turn)] == [
        "Hello",
        "Your birthday is next Wednesday.",
    ]
