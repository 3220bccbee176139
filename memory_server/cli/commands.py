"""The commands of `memory-server` with their arguments and help, grouped by their use.

`add(name, "module.function", summary)` makes the parser of a command. The function is in this package and is imported
when the command runs. It takes the open app, or with `opens=False` the settings, and the parsed flags. A command with
`changes=True` is refused if `read_only` is set, unless it has --dry-run.
"""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, _ArgumentGroup
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Add = Callable[..., ArgumentParser]

MOST_BY_CHANCE = 100
"""The most that the settings `flashback_count` and `random_count` allow."""
TYPED = "typed_tools.typed"
_READ = ("native", "node", "gentian", "pack", "worldinfo", "official")
_SEARCH_FLAGS = {
    "keywords": "word",
    "date_from": "since",
    "date_to": "until",
    "tags": "tag",
    "memory_type": "kind",
    "sort_by": "sort",
}
_WRITTEN = ("native", "node", "gentian", "pack", "official", "markdown")


@dataclass(frozen=True, slots=True)
class Short:
    """The command of a tool, whose arguments are made from the tool's schema. `operand`: the property without a flag;
    `flags`: flags with another name than their property. `or_words`: the property for the operand if it is not the id
    of a memory."""

    tool: str
    operand: str = ""
    metavar: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    or_words: str | None = None


def _daily(add: Add) -> None:
    add("serve", "serve.serve", "Serve MCP over standard input and output (the default).", opens=False)
    clients = ("claude-code", "claude-desktop", "cursor", "vscode")
    install = add("install", "install.command.install", "Put the server into a client's settings.", opens=False)
    _argument(install, "client", None, "print: only show what to paste", choices=(*clients, "print"))
    taken = "Take the server out of a client's settings."
    uninstall = add("uninstall", "install.command.uninstall", taken, opens=False)
    _argument(uninstall, "client", None, "the client to take it out of", choices=clients)
    for made in (install, uninstall):
        _argument(made, "--name", "NAME", "what the client calls the server", default="memory")
        _argument(made, "--project", "DIR", "for this project only", nargs="?", const=".")
        _dry_run(made, "show what would change")
    _switch(install, "--with-hooks", "claude-code: also add hooks that recall and remember")

    hook = add("hook", "hook.command.hook", "Recall and remember as a hook of a client.", opens=False)
    recall = add("recall", "turns.recall", "Print what comes to mind, ready for a prompt.", opens=False)
    _argument(hook, "--chars", "N", "characters of recalled text at most", type=int, default=1200)
    _argument(recall, "--chars", "N", "characters at most; usually 1,200", type=int)
    by_chance = "memories of each kind that come by chance; usually"
    _argument(hook, "--flashbacks", "N", f"{by_chance} 0", type=_count, default=0)
    _argument(recall, "--flashbacks", "N", f"{by_chance} 2", type=_count)
    _argument(hook, "--seconds", "S", "give up after this time, silently", type=float, default=5.0)
    remember = add("remember", "turns.remember", "Remember what was said in a turn.", opens=False, changes=True)
    _argument(remember, "--turn", "ID", "the same turn is stored once")
    for made in (recall, remember):
        said = "what the user said; by default messages as JSON on standard input"
        _argument(made, "words", "WORDS", said, nargs="?")
        _argument(made, "--session", "ID", "the session of this turn; memories of other sessions come at once")
        _switch(made, "--json", "print the tool's result as JSON")
    pause = add("pause", "pausing.pause", "Store nothing for a while, and stop hooks from recalling.", changes=True)
    _argument(pause, "--for", "TIME", "such as 30m, 2h or 3d; by default until `resume`", dest="for_")
    add("resume", "pausing.resume", "End the pause.", changes=True)


def _look(add: Add) -> None:
    listing = add("list", "look.list_", "List the conversations, or the memories of one.")
    _one(listing, "list the memories of this one")
    show = add("show", "look.show", "Show everything that is known about one memory.")
    _argument(show, "memory", "ID|NAME", "id (or its beginning) of a short-term, name of a long-term memory")
    _argument(show, "--in", "CONVERSATION", "look in this conversation only", dest="in_")
    search = Short("search_memories", "query", "TEXT", _SEARCH_FLAGS)
    _tool(add, "search", "Find memories by words, dates, scores and tags.", search)
    explain = Short("explain_recall", "memory_id", "ID|WORDS", {"recentMessages": "ask"}, or_words="text")
    _tool(add, "explain", "Say why a memory comes to mind, or does not.", explain)
    _tool(add, "history", "Show who changed what and when, newest first.", Short("get_history"))
    _one(add("stats", "look.stats", "Show the figures of all conversations, or of one."))
    add("where", "look.where", "Show which folder holds what.")
    _knowledge(add("knowledge", "knowledge.knowledge", "Look into notes, make pages of them, and tidy them."))


def _knowledge(made: ArgumentParser) -> None:
    actions = ("list", "show", "document", "reindex", "cleanup", "delete", "restore", "promote", "history")
    about = (
        "list entries or those with WORDS; show, delete or restore one; document: write pages of notes; reindex: merge "
        "notes that say the same; cleanup: archive what is over; promote: move an entry of the project (its key) to "
        "all projects; history: what was changed"
    )
    _argument(made, "action", None, about, choices=actions)
    _argument(made, "words", "WORDS|ID", "words to look for, or the number, id or key of an entry", nargs="*")
    _argument(made, "--space", None, "list: only these", choices=("notes", "sessions", "refs"))
    _switch(made, "--archived", "list: what is in the archive")
    _switch(made, "--json", "list, history: JSON, one line each")
    _argument(made, "--type", None, "document: only this page", choices=("tech", "project-tech", "domain"))
    _argument(made, "--output", "DIR", "document: folder of the pages; memory-docs by default")
    _switch(made, "--stable", "document: pages that change only if a note does")
    _switch(made, "--force", "document: replace files that are not ours")
    _switch(made, "--verbose", "reindex: show what was merged and what was kept apart")
    _dry_run(made, "reindex, cleanup: show what would change")


def _mend(add: Add) -> None:
    _tool(add, "undo", "Take back a change; later changes stay.", Short("undo_change", "changeId", "CHANGE"))
    pin, unpin = Short("pin_memory", "id", "ID"), Short("unpin_memory", "id", "ID")
    _tool(add, "pin", "Keep a short-term memory for good: the clean-up never forgets it.", pin)
    _tool(add, "unpin", "Let the clean-up forget a pinned memory when it has faded.", unpin)
    times = {"removedSince": "since", "removedUntil": "until"}
    unforget = Short("restore_memories_from_archive", "ids", "ID|NAME", times)
    _tool(add, "unforget", "Bring back memories that were deleted or forgotten.", unforget)
    faded = "Forget faded memories where there are too many, in all conversations or in one."
    cleanup = add("cleanup", "mend.cleanup", faded)
    reindex = add("reindex", "mend.reindex", "Find the words of older memories again, with the present settings.")
    for made, what in ((cleanup, "say what would be forgotten, and why"), (reindex, "say what would change")):
        _one(made)
        _dry_run(made, what)

    backup = add("backup", "backup.backup", "Copy all memories, while servers go on writing.", changes=True)
    _argument(backup, "name", "NAME", "name of the backup; by default the time", nargs="?")
    _of(backup)
    restore = add("restore", "backup.restore", "Bring the memories of a backup back.", changes=True)
    _argument(restore, "name", "NAME", "name of the backup")
    _switch(restore, "--overwrite", "also remove what the backup does not hold")
    _dry_run(restore, "say what would change")
    _of(restore)
    backups = add("backups", "backup.backups", "List the backups, or delete one.")
    _argument(backups, "--delete", "NAME", "delete this backup for good")

    doctor = add("doctor", "mend.doctor", "Examine folder, disk, files, locks and clock.")
    _switch(doctor, "--json", "print the findings as JSON")
    repair = add("repair", "mend.repair", "Mend broken files, and save every memory that they hold.", changes=True)
    _one(repair)
    _dry_run(repair, "say what would be done")


def _exchange(add: Add) -> None:
    export = add("export", "exchange.export", "Write memories for people or programs.")
    _argument(export, "target", "FILE|FOLDER", "what to write; - for standard output")
    forms = "native (everything) by default"
    _argument(export, "--format", None, forms, dest="to", choices=_WRITTEN, default="native")
    _of(export)
    _switch(export, "--force", "replace a file that exists")
    import_ = add("import", "exchange.import_", "Bring in memories of other programs.")
    _source(import_)
    _argument(import_, "--into", "CONVERSATION", "the conversation for forms that name none; by default the usual one")
    _dry_run(import_, "say what would be imported, what would not, and why")
    convert = add("convert", "exchange.convert", "Make a pack from files of other programs.")
    _source(convert)
    _argument(convert, "target", "TO", "file or folder to write; - for standard output")
    _argument(convert, "--as", None, "form to write; pack by default", dest="to", choices=_WRITTEN, default="pack")
    _switch(convert, "--force", "replace a file that exists")


def _source(parser: argparse.ArgumentParser) -> None:
    """What `import` and `convert` read."""
    _argument(parser, "source", "FROM", "file or folder to read; - for standard input")
    _argument(parser, "--format", None, "form of the file; by default it is recognized", choices=_READ)
    _argument(parser, "--encoding", "NAME", "such as gb18030; by default UTF-8")
    lorebook = parser.add_argument_group("for a lorebook")
    _argument(lorebook, "--char", "NAME", "what {{char}} stands for")
    _argument(lorebook, "--user", "NAME", "what {{user}} stands for")
    _argument(lorebook, "--depth", "N", "messages to scan where the entry does not say it", type=int)
    _switch(lorebook, "--substrings", "keys match inside words, where the entry does not say it")
    _switch(lorebook, "--case-sensitive", "upper case counts, where the entry does not say it")


def _develop(add: Add) -> None:
    call = add("call", "typed_tools.call", "Call a tool and print its result as JSON.")
    _argument(call, "tool", "TOOL", "name of a tool, such as search_short_term_memories")
    _argument(call, "arguments", "JSON", "its arguments: JSON, @FILE, or - for standard input", nargs="?", default="{}")
    _switch(call, "--text", "print the text for people instead")
    demo = add("demo", "develop.demo.demo", "Store a sample chat of seven weeks and ask about it.", opens=False)
    _switch(demo, "--keep", "keep the demo's data folder and say where it is")
    replay = add("replay", "develop.replay.replay", "Store a chat, message by message, and ask about it.", opens=False)
    _argument(replay, "chat", "CHAT", "a chat file, such as lines of {role, content, timestamp, name?}")
    _argument(replay, "--ask", "TEXT", "then ask this (may be repeated)", action="append", default=[])
    _argument(replay, "--triggers", "FILE", "long-term memories to store first (JSON array)")
    _switch(replay, "--shift-to-now", "move all times so that the chat ended an hour ago")

    plot = add("plot", "develop.plot.plot", "Draw memories over time, or what settings do to them.")
    _argument(plot, "picture", None, "what to draw", choices=("decay", "timeline"))
    _one(plot, "by default the usual one")
    _argument(plot, "--out", "FILE", "FILE.svg; by default named like the picture")
    _argument(plot, "--half-life", "DAYS", "decay: compare this (may be repeated)", type=float, action="append")
    _argument(plot, "--match", "POINTS", "decay: of a memory that matches by these points", type=float, default=15.0)
    _argument(plot, "--ask", "TEXT", "timeline: relevance to this question, and what it would bring")
    _evaluate(add("eval", "develop.evaluate.evaluate", "Measure recall on questions with answers.", opens=False))


def _evaluate(made: ArgumentParser) -> None:
    _argument(made, "dataset", "DATASET", "*.jsonl files, or folders with some", nargs="+")
    before = "messages of another chat before each question; 0: the question alone"
    _argument(made, "--before", "N", before, type=int, default=3)
    _argument(made, "--user", "CONVERSATION", "only the questions of this one (may be repeated)", action="append")
    half = "only every second question, counted from 0 over all files"
    _argument(made, "--questions", None, half, choices=("even", "odd"))
    beside = "also the search with this setting changed, such as compat=node (may be repeated)"
    _argument(made, "--beside", "SETTING=VALUE", beside, action="append", default=[])
    mode = made.add_mutually_exclusive_group()
    _switch(mode, "--sessions", "rank sessions, each by its best memory")
    _switch(mode, "--silence", "ask what the memories have no answer to, and how often nothing comes")
    _switch(mode, "--year", "live a year with reinforcement and clean-up, and ask at its end")
    _switch(made, "--all-users", "ask of all conversations together")
    _argument(made, "--by", None, "also by groups of questions", choices=("language", "kind"), default="language")
    _switch(made, "--json", "print the figures as JSON")


GROUPS: Mapping[str, Callable[[Add], None]] = {
    "daily": _daily,
    "look": _look,
    "mend": _mend,
    "exchange": _exchange,
    "develop": _develop,
}


def _argument(made: ArgumentParser | _ArgumentGroup, name: str, metavar: str | None, about: str, **more: Any) -> None:
    made.add_argument(name, metavar=metavar, help=about, **more)


def _switch(made: ArgumentParser | _ArgumentGroup, name: str, about: str) -> None:
    made.add_argument(name, action="store_true", help=about)


def _tool(add: Add, name: str, summary: str, short: Short) -> None:
    add(name, TYPED, summary).set_defaults(short=short)


def _dry_run(made: ArgumentParser, what: str) -> None:
    _switch(made, "--dry-run", f"only {what}")


def _one(made: ArgumentParser, about: str = "only this conversation") -> None:
    _argument(made, "conversation_id", "CONVERSATION", about, nargs="?")


def _of(made: ArgumentParser) -> None:
    _argument(made, "--of", "CONVERSATION", "only this conversation", dest="conversation_id")


def _count(text: str) -> int:
    """A number of memories, as a flag gives it."""
    if not (text.isascii() and text.isdecimal() and int(text) <= MOST_BY_CHANCE):
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number from 0 to {MOST_BY_CHANCE}")
    return int(text)
