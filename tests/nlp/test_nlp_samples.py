"""The sample conversation has the shape that `replay` and the demo read, and its questions can be answered from it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nlp import extract_message_keywords

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
SHANGHAI = timezone(timedelta(hours=8))  # no daylight saving since 1991
SESSION_GAP_MS = 6 * 3_600_000


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str
    timestamp: int = 0


def read_messages() -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (SAMPLES / "companion.jsonl").read_text("utf-8").splitlines()
    ]


def read(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((SAMPLES / name).read_text("utf-8"))
    return loaded


def sessions() -> list[list[Message]]:
    """The conversation, cut wherever nothing was said for six hours."""
    messages = [
        Message(entry["role"], entry["content"], entry["timestamp"]) for entry in read_messages()
    ]
    cuts = []
    for number, (earlier, later) in enumerate(pairwise(messages), 1):
        if later.timestamp - earlier.timestamp > SESSION_GAP_MS:
            cuts.append(number)
    return [messages[start:end] for start, end in pairwise([0, *cuts, len(messages)])]


def questions() -> list[Any]:
    return [pytest.param(question, id=question["about"]) for question in read("questions.json")]


def test_every_message_has_the_fields_of_a_replay_and_two_people_speak() -> None:
    messages = read_messages()
    assert len(messages) >= 220
    speakers = {"user": "小满", "assistant": "阿澈"}
    for message in messages:
        assert set(message) == {"conversation_id", "role", "content", "timestamp", "name"}
        assert message["conversation_id"] == "小满和阿澈"
        assert message["name"] == speakers[message["role"]]
        assert message["content"].strip() == message["content"] != ""
        assert type(message["timestamp"]) is int


def test_no_message_is_said_twice() -> None:
    contents = [message["content"] for message in read_messages()]
    assert len(set(contents)) == len(contents)


def test_time_runs_forward_over_seven_weeks_and_at_least_25_days() -> None:
    times = [message["timestamp"] for message in read_messages()]
    assert all(earlier < later for earlier, later in pairwise(times))
    days = [datetime.fromtimestamp(time / 1000, SHANGHAI).date() for time in times]
    assert len(set(days)) >= 25
    assert timedelta(days=45) <= days[-1] - days[0] <= timedelta(days=55)


def test_a_session_is_6_to_14_messages_and_starts_with_the_user() -> None:
    for session in sessions():
        assert 6 <= len(session) <= 14, session[0].content
        assert session[0].role == "user"


def test_the_triggers_have_every_field_and_show_every_form() -> None:
    triggers = read("triggers.json")
    assert len(triggers) >= 12
    assert len({trigger["name"] for trigger in triggers}) == len(triggers)
    for trigger in triggers:
        assert set(trigger) == {"name", "prompt", "trigger", "createdContext"}
        assert all(isinstance(value, str) and value.strip() for value in trigger.values())
    code = [trigger["trigger"] for trigger in triggers]
    for form in [
        r"new Date\(\)",
        r"match_keys\(",
        r"match_keys_all\(",
        r"\[/",  # a RegExp literal among the keys
        r"context\.participants",
        r"getHours\(\)",
        r"(?m)^return |\) return ",
        r"(?s);\n[^;]+$",  # statements whose last value counts
    ]:
        assert any(re.search(form, source) for source in code), form


def test_there_are_questions_of_every_kind_asked_after_the_conversation() -> None:
    sample_questions = read("questions.json")
    names = {trigger["name"] for trigger in read("triggers.json")}
    assert len(sample_questions) >= 10
    last = read_messages()[-1]["timestamp"] / 1000
    for question in sample_questions:
        assert set(question) - {"brief"} == {"about", "now", "messages", "expect"}
        assert question.get("brief", True) is True, "one of the three that the demo asks"
        assert datetime.fromisoformat(question["now"]).timestamp() > last
        assert set(question["expect"]) == {"recalled", "fires"}
        assert set(question["expect"]["fires"]) <= names
        assert all(
            message["role"] in {"user", "assistant", "system"} for message in question["messages"]
        )
    assert sum("brief" in question for question in sample_questions) == 3
    fired = set[str]().union(*(question["expect"]["fires"] for question in sample_questions))
    assert {"妈妈的生日", "难过的时候", "大理的云", "芒果过敏", "夜深了"} <= fired
    assert sum(not question["expect"]["recalled"] for question in sample_questions) == 1


@pytest.mark.parametrize("question", questions())
def test_a_question_shares_its_heaviest_words_with_the_session_it_is_about(
    question: dict[str, Any],
) -> None:
    """By keywords alone, without decay: the expected words are in the three sessions that match best.

    A question that should recall nothing has no word in common with any message.
    """
    messages = [Message(message["role"], message["content"]) for message in question["messages"]]
    question_words = dict(extract_message_keywords(messages))
    assert question_words

    def match(session: list[Message]) -> float:
        session_words = dict(extract_message_keywords(session))
        return sum(
            weight + session_words[word]
            for word, weight in question_words.items()
            if word in session_words
        )

    best = sorted(sessions(), key=match, reverse=True)[:3]
    expected = question["expect"]["recalled"]
    if not expected:
        assert match(best[0]) == 0
        return
    assert match(best[0]) > 20  # relevance 5, plus all that decay can take
    recalled = "\n".join(message.content for session in best for message in session)
    assert [word for word in expected if word not in recalled] == []
