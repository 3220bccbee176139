"""`trigger-sandbox new`: a trigger and its fixture from a template, written after the fixture has passed.

A template (`KIND.template`, string.Template) has the trigger, a line `---`, and the cases. A function for each kind
makes the values that fill it from the words.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from importlib import resources
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory

from sandbox.javascript import literals
from sandbox.workbench.fixtures.cases import read_fixture
from sandbox.workbench.fixtures.outcomes import CaseResult
from sandbox.workbench.fixtures.testing import results_of
from sandbox.workbench.sources.files import write_files
from sandbox.workbench.terminal import Terminal
from sandbox.workbench.usage import UsageError, settled

Words = Sequence[str]
Fields = Mapping[str, object]
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f<>:"/\\|?*#\s]+')
_RESERVED = re.compile(r"con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]", re.IGNORECASE)
_DAY = re.compile(r"(?:(\d{4})[-/.年])?(\d{1,2})[-/.月](\d{1,2})[日号號]?")
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_CHINESE_WEEKDAY = re.compile("(?:星期|周|週|礼拜|禮拜)([日天一二三四五六])")
_DAYS_FROM_IT = {
    "day": 0,
    "day_before": -1,
    "day_after": 1,
    "week_before": -7,
    "eight_days_before": -8,
    "months_later": 60,
    "four_years_later": 4 * 365 + 1,
}
_SMALL_TALK = ("今天天气不错 nice weather", "嗯 hm", "1, 2, 3")


def new(options: argparse.Namespace) -> int:
    """Returns 0. Raises UsageError, and then writes nothing."""
    title, source, cases = drafted(options.kind, options.words)
    stem = _NOT_IN_NAMES.sub("-", options.name or title).strip("-. ")[:60] or options.kind
    if _RESERVED.fullmatch(stem.partition(".")[0].rstrip()):
        stem = f"{options.kind}-{stem}"  # Windows takes it for a device
    path = Path(options.folder) / f"{stem}.js"
    fixture = path.with_name(f"{stem}.trigger.yaml")
    text = fixture_text(path.name, cases)
    results = settled(_results({path.name: source, fixture.name: text}, fixture.name))
    if wrong := [one for one in results if not one.passed]:
        reason = f"{wrong[0].case.name}: {wrong[0].reasons[0]}"
        raise UsageError(f"the trigger of these words fails its own tests ({reason}); choose other words")
    write_files({path: source, fixture: text}, force=options.force)
    terminal = Terminal(sys.stdout)
    for line in source.splitlines():
        terminal.say(f"    {line}")
    terminal.say()
    terminal.say(f"written: {path} and, beside it, {fixture.name}; its {len(results)} cases pass", "green")
    terminal.say(f"next: edit both, then: trigger-sandbox test {shlex.quote(str(fixture))}")
    return 0


async def _results(files: Mapping[str, str], fixture: str) -> list[CaseResult]:
    """The results of the cases, run in a temporary folder."""
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, "utf-8")
        return [result async for result in results_of(read_fixture(Path(folder) / fixture))]


def drafted(kind: str, words: Words) -> tuple[str, str, str]:
    """A title, the trigger and the rows of its cases. Raises UsageError."""
    if kind.lower() not in KINDS:
        raise UsageError(f"unknown kind {kind!r}; choose one of {', '.join(KINDS)}")
    fields = KINDS[kind.lower()]([" ".join(word.split()) for word in words if word.strip()])
    template = (resources.files(__package__) / f"{kind.lower()}.template").read_text("utf-8")
    source, _, cases = Template(template).substitute(fields).partition("---\n")
    return str(fields["title"]), source, cases


def fixture_text(source_name: str, cases: str) -> str:
    """The fixture of a trigger in a file of that name."""
    return f"""\
# When {quoted(source_name)} fires and when it stays quiet.
trigger_file: {quoted(source_name)}
tz: UTC  # write the time zone of your server here
cases:
{cases}"""


def _birthday(words: Words) -> Fields:
    who, on, _ = _dated(words)
    if not who:
        raise UsageError("a birthday needs a name and a date, such as: new birthday 小满 11-02")
    title = f"{who}的生日" if literals.has_ideograph(who) else f"{who}'s birthday"
    return {**on, "title": title, "key": literals.string(who), "said": quoted(f"{who}: 生日 birthday")}


def _anniversary(words: Words) -> Fields:
    what, on, _ = _dated(words)
    keys = dict.fromkeys((*what.split(), "anniversary", "纪念日", "周年"))
    return {**on, "title": what or "anniversary", "found": literals.call("match_keys", [*map(literals.string, keys)])}


def _date(words: Words) -> Fields:
    what, on, year = _dated(words, any_year=False)
    how_often = f"in {year} only" if year else "every year"
    in_year = f" && today.getFullYear() === {year}" if year else ""
    again = "quiet" if year else "fired"
    return {**on, "title": what or on["day"], "how_often": how_often, "in_year": in_year, "again": again}


def _dated(words: Words, *, any_year: bool = True) -> tuple[str, dict[str, str], int | None]:
    """The words without the date, the template values of the date, and its year if the trigger asks for one."""
    found = next((match for match in map(_DAY.fullmatch, words) if match), None)
    if found is None:
        raise UsageError("the words have no date; add one as MM-DD or YYYY-MM-DD, such as 11-02")
    year = int(found[1]) if found[1] and not any_year else None
    month, number = int(found[2]), int(found[3])
    try:
        day = date(year or 2028, month, number)  # 2028 has a 29 February, and so has the year four years later
    except ValueError as error:
        raise UsageError(f"{found[0]!r} is not a date; write MM-DD or YYYY-MM-DD, such as 11-02") from error
    on = {name: (day + timedelta(days=days)).isoformat() for name, days in _DAYS_FROM_IT.items()}
    if (month, number) == (2, 29) and year is None:
        last = "new Date(today.getFullYear(), 2, 0).getDate()"
        on["on_the_day"] = f"today.getMonth() === 1 && today.getDate() === {last}; // the last of February"
        on["day_of_year"] = "new Date(year, 2, 0)"
    else:
        on["on_the_day"] = f"today.getMonth() === {month - 1} && today.getDate() === {number}; // months count from 0"
        on["day_of_year"] = f"new Date(year, {month - 1}, {number})"
    return " ".join(word for word in words if word != found[0]), on, year


def _keyword(words: Words) -> Fields:
    return _keys(words, words, "a keyword trigger needs at least one word, such as: new keyword pizza 披萨")


def _place(words: Words) -> Fields:
    return _keys(words, words, "a place needs at least one name, such as: new place 大理 洱海", depth=6)


def _mood(words: Words) -> Fields:
    moods: Mapping[str, list[str]] = json.loads((resources.files(__package__) / "moods.json").read_text("utf-8"))
    keys: dict[str, None] = {}
    for word in words:
        alike = (mood for name, mood in moods.items() if word.casefold() in (name, *mood))
        keys |= dict.fromkeys(next(alike, [word]))
    empty = f"which mood? Write one of {', '.join(moods)}, or words for it: new mood sad"
    return {**_keys(list(keys), words, empty, "user", 3), "title": " or ".join(words)}


def _keys(keys: Words, words: Words, empty: str, scope: str = "any", depth: int = 4) -> dict[str, object]:
    """The template values of a trigger with keys. `empty`: the error when there are no words."""
    if not words:
        raise UsageError(empty)
    free = (text for text in _SMALL_TALK if not any(key.casefold() in text.casefold() for key in keys))
    rows = (
        f"  - {{name: {quoted(f'{key} comes up')}, chat: [user: {quoted(f'so, {key}!')}], expect: fired}}"
        for key in keys
    )
    return {
        "title": " ".join(words),
        "found": literals.call("match_keys", [literals.string(key) for key in keys], scope, depth),
        "first": quoted(keys[0]),
        "other": quoted(next(free, "...")),
        "each_word": "\n".join(rows),
    }


def _night(words: Words) -> Fields:
    hours = [word.removesuffix(":00").removesuffix("点") for word in words or ("23", "5")]
    if len(hours) != 2 or not all(hour.isdecimal() and int(hour) < 24 for hour in hours):
        raise UsageError("a night has two whole hours from 0 to 23, such as: new night 23 5")
    start, end = map(int, hours)
    if start == end:
        raise UsageError("the night must end at another hour than it begins")
    return {
        "title": f"night {start}-{end}" if words else "night",
        "start": start,
        "end": end,
        "operator": "||" if start > end else "&&",
        "begins": f"{start:02}:00",
        "just_before": f"{(start - 1) % 24:02}:59",
        "just_ends": f"{(end - 1) % 24:02}:59",
        "ends": f"{end:02}:00",
    }


def _weekday(words: Words) -> Fields:
    if not words:
        raise UsageError("which weekday? Write one or more, such as: new weekday friday")
    numbers = sorted({_number_of(word) for word in words})
    if len(numbers) == 7:
        raise UsageError("that is every day; leave some out")
    return {
        "title": " ".join(_WEEKDAYS[number].lower() for number in numbers),
        "names": " and ".join(_WEEKDAYS[number] for number in numbers),
        "numbers": ", ".join(map(str, numbers)),
        **{name: "fired" if number in numbers else "quiet" for number, name in enumerate(_WEEKDAYS)},
    }


def quoted(value: str) -> str:
    """A text as JSON on one line, which YAML reads as the same text."""
    text = json.dumps(value, ensure_ascii=False)
    for char in "\x7f\x85\u2028\u2029":  # line ends for YAML, but not for JSON
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _number_of(word: str) -> int:
    """0 for Sunday to 6, as getDay() counts."""
    if chinese := _CHINESE_WEEKDAY.fullmatch(word):
        return "日一二三四五六".index(chinese[1].replace("天", "日"))
    found = [number for number, name in enumerate(_WEEKDAYS) if len(word) > 1 and name.lower().startswith(word.lower())]
    if not found:
        raise UsageError(f"{word!r} is not a weekday; write one such as friday or 周五")
    return found[0]


KINDS: Mapping[str, Callable[[Words], Fields]] = {
    "birthday": _birthday,
    "anniversary": _anniversary,
    "date": _date,
    "keyword": _keyword,
    "mood": _mood,
    "place": _place,
    "night": _night,
    "weekday": _weekday,
}
