"""The command `memory-server`: it finds the typed command in the table, imports it and runs it."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from memory_server.cli.commands import GROUPS, TYPED, Short
from memory_server.cli.terminal import complain, show_all_characters
from memory_server.core.errors import InvalidInput, MemoryServerError
from memory_server.version import __version__

if TYPE_CHECKING:
    from memory_server.config import Settings

EXAMPLES = """\
examples:
  memory-server                                     serve MCP over standard input and output
  memory-server demo                                see what it does, in a minute
  memory-server list 小明                           the memories of a conversation
  memory-server replay chat.jsonl --ask '我的生日'  store a chat and ask about it
  memory-server call get_memory_stats '{}'          any tool, from a shell
  memory-server get-memory-stats --help             the same as a command: each tool has one
"""
SETTINGS = {
    "data-dir": ("DIR", "folder of the memories"),
    "config": ("FILE", "settings file (TOML)"),
    "conversation": ("ID", "conversation of calls that name none"),
    "timezone": ("ZONE", "IANA time zone, such as Asia/Shanghai"),
    "log-level": ("LEVEL", "DEBUG, INFO, WARNING or ERROR"),
    "now": ("TIME", "start the clock at this ISO time, for trying things out"),
    "toolsets": ("NAMES", "toolsets offered over MCP, or all"),
    "tools": ("NAMES", "single tools offered as well"),
    "exclude-tools": ("NAMES", "tools never offered"),
    "seed": ("N", "seed of what comes by chance, for trying things out"),
}
"""The flags of every command that take a value: its placeholder, and what the flag means."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: `run` names its module and function in this package; `opens` and `changes` as in commands.py."""

    name: str
    run: str
    opens: bool
    changes: bool


SERVE = Command("serve", "serve.serve", opens=False, changes=False)


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """All commands with their flags; docs/reference/commands.md is generated from it. The commands of tools get their
    flags only if `only` is that command or None, because importing the tools takes time."""
    common = argparse.ArgumentParser(add_help=False)
    group = common.add_argument_group("settings, for every command")
    for name, (metavar, about) in SETTINGS.items():
        # SUPPRESS: a flag before the command must not be overwritten by the default of the one after it.
        group.add_argument(f"--{name}", metavar=metavar, default=argparse.SUPPRESS, help=about)
    offering = "change nothing, offer only tools that read"
    group.add_argument("--read-only", action="store_true", default=argparse.SUPPRESS, help=offering)
    top = argparse.ArgumentParser(
        prog="memory-server",
        description="A memory for chat companions, Claude and Cursor, served over MCP.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
    )
    top.add_argument("--version", action="version", version=f"memory-server {__version__}")
    commands = top.add_subparsers(title="commands, as listed below", metavar="COMMAND")
    listed: list[str] = []

    def add(name: str, run: str, summary: str, *, opens: bool = True, changes: bool = False) -> argparse.ArgumentParser:
        made = commands.add_parser(name, description=summary, parents=[common])
        made.set_defaults(command=Command(name, run, opens, changes))
        listed.append(f"  {name:<12}{summary}")
        return made

    for title, fill in GROUPS.items():
        listed.append(f"{title}:")
        fill(add)
        listed.append("")
    top.epilog = "\n".join([*listed, EXAMPLES])
    typed = {name: short for name, made in commands.choices.items() if (short := made.get_default("short"))}
    if only is not None and only not in commands.choices:
        from memory_server.tools import TOOLS

        if (tool := TOOLS.get(only.replace("-", "_"))) is not None:
            add(only, TYPED, tool.description)
            typed[only] = Short(tool.name)
    for name, short in typed.items():
        if only in (None, name):
            from memory_server.cli.typed_tools import add_flags

            add_flags(commands.choices[name], short)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    if arguments is None and sys.getfilesystemencoding() != "utf-8":
        from sandbox.utf8_mode import begin_again_in_utf8_mode  # imported only here: it takes time

        begin_again_in_utf8_mode()
    given = sys.argv[1:] if arguments is None else arguments
    command = _command_in(given)
    if command != "hook":
        if arguments is None and command in (None, "serve"):
            gc.disable()  # imports make no garbage; looking for it takes a fifth of the start. App ends this
        return _main(given, owns_process=arguments is None)
    _hurry()
    # An error of a hook, of its settings or flags must not end with 2, which would block the user's prompt.
    try:
        _main(given)
    except SystemExit:
        pass
    except Exception as error:
        complain(f"hook: {type(error).__name__}: {error}")
    return 0


def _command_in(given: Sequence[str]) -> str | None:
    """The typed command, found without the parser: errors in the other arguments must not matter here."""
    words = iter(given)
    for word in words:
        if not word.startswith("-"):
            return word
        if word.removeprefix("--") in SETTINGS:
            next(words, None)  # its value
    return None


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
    flags = parser(_command_in(arguments) or "serve").parse_args(arguments)
    names = {name.replace("-", "_") for name in (*SETTINGS, "read-only")} - {"config"}
    given = {name: getattr(flags, name) for name in names if hasattr(flags, name)}
    try:
        import asyncio

        from memory_server import config
        from memory_server.cli import logs

        file = Path(flags.config) if hasattr(flags, "config") else None
        # A program that instruments this process (`opentelemetry-instrument`) sends its last figures at its end.
        instrumented = "opentelemetry.sdk" in sys.modules
        settings = config.load(os.environ, given, file)
        logs.log_to_stderr(settings.log_level)
        command: Command = getattr(flags, "command", SERVE)
        if command.changes and not getattr(flags, "dry_run", False):
            settings.refuse_change(command.name)
        status = asyncio.run(_run(command, settings, flags))
        if owns_process and command.name == "serve" and not instrumented:
            _leave(status)
        return status
    except InvalidInput as error:
        complain(str(error))
        return 2
    except MemoryServerError as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the output has ended; Python must not report that when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


async def _run(command: Command, settings: Settings, flags: argparse.Namespace) -> int:
    module, _, function = command.run.rpartition(".")
    run = getattr(import_module(f"memory_server.cli.{module}"), function)
    if not command.opens:
        return await run(settings, flags) or 0
    from memory_server.app import App

    async with App(settings) as app:
        return await run(app, flags) or 0


def _leave(status: int) -> NoReturn:
    """End the process at once. Everything is written; Python would free its memory piece by piece, which takes longer
    than a client waits before it kills the process."""
    import logging

    logging.shutdown()
    os._exit(status)
