"""Reads MemDaily in Chinese, as the MemSim repository keeps it in `messages_and_QAs/*.json`.

Source: Zhang et al. 2024, arXiv 2409.20163. A file is an array of trajectories: short runs of messages that a user
leaves with an assistant, and a question about them with the messages that it needs. Each trajectory is taken for a
conversation. In a few, the question is dated before a message: it is asked an hour after the last one at the earliest.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from memory_server.core.times import milliseconds
from memory_server.evaluation.dataset import Dataset, Question, Turn
from memory_server.recall.parameters import MINUTE_MS

_AFTER_MS = 60 * MINUTE_MS
# Such as 01_simple_events.json: the kind of question, then what it is about.
_FILE = re.compile(r"\d+_(\w+)_[a-z]+\.json")
# Such as 2024年04月01日 周一 08:30, which names no zone and is taken for UTC.
_TIME = re.compile(r"(\d+)年(\d+)月(\d+)日\D+(\d+):(\d+)")


def read_memdaily(name: str, value: Any) -> Dataset:
    """The trajectories of one file; its kind is that of the questions.

    Raises:
        KeyError, TypeError, ValueError: `value` is not of that form.
    """
    stem = name.removesuffix(".json")
    kind = found[1] if (found := _FILE.fullmatch(name)) else stem
    turns: list[Turn] = []
    questions: list[Question] = []
    for trajectory in value:
        conversation_id = f"{stem} {trajectory['tid']}"
        said = [
            Turn(f"{conversation_id} {said['mid']}", conversation_id, "user", said["message"], _time_ms(said["time"]))
            for said in trajectory["message_list"]
        ]
        turns += said
        earliest_ms = max(turn.time_ms for turn in said) + _AFTER_MS
        for asked in trajectory["question_list"]:
            gold = frozenset(f"{conversation_id} {mid}" for mid in asked["target_step_id"])
            asked_ms = max(_time_ms(asked["time"]), earliest_ms)
            question_id = f"{conversation_id} q{asked['qid']}"
            questions.append(Question(question_id, conversation_id, asked["question"], gold, asked_ms, "zh", kind))
    return Dataset(name, tuple(turns), tuple(questions))


def _time_ms(text: str) -> int:
    if not (found := _TIME.fullmatch(text)):
        raise ValueError(f"`{text}` is not a time")
    year, month, day, hour, minute = map(int, found.groups())
    return milliseconds(datetime(year, month, day, hour, minute, tzinfo=UTC))
