"""Memories as lines for a prompt, who said what and when: `小明（3 天前，晚上）：下周三是我生日`.

One line a message, within a number of bytes or characters, and of what a search brought at most a third of that for
each memory: of a longer one the passages that answer the question (passages.py). The least relevant memories go once
what is left for them would say nothing. Breaks inside a message become blanks, so that no content can pass for a line
of somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from typing import Literal

from memory_server.conversations.model import LongTermMemory, ShortTermMemory
from memory_server.conversations.recall.passages import BYTES, CHARS, Measure, clipped, passages
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.recall.words import KeywordOptions, RecallQuery
from memory_server.kernel.messages import Message, Role
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import local
from nlp.normal_forms import plain

Language = Literal["zh", "en"]

MAX_BYTES = 4_000
"""Bytes of UTF-8 unless said otherwise: some 1,300 Chinese characters."""
_SHARE = 3
"""A memory that a search brought has at most one part in so many of all that may be written."""
_NAME_BYTES = 60

_HOUR_MS, _DAY_HOURS_MS = 3_600_000, 6 * 3_600_000
"""Under six hours "3 hours ago" says more than "yesterday", also over midnight."""

_ROLES: dict[Language, dict[Role, str]] = {
    "zh": {"user": "用户", "assistant": "助手", "system": "系统"},
    "en": {"user": "User", "assistant": "Assistant", "system": "System"},
}
_ROLE_WORDS = frozenset(word.casefold() for words in _ROLES.values() for word in words.values())
_AROUND_NAMES = re.compile("[()（）﹙﹚⁽⁾[\\]［］【】〔〕:：﹕︓︰∶꞉]")
"""What stands around names in these lines, and what looks like it."""
_DAY_PARTS: dict[Language, tuple[tuple[int, str], ...]] = {
    "zh": ((5, "凌晨"), (9, "早上"), (11, "上午"), (13, "中午"), (18, "下午"), (23, "晚上"), (24, "深夜")),
    "en": ((5, "night"), (12, "morning"), (18, "afternoon"), (22, "evening"), (24, "night")),
}
"""Parts of a day, each with the hour at which it ends."""
_IDEOGRAPH = re.compile("[\u3400-\u9fff]")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class _Line:
    """`body` is `said` on one line."""

    head: str
    body: str
    said: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class _Block:
    """The lines of one memory. `match` finds words of the question in a text of a time; None: nobody asked for it.
    `spare`: it comes only where all others leave room."""

    lines: list[_Line]
    match: Callable[[str, int], Mapping[str, float]] | None = None
    spare: bool = False


def prompt_lines(
    recall: Recall | None,
    long_term: Sequence[LongTermMemory] = (),
    memories: Sequence[ShortTermMemory] = (),
    *,
    now_ms: int,
    zone: tzinfo | None,
    max_bytes: int = MAX_BYTES,
    max_chars: int | None = None,
    language: Language | None = None,
    wording: KeywordOptions | None = None,
    given: set[str] | None = None,
    here: str | None = None,
) -> str:
    """The memories of a search as lines, at most `max_bytes` of UTF-8, or `max_chars` characters where that is given;
    empty where nothing came or fits. First the long-term memories that were activated, in order, then what was recalled
    as top, next and flashback; what came by chance says so. Then `memories` that no search brought: of those that are
    too long, the beginnings. The same line comes once. `zone` is where the readers live (None: the system's zone),
    `language` that of ages, roles and punctuation (None: that of the memories). `wording` is how memories and question
    became words (None: as in the Node original). A memory that ends with a question is followed by what was said next,
    where there is room. `given`: the keys of lines that the reader was given before, which do not come again; those of
    the lines that come are added. `here`: the folder of the readers; what was said in another one says so."""
    wording = wording or KeywordOptions()
    recalled = [] if recall is None else [(item.memory, False) for item in (*recall.top, *recall.next)]
    recalled += [] if recall is None else [(item.memory, True) for item in recall.flashback]
    if language is None:
        short = (*(memory for memory, _ in recalled), *memories)
        language = language_of((*(memory.text for memory in short), *(memory.prompt for memory in long_term)))
    blocks = []
    for kept in long_term:
        name = clipped(one_line(kept.name), _NAME_BYTES, BYTES)
        head = f"【{name}】" if language == "zh" else f"[{name}] "
        blocks.append(_Block([_Line(head, one_line(kept.prompt), kept.prompt, kept.created_ms)]))
    for memory, by_chance in recalled:
        lines = list(_lines_of(memory, now_ms, zone, language, here, by_chance=by_chance))
        words, query = wording.within(memory.conversation_id), RecallQuery() if recall is None else recall.query
        blocks.append(_Block(lines, partial(words.match_of, query)))
        if recall is not None and not by_chance and (said := recall.answers.get(memory.id)) is not None:
            blocks.append(_Block(list(_lines_of(said, now_ms, zone, language, here)), blocks[-1].match, spare=True))
    blocks += [_Block(list(_lines_of(memory, now_ms, zone, language, here))) for memory in memories]
    return _within(blocks, max_bytes, max_chars, language, given)


def language_of(texts: Iterable[str]) -> Language:
    """Chinese where any of the texts holds an ideograph, else English."""
    return "zh" if any(map(_IDEOGRAPH.search, texts)) else "en"


def when_text(time_ms: int, now_ms: int, zone: tzinfo | None, language: Language) -> str:
    """How long ago, and at what time of the day: `3 天前，晚上`, `yesterday, evening`. `_AGE` and `_ROW` of
    kernel/recalled_block.py know this form."""
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


def _lines_of(
    memory: ShortTermMemory,
    now_ms: int,
    zone: tzinfo | None,
    language: Language,
    here: str | None,
    *,
    by_chance: bool = False,
) -> Iterator[_Line]:
    zh = language == "zh"
    elsewhere = "" if here in (None, memory.folder) else memory.folder or ""
    name = _told_from(here or "", elsewhere)
    place = clipped(one_line(_AROUND_NAMES.sub(" ", name)), _NAME_BYTES, BYTES)
    more = (f"，在 {place}" if zh else f", in {place}") if place else ""
    more += ("，偶然想起" if zh else ", by chance") if by_chance else ""
    if not memory.messages:
        # Of another program, without its messages: who said what stands in its text.
        when = when_text(memory.time_ms, now_ms, zone, language) + more
        body = " / ".join(map(one_line, memory.text.splitlines()))
        yield _Line(f"（{when}）" if zh else f"({when}) ", body, memory.text, memory.time_ms)
    for message in memory.messages:
        time_ms = memory.time_ms if message.time_ms is None else message.time_ms
        when = when_text(time_ms, now_ms, zone, language) + more
        name = _speaker(message, language)
        head = f"{name}（{when}）：" if zh else f"{name} ({when}): "
        yield _Line(head, one_line(message.content), message.content, time_ms)


def _told_from(here: str, folder: str) -> str:
    """As many of the last parts of a folder's path as tell it from that of the readers."""
    parts = folder.replace("\\", "/").rstrip("/").split("/")
    own = here.replace("\\", "/").rstrip("/").split("/")
    for length in range(1, len(parts) + 1):
        if parts[-length:] != own[-length:]:
            return "/".join(parts[-length:])
    return folder


def _speaker(message: Message, language: Language) -> str:
    """Its name, which cannot pass for that of another role, or for a name with an age."""
    name = one_line(_AROUND_NAMES.sub(" ", message.name or ""))
    if not name or plain(name).casefold() in _ROLE_WORDS:
        return _ROLES[language][message.role]
    return clipped(name, _NAME_BYTES, BYTES)


def _within(
    blocks: Iterable[_Block], max_bytes: int, max_chars: int | None, language: Language, given: set[str] | None
) -> str:
    """As many of the first memories as say something in that room; where it is short they have equal parts of it."""
    measure, most = (BYTES, max_bytes) if max_chars is None else (CHARS, max_chars)
    left = most + 1  # the last line has no break after it
    kept: dict[int, tuple[_Block, int, int]] = {}
    new = [(number, block) for number, block in enumerate(_each_line_once(blocks, given or ())) if block.lines]
    full, left_out = False, set[int]()
    for number, block in sorted(new, key=lambda item: item[1].spare):
        heads = [measure.length(line.head) + 1 for line in block.lines]
        bodies = [measure.length(line.body) for line in block.lines]
        whole = sum(heads) + sum(bodies)
        least = min(whole, max(heads) + min(max(bodies), measure.least))
        wanted = whole if block.match is None else min(whole, max(most // _SHARE, least))
        if full or least > left or (block.spare and number - 1 in left_out):
            full |= not block.spare
            left_out.add(number)
            continue
        left -= least
        kept[number] = block, least, wanted
    share = _even_share([wanted - least for _, least, wanted in kept.values()], left)
    lines = []
    for _, (block, least, wanted) in sorted(kept.items()):
        for line, text in _cut_to(block, least + min(wanted - least, share), measure, language):
            if given is None or (key := _key(line, text)) not in given:
                lines.append(line.head + text)
                if given is not None:
                    given.add(key)
    return "\n".join(lines)


def _key(line: _Line, text: str) -> str:
    """Names what was given of a line."""
    return blake2b(f"{line.time_ms} {text}".encode(errors="replace"), digest_size=6).hexdigest()


def _each_line_once(blocks: Iterable[_Block], given: Collection[str]) -> Iterator[_Block]:
    """The blocks, each without the lines that came before or were `given` whole, and without empty lines."""
    seen: set[tuple[str, str]] = set()
    for block in blocks:
        lines = []
        for line in block.lines:
            if line.body and (key := (line.head, line.body)) not in seen and _key(line, line.body) not in given:
                seen.add(key)
                lines.append(line)
        yield _Block(lines, block.match, block.spare)


def _cut_to(block: _Block, room: int, measure: Measure, language: Language) -> list[tuple[_Line, str]]:
    """The lines of a memory, each with what is shown of it, within `room`, a break after each included: its passages,
    or all cut to one length."""
    lines, match = block.lines, block.match
    heads = [measure.length(line.head) + 1 for line in lines]
    bodies = [measure.length(line.body) for line in lines]
    if sum(heads) + sum(bodies) <= room:
        return [(line, line.body) for line in lines]
    if match is None:
        needed = accumulate(head + min(body, measure.least) for head, body in zip(heads, bodies, strict=True))
        count = max(1, sum(total <= room for total in needed))
        most = _even_share(bodies[:count], room - sum(heads[:count]))
        return [(line, clipped(line.body, most, measure)) for line in lines[:count]]
    shown = passages(
        [line.said for line in lines],
        heads,
        lambda number, text: match(text, lines[number].time_ms),
        room=room,
        measure=measure,
        spaced=language == "en",
    )
    return [(line, text) for line, text in zip(lines, shown, strict=True) if text]


def _even_share(sizes: Iterable[int], room: int) -> int:
    """The greatest length such that all sizes, cut to it, fit into `room` together."""
    ascending = sorted(sizes)
    for place, size in enumerate(ascending):
        share = room // (len(ascending) - place)
        if size > share:
            return share
        room -= size
    return ascending[-1] if ascending else 0
