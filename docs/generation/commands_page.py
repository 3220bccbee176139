"""docs/reference/commands.md: every command of both programs with its arguments and flags."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memory_server.cli import parser
from memory_server.cli.command_arguments import ALL
from memory_server.command_table import COMMANDS, Command
from memory_server.config import Settings
from sandbox import cli as sandbox_cli

COMMANDS_OPENING = """\
# Commands

There are two programs: [`memory-server`](#memory-server) and [`trigger-sandbox`](#trigger-sandbox). `--help`
after a command shows the same, with defaults and an example. Operands in brackets are optional. An argument that is only
named is explained above, or does what its name says.
"""

EXIT_STATUS = """\
Exit status: 0 when it worked; 1 when a tool or the storage refused; 2 when the command, an argument or a setting cannot
be used, as with `read_only` a change; 130 after Ctrl-C. Results go to standard output, all else to standard error.

A command that lists `-c ID` takes all conversations without it; one that lists `--conversation`, the usual one.
[Two machines](../how-to/two-machines.md) says where each command works on a linked machine.

Before or after every command:
"""


ABOUT_THE_SANDBOX = """\
[The trigger API](trigger-api.md) says what a trigger can do.

Exit status: 0 when the trigger fired, nothing was found or every case passed; 1 when not; 2 when the command, a file or a
case cannot be used, while the others are done; 3 when a trigger failed, or no trigger can run.
"""
SHARED_BY = 3
"""Arguments that a command has in common with one above it, from which on they are only named."""
SAID_BY_THE_NAME = {
    "Also from the backups.",
    "Encoding of fixtures and the files they name, such as gb18030 (UTF-8).",
    "Encoding of the files, such as gb18030 (UTF-8).",
    "Fail if a layer is missing.",
    "File or folder to write; - for standard output.",
    "File, database or folder to read; - for standard input.",
    "Fixture, or folder with fixtures.",
    "Highest score.",
    "How many changed answers to show; usually 20.",
    "How many changes to show; usually 20.",
    "How many memories to show.",
    "How many memories to skip.",
    "How many recalls to show; usually 20.",
    "How many rows to show; usually 50.",
    "How many steps of each change to show; usually 100.",
    "IANA time zone, such as Asia/Shanghai (system's).",
    "Id of the memory, or its beginning.",
    "Its name or number (all).",
    "JSON file with an array of memories.",
    "List, history: how many rows to show.",
    "List, projects, history: print JSON, one object a line.",
    "Name of the backup.",
    "Name of the files (that of the kind).",
    "Name of the token.",
    "Only changes before this one.",
    "Only for this project.",
    "Only notes of this type.",
    "Only print the link.",
    "Only reindex, cleanup, assign, words: show what would change.",
    "Only show what would be copied.",
    "Only show what would be erased.",
    "Only show what would be forgotten or erased.",
    "Only show what would be forgotten, and why.",
    "Only show what would be imported, what would not, and why.",
    "Only show which steps are missing.",
    "Only with --repair or --reindex: show what would change.",
    "Only with --send or --retry-refused: show what would change.",
    "Print the findings as JSON.",
    "Seed of Math.random (0).",
    "Show program's version number and exit.",
    "Show this help message and exit.",
    "Stop at the first failure.",
    "Text whose words are searched for.",
    "The client from which to remove it.",
    "The file to write.",
    "The name of a book, or its id.",
    "The text; - reads it from standard input.",
    "The trigger itself.",
    "URL of the server.",
    "What the example is about.",
    "Where to write (.).",
    "Which kind of memory.",
    "With --erase: do not ask.",
    "With --for-good: also from the backups.",
    "With --send: do not ask.",
    "context.conversation_id (default).",
    "context.participants, a JSON object ({}).",
}
"""Meanings that say no more than the names of their arguments; the page only names these arguments."""
EVERYWHERE_IN = 3
"""Commands with the same flag, from which on the flag stands once, at the top of the page."""


def commands_page() -> str:
    """Every command of both programs with its arguments and flags."""
    server, sandbox = parser.parser(), sandbox_cli.command_parser()
    common = {name for action in server._actions for name in action.option_strings}
    everywhere = _flags_of_many(server, common)
    parts = [
        COMMANDS_OPENING,
        "## memory-server\n",
        f"{server.description} Without a command it serves, as `memory-server serve` does.\n",
        EXIT_STATUS,
        _flags_of_the_program(server),
        _commands_of_the_shared_process(),
        "Flags of many commands, which are only named below:\n",
        "\n".join(everywhere) + "\n",
        *_subcommands(server, common, everywhere=everywhere),
        "## trigger-sandbox\n",
        f"{sandbox.description} {ABOUT_THE_SANDBOX}",
        *_subcommands(sandbox, common={"-h", "--help"}, everywhere={}),
    ]
    return "\n".join(parts)


def _subcommands(
    parser: argparse.ArgumentParser,
    common: set[str],
    everywhere: Mapping[str, str],
    known: dict[str, Mapping[str, str]] | None = None,
) -> Iterator[str]:
    """Write a section for each command of `parser`, and for each command of a command. `everywhere`: the lines of the flags
    that are only named. `known`: the lines of the commands above."""
    known = {} if known is None else known
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, command in action.choices.items():
            own = _own(command, common)
            nested = any(isinstance(a, argparse._SubParsersAction) for a in own)
            yield f"### {parser.prog} {name}\n"
            yield f"{_sentence(helps.get(name) or command.description or '')}\n"
            program = f"{parser.prog} {name}"
            operands = list(_usage(own))
            # The usage of one operand says nothing that the list of arguments does not say.
            usage = " ".join([program, *operands]) if len(operands) > 1 and not nested else ""
            shown = [
                a for a in own if not isinstance(a, argparse._SubParsersAction) and a.help != ALL
            ]
            if usage:
                yield f"`{usage}`\n"
            takes_all = any(action.help == ALL for action in own)
            if shown or takes_all:
                yield _own_and_shared(program, shown, known, everywhere, takes_all=takes_all)
            yield from _subcommands(command, common, everywhere, known)


def _own(command: argparse.ArgumentParser, common: set[str]) -> list[argparse.Action]:
    """Return the arguments of a command that its program does not have too, and `-c`."""
    return [
        action
        for action in _shown(command)
        if "-c" in action.option_strings or not set(action.option_strings) & common
    ]


def _flags_of_many(parser: argparse.ArgumentParser, common: set[str]) -> Mapping[str, str]:
    """Return the lines of the flags that many commands have in the same form, and their first names."""
    names: dict[str, str] = {}
    count: Counter[str] = Counter()
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        for command in action.choices.values():
            for flag in _own(command, common):
                if flag.option_strings and flag.help != ALL:
                    names[_line(flag)] = f"`{flag.option_strings[-1]}`"
                    count[_line(flag)] += 1
    return {line: names[line] for line, number in count.items() if number >= EVERYWHERE_IN}


def _flags_of_the_program(server: argparse.ArgumentParser) -> str:
    """Return the flags that every command has: those of settings are only named, because settings.md explains them."""
    flags = [action for action in _shown(server) if action.option_strings]
    of_settings = [
        action
        for action in flags
        if action.dest in Settings.model_fields and "-c" not in action.option_strings
    ]
    lines = [
        _line(action) for action in flags if action not in of_settings and not _is_plain(action)
    ]
    plain = ", ".join(_names(action) for action in flags if _is_plain(action))
    named = ", ".join(map(_names, of_settings))
    return "\n".join([*lines, f"- {plain}.", f"- [Settings](settings.md): {named}."])


def _commands_of_the_shared_process() -> str:
    """Return which commands the shared process does."""
    shared = _named(command for command in COMMANDS.values() if command.shared != "no")
    return (
        f"- The [shared process](clients.md#the-shared-process), if there is one, does {shared}.\n"
    )


def _named(commands: Iterable[Command]) -> str:
    return ", ".join(f"`{command.name}`" for command in commands)


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Its arguments that are in its help."""
    return [action for action in parser._actions if action.help is not argparse.SUPPRESS]


def _usage(actions: Sequence[argparse.Action]) -> Iterator[str]:
    """Its arguments and the flags that it needs; the list below has the other flags."""
    optional = [action for action in actions if action.option_strings and not action.required]
    for action in actions:
        if action not in optional:
            text = " ".join(
                part for part in (*action.option_strings[-1:], _operand(action)) if part
            )
            yield f"[{text}]" if action.nargs in ("?", "*") else text


def _operand(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    choices = "|".join(map(str, action.choices)) if action.choices else ""
    metavar = choices or action.metavar or action.dest.upper()
    shown = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    return f"{shown}…" if action.nargs in ("+", "*", argparse.REMAINDER) else shown


def _own_and_shared(
    name: str,
    actions: Sequence[argparse.Action],
    known: dict[str, Mapping[str, str]],
    everywhere: Mapping[str, str],
    *,
    takes_all: bool,
) -> str:
    """Return the list of its arguments. Those of many commands, or of a command above, are only named. `takes_all`: without
    `-c` it takes all conversations."""
    lines = {_names(action): _line(action) for action in actions}
    of_many = ["`-c ID`"] if takes_all else []
    of_many += [everywhere[line] for line in lines.values() if line in everywhere]
    of_many += [_names(action) for action in actions if _is_plain(action)]
    lines = {_names(action): _line(action) for action in actions if not _is_plain(action)}
    ending = [f"- Also {', '.join(of_many)}."] if of_many else []
    lines = {names: line for names, line in lines.items() if line not in everywhere}
    shared, source = max(
        (
            ([names for names in lines if other.get(names) == lines[names]], above)
            for above, other in known.items()
        ),
        key=lambda pair: len(pair[0]),
        default=([], ""),
    )
    known[name] = lines
    if len(shared) < SHARED_BY:
        return "\n".join([*lines.values(), *ending]) + "\n"
    own = [line for names, line in lines.items() if names not in shared]
    link = f"[`{source}`](#{source.replace(' ', '-')})"
    return "\n".join([*own, f"- As for {link}: {', '.join(shared)}.", *ending]) + "\n"


def _is_plain(action: argparse.Action) -> bool:
    """Return whether an argument does what its name says."""
    return _sentence(action.help or "") in SAID_BY_THE_NAME


def _line(action: argparse.Action) -> str:
    # The names of the argument show its choices.
    said = (action.help or "").replace("%(choices)s", "these")
    return f"- {_names(action)}: {_sentence(said)}"


def _names(action: argparse.Action) -> str:
    names = ", ".join(
        f"`{' '.join(filter(None, (n, _operand(action))))}`" for n in action.option_strings
    )
    operand = _operand(action)
    return names or (f"`[{operand}]`" if action.nargs in ("?", "*") else f"`{operand}`")


def _sentence(text: str) -> str:
    plain = text.strip().rstrip(".")
    first = plain.partition(" ")[0]
    if first.rstrip(",;").isalpha() and first.islower():
        plain = plain[:1].upper() + plain[1:]
    return f"{plain}." if plain else ""
