"""Memories as lines for a prompt, who said what and when: `小明（3 天前，晚上）：下周三是我生日`.

One line a message, within a number of bytes or characters, and of what a search brought at most a third of that for
each memory: of a longer one the passages that answer the question (passages.py). The least relevant memories go once
what is left for them would say nothing. Breaks inside a message become blanks, so that no content can look like a
line of another speaker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from hashlib import blake2b
from itertools import accumulate

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.day_lines import DayNotes
from memory_server.conversations.recall.passages import passages
from memory_server.conversations.recall.plans import Plan
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.messages import Message, Role
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.text import (
    BYTES,
    CHARS,
    ELLIPSIS,
    Language,
    Measure,
    clipped,
    language_of,
)
from memory_server.kernel.times import local
from memory_server.kernel.values import frozen
from nlp.day_notes import MONTH_NAMES, without_notes
from nlp.normal_forms import plain

MAX_BYTES = 4_000
"""Bytes of UTF-8 unless said otherwise: some 1,300 Chinese characters."""
_SHARE = 3
"""A memory that a search brought has at most one part in so many of all that may be written."""
_NAME_BYTES = 60
_WHOLE_CHARS = 1_500
"""Characters of a text that may come whole; of a longer one come passages, which get their notes one by one."""
_BEFORE_CHARS = 60
"""Characters of what was true before."""

_HOUR_MS = 3_600_000
_HOURS_MS = 6 * _HOUR_MS
"""The age up to which hours are counted: "3 hours ago" says more than "yesterday", also over midnight."""

_ROLES: dict[Language, dict[Role, str]] = {
    "zh": {"user": "用户", "assistant": "助手", "system": "系统"},
    "en": {"user": "User", "assistant": "Assistant", "system": "System"},
}
_ROLE_WORDS = frozenset(
    word.casefold() for word in (*_ROLES["zh"].values(), *_ROLES["en"].values())
)
_AROUND_NAMES = re.compile("[()（）﹙﹚⁽⁾[\\]［］【】〔〕:：﹕︓︰∶꞉]")
"""The signs around names in these lines, and signs that look like them."""
_TORN_NOTE = re.compile(rf" ?\[[^\[\]]{{0,60}}{ELLIPSIS}$")
_DAY_PARTS: dict[Language, tuple[tuple[int, str], ...]] = {
    "zh": (
        (5, "凌晨"),
        (9, "早上"),
        (11, "上午"),
        (13, "中午"),
        (18, "下午"),
        (23, "晚上"),
        (24, "深夜"),
    ),
    "en": ((5, "night"), (12, "morning"), (18, "afternoon"), (22, "evening"), (24, "night")),
}
"""Parts of a day, each with the hour at which it ends."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@frozen
class _Line:
    """A line of a memory: its head, and a text with that text on one line and with notes on its days, `body`."""

    head: str
    body: str
    text: str
    time_ms: int
    after: str = ""
    """The text after the body: what was true before."""
    before: str = ""
    """The text before the head of a plan that comes by itself: its day. It comes though the line was given before."""


@frozen
class _Readers:
    """For whom the lines are: when, where and in which language they read."""

    now_ms: int
    zone: tzinfo | None
    language: Language
    folder: str | None
    notes: DayNotes

    def body(self, text: str, time_ms: int) -> str:
        """Write a text that was said at a time, on one line."""
        return one_line(self.notes.within(text, time_ms, _WHOLE_CHARS))

    @property
    def read_chinese(self) -> bool:
        return self.language == "zh"


@frozen
class Reader:
    """For whom lines are written."""

    zone: tzinfo | None = None
    """Where they live, or None for the zone of the system."""
    language: Language | None = None
    """The language of ages, roles and punctuation, or None for the language of the memories."""
    folder: str | None = None
    """Where they work: what was said in another folder says so."""
    given: set[str] | None = None
    """The keys of lines that they were given before and still see, which do not come again; the keys of the lines
    that come are added. It is None if this is not known."""


@frozen
class _Block:
    """The lines of a memory. `match` finds words of the question in a text of a time; it is None if no search brought
    it. `spare`: it comes only where all others leave room. Where room is short, blocks with a smaller `turn` get
    theirs first."""

    memory_id: str
    lines: list[_Line]
    match: Callable[[str, int], Mapping[str, float]] | None = None
    spare: bool = False
    turn: int = 0


@frozen
class PromptLines:
    """Lines for a prompt. `without_room`: the ids of the memories of which no line is there, because others took the
    room."""

    text: str
    without_room: frozenset[str] = frozenset()


def prompt_lines(
    recall: Recall | None,
    memories: Sequence[ShortTermMemory] = (),
    *,
    now_ms: int,
    reader: Reader,
    wording: KeywordOptions | None = None,
    max_bytes: int = MAX_BYTES,
    max_chars: int | None = None,
) -> PromptLines:
    """Write the memories of a search as lines, at most `max_bytes` of UTF-8, or `max_chars` characters if that is
    given; empty if nothing came or fits. First comes what was recalled as top, next and flashback; what came by
    chance says so. Then come `memories` that no search brought, which are given oldest first: of long ones only the
    beginnings, and only the newest if not all have room. The same line comes once. `wording` is how memories and
    question became words (if None, as in the Node original). A memory that ends with a question is followed by what
    was said next, if there is room."""
    language = reader.language
    if language is None:
        # The readers' language is not given: the memories show it.
        texts = [memory.text for memory in memories]
        if recall is not None:
            texts += [
                recalled.memory.text for recalled in (*recall.top, *recall.next, *recall.flashback)
            ]
            texts += [plan.message.content for plan in recall.due]
        language = language_of(texts)

    wording = wording or KeywordOptions()
    notes = DayNotes(now_ms, reader.zone, are_shown=wording.enrichment.dates)
    readers = _Readers(now_ms, reader.zone, language, reader.folder, notes)

    blocks: list[_Block] = []
    if recall is not None:
        blocks += _blocks_of(recall, readers, wording)

    # Newer memories get their room first, but all are written oldest first.
    for number, memory in enumerate(memories):
        newer_count = len(memories) - 1 - number
        blocks.append(_Block(memory.id, _lines_of(memory, readers), turn=1 + newer_count))

    if max_chars is None:
        return _within(blocks, readers, measure=BYTES, room=max_bytes, given=reader.given)
    return _within(blocks, readers, measure=CHARS, room=max_chars, given=reader.given)


def _blocks_of(recall: Recall, readers: _Readers, wording: KeywordOptions) -> Iterator[_Block]:
    """Yield the plans for today; the memories of a search, each followed by what was said next if it ends with a
    question; and last what came by chance."""
    for plan in recall.due:
        lines = _lines_of(replace(plan.memory, messages=(plan.message,)), readers)
        day = _day_before(plan, readers)
        yield _Block(plan.memory.id, [replace(line, before=day) for line in lines])

    for recalled in (*recall.top, *recall.next):
        memory = recalled.memory
        match = partial(wording.within(memory.conversation_id).match_of, recall.query)
        lines = _lines_of(memory, readers, until_ms=recalled.until_ms)
        if recalled.before is not None and lines:
            lines[0] = replace(lines[0], after=_before_text(recalled.before, memory, readers))
        yield _Block(memory.id, lines, match)

        answer = recall.answers.get(memory.id)
        if answer is not None:
            yield _Block(answer.id, _lines_of(answer, readers), match, spare=True)

    for recalled in recall.flashback:
        memory = recalled.memory
        match = partial(wording.within(memory.conversation_id).match_of, recall.query)
        yield _Block(memory.id, _lines_of(memory, readers, by_chance=True), match)


def _day_before(plan: Plan, readers: _Readers) -> str:
    """Return `Today: `, or `Tomorrow: ` on the day before a plan, in the language of the reader."""
    is_tomorrow = plan.is_on_the_eve(local(readers.now_ms, readers.zone).date())
    if readers.read_chinese:
        return "明天：" if is_tomorrow else "今天："
    return "Tomorrow: " if is_tomorrow else "Today: "


def _before_text(older: ShortTermMemory, memory: ShortTermMemory, readers: _Readers) -> str:
    """Write what was true until a memory was said: `(before, until 5 March: I live in Munich)`."""
    said = older.text
    for message in older.messages:
        if message.role == "user":
            said = message.content
            break
    text = clipped(one_line(said), _BEFORE_CHARS, CHARS)
    until = local(memory.time_ms, readers.zone)
    if readers.read_chinese:
        return f"（之前，到 {until.month} 月 {until.day} 日为止：{text}）"
    return f" (before, until {until.day} {MONTH_NAMES[until.month - 1]}: {text})"


def when_text(time_ms: int, now_ms: int, zone: tzinfo | None, language: Language) -> str:
    """Return how long ago it was, and at what time of the day: `3 天前，晚上`, `yesterday, evening`;
    after a month with the date. `_AGE` and `_ROW` of kernel/recalled_block.py know this form."""
    age_ms = max(0, now_ms - time_ms)
    is_chinese = language == "zh"
    if age_ms < 60_000:
        return "刚才" if is_chinese else "just now"
    if age_ms < _HOUR_MS:
        return _ago(age_ms // 60_000, "分钟" if is_chinese else "minute")

    then = local(time_ms, zone)
    now = local(now_ms, zone)
    days = (now.date() - then.date()).days
    day_part = next(name for end, name in _DAY_PARTS[language] if then.hour < end)
    comma = "，" if is_chinese else ", "

    if age_ms < _HOURS_MS or days < 1:
        return _ago(age_ms // _HOUR_MS, "小时" if is_chinese else "hour") + comma + day_part

    if days <= 30:
        return _days_ago(days, language) + comma + day_part

    if days < 365:
        ago = _ago(days // 30, "个月" if is_chinese else "month")
    else:
        ago = _ago(days // 365, "年" if is_chinese else "year")

    is_same_year = then.year == now.year
    if is_chinese:
        year = "" if is_same_year else f"{then.year} 年 "
        return f"{ago}，{year}{then.month} 月 {then.day} 日{day_part}"
    year = "" if is_same_year else f" {then.year}"
    month = _MONTHS[then.month - 1]
    return f"{ago}, {then.day} {month}{year}, {day_part}"


def _days_ago(days: int, language: Language) -> str:
    """Return how long ago it was, in days from 1 on: `yesterday`, `前天`, `5 days ago`."""
    if language == "en":
        return "yesterday" if days == 1 else _ago(days, "day")
    if days == 1:
        return "昨天"
    if days == 2:
        return "前天"
    return _ago(days, "天")


def _ago(count: int, unit: str) -> str:
    if not unit.isascii():
        return f"{count} {unit}前"
    if count == 1:
        return f"{count} {unit} ago"
    return f"{count} {unit}s ago"


def _lines_of(
    memory: ShortTermMemory,
    readers: _Readers,
    *,
    by_chance: bool = False,
    until_ms: int | None = None,
) -> list[_Line]:
    """Write the lines of a memory, one for each message. `until_ms` is when it was corrected, or None if it was not."""
    remarks = _remarks(memory, readers, by_chance=by_chance)
    if until_ms is not None:
        remarks += "，已不是这样" if readers.read_chinese else ", no longer true"

    def when(time_ms: int) -> str:
        return when_text(time_ms, readers.now_ms, readers.zone, readers.language) + remarks

    if not memory.messages:
        # Of another program, without its messages: who said what is in its text.
        head = (
            f"（{when(memory.time_ms)}）" if readers.read_chinese else f"({when(memory.time_ms)}) "
        )
        body = " / ".join(readers.body(line, memory.time_ms) for line in memory.text.splitlines())
        return [_Line(head, body, text=memory.text, time_ms=memory.time_ms)]
    lines: list[_Line] = []
    for message in memory.messages:
        time_ms = memory.time_ms if message.time_ms is None else message.time_ms
        name = _speaker(message, readers.language)
        head = (
            f"{name}（{when(time_ms)}）："
            if readers.read_chinese
            else f"{name} ({when(time_ms)}): "
        )
        body = readers.body(message.content, time_ms)
        lines.append(_Line(head, body, text=message.content, time_ms=time_ms))
    return lines


def _remarks(memory: ShortTermMemory, readers: _Readers, *, by_chance: bool) -> str:
    """Write what follows the time of a line: the folder, if it differs from the readers' folder, and whether it came
    by chance."""
    remarks = ""
    if readers.folder is not None and memory.folder and memory.folder != readers.folder:
        folder = _told_from(readers.folder, memory.folder)
        name = clipped(one_line(_AROUND_NAMES.sub(" ", folder)), _NAME_BYTES, BYTES)
        if name:
            remarks += f"，在 {name}" if readers.read_chinese else f", in {name}"
    if by_chance:
        remarks += "，偶然想起" if readers.read_chinese else ", by chance"
    return remarks


def _told_from(here: str, folder: str) -> str:
    """Return as many of the last parts of a folder's path as distinguish it from the readers' folder."""
    parts = folder.replace("\\", "/").rstrip("/").split("/")
    own = here.replace("\\", "/").rstrip("/").split("/")
    for length in range(1, len(parts) + 1):
        if parts[-length:] != own[-length:]:
            return "/".join(parts[-length:])
    return folder


def _speaker(message: Message, language: Language) -> str:
    """Return its name, which cannot be mistaken for the name of another role, or for a name with an age."""
    name = one_line(_AROUND_NAMES.sub(" ", message.name or ""))
    if not name or plain(name).casefold() in _ROLE_WORDS:
        return _ROLES[language][message.role]
    return clipped(name, _NAME_BYTES, BYTES)


def _within(
    blocks: Iterable[_Block],
    readers: _Readers,
    *,
    measure: Measure,
    room: int,
    given: set[str] | None,
) -> PromptLines:
    """Return the lines of as many memories as say something in `room`, with equal parts of it where
    it is short, and the ids of those without room. Lines in `given` are left out, and new ones are
    added to it."""
    new_blocks = list(_each_line_once(blocks, given or ()))
    block_rooms = _block_rooms(new_blocks, measure, room)
    lines: list[str] = []
    for number, block_room in block_rooms.items():
        for line, text in _cut_to(new_blocks[number], block_room, measure, readers):
            if given is not None:
                key = _key(line, text)
                if key in given and not line.before:
                    continue
                given.add(key)
            lines.append(line.before + line.head + text + line.after)
    ids_with_room = {new_blocks[number].memory_id for number in block_rooms}
    ids_with_lines = {block.memory_id for block in new_blocks if block.lines}
    return PromptLines("\n".join(lines), frozenset(ids_with_lines - ids_with_room))


@frozen
class _Sizes:
    """The lengths of the lines of a block, a break after each included: of their heads, and of their bodies."""

    heads: list[int]
    bodies: list[int]

    @property
    def whole(self) -> int:
        return sum(self.heads) + sum(self.bodies)


def _sizes_of(block: _Block, measure: Measure) -> _Sizes:
    heads = [measure.length(line.before + line.head + line.after) + 1 for line in block.lines]
    bodies = [measure.length(line.body) for line in block.lines]
    return _Sizes(heads, bodies)


@frozen
class _Need:
    """The least room in which a block says something, and the most that it gets."""

    least: int
    most: int

    @property
    def more(self) -> int:
        return self.most - self.least


def _need_of(block: _Block, measure: Measure, room: int) -> _Need:
    """Return the least room in which a block says something, and the most: for what a search brought a share of
    `room`, otherwise its whole length."""
    sizes = _sizes_of(block, measure)
    least = min(sizes.whole, max(sizes.heads) + min(max(sizes.bodies), measure.least))
    if block.match is None:
        return _Need(least, sizes.whole)
    return _Need(least, min(sizes.whole, max(room // _SHARE, least)))


def _block_rooms(blocks: Sequence[_Block], measure: Measure, room: int) -> dict[int, int]:
    """Return the room of each block that comes, by its number, in their order. The first block
    without room ends the choice, except for spare ones; what is left is shared evenly."""
    room_left = room + 1  # the last line has no break after it
    needs: dict[int, _Need] = {}
    left_out: set[int] = set()
    is_full = False

    numbers = [number for number, block in enumerate(blocks) if block.lines]
    for number in sorted(numbers, key=lambda number: (blocks[number].spare, blocks[number].turn)):
        block = blocks[number]

        # The first block without room ends the selection; only spare blocks are skipped.
        need = _need_of(block, measure, room)
        answers_nothing = block.spare and number - 1 in left_out
        if is_full or need.least > room_left or answers_nothing:
            left_out.add(number)
            is_full = is_full or not block.spare
            continue

        room_left -= need.least
        needs[number] = need

    # What is left is shared evenly among the blocks that need more.
    share = _even_share([need.more for need in needs.values()], room_left)
    return {number: need.least + min(need.more, share) for number, need in sorted(needs.items())}


def _key(line: _Line, text: str) -> str:
    """Return the key of a line, or of the part of it that was given. Notes do not count: they change from day to day."""
    plain_text = without_notes(text)
    return blake2b(
        f"{line.time_ms} {plain_text}".encode(errors="replace"), digest_size=6
    ).hexdigest()


def _each_line_once(blocks: Iterable[_Block], given: Collection[str]) -> Iterator[_Block]:
    """Yield the blocks, each without empty lines, lines that came in an earlier block, and lines that were `given`
    whole. The line of a plan that comes by itself (with `before`) comes even if it was given. A block may have no
    lines left."""
    seen: set[tuple[str, str]] = set()
    for block in blocks:
        new_lines: list[_Line] = []
        for line in block.lines:
            is_seen = (line.head, line.body) in seen
            is_new = line.before or _key(line, line.body) not in given
            if line.body and not is_seen and is_new:
                seen.add((line.head, line.body))
                new_lines.append(line)
        yield replace(block, lines=new_lines)


def _cut_to(
    block: _Block, room: int, measure: Measure, readers: _Readers
) -> list[tuple[_Line, str]]:
    """Cut a memory to `room`, a break after each line included: return its lines, each with what is shown of it.
    Shows its passages or, if no search brought it, the beginnings of its first lines."""
    lines = block.lines
    match = block.match
    sizes = _sizes_of(block, measure)

    if sizes.whole <= room:
        return [(line, line.body) for line in lines]
    if match is None:
        # No search brought it, so no word says which passage matters: each line keeps its beginning.
        least_sizes = [
            head + min(body, measure.least)
            for head, body in zip(sizes.heads, sizes.bodies, strict=True)
        ]
        fitting = sum(total <= room for total in accumulate(least_sizes))
        count = max(1, fitting)
        most = _even_share(sizes.bodies[:count], room - sum(sizes.heads[:count]))
        return [(line, _beginning(line, most, measure)) for line in lines[:count]]

    texts = passages(
        [line.text for line in lines],
        sizes.heads,
        lambda number, text: match(text, lines[number].time_ms),
        room=room,
        measure=measure,
        spaced=readers.language == "en",
        note=lambda number, text: readers.notes.after(text, lines[number].time_ms),
    )
    return [(line, text) for line, text in zip(lines, texts, strict=True) if text]


def _beginning(line: _Line, most: int, measure: Measure) -> str:
    """Cut a line to so much room; a note on a day is never cut in two."""
    text = clipped(line.body, most, measure)
    if line.body == one_line(line.text):
        return text
    return _TORN_NOTE.sub(ELLIPSIS, text)


def _even_share(sizes: Iterable[int], room: int) -> int:
    """Return the greatest length such that all sizes, cut to it, fit into `room` together."""
    ascending = sorted(sizes)
    for number, size in enumerate(ascending):
        share = room // (len(ascending) - number)
        if size > share:
            return share
        room -= size
    return ascending[-1] if ascending else 0
