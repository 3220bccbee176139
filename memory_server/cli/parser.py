"""The command `memory-server`: find the typed command in the table, import it and run it."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from languages import N_, _, speak, speaking
from languages.columns import cells
from languages.command_line import ABOUT_FLAG, Parser, begin_again_in_utf8_mode, language_of
from memory_server.cli.commands import GROUPS
from memory_server.cli.terminal import show_all_characters
from memory_server.command_table import COMMANDS
from memory_server.kernel.errors import InvalidInput, MemoryServerError
from memory_server.kernel.streams import complain, say_if_waiting
from memory_server.process.command_runner import leave, refuse, understood
from memory_server.version import version_line

if TYPE_CHECKING:
    from memory_server.config import Settings

ABOUT = N_("A memory for chat companions, Claude and Cursor, served over MCP.")
SETTINGS = {
    "data-dir": ("DIR", N_("folder of the memories")),
    "config": ("FILE", N_("settings file (TOML)")),
    "tenant": ("NAME", N_("the memories of this tenant of `serve --http`")),
    "conversation": ("ID", N_("this conversation; otherwise all, or the usual one")),
    "timezone": ("ZONE", N_("IANA time zone, such as Asia/Shanghai")),
    "log-level": ("LEVEL", N_("DEBUG, INFO, WARNING or ERROR")),
    "now": ("TIME", N_("start the clock at this ISO time, to try things out")),
    "seed": ("N", N_("seed of random recalls, to try things out")),
    "toolsets": ("NAMES", N_("toolsets offered over MCP, or all")),
    "tools": ("NAMES", N_("single tools offered as well")),
    "exclude-tools": ("NAMES", N_("tools never offered")),
    "language": ("LANG", ABOUT_FLAG),
}
"""The placeholder and the meaning of each row of `SETTING_FLAGS`."""
_MEANT = MappingProxyType(dict.fromkeys(("delete", "erase", "remove", "rm"), "forget"))
"""Commands that people try, and the commands that they mean."""
READ_ONLY = N_("change nothing, offer only tools that read")

ABOUT_VERSION = "show program's version number and exit"


class CommandParser(Parser):
    """The parser of all commands. Its help fits on one screen. `rows` holds the group, name and summary of each
    command."""

    meant = _MEANT
    rows: list[tuple[str, str, str]]
    commands: argparse._SubParsersAction[Parser]

    def format_help(self) -> str:
        """Return the help of the program: the commands in groups, and the settings."""
        lines = [_("usage: {usage}  (COMMAND --help has an example)", self.usage), _(ABOUT)]
        last_group = ""
        for group, name, summary in self.rows:
            title = ""

            # Only the first command of a group shows the title of the group.
            if group != last_group:
                title = f"{_(group)}:"
            blanks = " " * (10 - cells(title))
            lines.append(f"{title}{blanks}{name:<20}{_(summary)}")
            last_group = group

        lines += ["", _("settings, for every command:")]
        for name, (metavar, about) in {**SETTINGS, "read-only": ("", READ_ONLY)}.items():
            flag = f"--{name} {metavar}"
            if name == "conversation":
                flag = f"-c, {flag}"
            lines.append(f"  {flag:<27}{_(about)}")
        return "\n".join([*lines, ""])

    def parse_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but accept a command of two words (`secrets erase`), words after
        an option, and a sentence without quotation marks. Exits if words are left over."""
        if args is None:
            args = sys.argv[1:]
        words = _with_one_name(list(args))
        flags, rest = self.parse_known_args(words, namespace)

        if not rest:
            return flags

        # The remaining words may belong to the command: only an unknown flag is surely an error.
        if not any(word.startswith("-") for word in rest):
            if isinstance(getattr(flags, "words", None), list):
                flags.words += rest  # argparse takes no more words after an option: `knowledge list --json WORD`
                return flags
            sentence_name = getattr(flags, "sentence", "")
            first = getattr(flags, sentence_name, None)
            # Accept a sentence without quotation marks if its words are side by side.
            if first is not None and _has_in_order(words, [first, *rest]):
                setattr(flags, sentence_name, " ".join([first, *rest]))
                return flags
        return super().parse_args(words, namespace)


def _has_in_order(words: Sequence[str], part: Sequence[str]) -> bool:
    """Return whether the words of `part` are side by side in `words`."""
    return any(words[start : start + len(part)] == part for start in range(len(words)))


class _ShowVersion(argparse.Action):
    """The flag `--version`. It looks up the commit only when it is used."""

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> NoReturn:
        print(version_line())
        parser.exit()


def parser() -> CommandParser:
    """Make the parser of all commands with their flags; docs/reference/commands.md is generated from it."""
    # `copy --to` is not an abbreviation of --tools.
    usage = "memory-server [SETTINGS] COMMAND ..."
    top = CommandParser(prog="memory-server", description=ABOUT, usage=usage, allow_abbrev=False)
    _add_settings(top, shown=True)

    conversation: dict[str, Any] = {"metavar": "ID", "default": argparse.SUPPRESS}
    top.add_argument("-c", "--conversation", help=SETTINGS["conversation"][1], **conversation)
    top.add_argument("--version", action=_ShowVersion, nargs=0, help=ABOUT_VERSION)

    top.rows = []
    top.set_defaults(command=COMMANDS["serve"])
    top.commands = top.add_subparsers(metavar="COMMAND", prog="memory-server", parser_class=Parser)

    # Settings may be typed before or after the command.
    common = Parser(add_help=False)
    _add_settings(common, shown=False)

    def add(
        group: str,
        name: str,
        summary: str,
        example: str,
        *,
        meaning_of_c: str = argparse.SUPPRESS,
        listed: tuple[str, str] | bool = False,
    ) -> argparse.ArgumentParser:
        """Add the parser of a command with `-c` and the settings; `listed`: its row in the help."""
        raw = argparse.RawDescriptionHelpFormatter
        epilog = _("example:\n  memory-server {example}", example)
        command_parser = top.commands.add_parser(
            name, description=summary, epilog=epilog, formatter_class=raw, parents=[common]
        )
        command_parser.add_argument("-c", "--conversation", help=meaning_of_c, **conversation)
        command_parser.set_defaults(command=COMMANDS[name])

        if listed:
            label, text = listed if isinstance(listed, tuple) else (name, summary)
            top.rows.append((group, label, text))
        return command_parser

    for group, fill in GROUPS.items():
        fill(partial(add, group))
    return top


def _add_settings(parser: argparse.ArgumentParser, *, shown: bool) -> None:
    """Add the flags of `SETTINGS`; if they are not `shown`, they work and the help leaves them out."""
    # SUPPRESS as the default: a flag before the command must not be overwritten by the default of the one after it.
    hidden = argparse.SUPPRESS
    for name, (metavar, about) in {**SETTINGS, "read-only": ("", READ_ONLY)}.items():
        if name == "conversation":
            continue
        options: dict[str, Any] = {"default": hidden, "help": about if shown else hidden}
        if name == "read-only":
            options["action"] = "store_true"
        else:
            options["metavar"] = metavar
        parser.add_argument(f"--{name}", **options)
    parser.add_argument("--no-daemon", action="store_true", default=hidden, help=hidden)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    is_program = arguments is None
    if is_program and sys.getfilesystemencoding() != "utf-8":
        begin_again_in_utf8_mode()
    words = sys.argv[1:] if arguments is None else arguments
    with speaking(language_of(words, os.environ)):
        return _exit_status_of(words, is_program=is_program)


def _exit_status_of(words: Sequence[str], *, is_program: bool) -> int:
    """Run the command line and return the exit status; that of `hook` is 0 also after an error. Exits, as
    argparse does, if the command line of another command is wrong."""
    command = _command_in(words)
    if command != "hook":
        if is_program and command in (None, "serve"):
            gc.disable()  # imports make no garbage; looking for it takes a fifth of the start. App ends this
        return _main(words, owns_process=is_program)

    say_if_waiting(_("the event of a hook as JSON"))
    _start_faster()
    # An error of a hook, of its settings or flags must not end with 2, which would block the user's prompt.
    try:
        _main(words)
    except SystemExit as end:
        if end.code:
            _tell_user(
                _("the command line of its hook cannot be used; run `memory-server install` again")
            )
    except Exception as error:
        _tell_user(_failure(error))
    return 0


def _tell_user(reason: str) -> None:
    """Say why a hook that did not begin cannot use the memory."""
    from memory_server.cli.hook.trouble import tell_of_input

    tell_of_input(reason)


def _command_in(words: Sequence[str]) -> str | None:
    """Find the typed command without the parser: errors in the other arguments must not matter here."""
    position = _position_of_command(words)
    if position is None:
        return None
    return words[position]


def _position_of_command(words: Sequence[str]) -> int | None:
    """Return where the first word stands that is neither an option nor the value of a setting, or None."""
    positions = iter(range(len(words)))
    for position in positions:
        word = words[position]
        if not word.startswith("-"):
            return position
        if word.removeprefix("--") in SETTINGS or word == "-c":
            next(positions, None)  # its value
    return None


def _with_one_name(words: list[str]) -> list[str]:
    """Change the arguments in place, and return them: a command of two words becomes one word, and
    `call TOOL --help` becomes `tools TOOL`."""
    position = _position_of_command(words)
    if position is None:
        return words
    two_words = " ".join(words[position : position + 2])
    if two_words in COMMANDS:
        words[position : position + 2] = [two_words]
    if words[position] == "call" and {"-h", "--help"} & set(words[position + 2 :]):
        words[position:] = ["tools", words[position + 1]]
    return words


def _start_faster() -> None:
    """Leave out what a process for one question does not need: this saves a fifth of the user's waiting time at a
    prompt."""
    if "asyncio" in sys.modules:
        return  # not a process of its own
    gc.disable()  # imports make no garbage
    os.environ.setdefault(
        "PYDANTIC_DISABLE_PLUGINS", "__all__"
    )  # looking for them reads every installed package
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type] # asyncio does without


def _main(arguments: Sequence[str], *, owns_process: bool = False) -> int:
    """Run a command line, and return its exit status. An error becomes a sentence on standard
    error, and for a hook the status 0. Exits, as argparse does, if the command line is wrong."""
    show_all_characters()
    name = _command_in(arguments) or "serve"
    if sys.stdout is None and name != "serve":
        complain("There is no standard output to write to; leave out `>&-`.")
        return 1

    flags = parsed(arguments)
    try:
        import asyncio

        from memory_server.process.logs import log_to_stderr

        command, settings = understood(flags, os.environ)
        if settings.language != "auto":
            speak(settings.language)
        log_to_stderr(settings.log_level, serves=name in ("serve", "hook"))
        if settings.data_dir is not None:
            _refuse_file(settings.data_dir.expanduser())

        leaves = owns_process and command.name == "serve"
        return asyncio.run(_run(settings, flags, leaves=leaves))
    except MemoryServerError as error:
        if name == "hook":
            _tell_user(str(error.sentence))
            return 0
        return refuse(error, flags)
    except BrokenPipeError:
        # The reader of the output has ended; Python must not report that when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if name == "hook":
            _tell_user(_failure(error))
            return 0
        complain(
            "The command failed inside the program: {reason}; please report this line.",
            _failure(error),
        )
        return 1
    except KeyboardInterrupt:
        return 130


def _failure(error: Exception) -> str:
    """Return what failed inside the program, and where, for a sentence to the user; the log gets the traceback at the
    level DEBUG."""
    import logging

    from memory_server.kernel.failures import failure_text

    logging.getLogger(__name__).debug("the command failed", exc_info=error)
    return failure_text(error)


def _refuse_file(data_dir: Path) -> None:
    """Refuse a data folder that is a file, or would be inside one. Raises InvalidInput."""
    for path in (data_dir, *data_dir.parents):
        if path.is_file():
            raise InvalidInput(
                "{data_dir} is a file, but memories are kept in a folder; name a folder with --data-dir.",
                path,
            )


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line into flags. Exits, as argparse does, if the command line is wrong."""
    flags: argparse.Namespace = parser().parse_args(arguments)
    flags.typed = tuple(arguments)
    return flags


async def _run(settings: Settings, flags: argparse.Namespace, *, leaves: bool) -> int:
    """Run the command in this process and return its exit status. With `leaves` the process ends instead."""
    from memory_server.process.command_runner import run_command
    from memory_server.process.hosts import OwnProcess

    status = await run_command(settings, flags, OwnProcess())
    if leaves:
        leave(
            status
        )  # here, because `asyncio.run` would wait for threads whose work is no longer needed
    return status
