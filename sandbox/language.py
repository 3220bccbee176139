"""The command line in the reader's language: which language that is, help and errors of argparse, the encoding."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn
from unicodedata import category, east_asian_width

from sandbox.locale import _, foreign, spoken, term, translated

LANGUAGES = ("en", "zh")
ABOUT_FLAG = _("en or zh; by default that of the locale")


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


def cells(text: str) -> int:
    """Columns of a terminal, found without rich: two for a wide character, none for a combining one or a joiner."""
    return sum(
        0 if category(char) in ("Mn", "Me", "Cf") else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def padded(word: str, width: int) -> str:
    """A word of ours in the reader's language, filled with blanks to this many columns."""
    said = term(word)
    return said + " " * (width - cells(said))


@cache
def _checking_formatter() -> argparse.HelpFormatter:
    return argparse.HelpFormatter("", width=80)


class Parser(argparse.ArgumentParser):
    """A parser whose help and errors are in the reader's language, argparse's own words too. `meant`: words that people
    type for a choice with another name."""

    meant: Mapping[str, str] = MappingProxyType({})

    _adds_argument = False

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        """argparse checks each argument with a formatter; a new one asks for the size of the terminal each time."""
        self._adds_argument = True
        try:
            return super().add_argument(*args, **kwargs)
        finally:
            self._adds_argument = False

    def _get_formatter(self) -> argparse.HelpFormatter:
        if self._adds_argument:
            return _checking_formatter()
        if spoken() == "en":
            return super()._get_formatter()
        bases: Any = (_TranslatedHelp, self.formatter_class)
        made: argparse.HelpFormatter = type("_TranslatedHelp", bases, {})(prog=self.prog)
        return made

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is not a choice: say to which one it is near, or what can be chosen."""
        choices = list(map(str, action.choices or ()))
        if not choices or str(value) in choices:
            return
        import difflib  # only here: most command lines have no mistake

        near = [self.meant.get(str(value), ""), *difflib.get_close_matches(str(value), choices, n=1)]
        closest = next((word for word in near if word in choices), None)
        of_commands = isinstance(action, argparse._SubParsersAction)
        if closest is not None:
            hint = _("did you mean `{near}`?", closest)
        elif of_commands:
            hint = _("`{program} --help` lists the commands.", self.prog)
        else:
            hint = _("choose one of: {choices}", ", ".join(choices))
        if of_commands:
            refusal = _("There is no command `{name}`; {hint}", value, hint)
        elif action.option_strings:
            refusal = _("`{option}` cannot be `{value}`; {hint}", "/".join(action.option_strings), value, hint)
        else:
            refusal = _("`{program}` cannot be used with `{value}`; {hint}", self.prog, value, hint)
        self.exit(2, f"{self.prog}: {translated(refusal)}\n")

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {term('error')}: {translated(foreign(message))}\n")


class _TranslatedHelp(argparse.HelpFormatter):
    """Argparse's form of help: each text is translated before it is laid out, by columns of the terminal."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, term("usage: ") if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and term(heading))

    def add_text(self, text: str | None) -> None:
        super().add_text(text and translated(text))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = super()._get_help_string(action) or ""
        return term(text) if type(action) in (argparse._HelpAction, argparse._VersionAction) else translated(text)

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
