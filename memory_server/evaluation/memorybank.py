"""Reads MemoryBank in Chinese, as one JSON object with days as gold.

Source: Zhong et al. 2023, arXiv 2305.10250.

    {"users": {NAME: {"2023-04-27": [{"query": …, "response": …}, …]}},
     "questions": [{"user": NAME, "question": …, "gold_days": ["2023-04-27"]}]}

The source dates days, not messages: the exchanges of a day are put a quarter of an hour apart, from noon UTC,
so that no time rule of recall takes them for one moment. Every turn of a gold day counts as gold.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from memory_server.core.times import milliseconds
from memory_server.evaluation.dataset import Dataset, Question, Turn
from memory_server.recall.parameters import DAY_MS, MINUTE_MS

_NOON_MS = DAY_MS // 2
_APART_MS = 15 * MINUTE_MS


def read_memorybank(name: str, value: Any) -> Dataset:
    """The exchanges as two turns each, and the questions, asked a day after the user's last day.

    Raises:
        KeyError, TypeError, ValueError: `value` is not of that form.
    """
    turns = tuple(_turns(value["users"]))
    of_day: dict[tuple[str, int], list[str]] = {}
    for turn in turns:
        of_day.setdefault((turn.conversation_id, turn.time_ms // DAY_MS), []).append(turn.id)
    questions = []
    for number, asked in enumerate(value["questions"], 1):
        user = asked["user"]
        last_day = max(day for owner, day in of_day if owner == user)
        gold = frozenset(turn for day in asked["gold_days"] for turn in of_day[user, _start_ms(day) // DAY_MS])
        asked_ms = (last_day + 1) * DAY_MS + _NOON_MS
        questions.append(Question(f"q{number}", user, asked["question"], gold, asked_ms, "zh"))
    return Dataset(name, turns, tuple(questions))


def _turns(users: Any) -> Iterator[Turn]:
    for user, days in users.items():
        for day, exchanges in sorted(days.items()):
            for number, exchange in enumerate(exchanges):
                time_ms = _start_ms(day) + _NOON_MS + number * _APART_MS
                stem = f"{user} {day} {number + 1}"
                yield Turn(f"{stem} query", user, "user", exchange["query"], time_ms, user)
                yield Turn(f"{stem} response", user, "assistant", exchange["response"], time_ms)


def _start_ms(day: str) -> int:
    """Midnight UTC of a date such as `2023-04-27`."""
    return milliseconds(datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC))
