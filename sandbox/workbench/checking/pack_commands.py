"""`trigger-sandbox pack test|show`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sandbox.language import term
from sandbox.workbench.fixtures import testing
from sandbox.workbench.fixtures.cases import Case, Unusable
from sandbox.workbench.fixtures.forms import fixtures_beside
from sandbox.workbench.sources.packs import Memory, memory_named, read_usable, say_unusable
from sandbox.workbench.terminal import Terminal
from sandbox.workbench.usage import UsageError

EXIT_FINE, EXIT_MISUSE = 0, 2


def test_pack(options: argparse.Namespace) -> int:
    """Runs the fixtures beside a pack that use it. Returns 1 when a case fails. Raises UsageError."""
    found, _ = read_usable(options.pack)
    beside = [case for case in testing.collect(fixtures_beside(options.pack)) if _is_of(case, options.pack)]
    if not beside:
        raise UsageError(
            f"no fixture beside {options.pack} names it; write one with `pack: {Path(options.pack).name}`, "
            "see docs/how-to/test-triggers.md"
        )
    terminal = Terminal(sys.stdout)
    code = testing.run(beside, terminal)
    tested = {
        memory_named(options.pack, found, case.memory).name for case in beside if isinstance(case, Case) and case.memory
    }
    if untested := [memory.name for memory in found if memory.name not in tested]:
        terminal.say(f"without a case: {', '.join(untested)}", "yellow")
    return code


def _is_of(case: Case | Unusable, pack: str) -> bool:
    if isinstance(case, Unusable) and case.line is None:
        return True  # a whole fixture that cannot be read: it may name this pack
    return case.pack is not None and (Path(case.file).parent / case.pack).resolve() == Path(pack).resolve()


def show_pack(options: argparse.Namespace) -> int:
    """Prints one memory, or all. Returns 2 when all were asked for and one is unusable. Raises UsageError."""
    terminal = Terminal(sys.stdout)
    found: Sequence[Memory]
    found, wrong = read_usable(options.pack)
    if options.memory is not None:
        try:
            found, wrong = [memory_named(options.pack, found, options.memory)], ()
        except UsageError:
            say_unusable(Terminal(sys.stderr), [(options.pack, sentence) for sentence in wrong])
            raise
    for position, memory in enumerate(found):
        if position:
            terminal.say()
        terminal.rule(memory.name, "bold", "-")
        terminal.show(memory.prompt)
        terminal.show(f"\n{term('trigger')}", "dim")
        for line in memory.trigger.splitlines():
            terminal.show(f"    {line}")
        for label, text in (("createdContext", memory.created_context), *memory.extra.items()):
            for line in text if isinstance(text, list) else [text] if text else []:
                terminal.show(f"{label}: {line}", "dim")
    say_unusable(Terminal(sys.stderr), [(options.pack, sentence) for sentence in wrong])
    return EXIT_MISUSE if wrong else EXIT_FINE
