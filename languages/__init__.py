"""The sentences of ours that people read, in the language of their readers.

`_("The file {name} is empty.", file.name)` is an ordinary `str` in the language of the context: the values are for the
places of the template, in order. `speaking` sets that language for a block of code, and English is the default: for
logs, JSON, models and what is stored. A context goes along with a task of asyncio and with `asyncio.to_thread`;
`in_this_language` takes it into other threads. A sentence that is made before its reader is known is a `Sentence`: its
template and its values, which are a `str` only where they are shown.

The Chinese is in the catalogue of gettext in `zh/` (`.po`, built to `.mo`). In English nothing is read, nor gettext
imported. At a place called `reason`, the text may be what another program said; the catalogue knows the common ones,
under the context `foreign`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from gettext import GNUTranslations

T = TypeVar("T")
ENGLISH = "en"
_language_here: ContextVar[str] = ContextVar("language_here", default=ENGLISH)
"""The language of what this context says."""
_WIDE = "\u1100-\u115f\u2e80-\u3000\u3003-\ua4cf\uac00-\ud7a3\uf900-\ufaff"
_BETWEEN = {", ": "、", " and ": "和", "; ": "；", ". ": "。"}
"""The marks between sentences or words of ours, in Chinese."""
_LONGEST_CHARS, _DEEPEST = 1_000, 2
"""What another program said is looked up to this length, and in a sentence of it a sentence at the place `reason`."""
_FOREIGN = "foreign\x04"
"""How gettext marks entries with this context."""


def spoken() -> str:
    """Return the language of this context: `en` or `zh`."""
    return _language_here.get()


def speak(language: str) -> None:
    """Set the language of this context, from now on."""
    _language_here.set(language)


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Set the language of this context for a block of code."""
    before = _language_here.set(language)
    try:
        yield
    finally:
        _language_here.reset(before)


def in_this_language(function: Callable[..., T]) -> Callable[..., T]:
    """Wrap the function for another thread, which has a context of its own: it runs in a copy of this context."""
    return partial(copy_context().run, function)


def _(template: str, /, *values: object) -> str:
    """Return the message with these values in its places. Without values, braces are plain text."""
    catalogue = _catalogue_here()
    if (
        catalogue is None or not template
    ):  # gettext has the header of the catalogue under the empty text
        return _filled(template, template, values)
    return _filled(template, catalogue.gettext(template), values)


def n_(singular: str, plural: str, count: int, /, *values: object) -> str:
    """Return the message about a number, in the singular or the plural. The number is the value for the place `count`;
    `values` are for the other places, in the order in which the plural has them."""
    catalogue = _catalogue_here()
    if catalogue is not None:
        template = catalogue.ngettext(singular, plural, count)
    elif count == 1:
        template = singular
    else:
        template = plural
    return _filled(plural, template, values, count=count)


def counted(count: int, noun: str) -> str:
    """Return `1 memory` or `3 memories`. The catalogue has these two templates of each noun."""
    return n_(*forms(noun), count)


def forms(noun: str) -> tuple[str, str]:
    """Return the templates of `counted`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{{count}} {noun}", f"{{count}} {plural}"


def N_(text: T) -> T:  # noqa: N802 - gettext's name
    """Mark a text, or all texts of a table (the values of a mapping), which `_` translates where they are shown. Return
    it unchanged."""
    return text


def joined(between: str, parts: Iterable[str]) -> str:
    """Join words or sentences of ours with `between` between them, which Chinese writes in its own way. Texts of users
    are put together with `str.join`, because no language of ours changes them."""
    if _catalogue_here() is not None:
        between = _BETWEEN.get(between, between)
    return between.join(parts)


def clause(sentence: str) -> str:
    """Return a sentence without its full stop, to be put within another sentence."""
    return sentence.rstrip(".。")


def foreign(text: str) -> str:
    """Return what another program said (V8, argparse, a reader of JSON) in the language of this context if the
    catalogue knows it, otherwise unchanged."""
    catalogue = _catalogue_here()
    if catalogue is None or len(text) > _LONGEST_CHARS:
        return text
    return _foreign_in(catalogue, text, _DEEPEST)


def received(english: str, template: str, values: Mapping[str, object]) -> str:
    """Return a message of another process, which need not be honest: the English as it came, or in another language
    what the catalogue has for the template, filled with the values if they fit."""
    catalogue = _catalogue_here()
    if catalogue is None:
        return english
    translation = catalogue.gettext(template)
    if not template or translation == template:
        return english
    try:
        return _with_blanks(translation, values).format(**values)
    except (ArithmeticError, LookupError, ValueError):
        return english


@dataclass(frozen=True, slots=True, init=False)
class Sentence:
    """A message whose reader is not known yet: its template and its values, among which there may be others. `str`
    returns it in the language of the context."""

    template: str
    values: tuple[object, ...]

    def __init__(self, template: str, /, *values: object) -> None:
        object.__setattr__(self, "template", template)
        object.__setattr__(self, "values", tuple(map(_lasting, values)))

    def __str__(self) -> str:
        return _(self.template, *self.values)

    @property
    def named_values(self) -> dict[str, object]:
        """The values by the names of their places."""
        if not self.values:
            return {}
        return dict(zip(_places(self.template), self.values, strict=True))

    @property
    def english(self) -> str:
        """The sentence for what is stored."""
        with speaking(ENGLISH):
            return str(self)


class ReceivedSentence(Sentence):
    """A sentence of another process, which need not be honest; see `received`. `values` are by the names of places."""

    __slots__ = ("_english", "_values_received")
    _english: str
    _values_received: Mapping[str, object]

    def __init__(self, english: str, template: str, values: Mapping[str, object]) -> None:
        super().__init__(template)
        object.__setattr__(self, "_english", english)
        object.__setattr__(self, "_values_received", values)

    def __str__(self) -> str:
        return received(self._english, self.template, self._values_received)

    @property
    def named_values(self) -> dict[str, object]:
        return dict(self._values_received)

    @property
    def english(self) -> str:
        return self._english


class MessageError(Exception):
    """An error that is raised with a template and its values, or with a `Sentence`. Its text is in the language of the
    context in which it was raised; `sentence` can be said in another language too."""

    def __init__(self, template: str | Sentence = "", /, *values: object) -> None:
        self.sentence = template if isinstance(template, Sentence) else Sentence(template, *values)
        super().__init__(str(self.sentence))


def _lasting(value: object) -> object:
    """Return the value of a sentence that may be said later; for an error its sentence."""
    if isinstance(value, MessageError):
        return value.sentence
    return value


def _filled(english: str, template: str, values: Sequence[object], **named: Any) -> str:
    """Return the template with its values. `values` are in the order of the places of the `english` template, without
    the places whose values are `named`."""
    if not values and not named:
        return template
    names = [name for name in _places(english) if name not in named]
    for name, value in zip(names, values, strict=True):
        named[name] = _shown(name, value)
    if template is not english and spoken() != ENGLISH:
        template = _with_blanks(template, named)
    return template.format(**named)


def _shown(name: str, value: object) -> object:
    """Return the value as it is shown at a place with this name."""
    if isinstance(value, BaseException | Sentence):
        value = str(value)
    if name == "reason" and isinstance(value, str):
        return foreign(value)
    return value


def _with_blanks(template: str, values: Mapping[str, object]) -> str:
    """Return the template with a blank between a Chinese character and a text that begins with a Latin letter or a
    digit."""
    for name, value in values.items():
        if isinstance(value, str) and re.match("[0-9A-Za-z]", value):
            template = re.sub(rf"([{_WIDE}])(?={{{name}\b)", r"\1 ", template)
    return template


@cache
def _places(template: str) -> tuple[str, ...]:
    """Return the names of its places, in order."""
    return tuple(dict.fromkeys(re.findall(r"(?<!\{)(?:\{\{)*\{(\w+)", template)))


def _catalogue_here() -> GNUTranslations | None:
    """Return the translations of the language of this context, or None for English."""
    language = _language_here.get()
    if language == ENGLISH:
        return None
    return _catalogue(language)


@cache
def _catalogue(language: str) -> GNUTranslations | None:
    """Return the translations of a language. If their file is missing or damaged, return None: then everything is in
    English, which a warning on standard error says once."""
    from gettext import GNUTranslations  # only here: it takes time, and so does pathlib
    from pathlib import Path

    file = Path(__file__).with_name(language) / "messages.mo"
    try:
        with file.open("rb") as content:
            return GNUTranslations(content)
    except Exception:  # for a damaged file, gettext raises errors of many kinds
        sys.stderr.write(
            f"There is no usable catalogue (.mo) in {file.parent}, so texts are in English; install the program again, "
            "or run `make catalogues`.\n"
        )
        return None


@dataclass(frozen=True, slots=True)
class _ForeignPattern:
    """What another program says. `literals`: the texts between its places; `expression`: finds all of it."""

    literals: Sequence[str]
    expression: str
    translation: str

    @property
    def literal_chars(self) -> int:
        return sum(map(len, self.literals))


def _foreign_in(catalogue: GNUTranslations, text: str, levels: int) -> str:
    """Return the translation by the pattern with the most literal text; with no levels left, the text as it is."""
    if not levels:
        return text

    best: _ForeignPattern | None = None
    values: dict[str, str] = {}
    for pattern in _foreign_patterns(catalogue):
        if best is not None and pattern.literal_chars <= best.literal_chars:
            continue
        if not text.startswith(pattern.literals[0]) or not text.endswith(pattern.literals[-1]):
            continue

        match = re.fullmatch(pattern.expression, text, re.DOTALL)
        if match is not None and pattern.literal_chars:
            best = pattern
            values = match.groupdict()

    if best is None:
        return text

    if "reason" in values:
        values["reason"] = _foreign_in(catalogue, values["reason"], levels - 1)
    return re.sub(r"(?<!\{)\{(\w+)[^{}]*\}", r"{\1}", best.translation).format(**values)


@cache
def _foreign_patterns(catalogue: GNUTranslations) -> list[_ForeignPattern]:
    """Return the patterns of the entries of the catalogue under the context `foreign`."""
    patterns = []
    for key, translation in vars(catalogue)["_catalog"].items():
        if isinstance(key, str) and key.startswith(_FOREIGN):
            # Literal texts and the names of the places between them, in turn.
            pieces = re.split(r"(?<!\{)\{(\w+)[^{}]*\}", key.removeprefix(_FOREIGN))
            literals = [piece.replace("{{", "{").replace("}}", "}") for piece in pieces[::2]]
            expression = re.escape(literals[0])
            for name, literal in zip(pieces[1::2], literals[1:], strict=True):
                expression += f"(?P<{name}>.*?)" + re.escape(literal)
            patterns.append(_ForeignPattern(literals, expression, translation))
    return patterns
