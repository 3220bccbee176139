"""Draws the recording of the README from a run of the program: `python docs/recording.py [FOLDER]`.

It writes one animated SVG for each language: what somebody types on two days, and what the program of today prints.
A browser plays it, in light and dark, and shows the last picture to people who want no motion.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

COLUMNS = 92
"""Columns of the terminal; longer lines are wrapped."""
LOOP_SECONDS = 20
TYPED_A_SECOND = 36
"""Columns typed in a second, or pasted: people type more slowly, and readers would wait."""
PAUSE_SECONDS = 0.35
"""Between a command and its output."""
_COLUMN, _LINE, _MARGIN, _BAR = 8.0, 21, 20, 34
"""Pixels: the width of a column, the height of a line, the margin, the bar of the window."""
_GAP = 10
"""Pixels above a day, and above a command that does not follow one."""
_IDS = re.compile(r"\b[0-9a-f]{8,16}\b")


@dataclass(frozen=True, slots=True)
class Step:
    """A command, typed at `now`; `seconds`: how long its output stands before the next one. `day`: a line above it."""

    now: str
    words: Sequence[str]
    seconds: float
    day: str = ""


MIGRATION = "Migration 0042 fails on staging: idx_orders exists already."
STEPS: Mapping[str, Sequence[Step]] = {
    "en": (
        Step("2026-11-23T10:10", ("remember", MIGRATION), 1.2, "Monday"),
        Step(
            "2026-11-24T09:05",
            ("recall", "--session", "tuesday", "Why did 0042 fail?"),
            2.6,
            "Tuesday",
        ),
        Step("2026-11-24T09:05", ("explain", "staging", "--ask", "Why did 0042 fail?"), 3.0),
        Step("2026-11-24T09:06", ("forget", "staging", "--yes"), 3.0),
    ),
    "zh": (
        Step("2026-11-23T21:10", ("remember", "我妹妹小雨周五来玩，她对芒果过敏。"), 1.2, "周一"),
        Step(
            "2026-11-24T19:05", ("recall", "--session", "周二", "给小雨买什么甜点好？"), 2.6, "周二"
        ),
        Step("2026-11-24T19:05", ("explain", "芒果", "--ask", "给小雨买什么甜点好？"), 3.0),
        Step("2026-11-24T19:06", ("forget", "芒果", "--yes"), 3.0),
    ),
}
ZONES = {"en": "Europe/London", "zh": "Asia/Shanghai"}
STYLE = (
    "svg{--paper:#fcfdfc;--bar:#eaeeeb;--ink:#1b2524;--soft:#5f6c69;--day:#17606a;--line:#d8dfdb}"
    "@media (prefers-color-scheme:dark){svg{--paper:#111716;--bar:#182120;--ink:#e3e9e6;--soft:#93a09c;--day:#86c9cf;"
    "--line:#2b3635}}"
    'text{font:13.3px ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono","Noto Sans Mono CJK SC",monospace;'
    "fill:var(--soft);white-space:pre}"
    ".paper{fill:var(--paper);stroke:var(--line)}.bar{fill:var(--bar)}"
    ".typed{fill:var(--ink);font-weight:600}.day{fill:var(--day);font-weight:600}"
    ".cover{fill:var(--paper)}.cursor{fill:var(--ink)}"
    f"text,g{{animation-duration:{LOOP_SECONDS}s;animation-iteration-count:infinite;"
    "animation-timing-function:step-end}"
    "@media (prefers-reduced-motion:reduce){text,g{animation:none!important}g{opacity:0}}"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the terminal: when it is there, its text, and its class: `day`, `typed` or nothing for output."""

    at: float
    text: str
    kind: str = ""


def main(folder: Path) -> None:
    for language in STEPS:
        drawing = drawn(lines(language))
        (folder / f"two-days.{language}.svg").write_text(drawing, encoding="utf-8", newline="\n")


def lines(language: str) -> list[Line]:
    """Return what is typed and printed, and when. Raises CalledProcessError: a command failed."""
    shown: list[Line] = []
    at = 0.4
    with tempfile.TemporaryDirectory() as home:
        for step in STEPS[language]:
            if step.day:
                shown.append(Line(at, step.day, "day"))
                at += 0.5
            typed = f"$ memory-server {' '.join(map(_quoted, step.words))}"
            shown.append(Line(at, typed, "typed"))
            at += width(typed) / TYPED_A_SECOND + PAUSE_SECONDS
            for text in _printed(step, language, Path(home)).splitlines():
                shown += [Line(at, part) for part in wrapped(text)]
            at += step.seconds
    if at > LOOP_SECONDS:
        raise SystemExit(
            f"The steps of {language} take {at:.1f} seconds, and the recording has {LOOP_SECONDS}."
        )
    return shown


def _quoted(word: str) -> str:
    """Quote a word as people type it: in quotation marks only if a shell needs them, or it is a sentence."""
    return word if word.strip("-").isalnum() else shlex.quote(word)


def _printed(step: Step, language: str, home: Path) -> str:
    environment = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith("MEMORY_SERVER_")
        },
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_DATA_HOME": str(home),
        "TZ": ZONES[language],
        "LANGUAGE": language,
        "PYTHONUTF8": "1",
        "NO_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "MEMORY_SERVER_DAEMON__ENABLED": "0",
    }
    command = (sys.executable, "-m", "memory_server", "--now", step.now, *step.words)
    root = Path(__file__).parents[1]
    return subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=environment,
        cwd=root,
        timeout=60,
    ).stdout


def width(text: str) -> int:
    """Columns that a text takes in a terminal."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def wrapped(text: str) -> Iterator[str]:
    """Wrap the text into lines of the terminal, cut at a blank where there is one."""
    while width(text) > COLUMNS:
        end = columns = 0
        while columns + width(text[end]) <= COLUMNS:
            columns += width(text[end])
            end += 1
        blank = text.rfind(" ", 0, end)
        end = blank if blank > end // 2 else end
        yield text[:end]
        text = text[end:].lstrip()
    yield text


def without_ids(text: str) -> str:
    """Return the text with … in place of ids, which differ from run to run."""
    return _IDS.sub("…", text)


def drawn(shown: Sequence[Line]) -> str:
    """Draw the animated SVG."""
    wide = round(COLUMNS * _COLUMN) + 2 * _MARGIN
    rules, drawing = [STYLE], []
    baseline = _BAR + _MARGIN - 6
    for number, line in enumerate(shown):
        baseline += _LINE
        if number and (
            line.kind == "day" or (line.kind == "typed" and shown[number - 1].kind != "day")
        ):
            baseline += _GAP
        kind = f' class="{line.kind}"' if line.kind else ""
        place = f'x="{_MARGIN}" y="{baseline}"'
        if line.text.isascii():  # a Han character of this font is narrower than two columns
            place += f' textLength="{len(line.text) * _COLUMN:g}"'
        drawing.append(
            f'<text id="t{number}"{kind} {place}>{escape(line.text, quote=False)}</text>'
        )
        begin = 100 * line.at / LOOP_SECONDS
        rules.append(
            f"#t{number}{{animation-name:a{number}}}@keyframes a{number}{{0%{{opacity:0}}{begin:.2f}%{{opacity:1}}}}"
        )
        if line.kind == "typed":
            drawing.append(_cover(number, baseline, wide))
            rules.append(_typing(number, line))
    tall = baseline + 6 + _MARGIN
    label = escape(" ".join(line.text for line in shown if line.kind), quote=True)
    size = f'viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">',
            f"<style>{''.join(rules)}</style>",
            f'<rect class="paper" x=".5" y=".5" width="{wide - 1}" height="{tall - 1}" rx="10"/>',
            f'<path class="bar" d="M1 {_BAR}V10.5a9.5 9.5 0 0 1 9.5-9.5h{wide - 21}a9.5 9.5 0 0 1 9.5 9.5V{_BAR}z"/>',
            *drawing,
            "</svg>",
            "",
        ]
    )


def _cover(number: int, baseline: int, wide: int) -> str:
    """Draw what hides the part of a line that is not typed yet, with the cursor; it moves to the right."""
    room = wide - 2 * _MARGIN
    return (
        f'<svg x="{_MARGIN}" y="{baseline - 15}" width="{room}" height="{_LINE}"><g id="c{number}">'
        f'<rect class="cover" width="{room}" height="{_LINE}"/><rect class="cursor" y="2" width="8" height="16"/>'
        "</g></svg>"
    )


def _typing(number: int, line: Line) -> str:
    columns = width(line.text)
    begin = 100 * line.at / LOOP_SECONDS
    end = begin + 100 * columns / TYPED_A_SECOND / LOOP_SECONDS
    first, last = (
        f"opacity:1;transform:translateX({count * _COLUMN:g}px)" for count in (2, columns)
    )
    frames = (
        "0%{opacity:0}",
        f"{begin:.2f}%{{{first};animation-timing-function:steps({columns - 2})}}",
        f"{end:.2f}%{{{last}}}",
        f"{end + 0.01:.2f}%{{opacity:0}}",
    )
    return f"#c{number}{{animation-name:b{number}}}@keyframes b{number}{{{''.join(frames)}}}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")
