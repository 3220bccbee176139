"""Each way to find more words, on a few questions written for it: the sample and LoCoMo hold hardly any of these."""

from __future__ import annotations

from typing import Any

import pytest
from bench.quality.evaluation import Question, Turn, units_of
from bench.quality.metrics import ask_all, scores_by
from bench.quality.rankers import makers

from memory_server.config import Settings
from memory_server.config.recall import parameters
from memory_server.kernel.times import DAY_MS, milliseconds, moment_of
from nlp.normal_forms import can_simplify

FIRST_MS = 1_775_001_600_000
"""2026-04-01T00:00:00Z, a Wednesday; the turns follow a day apart."""
SAID = [
    "我装了ＧＰＴ４，回答得很快。",
    "今日は寿司とケーキを食べた。",
    "오늘 친구랑 영화를 봤어요. 재미있었어요.",
    "Сегодня ходили в музей, было интересно.",
    "We had lunch at the Café Élan by the river.",
    "阿芙萝黛蒂今天把窗台上的花都浇了。",
    "我把 Python 的作业交了，老师说写得清楚。",
    "爸爸的營收報告終於寫完了。",
    "外婆给我寄了一箱橙子🍊，特别甜。",
    "新来的同事叫萝莉，坐在我对面。",
    "我的驾照考试定在5月20号。",
    "公司的聚餐改到楼下的面馆了。",
]
ASKED = {
    # kind: (question, which of SAID answers it)
    "normal_forms": [("gpt4好用吗？", 0), ("PYTHON的事怎么样了？", 6)],
    "scripts": [
        ("ケーキは？", 1),
        ("친구랑 뭐 했지?", 2),
        ("Где музей?", 3),
        ("Café Élan?", 4),
        ("🍊", 8),
    ],
    "dates": [
        ("4月9号出了什么事？", 8),
        ("What did I do on April 7?", 6),
        ("上周五怎么了？", 9),
        ("5/20有什么安排？", 10),
    ],
    "simplified": [("营收的报告呢？", 7), ("麵館呢？", 11)],
    "names": [("阿芙萝黛蒂做了什么？", 5)],
}


def recall_at_1(kind: str, **words: Any) -> float:
    turns = tuple(
        Turn(str(n), "chat", "user", text, FIRST_MS + n * DAY_MS) for n, text in enumerate(SAID)
    )
    asked_ms = FIRST_MS + 15 * DAY_MS
    questions = tuple(
        Question(text, "chat", text, frozenset({str(gold)}), asked_ms, "?", kind)
        for text, gold in ASKED[kind]
    )
    off = {"simplified": False, "normal_forms": False, "scripts": False, "dates": False}
    search = parameters(Settings.model_validate({"timezone": "UTC", "words": off | words}))
    rankers = {"search": makers({"search": search})["search"]}
    asked = ask_all(questions, units_of(turns), scope="own", rankers=rankers)
    return scores_by(list(asked), "kind", 1)["all"]["search"].figures["recallAt1"].value


def test_the_day_of_the_first_turn_is_the_one_that_the_questions_mean() -> None:
    assert milliseconds(moment_of(FIRST_MS)) == FIRST_MS
    assert f"{moment_of(FIRST_MS):%Y-%m-%d %A}" == "2026-04-01 Wednesday"


@pytest.mark.parametrize("kind", ["normal_forms", "scripts", "dates", "simplified"])
def test_what_a_setting_is_for_is_found_with_it_and_not_without(kind: str) -> None:
    if kind == "simplified" and not can_simplify():
        pytest.skip("OpenCC has no wheel for this machine")
    assert recall_at_1(kind, **{kind: True}) == 1.0
    assert recall_at_1(kind) < 1.0


def test_a_name_that_the_dictionary_cuts_is_found_whole() -> None:
    assert recall_at_1("names", names="阿芙萝黛蒂") == 1.0
