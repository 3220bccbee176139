"""`trigger-sandbox check`: what it prints, and that it writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_program import CommandLine

from sandbox import cli

ROOT = Path(__file__).resolve().parents[2]


def test_check_prints_errors_and_warnings(workbench: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    path.write_text(
        "match_kyes(context.messages, ['生日']) &&\n  new Date().getDay() === 7\n", "utf-8"
    )
    code, out, err = workbench("check", str(path))
    assert (code, err) == (1, "")
    assert out == (
        f"{path}: error: match_kyes is not defined; did you mean match_keys? (reference) at line 1, column 1\n"
        "    match_kyes(context.messages, ['生日']) &&\n"
        "    ^\n"
        f"{path}: warning: never true: getDay() gives 0 to 6; Sunday is 0 (date-never-comes)"
        " at line 2, column 3\n"
        "      new Date().getDay() === 7\n"
        "      ^\n"
        "1 trigger: 1 error, 1 warning\n"
    )


def test_a_check_writes_nothing(workbench: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    path.write_text("match_keys(args, '生日')", "utf-8")
    before = path.stat()
    assert workbench("check", str(path))[0] == 1
    assert (path.stat().st_mtime_ns, path.read_text("utf-8")) == (
        before.st_mtime_ns,
        "match_keys(args, '生日')",
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "there is no trigger; name a file, or give the trigger with -e"),
        (["missing.js"], "missing.js cannot be read: No such file or directory"),
        (["-e", "1", "a.js"], "-e takes no files; give the code alone, or write it to a file"),
    ],
)
def test_a_wrong_check_gets_one_sentence(
    workbench: CommandLine, arguments: list[str], sentence: str
) -> None:
    assert workbench("check", *arguments) == (2, "", f"trigger-sandbox: {sentence}\n")


def test_the_sample_pack_is_clean(workbench: CommandLine) -> None:
    code, out, _ = workbench("check", str(ROOT / "data/samples/triggers.json"))
    assert (code, out) == (0, "14 triggers: no errors, no warnings\n")


def test_what_v8_refuses_gets_no_other_findings(capsys: pytest.CaptureFixture[str]) -> None:
    """The rules' parser takes a full-width comma for a part of a name: what it sees then is another trigger."""
    assert cli.main(["check", "-e", "match_keys(context.messages，['a'])"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 trigger: 1 error, no warnings"
