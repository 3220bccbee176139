"""`timeline`: verdicts along a chat, the picture, the comparison."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import cli
from sandbox.workbench.terminal import bar, cells
from sandbox.workbench.timeline import longest_silence, per_mark, picture

DAY_MS = 86_400_000
START_MS = 1_782_864_000_000  # 1 July 2026, 00:00 UTC
MARKS = st.text("#s.!cgpdoawrt", max_size=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = ["你好", "<script>alert(1)</script>", "生日 & 蛋糕", "好", "生日", "再见"]
    rows = [
        {"role": "user", "name": "小满", "content": text, "timestamp": START_MS + number * DAY_MS}
        for number, text in enumerate(texts)
    ]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pack = {
        "生日": "match_keys(context.messages, ['生日'], 'any', 1) > 0",
        "<b>third</b>": "new Date().getDate() === 3 || new Date().getDate() === 31 && context.messages.length > 1",
        "fails": "context.messages.length > 2 && context.participants.x.y",
    }
    memories = [
        {"name": name, "prompt": name, "trigger": trigger} for name, trigger in pack.items()
    ]
    (tmp_path / "pack.json").write_text(json.dumps(memories), "utf-8")
    (tmp_path / "new.js").write_text(
        "match_keys(context.messages, ['生日'], 'any', 2) > 0", "utf-8"
    )
    (tmp_path / "old.js").write_text(pack["生日"], "utf-8")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(
        [
            "timeline",
            "--chat",
            str(folder / "chat.jsonl"),
            "--tz",
            "UTC",
            "--window",
            "3",
            *arguments,
        ]
    )
    out = capsys.readouterr()
    return code, out.out, out.err


def test_each_message_is_seen_at_its_own_time(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, out, err = run(capsys, folder, str(folder / "pack.json"))
    assert (code, err) == (1, "")
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0] == "6 messages, 1 message per mark: # fired  . quiet  ! failed"
    assert [line.split()[1:] for line in lines[2:5]] == [
        ["..#.#.", "2", "33.3%", "2"],
        ["..#...", "1", "16.7%", "3"],
        ["..!!!!", "0", "0.0%", "6"],
    ]
    assert len({cells(line) for line in lines[2:5]}) == 1
    assert lines[5].startswith("fails: failed 4 times, first at #3: thrown: TypeError")


def test_two_versions_are_compared(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, _ = run(capsys, folder, str(folder / "new.js"), "--compare", str(folder / "old.js"))
    assert code == 1
    assert out.splitlines() == [
        "#4 小满: 好",
        "    the old one was quiet; the new one fired",
        "#6 小满: 再见",
        "    the old one was quiet; the new one fired",
        "2 of 6 verdicts changed",
    ]
    code, out, _ = run(capsys, folder, str(folder / "old.js"), "--compare", str(folder / "old.js"))
    assert (code, out) == (0, "0 of 6 verdicts changed\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["pack.json", "--compare", "old.js"],
            "--compare takes one new trigger and the old one; name one FILE",
        ),
        (["missing.js"], "missing.js cannot be read: No such file or directory"),
        (["old.js", "--window", "0"], "--window must be at least 1 message"),
    ],
)
def test_a_wrong_timeline_gets_one_sentence(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(folder)
    assert run(capsys, folder, *arguments) == (2, "", f"trigger-sandbox: {sentence}\n")


@given(MARKS, st.integers(1, 40))
def test_a_picture_fits_and_hides_no_firing(marks: str, width: int) -> None:
    marks_a_cell = per_mark(len(marks), width)
    shown = picture(marks, marks_a_cell)
    assert len(shown) <= width
    assert ("!" in shown) == ("!" in marks)
    assert shown.count("#") <= marks.count("#")
    assert ("#" in shown) == any(
        "#" in part and "!" not in part for part in parts(marks, marks_a_cell)
    )
    assert longest_silence(marks) == max(map(len, marks.replace("s", "#").split("#")))


def parts(marks: str, size: int) -> list[str]:
    return [marks[begin : begin + size] for begin in range(0, len(marks), size)]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_for_terminals_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    pipe = io.StringIO()
    for out in (screen, pipe):
        with bar(4, "messages", out) as progress:
            for count in range(1, 5):
                progress(count)
    assert pipe.getvalue() == ""
    shown = re.sub(r"\x1b\[[\d;?]*m", "", screen.getvalue())
    assert "4/4 messages" in shown
    # The last that is written takes the line away and shows the cursor again.
    assert shown.endswith("\x1b[2K")
