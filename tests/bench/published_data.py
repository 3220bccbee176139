"""Converts published data sets into the plain form of eval.py: LoCoMo, MemDaily, MemoryBank, MADial, BEAM, LifeBench, RHELM
and ProactiveMemBench.

    python tests/bench/published_data.py locomo locomo10.json >locomo.jsonl
    python tests/bench/published_data.py memdaily messages_and_QAs/*.json >memdaily.jsonl
    python tests/bench/published_data.py madial en >madial-en.jsonl

None of them names a zone: times are taken for UTC. A reader raises KeyError, TypeError or ValueError where a value is
not of its form.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
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
# Such as <Bart>: "I ate so many fries this morning!"
_MADIAL_LINE = re.compile(r"\s*<(?!BOD|EOD)(\w+)>:?\s*\"?(.*?)\"?\s*", re.DOTALL)
# Such as Entity-Associated Memory Recall: what the remark is about stands before it.
_PROACTIVE_KIND = re.compile(r"-(?:related|associated|linked|based) ")
_MADIAL_SPEAKERS = {1: "Bart", 2: "Lisa"}
_LIFEBENCH_TEXTS = {
    "agent_chat": "",
    "sms": "{message_content}",
    "note": "{title}。{content}",
    "calendar": "{title}。{description}",
    "push": "{title}：{content}",
    "photo": "{caption}",
}
"""The text of a record of the telephone, by its kind."""
_CHINA = timezone(timedelta(hours=8))


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


def madial(folder: Path) -> Lines:
    """MADial-Bench in English or Chinese: the folder of a language, with its files of memories and dialogues. Source: He
    et al. 2024, arXiv 2409.15240.

    A companion should recall a memory of the one who speaks at the first turn that is to be predicted. The user's message
    before that turn is the question, and the three before it go with it. Memories have days: each is put at its own
    minute of an evening, so that no two are one exchange.
    """
    (memory_file,) = folder.glob("*-memory.json")
    (dialogue_file,) = folder.glob("*-dialogue.json")
    language = "en" if "-en-" in memory_file.name else "zh"
    memories: dict[str, Any] = {}
    for line in _json_lines(memory_file):
        memories.update(line)

    owners: dict[str, str] = {}
    last = 0
    for number, (memory_id, memory) in enumerate(memories.items()):
        owners[memory_id] = _madial_owner(memory)
        after_noon_ms = (6 * 60 + 61 * number % (5 * 60)) * MINUTE_MS
        time_ms = _noon_ms(memory["time"]) + after_noon_ms
        last = max(last, time_ms)
        yield turn(f"m{memory_id}", owners[memory_id], "user", memory["event"], time_ms)

    asked: Counter[int] = Counter()
    for dialogue in _json_lines(dialogue_file):
        user_id = dialogue["user-id"]
        speaker = _MADIAL_SPEAKERS[user_id]
        relevant = map(str, dialogue["relevant-id"])
        gold = [f"m{memory_id}" for memory_id in relevant if owners.get(memory_id) == speaker]
        said = _madial_said(dialogue["dialogue"][: dialogue["test-turn"][0]])
        number = asked[user_id]
        asked[user_id] += 1
        if not said or not gold:
            continue
        yield {
            "question": f"madial_{language}_{user_id}/{number}",
            "conversation": speaker,
            "text": said[-1]["content"],
            "gold": gold,
            "asked": iso(last + DAY_MS),
            "language": language,
            "before": said[-4:-1],
        }


def _madial_owner(memory: Mapping[str, Any]) -> str:
    """Return whose memory it is: the Chinese file has the id of the user, and each English one names its child."""
    if "user-id" in memory:
        return _MADIAL_SPEAKERS[memory["user-id"]]
    return next(name for name in _MADIAL_SPEAKERS.values() if name in memory["event"])


def _madial_said(lines: list[str]) -> list[dict[str, str]]:
    """Return the messages of a dialogue up to the last one of the user."""
    said: list[dict[str, str]] = []
    for match in filter(None, map(_MADIAL_LINE.fullmatch, lines)):
        role = "assistant" if match[1] == "Assistant" else "user"
        said.append({"role": role, "content": match[2]})
    while said and said[-1]["role"] == "assistant":
        said.pop()
    return said


def _json_lines(path: Path) -> list[Any]:
    return [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]


def _json_of(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def beam(folder: Path) -> Lines:
    """BEAM: a folder such as `chats/100K`, of which the chats 1 to 10 are read. English. Source: Tavakoli et al. 2025, arXiv
    2510.27246.

    The first message of each part has a day; the messages follow each other every two minutes. Questions without a turn
    that answers them are left out.
    """
    for number in range(1, 11):
        conversation = f"beam {number}"
        chat = _json_of(folder / str(number) / "chat.json")
        turns = list(_beam_turns(conversation, chat))
        yield from turns
        turn_ids = {line["turn"] for line in turns}
        last_time = datetime.fromisoformat(turns[-1]["time"])
        kinds = _json_of(folder / str(number) / "probing_questions" / "probing_questions.json")
        for kind, questions in kinds.items():
            for place, question in enumerate(questions):
                sources = sorted(set(_numbers_in(question.get("source_chat_ids"))))
                named = [f"{conversation}/{source}" for source in sources]
                gold = [turn_id for turn_id in named if turn_id in turn_ids]
                if not gold:
                    continue
                yield {
                    "question": f"{conversation} {kind} {place}",
                    "conversation": conversation,
                    "text": question["question"],
                    "gold": gold,
                    "asked": iso(milliseconds(last_time) + DAY_MS),
                    "language": "en",
                    "kind": kind,
                }


def _beam_turns(conversation: str, chat: Any) -> Lines:
    time_ms = _noon_ms("2024-01-01")
    for turns in chain.from_iterable(part["turns"] for part in chat):
        for message in turns:
            if message.get("time_anchor"):
                time_ms = max(time_ms, _time_ms(message["time_anchor"], "%B-%d-%Y"))
            time_ms += 2 * MINUTE_MS
            turn_id = f"{conversation}/{message['id']}"
            yield turn(turn_id, conversation, message["role"], message["content"], time_ms)


def _numbers_in(value: Any) -> Iterator[int]:
    """Yield the numbers of a list or object, however deep."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict):
        yield from chain.from_iterable(map(_numbers_in, value.values()))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_numbers_in, value))


def lifebench(folder: Path) -> Lines:
    """LifeBench in Chinese: the folder of one person, whose telephone holds chats with an assistant, messages, notes, days of
    a calendar, notices and captions of photographs. Times are those of China. The questions name records of it.

    A record without a time, and one whose number was used before, is left out.
    """
    person = folder.name
    turns = list(_lifebench_turns(person, folder / "phone_data"))
    yield from turns
    turn_ids = {line["turn"] for line in turns}
    last_time = max(datetime.fromisoformat(line["time"]) for line in turns)
    for number, row in enumerate(_json_of(folder / "QA" / "QA_clean.json")):
        sources = row.get("evidence") or ()
        named = {f"{person}/{source.get('type')}/{source.get('id')}" for source in sources}
        gold = sorted(named & turn_ids)
        if not gold:
            continue
        yield {
            "question": f"{person} q{number}",
            "conversation": person,
            "text": row["question"],
            "gold": gold,
            "asked": iso(milliseconds(last_time) + DAY_MS),
            "language": "zh",
            "kind": row["question_type"],
        }


def _lifebench_turns(person: str, folder: Path) -> Lines:
    """Yield a turn for each record, and one for each message of a chat; the first has the id of the record."""
    used: set[str] = set()
    for kind, text in _LIFEBENCH_TEXTS.items():
        for record in _json_of(folder / f"{kind}.json"):
            record_id = f"{person}/{kind}/{record['phone_id']}"
            day = record.get("datetime", record.get("date"))
            if record_id in used or not day:
                continue
            used.add(record_id)
            time_ms = milliseconds(datetime.fromisoformat(day).replace(tzinfo=_CHINA))
            if kind != "agent_chat":
                yield turn(record_id, person, "user", text.format(**record), time_ms)
                continue

            # A chat has a day and no time: it is put into the evening, each at its own minute.
            time_ms += (20 * 60 + len(used) % 60) * MINUTE_MS
            for place, (role, content) in enumerate(_lifebench_chat(record["conversation"])):
                turn_id = f"{record_id}/{place}" if place else record_id
                yield turn(turn_id, person, role, content, time_ms + place * MINUTE_MS // 3)


def _lifebench_chat(conversation: Any) -> Iterator[tuple[str, str]]:
    """Yield role and text of each message of a chat; some chats are written as a Python object in a text."""
    if isinstance(conversation, str):
        conversation = ast.literal_eval(conversation)
    for exchange in conversation.values():
        for role in ("user", "assistant"):
            if role in exchange:
                yield role, exchange[role]["content"]


def rhelm(folder: Path) -> Lines:
    """RHELM in English (microsoft/RHELM): the folder `data/conversations/NAME` of one person, a year of talk with an assistant.
    An exchange is a moment. Questions about attached files, and mixed ones, are left out, and those whose evidence is no
    exchange.
    """
    person = folder.name
    exchanges: list[_Exchange] = []
    number_by_evidence: dict[str, int] = {}
    for file in sorted(folder.glob("conversation_*.json")):
        day = _json_of(file)
        for exchange in day["conversation"]:
            number_by_evidence[f"{day['date']}:{exchange['turn']}"] = len(exchanges)
            said = [(role, exchange[role]) for role in ("user", "assistant")]
            exchanges.append(_Exchange(_utc_ms(exchange["timestamp"]), said))

    questions: list[_Asked] = []
    file = folder.parents[1] / "QA_final" / f"low_score_qa_{person}_all_validated.jsonl"
    for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        if row["question_type"] in ("attachment", "mixed"):
            continue
        evidence = filter(number_by_evidence.__contains__, row["supporting_evidence"])
        gold = [number_by_evidence[place] for place in evidence]
        asked_ms = _utc_ms(f"{row['question_date']}T20:00:00")
        questions.append(_Asked(row["question"], gold, asked_ms, row["question_type"]))
    yield from _exchanges_and_questions(person, exchanges, questions)


def proactive(folder: Path) -> Lines:
    """ProactiveMemBench in English (FxyQwQ/ProactiveMemBench): the folder `data/NAME` of one person. A user's message begins an
    exchange. A remark should bring the exchanges in which what it is about was planted; it is made five days after the
    last one. Remarks without such an exchange are left out.
    """
    exchanges: list[_Exchange] = []
    numbers_by_pair: dict[str, list[int]] = {}
    for session in _json_of(folder / "step4_conversations.json"):
        for place, row in enumerate(session["turns"]):
            if row["role"] == "user" or not place:
                exchanges.append(_Exchange(0, []))
            exchange = exchanges[-1]
            exchange.time_ms = _utc_ms(row["timestamp"])
            exchange.said.append((row["role"], row["content"]))
            for pair in row.get("planted_pairs") or ():
                numbers_by_pair.setdefault(pair, []).append(len(exchanges) - 1)

    asked_ms = max(exchange.time_ms for exchange in exchanges) + 5 * DAY_MS
    remarks: list[_Asked] = []
    for row in _json_of(folder / "step5_proactive_questions.json"):
        planted = chain.from_iterable(
            numbers_by_pair.get(pair, ()) for pair in row.get("source_pairs") or ()
        )
        kind = _PROACTIVE_KIND.split(row["trigger_type"].lower())[0]
        remarks.append(_Asked(row["question"], sorted(set(planted)), asked_ms, kind))
    yield from _exchanges_and_questions(folder.name, exchanges, remarks)


@dataclass
class _Exchange:
    """What was said at one moment: role and text of each message."""

    time_ms: int
    said: list[tuple[str, str]]


@dataclass(frozen=True)
class _Asked:
    """A question or remark, and the numbers of the exchanges that answer it."""

    text: str
    gold: list[int]
    asked_ms: int
    kind: str


def _exchanges_and_questions(
    person: str, exchanges: list[_Exchange], questions: list[_Asked]
) -> Lines:
    """Yield the exchanges of a person, and the questions that one of them answers. None is asked before its answer."""
    for number, exchange in enumerate(exchanges):
        for place, (role, text) in enumerate(exchange.said):
            turn_id = f"{person}/{number}/{place}"
            yield turn(turn_id, person, role, text, exchange.time_ms + place * 1000)

    answered = [question for question in questions if question.gold]
    for number, question in enumerate(answered):
        answer_times = [exchanges[place].time_ms for place in question.gold]
        yield {
            "question": f"{person} q{number}",
            "conversation": person,
            "text": question.text,
            "gold": [f"{person}/{place}/0" for place in question.gold],
            "asked": iso(
                max(question.asked_ms, *(time_ms + MINUTE_MS for time_ms in answer_times))
            ),
            "language": "en",
            "kind": question.kind,
            "before": [],
        }


def _utc_ms(text: str) -> int:
    """Return a time in milliseconds; without a zone it is taken for UTC."""
    moment = datetime.fromisoformat(text)
    return milliseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _noon_ms(day: str) -> int:
    return _time_ms(day, "%Y-%m-%d") + DAY_MS // 2


def _time_ms(text: str, form: str) -> int:
    return milliseconds(datetime.strptime(text, form).replace(tzinfo=UTC))


READERS = {"locomo": locomo, "memdaily": memdaily, "memorybank": memorybank}
FOLDERS = {
    "madial": madial,
    "beam": beam,
    "lifebench": lifebench,
    "rhelm": rhelm,
    "proactive": proactive,
}
"""Readers of sets that are a folder of files."""


def convert(form: str, paths: list[Path]) -> Lines:
    """The lines of these files or folders, which have the form `form`."""
    for path in paths:
        if form in FOLDERS:
            yield from FOLDERS[form](path)
            continue
        yield from READERS[form](path.name, json.loads(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    for line in convert(sys.argv[1], [Path(name) for name in sys.argv[2:]]):
        sys.stdout.buffer.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
