"""Memories as lines for a prompt, who said what and when: `小明（3 天前，晚上）：下周三是我生日`.

One line a message, within a number of bytes: every line that stays is cut to the same length, and the least relevant go
once that length would say nothing. Breaks inside a message become spaces, so that no content can pass for a line of
somebody else.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Literal, TypedDict

from memory_server.model import LongTermMemory, Message, Role, ShortTermMemory
from memory_server.recall.outcome import Recall
from memory_server.times import local

Language = Literal["zh", "en"]

MAX_BYTES = 4_000
"""Bytes of UTF-8 unless said otherwise: some 1,300 Chinese characters."""
_LEAST_BODY_BYTES = 90
"""A line cut to less than thirty Chinese characters says too little: fewer lines then say more."""
_NAME_BYTES = 60
_ELLIPSIS = "…"

_HOUR_MS, _DAY_HOURS_MS = 3_600_000, 6 * 3_600_000
"""Under six hours "3 hours ago" says more than "yesterday", also over midnight."""

_ROLES: dict[Language, dict[Role, str]] = {
    "zh": {"user": "用户", "assistant": "助手", "system": "系统"},
    "en": {"user": "User", "assistant": "Assistant", "system": "System"},
}
_DAY_PARTS: dict[Language, tuple[tuple[int, str], ...]] = {
    "zh": ((5, "凌晨"), (9, "早上"), (11, "上午"), (13, "中午"), (18, "下午"), (23, "晚上"), (24, "深夜")),
    "en": ((5, "night"), (12, "morning"), (18, "afternoon"), (22, "evening"), (24, "night")),
}
"""Parts of a day, each with the hour at which it ends."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Readers(TypedDict):
    """Who reads the lines: when, in which zone (None: the system's) and language (None: that of the memories)."""

    now_ms: int
    zone: tzinfo | None
    language: Language | None


@dataclass(frozen=True, slots=True)
class _Line:
    head: str
    body: str

    @property
    def head_bytes(self) -> int:
        return len(self.head.encode())

    @property
    def body_bytes(self) -> int:
        return len(self.body.encode())


def prompt_lines(
    recall: Recall | None,
    long_term: Sequence[LongTermMemory] = (),
    *,
    now_ms: int,
    zone: tzinfo | None,
    max_bytes: int = MAX_BYTES,
    language: Language | None = None,
) -> str:
    """The memories of a search as lines, at most `max_bytes` of UTF-8; empty where nothing came or fits.

    First the long-term memories that were activated, in order, then what was recalled as top, next and flashback; what
    came by chance says so. The same line comes once. `zone` is where the readers live (None: the system's zone),
    `language` that of ages, roles and punctuation (None: that of the memories).
    """
    tiers = () if recall is None else (*recall.top, *recall.next, *recall.flashback)
    short_term = [recalled.memory for recalled in tiers]
    by_chance = () if recall is None else tuple(recalled.memory for recalled in recall.flashback)
    return memory_lines(
        short_term,
        long_term,
        now_ms=now_ms,
        zone=zone,
        max_bytes=max_bytes,
        language=language,
        by_chance=by_chance,
    )


def memory_lines(
    short_term: Sequence[ShortTermMemory],
    long_term: Sequence[LongTermMemory] = (),
    *,
    now_ms: int,
    zone: tzinfo | None,
    max_bytes: int = MAX_BYTES,
    language: Language | None = None,
    by_chance: Sequence[ShortTermMemory] = (),
) -> str:
    """The same for memories that no search brought, in their order; those of `by_chance` say so."""
    if language is None:
        language = language_of((*(memory.text for memory in short_term), *(memory.prompt for memory in long_term)))
    lines = [_long_term_line(memory, language) for memory in long_term]
    for memory in short_term:
        lines += _lines_of(memory, now_ms, zone, language, by_chance=any(memory is drawn for drawn in by_chance))
    return _within(list(dict.fromkeys(line for line in lines if line.body)), max_bytes)


def language_of(texts: Iterable[str]) -> Language:
    """Chinese where any of the texts holds an ideograph, else English."""
    return "zh" if any("\u3400" <= char <= "\u9fff" for text in texts for char in text) else "en"


def when_text(time_ms: int, now_ms: int, zone: tzinfo | None, language: Language) -> str:
    """How long ago, and at what time of the day: `3 天前，晚上`, `yesterday, evening`."""
    age_ms = max(0, now_ms - time_ms)
    zh = language == "zh"
    if age_ms < 60_000:
        return "刚才" if zh else "just now"
    if age_ms < _HOUR_MS:
        return _ago(age_ms // 60_000, "分钟" if zh else "minute")
    then, now = local(time_ms, zone), local(now_ms, zone)
    part = next(name for end, name in _DAY_PARTS[language] if then.hour < end)
    comma = "，" if zh else ", "
    days = (now.date() - then.date()).days
    if age_ms < _DAY_HOURS_MS or days < 1:
        return _ago(age_ms // _HOUR_MS, "小时" if zh else "hour") + comma + part
    if days == 1:
        return f"昨天，{part}" if zh else f"yesterday, {part}"
    if days == 2 and zh:
        return f"前天，{part}"
    if days <= 30:
        return _ago(days, "天" if zh else "day") + comma + part
    ago = _ago(days // 30, "个月" if zh else "month") if days < 365 else _ago(days // 365, "年" if zh else "year")
    same_year = then.year == now.year
    if zh:
        return f"{ago}，{'' if same_year else f'{then.year} 年 '}{then.month} 月 {then.day} 日{part}"
    return f"{ago}, {then.day} {_MONTHS[then.month - 1]}{'' if same_year else f' {then.year}'}, {part}"


def _ago(count: int, unit: str) -> str:
    if unit.isascii():
        return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return f"{count} {unit}前"


def _long_term_line(memory: LongTermMemory, language: Language) -> _Line:
    name = _clipped(_one_line(memory.name), _NAME_BYTES)
    return _Line(f"【{name}】" if language == "zh" else f"[{name}] ", _one_line(memory.prompt))


def _lines_of(
    memory: ShortTermMemory, now_ms: int, zone: tzinfo | None, language: Language, *, by_chance: bool
) -> Iterator[_Line]:
    zh = language == "zh"
    chance = ("，偶然想起" if zh else ", by chance") if by_chance else ""
    if not memory.messages:
        # Of another program, without its messages: who said what stands in its text.
        when = when_text(memory.time_ms, now_ms, zone, language) + chance
        yield _Line(f"（{when}）" if zh else f"({when}) ", " / ".join(map(_one_line, memory.text.splitlines())))
    for message in memory.messages:
        time_ms = memory.time_ms if message.time_ms is None else message.time_ms
        when = when_text(time_ms, now_ms, zone, language) + chance
        name = _speaker(message, language)
        yield _Line(f"{name}（{when}）：" if zh else f"{name} ({when}): ", _one_line(message.content))


def _speaker(message: Message, language: Language) -> str:
    return _clipped(_one_line(message.name or ""), _NAME_BYTES) or _ROLES[language][message.role]


def _within(lines: list[_Line], max_bytes: int) -> str:
    """As many of the first lines as say something within `max_bytes`, the bodies cut to one length where they must."""
    kept: list[_Line] = []
    left = max_bytes + 1  # the last line has no break after it
    for line in lines:
        left -= line.head_bytes + min(line.body_bytes, _LEAST_BODY_BYTES) + 1
        if left < 0:
            break
        kept.append(line)
    room = max_bytes + 1 - sum(line.head_bytes + 1 for line in kept)
    most = _even_share([line.body_bytes for line in kept], room)
    return "\n".join(line.head + _clipped(line.body, most) for line in kept)


def _even_share(sizes: Iterable[int], room: int) -> int:
    """The greatest length such that all sizes, cut to it, fit into `room` together."""
    ascending = sorted(sizes)
    for place, size in enumerate(ascending):
        share = room // (len(ascending) - place)
        if size > share:
            return share
        room -= size
    return ascending[-1] if ascending else 0


def _clipped(text: str, max_bytes: int) -> str:
    """`text`, or as much of it as fits with an ellipsis; no half character, no joiner without its second half."""
    encoded = text.encode()
    if len(encoded) <= max_bytes:
        return text
    kept = encoded[: max_bytes - len(_ELLIPSIS.encode())].decode(errors="ignore")
    while kept and (kept[-1].isspace() or unicodedata.category(kept[-1]) == "Cf"):
        kept = kept[:-1]
    return kept + _ELLIPSIS


def _one_line(text: str) -> str:
    """White space and control characters of every kind as single spaces."""
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in text).split())
