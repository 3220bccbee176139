"""A timeline as one HTML page to share: no script, nothing from elsewhere, every text escaped. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from importlib import resources
from string import Template

from sandbox.chats import chat
from sandbox.verdicts import Failed, Fired
from sandbox.workbench.explain.operands import Operand
from sandbox.workbench.terminal import counted
from sandbox.workbench.timeline.chat_replay import Course, rhythm

MARK = "<!DOCTYPE html>\n<!-- trigger-sandbox timeline -->\n"
"""The beginning of a page: only a file with this beginning is replaced."""
_FINEST = 500
"""Marks that fit side by side, a pixel each, in a narrow window; with more of them, marks are drawn wider."""


def page(
    names: Sequence[str], courses: Sequence[Course], messages: Sequence[chat.Message], moments: Sequence[datetime]
) -> str:
    """The whole page. `moments`: the time of each message."""
    days = dict.fromkeys(f"{moment:%Y-%m-%d}" for moment in (min(moments), max(moments)))
    template = (resources.files(__package__) / "page.html").read_text("utf-8")
    return Template(template).substitute(
        count=f"{counted(len(names), 'trigger')}, {counted(len(messages), 'message')}",
        span=" to ".join(days),
        triggers="\n".join(_row(name, course, messages) for name, course in zip(names, courses, strict=True)),
        messages="\n".join(_messages(names, courses, messages, moments)),
    )


def _row(name: str, course: Course, messages: Sequence[chat.Message]) -> str:
    beat = rhythm(course.verdicts)
    marks = "".join(_marks(course, messages))
    about = [f'<b class="x">failed {counted(count, "time")}: {escape(text)}</b>' for text, count in beat.failures]
    about += [f"never true: {_code(one)}" for one in course.never]
    about += [f"never reached: {_code(one)}" for one in course.unreached]
    box = f'viewBox="0 0 {max(1, beat.total)} 10" preserveAspectRatio="none"'
    return (
        f'<tr class="o"><td class="w">{escape(name)}</td><td class="s"><svg {box}>{marks}</svg></td>'
        f'<td class="n">{beat.fired} of {beat.total}</td><td class="n h">{beat.rate:.1%}</td>'
        f'<td class="n h">{beat.silence}</td></tr><tr class="a"><td colspan="5">{"<br>".join(about)}'
        f"<details><summary>source</summary><pre>{escape(course.source)}</pre></details></td></tr>"
    )


def _code(one: Operand) -> str:
    return f"<code>{escape(' '.join(one.text.split()))}</code>"


def _marks(course: Course, messages: Sequence[chat.Message]) -> Iterator[str]:
    width = max(1, len(course.verdicts) / _FINEST)
    for index, verdict in enumerate(course.verdicts):
        if isinstance(verdict, Fired | Failed):
            kind, word = ("f", "fired") if isinstance(verdict, Fired) else ("x", "failed")
            about = escape(f"#{index + 1} {word}: {' '.join(str(messages[index]['content']).split())[:80]}")
            top = 0 if kind == "f" else 5  # so that colours are not needed to tell them apart
            box = f'x="{index}" y="{top}" width="{width:g}" height="{10 - top}"'
            yield f'<rect class="{kind}" {box}><title>{about}</title></rect>'


def _local(moment: datetime) -> str:
    """The time to the minute, with its offset from UTC in small type."""
    return f"{moment:%Y-%m-%d %H:%M} <small>{moment:%z}</small>"


def _messages(
    names: Sequence[str], courses: Sequence[Course], messages: Sequence[chat.Message], moments: Sequence[datetime]
) -> Iterator[str]:
    for index, message in enumerate(messages):
        seen = [(name, course.verdicts[index]) for name, course in zip(names, courses, strict=True)]
        words = [escape(name) for name, verdict in seen if isinstance(verdict, Fired)]
        words += [f'<b class="x">{escape(name)} failed</b>' for name, verdict in seen if isinstance(verdict, Failed)]
        who = str(message.get("name") or message["role"])
        yield (
            f'<tr><td class="n">{index + 1}</td><td class="d h">{_local(moments[index])}</td>'
            f'<td class="w">{escape(who)}</td><td class="t">{escape(str(message["content"]))}</td>'
            f"<td>{', '.join(words)}</td></tr>"
        )
