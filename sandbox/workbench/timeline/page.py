"""A timeline as one HTML page to share: no script, nothing from elsewhere, every text escaped. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape

from sandbox.chats import chat
from sandbox.verdicts import Failed, Fired
from sandbox.workbench.explain.operands import Operand
from sandbox.workbench.terminal import counted
from sandbox.workbench.timeline.chat_replay import Course
from sandbox.workbench.timeline.firing_stats import rhythm

MARK = "<!DOCTYPE html>\n<!-- trigger-sandbox timeline -->\n"
"""How a page begins: only a file that begins so is replaced."""
_FINEST = 500
"""Marks side by side that are each at least a pixel wide in a narrow window; of more, each is a little wider."""
_STYLE = """\
body{font:15px/1.5 system-ui,"Noto Sans CJK SC","PingFang SC","Microsoft YaHei",sans-serif;margin:2em auto;
max-width:75em;padding:0 1em;color:var(--text);background:var(--paper)}
:root{color-scheme:light dark;--text:#222;--faint:#666;--paper:#fff;--line:#ddd;--lane:#eee;
--fired:#1a7f37;--failed:#cf222e}
@media(prefers-color-scheme:dark){:root{--text:#ddd;--faint:#999;--paper:#161b22;--line:#30363d;--lane:#262c36;
--fired:#3fb950;--failed:#f85149}}
table{border-collapse:collapse;width:100%}td,th{padding:.25em .6em;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line)}
th{position:sticky;top:0;background:var(--paper)}
td.n,th.n{text-align:right;white-space:nowrap}
svg{width:100%;height:1.3em;background:var(--lane);display:block;shape-rendering:crispEdges;border-radius:2px}
.f{fill:var(--fired)}.x{fill:var(--failed)}b.x{color:var(--failed);font-weight:normal}
td.s{width:60%;min-width:12em}td.w{min-width:5em;max-width:18em;overflow-wrap:anywhere}
tr.o td{border-bottom:0}tr.a td{padding-top:0;color:var(--faint);font-size:.85em}
pre,code{font-family:ui-monospace,Consolas,"Noto Sans Mono CJK SC",monospace}
pre{margin:.3em 0;padding:.5em .8em;background:var(--lane);color:var(--text);white-space:pre-wrap;
overflow-wrap:anywhere}
summary{cursor:pointer}code{overflow-wrap:anywhere}
small{color:var(--faint);font-weight:normal}td.d{white-space:nowrap}td.t{white-space:pre-wrap;overflow-wrap:anywhere}
@media(max-width:40em){body{margin:1em auto}.h{display:none}td,th{padding:.25em .35em}}
"""


def page(
    names: Sequence[str], courses: Sequence[Course], messages: Sequence[chat.Message], moments: Sequence[datetime]
) -> str:
    """The whole page. `moments`: of each message."""
    count = f"{counted(len(names), 'trigger')}, {counted(len(messages), 'message')}"
    return "".join(
        (
            MARK,
            '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>Timeline: {count}</title><style>{_STYLE}</style></head><body><h1>Timeline</h1><p>{count}. ",
            "Green, whole: fired. Red, half: failed. Point at a mark to see its message.</p>",
            f"<table><tr><th>trigger</th><th>along the chat {_span(moments)}</th>",
            '<th class="n">fired</th><th class="n h">rate</th><th class="n h">longest silence</th></tr>',
            *(_row(name, course, messages) for name, course in zip(names, courses, strict=True)),
            "</table><h2>Messages</h2>",
            '<table><tr><th class="n">#</th><th class="h">time</th><th>who</th><th>text</th><th>fired</th></tr>',
            *_messages(names, courses, messages, moments),
            "</table></body></html>\n",
        )
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


def _span(moments: Sequence[datetime]) -> str:
    """The days of the first and the last message, in small letters."""
    days = dict.fromkeys(f"{moment:%Y-%m-%d}" for moment in (min(moments), max(moments)))
    return f"<small>{' to '.join(days)}</small>"


def _marks(course: Course, messages: Sequence[chat.Message]) -> Iterator[str]:
    width = max(1, len(course.verdicts) / _FINEST)
    for index, verdict in enumerate(course.verdicts):
        if isinstance(verdict, Fired | Failed):
            kind, word = ("f", "fired") if isinstance(verdict, Fired) else ("x", "failed")
            about = escape(f"#{index + 1} {word}: {' '.join(str(messages[index]['content']).split())[:80]}")
            top = 0 if kind == "f" else 5  # told apart without colours too
            box = f'x="{index}" y="{top}" width="{width:g}" height="{10 - top}"'
            yield f'<rect class="{kind}" {box}><title>{about}</title></rect>'


def _local(moment: datetime) -> str:
    """To the minute, with its offset from UTC in small letters."""
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
