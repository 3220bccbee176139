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

from sandbox.language import ABOUT_FLAG, LANGUAGES, Parser, begin_again_in_utf8_mode, language_of
from sandbox.locale import _, speak, translated

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Parser]

EXIT_USAGE = 2
_FILE = _("file with a trigger, or pack (.json)")
_PACK = _("JSON file with an array of memories")

# The purpose of each command, and an example.

_RUN = _("""\
run one trigger on a chat and say why it fires or not
example:
  trigger-sandbox run -e "match_keys(context.messages, ['birthday', '生日'])" --chat chat.txt --now 2026-07-17T09:00

The exit code is 0 when the trigger fired, 1 when it was quiet, 3 when it failed, 2 when the command is wrong.""")
_REPL = _("""\
try triggers line by line on a chat, each as `run` does
example:
  echo "match_keys(context.messages, ['birthday']) > 0" | trigger-sandbox repl --chat chat.txt

:say adds a message, :now sets the time, :help shows how, :quit leaves.""")
_DOCTOR = _("""\
show which layers of protection hold
example:
  trigger-sandbox doctor

The exit code is 0 when triggers can run, 3 when they cannot, or with --all when a layer is missing.""")
_CHECK = _("""\
find what is wrong with triggers: errors, unknown names, conditions that never come true
example:
  trigger-sandbox check -e "new Date().getMonth() === 11 && match_keys(context.messages, ['snow', '雪'])"

The exit code is 0 when nothing was found, 1 when something was, 2 when a file, a memory of a pack (the others are
checked) or the command is wrong.
docs/reference/lint-rules.md lists the rules.""")
_TIMELINE = _("""\
show where along a chat each trigger fires, is quiet or fails
example:
  echo "user: It is my birthday" | trigger-sandbox timeline -e "match_keys(context.messages, ['birthday'])" --chat -

A trigger runs at the time of each message. The exit code is 0; 1 when a trigger failed somewhere, or with
--compare when a verdict changed; 2 when a file, a memory of a pack (the others are shown) or the command is wrong.""")
_TEST = _("""\
run fixtures (*.trigger.yaml): triggers, chats and what is expected of them
example:
  trigger-sandbox new birthday
  trigger-sandbox test birthday.trigger.yaml -x

The exit code is 0 when every case passes, 1 when one fails, 2 when a case cannot be run (the others are) or the
command is wrong. docs/how-to/test-triggers.md shows how to write fixtures.""")
_PACK_CHECK = _("""\
find what is wrong with each trigger of a pack
example:
  echo '[{"name": "long", "prompt": "Sum up.", "trigger": "args.messages.length > 20"}]' | trigger-sandbox pack check -

The exit code is 0 when no trigger has an error, 1 when one has, 2 when a file, a memory (the others are checked)
or the command is wrong.""")
_PACK_TEST = _("""\
run the fixtures beside a pack that name it
example:
  echo '[{"name": "long", "prompt": "Sum up.", "trigger": "args.messages.length > 20"}]' > pack.json
  echo '{"pack": "pack.json", "memory": "long", "chat": "user: hello", "expect": "quiet"}' > pack.trigger.json
  trigger-sandbox pack test pack.json""")
_PACK_SHOW = _("""\
show memories of a pack with their triggers
example:
  echo '[{"name": "long", "prompt": "Sum up.", "trigger": "args.messages.length > 20"}]' | trigger-sandbox pack show -
""")
_NEW = _("""\
write an example of a trigger to begin with, and a fixture beside it
example:
  trigger-sandbox new birthday --name Ann""")
_MEANT = MappingProxyType(
    {"lint": "check", "validate": "check", "simulate": "run", "replay": "timeline", "eval": "run"}
)
"""Commands that people try, and which one they mean."""
_KINDS = ("birthday", "anniversary", "date", "keyword", "mood", "place", "night", "weekday")


def command_parser() -> argparse.ArgumentParser:
    """All commands with their arguments; docs/generate.py reads it too."""
    parser = Parser(prog="trigger-sandbox", description=_("Try JavaScript triggers in the sandbox."))
    parser.add_argument("--language", choices=LANGUAGES, help=ABOUT_FLAG)
    parser.meant = _MEANT
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = _command(commands, "run", "run:run", _RUN)
    source = run.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", metavar="FILE", help=_("file with the trigger, - for standard input"))
    source.add_argument("-e", dest="code", metavar="CODE", help=_("the trigger itself"))
    for one in (run, _command(commands, "repl", "run:repl", _REPL)):
        _add_chat(one, required=False)
        one.add_argument(
            "--at", type=int, metavar="N", help=_("end the chat with message N, and run at its time (all)")
        )
        one.add_argument("--conversation", default="default", metavar="ID", help=_("context.conversation_id (default)"))
    doctor = _command(commands, "doctor", "run:doctor", _DOCTOR)
    doctor.add_argument("--all", action="store_true", help=_("fail when a layer is missing"))
    check = _command(commands, "check", "checks:check", _CHECK)
    check.add_argument("files", nargs="*", metavar="FILE", help=_("{file}, or - for standard input", _FILE))
    check.add_argument("-e", dest="code", metavar="CODE", help=_("the trigger itself"))
    _add_encoding(check)
    timeline = _command(commands, "timeline", "timeline:timeline", _TIMELINE)
    timeline.add_argument("files", nargs="*", metavar="FILE", help=_FILE)
    timeline.add_argument("-e", dest="code", metavar="CODE", help=_("the trigger itself"))
    _add_chat(timeline, required=True)
    timeline.add_argument("--compare", metavar="OLD", help=_("show each message with another verdict than in OLD"))
    test = _command(commands, "test", "testing:test", _TEST)
    test.add_argument("paths", nargs="+", metavar="PATH", help=_("fixture, or folder with fixtures"))
    test.add_argument("-k", metavar="TEXT", help=_("only cases whose file and name contain this text"))
    test.add_argument("-x", action="store_true", help=_("stop at the first failure"))
    _add_encoding(test, _("fixtures and the files they name"))
    about = translated(_("check, test and read packs: files of many triggers with their memories"))
    pack = commands.add_parser("pack", help=about, description=_sentence(about)).add_subparsers(
        dest="subcommand", required=True, metavar="COMMAND"
    )
    packs = _command(pack, "check", "checks:check_pack", _PACK_CHECK)
    packs.add_argument("packs", nargs="+", metavar="PACK", help=_PACK)
    _command(pack, "test", "testing:test_pack", _PACK_TEST).add_argument("pack", metavar="PACK", help=_PACK)
    show = _command(pack, "show", "files:show_pack", _PACK_SHOW)
    show.add_argument("pack", metavar="PACK", help=_PACK)
    show.add_argument("memory", nargs="?", metavar="NAME", help=_("its name or number (all)"))
    new = _command(commands, "new", "testing:new", _NEW)
    new.add_argument("kind", choices=_KINDS, help=_("what the example is about"))
    new.add_argument("-o", dest="folder", metavar="FOLDER", default=".", help=_("where to write (.)"))
    new.add_argument("--name", metavar="NAME", help=_("name of the files (that of the kind)"))
    new.add_argument("--force", action="store_true", help=_("replace a file that exists"))
    return parser


def _command(commands: Commands, name: str, perform: str, text: str) -> argparse.ArgumentParser:
    """`text`: the purpose in one line, then an example."""
    about, _, epilog = translated(text).partition("\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(name, help=about, description=_sentence(about), epilog=epilog, formatter_class=form)
    parser.set_defaults(perform=perform)
    return parser


def _sentence(about: str) -> str:
    return f"{about[0].upper()}{about[1:]}{'.' if about.isascii() else '。'}"


def _add_encoding(parser: argparse.ArgumentParser, of_what: str = _("the files")) -> None:
    parser.add_argument("--encoding", metavar="NAME", help=_("encoding of {of_what}, such as gb18030 (UTF-8)", of_what))


def _add_chat(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--chat", metavar="FILE", required=required, help=_("chat file in any form"))
    for role in ("user", "assistant"):
        about = _("in a chat of plain lines, this name is the {role}; may be repeated", role)
        parser.add_argument(f"--{role}", metavar="NAME", action="append", help=about)
    _add_encoding(parser)
    parser.add_argument("--window", type=int, default=20, metavar="N", help=_("messages that a trigger gets (20)"))
    about = _("ISO time, in --tz unless it has an offset; along a chat for messages without a time (now)")
    parser.add_argument("--now", metavar="TIME", help=about)
    parser.add_argument("--tz", metavar="ZONE", help=_("IANA time zone, such as Asia/Shanghai (system's)"))
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=_("seed of Math.random (0)"))
    parser.add_argument(
        "--participants", default="{}", metavar="JSON", help=_("context.participants, a JSON object ({})")
    )


def main(arguments: Sequence[str] | None = None) -> int:
    if arguments is None:
        begin_again_in_utf8_mode()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # --help has Chinese; a console may not take it
    given = sys.argv[1:] if arguments is None else arguments
    speak(language_of(given, os.environ))
    options = command_parser().parse_args(given)
    from sandbox.workbench.terminal import UsageError

    module, _, name = options.perform.partition(":")
    try:
        return int(getattr(importlib.import_module(f"sandbox.workbench.{module}"), name)(options))
    except UsageError as error:
        print(f"trigger-sandbox: {translated(str(error))}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader closed the pipe; Python must not complain about that when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
