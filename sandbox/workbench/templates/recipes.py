"""A good first trigger from a few words, with the cases that show when it fires and when it stays quiet. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import chain

from sandbox.workbench.javascript import literals
from sandbox.workbench.templates.calendar_words import WEEKDAYS, Day, WordError, hour, split_day, weekday
from sandbox.workbench.templates.moods import MOODS, mood_named

_SOME_YEAR = 2026
_PLAIN_NOON = "2026-03-10T12:00"
"""A Tuesday at noon on which nothing is: for cases in which only the words matter."""
_SMALL_TALK = ("今天天气不错 nice weather", "嗯 hm", "1, 2, 3")


@dataclass(frozen=True, slots=True)
class Trial:
    """A case: its name, local ISO time, messages as (role, text), and `fired` or `quiet`."""

    name: str
    now: str
    chat: tuple[tuple[str, str], ...]
    expect: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """`name`: of the memory and its files. `source`: the trigger."""

    name: str
    source: str
    trials: tuple[Trial, ...]


def recipe(kind: str, words: Sequence[str]) -> Recipe:
    """Raises WordError."""
    make = KINDS.get(kind.lower())
    if make is None:
        raise WordError(f"there is no kind {kind!r}; choose one of {', '.join(KINDS)}")
    return make([word.strip() for word in words if word.strip()])


def _birthday(words: list[str]) -> Recipe:
    who, on = split_day(words)
    on = Day(None, on.month, on.day)
    if not who:
        raise WordError("a birthday needs a name and a date, such as: new birthday 小满 11-02")
    name = " ".join(who)
    title = f"{name}的生日" if literals.has_ideograph(name) else f"{name}'s birthday"
    keys = [literals.string(name), "/生日|birthday/i"]
    later = _noon(_on(on) + timedelta(days=100))
    spoken = (
        Trial("name and birthday come up", later, (("user", f"{name}: 生日 birthday"),), "fired"),
        Trial("another birthday", later, (("user", "生日 birthday"),), "quiet"),
    )
    source = "\n".join(
        [
            literals.comment(f"{title}: on the day, or when both the name and a birthday come up."),
            *_today(on),
            f"onTheDay || {literals.call('match_keys_all', keys)}",
        ]
    )
    return Recipe(title, source, (*_around(on), *spoken))


def _anniversary(words: list[str]) -> Recipe:
    what, on = split_day(words)
    on = Day(None, on.month, on.day)
    title = " ".join(what) or "anniversary"
    keys = [literals.string(word) for word in dict.fromkeys((*what, "anniversary", "纪念日", "周年"))]
    source = "\n".join(
        [
            literals.comment(f"{title}: from a week before to the day itself, or when it comes up."),
            "const now = new Date();",
            "const today = new Date(now.getFullYear(), now.getMonth(), now.getDate());",
            "const next = (year) => " + _date_of(on, "year") + ";",
            "const day = next(now.getFullYear()) < today ? next(now.getFullYear() + 1) : next(now.getFullYear());",
            "const daysLeft = Math.round((day - today) / 86400000);",
            f"daysLeft <= 7 || {literals.call('match_keys', keys)} > 0",
        ]
    )
    near = _on(on)
    trials = (
        Trial("on the day", _noon(near), _HELLO, "fired"),
        Trial("a week before", _noon(near - timedelta(days=7)), _HELLO, "fired"),
        Trial("eight days before", _noon(near - timedelta(days=8)), _HELLO, "quiet"),
        Trial("the day after", _noon(near + timedelta(days=1)), _HELLO, "quiet"),
        Trial("it comes up", _noon(near + timedelta(days=60)), (("user", "anniversary 纪念日"),), "fired"),
    )
    return Recipe(title, source, trials)


def _date(words: list[str]) -> Recipe:
    what, on = split_day(words)
    title = " ".join(what) or f"{on.month:02}-{on.day:02}"
    every = "every year" if on.year is None else f"in {on.year} only"
    year = "" if on.year is None else f" && today.getFullYear() === {on.year}"
    source = "\n".join([literals.comment(f"{title}: on one day, {every}."), *_today(on), f"onTheDay{year}"])
    if on.year is None:
        return Recipe(title, source, _around(on))
    # Four years later, so that a 29 February is one there too.
    another = Trial("in another year", _noon(_on(Day(on.year + 4, on.month, on.day))), _HELLO, "quiet")
    return Recipe(title, source, (*_around(on), another))


def _keyword(words: list[str]) -> Recipe:
    if not words:
        raise WordError("a keyword trigger needs at least one word, such as: new keyword pizza 披萨")
    source = "\n".join(
        [
            literals.comment("When one of these words comes up in the last 4 messages, whoever says it."),
            f"{literals.call('match_keys', [literals.string(word) for word in words])} > 0",
        ]
    )
    other = _other(words)
    old = (("user", words[0]), *((role, other) for role in ("assistant", "user", "assistant", "user")))
    trials = (
        *(Trial(f"{word!r} comes up", _PLAIN_NOON, (("user", f"so, {word}!"),), "fired") for word in words),
        Trial("it came up five messages ago", _PLAIN_NOON, old, "quiet"),
        Trial("something else", _PLAIN_NOON, (("user", other),), "quiet"),
    )
    return Recipe(" ".join(words), source, trials)


def _mood(words: list[str]) -> Recipe:
    moods = [mood_named(word) for word in words]
    if not words:
        raise WordError(f"which mood? Write one of {', '.join(MOODS)}, or words for it: new mood sad")
    found = (MOODS[mood] if mood else [word] for word, mood in zip(words, moods, strict=True))
    keys = list(dict.fromkeys(chain.from_iterable(found)))
    source = "\n".join(
        [
            literals.comment(f"When the user sounds {' or '.join(words)}: only the user's own words count."),
            f"{literals.call('match_keys', [literals.string(key) for key in keys], 'user', 3)} > 0",
        ]
    )
    trials = (
        Trial("the user says so", _PLAIN_NOON, (("user", f"{keys[0]} ... {keys[-1]}"),), "fired"),
        Trial("only the assistant says so", _PLAIN_NOON, (("assistant", keys[0]), ("user", "hm")), "quiet"),
        Trial("another mood", _PLAIN_NOON, (("user", _other(keys)),), "quiet"),
    )
    return Recipe(" ".join(words), source, trials)


def _place(words: list[str]) -> Recipe:
    if not words:
        raise WordError("a place needs at least one name, such as: new place 大理 洱海")
    source = "\n".join(
        [
            literals.comment("When the place comes up in the last 6 messages, under any of its names."),
            f"{literals.call('match_keys', [literals.string(word) for word in words], depth=6)} > 0",
        ]
    )
    trials = (
        *(
            Trial(f"{word!r} comes up", _PLAIN_NOON, (("user", f"({word})"), ("assistant", "!")), "fired")
            for word in words
        ),
        Trial("somewhere else", _PLAIN_NOON, (("user", _other(words)),), "quiet"),
    )
    return Recipe(" ".join(words), source, trials)


def _night(words: list[str]) -> Recipe:
    if len(words) not in (0, 2):
        raise WordError("a night has two hours, such as: new night 23 5")
    start, end = (hour(word) for word in words) if words else (23, 5)
    if start == end:
        raise WordError("the night must end at another hour than it begins")
    operator = "||" if start > end else "&&"
    source = "\n".join(
        [
            literals.comment(f"From {start}:00 until {end}:00 in the time zone of the server."),
            "const hour = new Date().getHours();",
            f"hour >= {start} {operator} hour < {end}",
        ]
    )
    day = "2026-03-10T"
    trials = (
        Trial("as it begins", f"{day}{start:02}:00", _HELLO, "fired"),
        Trial("a minute before", f"{day}{(start - 1) % 24:02}:59", _HELLO, "quiet"),
        Trial("in its last minute", f"{day}{(end - 1) % 24:02}:59", _HELLO, "fired"),
        Trial("as it ends", f"{day}{end:02}:00", _HELLO, "quiet"),
    )
    return Recipe(f"night {start}-{end}" if words else "night", source, trials)


def _weekday(words: list[str]) -> Recipe:
    if not words:
        raise WordError("which weekday? Write one or more, such as: new weekday friday")
    numbers = sorted({weekday(word) for word in words})
    if len(numbers) == 7:
        raise WordError("that is every day; leave some out")
    names = [WEEKDAYS[number].capitalize() for number in numbers]
    test = f"new Date().getDay() === {numbers[0]}"
    if len(numbers) > 1:
        test = f"[{', '.join(map(str, numbers))}].includes(new Date().getDay())"
    about = literals.comment(f"On {' and '.join(names)}; the week of getDay() begins with Sunday, 0.")
    source = f"{about}\n{test}"
    sunday = date(2026, 3, 8)
    other = next(number for number in range(7) if number not in numbers)
    trials = (
        *(Trial(WEEKDAYS[n], _noon(sunday + timedelta(days=n)), _HELLO, "fired") for n in numbers),
        Trial(WEEKDAYS[other], _noon(sunday + timedelta(days=other)), _HELLO, "quiet"),
    )
    return Recipe(" ".join(WEEKDAYS[number] for number in numbers), source, trials)


KINDS: Mapping[str, Callable[[list[str]], Recipe]] = {
    "birthday": _birthday,
    "anniversary": _anniversary,
    "date": _date,
    "keyword": _keyword,
    "mood": _mood,
    "place": _place,
    "night": _night,
    "weekday": _weekday,
}
_HELLO = (("user", _SMALL_TALK[0]),)


def _other(words: Sequence[str]) -> str:
    """Small talk that holds none of the words."""
    free = (text for text in _SMALL_TALK if not any(word.casefold() in text.casefold() for word in words))
    return next(free, "...")


def _leap(on: Day) -> bool:
    return (on.month, on.day) == (2, 29) and on.year is None


def _today(on: Day) -> list[str]:
    if _leap(on):
        return [
            "const today = new Date();",
            "// 29 February, and 28 February in years without one: the day before 1 March.",
            "const lastDay = new Date(today.getFullYear(), 2, 0).getDate();",
            "const onTheDay = today.getMonth() === 1 && today.getDate() === lastDay;",
        ]
    return [
        "const today = new Date();",
        f"const onTheDay = today.getMonth() === {on.month - 1} && today.getDate() === {on.day}; // months count from 0",
    ]


def _date_of(on: Day, year: str) -> str:
    """The day of a year, as JavaScript; the last of February for a 29th."""
    return f"new Date({year}, 2, 0)" if _leap(on) else f"new Date({year}, {on.month - 1}, {on.day})"


def _on(on: Day) -> date:
    year = on.year or _SOME_YEAR
    try:
        return date(year, on.month, on.day)
    except ValueError:
        return date(year, 2, 28)  # the 29th of a year without one


def _noon(on: date) -> str:
    return datetime(on.year, on.month, on.day, 12).isoformat(timespec="minutes")  # noqa: DTZ001 - local to the case


def _around(on: Day) -> tuple[Trial, ...]:
    near = _on(on)
    return (
        Trial("on the day", _noon(near), _HELLO, "fired"),
        Trial("the day before", _noon(near - timedelta(days=1)), _HELLO, "quiet"),
        Trial("the day after", _noon(near + timedelta(days=1)), _HELLO, "quiet"),
    )
