"""A search looks at the end of long messages, so its time is bounded."""

from __future__ import annotations

import time

from memory_server.config import Settings
from memory_server.config.recall import parameters
from memory_server.conversations.recall.words import MOST_NAMES, QUERY_CHARS
from memory_server.kernel.messages import Message

NOW_MS = 1_800_000_000_000


def test_the_end_of_the_last_messages_counts() -> None:
    wording = parameters(Settings()).wording
    filler = "zebra " * QUERY_CHARS
    said = wording.of_query([Message("user", "camel"), Message("user", filler + "where is the tiger?")], NOW_MS)
    assert "tiger" in said.words
    assert "camel" not in said.words
    short = [Message("user", "camel " * 10), Message("assistant", "lion"), Message("user", "tiger")]
    assert {"camel", "lion", "tiger"} <= wording.of_query(short, NOW_MS).words.keys()
    alike = [Message("user", ("zebra " * QUERY_CHARS + "tiger")[-QUERY_CHARS:])]
    assert wording.of_query([Message("user", "zebra " * QUERY_CHARS + "tiger")], NOW_MS) == wording.of_query(
        alike, NOW_MS
    )


def test_many_messages_and_names_take_no_longer_than_few() -> None:
    wording = parameters(Settings()).wording
    text = " ".join(f"{number:x}" for number in range(20_000))

    def seconds(count: int, names: int) -> float:
        began = time.process_time()
        wording.of_query([Message("user", text[:90_000])] * count, NOW_MS, names=[f"name{n}" for n in range(names)])
        return time.process_time() - began

    seconds(1, 1)
    assert seconds(11, 100 * MOST_NAMES) < 0.05 + 10 * seconds(1, MOST_NAMES)
