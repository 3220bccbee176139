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

from languages import N_, _, foreign, spoken
from languages.columns import cells

LANGUAGES = ("en", "zh")
_PIECE = re.compile(r"\s+|[^\s\u2e80-\uffe6]+[，。；：、）”]*|.[，。；：、）”]*")
"""A part of a text after which a line may end: white space, a word in letters, or one Chinese character, with the signs
that must not begin a line."""
ABOUT_FLAG = N_("en or zh; by default that of the locale")


def language_of(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the language that the flag --language, MEMORY_SERVER_LANGUAGE or else the locale names; `en` for any
    other. It is read without a parser, because the parser's own words are in that language."""
    flags = [following for word, following in pairwise(arguments) if word == "--language"]
    flags += [
        word.removeprefix("--language=") for word in arguments if word.startswith("--language=")
    ]
    variables = ("MEMORY_SERVER_LANGUAGE", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    values = flags[-1:]
    values += [environment.get(name, "") for name in variables]
    named = next((value.lower() for value in values if value not in ("", "auto")), "en")
    return next((language for language in LANGUAGES if named.startswith(language)), "en")


@cache
def _checking_formatter() -> argparse.HelpFormatter:
    return argparse.HelpFormatter("", width=80)


class Parser(argparse.ArgumentParser):
    """A parser whose help and errors are in the reader's language, argparse's own words too. `meant`: words that people
    type for a choice with another name."""

    meant: Mapping[str, str] = MappingProxyType({})

    _adds_argument = False

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        """Add an argument. argparse checks each argument with a formatter; a new formatter asks for the size of the
        terminal each time."""
        self._adds_argument = True
        try:
            return super().add_argument(*args, **kwargs)
        finally:
            self._adds_argument = False

    def _get_formatter(self) -> argparse.HelpFormatter:
        """Return the formatter of help and usage. In another language than English it translates, and has the layout of
        the class that this parser was made with (`formatter_class`)."""
        if self._adds_argument:
            return _checking_formatter()
        if spoken() == "en":
            return super()._get_formatter()
        bases: Any = (_TranslatedHelp, self.formatter_class)
        translating_class = type("_TranslatedHelp", bases, {})
        formatter: argparse.HelpFormatter = translating_class(prog=self.prog)
        return formatter

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is not a choice: say to which one it is near, or what can be chosen."""
        choices = list(map(str, action.choices or ()))
        if not choices or str(value) in choices:
            return
        import difflib  # only here: most command lines have no mistake

        near = [
            self.meant.get(str(value), ""),
            *difflib.get_close_matches(str(value), choices, n=1),
        ]

        closest = next((word for word in near if word in choices), None)
        of_commands = isinstance(action, argparse._SubParsersAction)
        of_two_words = [choice for choice in choices if choice.startswith(f"{value} ")]
        if of_two_words:
            hint = _("choose one of: {choices}", ", ".join(of_two_words))
        elif closest is not None:
            hint = _("did you mean `{near}`?", closest)
        elif of_commands:
            hint = _("`{program} --help` lists the commands.", self.prog)
        else:
            hint = _("choose one of: {choices}", ", ".join(choices))

        if of_commands:
            refusal = _("There is no command `{name}`; {hint}", value, hint)
        elif action.option_strings:
            refusal = _(
                "`{option}` cannot be `{value}`; {hint}",
                "/".join(action.option_strings),
                value,
                hint,
            )
        else:
            refusal = _("`{program}` cannot be used with `{value}`; {hint}", self.prog, value, hint)

        self.exit(2, f"{self.prog}: {refusal}\n")

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {_('error')}: {foreign(message)}\n")


class _TranslatedHelp(argparse.HelpFormatter):
    """Argparse's form of help: each text is translated before it is laid out, by columns of the terminal."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, _("usage: ") if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and _(heading))

    def add_text(self, text: str | None) -> None:
        super().add_text(text and _(text))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = super()._get_help_string(action) or ""
        return _(text)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Return the lines of a text, each of at most `width` columns unless a single word is wider."""
        lines: list[str] = []
        line = ""
        for piece in _PIECE.findall(text):
            has_room = cells(line + piece.rstrip()) <= width
            if line and not has_room:
                lines.append(line.rstrip())
                line = ""
            line += piece if line else piece.lstrip()
        lines.append(line.rstrip())
        return lines


def begin_again_in_utf8_mode() -> None:
    """Start this program again in Python's UTF-8 mode, if the locale made Python use another encoding. Only on Linux:
    macOS and Windows have one encoding for file names. The arguments are read from the kernel, because arguments that
    Python decoded as GBK do not always give the same bytes back. A terminal keeps its own encoding."""
    if sys.platform != "linux" or sys.getfilesystemencoding() == "utf-8":
        return
    command_line = Path("/proc/self/cmdline").read_bytes()
    _program, *arguments = command_line.removesuffix(b"\0").split(
        b"\0"
    )  # a zero byte ends each of them
    is_terminal = os.isatty(1)
    if is_terminal:
        os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
    os.execv(sys.executable, [os.fsencode(sys.executable), b"-X", b"utf8", *arguments])
