"""`trigger-sandbox`: the command line of trigger authors: its commands, their arguments, an example of each.

Cheap to load, so that `--help` answers in well under 0.2 s: `perform` names the function that carries a command out, as
`module:function` of the workbench.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from languages import N_, _, speaking
from languages.command_line import (
    ABOUT_FLAG,
    LANGUAGES,
    Parser,
    begin_again_in_utf8_mode,
    language_of,
)
from sandbox.values import by_name

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Parser]

EXIT_USAGE = 2
_FILE = N_("file with a trigger, or pack (.json)")
_FIRING = '{"messages": 3, "ms": 60000}'
_PACK = N_("JSON file with an array of memories")

# The purpose of each command, and an example.

_RUN = N_("""\
run one trigger on a chat and say why it fires or not
example:
  trigger-sandbox run -e "match_keys(context.messages, ['birthday', '生日'])" --chat chat.txt --now 2026-07-17T09:00

The exit code is 0 when the trigger fired, 1 when it was quiet, 3 when it failed, 2 when the command is wrong.""")
_REPL = N_("""\
try triggers line by line on a chat, each as `run` does
example:
  echo "match_keys(context.messages, ['birthday']) > 0" | trigger-sandbox repl --chat chat.txt

:say adds a message, :now sets the time, :help shows how, :quit leaves.""")
_DOCTOR = N_("""\
show which layers of protection hold
example:
  trigger-sandbox doctor

The exit code is 0 when triggers can run, 3 when they cannot, or with --all when a layer is missing.""")
_CHECK = N_("""\
find what is wrong with triggers: errors, unknown names, conditions that never come true
example:
  trigger-sandbox check -e "new Date().getMonth() === 11 && match_keys(context.messages, ['snow', '雪'])"

The exit code is 0 when nothing was found, 1 when something was, 2 when a file, a memory of a pack (the others are
checked) or the command is wrong.
docs/reference/lint-rules.md lists the rules.""")
_TEST = N_("""\
run fixtures (*.trigger.yaml): triggers, chats and what is expected of them
example:
  trigger-sandbox new birthday
  trigger-sandbox test birthday.trigger.yaml -x

The exit code is 0 when every case passes, 1 when one fails, 2 when a case cannot be run (the others are) or the
command is wrong. docs/how-to/test-triggers.md shows how to write fixtures.""")
_PACK_CHECK = N_("""\
find what is wrong with each trigger of a pack
example:
  echo '[{"name": "long", "prompt": "Sum up.", "trigger": "args.messages.length > 20"}]' | trigger-sandbox pack check -

The exit code is 0 when no trigger has an error, 1 when one has, 2 when a file, a memory (the others are checked)
or the command is wrong.""")
_PACK_TEST = N_("""\
run the fixtures beside a pack that name it
example:
  echo '[{"name": "long", "prompt": "Sum up.", "trigger": "args.messages.length > 20"}]' > pack.json
  echo '{"pack": "pack.json", "memory": "long", "chat": "user: hello", "expect": "quiet"}' > pack.trigger.json
  trigger-sandbox pack test pack.json""")
_PACK_SHOW = N_("""\
show memories of a pack with their triggers
example:
  echo '[{"name": "long", "prompt": "Sum up.", "trigger": "args.messages.length > 20"}]' | trigger-sandbox pack show -
""")
_NEW = N_("""\
write an example of a trigger to begin with, and a fixture beside it
example:
  trigger-sandbox new birthday --name Ann""")
_MEANT = MappingProxyType(
    {"lint": "check", "validate": "check", "simulate": "run", "replay": "test", "eval": "run"}
)
"""Commands that people try, and which one they mean."""
_KINDS = (
    *("birthday", "lunar-birthday", "leap-birthday", "anniversary", "date"),
    *("keyword", "mood", "place", "night", "weekday", "cooldown"),
)
_MEANT_KINDS = by_name(
    {
        "lunar-birthday": (
            "lunar",
            "chinese",
            "chinese-birthday",
            "birthday-lunar",
            "农历生日",
            "农历",
        ),
        "leap-birthday": ("leap", "leap-day", "leapday", "birthday-leap", "feb29", "闰日生日"),
        "birthday": ("生日", "bday"),
        "anniversary": ("纪念日", "holiday"),
        "date": ("day", "日期"),
        "keyword": ("word", "keywords", "关键词"),
        "cooldown": ("once", "last_fired", "last-fired", "delay", "daily", "冷却"),
        "weekday": ("weekend", "星期"),
    }
)
"""Templates that people ask for, and which one they mean."""


def command_parser() -> argparse.ArgumentParser:
    """Make all commands with their arguments; docs/generate.py reads it too."""
    parser = Parser(
        prog="trigger-sandbox", description=_("Try JavaScript triggers in the sandbox.")
    )
    parser.add_argument("--language", choices=LANGUAGES, help=ABOUT_FLAG)
    parser.meant = _MEANT
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = _command(commands, "run", "run:run", _RUN)
    source = run.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="file with the trigger, or pack (.json); - for standard input",
    )
    source.add_argument("-e", dest="code", metavar="CODE", help="the trigger itself")
    _add_moment(run)
    _add_moment(_command(commands, "repl", "run:repl", _REPL))
    doctor = _command(commands, "doctor", "run:doctor", _DOCTOR)
    doctor.add_argument("--all", action="store_true", help="fail if a layer is missing")
    check = _command(commands, "check", "checks:check", _CHECK)
    check.add_argument(
        "files", nargs="*", metavar="FILE", help=_("{file}, or - for standard input", _(_FILE))
    )
    check.add_argument("-e", dest="code", metavar="CODE", help="the trigger itself")
    _add_encoding(check)
    test = _command(commands, "test", "testing:test", _TEST)
    test.add_argument("paths", nargs="+", metavar="PATH", help="fixture, or folder with fixtures")
    test.add_argument("-k", metavar="TEXT", help="only cases whose file and name contain this text")
    test.add_argument("-x", action="store_true", help="stop at the first failure")
    test.add_argument(
        "--why", action="store_true", help="show what each trigger found at the end of its chat"
    )
    test.add_argument(
        "--host",
        choices=["hook"],
        help="give each search only the messages that this caller of triggers gives",
    )
    _add_encoding(test, _("fixtures and the files they name"))
    _add_pack_commands(commands)
    new = _command(commands, "new", "testing:new", _NEW)
    new.meant = _MEANT_KINDS
    new.add_argument("kind", choices=_KINDS, help="what the example is about")
    new.add_argument("-o", dest="folder", metavar="FOLDER", default=".", help="where to write (.)")
    new.add_argument("--name", metavar="NAME", help="name of the files (that of the kind)")
    new.add_argument("--force", action="store_true", help="replace a file that exists")
    return parser


def _add_pack_commands(commands: Commands) -> None:
    """Add the command `pack` with its own commands."""
    about = _("check, test and read packs: files of many triggers with their memories")
    pack = commands.add_parser("pack", help=about, description=_sentence(about))
    pack_commands = pack.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    check = _command(pack_commands, "check", "checks:check_pack", _PACK_CHECK)
    check.add_argument("packs", nargs="+", metavar="PACK", help=_PACK)
    test = _command(pack_commands, "test", "testing:test_pack", _PACK_TEST)
    test.add_argument("pack", metavar="PACK", help=_PACK)
    show = _command(pack_commands, "show", "files:show_pack", _PACK_SHOW)
    show.add_argument("pack", metavar="PACK", help=_PACK)
    show.add_argument("memory", nargs="?", metavar="NAME", help="its name or number (all)")


def _command(commands: Commands, name: str, perform: str, text: str) -> Parser:
    """Add a command. `text`: its purpose in one line, then an example; `perform`: the function that carries it out."""
    about, _newline, epilog = _(text).partition("\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(
        name, help=about, description=_sentence(about), epilog=epilog, formatter_class=form
    )
    parser.set_defaults(perform=perform)
    return parser


def _sentence(about: str) -> str:
    """Write the purpose with a capital letter and a full stop."""
    full_stop = "." if about.isascii() else "。"
    return f"{about[0].upper()}{about[1:]}{full_stop}"


def _add_encoding(parser: argparse.ArgumentParser, of_what: str = "") -> None:
    """Add the option for an encoding. `of_what` names what is read with it; by default the files."""
    of_what = of_what or _("the files")
    parser.add_argument(
        "--encoding",
        metavar="NAME",
        help=_("encoding of {of_what}, such as gb18030 (UTF-8)", of_what),
    )


def _add_moment(parser: argparse.ArgumentParser) -> None:
    """Add the options for a chat and the moment in it at which one trigger runs."""
    parser.add_argument("--chat", metavar="FILE", help="chat file in any form")
    for role in ("user", "assistant"):
        about = _("in a chat of plain lines, this name is the {role}; may be repeated", role)
        parser.add_argument(f"--{role}", metavar="NAME", action="append", help=about)

    _add_encoding(parser)
    parser.add_argument(
        "--window", type=int, default=20, metavar="N", help="messages that a trigger gets (20)"
    )
    parser.add_argument(
        "--now", metavar="TIME", help="ISO time, in --tz unless it has an offset (now)"
    )
    parser.add_argument(
        "--tz", metavar="ZONE", help="IANA time zone, such as Asia/Shanghai (system's)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of Math.random (0)")
    parser.add_argument(
        "--participants",
        default="{}",
        metavar="JSON",
        help="context.participants, a JSON object ({})",
    )
    parser.add_argument(
        "--at", type=int, metavar="N", help="end the chat with message N, and run at its time (all)"
    )
    parser.add_argument(
        "--conversation",
        default="default",
        metavar="ID",
        help="context.conversation_id (default)",
    )
    about = _("context.last_fired, such as {example} (null)", _FIRING)
    parser.add_argument("--last-fired", metavar="JSON", help=about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `trigger-sandbox` with these arguments, or with the arguments of the process. Return the exit status."""
    if arguments is None:
        begin_again_in_utf8_mode()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # --help has Chinese; a console may not take it
    if arguments is None:
        arguments = sys.argv[1:]
    with speaking(language_of(arguments, os.environ)):
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    """Run the command line in the language of its reader; returns the exit status."""
    options = command_parser().parse_args(arguments)
    from sandbox.workbench.terminal import UsageError

    module_name, _colon, name = options.perform.partition(":")
    try:
        module = importlib.import_module(f"sandbox.workbench.{module_name}")
        perform = getattr(module, name)
        return int(perform(options))
    except UsageError as error:
        print(f"trigger-sandbox: {error!s}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader closed the pipe; Python must not complain about that when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
