"""`timeline`: verdicts along a chat, the picture, the page, the comparison."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import Failed, Fired, Quiet, cli
from sandbox.workbench.terminal import bar, cells
from sandbox.workbench.timeline.chat_replay import Course, rhythm
from sandbox.workbench.timeline.page import page as page_of
from sandbox.workbench.timeline.picture import per_mark, picture

NOW = datetime(2026, 7, 1, tzinfo=UTC)
CHAT_MESSAGE = {"role": "user", "content": "a"}
DAY_MS = 86_400_000
START_MS = 1_782_864_000_000  # 1 July 2026, 00:00 UTC
VERDICTS = st.lists(st.sampled_from([Fired(1), Quiet(1), Failed("thrown", "x", None, None, 1)]), max_size=60)


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
    memories = [{"name": name, "prompt": "p", "trigger": trigger} for name, trigger in pack.items()]
    (tmp_path / "pack.json").write_text(json.dumps(memories), "utf-8")
    (tmp_path / "new.js").write_text("match_keys(context.messages, ['生日'], 'any', 2) > 0", "utf-8")
    (tmp_path / "old.js").write_text(pack["生日"], "utf-8")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["timeline", "--chat", str(folder / "chat.jsonl"), "--tz", "UTC", "--window", "3", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_each_message_is_seen_at_its_own_time(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
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
    assert lines[5] == "<b>third</b>: never true: new Date().getDate() === 31 (line 1)"
    assert lines[6] == "<b>third</b>: never reached: context.messages.length > 1 (line 1)"
    assert lines[7].startswith("fails: failed 4 times, first at #3: thrown: TypeError")


def test_what_is_never_reached_is_not_called_false(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    source = "context.messages.length > 99 && (match_keys(context.messages, ['生日']) > 0 || new Date() > 1)"
    (folder / "t.js").write_text(source, "utf-8")
    _, out, _ = run(capsys, folder, str(folder / "t.js"))
    assert out.splitlines()[3:] == [
        "t: never true: context.messages.length > 99 (line 1)",
        "t: never reached: match_keys(context.messages, ['生日']) > 0 || new Date() > 1 (line 1)",
    ]


@pytest.mark.parametrize(
    ("source", "remarks"),
    [
        # It was reached, and threw: neither never reached nor never true. What stands behind it was not reached.
        (
            "context.messages.length > 9 || context.participants.x.y > 1 || context.messages.length > 8",
            ["never true: context.messages.length > 9", "never reached: context.messages.length > 8"],
        ),
        # A function that stands elsewhere may be called from any condition: nothing is claimed.
        (
            "const f = () => context.x.y\ncontext.messages.length > 9 || f() || context.messages.length > 8",
            ["never true: context.messages.length > 9"],
        ),
        # One that is written where it is called is a part of its condition.
        (
            "context.messages.length > 9 || context.messages.some(m => m.x.y) || context.messages.length > 8",
            ["never true: context.messages.length > 9", "never reached: context.messages.length > 8"],
        ),
        ("context.messages.length > 9 ? true : false", ["never true: context.messages.length > 9"]),
    ],
)
def test_what_failed_was_reached(
    capsys: pytest.CaptureFixture[str], folder: Path, source: str, remarks: list[str]
) -> None:
    (folder / "t.js").write_text(source, "utf-8")
    _, out, _ = run(capsys, folder, str(folder / "t.js"))
    lines = [line.removeprefix("t: ").rpartition(" (line")[0] for line in out.splitlines()[3:] if "failed" not in line]
    assert lines == remarks


def test_the_page_needs_nothing_else_and_escapes_everything(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    page = folder / "t.html"
    run(capsys, folder, str(folder / "pack.json"), "--html", str(page))
    text = page.read_text("utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "&lt;b&gt;third&lt;/b&gt;" in text
    assert not re.search(r"\b(?:src|href|url)\s*[=(]", text)
    opened: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            opened.append(tag)

    Reader().feed(text)
    assert opened.count("rect") == 2 + 1 + 4
    assert text.count('<b class="x">fails failed</b>') == 4
    assert "never true: <code>new Date().getDate() === 31</code>" in text
    assert "never reached: <code>context.messages.length &gt; 1</code>" in text
    assert "color-scheme:light dark" in text
    assert "along the chat <small>2026-07-01 to 2026-07-06</small>" in text
    # Told apart without colours, and none thinner than a pixel of a narrow window.
    assert [mark.split('"')[1] for mark in re.findall(r'<rect class="\w" x="\d+" (y="\d")', text)].count("5") == 4
    long = page_of(["a"], [Course("1", (Fired(1),) * 2000)], [CHAT_MESSAGE] * 2000, [NOW] * 2000)
    assert long.count('width="4"') == 2000
    run(capsys, folder, str(folder / "pack.json"), "--html", str(page))  # its own page is replaced


def test_another_file_is_not_replaced(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, _, err = run(capsys, folder, str(folder / "new.js"), "--html", str(folder / "old.js"))
    assert (code, "exists and is not a timeline; choose another name" in err) == (2, True)
    code, out, err = run(capsys, folder, str(folder / "new.js"), "--html", str(folder / "no" / "t.html"))
    assert (code, out, "does not exist; make it first" in err) == (2, "", True)  # before the work, and not after it


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
    ("arguments", "said"),
    [
        (["pack.json", "--compare", "old.js"], "--compare takes one new trigger and the old one; name one FILE"),
        (["missing.js"], "missing.js cannot be read: No such file or directory"),
        (["old.js", "--window", "0"], "--window must be at least 1 message"),
    ],
)
def test_a_wrong_timeline_gets_one_sentence(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(folder)
    assert run(capsys, folder, *arguments) == (2, "", f"trigger-sandbox: {said}\n")


@given(VERDICTS, st.integers(1, 40))
def test_a_picture_fits_and_hides_no_firing(verdicts: list[Fired | Quiet | Failed], width: int) -> None:
    each = per_mark(len(verdicts), width)
    shown = picture(verdicts, each)
    assert len(shown) <= width
    assert ("!" in shown) == any(isinstance(one, Failed) for one in verdicts)
    assert shown.count("#") <= rhythm(verdicts).fired
    beat = rhythm(verdicts)
    assert beat.fired + beat.silence >= min(1, len(verdicts))
    assert beat.silence == max(
        (len(part) for part in "".join("#" if isinstance(v, Fired) else "." for v in verdicts).split("#")), default=0
    )


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_for_terminals_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen, pipe = Screen(), io.StringIO()
    for out in (screen, pipe):
        with bar(4, "messages", out) as progress:
            for done in range(1, 5):
                progress(done)
    assert pipe.getvalue() == ""
    shown = re.sub(r"\x1b\[[\d;?]*m", "", screen.getvalue())
    assert "4/4 messages" in shown
    # The last that is written takes the line away and shows the cursor again.
    assert shown.endswith("\x1b[2K")
