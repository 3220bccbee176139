"""The command `memory-server`: it finds the typed command in the table, imports it and runs it."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from memory_server.cli.commands import GROUPS
from memory_server.cli.terminal import ASKER, complain, refuse, say_if_waiting, show_all_characters
from memory_server.command_table import COMMANDS, SETTING_FLAGS, Command
from memory_server.kernel.errors import InvalidInput, MemoryServerError
from memory_server.version import __version__
from sandbox import ABOUT_FLAG, Parser, begin_again_in_utf8_mode, cells, language_of
from sandbox.locale import _, speak, term, translated

if TYPE_CHECKING:
    from memory_server.config import Settings

ABOUT = _("A memory for chat companions, Claude and Cursor, served over MCP.")
SETTINGS = {
    "data-dir": ("DIR", _("folder of the memories")),
    "config": ("FILE", _("settings file (TOML)")),
    "tenant": ("NAME", _("the memories of this tenant of `serve --http`")),
    "conversation": ("ID", _("this conversation; otherwise all, or the usual one")),
    "timezone": ("ZONE", _("IANA time zone, such as Asia/Shanghai")),
    "log-level": ("LEVEL", _("DEBUG, INFO, WARNING or ERROR")),
    "now": ("TIME", _("start the clock at this ISO time, to try things out")),
    "seed": ("N", _("seed of what comes by chance, to try things out")),
    "toolsets": ("NAMES", _("toolsets offered over MCP, or all")),
    "tools": ("NAMES", _("single tools offered as well")),
    "exclude-tools": ("NAMES", _("tools never offered")),
    "language": ("LANG", ABOUT_FLAG),
}
"""The placeholder and the meaning of each row of `SETTING_FLAGS`."""
_MEANT = MappingProxyType(dict.fromkeys(("delete", "erase", "remove", "rm"), "forget"))
"""Commands that people try, and which one they mean."""
READ_ONLY = _("change nothing, offer only tools that read")

PACKAGE = str(Path(__file__).parents[1])
"""Where the catalogues of what the commands say are."""


class CommandParser(Parser):
    """The parser of all commands. Its help is one screen: `rows` are group, name and summary of the commands."""

    meant = _MEANT
    rows: list[tuple[str, str, str]]
    commands: argparse._SubParsersAction[Parser]

    def format_help(self) -> str:
        lines = [translated(_("usage: {usage}  (COMMAND --help has an example)", self.usage)), translated(ABOUT)]
        last = ""
        for group, name, summary in self.rows:
            title = "" if group == last else f"{term(group)}:"
            lines.append(f"{title}{' ' * (10 - cells(title))}{name:<20}{translated(summary)}")
            last = group
        lines += ["", translated(_("settings, for every command:"))]
        for name, (metavar, about) in {**SETTINGS, "read-only": ("", READ_ONLY)}.items():
            flag = f"{'-c, ' * (name == 'conversation')}--{name} {metavar}"
            lines.append(f"  {flag:<27}{translated(about)}")
        return "\n".join([*lines, ""])

    def parse_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        words = _with_one_name(sys.argv[1:] if args is None else list(args))
        flags, left = self.parse_known_args(words, namespace)
        if left and not any(each.startswith("-") for each in left):
            if isinstance(getattr(flags, "words", None), list):
                flags.words += left  # argparse takes no more words after an option: `knowledge list --json WORD`
                return flags
            if (first := getattr(flags, getattr(flags, "sentence", ""), None)) is not None:
                typed = [first, *left]  # without quotation marks, if they stand side by side
                if any(words[place : place + len(typed)] == typed for place in range(len(words))):
                    setattr(flags, flags.sentence, " ".join(typed))
                    return flags
        return super().parse_args(words, namespace) if left else flags


def parser() -> CommandParser:
    """All commands with their flags; docs/reference/commands.md is generated from it."""
    # `copy --to` is not an abbreviation of --tools.
    usage = "memory-server [SETTINGS] COMMAND ..."
    top = CommandParser(prog="memory-server", description=ABOUT, usage=usage, allow_abbrev=False)
    _add_settings(top, shown=True)
    conversation: dict[str, Any] = {"metavar": "ID", "default": argparse.SUPPRESS}
    top.add_argument("-c", "--conversation", help=SETTINGS["conversation"][1], **conversation)
    top.add_argument("--version", action="version", version=f"memory-server {__version__}")
    top.rows = []
    top.set_defaults(command=COMMANDS["serve"])
    top.commands = top.add_subparsers(metavar="COMMAND", prog="memory-server", parser_class=Parser)
    common = Parser(add_help=False)
    _add_settings(common, shown=False)

    def add(
        group: str,
        name: str,
        summary: str,
        example: str,
        *,
        about_c: str = argparse.SUPPRESS,
        listed: tuple[str, str] | None = None,
    ) -> argparse.ArgumentParser:
        raw = argparse.RawDescriptionHelpFormatter
        epilog = _("example:\n  memory-server {example}", example)
        made = top.commands.add_parser(name, description=summary, epilog=epilog, formatter_class=raw, parents=[common])
        made.add_argument("-c", "--conversation", help=about_c, **conversation)
        made.set_defaults(command=COMMANDS[name])
        label, text = listed or (name, summary)
        if label:
            top.rows.append((group, label, text))
        return made

    for group, fill in GROUPS.items():
        fill(partial(add, group))
    return top


def _add_settings(made: argparse.ArgumentParser, *, shown: bool) -> None:
    # SUPPRESS as the default: a flag before the command must not be overwritten by the default of the one after it.
    hidden = argparse.SUPPRESS
    for name, (metavar, about) in SETTINGS.items():
        if name != "conversation":
            made.add_argument(f"--{name}", metavar=metavar, default=hidden, help=about if shown else hidden)
    made.add_argument("--read-only", action="store_true", default=hidden, help=READ_ONLY if shown else hidden)
    made.add_argument("--no-daemon", action="store_true", default=hidden, help=hidden)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    if arguments is None and sys.getfilesystemencoding() != "utf-8":
        begin_again_in_utf8_mode()
    given = sys.argv[1:] if arguments is None else arguments
    speak(language_of(given, os.environ), PACKAGE)
    command = _command_in(given)
    if command != "hook":
        if arguments is None and command in (None, "serve"):
            gc.disable()  # imports make no garbage; looking for it takes a fifth of the start. App ends this
        return _main(given, owns_process=arguments is None)
    say_if_waiting(_("the event of a hook as JSON"))
    _hurry()
    # An error of a hook, of its settings or flags must not end with 2, which would block the user's prompt.
    try:
        _main(given)
    except SystemExit as left:
        if left.code:
            _tell_user(_("the command line of its hook cannot be used; run `memory-server install` again"))
    except Exception as error:
        _tell_user(_failure(error))
    return 0


def _tell_user(reason: str) -> None:
    """Say why a hook that did not begin cannot use the memory."""
    from memory_server.cli.hook.trouble import tell_of_input

    tell_of_input(reason)


def _command_in(given: Sequence[str]) -> str | None:
    """The typed command, found without the parser: errors in the other arguments must not matter here."""
    place = _place_of_command(given)
    return None if place is None else given[place]


def _place_of_command(given: Sequence[str]) -> int | None:
    places = iter(range(len(given)))
    for place in places:
        if not given[place].startswith("-"):
            return place
        if given[place].removeprefix("--") in SETTINGS or given[place] == "-c":
            next(places, None)  # its value
    return None


def _with_one_name(words: list[str]) -> list[str]:
    """The same arguments, with a command of two words as one, and `call TOOL --help` as `tools TOOL`."""
    place = _place_of_command(words)
    if place is not None and (name := " ".join(words[place : place + 2])) in COMMANDS:
        words[place : place + 2] = [name]
    if place is not None and words[place] == "call" and {"-h", "--help"} & set(words[place + 2 :]):
        words[place:] = ["tools", words[place + 1]]
    return words


def _hurry() -> None:
    """Leave out what a process that asks once does not need: this saves a fifth of the time that a user waits at a
    prompt."""
    if "asyncio" in sys.modules:
        return  # not a process of its own
    gc.disable()  # imports make no garbage
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for them reads every installed package
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type] # asyncio does without


def _main(arguments: list[str], *, owns_process: bool = False) -> int:
    show_all_characters()
    name = _command_in(arguments) or "serve"
    if sys.stdout is None and name != "serve":
        complain(_("There is no standard output to write to; leave out `>&-`."))
        return 1
    flags = parsed(arguments)
    try:
        import asyncio

        from memory_server.cli.logs import log_to_stderr

        command, settings = understood(flags, os.environ)
        if settings.language != "auto":
            speak(settings.language, PACKAGE)
        log_to_stderr(settings.log_level, serves=name in ("serve", "hook"))
        if settings.data_dir is not None:
            _refuse_file(settings.data_dir.expanduser())
        leaves = owns_process and command.name == "serve"
        return asyncio.run(_run(command, settings, flags, leaves=leaves))
    except MemoryServerError as error:
        if name == "hook":
            _tell_user(str(error))
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
        complain(_("The command failed inside the program: {reason}; please report this line.", _failure(error)))
        return 1
    except KeyboardInterrupt:
        return 130


def _failure(error: Exception) -> str:
    """What failed inside the program, and where; with `--log-level DEBUG` its traceback goes to the log."""
    import logging

    from memory_server.kernel.failures import failure_text

    logging.getLogger(__name__).debug("the command failed", exc_info=error)
    return failure_text(error)


def _refuse_file(data_dir: Path) -> None:
    """Refuse a data folder that is a file, or would be inside one. Raises InvalidInput."""
    for place in (data_dir, *data_dir.parents):
        if place.is_file():
            raise InvalidInput("{data_dir} is a file; memories are kept in a folder, give one as --data-dir.", place)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The flags of a command line. Exits, as argparse does, if it cannot be used."""
    flags: argparse.Namespace = parser().parse_args(arguments)
    flags.typed = tuple(arguments)
    return flags


def understood(flags: argparse.Namespace, environ: Mapping[str, str]) -> tuple[Command, Settings]:
    """The command and its settings. Raises InvalidInput: a setting cannot be used, or `read_only` forbids the
    command."""
    from memory_server import config

    names = {flag.setting for flag in SETTING_FLAGS.values()} - {"config", "tenant"} | {"read_only"}
    given = {name: getattr(flags, name) for name in names if hasattr(flags, name)}
    settings = config.load(environ, given, Path(flags.config) if hasattr(flags, "config") else None)
    command: Command = flags.command
    if hasattr(flags, "tenant") and command.tenant != "its own":
        home = config.home_of(settings, lambda: 0)
        try:
            if command.tenant != "may be new" and not home.has_tenant(flags.tenant):
                known = ", ".join(home.tenant_names()) or _("none")
                raise InvalidInput("There is no tenant {tenant}; these are there: {known}.", flags.tenant, known)
            settings = settings.model_copy(update=home.settings_of(flags.tenant))
        finally:
            home.close()
    refuse_where_read_only(settings, flags)
    return command, settings


def refuse_where_read_only(settings: Settings, flags: argparse.Namespace) -> None:
    """Refuse a command that changes memories where `read_only` is set. Raises ReadOnly."""
    command: Command = flags.command
    if command.changes == "memories" and not getattr(flags, "dry_run", False):
        settings.refuse_change(command.name)


def function_of(command: Command) -> Callable[..., Coroutine[Any, Any, int | None]]:
    """The function of a command, which is imported now."""
    module, _, name = command.run.rpartition(".")
    found: Callable[..., Coroutine[Any, Any, int | None]] = getattr(import_module(f"memory_server.cli.{module}"), name)
    return found


async def _run(command: Command, settings: Settings, flags: argparse.Namespace, *, leaves: bool) -> int:
    from memory_server.cli import linked
    from memory_server.kernel.readers import AT_A_SHELL

    AT_A_SHELL.set(not command.for_tools)
    link = linked.link_of(settings) if command.linked != "here" else None
    if link is not None:
        return await linked.run(link, settings, flags)
    run = function_of(command)
    if command.opens == "settings":
        status = await run(settings, flags) or 0
        if leaves:
            leave(status)  # here, because `asyncio.run` would wait for threads that work for nobody any more
        return status
    from memory_server.app import App

    async with App(settings, asker=ASKER) as app:
        return await run(app, flags) or 0


def leave(status: int) -> NoReturn:
    """End the process at once. Everything is written; Python would free its memory piece by piece, which takes longer
    than a client waits before it kills the process."""
    import logging

    logging.shutdown()
    os._exit(status)
