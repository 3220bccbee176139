"""The arguments and the help of `export`, `import`, `add-trigger` and `convert`, as commands.py adds them."""

from __future__ import annotations

import argparse
from typing import Any

from languages import _
from memory_server.cli.command_arguments import (
    ALL,
    UNLISTED,
    USUAL,
    Add,
    argument,
    dry_run,
    family,
    number_of_messages,
    switch,
)

_READ = (
    "native",
    "node",
    "gentian",
    "pack",
    "worldinfo",
    "official",
    "chat",
    "chat-export",
    "claude-code",
    "claude-mem",
    "codex",
    "gemini-cli",
    "livingmemory",
    "mem0",
    "memory-service",
    "notes-db",
    "pages",
    "refs-log",
    "sillytavern",
)
_WRITTEN = ("native", "node", "pack", "markdown", "csv")


def exchange(add: Add) -> None:
    about = _("Export memories for people or programs.")
    example = "export memories.md --format markdown"
    both = ("export, import", _("Export memories; import those of other programs."))
    export = add("export", about, example, about_c=ALL, listed=both)
    argument(export, "target", "FILE|FOLDER", _("file or folder to write; - for standard output"))

    forms = _("native (everything) by default")
    argument(export, "--format", None, forms, dest="to", choices=_WRITTEN, default="native")
    switch(export, "--force", _("replace a file that exists"))
    family(export)
    argument(
        export,
        "--type",
        None,
        _("only notes of this type"),
        choices=("tech", "project-tech", "domain"),
    )
    argument(
        export,
        "--tags",
        "TAGS",
        _("only entries that have one of these tags, separated by commas"),
        default="",
    )

    about = _("Import chats and the memories of other programs.")
    example = "import conversations.json --dry-run"
    into = _(
        "conversation of records that do not name one; by default that of the settings, or `default`"
    )
    import_ = add("import", about, example, about_c=into, listed=UNLISTED)
    _source(import_, nargs="+")
    dry_run(import_, _("show what would be imported, what would not, and why"))
    switch(import_, "--keep-secrets", _("leave keys, tokens and passwords in the texts"))

    chat = import_.add_argument_group(_("for a chat"))
    argument(
        chat,
        "--ask",
        "TEXT",
        _("then ask this question, and show what is recalled (may be repeated)"),
        action="append",
        default=[],
    )
    switch(chat, "--with-hidden", _("also import the messages that you hid in SillyTavern"))
    switch(
        chat,
        "--shift-to-now",
        _("move all times so that the chat ended an hour ago, for trying things out"),
    )

    about = _("Store a tested trigger: a .js file, or a pack.")
    example = 'add-trigger mother.js --prompt "Ask how his mother is."'
    trigger = add("add-trigger", about, example, about_c=USUAL)
    argument(trigger, "source", "FILE", _("a .js file, or a pack (.json)"), nargs="+")
    argument(trigger, "--prompt", "TEXT", _("for a .js file: what the model reads when it fires"))
    argument(
        trigger,
        "--name",
        "NAME",
        _("for a .js file: the name of the memory; by default that of the file"),
    )
    argument(trigger, "--encoding", "NAME", _("such as gb18030; by default UTF-8"))

    rules = trigger.add_argument_group(_("when several memories fire together"))
    argument(
        rules,
        "--order",
        "N",
        _(
            "if there is not room for all memories, those with the highest order come first; usually 100"
        ),
        type=float,
    )
    about = _(
        "groups, separated by commas: if several memories of a group fire together, only one comes"
    )
    argument(rules, "--group", "NAME", about)
    about = _(
        "it comes again N messages later at the earliest: with 4, the three between them pass without it"
    )
    argument(rules, "--cooldown", "N", about, type=number_of_messages)
    switch(rules, "--once", _("it comes only once in a chat"))

    about = _("Make a pack from files of other programs.")
    example = "convert book.json pack.json"
    convert = add("convert", about, example)
    _source(convert)
    argument(convert, "target", "TO", _("file or folder to write; - for standard output"))
    argument(
        convert,
        "--as",
        None,
        _("format to write; pack by default"),
        dest="to",
        choices=_WRITTEN,
        default="pack",
    )
    switch(convert, "--force", _("replace a file that exists"))


def _source(parser: argparse.ArgumentParser, **more: Any) -> None:
    argument(
        parser,
        "source",
        "FROM",
        _("file, database or folder to read; - for standard input"),
        **more,
    )
    argument(
        parser, "--format", None, _("format of the file; by default it is detected"), choices=_READ
    )
    argument(parser, "--encoding", "NAME", _("such as gb18030; by default UTF-8"))
    argument(
        parser,
        "--char",
        "NAME",
        _("who {{char}} is: the name of the assistant in a chat or lorebook"),
    )
    argument(parser, "--user", "NAME", _("who {{user}} is"))

    lorebook = parser.add_argument_group(_("for a lorebook"))
    argument(
        lorebook,
        "--depth",
        "N",
        _("how many messages to scan if the entry does not say it"),
        type=int,
    )

    switch(
        lorebook, "--substrings", _("if the entry does not say it, keys also match inside words")
    )
    switch(
        lorebook, "--case-sensitive", _("if the entry does not say it, upper and lower case differ")
    )
    switch(
        lorebook, "--no-recursion", _("texts of entries that came do not make further entries fire")
    )
    switch(lorebook, "--no-names", _("do not look for keys in the names of speakers"))
    argument(
        lorebook,
        "--book",
        "NAME",
        _("name of the book here; a new version that you import under this name updates it"),
    )
    switch(
        parser,
        "--all",
        _("report each record that is left out or loses something, not only each kind"),
    )
