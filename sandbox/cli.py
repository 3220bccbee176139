"""`trigger-sandbox`: the command line of trigger authors. Parses arguments, prints, decides nothing.

Heavy imports are inside the commands: `--help` answers in well under 0.2 s.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from sandbox.utf8_mode import begin_again_in_utf8_mode
from sandbox.workbench.commands import add_commands, add_people

EXIT_FIRED, EXIT_QUIET, EXIT_USAGE, EXIT_FAILED = 0, 1, 2, 3

_RUN_EXAMPLE = """example:
  trigger-sandbox run -e "match_keys(context.messages, ['birthday', '生日'])" --chat chat.txt --now 2026-07-17T09:00

The exit code is 0 when the trigger fired, 1 when it was quiet, 3 when it failed, 2 when the command is wrong.
"""
_DOCTOR_EXAMPLE = """example:
  trigger-sandbox doctor

The exit code is 0 when triggers can run, 3 when they cannot, or with --all when a layer is missing."""


def command_parser() -> argparse.ArgumentParser:
    """All commands with their arguments; docs/generate.py reads it too."""
    parser = argparse.ArgumentParser(prog="trigger-sandbox", description="Try JavaScript triggers in the sandbox.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    form = argparse.RawDescriptionHelpFormatter

    run = commands.add_parser(
        "run", help="run one trigger on a chat and say why it fires or not", epilog=_RUN_EXAMPLE, formatter_class=form
    )
    source = run.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", metavar="FILE", help="file with the trigger, - for standard input")
    source.add_argument("-e", dest="code", metavar="CODE", help="the trigger itself")
    run.add_argument("--chat", metavar="FILE", help="chat file in any form")
    add_people(run)
    run.add_argument("--encoding", metavar="NAME", help="encoding of the files, such as gb18030 (UTF-8)")
    run.add_argument("--at", type=int, metavar="N", help="the chat ends with message N, and its time is now (all)")
    run.add_argument("--window", type=int, default=20, metavar="N", help="messages that the trigger is given (20)")
    run.add_argument("--now", metavar="TIME", help="ISO time of the run, in --tz unless it has an offset (now)")
    run.add_argument("--tz", metavar="ZONE", help="IANA time zone of the trigger, such as Asia/Shanghai (system's)")
    run.add_argument("--seed", type=int, default=0, metavar="N", help="seed of Math.random (0)")
    run.add_argument("--participants", default="{}", metavar="JSON", help="context.participants, a JSON object ({})")
    run.add_argument("--conversation", default="default", metavar="ID", help="context.conversation_id (default)")

    doctor = commands.add_parser(
        "doctor", help="show which layers of protection hold", epilog=_DOCTOR_EXAMPLE, formatter_class=form
    )
    doctor.add_argument("--all", action="store_true", help="fail when a layer is missing")
    add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    if arguments is None:
        begin_again_in_utf8_mode()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # --help has Chinese examples, and a console may not
    options = command_parser().parse_args(arguments)
    from sandbox.workbench import verdict_text

    try:
        match options.command:
            case _ if "perform" in options:
                return int(options.perform(options))
            case "run":
                from sandbox.workbench.run import run

                return run(options)
            case _:
                return verdict_text.doctor(options)
    except verdict_text.UsageError as error:
        print(f"trigger-sandbox: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read has seen enough; and Python must not complain about that while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
