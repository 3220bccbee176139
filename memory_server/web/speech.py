"""How the page says things: its two languages, dates as people say them, and parts of sentences that stand out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Literal

from languages import N_, _, joined, n_
from memory_server.conversations.recall.why import quoted
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.times import local, within_calendar
from memory_server.kernel.values import frozen
from memory_server.tools.base.shapes import moment_ms

Language = Literal["en", "zh"]
_BEGIN, _END = "\x02", "\x03"
"""Around what stands out in a sentence of ours. No text of a person keeps them."""
_MONTHS = ["January", "February", "March", "April", "May", "June"]
_MONTHS += ["July", "August", "September", "October", "November", "December"]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_PARTS = {
    "zh": (
        (5, "凌晨"),
        (9, "早上"),
        (11, "上午"),
        (13, "中午"),
        (18, "下午"),
        (23, "晚上"),
        (24, "深夜"),
    ),
    "en": ((5, "at night"), (12, "morning"), (18, "afternoon"), (22, "evening"), (24, "at night")),
}
"""Parts of a day, each with the hour at which it ends; prompts divide it in the same way (prompt_lines.py)."""
_WEEKDAYS = "一二三四五六日"
_NEAR_DAYS = {
    "zh": {0: "今天", 1: "昨天", -1: "明天"},
    "en": {0: "today", 1: "yesterday", -1: "tomorrow"},
}
"""Days with a name of their own, by how many days ago they were."""
_NBSP = "\u00a0"


def strong(text: object) -> str:
    """Mark a value of a sentence that stands out."""
    return f"{_BEGIN}{text}{_END}"


def pieces(text: str) -> list[tuple[bool, str]]:
    """Split a finished sentence into its parts, and say whether each stands out."""
    if _BEGIN not in text:
        return [(False, text)] if text else []
    parts: list[tuple[bool, str]] = []
    for piece in text.split(_BEGIN):
        inside, end, after = piece.partition(_END)
        parts += [(bool(end), inside), (False, after)]
    return [(stands_out, part) for stands_out, part in parts if part]


def language_of(accepted: str, chosen: str | None) -> Language:
    """Return the language that was `chosen`, or else the first that the header Accept-Language names and we speak, or
    else English."""
    names = [name.strip()[:2] for name in accepted.lower().split(",")]
    for name in (chosen, *names):
        if name == "zh":
            return "zh"
        if name == "en":
            return "en"
    return "en"


@frozen
class Speech:
    """One reader: the language, the zone (None: the system's), and what time it is."""

    language: Language
    zone: tzinfo | None
    now_ms: int

    @property
    def zh(self) -> bool:
        return self.language == "zh"

    def local(self, time_ms: int) -> datetime:
        return local(within_calendar(time_ms), self.zone)

    def time_in_field(self, text: str) -> int:
        """Return the time of the field of a form, in the reader's zone, or now for an empty field. Raises InvalidInput:
        it is not a time."""
        try:
            time_ms = moment_ms("at", text, self.zone)
        except InvalidInput as error:
            raise InvalidInput("The time is not a date; choose a date in the field.") from error
        return self.now_ms if time_ms is None else within_calendar(time_ms)

    def date(self, time_ms: int, *, weekday: bool = False) -> str:
        """Return the date as `6 月 20 日 星期六` or `Saturday 20 June`; with the year if it is not this one."""
        then = self.local(time_ms)
        is_of_this_year = then.year == self.local(self.now_ms).year
        if self.zh:
            parts = [f"{then.month} 月 {then.day} 日"]
            if not is_of_this_year:
                parts.insert(0, f"{then.year} 年")
            if weekday:
                parts.append(f"星期{_WEEKDAYS[then.weekday()]}")
        else:
            parts = [f"{then.day} {_MONTHS[then.month - 1]}"]
            if not is_of_this_year:
                parts.append(str(then.year))
            if weekday:
                parts.insert(0, _DAYS[then.weekday()])
        return " ".join(parts).replace(" ", _NBSP)

    def day(self, time_ms: int) -> str:
        """Return the day as people say it: 今天, 昨天, 上周日, 5 月 12 日; today, Thursday, 6 May."""
        then = self.local(time_ms).date()
        now = self.local(self.now_ms).date()
        days_ago = (now - then).days
        if days_ago in _NEAR_DAYS[self.language]:
            return _NEAR_DAYS[self.language][days_ago]
        if 1 < days_ago < 7:
            if not self.zh:
                return _DAYS[then.weekday()]
            is_of_this_week = then.isocalendar().week == now.isocalendar().week
            week = "这" if is_of_this_week else "上"
            return f"{week}周{_WEEKDAYS[then.weekday()]}"
        if self.zh:
            # Chinese typography has a blank between Chinese and a number, which is nothing at the beginning of a
            # line.
            return f" {self.date(time_ms)}"
        return self.date(time_ms)

    def moment(self, time_ms: int) -> str:
        """Return the day with the time: 今天 17:30, 6 June 14:03."""
        return f"{self.day(time_ms)}{_NBSP}{self.clock(time_ms)}"

    def clock(self, time_ms: int) -> str:
        return f"{self.local(time_ms):%H:%M}"

    def part(self, time_ms: int) -> str:
        """Return the day with its part: 上周日中午, ` 5 月 12 日 中午` (a Chinese date begins with a blank, as `day`
        returns it); Tuesday, afternoon."""
        hour = self.local(time_ms).hour
        part = next(name for end, name in _PARTS[self.language] if hour < end)
        day = self.day(time_ms)
        if not self.zh:
            return f"{day}, {part}"
        # A date has blanks about its numbers, the name of a day has none.
        is_date = day.startswith(" ")
        if is_date:
            return f"{day} {part}"
        return f"{day}{part}"

    def part_with_age(self, time_ms: int) -> str:
        """Return the day with its part, and how long ago that was, unless the day says so: 6 June, evening, 39 days
        ago."""
        if self.local(time_ms).date() == self.local(self.now_ms).date():
            return self.part(time_ms)
        return joined(", ", (self.part(time_ms), self.age(time_ms)))

    def age(self, time_ms: int) -> str:
        """Say how long ago: 39 天前, 七周前; six weeks ago."""
        days = (self.local(self.now_ms).date() - self.local(time_ms).date()).days
        if days < 1:
            return _("today")
        if days < 60:
            return n_("{count} day ago", "{count} days ago", days)
        if days < 730:
            return n_("{count} month ago", "{count} months ago", days // 30)
        return n_("{count} year ago", "{count} years ago", days // 365)

    def exact(self, time_ms: int) -> str:
        """For a `title`: to the second, with the zone."""
        return f"{self.local(time_ms):%Y-%m-%d %H:%M:%S %Z}"

    def month(self, moment: datetime) -> str:
        if self.zh:
            return f"{moment.month}{_NBSP}月"
        return _MONTHS[moment.month - 1]

    def words(self, words: Iterable[str]) -> str:
        """Write words in quotation marks, as a list."""
        return quoted(words, zh=self.zh)

    def speaker(self, role: str, name: str | None) -> str:
        """Return who speaks: by name, or else what the role is called."""
        if name:
            return name
        match role:
            case "user":
                return _("you")
            case "assistant":
                return _("the assistant")
        return role

    def cut(self, text: str, most: int) -> str:
        """Cut a text to its beginning on one line, with the mark of this language where something is left out."""
        line = " ".join(text.split())
        if len(line) <= most:
            return line
        beginning = line[:most]
        if not self.zh and " " in beginning[most // 2 :]:
            beginning = beginning[: beginning.rindex(" ")]
        mark = "……" if self.zh else "…"
        return beginning.rstrip("，,。.、 ") + mark

    def exchanges(self, count: int) -> str:
        return n_("{count:,} exchange", "{count:,} exchanges", count)


ASKERS = N_(
    {
        "hook": "a hook",
        "tool": "a tool",
        "command": "a command",
        "program": "a Python program",
        "REST": "a program over HTTP",
        "host": "a chat program",
    }
)


def days_between(first: datetime, last: datetime) -> Sequence[datetime]:
    """Noon of each day from the first to the last."""
    noon = first.replace(hour=12, minute=0, second=0, microsecond=0)
    return [
        noon + timedelta(days=number) for number in range((last.date() - first.date()).days + 1)
    ]
