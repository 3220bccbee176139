"""Reads data sets in the forms in which they were published: LoCoMo, MemDaily and MemoryBank.

None of them names a zone: times are taken for UTC. A reader raises KeyError, TypeError or ValueError where a value is
not of its form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from memory_server.core.model import Role
from memory_server.core.times import milliseconds
from memory_server.evaluation.dataset import Dataset, Question, Turn
from memory_server.recall.parameters import DAY_MS, MINUTE_MS

_KINDS = {1: "multi-hop", 2: "date", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_ADVERSARIAL = 5
# Evidence is mostly ["D1:3"], but the published file also has "D8:6; D9:17", "D:11:26" and "D30:05".
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_WORDS_READ_A_MINUTE = 238
_WORDS_TYPED_A_MINUTE = 36.2
# Such as 01_simple_events.json: the kind of question, then what it is about.
_MEMDAILY_FILE = re.compile(r"\d+_(\w+)_[a-z]+\.json")
# Such as 2024年04月01日 周一 08:30; the day of the week says nothing new.
_WEEKDAY = re.compile(r"(?<=日)\D+")


def read_locomo(name: str, value: Any) -> Dataset:
    """LoCoMo as in locomo10.json, or a file for each dialogue: ten long dialogues in English, their questions asked a
    day after the last turn. Source: Maharana et al. 2024, arXiv 2402.17753.

    Two people talk: `speaker_a` is taken for the user and `speaker_b` for the companion. Questions of category 5 are
    adversarial: nothing said answers them. A question that should have an answer but names no turn that exists is left
    out and counted in `skipped`.
    """
    turns: list[Turn] = []
    questions: list[Question] = []
    skipped = 0
    # The published array; or, as in the archive of the authors' repository, one dialogue, named by its file.
    samples = [{"sample_id": name.removesuffix(".json"), "conversation": value, **value}] if "qa" in value else value
    for sample in samples:
        conversation_id = sample["sample_id"]
        said = list(_locomo_turns(conversation_id, sample["conversation"]))
        known = {turn.id for turn in said}
        turns += said
        asked_ms = max(turn.time_ms for turn in said) + DAY_MS
        for number, asked in enumerate(sample["qa"], 1):
            category = asked["category"]
            named = _EVIDENCE.findall(" ".join(asked.get("evidence", ())))
            about = frozenset(_locomo_id(conversation_id, *place) for place in named) & known
            gold = frozenset[str]() if category == _ADVERSARIAL else about
            if not gold and category != _ADVERSARIAL:
                skipped += 1
                continue
            question_id, kind = f"{conversation_id} q{number}", _KINDS.get(category, str(category))
            text = asked["question"]
            questions.append(Question(question_id, conversation_id, text, gold, asked_ms, "en", kind, about))
    return Dataset(name, tuple(turns), tuple(questions), skipped)


def _locomo_turns(conversation_id: str, conversation: Mapping[str, Any]) -> Iterator[Turn]:
    """A session has one time, at which it begins. Each turn comes as much later as it takes to read the one before and
    to type it: 238 words a minute are read (Brysbaert 2019, a mean of 190 studies) and 36.2 typed on a telephone (Palin
    et al. 2019, 37,000 people). So turns are three quarters of a minute apart on average."""
    numbers = (int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
    for session in sorted(numbers):
        time_ms = _time_ms(conversation[f"session_{session}_date_time"], "%I:%M %p on %d %B, %Y")
        to_read = 0
        for turn in conversation[f"session_{session}"]:
            role: Role = "user" if turn["speaker"] == conversation["speaker_a"] else "assistant"
            # What a picture shows is known by its caption only, and questions ask about it.
            text = turn["text"] + (f" (picture: {turn['blip_caption']})" if turn.get("blip_caption") else "")
            (place,) = _EVIDENCE.findall(turn["dia_id"])
            typed = len(turn["text"].split())
            time_ms += round((to_read / _WORDS_READ_A_MINUTE + typed / _WORDS_TYPED_A_MINUTE) * MINUTE_MS)
            to_read = typed
            yield Turn(_locomo_id(conversation_id, *place), conversation_id, role, text, time_ms, turn["speaker"])


def _locomo_id(conversation_id: str, session: str, turn: str) -> str:
    return f"{conversation_id} D{int(session)}:{int(turn)}"


def read_memdaily(name: str, value: Any) -> Dataset:
    """MemDaily in Chinese, as the MemSim repository keeps it in `messages_and_QAs/*.json`. Source: Zhang et al. 2024,
    arXiv 2409.20163.

    A file is an array of trajectories: short runs of messages that a user leaves with an assistant, and a question
    about them with the messages that it needs. Each trajectory is taken for a conversation. In a few, the question is
    dated before a message: it is asked an hour after the last one at the earliest.
    """
    stem = name.removesuffix(".json")
    kind = found[1] if (found := _MEMDAILY_FILE.fullmatch(name)) else stem
    turns: list[Turn] = []
    questions: list[Question] = []
    for trajectory in value:
        conversation_id = f"{stem} {trajectory['tid']}"
        said = [
            Turn(f"{conversation_id} {one['mid']}", conversation_id, "user", one["message"], _memdaily_ms(one["time"]))
            for one in trajectory["message_list"]
        ]
        turns += said
        earliest_ms = max(turn.time_ms for turn in said) + 60 * MINUTE_MS
        for asked in trajectory["question_list"]:
            gold = frozenset(f"{conversation_id} {mid}" for mid in asked["target_step_id"])
            asked_ms = max(_memdaily_ms(asked["time"]), earliest_ms)
            question_id = f"{conversation_id} q{asked['qid']}"
            questions.append(Question(question_id, conversation_id, asked["question"], gold, asked_ms, "zh", kind))
    return Dataset(name, tuple(turns), tuple(questions))


def _memdaily_ms(text: str) -> int:
    return _time_ms(_WEEKDAY.sub(" ", text), "%Y年%m月%d日 %H:%M")


def read_memorybank(name: str, value: Any) -> Dataset:
    """MemoryBank in Chinese, as one JSON object with days as gold; each question is asked a day after the user's last
    day. Source: Zhong et al. 2023, arXiv 2305.10250.

        {"users": {NAME: {"2023-04-27": [{"query": …, "response": …}, …]}},
         "questions": [{"user": NAME, "question": …, "gold_days": ["2023-04-27"]}]}

    The source dates days, not messages: the exchanges of a day are put a quarter of an hour apart, from noon, so that
    no time rule of recall takes them for one moment. Every turn of a gold day counts as gold.
    """
    turns: list[Turn] = []
    of_day: dict[tuple[str, int], list[str]] = {}
    for user, days in value["users"].items():
        for day, exchanges in sorted(days.items()):
            for number, exchange in enumerate(exchanges):
                time_ms = _noon_ms(day) + number * 15 * MINUTE_MS
                stem = f"{user} {day} {number + 1}"
                query = Turn(f"{stem} query", user, "user", exchange["query"], time_ms, user)
                response = Turn(f"{stem} response", user, "assistant", exchange["response"], time_ms)
                turns += (query, response)
                of_day.setdefault((user, time_ms // DAY_MS), []).extend((query.id, response.id))
    questions = []
    for number, asked in enumerate(value["questions"], 1):
        user = asked["user"]
        last_day = max(day for owner, day in of_day if owner == user)
        gold = frozenset(turn for day in asked["gold_days"] for turn in of_day[user, _noon_ms(day) // DAY_MS])
        asked_ms = (last_day + 1) * DAY_MS + DAY_MS // 2
        questions.append(Question(f"q{number}", user, asked["question"], gold, asked_ms, "zh"))
    return Dataset(name, tuple(turns), tuple(questions))


def _noon_ms(day: str) -> int:
    return _time_ms(day, "%Y-%m-%d") + DAY_MS // 2


def _time_ms(text: str, form: str) -> int:
    return milliseconds(datetime.strptime(text, form).replace(tzinfo=UTC))
