"""Messages: the texts of ours that people read, each with its English, its template and the values in it.

A message is made where the sentence is written, `_("The file {name} is empty.", file.name)`: the values are for its
places, in order. It is a `str`, the finished English: models, logs and JSON get that. Where a person reads it,
`translated` says it in their language, with the catalogues of gettext in `locale/` (`.po`, built to `.mo`). A text that
is not a message never changes, so those of users stay as they are. An f-string or `"".join` around a message gives such
a text: use a template, `joined` or `+`. Nothing is read, nor gettext imported, where the language is English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, SupportsIndex

if TYPE_CHECKING:
    from gettext import GNUTranslations
    from pathlib import Path

_folders: tuple[Path, ...] = ()
_WIDE = "\u1100-\u115f\u2e80-\u3000\u3003-\ua4cf\uac00-\ud7a3\uf900-\ufaff"
_BETWEEN = {", ": "、", "; ": "；", ". ": "。"}
"""What stands between sentences or words of ours, in Chinese."""


class Message(str):
    """The finished English. `templates`: of one text, or of one and of many; `values`: by the names of their places."""

    __slots__ = ("templates", "values")
    templates: tuple[str, ...]
    values: Mapping[str, Any]

    def said(self, catalogue: GNUTranslations) -> str:
        """It in the language of the catalogue; the values too, where they are messages."""
        if len(self.templates) == 1:
            template = catalogue.gettext(self.templates[0])
        else:
            template = catalogue.ngettext(*self.templates, self.values["count"])
        return _filled(template, self.values, catalogue)

    def __str__(self) -> str:  # so that `str(error)` is still the message that was raised
        return self

    def __add__(self, other: str) -> str:
        return joined("", (self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> str:
        return joined("", (other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> str:
        return self if times.__index__() == 1 else str.__mul__(self, times)


class _Joined(Message):
    __slots__ = ("parts",)
    parts: Sequence[str]

    def said(self, catalogue: GNUTranslations) -> str:
        parts = [part.said(catalogue) if isinstance(part, Message) else part for part in self.parts]
        between = self.templates[0]
        if any(isinstance(part, Message) for part in self.parts):
            between = _BETWEEN.get(between, between)
        return between.join(parts)


class _Foreign(Message):
    __slots__ = ()

    def said(self, catalogue: GNUTranslations) -> str:
        best: tuple[int, str, dict[str, str]] = (0, self, {})
        for length, pattern, begin, template in _patterns(catalogue):
            if length > best[0] and self.startswith(begin) and (found := re.fullmatch(pattern, self)):
                best = length, catalogue.gettext(template), found.groupdict()
        # A value is a sentence of the same speaker, or as it is: a single word may be a user's.
        return _filled(best[1], {name: foreign(value) for name, value in best[2].items()}, catalogue)


class MessageError(Exception):
    """An error that is raised with a message, or with a template and its values."""

    def __init__(self, template: str = "", /, *values: object) -> None:
        super().__init__(template if isinstance(template, Message) else _(template, *values))


def _(template: str, /, *values: object) -> Message:
    """A message with these values in its places. Where no values are given, braces are plain text."""
    return _message((template,), values)


def n_(one: str, many: str, count: int, /, *values: object) -> Message:
    """A message with a number, at the place `count`; `values` are for its other places."""
    return _message((one, many), values, count=count)


def counted(count: int, noun: str) -> Message:
    """`1 memory`, `3 memories`. The catalogues have these two templates of each noun."""
    return n_(*forms(noun), count)


def forms(noun: str) -> tuple[str, str]:
    """The templates of `counted`."""
    return f"{{count}} {noun}", f"{{count}} {noun[:-1]}ies" if noun.endswith("y") else f"{{count}} {noun}s"


def N_(word: str) -> str:  # noqa: N802 - gettext's name
    """Marks a word of a table, which `term` says later; as it is."""
    return word


def joined(between: str, parts: Iterable[str]) -> Message:
    """The parts, with `between` between them, so that those that are messages stay messages."""
    parts = tuple(parts)
    made = _Joined(between.join(parts))
    made.templates, made.values, made.parts = (between,), {}, parts
    return made


def foreign(text: str) -> Message:
    """What another program said (V8, the worker, argparse, a reader of JSON), which the catalogues may know."""
    made = _Foreign(text)
    made.templates, made.values = (text,), {}
    return made


def speak(language: str, *folders: Path) -> None:
    """From now on, translate into `language` with the catalogues in `locale/` of the packages `folders`."""
    global _folders
    _folders = () if language == "en" else tuple(folder / "locale" / language / "LC_MESSAGES" for folder in folders)


def spoken() -> str:
    return _folders[0].parent.name if _folders else "en"


def translated(text: str) -> str:
    """A message in the language of the reader; any other text as it is."""
    return text.said(_catalogue(_folders)) if _folders and isinstance(text, Message) else text


def term(word: str) -> str:
    """A word of ours in the language of the reader, such as the heading of a column. Not for texts of users."""
    return translated(word if isinstance(word, Message) else _(word))


def _message(templates: tuple[str, ...], values: Sequence[object], **named: Any) -> Message:
    if values:
        places = (name for name in _places(templates[-1]) if name not in named)
        for name, value in zip(places, values, strict=True):
            named[name] = str(value) if isinstance(value, BaseException) else value
    template = templates[0] if named.get("count") == 1 else templates[-1]
    made = Message(template.format(**named) if named else template)
    made.templates, made.values = templates, named
    return made


@cache
def _places(template: str) -> tuple[str, ...]:
    """The names of its places, in order."""
    return tuple(dict.fromkeys(re.findall(r"(?<!\{)(?:\{\{)*\{(\w+)", template)))


def _filled(template: str, values: Mapping[str, Any], catalogue: GNUTranslations) -> str:
    said = dict(values)
    for name, value in values.items():
        if isinstance(value, Message):
            said[name] = value.said(catalogue)
            if re.match("[0-9A-Za-z]", said[name]):  # between Chinese and a number stands a blank
                template = re.sub(rf"([{_WIDE}])(?={{{name}\b)", r"\1 ", template)
    return template.format(**said) if values else template


@cache
def _catalogue(folders: Sequence[Path]) -> GNUTranslations:
    from gettext import GNUTranslations  # only here: it takes time

    found: GNUTranslations | None = None
    for file in (file for folder in reversed(folders) for file in folder.glob("*.mo")):
        with file.open("rb") as content:
            catalogue = GNUTranslations(content)
        if found is not None:
            catalogue.add_fallback(found)
        found = catalogue
    if found is None:
        raise FileNotFoundError(f"No catalogue is built in {folders[0]}; run `make setup`.")
    return found


@cache
def _patterns(catalogue: GNUTranslations | None) -> list[tuple[int, str, str, str]]:
    """Of each template: the length of its literal text, a pattern for its texts, how they begin, and itself."""
    found = []
    while catalogue is not None:
        for template in vars(catalogue)["_catalog"]:
            if isinstance(template, str) and template:
                literals = re.split(r"\{(\w+)[^}]*\}", template)
                pattern = "".join(
                    f"(?P<{text}>.+)" if number % 2 else re.escape(text) for number, text in enumerate(literals)
                )
                found.append((len("".join(literals[::2])), pattern, literals[0], template))
        catalogue = vars(catalogue)["_fallback"]
    return found
