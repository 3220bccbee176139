"""The workbench's commands, their arguments, an example of each. Cheap: a command loads what it needs when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_ENCODING = "encoding of the file, such as gb18030 (UTF-8)"
_FORCE = "replace a file that exists"


def add_commands(commands: Commands) -> None:
    """Adds every command but run and doctor. Each sets `perform`: from the parsed options to the exit code."""
    _add_check(commands)
    _add_timeline(commands)
    _add_test(commands)
    _add_pack(commands)
    _add_import(commands)
    _add_new(commands)
    _add_repl(commands)


def _command(
    commands: Commands, name: str, about: str, example: str, perform: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(perform=perform)
    return parser


def _group(commands: Commands, name: str, about: str) -> Commands:
    parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    return parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")


def _add_check(commands: Commands) -> None:
    def perform(options: argparse.Namespace) -> int:
        from sandbox.workbench.checking.checks import check as command

        return command(options)

    check = _command(
        commands,
        "check",
        "find what is wrong with triggers: errors, unknown names, conditions that never come true",
        """  trigger-sandbox check data/samples/triggers.json

The exit code is 0 when nothing was found, 1 when something was, 2 when a file, a memory of a pack (the others are
checked) or the command is wrong.
docs/reference/lint-rules.md lists the rules and how to switch them off.""",
        perform,
    )
    check.add_argument(
        "files", nargs="*", metavar="FILE", help="file with a trigger, pack (.json), or - for standard input"
    )
    check.add_argument("-e", dest="code", metavar="CODE", help="the trigger itself")
    check.add_argument("--json", action="store_true", help="print the findings as JSON")
    check.add_argument("--fix", action="store_true", help="change files where the fix is certain")
    check.add_argument("--time", metavar="CHAT", help="show too how long each trigger takes along this chat")
    check.add_argument("--encoding", metavar="NAME", help=_ENCODING)


def _add_timeline(commands: Commands) -> None:
    def perform(options: argparse.Namespace) -> int:
        from sandbox.workbench.timeline.picture import timeline as command

        return command(options)

    parser = _command(
        commands,
        "timeline",
        "show where along a chat each trigger fires, is quiet or fails",
        """  trigger-sandbox timeline data/samples/triggers.json --chat data/samples/companion.jsonl --tz Asia/Shanghai

The time of each message is that of the trigger. The exit code is 0; 1 when a trigger failed somewhere, or with
--compare when a verdict changed; 2 when a file, a memory of a pack (the others are shown) or the command is wrong.""",
        perform,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="file with a trigger, or pack (.json)")
    _journey_arguments(parser)
    parser.add_argument("--html", metavar="FILE", help="write one page to share as well")
    parser.add_argument("--compare", metavar="OLD", help="show each message whose verdict changed since this version")


def _journey_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chat", metavar="FILE", required=True, help="chat file in any form")
    add_people(parser)
    parser.add_argument("--encoding", metavar="NAME", help=_ENCODING)
    parser.add_argument("--window", type=int, default=20, metavar="N", help="messages that a trigger is given (20)")
    parser.add_argument("--now", metavar="TIME", help="ISO time of messages that have none (now)")
    parser.add_argument("--tz", metavar="ZONE", help="IANA time zone, such as Asia/Shanghai (system's)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of Math.random (0)")
    parser.add_argument("--participants", default="{}", metavar="JSON", help="context.participants, a JSON object ({})")


def add_people(parser: argparse.ArgumentParser) -> None:
    """Whose names stand in a chat of plain lines."""
    for role in ("user", "assistant"):
        about = f"this name in a chat of plain lines is the {role}; may be given again"
        parser.add_argument(f"--{role}", metavar="NAME", action="append", help=about)


def _add_test(commands: Commands) -> None:
    def perform(options: argparse.Namespace) -> int:
        from sandbox.workbench.fixtures.testing import test as command

        return command(options)

    test = _command(
        commands,
        "test",
        "run fixtures (*.trigger.yaml): triggers, chats and what is expected of them",
        """  trigger-sandbox test data/samples -k 芒果

The exit code is 0 when every case holds, 1 when one does not, 2 when a case cannot be run (the others are) or the
command is wrong. docs/how-to/test-triggers.md shows how to write fixtures.""",
        perform,
    )
    test.add_argument("paths", nargs="+", metavar="PATH", help="fixture, or folder with fixtures")
    test.add_argument("-k", metavar="TEXT", help="only cases whose file and name hold this text")
    test.add_argument("-x", action="store_true", help="stop at the first failure")
    test.add_argument("--junit", metavar="FILE", help="write a JUnit XML report as well")
    test.add_argument("--watch", action="store_true", help="run again after each change, until Ctrl-C")
    test.add_argument("--encoding", metavar="NAME", help="encoding of fixtures and the files they name (UTF-8)")


def _add_pack(commands: Commands) -> None:
    def check(options: argparse.Namespace) -> int:
        from sandbox.workbench.checking.pack_commands import check as command

        return command(options)

    def test(options: argparse.Namespace) -> int:
        from sandbox.workbench.checking.pack_commands import test as command

        return command(options)

    def list_(options: argparse.Namespace) -> int:
        from sandbox.workbench.checking.pack_commands import list_ as command

        return command(options)

    def show(options: argparse.Namespace) -> int:
        from sandbox.workbench.checking.pack_commands import show as command

        return command(options)

    pack = _group(commands, "pack", "check, test and read packs: files of many triggers with their memories")
    parser = _command(
        pack,
        "check",
        "find what is wrong with each trigger of a pack",
        """  trigger-sandbox pack check data/samples/triggers.json

The exit code is 0 when no trigger has an error, 1 when one has, 2 when a file, a memory (the others are checked)
or the command is wrong.""",
        check,
    )
    parser.add_argument("packs", nargs="+", metavar="PACK", help="JSON file with an array of memories")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON, as check does")
    parser = _command(
        pack,
        "test",
        "run the fixtures beside a pack that name it",
        "  trigger-sandbox pack test data/samples/triggers.json",
        test,
    )
    parser.add_argument("pack", metavar="PACK", help="JSON file with an array of memories")
    parser = _command(
        pack, "list", "name the memories of a pack", "  trigger-sandbox pack list data/samples/triggers.json", list_
    )
    parser.add_argument("pack", metavar="PACK", help="JSON file with an array of memories")
    parser = _command(
        pack,
        "show",
        "show memories of a pack with their triggers",
        "  trigger-sandbox pack show data/samples/triggers.json 芒果过敏",
        show,
    )
    parser.add_argument("pack", metavar="PACK", help="JSON file with an array of memories")
    parser.add_argument("memory", nargs="?", metavar="NAME", help="its name or number (all)")


def _add_import(commands: Commands) -> None:
    def worldinfo(options: argparse.Namespace) -> int:
        from sandbox.workbench.importing import worldinfo as command

        return command(options)

    def gentian(options: argparse.Namespace) -> int:
        from sandbox.workbench.importing import gentian as command

        return command(options)

    group = _group(commands, "import", "make a pack from another program's lorebook or memories")
    parser = _command(
        group,
        "worldinfo",
        "turn a SillyTavern lorebook into a pack, and say what could not be carried over",
        """  trigger-sandbox import worldinfo lorebook.json -o pack.json --char Aria

Without -o the pack goes to standard output and the report to standard error.""",
        worldinfo,
    )
    _import_arguments(parser, "lorebook (world info), character book or character card, as JSON")
    parser.add_argument(
        "--depth", type=int, metavar="N", help="scan depth of entries that name none (the book's, or 2)"
    )
    parser.add_argument(
        "--substrings", action="store_true", help="keys match inside words unless an entry says otherwise"
    )
    parser.add_argument(
        "--case-sensitive", action="store_true", help="upper case counts unless an entry says otherwise"
    )
    parser.add_argument("--char", metavar="NAME", help="what {{char}} stands for")
    parser.add_argument("--user", metavar="NAME", help="what {{user}} stands for")
    parser = _command(
        group,
        "gentian",
        "turn GentianAphrodite's long-term memories into a pack, and say what will not work",
        """  trigger-sandbox import gentian long-term-memory.json -o pack.json

Without -o the pack goes to standard output and the report to standard error.""",
        gentian,
    )
    _import_arguments(parser, "long-term-memory.json of the character")


def _import_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("file", metavar="FILE", help=what)
    parser.add_argument("-o", dest="pack", metavar="PACK", help="file to write")
    parser.add_argument("--force", action="store_true", help=_FORCE)
    parser.add_argument("--encoding", metavar="NAME", help=_ENCODING)


def _add_new(commands: Commands) -> None:
    def perform(options: argparse.Namespace) -> int:
        from sandbox.workbench.templates.starting import new as command

        return command(options)

    new = _command(
        commands,
        "new",
        "write a first trigger from a few words, with a fixture beside it",
        """  trigger-sandbox new birthday 小满 11-02
  trigger-sandbox new anniversary wedding 2015-07-11
  trigger-sandbox new date exam 2026-06-07
  trigger-sandbox new keyword pizza 披萨
  trigger-sandbox new mood sad
  trigger-sandbox new place 大理 洱海
  trigger-sandbox new night
  trigger-sandbox new weekday friday

DATE is MM-DD or YYYY-MM-DD; 11月2日 and "2 November" work as well.""",
        perform,
    )
    new.add_argument("kind", metavar="KIND", help="birthday, anniversary, date, keyword, mood, place, night or weekday")
    new.add_argument("words", nargs="*", metavar="WORD", help="who, when or which words, as in the examples")
    new.add_argument("-o", dest="folder", metavar="FOLDER", default=".", help="where to write (.)")
    new.add_argument("--name", metavar="NAME", help="name of the files (made from the words)")
    new.add_argument("--force", action="store_true", help=_FORCE)


def _add_repl(commands: Commands) -> None:
    def perform(options: argparse.Namespace) -> int:
        from sandbox.workbench.repl.prompt import repl as command

        return command(options)

    parser = _command(
        commands,
        "repl",
        "try triggers line by line, each with its verdict",
        """  echo "match_keys(context.messages, ['生日']) > 0" | trigger-sandbox repl --chat chat.txt

:help lists what else can be typed.""",
        perform,
    )
    parser.add_argument("--chat", metavar="FILE", help="chat to try triggers on, in any form")
    add_people(parser)
    parser.add_argument("--encoding", metavar="NAME", help=_ENCODING)
    parser.add_argument("--now", metavar="TIME", help="ISO time, in --tz unless it has an offset (now)")
    parser.add_argument("--tz", metavar="ZONE", help="IANA time zone, such as Asia/Shanghai (system's)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of Math.random (0)")
    parser.add_argument("--participants", default="{}", metavar="JSON", help="context.participants, a JSON object ({})")
