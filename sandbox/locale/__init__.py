"""Messages: the texts of ours that people read, each with its English, its template and the values in it.

A message is made where the sentence is written, `_("The file {name} is empty.", file.name)`: the values are for its
places, in order. It is a `str`, the finished English: models, logs and JSON get that. Where a person reads it,
`translated` says it in their language, with the catalogues of gettext in `locale/` (`.po`, built to `.mo`). A text that
is not a message never changes, so those of users stay as they are. An f-string or `"".join` around a message gives such
a text: use a template, `joined` or `+`. At a place called `reason`, a text that is not a message is what another
program said; the catalogues know the common ones, under the context `foreign`. In English nothing is read, nor gettext
imported.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, SupportsIndex

if TYPE_CHECKING:
    from gettext import GNUTranslations

_spoken: tuple[str, ...] = ("en",)
"""The language, and the folders of the packages whose catalogues are used."""
spoken_here: ContextVar[tuple[str, ...]] = ContextVar("spoken_here")
"""The same for what runs in this context, if somebody else reads it than the user of the process."""
_WIDE = "\u1100-\u115f\u2e80-\u3000\u3003-\ua4cf\uac00-\ud7a3\uf900-\ufaff"
_BETWEEN = {", ": "、", " and ": "和", "; ": "；", ". ": "。"}
"""What stands between sentences or words of ours, in Chinese."""
_LONGEST_CHARS, _DEEPEST = 1_000, 2
"""What another program said is looked up to this length, and in a sentence of it a sentence at the place `reason`."""
_FOREIGN = "foreign\x04"
"""How gettext marks entries with this context."""


class LocalizedText(str):
    """The finished English. `templates`: of one text, or of one and of many; `values`: by the names of their places."""

    __slots__ = ("templates", "values")
    templates: tuple[str, ...]
    values: Mapping[str, Any]

    def said(self, catalogue: GNUTranslations) -> str:
        """It in the language of the catalogue; the values too, where they are messages."""
        if not self.templates[0]:
            return ""  # gettext has the header of the catalogue there
        if len(self.templates) == 1:
            template = catalogue.gettext(self.templates[0])
        else:
            template = catalogue.ngettext(self.templates[0], self.templates[1], self.values["count"])
        return _filled(template, self.values, catalogue)

    def __str__(self) -> str:  # so that `str(error)` is still the message that was raised
        return self

    def __add__(self, other: str) -> str:
        return joined("", (self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> str:
        return joined("", (other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> str:
        return self if times.__index__() == 1 else str.__mul__(self, times)


class _Joined(LocalizedText):
    __slots__ = ("parts",)
    parts: Sequence[str]

    def said(self, catalogue: GNUTranslations) -> str:
        parts = [part.said(catalogue) if isinstance(part, LocalizedText) else part for part in self.parts]
        between = self.templates[0]
        if any(isinstance(part, LocalizedText) for part in self.parts):
            between = _BETWEEN.get(between, between)
        return between.join(parts)


class _Clause(LocalizedText):
    __slots__ = ("sentence",)
    sentence: LocalizedText

    def said(self, catalogue: GNUTranslations) -> str:
        return self.sentence.said(catalogue).rstrip(".。")


class _Foreign(LocalizedText):
    __slots__ = ()

    def said(self, catalogue: GNUTranslations) -> str:
        return _said_of_foreign(self, catalogue, _DEEPEST) if len(self) <= _LONGEST_CHARS else self


class _FromAfar(LocalizedText):
    __slots__ = ()

    def said(self, catalogue: GNUTranslations) -> str:
        # Its template may be any text: only one that the catalogue has is filled, with values that may not fit it.
        if catalogue.gettext(self.templates[0]) == self.templates[0]:
            return self
        try:
            return super().said(catalogue)
        except (ArithmeticError, LookupError, ValueError):
            return self


class MessageError(Exception):
    """An error that is raised with a message, or with a template and its values."""

    def __init__(self, template: str = "", /, *values: object) -> None:
        super().__init__(template if isinstance(template, LocalizedText) else _(template, *values))


def _(template: str, /, *values: object) -> str:
    """A `LocalizedText` with these values in its places. Where no values are given, braces are plain text."""
    return _message((template,), values)


def n_(one: str, many: str, count: int, /, *values: object) -> str:
    """A `LocalizedText` with a number, at the place `count`; `values` are for its other places."""
    return _message((one, many), values, count=count)


def counted(count: int, noun: str) -> str:
    """`1 memory`, `3 memories`. The catalogues have these two templates of each noun."""
    return n_(*forms(noun), count)


def forms(noun: str) -> tuple[str, str]:
    """The templates of `counted`."""
    return f"{{count}} {noun}", f"{{count}} {noun[:-1]}ies" if noun.endswith("y") else f"{{count}} {noun}s"


def N_(word: str) -> str:  # noqa: N802 - gettext's name
    """Marks a word of a table, which `term` says later; as it is."""
    return word


def joined(between: str, parts: Iterable[str]) -> str:
    """The parts, with `between` between them, so that those that are messages stay messages."""
    parts = tuple(parts)
    made = _Joined(between.join(parts))
    made.templates, made.values, made.parts = (between,), {}, parts
    return made


def clause(sentence: str) -> str:
    """A sentence without its full stop, to stand within another one."""
    if not isinstance(sentence, LocalizedText):
        return sentence.rstrip(".")
    made = _Clause(sentence.rstrip("."))
    made.templates, made.values, made.sentence = sentence.templates, sentence.values, sentence
    return made


def foreign(text: str) -> str:
    """What another program said (V8, the worker, argparse, a reader of JSON), which the catalogues may know."""
    if isinstance(text, LocalizedText):
        return text
    made = _Foreign(text)
    made.templates, made.values = (text,), {}
    return made


def packed(text: str) -> Any:
    """A text as JSON, for another process: of a message its English, its template and its values."""
    if type(text) is not LocalizedText or len(text.templates) > 1:
        return str.__str__(text)
    values = {
        name: packed(value) if isinstance(value, str) else value if type(value) is int else _number_or_text(value)
        for name, value in text.values.items()
    }
    return [str.__str__(text), text.templates[0], values]


def unpacked(english: str, template: str, values: Mapping[str, Any]) -> str:
    """A message from another process, which need not be honest. `values`: numbers and texts by the names of places."""
    made = _FromAfar(english)
    made.templates, made.values = (template,), values
    return made


def changed(text: str, change: Callable[[str], str]) -> str:
    """`change(text)`; of a message also its values, so that it stays a message."""
    match text:
        case _Joined():
            return joined(change(text.templates[0]), [changed(part, change) for part in text.parts])
        case _Clause():
            return clause(changed(text.sentence, change))
        case _Foreign():
            return foreign(change(text))
        case LocalizedText():
            made = type(text)(change(text))
            values = {
                name: os.fspath(one) if isinstance(one, os.PathLike) else one for name, one in text.values.items()
            }
            values = {name: changed(one, change) if isinstance(one, str) else one for name, one in values.items()}
            made.templates, made.values = text.templates, values
            return made
    return change(text)


def speak(language: str, *packages: str) -> None:
    """From now on, translate into `language` with the catalogues of the packages in these folders and of this one."""
    global _spoken
    _spoken = (language, *packages)


def spoken() -> str:
    return spoken_here.get(_spoken)[0]


def translated(text: str) -> str:
    """A message in the language of the reader; any other text as it is."""
    return said_in(text, *spoken_here.get(_spoken))


def said_in(text: str, language: str, *packages: str) -> str:
    """A message in this language, with the catalogues of the packages in these folders; any other text as it is."""
    if not isinstance(text, LocalizedText) or language == "en":
        return text
    if (catalogue := _catalogue((language, *packages))) is None:
        return text
    return text.said(catalogue)


def term(word: str) -> str:
    """A word of ours in the language of the reader, such as the heading of a column. Not for texts of users."""
    return translated(word if isinstance(word, LocalizedText) else _(word))


def _message(templates: tuple[str, ...], values: Sequence[object], **named: Any) -> LocalizedText:
    if values:
        places = (name for name in _places(templates[-1]) if name not in named)
        for name, value in zip(places, values, strict=True):
            if isinstance(value, BaseException):
                value = str(value)
            if name == "reason" and isinstance(value, str) and not isinstance(value, LocalizedText):
                value = foreign(value)
            named[name] = value
    template = templates[0] if named.get("count") == 1 else templates[-1]
    made = LocalizedText(template.format(**named) if named else template)
    made.templates, made.values = templates, named
    return made


@cache
def _places(template: str) -> tuple[str, ...]:
    """The names of its places, in order."""
    return tuple(dict.fromkeys(re.findall(r"(?<!\{)(?:\{\{)*\{(\w+)", template)))


def _filled(template: str, values: Mapping[str, Any], catalogue: GNUTranslations) -> str:
    said = dict(values)
    for name, value in values.items():
        if isinstance(value, LocalizedText):
            said[name] = value.said(catalogue)
            if re.match("[0-9A-Za-z]", said[name]):  # between Chinese and a number stands a blank
                template = re.sub(rf"([{_WIDE}])(?={{{name}\b)", r"\1 ", template)
    return template.format(**said) if values else template


def _number_or_text(value: object) -> float | str:
    return value if isinstance(value, float) and abs(value) < float("inf") else str(value)


@cache
def _catalogue(spoken: tuple[str, ...]) -> GNUTranslations | None:
    """None, with a warning on standard error, where one is missing or damaged: then everything is English."""
    from gettext import GNUTranslations  # only here: it takes time, and so does pathlib
    from pathlib import Path

    language, *packages = spoken
    made = []
    for package in (*map(Path, packages), Path(__file__).parents[1]):
        folder = package / "locale" / language / "LC_MESSAGES"
        try:
            (file,) = folder.glob("*.mo")
            with file.open("rb") as content:
                made.append(GNUTranslations(content))
        except Exception:  # of a damaged one, gettext raises errors of many kinds
            sys.stderr.write(
                f"There is no usable catalogue (.mo) in {folder}, so texts are in English; install the program again, "
                "or run `make catalogues`.\n"
            )
            return None
        if len(made) > 1:
            made[0].add_fallback(made[-1])
    return made[0]


def _said_of_foreign(text: str, catalogue: GNUTranslations, levels: int) -> str:
    best: tuple[int, str, dict[str, str]] = (0, "", {})
    for length, literals, pattern, template in _patterns(catalogue) if levels else ():
        may_be = length > best[0] and text.startswith(literals[0]) and text.endswith(literals[-1])
        if may_be and (found := re.fullmatch(pattern, text, re.DOTALL)):
            best = length, template, found.groupdict()
    if not best[0]:
        return text
    values = {
        name: _said_of_foreign(value, catalogue, levels - 1) if name == "reason" else value
        for name, value in best[2].items()
    }
    return re.sub(r"(?<!\{)\{(\w+)[^{}]*\}", r"{\1}", best[1]).format(**values)


@cache
def _patterns(catalogue: GNUTranslations) -> list[tuple[int, list[str], str, str]]:
    """What other programs say: the length of the literal texts of each, these, a pattern for all of it, the Chinese."""
    while (further := vars(catalogue)["_fallback"]) is not None:
        catalogue = further
    found = []
    for key, said in vars(catalogue)["_catalog"].items():
        if isinstance(key, str) and key.startswith(_FOREIGN):
            pieces = re.split(r"(?<!\{)\{(\w+)[^{}]*\}", key.removeprefix(_FOREIGN))
            literals = [one.replace("{{", "{").replace("}}", "}") for one in pieces[::2]]
            places = [f"(?P<{name}>.*?)" for name in pieces[1::2]]
            pattern = "".join(re.escape(one) + place for one, place in zip(literals, [*places, ""], strict=True))
            found.append((sum(map(len, literals)), literals, pattern, said))
    return found
