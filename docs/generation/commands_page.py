"""docs/reference/commands.md: every command of both programs with its arguments and flags."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping

from generation.markdown import table

from memory_server.cli import parser
from memory_server.command_table import COMMANDS, Command
from sandbox import cli as sandbox_cli

COMMANDS_OPENING = """\
# Commands

Two programs are installed: [`memory-server`](#memory-server) and [`trigger-sandbox`](#trigger-sandbox). `--help`
after any command shows what stands here.
"""

EXIT_STATUS = """\
Exit status: 0 when it worked; 1 when a tool or the storage said no; 2 when the command, an argument or a setting
cannot be used; 130 after Ctrl-C. Results go to standard output, everything else to standard error.

Settings, for every command, before or after its name:
"""


def commands_page() -> str:
    """Every command of both programs with its arguments and flags."""
    server, sandbox = parser.parser(), sandbox_cli.command_parser()
    parts = [
        COMMANDS_OPENING,
        "## memory-server\n",
        f"{server.description} Without a command it serves, as `memory-server serve` does.\n",
        EXIT_STATUS,
        _flags_table(a for a in _shown(server) if a.option_strings),
        *_subcommands(server, common={name for a in server._actions for name in a.option_strings}, rows=COMMANDS),
        "## trigger-sandbox\n",
        f"{sandbox.description} [The trigger API](trigger-api.md) says what a trigger can do.\n",
        *_subcommands(sandbox, common={"-h", "--help"}, rows={}),
    ]
    return "\n".join(parts)


def _subcommands(parser: argparse.ArgumentParser, common: set[str], rows: Mapping[str, Command]) -> Iterator[str]:
    """A section for each command of `parser`, and for each command of a command. `rows`: what is known of the commands
    of the server."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, command in action.choices.items():
            own = [a for a in _shown(command) if "-c" in a.option_strings or not set(a.option_strings) & common]
            nested = any(isinstance(a, argparse._SubParsersAction) for a in own)
            yield f"### {parser.prog} {name}\n"
            yield f"{_sentence(helps.get(name) or command.description or '')}\n"
            if not nested:
                yield f"```text\n{' '.join([parser.prog, name, *map(_usage, own)])}\n```\n"
            shown = [a for a in own if not isinstance(a, argparse._SubParsersAction)]
            if shown:
                yield _flags_table(shown)
            if command.epilog:
                yield f"```text\n{_dedented(command.epilog)}\n```\n"
            if name in rows:
                yield f"{_sentence_of_row(rows[name])}\n"
            yield from _subcommands(command, common, rows)


_CHANGES = {
    "nothing": "It changes no memory",
    "memories": "It changes memories, and is refused where `read_only` is set",
    "some": "Whether it changes memories depends on its arguments and on `read_only`",
}
_LINKED = {
    "here": "on a linked machine it works on that machine",
    "tool": "on a linked machine it asks the server",
    "sent": "on a linked machine the server does it",
    "refused": "on a linked machine it is refused, because it is done on the server itself",
}


def _sentence_of_row(command: Command) -> str:
    """What a row of the table says to users."""
    shared = "" if command.shared == "no" else " The shared process does it where there is one."
    return f"{_CHANGES[command.changes]}; {_LINKED[command.linked]}.{shared}"


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Its arguments that are in its help."""
    return [action for action in parser._actions if action.help is not argparse.SUPPRESS]


def _usage(action: argparse.Action) -> str:
    name = action.option_strings[-1] if action.option_strings else ""
    text = " ".join(part for part in (name, _operand(action)) if part)
    optional = (action.option_strings and not action.required) or action.nargs in ("?", "*")
    return f"[{text}]" if optional else text


def _operand(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    choices = "|".join(map(str, action.choices)) if action.choices else ""
    metavar = action.metavar or choices or action.dest.upper()
    shown = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    return f"{shown}…" if action.nargs in ("+", "*", argparse.REMAINDER) else shown


def _flags_table(actions: Iterable[argparse.Action]) -> str:
    rows = []
    for action in actions:
        names = ", ".join(f"`{' '.join(filter(None, (n, _operand(action))))}`" for n in action.option_strings)
        rows.append((names or f"`{_operand(action)}`", _sentence(action.help or "")))
    return table(("flag or argument", "meaning"), rows)


def _sentence(text: str) -> str:
    plain = text.strip().rstrip(".")
    first = plain.partition(" ")[0]
    if first.rstrip(",:;").isalpha() and first.islower():
        plain = plain[:1].upper() + plain[1:]
    return f"{plain}." if plain else ""


def _dedented(text: str | None) -> str:
    return "\n".join(line.rstrip() for line in (text or "").strip("\n").splitlines())
