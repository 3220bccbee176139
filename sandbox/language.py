"""The language and the encoding of what people read at a shell.

The code writes English; here a sentence is looked up in catalogues.

A catalogue is a JSON object. Its keys are the sentences of the code, with `{}` for each value of an f-string. Its
values are the same in another language, with `{0}`, `{1}` for these values as they are, or `{0!t}` for one that is a
sentence or a word of ours, or a list of such, and is looked up too. Null: it is not for people, or the same in both.
Texts of users are only ever in the first kind, so they never change. Nothing is read where the language is English.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn
from unicodedata import category, east_asian_width

LANGUAGES = ("en", "zh")
ABOUT_FLAG = "en or zh; by default that of the locale"
_LEAD = 1_000
"""Characters at the beginning of an error that may name a file."""
_WIDE = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6"


def language_of(given: Sequence[str], environment: Mapping[str, str]) -> str:
    """The language that the flag --language, MEMORY_SERVER_LANGUAGE or else the locale names; `en` for any other. Found
    without a parser, because the parser's own words are in it."""
    named = [after for word, after in pairwise(given) if word == "--language"]
    named += [word.partition("=")[2] for word in given if word.startswith("--language=")]
    variables = ("MEMORY_SERVER_LANGUAGE", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    for value in (*named[-1:], *(environment.get(name, "") for name in variables)):
        if value and value != "auto":
            return next((known for known in LANGUAGES if value.lower().startswith(known)), "en")
    return "en"


_files: tuple[Path, ...] = ()


def speak(language: str, *catalogues: Path) -> None:
    """From now on, translate into `language` with the files `{language}.json` in the folders `catalogues`."""
    global _files
    _files = () if language == "en" else tuple(folder / f"{language}.json" for folder in catalogues)


def spoken() -> str:
    return _files[0].stem if _files else "en"


def translated(text: str) -> str:
    """`text` in the language of the reader: whole, or else line by line, in a table column by column; as it is where
    the catalogues do not have it."""
    if not _files or not text:
        return text
    catalogue, lines, said = _catalogue(_files), text.split("\n"), []
    while lines:
        for count in range(min(len(lines), catalogue.most_lines), 0, -1):
            if (found := catalogue.sentence("\n".join(lines[:count]))) is not None:
                break
        else:
            found = "".join(catalogue.sentence(piece) or piece for piece in re.split(r"(?<=\S)(\s{2,})", lines[0]))
        said.append(found)
        lines = lines[count:]
    return "\n".join(said)


def complaint(text: str) -> str:
    """The same for an error, which may be led by the name of a file."""
    if (whole := translated(text)) != text or not _files:
        return whole
    for place in re.finditer(" ", text[:_LEAD]):
        if (rest := _catalogue(_files).sentence(text[place.end() :])) is not None:
            return text[: place.end()] + rest
    return text


def term(text: str) -> str:
    """A word or a list of ours, such as the heading of a column. Not for texts of users."""
    return _catalogue(_files).part(text) if _files else text


def cells(text: str) -> int:
    """Columns of a terminal, found without rich: two for a wide character, none for a combining one or a joiner."""
    return sum(
        0 if category(char) in ("Mn", "Me", "Cf") else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


class _Catalogue:
    def __init__(self, entries: Mapping[str, str]) -> None:
        self._exact: dict[str, str] = {}
        self._templates: dict[tuple[int, str], list[tuple[int, list[str], str]]] = {}
        """By their line ends and first four characters ("" for those that begin with a value), each with the length of
        its literal text, longer where it is at both ends; the longest first. So a value has no line end, and what says
        most is found."""
        for key, value in entries.items():
            parts = [""]
            for literal, hole in _parsed(key):
                parts[-1] += literal
                if hole is not None:
                    parts.append("")
            if len(parts) == 1:
                self._exact[parts[0]] = value
            else:
                literal = "".join(parts)
                place = literal.count("\n"), parts[0][:4]
                weight = len(literal) + 8 * bool(parts[0] and parts[-1])
                self._templates.setdefault(place, []).append((weight, parts, value))
        for held in self._templates.values():
            held.sort(key=lambda one: -one[0])
        self.most_lines = 1 + max((text.count("\n") for text in entries), default=0)

    def sentence(self, text: str, *, ours: bool = False, led: bool = False) -> str | None:
        """None for a text that is not known. If it may be a user's, a word is not known, nor what has little of a
        sentence, such as `{} and {}`. `led`: it must begin with some text."""
        if text in self._exact and (ours or " " in text.strip() or text[-1:] in ".:"):
            return self._filled(self._exact[text], ())
        lines, most, best, held = text.count("\n"), 0, "", list[str]()
        for length in range(min(4, len(text)), 0 if led else -1, -1):
            for weight, parts, value in self._templates.get((lines, text[:length]), ()):
                if weight <= most:
                    break
                if (weight > 7 if led else parts[0] or ours or _says(parts)) and (values := _values(parts, text)):
                    if not (parts[0] or ours) and re.search(r":[ \[]| - ", values[0]):
                        continue  # `user: …`, `name - …`: what somebody said
                    most, best, held = weight, value, values
                    break
        return self._filled(best, held) if most else None

    def part(self, text: str) -> str:
        """What stands for a value that is ours: a word, a sentence, or several; with as much room as it had."""
        bare = text.rstrip(" ")
        found = self.sentence(text, ours=True) or self.sentence(bare, ours=True)
        if found in (None, bare):
            found = self._joined(bare)
        if found is None:
            return text
        return found + " " * (text not in self._exact and len(text) > len(bare) and max(1, len(text) - cells(found)))

    def _joined(self, text: str) -> str | None:
        """A text that ends with a sentence of ours, or a list with one."""
        for begin in re.finditer(r"[ ;,(]", text):
            for end in (begin.start(), begin.end()):
                if end and (rest := self.sentence(text[end:], ours=True, led=True)) is not None:
                    return self.part(text[:end]) + rest
        for separator, between in (("; ", "；"), (", ", "、")):
            pieces = text.split(separator)
            if len(pieces) > 1 and (known := [self.part(piece) for piece in pieces]) != pieces:
                return between.join(known)
        return None

    def _filled(self, value: str, values: Sequence[str]) -> str:
        filled = ""
        for literal, hole in _parsed(value):
            number, _, ours = (hole or "").partition("!")
            filled += literal
            if number:
                said = self.part(values[int(number)]) if ours else values[int(number)]
                # Between Chinese and a number stands a blank.
                spaced = (
                    ours and re.match("[0-9A-Za-z]", said) and re.search(f"[{_WIDE}](?<![，。；：、（）])$", filled)
                )
                filled += f" {said}" if spaced else said
        return filled


def _parsed(template: str) -> Iterator[tuple[str, str | None]]:
    """Its texts, each with what the braces after it hold."""
    from string import Formatter  # only here: it takes time

    for literal, name, _, conversion in Formatter().parse(template):
        yield literal, f"{name}!{conversion}" if conversion else name


def _says(parts: Sequence[str]) -> bool:
    """Whether a template that begins with a value is a sentence: ` and `, ` conversation` are in texts of users too."""
    words = len(re.findall("[A-Za-z]{2,}", " ".join(parts)))
    return words > 1 or (words > 0 and "".join(parts)[-1:] in (".", ":"))


def _values(parts: Sequence[str], text: str) -> list[str]:
    """What stands between the literal `parts` of a template; nothing if `text` is not made from it."""
    end = len(text) - len(parts[-1])
    if not (text.startswith(parts[0]) and text.endswith(parts[-1]) and end >= len(parts[0])):
        return []
    values, place = [], len(parts[0])
    for literal in parts[1:-1]:
        found = text.find(literal, place, end)
        if found < 0:
            return []
        values.append(text[place:found])
        place = found + len(literal)
    values.append(text[place:end])
    # `{} memory` is a count, not a list that ends with one.
    listed = len(parts) == 2 and not parts[0] and parts[1][-1:] not in ".:" and ", " in values[0]
    return [] if listed else values


@cache
def _catalogue(files: Sequence[Path]) -> _Catalogue:
    import json  # only here: it takes time

    entries = {key: value for file in files for key, value in json.loads(file.read_text("utf-8")).items()}
    return _Catalogue({key: value for key, value in entries.items() if value is not None})


class Parser(argparse.ArgumentParser):
    """A parser whose help and errors are in the reader's language, argparse's own words too."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        if not _files:
            return super()._get_formatter()
        bases: Any = (_TranslatedHelp, self.formatter_class)
        made: argparse.HelpFormatter = type("_TranslatedHelp", bases, {})(prog=self.prog)
        return made

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {term('error')}: {translated(message)}\n")


class _TranslatedHelp(argparse.HelpFormatter):
    """Argparse's form of help: each text is translated before it is laid out, by columns of the terminal."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, term("usage: ") if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and term(heading))

    def add_text(self, text: str | None) -> None:
        super().add_text(text and translated(text))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return translated(super()._get_help_string(action) or "")

    def _split_lines(self, text: str, width: int) -> list[str]:
        lines, line = [], ""
        for piece in re.findall(r"\s+|[^\s\u2e80-\uffe6]+[，。；：、）”]*|.[，。；：、）”]*", text):
            if line and cells(line + piece.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece if line else piece.lstrip()
        return [*lines, line.rstrip()]


def begin_again_in_utf8_mode() -> None:
    """Start this program again in Python's UTF-8 mode, if the locale made Python use another encoding. Only on Linux:
    macOS and Windows have one encoding for file names. The arguments are read from the kernel, because arguments that
    Python decoded as GBK do not always give the same bytes back. A terminal keeps its own encoding."""
    if sys.platform == "linux" and sys.getfilesystemencoding() != "utf-8":
        given = Path("/proc/self/cmdline").read_bytes().split(b"\0")[1:-1]
        if os.isatty(1):
            os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
        os.execv(sys.executable, [os.fsencode(sys.executable), b"-X", b"utf8", *given])
