"""`trigger-sandbox new`: every example passes its own fixture, and no file is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_program import CommandLine

from sandbox import cli
from sandbox.cli import _KINDS
from sandbox.workbench.fixtures import Case, read_fixture


def test_what_is_written_passes(workbench: CommandLine, tmp_path: Path) -> None:
    for kind in _KINDS:
        assert workbench("new", kind, "-o", str(tmp_path))[0] == 0
        cases = [
            case
            for case in read_fixture(tmp_path / f"{kind}.trigger.yaml")
            if isinstance(case, Case)
        ]
        assert {str(case.expected) for case in cases} == {"fired", "quiet"}
    code, out, _ = workbench("test", str(tmp_path))
    assert code == 0, out
    code, out, _ = workbench("check", *map(str, tmp_path.glob("*.js")))
    assert code == int("is past" in out), out  # the day of the exam comes and goes


def test_there_is_a_template_for_every_kind() -> None:
    folder = Path(cli.__file__).parent / "workbench" / "templates"
    assert {path.stem for path in folder.glob("*.template")} == set(_KINDS)


@pytest.mark.parametrize("name", ["小满的生日", "it's #1: a", 'a "b"', "a.b"])
def test_the_files_have_the_name_and_nothing_is_overwritten(
    workbench: CommandLine, tmp_path: Path, name: str
) -> None:
    arguments = ("new", "keyword", "--name", name, "-o", str(tmp_path))
    code, out, _ = workbench(*arguments)
    assert (
        code,
        "    match_keys(context.messages, ['pizza', '披萨']) > 0" in out.splitlines(),
    ) == (0, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f"{name}.js", f"{name}.trigger.yaml"]
    )
    assert workbench("test", str(tmp_path))[0] == 0
    (tmp_path / f"{name}.js").unlink()
    code, _, err = workbench(*arguments)
    assert code == 2
    assert f"{name}.trigger.yaml exists already; add --force to replace it" in err
    assert not (tmp_path / f"{name}.js").exists()
    assert workbench(*arguments, "--force")[0] == 0


def test_a_folder_that_does_not_exist_is_named(workbench: CommandLine, tmp_path: Path) -> None:
    code, _, err = workbench("new", "night", "-o", str(tmp_path / "nowhere"))
    assert (code, "does not exist; make it first" in err) == (2, True)


@pytest.mark.parametrize("words", ["party", "birthday Ann"])
def test_other_words_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["new", *words.split(), "-o", str(tmp_path)])
    assert words.split()[-1] in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("lunar", "lunar-birthday"),
        ("lunar-birthdy", "lunar-birthday"),
        ("农历生日", "lunar-birthday"),
        ("leap", "leap-birthday"),
        ("birtday", "birthday"),
        ("annivesary", "anniversary"),
        ("weekend", "weekday"),
    ],
)
def test_a_mistyped_template_says_what_was_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str, meant: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["new", kind, "-o", str(tmp_path)])
    assert f"did you mean `{meant}`?" in capsys.readouterr().err


def test_a_template_that_is_like_none_gets_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["new", "xyzzy"])
    assert "choose one of: birthday, lunar-birthday, leap-birthday" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("nwe", "birthday"), "new"),
        (("tset", "x"), "test"),
        (("pack", "chek", "x"), "check"),
        (("lint",), "check"),
    ],
)
def test_a_mistyped_command_says_what_was_meant(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], meant: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(words)
    assert f"did you mean `{meant}`?" in capsys.readouterr().err
