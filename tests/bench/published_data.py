"""Converts published data sets into the plain form of eval.py: LoCoMo, MemDaily and MemoryBank.

    python tests/bench/published_data.py locomo locomo10.json >locomo.jsonl
    python tests/bench/published_data.py memdaily messages_and_QAs/*.json >memdaily.jsonl

None of them names a zone: times are taken for UTC. A reader raises KeyError, TypeError or ValueError where a value is
not of its form.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from memory_server.kernel.times import DAY_MS, MINUTE_MS, iso, milliseconds

Lines = Iterator[dict[str, Any]]
"""Turns and questions of the plain form."""

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


def turn(
    turn_id: str, conversation: str, role: str, content: str, time_ms: int, name: str | None = None
) -> Any:
    """A turn in the plain form."""
    fields = {
        "turn": turn_id,
        "conversation": conversation,
        "role": role,
        "content": content,
        "time": iso(time_ms),
    }
    if name is not None:
        fields["name"] = name
    return fields


def locomo(name: str, value: Any) -> Lines:
    """LoCoMo as in locomo10.json, or a file for each dialogue: ten long dialogues in English, their questions asked a
    day after the last turn. Source: Maharana et al. 2024, arXiv 2402.17753.

    Two people talk: `speaker_a` is taken for the user and `speaker_b` for the companion. Questions of category 5 are
    adversarial: no turn answers them. A question that should have an answer but names no existing turn is left out.
    """
    # The published array; or, as in the archive of the authors' repository, one dialogue, named by its file.
    samples = value
    if "qa" in value:
        samples = [{"sample_id": name.removesuffix(".json"), "conversation": value, **value}]
    for sample in samples:
        conversation = sample["sample_id"]
        turns = list(_locomo_turns(conversation, sample["conversation"]))
        yield from turns
        turn_ids = {line["turn"] for line in turns}
        last_time = max(datetime.fromisoformat(line["time"]) for line in turns)
        for number, row in enumerate(sample["qa"], 1):
            category = row["category"]
            evidence = _EVIDENCE.findall(" ".join(row.get("evidence", ())))
            named_ids = {
                _locomo_id(conversation, session, turn_number) for session, turn_number in evidence
            }
            about = sorted(named_ids & turn_ids)
            gold = about
            if category == _ADVERSARIAL:
                gold = []
            if not about and category != _ADVERSARIAL:
                continue
            yield {
                "question": f"{conversation} q{number}",
                "conversation": conversation,
                "text": row["question"],
                "gold": gold,
                "about": about,
                "asked": iso(milliseconds(last_time) + DAY_MS),
                "language": "en",
                "kind": _KINDS.get(category, str(category)),
            }


def _locomo_turns(conversation_id: str, conversation: Mapping[str, Any]) -> Lines:
    """A session has one time, at which it begins. Each turn comes as much later as it takes to read the one before and
    to type it: 238 words a minute are read (Brysbaert 2019, a mean of 190 studies) and 36.2 typed on a telephone (Palin
    et al. 2019, 37,000 people). So turns are three quarters of a minute apart on average."""
    matches = filter(None, map(_SESSION.fullmatch, conversation))
    for session in sorted(int(match[1]) for match in matches):
        time_ms = _time_ms(conversation[f"session_{session}_date_time"], "%I:%M %p on %d %B, %Y")
        to_read = 0
        for line in conversation[f"session_{session}"]:
            role = "assistant"
            if line["speaker"] == conversation["speaker_a"]:
                role = "user"
            text = line["text"]
            # What a picture shows is known only from its caption, and questions ask about it.
            if line.get("blip_caption"):
                text += f" (picture: {line['blip_caption']})"
            ((session_of_id, number),) = _EVIDENCE.findall(line["dia_id"])
            typed = len(line["text"].split())
            time_ms += round(
                (to_read / _WORDS_READ_A_MINUTE + typed / _WORDS_TYPED_A_MINUTE) * MINUTE_MS
            )
            to_read = typed
            turn_id = _locomo_id(conversation_id, session_of_id, number)
            yield turn(turn_id, conversation_id, role, text, time_ms, line["speaker"])


def _locomo_id(conversation_id: str, session: str, number: str) -> str:
    return f"{conversation_id} D{int(session)}:{int(number)}"


def memdaily(name: str, value: Any) -> Lines:
    """MemDaily in Chinese, as the MemSim repository keeps it in `messages_and_QAs/*.json`. Source: Zhang et al. 2024,
    arXiv 2409.20163.

    A file is an array of trajectories: short runs of messages that a user leaves with an assistant, and a question
    about them with the messages that it needs. Each trajectory is taken for a conversation. In a few, the question is
    dated before a message: it is asked an hour after the last one at the earliest.
    """
    stem = name.removesuffix(".json")
    kind = stem
    match = _MEMDAILY_FILE.fullmatch(name)
    if match:
        kind = match[1]
    for trajectory in value:
        conversation = f"{stem} {trajectory['tid']}"
        times = []
        for message in trajectory["message_list"]:
            times.append(_memdaily_ms(message["time"]))
            yield turn(
                f"{conversation} {message['mid']}",
                conversation,
                "user",
                message["message"],
                times[-1],
            )
        for row in trajectory["question_list"]:
            yield {
                "question": f"{conversation} q{row['qid']}",
                "conversation": conversation,
                "text": row["question"],
                "gold": [f"{conversation} {mid}" for mid in row["target_step_id"]],
                "asked": iso(max(_memdaily_ms(row["time"]), max(times) + 60 * MINUTE_MS)),
                "language": "zh",
                "kind": kind,
            }


def _memdaily_ms(text: str) -> int:
    return _time_ms(_WEEKDAY.sub(" ", text), "%Y年%m月%d日 %H:%M")


def memorybank(_name: str, value: Any) -> Lines:
    """MemoryBank in Chinese, as one JSON object with days as gold; each question is asked a day after the user's last
    day. Source: Zhong et al. 2023, arXiv 2305.10250.

        {"users": {NAME: {"2023-04-27": [{"query": …, "response": …}, …]}},
         "questions": [{"user": NAME, "question": …, "gold_days": ["2023-04-27"]}]}

    The source dates days, not messages: the exchanges of a day are put a quarter of an hour apart, from noon, so that
    no time rule of recall takes them for one moment. Every turn of a gold day counts as gold.
    """
    of_day: dict[tuple[str, str], list[str]] = {}
    for user, days in value["users"].items():
        for day, exchanges in sorted(days.items()):
            for number, exchange in enumerate(exchanges):
                time_ms = _noon_ms(day) + number * 15 * MINUTE_MS
                query, response = (
                    f"{user} {day} {number + 1} {part}" for part in ("query", "response")
                )
                yield turn(query, user, "user", exchange["query"], time_ms, user)
                yield turn(response, user, "assistant", exchange["response"], time_ms)
                of_day.setdefault((user, day), []).extend((query, response))
    for number, row in enumerate(value["questions"], 1):
        user = row["user"]
        yield {
            "question": f"q{number}",
            "conversation": user,
            "text": row["question"],
            "gold": list(chain.from_iterable(of_day[user, day] for day in row["gold_days"])),
            "asked": iso(max(_noon_ms(day) for owner, day in of_day if owner == user) + DAY_MS),
            "language": "zh",
        }


def _noon_ms(day: str) -> int:
    return _time_ms(day, "%Y-%m-%d") + DAY_MS // 2


def _time_ms(text: str, form: str) -> int:
    return milliseconds(datetime.strptime(text, form).replace(tzinfo=UTC))


READERS = {"locomo": locomo, "memdaily": memdaily, "memorybank": memorybank}


def convert(form: str, paths: list[Path]) -> Lines:
    """The lines of these files, which have the form `form`."""
    for path in paths:
        yield from READERS[form](path.name, json.loads(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    for line in convert(sys.argv[1], [Path(name) for name in sys.argv[2:]]):
        sys.stdout.buffer.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
