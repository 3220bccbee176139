"""`trigger-sandbox new`: a trigger and its fixture to begin with.

A template (`KIND.template`) has an example of a trigger, a line `---`, and the cases that it passes.
The author edits both.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from sandbox.workbench.terminal import Terminal, UsageError
from sandbox.workbench.testing import adding


def new(options: argparse.Namespace) -> int:
    """Returns 0. Raises UsageError, and then writes nothing."""
    template = Path(__file__).with_name("templates").joinpath(f"{options.kind}.template").read_text("utf-8")
    source, _, cases = template.partition("---\n")
    path = Path(options.folder) / f"{options.name or options.kind}.js"
    fixture = path.with_name(f"{path.stem}.trigger.yaml")
    named = json.dumps(path.name, ensure_ascii=False)
    head = f"trigger_file: {named}\ntz: UTC  # write the time zone of your server here\ncases:\n"
    files = {path: source, fixture: f"# When {named} fires and when it stays quiet.\n{head}{cases}"}
    if not options.force and (taken := [one for one in files if one.exists()]):
        raise UsageError(f"{taken[0]} exists already; add --force to replace it, or choose another name")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist; make it first")
    for one, text in files.items():
        try:
            one.write_text(text, "utf-8", newline="\n")
        except OSError as error:
            raise UsageError(f"{one} cannot be written: {error.strerror}") from error
    terminal = Terminal(sys.stdout)
    for line in source.splitlines():
        terminal.show(f"    {line}")
    terminal.say()
    terminal.say(f"written: {path} and, beside it, {fixture.name}", "green")
    terminal.say(f"next: edit both, then: trigger-sandbox test {shlex.quote(str(fixture))}")
    terminal.say(f"and into the memory: {adding(path)}")
    return 0
