"""The commands of `memory-server` with their arguments and help, grouped by their use.

`add(name, "module.function", summary)` makes the parser of a command. The function is in this package, takes the
settings and the parsed flags, and is imported when the command runs.
"""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Add = Callable[[str, str, str], ArgumentParser]

MOST_BY_CHANCE = 100
"""The most that the settings `flashback_count` and `random_count` allow."""
TYPED = "typed_tools.typed"
_READ = ("native", "node", "gentian", "pack", "worldinfo", "official")
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
    add("serve", "serve.serve", "Serve MCP over standard input and output (the default).")
    clients = ("claude-code", "claude-desktop", "cursor", "vscode")
    install = add("install", "install.command.install", "Put the server into a client's settings.")
    install.add_argument("client", choices=(*clients, "print"), help="print: only show what to paste")
    uninstall = add("uninstall", "install.command.uninstall", "Take the server out of a client's settings.")
    uninstall.add_argument("client", choices=clients, help="the client to take it out of")
    for made in (install, uninstall):
        made.add_argument("--name", metavar="NAME", default="memory", help="what the client calls the server")
        made.add_argument("--project", metavar="DIR", nargs="?", const=".", help="for this project only")
        _dry_run(made, "show what would change")
    install.add_argument(
        "--with-hooks", action="store_true", help="claude-code: also add hooks that recall and remember"
    )

    hook = add("hook", "hook.command.hook", "Recall and remember as a hook of a client.")
    recall = add("recall", "turns.recall", "Print what comes to mind, ready for a prompt.")
    hook.add_argument("--chars", metavar="N", type=int, default=1200, help="characters of recalled text at most")
    recall.add_argument("--chars", metavar="N", type=int, help="characters at most; usually 1,200")
    for made, usual in ((hook, 0), (recall, None)):
        about = f"memories of each kind that come by chance; usually {2 if usual is None else usual}"
        made.add_argument("--flashbacks", metavar="N", type=_count, default=usual, help=about)
    hook.add_argument("--seconds", metavar="S", type=float, default=5.0, help="give up after this time, silently")
    remember = add("remember", "turns.remember", "Remember what was said in a turn.")
    remember.add_argument("--turn", metavar="ID", help="the same turn is stored once")
    for made in (recall, remember):
        said = "what the user said; by default messages as JSON on standard input"
        made.add_argument("words", metavar="WORDS", nargs="?", help=said)
        made.add_argument(
            "--session", metavar="ID", help="the session of this turn; memories of other sessions come at once"
        )
        made.add_argument("--json", action="store_true", help="print the tool's result as JSON")
    pause = add("pause", "pausing.pause", "Store nothing for a while, and stop hooks from recalling.")
    pause.add_argument("--for", dest="for_", metavar="TIME", help="such as 30m, 2h or 3d; by default until `resume`")
    add("resume", "pausing.resume", "End the pause.")


def _look(add: Add) -> None:
    listing = add("list", "inspect.list_", "List the conversations, or the memories of one.")
    _one(listing, "list the memories of this one")
    show = add("show", "inspect.show", "Show everything that is known about one memory.")
    named = "id (or its beginning) of a short-term, name of a long-term memory"
    show.add_argument("memory", metavar="ID|NAME", help=named)
    show.add_argument("--in", dest="in_", metavar="CONVERSATION", help="look in this conversation only")
    knowledge = add("knowledge", "knowledge.knowledge", "Look into notes, make pages of them, and tidy them.")
    _knowledge(knowledge)
    search = {"keywords": "word", "date_from": "since", "date_to": "until"}
    search |= {"tags": "tag", "memory_type": "kind", "sort_by": "sort"}
    about = "Find memories by words, dates, scores and tags."
    _tool(add, "search", about, Short("search_memories", "query", "TEXT", search))
    explain = Short("explain_recall", "memory_id", "ID|WORDS", {"recentMessages": "ask"}, or_words="text")
    _tool(add, "explain", "Say why a memory comes to mind, or does not.", explain)
    _tool(add, "history", "Show who changed what and when, newest first.", Short("get_history"))
    _one(add("stats", "inspect.stats", "Show the figures of all conversations, or of one."))
    add("where", "inspect.where", "Show which folder holds what.")


def _knowledge(made: ArgumentParser) -> None:
    made.add_argument(
        "action",
        choices=("list", "show", "document", "reindex", "cleanup", "delete", "restore", "history"),
        help="list entries or those with WORDS; show, delete or restore one; document: write pages of notes; reindex: "
        "merge notes that say the same; cleanup: archive what is over; history: what was changed",
    )
    made.add_argument("words", metavar="WORDS|ID", nargs="*", help="words to look for, or the number or id of an entry")
    made.add_argument("--space", choices=("notes", "sessions", "refs"), help="list: only these")
    made.add_argument("--archived", action="store_true", help="list: what is in the archive")
    made.add_argument("--json", action="store_true", help="list, history: JSON, one line each")
    made.add_argument("--type", choices=("tech", "project-tech", "domain"), help="document: only this page")
    made.add_argument("--output", metavar="DIR", help="document: folder of the pages; memory-docs by default")
    made.add_argument("--stable", action="store_true", help="document: pages that change only if a note does")
    made.add_argument("--force", action="store_true", help="document: replace files that are not ours")
    made.add_argument("--verbose", action="store_true", help="reindex: show what was merged and what was kept apart")
    _dry_run(made, "reindex, cleanup: show what would change")


def _mend(add: Add) -> None:
    undo = Short("undo_change", "changeId", "CHANGE")
    _tool(add, "undo", "Take back a change; later changes stay.", undo)
    pin, unpin = Short("pin_memory", "id", "ID"), Short("unpin_memory", "id", "ID")
    _tool(add, "pin", "Keep a short-term memory for good: the clean-up never forgets it.", pin)
    _tool(add, "unpin", "Let the clean-up forget a pinned memory when it has faded.", unpin)
    times = {"removedSince": "since", "removedUntil": "until"}
    unforget = Short("restore_memories_from_archive", "ids", "ID|NAME", times)
    _tool(add, "unforget", "Bring back memories that were deleted or forgotten.", unforget)
    faded = "Forget faded memories where there are too many, in all conversations or in one."
    cleanup = add("cleanup", "inspect.cleanup", faded)
    reindex = add("reindex", "reindex.reindex", "Find the words of older memories again, with the present settings.")
    for made, what in ((cleanup, "say what would be forgotten, and why"), (reindex, "say what would change")):
        _one(made)
        _dry_run(made, what)

    backup = add("backup", "backup.backup", "Set a copy of all memories aside, while servers go on writing.")
    backup.add_argument("name", metavar="NAME", nargs="?", help="name of the backup; by default the time")
    _of(backup)
    restore = add("restore", "backup.restore", "Bring the memories of a backup back.")
    restore.add_argument("name", metavar="NAME", help="name of the backup")
    restore.add_argument("--overwrite", action="store_true", help="also remove what the backup does not hold")
    _dry_run(restore, "say what would change")
    _of(restore)
    backups = add("backups", "backup.backups", "List the backups, or delete one.")
    backups.add_argument("--delete", metavar="NAME", help="delete this backup for good")

    doctor = add("doctor", "doctor.doctor", "Examine folder, disk, files, locks and clock.")
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.add_argument("--race", action="store_true", help="let two processes write at once and count what survives")
    repair = add("repair", "repair.repair_", "Mend broken files, and save every memory that they hold.")
    _one(repair)
    _dry_run(repair, "say what would be done")


def _exchange(add: Add) -> None:
    export = add("export", "export.export", "Write memories for people or programs.")
    export.add_argument("target", metavar="FILE|FOLDER", help="what to write; - for standard output")
    forms = "native (everything) by default"
    export.add_argument("--format", dest="to", choices=_WRITTEN, default="native", help=forms)
    _of(export)
    export.add_argument("--force", action="store_true", help="replace a file that exists")
    import_ = add("import", "import_.import_", "Bring in memories of other programs.")
    _source(import_)
    import_.add_argument(
        "--into", metavar="CONVERSATION", help="the conversation for forms that name none; by default the usual one"
    )
    _dry_run(import_, "say what would be imported, what would not, and why")
    convert = add("convert", "convert.convert", "Make a pack from files of other programs.")
    _source(convert)
    convert.add_argument("target", metavar="TO", help="file or folder to write; - for standard output")
    convert.add_argument("--as", dest="to", choices=_WRITTEN, default="pack", help="form to write; pack by default")
    convert.add_argument("--force", action="store_true", help="replace a file that exists")


def _source(parser: argparse.ArgumentParser) -> None:
    """What `import` and `convert` read."""
    parser.add_argument("source", metavar="FROM", help="file or folder to read; - for standard input")
    parser.add_argument("--format", choices=_READ, help="form of the file; by default it is recognized")
    parser.add_argument("--encoding", metavar="NAME", help="such as gb18030; by default UTF-8")
    lorebook = parser.add_argument_group("for a lorebook")
    lorebook.add_argument("--char", metavar="NAME", help="what {{char}} stands for")
    lorebook.add_argument("--user", metavar="NAME", help="what {{user}} stands for")
    lorebook.add_argument("--depth", type=int, metavar="N", help="messages to scan where the entry does not say it")
    lorebook.add_argument(
        "--substrings", action="store_true", help="keys match inside words, where the entry does not say it"
    )
    lorebook.add_argument(
        "--case-sensitive", action="store_true", help="upper case counts, where the entry does not say it"
    )


def _develop(add: Add) -> None:
    call = add("call", "typed_tools.call", "Call a tool and print its result as JSON.")
    call.add_argument("tool", metavar="TOOL", help="name of a tool, such as search_short_term_memories")
    json = "its arguments: JSON, @FILE, or - for standard input"
    call.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help=json)
    call.add_argument("--text", action="store_true", help="print the text for people instead")
    demo = add("demo", "develop.demo.demo", "Replay a sample conversation of seven weeks and ask about it.")
    demo.add_argument("--keep", action="store_true", help="keep the demo's data folder and say where it is")
    replay = add("replay", "develop.replay.replay", "Store a chat, message by message, and ask about it.")
    replay.add_argument("chat", metavar="CHAT", help="a chat file, such as lines of {role, content, timestamp, name?}")
    replay.add_argument("--ask", metavar="TEXT", action="append", default=[], help="then ask this (may be repeated)")
    replay.add_argument("--triggers", metavar="FILE", help="long-term memories to store first (JSON array)")
    replay.add_argument("--shift-to-now", action="store_true", help="move all times so that the chat ended an hour ago")

    plot = add("plot", "develop.plot.plot", "Draw memories over time, or what settings do to them.")
    plot.add_argument("picture", choices=("decay", "scores", "timeline"), help="what to draw")
    _one(plot, "by default the usual one")
    plot.add_argument("--out", metavar="FILE", help="FILE.svg or FILE.png; by default an SVG named like the picture")
    half_life = "decay: compare this (may be repeated)"
    plot.add_argument("--half-life", metavar="DAYS", type=float, action="append", help=half_life)
    match = "decay: of a memory that matches by these points"
    plot.add_argument("--match", metavar="POINTS", type=float, default=15.0, help=match)
    plot.add_argument("--ask", metavar="TEXT", help="timeline: relevance to this question, and what it would bring")
    _evaluate(add("eval", "develop.evaluate.evaluate", "Measure recall on questions with answers."))


def _evaluate(made: ArgumentParser) -> None:
    made.add_argument("dataset", metavar="DATASET", nargs="+", help="files, or folders with *.jsonl files")
    formats = ("auto", "jsonl", "memorybank", "locomo", "memdaily")
    made.add_argument("--format", choices=formats, default="auto", help="form of the files")
    before = "messages of another chat before each question; 0: the question alone"
    made.add_argument("--before", metavar="N", type=int, default=3, help=before)
    user = "only the questions of this one (may be repeated)"
    made.add_argument("--user", metavar="CONVERSATION", action="append", help=user)
    half = "only every second question, counted from 0 over all files"
    made.add_argument("--questions", choices=("even", "odd"), help=half)
    beside = "also the search with this setting changed, such as compat=node (may be repeated)"
    made.add_argument("--beside", metavar="SETTING=VALUE", action="append", default=[], help=beside)
    mode = made.add_mutually_exclusive_group()
    mode.add_argument("--sessions", action="store_true", help="rank sessions, each by its best memory")
    silence = "ask what the memories have no answer to, and how often nothing comes"
    mode.add_argument("--silence", action="store_true", help=silence)
    year = "live a year with reinforcement and clean-up, and ask at its end"
    mode.add_argument("--year", action="store_true", help=year)
    talk = "small talk for --silence in place of our own, one sentence a line (may be repeated)"
    made.add_argument("--small-talk", metavar="FILE", action="append", help=talk)
    scope = made.add_mutually_exclusive_group()
    scope.add_argument("--own-user", action="store_true", help="ask of the question's own conversation (the default)")
    scope.add_argument("--all-users", action="store_true", help="ask of all conversations together")
    grain = "what becomes one memory"
    made.add_argument("--memories", choices=("exchange", "turn"), default="exchange", help=grain)
    later = "ask everything so many days later than the data set says"
    made.add_argument("--later", metavar="DAYS", type=float, default=0.0, help=later)
    made.add_argument("--by", choices=("language", "kind"), default="language", help="also by groups of questions")
    made.add_argument("--json", action="store_true", help="print the figures as JSON")
    made.add_argument("--plot", metavar="FILE", help="draw the recall of each ranker into FILE.svg or FILE.png")


GROUPS: Mapping[str, Callable[[Add], None]] = {
    "daily": _daily,
    "look": _look,
    "mend": _mend,
    "exchange": _exchange,
    "develop": _develop,
}


def _tool(add: Add, name: str, summary: str, short: Short) -> None:
    add(name, TYPED, summary).set_defaults(short=short)


def _dry_run(made: ArgumentParser, what: str) -> None:
    made.add_argument("--dry-run", action="store_true", help=f"only {what}")


def _one(made: ArgumentParser, about: str = "only this conversation") -> None:
    made.add_argument("conversation_id", metavar="CONVERSATION", nargs="?", help=about)


def _of(made: ArgumentParser) -> None:
    made.add_argument("--of", dest="conversation_id", metavar="CONVERSATION", help="only this conversation")


def _count(text: str) -> int:
    """A number of memories, as a flag gives it."""
    if not (text.isascii() and text.isdecimal() and int(text) <= MOST_BY_CHANCE):
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number from 0 to {MOST_BY_CHANCE}")
    return int(text)
