"""`trigger-sandbox`: the command line of trigger authors. Parses arguments, prints, decides nothing.

Heavy imports are inside the commands: `--help` answers in well under 0.2 s.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sandbox.language import begin_again_in_utf8_mode, complaint, language_of, speak
from sandbox.workbench.commands import command_parser

EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    if arguments is None:
        begin_again_in_utf8_mode()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # --help has Chinese; a console may not take it
    given = sys.argv[1:] if arguments is None else arguments
    speak(language_of(given, os.environ), Path(__file__).parent)
    options = command_parser().parse_args(given)
    from sandbox.workbench.terminal import UsageError

    module, _, name = options.perform.partition(":")
    try:
        return int(getattr(importlib.import_module(f"sandbox.workbench.{module}"), name)(options))
    except UsageError as error:
        print(f"trigger-sandbox: {complaint(str(error))}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader closed the pipe; Python must not complain about that when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
