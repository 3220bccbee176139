"""`trigger-sandbox new`: what it writes passes its own fixture, and words it cannot use are said."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import cli
from sandbox.workbench.templates.calendar_words import Day, WordError, day, hour, split_day, weekday
from sandbox.workbench.templates.recipes import KINDS, recipe
from sandbox.workbench.templates.starting import fixture_text

WORDS = {
    "birthday": ["小满 11-02", "Ann 2004-02-29", "Bob 3-10", "Mary Ann 2 November"],
    "anniversary": ["wedding 2015-07-11", "白堤 2月29日", "1-3"],
    "date": ["exam 2026-06-07", "leap 2028-02-29", "05-01", "New Year Jan 1"],
    "keyword": ["pizza 披萨 C++", "nice 天气 hm", "1, 2, 3", "it's"],
    "mood": ["sad", "想哭 累成狗", "furious tired"],
    "place": ["大理 洱海", "New-York"],
    "night": ["", "1 6", "22:00 6am", "0 23"],
    "weekday": ["friday", "周五 周六 sun", "mon tue wed thu fri sat"],
}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_there_are_words_for_every_kind() -> None:
    assert WORDS.keys() == KINDS.keys()


def test_what_is_written_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for kind, several in WORDS.items():
        for number, words in enumerate(several):
            made = recipe(kind, words.split())
            assert {trial.expect for trial in made.trials} == {"fired", "quiet"}
            name = f"{kind}{number}"
            (tmp_path / f"{name}.js").write_text(made.source + "\n", "utf-8")
            (tmp_path / f"{name}.trigger.yaml").write_text(fixture_text(made, f"{name}.js"), "utf-8")
    code, out, _ = run(capsys, "test", str(tmp_path))
    assert code == 0, out


def test_words_whose_trigger_is_not_as_good_as_its_fixture_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, "new", "birthday", "birthday", "11-02", "-o", str(tmp_path))
    assert (code, out) == (2, "")
    assert "no good trigger can be made of these words (another birthday: expected quiet, but it fired)" in err
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_made_from_the_words_and_nothing_is_overwritten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ("new", "keyword", "a/b", "C:", "-o", str(tmp_path))
    assert run(capsys, *arguments)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-b-C.js", "a-b-C.trigger.yaml"]
    (tmp_path / "a-b-C.js").unlink()
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "a-b-C.trigger.yaml exists already; add --force to replace it" in err
    assert not (tmp_path / "a-b-C.js").exists()
    assert run(capsys, *arguments, "--force")[0] == 0
    code, _, err = run(capsys, "new", "night", "-o", str(tmp_path / "nowhere"))
    assert (code, "does not exist; make it first" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("party", "there is no kind 'party'; choose one of birthday, anniversary"),
        ("birthday 11-02", "a birthday needs a name and a date"),
        ("birthday Ann", "there is no date among the words"),
        ("birthday Ann 31-12", "'31-12' has no month 31; the month comes first"),
        ("birthday Ann 02-30", "'02-30' is no date: February has 29 days"),
        ("date exam 2026-02-29", "February has 28 days"),
        ("keyword", "needs at least one word"),
        ("mood", "Write one of sad, happy"),
        ("place", "needs at least one name"),
        ("night 25 3", "'25' is no hour"),
        ("night 3", "a night has two hours"),
        ("night 3 3", "must end at another hour"),
        ("weekday", "which weekday?"),
        ("weekday someday", "'someday' is no weekday"),
        ("weekday mon tue wed thu fri sat sun", "that is every day"),
    ],
)
def test_words_that_say_nothing_get_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, sentence: str
) -> None:
    code, out, err = run(capsys, "new", *words.split(), "-o", str(tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("11-02", Day(None, 11, 2)),
        ("2026/3/9", Day(2026, 3, 9)),
        ("2026年3月9日", Day(2026, 3, 9)),
        ("3月9号", Day(None, 3, 9)),
        ("2nd of", None),
        ("9th Mar 2026", Day(2026, 3, 9)),
        ("March 9, 2026", Day(2026, 3, 9)),
        ("Foo 9", None),
        ("2-29", Day(None, 2, 29)),
    ],
)
def test_days(text: str, expected: Day | None) -> None:
    if expected is None:
        with pytest.raises(WordError):
            day(text)
    else:
        assert day(text) == expected


def test_a_date_is_found_among_the_words_and_hours_and_weekdays_are_understood() -> None:
    assert split_day(["our", "9", "March", "trip"]) == (["our", "trip"], Day(None, 3, 9))
    assert [hour(word) for word in ("0", "23:00", "12am", "12pm", "11pm", "5点")] == [0, 23, 0, 12, 23, 5]
    assert [weekday(word) for word in ("Sunday", "tue", "周日", "星期天", "礼拜六")] == [0, 2, 0, 0, 6]


@pytest.mark.parametrize("word", ["CON", "nul", "Aux", "com1", "LPT9", "con.txt"])
def test_no_file_is_named_like_a_device_of_windows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, word: str
) -> None:
    assert cli.main(["new", "keyword", word, "-o", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"keyword-{word}.js", f"keyword-{word}.trigger.yaml"]
    capsys.readouterr()
