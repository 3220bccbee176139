"""`trigger-sandbox new`: what it writes passes its own fixture, and words it cannot use are said."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import cli
from sandbox.workbench.fixtures.cases import Case, read_fixture
from sandbox.workbench.templates.starting import KINDS, drafted, fixture_text

WORDS = {
    "birthday": ["小满 11-02", "Ann 2004-02-29", "Bob 3-10", "Mary Ann 11月2日"],
    "anniversary": ["wedding 2015-07-11", "白堤 2月29日", "1-3"],
    "date": ["exam 2026-06-07", "leap 2028-02-29", "05-01", "New Year 1/1"],
    "keyword": ["pizza 披萨 C++", "nice 天气 hm", "1, 2, 3", "it's"],
    "mood": ["sad", "想哭 累成狗", "furious tired"],
    "place": ["大理 洱海", "New-York"],
    "night": ["", "1 6", "22:00 6点", "0 23"],
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
            _, source, rows = drafted(kind, words.split())
            name = f"{kind}{number}"
            (tmp_path / f"{name}.js").write_text(source, "utf-8")
            (tmp_path / f"{name}.trigger.yaml").write_text(fixture_text(f"{name}.js", rows), "utf-8")
            cases = [case for case in read_fixture(tmp_path / f"{name}.trigger.yaml") if isinstance(case, Case)]
            assert {str(case.expected) for case in cases} == {"fired", "quiet"}
    code, out, _ = run(capsys, "test", str(tmp_path))
    assert code == 0, out


def test_words_whose_trigger_is_not_as_good_as_its_fixture_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, "new", "birthday", "birthday", "11-02", "-o", str(tmp_path))
    assert (code, out) == (2, "")
    assert "the trigger of these words fails its own tests (another birthday: expected quiet, but it fired)" in err
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
    assert run(capsys, "new", "night", "-o", str(tmp_path), "--name", "long" * 15)[0] == 0
    assert (tmp_path / f"{'long' * 15}.trigger.yaml").exists()
    code, _, err = run(capsys, "new", "night", "-o", str(tmp_path / "nowhere"))
    assert (code, "does not exist; make it first" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("party", "unknown kind 'party'; choose one of birthday, anniversary"),
        ("birthday 11-02", "a birthday needs a name and a date"),
        ("birthday Ann", "the words have no date"),
        ("birthday Ann 31-12", "'31-12' is not a date; write MM-DD"),
        ("birthday Ann 02-30", "'02-30' is not a date"),
        ("date exam 2026-02-29", "'2026-02-29' is not a date"),
        ("keyword", "needs at least one word"),
        ("mood", "Write one of sad, happy"),
        ("place", "needs at least one name"),
        ("night 25 3", "two whole hours from 0 to 23"),
        ("night 3", "a night has two whole hours"),
        ("night 3 3", "must end at another hour"),
        ("weekday", "which weekday?"),
        ("weekday someday", "'someday' is not a weekday"),
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
    ("words", "source"),
    [
        ("date our 3月9号 trip", "today.getMonth() === 2 && today.getDate() === 9;"),
        ("date 2026年3月9日", "onTheDay && today.getFullYear() === 2026"),
        ("date 2026/3/9", "onTheDay && today.getFullYear() === 2026"),
        ("birthday Ann 2-29", "today.getDate() === new Date(today.getFullYear(), 2, 0).getDate();"),
        ("night 22:00 5点", "hour >= 22 || hour < 5"),
        ("weekday Sunday tue 周三 礼拜六", "[0, 2, 3, 6].includes(new Date().getDay())"),
        ("weekday 星期天", "[0].includes(new Date().getDay())"),
    ],
)
def test_dates_hours_and_weekdays_are_understood(words: str, source: str) -> None:
    kind, *more = words.split()
    assert source in drafted(kind, more)[1]


@pytest.mark.parametrize("word", ["CON", "nul", "Aux", "com1", "LPT9", "con.txt"])
def test_no_file_is_named_like_a_device_of_windows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, word: str
) -> None:
    assert cli.main(["new", "keyword", word, "-o", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"keyword-{word}.js", f"keyword-{word}.trigger.yaml"]
    capsys.readouterr()
