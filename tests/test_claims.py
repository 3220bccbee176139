"""The ledger of claims: which figures a page has, that none can change unseen, and how a claim is measured again."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from pathlib import Path

import measured_claims
import pytest
from claims import KINDS, faults_of, main, read_ledger, read_pages
from measured_claims import _found
from page_figures import Figure, figures, shown_text

LEDGER = read_ledger()
PAGES = read_pages(LEDGER)
NEXT = str.maketrans("0123456789一二三四五六七八九十两半", "1234567890二三四五六七八九十二三两")
"""Each digit and numeral, and another one."""
WORDS = {"half": "quarter", "ten": "two", "two": "ten"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It finds 77 % [67, 86] in 50 ms.", [0.77, 50]),
        ("It finds .67 in place of .7 or 0.85.", [0.67, 0.7, 0.85]),
        ("In 29 of 30 chats, 1 in 5 and 0 of 2,760", [29 / 30, 1 / 5, 0]),
        ("half a minute, ten minutes, twelve weeks, 1.5 million", [0.5, 10, 12, 1.5e6]),
        ("It uses half of them, two thirds of these, 2.2 times as many", [0.5, 2 / 3, 2.2]),
        ("-.10 and −3 %", [-0.1, -0.03]),
        ("快 2.2 倍，用 50 毫秒，占 77 ％，涨 3 个百分点", [2.2, 50, 0.77, 3]),
        ("两万条里的 3 万条，十二倍，二十五毫秒，三百天", [20_000, 30_000, 12, 25, 300]),
        ("半分钟，十分钟，一小时，三分之二，一半", [0.5, 10, 1, 2 / 3, 0.5]),
        ("30 份记录里有 29 份，212 次调用里有 0 次", [29 / 30, 0]),
        ("Python 3.11, version 2.0.18, R@3, NDCG@5, conv-26, 27 November 2026, three messages", []),
        ("2026 年 11 月 27 日，一年，每天，一两分钟，第 3 章，三条记忆", []),
        ("`--home 30 %` [5 %](a/5%25.md) <!-- 3 % -->\n# 4 % of it\n```\n6 %\n```\n", [0.05]),
        ("| first 5 | in 3 s |\n| --- | --- |\n| 30 memories, 2 s | 7, R@3 and 1,000 |\n", [7, 1000, 3, 2]),
    ],
)  # fmt: skip
def test_the_figures_of_a_text(text: str, expected: list[float]) -> None:
    assert [figure.value for figure in figures(shown_text(text))] == pytest.approx(expected)


def test_the_pages_have_no_figure_that_the_ledger_does_not_have() -> None:
    assert list(faults_of(LEDGER, PAGES)) == []


def changed_pages(page: str) -> Iterator[tuple[Figure, str]]:
    """Yield the page with one digit or numeral of a figure changed, for each of them, and with another word for a word."""
    for figure in figures(shown_text(page)):
        for place in range(figure.start, figure.end):
            other = page[place].translate(NEXT)
            if other != page[place]:
                yield figure, page[:place] + other + page[place + 1 :]
        word = figure.text.split()[0].lower()
        if word in WORDS:
            yield figure, page[: figure.start] + WORDS[word] + page[figure.start + len(word) :]


@pytest.mark.parametrize("name", PAGES)
def test_no_figure_of_a_page_can_change_unseen(name: str) -> None:
    known = set(faults_of(LEDGER, {name: PAGES[name]}))
    for figure, changed in changed_pages(PAGES[name]):
        assert set(faults_of(LEDGER, {name: changed})) - known, figure


def test_each_kind_of_page_has_figures_that_can_change() -> None:
    counts = {name: len(list(changed_pages(page))) for name, page in PAGES.items()}
    assert min(counts["README.md"], counts["README.zh-CN.md"]) > 0
    english, chinese = (
        counts[f"docs/explanation/recall-quality{end}"] for end in (".md", ".zh-CN.md")
    )
    assert english > 200
    assert english == chinese


@pytest.mark.parametrize("name", PAGES)
def test_a_figure_that_no_claim_quotes_is_named_with_a_quotation(name: str) -> None:
    known = set(faults_of(LEDGER, {name: PAGES[name]}))
    (fault,) = set(faults_of(LEDGER, {name: PAGES[name] + "\nIt takes 12.5 ms.\n"})) - known
    assert fault.partition(": ")[2] == f'says."{name}" = "It takes {{12.5 ms}}"'


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_that_is_incomplete_is_named(kind: str) -> None:
    claim = {"kind": kind}
    (fault,) = faults_of({**LEDGER, "claims": {"new": claim}, "tables": {}}, {})
    assert all(field in fault for field in KINDS[kind])


def test_both_languages_of_a_claim_are_compared_with_its_value() -> None:
    says = {"a.md": "{20,000} times", "a.zh-CN.md": "快{两万}倍"}
    pages = {"a.md": "20,000 times as quick", "a.zh-CN.md": "快两万倍"}
    claim = {"kind": "given", "why": "a test", "says": says}
    right = {"pages": pages, "claims": {"new": {**claim, "value": 20_000}}, "tables": {}}
    assert list(faults_of(right, pages)) == []
    wrong = {**right, "claims": {"new": {**claim, "value": 30_000}}}
    assert len(list(faults_of(wrong, pages))) == 2
    (fault,) = faults_of({**right, "pages": ["a.md"]}, {"a.md": pages["a.md"]})
    assert "quotes a.zh-CN.md" in fault


def test_recall_quality_is_one_page_of_at_most_1200_words() -> None:
    shown = PAGES["docs/explanation/recall-quality.md"].split()
    assert len([word for word in shown if re.search(r"\w", word)]) <= 1200


def test_what_stands_on_a_page_as_withdrawn_says_so() -> None:
    for name, claim in LEDGER["claims"].items():
        for page in claim.get("says", {}) if claim["kind"] == "withdrawn" else ():
            assert re.search("withdrawn|撤下", PAGES[page]), name


# Measuring again


LEDGER_OF_TEA = """pages = []
[sets.tea]
source = "a set about tea"
make = "pour it"
sha256 = "{hash}"
[tables.drinks]
english = "drink"
chinese = "饮料"
run = "{script} {{data}}"
tolerance = 0.001
columns = [{{ name = "found", english = "found", chinese = "找到", form = "share", result = "cup" }}]
[claims.tea]
kind = "measured"
value = 0.5
tolerance = 0.01
run = "{script} {{set:tea}}"
sets = ["tea"]
result = "cup/value"
commit = "aaaaaaaa"
date = "2026-01-01"

[claims.lost]
kind = "measured"
value = 0.5
tolerance = 0.01
run = "{script} {{data}}"
sets = ["tea"]
result = "cup/median"

[claims.other]
kind = "given"
value = 0.5
commit = "bbbbbbbb"
"""
SCRIPT = """
import json, pathlib, sys
print(json.dumps({"cup": {"value": float(pathlib.Path(sys.argv[1]).read_text())}}))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger with two claims, a table of one row and a set, whose value a script reads; HEAD is cccccccc."""
    script = tmp_path / "bench.py"
    script.write_text(SCRIPT)
    (tmp_path / "tea.jsonl").write_text("0.505")
    digest = hashlib.sha256(b"0.505").hexdigest()
    (tmp_path / "claims.toml").write_text(LEDGER_OF_TEA.format(script=script, hash=digest), "utf-8")
    (tmp_path / "drinks.csv").write_text(
        "row,english,chinese,sets,flags,found,commit,date\ngreen,green,绿,tea,,0.4,,\n", "utf-8"
    )
    for module in ("measured_claims", "generation.measured_tables"):
        monkeypatch.setattr(f"{module}.LEDGER", tmp_path / "claims.toml")
        monkeypatch.setattr(f"{module}.TABLES", tmp_path)
    answers = {"status": "", "rev-parse": "cccccccc"}
    monkeypatch.setattr(measured_claims, "_git", lambda *arguments: answers[arguments[0]])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "status"), [("tea", 0), ("drinks", 1), ("drinks/green", 1), ("lost", 1)]
)
def test_a_claim_is_measured_again_and_compared(
    folder: Path, name: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main([name, "--data", str(folder)]) == status
    assert ("DIFFERS" in capsys.readouterr().out) == bool(status)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_was_measured_is_written_with_its_commit_and_day(folder: Path) -> None:
    main(["tea", "--data", str(folder), "--write"])
    main(["drinks", "--data", str(folder), "--write"])
    claim = read_ledger()["claims"]["tea"]
    assert (claim["value"], claim["commit"]) == (0.505, "cccccccc")
    assert claim["date"] > "2026-01-01"
    assert read_ledger()["claims"]["other"] == {"kind": "given", "value": 0.5, "commit": "bbbbbbbb"}
    assert ",tea,,0.505,cccccccc,20" in (folder / "drinks.csv").read_text("utf-8")
    assert main(["drinks", "--data", str(folder)]) == 0


def test_code_that_is_not_committed_is_not_written_down(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured_claims, "_git", lambda *arguments: " M memory_server/app.py")
    before = (folder / "claims.toml").read_bytes()
    assert main(["tea", "--data", str(folder), "--write"]) == 2
    assert (folder / "claims.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tea"], "Give --data FOLDER with tea.jsonl: a set about tea; pour it"),
        (["other"], "The claim other is of the kind given; no command measures it."),
        (["drinks/black"], "drinks.csv has no row black."),
        (["coffee"], "The ledger has no claim coffee."),
        ([], "Name what to measure again"),
    ],
)
def test_what_cannot_be_measured_says_why(
    folder: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert sentence in capsys.readouterr().err


def test_another_set_than_the_one_that_was_measured_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tea.jsonl").write_text("0.506")
    assert main(["tea", "--data", str(folder)]) == 2
    assert "is not the set that was measured" in capsys.readouterr().err


def test_a_figure_is_read_from_a_text_too() -> None:
    assert _found("read in time: 29 of 30; done", "text:time: (.*?);") == pytest.approx(29 / 30)
    assert math.isnan(_found("nothing", "text:time: (.*?);"))
