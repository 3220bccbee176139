"""The command `memory-server`: names, flags and help. What a command does is in `commands/`, imported when it runs."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from memory_server.cli.terminal import complain, show_all_characters
from memory_server.core.errors import InvalidInput, MemoryServerError
from memory_server.version import __version__

if TYPE_CHECKING:
    from memory_server.config import Settings

Run = Callable[["Settings", argparse.Namespace], Coroutine[Any, Any, int]]

EXAMPLES = """\
examples:
  memory-server                                     serve MCP over standard input and output
  memory-server demo                                see what it does, in a minute
  memory-server call get_memory_stats '{}'          any tool, from a shell
  memory-server list 小明                            what is remembered of a conversation
  memory-server replay chat.jsonl --ask '我的生日'   store a chat and ask about it
"""


VALUED = (
    "data-dir",
    "config",
    "conversation",
    "timezone",
    "log-level",
    "now",
    "toolsets",
    "tools",
    "exclude-tools",
    "seed",
)
"""The flags of every command that take a value."""
MOST_BY_CHANCE = 100
"""As the settings `flashback_count` and `random_count` allow at most."""
OFFER = ("toolsets", "tools", "exclude_tools", "read_only")
"""The settings that choose what a client is offered."""


def parser() -> argparse.ArgumentParser:
    """All commands with their flags; docs/reference/commands.md is generated from it."""
    common = argparse.ArgumentParser(add_help=False)
    group = common.add_argument_group("settings, for every command")
    # SUPPRESS: a flag before the command must not be overwritten by the default of the one after it.
    unset = argparse.SUPPRESS
    group.add_argument("--data-dir", metavar="DIR", default=unset, help="folder of the memories")
    group.add_argument("--config", metavar="FILE", default=unset, help="settings file (TOML)")
    group.add_argument("--conversation", metavar="ID", default=unset, help="conversation meant where none is named")
    group.add_argument("--timezone", metavar="ZONE", default=unset, help="IANA time zone, such as Asia/Shanghai")
    group.add_argument("--log-level", metavar="LEVEL", default=unset, help="DEBUG, INFO, WARNING or ERROR")
    group.add_argument(
        "--now", metavar="TIME", default=unset, help="start the clock at this ISO time, for trying things out"
    )
    group.add_argument("--toolsets", metavar="NAMES", default=unset, help="toolsets offered over MCP, or all")
    group.add_argument("--tools", metavar="NAMES", default=unset, help="single tools offered as well")
    group.add_argument("--exclude-tools", metavar="NAMES", default=unset, help="tools never offered")
    group.add_argument("--read-only", action="store_true", default=unset, help="change nothing, offer what reads")
    group.add_argument("--seed", metavar="N", default=unset, help="seed of the chances taken, for trying things out")

    top = argparse.ArgumentParser(
        prog="memory-server",
        description="A memory for chat companions, Claude and Cursor, served over MCP.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
    )
    top.add_argument("--version", action="version", version=f"memory-server {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, module: str, function: str, summary: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=summary, description=summary, parents=[common])
        made.set_defaults(module=module, function=function)
        return made

    command("serve", "memory_server.cli.serve", "serve", "Serve MCP over standard input and output (the default).")

    call = command("call", "memory_server.cli.typed_tools", "call", "Call a tool and print its result as JSON.")
    call.add_argument("tool", metavar="TOOL", help="name of a tool, such as search_short_term_memories")
    call.add_argument(
        "arguments", metavar="JSON", nargs="?", default="{}", help="its arguments: JSON, @FILE, or - for standard input"
    )
    call.add_argument("--text", action="store_true", help="print the text for people instead")

    clients, module = ("claude-code", "claude-desktop", "cursor", "vscode"), "memory_server.cli.install.command"
    install = command("install", module, "install", "Put the server into a client's settings.")
    install.add_argument("client", choices=(*clients, "print"), help="print: only show what belongs there")
    uninstall = command("uninstall", module, "uninstall", "Take the server out of a client's settings.")
    uninstall.add_argument("client", choices=clients, help="where it was put")
    for made in (install, uninstall):
        made.add_argument("--name", metavar="NAME", default="memory", help="what the client calls the server")
        made.add_argument("--project", metavar="DIR", nargs="?", const=".", help="for this project only")
        made.add_argument("--dry-run", action="store_true", help="only show what would change")
    install.add_argument("--with-hooks", action="store_true", help="claude-code: recall and remember by itself")

    hook = command(
        "hook", "memory_server.cli.hook.command", "hook", "Recall and remember by itself, as a client's hook."
    )
    hook.add_argument("--chars", metavar="N", type=int, default=1200, help="characters that are recalled at most")
    hook.add_argument(
        "--flashbacks", metavar="N", type=_count, default=0, help="memories of each kind that come by chance; usually 0"
    )
    hook.add_argument("--seconds", metavar="S", type=float, default=5.0, help="give up after this time, silently")

    turns = "memory_server.cli.turns"
    recall = command("recall", turns, "recall", "Print what comes to mind, ready for a prompt.")
    remember = command("remember", turns, "remember", "Remember what was said in a turn.")
    recall.add_argument("--chars", metavar="N", type=int, help="characters at most; usually 1,200")
    recall.add_argument(
        "--flashbacks", metavar="N", type=_count, help="memories of each kind that come by chance; usually 2"
    )
    remember.add_argument("--turn", metavar="ID", help="the same turn is stored once")
    for made in (recall, remember):
        said = "what the user said; by default messages as JSON on standard input"
        made.add_argument("words", metavar="WORDS", nargs="?", help=said)
        made.add_argument("--session", metavar="ID", help="where it is said; what another session said comes at once")
        made.add_argument("--json", action="store_true", help="print the tool's result as JSON")

    pausing = "memory_server.cli.pausing"
    pause = command("pause", pausing, "pause", "Keep nothing that is said, and let no hook recall, for a while.")
    pause.add_argument("--for", dest="for_", metavar="TIME", help="such as 30m, 2h or 3d; by default until `resume`")
    command("resume", pausing, "resume", "End the pause.")

    inspect = "memory_server.cli.inspect"
    listing = command("list", inspect, "list_", "List the conversations, or the memories of one.")
    listing.add_argument("conversation_id", metavar="CONVERSATION", nargs="?", help="list the memories of this one")
    show = command("show", inspect, "show", "Show one memory with everything that is known of it.")
    show.add_argument(
        "memory", metavar="ID|NAME", help="id (or its beginning) of a short-term, name of a long-term memory"
    )
    show.add_argument("--in", dest="in_", metavar="CONVERSATION", help="look in this conversation only")
    command("where", inspect, "where", "Tell which folder holds what.")
    stats = command("stats", inspect, "stats", "Show the figures of all conversations, or of one.")
    stats.add_argument("conversation_id", metavar="CONVERSATION", nargs="?")
    cleanup = command(
        "cleanup", inspect, "cleanup", "Forget what has faded where there is too much, in all conversations or in one."
    )
    cleanup.add_argument("conversation_id", metavar="CONVERSATION", nargs="?")
    cleanup.add_argument("--dry-run", action="store_true", help="only say what would be forgotten, and why")

    reindex = command(
        "reindex",
        "memory_server.cli.reindex",
        "reindex",
        "Find the words of older memories anew, by the settings.",
    )
    reindex.add_argument("conversation_id", metavar="CONVERSATION", nargs="?", help="only this conversation")
    reindex.add_argument("--dry-run", action="store_true", help="only say what would change")

    archive = "memory_server.cli.archive"
    history = command("history", archive, "history", "Show who changed what and when, newest first.")
    history.add_argument("--limit", metavar="N", type=int, default=20, help="changes to show")
    history.add_argument("--before", metavar="CHANGE", help="show those before this one")
    undo = command("undo", archive, "undo", "Take back a change; what happened since stays.")
    undo.add_argument("change", metavar="CHANGE", help="its id, as tools and `history` tell it")
    pin = command("pin", archive, "pin", "Keep the clean-up from ever forgetting a short-term memory.")
    unpin = command("unpin", archive, "unpin", "Let the clean-up forget a pinned memory when it has faded.")
    for made in (pin, unpin):
        made.add_argument("id", metavar="ID", help="id of the memory")
    unforget = command("unforget", archive, "unforget", "Bring back memories that were deleted or forgotten.")
    unforget.add_argument("ids", metavar="ID|NAME", nargs="*", help="id of a short-term, name of a long-term memory")
    unforget.add_argument("--pattern", metavar="TEXT", help="those with this word, or /regex/flags, in their text")
    unforget.add_argument("--since", metavar="TIME", help="those removed at this ISO time or later")
    unforget.add_argument("--until", metavar="TIME", help="those removed at this ISO time or earlier")
    unforget.add_argument("--dry-run", action="store_true", help="only list what would come back")
    for made in (history, undo, pin, unpin, unforget):
        made.add_argument("--in", dest="in_", metavar="CONVERSATION", help="the conversation; by default the usual one")

    insight = "memory_server.cli.insight"
    explain = command("explain", insight, "explain", "Tell why a memory comes to mind, or does not.")
    explain.add_argument("memory", metavar="ID|WORDS", help="id of a short-term memory, or some of its words")
    explain.add_argument("--ask", metavar="TEXT", action="append", required=True, help="the message (may be repeated)")
    search = command("search", insight, "search", "Find memories by words, dates, scores and tags.")
    search.add_argument("text", metavar="TEXT", nargs="?", default="", help="its words are looked for")
    search.add_argument("--word", metavar="WORD", action="append", help="look for this as it is (may be repeated)")
    search.add_argument("--since", metavar="TIME", help="those of this ISO date or time or later")
    search.add_argument("--until", metavar="TIME", help="those of this ISO date or time or earlier")
    search.add_argument("--min-score", metavar="N", type=float, help="those of at least this score")
    search.add_argument("--max-score", metavar="N", type=float, help="those of at most this score")
    search.add_argument("--tag", metavar="TAG", action="append", help="those with this #tag (may be repeated: all)")
    search.add_argument("--archived", action="store_true", help="among what was forgotten or deleted and can come back")
    search.add_argument("--kind", choices=("short_term", "long_term", "both"), help="both by default")
    search.add_argument("--sort", choices=("relevance", "timestamp", "score"), help="by default what fits")
    search.add_argument("--reverse", action="store_true", help="least, oldest or lowest first")
    search.add_argument("--limit", metavar="N", type=int, default=20, help="memories to show")
    search.add_argument("--offset", metavar="N", type=int, default=0, help="memories to pass over")
    for made in (explain, search):
        made.add_argument("--in", dest="in_", metavar="CONVERSATION", help="the conversation; by default the usual one")
        made.add_argument("--scope", metavar="SCOPE", help="`conversation`, `all`, or a group of the settings")

    plot = command(
        "plot", "memory_server.cli.develop.plot", "plot", "Draw memories over time, or what settings do to them."
    )
    plot.add_argument("picture", choices=("decay", "scores", "timeline"), help="what to draw")
    plot.add_argument("conversation_id", metavar="CONVERSATION", nargs="?", help="by default the usual one")
    plot.add_argument("--out", metavar="FILE", help="FILE.svg or FILE.png; by default an SVG named like the picture")
    plot.add_argument(
        "--half-life", metavar="DAYS", type=float, action="append", help="decay: compare this (may be repeated)"
    )
    plot.add_argument(
        "--match", metavar="POINTS", type=float, default=15.0, help="decay: of a memory that matches by these points"
    )
    plot.add_argument("--ask", metavar="TEXT", help="timeline: relevance to this question, and what it would bring")

    backup = "memory_server.cli.backup"
    made = command("backup", backup, "backup", "Set a copy of all memories aside, while servers go on writing.")
    made.add_argument("name", metavar="NAME", nargs="?", help="name of the backup; by default the time")
    made.add_argument("--of", dest="conversation_id", metavar="CONVERSATION", help="only this conversation")
    restore = command("restore", backup, "restore", "Bring the memories of a backup back.")
    restore.add_argument("name", metavar="NAME", help="name of the backup")
    restore.add_argument("--overwrite", action="store_true", help="also remove what the backup does not hold")
    restore.add_argument("--dry-run", action="store_true", help="only say what would change")
    restore.add_argument("--of", dest="conversation_id", metavar="CONVERSATION", help="only this conversation")
    backups = command("backups", backup, "backups", "List the backups, or delete one.")
    backups.add_argument("--delete", metavar="NAME", help="delete this backup for good")

    export = command("export", "memory_server.cli.export", "export", "Write memories for people or programs.")
    export.add_argument("target", metavar="FILE|FOLDER", help="what to write; - for standard output")
    forms = ("native", "node", "gentian", "pack", "worldinfo", "official", "markdown")
    export.add_argument("--format", choices=forms, default="native", help="native (everything) by default")
    export.add_argument("--of", dest="conversation_id", metavar="CONVERSATION", help="only this conversation")
    export.add_argument("--force", action="store_true", help="replace a file that exists")
    import_ = command("import", "memory_server.cli.import_", "import_", "Bring in memories of other programs.")
    import_.add_argument("source", metavar="FILE|FOLDER", help="what to read; - for standard input")
    kinds = ("native", "node", "gentian", "pack", "worldinfo", "official")
    import_.add_argument("--format", choices=kinds, help="by default what its contents look like")
    import_.add_argument("--into", metavar="CONVERSATION", help="for forms that name none; by default the usual one")
    import_.add_argument("--encoding", metavar="NAME", help="such as gb18030; by default UTF-8")
    import_.add_argument("--dry-run", action="store_true", help="only say what would come, and what not and why")

    doctor = command("doctor", "memory_server.cli.doctor", "doctor", "Examine folder, disk, files, locks and clock.")
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.add_argument("--race", action="store_true", help="let two processes write at once and count what survives")
    repair = command("repair", "memory_server.cli.repair", "repair_", "Save what broken files of memories hold.")
    repair.add_argument("conversation_id", metavar="CONVERSATION", nargs="?", help="only this conversation")
    repair.add_argument("--dry-run", action="store_true", help="only say what would be done")

    replay = command(
        "replay", "memory_server.cli.develop.replay", "replay", "Store a chat, message by message, and ask about it."
    )
    replay.add_argument(
        "chat", metavar="CHAT.jsonl", help="lines of {conversation_id, role, content, timestamp, name?}"
    )
    replay.add_argument("--ask", metavar="TEXT", action="append", default=[], help="then ask this (may be repeated)")
    replay.add_argument("--triggers", metavar="FILE", help="long-term memories to store first (JSON array)")
    replay.add_argument("--shift-to-now", action="store_true", help="move all times so that the chat ended an hour ago")

    evaluate = command(
        "eval", "memory_server.cli.develop.evaluate", "evaluate", "Measure recall on questions with answers."
    )
    evaluate.add_argument("dataset", metavar="DATASET", nargs="+", help="files, or folders with *.jsonl files")
    formats = ("auto", "jsonl", "memorybank", "locomo", "memdaily")
    evaluate.add_argument("--format", choices=formats, default="auto", help="form of the files")
    evaluate.add_argument(
        "--before",
        metavar="N",
        type=int,
        default=3,
        help="messages of another chat before each question; 0: the question alone",
    )
    evaluate.add_argument(
        "--user", metavar="CONVERSATION", action="append", help="only the questions of this one (may be repeated)"
    )
    evaluate.add_argument(
        "--questions", choices=("even", "odd"), help="only every second question, counted from 0 over all files"
    )
    evaluate.add_argument(
        "--beside",
        metavar="SETTING=VALUE",
        action="append",
        default=[],
        help="also the search with this setting changed, such as compat=node (may be repeated)",
    )
    mode = evaluate.add_mutually_exclusive_group()
    mode.add_argument("--sessions", action="store_true", help="rank sessions, each by its best memory")
    mode.add_argument(
        "--silence", action="store_true", help="ask what the memories have no answer to, and how often nothing comes"
    )
    mode.add_argument(
        "--year", action="store_true", help="live a year with reinforcement and clean-up, and ask at its end"
    )
    evaluate.add_argument(
        "--small-talk",
        metavar="FILE",
        action="append",
        help="small talk for --silence in place of our own, one sentence a line (may be repeated)",
    )
    scope = evaluate.add_mutually_exclusive_group()
    scope.add_argument("--own-user", action="store_true", help="ask of the question's own conversation (the default)")
    scope.add_argument("--all-users", action="store_true", help="ask of all conversations together")
    evaluate.add_argument(
        "--memories", choices=("exchange", "turn"), default="exchange", help="what becomes one memory"
    )
    evaluate.add_argument(
        "--later",
        metavar="DAYS",
        type=float,
        default=0.0,
        help="ask everything so many days later than the data set says",
    )
    evaluate.add_argument("--by", choices=("language", "kind"), default="language", help="also by groups of questions")
    evaluate.add_argument("--json", action="store_true", help="print the figures as JSON")
    evaluate.add_argument("--plot", metavar="FILE", help="draw the recall of each ranker into FILE.svg or FILE.png")

    demo = command(
        "demo",
        "memory_server.cli.develop.demo",
        "demo",
        "Replay a sample conversation of seven weeks and ask about it.",
    )
    demo.add_argument("--keep", action="store_true", help="keep the demo's data folder and say where it is")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    if arguments is None and sys.getfilesystemencoding() != "utf-8":
        from sandbox.utf8_mode import begin_again_in_utf8_mode  # imported only here: it takes time

        begin_again_in_utf8_mode()
    given = sys.argv[1:] if arguments is None else arguments
    command = _command_in(given)
    if command != "hook":
        if arguments is None and command in (None, "serve"):
            gc.disable()  # what importing makes stays; to look through it takes a fifth of the start. App ends this
        return _main(given, owns_process=arguments is None)
    _hurry()
    # Whatever is wrong with a hook, with its settings or with its flags: 2 would block the user's prompt.
    try:
        _main(given)
    except SystemExit:
        pass
    except Exception as error:
        complain(f"hook: {type(error).__name__}: {error}")
    return 0


def _count(text: str) -> int:
    """A number of memories, as a flag gives it."""
    if not (text.isascii() and text.isdecimal() and int(text) <= MOST_BY_CHANCE):
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number from 0 to {MOST_BY_CHANCE}")
    return int(text)


def _command_in(given: Sequence[str]) -> str | None:
    """The command that is typed, found without the parser: what is wrong with the rest must not matter."""
    words = iter(given)
    for word in words:
        if not word.startswith("-"):
            return word
        if word.removeprefix("--") in VALUED:
            next(words, None)  # its value
    return None


def _hurry() -> None:
    """Leave out what a process that asks once and ends has no use for: a fifth of what a user waits for at a prompt."""
    if "asyncio" in sys.modules:
        return  # not a process of its own
    gc.disable()  # what importing makes stays to the end
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for them reads every installed package
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type] # asyncio does without


def _main(arguments: list[str], *, owns_process: bool = False) -> int:
    show_all_characters()
    flags = parser().parse_args(arguments)
    names = ("data_dir", "conversation", "timezone", "log_level", "now", "seed", *OFFER)
    given = {name: getattr(flags, name) for name in names if hasattr(flags, name)}
    try:
        import asyncio

        from memory_server import config
        from memory_server.cli import logs

        file = Path(flags.config) if hasattr(flags, "config") else None
        # Whoever instruments the process (`opentelemetry-instrument`) has its last figures to send when it ends.
        instrumented = "opentelemetry.sdk" in sys.modules
        settings = config.load(os.environ, given, file)
        logs.log_to_stderr(settings.log_level)
        module = import_module(getattr(flags, "module", "memory_server.cli.serve"))
        run: Run = getattr(module, getattr(flags, "function", "serve"))
        status = asyncio.run(run(settings, flags))
        if owns_process and run.__name__ == "serve" and not instrumented:
            _leave(status)
        return status
    except InvalidInput as error:
        complain(str(error))
        return 2
    except MemoryServerError as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not complain about that while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _leave(status: int) -> NoReturn:
    """End the process at once. All that was to be written is; Python would free its memory piece by piece, for longer
    than a client waits before it kills."""
    import logging

    logging.shutdown()
    os._exit(status)
