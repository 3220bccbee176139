"""Macros of lorebooks that need nothing of a client: names, chance, dates and white space. Pure.

The names and meanings are those of SillyTavern's macros. What is left to chance is drawn once for a message of a chat
(`{{random}}`, `{{roll}}`), or once for a chat and a place in the text (`{{pick}}`). A macro that is not known here
stays as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime, timedelta, timezone

from memory_server.kernel.messages import NOTHING
from memory_server.kernel.text import has_ideograph, words_between_commas
from memory_server.kernel.values import frozen

MACRO = re.compile(r"\{\{[^{}]*\}\}")
_MARKER = re.compile("<(?:user|char|bot|group|charifnotgroup)>", re.IGNORECASE)
"""The markers from before SillyTavern had macros; both of its engines still read them."""
_MACRO_OF_MARKER = {
    "<user>": "user",
    "<char>": "char",
    "<bot>": "char",
    "<group>": "group",
    "<charifnotgroup>": "group",
}
_COMMENT = re.compile(r"\{\{\s*+//(?:[^{}]|\{(?!\{)|\}(?!\}))*\}\}")
"""A comment, which may have single braces."""
_TRIM = re.compile(r"(?:(?<![\r\n])[\r\n]++)?\{\{\s*+trim\s*+\}\}[\r\n]*+", re.IGNORECASE)
_PARTS = re.compile(r"\{\{\s*+(?P<name>//|[A-Za-z_]++)(?P<mark>::?|\s|)(?P<argument>[^{}]*)\}\}")
_DICE = re.compile(
    r"(?P<count>\d{0,3})d(?P<sides>\d{1,4})(?P<more>[+-]\d{1,4})?|(?P<only>\d{1,4})", re.IGNORECASE
)
_UTC_OFFSET = re.compile(r"\{\{\s*time_utc(?P<hours>[+-]\d{1,2})?\s*\}\}", re.IGNORECASE)
_FORMAT = re.compile(
    r"\[(?P<literal>[^\[\]]*)\]|YYYY|YY|MMMM|MMM|MM|M|DD|Do|D|dddd|ddd|HH|H|hh|h|mm|ss|A|a"
)
"""The parts of a date in the notation of moment.js."""

_MOST_DICE = 100
_MOST_NEWLINES = 20
_DEEPEST = 3
"""Levels of macros within macros that are filled."""
MOST_FILLED_CHARS = 20_000
"""Characters that the values of a text may have together: as many as a memory may have. A macro beyond them stays as it
is, because a short macro may have a long value."""
_OF_A_CLIENT = """getvar setvar addvar incvar decvar hasvar deletevar getglobalvar setglobalvar addglobalvar incglobalvar
decglobalvar outlet original input persona description personality scenario greeting lastmessage lastmessageid
lastusermessage lastcharmessage firstincludedmessageid lastswipeid currentswipeid lastgenerationtype
allchatrange idle_duration timediff mesexamples mesexamplesraw charprompt charinstruction charjailbreak
charversion chardepthprompt creatornotes charcreatornotes char_version charfirstmessage group groupnotmuted
notchar charifnotgroup model ismobile hasextension if else varexists flushvar globalvarexists flushglobalvar
getvarkey setvarkey getvarindex setvarindex hasglobalvar getglobalvarkey setglobalvarkey getglobalvarindex
setglobalvarindex deleteglobalvar chardescription charpersonality charscenario version firstdisplayedmessageid
idleduration maxcontext maxcontexttokens maxresponse maxresponsetokens maxprompttokens maxprompt systemprompt
defaultsystemprompt authorsnote charauthorsnote defaultauthorsnote summary reverse banned bias chatstart
chatseparator exampleseparator instructstorystringprefix instructinput instructoutput"""
CLIENT_MACROS = frozenset(_OF_A_CLIENT.split())
"""The macros that only a client can fill, in lower case: SillyTavern has them. What is not a macro of SillyTavern stays
as it is there too, such as a blank that the author wants the model to fill."""
_MONTHS = words_between_commas(
    "January, February, March, April, May, June, July, August, September, October, November, December"
)
_WEEKDAYS = words_between_commas("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")
_WEEKDAYS_ZH = words_between_commas("星期一, 星期二, 星期三, 星期四, 星期五, 星期六, 星期日")


@frozen
class MacroContext:
    """What macros are filled with: the local time, the names of `user` and `char` as far as they are known, a text that
    is the same for this message of this chat, and a text that is the same for this chat."""

    now: datetime
    names: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    message_seed: str = ""
    chat_seed: str = ""


def filled(text: str, context: MacroContext) -> str:
    """Return the text without comments and with its macros filled, also macros in macros. A macro
    stays as it is if it is unknown, or if more than `MOST_FILLED_CHARS` are filled already."""
    if not has_macros(text):
        return text

    text = with_names(_COMMENT.sub("", text), context.names)
    is_chinese = has_ideograph(MACRO.sub("", text))
    chars_left = MOST_FILLED_CHARS

    def value_or_macro(macro: re.Match[str]) -> str:
        nonlocal chars_left
        if chars_left <= 0:
            return macro[0]
        value = _value_of(macro[0], context, start=macro.start(), is_chinese=is_chinese)
        if value is None:
            return macro[0]
        chars_left -= len(value)
        return value

    # A macro may be within another macro: `{{random:{{user}},{{char}}}}`. Each round fills the innermost macros.
    for _round in range(_DEEPEST):
        trimmed_text = _TRIM.sub("", text)
        filled_text = MACRO.sub(value_or_macro, trimmed_text)
        if filled_text == text:
            break
        text = filled_text
    return text


def has_macros(text: str) -> bool:
    """Return whether there may be something to fill in the text."""
    return "{{" in text or _MARKER.search(text) is not None


def with_names(text: str, names: Mapping[str, str], spelled: Callable[[str], str] = str) -> str:
    """Return the text with the names of `user` and `char`, as far as they are known, in place of their macros and of
    the old markers `<user>`, `<char>` and `<bot>`; each name as `spelled` has it."""

    def name_or(macro: re.Match[str]) -> str:
        """Return a name in place of its macro or marker."""
        written = macro[0].lower()
        name = names.get(_MACRO_OF_MARKER.get(written) or written.strip("{}").strip())
        if name:
            return spelled(name)
        return macro[0]

    return MACRO.sub(name_or, _MARKER.sub(name_or, text))


def filled_key(key: str, names: Mapping[str, str], spelled: Callable[[str], str]) -> str:
    """Return a key with the macros filled that mean the same in each search: names, comments and white space."""

    def white_space_or_macro(macro: re.Match[str]) -> str:
        parts = _PARTS.fullmatch(macro[0])
        if parts is None:
            return macro[0]
        value = _white_space(parts["name"], parts["argument"])
        if value is None:
            return macro[0]
        return value

    if not has_macros(key):
        return key
    key = _TRIM.sub("", with_names(_COMMENT.sub("", key), names, spelled))
    return MACRO.sub(white_space_or_macro, key)


def unfilled(texts: Iterable[str]) -> Iterator[str]:
    """Yield the macros in these texts that only their client fills, each once, as they are written."""
    for macro in _macros_in(texts):
        if macro_name(macro).lower() in CLIENT_MACROS:
            yield macro


def unfilled_keys(keys: Iterable[str]) -> Iterator[str]:
    """Yield the macros in these keys that SillyTavern fills and `filled_key` does not, each once."""
    for macro in _macros_in(keys):
        name = macro_name(macro).lower()
        if name in CLIENT_MACROS or name in _FILLED or _UTC_OFFSET.fullmatch(macro) is not None:
            yield macro


def _macros_in(texts: Iterable[str]) -> dict[str, None]:
    """Return the macros in these texts, each once, in their order; an old marker counts as the macro that it means."""
    macros: dict[str, None] = {}
    for text in texts:
        macros.update(dict.fromkeys(MACRO.findall(text)))
        for marker in _MARKER.finditer(text):
            macros[f"{{{{{_MACRO_OF_MARKER[marker[0].lower()]}}}}}"] = None
    return macros


def macro_name(macro: str) -> str:
    """Return the name of a macro, without its arguments."""
    return re.split(r"::?|\s", macro.strip("{} "), maxsplit=1)[0]


def _value_of(macro: str, context: MacroContext, *, start: int, is_chinese: bool) -> str | None:
    """Return the value of a macro that begins at `start` of its text, or None if it is unknown or
    its argument cannot be used. The seeds of `context` and the place decide random choices."""
    offset = _UTC_OFFSET.fullmatch(macro)
    if offset is not None:
        return _offset_time(int(offset["hours"] or 0), context)

    parts = _PARTS.fullmatch(macro)
    if parts is None:
        return None
    name = parts["name"].lower()
    argument = parts["argument"]

    if name in ("random", "pick"):
        choices = _choices(parts["mark"], argument)
        if not choices:
            return None
        # The seed keeps a random choice for a message, and a pick for the whole chat.
        seed = context.message_seed if name == "random" else context.chat_seed
        return choices[int(_share(seed, macro, start) * len(choices))]

    if name == "roll":
        return _rolled(argument, _shares(context.message_seed, macro, start))
    if name == "datetimeformat":
        return formatted(context.now, argument.strip(), is_chinese=is_chinese)

    if name in _PLAIN:
        return formatted(context.now, _PLAIN[name][is_chinese], is_chinese=is_chinese)

    return _white_space(name, argument)


_WHITE_SPACE = {"newline": "\n", "space": " ", "noop": "", "//": "", "comment": ""}
"""Macros that mean the same in each search; those with white space may say how often it comes."""


def _white_space(name: str, argument: str) -> str | None:
    """Return the value of a macro for white space or for nothing, or None for any other macro. The argument says how
    often white space comes: usually once."""
    piece = _WHITE_SPACE.get(name.lower())
    count = argument.strip(": ")
    if piece is None or not count.isdecimal():
        return piece
    return piece * min(int(count), _MOST_NEWLINES)


_PLAIN = {
    "time": ("h:mm A", "HH:mm"),
    "date": ("MMMM D, YYYY", "YYYY年M月D日"),
    "weekday": ("dddd", "dddd"),
    "isotime": ("HH:mm", "HH:mm"),
    "isodate": ("YYYY-MM-DD", "YYYY-MM-DD"),
}
"""The notation of a moment for each macro, in an English and in a Chinese text."""
_FILLED = frozenset((*_PLAIN, "user", "char", "random", "pick", "roll", "datetimeformat"))
"""The macros that are filled in texts when they come."""


def _offset_time(hours: int, context: MacroContext) -> str | None:
    """Return the value of `{{time_UTC+2}}`: the time of the clock at an offset from UTC, or None if there is no such
    offset."""
    if abs(hours) > 14:
        return None
    there = context.now.astimezone(timezone(timedelta(hours=hours)))
    return formatted(there, "h:mm A", is_chinese=False)


def _choices(mark: str, argument: str) -> list[str]:
    """Return what is chosen from, as the macro lists it after its `mark`."""
    if not argument.strip():
        return []
    separator = "::" if mark == "::" or "::" in argument else ","
    return [choice.strip() for choice in argument.split(separator)]


def _rolled(argument: str, share: Callable[[int], float]) -> str | None:
    """Return the sum of the dice of `2d6+1`, or None if the argument names no dice. `share` is where each of them
    falls, from 0 to below 1."""
    dice = _DICE.fullmatch(argument.strip())
    if dice is None:
        return None
    count = int(dice["count"] or 1)
    sides = int(dice["only"] or dice["sides"])
    if not 0 < count <= _MOST_DICE or not sides:
        return None
    total = sum(1 + int(share(number) * sides) for number in range(count))
    return str(total + int(dice["more"] or 0))


def _share(seed: str, *names: object) -> float:
    """Return a number from 0 to below 1 that depends only on these arguments."""
    return int.from_bytes(hashlib.blake2b(_seeded(seed, names), digest_size=6).digest()) / 2**48


def _shares(seed: str, *names: object) -> Callable[[int], float]:
    """Return as many such numbers as there may be dice, from a single hash: a text may have a thousand rolls of a
    hundred dice."""
    digest = hashlib.shake_128(_seeded(seed, names)).digest(6 * _MOST_DICE)
    return lambda number: int.from_bytes(digest[6 * number : 6 * number + 6]) / 2**48


def _seeded(seed: str, names: Iterable[object]) -> bytes:
    return "\0".join((seed, *map(str, names))).encode(errors="replace")


def formatted(moment: datetime, pattern: str, *, is_chinese: bool) -> str:
    """Return a moment in the notation of moment.js, whose tokens for words follow the language of the text."""

    def part(token: re.Match[str]) -> str:
        if token["literal"] is not None:
            return token["literal"]
        return _date_part(token[0], moment, is_chinese=is_chinese)

    return _FORMAT.sub(part, pattern)


def _date_part(token: str, moment: datetime, *, is_chinese: bool) -> str:
    """Return the text of a token of moment.js for a moment, with months and weekdays in Chinese or
    English. Raises KeyError for another token."""
    month = f"{moment.month}月" if is_chinese else _MONTHS[moment.month - 1]
    weekday = (_WEEKDAYS_ZH if is_chinese else _WEEKDAYS)[moment.weekday()]
    hour = moment.hour % 12 or 12

    parts = {
        "YYYY": f"{moment.year:04d}",
        "YY": f"{moment.year % 100:02d}",
        "MMMM": month,
        "MMM": month if is_chinese else month[:3],
        "MM": f"{moment.month:02d}",
        "M": str(moment.month),
        "DD": f"{moment.day:02d}",
        "Do": f"{moment.day}日" if is_chinese else f"{moment.day}{_ordinal(moment.day)}",
        "D": str(moment.day),
        "dddd": weekday,
        "ddd": weekday if is_chinese else weekday[:3],
        "HH": f"{moment.hour:02d}",
        "H": str(moment.hour),
        "hh": f"{hour:02d}",
        "h": str(hour),
        "mm": f"{moment.minute:02d}",
        "ss": f"{moment.second:02d}",
        "A": "AM" if moment.hour < 12 else "PM",
        "a": "am" if moment.hour < 12 else "pm",
    }

    return parts[token]


def _ordinal(day: int) -> str:
    if 10 < day % 100 < 14:
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
