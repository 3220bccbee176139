"""The arguments and the help of `export`, `import`, `add-trigger` and `convert`, as commands.py adds them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from languages import N_, _
from memory_server.cli.command_arguments import (
    ALL,
    USUAL,
    Add,
    argument,
    dry_run,
    family,
    number_of_messages,
    switch,
)

_WRITTEN = ("native", "node", "pack", "markdown", "csv")


class _Formats:
    """The formats that can be read; they are imported only where they are needed, because that takes long."""

    def __iter__(self) -> Iterator[str]:
        from memory_server.operations.imports import FORMATS

        return iter(FORMATS)


def exchange(add: Add) -> None:
    """Add the parsers of `export`, `import`, `add-trigger` and `convert`."""
    export = add(
        "export",
        "Export memories for people or programs.",
        "export memories.md --format markdown",
        meaning_of_c=ALL,
        listed=("export, import", N_("Export memories; import those of other programs.")),
    )
    argument(export, "target", "FILE|FOLDER", "file or folder to write; - for standard output")

    argument(
        export,
        "--format",
        None,
        "native (everything) by default",
        dest="to",
        choices=_WRITTEN,
        default="native",
    )
    switch(export, "--force", "replace a file that exists")
    family(export)
    argument(
        export,
        "--type",
        None,
        "only notes of this type",
        choices=("tech", "project-tech", "domain"),
    )
    argument(
        export,
        "--tags",
        "TAGS",
        "only entries that have one of these tags, separated by commas",
        default="",
    )

    into = _(
        "conversation of records that do not name one; by default that of the settings, or `default`"
    )
    import_ = add(
        "import",
        "Import chats and the memories of other programs.",
        "import conversations.json --dry-run",
        meaning_of_c=into,
    )
    _source(import_, nargs="+")
    dry_run(import_, "show what would be imported, what would not, and why")
    switch(import_, "--keep-secrets", "leave keys, tokens and passwords in the texts")

    chat = import_.add_argument_group(_("for a chat"))
    argument(
        chat,
        "--ask",
        "TEXT",
        "then ask this question, and show what is recalled (may be repeated)",
        action="append",
        default=[],
    )
    switch(chat, "--with-hidden", "also import the messages that you hid in SillyTavern")
    switch(
        chat,
        "--shift-to-now",
        "move all times so that the chat ended an hour ago, for trying things out",
    )

    trigger = add(
        "add-trigger",
        "Store a tested trigger: a .js file, or a pack.",
        'add-trigger mother.js --prompt "Ask how his mother is."',
        meaning_of_c=USUAL,
        listed=True,
    )
    argument(trigger, "source", "FILE", "a .js file, or a pack (.json)", nargs="+")
    argument(trigger, "--prompt", "TEXT", "for a .js file: what the model reads when it fires")
    argument(
        trigger,
        "--name",
        "NAME",
        "for a .js file: the name of the memory; by default that of the file",
    )
    argument(trigger, "--encoding", "NAME", "such as gb18030; by default UTF-8")

    rules = trigger.add_argument_group(_("when several memories fire together"))
    argument(
        rules,
        "--order",
        "N",
        "if there is not room for all memories, those with the highest order come first; usually 100",
        type=float,
    )
    argument(
        rules,
        "--group",
        "NAME",
        "groups, separated by commas: if several memories of a group fire together, only one comes",
    )
    argument(
        rules,
        "--cooldown",
        "N",
        "it comes again N messages later at the earliest: with 4, the three between them pass without it",
        type=number_of_messages,
    )
    switch(rules, "--once", "it comes only once in a chat")

    convert = add(
        "convert",
        "Make a pack from files of other programs.",
        "convert book.json pack.json",
        listed=True,
    )
    _source(convert)
    argument(convert, "target", "TO", "file or folder to write; - for standard output")
    argument(
        convert,
        "--as",
        None,
        "format to write; pack by default",
        dest="to",
        choices=_WRITTEN,
        default="pack",
    )
    switch(convert, "--force", "replace a file that exists")


def _source(parser: argparse.ArgumentParser, **more: Any) -> None:
    """Add the arguments of a command that reads a file: the source, its format, and how to read it.
    `more` applies to the source."""
    argument(
        parser,
        "source",
        "FROM",
        "file, database or folder to read; - for standard input",
        **more,
    )
    argument(
        parser,
        "--format",
        "FORMAT",
        "format of the file, one of %(choices)s; by default it is detected",
        choices=_Formats(),
    )
    argument(parser, "--encoding", "NAME", "such as gb18030; by default UTF-8")
    argument(
        parser,
        "--char",
        "NAME",
        "who {{char}} is: the name of the assistant in a chat or lorebook",
    )
    argument(parser, "--user", "NAME", "who {{user}} is")

    lorebook = parser.add_argument_group(_("for a lorebook"))
    argument(
        lorebook,
        "--depth",
        "N",
        "how many messages to scan if the entry does not say it",
        type=int,
    )

    switch(lorebook, "--substrings", "if the entry does not say it, keys also match inside words")
    switch(
        lorebook, "--case-sensitive", "if the entry does not say it, upper and lower case differ"
    )
    switch(
        lorebook, "--no-recursion", "texts of entries that came do not make further entries fire"
    )
    switch(lorebook, "--no-names", "do not look for keys in the names of speakers")
    argument(
        lorebook,
        "--book",
        "NAME",
        "name of the book here; a new version that you import under this name updates it",
    )
    switch(
        parser,
        "--all",
        "report each record that is left out or loses something, not only each kind",
    )
