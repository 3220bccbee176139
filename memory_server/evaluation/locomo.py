"""Reads LoCoMo as published in locomo10.json, or a file for each dialogue: ten long dialogues in English.

Source: Maharana et al. 2024, arXiv 2402.17753. Two people talk: `speaker_a` is taken for the user and
`speaker_b` for the companion. Questions of category 5 are adversarial: nothing said answers them.

A session has one time, at which it begins. Each turn comes as much later as it takes to read the one before and to type
it: 238 words a minute are read (Brysbaert 2019, a mean of 190 studies) and 36.2 typed on a telephone (Palin et al.
2019, 37,000 people). So turns are three quarters of a minute apart on average.
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


def read_locomo(name: str, value: Any) -> Dataset:
    """The dialogues and their questions, asked a day after the last turn.

    A question that should have an answer but names no turn that exists is left out and counted in `skipped`.

    Raises:
        KeyError, TypeError, ValueError: `value` is not of that form.
    """
    turns: list[Turn] = []
    questions: list[Question] = []
    skipped = 0
    # The published array; or, as in the archive of the authors' repository, one dialogue, named by its file.
    samples = [{"sample_id": name.removesuffix(".json"), "conversation": value, **value}] if "qa" in value else value
    for sample in samples:
        conversation_id = sample["sample_id"]
        said = list(_turns(conversation_id, sample["conversation"]))
        known = {turn.id for turn in said}
        turns += said
        asked_ms = max(turn.time_ms for turn in said) + DAY_MS
        for number, asked in enumerate(sample["qa"], 1):
            category = asked["category"]
            named = _EVIDENCE.findall(" ".join(asked.get("evidence", ())))
            about = frozenset(_turn_id(conversation_id, session, turn) for session, turn in named) & known
            gold = frozenset[str]() if category == _ADVERSARIAL else about
            if not gold and category != _ADVERSARIAL:
                skipped += 1
                continue
            question_id = f"{conversation_id} q{number}"
            kind = _KINDS.get(category, str(category))
            text = asked["question"]
            questions.append(Question(question_id, conversation_id, text, gold, asked_ms, "en", kind, about))
    return Dataset(name, tuple(turns), tuple(questions), skipped)


def _turns(conversation_id: str, conversation: Mapping[str, Any]) -> Iterator[Turn]:
    numbers = (int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
    for session in sorted(numbers):
        time_ms = _time_ms(conversation[f"session_{session}_date_time"])
        to_read = 0
        for turn in conversation[f"session_{session}"]:
            role: Role = "user" if turn["speaker"] == conversation["speaker_a"] else "assistant"
            # What a picture shows is known by its caption only, and questions ask about it.
            text = turn["text"] + (f" (picture: {turn['blip_caption']})" if turn.get("blip_caption") else "")
            ((of_session, number),) = _EVIDENCE.findall(turn["dia_id"])
            turn_id = _turn_id(conversation_id, of_session, number)
            typed = len(turn["text"].split())
            time_ms += round((to_read / _WORDS_READ_A_MINUTE + typed / _WORDS_TYPED_A_MINUTE) * MINUTE_MS)
            to_read = typed
            yield Turn(turn_id, conversation_id, role, text, time_ms, turn["speaker"])


def _turn_id(conversation_id: str, session: str, turn: str) -> str:
    return f"{conversation_id} D{int(session)}:{int(turn)}"


def _time_ms(text: str) -> int:
    """A time such as `1:56 pm on 8 May, 2023`, which names no zone and is taken for UTC."""
    return milliseconds(datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC))
