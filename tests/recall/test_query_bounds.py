"""A search looks at both ends of a long message, so its time is bounded."""

from __future__ import annotations

import time

from memory_server.config import Settings
from memory_server.config.recall import parameters
from memory_server.conversations.recall.words import MOST_NAMES, QUERY_CHARS
from memory_server.kernel.messages import Message

NOW_MS = 1_800_000_000_000


def test_both_ends_of_the_last_message_count() -> None:
    wording = parameters(Settings()).wording
    filler = "zebra " * QUERY_CHARS
    for long in (filler + "where is the tiger?", "where is the tiger?\n" + filler):
        query = wording.of_query([Message("user", "camel"), Message("user", long)], NOW_MS)
        assert "tiger" in query.words
        assert "camel" not in query.words
    short = [Message("user", "camel " * 10), Message("assistant", "lion"), Message("user", "tiger")]
    assert {"camel", "lion", "tiger"} <= wording.of_query(short, NOW_MS).words.keys()
    longer = [Message("user", f"{filler * 2}tiger")]
    assert (
        wording.of_query([Message("user", f"{filler}tiger")], NOW_MS).words.keys()
        == wording.of_query(longer, NOW_MS).words.keys()
    ), "what is between the ends costs nothing"


def test_what_was_said_before_a_pause_of_an_hour_does_not_count() -> None:
    wording = parameters(Settings()).wording

    def words_after(minutes: int) -> set[str]:
        said_ms = NOW_MS - minutes * 60_000
        talk = [Message("user", "camel", said_ms), Message("assistant", "lion", said_ms)]
        return {*wording.of_query([*talk, Message("user", "tiger", NOW_MS)], NOW_MS).words}

    assert {"camel", "lion", "tiger"} <= words_after(60)
    assert words_after(61) & {"camel", "lion", "tiger"} == {"tiger"}


def test_many_messages_and_names_take_no_longer_than_few() -> None:
    wording = parameters(Settings()).wording
    text = " ".join(f"{number:x}" for number in range(20_000))

    def seconds(count: int, names: int) -> float:
        began = time.process_time()
        wording.of_query(
            [Message("user", text[:90_000])] * count,
            NOW_MS,
            names=[f"name{n}" for n in range(names)],
        )
        return time.process_time() - began

    seconds(1, 1)
    assert seconds(11, 100 * MOST_NAMES) < 0.05 + 10 * seconds(1, MOST_NAMES)
