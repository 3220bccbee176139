"""docs/reference/commands.md: every command of both programs with its arguments and flags."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memory_server.cli import parser
from memory_server.cli.command_arguments import ALL
from memory_server.command_table import COMMANDS, Command
from sandbox import cli as sandbox_cli

COMMANDS_OPENING = """\
# Commands

There are two programs: [`memory-server`](#memory-server) and [`trigger-sandbox`](#trigger-sandbox). `--help`
after a command shows the same as this page.
"""

EXIT_STATUS = """\
Exit status: 0 when it worked; 1 when a tool or the storage refused; 2 when the command, an argument or a setting
cannot be used; 130 after Ctrl-C. Results go to standard output, everything else to standard error.

A command with `[-c ID]` takes all conversations without it, unless its list says otherwise.

The line in italics below each command says whether the command changes memories, and where it works on a
[linked machine](../how-to/two-machines.md):

- *changes memories*: refused if `read_only` is set; *may change memories*: its arguments decide.
- *here*: on that machine; *server*: the server does it; *refused*: only on the server itself.
- *shared*: the [shared process](clients.md#the-shared-process) does it, if there is one.

Settings, for every command, before or after its name:
"""


SHARED_BY = 3
"""Arguments that a command has in common with one above it, from which on they are only named."""


def commands_page() -> str:
    """Every command of both programs with its arguments and flags."""
    server, sandbox = parser.parser(), sandbox_cli.command_parser()
    parts = [
        COMMANDS_OPENING,
        "## memory-server\n",
        f"{server.description} Without a command it serves, as `memory-server serve` does.\n",
        EXIT_STATUS,
        _flags_list(a for a in _shown(server) if a.option_strings),
        *_subcommands(
            server,
            common={name for a in server._actions for name in a.option_strings},
            rows=COMMANDS,
        ),
        "## trigger-sandbox\n",
        f"{sandbox.description} [The trigger API](trigger-api.md) says what a trigger can do.\n",
        *_subcommands(sandbox, common={"-h", "--help"}, rows={}),
    ]
    return "\n".join(parts)


def _subcommands(
    parser: argparse.ArgumentParser,
    common: set[str],
    rows: Mapping[str, Command],
    known: dict[str, Mapping[str, str]] | None = None,
) -> Iterator[str]:
    """A section for each command of `parser`, and for each command of a command. `rows`: what is known of the commands
    of the server. `known`: the lines of the commands above."""
    known = {} if known is None else known
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, command in action.choices.items():
            own = [
                a
                for a in _shown(command)
                if "-c" in a.option_strings or not set(a.option_strings) & common
            ]
            nested = any(isinstance(a, argparse._SubParsersAction) for a in own)
            yield f"### {parser.prog} {name}\n"
            yield f"{_sentence(helps.get(name) or command.description or '')}\n"
            usage = "" if nested else " ".join([parser.prog, name, *_usage(own)])
            shown = [
                a for a in own if not isinstance(a, argparse._SubParsersAction) and a.help != ALL
            ]
            example = _dedented(command.epilog)
            texts = [
                text
                for text in (usage, example)
                if text and text.split() != ["example:", *usage.split()]
            ]
            if texts:
                yield "```text\n" + "\n\n".join(texts) + "\n```\n"
            if shown:
                yield _own_and_shared(f"{parser.prog} {name}", shown, known)
            if name in rows:
                yield f"*{_words_of_row(rows[name])}*\n"
            yield from _subcommands(command, common, rows, known)


_CHANGES = {
    "nothing": "changes nothing",
    "memories": "changes memories",
    "some": "may change memories",
}
_LINKED = {"here": "here", "tool": "server", "sent": "server", "refused": "refused"}


def _words_of_row(command: Command) -> str:
    """What a row of the table says to users, in the words that the opening explains."""
    words = [_CHANGES[command.changes], _LINKED[command.linked]]
    if command.shared != "no":
        words.append("shared")
    return ", ".join(words)


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Its arguments that are in its help."""
    return [action for action in parser._actions if action.help is not argparse.SUPPRESS]


def _usage(actions: Sequence[argparse.Action]) -> Iterator[str]:
    """Its arguments and the flags that it needs; the list below has the other flags."""
    optional = [action for action in actions if action.option_strings and not action.required]
    if any("-c" in action.option_strings for action in optional):
        yield "[-c ID]"
    for action in actions:
        if action not in optional:
            text = " ".join(
                part for part in (*action.option_strings[-1:], _operand(action)) if part
            )
            yield f"[{text}]" if action.nargs in ("?", "*") else text
    if any("-c" not in action.option_strings for action in optional):
        yield "[OPTIONS]"


def _operand(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    choices = "|".join(map(str, action.choices)) if action.choices else ""
    metavar = action.metavar or choices or action.dest.upper()
    shown = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    return f"{shown}…" if action.nargs in ("+", "*", argparse.REMAINDER) else shown


def _own_and_shared(
    name: str, actions: Sequence[argparse.Action], known: dict[str, Mapping[str, str]]
) -> str:
    """The list of its arguments. Those that a command above has too are only named."""
    lines = {_names(action): _line(action) for action in actions}
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
        return "\n".join(lines.values()) + "\n"
    own = [line for names, line in lines.items() if names not in shared]
    link = f"[`{source}`](#{source.replace(' ', '-')})"
    return "\n".join([*own, f"- As for {link}: {', '.join(shared)}."]) + "\n"


def _flags_list(actions: Iterable[argparse.Action]) -> str:
    return "\n".join(map(_line, actions)) + "\n"


def _line(action: argparse.Action) -> str:
    return f"- {_names(action)}: {_sentence(action.help or '')}"


def _names(action: argparse.Action) -> str:
    names = ", ".join(
        f"`{' '.join(filter(None, (n, _operand(action))))}`" for n in action.option_strings
    )
    return names or f"`{_operand(action)}`"


def _sentence(text: str) -> str:
    plain = text.strip().rstrip(".")
    first = plain.partition(" ")[0]
    if first.rstrip(",;").isalpha() and first.islower():
        plain = plain[:1].upper() + plain[1:]
    return f"{plain}." if plain else ""


def _dedented(text: str | None) -> str:
    return "\n".join(line.rstrip() for line in (text or "").strip("\n").splitlines())
