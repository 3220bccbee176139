"""How the page says things: its two languages, dates as people say them, and parts of sentences that stand out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Literal

from memory_server.conversations.recall.why import quoted
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.recorded_recall import RecordedRecall
from memory_server.kernel.times import local, within_calendar
from memory_server.tools.base.shapes import moment_ms
from sandbox.locale import _, joined, n_, said_in

Language = Literal["en", "zh"]
PACKAGE = str(Path(__file__).parents[1])
_BEGIN, _END = "\x02", "\x03"
"""Around what stands out in a sentence of ours. No text of a person keeps them."""
_MONTHS = ["January", "February", "March", "April", "May", "June"]
_MONTHS += ["July", "August", "September", "October", "November", "December"]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_PARTS = {
    "zh": ((5, "凌晨"), (9, "早上"), (11, "上午"), (13, "中午"), (18, "下午"), (23, "晚上"), (24, "深夜")),
    "en": ((5, "at night"), (12, "morning"), (18, "afternoon"), (22, "evening"), (24, "at night")),
}
"""Parts of a day, each with the hour at which it ends; prompts divide it in the same way (prompt_lines.py)."""
_NBSP = "\u00a0"


def strong(text: object) -> str:
    """A value of a sentence that stands out."""
    return joined("", (_BEGIN, text if isinstance(text, str) else str(text), _END))


def pieces(text: str) -> list[tuple[bool, str]]:
    """A finished sentence in its parts, and whether each stands out."""
    found = [(False, text)]
    if _BEGIN in text:
        parts = (part.partition(_END) for part in text.split(_BEGIN))
        found = [each for inside, _end, after in parts for each in ((bool(_end), inside), (False, after))]
    return [(bold, part) for bold, part in found if part]


def language_of(accepted: str, given: str | None) -> Language:
    """The language that was `given`, or else the first that the header Accept-Language names and we speak."""
    if given in ("en", "zh"):
        return "zh" if given == "zh" else "en"
    for name in accepted.lower().split(","):
        if (begins := name.strip()[:2]) in ("en", "zh"):
            return "zh" if begins == "zh" else "en"
    return "en"


@dataclass(frozen=True, slots=True)
class Speech:
    """One reader: the language, the zone (None: the system's), and what time it is."""

    language: Language
    zone: tzinfo | None
    now_ms: int

    def say(self, text: str) -> str:
        """A message in the reader's language; any other text as it is."""
        return said_in(text, self.language, PACKAGE)

    @property
    def zh(self) -> bool:
        return self.language == "zh"

    def local(self, time_ms: int) -> datetime:
        return local(within_calendar(time_ms), self.zone)

    def time_in_field(self, text: str) -> int:
        """What the field of a form says, in the reader's zone. Raises InvalidInput: it is not a time."""
        try:
            time_ms = moment_ms("at", text, self.zone)
        except InvalidInput as error:
            raise InvalidInput("The time is not a date; choose one in the field.") from error
        return self.now_ms if time_ms is None else within_calendar(time_ms)

    def date(self, time_ms: int, *, weekday: bool = False) -> str:
        """`6 月 20 日 星期六`, `Saturday 20 June`; with the year if it is not this one."""
        then, now = self.local(time_ms), self.local(self.now_ms)
        other = then.year != now.year
        if self.zh:
            year = f"{then.year} 年 " if other else ""
            day = f"{year}{then.month} 月 {then.day} 日" + (
                f" 星期{'一二三四五六日'[then.weekday()]}" if weekday else ""
            )
        else:
            day = f"{then.day} {_MONTHS[then.month - 1]}" + (f" {then.year}" if other else "")
            day = f"{_DAYS[then.weekday()]} {day}" if weekday else day
        return day.replace(" ", _NBSP)

    def day(self, time_ms: int) -> str:
        """The day as people say it: 今天, 昨天, 上周日, 5 月 12 日; today, Thursday, 6 May."""
        then, now = self.local(time_ms).date(), self.local(self.now_ms).date()
        ago = (now - then).days
        if ago in (0, 1):
            return (("今天", "昨天") if self.zh else ("today", "yesterday"))[ago]
        if ago == -1:
            return "明天" if self.zh else "tomorrow"
        if 1 < ago < 7:
            if not self.zh:
                return _DAYS[then.weekday()]
            week = "上" if then.isocalendar().week != now.isocalendar().week else "这"
            return f"{week}周{'一二三四五六日'[then.weekday()]}"
        # Between Chinese and a number stands a blank, which is nothing at the beginning of a line.
        return f" {self.date(time_ms)}" if self.zh else self.date(time_ms)

    def moment(self, time_ms: int) -> str:
        """The day with the time: 今天 17:30, 6 June 14:03."""
        return f"{self.day(time_ms)}{_NBSP}{self.clock(time_ms)}"

    def clock(self, time_ms: int) -> str:
        return f"{self.local(time_ms):%H:%M}"

    def part(self, time_ms: int) -> str:
        """The day with its part: 5 月 12 日 中午; Tuesday afternoon."""
        part = next(name for end, name in _PARTS[self.language] if self.local(time_ms).hour < end)
        day = self.day(time_ms)
        if self.zh:
            return f"{day} {part}" if day.startswith(" ") else f"{day}{part}"
        return f"{day}, {part}"

    def age(self, time_ms: int) -> str:
        """How long ago: 39 天前, 七周前; six weeks ago."""
        days = (self.local(self.now_ms).date() - self.local(time_ms).date()).days
        if days < 1:
            return self.say(_("today"))
        if days < 60:
            return self.say(n_("{count} day ago", "{count} days ago", days))
        if days < 730:
            return self.say(n_("{count} month ago", "{count} months ago", days // 30))
        return self.say(n_("{count} year ago", "{count} years ago", days // 365))

    def exact(self, time_ms: int) -> str:
        """For a `title`: to the second, with the zone."""
        return f"{self.local(time_ms):%Y-%m-%d %H:%M:%S %Z}"

    def month(self, moment: datetime) -> str:
        return f"{moment.month}{_NBSP}月" if self.zh else _MONTHS[moment.month - 1][:9]

    def words(self, words: Iterable[str]) -> str:
        """Words in quotation marks, as a list."""
        return quoted(words, zh=self.zh)

    def speaker(self, role: str, name: str | None) -> str:
        """Who speaks: by name, or else what the role is called."""
        return name or self.say({"user": _("you"), "assistant": _("the companion")}.get(role, role))

    def cut(self, text: str, most: int) -> str:
        """The beginning of a text on one line, with the mark of this language where something is left out."""
        line = " ".join(text.split())
        if len(line) <= most:
            return line
        cut = line[:most]
        if not self.zh and " " in cut[most // 2 :]:
            cut = cut[: cut.rindex(" ")]
        return cut.rstrip("，,。.、 ") + ("……" if self.zh else "…")

    def exchanges(self, count: int) -> str:
        return n_("{count:,} exchange", "{count:,} exchanges", count)


ASKERS = {
    "hook": _("a hook"),
    "tool": _("a tool"),
    "command": _("a command"),
    "program": _("a Python program"),
    "REST": _("a program over HTTP"),
    "host": _("a chat program"),
}


def whence(recall: RecordedRecall, home: str) -> str:
    """Who asked, and in which folder."""
    folder = recall.cwd
    if home and folder.startswith(home):
        folder = f"~{folder[len(home) :]}"
    return joined(", ", filter(None, (recall.client or ASKERS.get(recall.by, recall.by), folder)))


def days_between(first: datetime, last: datetime) -> Sequence[datetime]:
    """Noon of each day from the first to the last."""
    noon = first.replace(hour=12, minute=0, second=0, microsecond=0)
    return [noon + timedelta(days=number) for number in range((last.date() - first.date()).days + 1)]
